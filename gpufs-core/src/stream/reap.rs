//! What follows a block's write: its result is taken in, the block is freed and its place granted again. Any lane does these steps, without
//! the lock; [`Stream::progress`] is all of them for one place.
#![expect(unsafe_code, reason = "says whose a slot is")]

use super::{Order, Progress, Stream};
use crate::abi::Errno;
use crate::resources::Resources;
use crate::ring::{Outcome, SlotClaim};
use crate::word::device_fence;

impl Stream {
    /// Looks at the write of one place: frees the block if it is complete, submits the rest if it was short, keeps the bytes and
    /// notes the error if it failed. Any lane. Waits for nothing.
    ///
    /// [`Progress::Wait`] says that the write is in flight on that ring.
    pub fn reap(&self, resources: &Resources, block_number: u64) -> Progress {
        let block = self.place(block_number);
        let token = match block.state.token() {
            Ok(token) => token,
            // CLAIMED passes by itself: its owner waits for nothing.
            Err(is_claimed) => return if is_claimed { Progress::Wait(0) } else { Progress::Done },
        };
        let (ring, operation) = token.parts();
        let queue = &resources.queues()[ring as usize];
        let result = match queue.outcome(operation) {
            Outcome::InFlight => return Progress::Wait(ring),
            Outcome::Stale => return Progress::Done,
            Outcome::Done(result) => result,
        };
        if !block.state.claim_in_flight(token) {
            return Progress::Done;
        }
        // SAFETY:
        // - the slot that the write was started with; its outcome was seen, and one reaper is here, which releases it or writes on
        let slot = unsafe { SlotClaim::of(operation) };
        // ORDERING: relaxed, as all words of the block: its owner's, acquired with the claim.
        let block_number = block.block_number.peek();
        let (written, committed) = (block.written.peek(), block.committed());
        match Errno::check(result) {
            Ok(count) if count > 0 || written == committed => {
                debug_assert!(count <= committed - written);
                // ORDERING: relaxed: a counter.
                queue.counters().bytes_written.count(u64::from(count));
                block.written.set(written + count);
                if written + count < committed {
                    self.submit(resources, ring, operation.slot.0, block_number);
                    return Progress::Wait(ring);
                }
                self.free_block(resources, ring, block_number, slot);
                Progress::Done
            }
            Err(Errno::INTR) => {
                self.submit(resources, ring, operation.slot.0, block_number);
                Progress::Wait(ring)
            }
            outcome => {
                // A write of nothing (`write(2)` allows it for no regular file) is no progress: an I/O error.
                let errno = outcome.err().unwrap_or(Errno::IO);
                // The slot goes last: until then the journal names its result.
                self.note(resources, block_number, 0);
                queue.release(slot);
                self.fail(errno);
                block.state.release_unwritten(u64::from(committed) == self.block_bytes());
                Progress::Failed(errno)
            }
        }
    }

    /// Makes a written block's place ready for its next block, or for more bytes if the block was not full, and releases the slot that
    /// wrote it. The block's owner.
    #[inline]
    fn free_block(&self, resources: &Resources, ring: u32, block_number: u64, slot: SlotClaim) {
        let block = self.place(block_number);
        let queue = &resources.queues()[ring as usize];
        // The slot is released after the switch: until then the journal names its result.
        if u64::from(block.committed()) < self.block_bytes() {
            // Written early, under the lock: it goes on filling.
            self.note(resources, block_number, 0);
            queue.release(slot);
            block.state.release_filling();
            return;
        }
        // ORDERING: relaxed: the release of `block_number` publishes them to the place's next committers.
        block.committed.set(0);
        block.written.set(0);
        let next = block_number + u64::from(self.block_count.peek());
        self.note(resources, next, 0);
        queue.release(slot);
        let one_by_one = self.order() == Order::OneByOne;
        if one_by_one {
            // ORDERING: release, device, partner `start`. Before `block_number`: once it has moved, the lock's holder may restart the stream.
            self.next.publish(block_number + 1);
        }
        block.state.release_filling();
        // ORDERING: acquire and release, device, partner `is_freeing`; before `block_number`, so that a lane that sees the block free sees this,
        // too.
        self.freeing.fetch_add(1);
        // ORDERING: release, device, partner `grant`.
        block.block_number.publish(next);
        self.grant();
        // ORDERING: acquire and release, device, partner `is_freeing`.
        self.freeing.fetch_sub(1);
        if one_by_one {
            // The fence in `grant`, which comes after `next`, pairs with the one in `commit`: either the committer of the next block sees `next`,
            // or this sees FULL.
            // Where no slot is free now, the next waiter or flush starts it.
            let (Progress::Done | Progress::Wait(_) | Progress::NoSlot | Progress::Failed(_)) =
                self.start(resources, ring, block_number + 1);
        }
    }

    /// Grants every block whose place is free, in order. A lane that has just freed one; [`Stream::begin_writing`] grants the first by itself.
    fn grant(&self) {
        // Of two lanes that free neighbouring blocks at the same time, one at least sees both: each published its block number before.
        device_fence();
        let bytes = self.block_bytes();
        // Ends: a round grants a block, or another lane did; a stream has few.
        loop {
            // ORDERING: relaxed: confirmed by the exchange in `try_grant`.
            let granted_to = self.granted_to.peek();
            let block_number = granted_to >> self.block_shift.peek();
            // ORDERING: acquire, device, partner `free_block`: the kernel's reading of the old content comes before.
            if self.place(block_number).block_number.observe() != block_number {
                return;
            }
            self.reservation().try_grant(granted_to, bytes);
        }
    }

    /// Whether a lane is about to grant what it freed. A lane that saw the block free (acquire).
    pub(super) fn is_freeing(&self) -> bool {
        // ORDERING: acquire, device, partner `free_block`: the grant comes before.
        self.freeing.observe() != 0
    }

    /// Makes progress on every place once, for a lane alone; whether something is in flight, and where.
    #[inline(never)]
    pub fn reap_all(&self, resources: &Resources, ring: u32) -> Progress {
        let mut progress = Progress::Done;
        for place in 0..self.block_count.peek() {
            match self.progress(resources, ring, place) {
                Progress::Done => {}
                other => progress = other,
            }
        }
        progress
    }

    /// Makes progress on one place, for a caller that found [`Reservation::Busy`](super::Reservation::Busy): frees its block if it is written,
    /// starts it if it is full.
    pub fn progress(&self, resources: &Resources, ring: u32, place: u32) -> Progress {
        match self.reap(resources, u64::from(place)) {
            // ORDERING: relaxed: a hint; `start` looks again.
            Progress::Done => self.start(resources, ring, self.place(u64::from(place)).block_number.peek()),
            other => other,
        }
    }

    /// Whether the caller is now one of at most `most` that make progress on the places, until it says [`Stream::leave_progress`]. If all that
    /// wait did, they would keep each other from the words.
    #[must_use]
    pub fn enter_progress(&self, most: u32) -> bool {
        // ORDERING: relaxed: a hint that keeps additions from the word.
        if self.progressing.0.peek() >= most {
            return false;
        }
        // ORDERING: acquire and release, device, which is more than is needed: nothing else follows from the count.
        let admitted = self.progressing.0.fetch_add(1) < most;
        if !admitted {
            // ORDERING: as above.
            self.progressing.0.fetch_sub(1);
        }
        admitted
    }
    /// Lets another make progress on the places.
    pub fn leave_progress(&self) {
        // ORDERING: as in `enter_progress`.
        self.progressing.0.fetch_sub(1);
    }
}
