//! The lines of a text that a whole grid takes from one stream (stages 3 and 8): read ahead, indexed once, and taken without the lock.
//!
//! A stream that reads has *lines* open or not. While it has, K blocks of B bytes of its file are under way: block *b* holds the bytes
//! from `offset + b B` on, and uses place *b mod K*. A place has a stream buffer, which the kernel reads into, and device memory, into
//! which a warp copies the text once, with the ends of the lines in it behind it. A line belongs to the block in which it ends.
//! Lines are numbered from 0; block *b* has lines `[base, base + count)`. The steps:
//!
//! ```text
//! try_take_lines(n) -> line    fast path, no lock: lines [line, line + n) are the caller's to copy
//!   (each lane copies its own; barrier)
//! count_taken(place, n)        the lane that makes a block's lines all taken must free it
//! leave()                      the caller touches nothing any more
//!
//! enter_progress() … leave()    who found no lines: starts reads, reaps them, indexes and publishes blocks
//! ```
//!
//! The life of a place's `operation` word; CLAIMED belongs to one lane, or to the warp that it leads:
//!
//! ```text
//! IDLE ──start──► CLAIMED ──► token (in flight) ──reap──► CLAIMED ──► READ ──► CLAIMED ──► INDEXED ──► CLAIMED ──► PUBLISHED
//!   ▲                ▲                                      │                 (a warp indexes)     (the next in line)   │
//!   │                └───────────── short: the rest ────────┘                                                           │
//!   └──────────────────────────────── all lines taken, and the begun line after them carried over ◄─────────────────────┘
//! ```
//!
//! Invariants:
//!
//! 1. `available + taken, not yet added to the cursor = published − lines taken`: as in [`crate::stream`], both are additions.
//! 2. Blocks are published in order of their numbers, each by one warp: only block `next` may be, and its `operation` word is exchanged.
//!    So `base` of block *b* is the sum of the counts of the blocks before it.
//! 3. A published block stays as it is until its last line is counted as taken *and* the begun line behind its last newline is carried
//!    over to the next block. So who has taken lines finds them where they were published.
//! 4. `cursor`'s `active` is the number of callers that may still touch a place. With CLOSED set it only falls, but for newcomers
//!    that look and leave at once; when it is 0, nobody is CLAIMED, and every line below `closed_at` has been copied.
//! 5. No published line is longer than `most` bytes, and a caller without room for so much does not take any. So a line is a call's result
//!    as a whole, and the position of the stream is the end of the last line taken.
//!
//! 4 and 5 are why closing gives the lock's holder a stream that reads at a position as if it had read line by line under the lock.
#![allow(unsafe_code, reason = "filling a ring entry; reads the ends of lines")]

use crate::abi::CURRENT_POSITION;
use crate::abi::Errno;
use crate::alloc::Claim;
use crate::files::FileIndex;
use crate::resources::Resources;
use crate::ring::{CacheAligned, Outcome, Slot, SlotClaim};
use crate::stream::{Buffering, Direction, FIRST_TOKEN, Progress, RING_SHIFT, Stream, operation_of};
use crate::word::{DeviceWord, DeviceWord64};

/// Blocks that are under way at most.
pub const PLACES_MAX: usize = 32;
/// Fewer would have readers wait for each other.
const PLACES_MIN: u32 = 2;

/// The cursor:
///
/// ```text
/// 63       62 … 43    42 … 0
/// closed   active     line
/// ```
///
/// A GPU holds some 300,000 lanes, each of which may call alone.
const CLOSED: u64 = 1 << 63;
const ACTIVE: u64 = 1 << 43;
const LINE: u64 = ACTIVE - 1;
/// Set in the cursor: lines are numbered anew before any are taken ([`Lines::SPENT`]).
const SHUT_OUT: u64 = CLOSED | Lines::SPENT;

const IDLE: u64 = 0;
const CLAIMED: u64 = 1;
const READ: u64 = 2;
const INDEXED: u64 = 3;
const PUBLISHED: u64 = 4;

const SHUT: u32 = 0;
const OPEN: u32 = 1;
/// On the way from OPEN to SHUT: nothing is left to be taken, but some may have lines in hand that they are about to give back.
const EMPTIED: u32 = 2;

/// In a place's `taken`: the begun line behind its last newline was carried over.
const CARRIED: u64 = 1 << 32;
/// In a place's `lines`: where the base begins. Below it, the count.
const BASE_SHIFT: u32 = 24;

const _: () = assert!(2 * Lines::SPENT <= 1 << (64 - BASE_SHIFT) && 2 * Lines::SPENT <= ACTIVE);

