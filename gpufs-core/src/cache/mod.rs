//! Pages of files in device memory: which frame holds which page, who uses it, what may go, and what must be written first.
//!
//! ```text
//! Cache ─┬─ sets[]       WAYS frames each: their lock, the clock's hand, counters
//!        ├─ frames[]     state, key and length of one page each
//!        ├─ mappings[]   what a key's upper half stands for: a file that the host mapped
//!        └─ memory       the frames' bytes, in device memory
//! ```
//!
//! A page is looked for in the frames of one set, which its key chooses. So a look is a few loads of one or two lines of memory, there is no
//! list to follow, and what waits for room waits for one set. The pages of a file that has room as a whole have a frame of their own each instead,
//! one behind the other (`layout.rs`). The rules are [R-CACHE-1] to [R-CACHE-9] of the [protocol](crate::protocol::caching).
//!
//! The steps of one lane. How it waits, and how bytes move, is the caller's business.
#![expect(unsafe_code, reason = "tables behind pointers that the host made")]

mod frame;
mod layout;
#[cfg(all(test, not(loom)))]
mod tests;

pub use frame::{Frame, Phase, Pinned, Seen, Write};
pub use layout::{Layout, Places, Whole};

use core::ops::Range;

use crate::lock::TicketLock;
use crate::word::{DeviceWord, DeviceWord64};
use frame::{Joined, Victim};

/// Frames of a set.
pub const WAYS: u32 = if cfg!(loom) { 2 } else { 8 };
/// Smallest and largest page, in bytes.
pub const PAGE_BYTES: (u32, u32) = (4 << 10, 1 << 20);
/// Files that a session may have mapped at a time.
pub const MAPPINGS: u32 = if cfg!(loom) { 1 } else { 256 };

/// How often a lane that may not guard a frame tries to mark it KEEPABLE.
const LOCK_TRIES: u32 = if cfg!(loom) { 1 } else { 8 };

/// Bits of a page's number.
const PAGE_BITS: u32 = 40;

/// A page of a mapped file. The word is never 0.
///
/// ```text
/// 63 … 40                39 … 0
/// mapping's index + 1    the page's number in the file
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    /// The key of a page; `None` beyond what a key has room for.
    #[must_use]
    pub const fn new(mapping: u32, page: u64) -> Option<Self> {
        if page >> PAGE_BITS != 0 {
            return None;
        }
        Some(Self((mapping as u64 + 1) << PAGE_BITS | page))
    }
    /// The key of a word that [`Key::word`] gave.
    #[must_use]
    pub const fn from_word(word: u64) -> Option<Self> {
        if word >> PAGE_BITS == 0 { None } else { Some(Self(word)) }
    }
    /// The key as a number.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }
    /// The mapping's index.
    #[must_use]
    pub const fn mapping(self) -> u32 {
        (self.0 >> PAGE_BITS) as u32 - 1
    }
    /// The page's number in its file.
    #[must_use]
    pub const fn page(self) -> u64 {
        self.0 & ((1 << PAGE_BITS) - 1)
    }
}

/// The index of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameIndex(pub u32);

/// The result of [`Cache::find`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a pin that is dropped keeps the page for ever"]
pub enum Found {
    /// The page is there, and pinned.
    Pinned(FrameIndex),
    /// A lane brings it: look again.
    InTransit,
    /// It is not there.
    Absent,
}

/// The result of [`Cache::begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what was begun must end"]
pub enum Begun {
    /// The frame is the caller's. It brings the page, and then calls [`Frame::filled`] or [`Frame::failed`].
    Fill(FrameIndex),
    /// The frame could be had if its page were written. It is pinned, and the caller has begun to write it: it calls [`Frame::end_write`] and
    /// [`Frame::unpin`], and begins again.
    Write(FrameIndex),
    /// Another lane has begun the page: look again.
    Present,
    /// Every frame of the set is in use, or another lane has its lock: begin again later.
    Later,
}

/// A set: the frames among which a page has its place.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Set {
    /// Under which a frame is given to another page, or becomes KEEPABLE. Only tried for, never waited for.
    lock: TicketLock,
    /// Where the clock's hand stands. Under the lock.
    hand: DeviceWord,
    /// Pages that were found.
    pub hits: DeviceWord64,
    /// Pages that were brought.
    pub misses: DeviceWord64,
    /// Pages that had to go for others.
    pub evictions: DeviceWord64,
    /// Pages that were written to their files.
    pub write_backs: DeviceWord64,
    /// Times that a lane found a page in transit, or no frame for it.
    pub waits: DeviceWord64,
}

