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
//! | flags | `-`, `+`, space, `#`, `0`; `'` and glibc's `I` are read and do nothing, as in the C locale |
//! | width, precision | a number up to `i32::MAX`, or `*` |
//! | length | `hh`, `h`, `l`, `ll`, `j`, `z`, `t` and C23's `w8` … `wf64` on integers and `%n`; `l` and `L` on floating point; `l` on `c` and `s` |
//! | conversions | `d i u o x X c s p n f F e E g G a A %`, C23's `b B`, POSIX's `C S`, glibc's `m` |
//! | numbered arguments | `%2$*1$d` (POSIX); in one format all are numbered or none, else `EINVAL`. An argument without a conversion is passed over |
//! | `%lc`, `%ls` | UTF-8, as glibc in a UTF-8 locale; `EILSEQ` for a surrogate and for what has more than 31 bits |
//!
//! Common formats are *plain*: without numbers, `%n`, `%m`, wide characters, `w`. Those with any of these take a way of their own (`complete`), and
//! cost the others nothing.
//!
//! Where it differs from glibc:
//!
//! | here | glibc |
//! |---|---|
//! | `L` takes a double: on a GPU, long double is double | 80 bits on x86-64 |
//! | `%m` takes an [`Errno`](gpufs_core::Errno) in Rust, which has no `errno` | prints `errno`, as here in C |
//! | `%n` in Rust takes an `unsafe` [`Argument::place`]; the length modifier must be the integer's, and null is `EFAULT` | stores what the modifier says |
//! | `%wf16d`, `%wf32d`: 64 bits | 64 bits on x86-64 |
//! | an argument with one number and two types (`%1$d %1$ld`): an error from `...`; packed arguments go to either | the last type counts |
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
mod complete;
mod convert;
mod error;
mod float;
mod integer;
mod order;
mod parse;
mod rounding;
pub mod scan;
mod sink;
mod text;
mod types;
mod wide;

pub use argument::{Argument, ArgumentType, Arguments, Kind};
pub use check::{Literal, TakesAll, check, checked, takes_all};
pub(crate) use complete::format_again;
pub(crate) use convert::format_scratch;
pub use convert::{format, format_with};
pub use error::{FormatError, What};
pub use sink::{CountSink, Sink, SinkWriter, SliceSink, WindowSink};
pub use types::{Passed, argument_types};

/// `snprintf(3)`: prints into `buffer` what fits, followed by a NUL, and returns the length of the whole output without the
/// NUL. The output was cut if that is not below `buffer.len()`. An empty buffer is left alone, NUL included.
///
/// # Errors
/// As [`format()`]: then `buffer` is as it was.
pub fn snprintf(buffer: &mut [u8], format: &[u8], arguments: &[Argument<'_>]) -> Result<usize, FormatError> {
    snprintf_with(buffer, format, arguments, || None)
}

/// [`snprintf()`] where there is an `errno`, as [`format_with`].
///
/// # Errors
/// As [`format()`]: then `buffer` is as it was.
pub fn snprintf_with(
    buffer: &mut [u8],
    format: &[u8],
    arguments: &[Argument<'_>],
    errno: impl Fn() -> Option<i32>,
) -> Result<usize, FormatError> {
    let room = buffer.len().saturating_sub(1);
    let mut sink = SliceSink::new(buffer.get_mut(..room).unwrap_or_default());
    let length = format_with(&mut sink, format, arguments, errno)?;
    let kept = sink.kept();
    if let Some(end) = buffer.get_mut(kept) {
        *end = 0;
    }
    Ok(length as usize)
}
