//! CPU lanes: each operation calls the lane runtime that `gpufs-host` installed (`gpufs_core::lanes`).

use gpufs_core::lanes::{Collective, Position, runtime};

use super::{LaneMask, Warp};

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
    fn calling(call: usize) -> LaneMask {
        LaneMask((runtime().calling)(call))
    }
    #[inline]
    fn ballot(lanes: LaneMask, predicate: bool) -> LaneMask {
        LaneMask((runtime().collective)(lanes.0, Collective::Ballot, u64::from(predicate), 0))
    }
    #[inline]
    fn shuffle(lanes: LaneMask, value: u64, from: u32) -> u64 {
        (runtime().collective)(lanes.0, Collective::Shuffle, value, from)
    }
    #[inline]
    fn broadcast(lanes: LaneMask, value: u64, from: u32) -> u64 {
        (runtime().collective)(lanes.0, Collective::Broadcast, value, from)
    }
    #[inline]
    fn scan(lanes: LaneMask, value: u64) -> u64 {
        (runtime().collective)(lanes.0, Collective::Scan, value, 0)
    }
    #[inline]
    fn sync(lanes: LaneMask) {
        (runtime().collective)(lanes.0, Collective::Sync, 0, 0);
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

/// Where the calling thread stands in its launch.
#[inline]
pub(super) fn position() -> Position {
    (runtime().position)()
}
