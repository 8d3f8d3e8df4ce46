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
//! | [`shared`] | streams that several threads open by the same path |
//! | [`session`] | all of it, as the device sees it |
//! | [`call`], [`failures`], [`kernel`], [`seek`] | what host and device say to each other: calls by name, failed calls, kernels, `lseek` |
//! | `lanes` | the seam of CPU lanes, which GPUs do not have |
//!
//! The words used here (slot, ticket, batch, publisher, poller, drain …) are in the [glossary](protocol#words).
#![cfg_attr(not(test), no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch))]
#![deny(unsafe_code)]

pub mod abi;
pub mod alloc;
pub mod call;
pub mod failures;
pub mod files;
pub mod journal;
pub mod kernel;
#[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
pub mod lanes;
pub mod lock;
mod position;
pub mod protocol;
pub mod regions;
pub mod resources;
mod ring;
pub mod seek;
pub mod session;
pub mod shared;
pub mod stall;
pub mod stream;
pub mod word;

pub use abi::Errno;
pub use alloc::{Claim, FreeSet};
pub use call::Call;
pub use position::Position;
pub use ring::{
    Batch, CacheAligned, Completion, Counters, Delivery, Drain, Operation, Outcome, Poll, Queue, QueueParts,
    QueueProgress, QueueWords, Slot, SlotClaim, Ticket,
};
