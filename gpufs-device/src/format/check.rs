//! The compiler's half: formats that are literals are checked with the types of their arguments before anything runs.

use super::argument::Arguments;
use super::convert::star_accepts;
use super::order::Order;
use super::parse::{Amount, Conversion, Section, complete_section};
use super::{FormatError, Kind, What};

/// Checks a format against the kinds of its arguments: how many of them it takes, up to the last. The others are ignored (C11 7.21.6.1, 2).
///
/// # Errors
/// The first thing that is wrong, from left to right.
pub const fn check(format: &[u8], kinds: &[Kind]) -> Result<usize, FormatError> {
    match taken(format, Some(kinds)) {
        Ok(order) => Ok(order.count()),
        Err(error) => Err(error),
    }
}

/// Whether a format takes so many arguments at least, of whatever kinds; also where it is none.
#[must_use]
pub const fn takes_all(format: &[u8], count: usize) -> bool {
    match taken(format, None) {
        Ok(order) => order.count() >= count,
        Err(_) => true,
    }
}

/// Which arguments a format takes. Without `kinds`, of whatever kinds.
const fn taken(format: &[u8], kinds: Option<&[Kind]>) -> Result<Order, FormatError> {
    let mut order = Order::START;
    let mut at = 0;
    // Ends: a section is not empty.
    loop {
        match complete_section(format, at) {
            Err(error) => return Err(error),
            Ok((Section::End, _)) => return Ok(order),
            Ok((Section::Literal { end }, _)) => at = end,
            Ok((Section::Conversion(spec), numbers)) => {
                // What each argument goes to, a `*` or the conversion.
                let uses = [
                    if matches!(spec.width, Amount::Argument) { Use::Star } else { Use::Nothing },
                    if matches!(spec.precision, Amount::Argument) { Use::Star } else { Use::Nothing },
                    Use::Conversion(spec.conversion),
                ];
                let numbers = [numbers.width, numbers.precision, numbers.argument];
                let mut index = 0;
                while index < uses.len() {
                    if let Err(what) = uses[index].take(kinds, &mut order, numbers[index]) {
                        return Err(FormatError { offset: at, what });
                    }
                    index += 1;
                }
                at = spec.end;
            }
        }
    }
}

/// Has the compiler warn where `ALL` is false: where a literal format does not take all of its arguments.
#[derive(Debug)]
pub struct TakesAll<const ALL: bool>;

impl TakesAll<true> {
    /// Nothing to say.
    pub const CHECK: () = ();
}

impl TakesAll<false> {
    /// The warning.
    #[deprecated(
        note = "the format has fewer conversions than there are arguments; the others are evaluated and ignored"
    )]
    pub const CHECK: () = ();
}

/// What an argument is for.
#[derive(Clone, Copy)]
enum Use {
    Nothing,
    Star,
    Conversion(Conversion),
}

impl Use {
    /// Takes the argument that this is for.
    const fn take(self, kinds: Option<&[Kind]>, order: &mut Order, number: u32) -> Result<(), What> {
        if matches!(self, Self::Nothing | Self::Conversion(Conversion::Percent)) {
            return Ok(());
        }
        let argument = match order.take(number) {
            Ok(argument) => argument,
            Err(what) => return Err(what),
        };
        let Some(kinds) = kinds else {
            return Ok(());
        };
        if argument >= kinds.len() {
            return Err(What::Missing { argument });
        }
        let kind = kinds[argument];
        let fits = match self {
            Self::Conversion(conversion) => conversion.takes(kind),
            _ => star_accepts(kind),
        };
        if fits { Ok(()) } else { Err(What::Mismatch { argument, kind }) }
    }
}

/// A format known to the compiler. [`format_arguments!`](crate::format_arguments) implements it for each literal.
pub trait Literal {
    /// The format, without the terminating NUL.
    const BYTES: &'static [u8];
}

/// A format and its arguments, which the compiler has found to fit each other. It does not compile where they do not.
#[inline]
#[must_use]
pub fn checked<'a, L: Literal, A: Arguments<'a>>(_literal: L, arguments: A) -> (&'static [u8], A::Array) {
    const { assert_fits(L::BYTES, A::KINDS) };
    (L::BYTES, arguments.array())
}

