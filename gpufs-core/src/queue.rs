//! One ring as the device sees it: many producers, one publisher at a time, one poller at a time (stages 4 to 8).
//!
//! The steps of a batch, in order; "leader" is one lane, "each" every lane that has an entry, and between lines all lanes meet at
//! a barrier:
//!
//! ```text
//! leader  claim(n) -> slots            leader  begin_drain(n) -> Drain
//! each    arm(slot) -> Operation       each    entry(drain, i) -> Cqe, keep(cqe)
//! leader  reserve(n) -> Batch          leader  advance(drain)
//! each    fill(ticket + i, sqe)        each    deliver(cqe)
//! leader  commit(batch)                leader  end_drain(drain)
//! each    outcome(operation) …         leader  release(slots)
//! ```
//!
//! Nothing here waits. What a queue does not do: choose a ring, retry, or look at results.
#![allow(unsafe_code, reason = "the ring is reached through pointers that the host made")]

use crate::abi::{Cqe, Sqe};
use crate::free_set::{Claim, FreeSet};
use crate::word::{DeviceWord, DeviceWord64, EntryCell, SharedWord, SharedWord64, release_fence};

/// A slot of a ring's operation table: below [`Queue::capacity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Slot(pub u32);

/// A place in the submission queue; runs free and is masked on access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Ticket(pub u32);

impl Ticket {
    /// The ticket `count` places on.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }
}

/// Tickets drawn together, to be filled and committed. Its holder waits for nothing until it has committed it.
#[derive(Clone, Copy, Debug)]
#[must_use = "tickets that are not committed hold up all that come after"]
pub struct Batch {
    /// The first ticket.
    pub first: Ticket,
    /// How many: at least 1.
    count: u32,
    /// The holder is the publisher since it drew.
    publishes: bool,
    /// How far the tail had come then. Of meaning to the publisher, for whom it stays so.
    published: u32,
}

/// One live operation: its slot and the slot's generation. As a number it is the SQE's `user_data`.
///
/// ```text
/// 63           62 … 32        31 … 0
/// journaled    generation     slot
/// ```
///
/// A token is the number without [`Operation::JOURNALED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The slot.
    pub slot: Slot,
    /// Its generation: 1 to 2³¹ − 1.
    pub generation: u32,
}

impl Operation {
    /// Set in the `user_data` of an operation whose result must outlive the device: the write of a journaled block.
    pub const JOURNALED: u64 = 1 << 63;

    /// The number that stands for it.
    #[must_use]
    pub const fn token(self) -> u64 {
        ((self.generation as u64) << 32) | self.slot.0 as u64
    }
    /// The operation that a token stands for.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the two halves of the token")]
    pub const fn from_token(token: u64) -> Self {
        Self { slot: Slot(token as u32), generation: (token >> 32) as u32 }
    }
}

/// What became of a completion that a poller handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Delivery {
    /// The operation went from in flight to done.
    Delivered,
    /// No such operation is in flight: an old generation, a second completion, or a number that is no operation.
    Stale,
}

/// What is known of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Not complete: the buffer is the kernel's.
    InFlight,
    /// Complete, with the CQE's `res`.
    Done(i32),
    /// The slot has gone on to another operation.
    Stale,
}

/// Completions that a poller has taken: `count` of them from `head` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the poller's lock is held until end_drain"]
pub struct Drain {
    /// Index of the first.
    pub head: u32,
    /// How many: at least 1.
    pub count: u32,
}

/// What a poll of the completion queue found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Poll {
    /// Completions, which are the caller's.
    Taken(Drain),
    /// Nothing.
    Empty,
    /// Another poller.
    Busy,
    /// Whoever serves the ring has stopped for good (rule 9): nothing will complete any more.
    Failed,
}

/// A word on a cache line of its own, so that those who poll one do not slow those who write another.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct CacheAligned<T>(pub T);

