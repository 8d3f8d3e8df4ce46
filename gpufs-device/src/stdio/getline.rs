//! `getline(3)`, `getdelim(3)`: a line of any length, into memory that the caller makes longer.
//!
//! The caller's memory grows outside the library, between two steps of the call ([`File::getdelim_step`]). The first step serves lanes in lane order
//! up to the first whose line does not fit. That lane keeps the stream ([R-12]) until its line is whole, so the line is one unit; higher lanes
//! come again, and wait for it under the lock. Where a warp keeps the stream, for its lanes run in lockstep, nobody waits: the lane whose line
//! goes on comes first in each step.
//!
//! Lines that were read ahead and fit are taken as by `fgets`.
#![expect(unsafe_code, reason = "reads from the stream's buffer, writes to the caller's memory")]

use gpufs_core::failures::counted;
use gpufs_core::{Call, Errno};
use memchr::memchr;

use super::File;
use super::ahead::{self, Taken};
use super::lines::NEWLINE;
use super::lock::{LockedStream, with_lock};
use crate::io::DeviceRange;
use crate::warp::{Lanes, identity};

/// Bytes of a lane's memory at the first: as glibc's.
const FIRST_BYTES: usize = 120;

/// Memory for a line, which can be made longer.
pub trait LineBuffer {
    /// The memory: any bytes.
    fn memory(&mut self) -> &mut [u8];
    /// Makes it `bytes` long, which is more than before. What it holds stays.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn grow(&mut self, bytes: usize) -> Result<(), Errno>;
}

/// Memory that cannot be made longer: a line that needs more is `ENOMEM`.
impl LineBuffer for &mut [u8] {
    fn memory(&mut self) -> &mut [u8] {
        self
    }
    fn grow(&mut self, _: usize) -> Result<(), Errno> {
        Err(Errno::NOMEM)
    }
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum LineStep {
    /// The line is whole: its length, without the NUL behind it.
    Whole(usize),
    /// The memory is full up to its NUL, with this many bytes of the line. The caller keeps the stream until the line is whole.
    More(usize),
    /// Nothing was taken: the line of a lower lane comes first.
    Again,
    /// No line: the file ends.
    End,
}

impl File {
    /// Reads up to and with `delimiter`, or up to the end of the file, and adds a NUL, as `getdelim(3)`: the length, or `None` at the end of the
    /// file. Lanes that call together get one line after the other, in lane order.
    ///
    /// # Errors
    /// As [`File::fread`]; what `into` says when it grows: then the bytes read so far are in it, and the next call reads on behind them.
    pub fn getdelim(self, delimiter: u8, into: &mut impl LineBuffer) -> Result<Option<usize>, Errno> {
        let mut done = 0;
        // Ends: each step ends the line, or fills memory twice as long, or lets a lower lane have its line.
        loop {
            let room = into.memory().len();
            if room < 2 {
                into.grow(FIRST_BYTES)?;
                continue;
            }
            match self.getdelim_step(delimiter, into.memory(), done)? {
                LineStep::Whole(length) => return Ok(Some(length)),
                LineStep::End => return Ok(None),
                LineStep::Again => {}
                LineStep::More(count) => {
                    done = count;
                    if let Err(errno) = into.grow(room.saturating_mul(2)) {
                        self.leave_line();
                        return Err(errno);
                    }
                }
            }
        }
    }

    /// [`File::getdelim`] up to a newline, as `getline(3)`.
    ///
    /// # Errors
    /// As [`File::getdelim`].
    pub fn getline(self, into: &mut impl LineBuffer) -> Result<Option<usize>, Errno> {
        self.getdelim(NEWLINE, into)
    }

    /// A step of [`File::getdelim`], for callers with memory of their own kind: `into`, whose first `done` bytes an earlier step filled, which said
    /// [`LineStep::More`]; 0 for a new line. After `More` either another step follows, or [`File::leave_line`].
    ///
    /// # Errors
    /// As [`File::fread`]: then the stream is not kept. `EINVAL` where `into` has no room for another byte and a NUL.
    pub fn getdelim_step(self, delimiter: u8, into: &mut [u8], done: usize) -> Result<LineStep, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Getdelim);
        let fits = done.saturating_add(2) <= into.len();
        let mut mine = Line {
            memory: into.as_mut_ptr(),
            done: done as u64,
            most: into.len().saturating_sub(1) as u64,
            delimiter,
            goes_on: done > 0,
            outcome: if fits { Ok(LineStep::Again) } else { Err(Errno::INVAL) },
        };
        lanes.grouped(self.name(), |mut group| {
            let few = group.ballot(fits);
            if fits {
                group = group.subset(few);
                step(self, &mut group, &mut mine);
                // As in `fgets`.
                group.sync();
            }
        });
        counted(self.session, Call::Getdelim, mine.outcome)
    }

    /// Gives up a line of which a step said [`LineStep::More`]: the caller keeps the stream no longer.
    pub fn leave_line(self) {
        // The step kept it.
        let _ = self.funlockfile();
    }
}

