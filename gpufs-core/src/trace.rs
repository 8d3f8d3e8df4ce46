//! Packets of a trace that Perfetto opens: what kernels and the host write into one.
//!
//! A file of the format is the packets one after the other, each a field of the message `Trace` of Perfetto's protocol buffers
//! (<https://perfetto.dev/docs/reference/trace-packet-proto>). Files may be put one behind the other. Here are the few messages that
//! gpufs writes, encoded by hand: a packet is some tens of bytes in a lane's memory. Nothing here reads one.
//!
//! A *sequence* is a writer of packets, in an order of its own: lanes that opened the trace together, or a thread of the host. Its first
//! packet ([`Packet::begin`]) says the clock and the track of all that follow, and a name is written once ([`Packet::name`]) and then meant by its
//! number. An event of a kernel that has no values is 24 bytes.
//!
//! Each packet is a multiple of 8 bytes, and one that is no event of 16: a file of nothing else keeps all of them aligned, and lanes store theirs in
//! words ([`Encoded`]).

mod encoded;
mod prefix;
#[cfg(test)]
mod reader;
#[cfg(test)]
mod tests;

pub use encoded::{Encoded, SHORT_SEQUENCE_BITS, WORD_BYTES};
pub use prefix::TimePrefix;

/// What is no event has a multiple of so many bytes: where events are as many as make that, too, they are copied into the stream in words of 16.
const PACKET_ALIGN: usize = 2 * WORD_BYTES;
/// Bytes that a packet has room for.
pub const PACKET_BYTES: usize = 256;
/// Bytes of the longest name.
pub const NAME_BYTES_MAX: usize = 48;
/// Values of one event at most.
pub const VALUES_MAX: usize = 4;

/// Bits of a time of a kernel's clock: see [`Origin`].
pub const TIME_BITS: u32 = 49;

/// From when a trace's times are counted: a device's clock counts nanoseconds in more bits than an event has room for. The times are its lower 49
/// bits less 2⁴⁸ or nothing, such that the trace begins in the lower half of them: three days pass before they begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(bool);

impl Origin {
    /// Of a trace that begins now.
    #[must_use]
    pub const fn of(clock: u64) -> Self {
        Self(clock >> (TIME_BITS - 1) & 1 != 0)
    }
    /// The time that a clock has.
    #[inline]
    #[must_use]
    pub const fn time(self, clock: u64) -> u64 {
        clock.wrapping_sub((self.0 as u64) << (TIME_BITS - 1)) & ((1 << TIME_BITS) - 1)
    }
    /// As a bit.
    #[must_use]
    pub const fn to_bit(self) -> u32 {
        self.0 as u32
    }
    /// Of a bit, the lowest.
    #[must_use]
    pub const fn from_bit(bit: u32) -> Self {
        Self(bit & 1 != 0)
    }
}

/// `BUILTIN_CLOCK_BOOTTIME`: what Perfetto shows times by, and the host's `CLOCK_BOOTTIME`.
pub const CLOCK_BOOTTIME: u32 = 6;

/// Field numbers of the messages, by the names that they have there.
mod field {
    pub(super) const TRACE_PACKET: u32 = 1;

    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const TIMESTAMP_CLOCK_ID: u32 = 58;
    pub(super) const PACKET_DEFAULTS: u32 = 59;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;

    pub(super) const CLOCKS: u32 = 1;
    pub(super) const CLOCK_ID: u32 = 1;
    pub(super) const CLOCK_TIMESTAMP: u32 = 2;

    pub(super) const DEFAULT_EVENT: u32 = 11;
    pub(super) const EVENT_NAMES: u32 = 2;
    pub(super) const VALUE_NAMES: u32 = 3;
    pub(super) const IID: u32 = 1;
    pub(super) const INTERNED_NAME: u32 = 2;

    pub(super) const UUID: u32 = 1;
    pub(super) const TRACK_NAME: u32 = 2;
    pub(super) const PROCESS: u32 = 3;
    pub(super) const PARENT_UUID: u32 = 5;
    pub(super) const COUNTER: u32 = 8;
    pub(super) const PID: u32 = 1;
    pub(super) const PROCESS_NAME: u32 = 6;

    pub(super) const ANNOTATIONS: u32 = 4;
    pub(super) const EVENT_TYPE: u32 = 9;
    pub(super) const NAME_IID: u32 = 10;
    pub(super) const TRACK_UUID: u32 = 11;
    pub(super) const COUNTER_VALUE: u32 = 30;
    pub(super) const REAL_COUNTER_VALUE: u32 = 44;

