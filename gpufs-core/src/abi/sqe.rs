//! Submission entries by what they ask for, one constructor per operation, after `io_uring_enter(2)`.
//!
//! Addresses are plain `u64`: they name memory of the process that owns the ring, and the lane that fills an entry answers for
//! them until its CQE is seen. Nothing here checks a descriptor, a length or an address; the kernel does.

use static_assertions::const_assert_eq;

use super::constants::{
    EPOLL_CTL_DEL, IORING_OP_ASYNC_CANCEL, IORING_OP_CLOSE, IORING_OP_EPOLL_CTL, IORING_OP_FADVISE,
    IORING_OP_FALLOCATE, IORING_OP_FILES_UPDATE, IORING_OP_FSYNC, IORING_OP_FTRUNCATE, IORING_OP_LINKAT,
    IORING_OP_MKDIRAT, IORING_OP_NOP, IORING_OP_OPENAT, IORING_OP_OPENAT2, IORING_OP_POLL_ADD,
    IORING_OP_READ, IORING_OP_READ_FIXED, IORING_OP_READV, IORING_OP_RENAMEAT, IORING_OP_STATX,
    IORING_OP_SYMLINKAT, IORING_OP_SYNC_FILE_RANGE, IORING_OP_UNLINKAT, IORING_OP_WRITE,
    IORING_OP_WRITE_FIXED, IORING_OP_WRITEV, IOSQE_ASYNC, IOSQE_FIXED_FILE, IOSQE_IO_HARDLINK, IOSQE_IO_LINK,
};
use super::params::OpenHow;

/// A submission queue entry, 64 bytes.
///
/// ```text
///  0 opcode flags ioprio(2) fd(4) | 8 off(8) | 16 addr(8) | 24 len(4) op_flags(4)
/// 32 user_data(8) | 40 buf_index(2) personality(2) file_index(4) | 48 addr3(8) pad(8)
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Sqe {
    /// `IORING_OP_*`.
    pub opcode: u8,
    /// `IOSQE_*`.
    pub flags: u8,
    /// Request priority, or flags of the operation.
    pub ioprio: u16,
    /// The file descriptor, or an index of the registered files with [`IOSQE_FIXED_FILE`].
    pub fd: i32,
    /// Offset into the file; [`CURRENT_POSITION`](crate::abi::CURRENT_POSITION) for the file's own position.
    pub off: u64,
    /// Address of the buffer or path.
    pub addr: u64,
    /// Length of the buffer in bytes, or the mode of an open.
    pub len: u32,
    /// Flags of the operation: `rw_flags`, `open_flags`, `statx_flags`, `fsync_flags`.
    pub op_flags: u32,
    /// Handed back in the CQE.
    pub user_data: u64,
    /// Index of the registered buffer.
    pub buf_index: u16,
    /// Credentials to run with.
    pub personality: u16,
    /// Target slot for a direct descriptor, plus one.
    pub file_index: u32,
    /// Third address.
    pub addr3: u64,
    /// Zero.
    pub pad: u64,
}
const_assert_eq!(size_of::<Sqe>(), 64);

impl Sqe {
    /// Every member zero. `fd` 0 is a descriptor, so an operation without one says -1.
    pub(super) const ZERO: Self = Self {
        opcode: 0,
        flags: 0,
        ioprio: 0,
        fd: 0,
        off: 0,
        addr: 0,
        len: 0,
        op_flags: 0,
        user_data: 0,
        buf_index: 0,
        personality: 0,
        file_index: 0,
        addr3: 0,
        pad: 0,
    };

