//! Formats that are not plain: with numbered arguments, `%m`, `%n`, wide characters, `w`; those whose output may be too long; and what is wrong
//! with a format.
//!
//! [`super::convert`] prints plain formats, and leaves every other to [`format`] here as a whole. That is a function of its own, with its own sink
//! ([`Apart`]) and so with its own copy of what prints a conversion: the code for plain formats is what it would be without this file.

use gpufs_core::Errno;

use super::convert::{Directive, amounts, convert, star_accepts};
use super::order::Order;
use super::parse::{Amount, Conversion, Flags, LIMIT, Length, Numbers, Section, Spec, complete_section};
use super::sink::{Output, Sink};
use super::{Argument, FormatError, Kind, SliceSink, What, WindowSink, integer, wide};

/// Where the output goes: nowhere, while it is counted, or to the caller's sink.
enum Apart<'a, S: ?Sized> {
    Nowhere,
    Sink(&'a mut S),
}

impl<S: Sink + ?Sized> Sink for Apart<'_, S> {
    #[inline(never)]
    fn write(&mut self, bytes: &[u8]) {
        if let Self::Sink(sink) = self {
            sink.write(bytes);
        }
    }
    #[inline(never)]
    fn fill(&mut self, byte: u8, count: usize) {
        if let Self::Sink(sink) = self {
            sink.fill(byte, count);
        }
    }
}

/// The arguments, and `errno`, which `%m` takes where its argument is none.
#[derive(Clone, Copy)]
struct Given<'a, 'b> {
    arguments: &'b [Argument<'a>],
    order: Order,
    errno: Option<i32>,
}

impl<'a> Given<'a, '_> {
    /// The next argument, or the one with this number, if `takes` its kind.
    fn take(&mut self, number: u32, takes: impl FnOnce(Kind) -> bool) -> Result<Argument<'a>, What> {
        let index = self.order.take(number)?;
        let Some(argument) = self.arguments.get(index) else {
            return Err(What::Missing { argument: index });
        };
        if !takes(argument.kind()) {
            return Err(What::Mismatch { argument: index, kind: argument.kind() });
        }
        Ok(*argument)
    }
    /// The `int` for a `*`.
    fn star(&mut self, amount: Amount, number: u32) -> Result<Option<i32>, What> {
        match amount {
            Amount::Argument => Ok(Some(self.take(number, star_accepts)?.bits() as i32)),
            _ => Ok(None),
        }
    }
    /// What `%m` prints: an argument that is an error number, else `errno`.
    fn error(&mut self, number: u32) -> Result<Argument<'a>, What> {
        let mut ahead = self.order;
        let next = ahead.take(number).ok().and_then(|index| self.arguments.get(index));
        if next.is_none_or(|next| next.kind() != Kind::Error)
            && let Some(errno) = self.errno
        {
            return Ok(Argument::error(errno));
        }
        self.take(number, |kind| kind == Kind::Error)
    }
    fn resolve(&mut self, spec: Spec, numbers: Numbers) -> Result<(Directive, Option<Argument<'a>>), What> {
        let width = self.star(spec.width, numbers.width)?;
        let precision = self.star(spec.precision, numbers.precision)?;
        let directive = amounts(spec, width, precision)?;
        let argument = match spec.conversion {
            Conversion::Percent => None,
            Conversion::Message => Some(self.error(numbers.argument)?),
            conversion => Some(self.take(numbers.argument, |kind| conversion.takes(kind))?),
        };
        if let Some(argument) = argument {
            check(&directive, argument)?;
        }
        Ok((directive, argument))
    }
}

