//! The formatting engine by itself: errors, limits, sinks, and what is not C's.

use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use gpufs_device::format::{
    Argument, CountSink, FormatError, Kind, Passed, Sink, SinkWriter, SliceSink, What, WindowSink,
    argument_types, check, format, snprintf, snprintf_with, takes_all,
};
use gpufs_device::{format_arguments, snprintf};
use proptest::prelude::*;

/// What a format prints.
fn printed(format: &[u8], arguments: &[Argument<'_>]) -> Result<Vec<u8>, FormatError> {
    let mut buffer = vec![0; 4096];
    let length = snprintf(&mut buffer, format, arguments)?;
    assert!(length < buffer.len());
    buffer.truncate(length);
    Ok(buffer)
}

/// A sink that must not be written to.
struct Untouched;

impl Sink for Untouched {
    fn write(&mut self, bytes: &[u8]) {
        panic!("wrote {bytes:?}");
    }
    fn fill(&mut self, byte: u8, count: usize) {
        panic!("filled {count} times {byte}");
    }
}

#[test]
fn a_failed_call_says_where_and_writes_nothing() {
    let one = [Argument::from(1)];
    let mixed = [Argument::from(1), Argument::from(1.5), Argument::from("text")];
    let mismatch = |argument, kind| What::Mismatch { argument, kind };
    // SAFETY:
    // - null is allowed
    let nowhere = unsafe { Argument::place(core::ptr::null_mut(), 4) };
    // SAFETY:
    // - nothing is stored where it is refused
    let narrow = unsafe { Argument::place(core::ptr::dangling_mut::<i32>().cast(), 4) };
    // SAFETY:
    // - a C string
    let c_text = unsafe { Argument::c_string(c"text".as_ptr().cast()) };
    let cases: &[(&[u8], &[Argument<'_>], usize, What)] = &[
        (b"ab%y", &one, 2, What::Unknown),
        (b"ab%", &one, 2, What::Unfinished),
        (b"%d %-+ #0*.*ll", &one, 3, What::Unfinished),
        (b"%d%n", &one, 2, What::Missing { argument: 1 }),
        (b"%n", &one, 0, mismatch(0, Kind::Signed)),
        (b"ab%n", &[nowhere], 2, What::Null),
        (b"%hn", &[narrow], 0, What::Modifier),
        (b"%hhn", &mixed[2..], 0, mismatch(0, Kind::Bytes)),
        (b"%hhn", &[c_text], 0, What::Modifier),
        (b"%fn", &[narrow], 0, mismatch(0, Kind::Place)),
        (b"%Ln", &[narrow], 0, What::Modifier),
        (b"x%lc", &[Argument::from(0xd800)], 1, What::Illegal),
        (b"x%C", &[Argument::from(-1)], 1, What::Illegal),
        (b"%lC", &one, 0, What::Unknown),
        (b"%ls", &mixed[2..], 0, mismatch(0, Kind::Bytes)),
        (b"%s", &[Argument::from(&['a'][..])], 0, mismatch(0, Kind::Wide)),
        (b"%2$d", &one, 0, What::Missing { argument: 1 }),
        (b"%4294967296$d", &one, 0, What::Missing { argument: u32::MAX as usize - 1 }),
        (b"%0$d", &one, 0, What::Unknown),
        (b"%1$d%d", &mixed, 4, What::Mixed),
        (b"%d%1$d", &mixed, 2, What::Mixed),
        (b"%1$*d", &mixed, 0, What::Mixed),
        (b"%*1$d", &mixed, 0, What::Mixed),
        (b"%1$d%2$d", &mixed, 4, mismatch(1, Kind::Double)),
        (b"%m", &[], 0, What::Missing { argument: 0 }),
        (b"%m", &one, 0, mismatch(0, Kind::Signed)),
        (b"%w9d", &one, 0, What::Modifier),
        (b"%w32f", &mixed[1..], 0, What::Modifier),
        (b"%wfd", &one, 0, What::Modifier),
        (b"%2147483647dx%1$m", &one, 13, What::Mixed),
        (b"%1$2147483647dx", &one, 15, What::Overflow),
        (b"%hf", &mixed[1..], 0, What::Modifier),
        (b"%Ld", &one, 0, What::Modifier),
        (b"%hhs", &mixed[2..], 0, What::Modifier),
        (b"%zp", &one, 0, What::Modifier),
        (b"%d%d", &one, 2, What::Missing { argument: 1 }),
        (b"%*d", &one, 0, What::Missing { argument: 1 }),
        (b"%d%d", &mixed, 2, mismatch(1, Kind::Double)),
        (b"%f", &one, 0, mismatch(0, Kind::Signed)),
        (b"%s", &one, 0, mismatch(0, Kind::Signed)),
        (b"%p", &one, 0, mismatch(0, Kind::Signed)),
        (b"%.*f", &mixed[1..], 0, mismatch(0, Kind::Double)),
        (b"%d%f%d", &mixed, 4, mismatch(2, Kind::Bytes)),
        (b"%2147483648d", &one, 0, What::Overflow),
        (b"%.99999999999999999999d", &one, 0, What::Overflow),
        (b"%2147483647dx", &one, 13, What::Overflow),
        (b"%.2147483647f", &mixed[1..], 13, What::Overflow),
        (b"%.2147483647d", &[Argument::from(-1)], 13, What::Overflow),
        (b"%2147483640d%.0f", &[one[0], Argument::from(1e300)], 16, What::Overflow),
        (b"%lS", &one, 0, What::Unknown),
    ];
    for &(text, arguments, offset, what) in cases {
        let result = format(&mut Untouched, text, arguments);
        assert_eq!(result, Err(FormatError { offset, what }), "{}", text.escape_ascii());
    }
}

/// Of memory that nothing touches.
#[test]
fn a_string_may_be_one_byte_too_long() {
    let text = vec![0_u8; 1 << 31];
    let print = |text: &[u8]| {
        let mut count = CountSink::new();
        let result = format(&mut count, b"%s", &[Argument::from(text)]);
        (result, count.count())
    };
    assert_eq!(print(&text), (Err(FormatError { offset: 2, what: What::Overflow }), 0));
    let most = u64::from(i32::MAX.unsigned_abs());
    assert_eq!(print(&text[1..]), (Ok(most), most));
}

/// Of one piece of memory again and again: characters of six bytes, with one more of which the output is too long by five.
#[test]
fn a_wide_string_may_be_one_character_too_long() {
    const PIECE: usize = 16 << 20;
    let count = i32::MAX as usize / 6 + 1;
    let bytes = ((count + 1) * 4).next_multiple_of(PIECE);
    let file = tempfile();
    file.write_all_at(&0x7fff_ffff_u32.to_ne_bytes().repeat(PIECE / 4), 0).unwrap();
    // SAFETY:
    // - a new mapping, where the kernel likes
    let memory = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(core::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0)
    };
    assert!(memory != libc::MAP_FAILED);
    for at in (0..bytes).step_by(PIECE) {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_FIXED);
        let part = memory.wrapping_byte_add(at);
        // SAFETY:
        // - a part of the mapping, which nothing else uses
        let mapped = unsafe { libc::mmap(part, PIECE, prot, flags, file.as_raw_fd(), 0) };
        assert!(mapped != libc::MAP_FAILED);
    }
    let text: *mut u32 = memory.cast();
    // SAFETY:
    // - within the mapping, which may be written
    unsafe { text.wrapping_add(count).write(0) };
    // SAFETY:
    // - aligned, ends with the NUL, and stays for the call
    let text = unsafe { Argument::wide_c_string(text) };
    let result = format(&mut Untouched, b"%ls", &[text]);
    assert_eq!(result, Err(FormatError { offset: 3, what: What::Overflow }));
    // SAFETY:
    // - mapped above, and used no more
    assert_eq!(unsafe { libc::munmap(memory, bytes) }, 0);
}

/// A file without a name.
fn tempfile() -> std::fs::File {
    // SAFETY:
    // - a name with its NUL
    let number = unsafe { libc::memfd_create(c"wide".as_ptr(), 0) };
    assert!(number >= 0);
    // SAFETY:
    // - the kernel has just made it, and nothing else owns it
    unsafe { std::os::fd::FromRawFd::from_raw_fd(number) }
}

#[test]
fn a_failed_call_leaves_its_buffer() {
    let one = [Argument::from(1)];
    let width = [Argument::from(i32::MIN), Argument::from(1)];
    assert_eq!(format(&mut Untouched, b"%*d", &width), Err(FormatError { offset: 0, what: What::Overflow }));
    let mut buffer = *b"kept";
    assert!(snprintf(&mut buffer, b"%d%y", &one).is_err());
    assert_eq!(&buffer, b"kept");
}

#[test]
fn errors_read_well() {
    let error = printed(b"%d %s", &[Argument::from(1), Argument::from(2)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "an argument does not fit its conversion: argument 2 is a signed integer (at byte 3 of the format)"
    );
    assert_eq!(error.errno().number(), libc::EINVAL);
    assert_eq!(printed(b"%2147483648d", &[]).unwrap_err().errno().number(), libc::EOVERFLOW);
    let missing = printed(b"%d%d", &[Argument::from(1)]).unwrap_err();
    let text = "the format needs more arguments than there are: argument 2 (at byte 2 of the format)";
    assert_eq!((missing.to_string().as_str(), missing.errno().number()), (text, libc::EINVAL));
    // SAFETY:
    // - null is allowed
    let nowhere = unsafe { Argument::place(core::ptr::null_mut(), 4) };
    assert_eq!(printed(b"%n", &[nowhere]).unwrap_err().errno().number(), libc::EFAULT);
    assert_eq!(printed(b"%lc", &[Argument::from(0xd800)]).unwrap_err().errno().number(), libc::EILSEQ);
}

/// Flags and lengths of glibc's own.
#[test]
fn the_locale_s_digits_and_quads() {
    for (format, expected) in [
        (&b"%Ild"[..], &b"-1099511627776"[..]),
        (b"%I20ld|", b"      -1099511627776|"),
        (b"%-I20ld|", b"-1099511627776      |"),
        (b"%qd", b"-1099511627776"),
        (b"%qx", b"ffffff0000000000"),
        (b"%1$Iqd", b"-1099511627776"),
    ] {
        assert_eq!(printed(format, &[Argument::from(-1_i64 << 40)]).unwrap(), expected);
    }
    assert_eq!(printed(b"%qs", &[Argument::from("text")]).unwrap_err().what, What::Modifier);
}

#[test]
fn the_longest_outputs_cost_nothing_but_their_sink() {
    let double = [Argument::from(1.5)];
    let count = |format_: &[u8], arguments: &[Argument<'_>]| {
        let mut sink = CountSink::new();
        let length = format(&mut sink, format_, arguments).unwrap();
        assert_eq!(sink.count(), length);
        length
    };
    let longest = u64::from(i32::MAX.unsigned_abs());
    assert_eq!(count(b"%2147483647d", &[Argument::from(1)]), longest);
    assert_eq!(count(b"%.2147483647d", &[Argument::from(1)]), longest);
    assert_eq!(count(b"%.2147483645f", &double), longest);
    assert_eq!(count(b"%.2147483641e", &double), longest);
    assert_eq!(count(b"%.2147483640a", &double), longest);
    assert_eq!(count(b"%#.2147483646g", &double), longest);
    assert_eq!(count(b"%.2147483647g", &double), 3);
    assert_eq!(count(b"%.2147483647s", &[Argument::from("text")]), 4);
}

#[test]
fn strings_and_characters_that_c_does_not_have() {
    assert_eq!(
        printed(b"%s|%.3s", &[Argument::from("a\0b"), Argument::from(b"bytes")]).unwrap(),
        b"a\0b|byt"
    );
    assert_eq!(
        printed(b"%c%3c%c", &[Argument::from('x'), Argument::from('é'), Argument::from(b'y')]).unwrap(),
        "x éy".as_bytes()
    );
    assert_eq!(printed(b"%s%.5s", &[Argument::from(None), Argument::from(None)]).unwrap(), b"(null)");
    assert_eq!(printed(b"%d%u", &[Argument::from(true), Argument::from(-1i8)]).unwrap(), b"14294967295");
    assert_eq!(
        printed(b"%f %g", &[Argument::from(1.5f32), Argument::from(0.1f32)]).unwrap(),
        b"1.500000 0.1"
    );
    let wide = ['w'];
    let expected = format!("{:p}", wide.as_ptr());
    assert_eq!(printed(b"%p", &[Argument::from(&wide[..])]).unwrap(), expected.as_bytes());
    let text = "text";
    assert_eq!(printed(b"%p", &[Argument::from(text)]).unwrap(), format!("{:p}", text.as_ptr()).as_bytes());
}

#[test]
fn numbered_arguments() {
    let three = [Argument::from(3), Argument::from(4), Argument::from(1.5)];
    assert_eq!(printed(b"%2$d|%1$05d|%2$*1$d|%3$.*1$f", &three).unwrap(), b"4|00003|  4|1.500");
    // A gap, the number's zeros, a percent sign, and what is not taken.
    assert_eq!(printed(b"%03$.1f%%%1$%%1$-2d|", &three).unwrap(), b"1.5%%3 |");
    assert_eq!(check(b"%3$d", &[Kind::Signed, Kind::Bytes, Kind::Signed, Kind::Bytes]), Ok(3));
    assert!(takes_all(b"%2$d %1$d", 2) && !takes_all(b"%2$d", 3));
    let (format, arguments) = format_arguments!(c"%2$s %1$s", "world", "hello");
    assert_eq!(printed(format, &arguments).unwrap(), b"hello world");
}

#[test]
fn what_error_numbers_say() {
    let arguments = [Argument::from(gpufs_core::Errno::NOENT), Argument::from(7)];
    assert_eq!(printed(b"%m|%d", &arguments).unwrap(), b"No such file or directory|7");
    assert_eq!(printed(b"%.2m|%2$d|%1$#m|", &arguments[..1]).unwrap_err().what, What::Mixed);
    assert_eq!(printed(b"%1$.2m|%2$d|%1$#8m|", &arguments).unwrap(), b"No|7|  ENOENT|");
    // C's errno, where no argument is an error number.
    let mut buffer = [0; 64];
    for (errno, expected) in [
        (0, "-1 [Success]"),
        (-3, "-1 [Unknown error -3]"),
        (12345, "-1 [Unknown error 12345]"),
        (libc::E2BIG, "-1 [Argument list too long]"),
        (i32::MIN, "-1 [Unknown error -2147483648]"),
    ] {
        let minus = [Argument::from(-1)];
        let length = snprintf_with(&mut buffer, b"%d [%m]", &minus, || Some(errno)).unwrap();
        assert_eq!(&buffer[..length], expected.as_bytes());
        let length = snprintf_with(&mut buffer, b"%1$d [%m]", &minus, || Some(errno)).unwrap();
        assert_eq!(&buffer[..length], expected.as_bytes());
    }
    for (errno, expected) in [(0, "0"), (-3, "-3"), (12345, "12345"), (libc::E2BIG, "E2BIG")] {
        let length = snprintf_with(&mut buffer, b"%#m", &[], || Some(errno)).unwrap();
        assert_eq!(&buffer[..length], expected.as_bytes());
    }
}

#[test]
fn places_get_the_count() {
    let (mut byte, mut short, mut int, mut long) = (-1_i8, -1_i16, -1_i32, -1_i64);
    let place = |address: *mut core::ffi::c_void, bytes| {
        // SAFETY:
        // - each below is of its own integer, which has so many bytes
        unsafe { Argument::place(address, bytes) }
    };
    let places = [
        place((&raw mut byte).cast(), 1),
        place((&raw mut short).cast(), 2),
        place((&raw mut int).cast(), 4),
        place((&raw mut long).cast(), 8),
    ];
    let mut buffer = [0; 4];
    // What a short buffer cuts counts.
    assert_eq!(snprintf(&mut buffer, b"%hhn12%hn3456%n78%lln90", &places), Ok(10));
    assert_eq!((byte, short, int, long), (0, 2, 6, 8));
    assert_eq!(&buffer, b"123\0");
    // A failed call stores nothing.
    assert!(snprintf(&mut buffer, b"%hhn1%hn%n%ln%y", &places).is_err());
    assert_eq!(
        snprintf(&mut buffer, b"%2147483647x%3$n", &places).unwrap_err().what,
        What::Mismatch { argument: 0, kind: Kind::Place }
    );
    assert_eq!((byte, short, int, long), (0, 2, 6, 8));
}

#[test]
fn wide_characters_in_rust() {
    let text = ['a', 'é', '\u{1f600}'];
    let arguments = [Argument::from(&text[..]), Argument::from('é'), Argument::from(0x7fff_ffff)];
    assert_eq!(
        printed(b"%ls|%lc|%C", &arguments).unwrap(),
        ["aé\u{1f600}|é|".as_bytes(), b"\xfd\xbf\xbf\xbf\xbf\xbf"].concat()
    );
    assert_eq!(printed(b"%.2ls|%5.3S|", &[arguments[0], arguments[0]]).unwrap(), "a|  aé|".as_bytes());
}

#[test]
fn types_of_a_formats_arguments() {
    use Passed::{
        Double, Gap, Int, Long, LongDouble, Place8, Place64, Pointer, Text, UnsignedInt, UnsignedLong, Wide,
    };
    let types = |format: &[u8]| {
        let mut types = [Gap; 8];
        argument_types(format, &mut types).map(|count| types[..count].to_vec()).map_err(|error| error.what)
    };
    assert_eq!(types(b"%*.*f %s %m %%"), Ok(vec![Int, Int, Double, Text]));
    assert_eq!(
        types(b"%ld%hhu%zx%c%lc%ls%p%La"),
        Ok(vec![Long, UnsignedInt, UnsignedLong, Int, Int, Wide, Pointer, LongDouble])
    );
    assert_eq!(
        types(b"%w64d%wf32d%w8d%w16u%hhn%jn"),
        Ok(vec![Long, Long, Int, UnsignedInt, Place8, Place64])
    );
    assert_eq!(types(b"%1$s %1$n"), Err(What::Conflict));
    assert_eq!(types(b"%3$s %3$p %1$*1$u"), Ok(vec![Int, Gap, Text]));
    assert_eq!(types(b"%1$d %1$ld"), Err(What::Conflict));
    assert_eq!(types(b"%1$f %1$e"), Ok(vec![Double]));
    assert_eq!(types(b"%1$p %1$d"), Err(What::Conflict));
    assert_eq!(types(b"%1$f %1$p"), Err(What::Conflict));
    assert_eq!(types(b"%9$d"), Err(What::TooMany));
    assert_eq!(types(b"%d%d%d%d%d%d%d%d%d"), Err(What::TooMany));
    assert_eq!(types(b"%d%y"), Err(What::Unknown));
}

#[test]
fn a_precision_stands_in_for_the_nul() {
    let unterminated = Box::new(*b"abc");
    // SAFETY:
    // - the precision is the number of bytes
    let argument = unsafe { Argument::c_string(unterminated.as_ptr()) };
    assert_eq!(printed(b"%.3s %.2s", &[argument, argument]).unwrap(), b"abc ab");
}

#[test]
fn snprintf_terminates_within_the_buffer() {
    let mut buffer = [b'#'; 4];
    assert_eq!(snprintf!(&mut buffer[..0], c"%d", 12345), Ok(5));
    assert_eq!(&buffer, b"####");
    assert_eq!(snprintf!(&mut buffer[..1], c"%d", 12345), Ok(5));
    assert_eq!(&buffer, b"\0###");
    assert_eq!(snprintf!(&mut buffer[..3], c"%d", 12345), Ok(5));
    assert_eq!(&buffer, b"12\0#");
    assert_eq!(snprintf!(&mut buffer, c"%d", 123), Ok(3));
    assert_eq!(&buffer, b"123\0");
    assert_eq!(snprintf!(&mut buffer, c""), Ok(0));
    assert_eq!(&buffer, b"\x0023\0");
}

#[test]
fn the_macros_take_any_format() {
    let mut buffer = [0; 64];
    let chosen = if buffer.is_empty() { c"%d" } else { c"%s:%d" };
    assert_eq!(snprintf!(&mut buffer, chosen, "file", 7), Ok(6));
    assert_eq!(&buffer[..6], b"file:7");
    assert!(snprintf!(&mut buffer, chosen, 7).is_err());
    // Temporaries live as long as the call.
    assert_eq!(snprintf!(&mut buffer, c"%s", String::from("temporary").as_str()), Ok(9));
    let (format, arguments) = format_arguments!(
        c"%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d",
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        0,
        1,
        2,
        3,
        4,
        5,
    );
    assert_eq!(printed(format, &arguments).unwrap(), b"0123456789012345");
}

#[test]
fn what_a_format_does_not_take_is_ignored() {
    assert_eq!(check(b"%d", &[Kind::Signed; 2]), Ok(1));
    assert_eq!(printed(b"%d", &[Argument::from(1), Argument::from(2)]).unwrap(), b"1");
    let mut evaluated = 0;
    let mut next = || {
        evaluated += 1;
        evaluated
    };
    #[allow(deprecated, reason = "the compiler's warning of it")]
    let (format, arguments) =
        gpufs_device::format_arguments!(c"%d%% %.*f", next(), next(), 2.5, next(), "text");
    assert_eq!(printed(format, &arguments).unwrap(), b"1% 2.50");
    assert_eq!(evaluated, 3, "all are evaluated");
}

#[test]
fn core_fmt_writes_into_a_sink() {
    use std::fmt::Write;
    let mut buffer = [0; 8];
    let mut sink = SliceSink::new(&mut buffer);
    write!(SinkWriter(&mut sink), "{:?} cut", Some(1)).unwrap();
    assert_eq!((sink.count(), sink.kept()), (11, 8));
    assert_eq!(&buffer, b"Some(1) ");
}

#[test]
fn what_a_window_does_not_keep_it_leaves() {
    let mut buffer = [b'#'; 8];
    let mut window = WindowSink::new(&mut buffer, 3);
    assert_eq!(format(&mut window, b"%5d", &[Argument::from(7)]), Ok(5));
    assert_eq!(window.kept(), 2);
    assert_eq!(&buffer, b" 7######");
    let mut window = WindowSink::new(&mut buffer, 3);
    window.fill(b'0', 5);
    assert_eq!((window.kept(), &buffer), (2, b"00######"));
}

/// Values with 20 to 40 places of which the last, a 5, is cut: a tie, which the last digit kept decides.
#[test]
fn ties_of_many_places_go_to_the_even_digit() {
    for (last, above) in (20..=40).flat_map(|last| (-12..12).map(move |above| (last, above))) {
        for odd in [1, 3, 5, 7] {
            let value = f64::from(above).exp2() + f64::from(odd) * f64::from(-last).exp2();
            let places = usize::try_from(last - 1).unwrap();
            let text = [b"%.", places.to_string().as_bytes(), b"f"].concat();
            let expected = std::format!("{value:.places$}");
            assert_eq!(printed(&text, &[Argument::from(value)]).unwrap(), expected.as_bytes());
        }
    }
}

/// An argument of any kind.
fn argument() -> impl Strategy<Value = Argument<'static>> {
    prop_oneof![
        any::<i64>().prop_map(Argument::from),
        any::<u16>().prop_map(Argument::from),
        any::<f64>().prop_map(Argument::from),
        any::<char>().prop_map(Argument::from),
        any::<usize>().prop_map(|address| Argument::from(core::ptr::without_provenance::<u8>(address))),
        prop::sample::select(vec!["", "text", "a longer text"]).prop_map(Argument::from),
    ]
}

/// A format, most of them nearly right.
fn any_format() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "%[-+ #0']{0,2}([0-9]{1,2}|[*])?([.]([0-9]{0,2}|[*]))?(hh|h|l|ll|j|z|t|L)?[diouxXbBcspfFeEgGaA%]",
        2 => "[ -$&-~]{0,9}",
        1 => "%?[-+ #0'hljztL$n%y1-9.*]{0,9}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat().into_bytes())
}

