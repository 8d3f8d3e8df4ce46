//! From a warp's requests to the ring and back (stages 4 to 8): batches, draining, waiting, staging.
#![allow(unsafe_code, reason = "hands buffers to the kernel")]

mod abandon;
mod area;
mod chain;
mod copy;
mod range;
mod ready;
mod runs;
mod serve;
mod staging;
mod start;
mod until;
mod vector;
mod wait;

use core::mem;

use gpufs_core::abi::Sqe;
use gpufs_core::session::{SessionTables, WaitReason};
use gpufs_core::stream::Token;
use gpufs_core::{
    Batch, Claim, Completion, Delivery, Drain, Errno, Operation, Outcome, Poll, Queue, Slot, SlotClaim,
    Ticket,
};
use static_assertions::const_assert;

use crate::warp::{Broadcast, LaneMask, Lanes, Machine, Warp, position};

pub(crate) use abandon::abandoned;
pub(crate) use area::{StagingArea, staged, staged_whole};
pub(crate) use chain::{LINKS_MAX, admit_chain, dismiss_chain, start_chain};
pub(crate) use copy::{Flow, copy_alone, copy_raw, copy_together};
pub(crate) use range::DeviceRange;
use ready::is_ready;
pub(crate) use ready::{Rests, Waiting, end_of_wait, operate_until, poll_entry, transfer_waiting};
pub(crate) use serve::{serve, serve_staged, transact_or_serve};
pub(crate) use staging::{Request, copy_lanes, transfer};
pub(crate) use start::{
    Begun, Held, Look, Started, await_started, cancel_started, dismiss, rouse_host, start,
};
pub(crate) use until::{Awaited, Progress, await_until, until_done};
pub(crate) use vector::{VectorRequest, transfer_vectors};
pub(crate) use wait::Backoff;

/// The ring that the caller's warp uses. Convergent by value: the same in all lanes of a warp.
pub(crate) fn ring_of_warp(session: &SessionTables) -> u32 {
    warp_of_grid() % session.queue_count
}

/// The caller's warp among those of its grid: a block has whole ones, of which the last may have few lanes. Convergent by value: the same in all
/// lanes of a warp.
#[inline]
pub(crate) fn warp_of_grid() -> u32 {
    let place = position();
    let warps = place.block_threads.div_ceil(Machine::width());
    place.block.wrapping_mul(warps).wrapping_add(place.thread / Machine::width())
}

/// Completions that a lane takes at a time. They come over the bus together, so that many cost little more than one: as many as stay in registers.
const COMPLETIONS_OF_A_LANE: u32 = 8;
const_assert!(COMPLETIONS_OF_A_LANE * u64::BITS <= Queue::DRAINED_MAX);

/// The result of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Drained {
    /// Completions were delivered.
    Some,
    /// There were none.
    Nothing,
    /// Another warp drains.
    Elsewhere,
    /// The ring has failed: nothing will complete any more ([R-9]).
    Failed,
}

impl Drained {
    /// Of several rings: that one has failed, or something was delivered.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failed, _) | (_, Self::Failed) => Self::Failed,
            (Self::Some, _) | (_, Self::Some) => Self::Some,
            (drained, _) => drained,
        }
    }
}

/// Takes completions of one ring and delivers them. Convergent; called by `lanes`; valid in all. Waits for nothing.
///
/// For callers that wait for something other than a completion. Not inlined: its registers would be spilled throughout its callers.
#[inline(never)]
pub(crate) fn drain(session: &SessionTables, lanes: Lanes, ring: u32) -> Drained {
    drain_after(session, ring, &session.queues()[ring as usize], lanes)
}

/// [`drain`] of each ring that some lane names in `waiting`, once. Convergent; called by `lanes`; valid in all.
pub(crate) fn drain_each(session: &SessionTables, lanes: Lanes, mut waiting: Option<u32>) -> Drained {
    let mut drained = Drained::Nothing;
    // Ends: each round takes a ring.
    loop {
        let left = lanes.ballot(waiting.is_some());
        if left.is_empty() {
            return drained;
        }
        let ring = lanes.broadcast(waiting.unwrap_or(0), left.first());
        drained = drained.and(drain(session, lanes, ring));
        if waiting == Some(ring) {
            waiting = None;
        }
    }
}

/// What the leader's poll found, as [`Poll`], for all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Polled {
    /// The word of a [`Drain`].
    Taken(u64),
    Empty,
    Busy,
    Failed,
}

impl Polled {
    const BUSY: u64 = 1;
    const FAILED: u64 = 2;
}

