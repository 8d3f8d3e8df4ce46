//! The device's half of the programs: kernels that get an [`Fs`](gpufs_device::Fs) and a job that the host placed in the device's
//! memory. No `std`, no allocation.
//!
//! | memory | for |
//! |---|---|
//! | the placed job | what lanes draw from and note, and what they read again and again: counters, the handed-over stream, a path, a needle |
//! | registered buffers | what the kernel reads and writes in place, and what the host hands over in bulk |

mod array;
pub mod copy;
pub mod experts;
pub mod follow;
pub mod graph;
pub mod greet;
pub mod grep;
mod parts;
pub mod serve;
mod span;

pub use array::{Array, Cells, Words, Words64};
pub use parts::{Part, Parts};

/// A number that looks as if it were drawn, another one for each (the finalizer of splitmix64).
#[must_use]
pub const fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
