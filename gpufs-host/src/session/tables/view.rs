//! What the tables hold, and the session and its queues as the host or the device sees them.
#![expect(unsafe_code, reason = "makes queues and sets over addresses")]

use gpufs_core::alloc::{BufferPool, BufferPoolParts};
use gpufs_core::cache::{self, Cache, CacheParts};
use gpufs_core::failures::FAILURE_WORDS;
use gpufs_core::gate::Gate;
use gpufs_core::pieces::{PieceWords, Pieces, PiecesParts};
use gpufs_core::resources::ResourcesParts;
use gpufs_core::session::{OpenFile, Region, Resources, SessionTables, Stall, TicketLock};
use gpufs_core::shared::{self, PATH_BYTES};
use gpufs_core::stream::Stream;
use gpufs_core::word::{DeviceWord, DeviceWord64, SharedWord64};
use gpufs_core::{Queue, QueueParts, QueueWords};

use super::super::cached::CacheSizes;
use super::super::host_journal::{HostJournal, capacity_of};
use super::super::image::common_multiple;
use super::super::layout::{ALIGN, Cutter, PAGE};
use crate::ring::{Ring, RingParts};

/// Sizes of the tables.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Sizes {
    pub(in crate::session) files: u32,
    pub(in crate::session) streams: u32,
    pub(in crate::session) regions: u32,
    pub(in crate::session) blocks_per_stream: u32,
    pub(in crate::session) deadline_ns: u64,
    pub(in crate::session) wait_limit_ns: u64,
    /// Bytes for long records.
    pub(in crate::session) record_bytes: usize,
    /// The cache of pages.
    pub(in crate::session) cached: CacheSizes,
}

/// A pool's memory and how it is cut.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct PoolMemory {
    /// Where the device and the kernel reach it.
    pub(in crate::session) base: u64,
    pub(in crate::session) buffers: u32,
    pub(in crate::session) buffer_bytes: u32,
    pub(in crate::session) buffer_index: u32,
}

/// What the tables hold, for every view of them.
pub(in crate::session) struct Contents<'a> {
    pub(in crate::session) rings: &'a [Ring],
    pub(in crate::session) sizes: Sizes,
    pub(in crate::session) staging: PoolMemory,
    /// Of asynchronous operations ([R-ASYNC-5]).
    pub(in crate::session) async_buffers: PoolMemory,
    /// Of directories ([R-SERVE-9]).
    pub(in crate::session) listings: PoolMemory,
    pub(in crate::session) stream_buffers: PoolMemory,
    /// Pages of traces' pieces.
    pub(in crate::session) pieces: PoolMemory,
    pub(in crate::session) host_journal: &'a HostJournal,
    /// Bytes of the coalescing buffers.
    pub(in crate::session) coalescing_bytes: usize,
    /// Buffers for the text of lines that are read ahead.
    pub(in crate::session) line_buffers: u32,
    /// The session is in a sandbox.
    pub(in crate::session) confined: bool,
    /// The rings of I/O open at once what is cached.
    pub(in crate::session) opens_at_once: bool,
}

/// Where a view finds the memory of pools that the kernel never sees; 0 where it does not reach it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) coalescing_buffers: u64,
    pub(super) line_buffers: u64,
    pub(super) records: u64,
    /// The frames of the cache.
    pub(super) frames: u64,
    /// Paths of shared streams; `None` where they lie in the image.
    pub(super) paths: Option<u64>,
    /// What owners of traces' pieces know of them; `None` where it lies in the image.
    pub(super) piece_words: Option<u64>,
    /// Who may use the tables; null for a device's view.
    pub(super) gate: *const Gate,
}

/// Bytes of a coalescing buffer: the lines of a warp mostly fit.
pub(super) const COALESCING_BUFFER_BYTES: u32 = 4096;

