//! The ring service: the one host thread that a session needs. It wakes sleeping SQPOLL threads, enters rings in the mode `enter`, and
//! feeds the rings that worker threads serve. While no kernel runs it is parked and uses no processor time.
//!
//! In this file: the thread, its handle and its reports. What one poll does for a ring is in `poll.rs`, how long the thread naps between
//! polls in `pace.rs`.
//!
//! # Why no wake-up is lost
//!
//! *Of the service.* [`RingService::busy`] counts up, then unparks. The service reads the count, polls all rings, and parks only if
//! the count was 0 and every SQ was empty. Unparking leaves a token that the next park takes instead of sleeping, so a `busy` between the
//! reading and the parking ends that park at once.
//!
//! *Of entries published before the last [`BusyGuard`] is dropped.* They happen before the drop counts down, and the service that reads
//! that count polls the rings afterwards; it continues until each SQ is empty. So entries that a kernel left when it ended are
//! served before the service parks.
//!
//! *Of a SQPOLL thread.* Before sleeping, it sets `NEED_WAKEUP`, fences, and reads the tail once more. The service reads the
//! tail, fences (`wake_fence`), and reads the flags. With both fences, at least one sees the other: either the thread sees
//! the entries and stays awake, or the poll sees entries and `NEED_WAKEUP`. A poll is therefore conclusive for every tail
//! that it saw, and a tail that it did not see is left to the next poll.
//!
//! *During a long nap.* An SQPOLL thread goes to sleep when it has found nothing for `sq_thread_idle` (`io_uring_setup(2)`), which it
//! counts from the last entries that it took. Where the head has moved since the previous poll began, the thread is awake until `idle`
//! after that, and needs no poll before. A head that has wrapped round to its old value makes a nap shorter, not longer.

use std::os::unix::thread::JoinHandleExt;
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use gpufs_core::Errno;
use gpufs_core::word::{DeviceWord, DeviceWord64};

use super::error::RingError;
use super::failure::{Failure, Untouched};
use super::pace::Pace;
use super::poll::Poll;
use super::submitter::Submitter;
use super::{Inner, Ring, rouse, sys};

/// What the service did for one ring since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingReport {
    /// How often it woke the SQPOLL thread.
    pub wake_ups: u64,
    /// Entries that it, or lanes' own thread in its place, submitted ([`Mode::Enter`](super::Mode::Enter)), or that it took off the SQ
    /// ([`Mode::Threads`](super::Mode::Threads)).
    pub submitted: u64,
    /// How often it had the kernel post completions that the kernel had held back.
    pub flushes: u64,
    /// How often `io_uring_enter(2)` failed for good.
    pub failures: u64,
    /// The errno of the last failure.
    pub last_error: Option<Errno>,
}

/// What the service did since it started.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The processor time it used.
    pub cpu_time: Duration,
    /// How often it polled all rings.
    pub polls: u64,
    /// One for each ring, in the order given to [`RingService::start`].
    pub rings: Vec<RingReport>,
}

/// What the service's thread and its handle share.
#[derive(Debug)]
struct Shared {
    rings: Vec<Arc<Inner>>,
    /// Guards that live. Shared with them alone, so that a guard keeps no ring.
    busy: Arc<DeviceWord>,
    /// 1 once the thread must end.
    stopping: DeviceWord,
    polls: DeviceWord64,
}

/// A session's host thread.
///
/// Dropping it ends the thread. Nothing may be in flight by then: in [`Mode::Enter`](super::Mode::Enter) the kernel cancels the operations
/// of a thread that ends.
#[derive(Debug)]
pub struct RingService {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Keeps the service polling as long as it lives. Guards nest: the service may park once the last is dropped.
///
/// When it is dropped, the kernels that it was for have ended, and their stores to the rings are visible to the dropping thread. The
/// service still takes what they submitted off the SQ.
#[derive(Debug)]
#[must_use = "the service polls only as long as this lives"]
pub struct BusyGuard {
    busy: Arc<DeviceWord>,
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        // ORDERING: acquire and release; partner: `run`'s observe of the count, which is followed by a poll of the rings.
        let before = self.busy.fetch_sub(1);
        debug_assert!(before > 0, "each guard counted up");
    }
}

impl RingService {
    /// Serves these rings from now on, parked at first.
    ///
    /// # Errors
    /// If one of them has a service already, or the system has no thread to give.
    pub fn start(rings: &[&Ring]) -> Result<Self, RingError> {
        let mut taken = Vec::with_capacity(rings.len());
        for ring in rings {
            // ORDERING: acquire and release, partner `release`: what the service before did to the ring comes before.
            if ring.inner.served.compare_exchange(0, 1).is_err() {
                release(&taken);
                return Err(RingError::Config("another service serves this ring: a ring has one service"));
            }
            taken.push(ring.inner.clone());
        }
        let shared = Arc::new(Shared {
            rings: taken,
            busy: Arc::new(DeviceWord::new(0)),
            stopping: DeviceWord::new(0),
            polls: DeviceWord64::new(0),
        });
        let own = shared.clone();
        // What enters a ring does the ring's operations with its own rights, and with its own table.
        let entering = |ring: &&Arc<Inner>| ring.mode == super::Mode::Enter;
        let confined = shared.rings.iter().find(entering).and_then(|ring| ring.config.confined.clone());
        let body = move || own.run();
        let started = match confined {
            Some(confined) => confined.family.spawn("gpufs-service", body),
            None => std::thread::Builder::new().name("gpufs-service".into()).spawn(body),
        };
        match started {
            Ok(thread) => {
                rouse::enter(thread.thread());
                Ok(Self { shared, thread: Some(thread) })
            }
            Err(error) => {
                release(&shared.rings);
                Err(RingError::System { step: "starting the ring service's thread", error })
            }
        }
    }

