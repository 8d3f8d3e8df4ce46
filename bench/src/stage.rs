//! A session with the memory that measurements need, and how a kernel runs on it.
#![expect(unsafe_code, reason = "memory shared with kernels")]

use std::fs::File as HostFile;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use gpufs_bench_kernels::{MOST_FILES, Supply, Times};
use gpufs_core::kernel::{Kernel, Shared};
use gpufs_core::session::FileIndex;
use gpufs_device::kernel::FileHandle;
use gpufs_host::{Builder, Grid, RegisteredBuffer, Sandbox, Session};

use crate::failure::Failure;
use crate::gpu::{DeviceBytes, Gpu};
use crate::options::Options;

/// Bytes that kernels leave times and counts in.
const TIMES_BYTES: usize = 8 << 20;

/// How long SQPOLL threads look on before they sleep: longer than a kernel's launch, and short enough to wait for ([`Stage::rest`]).
const IDLE: Duration = Duration::from_millis(200);

/// Lanes in a warp, on every device that this runs on.
pub(crate) const WIDTH: u32 = 32;

/// Open streams, and how kernels find them.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) files: Vec<FileHandle>,
    pub(crate) handle: Shared<[FileHandle; MOST_FILES]>,
}

/// A session and its memory.
#[derive(Debug)]
pub(crate) struct Stage {
    session: ManuallyDrop<Session>,
    device: ManuallyDrop<DeviceBytes>,
    /// Counts the pieces that warps have taken.
    taken: ManuallyDrop<DeviceBytes>,
    pub(crate) rings: u32,
    /// Bytes of a stream's block, if not the session's own number.
    pub(crate) stream_buffer: Option<u32>,
    /// When the rings had something to do last.
    used: Instant,
    times: RegisteredBuffer,
    pinned: RegisteredBuffer,
}

impl Stage {
    /// Opens a session of `rings` rings.
    pub(crate) fn open(options: &Options, gpu: Option<&Gpu>, rings: u32) -> Result<Self, Failure> {
        Self::of(Session::builder(), options, gpu, rings)
    }
    /// Opens one that has a cache of so many bytes, in pages of so many.
    pub(crate) fn open_cached(
        options: &Options,
        gpu: Option<&Gpu>,
        rings: u32,
        (bytes, page): (usize, u32),
    ) -> Result<Self, Failure> {
        Self::of(Session::builder().cache(bytes).cache_page(page), options, gpu, rings)
    }
    fn of(builder: Builder, options: &Options, gpu: Option<&Gpu>, rings: u32) -> Result<Self, Failure> {
        let mut builder = builder.rings(rings).idle(IDLE);
        if let Some(entries) = options.ring_entries {
            builder = builder.ring_entries(entries);
        }
        if let Some(deadline) = options.deadline {
            builder = builder.deadline(deadline);
        }
        if let Some(bytes) = options.buffers {
            builder = builder.buffers(bytes);
        }
        if let Some(bytes) = options.stream_buffer {
            builder = builder.stream_buffer(bytes);
        }
        if let Some(buffers) = options.stream_buffers {
            builder = builder.blocks_per_stream(buffers);
        }
        if let Some(survives) = options.survives {
            builder = builder.survives(survives);
        }
        if options.sandbox {
            let mut sandbox = Sandbox::new().read_write_create(&options.directory).read_write("/dev");
            if Path::new("/dev/shm").is_dir() {
                sandbox = sandbox.read_write_create("/dev/shm");
            }
            builder = builder.sandbox(sandbox);
        }
        let mut session = match gpu {
            None => builder.cpu()?,
            Some(_) => builder.cuda(options.ordinal, &options.program)?,
        };
        let times = session.register_buffer(TIMES_BYTES)?;
        let pinned = session.register_buffer(options.memory)?;
        let device = DeviceBytes::allocate(gpu, options.memory)?;
        let taken = DeviceBytes::allocate(gpu, 8 * Supply::WORDS)?;
        Ok(Self {
            session: ManuallyDrop::new(session),
            device: ManuallyDrop::new(device),
            taken: ManuallyDrop::new(taken),
            rings,
            stream_buffer: options.stream_buffer,
            used: Instant::now(),
            times,
            pinned,
        })
    }

    /// Waits until the rings' SQPOLL threads sleep, so that what is measured next has the cores.
    pub(crate) fn rest(&self) {
        // The kernel counts in ticks of its own.
        thread::sleep((IDLE + IDLE / 4).saturating_sub(self.used.elapsed()));
    }
    pub(crate) fn session(&mut self) -> &mut Session {
        &mut self.session
    }
    /// Address of the registered memory, as long as the options say.
    pub(crate) fn pinned(&self) -> u64 {
        self.pinned.as_ptr() as u64
    }
    /// Address of the device memory, as long as the options say.
    pub(crate) fn device(&self) -> u64 {
        self.device.address()
    }
    /// So many pieces, for the next kernel.
    pub(crate) fn supply(&self, pieces: u64) -> Result<Supply, Failure> {
        let mut before = [0; size_of::<u64>()];
        self.taken.copy_to(&mut before)?;
        Ok(Supply { taken: self.taken.address(), before: u64::from_ne_bytes(before), pieces })
    }
    /// What kernels are given as `times`.
    pub(crate) fn times(&self) -> u64 {
        self.times.as_ptr() as u64
    }
    /// Where kernels may leave other words: the upper half of the times' memory.
    pub(crate) fn counts(&self) -> u64 {
        self.times() + (TIMES_BYTES / 2) as u64
    }
    /// `count` words that a kernel has left at [`Stage::counts`].
    pub(crate) fn read_counts(&self, count: usize) -> Vec<u64> {
        self.words(TIMES_BYTES / 16, count)
    }

