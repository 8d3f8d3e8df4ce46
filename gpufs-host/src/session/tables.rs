//! The tables that the device sees: made once for a session, of fixed size, in one stretch of memory, the *image*.
//!
//! Where the device has memory of its own, the image exists twice: on the device, and as the host's mirror. [`Tables::push`] and
//! [`Tables::pull`] copy it, while no kernel runs. Pointers differ between the two, so each has its own [`SessionTables`] and [`Queue`]s;
//! the words that they point to have the same offset in both. On CPU lanes there is one image and one view.
//!
//! The host's image stays mapped. Its head, the [`SessionTables`] and its [`Queue`]s, never changes; when the session is closed the system takes
//! the memory of the tables behind it and gives zeros in its place; a later session may get it (`estate.rs`). So does a `fork(2)` in the child. Zeros are tables in which everything
//! is closed and nothing is free: a handle that was kept beyond its session, or in a child, gets `EBADF` or `EMFILE`, where it would
//! otherwise read freed memory, or work on rings that are its parent's.
//!
//! What outlives the device is not in the image: the [`HostJournal`] is host memory that both views point to.
#![allow(unsafe_code, reason = "makes the tables that the device reads through pointers")]

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use gpufs_core::alloc::BufferPool;
use gpufs_core::failures::FAILURE_WORDS;
use gpufs_core::journal::{Journal, Place};
use gpufs_core::session::{OpenFile, Region, Resources, SessionTables, Stall, TicketLock};
use gpufs_core::shared::{self, PATH_BYTES};
use gpufs_core::stream::Stream;
use gpufs_core::word::{DeviceWord, DeviceWord64, SharedWord64};
use gpufs_core::{FreeSet, Queue, QueueParts, QueueWords};

use super::estate::{Estate, Image};
use crate::ring::{Ring, RingParts};

/// Sizes of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) files: u32,
    pub(super) streams: u32,
    pub(super) regions: u32,
    pub(super) blocks_per_stream: u32,
    pub(super) deadline_ns: u64,
    /// Bytes for long records.
    pub(super) record_bytes: usize,
}

/// A pool's memory and how it is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolMemory {
    /// Where the device and the kernel reach it.
    pub(super) base: u64,
    pub(super) buffers: u32,
    pub(super) buffer_bytes: u32,
    pub(super) buffer_index: u32,
}

/// Memory of a device, as far as a session needs it.
pub(crate) trait DeviceMemory: std::fmt::Debug + Send {
    /// Where it begins, for the device.
    fn address(&self) -> u64;
    /// Its length.
    fn bytes(&self) -> usize;
    /// Copies `bytes` to the device, to `offset` of this memory. No kernel runs.
    fn write_at(&self, offset: usize, bytes: &[u8]) -> io::Result<()>;
    /// Copies from `offset` of this memory into `bytes`. No kernel runs.
    fn read_at(&self, offset: usize, bytes: &mut [u8]) -> io::Result<()>;
    /// Copies `image` to the device, to the start of this memory. No kernel runs.
    fn write(&self, image: &[u8]) -> io::Result<()> {
        self.write_at(0, image)
    }
    /// Copies the start of this memory into `image`. No kernel runs.
    fn read(&self, image: &mut [u8]) -> io::Result<()> {
        self.read_at(0, image)
    }
}

/// Whether `bytes` bytes at `offset` lie within memory of `length` bytes.
pub(crate) fn within(length: usize, offset: usize, bytes: usize) -> io::Result<()> {
    if offset <= length && bytes <= length - offset {
        return Ok(());
    }
    let text = format!("{bytes} bytes at {offset} do not lie within memory of {length} bytes");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// What the tables hold, for every view of them.
struct Contents<'a> {
    rings: &'a [Ring],
    sizes: Sizes,
    staging: PoolMemory,
    stream_buffers: PoolMemory,
    host_journal: &'a HostJournal,
    /// Bytes of the coalescing buffers.
    coalescing_bytes: usize,
    /// Buffers for the text of lines that are read ahead.
    line_buffers: u32,
}

