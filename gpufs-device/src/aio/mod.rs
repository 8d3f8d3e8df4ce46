//! Operations that are started now and waited for later: a lane computes meanwhile, or has several in flight (`aio(7)`).
//!
//! A start returns a [`Pending`]. Its lane, or another one, then asks ([`Pending::is_done`]), waits ([`Pending::wait`], [`wait_any`]), waits for so
//! long at most ([`Pending::wait_for`]), takes what is complete ([`Looker`]) or cancels ([`Pending::cancel`]). It is also a future: [`block_on`]
//! runs several in one lane, and [`join`] waits for two. Lanes that start together go to the kernel as one batch.
//!
//! ```
//! # use gpufs_device::{Errno, Fs, file::Descriptor};
//! /// Reads a page while it sums up the one before.
//! fn sum_pages(fs: Fs, input: Descriptor, pages: u64) -> Result<u64, Errno> {
//!     let (mut page, mut sum) = ([0; 4096], 0);
//!     let mut next = fs.start_pread(input, 4096, 0)?;
//!     for number in 1..=pages {
//!         let read = next.wait_into(&mut page)?;
//!         next = fs.start_pread(input, 4096, number * 4096)?; // in flight during the next line
//!         sum += page[..read].iter().map(|byte| u64::from(*byte)).sum::<u64>();
//!     }
//!     next.wait().map(|_| sum)
//! }
//! ```
//!
//! [`Fs::start_chain`](crate::Fs::start_chain) starts several that the kernel carries out in order, such as a write and then a sync.
//!
//! # Memory
//!
//! The bytes of an operation lie in memory of the session, which belongs to the operation until it is complete. A write copies them there when it
//! is started, and [`Pending::wait_into`] copies what was read out of it; [`Finished::with`] looks at it there. So nothing of the caller's is lent
//! to the kernel: a [`Pending`] may be moved, dropped or forgotten at any time, and no memory is reused too early ([R-ASYNC-3]). One that is dropped
//! before it is complete goes on. What it holds comes back when the session synchronizes; an error is then counted, like that of every call at which
//! nobody looked.
//!
//! The exceptions are [`Fs::start_recv`](crate::Fs::start_recv), [`Fs::start_recv_when_ready`](crate::Fs::start_recv_when_ready) and
//! [`Fs::start_send`](crate::Fs::start_send), which are unsafe: a server's
//! connections keep buffers of their own, and the kernel reads and writes them where they are.
//!
//! # Bounds
//!
//! A start never waits for another operation to end. Where a ring has no more of them, or their memory is used up, it fails with `EAGAIN`: take a
//! result and start again. A lane that waits for room must not keep what others need for theirs: it first takes what it has started, and drops
//! each [`Finished`], which has the memory of what was read. One operation moves [`BYTES_MAX`] bytes at most; for more it is short, as a `read(2)`
//! may be.
//!
//! | what | how many |
//! |---|---|
//! | operations in flight on a ring, with lanes that wait for pipes and terminals | half of the ring's entries that no stream buffer needs: 352 by default (`Builder::ring_entries`) |
//! | memory | beside the calls' staging memory a third of its size: 4 MiB by default (`Builder::buffers`) |
//!
//! # When kernels end
//!
//! `Session::synchronize` returns when every operation that was started is complete. It cancels those that may never end, such as a read of an empty
//! pipe. A [`Pending`] of an earlier launch, or of before a synchronization, gets `EINVAL`.
#![expect(unsafe_code, reason = "hands staging memory to the kernel, and takes it back")]

mod chain;
mod future;
mod looker;
mod memory;
mod parts;
mod pending;
mod socket;
mod start;

pub use chain::{LINKS_MAX, Link};
pub use future::{Join, block_on, join};
pub use looker::{Looker, Watch};
pub use parts::Parts;
pub use pending::{Cancel, Finished, Pending, wait_all, wait_any};
pub use start::BYTES_MAX;
