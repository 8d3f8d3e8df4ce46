//! Traces: events from inside a kernel, in a file that Perfetto opens (<https://ui.perfetto.dev>).
//!
//! ```
//! use gpufs_device::{Errno, Fs};
//!
//! /// Every thread of a grid calls it.
//! fn work(fs: Fs, rows: u64) -> Result<(), Errno> {
//!     let trace = fs.trace(c"run.pftrace")?;
//!     let [load, slow] = [trace.event("load", ["rows"])?, trace.event("slow", ["row"])?];
//!     let queue = trace.counter("queue")?;
//!
//!     let span = load.begin([rows])?;
//!     for row in 0..rows {
//!         if row % 100 == 99 {
//!             slow.instant([row])?;
//!         }
//!         queue.set(rows - row)?;
//!     }
//!     span.end()?;
//!     trace.close()
//! }
//! ```
//!
//! | what | writer | where it is shown |
//! |---|---|---|
//! | a span, from [`Event::begin`] to [`Span::end`] | of the lanes that begin it together, one: the lowest, with its values. It writes the end, too; the others wait for it at both | on its warp's track; where lanes have parted, on that lane's own |
//! | a moment, [`Event::instant`] | each lane | on its warp's track |
//! | a counter's value, [`Counter::set`] | each lane | on the counter's track, one for each name in the file |
//! | what a [`Recorder`] records | the lowest of the lanes that opened the trace together | as above |
//!
//! What is timed by the nanosecond takes a recorder: an event is some 60 instructions then, where a span's begin has 230 and two questions from
//! lane to lane.
//!
//! ```
//! use gpufs_device::{Errno, Fs};
//!
//! fn steps(fs: Fs, steps: u64) -> Result<(), Errno> {
//!     let trace = fs.trace(c"run.pftrace")?;
//!     let step = trace.event("step", [])?;
//!     let mut recorder = trace.recorder()?;
//!     for _ in 0..steps {
//!         recorder.begin(step, ())?;
//!         // …
//!         recorder.end()?;
//!     }
//!     recorder.finish();
//!     trace.close()
//! }
//! ```
//!
//! A warp's track is that of the lanes that called [`Fs::trace`] together: `block 3 warp 2`. A name is written when [`Trace::event`] gets it, and has
//! 48 bytes at most; an event has up to four values, which are given as an array, or a tuple where they differ in type, `()` for none.
//!
//! A warp's events wait in a *piece* of memory of its own, of 1 to 32 KiB, so that a call touches nothing that other warps use
//! ([`gpufs_core::pieces`]). They go into the file's stream when the piece is full, by [`Trace::flush`] and [`Trace::close`], which each lane calls
//! that opened the trace, and when the kernel has ended. Lanes that have parted from the lowest of those that opened the trace with them write into
//! the stream themselves, which takes longer, and so do all warps of a grid that has more of them than the session has KiB for pieces: 256 by
//! default; `Builder::trace_memory` of the host, in C `trace_memory_bytes`, gives it more. Where others close a trace as often as it was opened,
//! the events are lost of lanes that have not closed it themselves; the session's `synchronize` says so.
//!
//! The packets are whole records of a stream whose writes begin in the file's order, so that the file is good at any time: while the kernel runs,
//! up to what has left the buffers, and after a fault, where the host writes what returned calls had left. What a warp was about to write into
//! the stream may be there twice then.
//!
//! Times are the device's ([`warp::clock`]). The lane that opens the file reads the host's `CLOCK_BOOTTIME` between two looks
//! at the device's clock, three times, and writes the closest pair, by which Perfetto joins the two: to some microseconds. Clocks drift; a kernel
//! that runs for minutes joins them again by [`Trace::join_clocks`]. A file has times of three days at least, and then they begin again: a kernel
//! that runs for longer opens another. `cat` puts two traces into one.

mod event;
mod piece;
mod record;
mod recorder;

use core::ffi::CStr;

