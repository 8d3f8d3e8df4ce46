//! What a session is to the device: tables of fixed size that the host makes before the first launch.
//!
//! ```text
//! SessionTables ── queues[]   one per ring
//!               ── files[]    descriptors that device code opened or the host registered
//!               ── streams[]  FILEs; 0, 1, 2 are stdin, stdout, stderr
//!               ── shared     which of them all share who open the same path
//!               ── staging    pool: bounce buffers of calls in progress, paths, statx results
//!               ── stream_buffers  pool: the blocks of open streams
//!               ── regions[]  memory the host registered, used in place
//!               ── journal    what outlives the device, in host memory
//! ```
#![allow(unsafe_code, reason = "tables behind pointers that the host made")]

use crate::Errno;
use crate::abi::{CURRENT_POSITION, Sqe};
use crate::free_set::FreeSet;
use crate::journal::Journal;
use crate::pool::BufferPool;
use crate::queue::{Queue, QueueProgress};
use crate::stream::Stream;
use crate::word::{DeviceWord, DeviceWord64, SharedWord, SharedWord64, wake_fence};

/// Index of an entry of the session's file table; what `open` returns as a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct FileIndex(pub u32);

/// Index of an entry of the session's stream table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct StreamIndex(pub u32);

/// First come, first served. The holder may wait for the kernel, never for a lane that is queued after it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct TicketLock {
    /// The next ticket. Written by whoever draws.
    next: DeviceWord,
    /// The ticket that holds the lock. Written by the holder.
    serving: DeviceWord,
}

impl TicketLock {
    /// Draws a ticket. One lane.
    #[must_use]
    pub fn draw(&self) -> u32 {
        // ORDERING: relaxed: `is_served` acquires.
        self.next.fetch_add_relaxed(1)
    }
    /// Takes the lock if nobody holds it or waits for it. For who may give up waiting: a ticket that was drawn must be served.
    #[must_use]
    pub fn try_take(&self) -> bool {
        // ORDERING: acquire, device, partner `release`.
        let ticket = self.serving.observe();
        // ORDERING: acquire and release, device; where it succeeds, the ticket drawn is the one that is served.
        self.next.compare_exchange(ticket, ticket.wrapping_add(1)).is_ok()
    }
    /// Whether the ticket's turn has come: then the lock is its holder's.
    #[must_use]
    pub fn is_served(&self, ticket: u32) -> bool {
        // ORDERING: acquire, device, partner `release`.
        self.serving.observe() == ticket
    }
    /// How many lanes hold the lock or wait for it: a hint.
    #[must_use]
    pub fn queued(&self) -> u32 {
        // ORDERING: relaxed: a hint.
        self.next.peek().wrapping_sub(self.serving.peek())
    }
    /// Frees the lock of a holder and of queued lanes that are gone. While no kernel runs.
    pub fn reset(&self) {
        // ORDERING: relaxed: the next launch publishes it.
        self.serving.set(self.next.peek());
    }
    /// Hands the lock to the next ticket. The holder.
    pub fn release(&self) {
        // ORDERING: release, device, partner `is_served`. Only the holder writes the word.
        self.serving.publish(self.serving.peek().wrapping_add(1));
    }
}

/// How an SQE names a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The process's descriptor, or the index of a registered file.
    pub fd: i32,
    /// Which of the two.
    pub fixed: bool,
}

/// One open file. All words but `position` are constant while it is open; `position` is guarded by `lock`.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct OpenFile {
    /// [`OpenFile::OPEN`] and its companions; 0 when the entry is free.
    pub flags: DeviceWord,
    /// The process's descriptor.
    pub descriptor: DeviceWord,
    /// Guards `position`.
    pub lock: TicketLock,
    /// Where `read` and `write` go on, in bytes from the start of the file.
    pub position: DeviceWord64,
    /// [`OpenFile::SHARED`]: the process's descriptor of the socket over which the host moves the position ([`crate::seek`]).
    pub seeker: DeviceWord,
}

