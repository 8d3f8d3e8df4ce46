//! Cases of `sscanf`: a format, a text that nearly fits it, and what the C library makes of them.
#![expect(unsafe_code, reason = "calls the C library")]

use std::ffi::{CString, c_char, c_int, c_void};

use gpufs_device::Errno;
use gpufs_device::format::scan::{Input, Memory, ScanError, Target, Text, Why, scan};

use crate::random::Random;

/// Targets of a case.
const TARGETS: usize = 6;
/// Bytes of a target's memory: more than any text of a case fills.
const ROOM: usize = 2048;
/// What they are before the call.
const UNTOUCHED: u8 = 0xa5;

unsafe extern "C" {
    /// The C99 function: the plain symbol takes `%as` for GNU's allocation.
    fn __isoc99_sscanf(text: *const c_char, format: *const c_char, ...) -> c_int;
}

/// What a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int8,
    Int16,
    Int32,
    Int64,
    Float,
    Double,
    Pointer,
    Text,
    Wide,
    /// A pointer to allocated text, of elements of so many bytes.
    Allocated(usize),
}

/// One target's memory.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Slot([u8; ROOM]);

/// What both sides read.
#[derive(Debug)]
pub struct Case {
    /// For the engine.
    pub format: String,
    /// For the system: without `L`, as its long double is not a double.
    pub system_format: String,
    /// The text.
    pub text: Vec<u8>,
    /// The targets, in the order of their memory.
    kinds: Vec<Kind>,
    /// Which of them the conversions that are counted store to, in order.
    counted: Vec<usize>,
    /// Whether its targets are numbered.
    numbered: bool,
    /// Whether a conversion reads the prefixes of integers, and whether its width may end behind one.
    reads_prefixes: bool,
    cuts_prefixes: bool,
}

/// What came of a case.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Targets that got a value; −1 for `EOF`.
    pub count: i32,
    /// A number did not fit (`ERANGE`). Not told where the text's end was met: glibc, which meets it again then, has `errno` as it was before.
    pub out_of_range: Option<bool>,
    /// The memory of the targets.
    pub memory: Vec<Vec<u8>>,
}

impl Outcome {
    /// Whether both are the same, as far as both tell.
    #[must_use]
    pub fn equals(&self, other: &Self) -> bool {
        let told = self.out_of_range.zip(other.out_of_range);
        self.count == other.count
            && self.memory == other.memory
            && told.is_none_or(|(one, another)| one == another)
    }
}

/// A text, and whether its end was met.
struct Watched<'a> {
    text: Text<'a>,
    met_end: bool,
}

impl Input for Watched<'_> {
    fn peek(&mut self) -> Result<Option<u8>, Errno> {
        let byte = self.text.peek();
        self.met_end |= byte == Ok(None);
        byte
    }
    fn advance(&mut self) {
        self.text.advance();
    }
    fn put_back(&mut self, bytes: &[u8]) {
        self.text.put_back(bytes);
    }
}

const SETS: [&str; 14] = [
    "[a-z]",
    "[^ ]",
    "[0-9.]",
    "[]x]",
    "[^]]",
    "[-a]",
    "[a-]",
    "[z-a]",
    "[^a-f]",
    "[+-9]",
    "[a-c-e]",
    "[^-]",
    "[A-Za-z_]",
    "[%d]",
];
/// What `%p` reads, and nearly.
const POINTERS: [&str; 7] = ["(nil)", "0x1f", "(nul)", "(NIL)", "-5", "abc", "0xffffffffffffffffff"];
/// Of ASCII: the C library compares bytes.
const WIDE_SETS: [&str; 5] = ["l[a-z]", "l[^ ]", "l[0-9.]", "l[^a]", "l[]x-]"];
const NOISE: &[u8] = b"  \t\n+-.0123456789abcdefxXpPeEinfatyNIL()%[]^,";

