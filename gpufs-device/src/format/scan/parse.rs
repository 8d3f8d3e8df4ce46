//! The parser: cuts a format that reads into directives (C11 7.21.6.2). It is `const`, so that the compiler checks literal formats with
//! the very code that reads the others at run time.

use super::{ScanError, TargetKind, Why};

/// The highest width and number: `INT_MAX`.
const LIMIT: u32 = i32::MAX.cast_unsigned();

/// How wide the value is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// `hh`: one byte.
    Byte,
    /// `h`: two.
    Short,
    /// None: four, or a float.
    Int,
    /// `l`: eight, a double, or wide characters.
    Long,
    /// `ll`, `j`, `z`, `t`, `w64`: eight.
    Wide,
    /// `L`: a long double.
    LongDouble,
}

/// What a conversion reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Conversion {
    /// `d i u o x b`; a base of 0 is told by the prefix.
    Integer {
        base: u8,
        signed: bool,
    },
    Pointer,
    Real,
    Chars,
    Text,
    /// `[`: the bytes of the set are those of the format from `start` to `end`.
    Set {
        negated: bool,
        start: usize,
        end: usize,
    },
    /// `n`
    Count,
    Percent,
}

/// A conversion as the format has it.
#[derive(Clone, Copy)]
pub(super) struct Spec {
    /// The number before `$`; 0 if there is none.
    pub(super) number: u32,
    /// `*`: nothing is stored.
    pub(super) suppressed: bool,
    /// `m`: memory is allocated.
    pub(super) allocates: bool,
    /// The most bytes, or wide characters, of the field; 0 if the format does not say.
    pub(super) width: u32,
    pub(super) size: Size,
    pub(super) conversion: Conversion,
    /// Where the format goes on.
    pub(super) end: usize,
}

/// A part of a format.
#[derive(Clone, Copy)]
pub(super) enum Directive {
    /// White space: any amount, also none.
    Space,
    /// This byte.
    Byte(u8),
    Conversion(Spec),
}

impl Spec {
    /// Whether it takes a target.
    pub(super) const fn stores(self) -> bool {
        !self.suppressed && !matches!(self.conversion, Conversion::Percent)
    }
    /// Whether its characters are wide.
    pub(super) const fn is_wide(self) -> bool {
        matches!(self.size, Size::Long)
    }
    /// What C has its pointer point to, of a conversion that stores one value.
    pub(super) const fn kind(self) -> TargetKind {
        match (self.conversion, self.size) {
            _ if self.allocates => TargetKind::Pointer,
            (Conversion::Real, Size::Int) => TargetKind::Float,
            (Conversion::Real, Size::LongDouble) if cfg!(target_arch = "x86_64") => TargetKind::Extended,
            (Conversion::Real, _) => TargetKind::Double,
            (Conversion::Integer { .. } | Conversion::Count, Size::Byte) => TargetKind::Int8,
            (Conversion::Integer { .. } | Conversion::Count, Size::Short) => TargetKind::Int16,
            (Conversion::Integer { .. } | Conversion::Count, Size::Int) => TargetKind::Int32,
            (Conversion::Integer { .. } | Conversion::Count, _) => TargetKind::Int64,
            (Conversion::Pointer, _) => TargetKind::Pointer,
            _ => TargetKind::Text,
        }
    }
    /// Whether a target of this kind can take its value.
    pub(super) const fn accepts(self, kind: TargetKind) -> bool {
        if matches!(kind, TargetKind::Any) {
            return true;
        }
        if self.allocates {
            return matches!(kind, TargetKind::Pointer);
        }
        match self.conversion {
            Conversion::Integer { .. } | Conversion::Count => match self.size {
                Size::Byte => matches!(kind, TargetKind::Int8 | TargetKind::CBytes),
                Size::Short => matches!(kind, TargetKind::Int16),
                Size::Int => matches!(kind, TargetKind::Int32 | TargetKind::CWords),
                _ => matches!(kind, TargetKind::Int64),
            },
            Conversion::Pointer => matches!(kind, TargetKind::Pointer),
            Conversion::Real => match self.size {
                Size::Int => matches!(kind, TargetKind::Float),
                Size::Long => matches!(kind, TargetKind::Double),
                _ => matches!(kind, TargetKind::Double | TargetKind::Extended),
            },
            Conversion::Chars if self.is_wide() => {
                matches!(kind, TargetKind::Int32 | TargetKind::Wide | TargetKind::CWords)
            }
            Conversion::Chars => matches!(kind, TargetKind::Int8 | TargetKind::Text | TargetKind::CBytes),
            Conversion::Text | Conversion::Set { .. } if self.is_wide() => {
                matches!(kind, TargetKind::Wide | TargetKind::CWords)
            }
            Conversion::Text | Conversion::Set { .. } => {
                matches!(kind, TargetKind::Text | TargetKind::CBytes)
            }
            Conversion::Percent => true,
        }
    }
}

/// Whether a byte is white space in the C locale.
pub(super) const fn is_space(byte: u8) -> bool {
    byte == b' ' || (byte >= b'\t' && byte <= b'\r')
}

/// The byte at `at`; NUL after the end, which no directive accepts.
const fn byte(format: &[u8], at: usize) -> u8 {
    if at < format.len() { format[at] } else { 0 }
}

