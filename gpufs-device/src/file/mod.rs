//! Descriptors: `open`, `close`, `read`, `write`, `pread`, `pwrite` and their forms for memory in several pieces, `readv` to `pwritev2`,
//! `lseek`, `fsync`, `fdatasync`, `ftruncate` (POSIX, section 2 of the manual).
//! Paths and metadata: `stat` and its kin (`stat.rs`), `unlink`, `rename`, `mkdir`, `link`, `symlink` and theirs (`paths.rs`), `fallocate`,
//! `posix_fadvise`, `sync_file_range` (`advise.rs`).
//!
//! A descriptor is an index of the session's file table, valid in every kernel and warp of the session. Each call is made by any
//! lanes at once, each for itself; a warp's calls go to the kernel as one batch.
//!
//! Calls on paths that lanes make together are concurrent, as those of threads are: where one makes what another needs, as a directory and a
//! file in it, the second must come after the first has returned. A relative path is relative to the process's working directory, which
//! `chdir` changes for all, or to the directory that an `…at` call names by its descriptor.
//!
//! What differs from the system calls, because io_uring does:
//!
//! | call | difference |
//! |---|---|
//! | `read`, `write` of no bytes | 0 on a directory or device too (`read(2)` may fail, as with `EISDIR`) |
//! | `read` from a device such as `/dev/zero` | may be short after any page |
//! | `preadv2`, `pwritev2` | `RWF_HIPRI` has no effect. `RWF_NOWAIT` works on FIFOs and terminals too, which the system call refuses (`EOPNOTSUPP`) |
//! | `writev` of more than staging memory holds at a time (`Builder::buffers`) | goes out in several writes, as `write` does: other lanes of the session do not come between them, other processes may |
//! | calls on paths where one is empty or too long and something else is wrong too | the path's error, `ENOENT` or `ENAMETOOLONG` (the system call may have the other) |
//! | `dup`, `dup2`, `dup3` | of a file with a position, each descriptor has one of its own, which begins where the other's is. The new descriptor of a redirected standard stream goes on where the program does, and cannot be moved (`ESPIPE`). `dup2` onto a descriptor that a stream is on flushes the stream, which goes on in the new file |
//! | `sync_file_range` of 4 GiB or more | goes to the end of the file |
//! | `posix_fadvise` of 4 GiB or more | `EINVAL` before Linux 6.10; 0 stands for "to the end" as ever |

mod advise;
mod at_once;
mod dup;
pub(crate) mod listing;
mod mkstemp;
mod open;
mod paths;
mod position;
mod shared;
mod stat;
mod transfer;
mod vector;

pub(crate) use at_once::ask;
pub(crate) use dup::{claim, claim_two, duplicate};
pub(crate) use open::{close, enter, entered, exchange, open, size};
pub(crate) use paths::directory;
pub(crate) use position::moved;
pub(crate) use shared::seek_shared_file;

pub use advise::{
    FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE,
    FALLOC_FL_UNSHARE_RANGE, FALLOC_FL_ZERO_RANGE, POSIX_FADV_DONTNEED, POSIX_FADV_NOREUSE,
    POSIX_FADV_NORMAL, POSIX_FADV_RANDOM, POSIX_FADV_SEQUENTIAL, POSIX_FADV_WILLNEED,
    SYNC_FILE_RANGE_WAIT_AFTER, SYNC_FILE_RANGE_WAIT_BEFORE, SYNC_FILE_RANGE_WRITE,
};
pub use gpufs_core::session::FileIndex as Descriptor;
pub use stat::{Stat, Statx, StatxTimestamp, TimeSpec};
pub use vector::{
    IOV_MAX, IoSlice, IoSliceMut, RWF_APPEND, RWF_ATOMIC, RWF_DONTCACHE, RWF_DSYNC, RWF_HIPRI, RWF_NOAPPEND,
    RWF_NOWAIT, RWF_SYNC,
};

/// In the place of a directory: the process's working directory (`openat(2)`).
pub const AT_FDCWD: Descriptor = Descriptor(gpufs_core::abi::AT_FDCWD.cast_unsigned());
/// Of a symbolic link, the link itself (`fstatat(2)`).
pub const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
/// In `unlinkat`: an empty directory rather than a file.
pub const AT_REMOVEDIR: u32 = 0x200;
/// In `linkat`: the file that a symbolic link leads to.
pub const AT_SYMLINK_FOLLOW: u32 = 0x400;
/// In `fstatat` and `statx`: automounts no file system. Those of `stat(2)` never do.
pub const AT_NO_AUTOMOUNT: u32 = 0x800;
/// With an empty path: what the descriptor itself names.
pub const AT_EMPTY_PATH: u32 = 0x1000;
/// What `stat` needs, for the mask of `statx`.
pub const STATX_BASIC_STATS: u32 = 0x7ff;
/// The time of creation, for the mask of `statx`.
pub const STATX_BTIME: u32 = 0x800;
/// In `renameat2`: fails with `EEXIST` where the new name is taken.
pub const RENAME_NOREPLACE: u32 = 1;
/// In `renameat2`: the two names change places.
pub const RENAME_EXCHANGE: u32 = 2;
/// In `renameat2`: leaves a whiteout at the old name, for file systems that lie over others.
pub const RENAME_WHITEOUT: u32 = 4;

/// Open for reading only.
pub const O_RDONLY: u32 = 0;
/// Open for writing only.
pub const O_WRONLY: u32 = 1;
/// Open for reading and writing.
pub const O_RDWR: u32 = 2;
/// Create the file if it does not exist.
pub const O_CREAT: u32 = 0o100;
/// With [`O_CREAT`]: fail with `EEXIST` if it exists.
pub const O_EXCL: u32 = 0o200;
/// Cut the file to length 0.
pub const O_TRUNC: u32 = 0o1000;
/// Write at the end.
pub const O_APPEND: u32 = 0o2000;
/// Do not wait.
pub const O_NONBLOCK: u32 = 0o4000;
/// Must be a directory.
pub const O_DIRECTORY: u32 = 0o200_000;
/// Do not follow a symbolic link.
pub const O_NOFOLLOW: u32 = 0o400_000;
/// Create a file without a name in the directory of the path.
pub const O_TMPFILE: u32 = 0o20_200_000;
/// Close on `execve(2)`.
pub const O_CLOEXEC: u32 = 0o2_000_000;

/// Where an offset counts from (`lseek(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Whence {
    /// From the start of the file.
    Set,
    /// From the position.
    Current,
    /// From the end of the file.
    End,
}

/// Longest path with its NUL (`path_resolution(7)`).
pub(crate) const PATH_MAX: usize = 4096;
