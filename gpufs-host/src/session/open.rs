//! Opening a session: from the builder's choices to rings, memory and tables, step by step.
//!
//! 1. What the choices mean on this device: sizes, modes, kinds of ring memory ([`Body::open`]).
//! 2. The rings, in the best mode that works, and their service ([`Served::open`]).
//! 3. The session's memory, which the rings register ([`Data::allocate`]).
//! 4. The tables over both, with every stream, file and slot free ([`Data::tables`]).
//! 5. The standard streams, the thread that moves their positions, and where the device notes a panic.
#![expect(unsafe_code, reason = "registers the session's memory with its rings")]

use std::io;
use std::sync::Arc;

use gpufs_core::alloc::BufferPool;
use gpufs_core::pieces::PAGE_BYTES;
use gpufs_core::session::PanicRoute;

use super::alone::new_number;
use super::builder::{Builder, STAGING_BUFFER_BYTES};
use super::cached::Mapped;
use super::estate::Lease;
use super::failures::ReportedFailures;
use super::host_journal::HostJournal;
use super::live::Gate;
use super::memory::{Parts, SessionMemory};
use super::open_error::OpenError;
use super::seeker::Seeker;
use super::sizes::Plan;
use super::state::State;
use super::tables::{Contents, PoolMemory, Sizes, Tables};
use super::trace::{SessionTrace, Span};
use super::{Backend, Body, Owner, modes, standard};
use crate::cpu;
use crate::gpu::GpuError;
use crate::ring::{self, Chosen, Confined, CpuMemory, MemorySource, Mode, Ring, RingConfig, RingService};

/// Entries of the service ring: a call of as many warps as keep its workers busy.
const SERVICE_ENTRIES: u32 = 1024;

/// Rings that work, and their service.
struct Served {
    chosen: Chosen,
    service: RingService,
}

impl Served {
    fn open(
        builder: &Builder,
        backend: &Backend,
        plan: &Plan,
        source: &Arc<dyn MemorySource>,
        confined: Option<Arc<Confined>>,
    ) -> Result<Self, OpenError> {
        let memories = backend.ring_memories(builder.memory).map_err(OpenError::Ring)?;
        let wanted = builder.exact_mode.then_some(builder.mode);
        let modes = modes::to_try(wanted, backend.is_gpu(), modes::cores());
        let config = RingConfig { confined, ..builder.ring_config(plan, source) };
        let mut chosen = ring::choose_among(&config, builder.rings as usize, &modes, &memories)
            .map_err(OpenError::Ring)?;
        if chosen.mode != Mode::Threads {
            // A warp's calls go at once, and more warps than fit wait for slots.
            let config = RingConfig {
                memory: chosen.memory,
                entries: SERVICE_ENTRIES,
                cq_entries: 2 * SERVICE_ENTRIES,
                ..config
            };
            chosen.rings.push(Ring::open_for_services(&config).map_err(OpenError::Ring)?);
        }
        modes::report(chosen.mode, &chosen.refused, builder.report_fallback);
        let service =
            RingService::start(&chosen.rings.iter().collect::<Vec<_>>()).map_err(OpenError::Ring)?;
        Ok(Self { chosen, service })
    }
}

/// The session's memory, and what the rings know of it.
struct Data {
    memory: SessionMemory,
    host_journal: HostJournal,
    /// Whether the rings have registered the two pools.
    fixed_buffers: bool,
    /// Whether the rings have a table of registered files.
    fixed_files: bool,
}

