use super::reader::{Read, fields, last};
use super::{
    Event, Is, Kind, NAME_BYTES_MAX, Named, Packet, Track, TrackName, VALUES_MAX, Value, WORD_BYTES, field,
    name_id,
};

#[test]
fn an_event_without_values_is_short() {
    let mut packet = Packet::new();
    let event =
        Event { kind: Kind::Begin, name: name_id(b"load"), track: None, value_names: &[], values: &[] };
    packet.event(3000, 1_790_000_000_000_000_000, event);
    assert_eq!(packet.bytes().map(<[u8]>::len), Some(32));
}

#[test]
fn the_longest_that_the_limits_allow_has_room() {
    let name = TrackName::new(&[b'n'; 2 * NAME_BYTES_MAX]).and_number(u64::MAX);
    let track = Track { uuid: u64::MAX, parent: u64::MAX, is: Is::Events, name: &name };
    let mut begun = Packet::new();
    begun.clocks(u32::MAX, u32::MAX, u64::MAX, u64::MAX);
    begun.begin(u32::MAX, u32::MAX, &track);
    assert!(begun.bytes().is_some());
    let mut described = Packet::new();
    described.track(u32::MAX, &track);
    assert!(described.bytes().is_some());
    let mut event = Packet::new();
    event.event(
        u32::MAX,
        u64::MAX,
        Event {
            kind: Kind::Begin,
            name: u32::MAX,
            track: Some(u64::MAX),
            value_names: &[u32::MAX; VALUES_MAX],
            values: &[Value::Signed(-1); VALUES_MAX],
        },
    );
    assert!(event.bytes().is_some(), "{}", event.length);
    let mut names = Packet::new();
    names.name(u32::MAX, Named::Event, &[b'n'; NAME_BYTES_MAX]);
    assert!(names.bytes().is_some());
    for _ in 0..4 {
        names.name(u32::MAX, Named::Value, &[b'n'; NAME_BYTES_MAX]);
    }
    assert!(names.bytes().is_none(), "what has no room is not written in part");
}

#[test]
fn packets_are_whole_words() {
    // Ends: over the lengths of names.
    for length in 0..=NAME_BYTES_MAX {
        let (text, name) = (vec![b'n'; length], TrackName::new(&vec![b'n'; length]));
        let track = Track { uuid: 1 << 40, parent: 7, is: Is::Counter, name: &name };
        for sequence in [0, 1, 1 << 20, u32::MAX] {
            let mut packets = [Packet::new(); 4];
            packets[0].clocks(sequence, 1 << 30, 1 << (length + 1), 1 << (length + 2));
            packets[1].begin(sequence, 1 << 30, &track);
            packets[2].track(sequence, &track);
            packets[3].name(sequence, Named::Value, &text);
            for packet in packets {
                let bytes = packet.bytes().unwrap();
                assert_eq!(bytes.len() % WORD_BYTES, 0);
                let said = usize::from(bytes[1] & 0x7f) | usize::from(bytes[2]) << 7;
                assert_eq!((bytes[0], said), (0x0a, bytes.len() - 3));
            }
        }
    }
}

#[test]
fn names_have_numbers_of_their_own() {
    let ids = [&b"load"[..], b"store", b"row", b"rows", b""].map(name_id);
    for (at, id) in ids.iter().enumerate() {
        assert!(*id != 0 && *id < 1 << 28 && !ids[..at].contains(id));
    }
}

/// FNV-1a of 32 bits, as its authors give it for these texts, with the upper four bits folded in.
#[test]
fn numbers_of_names_stay_what_they_are() {
    let known: [(&[u8], u32); 4] =
        [(b"", 0x811c_9dc5), (b"a", 0xe40c_292c), (b"foobar", 0xbf9c_f968), (b"load", 0xe607_59e9)];
    for (name, hash) in known {
        assert_eq!(name_id(name), (hash ^ (hash / (1 << 28))) % (1 << 28), "{name:?}");
    }
}