use gpufs_core::failures::counted;
use gpufs_core::shared::Entry;
use gpufs_core::trace::{
    Is, NAME_BYTES_MAX, Named, Origin, Packet, TimePrefix, Track, TrackName, VALUES_MAX, name_id,
};
use gpufs_core::{Call, Errno};

use crate::Fs;
use crate::file::{O_CREAT, O_TRUNC, O_WRONLY};
use crate::service::{CLOCK_BOOTTIME, TimeSpec};
use crate::stdio::{File, Record, write};
use crate::warp::{self, LaneMask, Lanes, Machine, Warp};

pub use event::{Counter, Event, Span, Values};
pub use gpufs_core::trace::Value;
pub use recorder::{Recorder, RecorderParts};

/// Looks at the host's clock for one pair of times.
const LOOKS: u32 = 3;
/// Bits of a salt: with the kind and the number of a track it makes a uuid.
const SALT_BITS: u32 = 28;

/// A trace as one thread has it. It may be copied, and used by any lane that opened it.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    file: File,
    /// The writer: the lanes that opened it together.
    sequence: u32,
    /// What else it is, in one word, which is copied as such.
    ///
    /// ```text
    /// 31                                     28         27 … 0
    /// whether the sequence's track is this   [`Origin`] the salt: what tells the file's tracks
    /// lane's                                            and clock from other files'
    /// ```
    rest: u32,
    /// The number of that lane's piece and 1; 0 if there is none.
    piece: u32,
}

/// What tells tracks of one file apart, above their numbers.
#[derive(Clone, Copy)]
enum TrackOf {
    Sequence = 0,
    All = 1,
    Counter = 2,
    Thread = 3,
}

const fn uuid(salt: u32, of: TrackOf, number: u32) -> u64 {
    (salt as u64) << 34 | (of as u64) << 32 | number as u64
}

/// Perfetto's numbers of clocks that are a program's own begin at 128.
const fn clock_of(salt: u32) -> u32 {
    1 << 30 | salt
}

impl Fs {
    /// Opens a trace. All threads that do so by the same path have one file, as with [`Fs::fopen_shared`], whose remarks on when a file is emptied,
    /// and on who closes it, hold here too.
    ///
    /// # Errors
    /// As [`Fs::fopen_shared`]; what reading the host's clock met, and writing.
    pub fn trace(self, path: &CStr) -> Result<Trace, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::TraceOpen);
        let flags = O_WRONLY | O_CREAT | O_TRUNC;
        let file = self.open_shared_by(lanes, path, Ok(flags), |file, alone, entry| {
            begin_file(self, file, alone, entry)
        });
        let key = file.map_or(0, File::name);
        let opened = lanes.grouped(key, |group| file.and_then(|file| begin_sequence(file, group)));
        counted(self.session(), Call::TraceOpen, opened)
    }
}

/// A new file: its clocks, and the track that all others belong to. A lane alone.
fn begin_file(fs: Fs, file: File, alone: Lanes, entry: &Entry) -> Result<(), Errno> {
    // Whoever reads the file while it is written finds packets up to its end.
    file.stream().start_in_order();
    let (device, host) = joined_clocks(fs, alone)?;
    let (salt, origin) = (salt_of(device, host), Origin::of(device));
    entry.begin_trace(salt | origin.to_bit() << SALT_BITS);
    let mut packet = Packet::new();
    packet.clocks(0, clock_of(salt), origin.time(device), host);
    let name = TrackName::new(b"kernels");
    packet.track(0, &Track { uuid: uuid(salt, TrackOf::All, 0), parent: 0, is: Is::Events, name: &name });
    put(file, alone, packet.bytes())
}

/// A salt from the times of both clocks. Their sum is another one for each file that one machine opens, as both only grow.
const fn salt_of(device: u64, host: u64) -> u32 {
    (device.wrapping_add(host).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SALT_BITS)) as u32
}