    /// Does nothing and completes with 0.
    #[must_use]
    pub const fn nop() -> Self {
        Self { opcode: IORING_OP_NOP, fd: -1, ..Self::ZERO }
    }
    /// `pread(2)` of `len` bytes at `off` into `addr`; `read(2)` where `off` is [`CURRENT_POSITION`]. Completes with the
    /// count of bytes read, 0 at the end of the file.
    ///
    /// [`CURRENT_POSITION`]: crate::abi::CURRENT_POSITION
    #[must_use]
    pub const fn read(fd: i32, addr: u64, len: u32, off: u64) -> Self {
        Self { opcode: IORING_OP_READ, fd, addr, len, off, ..Self::ZERO }
    }
    /// `pwrite(2)` of `len` bytes from `addr` at `off`; `write(2)` where `off` is [`CURRENT_POSITION`]. Completes with the
    /// count of bytes written, which may be short.
    ///
    /// [`CURRENT_POSITION`]: crate::abi::CURRENT_POSITION
    #[must_use]
    pub const fn write(fd: i32, addr: u64, len: u32, off: u64) -> Self {
        Self { opcode: IORING_OP_WRITE, fd, addr, len, off, ..Self::ZERO }
    }
    /// [`Sqe::read`] into the registered buffer `buf_index`, which must hold `addr..addr + len`
    /// (`io_uring_prep_read_fixed(3)`).
    #[must_use]
    pub const fn read_fixed(fd: i32, addr: u64, len: u32, off: u64, buf_index: u16) -> Self {
        Self { opcode: IORING_OP_READ_FIXED, fd, addr, len, off, buf_index, ..Self::ZERO }
    }
    /// [`Sqe::write`] from the registered buffer `buf_index`, which must hold `addr..addr + len`
    /// (`io_uring_prep_write_fixed(3)`).
    #[must_use]
    pub const fn write_fixed(fd: i32, addr: u64, len: u32, off: u64, buf_index: u16) -> Self {
        Self { opcode: IORING_OP_WRITE_FIXED, fd, addr, len, off, buf_index, ..Self::ZERO }
    }
    /// `preadv(2)` at `off` into the memory of `count` vectors (`struct iovec`: an address and a length, 8 bytes each) at `vectors`, which
    /// stay until the entry completes. Completes as [`Sqe::read`].
    #[must_use]
    pub const fn readv(fd: i32, vectors: u64, count: u32, off: u64) -> Self {
        Self { opcode: IORING_OP_READV, fd, addr: vectors, len: count, off, ..Self::ZERO }
    }
    /// `pwritev(2)` at `off` from the memory of `count` vectors at `vectors`, as [`Sqe::readv`]. Completes as [`Sqe::write`].
    #[must_use]
    pub const fn writev(fd: i32, vectors: u64, count: u32, off: u64) -> Self {
        Self { opcode: IORING_OP_WRITEV, fd, addr: vectors, len: count, off, ..Self::ZERO }
    }
    /// `fsync(2)`, or `fdatasync(2)` with [`IORING_FSYNC_DATASYNC`](crate::abi::IORING_FSYNC_DATASYNC). Not ordered after
    /// writes that are still in flight.
    #[must_use]
    pub const fn fsync(fd: i32, fsync_flags: u32) -> Self {
        Self { opcode: IORING_OP_FSYNC, fd, op_flags: fsync_flags, ..Self::ZERO }
    }
    /// `ftruncate(2)` to `length` bytes. Since Linux 6.9.
    #[must_use]
    pub const fn ftruncate(fd: i32, length: u64) -> Self {
        Self { opcode: IORING_OP_FTRUNCATE, fd, off: length, ..Self::ZERO }
    }
    /// `fallocate(2)` of `length` bytes at `off`, with its `mode`.
    #[must_use]
    pub const fn fallocate(fd: i32, mode: u32, off: u64, length: u64) -> Self {
        Self { opcode: IORING_OP_FALLOCATE, fd, off, addr: length, len: mode, ..Self::ZERO }
    }
    /// `openat(2)` of the NUL-terminated string at `path`, with `open_flags` (`O_*`) and `mode`. Completes with the new
    /// descriptor; with [`Sqe::with_target_slot`], with 0.
    #[must_use]
    pub const fn openat(dirfd: i32, path: u64, open_flags: u32, mode: u32) -> Self {
        Self {
            opcode: IORING_OP_OPENAT,
            fd: dirfd,
            addr: path,
            len: mode,
            op_flags: open_flags,
            ..Self::ZERO
        }
    }
    /// `openat2(2)` of the NUL-terminated string at `path`, as the [`OpenHow`](crate::abi::OpenHow) at `how` says.
    #[must_use]
    pub const fn openat2(dirfd: i32, path: u64, how: u64) -> Self {
        let len = size_of::<OpenHow>() as u32;
        Self { opcode: IORING_OP_OPENAT2, fd: dirfd, addr: path, len, off: how, ..Self::ZERO }
    }
    /// Whether a descriptor can be polled, as nothing else tells at once: asks `epoll_ctl(2)` to take it out of itself, which changes nothing.
    /// `EPERM` of one that cannot be polled, such as a regular file's, a directory's, or a block device's; `EINVAL` of one that can.
    #[must_use]
    pub const fn pollable(fd: i32) -> Self {
        let off = fd.cast_unsigned() as u64;
        Self { opcode: IORING_OP_EPOLL_CTL, fd, off, len: EPOLL_CTL_DEL, ..Self::ZERO }
    }
    /// `close(2)` of a descriptor. A registered file is closed with [`Sqe::close_slot`] instead.
    #[must_use]
    pub const fn close(fd: i32) -> Self {
        Self { opcode: IORING_OP_CLOSE, fd, ..Self::ZERO }
    }
    /// Empties a slot of the registered files (`io_uring_prep_close_direct(3)`).
    #[must_use]
    pub const fn close_slot(slot: u32) -> Self {
        Self { opcode: IORING_OP_CLOSE, ..Self::ZERO }.with_target_slot(slot)
    }
    /// `statx(2)` of the NUL-terminated string at `path`, filling the [`Statx`](crate::abi::Statx) at `statx`. Not for
    /// registered files: of a descriptor, pass an empty path and `AT_EMPTY_PATH`.
    #[must_use]
    pub const fn statx(dirfd: i32, path: u64, statx_flags: u32, mask: u32, statx: u64) -> Self {
        Self {
            opcode: IORING_OP_STATX,
            fd: dirfd,
            addr: path,
            len: mask,
            off: statx,
            op_flags: statx_flags,
            ..Self::ZERO
        }
    }
    /// `unlinkat(2)` of the NUL-terminated string at `path`. Since Linux 5.11.
    #[must_use]
    pub const fn unlinkat(dirfd: i32, path: u64, unlink_flags: u32) -> Self {
        Self { opcode: IORING_OP_UNLINKAT, fd: dirfd, addr: path, op_flags: unlink_flags, ..Self::ZERO }
    }
    /// `renameat2(2)` from the string at `old_path` to the one at `new_path`. Since Linux 5.11.
    #[must_use]
    pub const fn renameat(
        old_dirfd: i32,
        old_path: u64,
        new_dirfd: i32,
        new_path: u64,
        rename_flags: u32,
    ) -> Self {
        Self {
            opcode: IORING_OP_RENAMEAT,
            fd: old_dirfd,
            addr: old_path,
            len: new_dirfd.cast_unsigned(),
            off: new_path,
            op_flags: rename_flags,
            ..Self::ZERO
        }
    }
    /// `mkdirat(2)` of the NUL-terminated string at `path`. Since Linux 5.15.
    #[must_use]
    pub const fn mkdirat(dirfd: i32, path: u64, mode: u32) -> Self {
        Self { opcode: IORING_OP_MKDIRAT, fd: dirfd, addr: path, len: mode, ..Self::ZERO }
    }
    /// `symlinkat(2)`: a link at the string at `link_path` whose content is the string at `target`. Since Linux 5.15.
    #[must_use]
    pub const fn symlinkat(target: u64, new_dirfd: i32, link_path: u64) -> Self {
        Self { opcode: IORING_OP_SYMLINKAT, fd: new_dirfd, addr: target, off: link_path, ..Self::ZERO }
    }
    /// `linkat(2)` of the file at the string at `old_path`, by the name at `new_path`. Since Linux 5.15.
    #[must_use]
    pub const fn linkat(
        old_dirfd: i32,
        old_path: u64,
        new_dirfd: i32,
        new_path: u64,
        link_flags: u32,
    ) -> Self {
        Self {
            opcode: IORING_OP_LINKAT,
            fd: old_dirfd,
            addr: old_path,
            len: new_dirfd.cast_unsigned(),
            off: new_path,
            op_flags: link_flags,
            ..Self::ZERO
        }
    }
    /// `posix_fadvise(2)` about `length` bytes at `off`. Lengths beyond 32 bits need Linux 6.10: before, `EINVAL`.
    #[must_use]
    pub const fn fadvise(fd: i32, off: u64, length: u64, advice: u32) -> Self {
        let entry = Self { opcode: IORING_OP_FADVISE, fd, off, op_flags: advice, ..Self::ZERO };
        // Older kernels look at `len` alone and refuse an `addr`; later ones take `len` where `addr` is 0.
        #[expect(clippy::cast_possible_truncation, reason = "only where it fits")]
        if length <= u32::MAX as u64 {
            Self { len: length as u32, ..entry }
        } else {
            Self { addr: length, ..entry }
        }
    }
    /// `sync_file_range(2)` of `length` bytes at `off`, to the end of the file where that is 0.
    #[must_use]
    pub const fn sync_file_range(fd: i32, off: u64, length: u32, range_flags: u32) -> Self {
        Self { opcode: IORING_OP_SYNC_FILE_RANGE, fd, off, len: length, op_flags: range_flags, ..Self::ZERO }
    }
    /// Puts `count` descriptors (`i32` each, at `descriptors`) into the registered files from slot `first` on
    /// (`io_uring_prep_files_update(3)`); -1 empties a slot. Completes with how many slots were changed.
    #[must_use]
    pub const fn files_update(descriptors: u64, count: u32, first: u32) -> Self {
        Self {
            opcode: IORING_OP_FILES_UPDATE,
            fd: -1,
            addr: descriptors,
            len: count,
            off: first as u64,
            ..Self::ZERO
        }
    }
    /// Waits until `fd` is ready for one of `events` ([`POLLIN`](crate::abi::POLLIN) …), once (`io_uring_prep_poll_add(3)`). Completes with
    /// what it is ready for, `POLLERR` and `POLLHUP` included.
    #[must_use]
    pub const fn poll_add(fd: i32, events: u32) -> Self {
        Self { opcode: IORING_OP_POLL_ADD, fd, op_flags: events, ..Self::ZERO }
    }
    /// Cancels the operation with this `user_data` (`io_uring_prep_cancel64(3)`). Completes with 0, with `ENOENT` where
    /// there is none, or with `EALREADY` where it is too far along. The cancelled operation still gets its own CQE.
    #[must_use]
    pub const fn async_cancel(user_data: u64) -> Self {
        Self { opcode: IORING_OP_ASYNC_CANCEL, fd: -1, addr: user_data, ..Self::ZERO }
    }

