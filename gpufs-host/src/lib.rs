//! The host half of gpufs.

pub mod ring;
