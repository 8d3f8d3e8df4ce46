//! Where a thread stands in its launch: on CPU lanes there is no `threadIdx`.

use gpufs_device::warp;

/// The calling thread's index in the whole grid.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn gpufs_raw_thread() -> u64 {
    warp::global_thread()
}

/// Threads in the whole grid.
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

/// Lets other threads run, for about so many nanoseconds or less. A loop that waits for another thread calls it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn gpufs_raw_nap(nanoseconds: u32) {
    warp::nap(nanoseconds);
}
