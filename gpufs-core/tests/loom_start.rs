//! Operations that lanes start and do not wait for ([R-ASYNC-1] to [R-ASYNC-6]), explored by loom: each is published when its start returns or with a
//! later look of that start, whoever publishes; there are never more than there may be; a result that is taken carries what the kernel wrote; and a
//! cancel that races with the completion leaves slot and memory to the target's own.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_start --release`
//!
//! Bounded as `loom.rs` is. For the memory of an operation stands a cell, whose accesses loom checks for races.
//!
//! Each row is tried by `cargo xtask mutants`:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | a start adopts nothing | `start_start start_leave` |
//! | who draws is taken for the next in line | `start_next` |
//! | a start returns when its ticket is drawn | `start_behind` |
//! | more begin than there may be | `begin_begin` |
//! | a start that was refused in part keeps the whole count | `begin_begin` |
//! | a result is looked at relaxed | `take_again` |
//! | a slot is released relaxed | `take_again` |
//! | a completion is delivered whatever the generation | `cancel_late` |
#![cfg(loom)]
#![expect(unsafe_code, reason = "entries and the queue's unsafe steps")]

mod rig;

use gpufs_core::abi::Cqe;
use gpufs_core::word::{DeviceWord, EntryCell};
use gpufs_core::{Operation, Outcome, Slot, SlotClaim, Ticket};
use loom::sync::Arc;
use loom::thread;
use rig::models::{explore, spawn};
use rig::{Rig, Shape, sqe_of};

/// A ring, and the memory of an operation.
struct World {
    rig: Rig,
    memory: EntryCell<u64>,
    /// How many operations have begun and not ended, as the model counts.
    begun: DeviceWord,
}

fn world(entries: u32, most: u32) -> impl Fn() -> World {
    move || {
        let rig = Rig::new(Shape::square(entries));
        rig.queue.limit_waits(most);
        World { rig, memory: EntryCell::new(0), begun: DeviceWord::new(0) }
    }
}

/// Looks whether `ticket` is published, a few times.
fn passes(rig: &Rig, ticket: Ticket, looks: u32) -> bool {
    for _ in 0..looks {
        if rig.queue.pass_to(ticket) {
            return true;
        }
        thread::yield_now();
    }
    false
}

/// Two starts and nobody who waits: both are published. A start that gave up looking here, as none does, has another look.
#[test]
fn start_start() {
    explore(3, world(4, 4), |world: &Arc<World>| {
        let start = |slot| move |world: &World| (world.rig.submit_one(Slot(slot)).1, slot);
        let other = spawn(world, move |world| {
            let (ticket, _) = start(0)(world);
            (ticket, passes(&world.rig, ticket, 2))
        });
        let (own, _) = start(1)(world);
        let passed = passes(&world.rig, own, 2);
        let (others, other_passed) = other.join().unwrap();
        // Nobody else is there: what a start waits for comes with its next looks.
        assert!(passed || passes(&world.rig, own, 3), "a start waits for ever");
        assert!(other_passed || passes(&world.rig, others, 3), "a start waits for ever");
        assert_eq!(world.rig.sq_tail().peek(), 2, "an operation that was started stays unpublished");
    });
}

/// Three, of which one never looks again: it is the publisher of others' at most, and its own look adopts what it leaves.
#[test]
fn start_leave() {
    explore(2, world(4, 4), |world: &Arc<World>| {
        let starters: Vec<_> = (0..2)
            .map(|slot| {
                spawn(world, move |world| {
                    let ticket = world.rig.submit_one(Slot(slot)).1;
                    (ticket, passes(&world.rig, ticket, 1))
                })
            })
            .collect();
        let own = world.rig.submit_one(Slot(2)).1;
        let mut looks = vec![(own, passes(&world.rig, own, 1))];
        looks.extend(starters.into_iter().map(|starter| starter.join().unwrap()));
        for (ticket, passed) in looks {
            assert!(passed || passes(&world.rig, ticket, 4), "a start waits for ever");
        }
        assert_eq!(world.rig.sq_tail().peek(), 3, "an operation that was started stays unpublished");
    });
}

