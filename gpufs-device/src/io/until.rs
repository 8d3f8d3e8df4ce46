//! Waiting until a file is ready, for ever or up to a time, and calls that try until it is ([R-8]).
//!
//! A call is tried without waiting, by all its lanes as one batch. A lane that has to wait does so alone and holds nothing but what the rule sets
//! aside for polls: who ends its wait may be another lane of its warp.

use gpufs_core::abi::Sqe;
use gpufs_core::session::{FileIndex, OpenFile, SessionTables, Target, WaitReason};
use gpufs_core::{Errno, Operation, Outcome};

use super::ready::{await_ready, submit};
use super::{Backoff, Rests, abandon, drain, is_ready, poll_entry, ring_of_warp, slot_hint};
use crate::warp::{Lanes, Machine, Warp};

/// A wait with a time limit that has taken longer than this looks less often than other waits do.
const LONG_NS: u64 = 1_000_000;
/// But once in so many nanoseconds.
const NAP_NS_MAX: u64 = 1_000_000;

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// To its end.
    Done,
    /// It has moved something, and goes on at once.
    Moved,
    /// It would have to wait until its file is ready.
    Waits,
}

/// What a lane waits for: a descriptor, how it was when the call began, and the events that end the wait.
#[derive(Clone, Copy)]
pub(crate) struct Awaited {
    pub(crate) descriptor: FileIndex,
    pub(crate) target: Target,
    pub(crate) flags: u32,
    pub(crate) events: u32,
}

impl Awaited {
    /// The open file of a descriptor.
    ///
    /// # Errors
    /// `EBADF`.
    pub(crate) fn new(session: &SessionTables, descriptor: FileIndex, events: u32) -> Result<Self, Errno> {
        let (file, flags) = session.file_and_flags(descriptor)?;
        Ok(Self { descriptor, target: file.target_of(flags, descriptor), flags, events })
    }
    /// The same of a socket.
    ///
    /// # Errors
    /// `EBADF`; `ENOTSOCK`.
    pub(crate) fn socket(session: &SessionTables, descriptor: FileIndex, events: u32) -> Result<Self, Errno> {
        let awaited = Self::new(session, descriptor, events)?;
        if awaited.flags & OpenFile::SOCKET == 0 { Err(Errno::NOTSOCK) } else { Ok(awaited) }
    }
    /// Whether calls on it wait.
    pub(crate) const fn waits(&self) -> bool {
        self.flags & OpenFile::NONBLOCK == 0
    }
    /// Whether the descriptor is still that file.
    pub(crate) fn is_still_open(&self, session: &SessionTables) -> bool {
        session.file_and_flags(self.descriptor).is_ok_and(|(file, flags)| {
            flags == self.flags && file.target_of(flags, self.descriptor) == self.target
        })
    }
}

/// Calls `attempt` until it is done. It is called by `lanes` first, with `true` in those that have something to wait for, and then by each lane
/// alone. Convergent; called by `lanes`.
///
/// # Errors
/// Why a wait ended otherwise than with the file ready: `EBADF` where it was closed meanwhile.
pub(crate) fn until_done(
    session: &SessionTables,
    lanes: Lanes,
    awaited: Option<Awaited>,
    mut attempt: impl FnMut(Lanes, bool) -> Progress,
) -> Result<(), Errno> {
    let mut progress = attempt(lanes, awaited.is_some());
    let goes_on = awaited.is_some() && progress != Progress::Done;
    let waiting = lanes.ballot(goes_on);
    let Some(awaited) = awaited.filter(|_| goes_on) else { return Ok(()) };
    lanes.subset(waiting).grouped(u64::from(lanes.lane()), |alone| {
        // Ends: each round waits for the other party, or moves something, or is the last.
        loop {
            if progress == Progress::Waits {
                await_ready(session, alone, awaited.target, awaited.events)?;
            }
            if !awaited.is_still_open(session) {
                return Err(Errno::BADF);
            }
            progress = attempt(alone, true);
            if progress == Progress::Done {
                return Ok(());
            }
        }
    })
}

