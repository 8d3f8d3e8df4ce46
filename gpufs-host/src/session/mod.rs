//! A session: rings, tables, buffers and running kernels under one owner.
//!
//! ```text
//! Session::builder() … .cpu()? → launch(grid, kernel) … → synchronize()? → drop
//! ```
//!
//! `synchronize` waits for the kernels, writes what they left in their streams, and reports the first error. `Drop` does the same, so
//! that every accepted byte that can be written is written.
//!
//! When a kernel faults on a GPU, the GPU's memory and the tables in it are gone. `synchronize` then writes from the journal what the
//! streams had accepted, and reports the result ([`Fault`]). From then on the session is dead: it starts nothing
//! ([`SyncError::Dead`]), and dropping it only closes files and gives memory back. A new session may be opened; of an
//! NVIDIA GPU only in a new process, because the driver requires it.
//!
//! | files | content |
//! |---|---|
//! | `handle.rs`, `streams.rs` | [`Session`], the handle that a program has, and all its calls |
//! | `builder.rs`, `limits.rs`, `sizes.rs`, `modes.rs` | the choices of a program, their ranges, and what follows from them |
//! | `open.rs`, `open_error.rs` | from the choices to rings, memory and tables, or why not |
//! | `state.rs`, `launch.rs`, `synchronize.rs`, `close.rs` | the life of a session: its states, starting kernels, waiting for them, its end |
//! | `entering.rs` | lanes on the CPU whose own thread enters the ring |
//! | `asynchronous.rs` | what the host does with operations that kernels started and left |
//! | `flush.rs`, `unwound.rs`, `recover.rs` | what the host does for streams: after kernels, after a panic of a lane, after the death of a device |
//! | `tables/`, `image.rs`, `layout.rs`, `mapping.rs`, `memory.rs`, `host_journal.rs` | what the device sees, and the memory of it |
//! | `standard.rs` | the standard streams |
//! | `files.rs`, `buffer.rs`, `placed.rs`, `device.rs`, `seeker.rs` | what the host gives to kernels, and what it knows of the device |
//! | `channels.rs`, `resident.rs` | channels between threads and lanes, and kernels that stay |
//! | `cached.rs` | the cache of pages, and the files that are mapped |
//! | `shares.rs` | how the cache's frames are shared out among those files |
//! | `transfers.rs` | bulk transfers that a session counts |
//! | `services.rs` | functions of the program that kernels call |
//! | `stats.rs`, `failures.rs`, `error.rs` | what a session reports |
//! | `trace.rs` | what a session does, in a file that Perfetto opens |
//! | `adopt.rs` | rights that the program has given up since |
//! | `alone.rs` | calls of threads and of other sessions' lanes: which waits for which |
//! | `live.rs`, `exit.rs`, `estate.rs` | the sessions of a process: what uses one now, the end of the process, what a closed session leaves to the next |
//!
//! The protocol of streams and rings is not here (`gpufs_core`), nor what a GPU's runtime is asked to do (`gpu`).

mod adopt;
mod alone;
mod asynchronous;
mod buffer;
mod builder;
mod cached;
mod channels;
mod close;
mod device;
mod entering;
mod error;
mod estate;
mod exit;
mod failures;
mod files;
mod flush;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod handle;
mod host_journal;
mod image;
mod launch;
mod layout;
mod limits;
mod live;
mod mapping;
mod memory;
mod modes;
mod open;
mod open_error;
mod pieces;
mod placed;
mod recover;
mod resident;
mod seeker;
mod services;
mod shares;
mod sizes;
mod standard;
mod state;
mod stats;
mod streams;
mod synchronize;
mod tables;
#[cfg(test)]
mod tests;
mod trace;
mod transfers;
mod unwound;

use std::any::TypeId;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use crate::cpu::{CpuOptions, KeptThread};
use crate::gpu::{DeviceMemory, Gpu};
use crate::ring::{Confined, MemorySource, Mode, Ring, RingError, RingMemory, RingService, Services};

