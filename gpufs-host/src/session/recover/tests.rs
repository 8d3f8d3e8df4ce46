use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use gpufs_core::Errno;
use gpufs_core::journal::Record;
use gpufs_core::trace::{Encoded, Event, Kind, Value};

use super::SurvivingBlock;
use super::writing::{write_stream, write_with_events};

/// One byte of a stream whose descriptor is `file`'s, by a record that may be forged.
fn block(block_number: u64, file: &File, byte: &u8) -> SurvivingBlock {
    let record = Record {
        block_number,
        offset: block_number,
        token: 0,
        written: 0,
        filled: 1,
        descriptor: file.as_raw_fd(),
        shape: 0,
        stream: 1,
        generation: 0,
    };
    let address = std::ptr::from_ref(byte).expose_provenance() as u64;
    SurvivingBlock { record, address, written: 0, rest: vec![(0, 1)], pending: false }
}

/// Which descriptor a stream is written to, its first block by number says; and that one is what is asked for.
#[test]
fn nothing_is_written_to_a_descriptor_that_is_not_known() {
    let folder = std::env::temp_dir().join(format!("gpufs-recover-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let [own, other] = ["own", "other"].map(|name| File::create(folder.join(name)).unwrap());
    let blocks = vec![block(1, &own, &b'a'), block(0, &other, &b'b')];
    let until = Instant::now() + Duration::from_secs(1);
    let stream = write_stream(blocks, |descriptor| descriptor == own.as_raw_fd(), until).unwrap();
    assert_eq!((stream.written, stream.lost, stream.errno), (0, 2, Some(Errno::BADF)));
    assert_eq!(fs::read(folder.join("other")).unwrap(), b"");
    fs::remove_dir_all(&folder).unwrap();
}

/// Two blocks of four bytes, of which some are not there: in a stream whose writes began in order, the others lie side by side.
#[test]
fn what_is_not_there_is_omitted_where_writes_began_in_order() {
    let folder = std::env::temp_dir().join(format!("gpufs-recover-ordered-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (shape, wanted) in
        [(0, &b"..\0bc\0\0fgh"[..]), (Record::ORDERED, b"..bcfgh"), (Record::SERIAL, b"bcfgh")]
    {
        let path = folder.join(shape.to_string());
        let file = File::create(&path).unwrap();
        let texts = [b"abcd", b"efgh"];
        let of = |number: usize, written, rest| {
            let mut block = block(number as u64, &file, &texts[number][0]);
            block.record.shape = shape | 2;
            block.record.offset = 2 + 4 * number as u64;
            block.written = written;
            block.rest = rest;
            block
        };
        if shape != Record::SERIAL {
            std::os::unix::fs::FileExt::write_all_at(&file, b"..", 0).unwrap();
        }
        let until = Instant::now() + Duration::from_secs(1);
        let blocks = vec![of(1, 0, vec![(1, 2), (2, 4)]), of(0, 0, vec![(1, 3)])];
        let stream = write_stream(blocks, |_| true, until).unwrap();
        assert_eq!((stream.written, stream.lost, stream.errno), (5, 0, None));
        assert_eq!(fs::read(&path).unwrap(), wanted, "{shape:#x}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// An event's packet.
fn packet(values: &[Value]) -> Vec<u8> {
    let names = vec![1; values.len()];
    let event = Event { kind: Kind::Instant, name: 5, track: None, value_names: &names, values };
    let mut bytes = Vec::new();
    Encoded::new(1, 1000, event).each_word(|_, word| bytes.extend(word.to_le_bytes()));
    bytes
}

/// A fault cuts a packet in the file, after any of its words; events that waited in a piece come in its place, and nothing of it is left behind
/// them, whether it was longer than they are or not.
#[test]
fn events_come_in_the_place_of_a_packet_that_was_cut() {
    let folder = std::env::temp_dir().join(format!("gpufs-recover-cut-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (short, long) = (packet(&[]), packet(&[Value::Signed(-1); 4]));
    assert!(long.len() > 6 * short.len());
    let whole = short.repeat(7);
    for (cut, events) in (0..long.len()).step_by(8).flat_map(|cut| [(cut, 1), (cut, 3), (cut, 9)]) {
        let path = folder.join(format!("{cut}-{events}"));
        fs::write(&path, [&whole, &long[..cut]].concat()).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut block = block(0, &file, &0);
        block.record.shape = Record::ORDERED | 16;
        block.written = u32::try_from(whole.len() + cut).unwrap();
        block.rest.clear();
        let key = (block.record.stream, block.record.generation, block.record.descriptor);
        let mut waiting = [(key, short.repeat(events))].into();
        let until = Instant::now() + Duration::from_secs(1);
        let stream = write_with_events(vec![block], &mut waiting, |_| true, until).unwrap();
        assert_eq!((stream.written, stream.lost, stream.errno), ((events * short.len()) as u64, 0, None));
        assert_eq!(fs::read(&path).unwrap(), short.repeat(7 + events), "{cut} bytes, {events} events");
    }
    fs::remove_dir_all(&folder).unwrap();
}