/// The content of the only packet.
fn packet_of(packet: &Packet) -> Vec<(u32, Read)> {
    let all = fields(packet.bytes().unwrap());
    let [(field::TRACE_PACKET, Read::Bytes(content))] = &all[..] else { panic!("{all:?}") };
    fields(content)
}

/// The packet is these messages, and behind them the sequence, in the fewest bytes that make the packet a multiple of 16.
fn assert_says(packet: &Packet, sequence: u32, wanted: &[(u32, Read)]) {
    let said = packet_of(packet);
    assert_eq!(last(&said, field::SEQUENCE_ID), Some(number(sequence.into())));
    let (rest, sequences) = said.split_at(wanted.len());
    assert_eq!(rest, wanted);
    assert!(sequences.iter().all(|(field, _)| *field == field::SEQUENCE_ID), "{said:?}");
    // A number of 32 bits has room in six bytes with its field's, so one of 6 to 11 bytes is enough, and else two.
    let length = packet.bytes().unwrap().len();
    assert!(
        sequences.len() <= 2 && (sequences.len() == 1) == (sequence_bytes(packet, wanted) <= 11),
        "{length}"
    );
}

/// The bytes in which a packet says its sequence: those that other messages do not have.
fn sequence_bytes(packet: &Packet, others: &[(u32, Read)]) -> usize {
    let length = packet.bytes().unwrap().len();
    let others: usize = others.iter().map(|(field, read)| field_bytes(*field, read)).sum();
    assert!(length.is_multiple_of(16), "{length}");
    let bytes = length - 3 - others;
    assert!((6..22).contains(&bytes), "{bytes} bytes make a multiple of 16");
    bytes
}

/// The bytes of a field of a packet: messages have lengths of two.
fn field_bytes(field: u32, read: &Read) -> usize {
    let key = if field < 16 { 1 } else { 2 };
    key + match read {
        Read::Number(_) => 1,
        Read::Bytes(content) => 2 + content.len(),
        Read::Fixed(_) => 8,
    }
}

fn number(value: u64) -> Read {
    Read::Number(value)
}

/// A message of these fields. Numbers and the lengths of `texts` have as few bytes as they need, lengths of messages two.
fn message(content: &[(u32, Read)], texts: &[u32]) -> Read {
    let mut bytes = Vec::new();
    for (field, read) in content {
        let wire = u64::from(matches!(read, Read::Bytes(_))) * 2;
        bytes.extend(shortest(u64::from(*field) * 8 + wire));
        match read {
            Read::Number(value) => bytes.extend(shortest(*value)),
            Read::Bytes(text) if texts.contains(field) => {
                bytes.extend(shortest(text.len() as u64));
                bytes.extend(text);
            }
            Read::Bytes(text) => {
                bytes.extend([(text.len() % 128) as u8 + 128, (text.len() / 128) as u8]);
                bytes.extend(text);
            }
            Read::Fixed(_) => panic!("no such field"),
        }
    }
    Read::Bytes(bytes)
}

/// A number in the fewest bytes, by division.
fn shortest(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push((value % 128) as u8 + 128);
        value /= 128;
    }
    bytes.push(value as u8);
    bytes
}

/// What is said of a track.
fn described(uuid: u64, parent: u64, is: Is, text: &[u8]) -> (u32, Read) {
    let mut body = vec![(field::UUID, number(uuid))];
    if parent != 0 {
        body.push((field::PARENT_UUID, number(parent)));
    }
    let text = Read::Bytes(text.to_vec());
    match is {
        Is::Process(pid) => {
            let process = [(field::PID, number(pid.into())), (field::PROCESS_NAME, text)];
            body.push((field::PROCESS, message(&process, &[field::PROCESS_NAME])));
            return (field::TRACK_DESCRIPTOR, message(&body, &[]));
        }
        Is::Events => body.push((field::TRACK_NAME, text)),
        Is::Counter => {
            body.extend([(field::TRACK_NAME, text), (field::COUNTER, Read::Bytes(Vec::new()))]);
        }
    }
    (field::TRACK_DESCRIPTOR, message(&body, &[field::TRACK_NAME]))
}

