//! The device's half of the examples: functions that get an [`Fs`](gpufs_device::Fs) and a job that the host made. No `std`, no
//! allocation.

pub mod copy;
pub mod follow;
pub mod grep;
mod handoff;
pub mod hello;
mod parts;

pub use handoff::Handoff;
pub use parts::{Part, Parts};
