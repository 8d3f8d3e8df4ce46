//! Operations that a lane starts and does not wait for: start, look, take, cancel ([R-ASYNC-1] to [R-ASYNC-4]). What an operation is, and where its
//! bytes lie, is the caller's business.
#![expect(unsafe_code, reason = "hands buffers to the kernel")]

use core::mem;

use gpufs_core::abi::Sqe;
use gpufs_core::alloc::{BufferPool, FreePlace, Staged};
use gpufs_core::session::{SessionTables, WaitReason};
use gpufs_core::{Batch, Claim, Errno, Holding, Operation, Outcome, Queue, Reach, Slot, SlotClaim, Ticket};

use super::{Backoff, Drained, claim_slots, drain, drain_for, draw, first_lanes, ring_of_warp, transact_on};
use crate::warp::{Lanes, Machine, Warp};

/// Where an operation is that a lane started. Whoever takes its result consumes it.
#[derive(Debug)]
#[must_use = "slot and count are the operation's until its result is taken"]
pub(crate) struct Started {
    /// The ring's queue, looked up when it was started: a trip to memory less at each look. Behind the session's gate, as all of its tables.
    queue: &'static Queue,
    /// The ring.
    pub(crate) ring: u32,
    operation: Operation,
    /// The round in which it was started ([R-ASYNC-6]).
    pub(crate) round: u32,
    ends: Ends,
}

/// Whether an operation ends by itself. It has eight bytes, so that all of a [`Started`] is moved in words: padding is moved byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Ends {
    ByItself,
    /// It may never, as it waits for another party.
    Perhaps,
}

/// What an operation holds, and gives back when its result was taken: see [`Started::held`].
#[must_use]
pub(crate) struct Held<'a> {
    holding: Holding<'a>,
    memory: Option<FreePlace>,
    endless: Option<(&'a Queue, Operation)>,
}

impl Held<'_> {
    /// Without the memory, which stays the caller's.
    #[inline]
    pub(crate) fn keep_memory(&mut self) {
        self.memory = None;
    }
    /// Gives it back.
    #[inline]
    pub(crate) fn release(self) {
        if let Some((queue, operation)) = self.endless {
            queue.clear_endless(operation);
        }
        self.holding.give_back(self.memory);
    }
}

/// What is known of an operation that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Look {
    /// It goes on.
    InFlight,
    /// It is complete, with this result, which can be taken.
    Done(i32),
    /// The host has ended it, when the kernels that it was started in had ended ([R-ASYNC-6]).
    Ended,
}

impl Started {
    /// The operation of a ring's round.
    pub(crate) const fn of(
        (ring, queue): (u32, &'static Queue),
        operation: Operation,
        round: u32,
        endless: bool,
    ) -> Self {
        let ends = if endless { Ends::Perhaps } else { Ends::ByItself };
        Self { queue, ring, operation, round, ends }
    }
    /// Whether it may never end, as it waits for another party.
    pub(crate) const fn is_endless(&self) -> bool {
        matches!(self.ends, Ends::Perhaps)
    }
    /// Slot and generation.
    pub(crate) const fn operation(&self) -> Operation {
        self.operation
    }

    /// What is known of it. Any lane, for itself. Waits for nothing.
    #[inline]
    pub(crate) fn look(&self) -> Look {
        // Loaded together: neither waits for the other.
        let round = self.queue.round();
        let look = self.look_again();
        if round == self.round { look } else { Look::Ended }
    }
    /// [`Started::look`] at an operation that was in flight when the lane looked first: rounds do not change meanwhile.
    #[inline]
    fn look_again(&self) -> Look {
        match self.queue.outcome(self.operation) {
            Outcome::Done(result) => Look::Done(result),
            Outcome::InFlight => Look::InFlight,
            Outcome::Stale => Look::Ended,
        }
    }

    /// What it holds, with the `memory` that goes back with it: to be released with [`Held::release`], if it is complete. A lane looks it up while
    /// it waits for something else. [R-ASYNC-3].
    ///
    /// # Safety
    /// Of all that this is called for of one operation one is released, by who has found it complete, in its own round, and gives its handle up.
    pub(crate) unsafe fn held<'a>(&self, session: &'a SessionTables, memory: Option<Staged>) -> Held<'a> {
        let queue = self.queue;
        // SAFETY:
        // - claimed when it was started, of this ring, and released once, by this function's contract
        let claim = unsafe { SlotClaim::of(self.operation) };
        Held {
            holding: queue.holding(claim),
            memory: memory.map(|memory| session.async_buffers.free.place(memory.claim)),
            endless: self.is_endless().then_some((queue, self.operation)),
        }
    }

    /// Releases what a complete operation held, with the `memory` that the caller does not keep. Any lane, for itself. [R-ASYNC-3].
    pub(crate) fn take(self, session: &SessionTables, memory: Option<Staged>) {
        // SAFETY:
        // - released here alone: whoever calls this has found it complete, in its own round, and has given its handle up
        unsafe { self.held(session, memory) }.release();
    }

    /// The entry that cancels it. [R-ASYNC-4].
    const fn cancel_entry(&self) -> Sqe {
        Sqe::async_cancel(self.operation.token())
    }
}

