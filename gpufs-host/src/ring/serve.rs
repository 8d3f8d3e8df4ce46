//! The one host thread that a session needs: it wakes sleeping SQPOLL threads, enters rings that want it, and feeds the
//! rings that threads serve. While no kernel runs it is parked and costs nothing.
//!
//! # Why no wake-up is lost
//!
//! *Of the attendant.* [`Attendant::begin`] counts up, then unparks. The attendant reads the count, looks at all rings, and
//! parks only if the count was 0 and every SQ was empty. Unparking leaves a token that the next park takes instead of
//! sleeping, so a `begin` between the attendant's reading and its parking ends that park at once.
//!
//! *Of entries published before [`Attendant::end`].* They happen before `end` counts down, and the attendant that reads that
//! count looks at the rings afterwards; it goes on looking until each SQ is empty. So what a kernel left behind when it
//! ended is served before the attendant parks.
//!
//! *Of a SQPOLL thread.* Before sleeping, it sets `NEED_WAKEUP`, fences, and reads the tail once more. The attendant reads the
//! tail, fences (`wake_fence`), and reads the flags. With both fences, at least one sees the other: either the thread sees
//! the entries and stays up, or the look sees entries and `NEED_WAKEUP`. A look is therefore conclusive for every tail
//! that it saw, and a tail that it did not see is left to the next look.
//!
//! *While it naps for long.* An SQPOLL thread goes to sleep when it has found nothing for `sq_thread_idle` (`io_uring_setup(2)`), which it
//! counts from the last entries that it took. Where the head has moved since the look before this one began, it is up until `idle` after
//! that, and needs no look before. A head that has come round to where it was makes a nap shorter, not longer.

use std::os::fd::AsFd;
use std::os::unix::thread::JoinHandleExt;
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use gpufs_core::Errno;
use gpufs_core::abi::{
    IORING_ENTER_GETEVENTS, IORING_ENTER_SQ_WAKEUP, IORING_SQ_CQ_OVERFLOW, IORING_SQ_NEED_WAKEUP,
};
use gpufs_core::word::{DeviceWord, DeviceWord64, wake_fence};

use super::error::RingError;
use super::failure::{Failure, Untouched};
use super::threads::Pool;
use super::{Inner, Mode, Ring, rouse, sys};

/// A nap is at most this part of the silence before it, so waiting for a look adds at most as much to what a device does.
const PART_OF_SILENCE: u32 = 16;
/// How long the attendant looks without naps after something happened, in modes where each operation needs a look.
const EAGER_FOR: Duration = Duration::from_micros(50);
const SHORTEST_NAP: Duration = Duration::from_micros(20);
const LONGEST_NAP: Duration = Duration::from_millis(1);

/// What the attendant did for one ring since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingReport {
    /// How often it woke the SQPOLL thread.
    pub wake_ups: u64,
    /// Entries that it submitted ([`Mode::Enter`]) or took off the SQ ([`Mode::Threads`]).
    pub submitted: u64,
    /// How often it had the kernel post completions that it had kept back.
    pub flushes: u64,
    /// How often `io_uring_enter(2)` failed for good.
    pub failures: u64,
    /// The errno of the last failure.
    pub last_error: Option<Errno>,
}

/// What the attendant did since it started.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The processor time it used.
    pub cpu_time: Duration,
    /// How often it looked at all rings.
    pub looks: u64,
    /// One for each ring, in the order given to [`Attendant::start`].
    pub rings: Vec<RingReport>,
}

/// What the attendant's thread and its handle share.
#[derive(Debug)]
struct Shared {
    rings: Vec<Arc<Inner>>,
    /// `begin`s without their `end`.
    busy: DeviceWord,
    /// 1 once the thread must end.
    stopping: DeviceWord,
    looks: DeviceWord64,
}

