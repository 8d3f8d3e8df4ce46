//! Cases of `snprintf`: a format, its arguments, and what the C library makes of them.
#![expect(unsafe_code, reason = "calls the C library")]

use std::ffi::{CStr, CString};
use std::fmt::Write as _;

use gpufs_device::format::Argument;

use crate::random::Random;

/// Longer than any output of the cases.
pub const ROOM: usize = 40 << 10;

/// Arguments that one call of the system's function takes here.
const ARGUMENTS: usize = 6;

/// An argument as C passes it.
#[derive(Clone, Copy, Debug)]
pub enum Passed {
    /// In a general register: an integer, or an address.
    Word(u64),
    /// In a floating-point register.
    Double(f64),
}

/// What both sides print.
#[derive(Debug)]
pub struct Case {
    /// For the engine.
    pub format: String,
    /// For the system: without `L`, as its long double is not a double.
    pub system_format: String,
    /// For the engine.
    pub arguments: Vec<Argument<'static>>,
    /// For the system.
    pub passed: Vec<Passed>,
    /// What `%m` prints.
    pub errno: i32,
    texts: Texts,
    /// Where the number of an argument may stand: places in both formats, and which argument it is.
    numbers: Vec<(usize, usize, usize)>,
    /// Whether its arguments cannot be numbered: one is for this project's side alone, or glibc 2.36 pads a negative width with zeros then.
    stays: bool,
}

