//! The tables that the device sees: made once for a session, of fixed size, in one stretch of memory, the *image*.
//!
//! Where the device has memory of its own, the image exists twice: on the device, and as the host's mirror. [`Tables::push`] and
//! [`Tables::pull`] copy it, while no kernel runs. Pointers differ between the two, so each has its own [`SessionTables`] and [`Queue`]s;
//! the words that they point to have the same offset in both. On CPU lanes there is one image and one view.
//!
//! The host's image stays mapped. Its head, the [`SessionTables`] and its [`Queue`]s, never changes. When the session is closed, the system
//! takes the memory of the tables after the head and gives zeros in its place; a later session may get the image (`estate.rs`). So does a
//! `fork(2)` in the child. Zeros are tables in which everything is closed and nothing is free: a handle that the program kept after its session,
//! or in a child, gets `EBADF` or `EMFILE`. Otherwise it would read freed memory, or work on rings that are its parent's.
//!
//! In this folder: building the tables and copying them (`mod.rs`), and their content as each side sees it (`view.rs`). Elsewhere: the memory
//! of an image (`image.rs`), and what outlives the device, which is host memory that both views point to (`host_journal.rs`).
#![expect(unsafe_code, reason = "makes the tables that the device reads through pointers")]

mod view;

use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use gpufs_core::Queue;
use gpufs_core::cache::FrameIndex;
use gpufs_core::gate::Gate;
use gpufs_core::pieces::PieceWords;
use gpufs_core::session::SessionTables;
use gpufs_core::shared::PATH_BYTES;

use super::estate::Estate;
use super::image::{IMAGE_ALIGN, Image, ImageMemory};
use super::layout::{ALIGN, Cutter, PAGE};
use crate::gpu::DeviceMemory;
use crate::ring::Ring;

use view::Addresses;
pub(super) use view::{Contents, PoolMemory, Sizes};

/// Gives memory of the device, or `None` where the device shares the host's.
pub(super) type Allocate<'a> = &'a dyn Fn(usize) -> io::Result<Option<Box<dyn DeviceMemory>>>;

/// A session's tables.
#[derive(Debug)]
pub(super) struct Tables {
    /// The host's view.
    pub(super) host: &'static SessionTables,
    /// The address of the device's view.
    pub(super) device_address: u64,
    image: NonNull<u8>,
    bytes: usize,
    /// Who may use the tables on the host.
    pub(super) gate: &'static Gate,
    /// What gets the image when the tables are closed.
    estate: Arc<Estate>,
    /// The device's copy of the image, where it has one.
    device: Option<Box<dyn DeviceMemory>>,
    /// The device's view, which replaces the host's while the image is copied.
    device_view: Option<(SessionTables, Vec<Queue>)>,
    pools: Pools,
}

/// The memory of pools that the kernel never sees.
#[derive(Debug)]
struct Pools {
    coalescing_buffers: PoolBytes,
    line_buffers: PoolBytes,
    /// Of long records, where that is not the session's own memory.
    records: PoolBytes,
    /// Where those lie if it is; else 0.
    records_at: u64,
    /// Of the cache's frames.
    frames: PoolBytes,
    /// Of shared streams' paths, where the device has memory of its own.
    paths: PoolBytes,
    /// What owners of traces' pieces know of them, where the device has memory of its own.
    piece_words: PoolBytes,
}

/// The memory of one such pool: the device's own, or where it shares the host's, the host's.
#[derive(Debug)]
enum PoolBytes {
    None,
    Device(Box<dyn DeviceMemory>),
    Host(Vec<u128>),
}

