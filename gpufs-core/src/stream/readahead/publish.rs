//! What a warp does with a block that was read: it says that the block is indexed, carries over the line that was begun in the block before,
//! and publishes the lines. Each function is one lane's; the warp copies in between.

use super::{AT_END, AT_LINE, BASE_SHIFT, CARRIED, FIRST_SKIPPED, Lines, Stream};
use crate::resources::Resources;

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

    /// What is to be carried over into a claimed place: bytes of the line that was begun in the block before, and where they
    /// lie. `None` if the block cannot be published. The same in all lanes of the warp that claimed it.
    #[must_use]
    pub fn carry(&self, resources: &Resources, stream: &Stream, index: u32) -> Option<(u64, u64)> {
        let place = &self.places[index as usize];
        // ORDERING: relaxed throughout: the owner's words; those of the block before stay as they are until CARRIED is counted (invariant 3).
        let (bytes, from) = if place.block_number.peek() == 0 {
            (0, 0)
        } else {
            let before = &self.places[self.before(index) as usize];
            let tail = u64::from(before.tail.peek());
            (stream.block_bytes() - tail, self.text(resources, before) + tail)
        };
        let most = u64::from(self.unit_bytes_max());
        let fits = place.count.peek() != 0 && place.unpublishable.peek() == 0 && bytes <= most && {
            let skipped = self.skipped(resources, place, (from, bytes));
            place.count.peek() > skipped
                && bytes + self.end_of(resources, place, skipped.into()).cast_unsigned() <= most
        };
        fits.then_some((bytes, from))
    }

    /// Publishes a claimed place's lines, with `carried_bytes` bytes in front of its text that were carried over. One lane, after a barrier with
    /// those that copied them.
    pub fn publish(&self, resources: &Resources, stream: &Stream, index: u32, carried_bytes: u64) {
        let place = &self.places[index as usize];
        // ORDERING: relaxed: the owner's words, and those that publishers write in turn.
        let carried = (self.text(resources, place) - carried_bytes, carried_bytes);
        let skipped = self.skipped(resources, place, carried);
        place.count.set(place.count.peek() - skipped);
        let (block_number, count) = (place.block_number.peek(), u64::from(place.count.peek()));
        let base = self.published.peek();
        #[allow(clippy::cast_possible_truncation, reason = "at most `line_bytes_max`")]
        place.carried_bytes.set(carried_bytes as u32 + skipped * FIRST_SKIPPED);
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