    /// The same entry, to be named `user_data` in its CQE.
    #[must_use]
    pub const fn with_user_data(self, user_data: u64) -> Self {
        Self { user_data, ..self }
    }
    /// The same entry with `fd` as an index of the registered files.
    #[must_use]
    pub const fn with_fixed_file(self) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the flag is bit 0")]
        Self { flags: self.flags | IOSQE_FIXED_FILE as u8, ..self }
    }
    /// The same entry, run by a worker from the start rather than tried without blocking first.
    #[must_use]
    pub const fn with_worker(self) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the flag is bit 4")]
        Self { flags: self.flags | IOSQE_ASYNC as u8, ..self }
    }
    /// The same entry, behind which the next one of its batch begins, when it has ended well, or with `always` whenever it has ended
    /// ([R-CHAIN-2]).
    #[must_use]
    pub const fn with_next(self, always: bool) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the flags are bits 2 and 3")]
        let link = (if always { IOSQE_IO_HARDLINK } else { IOSQE_IO_LINK }) as u8;
        Self { flags: self.flags | link, ..self }
    }
    /// The same open or close, for a slot of the registered files rather than for a descriptor
    /// (`io_uring_prep_openat_direct(3)`). `slot` is below `u32::MAX - 1`.
    #[must_use]
    pub const fn with_target_slot(self, slot: u32) -> Self {
        Self { file_index: slot + 1, ..self }
    }
    /// The same transfer with `RWF_*` flags (`preadv2(2)`).
    #[must_use]
    pub const fn with_transfer_flags(self, rw_flags: u32) -> Self {
        Self { op_flags: rw_flags, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_add_to_an_entry_and_leave_the_rest() {
        let entry = Sqe::write(3, 0x1000, 7, 9).with_fixed_file().with_worker().with_user_data(u64::MAX);
        assert_eq!(
            entry,
            Sqe {
                opcode: IORING_OP_WRITE,
                flags: 0x11,
                fd: 3,
                addr: 0x1000,
                len: 7,
                off: 9,
                user_data: u64::MAX,
                ..Sqe::default()
            }
        );
    }

    #[test]
    fn a_slot_is_named_plus_one() {
        assert_eq!(Sqe::close_slot(0).file_index, 1);
        assert_eq!(Sqe::close_slot(0).fd, 0, "the kernel refuses a direct close with a descriptor");
        assert_eq!(Sqe::openat(crate::abi::AT_FDCWD, 1, 0, 0).with_target_slot(6).file_index, 7);
    }
}
