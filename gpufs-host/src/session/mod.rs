//! A session: rings, tables, buffers and running kernels under one owner.
//!
//! ```text
//! Session::builder() … .cpu()? → launch(grid, kernel) … → synchronize()? → drop
//! ```
//!
//! `synchronize` waits for the kernels, writes what they left in their streams, and reports the first error. `Drop` does the same and
//! loses nothing that could be written.
//!
//! Where a kernel faults on a GPU, the GPU's memory and the tables in it are gone. `synchronize` then writes from the journal what the
//! streams had accepted, and says how that went ([`Fault`]). From then on the session is dead: it starts nothing
//! ([`SyncError::Dead`]), and dropping it only closes files and gives memory back. A new session may be opened; of an
//! NVIDIA GPU only in a new process, since the driver wants that.
#![allow(unsafe_code, reason = "registers the session's memory with its rings")]

mod buffer;
mod builder;
mod device;
mod estate;
mod exit;
mod external;
mod failures;
mod files;
mod flush;
mod handle;
mod limits;
mod live;
mod modes;
mod placed;
mod recover;
mod seeker;
mod sizes;
mod stats;
mod streams;
mod tables;
#[cfg(test)]
mod tests;
mod unwound;

use std::any::TypeId;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, mem};

use gpufs_core::Claim;
use gpufs_core::alloc::BufferPool;
use gpufs_core::kernel::Kernel;
use gpufs_core::session::{OpenFile, PanicRoute, SessionTables};
use gpufs_core::stream::Buffering;

use crate::cpu::{self, CpuOptions, Grid, LaunchError, Launched};
use crate::gpu::{self, Gpu, GpuError};
use crate::ring::{self, Attendant, CpuMemory, MemorySource, Mode, Ring, RingError, RingMemory};

pub use crate::process::{Forked, Owner};
pub use buffer::DeviceBuffer;
pub use builder::{Builder, OpenError};
pub(crate) use estate::Estate;
pub use failures::FailedCalls;
pub use files::{RegisterError, RegisteredBuffer};
pub use flush::StreamError;
pub use handle::Session;
pub(crate) use live::Live;
pub use placed::Placed;
pub use recover::{Fault, RecoveredStream, Recovery, StalledAt};
pub use stats::{RingStatistics, Statistics};
pub use streams::FileError;
pub(crate) use tables::{DeviceMemory, within};

use builder::STAGING_BUFFER_BYTES;
use estate::Lease;
use failures::Told;
use live::Gate;
use seeker::Seeker;
use tables::{HostJournal, PoolMemory, Sizes, Tables};

/// The session's own memory for data, in one stretch: the staging pool, then the stream buffers, then what outlives the device.
#[derive(Debug)]
struct PoolRegion {
    address: NonNull<u8>,
    bytes: usize,
    source: Arc<dyn MemorySource>,
    /// Something in flight may still use it: it is not given back.
    stays: bool,
}

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

/// What a [`Session`] is the handle of.
#[derive(Debug)]
struct Body {
    gate: Arc<Gate>,
    tables: Tables,
    // Dropped in this order: nobody serves or submits before the rings go.
    launches: Vec<Launched>,
    attendant: Option<Attendant>,
    rings: Vec<Ring>,
    mode: Mode,
    memory: RingMemory,
    refused: Vec<(Mode, RingError)>,
    refused_memory: Vec<(RingMemory, RingError)>,
    backend: Backend,
    /// Kernels started on a GPU since the last synchronization.
    gpu_launches: Vec<gpu::Launch>,
    /// Whether kernels may run that somebody else launched.
    external: bool,
    source: Arc<dyn MemorySource>,
    /// Whether the pools are in memory of the GPU's runtime, which takes it along when it ends.
    runtime_pool: bool,
    fixed_files: bool,
    fixed_buffers: bool,
    host_files: Vec<(u32, OwnedFd)>,
    /// Moves the positions of redirected standard streams.
    seeker: Seeker,
    /// Which failed calls the program knows of.
    told: Told,
    pool: PoolRegion,
    pool_split: usize,
    stream_bytes: usize,
    host_journal: HostJournal,
    buffers: Vec<RegisteredBuffer>,
    /// Device memory of placed values and buffers.
    placed: Vec<Box<dyn DeviceMemory>>,
    /// Values placed for CPU lanes: their types and addresses.
    values: Vec<(TypeId, usize)>,
    /// The device has died: there are no tables any more.
    dead: bool,
    /// Lanes that were given up on may still use the session's memory: it is never freed.
    abandoned: bool,
    /// Last, behind all that lies in it.
    lease: Lease,
}

