//! A session: rings, tables, buffers and running kernels under one owner.
//!
//! ```text
//! Session::builder() … .cpu()? → launch(grid, kernel) … → synchronize()? → drop
//! ```
//!
//! `synchronize` waits for the kernels, writes what they left in their streams, and reports the first error. `Drop` does the same and
//! loses nothing that could be written.
#![allow(unsafe_code, reason = "registers the session's memory with its rings")]

mod builder;
mod files;
mod flush;
mod stats;
mod tables;

use std::fmt;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use gpufs_core::Claim;
use gpufs_core::pool::Pool;
use gpufs_core::session::{OpenFile, Session as Tables};
use gpufs_core::stream::Buffering;

use crate::cpu::{self, CpuOptions, Grid, LaunchError, Launched};
use crate::ring::{self, Attendant, CpuMemory, MemorySource, Mode, Ring, RingError};

pub use builder::{Builder, OpenError};
pub use files::{RegisterError, RegisteredBuffer};
pub use flush::StreamError;
pub use stats::{RingStatistics, Statistics};

use builder::STAGING_BUFFER_BYTES;
use tables::{PoolMemory, Sizes};

/// The session's own memory for data, in one stretch: the staging pool, then the stream buffers.
#[derive(Debug)]
struct PoolRegion {
    address: NonNull<u8>,
    bytes: usize,
}

/// A running session. See the module's head.
#[derive(Debug)]
pub struct Session {
    tables: &'static Tables,
    // Dropped in this order: nobody serves or submits before the rings go.
    launches: Vec<Launched>,
    attendant: Option<Attendant>,
    rings: Vec<Ring>,
    mode: Mode,
    refused: Vec<(Mode, RingError)>,
    cpu: CpuOptions,
    fixed_files: bool,
    fixed_buffers: bool,
    host_files: Vec<(u32, OwnedFd)>,
    pool: PoolRegion,
    pool_split: usize,
    buffers: Vec<RegisteredBuffer>,
}

// SAFETY:
// - the raw pointers are to memory that the session owns, and no method touches it without `&mut self` or a kernel's rules
unsafe impl Send for Session {}

/// What `synchronize` found.
#[derive(Debug)]
#[non_exhaustive]
pub enum SyncError {
    /// A kernel did not end well: a lane's panic, a wait past its deadline.
    Kernel(LaunchError),
    /// A stream's bytes could not be written; they are kept and tried again by the next `synchronize`.
    Stream(StreamError),
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(error) => write!(f, "{error}"),
            Self::Stream(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for SyncError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Kernel(error) => Some(error),
            Self::Stream(error) => Some(error),
        }
    }
}

impl Session {
    /// Choices for a new session.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn open(builder: &Builder, cpu: CpuOptions) -> Result<Self, OpenError> {
        let config = builder.ring_config();
        let (mode, rings, refused) = if builder.exact_mode {
            let rings: Result<_, _> = (0..builder.rings).map(|_| Ring::open(&config)).collect();
            (builder.mode, rings.map_err(OpenError::Ring)?, Vec::new())
        } else {
            let chosen = ring::choose(&config, builder.rings as usize).map_err(OpenError::Ring)?;
            (chosen.mode, chosen.rings, chosen.refused)
        };
        let attendant = Attendant::start(&rings.iter().collect::<Vec<_>>()).map_err(OpenError::Ring)?;

        let pool_split = builder.staging_buffers() as usize * STAGING_BUFFER_BYTES as usize;
        let stream_bytes = builder.stream_buffers() as usize * builder.stream_buffer_bytes as usize;
        let bytes = (pool_split + stream_bytes).next_multiple_of(4096);
        let address = CpuMemory.allocate(bytes, 4096).map_err(OpenError::System)?;
        let pool = PoolRegion { address, bytes };

        // Where locked memory is scarce the rings work without registered buffers and files, a little slower.
        let pools = [(pool.address, pool_split), (pool.part(pool_split), stream_bytes)];
        // SAFETY:
        // - both parts are the session's own memory, freed only after the rings are closed (`Drop`)
        let fixed_buffers = rings.iter().all(|ring| unsafe { ring.register_buffers(&pools) }.is_ok());
        let empty = vec![-1; builder.files as usize];
        let fixed_files = rings.iter().all(|ring| ring.register_files(&empty).is_ok());

