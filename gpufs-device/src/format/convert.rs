//! The converter: walks a plain format with its arguments, and hands each conversion to the file that prints it. Any other format, and one
//! that cannot be printed, it leaves to [`complete`] as a whole.
//!
//! Two walks: the first finds what is not plain and bounds the length, the second writes. So a call that fails has written nothing.

use super::parse::{Amount, Conversion, Flags, LIMIT, Length, Section, Spec, section};
use super::sink::{Output, Sink};
use super::{Argument, FormatError, Kind, SliceSink, What, WindowSink, complete, float, integer, text};

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
            // Not in plain formats.
            Conversion::WideChar | Conversion::WideText | Conversion::Message | Conversion::Place => 0,
        };
        body.max(u64::from(self.width))
    }
}

/// The format is for [`complete`], which also says what is wrong with it.
struct NotPlain;

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
    fn take(&mut self, accepts: impl FnOnce(Kind) -> bool) -> Result<Argument<'a>, NotPlain> {
        let argument = self.arguments.get(self.next).ok_or(NotPlain)?;
        if !accepts(argument.kind()) {
            return Err(NotPlain);
        }
        self.next += 1;
        Ok(*argument)
    }
    /// The `int` for a `*`.
    #[inline]
    fn star(&mut self, amount: Amount) -> Result<Option<i32>, NotPlain> {
        match amount {
            Amount::Argument => Ok(Some(self.take(star_accepts)?.bits() as i32)),
            _ => Ok(None),
        }
    }
    /// Fills in the stars of `spec` and takes its argument.
    #[inline]
    fn resolve(&mut self, spec: Spec) -> Result<(Directive, Option<Argument<'a>>), NotPlain> {
        let width = self.star(spec.width)?;
        let precision = self.star(spec.precision)?;
        let directive = amounts(spec, width, precision).map_err(|_| NotPlain)?;
        let argument = match spec.conversion {
            Conversion::Percent => None,
            conversion => Some(self.take(|kind| conversion.accepts(kind))?),
        };
        Ok((directive, argument))
    }
}

/// A conversion with the values of its stars filled in.
///
/// # Errors
/// [`What::Overflow`].
#[inline]
pub(super) const fn amounts(
    spec: Spec,
    width_star: Option<i32>,
    precision_star: Option<i32>,
) -> Result<Directive, What> {
    let Spec { mut flags, length, conversion, upper, .. } = spec;
    let width = match (width_star, spec.width) {
        (Some(width), _) => {
            // A negative width is the flag `-` and a width.
            if width < 0 {
                flags = flags.with(Flags::LEFT);
            }
            width.unsigned_abs()
        }
        (None, Amount::Fixed(width)) => width,
        (None, _) => 0,
    };
    if width > LIMIT {
        return Err(What::Overflow);
    }
    let precision = match (precision_star, spec.precision) {
        // A negative precision is none.
        (Some(..0), _) => None,
        (Some(precision), _) => Some(precision.unsigned_abs()),
        (None, Amount::Fixed(precision)) => Some(precision),
        (None, _) => None,
    };
    Ok(Directive { flags, width, precision, length, conversion, upper })
}

/// Whether a `*` takes an argument of this kind.
pub(super) const fn star_accepts(kind: Kind) -> bool {
    matches!(kind, Kind::Signed | Kind::Unsigned)
}

/// Calls `each` for each piece in order, up to the first that is not plain.
#[inline]
fn walk<'a>(
    format: &'a [u8],
    arguments: &[Argument<'a>],
    mut each: impl FnMut(Piece<'a>),
) -> Result<(), NotPlain> {
    let mut rest = Rest { arguments, next: 0 };
    let mut at = 0;
    // Ends: a section is not empty.
    loop {
        match section(format, at).map_err(|_| NotPlain)? {
            Section::End => return Ok(()),
            Section::Literal { end } => {
                each(Piece::Literal(format.get(at..end).unwrap_or_default()));
                at = end;
            }
            Section::Conversion(spec) => {
                let (directive, argument) = rest.resolve(spec)?;
                each(Piece::Conversion(directive, argument));
                at = spec.end;
            }
        }
    }
}

/// Checks everything, and returns a length that the output does not exceed.
fn bound(format: &[u8], arguments: &[Argument<'_>]) -> Result<u64, NotPlain> {
    let mut bound: u64 = 0;
    walk(format, arguments, |piece| {
        bound += match piece {
            Piece::Literal(text) => text.len() as u64,
            Piece::Conversion(directive, argument) => directive.bound(argument),
        };
    })?;
    Ok(bound)
}

/// Writes the output of a plain format, and returns its length.
fn write<S: Sink + ?Sized>(sink: &mut S, format: &[u8], arguments: &[Argument<'_>]) -> u64 {
    let mut output = Output::new(sink);
    // `bound` has found it plain. Where another thread changes it meanwhile, the output ends early.
    let _ = walk(format, arguments, |piece| match piece {
        Piece::Literal(text) => output.write(text),
        Piece::Conversion(directive, argument) => convert(&mut output, &directive, argument),
    });
    output.count()
}

/// Writes one conversion of those that plain formats have.
#[inline]
pub(super) fn convert<S: Sink + ?Sized>(
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
        Conversion::Percent
        | Conversion::WideChar
        | Conversion::WideText
        | Conversion::Message
        | Conversion::Place => {}
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
    format_with(sink, format, arguments, || None)
}

/// [`format()`] where there is an `errno`: `errno()` is what `%m` prints if its argument is no [`Kind::Error`].
///
/// # Errors
/// As [`format()`].
pub fn format_with<S: Sink + ?Sized>(
    sink: &mut S,
    format: &[u8],
    arguments: &[Argument<'_>],
    errno: impl Fn() -> Option<i32>,
) -> Result<u64, FormatError> {
    match bound(format, arguments) {
        Ok(bytes) if bytes <= u64::from(LIMIT) => Ok(write(sink, format, arguments)),
        // Where the bound is that far, a width, a precision or a string is huge: it is counted first there.
        _ => complete::format(sink, format, arguments, errno()),
    }
}

/// [`format_with`] into a lane's scratch memory: prints what fits, and returns the whole length. The one way of a stream's records, where it
/// is plain; else, and where a record is longer ([`complete::format_again`]), there is one more for all, which takes no registers of this one.
///
/// # Errors
/// As [`format()`].
pub(crate) fn format_scratch(
    scratch: &mut [u8],
    format: &[u8],
    arguments: &[Argument<'_>],
    errno: impl Fn() -> Option<i32>,
) -> Result<u64, FormatError> {
    match bound(format, arguments) {
        Ok(bytes) if bytes <= u64::from(LIMIT) => Ok(write(&mut SliceSink::new(scratch), format, arguments)),
        _ => complete::format(&mut WindowSink::new(scratch, 0), format, arguments, errno()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Argument, What, format_scratch};

    #[test]
    fn a_record_is_as_long_as_an_int_counts_at_most() {
        let mut scratch = *b"kept";
        let one = [Argument::from(1)];
        let mut print = |format: &[u8]| format_scratch(&mut scratch, format, &one, || None);
        assert_eq!(print(b"%2147483647dx").map_err(|error| error.what), Err(What::Overflow));
        assert_eq!(print(b"%2147483647d"), Ok(0x7fff_ffff));
        assert_eq!(print(b"%2d"), Ok(2));
        assert_eq!(&scratch, b" 1  ");
    }
}
