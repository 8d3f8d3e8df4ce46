//! What scanning is told of formats, targets and inputs: which are wrong, what each target gets, what is allocated. What numbers and texts are
//! read as is compared with the system's functions elsewhere (`tests/tests/sscanf_differential.rs`).
#![expect(unsafe_code, reason = "targets and an allocator as C has them")]

use core::ffi::c_void;
use std::cell::RefCell;

use gpufs_core::Errno;

use super::{
    Input, Memory, ScanError, Scanned, Target, TargetKind, Text, Why, check, check_targets, count_targets,
    scan, sscanf, takes_all,
};

/// A pointer of C's, whose memory has as many bytes as the format says.
fn bare(kind: TargetKind, memory: &mut [u8]) -> Target<'_> {
    #[repr(C)]
    struct AsCHasIt(TargetKind, u32, u64);
    let address = memory.as_mut_ptr().expose_provenance() as u64;
    // SAFETY:
    // - the layout in the documentation of `Target`
    unsafe { core::mem::transmute(AsCHasIt(kind, u32::MAX, address)) }
}

/// What is wrong with a format for targets of these kinds.
fn wrong(format: &str, kinds: &[TargetKind]) -> Option<(usize, Why)> {
    check(format.as_bytes(), kinds).err().map(|error| (error.offset, error.why))
}

#[test]
fn each_wrong_format_is_told_by_its_first_mistake() {
    use TargetKind::{Int32, Int64, Text};
    let any = [TargetKind::Any; 4];
    for (format, offset, why) in [
        ("ab%y", 2, Why::Unknown),
        ("%$d", 0, Why::Unknown),
        ("%", 0, Why::Unfinished),
        ("%d %3", 3, Why::Unfinished),
        ("%[", 0, Why::Unfinished),
        ("%[]", 0, Why::Unfinished),
        ("%[^]a-z", 0, Why::Unfinished),
        ("%0$d", 0, Why::Numbering),
        ("%d%1$d", 2, Why::Numbering),
        ("%1$d%d", 4, Why::Numbering),
        ("%2147483648d", 0, Why::Overflow),
        ("%99999999999d", 0, Why::Overflow),
        ("%99999999999$d", 0, Why::Overflow),
        ("%*99999999999d", 0, Why::Overflow),
    ] {
        assert_eq!(wrong(format, &any), Some((offset, why)), "{format}");
        let counted = count_targets(format.as_bytes());
        assert_eq!(counted, Err(ScanError { offset, why }), "{format}");
    }
    // Modifiers, `m` and `*` where they do not belong.
    for format in [
        "%hf", "%hhf", "%llf", "%jf", "%Ld", "%Ls", "%hs", "%hhc", "%ll[a]", "%lC", "%lS", "%hC", "%lp",
        "%hp", "%l%", "%h%", "%L%", "%md", "%mp", "%mf", "%m%", "%mn", "%1$*d", "%1$*s", "%1$%", "%w7d",
        "%wd", "%wf64f", "%w128d",
    ] {
        assert_eq!(wrong(format, &any), Some((0, Why::Modifier)), "{format}");
    }
    for (format, offset, why) in [
        ("%d%s", 2, Why::Missing { target: 1 }),
        ("%2$d", 0, Why::Missing { target: 1 }),
        ("%ld", 0, Why::Mismatch { target: 0, kind: Int32 }),
        ("%1$d%1$ld", 4, Why::Mismatch { target: 0, kind: Int32 }),
    ] {
        assert_eq!(wrong(format, &[Int32]), Some((offset, why)), "{format}");
    }
    for (format, reached) in [
        ("", 0),
        ("a %% %*d", 0),
        ("%d", 1),
        ("%2147483647d%d", 2),
        ("%d%ld%s", 3),
        ("%1$d%1$d", 1),
        ("%3$s%1$d", 3),
        ("%1$d%3$s", 3),
    ] {
        let kinds = [Int32, if format.contains('l') { Int64 } else { Int32 }, Text];
        assert_eq!(check(format.as_bytes(), &kinds), Ok(reached), "{format}");
        assert_eq!(count_targets(format.as_bytes()), Ok(reached), "{format}");
        assert_eq!(takes_all(format.as_bytes(), &kinds), reached == 3, "{format}");
    }
    assert!(takes_all(b"%y", &[Int32]), "what is no format takes whatever there is");
}