/// What outlives the device: where it lies in host memory that the device reaches at the same address. Zero to begin with.
#[derive(Clone, Debug)]
pub(super) struct HostJournal {
    /// Where the device has memory of its own. Where not, it is in the image, and is never freed.
    stall: Option<*const Stall>,
    files: *const SharedWord64,
    /// One for each stream buffer, and the rest, where output survives.
    places: Option<*const Place>,
    entries: *const SharedWord64,
    entries_per_buffer: u32,
    shift: u32,
    /// For each ring, one word for each slot, where output survives.
    results: Vec<*const SharedWord64>,
    /// Length in bytes.
    pub(super) bytes: usize,
}

impl HostJournal {
    /// Lays it out from address `base` on. A first call, at any address, tells the size.
    pub(super) fn lay_out(
        base: u64,
        rings: &[Ring],
        files: u32,
        (buffers, buffer_bytes): (u32, u32),
        (own_memory, survives): (bool, bool),
    ) -> Self {
        let mut cutter = Cutter { base, next: 0 };
        let entries_per_buffer = Journal::entries_for(buffer_bytes);
        let (stall, files) = (own_memory.then(|| cutter.table(1)), cutter.table(files));
        let mut kept = Self {
            stall,
            files,
            places: None,
            entries: std::ptr::null(),
            entries_per_buffer,
            shift: buffer_bytes.trailing_zeros(),
            results: vec![std::ptr::null(); rings.len()],
            bytes: 0,
        };
        if survives {
            kept.places = Some(cutter.table(buffers));
            kept.entries = cutter.table(buffers * entries_per_buffer);
            for (results, ring) in kept.results.iter_mut().zip(rings) {
                *results = cutter.table(capacity_of(&ring.parts(), true));
            }
        }
        kept.bytes = usize::try_from(cutter.next).unwrap_or(usize::MAX);
        kept
    }
    /// Whether output survives.
    pub(super) fn is_enabled(&self) -> bool {
        self.places.is_some()
    }
    fn journal(&self) -> Journal {
        Journal {
            places: self.places.unwrap_or(std::ptr::null()),
            entries: self.entries,
            files: self.files,
            entries_per_buffer: self.entries_per_buffer,
            shift: self.shift,
        }
    }
    /// What became of the last write of a block that `slot` of ring `ring` carried: generation and result. 0 for none.
    pub(super) fn result(&self, ring: u32, slot: u32) -> u64 {
        let Some(results) = self.results.get(ring as usize).filter(|results| !results.is_null()) else {
            return 0;
        };
        // SAFETY:
        // - laid out for each slot of each ring; the session, which owns this, owns the memory too
        // ORDERING: relaxed: the device is dead.
        unsafe { &*results.add(slot as usize) }.peek()
    }
}

/// Slots of a ring.
fn capacity_of(parts: &RingParts, survives: bool) -> u32 {
    // `Queue::new` says why half.
    parts.sq_entries.min(if survives { parts.cq_entries / 2 } else { parts.cq_entries })
}

/// Hands out places in an image. Both views are laid out by the same calls, so their offsets agree.
struct Cutter {
    base: u64,
    next: u64,
}

/// Alignment of an image and of each table in it.
const ALIGN: u64 = 256;
/// What the system gives back memory by, at the least.
const PAGE: u64 = 4096;
/// Images begin at multiples of this: a multiple of whole pages, and of a stream's entry, which the handles of C need.
pub(super) const IMAGE_ALIGN: usize = common_multiple(PAGE) as usize;

/// The least common multiple of a stream's entry and `align`, a power of two.
const fn common_multiple(align: u64) -> u64 {
    let entry = size_of::<Stream>() as u64;
    entry << align.trailing_zeros().saturating_sub(entry.trailing_zeros())
}

/// How far behind `address` the next image may begin.
pub(super) const fn image_lead(address: u64) -> usize {
    (address.next_multiple_of(IMAGE_ALIGN as u64) - address) as usize
}

/// The device's memory for an image, which begins where one may.
#[derive(Debug)]
struct ImageMemory {
    whole: Box<dyn DeviceMemory>,
    lead: usize,
}

impl DeviceMemory for ImageMemory {
    fn address(&self) -> u64 {
        self.whole.address() + self.lead as u64
    }
    fn bytes(&self) -> usize {
        self.whole.bytes()
    }
    fn write_at(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        self.whole.write_at(self.lead + offset, bytes)
    }
    fn read_at(&self, offset: usize, bytes: &mut [u8]) -> io::Result<()> {
        self.whole.read_at(self.lead + offset, bytes)
    }
}

