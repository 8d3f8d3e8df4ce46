//! Operations of the service ring: what io_uring has no operation for, or never does at once. gpufs defines the codes of the former; what they
//! do is the system call's of the same name. Host threads do them ([R-SERVE-1]).
//!
//! Every entry here needs one stretch of staging memory at most: where a result takes memory, it may lie where the path lay, since the system
//! takes a path in before it writes a result. What is small travels in the entry itself.

use static_assertions::const_assert_eq;

use super::{
    IORING_OP_LINKAT, IORING_OP_MKDIRAT, IORING_OP_RENAMEAT, IORING_OP_STATX, IORING_OP_SYMLINKAT,
    IORING_OP_UNLINKAT, Sqe,
};

/// Operation codes from here on are services. io_uring has none of them.
pub const SERVICE_OPCODES: u8 = 0xC0;

macro_rules! opcodes {
    ($($name:ident = $value:expr, $text:literal;)*) => {
        $(#[doc = $text] pub const $name: u8 = SERVICE_OPCODES + $value;)*
        /// The services by name.
        pub const SERVICES: &[(&str, u8)] = &[$((stringify!($name), $name)),*];
    };
}

opcodes! {
    SERVICE_READLINK = 0, "`readlinkat(2)`.";
    SERVICE_READDIR = 1, "`getdents64(2)` from a position, as a [listing](LISTING_HEAD_BYTES).";
    SERVICE_TRUNCATE = 2, "`truncate(2)`.";
    SERVICE_CHMOD = 3, "`fchmodat2(2)`.";
    SERVICE_FCHMOD = 4, "`fchmod(2)`.";
    SERVICE_UTIMENS = 5, "`utimensat(2)`.";
    SERVICE_ACCESS = 6, "`faccessat2(2)`.";
    SERVICE_GETCWD = 7, "`getcwd(2)`.";
    SERVICE_FLOCK = 8, "`flock(2)`, which does not wait.";
    SERVICE_LOCK = 9, "`F_OFD_SETLK` and `F_OFD_GETLK` of `fcntl(2)`.";
    SERVICE_GETENV = 10, "`getenv(3)` of the process.";
    SERVICE_CLOCK = 11, "`clock_gettime(2)`.";
    SERVICE_POPEN = 12, "`popen(3)`.";
    SERVICE_CHILD = 13, "Which process a descriptor of `popen` belongs to.";
    SERVICE_WAIT = 14, "`waitpid(2)` of a process of `popen`, which does not wait.";
    SERVICE_CALL = 15, "Calls a function of the program.";
    SERVICE_SOCKET = 0x10, "`socket(2)`.";
    SERVICE_SOCKETPAIR = 0x11, "`socketpair(2)`: its first end.";
    SERVICE_OTHER_END = 0x12, "The other end of what an entry made in two.";
    SERVICE_BIND = 0x13, "`bind(2)`.";
    SERVICE_LISTEN = 0x14, "`listen(2)`.";
    SERVICE_ACCEPT = 0x15, "`accept4(2)`, which does not wait.";
    SERVICE_CONNECT = 0x16, "`connect(2)`, which does not wait.";
    SERVICE_SHUTDOWN = 0x17, "`shutdown(2)`.";
    SERVICE_GETSOCKOPT = 0x18, "`getsockopt(2)`.";
    SERVICE_SETSOCKOPT = 0x19, "`setsockopt(2)`.";
    SERVICE_GETSOCKNAME = 0x1A, "`getsockname(2)`.";
    SERVICE_GETPEERNAME = 0x1B, "`getpeername(2)`.";
    SERVICE_POLL = 0x1C, "`poll(2)`, which does not wait.";
    SERVICE_POLL_SET = 0x1D, "A descriptor that is ready when one of several is.";
    SERVICE_POLL_END = 0x1E, "Closes one of `SERVICE_POLL_SET`.";
    SERVICE_PIPE = 0x20, "`pipe2(2)`: the end that is read.";
    SERVICE_EVENTFD = 0x21, "`eventfd2(2)`.";
    SERVICE_ADD_STATUS_FLAGS = 0x30, "`fcntl(2)`: `F_SETFL` of what `F_GETFL` gives, and more.";
    SERVICE_MEMORY_FILE = 0x31, "`memfd_create(2)`, and `ftruncate(2)` of it.";
    SERVICE_RESIZE = 0x32, "`ftruncate(2)`, which io_uring has since Linux 6.9.";
    SERVICE_DUPLICATE = 0x33, "`fcntl(2)`: `F_DUPFD_CLOEXEC`.";
    SERVICE_OPENDIR = 0x34, "`openat(2)` of a directory, and its first [listing](LISTING_HEAD_BYTES).";
    SERVICE_CHDIR = 0x35, "`chdir(2)`, or `fchdir(2)` without a path: of the whole process.";
    SERVICE_UMASK = 0x36, "`umask(2)`: of the whole process.";
    SERVICE_CLOSEDIR = 0x37, "`close(2)` of a directory.";
}

/// With the count of a listing: the directory ends after these entries.
pub const READDIR_END: u32 = 1 << 30;
/// Where the entries of a listing begin: the next entries of a directory in a stretch of memory.
///
/// ```text
/// 0 count, with READDIR_END (4) · 0 (4)
/// 8 entries as getdents64(2) gives them, each at a multiple of 8:
///     d_ino(8) d_off(8) d_reclen(2) d_type(1) d_name with its NUL and zeros up to the multiple
///   …
///   last 2 · (count + 1) bytes: where the entries begin and the last one ends, in units of 8 bytes, from the last 2 bytes downwards
/// ```
///
/// So a lane finds its entry without a look at those before.
pub const LISTING_HEAD_BYTES: u32 = 8;
/// Bytes of a listing at least: any entry fits.
pub const LISTING_BYTES_MIN: u32 = 512;
/// Bytes of a listing at most: of the units of 8 bytes there are 2¹⁶.
pub const LISTING_BYTES_MAX: u32 = 512 << 10;
/// Bytes of an entry at least.
const ENTRY_BYTES_MIN: u32 = 24;

/// The most bytes of entries that a listing in so many bytes holds, however short they are.
#[must_use]
pub const fn listing_entries_bytes(bytes: u32) -> u32 {
    (bytes - LISTING_HEAD_BYTES - 8) / (ENTRY_BYTES_MIN + 2) * ENTRY_BYTES_MIN
}
/// Where in a listing of so many bytes it says where entry `index` begins.
#[must_use]
pub const fn listing_place(bytes: u32, index: u32) -> u32 {
    bytes - 2 * (index + 1)
}

/// Whether an operation of io_uring is one on paths that the kernel never does at once: it hands each to a worker thread of its own. The service
/// ring takes these too ([R-SERVE-6]).
#[must_use]
pub const fn is_of_paths(opcode: u8) -> bool {
    matches!(
        opcode,
        IORING_OP_STATX
            | IORING_OP_UNLINKAT
            | IORING_OP_RENAMEAT
            | IORING_OP_MKDIRAT
            | IORING_OP_SYMLINKAT
            | IORING_OP_LINKAT
    )
}

/// One entry of a directory: `struct dirent` of Linux on x86-64, on every device
/// ([readdir(3)](https://man7.org/linux/man-pages/man3/readdir.3.html)).
///
/// ```text
/// 0 d_ino(8) d_off(8) | 16 d_reclen(2) d_type(1) d_name(256)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Dirent {
    /// Inode number.
    pub d_ino: u64,
    /// Where the next entry begins, in the file system's own numbering.
    pub d_off: i64,
    /// Bytes of this structure.
    pub d_reclen: u16,
    /// `DT_*`: what kind of file it is, 0 where the file system does not say.
    pub d_type: u8,
    /// The name, which ends with a NUL. What follows that means nothing.
    pub d_name: [u8; 256],
}
const_assert_eq!(size_of::<Dirent>(), 280);