/// The word of a drain is itself: it has its count, at least 1, in the upper half, which is 0 in all others.
impl Broadcast for Polled {
    #[inline]
    fn to_word(self) -> u64 {
        match self {
            Self::Taken(word) => {
                debug_assert!(word >> 32 != 0);
                word
            }
            Self::Empty => 0,
            Self::Busy => Self::BUSY,
            Self::Failed => Self::FAILED,
        }
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        match word {
            word if word >> 32 != 0 => Self::Taken(word),
            Self::BUSY => Self::Busy,
            Self::FAILED => Self::Failed,
            _ => Self::Empty,
        }
    }
}

/// [`drain`] of `queue`, which is that ring's.
#[inline]
fn drain_after(session: &SessionTables, ring: u32, queue: &Queue, lanes: Lanes) -> Drained {
    drain_for(session, (ring, queue), lanes, (1, true), None).0
}

/// [`drain_after`] for lanes of which each may wait for an operation of its own, polling as [`Queue::poll`] does. And the operation's result, if the
/// lane has delivered it itself: it need not look for it then.
#[inline]
fn drain_for(
    session: &SessionTables,
    (ring, queue): (u32, &Queue),
    lanes: Lanes,
    (polls, waits): (u32, bool),
    operation: Option<Operation>,
) -> (Drained, Option<i32>) {
    let width = lanes.count();
    let polled = lanes.on_leader_inline(|| match queue.poll(width * COMPLETIONS_OF_A_LANE, polls, waits) {
        Poll::Taken(drain) => Polled::Taken(drain.into_word()),
        Poll::Empty => Polled::Empty,
        Poll::Busy => Polled::Busy,
        Poll::Failed => Polled::Failed,
    });
    let packed = match polled {
        Polled::Taken(packed) => packed,
        Polled::Empty => return (Drained::Nothing, None),
        Polled::Busy => return (Drained::Elsewhere, None),
        Polled::Failed => return (Drained::Failed, None),
    };
    // SAFETY:
    // - of the drain that the leader has just begun and not ended
    // - the leader alone advances and ends it; each lane copies its entries before the barrier with that
    let drain = unsafe { Drain::from_word(packed) };
    let (rank, mut result) = (lanes.rank(), None);
    if drain.count() <= width {
        let copy = (rank < drain.count()).then(|| queue.entry(&drain, rank));
        let [delivery] = deliver(queue, lanes, &drain, &[copy]);
        if let (Some(copy), Some(Delivery::Delivered), Some(operation)) = (copy, delivery, operation) {
            result = copy.result_of(operation);
        }
    } else {
        deliver_wide(session, ring, lanes, packed);
    }
    if lanes.is_leader() {
        // SAFETY:
        // - in `deliver` this lane has advanced the drain, and has delivered since
        unsafe { queue.end_drain(drain) };
    }
    lanes.sync();
    (Drained::Some, result)
}

/// [`deliver`] of more completions than there are lanes, of the drain that [`drain_after`] packed. Convergent; called by `lanes`.
///
/// Not inlined: it takes all registers, and what its callers keep would be spilled. It copies the queue: loaded
/// again after each fence, its fields made 20 million NOPs a second 13.5.
#[inline(never)]
fn deliver_wide(session: &SessionTables, ring: u32, lanes: Lanes, packed: u64) {
    // SAFETY:
    // - of the drain that the leader has begun and `drain_after` ends
    // - the leader alone advances it; each lane copies its entries before the barrier with that
    let drain = unsafe { Drain::from_word(packed) };
    let queue = &{ session.all_queues()[ring as usize] };
    let (width, rank) = (lanes.count(), lanes.rank());
    let mut copies = [None; COMPLETIONS_OF_A_LANE as usize];
    #[expect(clippy::needless_range_loop, reason = "an iterator over the array keeps it in memory")]
    for round in 0..copies.len() {
        #[expect(clippy::cast_possible_truncation, reason = "a few")]
        let index = round as u32 * width + rank;
        if index < drain.count() {
            copies[round] = Some(queue.entry(&drain, index));
        }
    }
    // A stale completion is counted by the queue and reported by the host.
    let _ = deliver(queue, lanes, &drain, &copies);
}

/// Keeps what must be kept of the entries of which these are the lane's copies, gives them back to the kernel, and delivers them. Convergent.
#[inline(always)]
#[expect(clippy::inline_always, reason = "copies stay in registers only where all of this is inlined")]
fn deliver<const N: usize>(
    queue: &Queue,
    lanes: Lanes,
    drain: &Drain,
    copies: &[Option<Completion>; N],
) -> [Option<Delivery>; N] {
    queue.keep(copies);
    lanes.sync();
    if lanes.is_leader() {
        // SAFETY:
        // - each lane has copied its share of the entries, and the barrier puts that before; nobody copies them again
        unsafe { queue.advance(drain) };
    }
    lanes.sync();
    queue.deliver_all(copies)
}

