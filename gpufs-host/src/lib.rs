//! The host half of gpufs: rings a GPU can reach, sessions, and the CPU-lane runtime.
//!
//! | module | what |
//! |---|---|
//! | [`session`] | what a program opens: tables, buffers, launches, the flush at the end |
//! | [`ring`] | rings, who serves them, and the attendant that wakes them (stage 6) |
//! | [`cpu`] | lanes as fibers, for machines without a GPU |
//! | [`gpu`] | what a session needs of a GPU's runtime, and what its errors mean |
//! | `cuda` | NVIDIA GPUs, with the feature of that name |
//! | `hip` | AMD GPUs, with the feature of that name; never run on one |
#![deny(unsafe_code)]

pub mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
pub mod gpu;
#[cfg(feature = "hip")]
mod hip;
mod process;
#[allow(unsafe_code, reason = "system calls and the memory shared with the kernel")]
pub mod ring;
pub mod session;

pub use cpu::{CpuOptions, Grid, Schedule};
pub use session::{Builder, DeviceBuffer, FileError, RegisteredBuffer, Session, Statistics};
