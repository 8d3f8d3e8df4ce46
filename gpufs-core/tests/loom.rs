//! The interleavings of the core and what weak memory makes of them, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom --release`
//!
//! Loops that wait are bounded here (a run in which they give up shows nothing more), and involuntary switches in one run are at
//! most the number at the model: without those limits the state space is too large.
//!
//! Each model was seen to fail. Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | `reserve` draws relaxed | `lap` |
//! | the tail is stored relaxed | `publish_publish publish_three lap release_claim sleep_attended sleep_fenced` |
//! | the ready mark is stored, or loaded, relaxed | `publish_publish publish_three lap` |
//! | the ready mark is cleared after the tail store | `lap` |
//! | the ready mark is never cleared | `lap` |
//! | the publisher subtracts before it scans | `lap` |
//! | the publisher leaves with commits unserved | `publish_publish publish_three lap` |
//! | a publisher subtracts from `tickets` relaxed | `publish_publish publish_three lap` |
//! | a committer adds to `tickets` relaxed | `lap` |
//! | commits left behind are adopted by two; `orphaned` is stored relaxed | `adopt_adopt` |
//! | a poller adopts nothing | `left_to_poller` |
//! | every committer publishes | `publish_publish publish_three lap` |
//! | no poller's lock, or it is given back relaxed | `drain_drain` |
//! | `drained` is stored after the lock is given back | `drain_drain` |
//! | the CQ tail is loaded relaxed | `drain_drain outcome_deliver lap release_claim` |
//! | the CQ head is stored relaxed, or before the copies | `drain_drain` |
//! | delivery before the CQ head is stored | `advance_deliver` |
//! | delivery whatever the generation | `drain_drain` |
//! | delivery by a relaxed store; `outcome` loads relaxed | `outcome_deliver` |
//! | `release_fence` does nothing | `outcome_deliver advance_deliver` |
//! | slots are claimed relaxed | `claim_claim release_claim` |
//! | slots are released relaxed | `claim_claim` |
//! | a claim that lost a race gives up | `claim_claim lap` |
//! | `wake_fence` is acquire and release only | `sleep_fenced park_attendant` |
//! | the attendant looks once | `sleep_attended` |
//! | a failed ring's tail is taken for completions; the poller's lock is kept then | `fail_drain` |
//!
//! Two more are the model test's: the search hint reduced after the sum, and generations that reach 0.
#![cfg(loom)]
#![allow(unsafe_code, reason = "entries and the queue's unsafe steps")]

mod rig;

use gpufs_core::abi::{Cqe, IORING_SQ_NEED_WAKEUP};
use gpufs_core::word::{EntryCell, SharedWord, wake_fence};
use gpufs_core::{Operation, Outcome, Poll, Queue, Slot};
use loom::sync::Arc;
use loom::thread;
use rig::models::{self, spawn};
use rig::{Rig, Shape, check_sqe, sqe_of};

/// Explores `model`, with at most `preemptions` involuntary switches in one run.
fn explore(preemptions: usize, model: impl Fn(&Arc<Rig>) + Sync + Send + 'static, shape: Shape) {
    models::explore(preemptions, move || Rig::new(shape), model);
}

/// Submits a batch that fills `count` slots from `first` on, which the caller holds.
fn submit_batch(rig: &Rig, first: u32, count: u32) {
    // SAFETY:
    // - the caller holds the slots, in which nothing is in flight
    let operations: Vec<_> =
        (first..first + count).map(|slot| unsafe { rig.queue.arm(Slot(slot)) }).collect();
    // SAFETY:
    // - the slots were claimed for this batch, which is filled and committed below, with nothing between that could fail
    let drawn = unsafe { rig.queue.reserve(count) };
    let ticket = drawn.first();
    for (rank, operation) in (0..).zip(operations) {
        // SAFETY:
        // - the ticket was just drawn by this thread
        unsafe { rig.queue.fill(ticket.plus(rank), sqe_of(operation, ticket.plus(rank))) };
    }
    // SAFETY:
    // - the tickets were drawn together, and each has been filled
    unsafe { rig.queue.commit(drawn) };
}

