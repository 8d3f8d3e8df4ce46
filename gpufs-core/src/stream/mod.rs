//! A stream's blocks: how bytes of many warps become whole, ordered writes (stages 3 and 8).
//!
//! A writing stream has a *cursor*, a byte position that only grows, and K blocks of B bytes in a ring: position *p* lies in block
//! number *b = p / B*, which uses place *b mod K*. What may be reserved is *granted*: whole blocks, in order, each once its place is
//! free. `available` is what of that nobody has taken. Who takes `n` bytes of it may add `n` to the cursor, and finds the bytes there free:
//!
//! ```text
//! available + taken, not yet added to the cursor = granted_to − position
//! ```
//!
//! Both are additions, which succeed whoever else comes: an exchange on the cursor would fail for all but one of those that try at the
//! same time, and then 400,000 reservations a second is what one stream of an H200 gets. The steps, each of one lane:
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
//! sends every newcomer to the lock.
//!
//! A stream begins with one block, in the buffer of its own ([R-11]). It *grows* under the lock, when a write finds no room, or when it
//! begins to be written by so many that they will fill a block: what was accepted is written, and writing begins anew, in more blocks.
//!
//! The life of a block's `operation` word:
//!
//! ```text
//! FILLING ──last commit──► FULL ──start──► CLAIMED ──► token (in flight) ──reap──► CLAIMED ──► FILLING, block_number + K
//!                           ▲                            ▲      │                      │
//!                           └───────── write failed ─────┼──────┼──────────────────────┤
//!                                                        └──────┴─── short: the rest ──┘
//! ```
//!
//! and, where what could not be written is dropped, FULL ──taken back, under the lock──► FILLING (`rest`).
//!
//! Where output survives the device, each of these edges but CLAIMED also switches the block's place in the journal, and each commit
//! stores an entry there first (`crate::journal`).
//!
//! Invariants, for the block *b* that a place has:
//! `written ≤ committed ≤ B`; `committed` = bytes reserved in *b* once every reserver has committed; bytes below `written` are in
//! the file; a block is FULL, CLAIMED or in flight as a whole only when `committed = B`, or under the lock.
//!
//! Serial streams (append, pipes, terminals) start block *b* only when `serial_next = b`, so one write follows the other.
#![allow(unsafe_code, reason = "filling a ring entry")]

mod grow;
pub mod readahead;
mod rest;

use crate::abi::Errno;
use crate::alloc::BufferPool;
use crate::files::{FileIndex, OpenFile};
use crate::journal::{Journal, Record};
use crate::lock::TicketLock;
use crate::resources::Resources;
use crate::ring::{CacheAligned, Operation, Outcome, SlotClaim};
use crate::word::{DeviceWord, DeviceWord64, device_fence};
use readahead::Lines;

/// Blocks that a stream can have.
pub const BLOCKS_MAX: usize = 16;

/// The cursor:
///
/// ```text
/// 63       62 … 48    47 … 0
/// closed   0          position
/// ```
///
/// Closed: no fast path; newcomers go to the lock. The position then means nothing, since newcomers that saw it open may still add to
/// it; [`Stream::closed_at`] has it.
const CLOSED: u64 = 1 << 63;
const POSITION: u64 = (1 << 48) - 1;

const FILLING: u64 = 0;
const FULL: u64 = 1;
const CLAIMED: u64 = 2;
/// Smaller `operation` words are states, others are in flight.
pub(crate) const FIRST_TOKEN: u64 = 1 << 32;
/// Where a token keeps the ring: slots are below 2²⁴.
pub const RING_SHIFT: u32 = 24;

/// The ring and the operation that a token of a block's `operation` word, or of its journal record, stands for.
#[must_use]
pub const fn operation_of(token: u64) -> (u32, Operation) {
    #[allow(clippy::cast_possible_truncation, reason = "the ring's eight bits")]
    let ring = (token >> RING_SHIFT) as u32 & 0xff;
    (ring, Operation::from_token(token & !(0xff << RING_SHIFT)))
}

/// One place of a stream's ring of blocks. What all committers change lies apart from what they only look at, 32 bytes on.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Block {
    /// The number of the block that may use this place now. Written by the reaper, or under the lock.
    pub block_number: DeviceWord64,
    /// The state, or the token of the write in flight. See the file's head.
    pub operation: DeviceWord64,
    /// Bytes copied in.
    ///
    /// ```text
    /// 63 … 32                               31 … 0
    /// journal entries drawn since its       bytes: 0 to B
    /// place was last switched
    /// ```
    pub committed: DeviceWord64,
    /// Bytes that are in the file: 0 to `committed`. Owned by who owns the operation.
    pub written: DeviceWord,
    /// The epoch in force of the block's place in the journal. Changed by who owns the block, with nobody committing.
    pub epoch: DeviceWord64,
    /// The buffer of the session's `stream_buffers`: in the first place the stream's own, which the host gives to each entry before the first
    /// launch; spare ones in the others. Constant while the stream has the place.
    pub buffer: DeviceWord,
}

/// In a block's `committed`: one journal entry drawn.
const ENTRY: u64 = 1 << 32;

/// How a stream's blocks lie, and what of the session their committers need. It stays the same for who has taken room of the stream, until
/// it has committed, and for the lock's holder: read once, it stays in registers (see [`crate::Queue`]).
#[derive(Clone, Copy, Debug)]
pub struct StreamGeometry {
    /// log₂ B.
    shift: u32,
    /// K − 1.
    mask: u64,
    buffers: BufferPool,
    journal: Journal,
}

