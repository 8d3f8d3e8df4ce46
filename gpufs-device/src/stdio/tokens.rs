//! Where the tokens of a text that is read ahead end (stage 3), and whether they are numbers. As for lines (`newlines`), each lane looks at a
//! stretch of its own, and then at tokens, neighbours at neighbouring ones.
#![expect(unsafe_code, reason = "loads words of a buffer")]

use gpufs_core::stream::readahead::Tokens;

use super::newlines::{Ends, PAIR, for_each_pair, quarters};
use crate::warp::Lanes;

/// No end.
const NONE: u32 = u32::MAX;

/// As [`note_ends`](super::newlines::note_ends) for tokens: a token ends before white space that follows another byte. White space at the
/// text's beginning counts as an end, too, at 0. Whether one token but for the first is longer than asked, or none of its kind, is one answer.
/// Convergent; called by `lanes`, with the same values.
///
/// # Safety
/// As [`note_ends`](super::newlines::note_ends).
#[inline(never)]
pub(super) unsafe fn note_token_ends(
    lanes: Lanes,
    text: (u64, u64),
    ends: u64,
    (most_ends, most): (u32, u32),
    kind: Tokens,
) -> Ends {
    let share = text.1.div_ceil(PAIR).div_ceil(u64::from(lanes.count()));
    let first = u64::from(lanes.rank()) * share;
    let before = first * PAIR;
    // SAFETY:
    // - this function's contract: a byte of the text
    let begins_after_space = first > 0
        && before < text.1
        && Tokens::is_space(unsafe { ((text.0 + before - 1) as *const u8).read() });
    let (mut count, mut after_space) = (0, begins_after_space);
    // SAFETY:
    // - this function's contract
    unsafe {
        for_each_pair(text, (first, first + share), |_, words, within| {
            count += (ends_of(words, &mut after_space) & within).count_ones();
        });
    }
    let before = lanes.scan(u64::from(count));
    #[expect(clippy::cast_possible_truncation, reason = "no more than there are bytes")]
    let (mut number, all) =
        (before as u32, lanes.broadcast(before + u64::from(count), lanes.mask().last()) as u32);
    let mut last_end = NONE;
    after_space = begins_after_space;
    let mark = |at: u64, words: [u128; 2], within: u32| {
        let mut marks = ends_of(words, &mut after_space) & within;
        // Ends: a mark a round.
        while marks != 0 {
            #[expect(clippy::cast_possible_truncation, reason = "below 2³²")]
            let end = (at * PAIR) as u32 + marks.trailing_zeros();
            last_end = end;
            if number < most_ends {
                // SAFETY:
                // - this function's contract; the number is this end's alone
                unsafe { (ends as *mut u32).wrapping_add(number as usize).write(end) };
            }
            number += 1;
            marks &= marks - 1;
        }
    };
    // SAFETY:
    // - this function's contract
    unsafe { for_each_pair(text, (first, first + share), mark) };
    let with_ends = lanes.ballot(last_end != NONE);
    let last = if with_ends.is_empty() { lanes.leader() } else { with_ends.last() };
    let tail = if with_ends.is_empty() { 0 } else { lanes.broadcast(last_end, last) };
    lanes.sync();
    // Too many for the place: nothing is published, whatever they are.
    let known = if all > most_ends { 0 } else { all };
    let mut wrong = false;
    // Ends: over the tokens.
    for token in (1 + lanes.rank()..known).step_by(lanes.count() as usize) {
        // SAFETY:
        // - the ends were written before the barrier
        let [from, to] =
            [token - 1, token].map(|end| unsafe { (ends as *const u32).wrapping_add(end as usize).read() });
        // SAFETY:
        // - this function's contract
        wrong |=
            to - from > most || !unsafe { is_number((text.0 + u64::from(from), u64::from(to - from)), kind) };
    }
    Ends { count: all, tail, too_long: lanes.any(wrong) }
}

/// The ends of tokens in two words: bit `i` stands for byte `i`. `after_space`: whether the byte before them is white space; then, whether
/// their last one is.
fn ends_of(words: [u128; 2], after_space: &mut bool) -> u32 {
    let spaces = spaces(words[0]) | spaces(words[1]) << 16;
    let ends = spaces & !(spaces << 1 | u32::from(*after_space));
    *after_space = spaces >> 31 == 1;
    ends
}

