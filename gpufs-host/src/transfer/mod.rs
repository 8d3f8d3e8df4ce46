//! Bulk transfers between files and memory, without a kernel: `read_into`, `write_from`, many at once, in the background.
//!
//! Threads of the host read pieces of the files and write them. Memory that the system reaches is used *in place*. Memory of a GPU is reached
//! through pinned chunks, which the GPU's copy engine empties and fills (*staged*): it takes one request after the other, whichever thread's, with
//! some microseconds between two. So a request has the chunks of many threads; where the driver does not take several, chunks are large. Where no
//! memory can be pinned it goes through ordinary chunks (*through the host*). All this has no device code and no ring: a transfer works
//! beside running kernels and without a session.
//!
//! ```text
//!  start ─► pieces in a queue ─► each thread: pread → chunk → copy engine → memory of the GPU       (reads)
//!                                             memory of the GPU → copy engine → chunk → pwrite      (writes)
//!                                             pread, pwrite on memory of the host itself            (in place)
//! ```
//!
//! A thread has several chunks: while the copy engine works on some, it reads or writes another. Threads write to one file one after the other, since
//! its inode lets one in at a time, and so each has files of its own as far as there are several; reads of one file go side by side, and so do
//! writes of a file in memory, through a window.
//!
//! | file | what |
//! |---|---|
//! | `request.rs` | what a program asks for: parts, kinds of memory, choices |
//! | `bus.rs` | what a transfer needs of a GPU's driver |
//! | `job.rs` | a transfer that has begun: its pieces, their results, the threads that wait |
//! | `engine.rs` | the queue and the threads of a process |
//! | `worker.rs` | one thread: its chunks, and what it does with a piece |
//! | `system.rs` | the system's reads and writes |
//! | `window.rs` | a file in memory that many threads write to |
//! | `merge.rs` | copies of all threads to one GPU, put together |
//! | `mapped.rs` | a file of which rows are read again and again |
//! | `counts.rs` | operations and bytes, by kind of memory and by way |
#![expect(unsafe_code, reason = "memory that callers name by its address")]

pub(crate) mod bus;
mod counts;
mod engine;
mod job;
mod mapped;
mod merge;
pub(crate) mod request;
mod system;
#[cfg(test)]
mod tests;
mod window;
mod worker;

pub(crate) use counts::Counters;
pub use counts::{TransferCount, TransferStatistics, Way};
pub(crate) use engine::Engine;
pub use engine::{configure, kind_of, statistics};
pub use job::{Transfer, TransferError};
pub use request::{Direction, MemoryKind, Part, Rows, TransferOptions, Tuning};

use std::sync::Arc;

/// Starts a transfer that belongs to no session.
///
/// # Errors
/// As [`crate::Session::start_transfer`].
///
/// # Safety
/// As [`crate::Session::start_transfer`].
pub unsafe fn start(
    direction: Direction,
    parts: &[Part<'_>],
    options: &TransferOptions,
) -> Result<Transfer, TransferError> {
    // SAFETY:
    // - this function's contract
    unsafe { Engine::this()?.start(direction, parts, options, None) }
}

/// Starts a transfer that a session counts.
///
/// # Safety
/// As [`start`].
pub(crate) unsafe fn start_counted(
    direction: Direction,
    parts: &[Part<'_>],
    options: &TransferOptions,
    counters: &Arc<Counters>,
) -> Result<Transfer, TransferError> {
    // SAFETY:
    // - this function's contract
    unsafe { Engine::this()?.start(direction, parts, options, Some(Arc::clone(counters))) }
}
