//! The state of a block by itself (`stream::state`), explored by loom: of those that try a transition one succeeds, and it acquires what was done to
//! the block before.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_state --release`
//!
//! Bounded as `loom.rs` is. For the block stands a cell, whose accesses loom checks for races: it is its owner's.
//!
//! Each row is tried by `cargo xtask mutants`:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | a state is left by a load and a store | `claim_claim reap_reap take_back_start` |
//! | a state is left by a relaxed exchange | `fill_claim reap_reap` |
//! | a state is stored relaxed | `fill_claim reap_reap release_observe` |
//! | a state is observed relaxed | `release_observe` |
#![cfg(loom)]
#![expect(unsafe_code, reason = "the cell")]

mod rig;

use gpufs_core::stream::{BlockState, State, Token};
use gpufs_core::word::EntryCell;
use gpufs_core::{Operation, Slot};
use loom::sync::Arc;
use rig::models::{self, spawn};

/// What the cell holds: 16 bytes, as entry cells do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
struct Mark(u64, u64);

/// A block.
#[derive(Default)]
struct World {
    state: BlockState,
    cell: EntryCell<Mark>,
}

impl World {
    /// As the block's owner: changes it.
    fn change(&self) {
        // SAFETY:
        // - the block is the caller's: what is tested
        let Mark(before, _) = unsafe { self.cell.read() };
        // SAFETY:
        // - as above
        unsafe { self.cell.write(Mark(before + 1, 0)) };
    }
}

fn explore(model: impl Fn(&Arc<World>) + Sync + Send + 'static) {
    models::explore(4, World::default, model);
}

/// Some operation.
fn token() -> Token {
    Token::new(0, Operation { slot: Slot(0), generation: 1 })
}

/// Two start a block that is FULL: one of them.
#[test]
fn claim_claim() {
    explore(|world| {
        world.state.fill();
        let start = |world: &World| {
            let mine = world.state.claim_full();
            if mine {
                world.change();
            }
            mine
        };
        let other = spawn(world, start);
        assert!(start(world) != other.join().unwrap());
    });
}

/// One fills a block while another starts it: with all that was filled.
#[test]
fn fill_claim() {
    explore(|world| {
        let starter = spawn(world, |world| {
            if world.state.claim_full() {
                world.change();
            }
        });
        world.change();
        world.state.fill();
        starter.join().unwrap();
    });
}

/// Two reap a write: one of them, and all that the submitter did comes before.
#[test]
fn reap_reap() {
    explore(|world| {
        let reap = |world: &World| {
            let mine = world.state.claim_in_flight(token());
            if mine {
                world.change();
                world.state.release_filling();
            }
            mine
        };
        let others = [(); 2].map(|()| spawn(world, reap));
        assert!(world.state.claim_filling());
        world.change();
        world.state.submit(token());
        let count = others.into_iter().map(|other| u32::from(other.join().unwrap())).sum::<u32>();
        assert!(count <= 1);
    });
}

/// The lock's holder takes a block back that another starts: one of the two has it.
#[test]
fn take_back_start() {
    explore(|world| {
        world.state.fill();
        let starter = spawn(world, |world| {
            let mine = world.state.claim_full();
            if mine {
                world.change();
            }
            mine
        });
        let taken = world.state.take_back();
        if taken {
            world.change();
        }
        assert!(starter.join().unwrap() != taken);
    });
}

/// Who observes the state in which an owner left a block sees what it did.
#[test]
fn release_observe() {
    explore(|world| {
        assert!(world.state.claim_filling());
        let looker = spawn(world, |world| {
            if world.state.observe() == State::Full {
                world.change();
            }
        });
        world.change();
        world.state.release_full();
        looker.join().unwrap();
    });
}
