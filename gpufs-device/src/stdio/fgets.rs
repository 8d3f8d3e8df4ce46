//! `fgets(3)` (stages 1 and 9).
//!
//! Lanes that call together get one line after the other, in lane order. A stream from which whole warps take lines again and again is
//! read ahead, and its lines are taken without its lock (`ahead`); any other under it. There, where lanes copy together they look for
//! the lines' ends together ([`Window`]) and copy them all at once; where not, one lane after the other looks for its own.
#![allow(unsafe_code, reason = "reads from the stream's buffer, writes to the caller's memory")]

use core::ffi::CStr;

use gpufs_core::failures::counted;
use gpufs_core::stream::Stream;
use gpufs_core::{Call, Errno};
use memchr::memchr;

use super::File;
use super::ahead::{self, Taken};
use super::lines::NEWLINE;
use super::lock::{LockedStream, with_lock_unless};
use super::newlines::Window;
use crate::io::{DeviceRange, Flow, copy_lanes};
use crate::warp::{LaneMask, Lanes, Machine, Warp};

/// What an unbuffered stream may read at once, so that it does not read past the line.
const AT_LEAST: u64 = 1;

impl File {
    /// Reads a line with its newline and adds a NUL, as `fgets(3)`: at most `into.len() − 1` bytes. The line, or `None` at the end
    /// of the file or where `into` has no room. Lanes that call together get one line after the other, in lane order.
    ///
    /// # Errors
    /// As [`File::fread`].
    // Inlined into a caller's loop it had an eighth of the rate on a GPU (docs/results). Why was not looked into; it is supposed that lanes then
    // leave the loop's round one by one, and each comes to the next call alone.
    #[inline(never)]
    pub fn fgets(self, into: &mut [u8]) -> Result<Option<&CStr>, Errno> {
        let (memory, room) = (into.as_mut_ptr(), into.len() as u64);
        let inside = self.enter()?;
        let line = Lanes::calling(&inside, Call::Fgets).grouped(self.name(), |mut group| {
            let line = take(self, &mut group, memory, room).map(|length| {
                // SAFETY:
                // - `memory` is `into`'s, of which `length` bytes and a NUL after them were filled
                let bytes = length.map(|length| unsafe { core::slice::from_raw_parts(memory, length + 1) });
                // A line that holds NUL bytes is cut at the first, as C reads it.
                bytes.and_then(|bytes| CStr::from_bytes_until_nul(bytes).ok())
            });
            // Lines differ in length, and lanes that come to the next call one by one make it one by one.
            group.sync();
            line
        });
        counted(self.session, Call::Fgets, line)
    }
}

/// How often a call may go back to the lines that it found closed.
const FAST_TRIES: u32 = 3;

/// Every lane's line into its `memory` of `room` bytes: its length, or `None` for no line. Convergent; called by `group`, of which it leaves
/// the part that returns together.
fn take(file: File, group: &mut Lanes, memory: *mut u8, room: u64) -> Result<Option<usize>, Errno> {
    if ahead::is_possible(file.session)
        && let Taken::Lines(length) = ahead::take(file, *group, memory, room)
    {
        return Ok(length);
    }
    let (part, outcome) = take_slowly(file, *group, memory, room);
    *group = part;
    outcome
}

/// [`take`] where no lines were found: the part that returns together, and the outcome.
// Apart from `take`, whose callers' barriers would else be saved in each loop below (docs/notes/reading-lines.md).
#[inline(never)]
fn take_slowly(
    file: File,
    mut group: Lanes,
    memory: *mut u8,
    room: u64,
) -> (Lanes, Result<Option<usize>, Errno>) {
    let is_possible = ahead::is_possible(file.session);
    let mut tries = 1;
    let mut looks_again = is_possible && ahead::await_opening(file, group);
    // Ends: a count, the last of which does not look whether lines are open.
    loop {
        if looks_again {
            if let Taken::Lines(length) = ahead::take(file, group, memory, room) {
                return (group, Ok(length));
            }
            tries += 1;
        }
        group = file.part_of(group);
        let needless = |stream: &Stream| is_possible && tries < FAST_TRIES && stream.lines.is_flowing();
        let held = with_lock_unless(file, group, needless, |held| take_held(held, memory, room));
        if let Some(outcome) = held {
            return (group, outcome);
        }
        looks_again = true;
    }
}

