//! Under the lock: when lines open, opening and closing them, and where the stream then stands.
#![expect(unsafe_code, reason = "says whose a slot is")]

use super::super::{Buffering, Direction, Progress, State};
use super::{AT_END, FIRST_SKIPPED, Lines, Place, Stream, lines_in};
use crate::alloc::Claim;
use crate::resources::Resources;
use crate::ring::{Outcome, SlotClaim};

/// In `open`: closed, and nothing is in use.
const SHUT: u32 = 0;
/// In `open`: lines may be taken, unless the cursor is closed.
const OPEN: u32 = 1;
/// In `open`: on the way from OPEN to SHUT. Nothing is left to be taken, but callers may have lines in hand that they are about to give back.
const EMPTIED: u32 = 2;

/// Fewer places would have readers wait for each other.
const PLACES_MIN: u32 = 2;
/// Calls under the lock, counted by lane, after which lines open, without a delay.
const CALLS_BEFORE_OPEN: u32 = 128;
/// The lock counts as contended above this many holders and waiters.
const CONTENDED_AT: u32 = 4;
/// Where lines were closed early, `open_delay_log2` grows by the step, up to the maximum.
const OPEN_DELAY_STEP: u32 = 2;
const OPEN_DELAY_MAX: u32 = 12;

// ORDERING of the plain words in this file: relaxed. They are under the lock, constant while lines are open, or were acquired by `quiet_at`. The
// lock's hand-over publishes them, and for callers of the fast path the cursor's release in `open`.
impl Lines {
    /// Counts a call of so many lanes that lines would have served; whether they should be opened now: after a while, and at once where the lock
    /// is contended. The lock's holder, one lane.
    #[must_use]
    pub fn count_call(&self, stream: &Stream, lanes: u32) -> bool {
        let calls = self.calls.peek().saturating_add(lanes);
        self.calls.set(calls);
        (self.open_delay_log2.peek() == 0 && stream.lock.queued() > CONTENDED_AT)
            || calls >= CALLS_BEFORE_OPEN << self.open_delay_log2.peek()
    }
    /// Hint: whether to poll for read-ahead to open before queueing for the lock. A queued caller must be served under the lock even if read-ahead
    /// opens meanwhile.
    #[must_use]
    pub fn may_open(&self, stream: &Stream) -> bool {
        stream.lock.queued() > CONTENDED_AT
            && stream.direction() != Direction::Writing
            && stream.buffering() == Buffering::Full
    }

    /// Opens lines of at most `most` bytes at the position of a stream that reads, has its buffer used up, and nothing pushed back; not
    /// where there is no memory for them. The lock's holder, one lane, with lines closed and settled.
    pub fn open(&self, resources: &Resources, stream: &Stream, most: u32) {
        self.open_units(resources, stream, most.min(Self::fitting_line_bytes_max(resources)));
    }
    /// As [`Lines::open`], with the word for the units and their length.
    pub(super) fn open_units(&self, resources: &Resources, stream: &Stream, units: u32) {
        self.calls.set(0);
        let count = self.claim_places(resources);
        if count == 0 {
            return;
        }
        self.count.set(count);
        for (block_number, place) in (0..).zip(&self.places) {
            place.block_number.set(block_number);
            place.state.reset();
            place.lines.set(0);
            place.taken.set(0);
            place.got.set(0);
        }
        self.next.set(0);
        self.stopped.set(0);
        self.progressing.0.set(0);
        self.line_bytes_max.set(units);
        let position = stream.position.peek() + u64::from(stream.read_next.peek());
        self.offset.set(position);
        self.published_end.set(position);
        self.open.set(OPEN);
        self.reservation().open();
    }
    /// Claims memory for as many places as there is, a power of two; how many: 0 where there is too little.
    fn claim_places(&self, resources: &Resources) -> u32 {
        let mut count = 0;
        // Ends: over the places.
        for place in &self.places {
            let Some(text) = resources.line_buffers.free.claim(1, count) else { break };
            let Some(buffer) = resources.stream_buffers.free.claim(1, count) else {
                resources.line_buffers.free.release(text);
                break;
            };
            place.text.set(text.item(0));
            place.buffer.set(buffer.item(0));
            count += 1;
        }
        let kept = if count < PLACES_MIN { 0 } else { 1 << count.ilog2() };
        for place in &self.places[kept as usize..count as usize] {
            Self::release(resources, place);
        }
        kept
    }
    /// Sets the number that the first line has when lines are opened next, which is 0 otherwise. For tests, which begin shortly before numbers
    /// wrap around. The lock's holder, or while no kernel runs; while lines are closed and settled.
    pub fn begin_at(&self, line: u64) {
        debug_assert!(self.open.peek() == SHUT, "lines are open");
        self.published.set(line);
        self.closed_at.set(line);
    }
    /// Makes the lines of a new stream, closed. Before any handle of it is used. Lines of the entry's last stream were settled when it was closed.
    pub fn set_up(&self) {
        self.reservation().close();
        self.calls.set(0);
        self.open_delay_log2.set(0);
    }