/// Looks for a completion at most `looks` times; whether the operation was found done.
fn wait_briefly(rig: &Rig, operation: Operation, looks: u32) -> bool {
    for _ in 0..looks {
        rig.queue.drain_alone(2);
        if rig.queue.outcome(operation) != Outcome::InFlight {
            return true;
        }
        thread::yield_now();
    }
    false
}

/// Reads the SQEs from `head` to the tail as it is now, as the kernel does; the operations, and the new head.
fn read_new(rig: &Rig, head: u32) -> (Vec<Operation>, u32) {
    // ORDERING: acquire, partner the publisher.
    let tail = rig.sq_tail().observe();
    assert!(tail.wrapping_sub(head) <= rig.shape.sq_entries, "the tail went backwards or too far");
    // SAFETY:
    // - the tail was acquired beyond the tickets; nobody writes the entries before the operations' completion
    let read = |ticket| check_sqe(unsafe { rig.sqe(ticket).read() }, ticket);
    ((head..tail).map(read).collect(), tail)
}

/// Posts a completion at `index`, as the kernel does. By [P-CQ] there is room, and the head that says so is visible
/// since the tail was acquired: the look is relaxed, like the kernel's own.
fn post(rig: &Rig, index: u32, cqe: Cqe) {
    let used = index.wrapping_sub(rig.cq_head().peek());
    assert!(used < rig.shape.cq_entries, "the CQ overflows");
    // SAFETY:
    // - the entry is free, by the head
    unsafe { rig.cqe(index).write(cqe) };
    // ORDERING: release, partner `begin_drain`.
    rig.cq_tail().publish(index.wrapping_add(1));
}

fn completion(operation: Operation, res: i32) -> Cqe {
    Cqe { user_data: operation.token(), res, flags: 0 }
}

/// The kernel: looks at the tail at most `looks` times, and completes what it finds in order.
fn serve_briefly(rig: &Rig, looks: u32) {
    let mut head = 0;
    for _ in 0..looks {
        let (operations, tail) = read_new(rig, head);
        for (ticket, operation) in (head..).zip(operations) {
            post(rig, ticket, completion(operation, ticket.cast_signed()));
        }
        head = tail;
        thread::yield_now();
    }
}

// Submission.

/// Two batches are committed at once while the kernel looks: it sees only filled entries, the tail only grows, and when both are back
/// nothing ready is left.
#[test]
fn publish_publish() {
    let model = |rig: &Arc<Rig>| {
        let first = spawn(rig, |rig| submit_batch(rig, 0, 2));
        let second = spawn(rig, |rig| submit_batch(rig, 2, 1));
        let (_, head) = read_new(rig, 0);
        let (_, head) = read_new(rig, head);
        first.join().unwrap();
        second.join().unwrap();
        // A publisher may have left one to whoever waits.
        rig.queue.adopt();
        let (_, head) = read_new(rig, head);
        assert_eq!(head, 3, "a ready batch stays unpublished");
    };
    explore(4, model, Shape::square(4));
}

/// The same with three committers, so that a publisher finds two commits it has not served.
#[test]
fn publish_three() {
    let model = |rig: &Arc<Rig>| {
        let others = [0, 1].map(|slot| spawn(rig, move |rig| submit_batch(rig, slot, 1)));
        submit_batch(rig, 2, 1);
        let (_, head) = read_new(rig, 0);
        others.into_iter().for_each(|other| other.join().unwrap());
        rig.queue.adopt();
        assert_eq!(read_new(rig, head).1, 3, "a ready batch stays unpublished");
    };
    explore(3, model, Shape::square(4));
}

