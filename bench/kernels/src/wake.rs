//! A kernel that wakes a thread of the host.

use gpufs_core::word::SharedWord;
use gpufs_device::channel::Sender;
use gpufs_device::kernel;
use gpufs_device::warp::{clock, nap};

use crate::Times;

/// How long the kernel looks for a number of the host's.
const PATIENCE_NS: u64 = 10_000_000_000;

kernel! {
    /// For each number from 1 on that the host leaves in `shared`, one lane goes on for `pause_ns`, and then sends how long it did so, in
    /// nanoseconds, to a thread that sleeps by then.
    pub fn wakes(fs: Fs, shared: u64, rounds: u32, pause_ns: u64, to_host: Sender<u64>, times: u64) {
        // SAFETY:
        // - the host made the word, and outlives the kernel
        let call = unsafe { &*(shared as *const SharedWord) };
        for round in 1..=rounds {
            let since = clock();
            // Ends: with the number, or when it is late.
            // ORDERING: acquire, system, partner the host's release.
            while call.observe() != round {
                if clock() - since > PATIENCE_NS {
                    Times(times).put(0, Times::SHORT);
                    return;
                }
                if cfg!(not(target_arch = "nvptx64")) {
                    nap(0);
                }
            }
            let came = clock();
            // Ends: by the clock.
            while clock() - came < pause_ns {
                if cfg!(not(target_arch = "nvptx64")) {
                    nap(0);
                }
            }
            if let Err(errno) = to_host.send(fs, clock() - came) {
                return Times(times).fail(errno);
            }
        }
    }
}
