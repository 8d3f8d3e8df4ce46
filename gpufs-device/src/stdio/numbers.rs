//! `fscanf` of numbers without the lock (stage 3): tokens that were read ahead, taken as `fgets` takes lines ([`ahead`]).
//!
//! A format that reads nothing but numbers of one kind takes so many tokens. Those that are published are numbers of that kind, so each lane's
//! conversions take all of its tokens and nothing behind them, and the lanes can take theirs by one addition. The conversions then read
//! them where they lie. Whatever is not so is read under the lock: another format, a token that is no such number, the end of the file.

use gpufs_core::Errno;
use gpufs_core::session::SessionTables;
use gpufs_core::stream::readahead::{Lines, Tokens};
use gpufs_core::stream::{Reservation, Stream};

use super::File;
use super::ahead::{self, BUSY_TRIES};
use super::lock::LockedStream;
use crate::format::scan::{self, Scanned};
use crate::io::Backoff;
use crate::warp::{Broadcast, Lanes};

/// The most numbers of a call, so that a grid's calls are few against the tokens that can be counted ([`Lines::SPENT`]).
const NUMBERS_MAX: u32 = 16;
/// A call that takes tokens makes progress on the places once in this many.
const TOKENS_PER_PROGRESS: u64 = 2048;

/// What a format reads that reads nothing but numbers of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    /// How many: 1 to [`NUMBERS_MAX`].
    count: u32,
    kind: Tokens,
}

/// What the lanes' formats have in common.
impl Broadcast for Option<Numbers> {
    #[inline]
    fn to_word(self) -> u64 {
        self.map_or(0, |numbers| u64::from(numbers.count) << 1 | u64::from(numbers.kind == Tokens::Reals))
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        let kind = if word & 1 == 0 { Tokens::Integers } else { Tokens::Reals };
        #[expect(clippy::cast_possible_truncation, reason = "32 bits went in")]
        let count = (word >> 1) as u32;
        (count > 0).then_some(Numbers { count, kind })
    }
}

impl Numbers {
    /// Of a format.
    pub(super) fn of(format: &[u8]) -> Option<Self> {
        let (count, reals) = scan::numbers(format)?;
        let kind = if reals { Tokens::Reals } else { Tokens::Integers };
        (count <= NUMBERS_MAX).then_some(Self { count, kind })
    }
    /// Of all the lanes' formats, if they are alike, and the session has memory to read ahead. Convergent; valid in all.
    pub(super) fn common(session: &SessionTables, lanes: Lanes, mine: Option<Self>) -> Option<Self> {
        if !ahead::is_possible(session) {
            return None;
        }
        let first = lanes.from_leader(mine);
        if lanes.all(first == mine) { first } else { None }
    }
    /// Whether the stream has such tokens, or will have. A hint.
    pub(super) fn are_flowing(self, stream: &Stream) -> bool {
        stream.lines.is_flowing() && stream.lines.offers(self.kind)
    }
    /// After a call under the lock: opens the stream's tokens where such calls have become many. Convergent.
    pub(super) fn consider(self, held: &LockedStream) {
        if !held.stream.is_kept() && ahead::should_open(held) {
            held.stream.lines.open_tokens(held.session, held.stream, self.kind);
        }
    }
}

/// What the leader finds before tokens are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    /// Tokens of the kind.
    Tokens,
    /// None: the file ends.
    EndOfFile,
    /// None: take the lock.
    Closed,
}

impl Broadcast for Offer {
    #[inline]
    fn to_word(self) -> u64 {
        self as u64
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        match word {
            0 => Self::Tokens,
            1 => Self::EndOfFile,
            _ => Self::Closed,
        }
    }
}

/// A lane's tokens, which it has taken and not yet read.
pub(super) struct TokenSource<'a> {
    session: &'a SessionTables,
    lines: &'a Lines,
    /// The place of the next one, and its number there.
    place: u32,
    number: u64,
    /// How many.
    left: u64,
}

impl TokenSource<'_> {
    /// Where the next ones lie that are side by side, from their first byte to behind their last; `None` behind the last token.
    pub(super) fn next(&mut self) -> Option<(u64, u64)> {
        // Ends: over the places, in which the lane's tokens are published; no block is published without any.
        while self.left > 0 {
            let (_, count) = self.lines.of_place(self.place);
            let here = count.saturating_sub(self.number).min(self.left);
            if here == 0 {
                self.place = (self.place + 1) & (self.lines.place_count() - 1);
                self.number = 0;
                continue;
            }
            let (begin, _) = self.lines.locate(self.session, self.place, self.number);
            let (last, bytes) = self.lines.locate(self.session, self.place, self.number + here - 1);
            self.number += here;
            self.left -= here;
            return Some((begin, last + bytes));
        }
        None
    }
}

