//! The naive model of the warp operations.

use gpufs_core::lanes::Collective;

use crate::{mix, nth_lane};

pub(crate) const ALL: [Collective; 5] =
    [Collective::Ballot, Collective::Shuffle, Collective::Broadcast, Collective::Scan, Collective::Sync];

/// What lane `lane` of `mask` gets, where lane `i` brings `value(i)` and `argument(i)`.
pub(crate) fn collective(
    mask: u64,
    what: Collective,
    lane: u32,
    value: impl Fn(u32) -> u64,
    argument: impl Fn(u32) -> u32,
) -> u64 {
    let lanes = || (0..64).filter(|i| mask >> i & 1 == 1);
    match what {
        Collective::Ballot => lanes().filter(|&i| value(i) != 0).map(|i| 1 << i).sum(),
        Collective::Shuffle | Collective::Broadcast => value(argument(lane)),
        Collective::Scan => lanes().filter(|&i| i < lane).map(value).fold(0, u64::wrapping_add),
        Collective::Sync => 0,
    }
}

/// Makes one collective with values that follow from `tag`, the same in all lanes, and compares with the model.
pub(crate) fn check_collective(mask: u64, what: Collective, lane: u32, tag: u64) {
    let value = |lane: u32| {
        let value = mix(&[tag, lane.into()]);
        if what == Collective::Ballot { value & 1 } else { value }
    };
    let argument = |lane: u32| match what {
        Collective::Shuffle => nth_lane(mask, mix(&[tag, lane.into(), 1])),
        Collective::Broadcast => nth_lane(mask, mix(&[tag, 2])),
        _ => 0,
    };
    let result = crate::collective(mask, what, value(lane), argument(lane));
    assert_eq!(result, collective(mask, what, lane, value, argument), "{what:?} {mask:#x}");
}
