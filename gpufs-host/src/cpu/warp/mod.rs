//! One warp's state: which lanes may run, and the rendezvous between them. What a warp operation means is decided here; who runs
//! next is not.
//!
//! A warp lives on one OS thread: its lanes and its scheduler take turns on it, so the state is plain cells. Nobody holds a
//! borrow across a suspension.
//!
//! A live lane is in exactly one of these states:
//!
//! | state | sets it is in | leaves by |
//! |---|---|---|
//! | ready | `ready` | the scheduler resumes it |
//! | napping | `napping` | the scheduler makes it ready |
//! | parked in `calling` | `parked` | the scheduler releases its group |
//! | waiting in a collective | `waiting`, and `arrived` of its group | the last lane of the group arrives |
//! | running | none | it suspends or ends |
//!
//! Masks of incomplete groups may overlap: where subsets nest, some lanes are back at the outer set while others are still in the
//! inner one. But the masks name live lanes only, and no lane waits, over however many groups, for itself. So some lane of a
//! warp with live lanes is always ready, napping, parked or running.
#![allow(unsafe_code, reason = "the yielders of suspended lanes")]

use std::cell::Cell;
use std::fmt;
use std::panic;
use std::ptr;
use std::thread;

use corosensei::Yielder;
use gpufs_core::lanes::{Collective, Position};

/// A set of lanes in a cell.
#[derive(Debug, Default)]
pub(super) struct LaneSet(Cell<u64>);

impl LaneSet {
    #[inline]
    pub(super) fn mask(&self) -> u64 {
        self.0.get()
    }
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.get() == 0
    }
    #[inline]
    pub(super) fn contains(&self, lane: u32) -> bool {
        self.0.get() >> lane & 1 == 1
    }
    #[inline]
    pub(super) fn insert(&self, lanes: u64) {
        self.0.set(self.0.get() | lanes);
    }
    #[inline]
    pub(super) fn remove(&self, lanes: u64) {
        self.0.set(self.0.get() & !lanes);
    }
    #[inline]
    pub(super) fn take(&self) -> u64 {
        self.0.take()
    }
}

/// The lanes of `mask` in ascending order.
pub(super) fn lanes_of(mask: u64) -> impl Iterator<Item = u32> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let lane = rest.trailing_zeros();
            rest &= rest - 1;
            lane
        })
    })
}

/// What the scheduler and the other lanes need to know of a lane.
#[derive(Debug)]
struct LaneState {
    /// Set when the lane starts; valid until it ends.
    yielder: Cell<*const Yielder<(), ()>>,
    /// Which call the lane's last `calling` was for.
    call: Cell<usize>,
    /// When that was, in calls of the warp.
    parked_at: Cell<u64>,
    /// What it brought to its last collective.
    value: Cell<u64>,
    argument: Cell<u32>,
    /// What whoever made it ready left for it.
    result: Cell<u64>,
}

/// An incomplete collective, kept at the index of the lane that came first. A lane waits in one group at most, so it is alone there.
#[derive(Debug)]
struct Group {
    mask: Cell<u64>,
    /// The lanes of the mask that have called.
    arrived: LaneSet,
    what: Cell<Collective>,
    /// The source of a broadcast.
    source: Cell<u32>,
}

/// One warp.
#[derive(Debug)]
pub(super) struct Warp {
    pub(super) width: u32,
    /// Whether every warp operation is a chance for other lanes to run.
    preempts: bool,
    /// Where lane 0 stands.
    origin: Cell<Position>,
    /// Lanes that have not ended.
    pub(super) live: LaneSet,
    pub(super) ready: LaneSet,
    pub(super) napping: LaneSet,
    pub(super) parked: LaneSet,
    waiting: LaneSet,
    /// The lanes that came first to the incomplete groups.
    open: LaneSet,
    /// The shortest nap asked for since the scheduler last took it.
    pub(super) nap_ns: Cell<u32>,
    /// Whether, since the scheduler last took it, a lane began a call or ended: what a lane that only waits never does.
    pub(super) progress: Cell<bool>,
    /// Whether a lane was unwound, so that what other lanes run into may be its fault.
    broken: Cell<bool>,
    /// How often lanes of the warp have parked.
    parks: Cell<u64>,
    lanes: [LaneState; 64],
    groups: [Group; 64],
}

/// The payload with which a lane unwinds that can no longer do what its warp agreed on, because another lane panicked.
#[derive(Debug)]
pub(super) struct WarpBroken;

