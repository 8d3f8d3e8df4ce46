//! Where a position of a writing stream lies: its block, the block's place, the buffer. No state changes here.

use super::{BLOCKS_MAX, Block, Stream};
use crate::alloc::BufferPool;
use crate::journal::Journal;
use crate::resources::Resources;

/// How a stream's blocks lie, and what of the session's resources their committers need. It stays the same for a lane that has taken room of
/// the stream, until it has committed, and for the lock's holder: read once, it stays in registers (see [`crate::Queue`]).
#[derive(Clone, Copy, Debug)]
pub struct StreamGeometry {
    /// log₂ B.
    pub(super) shift: u32,
    /// K − 1.
    pub(super) mask: u64,
    buffers: BufferPool,
    pub(super) journal: Journal,
}

impl StreamGeometry {
    /// The number of the block that a position lies in.
    #[must_use]
    pub const fn block_of(&self, position: u64) -> u64 {
        position >> self.shift
    }
    /// The position of a block's first byte.
    #[must_use]
    pub const fn start_of(&self, block_number: u64) -> u64 {
        block_number << self.shift
    }
    /// The address of the byte at a position in the block `block_ref`, and how many bytes follow in the same block (at least 1).
    #[must_use]
    pub const fn address(&self, block_ref: BlockRef, position: u64) -> (u64, u64) {
        let inside = position & ((1 << self.shift) - 1);
        (self.buffers.address(block_ref.buffer) + inside, (1 << self.shift) - inside)
    }
}

/// The place of a block that has reserved bytes in it: constant until they are committed.
#[derive(Clone, Copy, Debug)]
pub struct BlockRef {
    /// The block's number.
    pub block_number: u64,
    pub(super) buffer: u32,
    pub(super) epoch: u64,
}

impl Stream {
    /// The place of a block.
    #[must_use]
    pub fn place(&self, block_number: u64) -> &Block {
        // ORDERING: relaxed: constant as long as the caller has taken room, or holds the lock; else any place will do, as each step looks at
        // the place's own block number.
        self.masked(block_number, u64::from(self.block_count.peek()).wrapping_sub(1))
    }

    pub(super) const fn masked(&self, block_number: u64, mask: u64) -> &Block {
        #[allow(clippy::cast_possible_truncation, reason = "below BLOCKS_MAX")]
        &self.blocks[(block_number & mask & (BLOCKS_MAX as u64 - 1)) as usize]
    }

    /// The places in use, in order. The lock's holder, or while no kernel runs.
    pub(super) fn places(&self) -> impl Iterator<Item = &Block> {
        // ORDERING: relaxed: under the lock.
        self.blocks.iter().take(self.block_count.peek() as usize)
    }

    /// B.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        // ORDERING: relaxed: constant as long as the caller has taken room, or holds the lock; before that, a hint.
        1 << self.block_shift.peek()
    }

    /// How the blocks lie. A lane that has taken room, or holds the lock.
    #[must_use]
    pub fn geometry(&self, resources: &Resources) -> StreamGeometry {
        // ORDERING: relaxed: constant as long as the caller has taken room, or holds the lock.
        let (shift, count) = (self.block_shift.peek(), self.block_count.peek());
        StreamGeometry {
            shift,
            mask: u64::from(count).wrapping_sub(1),
            buffers: resources.stream_buffers,
            journal: resources.journal,
        }
    }

    /// The place of a block in which the caller has reserved bytes.
    #[must_use]
    pub fn block_ref(&self, geometry: &StreamGeometry, block_number: u64) -> BlockRef {
        let block = self.masked(block_number, geometry.mask);
        // ORDERING: relaxed: the place is switched by nobody as long as the caller's bytes are not counted in.
        BlockRef { block_number, buffer: block.buffer.peek(), epoch: block.epoch.peek() }
    }
}
