//! Errors of the C functions: `errno`, and a text in the calling thread's own storage.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use gpufs_core::Errno;
use gpufs_host::cpu::LaunchError;
use gpufs_host::session::{Forked, OpenError, RegisterError, SyncError};
use gpufs_host::transfer::TransferError;

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// An error number, and a text for people.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) errno: c_int,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }
    /// A null host.
    pub(crate) fn no_host() -> Self {
        Self::new(libc::EINVAL, "the host is null: open one with gpufs_host_open")
    }
}

/// The first error number in a chain of errors.
fn number(error: &(dyn std::error::Error + 'static), otherwise: c_int) -> c_int {
    let mut next = Some(error);
    // Ends: chains of sources are finite.
    while let Some(error) = next {
        if error.is::<Forked>() {
            return libc::EPERM;
        }
        if let Some(errno) = error.downcast_ref::<Errno>() {
            return errno.number();
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            let busy = (error.kind() == io::ErrorKind::ResourceBusy).then_some(libc::EBUSY);
            if let Some(number) = error.raw_os_error().or(busy) {
                return number;
            }
        }
        next = error.source();
    }
    otherwise
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::new(errno.number(), errno.to_string())
    }
}
impl From<Forked> for Failure {
    fn from(forked: Forked) -> Self {
        Self::new(libc::EPERM, forked.to_string())
    }
}
impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let otherwise = match &error {
            OpenError::Size(_) => libc::EINVAL,
            OpenError::Ring(_) | OpenError::Sandbox(_) => libc::ENOTSUP,
            OpenError::System(_) => libc::ENOMEM,
            OpenError::Trace { error, .. } => error.raw_os_error().unwrap_or(libc::EIO),
            _ => libc::ENODEV,
        };
        Self::new(number(&error, otherwise), error.to_string())
    }
}
impl From<SyncError> for Failure {
    fn from(error: SyncError) -> Self {
        let errno = match &error {
            SyncError::Stream(stream) => stream.errno.number(),
            other => number(other, libc::EIO),
        };
        Self::new(errno, error.to_string())
    }
}
impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        Self::new(number(&error, libc::EINVAL), error.to_string())
    }
}
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(number(&error, libc::EIO), error.to_string())
    }
}
impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        let otherwise = match error.error.kind() {
            io::ErrorKind::InvalidInput => libc::EINVAL,
            io::ErrorKind::UnexpectedEof => libc::ENODATA,
            _ => libc::EIO,
        };
        Self::new(number(&error, otherwise), error.to_string())
    }
}
impl From<RegisterError> for Failure {
    fn from(error: RegisterError) -> Self {
        Self::new(number(&error, libc::EBUSY), error.to_string())
    }
}

/// A duplicate of a descriptor of the program's.
pub(crate) fn duplicate(descriptor: BorrowedFd) -> Result<OwnedFd, Failure> {
    descriptor.try_clone_to_owned().map_err(|error| {
        let text = format!("descriptor {}: {error}", descriptor.as_raw_fd());
        Failure::new(error.raw_os_error().unwrap_or(libc::EBADF), text)
    })
}

/// Runs the body of a C function. Stores the text and number of an error or a panic, and returns `failed`.
pub(crate) fn guarded<T>(failed: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(Failure::new(libc::EIO, "a bug in gpufs: its message is on the standard error"))
    });
    outcome.unwrap_or_else(|Failure { errno, text }| {
        let text: Vec<u8> = text.into_bytes().into_iter().filter(|byte| *byte != 0).collect();
        LAST.with_borrow_mut(|last| *last = CString::new(text).unwrap_or_default());
        // SAFETY:
        // - it has no preconditions
        let place = unsafe { libc::__errno_location() };
        // SAFETY:
        // - the calling thread's own `errno`: valid, aligned, and no other thread's
        unsafe { place.write(errno) };
        failed
    })
}

/// The text of this thread's last call that failed: it stays until the next one fails. Empty if none did.
#[unsafe(no_mangle)]
pub extern "C" fn gpufs_last_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}