/// Submits the entries of those lanes that have one, as few batches as slots allow, and waits for all of them; each lane's `res`
/// (0 for a lane without). Convergent; called by `lanes`.
///
/// What an entry refers to must stay valid until the return.
///
/// In programs that are assembled in parts it saves few registers (`preserve.rs` of gpufs-build names it): for callers that keep little meanwhile.
#[inline(never)]
pub(crate) fn transact(session: &SessionTables, lanes: Lanes, entry: Option<Sqe>) -> i32 {
    let ring = ring_of_warp(session);
    let queue = &{ session.queues()[ring as usize] };
    transact_noting(session, (ring, queue), lanes, entry, |_| 0, |_| {})
}

/// Like [`transact`], for callers that keep much, and have computed the ring ([`ring_of_warp`]), which stays in a register if that is before the
/// first shared store.
#[inline(never)]
pub(crate) fn transact_on(session: &SessionTables, ring: u32, lanes: Lanes, entry: Option<Sqe>) -> i32 {
    let queue = &{ session.queues()[ring as usize] };
    transact_noting(session, (ring, queue), lanes, entry, |_| 0, |_| {})
}

/// As [`transact_on`], in line, for one that is itself a function apart.
#[inline(always)]
#[expect(clippy::inline_always, reason = "what it saves would be saved twice")]
pub(crate) fn transact_here(session: &SessionTables, ring: u32, lanes: Lanes, entry: Option<Sqe>) -> i32 {
    let queue = &{ session.queues()[ring as usize] };
    transact_noting(session, (ring, queue), lanes, entry, |_| 0, |_| {})
}

/// [`transact`] of `openat`s, each for the entry `index` of the file table: the journal has each from before it is submitted, but in a sandbox.
#[inline(never)]
pub(crate) fn transact_open(session: &SessionTables, lanes: Lanes, entry: Option<Sqe>, index: u32) -> i32 {
    // [R-SERVE-7]
    if session.is_confined() {
        return serve(session, lanes, entry);
    }
    let (ring, journal) = (ring_of_warp(session), &session.journal);
    let queue = &{ session.queues()[ring as usize] };
    let journaled = if queue.keeps_results() { Operation::JOURNALED } else { 0 };
    let armed = |operation: Operation| {
        journal.note_opening(index, Token::new(ring, operation).word());
        journaled
    };
    let done = |result: i32| match Errno::check(result) {
        Ok(descriptor) => journal.note_open(index, descriptor),
        Err(_) => journal.note_close(index),
    };
    transact_noting(session, (ring, queue), lanes, entry, armed, done)
}

/// [`transact_on`]. Each lane that has an entry calls `noted` before it is published, for what its `user_data` gets beside the token, and
/// `done` with its result before its slot is released.
#[inline(always)]
#[allow(clippy::inline_always, reason = "what is not noted must cost nothing")]
fn transact_noting(
    session: &SessionTables,
    (ring, queue): (u32, &Queue),
    lanes: Lanes,
    entry: Option<Sqe>,
    noted: impl Fn(Operation) -> u64,
    done: impl Fn(i32),
) -> i32 {
    let (mut rest, mut result) = (lanes.ballot(entry.is_some()), 0);
    let mut backoff = Backoff::new(session);
    // Ends: each round with a claim serves at least one lane, and a claim comes ([L-PROGRESS b]).
    while !rest.is_empty() {
        let claim = claim_slots(queue, lanes, rest.count(), ring);
        if claim.bits == 0 {
            if is_copy(session) {
                return -Errno::BADF.number();
            }
            let drained = drain_after(session, ring, queue, lanes);
            if let Err(errno) = backoff.wait(drained, WaitReason::Slot, ring, 0) {
                return -errno.number();
            }
            continue;
        }
        // SAFETY:
        // - the slots that the leader has just claimed of this queue; it alone releases them, below
        let claim = unsafe { SlotClaim::from_claim(claim) };
        let batch = first_lanes(rest, claim.count());
        let mine = batch.contains(lanes.lane());
        let rank = batch.rank(lanes.lane());
        // SAFETY: the slots of the claim. Each lane of the batch fills its ticket below, and the leader commits it; nothing between could fail
        let drawn = unsafe { draw(queue, lanes, claim.count()) };
        let ticket = Ticket(lanes.from_leader(drawn.as_ref().map_or(0, |batch| batch.first().0)));
        let (mut operation, mut user_data, mut waits) = (None, 0, false);
        if let (true, Some(entry)) = (mine, entry) {
            // SAFETY:
            // - a slot of the claim, this lane's alone by its rank; nothing was in flight in it when it was claimed
            // - the leader releases the claim when every lane has seen its outcome
            let armed = unsafe { queue.arm(Slot(claim.item(rank))) };
            user_data = armed.token() | noted(armed);
            // SAFETY:
            // - the ticket is one of the batch just drawn, and this lane's alone by its rank; the claim has a slot for each
            // - the caller keeps what the entry refers to until this function returns, which is after the completion
            unsafe { queue.fill(ticket.plus(rank), entry.with_user_data(user_data)) };
            operation = Some(armed);
        }
        lanes.sync();
        if let Some(drawn) = drawn {
            // SAFETY:
            // - drawn above and committed here alone; each lane has filled its ticket, and the barrier puts that before
            unsafe { queue.commit(drawn) };
        }
        // Ends: the kernel completes what was committed, and this loop drains ([L-PROGRESS a]).
        loop {
            // Before the first look at the outcome, which takes as long as the way to the completion queue does.
            let way = (Machine::POLLS_BEFORE_YIELD, mem::replace(&mut waits, true));
            let (drained, delivered) = drain_for(session, (ring, queue), lanes, way, operation);
            if let Some(value) = delivered.or_else(|| outcome_of(queue, operation)) {
                result = value;
                done(value);
                operation = None;
            }
            if lanes.ballot(operation.is_some()).is_empty() {
                break;
            }
            let waited = backoff.wait_for_completion(
                drained,
                WaitReason::Completion,
                ring,
                operation.map_or(0, |armed| armed.token()),
            );
            if let (Err(errno), Some(armed)) = (waited, operation) {
                match abandon::cancel(ring, queue, armed, user_data) {
                    Some(value) => result = value,
                    // The slot stays the operation's.
                    None => return -errno.number(),
                }
                break;
            }
        }
        if lanes.is_leader() {
            queue.release(claim);
        }
        rest = rest.without(batch);
    }
    result
}

