//! What a seed fixes, and what lanes, warps and blocks may wait for.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use gpufs_core::lanes::{Collective, Position, runtime};
use gpufs_device::calling;
use gpufs_device::warp::{Machine, Warp, global_thread, nap, position};
use gpufs_host::cpu::{CpuOptions, Schedule, launch};

use crate::{collective, grid, one_of_two_places, schedules, warp_of};

/// What happened in which order, with a kernel that does a little of everything.
fn trace(seed: u64) -> Vec<(u64, u32, u64)> {
    let trace = Mutex::new(Vec::new());
    let note = |what: u32, value: u64| trace.lock().unwrap().push((global_thread(), what, value));
    let options = CpuOptions { width: 16, resident_warps: 5, ..warp_of(16, Schedule::Seeded(seed)) };
    let turn = AtomicUsize::new(0);
    launch(grid(4, 40), &options, || {
        for round in 0..4 {
            let lanes = one_of_two_places((Machine::lane() + round).is_multiple_of(3));
            note(0, lanes.mask().0);
            note(1, lanes.scan(u64::from(Machine::lane())));
            nap(100);
            note(2, turn.fetch_add(1, Ordering::Relaxed) as u64);
        }
    })
    .unwrap();
    trace.into_inner().unwrap()
}

#[test]
fn a_seed_fixes_the_run() {
    let traces: Vec<_> = (0..8).map(trace).collect();
    for (seed, first) in (0..).zip(&traces) {
        assert_eq!(*first, trace(seed), "seed {seed}");
    }
    let different: BTreeSet<_> = traces.iter().collect();
    assert_eq!(different.len(), traces.len());
}

#[test]
fn seeds_split_groups_and_leave_groups_whole() {
    let sizes = Mutex::new(BTreeSet::new());
    for seed in 0..40 {
        launch(grid(1, 32), &warp_of(32, Schedule::Seeded(seed)), || {
            let count = calling!().count();
            sizes.lock().unwrap().insert(count);
        })
        .unwrap();
    }
    let sizes = sizes.into_inner().unwrap();
    assert!(sizes.contains(&1) && sizes.contains(&32) && sizes.len() > 8, "{sizes:?}");
}

#[test]
fn a_lane_waits_for_a_lane_of_its_warp() {
    for schedule in schedules() {
        let turn = AtomicUsize::new(0);
        launch(grid(1, 32), &warp_of(32, schedule), || {
            // From the last lane down to the first.
            let mine = 31 - Machine::lane() as usize;
            while turn.load(Ordering::Acquire) != mine {
                nap(100);
            }
            turn.store(mine + 1, Ordering::Release);
        })
        .unwrap();
        assert_eq!(turn.into_inner(), 32);
    }
}

#[test]
fn waiting_lanes_do_not_hold_up_those_they_wait_for() {
    for schedule in schedules() {
        let done = AtomicBool::new(false);
        launch(grid(1, 32), &warp_of(32, schedule), || {
            if Machine::lane() < 8 {
                while !done.load(Ordering::Acquire) {
                    nap(100);
                }
            } else {
                // These park for the whole warp, whose first lanes will not come.
                let lanes = calling!();
                lanes.sync();
                done.store(true, Ordering::Release);
            }
        })
        .unwrap();
    }
}

/// The lanes of a warp that came apart, in pairs that tell each other much and then nap: the last pair gets its turns, too.
#[test]
fn groups_that_nap_again_and_again_leave_turns_to_the_others() {
    for schedule in schedules() {
        let done = AtomicBool::new(false);
        launch(grid(1, 64), &warp_of(64, schedule), || {
            let lane = Machine::lane();
            let pair = 0b11 << (lane / 2 * 2);
            let talk = || (0..40).for_each(|_| assert_eq!(collective(pair, Collective::Ballot, 1, 0), pair));
            if lane >= 62 {
                talk();
                done.store(true, Ordering::Release);
            } else {
                let mut naps = 0;
                while collective(pair, Collective::Ballot, done.load(Ordering::Acquire).into(), 0) == 0 {
                    talk();
                    nap(100);
                    naps += 1;
                    assert!(naps < 10_000, "the last pair never came");
                }
            }
        })
        .unwrap();
    }
}

#[test]
fn no_site_waits_for_ever_while_others_come_again() {
    let done = AtomicBool::new(false);
    launch(grid(1, 32), &warp_of(32, Schedule::Fast), || {
        if Machine::lane() == 31 {
            let _ = calling!();
            done.store(true, Ordering::Release);
        } else {
            while !done.load(Ordering::Acquire) {
                let _ = calling!();
            }
        }
    })
    .unwrap();
}

#[test]
fn warps_of_a_block_wait_for_each_other() {
    for schedule in schedules() {
        // More warps than may be resident: a block always is.
        let options = CpuOptions { resident_warps: 1, ..warp_of(8, schedule) };
        let arrived = [const { AtomicUsize::new(0) }; 3];
        launch(grid(3, 100), &options, || {
            let Position { block, block_threads, .. } = position();
            let arrived = &arrived[block as usize];
            arrived.fetch_add(1, Ordering::AcqRel);
            while arrived.load(Ordering::Acquire) < block_threads as usize {
                nap(1_000);
            }
        })
        .unwrap();
    }
}

#[test]
fn blocks_may_wait_for_earlier_blocks() {
    let options = CpuOptions { resident_warps: 2, ..warp_of(4, Schedule::Fast) };
    let ended = AtomicUsize::new(0);
    launch(grid(50, 8), &options, || {
        while ended.load(Ordering::Acquire) < position().block as usize * 8 {
            nap(1_000);
        }
        ended.fetch_add(1, Ordering::AcqRel);
    })
    .unwrap();
}

#[test]
fn naps_on_a_thread_without_lanes_return() {
    let runtime = &runtime();
    launch(grid(1, 1), &CpuOptions::default(), || {}).unwrap();
    assert_eq!(((runtime.width)(), (runtime.lane)()), (1, 0));
    assert_eq!(calling!().mask().0, 1);
    assert!(calling!().all(true));
    nap(100);
    nap(10_000_000);
    let before = Machine::clock();
    std::thread::sleep(Duration::from_millis(2));
    assert!(Machine::clock() - before >= 2_000_000);
}