impl OpenFile {
    /// The entry is in use.
    pub const OPEN: u32 = 1 << 0;
    /// Reading is allowed.
    pub const READABLE: u32 = 1 << 1;
    /// Writing is allowed.
    pub const WRITABLE: u32 = 1 << 2;
    /// Each write goes to the end (`O_APPEND`).
    pub const APPEND: u32 = 1 << 3;
    /// Has a position: a regular file or block device.
    pub const SEEKABLE: u32 = 1 << 4;
    /// A terminal: streams on it are line buffered.
    pub const TERMINAL: u32 = 1 << 5;
    /// The host opened it, and the host closes it.
    pub const HOST_OWNED: u32 = 1 << 6;
    /// A character device whose position is always 0 (`/dev/null` and its kin): seeking succeeds and does nothing.
    pub const POSITIONLESS: u32 = 1 << 7;

    /// Has a position that others share, and that is therefore not ours: a regular file or block device as a standard stream. Then not
    /// [`OpenFile::SEEKABLE`]: transfers take the kernel's position, and only the host can move it.
    pub const SHARED: u32 = 1 << 9;
    /// The rings have it registered under its index.
    pub const FIXED: u32 = 1 << 8;

    /// Its calls do not wait (`O_NONBLOCK`).
    pub const NONBLOCK: u32 = 1 << 10;
    /// A FIFO that device code opened: its descriptor does not wait, and whether a writer has come is for a poll to say.
    pub const FIFO: u32 = 1 << 11;

    /// Whether a transfer may have to wait for another party, for ever perhaps: a pipe, a FIFO, a socket, a terminal.
    #[must_use]
    pub const fn may_wait(flags: u32) -> bool {
        flags & (Self::SEEKABLE | Self::POSITIONLESS) == 0
    }

    /// How an SQE names the file.
    #[must_use]
    pub fn target(&self, index: FileIndex) -> Target {
        self.target_of(self.flags.peek(), index)
    }
    /// [`OpenFile::target`] for who has seen the flags.
    #[must_use]
    pub fn target_of(&self, flags: u32, index: FileIndex) -> Target {
        if flags & Self::FIXED != 0 {
            Target { fd: index.0.cast_signed(), fixed: true }
        } else {
            Target { fd: self.descriptor.peek().cast_signed(), fixed: false }
        }
    }

    /// Where a sequential transfer goes, given the position: there, or wherever the kernel's own rules put it.
    #[must_use]
    pub const fn offset(flags: u32, position: u64, writing: bool) -> u64 {
        if flags & Self::SEEKABLE == 0 || (writing && flags & Self::APPEND != 0) {
            CURRENT_POSITION
        } else {
            position
        }
    }
}

/// Memory that the host registered with every ring.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Region {
    /// First address.
    pub address: DeviceWord64,
    /// Length in bytes; 0 for an unused entry.
    pub bytes: DeviceWord64,
    /// Index under which every ring has it.
    pub buffer_index: DeviceWord,
}

/// Where a wait gave up; written once, by the first that does. In host memory: giving up ends the kernel, and on a GPU all of the
/// device's memory with it.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), repr(C, align(64)))]
pub struct Stall {
    /// 0, or 1 + [`WaitReason`] of the first wait that gave up. Stored last.
    pub reason: SharedWord,
    /// Ring waited on.
    pub ring: SharedWord,
    /// Operation token, ticket, or block number waited for.
    pub object: SharedWord64,
    /// How far the ring was then: the fields of [`QueueProgress`], in their order.
    pub progress: [SharedWord; 7],
    /// What panicked.
    pub panic: PanicNote,
}

impl Stall {
    /// Notes where a wait gave up. The one lane that claimed it, which may then end the kernel at once.
    pub fn note(&self, reason: WaitReason, ring: u32, object: u64, progress: QueueProgress) {
        let QueueProgress { tickets, sq_tail, cq_tail, drained, unpublished, orphaned, polled } = progress;
        // ORDERING: relaxed: the reason's release puts them before.
        self.ring.set(ring);
        self.object.set(object);
        let values = [tickets, sq_tail, cq_tail, drained, unpublished, orphaned, polled];
        for (word, value) in self.progress.iter().zip(values) {
            word.set(value);
        }
        // ORDERING: release, system, partner the host.
        self.reason.publish(1 + reason as u32);
        // What is on its way when the kernel ends might not arrive.
        wake_fence();
    }
    /// How far the ring was.
    #[must_use]
    pub fn progress(&self) -> QueueProgress {
        // ORDERING: relaxed: the reason was observed before.
        let [tickets, sq_tail, cq_tail, drained, unpublished, orphaned, polled] =
            core::array::from_fn(|index| self.progress[index].peek());
        QueueProgress { tickets, sq_tail, cq_tail, drained, unpublished, orphaned, polled }
    }
}

