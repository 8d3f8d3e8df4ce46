//! Characters and strings: `%c` and `%s`.

use super::convert::Directive;
use super::parse::LIMIT;
use super::sink::{Output, Sink};
use super::{Argument, Kind};

/// `%c`: an integer's low byte, or a `char` in UTF-8.
pub(super) fn char<S: Sink + ?Sized>(
    output: &mut Output<'_, S>,
    directive: &Directive,
    argument: Argument<'_>,
) {
    match (argument.kind(), char::from_u32(argument.bits() as u32)) {
        (Kind::Char, Some(value)) => directive.field(output, value.encode_utf8(&mut [0; 4]).as_bytes()),
        _ => directive.field(output, &[argument.bits() as u8]),
    }
}

/// `%s`: the string, cut to the precision; glibc's `(null)` for null.
pub(super) fn text<S: Sink + ?Sized>(
    output: &mut Output<'_, S>,
    directive: &Directive,
    argument: Argument<'_>,
) {
    directive.field(output, cut(directive, argument));
}

/// How long [`text`] is, without padding.
pub(super) fn length(directive: &Directive, argument: Argument<'_>) -> u64 {
    cut(directive, argument).len() as u64
}

fn cut<'a>(directive: &Directive, argument: Argument<'a>) -> &'a [u8] {
    const NULL: &[u8] = b"(null)";
    // One byte above the limit of the whole output tells a string that is too long.
    let limit = directive.precision.unwrap_or(LIMIT + 1) as usize;
    match argument.text(limit) {
        Some(text) => text,
        // Cut text would look like somebody's string.
        None if limit < NULL.len() => b"",
        None => NULL,
    }
}