    /// Keeps the service polling, as kernels may run, until the guard is dropped.
    pub fn busy(&self) -> BusyGuard {
        // ORDERING: acquire and release; partner: `run`'s observe of the count.
        if self.shared.busy.fetch_add(1) == 0 || self.shared.is_entered_by_lanes() {
            self.handle().unpark();
        }
        BusyGuard { busy: self.shared.busy.clone() }
    }

    /// What a thread of lanes needs to enter the ring in the service's place; `None` where only the service can. The thread is to have the
    /// service's rights, and to end when nothing is in flight.
    pub(crate) fn submitter(&self) -> Option<Submitter> {
        Submitter::of(&self.shared.rings, &self.shared.busy)
    }

    /// The first ring whose service has stopped for good, if one has.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let stopped = |(ring, inner): (usize, &Arc<Inner>)| {
            inner.stopped().map(|stopped| Failure { ring, mode: inner.mode, stopped })
        };
        self.shared.rings.iter().enumerate().find_map(stopped)
    }

    /// What it did so far.
    #[must_use]
    pub fn report(&self) -> Report {
        let cpu_time = self.thread.as_ref().map(|thread| {
            // SAFETY:
            // - only `drop` joins the thread
            unsafe { sys::thread_cpu_time(thread.as_pthread_t()) }
        });
        Report {
            cpu_time: cpu_time.unwrap_or_default(),
            // ORDERING: relaxed, here and below; counters that order nothing.
            polls: self.shared.polls.peek(),
            rings: self.ring_reports(),
        }
    }
    /// What it did for each ring: [`Report::rings`].
    #[must_use]
    pub fn ring_reports(&self) -> Vec<RingReport> {
        self.shared.rings.iter().map(|ring| ring.report()).collect()
    }

    fn handle(&self) -> &Thread {
        self.thread.as_ref().expect("the thread lives until drop").thread()
    }
}

impl Drop for RingService {
    fn drop(&mut self) {
        // ORDERING: release; partner: `run`'s observe. The unpark's token makes a park after it return.
        self.shared.stopping.publish(1);
        rouse::leave(self.handle());
        self.handle().unpark();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
        release(&self.shared.rings);
    }
}

fn release(rings: &[Arc<Inner>]) {
    for ring in rings {
        // ORDERING: release; partner: the next service's `compare_exchange`. This one's thread has ended.
        ring.served.publish(0);
    }
}

impl Shared {
    /// What the thread runs.
    fn run(&self) {
        sys::block_signals();
        sys::sharpen_naps();
        let mut pace = Pace::new(&self.rings);
        let mut before = Instant::now();
        // ORDERING: relaxed; what moves afterwards is noticed.
        let mut heads: Vec<u32> = self.rings.iter().map(|ring| ring.sq_head().peek()).collect();
        let mut untouched: Vec<Untouched> = heads.iter().map(|head| Untouched::new(*head)).collect();
        // ORDERING: acquire; partner: `drop`'s publish.
        while self.stopping.observe() == 0 {
            let began = Instant::now();
            // ORDERING: acquire; partner: the read-modify-writes of `busy` and of a guard's drop. Read before the poll, so that what was
            // published before the last guard was dropped is seen by it.
            let guards = self.busy.observe();
            let poll = self.poll(&mut heads);
            self.polls.count(1);
            for (ring, untouched) in self.rings.iter().zip(&mut untouched) {
                if ring.is_untouched(untouched) {
                    ring.note_silence();
                }
            }
            if guards > 0 || poll.left {
                // More than one launch, or the host: they do not wait for what one thread does.
                pace.rest(poll, before, guards == 1 && self.is_entered_by_lanes());
            } else {
                std::thread::park();
                pace.start_over();
                for (ring, untouched) in self.rings.iter().zip(&mut untouched) {
                    *untouched = Untouched::new(ring.sq_head().peek());
                }
            }
            before = began;
        }
    }

    /// Whether a thread that runs lanes enters a ring.
    fn is_entered_by_lanes(&self) -> bool {
        // ORDERING: acquire; partner: the submitter's publish.
        self.rings.iter().any(|ring| ring.by_lanes.observe() != 0)
    }

    /// Polls all rings. `heads` are those that the previous poll saw.
    fn poll(&self, heads: &mut [u32]) -> Poll {
        let all = Poll { active: false, left: false, served: true };
        self.rings.iter().zip(heads).map(|(ring, head)| ring.poll(head)).fold(all, |all, one| Poll {
            active: all.active | one.active,
            left: all.left | one.left,
            served: all.served & one.served,
        })
    }
}
