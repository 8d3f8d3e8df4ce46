//! Positions, collectives of a whole warp and of parts of it, and groups of lanes that call together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpufs_core::lanes::Collective;
use gpufs_device::calling;
use gpufs_device::warp::{LaneMask, Lanes, Machine, Warp, nap, position};
use gpufs_host::cpu::{Schedule, launch};

use crate::model::{self, check_collective};
use crate::{grid, mix, one_of_two_places, schedules, warp_of, whole_warp};

#[test]
fn each_thread_runs_once_and_knows_its_place() {
    for width in [1, 2, 32, 64] {
        for threads in [1, 31, 32, 33, 64, 100] {
            for schedule in [Schedule::Fast, Schedule::Seeded(7)] {
                let seen = Mutex::new(BTreeSet::new());
                launch(grid(3, threads), &warp_of(width, schedule), || {
                    let place = position();
                    assert_eq!(Machine::width(), width);
                    assert_eq!(Machine::lane(), place.thread % width);
                    assert_eq!((place.block_threads, place.grid_blocks), (threads, 3));
                    assert!(seen.lock().unwrap().insert((place.block, place.thread)));
                    nap(0);
                    assert_eq!(place, position());
                    assert_eq!(Machine::lane(), place.thread % width);
                })
                .unwrap();
                let all = (0..3).flat_map(|block| (0..threads).map(move |thread| (block, thread)));
                assert!(seen.into_inner().unwrap().into_iter().eq(all));
            }
        }
    }
}

#[test]
fn collectives_of_the_whole_warp_match_the_model() {
    for width in [1, 8, 32, 64] {
        for schedule in schedules() {
            launch(grid(2, 150), &warp_of(width, schedule), || {
                let (mask, lane) = (whole_warp(), Machine::lane());
                let warp = u64::from(position().thread / width) << 8 | u64::from(position().block);
                for round in 0..20 {
                    for what in model::ALL {
                        let tag = warp << 32 | round << 8 | what as u64;
                        check_collective(mask, what, lane, tag);
                    }
                }
            })
            .unwrap();
        }
    }
}

#[test]
fn lanes_that_call_at_one_place_come_together() {
    for width in [1, 32, 64] {
        launch(grid(2, 80), &warp_of(width, Schedule::Fast), || {
            assert_eq!(calling!().mask().0, whole_warp());
            let odd = Machine::lane() % 2 == 1;
            let half = whole_warp() & if odd { 0xAAAA_AAAA_AAAA_AAAA } else { 0x5555_5555_5555_5555 };
            // Two places at once; each gets its own half, and they meet again.
            let lanes = one_of_two_places(odd);
            assert_eq!(lanes.mask().0, half);
            assert_eq!(lanes.from_leader(u64::from(Machine::lane())), u64::from(half.trailing_zeros()));
            assert_eq!(calling!().mask().0, whole_warp());
        })
        .unwrap();
    }
}

#[test]
fn one_lane_of_a_group_leads() {
    for width in [1, 32, 64] {
        for schedule in schedules() {
            // Of which groups lanes came, and the leaders that worked.
            let (groups, led) = (Mutex::new(BTreeSet::new()), AtomicUsize::new(0));
            launch(grid(3, 80), &warp_of(width, schedule), || {
                let (lane, place) = (Machine::lane(), position());
                let lanes = one_of_two_places(lane % 2 == 1);
                groups.lock().unwrap().insert((place.block, place.thread / width, lanes.mask().0));
                let word = lanes.on_leader(|| {
                    led.fetch_add(1, Ordering::Relaxed);
                    nap(10);
                    u64::from(lane) << 32 | u64::from(lanes.count())
                });
                assert_eq!(word, u64::from(lanes.leader()) << 32 | u64::from(lanes.count()));
            })
            .unwrap();
            assert_eq!(led.into_inner(), groups.into_inner().unwrap().len(), "{width}");
        }
    }
}

#[test]
fn branches_run_different_collectives_at_the_same_time() {
    for schedule in schedules() {
        launch(grid(2, 64), &warp_of(32, schedule), || {
            let lane = Machine::lane();
            let third = |of: u32| (0..32).filter(|i| i % 3 == of).fold(0_u64, |mask, i| mask | 1 << i);
            let mask = third(lane % 3);
            for round in 0..10 {
                match lane % 3 {
                    0 => check_collective(mask, Collective::Scan, lane, round),
                    1 => {
                        for i in 0..4 {
                            check_collective(mask, Collective::Ballot, lane, round << 8 | i);
                        }
                    }
                    _ => {
                        nap(10);
                        check_collective(mask, Collective::Shuffle, lane, round);
                    }
                }
            }
            check_collective(whole_warp(), Collective::Scan, lane, 99);
        })
        .unwrap();
    }
}

#[test]
fn a_group_shares_one_mask_and_no_lane_is_in_two() {
    for schedule in schedules() {
        // The masks that the lanes of each group got, by lane.
        let groups = Mutex::new(BTreeMap::<_, BTreeMap<_, _>>::new());
        let group_count = AtomicUsize::new(0);
        launch(grid(3, 48), &warp_of(16, schedule), || {
            let lane = Machine::lane();
            for round in 0..10_u32 {
                let lanes = one_of_two_places(mix(&[round.into(), lane.into()]).is_multiple_of(3));
                let name = if lanes.is_leader() { group_count.fetch_add(1, Ordering::Relaxed) } else { 0 };
                let name = lanes.from_leader(name as u64);
                assert_eq!(groups.lock().unwrap().entry(name).or_default().insert(lane, lanes.mask()), None);
            }
        })
        .unwrap();
        let groups = groups.into_inner().unwrap();
        for lanes in groups.values() {
            let mask = LaneMask(lanes.keys().fold(0, |mask, lane| mask | 1 << lane));
            assert!(lanes.values().all(|got| *got == mask), "{mask:?}: {lanes:?}");
        }
        assert_eq!(groups.values().map(BTreeMap::len).sum::<usize>(), 3 * 48 * 10);
    }
}

#[test]
fn subsets_nest() {
    fn halve(lanes: Lanes, tag: u64) {
        let sum = lanes.scan(u64::from(lanes.lane()));
        let below = lanes.mask().iter().filter(|&other| other < lanes.lane()).map(u64::from).sum::<u64>();
        assert_eq!(sum, below);
        if lanes.count() == 1 {
            return;
        }
        let upper = mix(&[tag, lanes.lane().into()]).is_multiple_of(2);
        let chosen = lanes.ballot(upper);
        let mine = if upper { chosen } else { lanes.mask().without(chosen) };
        if mine != lanes.mask() {
            halve(lanes.subset(mine), tag * 2 + u64::from(upper));
        }
        lanes.sync();
        assert!(lanes.all(true));
    }
    for schedule in schedules() {
        launch(grid(2, 64), &warp_of(32, schedule), || {
            for tag in 1..6 {
                halve(calling!(), tag);
            }
        })
        .unwrap();
    }
}
