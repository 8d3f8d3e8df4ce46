//! Entries of pipes and of counters that are descriptors. All are served by host threads: io_uring has no operation for what makes them.

use super::{SERVICE_EVENTFD, SERVICE_PIPE, Sqe};

impl Sqe {
    /// `pipe2(2)`. Completes with the end that is read, a descriptor of the process, which closes on `execve(2)`; [`Sqe::other_end`] has the one that
    /// is written.
    #[must_use]
    pub const fn pipe() -> Self {
        Self::service(SERVICE_PIPE)
    }
    /// `eventfd2(2)` with a count of `initial`: each read takes one where it is a `semaphore`, else all. Completes with a descriptor of the process,
    /// which closes on `execve(2)` and does not wait.
    #[must_use]
    pub const fn eventfd(initial: u32, semaphore: bool) -> Self {
        Self { len: initial, op_flags: semaphore as u32, ..Self::service(SERVICE_EVENTFD) }
    }
}
