//! The lines of a text that a whole grid takes from one stream (stages 3 and 8): read ahead, indexed once, and taken without the lock.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod.rs` | the invariants, the words, where a place keeps its text |
//! | `take.rs` | taking lines: the fast path |
//! | `tokens.rs` | tokens in the place of lines |
//! | `progress.rs` | starting reads and taking in their results |
//! | `publish.rs` | what a warp does with a block that was read: carrying over, publishing |
//! | `locked.rs` | under the lock: opening, closing, and where the stream then stands |
//!
//! Not in here: copying text and finding the ends of lines, which take a whole warp (`gpufs-device`).
//!
//! A stream that reads has *lines* open or not. While it has, K blocks of B bytes of its file are under way: block *b* holds the bytes
//! from `offset + b B` on, and uses place *b mod K*. A place has a stream buffer, which the kernel reads into, and device memory, into
//! which a warp copies the text once, followed by the ends of the lines in it. A line belongs to the block in which it ends.
//! Lines are numbered from 0; block *b* has lines `[base, base + count)`. The steps:
//!
//! ```text
//! try_take_lines(n) -> line    fast path, no lock: lines [line, line + n) are the caller's to copy
//!   (each lane copies its own; barrier)
//! count_taken(place, n)        the lane that makes a block's lines all taken must free it
//! leave()                      the caller touches nothing any more
//!
//! enter_progress() … leave_progress()
//!                              a caller that found no lines: starts reads, reaps them, indexes and publishes blocks
//! ```
//!
//! The life of a place, whose states are those of [`state`](super::state); CLAIMED belongs to one lane, or to the warp that it leads:
//!
//! ```text
//! FILLING ──start──► CLAIMED ──► in flight ──reap──► CLAIMED ──► FULL ──► CLAIMED ──► INDEXED ──► CLAIMED ──► PUBLISHED
//!   ▲                   ▲                               │             (a warp indexes)        (the next in line)  │
//!   │                   └──────── short: the rest ──────┘                                                         │
//!   └────────────────────────────── all lines taken, and the begun line after them carried over ◄─────────────────┘
//! ```
//!
//! Invariants:
//!
//! 1. `available + taken, not yet added to the cursor = published − lines taken`: as in [`super::reservation`], both are additions.
//! 2. Blocks are published in order of their numbers, a *run* at a time, each run by one warp: it begins with block `next`, whose state is left by an
//!    exchange, and so are those of the blocks behind. A lane with one of those alone puts it back: `next` does not pass a claimed block.
//!    So `base` of block *b* is the sum of the counts of the blocks before it.
//! 3. A published block stays as it is until its last line is counted as taken *and* the begun line after its last newline is carried
//!    over to the next block. So a caller that has taken lines finds them where they were published.
//! 4. The cursor counts the callers that may still touch a place as present. With CLOSED set their number only falls, except for callers
//!    that look and leave at once; when it is 0, nobody is CLAIMED, and every line below `closed_at` has been copied.
//! 5. No published line is longer than `line_bytes_max`, and a caller with less room does not take any. So a line is a call's result
//!    as a whole, and the position of the stream is the end of the last line taken.
//!
//! 6. Where the units are *tokens* ([`Tokens`]), a line is a token instead: white space, and bytes up to the next white space, which is in
//!    the block, too. Every token that is published is a whole number of the stream's kind. So a conversion of `fscanf` that takes it takes
//!    all of it, and nothing behind it. A block's first byte may be white space behind a token that ended with the block before: the
//!    indexing warp notes an end there, and the publisher, which knows, skips it where none ended (FIRST_SKIPPED).
//!
//! By 4 to 6, closing leaves the lock's holder a stream that reads at a position, as if it had read line by line under the lock.
#![expect(unsafe_code, reason = "reads the ends of lines")]

mod locked;
mod progress;
mod publish;
mod take;
mod tokens;

use super::Stream;
use super::reservation::{CLOSED, ReservationWords};
use super::state::BlockState;
use crate::resources::Resources;
use crate::ring::CacheAligned;
use crate::word::{DeviceWord, DeviceWord64};

pub use tokens::Tokens;

/// Blocks that are under way at most.
pub const PLACES_MAX: usize = 32;

/// Bits of a line's number in the cursor. Above them, callers are counted: a GPU holds some 300,000 lanes, each of which may call alone.
const LINE_BITS: u32 = 43;
/// In the cursor: lines are numbered from 0 again before any are taken ([`Lines::SPENT`]).
const SHUT_OUT: u64 = CLOSED | Lines::SPENT;

/// In a place's `taken`: the begun line after its last newline was carried over.
const CARRIED: u64 = 1 << 32;
/// In a place's `lines`: where the base begins. Below it, the count.
const BASE_SHIFT: u32 = 24;

/// In a place's `carried_bytes`: the first end in the block ends nothing. Below it, bytes.
const FIRST_SKIPPED: u32 = 1 << 31;

/// In `stopped`: no more lines are published, because of a line that is too long, or a read that failed.
const AT_LINE: u32 = 1;
/// In `stopped`: because the file ends.
const AT_END: u32 = 2;

const _: () = assert!(2 * Lines::SPENT <= 1 << (64 - BASE_SHIFT) && 2 * Lines::SPENT <= 1 << LINE_BITS);

