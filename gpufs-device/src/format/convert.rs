//! The converter: walks a format with its arguments, and hands each conversion to the file that prints it.
//!
//! Two walks: the first finds every error there can be and bounds the length, the second writes. So a call that fails has written
//! nothing.

use super::parse::{Amount, Conversion, Flags, LIMIT, Length, Section, Spec, section};
use super::sink::{CountSink, Output, Sink};
use super::{Argument, FormatError, Kind, What, float, integer, text};

/// A conversion with its `*` filled in.
#[derive(Clone, Copy)]
pub(super) struct Directive {
    pub(super) flags: Flags,
    pub(super) width: u32,
    pub(super) precision: Option<u32>,
    pub(super) length: Length,
    pub(super) conversion: Conversion,
    pub(super) upper: bool,
}

impl Directive {
    /// Begins a field of `prefix` and `body` bytes: writes the padding that comes first and the prefix, and returns how many
    /// spaces [`Output::fill`] owes after the body. Where `zero_padded`, the `0` flag pads between prefix and body.
    #[inline]
    pub(super) fn open<S: Sink + ?Sized>(
        &self,
        output: &mut Output<'_, S>,
        prefix: &[u8],
        body: u64,
        zero_padded: bool,
    ) -> u64 {
        let padding = u64::from(self.width).saturating_sub(prefix.len() as u64 + body);
        if self.flags.has(Flags::LEFT) {
            output.write(prefix);
            return padding;
        }
        if zero_padded && self.flags.has(Flags::ZERO) {
            output.write(prefix);
            output.fill(b'0', padding);
        } else {
            output.fill(b' ', padding);
            output.write(prefix);
        }
        0
    }
    /// A whole field of `body`, padded with spaces.
    #[inline]
    pub(super) fn field<S: Sink + ?Sized>(&self, output: &mut Output<'_, S>, body: &[u8]) {
        let trailing = self.open(output, b"", body.len() as u64, false);
        output.write(body);
        output.fill(b' ', trailing);
    }
    /// The sign of a number, if it gets one.
    #[inline]
    pub(super) const fn sign(&self, negative: bool) -> Option<u8> {
        if negative {
            Some(b'-')
        } else if self.flags.has(Flags::SIGN) {
            Some(b'+')
        } else if self.flags.has(Flags::SPACE) {
            Some(b' ')
        } else {
            None
        }
    }
    /// A number of bytes that the conversion of `argument` does not exceed.
    fn bound(&self, argument: Option<Argument<'_>>) -> u64 {
        let precision = u64::from(self.precision.unwrap_or(0));
        let body = match self.conversion {
            Conversion::Text => argument.map_or(0, |argument| text::length(self, argument)),
            // Sign, prefix, 64 binary digits.
            Conversion::Decimal | Conversion::Unsigned(_) | Conversion::Pointer => precision.max(64) + 3,
            // Sign, prefix, 309 digits, point, exponent, and the default precision.
            Conversion::Fixed | Conversion::Exponent | Conversion::General | Conversion::Hexadecimal => {
                precision + 330
            }
            Conversion::Char | Conversion::Percent => 4,
        };
        body.max(u64::from(self.width))
    }
}

/// A piece of output in the making.
enum Piece<'a> {
    Literal(&'a [u8]),
    Conversion(Directive, Option<Argument<'a>>),
}

/// The arguments not yet used.
struct Rest<'a, 'b> {
    arguments: &'b [Argument<'a>],
    next: usize,
}

impl<'a> Rest<'a, '_> {
    /// The next argument, if `accepts` takes its kind.
    #[inline]
    fn take(&mut self, accepts: impl FnOnce(Kind) -> bool) -> Result<Argument<'a>, What> {
        let index = self.next;
        let Some(argument) = self.arguments.get(index) else {
            return Err(What::Missing { argument: index });
        };
        if !accepts(argument.kind()) {
            return Err(What::Mismatch { argument: index, kind: argument.kind() });
        }
        self.next += 1;
        Ok(*argument)
    }
    /// The `int` for a `*`.
    #[inline]
    fn star(&mut self) -> Result<i32, What> {
        Ok(self.take(star_accepts)?.bits() as i32)
    }
    /// Fills in the stars of `spec` and takes its argument.
    #[inline]
    fn resolve(&mut self, spec: Spec) -> Result<(Directive, Option<Argument<'a>>), What> {
        let Spec { mut flags, length, conversion, upper, .. } = spec;
        let width = match spec.width {
            Amount::None => 0,
            Amount::Fixed(width) => width,
            Amount::Argument => {
                let width = self.star()?;
                // A negative width is the flag `-` and a width.
                if width < 0 {
                    flags = flags.with(Flags::LEFT);
                }
                width.unsigned_abs()
            }
        };
        if width > LIMIT {
            return Err(What::Overflow);
        }
        let precision = match spec.precision {
            Amount::None => None,
            Amount::Fixed(precision) => Some(precision),
            // A negative precision is none.
            Amount::Argument => u32::try_from(self.star()?).ok(),
        };
        let argument = match conversion {
            Conversion::Percent => None,
            _ => Some(self.take(|kind| conversion.accepts(kind))?),
        };
        Ok((Directive { flags, width, precision, length, conversion, upper }, argument))
    }
}

