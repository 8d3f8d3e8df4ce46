//! Every lane prints a few lines to the standard output and to a file that all of them share.

use gpufs_core::word::DeviceWord;
use gpufs_device::kernel::Shared;
use gpufs_device::warp::global_thread;
use gpufs_device::{Errno, File, Fs, fprintf, kernel, portable, printf};

use super::{Handoff, Path};

portable! {
    /// What the host places for both kernels.
    pub struct Job {
        /// The file to write.
        pub path: Path,
        /// Lines that each lane prints to each of the two.
        pub lines: u32,
        /// The errno of a call that failed; 0 if none did.
        pub failed: DeviceWord,
        /// The stream, from [`open_greetings`](open_greetings()) for [`say_hello`](say_hello()).
        pub stream: Handoff<File>,
    }
}

kernel! {
    /// Opens the file. A grid of one thread.
    pub fn open_greetings(fs: Fs, job: Shared<Job>) {
        let job = job.get(fs);
        match fs.fopen(job.path.as_c_str(), c"w") {
            Ok(file) => job.stream.put(file),
            Err(errno) => job.failed.set(errno.number().cast_unsigned()),
        }
    }
}

kernel! {
    /// Prints. Any grid.
    pub fn say_hello(fs: Fs, job: Shared<Job>) {
        let job = job.get(fs);
        let Some(file) = job.stream.get() else { return };
        if let Err(errno) = say(fs, file, job.lines) {
            job.failed.set(errno.number().cast_unsigned());
        }
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
