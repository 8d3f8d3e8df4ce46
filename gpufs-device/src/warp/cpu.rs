//! CPU lanes: each operation calls the lane runtime that `gpufs-host` installed (`gpufs_core::lanes`).
#![expect(unsafe_code, reason = "the runtime trusts the lanes' meeting")]

use gpufs_core::lanes::{Collective, Position, runtime};

use super::{Collectives, LaneMask, Warp};

/// Lanes, and the meeting in which they found each other: two calls of the same lanes are two meetings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    pub(super) mask: LaneMask,
    meeting: u64,
}

impl Met {
    /// Those of the lanes that are in `mask`.
    #[inline]
    pub(super) const fn part(self, mask: LaneMask) -> Self {
        Self { mask, ..self }
    }
    /// The lowest lane.
    #[inline]
    pub(super) const fn first(self) -> u32 {
        self.mask.first()
    }
}

/// The machine that this build runs on.
#[derive(Clone, Copy, Debug)]
pub struct Machine;

impl Warp for Machine {
    const INDEPENDENT_LANES: bool = true;
    const COPIES_WORDS: bool = false;
    const POLLS_BEFORE_YIELD: u32 = 1;
    const PROGRESS_WARPS_MAX: u32 = 1;
    const NAP_OF_MANY_NS: u32 = 4_000;

    #[inline]
    fn width() -> u32 {
        (runtime().width)()
    }
    #[inline]
    fn lane() -> u32 {
        (runtime().lane)()
    }
    #[inline]
    fn nap(nanoseconds: u32) {
        (runtime().nap)(nanoseconds);
    }
    #[inline]
    fn clock() -> u64 {
        (runtime().clock)()
    }
    #[inline]
    fn is_host() -> bool {
        !(runtime().on_lane)()
    }
    #[inline]
    fn launch() -> u64 {
        (runtime().launch)()
    }
    #[inline]
    fn is_private(_: u64) -> bool {
        // Lanes are fibers of one process.
        false
    }
}

impl Collectives for Machine {
    #[inline]
    fn calling(call: usize) -> Met {
        let mask = LaneMask((runtime().calling)(call));
        Met { mask, meeting: (runtime().meeting)() }
    }
    #[inline]
    fn ballot(lanes: Met, predicate: bool) -> LaneMask {
        LaneMask(collective(lanes, Collective::Ballot, u64::from(predicate), 0))
    }
    #[inline]
    fn shuffle(lanes: Met, value: u64, from: u32) -> u64 {
        collective(lanes, Collective::Shuffle, value, from)
    }
    #[inline]
    fn broadcast(lanes: Met, value: u64, from: u32) -> u64 {
        collective(lanes, Collective::Broadcast, value, from)
    }
    #[inline]
    fn scan(lanes: Met, value: u64) -> u64 {
        collective(lanes, Collective::Scan, value, 0)
    }
    #[inline]
    fn sync(lanes: Met) {
        collective(lanes, Collective::Sync, 0, 0);
    }
}

/// What lanes of one meeting do together.
#[inline]
fn collective(lanes: Met, what: Collective, value: u64, argument: u32) -> u64 {
    // SAFETY:
    // - only `calling` makes a `Met`
    unsafe { (runtime().collective)(lanes.mask.0, lanes.meeting, what, value, argument) }
}

/// Where the calling thread stands in its launch.
#[inline]
pub(super) fn position() -> Position {
    (runtime().position)()
}
