//! `fgets` without the lock (stage 3): lines that were read ahead (`gpufs_core::stream::readahead` has the rules), and the warps that read and index them.
#![allow(unsafe_code, reason = "moves text between buffers and the caller's memory")]

use gpufs_core::session::{OpenFile, SessionTables, WaitReason};
use gpufs_core::stream::readahead::{Lines, Work};
use gpufs_core::stream::{Buffering, Direction, Reservation, Stream};

use super::File;
use super::lock::LockedStream;
use super::newlines::note_ends;
use super::tokens::{is_number, note_token_ends};
use crate::io::{Backoff, Drained, Flow, copy_raw, copy_together, drain, drain_each, slot_hint};
use crate::warp::{Broadcast, Lanes};

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Taken {
    /// The lane's line has this length; `None`: the file ends.
    Lines(Option<usize>),
    /// The call has to take the lock.
    Closed,
}

/// What the leader finds before lines are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    /// Lines, of which none is longer.
    LinesUpTo(u32),
    /// No line: the file ends.
    EndOfFile,
    /// No lines: take the lock.
    Closed,
}

/// [`Offer::EndOfFile`] as a word.
const END_OF_FILE: u64 = u64::MAX - 1;

/// A length is itself; the other answers are above 32 bits.
impl Broadcast for Offer {
    #[inline]
    fn to_word(self) -> u64 {
        match self {
            Self::LinesUpTo(bytes) => bytes.to_word(),
            Self::EndOfFile => END_OF_FILE,
            Self::Closed => u64::MAX,
        }
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        match word {
            u64::MAX => Self::Closed,
            END_OF_FILE => Self::EndOfFile,
            bytes => Self::LinesUpTo(u32::from_word(bytes)),
        }
    }
}

/// What the leader sees while lines may be about to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// Neither has come yet.
    Waits,
    /// Lines, or the end of the file.
    Came,
    /// Lines will not open.
    InVain,
}

impl Broadcast for Opening {
    #[inline]
    fn to_word(self) -> u64 {
        self as u64
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        match word {
            0 => Self::Waits,
            1 => Self::Came,
            _ => Self::InVain,
        }
    }
}

/// Whether the session has memory for lines.
pub(super) fn is_possible(session: &SessionTables) -> bool {
    session.resources.line_buffers.base != 0
}

/// How often a call finds no lines before it goes to the lock, where the first come are the first served.
pub(super) const BUSY_TRIES: u32 = 1_000;
/// How often it looks for lines between two tries.
const POLLS_FOR_LINES: u32 = 16;

/// A call that takes lines makes progress on the places once in this many lines.
const LINES_PER_PROGRESS: u64 = 512;
/// How often a call that finds a crowd at the lock looks whether lines open.
const POLLS_FOR_OPENING: u32 = 32;

/// Waits a little where lines may be about to open, or the file to end; whether it seems that one of them has come. Convergent.
pub(super) fn await_opening(file: File, lanes: Lanes) -> bool {
    let (session, stream) = (file.session, file.stream());
    let mut backoff = Backoff::of_many(session);
    // Ends: a count.
    for _ in 0..POLLS_FOR_OPENING {
        let seen = match lanes.is_leader() {
            true if stream.lines.is_flowing() || is_at_end(file) => Opening::Came,
            true if !stream.lines.may_open(stream) => Opening::InVain,
            _ => Opening::Waits,
        };
        match lanes.from_leader(seen) {
            Opening::Waits => {}
            Opening::Came => return true,
            Opening::InVain => return false,
        }
        let drained = drain(session, lanes, stream.ring(session));
        if backoff.wait(drained, WaitReason::StreamLock, stream.ring(session), u64::from(file.index)).is_err()
        {
            return false;
        }
    }
    false
}