impl PoolBytes {
    fn new(bytes: usize, allocate: Allocate<'_>) -> io::Result<Self> {
        if bytes == 0 {
            return Ok(Self::None);
        }
        Ok(match allocate(bytes)? {
            Some(memory) => Self::Device(memory),
            None => Self::Host(vec![0; bytes / size_of::<u128>()]),
        })
    }
    /// Where the host's view finds it.
    fn host_address(&self) -> u64 {
        if let Self::Host(_) = self { self.device_address() } else { 0 }
    }
    /// Where the device's view finds it.
    fn device_address(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Device(memory) => memory.address(),
            Self::Host(memory) => memory.as_ptr() as u64,
        }
    }
    /// Bytes of the device's own memory.
    fn device_bytes(&self) -> usize {
        if let Self::Device(memory) = self { memory.bytes() } else { 0 }
    }
}

impl Pools {
    fn new(contents: &Contents<'_>, records_at: u64, allocate: Allocate<'_>) -> io::Result<Self> {
        let Sizes { record_bytes, streams, .. } = contents.sizes;
        Ok(Self {
            coalescing_buffers: PoolBytes::new(contents.coalescing_bytes, allocate)?,
            line_buffers: PoolBytes::new(contents.line_bytes(), allocate)?,
            records: PoolBytes::new(if records_at == 0 { record_bytes } else { 0 }, allocate)?,
            records_at,
            frames: PoolBytes::new(contents.sizes.cached.frame_bytes(), allocate)?,
            paths: PoolBytes::new(
                if contents.is_copied() { streams as usize * PATH_BYTES } else { 0 },
                allocate,
            )?,
            piece_words: PoolBytes::new(
                if contents.is_copied() {
                    contents.pieces.buffers as usize * size_of::<PieceWords>()
                } else {
                    0
                },
                allocate,
            )?,
        })
    }
    /// What the host's view has of them. The host never reads the paths of a device, nor what its lanes know of pieces.
    fn of_host(&self, is_copied: bool) -> Addresses {
        Addresses {
            coalescing_buffers: self.coalescing_buffers.host_address(),
            line_buffers: self.line_buffers.host_address(),
            records: self.records_at.max(self.records.host_address()),
            frames: self.frames.host_address(),
            paths: is_copied.then_some(0),
            piece_words: is_copied.then_some(0),
            gate: ptr::null(),
        }
    }
    /// What the view of a device with memory of its own has of them.
    fn of_device(&self) -> Addresses {
        Addresses {
            coalescing_buffers: self.coalescing_buffers.device_address(),
            line_buffers: self.line_buffers.device_address(),
            records: self.records_at.max(self.records.device_address()),
            frames: self.frames.device_address(),
            paths: Some(self.paths.device_address()),
            piece_words: Some(self.piece_words.device_address()),
            gate: ptr::null(),
        }
    }
    fn device_bytes(&self) -> usize {
        let pools = [
            &self.coalescing_buffers,
            &self.line_buffers,
            &self.records,
            &self.frames,
            &self.paths,
            &self.piece_words,
        ];
        pools.into_iter().map(PoolBytes::device_bytes).sum()
    }
}

// SAFETY:
// - the image is reached through the session's own rules, and copied only while no kernel runs
unsafe impl Send for Tables {}

