//! The files to search: their names and lengths in one stretch of memory, which the host hands over.
#![allow(unsafe_code, reason = "memory at an address")]

use core::ffi::CStr;
use core::slice;

use gpufs_device::portable;

portable! {
    /// Names, each ended by a NUL, one after the other; where each begins; how long the files are. The memory lies elsewhere.
    #[derive(Clone, Copy, Debug)]
    pub struct Names {
        text: u64,
        bytes: u64,
        starts: u64,
        lengths: u64,
        count: u32,
    }
}

impl Names {
    /// The names in the `bytes` bytes at `text`, `count` 32-bit numbers at `starts` that say where each begins, and as many 64-bit
    /// numbers at `lengths` that say how many bytes each file had when the host looked; all addresses are the device's.
    ///
    /// # Safety
    /// - All three stretches of memory are there, and nobody writes to them, as long as kernels use the names.
    /// - `starts` is a multiple of 4, `lengths` of 8.
    #[must_use]
    pub const unsafe fn new(text: u64, bytes: u64, starts: u64, lengths: u64, count: u32) -> Self {
        Self { text, bytes, starts, lengths, count }
    }
    /// One of them.
    ///
    /// # Panics
    /// If there are not so many, or it begins behind the end.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "a length in memory")]
    pub fn get(&self, index: u32) -> &CStr {
        // SAFETY:
        // - aligned, there, and constant, by the contract of `new`
        let starts = unsafe { slice::from_raw_parts(self.starts as *const u32, self.count as usize) };
        // SAFETY:
        // - there, and constant, by the contract of `new`
        let text = unsafe { slice::from_raw_parts(self.text as *const u8, self.bytes as usize) };
        CStr::from_bytes_until_nul(&text[starts[index as usize] as usize..]).unwrap_or_default()
    }
    /// How long a file was: a hint, since it may have changed; 0 for what is no regular file.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn length(&self, index: u32) -> u64 {
        // SAFETY:
        // - aligned, there, and constant, by the contract of `new`
        let lengths = unsafe { slice::from_raw_parts(self.lengths as *const u64, self.count as usize) };
        lengths[index as usize]
    }
}
