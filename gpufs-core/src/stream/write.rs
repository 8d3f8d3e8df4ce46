//! Reserving, committing, and starting a block's write: all that a call does that finds room. Under the lock the same steps follow
//! `reserve_locked` (`locked.rs`).
#![expect(unsafe_code, reason = "filling a ring entry")]

use super::reservation::{CLOSED, Reservation};
use super::{BLOCKS_MAX, BlockRef, ENTRY, Order, POSITION, Progress, State, Stream, StreamGeometry, Token};
use crate::abi::CURRENT_POSITION;
use crate::files::FileIndex;
use crate::journal::Journal;
use crate::resources::Resources;
use crate::ring::{Operation, Slot};
use crate::word::device_fence;

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Committed {
    /// The block is full: the caller must [`Stream::start`] it.
    pub full: bool,
    /// The journal had no entry left in this epoch of the block: the caller must see to it that the place is switched
    /// ([`Stream::is_behind`], [`Stream::catch_up`]) before its call returns.
    pub unrecorded: Option<u64>,
}

impl Stream {
    // The fast path: no lock.

    /// Reserves `bytes` (at least 1) for a warp whose handle has this `generation`. One lane. Waits for nothing.
    pub fn try_reserve(&self, generation: u32, bytes: u64) -> Reservation {
        let words = self.reservation();
        // ORDERING: relaxed: hints.
        let (at, available) = (words.cursor.peek(), words.available.peek());
        let position = at & POSITION;
        if at & CLOSED != 0 || position > Self::SPENT {
            return Reservation::Closed;
        }
        if available.cast_signed() < bytes.cast_signed() {
            return self.without_available(generation, position, bytes);
        }
        words.take(
            bytes,
            || self.admits(generation, position, bytes),
            || self.without_available(generation, position, bytes),
        )
    }

    /// The answer where too few bytes are available: a record that the fast path never takes need not wait for them.
    fn without_available(&self, generation: u32, position: u64, bytes: u64) -> Reservation {
        if self.admits(generation, position, bytes) { Reservation::Busy } else { Reservation::Closed }
    }

    /// Whether so many bytes seem to be available. A waiting caller looks at nothing else.
    #[must_use]
    pub fn has_available(&self, bytes: u64) -> bool {
        self.reservation().has_available(bytes)
    }

    /// Whether the fast path takes so many bytes at about this position, from handles of this generation.
    fn admits(&self, generation: u32, position: u64, bytes: u64) -> bool {
        // ORDERING: relaxed: constant as long as the caller has taken room; before that, hints.
        let (now, shift, count) =
            (self.generation.peek(), self.block_shift.peek(), u64::from(self.block_count.peek()));
        // Under the lock a long record goes in block by block; here it would wait for many blocks to be free at once.
        let spanned = ((position + bytes.min(POSITION / 2) - 1) >> shift) - (position >> shift);
        now == generation && spanned <= count / 2 && self.failed().is_none()
    }

    /// The journal entry for a commit of `bytes` bytes from the block's byte `start` on, to a block in which the caller has reserved them.
    /// One lane; may be done early, since it takes a while. 0 where output does not survive.
    #[must_use]
    pub fn draw_entry(
        &self,
        geometry: &StreamGeometry,
        block_number: u64,
        (start, bytes): (u32, u32),
    ) -> u32 {
        let journal = &geometry.journal;
        if !journal.is_enabled() {
            return 0;
        }
        Journal::entry_at(start, bytes).unwrap_or_else(|| {
            // ORDERING: relaxed: each lane draws an index of its own, and nothing else follows from it. It is drawn before the caller's bytes
            // are counted in, so in the epoch in force.
            #[allow(clippy::cast_possible_truncation, reason = "the upper half")]
            let index =
                (self.masked(block_number, geometry.mask).committed.fetch_add_relaxed(ENTRY) >> 32) as u32;
            journal.entry_drawn(index)
        })
    }

    /// Counts in `bytes` filled bytes of one block, from its byte `start` on, under the journal entry drawn for them. One lane, after
    /// a barrier with those that copied. Waits for nothing.
    pub fn commit(
        &self,
        resources: &Resources,
        geometry: &StreamGeometry,
        block_ref: BlockRef,
        (start, bytes): (u32, u32),
        entry: u32,
    ) -> Committed {
        let block = self.masked(block_ref.block_number, geometry.mask);
        let mut unrecorded = None;
        if geometry.journal.is_enabled()
            && !geometry.journal.enter(block_ref.buffer, block_ref.epoch, entry, start, bytes)
        {
            unrecorded = Some(block_ref.epoch);
        }
        // ORDERING: acquire and release, device, partner the other committers of the block: the last one acquires all of its bytes.
        #[allow(clippy::cast_possible_truncation, reason = "the low half is the bytes")]
        let committed = block.committed.fetch_add(u64::from(bytes)) as u32 + bytes;
        debug_assert!(u64::from(committed) <= 1 << geometry.shift);
        if u64::from(committed) < 1 << geometry.shift {
            return Committed { full: false, unrecorded };
        }
        self.note(resources, block_ref.block_number, 0);
        block.state.fill();
        // Where there is an order, `next` is stored before a look for FULL; this is the other half of that pair.
        device_fence();
        Committed { full: true, unrecorded: None }
    }