    pub(super) const VALUE_NAME_IID: u32 = 1;
    pub(super) const UINT_VALUE: u32 = 3;
    pub(super) const INT_VALUE: u32 = 4;
    pub(super) const DOUBLE_VALUE: u32 = 5;
}

/// `SEQ_INCREMENTAL_STATE_CLEARED`: nothing that was said before on the sequence counts.
const CLEARED: u64 = 1;

/// A value of an event or of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// An unsigned number.
    Unsigned(u64),
    /// A signed one.
    Signed(i64),
    /// A floating one.
    Real(f64),
}

macro_rules! values {
    ($($from:ty => $kind:ident),*) => {$(
        impl From<$from> for Value {
            #[inline]
            fn from(value: $from) -> Self {
                Self::$kind(value.into())
            }
        }
    )*};
}

values!(u8 => Unsigned, u16 => Unsigned, u32 => Unsigned, u64 => Unsigned, bool => Unsigned);
values!(i8 => Signed, i16 => Signed, i32 => Signed, i64 => Signed, f32 => Real, f64 => Real);

impl From<usize> for Value {
    #[inline]
    fn from(value: usize) -> Self {
        Self::Unsigned(value as u64)
    }
}

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A span begins.
    Begin = 1,
    /// The innermost span of the track ends.
    End = 2,
    /// A moment.
    Instant = 3,
    /// A counter has a value from now on.
    Counter = 4,
}

/// What has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Named {
    /// An event.
    Event = field::EVENT_NAMES,
    /// A value of an event.
    Value = field::VALUE_NAMES,
}

/// The number by which a sequence means a name: the same everywhere. Never 0. FNV-1a, of 28 bits, which are four bytes in a packet.
#[must_use]
pub const fn name_id(name: &[u8]) -> u32 {
    let (mut hash, mut at) = (0x811c_9dc5_u32, 0);
    // Ends: over the bytes.
    while at < name.len() {
        hash = (hash ^ name[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    let id = (hash ^ hash >> 28) & 0x0fff_ffff;
    if id == 0 { 1 } else { id }
}

/// One packet or a few, encoded.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    bytes: [u8; PACKET_BYTES],
    length: usize,
}

impl Default for Packet {
    fn default() -> Self {
        Self::new()
    }
}

impl Packet {
    /// No packet.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; PACKET_BYTES], length: 0 }
    }
    /// The bytes; `None` if not all had room, which names and values within the limits have.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.bytes.get(..self.length)
    }

    /// Two clocks, read at one moment by a sequence, or by none, 0.
    pub fn clocks(&mut self, sequence: u32, clock: u32, nanoseconds: u64, boottime_nanoseconds: u64) {
        self.message(field::TRACE_PACKET, |packet| {
            packet.message(field::CLOCK_SNAPSHOT, |snapshot| {
                for (id, time) in [(CLOCK_BOOTTIME, boottime_nanoseconds), (clock, nanoseconds)] {
                    snapshot.message(field::CLOCKS, |clock| {
                        clock.number(field::CLOCK_ID, u64::from(id));
                        clock.number(field::CLOCK_TIMESTAMP, time);
                    });
                }
            });
            packet.sequence(sequence);
        });
    }
    /// A sequence begins: the clock and the track of its events where they do not say another, and what that track is.
    pub fn begin(&mut self, sequence: u32, clock: u32, track: &Track<'_>) {
        self.message(field::TRACE_PACKET, |packet| {
            packet.number(field::SEQUENCE_FLAGS, CLEARED);
            packet.message(field::PACKET_DEFAULTS, |defaults| {
                defaults.number(field::TIMESTAMP_CLOCK_ID, u64::from(clock));
                defaults.message(field::DEFAULT_EVENT, |event| event.number(field::TRACK_UUID, track.uuid));
            });
            packet.describe(track);
            packet.sequence(sequence);
        });
    }
    /// What a track is.
    pub fn track(&mut self, sequence: u32, track: &Track<'_>) {
        self.message(field::TRACE_PACKET, |packet| {
            packet.describe(track);
            packet.sequence(sequence);
        });
    }
    /// A name, on a sequence, which its number stands for from then on.
    pub fn name(&mut self, sequence: u32, of: Named, name: &[u8]) {
        self.message(field::TRACE_PACKET, |packet| {
            packet.message(field::INTERNED_DATA, |data| {
                data.message(of as u32, |interned| {
                    interned.number(field::IID, u64::from(name_id(name)));
                    interned.text(field::INTERNED_NAME, name);
                });
            });
            packet.sequence(sequence);
        });
    }
    /// An event, or a counter's value.
    pub fn event(&mut self, sequence: u32, time: u64, event: Event<'_>) {
        Encoded::new(sequence, time, event).each_word(|_, word| {
            for byte in word.to_le_bytes() {
                self.byte(byte);
            }
        });
    }

    fn describe(&mut self, track: &Track<'_>) {
        self.message(field::TRACK_DESCRIPTOR, |body| {
            body.number(field::UUID, track.uuid);
            if track.parent != 0 {
                body.number(field::PARENT_UUID, track.parent);
            }
            match track.is {
                Is::Process(pid) => body.message(field::PROCESS, |process| {
                    process.number(field::PID, u64::from(pid));
                    process.text(field::PROCESS_NAME, track.name.as_bytes());
                }),
                Is::Events => body.text(field::TRACK_NAME, track.name.as_bytes()),
                Is::Counter => {
                    body.text(field::TRACK_NAME, track.name.as_bytes());
                    body.message(field::COUNTER, |_| {});
                }
            }
        });
    }
    /// The sequence, in as many bytes as make the packet a multiple of [`PACKET_ALIGN`]: the last that a packet gets.
    fn sequence(&mut self, sequence: u32) {
        let mut bytes = PACKET_ALIGN - self.length % PACKET_ALIGN;
        // A field of one byte and five to ten takes a number of 32 bits; two such, where the second says the same, up to 22.
        if bytes < 6 {
            bytes += PACKET_ALIGN;
        }
        let first = if bytes <= 11 { bytes } else { bytes / 2 };
        self.padded(field::SEQUENCE_ID, u64::from(sequence), first - 1);
        if first < bytes {
            self.padded(field::SEQUENCE_ID, u64::from(sequence), bytes - first - 1);
        }
    }
    /// A number in so many bytes, which are at least those that it needs, and at most ten.
    fn padded(&mut self, field: u32, mut value: u64, bytes: usize) {
        self.key(field, 0);
        for _ in 1..bytes {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }
    #[inline]
    fn byte(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
        }
        self.length += 1;
    }
    /// A number in groups of seven bits, the lowest first (protocol buffers, "Base 128 Varints").
    #[inline]
    fn varint(&mut self, mut value: u64) {
        // Ends: the value gets shorter.
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }
    #[inline]
    fn key(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }
    #[inline]
    fn number(&mut self, field: u32, value: u64) {
        self.key(field, 0);
        self.varint(value);
    }
    fn text(&mut self, field: u32, text: &[u8]) {
        self.key(field, 2);
        self.varint(text.len() as u64);
        for byte in text {
            self.byte(*byte);
        }
    }
    /// A message in a field. Its length has two bytes, which is more than a short one needs, and known before its content is.
    #[inline]
    fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        self.key(field, 2);
        let at = self.length;
        self.length += 2;
        fill(self);
        let length = self.length - at - 2;
        if let Some([low, high]) = self.bytes.get_mut(at..at + 2) {
            *low = length as u8 | 0x80;
            *high = (length >> 7) as u8;
        }
    }
}

