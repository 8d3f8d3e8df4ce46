//! How long the core's steps take on a CPU: a queue against a thread that plays the kernel.
#![allow(unsafe_code, reason = "the queue's steps")]

#[path = "../tests/rig/mod.rs"]
mod rig;

use std::thread;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use gpufs_core::abi::Cqe;
use gpufs_core::word::SharedWord;
use gpufs_core::{Outcome, Queue, Slot};

use rig::{Rig, Shape, sqe_of};

fn main() {
    divan::main();
}

/// The kernel: completes entries in order, until `stop` is 1.
fn serve(rig: &Rig, stop: &SharedWord) {
    let mut head = 0_u32;
    while stop.peek() == 0 {
        // ORDERING: acquire, system, partner the queue's publisher.
        let tail = rig.sq_tail().observe();
        while head != tail {
            // SAFETY:
            // - published, and not filled again before its completion was drained
            let sqe = unsafe { rig.sqe(head).read() };
            // SAFETY:
            // - as many completions as submissions fit, and credits bound both
            unsafe { rig.cqe(head).write(Cqe { user_data: sqe.user_data, ..Cqe::default() }) };
            head = head.wrapping_add(1);
        }
        // ORDERING: release, system, partner the queue's poller.
        rig.cq_tail().publish(head);
        // Where cores are few, the other thread needs this one.
        thread::yield_now();
    }
}

/// A batch from claim to release, one lane playing all.
fn round_trip(queue: &Queue, batch: u32) {
    let Some(claim) = queue.claim(batch, 0) else { return };
    // SAFETY:
    // - claimed above, and released below when every outcome is known
    let operations: Vec<_> =
        (0..claim.count()).map(|rank| unsafe { queue.arm(Slot(claim.item(rank))) }).collect();
    // SAFETY:
    // - the slots were claimed for this batch, which is filled and committed below, with nothing between that could fail
    let drawn = unsafe { queue.reserve(claim.count()) };
    let ticket = drawn.first();
    for (rank, operation) in (0..).zip(&operations) {
        // SAFETY:
        // - the ticket was just drawn by this thread
        unsafe { queue.fill(ticket.plus(rank), sqe_of(*operation, ticket.plus(rank))) };
    }
    // SAFETY:
    // - the tickets were drawn together, and each has been filled
    unsafe { queue.commit(drawn) };
    // Ends: the other thread completes what was committed.
    for operation in operations {
        while queue.outcome(operation) == Outcome::InFlight {
            if queue.drain_alone(64) == 0 {
                thread::yield_now();
            }
        }
    }
    queue.release(claim);
}

/// Submitting a batch and having it back.
#[divan::bench(args = [1, 8, 32])]
fn queue_round_trip(bencher: Bencher<'_, '_>, batch: u32) {
    let (rig, stop) = (Rig::new(Shape::square(256)), SharedWord::new(0));
    thread::scope(|scope| {
        scope.spawn(|| serve(&rig, &stop));
        bencher.counter(ItemsCount::new(batch)).bench_local(|| round_trip(&rig.queue, black_box(batch)));
        stop.set(1);
    });
}
