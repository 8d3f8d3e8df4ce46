//! From claimed slots to the SQ tail: tickets are drawn, filled and committed, and one publisher at a time stores the tail.
#![expect(unsafe_code, reason = "the ring is reached through pointers that the host made")]

use super::Queue;
use crate::abi::Sqe;

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

/// Tickets drawn together, to be filled and committed, once: a batch cannot be copied. Its holder waits for nothing until it has committed
/// it.
#[derive(Debug)]
#[must_use = "tickets that are not committed hold up all that come after"]
pub struct Batch {
    /// The first ticket.
    first: Ticket,
    /// How many: at least 1.
    count: u32,
    /// The holder is the publisher since it drew.
    publishes: bool,
    /// How far the tail had come then. Of meaning to the publisher, for whom it stays so.
    published: u32,
}

impl Batch {
    /// The first ticket; those of the others follow.
    #[must_use]
    pub const fn first(&self) -> Ticket {
        self.first
    }
    /// Whether it is the next in line, and its holder the publisher: [`Queue::commit`] passes the tail over it then, and waits for nobody to do so.
    #[must_use]
    pub const fn is_next(&self) -> bool {
        self.publishes && self.published == self.first.0
    }
}

/// Rounds after which a publisher leaves the rest in `orphaned`. One under loom, so that this is explored.
const ROUNDS: u32 = if cfg!(loom) { 1 } else { 4 };

/// In `tickets`: one ticket.
pub(super) const TICKET: u64 = 1 << 32;

/// The publications in `tickets`.
#[expect(clippy::cast_possible_truncation, reason = "the low half")]
pub(super) const fn publications_of(tickets: u64) -> u32 {
    tickets as u32
}

/// The next ticket in `tickets`.
pub(super) const fn ticket_of(tickets: u64) -> Ticket {
    Ticket((tickets >> 32) as u32)
}

impl Queue {
    /// Draws `count` tickets. One lane, holding as many claimed slots. [R-3], [R-5a].
    ///
    /// ```compile_fail,E0133
    /// fn dropped(queue: &gpufs_core::Queue) {
    ///     drop(queue.reserve(1));
    /// }
    /// ```
    ///
    /// # Safety
    /// - The caller holds `count` claimed slots of this queue, 1 at least, which belong to no other batch ([R-2]).
    /// - It fills every ticket and commits the batch, whatever happens. The tail never passes a ticket that was not committed: all entries behind
    ///   it stay unseen, and with them bytes that were accepted from others.
    pub unsafe fn reserve(&self, count: u32) -> Batch {
        let words = self.words();
        // ORDERING: acquire and release, device, partner every earlier `reserve`: the claims behind all earlier tickets come before,
        // and with them the kernel's read of the SQE one lap ago and the clearing of its mark. The caller's own slots do not
        // carry that: they may have been free since before those tickets were drawn. Partner `leave_or_publish`'s `fetch_sub`, too: a
        // producer that finds no publications sees what the last publisher wrote.
        let before = words.tickets.0.fetch_add(u64::from(count) * TICKET + 1);
        // ORDERING: relaxed: only publishers touch it, ordered by `tickets`.
        let published = words.published.0.peek();
        Batch { first: ticket_of(before), count, publishes: publications_of(before) == 0, published }
    }

    /// Writes the SQE of one ticket. The lane that holds it.
    ///
    /// # Safety
    /// - `ticket` was drawn by [`Queue::reserve`] and not yet committed, and no other lane fills it.
    /// - Each ticket of its batch has a slot of its own, claimed before the batch was drawn ([R-2]).
    /// - What the SQE refers to stays valid until the operation's completion.
    pub unsafe fn fill(&self, ticket: Ticket, sqe: Sqe) {
        // SAFETY:
        // - the index is masked below `sq_entries`, valid by `new`'s contract
        // - no other agent touches the entry: the kernel has read its last content ([P-OVERWRITE]), and other
        //   producers hold other tickets
        unsafe {
            let entry = &*self.parts.sqes.add((ticket.0 & (self.parts.sq_entries - 1)) as usize);
            entry.write(sqe);
        }
    }

