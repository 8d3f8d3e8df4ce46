//! Choosing a session's sizes and opening it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gpufs_core::alloc::BufferPool;
use gpufs_core::stream::BLOCKS_MAX;

use super::cached::CacheSizes;
use super::open_error::OpenError;
use super::sizes::{PIECE_BYTES_MAX, Plan, RING_ENTRIES_MAX, SLOTS_BESIDE_STREAMS};
use super::standard::StandardOutput;
use super::{Backend, Session, limits};
use crate::cpu::CpuOptions;
#[cfg(feature = "cuda")]
use crate::cuda;
#[cfg(feature = "cuda")]
use crate::gpu::GpuError;
#[cfg(any(feature = "cuda", feature = "hip"))]
use crate::gpu::GpuOptions;
#[cfg(feature = "hip")]
use crate::hip;
use crate::ring::{MemorySource, Mode, RingConfig, RingMemory, Sandbox, ServiceError, Services};

/// Sizes and choices of a session. Made by [`Session::builder`]; each has a default that suits a small machine.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(super) rings: u32,
    pub(super) ring_entries: Option<u32>,
    pub(super) mode: Mode,
    pub(super) exact_mode: bool,
    pub(super) memory: Option<RingMemory>,
    pub(super) idle: Duration,
    pub(super) staging_bytes: Option<usize>,
    pub(super) stream_bytes: Option<usize>,
    pub(super) stream_buffer_bytes: Option<u32>,
    pub(super) blocks_per_stream: u32,
    pub(super) files: u32,
    pub(super) streams: Option<u32>,
    pub(super) regions: u32,
    pub(super) deadline: Option<Duration>,
    pub(super) wait_limit: Option<Duration>,
    pub(super) gpu_stack_bytes: usize,
    pub(super) survives: Option<bool>,
    pub(super) report_failures: bool,
    pub(super) report_fallback: bool,
    pub(super) gpu_registers: Option<u32>,
    pub(super) assembly: Option<usize>,
    pub(super) read_ahead: Option<usize>,
    pub(super) trace_memory: Option<usize>,
    pub(super) cached: CacheSizes,
    pub(super) services: Arc<Services>,
    /// The first service that was refused.
    pub(super) refused_service: Option<ServiceError>,
    pub(super) sandbox: Option<Sandbox>,
    pub(super) standard_output: Option<StandardOutput>,
    pub(super) trace: Option<PathBuf>,
}

/// The default of coalescing buffers on a GPU: one for each warp of a kernel with many registers.
const GPU_ASSEMBLY_BYTES: usize = 8 << 20;
/// Bytes of a staging buffer: a page, so that the kernel may use it for anything.
pub(super) const STAGING_BUFFER_BYTES: u32 = 4096;
/// What calls have for them by default.
pub(super) const STAGING_BYTES: usize = 12 << 20;
/// What one asynchronous operation may want, and as much again.
const ASYNC_BUFFERS_MIN: u32 = 2 * BufferPool::BUFFERS_MAX;
/// Directories whose entries a small session reads ahead.
const LISTING_BUFFERS_MIN: u32 = 16;

impl Default for Builder {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            // A ring's SQPOLL thread keeps a core busy while kernels do I/O.
            rings: u32::try_from(cores / 2).unwrap_or(u32::MAX).clamp(1, 4),
            ring_entries: None,
            mode: Mode::Sqpoll,
            exact_mode: false,
            memory: None,
            idle: Duration::from_secs(1),
            staging_bytes: None,
            stream_bytes: None,
            stream_buffer_bytes: None,
            blocks_per_stream: 32,
            files: 1024,
            streams: None,
            regions: 64,
            deadline: None,
            wait_limit: None,
            gpu_stack_bytes: 8 << 10,
            survives: None,
            report_failures: true,
            report_fallback: true,
            gpu_registers: None,
            assembly: None,
            read_ahead: None,
            trace_memory: None,
            cached: CacheSizes::default(),
            services: Arc::default(),
            refused_service: None,
            sandbox: None,
            standard_output: None,
            trace: None,
        }
    }
}

