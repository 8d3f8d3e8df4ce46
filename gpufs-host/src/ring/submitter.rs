//! Entering a ring in the place of its service: what a thread does that runs lanes, when all of them wait. One thread then runs them, submits what
//! they published, and sleeps in the kernel until something is complete, where otherwise two threads hand over to each other for each operation.
//!
//! The service stays, and looks at the ring now and then: for entries of lanes that go on computing, of threads of the host, and of lanes of
//! other sessions. It does all of the work again as soon as something else keeps it busy ([`Submitter::leave`]).
//!
//! # What the thread owes to the ring
//!
//! The kernel cancels what a thread has submitted when the thread ends. So it ends when nothing of the session is in flight, or is given up on.
//! Operations have its credentials: it is started where the service is. What the kernel does at once may send it signals, which it blocks.

use std::sync::{Arc, Weak};
use std::time::Duration;

use gpufs_core::Errno;
use gpufs_core::abi::{IORING_ENTER_EXT_ARG, IORING_ENTER_GETEVENTS, IORING_FEAT_EXT_ARG};
use gpufs_core::word::DeviceWord;

use super::{Inner, Mode, rouse, sys};

/// A thread that waits for operations sleeps at least so long, if none completes.
const WAIT_MIN: Duration = Duration::from_micros(50);

/// How long the lanes of a thread wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For something, and for about so long.
    Until(Duration),
    /// They call again and again, and nap for less than a sleep is worth: they wait for operations, or compute meanwhile.
    Moment,
}

/// What a thread of lanes has to enter a ring.
#[derive(Debug)]
pub(crate) struct Submitter {
    /// Nothing, where entering was refused, or the session is closed while lanes go on that it has given up.
    ring: Weak<Inner>,
    /// The service ring, whose completions end no wait in the kernel.
    services: Weak<Inner>,
    /// Guards of the ring service.
    busy: Arc<DeviceWord>,
    /// The CQ tails, as they were before the lanes last looked.
    seen: (u32, u32),
    /// The last wait for operations was not in vain.
    pays: bool,
    /// The lanes have not gone on since.
    fresh: bool,
}

impl Submitter {
    /// One for these rings; `None` where their service alone can enter them. `busy` are the service's guards.
    pub(super) fn of(rings: &[Arc<Inner>], busy: &Arc<DeviceWord>) -> Option<Self> {
        let [ring, services] = rings else { return None };
        let can = ring.mode == Mode::Enter
            && services.for_services
            && ring.config.confined.is_none()
            && ring.features & IORING_FEAT_EXT_ARG != 0;
        can.then(|| Self {
            ring: Arc::downgrade(ring),
            services: Arc::downgrade(services),
            busy: Arc::clone(busy),
            seen: (0, 0),
            pays: true,
            fresh: false,
        })
    }

    /// All lanes of the calling thread wait: submits what they published, and sleeps until something is complete, or until then. Whether it did, so
    /// that they look again; where not, they wait as they would without it.
    pub(crate) fn submit_and_wait(&mut self, wait: Wait) -> bool {
        let (Some(ring), Some(services)) = (self.ring.upgrade(), self.services.upgrade()) else {
            return false;
        };
        if !self.is_alone(&ring) {
            self.leave();
            return false;
        }
        // ORDERING: release; partner: the service's observe. Nothing hangs on it.
        ring.by_lanes.publish(1);
        let tails = (ring.posted(), services.posted());
        if self.seen != tails {
            // Posted since the lanes were last resumed, perhaps after they looked.
            self.seen = tails;
            self.pays = true;
            return self.submit(&ring, None);
        }
        // ORDERING: acquire, both; partners: the producers' publish of the tails.
        let in_flight = ring.sq_tail().observe() != tails.0;
        if services.sq_tail().observe() != tails.1 || !in_flight {
            if !services.is_taken() {
                rouse();
            }
            self.submit(&ring, None);
            return false;
        }
        let limit = match wait {
            Wait::Until(limit) => limit,
            // They may have napped between their look and what they do about it; what they submit says that they did it.
            Wait::Moment if !self.pays || std::mem::take(&mut self.fresh) && ring.is_taken() => {
                return self.submit(&ring, None);
            }
            Wait::Moment => WAIT_MIN,
        };
        let entered = self.submit(&ring, Some(limit));
        let tails = (ring.posted(), services.posted());
        self.pays = tails != self.seen;
        self.fresh = self.pays;
        self.seen = tails;
        entered
    }

    /// Some lanes of the calling thread go on: submits what others published.
    pub(crate) fn submit_published(&mut self) {
        let Some(ring) = self.ring.upgrade() else { return };
        // ORDERING: relaxed: this thread's own.
        if ring.by_lanes.peek() != 0 && self.is_alone(&ring) {
            self.submit(&ring, None);
        }
    }

    /// Leaves the ring to its service.
    pub(crate) fn leave(&mut self) {
        let Some(ring) = self.ring.upgrade() else { return };
        // ORDERING: relaxed: this thread's own.
        if ring.by_lanes.peek() != 0 {
            // ORDERING: release; partner: the service's observe.
            ring.by_lanes.publish(0);
            rouse();
        }
    }

    /// Whether the launch that the thread runs is all that the service is kept busy for, and the ring works.
    fn is_alone(&self, ring: &Inner) -> bool {
        // ORDERING: acquire; partner: the read-modify-writes of guards.
        self.busy.observe() == 1 && ring.stopped().is_none()
    }

    /// Submits what was published; with a limit, waits that long for one more completion than were posted. Whether the kernel took the call.
    fn submit(&mut self, ring: &Inner, limit: Option<Duration>) -> bool {
        // ORDERING: acquire, both; partners: the producer's publish of the tail, the kernel's of the head.
        let pending = ring.sq_tail().observe().wrapping_sub(ring.sq_head().observe());
        let Some(descriptor) = ring.entered_by() else { return false };
        let entered = match limit {
            None if pending == 0 => return true,
            None => sys::enter(descriptor, pending, 0, 0),
            Some(limit) => {
                // ORDERING: acquire; partner: the poller's publish of the head.
                let unread = self.seen.0.wrapping_sub(ring.word(ring.host.cq_head).observe());
                if unread >= ring.host.cq_entries {
                    return false;
                }
                let flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
                sys::enter_for(descriptor, (pending, unread + 1), flags, limit)
            }
        };
        match entered {
            Ok(submitted) => ring.counts.submitted.count(submitted.into()),
            Err(Errno::TIME | Errno::INTR) => {}
            // As in `poll.rs`.
            Err(Errno::AGAIN | Errno::BUSY) => {
                let _ = sys::enter(descriptor, 0, 0, IORING_ENTER_GETEVENTS);
                return false;
            }
            Err(_) => {
                // The service finds out what is wrong, and for whom.
                self.leave();
                self.ring = Weak::new();
                return false;
            }
        }
        true
    }
}