/// The words of a queue that live in device memory.
///
/// | word | range | written by |
/// |---|---|---|
/// | `tickets` | see there | any producer's leader |
/// | `orphaned` | 0 to `publications` | a publisher that leaves commits behind; who adopts them stores 0 |
/// | `published` | runs free, monotonic, at most the next ticket | the publisher |
/// | `poller` | 0, 1 | whoever drains |
/// | `drained` | runs free, at most the CQ tail | the poller |
/// | `waits` | see there | whoever begins or ends a wait without an end |
#[derive(Debug, Default)]
#[repr(C)]
pub struct QueueWords {
    /// The next ticket, and how often somebody drew or committed that no publisher has dealt with. Zero of these means that there is no
    /// publisher and nothing to publish.
    ///
    /// ```text
    /// 63 … 32        31 … 0
    /// next ticket    publications: 0 to twice the producers present
    /// ```
    pub tickets: CacheAligned<DeviceWord64>,
    /// Publications that a publisher left to whoever drains next; 0 if there is a publisher or nothing to publish.
    pub orphaned: CacheAligned<DeviceWord>,
    /// The tail, as last stored. May be stale for all but the publisher.
    pub published: CacheAligned<DeviceWord>,
    /// Whether somebody drains.
    pub poller: CacheAligned<DeviceWord>,
    /// The CQ head, as last stored. May be stale for all but the poller.
    pub drained: CacheAligned<DeviceWord>,
    /// Operations submitted, tail stores, completions drained, looks at an empty CQ, stale completions, waits for a slot: counters.
    pub counters: CacheAligned<Counters>,
    /// Waits without an end (rule 8).
    pub waits: CacheAligned<Waits>,
}

/// How many operations that may never end are in flight.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Waits {
    /// As many as there may be. Constant while kernels run.
    most: DeviceWord,
    /// Those begun and not ended, and attempts to begin one that have not been taken back yet.
    begun: DeviceWord,
}

/// What a queue counts. Each only grows.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Counters {
    /// Operations submitted.
    pub operations: DeviceWord64,
    /// Stores of the SQ tail.
    pub publications: DeviceWord64,
    /// Completions drained.
    pub completions: DeviceWord64,
    /// Looks at the CQ that found it empty.
    pub empty_looks: DeviceWord64,
    /// Completions that no operation waited for.
    pub stale: DeviceWord64,
    /// Times that a claim found no free slot.
    pub slot_waits: DeviceWord64,
    /// Bytes that completed reads returned.
    pub bytes_read: DeviceWord64,
    /// Bytes that completed writes took.
    pub bytes_written: DeviceWord64,
    /// Operations that a call of the host's gave up and could not cancel.
    pub abandoned: DeviceWord64,
}

/// What a [`Queue`] is made of. Entry counts are powers of two.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct QueueParts {
    /// The SQ tail. Shared; written by the publisher, read by the kernel.
    pub sq_tail: *const SharedWord,
    /// The CQ head. Shared; written by the poller, read by the kernel.
    pub cq_head: *const SharedWord,
    /// The CQ tail. Shared; written by the kernel, read by the poller.
    pub cq_tail: *const SharedWord,
    /// `sq_entries` submission entries. Shared.
    pub sqes: *const EntryCell<Sqe>,
    /// `cq_entries` completion entries. Shared.
    pub cqes: *const EntryCell<Cqe>,
    /// Submission entries.
    pub sq_entries: u32,
    /// Completion entries.
    pub cq_entries: u32,
    /// The queue's words, in device memory.
    pub words: *const QueueWords,
    /// `sq_entries` marks, in device memory: 0, or the length of the ready batch that starts there.
    pub ready: *const DeviceWord,
    /// `capacity` state words, in device memory.
    ///
    /// ```text
    /// 63 … 33        32      31 … 0
    /// generation     done    res
    /// ```
    pub slots: *const DeviceWord64,
    /// The free slots: `capacity` of them.
    pub free: FreeSet,
    /// Slots: at most min(`sq_entries`, `cq_entries`); at most half of `cq_entries` where there are `results`.
    pub capacity: u32,
    /// `capacity` words in host memory, or null: what became of the last [`Operation::JOURNALED`] operation of each slot.
    /// Shared; written by who delivers it, read by the host once the device is dead.
    ///
    /// ```text
    /// 63 … 32        31 … 0
    /// generation     res
    /// ```
    pub results: *const SharedWord64,
}