/// Every lane's line into its `memory` of `room` bytes, where the stream's lines are open and long enough ones fit. Convergent; called by
/// `lanes`.
pub(super) fn take(file: File, lanes: Lanes, memory: *mut u8, room: u64) -> Taken {
    // Not for tokens, which say that they are longer than this.
    let room = room.min(1 << 31);
    let (session, stream) = (file.session, file.stream());
    let lines = &stream.lines;
    let mut offer = Offer::Closed;
    if lanes.is_leader() {
        if lines.is_open() {
            offer = Offer::LinesUpTo(lines.line_bytes_max());
        } else if is_at_end(file) {
            offer = Offer::EndOfFile;
        }
    }
    let most = match lanes.from_leader(offer) {
        Offer::LinesUpTo(bytes) => u64::from(bytes),
        // A lane without room for a byte gets its answer under the lock.
        Offer::EndOfFile if lanes.all(room >= 2) => return Taken::Lines(None),
        Offer::EndOfFile | Offer::Closed => return Taken::Closed,
    };
    if !lanes.all(room > most) {
        return Taken::Closed;
    }
    let count = u64::from(lanes.count());
    let mut backoff = Backoff::of_many(session);
    let mut tries = 0;
    // Ends: reads complete, and this loop reaps, indexes, publishes and drains; and a count.
    loop {
        match lanes.on_leader(|| lines.try_take_lines(stream, file.generation, count, most)) {
            Reservation::Closed => return Taken::Closed,
            Reservation::Busy => {
                if tries == BUSY_TRIES {
                    return Taken::Closed;
                }
                tries += 1;
                if !await_lines(session, stream, lanes, count, &mut backoff) {
                    return Taken::Closed;
                }
            }
            // From here to `leave` nothing is waited for.
            Reservation::At(line) => {
                let length = copy_out(session, stream, lanes, line, memory);
                // Also while there are lines enough, so that there will be.
                if line / LINES_PER_PROGRESS != (line + count) / LINES_PER_PROGRESS {
                    let _ = progress(session, stream, lanes);
                }
                return Taken::Lines(Some(length));
            }
        }
    }
}

/// Makes progress for a while, until it seems that so many lines are available; false where the wait is over. Convergent.
#[inline]
pub(super) fn await_lines(
    session: &SessionTables,
    stream: &Stream,
    lanes: Lanes,
    count: u64,
    backoff: &mut Backoff,
) -> bool {
    // Ends: a count. To try costs more looks at the words, at which all the others look, too.
    for _ in 0..POLLS_FOR_LINES {
        let drained = progress(session, stream, lanes);
        if lanes.any(lanes.is_leader() && stream.lines.has_available(count)) {
            break;
        }
        if backoff.wait(drained, WaitReason::StreamBlock, stream.ring(session), count).is_err() {
            return false;
        }
    }
    true
}

/// Whether the end of the stream's file was met and not cleared, after which no call gets a line. One lane.
pub(super) fn is_at_end(file: File) -> bool {
    let stream = file.stream();
    // ORDERING: acquire, device, partner the lock's hand-over, as far as the generation, which is constant while the stream is open: were
    // the flags of the entry's next stream, the generation would be, too. The flag alone says it: while it is set, nothing is buffered
    // or pushed back.
    let flags = stream.flags.observe();
    flags & Stream::FLAG_EOF != 0
        && stream.direction() == Direction::Reading
        && stream.generation.peek() == file.generation
}

/// Copies the lines from `first` on that the lanes have taken, each its own; its length. Convergent. Waits for nothing.
#[inline(never)]
fn copy_out(session: &SessionTables, stream: &Stream, lanes: Lanes, first: u64, memory: *mut u8) -> usize {
    let lines = &stream.lines;
    let (number, behind) = (first + u64::from(lanes.rank()), first + u64::from(lanes.count()));
    // The place of the lane's line, and its number there.
    let mut mine = (0, 0);
    let (mut left, mut at) = (lanes.count(), 0);
    // Ends: over the places. Each lane looks at one, and the warp then goes through those that have some of the lines.
    while left != 0 && at < lines.place_count() {
        let looked = at + lanes.rank();
        let (base, count) = if looked < lines.place_count() { lines.of_place(looked) } else { (0, 0) };
        for lane in lanes.ballot(base < behind && first < base + count).iter() {
            let (base, count) = (lanes.broadcast(base, lane), lanes.broadcast(count, lane));
            let place = lanes.broadcast(looked, lane);
            let is_here = number >= base && number - base < count;
            mine = if is_here { (place, number - base) } else { mine };
            let here = lanes.ballot(is_here).count();
            left -= here;
        }
        at += lanes.count();
    }
    assert!(left == 0, "lines that are taken stay published");
    let (address, bytes) = lines.locate(session, mine.0, mine.1);
    let length = usize::try_from(bytes).unwrap_or(usize::MAX);
    // SAFETY:
    // - the text stays until its lines are counted as taken, below
    // - the caller's memory has room for `most` bytes and a NUL, and no line is longer
    unsafe {
        copy_raw(Flow::In, memory as u64, address, bytes);
        memory.add(length).write(0);
    }
    lanes.sync();
    let mut rest = lanes.mask();
    // Ends: each round counts the lines of a place.
    while !rest.is_empty() {
        let place = lanes.broadcast(mine.0, rest.first());
        let here = lanes.ballot(mine.0 == place);
        if lanes.is_leader() {
            lines.count_taken(session, stream, place, u64::from(here.count()));
        }
        rest = rest.without(here);
    }
    if lanes.is_leader() {
        lines.leave();
    }
    length
}

