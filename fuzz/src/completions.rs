//! A kernel that posts what it likes.
#![expect(unsafe_code, reason = "makes a queue over vectors, and takes the steps of a lane")]

use std::collections::BTreeSet;

use gpufs_core::abi::{Cqe, Sqe};
use gpufs_core::word::{DeviceWord, DeviceWord64, EntryCell, SharedWord, SharedWord64};
use gpufs_core::{FreeSet, Operation, Outcome, Queue, QueueParts, QueueWords, SlotClaim};

use crate::bytes::Bytes;

/// What lies around the results that are kept.
const CANARY: u64 = 0x5aa5_5aa5_5aa5_5aa5;

/// Lets a lane submit and drain while a kernel posts what the bytes say, its tail included.
///
/// # Panics
/// If an operation is done by what was not posted for it, or twice.
pub fn completions(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut ring = Ring::new(&mut bytes);
    // Ends: each round takes a byte.
    while !bytes.is_empty() {
        match bytes.below(8) {
            0 | 1 => ring.submit(),
            2 => {
                let which = bytes.byte().into();
                let result = bytes.word();
                if let Some(operation) = ring.live(which) {
                    ring.post(operation.token(), result);
                }
            }
            3 => {
                // Nearly one: another generation, another slot, or with the bit of those whose results are kept.
                let (which, flip, result) = (bytes.byte().into(), bytes.below(64), bytes.word());
                if let Some(operation) = ring.live(which) {
                    ring.post(operation.token() ^ 1 << flip, result);
                }
            }
            4 => {
                let (user_data, result) = (bytes.long(), bytes.word());
                ring.post(user_data, result);
            }
            5 => {
                // A tail that says nothing of the entries, rarely.
                let step = bytes.word();
                if bytes.below(4) == 0 {
                    ring.tail = ring.tail.wrapping_add(step);
                    ring.shared[2].publish(ring.tail);
                }
            }
            6 => ring.drain(1 + bytes.below(64) as u32),
            _ => ring.look(),
        }
    }
    ring.drain(64);
    ring.look();
    ring.check_canaries();
}

/// A ring in ordinary memory, and what the model knows of it.
struct Ring {
    shared: Vec<SharedWord>,
    cqes: Vec<EntryCell<Cqe>>,
    results: Vec<SharedWord64>,
    queue: Queue,
    capacity: u32,
    cq_entries: u32,
    /// The kernel's tail.
    tail: u32,
    /// All that was ever written into the CQ: tokens and results.
    posted: BTreeSet<(u64, i32)>,
    /// Those that are not done, with their slots.
    flying: Vec<(Operation, SlotClaim)>,
    /// The rest of the queue's memory.
    _sqes: Vec<EntryCell<Sqe>>,
    _words: Vec<QueueWords>,
    _ready: Vec<DeviceWord>,
    _slots: [Vec<DeviceWord64>; 2],
}