/// How far a queue is. From submission to completion: `tickets` ≥ `sq_tail` ≥ `cq_tail` ≥ `drained`, but for wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueProgress {
    /// Tickets drawn.
    pub tickets: u32,
    /// Entries published.
    pub sq_tail: u32,
    /// Completions posted.
    pub cq_tail: u32,
    /// Completions handed on.
    pub drained: u32,
    /// Draws and commits that no publisher has dealt with.
    pub unpublished: u32,
    /// Those of them that a publisher left to others.
    pub orphaned: u32,
    /// 1 while somebody drains.
    pub polled: u32,
}

/// One ring as the device sees it. It is its parts' addresses and sizes, which never change: a lane that takes many steps copies it, so
/// that they stay in registers. On a GPU each acquire sends the next look at memory on a trip of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Queue {
    parts: QueueParts,
    /// Completions after which the CQ head is stored at the latest: a power of two.
    head_step: u32,
}

// SAFETY:
// - every part is shared by design: words are atomic, entries are handed over by rules 3, 4 and 6
unsafe impl Sync for Queue {}
// SAFETY:
// - as for `Sync`: nothing in a queue belongs to a thread
unsafe impl Send for Queue {}

/// Rounds after which a publisher leaves to others what is committed meanwhile. One under loom, so that this is explored.
const ROUNDS: u32 = if cfg!(loom) { 1 } else { 4 };

/// In `tickets`: one ticket.
const TICKET: u64 = 1 << 32;

/// The publications in `tickets`.
#[allow(clippy::cast_possible_truncation, reason = "the low half")]
const fn publications_of(tickets: u64) -> u32 {
    tickets as u32
}

/// The next ticket in `tickets`.
#[allow(clippy::cast_possible_truncation, reason = "the upper half")]
const fn ticket_of(tickets: u64) -> Ticket {
    Ticket((tickets >> 32) as u32)
}

const GENERATIONS: u32 = (1 << 31) - 1;
const DONE: u64 = 1 << 32;

const fn in_flight_word(generation: u32) -> u64 {
    (generation as u64) << 33
}

impl Queue {
    /// The most completions of one drain.
    pub const MOST_DRAINED: u32 = 512;

    /// The queue over `parts`.
    ///
    /// # Safety
    /// Every pointer is valid for its count of items, on every device that uses the queue, as long as the queue lives; the
    /// words continue the kernel's indices (next ticket = `published` = SQ tail, `drained` = CQ head); `ready` is zero.
    ///
    /// # Panics
    /// If an entry count is not a power of two, or `capacity` is zero or more than its field says.
    #[must_use]
    pub const unsafe fn new(parts: QueueParts) -> Self {
        assert!(parts.sq_entries.is_power_of_two() && parts.cq_entries.is_power_of_two());
        // Rule 2.
        assert!(
            parts.capacity > 0 && parts.capacity <= parts.sq_entries && parts.capacity <= parts.cq_entries
        );
        // What `journal` needs to find a result in the CQ.
        assert!(parts.results.is_null() || parts.capacity <= parts.cq_entries / 2);
        // What has been copied may stay in the CQ as long as there is room for all that can be posted (second proof of the crate), and what
        // is kept must be visible before its entry is overwritten (`journal`).
        let unread = if parts.results.is_null() {
            0
        } else if parts.capacity < Self::MOST_DRAINED {
            parts.capacity
        } else {
            Self::MOST_DRAINED
        };
        let head_step = 1 << (parts.cq_entries - parts.capacity - unread + 1).ilog2();
        Self { parts, head_step }
    }

