//! The free set against a set of numbers.

use super::config;
use gpufs_core::alloc::{BufferPool, BufferPoolParts};
use gpufs_core::word::DeviceWord64;
use gpufs_core::{Claim, FreeSet};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::thread;

/// One step: claim so many, one, one that is named, or neighbours; or give back a claim, whole or its lowest item.
#[derive(Clone, Copy, Debug)]
enum Step {
    Claim { wanted: u32, hint: u32 },
    One { hint: u32 },
    Item { which: prop::sample::Index },
    Run { length: u32, hint: u32 },
    Release { which: prop::sample::Index, whole: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let hint = || prop_oneof![0..8u32, (0..8u32).prop_map(|before| u32::MAX - before), any::<u32>()];
    prop_oneof![
        (1..=64u32, hint()).prop_map(|(wanted, hint)| Step::Claim { wanted, hint }),
        hint().prop_map(|hint| Step::One { hint }),
        any::<prop::sample::Index>().prop_map(|which| Step::Item { which }),
        (0..=6u32, hint()).prop_map(|(power, hint)| Step::Run { length: 1 << power, hint }),
        (any::<prop::sample::Index>(), any::<bool>())
            .prop_map(|(which, whole)| Step::Release { which, whole }),
    ]
}

fn items(claim: Claim) -> BTreeSet<u32> {
    (0..claim.count()).map(|rank| claim.item(rank)).collect()
}

/// The words in the order of a search that begins at `hint`.
fn searched(words: u32, hint: u32) -> impl Iterator<Item = u32> {
    (0..words).map(move |step| (hint % words + step) % words)
}

/// What a claim returns: up to `wanted` of the lowest free items of the first word that has any.
fn expected(free: &BTreeSet<u32>, words: u32, wanted: u32, hint: u32) -> Option<BTreeSet<u32>> {
    searched(words, hint).find_map(|word| {
        let of_word: BTreeSet<u32> =
            free.range(word * 64..(word + 1) * 64).take(wanted as usize).copied().collect();
        (!of_word.is_empty()).then_some(of_word)
    })
}

/// What a claim of one item returns: in the first word that has any, the first from the hint's bit on, and round.
fn expected_one(free: &BTreeSet<u32>, words: u32, hint: u32) -> Option<BTreeSet<u32>> {
    let turn = hint / words % 64;
    searched(words, hint)
        .flat_map(|word| (0..64).map(move |step| word * 64 + (turn + step) % 64))
        .find(|item| free.contains(item))
        .map(|item| BTreeSet::from([item]))
}

/// What a claim of neighbours returns: the first place of the first word that has one.
fn expected_run(free: &BTreeSet<u32>, words: u32, length: u32, hint: u32) -> Option<BTreeSet<u32>> {
    searched(words, hint)
        .flat_map(|word| (0..64 / length).map(move |place| word * 64 + place * length))
        .map(|first| (first..first + length).collect::<BTreeSet<u32>>())
        .find(|run| run.is_subset(free))
}

/// Words of memory, each with this value.
fn words_of(values: impl Iterator<Item = u64>) -> Vec<DeviceWord64> {
    values.map(DeviceWord64::new).collect()
}

/// The set over all of `memory`.
fn set_over(memory: &[DeviceWord64]) -> FreeSet {
    // SAFETY:
    // - the words are the slice's, which outlives the set in each test
    unsafe { FreeSet::new(memory.as_ptr(), u32::try_from(memory.len()).unwrap()) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn free_set_follows_the_model(size in 1..=300u32, steps in prop::collection::vec(step(), 1..200)) {
        let words = FreeSet::words_for(size);
        let memory = words_of((0..words).map(|word| FreeSet::initial_word(size, word)));
        let set = set_over(&memory);
        prop_assert_eq!(set.capacity(), 64 * words);
        let mut free: BTreeSet<u32> = (0..size).collect();
        let mut held: Vec<Claim> = Vec::new();
        for step in steps {
            let claimed = match step {
                Step::Claim { wanted, hint } => {
                    Some((set.claim(wanted, hint), expected(&free, words, wanted, hint)))
                }
                Step::One { hint } => Some((set.claim_one(hint), expected_one(&free, words, hint))),
                Step::Item { which } => {
                    let item = u32::try_from(which.index(size as usize)).unwrap();
                    let got = set.claim_item(item).then(|| Claim::single(item));
                    Some((got, free.contains(&item).then(|| BTreeSet::from([item]))))
                }
                Step::Run { length, hint } => {
                    Some((set.claim_run(length, hint), expected_run(&free, words, length, hint)))
                }
                Step::Release { which, whole } => {
                    if !held.is_empty() {
                        let claim = held.swap_remove(which.index(held.len()));
                        let part = if whole { claim } else { Claim::single(claim.item(0)) };
                        set.release(part);
                        free.extend(items(part));
                        if part != claim {
                            held.push(Claim { bits: claim.bits ^ part.bits, ..claim });
                        }
                    }
                    None
                }
            };
            if let Some((claim, expected)) = claimed {
                prop_assert_eq!(claim.map(items), expected, "{:?}", step);
                free.retain(|item| claim.is_none_or(|claim| !items(claim).contains(item)));
                held.extend(claim);
            }
            prop_assert_eq!(set.free() as usize, free.len());
            prop_assert!((0..size).all(|item| set.is_free(item) == free.contains(&item)));
        }
    }

    #[test]
    fn a_set_begins_with_what_it_was_given(size in 1..=300u32, kept in 0..=300u32) {
        let memory = words_of((0..FreeSet::words_for(size)).map(|_| 0));
        let set = set_over(&memory);
        set.release_all(size);
        prop_assert!((0..set.capacity()).all(|item| set.is_free(item) == (item < size)));
        let kept = kept.min(size);
        set.withhold(kept);
        prop_assert!((0..set.capacity()).all(|item| set.is_free(item) == (kept..size).contains(&item)));
    }

    /// Neighbours for all of the bytes, else for half of the buffers, and so on to one.
    #[test]
    fn a_pool_gives_as_many_neighbours_as_there_are(
        size in 1..=300u32,
        taken in prop::collection::btree_set(0..300u32, 0..300),
        (bytes, hint) in (0..20_u64 << 12, any::<u32>()),
    ) {
        let words = FreeSet::words_for(size);
        let memory = words_of((0..words).map(|word| FreeSet::initial_word(size, word)));
        let set = set_over(&memory);
        let free: BTreeSet<u32> = (0..size).filter(|item| !taken.contains(item)).collect();
        taken.iter().filter(|item| **item < size).for_each(|item| assert!(set.claim_item(*item)));
        let parts = BufferPoolParts { base: 0x10_0000, buffer_bytes: 4096, buffer_index: 0, free: set };
        // SAFETY:
        // - no memory is reached
        let pool = unsafe { BufferPool::new(parts) };
        prop_assert_eq!(pool.most_bytes(), 16 * 4096);
        let wanted = (bytes.div_ceil(4096) as u32).clamp(1, 16).next_power_of_two();
        let lengths = (0..=wanted.ilog2()).rev().map(|power| 1 << power);
        let expected = lengths.filter_map(|length| match length {
            1 => expected_one(&free, words, hint),
            _ => expected_run(&free, words, length, hint),
        });
        let expected = expected.into_iter().next();
        let whole = match wanted {
            1 => expected_one(&free, words, hint),
            _ => expected_run(&free, words, wanted, hint),
        };
        let got = pool.claim_bytes(bytes, hint);
        if let Some(staged) = got {
            let first = u64::from(staged.claim.item(0));
            prop_assert_eq!(staged.address, 0x10_0000 + 4096 * first);
            prop_assert_eq!(staged.bytes, 4096 * staged.claim.count());
            set.release(staged.claim);
        }
        prop_assert_eq!(got.map(|staged| items(staged.claim)), expected);
        prop_assert_eq!(pool.claim_whole(bytes, hint).map(items), whole);
    }

    #[test]
    fn a_run_has_the_items_that_it_names(word in 0..5u32, first in 0..64u32, count in 1..=64u32) {
        let count = count.min(64 - first);
        let first = 64 * word + first;
        prop_assert_eq!(items(Claim::run(first, count)), (first..first + count).collect());
    }
}

/// Threads that reach for the same neighbours, of which each gets some only: what is not a whole run goes back.
#[test]
fn neighbours_that_threads_fight_for_are_free_in_the_end() {
    let memory = words_of([u64::MAX].into_iter());
    let set = &set_over(&memory);
    let rounds = if cfg!(miri) { 20 } else { 50_000 };
    thread::scope(|scope| {
        for length in [1, 2, 4, 64] {
            scope.spawn(move || {
                for _ in 0..rounds {
                    if let Some(claim) = set.claim_run(length, 0) {
                        set.release(claim);
                    }
                }
            });
        }
    });
    assert_eq!(set.free(), 64);
}