impl Builder {
    /// Rings, 1 to 64. Default: half the cores, 1 to 4. Each keeps up to a core busy while kernels do I/O.
    #[must_use]
    pub fn rings(mut self, rings: u32) -> Self {
        self.rings = rings;
        self
    }
    /// Submission entries of a ring, a power of two up to 32,768: operations in flight at once. Default: 64 more than there are stream
    /// buffers, rounded up, at least 1,024.
    #[must_use]
    pub fn ring_entries(mut self, entries: u32) -> Self {
        self.ring_entries = Some(entries);
        self
    }
    /// What serves the rings; no other mode is tried. Default: the best that works here, `sqpoll` first; on CPU lanes with fewer than eight
    /// cores `enter` first, since a thread that polls takes a core from the lanes.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self.exact_mode = true;
        self
    }
    /// What allocates the rings; nothing else is tried. Default: the first that works of the kernel, the caller and the device's runtime.
    #[must_use]
    pub fn ring_memory(mut self, memory: RingMemory) -> Self {
        self.memory = Some(memory);
        self
    }
    /// How long an idle SQPOLL thread polls before it sleeps. Default one second.
    #[must_use]
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }
    /// Bytes of pinned memory for data: half for calls in progress, half for the buffers of streams. Default 12 MiB for calls and 40 MiB for
    /// streams, or as much as the chosen number of streams needs with the chosen stream buffers. Beside them a session has a third of the
    /// memory for calls for operations that are started and waited for later, and a sixteenth for the entries of directories. Where there is a
    /// [cache](Builder::cache) of more than 48 MiB, and the bytes are not chosen, calls have memory for 768 of its pages, if that is more than 12
    /// MiB, up to a quarter of the cache, and 48 MiB.
    ///
    /// A text that is kept whole until it is written is at most 4 MiB long, with the texts of all lanes together; 256 KiB where streams have
    /// less than 8 MiB on a GPU, or less than 256 KiB on CPU lanes. A longer one is `ENOMEM`.
    #[must_use]
    pub fn buffers(mut self, bytes: usize) -> Self {
        self.staging_bytes = Some(bytes / 2);
        self.stream_bytes = Some(bytes / 2);
        self
    }
    /// Bytes of device memory in which a warp puts its lanes' records side by side, before they cross the bus as wide words. A warp that
    /// finds none free writes lane by lane. Default: 8 MiB on a GPU; 0 on CPU lanes, where there is no bus and every lane copies by itself.
    #[must_use]
    pub fn assembly(mut self, bytes: usize) -> Self {
        self.assembly = Some(bytes);
        self
    }
    /// Bytes of device memory for reading ahead: lines (`fgets`) that whole warps take one after the other are read ahead, and taken without
    /// the stream's lock. Such a stream has up to 32 stream buffers, and each takes twice its own size here. These buffers are added to those
    /// of [`Builder::buffers`], as far as `ring_entries` allow. A stream that finds none free is read under its lock. Default: 8 MiB on a
    /// GPU, enough for one stream at a time; 0 on CPU lanes.
    #[must_use]
    pub fn read_ahead(mut self, bytes: usize) -> Self {
        self.read_ahead = Some(bytes);
        self
    }
    /// Bytes of pinned memory for what kernels trace (`gpufs_device::trace`): each warp that opens a trace keeps its events in a piece of its own, of
    /// 1 to 16 KiB, until there are many. Warps of a grid of which there are more than KiB write into the trace's stream one after the other: spans
    /// of a full GPU's 8,448 warps take a hundred times longer so. 16 MiB serve these. Whole KiB, at most 1 GiB. Default: 256 KiB, or an eighth of
    /// what streams have for their buffers, whichever is less.
    #[must_use]
    pub fn trace_memory(mut self, bytes: usize) -> Self {
        self.trace_memory = Some(bytes);
        self
    }
    /// Bytes of one stream buffer, a power of two from 4 KiB to 1 MiB: the size of one write of a fully buffered stream. Default 128 KiB; less
    /// where the chosen streams would not all have one, more where there would be more buffers than a ring has entries.
    #[must_use]
    pub fn stream_buffer(mut self, bytes: u32) -> Self {
        self.stream_buffer_bytes = Some(bytes);
        self
    }
    /// Buffers of a stream that writes much: 1, 2, 4, 8, 16 or 32. A stream begins with one. When that is full, it takes the others from
    /// the buffers that remain after one for each stream, at most half of those at once, and a third once it has 16. Default 32.
    #[must_use]
    pub fn blocks_per_stream(mut self, blocks: u32) -> Self {
        self.blocks_per_stream = blocks;
        self
    }
    /// Files that can be open at once, the three standard ones included: 3 to 1,048,576. Default 1,024.
    #[must_use]
    pub fn files(mut self, files: u32) -> Self {
        self.files = files;
        self
    }
    /// Streams that can be open at once, including the three standard ones: all of them for writing, as each has a stream buffer of its own.
    /// Where [`Builder::buffers`] and [`Builder::stream_buffer`] were both chosen and leave fewer buffers, there are as many streams as two
    /// thirds of those. With all open, `fopen` fails with `EMFILE`. Default 256, or those two thirds.
    #[must_use]
    pub fn streams(mut self, streams: u32) -> Self {
        self.streams = Some(streams);
        self
    }
    /// Buffers that the host can register: up to 1,024. Default 64.
    #[must_use]
    pub fn registered_buffers(mut self, regions: u32) -> Self {
        self.regions = regions;
        self
    }
    /// The time without progress after which a wait gives up, at least a millisecond. A wait on the device then ends its kernel, and
    /// reports where it waited; a call of the host fails with `ETIMEDOUT`, and its operation is cancelled. Default: never.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }
    /// How long a lane waits for another party, at least a millisecond: then its call fails with `ETIMEDOUT`, holds nothing any more, and may be
    /// made again. Of reads and writes of pipes, FIFOs, sockets and terminals, and of streams that read them; of opening a FIFO that nobody
    /// reads; of `accept` and `connect`, locks, and processes that run on. Not of a `poll(2)`, which has its own, of what streams write, nor of an
    /// operation that the system ends by itself. Default: no limit.
    #[must_use]
    pub fn wait_limit(mut self, limit: Duration) -> Self {
        self.wait_limit = Some(limit);
        self
    }

    /// Whether bytes that a call on a stream has accepted outlive a fault of the device, which destroys the device's memory:
    /// [`Session::synchronize`] then writes them. For that, each call notes in host memory which of the stream's bytes are whole, and waits
    /// until they have arrived there. Without it calls are faster, and a fault loses the buffered bytes. Default: yes on a GPU; no on CPU
    /// lanes, where a panic of a lane leaves the tables intact.
    #[must_use]
    pub fn survives(mut self, survives: bool) -> Self {
        self.survives = Some(survives);
        self
    }

    /// Whether the session reports failed calls to a program that has not asked for them by [`Session::statistics`]: a line for each call and
    /// error on the standard error, when the session is closed or the process ends. Default: yes.
    #[must_use]
    pub fn report_failures(mut self, report: bool) -> Self {
        self.report_failures = report;
        self
    }

    /// Whether a line on the standard error reports, once in a process, that the best mode is refused here, and why. Default: yes, unless
    /// the environment variable `GPUFS_QUIET` is set and not empty.
    #[must_use]
    pub fn report_fallback(mut self, report: bool) -> Self {
        self.report_fallback = report;
        self
    }

    /// Opens a session whose kernels run on CPU lanes.
    ///
    /// # Errors
    /// A size that does not fit; what the machine lacks, and how to get it.
    pub fn cpu(self) -> Result<Session, OpenError> {
        self.cpu_with(CpuOptions::default())
    }

    /// Opens a session whose kernels run on CPU lanes, with these options.
    ///
    /// # Errors
    /// As [`Builder::cpu`].
    pub fn cpu_with(self, options: CpuOptions) -> Result<Session, OpenError> {
        self.check()?;
        limits::check_lanes(&options)?;
        Session::open(&self, Backend::Cpu(options))
    }

    /// Opens a session on the first NVIDIA GPU, or on CPU lanes where there is no such GPU, no driver, or no program for one: `program` is empty. A
    /// line on the standard error says so, once in a process, unless [`Builder::report_fallback`] is off.
    ///
    /// # Errors
    /// As [`Builder::cuda`] where there is a GPU: one that cannot be used is not passed over. As [`Builder::cpu`] where there is none.
    #[cfg(feature = "cuda")]
    pub fn open(self, program: &[u8]) -> Result<Session, OpenError> {
        let why = if program.is_empty() {
            "it was built without a program for GPUs".to_owned()
        } else {
            match self.clone().cuda(0, program) {
                Err(OpenError::Gpu(none @ (GpuError::NoRuntime(_) | GpuError::NoDevice { .. }))) => {
                    none.to_string()
                }
                opened => return opened,
            }
        };
        super::modes::report_lanes(&why, self.report_fallback);
        self.cpu()
    }

    /// Opens a session whose kernels run on NVIDIA GPU number `ordinal`. `program` holds them: PTX, as `cargo xtask bundle` builds
    /// it, or a cubin or fat binary made of that.
    ///
    /// # Errors
    /// As [`Builder::cpu`]; what the driver refuses, with what its compiler says of the PTX.
    #[cfg(feature = "cuda")]
    pub fn cuda(self, ordinal: u32, program: &[u8]) -> Result<Session, OpenError> {
        self.check()?;
        self.check_gpu()?;
        let gpu = cuda::open(ordinal, program, &self.gpu_options()).map_err(OpenError::Gpu)?;
        Session::open(&self, Backend::Gpu(gpu))
    }

    /// Opens a session whose kernels run on AMD GPU number `ordinal`. `program` holds them: a code object for that GPU, as `cargo xtask
    /// bundle` builds it.
    ///
    /// This compiles and links, and was never run on an AMD GPU. Rings are in memory of the host or of the runtime
    /// ([`RingMemory::Caller`], [`RingMemory::Runtime`]), which needs Linux 6.5, or 6.10 for more than a page.
    ///
    /// # Errors
    /// As [`Builder::cpu`]; there is no such GPU; what the runtime refuses.
    #[cfg(feature = "hip")]
    pub fn hip(self, ordinal: u32, program: &[u8]) -> Result<Session, OpenError> {
        self.check()?;
        self.check_gpu()?;
        let gpu = hip::open(ordinal, program, &self.gpu_options()).map_err(OpenError::Gpu)?;
        Session::open(&self, Backend::Gpu(gpu))
    }

    /// Confines the session's kernels to what `sandbox` names; entries that they write into the rings themselves included. What holds it is Linux
    /// (`SECURITY.md`). Default: kernels may do what the process may do when the session is opened.
    ///
    /// The session is not opened where this Linux lacks what a sandbox needs ([`OpenError::Sandbox`]).
    ///
    /// ```
    /// use gpufs_host::{Grid, Sandbox, Session};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tree = std::env::temp_dir();
    /// let sandbox = Sandbox::new().read_only(tree);
    /// # let sandbox = sandbox.as_far_as_possible();
    /// let mut session = match Session::builder().sandbox(sandbox).cpu() {
    ///     Ok(session) => session,
    ///     Err(refused) => return Ok(eprintln!("SKIP {refused}")),
    /// };
    /// session.run(Grid { blocks: 1, threads: 32 }, |fs| {
    ///     assert!(fs.open(c"/etc/passwd", 0, 0).is_err());
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(sandbox);
        self
    }

    /// Bytes of stack for each thread of a GPU kernel: 1 KiB to 512 KiB. Default 8 KiB. A kernel that calls through pointers, as one that
    /// scans into allocated memory, needs this for them beyond its own frame (which the compiler reports), and one that `cargo gpufs` has assembled
    /// for all that it calls; with too little it ends with an illegal address.
    #[must_use]
    pub fn gpu_stack(mut self, bytes: usize) -> Self {
        self.gpu_stack_bytes = bytes;
        self
    }
    /// The most registers of a thread of a kernel that the driver compiles from PTX; values that do not fit go to the stack. With fewer
    /// registers more threads run at once: a multiprocessor with 65,536 registers fills its 2,048 threads at 32. A cubin or
    /// code object stays as it was compiled. Default: as many as the compiler chooses.
    #[must_use]
    pub fn gpu_registers(mut self, registers: u32) -> Self {
        self.gpu_registers = Some(registers);
        self
    }
    #[cfg(any(feature = "cuda", feature = "hip"))]
    fn gpu_options(&self) -> GpuOptions {
        GpuOptions { stack_bytes: self.gpu_stack_bytes, registers: self.gpu_registers }
    }

    /// Staging buffers in the whole session.
    pub(super) fn staging_buffers(&self) -> u32 {
        buffers_in(self.staging_bytes.unwrap_or(STAGING_BYTES + self.cached.staging_beyond(STAGING_BYTES)))
    }

    /// Those that a session has without a cache: what else calls use goes by it.
    fn usual_buffers(&self) -> u32 {
        buffers_in(self.staging_bytes.unwrap_or(STAGING_BYTES))
    }

    /// Staging buffers of asynchronous operations ([R-ASYNC-5]), beside those of calls.
    pub(super) fn async_buffers(&self) -> u32 {
        (self.usual_buffers() / 3).max(ASYNC_BUFFERS_MIN)
    }

    /// Buffers for entries of directories ([R-SERVE-9]), at most as many as directories can be open. A directory that finds none is read through
    /// staging memory.
    pub(super) fn listing_buffers(&self) -> u32 {
        (self.usual_buffers() / 16).max(LISTING_BUFFERS_MIN).min(self.files)
    }

    /// Bytes of the assembly pool, whole buffers.
    pub(super) fn coalescing_bytes(&self, own_memory: bool) -> usize {
        let default = if own_memory { GPU_ASSEMBLY_BYTES } else { 0 };
        self.assembly.unwrap_or(default) & !4095
    }

    fn check(&self) -> Result<(), OpenError> {
        self.check_ranges()?;
        self.cached.check()?;
        if let Some(refused) = &self.refused_service {
            return Err(OpenError::Service(refused.clone()));
        }
        let plan = self.plan(false);
        let rule = |holds: bool, text: String| if holds { Ok(()) } else { Err(OpenError::Size(text)) };
        rule((1..=64).contains(&self.rings), format!("rings: {} is not from 1 to 64", self.rings))?;
        rule(
            plan.ring_entries.is_power_of_two()
                && (2 * SLOTS_BESIDE_STREAMS..=RING_ENTRIES_MAX).contains(&plan.ring_entries),
            format!(
                "ring_entries: {} is not a power of two from {} to {RING_ENTRIES_MAX}",
                plan.ring_entries,
                2 * SLOTS_BESIDE_STREAMS
            ),
        )?;
        rule(
            self.stream_buffer_bytes
                .is_none_or(|bytes| bytes.is_power_of_two() && (4096..=1 << 20).contains(&bytes)),
            format!(
                "stream_buffer: {} is not a power of two from 4096 to 1048576",
                self.stream_buffer_bytes.unwrap_or(0)
            ),
        )?;
        rule(
            self.blocks_per_stream.is_power_of_two() && self.blocks_per_stream as usize <= BLOCKS_MAX,
            format!("blocks_per_stream: {} is not 1, 2, 4, 8, 16 or 32", self.blocks_per_stream),
        )?;
        rule(
            plan.stream_buffers >= 3,
            format!(
                "buffers: the streams' half, {} bytes, holds fewer than the three buffers that the standard streams need; raise it to {} at least, or lower stream_buffer",
                self.stream_bytes.unwrap_or(0),
                6 * u64::from(plan.stream_buffer_bytes)
            ),
        )?;
        rule(
            self.staging_buffers() >= 16,
            format!("buffers: half of it, {} bytes, is less than 65536", self.staging_bytes.unwrap_or(0)),
        )?;
        rule(
            self.trace_memory.is_none_or(|bytes| bytes <= PIECE_BYTES_MAX),
            format!("trace_memory: {} is not from 0 to {PIECE_BYTES_MAX}", self.trace_memory.unwrap_or(0)),
        )?;
        rule(
            self.gpu_registers.is_none_or(|registers| (16..=255).contains(&registers)),
            format!("gpu_registers: {} is not from 16 to 255", self.gpu_registers.unwrap_or(0)),
        )?;
        rule(self.regions <= 1024, format!("registered_buffers: {} is not from 0 to 1024", self.regions))?;
        rule(
            plan.ring_entries >= SLOTS_BESIDE_STREAMS.saturating_add(plan.stream_buffers),
            format!(
                "ring_entries: {} is too few for {} stream buffers, each of which can have a write in flight; raise it to {}, or \
                 lower buffers",
                plan.ring_entries,
                plan.stream_buffers,
                (u64::from(SLOTS_BESIDE_STREAMS) + u64::from(plan.stream_buffers)).next_power_of_two()
            ),
        )
    }

    /// The configuration of each ring.
    pub(super) fn ring_config(&self, plan: &Plan, source: &Arc<dyn MemorySource>) -> RingConfig {
        RingConfig {
            entries: plan.ring_entries,
            cq_entries: plan.ring_entries * 2,
            mode: self.mode,
            memory: self.memory.unwrap_or_default(),
            source: Arc::clone(source),
            // 0 would be the kernel's default.
            idle_ms: u32::try_from(self.idle.as_millis()).unwrap_or(u32::MAX).max(1),
            services: Arc::clone(&self.services),
            ..RingConfig::default()
        }
    }
}

/// Whole staging buffers.
fn buffers_in(bytes: usize) -> u32 {
    u32::try_from(bytes / STAGING_BUFFER_BYTES as usize).unwrap_or(u32::MAX)
}
