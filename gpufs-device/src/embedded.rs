//! Streams and descriptors as readers and writers of the crate [`embedded_io`], so that code written for machines without an operating system
//! reads and writes files in a kernel. With the feature `embedded-io`.
//!
//! | what | reads, writes, moves |
//! |---|---|
//! | [`File`] | the grid's stream: its position is every thread's |
//! | [`Fs::io`] | an open descriptor at its position ([`DescriptorIo`]) |
//! | [`Buffered`] | a reader of either, through memory of the caller's: `BufRead` |
//!
//! ```
//! use embedded_io::{BufRead, Read, Seek, SeekFrom, Write};
//! use gpufs_device::embedded::Buffered;
//! use gpufs_device::{Errno, File, Fs};
//!
//! /// Copies the comment lines of one file to another: any reader, any writer.
//! fn comments<R: BufRead, W: Write<Error = R::Error>>(mut from: R, mut to: W) -> Result<(), R::Error> {
//!     let (mut starts, mut copies) = (true, false);
//!     loop {
//!         let piece = from.fill_buf()?;
//!         let Some(&first) = piece.first() else { return to.flush() };
//!         copies = if starts { first == b'#' } else { copies };
//!         let end = piece.iter().position(|byte| *byte == b'\n').map_or(piece.len(), |at| at + 1);
//!         starts = piece[end - 1] == b'\n';
//!         if copies {
//!             to.write_all(&piece[..end])?;
//!         }
//!         from.consume(end);
//!     }
//! }
//!
//! /// In a kernel: a thread reads a file of its own, and all write to one stream.
//! fn work(fs: Fs, output: File) -> Result<(), Errno> {
//!     let descriptor = fs.open(c"input.conf", gpufs_device::file::O_RDONLY, 0)?;
//!     let mut memory = [0; 256];
//!     comments(Buffered::new(fs.io(descriptor), &mut memory), output)?;
//!     fs.close(descriptor)
//! }
//! # struct Text(Vec<u8>);
//! # impl embedded_io::ErrorType for Text {
//! #     type Error = core::convert::Infallible;
//! # }
//! # impl Write for Text {
//! #     fn write(&mut self, bytes: &[u8]) -> Result<usize, Self::Error> {
//! #         self.0.extend_from_slice(bytes);
//! #         Ok(bytes.len())
//! #     }
//! #     fn flush(&mut self) -> Result<(), Self::Error> {
//! #         Ok(())
//! #     }
//! # }
//! # let (mut words, mut memory, mut to) = (&b"a\n#b\nc\n#d"[..], [0; 2], Text(Vec::new()));
//! # comments(Buffered::new(&mut words, &mut memory), &mut to).unwrap();
//! # assert_eq!(to.0, b"#b\n#d");
//! ```
//!
//! How the calls differ from those of [`crate::stdio`] and [`crate::file`]:
//!
//! - One call is one unit among the threads, as ever. The provided methods make several: `read_exact` and `write_all` one for each
//!   part that is transferred at once, which of a regular file is all. [`File`]'s `write_fmt` is its own, and one unit.
//! - `read` of a stream on a pipe or a terminal returns what has come; the threads that call together read one after the other.
//! - `flush` of a stream hands the bytes to the system, as `fflush(3)`. A descriptor has nothing to flush.
//! - `seek` of a stream is `fseek(3)`, then `ftell(3)`: where others move it meanwhile, the position is theirs.
//! - A transfer that met an error after some bytes returns the bytes; the next call meets the error again, if it lasts.

use embedded_io::{BufRead, ErrorType, Read, Seek, SeekFrom, Write, WriteFmtError};
use gpufs_core::{Call, Errno};

use crate::file::{Descriptor, Whence};
use crate::stdio::{Transfer, read_some};
use crate::warp::Lanes;
use crate::{File, Fs};

/// The bytes of a transfer, or its error where there are none.
fn some(transfer: Transfer) -> Result<usize, Errno> {
    match transfer {
        Transfer { bytes: 0, error: Some(errno) } => Err(errno),
        Transfer { bytes, .. } => Ok(bytes),
    }
}

/// A place to move to, as `lseek(2)` takes it.
///
/// # Errors
/// `EOVERFLOW` for a place beyond 63 bits.
fn place(to: SeekFrom) -> Result<(i64, Whence), Errno> {
    Ok(match to {
        SeekFrom::Start(position) => (i64::try_from(position).map_err(|_| Errno::OVERFLOW)?, Whence::Set),
        SeekFrom::Current(offset) => (offset, Whence::Current),
        SeekFrom::End(offset) => (offset, Whence::End),
    })
}

impl ErrorType for File {
    type Error = Errno;
}

impl Read for File {
    /// As [`File::fread`]; of a pipe or a terminal, what has come.
    fn read(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        if into.is_empty() || !self.may_wait() {
            return some(self.fread_counted(into));
        }
        let session = self.fs().session();
        let inside = self.enter()?;
        let came = read_some(*self, Lanes::calling(&inside, Call::ReadSome), into);
        gpufs_core::failures::counted(session, Call::ReadSome, came)
    }
}

