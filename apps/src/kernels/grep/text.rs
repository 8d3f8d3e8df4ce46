//! Finding matches and lines in memory: what one lane does alone.
//!
//! A line ends with a newline or a NUL. A file without NULs is a text; in others NULs end lines, too, as `grep` has it.

#[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
use memchr::{memchr, memchr_iter, memmem};
use memchr::{memchr2, memrchr2};

use super::Needle;
#[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
use super::{rare::RareFinder, wide};

/// What looks for a string: on a CPU with vector instructions, chosen through a pointer; a GPU does better without either.
#[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
type Finder<'a> = memmem::Finder<'a>;
#[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
type Finder<'a> = RareFinder<'a>;

fn finder(needle: &Needle) -> Finder<'_> {
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    return memmem::Finder::new(needle.as_bytes());
    #[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
    return RareFinder::new(needle.as_bytes(), needle.rare_at());
}

/// How many newlines a text holds, and whether it holds a NUL.
pub(super) fn newlines_and_nul(text: &[u8]) -> (u64, bool) {
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    return (memchr_iter(b'\n', text).count() as u64, memchr(0, text).is_some());
    #[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
    return wide::newlines_and_nul(text);
}

/// A needle, ready to be looked for.
#[allow(clippy::large_enum_variant, reason = "one for each lane, and nothing to box it in")]
pub(super) enum Searcher<'a> {
    Fixed(Finder<'a>),
    Class(&'a [u64; 4]),
}

impl<'a> Searcher<'a> {
    pub(super) fn new(needle: &'a Needle) -> Self {
        match needle.as_class() {
            Some(class) => Self::Class(class),
            None => Self::Fixed(finder(needle)),
        }
    }
    /// Where the first match begins. In an empty text there is none, even of the empty string: it has no line.
    #[inline(never)]
    pub(super) fn find(&self, text: &[u8]) -> Option<usize> {
        match self {
            _ if text.is_empty() => None,
            Self::Fixed(finder) => finder.find(text),
            Self::Class(class) => {
                text.iter().position(|&byte| class[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1)
            }
        }
    }
    pub(super) fn is_in(&self, text: &[u8]) -> bool {
        self.find(text).is_some()
    }
    /// Hands out the lines of a text that match, in order, as (start, end), ends not included, as long as `each` says so. The text begins
    /// with a line and ends with a line's end.
    #[inline]
    pub(super) fn lines(&self, text: &[u8], mut each: impl FnMut(usize, usize) -> bool) {
        #[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
        if let Self::Fixed(finder) = self
            && !finder.needle().is_empty()
        {
            // In one pass: lanes that find much do not keep the others waiting at each line.
            finder.lines(text, each);
            return;
        }
        let mut next = 0;
        // Ends: over the lines.
        while let Some(rest) = text.get(next..)
            && let Some(found) = self.find(rest)
        {
            let (start, end) = line_around(text, next, next + found);
            if !each(start, end) {
                return;
            }
            next = end + 1;
        }
    }
    /// Whether every line matches, an empty one too.
    pub(super) fn is_in_every_line(&self) -> bool {
        matches!(self, Self::Fixed(finder) if finder.needle().is_empty())
    }
    /// Bytes of a match beyond its first: so many does it reach from one piece of text into the next.
    pub(super) fn reach(&self) -> usize {
        match self {
            Self::Fixed(finder) => finder.needle().len().saturating_sub(1),
            Self::Class(_) => 0,
        }
    }
}

/// Where the first line ends, if it does.
pub(super) fn first_end(text: &[u8]) -> Option<usize> {
    memchr2(b'\n', 0, text)
}

/// Where the last line that ends does.
pub(super) fn last_end(text: &[u8]) -> Option<usize> {
    memrchr2(b'\n', 0, text)
}

/// The line around `at`, as (start, end), its end not included; `from`: where this line begins, or one before it.
pub(super) fn line_around(text: &[u8], from: usize, at: usize) -> (usize, usize) {
    let start = from + last_end(&text[from..at]).map_or(0, |end| end + 1);
    let end = first_end(&text[at..]).map_or(text.len(), |end| at + end);
    (start, end)
}

/// A number in decimal.
pub(super) struct Decimal {
    digits: [u8; 20],
    from: usize,
}

impl Decimal {
    pub(super) fn new(mut number: u64) -> Self {
        let mut digits = [b'0'; 20];
        let mut from = digits.len();
        // Ends: the number shrinks.
        loop {
            from -= 1;
            #[allow(clippy::cast_possible_truncation, reason = "a digit")]
            {
                digits[from] = b'0' + (number % 10) as u8;
            }
            number /= 10;
            if number == 0 {
                return Self { digits, from };
            }
        }
    }
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.digits[self.from..]
    }
}
