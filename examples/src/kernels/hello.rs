//! Every lane prints a few lines to the standard output and to a file that all of them share.

use core::ffi::CStr;

use gpufs_core::word::DeviceWord;
use gpufs_device::warp::global_thread;
use gpufs_device::{Errno, File, Fs, fprintf, printf};

use super::Handoff;

/// What the host hands to both kernels.
#[derive(Debug)]
pub struct Job<'a> {
    /// The file to write.
    pub path: &'a CStr,
    /// Lines that each lane prints to each of the two.
    pub lines: u32,
    /// The stream, from [`open`] for [`hello`].
    pub stream: Handoff<Result<File, Errno>>,
    /// The errno of a call that failed; 0 if none did.
    pub failed: DeviceWord,
}

/// Opens the file. A grid of one thread.
pub fn open(fs: Fs, job: &Job<'_>) {
    job.stream.put(fs.fopen(job.path, c"w"));
}

/// Prints. Any grid.
pub fn hello(fs: Fs, job: &Job<'_>) {
    let Some(Ok(file)) = job.stream.get() else { return };
    if let Err(errno) = say(fs, file, job.lines) {
        job.failed.set(errno.number().cast_unsigned());
    }
}

fn say(fs: Fs, file: File, lines: u32) -> Result<(), Errno> {
    let lane = global_thread();
    for line in 0..lines {
        printf!(fs, c"lane %lu line %u says hello\n", lane, line)?;
        fprintf!(file, c"lane %lu line %u says hello\n", lane, line)?;
    }
    Ok(())
}