pub use crate::process::{Forked, Owner};
pub use buffer::DeviceBuffer;
pub use builder::Builder;
pub use cached::{CacheError, CacheStatistics};
pub use channels::{ChannelReceiver, ChannelSender};
pub use error::SyncError;
pub use failures::FailedCalls;
pub use files::{RegisterError, RegisteredBuffer};
pub use flush::StreamError;
pub use handle::Session;
pub use open_error::OpenError;
pub use placed::Placed;
pub use recover::{Fault, RecoveredStream, Recovery, StalledAt};
pub use resident::{Resident, StayError};
pub use stats::{RingStatistics, Statistics};
pub use streams::FileError;

use cached::Mapped;
use channels::HostEnd;
use estate::Lease;
use failures::ReportedFailures;
use host_journal::HostJournal;
use live::Gate;
use memory::SessionMemory;
use seeker::Seeker;
use standard::StandardOutput;
use state::State;
use tables::Tables;
use trace::SessionTrace;

/// Where kernels run.
#[derive(Debug)]
pub(super) enum Backend {
    /// On CPU lanes.
    Cpu(CpuOptions),
    /// On a GPU, with the program that holds the kernels.
    #[cfg_attr(
        not(any(feature = "cuda", feature = "hip")),
        allow(dead_code, reason = "built without a GPU's runtime")
    )]
    Gpu(Arc<dyn Gpu>),
}

/// What a [`Session`] is the handle of. Members are dropped in order, after `close.rs`: nothing serves or submits when the rings go.
#[derive(Debug)]
struct Body {
    gate: Arc<Gate>,
    /// What the session does, in a file, where that was asked for.
    trace: Option<SessionTrace>,
    /// Which session of the process it is.
    number: u64,
    tables: Tables,
    state: State,
    /// What runs lanes, where it enters the ring for them.
    kept_thread: Option<KeptThread>,
    /// `None` when the session is closed.
    service: Option<RingService>,
    /// Those of I/O, then the service ring where they are not served by host threads.
    rings: Vec<Ring>,
    mode: Mode,
    ring_memory: RingMemory,
    refused: Vec<(Mode, RingError)>,
    refused_memory: Vec<(RingMemory, RingError)>,
    backend: Backend,
    /// Memory for buffers that the host registers.
    source: Arc<dyn MemorySource>,
    fixed_files: bool,
    fixed_buffers: bool,
    /// Files that the host registered: the entry, the host's descriptor, and that of the entry.
    host_files: Vec<(u32, OwnedFd, RawFd)>,
    /// The entries of the table of mappings.
    mapped: Vec<Mapped>,
    /// Sets of the cache that pages without a frame of their own share.
    shared_sets: u32,
    /// Moves the positions of redirected standard streams.
    seeker: Seeker,
    reported: ReportedFailures,
    memory: SessionMemory,
    host_journal: HostJournal,
    buffers: Vec<RegisteredBuffer>,
    /// The host's ends of channels, whose memory is among these.
    channels: Vec<Arc<HostEnd>>,
    /// Device memory of placed values and buffers.
    placed: Vec<Box<dyn DeviceMemory>>,
    /// Values placed for CPU lanes: their types and addresses.
    values: Vec<(TypeId, usize)>,
    /// What its service ring does besides system calls.
    services: Arc<Services>,
    /// The sandbox that is in force.
    confined: Option<Arc<Confined>>,
    /// What stands in for the standard output; its descriptor is in the tables.
    #[expect(dead_code, reason = "kept open")]
    standard_output: Option<StandardOutput>,
    /// Last, after all that lies in it.
    lease: Lease,
}

// SAFETY:
// - the raw pointers are to memory that the session owns, and no method touches it without `&mut self` or a kernel's rules
#[expect(unsafe_code, reason = "the pointers are the session's own")]
unsafe impl Send for Body {}
