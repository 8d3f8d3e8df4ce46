//! Where lines end (stage 3), in aligned words, several on their way at once. In a text that is read ahead each lane looks at a stretch of
//! its own ([`note_ends`]). In one that is read under the lock a warp's lanes look at a *window* side by side.
//!
//! A window is [`WORDS`] words a lane: the `j`th word of the lane of rank `r` is word `j · lanes + r`, so that neighbours load
//! neighbouring words. Its newlines are numbered in the order of the text. To know where the `k`th is, a lane needs the number of
//! newlines in earlier words, which one scan gives for all words of a lane, since four such numbers fit a shuffled word.
#![allow(unsafe_code, reason = "loads words of a buffer")]

use super::lines::NEWLINE;
use crate::warp::{LaneMask, Lanes};

/// Bytes of a word.
const WORD: u64 = 16;
/// Words of a lane in a window. 16 bits for each fit the 64 that a shuffle moves.
const WORDS: usize = 4;
/// Of a lane's [`Window::marks`] and [`Window::before`]: the bits of one word's part.
const PART: u64 = (1 << PART_BITS) - 1;
const PART_BITS: usize = 16;

/// The newlines in the first bytes of a text, as the lanes found them together.
#[derive(Clone, Copy)]
pub(super) struct Window {
    lanes: Lanes,
    /// Bytes of the first word that lie before the text.
    skip: u64,
    /// This lane's newlines: bit `16 j + i` stands for byte `i` of its `j`th word.
    marks: u64,
    /// In part `j`: newlines in all lanes' `j`th words of lower rank than this lane's. At most 64 · 16.
    before: u64,
    /// In part `j`: newlines in all lanes' `j`th words. At most 64 · 16.
    totals: u64,
    /// Bytes of the text that were looked at: at least 1.
    pub(super) bytes: u64,
}

/// The words of a window that a lane looks at.
#[derive(Clone, Copy)]
pub(super) struct Words([u128; WORDS]);

impl Words {
    /// Loads this lane's words of the window that begins at `address`, a multiple of 16, as far as they lie in the first `end` bytes.
    ///
    /// # Safety
    /// The words of 16 bytes that hold those bytes can be read, and nobody writes the bytes meanwhile.
    pub(super) unsafe fn load(lanes: Lanes, address: u64, end: u64) -> Self {
        let mut words = [0; WORDS];
        for (round, word) in (0..).zip(&mut words) {
            let at = place(lanes, round);
            if at < end {
                // SAFETY:
                // - this function's contract: the word holds some of the bytes; aligned
                *word = unsafe { ((address + at) as *const u128).read() };
            }
        }
        Self(words)
    }
}

/// Where a lane's word of a round lies in a window.
fn place(lanes: Lanes, round: u64) -> u64 {
    (round * u64::from(lanes.count()) + u64::from(lanes.rank())) * WORD
}

impl Window {
    /// Bytes from one window to the next.
    pub(super) fn step(lanes: Lanes) -> u64 {
        WORDS as u64 * u64::from(lanes.count()) * WORD
    }

    /// Looks at as much of the `length` bytes (at least 1) from `address` on as a window holds. Convergent; called by `lanes`, with the same
    /// values; of meaning in all.
    ///
    /// # Safety
    /// As [`Words::load`].
    pub(super) unsafe fn new(lanes: Lanes, address: u64, length: u64) -> Self {
        let skip = address % WORD;
        // SAFETY:
        // - this function's contract
        let words = unsafe { Words::load(lanes, address - skip, skip + length) };
        Self::of(lanes, words, skip, length)
    }

    /// The newlines in a window's words, of which `length` bytes (at least 1) after the first `skip` are text. Convergent, as
    /// [`Window::new`].
    pub(super) fn of(lanes: Lanes, words: Words, skip: u64, length: u64) -> Self {
        let end = skip + length;
        let (mut marks, mut counts) = (0, 0);
        for (round, word) in (0..).zip(words.0) {
            let start = place(lanes, round);
            // Bytes of the word from `skip` on and below `end`.
            let inside = below(end.saturating_sub(start)) & !below(skip.saturating_sub(start));
            let found = newlines(word) & inside;
            #[allow(clippy::cast_possible_truncation, reason = "below WORDS")]
            let shift = round as usize * PART_BITS;
            marks |= found << shift;
            counts |= u64::from(found.count_ones()) << shift;
        }
        let before = lanes.scan(counts);
        let totals = lanes.broadcast(before + counts, lanes.mask().last());
        let bytes = (Self::step(lanes) - skip).min(length);
        Self { lanes, skip, marks, before, totals, bytes }
    }

