//! The memory of an image: what holds a session's tables, on the host and on a device.
//!
//! An image begins with its head, the session and its queues. The tables are described in `tables`, and the sharing of images between
//! sessions in `estate.rs`.
#![expect(unsafe_code, reason = "maps memory for tables")]

use std::io;
use std::ptr::NonNull;

use gpufs_core::gate::Gate;
use gpufs_core::stream::Stream;

use super::layout::PAGE;
use super::mapping::map;
use crate::gpu::DeviceMemory;

/// Images begin at multiples of this: a multiple of whole pages, and of a stream's entry, which the handles of C need.
pub(super) const IMAGE_ALIGN: usize = common_multiple(PAGE) as usize;

/// The least common multiple of a stream's entry and `align`, a power of two.
pub(super) const fn common_multiple(align: u64) -> u64 {
    let entry = size_of::<Stream>() as u64;
    entry << align.trailing_zeros().saturating_sub(entry.trailing_zeros())
}

/// Bytes from `address` to where the next image may begin.
const fn image_offset(address: u64) -> usize {
    (address.next_multiple_of(IMAGE_ALIGN as u64) - address) as usize
}

/// An image that no session uses.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) memory: NonNull<u8>,
    pub(super) bytes: usize,
    /// Bytes of the head.
    pub(super) head: usize,
    /// The generation of each stream, all even; none before the first session.
    pub(super) generations: Vec<u32>,
    /// Who may use the tables: closed. Never freed, as the image is not.
    pub(super) gate: &'static Gate,
}

// SAFETY:
// - plain memory; whoever owns the value looks after it
unsafe impl Send for Image {}

impl Image {
    /// A new image of `bytes` bytes, zeroed. A forked child finds all but the first `head` bytes zeroed.
    pub(super) fn new(bytes: usize, head: usize) -> io::Result<Self> {
        // SAFETY:
        // - at an address of the kernel's choice
        let whole =
            unsafe { map(None, bytes + IMAGE_ALIGN, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE) }?;
        // SAFETY:
        // - within the mapping, which has `IMAGE_ALIGN` bytes more
        let memory = unsafe { whole.add(image_offset(whole.as_ptr() as u64)) };
        // SAFETY:
        // - within the image, which is longer than its head
        let tables = unsafe { memory.add(head) };
        // Linux before 4.14 refuses: there a child that makes device calls on its copy of the tables harms its parent.
        // SAFETY:
        // - whole pages of the mapping above: private and anonymous, as the advice needs
        let _ = unsafe { libc::madvise(tables.as_ptr().cast(), bytes - head, libc::MADV_WIPEONFORK) };
        let gate = Box::leak(Box::default());
        Ok(Self { memory, bytes, head, generations: Vec::new(), gate })
    }

    /// Whether a session has written the head.
    pub(super) fn is_used(&self) -> bool {
        !self.generations.is_empty()
    }
}

/// The device's memory for an image, which begins where one may.
#[derive(Debug)]
pub(super) struct ImageMemory {
    whole: Box<dyn DeviceMemory>,
    offset: usize,
}

impl ImageMemory {
    /// Memory for an image in `whole`, which has [`IMAGE_ALIGN`] bytes more than the image.
    pub(super) fn new(whole: Box<dyn DeviceMemory>) -> Self {
        let offset = image_offset(whole.address());
        Self { whole, offset }
    }
}

impl DeviceMemory for ImageMemory {
    fn address(&self) -> u64 {
        self.whole.address() + self.offset as u64
    }
    fn bytes(&self) -> usize {
        self.whole.bytes()
    }
    fn write_at(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        self.whole.write_at(self.offset + offset, bytes)
    }
    fn read_at(&self, offset: usize, bytes: &mut [u8]) -> io::Result<()> {
        self.whole.read_at(self.offset + offset, bytes)
    }
}
