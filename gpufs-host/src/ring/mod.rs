//! Rings that a device can drive, and what serves them.
//!
//! A [`Ring`] is the memory of one io_uring: a submission ring that the device fills and a completion ring that it drains. A [`Mode`]
//! says what consumes the submissions; words, entries and their meaning are the same in all three, so the device cannot tell the modes apart.
//! [`choose`] takes the best mode that works here, and says why no better one does. A session needs one host thread for its rings, the
//! [`RingService`].
//!
//! | mode | consumes the SQ | needs of the host while kernels run |
//! |---|---|---|
//! | [`Mode::Sqpoll`] | the kernel's own thread | a poll now and then: has that thread gone to sleep? |
//! | [`Mode::Enter`] | the kernel, when told | `io_uring_enter` each time the tail has moved |
//! | [`Mode::Threads`] | the ring service, for a pool of worker threads | the whole service, with ordinary system calls |
//!
//! | file | content |
//! |---|---|
//! | `mod.rs`, `register.rs` | a ring; its registered files and buffers |
//! | `config.rs`, `parts.rs`, `memory.rs`, `error.rs` | what a ring is asked to be, where its parts lie, whose memory that is, why it cannot be had |
//! | `choose.rs`, `prove.rs` | which mode and memory work here |
//! | `kernel.rs`, `opcodes.rs`, `sys.rs` | rings of the kernel, the operations asked of it, and the system calls for them |
//! | `survey.rs` | what the kernel says that it can do |
//! | `service.rs`, `poll.rs`, `pace.rs`, `rouse.rs` | the ring service: its thread, one poll, its naps, and what ends a nap early |
//! | `submitter.rs` | what a thread that runs lanes does in the service's place |
//! | `failure.rs` | a ring whose service has stopped for good |
//! | `workers.rs`, `operation.rs`, `parked.rs`, `layout.rs` | the mode `threads`: worker threads, what one entry does, operations that wait for files, the memory |
//! | `sandbox.rs`, `sockets.rs`, `confined.rs` with `confined/`, `addresses.rs`, `paths.rs`, `outside.rs` | what entries may do under a sandbox, and what host threads do for them |
//! | `family.rs`, `landlock.rs`, `restrict.rs` | the threads that are confined, and what the kernel's rings are restricted to |
//! | `renew.rs`, `credentials.rs` | rings and threads that are renewed, with the rights that the program has left |
//! | `services/` | what io_uring has no operation for: the service ring's operations, which rings of the mode `threads` have too |
//!
//! Nothing here knows of sessions, streams or kernels, and nothing submits. What an entry says, and that its memory stays until its CQE is
//! seen, is its producer's promise (`gpufs_core::word::EntryCell::write`).

mod addresses;
mod chain;
mod choose;
mod config;
mod confined;
mod credentials;
mod error;
mod failure;
mod family;
mod kernel;
mod landlock;
mod layout;
mod memory;
mod opcodes;
mod operation;
mod outside;
mod pace;
mod parked;
mod parts;
mod paths;
mod poll;
mod prove;
mod register;
mod renew;
mod restrict;
mod rouse;
mod sandbox;
mod service;
mod services;
mod sockets;
mod submitter;
mod survey;
mod sys;
mod tasks;
mod workers;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use gpufs_core::abi::{IORING_OP_EPOLL_CTL, IORING_OP_OPENAT2};
use gpufs_core::word::{DeviceWord, DeviceWord64, SharedWord};

pub use choose::{Chosen, choose, choose_among};
pub use config::RingConfig;
pub use confined::Confined;
pub use error::{MissingOpcode, RingError};
pub use failure::{Failure, Stopped};
pub use memory::{CpuMemory, MemorySource, RingMemory};
pub use parts::RingParts;
pub(crate) use renew::Known;
pub(crate) use rouse::rouse;
pub use sandbox::Sandbox;
pub use service::{BusyGuard, Report, RingReport, RingService};
pub use services::{ServiceError, Services};
pub use sockets::Sockets;
pub(crate) use submitter::{Submitter, Wait};
pub use survey::{MemoryTried, Survey};
pub use sys::Release;
pub(crate) use sys::{block_signals, block_signals_of_transfers, limit};

use memory::Region;
use workers::WorkerPool;

/// What consumes the submissions of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The kernel's SQPOLL thread (`IORING_SETUP_SQPOLL`). The host only wakes it.
    #[default]
    Sqpoll,
    /// The kernel, each time the host calls `io_uring_enter(2)`.
    Enter,
    /// Host threads with ordinary system calls. No io_uring at all.
    Threads,
}

