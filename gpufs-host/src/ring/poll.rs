//! One poll of a ring: what the ring service does for it in each mode.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use gpufs_core::Errno;
use gpufs_core::abi::{
    IORING_ENTER_GETEVENTS, IORING_ENTER_SQ_WAKEUP, IORING_SQ_CQ_OVERFLOW, IORING_SQ_NEED_WAKEUP,
};
use gpufs_core::word::wake_fence;

use super::failure::Untouched;
use super::family::Family;
use super::service::RingReport;
use super::workers::WorkerPool;
use super::{Inner, Mode, sys};

/// After so many polls that found the service ring empty, the naps need not be short for its sake.
const SERVICES_IDLE_POLLS: u32 = 1000;

/// The result of one poll.
#[derive(Clone, Copy)]
pub(super) struct Poll {
    /// Something was done.
    pub(super) active: bool,
    /// The SQ was not empty when the poll ended.
    pub(super) left: bool,
    /// A kernel thread has taken entries since the previous poll began.
    pub(super) served: bool,
}

impl Inner {
    /// Polls the ring once, and does what it needs. `before` is the SQ's head at the previous poll, and becomes that at this one.
    pub(super) fn poll(&self, before: &mut u32) -> Poll {
        if self.stopped().is_some() {
            self.tell_waiters();
            return Poll { active: false, left: false, served: false };
        }
        match (&self.pool, self.mode) {
            (Some(pool), _) if self.for_services => self.feed_services(pool),
            (Some(pool), _) => self.feed(pool),
            (None, Mode::Sqpoll) => self.wake(before),
            (None, _) => self.submit(before),
        }
    }

    /// [`Mode::Sqpoll`]: wakes the kernel's thread if it sleeps while there are entries.
    fn wake(&self, before: &mut u32) -> Poll {
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
        // Completions that the kernel holds back are polled for at the usual pace.
        let served = std::mem::replace(before, head) != head && flags & IORING_SQ_CQ_OVERFLOW == 0;
        let mut active = self.flush_held_back(flags);
        if left && flags & IORING_SQ_NEED_WAKEUP != 0 {
            self.counts.wake_ups.count(1);
            active |= self.enter(0, IORING_ENTER_SQ_WAKEUP).is_some();
        }
        Poll { active, left, served }
    }

    /// [`Mode::Enter`]: submits what was published.
    fn submit(&self, before: &mut u32) -> Poll {
        // ORDERING: acquire; partner: the producer's publish of the tail.
        let tail = self.sq_tail().observe();
        // ORDERING: acquire; partner: the kernel's release of the head, on this same thread, or on a thread of lanes.
        let head = self.sq_head().observe();
        let pending = tail.wrapping_sub(head);
        // A thread of lanes is submitting, or does so again before long: the head moves when all are submitted.
        // ORDERING: acquire; partner: the submitter's publish.
        if self.by_lanes.observe() != 0 && head != *before {
            *before = head;
            return Poll { active: true, left: pending > 0, served: false };
        }
        let mut done = 0;
        if pending > 0 {
            done = self.enter(pending, 0).unwrap_or(0);
            self.counts.submitted.count(done.into());
        }
        // ORDERING: acquire; partner: the kernel's release of the flags.
        let flushed = self.flush_held_back(self.sq_flags().observe());
        *before = head.wrapping_add(done);
        Poll { active: done > 0 || flushed, left: done < pending, served: false }
    }

    /// [`Mode::Threads`]: hands what was published to the workers.
    fn feed(&self, pool: &Arc<WorkerPool>) -> Poll {
        let taken = pool.take_entries();
        self.counts.submitted.count(taken.into());
        // ORDERING: acquire; partner: the producer's publish of the tail.
        let left = self.sq_tail().observe() != self.sq_head().peek();
        Poll { active: taken > 0, left: left || !pool.is_caught_up(), served: false }
    }