    /// Closes lines to callers that come, if they are open. The lock's holder, one lane; then [`Lines::settle_reads`].
    pub fn close(&self) {
        if self.open.peek() != SHUT {
            self.reservation().close();
        }
    }

    /// One step towards a stream that reads at the end of the last line taken. The lock's holder, one lane, after [`Lines::close`]; comes
    /// again until it says `Done`.
    pub fn settle_reads(&self, resources: &Resources, stream: &Stream) -> Progress {
        if self.open.peek() == SHUT {
            return Progress::Done;
        }
        if self.reservation().quiet_at().is_none() {
            return Progress::Wait(stream.ring(resources));
        }
        if self.open.peek() == EMPTIED {
            self.open.set(SHUT);
            return Progress::Done;
        }
        // Ends: over the places.
        for place in self.places.iter().take(self.count.peek() as usize) {
            let Ok(token) = place.state.token() else { continue };
            let (ring, operation) = token.parts();
            let queue = &resources.queues()[ring as usize];
            if let Outcome::InFlight = queue.outcome(operation) {
                return Progress::Wait(ring);
            }
            // SAFETY:
            // - the slot that `start` claimed; the outcome was seen, and no other lane reaps: none is present
            queue.release(unsafe { SlotClaim::of(operation) });
            place.state.drop_completed(token);
        }
        let (end, published) = (self.closed_at.peek(), self.published.peek());
        let position =
            if end == published { self.published_end.peek() } else { self.start_of(resources, stream, end) };
        stream.position.set(position);
        stream.read_next.set(0);
        stream.read_end.set(0);
        for place in self.places.iter().take(self.count.peek() as usize) {
            Self::release(resources, place);
        }
        self.open_delay_log2.set(self.next_open_delay(stream, position));
        // From here on nobody gets lines: none are available. A caller that has got some since it was quiet finds the cursor closed and gives
        // them back, before lines are opened again (EMPTIED); so nobody takes lines of the next opening with an amount of this one.
        self.open.set(EMPTIED);
        self.reservation().restart(0, 0);
        Progress::Wait(stream.ring(resources))
    }
    /// The delay with which lines open next. Where opening was hardly worth it, it grows; where the file ends, it is small.
    fn next_open_delay(&self, stream: &Stream, position: u64) -> u32 {
        let worth = position - self.offset.peek() > stream.block_bytes() * u64::from(self.count.peek());
        let delay = match (worth, self.stopped.peek()) {
            (true, AT_END) => OPEN_DELAY_STEP,
            (true, _) => 0,
            (false, _) => self.open_delay_log2.peek() + OPEN_DELAY_STEP,
        };
        delay.min(OPEN_DELAY_MAX)
    }

    /// Releases the slots of reads that have completed: nobody will take lines any more. While no kernel runs, and none will.
    pub fn reclaim_slots(&self, resources: &Resources) {
        for place in &self.places {
            let State::InFlight(token) = place.state.peek() else { continue };
            let (ring, operation) = token.parts();
            let queue = &resources.queues()[ring as usize];
            if let Outcome::Done(_) = queue.outcome(operation) {
                // SAFETY:
                // - the slot that `start` claimed; the outcome was seen, and no lane is left
                queue.release(unsafe { SlotClaim::of(operation) });
                place.state.drop_completed(token);
            }
        }
    }
    /// Where in the file a published line begins that nobody has taken. The lock's holder, when quiet.
    fn start_of(&self, resources: &Resources, stream: &Stream, number: u64) -> u64 {
        let bytes = stream.block_bytes();
        let found = self.places.iter().take(self.count.peek() as usize).find_map(|place| {
            let (base, count) = lines_in(place.lines.peek());
            let line = number.checked_sub(base).filter(|line| *line < count)?;
            let begin = self.offset.peek() + place.block_number.peek() * bytes;
            let carried = place.carried_bytes.peek();
            let start = if line == 0 {
                -i64::from(carried % FIRST_SKIPPED)
            } else {
                self.end_of(resources, place, line - 1 + u64::from(carried / FIRST_SKIPPED))
            };
            Some(begin.wrapping_add_signed(start))
        });
        debug_assert!(found.is_some(), "invariant 3");
        found.unwrap_or_else(|| self.published_end.peek())
    }

    fn release(resources: &Resources, place: &Place) {
        resources.line_buffers.free.release(Claim::single(place.text.peek()));
        resources.stream_buffers.free.release(Claim::single(place.buffer.peek()));
    }
}
