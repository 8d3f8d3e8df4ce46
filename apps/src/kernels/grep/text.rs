//! Finding matches and lines in memory, by one lane.
//!
//! A line ends with a newline or a NUL. A file without NULs is a text; in others NULs end lines, too, as in `grep`.

#[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
use memchr::{memchr, memchr_iter, memmem};
use memchr::{memchr2, memrchr2};

use super::Needle;
#[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
use super::{rare::RareFinder, wide};

/// The search for a string. On a CPU it uses vector instructions, through a pointer to a function; a GPU is faster without either.
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

/// The number of newlines in a text, and whether it contains a NUL.
pub(super) fn newlines_and_nul(text: &[u8]) -> (u64, bool) {
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    return (memchr_iter(b'\n', text).count() as u64, memchr(0, text).is_some());
    #[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
    return wide::newlines_and_nul(text);
}

/// A needle, prepared for the search.
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
    /// Where the first match begins. An empty text has none, even of the empty string, because it has no line.
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
    /// Calls `each` with the matching lines of a text in order, as (start, end), ends not included, until it returns `false`. The text begins
    /// with a line and ends with the end of a line.
    #[inline]
    pub(super) fn lines(&self, text: &[u8], mut each: impl FnMut(usize, usize) -> bool) {
        #[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
        if let Self::Fixed(finder) = self
            && !finder.needle().is_empty()
        {
            // In one pass: a lane with many matches does not make the others wait at each line.
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
    /// Bytes of a match beyond its first: this far it reaches into the next piece of text.
    pub(super) fn reach(&self) -> usize {
        match self {
            Self::Fixed(finder) => finder.needle().len().saturating_sub(1),
            Self::Class(_) => 0,
        }
    }
}

/// The end of the first line, if it has one.
pub(super) fn first_end(text: &[u8]) -> Option<usize> {
    memchr2(b'\n', 0, text)
}

/// The last end of a line.
pub(super) fn last_end(text: &[u8]) -> Option<usize> {
    memrchr2(b'\n', 0, text)
}

/// The line around `at`, as (start, end), its end not included; `from`: where this line, or one before it, begins.
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
