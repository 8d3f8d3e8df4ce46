//! Files and buffers that a ring knows by their index: registering them, and taking them back.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;

use gpufs_core::abi::{
    FilesUpdate, IORING_REGISTER_BUFFERS, IORING_REGISTER_FILES, IORING_REGISTER_FILES_UPDATE,
    IORING_UNREGISTER_BUFFERS,
};

use super::{Ring, RingError, count, sys};

impl Ring {
    /// Registers files, in place of none (`io_uring_register_files(3)`): slot `i` holds `files[i]`, or nothing. The ring keeps its own reference;
    /// the caller may close its descriptor.
    ///
    /// ```compile_fail,E0308
    /// fn of_a_number(ring: &gpufs_host::ring::Ring) {
    ///     let _ = ring.register_files(&[7]);
    /// }
    /// ```
    ///
    /// # Errors
    /// The system's: `EMFILE`, and `EBUSY` where files are registered already.
    pub fn register_files(&self, files: &[Option<BorrowedFd<'_>>]) -> Result<(), RingError> {
        let numbers: Vec<RawFd> = files.iter().map(|file| number(*file)).collect();
        self.register_numbers(&numbers)
    }

    /// [`Ring::register_files`] by their numbers: -1 for nothing.
    ///
    /// # Errors
    /// As [`Ring::register_files`]; `EBADF`.
    pub(crate) fn register_numbers(&self, files: &[RawFd]) -> Result<(), RingError> {
        let inner = &self.inner;
        let done = match (&inner.pool, self.descriptor()) {
            (Some(pool), _) => pool.tables().register_files(files),
            // SAFETY:
            // - the kernel reads `files.len()` descriptors, which are borrowed for the call
            (None, Some(ring)) => unsafe {
                sys::register(ring, IORING_REGISTER_FILES, files.as_ptr().cast(), count(files.len()))
            }
            .map(drop),
            (None, None) => unreachable!("a ring has a descriptor or a pool"),
        };
        done.map_err(|error| inner.explain("registering files", error, 0))
    }

    /// Puts `file` into slot `index` of the registered files, or empties the slot.
    ///
    /// # Errors
    /// The system's: `EINVAL` for a slot that does not exist, `ENXIO` where no files are registered.
    pub fn update_file(&self, index: u32, file: Option<BorrowedFd<'_>>) -> Result<(), RingError> {
        self.update_number(index, number(file))
    }

    /// [`Ring::update_file`] by its number: -1 to empty the slot.
    ///
    /// # Errors
    /// As [`Ring::update_file`]; `EBADF`.
    pub(crate) fn update_number(&self, index: u32, file: RawFd) -> Result<(), RingError> {
        let inner = &self.inner;
        let done = match (&inner.pool, self.descriptor()) {
            (Some(pool), _) => pool.tables().update_file(index, file),
            (None, Some(ring)) => {
                let data = (&raw const file).expose_provenance() as u64;
                let update = FilesUpdate { offset: index, resv: 0, data };
                // SAFETY:
                // - the kernel reads one `FilesUpdate` and the one descriptor that it names, both alive for the call
                unsafe { sys::register(ring, IORING_REGISTER_FILES_UPDATE, (&raw const update).cast(), 1) }
                    .map(drop)
            }
            (None, None) => unreachable!("a ring has a descriptor or a pool"),
        };
        done.map_err(|error| inner.explain("changing a registered file", error, 0))
    }

    /// Registers buffers, in place of none (`io_uring_register_buffers(3)`): each an address and a length in bytes.
    ///
    /// # Errors
    /// The system's: `EFAULT`, `ENOMEM` (locked memory), and `EBUSY` where buffers are registered already.
    ///
    /// # Safety
    /// Each buffer is memory of this process, readable and writable, that stays valid until the ring is closed.
    pub unsafe fn register_buffers(&self, buffers: &[(NonNull<u8>, usize)]) -> Result<(), RingError> {
        let inner = &self.inner;
        let vectors: Vec<libc::iovec> = buffers
            .iter()
            .map(|&(base, bytes)| libc::iovec { iov_base: base.as_ptr().cast(), iov_len: bytes })
            .collect();
        let done = match (&inner.pool, self.descriptor()) {
            (Some(pool), _) => pool.tables().register_buffers(buffers),
            // SAFETY:
            // - the kernel reads `vectors.len()` vectors, which are borrowed for the call
            // - the buffers stay, by this function's contract
            (None, Some(ring)) => unsafe {
                sys::register(ring, IORING_REGISTER_BUFFERS, vectors.as_ptr().cast(), count(vectors.len()))
            }
            .map(drop),
            (None, None) => unreachable!("a ring has a descriptor or a pool"),
        };
        let need_bytes = buffers.iter().map(|&(_, bytes)| bytes).sum();
        done.map_err(|error| inner.explain("registering buffers", error, need_bytes))
    }

    /// Unregisters the buffers (`io_uring_unregister_buffers(3)`); where there are none, does nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn unregister_buffers(&self) -> Result<(), RingError> {
        let inner = &self.inner;
        let done = match (&inner.pool, self.descriptor()) {
            (Some(pool), _) => {
                pool.tables().unregister_buffers();
                Ok(())
            }
            (None, Some(ring)) => {
                // SAFETY:
                // - the command takes no memory
                let done = unsafe { sys::register(ring, IORING_UNREGISTER_BUFFERS, std::ptr::null(), 0) };
                match done {
                    Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(()),
                    other => other.map(drop),
                }
            }
            (None, None) => unreachable!("a ring has a descriptor or a pool"),
        };
        done.map_err(|error| inner.explain("unregistering buffers", error, 0))
    }
}

/// A file's number, or -1.
fn number(file: Option<BorrowedFd<'_>>) -> RawFd {
    file.map_or(-1, |file| file.as_raw_fd())
}