impl Default for Dirent {
    fn default() -> Self {
        Self { d_ino: 0, d_off: 0, d_reclen: 0, d_type: 0, d_name: [0; 256] }
    }
}

/// A record lock: `struct flock` of Linux on x86-64, on every device ([fcntl(2)](https://man7.org/linux/man-pages/man2/fcntl.2.html)).
///
/// ```text
/// 0 l_type(2) l_whence(2) pad(4) l_start(8) | 16 l_len(8) l_pid(4) pad(4)
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RecordLock {
    /// [`F_RDLCK`], [`F_WRLCK`] or [`F_UNLCK`].
    pub l_type: i16,
    /// What `l_start` counts from: 0 the start of the file, 1 the position, 2 the end.
    pub l_whence: i16,
    /// The first byte.
    pub l_start: i64,
    /// Bytes; 0 for all up to the end of the file, wherever that will be.
    pub l_len: i64,
    /// 0. Of what [`SERVICE_LOCK`] finds: the process that holds it, or -1 for an open file description's lock.
    pub l_pid: i32,
}
const_assert_eq!(size_of::<RecordLock>(), 32);

/// A lock that excludes writers' locks.
pub const F_RDLCK: i16 = 0;
/// A lock that excludes all others.
pub const F_WRLCK: i16 = 1;
/// No lock.
pub const F_UNLCK: i16 = 2;

