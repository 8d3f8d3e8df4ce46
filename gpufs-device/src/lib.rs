//! File I/O and stdio for code that runs on a GPU. The same source runs on CPU lanes.
//!
//! A kernel gets an [`Fs`], the session, and calls it as a program calls the C library: [`Fs::fopen`], [`File::fwrite`],
//! [`fprintf!`], [`Fs::pread`]. Any lanes of any warp may make any call at once. Lanes that call together become one request
//! to the kernel's io_uring. A [`File`] is shared by the whole grid, and one call's bytes are never torn or interleaved with
//! another's. An error is the kernel's [`Errno`].
//!
//! ```
//! use gpufs_device::kernel::{Handoff, Shared};
//! use gpufs_device::{Errno, File, Fs, fprintf, kernel, snprintf, warp::global_thread};
//!
//! kernel! {
//!     /// Every thread prints what it read to a stream that the host opened, and leaves an error for the host.
//!     pub fn work(fs: Fs, log: File, failed: Shared<Handoff<Errno>>) {
//!         if let Err(errno) = report(fs, log) {
//!             failed.with(fs, |failed| failed.put(errno));
//!         }
//!     }
//! }
//!
//! fn report(fs: Fs, log: File) -> Result<(), Errno> {
//!     let mut line = [0; 80];
//!     let input = fs.fopen_shared(c"input.txt", c"r")?; // one stream for all threads that open it
//!     let read = input.fread(&mut line)?;
//!     fprintf!(log, c"thread %lu read %lu bytes\n", global_thread(), read)?; // checked by the compiler
//!     input.fclose()
//! }
//!
//! # fn main() -> Result<(), gpufs_device::format::FormatError> {
//! // Formatting alone needs no session.
//! let mut text = [0; 32];
//! let length = snprintf!(&mut text, c"%5.2f|%-4d|", 3.14159, 7)?;
//! assert_eq!(&text[..length], b" 3.14|7   |");
//! # Ok(())
//! # }
//! ```
//!
//! `gpufs_host` opens sessions and starts kernels; its front page has a whole program.
//!
//! | module | what is in it | stages (`ARCHITECTURE.md`) |
//! |---|---|---|
//! | [`stdio`] | streams: `fopen`, `fwrite`, `fprintf`, `fgets` …; how they differ from a CPU's | 1, 2, 3, 9 |
//! | [`file`](mod@file) | descriptors: `open`, `pread`, `pwrite` … | 1, 2, 9 |
//! | [`aio`] | operations that are started now and waited for later | 1, 2, 9 |
//! | [`channel`] | queues between threads of the host and a running kernel | 1, 2, 9 |
//! | [`view`] | files as arrays: pages in device memory | 1, 2, 9 |
//! | [`trace`](mod@trace) | events of kernels in a file that Perfetto opens | 1, 2, 9 |
//! | [`service`](mod@service) | what io_uring has no operation for: `readlink` … | 1, 2, 9 |
//! | [`socket`] | sockets: `socket`, `accept`, `send` …, and `poll` | 1, 2, 9 |
//! | [`pipe`] | pipes and counters: `pipe`, `eventfd`, `splice` … | 1, 2, 9 |
//! | [`format`](mod@format) | the conversions of `printf` | 1 |
//! | `embedded` | with the feature `embedded-io`: streams and descriptors as readers and writers of that crate | 9 |
//! | [`kernel`](mod@kernel) | declaring a kernel, and what host and kernel hand each other | – |
//! | [`warp`] | the lanes of a call and what they do together | 2 |
//! | `io` | a warp's operations on a ring: submit, wait, drain | 4 to 8 |
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

#[cfg(all(any(target_arch = "nvptx64", target_arch = "amdgpu"), not(gpufs_no_jump_threading)))]
compile_error!(
    "gpufs: code for a GPU needs the compiler's flags \"-Z mir-enable-passes=-JumpThreading --cfg gpufs_no_jump_threading\" in RUSTFLAGS, \
     because jump threading parts lanes that call together: build with 'cargo gpufs build' or the crate gpufs-build, which set them"
);

pub mod aio;
pub mod channel;
#[cfg(feature = "embedded-io")]
pub mod embedded;
pub mod file;
pub mod format;
pub mod fs;
mod inside;
mod io;
pub mod kernel;
pub mod pipe;
#[cfg(all(any(target_arch = "nvptx64", target_arch = "amdgpu"), feature = "runtime"))]
mod runtime;
pub mod service;
pub mod socket;
pub mod stdio;
pub mod trace;
pub mod view;
pub mod warp;

pub use fs::Fs;
pub use gpufs_core::{Call, Errno};
pub use stdio::File;
