//! Streams that several threads share, since they open the same path in the same mode: opened by the first, counted, closed by the last.
//!
//! An *entry* stands for one such stream. What it is for, its *key*, is the path as it was given, byte by byte, and the mode. The life of its
//! `state` word, whose count is the number of opens that have not been closed:
//!
//! ```text
//! (0: the session is closed)
//! FREE ──begin (table's lock)──► OPENING(n) ──opened──► OPEN(n) ──the last close──► CLOSING ──closed──► FREE, epoch + 1, or REMEMBERED
//!                                 │  ▲ join               ▲ │ join, leave
//!                                 │  └─ OPENING(n + k)    └─┘ OPEN(n ± k)
//!                                 └──failed──► FAILED(n) ──leave──► FAILED(n − k) … ──the last──► FREE, epoch + 1
//! ```
//!
//! The rules are [R-SHARE-1] to [R-SHARE-6] of the [protocol](crate::protocol::sharing).
//!
//! A stream knows its entry and the epoch ([`crate::stream::Stream::shared`]). A close by a handle whose stream is another now, or
//! after the last close, finds another epoch or another state: `EBADF`.
#![expect(unsafe_code, reason = "a table behind pointers that the host made")]

use crate::abi::Errno;
use crate::lock::TicketLock;
use crate::word::{DeviceWord, DeviceWord64};

/// Bytes that a path has room for, its NUL included.
pub const PATH_BYTES: usize = 4096;
/// Loom's words are large and many of them slow.
const PATH_WORDS: usize = if cfg!(loom) { 1 } else { PATH_BYTES / 8 };

/// The state:
///
/// ```text
/// 63 … 32   31 … 29   28 … 0
/// epoch     state     count
/// ```
const STATE_SHIFT: u32 = 29;
const EPOCH_SHIFT: u32 = 32;
const COUNT: u64 = (1 << STATE_SHIFT) - 1;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// The session is closed, and its tables are zero.
    Dead,
    /// In use by no stream.
    Free,
    /// The lane that began it is opening the stream.
    Opening,
    /// The stream is open.
    Open,
    /// It could not be opened; lanes that waited for it have yet to read the errno.
    Failed,
    /// The lane that left last is closing it.
    Closing,
}

/// A state word that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u64);

impl Seen {
    const fn new(epoch: u32, state: State, count: u64) -> Self {
        Self((epoch as u64) << EPOCH_SHIFT | (state as u64) << STATE_SHIFT | count)
    }
    /// The word, to be passed on.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }
    /// The word that was passed on.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }
    /// The state.
    #[must_use]
    pub const fn state(self) -> State {
        match self.0 >> STATE_SHIFT & 7 {
            1 => State::Free,
            2 => State::Opening,
            3 => State::Open,
            4 => State::Failed,
            5 => State::Closing,
            _ => State::Dead,
        }
    }
    /// Opens that have not been closed.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.0 & COUNT
    }
    /// How often the entry was free, modulo 2³².
    #[must_use]
    pub const fn epoch(self) -> u32 {
        (self.0 >> EPOCH_SHIFT) as u32
    }
}

/// The result of leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Left {
    /// Others have the stream open.
    Others,
    /// No other lane has: the caller closes the stream, and then calls [`Entry::closed`]. The number of leaving lanes that had it open.
    Last(u64),
    /// It is not open: it was closed as often as it was opened.
    NotOpen,
}

/// An entry. All but `state` is written by the lane that owns a transition ([R-SHARE-3]), before it.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Entry {
    state: DeviceWord64,
    /// The hash of path and mode: never 0 while in use, 0 while free. A hint; what counts are the path and the flags.
    key: DeviceWord64,
    /// `open(2)`'s flags.
    flags: DeviceWord,
    /// Bytes of the path, without its NUL.
    length: DeviceWord,
    /// OPEN: the stream's index.
    stream: DeviceWord,
    /// OPEN: the stream's generation.
    generation: DeviceWord,
    /// FAILED: the errno.
    errno: DeviceWord,
    /// OPEN, of a trace: its mark, above the number of its next sequence.
    trace: DeviceWord64,
}

