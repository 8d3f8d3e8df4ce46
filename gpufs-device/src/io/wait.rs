//! Waiting: every loop that waits naps here, and gives up where the session has a deadline or the ring has failed: a lane by a panic, which
//! ends its kernel, a call of the host's own by an error.

use gpufs_core::Errno;
use gpufs_core::session::{SessionTables, WaitReason};

use super::Drained;
use crate::warp::{Machine, Warp};

/// Shortest and longest nap in nanoseconds.
const NAP_NS: (u32, u32) = (50, 1_000);
/// The same where many wait.
const NAP_OF_MANY_NS: (u32, u32) = (400, Machine::NAP_OF_MANY_NS);
/// The longest naps after which a lane that gives up no longer waits for the report of the one that gave up first.
const STALL_NAPS: u32 = 1_000;

/// One wait: naps that grow, until the session's deadline.
pub(crate) struct Backoff<'a> {
    session: &'a SessionTables,
    nap_ns: u32,
    longest_ns: u32,
    started_ns: Option<u64>,
}

impl<'a> Backoff<'a> {
    /// For a wait that begins now.
    pub(crate) const fn new(session: &'a SessionTables) -> Self {
        Self { session, nap_ns: NAP_NS.0, longest_ns: NAP_NS.1, started_ns: None }
    }

    /// For a wait in which all warps of a GPU may be at once: they look less often, or those that they wait for would find the
    /// words busy.
    pub(crate) const fn of_many(session: &'a SessionTables) -> Self {
        Self { session, nap_ns: NAP_OF_MANY_NS.0, longest_ns: NAP_OF_MANY_NS.1, started_ns: None }
    }

    /// Naps once, shorter after completions were delivered. Any lane; not convergent.
    ///
    /// # Errors
    /// Of a thread of the host's, which is to give up: `ETIMEDOUT` past the session's deadline, `EIO` where the ring has failed.
    ///
    /// # Panics
    /// Of a lane: if the session has a deadline and it has passed, or `drained` says that the ring has failed: the reason, the ring and the
    /// object waited for are noted in the session for the host, and named in the message.
    pub(crate) fn wait(
        &mut self,
        drained: Drained,
        reason: WaitReason,
        ring: u32,
        object: u64,
    ) -> Result<(), Errno> {
        self.check(drained, reason, ring, object)?;
        self.nap_ns =
            if drained == Drained::Some { NAP_NS.0 } else { (self.nap_ns * 2).min(self.longest_ns) };
        Machine::nap(self.nap_ns);
        Ok(())
    }

    /// As [`Backoff::wait`], for a lane whose own completion is due: it naps only where others drain, since it has just looked itself, over
    /// the bus, or handed completions on, its own perhaps among them.
    pub(crate) fn wait_for_completion(
        &mut self,
        drained: Drained,
        reason: WaitReason,
        ring: u32,
        object: u64,
    ) -> Result<(), Errno> {
        if Machine::POLLS_BEFORE_YIELD == 1 || drained == Drained::Elsewhere {
            self.wait(drained, reason, ring, object)
        } else {
            self.check(drained, reason, ring, object)
        }
    }

    /// Gives up past the deadline, and where the ring has failed.
    #[inline]
    fn check(&mut self, drained: Drained, reason: WaitReason, ring: u32, object: u64) -> Result<(), Errno> {
        // One place gives up: the loops that wait are short.
        if drained == Drained::Failed || (self.session.deadline_ns != 0 && self.is_late(drained)) {
            if Machine::is_host() {
                return Err(if drained == Drained::Failed { Errno::IO } else { Errno::TIMEDOUT });
            }
            self.give_up(reason, ring, object);
        }
        Ok(())
    }

    /// Whether nothing has completed for longer than the session's deadline.
    fn is_late(&mut self, drained: Drained) -> bool {
        let now = Machine::clock();
        let started = *self.started_ns.get_or_insert(now);
        if drained == Drained::Some {
            self.started_ns = Some(now);
        }
        drained != Drained::Some && now.saturating_sub(started) > self.session.deadline_ns
    }

    #[cold]
    fn give_up(&self, reason: WaitReason, ring: u32, object: u64) -> ! {
        let stall = self.session.stall();
        let progress = self.session.all_queues()[ring as usize].progress();
        if self.session.claim_stall() {
            stall.note(reason, ring, object, progress);
        } else {
            // On a GPU the first panic ends the kernel: the report should be whole by then. Ends: a count.
            for _ in 0..STALL_NAPS {
                // ORDERING: acquire, system, partner `Stall::note`.
                if stall.reason.observe() != 0 {
                    break;
                }
                Machine::nap(NAP_NS.1);
            }
        }
        panic!(
            "gpufs: a wait passed its deadline, or its ring has failed: reason {reason:?}, ring {ring}, object {object:#x}, {progress:?}"
        );
    }
}