/// Whether a `*` takes an argument of this kind.
pub(super) const fn star_accepts(kind: Kind) -> bool {
    matches!(kind, Kind::Signed | Kind::Unsigned)
}

/// Calls `each` for each piece in order, up to the first error.
#[inline]
fn walk<'a>(
    format: &'a [u8],
    arguments: &[Argument<'a>],
    mut each: impl FnMut(Piece<'a>),
) -> Result<(), FormatError> {
    let mut rest = Rest { arguments, next: 0 };
    let mut at = 0;
    // Ends: a section is not empty.
    loop {
        match section(format, at)? {
            Section::End => return Ok(()),
            Section::Literal { end } => {
                each(Piece::Literal(format.get(at..end).unwrap_or_default()));
                at = end;
            }
            Section::Conversion(spec) => {
                let (directive, argument) =
                    rest.resolve(spec).map_err(|what| FormatError { offset: at, what })?;
                each(Piece::Conversion(directive, argument));
                at = spec.end;
            }
        }
    }
}

/// Checks everything, and returns a length that the output does not exceed.
fn bound(format: &[u8], arguments: &[Argument<'_>]) -> Result<u64, FormatError> {
    let mut bound: u64 = 0;
    walk(format, arguments, |piece| {
        bound += match piece {
            Piece::Literal(text) => text.len() as u64,
            Piece::Conversion(directive, argument) => directive.bound(argument),
        };
    })?;
    Ok(bound)
}

/// Writes the output, and returns its length.
fn write<S: Sink + ?Sized>(
    sink: &mut S,
    format: &[u8],
    arguments: &[Argument<'_>],
) -> Result<u64, FormatError> {
    let mut output = Output::new(sink);
    walk(format, arguments, |piece| match piece {
        Piece::Literal(text) => output.write(text),
        Piece::Conversion(directive, argument) => convert(&mut output, &directive, argument),
    })?;
    Ok(output.count())
}

/// Writes one conversion.
#[inline]
fn convert<S: Sink + ?Sized>(
    output: &mut Output<'_, S>,
    directive: &Directive,
    argument: Option<Argument<'_>>,
) {
    let Some(argument) = argument else {
        // glibc ignores flags, width and precision here; C leaves them undefined.
        return output.write(b"%");
    };
    match directive.conversion {
        Conversion::Decimal => integer::signed(output, directive, argument.bits()),
        Conversion::Unsigned(base) => integer::unsigned(output, directive, base, argument.bits()),
        Conversion::Pointer => integer::pointer(output, directive, argument.bits()),
        Conversion::Char => text::char(output, directive, argument),
        Conversion::Text => text::text(output, directive, argument),
        Conversion::Hexadecimal => float::hexadecimal(output, directive, f64::from_bits(argument.bits())),
        Conversion::Fixed | Conversion::Exponent | Conversion::General => {
            float::decimal(output, directive, f64::from_bits(argument.bits()));
        }
        Conversion::Percent => {}
    }
}

/// Prints `arguments` into `sink` as C's `printf` prints them (C11 7.21.6.1), and returns the number of bytes.
///
/// Arguments that no conversion uses are ignored, as in C.
///
/// # Errors
/// A [`FormatError`]: then nothing was written. The length of the whole output counts too: above `i32::MAX` it is an error, as in
/// glibc.
pub fn format<S: Sink + ?Sized>(
    sink: &mut S,
    format: &[u8],
    arguments: &[Argument<'_>],
) -> Result<u64, FormatError> {
    let limit = u64::from(LIMIT);
    // The bound is far from the limit unless a width, a precision or a string is huge; then the output is counted first.
    if bound(format, arguments)? > limit && write(&mut CountSink::new(), format, arguments)? > limit {
        return Err(FormatError { offset: format.len(), what: What::Overflow });
    }
    write(sink, format, arguments)
}
