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
    texts: Texts,
}

/// The [`TEXTS`], in memory that both sides reach.
pub type Texts = [&'static CStr; 6];

/// Strings for `%s`.
pub const TEXTS: Texts =
    [c"", c"a", c"lane 17", c"(null)", c"\xff\x80 bytes \x01", c"0123456789012345678901234567890123456789"];

impl Case {
    /// Makes one up.
    #[must_use]
    pub fn generate(random: &Random, texts: &Texts) -> Self {
        let mut case = Self {
            format: String::new(),
            system_format: String::new(),
            arguments: Vec::new(),
            passed: Vec::new(),
            texts: *texts,
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
        case
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
        let before_precision = (self.system_format.len(), self.passed.len());
        let mut precision = None;
        if random.one_in(2) {
            self.text(".");
            precision = self.amount(random);
        }
        match random.word_below(20) {
            0..6 => {
                self.text(random.pick(&["", "", "hh", "h", "l", "ll", "j", "z", "t"]));
                self.text(random.pick(&["d", "i", "u", "o", "x", "X", "b", "B"]));
                let value = integer(random);
                self.word(random, value);
            }
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
            _ => {
                match random.word_below(8) {
                    0 => self.text("l"),
                    1 => self.format.push('L'),
                    _ => {}
                }
                let letter = random.pick(&["f", "F", "e", "E", "g", "G", "a", "A"]);
                self.text(letter);
                let value = double(random);
                let digits = precision.unwrap_or(6).max(1);
                if alternate && matches!(letter, "g" | "G") && rounds_to_next_power(value, digits) {
                    // glibc drops zeros here, against C11: `%#g` of 999999.5 is `1.e+06`. It should be the `%#.5e` it says.
                    self.system_format.truncate(before_precision.0);
                    self.passed.truncate(before_precision.1);
                    write!(self.system_format, ".{}{}", digits - 1, if letter == "g" { "e" } else { "E" })
                        .unwrap();
                }
                self.push(Argument::from(value), Passed::Double(value));
            }
        }
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
                self.text("*");
                self.word(random, u64::from(value.cast_unsigned()));
                Some(value.cast_unsigned())
            }
            1 => {
                self.text("*");
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
    fn string(&mut self, random: &Random) {
        let text = random.pick(&self.texts);
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
