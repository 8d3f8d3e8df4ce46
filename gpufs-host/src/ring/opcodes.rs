//! The operations of io_uring that gpufs asks the kernel for, and which of them a kernel lacks.

use gpufs_core::abi::{
    IORING_OP_ACCEPT, IORING_OP_ASYNC_CANCEL, IORING_OP_CLOSE, IORING_OP_EPOLL_CTL, IORING_OP_FADVISE,
    IORING_OP_FALLOCATE, IORING_OP_FILES_UPDATE, IORING_OP_FSYNC, IORING_OP_FTRUNCATE, IORING_OP_LINKAT,
    IORING_OP_MKDIRAT, IORING_OP_NOP, IORING_OP_OPENAT, IORING_OP_OPENAT2, IORING_OP_POLL_ADD,
    IORING_OP_READ, IORING_OP_READ_FIXED, IORING_OP_READV, IORING_OP_RECV, IORING_OP_RECVMSG,
    IORING_OP_RENAMEAT, IORING_OP_SEND, IORING_OP_SENDMSG, IORING_OP_STATX, IORING_OP_SYMLINKAT,
    IORING_OP_SYNC_FILE_RANGE, IORING_OP_UNLINKAT, IORING_OP_WRITE, IORING_OP_WRITE_FIXED, IORING_OP_WRITEV,
    Probe,
};

use super::error::MissingOpcode;
use super::sys::Release;

/// Opcodes and the first release that has each; whether gpufs can work without; the calls that are made with it.
const OPCODES: [(u8, &str, Release, Need, &str); 30] = [
    (IORING_OP_NOP, "NOP", Release::new(5, 1), Need::Required, "nop, and the trial of each ring"),
    (IORING_OP_READV, "READV", Release::new(5, 1), Need::Required, "readv, preadv"),
    (IORING_OP_WRITEV, "WRITEV", Release::new(5, 1), Need::Required, "writev, pwritev"),
    (IORING_OP_FSYNC, "FSYNC", Release::new(5, 1), Need::Required, "fsync, fdatasync, aio_fsync"),
    (
        IORING_OP_READ_FIXED,
        "READ_FIXED",
        Release::new(5, 1),
        Need::Required,
        "all that reads a file through registered memory: read, pread, fread, fgets, fscanf",
    ),
    (
        IORING_OP_WRITE_FIXED,
        "WRITE_FIXED",
        Release::new(5, 1),
        Need::Required,
        "all that writes a file through registered memory: write, pwrite, fwrite, fprintf",
    ),
    (
        IORING_OP_POLL_ADD,
        "POLL_ADD",
        Release::new(5, 1),
        Need::Required,
        "poll, and every wait for a pipe, a socket or a terminal",
    ),
    (IORING_OP_SYNC_FILE_RANGE, "SYNC_FILE_RANGE", Release::new(5, 2), Need::Optional, "sync_file_range"),
    (IORING_OP_SENDMSG, "SENDMSG", Release::new(5, 3), Need::Required, "sendto, sendmsg"),
    (IORING_OP_RECVMSG, "RECVMSG", Release::new(5, 3), Need::Required, "recvfrom, recvmsg"),
    (IORING_OP_ACCEPT, "ACCEPT", Release::new(5, 5), Need::Required, "accept"),
    (
        IORING_OP_ASYNC_CANCEL,
        "ASYNC_CANCEL",
        Release::new(5, 5),
        Need::Required,
        "aio_cancel, and the end of every wait with a limit",
    ),
    (IORING_OP_FALLOCATE, "FALLOCATE", Release::new(5, 6), Need::Required, "fallocate, posix_fallocate"),
    (IORING_OP_OPENAT, "OPENAT", Release::new(5, 6), Need::Required, "open, openat, fopen, freopen"),
    (IORING_OP_CLOSE, "CLOSE", Release::new(5, 6), Need::Required, "close, fclose"),
    (
        IORING_OP_FILES_UPDATE,
        "FILES_UPDATE",
        Release::new(5, 6),
        Need::Required,
        "entries that programs write themselves",
    ),
    (
        IORING_OP_STATX,
        "STATX",
        Release::new(5, 6),
        Need::Required,
        "stat, lstat, fstat, fstatat, fopen for appending",
    ),
    (
        IORING_OP_READ,
        "READ",
        Release::new(5, 6),
        Need::Required,
        "all that reads a file: read, pread, fread, fgets, fscanf",
    ),
    (
        IORING_OP_WRITE,
        "WRITE",
        Release::new(5, 6),
        Need::Required,
        "all that writes a file: write, pwrite, fwrite, fprintf",
    ),
    (IORING_OP_FADVISE, "FADVISE", Release::new(5, 6), Need::Optional, "posix_fadvise"),
    (IORING_OP_OPENAT2, "OPENAT2", Release::new(5, 6), Need::Optional, "open at once of what is cached"),
    (IORING_OP_EPOLL_CTL, "EPOLL_CTL", Release::new(5, 6), Need::Optional, "open at once of what is cached"),
    (IORING_OP_SEND, "SEND", Release::new(5, 6), Need::Required, "send"),
    (IORING_OP_RECV, "RECV", Release::new(5, 6), Need::Required, "recv"),
    (IORING_OP_RENAMEAT, "RENAMEAT", Release::new(5, 11), Need::Required, "rename, renameat"),
    (IORING_OP_UNLINKAT, "UNLINKAT", Release::new(5, 11), Need::Required, "unlink, rmdir, remove, unlinkat"),
    (IORING_OP_MKDIRAT, "MKDIRAT", Release::new(5, 15), Need::Optional, "mkdir, mkdirat"),
    (IORING_OP_SYMLINKAT, "SYMLINKAT", Release::new(5, 15), Need::Optional, "symlink, symlinkat"),
    (IORING_OP_LINKAT, "LINKAT", Release::new(5, 15), Need::Optional, "link, linkat"),
    (IORING_OP_FTRUNCATE, "FTRUNCATE", Release::new(6, 9), Need::Optional, "ftruncate"),
];

/// Whether gpufs can do without.
#[derive(Clone, Copy, PartialEq)]
enum Need {
    Required,
    Optional,
}

/// What a kernel lacks of [`OPCODES`].
#[derive(Clone, Debug)]
pub(super) struct Lacks {
    /// gpufs does not work without these.
    pub(super) required: Vec<MissingOpcode>,
    /// Calls made with these fail with `EINVAL`, or are made in another way.
    pub(super) optional: Vec<MissingOpcode>,
}

impl Lacks {
    /// What the kernel lacks that filled `probe`.
    pub(super) fn of(probe: &Probe) -> Self {
        let missing = |need| {
            let lacked =
                OPCODES.iter().filter(move |(opcode, .., this, _)| *this == need && !probe.supports(*opcode));
            lacked
                .map(|&(opcode, name, since, _, calls)| MissingOpcode { opcode, name, since, calls })
                .collect()
        };
        Self { required: missing(Need::Required), optional: missing(Need::Optional) }
    }
}
