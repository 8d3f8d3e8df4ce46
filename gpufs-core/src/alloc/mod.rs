//! Claiming and releasing: sets of free items, and pools of buffers, which are such sets with memory.
//!
//! A claim waits for nothing. What to do where nothing is free is the caller's business.

mod free_set;
mod pool;

pub use free_set::{Claim, FreePlace, FreeSet};
pub use pool::{BufferPool, BufferPoolParts, Staged};
