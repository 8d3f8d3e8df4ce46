//! A ring that is made anew between two calls ([R-RENEW-1] to [R-RENEW-4]), explored by loom: calls pass the gate, and who makes the ring anew
//! shuts it.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_renew --release`
//!
//! Bounded as `loom.rs` is.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | the queue goes on where the old ring was: its tickets, what is published, or what is drained | `renew_between_calls` |
//! | the gate lets in relaxed | `renew_between_calls` |
//!
//! That a call leaves with a release is `loom_gate`'s to catch.
#![cfg(loom)]
#![expect(unsafe_code, reason = "entries and cells")]

mod rig;

use gpufs_core::abi::{Cqe, Sqe};
use gpufs_core::gate::{Entry, Gate};
use gpufs_core::{Outcome, Slot};
use loom::thread;
use rig::models::{explore, spawn};
use rig::{Rig, Shape, check_sqe};

/// The session that has the tables.
const SESSION: u64 = 1;
/// Operations that the successor has behind it: not where the old ring is, also not modulo its entries.
const PROVED: u32 = 5;

struct World {
    rig: Rig,
    gate: Gate,
}

impl World {
    fn new() -> Self {
        let gate = Gate::new();
        gate.open(SESSION, false);
        Self { rig: Rig::new(Shape::square(2)), gate }
    }

    /// One operation, from its submission to its outcome; the kernel's part is done in between.
    fn operate(&self) {
        let (operation, ticket) = self.rig.submit_one(Slot(0));
        // ORDERING: acquire, partner the publisher.
        assert_eq!(self.rig.sq_tail().observe(), ticket.0 + 1, "what the kernel is to read");
        // SAFETY:
        // - published, and nobody writes it: what is tested
        let sqe = unsafe { self.rig.sqe(ticket.0).read() };
        assert_eq!(check_sqe(sqe, ticket.0), operation);
        // ORDERING: relaxed: the kernel's own word, and the gate orders one call's after another's.
        let tail = self.rig.cq_tail().peek();
        let cqe = Cqe { user_data: operation.token(), res: ticket.0.cast_signed(), flags: 0 };
        // SAFETY:
        // - not published yet, and its last content was consumed: what is tested
        unsafe { self.rig.cqe(tail).write(cqe) };
        // ORDERING: release, partner the poller.
        self.rig.cq_tail().publish(tail + 1);
        self.rig.queue.drain_alone(2);
        assert_eq!(self.rig.queue.outcome(operation), Outcome::Done(ticket.0.cast_signed()));
    }

    fn call(&self) -> Entry {
        let entry = self.gate.enter(SESSION);
        if entry == Entry::Inside {
            self.operate();
            self.gate.leave();
        }
        entry
    }

    /// Another ring, which has proved itself, in the place of this one.
    fn replace(&self) {
        // ORDERING: relaxed, all: plain memory, moved while nobody is there [R-RENEW-1].
        for word in [self.rig.sq_tail(), self.rig.cq_head(), self.rig.cq_tail()] {
            word.set(PROVED);
        }
        for index in 0..2 {
            // SAFETY:
            // - nobody is there: what is tested
            unsafe { self.rig.sqe(index).write(Sqe::default()) };
            // SAFETY:
            // - as above
            unsafe { self.rig.cqe(index).write(Cqe { user_data: 0, res: -1, flags: 0 }) };
        }
        // SAFETY:
        // - nobody uses the queue, and nothing is in flight: what is tested
        unsafe { self.rig.queue.begin_at(PROVED) };
    }

    fn renew(&self) {
        self.gate.exclude();
        while !self.gate.is_empty() {
            thread::yield_now();
        }
        self.replace();
        self.gate.admit();
    }
}

/// A thread calls twice while the ring is made anew: before, after, or refused meanwhile.
#[test]
fn renew_between_calls() {
    explore(4, World::new, |world| {
        let calls = spawn(world, |world| [world.call(), world.call()]);
        world.renew();
        let made = calls.join().unwrap();
        assert!(made.iter().all(|entry| matches!(entry, Entry::Inside | Entry::Excluded)));
        assert_eq!(world.call(), Entry::Inside);
    });
}
