//! Rings that a device can drive, and who serves them.
//!
//! A [`Ring`] is the memory of one io_uring: a submission ring that the device fills and a completion ring that it drains.
//! Three [`Mode`]s say who is behind it; the words, the entries and their meaning are the same in all, so the device cannot
//! tell. [`choose`] takes the best that works here and says why not a better one. An [`Attendant`] is the one host thread
//! that a session needs beside its rings.
//!
//! | mode | consumes the SQ | needs of the host while kernels run |
//! |---|---|---|
//! | [`Mode::Sqpoll`] | the kernel's own thread | a look now and then: has that thread gone to sleep? |
//! | [`Mode::Enter`] | the kernel, when told | `io_uring_enter` each time the tail has moved |
//! | [`Mode::Threads`] | the attendant, for a pool of threads | the whole service, with ordinary system calls |
//!
//! This module does not submit anything: what an entry says, and that its memory stays until its CQE is seen, is its
//! producer's business (`gpufs_core::word::EntryCell::write` is where that promise is made).

mod choose;
mod error;
mod failure;
mod kernel;
mod memory;
mod operation;
mod parked;
mod prove;
mod rouse;
mod serve;
mod sys;
mod threads;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;

use gpufs_core::abi::{
    Cqe, FilesUpdate, IORING_REGISTER_BUFFERS, IORING_REGISTER_FILES, IORING_REGISTER_FILES_UPDATE,
    IORING_UNREGISTER_BUFFERS, Params, Sqe,
};
use gpufs_core::word::{DeviceWord, DeviceWord64, EntryCell, SharedWord};

pub use choose::{Chosen, choose, choose_among};
pub use error::{MissingOpcode, RingError};
pub use failure::{Failure, Stopped};
pub use memory::{CpuMemory, MemorySource, RingMemory};
pub(crate) use rouse::rouse;
pub use serve::{Attendant, Attention, Report, RingReport};
pub use sys::Release;
pub(crate) use sys::block_signals;

use memory::Region;
use threads::Pool;

/// Who serves a ring.
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

/// What a ring should be like.
#[derive(Clone, Debug)]
pub struct RingConfig {
    /// Entries of the submission ring: a power of two, 1 to 32,768.
    pub entries: u32,
    /// Entries of the completion ring: a power of two, `entries` to 65,536.
    pub cq_entries: u32,
    /// Who serves it. For [`choose`], the best to try.
    pub mode: Mode,
    /// Who allocates it. To [`Mode::Threads`], whose memory never is the kernel's, `Kernel` means `Caller`.
    pub memory: RingMemory,
    /// Shares the memory with the device, and supplies it where the kernel does not.
    pub source: Arc<dyn MemorySource>,
    /// How long the SQPOLL thread looks at an idle ring before it sleeps, in milliseconds; 0 means the kernel's default,
    /// one second.
    pub idle_ms: u32,
    /// The CPU to keep the SQPOLL thread on.
    pub sq_thread_cpu: Option<u32>,
    /// Keep the index array of kernels before 6.6 even where it could be done without. Only tests want that.
    pub index_array: bool,
}

impl Default for RingConfig {
    fn default() -> Self {
        Self {
            entries: 1024,
            cq_entries: 2048,
            mode: Mode::default(),
            memory: RingMemory::default(),
            source: Arc::new(CpuMemory),
            idle_ms: 1000,
            sq_thread_cpu: None,
            index_array: false,
        }
    }
}

impl RingConfig {
    /// The source of the ring's own memory, where the kernel does not allocate it.
    fn own_source(&self) -> Arc<dyn MemorySource> {
        let runtime = if self.memory == RingMemory::Runtime { self.source.runtime() } else { None };
        runtime.unwrap_or_else(|| Arc::clone(&self.source))
    }
    fn check(&self) -> Result<(), RingError> {
        if !self.entries.is_power_of_two() || self.entries > 32_768 {
            return Err(RingError::Config("a ring's entries are a power of two, at most 32768"));
        }
        if !self.cq_entries.is_power_of_two() || self.cq_entries > 65_536 || self.cq_entries < self.entries {
            return Err(RingError::Config(
                "a ring's CQ entries are a power of two, at least its entries, at most 65536",
            ));
        }
        Ok(())
    }
}

