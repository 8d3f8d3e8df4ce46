//! Floating-point numbers: `%f %e %g %a`. Decimal ones are converted by `core`, hexadecimal ones here; both are correctly rounded. Of one that is
//! too large, or too small for all of its digits, the reader notes that it is out of range.

use super::Input;
use super::convert::{Reader, Stop};
use super::parse::Size;

/// Significant digits that are kept. No number halfway between two doubles has more than 767, so that of the digits behind them only
/// whether one is not 0 counts.
const DIGITS: usize = 772;
/// Room for `e`, a sign and four digits after the digits.
const ROOM: usize = DIGITS + 8;
/// An exponent beyond which every number is 0 or infinite, whatever its kept digits.
const FAR: i64 = 5_000;

/// The value's bits: a float's for [`Size::Int`], else a double's.
pub(super) fn read<I: Input>(reader: &mut Reader<'_, I>, size: Size) -> Result<u64, Stop> {
    let sign = reader.next()?;
    let negative = sign == Some(b'-');
    if matches!(sign, Some(b'+' | b'-')) {
        reader.take();
    }
    let bits = match reader.next()? {
        None => return Err(Stop::Mismatch),
        Some(b'n' | b'N') => {
            word(reader, b"nan")?;
            payload(reader)?;
            if matches!(size, Size::Int) { u64::from(f32::NAN.to_bits()) } else { f64::NAN.to_bits() }
        }
        Some(b'i' | b'I') => {
            word(reader, b"inf")?;
            if reader.next()?.is_some_and(|byte| byte.eq_ignore_ascii_case(&b'i')) {
                word(reader, b"inity")?;
            }
            if matches!(size, Size::Int) {
                u64::from(f32::INFINITY.to_bits())
            } else {
                f64::INFINITY.to_bits()
            }
        }
        Some(first) => {
            // A prefix needs a byte behind it.
            let mut zero = false;
            let mut hexadecimal = false;
            if first == b'0' {
                reader.take();
                zero = true;
                hexadecimal = reader.left() > 1 && reader.take_letter(b'x')?;
            }
            if hexadecimal { hex(reader, size)? } else { decimal(reader, size, zero)? }
        }
    };
    let sign = if matches!(size, Size::Int) { 1 << 31 } else { 1 << 63 };
    Ok(if negative { bits | sign } else { bits })
}

/// These letters, in either case.
fn word<I: Input>(reader: &mut Reader<'_, I>, letters: &[u8]) -> Result<(), Stop> {
    for letter in letters {
        if !reader.take_letter(*letter)? {
            return Err(Stop::Mismatch);
        }
    }
    Ok(())
}

/// What may follow `nan`: letters, digits and underscores in parentheses (C11 7.22.1.3). They do not change the value.
fn payload<I: Input>(reader: &mut Reader<'_, I>) -> Result<(), Stop> {
    if reader.next()? != Some(b'(') {
        return Ok(());
    }
    reader.take();
    // Ends: each round takes a byte.
    while reader.next()?.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        reader.take();
    }
    word(reader, b")")
}

/// What comes next in a number.
enum Next {
    Digit(u8),
    Point,
    Exponent(i64),
    End,
}

/// Which parts of a number were there.
struct Parts {
    any_digit: bool,
    point: bool,
}

/// Takes the next part of a number's digits in the base, or its exponent after `letter`.
#[inline]
fn next<I: Input>(
    reader: &mut Reader<'_, I>,
    parts: &mut Parts,
    base: u32,
    letter: u8,
) -> Result<Next, Stop> {
    let Some(byte) = reader.next()? else { return Ok(Next::End) };
    if let Some(digit) = char::from(byte).to_digit(base) {
        reader.take();
        parts.any_digit = true;
        #[expect(clippy::cast_possible_truncation, reason = "below the base")]
        return Ok(Next::Digit(digit as u8));
    }
    if byte == b'.' && !parts.point {
        reader.take();
        parts.point = true;
        return Ok(Next::Point);
    }
    if parts.any_digit && byte.eq_ignore_ascii_case(&letter) {
        reader.take();
        return exponent(reader).map(Next::Exponent);
    }
    Ok(Next::End)
}

