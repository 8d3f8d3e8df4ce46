//! Streams that the host opens for kernels: `fopen(3)` and its kin, made as device calls by the host.
#![expect(unsafe_code, reason = "duplicates a descriptor that the session has")]

use std::ffi::CString;
use std::fmt;
use std::io::{Seek, SeekFrom};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gpufs_core::Errno;
use gpufs_core::session::OpenFile;
use gpufs_device::kernel::FileHandle;
use gpufs_device::{File, Fs};

use super::Session;
use crate::ring::Confined;

/// Why a call of the host on a stream failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    what: &'static str,
    path: Option<PathBuf>,
    errno: Errno,
}

impl FileError {
    /// The error number: the system's own, or as the call's documentation says.
    #[must_use]
    pub const fn errno(&self) -> Errno {
        self.errno
    }
    /// The path, where the call had one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        if let Some(path) = &self.path {
            write!(f, " {}", path.display())?;
        }
        write!(f, ": {}", self.errno)?;
        match self.errno {
            Errno::BUSY => f.write_str("; kernels are running: call synchronize first"),
            Errno::MFILE => f.write_str("; the session has no more: see Builder::streams and Builder::files"),
            Errno::NOMEM => f.write_str("; the session has no stream buffer left: see Builder::buffers"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for FileError {}

impl From<FileError> for std::io::Error {
    fn from(error: FileError) -> Self {
        Self::new(Self::from_raw_os_error(error.errno.number()).kind(), error)
    }
}

impl Session {
    /// Opens a stream for kernels, as `fopen(3)`: a kernel takes it as an argument of the type [`File`]. It stays open until
    /// [`Session::fclose`], a kernel's `fclose`, or the session's end, which flushes it.
    ///
    /// ```
    /// use gpufs_device::kernel::{Handoff, Shared};
    /// use gpufs_device::{Errno, File, fprintf, kernel, warp::global_thread};
    /// use gpufs_host::{Grid, Session};
    ///
    /// kernel! {
    ///     /// Every thread prints a line.
    ///     pub fn count(fs: Fs, log: File, failed: Shared<Handoff<Errno>>) {
    ///         if let Err(errno) = fprintf!(log, c"thread %lu\n", global_thread()) {
    ///             failed.with(fs, |failed| failed.put(errno));
    ///         }
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("gpufs-fopen-{}", std::process::id()));
    /// let mut session = Session::builder().cpu()?;
    /// let log = session.fopen(&path, "w")?;
    /// let failed = session.place(Handoff::default())?;
    /// let arguments = count::Arguments { log, failed: failed.handle() };
    /// session.start::<count::Entry>(Grid { blocks: 4, threads: 64 }, arguments)?;
    /// session.synchronize()?;
    /// session.fclose(log)?;
    /// assert_eq!(session.fetch(&failed)?.get(), None);
    /// assert_eq!(std::fs::read_to_string(&path)?.lines().count(), 256);
    /// # std::fs::remove_file(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As `Fs::fopen` of the device; `EINVAL` for a path or mode that holds a NUL; `EBUSY` while kernels run on a GPU, which has the tables
    /// until [`Session::synchronize`].
    pub fn fopen(&mut self, path: impl AsRef<Path>, mode: &str) -> Result<FileHandle, FileError> {
        let path = path.as_ref();
        let failed = |errno| FileError { what: "opening", path: Some(path.to_path_buf()), errno };
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| failed(Errno::INVAL))?;
        let mode = CString::new(mode).map_err(|_| failed(Errno::INVAL))?;
        let tables = self.device_tables();
        let opened = self.with_tables(|fs| fs.fopen(&name, &mode).map(|file| FileHandle::new(file, tables)));
        opened.and_then(|opened| opened).map_err(failed)
    }

    /// Opens a stream for kernels on a file that the program has open, as `fdopen(3)`. The stream begins where the file stands, and its end
    /// closes it.
    ///
    /// # Errors
    /// As `Fs::fdopen` of the device, `EINVAL` for a mode that holds a NUL, `EBUSY` as for [`Session::fopen`]; the file is then closed.
    pub fn fdopen(&mut self, file: impl Into<OwnedFd>, mode: &str) -> Result<FileHandle, FileError> {
        let failed = |errno| FileError { what: "opening a stream on a descriptor", path: None, errno };
        let mode = CString::new(mode).map_err(|_| failed(Errno::INVAL))?;
        let entered = self.live.enter().map(|body| body.give_file(file.into()));
        let index = entered.unwrap_or(Err(Errno::BUSY)).map_err(failed)?;
        let tables = self.device_tables();
        let opened = self.with_tables(|fs| {
            fs.fdopen(index, &mode).map(|file| FileHandle::new(file, tables)).inspect_err(|_| {
                // The error of the close is not the caller's concern.
                let _ = fs.close(index);
            })
        });
        opened.and_then(|opened| opened).map_err(failed)
    }

    /// A descriptor of the process for a stream's file, as `fileno(3)`: a duplicate, which the program closes, and which stays when the stream or
    /// the session is closed. The stream is flushed first. Of a seekable file that does not only append, the descriptor stands where the
    /// stream does; the stream goes on where it was, whatever the descriptor is used for. A file that the host registered is the same file.
    ///
    /// # Errors
    /// As [`Session::fflush`]; `EBADF` for a stream on memory; `EMFILE` where the process has no descriptor left.
    pub fn fileno(&mut self, file: FileHandle) -> Result<OwnedFd, FileError> {
        let tables = self.device_tables();
        let confined = self.live.enter().ok().and_then(|body| body.confined.clone());
        let found = self.with_tables(|fs| duplicate(fs, file.get_at(fs, tables)?, confined.as_deref()));
        found.and_then(|found| found).map_err(|errno| FileError {
            what: "the descriptor of a stream",
            path: None,
            errno,
        })
    }

    /// Writes what a stream holds, as `fflush(3)`.
    ///
    /// # Errors
    /// `EBADF` if it was closed or is another session's; `EBUSY` as for [`Session::fopen`]; the error of the write: the bytes are kept, and the
    /// next flush tries them again.
    pub fn fflush(&mut self, file: FileHandle) -> Result<(), FileError> {
        self.on_stream("flushing a stream", file, File::fflush)
    }

    /// Flushes and closes a stream that host or kernel opened, as `fclose(3)`.
    ///
    /// # Errors
    /// As [`Session::fflush`]; the stream is closed even then, except after `EBUSY`.
    pub fn fclose(&mut self, file: FileHandle) -> Result<(), FileError> {
        self.on_stream("closing a stream", file, File::fclose)
    }

    /// Makes a call on a stream, as a warp of one.
    fn on_stream(
        &mut self,
        what: &'static str,
        file: FileHandle,
        call: impl FnOnce(File) -> Result<(), Errno>,
    ) -> Result<(), FileError> {
        let tables = self.device_tables();
        let called = self.with_tables(|fs| file.get_at(fs, tables).and_then(call));
        called.and_then(|called| called).map_err(|errno| FileError { what, path: None, errno })
    }
}

/// A duplicate of the descriptor of a stream's file, where the stream stands.
fn duplicate(fs: Fs, file: File, confined: Option<&Confined>) -> Result<OwnedFd, Errno> {
    let of = |error: std::io::Error| error.raw_os_error().map_or(Errno::IO, Errno::from_number);
    // SAFETY:
    // - the session is open, as it has made this call
    let tables = unsafe { fs.tables() };
    let (entry, flags) = tables.file_and_flags(file.fileno()?)?;
    file.fflush()?;
    let number = entry.descriptor.peek().cast_signed();
    let mut made = std::fs::File::from(if let Some(confined) = confined {
        confined.duplicate(number)?
    } else {
        // SAFETY:
        // - the entry of a stream that is open has a descriptor that is open, and `&mut Session` lets nobody close it meanwhile
        let ours = unsafe { BorrowedFd::borrow_raw(number) };
        ours.try_clone_to_owned().map_err(of)?
    });
    if flags & OpenFile::SEEKABLE != 0 && flags & OpenFile::APPEND == 0 {
        made.seek(SeekFrom::Start(file.ftell()?)).map_err(of)?;
    }
    Ok(made.into())
}
