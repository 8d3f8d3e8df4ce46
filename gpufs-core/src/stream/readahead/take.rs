//! Taking lines: the fast path, without the lock.

use super::super::reservation::Reservation;
use super::{CARRIED, FIRST_SKIPPED, Lines, PLACES_MAX, Stream, lines_in};
use crate::resources::Resources;

impl Lines {
    /// Takes `count` lines (at least 1) for lanes with room for `most` bytes each, by a handle of this generation. One lane. Waits for
    /// nothing.
    pub fn try_take_lines(&self, stream: &Stream, generation: u32, count: u64, most: u64) -> Reservation {
        if !self.is_open() || !self.admits(stream, generation, most) {
            return Reservation::Closed;
        }
        let words = self.reservation();
        if !words.has_available(count) {
            return self.without_available(count);
        }
        words.take(count, || self.admits(stream, generation, most), || self.without_available(count))
    }

    /// The answer where too few lines are available.
    pub(super) fn without_available(&self, count: u64) -> Reservation {
        // ORDERING: acquire, device, partner `stop`: what is seen next to be available is the last.
        if self.stopped.observe() != 0 && !self.reservation().has_available(count) {
            return Reservation::Closed;
        }
        if self.holds_too_few() { Reservation::Closed } else { Reservation::Busy }
    }

    /// Whether every place has published lines, some of the oldest one's are left, and so no more come until somebody takes fewer than the
    /// caller wants. For a caller that found too few.
    fn holds_too_few(&self) -> bool {
        // ORDERING: relaxed: hints. In this order they err towards no: others take what is left, or the caller comes again.
        let (next, count) = (self.next.peek(), u64::from(self.count.peek()));
        let available = self.available.0.peek();
        let Some(oldest) = next.checked_sub(count) else { return false };
        #[allow(clippy::cast_possible_truncation, reason = "below PLACES_MAX")]
        let place = &self.places[(next & count.wrapping_sub(1)) as usize & (PLACES_MAX - 1)];
        let lines = place.lines.peek();
        let of_oldest = place.block_number.peek() == oldest;
        let first_left = self.published.peek().wrapping_sub(available);
        let (base, published) = lines_in(lines);
        let end = base + published;
        available.cast_signed() > 0 && lines != 0 && of_oldest && first_left < end && self.next.peek() == next
    }

    /// Whether so many lines seem to be available, or never will be. A waiting caller looks at nothing else.
    #[must_use]
    pub fn has_available(&self, count: u64) -> bool {
        // ORDERING: relaxed: hints.
        self.reservation().has_available(count) || self.stopped.peek() != 0 || !self.is_open()
    }

    fn admits(&self, stream: &Stream, generation: u32, most: u64) -> bool {
        // ORDERING: relaxed: constant as long as the caller has lines in hand; before that, hints.
        stream.generation.peek() == generation && u64::from(self.line_bytes_max.peek()) <= most
    }

    /// The caller touches no place any more. One lane, after a barrier with those that did.
    pub fn leave(&self) {
        self.reservation().leave();
    }

    /// The lines of a place's block: the first one's number, and how many. Nothing if none is published. Any lane.
    #[must_use]
    pub fn of_place(&self, index: u32) -> (u64, u64) {
        // ORDERING: relaxed: the block of a line that the caller has taken was published before this: the callers that added to the cursor up to
        // this one took more lines than the blocks before have, so one of them had acquired this block with what was available, and the
        // cursor's additions acquire from each other. The block stays (invariant 3). The words of others may change, but never so that one seems
        // to have the line, since each is one word.
        lines_in(self.places[index as usize & (PLACES_MAX - 1)].lines.peek())
    }
    /// Where a line lies that is number `line` of a place's block, and that the caller has taken: the address of its first byte, and its
    /// bytes, newline included. Any lane. Without a branch, so that a warp's lanes stay together, and their loads are on their way at once.
    #[must_use]
    pub fn locate(&self, resources: &Resources, index: u32, line: u64) -> (u64, u64) {
        let place = &self.places[index as usize & (PLACES_MAX - 1)];
        let text = self.text(resources, place);
        let carried = place.carried_bytes.peek();
        let number = line + u64::from(carried / FIRST_SKIPPED);
        let (before, end) =
            (self.end_of(resources, place, number.saturating_sub(1)), self.end_of(resources, place, number));
        let first_start = -i64::from(carried % FIRST_SKIPPED);
        let start = if line == 0 { first_start } else { before };
        (text.wrapping_add_signed(start), (end - start).cast_unsigned())
    }

    /// Counts lines of a place as copied. One lane, present, after a barrier with those that copied. The last frees the block, and starts the
    /// read that is next in its place.
    pub fn count_taken(&self, resources: &Resources, stream: &Stream, index: u32, what: u64) {
        let place = &self.places[index as usize];
        // Read before: the lane that completes the sum frees the block.
        let whole = u64::from(place.count.peek()) | CARRIED;
        // ORDERING: acquire and release, device, partner the others that count: the last one acquires all copying.
        if place.taken.fetch_add(what) + what != whole {
            return;
        }
        // ORDERING: relaxed: published by the state's release.
        place.lines.set(0);
        place.taken.set(0);
        place.got.set(0);
        place.block_number.set(place.block_number.peek() + u64::from(self.count.peek()));
        place.state.recycle();
        let _ = self.start(resources, stream, index);
    }
}
