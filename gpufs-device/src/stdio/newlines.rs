//! Where lines end (stage 3): a warp's lanes look at a stretch of text side by side, in aligned words, several on their way at once.
//!
//! A *window* is [`WORDS`] words a lane: the `j`th word of the lane of rank `r` is word `j · lanes + r`, so that neighbours load
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
    /// Stores them at the same place of the window that begins at `address`, a multiple of 16.
    ///
    /// # Safety
    /// The words of 16 bytes that hold the first `end` bytes there are the caller's to write.
    pub(super) unsafe fn store(&self, lanes: Lanes, address: u64, end: u64) {
        for (round, word) in (0..).zip(self.0) {
            let at = place(lanes, round);
            if at < end {
                // SAFETY:
                // - this function's contract; aligned
                unsafe { ((address + at) as *mut u128).write(word) };
            }
        }
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

    /// The newlines in a window's words, of which `length` bytes (at least 1) behind the first `skip` are text. Convergent, as
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

    /// Calls `each` with the number of every newline that this lane found, and where the text goes on behind it. Any lane.
    pub(super) fn for_each_own(&self, mut each: impl FnMut(u32, u64)) {
        let mut earlier = 0;
        for round in 0..WORDS {
            let mut number = earlier + part(self.before, round);
            let mut marks = part(self.marks, round);
            while marks != 0 {
                let byte = u64::from(marks.trailing_zeros());
                each(number, place(self.lanes, round as u64) + byte + 1 - self.skip);
                number += 1;
                marks &= marks - 1;
            }
            earlier += part(self.totals, round);
        }
    }

    /// How many newlines there are.
    pub(super) fn count(&self) -> u32 {
        (0..WORDS).map(|round| part(self.totals, round)).sum()
    }

    /// Where the text goes on behind newline number `number`, which may be another in each lane: `None` where there are not so many.
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

/// The newlines of a word: bit `i` stands for byte `i`.
#[allow(clippy::cast_possible_truncation, reason = "the two halves")]
fn newlines(word: u128) -> u64 {
    newlines_of_half(word as u64) | newlines_of_half((word >> 64) as u64) << 8
}

/// [`newlines`] of eight bytes.
fn newlines_of_half(half: u64) -> u64 {
    const LOW: u64 = u64::MAX / 0xff;
    const REST: u64 = LOW * 0x7f;
    let other = half ^ (LOW * u64::from(NEWLINE));
    // The highest bit of each byte that is a newline, and no other: nothing is carried from byte to byte.
    let high = !(((other & REST) + REST) | other | REST);
    // Byte `i`'s bit, now at 8 i, goes to 56 + i by the factor's 7 (8 − i); no two come to the same place.
    (high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
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