/// Lanes that opened a file together: their sequence, whose track is the leader's. Convergent.
fn begin_sequence(file: File, group: Lanes) -> Result<Trace, Errno> {
    let Some(entry) = file.shared_entry() else { return Err(Errno::BADF) };
    let drawn = group.on_leader(|| {
        let (salt, sequence) = entry.draw_sequence();
        u64::from(salt) << 32 | u64::from(sequence)
    });
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    let (mark, sequence) = ((drawn >> 32) as u32, drawn as u32);
    let piece = piece::piece_for(file, group);
    let trace = Trace::from_parts(file, sequence, mark | u32::from(group.is_leader()) << 31, piece);
    let salt = trace.salt();
    let written = group.on_leader(|| {
        let mut packet = Packet::new();
        let name = name_of_warp(group.lane());
        packet.begin(sequence, clock_of(salt), &trace.track(TrackOf::Sequence, sequence, &name));
        status(put(file, group.subset(LaneMask(1 << group.lane())), packet.bytes()))
    });
    if written != 0 {
        let _ = trace.leave_pieces(group, true);
        let _ = file.close(group);
        return Err(errno_of(written));
    }
    Ok(trace)
}

/// A result as a word that lanes tell each other.
fn status(result: Result<(), Errno>) -> u32 {
    result.map_or_else(|errno| errno.number().cast_unsigned(), |()| 0)
}

fn errno_of(status: u32) -> Errno {
    Errno::from_number(status.cast_signed())
}

/// What a warp's track is called; that of lanes that a higher one leads has its number.
fn name_of_warp(lane: u32) -> TrackName {
    let position = warp::position();
    let name = TrackName::new(b"block ").and_number(u64::from(position.block));
    let name = name.and(b" warp ").and_number(u64::from(position.thread / Machine::width()));
    if lane == 0 { name } else { name.and(b" lane ").and_number(u64::from(lane)) }
}

/// The device's clock and the host's, read at about the same time. A lane alone.
fn joined_clocks(fs: Fs, alone: Lanes) -> Result<(u64, u64), Errno> {
    let mut closest = Look { width: u64::MAX, device: 0, host: 0 };
    // Ends: a count.
    for _ in 0..LOOKS {
        let before = Machine::clock();
        let host = fs.time_of(alone, CLOCK_BOOTTIME)?;
        closest = closest.or_closer(Look::new(before, host, Machine::clock()));
    }
    Ok((closest.device, closest.host))
}

/// A look at both clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    /// How long it took.
    width: u64,
    /// The device's clock in the middle of it.
    device: u64,
    host: u64,
}

impl Look {
    /// A look at the host's clock between two at the device's.
    fn new(before: u64, host: TimeSpec, after: u64) -> Self {
        let width = after.saturating_sub(before);
        let seconds = u64::try_from(host.tv_sec).unwrap_or(0);
        let host = seconds * 1_000_000_000 + u64::try_from(host.tv_nsec).unwrap_or(0);
        Self { width, device: before + width / 2, host }
    }
    /// Of two looks the one that took less time; this one, where both took as long.
    const fn or_closer(self, other: Self) -> Self {
        if other.width < self.width { other } else { self }
    }
}

/// Writes a lane's packet, if it has one. Convergent; called by `lanes`.
fn put(file: File, lanes: Lanes, bytes: Option<&[u8]>) -> Result<(), Errno> {
    // The limits leave room for every packet: there is none only where a lane has nothing to write.
    put_record(file, lanes, &bytes.unwrap_or(&[]))
}

/// Writes a lane's event. Convergent; called by `lanes`.
#[inline(never)]
fn put_record(file: File, lanes: Lanes, record: &impl Record) -> Result<(), Errno> {
    write(file, lanes, record).result().map(drop)
}