impl Data {
    fn allocate(
        builder: &Builder,
        own_memory: bool,
        plan: &Plan,
        chosen: &Chosen,
        source: &Arc<dyn MemorySource>,
    ) -> io::Result<Self> {
        let rings = &chosen.rings;
        let buffers = (plan.all_stream_buffers(), plan.stream_buffer_bytes);
        let survives = builder.survives.unwrap_or(own_memory);
        let journal_at =
            |base: u64| HostJournal::lay_out(base, rings, builder.files, buffers, (own_memory, survives));
        let parts = Parts {
            staging: builder.staging_buffers() as usize * STAGING_BUFFER_BYTES as usize,
            asynchronous: builder.async_buffers() as usize * STAGING_BUFFER_BYTES as usize,
            listings: builder.listing_buffers() as usize * STAGING_BUFFER_BYTES as usize,
            streams: buffers.0 as usize * buffers.1 as usize,
            journal: journal_at(0).bytes,
            pieces: plan.piece_pages() as usize * PAGE_BYTES as usize,
            // A device with memory of its own has the long records there.
            records: if own_memory { 0 } else { plan.record_bytes(own_memory) },
        };
        let memory = SessionMemory::allocate(source, parts)?;
        let host_journal = journal_at(memory.journal().as_ptr() as u64);
        // Where locked memory is scarce the rings work without registered buffers and files, a little slower.
        let pools = memory.pools();
        // SAFETY:
        // - both pools are the session's own memory, freed only after the rings are closed (`close.rs`)
        let fixed_buffers = rings.iter().all(|ring| unsafe { ring.register_buffers(&pools) }.is_ok());
        let empty = vec![-1; builder.files as usize];
        let fixed_files = rings.iter().all(|ring| ring.register_numbers(&empty).is_ok());
        Ok(Self { memory, host_journal, fixed_buffers, fixed_files })
    }

