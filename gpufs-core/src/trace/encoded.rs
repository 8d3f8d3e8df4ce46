//! An event's packet in words of 8 bytes, which are made in registers.
//!
//! Numbers have a fixed number of bytes: groups of seven bits whose upper ones may be zero, which readers of protocol buffers take as any other.
//! So each field has one place, and the length of a packet follows from its kind and the number of its values:
//!
//! ```text
//! 0a L │ 40 time ×7 │ 50 sequence ×4 │ 5a B │ 48 kind  50 name ×4              a span's begin, a moment
//!                                           │ 48 kind ×6                       an end
//! 0a LL LL │ 40 time ×9 │ 50 sequence ×5 │ 5a BB BB │ 48 kind ×3  50 name ×5   the same, where the packet is longer than 128 bytes,
//!                                                   │ 48 kind ×9               the time above 49 bits, or the sequence above 28
//!                                                   │ 58 track ×9              a counter's value
//! 58 track ×10  48 kind ×4                                                     where the track is another one than the sequence's
//! 22 0e 08 name ×4  18 value ×8                                                a value below 2⁵⁶
//! 22 0e 29 value ×8  08 name ×4                                                a real
//! 22 1e 08 name ×5  08 name ×7 │ 20 value ×10  08 name ×4                      a larger one, or one below zero
//! f0 01 value ×10  48 kind ×3                                                  a counter's
//! e1 02 value ×8  48 kind ×5                                                   a counter's real
//! ```
//!
//! Where a field stands twice, the second fills the word: readers take the last, which is the same. No word is 0 ([R-TRACE-2]).

use super::{Event, Kind, Value, field};

/// Bytes of a word.
pub const WORD_BYTES: usize = 8;
/// Words of the longest packet whose lengths have one byte.
const SHORT_WORDS_MAX: usize = 128 / WORD_BYTES;
/// Bits of a sequence there.
pub const SHORT_SEQUENCE_BITS: u32 = 28;
const SHORT_HEAD_WORDS: usize = 3;
const LONG_HEAD_WORDS: usize = 4;

/// `LEN`, the wire type of what has a length.
const LEN: u128 = 2;
/// `I64`, that of eight bytes.
const I64: u128 = 1;

/// The byte or two before a field of a number, by its wire type.
const fn key(field: u32, wire: u128) -> u128 {
    let key = (field as u128) << 3 | wire;
    if key < 0x80 { key } else { key & 0x7f | 0x80 | key >> 7 << 8 }
}

/// The low 56 bits in groups of seven, each with the mark that another follows.
const fn groups(value: u64) -> u64 {
    let value = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
    let value = value & 0x0000_3fff_0000_3fff | (value & 0x0fff_c000_0fff_c000) << 2;
    let value = value & 0x007f_007f_007f_007f | (value & 0x3f80_3f80_3f80_3f80) << 1;
    value | 0x8080_8080_8080_8080
}
/// A number of at most 7 × `BYTES` bits in so many bytes, 1 to 8.
const fn short<const BYTES: u32>(value: u64) -> u128 {
    (groups(value) & (u64::MAX >> (64 - 8 * BYTES)) & !(0x80 << (8 * (BYTES - 1)))) as u128
}
/// A number of at most 63 bits in nine bytes.
const fn nine(value: u64) -> u128 {
    groups(value) as u128 | ((value >> 56 & 0x7f) as u128) << 64
}
/// Any number in ten bytes.
const fn ten(value: u64) -> u128 {
    groups(value) as u128 | ((value >> 56 & 0x7f | 0x80) as u128) << 64 | ((value >> 63) as u128) << 72
}
/// The length of a message, in two bytes.
const fn length(bytes: usize) -> u128 {
    short::<2>(bytes as u64)
}

/// An event, which is made a packet of [`Encoded::words`] words of 8 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    sequence: u32,
    time: u64,
    event: Event<'a>,
}