impl Trace {
    /// An event by its name, and the names of its values. Each lane that makes such events calls this first.
    ///
    /// # Errors
    /// `EINVAL` for more than four values, and for a name of more than 48 bytes; what writing met.
    pub fn event<const N: usize>(
        self,
        name: &'static str,
        values: [&'static str; N],
    ) -> Result<Event<N>, Errno> {
        let names = values.map(str::as_bytes);
        self.name_event(name.as_bytes(), &names)?;
        Ok(Event::new(self, name_id(name.as_bytes()), names.map(name_id)))
    }

    /// Writes an event's name, and those of its values.
    ///
    /// # Errors
    /// As [`Trace::event`].
    #[doc(hidden)]
    pub fn name_event(self, name: &[u8], values: &[&[u8]]) -> Result<(), Errno> {
        let fits = values.len() <= VALUES_MAX && is_short(name) && values.iter().all(|value| is_short(value));
        let mut packets = [Packet::new(); VALUES_MAX + 1];
        packets[0].name(self.sequence, Named::Event, name);
        for (packet, value) in packets[1..].iter_mut().zip(values) {
            packet.name(self.sequence, Named::Value, value);
        }
        self.name(name_id(name), fits, packets.get(..=values.len()).unwrap_or(&[]))
    }

    /// A counter by its name. Each lane that sets it calls this first.
    ///
    /// # Errors
    /// `EINVAL` for a name of more than 48 bytes; what writing met.
    pub fn counter(self, name: &'static str) -> Result<Counter, Errno> {
        self.name_counter(name.as_bytes())
    }

    /// [`Trace::counter`] by the bytes of its name.
    ///
    /// # Errors
    /// As [`Trace::counter`].
    #[doc(hidden)]
    pub fn name_counter(self, name: &[u8]) -> Result<Counter, Errno> {
        let id = name_id(name);
        let mut packet = Packet::new();
        let text = TrackName::new(name);
        let track = Track { is: Is::Counter, ..self.track(TrackOf::Counter, id, &text) };
        packet.track(self.sequence, &track);
        self.name(id, is_short(name), &[packet])?;
        Ok(Counter::new(self, track.uuid))
    }

    /// The trace as numbers, for C: its stream, its sequence, a word of the rest, and its piece.
    #[doc(hidden)]
    #[must_use]
    pub const fn to_parts(self) -> (File, u32, u32, u32) {
        (self.file, self.sequence, self.rest, self.piece)
    }
    /// The trace of these parts.
    #[doc(hidden)]
    #[must_use]
    pub const fn from_parts(file: File, sequence: u32, rest: u32, piece: u32) -> Self {
        Self { file, sequence, rest, piece }
    }
    /// What tells the file's tracks and clock from other files'.
    const fn salt(self) -> u32 {
        self.rest & ((1 << SALT_BITS) - 1)
    }
    const fn origin(self) -> Origin {
        Origin::from_bit(self.rest >> SALT_BITS)
    }
    /// Whether the sequence's track is this lane's.
    const fn owns_track(self) -> bool {
        self.rest >> 31 != 0
    }

    /// Writes what is buffered, as [`File::fflush`]: then it is in the file, the events of the lanes that call it among it. Those of other warps may
    /// wait in these, which call it, too.
    ///
    /// # Errors
    /// What writing met.
    pub fn flush(self) -> Result<(), Errno> {
        let inside = self.file.enter()?;
        let left = self.leave_pieces(Lanes::calling(&inside, Call::TraceFlush), false);
        let left = counted(self.file.fs().session(), Call::TraceFlush, left);
        drop(inside);
        left.and(self.file.fflush())
    }

    /// Reads both clocks again, and writes the pair.
    ///
    /// # Errors
    /// What reading the host's clock met, and writing.
    pub fn join_clocks(self) -> Result<(), Errno> {
        let inside = self.file.enter()?;
        let lanes = Lanes::calling(&inside, Call::TraceClocks);
        let fs = self.file.fs();
        let joined = lanes.grouped(u64::from(lanes.lane()), |alone| {
            let (device, host) = joined_clocks(fs, alone)?;
            let mut packet = Packet::new();
            packet.clocks(self.sequence, clock_of(self.salt()), self.origin().time(device), host);
            put(self.file, alone, packet.bytes())
        });
        counted(fs.session(), Call::TraceClocks, joined)
    }

    /// Closes it, as [`File::fclose`] does a stream that is shared: it is closed as often as it was opened.
    ///
    /// # Errors
    /// As [`File::fclose`].
    pub fn close(self) -> Result<(), Errno> {
        let inside = self.file.enter()?;
        let left = self.leave_pieces(Lanes::calling(&inside, Call::TraceClose), true);
        let left = counted(self.file.fs().session(), Call::TraceClose, left);
        drop(inside);
        left.and(self.file.fclose())
    }

    /// The time of an event of now.
    #[inline]
    fn now(self) -> u64 {
        self.origin().time(Machine::clock())
    }

    /// What a recorder's packets have in common from now on.
    fn prefix(self) -> TimePrefix {
        TimePrefix::of(Machine::clock(), self.origin(), self.sequence)
    }

    /// A track of the file; all belong to one.
    fn track<'a>(self, of: TrackOf, number: u32, name: &'a TrackName) -> Track<'a> {
        let parent = uuid(self.salt(), TrackOf::All, 0);
        Track { uuid: uuid(self.salt(), of, number), parent, is: Is::Events, name }
    }

    /// Runs `body` once for the lanes that bring the same name to the same writer. The number of a sequence is of its file alone. Convergent.
    #[inline]
    fn grouped<T>(self, lanes: Lanes, name: u32, body: impl FnOnce(Lanes) -> T) -> T {
        let key = u64::from(self.sequence) << 32 | u64::from(name);
        lanes.grouped(self.file.name(), |lanes| lanes.grouped(key, body))
    }

    /// Writes what names an event or a counter once for the lanes that bring the same.
    fn name(self, id: u32, fits: bool, packets: &[Packet]) -> Result<(), Errno> {
        let inside = self.file.enter()?;
        let lanes = Lanes::calling(&inside, Call::TraceName);
        let named = self.grouped(lanes, if fits { id } else { 0 }, |group| {
            let written = group.on_leader(|| {
                let alone = group.subset(LaneMask(1 << group.lane()));
                let mut each = packets.iter().map(|packet| put(self.file, alone, packet.bytes()));
                status(if fits { each.try_for_each(|written| written) } else { Err(Errno::INVAL) })
            });
            if written == 0 { Ok(()) } else { Err(errno_of(written)) }
        });
        counted(self.file.fs().session(), Call::TraceName, named)
    }
}

