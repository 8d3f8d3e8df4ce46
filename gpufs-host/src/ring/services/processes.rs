//! Processes of `popen`: what starts them, and how they ended.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use gpufs_core::Errno;

use super::super::workers::lock;

/// The processes that have not been waited for.
#[derive(Debug, Default)]
pub(super) struct Processes {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// By the descriptor of the session's end of the pipe.
    piped: HashMap<RawFd, Child>,
    /// By their numbers: their descriptors are closed, or will be at any time.
    detached: HashMap<u32, Child>,
}

impl Processes {
    /// Starts the shell; the descriptor of the pipe's end. It closes on `execve(2)`, so no other process holds a pipe open.
    pub(super) fn start(&self, command: &CStr, writes: bool) -> Result<i32, Errno> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(OsStr::from_bytes(command.to_bytes()));
        if writes {
            shell.stdin(Stdio::piped())
        } else {
            shell.stdout(Stdio::piped())
        };
        // The table is locked from before the descriptor exists, so that it is the descriptor's last entry.
        let mut table = lock(&self.table);
        let mut child = shell.spawn().map_err(|error| errno(&error))?;
        let end = match (child.stdin.take(), child.stdout.take()) {
            (Some(input), _) => OwnedFd::from(input),
            (_, Some(output)) => OwnedFd::from(output),
            (None, None) => return Err(Errno::IO),
        };
        let end = end.into_raw_fd();
        table.piped.insert(end, child);
        Ok(end)
    }

    /// The process behind a descriptor, which is about to be closed.
    pub(super) fn detach(&self, end: RawFd) -> Result<i32, Errno> {
        let mut table = lock(&self.table);
        let child = table.piped.remove(&end).ok_or(Errno::CHILD)?;
        let number = child.id();
        table.detached.insert(number, child);
        i32::try_from(number).map_err(|_| Errno::OVERFLOW)
    }

    /// How a process ended, if it has.
    pub(super) fn status(&self, number: u32) -> Result<i32, Errno> {
        let mut table = lock(&self.table);
        let child = table.detached.get_mut(&number).ok_or(Errno::CHILD)?;
        let status = child.try_wait().map_err(|error| errno(&error))?.ok_or(Errno::AGAIN)?;
        table.detached.remove(&number);
        Ok(status.into_raw())
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().filter(|number| (1..=4095).contains(number)).map_or(Errno::IO, Errno::from_number)
}