/// One place of a stream's blocks that are read ahead.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Place {
    /// The number of the block that may use the place now. Owned by who owns the operation.
    pub block_number: DeviceWord64,
    /// The state, or the token of the read in flight. See the file's head.
    pub operation: DeviceWord64,
    /// What is published of it, in one word, so that it is never seen in halves; 0 if nothing is.
    ///
    /// ```text
    /// 63 … 24                 23 … 0
    /// the first line's number how many
    /// ```
    pub lines: DeviceWord64,
    /// Lines taken and copied, and CARRIED.
    taken: DeviceWord64,
    /// Bytes read: 0 to B; fewer than B at the end of the file, or at an error. This and what follows is owned by who owns the operation.
    pub got: DeviceWord,
    /// Lines that end in the block.
    pub count: DeviceWord,
    /// Bytes up to behind its last newline.
    pub tail: DeviceWord,
    /// Bytes of the block's first line that were carried over from the block before, and lie in front of its text.
    pub carried_bytes: DeviceWord,
    /// Whether no line of it can be published: one is too long, or there are too many.
    pub unpublishable: DeviceWord,
    /// The buffer of the session's `stream_buffers`. Constant while lines are open.
    buffer: DeviceWord,
    /// The buffer of the session's `line_buffers`. Constant while lines are open.
    text: DeviceWord,
}

/// The lines of a stream.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Lines {
    /// CLOSED, active callers, and the next line. Written by callers, and by the lock's holder.
    cursor: CacheAligned<DeviceWord64>,
    /// Lines published that nobody has taken: signed, since who takes too many gives them back.
    available: CacheAligned<DeviceWord64>,
    /// Warps that make progress on the places: a hint that keeps others away.
    progressing: CacheAligned<DeviceWord>,
    /// The number of the block to be published next. Written by its publisher.
    next: DeviceWord64,
    /// Lines published. Written by publishers, in turn.
    published: DeviceWord64,
    /// Whether no more lines will be published: 0, [`AT_LINE`] or [`AT_END`].
    stopped: DeviceWord,
    /// How far lines are open: [`SHUT`], [`OPEN`] or [`EMPTIED`]. Under the lock.
    open: DeviceWord,
    /// The longest line that is published, in bytes, newline included. Constant while lines are open.
    line_bytes_max: DeviceWord,
    /// K: a power of two. Constant while lines are open.
    count: DeviceWord,
    /// Where block 0 begins in the file. Constant while lines are open.
    offset: DeviceWord64,
    /// Where the last line published ends. Written by publishers, in turn.
    published_end: DeviceWord64,
    /// The cursor's line while it is closed.
    closed_at: DeviceWord64,
    /// Lanes' calls under the lock that lines would have served, since lines were opened last. Under the lock.
    calls: DeviceWord,
    /// log₂ of the factor by which lines open later than CALLS_BEFORE_OPEN says, because they were closed early. Under the lock.
    open_delay_log2: DeviceWord,
    /// The places.
    pub places: [Place; PLACES_MAX],
}

/// What became of an attempt to take lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Taking {
    /// Lines from this one on are the caller's to copy, which then leaves.
    At(u64),
    /// No lines: take the lock.
    Closed,
    /// Blocks are still being read. Make progress on them, and try again.
    Busy,
}

/// What of a place a warp has to do that its lanes cannot do alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Work {
    /// Nothing.
    Nothing,
    /// The block was read: index it, then say so by [`Lines::indexed`].
    Index,
    /// The block is next: carry over the begun line, then [`Lines::publish`] or [`Lines::stop_at`].
    Publish,
}

/// Calls under the lock, counted by lane, after which lines open, without a delay.
const CALLS_BEFORE_OPEN: u32 = 128;
/// The lock counts as contended above this many holders and waiters.
const CONTENDED_AT: u32 = 4;
/// Where lines were closed early, `open_delay_log2` grows by the step, up to the maximum.
const OPEN_DELAY_STEP: u32 = 2;
const OPEN_DELAY_MAX: u32 = 12;
/// Why no more lines are published: of a line that is too long, or a read that failed.
const AT_LINE: u32 = 1;
const AT_END: u32 = 2;

/// What a place's `lines` say: the first one's number, and how many.
const fn lines_in(word: u64) -> (u64, u64) {
    (word >> BASE_SHIFT, word & ((1 << BASE_SHIFT) - 1))
}

impl Lines {
    /// Lines after which they are closed, to be opened with line 0 again: a bit of the cursor. Who looked before may still take some: a grid takes
    /// less than 2²⁴ at once, and 32 blocks of less than 2²⁴ lines are published ahead of them, so that numbers stay below what `base` holds.
    pub const SPENT: u64 = 1 << 39;

    // The fast path: no lock.

