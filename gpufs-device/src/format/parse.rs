//! The parser: cuts a format into literal text and conversions (C11 7.21.6.1).
//!
//! It is `const`, so that the compiler checks literal formats with the very code that reads the others at run time. It knows
//! nothing of arguments but their kinds.
//!
//! It comes twice. [`section`] reads *plain* formats, which have what most formats have, and is part of each call of `printf`.
//! [`complete_section`] reads all of them, and alone says what is wrong with one ([`super::complete`]).

use super::{FormatError, Kind, What};

/// The longest width, precision and output: `INT_MAX`.
pub(super) const LIMIT: u32 = i32::MAX.cast_unsigned();

/// The flags of a conversion. `'` groups by the locale's rule, which in the C locale does nothing, and is not kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Flags(u8);

impl Flags {
    pub(super) const NONE: Self = Self(0);
    pub(super) const LEFT: Self = Self(1);
    pub(super) const SIGN: Self = Self(2);
    pub(super) const SPACE: Self = Self(4);
    pub(super) const ALTERNATE: Self = Self(8);
    pub(super) const ZERO: Self = Self(16);

    pub(super) const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }
    pub(super) const fn with(self, flag: Self) -> Self {
        Self(self.0 | flag.0)
    }
    const fn from_byte<const PLAIN: bool>(byte: u8) -> Option<Self> {
        Some(match byte {
            b'-' => Self::LEFT,
            b'+' => Self::SIGN,
            b' ' => Self::SPACE,
            b'#' => Self::ALTERNATE,
            b'0' => Self::ZERO,
            b'\'' => Self::NONE,
            // The locale's digits, in glibc.
            b'I' if !PLAIN => Self::NONE,
            _ => return None,
        })
    }
}

/// A width or a precision.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Amount {
    /// Not given.
    None,
    /// Given in the format; at most [`LIMIT`].
    Fixed(u32),
    /// `*`: the next argument says it.
    Argument,
}

/// A length modifier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// None: `int`.
    Int,
    /// `hh`.
    Char,
    /// `h`.
    Short,
    /// `l`: 64 bits. Floating conversions take it too, and ignore it.
    Long,
    /// `ll`, `j`, `z`, `t`: 64 bits.
    Wide,
    /// `L`: on a GPU a long double is a double.
    LongDouble,
}

/// What a conversion prints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Conversion {
    /// `d`, `i`.
    Decimal,
    /// `u`, `o`, `x`, `b`, in the base 10, 8, 16, 2.
    Unsigned(u32),
    /// `c`.
    Char,
    /// `s`.
    Text,
    /// `p`.
    Pointer,
    /// `f`.
    Fixed,
    /// `e`.
    Exponent,
    /// `g`.
    General,
    /// `a`.
    Hexadecimal,
    /// `%`, which takes no argument.
    Percent,
    /// `lc`, `C`. This one and those below are not in plain formats.
    WideChar,
    /// `ls`, `S`.
    WideText,
    /// `m`: what an error number says.
    Message,
    /// `n`: sets a number to how many bytes came before.
    Place,
}

impl Conversion {
    const fn is_integer(self) -> bool {
        matches!(self, Self::Decimal | Self::Unsigned(_))
    }
    const fn is_floating(self) -> bool {
        matches!(self, Self::Fixed | Self::Exponent | Self::General | Self::Hexadecimal)
    }
    /// Whether it prints arguments of this kind, in a plain format.
    pub(super) const fn accepts(self, kind: Kind) -> bool {
        match self {
            Self::Decimal | Self::Unsigned(_) => matches!(kind, Kind::Signed | Kind::Unsigned),
            Self::Char => matches!(kind, Kind::Signed | Kind::Unsigned | Kind::Char),
            Self::Text => matches!(kind, Kind::CString | Kind::Bytes),
            Self::Pointer => matches!(kind, Kind::Pointer | Kind::CString | Kind::Bytes),
            Self::Fixed | Self::Exponent | Self::General | Self::Hexadecimal => matches!(kind, Kind::Double),
            Self::Percent | Self::WideChar | Self::WideText | Self::Message | Self::Place => false,
        }
    }
    /// Whether it takes arguments of this kind, in any format.
    pub(super) const fn takes(self, kind: Kind) -> bool {
        match self {
            Self::WideChar => matches!(kind, Kind::Signed | Kind::Unsigned | Kind::Char),
            Self::WideText => matches!(kind, Kind::Wide | Kind::WidePlace),
            Self::Message => matches!(kind, Kind::Error),
            // A C string may be where `%hhn` stores; whether it is, shows when it is printed.
            Self::Place => matches!(kind, Kind::Place | Kind::WidePlace | Kind::CString),
            Self::Pointer => self.accepts(kind) || matches!(kind, Kind::Wide | Kind::Place | Kind::WidePlace),
            _ => self.accepts(kind),
        }
    }
}