/// Starts an operation in a slot that nobody else uses: where its ticket was the next, the tail has passed it when it is committed.
fn start_one(world: &World, slot: Slot) {
    let queue = &world.rig.queue;
    // SAFETY:
    // - nothing else is in flight in the slot
    let operation = unsafe { queue.arm(slot) };
    // SAFETY:
    // - filled and committed below
    let drawn = unsafe { queue.reserve(1) };
    let (first, is_next) = (drawn.first(), drawn.is_next());
    // SAFETY:
    // - drawn above
    unsafe { queue.fill(first, sqe_of(operation, first)) };
    // SAFETY:
    // - drawn and filled above
    unsafe { queue.commit(drawn) };
    if is_next {
        let passed = world.rig.sq_tail().peek().wrapping_sub(first.0);
        assert!((1..=4).contains(&passed), "the next in line is published by its own commit");
    }
}

/// Two starts, of which one may be the next in line.
#[test]
fn start_next() {
    explore(2, world(4, 4), |world: &Arc<World>| {
        let other = spawn(world, |world| start_one(world, Slot(1)));
        start_one(world, Slot(0));
        other.join().unwrap();
    });
}

/// A start behind a ticket that is not filled yet does not return before that one is committed.
#[test]
fn start_behind() {
    explore(2, world(4, 4), |world: &Arc<World>| {
        let queue = &world.rig.queue;
        // SAFETY:
        // - nothing else is in flight in the slot
        let earlier = unsafe { queue.arm(Slot(0)) };
        // SAFETY:
        // - filled and committed below
        let drawn = unsafe { queue.reserve(1) };
        let behind = spawn(world, |world| {
            let ticket = world.rig.submit_one(Slot(1)).1;
            (ticket, world.rig.queue.pass_to(ticket))
        });
        let (ticket, passed) = behind.join().unwrap();
        assert!(!passed, "an earlier ticket is not committed");
        // SAFETY:
        // - drawn above
        unsafe { queue.fill(drawn.first(), sqe_of(earlier, drawn.first())) };
        // SAFETY:
        // - drawn and filled above
        unsafe { queue.commit(drawn) };
        assert!(passes(&world.rig, ticket, 2));
        assert_eq!(world.rig.sq_tail().peek(), 2);
    });
}

/// Two warps begin two each where three may be; one ends what it began. There are never more than three, and none is lost.
#[test]
fn begin_begin() {
    explore(3, world(4, 3), |world: &Arc<World>| {
        let begin = |world: &World| {
            let admitted = world.rig.queue.begin_waits(2);
            let before = world.begun.fetch_add(admitted);
            assert!(before + admitted <= 3, "more are in flight than there may be");
            admitted
        };
        let end = |world: &World, admitted: u32| {
            world.begun.fetch_sub(admitted);
            world.rig.queue.end_waits(admitted);
        };
        let other = spawn(world, move |world| {
            let admitted = begin(world);
            end(world, admitted);
        });
        let admitted = begin(world);
        assert!(admitted >= 1, "three may be, and another takes two");
        end(world, admitted);
        other.join().unwrap();
        assert_eq!(world.rig.queue.begin_waits(4), 3, "as many begin again");
    });
}