impl Ring {
    fn new(bytes: &mut Bytes<'_>) -> Self {
        let (sq_entries, cq_entries) = (1 << (1 + bytes.below(4)), 1u32 << (1 + bytes.below(5)));
        let keeps = bytes.below(2) == 1;
        let most = sq_entries.min(if keeps { cq_entries / 2 } else { cq_entries });
        let capacity = 1 + u32::from(bytes.byte()) % most;
        let (ticket, completion) = (bytes.word(), bytes.word());
        let shared: Vec<_> = [ticket, completion, completion].into_iter().map(SharedWord::new).collect();
        let sqes: Vec<_> = (0..sq_entries).map(|_| EntryCell::new(Sqe::default())).collect();
        let cqes: Vec<_> = (0..cq_entries).map(|_| EntryCell::new(Cqe::default())).collect();
        let words = vec![QueueWords::beginning_at(ticket, completion)];
        let ready: Vec<_> = (0..sq_entries).map(|_| DeviceWord::new(0)).collect();
        // The last generation but one: the next ones come round.
        let before = if bytes.below(4) == 0 { u64::from((1u32 << 31) - 2) << 33 | 1 << 32 } else { 0 };
        let slots: Vec<_> = (0..capacity).map(|_| DeviceWord64::new(before)).collect();
        let set_words = FreeSet::words_for(capacity);
        let free: Vec<_> =
            (0..set_words).map(|word| DeviceWord64::new(FreeSet::initial_word(capacity, word))).collect();
        let results: Vec<_> = (0..capacity + 2).map(|_| SharedWord64::new(CANARY)).collect();
        // SAFETY:
        // - the words are the vector's, which is never resized and lives as long as the set
        let set = unsafe { FreeSet::new(free.as_ptr(), set_words) };
        let parts = QueueParts {
            sq_tail: &raw const shared[0],
            cq_head: &raw const shared[1],
            cq_tail: &raw const shared[2],
            sqes: sqes.as_ptr(),
            cqes: cqes.as_ptr(),
            sq_entries,
            cq_entries,
            words: words.as_ptr(),
            ready: ready.as_ptr(),
            slots: slots.as_ptr(),
            free: set,
            // No operation is noted here.
            endless: set,
            capacity,
            results: if keeps { &raw const results[1] } else { std::ptr::null() },
        };
        // SAFETY:
        // - the pointers are to vectors that are never resized and live as long as the queue
        // - the indices begin where the words do; `ready` is zero
        let queue = unsafe { Queue::new(parts) };
        Self {
            shared,
            cqes,
            results,
            queue,
            capacity,
            cq_entries,
            tail: completion,
            posted: BTreeSet::new(),
            flying: Vec::new(),
            _sqes: sqes,
            _words: words,
            _ready: ready,
            _slots: [slots, free],
        }
    }

    fn live(&self, which: usize) -> Option<Operation> {
        (!self.flying.is_empty()).then(|| self.flying[which % self.flying.len()].0)
    }

    fn submit(&mut self) {
        let Some(claim) = self.queue.claim(1, 0) else { return };
        let slot = gpufs_core::Slot(claim.item(0));
        assert!(slot.0 < self.capacity && !self.flying.iter().any(|(known, _)| known.slot == slot));
        // SAFETY:
        // - just claimed; released once its outcome is known
        let operation = unsafe { self.queue.arm(slot) };
        // SAFETY:
        // - filled and committed below
        let batch = unsafe { self.queue.reserve(1) };
        // SAFETY:
        // - the ticket was just drawn, with a claimed slot; the entry refers to nothing
        unsafe { self.queue.fill(batch.first(), Sqe { user_data: operation.token(), ..Sqe::default() }) };
        // SAFETY:
        // - drawn and filled above
        unsafe { self.queue.commit(batch) };
        self.flying.push((operation, claim));
    }

    fn post(&mut self, user_data: u64, result: u32) {
        let cqe = Cqe { user_data, res: result.cast_signed(), flags: 0 };
        let place = self.tail & (self.cq_entries - 1);
        // SAFETY:
        // - one thread does everything
        unsafe { self.cqes[place as usize].write(cqe) };
        self.posted.insert((user_data, cqe.res));
        self.tail = self.tail.wrapping_add(1);
        self.shared[2].publish(self.tail);
    }

    fn drain(&self, most: u32) {
        assert!(self.queue.drain_alone(most) <= most);
    }

    fn look(&mut self) {
        let mut left = Vec::new();
        for (operation, claim) in std::mem::take(&mut self.flying) {
            match self.queue.outcome(operation) {
                Outcome::InFlight => left.push((operation, claim)),
                Outcome::Done(result) => {
                    let token = operation.token();
                    let names = |token| self.posted.contains(&(token, result));
                    assert!(
                        names(token) || names(token | Operation::JOURNALED),
                        "done by nothing that was posted"
                    );
                    assert_eq!(self.queue.outcome(operation), Outcome::Done(result), "an outcome changes");
                    self.queue.release(claim);
                }
                Outcome::Stale => panic!("an operation whose slot is held has gone"),
            }
        }
        self.flying = left;
    }

    fn check_canaries(&self) {
        for end in [0, self.results.len() - 1] {
            assert_eq!(self.results[end].peek(), CANARY, "a result beside the slots'");
        }
    }
}