    fn tables(
        &self,
        builder: &Builder,
        backend: &Backend,
        plan: &Plan,
        chosen: &Chosen,
        lease: &Lease,
    ) -> io::Result<Tables> {
        let own_memory = backend.is_gpu();
        let nanoseconds = |limit: Option<std::time::Duration>| {
            limit.map_or(0, |limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
        };
        let index = |index: u32| if self.fixed_buffers { index } else { BufferPool::UNREGISTERED };
        let contents = Contents {
            rings: &chosen.rings,
            sizes: Sizes {
                files: builder.files,
                streams: plan.streams,
                regions: builder.regions,
                blocks_per_stream: builder.blocks_per_stream,
                record_bytes: plan.record_bytes(own_memory),
                cached: builder.cached,
                deadline_ns: nanoseconds(builder.deadline),
                wait_limit_ns: nanoseconds(builder.wait_limit),
            },
            staging: PoolMemory {
                base: self.memory.staging().as_ptr() as u64,
                buffers: builder.staging_buffers(),
                buffer_bytes: STAGING_BUFFER_BYTES,
                buffer_index: index(0),
            },
            async_buffers: PoolMemory {
                base: self.memory.asynchronous().as_ptr() as u64,
                buffers: builder.async_buffers(),
                buffer_bytes: STAGING_BUFFER_BYTES,
                buffer_index: index(0),
            },
            listings: PoolMemory {
                base: self.memory.listings().as_ptr() as u64,
                buffers: builder.listing_buffers(),
                buffer_bytes: STAGING_BUFFER_BYTES,
                buffer_index: index(0),
            },
            stream_buffers: PoolMemory {
                base: self.memory.streams().as_ptr() as u64,
                buffers: plan.all_stream_buffers(),
                buffer_bytes: plan.stream_buffer_bytes,
                buffer_index: index(1),
            },
            pieces: PoolMemory {
                base: self.memory.pieces().as_ptr() as u64,
                buffers: plan.piece_pages(),
                buffer_bytes: PAGE_BYTES,
                buffer_index: BufferPool::UNREGISTERED,
            },
            host_journal: &self.host_journal,
            coalescing_bytes: builder.coalescing_bytes(own_memory),
            line_buffers: plan.line_buffers,
            confined: builder.sandbox.is_some(),
            opens_at_once: builder.sandbox.is_none() && chosen.rings.iter().all(Ring::opens_at_once),
        };
        let records = if own_memory { 0 } else { self.memory.records().as_ptr() as u64 };
        Tables::build(lease.estate(), &contents, records, &|bytes| backend.device_memory(bytes))
    }

    /// A sandbox's rings are restricted to registered buffers.
    fn check_for_sandbox(&self) -> Result<(), OpenError> {
        if self.fixed_buffers {
            return Ok(());
        }
        let text = "a sandbox needs registered buffers, and the rings could not register the session's: raise the limit of locked memory \
                    (`ulimit -l`), or ask for fewer buffers";
        Err(OpenError::Sandbox(text.into()))
    }
}

/// Puts the builder's sandbox in force, if it has one.
fn confine(builder: &Builder) -> Result<Option<Arc<Confined>>, OpenError> {
    let Some(sandbox) = &builder.sandbox else { return Ok(None) };
    let confined = Confined::start(sandbox).map_err(OpenError::Sandbox)?;
    for lack in &confined.weaker {
        eprintln!("gpufs: the sandbox is weaker than it is meant to be: this Linux has {lack}");
    }
    Ok(Some(Arc::new(confined)))
}

impl Body {
    /// Opens a session with checked choices.
    pub(super) fn open(
        builder: &Builder,
        backend: Backend,
        owner: Owner,
        gate: &Arc<Gate>,
    ) -> Result<Self, OpenError> {
        let number = new_number();
        let trace = SessionTrace::begin(builder, number)?;
        let _span = Span::begin(trace.as_ref(), "open", None);
        // The host may make calls of its own before the first launch.
        cpu::install();
        let lease = Lease::new(owner, format!("{builder:?} {}", backend.is_gpu()));
        let (ordinary, source) =
            (backend.source(Arc::new(CpuMemory)), backend.source(Arc::clone(lease.estate()) as _));
        let own_memory = backend.is_gpu();
        let plan = builder.plan(own_memory);
        standard::check(builder)?;
        let confined = confine(builder)?;
        let Served { chosen, service } = Served::open(builder, &backend, &plan, &source, confined.clone())?;
        let data = Data::allocate(builder, own_memory, &plan, &chosen, &source).map_err(OpenError::System)?;
        confined.is_some().then(|| data.check_for_sandbox()).transpose()?;
        let tables = data.tables(builder, &backend, &plan, &chosen, &lease).map_err(OpenError::System)?;
        let Chosen { mode, memory: ring_memory, rings, refused, refused_memory } = chosen;
        let Data { memory, host_journal, fixed_buffers, fixed_files } = data;
        let source = if memory.is_of_runtime { Arc::clone(memory.source()) } else { ordinary };
        let mut session = Self {
            gate: Arc::clone(gate),
            trace,
            number,
            mapped: Mapped::all(number, tables.host.cache.mappings()),
            shared_sets: 0,
            tables,
            state: State::Idle,
            kept_thread: None,
            service: Some(service),
            rings,
            mode,
            ring_memory,
            refused,
            refused_memory,
            backend,
            source,
            fixed_files,
            fixed_buffers,
            host_files: Vec::new(),
            seeker: Seeker::default(),
            reported: ReportedFailures::new(builder.report_failures),
            memory,
            host_journal,
            buffers: Vec::new(),
            channels: Vec::new(),
            placed: Vec::new(),
            values: Vec::new(),
            services: Arc::clone(&builder.services),
            confined,
            standard_output: builder.standard_output.clone(),
            lease,
        };
        session.open_standard_streams(builder.standard_output.as_ref());
        session.tables.gate.open(session.number, session.backend.is_gpu()); // dropping it closes the gate
        if session.confined.is_none() {
            session.seeker = Seeker::start(session.tables.host).map_err(OpenError::System)?;
        }
        session.route_panics().map_err(OpenError::Gpu)?;
        if let Some(trace) = &mut session.trace {
            trace.sample(session.tables.host).map_err(OpenError::System)?;
        }
        Ok(session)
    }

    /// Tells a device program that asks where to note a panic.
    fn route_panics(&self) -> Result<(), GpuError> {
        let Backend::Gpu(gpu) = &self.backend else { return Ok(()) };
        let Some(route) = gpu.global(PanicRoute::NAME) else { return Ok(()) };
        let note = &raw const self.tables.host.stall().panic as u64;
        // SAFETY:
        // - the variable begins with this word, and no kernel runs yet
        unsafe { gpu.write(route, &note.to_ne_bytes()) }
    }
}