impl Case {
    /// Makes one up. `wide`: some with text that is not ASCII.
    #[must_use]
    pub fn generate(random: &Random, wide: bool) -> Self {
        // The C library's `%l[` compares bytes, counts a width in them, and takes in what is no character.
        let wide = wide && random.one_in(3);
        let mut case = Self {
            format: String::new(),
            system_format: String::new(),
            text: Vec::new(),
            kinds: Vec::new(),
            counted: Vec::new(),
            numbered: random.one_in(6),
            reads_prefixes: false,
            cuts_prefixes: false,
        };
        if case.numbered {
            // Which are used, each at most once, is said by the conversions.
            case.kinds = vec![Kind::Int64; TARGETS];
        }
        let mut free: Vec<usize> = (0..TARGETS).collect();
        for _ in 0..=random.below(5) {
            if random.one_in(3) {
                let space = random.pick(&[" ", "\n", "\t ", "  "]);
                case.say(space);
                let there = random.pick(&["", " ", "\n\t", "   "]);
                case.text.extend(there.bytes());
            } else if random.one_in(3) {
                let literal = random.pick(&["x", ",", "%%", "ab", "-", "0x"]);
                case.say(literal);
                case.text.extend(literal.replace("%%", "%").bytes());
            }
            if !free.is_empty() {
                let at = if case.numbered { random.below(free.len()) } else { 0 };
                let slot = free.remove(at);
                if !case.conversion(random, slot, wide) {
                    free.insert(at, slot);
                }
            }
        }
        if random.one_in(8) {
            case.say(" ");
        }
        if random.one_in(3) {
            case.text.extend(random.pick(&["", "5", " x", " 1.5 2"]).bytes());
        }
        // Nearly.
        while random.one_in(3) && !case.text.is_empty() {
            let (at, noise) = (random.below(case.text.len()), random.pick(NOISE));
            match random.below(4) {
                0 => case.text[at] = noise,
                1 => drop(case.text.remove(at)),
                2 => case.text.insert(at, noise),
                _ => case.text.truncate(at),
            }
        }
        case.text.retain(|byte| *byte != 0);
        // As wide characters it fits a target. Before the next step, as a cut may leave a prefix without its digit.
        case.text.truncate(ROOM / 4 - 1);
        case.without_misread();
        case
    }

    /// Notes a conversion of this width that reads prefixes.
    fn reads_prefix(&mut self, width: &str) {
        self.reads_prefixes = true;
        self.cuts_prefixes |= !width.is_empty();
    }

