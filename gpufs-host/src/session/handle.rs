//! The handle of a session, which a program has: each call takes the session for as long as it lasts (`live.rs`), and is refused in a
//! forked child.
#![expect(unsafe_code, reason = "a handle that is not dropped in a forked child")]

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use gpufs_core::Errno;
use gpufs_core::kernel::{Kernel, Portable};
use gpufs_core::session::{FileIndex, SessionTables};
use gpufs_device::view::{Mapping, MappingMut};
use gpufs_device::{Fs, channel as lanes};

use super::live::Live;
use super::{
    Backend, Body, Builder, CacheStatistics, ChannelReceiver, ChannelSender, DeviceBuffer, OpenError, Owner,
    Placed, RegisterError, RegisteredBuffer, Statistics, SyncError, exit,
};
use crate::cpu::{Grid, LaunchError};
use crate::gpu::{GpuError, KernelLimits};
use crate::ring::{Failure, Mode, RingError, RingMemory, Services};
use crate::transfer::Counters;

/// A running session. See the module's documentation.
///
/// It belongs to the process that opened it. In a child that was forked later, its calls return errors ([`super::Forked`]), and dropping it
/// does nothing. This does not concern a child that becomes another program (`execve(2)`).
///
/// When the process ends with the session open, by `std::process::exit`, `exit(3)` or the end of `main`, even if the session was forgotten or
/// is in a static, an exit handler waits up to ten seconds for kernels and then writes what calls on streams had accepted, as C writes its
/// streams. `_exit(2)`, `quick_exit(3)`, `abort(3)` and signals write nothing.
#[derive(Debug)]
pub struct Session {
    /// Not dropped in a forked child.
    pub(super) live: ManuallyDrop<Arc<Live>>,
    tables: &'static SessionTables,
    device_tables: u64,
    mode: Mode,
    memory: RingMemory,
    refused: Vec<(Mode, RingError)>,
    refused_memory: Vec<(RingMemory, RingError)>,
    /// What its bulk transfers have done.
    pub(super) transfers: Arc<Counters>,
    /// One thread at a time.
    not_shared: PhantomData<Cell<()>>,
}

impl Session {
    pub(super) fn open(builder: &Builder, backend: Backend) -> Result<Self, OpenError> {
        let owner = Owner::this().map_err(OpenError::System)?;
        let on_gpu = matches!(backend, Backend::Gpu(_));
        let live = Live::new(owner, |gate| Body::open(builder, backend, owner, gate))?;
        exit::register(on_gpu);
        let mut body = live.enter().expect("opened here");
        let (refused, refused_memory) =
            (std::mem::take(&mut body.refused), std::mem::take(&mut body.refused_memory));
        let (tables, device_tables) = (body.tables.host, body.tables.device_address);
        let (mode, memory) = (body.mode, body.ring_memory);
        drop(body);
        let live = ManuallyDrop::new(live);
        let (transfers, not_shared) = (Arc::default(), PhantomData);
        Ok(Self { live, tables, device_tables, mode, memory, refused, refused_memory, transfers, not_shared })
    }