/// A track, for its description.
#[derive(Clone, Copy, Debug)]
pub struct Track<'a> {
    /// Its number, which no other track of the trace has; never 0.
    pub uuid: u64,
    /// The track that it belongs to, or 0.
    pub parent: u64,
    /// What it is.
    pub is: Is,
    /// Its name.
    pub name: &'a TrackName,
}

/// What is on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    /// Spans and moments.
    Events,
    /// Values.
    Counter,
    /// A process, by its number: the tracks that belong to it.
    Process(u32),
}

/// An event, for its packet.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its name's number; 0 for an end.
    pub name: u32,
    /// Its track, where that is not the sequence's.
    pub track: Option<u64>,
    /// Numbers of the values' names.
    pub value_names: &'a [u32],
    /// The values.
    pub values: &'a [Value],
}

/// The name of a track, which may hold numbers.
#[derive(Clone, Copy, Debug)]
pub struct TrackName {
    bytes: [u8; NAME_BYTES_MAX],
    length: usize,
}

impl TrackName {
    /// A name; what is longer than [`NAME_BYTES_MAX`] is cut.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        Self { bytes: [0; NAME_BYTES_MAX], length: 0 }.and(text)
    }
    /// With a text behind it.
    #[must_use]
    pub fn and(mut self, text: &[u8]) -> Self {
        for byte in text {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = *byte;
                self.length += 1;
            }
        }
        self
    }
    /// With a number behind it.
    #[must_use]
    pub fn and_number(self, number: u64) -> Self {
        let mut digits = [0; 20];
        let (mut first, mut rest) = (digits.len(), number);
        // Ends: the number gets shorter, and has at most 20 digits.
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return self.and(&digits[first..]);
            }
        }
    }
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
