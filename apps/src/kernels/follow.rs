//! A kernel that runs for a while and logs what it does, for a reader that follows the log meanwhile.

use gpufs_device::kernel::{Handoff, Shared};
use gpufs_device::stdio::Buffering;
use gpufs_device::warp::{clock, global_thread, nap};
use gpufs_device::{Errno, File, fprintf, kernel};

kernel! {
    /// Works for `pause_ns` before each of its `lines` lines, logs them, and leaves the first error. A lane flushes after `flush_every` of its
    /// lines; 0: the stream is line buffered. Any grid.
    pub fn keep_log(
        fs: Fs, log: File, pause_ns: u64, lines: u32, flush_every: u32, failed: Shared<Handoff<Errno>>,
    ) {
        if let Err(errno) = work(log, pause_ns, lines, flush_every) {
            failed.with(fs, |failed| failed.put(errno));
        }
    }
}

fn work(log: File, pause_ns: u64, lines: u32, flush_every: u32) -> Result<(), Errno> {
    let lane = global_thread();
    if lane == 0 && flush_every == 0 {
        log.setvbuf(Buffering::Line, 0)?; // for all lanes; it may be called at any time
    }
    for line in 0..lines {
        let started = clock();
        // In place of what a kernel computes. Ends with the time.
        while clock() - started < pause_ns {
            nap(1_000);
        }
        fprintf!(log, c"lane %lu line %u says hello\n", lane, line)?;
        if flush_every != 0 && (line + 1) % flush_every == 0 {
            log.fflush()?;
        }
    }
    Ok(())
}
