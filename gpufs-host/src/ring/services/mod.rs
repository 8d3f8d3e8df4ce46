//! What io_uring has no operation for: the operations of the service ring, which every ring of the mode `threads` has too. Results are those of the
//! system calls. None waits for another party ([R-SERVE-3]): what would have to wait says `EAGAIN`.
//!
//! In this file: what is one system call. Elsewhere: directories (`directory.rs`), processes of `popen` (`processes.rs`), functions of the program
//! (`functions.rs`), sockets (`sockets.rs`), pipes (`pipes.rs`).

pub(super) mod directory;
mod functions;
pub(super) mod pipes;
mod processes;
mod sockets;

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;

use gpufs_core::Errno;
use gpufs_core::abi::{
    RecordLock, SERVICE_ACCESS, SERVICE_ADD_STATUS_FLAGS, SERVICE_CALL, SERVICE_CHDIR, SERVICE_CHILD,
    SERVICE_CHMOD, SERVICE_CLOCK, SERVICE_CLOSEDIR, SERVICE_DUPLICATE, SERVICE_EVENTFD, SERVICE_FCHMOD,
    SERVICE_FLOCK, SERVICE_GETCWD, SERVICE_GETENV, SERVICE_LOCK, SERVICE_MEMORY_FILE, SERVICE_OPENDIR,
    SERVICE_PIPE, SERVICE_POPEN, SERVICE_READDIR, SERVICE_READLINK, SERVICE_RESIZE, SERVICE_TRUNCATE,
    SERVICE_UMASK, SERVICE_UTIMENS, SERVICE_WAIT, Sqe,
};

use super::sys::{self, signed};

pub(crate) use functions::Functions;
pub use functions::ServiceError;
use processes::Processes;
use sockets::Sockets;
pub(super) use sockets::{POLL_MAX, poll_set};

/// What the services of a session share, whichever of its rings they come by.
#[derive(Debug, Default)]
pub struct Services {
    processes: Processes,
    pub(super) sockets: Sockets,
    pub(crate) functions: Functions,
}

impl Services {
    /// Does the service that `sqe` asks for.
    ///
    /// # Safety
    /// As for [`perform`](super::operation::perform).
    pub(super) unsafe fn perform(&self, sqe: &Sqe) -> Result<i32, Errno> {
        match sqe.opcode {
            SERVICE_POPEN => {
                // SAFETY:
                // - its producer vouches for the string, by this function's contract
                let command = unsafe { string(sqe.addr) };
                self.processes.start(command, sqe.len != 0)
            }
            SERVICE_PIPE => pipes::pipe().map(|ends| self.sockets.keep_other(ends)),
            SERVICE_EVENTFD => pipes::eventfd(sqe),
            SERVICE_MEMORY_FILE => memory_file(sqe.off, sqe.len != 0),
            SERVICE_CHILD => self.processes.detach(sqe.fd),
            SERVICE_WAIT => self.processes.status(sqe.len),
            // SAFETY:
            // - by this function's contract
            SERVICE_READDIR => unsafe { directory::read(sqe) },
            // SAFETY:
            // - by this function's contract
            SERVICE_OPENDIR => unsafe { directory::open(sqe) },
            // SAFETY:
            // - by this function's contract
            SERVICE_GETENV => unsafe { getenv(sqe) },
            // SAFETY:
            // - by this function's contract
            SERVICE_LOCK => unsafe { lock(sqe) },
            // SAFETY:
            // - by this function's contract
            SERVICE_CALL => unsafe { self.functions.call(sqe) },
            // SAFETY:
            // - by this function's contract
            socket if Sockets::has(socket) => unsafe { self.sockets.perform(sqe) },
            // SAFETY:
            // - by this function's contract
            _ => unsafe { one_call(sqe) },
        }
    }

    /// Takes back what an entry gave whose result nobody will see.
    pub(super) fn unseen(&self, sqe: &Sqe, result: i32) {
        if sqe.opcode == SERVICE_POPEN && result >= 0 {
            let _ = self.processes.detach(result);
            super::tasks::close_unseen(result);
        }
        if matches!(sqe.opcode, SERVICE_MEMORY_FILE | SERVICE_DUPLICATE | SERVICE_OPENDIR | SERVICE_EVENTFD) {
            super::tasks::close_unseen(result);
        }
        self.sockets.unseen(sqe, result);
    }
}

