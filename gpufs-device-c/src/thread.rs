//! The position of a thread in its launch, for CPU lanes, which have no `threadIdx`; and `nap`.

use gpufs_device::warp;

/// The calling thread's index in the whole grid.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn gpufs_raw_thread() -> u64 {
    warp::global_thread()
}

/// The number of threads in the whole grid.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn gpufs_raw_threads() -> u64 {
    warp::grid_threads()
}

/// The calling thread's index in its block.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn gpufs_raw_thread_in_block() -> u32 {
    warp::position().thread
}

/// The index of the calling thread's block.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn gpufs_raw_block() -> u32 {
    warp::position().block
}

/// Lets other threads run, for at most about this many nanoseconds. A loop that waits for another thread calls it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn gpufs_raw_nap(nanoseconds: u32) {
    warp::nap(nanoseconds);
}