/// What a publisher left behind is adopted once, while another commits.
#[test]
fn adopt_adopt() {
    let model = |rig: &Arc<Rig>| {
        let committer = spawn(rig, |rig| submit_batch(rig, 0, 1));
        let adopter = spawn(rig, |rig| rig.queue.adopt());
        submit_batch(rig, 1, 1);
        rig.queue.adopt();
        let (_, head) = read_new(rig, 0);
        committer.join().unwrap();
        adopter.join().unwrap();
        rig.queue.adopt();
        assert_eq!(read_new(rig, head).1, 2, "a ready batch stays unpublished");
    };
    explore(3, model, Shape::square(4));
}

/// What a publisher left behind is published by the next lane that polls.
#[test]
fn left_to_poller() {
    let model = |rig: &Arc<Rig>| {
        // SAFETY:
        // - nobody claims slots here; each batch is filled and committed below
        let [first, second] = [(); 2].map(|()| unsafe { rig.queue.reserve(1) });
        for (slot, ticket) in [(0, first.first()), (1, second.first())] {
            // SAFETY:
            // - nothing is in flight in the slot
            let operation = unsafe { rig.queue.arm(Slot(slot)) };
            // SAFETY:
            // - the ticket was just drawn by this thread
            unsafe { rig.queue.fill(ticket, sqe_of(operation, ticket)) };
        }
        for batch in [second, first] {
            // SAFETY:
            // - filled above
            unsafe { rig.queue.commit(batch) };
        }
        // Its publisher has left one to whoever waits.
        submit_batch(rig, 2, 1);
        assert_eq!(rig.sq_tail().peek(), 2);
        assert_eq!(rig.queue.poll(1, 1, true), Poll::Empty);
        assert_eq!(rig.sq_tail().peek(), 3, "a ready batch stays unpublished");
    };
    explore(1, model, Shape::square(4));
}

/// An index is used again: its SQE was read and its mark cleared before, even if the new ticket's slot was claimed long ago.
#[test]
fn lap() {
    let model = |rig: &Arc<Rig>| {
        let twice = spawn(rig, |rig| {
            let slot = Slot(rig.queue.claim(1, 0).unwrap().item(0));
            let (operation, ticket) = rig.submit_one(slot);
            if !wait_briefly(rig, operation, 2) {
                return 1;
            }
            assert_eq!(rig.queue.outcome(operation), Outcome::Done(ticket.0.cast_signed()));
            rig.submit_one(slot);
            2
        });
        let once = spawn(rig, |rig| {
            let slot = Slot(rig.queue.claim(1, 0).unwrap().item(0));
            rig.submit_one(slot);
        });
        serve_briefly(rig, 3);
        let submitted = twice.join().unwrap() + 1;
        once.join().unwrap();
        rig.queue.adopt();
        assert_eq!(rig.sq_tail().peek(), submitted, "a ready batch stays unpublished");
    };
    explore(3, model, Shape::square(2));
}

// Completion.

/// Two pollers: each completion is handed on once, and an entry that the kernel uses again was copied before.
#[test]
fn drain_drain() {
    let model = |rig: &Arc<Rig>| {
        // SAFETY:
        // - nobody claims slots here
        let operations = [0, 1].map(|slot| unsafe { rig.queue.arm(Slot(slot)) });
        let pollers = [0, 1].map(|_| {
            spawn(rig, |rig| {
                rig.queue.drain_alone(1);
                rig.queue.drain_alone(2);
            })
        });
        post(rig, 0, completion(operations[0], 0));
        post(rig, 1, completion(operations[1], 1));
        // ORDERING: acquire, partner `advance`: here no tail says that the head moved.
        let posted = if rig.cq_head().observe() == 0 { 2 } else { 3 };
        if posted == 3 {
            // Nobody waits for this one.
            post(rig, 2, completion(operations[0], 2));
        }
        pollers.into_iter().for_each(|poller| poller.join().unwrap());
        while rig.queue.drain_alone(1) != 0 {}
        assert_eq!(rig.queue.outcome(operations[0]), Outcome::Done(0));
        assert_eq!(rig.queue.outcome(operations[1]), Outcome::Done(1));
        assert_eq!(rig.queue.counters().completions.peek(), posted);
        assert_eq!(rig.queue.counters().stale.peek(), posted - 2);
    };
    explore(3, model, Shape::square(2));
}