/// One conversion as the format has it.
#[derive(Clone, Copy)]
pub(super) struct Spec {
    pub(super) flags: Flags,
    pub(super) width: Amount,
    pub(super) precision: Amount,
    pub(super) length: Length,
    pub(super) conversion: Conversion,
    /// Whether it was written with a capital: `X`, `B`, `F`, `E`, `G`, `A`.
    pub(super) upper: bool,
    /// The offset after it.
    pub(super) end: usize,
}

/// The numbers of the arguments of one conversion, counted from 1, as in `%3$*1$.*2$f`; 0 where none is given.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    pub(super) width: u32,
    pub(super) precision: u32,
    pub(super) argument: u32,
}

impl Numbers {
    pub(super) const NONE: Self = Self { width: 0, precision: 0, argument: 0 };
}

/// The next piece of a format.
#[derive(Clone, Copy)]
pub(super) enum Section {
    /// Text to copy, up to the offset `end`.
    Literal { end: usize },
    /// A conversion.
    Conversion(Spec),
    /// The format is over.
    End,
}

/// The byte at `at`, or NUL after the end, which no conversion contains.
#[inline]
const fn byte(format: &[u8], at: usize) -> u8 {
    if at < format.len() { format[at] } else { 0 }
}

/// Reads the section of a plain format that starts at `at`.
///
/// # Errors
/// Where the format is not plain; what the error says does not count.
#[inline]
pub(super) const fn section(format: &[u8], at: usize) -> Result<Section, What> {
    let mut numbers = Numbers::NONE;
    section_of::<true>(format, at, &mut numbers)
}

/// Reads the section of any format that starts at `at`.
///
/// # Errors
/// What is wrong with the format there.
pub(super) const fn complete_section(format: &[u8], at: usize) -> Result<(Section, Numbers), FormatError> {
    let mut numbers = Numbers::NONE;
    match section_of::<false>(format, at, &mut numbers) {
        Ok(section) => Ok((section, numbers)),
        Err(what) => Err(FormatError { offset: at, what }),
    }
}

#[inline]
const fn section_of<const PLAIN: bool>(
    format: &[u8],
    at: usize,
    numbers: &mut Numbers,
) -> Result<Section, What> {
    if at >= format.len() {
        return Ok(Section::End);
    }
    if byte(format, at) == b'%' {
        return match conversion::<PLAIN>(format, at, numbers) {
            Ok(spec) => Ok(Section::Conversion(spec)),
            Err(what) => Err(what),
        };
    }
    let mut end = at + 1;
    while end < format.len() && byte(format, end) != b'%' {
        end += 1;
    }
    Ok(Section::Literal { end })
}

/// Reads the conversion whose `%` is at `at`.
const fn conversion<const PLAIN: bool>(
    format: &[u8],
    at: usize,
    numbers: &mut Numbers,
) -> Result<Spec, What> {
    let mut at = at + 1;
    if !PLAIN {
        numbers.argument = number(format, &mut at);
    }
    let mut flags = Flags::NONE;
    // Each turn moves on by a byte, and NUL, after the end, is no flag.
    while let Some(flag) = Flags::from_byte::<PLAIN>(byte(format, at)) {
        flags = flags.with(flag);
        at += 1;
    }
    let width = match amount::<PLAIN>(format, &mut at, &mut numbers.width) {
        Ok(width) => width,
        Err(what) => return Err(what),
    };
    let mut precision = Amount::None;
    if byte(format, at) == b'.' {
        at += 1;
        precision = match amount::<PLAIN>(format, &mut at, &mut numbers.precision) {
            Ok(Amount::None) => Amount::Fixed(0),
            Ok(precision) => precision,
            Err(what) => return Err(what),
        };
    }
    let modifier = byte(format, at);
    let length = match length::<PLAIN>(format, &mut at) {
        Ok(length) => length,
        Err(what) => return Err(what),
    };
    let letter = byte(format, at);
    let is_long = matches!(length, Length::Long);
    let (conversion, upper) = match letter {
        b'd' | b'i' => (Conversion::Decimal, false),
        b'u' => (Conversion::Unsigned(10), false),
        b'o' => (Conversion::Unsigned(8), false),
        b'x' | b'X' => (Conversion::Unsigned(16), letter == b'X'),
        b'b' | b'B' => (Conversion::Unsigned(2), letter == b'B'),
        b'c' if !PLAIN && is_long => (Conversion::WideChar, false),
        b'c' => (Conversion::Char, false),
        b's' if !PLAIN && is_long => (Conversion::WideText, false),
        b's' => (Conversion::Text, false),
        b'p' => (Conversion::Pointer, false),
        b'f' | b'F' => (Conversion::Fixed, letter == b'F'),
        b'e' | b'E' => (Conversion::Exponent, letter == b'E'),
        b'g' | b'G' => (Conversion::General, letter == b'G'),
        b'a' | b'A' => (Conversion::Hexadecimal, letter == b'A'),
        b'%' => (Conversion::Percent, false),
        b'C' if !PLAIN && !is_long => (Conversion::WideChar, false),
        b'S' if !PLAIN && !is_long => (Conversion::WideText, false),
        b'm' if !PLAIN => (Conversion::Message, false),
        b'n' if !PLAIN => (Conversion::Place, false),
        _ if at >= format.len() => return Err(What::Unfinished),
        _ => return Err(What::Unknown),
    };
    let fits = fits(length, conversion, !PLAIN && modifier == b'w');
    if !fits {
        return Err(What::Modifier);
    }
    Ok(Spec { flags, width, precision, length, conversion, upper, end: at + 1 })
}

