//! What the model knows, and the scheduler. The model is a list of operations in ticket order and what became of each.

use crate::chance::Chance;
use crate::kernel::Kernel;
use crate::rig::{Rig, Shape};
use crate::warp::Warp;
use gpufs_core::abi::{Cqe, Sqe};
use gpufs_core::{Operation, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// One warp of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarpPlan {
    /// Lanes: 1 to 64. The largest batch.
    pub(crate) width: u32,
    /// Operations it does.
    pub(crate) operations: u32,
    /// Whether it goes on in the slots that it holds instead of giving them back.
    pub(crate) keeps: bool,
    /// Whether it leaves operations in flight now and then, and goes on with others, as an asynchronous call does ([R-ASYNC-3]).
    pub(crate) starts: bool,
    /// Whether its batches are chains, where so many operations may be in flight without an end ([R-CHAIN-1]).
    pub(crate) chains: bool,
    /// Where it looks for slots first.
    pub(crate) hint: u32,
}

/// How reluctant the kernel is: each kind of step is taken once in so many of its turns. 0 is never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Temper {
    pub(crate) look: u32,
    pub(crate) read: u32,
    pub(crate) finish: u32,
    pub(crate) publish: u32,
    pub(crate) sleep: u32,
    /// Completions posted that belong to no operation in flight, at most.
    pub(crate) strays: u32,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) shape: Shape,
    pub(crate) warps: Vec<WarpPlan>,
    pub(crate) temper: Temper,
    pub(crate) seed: u64,
}

/// How far an operation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Reserved,
    Filled,
    Committed,
    Read,
    Posted,
    Delivered,
}

/// One operation; its index in the model is its ticket's distance from the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) operation: Operation,
    pub(crate) sqe: Sqe,
    pub(crate) stage: Stage,
    pub(crate) res: i32,
}

/// What the model knows.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) shape: Shape,
    /// In ticket order.
    pub(crate) operations: Vec<Known>,
    /// How many of the first are committed, when somebody last published.
    ready: u32,
    /// The first ticket of the batch whose holder is the publisher since it drew.
    pub(crate) publisher: Option<u32>,
    /// Which operation a token stands for.
    pub(crate) by_token: BTreeMap<u64, usize>,
    /// The operation armed last in each slot.
    pub(crate) armed: BTreeMap<u32, Operation>,
    pub(crate) free: BTreeSet<u32>,
    /// Completions written and not yet copied, by index.
    pub(crate) completions: BTreeMap<u32, Cqe>,
    /// Completions that were handed on.
    pub(crate) drained: u64,
    /// Completions rejected as stale.
    pub(crate) stale: u64,
}

impl Model {
    /// The index of an operation by ticket.
    pub(crate) fn of_ticket(&mut self, ticket: u32) -> &mut Known {
        let index = ticket.wrapping_sub(self.shape.first_ticket);
        self.operations.get_mut(index as usize).expect("a ticket that was never drawn")
    }
    /// The operation before a ticket.
    pub(crate) fn before(&self, ticket: u32) -> Option<Known> {
        let index = ticket.wrapping_sub(self.shape.first_ticket).checked_sub(1)?;
        Some(self.operations[index as usize])
    }
    /// What the queue must say of an operation.
    pub(crate) fn outcome(&self, operation: Operation) -> Outcome {
        if self.armed[&operation.slot.0] != operation {
            return Outcome::Stale;
        }
        match self.by_token.get(&operation.token()).map(|index| self.operations[*index]) {
            Some(Known { stage: Stage::Delivered, res, .. }) => Outcome::Done(res),
            _ => Outcome::InFlight,
        }
    }
    /// Where the tail must be while nobody is inside a commit: behind the last of the committed tickets that have no gap, unless there is
    /// a publisher, who has yet to see those committed since it drew.
    fn tail(&mut self) -> u32 {
        let seen = if self.publisher.is_some() { self.ready as usize } else { self.operations.len() };
        let rest = self.operations[..seen].iter().skip(self.ready as usize);
        self.ready += (0..)
            .zip(rest)
            .take_while(|(_, known)| known.stage >= Stage::Committed)
            .fold(0, |_, (index, _)| index + 1);
        self.shape.first_ticket.wrapping_add(self.ready)
    }
}

/// Everything that takes steps in a run.
#[derive(Debug)]
pub(crate) struct World {
    rig: Rig,
    model: Model,
    kernel: Kernel,
    warps: Vec<Warp>,
    /// The attendant's last look found the kernel asleep, and it has not yet acted on it.
    saw_sleeper: bool,
    wakes: u64,
    chance: Chance,
    turns: u64,
}