// SAFETY:
// - the raw pointers are to memory that the session owns, and no method touches it without `&mut self` or a kernel's rules
unsafe impl Send for Body {}

/// What `synchronize` found.
#[derive(Debug)]
#[non_exhaustive]
pub enum SyncError {
    /// A kernel did not end well: a lane's panic, a wait past its deadline.
    Kernel(LaunchError),
    /// A GPU refused to run a kernel.
    Gpu(GpuError),
    /// A kernel did not end well on a GPU: an illegal address, a panic, a wait past its deadline. The session is dead; what its
    /// streams had accepted is written, as far as the fault's recovery says.
    Fault(Box<Fault>),
    /// The device died earlier, which was reported then. The session can only be dropped; a new one may be opened, of
    /// CPU lanes in this process, of an NVIDIA GPU in a new one.
    Dead,
    /// The session is a forked child's copy, which does nothing.
    Forked,
    /// The tables could not be copied to or from the device.
    Tables(std::io::Error),
    /// A ring is no longer served: what was refused, or who is silent. Waits on it have ended; the session can only be dropped.
    Ring {
        /// Which ring, and why.
        failure: ring::Failure,
        /// The first stream whose bytes could therefore not be written.
        stream: Option<StreamError>,
    },
    /// A stream's bytes could not be written; they are kept and tried again by the next `synchronize`.
    Stream(StreamError),
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(error) => write!(f, "{error}"),
            Self::Gpu(error) => write!(f, "{error}"),
            Self::Fault(fault) => write!(f, "{fault}"),
            Self::Forked => Forked.fmt(f),
            Self::Dead => f.write_str(
                "the session's device died in an earlier kernel, as was reported then: drop this session and open a new one",
            ),
            Self::Tables(error) => write!(f, "the session's tables could not be copied: {error}"),
            Self::Ring { failure, stream: None } => write!(f, "{failure}"),
            Self::Ring { failure, stream: Some(stream) } => write!(f, "{failure}; {stream}"),
            Self::Stream(error) => write!(f, "{error}"),
        }
    }
}

impl From<Forked> for SyncError {
    fn from(_: Forked) -> Self {
        Self::Forked
    }
}

impl std::error::Error for SyncError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Kernel(error) => Some(error),
            Self::Gpu(error) => Some(error),
            Self::Fault(fault) => Some(&*fault.cause),
            Self::Forked => Some(&Forked),
            Self::Dead => None,
            Self::Tables(error) => Some(error),
            Self::Ring { failure, .. } => Some(failure),
            Self::Stream(error) => Some(error),
        }
    }
}