    /// Takes out of the text what glibc before 2.43 reads other than C11 and C23 say: prefixes without a digit, `0b` for `%i`, and `nan(`.
    fn without_misread(&mut self) {
        let (reads_prefixes, cuts_prefixes) = (self.reads_prefixes, self.cuts_prefixes);
        let is_misread = |text: &[u8]| match text {
            [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() && !cuts_prefixes => false,
            [b'0', b'x' | b'X' | b'b' | b'B', ..] => reads_prefixes,
            [word @ .., b'('] => word.eq_ignore_ascii_case(b"nan"),
            _ => false,
        };
        // Ends: each round takes a byte out.
        while let Some(at) = (0..self.text.len())
            .find(|at| is_misread(&self.text[*at..]) || self.text.get(*at..at + 4).is_some_and(is_misread))
        {
            self.text.remove(at + 1);
        }
    }

    fn say(&mut self, text: &str) {
        self.format.push_str(text);
        self.system_format.push_str(text);
    }

    /// A conversion, and text for it; whether it takes the slot.
    fn conversion(&mut self, random: &Random, slot: usize, non_ascii: bool) -> bool {
        self.say("%");
        let suppressed = random.one_in(8);
        let numbered = if self.numbered && !suppressed { format!("{}$", slot + 1) } else { String::new() };
        self.say(&numbered);
        if suppressed {
            self.say("*");
        }
        if random.one_in(16) {
            self.say("'");
        }
        let width = match random.below(8) {
            0 => 1 + random.below(4),
            1 => 1 + random.below(20),
            _ => 0,
        };
        let width_text = if width == 0 { String::new() } else { width.to_string() };
        let mut counts = true;
        let kind = match random.below(20) {
            0..7 => self.integer(random, &width_text),
            7 => {
                self.say(&format!("{width_text}p"));
                self.reads_prefix(&width_text);
                self.text.extend(random.pick(&POINTERS).bytes());
                Kind::Pointer
            }
            8..14 => {
                self.say(&width_text);
                let (size, kind) = random.pick(&[
                    ("", Kind::Float),
                    ("l", Kind::Double),
                    ("l", Kind::Double),
                    ("L", Kind::Double),
                ]);
                self.format.push_str(size);
                self.system_format.push_str(if size == "L" { "l" } else { size });
                self.say(random.pick(&["f", "e", "g", "a", "F", "E", "G", "A"]));
                self.text.extend(real(random).bytes());
                kind
            }
            14 => {
                counts = false;
                let (size, kind) = random.pick(&[
                    ("", Kind::Int32),
                    ("hh", Kind::Int8),
                    ("h", Kind::Int16),
                    ("l", Kind::Int64),
                ]);
                self.say(size);
                self.say("n");
                kind
            }
            choice => {
                self.say(&width_text);
                self.characters(random, choice, !suppressed && random.one_in(6), non_ascii)
            }
        };
        if suppressed {
            return false;
        }
        if self.numbered {
            self.kinds[slot] = kind;
        } else {
            self.kinds.push(kind);
        }
        if counts {
            self.counted.push(slot);
        }
        true
    }

    /// An integer's conversion, of that width, and text for it.
    fn integer(&mut self, random: &Random, width: &str) -> Kind {
        self.say(width);
        let (size, kind) = random.pick(&[
            ("", Kind::Int32),
            ("", Kind::Int32),
            ("hh", Kind::Int8),
            ("h", Kind::Int16),
            ("l", Kind::Int64),
            ("ll", Kind::Int64),
            ("j", Kind::Int64),
            ("z", Kind::Int64),
            ("t", Kind::Int64),
        ]);
        self.say(size);
        let letter = random.pick(&["d", "d", "i", "i", "u", "o", "x", "X"]);
        self.say(letter);
        if matches!(letter, "i" | "x" | "X") {
            self.reads_prefix(width);
        }
        self.text.extend(integer(random).bytes());
        kind
    }

    /// A conversion of characters, `choice` 15 to 19, and text for it.
    fn characters(&mut self, random: &Random, choice: usize, allocated: bool, non_ascii: bool) -> Kind {
        if allocated {
            self.say("m");
        }
        let is_wide = random.one_in(4) && (choice <= 17 || !non_ascii);
        match choice {
            15 => self.say(if is_wide { "lc" } else { "c" }),
            16 | 17 => self.say(if is_wide { "ls" } else { "s" }),
            _ if is_wide => self.say(random.pick(&WIDE_SETS)),
            _ => self.say(random.pick(&SETS)),
        }
        for _ in 0..random.below(12) {
            let piece =
                random.pick(&["a", "b", "z", "x", "0", "7", ".", "]", "-", "+", "_", "é", "€", "ü", "😀"]);
            if piece.is_ascii() || non_ascii {
                self.text.extend(piece.bytes());
            }
        }
        if random.one_in(10) {
            // Longer than the first memory of an allocation.
            self.text.extend([random.pick(b"a0z"); 90]);
        }
        match (allocated, is_wide) {
            (true, _) => Kind::Allocated(if is_wide { 4 } else { 1 }),
            (false, true) => Kind::Wide,
            (false, false) => Kind::Text,
        }
    }

    /// What this project makes of it.
    ///
    /// # Panics
    /// If the format is refused: it is made to be right.
    #[must_use]
    pub fn ours(&self) -> Outcome {
        let mut slots = vec![Slot([UNTOUCHED; ROOM]); TARGETS];
        let targets: Vec<Target<'_>> =
            slots.iter_mut().zip(&self.kinds).map(|(slot, kind)| target(slot, *kind)).collect();
        let format = self.format.as_bytes();
        // SAFETY:
        // - it is C's allocator
        let memory = unsafe { Memory::new(reallocate) };
        let mut text = Watched { text: Text::new(&self.text), met_end: false };
        let outcome = scan(&mut text, format, &targets, memory);
        drop(targets);
        let (count, out_of_range) = match outcome {
            Ok(scanned) => (scanned.stored.map_or(-1, |stored| stored as i32), scanned.out_of_range),
            // C11's input failure, where the C library has none.
            Err(ScanError { why: Why::Encoding, .. }) => (0, false),
            Err(error) => panic!("{:?}: {error}", self.format),
        };
        self.outcome((count, (!text.met_end).then_some(out_of_range)), &slots)
    }

    /// What the system makes of it.
    ///
    /// # Panics
    /// If text or format hold a NUL, which they do not.
    #[must_use]
    pub fn system(&self) -> Outcome {
        let mut slots = vec![Slot([UNTOUCHED; ROOM]); TARGETS];
        let text = CString::new(self.text.as_slice()).expect("no NUL");
        let format = CString::new(self.system_format.as_str()).expect("no NUL");
        let [a, b, c, d, e, f] = std::array::from_fn(|at| (&raw mut slots[at]).cast::<c_void>());
        // SAFETY:
        // - no memory is involved
        let errno = unsafe { libc::__errno_location() };
        // SAFETY:
        // - this thread's own, aligned
        unsafe { errno.write(0) };
        // SAFETY:
        // - strings that end; each target has room for all of the text, and the format has no more of them
        let count = unsafe { __isoc99_sscanf(text.as_ptr(), format.as_ptr(), a, b, c, d, e, f) };
        // SAFETY:
        // - as above
        let errno = unsafe { errno.read() };
        // What ended a scan with values is the last to say.
        let out_of_range = (errno != libc::EILSEQ).then_some(errno == libc::ERANGE);
        self.outcome((count, out_of_range), &slots)
    }

    /// The memory that is compared: of allocations what they hold, if they were counted; of a failed conversion's text nothing.
    fn outcome(&self, (count, out_of_range): (i32, Option<bool>), slots: &[Slot]) -> Outcome {
        let stored = &self.counted[..(count.max(0) as usize).min(self.counted.len())];
        let memory = slots.iter().enumerate().map(|(at, slot)| {
            let kind = self.kinds.get(at).copied().unwrap_or(Kind::Int64);
            let is_stored = stored.contains(&at);
            match kind {
                Kind::Allocated(element) if is_stored => {
                    // SAFETY:
                    // - the pointer was stored
                    let text = unsafe { slot.0.as_ptr().cast::<*mut u8>().read() };
                    let is_chars = self.is_chars(at);
                    let mut bytes = Vec::new();
                    // Of `%mc` only the first: it has no end.
                    for index in (0..).step_by(element) {
                        // SAFETY:
                        // - up to its NUL
                        let value = unsafe { std::slice::from_raw_parts(text.add(index), element) };
                        bytes.extend(value);
                        if is_chars || value.iter().all(|byte| *byte == 0) {
                            break;
                        }
                    }
                    // SAFETY:
                    // - allocated by C's allocator, and not used again
                    unsafe { libc::free(text.cast()) };
                    bytes
                }
                Kind::Allocated(_) => Vec::new(),
                Kind::Text | Kind::Wide if !is_stored && self.counted.contains(&at) => Vec::new(),
                _ => slot.0.to_vec(),
            }
        });
        Outcome { count, out_of_range, memory: memory.collect() }
    }

    /// Whether the target at a place is that of a `%c`.
    fn is_chars(&self, at: usize) -> bool {
        let order = self.counted.iter().position(|slot| *slot == at).unwrap_or(0);
        let mut left = order;
        let mut rest = self.format.as_str();
        // Ends: each round goes behind a conversion.
        while let Some(found) = rest.find('%') {
            let conversion = &rest[found + 1..];
            let end = conversion.find(|letter: char| "diuoxXpfegaFEGAcsn[%".contains(letter)).unwrap_or(0);
            let (before, letter) = (&conversion[..end], conversion.as_bytes()[end]);
            rest = &conversion[end + 1..];
            if letter == b'[' {
                let skip = if rest.starts_with("^]") { 2 } else { usize::from(rest.starts_with(']')) };
                rest = &rest[skip + rest[skip..].find(']').unwrap_or(0) + 1..];
            }
            if letter == b'%' || letter == b'n' || before.contains('*') {
                continue;
            }
            if left == 0 {
                return letter == b'c';
            }
            left -= 1;
        }
        false
    }
}

/// C's allocator as the engine calls it.
unsafe extern "C" fn reallocate(memory: *mut c_void, _before: usize, bytes: usize) -> *mut c_void {
    // SAFETY:
    // - null, or from here
    unsafe {
        if bytes == 0 {
            libc::free(memory);
            return std::ptr::null_mut();
        }
        libc::realloc(memory, bytes)
    }
}

fn target(slot: &mut Slot, kind: Kind) -> Target<'_> {
    let place = (&raw mut slot.0).cast::<u64>();
    // SAFETY:
    // - the slot is aligned for all of them, larger than each, and this target's alone
    unsafe {
        match kind {
            Kind::Int8 => Target::from(&mut *place.cast::<u8>()),
            Kind::Int16 => Target::from(&mut *place.cast::<u16>()),
            Kind::Int32 => Target::from(&mut *place.cast::<i32>()),
            Kind::Int64 => Target::from(&mut *place),
            Kind::Float => Target::from(&mut *place.cast::<f32>()),
            Kind::Double => Target::from(&mut *place.cast::<f64>()),
            Kind::Pointer | Kind::Allocated(_) => Target::from(&mut *place.cast::<*mut u8>()),
            Kind::Text => Target::from(&mut *place.cast::<[u8; ROOM]>()),
            Kind::Wide => Target::from(&mut *place.cast::<[u32; ROOM / 4]>()),
        }
    }
}

