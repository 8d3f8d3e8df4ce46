//! The free set against a set of numbers.

use super::config;
use gpufs_core::word::DeviceWord64;
use gpufs_core::{Claim, FreeSet};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// One step: claim so many with a hint, or give back a claim, whole or its lowest item.
#[derive(Clone, Copy, Debug)]
enum Step {
    Claim { wanted: u32, hint: u32 },
    Release { which: prop::sample::Index, whole: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let hint = prop_oneof![0..8u32, (0..8u32).prop_map(|before| u32::MAX - before), any::<u32>()];
    prop_oneof![
        (1..=64u32, hint).prop_map(|(wanted, hint)| Step::Claim { wanted, hint }),
        (any::<prop::sample::Index>(), any::<bool>())
            .prop_map(|(which, whole)| Step::Release { which, whole }),
    ]
}

fn items(claim: Claim) -> BTreeSet<u32> {
    (0..claim.count()).map(|rank| claim.item(rank)).collect()
}

/// What a claim may return: up to `wanted` of the lowest free items of the first word at or after the hint that has any.
fn expected(free: &BTreeSet<u32>, words: u32, wanted: u32, hint: u32) -> Option<BTreeSet<u32>> {
    (0..words).map(|step| (hint % words + step) % words).find_map(|word| {
        let of_word: BTreeSet<u32> =
            free.range(word * 64..(word + 1) * 64).take(wanted as usize).copied().collect();
        (!of_word.is_empty()).then_some(of_word)
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn free_set_follows_the_model(size in 1..=300u32, steps in prop::collection::vec(step(), 1..200)) {
        let words = FreeSet::words_for(size);
        let memory: Vec<_> =
            (0..words).map(|word| DeviceWord64::new(FreeSet::initial_word(size, word))).collect();
        // SAFETY:
        // - the words are the vector's, which outlives the set and is not resized
        let set = unsafe { FreeSet::new(memory.as_ptr(), words) };
        let mut free: BTreeSet<u32> = (0..size).collect();
        let mut held: Vec<Claim> = Vec::new();
        for step in steps {
            match step {
                Step::Claim { wanted, hint } => {
                    let claim = set.claim(wanted, hint);
                    prop_assert_eq!(claim.map(items), expected(&free, words, wanted, hint));
                    if let Some(claim) = claim {
                        free.retain(|item| !items(claim).contains(item));
                        held.push(claim);
                    }
                }
                Step::Release { which, whole } if !held.is_empty() => {
                    let claim = held.swap_remove(which.index(held.len()));
                    let part = if whole { claim } else { Claim::single(claim.item(0)) };
                    set.release(part);
                    free.extend(items(part));
                    if part != claim {
                        held.push(Claim { bits: claim.bits ^ part.bits, ..claim });
                    }
                }
                Step::Release { .. } => {}
            }
            prop_assert_eq!(set.free() as usize, free.len());
            prop_assert!((0..size).all(|item| set.is_free(item) == free.contains(&item)));
        }
    }
}