impl Tables {
    /// Makes the tables. `records_at` is where long records have memory of the session's own, or 0.
    pub(super) fn build(
        estate: &Arc<Estate>,
        contents: &Contents<'_>,
        records_at: u64,
        allocate: Allocate<'_>,
    ) -> io::Result<Self> {
        // A first pass over addresses that nothing uses tells the size.
        let mut measure = Cutter::new(ALIGN);
        let nowhere = Addresses {
            coalescing_buffers: 0,
            line_buffers: 0,
            records: 0,
            frames: 0,
            paths: contents.is_copied().then_some(0),
            piece_words: contents.is_copied().then_some(0),
            gate: ptr::null(),
        };
        let _ = measure.view(contents, nowhere, Ring::parts);
        let bytes = measure.bytes().next_multiple_of(PAGE as usize);

        let device = allocate(bytes + IMAGE_ALIGN)?
            .map(|whole| -> Box<dyn DeviceMemory> { Box::new(ImageMemory::new(whole)) });
        let pools = Pools::new(contents, records_at, allocate)?;
        let of_host = pools.of_host(contents.is_copied());
        let view_at = |image: &Image| {
            let own = Addresses { gate: image.gate, ..of_host };
            Cutter::new(image.memory.as_ptr() as u64).view(contents, own, Ring::parts)
        };
        // SAFETY:
        // - the images of the estate were made for sessions, and it is this session's
        let mut image = unsafe { take_image(estate, bytes, head_bytes(contents.rings.len()), &view_at) }?;
        let host_view = view_at(&image);
        let generations = core::mem::take(&mut image.generations);
        let (image, gate) = (image.memory, image.gate);
        let device_view = device.as_ref().map(|device| {
            Cutter::new(device.address()).view(contents, pools.of_device(), Ring::device_parts)
        });
        let device_address = device.as_ref().map_or(image.as_ptr() as u64, |device| device.address());
        if generations.is_empty() {
            // SAFETY:
            // - a new image: valid, aligned, and as long as the head and the tables
            unsafe { place(image, host_view) };
        }
        // SAFETY:
        // - the image begins with the session, is as long as the cutter says, aligned, and never unmapped
        // - every table is zero, which is its default: no file, no stream, no slot in flight
        let host: &'static SessionTables = unsafe { image.cast::<SessionTables>().as_ref() };
        for (stream, generation) in host.streams().iter().zip(generations) {
            // ORDERING: relaxed: nothing has this session's handles yet, and those of earlier ones find it even.
            stream.generation.set(generation);
        }
        fill(host, contents);
        for (index, stream) in (0..).zip(host.streams()) {
            stream.blocks[0].buffer.set(index);
            let home = core::ptr::from_ref(stream).addr() - image.as_ptr().addr();
            stream.home.set(u32::try_from(home).map_err(io::Error::other)?);
        }
        Ok(Self {
            host,
            device_address,
            image,
            bytes,
            gate,
            estate: Arc::clone(estate),
            device,
            device_view,
            pools,
        })
    }

    /// Bytes of the device's memory that the tables and the pools have.
    pub(super) fn device_bytes(&self) -> usize {
        self.device.as_ref().map_or(0, |memory| memory.bytes()) + self.pools.device_bytes()
    }

    /// Closes every table of the host's, and gives its memory back; the image stays for the next session. Only handles that were kept too
    /// long use the tables now, and every stream is closed.
    pub(super) fn close(&self) {
        let head = head_bytes(self.host.all_queues().len());
        let generations = self.host.streams().iter().map(|stream| stream.generation.peek()).collect();
        // SAFETY:
        // - within the image, which is longer than its head
        let tables = unsafe { self.image.add(head) };
        // SAFETY:
        // - whole pages of the image, which holds only words there: zero is one, and whatever still reads them reads either value
        let emptied =
            unsafe { libc::madvise(tables.as_ptr().cast(), self.bytes - head, libc::MADV_DONTNEED) };
        if emptied == 0 {
            let (memory, bytes, gate) = (self.image, self.bytes, self.gate);
            self.estate.images().push(Image { memory, bytes, head, generations, gate });
        }
    }

