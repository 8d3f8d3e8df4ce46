//! Progress by callers that found no lines, or few: reads are started, and their results taken in. Each step is one lane's, and waits for
//! nothing. The steps that need a warp are in `publish.rs`.
#![expect(unsafe_code, reason = "filling a ring entry")]

use super::super::{State, Token};
use super::{Lines, PLACES_MAX, Stream, Work};
use crate::abi::CURRENT_POSITION;
use crate::abi::Errno;
use crate::files::FileIndex;
use crate::resources::Resources;
use crate::ring::{Outcome, Slot, SlotClaim};

impl Lines {
    /// Whether the caller, one lane for its warp, is now present and may make progress. Waits for nothing.
    #[must_use]
    pub fn enter_progress(&self) -> bool {
        // ORDERING: relaxed: hints, so that few come near the places.
        if !self.is_open() || self.progressing.0.peek() >= 2 * self.count.peek() {
            return false;
        }
        if !self.reservation().enter() {
            return false;
        }
        // ORDERING: relaxed: a hint.
        self.progressing.0.count(1);
        true
    }
    /// Ends what [`Lines::enter_progress`] began. One lane, after a barrier with those that touched a place.
    pub fn leave_progress(&self) {
        // ORDERING: acquire and release, device, which is more than a hint needs.
        self.progressing.0.fetch_sub(1);
        self.leave();
    }

    /// Does what a lane can do alone for a place: starts its read, or takes in what was read. The result is what a warp could do then, and the
    /// ring on which something is under way. Present. Waits for nothing.
    pub fn progress(&self, resources: &Resources, stream: &Stream, index: u32) -> (Work, Option<u32>) {
        let place = &self.places[index as usize];
        // ORDERING: acquire, device, partner every change of the state: what its last owner did to the place comes before.
        match place.state.observe() {
            State::Filling => (Work::Nothing, self.start(resources, stream, index)),
            // ORDERING: relaxed: hints; `claim` looks again.
            State::Full if self.stopped.peek() == 0 => (Work::Index, None),
            // ORDERING: relaxed: as above.
            State::Indexed if place.block_number.peek() == self.next.peek() && self.stopped.peek() == 0 => {
                (Work::Publish, None)
            }
            State::InFlight(token) => self.reap(resources, stream, index, token),
            _ => (Work::Nothing, None),
        }
    }

    /// Claims a place for what [`Lines::progress`] said. One lane, present, for its warp.
    #[must_use]
    pub fn claim(&self, index: u32, work: Work) -> bool {
        let place = &self.places[index as usize];
        match work {
            Work::Nothing => false,
            Work::Index => place.state.claim_full(),
            Work::Publish => {
                if !place.state.claim_indexed() {
                    return false;
                }
                // Since it was looked at, the place may have come to a later block.
                // ORDERING: acquire, device, partner `publish` of the block before, which stores `stopped` before that. (`stop_at` stores it
                // before the state that was claimed.)
                if self.next.observe() == place.block_number.peek() && self.stopped.peek() == 0 {
                    return true;
                }
                place.state.release_indexed();
                false
            }
        }
    }

    /// Claims the place of the block that is next, if it is indexed. One lane, present, for its warp.
    #[must_use]
    pub fn claim_next(&self) -> Option<u32> {
        // ORDERING: relaxed: hints; `claim` looks again.
        #[allow(clippy::cast_possible_truncation, reason = "below PLACES_MAX")]
        let index = (self.next.peek() & u64::from(self.count.peek().wrapping_sub(1))) as u32;
        let is_indexed = self.places[index as usize & (PLACES_MAX - 1)].state.seems(State::Indexed);
        (is_indexed && self.claim(index, Work::Publish)).then_some(index)
    }

    /// Claims the place of the block that is `ahead` (at least 1) behind the one that is next, if it is indexed. One lane of the warp that has
    /// claimed the next one's place, `first`.
    #[must_use]
    pub fn claim_behind(&self, first: u32, ahead: u32) -> Option<u32> {
        // ORDERING: relaxed: constant while lines are open.
        let count = self.count.peek();
        if ahead >= count {
            return None;
        }
        let index = first.wrapping_add(ahead) & (count - 1);
        let place = &self.places[index as usize & (PLACES_MAX - 1)];
        let is_claimed = place.state.seems(State::Indexed) && place.state.claim_indexed();
        // An indexed block is not published, so it is none of those before the next one. Nor has `stopped` changed since `first` was claimed: who
        // stops is the publisher of the block that is next.
        debug_assert!(
            !is_claimed || place.block_number.peek() == self.next.peek() + u64::from(ahead),
            "each place has a block of its own"
        );
        is_claimed.then_some(index)
    }