/// One lane polls, another waits for its own slot alone: what the kernel wrote into the buffer is there with the result.
#[test]
fn outcome_deliver() {
    let model = |rig: &Arc<Rig>| {
        let buffer = Arc::new(EntryCell::new(0u64));
        // SAFETY:
        // - nobody claims slots here
        let operation = unsafe { rig.queue.arm(Slot(0)) };
        let poller = spawn(rig, |rig| {
            rig.queue.drain_alone(1);
            thread::yield_now();
            rig.queue.drain_alone(1);
        });
        let written = Arc::clone(&buffer);
        let kernel = spawn(rig, move |rig| {
            // SAFETY:
            // - the operation is in flight: the buffer is the kernel's
            unsafe { written.write(7) };
            post(rig, 0, completion(operation, 8));
        });
        for _ in 0..2 {
            if let Outcome::Done(res) = rig.queue.outcome(operation) {
                // SAFETY:
                // - the operation is done: the buffer is the waiter's
                assert_eq!((res, unsafe { buffer.read() }), (8, 7));
            }
            thread::yield_now();
        }
        poller.join().unwrap();
        kernel.join().unwrap();
    };
    explore(4, model, Shape::square(1));
}

/// The last slot changes hands: the kernel, when it sees the next SQE, also sees that the CQ entry is free. One entry each, so that
/// any CQE too many is an overflow.
#[test]
fn release_claim() {
    let model = |rig: &Arc<Rig>| {
        let claim = rig.queue.claim(1, 0).unwrap();
        let next = spawn(rig, |rig| {
            for _ in 0..2 {
                if let Some(claim) = rig.queue.claim(1, 0) {
                    rig.submit_one(Slot(claim.item(0)));
                    return;
                }
                thread::yield_now();
            }
        });
        let kernel = spawn(rig, |rig| serve_briefly(rig, 3));
        let (operation, _) = rig.submit_one(Slot(0));
        if wait_briefly(rig, operation, 2) {
            rig.queue.release(claim);
        }
        next.join().unwrap();
        kernel.join().unwrap();
    };
    explore(4, model, Shape::square(1));
}

/// One lane polls, another goes on in the slot that it was told of: the kernel, when it sees the next SQE, has room for its CQE.
#[test]
fn advance_deliver() {
    let model = |rig: &Arc<Rig>| {
        let poller = spawn(rig, |rig| {
            rig.queue.drain_alone(1);
            thread::yield_now();
            rig.queue.drain_alone(1);
        });
        let kernel = spawn(rig, |rig| serve_briefly(rig, 3));
        let (operation, _) = rig.submit_one(Slot(0));
        for _ in 0..2 {
            if rig.queue.outcome(operation) != Outcome::InFlight {
                rig.submit_one(Slot(0));
                break;
            }
            thread::yield_now();
        }
        poller.join().unwrap();
        kernel.join().unwrap();
    };
    explore(3, model, Shape::square(1));
}

/// Two claims reach for the same item: each gets one, and what its last owner left there is visible.
#[test]
fn claim_claim() {
    let model = |rig: &Arc<Rig>| {
        let items: Arc<[EntryCell<u32>; 2]> = Arc::new([EntryCell::new(0), EntryCell::new(0)]);
        let others = [Arc::clone(&items), items].map(|items| {
            spawn(rig, move |rig| {
                for _ in 0..2 {
                    let claim = rig.queue.claim(1, 0).expect("there are as many items as claims");
                    let item = &items[claim.item(0) as usize];
                    // SAFETY:
                    // - the item is this thread's until it is released
                    let before = unsafe { item.read() };
                    // SAFETY:
                    // - as above
                    unsafe { item.write(before + 1) };
                    rig.queue.release(claim);
                }
            })
        });
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(rig.queue.free_slots(), 2);
    };
    explore(3, model, Shape::square(2));
}

