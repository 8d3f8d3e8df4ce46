//! Finding matches and lines in memory: what one lane does alone.

#[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
use memchr::memmem;
use memchr::{memchr, memchr2, memrchr, memrchr2};

use super::Needle;
#[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
use super::rare::RareFinder;

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
    /// Bytes of a match beyond its first: so many does it reach from one piece of text into the next.
    pub(super) fn reach(&self) -> usize {
        match self {
            Self::Fixed(finder) => finder.needle().len().saturating_sub(1),
            Self::Class(_) => 0,
        }
    }
}

/// What ends a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// A newline: the file is text as far as it was read.
    Newline,
    /// A newline or a NUL: the file is binary.
    NewlineOrNul,
}

impl Ends {
    /// Where the first line ends; the text's length if it goes on.
    pub(super) fn first(self, text: &[u8]) -> usize {
        match self {
            Self::Newline => memchr(b'\n', text),
            Self::NewlineOrNul => memchr2(b'\n', 0, text),
        }
        .unwrap_or(text.len())
    }
    /// Where the last unfinished line begins; the text's length if there is none.
    pub(super) fn last_start(self, text: &[u8]) -> usize {
        match self {
            Self::Newline => memrchr(b'\n', text),
            Self::NewlineOrNul => memrchr2(b'\n', 0, text),
        }
        .map_or(0, |end| end + 1)
    }
    /// The first line that begins at `at` or behind it: its start; the text's length if there is none.
    pub(super) fn start_from(self, text: &[u8], at: usize) -> usize {
        match at.checked_sub(1) {
            None => 0,
            Some(before) => (before + self.first(&text[before..]) + 1).min(text.len()),
        }
    }
}

/// The lines of whole lines of text that match, as (start, end), ends not included.
pub(super) struct Matches<'t> {
    pub(super) searcher: &'t Searcher<'t>,
    pub(super) ends: Ends,
    pub(super) text: &'t [u8],
    /// Where the next line begins.
    pub(super) next: usize,
}

impl Iterator for Matches<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        let rest = self.text.get(self.next..)?;
        let found = self.searcher.find(rest)?;
        let start = self.next + self.ends.last_start(&rest[..found]);
        let end = self.next + found + self.ends.first(&rest[found..]);
        self.next = end + 1;
        Some((start, end))
    }
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
