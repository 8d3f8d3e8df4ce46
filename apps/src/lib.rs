//! What the programs share: their kernels, which need no `std` and run on CPU lanes and on a GPU as they are, and the host's side of them.
//! Shorter programs, each in one file, are in `examples/`.
//!
//! | program | kernel | what it shows |
//! |---|---|---|
//! | `greet` | [`kernels::greet`] | thousands of lanes print to one stream |
//! | `grep` | [`kernels::grep`] | many files opened and read by the device, output in order |
//! | `copy` | [`kernels::copy`] | registered buffers: large transfers without a copy |
//! | `serve` | [`kernels::serve`] | a kernel that stays: sockets, a table in the device's memory |
//! | `graph` | [`kernels::graph`] | a file as an array: breadth-first search and PageRank through a cache of pages |
//! | `experts` | [`kernels::experts`] | the device decides what it needs next of a file: a mixture of experts |
//! | `follow` | [`kernels::follow`] | a log that is read while the kernel that writes it runs |
//!
//! Without the feature `host` this library is the kernels alone, and with `runtime` it is the device program, `apps.ptx`:
//! `cargo xtask bundle` builds it, and the programs, given `--device cuda`, run it.
#![cfg_attr(not(feature = "host"), no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]
#![cfg_attr(target_arch = "amdgpu", feature(abi_gpu_kernel))]
#![deny(unsafe_code)]

#[cfg(feature = "host")]
pub mod cli;
#[cfg(feature = "host")]
pub mod experts;
#[cfg(feature = "host")]
pub mod graph;
#[cfg(feature = "host")]
pub mod memory;
#[cfg(feature = "host")]
pub mod records;

pub mod kernels;
