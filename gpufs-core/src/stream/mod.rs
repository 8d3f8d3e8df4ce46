//! A stream's blocks: how bytes of many warps become whole, ordered writes (stages 3 and 8).
//!
//! | file | what is in it |
//! |---|---|
//! | `mod.rs` | the invariants, and the stream's words |
//! | `geometry.rs` | where a position lies: its block, its place, its buffer |
//! | `reservation.rs` | how lanes reserve what only grows; knows no streams |
//! | `state.rs` | the state of a block, and its transitions; knows no streams |
//! | `write.rs` | reserving, committing, starting a write: the fast path |
//! | `reap.rs` | what follows a write: its result, the freed block, the next grant |
//! | `journaled.rs` | what the journal is told of a block |
//! | `locked.rs` | under the lock: opening and closing the fast path, beginning to write, setting up an entry |
//! | `flush.rs` | under the lock: writing everything that was accepted |
//! | `grow.rs` | more blocks for a stream that writes much |
//! | `memory.rs` | what memory a stream of `fmemopen` or `open_memstream` is on |
//! | `hold.rs` | a caller keeps the stream for several calls |
//! | `rest.rs` | how blocks come to rest, so that the stream may become another |
//! | `readahead/` | lines that are read ahead |
//!
//! Not in here: files and their descriptors, buffers, rings, the journal's own format. A stream is handed the table of these
//! ([`Resources`]), and knows nothing of the session that holds it.
//!
//! A writing stream has a *cursor*, a byte position that only grows, and K blocks of B bytes in a ring: position *p* lies in block
//! number *b = p / B*, which uses place *b mod K*. What may be reserved is *granted*: whole blocks, in order, each once its place is
//! free. `available` is the number of granted bytes that no writer has reserved; see [`reservation`]. The steps, each of one lane:
//!
//! ```text
//! try_reserve(n) -> p          fast path, no lock
//!   (each lane copies its bytes to `address(p + …)`; barrier)
//! commit(p, n)                 counts the bytes in; the lane that makes a block full must start it
//! start(b)                     FULL -> in flight
//! reap(place)                  in flight and complete -> free again, or in flight again with the rest
//! ```
//!
//! Everything else (flush, seek, reading, close, a line or no buffer) is done under the stream's lock with the cursor CLOSED, which
//! sends every lane that comes to the lock.
//!
//! A stream begins with one block, in the buffer of its own ([R-11]). It *grows* under the lock, when a write finds no room, or when
//! so many callers begin to write it that they will fill a block: what was accepted is written, and writing restarts in more blocks.
//!
//! The life of a block, whose states are those of [`state`]:
//!
//! ```text
//! FILLING ──last commit──► FULL ──start──► CLAIMED ──► in flight ──reap──► CLAIMED ──► FILLING, block_number + K
//!                           ▲                            ▲    │                │
//!                           └───────── write failed ─────┼────┼────────────────┤
//!                                                        └────┴─ short: the rest
//! ```
//!
//! Where what could not be written is dropped, the lock's holder takes the block back, FULL → FILLING (`rest.rs`).
//!
//! Where output survives the device, each of these edges but CLAIMED also switches the block's place in the journal, and each commit
//! stores an entry there first ([`crate::journal`]).
//!
//! Invariants, for the block *b* that a place has:
//! `written ≤ committed ≤ B`; `committed` = bytes reserved in *b* once every reserver has committed; bytes below `written` are in
//! the file; a block is FULL, CLAIMED or in flight as a whole only when `committed = B`, or under the lock.
//!
//! In which order blocks go out is the stream's [`Order`], of which `next` is the word:
//!
//! | order | of | block *b* is started | `next` grows to *b + 1* |
//! |---|---|---|---|
//! | any | files with positions | when it is full | never |
//! | one after the other | append, pipes, terminals | when it is full, and `next = b` | when *b* is written |
//! | started in order | traces in files with positions: whoever reads one while it is written finds no holes | when it is full, and `next ≥ b` | when *b* is started |
//!
//! Whoever moves `next` to a block looks whether that is full, with a fence between; whoever makes a block full looks at `next`, with a fence
//! between: one of the two starts it. Blocks are started in the stream's one ring: `next` moves once the ticket of *b* is drawn and before *b* is
//! in flight, so that tickets have the blocks' order, and so has the system. What then fails is tried again, where `next > b`.