/// What the first panic of a device program said, and where it was. In host memory, as [`Stall`] is.
#[derive(Debug)]
#[cfg_attr(not(loom), repr(C))]
pub struct PanicNote {
    /// Bytes of the text; 0 if there was no panic. Stored last.
    pub length: SharedWord,
    /// The text, four bytes a word, the first lowest.
    pub text: [SharedWord; PanicNote::BYTES as usize / 4],
}

impl Default for PanicNote {
    fn default() -> Self {
        Self { length: SharedWord::default(), text: core::array::from_fn(|_| SharedWord::default()) }
    }
}

impl PanicNote {
    /// The longest text.
    pub const BYTES: u32 = 384;

    /// Notes a text, as much of it as there is room for. The one lane that claimed it ([`PanicRoute`]), which may then end the kernel at
    /// once.
    pub fn note(&self, text: impl Iterator<Item = u8>) {
        let (mut length, mut gathered) = (0, 0);
        for byte in text.take(Self::BYTES as usize) {
            gathered |= u32::from(byte) << (length % 4 * 8);
            // ORDERING: relaxed: the length's release puts them before.
            self.text[length as usize / 4].set(gathered);
            length += 1;
            if length % 4 == 0 {
                gathered = 0;
            }
        }
        // ORDERING: release, system, partner `copy`.
        self.length.publish(length);
        // What is on its way when the kernel ends might not arrive.
        wake_fence();
    }
    /// Copies the text to `into`; how many bytes it has.
    pub fn copy(&self, into: &mut [u8; Self::BYTES as usize]) -> u32 {
        // ORDERING: acquire, system, partner `note`.
        let length = self.length.observe().min(Self::BYTES);
        for (word, bytes) in self.text.iter().zip(into.chunks_exact_mut(4)) {
            // ORDERING: relaxed: the length was observed before.
            bytes.copy_from_slice(&word.peek().to_le_bytes());
        }
        length
    }
}

/// Where a device program finds its [`PanicNote`]: its global variable of the name [`PanicRoute::NAME`], which the host fills in.
#[derive(Debug)]
#[repr(C)]
pub struct PanicRoute {
    /// The note's address; 0 if nobody wants it.
    pub note: DeviceWord64,
    /// 1 once a panic is being noted: its lane writes the note.
    pub claimed: DeviceWord64,
}

impl PanicRoute {
    /// The variable's name.
    pub const NAME: &core::ffi::CStr = c"gpufs_panic_route";
}

/// What a wait waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WaitReason {
    /// A slot of a ring.
    Slot,
    /// A staging buffer.
    Staging,
    /// An operation's completion.
    Completion,
    /// A block of a stream.
    StreamBlock,
    /// A stream's lock.
    StreamLock,
    /// Other lanes' bytes, on their way into a stream's blocks.
    StreamFill,
    /// A file's lock.
    FileLock,
    /// A stream that others are opening or closing for all who share it.
    SharedOpen,
}

impl WaitReason {
    /// All of them, in order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Slot,
        Self::Staging,
        Self::Completion,
        Self::StreamBlock,
        Self::StreamLock,
        Self::StreamFill,
        Self::FileLock,
        Self::SharedOpen,
    ];
}

