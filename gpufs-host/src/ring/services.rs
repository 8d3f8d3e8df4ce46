//! What io_uring has no operation for, done with ordinary system calls: the operations of the service ring, which every ring of the mode `threads`
//! has too. Results are those of the system calls.
//!
//! None of them waits for another party ([R-SERVE-3]): what would have to wait says `EAGAIN`.

use gpufs_core::Errno;
use gpufs_core::abi::{SERVICE_READLINK, Sqe};

use super::sys::{self, signed};

/// Does the service that `sqe` asks for.
///
/// # Safety
/// As for [`perform`](super::operation::perform).
pub(super) unsafe fn perform(sqe: &Sqe) -> Result<i32, Errno> {
    let (fd, addr, off, len) = (signed(sqe.fd), sqe.addr, sqe.off, u64::from(sqe.len));
    let (number, arguments) = match sqe.opcode {
        SERVICE_READLINK => (libc::SYS_readlinkat, [fd, addr, off, len, 0, 0]),
        _ => return Err(Errno::INVAL),
    };
    // SAFETY:
    // - the kernel checks the addresses it is given, and their producer vouches for what they hold, by this function's contract
    unsafe { sys::call(number, arguments) }
}