        let sizes = Sizes {
            files: builder.files,
            streams: builder.streams,
            regions: builder.regions,
            blocks_per_stream: builder.blocks_per_stream,
            deadline_ns: builder
                .deadline
                .map_or(0, |deadline| u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX)),
        };
        let index = |index: u32| if fixed_buffers { index } else { Pool::UNREGISTERED };
        let staging = PoolMemory {
            base: pool.address.as_ptr() as u64,
            buffers: builder.staging_buffers(),
            buffer_bytes: STAGING_BUFFER_BYTES,
            buffer_index: index(0),
        };
        let stream_buffers = PoolMemory {
            base: pool.part(pool_split).as_ptr() as u64,
            buffers: builder.stream_buffers(),
            buffer_bytes: builder.stream_buffer_bytes,
            buffer_index: index(1),
        };
        let tables = tables::build(&rings, sizes, staging, stream_buffers);
        let session = Self {
            tables,
            launches: Vec::new(),
            attendant: Some(attendant),
            rings,
            mode,
            refused,
            cpu,
            fixed_files,
            fixed_buffers,
            host_files: Vec::new(),
            pool,
            pool_split,
            buffers: Vec::new(),
        };
        session.open_standard_streams();
        Ok(session)
    }

    /// Files and streams 0, 1 and 2. A descriptor that the process has closed gives a stream whose calls fail with `EBADF`.
    fn open_standard_streams(&self) {
        let tables = self.tables;
        for index in 0..3 {
            let file = tables.files_free.claim(1, 0);
            let stream = tables.streams_free.claim(1, 0);
            debug_assert!(file == Some(Claim::single(index)) && stream == Some(Claim::single(index)));
            let descriptor = index.cast_signed();
            let mut flags = files::flags_of(descriptor).unwrap_or(OpenFile::OPEN | OpenFile::HOST_OWNED);
            // The position is shared with the program, its children and its shell: the kernel's own counts, in
            // order. With one of ours, what each writes would overwrite what the others wrote.
            flags &= !OpenFile::SEEKABLE;
            if self.fixed_files && self.rings.iter().all(|ring| ring.update_file(index, descriptor).is_ok()) {
                flags |= OpenFile::FIXED;
            }
            files::enter(tables, index, descriptor, flags);
            let wanted = if index == 1 { tables.blocks_per_stream } else { 1 };
            let mut buffers = Vec::new();
            while let Some(claim) = tables.stream_buffers.free.claim(wanted - buffers.len() as u32, 0) {
                buffers.extend((0..claim.count()).map(|rank| claim.item(rank)));
                if buffers.len() as u32 == wanted {
                    break;
                }
            }
            let kept = 1 << buffers.len().ilog2();
            for buffer in buffers.drain(kept..) {
                tables.stream_buffers.free.release(Claim::single(buffer));
            }
            let buffering = match index {
                2 => Buffering::None,
                _ if flags & OpenFile::TERMINAL != 0 => Buffering::Line,
                _ => Buffering::Full,
            };
            let entry = &tables.streams()[index as usize];
            entry.set_up(index, flags, &buffers, tables.stream_buffers.buffer_bytes, buffering);
            entry.position.set(tables.files()[index as usize].position.peek());
        }
    }

    /// The tables, as kernels see them.
    #[must_use]
    pub fn tables(&self) -> &'static Tables {
        self.tables
    }
    /// Who serves the rings.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }
    /// Why no better mode serves them, best first.
    #[must_use]
    pub fn refused(&self) -> &[(Mode, RingError)] {
        &self.refused
    }
    /// What the session has done so far. Exact while no kernel runs.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let wake_ups = self.attendant.as_ref().map_or_else(Vec::new, |attendant| {
            attendant.report().rings.iter().map(|ring| ring.wake_ups).collect()
        });
        stats::gather(self.tables, &wake_ups)
    }

    /// Starts a kernel: `kernel` runs once for each thread of `grid`, with the session's tables as its argument. Several may run
    /// at once.
    ///
    /// # Errors
    /// What is wrong with the grid or the options; the system's refusal of a thread.
    pub fn launch<F>(&mut self, grid: Grid, kernel: F) -> Result<(), LaunchError>
    where
        F: Fn(&'static Tables) + Send + Sync + 'static,
    {
        let tables = self.tables;
        if let Some(attendant) = &self.attendant {
            attendant.begin();
        }
        match cpu::spawn(grid, &self.cpu, move || kernel(tables)) {
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

    /// Whether every kernel has ended. `synchronize` then does not wait for any.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.launches.iter().all(Launched::is_finished)
    }

    /// Runs a kernel that may borrow from the caller, and synchronizes.
    ///
    /// # Errors
    /// As [`Session::launch`] and [`Session::synchronize`].
    pub fn run<F>(&mut self, grid: Grid, kernel: F) -> Result<(), SyncError>
    where
        F: Fn(&'static Tables) + Sync,
    {
        let tables = self.tables;
        let ran = {
            let _attention = self.attendant.as_ref().map(Attendant::attention);
            cpu::launch(grid, &self.cpu, || kernel(tables))
        };
        self.finish(ran)
    }

    /// Waits until every kernel has ended, then writes what their streams hold.
    ///
    /// # Errors
    /// The first kernel's that did not end well, else the first stream's whose bytes could not be written. All are waited for, and
    /// all streams are written as far as they can be, in any case.
    pub fn synchronize(&mut self) -> Result<(), SyncError> {
        self.finish(Ok(()))
    }

    /// [`Session::synchronize`], after a kernel that has ended so.
    fn finish(&mut self, ran: Result<(), LaunchError>) -> Result<(), SyncError> {
        let mut outcome = ran.map_err(SyncError::Kernel);
        for launched in self.launches.drain(..) {
            outcome = outcome.and(launched.join().map_err(SyncError::Kernel));
            if let Some(attendant) = &self.attendant {
                attendant.end();
            }
        }
        if outcome.is_err() {
            flush::let_go(self.tables);
        }
        let _attention = self.attendant.as_ref().map(Attendant::attention);
        outcome.and(flush::flush_streams(self.tables).map_err(SyncError::Stream))
    }

    /// Registers the pools and all buffers with every ring, in place of what was registered.
    fn register_all_buffers(&self) -> Result<(), RingError> {
        let stream_bytes = self.tables.stream_buffers.buffer_bytes as usize
            * ((self.pool.bytes - self.pool_split) / self.tables.stream_buffers.buffer_bytes as usize);
        let mut all =
            vec![(self.pool.address, self.pool_split), (self.pool.part(self.pool_split), stream_bytes)];
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
            let idle = self.tables.queues().iter().all(|queue| {
                queue.drain_alone(64);
                queue.free_slots() == queue.capacity()
            });
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
        let tables = self.tables;
        while tables.streams_free.claim(64, 0).is_some() {}
        while tables.files_free.claim(64, 0).is_some() {}
        for stream in tables.streams() {
            if stream.generation.peek() % 2 == 1 {
                stream.close_cursor();
                stream.generation.add(1);
            }
        }
        for file in tables.files() {
            let flags = file.flags.peek();
            // ORDERING: release, device: no kernel runs.
            file.flags.publish(0);
            if flags & OpenFile::OPEN != 0 && flags & OpenFile::HOST_OWNED == 0 {
                // SAFETY:
                // - the descriptor was opened by a kernel of this session for this entry, and nobody else closes it
                unsafe { libc::close(file.descriptor.peek().cast_signed()) };
            }
        }
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

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.synchronize() {
            eprintln!("gpufs: while closing a session: {error}");
        }
        let settled = {
            let _attention = self.attendant.as_ref().map(Attendant::attention);
            self.settle()
        };
        self.close_tables();
        self.attendant = None;
        self.rings.clear();
        if !settled {
            // An operation that was given up on (a deadline) may still use its buffer: the memory stays the kernel's.
            return;
        }
        let regions = self.buffers.drain(..).map(|buffer| (buffer.address, buffer.bytes));
        for (address, bytes) in regions.chain([(self.pool.address, self.pool.bytes)]) {
            // SAFETY:
            // - allocated by this session; the rings are closed, nothing is in flight, and no kernel runs
            unsafe { CpuMemory.free(address, bytes) };
        }
    }
}