/// Prints any format, as [`super::format_with`] says.
///
/// The first walk finds every error there can be and counts, the second writes. So a call that fails has written and stored nothing.
#[cold]
#[inline(never)]
pub(super) fn format<S: Sink + ?Sized>(
    sink: &mut S,
    format: &[u8],
    arguments: &[Argument<'_>],
    errno: Option<i32>,
) -> Result<u64, FormatError> {
    let given = Given { arguments, order: Order::START, errno };
    let mut to = Apart::Nowhere;
    // Twice, or once.
    loop {
        let bytes = print(&mut to, format, given)?;
        match to {
            Apart::Sink(_) => return Ok(bytes),
            Apart::Nowhere if bytes > u64::from(LIMIT) => {
                return Err(FormatError { offset: format.len(), what: What::Overflow });
            }
            Apart::Nowhere => {}
        }
        to = Apart::Sink(&mut *sink);
    }
}

/// Prints again what [`super::format_scratch`] printed, from where `window` begins. A `%n` stores again what it stored.
#[cold]
#[inline(never)]
pub(crate) fn format_again(
    window: &mut WindowSink<'_>,
    format: &[u8],
    arguments: &[Argument<'_>],
    errno: Option<i32>,
) {
    // It did not fail the first time.
    let _ = print(&mut Apart::Sink(window), format, Given { arguments, order: Order::START, errno });
}

/// Prints to a sink, or counts: how many bytes.
#[inline(never)]
fn print<S: Sink + ?Sized>(
    to: &mut Apart<'_, S>,
    format: &[u8],
    mut given: Given<'_, '_>,
) -> Result<u64, FormatError> {
    let stores = matches!(to, Apart::Sink(_));
    let mut output = Output::new(to);
    let mut at = 0;
    // Ends: a section is not empty.
    loop {
        at = match complete_section(format, at)? {
            (Section::End, _) => return Ok(output.count()),
            (Section::Literal { end }, _) => {
                output.write(format.get(at..end).unwrap_or_default());
                end
            }
            (Section::Conversion(spec), numbers) => {
                let (directive, argument) =
                    given.resolve(spec, numbers).map_err(|what| FormatError { offset: at, what })?;
                write(&mut output, &directive, argument, stores);
                spec.end
            }
        };
    }
}

/// Checks what an argument's kind does not say.
fn check(directive: &Directive, argument: Argument<'_>) -> Result<(), What> {
    match directive.conversion {
        Conversion::WideChar => wide::char_length(argument).map(|_| ()),
        Conversion::WideText => wide::text_length(directive, argument).map(|_| ()),
        Conversion::Place => place(directive, argument).map(|_| ()),
        _ => Ok(()),
    }
}

/// Checks the argument of `%n`, and returns the bytes of its integer.
fn place(directive: &Directive, argument: Argument<'_>) -> Result<u32, What> {
    let bytes = match directive.length {
        Length::Char => 1,
        Length::Short => 2,
        Length::Int => 4,
        Length::Long | Length::Wide | Length::LongDouble => 8,
    };
    if argument.bits() == 0 {
        return Err(What::Null);
    }
    if argument.length() != bytes {
        return Err(What::Modifier);
    }
    Ok(bytes)
}

/// `%n`: stores how many bytes came before.
fn store(directive: &Directive, argument: Argument<'_>, count: u64) {
    let Ok(bytes) = place(directive, argument) else { return };
    let to: *mut u8 = core::ptr::with_exposed_provenance_mut(argument.bits() as usize);
    // SAFETY:
    // - not null, and an integer of so many bytes, as `place` checked; there and used by nothing else, by the promise of `Argument::place` or of
    //   C's caller
    // - the low bytes of a number of 8 come first, on every target
    #[expect(unsafe_code, reason = "%n stores where C says")]
    unsafe {
        core::ptr::copy_nonoverlapping(count.to_le_bytes().as_ptr(), to, bytes as usize);
    }
}

/// Writes `Unknown error` or nothing, and a number.
fn number<'a>(buffer: &'a mut [u8; 32], before: &[u8], number: i32) -> &'a [u8] {
    let mut sink = SliceSink::new(buffer);
    let mut apart = Apart::Sink(&mut sink);
    let mut output = Output::new(&mut apart);
    output.write(before);
    let plain = Directive {
        flags: Flags::NONE,
        width: 0,
        precision: None,
        length: Length::Int,
        conversion: Conversion::Decimal,
        upper: false,
    };
    integer::signed(&mut output, &plain, i64::from(number).cast_unsigned());
    let kept = sink.kept();
    buffer.get(..kept).unwrap_or_default()
}

/// `%m`: the text of an error number, as `strerror(3)`; `%#m` its name, as glibc has it.
fn message<S: Sink + ?Sized>(output: &mut Output<'_, S>, directive: &Directive, argument: Argument<'_>) {
    let errno = argument.bits() as i32;
    let known = Errno::known(errno);
    let mut buffer = [0; 32];
    let text = match known {
        Some(known) if directive.flags.has(Flags::ALTERNATE) => known.name().unwrap_or_default().as_bytes(),
        Some(known) => known.text().as_bytes(),
        None if directive.flags.has(Flags::ALTERNATE) => number(&mut buffer, b"", errno),
        None if errno == 0 => b"Success",
        None => number(&mut buffer, b"Unknown error ", errno),
    };
    let limit = directive.precision.map_or(text.len(), |precision| text.len().min(precision as usize));
    directive.field(output, text.get(..limit).unwrap_or_default());
}

/// Writes one conversion. `%n` stores where `stores`.
fn write<S: Sink + ?Sized>(
    output: &mut Output<'_, S>,
    directive: &Directive,
    argument: Option<Argument<'_>>,
    stores: bool,
) {
    match (directive.conversion, argument) {
        (Conversion::WideChar, Some(argument)) => wide::char(output, directive, argument),
        (Conversion::WideText, Some(argument)) => wide::text(output, directive, argument),
        (Conversion::Message, Some(argument)) => message(output, directive, argument),
        (Conversion::Place, Some(argument)) if stores => store(directive, argument, output.count()),
        (Conversion::Place, _) => {}
        _ => convert(output, directive, argument),
    }
}