/// The session as the device sees it. Constant while kernels run, but for what the tables' own rules say.
#[derive(Debug, PartialEq)]
#[repr(C)]
pub struct SessionTables {
    /// `queue_count` rings.
    pub queues: *const Queue,
    /// Rings: at least 1.
    pub queue_count: u32,
    /// Entries of `files`.
    pub file_count: u32,
    /// The file table.
    pub files: *const OpenFile,
    /// Free entries of `files`.
    pub files_free: FreeSet,
    /// The stream table.
    pub streams: *const Stream,
    /// Free entries of `streams`.
    pub streams_free: FreeSet,
    /// Entries of `streams`.
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
    /// Device memory for the text of lines that are read ahead ([`crate::lines`]): buffers of twice a stream buffer's size. `base` is 0
    /// where there is none.
    pub line_buffers: BufferPool,
    /// Nanoseconds after which a wait gives up; 0 for never.
    pub deadline_ns: u64,
    /// Blocks that a writing stream asks for: a power of two up to [`crate::stream::MOST_BLOCKS`].
    pub blocks_per_stream: u32,
    /// Where a wait gave up. In host memory.
    pub stall: *const Stall,
    /// 1 once a wait has given up: its lane writes `stall`. In device memory.
    pub stalled: *const DeviceWord,
    /// What outlives the device. Its tables are in host memory.
    pub journal: Journal,
    // What few calls look at comes last, so that the others find what they need together.
    /// Streams that all who open the same path share.
    pub shared: crate::shared::Table,
    /// Memory of the device for records that a lane formats before it reserves room for them, and that its scratch memory does not hold.
    /// Who holds some of it may run code of the program; nothing else is taken from it. `base` is 0 where there is none.
    pub records: BufferPool,
    /// How often memory of `records` was given back by a text that had ended. In device memory.
    pub records_ended: *const DeviceWord,
    /// How often which call failed with which number ([`crate::failures`]). Null where nobody counts.
    pub failures: *const DeviceWord64,
}

// SAFETY:
// - the tables are shared by design; each entry's rules say who touches what
unsafe impl Sync for SessionTables {}
// SAFETY:
// - as for `Sync`: nothing in a session belongs to a thread
unsafe impl Send for SessionTables {}

impl SessionTables {
    /// The rings.
    #[must_use]
    pub const fn queues(&self) -> &[Queue] {
        // SAFETY:
        // - valid for `queue_count`, by the host's construction
        unsafe { core::slice::from_raw_parts(self.queues, self.queue_count as usize) }
    }
    /// The file table.
    #[must_use]
    pub const fn files(&self) -> &[OpenFile] {
        // SAFETY:
        // - valid for `file_count`, by the host's construction
        unsafe { core::slice::from_raw_parts(self.files, self.file_count as usize) }
    }
    /// The stream table.
    #[must_use]
    pub const fn streams(&self) -> &[Stream] {
        // SAFETY:
        // - valid for `stream_count`, by the host's construction
        unsafe { core::slice::from_raw_parts(self.streams, self.stream_count as usize) }
    }
    /// The registered memory.
    #[must_use]
    pub const fn regions(&self) -> &[Region] {
        // SAFETY:
        // - valid for `region_count`, by the host's construction
        unsafe { core::slice::from_raw_parts(self.regions, self.region_count as usize) }
    }
    /// Whether the session was closed, or belongs to the process that this one was forked from: its tables are zero then. On CPU lanes; a
    /// GPU's tables go with its session.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // ORDERING: relaxed: a constant of open tables.
        self.streams().first().is_none_or(|stream| stream.home.peek() == 0)
    }
    /// Where a wait gave up, if one did.
    #[must_use]
    pub const fn stall(&self) -> &Stall {
        // SAFETY:
        // - valid, by the host's construction
        unsafe { &*self.stall }
    }
    /// Whether the lanes of a warp copy together: where what crosses the bus costs by the access.
    #[must_use]
    pub const fn copies_together(&self) -> bool {
        self.coalescing_buffers.base != 0
    }
    /// How often memory of `records` was given back by a text that had ended: while it changes, a wait for such memory gets somewhere.
    #[must_use]
    pub const fn records_ended(&self) -> &DeviceWord {
        // SAFETY:
        // - valid, by the host's construction
        unsafe { &*self.records_ended }
    }
    /// Whether the calling lane is the first that gives up, and writes [`SessionTables::stall`].
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
        // ORDERING: acquire, device, partner whoever opened it.
        let flags = if seen & OpenFile::FIXED != 0 { seen } else { file.flags.observe() };
        if flags & OpenFile::OPEN == 0 { Err(Errno::BADF) } else { Ok((file, flags)) }
    }
    /// The registered memory that holds the whole of [`address`, `address + bytes`), as a buffer index.
    #[must_use]
    pub fn region_of(&self, address: u64, bytes: u64) -> Option<u32> {
        region_among(self.regions(), address, bytes)
    }
    /// A read or write SQE of a pool's memory. See [`SessionTables::transfer`].
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
            #[allow(clippy::cast_possible_truncation, reason = "rings register at most 2¹⁴ buffers")]
            Some(index) if writing => Sqe::write_fixed(target.fd, address, bytes, offset, index as u16),
            #[allow(clippy::cast_possible_truncation, reason = "rings register at most 2¹⁴ buffers")]
            Some(index) => Sqe::read_fixed(target.fd, address, bytes, offset, index as u16),
            None if writing => Sqe::write(target.fd, address, bytes, offset),
            None => Sqe::read(target.fd, address, bytes, offset),
        };
        if target.fixed { entry.with_fixed_file() } else { entry }
    }
}

