//! The parser: cuts a format into literal text and conversions (C11 7.21.6.1).
//!
//! It is `const`, so that the compiler checks literal formats with the very code that reads the others at run time. It knows
//! nothing of arguments but their kinds.

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
    const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            b'-' => Self::LEFT,
            b'+' => Self::SIGN,
            b' ' => Self::SPACE,
            b'#' => Self::ALTERNATE,
            b'0' => Self::ZERO,
            b'\'' => Self::NONE,
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
}

impl Conversion {
    const fn is_integer(self) -> bool {
        matches!(self, Self::Decimal | Self::Unsigned(_))
    }
    const fn is_floating(self) -> bool {
        matches!(self, Self::Fixed | Self::Exponent | Self::General | Self::Hexadecimal)
    }
    /// Whether it prints arguments of this kind.
    pub(super) const fn accepts(self, kind: Kind) -> bool {
        match self {
            Self::Decimal | Self::Unsigned(_) => matches!(kind, Kind::Signed | Kind::Unsigned),
            Self::Char => matches!(kind, Kind::Signed | Kind::Unsigned | Kind::Char),
            Self::Text => matches!(kind, Kind::CString | Kind::Bytes),
            Self::Pointer => matches!(kind, Kind::Pointer | Kind::CString | Kind::Bytes),
            Self::Fixed | Self::Exponent | Self::General | Self::Hexadecimal => matches!(kind, Kind::Double),
            Self::Percent => false,
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

/// The next piece of a format.
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

/// Reads the section that starts at `at`.
#[inline]
pub(super) const fn section(format: &[u8], at: usize) -> Result<Section, FormatError> {
    if at >= format.len() {
        return Ok(Section::End);
    }
    if byte(format, at) == b'%' {
        return match conversion(format, at) {
            Ok(spec) => Ok(Section::Conversion(spec)),
            Err(what) => Err(FormatError { offset: at, what }),
        };
    }
    let mut end = at + 1;
    while end < format.len() && byte(format, end) != b'%' {
        end += 1;
    }
    Ok(Section::Literal { end })
}

/// Reads the conversion whose `%` is at `at`.
const fn conversion(format: &[u8], at: usize) -> Result<Spec, What> {
    let mut at = at + 1;
    let mut flags = Flags::NONE;
    // Each turn moves on by a byte, and NUL, after the end, is no flag.
    while let Some(flag) = Flags::from_byte(byte(format, at)) {
        flags = flags.with(flag);
        at += 1;
    }
    let digits = at;
    let width = match amount(format, &mut at) {
        Ok(width) => width,
        Err(what) => return Err(what),
    };
    if byte(format, at) == b'$' && at > digits {
        return Err(What::Unsupported);
    }
    let mut precision = Amount::None;
    if byte(format, at) == b'.' {
        at += 1;
        precision = match amount(format, &mut at) {
            Ok(Amount::None) => Amount::Fixed(0),
            Ok(precision) => precision,
            Err(what) => return Err(what),
        };
    }
    let length = length(format, &mut at);
    let letter = byte(format, at);
    let (conversion, upper) = match letter {
        b'd' | b'i' => (Conversion::Decimal, false),
        b'u' => (Conversion::Unsigned(10), false),
        b'o' => (Conversion::Unsigned(8), false),
        b'x' | b'X' => (Conversion::Unsigned(16), letter == b'X'),
        b'b' | b'B' => (Conversion::Unsigned(2), letter == b'B'),
        b'c' => (Conversion::Char, false),
        b's' => (Conversion::Text, false),
        b'p' => (Conversion::Pointer, false),
        b'f' | b'F' => (Conversion::Fixed, letter == b'F'),
        b'e' | b'E' => (Conversion::Exponent, letter == b'E'),
        b'g' | b'G' => (Conversion::General, letter == b'G'),
        b'a' | b'A' => (Conversion::Hexadecimal, letter == b'A'),
        b'%' => (Conversion::Percent, false),
        b'n' => return Err(What::Unsupported),
        _ if at >= format.len() => return Err(What::Unfinished),
        _ => return Err(What::Unknown),
    };
    let fits = match length {
        Length::Int => true,
        Length::Char | Length::Short | Length::Wide => conversion.is_integer(),
        Length::Long if matches!(conversion, Conversion::Char | Conversion::Text) => {
            return Err(What::Unsupported);
        }
        Length::Long => conversion.is_integer() || conversion.is_floating(),
        Length::LongDouble => conversion.is_floating(),
    };
    if !fits {
        return Err(What::Modifier);
    }
    Ok(Spec { flags, width, precision, length, conversion, upper, end: at + 1 })
}

/// Reads `*`, a number or nothing, and moves `at` past it.
const fn amount(format: &[u8], at: &mut usize) -> Result<Amount, What> {
    if byte(format, *at) == b'*' {
        *at += 1;
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
const fn length(format: &[u8], at: &mut usize) -> Length {
    let (length, size) = match (byte(format, *at), byte(format, *at + 1)) {
        (b'h', b'h') => (Length::Char, 2),
        (b'h', _) => (Length::Short, 1),
        (b'l', b'l') => (Length::Wide, 2),
        (b'l', _) => (Length::Long, 1),
        (b'j' | b'z' | b't', _) => (Length::Wide, 1),
        (b'L', _) => (Length::LongDouble, 1),
        _ => (Length::Int, 0),
    };
    *at += size;
    length
}
