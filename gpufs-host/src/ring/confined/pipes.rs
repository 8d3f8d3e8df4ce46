//! Pipes and counters of a sandbox: they reach nothing but what entries made, so each may make them. `splice` and `tee` pass bytes between files that
//! entries may read and write.

use std::os::fd::{IntoRawFd as _, RawFd};

use gpufs_core::Errno;
use gpufs_core::abi::Sqe;

use super::super::paths::held;
use super::super::services::pipes;
use super::super::workers::lock;
use super::{Confined, Kind, Opened};

impl Confined {
    pub(super) fn pipe(&self) -> Result<i32, Errno> {
        Ok(self.enter_two(pipes::pipe()?.map(|end| end.into_raw_fd()), Kind::Other))
    }
    pub(super) fn eventfd(&self, sqe: &Sqe) -> Result<i32, Errno> {
        Ok(self.enter(pipes::eventfd(sqe)?, Opened::of(Kind::Other)))
    }

    /// `splice(2)` or `tee(2)` between two files that entries have open, which never waits.
    pub(super) fn splice(&self, sqe: &Sqe) -> Result<i32, Errno> {
        let ((_, from), (_, to)) = (self.held(sqe.file_index.cast_signed())?, self.held(sqe.fd)?);
        pipes::pass(from.fd, to.fd, sqe)
    }

    /// Enters the first of two that an entry made, and keeps the second until it is asked for: the first.
    pub(super) fn enter_two(&self, [first, second]: [RawFd; 2], kind: Kind) -> i32 {
        if let Some((left, _)) = lock(&self.other_ends).insert(first, (second, kind)) {
            // Of two whose first was closed before the second was asked for.
            drop(held(left));
        }
        self.enter(first, Opened::of(kind))
    }
    /// The second of two.
    pub(super) fn other_end(&self, first: RawFd) -> Result<i32, Errno> {
        let (second, kind) = lock(&self.other_ends).remove(&first).ok_or(Errno::BADF)?;
        Ok(self.enter(second, Opened::of(kind)))
    }
}
