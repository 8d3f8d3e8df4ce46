//! The CPU-lane runtime: every warp operation against a model, divergence, both schedulers, failures.
//!
//! | file | what |
//! |---|---|
//! | `model.rs` | the naive model of the collectives, and one call of the runtime compared with it |
//! | `operations.rs` | collectives and groups of calling lanes |
//! | `programs.rs` | random programs over nested subsets |
//! | `schedules.rs` | seeds, naps, and lanes, warps and blocks that wait for each other |
//! | `failures.rs` | panics, broken rules, bad options |
//! | `launches.rs` | launches side by side, spawned, large |
//!
//! What the runtime costs is measured by `cargo bench -p gpufs-bench --bench cpu_lanes`.

mod failures;
mod launches;
mod model;
mod operations;
mod programs;
mod schedules;

use gpufs_core::lanes::{Collective, Position, runtime};
use gpufs_device::calling;
use gpufs_device::warp::{LaneMask, Lanes, Machine, Warp, position};
use gpufs_host::cpu::{CpuOptions, Grid, LaunchError, Schedule};

/// A good mixing of numbers, for values that are nowhere stored.
pub(crate) fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x1234_5678_9ABC_DEF1, |hash, &part| {
        let hash = (hash ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^ (hash >> 29)
    })
}

/// The `rank`-th lane of `mask`, counted round and round.
pub(crate) fn nth_lane(mask: u64, rank: u64) -> u32 {
    let rank = rank % u64::from(mask.count_ones());
    LaneMask(mask).iter().nth(usize::try_from(rank).unwrap()).unwrap()
}

pub(crate) fn warp_of(width: u32, schedule: Schedule) -> CpuOptions {
    CpuOptions { width, schedule, ..CpuOptions::default() }
}

pub(crate) const fn grid(blocks: u32, threads: u32) -> Grid {
    Grid { blocks, threads }
}

/// The mask of the caller's warp, partial or not.
pub(crate) fn whole_warp() -> u64 {
    let Position { thread, block_threads, .. } = position();
    let width = Machine::width();
    let lanes = width.min(block_threads - thread / width * width);
    u64::MAX >> (64 - lanes)
}

/// What lanes do together that have not met in any call.
#[expect(unsafe_code, reason = "the runtime itself is tested")]
pub(crate) fn collective(mask: u64, what: Collective, value: u64, argument: u32) -> u64 {
    // SAFETY:
    // - these lanes make no calls of the device's library
    unsafe { (runtime().collective)(mask, 0, what, value, argument) }
}

/// A divergent call.
#[expect(clippy::if_same_then_else, reason = "the same call at two places is what the tests are about")]
pub(crate) fn one_of_two_places(first: bool) -> Lanes {
    if first { calling!() } else { calling!() }
}

/// Every schedule that a test of meaning should hold under.
pub(crate) fn schedules() -> impl Iterator<Item = Schedule> {
    std::iter::once(Schedule::Fast).chain((0..12).map(Schedule::Seeded))
}

/// Block, thread and message of a lane's panic.
pub(crate) fn panic_of(result: Result<(), LaunchError>) -> (u32, u32, String) {
    match result {
        Err(LaunchError::Panicked { block, thread, message }) => (block, thread, message),
        other => panic!("expected a lane's panic, got {other:?}"),
    }
}

pub(crate) fn message_of(result: Result<(), LaunchError>) -> String {
    panic_of(result).2
}