/// A session's host thread.
///
/// Dropping it ends the thread. Nothing may be in flight by then: in [`Mode::Enter`] the kernel cancels what a thread
/// submitted when that thread ends.
#[derive(Debug)]
pub struct Attendant {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Keeps the attendant busy for as long as it lives.
#[derive(Debug)]
#[must_use = "the attendant is busy only while this lives"]
pub struct Attention<'a>(&'a Attendant);

impl Drop for Attention<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Attendant {
    /// Takes on these rings, parked at first.
    ///
    /// # Errors
    /// If one of them has an attendant already, or the system has no thread to give.
    pub fn start(rings: &[&Ring]) -> Result<Self, RingError> {
        let mut taken = Vec::with_capacity(rings.len());
        for ring in rings {
            if ring.inner.attended.compare_exchange(0, 1).is_err() {
                release(&taken);
                return Err(RingError::Config("a ring has one attendant"));
            }
            taken.push(ring.inner.clone());
        }
        let shared = Arc::new(Shared {
            rings: taken,
            busy: DeviceWord::new(0),
            stopping: DeviceWord::new(0),
            looks: DeviceWord64::new(0),
        });
        let own = shared.clone();
        match std::thread::Builder::new().name("gpufs-attendant".into()).spawn(move || own.attend()) {
            Ok(thread) => {
                rouse::enter(thread.thread());
                Ok(Self { shared, thread: Some(thread) })
            }
            Err(error) => {
                release(&shared.rings);
                Err(RingError::System { step: "starting the attendant's thread", error })
            }
        }
    }