/// [`take`] under the lock.
#[inline(never)]
fn take_held(held: &LockedStream, memory: *mut u8, room: u64) -> Result<Option<usize>, Errno> {
    let outcome = if Machine::COPIES_WORDS || held.session.copies_together() {
        lines_together(held, memory, room)
    } else {
        lines_in_turn(held, memory, room)
    };
    ahead::consider(held, room);
    outcome
}

/// What a lane has of its line.
struct Begun {
    /// The caller's memory.
    memory: *mut u8,
    /// Bytes in it so far: at most `most`.
    done: u64,
    /// Room for the line, without its NUL.
    most: u64,
    /// What the lane's call will say: a length, or `None` for no line.
    outcome: Result<Option<usize>, Errno>,
}

impl Begun {
    /// Adds a byte, for which there is room.
    fn put(&mut self, byte: u8) {
        // SAFETY:
        // - the calling lane's `&mut [u8]` has room for `most` bytes and a NUL, and `done` is below `most`
        unsafe { self.memory.add(usize::try_from(self.done).unwrap_or(usize::MAX)).write(byte) };
        self.done += 1;
    }
    /// The line is whole.
    fn end(&mut self) {
        let length = usize::try_from(self.done).unwrap_or(usize::MAX);
        // SAFETY:
        // - the calling lane's `&mut [u8]` has room for `most` bytes and a NUL, and `done` is at most `most`
        unsafe { self.memory.add(length).write(0) };
        self.outcome = Ok(Some(length));
    }
}

/// Every lane's line into its `memory` of `room` bytes. Convergent.
fn lines_together(held: &LockedStream, memory: *mut u8, room: u64) -> Result<Option<usize>, Errno> {
    let lanes = held.lanes;
    let mut mine = Begun { memory, done: 0, most: room.saturating_sub(1), outcome: Ok(None) };
    // A line without room for a byte takes nothing from the stream.
    if room == 1 {
        mine.end();
    }
    let mut rest = lanes.ballot(mine.most > 0);
    let (mut prepared, mut pushed) = (false, true);
    // Ends: each round takes bytes for the first lane, or ends its call, or finds that nothing is pushed back.
    while !rest.is_empty() {
        let first = rest.first();
        let is_first = lanes.lane() == first;
        let available = if prepared { Ok(()) } else { held.prepare_reading() };
        prepared = true;
        if available.is_ok() && pushed {
            let byte = held.take_pushed();
            pushed = byte.is_some();
            if let Some(byte) = byte {
                if is_first {
                    mine.put(byte);
                }
                if lanes.any(is_first && (byte == NEWLINE || mine.done == mine.most)) {
                    if is_first {
                        mine.end();
                    }
                    rest = rest.without(LaneMask(1 << first));
                }
            }
            continue;
        }
        match available.and_then(|()| held.available(AT_LEAST)) {
            Ok(Some(text)) => rest = take_lines(held, &mut mine, rest, text),
            // The end of the file is sticky: it is there for the other lanes, too.
            Ok(None) => {
                if is_first && mine.done > 0 {
                    mine.end();
                }
                break;
            }
            // The next lane meets its own.
            Err(errno) => {
                if is_first {
                    mine.outcome = Err(errno);
                }
                rest = rest.without(LaneMask(1 << first));
                prepared = false;
            }
        }
    }
    mine.outcome
}