    /// Submits block `block_number` if it is full, the order lets it, and nothing failed; and those after it, which it lets go with that.
    /// Any lane. Waits for nothing.
    pub fn start(&self, resources: &Resources, ring: u32, block_number: u64) -> Progress {
        let started = self.start_one(resources, ring, block_number);
        let (Progress::Wait(_), Order::Started) = (started, self.order()) else { return started };
        // As in `commit`.
        device_fence();
        let mut last = block_number;
        // Ends: each round starts a block, and no place has two before the first is reaped.
        // Where no slot is free now, the next waiter or flush starts it.
        for _ in 1..BLOCKS_MAX {
            last += 1;
            if self.start_one(resources, ring, last) != started {
                break;
            }
        }
        started
    }

    /// [`Stream::start`] of one block.
    fn start_one(&self, resources: &Resources, ring: u32, block_number: u64) -> Progress {
        let block = self.place(block_number);
        // ORDERING: relaxed: hints; a waiting caller looks at `next` and the error again.
        if block.block_number.peek() != block_number || !block.state.seems(State::Full) {
            return Progress::Done;
        }
        if let Some(errno) = self.failed() {
            return Progress::Failed(errno);
        }
        if !self.is_next(block_number) {
            return Progress::Done;
        }
        let queue = &resources.queues()[ring as usize];
        let Some(claim) = queue.claim(1, ring) else { return Progress::NoSlot };
        if !block.state.claim_full() {
            queue.release(claim);
            return Progress::Done;
        }
        // Since the look above, the block may have been written, freed and filled again: then the next block of the place was claimed, whose
        // number stays while it is claimed.
        // ORDERING: acquire, device, partner `free_block`. (Acquired with the claim already: the committers of a block acquire its number, and
        // `claim_full` acquires from the last of them.)
        let block_number = block.block_number.observe();
        if !self.is_next(block_number) {
            block.state.release_full();
            queue.release(claim);
            return Progress::Done;
        }
        self.submit(resources, ring, claim.item(0), block_number);
        Progress::Wait(ring)
    }

    /// Writes [written, committed) of a block through `slot`. The block's owner, or for a block that is not full the lock's holder.
    #[inline(never)]
    pub(super) fn submit(&self, resources: &Resources, ring: u32, slot: u32, block_number: u64) {
        let block = self.place(block_number);
        let queue = &resources.queues()[ring as usize];
        let (from, to) = (block.written.peek(), block.committed());
        let offset = if self.order() == Order::OneByOne {
            CURRENT_POSITION
        } else {
            self.base.peek().wrapping_add(block_number << self.block_shift.peek()) + u64::from(from)
        };
        let address = resources.stream_buffers.address(block.buffer.peek()) + u64::from(from);
        let file = FileIndex(self.file.peek());
        let target = resources.files()[file.0 as usize].target(file);
        // SAFETY:
        // - the slot was claimed for this block, and belongs to it until `reap` has seen the outcome; the block is the caller's, by
        //   CLAIMED or the lock, so nothing is in flight in it
        let operation = unsafe { queue.arm(Slot(slot)) };
        let pool = &resources.stream_buffers;
        let token = Token::new(ring, operation);
        self.note(resources, block_number, token.word());
        let journaled = if resources.journal.is_enabled() { Operation::JOURNALED } else { 0 };
        let sqe = Resources::pool_transfer(pool, true, target, (address, to - from), offset)
            .with_user_data(operation.token() | journaled);
        // SAFETY:
        // - the slots were claimed for this batch, which is filled and committed below, with nothing between that could fail
        let batch = unsafe { queue.reserve(1) };
        let ticket = batch.first();
        resources.journal.note_ticket(block.buffer.peek(), block.epoch.peek(), ticket.0);
        // SAFETY:
        // - the ticket was just drawn, for this lane alone
        // - the block's buffer belongs to the operation until `reap` has seen its completion (`State::InFlight`)
        unsafe { queue.fill(ticket, sqe) };
        // The block is CLAIMED, or under the lock: nobody restarts the stream meanwhile. Of one that has not been started before, its owner alone
        // moves the word.
        // ORDERING: relaxed: as said.
        if self.order() == Order::Started
            && u64::from(to) == self.block_bytes()
            && self.next.peek() == block_number
        {
            // ORDERING: release, device, partner `is_next`: the ticket was drawn.
            self.next.publish(block_number + 1);
        }
        block.state.submit(token);
        // SAFETY:
        // - one ticket, drawn and filled above
        unsafe { queue.commit(batch) };
    }
}
