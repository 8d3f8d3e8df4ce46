//! Searches a text for bytes as is fastest for a GPU's lane: by aligned words of 16 bytes, several loads in flight, no tables or vectors.
//!
//! Each lane has a slice of its own. No lane waits for another before all have read their slices, and a CPU can use the same slices.
#![expect(unsafe_code, reason = "loads aligned words of a text")]

use super::needle::COMPARED;

/// Bytes of a word.
const WORD: usize = 16;
/// Words that are loaded before the first is compared.
const AT_ONCE: usize = 4;
/// The lower seven bits of each byte.
const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// `byte` in each byte of a half word.
const fn repeated(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// The highest bit of each byte of `half` that is the byte repeated in `wanted`; no other bit. Exact: nothing is carried from byte to byte.
const fn equal(half: u64, wanted: u64) -> u64 {
    let differs = half ^ wanted;
    !(((differs & LOW) + LOW) | differs | LOW)
}

/// A word as two halves, the lower one first.
#[derive(Clone, Copy, Default)]
struct Word([u64; 2]);

impl Word {
    /// The word at `at`, where it is aligned.
    ///
    /// # Safety
    /// The text contains the whole word, and `at` is the result of [`aligned_from`], or whole words after it.
    #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
    unsafe fn load(text: &[u8], at: usize) -> Self {
        // SAFETY:
        // - in bounds and aligned, by this function's contract; any bytes are a number
        let word = unsafe { text.as_ptr().add(at).cast::<u128>().read() };
        // Little-endian, as all devices are: the lower half comes first.
        Self([word as u64, (word >> 64) as u64])
    }
    /// [`equal`] of both halves.
    const fn marks(self, wanted: u64) -> [u64; 2] {
        [equal(self.0[0], wanted), equal(self.0[1], wanted)]
    }
}

/// Where the first aligned word of a text begins; its length if that is less.
fn aligned_from(text: &[u8]) -> usize {
    (text.as_ptr().addr().wrapping_neg() % WORD).min(text.len())
}

/// Calls `each` with the words of a text from `from` on, several at a time, until it returns `false`; returns where it ended.
#[inline]
fn words(text: &[u8], from: usize, mut each: impl FnMut(usize, &[Word]) -> bool) -> usize {
    let mut at = from;
    // Ends: `at` grows.
    while at + AT_ONCE * WORD <= text.len() {
        let mut several = [Word::default(); AT_ONCE];
        for (index, word) in several.iter_mut().enumerate() {
            // SAFETY:
            // - in bounds by the loop's condition, and whole words after the first aligned one
            *word = unsafe { Word::load(text, at + index * WORD) };
        }
        if !each(at, &several) {
            return at;
        }
        at += AT_ONCE * WORD;
    }
    // Ends: as above.
    while at + WORD <= text.len() {
        // SAFETY:
        // - as above
        let word = unsafe { Word::load(text, at) };
        if !each(at, &[word]) {
            return at;
        }
        at += WORD;
    }
    at
}

/// The number of newlines in a text, and whether it contains a NUL.
pub(super) fn newlines_and_nul(text: &[u8]) -> (u64, bool) {
    let (newline, nul) = (repeated(b'\n'), repeated(0));
    let from = aligned_from(text);
    let (mut newlines, mut nuls) = (0, 0);
    let to = words(text, from, |_, several| {
        for word in several {
            let [low, high] = word.marks(newline);
            newlines += u64::from(low.count_ones() + high.count_ones());
            let [low, high] = word.marks(nul);
            nuls |= low | high;
        }
        true
    });
    // Fewer than a word's bytes each.
    for &byte in text[..from].iter().chain(&text[to..]) {
        newlines += u64::from(byte == b'\n');
        nuls |= u64::from(byte == 0);
    }
    (newlines, nuls != 0)
}

/// The highest bit of each byte.
const HIGH: u64 = !LOW;

/// Where in words, their halves one after the other, the bytes repeated in `wanted` may begin: `each` is called with each half's index and the
/// highest bit of each such byte, from the last half to the first. What follows the words may be anything.
#[inline]
fn beginnings(several: &[Word], wanted: &[u64], mut each: impl FnMut(usize, u64)) {
    let mut after = [HIGH; COMPARED - 1];
    for (index, word) in several.iter().enumerate().rev() {
        for at in [1, 0] {
            let half = word.0[at];
            let mut begins = equal(half, wanted[0]);
            for (distance, after) in (1..).zip(&mut after) {
                let marks = wanted.get(distance).map_or(HIGH, |wanted| equal(half, *wanted));
                begins &= marks >> (8 * distance) | *after << (64 - 8 * distance);
                *after = marks;
            }
            each(2 * index + at, begins);
        }
    }
}

/// The first place for which `accepts` returns `true`, of those where a string may begin with `bytes`, which are one to [`COMPARED`]: the first byte
/// is there, and others that are in the way are not.
#[inline]
pub(super) fn find(bytes: &[u8], text: &[u8], mut accepts: impl FnMut(usize) -> bool) -> Option<usize> {
    let mut wanted = [0; COMPARED];
    for (wanted, &byte) in wanted.iter_mut().zip(bytes) {
        *wanted = repeated(byte);
    }
    let wanted = &wanted[..bytes.len()];
    let from = aligned_from(text);
    if let Some(at) = (0..from).find(|&at| text[at] == bytes[0] && accepts(at)) {
        return Some(at);
    }
    let mut found = None;
    let to = words(text, from, |at, several| {
        let mut any = 0;
        for word in several {
            let [low, high] = word.marks(wanted[0]);
            any |= low | high;
        }
        // One byte is often there, where lanes look at a thousand places together; several seldom are.
        if any != 0 && wanted.len() > 1 {
            any = 0;
            beginnings(several, wanted, |_, begins| any |= begins);
        }
        if any == 0 {
            return true;
        }
        let mut halves = [0; 2 * AT_ONCE];
        beginnings(several, wanted, |half, begins| halves[half] = begins);
        for (half, mut begins) in halves.into_iter().enumerate() {
            // Ends: each round clears a mark.
            while begins != 0 {
                let place = at + half * 8 + (begins.trailing_zeros() / 8) as usize;
                if accepts(place) {
                    found = Some(place);
                    return false;
                }
                begins &= begins - 1;
            }
        }
        true
    });
    if found.is_some() {
        return found;
    }
    (to..text.len()).find(|&at| text[at] == bytes[0] && accepts(at))
}

#[cfg(test)]
mod tests {
    use super::{COMPARED, find, newlines_and_nul};

    /// Every alignment, lengths around the words, bytes whose neighbours in value and place could be taken for them.
    #[test]
    fn as_byte_by_byte() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            // xorshift64 (Marsaglia, 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 33).unwrap()
        };
        let letters = [b'\n', b'\n' + 1, b'\n' - 1, b'\n' | 0x80, 0, 1, 0x80, 0xff, b'a'];
        for _ in 0..20_000 {
            let (start, length) = (next() % 16, next() % 300);
            let few = 1 + next() % letters.len();
            let memory: Vec<u8> = (0..start + length).map(|_| letters[next() % few]).collect();
            let text = &memory[start..];
            let newlines = text.iter().filter(|&&byte| byte == b'\n').count() as u64;
            assert_eq!(newlines_and_nul(text), (newlines, text.contains(&0)), "{text:?}");
            for byte in letters {
                let bytes = [byte, letters[next() % few], letters[next() % few]];
                let bytes = &bytes[..1 + next() % COMPARED];
                let (stride, modulus) = (next() % 5, 1 + next() % 4);
                let is_there = |at: usize| text[at..].starts_with(bytes);
                let accepts = |at: usize| is_there(at) && (at + stride).is_multiple_of(modulus);
                let expected = (0..text.len()).find(|&at| accepts(at));
                assert_eq!(find(bytes, text, accepts), expected, "{bytes:?} in {text:?}");
            }
        }
    }
}
