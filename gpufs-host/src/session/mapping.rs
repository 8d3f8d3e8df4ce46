//! Anonymous memory of the process, at an address of the kernel's choice or of the caller's.
#![expect(unsafe_code, reason = "maps memory")]

use std::io;
use std::ptr::{self, NonNull};

/// `mmap(2)` of anonymous memory, at `place`, or where there is none at an address of the kernel's choice.
///
/// # Safety
/// At `place`, if there is one, `bytes` bytes are the caller's, and nothing refers to them.
pub(super) unsafe fn map(
    place: Option<usize>,
    bytes: usize,
    protection: i32,
    flags: i32,
) -> io::Result<NonNull<u8>> {
    let (address, fixed) = place
        .map_or((ptr::null_mut(), 0), |place| (ptr::with_exposed_provenance_mut(place), libc::MAP_FIXED));
    // SAFETY:
    // - the caller owns what the mapping replaces, by this function's contract
    let mapped =
        unsafe { libc::mmap(address, bytes, protection, flags | fixed | libc::MAP_ANONYMOUS, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(mapped.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
