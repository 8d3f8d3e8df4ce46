//! The ring protocol of gpufs, and everything that its device and host halves agree on.
//!
//! gpufs lets GPU code read and write files through io_uring: the lanes of a kernel fill the submission ring themselves, and the Linux
//! kernel serves it. This crate holds the steps that one lane takes, and the tables that the steps work on. `gpufs-device` puts the steps
//! together for a warp. `gpufs-host` makes the tables, and takes the same steps as a warp of one when it flushes what a kernel left.
//!
//! Nothing here waits, allocates, or knows an operating system or a GPU.
//!
//! ```text
//!   lanes ──► stream ──► block full ──┐                        ┌── CQE ◄── Linux kernel ◄── SQE ──┐
//!    │        (cursor, blocks)        │                        ▼                                  │
//!    │                                └──► ring ──► slot ── ticket ── SQ entry ── commit ── SQ tail
//!    └── read, open, stat … ──────────────► (Queue)  ▲
//!                                                    └── outcome ◄── deliver ◄── poll of the CQ tail
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | [`protocol`] | the rules and proofs that the code cites, a glossary, what comes round |
//! | [`word`] | shared words and their verbs: the only atomics of device code |
//! | [`abi`] | io_uring's structures, `statx(2)`'s, error numbers |
//! | [`alloc`] | sets of free items, pools of buffers |
//! | `ring` | [`Queue`]: slots, the publisher, the poller |
//! | [`lock`], [`files`], [`regions`], [`stall`], [`journal`] | the tables of a session, one each |
//! | [`resources`] | those that streams and files need, together |
//! | [`stream`] | blocks that many warps fill and the ring writes; lines that are read ahead |
//! | [`cache`] | pages of files in device memory |
//! | [`shared`] | streams that several threads open by the same path |
//! | [`session`] | all of it, as the device sees it |
//! | [`channel`] | queues between threads of the host and lanes of a running kernel |
//! | [`call`], [`failures`], [`kernel`], [`seek`] | what host and device say to each other: calls by name, failed calls, kernels, `lseek` |
//! | [`trace`] | packets of a trace that Perfetto opens |
//! | `lanes`, [`gate`] | the seam of CPU lanes, and who may use a session's tables on the host: GPUs have neither |
//!
//! The words used here (slot, ticket, batch, publisher, poller, drain …) are in the [glossary](protocol#words).
//!
//! # One operation, step by step
//!
//! A ring of one entry in ordinary memory; the test plays the Linux kernel.
//!
//! ```
//! use gpufs_core::abi::{Cqe, Sqe};
//! use gpufs_core::word::{DeviceWord, DeviceWord64, EntryCell, SharedWord};
//! use gpufs_core::{Delivery, FreeSet, Outcome, Queue, QueueParts, QueueWords, Slot};
//!
//! let (sq_tail, cq_head, cq_tail) = <(SharedWord, SharedWord, SharedWord)>::default();
//! let (sqe, cqe) = (EntryCell::new(Sqe::default()), EntryCell::new(Cqe::default()));
//! let (words, mark, slot) = (QueueWords::default(), DeviceWord::new(0), DeviceWord64::new(0));
//! let (free, endless) = (DeviceWord64::new(1), DeviceWord64::new(0));
//! let parts = QueueParts {
//!     sq_tail: &sq_tail, cq_head: &cq_head, cq_tail: &cq_tail,
//!     sqes: &sqe, cqes: &cqe, sq_entries: 1, cq_entries: 1,
//!     words: &words, ready: &mark, slots: &slot,
//!     // Sound: one word each, which outlives the set.
//!     free: unsafe { FreeSet::new(&free, 1) },
//!     endless: unsafe { FreeSet::new(&endless, 1) },
//!     capacity: 1, results: std::ptr::null(),
//! };
//! // Sound: everything outlives the queue, and all indices begin at 0.
//! let queue = unsafe { Queue::new(parts) };
//!
//! // A lane submits.
//! let claim = queue.claim(1, 0).expect("the slot is free");
//! // Sound: the slot was just claimed, and is released when the operation is done.
//! let operation = unsafe { queue.arm(Slot(claim.item(0))) };
//! // Sound: one slot is held, and the batch is filled and committed next.
//! let batch = unsafe { queue.reserve(1) };
//! // Sound: the ticket was just drawn; a NOP refers to no memory. Then the batch is filled.
//! unsafe {
//!     queue.fill(batch.first(), Sqe::nop().with_user_data(operation.token()));
//!     queue.commit(batch);
//! }
//! assert_eq!((sq_tail.observe(), queue.outcome(operation)), (1, Outcome::InFlight));
//!
//! // The kernel reads the SQE, and posts a CQE.
//! // Sound: the tail was observed, and the CQ is empty.
//! unsafe { cqe.write(Cqe { user_data: sqe.read().user_data, res: 42, flags: 0 }) };
//! cq_tail.publish(1);
//!
//! // Any lane drains: copies, gives the entries back, delivers.
//! let drain = queue.begin_drain(1).expect("a completion was posted");
//! let completion = queue.entry(&drain, 0);
//! // Sound: the only entry was copied.
//! unsafe { queue.advance(&drain) };
//! assert_eq!(queue.deliver(completion), Delivery::Delivered);
//! // Sound: advanced and delivered.
//! unsafe { queue.end_drain(drain) };
//! assert_eq!(queue.outcome(operation), Outcome::Done(42));
//! queue.release(claim);
//! ```
#![cfg_attr(not(test), no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch))]
#![deny(unsafe_code)]

pub mod abi;
pub mod alloc;
pub mod cache;
pub mod call;
pub mod channel;
pub mod failures;
pub mod files;
pub mod gate;
pub mod journal;
pub mod kernel;
#[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
pub mod lanes;
pub mod listing;
pub mod lock;
pub mod pieces;
mod position;
pub mod protocol;
pub mod regions;
pub mod resources;
mod ring;
pub mod seek;
pub mod service;
pub mod session;
pub mod shared;
pub mod stall;
pub mod stream;
pub mod trace;
pub mod word;

pub use abi::Errno;
pub use alloc::{Claim, FreePlace, FreeSet};
pub use call::Call;
pub use position::Position;
pub use ring::{
    Batch, CacheAligned, Completion, Counters, Delivery, Drain, Holding, Operation, Outcome, Poll, Queue,
    QueueParts, QueueProgress, QueueWords, Reach, Slot, SlotClaim, Ticket,
};