/// A file that the host mapped. Written by the host while no kernel runs.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Mapping {
    /// Odd while in use; grows with each mapping of this entry.
    pub generation: DeviceWord,
    /// The file's index in the file table.
    pub file: DeviceWord,
    /// Whether lanes may store to its pages.
    pub writable: DeviceWord,
    /// Where its pages have their place.
    places: Places,
}

/// What a [`Cache`] is made of. Whoever has one can do nothing with it but to read it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct CacheParts {
    /// `set_count` sets.
    pub sets: *const Set,
    /// [`WAYS`] frames for each set.
    pub frames: *const Frame,
    /// [`MAPPINGS`] entries, or none where `set_count` is 0.
    pub mappings: *const Mapping,
    /// Address of the first frame's bytes; 0 in a view that does not reach them.
    pub memory: u64,
    /// Sets; 0 for a session without a cache.
    pub set_count: u32,
    /// Bytes of a page: a power of two.
    pub page_bytes: u32,
}

/// The cache of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Cache {
    parts: CacheParts,
}

impl core::ops::Deref for Cache {
    type Target = CacheParts;

    #[inline]
    fn deref(&self) -> &CacheParts {
        &self.parts
    }
}

impl Cache {
    /// The cache of these parts.
    ///
    /// # Safety
    /// Every pointer is valid for as many items as its field says, and `memory` is 0 or the address of [`WAYS`] pages for each set, aligned to
    /// 16 bytes, which nothing else uses, on every device that uses the cache, as long as that is used.
    #[must_use]
    pub const unsafe fn new(parts: CacheParts) -> Self {
        Self { parts }
    }
}

impl Cache {
    /// The sets.
    #[must_use]
    pub const fn sets(&self) -> &[Set] {
        // SAFETY:
        // - valid for `set_count`, by the host's construction
        unsafe { core::slice::from_raw_parts(self.parts.sets, self.parts.set_count as usize) }
    }
    /// The frames.
    #[must_use]
    pub const fn frames(&self) -> &[Frame] {
        // SAFETY:
        // - valid for `WAYS` of each set, by the host's construction
        unsafe { core::slice::from_raw_parts(self.parts.frames, (self.parts.set_count * WAYS) as usize) }
    }
    /// The mappings: none in a session without a cache.
    #[must_use]
    pub const fn mappings(&self) -> &[Mapping] {
        let count = if self.parts.set_count == 0 { 0 } else { MAPPINGS };
        // SAFETY:
        // - valid for `MAPPINGS`, by the host's construction
        unsafe { core::slice::from_raw_parts(self.parts.mappings, count as usize) }
    }
    /// A frame.
    #[must_use]
    pub const fn frame(&self, index: FrameIndex) -> &Frame {
        &self.frames()[index.0 as usize]
    }
    /// The set of a frame.
    #[must_use]
    pub const fn set_of(&self, index: FrameIndex) -> &Set {
        &self.sets()[(index.0 / WAYS) as usize]
    }
    /// The address of a frame's bytes.
    #[must_use]
    pub const fn address(&self, index: FrameIndex) -> u64 {
        self.parts.memory + index.0 as u64 * self.parts.page_bytes as u64
    }
    /// The frame whose bytes an address is of.
    #[must_use]
    pub fn frame_at(&self, address: u64) -> Option<FrameIndex> {
        let (page, frames) = (u64::from(self.parts.page_bytes), u64::from(self.parts.set_count * WAYS));
        let index = address.checked_sub(self.parts.memory).filter(|_| page > 0)? / page;
        u32::try_from(index).ok().filter(|_| index < frames).map(FrameIndex)
    }
    /// The set in which a page has its place.
    fn place(&self, key: Key) -> u32 {
        self.home(key).0 / WAYS
    }
    /// The frame of a page's set that may have it, if one does: a hint.
    fn likely(&self, key: Key) -> Option<(FrameIndex, &Frame)> {
        let layout = self.layout(key);
        let home = layout.home(key).0;
        let ways = if layout.owns(key) { 1 } else { WAYS };
        (0..ways)
            .map(|step| FrameIndex(home / WAYS * WAYS + (home + step) % WAYS))
            .map(|index| (index, self.frame(index)))
            .find(|(_, frame)| frame.key() == key.word())
    }
    fn frames_of(&self, place: u32) -> impl Iterator<Item = (FrameIndex, &Frame)> {
        (place * WAYS..(place + 1) * WAYS).map(|index| (FrameIndex(index), self.frame(FrameIndex(index))))
    }