impl Cutter {
    fn table<T>(&mut self, items: u32) -> *const T {
        let address = self.base + self.next;
        self.next = (self.next + u64::from(items) * size_of::<T>() as u64).next_multiple_of(ALIGN);
        address as *const T
    }
    /// The stream table: at a multiple of an entry, as the image is.
    fn streams(&mut self, items: u32) -> *const Stream {
        self.next = self.next.next_multiple_of(common_multiple(ALIGN));
        self.table::<Stream>(items)
    }
    fn free_set(&mut self, items: u32) -> FreeSet {
        let count = FreeSet::words_for(items);
        // SAFETY:
        // - `count` words of the image, which stays as long as it is used
        unsafe { FreeSet::new(self.table::<DeviceWord64>(count), count) }
    }
    fn pool(&mut self, memory: PoolMemory) -> BufferPool {
        BufferPool {
            base: memory.base,
            buffer_bytes: memory.buffer_bytes,
            buffer_index: memory.buffer_index,
            free: self.free_set(memory.buffers),
        }
    }
    /// The pool of coalescing buffers at `base`, or that of long records, which has buffers of the same size; a view that does not reach it has 0 there.
    fn coalescing_buffers(&mut self, bytes: usize, base: u64) -> BufferPool {
        let buffers = u32::try_from(bytes / COALESCING_BUFFER_BYTES as usize).unwrap_or(u32::MAX);
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
        // - the ring's words and entries stay mapped until the session closes it, after the last use; what outlives the session
        //   meets closed tables first (see the head of the file)
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
                capacity,
                results,
            })
        }
    }
    /// The session and its queues as seen from `base`, where the queues themselves lie at the image's start.
    fn view(
        &mut self,
        contents: &Contents<'_>,
        (coalescing_buffers, line_buffers, records, paths): (u64, u64, u64, Option<u64>),
        parts: impl Fn(&Ring) -> RingParts,
    ) -> (SessionTables, Vec<Queue>) {
        let Sizes { files, streams, regions, blocks_per_stream, deadline_ns, .. } = contents.sizes;
        self.table::<SessionTables>(1);
        let queue_table = self.table::<Queue>(count(contents.rings));
        // What follows is given back without what comes before.
        self.next = self.next.next_multiple_of(PAGE);
        let each = contents.rings.iter().zip(&contents.host_journal.results);
        let queues = each.map(|(ring, results)| self.queue(&parts(ring), *results)).collect();
        let resources = Resources {
            queues: queue_table,
            queue_count: count(contents.rings),
            file_count: files,
            files: self.table::<OpenFile>(files),
            files_free: self.free_set(files),
            stream_table: self.streams(streams).cast(),
            streams_free: self.free_set(streams),
            stream_count: streams,
            region_count: regions,
            regions: self.table::<Region>(regions),
            staging: self.pool(contents.staging),
            stream_buffers: self.pool(contents.stream_buffers),
            coalescing_buffers: self.coalescing_buffers(contents.coalescing_bytes, coalescing_buffers),
            line_buffers: self.line_buffers(contents, line_buffers),
            deadline_ns,
            blocks_per_stream,
            stall: contents.host_journal.stall.unwrap_or_else(|| self.table::<Stall>(1)),
            stalled: self.table::<DeviceWord>(1),
            journal: contents.host_journal.journal(),
        };
        let session = SessionTables {
            resources,
            shared: shared::Table {
                entries: self.table::<shared::Entry>(streams),
                lock: self.table::<TicketLock>(1),
                paths: paths.unwrap_or_else(|| self.table::<[DeviceWord64; PATH_BYTES / 8]>(streams) as u64),
                count: streams,
            },
            records: self.coalescing_buffers(contents.sizes.record_bytes, records),
            records_ended: self.table::<DeviceWord>(1),
            failures: self.table::<DeviceWord64>(FAILURE_WORDS),
        };
        (session, queues)
    }
}

