//! What others define and gpufs must match: io_uring's structures and constants (`io_uring(7)`, `linux/io_uring.h`), those of `stat(2)` and
//! `statx(2)`, and the kernel's error numbers.
//!
//! Names and order are the kernel header's; unions are given by the member that gpufs uses. Every size and offset is compared with the
//! system's header by `tests/abi.rs`. What a ring does with these is not here ([`ring`](crate::Queue)).

mod constants;
pub(crate) mod errno;
mod params;
mod pipe;
mod service;
mod socket;
mod sqe;
mod stat;
mod statx;

pub use constants::*;
pub use errno::Errno;
pub use params::{
    Cqe, CqringOffsets, FilesUpdate, OpenHow, PROBE_OPS, Params, Probe, ProbeOp, SqringOffsets,
};
pub use pipe::*;
pub use service::*;
pub use socket::*;
pub use sqe::Sqe;
pub use stat::{Stat, TimeSpec, makedev};
pub use statx::{Statx, StatxTimestamp};
