//! One warp's state: which lanes may run, and the rendezvous between them. In this folder: the states of lanes (`mod.rs`), collectives
//! (`collective.rs`) and sets of lanes (`sets.rs`). The meaning of a warp operation is decided here; which lane runs next is the
//! scheduler's decision (`fast.rs`, `seeded.rs`).
//!
//! A warp lives on one OS thread: its lanes and its scheduler take turns on it, so the state is plain cells. No code holds a
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
#![expect(unsafe_code, reason = "the yielders of suspended lanes")]

mod collective;
mod sets;

use std::cell::Cell;
use std::ptr;
use std::thread;

use corosensei::Yielder;
use gpufs_core::lanes::{Collective, Position};

use collective::Group;
pub(super) use sets::{LaneSet, Names, lanes_of};

/// What the scheduler and the other lanes need to know of a lane.
#[derive(Debug)]
struct LaneState {
    /// Set when the lane starts; valid until it ends.
    yielder: Cell<*const Yielder<(), ()>>,
    /// Which call the lane's last `calling` was for.
    call: Cell<usize>,
    /// When that was, in calls of the warp.
    parked_at: Cell<u64>,
    /// Its operands of the last collective.
    value: Cell<u64>,
    argument: Cell<u32>,
    /// The meeting in which that put it.
    meeting: Cell<u64>,
    /// The result of its call, left by the lane or scheduler that made it ready.
    result: Cell<u64>,
    /// C's `errno` of the lane, while another lane has the OS thread.
    errno: Cell<i32>,
}

/// One warp.
#[derive(Debug)]
pub(super) struct Warp {
    pub(super) width: u32,
    /// Whether every warp operation is a chance for other lanes to run.
    preempts: bool,
    /// Where lane 0 stands.
    origin: Cell<Position>,
    /// The number of its launch.
    launch: u32,
    /// The session whose launch it is, or 0.
    session: u64,
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
    /// Groups of calling lanes so far, of all warps that this has been.
    meetings: Cell<u64>,
    lanes: [LaneState; 64],
    groups: [Group; 64],
}

/// The payload with which a lane unwinds that can no longer do what its warp agreed on, because another lane panicked.
#[derive(Debug)]
pub(super) struct WarpBroken;

impl Warp {
    pub(super) fn new(width: u32, preempts: bool, (launch, session): (u32, u64)) -> Self {
        let nowhere = Position { thread: 0, block: 0, block_threads: 1, grid_blocks: 1 };
        Self {
            width,
            preempts,
            origin: Cell::new(nowhere),
            launch,
            session,
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
            meetings: Cell::new(0),
            lanes: std::array::from_fn(|_| LaneState {
                yielder: Cell::new(ptr::null()),
                call: Cell::new(0),
                parked_at: Cell::new(0),
                value: Cell::new(0),
                argument: Cell::new(0),
                meeting: Cell::new(0),
                result: Cell::new(0),
                errno: Cell::new(0),
            }),
            groups: std::array::from_fn(|_| Group {
                mask: Cell::new(0),
                meeting: Cell::new(0),
                arrived: LaneSet::default(),
                what: Cell::new(Collective::Sync),
                source: Cell::new(0),
            }),
        }
    }

    /// The session whose launch it is, or 0.
    pub(super) fn session(&self) -> u64 {
        self.session
    }
    /// The number of its launch.
    pub(super) fn launch(&self) -> u32 {
        self.launch
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
        // As a thread begins (C11 7.5, 3).
        for lane in lanes_of(all) {
            self.errno(lane).set(0);
        }
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

    /// Where `lane` keeps its `errno` while it does not run.
    #[inline]
    pub(super) fn errno(&self, lane: u32) -> &Cell<i32> {
        &self.state(lane).errno
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

    /// A chance for the scheduler to run another lane.
    #[inline]
    fn preempt(&self, lane: u32) {
        if self.preempts {
            self.ready.insert(1 << lane);
            self.suspend(lane);
        }
    }

    /// Whether `lane`, which calls this, is being unwound. Such a lane no longer takes part in anything: warp operations that its
    /// destructors call return at once, as in a warp of one.
    #[inline]
    fn is_unwinding(&self, lane: u32) -> bool {
        thread::panicking() || !self.live.contains(lane)
    }

    /// Replaces waiting in an unwinding lane.
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
            self.state(lane).meeting.set(self.new_meeting());
            return 1 << lane;
        }
        let state = self.state(lane);
        state.call.set(call);
        state.parked_at.set(self.parks.replace(self.parks.get() + 1));
        self.parked.insert(1 << lane);
        self.suspend(lane);
        state.result.get()
    }

    /// A number that no group of calling lanes has had.
    #[inline]
    fn new_meeting(&self) -> u64 {
        let meeting = self.meetings.get() + 1;
        self.meetings.set(meeting);
        meeting
    }

    /// `LaneRuntime::meeting`.
    pub(super) fn meeting(&self, lane: u32) -> u64 {
        self.state(lane).meeting.get()
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
        let meeting = self.new_meeting();
        self.deliver(group, |state| {
            state.meeting.set(meeting);
            group
        });
        self.parked.remove(group);
        self.ready.insert(group);
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

/// What a lane leaves when it ends.
#[derive(Debug)]
pub(super) struct Missed {
    /// The lanes that wait for it.
    pub(super) waiting: u64,
    /// In what, or in what else too.
    pub(super) what: Collective,
}