impl Warp {
    pub(super) fn new(width: u32, preempts: bool) -> Self {
        let nowhere = Position { thread: 0, block: 0, block_threads: 1, grid_blocks: 1 };
        Self {
            width,
            preempts,
            origin: Cell::new(nowhere),
            live: LaneSet::default(),
            ready: LaneSet::default(),
            napping: LaneSet::default(),
            parked: LaneSet::default(),
            waiting: LaneSet::default(),
            open: LaneSet::default(),
            nap_ns: Cell::new(u32::MAX),
            progress: Cell::new(false),
            broken: Cell::new(false),
            parks: Cell::new(0),
            lanes: std::array::from_fn(|_| LaneState {
                yielder: Cell::new(ptr::null()),
                call: Cell::new(0),
                parked_at: Cell::new(0),
                value: Cell::new(0),
                argument: Cell::new(0),
                result: Cell::new(0),
            }),
            groups: std::array::from_fn(|_| Group {
                mask: Cell::new(0),
                arrived: LaneSet::default(),
                what: Cell::new(Collective::Sync),
                source: Cell::new(0),
            }),
        }
    }

    /// Makes this, whose lanes have all ended, the warp whose lane 0 stands at `origin` and that has `lanes` lanes.
    pub(super) fn begin(&self, origin: Position, lanes: u32) {
        debug_assert!(self.live.is_empty() && self.waiting.is_empty());
        debug_assert!(0 < lanes && lanes <= self.width);
        self.origin.set(origin);
        let all = u64::MAX >> (64 - lanes);
        self.live.insert(all);
        self.ready.insert(all);
        self.broken.set(false);
        self.parks.set(0);
    }

    /// Where `lane` stands in its launch.
    #[inline]
    pub(super) fn position(&self, lane: u32) -> Position {
        let origin = self.origin.get();
        Position { thread: origin.thread + lane, ..origin }
    }

    /// The lane's own place in the tables.
    #[inline]
    fn state(&self, lane: u32) -> &LaneState {
        // The mask is true of every lane and spares the bounds check.
        &self.lanes[lane as usize & 63]
    }

    /// Says how to suspend `lane`. Called once on the lane's fiber, before anything else there.
    pub(super) fn started(&self, lane: u32, yielder: &Yielder<(), ()>) {
        self.state(lane).yielder.set(ptr::from_ref(yielder));
    }

    /// Gives the OS thread to the scheduler until it resumes `lane`, which calls this.
    #[inline]
    fn suspend(&self, lane: u32) {
        // SAFETY:
        // - `started` set the pointer on this lane's fiber, whose root frame holds the yielder, and that frame is alive, being a
        //   caller of this
        // - the yielder is only ever used on this fiber
        unsafe { &*self.state(lane).yielder.get() }.suspend(());
    }

    /// A chance for the scheduler to run someone else.
    #[inline]
    fn preempt(&self, lane: u32) {
        if self.preempts {
            self.ready.insert(1 << lane);
            self.suspend(lane);
        }
    }

    /// Whether `lane`, which calls this, is being unwound. Such a lane no longer takes part in anything: what destructors call
    /// returns at once, as in a warp of one.
    #[inline]
    fn is_unwinding(&self, lane: u32) -> bool {
        thread::panicking() || !self.live.contains(lane)
    }

    /// What an unwinding lane does instead of waiting.
    #[cold]
    fn unwind_on(&self, lane: u32) {
        if thread::panicking() {
            thread::yield_now();
        } else {
            // The kernel caught the unwinding of a lane that has been given up: the fiber resumes it from here.
            self.suspend(lane);
        }
    }

    /// `LaneRuntime::nap`.
    #[inline]
    pub(super) fn nap(&self, lane: u32, nanoseconds: u32) {
        if self.is_unwinding(lane) {
            return self.unwind_on(lane);
        }
        self.nap_ns.set(self.nap_ns.get().min(nanoseconds));
        self.napping.insert(1 << lane);
        self.suspend(lane);
    }

    /// `LaneRuntime::calling`.
    #[inline]
    pub(super) fn calling(&self, lane: u32, call: usize) -> u64 {
        if self.is_unwinding(lane) {
            self.unwind_on(lane);
            return 1 << lane;
        }
        self.progress.set(true);
        self.preempt(lane);
        if self.live.mask() == 1 << lane {
            return 1 << lane;
        }
        let state = self.state(lane);
        state.call.set(call);
        state.parked_at.set(self.parks.replace(self.parks.get() + 1));
        self.parked.insert(1 << lane);
        self.suspend(lane);
        state.result.get()
    }

    /// The lanes parked in the same call as `lane`, which is parked.
    pub(super) fn parked_with(&self, lane: u32) -> u64 {
        let call = self.state(lane).call.get();
        lanes_of(self.parked.mask())
            .filter(|&other| self.state(other).call.get() == call)
            .fold(0, |mask, other| mask | 1 << other)
    }

    /// The parked lane that has been parked for longest.
    pub(super) fn longest_parked(&self) -> Option<u32> {
        lanes_of(self.parked.mask()).min_by_key(|&lane| self.state(lane).parked_at.get())
    }

    /// Makes `group`, lanes that are parked in one call, the lanes that call together.
    pub(super) fn release(&self, group: u64) {
        debug_assert!(group != 0 && group & !self.parked.mask() == 0);
        self.deliver(group, |_| group);
        self.parked.remove(group);
        self.ready.insert(group);
    }