impl Sqe {
    pub(super) const fn service(opcode: u8) -> Self {
        Self { opcode, fd: -1, ..Self::ZERO }
    }
    /// Adds `flags` (`O_APPEND`, `O_NONBLOCK` …) to the status flags of an open file, as `fcntl(2)` with `F_SETFL`. Completes with 0.
    #[must_use]
    pub const fn add_status_flags(fd: i32, flags: u32) -> Self {
        Self { fd, op_flags: flags, ..Self::service(SERVICE_ADD_STATUS_FLAGS) }
    }
    /// A new file in memory that has no name, open for reading and writing, of `length` zeros; each write goes to its end where it `appends`.
    /// Completes with a descriptor of the process.
    #[must_use]
    pub const fn memory_file(length: u64, appends: bool) -> Self {
        Self { off: length, len: appends as u32, ..Self::service(SERVICE_MEMORY_FILE) }
    }
    /// `dup(2)`. Completes with a descriptor of the process, which closes on `execve(2)`.
    #[must_use]
    pub const fn duplicate(fd: i32) -> Self {
        Self { fd, ..Self::service(SERVICE_DUPLICATE) }
    }
    /// `ftruncate(2)`. Completes with 0.
    #[must_use]
    pub const fn resize(fd: i32, length: u64) -> Self {
        Self { fd, off: length, ..Self::service(SERVICE_RESIZE) }
    }
    /// `readlinkat(2)` of the NUL-terminated string at `path`: its target, without a NUL, to `into`, at most `bytes` of it. Completes with how
    /// many bytes. Both may lie at the same place.
    #[must_use]
    pub const fn readlink(dirfd: i32, path: u64, into: u64, bytes: u32) -> Self {
        Self { fd: dirfd, addr: path, off: into, len: bytes, ..Self::service(SERVICE_READLINK) }
    }
    /// The next entries of a directory after `position`, 0 for its start: a listing in the `bytes` bytes at `into`, which is a multiple of 8.
    /// Completes with its count, and with [`READDIR_END`] where there are no more. The position after an entry is its `d_off`.
    #[must_use]
    pub const fn readdir(fd: i32, position: u64, into: u64, bytes: u32) -> Self {
        Self { fd, off: position, addr: into, len: bytes, ..Self::service(SERVICE_READDIR) }
    }
    /// Opens the directory that the NUL-terminated string at `path` names, and puts its first entries as a listing in the `bytes` bytes at `into`,
    /// a multiple of 8; with 0 bytes it only opens. Completes with a descriptor of the process, which closes on `execve(2)`. Where the directory
    /// opens and cannot be read, the listing is empty and not the end.
    #[must_use]
    pub const fn opendir(dirfd: i32, path: u64, into: u64, bytes: u32) -> Self {
        Self { fd: dirfd, addr: path, off: into, len: bytes, ..Self::service(SERVICE_OPENDIR) }
    }
    /// `close(2)` of a directory's descriptor.
    #[must_use]
    pub const fn closedir(fd: i32) -> Self {
        Self { fd, ..Self::service(SERVICE_CLOSEDIR) }
    }
    /// `truncate(2)` of the NUL-terminated string at `path`.
    #[must_use]
    pub const fn truncate(path: u64, length: u64) -> Self {
        Self { addr: path, off: length, ..Self::service(SERVICE_TRUNCATE) }
    }
    /// `fchmodat2(2)` of the NUL-terminated string at `path`.
    #[must_use]
    pub const fn chmod(dirfd: i32, path: u64, mode: u32, chmod_flags: u32) -> Self {
        Self { fd: dirfd, addr: path, len: mode, op_flags: chmod_flags, ..Self::service(SERVICE_CHMOD) }
    }
    /// `fchmod(2)`.
    #[must_use]
    pub const fn fchmod(fd: i32, mode: u32) -> Self {
        Self { fd, len: mode, ..Self::service(SERVICE_FCHMOD) }
    }
    /// `utimensat(2)` of the NUL-terminated string at `path`, or of the file `fd` where that is 0. `accessed` and `modified`: seconds and
    /// nanoseconds, as in a `timespec`.
    #[must_use]
    pub const fn utimens(fd: i32, path: u64, accessed: (i64, u32), modified: (i64, u32), flags: u32) -> Self {
        Self {
            fd,
            addr: path,
            off: accessed.0.cast_unsigned(),
            len: accessed.1,
            addr3: modified.0.cast_unsigned(),
            file_index: modified.1,
            op_flags: flags,
            ..Self::service(SERVICE_UTIMENS)
        }
    }
    /// `faccessat2(2)` of the NUL-terminated string at `path`.
    #[must_use]
    pub const fn access(dirfd: i32, path: u64, mode: u32, access_flags: u32) -> Self {
        Self { fd: dirfd, addr: path, len: mode, op_flags: access_flags, ..Self::service(SERVICE_ACCESS) }
    }
    /// `getcwd(2)`: the path with its NUL to `into`, which has `bytes` bytes. Completes with its length, the NUL included.
    #[must_use]
    pub const fn getcwd(into: u64, bytes: u32) -> Self {
        Self { addr: into, len: bytes, ..Self::service(SERVICE_GETCWD) }
    }
    /// `chdir(2)` to the NUL-terminated string at `path`, or `fchdir(2)` to the open directory `fd` where that is 0: of the process. Completes
    /// with 0.
    #[must_use]
    pub const fn chdir(fd: i32, path: u64) -> Self {
        Self { fd, addr: path, ..Self::service(SERVICE_CHDIR) }
    }
    /// `umask(2)` of the process. Completes with the mask that was.
    #[must_use]
    pub const fn umask(mask: u32) -> Self {
        Self { len: mask, ..Self::service(SERVICE_UMASK) }
    }
    /// `flock(2)` with `LOCK_NB`, whether `operation` has it or not.
    #[must_use]
    pub const fn flock(fd: i32, operation: u32) -> Self {
        Self { fd, op_flags: operation, ..Self::service(SERVICE_FLOCK) }
    }
    /// Sets a record lock of the open file description (`F_OFD_SETLK`), or, with a `found` that is not 0, puts the lock that would keep it from
    /// being set there (`F_OFD_GETLK`).
    #[must_use]
    pub const fn lock(fd: i32, wanted: &RecordLock, found: u64) -> Self {
        let (kind, whence) = (wanted.l_type.cast_unsigned() as u32, wanted.l_whence.cast_unsigned() as u32);
        Self {
            fd,
            addr: found,
            off: wanted.l_start.cast_unsigned(),
            addr3: wanted.l_len.cast_unsigned(),
            len: kind | whence << 16,
            file_index: wanted.l_pid.cast_unsigned(),
            ..Self::service(SERVICE_LOCK)
        }
    }
    /// The value of the environment variable whose NUL-terminated name is at `address`: of its bytes from `from` on up to `bytes`, to the same
    /// place. Completes with the length of the whole value, without a NUL; `ENOENT` where there is none.
    #[must_use]
    pub const fn getenv(address: u64, from: u64, bytes: u32) -> Self {
        Self { addr: address, off: from, len: bytes, ..Self::service(SERVICE_GETENV) }
    }
    /// `clock_gettime(2)`: a `timespec` to `into`.
    #[must_use]
    pub const fn clock_gettime(clock: u32, into: u64) -> Self {
        Self { op_flags: clock, addr: into, ..Self::service(SERVICE_CLOCK) }
    }
    /// Starts the shell with the NUL-terminated command at `command`, its output (or its input, where `writes`) a pipe. Completes with the other
    /// end, a descriptor of the process.
    #[must_use]
    pub const fn popen(command: u64, writes: bool) -> Self {
        Self { addr: command, len: writes as u32, ..Self::service(SERVICE_POPEN) }
    }
    /// The process at the other end of a descriptor of [`Sqe::popen`]. Completes with its number; `ECHILD` for another descriptor, and the
    /// second time.
    #[must_use]
    pub const fn child_of(fd: i32) -> Self {
        Self { fd, ..Self::service(SERVICE_CHILD) }
    }
    /// How a process of [`Sqe::child_of`] ended: its wait status, once. `EAGAIN` as long as it runs.
    #[must_use]
    pub const fn wait_for(child: u32) -> Self {
        Self { len: child, ..Self::service(SERVICE_WAIT) }
    }
    /// Calls the function of the program that is known as `key`, with the `request` bytes at `address`. It leaves its `reply` bytes there.
    #[must_use]
    pub const fn call(key: u64, address: u64, request: u32, reply: u32) -> Self {
        Self { off: key, addr: address, len: request, file_index: reply, ..Self::service(SERVICE_CALL) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_codes_of_their_own() {
        for (index, (name, code)) in SERVICES.iter().enumerate() {
            assert!(*code >= SERVICE_OPCODES, "{name}");
            assert!(SERVICES[..index].iter().all(|(_, other)| other != code), "{name}");
        }
    }

    #[test]
    fn entries_of_a_listing_and_their_places_fit() {
        for bytes in (LISTING_BYTES_MIN..=LISTING_BYTES_MAX).step_by(512) {
            let entries = listing_entries_bytes(bytes);
            let places = listing_place(bytes, entries / ENTRY_BYTES_MIN);
            assert!(LISTING_HEAD_BYTES + entries <= places && places < bytes, "{bytes}");
            assert!(entries.is_multiple_of(8) && entries as usize > size_of::<Dirent>(), "{bytes}");
            assert!(u16::try_from((LISTING_HEAD_BYTES + entries) / 8).is_ok(), "{bytes}");
        }
    }
}
