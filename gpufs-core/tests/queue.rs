//! Steps of a queue by one thread that are no part of the model's: what the host asks when no kernel runs, and completions that name no operation.
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "the queue's unsafe steps")]

mod rig;

use gpufs_core::abi::Cqe;
use gpufs_core::word::SharedWord64;
use gpufs_core::{Delivery, Operation, Outcome, Poll, Queue, Slot, SlotClaim};
use rig::{Rig, Shape};

/// A ring of eight entries and five slots.
fn shape() -> Shape {
    Shape { capacity: 5, cq_entries: 16, ..Shape::square(8) }
}

/// Claims a slot and puts it in flight.
fn begun(rig: &Rig) -> (SlotClaim, Operation) {
    let claim = rig.queue.claim(1, 0).unwrap();
    // SAFETY:
    // - claimed above; nothing is submitted
    let operation = unsafe { rig.queue.arm(Slot(claim.item(0))) };
    (claim, operation)
}

/// Posts a completion, as the kernel does.
fn post(rig: &Rig, user_data: u64, res: i32) {
    let tail = rig.cq_tail().peek();
    // SAFETY:
    // - each is drained before the next is posted
    unsafe { rig.cqe(tail).write(Cqe { user_data, res, ..Cqe::default() }) };
    rig.cq_tail().publish(tail.wrapping_add(1));
}

/// Drains one completion, and keeps its result if that is asked for; its delivery.
fn drained(rig: &Rig) -> Delivery {
    let drain = rig.queue.begin_drain(1).unwrap();
    let copies = [Some(rig.queue.entry(&drain, 0))];
    rig.queue.keep(&copies);
    // SAFETY:
    // - the entry was copied above
    unsafe { rig.queue.advance(&drain) };
    let [delivery] = rig.queue.deliver_all(&copies);
    // SAFETY:
    // - advanced and delivered above
    unsafe { rig.queue.end_drain(drain) };
    delivery.unwrap()
}

#[test]
fn slots_are_counted() {
    let rig = Rig::new(shape());
    assert_eq!((rig.queue.capacity(), rig.queue.free_slots()), (5, 5));
    let claim = rig.queue.claim(3, 0).unwrap();
    assert_eq!((rig.queue.capacity(), rig.queue.free_slots()), (5, 2));
    rig.queue.release(claim);
    assert_eq!((rig.queue.capacity(), rig.queue.free_slots()), (5, 5));
}

/// Whatever number the kernel's memory holds: what is no operation in flight is counted, and touches nothing.
#[test]
fn a_completion_that_names_no_operation_is_stale() {
    let results: Vec<_> = (0..6).map(|_| SharedWord64::new(77)).collect();
    for rig in [Rig::new(shape()), Rig::with_results(shape(), results.as_ptr())] {
        let (_claim, operation) = begun(&rig);
        let token = |slot: u32, generation: u64| generation << 32 | u64::from(slot);
        let generation = u64::from(operation.generation);
        let mut strangers = vec![
            token(0, 0),
            token(operation.slot.0, generation + 1),
            token(operation.slot.0, 0),
            token(1, 1),
            token(5, generation),
            token(5, 0),
            token(8, generation),
            token(u32::MAX, generation),
            token(1, 0),
            token(operation.slot.0, 1 << 31),
            u64::MAX,
        ];
        strangers.extend([token(5, generation), token(1, 0)].map(|token| token | Operation::JOURNALED));
        for (count, stranger) in (1..).zip(strangers) {
            post(&rig, stranger, -5);
            assert_eq!(drained(&rig), Delivery::Stale, "{stranger:#x}");
            assert_eq!(rig.queue.counters().stale.peek(), count);
        }
        assert_eq!(rig.queue.outcome(operation), Outcome::InFlight);
        post(&rig, operation.token(), -5);
        assert_eq!(drained(&rig), Delivery::Delivered);
        assert_eq!(rig.queue.outcome(operation), Outcome::Done(-5));
    }
    assert!(results.iter().all(|result| result.peek() == 77), "nobody asked to keep one");
}

