//! A writer's events on their way to its trace's stream: in a piece of the writer's own, until there are many ([R-TRACE-1] to [R-TRACE-4]).
#![expect(unsafe_code, reason = "stores into pieces")]

use gpufs_core::Errno;
use gpufs_core::pieces::{HEAD_BYTES, PieceWords, Pieces, Place};
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
    pub(super) piece: u32,
    /// The owner's lane.
    pub(super) owner: u32,
    pub(super) place: Place,
    pub(super) words: &'static PieceWords,
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
        let pieces: &'static Pieces = &self.file.fs().session().pieces;
        let words = pieces.words(piece)?;
        let (owner, place) = words.place(self.file.stream_word())?;
        let owner = warp::lane_of(owner)?;
        lanes.mask().contains(owner).then_some(Open { piece, owner, place, words })
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
    pub(super) fn put_each(self, lanes: Lanes, event: &Encoded<'_>) -> Result<(), Errno> {
        // Together are those whose events are as long: then each lane knows where its own goes.
        let open = self.open_piece(lanes);
        let key = self.piece_key(open) << 16 | event.bytes();
        if !lanes.same(key) {
            return put_each_apart((self.file, self.sequence), (self.rest, self.piece), lanes, key, event);
        }
        match open {
            Some(open) => self.put_each_into_piece(lanes, open, event),
            None => put_into_stream(self.file, lanes, event, true),
        }
    }

    /// Writes events that are as long one behind the other. Convergent; called by `group`.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "as many events as lanes")]
    fn put_each_into_piece(self, group: Lanes, open: Open, event: &Encoded<'_>) -> Result<(), Errno> {
        let bytes = event.bytes() as u32;
        let total = group.count() * bytes;
        self.put_into_piece(group, open, (group.rank() * bytes, total, total), (event, true))
    }

    /// Writes the event of the owner of the piece of all these lanes, if it `writes`, of at most `most` bytes. Convergent; called by `lanes`.
    #[inline]
    pub(super) fn put_one(
        self,
        lanes: Lanes,
        open: Open,
        (event, writes): (&Encoded<'_>, bool),
        most: u32,
    ) -> Result<(), Errno> {
        #[expect(clippy::cast_possible_truncation, reason = "one event")]
        let taken = if writes { event.bytes() as u32 } else { 0 };
        self.put_into_piece(lanes, open, (0, most, taken), (event, writes))
    }

    /// The lane's event, if it writes one, goes `before` behind the piece's; all take at most `total`, and the owner says how much they did.
    /// Convergent; called by `group`.
    ///
    /// Up to here the event is handed on by reference, and what is seldom and not inlined takes the trace in parts that fit into registers: so
    /// what the compiler knows of both, such as an event's kind, is no question when words are stored. Handed on as values they were copied to a
    /// lane's memory and back at each step, byte by byte, which took half of a span's time.
    #[inline]
    fn put_into_piece(
        self,
        group: Lanes,
        open: Open,
        (before, total, taken): (u32, u32, u32),
        (event, writes): (&Encoded<'_>, bool),
    ) -> Result<(), Errno> {
        let mut place = open.place;
        if place.end + total > place.limit {
            // What would fill half of it gains nothing by it.
            if total > (place.limit - HEAD_BYTES) / 2 {
                return put_into_stream(self.file, group, event, writes);
            }
            place = Place::from_word(empty_piece(self.file, group, open.piece, open.owner, place.to_word())?);
        }
        let pieces = &self.file.fs().session().pieces;
        let target = pieces.address(open.piece) + u64::from(place.end + before);
        if writes {
            event.each_word(|index, word| {
                let place = (target as *mut u64).wrapping_add(index);
                // SAFETY:
                // - within the piece, as looked at, and each lane's own; the piece is its owner's, which is among the lanes
                unsafe { place.write(word.to_le()) };
            });
        }
        if group.lane() == open.owner {
            open.words.set(Place { end: place.end + taken, ..place });
        }
        // Whoever reads the piece next has met these lanes here, or the owner since.
        group.sync();
        Ok(())
    }

    /// Writes what the callers' pieces hold into the stream, and gives them back if `closes`. Convergent; called by `lanes`.
    #[inline(never)]
    pub(super) fn leave_pieces(self, lanes: Lanes, closes: bool) -> Result<(), Errno> {
        lanes.grouped(self.piece_key(self.open_piece(lanes)), |group| {
            let Some(open) = self.open_piece_together(group) else { return Ok(()) };
            let (pieces, place) = (&self.file.fs().session().pieces, open.place);
            let emptied = if place.is_empty() {
                Ok(place.to_word())
            } else {
                empty_piece(self.file, group, open.piece, open.owner, place.to_word())
            };
            if closes {
                // What the stream did not accept is given up with the piece.
                clear_piece(pieces, group, open.piece, emptied.map_or(place, Place::from_word).end);
                if group.lane() == open.owner {
                    pieces.release(open.piece, place);
                }
                group.sync();
            }
            emptied.map(drop)
        })
    }
}

/// [`Trace::put_each`] of lanes of which some have another piece, or a longer event; the trace in parts. Convergent; called by `lanes`.
#[inline(never)]
fn put_each_apart(
    (file, sequence): (File, u32),
    (rest, piece): (u32, u32),
    lanes: Lanes,
    key: u64,
    event: &Encoded<'_>,
) -> Result<(), Errno> {
    let trace = Trace::from_parts(file, sequence, rest, piece);
    lanes.grouped(key, |group| match trace.open_piece_together(group) {
        Some(open) => trace.put_each_into_piece(group, open, event),
        None => put_into_stream(file, group, event, true),
    })
}

/// Writes each lane's event, if it `writes` one, into the stream. Convergent.
#[inline(never)]
fn put_into_stream(file: File, group: Lanes, event: &Encoded<'_>, writes: bool) -> Result<(), Errno> {
    write(file, group, &Mine(writes.then_some(*event))).result().map(drop)
}

/// Writes the events of a piece, whose place is this word, into the stream; what that does not accept stays. The place of what is left. Convergent;
/// called by `group`; the result is the same in all.
///
/// Not inlined: what a call that finds room does should have the registers to itself.
#[inline(never)]
pub(super) fn empty_piece(
    file: File,
    group: Lanes,
    piece: u32,
    owner: u32,
    place: u64,
) -> Result<u64, Errno> {
    let (pieces, place) = (&file.fs().session().pieces, Place::from_word(place));
    group.sync();
    let (all, bytes) = (pieces.address(piece) + u64::from(place.start), u64::from(place.end - place.start));
    let mine = if group.is_leader() { (all, bytes) } else { (all + bytes, 0) };
    let written = write(file, group, &Events { at: mine.0, bytes: mine.1 });
    let failed = group.ballot(written.error.is_some());
    let accepted = sum(group, written.bytes as u64);
    #[expect(clippy::cast_possible_truncation, reason = "at most a piece")]
    let start = place.start + accepted as u32;
    let left = if start == place.end { Place::empty(place.limit) } else { Place { start, ..place } };
    if left.is_empty() {
        clear_piece(pieces, group, piece, place.end);
    }
    if group.lane() == owner {
        if left.start != place.start {
            pieces.tell(piece, left);
        }
        pieces.set(piece, left);
    }
    group.sync();
    if failed.is_empty() {
        return Ok(left.to_word());
    }
    let errno = written.error.map_or(0, |errno| errno.number().cast_unsigned());
    Err(Errno::from_number(group.broadcast(errno, failed.first()).cast_signed()))
}

/// Makes zeros of a piece's events, which end at `end`. Convergent.
fn clear_piece(pieces: &Pieces, group: Lanes, piece: u32, end: u32) {
    let from = pieces.address(piece);
    // Two at a time, beyond the end by one at most: a piece has whole pages, and behind its end are zeros.
    const WIDE: u32 = size_of::<u128>() as u32;
    // Ends: over the words.
    for at in (HEAD_BYTES / WIDE + group.rank()..end.div_ceil(WIDE)).step_by(group.count() as usize) {
        let words = (from + u64::from(at * WIDE)) as *mut u128;
        // SAFETY:
        // - within the piece, which is its owner's, who is among the lanes, each of which has words of its own; pages begin at multiples of 16
        unsafe { words.write(0) };
    }
    group.sync();
}

/// How many bytes all lanes have together. Convergent.
fn sum(group: Lanes, bytes: u64) -> u64 {
    group.broadcast(group.scan(bytes) + bytes, group.mask().last())
}