/// Whether a conversion takes a length modifier. `by_bits`: C23's `w`, which integers alone have.
#[inline]
const fn fits(length: Length, conversion: Conversion, by_bits: bool) -> bool {
    let counts = conversion.is_integer() || matches!(conversion, Conversion::Place);
    match length {
        Length::Int => !by_bits || counts,
        Length::Char | Length::Short | Length::Wide => counts,
        Length::Long => {
            counts
                || conversion.is_floating()
                || matches!(conversion, Conversion::WideChar | Conversion::WideText)
        }
        Length::LongDouble => conversion.is_floating(),
    }
}

/// Reads `n$`, and moves `at` past it: the number, or 0 if there is none.
const fn number(format: &[u8], at: &mut usize) -> u32 {
    let mut end = *at;
    let mut value: u32 = 0;
    while byte(format, end).is_ascii_digit() {
        value = value.saturating_mul(10).saturating_add((byte(format, end) - b'0') as u32);
        end += 1;
    }
    if value == 0 || byte(format, end) != b'$' {
        return 0;
    }
    *at = end + 1;
    value
}

/// Reads `*`, `*n$`, a number or nothing, and moves `at` past it.
const fn amount<const PLAIN: bool>(
    format: &[u8],
    at: &mut usize,
    numbered: &mut u32,
) -> Result<Amount, What> {
    if byte(format, *at) == b'*' {
        *at += 1;
        if !PLAIN {
            *numbered = number(format, at);
        }
        return Ok(Amount::Argument);
    }
    let start = *at;
    let mut value: u32 = 0;
    while byte(format, *at).is_ascii_digit() {
        value = value.saturating_mul(10).saturating_add((byte(format, *at) - b'0') as u32);
        *at += 1;
    }
    if value > LIMIT {
        Err(What::Overflow)
    } else if *at == start {
        Ok(Amount::None)
    } else {
        Ok(Amount::Fixed(value))
    }
}

/// Reads a length modifier, if there is one, and moves `at` past it.
///
/// # Errors
/// C23's `w` with a number of bits that no type has.
const fn length<const PLAIN: bool>(format: &[u8], at: &mut usize) -> Result<Length, What> {
    let (length, size) = match (byte(format, *at), byte(format, *at + 1)) {
        (b'h', b'h') => (Length::Char, 2),
        (b'h', _) => (Length::Short, 1),
        (b'l', b'l') => (Length::Wide, 2),
        (b'l', _) => (Length::Long, 1),
        (b'j' | b'z' | b't', _) => (Length::Wide, 1),
        (b'L', _) => (Length::LongDouble, 1),
        (b'q', _) if !PLAIN => (Length::Wide, 1),
        (b'w', next) if !PLAIN => {
            let fast = next == b'f';
            let digits = *at + if fast { 2 } else { 1 };
            // glibc's fast types of 16 and 32 bits have 64.
            match (byte(format, digits), byte(format, digits + 1)) {
                (b'8', _) => (Length::Char, digits + 1 - *at),
                (b'1', b'6') => (if fast { Length::Wide } else { Length::Short }, digits + 2 - *at),
                (b'3', b'2') => (if fast { Length::Wide } else { Length::Int }, digits + 2 - *at),
                (b'6', b'4') => (Length::Wide, digits + 2 - *at),
                _ => return Err(What::Modifier),
            }
        }
        _ => (Length::Int, 0),
    };
    *at += size;
    Ok(length)
}
