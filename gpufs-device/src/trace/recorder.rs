//! A warp's events from registers: where the next one goes is known without a look at the piece, and without a question to the other lanes.
#![expect(unsafe_code, reason = "stores into the piece")]

use core::marker::PhantomData;

use gpufs_core::failures::counted;
use gpufs_core::pieces::{PieceWords, Pieces, Place};
use gpufs_core::trace::{self as packets, Encoded, Kind, SHORT_SEQUENCE_BITS, TimePrefix};
use gpufs_core::word::{store_if, store_two_if};
use gpufs_core::{Call, Errno};

use super::event::{Counter, Event, Values};
use super::piece::empty_piece;
use super::{Trace, put_record};
use crate::inside::Inside;
use crate::stdio::{File, Record};
use crate::warp::{self, CallSite, Lanes, Machine, Warp};

/// The events of one warp on its track, each in the time of some 30 instructions. Of the lanes that opened the trace together the lowest writes,
/// as where it begins spans for all; what the others record is nothing, so that no lane asks another. Lanes that record the same events help that
/// one when its memory is full, and need not.
///
/// While a warp has a recorder, its other events take the way into the stream. It is finished, or dropped, before the trace is closed.
#[derive(Debug)]
pub struct Recorder {
    trace: Trace,
    /// The address where the next event goes, and the bytes from there to the piece's end; 0 and 0 where there is none.
    next: u64,
    room: u32,
    /// The lane that writes, and whether it is this one.
    owner: u32,
    writes: bool,
    /// What packets have in common for now.
    prefix: TimePrefix,
    /// A lane's own.
    lane: PhantomData<*const ()>,
}

/// Where the lanes that call together are told from those in other calls.
static MAKE: CallSite = CallSite::new();
static ALONE: CallSite = CallSite::new();
static ROOM: CallSite = CallSite::new();
static BACK: CallSite = CallSite::new();

/// What a [`Recorder`] is made of besides its trace, for C.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct RecorderParts {
    /// Where the next event goes.
    pub next: u64,
    /// Bytes that have room there.
    pub room: u32,
    /// The lane that writes.
    pub owner: u32,
    /// Whether it is this one.
    pub writes: bool,
    /// What packets have in common for now.
    pub prefix: TimePrefix,
}

/// Where a recorder is in its piece, and 0 or why what that holds could not be written.
#[derive(Clone, Copy)]
struct Room {
    next: u64,
    room: u32,
    failed: i32,
}

impl Trace {
    /// A recorder for the lanes that call, which have opened the trace together.
    ///
    /// # Errors
    /// `EBADF`: the session is closed.
    pub fn recorder(self) -> Result<Recorder, Errno> {
        let _inside = self.file.enter()?;
        let lanes = Lanes::calling_at(&MAKE);
        let pieces = &self.file.fs().session().pieces;
        let none = Recorder {
            trace: self,
            next: 0,
            room: 0,
            owner: 0,
            writes: self.owns_track(),
            prefix: self.prefix(),
            lane: PhantomData,
        };
        // What follows takes numbers of sequences to be short.
        let is_short = self.sequence >> SHORT_SEQUENCE_BITS == 0;
        let key = self.piece_key(self.open_piece(lanes)) << 1 | u64::from(is_short);
        Ok(lanes.grouped(key, |group| {
            let Some(open) = self.open_piece_together(group).filter(|_| is_short) else { return none };
            if group.lane() == open.owner {
                open.words.lend(mark(open.owner));
            }
            group.sync();
            let begin = pieces.address(open.piece);
            let (next, room) = (begin + u64::from(open.place.end), open.place.limit - open.place.end);
            Recorder { next, room, owner: open.owner, writes: group.lane() == open.owner, ..none }
        }))
    }
}

