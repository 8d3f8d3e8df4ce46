//! Lanes that panic, calls that break the rules of collectives, and options that are refused.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gpufs_core::lanes::Collective;
use gpufs_device::calling;
use gpufs_device::warp::{LaneMask, Machine, Warp, nap, position};
use gpufs_host::cpu::{CpuOptions, LaunchError, Schedule, launch, spawn};

use crate::{collective, grid, message_of, panic_of, schedules, warp_of, whole_warp};

#[test]
fn a_panic_is_reported_with_its_place_and_others_run_on() {
    for schedule in [Schedule::Fast, Schedule::Seeded(1), Schedule::Seeded(2)] {
        let ended = AtomicUsize::new(0);
        let result = launch(grid(4, 50), &warp_of(16, schedule), || {
            if (position().block, position().thread) == (2, 37) {
                panic!("lane {} has had enough", Machine::lane());
            }
            nap(100);
            ended.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(panic_of(result), (2, 37, "lane 5 has had enough".to_owned()));
        assert_eq!(ended.into_inner(), 4 * 50 - 1);
    }
}

/// Counts what was dropped.
struct Dropped<'a>(&'a AtomicUsize);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        // Destructors of an unwinding lane may use the warp; it is then a warp of one.
        nap(10);
        let _ = calling!().scan(1);
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn lanes_that_wait_for_a_panicked_lane_are_unwound() {
    for schedule in schedules() {
        let (dropped, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let result = launch(grid(2, 64), &warp_of(32, schedule), || {
            let _guard = Dropped(&dropped);
            if (position().block, position().thread) == (1, 40) {
                nap(100);
                panic!("gone");
            }
            collective(whole_warp(), Collective::Sync, 0, 0);
            ended.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(panic_of(result), (1, 40, "gone".to_owned()));
        assert_eq!((dropped.into_inner(), ended.into_inner()), (128, 96));
    }
}

#[test]
fn lanes_that_spin_for_a_panicked_lane_are_given_up() {
    for schedule in [Schedule::Fast, Schedule::Seeded(3)] {
        let dropped = AtomicUsize::new(0);
        let result = launch(grid(1, 64), &warp_of(32, schedule), || {
            let _guard = Dropped(&dropped);
            assert!(position().thread != 3, "gone");
            loop {
                nap(100);
            }
        });
        assert_eq!(panic_of(result), (0, 3, "gone".to_owned()));
        assert_eq!(dropped.into_inner(), 64);
    }
}

#[test]
fn every_lane_may_panic() {
    let result = launch(grid(2, 40), &CpuOptions::default(), || std::panic::resume_unwind(Box::new(7)));
    assert_eq!(message_of(result), "a payload that is no text");
}

#[test]
fn broken_rules_of_collectives_are_named() {
    type Call = (u64, Collective, u32);
    /// The message when lane 0 has called `first` and lane 1 then calls `second`, or when lane 0 calls alone.
    fn message(first: Option<Call>, second: Call) -> String {
        let called = AtomicBool::new(first.is_none());
        message_of(launch(grid(1, 4), &warp_of(4, Schedule::Fast), || match (Machine::lane(), first) {
            (0, Some((mask, what, argument))) => {
                called.store(true, Ordering::Release);
                collective(mask, what, 0, argument);
            }
            (1, _) => {
                while !called.load(Ordering::Acquire) {
                    nap(1);
                }
                collective(second.0, second.1, 0, second.2);
            }
            // Lane 3 ends at once; lane 2 stays until the others have met.
            (2, _) => (0..100).for_each(|_| nap(1)),
            _ => {}
        }))
    }
    use Collective::{Ballot, Broadcast, Scan, Shuffle, Sync};
    assert_eq!(
        message(None, (0b101, Ballot, 0)),
        "lane 1 called Ballot for lanes {0, 2}, of which it is none"
    );
    assert_eq!(message(None, (0, Sync, 0)), "lane 1 called Sync for lanes {}, of which it is none");
    assert_eq!(
        message(Some((0b11, Ballot, 0)), (0b11, Scan, 0)),
        "lane 1 called Scan for lanes {0-1} while lanes {0} wait in Ballot for the same lanes"
    );
    assert_eq!(
        message(Some((0b11, Ballot, 0)), (0b111, Ballot, 0)),
        "lane 1 called Ballot for lanes {0-2} while lanes {0} wait in Ballot for lanes {0-1}: neither can end"
    );
    assert_eq!(
        message(Some((0b11, Broadcast, 0)), (0b11, Broadcast, 1)),
        "lane 1 called Broadcast for lanes {0-1} from lane 1 while lanes {0} wait in it from lane 0"
    );
    assert_eq!(
        message(None, (0b110, Shuffle, 0)),
        "lane 1 called Shuffle for lanes {1-2} from lane 0, which is none of them"
    );
    assert_eq!(
        message(None, (0b110, Broadcast, 77)),
        "lane 1 called Broadcast for lanes {1-2} from lane 77, which is none of them"
    );
    assert_eq!(
        message(None, (0b1_0010, Sync, 0)),
        "lane 1 called Sync for lanes {1, 4}, of which {4} ended or never existed"
    );
    // Each waits for the next.
    let ring = message_of(launch(grid(1, 3), &warp_of(4, Schedule::Fast), || {
        let lane = Machine::lane();
        collective(1 << lane | 1 << ((lane + 1) % 3), Collective::Sync, 0, 0);
    }));
    let others = "lanes {1} wait in Sync for lanes {1-2}";
    assert_eq!(ring, format!("lane 2 called Sync for lanes {{0, 2}} while {others}: neither can end"));
    let result = launch(grid(1, 4), &warp_of(4, Schedule::Fast), || {
        if Machine::lane() != 2 {
            collective(0b1111, Collective::Ballot, 1, 0);
        }
    });
    let (block, thread, message) = panic_of(result);
    assert_eq!((block, thread), (0, 2));
    assert_eq!(message, "lane 2 ended while lanes {0-1} wait for it in Ballot");
}

/// The same lanes in two calls: a word of the one is no answer in the other.
#[test]
fn two_calls_of_the_same_lanes_do_not_meet() {
    let told = AtomicUsize::new(0);
    let message = message_of(launch(grid(1, 2), &warp_of(2, Schedule::Fast), || {
        let (first, second) = (calling!(), calling!());
        assert_eq!((first.mask(), second.mask()), (LaneMask(0b11), LaneMask(0b11)));
        let (lanes, word) = if Machine::lane() == 0 { (first, 7) } else { (second, 8) };
        told.store(usize::try_from(lanes.broadcast(word, 0_u32)).unwrap(), Ordering::Relaxed);
    }));
    let others = "lanes {0} wait in Broadcast for lanes {0-1} in another call";
    assert_eq!(message, format!("lane 1 called Broadcast for lanes {{0-1}} while {others}: neither can end"));
    assert_eq!(told.into_inner(), 0, "no lane was told anything");
}

#[test]
fn bad_options_are_named() {
    let good = CpuOptions::default();
    let try_one = |grid, options: &CpuOptions| launch(grid, options, || {}).unwrap_err();
    assert!(matches!(try_one(grid(0, 1), &good), LaunchError::EmptyGrid(_)));
    assert!(matches!(try_one(grid(1, 0), &good), LaunchError::EmptyGrid(_)));
    for width in [0, 3, 128] {
        let options = CpuOptions { width, ..good.clone() };
        assert!(matches!(try_one(grid(1, 1), &options), LaunchError::Width(w) if w == width));
    }
    let options = CpuOptions { threads: 0, ..good.clone() };
    assert!(matches!(try_one(grid(1, 1), &options), LaunchError::Threads(0)));
    let options = CpuOptions { resident_warps: 0, ..good.clone() };
    assert!(matches!(try_one(grid(1, 1), &options), LaunchError::NoResidentWarps));
    let options = CpuOptions { stack_bytes: 100, ..good };
    assert!(matches!(try_one(grid(1, 1), &options), LaunchError::StackBytes(100)));
    assert!(spawn(grid(0, 1), &CpuOptions::default(), || {}).is_err());
}