    /// Says that kernels may run from now on. Nests; each `begin` wants one [`Attendant::end`].
    pub fn begin(&self) {
        // ORDERING: acquire and release; partner: `attend`'s observe of the count.
        if self.shared.busy.fetch_add(1) == 0 {
            self.handle().unpark();
        }
    }
    /// Says that the kernels of one [`Attendant::begin`] have ended, and that their stores to the rings are visible here.
    /// What they submitted is still taken off the SQ.
    ///
    /// # Panics
    /// If there was no `begin` for it.
    pub fn end(&self) {
        // ORDERING: acquire and release; partner: `attend`'s observe of the count, which is followed by a look at the rings.
        let before = self.shared.busy.fetch_sub(1);
        assert!(before > 0, "an `end` without its `begin`");
    }
    /// [`Attendant::begin`], and `end` when the result is dropped.
    pub fn attention(&self) -> Attention<'_> {
        self.begin();
        Attention(self)
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
            looks: self.shared.looks.peek(),
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

impl Drop for Attendant {
    fn drop(&mut self) {
        // ORDERING: release; partner: `attend`'s observe. The unpark's token makes a park after it return.
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
        // ORDERING: release; partner: the next attendant's `compare_exchange`. This one's thread has ended.
        ring.attended.publish(0);
    }
}

/// What one look found.
#[derive(Clone, Copy)]
pub(super) struct Look {
    /// Something was done.
    active: bool,
    /// The SQ was not empty when the look ended.
    left: bool,
    /// A kernel's thread has taken entries since the look before began.
    served: bool,
}

impl Shared {
    /// The thread's life.
    fn attend(&self) {
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
            // ORDERING: acquire; partner: `begin`'s and `end`'s read-modify-write. Read before the look, so that what was
            // published before the last `end` is seen by it.
            let busy = self.busy.observe() > 0;
            let look = self.look(&mut heads);
            self.looks.count(1);
            for (ring, untouched) in self.rings.iter().zip(&mut untouched) {
                if ring.is_untouched(untouched) {
                    ring.note_silence();
                }
            }
            if busy || look.left {
                pace.rest(look, before);
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

    /// Looks at all rings. `heads` are those of the look before.
    fn look(&self, heads: &mut [u32]) -> Look {
        let nothing = Look { active: false, left: false, served: true };
        self.rings.iter().zip(heads).map(|(ring, head)| ring.serve(head)).fold(nothing, |all, one| Look {
            active: all.active | one.active,
            left: all.left | one.left,
            served: all.served & one.served,
        })
    }
}

/// How long to wait between two looks.
///
/// A nap costs a few microseconds of processor time whatever its length, and delays an operation that starts within it. So
/// naps grow with the silence: from [`SHORTEST_NAP`], by [`PART_OF_SILENCE`], to `longest`. An SQPOLL thread sleeps only after
/// a silence of `idle_ms` and serves all else by itself, so for such rings a part of `idle_ms` is short enough at once; and as long as
/// all such threads find entries, half of the time for which they stay up without.
struct Pace {
    /// Whether operations wait for a look, rather than only a sleeping kernel thread.
    eager: bool,
    longest: Duration,
    /// For how long every kernel's thread stays up after it has taken entries.
    up: Duration,
    /// When something last happened.
    last: Instant,
}

impl Pace {
    fn new(rings: &[Arc<Inner>]) -> Self {
        let sqpoll = |ring: &&Arc<Inner>| ring.mode == Mode::Sqpoll;
        let idle = rings.iter().filter(sqpoll).map(|ring| ring.idle()).min();
        let longest =
            idle.map_or(LONGEST_NAP, |idle| (idle / PART_OF_SILENCE).clamp(SHORTEST_NAP, LONGEST_NAP));
        let up = idle.unwrap_or_default();
        Self { eager: !rings.iter().all(|ring| sqpoll(&ring)), longest, up, last: Instant::now() }
    }
    fn start_over(&mut self) {
        self.last = Instant::now();
    }
    /// After a look; the one before it began at `before`.
    fn rest(&mut self, look: Look, before: Instant) {
        if look.active {
            self.start_over();
        }
        let silence = self.last.elapsed();
        if self.eager && silence < EAGER_FOR {
            return std::thread::yield_now();
        }
        let nap = (silence / PART_OF_SILENCE).clamp(SHORTEST_NAP, self.longest);
        let up = if look.served { self.up.saturating_sub(before.elapsed()) } else { Duration::ZERO };
        // Ended by `begin` and `drop`, too, which then need not wait for it.
        std::thread::park_timeout(nap.max(up / 2));
    }
}

impl Inner {
    /// One look at the ring, and what it needs. `before` is the SQ's head at the look before, and then at this.
    pub(super) fn serve(&self, before: &mut u32) -> Look {
        if self.stopped().is_some() {
            self.tell_waiters();
            return Look { active: false, left: false, served: false };
        }
        match (&self.pool, self.mode) {
            (Some(pool), _) => self.feed(pool),
            (None, Mode::Sqpoll) => self.wake(before),
            (None, _) => self.submit(),
        }
    }

    /// [`Mode::Sqpoll`]: wakes the kernel's thread if it sleeps on entries.
    fn wake(&self, before: &mut u32) -> Look {
        // ORDERING: acquire; partner: the producer's publish of the tail.
        let tail = self.sq_tail().observe();
        // Orders the tail's load before the flags': the kernel's side of this is the fence between setting NEED_WAKEUP and
        // reading the tail.
        wake_fence();
        // ORDERING: acquire; partner: the kernel's release of the flags. The head that it stored before sleeping is seen.
        let flags = self.sq_flags().observe();
        // ORDERING: acquire; partner: the kernel's release of the head. A stale one costs a needless wake-up.
        let head = self.sq_head().observe();
        let left = head != tail;
        // What is kept back is looked after at the usual pace.
        let served = std::mem::replace(before, head) != head && flags & IORING_SQ_CQ_OVERFLOW == 0;
        let mut active = self.flush_if_kept_back(flags);
        if left && flags & IORING_SQ_NEED_WAKEUP != 0 {
            self.counts.wake_ups.count(1);
            active |= self.enter(0, IORING_ENTER_SQ_WAKEUP).is_some();
        }
        Look { active, left, served }
    }

    /// [`Mode::Enter`]: submits what was published.
    fn submit(&self) -> Look {
        // ORDERING: acquire; partner: the producer's publish of the tail.
        let tail = self.sq_tail().observe();
        // ORDERING: acquire; partner: the kernel's release of the head, on this same thread.
        let pending = tail.wrapping_sub(self.sq_head().observe());
        let mut done = 0;
        if pending > 0 {
            done = self.enter(pending, 0).unwrap_or(0);
            self.counts.submitted.count(done.into());
        }
        // ORDERING: acquire; partner: the kernel's release of the flags.
        let flushed = self.flush_if_kept_back(self.sq_flags().observe());
        Look { active: done > 0 || flushed, left: done < pending, served: false }
    }

    /// [`Mode::Threads`]: hands what was published to the workers.
    fn feed(&self, pool: &Arc<Pool>) -> Look {
        let taken = pool.take();
        self.counts.submitted.count(taken.into());
        // ORDERING: acquire; partner: the producer's publish of the tail.
        let left = self.sq_tail().observe() != self.sq_head().peek();
        Look { active: taken > 0, left: left || !pool.is_caught_up(), served: false }
    }

    /// Has the kernel post completions that it kept back for want of room. Credits make that impossible; a producer without
    /// them would hang for ever.
    fn flush_if_kept_back(&self, flags: u32) -> bool {
        if flags & IORING_SQ_CQ_OVERFLOW == 0 {
            return false;
        }
        self.counts.flushes.count(1);
        self.enter(0, IORING_ENTER_GETEVENTS).is_some()
    }

    /// `io_uring_enter(2)`; none where the kernel wants to be asked again later, or failed for good (counted).
    fn enter(&self, to_submit: u32, flags: u32) -> Option<u32> {
        let ring = self.descriptor.as_ref()?.as_fd();
        match sys::enter(ring, to_submit, 0, flags) {
            Ok(submitted) => Some(submitted),
            // Completions are kept back or requests are short: both get better once completions are posted, which
            // entering for events does, and once the device has drained some.
            Err(Errno::AGAIN | Errno::BUSY) => {
                let _ = sys::enter(ring, 0, 0, IORING_ENTER_GETEVENTS);
                None
            }
            Err(Errno::INTR) => None,
            Err(errno) => {
                self.counts.failures.count(1);
                self.counts.last_errno.set(errno.number().cast_unsigned());
                self.refuse(errno);
                None
            }
        }
    }

    /// How long its SQPOLL thread looks at an idle ring before it sleeps.
    fn idle(&self) -> Duration {
        match self.config.idle_ms {
            0 => Duration::from_secs(1),
            idle_ms => Duration::from_millis(idle_ms.into()),
        }
    }

    /// Whether the kernel has left its entries untouched for too long. Workers never do, but may all be held up.
    fn is_untouched(&self, untouched: &mut Untouched) -> bool {
        // ORDERING: relaxed, both; a stale one makes the silence seem shorter, or is seen again at the next look.
        let (tail, head) = (self.sq_tail().peek(), self.sq_head().peek());
        if self.pool.is_some() {
            return false;
        }
        let over = untouched.is_over(head, tail != head);
        if self.mode == Mode::Sqpoll && untouched.is_long() {
            // Whether its thread is asleep or not: if it has died, this says so.
            let _ = self.enter(0, IORING_ENTER_SQ_WAKEUP);
        }
        over
    }

    /// Begins to count anew.
    pub(super) fn forget_counts(&self) {
        let counts = &self.counts;
        for count in [&counts.wake_ups, &counts.submitted, &counts.flushes, &counts.failures] {
            // ORDERING: relaxed; counters that order nothing.
            count.set(0);
        }
    }

    fn report(&self) -> RingReport {
        let counts = &self.counts;
        let errno = counts.last_errno.peek().cast_signed();
        RingReport {
            wake_ups: counts.wake_ups.peek(),
            submitted: counts.submitted.peek(),
            flushes: counts.flushes.peek(),
            failures: counts.failures.peek(),
            last_error: (errno != 0).then(|| Errno::from_number(errno)),
        }
    }
}