impl Recorder {
    /// Begins a span of the warp. [`Recorder::end`] ends the one that was begun last, of those that have not ended.
    ///
    /// # Errors
    /// In the lane that writes: `EINVAL` for an event of another trace; as [`File::fwrite`](crate::File::fwrite), and then the event is lost.
    #[inline]
    pub fn begin<const N: usize>(&mut self, event: Event<N>, values: impl Values<N>) -> Result<(), Errno> {
        self.put_event(Kind::Begin, event, values)
    }
    /// Ends a span.
    ///
    /// # Errors
    /// As [`Recorder::begin`].
    #[inline]
    pub fn end(&mut self) -> Result<(), Errno> {
        self.put(Recorded { kind: Kind::End, name: 0, track: None, value_names: [], values: [] })
    }
    /// A moment of the warp.
    ///
    /// # Errors
    /// As [`Recorder::begin`].
    #[inline]
    pub fn instant<const N: usize>(&mut self, event: Event<N>, values: impl Values<N>) -> Result<(), Errno> {
        self.put_event(Kind::Instant, event, values)
    }
    /// A counter's value from now on.
    ///
    /// # Errors
    /// As [`Recorder::begin`].
    #[inline]
    pub fn set(&mut self, counter: Counter, value: impl Into<packets::Value>) -> Result<(), Errno> {
        let (trace, track) = counter.into_parts();
        self.check(trace)?;
        let (track, values) = (Some(track), [value.into()]);
        self.put(Recorded { kind: Kind::Counter, name: 0, track, value_names: [0], values })
    }
    /// An event of a kind by its trace and the numbers of its names, for C.
    ///
    /// # Errors
    /// As [`Recorder::begin`]; `EINVAL` for more than four values.
    #[doc(hidden)]
    pub fn record(
        &mut self,
        kind: Kind,
        trace: Trace,
        name: u32,
        (names, values): (&[u32], &[packets::Value]),
    ) -> Result<(), Errno> {
        self.check(trace)?;
        match values.len() {
            0 => self.put(Recorded::<0>::of(kind, name, names, values)?),
            1 => self.put(Recorded::<1>::of(kind, name, names, values)?),
            2 => self.put(Recorded::<2>::of(kind, name, names, values)?),
            3 => self.put(Recorded::<3>::of(kind, name, names, values)?),
            _ => self.put(Recorded::<4>::of(kind, name, names, values)?),
        }
    }
    /// What it is made of besides its trace, for C; it is not finished by it.
    #[doc(hidden)]
    #[must_use]
    pub const fn into_parts(self) -> RecorderParts {
        let Self { next, room, owner, writes, prefix, .. } = self;
        core::mem::forget(self);
        RecorderParts { next, room, owner, writes, prefix }
    }
    /// The recorder of these parts.
    ///
    /// # Safety
    /// They are those of one of this trace and lane, of which there is no other now.
    #[doc(hidden)]
    #[must_use]
    pub const unsafe fn from_parts(trace: Trace, parts: RecorderParts) -> Self {
        let RecorderParts { next, room, owner, writes, prefix } = parts;
        Self { trace, next, room, owner, writes, prefix, lane: PhantomData }
    }
    /// Gives the warp's other events their way back. So does dropping it.
    pub fn finish(self) {
        drop(self);
    }

    #[inline]
    fn put_event<const N: usize>(
        &mut self,
        kind: Kind,
        event: Event<N>,
        values: impl Values<N>,
    ) -> Result<(), Errno> {
        let (trace, name, value_names) = event.into_parts();
        self.check(trace)?;
        self.put(Recorded { kind, name, track: None, value_names, values: values.values() })
    }

    /// Begins a call. On the host a recorder may outlive its session, its kernel, or its piece, which the host takes when nothing runs: then what is
    /// recorded goes into the stream.
    #[inline]
    fn look(&mut self) -> Result<Inside, Errno> {
        let inside = self.trace.file.enter()?;
        if OUTLIVES && self.writes && self.next != 0 {
            let words = piece_of(self.trace.file, self.trace.piece);
            if !words.is_some_and(|(words, ..)| words.is_lent(mark(self.owner))) {
                (self.next, self.room) = (0, 0);
            }
        }
        Ok(inside)
    }

    /// Numbers of names are a sequence's own.
    #[inline]
    fn check(&self, trace: Trace) -> Result<(), Errno> {
        let is_own = trace.sequence == self.trace.sequence && trace.file.name() == self.trace.file.name();
        if is_own || !self.writes {
            Ok(())
        } else {
            counted(trace.file.fs().session(), Call::TraceEvent, Err(Errno::INVAL))
        }
    }