    /// Publishes a filled batch, or leaves it to the publisher. One lane, after a barrier with those that filled it. [R-4], [R-5b], [R-5c].
    ///
    /// # Safety
    /// The batch was drawn from this queue and is committed once; each of its tickets has been filled, and the filling happens before.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a copy of the queue stays in registers only where all of this is inlined"
    )]
    pub unsafe fn commit(&self, batch: Batch) {
        let is_next = batch.is_next();
        let Batch { first, count, publishes, .. } = batch;
        // ORDERING: relaxed: a counter.
        self.counters().operations.count(u64::from(count));
        if is_next {
            // The next in line: it needs no mark, and the kernel sees it before this lane looks at later marks.
            self.pass(first.0, count);
            // Nor are later marks looked at: a batch that was committed meanwhile is among the publications.
            self.leave_or_publish(1);
            return;
        }
        // ORDERING: release, device, partner `pass_ready`'s observe: the SQEs come before the mark.
        self.ready(first.0).publish(count);
        if publishes {
            // It comes after a ticket that is not published yet. If that one is ready, its committer has added to the publications.
            self.leave_or_publish(1);
        } else {
            // ORDERING: acquire and release, device, partner `leave_or_publish`'s `fetch_sub`: the mark is seen by a publisher that is
            // still at work, and a new publisher sees what the last one wrote.
            if publications_of(self.words().tickets.0.fetch_add(1)) == 0 {
                self.publish(1);
            }
        }
    }

    /// Publishes what a publisher left in `orphaned`, if anything. Any lane that waits; `poll` calls it. Waits for nothing. [R-5f].
    pub fn adopt(&self) {
        let orphaned = &self.words().orphaned.0;
        // ORDERING: relaxed load first; then acquire, device, partner the publisher that left.
        let left = orphaned.peek();
        if left != 0 && orphaned.compare_exchange(left, 0).is_ok() {
            self.publish(left);
        }
    }

    /// Adopts what a publisher left, and says whether the tail has passed `ticket`, or will without another lane's help. A lane that committed
    /// `ticket` and will not drain calls this until it is true. Waits for nothing. [R-ASYNC-2].
    #[must_use]
    pub fn pass_to(&self, ticket: Ticket) -> bool {
        self.adopt();
        // ORDERING: relaxed: the publisher stores it right before the tail, and nothing else hangs on it. At most `capacity` tickets are drawn
        // and not published, so one that is further on was passed.
        ticket.0.wrapping_sub(self.words().published.0.peek()) >= self.parts.capacity
    }

    /// Publishes every ready batch in ticket order, on behalf of `served` publications. The publisher. [R-5d].
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a copy of the queue stays in registers only where all of this is inlined"
    )]
    fn publish(&self, served: u32) {
        self.pass_ready();
        self.leave_or_publish(served);
    }

    /// Subtracts the `served` publications. If others have drawn or committed meanwhile, the publisher serves those too, for a few rounds, and
    /// then leaves the rest in `orphaned`. [R-5d], [R-5e].
    #[inline(always)]
    #[expect(
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

    /// Stores the tail past every ready batch. The publisher. [R-4].
    #[inline(always)]
    #[expect(
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
            // ORDERING: relaxed: the next mark at this index comes after the tail store below ([P-MARK]).
            mark.set(0);
            next = next.wrapping_add(count);
        }
        if next != start {
            debug_assert!(next.wrapping_sub(start) <= self.parts.capacity);
            self.pass(start, next.wrapping_sub(start));
        }
    }

    /// Stores the tail past `count` tickets from `start` on. The publisher.
    #[inline(always)]
    #[expect(
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
}
