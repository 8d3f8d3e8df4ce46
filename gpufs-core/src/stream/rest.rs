//! How a stream's blocks come to rest, so that the stream may become another.
//!
//! Lanes that hold neither the lock nor room make progress on the blocks of a stream: a lane that has filled one starts it, a lane that finds
//! the stream busy reaps and starts. Between a look and the exchange that follows it, such a lane may be held up for any time, while the
//! stream is flushed, closed, and opened again for another file with other buffers. That is harmless, since the exchange alone decides,
//! and because of one rule:
//!
//! > *A block is FULL, CLAIMED or in flight only while the stream is the one that it was filled for.*
//!
//! So a lock holder that changes what a block's write is made of (the buffers, the file, `base`, the size or the number of the blocks) first
//! brings every block to rest: FILLING, with nobody about to free it. A flush that comes to `Done` does so: everything is written and freed. Where
//! a write failed, the block is FULL again, and its bytes are kept for the next flush. To drop them, the lock holder takes the block back,
//! FULL → FILLING, by the same kind of exchange as a starter's: one of the two succeeds. If it is the starter, the block is CLAIMED or in
//! flight, and the lock holder waits for it.
//!
//! *What a late lane may still do.* A starter's exchange finds FILLING, or FULL of a block that a later stream filled: that one it may start, since
//! it reads what it writes only then. A reaper's exchange finds another token: tokens do not come back while somebody holds them
//! (the table of [`crate::protocol::wrapping`]). A lane that freed a block has moved its block number and left `freeing`, and goes on to a
//! start. ∎

use core::cmp::Ordering;

use super::{Progress, State, Stream};
use crate::resources::Resources;

impl Stream {
    /// One step of taking back every block from the lanes that start and reap. What has not been written is dropped, unless such a lane writes
    /// it first. The lock's holder, when quiet; comes again until it says `Done`: then nothing is in flight, and no block will be started before
    /// it is filled again. The lock's holder then makes the stream another ([`Stream::begin_writing`], closing).
    pub fn take_back_step(&self, resources: &Resources, ring: u32) -> Progress {
        let current = self.reserved() >> self.block_shift.peek();
        let mut progress = Progress::Done;
        for (place, block) in (0..u64::from(self.block_count.peek())).zip(&self.blocks) {
            if block.state.take_back() {
                continue;
            }
            match self.reap(resources, place) {
                Progress::Done | Progress::NoSlot if self.is_at_rest(place, current) => {}
                Progress::Wait(ring) => progress = Progress::Wait(ring),
                Progress::Done | Progress::NoSlot | Progress::Failed(_) if progress == Progress::Done => {
                    progress = Progress::Wait(ring);
                }
                Progress::Done | Progress::NoSlot | Progress::Failed(_) => {}
            }
        }
        // Of blocks whose block numbers were seen to have moved.
        if progress == Progress::Done && self.is_freeing() { Progress::Wait(ring) } else { progress }
    }

    /// Whether nobody owns the block in a place, nor is about to free it. The lock's holder, when quiet, the cursor being in block `current`.
    fn is_at_rest(&self, place: u64, current: u64) -> bool {
        let block = self.place(place);
        // Acquires from `free_block` and `reap`: what they did to the block comes before.
        if !block.state.is(State::Filling) {
            return false;
        }
        // ORDERING: acquire, device, partner `free_block`: `freeing` seen behind this has the lane that moved the block number.
        match block.block_number.observe().cmp(&current) {
            // It was full: it is now nobody's if it was taken back. If it is empty, its block number is about to be moved.
            Ordering::Less => block.committed() != 0,
            Ordering::Equal | Ordering::Greater => true,
        }
    }

    /// Whether every block is FILLING: what `begin_writing` and `set_up` rely on.
    pub(super) fn is_all_filling(&self) -> bool {
        // ORDERING: relaxed: whoever brought them to rest has acquired it.
        self.blocks.iter().all(|block| block.state.seems(State::Filling))
    }
}
