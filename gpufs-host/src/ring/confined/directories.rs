//! Directories of a sandbox: opened and read ahead, and the working directory.

use gpufs_core::Errno;
use gpufs_core::abi::Sqe;

use super::super::addresses::Memory;
use super::super::paths::places;
use super::super::services::directory::list_first;
use super::super::sys;
use super::{Confined, working_directory};

impl Confined {
    /// Opens a directory, and puts its first entries where the entry says.
    pub(super) fn open_directory(&self, sqe: &Sqe, memory: Memory<'_>) -> Result<i32, Errno> {
        if sqe.len != 0 {
            memory.check(sqe.off, sqe.len.into())?;
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let number = self.open(&Sqe::openat(sqe.fd, sqe.addr, flags.cast_unsigned(), 0), memory)?;
        // SAFETY:
        // - in the session's memory, as checked, which the producer keeps for this entry
        let listed = unsafe { list_first(number, sqe.off, sqe.len) };
        if let Err(errno) = listed {
            let _ = self.close(&Sqe::close(number));
            return Err(errno);
        }
        Ok(number)
    }

    /// The working directory, where it lies in a tree.
    pub(super) fn getcwd(&self, sqe: &Sqe, memory: Memory<'_>) -> Result<i32, Errno> {
        memory.check(sqe.addr, sqe.len.into())?;
        let directory = working_directory().ok_or(Errno::ACCES)?;
        if places(&self.trees, &directory).is_empty() {
            return Err(Errno::ACCES);
        }
        // SAFETY:
        // - the result lies in the session's memory, as checked
        unsafe { sys::call(libc::SYS_getcwd, [sqe.addr, sqe.len.into(), 0, 0, 0, 0]) }
    }
}