/// Makes progress on the places of a stream that has no lines now: each lane on some, and the warp then indexes or publishes one of them.
/// Convergent. Waits for nothing.
// Apart from its callers, whose barriers would else be saved in its loops (docs/notes/reading-lines.md).
#[inline(never)]
pub(super) fn progress(session: &SessionTables, stream: &Stream, lanes: Lanes) -> Drained {
    let lines = &stream.lines;
    if !lanes.any(lanes.is_leader() && lines.enter_progress()) {
        return Drained::Elsewhere;
    }
    let (mut work, mut chosen, mut waiting) = (Work::Nothing, 0, None);
    // Ends: over the places.
    for place in (lanes.rank()..lines.place_count()).step_by(lanes.count() as usize) {
        if work == Work::Nothing {
            let ring;
            (work, ring) = lines.progress(session, stream, place);
            (chosen, waiting) = (place, ring.or(waiting));
        }
    }
    let publishing = lanes.any(work == Work::Publish);
    let indexing = lanes.ballot(work == Work::Index);
    let mut worked = false;
    if !publishing && !indexing.is_empty() {
        // Not all the same one.
        let hint = lanes.from_leader(u64::from(slot_hint(0))) % u64::from(indexing.count());
        #[allow(clippy::cast_possible_truncation, reason = "below a warp's width")]
        let place = lanes.broadcast(chosen, indexing.nth(hint as u32));
        worked = index(session, stream, lanes, place);
    }
    if publishing || worked {
        worked |= publish_ready(session, stream, lanes);
    }
    lanes.sync();
    if lanes.is_leader() {
        lines.leave_progress();
    }
    if worked {
        return Drained::Some;
    }
    drain_each(session, lanes, waiting)
}

/// Copies the text of a block that was read to its device memory and notes there where its lines end, unless another warp does; whether it
/// did. Convergent; active.
fn index(session: &SessionTables, stream: &Stream, lanes: Lanes, place: u32) -> bool {
    let lines = &stream.lines;
    if !lanes.any(lanes.is_leader() && lines.claim(place, Work::Index)) {
        return false;
    }
    let (from, text, ends) = lines.memory(session, place);
    let bytes = u64::from(lines.places[place as usize].got.peek());
    let most_lines = Lines::block_lines_max(session);
    // SAFETY:
    // - the place is this warp's: its buffer was read, and its text's memory, which is as long, nobody else touches
    // - blocks are made of whole words; after the text there is room for `most_lines` ends
    let found = unsafe {
        copy_together(lanes, Flow::In, text, from, bytes);
        lanes.sync();
        match lines.tokens() {
            None => note_ends(lanes, (text, bytes), ends, (most_lines, lines.line_bytes_max())),
            Some(kind) => {
                note_token_ends(lanes, (text, bytes), ends, (most_lines, lines.unit_bytes_max()), kind)
            }
        }
    };
    lanes.sync();
    if lanes.is_leader() {
        lines.indexed(place, found.count, found.tail, found.too_long || found.count > most_lines);
    }
    true
}

/// Bytes of a begun line that a lane carries over by itself, while its neighbours do so for the blocks behind.
const CARRIED_ALONE_MAX: u64 = 256;

/// Publishes the lines of the blocks that are next, as far as they are indexed and unless another warp does; whether it did. Convergent;
/// active.
#[inline(never)]
fn publish_ready(session: &SessionTables, stream: &Stream, lanes: Lanes) -> bool {
    let lines = &stream.lines;
    let mut worked = false;
    // Ends: blocks that are published come to no other turn before their lines are taken, so at most a round for each place, but for what
    // others take meanwhile; and with the file.
    loop {
        let Some(first) = lanes.on_leader(|| lines.claim_next()) else { return worked };
        publish_run(session, stream, lanes, first);
        worked = true;
    }
}

