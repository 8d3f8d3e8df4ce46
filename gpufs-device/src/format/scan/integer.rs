//! Integers: `%d %i %u %o %x %b %p`.

use super::Input;
use super::convert::{Reader, Stop};

/// What is read of a number.
struct Digits {
    negative: bool,
    /// Saturated.
    magnitude: u64,
    is_saturated: bool,
}

/// An integer in the base; 0: the prefix tells it. As `strtol(3)` and `strtoul(3)` of 64 bits convert it, too large a one included.
pub(super) fn read<I: Input>(reader: &mut Reader<'_, I>, base: u8, signed: bool) -> Result<u64, Stop> {
    let Some(digits) = digits(reader, base)? else { return Err(Stop::Mismatch) };
    let limit = if digits.negative { 1 << 63 } else { i64::MAX.cast_unsigned() };
    Ok(match (signed, digits.is_saturated) {
        (true, _) if digits.magnitude > limit => limit,
        (false, true) => u64::MAX,
        _ if digits.negative => digits.magnitude.wrapping_neg(),
        _ => digits.magnitude,
    })
}

/// An address: what `%p` of printf prints, `(nil)` among it.
pub(super) fn pointer<I: Input>(reader: &mut Reader<'_, I>) -> Result<u64, Stop> {
    const NIL: &[u8] = b"(nil)";
    if reader.left() >= NIL.len() as u64 && reader.peek()? == Some(NIL[0]) {
        for letter in NIL {
            if !reader.take_letter(*letter)? {
                return Err(Stop::Mismatch);
            }
        }
        return Ok(0);
    }
    read(reader, 16, false)
}

/// A sign, a prefix and digits; `None` if there are no digits.
fn digits<I: Input>(reader: &mut Reader<'_, I>, base: u8) -> Result<Option<Digits>, Stop> {
    let mut digits = Digits { negative: false, magnitude: 0, is_saturated: false };
    let (mut base, mut any) = (base, false);
    let sign = reader.next()?;
    if matches!(sign, Some(b'+' | b'-')) {
        digits.negative = sign == Some(b'-');
        reader.take();
    }
    if reader.next()? == Some(b'0') {
        reader.take();
        any = true;
        if matches!(base, 0 | 16) && reader.take_letter(b'x')? {
            base = 16;
        } else if base == 2 && reader.take_letter(b'b')? {
            // The prefix is taken.
        } else if base == 0 {
            base = 8;
        }
    }
    let base = u32::from(if base == 0 { 10 } else { base });
    // Ends: each round takes a byte. It looks at the byte after the field, too, as C's reader does: a stream then knows that its file ends.
    while let Some(byte) = reader.peek()?
        && reader.left() > 0
        && let Some(digit) = char::from(byte).to_digit(base)
    {
        reader.take();
        any = true;
        let larger = digits.magnitude.checked_mul(u64::from(base));
        match larger.and_then(|larger| larger.checked_add(u64::from(digit))) {
            Some(magnitude) if !digits.is_saturated => digits.magnitude = magnitude,
            _ => (digits.magnitude, digits.is_saturated) = (u64::MAX, true),
        }
    }
    Ok(any.then_some(digits))
}
