//! A ring in ordinary memory, as a host would set it up for a kernel and a device. It moves nothing by itself: the tests bring
//! their own kernel. It is built from the same words under loom.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(unsafe_code, reason = "the queue is given pointers to the rig's memory")]

#[cfg(loom)]
pub(crate) mod models;
#[cfg(loom)]
pub(crate) mod readahead;
pub(crate) mod run;
pub(crate) mod session;
#[cfg(loom)]
pub(crate) mod streams;
#[cfg(not(loom))]
pub(crate) mod tables;

use gpufs_core::abi::{Cqe, IORING_OP_NOP, Sqe};
use gpufs_core::word::{DeviceWord, DeviceWord64, EntryCell, SharedWord, SharedWord64};
use gpufs_core::{FreeSet, Operation, Queue, QueueParts, QueueWords, Ticket};

/// The sizes of a ring, and where its indices begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Submission entries, a power of two.
    pub(crate) sq_entries: u32,
    /// Completion entries, a power of two.
    pub(crate) cq_entries: u32,
    /// Slots: 1 to the smaller of the two.
    pub(crate) capacity: u32,
    /// The first ticket.
    pub(crate) first_ticket: u32,
    /// Index of the first completion.
    pub(crate) first_completion: u32,
    /// Generation that every slot had last: 0 to 2³¹ − 1.
    pub(crate) generation: u32,
}

impl Shape {
    /// The smallest ring with this many entries and slots, all indices at 0.
    pub(crate) const fn square(entries: u32) -> Self {
        Self {
            sq_entries: entries,
            cq_entries: entries,
            capacity: entries,
            first_ticket: 0,
            first_completion: 0,
            generation: 0,
        }
    }
}

/// The memory of one ring, and the queue over it. The memory is in vectors, which may move while their items stay.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) shape: Shape,
    /// SQ tail, CQ head, CQ tail, SQ flags.
    shared: Vec<SharedWord>,
    sqes: Vec<EntryCell<Sqe>>,
    cqes: Vec<EntryCell<Cqe>>,
    words: Vec<QueueWords>,
    ready: Vec<DeviceWord>,
    slots: Vec<DeviceWord64>,
    free: Vec<DeviceWord64>,
    endless: Vec<DeviceWord64>,
    /// Device's side of the ring.
    pub(crate) queue: Queue,
}

impl Rig {
    pub(crate) fn new(shape: Shape) -> Self {
        Self::with_results(shape, std::ptr::null())
    }

    /// With words, one for each slot, for the results that are kept.
    pub(crate) fn with_results(shape: Shape, results: *const SharedWord64) -> Self {
        let word64 = |value: u64| DeviceWord64::new(value);
        let shared = vec![shape.first_ticket, shape.first_completion, shape.first_completion, 0].into_iter();
        let shared: Vec<_> = shared.map(SharedWord::new).collect();
        let sqes: Vec<_> = (0..shape.sq_entries).map(|_| EntryCell::new(Sqe::default())).collect();
        let cqes: Vec<_> = (0..shape.cq_entries).map(|_| EntryCell::new(Cqe::default())).collect();
        let words = vec![QueueWords::beginning_at(shape.first_ticket, shape.first_completion)];
        let ready: Vec<_> = (0..shape.sq_entries).map(|_| DeviceWord::new(0)).collect();
        let before = u64::from(shape.generation) << 33 | u64::from(shape.generation != 0) << 32;
        let slots: Vec<_> = (0..shape.capacity).map(|_| word64(before)).collect();
        let word_count = FreeSet::words_for(shape.capacity);
        let free: Vec<_> =
            (0..word_count).map(|word| word64(FreeSet::initial_word(shape.capacity, word))).collect();
        let endless: Vec<_> = (0..word_count).map(|_| word64(0)).collect();
        // SAFETY:
        // - as below
        let endless_set = unsafe { FreeSet::new(endless.as_ptr(), word_count) };
        // SAFETY:
        // - the words are the rig's, whose vectors are never resized and live as long as the queue
        let set = unsafe { FreeSet::new(free.as_ptr(), word_count) };
        let parts = QueueParts {
            sq_tail: &raw const shared[0],
            cq_head: &raw const shared[1],
            cq_tail: &raw const shared[2],
            sqes: sqes.as_ptr(),
            cqes: cqes.as_ptr(),
            sq_entries: shape.sq_entries,
            cq_entries: shape.cq_entries,
            words: words.as_ptr(),
            ready: ready.as_ptr(),
            slots: slots.as_ptr(),
            free: set,
            endless: endless_set,
            capacity: shape.capacity,
            results,
        };
        // SAFETY:
        // - the pointers are to the rig's vectors, which are never resized and live as long as the queue
        // - all indices begin where the shape says; `ready` is zero
        let queue = unsafe { Queue::new(parts) };
        Self { shape, shared, sqes, cqes, words, ready, slots, free, endless, queue }
    }

    pub(crate) fn sq_tail(&self) -> &SharedWord {
        &self.shared[0]
    }
    pub(crate) fn cq_head(&self) -> &SharedWord {
        &self.shared[1]
    }
    pub(crate) fn cq_tail(&self) -> &SharedWord {
        &self.shared[2]
    }
    pub(crate) fn sq_flags(&self) -> &SharedWord {
        &self.shared[3]
    }
    /// The submission entry of a ticket.
    pub(crate) fn sqe(&self, ticket: u32) -> &EntryCell<Sqe> {
        &self.sqes[(ticket & (self.shape.sq_entries - 1)) as usize]
    }
    /// The completion entry at an index.
    pub(crate) fn cqe(&self, index: u32) -> &EntryCell<Cqe> {
        &self.cqes[(index & (self.shape.cq_entries - 1)) as usize]
    }

    /// One lane's whole submission: a batch of one, from arming a slot that it holds to the commit.
    pub(crate) fn submit_one(&self, slot: gpufs_core::Slot) -> (Operation, Ticket) {
        // SAFETY:
        // - the caller holds the slot, in which nothing is in flight
        let operation = unsafe { self.queue.arm(slot) };
        // SAFETY:
        // - the slots were claimed for this batch, which is filled and committed below, with nothing between that could fail
        let drawn = unsafe { self.queue.reserve(1) };
        let ticket = drawn.first();
        // SAFETY:
        // - the ticket was just drawn, and nobody else knows it
        unsafe { self.queue.fill(ticket, sqe_of(operation, ticket)) };
        // SAFETY:
        // - the one ticket was just drawn and filled
        unsafe { self.queue.commit(drawn) };
        (operation, ticket)
    }
}

/// An SQE that says in several places which ticket and operation it is, so that a torn, old or unfilled one shows.
pub(crate) fn sqe_of(operation: Operation, ticket: Ticket) -> Sqe {
    Sqe {
        opcode: IORING_OP_NOP,
        user_data: operation.token(),
        off: u64::from(ticket.0),
        addr: !u64::from(ticket.0),
        addr3: operation.token() ^ u64::from(ticket.0),
        ..Sqe::default()
    }
}

/// Whether `sqe` is what [`sqe_of`] made for the ticket; the operation it names.
#[track_caller]
pub(crate) fn check_sqe(sqe: Sqe, ticket: u32) -> Operation {
    let operation = Operation::from_token(sqe.user_data);
    assert_eq!(sqe, sqe_of(operation, Ticket(ticket)), "the SQE of ticket {ticket} is not what was filled");
    assert_ne!(operation.generation, 0, "the SQE of ticket {ticket} names no operation");
    operation
}
