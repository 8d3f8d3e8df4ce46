//! Pieces: where a writer's events wait until there are many ([R-TRACE-1] to [R-TRACE-4] of the [protocol](crate::protocol::traces)).
//!
//! A call that writes into a stream shares its words with all other writers. One that writes an event into a piece of its writer's own
//! touches no word of others. A piece is a run of pages in host memory, so that its events outlive the device:
//!
//! ```text
//! 0        8            16                                                           the run's end
//! stream   told         events that are in the stream already   events   zeros …
//!                       ▲                                       ▲        ▲
//!                       16                                      start    end
//! ```
//!
//! Whole packets are words of 8 bytes none of which is 0, so that who finds a piece without its owner knows how far they go.
#![expect(unsafe_code, reason = "memory and words behind pointers that the host made")]

use crate::alloc::{BufferPool, Claim};
use crate::trace::WORD_BYTES;
use crate::word::{DeviceWord64, SharedWord64};

/// Bytes of a page of pieces.
pub const PAGE_BYTES: u32 = 1024;
/// Pages of a piece at most: what all lanes of a warp write in forty calls or so.
const PAGES_MAX: u32 = 32;
/// Bytes before a piece's events.
pub const HEAD_BYTES: u32 = 16;

/// What a piece's owner knows of it: in device memory, at the index of its first page. Where the device has memory of its own, the host does
/// not see it.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct PieceWords {
    /// Who owns it, as the device tells callers apart; 0 for nobody.
    owner: DeviceWord64,
    /// Of which stream: [`stream_word`].
    stream: DeviceWord64,
    /// Where in the piece the events begin that are not in the stream, where they end, and the pages.
    ///
    /// ```text
    /// 63 … 32   31 … 16   15 … 0
    /// pages     start     end
    /// ```
    place: DeviceWord64,
}

impl PieceWords {
    /// Whose the piece is, and where its events are; `None` if it is of another stream. The owner, and lanes that call together with it; what others
    /// get tells no more than that they are others.
    #[inline]
    #[must_use]
    pub fn place(&self, stream: u64) -> Option<(u64, Place)> {
        let (owner, of, place) = (self.owner.peek_own(), self.stream.peek_own(), self.place.peek_own());
        (of == stream).then(|| (owner, Place::from_word(place)))
    }
    /// Makes the piece that of a recorder of its owner, who calls: nobody's, as other calls see it. `mark` is no owner's number.
    #[inline]
    pub fn lend(&self, mark: u64) {
        self.owner.set_own(mark);
    }
    /// Whether it is lent, with this mark.
    #[must_use]
    pub fn is_lent(&self, mark: u64) -> bool {
        self.owner.peek_own() == mark
    }
    /// The place of a piece that is lent, by its owner or lanes that have met it: its end is as it was when it was lent, or emptied since.
    #[must_use]
    pub fn lent(&self) -> Place {
        Place::from_word(self.place.peek_own())
    }
    /// Makes a piece that was lent its `owner`'s again, who calls.
    pub fn take_back(&self, owner: u64, place: Place) {
        self.place.set_own(place.to_word());
        self.owner.set_own(owner);
    }
    /// Moves the place of the caller's piece, behind whose end all is zero.
    #[inline]
    pub fn set(&self, place: Place) {
        self.place.set_own(place.to_word());
    }
}

/// A stream as a piece names it: its index and 1, and its generation above; never 0.
#[inline]
#[must_use]
pub const fn stream_word(index: u32, generation: u32) -> u64 {
    (generation as u64) << 32 | (index + 1) as u64
}

/// Where the events of a piece are that are not in the stream yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where they begin, from the piece's beginning on.
    pub start: u32,
    /// Where they end.
    pub end: u32,
    /// Where the piece ends.
    pub limit: u32,
}

