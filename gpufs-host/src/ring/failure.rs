//! A ring whose service has stopped for good, after it had worked: how the host notices, and how it tells the lanes that wait ([R-9]).
//!
//! | mode | stops when |
//! |---|---|
//! | `sqpoll` | the kernel's thread sleeps and may not be woken, or has died, or takes nothing for long |
//! | `enter` | `io_uring_enter(2)` is refused, or takes nothing for long |
//! | `threads` | never: the threads are this process's own; a service ring whose threads the system refuses to start, for long |

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use gpufs_core::word::{DeviceWord, DeviceWord64};
use gpufs_core::{Errno, Queue};

use super::error::ENTER;
use super::{Inner, Mode};

/// How long entries may lie in a ring untouched. On a machine that works, no kernel takes as long between two entries.
const UNTOUCHED_MAX: Duration = Duration::from_secs(30);
/// After this long the host asks the kernel's thread whether it lives.
const ASK_AFTER: Duration = Duration::from_secs(2);

/// Why a ring's service has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopped {
    /// `io_uring_enter(2)` fails with this for good.
    Refused(Errno),
    /// The kernel took no entry for this long, though some were there.
    Silent(Duration),
}

/// A ring whose service has stopped for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The ring's index in its session.
    pub ring: usize,
    /// What served it.
    pub mode: Mode,
    /// Why nothing serves it any more.
    pub stopped: Stopped,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ring, mode, stopped } = self;
        write!(f, "ring {ring}, in the mode {mode}, has failed: ")?;
        match stopped {
            Stopped::Refused(errno @ (Errno::PERM | Errno::ACCES | Errno::NOSYS)) => write!(
                f,
                "{ENTER} is refused since the session was opened ({errno}), as by a seccomp filter that was installed later; install it \
                 before, so that a mode is chosen that does without, or let it pass {ENTER}; then open a new session"
            ),
            Stopped::Refused(errno) => write!(f, "{ENTER} fails for good ({errno}); open a new session"),
            Stopped::Silent(time) => {
                write!(
                    f,
                    "the kernel has taken no operation from it for {time:?}; open a new session, in another mode"
                )
            }
        }
    }
}

impl Error for Failure {}

/// What the host knows of a ring's end.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// The errno of its refusal; 0 for none.
    refused: DeviceWord,
    /// 1 where it took nothing for [`UNTOUCHED_MAX`].
    silent: DeviceWord,
    /// One more than the service's own CQ tail, as last seen before it was overwritten; 0 before.
    posted: DeviceWord64,
}

/// Since when a ring's entries lie untouched, and up to where they were taken then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Untouched {
    head: u32,
    since: Instant,
}

impl Untouched {
    pub(super) fn new(head: u32) -> Self {
        Self { head, since: Instant::now() }
    }
    /// After a poll that found the SQ head at `head`, with entries after it (`left`) or without: whether they have been there for too long.
    pub(super) fn is_over(&mut self, head: u32, left: bool) -> bool {
        if !left || head != self.head {
            *self = Self::new(head);
        }
        self.since.elapsed() > UNTOUCHED_MAX
    }
    /// Whether they have been there for long.
    pub(super) fn is_long(&self) -> bool {
        self.since.elapsed() > ASK_AFTER
    }
}

impl Inner {
    /// Notes that entering it fails for good.
    pub(super) fn refuse(&self, errno: Errno) {
        // ORDERING: release; partner: `stopped`. Nothing hangs on it.
        self.failure.refused.publish(errno.number().cast_unsigned());
    }
    /// Notes that it takes no entries.
    pub(super) fn note_silence(&self) {
        // ORDERING: release; partner: `stopped`. Nothing hangs on it.
        self.failure.silent.publish(1);
    }
    /// What entering it is refused with, if it is.
    pub(super) fn refusal(&self) -> Option<Errno> {
        // ORDERING: acquire; partner: `refuse`.
        let number = self.failure.refused.observe().cast_signed();
        (number != 0).then(|| Errno::from_number(number))
    }
    /// Why nothing serves it any more, if so.
    pub(super) fn stopped(&self) -> Option<Stopped> {
        // ORDERING: acquire; partner: `note_silence`.
        let silent = (self.failure.silent.observe() != 0).then_some(Stopped::Silent(UNTOUCHED_MAX));
        self.refusal().map(Stopped::Refused).or(silent)
    }

    /// Tells the lanes that wait on it ([R-9]). Only the ring service calls this, at each poll: the kernel may still post completions of
    /// operations in flight, over the tail that is stored here.
    pub(super) fn tell_waiters(&self) {
        let (tail, head) = (self.word(self.host.cq_tail), self.word(self.host.cq_head));
        // ORDERING: acquire, both; partners: the kernel's publish of the tail, the poller's of the head.
        let (seen, consumed) = (tail.observe(), head.observe());
        if !Queue::is_failed_tail(seen, consumed, self.host.cq_entries) {
            self.failure.posted.set(u64::from(seen) + 1);
            // ORDERING: release; partner: `Queue::poll`.
            tail.publish(Queue::failed_tail(consumed));
        }
    }

    /// How many of the published SQEs the service has seen or may still see, modulo 2³².
    pub(super) fn visible(&self) -> u32 {
        // ORDERING: acquire, both; partners: the producer's publish of the tail, the kernel's of the head.
        match (self.stopped(), self.mode) {
            // The kernel reads the tail only when it is entered.
            (Some(_), Mode::Enter) => self.sq_head().observe(),
            _ => self.sq_tail().observe(),
        }
    }

    /// How many CQEs the service has posted, modulo 2³².
    pub(super) fn posted(&self) -> u32 {
        // ORDERING: acquire; partner: the service's publish of the tail.
        let seen = self.word(self.host.cq_tail).observe();
        let consumed = self.word(self.host.cq_head).observe();
        match self.failure.posted.peek() {
            before @ 1.. if Queue::is_failed_tail(seen, consumed, self.host.cq_entries) => {
                #[allow(clippy::cast_possible_truncation, reason = "a tail has 32 bits")]
                let before = (before - 1) as u32;
                before
            }
            _ => seen,
        }
    }
}
