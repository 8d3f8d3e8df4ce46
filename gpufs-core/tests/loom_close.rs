//! What becomes of a stream's blocks when their writes fail and the stream becomes another, explored by loom: nothing is written for a stream
//! that is closed, and nothing that looked at it disturbs the next one in its entry.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_close --release`
//!
//! Bounded as `loom.rs` is.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | blocks are not taken back | `start_close start_reopen free_reopen` |
//! | a block is taken back by a load and a store | `start_close start_reopen` |
//! | a block that is about to be freed counts as at rest | `free_reopen` |
//! | no look at `freeing` | `free_reopen` |
#![cfg(loom)]
#![allow(unsafe_code, reason = "a session of pointers, and the cells")]

mod rig;

use gpufs_core::Errno;
use gpufs_core::abi::Sqe;
use gpufs_core::stream::Progress;
use loom::sync::Arc;
use rig::models::{self, spawn};
use rig::streams::{BLOCK, BLOCKS, World};

/// Explores `model`, with at most `preemptions` involuntary switches in one run.
fn explore(preemptions: usize, model: impl Fn(&Arc<World>) + Sync + Send + 'static) {
    models::explore(preemptions, World::new, model);
}

/// A device that is full.
fn full(_: &Sqe) -> i32 {
    -Errno::NOSPC.number()
}
/// One that is not.
fn well(sqe: &Sqe) -> i32 {
    sqe.len.cast_signed()
}

/// As `fclose` of a stream whose flush fails, with a whole block in it; whether it came to an end within the looks.
fn close(world: &World) -> bool {
    if world.close(2) != Some(BLOCK) {
        return false;
    }
    match world.flush(4, full) {
        None => return false,
        Some(flushed) => assert!(matches!(flushed, Progress::Done | Progress::Failed(Errno::NOSPC))),
    }
    if world.settle(4, full, |stream| stream.take_back_step(&world.session, 0)).is_none() {
        return false;
    }
    world.give_up();
    true
}

/// One fills a block and goes on to start it, while another flushes, which fails, and closes the stream: the block is written before that or
/// not at all.
#[test]
fn start_close() {
    explore(3, |world| {
        assert_eq!(world.write(1), Some(0));
        let writer = spawn(world, |world| world.write(1));
        let closed = close(world);
        writer.join().unwrap();
        if closed {
            let served = world.rig.cq_tail().peek();
            assert_eq!(world.rig.sq_tail().peek(), served, "a write for a stream that was closed");
            assert_eq!(world.rig.queue.free_slots(), 2);
        }
    });
}

/// The same, and another stream is opened in the entry, whose blocks are full, too: who started late starts them, or nothing.
#[test]
fn start_reopen() {
    explore(3, |world| {
        assert_eq!(world.write(1), Some(0));
        let writer = spawn(world, |world| world.write(1));
        if close(world) {
            let generation = world.reopen();
            for position in 0..BLOCK * BLOCKS {
                assert_eq!(world.write_by(generation, 1), Some(position));
            }
            writer.join().unwrap();
            // Where the late starter had the last slot, the block waits for the next to come by.
            for _ in 0..2 {
                world.serve_once(well);
                world.progress(1);
            }
            assert_eq!(world.stream.available.0.peek(), BLOCK * BLOCKS);
            assert_eq!(world.rig.queue.free_slots(), 2);
        } else {
            writer.join().unwrap();
        }
    });
}

/// One frees a block that was written, while another's write has failed and the stream is closed and opened anew: the block is free before that.
#[test]
fn free_reopen() {
    for failing in [0, BLOCK] {
        explore(1, move |world| {
            for position in 0..BLOCK * BLOCKS {
                assert_eq!(world.write(1), Some(position));
            }
            world.serve_once(|sqe| if sqe.off == failing { full(sqe) } else { well(sqe) });
            world.rig.queue.drain_alone(2);
            let helper = spawn(world, move |world| {
                let written = BLOCKS - 1 - failing / BLOCK;
                let _ = world.stream.progress(&world.session, 0, written as u32);
            });
            let (stream, session) = (&world.stream, &world.session);
            if world.close(2).is_some()
                && world.settle(4, full, |stream| stream.take_back_step(session, 0)).is_some()
            {
                world.give_up();
                let generation = world.reopen();
                assert_eq!(world.write_by(generation, 1), Some(0));
                helper.join().unwrap();
                let turns = [0, 1].map(|place| stream.blocks[place].block_number.peek());
                assert_eq!((turns, stream.granted_to.peek()), ([0, 1], BLOCK * BLOCKS));
                for position in 1..BLOCK * BLOCKS {
                    assert_eq!(world.write_by(generation, 1), Some(position));
                }
            } else {
                helper.join().unwrap();
            }
        });
    }
}