/// The result of the lane's operation, if there is one and it is done.
#[inline]
fn outcome_of(queue: &Queue, operation: Option<Operation>) -> Option<i32> {
    match queue.outcome(operation?) {
        Outcome::Done(value) => Some(value),
        Outcome::InFlight | Outcome::Stale => None,
    }
}

/// Tickets for the slots that the leader has claimed, in the leader.
///
/// # Safety
/// As for [`Queue::reserve`].
#[inline(always)]
#[allow(clippy::inline_always, reason = "one branch")]
unsafe fn draw(queue: &Queue, lanes: Lanes, count: u32) -> Option<Batch> {
    if lanes.is_leader() {
        // SAFETY:
        // - this function's contract
        Some(unsafe { queue.reserve(count) })
    } else {
        None
    }
}

/// Whether these are a forked child's copy of its parent's tables, in which no slot becomes free.
#[inline(always)]
#[allow(clippy::inline_always, reason = "nothing, on a GPU")]
fn is_copy(session: &SessionTables) -> bool {
    cfg!(not(any(target_arch = "nvptx64", target_arch = "amdgpu"))) && session.is_closed()
}

/// Claims up to `wanted` slots for the lanes; an empty claim if none is free. Convergent; valid in all.
fn claim_slots(queue: &Queue, lanes: Lanes, wanted: u32, ring: u32) -> Claim {
    let mut claim = Claim { word: 0, bits: 0 };
    if lanes.is_leader()
        && let Some(found) = queue.claim(wanted, slot_hint(ring))
    {
        claim = found.into_claim();
    }
    let word = lanes.from_leader(claim.word);
    Claim { word, bits: lanes.from_leader(claim.bits) }
}

/// Where the caller's warp begins to look for free things, so that warps do not crowd on one word.
pub(crate) fn slot_hint(ring: u32) -> u32 {
    warp_of_grid().wrapping_add(ring)
}

/// The lowest `count` lanes of a set.
fn first_lanes(lanes: LaneMask, count: u32) -> LaneMask {
    let mut rest = lanes.0;
    for _ in 0..count {
        rest &= rest.wrapping_sub(1);
    }
    LaneMask(lanes.0 & !rest)
}

/// One operation for the whole group, brought by its leader; its `res` in all lanes. Convergent; called by `lanes`.
pub(crate) fn transact_one(session: &SessionTables, lanes: Lanes, entry: Sqe) -> Result<u32, Errno> {
    let result = transact(session, lanes, lanes.is_leader().then_some(entry));
    Errno::check(lanes.from_leader(result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::message::assert_comes_back;
    use proptest::prelude::*;

    #[test]
    fn every_poll_that_took_nothing_comes_back() {
        for polled in [Polled::Empty, Polled::Busy, Polled::Failed] {
            assert_comes_back(polled);
        }
    }

    proptest! {
        #[test]
        fn every_drain_comes_back(head: u32, count in 1..=Queue::DRAINED_MAX) {
            assert_comes_back(Polled::Taken(u64::from(count) << 32 | u64::from(head)));
        }
    }
}
