//! A session of some rings, a file and two streams in ordinary memory, whose steps a test takes one at a time: it is the lanes, and the kernel.

use std::cell::RefCell;

use gpufs_core::abi::{Cqe, Sqe};
use gpufs_core::alloc::{BufferPool, BufferPoolParts};
use gpufs_core::files::OpenFile;
use gpufs_core::journal::{Journal, JournalParts, Place, Record};
use gpufs_core::resources::{Resources, ResourcesParts};
use gpufs_core::stream::Stream;
use gpufs_core::word::{DeviceWord64, EntryCell, SharedWord64};
use gpufs_core::{FreeSet, Queue};

use super::session::{no_pool, session_of};
use super::{Rig, Shape};

/// Streams, of which each has a buffer of its own, by its index.
pub(crate) const STREAMS: u32 = 2;
/// Stream buffers, and buffers for text.
pub(crate) const BUFFERS: u32 = 128;
/// Slots of each ring.
pub(crate) const SLOTS: u32 = 64;
/// Journal entries of a buffer.
pub(crate) const ENTRIES: u32 = 2;

/// The sizes of the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Rings.
    pub(crate) rings: u32,
    /// log₂ of a stream buffer's bytes.
    pub(crate) shift: u32,
    /// Blocks that a stream asks for.
    pub(crate) blocks: u32,
    /// Whether output survives.
    pub(crate) journaled: bool,
}

/// The tables. What pointers point to is in vectors that are never resized.
pub(crate) struct Tables {
    pub(crate) rigs: Vec<Rig>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) files: Vec<OpenFile>,
    pub(crate) session: Resources,
    /// Of each ring, how many entries were seen, and the tickets of those that are not complete.
    seen: RefCell<Vec<(u32, Vec<u32>)>>,
    _queues: Vec<Queue>,
    _memory: Vec<Vec<u128>>,
    _free: Vec<Vec<DeviceWord64>>,
    _places: Vec<Place>,
    _entries: Vec<SharedWord64>,
    _results: Vec<SharedWord64>,
}

/// A pool of [`BUFFERS`] buffers, its memory and its set.
fn pool(bytes: u32) -> (BufferPool, Vec<u128>, Vec<DeviceWord64>) {
    let mut memory = vec![0_u128; (BUFFERS * bytes) as usize / size_of::<u128>()];
    let words = FreeSet::words_for(BUFFERS);
    let free: Vec<_> =
        (0..words).map(|word| DeviceWord64::new(FreeSet::initial_word(BUFFERS, word))).collect();
    // SAFETY:
    // - the words' vector is never resized, and outlives the set in `Tables`
    let set = unsafe { FreeSet::new(free.as_ptr(), words) };
    let parts = BufferPoolParts { base: memory.as_mut_ptr() as u64, free: set, ..*no_pool(bytes) };
    // SAFETY:
    // - so does the memory, which has room for each of the set's items
    (unsafe { BufferPool::new(parts) }, memory, free)
}

