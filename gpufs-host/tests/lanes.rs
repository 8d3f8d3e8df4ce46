//! The CPU-lane runtime: every warp operation against a model, divergence, both schedulers, failures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gpufs_core::lanes::{Collective, Position, runtime};
use gpufs_device::calling;
use gpufs_device::warp::{LaneMask, Lanes, Machine, Warp, global_thread, nap, position};
use gpufs_host::cpu::{CpuOptions, Grid, LaunchError, Schedule, launch, spawn};
use proptest::prelude::*;

/// The naive model of the warp operations.
mod model {
    use super::Collective;

    pub(super) const ALL: [Collective; 5] =
        [Collective::Ballot, Collective::Shuffle, Collective::Broadcast, Collective::Scan, Collective::Sync];

    /// What lane `lane` of `mask` gets, where lane `i` brings `value(i)` and `argument(i)`.
    pub(super) fn collective(
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
}

/// A good mixing of numbers, for values that are nowhere stored.
fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x1234_5678_9ABC_DEF1, |hash, &part| {
        let hash = (hash ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^ (hash >> 29)
    })
}

/// The `rank`-th lane of `mask`, counted round and round.
fn nth_lane(mask: u64, rank: u64) -> u32 {
    let rank = rank % u64::from(mask.count_ones());
    LaneMask(mask).iter().nth(usize::try_from(rank).unwrap()).unwrap()
}

fn warp_of(width: u32, schedule: Schedule) -> CpuOptions {
    CpuOptions { width, schedule, ..CpuOptions::default() }
}

const fn grid(blocks: u32, threads: u32) -> Grid {
    Grid { blocks, threads }
}

/// The mask of the caller's warp, partial or not.
fn whole_warp() -> u64 {
    let Position { thread, block_threads, .. } = position();
    let width = Machine::width();
    let lanes = width.min(block_threads - thread / width * width);
    u64::MAX >> (64 - lanes)
}

/// A divergent call.
#[allow(clippy::if_same_then_else, reason = "the same call at two places is what the tests are about")]
fn one_of_two_places(first: bool) -> Lanes {
    if first { calling!() } else { calling!() }
}

/// Every schedule that a test of meaning should hold under.
fn schedules() -> impl Iterator<Item = Schedule> {
    std::iter::once(Schedule::Fast).chain((0..12).map(Schedule::Seeded))
}

/// Block, thread and message of a lane's panic.
fn panic_of(result: Result<(), LaunchError>) -> (u32, u32, String) {
    match result {
        Err(LaunchError::Panicked { block, thread, message }) => (block, thread, message),
        other => panic!("expected a lane's panic, got {other:?}"),
    }
}

fn message_of(result: Result<(), LaunchError>) -> String {
    panic_of(result).2
}

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

