//! File I/O and stdio for code that runs on a GPU. The same source runs on CPU lanes.
#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]

pub mod format;
pub mod warp;
