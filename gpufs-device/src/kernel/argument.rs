//! How a kernel's arguments travel: numbers and [`Portable`] values as they are, streams as handles.
#![allow(unsafe_code, reason = "a promise about a layout")]

use gpufs_core::Errno;
use gpufs_core::kernel::Portable;

use crate::Fs;
use crate::stdio::File;

/// What a kernel may take as an argument: every [`Portable`] value that can be copied, and [`File`].
pub trait Argument: Sized {
    /// What a launch hands over in its place.
    type Sent: Portable + Copy;
    /// The argument, in a thread of the kernel.
    fn receive(sent: Self::Sent, fs: Fs) -> Self;
}

impl<T: Portable + Copy> Argument for T {
    type Sent = T;
    fn receive(sent: T, _: Fs) -> T {
        sent
    }
}

impl Argument for File {
    type Sent = FileHandle;
    /// A handle of a stream that is closed gives a closed stream: every call on it is `EBADF`.
    fn receive(sent: FileHandle, fs: Fs) -> Self {
        sent.get(fs).unwrap_or_else(|_| fs.closed())
    }
}

/// A stream as the host holds it: what `Session::fopen` of the host gives, and what a launch takes where the kernel takes a [`File`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct FileHandle(u64);

// SAFETY:
// - `repr(transparent)` of a number, which is looked up in the session's table before it is used
unsafe impl Portable for FileHandle {}

/// In a kernel, for what it leaves the next one in a placed value.
impl From<File> for FileHandle {
    fn from(file: File) -> Self {
        Self(file.to_handle())
    }
}

impl FileHandle {
    /// The handle of a stream for a device that sees the session's tables at `session` (an address).
    #[must_use]
    pub fn new(file: File, session: u64) -> Self {
        Self(file.to_handle_at(session))
    }
    /// The stream, in a kernel that was handed the handle inside of a placed value. Any lane. A kernel's own argument of the type [`File`]
    /// needs no such call.
    ///
    /// # Errors
    /// `EBADF` if the stream was closed, or is another session's.
    pub fn get(self, fs: Fs) -> Result<File, Errno> {
        File::from_handle_at(self.0, core::ptr::from_ref(fs.session()).addr() as u64, fs)
    }
    /// The stream, for the host, which sees the tables at another address than the device does: that is `session`.
    ///
    /// # Errors
    /// As [`FileHandle::get`].
    pub fn get_at(self, fs: Fs, session: u64) -> Result<File, Errno> {
        File::from_handle_at(self.0, session, fs)
    }
}