impl Place {
    /// As a word, which is never all ones.
    #[inline]
    #[must_use]
    pub const fn to_word(self) -> u64 {
        ((self.limit / PAGE_BYTES) as u64) << 32 | (self.start as u64) << 16 | self.end as u64
    }
    /// The place of a word. Whatever the word is, the place ends within 63 pages.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the parts")]
    pub const fn from_word(word: u64) -> Self {
        let pages = (word >> 32) as u32 & 0x3f;
        Self { start: (word >> 16) as u32 & 0xffff, end: word as u32 & 0xffff, limit: pages * PAGE_BYTES }
    }
    /// Nothing, in a piece that ends there.
    #[must_use]
    pub const fn empty(limit: u32) -> Self {
        Self { start: HEAD_BYTES, end: HEAD_BYTES, limit }
    }
    /// Whether all events are in the stream.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// What a [`Pieces`] is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct PiecesParts {
    /// The pages. `base` is 0 where there are none.
    pub pages: BufferPool,
    /// As many as pages; null in a view that does not reach them.
    pub words: *const PieceWords,
    /// Pages.
    pub count: u32,
}

/// The pieces of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Pieces {
    parts: PiecesParts,
}

/// A piece as its memory tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its first page.
    pub piece: u32,
    /// [`stream_word`].
    pub stream: u64,
    /// The stream's descriptor.
    pub descriptor: i32,
    /// From where on its events are not in the stream.
    pub start: u32,
    /// Where it ends.
    pub limit: u32,
}

/// The second word of a head.
///
/// ```text
/// 63 … 48   47 … 32   31 … 0
/// pages     start     descriptor
/// ```
const fn told(descriptor: u32, place: Place) -> u64 {
    descriptor as u64 | (place.start as u64) << 32 | ((place.limit / PAGE_BYTES) as u64) << 48
}

impl Pieces {
    /// The pieces of these parts.
    ///
    /// # Safety
    /// `words` points to `count` items or is null, and the pool has as many buffers of [`PAGE_BYTES`], or `count` is 0; all stay valid on every
    /// device that uses them, as long as they are used.
    #[must_use]
    pub const unsafe fn new(parts: PiecesParts) -> Self {
        Self { parts }
    }

    /// What a piece's owner knows of it; `None` where there is no such piece, or none in this view.
    #[inline]
    #[must_use]
    pub fn words(&self, piece: u32) -> Option<&PieceWords> {
        if piece >= self.parts.count || self.parts.words.is_null() {
            return None;
        }
        let words = self.parts.words.wrapping_add(piece as usize);
        // SAFETY:
        // - one of `count` items, by the host's construction
        Some(unsafe { &*words })
    }
    /// Where a piece begins, below the number of pages.
    #[inline]
    #[must_use]
    pub const fn address(&self, piece: u32) -> u64 {
        self.parts.pages.address(piece)
    }
    /// A word of a piece: of its head the first two.
    fn word(&self, piece: u32, word: u64) -> &SharedWord64 {
        assert!(piece < self.parts.count, "a page of pieces");
        // SAFETY:
        // - one of a piece's words, by the host's construction, or of the first of a page; shared by design
        unsafe { &*((self.address(piece) + word * size_of::<SharedWord64>() as u64) as *const SharedWord64) }
    }

    /// A piece for one of `writers`; `None` if there is none, or if the share of each is none. One lane, which then calls [`Pieces::begin`].
    /// Waits for nothing.
    #[must_use]
    pub fn claim(&self, hint: u32, writers: u64) -> Option<(u32, Place)> {
        let share = u32::try_from(u64::from(self.parts.count) / writers.max(1)).unwrap_or(u32::MAX);
        if share == 0 {
            return None;
        }
        let length = 1 << share.min(PAGES_MAX).ilog2();
        let claim = self.parts.pages.free.claim_run(length, hint)?;
        Some((claim.item(0), Place::empty(length * PAGE_BYTES)))
    }
    /// Makes a claimed piece `owner`'s, who calls, for a stream.
    pub fn begin(&self, piece: u32, place: Place, owner: u64, (stream, descriptor): (u64, i32)) {
        // ORDERING: relaxed: published by the next.
        self.word(piece, 1).set(told(descriptor.cast_unsigned(), place));
        // ORDERING: release, system, partner the host: the other word comes before.
        self.word(piece, 0).publish(stream);
        if let Some(words) = self.words(piece) {
            words.stream.set_own(stream);
            words.place.set_own(place.to_word());
            words.owner.set_own(owner);
        }
    }
    /// [`PieceWords::set`].
    pub fn set(&self, piece: u32, place: Place) {
        if let Some(words) = self.words(piece) {
            words.set(place);
        }
    }
    /// Tells the host from where on the events of the caller's piece are not in the stream.
    pub fn tell(&self, piece: u32, place: Place) {
        let told_before = self.word(piece, 1);
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        // ORDERING: relaxed: the owner's own word; release, system, partner the host: what was written before.
        told_before.publish(told(told_before.peek() as u32, place));
    }
    /// Gives the caller's piece back, of zeros behind its head.
    pub fn release(&self, piece: u32, place: Place) {
        if let Some(words) = self.words(piece) {
            words.owner.set_own(0);
        }
        // ORDERING: relaxed: the release below publishes it to the next owner.
        self.word(piece, 0).set(0);
        self.parts.pages.free.release(Claim::run(piece, place.limit / PAGE_BYTES));
    }