/// Which kinds a conversion takes, and what C has its pointer point to.
#[test]
fn each_conversion_takes_the_kinds_of_its_size() {
    use TargetKind::{
        Any, CBytes, CWords, Double, Extended, Float, Int8, Int16, Int32, Int64, Pointer, Text, Wide,
    };
    let all = [Int8, Int16, Int32, Int64, Float, Double, Extended, Pointer, Text, Wide, CBytes, CWords, Any];
    let takes: [(&[&str], &[TargetKind]); 15] = [
        (&["%hhd", "%hhn", "%w8u", "%hhb"], &[Int8, CBytes]),
        (&["%hi", "%hn", "%w16x"], &[Int16]),
        (&["%d", "%o", "%n", "%b", "%w32d"], &[Int32, CWords]),
        (&["%ld", "%lln", "%jx", "%zu", "%td", "%w64i"], &[Int64]),
        // The fast types of Linux.
        (&["%wf16d", "%wf32d", "%wf64d"], &[Int64]),
        (&["%wf8d"], &[Int8, CBytes]),
        (&["%f", "%a"], &[Float]),
        (&["%lf", "%lg"], &[Double]),
        (&["%Lf", "%Le"], &[Double, Extended]),
        (&["%p"], &[Pointer]),
        (&["%c", "%3c"], &[Int8, Text, CBytes]),
        (&["%lc", "%C"], &[Int32, Wide, CWords]),
        (&["%s", "%[a]"], &[Text, CBytes]),
        (&["%ls", "%S", "%l[a]"], &[Wide, CWords]),
        (&["%ms", "%mc", "%mlc", "%mS", "%m[a]"], &[Pointer]),
    ];
    for (formats, kinds) in takes {
        for format in formats {
            for kind in all {
                let fits = kind == Any || kinds.contains(&kind);
                let why = (0, Why::Mismatch { target: 0, kind });
                assert_eq!(wrong(format, &[kind]), (!fits).then_some(why), "{format} of {kind:?}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "a target does not fit its conversion")]
fn a_literal_that_does_not_fit_ends_its_compilation() {
    super::check::assert_fits(b"%d", &[TargetKind::Text]);
}

#[test]
fn a_target_has_room_for_its_width_and_what_ends_it() {
    for (format, least) in
        [("%c", 1), ("%1c", 1), ("%5c", 5), ("%s", 2), ("%1s", 2), ("%5s", 6), ("%[a]", 2), ("%5[a]", 6)]
    {
        let mut memory = [0_u8; 8];
        for length in 0..8 {
            let outcome = check_targets(format.as_bytes(), &[Target::from(&mut memory[..length])]);
            let small = ScanError { offset: 0, why: Why::Room { target: 0 } };
            assert_eq!(outcome, if length < least { Err(small) } else { Ok(()) }, "{format} of {length}");
        }
        // A bare pointer of C's has as much as the format says.
        let whole = bare(TargetKind::Text, &mut memory);
        assert_eq!(check_targets(format.as_bytes(), &[whole]), Ok(()), "{format}");
    }
    let mut wide = [0_u32; 8];
    for (format, least) in [("%5lc", 5), ("%5ls", 6)] {
        for length in 0..8 {
            let outcome = check_targets(format.as_bytes(), &[Target::from(&mut wide[..length])]);
            assert_eq!(outcome.is_ok(), length >= least, "{format} of {length}");
        }
    }
}

/// A pointer of C's `va_list` is stored to as its conversion says, and no byte beyond.
#[test]
fn what_a_bare_pointer_gets() {
    let one = 1.5_f64.to_bits().to_le_bytes();
    let extended = [0, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0x3f];
    let extended = if cfg!(target_arch = "x86_64") { &extended[..] } else { &one };
    let float = 1.5_f32.to_bits().to_le_bytes();
    let number = [0x5a, 0x5b, 0x5c, 0x5d, 0x5e, 0x5f, 0x60, 0x61];
    let stores: [(&str, &str, &[u8]); 15] = [
        ("%hhi", "0x61605f5e5d5c5b5a", &number[..1]),
        ("%hi", "0x61605f5e5d5c5b5a", &number[..2]),
        ("%i", "0x61605f5e5d5c5b5a", &number[..4]),
        ("%li", "0x61605f5e5d5c5b5a", &number),
        ("%lli", "0x61605f5e5d5c5b5a", &number),
        ("%p", "0x61605f5e5d5c5b5a", &number),
        ("%hhn", "", &[0]),
        ("%hn", "", &[0, 0]),
        ("%n", "", &[0; 4]),
        ("%ln", "", &[0; 8]),
        ("%f", "1.5", &float),
        ("%lf", "1.5", &one),
        ("%Lf", "1.5", extended),
        ("%c", "z", b"z"),
        ("%s", "text more", b"text\0"),
    ];
    for (format, text, wanted) in stores {
        let mut memory = [0xa5; 16];
        let target = bare(TargetKind::Any, &mut memory);
        let stored = usize::from(!format.ends_with('n'));
        assert_eq!(sscanf(text.as_bytes(), format.as_bytes(), &[target]), Ok(Some(stored)), "{format}");
        let (got, rest) = memory.split_at(wanted.len());
        assert_eq!(got, wanted, "{format}");
        assert!(rest.iter().all(|byte| *byte == 0xa5), "{format}: {memory:?}");
    }
}

/// What C's allocator gave and did not get back, in bytes.
#[derive(Default)]
struct Heap {
    given: Vec<(*mut c_void, usize)>,
    /// How often it may still give.
    left: usize,
    /// Whether it was told of memory that it had not given, or of a wrong size.
    is_misled: bool,
}

std::thread_local! {
    static HEAP: RefCell<Heap> = RefCell::default();
}

/// As [`Reallocate`](super::Reallocate) says. What is given back may come without its size.
unsafe extern "C" fn reallocate(old: *mut c_void, before: usize, bytes: usize) -> *mut c_void {
    HEAP.with_borrow_mut(|heap| {
        if bytes > 0 && heap.left == 0 {
            return core::ptr::null_mut();
        }
        let held = heap.given.iter().position(|(memory, _)| *memory == old);
        let had = held.map_or(0, |held| heap.given.swap_remove(held).1);
        heap.is_misled |= held.is_none() != old.is_null() || (before != had && (before, bytes) != (0, 0));
        if bytes == 0 {
            // SAFETY:
            // - given here
            unsafe { libc::free(old) };
            return core::ptr::null_mut();
        }
        // SAFETY:
        // - null, or given here
        let new = unsafe { libc::realloc(old, bytes) };
        heap.left -= 1;
        heap.given.push((new, bytes));
        new
    })
}

/// Scans with an allocator that gives so often: the outcome, which of the two pointers are not null, and how much is given still.
fn allocating(text: &str, format: &str, often: usize) -> (Result<Option<usize>, Why>, [bool; 2], Vec<usize>) {
    HEAP.set(Heap { left: often, ..Heap::default() });
    let mut pointers = [core::ptr::dangling_mut::<u8>(); 2];
    // SAFETY:
    // - `reallocate` does what `Reallocate` says
    let memory = unsafe { Memory::new(reallocate) };
    let [first, second] = &mut pointers;
    let targets = [Target::from(first), Target::from(second)];
    let outcome = scan(&mut Text::new(text.as_bytes()), format.as_bytes(), &targets, memory);
    let heap = HEAP.take();
    assert!(!heap.is_misled, "{format} of {text:?}");
    for (memory, _) in &heap.given {
        // SAFETY:
        // - given above, and not given back
        unsafe { libc::free(*memory) };
    }
    let given = heap.given.iter().map(|(_, bytes)| *bytes).collect();
    let outcome = outcome.map(|scanned| scanned.stored).map_err(|error| error.why);
    (outcome, pointers.map(|pointer| !pointer.is_null()), given)
}

#[test]
fn allocated_texts_grow_and_are_given_back_where_a_call_fails() {
    let long = "x".repeat(100);
    let two = format!("{long} {long}");
    for (format, bytes) in [("%ms%ms", 1), ("%mls%mls", 4)] {
        // 100 characters and a NUL: memory for 32, 64 and 128 of them.
        let all = (Ok(Some(2)), [true, true], vec![128 * bytes, 128 * bytes]);
        assert_eq!(allocating(&two, format, 6), all);
        for often in 0..6 {
            // The second conversion begins where the first has what it takes.
            let none = (Err(Why::Memory), [false, often < 3], vec![]);
            assert_eq!(allocating(&two, format, often), none, "{often} times");
        }
        // In another order than that of the targets.
        let swapped = format!("%2${}%1${0}", &format[1..format.len() / 2]);
        assert_eq!(allocating(&two, &swapped, 5), (Err(Why::Memory), [false, false], vec![]), "{swapped}");
        // Of what is told the caller keeps the memory.
        assert_eq!(allocating("one", format, 6), (Ok(Some(1)), [true, false], vec![32 * bytes]));
    }
    assert_eq!(allocating("a", "%m[b]%ms", 6), (Ok(Some(0)), [false, true], vec![]));
}

#[test]
fn what_sets_hold() {
    let read = |format: &[u8], text: &[u8]| {
        let (mut found, mut taken) = ([0_u8; 16], 0_i32);
        let _ = sscanf(text, format, &[Target::from(&mut found), Target::from(&mut taken)]);
        taken
    };
    assert_eq!(read(b"%[\x80]%n", b"\x80\x80\x7f"), 2);
    assert_eq!(read(b"%[\x7f\x80]%n", b"\x80\x7f\x80\xff"), 3);
    assert_eq!(read(b"%[\x7f]%n", b"\x7f\x80"), 1);
    assert_eq!(read(b"%[^\x80]%n", b"\x01\x7f\xff\x80"), 3);
    assert_eq!(read(b"%[\x80-\xff]%n", b"\xff\x80\x90\x7f"), 3);
    let wide = |format: &str, text: &str| {
        let (mut found, mut taken, mut next) = ([0_u32; 16], -1_i32, 0_u8);
        let targets = [Target::from(&mut found), Target::from(&mut taken), Target::from(&mut next)];
        let _ = sscanf(text.as_bytes(), format!("%l[{format}]%n%c").as_bytes(), &targets);
        (taken, next)
    };
    // A character that is not of the set is put back, all its bytes.
    assert_eq!(wide("^é", "aé"), (1, 0xc3));
    assert_eq!(wide("^€", "é€"), (2, 0xe2));
    assert_eq!(wide("a-z", "az𝄞"), (2, 0xf0));
    assert_eq!(wide("α-ω", "βγa"), (4, b'a'));
    // From a higher to a lower it is no range: the hyphen is of the set.
    assert_eq!(wide("ω-α", "-αωβ"), (5, 0xce));
    assert_eq!(wide("z-a", "-b"), (1, b'b'));
}

#[test]
fn what_may_follow_nan() {
    for (text, taken) in [("nan()", 5), ("NaN(a_Z09)x", 10), ("nan", 3), ("nanx", 3)] {
        let (mut value, mut count) = (0_f32, -1_i32);
        let stored = sscanf(text.as_bytes(), b"%f%n", &[Target::from(&mut value), Target::from(&mut count)]);
        assert_eq!((stored, value.is_nan(), count), (Ok(Some(1)), true, taken), "{text}");
    }
    for text in ["nan(", "nan(a", "nan(-)", "nan(a b)", "nan( )"] {
        let mut value = 0_f32;
        assert_eq!(sscanf(text.as_bytes(), b"%f", &[Target::from(&mut value)]), Ok(Some(0)), "{text}");
    }
}

#[test]
fn digits_behind_those_that_are_kept_break_ties() {
    let read = |text: &str| {
        let mut value = 0_f64;
        assert_eq!(sscanf(text.as_bytes(), b"%lf", &[Target::from(&mut value)]), Ok(Some(1)), "{text}");
        value
    };
    let (even, odd) = (9_007_199_254_740_992.0, 9_007_199_254_740_994.0);
    let zeros = "0".repeat(800);
    let tie = format!("0x1.{}8", &zeros[..13]);
    let whole = format!("0x1{}8", &zeros[..13]);
    let more = 1.0 + f64::EPSILON;
    // Halfway between two doubles, or a little more.
    for (text, wanted) in [
        (format!("9007199254740993.{zeros}"), even),
        (format!("9007199254740993.{zeros}1"), odd),
        (format!("9007199254740993.{zeros}10"), odd),
        (format!("9007199254740993{zeros}1e-801"), odd),
        (format!("9007199254740993{zeros}0e-801"), even),
        (format!("0.{zeros}9007199254740993{zeros}1e816"), odd),
        (format!("1{zeros}e-800"), 1.0),
        (format!("1{zeros}.5e-800"), 1.0),
        (format!("{tie}0000"), 1.0),
        (format!("{tie}00001"), more),
        (format!("{tie}{zeros}"), 1.0),
        (format!("{tie}{zeros}1"), more),
        (format!("{whole}{zeros}0p-3260"), 1.0),
        (format!("{whole}{zeros}1p-3260"), more),
    ] {
        assert_eq!(read(&text), wanted, "{text}");
        assert_eq!(read(&format!("-{text}")), -wanted, "-{text}");
    }
}

/// An input that fails after its text.
struct Failing(&'static [u8]);

impl Input for Failing {
    fn peek(&mut self) -> Result<Option<u8>, Errno> {
        self.0.first().map_or(Err(Errno::IO), |byte| Ok(Some(*byte)))
    }
    fn advance(&mut self) {
        self.0 = &self.0[1..];
    }
    fn put_back(&mut self, _: &[u8]) {
        unreachable!("nothing wide is read");
    }
}

#[test]
fn an_input_that_fails_is_an_error_before_the_first_value_alone() {
    let failed = |offset| Err(ScanError { offset, why: Why::Input(Errno::IO) });
    let stored = |count| Ok(Scanned { stored: Some(count), out_of_range: false });
    for (text, format, outcome) in [
        ("", "%d", failed(0)),
        ("x ", "x ", failed(2)),
        ("x ", "x %n", failed(2)),
        ("x ", "x y", failed(2)),
        ("7 ", "%d ", stored(1)),
        ("7 ", "%d %n", stored(1)),
        ("7 ", "%dx", stored(1)),
        ("7 8 ", "%d%d ", stored(2)),
    ] {
        let (mut one, mut two) = (0_i32, 0_i32);
        let targets = [Target::from(&mut one), Target::from(&mut two)];
        let scanned = scan(&mut Failing(text.as_bytes()), format.as_bytes(), &targets, Memory::NONE);
        assert_eq!(scanned, outcome, "{format:?} of {text:?}");
    }
}

#[test]
fn what_is_said_of_each_error() {
    let said = |why| {
        let error = ScanError { offset: 3, why };
        (error.to_string(), error.errno())
    };
    let at = |text: &str| format!("{text} (at byte 3 of the format)");
    let cases = [
        (Why::Unknown, "unknown conversion", Errno::INVAL),
        (Why::Unfinished, "the format ends inside a conversion", Errno::INVAL),
        (Why::Modifier, "the modifier does not fit the conversion", Errno::INVAL),
        (Why::Numbering, "numbered targets, from 1, and others are mixed", Errno::INVAL),
        (Why::Overflow, "a width or a number is longer than an int can say", Errno::OVERFLOW),
        (Why::Missing { target: 1 }, "the format needs more targets than there are: target 2", Errno::INVAL),
        (
            Why::Room { target: 0 },
            "a target has no room for what its conversion may store: target 1",
            Errno::INVAL,
        ),
        (Why::Memory, "no memory for a %m conversion (in Rust, give %s a slice)", Errno::NOMEM),
        (Why::Encoding, "the input is not UTF-8", Errno::ILSEQ),
        (Why::Input(Errno::IO), "the input could not be read: Input/output error (EIO)", Errno::IO),
    ];
    for (why, text, errno) in cases {
        assert_eq!(said(why), (at(text), errno));
    }
    let kinds = [
        (TargetKind::Int8, "an integer of one byte"),
        (TargetKind::Int16, "an integer of two bytes"),
        (TargetKind::Int32, "an integer of four bytes"),
        (TargetKind::Int64, "an integer of eight bytes"),
        (TargetKind::Float, "a float"),
        (TargetKind::Double, "a double"),
        (TargetKind::Extended, "a long double"),
        (TargetKind::Pointer, "a pointer"),
        (TargetKind::Text, "memory for text"),
        (TargetKind::CBytes, "memory for text"),
        (TargetKind::Wide, "memory for wide characters"),
        (TargetKind::CWords, "an int"),
        (TargetKind::Any, "a pointer"),
    ];
    for (kind, name) in kinds {
        let text = format!("a target does not fit its conversion: target 3 is {name}");
        assert_eq!(said(Why::Mismatch { target: 2, kind }), (at(&text), Errno::INVAL));
    }
}

#[test]
fn a_format_without_conversions_takes_no_targets() {
    assert_eq!(crate::sscanf!(b"abc", c"abc"), Ok(Some(0)));
    assert_eq!(crate::sscanf!(b"abd", c"abc"), Ok(Some(0)));
    assert_eq!(crate::sscanf!(b"ab", c"abc"), Ok(None));
}