    /// Whether lines are open, and numbers are left for them. A hint.
    #[must_use]
    pub fn is_open(&self) -> bool {
        // ORDERING: relaxed: a hint; `try_take_lines` looks again.
        self.cursor.0.peek() & SHUT_OUT == 0
    }
    /// The number of the line that is taken next. A hint, of no meaning while lines are closed.
    #[must_use]
    pub fn next_line(&self) -> u64 {
        // ORDERING: relaxed: a report.
        self.cursor.0.peek() & LINE
    }
    /// Whether lines are open, and more of them will be published. A hint.
    #[must_use]
    pub fn is_flowing(&self) -> bool {
        // ORDERING: relaxed: a hint.
        self.is_open() && self.stopped.peek() == 0
    }
    /// The longest line that is published, in bytes. A hint, unless the caller has taken lines.
    #[must_use]
    pub fn line_bytes_max(&self) -> u32 {
        self.line_bytes_max.peek()
    }

    /// Takes `count` lines (at least 1) for lanes with room for `most` bytes each, by a handle of this generation. One lane. Waits for
    /// nothing.
    pub fn try_take_lines(&self, stream: &Stream, generation: u32, count: u64, most: u64) -> Taking {
        if !self.is_open() || !self.admits(stream, generation, most) {
            return Taking::Closed;
        }
        // ORDERING: relaxed: a hint.
        if self.available.0.peek().cast_signed() < count.cast_signed() {
            return self.without_available(count);
        }
        // ORDERING: acquire and release, device, partner `publish`: the lines' text and ends come before. And partner `is_quiet`, which waits
        // until what is taken is in the cursor or given back: until then lines stay as `admits` finds them.
        if self.available.0.fetch_sub(count).cast_signed() < count.cast_signed() {
            self.available.0.fetch_add(count);
            return self.without_available(count);
        }
        if !self.admits(stream, generation, most) {
            self.available.0.fetch_add(count);
            return Taking::Closed;
        }
        // ORDERING: acquire and release, device, partner `close`: its holder sees this caller active, or this sees CLOSED.
        let at = self.cursor.0.fetch_add(count + ACTIVE);
        if at & CLOSED != 0 {
            self.leave();
            self.available.0.fetch_add(count);
            return Taking::Closed;
        }
        Taking::At(at & LINE)
    }

    /// What is to be done where there are not so many lines.
    fn without_available(&self, count: u64) -> Taking {
        // ORDERING: acquire, device, partner `stop`: the room seen next is the last.
        if self.stopped.observe() != 0 && self.available.0.peek().cast_signed() < count.cast_signed() {
            return Taking::Closed;
        }
        if self.holds_too_few() { Taking::Closed } else { Taking::Busy }
    }

    /// Whether every place has published lines, some of the oldest one's are left, and so no more come until somebody takes fewer than the
    /// caller wants. For a caller that found too few.
    fn holds_too_few(&self) -> bool {
        // ORDERING: relaxed: hints, read in an order in which they rather say no: others take what is left, or the caller comes again.
        let (next, count) = (self.next.peek(), u64::from(self.count.peek()));
        let room = self.available.0.peek();
        let Some(oldest) = next.checked_sub(count) else { return false };
        #[allow(clippy::cast_possible_truncation, reason = "below PLACES_MAX")]
        let place = &self.places[(next & count.wrapping_sub(1)) as usize & (PLACES_MAX - 1)];
        let lines = place.lines.peek();
        let of_oldest = place.block_number.peek() == oldest;
        let first_left = self.published.peek().wrapping_sub(room);
        let (base, published) = lines_in(lines);
        let end = base + published;
        room.cast_signed() > 0 && lines != 0 && of_oldest && first_left < end && self.next.peek() == next
    }

    /// Whether there seem to be so many lines, or never will be: all that many that wait need to look at.
    #[must_use]
    pub fn has_available(&self, count: u64) -> bool {
        // ORDERING: relaxed: hints.
        self.available.0.peek().cast_signed() >= count.cast_signed()
            || self.stopped.peek() != 0
            || !self.is_open()
    }

    fn admits(&self, stream: &Stream, generation: u32, most: u64) -> bool {
        // ORDERING: relaxed: constant as long as the caller has lines in hand; before that, hints.
        stream.generation.peek() == generation && u64::from(self.line_bytes_max.peek()) <= most
    }

    /// The caller touches no place any more. One lane, after a barrier with those that did.
    pub fn leave(&self) {
        // ORDERING: acquire and release, device, partner `is_quiet`: all that was done comes before.
        self.cursor.0.fetch_sub(ACTIVE);
    }

