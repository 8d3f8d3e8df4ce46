//! What a lane writes into a trace: spans, moments, counters.

use gpufs_core::failures::counted;
use gpufs_core::trace::{self as packets, Encoded, Kind, Packet, Value};
use gpufs_core::{Call, Errno};

use super::{Trace, TrackOf, name_of_warp, put, put_record, uuid};
use crate::stdio::File;
use crate::warp::{self, LaneMask, Lanes};

/// `N` values of an event: an array, or a tuple of different types, `()` for none.
pub trait Values<const N: usize> {
    /// As an array.
    fn values(self) -> [Value; N];
}

impl<T: Into<Value>, const N: usize> Values<N> for [T; N] {
    #[inline]
    fn values(self) -> [Value; N] {
        self.map(Into::into)
    }
}

macro_rules! tuples {
    ($($count:literal: $($type:ident $value:ident)*;)*) => {$(
        impl<$($type: Into<Value>),*> Values<$count> for ($($type,)*) {
            #[inline]
            fn values(self) -> [Value; $count] {
                let ($($value,)*) = self;
                [$($value.into()),*]
            }
        }
    )*};
}

tuples! {
    0: ;
    1: A a;
    2: A a B b;
    3: A a B b C c;
    4: A a B b C c D d;
}

/// An event by its name, with `N` values.
#[derive(Clone, Copy, Debug)]
pub struct Event<const N: usize> {
    trace: Trace,
    name: u32,
    value_names: [u32; N],
}

/// A span that has begun. The lane that has it ends it.
#[derive(Clone, Copy, Debug)]
#[must_use = "a span that is not ended has no end in the trace"]
pub struct Span {
    trace: Trace,
    /// Whether this lane began it for all that did so together, and on which track: 0 if it did not, [`OWN`] for its sequence's.
    began: u64,
}

/// A counter.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    trace: Trace,
    track: u64,
}

impl<const N: usize> Event<N> {
    pub(super) const fn new(trace: Trace, name: u32, value_names: [u32; N]) -> Self {
        Self { trace, name, value_names }
    }

    /// What it is made of: its trace, and the numbers of its names.
    pub(super) const fn into_parts(self) -> (Trace, u32, [u32; N]) {
        (self.trace, self.name, self.value_names)
    }

    /// Begins a span: one for all lanes that call together, whose lowest lane's values it has. They go on together.
    ///
    /// # Errors
    /// In the lane that writes: as [`File::fwrite`](crate::File::fwrite).
    pub fn begin(self, values: impl Values<N>) -> Result<Span, Errno> {
        // Of its own, so that the rest of the event stays in registers.
        let value_names = self.value_names;
        self.trace.begin(self.name, &value_names, &values.values())
    }

    /// A moment, of each lane that calls, with its values.
    ///
    /// # Errors
    /// As [`File::fwrite`](crate::File::fwrite).
    pub fn instant(self, values: impl Values<N>) -> Result<(), Errno> {
        let value_names = self.value_names;
        self.trace.instant(self.name, &value_names, &values.values())
    }
}

/// What a span says that the lane began on its sequence's track. No track of a lane has this number.
const OWN: u64 = 1;

/// Bytes of a span's end on the sequence's track, at most.
const END_BYTES: u32 = 32;

/// Bytes of a span's begin on the sequence's track, at most.
#[expect(clippy::cast_possible_truncation, reason = "a few values")]
const fn begin_bytes(values: &[Value]) -> u32 {
    32 * (1 + values.len() as u32)
}