    /// Continues the indices of a ring on which `used` operations were submitted, completed and consumed before. Whoever makes the queue,
    /// before anybody uses it; all its words are zero.
    pub fn begin_at(&self, used: u32) {
        let words = self.words();
        // ORDERING: relaxed, all three: the queue is handed on afterwards.
        words.tickets.0.set(u64::from(used) * TICKET);
        words.published.0.set(used);
        words.drained.0.set(used);
    }

    /// Slots: how many operations can be in flight.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.parts.capacity
    }
    /// The queue's own words, for reports.
    #[must_use]
    pub const fn words(&self) -> &QueueWords {
        // SAFETY:
        // - valid, by `new`'s contract
        unsafe { &*self.parts.words }
    }
    /// What the queue has counted.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.words().counters.0
    }
    /// How far the queue is, for reports: each index on its own, while others move them.
    #[must_use]
    pub fn progress(&self) -> QueueProgress {
        let words = self.words();
        // ORDERING: relaxed throughout: a report.
        let tickets = words.tickets.0.peek();
        QueueProgress {
            tickets: ticket_of(tickets).0,
            sq_tail: self.sq_tail().peek(),
            cq_tail: self.cq_tail().peek(),
            drained: words.drained.0.peek(),
            unpublished: publications_of(tickets),
            orphaned: words.orphaned.0.peek(),
            polled: words.poller.0.peek(),
        }
    }

    const fn sq_tail(&self) -> &SharedWord {
        // SAFETY:
        // - valid, by `new`'s contract
        unsafe { &*self.parts.sq_tail }
    }
    const fn cq_head(&self) -> &SharedWord {
        // SAFETY:
        // - valid, by `new`'s contract
        unsafe { &*self.parts.cq_head }
    }
    const fn cq_tail(&self) -> &SharedWord {
        // SAFETY:
        // - valid, by `new`'s contract
        unsafe { &*self.parts.cq_tail }
    }
    const fn ready(&self, ticket: u32) -> &DeviceWord {
        // SAFETY:
        // - the index is masked below `sq_entries`
        // - valid, by `new`'s contract
        unsafe { &*self.parts.ready.add((ticket & (self.parts.sq_entries - 1)) as usize) }
    }
    fn slot(&self, slot: Slot) -> &DeviceWord64 {
        assert!(slot.0 < self.parts.capacity, "a slot is below the capacity");
        // SAFETY:
        // - the index was checked
        // - valid, by `new`'s contract
        unsafe { &*self.parts.slots.add(slot.0 as usize) }
    }

    // Submission.

    /// Claims up to `wanted` slots (1 to 64) for a batch; `None` if none is free. One lane. Rule 2.
    pub fn claim(&self, wanted: u32, hint: u32) -> Option<Claim> {
        let free = &self.parts.free;
        let claim = if wanted == 1 { free.claim_one(hint) } else { free.claim(wanted, hint) };
        if claim.is_none() {
            // ORDERING: relaxed: a counter.
            self.counters().slot_waits.count(1);
        }
        claim
    }

    /// Puts a claimed slot in flight under a new generation. The lane whose operation it is.
    #[must_use]
    pub fn arm(&self, slot: Slot) -> Operation {
        let word = self.slot(slot);
        // ORDERING: relaxed: the slot is the caller's (acquired by the claim, or kept since its last outcome).
        let before = word.peek() >> 33;
        #[allow(clippy::cast_possible_truncation, reason = "31 bits")]
        let generation = before as u32 % GENERATIONS + 1;
        // ORDERING: relaxed: the poller sees it through commit → tail → kernel → CQ tail.
        word.set(in_flight_word(generation));
        Operation { slot, generation }
    }

    /// Draws `count` tickets. One lane, holding as many claimed slots. Rules 3, 5.
    pub fn reserve(&self, count: u32) -> Batch {
        let words = self.words();
        // ORDERING: acquire and release, device, partner every earlier `reserve`: the claims behind all earlier tickets come before,
        // and with them the kernel's read of the SQE one lap ago and the clearing of its mark. The caller's own slots do not
        // carry that: they may have been free since before those tickets were drawn. Partner `leave_or_publish`'s sub, too: who finds no
        // publications sees what the last publisher wrote.
        let before = words.tickets.0.fetch_add(u64::from(count) * TICKET + 1);
        // ORDERING: relaxed: only publishers touch it, ordered by `tickets`.
        let published = words.published.0.peek();
        Batch { first: ticket_of(before), count, publishes: publications_of(before) == 0, published }
    }

    /// Writes the SQE of one ticket. The lane that holds it.
    ///
    /// # Safety
    /// `ticket` was drawn by [`Queue::reserve`] and not yet committed, and no other lane fills it. What the SQE refers to stays
    /// valid until the operation's completion.
    pub unsafe fn fill(&self, ticket: Ticket, sqe: Sqe) {
        // SAFETY:
        // - the index is masked below `sq_entries`, valid by `new`'s contract
        // - nobody else touches the entry: the kernel has read its last content (first proof at the top of the crate), and other
        //   producers hold other tickets
        unsafe {
            let entry = &*self.parts.sqes.add((ticket.0 & (self.parts.sq_entries - 1)) as usize);
            entry.write(sqe);
        }
    }

    /// Sees to the publication of a filled batch. One lane, after a barrier with those that filled it. Rules 4, 5.
    ///
    /// # Safety
    /// The batch was drawn from this queue and is committed once; each of its tickets has been filled, and the filling happens before.
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "a copy of the queue stays in registers only where all of this is inlined"
    )]
    pub unsafe fn commit(&self, batch: Batch) {
        let Batch { first, count, publishes, published } = batch;
        // ORDERING: relaxed: a counter.
        self.counters().operations.count(u64::from(count));
        if publishes && published == first.0 {
            // The next in line: no mark is needed, and the kernel need not wait for the look at those behind it.
            self.pass(first.0, count);
            // Nor for a look at their marks: whoever has committed meanwhile is among the publications.
            self.leave_or_publish(1);
            return;
        }
        // ORDERING: release, device, partner `pass_ready`'s observe: the SQEs come before the mark.
        self.ready(first.0).publish(count);
        if publishes {
            // It stands behind a ticket that is not published yet. If that is ready its committer has added to the publications.
            self.leave_or_publish(1);
        } else {
            // ORDERING: acquire and release, device, partner `leave_or_publish`'s `fetch_sub`: the mark is seen by a publisher that is
            // still at work, and a new publisher sees what the last one wrote.
            if publications_of(self.words().tickets.0.fetch_add(1)) == 0 {
                self.publish(1);
            }
        }
    }

    /// Publishes what a publisher left behind, if there is such. Any lane that waits; `begin_drain` calls it. Waits for nothing.
    pub fn adopt(&self) {
        let orphaned = &self.words().orphaned.0;
        // ORDERING: relaxed look first; then acquire, device, partner the publisher that left.
        let left = orphaned.peek();
        if left != 0 && orphaned.compare_exchange(left, 0).is_ok() {
            self.publish(left);
        }
    }

    /// Publishes every ready batch in ticket order, on behalf of `served` publications. The publisher. Rule 5.
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "a copy of the queue stays in registers only where all of this is inlined"
    )]
    fn publish(&self, served: u32) {
        self.pass_ready();
        self.leave_or_publish(served);
    }

    /// Ends a publisher's work, of `served` publications, unless others have drawn or committed meanwhile: those it looks after, too, for a
    /// few rounds.
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "a copy of the queue stays in registers only where all of this is inlined"
    )]
    fn leave_or_publish(&self, mut served: u32) {
        let words = self.words();
        for _ in 0..ROUNDS {
            // ORDERING: acquire and release, device, partner `commit`'s `fetch_add` and `reserve`'s.
            let before = publications_of(words.tickets.0.fetch_sub(u64::from(served)));
            debug_assert!(before >= served);
            if before == served {
                return;
            }
            served = before - served;
            self.pass_ready();
        }
        // Others commit faster than this lane publishes: it has work of its own.
        // ORDERING: release, device, partner `adopt`: `published` and the cleared marks come before.
        words.orphaned.0.publish(served);
    }

    /// Stores the tail behind every ready batch. The publisher.
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "a copy of the queue stays in registers only where all of this is inlined"
    )]
    fn pass_ready(&self) {
        // ORDERING: relaxed: only publishers touch it, ordered by `tickets`.
        let start = self.words().published.0.peek();
        let mut next = start;
        // Ends: nothing passed here completes before the tail is stored, so at most `capacity` tickets are passed.
        loop {
            let mark = self.ready(next);
            // ORDERING: acquire, device, partner `commit`: the batch's SQEs come before.
            let count = mark.observe();
            if count == 0 {
                break;
            }
            // ORDERING: relaxed: the next mark at this index comes after the tail store below (third proof).
            mark.set(0);
            next = next.wrapping_add(count);
        }
        if next != start {
            debug_assert!(next.wrapping_sub(start) <= self.parts.capacity);
            self.pass(start, next.wrapping_sub(start));
        }
    }

    /// Stores the tail behind `count` tickets from `start` on. The publisher.
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "a copy of the queue stays in registers only where all of this is inlined"
    )]
    fn pass(&self, start: u32, count: u32) {
        let next = start.wrapping_add(count);
        // ORDERING: relaxed: only publishers touch it.
        self.words().published.0.set(next);
        // ORDERING: release, system, partner the kernel's acquire of the tail: SQEs of every batch passed come before, since
        // their marks were acquired, or they are the caller's own.
        self.sq_tail().publish(next);
        // ORDERING: relaxed: a counter.
        self.counters().publications.count(1);
    }

    // Completion.

    /// Takes the poller's lock and up to `most` completions (at least 1); `None` if another polls or there is none. One lane.
    /// Rule 6.
    pub fn begin_drain(&self, most: u32) -> Option<Drain> {
        match self.poll(most, 1) {
            Poll::Taken(drain) => Some(drain),
            Poll::Empty | Poll::Busy | Poll::Failed => None,
        }
    }

    /// [`Queue::begin_drain`], which polls the CQ tail up to `polls` times (at least once) before it releases the lock: a completion that comes
    /// meanwhile is found without taking the lock again. `most` is at most [`Queue::MOST_DRAINED`].
    pub fn poll(&self, most: u32, polls: u32) -> Poll {
        debug_assert!(most <= Self::MOST_DRAINED);
        let words = self.words();
        // ORDERING: relaxed looks first, so that waiters do not fight over the words; both on their way at once.
        let (left, polled) = (words.orphaned.0.peek(), words.poller.0.peek());
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
                    // Rule 9.
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

    /// Whether whoever serves the ring has stopped for good (rule 9). A report: a completion that is posted meanwhile may hide it for a while.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        // ORDERING: relaxed, both: the tail that says so is further from every value of `drained` than any lag between the two.
        self.cq_tail().peek().wrapping_sub(self.words().drained.0.peek()) > self.parts.cq_entries
    }

    /// The CQ tail by which the host says that a ring has failed (rule 9), where the service has last seen `head` as the CQ head.
    #[must_use]
    pub const fn failed_tail(head: u32) -> u32 {
        head.wrapping_add(1 << 31)
    }

    /// Whether a CQ tail beside a CQ head is [`Queue::failed_tail`] of that or of a head at most `cq_entries` before it.
    #[must_use]
    pub const fn is_failed_tail(tail: u32, head: u32, cq_entries: u32) -> bool {
        tail.wrapping_sub(head) > cq_entries
    }

    /// Copies completion `index` of a drain. The lane that will deliver it.
    ///
    /// # Panics
    /// If `index` is not below the drain's count.
    #[must_use]
    pub fn entry(&self, drain: Drain, index: u32) -> Cqe {
        assert!(index < drain.count);
        let place = drain.head.wrapping_add(index) & (self.parts.cq_entries - 1);
        // SAFETY:
        // - the index is masked below `cq_entries`, valid by `new`'s contract
        // - the kernel published the entry (the tail was acquired) and will not write it again before `advance` stores the head
        unsafe { (*self.parts.cqes.add(place as usize)).read() }
    }

    /// Stores the results of those copies that must outlive the device, where the host finds them when it is dead. The lane that copied them,
    /// all of its copies at once: the first look at a copy waits until it has come over the bus. Before the barrier with `advance`.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "copies stay in registers only where all of this is inlined")]
    pub fn keep<const N: usize>(&self, copies: [Option<Cqe>; N]) {
        for cqe in copies {
            if let Some(cqe) = cqe
                && self.is_journaled(cqe)
                && let Some(operation) = self.operation_of(cqe)
            {
                self.keep_result(operation, cqe.res);
            }
        }
    }

    /// Gives the entries back to the kernel, at once or with later ones: a store over the bus for each drain would be a part of every
    /// operation's time. One lane, after a barrier with those that copied them, before any is delivered.
    pub fn advance(&self, drain: Drain) {
        let next = drain.head.wrapping_add(drain.count);
        if (drain.head ^ next) >= self.head_step {
            // ORDERING: release, system, partner the kernel's acquire of the head: the copies come before, earlier pollers' among them.
            self.cq_head().publish(next);
        }
        // ORDERING: relaxed: only pollers touch it, ordered by `poller`.
        self.words().drained.0.set(next);
    }

    /// Hands a completion to its operation. The lane that copied it, after a barrier with `advance`. Rule 7.
    pub fn deliver(&self, cqe: Cqe) -> Delivery {
        let [delivery] = self.deliver_all([Some(cqe)]);
        delivery.unwrap_or(Delivery::Stale)
    }

    /// [`Queue::deliver`] of several, on their way at the same time.
    pub fn deliver_all<const N: usize>(&self, cqes: [Option<Cqe>; N]) -> [Option<Delivery>; N] {
        let mut operations = [None; N];
        for (cqe, operation) in cqes.into_iter().zip(&mut operations) {
            *operation = cqe.and_then(|cqe| self.operation_of(cqe));
        }
        // ORDERING: release, device, partner `outcome`: the head, the kept results and what the kernel wrote come before the
        // exchanges; and before the store in `end_drain`, with all that `advance` says of it.
        release_fence();
        let mut delivered = [false; N];
        for ((cqe, operation), delivered) in cqes.into_iter().zip(operations).zip(&mut delivered) {
            if let (Some(cqe), Some(operation)) = (cqe, operation) {
                let in_flight = in_flight_word(operation.generation);
                let done = in_flight | DONE | u64::from(cqe.res.cast_unsigned());
                *delivered = self.slot(operation.slot).compare_exchange_fenced(in_flight, done);
            }
        }
        let mut deliveries = [None; N];
        for ((cqe, delivered), delivery) in cqes.into_iter().zip(delivered).zip(&mut deliveries) {
            if cqe.is_none() {
                continue;
            }
            *delivery = Some(if delivered { Delivery::Delivered } else { Delivery::Stale });
            if !delivered {
                // ORDERING: relaxed: a counter.
                self.counters().stale.count(1);
            }
        }
        deliveries
    }

    /// Whether a completion's result outlives the device.
    const fn is_journaled(&self, cqe: Cqe) -> bool {
        !self.parts.results.is_null() && cqe.user_data & Operation::JOURNALED != 0
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

    /// Ends a drain. The lane that advanced, after it has delivered, or found nothing to deliver: the fence there makes this a release of
    /// all that was copied and kept before `advance`.
    pub fn end_drain(&self, drain: Drain) {
        let words = self.words();
        // ORDERING: release by the fence in `deliver_all`, device, partner the next `poll`.
        words.poller.0.publish_fenced(0);
        // ORDERING: relaxed: a counter.
        self.counters().completions.count(u64::from(drain.count));
    }

    /// A whole drain by one lane alone, up to `most` completions (at most 64); how many it handed on.
    pub fn drain_alone(&self, most: u32) -> u32 {
        let Some(drain) = self.begin_drain(most.min(64)) else { return 0 };
        let mut copies = [Cqe::default(); 64];
        for (index, copy) in (0..drain.count).zip(&mut copies) {
            *copy = self.entry(drain, index);
        }
        for copy in &copies[..drain.count as usize] {
            self.keep([Some(*copy)]);
        }
        self.advance(drain);
        for copy in &copies[..drain.count as usize] {
            let (Delivery::Delivered | Delivery::Stale) = self.deliver(*copy);
        }
        self.end_drain(drain);
        drain.count
    }

    /// What is known of an operation. Any lane.
    pub fn outcome(&self, operation: Operation) -> Outcome {
        // ORDERING: acquire, device, partner `deliver`: the buffer's content comes before the result.
        let word = self.slot(operation.slot).observe();
        if word >> 33 != u64::from(operation.generation) {
            Outcome::Stale
        } else if word & DONE == 0 {
            Outcome::InFlight
        } else {
            #[allow(clippy::cast_possible_truncation, reason = "the low half is the result")]
            Outcome::Done((word as u32).cast_signed())
        }
    }

    /// Says how many waits without an end there may be at once. While no kernel runs.
    pub fn limit_waits(&self, most: u32) {
        // ORDERING: relaxed: the next launch publishes it.
        self.words().waits.0.most.set(most);
    }
    /// Begins a wait without an end, unless there are as many as may be; whether it did. One lane, before it claims the slot for it; then it
    /// says [`Queue::end_wait`] when it has released the slot. Rule 8.
    #[must_use]
    pub fn begin_wait(&self) -> bool {
        let waits = &self.words().waits.0;
        // ORDERING: relaxed: constant.
        let most = waits.most.peek();
        // ORDERING: relaxed look first, so that those who wait for it do not fight over the word; then acquire and release, device, partner
        // `end_wait`: the slot of the wait before was free by then.
        if waits.begun.peek() >= most {
            return false;
        }
        let admitted = waits.begun.fetch_add(1) < most;
        if !admitted {
            waits.begun.fetch_sub(1);
        }
        admitted
    }
    /// Lets another begin.
    pub fn end_wait(&self) {
        // ORDERING: acquire and release, device, partner `begin_wait`.
        let before = self.words().waits.0.begun.fetch_sub(1);
        debug_assert!(before > 0);
    }

    /// Gives slots back. One lane, after every operation in them is done and its outcome was read.
    pub fn release(&self, claim: Claim) {
        self.parts.free.release(claim);
    }

    /// Makes every slot free, in a queue whose words are zero: what a new queue begins with. Its only user so far.
    pub fn release_all(&self) {
        self.parts.free.release_all(self.parts.capacity);
    }
    /// Gives back every slot that is taken and not `is_used`: its holder is gone. While no kernel runs and nothing is in flight.
    pub fn reclaim(&self, is_used: impl Fn(u32) -> bool) {
        for slot in (0..self.capacity()).filter(|slot| !self.parts.free.is_free(*slot) && !is_used(*slot)) {
            self.parts.free.release(Claim::single(slot));
        }
    }
    /// Free slots, as [`FreeSet::free`] says it.
    #[must_use]
    pub fn free_slots(&self) -> u32 {
        self.parts.free.free()
    }
}