impl Tables {
    pub(crate) fn new(sizes: Sizes) -> Self {
        let results: Vec<_> = (0..sizes.rings * SLOTS).map(|_| SharedWord64::new(0)).collect();
        let shape = Shape { cq_entries: 2 * SLOTS, ..Shape::square(SLOTS) };
        let rigs: Vec<_> = results
            .chunks(SLOTS as usize)
            .map(|kept| {
                Rig::with_results(shape, if sizes.journaled { kept.as_ptr() } else { std::ptr::null() })
            })
            .collect();
        let queues: Vec<Queue> = rigs.iter().map(|rig| rig.queue).collect();
        let streams: Vec<Stream> = (0..STREAMS).map(|_| Stream::default()).collect();
        let files = vec![OpenFile::default()];
        let bytes = 1 << sizes.shift;
        let (stream_buffers, memory, free) = pool(bytes);
        let (line_buffers, texts, free_texts) = pool(2 * bytes);
        assert_eq!(free[0].peek(), u64::MAX);
        free[0].set(u64::MAX << STREAMS);
        (0..).zip(&streams).for_each(|(index, stream)| stream.blocks[0].buffer.set(index));
        let place = || Place {
            epoch: SharedWord64::new(0),
            ticket: SharedWord64::new(0),
            records: [EntryCell::new(Record::default()), EntryCell::new(Record::default())],
        };
        let places: Vec<_> = (0..BUFFERS).map(|_| place()).collect();
        let entries: Vec<_> = (0..BUFFERS * ENTRIES).map(|_| SharedWord64::new(0)).collect();
        // SAFETY:
        // - as many as there are buffers, in vectors that are never resized, and outlive the session
        let journal = unsafe {
            Journal::new(JournalParts {
                places: places.as_ptr(),
                entries: entries.as_ptr(),
                files: std::ptr::null(),
                entries_per_buffer: ENTRIES,
                shift: sizes.shift,
            })
        };
        let usual = session_of(&queues[0], &files[0], &streams[0]);
        let parts = ResourcesParts {
            queue_count: sizes.rings,
            ring_count: sizes.rings,
            stream_count: STREAMS,
            stream_buffers,
            line_buffers,
            blocks_per_stream: sizes.blocks,
            journal: if sizes.journaled { journal } else { usual.journal },
            queues: queues.as_ptr(),
            files: files.as_ptr(),
            stream_table: streams.as_ptr().cast(),
            ..usual
        };
        // SAFETY:
        // - all of it outlives the session
        let session = unsafe { Resources::new(parts) };
        Self {
            rigs,
            streams,
            files,
            session,
            seen: RefCell::new(vec![(0, Vec::new()); sizes.rings as usize]),
            _queues: queues,
            _memory: vec![memory, texts],
            _free: vec![free, free_texts],
            _places: places,
            _entries: entries,
            _results: results,
        }
    }

    /// Entries that were submitted to a ring so far.
    pub(crate) fn submitted(&self, ring: u32) -> u32 {
        self.rigs[ring as usize].sq_tail().peek()
    }
    /// An entry that was submitted, in whose place there is no later one.
    pub(crate) fn entry(&self, ring: u32, ticket: u32) -> Sqe {
        assert!(ticket < self.submitted(ring), "it was submitted");
        // SAFETY:
        // - it was, by this thread, and nobody writes it now
        unsafe { self.rigs[ring as usize].sqe(ticket).read() }
    }
    /// The kernel: completes an entry with a result. It is delivered.
    pub(crate) fn complete(&self, ring: u32, ticket: u32, res: i32) {
        let (sqe, rig) = (self.entry(ring, ticket), &self.rigs[ring as usize]);
        assert!(self.in_flight().contains(&(ring, ticket)), "it is in flight");
        self.seen.borrow_mut()[ring as usize].1.retain(|other| *other != ticket);
        let at = rig.cq_tail().peek();
        // SAFETY:
        // - all before it were taken in
        unsafe { rig.cqe(at).write(Cqe { user_data: sqe.user_data, res, flags: 0 }) };
        rig.cq_tail().publish(at.wrapping_add(1));
        assert_eq!((rig.queue.drain_alone(1), rig.queue.counters().stale.peek()), (1, 0));
    }
    /// Rings and tickets of what is in flight.
    pub(crate) fn in_flight(&self) -> Vec<(u32, u32)> {
        let mut seen = self.seen.borrow_mut();
        for (ring, (count, tickets)) in (0..).zip(seen.iter_mut()) {
            tickets.extend(*count..self.submitted(ring));
            *count = self.submitted(ring);
        }
        let of_ring = |(ring, (_, tickets)): (u32, &(u32, Vec<u32>))| {
            tickets.iter().map(move |ticket| (ring, *ticket)).collect::<Vec<_>>()
        };
        (0..).zip(seen.iter()).flat_map(of_ring).collect()
    }
    /// Completes what is in flight, as a file does that takes all that it is given.
    pub(crate) fn complete_all(&self) {
        for (ring, ticket) in self.in_flight() {
            self.complete(ring, ticket, self.entry(ring, ticket).len.cast_signed());
        }
    }
}