/// The white space of a word: bit `i` stands for byte `i`.
fn spaces(word: u128) -> u32 {
    // As `newlines`.
    let nibble = |quarter| space_bits(quarter).wrapping_mul(0x0020_4081) >> 28;
    let [first, second, third, fourth] = quarters(word).map(nibble);
    first | second << 4 | third << 8 | fourth << 12
}

/// The highest bit of each byte that is white space, and no other.
fn space_bits(quarter: u32) -> u32 {
    const LOW: u32 = u32::MAX / 0xff;
    const HIGH: u32 = LOW * 0x80;
    // Nothing is carried from byte to byte.
    let low = quarter & !HIGH;
    let (from_tab, behind_return) = (low + LOW * (0x80 - 0x09), low + LOW * (0x80 - 0x0e));
    let not_blank = (low ^ (LOW * 0x20)) + LOW * 0x7f;
    ((from_tab & !behind_return) | !not_blank) & !quarter & HIGH
}

/// Whether a token, an address and a length, is white space or none, and then a number of the kind as a whole. One lane.
///
/// # Safety
/// The bytes can be read; nobody writes them meanwhile.
pub(super) unsafe fn is_number((address, bytes): (u64, u64), kind: Tokens) -> bool {
    let byte = |at: u64| {
        if at >= bytes {
            return 0;
        }
        // SAFETY:
        // - this function's contract
        unsafe { ((address + at) as *const u8).read() }
    };
    let digits = |from: u64| {
        let mut at = from;
        // Ends: `at` grows.
        while byte(at).is_ascii_digit() {
            at += 1;
        }
        at
    };
    let sign = |at: u64| at + u64::from(matches!(byte(at), b'+' | b'-'));
    let mut at = 0;
    // Ends: `at` grows.
    while Tokens::is_space(byte(at)) {
        at += 1;
    }
    let from = sign(at);
    at = digits(from);
    let mut count = at - from;
    if kind == Tokens::Reals {
        if byte(at) == b'.' {
            let behind = digits(at + 1);
            count += behind - at - 1;
            at = behind;
        }
        if matches!(byte(at), b'e' | b'E') {
            let from = sign(at + 1);
            at = digits(from);
            // An exponent of no digits is left to the reader byte by byte.
            count = if at == from { 0 } else { count };
        }
    }
    count > 0 && at == bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sscanf;
    use proptest::prelude::*;

    fn wanted(bytes: [u8; 32], before: bool) -> (u32, bool) {
        let mut after = before;
        let mut ends = 0;
        for (at, byte) in bytes.into_iter().enumerate() {
            let space = [b' ', 9, 10, 11, 12, 13].contains(&byte);
            ends |= u32::from(space && !after) << at;
            after = space;
        }
        (ends, after)
    }

    proptest! {
        #[test]
        fn ends_are_where_white_space_begins(
            bytes in any::<[u8; 32]>(),
            picked in proptest::array::uniform32(0_usize..14),
            before: bool,
        ) {
            let few = picked.map(|at| [8, 9, 10, 11, 12, 13, 14, 31, 32, 33, 0x89, 0xa0, b'7', 0][at]);
            for bytes in [bytes, few] {
                let halves = [0, 16].map(|at| {
                    u128::from_le_bytes(core::array::from_fn(|byte| bytes[at + byte]))
                });
                let mut after = before;
                let ends = ends_of(halves, &mut after);
                prop_assert_eq!((ends, after), wanted(bytes, before), "{:x?}", bytes);
            }
        }

        #[test]
        fn a_conversion_takes_the_whole_of_a_number(text in "[ \t\n]{0,2}[-+]{0,2}[0-9]{0,3}[.xXeEin]{0,2}[-+]?[0-9]{0,3}[eE.]?[-+]?[0-9]{0,2}") {
            for kind in [Tokens::Integers, Tokens::Reals] {
                // SAFETY:
                // - the string's bytes
                if !unsafe { is_number((text.as_ptr() as u64, text.len() as u64), kind) } {
                    continue;
                }
                let (mut integer, mut real, mut taken) = (0_i64, 0.0_f64, 0_i32);
                let stored = if kind == Tokens::Reals {
                    sscanf!(text.as_bytes(), c"%lf%n", &mut real, &mut taken)
                } else {
                    sscanf!(text.as_bytes(), c"%ld%n", &mut integer, &mut taken)
                };
                prop_assert_eq!(stored, Ok(Some(1)));
                prop_assert_eq!(usize::try_from(taken), Ok(text.len()), "{:?} as {:?}", text, kind);
            }
        }
    }
}
