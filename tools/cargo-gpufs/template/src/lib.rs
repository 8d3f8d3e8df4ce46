//! The kernels. They are built twice: with the program, for CPU lanes, and for a GPU, where there is no `std`.
#![cfg_attr(any(target_arch = "nvptx64", target_arch = "amdgpu"), no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]
#![cfg_attr(target_arch = "amdgpu", feature(abi_gpu_kernel))]

use gpufs_device::kernel::{Handoff, Shared};
use gpufs_device::{Errno, File, fprintf, kernel, warp::global_thread};

kernel! {
    /// Every thread prints a line into one file, and leaves an error for the host.
    pub fn greet(fs: Fs, log: File, failed: Shared<Handoff<Errno>>) {
        if let Err(errno) = fprintf!(log, c"hello from thread %lu\n", global_thread()) {
            failed.with(fs, |failed| failed.put(errno));
        }
    }
}
