//! What a queue is made of: its words in device memory, and the parts that it shares with the kernel.

use super::publish::TICKET;
#[cfg(doc)]
use super::{Operation, Queue};
use crate::abi::{Cqe, Sqe};
use crate::alloc::FreeSet;
use crate::word::{DeviceWord, DeviceWord64, EntryCell, SharedWord, SharedWord64};

/// A word on a cache line of its own, so that lanes that poll one word do not slow lanes that write another.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct CacheAligned<T>(pub T);

/// The words of a queue that live in device memory.
///
/// | word | range | written by |
/// |---|---|---|
/// | `tickets` | see there | any producer's leader |
/// | `orphaned` | 0 to `publications` | a publisher that leaves a remainder; the lane that adopts it stores 0 |
/// | `published` | runs free, monotonic, at most the next ticket | the publisher |
/// | `poller` | 0, 1 | any lane that drains |
/// | `drained` | runs free, at most the CQ tail | the poller |
/// | `waits` | see there | a lane that begins or ends a wait without an end, or an asynchronous operation; the host, while no kernel runs |
#[derive(Debug, Default)]
#[repr(C)]
pub struct QueueWords {
    /// The next ticket, and the number of draws and commits that no publisher has served yet. If that is zero, there is no publisher, and
    /// nothing to publish.
    ///
    /// ```text
    /// 63 … 32        31 … 0
    /// next ticket    publications: 0 to twice the producers present
    /// ```
    pub(super) tickets: CacheAligned<DeviceWord64>,
    /// Publications that a publisher left to the next lane that drains; 0 if there is a publisher or nothing to publish.
    pub(super) orphaned: CacheAligned<DeviceWord>,
    /// The tail, as last stored. May be stale for all but the publisher.
    pub(super) published: CacheAligned<DeviceWord>,
    /// 1 while a lane drains.
    pub(super) poller: CacheAligned<DeviceWord>,
    /// The CQ head, as last stored. May be stale for all but the poller.
    pub(super) drained: CacheAligned<DeviceWord>,
    /// Operations submitted, tail stores, completions drained, looks at an empty CQ, stale completions, waits for a slot: counters.
    pub(super) counters: CacheAligned<Counters>,
    /// Waits without an end, and asynchronous operations ([R-8]).
    pub(super) waits: CacheAligned<Waits>,
}

impl QueueWords {
    /// The words of a queue whose next ticket is `ticket`, and whose next completion is `completion`.
    #[must_use]
    pub fn beginning_at(ticket: u32, completion: u32) -> Self {
        let words = Self::default();
        // ORDERING: relaxed, all three: no other thread has the words yet.
        words.tickets.0.set(u64::from(ticket) * TICKET);
        words.published.0.set(ticket);
        words.drained.0.set(completion);
        words
    }
}

/// How many operations that may never end are in flight.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Waits {
    /// As many as there may be. Constant while kernels run.
    pub(super) most: DeviceWord,
    /// Those begun and not ended, and attempts to begin some that have not been taken back yet.
    pub(super) begun: DeviceWord,
    /// How often the host has ended all of them ([R-ASYNC-6]). Constant while kernels run.
    pub(super) rounds: DeviceWord,
}

/// What a queue counts. Each only grows.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Counters {
    /// Operations submitted.
    pub operations: DeviceWord64,
    /// Stores of the SQ tail.
    pub publications: DeviceWord64,
    /// Completions drained.
    pub completions: DeviceWord64,
    /// Looks at the CQ that found it empty.
    pub empty_looks: DeviceWord64,
    /// Completions that no operation waited for.
    pub stale: DeviceWord64,
    /// Times that a claim found no free slot.
    pub slot_waits: DeviceWord64,
    /// Bytes that completed reads returned.
    pub bytes_read: DeviceWord64,
    /// Bytes that completed writes took.
    pub bytes_written: DeviceWord64,
    /// Operations that a call of the host's gave up and could not cancel.
    pub abandoned: DeviceWord64,
}

/// What a [`Queue`] is made of. Entry counts are powers of two.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct QueueParts {
    /// The SQ tail. Shared; written by the publisher, read by the kernel.
    pub sq_tail: *const SharedWord,
    /// The CQ head. Shared; written by the poller, read by the kernel.
    pub cq_head: *const SharedWord,
    /// The CQ tail. Shared; written by the kernel, read by the poller.
    pub cq_tail: *const SharedWord,
    /// `sq_entries` submission entries. Shared.
    pub sqes: *const EntryCell<Sqe>,
    /// `cq_entries` completion entries. Shared.
    pub cqes: *const EntryCell<Cqe>,
    /// Submission entries.
    pub sq_entries: u32,
    /// Completion entries.
    pub cq_entries: u32,
    /// The queue's words, in device memory.
    pub words: *const QueueWords,
    /// `sq_entries` marks, in device memory: 0, or the length of the ready batch that starts there.
    pub ready: *const DeviceWord,
    /// `capacity` state words, in device memory.
    ///
    /// ```text
    /// 63 … 33        32      31 … 0
    /// generation     done    res
    /// ```
    pub slots: *const DeviceWord64,
    /// The free slots: `capacity` of them.
    pub free: FreeSet,
    /// The slots in which an asynchronous operation is that may never end: a bit for each of the `capacity`, set while one is.
    pub endless: FreeSet,
    /// Slots: at most min(`sq_entries`, `cq_entries`); at most half of `cq_entries` where there are `results`.
    pub capacity: u32,
    /// `capacity` words in host memory, or null: the result of the last [`Operation::JOURNALED`] operation of each slot.
    /// Shared; written by the lane that delivers it, read by the host once the device is dead.
    ///
    /// ```text
    /// 63 … 32        31 … 0
    /// generation     res
    /// ```
    pub results: *const SharedWord64,
}

/// How far a queue is. From submission to completion: `tickets` ≥ `sq_tail` ≥ `cq_tail` ≥ `drained`, but for wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueProgress {
    /// Tickets drawn.
    pub tickets: u32,
    /// Entries published.
    pub sq_tail: u32,
    /// Completions posted.
    pub cq_tail: u32,
    /// Completions delivered.
    pub drained: u32,
    /// Draws and commits that no publisher has served yet.
    pub unpublished: u32,
    /// Those of them that a publisher left to others.
    pub orphaned: u32,
    /// 1 while a lane drains.
    pub polled: u32,
}
