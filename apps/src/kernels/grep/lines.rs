//! The lines that a lane puts out: of its slice of a text, those that match, with their numbers.

use super::survey::{Few, Place, Slice};
use super::text::{Searcher, line_around, newlines_and_nul};

/// The lines that match of those that end in a lane's slice, as (start, end, number), ends not included.
///
/// The survey has found the first of them. So where few lines match, nothing is searched for a second time.
#[derive(Clone, Copy)]
pub(super) struct Lines<'t> {
    searcher: &'t Searcher<'t>,
    text: &'t [u8],
    /// Whether numbers are of meaning.
    is_numbered: bool,
    /// The line that begins in another slice of the text, and ends in this one.
    head: Option<(usize, usize, u64)>,
    few: &'t Few,
    /// Their numbers.
    numbers: [u64; Few::MOST],
    /// How many of them are done.
    done: usize,
    /// Behind the last line that was found, and newlines of the file before that.
    next: usize,
    /// As above.
    newlines: u64,
    /// Where the last line ends, with its end.
    end: usize,
}

impl<'t> Lines<'t> {
    /// `start`: where the first line begins that ends in the slice, if it is among the lines to put out.
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
                // With the line's own.
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
