//! Room of a stream that one lane grants and another takes, explored by loom: who has room knows that the kernel has read what lay there, whoever
//! granted it, and whichever place the cursor then gives.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_room --release`
//!
//! Bounded as `loom.rs` is.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | the cursor is added to relaxed | `old_room_new_place` |
//! | `block_number` is stored relaxed in `free_block`, or loaded relaxed in `grant` | `granted_by_another` |
//! | room is added relaxed in `grant`, or subtracted relaxed in `try_reserve` | `granted_by_another` |
//! | `is_quiet` without its look at the cursor | `old_room_quiet` |
#![cfg(loom)]
#![allow(unsafe_code, reason = "the kernel's entries")]

mod rig;

use gpufs_core::abi::Sqe;
use gpufs_core::stream::Progress;
use loom::sync::Arc;
use rig::models::{self, spawn};
use rig::streams::{BLOCK, BLOCKS, World};

/// Explores `model`, with at most `preemptions` involuntary switches in one run.
fn explore(preemptions: usize, model: impl Fn(&Arc<World>) + Sync + Send + 'static) {
    models::explore(preemptions, World::new, model);
}

/// The kernel, for which all goes well.
fn well(sqe: &Sqe) -> i32 {
    sqe.len.cast_signed()
}

/// Writes the first block and frees it. No yield: loom would first run the others to their ends.
fn free(world: &World) {
    world.serve_once(well);
    world.rig.queue.drain_alone(2);
    assert_eq!(world.stream.reap(&world.session, 0), Progress::Done);
}

/// One takes the last room of an old grant. Before it adds to the cursor, a block is freed and granted, and who takes room of that gets the last
/// old place. So the first gets a place of the new block: that it was freed it has only from the cursor.
#[test]
fn old_room_new_place() {
    explore(3, |world| {
        for position in 0..BLOCK * BLOCKS - 1 {
            assert_eq!(world.write(1), Some(position));
        }
        let other = spawn(world, |world| {
            free(world);
            world.write(1)
        });
        let places = [world.write(1), other.join().unwrap()];
        assert!(matches!(places, [Some(3), None | Some(4)] | [Some(4), Some(3)]), "{places:?}");
    });
}

/// Two free neighbouring blocks at the same time, and the one grants what the other freed. Who takes that room has nothing but the turn, the grant
/// and the room between the kernel and itself.
#[test]
fn granted_by_another() {
    explore(4, |world| {
        let (stream, session, queue) = (&world.stream, &world.session, &world.rig.queue);
        let claim = queue.claim(2, 0).unwrap();
        for position in 0..BLOCK * BLOCKS {
            assert_eq!(world.write(1), Some(position));
        }
        queue.release(claim);
        // The second block is written first: who frees it knows nothing of the first.
        assert_eq!(stream.start(session, 0, 1), Progress::Wait(0));
        assert_eq!(world.serve(1), 1);
        assert_eq!(queue.drain_alone(2), 1);
        assert_eq!(stream.start(session, 0, 0), Progress::Wait(0));
        let writer = spawn(world, |world| world.write(1));
        let second = spawn(world, |world| world.stream.reap(&world.session, 1));
        world.serve_once(well);
        assert_eq!(queue.drain_alone(2), 1);
        // A thread of its own: the fence of a drain would make a release of whatever the drainer stores behind it.
        let first = spawn(world, |world| world.stream.reap(&world.session, 0));
        assert_eq!(first.join().unwrap(), Progress::Done);
        assert_eq!(second.join().unwrap(), Progress::Done);
        let place = writer.join().unwrap();
        assert!(place.is_none_or(|place| place == BLOCK * BLOCKS), "{place:?}");
        assert_eq!(stream.available.0.peek(), BLOCK * BLOCKS - u64::from(place.is_some()));
    });
}

/// The lock's holder closes the fast path while one fills the last old place, frees a block and has a place in the next: the room that was left
/// long ago is as much as is left now.
#[test]
fn old_room_quiet() {
    explore(3, |world| {
        for position in 0..BLOCK * BLOCKS - 1 {
            assert_eq!(world.write(1), Some(position));
        }
        let writer = spawn(world, |world| {
            let last = world.write(1);
            free(world);
            [last, world.write(1)]
        });
        let end = world.close(1);
        let places = writer.join().unwrap();
        if let Some(end) = end {
            assert_eq!(end, BLOCK * BLOCKS - 1 + places.iter().flatten().count() as u64);
        }
    });
}
