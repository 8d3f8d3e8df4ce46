//! The interleavings of tokens that are read ahead: those of lines whose units are others, and what is open becoming something else.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_tokens --release`
//!
//! Bounded as `loom.rs` is. The steps and words are those of lines, of which `loom_lines.rs` has more models; `rig/readahead.rs` has the file.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | no second look at what the units are, behind the cursor's addition | `tokens_become_lines`, `integers_become_reals` |
//! | callers of lines do not look at the longest unit | `lines_become_tokens` |
//! | a block's first end is never skipped | all but `lines_become_tokens` |
//! | the skipped end is counted among the block's tokens | `take_take`, `free_publish` |
//! | room is taken relaxed | `publish_take` |
#![cfg(loom)]

mod rig;

use gpufs_core::stream::readahead::Tokens;
use loom::sync::Arc;
use rig::models::{self, spawn};
use rig::readahead::World;

const INTEGERS: Option<Tokens> = Some(Tokens::Integers);
const REALS: Option<Tokens> = Some(Tokens::Reals);

/// Explores `model` of a stream with these units open, with at most `preemptions` involuntary switches in one run.
fn explore(preemptions: usize, units: Option<Tokens>, model: impl Fn(&Arc<World>) + Sync + Send + 'static) {
    models::explore(preemptions, move || World::new(units), model);
}

/// Two take at once, where there are tokens for one of them. The first block has three whole ones, the second four, as it ends the fourth.
#[test]
fn take_take() {
    explore(5, INTEGERS, |world| {
        world.indexed();
        world.publish();
        assert_eq!(world.take(INTEGERS, 4, 1).unwrap(), [1, 2, 3, 4]);
        let other = spawn(world, |world| world.take(INTEGERS, 2, 1));
        let mut all: Vec<_> =
            [world.take(INTEGERS, 2, 1), other.join().unwrap()].into_iter().flatten().flatten().collect();
        all.sort_unstable();
        assert!(all.is_empty() || all == [5, 6], "{all:?}");
        if all.is_empty() {
            assert_eq!(world.take(INTEGERS, 2, 1).unwrap(), [5, 6], "what was taken in vain is there again");
        }
        assert_eq!(world.take(INTEGERS, 1, 1).unwrap(), [7]);
    });
}

/// A block is published while another takes tokens: what it takes is there.
#[test]
fn publish_take() {
    explore(4, REALS, |world| {
        world.indexed();
        let taker = spawn(world, |world| world.take(REALS, 3, 2));
        world.publish();
        let taken = taker.join().unwrap();
        assert!(taken.is_none_or(|taken| taken == [1, 2, 3]));
    });
}

/// The last whole tokens of a block are taken while the next, which ends the one begun there, is published: one of the two frees it.
#[test]
fn free_publish() {
    explore(4, INTEGERS, |world| {
        world.indexed();
        assert!(world.publish_run(1));
        let taker = spawn(world, |world| {
            let taken = world.take(INTEGERS, 3, 1);
            world.look_after();
            world.serve();
            world.look_after();
            taken
        });
        world.publish();
        assert_eq!(taker.join().unwrap().unwrap(), [1, 2, 3]);
        world.look_after();
        world.serve();
        world.progress();
        assert_eq!(world.take(INTEGERS, 8, 1).unwrap(), [4, 5, 6, 7, 8, 9, 10, 11]);
    });
}

/// The lock's holder closes tokens while two take some: when they are settled, all that was taken has been copied, and the stream is behind it.
#[test]
fn close_take() {
    explore(3, INTEGERS, |world| {
        world.indexed();
        world.publish();
        let takers = [(); 2].map(|()| spawn(world, |world| world.take(INTEGERS, 3, 1)));
        let end = world.close(3);
        let mut all: Vec<_> =
            takers.into_iter().filter_map(|taker| taker.join().unwrap()).flatten().collect();
        all.sort_unstable();
        assert!(all.iter().copied().eq(1..=all.len() as u64), "{all:?}");
        let end = end.or_else(|| world.close(3));
        assert_eq!(end, Some(all.len() as u64), "when all have left, tokens are settled");
    });
}

/// What is open becomes something else while a caller takes what was open: it gets that, or nothing.
fn becomes(from: Option<Tokens>, to: Option<Tokens>) {
    explore(2, from, move |world| {
        world.indexed();
        world.publish();
        let taker = spawn(world, move |world| world.take(from, 2, 1));
        let end = world.close(3);
        if end.is_some() {
            world.open(to);
            world.progress();
            world.serve();
            world.progress();
        }
        let taken = taker.join().unwrap();
        let end = end.or_else(|| world.close(3));
        assert!(taken.as_deref().is_none_or(|taken| taken == [1, 2]), "{taken:?}");
        assert_eq!(
            end,
            Some(taken.map_or(0, |taken| taken.len() as u64)),
            "the stream is behind what was taken"
        );
    });
}

/// `fgets` meets `fscanf`.
#[test]
fn lines_become_tokens() {
    becomes(None, INTEGERS);
}

/// `fscanf` meets `fgets`.
#[test]
fn tokens_become_lines() {
    becomes(INTEGERS, None);
}

/// `fscanf` of one conversion meets that of another.
#[test]
fn integers_become_reals() {
    becomes(INTEGERS, REALS);
}