/// Every lane's call on its own tokens, by `read`, where the stream has tokens for `numbers`; `None` where the call has to take the lock.
/// Convergent; called by `lanes`.
// The lanes part in `read`; a function of its own, as `copy_out` of lines.
#[inline(never)]
pub(super) fn take(
    file: File,
    lanes: Lanes,
    numbers: Numbers,
    read: impl FnOnce(TokenSource<'_>) -> Result<Scanned, Errno>,
) -> Option<Result<Scanned, Errno>> {
    let (session, stream) = (file.session, file.stream());
    let lines = &stream.lines;
    let mut offer = Offer::Closed;
    if lanes.is_leader() {
        if lines.offers(numbers.kind) {
            offer = Offer::Tokens;
        } else if ahead::is_at_end(file) {
            offer = Offer::EndOfFile;
        }
    }
    match lanes.from_leader(offer) {
        Offer::Tokens => {}
        Offer::EndOfFile => return Some(Ok(Scanned::default())),
        Offer::Closed => return None,
    }
    let count = u64::from(lanes.count() * numbers.count);
    let mut backoff = Backoff::of_many(session);
    let mut tries = 0;
    // Ends: reads complete, and `await_lines` reaps, indexes, publishes and drains; and a count.
    loop {
        match lanes.on_leader(|| lines.try_take_tokens(stream, file.generation, count, numbers.kind)) {
            Reservation::Closed => return None,
            Reservation::Busy => {
                if tries == BUSY_TRIES || !ahead::await_lines(session, stream, lanes, count, &mut backoff) {
                    return None;
                }
                tries += 1;
            }
            // From here to `leave` nothing is waited for.
            Reservation::At(first) => {
                let (place, number) = place_of(lines, lanes, first, u64::from(numbers.count));
                let outcome = read(TokenSource { session, lines, place, number, left: numbers.count.into() });
                lanes.sync();
                leave(session, stream, lanes, (first, first + count));
                // Also while there are tokens enough, so that there will be.
                if first / TOKENS_PER_PROGRESS != (first + count) / TOKENS_PER_PROGRESS {
                    let _ = ahead::progress(session, stream, lanes);
                }
                return Some(outcome);
            }
        }
    }
}

/// Where a lane's first token lies, of `each` for every lane from number `first` on: its place, and its number there. Convergent.
#[inline(never)]
fn place_of(lines: &Lines, lanes: Lanes, first: u64, each: u64) -> (u32, u64) {
    let mine = first + u64::from(lanes.rank()) * each;
    let behind = first + u64::from(lanes.count()) * each;
    let mut found = (0, 0);
    let (mut left, mut at) = (lanes.count(), 0);
    // Ends: over the places. Each lane looks at one, and the warp then goes through those that have some of the tokens.
    while left != 0 && at < lines.place_count() {
        let looked = at + lanes.rank();
        let (base, count) = if looked < lines.place_count() { lines.of_place(looked) } else { (0, 0) };
        for lane in lanes.ballot(base < behind && first < base + count).iter() {
            let (base, count) = (lanes.broadcast(base, lane), lanes.broadcast(count, lane));
            let place = lanes.broadcast(looked, lane);
            let is_here = mine >= base && mine - base < count;
            found = if is_here { (place, mine - base) } else { found };
            left -= lanes.ballot(is_here).count();
        }
        at += lanes.count();
    }
    assert!(left == 0, "tokens that are taken stay published");
    found
}

/// Counts the tokens of this range as taken, which the lanes have read, each lane those of its places; the lanes touch no place any more.
/// Convergent; behind a barrier.
fn leave(session: &SessionTables, stream: &Stream, lanes: Lanes, (first, behind): (u64, u64)) {
    let lines = &stream.lines;
    // Ends: over the places.
    for place in (lanes.rank()..lines.place_count()).step_by(lanes.count() as usize) {
        let (base, count) = lines.of_place(place);
        let here = behind.min(base + count).saturating_sub(first.max(base));
        if here > 0 {
            lines.count_taken(session, stream, place, here);
        }
    }
    lanes.sync();
    if lanes.is_leader() {
        lines.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::message::assert_comes_back;

    #[test]
    fn every_answer_of_the_leader_comes_back() {
        for offer in [Offer::Tokens, Offer::EndOfFile, Offer::Closed] {
            assert_comes_back(offer);
        }
        for kind in [Tokens::Integers, Tokens::Reals] {
            for count in 1..=NUMBERS_MAX {
                assert_comes_back(Some(Numbers { count, kind }));
            }
        }
        assert_comes_back(None::<Numbers>);
    }

    #[test]
    fn formats_of_numbers() {
        let numbers = |format: &str| Numbers::of(format.as_bytes()).map(|found| (found.count, found.kind));
        for (format, count) in [("%d", 1), (" %ld%hhu", 2), ("%d\t %lld\n%u", 3), (&"%zu".repeat(16), 16)] {
            assert_eq!(numbers(format), Some((count, Tokens::Integers)), "{format}");
        }
        for (format, count) in [("%f", 1), ("%lf %lg %Le", 3)] {
            assert_eq!(numbers(format), Some((count, Tokens::Reals)), "{format}");
        }
        for format in [
            "",
            " ",
            "x",
            "%d ",
            "%d\n",
            "%d,%d",
            "%d %lf",
            "%i",
            "%x",
            "%o",
            "%5d",
            "%*d",
            "%1$d",
            "%s",
            "%n",
            "%d%n",
            "%d%%",
            "%y",
            &"%zu".repeat(17),
        ] {
            assert_eq!(numbers(format), None, "{format}");
        }
    }
}
