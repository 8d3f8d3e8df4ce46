//! The device calls as C functions, `gpufs_raw_…`: `include/gpufs/raw.h` declares them, and the other headers wrap them. One source is built
//! to PTX for nvcc, to AMDGCN bitcode for clang, and into `libgpufs` for C on CPU lanes. Nothing of the protocol is here.
//!
//! Only numbers and pointers cross this boundary: compilers for GPUs differ in how they pass structures. A result is one 64-bit number: a
//! value, or a negated errno in −4095 … −1. (The headers turn it into C's −1, `EOF`, null or short count, and `errno`.) Two calls have both a
//! count and an error: see [`stdio::gpufs_raw_fread`].
//!
//! Any lanes of any warp may call each function at once, as the Rust call that it makes. Null and closed streams, null sessions, null memory,
//! and paths without end are errors here. Any other wrong address is undefined, as in C. The table at the head of `include/gpufs/gpufs.h` lists
//! all of them.
//!
//! # Safety
//! Each function adds C's rules to its own: memory that a call reads does not change during the call, and memory that it fills is not used
//! otherwise during the call.
#![no_std]
#![cfg_attr(
    any(target_arch = "nvptx64", target_arch = "amdgpu"),
    allow(internal_features, reason = "as in gpufs-device")
)]
#![expect(unsafe_code, reason = "functions with C's contracts")]

pub mod aio;
pub mod aio_chain;
pub mod aio_list;
pub mod aio_socket;
mod arguments;
pub mod descriptors;
pub mod directory;
pub mod file;
pub mod memory;
pub mod message;
pub mod paths;
pub mod pipe;
pub mod print;
pub mod recorder;
pub mod scan;
pub mod service;
pub mod socket;
pub mod stat;
pub mod stdio;
pub mod thread;
pub mod trace;
pub mod used;
pub mod view;

pub use arguments::{MODE_BYTES, PATH_BYTES};