/// Whether a name has room in a packet.
const fn is_short(name: &[u8]) -> bool {
    name.len() <= NAME_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::{Look, SALT_BITS, TimeSpec, salt_of};

    #[test]
    fn the_closest_look_is_of_the_middle_of_its_time() {
        let host = |tv_sec, tv_nsec| TimeSpec { tv_sec, tv_nsec };
        let looks = [
            (1_000, host(2, 5), 1_060, Look { width: 60, device: 1_030, host: 2_000_000_005 }),
            (2_000, host(2, 6), 2_041, Look { width: 41, device: 2_020, host: 2_000_000_006 }),
            (3_000, host(7, 0), 3_041, Look { width: 41, device: 3_020, host: 7_000_000_000 }),
            (4_000, host(0, 9), 3_999, Look { width: 0, device: 4_000, host: 9 }),
        ];
        for (before, host, after, look) in looks {
            assert_eq!(Look::new(before, host, after), look);
        }
        let [first, second, third, _] = looks.map(|(.., look)| look);
        assert_eq!(first.or_closer(second).or_closer(third), second);
        assert_eq!(third.or_closer(first), third);
    }

    /// A million files, each of which is opened some time after the one before it.
    #[test]
    fn files_of_one_machine_have_salts_of_their_own() {
        for apart in [1, 999, 1_000_003] {
            let (mut same, mut last) = (0, u32::MAX);
            for file in 0..1_000_000_u64 {
                let salt = salt_of(77 + file * apart, 0x5_0000_0000_0001 + file * apart);
                assert!(salt < 1 << SALT_BITS);
                same += u32::from(salt == last);
                last = salt;
            }
            assert_eq!(same, 0, "neighbours, {apart} ns apart");
        }
    }
}
