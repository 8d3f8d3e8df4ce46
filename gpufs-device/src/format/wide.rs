//! Wide characters: `%lc` and `%ls`, written as UTF-8, as glibc writes them in a UTF-8 locale: also the numbers up to 2³¹ − 1 that Unicode does
//! not have, in up to six bytes, and no surrogates.

use super::convert::Directive;
use super::parse::LIMIT;
use super::sink::{Output, Sink};
use super::{Argument, Kind, What};

/// Bytes of the longest character.
const ENCODED_MAX: usize = 6;
/// Where a string without a precision is cut: then it is too long for the whole output, whatever its last character.
const CUT_AT: u32 = LIMIT + ENCODED_MAX as u32;

/// A character in UTF-8.
struct Encoded {
    bytes: [u8; ENCODED_MAX],
    length: usize,
}

impl Encoded {
    /// # Errors
    /// [`What::Illegal`].
    fn new(character: u32) -> Result<Self, What> {
        let length = match character {
            0..0x80 => return Ok(Self { bytes: [character as u8, 0, 0, 0, 0, 0], length: 1 }),
            0x80..0x800 => 2,
            0xd800..0xe000 => return Err(What::Illegal),
            0x800..0x1_0000 => 3,
            0x1_0000..0x20_0000 => 4,
            0x20_0000..0x400_0000 => 5,
            0x400_0000..0x8000_0000 => 6,
            _ => return Err(What::Illegal),
        };
        let mut bytes = [0; ENCODED_MAX];
        for (index, byte) in (0..length).zip(&mut bytes) {
            let six = (character >> (6 * (length - 1 - index))) as u8 & 0x3f;
            *byte = if index == 0 { !(0xff_u8 >> length) | six } else { 0x80 | six };
        }
        Ok(Self { bytes, length: length as usize })
    }
    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// How many bytes `%lc` prints, without padding.
///
/// # Errors
/// [`What::Illegal`].
pub(super) fn char_length(argument: Argument<'_>) -> Result<u64, What> {
    Encoded::new(argument.bits() as u32).map(|encoded| encoded.length as u64)
}

/// `%lc`.
pub(super) fn char<S: Sink + ?Sized>(
    output: &mut Output<'_, S>,
    directive: &Directive,
    argument: Argument<'_>,
) {
    if let Ok(encoded) = Encoded::new(argument.bits() as u32) {
        directive.field(output, encoded.as_bytes());
    }
}

/// Calls `each` with each character that `%ls` prints: whole ones, within the precision. Returns how many bytes they are.
///
/// # Errors
/// [`What::Illegal`], for a character within the precision.
fn characters(
    directive: &Directive,
    argument: Argument<'_>,
    mut each: impl FnMut(&[u8]),
) -> Result<u64, What> {
    let limit = u64::from(directive.precision.unwrap_or(CUT_AT));
    let most = if argument.kind() == Kind::Wide { argument.length() } else { u32::MAX };
    let first: *const u32 = core::ptr::with_exposed_provenance(argument.bits() as usize);
    let mut length = 0;
    let mut index = 0;
    // Ends: each character has a byte at least, and all of them at most `limit`.
    while index < most && length < limit {
        // SAFETY:
        // - the promise of `wide_c_string`, or of C's caller: no character before this one was the NUL, and those are not as long as the
        //   precision; or the index is below the length of the slice
        #[expect(unsafe_code, reason = "a wide string has no length but its NUL")]
        let place = unsafe { first.add(index as usize) };
        // SAFETY:
        // - as above: the character is there, aligned, and does not change
        #[expect(unsafe_code, reason = "a wide string has no length but its NUL")]
        let character = unsafe { *place };
        if character == 0 {
            break;
        }
        let encoded = Encoded::new(character)?;
        if length + encoded.length as u64 > limit {
            break;
        }
        length += encoded.length as u64;
        each(encoded.as_bytes());
        index += 1;
    }
    Ok(length)
}

const NULL: &[u8] = b"(null)";

/// What `%ls` prints for null: nothing, where a precision would cut it.
fn null(directive: &Directive) -> &'static [u8] {
    if directive.precision.is_some_and(|precision| (precision as usize) < NULL.len()) { b"" } else { NULL }
}

/// How many bytes `%ls` prints, without padding.
///
/// # Errors
/// [`What::Illegal`].
pub(super) fn text_length(directive: &Directive, argument: Argument<'_>) -> Result<u64, What> {
    if argument.bits() == 0 {
        return Ok(null(directive).len() as u64);
    }
    characters(directive, argument, |_| {})
}

/// `%ls`.
pub(super) fn text<S: Sink + ?Sized>(
    output: &mut Output<'_, S>,
    directive: &Directive,
    argument: Argument<'_>,
) {
    if argument.bits() == 0 {
        return directive.field(output, null(directive));
    }
    let Ok(length) = text_length(directive, argument) else { return };
    let trailing = directive.open(output, b"", length, false);
    // The length was counted: it ends without an error.
    let _ = characters(directive, argument, |bytes| output.write(bytes));
    output.fill(b' ', trailing);
}
