//! Integers: `%d %i %u %o %x %X %b %B`, and `%p`, which glibc prints as `%#lx`.

use super::convert::Directive;
use super::parse::{Flags, Length};
use super::sink::{Output, Sink};

/// Room for the longest number: 64 binary digits.
const DIGITS: usize = 64;

/// `%d`, `%i`: the low bits of `bits`, as the length modifier says.
pub(super) fn signed<S: Sink + ?Sized>(output: &mut Output<'_, S>, directive: &Directive, bits: u64) {
    let value = match directive.length {
        Length::Char => i64::from(bits as i8),
        Length::Short => i64::from(bits as i16),
        Length::Int => i64::from(bits as i32),
        Length::Long | Length::Wide | Length::LongDouble => bits.cast_signed(),
    };
    number(output, directive, directive.sign(value < 0), b"", 10, value.unsigned_abs());
}

/// `%u`, `%o`, `%x`, `%X`, `%b`, `%B`: the low bits of `bits`, as the length modifier says.
pub(super) fn unsigned<S: Sink + ?Sized>(
    output: &mut Output<'_, S>,
    directive: &Directive,
    base: u32,
    bits: u64,
) {
    let value = match directive.length {
        Length::Char => u64::from(bits as u8),
        Length::Short => u64::from(bits as u16),
        Length::Int => u64::from(bits as u32),
        Length::Long | Length::Wide | Length::LongDouble => bits,
    };
    let prefix: &[u8] = match (base, directive.upper) {
        _ if value == 0 || !directive.flags.has(Flags::ALTERNATE) => b"",
        (16, false) => b"0x",
        (16, true) => b"0X",
        (2, false) => b"0b",
        (2, true) => b"0B",
        _ => b"",
    };
    number(output, directive, None, prefix, base, value);
}

/// `%p`: as glibc, a signed `%#lx`, and `(nil)` for null.
pub(super) fn pointer<S: Sink + ?Sized>(output: &mut Output<'_, S>, directive: &Directive, address: u64) {
    if address == 0 {
        directive.field(output, b"(nil)");
    } else {
        number(output, directive, directive.sign(false), b"0x", 16, address);
    }
}

/// A sign, a prefix, and `value` in `base`.
fn number<S: Sink + ?Sized>(
    output: &mut Output<'_, S>,
    directive: &Directive,
    sign: Option<u8>,
    prefix: &[u8],
    base: u32,
    value: u64,
) {
    let mut text = [0; DIGITS];
    let digits = digits(&mut text, value, base, directive.upper);
    let mut least = u64::from(directive.precision.unwrap_or(1));
    // `#` raises an octal number's precision until its first digit is 0.
    if base == 8 && directive.flags.has(Flags::ALTERNATE) {
        least = least.max(if value == 0 { 1 } else { digits.len() as u64 + 1 });
    }
    let zeros = least.saturating_sub(digits.len() as u64);

    let mut head = [0; 3];
    let mut length = 0;
    for (place, byte) in head.iter_mut().zip(sign.iter().chain(prefix)) {
        *place = *byte;
        length += 1;
    }
    let head = head.get(..length).unwrap_or_default();
    let trailing = directive.open(output, head, zeros + digits.len() as u64, directive.precision.is_none());
    output.fill(b'0', zeros);
    output.write(digits);
    output.fill(b' ', trailing);
}

/// The digits of `value`, at the end of `text`; none if it is 0.
fn digits(text: &mut [u8; DIGITS], value: u64, base: u32, upper: bool) -> &[u8] {
    let start = match base {
        10 => decimal(text, value),
        8 => powers_of_two(text, value, 3, b'0'),
        2 => powers_of_two(text, value, 1, b'0'),
        _ => powers_of_two(text, value, 4, if upper { b'A' } else { b'a' }),
    };
    text.get(start..).unwrap_or_default()
}

/// Decimal digits, most of them by 32-bit arithmetic. Returns where they start.
fn decimal(text: &mut [u8; DIGITS], mut value: u64) -> usize {
    let mut start = DIGITS;
    let mut put = |value: u32| {
        start -= 1;
        if let Some(place) = text.get_mut(start) {
            *place = b'0' + (value % 10) as u8;
        }
        value / 10
    };
    // Ends: at most twice.
    while value > u64::from(u32::MAX) {
        let mut low = (value % 1_000_000_000) as u32;
        value /= 1_000_000_000;
        for _ in 0..9 {
            low = put(low);
        }
    }
    let mut low = value as u32;
    while low != 0 {
        low = put(low);
    }
    start
}

/// Digits of `bits` bits each; `ten` is the letter for 10. Returns where they start.
fn powers_of_two(text: &mut [u8; DIGITS], mut value: u64, bits: u32, ten: u8) -> usize {
    let mut start = DIGITS;
    while value != 0 {
        let digit = (value & ((1 << bits) - 1)) as u8;
        start -= 1;
        if let Some(place) = text.get_mut(start) {
            *place = if digit < 10 { b'0' + digit } else { ten + (digit - 10) };
        }
        value >>= bits;
    }
    start
}
