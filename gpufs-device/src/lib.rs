//! File I/O and stdio for code that runs on a GPU. The same source runs on CPU lanes.
//!
//! | module | stage | what |
//! |---|---|---|
//! | [`stdio`], [`file`](mod@file) | 1, 9 | the calls: `fopen`, `fwrite`, `fprintf`, `open`, `pread` … |
//! | [`format`](mod@format) | 1 | `printf`'s conversions |
//! | [`warp`] | 2 | the lanes of a call and what they do together |
//! | `stdio::output`, `stdio::input` | 3 | streams above the blocks of `gpufs_core::stream` |
//! | `io` | 4 to 8 | batches of operations: submit, wait, drain |
//!
//! Every call may be made by any lanes of any warp at once. Errors are the kernel's errno.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(
    any(target_arch = "nvptx64", target_arch = "amdgpu"),
    feature(abi_unadjusted, core_intrinsics, link_llvm_intrinsics)
)]
#![cfg_attr(
    any(target_arch = "nvptx64", target_arch = "amdgpu"),
    allow(internal_features, reason = "compiler intrinsics")
)]
#![cfg_attr(target_arch = "amdgpu", feature(gpu_intrinsics))]
#![deny(unsafe_code)]

pub mod file;
pub mod format;
pub mod fs;
mod io;
pub mod kernel;
#[cfg(all(any(target_arch = "nvptx64", target_arch = "amdgpu"), feature = "runtime"))]
mod runtime;
pub mod stdio;
pub mod warp;

pub use fs::Fs;
pub use gpufs_core::{Call, Errno};
pub use stdio::File;