impl Entry {
    /// The state. Acquires what was written before it.
    #[must_use]
    pub fn seen(&self) -> Seen {
        // ORDERING: acquire, device, partner `publish` here and the additions of `opened` and `failed`.
        Seen(self.state.observe())
    }
    /// OPENING, of a trace: what its sequences are told of the file. The lane that began it.
    pub fn begin_trace(&self, mark: u32) {
        // ORDERING: relaxed: `opened` publishes it.
        self.trace.set(u64::from(mark) << 32 | 1);
    }
    /// OPEN, of a trace: its mark, and a number that no other lane gets. A lane that has joined.
    #[must_use]
    pub fn draw_sequence(&self) -> (u32, u32) {
        // ORDERING: relaxed: `seen` acquired the mark, and nothing else goes with the number.
        let drawn = self.trace.fetch_add_relaxed(1);
        ((drawn >> 32) as u32, drawn as u32)
    }
    /// Joins an entry that was seen OPENING or OPEN, and compared since, for `lanes` lanes; whether it is still as it was seen. One lane.
    #[must_use]
    pub fn join(&self, seen: Seen, lanes: u32) -> bool {
        let joinable = matches!(seen.state(), State::Opening | State::Open);
        // ORDERING: acquire and release, device: the looks at key and path come before ([R-SHARE-2]).
        joinable
            && seen.count() + u64::from(lanes) < COUNT
            && self.state.compare_exchange(seen.0, seen.0 + u64::from(lanes)).is_ok()
    }
    /// Leaves an entry that is still OPENING, for `lanes` lanes that had joined and give up; whether it was. One lane, which did not begin the entry.
    #[must_use]
    pub fn withdraw(&self, lanes: u32) -> bool {
        // Ends: a round that fails is another lane's success, of which each call has one.
        loop {
            // ORDERING: relaxed: confirmed by the exchange.
            let seen = Seen(self.state.peek());
            if seen.state() != State::Opening {
                return false;
            }
            // ORDERING: acquire and release, device; the lane that opens counts as well, so the count does not come to 0.
            if self.state.compare_exchange(seen.0, seen.0 - u64::from(lanes)).is_ok() {
                return true;
            }
        }
    }
    /// OPENING → OPEN. The lane that began it.
    pub fn opened(&self, stream: u32, generation: u32) {
        // ORDERING: relaxed: the addition publishes them.
        self.stream.set(stream);
        self.generation.set(generation);
        // ORDERING: acquire and release, device, partner `seen`: others join meanwhile, so it is an addition.
        self.state.fetch_add((State::Open as u64 - State::Opening as u64) << STATE_SHIFT);
    }
    /// OPENING → FAILED. The lane that began it, which then leaves.
    pub fn failed(&self, errno: Errno) {
        // ORDERING: relaxed: the addition publishes it.
        self.errno.set(errno.number().cast_unsigned());
        // ORDERING: acquire and release, device, partner `seen`.
        self.state.fetch_add((State::Failed as u64 - State::Opening as u64) << STATE_SHIFT);
    }
    /// The stream's index and generation. A lane that has joined and seen OPEN.
    #[must_use]
    pub fn stream(&self) -> (u32, u32) {
        // ORDERING: relaxed: `seen` acquired them.
        (self.stream.peek(), self.generation.peek())
    }
    /// Why it could not be opened. A lane that has joined and seen FAILED.
    #[must_use]
    pub fn errno(&self) -> Errno {
        // ORDERING: relaxed: `seen` acquired it.
        Errno::from_number(self.errno.peek().cast_signed())
    }
    /// Leaves an entry that FAILED, for `lanes` lanes that had joined. One lane. The last frees it.
    pub fn leave_failed(&self, lanes: u32) {
        // ORDERING: acquire and release, device: the others' looks at the errno come before.
        let before = Seen(self.state.fetch_sub(u64::from(lanes)));
        if before.count() == u64::from(lanes) {
            self.free(before);
        }
    }
    /// Leaves the open stream of an epoch, for up to `lanes` lanes. One lane.
    pub fn leave(&self, epoch: u32, lanes: u32) -> Left {
        // Ends: a round that fails is another lane's success, of which each call has one.
        loop {
            // ORDERING: relaxed: confirmed by the exchange.
            let seen = Seen(self.state.peek());
            if seen.state() != State::Open || seen.epoch() != epoch {
                return Left::NotOpen;
            }
            let (count, lanes) = (seen.count(), u64::from(lanes));
            let last = count <= lanes;
            let next = if last { Seen::new(epoch, State::Closing, 0) } else { Seen(seen.0 - lanes) };
            // ORDERING: acquire and release, device, partner the others' leaving: what they did to the stream comes before it is closed.
            if self.state.compare_exchange(seen.0, next.0).is_ok() {
                return if last { Left::Last(count) } else { Left::Others };
            }
        }
    }
    /// CLOSING → FREE. The lane that left last, when the stream is closed; `remembered`: [R-SHARE-6].
    pub fn closed(&self, remembered: bool) {
        // ORDERING: relaxed: no other lane changes it.
        let seen = Seen(self.state.peek());
        if remembered {
            self.set_free(seen);
        } else {
            self.free(seen);
        }
    }
    /// Whether a FREE entry is remembered, and not needed for another path yet.
    #[must_use]
    pub fn is_remembered(&self) -> bool {
        // ORDERING: relaxed: under the table's lock, or no kernel runs.
        self.seen().state() == State::Free && self.key.peek() != 0
    }
    /// Makes an entry that was remembered like any other that is free. While no kernel runs.
    pub fn forget(&self) {
        if self.is_remembered() {
            // ORDERING: relaxed: no kernel runs.
            self.key.set(0);
        }
    }
    /// The flags that it was begun with. A lane that owns a transition, or has joined.
    #[must_use]
    pub fn flags(&self) -> u32 {
        // ORDERING: relaxed: constant while the entry is in use, and acquired with its state.
        self.flags.peek()
    }
    /// CLOSING → OPEN, with a count of 1. The lane that left last, where it gave up and the stream stays open.
    pub fn kept_open(&self) {
        // ORDERING: relaxed: no other lane changes it.
        let epoch = Seen(self.state.peek()).epoch();
        // ORDERING: release, device, partner `seen`.
        self.state.publish(Seen::new(epoch, State::Open, 1).0);
    }
    fn free(&self, seen: Seen) {
        // ORDERING: relaxed: a hint.
        self.key.set(0);
        self.set_free(seen);
    }
    fn set_free(&self, seen: Seen) {
        // ORDERING: release, device, partner `begin`: the looks at key and path come before.
        self.state.publish(Seen::new(seen.epoch().wrapping_add(1), State::Free, 0).0);
    }
    /// Makes a zeroed entry free: what a new session begins with.
    pub fn make_free(&self) {
        // ORDERING: relaxed: the session is handed to other threads afterwards.
        self.state.set(Seen::new(0, State::Free, 0).0);
    }
    /// Frees an entry that lanes which are gone were opening, closing or leaving. While no kernel runs.
    pub fn let_go(&self) {
        let seen = self.seen();
        if matches!(seen.state(), State::Opening | State::Failed | State::Closing) {
            self.free(seen);
        }
    }
    /// Ends the entry for good. While no kernel runs, and none will.
    pub fn kill(&self) {
        // ORDERING: relaxed: no kernel runs.
        self.key.set(0);
        self.state.set(Seen::new(0, State::Dead, 0).0);
    }
}

