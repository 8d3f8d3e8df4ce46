//! Pipes, and counters that are descriptors; `splice` and `tee`.

use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use gpufs_core::Errno;
use gpufs_core::abi::{CURRENT_POSITION, IORING_OP_TEE, SPLICE_F_ALL, SPLICE_F_NONBLOCK, Sqe};

use super::super::operation::{File, Step};
use super::super::sys::{self, signed};

/// The major number of `/dev/null`, `/dev/zero` and their kin.
const MEMORY_DEVICES: u32 = 1;

/// `pipe2(2)`: the end that is read, and the one that is written.
pub(in super::super) fn pipe() -> Result<[OwnedFd; 2], Errno> {
    let mut ends: [RawFd; 2] = [-1; 2];
    let into = (&raw mut ends).expose_provenance() as u64;
    // SAFETY:
    // - the kernel writes two descriptors, which are alive
    unsafe { sys::call(libc::SYS_pipe2, [into, signed(libc::O_CLOEXEC), 0, 0, 0, 0]) }?;
    Ok(ends.map(|end| {
        // SAFETY:
        // - the kernel has just made this descriptor, and nothing else owns it
        unsafe { OwnedFd::from_raw_fd(end) }
    }))
}

/// `eventfd2(2)`. io_uring tries writes to one without waiting only where its descriptor does not wait.
pub(in super::super) fn eventfd(sqe: &Sqe) -> Result<i32, Errno> {
    let kind = if sqe.op_flags == 0 { 0 } else { libc::EFD_SEMAPHORE };
    let flags = signed(kind | libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
    // SAFETY:
    // - the call takes numbers
    unsafe { sys::call(libc::SYS_eventfd2, [sqe.len.into(), flags, 0, 0, 0, 0]) }
}

/// What host threads do for a splice or a tee whose second file is `to`. As io_uring does, waits where the entry does not say otherwise.
pub(in super::super) fn operate(sqe: &Sqe, to: Result<File, Errno>) -> Step {
    let to = match to {
        Ok(to) => to,
        Err(errno) => return Step::Done(-errno.number()),
    };
    let from = sqe.file_index.cast_signed();
    match pass(from, to.raw(), sqe) {
        Err(Errno::AGAIN) if sqe.op_flags & SPLICE_F_NONBLOCK == 0 => {
            if sys::poll_now(from, libc::POLLIN) == 0 {
                Step::Waits(File::Plain(from), libc::POLLIN)
            } else {
                Step::Waits(to, libc::POLLOUT)
            }
        }
        done => Step::Done(done.unwrap_or_else(|errno| -errno.number())),
    }
}

/// `splice(2)` or `tee(2)` that does not wait: `EAGAIN` where it would. `EINVAL` for files with which it could all the same.
pub(in super::super) fn pass(from: RawFd, to: RawFd, sqe: &Sqe) -> Result<i32, Errno> {
    if sqe.op_flags & !SPLICE_F_ALL != 0 || !never_waits(from)? || !never_waits(to)? {
        return Err(Errno::INVAL);
    }
    let flags = u64::from(sqe.op_flags | SPLICE_F_NONBLOCK);
    if sqe.opcode == IORING_OP_TEE {
        // SAFETY:
        // - the call takes numbers
        return unsafe { sys::call(libc::SYS_tee, [signed(from), signed(to), sqe.len.into(), flags, 0, 0]) };
    }
    let mut offsets = [sqe.addr, sqe.off];
    let [out_of, into] = offsets.each_mut().map(|offset| match *offset {
        CURRENT_POSITION => 0,
        _ => (&raw mut *offset).expose_provenance() as u64,
    });
    let arguments = [signed(from), out_of, signed(to), into, sqe.len.into(), flags];
    // SAFETY:
    // - the kernel reads and writes the two offsets, which are alive; they are looked at no more
    unsafe { sys::call(libc::SYS_splice, arguments) }
}

/// Whether a splice that says that it does not wait never does, of this file: a pipe, a file, a device of memory. Others look at the flags of their
/// descriptor alone.
fn never_waits(fd: RawFd) -> Result<bool, Errno> {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    let into = status.as_mut_ptr().expose_provenance() as u64;
    // SAFETY:
    // - the kernel writes one `stat`, which is alive; it answers EBADF for a descriptor that is not open
    unsafe { sys::call(libc::SYS_fstat, [signed(fd), into, 0, 0, 0, 0]) }?;
    // SAFETY:
    // - filled by the kernel, and all-zero is valid besides
    let status = unsafe { status.assume_init() };
    Ok(match status.st_mode & libc::S_IFMT {
        libc::S_IFIFO | libc::S_IFREG | libc::S_IFBLK | libc::S_IFDIR => true,
        libc::S_IFCHR => libc::major(status.st_rdev) == MEMORY_DEVICES,
        _ => false,
    })
}