    #[inline]
    fn put<const N: usize>(&mut self, event: Recorded<N>) -> Result<(), Errno> {
        if N > 0 {
            return self.put_any(event);
        }
        let inside = self.look()?;
        let clock = Machine::clock();
        // In one line, without a branch before the end: each takes as long as what is done here. While the clock is on its way the words are stored
        // that it has no part in. Where its upper bits are others, these are stored again: a packet is none before its first word is there
        // ([R-TRACE-2]).
        let (has_room, target) = (self.room >= TimePrefix::BYTES, self.next as *mut u64);
        let rest = self.prefix.rest(event.kind, event.name).map(u64::to_le);
        // SAFETY:
        // - within the piece, where there is room, which is lent to this recorder: on the host `look` found it so within this call, and on a GPU
        //   nobody takes it while the kernel runs
        unsafe { store_two_if(self.writes && has_room, target.wrapping_add(1), rest) };
        let is_whole = has_room && self.prefix.is_of(clock);
        // SAFETY:
        // - as above
        unsafe { store_if(self.writes && is_whole, target, self.prefix.first(clock).to_le()) };
        let taken = if is_whole { TimePrefix::BYTES } else { 0 };
        (self.next, self.room) = (self.next + u64::from(taken), self.room - taken);
        drop(inside);
        if is_whole {
            return Ok(());
        }
        let (trace, Self { next, room, owner, writes, .. }) = (self.trace, &*self);
        let (of, parts, place) = ((trace.file, trace.sequence), (trace.rest, trace.piece), (*next, *room));
        let put = put_slowly(of, parts, place, (*owner, *writes), (event.kind, event.name));
        (self.next, self.room, self.prefix) = (put.next, put.room, put.prefix);
        if put.failed == 0 { Ok(()) } else { Err(Errno::from_number(put.failed)) }
    }

    /// An event of any length, also where there is no room for it.
    #[inline]
    fn put_any<const N: usize>(&mut self, event: Recorded<N>) -> Result<(), Errno> {
        let trace = self.trace;
        let mut inside = self.look()?;
        // So the compiler knows it to be short.
        let sequence = trace.sequence & ((1 << SHORT_SEQUENCE_BITS) - 1);
        let encoded = event.encoded(sequence, trace.now());
        #[expect(clippy::cast_possible_truncation, reason = "one event")]
        let bytes = encoded.bytes() as u32;
        if self.room < bytes {
            drop(inside);
            let made = make_room(trace.file, trace.piece, (self.next, self.room), self.owner);
            (self.next, self.room) = (made.next, made.room);
            inside = self.look()?;
            if self.room < bytes {
                drop(inside);
                let (file, rest) = ((trace.file, trace.sequence), (trace.rest, trace.piece));
                return if self.writes { put_alone(file, rest, event, made.failed) } else { Ok(()) };
            }
        }
        let target = self.next as *mut u64;
        self.next += u64::from(bytes);
        self.room -= bytes;
        if self.writes {
            encoded.each_word(|index, word| {
                let place = target.wrapping_add(index);
                // SAFETY:
                // - within the piece, as in `put`
                unsafe { place.write(word.to_le()) };
            });
        }
        drop(inside);
        Ok(())
    }
}

/// Where a recorder is when it has recorded an event, what packets have in common from then on, and 0 or why the event is lost.
#[derive(Clone, Copy)]
struct Slowly {
    next: u64,
    room: u32,
    failed: i32,
    prefix: TimePrefix,
}

/// An event without values where there is no room for it, or the clock's upper bits are others than they were.
///
/// Not inlined, and given what it needs by value: so a recorder stays in registers.
#[cold]
#[inline(never)]
fn put_slowly(
    (file, sequence): (File, u32),
    (rest, piece): (u32, u32),
    (next, room): (u64, u32),
    (owner, writes): (u32, bool),
    (kind, name): (Kind, u32),
) -> Slowly {
    let trace = Trace::from_parts(file, sequence, rest, piece);
    let parts = RecorderParts { next, room, owner, writes, prefix: trace.prefix() };
    // SAFETY:
    // - those of the caller's recorder, which goes on with what comes back
    let mut recorder = unsafe { Recorder::from_parts(trace, parts) };
    let put = recorder.put_any(Recorded { kind, name, track: None, value_names: [], values: [] });
    let RecorderParts { next, room, prefix, .. } = recorder.into_parts();
    Slowly { next, room, failed: put.err().map_or(0, Errno::number), prefix }
}

/// An event whose values are its own.
#[derive(Clone, Copy)]
struct Recorded<const N: usize> {
    kind: Kind,
    name: u32,
    track: Option<u64>,
    value_names: [u32; N],
    values: [packets::Value; N],
}

impl<const N: usize> Recorded<N> {
    fn of(kind: Kind, name: u32, names: &[u32], values: &[packets::Value]) -> Result<Self, Errno> {
        let value_names = names.try_into().map_err(|_| Errno::INVAL)?;
        let values = values.try_into().map_err(|_| Errno::INVAL)?;
        Ok(Self { kind, name, track: None, value_names, values })
    }
    #[inline]
    const fn encoded(&self, sequence: u32, time: u64) -> Encoded<'_> {
        let Self { kind, name, track, value_names, values } = self;
        let event = packets::Event { kind: *kind, name: *name, track: *track, value_names, values };
        Encoded::new(sequence, time, event)
    }
}