impl Write for File {
    /// As [`File::fwrite`].
    fn write(&mut self, from: &[u8]) -> Result<usize, Errno> {
        some(self.fwrite_counted(from))
    }
    /// As [`File::fflush`].
    fn flush(&mut self) -> Result<(), Errno> {
        self.fflush()
    }
    /// As [`File::write_fmt`]: the whole text at once.
    fn write_fmt(&mut self, text: core::fmt::Arguments<'_>) -> Result<(), WriteFmtError<Errno>> {
        File::write_fmt(*self, text).map_err(WriteFmtError::Other)
    }
}

impl Seek for File {
    /// As [`File::fseek`]; the new position, in bytes from the start.
    fn seek(&mut self, to: SeekFrom) -> Result<u64, Errno> {
        let (offset, whence) = place(to)?;
        self.fseek(offset, whence)?;
        self.ftell()
    }
}

/// An open descriptor as a reader and writer at its position, which all that use the descriptor share. Copied freely; closes nothing.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorIo {
    fs: Fs,
    descriptor: Descriptor,
}

impl Fs {
    /// An open descriptor as a reader and writer of the crate `embedded_io`.
    #[must_use]
    pub fn io(self, descriptor: Descriptor) -> DescriptorIo {
        DescriptorIo { fs: self, descriptor }
    }
}

impl DescriptorIo {
    /// The descriptor.
    #[must_use]
    pub fn descriptor(self) -> Descriptor {
        self.descriptor
    }
}

impl ErrorType for DescriptorIo {
    type Error = Errno;
}

impl Read for DescriptorIo {
    /// As [`Fs::read`].
    fn read(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        self.fs.read(self.descriptor, into)
    }
}

impl Write for DescriptorIo {
    /// As [`Fs::write`].
    fn write(&mut self, from: &[u8]) -> Result<usize, Errno> {
        match self.fs.write(self.descriptor, from)? {
            // No file takes nothing of something without an error, but a device might.
            0 if !from.is_empty() => Err(Errno::IO),
            count => Ok(count),
        }
    }
    fn flush(&mut self) -> Result<(), Errno> {
        Ok(())
    }
}

impl Seek for DescriptorIo {
    /// As [`Fs::lseek`].
    fn seek(&mut self, to: SeekFrom) -> Result<u64, Errno> {
        let (offset, whence) = place(to)?;
        self.fs.lseek(self.descriptor, offset, whence)
    }
}

/// A reader of one thread's, through memory of that thread's.
///
/// What it has read ahead is its own: of a stream that others read, too, those find what comes after.
#[derive(Debug)]
pub struct Buffered<'a, R> {
    from: R,
    memory: &'a mut [u8],
    next: usize,
    end: usize,
}

impl<'a, R: Read> Buffered<'a, R> {
    /// Reads `from` through `memory`.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn new(from: R, memory: &'a mut [u8]) -> Self {
        assert!(!memory.is_empty(), "a buffered reader needs memory");
        Self { from, memory, next: 0, end: 0 }
    }
    /// What was read ahead.
    #[must_use]
    pub fn ahead(&self) -> &[u8] {
        &self.memory[self.next..self.end]
    }
    /// The reader, at the end of what was read ahead.
    pub fn into_inner(self) -> R {
        self.from
    }
}

impl<R: ErrorType> ErrorType for Buffered<'_, R> {
    type Error = R::Error;
}

impl<R: Read> Read for Buffered<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize, R::Error> {
        // As much as the memory holds needs no copy.
        if self.next == self.end && into.len() >= self.memory.len() {
            return self.from.read(into);
        }
        let ahead = self.fill_buf()?;
        let count = ahead.len().min(into.len());
        into[..count].copy_from_slice(&ahead[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl<R: Read> BufRead for Buffered<'_, R> {
    fn fill_buf(&mut self) -> Result<&[u8], R::Error> {
        if self.next == self.end {
            (self.next, self.end) = (0, 0);
            self.end = self.from.read(self.memory)?;
        }
        Ok(&self.memory[self.next..self.end])
    }
    fn consume(&mut self, count: usize) {
        self.next = self.end.min(self.next.saturating_add(count));
    }
}

impl<R: Seek> Seek for Buffered<'_, R> {
    /// Moves the reader; what was read ahead is dropped.
    fn seek(&mut self, to: SeekFrom) -> Result<u64, R::Error> {
        let ahead = (self.end - self.next) as u64;
        let to = match to {
            SeekFrom::Current(offset) => SeekFrom::Current(offset.saturating_sub(ahead.cast_signed())),
            other => other,
        };
        let position = self.from.seek(to)?;
        (self.next, self.end) = (0, 0);
        Ok(position)
    }
}