/// Makes one collective with values that follow from `tag`, the same in all lanes, and compares with the model.
fn check_collective(mask: u64, what: Collective, lane: u32, tag: u64) {
    let value = |lane: u32| {
        let value = mix(&[tag, lane.into()]);
        if what == Collective::Ballot { value & 1 } else { value }
    };
    let argument = |lane: u32| match what {
        Collective::Shuffle => nth_lane(mask, mix(&[tag, lane.into(), 1])),
        Collective::Broadcast => nth_lane(mask, mix(&[tag, 2])),
        _ => 0,
    };
    let result = (runtime().collective)(mask, what, value(lane), argument(lane));
    assert_eq!(result, model::collective(mask, what, lane, value, argument), "{what:?} {mask:#x}");
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

/// A tree of agreed subsets: what the lanes of a mask do, one after the other.
#[derive(Clone, Debug)]
enum Step {
    All(usize),
    Nap(u64),
    Split { seed: u64, inside: Vec<Step>, outside: Vec<Step> },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let leaf = prop_oneof![(0..5_usize).prop_map(Step::All), any::<u64>().prop_map(Step::Nap)];
    let step = leaf.prop_recursive(4, 40, 5, |inner| {
        let list = prop::collection::vec(inner, 0..5);
        (any::<u64>(), list.clone(), list).prop_map(|(seed, inside, outside)| Step::Split {
            seed,
            inside,
            outside,
        })
    });
    prop::collection::vec(step, 1..8)
}

fn perform(steps: &[Step], mask: u64, lane: u32, tag: u64) {
    for (index, step) in (0..).zip(steps) {
        let tag = mix(&[tag, index]);
        match step {
            Step::All(what) => check_collective(mask, model::ALL[*what], lane, tag),
            Step::Nap(who) => {
                if who >> lane & 1 == 1 {
                    nap(50);
                }
            }
            Step::Split { seed, inside, outside } => {
                let part = mask & seed;
                if part >> lane & 1 == 1 {
                    perform(inside, part, lane, tag);
                } else {
                    perform(outside, mask & !seed, lane, mix(&[tag, 1]));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_over_agreed_subsets_match_the_model(
        program in steps(),
        threads in 1..140_u32,
        width in prop::sample::select(vec![1_u32, 4, 32, 64]),
        seed in any::<Option<u64>>(),
    ) {
        let schedule = seed.map_or(Schedule::Fast, Schedule::Seeded);
        let result = launch(grid(2, threads), &warp_of(width, schedule), || {
            perform(&program, whole_warp(), Machine::lane(), 0);
        });
        prop_assert!(result.is_ok(), "{result:?}");
    }
}

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
    let before = Machine::clock();
    nap(100);
    nap(10_000_000);
    let between = Machine::clock();
    std::thread::sleep(Duration::from_millis(2));
    assert!(Machine::clock() - between >= 2_000_000);
    assert!(between - before < 5_000_000_000);
}

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
            (runtime().collective)(whole_warp(), Collective::Sync, 0, 0);
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
                (runtime().collective)(mask, what, 0, argument);
            }
            (1, _) => {
                while !called.load(Ordering::Acquire) {
                    nap(1);
                }
                (runtime().collective)(second.0, second.1, 0, second.2);
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
        (runtime().collective)(1 << lane | 1 << ((lane + 1) % 3), Collective::Sync, 0, 0);
    }));
    let others = "lanes {1} wait in Sync for lanes {1-2}";
    assert_eq!(ring, format!("lane 2 called Sync for lanes {{0, 2}} while {others}: neither can end"));
    let result = launch(grid(1, 4), &warp_of(4, Schedule::Fast), || {
        if Machine::lane() != 2 {
            (runtime().collective)(0b1111, Collective::Ballot, 1, 0);
        }
    });
    let (block, thread, message) = panic_of(result);
    assert_eq!((block, thread), (0, 2));
    assert_eq!(message, "lane 2 ended while lanes {0-1} wait for it in Ballot");
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
        let count = lanes.from_leader(lanes.count().into());
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
    let start = Instant::now();
    launch(grid(4_000, 250), &CpuOptions::default(), || {
        let lanes = calling!();
        let sum = lanes.scan(1) + 1;
        if u64::from(lanes.count()) == sum {
            total.fetch_add(lanes.count() as usize, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert_eq!(total.into_inner(), 1_000_000);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
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

/// Prints what the runtime costs: `cargo test --release -p gpufs-host --test lanes -- --ignored --nocapture measure`.
#[test]
#[ignore = "a measurement, not a test"]
fn measure() {
    fn best(mut once: impl FnMut()) -> Duration {
        (0..7)
            .map(|_| {
                let start = Instant::now();
                once();
                start.elapsed()
            })
            .min()
            .unwrap()
    }
    const ROUNDS: u32 = 20_000;
    let one = CpuOptions { threads: 1, ..CpuOptions::default() };
    let per = |time: Duration, count: u64| time.as_nanos() as f64 / count as f64;

    let start = Instant::now();
    launch(grid(100, 100), &one, || (0..200).for_each(|_| nap(0))).unwrap();
    println!("first launch of 10,000 lanes, napping 200 times, on one thread {:9.1?}", start.elapsed());
    let start = Instant::now();
    launch(grid(100, 100), &one, || (0..200).for_each(|_| nap(0))).unwrap();
    println!("the same again, on stacks that were used before                {:9.1?}", start.elapsed());
    let time = best(|| {
        launch(grid(1, 32), &one, || {
            // The site is the same, so the warp never leaves the visit.
            for _ in 0..ROUNDS {
                let _ = (runtime().calling)(1);
            }
        })
        .unwrap();
    });
    println!("calling, 32 lanes        {:8.1} ns a warp", per(time, ROUNDS.into()));
    for what in model::ALL {
        let time = best(|| {
            launch(grid(1, 32), &one, || {
                for _ in 0..ROUNDS {
                    (runtime().collective)(0xFFFF_FFFF, what, 1, 0);
                }
            })
            .unwrap();
        });
        println!("{what:9?}, 32 lanes      {:8.1} ns a warp", per(time, ROUNDS.into()));
    }
    let time = best(|| {
        // The last warp has one lane, which is alone wherever it calls. What it does counts as progress, so nobody pauses.
        launch(grid(1, 4 * 32 + 1), &one, || {
            for _ in 0..ROUNDS {
                if position().thread == 128 {
                    let _ = (runtime().calling)(1);
                }
                nap(0);
            }
        })
        .unwrap();
    });
    println!("nap                   {:8.1} ns a lane", per(time, u64::from(ROUNDS) * 129));
    let kernels: [(&str, fn()); 3] = [
        ("empty", || {}),
        ("calling", || {
            let _ = (runtime().calling)(1);
        }),
        ("napping", || nap(0)),
    ];
    for (name, blocks, threads) in [("1", 1, 1), ("10,000", 100, 100), ("1,000,000", 10_000, 100)] {
        for (what, kernel) in kernels {
            let time = best(|| launch(grid(blocks, threads), &CpuOptions::default(), kernel).unwrap());
            println!("launch of {name:>9} lanes, {what:8} {time:9.1?}");
        }
    }
}