    /// The lines of a place's block: the first one's number, and how many. Nothing if none is published. Any lane.
    #[must_use]
    pub fn of_place(&self, index: u32) -> (u64, u64) {
        // ORDERING: relaxed: the block of a line that the caller has taken was published before this: those who added to the cursor up to the
        // caller took more lines than the blocks before have, so one of them had acquired the room of this block, and the cursor's additions
        // acquire from each other. The block stays (invariant 3). The words of others may change, but never so that one seems to have the
        // line, since each is one word.
        lines_in(self.places[index as usize & (PLACES_MAX - 1)].lines.peek())
    }
    /// Where a line lies that is number `line` of a place's block, and that the caller has taken: the address of its first byte, and its
    /// bytes, newline included. Any lane. Without a branch, so that a warp's lanes stay together, and their loads are on their way at once.
    #[must_use]
    pub fn locate(&self, session: &Resources, index: u32, line: u64) -> (u64, u64) {
        let place = &self.places[index as usize & (PLACES_MAX - 1)];
        let text = self.text(session, place);
        let (before, end) =
            (self.end_of(session, place, line.saturating_sub(1)), self.end_of(session, place, line));
        let first_start = -i64::from(place.carried_bytes.peek());
        let start = if line == 0 { first_start } else { before };
        (text.wrapping_add_signed(start), (end - start).cast_unsigned())
    }

    /// Counts lines of a place as copied. One lane, active, after a barrier with those that copied. The last frees the block, and starts the
    /// read that is next in its place.
    pub fn count_taken(&self, session: &Resources, stream: &Stream, index: u32, what: u64) {
        let place = &self.places[index as usize];
        // Read before: who completes the sum frees the block.
        let whole = u64::from(place.count.peek()) | CARRIED;
        // ORDERING: acquire and release, device, partner the others that count: the last one has all copying behind it.
        if place.taken.fetch_add(what) + what != whole {
            return;
        }
        // ORDERING: relaxed: published by the operation's release.
        place.lines.set(0);
        place.taken.set(0);
        place.got.set(0);
        place.block_number.set(place.block_number.peek() + u64::from(self.count.peek()));
        // ORDERING: release, device, partner `start`'s exchange.
        place.operation.publish(IDLE);
        let _ = self.start(session, stream, index);
    }

    // Progress, by active callers.

    /// Whether the caller, one lane for its warp, is now active and may make progress. Waits for nothing.
    #[must_use]
    pub fn enter_progress(&self) -> bool {
        // ORDERING: relaxed: hints, so that few come near the places.
        if !self.is_open() || self.progressing.0.peek() >= 2 * self.count.peek() {
            return false;
        }
        // ORDERING: acquire and release, device, partner `close`: its holder sees this caller active, or this sees CLOSED.
        if self.cursor.0.fetch_add(ACTIVE) & CLOSED != 0 {
            self.leave();
            return false;
        }
        // ORDERING: relaxed: a hint.
        self.progressing.0.fetch_add_relaxed(1);
        true
    }
    /// The other half.
    pub fn leave_progress(&self) {
        // ORDERING: as in `enter_progress`.
        self.progressing.0.fetch_sub(1);
        self.leave();
    }

    /// K.
    #[must_use]
    pub fn place_count(&self) -> u32 {
        self.count.peek()
    }

    /// Does what a lane can do alone for a place: starts its read, or takes in what was read. What a warp could do then, and the
    /// ring on which something is under way. Active. Waits for nothing.
    pub fn progress(&self, session: &Resources, stream: &Stream, index: u32) -> (Work, Option<u32>) {
        let place = &self.places[index as usize];
        // ORDERING: acquire, device, partner `submit`.
        match place.operation.observe() {
            IDLE => (Work::Nothing, self.start(session, stream, index)),
            // ORDERING: relaxed: hints; `claim` looks again.
            READ if self.stopped.peek() == 0 => (Work::Index, None),
            INDEXED if place.block_number.peek() == self.next.peek() && self.stopped.peek() == 0 => {
                (Work::Publish, None)
            }
            token if token >= FIRST_TOKEN => self.reap(session, stream, index, token),
            _ => (Work::Nothing, None),
        }
    }

    /// Claims a place for what [`Lines::progress`] said. One active lane, for its warp.
    #[must_use]
    pub fn claim(&self, index: u32, work: Work) -> bool {
        let place = &self.places[index as usize];
        let state = match work {
            Work::Nothing => return false,
            Work::Index => READ,
            Work::Publish => INDEXED,
        };
        // ORDERING: acquire and release, device, partner whoever left the place in that state: what it wrote comes before.
        if place.operation.compare_exchange(state, CLAIMED).is_err() {
            return false;
        }
        // Since it was looked at, the place may have come to a later block.
        // ORDERING: acquire, device, partner `publish` of the block before.
        if work == Work::Publish
            && (self.next.observe() != place.block_number.peek() || self.stopped.peek() != 0)
        {
            // ORDERING: release, device, partner the next `claim`.
            place.operation.publish(INDEXED);
            return false;
        }
        true
    }