mod flush;
mod geometry;
mod grow;
mod hold;
mod journaled;
mod locked;
mod memory;
pub mod readahead;
mod reap;
pub mod reservation;
mod rest;
pub mod state;
mod write;

use crate::abi::Errno;
use crate::lock::TicketLock;
use crate::resources::Resources;
use crate::ring::CacheAligned;
use crate::word::{DeviceWord, DeviceWord64};
pub use geometry::{BlockRef, StreamGeometry};
pub use memory::{MemoryKind, MemoryWords};
use readahead::Lines;
use reservation::ReservationWords;
pub use reservation::{CLOSED, Reservation};
pub use state::{BlockState, State, Token};
pub use write::Committed;

/// Blocks that a stream can have.
pub const BLOCKS_MAX: usize = if cfg!(loom) { 16 } else { 32 };

/// Bits of a stream's position in its cursor.
const POSITION_BITS: u32 = 48;
const POSITION: u64 = (1 << POSITION_BITS) - 1;

/// One place of a stream's ring of blocks. What all committers change lies apart from what they only look at, 32 bytes on.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Block {
    /// The number of the block that may use this place now. Written by the reaper, or under the lock.
    pub block_number: DeviceWord64,
    /// The state.
    pub state: BlockState,
    /// Bytes copied in.
    ///
    /// ```text
    /// 63 … 32                               31 … 0
    /// journal entries drawn since its       bytes: 0 to B
    /// place was last switched
    /// ```
    pub committed: DeviceWord64,
    /// Bytes that are in the file: 0 to `committed`. Owned by the block's owner.
    pub written: DeviceWord,
    /// The epoch in force of the block's place in the journal. Changed by the block's owner, with nobody committing.
    pub epoch: DeviceWord64,
    /// The buffer of the session's `stream_buffers`: in the first place the stream's own, which the host gives to each entry before the first
    /// launch; spare ones in the others. Constant while the stream has the place.
    pub buffer: DeviceWord,
}

/// In a block's `committed`: one journal entry drawn.
const ENTRY: u64 = 1 << 32;

impl Block {
    /// Gives the place a buffer. The buffer's owner, with nobody using the place.
    pub(crate) fn give(&self, resources: &Resources, buffer: u32) {
        // ORDERING: relaxed: the stream's generation or block count publishes it.
        self.buffer.set(buffer);
        if let Some(place) = resources.journal.place(buffer) {
            // ORDERING: relaxed: acquired with the buffer.
            self.epoch.set(place.epoch.peek());
        }
    }
    /// Bytes copied in: 0 to B. Relaxed.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the low half is the bytes")]
    pub fn committed(&self) -> u32 {
        // ORDERING: relaxed: by the block's owner, or by a lane that acquired it from its committers before.
        self.committed.peek() as u32
    }
}

/// What the stream is doing. Under the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    /// Neither: the position is `position`.
    Idle,
    /// The first block's buffer holds what was read.
    Reading,
    /// The blocks hold what is to be written.
    Writing,
}

/// In which order a stream's blocks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Order {
    /// In any.
    Any,
    /// One write follows the other.
    OneByOne,
    /// Writes begin in order, in one ring.
    Started,
}

/// When a writing stream is flushed without being asked (`setvbuf(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Buffering {
    /// `_IOFBF`: when a block is full.
    Full,
    /// `_IOLBF`: also after each call that brought a newline.
    Line,
    /// `_IONBF`: after each call.
    None,
}

