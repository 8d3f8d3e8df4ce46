//! Tokens in the place of lines: the numbers of a text, for `fscanf`.
//!
//! A *token* is white space (C11 7.4.1.10, as the C locale has it), then bytes up to the next white space, which do not include it. The
//! steps are those of lines, and so are their words. `line_bytes_max` says which of the two is open:
//!
//! ```text
//! 31       30                        29 … 0
//! tokens   of which kind: 1 reals    the longest unit, in bytes
//! ```
//!
//! So a caller of `fgets`, which has less room than 2³¹ bytes, finds that no line is for it.
#![expect(unsafe_code, reason = "reads the byte before a block")]

use super::super::reservation::Reservation;
use super::{Lines, Place, Stream};
use crate::resources::Resources;

/// In `line_bytes_max`: units are tokens.
const TOKENS: u32 = 1 << 31;
/// In `line_bytes_max`: of tokens, that they are [`Tokens::Reals`].
const REALS: u32 = 1 << 30;
/// The longest token that is published, with its white space. A publisher looks at each byte of a block's first one.
const TOKEN_BYTES_MAX: u32 = 256;

/// What every token that is published is, as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// A sign or none, and decimal digits.
    Integers,
    /// A sign or none, decimal digits with a point among them or none, and an exponent or none.
    Reals,
}

impl Tokens {
    const fn word(self) -> u32 {
        match self {
            Self::Integers => TOKENS,
            Self::Reals => TOKENS | REALS,
        }
    }
    /// Whether the byte is white space.
    #[must_use]
    #[inline]
    pub const fn is_space(byte: u8) -> bool {
        matches!(byte, b' ' | b'\t'..=b'\r')
    }
}

impl Lines {
    /// What the units are, if tokens. A hint, unless the caller is present.
    #[must_use]
    pub fn tokens(&self) -> Option<Tokens> {
        // ORDERING: relaxed: a hint, or constant.
        let units = self.line_bytes_max.peek();
        let kind = if units & REALS == 0 { Tokens::Integers } else { Tokens::Reals };
        (units & TOKENS != 0).then_some(kind)
    }
    /// The longest unit that is published, in bytes: a line with its newline, or a token with the white space before it. Present.
    #[must_use]
    pub fn unit_bytes_max(&self) -> u32 {
        // ORDERING: relaxed: constant.
        self.line_bytes_max.peek() & !(TOKENS | REALS)
    }
    /// Whether tokens are open that conversions of this kind take. A hint.
    #[must_use]
    pub fn offers(&self, wanted: Tokens) -> bool {
        // ORDERING: relaxed: a hint.
        self.is_open() && self.line_bytes_max.peek() & (TOKENS | REALS) == wanted.word()
    }

    /// As [`Lines::open`], for tokens.
    pub fn open_tokens(&self, resources: &Resources, stream: &Stream, tokens: Tokens) {
        let most = TOKEN_BYTES_MAX.min(Self::fitting_line_bytes_max(resources));
        self.open_units(resources, stream, tokens.word() | most);
    }

    /// As [`Lines::try_take_lines`], for `count` tokens of a kind. They are published, copied, counted and left as lines are.
    pub fn try_take_tokens(
        &self,
        stream: &Stream,
        generation: u32,
        count: u64,
        wanted: Tokens,
    ) -> Reservation {
        // ORDERING: relaxed: as in `admits` of lines.
        let admits = || stream.generation.peek() == generation && self.offers(wanted);
        if !admits() {
            return Reservation::Closed;
        }
        let words = self.reservation();
        if !words.has_available(count) {
            return self.without_available(count);
        }
        words.take(count, admits, || self.without_available(count))
    }

    /// How many ends of a claimed block, which has one at least, end nothing: 1 where its first byte is white space and no token was begun before
    /// it, else 0. `carried`: where the bytes lie that are carried over into it, and how many.
    pub(super) fn skipped(&self, resources: &Resources, place: &Place, carried: (u64, u64)) -> u32 {
        if self.tokens().is_none() || self.end_of(resources, place, 0) != 0 {
            return 0;
        }
        let (from, bytes) = carried;
        // SAFETY:
        // - they are the end of the block before, which stays until they are carried over, or the copy of it in front of this one, which its
        //   publisher made
        let is_begun = bytes != 0 && !Tokens::is_space(unsafe { ((from + bytes - 1) as *const u8).read() });
        u32::from(!is_begun)
    }

    /// Where the first token of a claimed block lies, an address and a length, once `carried_bytes` were carried over into it. The warp that
    /// claimed the place.
    #[must_use]
    pub fn first_token(&self, resources: &Resources, index: u32, carried_bytes: u64) -> (u64, u64) {
        let place = &self.places[index as usize];
        let begin = self.text(resources, place) - carried_bytes;
        let skipped = self.skipped(resources, place, (begin, carried_bytes));
        let end = self.end_of(resources, place, skipped.into()).cast_unsigned();
        (begin, carried_bytes + end)
    }
}