/// The exponent after its letter; 0 without digits.
fn exponent<I: Input>(reader: &mut Reader<'_, I>) -> Result<i64, Stop> {
    let sign = reader.next()?;
    if matches!(sign, Some(b'+' | b'-')) {
        reader.take();
    }
    let mut value: i64 = 0;
    // Ends: each round takes a byte.
    while let Some(digit @ b'0'..=b'9') = reader.next()? {
        reader.take();
        value = value.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
    }
    Ok(if sign == Some(b'-') { -value } else { value })
}

/// A decimal number; `zero`: a first 0 was taken.
fn decimal<I: Input>(reader: &mut Reader<'_, I>, size: Size, zero: bool) -> Result<u64, Stop> {
    let mut text = [0; ROOM];
    let mut parts = Parts { any_digit: zero, point: false };
    // The number is `text` · 10^`power`.
    let (mut count, mut power, mut lost) = (0, 0_i64, false);
    // Ends: each round takes a byte, or is the last.
    loop {
        match next(reader, &mut parts, 10, b'e')? {
            Next::Digit(digit) => {
                if count < DIGITS && (count > 0 || digit != 0) {
                    text[count] = b'0' + digit;
                    count += 1;
                    power -= i64::from(parts.point);
                } else if count == 0 {
                    power -= i64::from(parts.point);
                } else {
                    lost |= digit != 0;
                    power += i64::from(!parts.point);
                }
            }
            Next::Point => {}
            Next::Exponent(exponent) => {
                power = power.saturating_add(exponent);
                break;
            }
            Next::End => break,
        }
    }
    if !parts.any_digit {
        return Err(Stop::Mismatch);
    }
    if count == 0 {
        return Ok(0);
    }
    if lost {
        // The last kept digit stands for all behind it; by the limit it is none that decides but by being there.
        text[count] = b'1';
        count += 1;
        power = power.saturating_sub(1);
    }
    let mut power = power.clamp(-FAR, FAR);
    text[count] = b'e';
    count += 1;
    if power < 0 {
        text[count] = b'-';
        count += 1;
        power = -power;
    }
    for unit in [1000, 100, 10, 1] {
        #[expect(clippy::cast_sign_loss, reason = "a digit")]
        let digit = (power / unit % 10) as u8;
        text[count] = b'0' + digit;
        count += 1;
    }
    let text = core::str::from_utf8(&text[..count]).unwrap_or("");
    let bits = if matches!(size, Size::Int) {
        text.parse::<f32>().map(|value| u64::from(value.to_bits()))
    } else {
        text.parse::<f64>().map(f64::to_bits)
    };
    let bits = bits.map_err(|_| Stop::Mismatch)?;
    // Infinite, or subnormal: no decimal number of fewer than hundreds of digits is a subnormal one exactly. There is no sign yet.
    let exponent = if matches!(size, Size::Int) { bits >> 23 } else { bits >> 52 };
    let largest = if matches!(size, Size::Int) { 0xff } else { 0x7ff };
    reader.out_of_range |= exponent == 0 || exponent == largest;
    Ok(bits)
}

/// A hexadecimal number, after its prefix.
fn hex<I: Input>(reader: &mut Reader<'_, I>, size: Size) -> Result<u64, Stop> {
    let mut parts = Parts { any_digit: false, point: false };
    // The number is `mantissa` · 2^`power`, and a little more if `lost`.
    let (mut mantissa, mut power, mut lost) = (0_u64, 0_i64, false);
    // Ends: each round takes a byte, or is the last.
    loop {
        match next(reader, &mut parts, 16, b'p')? {
            Next::Digit(digit) => {
                if mantissa >> 60 == 0 {
                    mantissa = mantissa << 4 | u64::from(digit);
                    power -= if parts.point { 4 } else { 0 };
                } else {
                    lost |= digit != 0;
                    power += if parts.point { 0 } else { 4 };
                }
            }
            Next::Point => {}
            Next::Exponent(exponent) => {
                power = power.saturating_add(exponent);
                break;
            }
            Next::End => break,
        }
    }
    // As C's reader has it: a prefix and a point are the number 0, as the prefix alone is none.
    if !parts.any_digit && !parts.point {
        return Err(Stop::Mismatch);
    }
    let (bits, fits) = match size {
        Size::Int => assemble(mantissa, power, lost, (23, 127)),
        _ => assemble(mantissa, power, lost, (52, 1023)),
    };
    reader.out_of_range |= !fits;
    Ok(bits)
}

