//! A warp whose every step is taken separately, the steps of its lanes in any order.

use crate::chance::Chance;
use crate::rig::{Rig, sqe_of};
use crate::world::{Known, Model, Stage, WarpPlan};
use gpufs_core::{Batch, Claim, Completion, Delivery, Drain, Operation, Outcome, Slot, SlotClaim, Ticket};

/// One lane's operation of the batch at hand.
#[derive(Clone, Copy, Debug)]
struct Lane {
    slot: Slot,
    operation: Option<Operation>,
    filled: bool,
    done: bool,
}

/// What the warp does next, while it is not draining.
#[derive(Debug)]
enum Phase {
    Claim,
    Arm,
    Fill(Batch),
    Wait,
    Release(SlotClaim),
    Finished,
}

/// A drain under way.
#[derive(Debug)]
struct Draining {
    /// `None` once the poller's lock was given back.
    drain: Option<Drain>,
    copies: Vec<Copied>,
    advanced: bool,
}

/// What became of an entry of a drain.
#[derive(Debug)]
enum Copied {
    Not,
    Yes(Completion),
    Delivered,
}

#[derive(Debug)]
pub(crate) struct Warp {
    plan: WarpPlan,
    phase: Phase,
    claim: Option<SlotClaim>,
    lanes: Vec<Lane>,
    draining: Option<Draining>,
    /// An operation of an earlier batch.
    former: Option<Operation>,
    /// Operations that it has left in flight, each in its slot.
    left: Vec<Operation>,
    /// Links of the chain that it is about, which are counted.
    links: u32,
    /// Slots that it has for them, until it has all.
    gathered: Vec<Slot>,
}

