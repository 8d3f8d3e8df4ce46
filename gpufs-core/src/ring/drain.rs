//! From the CQ tail to the slots: one poller at a time takes completions, copies them, gives the entries back, and delivers the copies.
#![expect(unsafe_code, reason = "the ring is reached through pointers that the host made")]

use super::slots::{DONE, GENERATIONS, in_flight_word};
use super::{Operation, Queue};
use crate::abi::Cqe;
use crate::word::release_fence;

/// The result of delivering a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Delivery {
    /// The operation went from in flight to done.
    Delivered,
    /// No such operation is in flight: an old generation, a second completion, or a number that is no operation.
    Stale,
}

/// Completions that a poller has taken: `count` of them from `head` on. It stands for the poller's lock, and so cannot be copied.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the poller's lock is held until end_drain"]
pub struct Drain {
    /// Index of the first.
    head: u32,
    /// How many: at least 1.
    count: u32,
}

impl Drain {
    /// How many completions: at least 1.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }
    /// Index of the first completion.
    #[must_use]
    pub const fn head(&self) -> u32 {
        self.head
    }
    /// The drain as a number, for the other lanes of a warp: its count, above its head.
    #[must_use]
    pub const fn into_word(self) -> u64 {
        (self.count as u64) << 32 | self.head as u64
    }
    /// The drain that a number stands for.
    ///
    /// # Safety
    /// - `word` is of a drain of the queue that it is used with, which has not ended.
    /// - Of all lanes that make it one advances and ends it, and no lane copies an entry of it after that one has advanced it.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    pub const unsafe fn from_word(word: u64) -> Self {
        Self { head: word as u32, count: (word >> 32) as u32 }
    }
}

/// The copy of a completion that a drain took. Only [`Queue::entry`] makes one. Delivered a second time, it is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Completion(Cqe);

impl Completion {
    /// What the kernel wrote.
    #[must_use]
    pub const fn cqe(self) -> Cqe {
        self.0
    }
    /// The result, if it is of this operation. Where this copy was [`Delivery::Delivered`], it is what [`Queue::outcome`] says, without a load.
    #[must_use]
    pub const fn result_of(self, operation: Operation) -> Option<i32> {
        if self.0.user_data & !Operation::JOURNALED == operation.token() { Some(self.0.res) } else { None }
    }
}

/// What a poll of the completion queue found.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Poll {
    /// Completions, which are the caller's.
    Taken(Drain),
    /// Nothing.
    Empty,
    /// Another poller.
    Busy,
    /// The ring service has stopped for good ([R-9]): nothing will complete any more.
    Failed,
}

impl Queue {
    /// The most completions of one drain.
    pub const DRAINED_MAX: u32 = 512;

    /// Takes the poller's lock and up to `most` completions (at least 1); `None` if another polls or there is none. One lane.
    /// [R-6a], [R-6b].
    pub fn begin_drain(&self, most: u32) -> Option<Drain> {
        match self.poll(most, 1, true) {
            Poll::Taken(drain) => Some(drain),
            Poll::Empty | Poll::Busy | Poll::Failed => None,
        }
    }

    /// [`Queue::begin_drain`], which polls the CQ tail up to `polls` times (at least once) before it releases the lock: a completion that comes
    /// meanwhile is found without taking the lock again. `most` is at most [`Queue::DRAINED_MAX`].
    ///
    /// `waits`: the lane has polled before, and looks at the lock before it reaches for it, so that waiters do not contend. One that has just
    /// committed reaches for it at once, which is a trip to memory less.
    pub fn poll(&self, most: u32, polls: u32, waits: bool) -> Poll {
        debug_assert!(most <= Self::DRAINED_MAX);
        let words = self.words();
        // ORDERING: relaxed, both: hints, and issued together.
        let left = words.orphaned.0.peek();
        let polled = if waits { words.poller.0.peek() } else { 0 };
        if left != 0 {
            self.adopt();
        }
        // ORDERING: acquire, device, partner `end_drain`.
        if polled != 0 || !words.poller.0.try_acquire(0, 1) {
            return Poll::Busy;
        }
        // ORDERING: relaxed: only pollers touch it, ordered by `poller`.
        let head = words.drained.0.peek();
        for _ in 0..polls {
            // ORDERING: acquire, system, partner the kernel's release of the tail: the entries come before.
            let tail = self.cq_tail().observe();
            let posted = tail.wrapping_sub(head);
            if posted > 0 {
                if posted > self.parts.cq_entries {
                    //
                    // ORDERING: release, device, partner the next `poll`.
                    words.poller.0.publish(0);
                    return Poll::Failed;
                }
                return Poll::Taken(Drain { head, count: posted.min(most) });
            }
        }
        // ORDERING: relaxed: a counter.
        self.counters().empty_looks.count(u64::from(polls));
        // ORDERING: release, device, partner the next `poll`.
        words.poller.0.publish(0);
        Poll::Empty
    }

