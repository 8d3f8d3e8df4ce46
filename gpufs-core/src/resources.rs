//! What streams and files need of their session: rings, files, pools of buffers, the journal. The session that holds the streams stands
//! above ([`SessionTables`](crate::session::SessionTables)), and begins with this table.
#![expect(unsafe_code, reason = "tables behind pointers that the host made")]

use crate::abi::Errno;
use crate::abi::Sqe;
use crate::alloc::BufferPool;
use crate::alloc::FreeSet;
use crate::files::{FileIndex, OpenFile, Target};
use crate::journal::Journal;
use crate::regions::{Region, region_among};
use crate::ring::Queue;
use crate::stall::Stall;
use crate::word::DeviceWord;

/// What a [`Resources`] is made of. Whoever has one can do nothing with it but to read it.
#[derive(Debug, PartialEq)]
#[repr(C)]
pub struct ResourcesParts {
    /// `ring_count` rings: those of I/O, then the service ring if there is one of its own.
    pub queues: *const Queue,
    /// Rings of I/O: at least 1.
    pub queue_count: u32,
    /// Entries of `files`.
    pub file_count: u32,
    /// The file table.
    pub files: *const OpenFile,
    /// Free entries of `files`.
    pub files_free: FreeSet,
    /// Where the stream table begins, for a stream to find its index by. What a stream is stands above this table:
    /// `SessionTables::streams`.
    pub stream_table: *const (),
    /// Free entries of the stream table.
    pub streams_free: FreeSet,
    /// Entries of the stream table.
    pub stream_count: u32,
    /// Entries of `regions`.
    pub region_count: u32,
    /// Registered memory.
    pub regions: *const Region,
    /// Bounce buffers of calls in progress.
    pub staging: BufferPool,
    /// Blocks of open streams.
    pub stream_buffers: BufferPool,
    /// Device memory in which a warp puts its lanes' records side by side. `base` is 0 where lanes do not copy together.
    pub coalescing_buffers: BufferPool,
    /// Device memory for the text of lines that are read ahead (`stream::readahead`): buffers of twice a stream buffer's size. `base` is 0
    /// where there is none.
    pub line_buffers: BufferPool,
    /// Bounce buffers of asynchronous operations ([R-ASYNC-5]).
    pub async_buffers: BufferPool,
    /// Entries of directories that are read ahead ([R-SERVE-9]).
    pub listings: BufferPool,
    /// Nanoseconds after which a wait gives up; 0 for never.
    pub deadline_ns: u64,
    /// Nanoseconds after which a wait for another party is `ETIMEDOUT` ([R-ASYNC-8]); 0 for never.
    pub wait_limit_ns: u64,
    /// Blocks that a writing stream asks for: a power of two up to `stream::BLOCKS_MAX`.
    pub blocks_per_stream: u32,
    /// All rings: `queue_count`, or one more with the service ring, which comes last ([R-SERVE-1]).
    pub ring_count: u32,
    /// Where a wait gave up. In host memory.
    pub stall: *const Stall,
    /// 1 once a wait has given up: its lane writes `stall`. In device memory.
    pub stalled: *const DeviceWord,
    /// What outlives the device. Its tables are in host memory.
    pub journal: Journal,
}

/// What streams and files need of their session. Constant while kernels run, but for what the tables' own rules say.
///
/// Its parts are read, and not changed: code that follows their addresses relies on them.
///
/// ```compile_fail,E0451
/// use gpufs_core::resources::Resources;
///
/// fn forged(of: &Resources) -> Resources {
///     Resources { parts: unimplemented!(), ..*of }
/// }
/// ```
/// ```compile_fail,E0594
/// fn moved(resources: &mut gpufs_core::resources::Resources) {
///     resources.queues = std::ptr::without_provenance(0x1000);
/// }
/// ```
/// ```compile_fail,E0133
/// # use gpufs_core::resources::{Resources, ResourcesParts};
/// fn made(parts: ResourcesParts) -> Resources {
///     Resources::new(parts)
/// }
/// ```
#[derive(Debug, PartialEq)]
#[repr(C)]
pub struct Resources {
    parts: ResourcesParts,
}

impl core::ops::Deref for Resources {
    type Target = ResourcesParts;

    #[inline]
    fn deref(&self) -> &ResourcesParts {
        &self.parts
    }
}

impl Resources {
    /// The table of these parts.
    ///
    /// # Safety
    /// Every pointer is valid for as many items as its field says, on every device that uses the table, as long as that is used; `stall` and
    /// `stalled` may be null where no wait gives up.
    #[must_use]
    pub const unsafe fn new(parts: ResourcesParts) -> Self {
        Self { parts }
    }
}

// SAFETY:
// - the tables are shared by design; each entry's rules say which lane touches what
unsafe impl Sync for Resources {}
// SAFETY:
// - as for `Sync`: nothing in a session belongs to a thread
unsafe impl Send for Resources {}