/// An integer as text, of every size, in every base, most often right.
fn integer(random: &Random) -> String {
    let value = random.bits() >> random.below(64);
    let value = match random.below(12) {
        0 => random.pick(&[0, 1, 1 << 31, 1 << 63, (1 << 63) - 1, u64::MAX, 255, 256]),
        _ => value,
    };
    let digits = match random.below(8) {
        0 => format!("{value:x}"),
        1 => format!("0x{value:x}"),
        2 => format!("0X{value:X}"),
        3 => format!("0{value:o}"),
        4 => format!("{value}{}", random.below(1_000_000)),
        5 => random
            .pick(&["0x", "0", "00", "0xg", "08", "", "+", "9223372036854775808", "0b11", "0x-1"])
            .to_owned(),
        _ => value.to_string(),
    };
    random.pick(&["", "", "", "-", "+", " ", " -"]).to_owned() + &digits
}

/// Floating-point numbers that are nearly none, or nearly too large or small.
const STRANGE: [&str; 32] = [
    "inf",
    "INFINITY",
    "nan",
    "infi",
    "infinit",
    "nanx",
    "1e",
    "1e+",
    ".",
    ".5",
    "5.",
    "-",
    "0x",
    "0x.",
    "0x.8",
    "0xp1",
    "1.2.3",
    "1e5e5",
    "1e99999",
    "1e-99999",
    "0e999999999999999999999",
    "0x1p99999",
    "00.00e5",
    "e5",
    "-.",
    "0x1.",
    "+inf",
    "-nan",
    "1E+5",
    "4.9406564584124654e-324",
    "2.4703282292062327e-324",
    "1.7976931348623159e308",
];