/// A session's tables.
#[derive(Debug)]
pub(super) struct Tables {
    /// The host's view.
    pub(super) host: &'static SessionTables,
    /// The address of the device's view.
    pub(super) device_address: u64,
    image: NonNull<u8>,
    bytes: usize,
    /// Who gets the image when the tables are closed.
    estate: Arc<Estate>,
    /// The device's copy of the image, where it has one.
    device: Option<Box<dyn DeviceMemory>>,
    /// The device's view, put in place of the host's while the image is copied.
    device_view: Option<(SessionTables, Vec<Queue>)>,
    /// The memory of the coalescing buffers: the device's, or where it shares the host's, the host's.
    coalescing_buffers: Assembly,
    /// The memory of the line buffers, likewise.
    line_buffers: Assembly,
    /// The memory of long records, likewise, where it is not the session's own.
    records: Assembly,
    /// The memory of shared streams' paths, where the device has memory of its own.
    paths: Assembly,
}

/// Memory of a pool that the kernel never sees.
#[derive(Debug)]
enum Assembly {
    None,
    Device(Box<dyn DeviceMemory>),
    Host(Vec<u128>),
}

impl Assembly {
    fn new(
        bytes: usize,
        allocate: impl Fn(usize) -> io::Result<Option<Box<dyn DeviceMemory>>>,
    ) -> io::Result<Self> {
        Ok(match bytes {
            0 => Self::None,
            bytes => match allocate(bytes)? {
                Some(memory) => Self::Device(memory),
                None => Self::Host(vec![0; bytes / size_of::<u128>()]),
            },
        })
    }
    /// Where a view of the host finds it.
    fn shared(&self) -> u64 {
        if let Self::Host(_) = self { self.address() } else { 0 }
    }
    fn address(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Device(memory) => memory.address(),
            Self::Host(memory) => memory.as_ptr() as u64,
        }
    }
}

/// Bytes of a coalescing buffer: the lines of a warp mostly fit.
const COALESCING_BUFFER_BYTES: u32 = 4096;

// SAFETY:
// - the image is reached through the session's own rules, and copied only while no kernel runs
unsafe impl Send for Tables {}