impl Warp {
    pub(crate) fn new(plan: WarpPlan) -> Self {
        let (phase, claim, lanes) = (Phase::Claim, None, Vec::new());
        let (left, gathered) = (Vec::new(), Vec::new());
        Self { plan, phase, claim, lanes, draining: None, former: None, left, links: 0, gathered }
    }
    pub(crate) const fn add(&mut self, operations: u32) {
        self.plan.operations += operations;
    }
    /// Operations not yet begun.
    pub(crate) const fn left(&self) -> u32 {
        self.plan.operations
    }
    pub(crate) const fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished) && self.draining.is_none() && self.left.is_empty()
    }
    /// Operations that it has left in flight.
    pub(crate) const fn left_in_flight(&self) -> usize {
        self.left.len()
    }

    /// Links that it has counted.
    pub(crate) const fn counted(&self) -> usize {
        self.links as usize
    }

    /// One step.
    pub(crate) fn step(&mut self, rig: &Rig, model: &mut Model, chance: &mut Chance) {
        if let Some(former) = self.former {
            assert_eq!(rig.queue.outcome(former), model.outcome(former), "of an earlier operation");
        }
        if self.draining.is_some() {
            return self.go_on_draining(rig, model, chance);
        }
        let idle = matches!(self.phase, Phase::Finished);
        if !self.left.is_empty() && (idle || chance.once_in(3)) {
            return self.look_at_left(rig, model, chance);
        }
        match &self.phase {
            Phase::Claim => self.claim(rig, model, chance),
            Phase::Arm => self.arm(rig, model, chance),
            Phase::Wait => self.wait(rig, model, chance),
            Phase::Finished => {}
            Phase::Fill(_) | Phase::Release(_) => match std::mem::replace(&mut self.phase, Phase::Finished) {
                Phase::Fill(batch) => self.fill(rig, model, chance, batch),
                Phase::Release(claim) => self.release(rig, model, chance, claim),
                _ => unreachable!("one of the two"),
            },
        }
    }

    fn claim(&mut self, rig: &Rig, model: &mut Model, chance: &mut Chance) {
        let wanted = self.plan.width.min(self.plan.operations);
        if self.links > 0 {
            return self.gather(rig, model, chance);
        }
        if self.plan.chains && chance.once_in(2) {
            self.links = rig.queue.begin_chains(1, wanted) * wanted;
            return;
        }
        let Some(claim) = rig.queue.claim(wanted, self.plan.hint) else {
            assert!(model.free.is_empty(), "a claim fails only while no slot is free");
            return self.begin_to_drain(rig, chance);
        };
        assert!(claim.count() <= wanted);
        let slots: Vec<Slot> = (0..claim.count()).map(|rank| Slot(claim.item(rank))).collect();
        for slot in &slots {
            assert!(model.free.remove(&slot.0), "a slot is claimed only while it is free");
        }
        self.claim = Some(claim);
        self.begin_batch(slots);
    }

    /// Claims one more slot for the chain that was counted, or drains, with those that it has.
    fn gather(&mut self, rig: &Rig, model: &mut Model, chance: &mut Chance) {
        let Some(claim) = rig.queue.claim(1, self.plan.hint) else {
            assert!(model.free.is_empty(), "a claim fails only while no slot is free");
            return self.begin_to_drain(rig, chance);
        };
        let slot = Slot(claim.item(0));
        assert!(model.free.remove(&slot.0), "a slot is claimed only while it is free");
        self.gathered.push(slot);
        if self.gathered.len() == self.links as usize {
            let slots = std::mem::take(&mut self.gathered);
            self.begin_batch(slots);
        }
    }

    fn begin_batch(&mut self, slots: Vec<Slot>) {
        self.plan.operations -= u32::try_from(slots.len()).expect("at most 64");
        self.lanes = slots
            .into_iter()
            .map(|slot| Lane { slot, operation: None, filled: false, done: false })
            .collect();
        self.phase = Phase::Arm;
    }

    fn arm(&mut self, rig: &Rig, model: &mut Model, chance: &mut Chance) {
        if let Some(index) = chance.index_where(&self.lanes, |lane| lane.operation.is_none()) {
            let lane = &mut self.lanes[index];
            // SAFETY:
            // - a slot of the warp's claim, this lane's alone, whose last operation is done
            let operation = unsafe { rig.queue.arm(lane.slot) };
            let before = model.armed.insert(lane.slot.0, operation);
            let before = before.map_or(rig.shape.generation, |former| former.generation);
            let expected = if before == super::GENERATIONS { 1 } else { before + 1 };
            assert_eq!(operation, Operation { slot: lane.slot, generation: expected });
            assert_eq!(rig.queue.outcome(operation), Outcome::InFlight);
            lane.operation = Some(operation);
            return;
        }
        // SAFETY:
        // - the slots were claimed for this batch, which is filled and committed below, with nothing between that could fail
        let batch = unsafe { rig.queue.reserve(u32::try_from(self.lanes.len()).expect("at most 64")) };
        let ticket = batch.first();
        // Who draws while nobody else is between drawing and committing as the publisher.
        model.publisher.get_or_insert(ticket.0);
        let drawn = u32::try_from(model.operations.len()).expect("few operations");
        assert_eq!(ticket, Ticket(rig.shape.first_ticket).plus(drawn), "tickets are drawn in order");
        let always = chance.once_in(3);
        for (rank, lane) in (0..).zip(&self.lanes) {
            let operation = lane.operation.expect("armed");
            let sqe = sqe_of(operation, ticket.plus(rank));
            let sqe = if rank + 1 < self.links { sqe.with_next(always) } else { sqe };
            let other = model.by_token.insert(operation.token(), model.operations.len());
            assert!(other.is_none(), "a token stands for one operation");
            model.operations.push(Known { operation, sqe, stage: Stage::Reserved, res: 0 });
        }
        self.phase = Phase::Fill(batch);
    }

    fn fill(&mut self, rig: &Rig, model: &mut Model, chance: &mut Chance, batch: Batch) {
        let ticket = batch.first();
        let rank_of = |index| ticket.plus(u32::try_from(index).expect("at most 64"));
        if let Some(index) = chance.index_where(&self.lanes, |lane| !lane.filled) {
            let known = model.of_ticket(rank_of(index).0);
            // SAFETY:
            // - the ticket is this lane's, drawn and not committed
            unsafe { rig.queue.fill(rank_of(index), known.sqe) };
            known.stage = Stage::Filled;
            self.lanes[index].filled = true;
            self.phase = Phase::Fill(batch);
            return;
        }
        // For the model first: the commit may publish at once.
        (0..self.lanes.len()).for_each(|index| model.of_ticket(rank_of(index).0).stage = Stage::Committed);
        // SAFETY:
        // - drawn by this warp, which commits it here alone, and each ticket has been filled
        unsafe { rig.queue.commit(batch) };
        if model.publisher == Some(ticket.0) {
            model.publisher = None;
        }
        self.phase = Phase::Wait;
    }

    fn wait(&mut self, rig: &Rig, model: &mut Model, chance: &mut Chance) {
        let Some(index) = chance.index_where(&self.lanes, |lane| !lane.done) else {
            return self.end_batch(rig, model, chance);
        };
        if chance.once_in(3) {
            return self.begin_to_drain(rig, chance);
        }
        if self.plan.starts && self.links == 0 && chance.once_in(4) && self.leave(rig) {
            return;
        }
        let operation = self.lanes[index].operation.expect("armed");
        let outcome = rig.queue.outcome(operation);
        assert_eq!(outcome, model.outcome(operation));
        assert_ne!(outcome, Outcome::Stale, "a slot is its operation's until it is released");
        self.lanes[index].done = outcome != Outcome::InFlight;
    }

    /// Leaves what is in flight in its slots, if so many more may be, and gives the other slots back; whether it did.
    fn leave(&mut self, rig: &Rig) -> bool {
        let going_on: Vec<Operation> =
            self.lanes.iter().filter(|lane| !lane.done).map(|lane| lane.operation.expect("armed")).collect();
        let wanted = u32::try_from(going_on.len()).expect("at most 64");
        let admitted = rig.queue.begin_waits(wanted);
        if admitted < wanted {
            assert_eq!(rig.queue.begin_waits(1), 0, "fewer are admitted only where no more may be in flight");
            rig.queue.end_waits(admitted);
            return false;
        }
        let claim = self.claim.take().expect("claimed").into_claim();
        let bits = going_on.iter().fold(claim.bits, |bits, left| bits & !Claim::single(left.slot.0).bits);
        self.left.extend(going_on);
        self.phase = match bits {
            // SAFETY:
            // - the part of the warp's claim whose operations are done
            bits if bits != 0 => Phase::Release(unsafe { SlotClaim::from_claim(Claim { bits, ..claim }) }),
            _ if self.plan.operations == 0 => Phase::Finished,
            _ => Phase::Claim,
        };
        true
    }

    /// Takes the result of one of the operations that were left, if it is there, or drains.
    fn look_at_left(&mut self, rig: &Rig, model: &mut Model, chance: &mut Chance) {
        let index = chance.below(self.left.len());
        let operation = self.left[index];
        let outcome = rig.queue.outcome(operation);
        assert_eq!(outcome, model.outcome(operation), "of an operation that was left in flight");
        assert_ne!(outcome, Outcome::Stale, "its slot is its own until its result is taken");
        if outcome == Outcome::InFlight {
            return self.begin_to_drain(rig, chance);
        }
        self.left.swap_remove(index);
        // SAFETY:
        // - claimed by this warp, and complete; released here alone
        rig.queue.release(unsafe { SlotClaim::of(operation) });
        assert!(model.free.insert(operation.slot.0), "a slot is released once");
        rig.queue.end_wait();
    }

    /// Goes on in the same slots, or gives them back.
    fn end_batch(&mut self, rig: &Rig, model: &mut Model, chance: &mut Chance) {
        self.former = self.lanes[chance.below(self.lanes.len())].operation;
        if self.links > 0 {
            for operation in self.lanes.iter().filter_map(|lane| lane.operation) {
                // SAFETY:
                // - claimed by this warp, and complete; released here alone
                rig.queue.release(unsafe { SlotClaim::of(operation) });
                assert!(model.free.insert(operation.slot.0), "a slot is released once");
            }
            rig.queue.end_waits(std::mem::take(&mut self.links));
            self.phase = if self.plan.operations == 0 { Phase::Finished } else { Phase::Claim };
            return;
        }
        if self.plan.keeps && self.plan.operations as usize >= self.lanes.len() && !chance.once_in(4) {
            return self.begin_batch(self.lanes.iter().map(|lane| lane.slot).collect());
        }
        self.phase = Phase::Release(self.claim.take().expect("claimed"));
    }

    /// Gives everything left of a claim back, or one item of it.
    fn release(&mut self, rig: &Rig, model: &mut Model, chance: &mut Chance, claim: SlotClaim) {
        let rank = u32::try_from(chance.below(claim.count() as usize)).expect("below 64");
        let single = chance.once_in(3);
        let claim = claim.into_claim();
        let part = if single { Claim::single(claim.item(rank)) } else { claim };
        // SAFETY:
        // - a part of the warp's claim, whose operations are done; the rest is kept below
        rig.queue.release(unsafe { SlotClaim::from_claim(part) });
        model.free.extend((0..part.count()).map(|rank| part.item(rank)));
        self.phase = match claim.bits ^ part.bits {
            // SAFETY:
            // - what was not released
            bits if bits != 0 => Phase::Release(unsafe { SlotClaim::from_claim(Claim { bits, ..claim }) }),
            _ if self.plan.operations == 0 => Phase::Finished,
            _ => Phase::Claim,
        };
    }

    fn begin_to_drain(&mut self, rig: &Rig, chance: &mut Chance) {
        let most = u32::try_from(chance.below(self.plan.width as usize)).expect("below 64") + 1;
        self.draining = rig.queue.begin_drain(most).map(|drain| {
            assert!((1..=most).contains(&drain.count()));
            let copies = (0..drain.count()).map(|_| Copied::Not).collect();
            Draining { drain: Some(drain), copies, advanced: false }
        });
    }

    fn go_on_draining(&mut self, rig: &Rig, model: &mut Model, chance: &mut Chance) {
        let draining = self.draining.as_mut().expect("draining");
        assert!(draining.drain.is_none() || rig.queue.begin_drain(1).is_none(), "one polls at a time");
        let copied = chance.index_where(&draining.copies, |copy| matches!(copy, Copied::Not));
        let kept = |copy: &Copied| matches!(copy, Copied::Yes(_));
        // The leader ends the drain when it has delivered its own, whatever others still have to deliver.
        if draining.advanced && draining.drain.is_some() && chance.below(3) == 0 {
            end_drain(rig, draining.drain.take());
        } else if let Some(index) = copied {
            let drain = draining.drain.as_ref().expect("not ended before all is copied");
            let copy = rig.queue.entry(drain, u32::try_from(index).expect("below 64"));
            let at = drain.head().wrapping_add(u32::try_from(index).expect("below 64"));
            let posted =
                model.completions.remove(&at).expect("a completion is copied once, after it was posted");
            assert_eq!(copy.cqe(), posted, "a completion is copied as it was posted");
            draining.copies[index] = Copied::Yes(copy);
        } else if !draining.advanced {
            let drain = draining.drain.as_ref().expect("not ended before it is advanced");
            // SAFETY:
            // - every entry was copied
            unsafe { rig.queue.advance(drain) };
            draining.advanced = true;
        } else if let Some(index) = chance.index_where(&draining.copies, kept) {
            if let Copied::Yes(copy) = std::mem::replace(&mut draining.copies[index], Copied::Delivered) {
                deliver(rig, model, copy);
            }
        } else {
            end_drain(rig, draining.drain.take());
            self.draining = None;
        }
    }
}

