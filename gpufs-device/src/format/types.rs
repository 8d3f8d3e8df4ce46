//! The types of the arguments that a format takes, in order: what `va_arg` of C is asked for.

use super::order::Order;
use super::parse::{Amount, Conversion, Length, Section, complete_section};
use super::{FormatError, What};

/// The type of an argument as C passes it through `...`, and what a pointer points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Passed {
    /// Of no conversion: a gap between numbers. glibc takes it for an `int`.
    Gap = 0,
    /// `int`, or `wint_t`.
    Int = 1,
    /// 64 bits.
    Long = 2,
    /// `double`.
    Double = 3,
    /// `long double`.
    LongDouble = 4,
    /// `void *`.
    Pointer = 5,
    /// `char *`.
    Text = 6,
    /// `wchar_t *`.
    Wide = 7,
    /// A pointer to an integer that `%n` sets: of 8 bits.
    Place8 = 8,
    /// Of 16 bits.
    Place16 = 9,
    /// Of 32 bits.
    Place32 = 10,
    /// Of 64 bits.
    Place64 = 11,
    /// `unsigned int`.
    UnsignedInt = 12,
    /// 64 bits, unsigned.
    UnsignedLong = 13,
}

impl Passed {
    const fn of(conversion: Conversion, length: Length) -> Self {
        match (conversion, length) {
            (Conversion::Place, Length::Char) => Self::Place8,
            (Conversion::Place, Length::Short) => Self::Place16,
            (Conversion::Place, Length::Int) => Self::Place32,
            (Conversion::Place, _) => Self::Place64,
            (Conversion::Decimal, Length::Long | Length::Wide | Length::LongDouble) => Self::Long,
            (Conversion::Unsigned(_), Length::Long | Length::Wide | Length::LongDouble) => Self::UnsignedLong,
            (Conversion::Unsigned(_), _) => Self::UnsignedInt,
            (Conversion::Decimal | Conversion::Char | Conversion::WideChar, _) => Self::Int,
            (Conversion::Text, _) => Self::Text,
            (Conversion::WideText, _) => Self::Wide,
            (Conversion::Pointer, _) => Self::Pointer,
            (
                Conversion::Fixed | Conversion::Exponent | Conversion::General | Conversion::Hexadecimal,
                Length::LongDouble,
            ) => Self::LongDouble,
            (Conversion::Fixed | Conversion::Exponent | Conversion::General | Conversion::Hexadecimal, _) => {
                Self::Double
            }
            (Conversion::Percent | Conversion::Message, _) => Self::Gap,
        }
    }
    /// The type of an argument that two conversions take.
    ///
    /// # Errors
    /// [`What::Conflict`], where C passes them in different ways or they point to different things.
    fn with(self, other: Self) -> Result<Self, What> {
        let is_address = |passed: Self| matches!(passed as u8, 5..=11);
        match (self, other) {
            (Self::Gap, passed) | (passed, Self::Gap) => Ok(passed),
            (Self::Int | Self::UnsignedInt, Self::Int | Self::UnsignedInt)
            | (Self::Long | Self::UnsignedLong, Self::Long | Self::UnsignedLong) => Ok(self),
            (Self::Pointer, passed) | (passed, Self::Pointer) if is_address(passed) => Ok(passed),
            _ if self == other => Ok(self),
            _ => Err(What::Conflict),
        }
    }
}

/// Writes the types of the arguments of a format to `types`, and returns how many there are. `%m` takes none.
///
/// # Errors
/// What is wrong with the format. [`What::TooMany`], if `types` is too short.
#[cold]
#[inline(never)]
pub fn argument_types(format: &[u8], types: &mut [Passed]) -> Result<usize, FormatError> {
    types.fill(Passed::Gap);
    let mut order = Order::START;
    let mut at = 0;
    // Ends: a section is not empty.
    loop {
        let (section, numbers) = complete_section(format, at)?;
        let spec = match section {
            Section::End => return Ok(order.count()),
            Section::Literal { end } => {
                at = end;
                continue;
            }
            Section::Conversion(spec) => spec,
        };
        let mut note = |number, passed: Passed| {
            let place = types.get_mut(order.take(number)?).ok_or(What::TooMany)?;
            *place = place.with(passed)?;
            Ok(())
        };
        let error = |what| FormatError { offset: at, what };
        if matches!(spec.width, Amount::Argument) {
            note(numbers.width, Passed::Int).map_err(error)?;
        }
        if matches!(spec.precision, Amount::Argument) {
            note(numbers.precision, Passed::Int).map_err(error)?;
        }
        let passed = Passed::of(spec.conversion, spec.length);
        if passed != Passed::Gap {
            note(numbers.argument, passed).map_err(error)?;
        }
        at = spec.end;
    }
}
