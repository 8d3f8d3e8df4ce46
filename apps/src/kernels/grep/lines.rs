//! The lines that a lane prints: those of its slice of a text that match, with their numbers.

use super::survey::{Few, Place, Slice};
use super::text::{Searcher, line_around, newlines_and_nul};

/// The matching lines of those that end in a lane's slice, as (start, end, number), ends not included.
///
/// The survey has kept the first of them. Where few lines match, no text is searched twice.
#[derive(Clone, Copy)]
pub(super) struct Lines<'t> {
    searcher: &'t Searcher<'t>,
    text: &'t [u8],
    /// Whether the numbers are used.
    is_numbered: bool,
    /// The line that begins in another slice of the text, and ends in this one.
    head: Option<(usize, usize, u64)>,
    few: &'t Few,
    /// Their numbers.
    numbers: [u64; Few::MOST],
    /// How many of the lines in `few` were returned.
    done: usize,
    /// The place after the last line that was found, and the newlines of the file before it.
    next: usize,
    /// As above.
    newlines: u64,
    /// The place after the last line and its newline.
    end: usize,
}

impl<'t> Lines<'t> {
    /// `start`: where the first line that ends in the slice begins, if that line is to be printed.
    pub(super) fn new(
        (searcher, text): (&'t Searcher<'t>, &'t [u8]),
        (slice, place): (&'t Slice, &Place),
        start: Option<usize>,
        is_numbered: bool,
    ) -> Self {
        let (first, last) = slice.ends.unwrap_or((0, 0));
        let mut lines = Self {
            searcher,
            text,
            is_numbered,
            head: start.map(|start| (start, first, place.newlines + 1)),
            few: &slice.lines,
            numbers: [0; Few::MOST],
            done: 0,
            next: first + 1,
            newlines: 0,
            end: last + 1,
        };
        for (number, (start, end)) in lines.numbers.iter_mut().zip(slice.lines.iter()) {
            if is_numbered {
                // Including the line's own newline.
                lines.newlines = place.newlines + slice.newlines_before(text, start) + 1;
                *number = lines.newlines;
            }
            lines.next = end + 1;
        }
        lines
    }
}

impl Iterator for Lines<'_> {
    type Item = (usize, usize, u64);

    #[inline(never)]
    fn next(&mut self) -> Option<(usize, usize, u64)> {
        if let Some(head) = self.head.take() {
            return Some(head);
        }
        if let Some((start, end)) = self.few.get(self.done) {
            self.done += 1;
            return Some((start, end, self.numbers[self.done - 1]));
        }
        if !self.few.is_full() || self.next >= self.end {
            return None;
        }
        let found = self.searcher.find(&self.text[self.next..self.end])?;
        let (start, end) = line_around(self.text, self.next, self.next + found);
        if self.is_numbered {
            self.newlines += newlines_and_nul(&self.text[self.next..start]).0 + 1;
        }
        self.next = end + 1;
        Some((start, end, self.newlines))
    }
}