/// Panics, in the compiler, where [`check`] finds something wrong.
const fn assert_fits(format: &[u8], kinds: &[Kind]) {
    if let Err(error) = check(format, kinds) {
        let message = Message::new(error, format);
        panic!("{}", message.as_str());
    }
}

/// A message put together by the compiler.
struct Message {
    bytes: [u8; 160],
    length: usize,
}

impl Message {
    const fn new(error: FormatError, format: &[u8]) -> Self {
        let message = Self { bytes: [0; 160], length: 0 }.text(error.what.text());
        let message = match error.what {
            What::Mismatch { argument, kind } => {
                message.text(": argument ").number(argument + 1).text(" is ").text(kind.name())
            }
            What::Missing { argument } => {
                message.text(": argument ").number(argument + 1).text(" is missing")
            }
            _ => message,
        };
        if error.offset >= format.len() {
            return message;
        }
        // The conversion, or what there is of it.
        let end = match complete_section(format, error.offset) {
            Ok((Section::Conversion(spec), _)) => spec.end,
            _ => format.len(),
        };
        message.text(" (at `").slice(format, error.offset, end).text("`)")
    }
    const fn text(self, text: &str) -> Self {
        self.slice(text.as_bytes(), 0, text.len())
    }
    /// Appends what fits of `bytes[from..to]`; a byte that is no printable ASCII as `?`.
    const fn slice(mut self, bytes: &[u8], mut from: usize, to: usize) -> Self {
        while from < to && self.length < self.bytes.len() {
            let byte = bytes[from];
            self.bytes[self.length] = if byte == b' ' || byte.is_ascii_graphic() { byte } else { b'?' };
            self.length += 1;
            from += 1;
        }
        self
    }
    /// Appends a number below 100: a tuple has at most 16 arguments, and one more can be missing.
    const fn number(self, number: usize) -> Self {
        let digits = [b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8];
        self.slice(&digits, (number < 10) as usize, 2)
    }
    const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            Err(_) => "the format and its arguments do not fit",
        }
    }
}

/// A format and its arguments as the pair `(&[u8], [Argument; N])` that [`format`](crate::format::format) takes.
///
/// Where the format is a literal (`c"…"`) the compiler checks it against the types of the arguments. Any other `&CStr` is checked when
/// it is printed. There are at most 16 arguments, of the types in [`ArgumentType`](crate::format::ArgumentType).
///
/// ```
/// let (format, arguments) = gpufs_device::format_arguments!(c"%5.1f%c", 2.25, b'%');
/// assert_eq!(format, b"%5.1f%c");
/// assert_eq!(arguments.len(), 2);
/// ```
///
/// These do not compile. An argument of the wrong type:
///
/// ```compile_fail
/// let _ = gpufs_device::format_arguments!(c"%d", 1.5);
/// ```
///
/// Too few:
///
/// ```compile_fail
/// let _ = gpufs_device::format_arguments!(c"%d %*d", 1, 2);
/// ```
///
/// Too many compile, as in C: the others are evaluated and ignored. The compiler warns (`deprecated`), so that this does not compile:
///
/// ```
/// #[allow(deprecated)]
/// let (format, arguments) = gpufs_device::format_arguments!(c"%d", 1, 2);
/// assert_eq!((format, arguments.len()), (&b"%d"[..], 2));
/// ```
/// ```compile_fail
/// #![deny(deprecated)]
/// let _ = gpufs_device::format_arguments!(c"%d", 1, 2);
/// ```
///
/// A conversion that is none, or that is not supported, and a format that is not a C string:
///
/// ```compile_fail
/// let _ = gpufs_device::format_arguments!(c"%y", 1);
/// ```
/// ```compile_fail
/// let _ = gpufs_device::format_arguments!(c"%ls", "not wide");
/// ```
/// ```compile_fail
/// let _ = gpufs_device::format_arguments!(c"%1$d %d", 1, 2);
/// ```
/// ```compile_fail
/// let _ = gpufs_device::format_arguments!("%d", 1);
/// ```
///
/// And arguments cannot outlive what they borrow:
///
/// ```compile_fail,E0716
/// let (format, arguments) = gpufs_device::format_arguments!(c"%s", String::from("gone").as_str());
/// gpufs_device::format::snprintf(&mut [0; 8], format, &arguments).unwrap();
/// ```
#[macro_export]
macro_rules! format_arguments {
    ($format:literal $(, $argument:expr)* $(,)?) => {
        $crate::format::checked(
            {
                struct Format;
                impl $crate::format::Literal for Format {
                    const BYTES: &'static [u8] = {
                        let format: &'static ::core::ffi::CStr = $format;
                        format.to_bytes()
                    };
                }
                const ARGUMENTS: &[&str] = &[$(::core::stringify!($argument)),*];
                const ALL: bool =
                    $crate::format::takes_all(<Format as $crate::format::Literal>::BYTES, ARGUMENTS.len());
                let () = $crate::format::TakesAll::<ALL>::CHECK;
                Format
            },
            ($($argument,)*),
        )
    };
    ($format:expr $(, $argument:expr)* $(,)?) => {
        (
            ::core::ffi::CStr::to_bytes($format),
            $crate::format::Arguments::array(($($argument,)*)),
        )
    };
}