    /// Whether every page is free. While no kernel runs.
    #[must_use]
    pub fn all_free(&self) -> bool {
        self.parts.pages.free.free() == self.parts.count
    }
    /// The pieces that have an owner, as their memory tells. While no kernel runs, or of a device that is dead, which may have written anything
    /// there: a piece lies within the pages.
    pub fn found(&self) -> impl Iterator<Item = Found> {
        let mut next = 0;
        core::iter::from_fn(move || {
            // Ends: over the pages.
            while next < self.parts.count {
                let piece = next;
                // ORDERING: acquire, system, partner `begin` and `tell`.
                let (stream, told) = (self.word(piece, 0).observe(), self.word(piece, 1).observe());
                #[expect(clippy::cast_possible_truncation, reason = "the parts")]
                let (pages, start, descriptor) =
                    ((told >> 48) as u32, (told >> 32) as u32 & 0xffff, told as u32);
                let pages = pages.clamp(1, PAGES_MAX).min(self.parts.count - piece);
                next += 1;
                if stream != 0 {
                    next += pages - 1;
                    let (limit, descriptor) = (pages * PAGE_BYTES, descriptor.cast_signed());
                    let start = start.clamp(HEAD_BYTES, limit).next_multiple_of(WORD_BYTES as u32);
                    return Some(Found { piece, stream, descriptor, start, limit });
                }
            }
            None
        })
    }
    /// The words of a piece from `start` on, as they are now.
    pub fn words_of(&self, found: Found) -> impl Iterator<Item = u64> {
        let words = found.start / WORD_BYTES as u32..found.limit / WORD_BYTES as u32;
        // ORDERING: relaxed: no kernel runs, or a packet that is not whole is not taken.
        words.map(move |word| self.word(found.piece, word.into()).peek())
    }
    /// Leaves a piece nobody's whose first events are in the stream now; `start` is where the others begin. While no kernel runs.
    pub fn keep(&self, found: Found, start: u32) {
        if let Some(words) = self.words(found.piece) {
            words.owner.set(0);
        }
        self.tell(found.piece, Place { start, end: start, limit: found.limit });
    }
    /// Makes zeros of a piece, and frees its pages. While no kernel runs.
    pub fn give_back(&self, found: Found) {
        for word in 0..u64::from(found.limit) / WORD_BYTES as u64 {
            // ORDERING: relaxed: no kernel runs.
            self.word(found.piece, word).set(0);
        }
        if let Some(words) = self.words(found.piece) {
            words.owner.set(0);
        }
        self.parts.pages.free.release(Claim::run(found.piece, found.limit / PAGE_BYTES));
    }
    /// Makes all pages free. Of a new session.
    pub fn free_all(&self) {
        self.parts.pages.free.release_all(self.parts.count);
    }
}

/// Bytes of the packet that begins with this word; `None` if none does.
fn packet_bytes(first: u64) -> Option<usize> {
    let [tag, low, high, ..] = first.to_le_bytes();
    let length = if low & 0x80 == 0 {
        2 + usize::from(low)
    } else {
        3 + (usize::from(low & 0x7f) | usize::from(high) << 7)
    };
    (tag == 0x0a && high_ends(low, high) && length.is_multiple_of(WORD_BYTES)).then_some(length)
}
/// Whether a length has no third byte.
const fn high_ends(low: u8, high: u8) -> bool {
    low & 0x80 == 0 || high & 0x80 == 0
}