    /// Claims the place of the block that is next, if it is indexed. One active lane, for its warp.
    #[must_use]
    pub fn claim_next(&self) -> Option<u32> {
        // ORDERING: relaxed: hints; `claim` looks again.
        #[allow(clippy::cast_possible_truncation, reason = "below PLACES_MAX")]
        let index = (self.next.peek() & u64::from(self.count.peek().wrapping_sub(1))) as u32;
        let is_indexed = self.places[index as usize & (PLACES_MAX - 1)].operation.peek() == INDEXED;
        (is_indexed && self.claim(index, Work::Publish)).then_some(index)
    }

    /// Starts the read of an idle place; the ring that it is under way on. Active. Waits for nothing: without a free slot the next
    /// caller of `progress` starts it.
    fn start(&self, session: &Resources, stream: &Stream, index: u32) -> Option<u32> {
        let place = &self.places[index as usize];
        // ORDERING: relaxed: a read too many does no harm.
        if self.stopped.peek() != 0 {
            return None;
        }
        let ring = (stream.ring(session) + index) % session.queue_count;
        let queue = &session.queues()[ring as usize];
        let claim = queue.claim(1, ring)?;
        // ORDERING: acquire and release, device, partner `count_taken`: all copying out of the place comes before.
        if place.operation.compare_exchange(IDLE, CLAIMED).is_err() {
            queue.release(claim);
            return None;
        }
        self.submit(session, stream, ring, claim.item(0), index);
        Some(ring)
    }

    /// Reads the rest of a claimed place's block through `slot`.
    fn submit(&self, session: &Resources, stream: &Stream, ring: u32, slot: u32, index: u32) {
        let place = &self.places[index as usize];
        let queue = &session.queues()[ring as usize];
        let got = place.got.peek();
        let offset = self.offset.peek() + place.block_number.peek() * stream.block_bytes() + u64::from(got);
        debug_assert!(offset != CURRENT_POSITION);
        let pool = &session.stream_buffers;
        #[allow(clippy::cast_possible_truncation, reason = "below 2³²")]
        let bytes = stream.block_bytes() as u32 - got;
        let address = pool.address(place.buffer.peek()) + u64::from(got);
        let file = FileIndex(stream.file.peek());
        let target = session.files()[file.0 as usize].target(file);
        // SAFETY:
        // - the slot was claimed for this place, and belongs to it until `reap` or `settle_reads` has seen the outcome; the place is the
        //   caller's, by CLAIMED, so nothing is in flight in it
        let operation = unsafe { queue.arm(Slot(slot)) };
        let sqe = Resources::pool_transfer(pool, false, target, (address, bytes), offset)
            .with_user_data(operation.token());
        let batch = queue.reserve(1);
        // SAFETY:
        // - the ticket was just drawn, for this lane alone
        // - the place's buffer belongs to the operation until its completion was seen (rule of the `operation` word), and to the stream
        //   until then, since `close` waits for it
        unsafe { queue.fill(batch.first(), sqe) };
        // ORDERING: release, device, partner `progress`: the slot's new generation comes before its token.
        place.operation.publish(operation.token() | u64::from(ring) << RING_SHIFT);
        // SAFETY:
        // - one ticket, drawn and filled above
        unsafe { queue.commit(batch) };
    }

    /// Takes in the completion of a place's read, if it has come. Active.
    fn reap(&self, session: &Resources, stream: &Stream, index: u32, token: u64) -> (Work, Option<u32>) {
        let place = &self.places[index as usize];
        let (ring, operation) = operation_of(token);
        let queue = &session.queues()[ring as usize];
        let result = match queue.outcome(operation) {
            Outcome::InFlight => return (Work::Nothing, Some(ring)),
            Outcome::Stale => return (Work::Nothing, None),
            Outcome::Done(result) => result,
        };
        // ORDERING: acquire and release, device: one reaper goes on; tokens never come back (generations).
        if place.operation.compare_exchange(token, CLAIMED).is_err() {
            return (Work::Nothing, None);
        }
        let whole = match Errno::check(result) {
            Ok(count) => {
                // ORDERING: relaxed: a counter.
                queue.counters().bytes_read.count(u64::from(count));
                place.got.set(place.got.peek() + count);
                // A read of nothing is the end of the file.
                count == 0 || u64::from(place.got.peek()) == stream.block_bytes()
            }
            Err(Errno::INTR) => false,
            // Who reads on under the lock meets the error there.
            Err(_) => true,
        };
        if !whole {
            self.submit(session, stream, ring, operation.slot.0, index);
            return (Work::Nothing, Some(ring));
        }
        // SAFETY:
        // - the slot that `start` claimed; the outcome was seen, and one reaper is here
        queue.release(unsafe { SlotClaim::of(operation) });
        // ORDERING: release, device, partner `claim`: what was read comes before.
        place.operation.publish(READ);
        (Work::Index, None)
    }

