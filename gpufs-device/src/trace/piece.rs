//! A writer's events on their way to its trace's stream: in a piece of the writer's own, until there are many ([R-TRACE-1] to [R-TRACE-4]).
#![expect(unsafe_code, reason = "stores into pieces")]

use gpufs_core::Errno;
use gpufs_core::pieces::{HEAD_BYTES, Place};
use gpufs_core::trace::Encoded;

use super::Trace;
use crate::io::{DeviceRange, copy_alone};
use crate::stdio::{File, Record, write};
use crate::warp::{self, Lanes, Machine, Warp};

/// What a lane writes in a call that several make together: its event, if it has one.
struct Mine<'a>(Option<Encoded<'a>>);

impl Record for Mine<'_> {
    fn bytes(&self) -> u64 {
        self.0.map_or(0, |event| event.bytes())
    }
    fn emit(&self, skip: u64, into: &mut [u8]) {
        if let Some(event) = self.0 {
            event.emit(skip, into);
        }
    }
    fn has_newline(&self) -> bool {
        self.0.is_some_and(|event| event.has_newline())
    }
    fn address(&self) -> Option<u64> {
        None
    }
    fn is_stored_in_words(&self) -> bool {
        true
    }
}

/// What a lane writes of a piece's events: the leader all of them, as one record, between whose packets nothing of others comes.
struct Events {
    /// Where the lane's begin, or would.
    at: u64,
    bytes: u64,
}

impl Record for Events {
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn emit(&self, skip: u64, into: &mut [u8]) {
        // SAFETY:
        // - a part of the piece, which is written by nobody while this call's lanes write it into the stream
        let from = unsafe { DeviceRange::new(self.at + skip, into.len() as u64).slice() };
        copy_alone(into, from);
    }
    /// Asked of streams that are buffered by lines: as if there were one.
    fn has_newline(&self) -> bool {
        true
    }
    fn address(&self) -> Option<u64> {
        Some(self.at)
    }
    fn side_by_side(&self) -> Option<u64> {
        Some(self.at)
    }
}

/// A piece whose owner is among the lanes of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    piece: u32,
    /// The owner's lane.
    pub(super) owner: u32,
    place: Place,
}

/// A piece for the lanes that open a trace together, whose leader owns it: its number and 1, or 0. Convergent.
pub(super) fn piece_for(file: File, group: Lanes) -> u32 {
    group.on_leader(|| {
        let pieces = &file.fs().session().pieces;
        let width = u64::from(Machine::width());
        let writers = warp::grid_threads().div_ceil(width);
        let Ok(descriptor) = file.file_number() else { return 0 };
        #[expect(clippy::cast_possible_truncation, reason = "a hint")]
        let Some((piece, place)) = pieces.claim((warp::global_thread() / width) as u32, writers) else {
            return 0;
        };
        pieces.begin(piece, place, warp::identity_of_lane(), (file.stream_word(), descriptor));
        piece + 1
    })
}

impl Trace {
    /// The piece of the trace, if its owner is among these lanes, which call together: the same in all that have the same piece, if they meet before
    /// the owner goes on.
    #[inline]
    pub(super) fn open_piece(self, lanes: Lanes) -> Option<Open> {
        let piece = self.piece.checked_sub(1)?;
        let (owner, place) = self.file.fs().session().pieces.place(piece, self.file.stream_word())?;
        let owner = warp::lane_of(owner)?;
        lanes.mask().contains(owner).then_some(Open { piece, owner, place })
    }

    /// What lanes have in common that go on together with a piece, or without: a number of 33 bits. A trace that is closed may name a piece that
    /// another has by now.
    #[inline]
    pub(super) fn piece_key(self, open: Option<Open>) -> u64 {
        u64::from(self.piece) << 1 | u64::from(open.is_some())
    }

    /// [`Trace::open_piece`] of lanes that have the same [`Trace::piece_key`], which meet then. Convergent.
    #[inline]
    pub(super) fn open_piece_together(self, group: Lanes) -> Option<Open> {
        let open = self.open_piece(group);
        group.sync();
        open
    }

    /// Writes each calling lane's event. Convergent; called by `lanes`.
    #[inline]
    pub(super) fn put_each(self, lanes: Lanes, event: Encoded<'_>) -> Result<(), Errno> {
        let bytes = event.bytes();
        // Together are those whose events are as long: then each lane knows where its own goes.
        let open = self.open_piece(lanes);
        let key = self.piece_key(open) << 16 | bytes;
        let put = |group: Lanes, open| match open {
            None => self.put_into_stream(group, Some(event)),
            #[expect(clippy::cast_possible_truncation, reason = "as many events as lanes")]
            Some(open) => {
                let (before, total) = (group.rank() * bytes as u32, group.count() * bytes as u32);
                self.put_into_piece(group, open, (before, total, total), Some(event))
            }
        };
        if lanes.same(key) {
            put(lanes, open)
        } else {
            lanes.grouped(key, |group| put(group, self.open_piece_together(group)))
        }
    }