/// A shared `FILE`.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Stream {
    /// CLOSED, and the position: bytes reserved since `base`. Written by reservers and by the lock's holder. On a line of its own, as
    /// all reservers write it and look at what follows.
    pub cursor: CacheAligned<DeviceWord64>,
    /// Odd while open; grows by one at each open and close. Under the lock.
    pub generation: DeviceWord,
    /// log₂ B. Under the lock.
    pub block_shift: DeviceWord,
    /// K, a power of two. Grows under the lock, when nothing is in flight.
    pub block_count: DeviceWord,
    /// An [`Order`]. Constant while open, but that a stream that nobody has written to may become one that is started in order.
    pub order: DeviceWord,
    /// The errno of a write-behind that failed and has not been retried; 0 if none. While it is set, nothing is started.
    pub error: DeviceWord,
    /// Index of the file. Constant while open.
    pub file: DeviceWord,
    /// Offset in the file of position 0, modulo 2⁶⁴. Under the lock.
    pub base: DeviceWord64,
    /// Where there is an order: the number of the block to be started next. Written by whoever the order says, or under the lock.
    pub next: DeviceWord64,

    /// The position up to which was granted: a multiple of B while the stream writes. Written by a lane that frees a block, or under the
    /// lock.
    pub granted_to: DeviceWord64,
    /// Lanes that free a block and have not granted it yet.
    pub freeing: DeviceWord,

    /// First come, first served; guards what follows.
    pub lock: TicketLock,
    /// The cursor's position while it is closed.
    pub closed_at: DeviceWord64,
    /// A [`Direction`].
    pub direction: DeviceWord,
    /// A [`Buffering`].
    pub buffering: DeviceWord,
    /// Stream flags: [`Stream::FLAG_EOF`], [`Stream::FLAG_ERROR`], and [`Stream::without`].
    pub flags: DeviceWord,
    /// Bytes pushed back by `ungetc`: 0 to 8.
    pub pushed_count: DeviceWord,
    /// The pushed-back bytes; the lowest byte is read first.
    pub pushed: DeviceWord64,
    /// Idle: the position. Reading: the position of the buffer's first byte.
    pub position: DeviceWord64,
    /// Reading: the next byte of the buffer.
    pub read_next: DeviceWord,
    /// Reading: bytes in the buffer.
    pub read_end: DeviceWord,
    /// Bytes from the session's own address to this entry's, alike on every device. Constant.
    pub home: DeviceWord,
    /// Of a stream that is shared ([`crate::shared`]): its entry's epoch, and the entry's index and 1. 0 of another. Constant while open.
    pub shared: DeviceWord64,
    /// Bytes granted that nobody has reserved: signed, since a writer that takes too much gives it back. Written by reservers and granters.
    /// On a line of its own, since many look at it while they wait.
    pub available: CacheAligned<DeviceWord64>,
    /// Warps that found the stream busy and make progress on its blocks.
    pub progressing: CacheAligned<DeviceWord>,
    /// Lines read ahead.
    pub lines: Lines,
    /// The blocks.
    pub blocks: [Block; BLOCKS_MAX],
    /// The identity of the caller that keeps the stream for several calls ([R-12]); 0 if none does. Under the lock.
    pub holder: DeviceWord64,
    /// How often the holder keeps it. Under the lock.
    pub holds: DeviceWord,
    /// The memory that the stream is on, if it is.
    pub memory: MemoryWords,
}

/// The result of a step towards the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// Nothing is left to do.
    Done,
    /// Something is under way: drain this ring and come again.
    Wait(u32),
    /// The ring has no free slot: drain and come again.
    NoSlot,
    /// A write failed; the bytes are kept.
    Failed(Errno),
}

impl Stream {
    /// End of file was met (`feof(3)`).
    pub const FLAG_EOF: u32 = 1 << 0;
    /// A transfer failed (`ferror(3)`).
    pub const FLAG_ERROR: u32 = 1 << 1;
    /// Where the flags say what the stream refuses.
    const REFUSED_SHIFT: u32 = 8;
    /// The position after which writing restarts with a position in the first block. Lanes that looked before may still reserve: a grid less
    /// than 2⁴⁶ bytes at once, so that positions stay below what the cursor holds.
    pub const SPENT: u64 = POSITION / 2;