    /// Copies the first bytes of a frame of the cache. No kernel runs.
    pub(super) fn read_frame(&self, index: FrameIndex, into: &mut [u8]) -> io::Result<()> {
        let offset = index.0 as usize * self.host.cache.page_bytes as usize;
        match &self.pools.frames {
            PoolBytes::None => Err(io::ErrorKind::InvalidInput.into()),
            PoolBytes::Device(memory) => memory.read_at(offset, into),
            PoolBytes::Host(memory) => {
                assert!(offset + into.len() <= memory.len() * size_of::<u128>(), "within the frames");
                let first = memory.as_ptr().cast::<u8>().wrapping_add(offset);
                // SAFETY:
                // - within the frames, as checked, which nobody stores to: no kernel runs
                unsafe { first.copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
                Ok(())
            }
        }
    }

    /// Makes the device see what the host has changed. No kernel runs.
    pub(super) fn push(&mut self) -> io::Result<()> {
        let (Some(device), Some(view)) = (&self.device, &self.device_view) else { return Ok(()) };
        // SAFETY:
        // - `copy` is as long as the image; nothing writes the image while it is copied, since no kernel runs and `self` is borrowed
        let mut copy = unsafe { core::slice::from_raw_parts(self.image.as_ptr(), self.bytes) }.to_vec();
        put_view(&mut copy, view);
        device.write(&copy)
    }

    /// Makes the host see what the device has changed. No kernel runs.
    pub(super) fn pull(&mut self) -> io::Result<()> {
        let Some(device) = &self.device else { return Ok(()) };
        let mut copy = vec![0; self.bytes];
        device.read(&mut copy)?;
        let head = head_bytes(self.host.all_queues().len());
        // SAFETY:
        // - within the image, which is longer than its head
        let tables = unsafe { self.image.add(head) };
        let copied = NonNull::from(&copy[head..]).cast::<u8>();
        // SAFETY:
        // - both have `self.bytes - head` bytes, and the copy is memory of its own
        // - after the session and its queues the image holds only words, which are interior-mutable, and nothing touches them now:
        //   no kernel runs and `self` is borrowed mutably
        unsafe { tables.copy_from_nonoverlapping(copied, self.bytes - head) };
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
        // - within the head, by this function's contract
        let place = unsafe { image.add(first + index * size_of::<Queue>()) };
        // SAFETY:
        // - a queue's room in the head, aligned, by this function's contract
        unsafe { place.cast::<Queue>().write(queue) };
    }
    // SAFETY:
    // - the head begins with room for the session, aligned, by this function's contract
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

/// An image of the estate whose head is what the session would write, or else a new one. It is new where no earlier session had the
/// addresses that the head names; the other images wait for a session that has theirs.
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
        // - a session has written its head, which starts with itself, and nothing writes it again
        let written = || unsafe { image.memory.cast::<SessionTables>().as_ref() };
        image.bytes == bytes && image.head == head && image.is_used() && {
            let (session, queues) = view_at(image);
            *written() == session && written().all_queues() == queues
        }
    };
    match images.iter().rposition(fits) {
        Some(place) => Ok(images.remove(place)),
        None => Image::new(bytes, head),
    }
}

/// Makes everything free that a new session has: files, streams, buffers, slots. The tables are zero.
fn fill(host: &SessionTables, contents: &Contents<'_>) {
    for (set, items) in [
        (&host.files_free, contents.sizes.files),
        (&host.streams_free, contents.sizes.streams),
        (&host.staging.free, contents.staging.buffers),
        (&host.async_buffers.free, contents.async_buffers.buffers),
        (&host.listings.free, contents.listings.buffers),
        (&host.stream_buffers.free, contents.stream_buffers.buffers),
        (&host.line_buffers.free, contents.line_buffers),
        (&host.records.free, contents.record_buffers()),
        (&host.coalescing_buffers.free, contents.coalescing_buffers()),
    ] {
        set.release_all(items);
    }
    host.pieces.free_all();
    // Each stream has its own ([R-11]).
    host.stream_buffers.free.withhold(contents.sizes.streams);
    host.open_failures();
    for entry in host.shared.entries() {
        entry.make_free();
    }
    for (queue, ring) in host.all_queues().iter().zip(contents.rings) {
        // SAFETY:
        // - the queue's words are zero, as the image is new; nobody knows the session yet
        unsafe { queue.release_all() };
        // The operations that proved the ring have gone through it.
        // SAFETY:
        // - as above
        unsafe { queue.begin_at(ring.tails().0) };
        // Half of the slots that stream buffers leave: the others stay for operations that end ([R-8]).
        queue.limit_waits(queue.capacity().saturating_sub(contents.stream_buffers.buffers) / 2);
    }
}
