//! The queue and the free set against naive models, step by step.
//!
//! The steps of lanes, kernel and attendant are interleaved by a seed, so that a warp can be preempted between any two. The memory
//! is sequentially consistent here: weak orders are `loom.rs`'s, and a publisher that is preempted is `threads.rs`'s.
//!
//! A failure prints the smallest plan found, seed included, and keeps it in `tests/model.regressions`, which runs first next time.
#![cfg(not(loom))]
#![allow(unsafe_code, reason = "entries and the queue's unsafe steps")]

mod chance;
mod free_set;
mod kernel;
#[path = "../rig/mod.rs"]
mod rig;
mod warp;
mod world;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use rig::Shape;
use world::{Plan, Temper, WarpPlan, World};

const GENERATIONS: u32 = (1 << 31) - 1;

/// As many cases as `PROPTEST_CASES` says; few under Miri, which also has no files to keep regressions in.
pub(crate) fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    if cfg!(miri) {
        return ProptestConfig { cases: 4, failure_persistence: None, ..usual };
    }
    let kept = FileFailurePersistence::Direct("tests/model.regressions");
    ProptestConfig { failure_persistence: Some(Box::new(kept)), ..usual }
}

/// Where an index begins: at 0, shortly before it wraps, or anywhere.
fn index() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), (0..40u32).prop_map(|before| u32::MAX - before), any::<u32>()]
}

fn generation() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), (0..4u32).prop_map(|before| GENERATIONS - before)]
}

/// Tiny rings, and now and then one whose slots fill two words.
fn shape() -> impl Strategy<Value = Shape> {
    let bits = prop_oneof![8 => (1..=3u32, 0..=4u32), 1 => (7..=7u32, 6..=8u32)];
    (bits, index(), index(), generation(), any::<prop::sample::Index>()).prop_map(
        |((sq_bits, cq_bits), first_ticket, first_completion, generation, slots)| {
            let (sq_entries, cq_entries) = (1 << sq_bits, 1 << cq_bits);
            // Full rings are the tightest; others are tried as well.
            let most = sq_entries.min(cq_entries);
            let fewer = u32::try_from(slots.index(2 * most as usize)).expect("small") + 1;
            Shape {
                sq_entries,
                cq_entries,
                capacity: fewer.min(most),
                first_ticket,
                first_completion,
                generation,
            }
        },
    )
}

fn warp() -> impl Strategy<Value = WarpPlan> {
    let width = prop_oneof![4 => 1..=8u32, 2 => 1..=32u32, 1 => Just(64)];
    (width, 1..=40u32, any::<[bool; 3]>(), any::<u32>()).prop_map(
        |(width, operations, [keeps, starts, chains], hint)| WarpPlan {
            width,
            operations,
            keeps,
            starts,
            chains,
            hint,
        },
    )
}

fn temper() -> impl Strategy<Value = Temper> {
    (1..=12u32, 1..=12u32, 1..=12u32, 1..=12u32, 0..=12u32, 0..=60u32).prop_map(
        |(look, read, finish, publish, sleep, strays)| Temper { look, read, finish, publish, sleep, strays },
    )
}

fn plan() -> impl Strategy<Value = Plan> {
    let warps = prop::collection::vec(warp(), 1..=if cfg!(miri) { 3 } else { 7 });
    let seed = any::<u64>().no_shrink();
    (shape(), warps, temper(), seed).prop_map(|(shape, warps, temper, seed)| Plan {
        shape,
        warps,
        temper,
        seed,
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn queue_follows_the_model(plan in plan()) {
        World::new(&plan).run();
    }
}
