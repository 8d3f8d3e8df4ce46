//! Laying tables out one after the other in a stretch of memory.
#![expect(unsafe_code, reason = "makes sets over addresses")]

use gpufs_core::FreeSet;
use gpufs_core::word::DeviceWord64;

/// Alignment of an image, and of each table in a stretch.
pub(super) const ALIGN: u64 = 256;
/// The unit in which the system takes memory back, at least.
pub(super) const PAGE: u64 = 4096;

/// The next free offset of a stretch of memory that begins at `base`. Stretches that are laid out by the same calls have the same offsets.
#[derive(Debug)]
pub(super) struct Cutter {
    base: u64,
    next: u64,
}

impl Cutter {
    /// Begins at `base`, a multiple of [`ALIGN`]. Nothing is read or written there.
    pub(super) const fn new(base: u64) -> Self {
        Self { base, next: 0 }
    }
    /// Bytes laid out so far.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.next).unwrap_or(usize::MAX)
    }
    /// Goes on at the next multiple of `align`, a power of two or a multiple of one that all earlier alignments divide.
    pub(super) fn align(&mut self, align: u64) {
        self.next = self.next.next_multiple_of(align);
    }
    /// The address of a table of `items` values.
    pub(super) fn table<T>(&mut self, items: u32) -> *const T {
        let address = self.base + self.next;
        self.next += u64::from(items) * size_of::<T>() as u64;
        self.align(ALIGN);
        address as *const T
    }
    /// A set over `items` items, in this stretch.
    pub(super) fn free_set(&mut self, items: u32) -> FreeSet {
        let count = FreeSet::words_for(items);
        // SAFETY:
        // - `count` words of the stretch, which stays as long as the set is used
        unsafe { FreeSet::new(self.table::<DeviceWord64>(count), count) }
    }
}