impl Body {
    fn open(builder: &Builder, backend: Backend, owner: Owner, gate: &Arc<Gate>) -> Result<Self, OpenError> {
        // The host may make calls of its own before the first launch.
        cpu::install();
        let lease = Lease::new(owner, format!("{builder:?} {}", backend.is_gpu()));
        let (ordinary, source) =
            (backend.source(Arc::new(CpuMemory)), backend.source(Arc::clone(lease.estate()) as _));
        let memories = backend.ring_memories(builder.memory).map_err(OpenError::Ring)?;
        let own_memory = !matches!(backend, Backend::Cpu(_));
        let wanted = builder.exact_mode.then_some(builder.mode);
        let modes = modes::to_try(wanted, own_memory, modes::cores());
        let plan = builder.plan(own_memory);
        let config = builder.ring_config(&plan, &source);
        let chosen = ring::choose_among(&config, builder.rings as usize, &modes, &memories);
        let ring::Chosen { mode, memory, rings, refused, refused_memory } =
            chosen.map_err(OpenError::Ring)?;
        modes::report(mode, &refused, builder.report_fallback);
        let attendant = Attendant::start(&rings.iter().collect::<Vec<_>>()).map_err(OpenError::Ring)?;

        let pool_split = builder.staging_buffers() as usize * STAGING_BUFFER_BYTES as usize;
        let stream_buffers = plan.all_stream_buffers();
        let stream_bytes = stream_buffers as usize * plan.stream_buffer_bytes as usize;
        let keep_at = (pool_split + stream_bytes).next_multiple_of(4096);
        let survives = builder.survives.unwrap_or(own_memory);
        let host_journal = |base: u64| {
            let buffers = (stream_buffers, plan.stream_buffer_bytes);
            HostJournal::lay_out(base, &rings, builder.files, buffers, (own_memory, survives))
        };
        let records_at = (keep_at + host_journal(0).bytes).next_multiple_of(4096);
        // A device with memory of its own has the long records there.
        let bytes = records_at + if own_memory { 0 } else { plan.record_bytes(own_memory) };
        let (pool_source, address) = allocate_pool(Arc::clone(&source), bytes).map_err(OpenError::System)?;
        let runtime_pool = !Arc::ptr_eq(&pool_source, &source);
        let source = if runtime_pool { Arc::clone(&pool_source) } else { ordinary };
        let pool = PoolRegion { address, bytes, source: pool_source, stays: false };
        let host_journal = host_journal(pool.part(keep_at).as_ptr() as u64);

        // Where locked memory is scarce the rings work without registered buffers and files, a little slower.
        let pools = [(pool.address, pool_split), (pool.part(pool_split), stream_bytes)];
        // SAFETY:
        // - both parts are the session's own memory, freed only after the rings are closed (`Drop`)
        let fixed_buffers = rings.iter().all(|ring| unsafe { ring.register_buffers(&pools) }.is_ok());
        let empty = vec![-1; builder.files as usize];
        let fixed_files = rings.iter().all(|ring| ring.register_files(&empty).is_ok());

        let sizes = Sizes {
            files: builder.files,
            streams: plan.streams,
            regions: builder.regions,
            blocks_per_stream: builder.blocks_per_stream,
            record_bytes: plan.record_bytes(own_memory),
            deadline_ns: builder
                .deadline
                .map_or(0, |deadline| u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX)),
        };
        let index = |index: u32| if fixed_buffers { index } else { BufferPool::UNREGISTERED };
        let staging = PoolMemory {
            base: pool.address.as_ptr() as u64,
            buffers: builder.staging_buffers(),
            buffer_bytes: STAGING_BUFFER_BYTES,
            buffer_index: index(0),
        };
        let stream_buffers = PoolMemory {
            base: pool.part(pool_split).as_ptr() as u64,
            buffers: stream_buffers,
            buffer_bytes: plan.stream_buffer_bytes,
            buffer_index: index(1),
        };
        let assembly = builder.assembly_bytes(own_memory);
        let records = if own_memory { 0 } else { pool.part(records_at).as_ptr() as u64 };
        let own = (assembly, plan.line_buffers, records);
        let estate = lease.estate();
        let tables =
            Tables::build(estate, &rings, sizes, staging, stream_buffers, &host_journal, own, |bytes| {
                backend.device_memory(bytes)
            })
            .map_err(OpenError::System)?;
        let mut session = Self {
            gate: Arc::clone(gate),
            tables,
            launches: Vec::new(),
            attendant: Some(attendant),
            rings,
            mode,
            memory,
            refused,
            refused_memory,
            backend,
            gpu_launches: Vec::new(),
            external: false,
            source,
            runtime_pool,
            fixed_files,
            fixed_buffers,
            host_files: Vec::new(),
            seeker: Seeker::default(),
            told: Told::new(builder.report_failures),
            pool,
            pool_split,
            stream_bytes,
            host_journal,
            buffers: Vec::new(),
            placed: Vec::new(),
            values: Vec::new(),
            dead: false,
            abandoned: false,
            lease,
        };
        session.open_standard_streams();
        session.seeker = Seeker::start(session.tables.host).map_err(OpenError::System)?;
        session.route_panics().map_err(OpenError::Gpu)?;
        Ok(session)
    }

    /// Tells the device program, if it wants to know, where to note a panic.
    fn route_panics(&self) -> Result<(), GpuError> {
        let Backend::Gpu(gpu) = &self.backend else { return Ok(()) };
        let Some(route) = gpu.global(PanicRoute::NAME) else { return Ok(()) };
        let note = &raw const self.tables.host.stall().panic as u64;
        // SAFETY:
        // - the variable begins with this word, and no kernel runs yet
        unsafe { gpu.write(route, &note.to_ne_bytes()) }
    }

    /// Files and streams 0, 1 and 2. A descriptor that the process has closed gives a stream whose calls fail with `EBADF`.
    fn open_standard_streams(&self) {
        let tables = self.tables.host;
        for index in 0..3 {
            let file = tables.files_free.claim(1, 0);
            let stream = tables.streams_free.claim(1, 0);
            debug_assert!(file == Some(Claim::single(index)) && stream == Some(Claim::single(index)));
            let descriptor = index.cast_signed();
            let mut flags = files::flags_of(descriptor).unwrap_or(OpenFile::OPEN | OpenFile::HOST_OWNED);
            // The position is shared with the program, its children and its shell: the kernel's own counts, in
            // order. With one of ours, what each writes would overwrite what the others wrote.
            if flags & OpenFile::SEEKABLE != 0 {
                flags = flags & !OpenFile::SEEKABLE | OpenFile::SHARED;
            }
            if self.fixed_files && self.rings.iter().all(|ring| ring.update_file(index, descriptor).is_ok()) {
                flags |= OpenFile::FIXED;
            }
            files::enter(tables, index, descriptor, flags);
            let buffering = match index {
                2 => Buffering::None,
                _ if flags & OpenFile::TERMINAL != 0 => Buffering::Line,
                _ => Buffering::Full,
            };
            let entry = &tables.streams()[index as usize];
            entry.set_up(tables, index, flags, buffering);
            entry.position.set(tables.files()[index as usize].position.peek());
        }
    }

    /// `Session::statistics`.
    #[must_use]
    pub(super) fn statistics(&self) -> Statistics {
        let wake_ups = self.attendant.as_ref().map_or_else(Vec::new, |attendant| {
            attendant.ring_reports().iter().map(|ring| ring.wake_ups).collect()
        });
        let failures = self.failures();
        self.told.saw(failures.as_deref().unwrap_or_default());
        stats::gather(self.tables.host, &wake_ups, failures)
    }

    /// What failed; `None` if a fault took it along. While no kernel runs on a GPU.
    fn failures(&self) -> Option<Vec<FailedCalls>> {
        (!self.dead || matches!(self.backend, Backend::Cpu(_))).then(|| failures::failed(self.tables.host))
    }

    /// Tells a program that never looked of calls that failed. When the session or the process ends.
    fn tell_failures(&self) {
        match self.failures() {
            Some(failures) => self.told.tell(failures),
            None => self.told.tell_unknown(),
        }
    }

    /// `Session::launch`.
    pub(super) fn launch<F>(&mut self, grid: Grid, kernel: F) -> Result<(), LaunchError>
    where
        F: Fn(&'static SessionTables) + Send + Sync + 'static,
    {
        let tables = self.tables.host;
        let options = self.cpu_options()?.clone();
        if let Some(attendant) = &self.attendant {
            attendant.begin();
        }
        match cpu::spawn(grid, &options, move || kernel(tables)) {
            Ok(launched) => {
                self.launches.push(launched);
                Ok(())
            }
            Err(error) => {
                if let Some(attendant) = &self.attendant {
                    attendant.end();
                }
                Err(error)
            }
        }
    }

    fn cpu_options(&self) -> Result<&CpuOptions, LaunchError> {
        match &self.backend {
            _ if self.dead => Err(LaunchError::Dead),
            Backend::Cpu(options) => Ok(options),
            Backend::Gpu(_) => Err(LaunchError::NotHere),
        }
    }

    /// `Session::start`.
    pub(super) fn start<K: Kernel>(&mut self, grid: Grid, arguments: K::Arguments) -> Result<(), SyncError> {
        if self.dead {
            return Err(SyncError::Dead);
        }
        match &self.backend {
            Backend::Cpu(_) => {
                self.launch(grid, move |tables| K::run(tables, arguments)).map_err(SyncError::Kernel)
            }
            Backend::Gpu(gpu) => {
                if grid.blocks == 0 || grid.threads == 0 {
                    return Err(SyncError::Kernel(LaunchError::EmptyGrid(grid)));
                }
                if self.gpu_launches.is_empty() && !self.external {
                    self.tables.push().map_err(SyncError::Tables)?;
                }
                let session = self.tables.device_address;
                if let Some(attendant) = &self.attendant {
                    attendant.begin();
                }
                // SAFETY:
                // - the kernel of that name was declared with these arguments, which the macro that made both guarantees
                // - the tables stay as long as the session, which synchronizes before it goes
                let launched = unsafe { gpu::Launch::start(gpu, K::NAME, grid, session, arguments) };
                match launched {
                    Ok(launch) => self.gpu_launches.push(launch),
                    Err(error) => {
                        if let Some(attendant) = &self.attendant {
                            attendant.end();
                        }
                        return Err(SyncError::Gpu(error));
                    }
                }
                Ok(())
            }
        }
    }

    /// `Session::is_finished`.
    #[must_use]
    pub(super) fn is_finished(&self) -> bool {
        self.launches.iter().all(Launched::is_finished)
            && self.gpu_launches.iter().all(gpu::Launch::is_finished)
    }

    /// An error while kernels have been started that were not synchronized with.
    fn check_idle(&self) -> std::io::Result<()> {
        if self.launches.is_empty() && self.gpu_launches.is_empty() && !self.external {
            return Ok(());
        }
        Err(std::io::Error::new(
            std::io::ErrorKind::ResourceBusy,
            "kernels are running; call synchronize first",
        ))
    }

    /// `Session::run`.
    pub(super) fn run<F>(&mut self, grid: Grid, kernel: F) -> Result<(), SyncError>
    where
        F: Fn(&'static SessionTables) + Sync,
    {
        let tables = self.tables.host;
        let ran = self.cpu_options().and_then(|options| {
            let _attention = self.attendant.as_ref().map(Attendant::attention);
            let _lanes = self.gate.lanes();
            cpu::launch(grid, options, || kernel(tables))
        });
        self.finish(ran)
    }

    /// `Session::synchronize`.
    pub(super) fn synchronize(&mut self) -> Result<(), SyncError> {
        self.finish(Ok(()))
    }

    /// [`Session::synchronize`], after a kernel that has ended so.
    fn finish(&mut self, ran: Result<(), LaunchError>) -> Result<(), SyncError> {
        if self.dead {
            return Err(SyncError::Dead);
        }
        let mut outcome = ran.map_err(SyncError::Kernel);
        for launched in self.launches.drain(..) {
            let ended = {
                let _lanes = self.gate.lanes();
                launched.join()
            };
            outcome = outcome.and(ended.map_err(SyncError::Kernel));
            if let Some(attendant) = &self.attendant {
                attendant.end();
            }
        }
        if outcome.is_err() {
            let _attention = self.attendant.as_ref().map(Attendant::attention);
            let staging = self.pool_split / STAGING_BUFFER_BYTES as usize;
            unwound::let_go(self.tables.host, u32::try_from(staging).unwrap_or(u32::MAX));
        }
        if !self.gpu_launches.is_empty() || self.external {
            match self.wait_for_gpu() {
                Err(cause) if cause.is_fault() => return Err(self.after_fault(Box::new(cause))),
                ended => {
                    outcome = outcome
                        .and(ended.map_err(SyncError::Gpu))
                        .and(self.tables.pull().map_err(SyncError::Tables));
                }
            }
        }
        let _attention = self.attendant.as_ref().map(Attendant::attention);
        let flushed = flush::flush_streams(self.tables.host);
        for entry in self.tables.host.shared.entries() {
            entry.forget();
        }
        if let Some(failure) = self.ring_failure() {
            // Lanes that gave up on it, and streams that could not be written, are its consequences.
            return Err(SyncError::Ring { failure, stream: flushed.err() });
        }
        outcome.and(flushed.map_err(SyncError::Stream))
    }

    /// `Session::ring_failure`.
    fn ring_failure(&self) -> Option<ring::Failure> {
        self.attendant.as_ref().and_then(Attendant::failure)
    }

    /// The tables, where lanes on the CPU have them.
    fn lanes(&self) -> Option<&'static SessionTables> {
        matches!(self.backend, Backend::Cpu(_)).then_some(self.tables.host)
    }

    /// Waits until every kernel has ended, or until then; whether all have.
    fn wait_until(&self, until: Instant) -> bool {
        while !self.is_finished() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let (true, Backend::Gpu(gpu)) = (self.external, &self.backend) else { return true };
        // The runtime's wait has no limit. Where it does not return in time, the process ends with its thread in it.
        let (gpu, (sender, ended)) = (Arc::clone(gpu), std::sync::mpsc::channel());
        let waiting = std::thread::Builder::new().spawn(move || {
            let _ = gpu.settle();
            let _ = sender.send(());
        });
        waiting.is_ok() && ended.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok()
    }

    /// The process ends, and the GPU's runtime has ended before: writes what the streams had accepted from what lies in host memory. What to
    /// say of it.
    fn recover_at_exit(&mut self, cause: Box<dyn std::error::Error + Send + Sync>) -> String {
        if self.runtime_pool || !self.host_journal.is_enabled() {
            return format!("what streams had buffered is lost: {cause}");
        }
        self.after_fault(cause).to_string()
    }

    /// Waits for the kernels on the GPU; the first error.
    fn wait_for_gpu(&mut self) -> Result<(), GpuError> {
        let mut outcome = Ok(());
        let _lanes = self.gate.lanes();
        if let (true, Backend::Gpu(gpu)) = (mem::take(&mut self.external), &self.backend) {
            outcome = gpu.settle();
            if let Some(attendant) = &self.attendant {
                attendant.end();
            }
        }
        for launch in self.gpu_launches.drain(..) {
            outcome = outcome.and(launch.wait());
            if let Some(attendant) = &self.attendant {
                attendant.end();
            }
        }
        outcome
    }

    /// The device has died of `cause`: saves what the streams had accepted.
    fn after_fault(&mut self, mut cause: Box<dyn std::error::Error + Send + Sync>) -> SyncError {
        self.dead = true;
        let failure = self.ring_failure();
        if let Some(failure) = failure {
            cause = Box::new(failure);
        }
        let _attention = self.attendant.as_ref().map(Attendant::attention);
        let host = self.tables.host;
        let buffers = self.stream_bytes / host.stream_buffers.buffer_bytes as usize;
        let buffers = u32::try_from(buffers).unwrap_or(u32::MAX);
        let recovery =
            recover::recover(host, buffers, &self.host_journal, &self.rings, flush::patience(host));
        SyncError::Fault(Box::new(Fault {
            cause,
            panicked: recover::panicked(&host.stall().panic),
            stalled: if failure.is_some() { None } else { StalledAt::of(host.stall()) },
            recovery,
        }))
    }

    /// `Session::pretend_fault`.
    #[doc(hidden)]
    pub(super) unsafe fn pretend_fault(&mut self) -> SyncError {
        self.abandoned = true;
        for launched in self.launches.drain(..) {
            drop(launched);
            if let Some(attendant) = &self.attendant {
                attendant.end();
            }
        }
        self.after_fault("a pretended fault".into())
    }

    /// Registers the pools and all buffers with every ring, in place of what was registered.
    fn register_all_buffers(&self) -> Result<(), RingError> {
        let mut all =
            vec![(self.pool.address, self.pool_split), (self.pool.part(self.pool_split), self.stream_bytes)];
        all.extend(self.buffers.iter().map(|buffer| (buffer.address, buffer.bytes)));
        for ring in &self.rings {
            ring.unregister_buffers()?;
            // SAFETY:
            // - the session's own memory, freed only after the rings are closed (`Drop`)
            unsafe { ring.register_buffers(&all)? };
        }
        Ok(())
    }

    /// Waits until nothing is in flight, for a while; whether that is so.
    fn settle(&self) -> bool {
        let started = Instant::now();
        loop {
            let idle = if self.dead {
                self.rings.iter().all(|ring| ring.tails().0 == ring.tails().1)
            } else {
                let tables = self.tables.host;
                for queue in tables.queues() {
                    queue.drain_alone(64);
                }
                for stream in tables.streams() {
                    stream.lines.reclaim_slots(tables);
                }
                tables.queues().iter().all(|queue| queue.free_slots() == queue.capacity())
            };
            if idle {
                return true;
            }
            if started.elapsed() > Duration::from_secs(1) {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Makes every handle that outlives the session meet closed tables.
    fn close_tables(&self) {
        let tables = self.tables.host;
        while tables.streams_free.claim(64, 0).is_some() {}
        for entry in tables.shared.entries() {
            entry.kill();
        }
        while tables.files_free.claim(64, 0).is_some() {}
        // A lane formats before it asks whether its stream is open.
        while tables.records.free.claim(64, 0).is_some() {}
        for stream in tables.streams() {
            if stream.generation.peek() % 2 == 1 {
                stream.close_cursor();
                stream.generation.fetch_add(1);
            }
        }
        for (index, file) in (0..).zip(tables.files()) {
            let flags = file.flags.peek();
            // ORDERING: release, device: no kernel runs.
            file.flags.publish(0);
            let opened = if !self.dead && flags & OpenFile::OPEN != 0 {
                (flags & OpenFile::HOST_OWNED == 0).then(|| file.descriptor.peek().cast_signed())
            } else {
                // Of a dead device, or of a lane that was unwound while it opened the file. The rings are at rest, or were waited for
                // (`settle`): what has not completed never does, but for an open that hangs.
                let opening = |token| recover::result_of(&self.host_journal, &self.rings, token);
                let journal = &tables.journal;
                journal
                    .opened(index)
                    .or_else(|| opening(journal.opening(index)?).filter(|number| *number >= 0))
            };
            if let Some(descriptor) = opened {
                // SAFETY:
                // - the descriptor was opened by a kernel of this session for this entry, and nobody else closes it
                unsafe { libc::close(descriptor) };
            }
        }
    }
}

/// Memory that the host, the kernel and the device reach at one address.
fn allocate_shared(source: &dyn MemorySource, bytes: usize) -> std::io::Result<NonNull<u8>> {
    let address = source.allocate(bytes, 4096)?;
    // SAFETY:
    // - allocated above, and freed by `free_shared`, which undoes this first
    let shared = unsafe { source.share(address, bytes) };
    match shared {
        Ok(device) if device == address => Ok(address),
        other => {
            // SAFETY:
            // - allocated above; unshared if it was shared; nobody has seen it
            unsafe {
                if other.is_ok() {
                    source.unshare(address, bytes);
                }
                source.free(address, bytes);
            }
            Err(other.err().unwrap_or_else(|| {
                std::io::Error::other("the device sees host memory at another address than the host; gpufs needs one address for both")
            }))
        }
    }
}

/// Memory for the pools, from the source, or else from the runtime's own allocator, and the source that it came from: what the device
/// sees at another address than the host when it is registered may have one address when the runtime allocates it.
fn allocate_pool(
    source: Arc<dyn MemorySource>,
    bytes: usize,
) -> std::io::Result<(Arc<dyn MemorySource>, NonNull<u8>)> {
    allocate_shared(&*source, bytes).map(|address| (Arc::clone(&source), address)).or_else(|error| {
        let runtime = source.runtime().ok_or(error)?;
        let address = allocate_shared(&*runtime, bytes)?;
        Ok((runtime, address))
    })
}

/// Undoes [`allocate_shared`].
///
/// # Safety
/// The memory came from `allocate_shared` with the same source and size, and nobody uses it any more.
unsafe fn free_shared(source: &dyn MemorySource, address: NonNull<u8>, bytes: usize) {
    // SAFETY:
    // - by this function's contract
    unsafe {
        source.unshare(address, bytes);
        source.free(address, bytes);
    }
}

impl PoolRegion {
    /// The address `offset` bytes in.
    fn part(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.bytes);
        // SAFETY:
        // - within the region, as checked
        unsafe { self.address.add(offset) }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if !self.dead
            && let Err(error) = self.synchronize()
        {
            eprintln!("gpufs: while closing a session: {error}");
        }
        let settled = {
            let _attention = self.attendant.as_ref().map(Attendant::attention);
            self.settle()
        };
        if !self.dead && !self.abandoned {
            seeker::leave_standard_streams(self.tables.host);
        }
        self.tell_failures();
        self.close_tables();
        self.attendant = None;
        self.rings.clear();
        if !self.abandoned {
            self.tables.close();
        }
        if !settled || self.abandoned {
            // An operation that was given up on (a deadline) may still use its buffer: the memory stays the kernel's.
            self.pool.stays = true;
            return;
        }
        for buffer in self.buffers.drain(..) {
            // SAFETY:
            // - allocated by this session; the rings are closed, nothing is in flight, and no kernel runs
            unsafe { free_shared(&*self.source, buffer.address, buffer.bytes) };
        }
        self.give_back_values();
    }
}

impl Drop for PoolRegion {
    fn drop(&mut self) {
        if !self.stays {
            // SAFETY:
            // - allocated with this source; the session is closed, with nothing in flight, or was never opened
            unsafe { free_shared(&*self.source, self.address, self.bytes) };
        }
    }
}
