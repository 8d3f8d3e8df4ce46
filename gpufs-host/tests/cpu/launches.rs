//! Launches beside each other, inside each other, and of more lanes than have stacks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gpufs_device::calling;
use gpufs_device::warp::{Machine, Warp, nap};
use gpufs_host::cpu::{CpuOptions, Schedule, launch, spawn};

use crate::{grid, message_of, warp_of};

#[test]
fn a_spawned_launch_runs_beside_its_owner() {
    static GO: AtomicBool = AtomicBool::new(false);
    let launched = spawn(grid(2, 64), &CpuOptions::default(), || {
        while !GO.load(Ordering::Acquire) {
            nap(1_000);
        }
    })
    .unwrap();
    assert!(!launched.is_finished());
    GO.store(true, Ordering::Release);
    launched.join().unwrap();
    let launched = spawn(grid(1, 1), &CpuOptions::default(), || panic!("there")).unwrap();
    while !launched.is_finished() {
        std::thread::yield_now();
    }
    assert_eq!(message_of(launched.join()), "there");
}

#[test]
fn launches_run_side_by_side_and_inside_each_other() {
    let total = AtomicUsize::new(0);
    let kernel = || {
        let lanes = calling!();
        let count = lanes.from_leader(u64::from(lanes.count()));
        assert_eq!(count, u64::from(lanes.count()));
        total.fetch_add(1, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for width in [32, 64] {
            scope.spawn(move || {
                for _ in 0..20 {
                    launch(grid(8, 100), &warp_of(width, Schedule::Fast), kernel).unwrap();
                }
            });
        }
    });
    assert_eq!(total.swap(0, Ordering::Relaxed), 2 * 20 * 800);
    launch(grid(1, 2), &CpuOptions::default(), || {
        launch(grid(2, 33), &CpuOptions::default(), kernel).unwrap();
        assert_eq!(Machine::width(), 32);
    })
    .unwrap();
    assert_eq!(total.into_inner(), 2 * 66);
}

#[test]
fn a_million_lanes() {
    let total = AtomicUsize::new(0);
    launch(grid(4_000, 250), &CpuOptions::default(), || {
        let lanes = calling!();
        let sum = lanes.scan(1) + 1;
        if u64::from(lanes.count()) == sum {
            total.fetch_add(lanes.count() as usize, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert_eq!(total.into_inner(), 1_000_000);
}

#[test]
fn more_waiting_lanes_than_stacks_are_kept() {
    let options = CpuOptions { resident_warps: 400, ..CpuOptions::default() };
    for _ in 0..2 {
        let ended = AtomicUsize::new(0);
        launch(grid(300, 64), &options, || {
            (0..20).for_each(|_| nap(100));
            ended.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        assert_eq!(ended.into_inner(), 300 * 64);
    }
}
