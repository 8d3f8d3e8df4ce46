//! The write path (stages 2 and 3): the lanes' records become one reservation, go into the stream's blocks, and full blocks go out.
//!
//! Here is a call as a whole, which takes either way. `fast` is the way without the lock and `locked` the one under it; `fill` copies
//! a reservation and commits it, and `place` is its copy. What a flush does is in [`super::flush`].

mod fast;
mod fill;
mod locked;
mod place;

use gpufs_core::stream::Stream;
use gpufs_core::{Call, Errno};

use self::fast::{piece_end, write_fast};
use self::locked::write_held;
use super::lock::{with_lock, with_lock_unless};
use super::{File, Transfer};
use crate::io::copy_alone;
use crate::warp::Lanes;

/// What one lane writes in one call.
pub(crate) trait Record {
    /// Its length in bytes.
    fn bytes(&self) -> u64;
    /// Puts its bytes from `skip` on into the whole of `into`.
    fn emit(&self, skip: u64, into: &mut [u8]);
    /// Whether it may hold a newline.
    fn has_newline(&self) -> bool;
    /// Where it lies as a whole, if it does.
    fn address(&self) -> Option<u64>;
    /// Where its bytes begin, or would, if those of the lanes that call together lie side by side, in memory that all of them reach. Of all lanes, or
    /// of none.
    fn side_by_side(&self) -> Option<u64> {
        None
    }
    /// Whether `emit` stores it in words as wide as a copy's: then a lane alone gains nothing by putting it somewhere else first.
    fn is_stored_in_words(&self) -> bool {
        self.address().is_some()
    }
}

impl Record for &[u8] {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }
    fn emit(&self, skip: u64, into: &mut [u8]) {
        #[allow(clippy::cast_possible_truncation, reason = "below the slice's length")]
        let start = skip as usize;
        copy_alone(into, &self[start..start + into.len()]);
    }
    fn has_newline(&self) -> bool {
        memchr::memchr(b'\n', self).is_some()
    }
    fn address(&self) -> Option<u64> {
        Some(self.as_ptr() as u64)
    }
}

/// Where a lane's record lies among those of its group.
struct LaneRecord<'a, R> {
    record: &'a R,
    /// Bytes of lower lanes.
    before: u64,
    /// Bytes of the whole group.
    total: u64,
}

impl<'a, R: Record> LaneRecord<'a, R> {
    /// The place of the caller's record. Convergent.
    #[inline]
    fn of(record: &'a R, group: Lanes) -> Self {
        let before = group.scan(record.bytes());
        let total = group.broadcast(before + record.bytes(), group.mask().last());
        Self { record, before, total }
    }
    /// What of the group's bytes [`from`, `to`) is this lane's: where it begins and ends. No bytes where the end is not above.
    #[inline]
    fn share_of(&self, (from, to): (u64, u64)) -> (u64, u64) {
        (self.before.max(from), (self.before + self.record.bytes()).min(to))
    }
}

/// How often a record may go back to the fast path that it found closed. A record too long for it comes here, too.
const FAST_TRIES: u32 = 3;

/// The position of the stream's file is ahead of the reader, and others share it: the stream has to be left where its reader stands before it is
/// written. Never an error of a call: `ERESTARTSYS` (512), which the kernel keeps to itself, too.
const STEP_BACK_FIRST: Errno = Errno::from_number(512);