/// What a [`Table`] is made of. Whoever has one can do nothing with it but to read it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct TableParts {
    /// As many as streams.
    pub entries: *const Entry,
    /// [R-SHARE-1].
    pub lock: *const TicketLock,
    /// Address of [`PATH_BYTES`] for each entry, in memory that the device reaches; 0 in a view that does not.
    pub paths: u64,
    /// Entries.
    pub count: u32,
}

/// The entries of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Table {
    parts: TableParts,
}

impl core::ops::Deref for Table {
    type Target = TableParts;

    #[inline]
    fn deref(&self) -> &TableParts {
        &self.parts
    }
}

impl Table {
    /// The table of these parts.
    ///
    /// # Safety
    /// Every pointer is valid for as many items as its field says, and `paths` is 0 or the address of as many paths, on every device that uses the
    /// table, as long as that is used.
    #[must_use]
    pub const unsafe fn new(parts: TableParts) -> Self {
        Self { parts }
    }
}

impl Table {
    /// The entries.
    #[must_use]
    pub const fn entries(&self) -> &[Entry] {
        // SAFETY:
        // - valid for `count`, by the host's construction
        unsafe { core::slice::from_raw_parts(self.parts.entries, self.parts.count as usize) }
    }
    /// The lock under which entries are begun.
    #[must_use]
    pub const fn lock(&self) -> &TicketLock {
        // SAFETY:
        // - valid, by the host's construction
        unsafe { &*self.parts.lock }
    }
    /// An entry.
    #[must_use]
    pub const fn entry(&self, index: u32) -> &Entry {
        &self.entries()[index as usize]
    }
    fn path(&self, index: u32) -> &[DeviceWord64; PATH_WORDS] {
        assert!(index < self.parts.count && self.paths != 0, "an entry with a path");
        let address = self.paths + u64::from(index) * size_of::<[DeviceWord64; PATH_WORDS]>() as u64;
        // SAFETY:
        // - that number of words for each entry, aligned, by the host's construction
        // - words that are shared by design
        unsafe { &*(address as *const [DeviceWord64; PATH_WORDS]) }
    }