/// A floating-point number as text: of every class, with long and with strange digits.
fn real(random: &Random) -> String {
    let value = match random.below(4) {
        0 => f64::from_bits(random.bits()),
        1 => f64::from(f32::from_bits(random.bits() as u32)),
        2 => random.below(1_000_000) as f64 / 1000.0,
        _ => f64::from_bits(random.bits() & ((1 << 52) - 1) | (1023 - 40 + random.word_below(80)) << 52),
    };
    let digits = match random.below(12) {
        0 => format!("{value:e}"),
        1 => format!("{value:.20e}"),
        2 => format!("{value:.*E}", random.below(40)),
        3 if value.is_finite() => {
            // Halfway to the next, and just above: exact digits.
            let next = f64::from_bits(value.to_bits().wrapping_add(1));
            let (high, low) = (value.abs().min(1e15), next.abs().min(1e15));
            format!("{:.60}{}", f64::midpoint(high, low), random.pick(&["", "0", "1"]))
        }
        4 => {
            let count = 1 + random.below(60);
            let digits: String = (0..count).map(|_| char::from(b'0' + random.below(10) as u8)).collect();
            format!("{digits}.{}e{}", random.below(1000), random.below(700) as i64 - 350)
        }
        5 => format!(
            "0x{:x}.{:x}p{}",
            random.bits() >> random.below(64),
            random.bits(),
            random.below(2400) as i64 - 1200
        ),
        6 => format!("0x{:x}p{}", random.bits() >> random.below(64), random.below(300) as i64 - 150),
        7 => random.pick(&STRANGE).to_owned(),
        8 => format!("{}{}", "0".repeat(random.below(30)), random.bits()),
        _ => format!("{value}"),
    };
    let mut text = random.pick(&["", "", "", "-", "+", " "]).to_owned() + &digits;
    text.truncate(500);
    text
}