// Sleep. A wake-up that is lost is a deadlock, which loom reports.

/// The kernel's polling thread until it has one SQE: announce, look again, sleep.
fn poll_and_sleep(rig: &Rig) {
    while read_new(rig, 0).1 == 0 {
        // ORDERING: relaxed: the fence orders it before the second look.
        rig.sq_flags().set(IORING_SQ_NEED_WAKEUP);
        wake_fence();
        if read_new(rig, 0).1 == 0 {
            thread::park();
        }
        rig.sq_flags().set(0);
    }
}

/// An attendant that looks at the flag and the tail again and again, with no order at all, until the SQE was read.
#[test]
fn sleep_attended() {
    let model = |rig: &Arc<Rig>| {
        let read = Arc::new(SharedWord::new(0));
        let done = Arc::clone(&read);
        let kernel = spawn(rig, move |rig| {
            poll_and_sleep(rig);
            done.publish(1);
        });
        let producer = spawn(rig, |rig| rig.submit_one(Slot(0)));
        while read.observe() == 0 {
            // ORDERING: relaxed: a stale look is followed by a fresh one.
            if rig.sq_flags().peek() & IORING_SQ_NEED_WAKEUP != 0 && rig.sq_tail().peek() != 0 {
                kernel.thread().unpark();
            }
            thread::yield_now();
        }
        producer.join().unwrap();
        kernel.join().unwrap();
    };
    explore(2, model, Shape::square(1));
}

/// A producer on the host that looks at the flag once, with the fence between.
#[test]
fn sleep_fenced() {
    let model = |rig: &Arc<Rig>| {
        let kernel = spawn(rig, poll_and_sleep);
        rig.submit_one(Slot(0));
        wake_fence();
        // ORDERING: relaxed: the fence orders it after the tail's store.
        if rig.sq_flags().peek() & IORING_SQ_NEED_WAKEUP != 0 {
            kernel.thread().unpark();
        }
        kernel.join().unwrap();
    };
    explore(4, model, Shape::square(1));
}

/// The host announces work (a launch) to an attendant that is about to park.
#[test]
fn park_attendant() {
    loom::model(|| {
        let words = Arc::new([SharedWord::new(0), SharedWord::new(0)]);
        let attendant = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                let [work, parked] = &*words;
                while work.observe() == 0 {
                    parked.set(1);
                    wake_fence();
                    if work.observe() == 0 {
                        thread::park();
                    }
                    parked.set(0);
                }
            })
        };
        let [work, parked] = &*words;
        work.publish(1);
        wake_fence();
        if parked.peek() != 0 {
            attendant.thread().unpark();
        }
        attendant.join().unwrap();
    });
}

/// A ring fails while its last completion is posted and somebody drains: that completion is handed on or not, nothing else is, and whoever looks
/// after the host's next look finds the failure, one after the other.
#[test]
fn fail_drain() {
    let model = |rig: &Arc<Rig>| {
        let (operation, _) = rig.submit_one(Slot(0));
        let kernel = spawn(rig, move |rig| post(rig, 0, completion(operation, 7)));
        let poller = spawn(rig, |rig| rig.queue.drain_alone(2));
        // ORDERING: acquire, partner the poller; release, partner the pollers.
        let fail = || rig.cq_tail().publish(Queue::failed_tail(rig.cq_head().observe()));
        fail();
        let taken = rig.queue.drain_alone(2) + poller.join().unwrap();
        kernel.join().unwrap();
        fail();
        for _ in 0..2 {
            assert_eq!(rig.queue.poll(2, 1, true), Poll::Failed);
        }
        let expected = if taken == 0 { Outcome::InFlight } else { Outcome::Done(7) };
        assert_eq!((rig.queue.outcome(operation), taken < 2), (expected, true));
    };
    explore(3, model, Shape::square(2));
}
