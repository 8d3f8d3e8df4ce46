//! What a text contains: each lane of a warp searches a slice, and votes and sums combine the results.
//!
//! A line may begin in the slice of one lane, match in that of another and end in that of a third; it may span three pieces of a file in the
//! same way. A line belongs to the lane, and to the piece, in which it *ends*. The same state therefore passes from slice to slice and from
//! piece to piece: a [`Carry`].

use gpufs_device::warp::LaneMask;

use super::text::{first_end, last_end, newlines_and_nul};
use super::{Show, Warp};

/// The state of the search at a place in a file: what the text before it means for the text after it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carry {
    /// Newlines before it.
    pub(super) newlines: u64,
    /// Where the line that contains the place begins.
    pub(super) line_start: u64,
    /// Matching lines that ended before it; where the number is not printed, any number above 0 stands for some.
    pub(super) matches: u64,
    /// Whether a match begins in that line before the place.
    pub(super) has_match: bool,
    /// Whether the file is binary from the place on.
    pub(super) is_binary: bool,
    /// Whether the rest of the file cannot change the output.
    pub(super) is_decided: bool,
}

impl Carry {
    const HAS_MATCH: u32 = 1;
    const IS_BINARY: u32 = 2;
    const IS_DECIDED: u32 = 4;

    pub(super) const fn flags(&self) -> u32 {
        (if self.has_match { Self::HAS_MATCH } else { 0 })
            | (if self.is_binary { Self::IS_BINARY } else { 0 })
            | (if self.is_decided { Self::IS_DECIDED } else { 0 })
    }
    pub(super) const fn with_flags(mut self, flags: u32) -> Self {
        self.has_match = flags & Self::HAS_MATCH != 0;
        self.is_binary = flags & Self::IS_BINARY != 0;
        self.is_decided = flags & Self::IS_DECIDED != 0;
        self
    }
}

/// The first lines that match in a slice.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Few {
    lines: [(u32, u32); Few::MOST],
    count: u32,
}

impl Few {
    /// The most that are kept. Where most lines do not match, these are all.
    pub(super) const MOST: usize = 4;

    /// Keeps a line of a text, as (start, end); returns whether there is room for another.
    #[allow(clippy::cast_possible_truncation, reason = "within a piece, which is shorter than 4 GiB")]
    fn push(&mut self, start: usize, end: usize) -> bool {
        self.lines[self.count as usize] = (start as u32, end as u32);
        self.count += 1;
        !self.is_full()
    }
    /// Whether there may be more lines.
    pub(super) const fn is_full(&self) -> bool {
        self.count as usize == Self::MOST
    }
    /// The line with this index, as (start, end).
    pub(super) fn get(&self, index: usize) -> Option<(usize, usize)> {
        let lines = &self.lines[..self.count as usize];
        lines.get(index).map(|&(start, end)| (start as usize, end as usize))
    }
    /// The lines, as (start, end).
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..Self::MOST).map_while(|index| self.get(index))
    }
}

/// What a lane found in its slice of a text. Places are indices in the text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    /// The ends of the first and the last line that end in it.
    pub(super) ends: Option<(usize, usize)>,
    /// Whether a match begins before the first of these ends, or anywhere if there is none.
    head: bool,
    /// Whether a match begins after the last of these ends, or anywhere if there is none.
    tail: bool,
    /// Matching lines between the two; where lines are not counted, any number above 0 stands for some.
    inner: u64,
    /// The first of these lines, where lines are printed.
    pub(super) lines: Few,
    pub(super) newlines: u64,
    marks: Marks,
    /// The first NUL.
    pub(super) nul: Option<usize>,
}

impl Slice {
    /// Newlines of the slice before a place in it.
    pub(super) fn newlines_before(&self, text: &[u8], place: usize) -> u64 {
        let (mark, counted) = self.marks.nearest(place);
        counted + newlines_and_nul(&text[mark..place]).0
    }
}

/// The newlines before some places in a slice: the number of a line is found without reading the whole slice again.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// Where the slice begins.
    start: usize,
    /// Bytes between two of these places.
    step: usize,
    newlines: [u32; Self::MOST],
}

impl Marks {
    const MOST: usize = 16;

    /// Marks in `mine`, which begins at `start` of a text; the number of newlines in it, and whether it contains a NUL.
    #[allow(clippy::cast_possible_truncation, reason = "within a piece, which is shorter than 4 GiB")]
    fn new(start: usize, mine: &[u8]) -> (Self, u64, bool) {
        // Whole words, and some of them at once.
        let step = mine.len().div_ceil(Self::MOST).max(1).next_multiple_of(64);
        let mut marks = Self { start, step, newlines: [0; Self::MOST] };
        let (mut newlines, mut has_nul) = (0, false);
        for (mark, part) in marks.newlines.iter_mut().zip(mine.chunks(step)) {
            *mark = newlines as u32;
            let (more, nul) = newlines_and_nul(part);
            newlines += more;
            has_nul |= nul;
        }
        (marks, newlines, has_nul)
    }
    /// The last mark before a place in the slice, and the newlines before that mark.
    fn nearest(&self, place: usize) -> (usize, u64) {
        let index = ((place - self.start) / self.step).min(Self::MOST - 1);
        (self.start + index * self.step, u64::from(self.newlines[index]))
    }
}

