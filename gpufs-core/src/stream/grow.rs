//! How a stream that writes much gets more blocks, out of the session's spare buffers, and gives them back ([R-11]).

use super::{BLOCKS_MAX, Stream};
use crate::alloc::Claim;
use crate::resources::Resources;

/// A stream takes one of so many spare buffers, and leaves the others.
const SHARE: u32 = 2;
/// The same where it has, or would have, more blocks than so many: others that have fewer get more out of them.
const LARGE_SHARE: u32 = 3;
const LARGE: u32 = 16;

/// How many blocks a stream of `count` blocks may have, of `most` at most, where `spare` buffers are free: a power of two. It takes at most half
/// of the spare buffers, so that the streams that grow first leave some for later ones, but one if there is one; a third beyond [`LARGE`].
const fn blocks_for(count: u32, most: u32, spare: u32) -> u32 {
    let mut blocks = count;
    // Ends: `blocks` grows.
    loop {
        let more = blocks * 2;
        let share = if more > LARGE { LARGE_SHARE } else { SHARE };
        // One, if there is one.
        let most_more = if spare == 1 && more <= LARGE { 1 } else { spare / share };
        if more > most || more - count > most_more {
            return blocks;
        }
        blocks = more;
    }
}

impl Stream {
    /// Whether the stream could have more blocks now. A hint, for a caller that found it busy or its lock contended.
    #[must_use]
    pub fn may_grow(&self, resources: &Resources) -> bool {
        // ORDERING: relaxed: a hint, or under the lock.
        let count = self.block_count.peek();
        let most = resources.blocks_per_stream;
        // Looks at the spare buffers only where the answer depends on them.
        count < most && blocks_for(count, most, resources.stream_buffers.free.free()) > count
    }

    /// Takes more blocks, as many as are wanted and the stream's share of the spare ones allows. The lock's holder, one lane, when quiet and
    /// everything accepted is written ([`Stream::flush_step`] says `Done`); then [`Stream::begin_writing`], before the lock is handed on.
    /// Waits for nothing.
    pub fn grow(&self, resources: &Resources) {
        let count = self.block_count.peek();
        let set = &resources.stream_buffers.free;
        #[allow(clippy::cast_possible_truncation, reason = "a small number")]
        let most = resources.blocks_per_stream.min(BLOCKS_MAX as u32);
        let wanted = blocks_for(count, most, set.free());
        let mut have = count;
        // Ends: each round takes a buffer or is the last.
        while have < wanted {
            let Some(claim) = set.claim(wanted - have, self.index_in(resources)) else { break };
            for rank in 0..claim.count() {
                self.blocks[have as usize].give(resources, claim.item(rank));
                have += 1;
            }
        }
        // Other streams may have claimed some meanwhile.
        let kept = 1 << have.ilog2();
        for block in &self.blocks[kept as usize..have as usize] {
            set.release(Claim::single(block.buffer.peek()));
        }
        // A lane that makes progress without the lock finds no block FULL or in flight, under either count. And no lane commits by the old one
        // with room in hand: `begin_writing` and `open_cursor` see to that, as for every change of the geometry.
        // ORDERING: release, device, partner `is_behind`.
        self.block_count.publish(kept);
    }

    /// Leaves the stream's own buffer to a read that nobody waits for any more and that may still write it, and takes a spare one for good, if
    /// there is one. The lock's holder, alone.
    pub fn replace_own_buffer(&self, resources: &Resources) {
        if let Some(claim) = resources.stream_buffers.free.claim(1, self.index_in(resources)) {
            self.blocks[0].give(resources, claim.item(0));
        }
    }

    /// Releases the spare buffers that the stream has taken, and says in the journal that all of its buffers are nobody's. The lock's holder, one
    /// lane, when nothing is in flight, before the stream's file and its entry are given back.
    pub fn give_back(&self, resources: &Resources) {
        let count = self.block_count.peek() as usize;
        for block in self.blocks.iter().take(count) {
            resources.journal.clear_owner(block.buffer.peek());
        }
        for block in self.blocks.iter().take(count).skip(1) {
            resources.stream_buffers.free.release(Claim::single(block.buffer.peek()));
        }
        // ORDERING: relaxed: the lock's hand-over and the entry's release publish it.
        self.block_count.set(1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::blocks_for;

    #[test]
    fn a_stream_grows_to_its_share() {
        for (count, most, spare, blocks) in [
            (1, 16, 256, 16),
            (1, 16, 30, 16),
            (1, 16, 29, 8),
            (1, 16, 6, 4),
            (1, 16, 5, 2),
            (1, 16, 1, 2),
            (1, 16, 0, 1),
            (1, 1, 1000, 1),
            (2, 4, 4, 4),
            (2, 4, 3, 2),
            (8, 16, 15, 8),
            (8, 16, 16, 16),
            (16, 16, 1000, 16),
            (1, 32, 64, 16),
            (16, 32, 49, 32),
            (16, 32, 47, 16),
            (1, 32, 93, 32),
        ] {
            assert_eq!(blocks_for(count, most, spare), blocks, "{count} {most} {spare}");
        }
    }
}