/// One slot, and one operation that may be in flight: a lane that is counted when the other's count is taken back gets its slot, if not at the
/// first look ([R-8]).
#[test]
fn begin_claim() {
    explore(3, world(1, 1), |world: &Arc<World>| {
        let once = |world: &World| {
            let queue = &world.rig.queue;
            if queue.begin_wait() {
                // Ends: the slot was given back before the count was.
                let claim = loop {
                    match queue.claim(1, 0) {
                        Some(claim) => break claim,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!(world.begun.fetch_add(1), 0, "another has the slot");
                world.begun.fetch_sub(1);
                queue.release(claim);
                queue.end_wait();
            }
        };
        let other = spawn(world, move |world| once(world));
        once(world);
        other.join().unwrap();
        assert!(world.rig.queue.begin_wait(), "a count was lost");
    });
}

/// The kernel: completes the operation at the tail when it is there, after it has written its memory.
fn complete(world: &World, looks: u32) {
    for _ in 0..looks {
        // ORDERING: acquire, partner the publisher.
        if world.rig.sq_tail().observe() == 1 {
            // SAFETY:
            // - the tail was acquired beyond the ticket
            let sqe = unsafe { world.rig.sqe(0).read() };
            // SAFETY:
            // - the operation's, until its completion
            unsafe { world.memory.write(7) };
            post(&world.rig, 0, sqe.user_data, 7);
            return;
        }
        thread::yield_now();
    }
}

fn post(rig: &Rig, index: u32, user_data: u64, res: i32) {
    // SAFETY:
    // - the entry is free
    unsafe { rig.cqe(index).write(Cqe { user_data, res, flags: 0 }) };
    // ORDERING: release, partner `begin_drain`.
    rig.cq_tail().publish(index + 1);
}

/// Takes a result that is there: what the kernel wrote, and what was delivered.
fn take(world: &World, operation: Operation) -> bool {
    let Outcome::Done(result) = world.rig.queue.outcome(operation) else { return false };
    // SAFETY:
    // - complete
    assert_eq!((unsafe { world.memory.read() }, result), (7, 7), "the memory is as the kernel left it");
    // SAFETY:
    // - claimed by who started it, and taken once
    world.rig.queue.holding(unsafe { SlotClaim::of(operation) }).give_back(None);
    true
}

/// One lane takes a result that another has drained, and a third gets its slot and writes its memory.
#[test]
fn take_again() {
    explore(2, world(1, 1), |world: &Arc<World>| {
        assert_eq!(world.rig.queue.begin_waits(1), 1);
        let slot = Slot(world.rig.queue.claim(1, 0).unwrap().item(0));
        let (operation, ticket) = world.rig.submit_one(slot);
        assert!(world.rig.queue.pass_to(ticket));
        let drainer = spawn(world, |world| {
            complete(world, 1);
            world.rig.queue.drain_alone(1)
        });
        let next = spawn(world, |world| {
            if let Some(claim) = world.rig.queue.claim(1, 0) {
                // SAFETY:
                // - the memory is the next operation's with the slot
                unsafe { world.memory.write(9) };
                world.rig.queue.release(claim);
            }
        });
        take(world, operation);
        drainer.join().unwrap();
        next.join().unwrap();
    });
}

/// A cancel and the completion of its target race: whatever comes first, the target's own completion is the one that ends it, and the second that a
/// cruel kernel posts is stale.
#[test]
fn cancel_late() {
    explore(2, world(2, 1), |world: &Arc<World>| {
        let target = Slot(world.rig.queue.claim(1, 0).unwrap().item(0));
        let (operation, _) = world.rig.submit_one(target);
        let kernel = spawn(world, move |world| {
            complete(world, 1);
            // The same again.
            post(&world.rig, 1, operation.token(), -125);
        });
        let claim = world.rig.queue.claim(1, 1).unwrap();
        // SAFETY:
        // - the slot was just claimed
        let cancel = unsafe { world.rig.queue.arm(Slot(claim.item(0))) };
        world.rig.queue.drain_alone(2);
        assert_eq!(world.rig.queue.outcome(cancel), Outcome::InFlight, "no completion names the cancel");
        if let Outcome::Done(result) = world.rig.queue.outcome(operation) {
            assert_eq!(result, 7, "the first completion counts");
            // SAFETY:
            // - complete
            assert_eq!(unsafe { world.memory.read() }, 7);
        }
        kernel.join().unwrap();
        while world.rig.queue.drain_alone(2) > 0 {}
        assert_eq!(world.rig.queue.outcome(operation), Outcome::Done(7));
    });
}
