//! A kernel that runs for a while and logs what it does, for a reader who follows the log meanwhile.

use core::ffi::CStr;

use gpufs_core::word::DeviceWord;
use gpufs_device::stdio::Buffering;
use gpufs_device::warp::{clock, global_thread, nap};
use gpufs_device::{Errno, File, Fs, fprintf};

use super::Handoff;

/// What the host hands to both kernels.
#[derive(Debug)]
pub struct Job<'a> {
    /// The log. It is appended to: the reader never sees a gap.
    pub path: &'a CStr,
    /// Lines that each lane logs.
    pub lines: u32,
    /// Nanoseconds of work before each line.
    pub pause_ns: u64,
    /// After how many of its lines a lane flushes; 0: the stream does, after each line.
    pub flush_every: u32,
    /// The stream, from [`open`] for [`follow`].
    pub log: Handoff<Result<File, Errno>>,
    /// The errno of a call that failed; 0 if none did.
    pub failed: DeviceWord,
}

/// Opens the log. A grid of one thread.
pub fn open(fs: Fs, job: &Job<'_>) {
    let log = fs.fopen(job.path, c"a").and_then(|log| {
        if job.flush_every == 0 {
            log.setvbuf(Buffering::Line, 0)?;
        }
        Ok(log)
    });
    job.log.put(log);
}

/// Works and logs. Any grid.
pub fn follow(_: Fs, job: &Job<'_>) {
    let Some(Ok(log)) = job.log.get() else { return };
    if let Err(errno) = work(log, job) {
        job.failed.set(errno.number().cast_unsigned());
    }
}

fn work(log: File, job: &Job<'_>) -> Result<(), Errno> {
    let lane = global_thread();
    for line in 0..job.lines {
        let started = clock();
        // What a real kernel would compute. Ends with the time.
        while clock() - started < job.pause_ns {
            nap(1_000);
        }
        fprintf!(log, c"lane %lu line %u says hello\n", lane, line)?;
        if job.flush_every != 0 && (line + 1) % job.flush_every == 0 {
            log.fflush()?;
        }
    }
    Ok(())
}