    /// The words by which bytes are reserved.
    #[inline]
    const fn reservation(&self) -> ReservationWords<'_, POSITION_BITS, false> {
        ReservationWords {
            cursor: &self.cursor.0,
            available: &self.available.0,
            granted_to: &self.granted_to,
            closed_at: &self.closed_at,
        }
    }

    /// The ring that the stream's writes go through. One for all: the system lets one writer at a time into a file, and where writes of
    /// several rings meet there, their worker threads wake each other for each.
    #[must_use]
    pub fn ring(&self, resources: &Resources) -> u32 {
        self.index_in(resources) % resources.queue_count
    }

    /// The stream's index in its session's table.
    #[must_use]
    pub fn index_in(&self, resources: &Resources) -> u32 {
        let offset = core::ptr::from_ref(self).addr() - resources.stream_table.addr();
        #[allow(clippy::cast_possible_truncation, reason = "the table has fewer than 2³² entries")]
        {
            (offset / size_of::<Self>()) as u32
        }
    }

    /// Notes that a write failed, which shuts the fast path, so that the next caller meets the error under the lock.
    pub fn fail(&self, errno: Errno) {
        // ORDERING: relaxed: read under the lock, or as a hint.
        self.error.set(errno.number().cast_unsigned());
    }

    /// The error of a failed write-behind.
    #[must_use]
    pub fn failed(&self) -> Option<Errno> {
        // ORDERING: relaxed: a hint, or under the lock.
        let number = self.error.peek().cast_signed();
        (number != 0).then(|| Errno::from_number(number))
    }

    /// Forgets a noted error, so that a flush tries the kept bytes again. The lock's holder.
    pub fn forget_error(&self) {
        // ORDERING: relaxed: read under the lock, or as a hint.
        self.error.set(0);
    }

    /// What the stream is doing.
    #[must_use]
    pub fn direction(&self) -> Direction {
        // ORDERING: relaxed: under the lock, or a hint.
        match self.direction.peek() {
            0 => Direction::Idle,
            1 => Direction::Reading,
            _ => Direction::Writing,
        }
    }

    /// In which order its blocks are written.
    #[must_use]
    pub fn order(&self) -> Order {
        // ORDERING: relaxed: constant while the stream is written.
        match self.order.peek() {
            0 => Order::Any,
            1 => Order::OneByOne,
            _ => Order::Started,
        }
    }
    /// Begins the writes of a stream in order, if its file has positions. The only user of a stream that nobody has written to yet.
    pub fn start_in_order(&self) {
        if self.order() == Order::Any {
            // ORDERING: relaxed: what hands the stream to others publishes it.
            self.order.set(Order::Started as u32);
        }
    }
    /// Whether the order lets a block be started now.
    fn is_next(&self, block_number: u64) -> bool {
        match self.order() {
            Order::Any => true,
            // ORDERING: acquire, device, partner the reaper: the write before comes before.
            Order::OneByOne => self.next.observe() == block_number,
            // ORDERING: acquire, device, partner `submit`: the ticket of the block before was drawn before.
            Order::Started => self.next.observe() >= block_number,
        }
    }

    /// When it flushes.
    #[must_use]
    pub fn buffering(&self) -> Buffering {
        // ORDERING: relaxed: under the lock, or a hint.
        match self.buffering.peek() {
            0 => Buffering::Full,
            1 => Buffering::Line,
            _ => Buffering::None,
        }
    }

    /// The rings and slots that the stream's writes and reads ahead hold. While no kernel runs.
    pub fn slots(&self) -> impl Iterator<Item = (u32, u32)> {
        let writes = self.blocks.iter().map(|block| block.state.peek());
        let reads = self.lines.places.iter().map(|place| place.state.peek());
        writes.chain(reads).filter_map(|state| {
            let State::InFlight(token) = state else { return None };
            let (ring, operation) = token.parts();
            Some((ring, operation.slot.0))
        })
    }
}