/// One place of a stream's blocks that are read ahead.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Place {
    /// The number of the block that may use the place now. Owned by the place's owner.
    pub block_number: DeviceWord64,
    /// The state.
    pub state: BlockState,
    /// What is published of it, in one word, so that it is never seen in halves; 0 if nothing is.
    ///
    /// ```text
    /// 63 … 24                 23 … 0
    /// the first line's number lines
    /// ```
    pub lines: DeviceWord64,
    /// Lines taken and copied, and CARRIED.
    taken: DeviceWord64,
    /// Bytes read: 0 to B; fewer than B at the end of the file, or at an error. This word and those that follow are the owner's.
    pub got: DeviceWord,
    /// Lines that end in the block.
    pub count: DeviceWord,
    /// Bytes up to the end of its last newline.
    pub tail: DeviceWord,
    /// Bytes of the block's first line that were carried over from the block before, and lie in front of its text; and `FIRST_SKIPPED`.
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
    /// CLOSED, callers present, and the next line. Written by callers, and by the lock's holder.
    cursor: CacheAligned<DeviceWord64>,
    /// Lines published that nobody has taken: signed, since a caller that takes too many gives them back.
    available: CacheAligned<DeviceWord64>,
    /// Warps that make progress on the places: a hint that keeps others away.
    progressing: CacheAligned<DeviceWord>,
    /// The number of the block to be published next. Written by its publisher.
    next: DeviceWord64,
    /// Lines published. Written by publishers, in turn.
    published: DeviceWord64,
    /// Whether no more lines will be published: 0, [`AT_LINE`] or [`AT_END`].
    stopped: DeviceWord,
    /// How far lines are open: `SHUT`, `OPEN` or `EMPTIED` (`locked.rs`). Under the lock.
    open: DeviceWord,
    /// The longest line that is published, in bytes, newline included; of tokens, with their kind above it (`tokens.rs`). Constant while
    /// lines are open.
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
    /// log₂ of the factor by which lines open later than at first, because they were closed early. Under the lock.
    open_delay_log2: DeviceWord,
    /// The places.
    pub places: [Place; PLACES_MAX],
}

/// What a place needs of a warp, as its lanes cannot do it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Work {
    /// Nothing.
    Nothing,
    /// The block was read: index it, then say so by [`Lines::indexed`].
    Index,
    /// The block is next: publish it and those behind it that are indexed (`publish.rs`), or [`Lines::stop_at`] it.
    Publish,
}

/// The content of a place's `lines`: the first one's number, and how many.
const fn lines_in(word: u64) -> (u64, u64) {
    (word >> BASE_SHIFT, word & ((1 << BASE_SHIFT) - 1))
}

impl Lines {
    /// Lines after which they are closed, to be opened with line 0 again: a bit of the cursor. Callers that looked before may still take some: a
    /// grid takes less than 2²⁴ at once, and 32 blocks of less than 2²⁴ lines are published ahead of them, so that numbers stay below what `base`
    /// holds.
    pub const SPENT: u64 = 1 << 39;

    /// The words by which lines are taken.
    #[inline]
    const fn reservation(&self) -> ReservationWords<'_, LINE_BITS, true> {
        ReservationWords {
            cursor: &self.cursor.0,
            available: &self.available.0,
            granted_to: &self.published,
            closed_at: &self.closed_at,
        }
    }

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
        self.cursor.0.peek() & ReservationWords::<LINE_BITS, true>::POSITION
    }
    /// Whether lines are open, and more of them will be published. A hint.
    #[must_use]
    pub fn is_flowing(&self) -> bool {
        // ORDERING: relaxed: a hint.
        self.is_open() && self.stopped.peek() == 0
    }
    /// The longest line that is published, in bytes; more than any line where the units are tokens. A hint, unless the caller has taken
    /// lines.
    #[must_use]
    pub fn line_bytes_max(&self) -> u32 {
        // ORDERING: relaxed: a hint, or constant.
        self.line_bytes_max.peek()
    }
    /// K.
    #[must_use]
    pub fn place_count(&self) -> u32 {
        // ORDERING: relaxed: a hint, or constant.
        self.count.peek()
    }

    // Where a place keeps its text: the longest begun line fits in front of it, and the lines' ends follow it.

    /// The longest line that fits.
    #[must_use]
    pub fn fitting_line_bytes_max(resources: &Resources) -> u32 {
        resources.stream_buffers.buffer_bytes / 4
    }
    /// The most lines of a block.
    #[must_use]
    pub fn block_lines_max(resources: &Resources) -> u32 {
        (resources.stream_buffers.buffer_bytes - Self::fitting_line_bytes_max(resources)) / 4
    }
    fn text(&self, resources: &Resources, place: &Place) -> u64 {
        resources.line_buffers.address(place.text.peek()) + u64::from(Self::fitting_line_bytes_max(resources))
    }
    /// The addresses of a claimed place: of what was read, of its text, and of the ends of its lines, each four bytes.
    #[must_use]
    pub fn memory(&self, resources: &Resources, index: u32) -> (u64, u64, u64) {
        let place = &self.places[index as usize];
        let text = self.text(resources, place);
        let ends = text + u64::from(resources.stream_buffers.buffer_bytes);
        (resources.stream_buffers.address(place.buffer.peek()), text, ends)
    }
    /// Where an end of an indexed block is in its text. With none skipped, the line of that number ends there.
    fn end_of(&self, resources: &Resources, place: &Place, line: u64) -> i64 {
        let ends = self.text(resources, place) + u64::from(resources.stream_buffers.buffer_bytes);
        // SAFETY:
        // - the block has this line, and the ends of its lines were written before the block left the state CLAIMED as INDEXED
        // - the place's memory has room for `block_lines_max` ends, aligned to four bytes, and no block has more
        let end = unsafe { (ends as *const u32).add(usize::try_from(line).unwrap_or(0)).read() };
        i64::from(end)
    }
}
