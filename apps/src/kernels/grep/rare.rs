//! Finds a string by a few bytes of it that are rare in texts, without tables, pointers to functions or vectors: the search of a GPU's lane.
//!
//! A text full of the rare bytes takes as many comparisons as it has bytes.

use super::needle::COMPARED;
use super::text::line_around;
use super::wide;

/// A string to look for.
#[derive(Clone, Copy, Debug)]
pub(super) struct RareFinder<'a> {
    needle: &'a [u8],
    rare_at: usize,
}

impl<'a> RareFinder<'a> {
    /// Searches for `needle`, whose bytes from `rare_at` on are rare; for the empty string any index will do.
    pub(super) const fn new(needle: &'a [u8], rare_at: usize) -> Self {
        Self { needle, rare_at }
    }
    /// The string.
    pub(super) const fn needle(&self) -> &'a [u8] {
        self.needle
    }
    /// Where it first occurs.
    pub(super) fn find(&self, text: &[u8]) -> Option<usize> {
        if self.needle.is_empty() {
            return Some(0);
        }
        self.find_where(text, |_| true)
    }
    /// Calls `each` with the lines that contain the string, which is not empty, in order, as (start, end), until it returns `false`. The text
    /// begins with a line and ends with the end of a line.
    #[inline]
    pub(super) fn lines(&self, text: &[u8], mut each: impl FnMut(usize, usize) -> bool) {
        // Where the next line begins.
        let mut next = 0;
        self.find_where(text, |at| {
            if at < next {
                return false;
            }
            let (start, end) = line_around(text, next, at);
            next = end + 1;
            !each(start, end)
        });
    }
    /// The first place of the string, which is not empty, for which `accepts` returns `true`.
    #[inline]
    fn find_where(&self, text: &[u8], mut accepts: impl FnMut(usize) -> bool) -> Option<usize> {
        let last = text.len().checked_sub(self.needle.len())?;
        let rare = self.needle.get(self.rare_at..)?;
        let rare = &rare[..rare.len().min(COMPARED)];
        // The part of the text where the rare bytes may be: where they begin there, the string begins in the whole text.
        wide::find(rare, &text[self.rare_at..last + self.rare_at + rare.len()], |start| {
            start <= last && {
                let place = &text[start..start + self.needle.len()];
                // Byte by byte: most differ in the first ones.
                place.iter().zip(self.needle).all(|(one, other)| one == other) && accepts(start)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use memchr::memmem;

    use super::super::Needle;
    use super::RareFinder;

    #[test]
    fn finds_what_memmem_finds() {
        // xorshift64 (Marsaglia, 2003).
        let mut state = 88_172_645_463_325_252_u64;
        let mut below = |limit: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % limit).unwrap()
        };
        for _ in 0..20_000 {
            let (length, letters) = (below(60), [2, 3, 200][below(3)]);
            let text: Vec<u8> = (0..length).map(|_| u8::try_from(below(letters)).unwrap() + b'0').collect();
            let (from, length) = (below(length as u64 + 1), below(7));
            let mut string = text[from..text.len().min(from + length)].to_vec();
            if below(4) == 0 {
                string.push(b'1');
            }
            let needle = Needle::fixed(&string).unwrap();
            let finder = RareFinder::new(needle.as_bytes(), needle.rare_at());
            assert_eq!(finder.find(&text), memmem::find(&text, &string), "{string:?} in {text:?}");
            assert_eq!(finder.needle(), string);
        }
    }

    #[test]
    fn lines_that_hold_it() {
        // xorshift64 (Marsaglia, 2003).
        let mut state = 88_172_645_463_325_252_u64;
        let mut below = |limit: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % limit).unwrap()
        };
        for _ in 0..20_000 {
            let letters = [&b"a\n"[..], b"ab\n", b"abcdef\n\0", b"aaaaaaaabbbbbbbb\n"][below(4)];
            let mut text: Vec<u8> = (0..below(400)).map(|_| letters[below(letters.len() as u64)]).collect();
            text.push(b'\n');
            let string = &b"abab"[below(2)..][..1 + below(3)];
            let needle = Needle::fixed(string).unwrap();
            let finder = RareFinder::new(needle.as_bytes(), needle.rare_at());
            let most = below(6);
            let mut expected: Vec<(usize, usize)> = Vec::new();
            let mut start = 0;
            for line in text.split_inclusive(|byte| matches!(byte, b'\n' | 0)) {
                if memmem::find(line, string).is_some() && expected.len() <= most {
                    expected.push((start, start + line.len() - 1));
                }
                start += line.len();
            }
            let mut lines = Vec::new();
            finder.lines(&text, |start, end| {
                lines.push((start, end));
                lines.len() <= most
            });
            assert_eq!(lines, expected, "{string:?} in {text:?}");
        }
    }

    #[test]
    fn looks_for_the_rarest_bytes() {
        for (string, rare) in
            [(&b"Result"[..], 0), (b"the zoo", 4), (b"", 0), (b"e\xffexx", 1), (b"needle", 3), (b"!e", 0)]
        {
            let needle = Needle::fixed(string).unwrap();
            assert_eq!(needle.rare_at(), rare, "{string:?}");
        }
    }
}