/// Waits until a file is ready for one of `events`, has failed or been hung up: `true`; or until the device's clock says `end_ns`: `false`. One lane
/// alone.
///
/// # Errors
/// The poll's. Of a thread of the host's, that it gave up.
pub(crate) fn await_until(
    session: &SessionTables,
    alone: Lanes,
    target: Target,
    events: u32,
    end_ns: Option<u64>,
) -> Result<bool, Errno> {
    let Some(end_ns) = end_ns else { return await_ready(session, alone, target, events).map(|()| true) };
    let ring = ring_of_warp(session);
    let mut rests = Rests::new(session, ring);
    // Ends: at the time's end, or before.
    loop {
        let queue = &session.queues()[ring as usize];
        if queue.begin_wait() {
            let result = poll_until(session, ring, alone, poll_entry(target, events), end_ns);
            queue.end_wait();
            return match Errno::check(result) {
                Ok(_) => Ok(true),
                Err(Errno::CANCELED) => Ok(false),
                Err(errno) => Err(errno),
            };
        }
        rests.rest(alone, u64::from(target.fd.cast_unsigned()))?;
        if is_ready(session, alone, target, events)? {
            return Ok(true);
        }
        if Machine::clock() >= end_ns {
            return Ok(false);
        }
    }
}

/// A poll that was admitted, or another operation whose slot was set aside ([R-8]), cancelled when the clock says `end_ns`: `ECANCELED` then.
///
/// It holds its own slot while it waits for one to cancel with. That comes: of all slots that may be held for ever, [R-8] leaves two free.
pub(super) fn poll_until(session: &SessionTables, ring: u32, alone: Lanes, entry: Sqe, end_ns: u64) -> i32 {
    let queue = &{ session.queues()[ring as usize] };
    let mut backoff = Backoff::new(session);
    // Ends: a slot comes ([L-PROGRESS b]).
    let claim = loop {
        if let Some(claim) = queue.claim(1, slot_hint(ring)) {
            break claim;
        }
        let drained = drain(session, alone, ring);
        if let Err(errno) = backoff.wait(drained, WaitReason::Slot, ring, 0) {
            return -errno.number();
        }
    };
    let operation = submit(queue, &claim, entry);
    let started = Machine::clock();
    let mut cancel: Option<(Operation, gpufs_core::SlotClaim)> = None;
    // Ends: with the poll, which ends by itself or is cancelled.
    let result = loop {
        let drained = drain(session, alone, ring);
        let outcome = queue.outcome(operation);
        let answered =
            cancel.as_ref().is_none_or(|(cancel, _)| matches!(queue.outcome(*cancel), Outcome::Done(_)));
        if let (Outcome::Done(value), true) = (outcome, answered) {
            break value;
        }
        if cancel.is_none()
            && !matches!(outcome, Outcome::Done(_))
            && Machine::clock() >= end_ns
            && let Some(spare) = queue.claim(1, slot_hint(ring))
        {
            cancel = Some((submit(queue, &spare, Sqe::async_cancel(operation.token())), spare));
        }
        // A lane that has waited for long looks less often, and later by no more than a part of the wait.
        let waited = Machine::clock().saturating_sub(started);
        if waited > LONG_NS && cancel.is_none() {
            let left = end_ns.saturating_sub(started + waited);
            Machine::nap((waited / 16).min(left).min(NAP_NS_MAX) as u32);
        }
        if let Err(errno) =
            backoff.wait_for_completion(drained, WaitReason::Completion, ring, operation.token())
        {
            // A thread of the host's gives up. What is still in flight keeps its slot.
            return match abandon::cancel(ring, queue, operation, operation.token()) {
                Some(result) => {
                    queue.release(claim);
                    result
                }
                None => -errno.number(),
            };
        }
    };
    queue.release(claim);
    if let Some((_, spare)) = cancel {
        queue.release(spare);
    }
    result
}
