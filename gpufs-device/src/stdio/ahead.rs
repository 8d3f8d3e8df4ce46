//! `fgets` without the lock (stage 3): lines that were read ahead (`gpufs_core::lines` has the rules), and the warps that read and index them.
#![allow(unsafe_code, reason = "moves text between buffers and the caller's memory")]

use gpufs_core::lines::{self, Taking, Work};
use gpufs_core::session::{OpenFile, Session, Stage};
use gpufs_core::stream::{Buffering, Direction, Stream};

use super::File;
use super::lock::Held;
use super::newlines::{Window, Words};
use crate::io::{Drained, Patience, copy_raw, copy_together, drain, drain_each, slot_hint};
use crate::warp::{LaneMask, Lanes};

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Taken {
    /// The lane's line has this length; `None`: the file ends.
    Lines(Option<usize>),
    /// The call has to take the lock.
    Closed,
}

/// Whether the session has memory for lines.
pub(super) const fn is_possible(session: &Session) -> bool {
    session.texts.base != 0
}

/// How often a call finds no lines before it goes to the lock, where the first come are the first served.
const BUSY_TRIES: u32 = 1_000;
/// How often it looks for lines between two tries.
const LOOKS_FOR_LINES: u32 = 16;

/// Lines after which one of those that take them looks after the places.
const LINES_A_LOOK: u64 = 512;
/// How often a call that finds a crowd at the lock looks whether lines open.
const LOOKS_FOR_OPENING: u32 = 32;

/// Waits a little where lines may be about to open, or the file to end; whether it seems that one of them has come. Convergent.
pub(super) fn await_opening(file: File, lanes: Lanes) -> bool {
    /// What the leader sees.
    const WAITS: u64 = 0;
    const CAME: u64 = 1;
    const IN_VAIN: u64 = 2;
    let (session, stream) = (file.session, file.stream());
    let mut patience = Patience::of_many(session);
    // Ends: a count.
    for _ in 0..LOOKS_FOR_OPENING {
        let seen = match lanes.is_leader() {
            true if stream.lines.is_flowing() || is_at_end(file) => CAME,
            true if !stream.lines.may_open(stream) => IN_VAIN,
            _ => WAITS,
        };
        match lanes.from_leader(seen) {
            WAITS => {}
            seen => return seen == CAME,
        }
        let drained = drain(session, lanes, stream.ring(session));
        patience.wait(drained, Stage::StreamLock, stream.ring(session), u64::from(file.index));
    }
    false
}

/// Every lane's line into its `memory` of `room` bytes, where the stream's lines are open and long enough ones fit. Convergent; called by
/// `lanes`.
pub(super) fn take(file: File, lanes: Lanes, memory: *mut u8, room: u64) -> Taken {
    /// Answers that are no length and no line's number.
    const CLOSED: u64 = u64::MAX;
    const BUSY: u64 = u64::MAX - 1;
    const END: u64 = u64::MAX - 2;
    let (session, stream) = (file.session, file.stream());
    let lines = &stream.lines;
    let mut word = CLOSED;
    if lanes.is_leader() {
        if lines.is_open() {
            word = u64::from(lines.most());
        } else if is_at_end(file) {
            word = END;
        }
    }
    let most = match lanes.from_leader(word) {
        CLOSED => return Taken::Closed,
        // A lane without room for a byte has its answer from elsewhere.
        END if lanes.all(room >= 2) => return Taken::Lines(None),
        most => most,
    };
    if !lanes.all(room > most) {
        return Taken::Closed;
    }
    let count = u64::from(lanes.count());
    let mut patience = Patience::of_many(session);
    let mut tries = 0;
    // Ends: reads complete, and this loop reaps, indexes, publishes and drains; and a count.
    loop {
        let word = if !lanes.is_leader() {
            0
        } else {
            match lines.try_take(stream, file.generation, count, most) {
                Taking::At(line) => line,
                Taking::Closed => CLOSED,
                Taking::Busy => BUSY,
            }
        };
        match lanes.from_leader(word) {
            CLOSED => return Taken::Closed,
            BUSY => {
                if tries == BUSY_TRIES {
                    return Taken::Closed;
                }
                tries += 1;
                // Ends: a count. To try costs more looks at the words, at which all the others look, too.
                for _ in 0..LOOKS_FOR_LINES {
                    let drained = tend(session, stream, lanes);
                    if lanes.any(lanes.is_leader() && lines.has_room(count)) {
                        break;
                    }
                    patience.wait(drained, Stage::StreamBlock, stream.ring(session), count);
                }
            }
            // From here to `leave` nothing is waited for.
            line => {
                let length = copy_out(session, stream, lanes, line, memory);
                // Also while there are lines enough, so that there will be.
                if line / LINES_A_LOOK != (line + count) / LINES_A_LOOK {
                    let _ = tend(session, stream, lanes);
                }
                return Taken::Lines(Some(length));
            }
        }
    }
}