/// `snprintf(3)`: prints into a byte slice, and returns how long the whole output is, as
/// [`snprintf`](crate::format::snprintf) does. The format is a `&CStr`; a literal is checked by the compiler, as in
/// [`format_arguments!`](crate::format_arguments).
///
/// ```
/// let mut buffer = [0; 16];
/// let length = gpufs_device::snprintf!(&mut buffer, c"%s is %-5d|", "six", 6)?;
/// assert_eq!(&buffer[..length], b"six is 6    |");
/// # Ok::<(), gpufs_device::format::FormatError>(())
/// ```
///
/// ```compile_fail
/// let _ = gpufs_device::snprintf!(&mut [0; 16], c"%s", 6);
/// ```
#[macro_export]
macro_rules! snprintf {
    ($buffer:expr, $($format:tt)+) => {
        match $crate::format_arguments!($($format)+) {
            (format, arguments) => $crate::format::snprintf($buffer, format, &arguments),
        }
    };
}

#[cfg(test)]
mod tests {
    use super::{Message, assert_fits};
    use crate::format::{FormatError, Kind, What};

    #[test]
    fn what_the_compiler_says() {
        let message = |offset, what, format: &str| {
            let message = Message::new(FormatError { offset, what }, format.as_bytes());
            message.as_str().to_owned()
        };
        assert_eq!(message(2, What::Unknown, "ab%y cd"), "unknown conversion (at `%y cd`)");
        assert_eq!(
            message(3, What::Mismatch { argument: 0, kind: Kind::Double }, "a% %d and %s"),
            "an argument does not fit its conversion: argument 1 is a floating-point number (at `%d`)"
        );
        for (argument, number) in [(8, "9"), (9, "10"), (11, "12"), (16, "17")] {
            let text = format!(
                "the format needs more arguments than there are: argument {number} is missing (at `%d`)"
            );
            assert_eq!(message(0, What::Missing { argument }, "%d"), text);
        }
        assert_eq!(message(2, What::Mixed, "ab"), "some arguments are numbered, others are not");
        // What is no printable ASCII, and what has no room.
        assert_eq!(message(0, What::Unknown, "%\u{e9}\t ~"), "unknown conversion (at `%??? ~`)");
        let long = "%y".repeat(100);
        let whole = format!("unknown conversion (at `{long}");
        assert_eq!(message(0, What::Unknown, &long), whole[..160]);
    }

    #[test]
    #[should_panic(
        expected = "an argument does not fit its conversion: argument 1 is a floating-point number (at `%d`)"
    )]
    fn a_literal_that_does_not_fit_ends_its_compilation() {
        assert_fits(b"%d", &[Kind::Double]);
    }
}
