//! The names and lengths of the files to search, in device memory that the host fills.
#![expect(unsafe_code, reason = "memory at an address")]

use core::ffi::CStr;
use core::slice;

use gpufs_device::portable;

portable! {
    /// The files' names, each with its NUL, one after the other; where each begins; the files' lengths. The memory lies elsewhere.
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
    /// The names are the `bytes` bytes at `text`; `starts` has `count` 32-bit numbers: where each name begins; `lengths` has `count` 64-bit
    /// numbers: the bytes that each file had when the host looked. All addresses are the device's.
    ///
    /// # Safety
    /// - All three ranges of memory are valid, and not written to, as long as kernels use the names.
    /// - `starts` is a multiple of 4, `lengths` of 8.
    #[must_use]
    pub const unsafe fn new(text: u64, bytes: u64, starts: u64, lengths: u64, count: u32) -> Self {
        Self { text, bytes, starts, lengths, count }
    }
    /// The name with this index.
    ///
    /// # Panics
    /// If there is no such name, or it begins after the end of the names.
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
    /// The length that a file had: a hint, because it may have changed; 0 if it is not a regular file.
    ///
    /// # Panics
    /// If there is no such file.
    #[must_use]
    pub fn length(&self, index: u32) -> u64 {
        // SAFETY:
        // - aligned, there, and constant, by the contract of `new`
        let lengths = unsafe { slice::from_raw_parts(self.lengths as *const u64, self.count as usize) };
        lengths[index as usize]
    }
}