impl StreamGeometry {
    /// The number of the block that a position lies in.
    #[must_use]
    pub const fn block_of(&self, position: u64) -> u64 {
        position >> self.shift
    }
    /// The position of a block's first byte.
    #[must_use]
    pub const fn start_of(&self, block_number: u64) -> u64 {
        block_number << self.shift
    }
    /// Where the byte of a position lies, whose block has the place `block_ref`, and how many bytes follow in the same block (at least 1).
    #[must_use]
    pub const fn address(&self, block_ref: BlockRef, position: u64) -> (u64, u64) {
        let inside = position & ((1 << self.shift) - 1);
        (self.buffers.address(block_ref.buffer) + inside, (1 << self.shift) - inside)
    }
}

/// The place of a block that has reserved bytes in it: constant until they are committed.
#[derive(Clone, Copy, Debug)]
pub struct BlockRef {
    /// The block's number.
    pub block_number: u64,
    buffer: u32,
    epoch: u64,
}

impl Block {
    /// Gives the place a buffer. Who owns the buffer, with nobody using the place.
    pub(crate) fn give(&self, session: &Resources, buffer: u32) {
        // ORDERING: relaxed: the stream's generation or block count publishes it.
        self.buffer.set(buffer);
        if let Some(place) = session.journal.place(buffer) {
            // ORDERING: relaxed: acquired with the buffer.
            self.epoch.set(place.epoch.peek());
        }
    }
    /// Bytes copied in: 0 to B. Relaxed.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the low half is the bytes")]
    pub fn committed(&self) -> u32 {
        // ORDERING: relaxed: by who owns the block, or by who acquired it from its committers before.
        self.committed.peek() as u32
    }
}

/// What a commit came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Committed {
    /// The block is full: the caller must [`Stream::start`] it.
    pub full: bool,
    /// The journal had no entry left in this epoch of the block: the caller must see to it that the place is switched
    /// ([`Stream::is_behind`], [`Stream::catch_up`]) before its call returns.
    pub unrecorded: Option<u64>,
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
    /// Whether one write follows the other. Constant while open.
    pub serial: DeviceWord,
    /// The errno of a write-behind that failed and has not been retried; 0 if none. While it is set, nothing is started.
    pub error: DeviceWord,
    /// Index of the file. Constant while open.
    pub file: DeviceWord,
    /// Offset in the file of position 0, modulo 2⁶⁴. Under the lock.
    pub base: DeviceWord64,
    /// Serial streams: the number of the block to be written next. Written by the reaper, or under the lock.
    pub serial_next: DeviceWord64,

    /// The position up to which room was granted: a multiple of B while the stream writes. Written by who frees a block, or under the
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
    /// Stream flags: [`Stream::FLAG_EOF`], [`Stream::FLAG_ERROR`].
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
    /// Bytes granted that nobody has taken: signed, since who takes too much gives it back. Written by reservers and by who grants. On a
    /// line of its own, since many look at it while they wait.
    pub available: CacheAligned<DeviceWord64>,
    /// Warps that found the stream busy and make progress on its blocks.
    pub progressing: CacheAligned<DeviceWord>,
    /// Lines read ahead.
    pub lines: Lines,
    /// The blocks.
    pub blocks: [Block; BLOCKS_MAX],
}

/// What became of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reservation {
    /// The bytes from this position on are the caller's to fill.
    At(u64),
    /// No fast path now: take the lock.
    Closed,
    /// No room: blocks are still being written. Reap them, drain, and try again.
    Busy,
}