/// Publishes the block whose place `first` the leader has claimed, and those behind it that are indexed, each lane one. Convergent; active.
///
/// Published one after the other, they were the limit of a whole grid (docs/notes/reading-lines.md).
#[inline]
fn publish_run(session: &SessionTables, stream: &Stream, lanes: Lanes, first: u32) {
    let (lines, rank) = (&stream.lines, lanes.rank());
    let claimed = if rank == 0 { Some(first) } else { lines.claim_behind(first, rank) };
    let place = claimed.unwrap_or(first);
    // What a lane has acquired with its place, the lane of the block behind sees from here on.
    let claims = leading(lanes, claimed.is_some());
    let carried = if rank < claims { lines.carry(session, stream, place) } else { None };
    let (bytes, from) = carried.unwrap_or((0, 0));
    let is_short = bytes <= CARRIED_ALONE_MAX;
    // A block that is begun by a long line goes by itself, and nothing goes behind the file's last.
    let goes = carried.is_some() && (rank == 0 || is_short);
    let ends = !(is_short && lines.is_whole(stream, place));
    let mut run = leading(lanes, goes).min(leading(lanes, !ends) + 1);
    let (_, text, _) = lines.memory(session, place);
    if run == 1 {
        let [bytes, from] = [bytes, from].map(|word| lanes.from_leader(word));
        // SAFETY:
        // - in front of the first block's text there is room for `most` bytes, and no more are carried; the leader's lane has said where they lie
        // - the block before stays until they were
        unsafe { copy_together(lanes, Flow::In, lanes.from_leader(text) - bytes, from, bytes) };
    } else if rank < run {
        // SAFETY:
        // - in front of the text there is room for `most` bytes, and no more are carried
        // - the block before stays until they were
        unsafe { copy_raw(Flow::In, text - bytes, from, bytes) };
    }
    lanes.sync();
    if lines.tokens().is_some() {
        run = run.min(leading(lanes, rank >= run || begins_well(session, lines, place, bytes)));
    }
    let is_mine = rank < run;
    let before = if is_mine { lines.block_before(place) } else { None };
    let count = if is_mine { lines.note_carried(session, place, bytes) } else { 0 };
    let base = lines.published();
    let number = base + lanes.scan(count);
    if is_mine {
        lines.note_lines(place, number, count);
    } else if rank == 0 {
        lines.stop_at(place);
    } else if claimed.is_some() {
        lines.put_back(place);
    }
    lanes.sync();
    if rank + 1 == run {
        lines.grant_up_to(stream, place, base, number + count - base);
    }
    lanes.sync();
    if let Some(before) = before {
        lines.count_carried(session, stream, before);
    }
    lanes.sync();
}

/// How many lanes, from the leader on, hold a condition. Convergent.
fn leading(lanes: Lanes, holds: bool) -> u32 {
    let others = lanes.ballot(!holds);
    if others.is_empty() { lanes.count() } else { lanes.mask().rank(others.first()) }
}

/// Whether the first token of a claimed block is a number, once its bytes were carried over. One lane.
#[inline(never)]
fn begins_well(session: &SessionTables, lines: &Lines, place: u32, carried_bytes: u64) -> bool {
    let Some(kind) = lines.tokens() else { return true };
    // SAFETY:
    // - the text in front of the first end was read or carried over, and the place is the calling warp's
    unsafe { is_number(lines.first_token(session, place, carried_bytes), kind) }
}

/// After a call of whole lines under the lock: opens the stream's lines where such calls have become many. Convergent.
pub(super) fn consider(held: &LockedStream, room: u64) {
    let LockedStream { session, stream, lanes, .. } = *held;
    if !is_possible(session) || stream.is_kept() {
        return;
    }
    let least = lanes.from_leader(room);
    if !lanes.all(room >= least) {
        return;
    }
    if should_open(held) && least >= 2 {
        stream.lines.open(session, stream, u32::try_from(least - 1).unwrap_or(u32::MAX));
    }
}

/// After a call under the lock that lines or tokens would have served, of a stream that nobody keeps: whether the calling lane should open
/// them. Convergent.
pub(super) fn should_open(held: &LockedStream) -> bool {
    let LockedStream { stream, lanes, .. } = *held;
    lanes.sync();
    lanes.is_leader()
        && stream.direction() == Direction::Reading
        && stream.buffering() == Buffering::Full
        && held.file_flags() & OpenFile::SEEKABLE != 0
        && stream.flags.peek() & Stream::FLAG_EOF == 0
        && stream.pushed_count.peek() == 0
        && stream.lines.count_call(stream, lanes.count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::message::assert_comes_back;
    use proptest::prelude::*;

    #[test]
    fn every_answer_of_the_leader_comes_back() {
        for offer in [Offer::Closed, Offer::EndOfFile, Offer::LinesUpTo(0), Offer::LinesUpTo(u32::MAX)] {
            assert_comes_back(offer);
        }
        for opening in [Opening::Waits, Opening::Came, Opening::InVain] {
            assert_comes_back(opening);
        }
    }

    proptest! {
        #[test]
        fn every_length_comes_back(bytes: u32) {
            assert_comes_back(Offer::LinesUpTo(bytes));
        }
    }
}