/// A start that has begun: its ring, and the count of an operation for each lane, which is under way.
#[must_use = "what is counted and goes no further keeps others out"]
pub(crate) struct Begun {
    pub(crate) ring: u32,
    pub(crate) queue: &'static Queue,
    /// The staging memory of such operations.
    pub(crate) pool: BufferPool,
    /// The leader's.
    reach: Option<Reach>,
}

impl Begun {
    /// Reaches for an operation for each lane, whether it will want one or not: what it will want is looked up meanwhile. Convergent; called by
    /// `lanes`. [R-ASYNC-1].
    #[inline]
    pub(crate) fn new(session: &'static SessionTables, lanes: Lanes) -> Self {
        let ring = ring_of_warp(session);
        let (queue, pool) = (&session.queues()[ring as usize], session.async_buffers);
        let reach = lanes.is_leader().then(|| queue.reach_for_waits(lanes.count()));
        Self { ring, queue, pool, reach }
    }
    /// How many of the lanes may go on. Convergent; called by `lanes`.
    #[inline]
    pub(crate) fn admit(&mut self, lanes: Lanes) -> u32 {
        lanes.from_leader(self.reach.take().map_or(0, |reach| self.queue.admit_waits(reach)))
    }
}

/// Takes the counts of so many operations back whose start went no further. Convergent; called by `lanes`, with the same number.
pub(crate) fn dismiss(queue: &Queue, lanes: Lanes, back: u32) {
    if back > 0 && lanes.is_leader() {
        queue.end_waits(back);
    }
}

