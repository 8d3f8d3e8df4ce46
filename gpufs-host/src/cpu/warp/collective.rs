//! Collectives: the rendezvous of lanes that a mask names, its rules, and its results.

use std::cell::Cell;
use std::panic;

use gpufs_core::lanes::Collective;

use super::sets::{LaneSet, Names, lanes_of};
use super::{LaneState, Warp, WarpBroken};

/// An incomplete collective, at the index of the lane that came first. A lane waits in one group at most, so no other is there.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) mask: Cell<u64>,
    /// The meeting of its lanes: two groups of the same lanes differ in it.
    pub(super) meeting: Cell<u64>,
    /// The lanes of the mask that have called.
    pub(super) arrived: LaneSet,
    pub(super) what: Cell<Collective>,
    /// The source of a broadcast.
    pub(super) source: Cell<u32>,
}

impl Warp {
    /// `LaneRuntime::collective`.
    #[inline]
    pub(in crate::cpu) fn collective(
        &self,
        lane: u32,
        (mask, meeting): (u64, u64),
        what: Collective,
        value: u64,
        argument: u32,
    ) -> u64 {
        // A lane by itself meets nobody. A wrong source is for the others' way to find.
        let has_own_source = argument == lane || !matches!(what, Collective::Shuffle | Collective::Broadcast);
        if mask == 1 << lane && has_own_source && !self.preempts && !self.is_unwinding(lane) {
            return alone(lane, what, value);
        }
        self.with_others(lane, (mask, meeting), what, value, argument)
    }

    /// The same, where lanes wait for each other. Apart from the way of one lane, whose calls are many and short.
    #[inline(never)]
    fn with_others(
        &self,
        lane: u32,
        (mask, meeting): (u64, u64),
        what: Collective,
        value: u64,
        argument: u32,
    ) -> u64 {
        if self.is_unwinding(lane) {
            self.unwind_on(lane);
            return alone(lane, what, value);
        }
        self.preempt(lane);
        let leader = self.join(lane, (mask, meeting), what, argument);
        let group = &self.groups[leader as usize & 63];
        let state = self.state(lane);
        state.value.set(value);
        state.argument.set(argument);
        group.arrived.insert(1 << lane);
        if group.arrived.mask() == mask {
            self.complete(group);
            self.open.remove(1 << leader);
            self.waiting.remove(mask);
            self.ready.insert(mask & !(1 << lane));
            self.preempt(lane);
        } else {
            self.waiting.insert(1 << lane);
            self.suspend(lane);
        }
        state.result.get()
    }

    /// The first lane of the group that `lane` joins with this call: itself, if the group is new.
    ///
    /// # Panics
    /// If the call breaks a rule of collectives.
    #[inline]
    fn join(&self, lane: u32, (mask, meeting): (u64, u64), what: Collective, argument: u32) -> u32 {
        let bit = 1 << lane;
        let is_of_them = |lane: u32| lane < 64 && mask >> lane & 1 == 1;
        let leader = lanes_of(self.open.mask() & mask).find(|&leader| {
            let group = &self.groups[leader as usize];
            group.mask.get() == mask && group.meeting.get() == meeting
        });
        let (agrees, missed) = leader.map_or((true, mask & !bit), |leader| {
            let group = &self.groups[leader as usize];
            let agrees =
                group.what.get() == what && (what != Collective::Broadcast || group.source.get() == argument);
            (agrees, mask & !bit & !group.arrived.mask())
        });
        let has_source = match what {
            Collective::Ballot | Collective::Scan | Collective::Sync => true,
            Collective::Shuffle | Collective::Broadcast => is_of_them(argument),
        };
        if !is_of_them(lane)
            || mask & !self.live.mask() != 0
            || !agrees
            || !has_source
            || self.blocks(mask & !missed, missed).is_some()
        {
            self.reject(lane, (mask, meeting), what, argument);
        }
        leader.unwrap_or_else(|| {
            let group = &self.groups[lane as usize & 63];
            group.mask.set(mask);
            group.meeting.set(meeting);
            group.arrived.take();
            group.what.set(what);
            group.source.set(argument);
            self.open.insert(bit);
            lane
        })
    }

    /// A group whose lanes wait for some of `waiters`, if `waiters` in turn wait for it: they wait for `missed`, and so perhaps for other
    /// groups between.
    #[inline]
    fn blocks(&self, waiters: u64, missed: u64) -> Option<&Group> {
        if missed & self.waiting.mask() == 0 { None } else { self.find_blocking(waiters, missed) }
    }

