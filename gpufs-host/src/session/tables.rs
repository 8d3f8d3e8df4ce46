//! The tables that the device sees: made once for a session, of fixed size.
//!
//! They are never freed. A handle that a kernel's code kept beyond its session then meets tables in which everything is closed and
//! nothing is free, and gets `EBADF` or `EMFILE`, where it would otherwise read freed memory. What is large, the rings and the pools,
//! is freed.
#![allow(unsafe_code, reason = "makes the tables that the device reads through pointers")]

use gpufs_core::pool::Pool;
use gpufs_core::session::{OpenFile, Region, Session, Stall};
use gpufs_core::stream::Stream;
use gpufs_core::word::{DeviceWord, DeviceWord64};
use gpufs_core::{FreeSet, Queue, QueueParts, QueueWords};

use crate::ring::Ring;

/// Sizes of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) files: u32,
    pub(super) streams: u32,
    pub(super) regions: u32,
    pub(super) blocks_per_stream: u32,
    pub(super) deadline_ns: u64,
}

/// A pool's memory and how it is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolMemory {
    pub(super) base: u64,
    pub(super) buffers: u32,
    pub(super) buffer_bytes: u32,
    pub(super) buffer_index: u32,
}

/// A table of default items that lives as long as the process.
fn table<T: Default>(items: u32) -> &'static [T] {
    Vec::leak((0..items).map(|_| T::default()).collect())
}

/// A set of `items`, all free, over words that live as long as the process.
fn free_set(items: u32) -> FreeSet {
    let count = FreeSet::words_for(items);
    let words: &'static [DeviceWord64] =
        Vec::leak((0..count).map(|word| DeviceWord64::new(FreeSet::initial_word(items, word))).collect());
    // SAFETY:
    // - `count` words, never freed
    unsafe { FreeSet::new(words.as_ptr(), count) }
}

/// The queue over a ring that was just opened.
fn queue(ring: &Ring) -> Queue {
    let parts = ring.parts();
    let capacity = parts.sq_entries.min(parts.cq_entries);
    let words: &'static QueueWords = Box::leak(Box::default());
    // A ring's indices begin at 0, and so do ours.
    let ready: &'static [DeviceWord] = table(parts.sq_entries);
    let slots: &'static [DeviceWord64] = table(capacity);
    // SAFETY:
    // - the ring's words and entries stay mapped until the session closes it, after the last use; what outlives the session meets
    //   closed tables first (see the head of the file)
    // - the other words are never freed; all are zero, as the ring's indices are
    unsafe {
        Queue::new(QueueParts {
            sq_tail: parts.sq_tail,
            cq_head: parts.cq_head,
            cq_tail: parts.cq_tail,
            sqes: parts.sqes,
            cqes: parts.cqes,
            sq_entries: parts.sq_entries,
            cq_entries: parts.cq_entries,
            words,
            ready: ready.as_ptr(),
            slots: slots.as_ptr(),
            free: free_set(capacity),
            capacity,
        })
    }
}

fn pool(memory: PoolMemory) -> Pool {
    Pool {
        base: memory.base,
        buffer_bytes: memory.buffer_bytes,
        buffer_index: memory.buffer_index,
        free: free_set(memory.buffers),
    }
}

/// Makes the session's tables.
pub(super) fn build(
    rings: &[Ring],
    sizes: Sizes,
    staging: PoolMemory,
    stream_buffers: PoolMemory,
) -> &'static Session {
    let queues: &'static [Queue] = Vec::leak(rings.iter().map(queue).collect());
    let files: &'static [OpenFile] = table(sizes.files);
    let streams: &'static [Stream] = table(sizes.streams);
    let regions: &'static [Region] = table(sizes.regions);
    Box::leak(Box::new(Session {
        queues: queues.as_ptr(),
        queue_count: count(queues),
        file_count: sizes.files,
        files: files.as_ptr(),
        files_free: free_set(sizes.files),
        streams: streams.as_ptr(),
        streams_free: free_set(sizes.streams),
        stream_count: sizes.streams,
        region_count: sizes.regions,
        regions: regions.as_ptr(),
        staging: pool(staging),
        stream_buffers: pool(stream_buffers),
        deadline_ns: sizes.deadline_ns,
        blocks_per_stream: sizes.blocks_per_stream,
        stall: Stall::default(),
    }))
}

fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}