impl<'a> Encoded<'a> {
    /// Bytes of the longest.
    pub const BYTES_MAX: usize = (6 + 4 * super::VALUES_MAX) * WORD_BYTES;

    /// An event of a sequence at a time, below 2⁶³ nanoseconds. Numbers of names have 28 bits ([`super::name_id`]); a counter has a track, and one
    /// value.
    #[inline]
    #[must_use]
    pub const fn new(sequence: u32, time: u64, event: Event<'a>) -> Self {
        Self { sequence, time, event }
    }

    /// The event's values.
    #[must_use]
    pub const fn values(&self) -> &'a [Value] {
        self.event.values
    }
    /// The same on a track.
    #[must_use]
    pub const fn on(self, track: Option<u64>) -> Self {
        Self { event: Event { track, ..self.event }, ..self }
    }

    /// How many words, at least three.
    #[inline]
    #[must_use]
    pub fn words(&self) -> usize {
        self.head_words() + self.words_behind()
    }

    /// Those that the fields have that all events have.
    #[inline]
    fn head_words(&self) -> usize {
        let is_short = self.event.kind != Kind::Counter
            && self.time >> super::TIME_BITS == 0
            && self.sequence >> SHORT_SEQUENCE_BITS == 0
            && SHORT_HEAD_WORDS + self.words_behind() <= SHORT_WORDS_MAX;
        if is_short { SHORT_HEAD_WORDS } else { LONG_HEAD_WORDS }
    }

    /// Those behind them.
    #[inline]
    fn words_behind(&self) -> usize {
        if self.event.kind == Kind::Counter {
            return 2;
        }
        let values =
            self.event.values.iter().map(|value| 2 + 2 * usize::from(is_wide(*value))).sum::<usize>();
        2 * usize::from(self.event.track.is_some()) + values
    }

    /// Makes each word, in order; its bytes are those of the packet, the lowest first.
    #[inline]
    pub fn each_word(&self, mut put_word: impl FnMut(usize, u64)) {
        let Event { kind, track, value_names, values, .. } = self.event;
        let words = self.words();
        let head = self.head_words();
        if head == SHORT_HEAD_WORDS {
            self.short_head(words, &mut put_word);
        } else {
            self.long_head(words, &mut put_word);
        }
        let mut put = |at: usize, words: u128| {
            put_word(at, words as u64);
            put_word(at + 1, (words >> 64) as u64);
        };
        let type_of = |bytes_of_kind: u128| key(field::EVENT_TYPE, 0) | bytes_of_kind << 8;
        if kind == Kind::Counter {
            // Perfetto counts in 64 bits with a sign: what has more is a large real.
            let of = |value: u64| {
                key(field::COUNTER_VALUE, 0) | ten(value) << 16 | type_of(short::<3>(kind as u64)) << 96
            };
            let real = |value: f64| {
                let value = u128::from(value.to_bits());
                key(field::REAL_COUNTER_VALUE, I64) | value << 16 | type_of(short::<5>(kind as u64)) << 80
            };
            let word = match values.first().copied().unwrap_or(Value::Unsigned(0)) {
                Value::Unsigned(value) if value > i64::MAX as u64 => real(value as f64),
                Value::Unsigned(value) => of(value),
                Value::Signed(value) => of(value.cast_unsigned()),
                Value::Real(value) => real(value),
            };
            return put(head, word);
        }
        let mut at = head;
        if let Some(track) = track {
            put(at, key(field::TRACK_UUID, 0) | ten(track) << 8 | type_of(short::<4>(kind as u64)) << 88);
            at += 2;
        }
        for (name, value) in value_names.iter().zip(values) {
            at = annotation(*name, *value, at, &mut put);
        }
    }

    /// The head of a packet of so many words, in which lengths have one byte.
    #[inline]
    fn short_head(&self, words: usize, put: &mut impl FnMut(usize, u64)) {
        let Event { kind, name, .. } = self.event;
        debug_assert!(name == 0 || kind != Kind::End);
        let bytes = (words * WORD_BYTES) as u64;
        let (time, sequence) = (short::<7>(self.time) as u64, short::<4>(u64::from(self.sequence)) as u64);
        let key = |field, wire| key(field, wire) as u64;
        let packet = key(field::TRACE_PACKET, LEN) | (bytes - 2) << 8;
        put(0, packet | key(field::TIMESTAMP, 0) << 16 | time << 24);
        let event = key(field::TRACK_EVENT, LEN) << 56;
        put(1, time >> 40 | key(field::SEQUENCE_ID, 0) << 16 | sequence << 24 | event);
        let first = (bytes - 17) | key(field::EVENT_TYPE, 0) << 8;
        put(
            2,
            if kind == Kind::End {
                first | (short::<6>(kind as u64) as u64) << 16
            } else {
                let name = short::<4>(u64::from(name)) as u64;
                first | (kind as u64) << 16 | key(field::NAME_IID, 0) << 24 | name << 32
            },
        );
    }

    /// The head of any packet of so many words.
    fn long_head(&self, words: usize, put: &mut impl FnMut(usize, u64)) {
        let bytes = words * WORD_BYTES;
        let (time, sequence) = (nine(self.time), short::<5>(u64::from(self.sequence)));
        let head = key(field::TRACE_PACKET, LEN) | length(bytes - 3) << 8 | key(field::TIMESTAMP, 0) << 24;
        let head = head | time << 32 | key(field::SEQUENCE_ID, 0) << 104 | sequence << 112;
        let event = key(field::TRACK_EVENT, LEN) | length(bytes - 22) << 8;
        let rest = sequence >> 16 | event << 24 | self.first_fields() << 48;
        for (at, words) in [(0, head), (2, rest)] {
            put(at, words as u64);
            put(at + 1, (words >> 64) as u64);
        }
    }

    /// The ten bytes of the event's message that the long head has room for.
    #[inline]
    fn first_fields(&self) -> u128 {
        let kind = self.event.kind as u64;
        match self.event.kind {
            Kind::Counter => key(field::TRACK_UUID, 0) | nine(self.event.track.unwrap_or(0)) << 8,
            Kind::End => key(field::EVENT_TYPE, 0) | nine(kind) << 8,
            Kind::Begin | Kind::Instant => {
                let name = key(field::NAME_IID, 0) | short::<5>(u64::from(self.event.name)) << 8;
                key(field::EVENT_TYPE, 0) | short::<3>(kind) << 8 | name << 32
            }
        }
    }
}

