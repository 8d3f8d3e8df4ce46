//! What a warp does with a block that was read: it says that the block is indexed, carries over the line that was begun in the block before,
//! and publishes the lines. Each function is one lane's; the warp copies in between.

use super::{AT_END, AT_LINE, BASE_SHIFT, CARRIED, FIRST_SKIPPED, Lines, Stream, Tokens};
use crate::resources::Resources;

/// What [`Lines::carry`] finds: what comes in front of a claimed block's text, and what is then published of it.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// Bytes of the line that was begun in the block before.
    pub bytes: u64,
    /// Where they lie.
    pub from: u64,
    /// What the units are, if tokens.
    pub tokens: Option<Tokens>,
    block_number: u64,
    /// Lines of the block.
    count: u32,
    /// Ends that end nothing: 0 or 1, and of lines 0.
    skipped: u32,
    /// Where the first line ends in the text.
    pub(super) first_end: u64,
}

impl Lines {
    /// The claimed place is indexed: its text and the ends of its lines are in its device memory. One lane, after a barrier with those
    /// that wrote them.
    pub fn indexed(&self, index: u32, count: u32, tail: u32, unpublishable: bool) {
        let place = &self.places[index as usize];
        // ORDERING: relaxed: published by the state's release.
        place.count.set(count);
        place.tail.set(tail);
        place.unpublishable.set(u32::from(unpublishable));
        place.state.release_indexed();
    }

    /// What is to be carried over into a claimed place. `None` if the block cannot be published. The same in all lanes of the warp that claimed it.
    ///
    /// Blocks are published one after the other: what this loads is on its way at once, and [`Lines::publish`] loads none of it again.
    #[must_use]
    pub fn carry(&self, resources: &Resources, stream: &Stream, index: u32) -> Option<Carried> {
        let place = &self.places[index as usize];
        let before = &self.places[self.before(index) as usize];
        // ORDERING: relaxed throughout: the owner's words; those of the block before stay as they are until CARRIED is counted (invariant 3).
        let (block_number, tail) = (place.block_number.peek(), u64::from(before.tail.peek()));
        let (ends, unpublishable) = (place.count.peek(), place.unpublishable.peek() != 0);
        let units = self.line_bytes_max.peek();
        let first_end = self.end_of(resources, place, 0).cast_unsigned();
        let (bytes, from) = match block_number {
            0 => (0, 0),
            _ => (stream.block_bytes() - tail, self.text(resources, before) + tail),
        };
        let tokens = Tokens::of(units);
        let mut carried = Carried { bytes, from, tokens, block_number, count: ends, skipped: 0, first_end };
        if tokens.is_some() && ends != 0 && first_end == 0 && !Self::begins(&carried) {
            carried.skipped = 1;
            carried.count -= 1;
            carried.first_end = self.end_of(resources, place, 1).cast_unsigned();
        }
        let most = u64::from(Self::unit_bytes_of(units));
        let fits = carried.count != 0 && !unpublishable && bytes <= most && bytes + carried.first_end <= most;
        fits.then_some(carried)
    }

    /// Publishes a claimed place's lines, with what was carried over in front of its text. One lane, after a barrier with those that copied it.
    pub fn publish(&self, resources: &Resources, stream: &Stream, index: u32, carried: &Carried) {
        let place = &self.places[index as usize];
        let (block_number, count) = (carried.block_number, u64::from(carried.count));
        // ORDERING: relaxed: the owner's words, and those that publishers write in turn.
        if carried.skipped != 0 {
            place.count.set(carried.count);
        }
        let base = self.published.peek();
        #[allow(clippy::cast_possible_truncation, reason = "at most `line_bytes_max`")]
        place.carried_bytes.set(carried.bytes as u32 + carried.skipped * FIRST_SKIPPED);
        let begin = self.offset.peek() + block_number * stream.block_bytes();
        self.published_end.set(begin + u64::from(place.tail.peek()));
        place.lines.set(base << BASE_SHIFT | count);
        let ends = u64::from(place.got.peek()) < stream.block_bytes();
        // Before the lines can be taken, and the place come to its next block.
        place.state.release_published();
        self.reservation().grant(base, count);
        if ends {
            self.stop(AT_END);
        }
        if block_number > 0 {
            self.count_taken(resources, stream, self.before(index), CARRIED);
        }
        // ORDERING: release, device, partner `claim`: all of this comes before the next block is published.
        self.next.publish(block_number + 1);
    }

    /// No more lines will be published: the claimed place's block, which stays as it is, cannot be. One lane.
    pub fn stop_at(&self, index: u32) {
        let place = &self.places[index as usize];
        // ORDERING: relaxed: the owner's words.
        self.stop(if place.count.peek() == 0 && place.got.peek() == 0 { AT_END } else { AT_LINE });
        place.state.release_indexed();
    }

    fn stop(&self, why: u32) {
        // ORDERING: release, device, partner `without_available`: the last lines' grant comes before.
        self.stopped.publish(why);
    }

    fn before(&self, index: u32) -> u32 {
        // ORDERING: relaxed: constant while lines are open.
        index.wrapping_sub(1) & (self.count.peek() - 1)
    }
}
