//! Chains ([R-CHAIN-1] to [R-CHAIN-3]), explored by loom: the kernel sees a chain as a whole and with nothing between its links, whoever publishes
//! it; chains are counted whole or not at all; and those that gather their slots one by one come to all of them.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_chain --release`
//!
//! Bounded as `loom.rs` is.
//!
//! Each row is tried by `cargo xtask mutants`:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | a batch is marked ticket by ticket | `chain_behind` |
//! | the tail is stored for each ticket | `chain_chain chain_behind` |
//! | the mark is read relaxed | `chain_chain chain_behind` |
//! | what is left of a chain stays counted | `count_count` |
//! | a part of a chain is admitted | `count_count` |
#![cfg(loom)]
#![expect(unsafe_code, reason = "entries and the queue's unsafe steps")]

mod rig;

use gpufs_core::abi::Sqe;
use gpufs_core::{Operation, Slot, Ticket};
use loom::sync::Arc;
use loom::thread;
use rig::models::{explore, spawn};
use rig::{Rig, Shape, sqe_of};

fn ring(entries: u32, most: u32) -> impl Fn() -> Rig {
    move || {
        let rig = Rig::new(Shape::square(entries));
        rig.queue.limit_waits(most);
        rig
    }
}

/// The entry of a link: of its place in the chain, and of how many.
fn link(operation: Operation, ticket: Ticket, place: usize, links: usize) -> Sqe {
    let sqe = Sqe { len: place as u32, op_flags: links as u32, ..sqe_of(operation, ticket) };
    if place + 1 < links { sqe.with_next(false) } else { sqe }
}

/// Submits a chain in slots that the caller holds.
fn submit_chain(rig: &Rig, slots: &[u32]) {
    // SAFETY:
    // - the caller holds the slots, in which nothing is in flight
    let operations: Vec<_> = slots.iter().map(|slot| unsafe { rig.queue.arm(Slot(*slot)) }).collect();
    // SAFETY:
    // - the slots were claimed for this batch, which is filled and committed below, with nothing between that could fail
    let drawn = unsafe { rig.queue.reserve(slots.len() as u32) };
    let first = drawn.first();
    for (place, operation) in operations.into_iter().enumerate() {
        let ticket = first.plus(place as u32);
        // SAFETY:
        // - the ticket was just drawn by this thread
        unsafe { rig.queue.fill(ticket, link(operation, ticket, place, slots.len())) };
    }
    // SAFETY:
    // - the tickets were drawn together, and each has been filled
    unsafe { rig.queue.commit(drawn) };
}

/// Reads what was published since `head`, as the kernel does, which ends a chain where what it has read ends: each chain is whole. The new head.
fn read_chains(rig: &Rig, head: u32) -> u32 {
    // ORDERING: acquire, partner the publisher.
    let tail = rig.sq_tail().observe();
    let mut next = (0, 0);
    for ticket in head..tail {
        // SAFETY:
        // - the tail was acquired beyond the tickets; nobody writes the entries before the operations' completion
        let sqe = unsafe { rig.sqe(ticket).read() };
        let (place, links) = (sqe.len, sqe.op_flags);
        assert!(links > 0, "an entry that was not filled");
        assert!(
            if next.0 == 0 { place == 0 } else { (place, links) == next },
            "something is between two links"
        );
        assert_eq!(sqe.flags != 0, place + 1 < links, "the last of a chain has no next, and each other has");
        next = if place + 1 < links { (place + 1, links) } else { (0, 0) };
    }
    assert_eq!(next.0, 0, "the tail stands inside a chain");
    tail
}

/// Two chains are committed at once while the kernel looks.
#[test]
fn chain_chain() {
    explore(3, ring(4, 4), |rig: &Arc<Rig>| {
        let other = spawn(rig, |rig| submit_chain(rig, &[0, 1]));
        let kernel = spawn(rig, |rig| {
            let head = read_chains(rig, 0);
            read_chains(rig, head)
        });
        submit_chain(rig, &[2, 3]);
        other.join().unwrap();
        let head = kernel.join().unwrap();
        rig.queue.adopt();
        assert_eq!(read_chains(rig, head), 4, "a chain stays unpublished");
    });
}

/// A chain is committed behind a ticket that was drawn before and is not committed: whoever publishes it later passes all of it at once.
#[test]
fn chain_behind() {
    explore(3, ring(4, 4), |rig: &Arc<Rig>| {
        let first = spawn(rig, |rig| submit_chain(rig, &[0]));
        let second = spawn(rig, |rig| submit_chain(rig, &[1, 2, 3]));
        let head = read_chains(rig, 0);
        let head = read_chains(rig, head);
        first.join().unwrap();
        second.join().unwrap();
        rig.queue.adopt();
        assert_eq!(read_chains(rig, head), 4, "a chain stays unpublished");
    });
}

/// Two lanes count a chain of two where three may be: one of them, or one after the other, and nothing of a chain that is refused stays counted.
#[test]
fn count_count() {
    explore(3, ring(4, 3), |rig: &Arc<Rig>| {
        let count = |rig: &Rig| {
            let chains = rig.queue.begin_chains(1, 2);
            assert!(chains <= 1);
            if chains == 1 {
                rig.queue.end_waits(2);
            }
        };
        let other = spawn(rig, count);
        count(rig);
        other.join().unwrap();
        assert_eq!(rig.queue.waits(), 0, "a chain that was refused or has ended stays counted");
        assert_eq!(rig.queue.begin_chains(2, 2), 1, "of three that may be, one chain of two");
        assert_eq!(rig.queue.waits(), 2);
    });
}

/// Two chains of two gather their slots, of which there are four, while a call has one of them for a while: both come to theirs.
#[test]
fn gather_gather() {
    explore(2, ring(4, 4), |rig: &Arc<Rig>| {
        let gather = |rig: &Rig| {
            assert_eq!(rig.queue.begin_chains(1, 2), 1);
            let mut slots = Vec::new();
            // Ends: loom's bound on branches fails where it does not.
            while slots.len() < 2 {
                match rig.queue.claim(1, 0) {
                    Some(claim) => slots.push(claim.item(0)),
                    None => thread::yield_now(),
                }
            }
            slots
        };
        let call = rig.queue.claim(1, 0).unwrap();
        let other = spawn(rig, gather);
        let releases = spawn(rig, |rig| rig.queue.adopt());
        rig.queue.release(call);
        let mut all = gather(rig);
        all.extend(other.join().unwrap());
        releases.join().unwrap();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3], "each slot is one link's");
    });
}
