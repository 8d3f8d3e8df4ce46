//! What short packets have in common while the upper bits of a clock stay the same: who keeps it makes an event of few instructions.

use super::encoded::{Encoded, SHORT_SEQUENCE_BITS, WORD_BYTES};
use super::{Event, Kind, Origin};

/// Bits of a clock below those of a [`TimePrefix`]: four groups of seven, a quarter of a second.
const BITS_BELOW: u32 = 28;

/// The parts of a sequence's short packets that follow from the upper bits of its clock: a byte of the first word, and the second word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TimePrefix {
    second: u64,
    /// Those bits, of which the highest four are left out: they change once in 36 years.
    upper: u32,
    /// The byte is the highest; the others are 0.
    top: u32,
}

impl TimePrefix {
    /// Words of a packet.
    pub const WORDS: usize = 3;
    /// Bytes of a packet.
    pub const BYTES: u32 = (Self::WORDS * WORD_BYTES) as u32;

    /// That of a sequence of 28 bits, at the time that a clock has.
    #[must_use]
    pub fn of(clock: u64, origin: Origin, sequence: u32) -> Self {
        let sequence = sequence & ((1 << SHORT_SEQUENCE_BITS) - 1);
        let event = Event { kind: Kind::End, name: 0, track: None, value_names: &[], values: &[] };
        let (mut first, mut second) = (0, 0);
        Encoded::new(sequence, origin.time(clock), event).each_word(|index, word| match index {
            0 => first = word,
            1 => second = word,
            _ => {}
        });
        Self { second, upper: upper(clock), top: (first >> 32) as u32 & 0xff00_0000 }
    }
    /// Whether a clock has these bits.
    #[inline]
    #[must_use]
    pub const fn is_of(self, clock: u64) -> bool {
        self.upper == upper(clock)
    }
    /// The first word of the packet of an event without values, at a time that [`TimePrefix::is_of`] is true of. With those of
    /// [`TimePrefix::rest`] it is what [`Encoded`] makes of it.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the lower bits")]
    pub fn first(self, clock: u64) -> u64 {
        let below = groups(clock as u32);
        let head = of_event(Kind::End, 0)[0] as u32 & 0x00ff_ffff;
        u64::from(head | below << 24) | u64::from(below >> 8 | self.top) << 32
    }
    /// The other words, which the time has no part in beyond its upper bits.
    #[inline]
    #[must_use]
    pub fn rest(self, kind: Kind, name: u32) -> [u64; Self::WORDS - 1] {
        [self.second, of_event(kind, name)[2]]
    }
}

/// An event's words, of a time and a sequence that are known, so that what depends on the event alone is a constant where that is.
#[inline]
fn of_event(kind: Kind, name: u32) -> [u64; TimePrefix::WORDS] {
    let mut words = [0; TimePrefix::WORDS];
    let event = Event { kind, name, track: None, value_names: &[], values: &[] };
    Encoded::new(0, 0, event).each_word(|index, word| {
        if let Some(place) = words.get_mut(index) {
            *place = word;
        }
    });
    words
}

#[expect(clippy::cast_possible_truncation, reason = "see `TimePrefix`")]
const fn upper(clock: u64) -> u32 {
    (clock >> BITS_BELOW) as u32
}

/// The low 28 bits in groups of seven, each with the mark that another follows.
const fn groups(value: u32) -> u32 {
    let value = value & 0x3fff | (value & 0x0fff_c000) << 2;
    let value = value & 0x007f_007f | (value & 0x3f80_3f80) << 1;
    value | 0x8080_8080
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the clock says, as long as it is in the same quarter of a second.
        #[test]
        fn packets_are_those_of_encoded(
            start: u64,
            below in 0_u64..1 << BITS_BELOW,
            sequence in 0_u32..1 << SHORT_SEQUENCE_BITS,
            kind in prop::sample::select(&[Kind::Begin, Kind::End, Kind::Instant]),
            name in 0_u32..1 << 28,
        ) {
            let origin = Origin::of(start);
            let prefix = TimePrefix::of(start, origin, sequence);
            let clock = start >> BITS_BELOW << BITS_BELOW | below;
            prop_assert!(prefix.is_of(start) && prefix.is_of(clock));
            prop_assert!(!prefix.is_of(clock.wrapping_add(1 << BITS_BELOW)));
            let name = if kind == Kind::End { 0 } else { name };
            let event = Event { kind, name, track: None, value_names: &[], values: &[] };
            let mut words = [0; TimePrefix::WORDS];
            Encoded::new(sequence, origin.time(clock), event).each_word(|index, word| words[index] = word);
            let [second, third] = prefix.rest(kind, name);
            prop_assert_eq!([prefix.first(clock), second, third], words);
        }
    }
}