impl Mode {
    /// All modes, best first.
    pub const BEST_FIRST: [Self; 3] = [Self::Sqpoll, Self::Enter, Self::Threads];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqpoll => "sqpoll",
            Self::Enter => "enter",
            Self::Threads => "threads",
        })
    }
}

/// What the ring service did for one ring.
#[derive(Debug, Default)]
struct Counts {
    wake_ups: DeviceWord64,
    submitted: DeviceWord64,
    flushes: DeviceWord64,
    failures: DeviceWord64,
    /// Polls of the service ring since it last had an entry.
    idle_polls: DeviceWord,
    last_errno: DeviceWord,
}

/// What a ring and its service own together. Members are dropped in order: the descriptor before the memory.
#[derive(Debug)]
struct Inner {
    mode: Mode,
    /// None in [`Mode::Threads`].
    descriptor: Option<OwnedFd>,
    /// The same in the confined family whose thread enters the ring.
    family_descriptor: Option<family::Held>,
    /// Only in [`Mode::Threads`].
    pool: Option<Arc<WorkerPool>>,
    features: u32,
    lacks: Vec<MissingOpcode>,
    host: RingParts,
    device: RingParts,
    counts: Counts,
    failure: failure::Noted,
    /// 1 while a ring service serves it.
    served: DeviceWord,
    /// 1 while a thread that runs lanes enters it: `submitter.rs`.
    by_lanes: DeviceWord,
    /// It is the service ring.
    for_services: bool,
    config: RingConfig,
    regions: Vec<Region>,
}

impl Inner {
    fn word(&self, word: *const SharedWord) -> &SharedWord {
        // SAFETY:
        // - called with words of `host`, which lie in `regions` and live as long as `self`
        // - shared words may be written by others at any time
        unsafe { &*word }
    }
    fn sq_head(&self) -> &SharedWord {
        self.word(self.host.sq_head)
    }
    fn sq_tail(&self) -> &SharedWord {
        self.word(self.host.sq_tail)
    }
    fn sq_flags(&self) -> &SharedWord {
        self.word(self.host.sq_flags)
    }
    fn explain(&self, step: &'static str, error: io::Error, need_bytes: usize) -> RingError {
        RingError::explain(step, error, &self.config, need_bytes)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            // Its threads read and write the memory, which goes after this.
            pool.stop();
        }
    }
}

/// One ring that a device can drive.
///
/// Dropping it closes it. Its memory is freed once its [`RingService`] is dropped too. By then nothing may be in flight and the device
/// must be done with it: an operation that still runs uses its buffer for a while after the ring is closed.
#[derive(Debug)]
pub struct Ring {
    inner: Arc<Inner>,
}