impl Resources {
    /// The rings of I/O.
    #[must_use]
    pub const fn queues(&self) -> &[Queue] {
        // SAFETY:
        // - valid for `ring_count`, which is not less, by the host's construction
        unsafe { core::slice::from_raw_parts(self.parts.queues, self.parts.queue_count as usize) }
    }
    /// All rings: those of I/O, then the service ring if there is one of its own.
    #[must_use]
    pub const fn all_queues(&self) -> &[Queue] {
        // SAFETY:
        // - valid for `ring_count`, by the host's construction
        unsafe { core::slice::from_raw_parts(self.parts.queues, self.parts.ring_count as usize) }
    }
    /// The ring that can do the operations of services, for a warp whose ring of I/O is `own` ([R-SERVE-2]).
    #[must_use]
    pub const fn ring_for_services(&self, own: u32) -> u32 {
        if self.parts.ring_count > self.parts.queue_count { self.parts.queue_count } else { own }
    }
    /// The file table.
    #[must_use]
    pub const fn files(&self) -> &[OpenFile] {
        // SAFETY:
        // - valid for `file_count`, by the host's construction
        unsafe { core::slice::from_raw_parts(self.parts.files, self.parts.file_count as usize) }
    }
    /// The registered memory.
    #[must_use]
    pub const fn regions(&self) -> &[Region] {
        // SAFETY:
        // - valid for `region_count`, by the host's construction
        unsafe { core::slice::from_raw_parts(self.parts.regions, self.parts.region_count as usize) }
    }
    /// Where a wait gave up, if one did.
    #[must_use]
    pub const fn stall(&self) -> &Stall {
        // SAFETY:
        // - valid, by the host's construction
        unsafe { &*self.parts.stall }
    }
    /// Whether the lanes of a warp copy together: where what crosses the bus costs by the access.
    #[must_use]
    pub fn copies_together(&self) -> bool {
        self.parts.coalescing_buffers.base != 0
    }
    /// Whether the calling lane is the first that gives up, and writes [`Resources::stall`].
    #[must_use]
    pub fn claim_stall(&self) -> bool {
        // SAFETY:
        // - valid, by the host's construction
        let stalled = unsafe { &*self.stalled };
        // ORDERING: acquire and release, device; nothing else hangs on it.
        stalled.compare_exchange(0, 1).is_ok()
    }
    /// The open file of an index.
    ///
    /// # Errors
    /// `EBADF` if there is none.
    pub fn file(&self, index: FileIndex) -> Result<&OpenFile, Errno> {
        self.file_and_flags(index).map(|(file, _)| file)
    }
    /// The open file of an index, and its flags: one look at them.
    ///
    /// # Errors
    /// `EBADF` if there is none.
    pub fn file_and_flags(&self, index: FileIndex) -> Result<(&OpenFile, u32), Errno> {
        let file = self.files().get(index.0 as usize).ok_or(Errno::BADF)?;
        // ORDERING: relaxed where it is enough: the host registers files before it names them, and does not change them.
        let seen = file.flags.peek();
        // ORDERING: acquire, device, partner the lane that opened it.
        let flags = if seen & OpenFile::FIXED != 0 { seen } else { file.flags.observe() };
        if flags & OpenFile::OPEN == 0 { Err(Errno::BADF) } else { Ok((file, flags)) }
    }
    /// The process's descriptor of an open file, for operations that take no registered file. Every entry has one: of a file that device
    /// code opened it is what `openat` gave, and of a file that the host registered it is the one that the host keeps until the entry is free.
    /// So such an operation installs and closes nothing, and where it fails nothing is left over.
    ///
    /// # Errors
    /// `EBADF` if there is no such file.
    pub fn process_descriptor(&self, index: FileIndex) -> Result<i32, Errno> {
        // ORDERING: relaxed: constant while the file is open, and acquired by `file`.
        self.file(index).map(|file| file.descriptor.peek().cast_signed())
    }
    /// The registered memory that holds the whole of [`address`, `address + bytes`), as a buffer index.
    #[must_use]
    pub fn region_of(&self, address: u64, bytes: u64) -> Option<u32> {
        region_among(self.regions(), address, bytes)
    }
    /// A read or write SQE of a pool's memory. See [`Resources::transfer`].
    #[must_use]
    pub fn pool_transfer(
        pool: &BufferPool,
        writing: bool,
        target: Target,
        memory: (u64, u32),
        offset: u64,
    ) -> Sqe {
        let index = (pool.buffer_index != BufferPool::UNREGISTERED).then_some(pool.buffer_index);
        Self::transfer(index, writing, target, memory, offset)
    }
    /// A read or write SQE of `memory`, an address and a length in bytes, registered under `buffer_index` if there is one.
    #[must_use]
    pub fn transfer(
        buffer_index: Option<u32>,
        writing: bool,
        target: Target,
        (address, bytes): (u64, u32),
        offset: u64,
    ) -> Sqe {
        let entry = match buffer_index {
            #[expect(clippy::cast_possible_truncation, reason = "rings register at most 2¹⁴ buffers")]
            Some(index) if writing => Sqe::write_fixed(target.fd, address, bytes, offset, index as u16),
            #[expect(clippy::cast_possible_truncation, reason = "rings register at most 2¹⁴ buffers")]
            Some(index) => Sqe::read_fixed(target.fd, address, bytes, offset, index as u16),
            None if writing => Sqe::write(target.fd, address, bytes, offset),
            None => Sqe::read(target.fd, address, bytes, offset),
        };
        if target.fixed { entry.with_fixed_file() } else { entry }
    }
}