    #[cold]
    fn find_blocking(&self, waiters: u64, missed: u64) -> Option<&Group> {
        let mut awaited = missed;
        loop {
            let before = awaited;
            for leader in lanes_of(self.open.mask()) {
                let group = &self.groups[leader as usize];
                let arrived = group.arrived.mask();
                if arrived & awaited != 0 {
                    awaited |= group.mask.get() & !arrived;
                    if awaited & waiters != 0 {
                        return Some(group);
                    }
                }
            }
            if awaited == before {
                return None;
            }
        }
    }

    /// Leaves each lane of `group`, which is complete, its result.
    #[inline]
    fn complete(&self, group: &Group) {
        let mask = group.mask.get();
        match group.what.get() {
            Collective::Ballot => {
                let votes = lanes_of(mask)
                    .filter(|&lane| self.state(lane).value.get() != 0)
                    .fold(0, |votes, lane| votes | 1 << lane);
                self.deliver(mask, |_| votes);
            }
            Collective::Shuffle => {
                self.deliver(mask, |state| self.state(state.argument.get()).value.get());
            }
            Collective::Broadcast => {
                let value = self.state(group.source.get()).value.get();
                self.deliver(mask, |_| value);
            }
            Collective::Scan => {
                let mut sum = 0_u64;
                self.deliver(mask, |state| {
                    let below = sum;
                    sum = sum.wrapping_add(state.value.get());
                    below
                });
            }
            Collective::Sync => self.deliver(mask, |_| 0),
        }
    }

    /// Leaves each lane of `mask`, in ascending order, its `result`.
    #[inline]
    pub(super) fn deliver(&self, mask: u64, mut result: impl FnMut(&LaneState) -> u64) {
        for lane in lanes_of(mask) {
            let state = self.state(lane);
            state.result.set(result(state));
        }
    }

    /// Panics with the rule of collectives that a call broke.
    #[cold]
    #[inline(never)]
    fn reject(&self, lane: u32, (mask, meeting): (u64, u64), what: Collective, argument: u32) -> ! {
        let lanes = Names(mask);
        let call = format!("lane {lane} called {what:?} for lanes {lanes}");
        let gone = mask & !self.live.mask();
        if mask >> lane & 1 == 0 {
            panic!("{call}, of which it is none");
        }
        if gone != 0 && self.broken.get() {
            // A lane that panicked is missing; its own message is the one to read.
            panic::resume_unwind(Box::new(WarpBroken));
        }
        if gone != 0 {
            panic!("{call}, of which {} ended or never existed", Names(gone));
        }
        let is_same = |group: &Group| group.mask.get() == mask && group.meeting.get() == meeting;
        let same = self.open_groups().find(|(_, group)| is_same(group)).map(|(_, group)| group);
        let arrived = same.map_or(0, |group| group.arrived.mask());
        if let Some(group) = same {
            let (other, waiting) = (group.what.get(), Names(arrived));
            if other != what {
                panic!("{call} while lanes {waiting} wait in {other:?} for the same lanes");
            }
            if what == Collective::Broadcast && group.source.get() != argument {
                let source = group.source.get();
                panic!("{call} from lane {argument} while lanes {waiting} wait in it from lane {source}");
            }
        }
        let waiters = arrived | 1 << lane;
        if let Some(group) = self.blocks(waiters, mask & !waiters) {
            let (other, waiting, others) = (group.what.get(), group.arrived.mask(), group.mask.get());
            let apart = if others == mask { " in another call" } else { "" };
            let (waiting, others) = (Names(waiting), Names(others));
            panic!(
                "{call} while lanes {waiting} wait in {other:?} for lanes {others}{apart}: neither can end"
            );
        }
        panic!("{call} from lane {argument}, which is none of them");
    }

    /// The incomplete groups, with the lanes that came first.
    pub(super) fn open_groups(&self) -> impl Iterator<Item = (u32, &Group)> {
        lanes_of(self.open.mask()).map(|leader| (leader, &self.groups[leader as usize]))
    }
}

/// The result of a collective of one lane.
fn alone(lane: u32, what: Collective, value: u64) -> u64 {
    match what {
        Collective::Ballot => u64::from(value != 0) << lane,
        Collective::Shuffle | Collective::Broadcast => value,
        Collective::Scan | Collective::Sync => 0,
    }
}