/// A lane's line.
struct Line {
    /// The caller's memory.
    memory: *mut u8,
    /// Bytes of the line in it.
    done: u64,
    /// Room for the line, without its NUL.
    most: u64,
    delimiter: u8,
    /// An earlier step began it, and kept the stream.
    goes_on: bool,
    outcome: Result<LineStep, Errno>,
}

impl Line {
    /// Adds bytes, for which there is room.
    fn put(&mut self, bytes: &[u8]) {
        let at = usize::try_from(self.done).unwrap_or(usize::MAX);
        // SAFETY:
        // - the calling lane's `&mut [u8]` has room for `most` bytes and a NUL, and `done` is at most `most`
        let target = unsafe { self.memory.add(at) };
        // SAFETY:
        // - as above: `bytes` are at most `most - done`
        // - the stream's buffer is not the caller's memory
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
        self.done += bytes.len() as u64;
    }
    /// Adds the NUL; the length.
    fn end(&mut self) -> usize {
        let length = usize::try_from(self.done).unwrap_or(usize::MAX);
        let end = self.memory.wrapping_add(length);
        // SAFETY:
        // - the calling lane's `&mut [u8]` has room for `most` bytes and a NUL, and `done` is at most `most`
        unsafe { end.write(0) };
        length
    }
}

/// A step of every lane. Convergent; called by `group`, of which it leaves the part that returns together.
fn step(file: File, group: &mut Lanes, mine: &mut Line) {
    let begins = mine.delimiter == NEWLINE && !mine.goes_on;
    if ahead::is_possible(file.session)
        && group.all(begins)
        && let Taken::Lines(length) = ahead::take(file, *group, mine.memory, mine.most + 1)
    {
        mine.outcome = Ok(length.map_or(LineStep::End, LineStep::Whole));
        return;
    }
    *group = file.part_of(*group);
    let served = with_lock(file, *group, |held| {
        serve(held, mine);
        if group.all(mine.delimiter == NEWLINE) {
            ahead::consider(held, mine.most + 1);
        }
        Ok(())
    });
    if let Err(errno) = served {
        mine.outcome = Err(errno);
    }
}

/// Lines for lanes in lane order, but first for one whose line goes on, up to the first whose line does not fit. Convergent.
fn serve(held: &LockedStream, mine: &mut Line) {
    let lanes = held.lanes;
    let going_on = lanes.ballot(mine.goes_on);
    let rest = lanes.mask().without(going_on);
    for lane in going_on.iter().chain(rest.iter()) {
        let outcome = line(held, mine, lane);
        let is_mine = lanes.lane() == lane;
        if is_mine {
            mine.outcome = outcome;
        }
        let went_on = going_on.contains(lane);
        if matches!(outcome, Ok(LineStep::More(_))) {
            if !went_on {
                let keeper = lanes.broadcast(identity(), lane);
                held.update(|stream| stream.keep(keeper, 1));
            }
            // The others are to come again.
            return;
        }
        if went_on {
            held.update(|stream| {
                let _ = stream.keep_less(1);
            });
        }
    }
}

/// The line of one lane; all walk through the stream together. Convergent; valid in all.
fn line(held: &LockedStream, mine: &mut Line, lane: u32) -> Result<LineStep, Errno> {
    let lanes = held.lanes;
    let is_mine = lanes.lane() == lane;
    let most = lanes.broadcast(mine.most, lane);
    let delimiter = lanes.broadcast(u32::from(mine.delimiter), lane);
    let mut done = lanes.broadcast(mine.done, lane);
    held.prepare_reading()?;
    // Ends: each round takes bytes, or meets the line's end, the file's, or an error.
    let step = loop {
        if done == most {
            break LineStep::More(0);
        }
        let (count, is_last) = if let Some(byte) = held.take_pushed() {
            if is_mine {
                mine.put(&[byte]);
            }
            (1, u32::from(byte) == delimiter)
        } else {
            let Some((address, length)) = held.available(1)? else {
                break if done == 0 { LineStep::End } else { LineStep::Whole(0) };
            };
            // SAFETY:
            // - the buffer holds `length` bytes from `address` on, which the kernel wrote
            // - nobody writes it while the stream is held and no read is in flight
            let buffer = unsafe { DeviceRange::new(address, length.min(most - done)).slice() };
            #[expect(clippy::cast_possible_truncation, reason = "it was a byte")]
            let found = memchr(delimiter as u8, buffer);
            let piece = found.map_or(buffer, |at| &buffer[..=at]);
            if is_mine {
                mine.put(piece);
            }
            held.take(piece.len() as u64);
            (piece.len() as u64, found.is_some())
        };
        done += count;
        if is_last {
            break LineStep::Whole(0);
        }
    };
    let length = if is_mine && step != LineStep::End { mine.end() } else { 0 };
    Ok(match step {
        LineStep::Whole(_) => LineStep::Whole(length),
        LineStep::More(_) => LineStep::More(length),
        other => other,
    })
}