/// Takes for the lanes in `rest` what they get of a window of the `text`, an address and a length: the first lane goes on with the line
/// that it has begun, the others begin theirs. The lanes whose lines are then not whole. Convergent.
///
/// As long as no line is longer than the room for it, the line of the lane of rank `k` in `rest` ends with newline number `k`. Of
/// lanes whose line is longer only the lowest can be told so: there the round ends, and the next begins where its room does.
fn take_lines(
    held: &LockedStream,
    mine: &mut Begun,
    rest: LaneMask,
    (address, length): (u64, u64),
) -> LaneMask {
    let lanes = held.lanes;
    // SAFETY:
    // - the buffer holds `length` bytes from `address` on, and nobody writes it while the stream is held and no read is in flight
    // - buffers are made of whole words, and aligned to them
    let window = unsafe { Window::new(lanes, address, length) };
    let waits = rest.contains(lanes.lane());
    let rank = if waits { rest.rank(lanes.lane()) } else { 0 };
    let end = window.end_of(rank);
    let until = end.unwrap_or(window.bytes);
    // The line of the lane before ends where this one's starts.
    let below = LaneMask(rest.0 & ((1 << lanes.lane()) - 1));
    let before = lanes.shuffle(until, if below.is_empty() { lanes.lane() } else { below.last() });
    let start = if below.is_empty() { 0 } else { before };
    let room = mine.most - mine.done;
    // The lane after the last newline has its share of what follows it; those above have nothing.
    let reached = waits && rank <= window.count();
    let bound = lanes.ballot(reached && until - start > room);
    let reached = lanes.ballot(reached);
    let last = if bound.is_empty() { reached.last() } else { bound.first() };
    let until = if bound.contains(lanes.lane()) { start + room } else { until };
    let count = if waits && lanes.lane() <= last { until - start } else { 0 };
    let target = (mine.memory as u64).wrapping_add(mine.done);
    // SAFETY:
    // - the text can be read, as above
    // - `memory` is the calling lane's `&mut [u8]`, which has room for `most` bytes, and `done + count` is no more; the lane goes on after
    //   the barrier in `take`
    unsafe { copy_lanes(held.session, lanes, Flow::In, (target, address + start, count)) };
    held.take(lanes.broadcast(until, last));
    mine.done += count;
    let whole = waits && lanes.lane() <= last && (end == Some(until) || mine.done == mine.most);
    if whole {
        mine.end();
    }
    rest.without(lanes.ballot(whole))
}

/// Every lane's line into its `memory` of `room` bytes. One lane after the other; all walk through the stream together. Convergent.
fn lines_in_turn(held: &LockedStream, memory: *mut u8, room: u64) -> Result<Option<usize>, Errno> {
    let lanes = held.lanes;
    let mut mine = Ok(None);
    for lane in lanes.mask().iter() {
        let most = lanes.broadcast(room, lane);
        let target = if lanes.lane() == lane { Some(memory) } else { None };
        let outcome = line(held, target, most);
        if lanes.lane() == lane {
            mine = outcome;
        }
    }
    mine
}

/// One lane's line: `target` in that lane, `None` in the others. Convergent.
fn line(held: &LockedStream, target: Option<*mut u8>, room: u64) -> Result<Option<usize>, Errno> {
    let put = |at: u64, bytes: &[u8]| {
        if let Some(target) = target {
            // SAFETY:
            // - `target` is the calling lane's `&mut [u8]` of `room` bytes, and `at + bytes.len()` is at most `room` below
            // - the stream's buffer is not the caller's memory
            unsafe {
                let at = target.add(usize::try_from(at).unwrap_or(usize::MAX));
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
            }
        }
    };
    let Some(most) = room.checked_sub(1) else { return Ok(None) };
    if most > 0 {
        held.prepare_reading()?;
    }
    let mut done = 0;
    // Ends: each round takes bytes, or meets the line's end, the file's, or an error.
    while done < most {
        if let Some(byte) = held.take_pushed() {
            put(done, &[byte]);
            done += 1;
            if byte == NEWLINE {
                break;
            }
            continue;
        }
        let Some((address, length)) = held.available(AT_LEAST)? else {
            if done == 0 {
                return Ok(None);
            }
            break;
        };
        // SAFETY:
        // - the buffer holds `length` bytes from `address` on, which the kernel wrote
        // - nobody writes it while the stream is held and no read is in flight
        let buffer = unsafe { DeviceRange::new(address, length.min(most - done)).slice() };
        let found = memchr(NEWLINE, buffer);
        let piece = found.map_or(buffer, |at| &buffer[..=at]);
        put(done, piece);
        let count = piece.len() as u64;
        held.take(count);
        done += count;
        if found.is_some() {
            break;
        }
    }
    put(done, &[0]);
    Ok(Some(usize::try_from(done).unwrap_or(usize::MAX)))
}