    /// Looks for a page and pins it for `lanes` lanes. One lane. Waits for nothing.
    pub fn find(&self, key: Key, lanes: u32) -> Found {
        let Some((index, frame)) = self.likely(key) else { return Found::Absent };
        match frame.pin(key, lanes) {
            Pinned::Yes => {
                self.count_hits(key, lanes.into());
                Found::Pinned(index)
            }
            Pinned::InTransit => Found::InTransit,
            // It went meanwhile, and is in no other frame but one that was begun since.
            Pinned::Other => Found::Absent,
        }
    }
    /// What `read` makes of a page's frame and valid bytes, without a pin; `None` where it is not there, or goes meanwhile ([`Frame::glance`]).
    /// One lane. Waits for nothing.
    pub fn glance<R>(&self, key: Key, read: impl FnOnce(FrameIndex, u32) -> R) -> Option<R> {
        let (index, frame) = self.likely(key)?;
        frame.glance(key, |valid| read(index, valid))
    }
    /// Guards a page for `lanes` lanes, if it is there and may be kept, without a pin before: a short way to what [`Cache::find`] and
    /// [`Cache::guard`] do, or `None`. One lane. Waits for nothing ([R-CACHE-5]).
    pub fn keep(&self, key: Key, lanes: u32) -> Option<FrameIndex> {
        let (index, _) = self.likely(key)?;
        if self.join(index, key, lanes) != Guarded::Yes {
            return None;
        }
        self.count_hits(key, lanes.into());
        Some(index)
    }
    /// Guards a page that is in this frame, or was.
    fn join(&self, index: FrameIndex, key: Key, lanes: u32) -> Guarded {
        let frame = self.frame(index);
        match frame.join_guards(lanes) {
            // With a guard it cannot go: it is still the page, or had gone before.
            Joined::Yes if frame.key() == key.word() => Guarded::Yes,
            Joined::Yes => {
                frame.unguard(lanes);
                Guarded::Full
            }
            Joined::Full => Guarded::Full,
            Joined::No => self.mark_and_join(index, key, lanes),
        }
    }
    /// [`Cache::join`], where the frame was not KEEPABLE.
    // Once for a page that stays: apart from what each guard takes.
    #[cold]
    #[inline(never)]
    fn mark_and_join(&self, index: FrameIndex, key: Key, lanes: u32) -> Guarded {
        let frame = self.frame(index);
        // Ends: a count. The lock's holder is marking a frame, this one perhaps.
        for _ in 0..LOCK_TRIES {
            if self.mark(index, key) == Some(false) {
                return Guarded::Full;
            }
            match frame.join_guards(lanes) {
                Joined::Yes if frame.key() == key.word() => return Guarded::Yes,
                Joined::Yes => {
                    frame.unguard(lanes);
                    return Guarded::Full;
                }
                Joined::Full => return Guarded::Full,
                Joined::No => {}
            }
        }
        Guarded::Later
    }
    /// Makes a page's frame KEEPABLE, if it is still the page's: whether it is; `None` where the set's lock is busy.
    fn mark(&self, index: FrameIndex, key: Key) -> Option<bool> {
        let (set, frame) = (self.set_of(index), self.frame(index));
        if !set.lock.try_take() {
            return None;
        }
        // What is READY here stays so until the lock is released.
        let is_there = frame.seen().phase() == Phase::Ready && frame.key() == key.word();
        let marked = is_there && self.mark_locked(index, key);
        set.lock.release();
        Some(marked)
    }
    /// [`Cache::mark`] of a frame that is READY, with the set's lock. As many frames of a set as may be are KEEPABLE; then one that nobody keeps
    /// loses the mark first. No other page wants a frame of the page's own.
    fn mark_locked(&self, index: FrameIndex, key: Key) -> bool {
        let frame = self.frame(index);
        if frame.glimpse().is_keepable() {
            return true;
        }
        let first = index.0 / WAYS * WAYS;
        let others = || (1..WAYS).map(|step| self.frame(FrameIndex(first + (index.0 + step) % WAYS)));
        let marked = others().map(|other| u32::from(other.glimpse().is_keepable())).sum::<u32>();
        let has_room = self.layout(key).owns(key)
            || marked + 1 < WAYS
            || others().any(|other| other.glimpse().is_keepable() && other.end_keepable());
        if has_room {
            frame.make_keepable();
        }
        has_room
    }
    /// Notes that a page is in use that was glanced at, for the clock; a hint.
    #[inline]
    pub fn refer(&self, index: FrameIndex) {
        self.frame(index).refer();
    }
    /// Counts hits of a page.
    pub fn count_hits(&self, key: Key, lanes: u64) {
        self.sets()[self.place(key) as usize].hits.count(lanes);
    }