/// What a lane knows of its slice once the others have told what they found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Where in the file the first line that ends in the slice begins. Undefined if none ends there.
    pub(super) start: u64,
    /// Whether that line matches; `false` if none ends here.
    pub(super) matches: bool,
    /// Newlines of the file before the slice.
    pub(super) newlines: u64,
}

impl Warp<'_> {
    /// The caller's slice of [`from`, `to`).
    fn slice(&self, from: usize, to: usize) -> (usize, usize) {
        // A multiple of the word size: all slices are aligned if the first is.
        let share = (to - from).div_ceil(self.lanes.count() as usize).next_multiple_of(16);
        let start = to.min(from + share * self.lanes.rank() as usize);
        (start, to.min(start + share))
    }

    /// Searches the caller's slice of [`from`, `to`); a match may reach into the text after it. Each lane for itself.
    #[inline(never)]
    pub(super) fn survey(&self, text: &[u8], from: usize, to: usize) -> Slice {
        let (start, end) = self.slice(from, to);
        let mine = &text[start..end];
        let (marks, newlines, has_nul) = Marks::new(start, mine);
        let nul = if has_nul { memchr::memchr(0, mine).map(|at| start + at) } else { None };
        let ends = match (first_end(mine), last_end(mine)) {
            (Some(first), Some(last)) => Some((start + first, start + last)),
            _ => None,
        };
        // A match that begins in the slice ends here at the latest.
        let after = text.len().min(end + self.searcher.reach());
        let searcher = &self.searcher;
        let everywhere = searcher.is_in_every_line();
        let (mut head, mut tail, mut inner) = (everywhere, everywhere, 0);
        let mut lines = Few::default();
        match ends {
            Some((first, last)) => {
                // No match contains the end of a line.
                head |= searcher.is_in(&text[start..first]);
                tail |= searcher.is_in(&text[last + 1..after]);
                if first < last {
                    let show = self.job.show;
                    searcher.lines(&text[first + 1..=last], |start, end| {
                        inner += 1;
                        match show {
                            Show::Lines => lines.push(first + 1 + start, first + 1 + end),
                            Show::Counts => true,
                            Show::Names => false,
                        }
                    });
                }
            }
            None if searcher.is_in(&text[start..after]) => (head, tail) = (true, true),
            None => {}
        }
        Slice { ends, head, tail, inner, lines, newlines, marks, nul }
    }

    /// Updates `carry` from before a text to after it, from the lanes' slices of it; the text begins at `offset` in the file. Returns the place
    /// of the caller's slice. Convergent; `carry` is the same in all lanes, before and after.
    #[inline(never)]
    pub(super) fn advance_carry(&self, carry: &mut Carry, slice: &Slice, offset: u64) -> Place {
        let lanes = self.lanes;
        let before = *carry;
        let ending = lanes.ballot(slice.ends.is_some());
        let (heads, tails) = (lanes.ballot(slice.head).0, lanes.ballot(slice.tail).0);
        let newlines = lanes.scan(slice.newlines);
        let last_start = slice.ends.map_or(0, |(_, last)| offset + last as u64 + 1);

        let lower = (1_u64 << lanes.lane()) - 1;
        let nearest = LaneMask(ending.0 & lower);
        // The lanes from the last one before mine in which a line ended, up to mine, which is not included.
        let (from, since) = if nearest.is_empty() {
            (lanes.lane(), lower)
        } else {
            (nearest.last(), lower & !((1 << nearest.last()) - 1))
        };
        let theirs = lanes.shuffle(last_start, from);
        let start = if nearest.is_empty() { before.line_start } else { theirs };
        let has_match = tails & since != 0 || (nearest.is_empty() && before.has_match);
        let matches = slice.ends.is_some() && (has_match || heads >> lanes.lane() & 1 == 1);

        let last = lanes.mask().last();
        carry.newlines = before.newlines + lanes.broadcast(newlines + slice.newlines, last);
        let mine = slice.inner + u64::from(matches);
        let sum = lanes.scan(mine);
        carry.matches = before.matches + lanes.broadcast(sum + mine, last);
        if ending.is_empty() {
            carry.has_match |= tails != 0;
        } else {
            carry.line_start = lanes.broadcast(last_start, ending.last());
            carry.has_match = tails & !((1 << ending.last()) - 1) != 0;
        }
        Place { start, matches, newlines: before.newlines + newlines }
    }
}
