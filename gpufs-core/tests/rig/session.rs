//! Pools, and a session around one ring.

use gpufs_core::alloc::{BufferPool, BufferPoolParts};
use gpufs_core::files::OpenFile;
use gpufs_core::journal::{Journal, JournalParts};
use gpufs_core::resources::ResourcesParts;
use gpufs_core::stream::Stream;
use gpufs_core::word::DeviceWord64;
use gpufs_core::{FreeSet, Queue};

/// A pool of no buffers, of which each would have `buffer_bytes`.
pub(crate) fn no_pool(buffer_bytes: u32) -> BufferPool {
    // SAFETY:
    // - an empty set has no words
    let free = unsafe { FreeSet::new(std::ptr::null(), 0) };
    let parts = BufferPoolParts { base: 0, buffer_bytes, buffer_index: BufferPool::UNREGISTERED, free };
    // SAFETY:
    // - it has no buffers
    unsafe { BufferPool::new(parts) }
}

/// A pool of the buffers whose bits are set in `free`, which stays where it is, of which each has `buffer_bytes`.
pub(crate) fn pool_of(free: &DeviceWord64, buffer_bytes: u32) -> BufferPool {
    // SAFETY:
    // - one word, which outlives the pool
    let free = unsafe { FreeSet::new(free, 1) };
    // SAFETY:
    // - no memory is reached
    unsafe { BufferPool::new(BufferPoolParts { free, ..*no_pool(buffer_bytes) }) }
}

/// A session of one ring, one file and one stream, which outlive it, and of nothing else.
pub(crate) fn session_of(queue: &Queue, file: &OpenFile, stream: &Stream) -> ResourcesParts {
    let (pool, null) = (no_pool(4096), std::ptr::null());
    ResourcesParts {
        queues: queue,
        queue_count: 1,
        ring_count: 1,
        file_count: 1,
        files: file,
        files_free: pool.free,
        stream_table: std::ptr::from_ref(stream).cast(),
        streams_free: pool.free,
        stream_count: 1,
        region_count: 0,
        regions: std::ptr::null(),
        staging: pool,
        stream_buffers: pool,
        coalescing_buffers: pool,
        line_buffers: pool,
        async_buffers: pool,
        listings: pool,
        deadline_ns: 0,
        wait_limit_ns: 0,
        blocks_per_stream: 1,
        stall: std::ptr::null(),
        stalled: std::ptr::null(),
        // SAFETY:
        // - it has no tables
        journal: unsafe {
            Journal::new(JournalParts {
                places: std::ptr::null(),
                entries: null,
                files: null,
                entries_per_buffer: 0,
                shift: 0,
            })
        },
    }
}
