//! Random programs: trees of agreed subsets whose lanes make collectives and naps.

use gpufs_device::warp::{Machine, Warp, nap};
use gpufs_host::cpu::{Schedule, launch};
use proptest::prelude::*;

use crate::model::{self, check_collective};
use crate::{grid, mix, warp_of, whole_warp};

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
