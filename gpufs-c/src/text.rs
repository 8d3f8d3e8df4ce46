//! Texts that are put where a caller has room for them, as `snprintf(3)` puts them.

use std::ffi::{c_char, c_int};

/// Puts as much of a text into `into` as fits into `bytes`, with a NUL: the length of the whole text.
///
/// # Safety
/// `into` is null or has room for `bytes` bytes.
pub(crate) unsafe fn put(text: &str, into: *mut c_char, bytes: usize) -> c_int {
    if !into.is_null() && bytes > 0 {
        let kept = text.len().min(bytes - 1);
        // SAFETY:
        // - `into` has room for `bytes` bytes, by this function's contract; `kept` is below that, and within the text
        // - the text is borrowed, and the caller's room is not, so that they do not overlap
        unsafe { core::ptr::copy_nonoverlapping(text.as_ptr().cast(), into, kept) };
        // SAFETY:
        // - `kept` is below `bytes`, by which `into` is long
        let end = unsafe { into.add(kept) };
        // SAFETY:
        // - within the caller's memory, by this function's contract; bytes have no alignment
        unsafe { end.write(0) };
    }
    c_int::try_from(text.len()).unwrap_or(c_int::MAX)
}
