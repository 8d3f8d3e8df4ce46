//! Calls about ranges of an open file that move no bytes: `fallocate(2)`, `posix_fadvise(2)`, `sync_file_range(2)`.

use gpufs_core::abi::Sqe;
use gpufs_core::{Call, Errno};

use super::Descriptor;
use crate::Fs;
use crate::warp::Lanes;

/// In [`Fs::fallocate`]: the file's size stays.
pub const FALLOC_FL_KEEP_SIZE: u32 = 0x01;
/// The range becomes a hole; with [`FALLOC_FL_KEEP_SIZE`].
pub const FALLOC_FL_PUNCH_HOLE: u32 = 0x02;
/// The range is cut out, and what follows moves down.
pub const FALLOC_FL_COLLAPSE_RANGE: u32 = 0x08;
/// The range becomes zeros.
pub const FALLOC_FL_ZERO_RANGE: u32 = 0x10;
/// Room for the range is made, and what follows moves up.
pub const FALLOC_FL_INSERT_RANGE: u32 = 0x20;
/// Extents that are shared become the file's own.
pub const FALLOC_FL_UNSHARE_RANGE: u32 = 0x40;

/// In [`Fs::posix_fadvise`]: nothing is known.
pub const POSIX_FADV_NORMAL: u32 = 0;
/// In no order.
pub const POSIX_FADV_RANDOM: u32 = 1;
/// In ascending order.
pub const POSIX_FADV_SEQUENTIAL: u32 = 2;
/// Soon.
pub const POSIX_FADV_WILLNEED: u32 = 3;
/// No more.
pub const POSIX_FADV_DONTNEED: u32 = 4;
/// Once.
pub const POSIX_FADV_NOREUSE: u32 = 5;

/// In [`Fs::sync_file_range`]: waits first for pages of the range that are being written.
pub const SYNC_FILE_RANGE_WAIT_BEFORE: u32 = 1;
/// Starts to write the dirty pages of the range.
pub const SYNC_FILE_RANGE_WRITE: u32 = 2;
/// Waits until they are written.
pub const SYNC_FILE_RANGE_WAIT_AFTER: u32 = 4;

impl Fs {
    /// Allocates or frees the range of `length` bytes from `offset` on, as `fallocate(2)`; `mode`: 0, or of `FALLOC_FL_…`.
    ///
    /// # Errors
    /// The system call's: `EBADF` (not open for writing), `EINVAL` (also no length), `EOPNOTSUPP` for a mode that the file system does not
    /// have, `ENOSPC`, `EFBIG`, `ESPIPE`, `ENODEV` …
    pub fn fallocate(self, descriptor: Descriptor, mode: u32, offset: u64, length: u64) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fallocate);
        self.simple(lanes, Call::Fallocate, Ok(descriptor), |number| {
            Sqe::fallocate(number, mode, offset, length)
        })
    }

    /// Says how the `length` bytes from `offset` on will be used, to the end of the file where `length` is 0, as `posix_fadvise(2)`: a hint.
    /// `advice` is one of `POSIX_FADV_…`. A length beyond 32 bits needs Linux 6.10.
    ///
    /// # Errors
    /// The system call's: `EBADF`, `EINVAL`, `ESPIPE` for a pipe.
    pub fn posix_fadvise(
        self,
        descriptor: Descriptor,
        offset: u64,
        length: u64,
        advice: u32,
    ) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::PosixFadvise);
        self.simple(lanes, Call::PosixFadvise, Ok(descriptor), |number| {
            Sqe::fadvise(number, offset, length, advice)
        })
    }

    /// Writes back the dirty pages of the `length` bytes from `offset` on, as `sync_file_range(2)`; `flags` of `SYNC_FILE_RANGE_…`. Neither the
    /// file's metadata nor the device's cache is written: that is [`Fs::fdatasync`]. io_uring has 32 bits for the length: a longer range, and
    /// one of length 0, goes to the end of the file.
    ///
    /// # Errors
    /// The system call's: `EBADF`, `EINVAL`, `ESPIPE`, `EIO`, `ENOSPC` …
    pub fn sync_file_range(
        self,
        descriptor: Descriptor,
        offset: u64,
        length: u64,
        flags: u32,
    ) -> Result<(), Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::SyncFileRange);
        let fits = offset.checked_add(length).is_some_and(|end| i64::try_from(end).is_ok());
        let fits = if fits { Ok(descriptor) } else { Err(Errno::INVAL) };
        // The descriptor is looked at before the range, as the system call does.
        let descriptor = session.file(descriptor).and(fits);
        self.simple(lanes, Call::SyncFileRange, descriptor, |number| {
            Sqe::sync_file_range(number, offset, u32::try_from(length).unwrap_or(0), flags)
        })
    }
}
