//! What lanes tell each other: values that travel as the one word that a shuffle moves.
//!
//! The trait, and the encodings of plain numbers. The encoding of any other type stands with that type, or in the module that sends it.

/// A value that one lane of a warp tells others ([`Lanes::broadcast`](super::Lanes::broadcast) and its like).
///
/// `from_word(value.to_word())` is `value`, for every value that is sent. No word stands for two of them.
///
/// ```
/// use gpufs_device::warp::Broadcast;
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Answer {
///     Line(u32),
///     EndOfFile,
/// }
///
/// impl Broadcast for Answer {
///     fn to_word(self) -> u64 {
///         match self {
///             Answer::Line(length) => length.to_word(),
///             Answer::EndOfFile => 1 << 32, // a length has 32 bits
///         }
///     }
///     fn from_word(word: u64) -> Self {
///         if word >> 32 == 0 { Answer::Line(u32::from_word(word)) } else { Answer::EndOfFile }
///     }
/// }
///
/// for answer in [Answer::Line(0), Answer::Line(u32::MAX), Answer::EndOfFile] {
///     assert_eq!(Answer::from_word(answer.to_word()), answer);
/// }
/// ```
pub trait Broadcast: Sized {
    /// The value as a word.
    #[must_use]
    fn to_word(self) -> u64;
    /// The value of a word that [`Broadcast::to_word`] gave.
    #[must_use]
    fn from_word(word: u64) -> Self;
}

impl Broadcast for u64 {
    #[inline]
    fn to_word(self) -> u64 {
        self
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        word
    }
}

impl Broadcast for u32 {
    #[inline]
    fn to_word(self) -> u64 {
        u64::from(self)
    }
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "32 bits went in")]
    fn from_word(word: u64) -> Self {
        word as u32
    }
}

impl Broadcast for i32 {
    #[inline]
    fn to_word(self) -> u64 {
        self.cast_unsigned().to_word()
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        u32::from_word(word).cast_signed()
    }
}

impl Broadcast for bool {
    #[inline]
    fn to_word(self) -> u64 {
        u64::from(self)
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        word != 0
    }
}

/// `None` is above all numbers of 32 bits.
impl Broadcast for Option<u32> {
    #[inline]
    fn to_word(self) -> u64 {
        self.map_or(u64::MAX, u64::from)
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        (word != u64::MAX).then(|| u32::from_word(word))
    }
}

/// That a value comes back from its word, for the tests of all encodings.
#[cfg(test)]
pub(crate) fn assert_comes_back<T: Broadcast + Copy + PartialEq + core::fmt::Debug>(value: T) {
    let word = value.to_word();
    assert_eq!(T::from_word(word), value, "as the word {word:#x}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ends_of_each_range_come_back() {
        for value in [0, 1, u32::MAX - 1, u32::MAX] {
            assert_comes_back(value);
            assert_comes_back(value.cast_signed());
            assert_comes_back(Some(value));
        }
        assert_comes_back(None::<u32>);
        assert_comes_back(false);
        assert_comes_back(true);
    }

    proptest! {
        #[test]
        fn numbers_come_back(wide: u64, narrow: u32) {
            assert_comes_back(wide);
            assert_comes_back(narrow);
            assert_comes_back(narrow.cast_signed());
            assert_comes_back(Some(narrow));
        }
    }
}