impl Span {
    /// What it is made of, for C: whether this lane began it, and on which track.
    #[doc(hidden)]
    #[must_use]
    pub const fn to_word(self) -> u64 {
        self.began
    }
    /// The span of a word.
    #[doc(hidden)]
    pub const fn from_word(trace: Trace, began: u64) -> Self {
        Self { trace, began }
    }
    /// Ends it. Lanes that end spans together go on together, those that began none of their own among them: otherwise these would be at the next
    /// span before the one that writes for all, and begin it without that lane.
    ///
    /// # Errors
    /// In the lane that began it: as [`File::fwrite`](crate::File::fwrite).
    pub fn end(self) -> Result<(), Errno> {
        let Self { trace, began } = self;
        let track = if began > OWN { Some(began) } else { None };
        let event = packets::Event { kind: Kind::End, name: 0, track, value_names: &[], values: &[] };
        let encoded = Encoded::new(trace.sequence, trace.now(), event);
        let inside = match trace.file.enter() {
            Ok(inside) => inside,
            // Of those that wrote nothing it is no failure.
            Err(errno) => return if began == 0 { Ok(()) } else { Err(errno) },
        };
        let lanes = Lanes::calling(&inside, Call::TraceEnd);
        let open = trace.open_piece(lanes);
        let is_owner = open.is_some_and(|open| open.owner == lanes.lane());
        // Whether nobody ends a span but the owner of the piece. Spans of a track of a lane's own are in the stream as they began: of one time, the
        // one that was written first comes first.
        let is_usual = open.is_some() && (began == 0 || is_owner && began == OWN);
        let together = lanes.same(trace.piece_key(open) << 1 | u64::from(is_usual)) && is_usual;
        let written = match open {
            Some(open) if together => trace.put_one(lanes, open, (&encoded, began != 0), END_BYTES),
            _ => end_apart(
                (trace.file, trace.sequence),
                (trace.rest, trace.piece),
                lanes,
                (is_owner, began),
                &encoded,
            ),
        };
        let written = if began == 0 { Ok(()) } else { written };
        counted(trace.file.fs().session(), Call::TraceEnd, written)
    }
}

impl Counter {
    /// A counter by its track, which [`Counter::track`] gave.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(trace: Trace, track: u64) -> Self {
        Self { trace, track }
    }
    /// Its track.
    #[doc(hidden)]
    #[must_use]
    pub const fn track(self) -> u64 {
        self.track
    }
    /// Its trace, and its track.
    pub(super) const fn into_parts(self) -> (Trace, u64) {
        (self.trace, self.track)
    }

    /// Its value from now on, by each lane that calls.
    ///
    /// # Errors
    /// As [`File::fwrite`](crate::File::fwrite).
    #[inline]
    pub fn set(self, value: impl Into<Value>) -> Result<(), Errno> {
        let (track, values) = (Some(self.track), &[value.into()]);
        self.trace.write(packets::Event { kind: Kind::Counter, name: 0, track, value_names: &[], values })
    }
}

impl Trace {
    /// [`Event::begin`] by numbers of names, for C.
    ///
    /// # Errors
    /// As [`Event::begin`].
    #[doc(hidden)]
    #[inline]
    pub fn begin(self, name: u32, value_names: &[u32], values: &[Value]) -> Result<Span, Errno> {
        let time = self.now();
        let inside = self.file.enter()?;
        let lanes = Lanes::calling(&inside, Call::TraceBegin);
        let event = packets::Event { kind: Kind::Begin, name, track: None, value_names, values };
        let encoded = Encoded::new(self.sequence, time, event);
        let open = self.open_piece(lanes);
        // Of lanes that opened the trace together, the lowest has their track and their piece: it leads them wherever it is.
        let leads = open.is_some_and(|open| open.owner == lanes.leader());
        let key = u64::from(self.piece) << 32 | u64::from(name) << 1 | u64::from(leads);
        let together = lanes.same(key) && leads;
        let began = match open {
            Some(open) if together => {
                let writes = lanes.is_leader();
                let written = self.put_one(lanes, open, (&encoded, writes), begin_bytes(values));
                if writes { written.map(|()| OWN) } else { Ok(0) }
            }
            _ => begin_apart((self.file, self.sequence), (self.rest, self.piece), lanes, name, &encoded),
        };
        let began = counted(self.file.fs().session(), Call::TraceBegin, began)?;
        Ok(Span { trace: self, began })
    }