    /// The service ring: as [`Mode::Threads`], with threads that start when the first entry is there ([R-SERVE-5]).
    fn feed_services(&self, pool: &Arc<WorkerPool>) -> Poll {
        // ORDERING: acquire; partner: the producer's publish of the tail.
        let is_empty = self.sq_tail().observe() == self.sq_head().peek();
        let is_used = self.counts.submitted.peek() > 0;
        if is_empty && (!is_used || pool.is_caught_up()) {
            let idle = self.counts.idle_polls.peek();
            self.counts.idle_polls.set(idle.saturating_add(1));
            return Poll { active: false, left: false, served: !is_used || idle > SERVICES_IDLE_POLLS };
        }
        self.counts.idle_polls.set(0);
        // With no thread to be had the entries wait: the next poll asks again.
        if !pool.is_started() && pool.start().is_err() && !pool.is_started() {
            return Poll { active: false, left: true, served: false };
        }
        self.feed(pool)
    }

    /// Has the kernel post completions that it held back because the CQ was full. Credits make that impossible; a producer without
    /// them would hang for ever.
    fn flush_held_back(&self, flags: u32) -> bool {
        if flags & IORING_SQ_CQ_OVERFLOW == 0 {
            return false;
        }
        self.counts.flushes.count(1);
        self.enter(0, IORING_ENTER_GETEVENTS).is_some()
    }

    /// Whether all that was published is submitted.
    pub(super) fn is_taken(&self) -> bool {
        // ORDERING: acquire, both; partners: the producer's publish of the tail, the kernel's of the head.
        self.sq_tail().observe() == self.sq_head().observe()
    }

    /// The descriptor by which the calling thread enters it.
    pub(super) fn entered_by(&self) -> Option<BorrowedFd<'_>> {
        match &self.family_descriptor {
            // SAFETY:
            // - a descriptor of the family, whose thread this is, and which `self` closes
            Some(own) if Family::is_here() => Some(unsafe { BorrowedFd::borrow_raw(own.fd) }),
            _ => self.descriptor.as_ref().map(AsFd::as_fd),
        }
    }

    /// `io_uring_enter(2)`; `None` where the kernel wants to be asked again later, or failed for good (counted).
    fn enter(&self, to_submit: u32, flags: u32) -> Option<u32> {
        let ring = self.entered_by()?;
        match sys::enter(ring, to_submit, 0, flags) {
            Ok(submitted) => Some(submitted),
            // The kernel holds completions back or is short of requests. Both end once completions are posted, which entering
            // for events does, and once the device has drained some.
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

    /// How long its SQPOLL thread polls an idle ring before it sleeps.
    pub(super) fn idle(&self) -> Duration {
        match self.config.idle_ms {
            0 => Duration::from_secs(1),
            idle_ms => Duration::from_millis(idle_ms.into()),
        }
    }

    /// Whether the kernel has left its entries untouched for too long. Workers never do, though all of them may be
    /// blocked; a service ring for which no thread can be had does.
    pub(super) fn is_untouched(&self, untouched: &mut Untouched) -> bool {
        // ORDERING: relaxed, both; a stale one makes the silence seem shorter, or is seen again at the next poll.
        let (tail, head) = (self.sq_tail().peek(), self.sq_head().peek());
        let is_waited_for = self.for_services && tail != head;
        if self.pool.as_ref().is_some_and(|pool| !is_waited_for || pool.is_started()) {
            return false;
        }
        let over = untouched.is_over(head, tail != head);
        if self.mode == Mode::Sqpoll && untouched.is_long() {
            // Whether its thread is asleep or not: if it has died, this fails and says so.
            let _ = self.enter(0, IORING_ENTER_SQ_WAKEUP);
        }
        over
    }

    /// Sets the counters to zero.
    pub(super) fn reset_counts(&self) {
        let counts = &self.counts;
        for count in [&counts.wake_ups, &counts.submitted, &counts.flushes, &counts.failures] {
            // ORDERING: relaxed; counters that order nothing.
            count.set(0);
        }
    }

    pub(super) fn report(&self) -> RingReport {
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