/// Ends a drain that was advanced, if it has not ended.
fn end_drain(rig: &Rig, drain: Option<Drain>) {
    if let Some(drain) = drain {
        // No completion: the fence is what ends it.
        let [] = rig.queue.deliver_all(&[]);
        // SAFETY:
        // - advanced, and delivered by this thread
        unsafe { rig.queue.end_drain(drain) };
    }
}

/// The first completion of an operation is delivered and no other. Which of two in one drain is first, the lanes decide.
fn deliver(rig: &Rig, model: &mut Model, completion: Completion) {
    let cqe = completion.cqe();
    let known = model.by_token.get(&cqe.user_data).map(|index| &mut model.operations[*index]);
    let expected = match known.filter(|known| known.stage == Stage::Posted) {
        Some(known) => {
            assert_eq!(cqe.res, known.res);
            known.stage = Stage::Delivered;
            Delivery::Delivered
        }
        None => Delivery::Stale,
    };
    assert_eq!(rig.queue.deliver(completion), expected, "of {cqe:?}");
    if expected == Delivery::Delivered {
        let operation = Operation::from_token(cqe.user_data & !Operation::JOURNALED);
        let result = completion.result_of(operation).map(Outcome::Done);
        assert_eq!(result, Some(rig.queue.outcome(operation)), "known without a look");
        let next = Operation { generation: operation.generation + 1, ..operation };
        assert_eq!(completion.result_of(next), None, "of another operation");
    }
    model.drained += 1;
    model.stale += u64::from(expected == Delivery::Stale);
}