/// How a step towards the kernel went.
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
    /// The position behind which writing begins anew with a position in the first block. Who looked before may still reserve: a grid less than
    /// 2⁴⁶ bytes at once, so that positions stay below what the cursor holds.
    pub const SPENT: u64 = POSITION / 2;

    // The fast path: no lock.

    /// Reserves `bytes` (at least 1) for a warp whose handle has this `generation`. One lane. Waits for nothing.
    pub fn try_reserve(&self, generation: u32, bytes: u64) -> Reservation {
        // ORDERING: relaxed: hints.
        let (at, room) = (self.cursor.0.peek(), self.available.0.peek());
        let position = at & POSITION;
        if at & CLOSED != 0 || position > Self::SPENT {
            return Reservation::Closed;
        }
        if room.cast_signed() < bytes.cast_signed() {
            return self.without_available(generation, position, bytes);
        }
        // ORDERING: acquire and release, device, partner `grant`: the kernel's reading of the blocks' old content comes before. And partner
        // `is_quiet`, which waits until what is taken is reserved or given back: until then the stream stays as `admits` finds it.
        if self.available.0.fetch_sub(bytes).cast_signed() < bytes.cast_signed() {
            self.available.0.fetch_add(bytes);
            return self.without_available(generation, position, bytes);
        }
        if !self.admits(generation, position, bytes) {
            self.available.0.fetch_add(bytes);
            return Reservation::Closed;
        }
        // ORDERING: acquire and release, device, partner the lock's holder closing the cursor: it sees this reservation, or this sees
        // CLOSED.
        let at = self.cursor.0.fetch_add(bytes);
        if at & CLOSED != 0 {
            self.available.0.fetch_add(bytes);
            return Reservation::Closed;
        }
        Reservation::At(at & POSITION)
    }

    /// What is to be done where there is no room for so many bytes: what the fast path never takes need not wait for it.
    fn without_available(&self, generation: u32, position: u64, bytes: u64) -> Reservation {
        if self.admits(generation, position, bytes) { Reservation::Busy } else { Reservation::Closed }
    }

    /// Whether there seems to be room for so many bytes: all that many that wait need to look at.
    #[must_use]
    pub fn has_available(&self, bytes: u64) -> bool {
        // ORDERING: relaxed: a hint.
        self.available.0.peek().cast_signed() >= bytes.cast_signed()
    }

    /// Whether the fast path takes so many bytes at about this position, from handles of this generation.
    fn admits(&self, generation: u32, position: u64, bytes: u64) -> bool {
        // ORDERING: relaxed: constant as long as the caller has taken room; before that, hints.
        let (now, shift, count) =
            (self.generation.peek(), self.block_shift.peek(), u64::from(self.block_count.peek()));
        // Under the lock a long record goes in block by block; here it would wait for many blocks to be free at once.
        let spanned = ((position + bytes.min(POSITION / 2) - 1) >> shift) - (position >> shift);
        now == generation && spanned <= count / 2 && self.failed().is_none()
    }

    /// Grants every block whose place is free, in order. Who has just freed one; [`Stream::begin_writing`] grants the first by itself.
    fn grant(&self) {
        // Of two lanes that free neighbouring blocks at the same time, one at least sees both: each published its block number before.
        device_fence();
        let bytes = self.block_bytes();
        // Ends: a round grants a block, or another lane did; a stream has few.
        loop {
            // ORDERING: relaxed: confirmed by the exchange.
            let granted = self.granted_to.peek();
            let block_number = granted >> self.block_shift.peek();
            // ORDERING: acquire, device, partner `free_block`: the kernel's reading of the old content comes before.
            if self.place(block_number).block_number.observe() != block_number {
                return;
            }
            // ORDERING: acquire and release, device: one lane grants a block. `granted_to` grows before `available` does, see `is_quiet`.
            if self.granted_to.compare_exchange(granted, granted + bytes).is_ok() {
                // ORDERING: acquire and release, device, partner `try_reserve`.
                self.available.0.fetch_add(bytes);
            }
        }
    }

    /// The place of a block.
    #[must_use]
    pub fn place(&self, block_number: u64) -> &Block {
        self.masked(block_number, u64::from(self.block_count.peek()).wrapping_sub(1))
    }

    const fn masked(&self, block_number: u64, mask: u64) -> &Block {
        #[allow(clippy::cast_possible_truncation, reason = "below BLOCKS_MAX")]
        &self.blocks[(block_number & mask & (BLOCKS_MAX as u64 - 1)) as usize]
    }

    /// B.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        1 << self.block_shift.peek()
    }

    /// How the blocks lie. Who has taken room, or holds the lock.
    #[must_use]
    pub fn geometry(&self, session: &Resources) -> StreamGeometry {
        // ORDERING: relaxed: constant as long as the caller has taken room, or holds the lock.
        let (shift, count) = (self.block_shift.peek(), self.block_count.peek());
        StreamGeometry {
            shift,
            mask: u64::from(count).wrapping_sub(1),
            buffers: session.stream_buffers,
            journal: session.journal,
        }
    }

    /// The place of a block in which the caller has reserved bytes.
    #[must_use]
    pub fn block_ref(&self, geometry: &StreamGeometry, block_number: u64) -> BlockRef {
        let block = self.masked(block_number, geometry.mask);
        // ORDERING: relaxed: the place is switched by nobody as long as the caller's bytes are not counted in.
        BlockRef { block_number, buffer: block.buffer.peek(), epoch: block.epoch.peek() }
    }

    /// The journal entry for a commit of `bytes` bytes from the block's byte `start` on, to a block in which the caller has reserved them.
    /// One lane; may be done early, since it takes a while. 0 where output does not survive.
    #[must_use]
    pub fn draw_entry(
        &self,
        geometry: &StreamGeometry,
        block_number: u64,
        (start, bytes): (u32, u32),
    ) -> u32 {
        let journal = &geometry.journal;
        if !journal.is_enabled() {
            return 0;
        }
        Journal::entry_at(start, bytes).unwrap_or_else(|| {
            // ORDERING: relaxed: indices differ, and that is all. Drawn before the caller's bytes are counted in, so in the epoch in force.
            #[allow(clippy::cast_possible_truncation, reason = "the upper half")]
            let index =
                (self.masked(block_number, geometry.mask).committed.fetch_add_relaxed(ENTRY) >> 32) as u32;
            journal.entry_drawn(index)
        })
    }

    /// Counts `bytes` filled bytes of one block, from its byte `start` on, in, under the journal entry drawn for them. One lane, after
    /// a barrier with those that copied. Waits for nothing.
    pub fn commit(
        &self,
        session: &Resources,
        geometry: &StreamGeometry,
        block_ref: BlockRef,
        (start, bytes): (u32, u32),
        entry: u32,
    ) -> Committed {
        let block = self.masked(block_ref.block_number, geometry.mask);
        let mut unrecorded = None;
        if geometry.journal.is_enabled()
            && !geometry.journal.enter(block_ref.buffer, block_ref.epoch, entry, start, bytes)
        {
            unrecorded = Some(block_ref.epoch);
        }
        // ORDERING: acquire and release, device, partner the other committers of the block: the last one has all bytes behind it.
        #[allow(clippy::cast_possible_truncation, reason = "the low half is the bytes")]
        let committed = block.committed.fetch_add(u64::from(bytes)) as u32 + bytes;
        debug_assert!(u64::from(committed) <= 1 << geometry.shift);
        if u64::from(committed) < 1 << geometry.shift {
            return Committed { full: false, unrecorded };
        }
        self.note(session, block_ref.block_number, 0);
        // ORDERING: release, device, partner `start`'s exchange.
        block.operation.publish(FULL);
        // The reaper of a serial stream stores `serial_next`, then looks for FULL; this is the other half of that pair.
        device_fence();
        Committed { full: true, unrecorded: None }
    }

    /// Switches the place of a block to what it is now: all that it counts as committed is known, `written` is in the file, `token` is
    /// the write in flight. Who owns the block, with nobody committing to it.
    fn note(&self, session: &Resources, block_number: u64, token: u64) {
        if !session.journal.is_enabled() {
            return;
        }
        let block = self.place(block_number);
        let buffer = block.buffer.peek();
        let serial = if self.serial.peek() == 0 { 0 } else { Record::SERIAL };
        let shift = self.block_shift.peek();
        let filled = block.committed();
        let record = Record {
            block_number,
            offset: self.base.peek().wrapping_add(block_number << shift),
            token,
            written: block.written.peek(),
            filled,
            descriptor: session.files()[self.file.peek() as usize].descriptor.peek().cast_signed(),
            shape: serial | shift,
            stream: self.index_in(session) + 1,
            reserved: 0,
        };
        let epoch = session.journal.switch(buffer, block.epoch.peek(), record);
        block.committed.set(u64::from(filled));
        // ORDERING: release, device, partner `is_behind`: the place is switched. To the next committers it is published by what lets
        // them commit, `block_number` or the cursor.
        block.epoch.publish(epoch);
    }

    /// The ring that the stream's writes go through. One for all: the system lets one writer at a time into a file, and where writes of
    /// several rings meet there, their worker threads wake each other for each.
    #[must_use]
    pub fn ring(&self, session: &Resources) -> u32 {
        self.index_in(session) % session.queue_count
    }

    /// The stream's index in its session's table.
    #[must_use]
    pub fn index_in(&self, session: &Resources) -> u32 {
        let offset = core::ptr::from_ref(self).addr() - session.stream_table.addr();
        #[allow(clippy::cast_possible_truncation, reason = "the table has fewer than 2³² entries")]
        {
            (offset / size_of::<Self>()) as u32
        }
    }

    /// Whether a commit that found no journal entry in `epoch` of block `block_number` is still without a record. Any lane: it was counted in in
    /// that epoch, and each switch takes in all that was.
    #[must_use]
    pub fn is_behind(&self, block_number: u64, epoch: u64) -> bool {
        // ORDERING: acquire, device, partner `grow`: where the block's place is another one now, all was written and switched before.
        let count = self.block_count.observe();
        // ORDERING: acquire, device, partner `note`: what the caller then releases to the host comes after the switch.
        self.masked(block_number, u64::from(count).wrapping_sub(1)).epoch.observe() == epoch
    }

    /// Switches the place of the unfinished block, if it has used up its journal entries. The lock's holder, when quiet.
    pub fn catch_up(&self, session: &Resources) {
        if self.direction() != Direction::Writing {
            return;
        }
        let block_number = self.reserved() >> self.block_shift.peek();
        let block = self.place(block_number);
        // ORDERING: acquire, device, partner `free_block`; then relaxed: quiet.
        if block.block_number.observe() == block_number
            && block.operation.peek() == FILLING
            && block.committed.peek() >= ENTRY
        {
            self.note(session, block_number, 0);
        }
    }

    /// Submits block `block_number` if it is full, its turn to be written has come, and nothing failed. Any lane. Waits for nothing.
    pub fn start(&self, session: &Resources, ring: u32, block_number: u64) -> Progress {
        let block = self.place(block_number);
        // ORDERING: relaxed: `serial_next` and the error are looked at again by whoever waits.
        if block.block_number.peek() != block_number || block.operation.peek() != FULL {
            return Progress::Done;
        }
        if let Some(errno) = self.failed() {
            return Progress::Failed(errno);
        }
        // ORDERING: acquire, device, partner the reaper: the write before comes before.
        if self.serial.peek() != 0 && self.serial_next.observe() != block_number {
            return Progress::Done;
        }
        let queue = &session.queues()[ring as usize];
        let Some(claim) = queue.claim(1, ring) else { return Progress::NoSlot };
        // ORDERING: acquire and release, device, partner `commit`: all bytes of the block come before.
        if block.operation.compare_exchange(FULL, CLAIMED).is_err() {
            queue.release(claim);
            return Progress::Done;
        }
        // Since the look above the block may have been written, freed and filled anew: what was claimed is then its next block,
        // which stays put while it is claimed.
        let block_number = block.block_number.observe();
        if self.serial.peek() != 0 && self.serial_next.observe() != block_number {
            // ORDERING: release, device, partner the next `start`.
            block.operation.publish(FULL);
            queue.release(claim);
            return Progress::Done;
        }
        self.submit(session, ring, claim.item(0), block_number);
        Progress::Wait(ring)
    }

    /// Writes [written, committed) of a claimed block through `slot`. Who holds the claim on the block.
    #[inline(never)]
    fn submit(&self, session: &Resources, ring: u32, slot: u32, block_number: u64) {
        let block = self.place(block_number);
        let queue = &session.queues()[ring as usize];
        let (from, to) = (block.written.peek(), block.committed());
        let offset = if self.serial.peek() != 0 {
            crate::abi::CURRENT_POSITION
        } else {
            self.base.peek().wrapping_add(block_number << self.block_shift.peek()) + u64::from(from)
        };
        let address = session.stream_buffers.address(block.buffer.peek()) + u64::from(from);
        let file = FileIndex(self.file.peek());
        let target = session.files()[file.0 as usize].target(file);
        // SAFETY:
        // - the slot was claimed for this block, and belongs to it until `reap` has seen the outcome; the block is the caller's, by
        //   CLAIMED or the lock, so nothing is in flight in it
        let operation = unsafe { queue.arm(crate::ring::Slot(slot)) };
        let pool = &session.stream_buffers;
        let token = operation.token() | u64::from(ring) << RING_SHIFT;
        self.note(session, block_number, token);
        let journaled = if session.journal.is_enabled() { Operation::JOURNALED } else { 0 };
        let sqe = Resources::pool_transfer(pool, true, target, (address, to - from), offset)
            .with_user_data(operation.token() | journaled);
        let batch = queue.reserve(1);
        let ticket = batch.first();
        session.journal.note_ticket(block.buffer.peek(), block.epoch.peek(), ticket.0);
        // SAFETY:
        // - the ticket was just drawn, for this lane alone
        // - the block's buffer belongs to the operation until `reap` has seen its completion (rule of the `operation` word)
        unsafe { queue.fill(ticket, sqe) };
        // ORDERING: release, device, partner `reap`: the slot's new generation comes before its token.
        block.operation.publish(token);
        // SAFETY:
        // - one ticket, drawn and filled above
        unsafe { queue.commit(batch) };
    }

    /// Looks at the write of one place: frees the block if it is complete, submits the rest if it was short, keeps the bytes and
    /// notes the error if it failed. Any lane. Waits for nothing.
    ///
    /// [`Progress::Wait`] says that the write is in flight on that ring.
    pub fn reap(&self, session: &Resources, block_number: u64) -> Progress {
        let block = self.place(block_number);
        // ORDERING: acquire, device, partner `submit`.
        let token = block.operation.observe();
        if token < FIRST_TOKEN {
            // CLAIMED passes by itself: its holder waits for nothing.
            return if token == CLAIMED { Progress::Wait(0) } else { Progress::Done };
        }
        let (ring, operation) = operation_of(token);
        let queue = &session.queues()[ring as usize];
        let result = match queue.outcome(operation) {
            Outcome::InFlight => return Progress::Wait(ring),
            Outcome::Stale => return Progress::Done,
            Outcome::Done(result) => result,
        };
        // ORDERING: acquire and release, device: one reaper goes on; tokens never come back (generations).
        if block.operation.compare_exchange(token, CLAIMED).is_err() {
            return Progress::Done;
        }
        // SAFETY:
        // - the slot that the write was started with; its outcome was seen, and one reaper is here, which releases it or writes on
        let slot = unsafe { SlotClaim::of(operation) };
        let block_number = block.block_number.peek();
        let (written, committed) = (block.written.peek(), block.committed());
        match Errno::check(result) {
            Ok(count) if count > 0 || written == committed => {
                debug_assert!(count <= committed - written);
                // ORDERING: relaxed: a counter.
                queue.counters().bytes_written.count(u64::from(count));
                block.written.set(written + count);
                if written + count < committed {
                    self.submit(session, ring, operation.slot.0, block_number);
                    return Progress::Wait(ring);
                }
                self.free_block(session, ring, block_number, slot);
                Progress::Done
            }
            Err(Errno::INTR) => {
                self.submit(session, ring, operation.slot.0, block_number);
                Progress::Wait(ring)
            }
            outcome => {
                // A write of nothing (`write(2)` allows it for no regular file) is no progress: an I/O error.
                let errno = outcome.err().unwrap_or(Errno::IO);
                // The slot goes last: until then the journal names its result.
                self.note(session, block_number, 0);
                queue.release(slot);
                self.fail(errno);
                let full = u64::from(committed) == self.block_bytes();
                // ORDERING: release, device, partner the next `start`.
                block.operation.publish(if full { FULL } else { FILLING });
                Progress::Failed(errno)
            }
        }
    }

    /// Makes a written block's place ready for its next block, or for more bytes if the block was not full, and lets the slot go that
    /// wrote it. Who claimed it.
    #[inline]
    fn free_block(&self, session: &Resources, ring: u32, block_number: u64, slot: SlotClaim) {
        let block = self.place(block_number);
        let queue = &session.queues()[ring as usize];
        // The slot goes behind the switch: until then the journal names its result.
        if u64::from(block.committed()) < self.block_bytes() {
            // Written early, under the lock: it goes on filling.
            self.note(session, block_number, 0);
            queue.release(slot);
            // ORDERING: release, device, partner `flush_step` and `commit`.
            block.operation.publish(FILLING);
            return;
        }
        block.committed.set(0);
        block.written.set(0);
        let next = block_number + u64::from(self.block_count.peek());
        self.note(session, next, 0);
        queue.release(slot);
        let serial = self.serial.peek() != 0;
        if serial {
            // ORDERING: release, device, partner `start`. Before `block_number`: once it has moved, the lock's holder may begin anew.
            self.serial_next.publish(block_number + 1);
        }
        // ORDERING: release, device, partner the next reserver's acquire of `block_number` below.
        block.operation.publish(FILLING);
        // ORDERING: acquire and release, device; before `block_number`, so that who sees the block free sees this, too (`is_freeing`).
        self.freeing.fetch_add(1);
        // ORDERING: release, device, partner `grant`.
        block.block_number.publish(next);
        self.grant();
        // ORDERING: acquire and release, device, partner `is_freeing`.
        self.freeing.fetch_sub(1);
        if serial {
            // The fence in `grant`, which comes behind `serial_next`, pairs with the one in `commit`: either the committer of the next block
            // sees `serial_next`, or this sees FULL.
            // Where no slot is free now, the next waiter or flush starts it.
            let (Progress::Done | Progress::Wait(_) | Progress::NoSlot | Progress::Failed(_)) =
                self.start(session, ring, block_number + 1);
        }
    }

    /// Notes that a write failed, which shuts the fast path, so that the next caller meets the error under the lock.
    pub fn fail(&self, errno: Errno) {
        // ORDERING: relaxed: read under the lock, or as a hint.
        self.error.set(errno.number().cast_unsigned());
    }

    /// Whether a lane is about to grant what it freed. Who saw the block free (acquire).
    fn is_freeing(&self) -> bool {
        // ORDERING: acquire, device, partner `free_block`: the grant comes before.
        self.freeing.observe() != 0
    }

    /// The error of a failed write-behind.
    #[must_use]
    pub fn failed(&self) -> Option<Errno> {
        // ORDERING: relaxed: a hint, or under the lock.
        let number = self.error.peek().cast_signed();
        (number != 0).then(|| Errno::from_number(number))
    }

    /// Looks after every place once, for a lane alone. Says whether something is in flight, and where.
    #[inline(never)]
    pub fn reap_all(&self, session: &Resources, ring: u32) -> Progress {
        let mut progress = Progress::Done;
        for place in 0..self.block_count.peek() {
            match self.progress(session, ring, place) {
                Progress::Done => {}
                other => progress = other,
            }
        }
        progress
    }

    /// Looks after one place, for a caller that found [`Reservation::Busy`]: frees its block if it is written, starts it if it is full.
    pub fn progress(&self, session: &Resources, ring: u32, place: u32) -> Progress {
        match self.reap(session, u64::from(place)) {
            // ORDERING: relaxed: a hint; `start` looks again.
            Progress::Done => self.start(session, ring, self.place(u64::from(place)).block_number.peek()),
            other => other,
        }
    }

    /// Whether the caller is now one of the `most` that look after the places, until it says [`Stream::leave_progress`]. All that wait would
    /// keep each other from the words.
    #[must_use]
    pub fn enter_progress(&self, most: u32) -> bool {
        // ORDERING: relaxed look first; then acquire and release, device; nothing hangs on it.
        if self.progressing.0.peek() >= most {
            return false;
        }
        let admitted = self.progressing.0.fetch_add(1) < most;
        if !admitted {
            self.progressing.0.fetch_sub(1);
        }
        admitted
    }
    /// Lets another look after the places.
    pub fn leave_progress(&self) {
        // ORDERING: as in `enter_progress`.
        self.progressing.0.fetch_sub(1);
    }

    /// One step of writing all full blocks; an unfinished one stays. The lock's holder, when quiet; comes again until it says `Done`,
    /// when nothing is in flight, or `Failed`.
    pub fn settle_writes_step(&self, session: &Resources, ring: u32) -> Progress {
        match self.reap_all(session, ring) {
            // A block that was freed may have started one in a place that had been looked at.
            Progress::Done
                if self.blocks.iter().take(self.block_count.peek() as usize).any(|block| {
                    // ORDERING: acquire, device, partner `free_block`.
                    block.operation.observe() != FILLING
                }) || self.is_freeing() =>
            {
                Progress::Wait(ring)
            }
            other => other,
        }
    }

    // Under the lock.

    /// Whether the system may still use one of the buffers of a stream that writes. The lock's holder, when quiet.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        let mut blocks = self.blocks.iter().take(self.block_count.peek() as usize);
        // ORDERING: acquire, device, partner `reap`: where it says no, the buffer is this lane's.
        self.direction() == Direction::Writing && blocks.any(|block| block.operation.observe() >= CLAIMED)
    }

    /// Closes the fast path. The lock's holder; then wait until [`Stream::is_quiet`].
    pub fn close_cursor(&self) {
        // ORDERING: release, device, partner `try_reserve`: a part of the cursor's release sequence, which `is_quiet` acquires.
        let at = self.cursor.0.fetch_set_bits(CLOSED);
        if at & CLOSED == 0 {
            self.closed_at.set(at & POSITION);
        }
    }
    /// Whether the fast path is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        // ORDERING: relaxed: a hint; `try_reserve` looks again.
        self.cursor.0.peek() & CLOSED == 0 && self.failed().is_none()
    }
    /// Opens the fast path. The lock's holder, before it hands the lock on, if the stream is writing with a full buffer. Not if something
    /// failed, nor while somebody has room in hand: who took it before the holder changed the stream admitted itself to another one, of
    /// another layout or another file, and is to find the cursor closed. The next holder then opens it.
    pub fn open_cursor(&self) {
        // ORDERING: acquire and release of the addition in `begin_writing`, device, partner `try_reserve`: who takes room from here on sees the
        // stream as it is now.
        let in_hand =
            self.available.0.observe() != self.granted_to.peek().wrapping_sub(self.closed_at.peek());
        if self.failed().is_none() && !in_hand {
            // ORDERING: release, device, partner `try_reserve`.
            self.cursor.0.publish(self.closed_at.peek());
        }
    }
    /// The cursor's position.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        // ORDERING: relaxed: the cursor is closed and the lock held, or no kernel runs.
        let at = self.cursor.0.peek();
        if at & CLOSED == 0 { at & POSITION } else { self.closed_at.peek() }
    }
    /// Whether positions run short, so that writing has to begin anew. The lock's holder.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.reserved() > Self::SPENT
    }
    /// Whether every reservation made before the cursor was closed has been committed, every full block handed on, and nobody has room in
    /// hand. Who holds the lock, with the cursor closed.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        // ORDERING: acquire, device, partner every reserver's addition, whose release sequence `close_cursor` continues: what they took
        // is missing from the room seen below, and the block numbers seen below are no older than those that they saw. With an older one, a
        // block's next filling would pass for its last.
        let _ = self.cursor.0.observe();
        // ORDERING: acquire, device, partner `grant`: if the room has a grant in it, `granted_to` has, too. The other way round there is
        // less room than there should be.
        let room = self.available.0.observe();
        let (granted, end) = (self.granted_to.peek(), self.closed_at.peek());
        if room != granted.wrapping_sub(end) {
            return false;
        }
        // Only a writing stream's cursor is ever open. The blocks of another may be of an earlier size.
        if self.direction() != Direction::Writing {
            return true;
        }
        let bytes = self.block_bytes();
        let current = end >> self.block_shift.peek();
        self.blocks.iter().take(self.block_count.peek() as usize).all(|block| {
            // ORDERING: acquire, device, partner `free_block`, then `commit`.
            let block_number = block.block_number.observe();
            match block_number.cmp(&current) {
                core::cmp::Ordering::Less => {
                    block.operation.observe() != FILLING || block.block_number.observe() != block_number
                }
                core::cmp::Ordering::Equal => {
                    block.committed.observe() & u64::from(u32::MAX) == end & (bytes - 1)
                }
                core::cmp::Ordering::Greater => true,
            }
        })
    }
    /// Hands on blocks whose last committer is gone: FILLING and all counted in. While no kernel runs, of a writing stream.
    ///
    /// Lanes are unwound where code of the program runs, or where they wait, alone or for each other's being unwound. Between reserving and
    /// committing neither happens ([D-13]), so that what is reserved is counted in. Should it not be, it is counted in here, so that
    /// what other calls put around it is not lost.
    pub fn count_in_abandoned(&self, session: &Resources) {
        let (end, shift) = (self.reserved(), self.block_shift.peek());
        for block in self.blocks.iter().take(self.block_count.peek() as usize) {
            let block_number = block.block_number.peek();
            let reserved = end.saturating_sub(block_number << shift).min(self.block_bytes());
            if block.operation.peek() == FILLING && u64::from(block.committed()) < reserved {
                block.committed.set(reserved);
                self.note(session, block_number, 0);
            }
            if block.operation.peek() == FILLING && u64::from(block.committed()) == self.block_bytes() {
                // ORDERING: release, device, partner `start`'s exchange.
                block.operation.publish(FULL);
            }
        }
    }
    /// The rings and slots that the stream's writes and reads ahead hold. While no kernel runs.
    pub fn slots(&self) -> impl Iterator<Item = (u32, u32)> {
        let writes = self.blocks.iter().map(|block| block.operation.peek());
        let reads = self.lines.places.iter().map(|place| place.operation.peek());
        writes.chain(reads).filter(|token| *token >= FIRST_TOKEN).map(|token| {
            let (ring, operation) = operation_of(token);
            (ring, operation.slot.0)
        })
    }
    /// Gives a stream that reads another buffer, since an operation that nobody waits for any more may still fill its own, which stays
    /// taken; whether there was one. While no kernel runs.
    #[must_use]
    pub fn change_read_buffer(&self, session: &Resources) -> bool {
        // What is left in the buffer was read by an operation that has ended, and none is made before it is used up.
        if self.read_next.peek() != self.read_end.peek() {
            return true;
        }
        let Some(claim) = session.stream_buffers.free.claim(1, 0) else { return false };
        // It is the stream's own from now on.
        self.blocks[0].give(session, claim.item(0));
        true
    }
    /// Begins writing at `offset` of the file. The lock's holder, with every block at rest (`rest`): after a flush that came to `Done`,
    /// or [`Stream::take_back_step`].
    pub fn begin_writing(&self, session: &Resources, offset: u64) {
        debug_assert!(self.is_all_filling(), "a block is in use");
        let shift = self.block_shift.peek();
        // Blocks of a seekable stream lie at multiples of B in the file.
        let inside = if self.serial.peek() != 0 { 0 } else { offset & ((1 << shift) - 1) };
        // ORDERING: relaxed throughout: `open_cursor` or handing the lock on publishes it.
        self.base.set(offset - inside);
        for (block_number, block) in (0_u64..).zip(&self.blocks) {
            block.block_number.set(block_number);
            block.operation.set(FILLING);
            let taken = if block_number == 0 { inside } else { 0 };
            block.committed.set(taken);
            #[allow(clippy::cast_possible_truncation, reason = "below B, which is below 2³²")]
            block.written.set(taken as u32);
            if block_number < u64::from(self.block_count.peek()) {
                // Nothing is to be written now, and before this place's switch its block had nothing to be written either, or what is
                // dropped: a fault between two of them finds no more than that.
                self.note(session, block_number, 0);
            }
        }
        self.serial_next.set(0);
        let granted = u64::from(self.block_count.peek()) << shift;
        // By how much the room changes, so that room in the hands of newcomers, who are about to give it back, stays counted.
        let before = self.granted_to.peek().wrapping_sub(self.closed_at.peek());
        self.granted_to.set(granted);
        self.closed_at.set(inside);
        self.available.0.fetch_add((granted - inside).wrapping_sub(before));
        self.direction.set(Direction::Writing as u32);
    }
    /// Reserves under the lock: up to the end of the block that the cursor stands in. How many of `bytes`; 0 while the block's
    /// earlier content is still being written.
    #[must_use]
    pub fn reserve_locked(&self, bytes: u64) -> u64 {
        let at = self.reserved();
        let block_number = at >> self.block_shift.peek();
        // ORDERING: acquire, device, partner `free_block`.
        if self.place(block_number).block_number.observe() != block_number {
            return 0;
        }
        let room = self.block_bytes() - (at & (self.block_bytes() - 1));
        let taken = bytes.min(room);
        self.closed_at.set(at + taken);
        self.available.0.fetch_sub(taken);
        taken
    }
    /// The first position that is not in the file yet: everything before it is. The lock's holder, when quiet and nothing is in
    /// flight.
    #[must_use]
    pub fn first_unwritten(&self) -> u64 {
        let (end, shift) = (self.reserved(), self.block_shift.peek());
        let blocks = self.blocks.iter().take(self.block_count.peek() as usize);
        blocks
            .filter(|block| {
                block.block_number.peek() <= end >> shift && block.written.peek() < block.committed()
            })
            .map(|block| (block.block_number.peek() << shift) + u64::from(block.written.peek()))
            .min()
            .unwrap_or(end)
    }
    /// Forgets a noted error, so that a flush tries the kept bytes again.
    pub fn forget_error(&self) {
        self.error.set(0);
    }
    /// One step of writing everything reserved so far. The lock's holder, when quiet; comes again until it says `Done` or `Failed`.
    pub fn flush_step(&self, session: &Resources, ring: u32) -> Progress {
        let end = self.reserved();
        let current = end >> self.block_shift.peek();
        // At a block's very end the place of the empty current block may still hold the one K before.
        let oldest = current.saturating_sub(u64::from(self.block_count.peek()));
        let mut progress = Progress::Done;
        for block_number in oldest..=current {
            let block = self.place(block_number);
            if block.block_number.observe() != block_number {
                continue;
            }
            let here = match self.reap(session, block_number) {
                Progress::Done if block_number < current => match self.start(session, ring, block_number) {
                    // Not its turn yet, or it was written just now.
                    Progress::Done if block.block_number.observe() == block_number => Progress::Wait(ring),
                    other => other,
                },
                Progress::Done if self.failed().is_some() => Progress::Done,
                Progress::Done if block.written.peek() < block.committed() => {
                    self.start_partial(session, ring, block_number)
                }
                other => other,
            };
            match (progress, here) {
                (_, Progress::Done) => {}
                // What is in flight is waited for even when something failed: its buffer is the kernel's. And on the first one's ring: a
                // later block of a serial stream has no ring yet, it waits for the one before.
                (Progress::Wait(_), _) => {}
                _ => progress = here,
            }
        }
        match (progress, self.failed()) {
            (Progress::Done | Progress::Failed(_), _) if self.is_freeing() => Progress::Wait(ring),
            (Progress::Done, Some(errno)) => Progress::Failed(errno),
            _ => progress,
        }
    }
    /// Writes what the unfinished block holds.
    fn start_partial(&self, session: &Resources, ring: u32, block_number: u64) -> Progress {
        // ORDERING: acquire, device, partner the reaper.
        if self.serial.peek() != 0 && self.serial_next.observe() != block_number {
            return Progress::Wait(ring);
        }
        let Some(claim) = session.queues()[ring as usize].claim(1, ring) else { return Progress::NoSlot };
        self.submit(session, ring, claim.item(0), block_number);
        Progress::Wait(ring)
    }
    /// Bytes accepted but not yet in the file. The lock's holder, when quiet.
    #[must_use]
    pub fn unwritten(&self) -> u64 {
        let current = self.reserved() >> self.block_shift.peek();
        let blocks = self.blocks.iter().take(self.block_count.peek() as usize);
        blocks
            .filter(|block| block.block_number.peek() <= current)
            .map(|block| u64::from(block.committed() - block.written.peek()))
            .sum()
    }
    /// What the stream is doing.
    #[must_use]
    pub fn direction(&self) -> Direction {
        match self.direction.peek() {
            0 => Direction::Idle,
            1 => Direction::Reading,
            _ => Direction::Writing,
        }
    }
    /// When it flushes.
    #[must_use]
    pub fn buffering(&self) -> Buffering {
        match self.buffering.peek() {
            0 => Buffering::Full,
            1 => Buffering::Line,
            _ => Buffering::None,
        }
    }
    /// Makes a free entry an open stream on `file`, with one block in the buffer of its own. Its only user so far; the blocks of its last
    /// stream came to rest before that was closed (`rest`).
    pub fn set_up(&self, session: &Resources, file: u32, file_flags: u32, buffering: Buffering) {
        debug_assert!(self.is_all_filling(), "a block is in use");
        // ORDERING: relaxed throughout: the generation's release below publishes it.
        // What a newcomer still has in hand of the entry's last stream it gives back: `available`, `granted_to` and `closed_at` stay as they are.
        self.cursor.0.fetch_set_bits(CLOSED);
        self.block_shift.set(session.stream_buffers.buffer_bytes.trailing_zeros());
        self.block_count.set(1);
        // What has no position forgets what it is given, in whatever order that comes.
        let placed = file_flags & (OpenFile::SEEKABLE | OpenFile::POSITIONLESS) != 0;
        let serial = !placed || file_flags & OpenFile::APPEND != 0;
        self.serial.set(u32::from(serial));
        self.error.set(0);
        self.file.set(file);
        self.shared.set(0);
        self.base.set(0);
        self.serial_next.set(0);
        self.direction.set(Direction::Idle as u32);
        self.buffering.set(buffering as u32);
        self.flags.set(0);
        self.pushed_count.set(0);
        self.position.set(0);
        self.read_next.set(0);
        self.read_end.set(0);
        self.lines.set_up();
        for (block_number, block) in (0..).zip(&self.blocks) {
            block.block_number.set(block_number);
            block.operation.set(FILLING);
            block.committed.set(0);
            block.written.set(0);
        }
        self.blocks[0].give(session, self.blocks[0].buffer.peek());
        // ORDERING: release (and acquire), device, partner whoever uses the handle made from the new generation.
        self.generation.fetch_add(1);
    }
}