impl Ring {
    /// Opens a ring. A [`RingService`] serves it from when that is started.
    ///
    /// # Errors
    /// What this machine lacks for `config`, and how to get it.
    pub fn open(config: &RingConfig) -> Result<Self, RingError> {
        config.check()?;
        let inner = match config.mode {
            Mode::Threads => Self::with_threads(config, false)?,
            Mode::Sqpoll | Mode::Enter => Self::with_kernel(config)?,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Opens a service ring: one that host threads serve, and that starts them when it gets its first entry. `config.mode` does not matter.
    ///
    /// # Errors
    /// As [`Ring::open`].
    pub fn open_for_services(config: &RingConfig) -> Result<Self, RingError> {
        let config = RingConfig { mode: Mode::Threads, ..config.clone() };
        config.check()?;
        Ok(Self { inner: Arc::new(Self::with_threads(&config, true)?) })
    }

    fn with_kernel(config: &RingConfig) -> Result<Inner, RingError> {
        let kernel::Opened { descriptor, family_descriptor, features, lacks, host, device, regions } =
            kernel::open(config)?;
        Ok(Inner {
            mode: config.mode,
            descriptor: Some(descriptor),
            family_descriptor,
            pool: None,
            features,
            lacks,
            host,
            device,
            counts: Counts::default(),
            failure: failure::Noted::default(),
            served: DeviceWord::new(0),
            by_lanes: DeviceWord::new(0),
            for_services: false,
            config: config.clone(),
            regions,
        })
    }

    fn with_threads(config: &RingConfig, for_services: bool) -> Result<Inner, RingError> {
        let layout = layout::Layout::of(config);
        let region = Region::allocate(&config.own_source(), layout.bytes)
            .map_err(|error| RingError::explain("allocating ring memory", error, config, layout.bytes))?;
        let host = layout.parts(region.host.as_ptr());
        let device = layout.parts(region.device().as_ptr());
        // SAFETY:
        // - the parts lie in `region`, zeroed, and `Inner` stops the pool before it frees the region
        let pool =
            unsafe { WorkerPool::new(host, config.services.clone(), config.confined.clone(), for_services) }
                .map_err(|error| RingError::explain("starting the service threads", error, config, 0))?;
        if !for_services && let Err(error) = pool.start() {
            pool.stop();
            return Err(RingError::explain("starting the service threads", error, config, 0));
        }
        Ok(Inner {
            mode: config.mode,
            descriptor: None,
            family_descriptor: None,
            pool: Some(pool),
            features: 0,
            lacks: Vec::new(),
            host,
            device,
            counts: Counts::default(),
            failure: failure::Noted::default(),
            served: DeviceWord::new(0),
            by_lanes: DeviceWord::new(0),
            for_services,
            config: config.clone(),
            regions: vec![region],
        })
    }

    /// Whether it is a service ring: [`Ring::open_for_services`].
    #[must_use]
    pub fn is_for_services(&self) -> bool {
        self.inner.for_services
    }
    /// What serves it.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.inner.mode
    }
    /// Where its words and entries lie for the host.
    #[must_use]
    pub fn parts(&self) -> RingParts {
        self.inner.host
    }
    /// Where its words and entries lie for the device.
    #[must_use]
    pub fn device_parts(&self) -> RingParts {
        self.inner.device
    }
    /// The kernel's `IORING_FEAT_*`; 0 in [`Mode::Threads`].
    #[must_use]
    pub fn features(&self) -> u32 {
        self.inner.features
    }
    /// Operations that this kernel lacks and gpufs can work without. They complete with `EINVAL`.
    #[must_use]
    pub fn lacks(&self) -> &[MissingOpcode] {
        &self.inner.lacks
    }
    /// Whether operations can open at once what the kernel has cached, and only that; a service ring has none that open. Host threads do not:
    /// the system call would wait for who opens the other end of a FIFO.
    pub(crate) fn opens_at_once(&self) -> bool {
        let lacks = |opcode| self.lacks().iter().any(|lacked| lacked.opcode == opcode);
        self.is_for_services()
            || self.mode() != Mode::Threads && !lacks(IORING_OP_OPENAT2) && !lacks(IORING_OP_EPOLL_CTL)
    }
    /// CQEs that the kernel lost, because the CQ was full and it had no memory to hold them. Those that it held back are counted in
    /// [`RingReport::flushes`]. Both are 0 while the producer keeps to its credits.
    #[must_use]
    pub fn overflow(&self) -> u32 {
        // ORDERING: relaxed, a counter; partner none.
        self.inner.word(self.inner.host.cq_overflow).peek()
    }
    /// How many SQEs were published and how many CQEs posted, both modulo 2³². One SQE gives one CQE: where they are equal,
    /// nothing is in flight. SQEs that a failed ring will never read do not count.
    #[must_use]
    pub fn tails(&self) -> (u32, u32) {
        // ORDERING: acquire, system, partner the service: an equal CQ tail is seen with what the operations wrote.
        (self.inner.visible(), self.inner.posted())
    }
    /// The result of the operation with this `user_data`, if its CQE lies in the ring, consumed or not.
    #[must_use]
    pub(crate) fn completion_of(&self, user_data: u64) -> Option<i32> {
        let parts = &self.inner.host;
        // The service overwrites a posted entry only after it was told that the entry is consumed. Such an entry may be torn here, but
        // then it is not the one that is wanted. An entry that was never posted is zero, and no `user_data` is.
        let _posted = self.tails();
        (0..parts.cq_entries).find_map(|index| {
            // SAFETY:
            // - a cell of the ring, which lives as long as `self`
            let cell = unsafe { &*parts.cqe(index) };
            // SAFETY:
            // - nothing writes it, or it is not the wanted one, as said above
            let cqe = unsafe { cell.read() };
            (cqe.user_data == user_data).then_some(cqe.res)
        })
    }
    /// The ring's memory in bytes, whole pages.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.inner.regions.iter().map(Region::bytes).sum()
    }
    /// The ring's descriptor; none in [`Mode::Threads`].
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// Closes the ring, as dropping it does.
    pub fn close(self) {}
}

/// A length as the kernel counts; more than it takes is refused by the kernel itself.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
