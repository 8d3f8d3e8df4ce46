//! Descriptors: `open`, `close`, `read`, `write`, `pread`, `pwrite` and their forms for memory in several pieces, `readv` to `pwritev2`,
//! `lseek`, `fsync`, `fdatasync`, `ftruncate` (POSIX, section 2 of the manual).
//!
//! A descriptor is an index of the session's file table, valid in every kernel and warp of the session. Each call is made by any
//! lanes at once, each for itself; a warp's calls go to the kernel as one batch.
//!
//! What differs from the system calls, because io_uring does:
//!
//! | call | difference |
//! |---|---|
//! | `read`, `write` of no bytes | 0 on a directory or device too (`read(2)` may fail, as with `EISDIR`) |
//! | `read` from a device such as `/dev/zero` | may be short after any page |
//! | `preadv2`, `pwritev2` | `RWF_HIPRI` has no effect. `RWF_NOWAIT` works on FIFOs and terminals too, which the system call refuses (`EOPNOTSUPP`) |
//! | `writev` of more than staging memory holds at a time (`Builder::buffers`) | goes out in several writes, as `write` does: other lanes of the session do not come between them, other processes may |
//! | `open` with a wrong path and wrong flags | the path's error (`open(2)`: `EINVAL`) |

mod open;
mod position;
mod shared;
mod transfer;
mod vector;

pub(crate) use open::{close, open, size};
pub(crate) use position::moved;
pub(crate) use shared::seek_shared_file;

pub use gpufs_core::session::FileIndex as Descriptor;
pub use vector::{
    IOV_MAX, IoSlice, IoSliceMut, RWF_APPEND, RWF_ATOMIC, RWF_DONTCACHE, RWF_DSYNC, RWF_HIPRI, RWF_NOAPPEND,
    RWF_NOWAIT, RWF_SYNC,
};

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
