//! Pipes, and counters that are descriptors.

use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use gpufs_core::Errno;
use gpufs_core::abi::Sqe;

use super::super::sys::{self, signed};

/// `pipe2(2)`: the end that is read, and the one that is written.
pub(in super::super) fn pipe() -> Result<[OwnedFd; 2], Errno> {
    let mut ends: [RawFd; 2] = [-1; 2];
    let into = (&raw mut ends).expose_provenance() as u64;
    // SAFETY:
    // - the kernel writes two descriptors, which are alive
    unsafe { sys::call(libc::SYS_pipe2, [into, signed(libc::O_CLOEXEC), 0, 0, 0, 0]) }?;
    Ok(ends.map(|end| {
        // SAFETY:
        // - the kernel has just made this descriptor, and nothing else owns it
        unsafe { OwnedFd::from_raw_fd(end) }
    }))
}

/// `eventfd2(2)`. io_uring tries writes to one without waiting only where its descriptor does not wait.
pub(in super::super) fn eventfd(sqe: &Sqe) -> Result<i32, Errno> {
    let kind = if sqe.op_flags == 0 { 0 } else { libc::EFD_SEMAPHORE };
    let flags = signed(kind | libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
    // SAFETY:
    // - the call takes numbers
    unsafe { sys::call(libc::SYS_eventfd2, [sqe.len.into(), flags, 0, 0, 0, 0]) }
}
