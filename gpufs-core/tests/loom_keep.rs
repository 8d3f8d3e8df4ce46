//! A stream that callers keep for several calls ([R-12], `stream/hold.rs`), explored by loom: who finds its identity has the lock, and nobody else
//! is on the stream.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_keep --release`
//!
//! Bounded as `loom.rs` is. For what the lock guards stands a cell, whose accesses loom checks for races.
//!
//! Each row is tried by `cargo xtask mutants`:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | the lock is handed on relaxed | `keep_keep` |
//! | a ticket is found served by a relaxed load | `keep_keep` |
//! | any holder passes for the caller | `keep_keep keep_call` |
//! | the last hold leaves the holder | `keep_again` |
//! | a hold within a hold is not counted | `keep_keep keep_call` |
#![cfg(loom)]
#![expect(unsafe_code, reason = "the cell")]

mod rig;

use gpufs_core::stream::Stream;
use gpufs_core::word::EntryCell;
use loom::sync::Arc;
use rig::models::{self, spawn};

/// What the cell holds: 16 bytes, as entry cells do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
struct Mark(u64, u64);

#[derive(Default)]
struct World {
    stream: Stream,
    cell: EntryCell<Mark>,
}

impl World {
    /// A call on the stream of `caller`, as `with_lock`; `change` is what it does to the holds. Whether it came to its end: a caller that waits
    /// too long gives up, with its ticket.
    fn call(&self, caller: u64, change: impl Fn(&Stream)) -> bool {
        let kept = self.stream.is_kept() && self.stream.is_kept_by(caller);
        if !kept {
            let ticket = self.stream.lock.draw();
            let mut looks = 0;
            while !self.stream.lock.is_served(ticket) {
                looks += 1;
                if looks == 3 {
                    return false;
                }
                loom::thread::yield_now();
            }
        }
        // SAFETY:
        // - the stream is the caller's: what is tested
        let Mark(before, _) = unsafe { self.cell.read() };
        // SAFETY:
        // - as above
        unsafe { self.cell.write(Mark(before + 1, caller)) };
        change(&self.stream);
        if !self.stream.is_kept() {
            self.stream.lock.release();
        }
        true
    }
    /// Who was on the stream last. By one who has it.
    fn last(&self) -> u64 {
        // SAFETY:
        // - as above
        unsafe { self.cell.read() }.1
    }
    /// Keeps the stream for two calls, twice over, and lets it go; whether it came to that.
    fn keep(&self, caller: u64) -> bool {
        if !self.call(caller, |stream| stream.keep(caller, 1)) {
            return false;
        }
        assert!(self.call(caller, |stream| stream.keep(caller, 1)), "the holder does not wait");
        assert!(self.call(caller, |stream| assert_eq!(stream.keep_less(1), 1)), "the holder does not wait");
        assert_eq!(self.last(), caller, "another is on the stream");
        assert!(self.call(caller, |stream| assert_eq!(stream.keep_less(1), 1)), "the holder does not wait");
        true
    }
}

fn explore(model: impl Fn(&Arc<World>) + Sync + Send + 'static) {
    models::explore(3, World::default, model);
}

/// Two keep it.
#[test]
fn keep_keep() {
    explore(|world| {
        let other = spawn(world, |world| world.keep(7));
        world.keep(9);
        other.join().unwrap();
    });
}

/// One keeps it while another makes a call.
#[test]
fn keep_call() {
    explore(|world| {
        let other = spawn(world, |world| world.call(7, |_| ()));
        world.keep(9);
        other.join().unwrap();
    });
}

/// Who has let go is one of many again, also where another has had the stream meanwhile.
#[test]
fn keep_again() {
    explore(|world| {
        assert!(world.keep(9));
        assert!(!world.stream.is_kept_by(9));
        let other = spawn(world, |world| world.keep(7));
        world.keep(9);
        other.join().unwrap();
    });
}