/// Strings, in memory that both sides reach.
#[derive(Clone, Copy, Debug)]
pub struct Texts {
    /// For `%s`.
    pub narrow: [&'static CStr; 6],
    /// For `%ls`; each ends with 0.
    pub wide: [&'static [u32]; 5],
    /// Whether the system's wide characters are UTF-8 ([`speak_utf8`]); else there are none beyond ASCII.
    pub utf8: bool,
}

/// Strings for `%s` and `%ls`, in this program's memory.
pub const TEXTS: Texts = Texts {
    narrow: [
        c"",
        c"a",
        c"lane 17",
        c"(null)",
        c"\xff\x80 bytes \x01",
        c"0123456789012345678901234567890123456789",
    ],
    wide: [
        &[0],
        &[0x77, 0x69, 0x64, 0x65, 0],
        &[0x6c, 0xe4, 0x6e, 0x67, 0x65, 0x72, 0x20, 0x20ac, 0x1f680, 0x7ff, 0x800, 0xffff, 0x10000, 0],
        &[0x61, 0xd800, 0],
        &[0x61, 0x11_0000, 0x7fff_ffff, 0x8000_0000, 0],
    ],
    utf8: true,
};

/// Makes the system's wide characters UTF-8, in the calling thread. False where it has no such locale.
#[must_use]
pub fn speak_utf8() -> bool {
    // SAFETY:
    // - the name is a string
    let locale = unsafe { libc::newlocale(libc::LC_CTYPE_MASK, c"C.UTF-8".as_ptr(), std::ptr::null_mut()) };
    // SAFETY:
    // - a locale, which stays for as long as the thread
    !locale.is_null() && !unsafe { libc::uselocale(locale) }.is_null()
}

impl Case {
    /// Makes one up.
    #[must_use]
    pub fn generate(random: &Random, texts: &Texts) -> Self {
        let mut case = Self {
            format: String::new(),
            system_format: String::new(),
            arguments: Vec::new(),
            passed: Vec::new(),
            errno: random.pick(&[0, 1, 2, 28, 34, 75, 84, 131, 133, 134, 4095, -1, i32::MAX, i32::MIN]),
            texts: *texts,
            numbers: Vec::new(),
            stays: false,
        };
        for _ in 0..=random.word_below(4) {
            if random.one_in(3) {
                case.text(random.pick(&["x", " = ", "%%", "thread ", "\n", "a long piece of text, "]));
            }
            // A conversion takes at most three.
            if case.arguments.len() + 3 <= ARGUMENTS {
                case.conversion(random);
            }
        }
        if random.one_in(5) && !case.stays {
            case.number(random);
        }
        case
    }
    /// Numbers the arguments, and puts them into another order.
    fn number(&mut self, random: &Random) {
        let count = self.arguments.len();
        let mut order: Vec<usize> = (0..count).collect();
        (1..count).for_each(|last| order.swap(last, random.below(last + 1)));
        for (here, there, argument) in self.numbers.drain(..).rev() {
            let number = format!("{}$", order[argument] + 1);
            self.format.insert_str(here, &number);
            self.system_format.insert_str(there, &number);
        }
        let (arguments, passed) = (self.arguments.clone(), self.passed.clone());
        for (from, to) in order.into_iter().enumerate() {
            self.arguments[to] = arguments[from];
            self.passed[to] = passed[from];
        }
    }
    /// Notes that the number of argument `index` may stand here in both formats.
    fn numbered(&mut self, index: usize) {
        self.numbers.push((self.format.len(), self.system_format.len(), index));
    }
    fn text(&mut self, text: &str) {
        self.format.push_str(text);
        self.system_format.push_str(text);
    }
    fn word(&mut self, random: &Random, word: u64) {
        // Either kind of integer goes to any integer conversion.
        let argument =
            if random.one_in(2) { Argument::from(word) } else { Argument::from(word.cast_signed()) };
        self.push(argument, Passed::Word(word));
    }
    fn push(&mut self, argument: Argument<'static>, passed: Passed) {
        self.arguments.push(argument);
        self.passed.push(passed);
    }
    fn conversion(&mut self, random: &Random) {
        self.text("%");
        // Where its number stands, once it is known that it takes an argument; those of `*` come behind.
        let own = self.numbers.len();
        self.numbered(usize::MAX);
        let before = self.arguments.len();
        let mut alternate = false;
        for flag in ["-", "+", " ", "#", "0", "'"] {
            if random.one_in(4) {
                self.text(flag);
                alternate |= flag == "#";
            }
        }
        if random.one_in(2) {
            self.amount(random);
        }
        let before_precision = Some((self.system_format.len(), self.passed.len()));
        let mut precision = None;
        if random.one_in(2) {
            self.text(".");
            precision = self.amount(random);
        }
        match random.word_below(23) {
            20 => self.wide(random),
            21 => self.wide_character(random),
            // Of an unknown number, glibc prints the digits with every flag.
            22 if alternate && !(1..=133).contains(&self.errno) => self.text("%"),
            22 => {
                // It takes no argument there, and none here where the caller has an `errno`.
                self.text("m");
                if random.one_in(2) {
                    self.arguments.push(Argument::error(self.errno));
                    self.stays = true;
                }
            }
            0..6 => self.integer(random),
            6 => {
                self.text("c");
                let value = integer(random);
                self.word(random, value);
            }
            7..9 => {
                self.text("s");
                self.string(random);
            }
            9 => {
                self.text("p");
                let address = if random.one_in(4) { 0 } else { integer(random) };
                let pointer: *const u8 = core::ptr::without_provenance(address as usize);
                self.push(Argument::from(pointer), Passed::Word(address));
            }
            10 if random.one_in(4) => self.text("%"),
            _ => self.real(random, precision, before_precision.filter(|_| alternate)),
        }
        // Its own argument is the last, if it has one beside those of `*`.
        let stars = self.numbers.len() - own - 1;
        if self.arguments.len() > before + stars {
            self.numbers[own].2 = self.arguments.len() - 1;
        } else {
            self.numbers.remove(own);
        }
    }
    /// `%d` and its kin.
    fn integer(&mut self, random: &Random) {
        if random.one_in(4) {
            // glibc 2.36 has no `w`: these are its types.
            let (ours, theirs) = random.pick(&[
                ("w8", "hh"),
                ("w16", "h"),
                ("w32", ""),
                ("w64", "ll"),
                ("wf8", "hh"),
                ("wf16", "l"),
                ("wf32", "l"),
                ("wf64", "l"),
            ]);
            self.format.push_str(ours);
            self.system_format.push_str(theirs);
        } else {
            self.text(random.pick(&["", "", "hh", "h", "l", "ll", "j", "z", "t"]));
        }
        self.text(random.pick(&["d", "i", "u", "o", "x", "X", "b", "B"]));
        let value = integer(random);
        self.word(random, value);
    }
    /// `%f` and its kin. `before_precision` is, with the flag `#`, how long the system's side was before the precision.
    fn real(&mut self, random: &Random, precision: Option<u32>, before_precision: Option<(usize, usize)>) {
        match random.word_below(8) {
            0 => self.text("l"),
            1 => self.format.push('L'),
            _ => {}
        }
        let letter = random.pick(&["f", "F", "e", "E", "g", "G", "a", "A"]);
        self.text(letter);
        let value = double(random);
        let digits = precision.unwrap_or(6).max(1);
        if let Some((system, passed)) = before_precision
            && matches!(letter, "g" | "G")
            && rounds_to_next_power(value, digits)
        {
            // glibc drops zeros here, against C11: `%#g` of 999999.5 is `1.e+06`. It should be the `%#.5e` it says.
            self.system_format.truncate(system);
            self.passed.truncate(passed);
            self.stays = true;
            write!(self.system_format, ".{}{}", digits - 1, if letter == "g" { "e" } else { "E" }).unwrap();
        }
        self.push(Argument::from(value), Passed::Double(value));
    }
    /// `%lc`.
    fn wide_character(&mut self, random: &Random) {
        let value = random.pick(&[0x61, 0, 0xe9, 0x20ac, 0x1f680, 0x10_ffff, 0xd800, 0xdfff, 0x11_0000]);
        let value = if random.one_in(8) { integer(random) & 0xffff_ffff } else { value };
        self.text(random.pick(&["lc", "C"]));
        self.word(random, if self.texts.utf8 { value } else { value & 0x7f });
    }
    /// `%ls`.
    fn wide(&mut self, random: &Random) {
        self.text(random.pick(&["ls", "S"]));
        let most = if self.texts.utf8 { self.texts.wide.len() } else { 2 };
        let text = self.texts.wide[random.below(most)].as_ptr();
        let text = if random.one_in(6) { std::ptr::null() } else { text };
        // SAFETY:
        // - null, or a constant that ends with 0
        let argument = unsafe { Argument::wide_c_string(text) };
        self.push(argument, Passed::Word(text.expose_provenance() as u64));
    }
    /// A width or a precision. Returns what it is as a precision: `None` where it counts as not given.
    fn amount(&mut self, random: &Random) -> Option<u32> {
        let value: i32 = match random.word_below(256) {
            0 => 400,
            1 => 1074,
            2 => 5000,
            3..8 => random.word_below(800) as i32,
            8..40 => random.word_below(60) as i32,
            40..72 => 0,
            _ => random.word_below(22) as i32,
        };
        match random.word_below(8) {
            0 => {
                self.star();
                self.word(random, u64::from(value.cast_unsigned()));
                Some(value.cast_unsigned())
            }
            1 => {
                self.star();
                self.stays = true;
                self.word(random, i64::from(-value).cast_unsigned());
                (value == 0).then_some(0)
            }
            // Nothing: no width, or the precision 0.
            2 => Some(0),
            _ => {
                self.text(&value.to_string());
                Some(value.cast_unsigned())
            }
        }
    }
    fn star(&mut self) {
        self.text("*");
        self.numbered(self.arguments.len());
    }
    fn string(&mut self, random: &Random) {
        let text = random.pick(&self.texts.narrow);
        match random.word_below(4) {
            // SAFETY:
            // - null is allowed
            0 => self.push(unsafe { Argument::c_string(core::ptr::null()) }, Passed::Word(0)),
            // SAFETY:
            // - the string is a constant
            1 => self.push(
                unsafe { Argument::c_string(text.as_ptr().cast()) },
                Passed::Word(text.as_ptr().addr() as u64),
            ),
            _ => self.push(Argument::from(text), Passed::Word(text.as_ptr().expose_provenance() as u64)),
        }
    }
    /// Prints into `buffer` with the system's function.
    ///
    /// # Panics
    /// If there are more arguments than it takes here.
    pub fn system(&self, buffer: &mut [u8]) -> i32 {
        let format = CString::new(self.system_format.as_str()).unwrap();
        // SAFETY:
        // - takes nothing
        let errno = unsafe { libc::__errno_location() };
        // SAFETY:
        // - the address of the thread's errno is valid
        unsafe { *errno = self.errno };
        macro_rules! call {
            ($rest:expr; [$($done:expr),*];) => {{
                assert!($rest.is_empty(), "more than {ARGUMENTS} arguments");
                // SAFETY:
                // - the buffer is as long as it says
                // - the format and its arguments were made together
                unsafe { libc::snprintf(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr() $(, $done)*) }
            }};
            ($rest:expr; [$($done:expr),*]; $name:ident $($more:ident)*) => {
                match $rest {
                    // SAFETY:
                    // - as above
                    [] => unsafe { libc::snprintf(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr() $(, $done)*) },
                    [Passed::Word($name), rest @ ..] => call!(rest; [$($done,)* *$name]; $($more)*),
                    [Passed::Double($name), rest @ ..] => call!(rest; [$($done,)* *$name]; $($more)*),
                }
            };
        }
        call!(self.passed.as_slice(); []; a b c d e f)
    }
}

/// Integers of every size, the limits among them.
fn integer(random: &Random) -> u64 {
    let value = match random.word_below(6) {
        0 => 1 << random.word_below(64),
        1 => (1 << random.word_below(64)) - 1,
        2 => random.word_below(300),
        3 => 10u64.pow(random.word_below(20) as u32),
        4 => 0,
        _ => random.bits() >> random.word_below(64),
    };
    if random.one_in(3) { value.wrapping_neg() } else { value }
}

/// Doubles of every class, most of them where rounding is hard.
fn double(random: &Random) -> f64 {
    let ten = |exponent: u64| 10f64.powi(exponent as i32);
    let value = match random.word_below(14) {
        0 | 1 => f64::from_bits(random.bits()),
        // Of moderate size.
        2 | 3 => f64::from_bits(random.bits() & ((1 << 52) - 1) | (1023 - 70 + random.word_below(140)) << 52),
        // As people write them.
        4 | 5 => {
            random.word_below(10u64.pow(1 + random.word_below(16) as u32)) as f64 / ten(random.word_below(20))
        }
        6 => random.word_below(1_000_000) as f64 * ten(random.word_below(280)),
        // Ties.
        7 => random.word_below(1 << random.word_below(53)) as f64 / (1u64 << random.word_below(40)) as f64,
        8 => (random.word_below(10_000) as f64 + 0.5) * ten(random.word_below(12)),
        // Powers of ten, and what is next to them.
        9 => {
            let power: f64 = format!("1e{}", random.word_below(632) as i64 - 323).parse().unwrap();
            f64::from_bits((power.to_bits() + random.word_below(3)).saturating_sub(1))
        }
        // All nines, up to a tie.
        10 => {
            ten(random.word_below(18))
                - random.pick(&[0.5, 0.05, 0.005, 1.0, 5.0, 50.0, 0.000_5]) * ten(random.word_below(3))
        }
        // Powers of two, and what is next to them.
        11 => f64::from_bits(
            (random.word_below(2047) << 52).wrapping_add(random.word_below(3)).saturating_sub(1),
        ),
        // Subnormals.
        12 => f64::from_bits(random.bits() >> (12 + random.word_below(52))),
        _ => random.pick(&[
            0.0,
            1.0,
            f64::INFINITY,
            f64::NAN,
            f64::MAX,
            f64::MIN_POSITIVE,
            f64::from_bits(1),
            0.1,
            2.5,
            1e22,
            9.5,
            0.5,
            u64::MAX as f64,
            i64::MAX as f64,
        ]),
    };
    f64::from_bits(value.to_bits() ^ random.word_below(2) << 63)
}

/// Whether `value` is below 10^`digits` but, with so many significant digits, is printed as 10^`digits`.
fn rounds_to_next_power(value: f64, digits: u32) -> bool {
    let exponent = |text: String| text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok());
    let (below, rounded) = (format!("{value:e}"), format!("{value:.*e}", digits as usize - 1));
    exponent(below) == Some(i64::from(digits) - 1) && exponent(rounded) == Some(i64::from(digits))
}
