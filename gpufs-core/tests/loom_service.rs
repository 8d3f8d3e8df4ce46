//! A ring that worker threads of the host serve, explored by loom: the words and entries as `ring/workers.rs` of the host uses them, in the same order.
//! One thread takes entries, several carry them out and post, and the device's side is the core's own.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_service --release`
//!
//! Bounded as `loom.rs` is.
//!
//! Tried by hand, one at a time, here and in what stands here for `threads.rs`:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | the SQ tail is stored, or loaded by who takes, relaxed | `submit_take take_lap` |
//! | the SQ head is not moved | `submit_take take_lap` |
//! | two post at once | `post_post` |
//! | the CQ tail is stored, or loaded by the poller, relaxed; it is stored before the entry | `post_post take_lap` |
//!
//! No model catches the CQ head stored, or loaded by who posts, relaxed: who keeps to its slots has had an entry copied before it submits anew, so that
//! the submission brings the order with it.
#![cfg(loom)]
#![allow(unsafe_code, reason = "entries and cells")]

mod rig;

use gpufs_core::abi::{Cqe, Sqe};
use gpufs_core::word::{EntryCell, SharedWord};
use gpufs_core::{Operation, Outcome, Slot};
use loom::sync::{Arc, Mutex};
use loom::thread;
use rig::models::{self, spawn};
use rig::{Rig, Shape, check_sqe};

struct World {
    rig: Rig,
    /// The SQ head.
    head: SharedWord,
    waiting: Mutex<Vec<Sqe>>,
    post: Mutex<()>,
    /// For each slot what its operation moves.
    moved: Vec<EntryCell<u64>>,
}

impl World {
    fn new(entries: u32) -> Self {
        Self {
            rig: Rig::new(Shape::square(entries)),
            head: SharedWord::new(0),
            waiting: Mutex::new(Vec::new()),
            post: Mutex::new(()),
            moved: (0..entries).map(|_| EntryCell::new(0)).collect(),
        }
    }

    /// `Pool::take`. One thread at a time.
    fn take(&self) {
        // ORDERING: acquire, partner the publisher.
        let tail = self.rig.sq_tail().observe();
        // ORDERING: relaxed: only this thread writes it.
        let head = self.head.peek();
        let mut waiting = self.waiting.lock().unwrap();
        for ticket in head..tail {
            // SAFETY:
            // - the tail was acquired beyond the ticket, and the entry not given back: what is tested
            let sqe = unsafe { self.rig.sqe(ticket).read() };
            check_sqe(sqe, ticket);
            waiting.push(sqe);
        }
        // ORDERING: release, partner a producer that looks at the head. The core's keeps to its slots instead.
        self.head.publish(tail);
    }

    /// `Pool::work`, for one entry: carries it out and posts; whether there was one.
    fn work(&self) -> bool {
        let Some(sqe) = self.waiting.lock().unwrap().pop() else { return false };
        let operation = Operation::from_token(sqe.user_data);
        // SAFETY:
        // - the operation's alone, until it is done: what is tested
        unsafe { self.moved[operation.slot.0 as usize].write(sqe.off + 1) };
        let _guard = self.post.lock().unwrap();
        // ORDERING: relaxed: under the lock.
        let tail = self.rig.cq_tail().peek();
        // ORDERING: acquire, partner `advance`.
        while tail.wrapping_sub(self.rig.cq_head().observe()) >= self.rig.shape.cq_entries {
            thread::yield_now();
        }
        let cqe = Cqe { user_data: sqe.user_data, res: sqe.off as i32, flags: 0 };
        // SAFETY:
        // - not published yet, and its last content was consumed: what is tested
        unsafe { self.rig.cqe(tail).write(cqe) };
        // ORDERING: release, partner the poller.
        self.rig.cq_tail().publish(tail.wrapping_add(1));
        true
    }

    /// Drains; whether the operation of a ticket is done. Then it has the result, and what it moved is there.
    fn is_done(&self, operation: Operation, ticket: u32) -> bool {
        self.rig.queue.drain_alone(2);
        match self.rig.queue.outcome(operation) {
            Outcome::InFlight => false,
            Outcome::Done(result) => {
                assert_eq!(result, ticket.cast_signed());
                // SAFETY:
                // - the operation is done: what is tested
                let moved = unsafe { self.moved[operation.slot.0 as usize].read() };
                assert_eq!(moved, u64::from(ticket) + 1);
                true
            }
            Outcome::Stale => panic!("the operation is nobody else's"),
        }
    }
}

fn explore(preemptions: usize, entries: u32, model: impl Fn(&Arc<World>) + Sync + Send + 'static) {
    models::explore(preemptions, move || World::new(entries), model);
}

/// Entries are taken while they are published: whole, each once, in order.
#[test]
fn submit_take() {
    explore(5, 2, |world| {
        let attendant = spawn(world, |world| {
            world.take();
            world.take();
        });
        let _ = [0, 1].map(|slot| world.rig.submit_one(Slot(slot)));
        attendant.join().unwrap();
        world.take();
        let taken: Vec<_> = world.waiting.lock().unwrap().iter().map(|sqe| sqe.off).collect();
        assert_eq!(taken, [0, 1]);
    });
}

/// Two post while the device drains.
#[test]
fn post_post() {
    explore(3, 2, |world| {
        let operations = [0, 1].map(|slot| world.rig.submit_one(Slot(slot)).0);
        world.take();
        let workers = [(); 2].map(|()| spawn(world, World::work));
        let device = spawn(world, move |world| {
            for (ticket, operation) in (0..).zip(operations) {
                world.is_done(operation, ticket);
            }
        });
        device.join().unwrap();
        assert!(workers.into_iter().all(|worker| worker.join().unwrap()));
        assert!((0..).zip(operations).all(|(ticket, operation)| world.is_done(operation, ticket)));
        assert_eq!(world.rig.cq_tail().peek(), 2, "each was posted");
    });
}

/// A ring of one entry, used twice: who finds its operation done submits again, over what was taken and posted.
#[test]
fn take_lap() {
    explore(4, 1, |world| {
        let (first, _) = world.rig.submit_one(Slot(0));
        let service = spawn(world, |world| {
            for _ in 0..2 {
                world.take();
                world.work();
            }
        });
        let device =
            spawn(world, move |world| world.is_done(first, 0).then(|| world.rig.submit_one(Slot(0)).0));
        let second = device.join().unwrap();
        service.join().unwrap();
        world.take();
        world.work();
        assert!(match second {
            Some(second) => world.is_done(second, 1),
            None => world.is_done(first, 0),
        });
    });
}
