//! Formatting: `printf` and its relatives (stage 1).
//!
//! C11 7.21.6.1, printed byte for byte as glibc prints it in the C locale. A format goes from the parser (`parse`), which cuts it into
//! sections, to the converter (`convert`), which checks the arguments and picks the file that prints each conversion
//! (`integer`, `text`, `float`), to a [`Sink`]. There is no allocation, no recursion, no loop that a format or its arguments do not
//! bound, and a stack below 1 KiB.
//!
//! A stream prints a record into a [`SliceSink`], whose count says whether it fitted; a longer one it prints again into a [`WindowSink`]
//! for each piece of buffer that it fills.
//!
//! | | |
//! |---|---|
//! | flags | `-`, `+`, space, `#`, `0`; `'` is read and does nothing, as in the C locale |
//! | width, precision | a number up to `i32::MAX`, or `*` |
//! | length | `hh`, `h`, `l`, `ll`, `j`, `z`, `t` on integers; `l` and `L` on floating point |
//! | conversions | `d i u o x X c s p f F e E g G a A %`, and C23's `b B` |
//!
//! Where it differs from glibc:
//!
//! | here | glibc |
//! |---|---|
//! | `L` takes a double: on a GPU, long double is double | 80 bits on x86-64 |
//! | `%n`, `%lc`, `%ls`, `%1$d` are errors | supported |
//! | an unknown conversion, a length modifier where C has none (`%hf`), an unfinished one: an error | printed as they stand, or ignored |
//! | an argument of the wrong kind, or missing: an error | undefined |
//! | an argument that no conversion takes is evaluated and ignored, in Rust, C and C++, at run time and where the compiler checks a literal: it warns where it can (Rust: `deprecated`; C: `-Wformat-extra-args`; C++: with the macros, and clang) | the same |
//! | a format from C ends within 4,096 bytes, or is an error | read up to its NUL |
//! | `%#g` keeps its zeros where rounding reaches the next power of ten, as C11 has it: `%#g` of 999999.5 is `1.00000e+06` | `1.e+06` (2.36) |
//! | a failed call writes nothing | what came before is written |
//! | a Rust string is printed whole, NUL bytes included; a `char` may go to `%c`, as UTF-8 | |

mod argument;
mod big;
mod check;
mod convert;
mod error;
mod float;
mod integer;
mod parse;
mod rounding;
pub mod scan;
mod sink;
mod text;

pub use argument::{Argument, ArgumentType, Arguments, Kind};
pub use check::{Literal, TakesAll, check, checked, takes_all};
pub use convert::format;
pub use error::{FormatError, What};
pub use sink::{CountSink, Sink, SinkWriter, SliceSink, WindowSink};

/// `snprintf(3)`: prints into `buffer` what fits, followed by a NUL, and returns the length of the whole output without the
/// NUL. The output was cut if that is not below `buffer.len()`. An empty buffer is left alone, NUL included.
///
/// # Errors
/// As [`format()`]: then `buffer` is as it was.
pub fn snprintf(buffer: &mut [u8], format: &[u8], arguments: &[Argument<'_>]) -> Result<usize, FormatError> {
    let room = buffer.len().saturating_sub(1);
    let mut sink = SliceSink::new(buffer.get_mut(..room).unwrap_or_default());
    let length = self::format(&mut sink, format, arguments)?;
    let kept = sink.kept();
    if let Some(end) = buffer.get_mut(kept) {
        *end = 0;
    }
    Ok(length as usize)
}