    /// Starts the read of a place that is FILLING; the ring that it is under way on. Present. Waits for nothing: without a free slot the next
    /// caller of `progress` starts it.
    pub(super) fn start(&self, resources: &Resources, stream: &Stream, index: u32) -> Option<u32> {
        let place = &self.places[index as usize];
        // ORDERING: relaxed: a read too many does no harm.
        if self.stopped.peek() != 0 {
            return None;
        }
        let ring = (stream.ring(resources) + index) % resources.queue_count;
        let queue = &resources.queues()[ring as usize];
        let claim = queue.claim(1, ring)?;
        // Acquires from `count_taken`: all copying out of the place comes before.
        if !place.state.claim_filling() {
            queue.release(claim);
            return None;
        }
        self.submit(resources, stream, ring, claim.item(0), index);
        Some(ring)
    }

    /// Reads the rest of a claimed place's block through `slot`.
    fn submit(&self, resources: &Resources, stream: &Stream, ring: u32, slot: u32, index: u32) {
        let place = &self.places[index as usize];
        let queue = &resources.queues()[ring as usize];
        let got = place.got.peek();
        let offset = self.offset.peek() + place.block_number.peek() * stream.block_bytes() + u64::from(got);
        debug_assert!(offset != CURRENT_POSITION);
        let pool = &resources.stream_buffers;
        #[allow(clippy::cast_possible_truncation, reason = "below 2³²")]
        let bytes = stream.block_bytes() as u32 - got;
        let address = pool.address(place.buffer.peek()) + u64::from(got);
        let file = FileIndex(stream.file.peek());
        let target = resources.files()[file.0 as usize].target(file);
        // SAFETY:
        // - the slot was claimed for this place, and belongs to it until `reap` or `settle_reads` has seen the outcome; the place is the
        //   caller's, by CLAIMED, so nothing is in flight in it
        let operation = unsafe { queue.arm(Slot(slot)) };
        let sqe = Resources::pool_transfer(pool, false, target, (address, bytes), offset)
            .with_user_data(operation.token());
        // SAFETY:
        // - the slots were claimed for this batch, which is filled and committed below, with nothing between that could fail
        let batch = unsafe { queue.reserve(1) };
        // SAFETY:
        // - the ticket was just drawn, for this lane alone
        // - the place's buffer belongs to the operation until its completion was seen (`State::InFlight`), and to the stream
        //   until then, since `settle_reads` waits for it
        unsafe { queue.fill(batch.first(), sqe) };
        place.state.submit(Token::new(ring, operation));
        // SAFETY:
        // - one ticket, drawn and filled above
        unsafe { queue.commit(batch) };
    }

    /// Takes in the completion of a place's read, if it has come. Present.
    fn reap(&self, resources: &Resources, stream: &Stream, index: u32, token: Token) -> (Work, Option<u32>) {
        let place = &self.places[index as usize];
        let (ring, operation) = token.parts();
        let queue = &resources.queues()[ring as usize];
        let result = match queue.outcome(operation) {
            Outcome::InFlight => return (Work::Nothing, Some(ring)),
            Outcome::Stale => return (Work::Nothing, None),
            Outcome::Done(result) => result,
        };
        if !place.state.claim_in_flight(token) {
            return (Work::Nothing, None);
        }
        let whole = match Errno::check(result) {
            Ok(count) => {
                // ORDERING: relaxed: a counter.
                queue.counters().bytes_read.count(u64::from(count));
                // ORDERING: relaxed: the owner's word.
                place.got.set(place.got.peek() + count);
                // A read of nothing is the end of the file.
                count == 0 || u64::from(place.got.peek()) == stream.block_bytes()
            }
            Err(Errno::INTR) => false,
            // A caller that reads on under the lock meets the error there.
            Err(_) => true,
        };
        if !whole {
            self.submit(resources, stream, ring, operation.slot.0, index);
            return (Work::Nothing, Some(ring));
        }
        // SAFETY:
        // - the slot that `start` claimed; the outcome was seen, and one reaper is here
        queue.release(unsafe { SlotClaim::of(operation) });
        place.state.release_full();
        (Work::Index, None)
    }
}