/// Where the words and entries of a ring lie, for whoever submits to it and drains it.
///
/// The pointers are good while the [`Ring`] lives. Words are read and written with `SharedWord`'s verbs. Who may touch what:
///
/// | part | written by | read by |
/// |---|---|---|
/// | `sqes`, `sq_tail` | the producer | the service |
/// | `cq_head` | the consumer (the device) | the service |
/// | `sq_head`, `sq_flags`, `cqes`, `cq_tail`, `cq_overflow` | the service | anyone |
#[derive(Clone, Copy, Debug)]
pub struct RingParts {
    /// How many SQEs were consumed, modulo 2³². Says nothing of their completion.
    pub sq_head: *const SharedWord,
    /// How many SQEs were published, modulo 2³².
    pub sq_tail: *const SharedWord,
    /// `IORING_SQ_*`.
    pub sq_flags: *const SharedWord,
    /// How many CQEs were consumed, modulo 2³².
    pub cq_head: *const SharedWord,
    /// How many CQEs were posted, modulo 2³².
    pub cq_tail: *const SharedWord,
    /// How many CQEs the kernel lost, having neither room in the CQ nor memory to keep them back; 0 while the producer keeps
    /// to its credits.
    pub cq_overflow: *const SharedWord,
    /// `sq_entries` SQEs; number `n` is at `n & (sq_entries - 1)`.
    pub sqes: *const EntryCell<Sqe>,
    /// `cq_entries` CQEs; number `n` is at `n & (cq_entries - 1)`.
    pub cqes: *const EntryCell<Cqe>,
    /// A power of two.
    pub sq_entries: u32,
    /// A power of two, at least `sq_entries`.
    pub cq_entries: u32,
    /// Where the words and the CQEs begin.
    rings: *mut u8,
}

// SAFETY:
// - nothing can be done with the pointers but through unsafe code, which says why it may, on whatever thread it runs
unsafe impl Send for RingParts {}
// SAFETY:
// - as for `Send`
unsafe impl Sync for RingParts {}

impl RingParts {
    /// The parts of rings that begin at `rings` and SQEs that begin at `sqes`, as `params` lays them out.
    fn at(rings: *mut u8, sqes: *mut u8, params: &Params) -> Self {
        let word = |offset: u32| rings.wrapping_add(offset as usize).cast::<SharedWord>().cast_const();
        Self {
            sq_head: word(params.sq_off.head),
            sq_tail: word(params.sq_off.tail),
            sq_flags: word(params.sq_off.flags),
            cq_head: word(params.cq_off.head),
            cq_tail: word(params.cq_off.tail),
            cq_overflow: word(params.cq_off.overflow),
            sqes: sqes.cast::<EntryCell<Sqe>>().cast_const(),
            cqes: rings.wrapping_add(params.cq_off.cqes as usize).cast::<EntryCell<Cqe>>().cast_const(),
            sq_entries: params.sq_entries,
            cq_entries: params.cq_entries,
            rings,
        }
    }
}

/// What the attendant did for one ring.
#[derive(Debug, Default)]
struct Counts {
    wake_ups: DeviceWord64,
    submitted: DeviceWord64,
    flushes: DeviceWord64,
    failures: DeviceWord64,
    last_errno: DeviceWord,
}

/// What a ring and its attendant own together. Members are dropped in order: the descriptor before the memory.
#[derive(Debug)]
struct Inner {
    mode: Mode,
    /// None in [`Mode::Threads`].
    descriptor: Option<OwnedFd>,
    /// Only in [`Mode::Threads`].
    pool: Option<Arc<Pool>>,
    features: u32,
    lacks: Vec<MissingOpcode>,
    host: RingParts,
    device: RingParts,
    counts: Counts,
    failure: failure::Noted,
    /// 1 once an attendant has taken the ring on.
    attended: DeviceWord,
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
            // Before the memory goes: its threads read and write it.
            pool.stop();
        }
    }
}

