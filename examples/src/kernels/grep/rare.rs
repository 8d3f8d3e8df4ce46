//! Finding a string by a byte of it that is rare in texts: what a GPU's lane does, without tables, pointers to functions or vectors.
//!
//! A text full of the rare byte takes as many comparisons as it has bytes.

use super::wide;

/// A string to look for.
#[derive(Clone, Copy, Debug)]
pub(super) struct RareFinder<'a> {
    needle: &'a [u8],
    rare_at: usize,
}

impl<'a> RareFinder<'a> {
    /// Looks for `needle`, whose byte at `rare_at` is rare; any index will do for the empty string.
    pub(super) const fn new(needle: &'a [u8], rare_at: usize) -> Self {
        Self { needle, rare_at }
    }
    /// The string.
    pub(super) const fn needle(&self) -> &'a [u8] {
        self.needle
    }
    /// Where it first occurs.
    pub(super) fn find(&self, text: &[u8]) -> Option<usize> {
        let last = text.len().checked_sub(self.needle.len())?;
        let Some(&rare) = self.needle.get(self.rare_at) else { return Some(0) };
        // Where the rare byte may stand: found there, the string begins at the same index of the whole text.
        wide::find(rare, &text[self.rare_at..=last + self.rare_at], |start| {
            let place = &text[start..start + self.needle.len()];
            // Byte by byte: most differ in the first ones.
            place.iter().zip(self.needle).all(|(one, other)| one == other)
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
    fn looks_for_the_rarest_byte() {
        for (string, rare) in [(&b"Result"[..], b'R'), (b"the zoo", b'z'), (b"", 0), (b"e\xffe", 0xff)] {
            let needle = Needle::fixed(string).unwrap();
            assert_eq!(string.get(needle.rare_at()).copied().unwrap_or(0), rare);
        }
    }
}