    /// The hash of a key: never 0. FNV-1a.
    #[must_use]
    pub fn key_of(path: &[u8], flags: u32) -> u64 {
        let bytes = path.iter().copied().chain(flags.to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        }) | 1
    }
    /// Whether an entry may be this key's. A hint; under the lock it does not miss one that was begun.
    #[must_use]
    pub fn hits(&self, index: u32, key: u64) -> bool {
        // ORDERING: relaxed: a hint. Entries are begun under the lock, whose hand-over puts their keys before.
        self.entry(index).key.peek() == key
    }
    /// Whether an entry is for this path and these flags. Any lane; of an entry that the caller has not joined it counts if a later exchange
    /// finds the word seen before this ([R-SHARE-2]).
    #[must_use]
    pub fn is_for(&self, index: u32, path: &[u8], flags: u32) -> bool {
        let entry = self.entry(index);
        // ORDERING: relaxed: `seen` acquired what was written when the entry was begun.
        if entry.flags.peek() != flags || entry.length.peek() as usize != path.len() {
            return false;
        }
        path.chunks(8).zip(self.path(index)).all(|(bytes, word)| word.peek() == packed(bytes))
    }
    /// Makes a FREE entry this key's, of a path shorter than [`PATH_BYTES`]. The lock's holder, one lane, which then calls
    /// [`Table::begin`].
    pub fn prepare(&self, index: u32, key: u64, path: &[u8], flags: u32) {
        let entry = self.entry(index);
        // ORDERING: relaxed: `begin` publishes them.
        entry.key.set(key);
        entry.flags.set(flags);
        #[expect(clippy::cast_possible_truncation, reason = "below PATH_BYTES")]
        entry.length.set(path.len() as u32);
        for (bytes, word) in path.chunks(8).zip(self.path(index)) {
            word.set(packed(bytes));
        }
    }
    /// FREE → OPENING, for `lanes` lanes; its epoch. The lock's holder, one lane, which then opens the stream.
    pub fn begin(&self, index: u32, lanes: u32) -> u32 {
        let entry = self.entry(index);
        let epoch = entry.seen().epoch();
        // ORDERING: release, device, partner `seen`.
        entry.state.publish(Seen::new(epoch, State::Opening, u64::from(lanes)).0);
        epoch
    }
}

/// Up to eight bytes as a word, the first lowest.
fn packed(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