impl Contents<'_> {
    /// Coalescing buffers, and buffers of long records.
    pub(super) fn coalescing_buffers(&self) -> u32 {
        buffers_of(self.coalescing_bytes)
    }
    /// Buffers of long records.
    pub(super) fn record_buffers(&self) -> u32 {
        buffers_of(self.sizes.record_bytes)
    }
    /// Bytes of all line buffers.
    pub(super) const fn line_bytes(&self) -> usize {
        self.line_buffers as usize * 2 * self.stream_buffers.buffer_bytes as usize
    }
    /// Whether the device has memory of its own: then the image is copied, and what must not be lies elsewhere.
    pub(super) const fn is_copied(&self) -> bool {
        self.host_journal.stall.is_some()
    }
}

fn buffers_of(bytes: usize) -> u32 {
    u32::try_from(bytes / COALESCING_BUFFER_BYTES as usize).unwrap_or(u32::MAX)
}

impl Cutter {
    /// The stream table: at a multiple of an entry, as the image is.
    fn streams(&mut self, items: u32) -> *const Stream {
        self.align(common_multiple(ALIGN));
        self.table::<Stream>(items)
    }
    fn pool(&mut self, memory: PoolMemory) -> BufferPool {
        // SAFETY:
        // - the session's memory for that many buffers, or 0
        unsafe {
            BufferPool::new(BufferPoolParts {
                base: memory.base,
                buffer_bytes: memory.buffer_bytes,
                buffer_index: memory.buffer_index,
                free: self.free_set(memory.buffers),
            })
        }
    }
    /// The pool of coalescing buffers at `base`, or that of long records, which has buffers of the same size. `base` is 0 for a view that
    /// does not reach the memory.
    fn coalescing_buffers(&mut self, bytes: usize, base: u64) -> BufferPool {
        let buffers = buffers_of(bytes);
        let (buffer_bytes, buffer_index) = (COALESCING_BUFFER_BYTES, BufferPool::UNREGISTERED);
        self.pool(PoolMemory { base, buffers, buffer_bytes, buffer_index })
    }
    /// The pool of line buffers, as [`Cutter::coalescing_buffers`].
    fn line_buffers(&mut self, contents: &Contents<'_>, base: u64) -> BufferPool {
        let (buffer_bytes, buffer_index) =
            (2 * contents.stream_buffers.buffer_bytes, BufferPool::UNREGISTERED);
        self.pool(PoolMemory { base, buffers: contents.line_buffers, buffer_bytes, buffer_index })
    }
    fn queue(&mut self, parts: &RingParts, results: *const SharedWord64) -> Queue {
        let capacity = capacity_of(parts, !results.is_null());
        // SAFETY:
        // - the ring's words and entries stay mapped until the session closes it, after the last use; a handle that outlives the session
        //   finds closed tables first (`tables`)
        // - the other words lie in the image; all are zero, as the new ring's indices are
        unsafe {
            Queue::new(QueueParts {
                sq_tail: parts.sq_tail,
                cq_head: parts.cq_head,
                cq_tail: parts.cq_tail,
                sqes: parts.sqes,
                cqes: parts.cqes,
                sq_entries: parts.sq_entries,
                cq_entries: parts.cq_entries,
                words: self.table::<QueueWords>(1),
                ready: self.table::<DeviceWord>(parts.sq_entries),
                slots: self.table::<DeviceWord64>(capacity),
                free: self.free_set(capacity),
                endless: self.free_set(capacity),
                capacity,
                results,
            })
        }
    }
    /// The pieces of traces, whose owners have `words`: in the image, or elsewhere, at 0 for a view that does not reach them.
    fn pieces(&mut self, memory: PoolMemory, words: Option<u64>) -> Pieces {
        // SAFETY:
        // - the session's memory for that many pages, and the device's for as many words, or null
        unsafe {
            Pieces::new(PiecesParts {
                pages: self.pool(memory),
                words: words.map_or_else(|| self.table(memory.buffers), |words| words as *const PieceWords),
                count: memory.buffers,
            })
        }
    }
    /// The cache, whose frames lie at `memory`: 0 for a view that does not reach them.
    fn cache(&mut self, sizes: CacheSizes, memory: u64) -> Cache {
        let sets = sizes.sets();
        let mappings = if sets == 0 { 0 } else { cache::MAPPINGS };
        // SAFETY:
        // - laid out here, for that many; the session's memory for as many pages, or 0
        unsafe {
            Cache::new(CacheParts {
                sets: self.table::<cache::Set>(sets),
                frames: self.table::<cache::Frame>(sets * cache::WAYS),
                mappings: self.table::<cache::Mapping>(mappings),
                memory,
                set_count: sets,
                page_bytes: sizes.page_bytes,
            })
        }
    }
    /// The session and its queues in an image that this lays out, with the addresses of one view. The image begins with the session, and
    /// then the queues.
    pub(super) fn view(
        &mut self,
        contents: &Contents<'_>,
        own: Addresses,
        parts: impl Fn(&Ring) -> RingParts,
    ) -> (SessionTables, Vec<Queue>) {
        let Sizes { files, streams, regions, blocks_per_stream, deadline_ns, wait_limit_ns, .. } =
            contents.sizes;
        self.table::<SessionTables>(1);
        let queue_table = self.table::<Queue>(count(contents.rings));
        // The system gets the tables back, and not the head before them.
        self.align(PAGE);
        let each = contents.rings.iter().zip(&contents.host_journal.results);
        let queues = each.map(|(ring, results)| self.queue(&parts(ring), *results)).collect();
        // SAFETY:
        // - laid out here, for that many; used while the session is open, or closed and never unmapped (`tables`)
        let resources = unsafe {
            Resources::new(ResourcesParts {
                queues: queue_table,
                queue_count: io_rings(contents.rings),
                file_count: files,
                files: self.table::<OpenFile>(files),
                files_free: self.free_set(files),
                stream_table: self.streams(streams).cast(),
                streams_free: self.free_set(streams),
                stream_count: streams,
                region_count: regions,
                regions: self.table::<Region>(regions),
                staging: self.pool(contents.staging),
                async_buffers: self.pool(contents.async_buffers),
                listings: self.pool(contents.listings),
                stream_buffers: self.pool(contents.stream_buffers),
                coalescing_buffers: self
                    .coalescing_buffers(contents.coalescing_bytes, own.coalescing_buffers),
                line_buffers: self.line_buffers(contents, own.line_buffers),
                deadline_ns,
                wait_limit_ns,
                blocks_per_stream,
                ring_count: count(contents.rings),
                stall: contents.host_journal.stall.unwrap_or_else(|| self.table::<Stall>(1)),
                stalled: self.table::<DeviceWord>(1),
                journal: contents.host_journal.journal(),
            })
        };
        let session = SessionTables {
            resources,
            // SAFETY:
            // - as above
            shared: unsafe {
                shared::Table::new(shared::TableParts {
                    entries: self.table::<shared::Entry>(streams),
                    lock: self.table::<TicketLock>(1),
                    paths: own
                        .paths
                        .unwrap_or_else(|| self.table::<[DeviceWord64; PATH_BYTES / 8]>(streams) as u64),
                    count: streams,
                })
            },
            records: self.coalescing_buffers(contents.sizes.record_bytes, own.records),
            records_ended: self.table::<DeviceWord>(1),
            failures: self.table::<DeviceWord64>(FAILURE_WORDS),
            confined: contents.confined.into(),
            opens_at_once: contents.opens_at_once.into(),
            gate: own.gate,
            cache: self.cache(contents.sizes.cached, own.frames),
            pieces: self.pieces(contents.pieces, own.piece_words),
        };
        (session, queues)
    }
}

/// Rings of I/O. The service ring comes after them.
pub(super) fn io_rings(rings: &[Ring]) -> u32 {
    count(rings) - u32::from(rings.last().is_some_and(Ring::is_for_services))
}

fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}
