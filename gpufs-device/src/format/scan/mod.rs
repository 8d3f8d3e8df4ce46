//! Scanning: `scanf` and its relatives (stage 1).
//!
//! C11 7.21.6.2, as glibc reads in the C locale. A format goes from the parser (`parse`), which cuts it into directives, to the driver
//! (`convert`), which has each conversion read its field (`integer`, `real`, `text`) from an [`Input`] and stores the value in a
//! [`Target`]. The input is looked at one byte ahead and no further, so nothing is ever put back. There is no allocation but that of
//! `%m`, no recursion, and no loop that the format, the input or a width does not bound.
//!
//! | | |
//! |---|---|
//! | widths | up to `i32::MAX`; `*` reads and stores nothing; `'` does nothing, as in the C locale |
//! | length | `hh`, `h`, `l`, `ll`, `j`, `z`, `t`, C23's `wN` and `wfN` on integers; `l` and `L` on floating point; `l` on `c`, `s`, `[` |
//! | conversions | `d i u o x X p f F e E g G a A c s [ C S n %`, and C23's `b`, whose prefix `0b` `%i` takes, too |
//! | `%m` | memory of the caller's allocator, in C |
//! | `%1$d` | numbered targets; not mixed with others |
//!
//! Where it differs from glibc:
//!
//! | here | glibc |
//! |---|---|
//! | a format or a target that does not fit is an error before anything is read | reading ends at an unknown conversion; a wrong target is undefined |
//! | wide characters are decoded from UTF-8, whatever the locale, and `%l[` compares characters | by the locale; bytes are compared |
//! | bytes that are no character fail as the end of the input does: `EOF` with `EILSEQ` before the first value (C11) | the count, 0 as well |
//! | `L` is rounded as a double, on a CPU as well | to 64 bits of precision on x86-64 |
//! | `0x` and `0b` without a digit are no number, and `nan(abc)` is one (C11; glibc from 2.43) | 2.36 reads a 0, and `nan` |
//! | numbers are rounded to nearest, ties to even | in the rounding direction |
//! | `ERANGE` for every decimal number that is subnormal (in C; in Rust [`Scanned::out_of_range`]) | not for the few that are exact, of hundreds of digits |
//! | `+na?` and the like leave the byte that does not match unread | it is read |
//! | a Rust slice bounds `%s` and `%[` as a width of one less does; a width that it has no room for is an error | undefined |

mod check;
mod convert;
mod error;
mod input;
mod integer;
mod parse;
mod real;
mod target;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use check::numbers;
pub use check::{check, checked, count_targets, takes_all};
pub(crate) use convert::scan_checked;
pub use convert::{Scanned, scan};
pub use error::{ScanError, Why};
pub use input::{Input, Text};
pub use target::{Memory, Reallocate, Target, TargetKind, TargetType, Targets};

/// `sscanf(3)`: reads `text`, up to its end or its first NUL, as `format` says: how many targets got a value, or `None` where the text ended
/// before the first one did (C's `EOF`). [`sscanf!`](crate::sscanf) has the compiler check a literal format.
///
/// # Errors
/// [`ScanError`]: of the format and its targets, before anything is read; `EILSEQ` where a wide conversion meets bytes that are not UTF-8.
pub fn sscanf(text: &[u8], format: &[u8], targets: &[Target<'_>]) -> Result<Option<usize>, ScanError> {
    scan(&mut Text::new(text), format, targets, Memory::NONE).map(|scanned| scanned.stored)
}

/// [`check`] for targets at hand.
///
/// # Errors
/// The first thing that is wrong, from left to right.
pub fn check_targets(format: &[u8], targets: &[Target<'_>]) -> Result<(), ScanError> {
    check::targets(format, targets)
}