    /// How many newlines there are.
    pub(super) fn count(&self) -> u32 {
        (0..WORDS).map(|round| part(self.totals, round)).sum()
    }

    /// Where the text goes on after newline number `number`, which may be another in each lane: `None` where there are fewer.
    /// Convergent; called by the window's lanes.
    pub(super) fn end_of(&self, number: u32) -> Option<u64> {
        let lanes = self.lanes;
        let (mut round, mut left, mut found) = (0, number, false);
        for candidate in 0..WORDS {
            let total = part(self.totals, candidate);
            if !found && left < total {
                (round, found) = (candidate, true);
            } else if !found {
                left -= total;
            }
        }
        // The highest rank with no more than `left` newlines before its word has the newline in it.
        let mut rank = 0;
        let mut before = 0;
        let mut step = lanes.count().next_power_of_two() / 2;
        // Ends: `step` does.
        while step > 0 {
            let candidate = (rank + step).min(lanes.count() - 1);
            let there = part(lanes.shuffle(self.before, lanes.mask().nth(candidate)), round);
            if there <= left {
                (rank, before) = (candidate, there);
            }
            step /= 2;
        }
        let marks = lanes.shuffle(self.marks, lanes.mask().nth(rank));
        let marks = LaneMask(marks >> (round * PART_BITS) & PART);
        found.then(|| {
            let byte = u64::from(marks.nth(left - before));
            (round as u64 * u64::from(lanes.count()) + u64::from(rank)) * WORD + byte + 1 - self.skip
        })
    }
}

/// The part of one of a lane's words.
#[allow(clippy::cast_possible_truncation, reason = "16 bits")]
fn part(parts: u64, round: usize) -> u32 {
    (parts >> (round * PART_BITS) & PART) as u32
}

/// The lowest `count` bits of a word's sixteen.
fn below(count: u64) -> u64 {
    (1 << count.min(WORD)) - 1
}

/// Where the lines of a text end.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    /// How many end in it.
    pub(super) count: u32,
    /// Where the last of them does.
    pub(super) tail: u32,
    /// Whether one of them, but for the first, is longer than was asked.
    pub(super) too_long: bool,
}

/// Two words, whose newlines are the bits of one number.
pub(super) const PAIR: u64 = 2 * WORD;
/// Pairs of a lane that are on their way at once.
const AT_ONCE: u64 = 4;

/// Notes at `ends` where the lines of a `text` end, an address and a length below 2³²: the first `most_lines` of them, whether there are more
/// or not. Looks whether a line that begins in the text is longer than `most`. Each lane looks at a stretch of its own, once to count, and
/// once more when it knows how many there are before. Convergent; called by `lanes`, with the same values.
///
/// # Safety
/// `text` can be read in whole pairs of words, to which it is aligned, and at `ends` there is room for `most_lines` numbers of four bytes;
/// nobody else touches them. Others see the ends after the next barrier.
// A function of its own, so that its loops have the registers for themselves.
#[inline(never)]
pub(super) unsafe fn note_ends(
    lanes: Lanes,
    text: (u64, u64),
    ends: u64,
    (most_lines, most): (u32, u32),
) -> Ends {
    let share = text.1.div_ceil(PAIR).div_ceil(u64::from(lanes.count()));
    let first = u64::from(lanes.rank()) * share;
    let mut count = 0;
    // SAFETY:
    // - this function's contract
    unsafe {
        for_each_pair(text, (first, first + share), |_, words, within| {
            count += if within == u32::MAX {
                count_newlines(words)
            } else {
                (marks_of(words) & within).count_ones()
            };
        });
    }
    let before = lanes.scan(u64::from(count));
    #[allow(clippy::cast_possible_truncation, reason = "no more than there are bytes")]
    let (mut number, all) =
        (before as u32, lanes.broadcast(before + u64::from(count), lanes.mask().last()) as u32);
    // Where the lane's first line ends, and its last one so far; 0: none.
    let (mut first_end, mut last_end, mut too_long) = (0, 0, false);
    // SAFETY:
    // - this function's contract
    unsafe {
        for_each_pair(text, (first, first + share), |at, words, within| {
            let mut marks = marks_of(words) & within;
            // Ends: a mark a round.
            while marks != 0 {
                #[allow(clippy::cast_possible_truncation, reason = "below 2³²")]
                let end = (at * PAIR) as u32 + marks.trailing_zeros() + 1;
                too_long |= last_end != 0 && end - last_end > most;
                first_end = if first_end == 0 { end } else { first_end };
                last_end = end;
                if number < most_lines {
                    // SAFETY:
                    // - this function's contract; the number is this newline's alone
                    (ends as *mut u32).add(number as usize).write(end);
                }
                number += 1;
                marks &= marks - 1;
            }
        });
    }
    // Across stretches.
    let with_ends = lanes.ballot(first_end != 0);
    let earlier = LaneMask(with_ends.0 & ((1 << lanes.lane()) - 1));
    let neighbour = if earlier.is_empty() { lanes.lane() } else { earlier.last() };
    #[allow(clippy::cast_possible_truncation, reason = "below 2³²")]
    let their_end = lanes.shuffle(u64::from(last_end), neighbour) as u32;
    too_long |= !earlier.is_empty() && first_end != 0 && first_end - their_end > most;
    let last = if with_ends.is_empty() { lanes.leader() } else { with_ends.last() };
    let tail = lanes.broadcast(last_end, last);
    Ends { count: all, tail, too_long: lanes.any(too_long) }
}

