//! Formats and inputs of `scanf`.

use gpufs_device::Errno;
use gpufs_device::format::scan::{Target, TargetKind, check_targets, count_targets, sscanf};
use gpufs_tests::differential::scans::Case;
use gpufs_tests::random::Random;

use crate::bytes::Bytes;

/// What memory is before the call.
const UNTOUCHED: u8 = 0xa5;

/// Memory of one target, with some before and behind that must stay.
#[derive(Clone, Copy)]
struct Room {
    text: [u8; 24],
    wide: [u32; 12],
    bytes: u8,
    half: u16,
    word: u32,
    long: u64,
    float: f32,
    double: f64,
}

/// Scans as the bytes say: a case for both sides, or any bytes as a format and as its input.
///
/// # Panics
/// Where the engine is wrong.
pub fn scans(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    if bytes.byte().is_multiple_of(4) {
        let case = Case::generate(&Random::of_bytes(bytes.rest()), false);
        let (ours, theirs) = (case.ours(), case.system());
        // As far as both tell: where the text's end was met, only one of them knows whether a number was out of range.
        let text = String::from_utf8_lossy(&case.text);
        assert!(ours.equals(&theirs), "{:?} of {text:?}: {ours:?}, and the system {theirs:?}", case.format);
        return;
    }
    any_bytes(bytes);
}

fn any_bytes(mut bytes: Bytes<'_>) {
    let count = bytes.below(8);
    let mut rooms = [Room {
        text: [UNTOUCHED; 24],
        wide: [u32::from_ne_bytes([UNTOUCHED; 4]); 12],
        bytes: 0,
        half: 0,
        word: 0,
        long: 0,
        float: 0.0,
        double: 0.0,
    }; 8];
    let mut room_for = [(TargetKind::Any, 0); 8];
    let targets: Vec<Target<'_>> = rooms[..count]
        .iter_mut()
        .zip(&mut room_for)
        .map(|(room, given)| {
            let (target, elements) = target(&mut bytes, room);
            *given = (target.kind(), elements);
            target
        })
        .collect();
    let format_bytes = bytes.byte().into();
    let (format, input) = (bytes.take(format_bytes), bytes.rest());
    let checked = check_targets(format, &targets);
    let _ = count_targets(format);
    match sscanf(input, format, &targets) {
        Ok(stored) => {
            assert!(checked.is_ok());
            assert!(stored.unwrap_or(0) <= count, "more values than targets");
        }
        Err(error) => assert!(checked.is_err() || error.errno() != Errno::INVAL, "{error}"),
    }
    drop(targets);
    for (room, (kind, elements)) in rooms.iter().zip(room_for) {
        if kind == TargetKind::Text {
            assert!(room.text[elements..].iter().all(|byte| *byte == UNTOUCHED), "text beyond its memory");
        }
        if kind == TargetKind::Wide {
            let untouched = u32::from_ne_bytes([UNTOUCHED; 4]);
            assert!(room.wide[elements..].iter().all(|word| *word == untouched), "text beyond its memory");
        }
    }
}

/// A target and, of text, how many elements it may fill.
fn target<'a>(bytes: &mut Bytes<'_>, room: &'a mut Room) -> (Target<'a>, usize) {
    match bytes.below(8) {
        0 => (Target::from(&mut room.bytes), 0),
        1 => (Target::from(&mut room.half), 0),
        2 => (Target::from(&mut room.word), 0),
        3 => (Target::from(&mut room.long), 0),
        4 => (Target::from(&mut room.float), 0),
        5 => (Target::from(&mut room.double), 0),
        6 => {
            let elements = bytes.below(17);
            (Target::from(&mut room.text[..elements]), elements)
        }
        _ => {
            let elements = bytes.below(9);
            (Target::from(&mut room.wide[..elements]), elements)
        }
    }
}