impl World {
    pub(crate) fn new(plan: &Plan) -> Self {
        let shape = plan.shape;
        let mut warps: Vec<_> = plan.warps.iter().copied().map(Warp::new).collect();
        // Every index is used at least three times.
        warps[0].add(3 * shape.sq_entries.max(shape.cq_entries));
        let rig = Rig::new(shape);
        // One slot at least is left for those that wait for their operations.
        rig.queue.limit_waits(shape.capacity / 2);
        Self {
            rig,
            model: Model {
                shape,
                operations: Vec::new(),
                ready: 0,
                publisher: None,
                by_token: BTreeMap::new(),
                armed: BTreeMap::new(),
                free: (0..shape.capacity).collect(),
                completions: BTreeMap::new(),
                drained: 0,
                stale: 0,
            },
            kernel: Kernel::new(shape, plan.temper),
            warps,
            saw_sleeper: false,
            wakes: 0,
            chance: Chance::new(plan.seed),
            turns: 0,
        }
    }

    /// Runs to the end: first by chance, then in fair rounds, which must end.
    pub(crate) fn run(&mut self) {
        let total: u64 = self.warps.iter().map(|warp| u64::from(warp.left())).sum();
        let actors = self.warps.len() + 2;
        // By chance: now and then one actor gets no turn for a while, or all of them.
        let (mut starved, mut favourite) = (0, None);
        for _ in 0..60 * total {
            if self.chance.once_in(50) {
                starved = self.chance.below(actors);
                favourite = self.chance.once_in(4).then(|| self.chance.below(actors));
            }
            let actor = favourite.unwrap_or_else(|| self.chance.below(actors));
            if actor != starved {
                self.turn(actor, false);
            }
        }
        let mut rounds = 0;
        while !self.warps.iter().all(Warp::is_finished) {
            (0..actors).for_each(|actor| self.turn(actor, true));
            rounds += 1;
            assert!(rounds <= 1000 + 100 * total, "no progress in {rounds} fair rounds: {self:#?}");
        }
        self.finish(total);
    }

    fn turn(&mut self, actor: usize, fair: bool) {
        self.turns += 1;
        if let Some(warp) = self.warps.get_mut(actor) {
            warp.step(&self.rig, &mut self.model, &mut self.chance);
        } else if actor == self.warps.len() {
            self.kernel.step(&self.rig, &mut self.model, &mut self.chance, fair);
        } else {
            self.attend();
        }
        // At once, and not when the kernel has its turn: nobody may rely on an entry that was given back.
        self.kernel.trample(&self.rig);
        self.check();
    }

    /// One step of the attendant: a look, or the wake-up that an earlier look called for.
    fn attend(&mut self) {
        if self.saw_sleeper {
            self.kernel.wake(&self.rig);
            self.wakes += 1;
        }
        self.saw_sleeper = !self.saw_sleeper && self.kernel.asks_for_wakeup(&self.rig);
    }

    /// What holds between any two steps.
    fn check(&mut self) {
        let shape = self.model.shape;
        let tail = self.rig.sq_tail().peek();
        assert_eq!(tail, self.model.tail(), "the tail stands behind the last ready ticket that has no gap");
        let unread = tail.wrapping_sub(self.kernel.head());
        assert!(unread <= shape.capacity, "{unread} unread entries");
        if let Some(last) = self.model.before(tail) {
            assert_eq!(last.sqe.flags, 0, "the tail stands inside a chain");
        }
        assert_eq!(self.rig.queue.free_slots() as usize, self.model.free.len());
        let left: usize = self.warps.iter().map(Warp::left_in_flight).sum();
        let left = left + self.warps.iter().map(Warp::counted).sum::<usize>();
        assert_eq!(self.rig.queue.waits() as usize, left, "what was left in flight is counted");
        assert!(left <= shape.capacity as usize / 2, "{left} are left in flight");
        let in_ring = self.rig.cq_tail().peek().wrapping_sub(self.rig.cq_head().peek());
        assert!(
            in_ring <= shape.cq_entries,
            "the CQ head is beyond the tail, or {in_ring} entries are in the ring"
        );
    }

    /// What holds at the end, when strays that nobody waited for are drained too.
    fn finish(&mut self, total: u64) {
        self.kernel.publish(&self.rig);
        let strays = self.model.completions.len() as u64;
        while self.rig.queue.drain_alone(3) != 0 {}
        let counters = self.rig.queue.counters();
        assert_eq!(self.rig.queue.free_slots(), self.model.shape.capacity, "every slot is free");
        assert_eq!(self.rig.queue.waits(), 0, "nothing that was left in flight is still counted");
        assert!(self.model.operations.iter().all(|known| known.stage == Stage::Delivered));
        assert_eq!(self.model.operations.len() as u64, total);
        assert_eq!(counters.operations.peek(), total);
        assert_eq!(counters.stale.peek(), self.model.stale + strays, "each stray was counted");
        assert_eq!(counters.completions.peek(), total + counters.stale.peek());
        assert_eq!(self.model.drained, total + self.model.stale);
        assert!(counters.publications.peek() <= total);
    }
}
