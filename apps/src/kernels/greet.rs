//! Every lane prints a few lines to the standard output and to a file that all of them share.

use gpufs_device::kernel::{Handoff, Shared};
use gpufs_device::warp::global_thread;
use gpufs_device::{Errno, File, Fs, fprintf, kernel, printf};

kernel! {
    /// Prints `lines` lines to each of the two, and leaves the first error. Any grid.
    pub fn say_hello(fs: Fs, file: File, lines: u32, failed: Shared<Handoff<Errno>>) {
        if let Err(errno) = say(fs, file, lines) {
            failed.with(fs, |failed| failed.put(errno));
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
