//! The interleavings of a stream's fast path, and what weak memory makes of them, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_stream --release`
//!
//! Bounded as `loom.rs` is. A stream of two blocks of two bytes, for each of which a cell stands whose accesses loom checks for races.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | room is taken relaxed | `free_reserve` |
//! | what was taken in vain is kept | `reserve_reserve` |
//! | no look at CLOSED behind the cursor's addition; the room is then kept; the cursor is closed by a store | `close_write` |
//! | the cursor is opened while somebody has room in hand; the generation is not compared | `reopen_write` |
//! | `committed` is added to, or read by `is_quiet`, relaxed; FULL is stored relaxed | `close_write` |
//! | a grant is stored, not exchanged; no fence before granting; two free a block | `progress_progress` |
//! | two start a block | `start_start` |
//! | more look after the blocks than may | `enter_enter` |
//!
//! The cursor's addition, `block_number` and the granted room have models of their own in `loom_room.rs`; `granted_to` and `quiet_at` in
//! `loom_reservation.rs`, the generation in `loom_orders.rs`. In a stream, no model catches `quiet_at` without its look at what is available:
//! `open_cursor` makes it again.
#![cfg(loom)]
#![allow(unsafe_code, reason = "a session of pointers, and the cells")]

mod rig;

use gpufs_core::session::OpenFile;
use gpufs_core::stream::Buffering;
use loom::sync::Arc;
use rig::models::{self, spawn};
use rig::streams::{BLOCK, BLOCKS, World};

/// Explores `model`, with at most `preemptions` involuntary switches in one run.
fn explore(preemptions: usize, model: impl Fn(&Arc<World>) + Sync + Send + 'static) {
    models::explore(preemptions, World::new, model);
}

/// Two reserve at once, for the last bytes: each gets a place of its own, or none.
#[test]
fn reserve_reserve() {
    explore(5, |world| {
        for position in 0..BLOCK * BLOCKS - 1 {
            assert_eq!(world.write(1), Some(position));
        }
        let other = spawn(world, |world| world.write(1));
        let places = [world.write(1), other.join().unwrap()];
        assert!(places.iter().flatten().eq([&3]), "{places:?}");
        assert_eq!(world.stream.available.0.peek(), 0, "what was taken in vain was given back");
    });
}

/// The lock's holder closes the fast path while two write: when it finds the stream quiet, all that was reserved is there, and nobody
/// reserves any more.
#[test]
fn close_write() {
    explore(3, |world| {
        let others = [(); 2].map(|()| spawn(world, |world| world.write(1)));
        let end = world.close(2);
        let places: Vec<_> = others.into_iter().filter_map(|other| other.join().unwrap()).collect();
        if let Some(end) = end {
            assert_eq!(places.len() as u64, end);
        }
        let mut sorted = places.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..places.len() as u64), "{places:?}");
        assert!(world.stream.is_quiet());
    });
}

/// The lock's holder closes the stream and opens another in its place, while one writes by the old handle: it writes before, or not at all.
#[test]
fn reopen_write() {
    explore(3, |world| {
        let writer = spawn(world, |world| world.write(1));
        if let Some(end) = world.close(2) {
            let (stream, session) = (&world.stream, &world.session);
            stream.give_back(session);
            stream.generation.fetch_add(1);
            stream.set_up(session, 0, OpenFile::SEEKABLE, Buffering::Full);
            stream.grow(session);
            stream.begin_writing(session, 0);
            stream.open_cursor();
            assert_eq!(writer.join().unwrap().is_some(), end == 1);
            assert_eq!(stream.available.0.peek(), BLOCK * BLOCKS);
        } else {
            writer.join().unwrap();
        }
    });
}

/// The lock's holder closes the fast path while a block is freed and another writer takes its place.
#[test]
fn free_close() {
    explore(2, |world| {
        for position in 0..BLOCK * BLOCKS {
            assert_eq!(world.write(1), Some(position));
        }
        assert_eq!(world.serve(1), 2);
        let helper = spawn(world, |world| world.progress(1));
        let writer = spawn(world, |world| world.write(2));
        let end = world.close(2);
        helper.join().unwrap();
        let place = writer.join().unwrap();
        assert!(place.is_none_or(|place| place == BLOCK * BLOCKS), "{place:?}");
        if let Some(end) = end {
            assert_eq!(end, BLOCK * BLOCKS + u64::from(place.is_some()));
        }
    });
}

/// Two start the same blocks, which found no slot when they were full: each is started once.
#[test]
fn start_start() {
    explore(3, |world| {
        let claim = world.rig.queue.claim(2, 0).unwrap();
        for position in 0..BLOCK * BLOCKS {
            assert_eq!(world.write(1), Some(position));
        }
        world.rig.queue.release(claim);
        let other = spawn(world, |world| world.progress(1));
        world.progress(1);
        other.join().unwrap();
        world.progress(1);
        assert_eq!(world.serve(1), 2);
        world.progress(1);
        assert_eq!(world.stream.available.0.peek(), BLOCK * BLOCKS);
    });
}

/// A block is written, freed and granted while another writer waits for room: it writes where the kernel has read.
#[test]
fn free_reserve() {
    explore(3, |world| {
        for position in 0..BLOCK * BLOCKS {
            assert_eq!(world.write(1), Some(position));
        }
        let writer = spawn(world, |world| world.write(2));
        let helper = spawn(world, |world| world.progress(2));
        world.serve(1);
        helper.join().unwrap();
        let place = writer.join().unwrap();
        assert!(place.is_none_or(|place| place == BLOCK * BLOCKS), "{place:?}");
    });
}

/// Two look after the same blocks: each is freed once, and granted once.
#[test]
fn progress_progress() {
    explore(3, |world| {
        for position in 0..BLOCK * BLOCKS {
            assert_eq!(world.write(1), Some(position));
        }
        assert_eq!(world.serve(1), 2);
        let other = spawn(world, |world| world.progress(1));
        world.progress(1);
        other.join().unwrap();
        // Whoever came late finds nothing to do.
        world.progress(1);
        assert_eq!(world.stream.available.0.peek(), BLOCK * BLOCKS);
        assert_eq!(world.rig.queue.free_slots(), 2);
        assert_eq!(world.write(1), Some(BLOCK * BLOCKS));
    });
}

/// Two come to look after the blocks, where one may: there is never more than one, and where one left it leaves room for the next.
#[test]
fn enter_enter() {
    explore(4, |world| {
        let enter = |world: &World| {
            let admitted = world.stream.enter_progress(1);
            if admitted {
                // Not by two at a time: holds are a word of one that is alone.
                assert_eq!(world.stream.holds.peek(), 0);
                world.stream.holds.set(1);
                loom::thread::yield_now();
                world.stream.holds.set(0);
                world.stream.leave_progress();
            }
            admitted
        };
        let other = spawn(world, enter);
        enter(world);
        other.join().unwrap();
        assert!(enter(world), "all have left");
    });
}