/// One ring that a device can drive.
///
/// Dropping it closes it. Its memory goes once its [`Attendant`] is gone too. By then nothing may be in flight and the device
/// must be done with it: an operation that still runs keeps using its buffer for a while after the ring is closed.
#[derive(Debug)]
pub struct Ring {
    inner: Arc<Inner>,
}

impl Ring {
    /// Opens a ring. It is served from when an [`Attendant`] takes it on.
    ///
    /// # Errors
    /// What this machine lacks for `config`, and how to get it.
    pub fn open(config: &RingConfig) -> Result<Self, RingError> {
        config.check()?;
        let inner = match config.mode {
            Mode::Threads => Self::with_threads(config)?,
            Mode::Sqpoll | Mode::Enter => Self::with_kernel(config)?,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    fn with_kernel(config: &RingConfig) -> Result<Inner, RingError> {
        let kernel::Opened { descriptor, features, lacks, host, device, regions } = kernel::open(config)?;
        Ok(Inner {
            mode: config.mode,
            descriptor: Some(descriptor),
            pool: None,
            features,
            lacks,
            host,
            device,
            counts: Counts::default(),
            failure: failure::Noted::default(),
            attended: DeviceWord::new(0),
            config: config.clone(),
            regions,
        })
    }

    fn with_threads(config: &RingConfig) -> Result<Inner, RingError> {
        let layout = threads::Layout::of(config);
        let region = Region::allocate(&config.own_source(), layout.bytes)
            .map_err(|error| RingError::explain("allocating ring memory", error, config, layout.bytes))?;
        let host = layout.parts(region.host.as_ptr());
        let device = layout.parts(region.device().as_ptr());
        // SAFETY:
        // - the parts lie in `region`, zeroed, and `Inner` stops the pool before it frees the region
        let pool = unsafe { Pool::start(host) }
            .map_err(|error| RingError::explain("starting the service threads", error, config, 0))?;
        Ok(Inner {
            mode: config.mode,
            descriptor: None,
            pool: Some(pool),
            features: 0,
            lacks: Vec::new(),
            host,
            device,
            counts: Counts::default(),
            failure: failure::Noted::default(),
            attended: DeviceWord::new(0),
            config: config.clone(),
            regions: vec![region],
        })
    }

    /// Who serves it.
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
    /// Operations that gpufs can do without and the kernel does not serve. They complete with `EINVAL`.
    #[must_use]
    pub fn lacks(&self) -> &[MissingOpcode] {
        &self.inner.lacks
    }
    /// How many CQEs the kernel lost, having neither room in the CQ nor memory to keep them back. Those that it kept back
    /// count in [`RingReport::flushes`]. Either is 0 while the producer keeps to its credits.
    #[must_use]
    pub fn overflow(&self) -> u32 {
        // ORDERING: relaxed, a counter; partner none.
        self.inner.word(self.inner.host.cq_overflow).peek()
    }
    /// How many SQEs were published and how many CQEs posted, both modulo 2³². One SQE gives one CQE: where they are equal,
    /// nothing is in flight. What a ring that has failed will never look at does not count.
    #[must_use]
    pub fn tails(&self) -> (u32, u32) {
        // ORDERING: acquire, system, partner the service: an equal CQ tail is seen with what the operations wrote.
        (self.inner.visible(), self.inner.posted())
    }
    /// The result of the operation with this `user_data`, if its CQE lies in the ring, consumed or not.
    #[must_use]
    pub fn completion_of(&self, user_data: u64) -> Option<i32> {
        let parts = &self.inner.host;
        // The service writes no posted entry again, but for those that it was told are consumed; if one of these is torn by that, it
        // is not the one that is looked for. An entry that was never posted is zero, as no `user_data` is.
        let _posted = self.tails();
        (0..parts.cq_entries).find_map(|place| {
            // SAFETY:
            // - below `cq_entries`; written by nobody, or not what is looked for, as said above
            let cqe = unsafe { (*parts.cqes.add(place as usize)).read() };
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

    /// Registers files, in place of none (`io_uring_register_files(3)`): slot `i` holds `files[i]`, or nothing where that is
    /// -1. The ring keeps its own reference; the caller may close its descriptor.
    ///
    /// # Errors
    /// The system's: `EBADF`, `EMFILE`, and `EBUSY` where files are registered already.
    pub fn register_files(&self, files: &[RawFd]) -> Result<(), RingError> {
        let inner = &self.inner;
        let done = match (&inner.pool, self.descriptor()) {
            (Some(pool), _) => pool.tables().register_files(files),
            // SAFETY:
            // - the kernel reads `files.len()` descriptors, which are borrowed for the call
            (None, Some(ring)) => unsafe {
                sys::register(ring, IORING_REGISTER_FILES, files.as_ptr().cast(), count(files.len()))
            }
            .map(drop),
            (None, None) => unreachable!("a ring has a descriptor or a pool"),
        };
        done.map_err(|error| inner.explain("registering files", error, 0))
    }

    /// Puts `file` into slot `index` of the registered files, or empties the slot where it is -1.
    ///
    /// # Errors
    /// The system's: `EBADF`, `EINVAL` for a slot that there is not, `ENXIO` where no files are registered.
    pub fn update_file(&self, index: u32, file: RawFd) -> Result<(), RingError> {
        let inner = &self.inner;
        let done = match (&inner.pool, self.descriptor()) {
            (Some(pool), _) => pool.tables().update_file(index, file),
            (None, Some(ring)) => {
                let data = (&raw const file).expose_provenance() as u64;
                let update = FilesUpdate { offset: index, resv: 0, data };
                // SAFETY:
                // - the kernel reads one `FilesUpdate` and the one descriptor that it names, both alive for the call
                unsafe { sys::register(ring, IORING_REGISTER_FILES_UPDATE, (&raw const update).cast(), 1) }
                    .map(drop)
            }
            (None, None) => unreachable!("a ring has a descriptor or a pool"),
        };
        done.map_err(|error| inner.explain("changing a registered file", error, 0))
    }

    /// Registers buffers, in place of none (`io_uring_register_buffers(3)`): each an address and a length in bytes.
    ///
    /// # Errors
    /// The system's: `EFAULT`, `ENOMEM` (locked memory), and `EBUSY` where buffers are registered already.
    ///
    /// # Safety
    /// Each buffer is memory of this process, readable and writable, that stays valid until the ring is closed.
    pub unsafe fn register_buffers(&self, buffers: &[(NonNull<u8>, usize)]) -> Result<(), RingError> {
        let inner = &self.inner;
        let vectors: Vec<libc::iovec> = buffers
            .iter()
            .map(|&(base, bytes)| libc::iovec { iov_base: base.as_ptr().cast(), iov_len: bytes })
            .collect();
        let done = match (&inner.pool, self.descriptor()) {
            (Some(pool), _) => pool.tables().register_buffers(buffers),
            // SAFETY:
            // - the kernel reads `vectors.len()` vectors, which are borrowed for the call
            // - the buffers stay, by this function's contract
            (None, Some(ring)) => unsafe {
                sys::register(ring, IORING_REGISTER_BUFFERS, vectors.as_ptr().cast(), count(vectors.len()))
            }
            .map(drop),
            (None, None) => unreachable!("a ring has a descriptor or a pool"),
        };
        let need_bytes = buffers.iter().map(|&(_, bytes)| bytes).sum();
        done.map_err(|error| inner.explain("registering buffers", error, need_bytes))
    }

    /// Lets the registered buffers go (`io_uring_unregister_buffers(3)`); where there are none, does nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn unregister_buffers(&self) -> Result<(), RingError> {
        let inner = &self.inner;
        let done = match (&inner.pool, self.descriptor()) {
            (Some(pool), _) => {
                pool.tables().unregister_buffers();
                Ok(())
            }
            (None, Some(ring)) => {
                // SAFETY:
                // - the command takes no memory
                let done = unsafe { sys::register(ring, IORING_UNREGISTER_BUFFERS, std::ptr::null(), 0) };
                match done {
                    Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(()),
                    other => other.map(drop),
                }
            }
            (None, None) => unreachable!("a ring has a descriptor or a pool"),
        };
        done.map_err(|error| inner.explain("letting registered buffers go", error, 0))
    }

    /// Closes the ring, as dropping it does.
    pub fn close(self) {}
}

/// A length as the kernel counts; more than it takes is refused by the kernel itself.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