    /// Counts a wait for a page.
    pub fn count_wait(&self, key: Key) {
        self.sets()[self.place(key) as usize].waits.count(1);
    }

    /// Finds a frame for a page that was absent. One lane. Waits for nothing ([R-CACHE-3]).
    pub fn begin(&self, key: Key) -> Begun {
        let layout = self.layout(key);
        let home = layout.home(key);
        let place = home.0 / WAYS;
        let set = &self.sets()[place as usize];
        let begun = if layout.owns(key) {
            self.begin_own(key, home)
        } else {
            // Where many wait for few frames, most come here in vain: those do not take the lock from the one for whom a frame is free.
            let may_begin = self.frames_of(place).any(|(_, frame)| frame.glimpse().may_be_taken());
            if !may_begin || !set.lock.try_take() {
                return Begun::Later;
            }
            let begun = self.begin_locked(key, home, set);
            set.lock.release();
            begun
        };
        match begun {
            Begun::Fill(_) => set.misses.count(1),
            Begun::Write(_) => set.write_backs.count(1),
            Begun::Present | Begun::Later => {}
        }
        begun
    }
    /// [`Cache::begin`], with the set's lock, of a page that shares its set with others.
    fn begin_locked(&self, key: Key, home: FrameIndex, set: &Set) -> Begun {
        let (place, mut empty) = (home.0 / WAYS, None);
        for (index, frame) in self.frames_of(place) {
            match frame.key() {
                found if found == key.word() => return Begun::Present,
                // An empty home is where it is found soonest; any empty frame is better than a page that has to go.
                0 if empty != Some(home) => empty = Some(index),
                _ => {}
            }
        }
        // One whose page could not be had may be FILLING still: then it is not taken.
        if let Some(index) = empty
            && let Victim::Taken { .. } = self.frame(index).consider(key, true)
        {
            return Begun::Fill(index);
        }
        let mut dirty = None;
        // Twice round the clock: what was used lately is spared once.
        for step in 0..2 * WAYS {
            // ORDERING: relaxed: under the lock.
            let hand = set.hand.peek();
            set.hand.set((hand + 1) % WAYS);
            let index = FrameIndex(place * WAYS + hand);
            match self.frame(index).consider(key, step < WAYS) {
                Victim::Taken { evicted } => {
                    if evicted {
                        set.evictions.count(1);
                    }
                    return Begun::Fill(index);
                }
                Victim::Dirty => dirty = dirty.or(Some(index)),
                Victim::No => {}
            }
        }
        let Some(index) = dirty else { return Begun::Later };
        let frame = self.frame(index);
        if !frame.pin_victim() {
            return Begun::Later;
        }
        if frame.begin_write() == Write::Begun {
            return Begun::Write(index);
        }
        frame.unpin(1);
        Begun::Later
    }

    /// Makes pins of `lanes` lanes guards, which they may keep whatever they wait for; whether they are now, or the set's lock was busy. One
    /// lane. Waits for nothing ([R-CACHE-5]).
    pub fn guard(&self, index: FrameIndex, lanes: u32) -> Guarded {
        let frame = self.frame(index);
        let Some(key) = Key::from_word(frame.key()) else { return Guarded::Full };
        let guarded = self.join(index, key, lanes);
        if guarded == Guarded::Yes {
            frame.unpin(lanes);
        }
        guarded
    }

    /// Ends what lanes that are gone had begun. No kernel runs.
    pub fn let_go(&self) {
        for set in self.sets() {
            set.lock.reset();
        }
        for frame in self.frames() {
            frame.let_go();
        }
    }
    /// Forgets what is in some frames. No kernel runs.
    pub fn forget_frames(&self, frames: Range<u32>) {
        for index in frames {
            self.frame(FrameIndex(index)).forget();
        }
    }
    /// Forgets the pages of a mapping. No kernel runs.
    pub fn forget(&self, mapping: u32) {
        for frame in self.frames() {
            if Key::from_word(frame.key()).is_some_and(|key| key.mapping() == mapping) {
                frame.forget();
            }
        }
    }
}

/// The result of [`Cache::guard`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a guard that is dropped keeps the page for ever"]
pub enum Guarded {
    /// The pins are guards now.
    Yes,
    /// The set has as many guarded frames as it may have, or the frame as many guards. The pins are still there.
    Full,
    /// The set's lock was busy. The pins are still there.
    Later,
}
