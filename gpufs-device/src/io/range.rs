//! Memory by its address, as tables and SQEs name it: the one place where a stretch of it becomes a slice.
//!
//! Copies between two addresses are in `copy`.
#![allow(unsafe_code, reason = "makes slices of addresses")]

/// `bytes` bytes of memory from `address` on. To hold one promises nothing: those that make a slice of it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceRange {
    /// The first byte's.
    pub(crate) address: u64,
    /// The length.
    pub(crate) bytes: u64,
}

impl DeviceRange {
    #[inline]
    pub(crate) const fn new(address: u64, bytes: u64) -> Self {
        Self { address, bytes }
    }

    /// The `bytes` bytes from `at` on.
    #[inline]
    pub(crate) fn part(self, at: u64, bytes: u64) -> Self {
        debug_assert!(at.checked_add(bytes).is_some_and(|end| end <= self.bytes));
        Self { address: self.address + at, bytes }
    }

    /// The bytes.
    ///
    /// # Safety
    /// For all of `'a`:
    /// - the range lies in one allocation, is valid for reads in the calling lane, and its bytes are initialized
    /// - nobody writes it
    #[inline]
    pub(crate) unsafe fn slice<'a>(self) -> &'a [u8] {
        // SAFETY:
        // - valid, initialized and not written: this function's contract
        // - bytes need no alignment
        unsafe { core::slice::from_raw_parts(self.address as *const u8, self.length()) }
    }

    /// The bytes, to be written.
    ///
    /// # Safety
    /// For all of `'a`:
    /// - the range lies in one allocation, is valid for reads and writes in the calling lane, and its bytes are initialized
    /// - nobody else reads or writes it
    #[inline]
    pub(crate) unsafe fn slice_mut<'a>(self) -> &'a mut [u8] {
        // SAFETY:
        // - valid, initialized and the caller's alone: this function's contract
        // - bytes need no alignment
        unsafe { core::slice::from_raw_parts_mut(self.address as *mut u8, self.length()) }
    }

    /// A plain structure at the start.
    ///
    /// # Safety
    /// - as for [`DeviceRange::slice`], during the call
    /// - any bytes are a valid `T`
    ///
    /// # Panics
    /// If the range is too short for one, or not aligned for it.
    #[inline]
    pub(crate) unsafe fn read<T: Copy>(self) -> T {
        assert!(self.bytes >= size_of::<T>() as u64 && self.address.is_multiple_of(align_of::<T>() as u64));
        // SAFETY:
        // - valid and initialized for as long as asserted: this function's contract
        // - aligned, as asserted
        unsafe { (self.address as *const T).read() }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a length of memory; usize has 64 bits on all targets"
    )]
    const fn length(self) -> usize {
        self.bytes as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_bytes_that_they_name() {
        let mut memory = *b"0123456789abcdef";
        let range = DeviceRange::new(memory.as_mut_ptr() as u64, 16);
        // SAFETY:
        // - within the array, which nothing else refers to while the slice lives
        unsafe { range.part(3, 2).slice_mut() }.copy_from_slice(b"xy");
        // SAFETY:
        // - as above
        assert_eq!(unsafe { range.part(2, 4).slice() }, b"2xy5");
        // SAFETY:
        // - as above
        assert_eq!(unsafe { range.part(0, 0).slice() }, b"");
        assert_eq!(&memory, b"012xy56789abcdef");
    }

    #[test]
    fn a_structure_is_read_from_its_bytes() {
        let memory = [0x0102_0304_0506_0708_u64, 9];
        let range = DeviceRange::new(memory.as_ptr() as u64, 16);
        // SAFETY:
        // - within the array; any bytes are two numbers
        assert_eq!(unsafe { range.read::<[u64; 2]>() }, memory);
    }

    #[test]
    #[should_panic(expected = "bytes")]
    fn a_range_too_short_is_refused() {
        let memory = [0_u64; 2];
        // SAFETY:
        // - it panics before it reads
        let _ = unsafe { DeviceRange::new(memory.as_ptr() as u64, 12).read::<[u64; 2]>() };
    }
}
