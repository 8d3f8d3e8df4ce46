//! Memory that the host allocates for a kernel, divided among its lanes or warps. Device code does not allocate.
#![expect(unsafe_code, reason = "slices of memory that lanes share")]

use core::marker::PhantomData;
use core::slice;

use gpufs_core::word::DeviceWord;
use gpufs_device::portable;

portable! {
    /// A range of memory in equal parts, each given out once. A field of a placed value; the memory itself lies elsewhere.
    #[derive(Debug)]
    pub struct Parts {
        /// As the device sees it.
        base: u64,
        /// Bytes of a part.
        bytes: u64,
        count: u32,
        /// The next part to give out, or more.
        next: DeviceWord,
    }
}

impl Parts {
    /// Divides the `total` bytes at `base`, an address on the device, into parts of `bytes`; the remainder is not used.
    ///
    /// # Safety
    /// As long as kernels use the parts, the memory is valid, and nothing else accesses it.
    ///
    /// # Panics
    /// If `bytes` is 0.
    #[must_use]
    pub unsafe fn new(base: u64, total: usize, bytes: usize) -> Self {
        let count = u32::try_from(total / bytes).unwrap_or(u32::MAX);
        Self { base, bytes: bytes as u64, count, next: DeviceWord::new(0) }
    }
    /// A part for the caller alone; `None` when all are given out. One lane.
    pub fn claim(&self) -> Option<Part<'_>> {
        // ORDERING: relaxed: the number is the claim.
        let index = self.next.fetch_add_relaxed(1);
        (index < self.count).then(|| {
            let base = self.base + u64::from(index) * self.bytes;
            Part { base: base as *mut u8, bytes: self.part_bytes(), memory: PhantomData }
        })
    }
    #[allow(clippy::cast_possible_truncation, reason = "a length in memory")]
    const fn part_bytes(&self) -> usize {
        self.bytes as usize
    }
}

/// One part, which only the lane or warp that claimed it uses. A warp shares the part that its leader claimed by [`Part::address`] and
/// [`Part::shared`].
#[derive(Debug)]
pub struct Part<'a> {
    base: *mut u8,
    bytes: usize,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Part<'a> {
    /// All of it, for the lane that claimed it.
    #[must_use]
    pub fn into_slice(self) -> &'a mut [u8] {
        // SAFETY:
        // - valid (`Parts::new`), given to this lane only (`Parts::claim`), and `self` is consumed
        unsafe { slice::from_raw_parts_mut(self.base, self.bytes) }
    }
    /// The address, which the leader tells the other lanes.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.base as u64
    }
    /// The part that the warp's leader claimed.
    ///
    /// # Safety
    /// `address` is that of a part of `parts` that the caller's warp claimed, and no lane turned the part into a slice.
    #[must_use]
    pub const unsafe fn shared(parts: &'a Parts, address: u64) -> Self {
        Self { base: address as *mut u8, bytes: parts.part_bytes(), memory: PhantomData }
    }
    /// Bytes [`from`, `to`) for reading.
    ///
    /// # Safety
    /// While the slice lives, no lane writes there.
    ///
    /// # Panics
    /// If they do not lie in the part.
    #[must_use]
    pub unsafe fn read(&self, from: usize, to: usize) -> &'a [u8] {
        assert!(from <= to && to <= self.bytes);
        // SAFETY:
        // - in bounds, as checked; unchanged, by this function's contract
        unsafe { slice::from_raw_parts(self.base.add(from), to - from) }
    }
    /// Bytes [`from`, `to`) for writing.
    ///
    /// # Safety
    /// While the slice lives, no other lane reads or writes there.
    ///
    /// # Panics
    /// If they do not lie in the part.
    #[must_use]
    pub unsafe fn write(&self, from: usize, to: usize) -> &'a mut [u8] {
        assert!(from <= to && to <= self.bytes);
        // SAFETY:
        // - in bounds, as checked; no other lane uses it, by this function's contract
        unsafe { slice::from_raw_parts_mut(self.base.add(from), to - from) }
    }
}
