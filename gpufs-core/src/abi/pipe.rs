//! Entries of pipes and of counters that are descriptors. All are served by host threads: io_uring has no operation for what makes them, and hands
//! each `splice` and `tee` to a worker thread of its own ([R-SERVE-6]).

use super::{IORING_OP_SPLICE, IORING_OP_TEE, SERVICE_EVENTFD, SERVICE_PIPE, Sqe};

/// Of a splice or a tee: pages are moved rather than copied, where that can be. Linux takes it as a hint that means nothing.
pub const SPLICE_F_MOVE: u32 = 1;
/// Of a splice or a tee: fails with `EAGAIN` rather than wait for a pipe.
pub const SPLICE_F_NONBLOCK: u32 = 2;
/// Of a splice or a tee: more comes soon.
pub const SPLICE_F_MORE: u32 = 4;
/// All flags that there are, with that of `vmsplice(2)`.
pub const SPLICE_F_ALL: u32 = SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | 8;

/// Whether an operation of io_uring is one on pipes that the kernel hands to a worker thread.
#[must_use]
pub const fn is_of_pipes(opcode: u8) -> bool {
    matches!(opcode, IORING_OP_SPLICE | IORING_OP_TEE)
}

impl Sqe {
    /// `pipe2(2)`. Completes with the end that is read, a descriptor of the process, which closes on `execve(2)`; [`Sqe::other_end`] has the one that
    /// is written.
    #[must_use]
    pub const fn pipe() -> Self {
        Self::service(SERVICE_PIPE)
    }
    /// `splice(2)` of `bytes` bytes from `from` to `to`, each a descriptor and an offset, [`CURRENT_POSITION`](crate::abi::CURRENT_POSITION) for a
    /// pipe and for the file's own position. Completes with how many bytes moved.
    #[must_use]
    pub const fn splice(from: (i32, u64), to: (i32, u64), bytes: u32, splice_flags: u32) -> Self {
        Self {
            opcode: IORING_OP_SPLICE,
            fd: to.0,
            off: to.1,
            addr: from.1,
            len: bytes,
            op_flags: splice_flags,
            file_index: from.0.cast_unsigned(),
            ..Self::ZERO
        }
    }
    /// `tee(2)` of `bytes` bytes from the pipe `from` to the pipe `to`. Completes with how many bytes were copied.
    #[must_use]
    pub const fn tee(from: i32, to: i32, bytes: u32, splice_flags: u32) -> Self {
        Self { opcode: IORING_OP_TEE, ..Self::splice((from, 0), (to, 0), bytes, splice_flags) }
    }
    /// `eventfd2(2)` with a count of `initial`: each read takes one where it is a `semaphore`, else all. Completes with a descriptor of the process,
    /// which closes on `execve(2)` and does not wait.
    #[must_use]
    pub const fn eventfd(initial: u32, semaphore: bool) -> Self {
        Self { len: initial, op_flags: semaphore as u32, ..Self::service(SERVICE_EVENTFD) }
    }
}
