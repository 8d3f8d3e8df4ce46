//! Formats of `printf`.
#![expect(unsafe_code, reason = "makes arguments of pointers")]

use core::ffi::c_void;

use gpufs_device::Errno;
use gpufs_device::format::{
    Argument, CountSink, Kind, Passed, argument_types, check, format, snprintf, snprintf_with,
};
use gpufs_tests::differential::formats::{Case, ROOM, TEXTS, Texts, speak_utf8};
use gpufs_tests::random::Random;

use crate::bytes::Bytes;

/// What memory is before the call.
const CANARY: u8 = 0xa5;

/// Prints as the bytes say: a case for both sides, or any bytes as a format.
///
/// # Panics
/// Where the engine is wrong.
pub fn formats(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    if bytes.byte().is_multiple_of(4) { beside_the_system(bytes.rest()) } else { any_bytes(bytes) }
}

fn beside_the_system(choices: &[u8]) {
    let texts = Texts { utf8: speak_utf8_once(), ..TEXTS };
    let case = Case::generate(&Random::of_bytes(choices), &texts);
    let (mut ours, mut theirs) = (vec![CANARY; ROOM], vec![CANARY; ROOM]);
    let length = snprintf_with(&mut ours, case.format.as_bytes(), &case.arguments, || Some(case.errno));
    let expected = case.system(&mut theirs);
    assert_eq!(length.ok(), usize::try_from(expected).ok(), "{:?} {:x?}", case.format, case.passed);
    // A call that fails writes nothing here, and glibc's what came before.
    if let Ok(length) = usize::try_from(expected) {
        let printed = (length + 1).min(ROOM);
        assert!(ours[..printed] == theirs[..printed], "{:?} {:x?}", case.format, case.passed);
    }
}

/// Whether wide characters of this thread are UTF-8, from its first call on.
fn speak_utf8_once() -> bool {
    thread_local!(static SPOKEN: bool = speak_utf8());
    SPOKEN.with(|spoken| *spoken)
}

fn any_bytes(mut bytes: Bytes<'_>) {
    let size = bytes.below(64);
    let mut places = [0u64; 8];
    let count = bytes.below(8);
    let arguments: Vec<Argument<'_>> =
        places[..count].iter_mut().map(|place| argument(&mut bytes, place)).collect();
    let text = bytes.rest();
    let kinds: Vec<_> = arguments.iter().map(|argument| argument.kind()).collect();
    let checked = check(text, &kinds);

    let mut whole = vec![CANARY; 1 << 16];
    let length = snprintf(&mut whole, text, &arguments);
    match (&checked, &length) {
        (Err(_), Ok(_)) => panic!("the check refuses what is printed"),
        // The values, which the check does not see: a character that is none, more than an int counts, what `%n` may store to.
        (Ok(_), Err(error)) if !(text.contains(&b'n') && may_be_places(&kinds)) => {
            assert_ne!(error.errno(), Errno::INVAL, "the check passes what is refused");
        }
        _ => {}
    }
    let mut counted = CountSink::new();
    let again = format(&mut counted, text, &arguments);
    assert_eq!(again.is_ok(), length.is_ok());
    let mut types = [Passed::Gap; 16];
    let _ = argument_types(text, &mut types);

    let mut small = [CANARY; 80];
    let outcome = snprintf(&mut small[..size], text, &arguments);
    assert_eq!(outcome.is_ok(), length.is_ok());
    assert!(small[size..].iter().all(|byte| *byte == CANARY), "bytes beyond the memory are changed");
    let Ok(length) = length else {
        assert!(whole.iter().chain(&small).all(|byte| *byte == CANARY), "a call that failed has written");
        return;
    };
    assert_eq!((outcome.ok(), counted.count()), (Some(length), length as u64));
    let kept = length.min(size.saturating_sub(1));
    assert_eq!(small[..kept], whole[..kept], "a small memory gets the beginning");
    if size > 0 {
        assert_eq!(small[kept], 0, "and a NUL");
    }
    if let Some(end) = whole.get(length) {
        assert_eq!(*end, 0);
    }
}

/// Whether `%n` may be given one of these, of a size that only the argument says.
fn may_be_places(kinds: &[Kind]) -> bool {
    kinds.iter().any(|kind| matches!(kind, Kind::Place | Kind::WidePlace | Kind::CString))
}

fn argument<'a>(bytes: &mut Bytes<'_>, place: &'a mut u64) -> Argument<'a> {
    let text = TEXTS.narrow[bytes.below(6)];
    match bytes.below(11) {
        0 => Argument::from(bytes.long().cast_signed()),
        1 => Argument::from(bytes.long()),
        2 => Argument::from(f64::from_bits(bytes.long())),
        3 => Argument::from(core::ptr::without_provenance::<u8>(bytes.half().into())),
        // SAFETY:
        // - a constant
        4 => unsafe { Argument::c_string(text.as_ptr().cast()) },
        5 => Argument::from(text),
        6 => Argument::from(char::from_u32(bytes.word()).unwrap_or('x')),
        7 => Argument::error(bytes.word().cast_signed()),
        // SAFETY:
        // - a constant that ends with 0
        8 => unsafe { Argument::wide_c_string(TEXTS.wide[bytes.below(5)].as_ptr()) },
        // SAFETY:
        // - null is allowed
        9 => unsafe { Argument::c_string(core::ptr::null()) },
        _ => {
            let length = [1, 2, 4, 8][bytes.below(4)];
            let address: *mut c_void = core::ptr::from_mut(place).cast();
            // SAFETY:
            // - eight bytes, aligned, which nothing else uses until the argument is gone
            unsafe { Argument::place(address, length) }
        }
    }
}
