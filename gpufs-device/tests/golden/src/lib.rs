//! Device code to look at. `cargo xtask device-code` builds it for each GPU target and compares what the compiler emitted.
//!
//! | module | what |
//! |---|---|
//! | `golden` | one function for each operation whose instruction is the point; expected instructions in `../expect` |
//! | `kernels` | whole kernels, for registers, stack, unresolved symbols, and as a model for building a kernel crate |
#![cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
#![no_std]
#![feature(abi_gpu_kernel)]
#![allow(unsafe_code, reason = "symbols that a driver looks up by name")]
#![allow(improper_gpu_kernel_arg, reason = "thin pointers, which are numbers to a launch")]

mod golden;
mod kernels;