/// The directive at `at`, and where the next one begins; `None` at the end.
#[inline]
pub(super) const fn directive(format: &[u8], at: usize) -> Result<Option<(Directive, usize)>, ScanError> {
    if at >= format.len() {
        return Ok(None);
    }
    let first = byte(format, at);
    if is_space(first) {
        return Ok(Some((Directive::Space, at + 1)));
    }
    if first != b'%' {
        return Ok(Some((Directive::Byte(first), at + 1)));
    }
    match conversion(format, at + 1) {
        Ok(spec) => Ok(Some((Directive::Conversion(spec), spec.end))),
        Err(why) => Err(ScanError { offset: at, why }),
    }
}

/// Reads the conversion whose `%` is before `at`.
const fn conversion(format: &[u8], at: usize) -> Result<Spec, Why> {
    let mut at = at;
    let mut number = 0;
    let digits = at;
    let mut width = match amount(format, &mut at) {
        Ok(width) => width,
        Err(why) => return Err(why),
    };
    let mut suppressed = false;
    if byte(format, at) == b'$' && at > digits {
        if width == 0 {
            return Err(Why::Numbering);
        }
        number = width;
        at += 1;
    }
    if at == digits || number != 0 {
        // Each turn moves on by a byte.
        while matches!(byte(format, at), b'*' | b'\'') {
            suppressed |= byte(format, at) == b'*';
            at += 1;
        }
        width = match amount(format, &mut at) {
            Ok(width) => width,
            Err(why) => return Err(why),
        };
    }
    let allocates = byte(format, at) == b'm';
    at += allocates as usize;
    let size = match size(format, &mut at) {
        Ok(size) => size,
        Err(why) => return Err(why),
    };
    if at >= format.len() {
        return Err(Why::Unfinished);
    }
    let (conversion, wide) = match letter(format, &mut at) {
        Ok(found) => found,
        Err(why) => return Err(why),
    };
    let is_text = matches!(conversion, Conversion::Chars | Conversion::Text | Conversion::Set { .. });
    let fits = match size {
        Size::Int => true,
        Size::Byte | Size::Short | Size::Wide => {
            matches!(conversion, Conversion::Integer { .. } | Conversion::Count)
        }
        Size::Long => !wide && !matches!(conversion, Conversion::Pointer | Conversion::Percent),
        Size::LongDouble => matches!(conversion, Conversion::Real),
    };
    let numbered = number != 0 && (suppressed || matches!(conversion, Conversion::Percent));
    if !fits || (allocates && !is_text) || numbered {
        return Err(Why::Modifier);
    }
    let size = if wide { Size::Long } else { size };
    Ok(Spec { number, suppressed, allocates, width, size, conversion, end: at })
}

/// Reads the letter of a conversion, a `[` with its set, and moves `at` past it; whether the letter alone says that characters are wide.
const fn letter(format: &[u8], at: &mut usize) -> Result<(Conversion, bool), Why> {
    let letter = byte(format, *at);
    *at += 1;
    let conversion = match letter {
        b'd' => Conversion::Integer { base: 10, signed: true },
        b'i' => Conversion::Integer { base: 0, signed: true },
        b'u' => Conversion::Integer { base: 10, signed: false },
        b'o' => Conversion::Integer { base: 8, signed: false },
        b'x' | b'X' => Conversion::Integer { base: 16, signed: false },
        b'b' => Conversion::Integer { base: 2, signed: false },
        b'p' => Conversion::Pointer,
        b'a' | b'A' | b'e' | b'E' | b'f' | b'F' | b'g' | b'G' => Conversion::Real,
        b'c' | b'C' => Conversion::Chars,
        b's' | b'S' => Conversion::Text,
        b'[' => {
            let negated = byte(format, *at) == b'^';
            *at += negated as usize;
            let start = *at;
            // A bracket that comes first is of the set.
            *at += (byte(format, *at) == b']') as usize;
            while *at < format.len() && byte(format, *at) != b']' {
                *at += 1;
            }
            if *at >= format.len() {
                return Err(Why::Unfinished);
            }
            *at += 1;
            Conversion::Set { negated, start, end: *at - 1 }
        }
        b'n' => Conversion::Count,
        b'%' => Conversion::Percent,
        _ => return Err(Why::Unknown),
    };
    Ok((conversion, matches!(letter, b'C' | b'S')))
}

/// Reads a number, or nothing, which is 0, and moves `at` past it.
const fn amount(format: &[u8], at: &mut usize) -> Result<u32, Why> {
    let mut value: u32 = 0;
    while byte(format, *at).is_ascii_digit() {
        value = value.saturating_mul(10).saturating_add((byte(format, *at) - b'0') as u32);
        *at += 1;
    }
    if value > LIMIT { Err(Why::Overflow) } else { Ok(value) }
}

/// Reads a length modifier, if there is one, and moves `at` past it.
const fn size(format: &[u8], at: &mut usize) -> Result<Size, Why> {
    let (size, bytes) = match (byte(format, *at), byte(format, *at + 1)) {
        (b'h', b'h') => (Size::Byte, 2),
        (b'h', _) => (Size::Short, 1),
        (b'l', b'l') => (Size::Wide, 2),
        (b'l', _) => (Size::Long, 1),
        (b'j' | b'z' | b't', _) => (Size::Wide, 1),
        (b'L', _) => (Size::LongDouble, 1),
        (b'w', next) => {
            *at += 1 + (next == b'f') as usize;
            return match amount(format, at) {
                Ok(8) => Ok(Size::Byte),
                // The fast types of Linux on 64 bits are words.
                Ok(16 | 32) if next == b'f' => Ok(Size::Wide),
                Ok(16) => Ok(Size::Short),
                Ok(32) => Ok(Size::Int),
                Ok(64) => Ok(Size::Wide),
                _ => Err(Why::Modifier),
            };
        }
        _ => (Size::Int, 0),
    };
    *at += bytes;
    Ok(size)
}