/// Whether the end of the stream's file was met and not cleared, after which no call gets a line. One lane.
fn is_at_end(file: File) -> bool {
    let stream = file.stream();
    // ORDERING: acquire, device, partner the lock's hand-over, as far as the generation, which is constant while the stream is open: were
    // the flags of the entry's next stream, the generation would be, too. The flag alone says it: while it is set, nothing is buffered
    // or pushed back.
    let flags = stream.flags.observe();
    flags & Stream::END != 0
        && stream.direction() == Direction::Reading
        && stream.generation.peek() == file.generation
}

/// Copies the lines from `line` on that the lanes have taken, each its own; its length. Convergent. Waits for nothing.
fn copy_out(session: &Session, stream: &Stream, lanes: Lanes, line: u64, memory: *mut u8) -> usize {
    let lines = &stream.lines;
    let Some(found) = lines.find(session, line + u64::from(lanes.rank())) else {
        unreachable!("lines that are taken stay published")
    };
    let length = usize::try_from(found.bytes).unwrap_or(usize::MAX);
    // SAFETY:
    // - the text stays until its lines are counted as taken, below
    // - the caller's memory has room for `most` bytes and a NUL, and no line is longer
    unsafe {
        copy_raw(memory as u64, found.address, found.bytes);
        memory.add(length).write(0);
    }
    lanes.sync();
    let mut rest = lanes.mask();
    // Ends: each round counts the lines of a place.
    while !rest.is_empty() {
        #[allow(clippy::cast_possible_truncation, reason = "a place's number")]
        let place = lanes.broadcast(u64::from(found.place), rest.first()) as u32;
        let here = lanes.ballot(found.place == place);
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

/// Looks after the places of a stream that has no lines now: each lane after some, and the warp then indexes or publishes one of them.
/// Convergent. Waits for nothing.
fn tend(session: &Session, stream: &Stream, lanes: Lanes) -> Drained {
    let lines = &stream.lines;
    if !lanes.any(lanes.is_leader() && lines.begin_tending()) {
        return Drained::Elsewhere;
    }
    let (mut work, mut chosen, mut waiting) = (Work::Nothing, 0, None);
    // Ends: over the places.
    for place in (lanes.rank()..lines.place_count()).step_by(lanes.count() as usize) {
        if work == Work::Nothing {
            let ring;
            (work, ring) = lines.tend(session, stream, place);
            (chosen, waiting) = (place, ring.or(waiting));
        }
    }
    let publishing = lanes.ballot(work == Work::Publish);
    let indexing = lanes.ballot(work == Work::Index);
    let mut worked = false;
    if !publishing.is_empty() {
        worked = publish(session, stream, lanes, picked(lanes, chosen, publishing, 0));
    } else if !indexing.is_empty() {
        // Not all the same one.
        let hint = lanes.from_leader(u64::from(slot_hint(0))) % u64::from(indexing.count());
        #[allow(clippy::cast_possible_truncation, reason = "below a warp's width")]
        let place = picked(lanes, chosen, indexing, hint as u32);
        worked = index(session, stream, lanes, place);
    }
    lanes.sync();
    if lanes.is_leader() {
        lines.end_tending();
    }
    if worked {
        return Drained::Some;
    }
    drain_each(session, lanes, waiting)
}

/// What the lane of a rank in `among` has chosen. Convergent.
#[allow(clippy::cast_possible_truncation, reason = "a place's number")]
fn picked(lanes: Lanes, chosen: u32, among: LaneMask, rank: u32) -> u32 {
    lanes.broadcast(u64::from(chosen), among.nth(rank)) as u32
}

/// Copies the text of a block that was read to its device memory and notes there where its lines end, unless another warp does; whether it
/// did. Convergent; active.
fn index(session: &Session, stream: &Stream, lanes: Lanes, place: u32) -> bool {
    let lines = &stream.lines;
    if !lanes.any(lanes.is_leader() && lines.claim(place, Work::Index)) {
        return false;
    }
    let (from, text, ends) = lines.memory(session, place);
    let bytes = u64::from(lines.places[place as usize].got.peek());
    let (step, most_lines) = (Window::step(lanes), lines::Lines::most_lines(session));
    let end_at = |line: u32| (ends as *mut u32).wrapping_add(line as usize);
    let mut count = 0_u32;
    let mut at = 0;
    // SAFETY:
    // - the place is this warp's: its buffer was read, its text's memory nobody else touches
    let mut next = unsafe { Words::load(lanes, from, bytes) };
    // Ends: `at` grows.
    while at < bytes {
        let words = next;
        if at + step < bytes {
            // On its way while the window before is looked at.
            // SAFETY:
            // - as above
            next = unsafe { Words::load(lanes, from + at + step, bytes - at - step) };
        }
        // SAFETY:
        // - as above; blocks are made of whole words
        unsafe { words.store(lanes, text + at, bytes - at) };
        let window = Window::of(lanes, words, 0, bytes - at);
        window.for_each_own(|number, end| {
            let line = count + number;
            if line < most_lines {
                #[allow(clippy::cast_possible_truncation, reason = "at most a block")]
                let end = (at + end) as u32;
                // SAFETY:
                // - behind the text there is room for so many
                unsafe { end_at(line).write(end) };
            }
        });
        count += window.count();
        at += step;
    }
    lanes.sync();
    let fits = count <= most_lines;
    let mut too_long = false;
    if fits {
        // Ends: over the lines.
        for line in (lanes.rank()..count).step_by(lanes.count() as usize).filter(|line| *line > 0) {
            // SAFETY:
            // - written above, before the barrier
            let bytes = unsafe { end_at(line).read() - end_at(line - 1).read() };
            too_long |= bytes > lines.most();
        }
    }
    let unfit = lanes.any(too_long) || !fits;
    if lanes.is_leader() {
        let tail = if count == 0 || !fits {
            0
        } else {
            // SAFETY:
            // - as above
            unsafe { end_at(count - 1).read() }
        };
        lines.indexed(place, count, tail, unfit);
    }
    true
}

/// Publishes the lines of the block that is next, unless another warp does; whether it did. Convergent; active.
fn publish(session: &Session, stream: &Stream, lanes: Lanes, place: u32) -> bool {
    let lines = &stream.lines;
    if !lanes.any(lanes.is_leader() && lines.claim(place, Work::Publish)) {
        return false;
    }
    let carried = lines.carry(session, stream, place);
    if let Some((bytes, from)) = carried {
        let (_, text, _) = lines.memory(session, place);
        // SAFETY:
        // - in front of the text there is room for `most` bytes, and no more are carried
        // - the block before stays until they were
        unsafe { copy_together(lanes, text - bytes, from, bytes) };
    }
    lanes.sync();
    if lanes.is_leader() {
        match carried {
            Some((bytes, _)) => lines.publish(session, stream, place, bytes),
            None => lines.give_up(place),
        }
    }
    true
}

/// After a call of whole lines under the lock: opens the stream's lines where such calls have become many. Convergent.
pub(super) fn consider(held: &Held, room: u64) {
    let Held { session, stream, lanes, .. } = *held;
    if !is_possible(session) {
        return;
    }
    let least = lanes.from_leader(room);
    if !lanes.all(room >= least) {
        return;
    }
    lanes.sync();
    let fit = lanes.is_leader()
        && stream.direction() == Direction::Reading
        && stream.buffering() == Buffering::Full
        && held.file_flags() & OpenFile::SEEKABLE != 0
        && stream.flags.peek() & Stream::END == 0
        && stream.pushed_count.peek() == 0
        && least >= 2;
    if fit && stream.lines.count_call(stream, lanes.count()) {
        stream.lines.open(session, stream, u32::try_from(least - 1).unwrap_or(u32::MAX));
    }
}