    /// The claimed place is indexed: its text and the ends of its lines are in its device memory. One lane, after a barrier with those
    /// that wrote them.
    pub fn indexed(&self, index: u32, count: u32, tail: u32, unpublishable: bool) {
        let place = &self.places[index as usize];
        place.count.set(count);
        place.tail.set(tail);
        place.unpublishable.set(u32::from(unpublishable));
        // ORDERING: release, device, partner `claim`.
        place.operation.publish(INDEXED);
    }

    /// What is to be carried over into a claimed place: bytes of the line that was begun in the block before, and where they
    /// lie. `None` if the block cannot be published. The same in all lanes of the warp that claimed it.
    #[must_use]
    pub fn carry(&self, session: &Resources, stream: &Stream, index: u32) -> Option<(u64, u64)> {
        let place = &self.places[index as usize];
        let block_number = place.block_number.peek();
        let (bytes, from) = if block_number == 0 {
            (0, 0)
        } else {
            let before = &self.places[self.before(index) as usize];
            let tail = u64::from(before.tail.peek());
            (stream.block_bytes() - tail, self.text(session, before) + tail)
        };
        let most = u64::from(self.line_bytes_max.peek());
        let fits = place.count.peek() != 0
            && place.unpublishable.peek() == 0
            && bytes <= most
            && bytes + self.end_of(session, place, 0).cast_unsigned() <= most;
        fits.then_some((bytes, from))
    }

    /// Publishes a claimed place's lines, with `carried_bytes` bytes in front of its text that were carried over. One lane, after a barrier with those
    /// that copied them.
    pub fn publish(&self, session: &Resources, stream: &Stream, index: u32, carried_bytes: u64) {
        let place = &self.places[index as usize];
        let (block_number, count) = (place.block_number.peek(), u64::from(place.count.peek()));
        let base = self.published.peek();
        #[allow(clippy::cast_possible_truncation, reason = "at most `most`")]
        place.carried_bytes.set(carried_bytes as u32);
        let begin = self.offset.peek() + block_number * stream.block_bytes();
        self.published_end.set(begin + u64::from(place.tail.peek()));
        place.lines.set(base << BASE_SHIFT | count);
        let ends = u64::from(place.got.peek()) < stream.block_bytes();
        // Before the lines can be taken, and the place come to its next block.
        // ORDERING: release, device, partner `progress`.
        place.operation.publish(PUBLISHED);
        // ORDERING: relaxed: `published` grows before `available` does, see `is_quiet`.
        self.published.set(base + count);
        // ORDERING: acquire and release, device, partner `try_take_lines`.
        self.available.0.fetch_add(count);
        if ends {
            self.stop(AT_END);
        }
        if block_number > 0 {
            self.count_taken(session, stream, self.before(index), CARRIED);
        }
        // ORDERING: release, device, partner `claim`: all of this comes before the next block is published.
        self.next.publish(block_number + 1);
    }

    /// No more lines will be published: the claimed place's block, which stays as it is, cannot be. One lane.
    pub fn stop_at(&self, index: u32) {
        let place = &self.places[index as usize];
        self.stop(if place.count.peek() == 0 && place.got.peek() == 0 { AT_END } else { AT_LINE });
        // ORDERING: release, device, partner the next `claim`, which goes no further.
        place.operation.publish(INDEXED);
    }

    fn stop(&self, why: u32) {
        // ORDERING: release, device, partner `without_available`: the last lines' room comes before.
        self.stopped.publish(why);
    }

    fn before(&self, index: u32) -> u32 {
        index.wrapping_sub(1) & (self.count.peek() - 1)
    }

    // Where a place keeps what: in front of the text there is room for the longest begun line, behind it are the lines' ends.

    /// The longest line that fits.
    #[must_use]
    pub const fn fitting_line_bytes_max(session: &Resources) -> u32 {
        session.stream_buffers.buffer_bytes / 4
    }
    /// The most lines of a block.
    #[must_use]
    pub const fn block_lines_max(session: &Resources) -> u32 {
        (session.stream_buffers.buffer_bytes - Self::fitting_line_bytes_max(session)) / 4
    }
    fn text(&self, session: &Resources, place: &Place) -> u64 {
        session.line_buffers.address(place.text.peek()) + u64::from(Self::fitting_line_bytes_max(session))
    }
    /// The addresses of a claimed place: of what was read, of its text, and of the ends of its lines, each four bytes.
    #[must_use]
    pub fn memory(&self, session: &Resources, index: u32) -> (u64, u64, u64) {
        let place = &self.places[index as usize];
        let text = self.text(session, place);
        let ends = text + u64::from(session.stream_buffers.buffer_bytes);
        (session.stream_buffers.address(place.buffer.peek()), text, ends)
    }
    /// Where a line of an indexed block ends in its text.
    fn end_of(&self, session: &Resources, place: &Place, line: u64) -> i64 {
        let ends = self.text(session, place) + u64::from(session.stream_buffers.buffer_bytes);
        // SAFETY:
        // - the block has so many lines, whose ends were written before it was given on
        let end = unsafe { (ends as *const u32).add(usize::try_from(line).unwrap_or(0)).read() };
        i64::from(end)
    }