/// [`SessionTables::region_of`], in a table that is filled from its start.
///
/// Selects instead of returning early, and stands alone: lanes of a warp leave it together, and what it looks at stays in registers.
#[inline(never)]
fn region_among(regions: &[Region], address: u64, bytes: u64) -> Option<u32> {
    /// Regions that are looked at with one trip to memory.
    const AT_ONCE: usize = 4;
    let mut found = None;
    let mut next = 0;
    // Ends: `next` grows.
    while next < regions.len() {
        let mut seen = [(0, 0, 0); AT_ONCE];
        // By index: written out, it stays in registers.
        #[allow(clippy::needless_range_loop, reason = "an iterator over the array keeps it in memory")]
        for offset in 0..AT_ONCE {
            // Past the table's end it is its last entry again.
            let region = &regions[(next + offset).min(regions.len() - 1)];
            // ORDERING: relaxed: regions change only while no kernel runs.
            seen[offset] = (region.address.peek(), region.bytes.peek(), region.buffer_index.peek());
        }
        #[allow(clippy::needless_range_loop, reason = "as above")]
        for offset in 0..AT_ONCE {
            let (start, length, index) = seen[offset];
            let begins = start != 0 && address >= start && bytes <= length;
            if begins && address.wrapping_sub(start) <= length.wrapping_sub(bytes) {
                found = Some(index);
            }
        }
        let last = found.is_some() || seen[AT_ONCE - 1].0 == 0;
        next = if last { regions.len() } else { next + AT_ONCE };
    }
    found
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::{Region, TicketLock, region_among};
    use crate::word::{DeviceWord, DeviceWord64};

    #[test]
    fn a_ticket_lock_comes_round() {
        let begin = u32::MAX - 2;
        let lock = TicketLock { next: DeviceWord::new(begin), serving: DeviceWord::new(begin) };
        let tickets: Vec<u32> = (0..6).map(|_| lock.draw()).collect();
        assert_eq!(lock.queued(), 6);
        for ticket in &tickets {
            assert!(tickets.iter().all(|other| lock.is_served(*other) == (other == ticket)));
            lock.release();
        }
        assert_eq!((lock.queued(), lock.draw()), (0, 3));
        let _ = lock.draw();
        lock.reset();
        assert_eq!(lock.queued(), 0);
    }

    proptest! {
        /// Tables of every fill, beside a look at one region after the other; addresses and lengths around the regions' ends and the largest.
        #[test]
        fn finds_the_region_that_holds_all(
            lengths in prop::collection::vec(1_u64..100, 0..10),
            free in 0_usize..3,
            near in 0_usize..10,
            offset in -3_i64..103,
            bytes in prop_oneof![0_u64..104, Just(u64::MAX), Just(u64::MAX - 1000)],
        ) {
            let at = |index: usize| 1000 + 200 * index as u64;
            let regions: Vec<Region> = (0..lengths.len() + free)
                .map(|index| {
                    let length = lengths.get(index).copied();
                    Region {
                        address: DeviceWord64::new(length.map_or(0, |_| at(index))),
                        bytes: DeviceWord64::new(length.unwrap_or(0)),
                        buffer_index: DeviceWord::new(70 + u32::try_from(index).unwrap()),
                    }
                })
                .collect();
            let address = at(near).wrapping_add_signed(offset);
            let holds = |index: &usize| {
                let (start, end) = (u128::from(at(*index)), u128::from(at(*index)) + u128::from(lengths[*index]));
                u128::from(address) >= start && u128::from(address) + u128::from(bytes) <= end
            };
            let expected = (0..lengths.len()).find(holds).map(|index| 70 + u32::try_from(index).unwrap());
            prop_assert_eq!(region_among(&regions, address, bytes), expected);
        }
    }
}