    /// The span of lanes that begin it together: what [`Span`] has of it. Convergent.
    fn begin_group(self, group: Lanes, encoded: &Encoded<'_>) -> Result<u64, Errno> {
        let writes = group.is_leader();
        let open = self.open_piece_together(group).filter(|open| open.owner == group.leader());
        let begun = match open {
            Some(open) => {
                let most = begin_bytes(encoded.values());
                self.put_one(group, open, (encoded, writes), most).map(|()| OWN)
            }
            None if writes => self.begin_alone(group, encoded),
            None => Ok(0),
        };
        // The others do not write, and wait: they would end the span, and begin the next, without the one that does.
        group.sync();
        if writes { begun } else { Ok(0) }
    }

    /// [`Trace::begin_group`] without a piece, by the lane that writes: on a track of its own, where it has parted from the lane that has the
    /// sequence's.
    fn begin_alone(self, group: Lanes, encoded: &Encoded<'_>) -> Result<u64, Errno> {
        let alone = group.subset(LaneMask(1 << group.lane()));
        let track = if self.owns_track() { None } else { Some(self.own_track(alone)?) };
        put_record(self.file, alone, &encoded.on(track)).map(|()| track.unwrap_or(OWN))
    }

    /// A track of the caller's own, which it describes. Spans of one track end in the order in which they began, backwards: lanes that have parted
    /// need one each.
    #[cold]
    fn own_track(self, alone: Lanes) -> Result<u64, Errno> {
        let mut name = name_of_warp(0);
        name = name.and(b" lane ").and_number(u64::from(alone.lane()));
        #[expect(clippy::cast_possible_truncation, reason = "threads of larger grids share tracks")]
        let thread = warp::global_thread() as u32;
        let mut packet = Packet::new();
        packet.track(self.sequence, &self.track(TrackOf::Thread, thread, &name));
        put(self.file, alone, packet.bytes()).map(|()| uuid(self.salt(), TrackOf::Thread, thread))
    }

    /// [`Event::instant`] by numbers of names, for C.
    ///
    /// # Errors
    /// As [`Event::instant`].
    #[doc(hidden)]
    #[inline]
    pub fn instant(self, name: u32, value_names: &[u32], values: &[Value]) -> Result<(), Errno> {
        self.write(packets::Event { kind: Kind::Instant, name, track: None, value_names, values })
    }

    /// Writes each calling lane's event, of now.
    #[inline]
    fn write(self, event: packets::Event<'_>) -> Result<(), Errno> {
        let encoded = Encoded::new(self.sequence, self.now(), event);
        let inside = self.file.enter()?;
        let lanes = Lanes::calling(&inside, Call::TraceEvent);
        counted(self.file.fs().session(), Call::TraceEvent, self.put_each(lanes, &encoded))
    }
}

/// Begins spans of lanes of which some bring another name, or have parted from their piece's owner; the trace in parts, as all that is seldom
/// takes it. Convergent; called by `lanes`.
#[inline(never)]
fn begin_apart(
    (file, sequence): (File, u32),
    (rest, piece): (u32, u32),
    lanes: Lanes,
    name: u32,
    encoded: &Encoded<'_>,
) -> Result<u64, Errno> {
    let trace = Trace::from_parts(file, sequence, rest, piece);
    trace.grouped(lanes, name, |group| trace.begin_group(group, encoded))
}

/// The ends of spans of lanes of which some have none of the piece's: `began` as [`Span`] has it. Convergent.
#[inline(never)]
fn end_apart(
    (file, sequence): (File, u32),
    (rest, piece): (u32, u32),
    lanes: Lanes,
    (is_owner, began): (bool, u64),
    encoded: &Encoded<'_>,
) -> Result<(), Errno> {
    let trace = Trace::from_parts(file, sequence, rest, piece);
    let is_pieces = is_owner && began == OWN;
    let mut written = lanes.grouped(trace.piece_key(trace.open_piece(lanes)), |group| {
        match trace.open_piece_together(group) {
            Some(open) => trace.put_one(group, open, (encoded, is_pieces), END_BYTES),
            None => Ok(()),
        }
    });
    let others = lanes.ballot(began != 0 && !is_pieces);
    if others.contains(lanes.lane()) {
        written = put_record(file, lanes.subset(others), encoded);
    }
    lanes.sync();
    written
}
