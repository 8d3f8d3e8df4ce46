//! What is in a text, as the lanes of a warp see it: each looks at a slice, and votes and sums make one picture of that.
//!
//! A line may begin in one lane's slice, match in another's and end in a third's, as it may in three pieces of a file. It is the lane's, and
//! the piece's, in which it *ends*. So what goes from slice to slice is what goes from piece to piece: a [`Carry`].

use gpufs_device::warp::LaneMask;

use super::text::{Matches, first_end, last_end, newlines_and_nul};
use super::{Show, Warp};

/// What the text up to a place in a file leaves for what follows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carry {
    /// Newlines before it.
    pub(super) newlines: u64,
    /// Where the line begins that goes on there.
    pub(super) line_start: u64,
    /// Lines that ended before it and matched; where that is not what is shown, some number above 0 for any.
    pub(super) matches: u64,
    /// Whether a match begins in the line before that place.
    pub(super) has_match: bool,
    /// Whether the file is binary from there on.
    pub(super) is_binary: bool,
    /// Nothing more needs to be known of the file.
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

/// What a lane found in its slice of a text. Places are in the text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    /// Where the first and the last line end that end in it.
    pub(super) ends: Option<(usize, usize)>,
    /// Whether a match begins before the first of them, or anywhere if there is none.
    head: bool,
    /// Whether a match begins behind the last of them, or anywhere if there is none.
    tail: bool,
    /// Lines between the two that match; where lines are not counted, 1 for any number.
    inner: u64,
    pub(super) newlines: u64,
    /// The first NUL.
    pub(super) nul: Option<usize>,
}

/// What a lane knows about its slice by what the others found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Where in the file the first line begins that ends in the slice. Of meaning if one does.
    pub(super) start: u64,
    /// Whether that line matches; no if none ends here.
    pub(super) matches: bool,
    /// Newlines of the file before the slice.
    pub(super) newlines: u64,
}

impl Warp<'_> {
    /// The caller's slice of [`from`, `to`).
    fn slice(&self, from: usize, to: usize) -> (usize, usize) {
        // Whole words, so that all slices are aligned if the first is.
        let share = (to - from).div_ceil(self.lanes.count() as usize).next_multiple_of(16);
        let start = to.min(from + share * self.lanes.rank() as usize);
        (start, to.min(start + share))
    }

    /// Looks at the caller's slice of [`from`, `to`); matches may reach into what of the text lies behind. Each lane for itself.
    #[inline(never)]
    pub(super) fn survey(&self, text: &[u8], from: usize, to: usize) -> Slice {
        let (start, end) = self.slice(from, to);
        let mine = &text[start..end];
        let (newlines, has_nul) = newlines_and_nul(mine);
        let nul = if has_nul { memchr::memchr(0, mine).map(|at| start + at) } else { None };
        let ends = match (first_end(mine), last_end(mine)) {
            (Some(first), Some(last)) => Some((start + first, start + last)),
            _ => None,
        };
        // A match that begins in the slice ends here at the latest.
        let behind = text.len().min(end + self.searcher.reach());
        let found = self.searcher.find(&text[start..behind]).map(|at| start + at);
        let everywhere = self.searcher.is_in_every_line();
        let (mut head, mut tail, mut inner) = (everywhere, everywhere, 0);
        match (ends, found) {
            (Some((first, last)), Some(found)) => {
                head |= found < first;
                if first < last && found <= last {
                    let text = &text[first + 1..=last];
                    let mut lines = Matches { searcher: &self.searcher, text, next: 0 };
                    let is_counted = self.job.show == Show::Counts;
                    inner = if is_counted { lines.count() as u64 } else { u64::from(lines.next().is_some()) };
                }
                tail |= found > last || self.searcher.is_in(&text[last + 1..behind]);
            }
            (None, Some(_)) => (head, tail) = (true, true),
            (_, None) => {}
        }
        Slice { ends, head, tail, inner, newlines, nul }
    }

    /// Goes from what was known before a text to what is known behind it, by the lanes' slices of it; the text begins at `offset` in the
    /// file. What the caller's own slice is then. Convergent; `carry` is and stays the same in all lanes.
    #[inline(never)]
    pub(super) fn settle(&self, carry: &mut Carry, slice: &Slice, offset: u64) -> Place {
        let lanes = self.lanes;
        let before = *carry;
        let ending = lanes.ballot(slice.ends.is_some());
        let (heads, tails) = (lanes.ballot(slice.head).0, lanes.ballot(slice.tail).0);
        let newlines = lanes.scan(slice.newlines);
        let last_start = slice.ends.map_or(0, |(_, last)| offset + last as u64 + 1);

        let lower = (1_u64 << lanes.lane()) - 1;
        let nearest = LaneMask(ending.0 & lower);
        // From the lane in which a line ended last before mine, with it, up to mine, without it.
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