impl Tables {
    /// Makes the tables. `records_at` is where long records have memory of the session's own, or 0. `allocate` gives the device's memory for an image of so many bytes, or `None` where it shares the host's.
    #[allow(clippy::too_many_arguments, reason = "what a session consists of")]
    pub(super) fn build(
        estate: &Arc<Estate>,
        rings: &[Ring],
        sizes: Sizes,
        staging: PoolMemory,
        stream_buffers: PoolMemory,
        host_journal: &HostJournal,
        (coalescing_bytes, line_buffers, records_at): (usize, u32, u64),
        allocate: impl Fn(usize) -> io::Result<Option<Box<dyn DeviceMemory>>>,
    ) -> io::Result<Self> {
        let contents =
            Contents { rings, sizes, staging, stream_buffers, host_journal, coalescing_bytes, line_buffers };
        // A first pass over addresses that nobody uses tells the size.
        let mut measure = Cutter { base: ALIGN, next: 0 };
        let _ = measure.view(&contents, (0, 0, 0, host_journal.stall.map(|_| 0)), Ring::parts);
        let bytes = usize::try_from(measure.next.next_multiple_of(PAGE)).unwrap_or(usize::MAX);

        let device = allocate(bytes + IMAGE_ALIGN)?.map(|whole| -> Box<dyn DeviceMemory> {
            let lead = image_lead(whole.address());
            Box::new(ImageMemory { whole, lead })
        });
        let coalescing_buffers = Assembly::new(coalescing_bytes, &allocate)?;
        let text_bytes = line_buffers as usize * 2 * stream_buffers.buffer_bytes as usize;
        let line_memory = Assembly::new(text_bytes, &allocate)?;
        let records = Assembly::new(if records_at == 0 { sizes.record_bytes } else { 0 }, &allocate)?;
        // Not in the image where that is copied.
        let separate = host_journal.stall.is_some();
        let path_bytes = if separate { sizes.streams as usize * PATH_BYTES } else { 0 };
        let paths = Assembly::new(path_bytes, &allocate)?;
        let at = records_at.max(records.shared());
        let shared = (coalescing_buffers.shared(), line_memory.shared(), at, separate.then_some(0));
        let view_at = |image: &Image| {
            Cutter { base: image.memory.as_ptr() as u64, next: 0 }.view(&contents, shared, Ring::parts)
        };
        // SAFETY:
        // - the images of the estate were made for sessions, and it is this session's
        let mut image = unsafe { take_image(estate, bytes, head_bytes(rings.len()), &view_at) }?;
        let host_view = view_at(&image);
        let generations = core::mem::take(&mut image.generations);
        let image = image.memory;
        let device_view = device.as_ref().map(|device| {
            let mut cutter = Cutter { base: device.address(), next: 0 };
            let at = records_at.max(records.address());
            let own = (coalescing_buffers.address(), line_memory.address(), at, Some(paths.address()));
            cutter.view(&contents, own, Ring::device_parts)
        });
        let device_address = device.as_ref().map_or(image.as_ptr() as u64, |device| device.address());
        // SAFETY:
        // - the image begins with the session, is as long as the cutter says, zeroed and aligned, and never unmapped
        // - every table is zero, which is what its default is: no file, no stream, no slot in flight
        let host: &'static SessionTables = unsafe {
            if generations.is_empty() {
                place(image, host_view);
            }
            image.cast::<SessionTables>().as_ref()
        };
        for (stream, generation) in host.streams().iter().zip(generations) {
            // ORDERING: relaxed: nobody has this session's handles yet, and those of earlier ones find it even.
            stream.generation.set(generation);
        }
        for (set, items) in [
            (&host.files_free, sizes.files),
            (&host.streams_free, sizes.streams),
            (&host.staging.free, staging.buffers),
            (&host.stream_buffers.free, stream_buffers.buffers),
            (&host.line_buffers.free, line_buffers),
            (
                &host.records.free,
                u32::try_from(sizes.record_bytes / COALESCING_BUFFER_BYTES as usize).unwrap_or(0),
            ),
            (
                &host.coalescing_buffers.free,
                u32::try_from(coalescing_bytes / COALESCING_BUFFER_BYTES as usize).unwrap_or(0),
            ),
        ] {
            set.release_all(items);
        }
        // Each stream has its own (rule 11).
        host.stream_buffers.free.withhold(sizes.streams);
        host.open_failures();
        for entry in host.shared.entries() {
            entry.make_free();
        }
        for (queue, ring) in host.queues().iter().zip(rings) {
            queue.release_all();
            // What proved the ring has gone through it.
            queue.begin_at(ring.tails().0);
            // Half of the slots that stream buffers leave: the others stay for what ends (rule 8).
            queue.limit_waits(queue.capacity().saturating_sub(stream_buffers.buffers) / 2);
        }
        for (index, stream) in (0..).zip(host.streams()) {
            stream.blocks[0].buffer.set(index);
            let home = core::ptr::from_ref(stream).addr() - image.as_ptr().addr();
            stream.home.set(u32::try_from(home).map_err(io::Error::other)?);
        }
        let estate = Arc::clone(estate);
        Ok(Self {
            host,
            device_address,
            image,
            bytes,
            estate,
            device,
            device_view,
            coalescing_buffers,
            line_buffers: line_memory,
            records,
            paths,
        })
    }

    /// Bytes of the device's memory that the tables and the pools have.
    pub(super) fn device_bytes(&self) -> usize {
        let of = |memory: &Assembly| if let Assembly::Device(memory) = memory { memory.bytes() } else { 0 };
        self.device.as_ref().map_or(0, |memory| memory.bytes())
            + of(&self.coalescing_buffers)
            + of(&self.line_buffers)
            + of(&self.records)
            + of(&self.paths)
    }

    /// Closes every table of the host's, and gives its memory back; the image stays for the next session. Nobody uses the tables rightly any
    /// more, and every stream is closed.
    pub(super) fn close(&self) {
        let head = head_bytes(self.host.queues().len());
        let generations = self.host.streams().iter().map(|stream| stream.generation.peek()).collect();
        // SAFETY:
        // - whole pages of the image, which holds only words there: zero is one, and who still looks at them reads either
        let emptied = unsafe {
            libc::madvise(self.image.add(head).as_ptr().cast(), self.bytes - head, libc::MADV_DONTNEED)
        };
        if emptied == 0 {
            let (memory, bytes) = (self.image, self.bytes);
            self.estate.images().push(Image { memory, bytes, head, generations });
        }
    }

    /// Makes the device see what the host has changed. No kernel runs.
    pub(super) fn push(&mut self) -> io::Result<()> {
        let (Some(device), Some(view)) = (&self.device, &self.device_view) else { return Ok(()) };
        // SAFETY:
        // - `copy` is as long as the image; nobody writes the image while it is copied, since no kernel runs and `self` is borrowed
        let mut copy = unsafe { core::slice::from_raw_parts(self.image.as_ptr(), self.bytes) }.to_vec();
        put_view(&mut copy, view);
        device.write(&copy)
    }

    /// Makes the host see what the device has changed. No kernel runs.
    pub(super) fn pull(&mut self) -> io::Result<()> {
        let Some(device) = &self.device else { return Ok(()) };
        let mut copy = vec![0; self.bytes];
        device.read(&mut copy)?;
        let head = head_bytes(self.host.queues().len());
        // SAFETY:
        // - behind the session and its queues the image holds only words, which are interior-mutable, and nobody touches them now:
        //   no kernel runs and `self` is borrowed mutably
        unsafe {
            core::ptr::copy_nonoverlapping(
                copy.as_ptr().add(head),
                self.image.as_ptr().add(head),
                self.bytes - head,
            );
        }
        Ok(())
    }
}