/// Whether a value takes four words, and not two.
#[inline]
fn is_wide(value: Value) -> bool {
    match value {
        Value::Unsigned(value) => value >> 56 != 0,
        Value::Signed(value) => value >> 56 != 0,
        Value::Real(_) => false,
    }
}

/// The words of one value from `at` on; where the next begin.
#[inline]
fn annotation(name: u32, value: Value, at: usize, put: &mut impl FnMut(usize, u128)) -> usize {
    let (wire, bits) = match value {
        Value::Unsigned(value) => (key(field::UINT_VALUE, 0), value),
        Value::Signed(value) => (key(field::INT_VALUE, 0), value.cast_unsigned()),
        Value::Real(value) => (key(field::DOUBLE_VALUE, I64), value.to_bits()),
    };
    let (name, named) = (u64::from(name), key(field::VALUE_NAME_IID, 0));
    let message = |bytes: u128| key(field::ANNOTATIONS, LEN) | bytes << 8;
    let head = |bytes: u128| message(bytes) | named << 16;
    if matches!(value, Value::Real(_)) {
        // The name comes last: so no word is the value alone, which may be 0.
        put(at, message(14) | wire << 16 | u128::from(bits) << 24 | named << 88 | short::<4>(name) << 96);
        return at + 2;
    }
    if !is_wide(value) {
        put(at, head(14) | short::<4>(name) << 24 | wire << 56 | short::<8>(bits) << 64);
        return at + 2;
    }
    put(at, head(30) | short::<5>(name) << 24 | named << 64 | short::<7>(name) << 72);
    put(at + 2, wire | ten(bits) << 8 | named << 88 | short::<4>(name) << 96);
    at + 4
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trace::reader::{Read, fields, last};
    use crate::trace::{VALUES_MAX, name_id};

    fn bytes_of(encoded: &Encoded<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        encoded.each_word(|index, word| {
            assert_eq!(index * WORD_BYTES, bytes.len());
            assert_ne!(word, 0);
            bytes.extend(word.to_le_bytes());
        });
        assert_eq!(bytes.len(), encoded.words() * WORD_BYTES);
        assert!(bytes.len() <= Encoded::BYTES_MAX);
        bytes
    }

    /// A number in so many bytes, by division.
    fn grouped(value: u64, bytes: u32) -> Vec<u8> {
        let group = |at: u32| (value / 128_u64.pow(at) % 128) as u8 + if at + 1 < bytes { 128 } else { 0 };
        (0..bytes).map(group).collect()
    }
    /// A field of a number in so many bytes, behind the field's key.
    fn field_of(key: &[u8], value: u64, bytes: u32) -> Vec<u8> {
        [key, &grouped(value, bytes)].concat()
    }

    /// The packet, field by field, as the table at the top of the file has it.
    fn laid_out(sequence: u32, time: u64, event: Event<'_>) -> Vec<u8> {
        let kind = event.kind as u64;
        let behind = fields_behind(event);
        let is_short =
            event.kind != Kind::Counter && 24 + behind.len() <= 128 && time < 1 << 49 && sequence < 1 << 28;
        let bytes_of = |short, long| if is_short { short } else { long };
        let mut body = match event.kind {
            Kind::Begin | Kind::Instant => {
                let name = field_of(&[0x50], event.name.into(), bytes_of(4, 5));
                [field_of(&[0x48], kind, bytes_of(1, 3)), name].concat()
            }
            Kind::End => field_of(&[0x48], kind, bytes_of(6, 9)),
            Kind::Counter => field_of(&[0x58], event.track.unwrap(), 9),
        };
        body.extend(behind);
        let head =
            [field_of(&[0x40], time, bytes_of(7, 9)), field_of(&[0x50], sequence.into(), bytes_of(4, 5))];
        let lengths = bytes_of(1, 2);
        let packet = [head.concat(), field_of(&[0x5a], body.len() as u64, lengths), body].concat();
        [field_of(&[0x0a], packet.len() as u64, lengths), packet].concat()
    }

    /// What is behind the fields that all events have.
    fn fields_behind(event: Event<'_>) -> Vec<u8> {
        let kind = event.kind as u64;
        let mut body = Vec::new();
        match (event.kind, event.track) {
            (Kind::Counter, _) => {
                let (integer, real) = counted(event.values[0]);
                body.extend(integer.iter().flat_map(|value| field_of(&[0xf0, 0x01], *value, 10)));
                let kind_bytes = if real.is_some() { 5 } else { 3 };
                body.extend(real.iter().flat_map(|real| [&[0xe1, 0x02], &real.to_le_bytes()[..]].concat()));
                body.extend(field_of(&[0x48], kind, kind_bytes));
            }
            (_, Some(track)) => {
                body.extend([field_of(&[0x58], track, 10), field_of(&[0x48], kind, 4)].concat());
            }
            _ => {}
        }
        for (name, value) in event.value_names.iter().zip(event.values) {
            let named = |bytes| field_of(&[0x08], (*name).into(), bytes);
            let narrow = |value: Vec<u8>| [vec![0x22, 0x0e], named(4), value].concat();
            let wide = |value| [vec![0x22, 0x1e], named(5), named(7), value, named(4)].concat();
            body.extend(match *value {
                Value::Unsigned(value) if value < 1 << 56 => narrow(field_of(&[0x18], value, 8)),
                Value::Unsigned(value) => wide(field_of(&[0x18], value, 10)),
                Value::Signed(value @ 0..0x100_0000_0000_0000) => {
                    narrow(field_of(&[0x20], value.cast_unsigned(), 8))
                }
                Value::Signed(value) => wide(field_of(&[0x20], value.cast_unsigned(), 10)),
                Value::Real(value) => {
                    [vec![0x22, 0x0e, 0x29], value.to_le_bytes().to_vec(), named(4)].concat()
                }
            });
        }
        body
    }

    /// What a counter's value is, as a number with a sign or as a real.
    fn counted(value: Value) -> (Option<u64>, Option<f64>) {
        match value {
            Value::Signed(value) => (Some(value.cast_unsigned()), None),
            Value::Unsigned(value) if i64::try_from(value).is_ok() => (Some(value), None),
            Value::Unsigned(value) => (None, Some(value as f64)),
            Value::Real(value) => (None, Some(value)),
        }
    }

    /// Numbers at which a value has another form, and some between.
    #[test]
    fn packets_lie_as_the_table_says() {
        let unsigned = [0, 5, 256, (1 << 56) - 1, 1 << 56, i64::MAX as u64, 1 << 63, u64::MAX];
        let signed = [0, 5, 256, (1 << 56) - 1, 1 << 56, i64::MAX, -1, i64::MIN];
        let values = unsigned.map(Value::Unsigned).into_iter().chain(signed.map(Value::Signed));
        let value_names = [0x0fed_cba9];
        let sizes = [
            (0xfedc_ba98, 0x7edc_ba98_7654_3210),
            (0x0edc_ba98, 0x7edc_ba98_7654_3210),
            (0x0edc_ba98, 1 << 49),
            (1 << 28, 77),
            (0x0fff_ffff, (1 << 49) - 1),
            (0, 0),
        ];
        let lies = |event: Event<'_>| {
            for (sequence, time) in sizes {
                let found = bytes_of(&Encoded::new(sequence, time, event));
                assert_eq!(found, laid_out(sequence, time, event), "{sequence} {time} {event:?}");
            }
        };
        for value in values.chain([-0.1, 0.0].map(Value::Real)) {
            let counter = Event {
                kind: Kind::Counter,
                name: 0,
                track: Some(0x7123 << 48),
                value_names: &[],
                values: &[value],
            };
            lies(counter);
            for (kind, track) in
                [(Kind::Begin, None), (Kind::End, Some(u64::MAX)), (Kind::Instant, Some(1 << 63))]
            {
                let name = if kind == Kind::End { 0 } else { 0x0abc_def0 };
                lies(Event { kind, name, track, value_names: &[], values: &[] });
                lies(Event { kind, name, track, value_names: &value_names, values: &[value] });
                lies(Event {
                    kind,
                    name,
                    track,
                    value_names: &[5; VALUES_MAX],
                    values: &[value; VALUES_MAX],
                });
            }
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<u64>().prop_map(Value::Unsigned),
            (0..56_u32, any::<u64>()).prop_map(|(bits, value)| Value::Unsigned(value & ((1 << bits) - 1))),
            any::<i64>().prop_map(Value::Signed),
            (-1000..1000_i64).prop_map(Value::Signed),
            (-1e300..1e300).prop_map(Value::Real),
            Just(Value::Unsigned((1 << 56) - 1)),
            Just(Value::Unsigned(1 << 56)),
        ]
    }

    fn annotated(value: Value) -> (u32, Read) {
        match value {
            Value::Unsigned(value) => (field::UINT_VALUE, Read::Number(value)),
            Value::Signed(value) => (field::INT_VALUE, Read::Number(value.cast_unsigned())),
            Value::Real(value) => (field::DOUBLE_VALUE, Read::Fixed(value.to_bits())),
        }
    }

    proptest! {
        #[test]
        fn what_was_said_is_read(
            sequence in prop_oneof![any::<u32>(), 0..1_u32 << 28],
            time in prop_oneof![0..1_u64 << 63, 0..1_u64 << 49],
            kind in prop::sample::select(vec![Kind::Begin, Kind::End, Kind::Instant]),
            track in prop::option::of(any::<u64>()),
            values in prop::collection::vec(value(), 0..=VALUES_MAX),
            name in "[a-z]{0,20}",
        ) {
            let name = if kind == Kind::End { 0 } else { name_id(name.as_bytes()) };
            let names: Vec<u32> = (0..values.len()).map(|at| name_id(&[at as u8])).collect();
            let event = Event { kind, name, track, value_names: &names, values: &values };
            let bytes = bytes_of(&Encoded::new(sequence, time, event));
            prop_assert_eq!(&bytes, &laid_out(sequence, time, event));
            let trace = fields(&bytes);
            let [(field::TRACE_PACKET, Read::Bytes(packet))] = &trace[..] else { panic!("{trace:?}") };
            let packet = fields(packet);
            prop_assert_eq!(last(&packet, field::TIMESTAMP), Some(Read::Number(time)));
            prop_assert_eq!(last(&packet, field::SEQUENCE_ID), Some(Read::Number(u64::from(sequence))));
            let Some(Read::Bytes(body)) = last(&packet, field::TRACK_EVENT) else {
                panic!("{packet:?}")
            };
            let body = fields(&body);
            prop_assert_eq!(last(&body, field::EVENT_TYPE), Some(Read::Number(kind as u64)));
            prop_assert_eq!(last(&body, field::TRACK_UUID), track.map(Read::Number));
            let named = (name != 0).then(|| Read::Number(u64::from(name)));
            prop_assert_eq!(last(&body, field::NAME_IID), named);
            let annotations: Vec<_> = body.iter().filter(|(field, _)| *field == field::ANNOTATIONS).collect();
            prop_assert_eq!(annotations.len(), values.len());
            for ((name, value), (_, read)) in names.iter().zip(&values).zip(annotations) {
                let Read::Bytes(read) = read else { panic!("{read:?}") };
                let read = fields(read);
                let (number, wanted) = annotated(*value);
                prop_assert_eq!(last(&read, field::VALUE_NAME_IID), Some(Read::Number(u64::from(*name))));
                prop_assert_eq!(last(&read, number), Some(wanted));
            }
        }

        #[test]
        fn what_was_counted_is_read(
            sequence: u32,
            time in 0..1_u64 << 63,
            track in 1..1_u64 << 63,
            value in value(),
        ) {
            let (kind, track_of) = (Kind::Counter, Some(track));
            let event = Event { kind, name: 0, track: track_of, value_names: &[], values: &[value] };
            let trace = fields(&bytes_of(&Encoded::new(sequence, time, event)));
            let [(field::TRACE_PACKET, Read::Bytes(packet))] = &trace[..] else { panic!("{trace:?}") };
            let Some(Read::Bytes(body)) = last(&fields(packet), field::TRACK_EVENT) else {
                panic!("{packet:?}")
            };
            let body = fields(&body);
            prop_assert_eq!(last(&body, field::EVENT_TYPE), Some(Read::Number(4)));
            prop_assert_eq!(last(&body, field::TRACK_UUID), Some(Read::Number(track)));
            let (number, real) = counted(value);
            prop_assert_eq!(last(&body, field::COUNTER_VALUE), number.map(Read::Number));
            let real = real.map(|real| Read::Fixed(real.to_bits()));
            prop_assert_eq!(last(&body, field::REAL_COUNTER_VALUE), real);
        }
    }
}
