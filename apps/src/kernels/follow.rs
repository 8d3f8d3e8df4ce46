//! A kernel that runs for a while and logs what it does, for a reader who follows the log meanwhile.

use gpufs_core::word::DeviceWord;
use gpufs_device::kernel::{Handoff, Path, Shared};
use gpufs_device::stdio::Buffering;
use gpufs_device::warp::{clock, global_thread, nap};
use gpufs_device::{Errno, File, Fs, fprintf, kernel, portable};

portable! {
    /// What the host places for both kernels.
    pub struct Job {
        /// The log. It is appended to: the reader never sees a gap.
        pub path: Path,
        /// Nanoseconds of work before each line.
        pub pause_ns: u64,
        /// Lines that each lane logs.
        pub lines: u32,
        /// After how many of its lines a lane flushes; 0: the stream does, after each line.
        pub flush_every: u32,
        /// The errno of a call that failed; 0 if none did.
        pub failed: DeviceWord,
        /// The stream, from [`open_log`](open_log()) for [`keep_log`](keep_log()).
        pub log: Handoff<File>,
    }
}

kernel! {
    /// Opens the log. A grid of one thread.
    pub fn open_log(fs: Fs, job: Shared<Job>) {
        let job = job.get(fs);
        match open(fs, job) {
            Ok(log) => job.log.put(log),
            Err(errno) => job.failed.set(errno.number().cast_unsigned()),
        }
    }
}

kernel! {
    /// Works and logs. Any grid.
    pub fn keep_log(fs: Fs, job: Shared<Job>) {
        let job = job.get(fs);
        let Some(log) = job.log.get() else { return };
        if let Err(errno) = work(log, job) {
            job.failed.set(errno.number().cast_unsigned());
        }
    }
}

fn open(fs: Fs, job: &Job) -> Result<File, Errno> {
    let log = fs.fopen(job.path.as_c_str(), c"a")?;
    if job.flush_every == 0 {
        log.setvbuf(Buffering::Line, 0)?;
    }
    Ok(log)
}

fn work(log: File, job: &Job) -> Result<(), Errno> {
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