/// Submits the entries of those lanes that have one, as few batches as slots allow, and returns when they are published: each lane's operation. Of
/// the queue the caller has a copy. Convergent; called by `lanes`; as many were admitted as have an entry ([`Begun::admit`]). [R-ASYNC-2].
///
/// # Errors
/// Of a thread of the host's, that it gave up waiting for a slot; of a copy of a parent's tables, `EBADF`.
///
/// # Safety
/// What an entry refers to stays valid and the kernel's until the operation was found complete ([`Started::look`]), or the session's memory is
/// given back.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "a copy of the queue stays in registers only where all of this is inlined"
)]
pub(crate) unsafe fn start(
    session: &SessionTables,
    (ring, tables, queue): (u32, &'static Queue, &Queue),
    lanes: Lanes,
    entry: Option<Sqe>,
    endless: bool,
) -> Result<Option<Started>, Errno> {
    let mut rest = lanes.ballot(entry.is_some());
    let (mut started, mut backoff) = (None, Backoff::new(session));
    // Ends: each round with a claim serves at least one lane, and a claim comes ([L-PROGRESS b], [P-ASYNC-PROGRESS]).
    while !rest.is_empty() {
        let claim = claim_slots(queue, lanes, rest.count(), ring);
        if claim.bits == 0 {
            if let Err(errno) = await_slot(session, ring, lanes, &mut backoff) {
                dismiss(queue, lanes, rest.count());
                return if rest.contains(lanes.lane()) { Err(errno) } else { Ok(started) };
            }
            continue;
        }
        let batch = first_lanes(rest, claim.count());
        let (mine, rank) = (batch.contains(lanes.lane()), batch.rank(lanes.lane()));
        // SAFETY:
        // - the slots of the claim. Each lane of the batch fills its ticket below, and the leader commits it; nothing between could fail
        let drawn = unsafe { draw(queue, lanes, claim.count()) };
        let first = Ticket(lanes.from_leader(drawn.as_ref().map_or(0, |batch| batch.first().0)));
        if let (true, Some(entry)) = (mine, entry) {
            // SAFETY:
            // - this function's contract, and its claim has a slot for each lane of the batch
            let operation = unsafe { fill(queue, (claim, first, rank), entry, endless) };
            started = Some(Started::of((ring, tables), operation, queue.round(), endless));
        }
        lanes.sync();
        let is_next = drawn.as_ref().is_some_and(Batch::is_next);
        if let Some(drawn) = drawn {
            // SAFETY:
            // - drawn above and committed here alone; each lane has filled its ticket, and the barrier puts that before
            unsafe { queue.commit(drawn) };
        }
        publish(session, ring, (tables, is_next), lanes, first.plus(claim.count() - 1));
        rest = rest.without(batch);
    }
    Ok(started)
}

/// Drains, and rests until the next look for a slot. Convergent; called by `lanes`.
///
/// # Errors
/// As [`start`].
#[cold]
#[inline(never)]
pub(super) fn await_slot(
    session: &SessionTables,
    ring: u32,
    lanes: Lanes,
    backoff: &mut Backoff<'_>,
) -> Result<(), Errno> {
    let drained = drain(session, lanes, ring);
    if super::is_copy(session) { Err(Errno::BADF) } else { backoff.wait(drained, WaitReason::Slot, ring, 0) }
}

/// Arms a lane's slot and fills its ticket: those of its rank.
///
/// # Safety
/// The claim was made for this batch, and its slot and ticket of this rank are the caller's alone; the batch was drawn and not committed. The
/// entry is as [`start`] wants it.
unsafe fn fill(
    queue: &Queue,
    (claim, first, rank): (Claim, Ticket, u32),
    entry: Sqe,
    endless: bool,
) -> Operation {
    // SAFETY:
    // - a slot of the claim, this lane's alone by its rank; nothing was in flight in it when it was claimed
    // - it is released when its outcome was seen, by `Started::take` or by the host
    let operation = unsafe { queue.arm(Slot(claim.item(rank))) };
    if endless {
        queue.note_endless(operation);
    }
    // SAFETY:
    // - the ticket is one of the batch just drawn, and this lane's alone by its rank; the claim has a slot for each
    // - what the entry refers to stays, by this function's contract
    unsafe { queue.fill(first.plus(rank), entry.with_user_data(operation.token())) };
    operation
}

/// Waits until the tail has passed `last`, which the leader has committed, unless it knows: the batch was the next ([`Batch::is_next`]). Convergent;
/// called by `lanes`.
pub(super) fn publish(
    session: &SessionTables,
    ring: u32,
    (queue, was_next): (&Queue, bool),
    lanes: Lanes,
    last: Ticket,
) {
    if lanes.is_leader() && !was_next {
        await_tail(session, ring, queue, last);
    }
    lanes.sync();
}

/// Waits until the tail has passed `last`. The leader.
#[cold]
#[inline(never)]
fn await_tail(session: &SessionTables, ring: u32, queue: &Queue, last: Ticket) {
    let mut backoff = Backoff::new(session);
    // Ends: producers of earlier tickets wait for nothing, and this loop adopts what a publisher leaves ([P-ASYNC-PUBLISH]).
    while !queue.pass_to(last) {
        // Past a deadline of the session's, a thread of the host's gives up: what it started is published by whoever drains next.
        if backoff.wait(Drained::Nothing, WaitReason::Slot, ring, u64::from(last.0)).is_err() {
            break;
        }
    }
}

/// Waits until the operation of each lane that has one is complete, or its time is over, by [`Machine::clock`]: what is known of it then; of none,
/// that it has ended. Convergent; called by `lanes`, which wait for each other.
///
/// # Errors
/// Of a thread of the host's, that it gave up: the ring has failed, or the session's deadline has passed.
pub(crate) fn await_started(
    session: &SessionTables,
    lanes: Lanes,
    started: Option<&Started>,
    until_ns: Option<u64>,
) -> Result<Look, Errno> {
    let mut backoff = Backoff::new(session);
    // A lane that has a limit looks at the clock as often as at the ring.
    let polls = if until_ns.is_some() { 1 } else { Machine::POLLS_BEFORE_YIELD };
    let mut look = started.map_or(Look::Ended, Started::look);
    let (mut over, mut waits) = (false, false);
    // Ends: the kernel completes what it can, and this loop drains; what may never end has the caller's limit or the session's deadline.
    loop {
        let going_on = started.filter(|_| look == Look::InFlight);
        if !lanes.any(going_on.is_some() && !over) {
            return Ok(look);
        }
        let way = (polls, mem::replace(&mut waits, true));
        let (drained, delivered) = drain_started(session, lanes, going_on, way);
        if let Some(started) = going_on {
            // Looked at behind a drain: short waits, one after the other, would otherwise drain nothing where a look takes longer than they do.
            look = delivered.map_or_else(|| started.look_again(), Look::Done);
        }
        if let (Some(started), Look::InFlight) = (going_on, look) {
            // A lane with a limit of its own has no other.
            let limited = until_ns.is_some() && drained != Drained::Failed;
            let (ring, object) = (started.ring, started.operation.token());
            if limited {
                rouse_host();
            }
            backoff.wait_for_completion(
                if limited { Drained::Some } else { drained },
                WaitReason::Completion,
                ring,
                object,
            )?;
        }
        over = until_ns.is_some_and(|until| Machine::clock() >= until);
    }
}

/// Drains the ring of each lane's operation, each ring once, polling as [`Queue::poll`](gpufs_core::Queue::poll) does; and the operation's result,
/// if the lane has delivered it itself. Convergent; called by `lanes`.
#[inline]
fn drain_started(
    session: &SessionTables,
    lanes: Lanes,
    mut left: Option<&Started>,
    way: (u32, bool),
) -> (Drained, Option<i32>) {
    let (mut drained, mut delivered) = (Drained::Nothing, None);
    // Ends: each round takes a ring.
    loop {
        let rest = lanes.ballot(left.is_some());
        if rest.is_empty() {
            return (drained, delivered);
        }
        let ring = lanes.broadcast(left.map_or(0, |started| started.ring), rest.first());
        let mine = left.filter(|started| started.ring == ring);
        let queue = &{ *mine.map_or_else(|| &session.all_queues()[ring as usize], |started| started.queue) };
        let operation = mine.map(Started::operation);
        let (this, result) = drain_for(session, (ring, queue), lanes, way, operation);
        drained = drained.and(this);
        if mine.is_some() {
            (left, delivered) = (None, result);
        }
    }
}

/// Of a thread of the host's, whose looks are short: a nap that rouses the ring service, which is parked while no kernel runs. Nothing in a kernel.
pub(crate) fn rouse_host() {
    const NAP_NS: u32 = 1_000;
    if Machine::is_host() {
        Machine::nap(NAP_NS);
    }
}

/// Cancels the operation of each lane that has one: what the cancel came to, 0 where it ended or will end the operation, `ENOENT` where there is
/// no such operation any more, `EALREADY` where it cannot be ended any more. Convergent; called by `lanes`. [R-ASYNC-4].
pub(crate) fn cancel_started(
    session: &SessionTables,
    lanes: Lanes,
    started: Option<&Started>,
) -> Result<u32, Errno> {
    let mut left = started.filter(|started| started.look() == Look::InFlight);
    let mut result = Err(Errno::NOENT);
    // Ends: each round takes a ring.
    loop {
        let rest = lanes.ballot(left.is_some());
        if rest.is_empty() {
            return result;
        }
        let ring = lanes.broadcast(left.map_or(0, |started| started.ring), rest.first());
        let mine = left.filter(|started| started.ring == ring);
        let value = transact_on(session, ring, lanes, mine.map(Started::cancel_entry));
        if mine.is_some() {
            result = Errno::check(value);
            left = None;
        }
    }
}