/// Writes every lane's record to its file. Convergent; called by `lanes`.
pub(crate) fn write(file: File, lanes: Lanes, record: &impl Record) -> Transfer {
    lanes.grouped(file.name(), |mut group| {
        let mut part = LaneRecord::of(record, group);
        if part.total == 0 {
            return Transfer { bytes: 0, error: None };
        }
        let target = WriteTarget::of(file);
        let mut accepted = 0;
        let mut tries = 0;
        // Ends: each round takes in a lane's record at least, or is a try, the last of which does not look whether the fast path is open.
        let outcome = loop {
            if accepted == part.total {
                return Transfer { bytes: to_usize(record.bytes()), error: None };
            }
            let to = piece_end(target, group, &part, accepted);
            if write_fast(target, group, &part, accepted, to) {
                accepted = to;
                continue;
            }
            tries += 1;
            // Nothing was taken in where a lane keeps the stream: its fast path was closed all the time.
            let narrower = file.part_of(group);
            if narrower.mask() != group.mask() {
                group = narrower;
                part = LaneRecord::of(record, group);
                if part.total == 0 {
                    return Transfer { bytes: 0, error: None };
                }
            }
            let wanted = to - accepted;
            match write_slowly(file, group, &part, &mut accepted, (wanted, tries >= FAST_TRIES)) {
                None => {}
                // Not in `write_slowly`: on a GPU, each level of calls takes registers from all of them.
                Some(Err(STEP_BACK_FIRST)) => match leave_reading(file, group) {
                    Ok(()) => {}
                    failed => break failed,
                },
                Some(outcome) => break outcome,
            }
        };
        // The group wrote a prefix of all its bytes: a lane's share is what of it is its own.
        let mine = accepted.saturating_sub(part.before).min(record.bytes());
        // Where everything was taken, the error is the flush's, and concerns every lane of the call.
        let error = if mine < record.bytes() || accepted == part.total { outcome.err() } else { None };
        Transfer { bytes: to_usize(mine), error }
    })
}

/// Writes the group's remaining bytes under the lock. Returns `None`, having written nothing, if the fast path has reopened by the time
/// the lock is held with room for the `wanted` bytes of the next piece; `at_last` disables this. Convergent.
///
/// Room for less does not suffice: a warp that waits without the lock, for a stream that can grow, looks after no blocks, since the lock's holder is
/// to let it grow.
///
/// Not inlined: what a call that finds room does should have the registers to itself.
#[inline(never)]
fn write_slowly<R: Record>(
    file: File,
    lanes: Lanes,
    part: &LaneRecord<'_, R>,
    accepted: &mut u64,
    (wanted, at_last): (u64, bool),
) -> Option<Result<(), Errno>> {
    let needless = |stream: &Stream| {
        !at_last && stream.is_open() && (stream.has_available(wanted) || !stream.may_grow(file.session))
    };
    with_lock_unless(file, lanes, needless, |held| write_held(held, part, accepted))
}

/// The stream that a call writes to, and what of it never changes: found once, it stays in registers.
#[derive(Clone, Copy)]
struct WriteTarget {
    file: File,
    stream: &'static Stream,
    ring: u32,
}

impl WriteTarget {
    fn of(file: File) -> Self {
        let stream = file.stream();
        Self { file, stream, ring: stream.ring(file.session) }
    }
}

/// Leaves a stream where its reader stands. Convergent.
#[cold]
#[inline(never)]
fn leave_reading(file: File, lanes: Lanes) -> Result<(), Errno> {
    with_lock(file, lanes, |held| held.leave_reading().or_else(|errno| held.fail(errno)))
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl File {
    /// Writes bytes, as `fwrite(3)` with a size of 1: all of them, or an error.
    ///
    /// # Errors
    /// `EBADF` (closed, or not open for writing), or what a write met: `ENOSPC`, `EPIPE`, `EFBIG`, `EIO` … See the table at
    /// [`crate::stdio`] for errors of earlier calls.
    pub fn fwrite(self, bytes: &[u8]) -> Result<usize, Errno> {
        self.fwrite_counted(bytes).result()
    }

    /// As [`File::fwrite`], with the count also when there is an error.
    pub fn fwrite_counted(self, bytes: &[u8]) -> Transfer {
        let inside = match self.enter() {
            Ok(inside) => inside,
            Err(errno) => return Transfer { bytes: 0, error: Some(errno) },
        };
        let written = write(self, Lanes::calling(&inside, Call::Fwrite), &bytes);
        if let Some(errno) = written.error {
            self.session.note_failure(Call::Fwrite, errno);
        }
        written
    }
}
