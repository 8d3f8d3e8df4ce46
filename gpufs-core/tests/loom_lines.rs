//! The interleavings of lines that are read ahead, and what weak memory makes of them, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_lines --release`
//!
//! Bounded as `loom.rs` is. A file of lines of 8 bytes, four to a block; two places. For what the kernel reads into a place stands one cell,
//! for the text of each of its lines another, whose accesses loom checks for races.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | room is taken relaxed; room is granted relaxed | `publish_take`, `close_progress`, `reopen_take` |
//! | what was taken in vain is kept | `take_take`, `close_take`, `reopen_take` |
//! | no look at CLOSED behind the cursor's addition; the room is then kept | `close_take`, `reopen_take` |
//! | the cursor is closed by a store; `is_quiet` without its look at the cursor | `close_take`, `close_progress`, `reopen_take` |
//! | `taken` is counted relaxed | `free_publish` |
//! | a block is freed before its begun line was carried over | `free_publish` |
//! | no second look at `next` | `progress_progress` |
//! | a claim, or a read's start, without its exchange | `progress_progress`; `free_publish` |
//! | `READ`, `INDEXED` or `next` stored relaxed | `progress_progress` |
//! | a caller leaves relaxed | `close_take`, `close_progress`, `reopen_take` |
//!
//! No model catches `is_quiet` without its look at the room, which is there as long as a caller is active but for a moment; nor lines that settle
//! without waiting for their reads. Not decided: settled in one step, which takes too long.
#![cfg(loom)]

mod rig;

use loom::sync::Arc;
use rig::models::{self, spawn};
use rig::readahead::{PLACES, World};

/// Explores `model`, with at most `preemptions` involuntary switches in one run.
fn explore(preemptions: usize, model: impl Fn(&Arc<World>) + Sync + Send + 'static) {
    models::explore(preemptions, || World::new(None), model);
}

/// Two take at once, where there are lines for one of them: each gets lines of its own, or none, and what was taken in vain is given back.
#[test]
fn take_take() {
    explore(5, |world| {
        world.indexed();
        world.publish();
        assert_eq!(world.take(None, 5, 1).unwrap(), [1, 2, 3, 4, 5]);
        let other = spawn(world, |world| world.take(None, 2, 1));
        let mut all: Vec<_> =
            [world.take(None, 2, 1), other.join().unwrap()].into_iter().flatten().flatten().collect();
        all.sort_unstable();
        assert!(all.is_empty() || all == [6, 7], "{all:?}");
        if all.is_empty() {
            assert_eq!(world.take(None, 2, 1).unwrap(), [6, 7], "what was taken in vain is there again");
        }
        assert_eq!(world.take(None, 1, 1).unwrap(), [8]);
    });
}

/// A block is published while another takes lines: what it takes is there.
#[test]
fn publish_take() {
    explore(4, |world| {
        world.indexed();
        let taker = spawn(world, |world| world.take(None, 3, 2));
        world.publish();
        let taken = taker.join().unwrap();
        assert!(taken.is_none_or(|taken| taken == [1, 2, 3]));
    });
}

/// Two publish, and two index, the same blocks: each is published once, in order.
#[test]
fn progress_progress() {
    explore(2, |world| {
        world.look_after();
        assert_eq!(world.serve(), PLACES);
        world.rig.queue.drain_alone(4);
        let other = spawn(world, World::progress);
        world.progress();
        other.join().unwrap();
        world.progress();
        assert_eq!(world.take(None, 8, 1).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
    });
}

/// The last lines of a block are taken while the next is published, which takes over what was begun in it: one of the two frees it, and its
/// place is read into anew while others may still copy.
#[test]
fn free_publish() {
    explore(4, |world| {
        world.indexed();
        assert!(world.publish_run(1));
        let taker = spawn(world, |world| {
            let taken = world.take(None, 4, 1);
            // The next block is read there, if it may be.
            world.look_after();
            world.serve();
            world.look_after();
            taken
        });
        world.publish();
        assert_eq!(taker.join().unwrap().unwrap(), [1, 2, 3, 4]);
        world.look_after();
        world.serve();
        world.progress();
        assert_eq!(world.take(None, 8, 1).unwrap(), [5, 6, 7, 8, 9, 10, 11, 12]);
    });
}

/// The lock's holder closes lines while two take some: when they are settled, all that was taken has been copied, and the stream is behind it.
#[test]
fn close_take() {
    explore(3, |world| {
        world.indexed();
        world.publish();
        let takers = [(); 2].map(|()| spawn(world, |world| world.take(None, 3, 1)));
        let end = world.close(3);
        let mut all: Vec<_> =
            takers.into_iter().filter_map(|taker| taker.join().unwrap()).flatten().collect();
        all.sort_unstable();
        assert!(all.iter().copied().eq(1..=all.len() as u64), "{all:?}");
        let end = end.or_else(|| world.close(3));
        assert_eq!(end, Some(all.len() as u64), "when all have left, lines are settled");
    });
}

/// The lock's holder closes lines while another starts reads, indexes and publishes.
#[test]
fn close_progress() {
    explore(3, |world| {
        world.look_after();
        assert_eq!(world.serve(), PLACES);
        let helper = spawn(world, World::progress);
        let taken = world.take(None, 2, 1).map_or(0, |taken| taken.len() as u64);
        let end = world.close(3);
        helper.join().unwrap();
        let end = end.or_else(|| world.close(3));
        assert_eq!(end, Some(taken), "when all have left, lines are settled");
    });
}

/// The lock's holder closes lines and opens them again, while another takes some: no line twice, and none of the other opening's.
#[test]
fn reopen_take() {
    explore(2, |world| {
        world.indexed();
        world.publish();
        let taker = spawn(world, |world| world.take(None, 2, 1));
        if let Some(end) = world.close(3) {
            world.open(None);
            world.progress();
            world.serve();
            world.progress();
            let first = world.take(None, 2, 1);
            let other = taker.join().unwrap();
            let mut all: Vec<_> = [first, other].into_iter().flatten().flatten().collect();
            all.sort_unstable();
            let before = if end == 2 { 0 } else { end };
            assert!(all.iter().copied().eq(before + 1..=before + all.len() as u64), "{all:?} behind {end}");
        } else {
            let taken = taker.join().unwrap().map_or(0, |taken| taken.len() as u64);
            assert_eq!(world.close(3), Some(taken), "when all have left, lines are settled");
        }
    });
}