    /// The process that opened this session.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.live.owner()
    }
    /// Whether this is a forked child's copy of its parent's session, which does nothing.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        !self.owner().is_here()
    }

    /// What its service ring does besides system calls.
    pub(super) fn services(&self) -> Arc<Services> {
        self.live.tell(Body::services)
    }

    /// Choices for a new session.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The session, for device calls that threads of the host make: each as a warp of one lane, at any time while the session is open, beside
    /// kernels on CPU lanes and other calls. [`Session::synchronize`], [`Session::fetch`] and the end of the session wait for calls that are
    /// inside; later ones are `EBADF`. On a GPU, whose tables are its own, calls are `EBUSY` but inside of [`Session::with_tables`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gpufs_host::Session;
    ///
    /// let session = Session::builder().cpu()?;
    /// let fs = session.fs();
    /// fs.nop()?;
    /// drop(session);
    /// assert_eq!(fs.nop(), Err(gpufs_device::Errno::BADF));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fs(&self) -> Fs {
        // SAFETY:
        // - made for this session, never unmapped (`estate.rs`), with a gate
        unsafe { Fs::new(self.tables) }
    }

    /// The tables, as kernels see them.
    ///
    /// # Safety
    /// They are used while the session is open, by the rules that stand at each of them.
    ///
    /// ```compile_fail,E0133
    /// fn kept(session: &gpufs_host::Session) -> u32 {
    ///     session.tables().queue_count
    /// }
    /// ```
    #[doc(hidden)]
    #[must_use]
    pub unsafe fn tables(&self) -> &'static SessionTables {
        self.tables
    }

    /// What serves the rings.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The better modes, best first, and why each is refused.
    #[must_use]
    pub fn refused(&self) -> &[(Mode, RingError)] {
        &self.refused
    }

    /// What allocated the rings.
    #[must_use]
    pub fn ring_memory(&self) -> RingMemory {
        self.memory
    }

    /// The better kinds of ring memory, best first, and why each is refused.
    #[must_use]
    pub fn refused_memory(&self) -> &[(RingMemory, RingError)] {
        &self.refused_memory
    }

    /// Bytes that its rings register, all together, or would; and whether they have. They count as locked memory where the kernel serves the
    /// rings.
    pub(crate) fn registered(&self) -> (u64, bool) {
        self.live.tell(Body::registered)
    }

    /// The counts of what the session has done so far. Exact while no kernel runs.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.live.tell(Body::statistics)
    }

    /// The ring that is no longer served, if there is one, as in [`SyncError::Ring`].
    #[must_use]
    pub fn ring_failure(&self) -> Option<Failure> {
        self.live.tell(Body::ring_failure)
    }

    /// Starts a kernel: `kernel` runs once for each thread of `grid`, with the session as its argument. Several may run at once.
    ///
    /// # Errors
    /// A grid or options that are invalid; the system's refusal of a thread.
    pub fn launch<F>(&mut self, grid: Grid, kernel: F) -> Result<(), LaunchError>
    where
        F: Fn(Fs) + Send + Sync + 'static,
    {
        self.live.enter()?.launch(grid, kernel)
    }

    /// Starts a kernel declared with `gpufs_device::kernel!`, on whatever device the session has. Several may run at once; on a GPU
    /// each has a stream of its own.
    ///
    /// # Errors
    /// A grid that is invalid; the system's or the driver's refusal; [`SyncError::Dead`] after a fault.
    pub fn start<K: Kernel>(&mut self, grid: Grid, arguments: K::Arguments) -> Result<(), SyncError> {
        self.live.enter()?.start::<K>(grid, arguments)
    }

    /// Whether every kernel has ended. `synchronize` then does not wait for any.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        // No kernel of it runs in a child.
        self.is_inherited() || self.live.tell(Body::is_finished)
    }

    /// Runs a kernel that may borrow from the caller, and synchronizes.
    ///
    /// # Errors
    /// As [`Session::launch`] and [`Session::synchronize`].
    pub fn run<F>(&mut self, grid: Grid, kernel: F) -> Result<(), SyncError>
    where
        F: Fn(Fs) + Sync,
    {
        self.live.enter_alone("waits for")?.run(grid, kernel)
    }

    /// Waits until every kernel has ended, then writes what their streams hold.
    ///
    /// # Errors
    /// The first kernel's that did not end well, else the first stream's whose bytes could not be written. All are waited for, and
    /// all streams are written as far as they can be, in any case; after a GPU's fault from the journal ([`SyncError::Fault`]), once.
    pub fn synchronize(&mut self) -> Result<(), SyncError> {
        self.live.enter_alone("waits for")?.synchronize()
    }

    /// Treats the device as dead, whatever its kernels were doing: does what [`Session::synchronize`] does after a fault, and returns the same.
    /// For tests, on CPU lanes with [`Builder::survives`].
    ///
    /// # Safety
    /// Each kernel that was launched has ended, or its threads have stopped for ever.
    #[doc(hidden)]
    pub unsafe fn pretend_fault(&mut self) -> SyncError {
        match self.live.enter() {
            Ok(mut body) => {
                // SAFETY:
                // - this function's contract
                unsafe { body.pretend_fault() }
            }
            Err(forked) => forked.into(),
        }
    }

    /// Lets kernels have the rights that the calling thread has now: its user, groups and capabilities (`credentials(7)`), and its seccomp filters.
    ///
    /// Without this call, what a kernel may do is what the process could do when the session was opened, whatever the process gives up later: so it
    /// is for certain where Linux's own threads serve the rings (the mode `sqpoll`). Call it from a thread that has given up its rights.
    ///
    /// Rings are set up again, and threads that serve them started again, from the calling thread. Files that kernels or the host have open stay so.
    /// Threads of a sandbox take the user, groups and capabilities, which takes rights that they have; they have the filters that all threads of the
    /// process have. No filter is asked for operations of io_uring (`seccomp(2)`), in any mode but `threads`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut session = gpufs_host::Session::builder().cpu()?;
    /// // … setresuid(2), capset(2) …
    /// session.adopt_credentials()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) while kernels run or operations are in flight. What the system refuses to the fewer rights: the
    /// limit of locked memory, io_uring itself (`kernel.io_uring_disabled`), a ring in the caller's memory (Linux before 6.10); a session whose rings
    /// lie in memory of a GPU's runtime. Kernels have their old rights then, in a sandbox perhaps with those of its threads given up, but where the
    /// error names a sandbox's threads or the moving of a ring: the session is to be dropped.
    pub fn adopt_credentials(&mut self) -> io::Result<()> {
        let mut body = self.live.enter().map_err(io::Error::other)?;
        body.adopt_credentials()
    }

    /// Where kernels find the tables: the argument of a kernel that the program launches itself. On CPU lanes, the host's own.
    #[must_use]
    pub fn device_tables(&self) -> u64 {
        self.device_tables
    }

    /// Makes the session ready for kernels that the program launches itself with [`Session::device_tables`] as their argument, in the context
    /// that the session uses (CUDA: the primary one). They run between this and the next [`Session::synchronize`], which waits for the whole
    /// device. Calling it again before that changes nothing.
    ///
    /// # Errors
    /// The tables could not be copied to the device.
    pub fn begin_external(&mut self) -> Result<(), SyncError> {
        self.live.enter()?.begin_external()
    }

    /// Lets the host make device calls itself, as a warp of one lane, on its view of the tables: opening a stream for kernels, say.
    ///
    /// # Errors
    /// `EBUSY` while kernels run on a GPU, since its tables are then newer than the host's.
    pub fn with_tables<T>(&mut self, calls: impl FnOnce(Fs) -> T) -> Result<T, Errno> {
        self.live.enter_alone("waits for")?.with_tables(calls)
    }

    /// A name for the device that kernels run on.
    #[must_use]
    pub fn device_name(&self) -> String {
        self.live.tell(Body::device_name)
    }

    /// Bytes of the device's own memory that the session has: its tables, the assembly pool ([`super::Builder::assembly`]), device buffers
    /// and placed values. Memory that the driver takes for the context, the program and threads' stacks is not counted. On CPU lanes 0, since
    /// all memory is the host's.
    #[must_use]
    pub fn device_bytes(&self) -> usize {
        self.live.tell(Body::device_bytes)
    }

    /// Multiprocessors of a GPU (AMD: compute units); OS threads of CPU lanes. A grid that fills the device has this many times
    /// [`Session::occupancy`] blocks.
    #[must_use]
    pub fn multiprocessors(&self) -> u32 {
        self.live.tell(Body::multiprocessors)
    }

    /// What kernel `K` needs of the device.
    ///
    /// # Errors
    /// The device program has no such kernel; the driver refuses.
    pub fn kernel_limits<K: Kernel>(&self) -> Result<KernelLimits, GpuError> {
        self.live.tell(Body::kernel_limits::<K>)
    }

    /// Blocks of kernel `K`, each with `threads_per_block` threads, that a multiprocessor runs at once; at least one on CPU lanes, where a
    /// block always fits.
    ///
    /// # Errors
    /// As [`Session::kernel_limits`].
    pub fn occupancy<K: Kernel>(&self, threads_per_block: u32) -> Result<u32, GpuError> {
        self.live.tell(|body| body.occupancy::<K>(threads_per_block))
    }

    /// Gives kernels a file that the host has opened, and registers it with every ring. It stays open as long as the session.
    ///
    /// # Errors
    /// `EMFILE` where the session's file table is full; the system's refusal; `EBUSY` while kernels run on a GPU, which has the tables
    /// until they have ended.
    pub fn register_file(&mut self, file: impl Into<OwnedFd>) -> Result<FileIndex, RegisterError> {
        self.live.enter()?.register_file(file)
    }

    /// Takes a file back from kernels and closes the host's descriptor. No kernel may be using it.
    ///
    /// # Errors
    /// `EBADF` if it is not a file that the host registered; `EBUSY` as for [`Session::register_file`], and where it is a mapping's or a channel's.
    pub fn unregister_file(&mut self, index: FileIndex) -> Result<(), RegisterError> {
        self.live.enter()?.take_file_back(index)
    }

    /// Maps a file for reading, for kernels to look at as an array ([`Fs::view`]): a regular file or block device that is open for reading. While no
    /// kernel runs.
    ///
    /// ```
    /// use gpufs_host::{Grid, Session};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("gpufs-map-{}", std::process::id()));
    /// # std::fs::write(&path, (0..4096_u64).flat_map(u64::to_le_bytes).collect::<Vec<u8>>())?;
    /// let mut session = Session::builder().cache(1 << 20).cpu()?;
    /// let numbers = session.map(std::fs::File::open(&path)?)?;
    /// session.run(Grid { blocks: 1, threads: 32 }, |fs| {
    ///     let third = fs.view::<u64, _>(numbers, 0, 4096, |view| view.get(3)).unwrap();
    ///     assert_eq!(third, Ok(3));
    /// })?;
    /// session.unmap(numbers)?;
    /// # std::fs::remove_file(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The session has no cache ([`super::Builder::cache`]); `ENODEV` for a pipe, a socket and their like; `EACCES` where the file is not open so;
    /// `EMFILE` where 256 are mapped; `EBUSY` while kernels run; as [`Session::register_file`]. Where the file takes frames that pages of others
    /// have, what writing those met: then it is not mapped.
    pub fn map(&mut self, file: impl Into<OwnedFd>) -> Result<Mapping, RegisterError> {
        let (index, generation) = self.live.enter()?.map(file.into(), false)?;
        Ok(Mapping::of_entry(index, generation))
    }

    /// Maps a file for reading and writing ([`Fs::view_mut`]). While no kernel runs.
    ///
    /// # Errors
    /// As [`Session::map`]; `EACCES` also for a file that is open for appending.
    pub fn map_mut(&mut self, file: impl Into<OwnedFd>) -> Result<MappingMut, RegisterError> {
        let (index, generation) = self.live.enter()?.map(file.into(), true)?;
        Ok(MappingMut::of_entry(index, generation))
    }

    /// Takes a mapped file back: its pages leave the cache, and the host's descriptor is closed. While no kernel runs.
    ///
    /// # Errors
    /// `EBADF` if it is not mapped; kernels run; stores of any mapped file could not be written: it stays mapped.
    pub fn unmap(&mut self, mapping: Mapping) -> Result<(), RegisterError> {
        self.live.enter()?.unmap(mapping.entry())
    }

    /// [`Session::unmap`] of a file that is mapped for writing, whose stores are written first.
    ///
    /// # Errors
    /// As [`Session::unmap`].
    pub fn unmap_mut(&mut self, mapping: MappingMut) -> Result<(), RegisterError> {
        self.live.enter()?.unmap(mapping.entry())
    }

    /// What the cache of pages has done. Exact while no kernel runs.
    #[must_use]
    pub fn cache_statistics(&self) -> CacheStatistics {
        self.live.tell(Body::cache_statistics)
    }

    /// Allocates a buffer that kernels and the system both use in place. `bytes` is rounded up to whole pages. While no kernel runs.
    ///
    /// # Errors
    /// No memory, the table of registered buffers is full (see the builder), or kernels are running.
    pub fn register_buffer(&mut self, bytes: usize) -> Result<RegisteredBuffer, RegisterError> {
        self.live.enter()?.register_buffer(bytes)
    }

    /// Opens a channel of records to kernels, of at least so many cells, a power of two: the host's end, and what a kernel takes as an argument.
    /// While no kernel runs. It takes one of the session's registered buffers ([`Builder::registered_buffers`]) and two entries of its file table,
    /// until the session ends, which closes it.
    ///
    /// # Errors
    /// More than 65,536 cells, or none; as [`Session::register_buffer`].
    pub fn channel_to_kernels<T: Portable + Copy>(
        &mut self,
        cells: u32,
    ) -> Result<(ChannelSender<T>, lanes::Receiver<T>), RegisterError> {
        self.live.enter()?.channel_to_kernels(cells)
    }

    /// Opens a channel of records from kernels, as [`Session::channel_to_kernels`].
    ///
    /// # Errors
    /// As [`Session::channel_to_kernels`].
    pub fn channel_from_kernels<T: Portable + Copy>(
        &mut self,
        cells: u32,
    ) -> Result<(ChannelReceiver<T>, lanes::Sender<T>), RegisterError> {
        self.live.enter()?.channel_from_kernels(cells)
    }

    /// Memory of the device, zeroed, as long as the session lives. Kernels may use atomics on it, and each other's; the system reads and
    /// writes it only through copies that lanes make.
    ///
    /// # Errors
    /// The device's memory is full; the driver's refusal; no bytes.
    pub fn device_buffer(&mut self, bytes: usize) -> io::Result<DeviceBuffer> {
        self.live.enter()?.device_buffer(bytes)
    }

    /// Copies from a device buffer, from `offset` on. Does not wait: call [`Session::synchronize`] before.
    ///
    /// # Errors
    /// Kernels are running; another session made it; the bytes do not lie in the buffer; the driver refuses.
    pub fn read_device(&mut self, buffer: &DeviceBuffer, offset: usize, into: &mut [u8]) -> io::Result<()> {
        self.live.enter()?.read_device(buffer, offset, into)
    }

    /// Copies to a device buffer, from `offset` on; kernels that are started afterwards see it.
    ///
    /// # Errors
    /// As [`Session::read_device`].
    pub fn write_device(&mut self, buffer: &DeviceBuffer, offset: usize, from: &[u8]) -> io::Result<()> {
        self.live.enter()?.write_device(buffer, offset, from)
    }

    /// Places a value in the device's memory, where kernels may share it and use atomics on it, as long as the session lives.
    ///
    /// # Errors
    /// The device's memory is full; the driver's refusal.
    pub fn place<T: Portable>(&mut self, value: T) -> io::Result<Placed<T>> {
        self.live.enter()?.place(value)
    }

    /// The current state of a placed value. Does not wait: call [`Session::synchronize`] before.
    ///
    /// # Errors
    /// Kernels are running; another session placed it; the driver refuses.
    pub fn fetch<T: Portable>(&mut self, placed: &Placed<T>) -> io::Result<T> {
        self.live.enter_alone("waits for")?.fetch(placed)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_inherited() {
            // Nothing: rings, buffers and files are the parent's, and threads are not here.
            return;
        }
        self.live.close();
        // SAFETY:
        // - not used after this
        unsafe { ManuallyDrop::drop(&mut self.live) };
    }
}