/// Where the queue keeps no results, none is asked for: the bit that would do so is part of a number that is no operation.
#[test]
fn results_are_kept_where_there_is_room_for_them() {
    let results: Vec<_> = (0..5).map(|_| SharedWord64::new(0)).collect();
    let keeps = Rig::with_results(shape(), results.as_ptr());
    let forgets = Rig::new(shape());
    assert_eq!((keeps.queue.keeps_results(), forgets.queue.keeps_results()), (true, false));
    for (rig, delivery) in [(keeps, Delivery::Delivered), (forgets, Delivery::Stale)] {
        let (claim, operation) = begun(&rig);
        post(&rig, operation.token() | Operation::JOURNALED, 3);
        assert_eq!(drained(&rig), delivery);
        assert_eq!(results[claim.item(0) as usize].peek(), u64::from(operation.generation) << 32 | 3);
    }
}

/// From any index: a ring whose completion queue is full has not failed.
#[test]
fn a_ring_has_failed_when_the_host_says_so() {
    for first_completion in [0, 7, u32::MAX - 3] {
        let rig = Rig::new(Shape { first_completion, ..shape() });
        for posted in 0..=16 {
            rig.cq_tail().set(first_completion.wrapping_add(posted));
            assert!(!rig.queue.has_failed(), "{posted} completions");
        }
        rig.cq_tail().set(Queue::failed_tail(first_completion));
        assert!(rig.queue.has_failed());
        assert_eq!(rig.queue.poll(1, 1, true), Poll::Failed);
    }
}

#[test]
fn a_result_that_nobody_took_is_found_while_the_slot_is_held() {
    let rig = Rig::new(shape());
    let (claim, operation) = begun(&rig);
    let slot = operation.slot;
    assert_eq!((rig.queue.untaken(slot), rig.queue.untaken(Slot(4))), (None, None));
    post(&rig, operation.token(), -7);
    assert_eq!(drained(&rig), Delivery::Delivered);
    assert_eq!((rig.queue.untaken(slot), rig.queue.in_flight(slot)), (Some(-7), None));
    rig.queue.release(claim);
    assert_eq!(rig.queue.untaken(slot), None);
    // As after a result of 0.
    let (_claim, operation) = begun(&rig);
    assert_eq!(rig.queue.untaken(operation.slot), None);
    post(&rig, operation.token(), 0);
    assert_eq!(drained(&rig), Delivery::Delivered);
    assert_eq!(rig.queue.untaken(operation.slot), Some(0));
}

#[test]
fn what_may_never_end_is_noted_until_its_result_is_taken_or_its_slot_is_free() {
    let rig = Rig::new(shape());
    let noted = |operation: Operation| rig.queue.in_flight(operation.slot);
    let (claim, operation) = begun(&rig);
    assert_eq!(noted(operation), Some((operation, false)));
    rig.queue.note_endless(operation);
    assert_eq!(noted(operation), Some((operation, true)));
    rig.queue.clear_endless(operation);
    assert_eq!(noted(operation), Some((operation, false)));
    // A kernel's end: the slot is free, and the note stands.
    rig.queue.note_endless(operation);
    rig.queue.release(claim);
    assert_eq!(noted(operation), None);
    let (claim, first) = begun(&rig);
    let (_claim, second) = begun(&rig);
    rig.queue.note_endless(second);
    rig.queue.release(claim);
    rig.queue.begin_round(1);
    assert_eq!((rig.queue.waits(), rig.queue.round()), (1, 1));
    assert_eq!(noted(second), Some((second, true)), "it is still in flight");
    let (_claim, again) = begun(&rig);
    assert_eq!(again.slot, first.slot);
    assert_eq!(noted(again), Some((again, false)));
}

/// Chains begin whole, and what is left over of the waits that may be is given back.
#[test]
fn chains_begin_whole_or_not_at_all() {
    for (most, wanted, links, begun) in
        [(10, 3, 3, 3), (10, 4, 3, 3), (9, 3, 3, 3), (2, 1, 3, 0), (8, 2, 4, 2), (7, 2, 4, 1)]
    {
        let rig = Rig::new(Shape { capacity: 16, ..Shape::square(16) });
        rig.queue.limit_waits(most);
        assert_eq!(rig.queue.begin_chains(wanted, links), begun);
        assert_eq!(rig.queue.waits(), begun * links);
        let more = rig.queue.begin_waits(most);
        assert_eq!((more, rig.queue.waits()), (most - begun * links, most));
    }
}
