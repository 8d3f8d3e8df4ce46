//! The ring protocol of gpufs and everything that its device and host halves agree on.
#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]

pub mod abi;
pub mod errno;
pub mod lanes;
mod sqe;
pub mod word;

pub use errno::Errno;