/// Arguments that a format takes, as far as it can be known: each mismatch is replaced by what fits.
fn fitted(format: &[u8], mut arguments: Vec<Argument<'static>>) -> Vec<Argument<'static>> {
    for _ in 0..100 {
        let kinds: Vec<_> = arguments.iter().map(|argument| argument.kind()).collect();
        let fitting = match check(format, &kinds).map_err(|error| error.what) {
            Err(What::Missing { argument }) => (argument, Argument::from(7)),
            Err(What::Mismatch { argument, kind: Kind::Double }) => (argument, Argument::from("fits")),
            Err(What::Mismatch { argument, kind: Kind::Bytes }) => (argument, Argument::from(-12)),
            Err(What::Mismatch { argument, .. }) => (argument, Argument::from(6.25)),
            _ => break,
        };
        match arguments.get_mut(fitting.0) {
            Some(argument) => *argument = fitting.1,
            None => arguments.push(fitting.1),
        }
    }
    arguments
}

proptest! {
    /// Any bytes are a format or an error, and the compiler's check and the run time agree on which.
    #[test]
    fn the_check_and_the_run_time_agree(
        format_ in prop_oneof![any_format(), prop::collection::vec(any::<u8>(), 0..20)],
        arguments in prop::collection::vec(argument(), 0..5),
    ) {
        let kinds: Vec<_> = arguments.iter().map(|argument| argument.kind()).collect();
        let result = format(&mut CountSink::new(), &format_, &arguments).map(|_| ());
        let checked = check(&format_, &kinds);
        // Only the run time sees what `*` says, how long the output is, and what is no character.
        prop_assert!(
            result == checked.map(drop)
                || matches!(result, Err(FormatError { what: What::Overflow | What::Illegal, .. })),
            "{result:?} {checked:?}"
        );
        if let Ok(taken) = checked {
            prop_assert!(takes_all(&format_, taken) && !takes_all(&format_, taken + 1));
            prop_assert_eq!(check(&format_, &kinds[..taken]), Ok(taken), "the others do not matter");
        }
    }

    /// A record written piece by piece, wherever it is cut, is the record written at once.
    #[test]
    fn windows_reassemble(
        format_ in any_format(),
        arguments in prop::collection::vec(argument(), 0..8),
        pieces in prop::collection::vec(0usize..40, 0..20),
    ) {
        // `*` with a huge argument makes a huge output.
        prop_assume!(!format_.contains(&b'*'));
        let arguments = fitted(&format_, arguments);
        let mut whole = vec![0; 4096];
        let mut sink = SliceSink::new(&mut whole);
        let Ok(length) = format(&mut sink, &format_, &arguments) else { return Ok(()) };
        prop_assert_eq!(sink.count(), length);
        let kept = sink.kept();
        prop_assert_eq!(kept as u64, length);
        whole.truncate(kept);

        let mut reassembled = Vec::new();
        // After the pieces that were drawn, one that reaches behind the end.
        for piece in pieces.into_iter().chain([4096]) {
            let mut slice = vec![0; piece];
            let mut window = WindowSink::new(&mut slice, reassembled.len() as u64);
            prop_assert_eq!(format(&mut window, &format_, &arguments), Ok(length));
            prop_assert_eq!(window.count(), length);
            let kept = window.kept();
            prop_assert_eq!(kept, piece.min(whole.len() - reassembled.len()));
            reassembled.extend_from_slice(&slice[..kept]);
        }
        prop_assert_eq!(reassembled, whole);
    }
}