/// Bytes of the session and its queues at the image's start, whole pages: what differs between the views, and never changes.
fn head_bytes(queues: usize) -> usize {
    let align = |bytes: usize| bytes.next_multiple_of(ALIGN as usize);
    (align(size_of::<SessionTables>()) + align(queues * size_of::<Queue>())).next_multiple_of(PAGE as usize)
}

/// Puts a session and its queues at the start of an image.
///
/// # Safety
/// The image is valid, aligned to `ALIGN`, and at least `head_bytes` long.
unsafe fn place(image: NonNull<u8>, (session, queues): (SessionTables, Vec<Queue>)) {
    let first = size_of::<SessionTables>().next_multiple_of(ALIGN as usize);
    for (index, queue) in queues.into_iter().enumerate() {
        // SAFETY:
        // - within the head, aligned, by this function's contract
        unsafe { image.add(first).cast::<Queue>().add(index).write(queue) };
    }
    // SAFETY:
    // - as above
    unsafe { image.cast::<SessionTables>().write(session) };
}

/// Puts copies of a view at the start of a copied image.
fn put_view(copy: &mut [u8], (session, queues): &(SessionTables, Vec<Queue>)) {
    let first = size_of::<SessionTables>().next_multiple_of(ALIGN as usize);
    let mut put = |at: usize, from: *const u8, bytes: usize| {
        // SAFETY:
        // - `from` is a whole value of that size
        copy[at..at + bytes].copy_from_slice(unsafe { core::slice::from_raw_parts(from, bytes) });
    };
    put(0, core::ptr::from_ref(session).cast(), size_of::<SessionTables>());
    for (index, queue) in queues.iter().enumerate() {
        put(first + index * size_of::<Queue>(), core::ptr::from_ref(queue).cast(), size_of::<Queue>());
    }
}

/// An image of the estate's that a session would write as it is, or else a new one. Where the addresses that the head names are not those of
/// any session before, it is new, and the others wait for a session that has them.
///
/// # Safety
/// The estate's images were made for sessions.
unsafe fn take_image(
    estate: &Estate,
    bytes: usize,
    head: usize,
    view_at: &dyn Fn(&Image) -> (SessionTables, Vec<Queue>),
) -> io::Result<Image> {
    let mut images = estate.images();
    let fits = |image: &Image| {
        // SAFETY:
        // - a session has written its head, which starts with itself, and nobody writes it again
        let written = || unsafe { image.memory.cast::<SessionTables>().as_ref() };
        image.bytes == bytes && image.head == head && image.is_used() && {
            let (session, queues) = view_at(image);
            *written() == session && written().queues() == queues
        }
    };
    match images.iter().rposition(fits) {
        Some(place) => Ok(images.remove(place)),
        None => Estate::new_image(bytes, head),
    }
}

fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}
