//! `pread(2)`, `pwrite(2)`, `fsync(2)`, `fdatasync(2)`, `ftruncate(2)`: no position, no lock.

use gpufs_core::abi::Sqe;
use gpufs_core::failures::counted;
use gpufs_core::session::OpenFile;
use gpufs_core::{Call, Errno};

use super::Descriptor;
use crate::Fs;
use crate::io::{Request, transact, transfer};
use crate::warp::Lanes;

/// `IORING_FSYNC_DATASYNC` (`io_uring_enter(2)`).
const FSYNC_DATASYNC: u32 = 1;

impl Fs {
    /// Reads from `offset` (bytes from the start) into `into`, as `pread(2)`: how many bytes; 0 at the end of the file.
    ///
    /// # Errors
    /// The system call's: `EBADF` (not open for reading), `ESPIPE`, `EISDIR`, `EINVAL`, `EIO` …
    pub fn pread(self, descriptor: Descriptor, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let (memory, bytes) = (into.as_mut_ptr() as u64, into.len() as u64);
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Pread);
        counted(self.session(), Call::Pread, self.positioned(lanes, false, descriptor, memory, bytes, offset))
    }

    /// Writes `from` at `offset` (bytes from the start), as `pwrite(2)`: how many bytes, fewer than given if the system took fewer.
    ///
    /// # Errors
    /// The system call's: `EBADF` (not open for writing), `ENOSPC`, `EFBIG`, `ESPIPE`, `EPIPE` …
    pub fn pwrite(self, descriptor: Descriptor, from: &[u8], offset: u64) -> Result<usize, Errno> {
        let (memory, bytes) = (from.as_ptr() as u64, from.len() as u64);
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Pwrite);
        counted(self.session(), Call::Pwrite, self.positioned(lanes, true, descriptor, memory, bytes, offset))
    }

    fn positioned(
        self,
        lanes: Lanes,
        writing: bool,
        descriptor: Descriptor,
        memory: u64,
        bytes: u64,
        offset: u64,
    ) -> Result<usize, Errno> {
        let session = self.session();
        // The offset is looked at before the descriptor, as the system call does.
        let offset_fits = if offset > i64::MAX.cast_unsigned() { Err(Errno::INVAL) } else { Ok(()) };
        let seen = offset_fits.and_then(|()| session.file_and_flags(descriptor));
        let request = seen.and_then(|(file, flags)| {
            if flags & (OpenFile::SEEKABLE | OpenFile::SHARED | OpenFile::POSITIONLESS) == 0 {
                return Err(Errno::SPIPE);
            }
            // No bytes of a file are no operation: access has been looked at, and that it is open.
            let access = if writing { OpenFile::WRITABLE } else { OpenFile::READABLE };
            let idle =
                bytes == 0 && flags & (OpenFile::SEEKABLE | OpenFile::SHARED) != 0 && flags & access != 0;
            Ok((!idle).then(|| Request { target: file.target_of(flags, descriptor), memory, bytes, offset }))
        });
        let outcome = transfer(session, lanes, writing, request.ok().flatten());
        request.and(outcome).map(|count| usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Waits until the file's data is on its device, as `fsync(2)`.
    ///
    /// # Errors
    /// The system call's: `EBADF`, `EINVAL` for what cannot be synchronized, `EIO`, `ENOSPC` …
    pub fn fsync(self, descriptor: Descriptor) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fsync);
        self.simple(lanes, Call::Fsync, Ok(descriptor), |number| Sqe::fsync(number, 0))
    }

    /// Waits until the file's data, and what of its metadata is needed to read it, is on its device, as `fdatasync(2)`.
    ///
    /// # Errors
    /// As [`Fs::fsync`].
    pub fn fdatasync(self, descriptor: Descriptor) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fdatasync);
        self.simple(lanes, Call::Fdatasync, Ok(descriptor), |number| Sqe::fsync(number, FSYNC_DATASYNC))
    }

    /// Cuts or extends the file to `length` bytes, as `ftruncate(2)`. Needs Linux 6.9.
    ///
    /// # Errors
    /// The system call's: `EBADF`, `EINVAL` (also for a file not open for writing, and before Linux 6.9), `EFBIG` …
    pub fn ftruncate(self, descriptor: Descriptor, length: u64) -> Result<(), Errno> {
        let descriptor = if length > i64::MAX.cast_unsigned() { Err(Errno::INVAL) } else { Ok(descriptor) };
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Ftruncate);
        self.simple(lanes, Call::Ftruncate, descriptor, |number| Sqe::ftruncate(number, length))
    }

    /// An operation on the file alone. Convergent; called by `lanes`.
    pub(super) fn simple(
        self,
        lanes: Lanes,
        call: Call,
        descriptor: Result<Descriptor, Errno>,
        entry: impl Fn(i32) -> Sqe,
    ) -> Result<(), Errno> {
        let session = self.session();
        let number = descriptor.and_then(|descriptor| session.process_descriptor(descriptor));
        let result = Errno::check(transact(session, lanes, number.ok().map(entry)));
        counted(session, call, number.and(result.map(|_| ())))
    }
}
