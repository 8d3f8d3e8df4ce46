//! What a lane writes into a trace: spans, moments, counters.

use gpufs_core::failures::counted;
use gpufs_core::trace::{self as packets, Encoded, Kind, Packet, Value};
use gpufs_core::{Call, Errno};

use super::{Trace, TrackOf, name_of_warp, put, put_record, uuid};
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
    /// Whether this lane began it for all that did so together, and on which track.
    began: Option<Option<u64>>,
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

    /// Begins a span: one for all lanes that call together, whose lowest lane's values it has. They go on together.
    ///
    /// # Errors
    /// In the lane that writes: as [`File::fwrite`](crate::File::fwrite).
    pub fn begin(self, values: impl Values<N>) -> Result<Span, Errno> {
        self.trace.begin(self.name, &self.value_names, &values.values())
    }

    /// A moment, of each lane that calls, with its values.
    ///
    /// # Errors
    /// As [`File::fwrite`](crate::File::fwrite).
    pub fn instant(self, values: impl Values<N>) -> Result<(), Errno> {
        self.trace.instant(self.name, &self.value_names, &values.values())
    }
}

impl Span {
    /// What it is made of, for C: whether this lane began it (0 if not), and on which track (1 for its sequence's).
    #[doc(hidden)]
    #[must_use]
    pub const fn to_word(self) -> u64 {
        match self.began {
            None => 0,
            Some(None) => 1,
            Some(Some(track)) => track,
        }
    }
    /// The span of a word.
    #[doc(hidden)]
    pub const fn from_word(trace: Trace, word: u64) -> Self {
        let began = match word {
            0 => None,
            1 => Some(None),
            track => Some(Some(track)),
        };
        Self { trace, began }
    }
    /// Ends it. Lanes that end spans together go on together, those that began none of their own among them: otherwise these would be at the next
    /// span before the one that writes for all, and begin it without that lane.
    ///
    /// # Errors
    /// In the lane that began it: as [`File::fwrite`](crate::File::fwrite).
    pub fn end(self) -> Result<(), Errno> {
        let Self { trace, began } = self;
        let track = began.unwrap_or(None);
        let event = packets::Event { kind: Kind::End, name: 0, track, value_names: &[], values: &[] };
        let encoded = Encoded::new(trace.sequence, trace.now(), event);
        let inside = match trace.file.enter() {
            Ok(inside) => inside,
            // Of those that wrote nothing it is no failure.
            Err(errno) => return if began.is_some() { Err(errno) } else { Ok(()) },
        };
        let lanes = Lanes::calling(&inside, Call::TraceEnd);
        let writers = lanes.ballot(began.is_some());
        let written = match began {
            Some(_) => put_record(trace.file, lanes.subset(writers), &encoded),
            None => Ok(()),
        };
        lanes.sync();
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
        let began = self.grouped(lanes, name, |group| {
            let begun = group.is_leader().then(|| self.begin_alone(group, time, (name, value_names, values)));
            // The others do not write, and wait: they would end the span, and begin the next, without the one that does.
            group.sync();
            begun
        });
        let began = counted(self.file.fs().session(), Call::TraceBegin, began.transpose())?;
        Ok(Span { trace: self, began })
    }

    /// The span's begin, by the lane that writes it; its track, where that is not the sequence's.
    #[inline]
    fn begin_alone(
        self,
        group: Lanes,
        time: u64,
        (name, value_names, values): (u32, &[u32], &[Value]),
    ) -> Result<Option<u64>, Errno> {
        let alone = group.subset(LaneMask(1 << group.lane()));
        let track = if self.owns_track { None } else { Some(self.own_track(alone)?) };
        let event = packets::Event { kind: Kind::Begin, name, track, value_names, values };
        put_record(self.file, alone, &Encoded::new(self.sequence, time, event)).map(|()| track)
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
        put(self.file, alone, packet.bytes()).map(|()| uuid(self.salt, TrackOf::Thread, thread))
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
        counted(self.file.fs().session(), Call::TraceEvent, put_record(self.file, lanes, &encoded))
    }
}