    fn words(&self, from: usize, count: usize) -> Vec<u64> {
        assert!((from + count) * 8 <= TIMES_BYTES, "the times have room");
        // SAFETY:
        // - in bounds, as checked; no kernel runs while the host reads
        (from..from + count)
            .map(|index| unsafe { self.times.as_ptr().cast::<u64>().add(index).read_volatile() })
            .collect()
    }

    /// Starts a kernel, which [`Stage::finish`] waits for.
    pub(crate) fn start<K: Kernel>(&mut self, grid: Grid, arguments: K::Arguments) -> Result<(), Failure> {
        for index in 0..Times::HEAD {
            Times(self.times()).put(index, 0);
        }
        Ok(self.session.start::<K>(grid, arguments)?)
    }
    /// Waits for a kernel, and for its streams' bytes to be written.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        let ended = self.session.synchronize();
        self.used = Instant::now();
        ended?;
        match self.words(0, 1)[0] {
            0 => Ok(()),
            Times::SHORT => {
                Err("a call in a kernel moved fewer bytes than asked for, or nobody answered".into())
            }
            Times::WRONG => Err("a read in a kernel gave other bytes than the file has".into()),
            errno => {
                let errno = i32::try_from(errno).unwrap_or(libc::EIO);
                Err(format!("a call in a kernel: {}", std::io::Error::from_raw_os_error(errno)).into())
            }
        }
    }
    /// Runs a kernel: seconds until it has ended and its streams' bytes are written.
    pub(crate) fn run<K: Kernel>(&mut self, grid: Grid, arguments: K::Arguments) -> Result<f64, Failure> {
        let started = Instant::now();
        self.start::<K>(grid, arguments)?;
        self.finish()?;
        Ok(started.elapsed().as_secs_f64())
    }
    /// Runs a kernel whose warps note their times: seconds from the first start to the last end.
    pub(crate) fn run_timed<K: Kernel>(
        &mut self,
        grid: Grid,
        arguments: K::Arguments,
    ) -> Result<f64, Failure> {
        self.run::<K>(grid, arguments)?;
        let warps = (grid.blocks * grid.threads.div_ceil(WIDTH)) as usize;
        let times = self.words(Times::HEAD, 2 * warps);
        let starts = times.iter().step_by(2).min();
        let ends = times.iter().skip(1).step_by(2).max();
        let span = ends.zip(starts).map_or(0, |(end, start)| end.saturating_sub(*start));
        Ok(span as f64 / 1e9)
    }
    /// The samples that the last kernel took, in microseconds.
    pub(crate) fn samples_us(&self, rounds: u32) -> Vec<f64> {
        let head = self.words(0, Times::HEAD);
        let ns_per_tick = head[2] as f64 / head[1].max(1) as f64;
        let ticks = self.words(Times::HEAD, rounds as usize);
        ticks.iter().map(|&ticks| ticks as f64 * ns_per_tick / 1e3).collect()
    }

    /// Opens streams.
    pub(crate) fn open_streams(&mut self, paths: &[PathBuf], mode: &str) -> Result<Streams, Failure> {
        assert!((1..=MOST_FILES).contains(&paths.len()), "there is room for that many");
        let files: Result<Vec<_>, _> = paths.iter().map(|path| self.session.fopen(path, mode)).collect();
        let files = files?;
        let placed = self
            .session
            .place::<[FileHandle; MOST_FILES]>(std::array::from_fn(|index| files[index % files.len()]))?;
        Ok(Streams { handle: placed.handle(), files })
    }
    /// Closes them.
    pub(crate) fn close_streams(&mut self, streams: &Streams) -> Result<(), Failure> {
        for file in &streams.files {
            self.session.fclose(*file)?;
        }
        Ok(())
    }

    /// Registers files.
    pub(crate) fn register(
        &mut self,
        files: Vec<HostFile>,
    ) -> Result<(Vec<FileIndex>, Shared<[FileIndex; MOST_FILES]>), Failure> {
        let indices: Result<Vec<_>, _> =
            files.into_iter().map(|file| self.session.register_file(file)).collect();
        let indices = indices?;
        let all = std::array::from_fn(|index| indices[index % indices.len()]);
        let placed = self.session.place::<[FileIndex; MOST_FILES]>(all)?;
        Ok((indices, placed.handle()))
    }
    /// Takes them back.
    pub(crate) fn unregister(&mut self, indices: &[FileIndex]) -> Result<(), Failure> {
        for index in indices {
            self.session.unregister_file(*index)?;
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // SAFETY:
        // - dropped once, here, the session before the memory that its kernels use
        unsafe {
            ManuallyDrop::drop(&mut self.session);
            ManuallyDrop::drop(&mut self.device);
            ManuallyDrop::drop(&mut self.taken);
        }
    }
}

/// A grid of so many warps.
pub(crate) fn grid_of(warps: u32) -> Grid {
    let together = [4, 2, 1].into_iter().find(|together| warps.is_multiple_of(*together)).unwrap_or(1);
    Grid { blocks: warps / together, threads: together * WIDTH }
}
