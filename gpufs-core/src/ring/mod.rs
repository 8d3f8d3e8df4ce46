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
//! Nothing here waits. A queue does not choose a ring, retry, or interpret results.
//!
//! | file | stage |
//! |---|---|
//! | `words.rs` | what a queue is made of |
//! | `slots.rs` | claim, arm, outcome, release; waits without an end |
//! | `publish.rs` | reserve, fill, commit; the publisher |
//! | `drain.rs` | poll, copy, advance, deliver; the poller |
#![expect(unsafe_code, reason = "the ring is reached through pointers that the host made")]

mod drain;
mod publish;
mod slots;
mod words;

pub use drain::{Completion, Delivery, Drain, Poll};
pub use publish::{Batch, Ticket};
pub use slots::{Holding, Operation, Outcome, Reach, Slot, SlotClaim};
pub use words::{CacheAligned, Counters, QueueParts, QueueProgress, QueueWords};

use crate::word::{DeviceWord, DeviceWord64, SharedWord};
use publish::{TICKET, publications_of, ticket_of};

/// One ring as the device sees it. It is its parts' addresses and sizes, which never change: a lane that takes many steps copies it, so
/// that they stay in registers: on a GPU every acquire makes the next load of a field go to memory again.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Queue {
    parts: QueueParts,
    /// Completions after which the CQ head is stored at the latest: a power of two.
    head_step: u32,
}

// SAFETY:
// - every part is shared by design: words are atomic, entries are handed over by [R-3], [R-4] and [R-6]
unsafe impl Sync for Queue {}
// SAFETY:
// - as for `Sync`: nothing in a queue belongs to a thread
unsafe impl Send for Queue {}

impl Queue {
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
        // [R-2].
        assert!(
            parts.capacity > 0 && parts.capacity <= parts.sq_entries && parts.capacity <= parts.cq_entries
        );
        // What `journal` needs to find a result in the CQ.
        assert!(parts.results.is_null() || parts.capacity <= parts.cq_entries / 2);
        // What has been copied may stay in the CQ as long as there is room for all that can be posted ([P-CQ]), and what
        // is kept must be visible before its entry is overwritten (`journal`).
        let unread = if parts.results.is_null() {
            0
        } else if parts.capacity < Self::DRAINED_MAX {
            parts.capacity
        } else {
            Self::DRAINED_MAX
        };
        let head_step = 1 << (parts.cq_entries - parts.capacity - unread + 1).ilog2();
        Self { parts, head_step }
    }

    /// Continues the indices of a ring on which `used` operations were submitted, completed and consumed before. [R-RENEW-3].
    ///
    /// # Safety
    /// No other thread uses the queue. It is new, with words of zero; or nothing is in flight, every slot is free, and the ring below is another one.
    pub unsafe fn begin_at(&self, used: u32) {
        let words = self.words();
        // ORDERING: relaxed, all four: the queue is handed to other threads afterwards.
        words.tickets.0.set(u64::from(used) * TICKET);
        // Publications that were left to a lane that never came: what they were for is published.
        words.orphaned.0.set(0);
        words.published.0.set(used);
        words.drained.0.set(used);
    }

    /// Slots: how many operations can be in flight.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.parts.capacity
    }

    /// Whether results of operations that ask for it ([`Operation::JOURNALED`]) outlive the device.
    #[must_use]
    pub const fn keeps_results(&self) -> bool {
        !self.parts.results.is_null()
    }

    /// The queue's own words.
    const fn words(&self) -> &QueueWords {
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

    pub(super) const fn sq_tail(&self) -> &SharedWord {
        // SAFETY:
        // - valid, by `new`'s contract
        unsafe { &*self.parts.sq_tail }
    }

    pub(super) const fn cq_head(&self) -> &SharedWord {
        // SAFETY:
        // - valid, by `new`'s contract
        unsafe { &*self.parts.cq_head }
    }

    pub(super) const fn cq_tail(&self) -> &SharedWord {
        // SAFETY:
        // - valid, by `new`'s contract
        unsafe { &*self.parts.cq_tail }
    }

    pub(super) const fn ready(&self, ticket: u32) -> &DeviceWord {
        // SAFETY:
        // - the index is masked below `sq_entries`
        // - valid, by `new`'s contract
        unsafe { &*self.parts.ready.add((ticket & (self.parts.sq_entries - 1)) as usize) }
    }

    #[inline]
    pub(super) fn slot(&self, slot: Slot) -> &DeviceWord64 {
        assert!(slot.0 < self.parts.capacity, "a slot is below the capacity");
        // SAFETY:
        // - the index was checked
        // - valid, by `new`'s contract
        unsafe { &*self.parts.slots.add(slot.0 as usize) }
    }
}