    /// Whether the ring service has stopped for good ([R-9]). A hint: a completion that is posted meanwhile may hide it for a while.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        // ORDERING: relaxed, both: a failed tail is further from every value of `drained` than any lag between the two loads.
        self.cq_tail().peek().wrapping_sub(self.words().drained.0.peek()) > self.parts.cq_entries
    }

    /// The CQ tail by which the host says that a ring has failed ([R-9]), where the service has last seen `head` as the CQ head.
    #[must_use]
    pub const fn failed_tail(head: u32) -> u32 {
        head.wrapping_add(1 << 31)
    }

    /// Whether a CQ tail is [`Queue::failed_tail`] of the CQ head `head`, or of a head at most `cq_entries` before it.
    #[must_use]
    pub const fn is_failed_tail(tail: u32, head: u32, cq_entries: u32) -> bool {
        tail.wrapping_sub(head) > cq_entries
    }

    /// Copies completion `index` of a drain. The lane that will deliver it.
    ///
    /// # Panics
    /// If `index` is not below the drain's count.
    #[must_use]
    pub fn entry(&self, drain: &Drain, index: u32) -> Completion {
        assert!(index < drain.count);
        let place = drain.head.wrapping_add(index) & (self.parts.cq_entries - 1);
        // SAFETY:
        // - the index is masked below `cq_entries`, valid by `new`'s contract
        // - the kernel published the entry (the tail was acquired) and will not write it again before `advance` stores the head, which
        //   no copy follows, by its contract and by `Drain::from_word`'s
        let cqe = unsafe { (*self.parts.cqes.add(place as usize)).read() };
        Completion(cqe)
    }

    /// Stores the results of those copies that must outlive the device, where the host finds them when it is dead. The lane that copied them calls
    /// this with all of its copies: the first use of a copy waits until it has come over the bus. Before the barrier with `advance`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "copies stay in registers only where all of this is inlined")]
    #[expect(clippy::needless_range_loop, reason = "an iterator over the array keeps it in memory")]
    pub fn keep<const N: usize>(&self, copies: &[Option<Completion>; N]) {
        if !self.keeps_results() {
            return;
        }
        for index in 0..N {
            if let Some(Completion(cqe)) = copies[index]
                && self.is_journaled(cqe)
                && let Some(operation) = self.operation_of(cqe)
            {
                self.keep_result(operation, cqe.res);
            }
        }
    }

    /// Returns the entries to the kernel, now or together with later ones: storing the head on every drain would add a bus write to the
    /// latency of each operation. One lane, after a barrier with the lanes that copied them, before any is delivered. [R-6d].
    ///
    /// # Safety
    /// Each entry of the drain has been copied, by copies that happen before, and none is copied again. Called once.
    pub unsafe fn advance(&self, drain: &Drain) {
        let next = drain.head.wrapping_add(drain.count);
        if (drain.head ^ next) >= self.head_step {
            // ORDERING: release, system, partner the kernel's acquire of the head: the copies come before, earlier pollers' among them.
            self.cq_head().publish(next);
        }
        // ORDERING: relaxed: only pollers touch it, ordered by `poller`.
        self.words().drained.0.set(next);
    }

    /// Delivers a completion to its operation. The lane that copied it, after a barrier with `advance`. [R-6e], [R-7].
    pub fn deliver(&self, completion: Completion) -> Delivery {
        let [delivery] = self.deliver_all(&[Some(completion)]);
        delivery.unwrap_or(Delivery::Stale)
    }

    /// [`Queue::deliver`] of several, whose exchanges are in flight together.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "copies stay in registers only where all of this is inlined")]
    pub fn deliver_all<const N: usize>(
        &self,
        completions: &[Option<Completion>; N],
    ) -> [Option<Delivery>; N] {
        // ORDERING: release, device, partner `outcome`: the head, the kept results and what the kernel wrote come before the
        // exchanges; and before the store in `end_drain`, with all that `advance` says of it.
        release_fence();
        // By index: an iterator over the array keeps it in memory.
        let mut found = [0; N];
        for index in 0..N {
            if let Some(Completion(cqe)) = completions[index]
                && let Some(operation) = self.operation_of(cqe)
            {
                let in_flight = in_flight_word(operation.generation);
                let done = in_flight | DONE | u64::from(cqe.res.cast_unsigned());
                found[index] = self.slot(operation.slot).compare_exchange_fenced(in_flight, done);
            }
        }
        // Looked at when all are on their way: a look at one waits for its answer.
        let mut deliveries = [None; N];
        for index in 0..N {
            let Some(Completion(cqe)) = completions[index] else { continue };
            let expected = self.operation_of(cqe).map(|operation| in_flight_word(operation.generation));
            if expected == Some(found[index]) {
                deliveries[index] = Some(Delivery::Delivered);
            } else {
                deliveries[index] = Some(Delivery::Stale);
                // ORDERING: relaxed: a counter.
                self.counters().stale.count(1);
            }
        }
        deliveries
    }

    /// Whether a completion's result outlives the device.
    const fn is_journaled(&self, cqe: Cqe) -> bool {
        self.keeps_results() && cqe.user_data & Operation::JOURNALED != 0
    }

    /// The operation that a completion names, if it may be one.
    fn operation_of(&self, cqe: Cqe) -> Option<Operation> {
        let token =
            if self.is_journaled(cqe) { cqe.user_data & !Operation::JOURNALED } else { cqe.user_data };
        let operation = Operation::from_token(token);
        let may_be =
            operation.slot.0 < self.parts.capacity && (1..=GENERATIONS).contains(&operation.generation);
        may_be.then_some(operation)
    }

    /// Stores the result of an operation where the host finds it when the device is dead.
    fn keep_result(&self, operation: Operation, res: i32) {
        // SAFETY:
        // - the slot is below the capacity, as `operation_of` checked
        // - valid, by `new`'s contract
        let word = unsafe { &*self.parts.results.add(operation.slot.0 as usize) };
        // ORDERING: relaxed: the delivery that follows is a release, and so is the next store of the CQ head.
        word.set(u64::from(operation.generation) << 32 | u64::from(res.cast_unsigned()));
    }

    /// Ends a drain. [R-6f].
    ///
    /// # Safety
    /// The caller advanced the drain, and has delivered its copies since, or called [`Queue::deliver_all`] with none: the fence there makes
    /// this a release of all that was copied and kept before `advance`.
    pub unsafe fn end_drain(&self, drain: Drain) {
        let words = self.words();
        // ORDERING: release by the fence in `deliver_all`, device, partner the next `poll`.
        words.poller.0.publish_fenced(0);
        // ORDERING: relaxed: a counter.
        self.counters().completions.count(u64::from(drain.count));
    }

    /// A whole drain by one lane alone, up to `most` completions (at most 64); how many it delivered.
    pub fn drain_alone(&self, most: u32) -> u32 {
        let Some(drain) = self.begin_drain(most.min(64)) else { return 0 };
        let count = drain.count;
        let mut copies = [None; 64];
        for (index, copy) in (0..count).zip(&mut copies) {
            let completion = self.entry(&drain, index);
            *copy = Some(completion);
        }
        self.keep(&copies);
        // SAFETY:
        // - every entry was copied above, by this lane; the drain is consumed below
        unsafe { self.advance(&drain) };
        for copy in copies.into_iter().flatten() {
            let (Delivery::Delivered | Delivery::Stale) = self.deliver(copy);
        }
        // SAFETY:
        // - advanced above, and there was a completion at least, which was delivered
        unsafe { self.end_drain(drain) };
        count
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;

    /// From any head, and still when completions that were in flight have moved it; a tail that completions make is none.
    #[test]
    fn a_failed_tail_is_no_tail_of_completions() {
        for entries in [1, 2, 64, 1 << 15] {
            for head in [0, 1, 63, 64, 1 << 31, u32::MAX - 1, u32::MAX] {
                let failed = Queue::failed_tail(head);
                for moved in [0, 1, entries / 2, entries] {
                    assert!(
                        Queue::is_failed_tail(failed, head.wrapping_add(moved), entries),
                        "{head} {moved}"
                    );
                    assert!(
                        !Queue::is_failed_tail(head.wrapping_add(moved), head, entries),
                        "{head} {moved}"
                    );
                }
            }
        }
    }
}
