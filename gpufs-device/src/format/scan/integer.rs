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

/// An integer in the base; 0: the prefix tells it. As `strtol(3)` and `strtoul(3)` of 64 bits convert it: of one that does not fit the limit,
/// which the reader notes.
pub(super) fn read<I: Input>(reader: &mut Reader<'_, I>, base: u8, signed: bool) -> Result<u64, Stop> {
    let Some(digits) = digits(reader, base)? else { return Err(Stop::Mismatch) };
    let limit = if digits.negative { 1 << 63 } else { i64::MAX.cast_unsigned() };
    let (fits, limit) =
        if signed { (digits.magnitude <= limit, limit) } else { (!digits.is_saturated, u64::MAX) };
    if !fits {
        reader.out_of_range = true;
        return Ok(limit);
    }
    Ok(if digits.negative { digits.magnitude.wrapping_neg() } else { digits.magnitude })
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
        // A prefix without a digit behind it is no number: the field is the longest prefix of one (C11 7.21.6.2, 9).
        if matches!(base, 0 | 16) && reader.take_letter(b'x')? {
            base = 16;
        } else if matches!(base, 0 | 2) && reader.take_letter(b'b')? {
            base = 2;
        } else {
            any = true;
            base = if base == 0 { 8 } else { base };
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
            Some(magnitude) => digits.magnitude = magnitude,
            // So it stays: the largest number times a base is larger.
            None => (digits.magnitude, digits.is_saturated) = (u64::MAX, true),
        }
    }
    Ok(any.then_some(digits))
}

#[cfg(test)]
mod tests {
    use super::super::{Target, sscanf};

    /// C23 7.23.6.2: `%i` takes the prefixes of each base.
    #[test]
    fn prefixes_of_i() {
        for (text, expected) in
            [("0b101", 5), ("0B11", 3), ("-0b1", -1), ("0x1f", 31), ("017", 15), ("19", 19), ("0", 0)]
        {
            let mut value = 77_i32;
            let stored = sscanf(text.as_bytes(), b"%i", &[Target::from(&mut value)]);
            assert_eq!((stored, value), (Ok(Some(1)), expected), "{text}");
        }
        for text in ["0b", "0x", "-0X", "0b2", "0xg"] {
            let mut value = 77_i32;
            let stored = sscanf(text.as_bytes(), b"%i", &[Target::from(&mut value)]);
            assert_eq!((stored, value), (Ok(Some(0)), 77), "{text}");
        }
        let (mut value, mut rest) = (77_i32, 0_u8);
        let targets = [Target::from(&mut value), Target::from(&mut rest)];
        assert_eq!(sscanf(b"0b12", b"%i%c", &targets), Ok(Some(2)));
        assert_eq!((value, rest), (1, b'2'));
    }
}
