//! The system's reads and writes, continued where they come short.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::request::Direction;

/// Reads into memory, or writes from it, at a place of a file: as many bytes as there are, fewer only at the end of a file that is read.
///
/// # Errors
/// The system's; a write that writes nothing is `ENOSPC`.
///
/// # Safety
/// The memory is the caller's, for that length; for a write it holds bytes.
pub(super) unsafe fn transfer(
    direction: Direction,
    file: &OwnedFd,
    offset: u64,
    memory: *mut u8,
    bytes: usize,
) -> io::Result<usize> {
    let mut done = 0;
    // Ends: each round moves a byte at least, or is interrupted by a signal, or ends the loop.
    while done < bytes {
        let place = offset
            .checked_add(done as u64)
            .and_then(|place| i64::try_from(place).ok())
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        let rest = memory.wrapping_add(done).cast();
        let moved = match direction {
            // SAFETY:
            // - `bytes - done` bytes from `done` on are the caller's, by this function's contract
            Direction::Read => unsafe { libc::pread(file.as_raw_fd(), rest, bytes - done, place) },
            // SAFETY:
            // - as above, and they hold bytes
            Direction::Write => unsafe { libc::pwrite(file.as_raw_fd(), rest, bytes - done, place) },
        };
        match usize::try_from(moved) {
            Ok(0) if direction == Direction::Read => break,
            Ok(0) => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Ok(moved) => done += moved,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(done)
}

/// Whether what is written to the file goes to its end, wherever it was to go (`open(2)`).
pub(super) fn appends(file: BorrowedFd<'_>) -> bool {
    // SAFETY:
    // - this `fcntl` takes no memory
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    flags >= 0 && flags & libc::O_APPEND != 0
}