    /// `LaneRuntime::collective`.
    #[inline]
    pub(super) fn collective(
        &self,
        lane: u32,
        mask: u64,
        what: Collective,
        value: u64,
        argument: u32,
    ) -> u64 {
        if self.is_unwinding(lane) {
            self.unwind_on(lane);
            return alone(lane, what, value);
        }
        self.preempt(lane);
        let leader = self.join(lane, mask, what, argument);
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

    /// The first lane of the group that `lane` belongs to with this call: itself, if it is a new one.
    ///
    /// # Panics
    /// If the call breaks a rule of collectives.
    #[inline]
    fn join(&self, lane: u32, mask: u64, what: Collective, argument: u32) -> u32 {
        let bit = 1 << lane;
        let is_of_them = |lane: u32| lane < 64 && mask >> lane & 1 == 1;
        let leader =
            lanes_of(self.open.mask() & mask).find(|&leader| self.groups[leader as usize].mask.get() == mask);
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
            self.reject(lane, mask, what, argument);
        }
        leader.unwrap_or_else(|| {
            let group = &self.groups[lane as usize & 63];
            group.mask.set(mask);
            group.arrived.take();
            group.what.set(what);
            group.source.set(argument);
            self.open.insert(bit);
            lane
        })
    }

    /// A group whose lanes wait for some of `waiters`, while `waiters` wait for them, over other groups perhaps, as `waiters`
    /// wait for `missed`.
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
    fn deliver(&self, mask: u64, mut result: impl FnMut(&LaneState) -> u64) {
        for lane in lanes_of(mask) {
            let state = self.state(lane);
            state.result.set(result(state));
        }
    }

    /// Says which rule of collectives a call broke.
    #[cold]
    #[inline(never)]
    fn reject(&self, lane: u32, mask: u64, what: Collective, argument: u32) -> ! {
        let lanes = Names(mask);
        let call = format!("lane {lane} called {what:?} for lanes {lanes}");
        let gone = mask & !self.live.mask();
        if mask >> lane & 1 == 0 {
            panic!("{call}, of which it is none");
        }
        if gone != 0 && self.broken.get() {
            // A lane that panicked is missed; its own message is the one to read.
            panic::resume_unwind(Box::new(WarpBroken));
        }
        if gone != 0 {
            panic!("{call}, of which {} ended or never existed", Names(gone));
        }
        let same = self.open_groups().find(|(_, group)| group.mask.get() == mask).map(|(_, group)| group);
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
            let (waiting, others) = (Names(waiting), Names(others));
            panic!("{call} while lanes {waiting} wait in {other:?} for lanes {others}: neither can end");
        }
        panic!("{call} from lane {argument}, which is none of them");
    }

    /// The incomplete groups, with the lanes that came first.
    fn open_groups(&self) -> impl Iterator<Item = (u32, &Group)> {
        lanes_of(self.open.mask()).map(|leader| (leader, &self.groups[leader as usize]))
    }

    /// Takes `lane`, which has returned or is given up, out of the warp. The lanes that can no longer be released, because they
    /// wait for it, have to be given up too.
    pub(super) fn end(&self, lane: u32) -> Missed {
        let bit = 1 << lane;
        for set in [&self.live, &self.ready, &self.napping, &self.parked, &self.waiting] {
            set.remove(bit);
        }
        self.progress.set(true);
        let mut missed = Missed { waiting: 0, what: Collective::Sync };
        for (leader, group) in self.open_groups().filter(|(_, group)| group.mask.get() & bit != 0) {
            self.open.remove(1 << leader);
            missed.waiting |= group.arrived.mask() & !bit;
            missed.what = group.what.get();
        }
        missed
    }

    /// Notes that a lane was unwound.
    pub(super) fn set_broken(&self) {
        self.broken.set(true);
    }
}

/// What a lane left behind when it ended.
#[derive(Debug)]
pub(super) struct Missed {
    /// The lanes that wait for it.
    pub(super) waiting: u64,
    /// In what, or in what else too.
    pub(super) what: Collective,
}

/// The result of a collective of one lane.
fn alone(lane: u32, what: Collective, value: u64) -> u64 {
    match what {
        Collective::Ballot => u64::from(value != 0) << lane,
        Collective::Shuffle | Collective::Broadcast => value,
        Collective::Scan | Collective::Sync => 0,
    }
}

/// Lanes as people write them: `{0-3, 7}`.
#[derive(Debug)]
pub(super) struct Names(pub(super) u64);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        let mut rest = u128::from(self.0);
        while rest != 0 {
            let first = rest.trailing_zeros();
            let last = first + (rest >> first).trailing_ones() - 1;
            let separator = if u128::from(self.0).trailing_zeros() == first { "" } else { ", " };
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            rest &= u128::MAX << (last + 1);
        }
        f.write_str("}")
    }
}
