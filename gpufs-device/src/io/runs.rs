//! Requests of neighbouring lanes for neighbouring bytes of a file go out as one: which lanes those are. Nothing is transferred here.

use gpufs_core::abi::CURRENT_POSITION;
use gpufs_core::session::Target;

use crate::warp::{LaneMask, Lanes};

/// Where a lane's request lies in a run: requests of neighbouring lanes for neighbouring bytes of a file, which go out as one.
#[derive(Clone, Copy)]
pub(super) struct RunShare {
    /// The lane that asks for the whole run.
    pub(super) first: u32,
    /// Bytes of the run before this lane's.
    pub(super) before: u64,
    /// Bytes of the whole run; of meaning in the first lane.
    pub(super) whole: u64,
}

/// Puts the lanes' requests into runs; `next` is the target, the offset and the bytes that the lane still wants. Convergent; called by
/// `lanes`; of meaning in lanes that want something.
pub(super) fn runs(lanes: Lanes, next: Option<(Target, u64, u64)>) -> RunShare {
    let (target, offset, bytes) = next.unwrap_or((Target { fd: 0, fixed: false }, CURRENT_POSITION, 0));
    let wanting = lanes.ballot(next.is_some());
    let alone = RunShare { first: lanes.lane(), before: 0, whole: bytes };
    if wanting.count() < 2 {
        return alone;
    }
    let below = LaneMask(wanting.0 & ((1 << lanes.lane()) - 1));
    let neighbour = if below.is_empty() { lanes.lane() } else { below.last() };
    let named = u64::from(target.fd.cast_unsigned()) | u64::from(target.fixed) << 32;
    let (their_target, their_end) =
        (lanes.shuffle(named, neighbour), lanes.shuffle(offset.wrapping_add(bytes), neighbour));
    let joins = next.is_some()
        && neighbour != lanes.lane()
        && offset != CURRENT_POSITION
        && their_target == named
        && their_end == offset;
    let firsts = lanes.ballot(next.is_some() && !joins);
    if firsts == wanting {
        return alone;
    }
    // Runs are neighbours in the mask too, so a sum over all lower lanes less that of the run's first is the run's own.
    let sum = lanes.scan(bytes);
    let up_to_here = u64::MAX >> (63 - lanes.lane());
    let (mut first, mut last) = (lanes.lane(), lanes.lane());
    if next.is_some() {
        first = LaneMask(firsts.0 & up_to_here).last();
        let later = LaneMask(firsts.0 & !up_to_here);
        let run = if later.is_empty() { wanting.0 } else { wanting.0 & ((1 << later.first()) - 1) };
        last = LaneMask(run).last();
    }
    let start = lanes.shuffle(sum, first);
    let (before, whole) =
        (sum.wrapping_sub(start), lanes.shuffle(sum.wrapping_add(bytes), last).wrapping_sub(start));
    RunShare { first, before, whole }
}
