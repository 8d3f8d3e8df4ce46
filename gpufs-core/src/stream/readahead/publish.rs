//! What a warp does with blocks that were read: it says that one is indexed; and for a *run* of blocks, from the one that is next, it carries over
//! the lines that were begun in the blocks before, and publishes the lines. Each function is one lane's; the warp copies in between.
//!
//! A run: one lane claims the place of the block that is next ([`Lines::claim_next`]), others those behind it ([`Lines::claim_behind`]). It ends
//! with the file's last block, or before one that cannot be published, and what is behind is put back ([`Lines::put_back`]). Each lane carries
//! over into its place ([`Lines::carry`], [`Lines::note_carried`]), numbers its lines and publishes them ([`Lines::note_lines`]); one grants all of
//! them together ([`Lines::grant_up_to`]). Then each counts what it carried ([`Lines::count_carried`]).

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
    /// lie. `None` if the block cannot be published. Any lane of the warp that claimed it, after a barrier with those that claimed the run.
    #[must_use]
    pub fn carry(&self, resources: &Resources, stream: &Stream, index: u32) -> Option<(u64, u64)> {
        let place = &self.places[index as usize];
        // ORDERING: relaxed throughout: the owner's words; those of the block before, which is published or in the same run, stay as they are until
        // CARRIED is counted (invariant 3).
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

    /// Whether a claimed place's block was read as a whole: if not, nothing comes behind it, as it is the file's last or its read failed. Its owner.
    #[must_use]
    pub fn is_whole(&self, stream: &Stream, index: u32) -> bool {
        // ORDERING: relaxed: the owner's word.
        u64::from(self.places[index as usize].got.peek()) == stream.block_bytes()
    }

    /// Notes that `carried_bytes` bytes were carried over in front of a claimed place's text; how many lines it has then. One lane, once for
    /// each block.
    #[must_use]
    pub fn note_carried(&self, resources: &Resources, index: u32, carried_bytes: u64) -> u64 {
        let place = &self.places[index as usize];
        let carried = (self.text(resources, place) - carried_bytes, carried_bytes);
        let skipped = self.skipped(resources, place, carried);
        // ORDERING: relaxed: the owner's words.
        let count = place.count.peek() - skipped;
        place.count.set(count);
        #[allow(clippy::cast_possible_truncation, reason = "at most `line_bytes_max`")]
        place.carried_bytes.set(carried_bytes as u32 + skipped * FIRST_SKIPPED);
        count.into()
    }

    /// The number of the next line to be published. The warp that claimed the place of block `next`.
    #[must_use]
    pub fn published(&self) -> u64 {
        // ORDERING: relaxed: publishers write it in turn.
        self.published.peek()
    }

    /// Publishes a claimed place's `count` lines, of which the first is number `base`, but for their room. One lane, after a barrier with those
    /// that carried over.
    pub fn note_lines(&self, index: u32, base: u64, count: u64) {
        let place = &self.places[index as usize];
        // ORDERING: relaxed: published by the state's release.
        place.lines.set(base << BASE_SHIFT | count);
        // Before the lines can be taken, and the place come to its next block.
        place.state.release_published();
    }

    /// Grants the `count` lines from number `base` on, of the blocks from `next` to that of the place `last`, and lets others publish what follows.
    /// One lane, after a barrier with those that published each block ([`Lines::note_lines`]).
    pub fn grant_up_to(&self, stream: &Stream, last: u32, base: u64, count: u64) {
        let place = &self.places[last as usize];
        // ORDERING: relaxed: the owner's words, which stay as they are until CARRIED is counted, and those that publishers write in turn.
        let block_number = place.block_number.peek();
        let begin = self.offset.peek() + block_number * stream.block_bytes();
        self.published_end.set(begin + u64::from(place.tail.peek()));
        let ends = !self.is_whole(stream, last);
        self.reservation().grant(base, count);
        if ends {
            self.stop(AT_END);
        }
        // ORDERING: release, device, partner `claim`: all of this comes before the next block is published.
        self.next.publish(block_number + 1);
    }

    /// The place of the block before that of a claimed place, if there is one.
    #[must_use]
    pub fn block_before(&self, index: u32) -> Option<u32> {
        // ORDERING: relaxed: the owner's word.
        (self.places[index as usize].block_number.peek() != 0).then(|| self.before(index))
    }

    /// Counts what was begun in a place's block as carried over into the next one, which is published. One lane.
    pub fn count_carried(&self, resources: &Resources, stream: &Stream, index: u32) {
        self.count_taken(resources, stream, index, CARRIED);
    }

    /// A claimed place is indexed as before: its block's turn has not come. One lane.
    pub fn put_back(&self, index: u32) {
        self.places[index as usize].state.release_indexed();
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