/// Services that are one system call, which takes numbers and addresses.
///
/// # Safety
/// As for [`Services::perform`].
unsafe fn one_call(sqe: &Sqe) -> Result<i32, Errno> {
    let (fd, addr, off) = (signed(sqe.fd), sqe.addr, sqe.off);
    let (len, flags) = (u64::from(sqe.len), u64::from(sqe.op_flags));
    let times = [off, len, sqe.addr3, u64::from(sqe.file_index)];
    let (number, arguments) = match sqe.opcode {
        SERVICE_ADD_STATUS_FLAGS => {
            // SAFETY:
            // - this `fcntl` takes numbers and touches no memory
            let has = unsafe { sys::call(libc::SYS_fcntl, [fd, signed(libc::F_GETFL), 0, 0, 0, 0]) }?;
            (libc::SYS_fcntl, [fd, signed(libc::F_SETFL), signed(has) | flags, 0, 0, 0])
        }
        SERVICE_READLINK => (libc::SYS_readlinkat, [fd, addr, off, len, 0, 0]),
        SERVICE_CLOSEDIR => (libc::SYS_close, [fd, 0, 0, 0, 0, 0]),
        SERVICE_DUPLICATE => (libc::SYS_fcntl, [fd, signed(libc::F_DUPFD_CLOEXEC), 0, 0, 0, 0]),
        SERVICE_RESIZE => (libc::SYS_ftruncate, [fd, off, 0, 0, 0, 0]),
        SERVICE_TRUNCATE => (libc::SYS_truncate, [addr, off, 0, 0, 0, 0]),
        // The calls without flags are older.
        SERVICE_CHMOD if flags == 0 => (libc::SYS_fchmodat, [fd, addr, len, 0, 0, 0]),
        SERVICE_CHMOD => (FCHMODAT2, [fd, addr, len, flags, 0, 0]),
        SERVICE_FCHMOD => (libc::SYS_fchmod, [fd, len, 0, 0, 0, 0]),
        SERVICE_ACCESS if flags == 0 => (libc::SYS_faccessat, [fd, addr, len, 0, 0, 0]),
        SERVICE_ACCESS => (libc::SYS_faccessat2, [fd, addr, len, flags, 0, 0]),
        SERVICE_UTIMENS => {
            (libc::SYS_utimensat, [fd, addr, (&raw const times).expose_provenance() as u64, flags, 0, 0])
        }
        // The threads of a process, and those that Linux starts for its rings, have one working directory and one mask.
        SERVICE_CHDIR if addr == 0 => (libc::SYS_fchdir, [fd, 0, 0, 0, 0, 0]),
        SERVICE_CHDIR => (libc::SYS_chdir, [addr, 0, 0, 0, 0, 0]),
        SERVICE_UMASK => (libc::SYS_umask, [len, 0, 0, 0, 0, 0]),
        SERVICE_GETCWD => (libc::SYS_getcwd, [addr, len, 0, 0, 0, 0]),
        SERVICE_FLOCK => {
            (libc::SYS_flock, [fd, flags | u64::from(libc::LOCK_NB.cast_unsigned()), 0, 0, 0, 0])
        }
        SERVICE_CLOCK => (libc::SYS_clock_gettime, [flags, addr, 0, 0, 0, 0]),
        _ => return Err(Errno::INVAL),
    };
    // SAFETY:
    // - the kernel checks the addresses it is given, and their producer vouches for what they hold, by this function's contract
    // - `times` are two `timespec`s, which live during the call
    unsafe { sys::call(number, arguments) }
}

/// `fchmodat2(2)`, since Linux 6.6.
pub(super) const FCHMODAT2: libc::c_long = 452;

/// A file in memory: its descriptor.
fn memory_file(length: u64, appends: bool) -> Result<i32, Errno> {
    let name = c"gpufs".as_ptr().expose_provenance() as u64;
    // SAFETY:
    // - the kernel reads the name, which ends with a NUL and is constant
    let number =
        unsafe { sys::call(libc::SYS_memfd_create, [name, u64::from(libc::MFD_CLOEXEC), 0, 0, 0, 0]) }?;
    let flags = if appends { signed(libc::O_APPEND) } else { 0 };
    let steps = [
        (libc::SYS_ftruncate, [signed(number), length, 0, 0, 0, 0]),
        (libc::SYS_fcntl, [signed(number), signed(libc::F_SETFL), flags, 0, 0, 0]),
    ];
    for (call, arguments) in steps {
        // SAFETY:
        // - these calls take numbers and touch no memory
        if let Err(errno) = unsafe { sys::call(call, arguments) } {
            super::tasks::close_unseen(number);
            return Err(errno);
        }
    }
    Ok(number)
}

/// The string at an address that the device gave.
///
/// # Safety
/// It ends with a NUL, and stays as it is while the result is used.
unsafe fn string<'a>(address: u64) -> &'a CStr {
    // SAFETY:
    // - this function's contract
    unsafe { CStr::from_ptr(address as *const libc::c_char) }
}

/// # Safety
/// As for [`Services::perform`].
unsafe fn getenv(sqe: &Sqe) -> Result<i32, Errno> {
    // SAFETY:
    // - its producer vouches for the string, by this function's contract
    let name = unsafe { string(sqe.addr) };
    let value = std::env::var_os(OsStr::from_bytes(name.to_bytes())).ok_or(Errno::NOENT)?;
    let value = value.as_bytes();
    let from = usize::try_from(sqe.off).map_or(value.len(), |from| from.min(value.len()));
    let part = &value[from..value.len().min(from + sqe.len as usize)];
    // SAFETY:
    // - the producer's room of `len` bytes, which nothing else uses until the CQE; the value is memory of our own
    unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), sqe.addr as *mut u8, part.len()) };
    i32::try_from(value.len()).map_err(|_| Errno::OVERFLOW)
}

/// # Safety
/// As for [`Services::perform`].
unsafe fn lock(sqe: &Sqe) -> Result<i32, Errno> {
    let [kind, whence] = [sqe.len, sqe.len >> 16].map(|half| {
        #[expect(clippy::cast_possible_truncation, reason = "a half")]
        let half = half as u16;
        half.cast_signed()
    });
    let mut lock = RecordLock {
        l_type: kind,
        l_whence: whence,
        l_start: sqe.off.cast_signed(),
        l_len: sqe.addr3.cast_signed(),
        l_pid: sqe.file_index.cast_signed(),
    };
    let command = if sqe.addr == 0 { libc::F_OFD_SETLK } else { libc::F_OFD_GETLK };
    let address = (&raw mut lock).expose_provenance() as u64;
    // SAFETY:
    // - the kernel reads and writes one `struct flock`, as which a `RecordLock` is laid out
    let result = unsafe { sys::call(libc::SYS_fcntl, [signed(sqe.fd), signed(command), address, 0, 0, 0]) }?;
    if sqe.addr != 0 {
        // SAFETY:
        // - the producer's room for one, which nothing else uses until the CQE, by this function's contract
        unsafe { (sqe.addr as *mut RecordLock).write_unaligned(lock) };
    }
    Ok(result)
}