    // Under the lock.

    /// Counts a call of so many lanes that lines would have served; whether they should be opened now: after a while, and at once where many
    /// wait for the lock. The lock's holder, one lane.
    #[must_use]
    pub fn count_call(&self, stream: &Stream, lanes: u32) -> bool {
        let calls = self.calls.peek().saturating_add(lanes);
        self.calls.set(calls);
        (self.open_delay_log2.peek() == 0 && stream.lock.queued() > CONTENDED_AT)
            || calls >= CALLS_BEFORE_OPEN << self.open_delay_log2.peek()
    }
    /// Whether it is worth while for a caller that found lines closed to see whether they open before it draws a ticket of the stream's
    /// lock: each that waits there has to be served, lines or no. A hint.
    #[must_use]
    pub fn may_open(&self, stream: &Stream) -> bool {
        // ORDERING: relaxed: hints.
        stream.lock.queued() > CONTENDED_AT
            && stream.direction() != Direction::Writing
            && stream.buffering() == Buffering::Full
    }

    /// Opens lines of at most `most` bytes at the position of a stream that reads, has its buffer used up, and nothing pushed back; not
    /// where there is no memory for them. The lock's holder, one lane.
    pub fn open(&self, session: &Resources, stream: &Stream, most: u32) {
        self.calls.set(0);
        let mut count = 0;
        // Ends: over the places.
        for place in &self.places {
            let Some(text) = session.line_buffers.free.claim(1, count) else { break };
            let Some(buffer) = session.stream_buffers.free.claim(1, count) else {
                session.line_buffers.free.release(text);
                break;
            };
            place.text.set(text.item(0));
            place.buffer.set(buffer.item(0));
            count += 1;
        }
        let kept = if count < PLACES_MIN { 0 } else { 1 << count.ilog2() };
        for place in &self.places[kept as usize..count as usize] {
            Self::release(session, place);
        }
        if kept == 0 {
            return;
        }
        // ORDERING: relaxed throughout: the cursor's release publishes it.
        self.count.set(kept);
        for (block_number, place) in (0..).zip(&self.places) {
            place.block_number.set(block_number);
            place.operation.set(IDLE);
            place.lines.set(0);
            place.taken.set(0);
            place.got.set(0);
        }
        self.next.set(0);
        self.stopped.set(0);
        self.progressing.0.set(0);
        self.line_bytes_max.set(most.min(Self::fitting_line_bytes_max(session)));
        let position = stream.position.peek() + u64::from(stream.read_next.peek());
        self.offset.set(position);
        self.published_end.set(position);
        self.open.set(OPEN);
        // From the first line on; late comers to the lines before may be counted as active, for a moment. Ends: they look before they come.
        // ORDERING: release, device, partner `try_take_lines`.
        loop {
            let at = self.cursor.0.peek();
            if self.cursor.0.compare_exchange(at, at & (CLOSED - ACTIVE) | self.closed_at.peek()).is_ok() {
                break;
            }
        }
    }
    /// Says which number the first line has when lines are opened next, which is 0 otherwise. For tests, which begin shortly before numbers come
    /// round. The lock's holder, or while no kernel runs; while lines are closed and settled.
    pub fn begin_at(&self, line: u64) {
        debug_assert!(self.open.peek() == SHUT, "lines are open");
        self.published.set(line);
        self.closed_at.set(line);
    }
    /// Makes the lines of a new stream, closed. Before any handle of it is used.
    pub fn set_up(&self) {
        // ORDERING: relaxed: the stream's new generation publishes it. Lines of the entry's last stream were settled when it was closed.
        self.cursor.0.fetch_set_bits(CLOSED);
        self.calls.set(0);
        self.open_delay_log2.set(0);
    }

    /// Closes lines to newcomers, if they are open. The lock's holder, one lane; then [`Lines::settle_reads`].
    pub fn close(&self) {
        if self.open.peek() == SHUT {
            return;
        }
        // ORDERING: acquire and release, device, partner `try_take_lines` and `enter_progress`: a part of the cursor's modification order.
        let at = self.cursor.0.fetch_set_bits(CLOSED);
        if at & CLOSED == 0 {
            self.closed_at.set(at & LINE);
        }
    }