/// Calls `each` with the number of each pair of words of a stretch, as far as it lies in the text, the words, and which of their bytes do.
///
/// # Safety
/// The pairs can be read; aligned; nobody writes them meanwhile.
#[inline]
pub(super) unsafe fn for_each_pair(
    (text, bytes): (u64, u64),
    (from, to): (u64, u64),
    mut each: impl FnMut(u64, [u128; 2], u32),
) {
    // SAFETY:
    // - this function's contract
    let read = |at: u64| unsafe { ((text + at * PAIR) as *const [u128; 2]).read() };
    let (mut at, whole) = (from, to.min(bytes / PAIR));
    // Ends: `at` grows.
    while at + AT_ONCE <= whole {
        // Written out: an array of them would be kept in memory.
        let (first, second, third, fourth) = (read(at), read(at + 1), read(at + 2), read(at + 3));
        each(at, first, u32::MAX);
        each(at + 1, second, u32::MAX);
        each(at + 2, third, u32::MAX);
        each(at + 3, fourth, u32::MAX);
        at += AT_ONCE;
    }
    while at < whole {
        each(at, read(at), u32::MAX);
        at += 1;
    }
    // What is left behind whole pairs.
    if at < to && bytes > at * PAIR {
        each(at, read(at), (1 << (bytes - at * PAIR)) - 1);
    }
}

/// The newlines of two words: bit `i` stands for byte `i`.
#[allow(clippy::cast_possible_truncation, reason = "16 bits each")]
fn marks_of(words: [u128; 2]) -> u32 {
    newlines(words[0]) as u32 | (newlines(words[1]) as u32) << 16
}

/// How many newlines there are in two words.
fn count_newlines(words: [u128; 2]) -> u32 {
    words.into_iter().flat_map(quarters).map(|quarter| high_bits(quarter).count_ones()).sum()
}

/// The newlines of a word: bit `i` stands for byte `i`.
fn newlines(word: u128) -> u64 {
    // The highest bits, at 8 i + 7, go to 28 + i by the factor's 21 − 7 i; no two come to the same place.
    let nibble = |quarter| high_bits(quarter).wrapping_mul(0x0020_4081) >> 28;
    let [first, second, third, fourth] = quarters(word).map(nibble);
    u64::from(first | second << 4 | third << 8 | fourth << 12)
}

/// A word's four parts, the lowest first: GPUs count in 32 bits.
#[allow(clippy::cast_possible_truncation, reason = "the parts")]
pub(super) fn quarters(word: u128) -> [u32; 4] {
    [word as u32, (word >> 32) as u32, (word >> 64) as u32, (word >> 96) as u32]
}

/// The highest bit of each byte that is a newline, and no other.
fn high_bits(quarter: u32) -> u32 {
    const LOW: u32 = u32::MAX / 0xff;
    const REST: u32 = LOW * 0x7f;
    let other = quarter ^ (LOW * u32::from(NEWLINE));
    // Nothing is carried from byte to byte.
    !(((other & REST) + REST) | other | REST)
}

#[cfg(test)]
mod tests {
    use super::{newlines, part};

    #[test]
    fn a_words_newlines() {
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let bytes: [u8; 16] = core::array::from_fn(|_| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                [b'\n', b'\n', 0x0b, 0x09, 0x8a, 0, 0xff, (state >> 40) as u8][(state >> 60) as usize % 8]
            });
            let wanted = (0..16).filter(|at| bytes[*at] == b'\n').fold(0, |marks, at| marks | 1 << at);
            assert_eq!(newlines(u128::from_le_bytes(bytes)), wanted, "{bytes:x?}");
        }
    }

    #[test]
    fn parts() {
        assert_eq!([0, 1, 2, 3].map(|round| part(0x0400_0003_0002_0001, round)), [1, 2, 3, 0x400]);
    }
}
