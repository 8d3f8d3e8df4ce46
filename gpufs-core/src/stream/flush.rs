//! Under the lock: writing everything that was accepted, and what of it is not in the file yet.

use super::{BLOCKS_MAX, Progress, State, Stream};
use crate::resources::Resources;

impl Stream {
    /// Whether the sizes and the file of a stream that is written are as calls leave them: what indices and loops follow. For the host, which works
    /// on what a kernel could write over.
    #[must_use]
    pub fn is_plausible(&self, resources: &Resources) -> bool {
        // ORDERING: relaxed throughout: constant while the stream is written.
        let (shift, count, file) = (self.block_shift.peek(), self.block_count.peek(), self.file.peek());
        let most = u64::from(resources.stream_buffers.buffer_bytes);
        1_u64.checked_shl(shift).is_some_and(|bytes| bytes <= most)
            && count.is_power_of_two()
            && count as usize <= BLOCKS_MAX
            && (file as usize) < resources.files().len()
    }
    /// [`Stream::is_plausible`], and the same of its blocks. While no kernel runs.
    #[must_use]
    pub fn has_plausible_blocks(&self, resources: &Resources) -> bool {
        self.is_plausible(resources)
            && self.places().all(|block| {
                // ORDERING: relaxed: no kernel runs.
                let (written, committed) = (block.written.peek(), block.committed());
                let ring = block.state.token().map_or(0, |token| token.parts().0);
                (ring as usize) < resources.queues().len()
                    && written <= committed
                    && u64::from(committed) <= self.block_bytes()
            })
    }
    /// One step of writing all full blocks; an unfinished one stays. The lock's holder, when quiet; comes again until it says `Done`,
    /// when nothing is in flight, or `Failed`.
    pub fn settle_writes_step(&self, resources: &Resources, ring: u32) -> Progress {
        match self.reap_all(resources, ring) {
            // A block that was freed may have started one in a place that had been looked at.
            Progress::Done
                if self.places().any(|block| !block.state.is(State::Filling)) || self.is_freeing() =>
            {
                Progress::Wait(ring)
            }
            other => other,
        }
    }
    /// One step of writing everything reserved so far. The lock's holder, when quiet; comes again until it says `Done` or `Failed`.
    pub fn flush_step(&self, resources: &Resources, ring: u32) -> Progress {
        let end = self.reserved();
        let current = end >> self.block_shift.peek();
        // At a block's very end the place of the empty current block may still hold the one K before.
        let oldest = current.saturating_sub(u64::from(self.block_count.peek()));
        let mut progress = Progress::Done;
        for block_number in oldest..=current {
            let block = self.place(block_number);
            // ORDERING: acquire, device, partner `free_block`: once the number has moved, the block is written.
            if block.block_number.observe() != block_number {
                continue;
            }
            let here = match self.reap(resources, block_number) {
                Progress::Done if block_number < current => {
                    match self.start(resources, ring, block_number) {
                        // It is not the next to be written, or it was written just now.
                        // ORDERING: as above.
                        Progress::Done if block.block_number.observe() == block_number => {
                            Progress::Wait(ring)
                        }
                        other => other,
                    }
                }
                Progress::Done if self.failed().is_some() => Progress::Done,
                // ORDERING: relaxed: of the current block, which is quiet and in nobody's hands.
                Progress::Done if block.written.peek() < block.committed() => {
                    self.start_partial(resources, ring, block_number)
                }
                other => other,
            };
            match (progress, here) {
                (_, Progress::Done) => {}
                // What is in flight is waited for even when something failed: its buffer is the kernel's. And on the first one's ring: a
                // later block may have no ring yet, where it waits for the one before.
                (Progress::Wait(_), _) => {}
                _ => progress = here,
            }
        }
        match (progress, self.failed()) {
            (Progress::Done | Progress::Failed(_), _) if self.is_freeing() => Progress::Wait(ring),
            (Progress::Done, Some(errno)) => Progress::Failed(errno),
            _ => progress,
        }
    }
    /// Writes what the unfinished block holds.
    fn start_partial(&self, resources: &Resources, ring: u32, block_number: u64) -> Progress {
        if !self.is_next(block_number) {
            return Progress::Wait(ring);
        }
        let Some(claim) = resources.queues()[ring as usize].claim(1, ring) else { return Progress::NoSlot };
        self.submit(resources, ring, claim.item(0), block_number);
        Progress::Wait(ring)
    }
    /// The first position that is not in the file yet: everything before it is. The lock's holder, when quiet and nothing is in
    /// flight.
    #[must_use]
    pub fn first_unwritten(&self) -> u64 {
        let shift = self.block_shift.peek();
        // ORDERING: relaxed throughout: quiet, and nothing is in flight.
        self.places()
            .filter(|block| block.written.peek() < block.committed())
            .map(|block| (block.block_number.peek() << shift) + u64::from(block.written.peek()))
            .min()
            .unwrap_or_else(|| self.reserved())
    }
    /// Bytes accepted but not yet in the file. The lock's holder, when quiet.
    #[must_use]
    pub fn unwritten(&self) -> u64 {
        // ORDERING: relaxed throughout: quiet.
        self.places().map(|block| u64::from(block.committed() - block.written.peek())).sum()
    }
}