    /// One step towards a stream that reads at the end of the last line taken. The lock's holder, one lane, after [`Lines::close`]; comes
    /// again until it says `Done`.
    pub fn settle_reads(&self, session: &Resources, stream: &Stream) -> Progress {
        if self.open.peek() == SHUT {
            return Progress::Done;
        }
        if !self.is_quiet() {
            return Progress::Wait(stream.ring(session));
        }
        if self.open.peek() == EMPTIED {
            self.open.set(SHUT);
            return Progress::Done;
        }
        for place in self.places.iter().take(self.count.peek() as usize) {
            // ORDERING: acquire, device, partner `submit`; nobody is active.
            let token = place.operation.observe();
            if token < FIRST_TOKEN {
                continue;
            }
            let (ring, operation) = operation_of(token);
            let queue = &session.queues()[ring as usize];
            if let Outcome::InFlight = queue.outcome(operation) {
                return Progress::Wait(ring);
            }
            // SAFETY:
            // - the slot that `start` claimed; the outcome was seen, and no other lane reaps: none is active
            queue.release(unsafe { SlotClaim::of(operation) });
            place.operation.set(IDLE);
        }
        let (end, published) = (self.closed_at.peek(), self.published.peek());
        let position =
            if end == published { self.published_end.peek() } else { self.start_of(session, stream, end) };
        stream.position.set(position);
        stream.read_next.set(0);
        stream.read_end.set(0);
        for place in self.places.iter().take(self.count.peek() as usize) {
            Self::release(session, place);
        }
        // Where that was hardly worth it, it will take longer to come to it again; a little longer where the file ends.
        let worth = position - self.offset.peek() > stream.block_bytes() * u64::from(self.count.peek());
        let open_delay_log2 = match (worth, self.stopped.peek()) {
            (true, AT_END) => OPEN_DELAY_STEP,
            (true, _) => 0,
            (false, _) => self.open_delay_log2.peek() + OPEN_DELAY_STEP,
        };
        self.open_delay_log2.set(open_delay_log2.min(OPEN_DELAY_MAX));
        // From here on nobody gets lines: the room is 0 at most. Who has got some since it was quiet finds the cursor closed and gives
        // them back, before lines are opened anew; so nobody takes lines of the next opening with room of this one.
        self.open.set(EMPTIED);
        self.published.set(0);
        self.closed_at.set(0);
        // ORDERING: acquire and release, device, partner `try_take_lines`.
        self.available.0.fetch_sub(published.wrapping_sub(end));
        Progress::Wait(stream.ring(session))
    }

    /// Lets the slots of reads go that have completed: nobody will take lines any more. While no kernel runs, and none will.
    pub fn reclaim_slots(&self, session: &Resources) {
        for place in &self.places {
            // ORDERING: relaxed: no kernel runs.
            let token = place.operation.peek();
            if token < FIRST_TOKEN {
                continue;
            }
            let (ring, operation) = operation_of(token);
            let queue = &session.queues()[ring as usize];
            if let Outcome::Done(_) = queue.outcome(operation) {
                // SAFETY:
                // - the slot that `start` claimed; the outcome was seen, and no lane is left
                queue.release(unsafe { SlotClaim::of(operation) });
                place.operation.set(IDLE);
            }
        }
    }
    /// Where in the file a published line begins that nobody has taken. The lock's holder, when quiet.
    fn start_of(&self, session: &Resources, stream: &Stream, number: u64) -> u64 {
        let shift = stream.block_bytes();
        let found = self.places.iter().take(self.count.peek() as usize).find_map(|place| {
            let (base, count) = lines_in(place.lines.peek());
            let line = number.checked_sub(base).filter(|line| *line < count)?;
            let begin = self.offset.peek() + place.block_number.peek() * shift;
            let start = if line == 0 {
                -i64::from(place.carried_bytes.peek())
            } else {
                self.end_of(session, place, line - 1)
            };
            Some(begin.wrapping_add_signed(start))
        });
        debug_assert!(found.is_some(), "invariant 3");
        found.unwrap_or_else(|| self.published_end.peek())
    }

    /// Whether nobody is active, and nobody has lines in hand. Who holds the lock, with the cursor closed.
    fn is_quiet(&self) -> bool {
        // ORDERING: acquire, device, partner `leave`.
        if self.cursor.0.observe() & (CLOSED - ACTIVE) != 0 {
            return false;
        }
        // ORDERING: acquire, device, partner `publish`, `try_take_lines`.
        self.available.0.observe() == self.published.peek().wrapping_sub(self.closed_at.peek())
    }

    fn release(session: &Resources, place: &Place) {
        session.line_buffers.free.release(Claim::single(place.text.peek()));
        session.stream_buffers.free.release(Claim::single(place.buffer.peek()));
    }
}