/// Bytes of the whole packets that words begin with: up to the first packet that has a word of 0.
#[must_use]
pub fn whole_bytes(words: &[u64]) -> usize {
    let mut whole = 0;
    // Ends: a packet has words.
    while let Some(first) = words.get(whole) {
        let end = packet_bytes(*first).map(|bytes| whole + bytes / WORD_BYTES);
        match end {
            Some(end) if words.get(whole..end).is_some_and(|packet| !packet.contains(&0)) => whole = end,
            _ => break,
        }
    }
    whole * WORD_BYTES
}

/// Bytes of the packet that is cut at the end of a part of a trace, or 0. The part may begin within a packet: where packets follow each other up to
/// the end, they begin. Of what is no trace nothing is cut.
#[must_use]
pub fn cut_bytes(words: &[u64]) -> usize {
    /// Words of the longest packet that the library writes, and more.
    const LONGEST: usize = 64;
    // Ends: a packet has words.
    let end_from = |first: usize| {
        let mut at = first;
        while at < words.len() {
            let end = at + packet_bytes(words[at])? / WORD_BYTES;
            if end > words.len() {
                return Some((words.len() - at) * WORD_BYTES);
            }
            at = end;
        }
        Some(0)
    };
    (0..LONGEST.min(words.len())).find_map(end_from).unwrap_or(0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::trace::{Encoded, Event, Kind, Value};

    /// Events of several lengths, in words, and how many words each has.
    fn events() -> (Vec<u64>, Vec<usize>) {
        let values = [Value::Unsigned(7), Value::Signed(-1), Value::Real(0.0), Value::Unsigned(u64::MAX)];
        let (mut words, mut lengths) = (Vec::new(), Vec::new());
        for number in 0..100_usize {
            let some = &values[..number % 5];
            let event = Event {
                kind: Kind::Instant,
                name: 77,
                track: None,
                value_names: &[1, 2, 3, 4][..some.len()],
                values: some,
            };
            let before = words.len();
            Encoded::new(3, 1 << 40 | number as u64, event).each_word(|_, word| words.push(word));
            lengths.push((words.len() - before) * WORD_BYTES);
        }
        (words, lengths)
    }

    #[test]
    fn whole_packets_end_before_the_first_zero() {
        let (words, lengths) = events();
        assert!(!words.contains(&0));
        let mut zeroed = words.clone();
        zeroed.extend([0; 5]);
        assert_eq!(whole_bytes(&zeroed), words.len() * WORD_BYTES);
        for at in 0..words.len() {
            let mut zeroed = words.clone();
            zeroed[at] = 0;
            let mut whole = 0;
            for length in &lengths {
                if whole + length > at * WORD_BYTES {
                    break;
                }
                whole += length;
            }
            assert_eq!(whole_bytes(&zeroed), whole, "{at}");
        }
        assert_eq!(whole_bytes(&[]), 0);
        assert_eq!(whole_bytes(&[0x0a]), 0, "a length of nothing is no packet of words");
        assert_eq!(whole_bytes(&[u64::from_le_bytes(*b"no trace"), 1, 2]), 0);
    }

    #[test]
    fn what_is_cut_is_found_wherever_a_part_begins() {
        let (words, lengths) = events();
        let starts: Vec<usize> = lengths
            .iter()
            .scan(0, |start, length| {
                *start += length;
                Some((*start - length) / WORD_BYTES)
            })
            .collect();
        for end in 40..words.len() {
            let begun = starts.iter().rev().find(|start| **start < end).unwrap();
            let next = starts.iter().find(|start| **start >= end);
            let cut = if next == Some(&end) { 0 } else { (end - begun) * WORD_BYTES };
            for first in 0..20 {
                assert_eq!(cut_bytes(&words[first..end]), cut, "{first} {end}");
            }
        }
        assert_eq!(cut_bytes(&[u64::from_le_bytes(*b"no trace"); 100]), 0);
        assert_eq!(cut_bytes(&[]), 0);
    }

    #[test]
    fn a_place_comes_back() {
        for (start, end, limit) in
            [(16, 16, 1024), (24, 16_384, 16_384), (24, 32_768, PAGES_MAX * PAGE_BYTES), (8192, 8192, 8192)]
        {
            let place = Place { start, end, limit };
            assert_eq!(Place::from_word(place.to_word()), place);
        }
        assert!(Place::from_word(u64::MAX - 1).limit <= 63 * PAGE_BYTES);
        assert!(Place::empty(1024).is_empty());
    }
}