/// Each packet that is no event, with names of every length, so that what is left for the sequence has every length, too.
#[test]
fn packets_say_what_they_were_given() {
    for length in 0..=NAME_BYTES_MAX {
        let text = vec![b'n'; length];
        let name = TrackName::new(&text);
        for (sequence, uuid, parent) in
            [(0, 1, 0), (1, 300, 1), (0x8001, u64::MAX, 1 << 63), (u32::MAX, 128, 127)]
        {
            for is in [Is::Events, Is::Counter, Is::Process(70_000)] {
                let track = Track { uuid, parent, is, name: &name };
                let of_track = described(uuid, parent, is, &text);
                let mut packet = Packet::new();
                packet.track(sequence, &track);
                assert_says(&packet, sequence, std::slice::from_ref(&of_track));
                let mut packet = Packet::new();
                packet.begin(sequence, 200, &track);
                let event = message(&[(field::TRACK_UUID, number(uuid))], &[]);
                let defaults = [(field::TIMESTAMP_CLOCK_ID, number(200)), (field::DEFAULT_EVENT, event)];
                let flags = (field::SEQUENCE_FLAGS, number(1));
                assert_says(
                    &packet,
                    sequence,
                    &[flags, (field::PACKET_DEFAULTS, message(&defaults, &[])), of_track],
                );
            }
            let mut packet = Packet::new();
            packet.name(sequence, Named::Value, &text);
            let interned = [
                (field::IID, number(name_id(&text).into())),
                (field::INTERNED_NAME, Read::Bytes(text.clone())),
            ];
            let data = [(field::VALUE_NAMES, message(&interned, &[field::INTERNED_NAME]))];
            assert_says(&packet, sequence, &[(field::INTERNED_DATA, message(&data, &[]))]);
            let mut packet = Packet::new();
            let times = [1 << length, uuid];
            packet.clocks(sequence, 64, times[0], times[1]);
            let clock = |id, time| {
                let said = [(field::CLOCK_ID, number(id)), (field::CLOCK_TIMESTAMP, number(time))];
                (field::CLOCKS, message(&said, &[]))
            };
            let snapshot = message(&[clock(6, times[1]), clock(64, times[0])], &[]);
            assert_says(&packet, sequence, &[(field::CLOCK_SNAPSHOT, snapshot)]);
        }
    }
}

/// Such names are of no trace of ours, but their lengths have two bytes all the same.
#[test]
fn longer_messages_have_their_lengths() {
    for length in [100, 126, 127, 128, 150, 200] {
        let text = vec![b'n'; length];
        let mut packet = Packet::new();
        packet.name(7, Named::Event, &text);
        let interned =
            [(field::IID, number(name_id(&text).into())), (field::INTERNED_NAME, Read::Bytes(text))];
        let data = [(field::EVENT_NAMES, message(&interned, &[field::INTERNED_NAME]))];
        assert_says(&packet, 7, &[(field::INTERNED_DATA, message(&data, &[]))]);
    }
}

#[test]
fn names_of_tracks_are_texts_and_numbers() {
    for number in [0, 9, 10, 305, 1 << 40, u64::MAX] {
        let name = TrackName::new(b"row ").and_number(number).and(b" of").and_number(7);
        assert_eq!(name.as_bytes(), format!("row {number} of7").as_bytes());
    }
    let cut = TrackName::new(&[b'n'; NAME_BYTES_MAX - 2]).and_number(12345);
    assert_eq!(cut.as_bytes(), [&[b'n'; NAME_BYTES_MAX - 2][..], b"12"].concat());
}