    /// Writes each lane's event, if it has one, into the stream. Convergent.
    #[inline(never)]
    fn put_into_stream(self, group: Lanes, event: Option<Encoded<'_>>) -> Result<(), Errno> {
        write(self.file, group, &Mine(event)).result().map(drop)
    }

    /// Writes the event of the owner of the piece of all these lanes, if it has one, of at most so many bytes. Convergent; called by `lanes`.
    #[inline]
    pub(super) fn put_one(
        self,
        lanes: Lanes,
        open: Open,
        event: Option<Encoded<'_>>,
        most: u32,
    ) -> Result<(), Errno> {
        #[expect(clippy::cast_possible_truncation, reason = "one event")]
        let taken = event.map_or(0, |event| event.bytes() as u32);
        self.put_into_piece(lanes, open, (0, most, taken), event)
    }

    /// The lane's event goes `before` behind the piece's; all take at most `total`, and the owner says how much they did. Convergent; called by
    /// `group`.
    #[inline]
    fn put_into_piece(
        self,
        group: Lanes,
        mut open: Open,
        (before, total, taken): (u32, u32, u32),
        event: Option<Encoded<'_>>,
    ) -> Result<(), Errno> {
        if open.place.end + total > open.place.limit {
            // What would fill half of it gains nothing by it.
            if total > (open.place.limit - HEAD_BYTES) / 2 {
                return self.put_into_stream(group, event);
            }
            self.empty_piece(group, &mut open)?;
        }
        let (pieces, place) = (&self.file.fs().session().pieces, open.place);
        let target = pieces.address(open.piece) + u64::from(place.end + before);
        if let Some(event) = event {
            event.each_word(|index, word| {
                let place = (target as *mut u64).wrapping_add(index);
                // SAFETY:
                // - within the piece, as looked at, and each lane's own; the piece is its owner's, which is among the lanes
                unsafe { place.write(word.to_le()) };
            });
        }
        if group.lane() == open.owner {
            pieces.set(open.piece, Place { end: place.end + taken, ..place });
        }
        // Whoever reads the piece next has met these lanes here, or the owner since.
        group.sync();
        Ok(())
    }

    /// Writes a piece's events into the stream; what that does not accept stays. Convergent; called by `group`; the result is the same in all.
    ///
    /// Not inlined: what a call that finds room does should have the registers to itself.
    #[inline(never)]
    fn empty_piece(self, group: Lanes, open: &mut Open) -> Result<(), Errno> {
        let (pieces, place) = (&self.file.fs().session().pieces, open.place);
        group.sync();
        let (all, bytes) =
            (pieces.address(open.piece) + u64::from(place.start), u64::from(place.end - place.start));
        let mine = if group.is_leader() { (all, bytes) } else { (all + bytes, 0) };
        let written = write(self.file, group, &Events { at: mine.0, bytes: mine.1 });
        let failed = group.ballot(written.error.is_some());
        let accepted = sum(group, written.bytes as u64);
        #[expect(clippy::cast_possible_truncation, reason = "at most a piece")]
        let start = place.start + accepted as u32;
        open.place = if start == place.end { Place::empty(place.limit) } else { Place { start, ..place } };
        if open.place.is_empty() {
            self.clear_piece(group, open.piece, place.end);
        }
        if group.lane() == open.owner {
            if open.place.start != place.start {
                pieces.tell(open.piece, open.place);
            }
            pieces.set(open.piece, open.place);
        }
        group.sync();
        if failed.is_empty() {
            return Ok(());
        }
        let errno = written.error.map_or(0, |errno| errno.number().cast_unsigned());
        Err(Errno::from_number(group.broadcast(errno, failed.first()).cast_signed()))
    }

    /// Makes zeros of a piece's events, which end at `end`. Convergent.
    fn clear_piece(self, group: Lanes, piece: u32, end: u32) {
        let from = self.file.fs().session().pieces.address(piece);
        // Ends: over the words.
        for at in (HEAD_BYTES / 8 + group.rank()..end / 8).step_by(group.count() as usize) {
            let word = (from + u64::from(at) * 8) as *mut u64;
            // SAFETY:
            // - within the piece, which is its owner's, who is among the lanes, each of which has words of its own
            unsafe { word.write(0) };
        }
        group.sync();
    }

    /// Writes what the callers' pieces hold into the stream, and gives them back if `closes`. Convergent; called by `lanes`.
    #[inline(never)]
    pub(super) fn leave_pieces(self, lanes: Lanes, closes: bool) -> Result<(), Errno> {
        lanes.grouped(self.piece_key(self.open_piece(lanes)), |group| {
            let Some(mut open) = self.open_piece_together(group) else { return Ok(()) };
            let emptied = if open.place.is_empty() { Ok(()) } else { self.empty_piece(group, &mut open) };
            if closes {
                self.clear_piece(group, open.piece, open.place.end);
                if group.lane() == open.owner {
                    self.file.fs().session().pieces.release(open.piece, open.place);
                }
                group.sync();
            }
            emptied
        })
    }
}

/// How many bytes all lanes have together. Convergent.
fn sum(group: Lanes, bytes: u64) -> u64 {
    group.broadcast(group.scan(bytes) + bytes, group.mask().last())
}
