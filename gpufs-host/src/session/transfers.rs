//! Bulk transfers that a session counts. What moves the bytes is the process's (`transfer/`): it uses neither the session's rings nor its
//! buffers, and works beside running kernels.
#![expect(unsafe_code, reason = "memory that callers name by its address")]

use std::io;
use std::os::fd::AsFd;

use super::Session;
use crate::transfer::{
    Direction, Part, Transfer, TransferError, TransferOptions, TransferStatistics, start_counted,
};

impl Session {
    /// Reads from `offset` of a file into memory, with several threads: the bytes that were read, fewer than asked for where the file ends.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("gpufs-read-into-{}", std::process::id()));
    /// # std::fs::write(&path, "weights")?;
    /// let session = gpufs_host::Session::builder().cpu()?;
    /// let mut weights = vec![0; 64];
    /// assert_eq!(session.read_into(std::fs::File::open(&path)?, 2, &mut weights)?, 5);
    /// assert_eq!(&weights[..5], b"ights");
    /// # std::fs::remove_file(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The system's, such as `EBADF` for a file that is not open for reading; a forked child's copy of the session.
    pub fn read_into(&self, file: impl AsFd, offset: u64, into: &mut [u8]) -> Result<usize, TransferError> {
        let (address, bytes) = (into.as_mut_ptr().expose_provenance() as u64, into.len());
        let part = Part { file: file.as_fd(), offset, address, bytes, kind: None, rows: None };
        // SAFETY:
        // - the slice is borrowed until the transfer has ended, which is waited for
        unsafe { self.moved(Direction::Read, part) }
    }

    /// Writes memory to a file, from `offset` on: all of it. The file may be as long as the whole from the beginning, also where this fails.
    ///
    /// # Errors
    /// As [`Session::read_into`]; `ENOSPC` and its like.
    pub fn write_from(&self, file: impl AsFd, offset: u64, from: &[u8]) -> Result<usize, TransferError> {
        let (address, bytes) = (from.as_ptr().expose_provenance() as u64, from.len());
        let part = Part { file: file.as_fd(), offset, address, bytes, kind: None, rows: None };
        // SAFETY:
        // - as in `read_into`; a write does not change the memory
        unsafe { self.moved(Direction::Write, part) }
    }

    /// One part's transfer, to its end.
    ///
    /// # Safety
    /// As [`Session::start_transfer`].
    unsafe fn moved(&self, direction: Direction, part: Part<'_>) -> Result<usize, TransferError> {
        // SAFETY:
        // - this function's contract
        let transfer = unsafe { self.start_transfer(direction, &[part], &TransferOptions::default()) }?;
        let bytes = transfer.wait()?;
        Ok(usize::try_from(bytes.first().copied().unwrap_or(0)).unwrap_or(usize::MAX))
    }

    /// Starts a transfer of any number of parts, to or from memory of the host or of any NVIDIA GPU. Threads of the process move the bytes,
    /// those of one transfer after those of the one before.
    ///
    /// Where parts of a read share bytes of memory, or a file changes meanwhile, each byte is one of those that it could be.
    ///
    /// # Errors
    /// A part's file is not open; its memory is not of the named kind, or shorter; rows that do not fill it; no thread can be had.
    ///
    /// # Safety
    /// Until the transfer has ended, each part's memory is there. Nothing else uses the memory of a read; nothing writes that of a write.
    /// With [`TransferOptions::stream`] that begins when the stream has come there.
    pub unsafe fn start_transfer(
        &self,
        direction: Direction,
        parts: &[Part<'_>],
        options: &TransferOptions,
    ) -> Result<Transfer, TransferError> {
        self.owner().check().map_err(io::Error::from)?;
        // SAFETY:
        // - this function's contract
        unsafe { start_counted(direction, parts, options, &self.transfers) }
    }

    /// What this session's bulk transfers have done.
    #[must_use]
    pub fn transfer_statistics(&self) -> TransferStatistics {
        self.transfers.statistics()
    }
}