/// The bits of `mantissa` · 2^`power`, and a little more if `lost`, rounded to the format with so many bits of fraction and this bias; and whether
/// that is neither infinite nor less than a normal number and rounded.
fn assemble(mantissa: u64, power: i64, lost: bool, (fraction, bias): (u32, i64)) -> (u64, bool) {
    if mantissa == 0 {
        return (0, true);
    }
    let infinite = (bias.cast_unsigned() * 2 + 1) << fraction;
    let shift = mantissa.leading_zeros();
    let mantissa = mantissa << shift;
    // The value is mantissa / 2^63 · 2^exponent.
    let exponent = power.saturating_sub(i64::from(shift)).saturating_add(63);
    if exponent > bias {
        return (infinite, false);
    }
    // Bits below the lowest of the result; a subnormal has fewer of its own.
    let lowest = 1 - bias;
    let below = i64::from(63 - fraction).saturating_add(lowest.saturating_sub(exponent).max(0));
    if below > 64 {
        return (0, false);
    }
    let (kept, rest) = match below {
        64 => (0, mantissa),
        _ => (mantissa >> below, mantissa << (64 - below)),
    };
    let half = 1 << 63;
    let up = rest > half || (rest == half && (lost || kept & 1 == 1));
    // A carry runs into the exponent, as it should; the leading bit of a normal number counts as one of it.
    let biased = (exponent.max(lowest) + bias - 1).cast_unsigned();
    let bits = ((biased << fraction) + kept + u64::from(up)).min(infinite);
    let fits = if bits >> fraction == 0 { rest == 0 && !lost } else { bits < infinite };
    (bits, fits)
}

#[cfg(test)]
mod tests {
    use super::assemble;

    #[test]
    fn hexadecimal_numbers_are_rounded_to_nearest() {
        let double = |mantissa, power, lost| f64::from_bits(assemble(mantissa, power, lost, (52, 1023)).0);
        assert_eq!(double(1, 0, false), 1.0);
        assert_eq!(double(3, -1, false), 1.5);
        assert_eq!(double(1, 1023, false), 2f64.powi(1023));
        assert_eq!(double(1, 1024, false), f64::INFINITY);
        assert_eq!(double(u64::MAX, 960, false), f64::INFINITY);
        assert_eq!(double(u64::MAX >> 11, 971, false), f64::MAX);
        assert_eq!(double(1, -1074, false).to_bits(), 1);
        assert_eq!(double(1, -1075, false).to_bits(), 0);
        assert_eq!(double(1, -1075, true).to_bits(), 1);
        assert_eq!(double(3, -1075, false).to_bits(), 2);
        assert_eq!(double((1 << 53) + 1, 0, false), 2f64.powi(53));
        assert_eq!(double((1 << 53) + 1, 0, true), 2f64.powi(53) + 2.0);
        assert_eq!(double((1 << 53) - 1, -1075, false), f64::MIN_POSITIVE);
        assert_eq!(double(1, i64::MIN, false), 0.0);
        assert_eq!(double(1, i64::MAX, false), f64::INFINITY);
        let fits = |mantissa, power, lost| assemble(mantissa, power, lost, (52, 1023)).1;
        assert!(fits(1, -1074, false) && fits(u64::MAX >> 11, 971, false) && fits(1, -1022, true));
        assert!(
            !fits(1, -1075, false)
                && !fits(1, -1074, true)
                && !fits(1, 1024, false)
                && !fits(u64::MAX, 960, false)
        );
    }
}