/// An event for which there is no room in the piece: into the stream, where there is no piece; else it is lost for the reason that failed.
#[cold]
#[inline(never)]
fn put_alone<const N: usize>(
    (file, sequence): (File, u32),
    (rest, piece): (u32, u32),
    event: Recorded<N>,
    failed: i32,
) -> Result<(), Errno> {
    let trace = Trace::from_parts(file, sequence, rest, piece);
    let _inside = trace.file.enter()?;
    let lanes = Lanes::calling_at(&ALONE);
    let put = |alone| put_record(trace.file, alone, &event.encoded(trace.sequence, trace.now()));
    let put = lanes.grouped(u64::from(lanes.lane()), |alone| {
        if failed == 0 { put(alone) } else { Err(Errno::from_number(failed)) }
    });
    counted(trace.file.fs().session(), Call::TraceEvent, put)
}

impl Drop for Recorder {
    #[inline]
    fn drop(&mut self) {
        if self.next != 0 {
            give_back(self.trace.file, self.trace.piece, self.next, self.owner);
        }
    }
}

/// Whether a recorder may be there when its kernel is over: on the host. A GPU's lanes, and what they have, end with it.
const OUTLIVES: bool = cfg!(not(any(target_arch = "nvptx64", target_arch = "amdgpu")));

/// What marks a piece as lent to this lane of the caller's warp; no owner's number.
#[inline]
fn mark(owner: u32) -> u64 {
    if !OUTLIVES {
        return 0;
    }
    !(warp::identity_of_lane().wrapping_sub(u64::from(Machine::lane())).wrapping_add(u64::from(owner)))
}

/// The words of a recorder's piece, and where it begins.
fn piece_of(file: File, piece: u32) -> Option<(&'static PieceWords, u32, u64)> {
    let pieces: &'static Pieces = &file.fs().session().pieces;
    let piece = piece.checked_sub(1)?;
    Some((pieces.words(piece)?, piece, pieces.address(piece)))
}

/// Writes what a recorder's piece holds into the stream, with the help of the lanes that call as its owner does.
///
/// Not inlined, and given what it needs by value: so a recorder stays in registers.
#[inline(never)]
fn make_room(file: File, piece: u32, (next, room): (u64, u32), owner: u32) -> Room {
    let as_it_was = Room { next, room, failed: 0 };
    let Ok(_inside) = file.enter() else { return Room { failed: Errno::BADF.number(), ..as_it_was } };
    let (Some((words, piece, begin)), true) = (piece_of(file, piece), next != 0) else { return as_it_was };
    let lanes = Lanes::calling_at(&ROOM);
    lanes.grouped(u64::from(piece), |group| {
        let mut place = words.lent();
        let room_of = |place: Place, failed| Room {
            next: begin + u64::from(place.end),
            room: place.limit - place.end,
            failed,
        };
        // Lanes that have come without the owner begin anew: all that they know is when to help.
        if !group.mask().contains(owner) {
            return room_of(Place::empty(place.limit), 0);
        }
        if OUTLIVES && !words.is_lent(mark(owner)) {
            return Room { next: 0, room: 0, failed: 0 };
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most a piece")]
        let end = (group.broadcast(next, owner) - begin) as u32;
        place.end = end;
        let emptied =
            if place.is_empty() { Ok(0) } else { empty_piece(file, group, piece, owner, place.to_word()) };
        group.sync();
        // What was not written stays, behind a start that the words have.
        match emptied {
            Ok(_) => room_of(Place::empty(place.limit), 0),
            Err(errno) => room_of(place, errno.number()),
        }
    })
}

/// Gives a piece back to its owner's other calls.
#[inline(never)]
fn give_back(file: File, piece: u32, next: u64, owner: u32) {
    // A session that is closed has no piece any more.
    let Ok(_inside) = file.enter() else { return };
    let Some((words, piece, begin)) = piece_of(file, piece) else { return };
    let lanes = Lanes::calling_at(&BACK);
    lanes.grouped(u64::from(piece), |group| {
        if group.lane() == owner && (!OUTLIVES || words.is_lent(mark(owner))) {
            #[expect(clippy::cast_possible_truncation, reason = "at most a piece")]
            words.take_back(warp::identity_of_lane(), Place { end: (next - begin) as u32, ..words.lent() });
        }
        group.sync();
    });
}
