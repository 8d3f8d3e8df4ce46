//! Floating point: `%f %e %g %a`, exact for every `f64` and every precision, rounded from the exact binary value in the direction in force ([`super::rounding`]).
//!
//! A decimal conversion first rounds the value to a few limbs of nine digits, then lays the digits out. Common values are
//! rounded in integer arithmetic of at most 128 bits ([`quick`]), the others by [`Big`]. Both are exact.

use super::big::Big;
use super::convert::Directive;
use super::parse::{Conversion, Flags};
use super::rounding::{Rest, Rounding};
use super::sink::{Output, Sink};

/// Bits of an `f64`'s fraction.
const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;

/// A value taken apart.
enum Class {
    /// `inf` or `nan`.
    Special([u8; 3]),
    /// mantissa · 2^exponent.
    Finite { mantissa: u64, exponent: i32 },
}

/// Takes the absolute value apart.
fn classify(value: f64) -> Class {
    let bits = value.to_bits();
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    match (bits >> FRACTION_BITS) as i32 & 0x7ff {
        0x7ff if fraction == 0 => Class::Special(*b"inf"),
        0x7ff => Class::Special(*b"nan"),
        0 => Class::Finite { mantissa: fraction, exponent: -1074 },
        biased => Class::Finite { mantissa: fraction | 1 << FRACTION_BITS, exponent: biased - 1075 },
    }
}

/// `inf`, `nan` and their capitals. They are padded with spaces only.
fn special<S: Sink + ?Sized>(
    output: &mut Output<'_, S>,
    directive: &Directive,
    sign: Option<u8>,
    mut name: [u8; 3],
) {
    if directive.upper {
        name.make_ascii_uppercase();
    }
    let trailing = directive.open(output, sign.as_slice(), name.len() as u64, false);
    output.write(&name);
    output.fill(b' ', trailing);
}

/// `%f`, `%e`, `%g` and their capitals.
pub(super) fn decimal<S: Sink + ?Sized>(output: &mut Output<'_, S>, directive: &Directive, value: f64) {
    let sign = directive.sign(value.is_sign_negative());
    let (mantissa, exponent) = match classify(value) {
        Class::Special(name) => return special(output, directive, sign, name),
        Class::Finite { mantissa, exponent } => (mantissa, exponent),
    };
    let precision = directive.precision.unwrap_or(6);
    let cut = match directive.conversion {
        Conversion::Fixed => Cut::Places(precision),
        Conversion::Exponent => Cut::Digits(precision + 1),
        _ => Cut::Digits(precision.max(1)),
    };
    let rounding = Rounding::current(value.is_sign_negative());
    match quick(mantissa, exponent, cut, rounding) {
        Some(quick) => layout(output, directive, sign, precision, &quick.decimal()),
        None => slow(output, directive, sign, precision, (mantissa, exponent), (cut, rounding)),
    }
}

/// The way of [`Big`], apart so that only it pays for a big number's stack.
#[inline(never)]
fn slow<S: Sink + ?Sized>(
    output: &mut Output<'_, S>,
    directive: &Directive,
    sign: Option<u8>,
    precision: u32,
    (mantissa, exponent): (u64, i32),
    (cut, rounding): (Cut, Rounding),
) {
    let mut big = Big::ZERO;
    big.set(mantissa, exponent);
    big.round(cut, rounding);
    layout(output, directive, sign, precision, &big.decimal());
}

/// Where a number is rounded.
#[derive(Clone, Copy)]
pub(super) enum Cut {
    /// So many digits after the point.
    Places(u32),
    /// So many significant digits.
    Digits(u32),
}

/// `limbs` · 10^-`scale`. A digit's weight is the power of ten it stands for.
pub(super) struct Decimal<'a> {
    /// Nine decimal digits each, the lowest first.
    pub(super) limbs: &'a [u32],
    pub(super) scale: i64,
}

impl Decimal<'_> {
    /// The weight of the first digit that is not 0; 0 if there is none.
    pub(super) fn lead(&self) -> i64 {
        let Some(top) = self.limbs.iter().rposition(|&limb| limb != 0) else { return 0 };
        let limb = self.limbs.get(top).copied().unwrap_or(0);
        top as i64 * 9 + i64::from(limb.checked_ilog10().unwrap_or(0)) - self.scale
    }
    /// The weight of the last digit that is not 0; 0 if there is none.
    fn tail(&self) -> i64 {
        let Some(bottom) = self.limbs.iter().position(|&limb| limb != 0) else { return 0 };
        let mut limb = self.limbs.get(bottom).copied().unwrap_or(0);
        let mut weight = bottom as i64 * 9 - self.scale;
        // Ends within nine turns: the limb is not 0.
        while limb % 10 == 0 && limb != 0 {
            limb /= 10;
            weight += 1;
        }
        weight
    }
    /// Writes `count` digits, the first of which has the weight `first`; 0 where the number has no digits.
    fn write<S: Sink + ?Sized>(&self, output: &mut Output<'_, S>, first: i64, mut count: u64) {
        // Digits from here down to the lowest limb's last, itself included.
        let mut position = first + self.scale + 1;
        let top = self.limbs.len() as i64 * 9;
        if position > top {
            let zeros = (position - top).cast_unsigned().min(count);
            output.fill(b'0', zeros);
            count -= zeros;
            position = top;
        }
        let mut position = usize::try_from(position).unwrap_or(0);
        // Ends: each turn finishes a limb.
        while count > 0 && position > 0 {
            let digits = (position - 1) % 9 + 1;
            position -= digits;
            let text = nine(self.limbs.get(position / 9).copied().unwrap_or(0));
            let text = text.get(9 - digits..).unwrap_or_default();
            let text = text.get(..count.min(digits as u64) as usize).unwrap_or_default();
            output.write(text);
            count -= text.len() as u64;
        }
        output.fill(b'0', count);
    }
}

/// A limb's nine digits.
fn nine(mut limb: u32) -> [u8; 9] {
    let mut text = [b'0'; 9];
    for place in text.iter_mut().rev() {
        *place = b'0' + (limb % 10) as u8;
        limb /= 10;
    }
    text
}

/// Writes a rounded number in the style of the conversion.
#[inline(never)]
fn layout<S: Sink + ?Sized>(
    output: &mut Output<'_, S>,
    directive: &Directive,
    sign: Option<u8>,
    precision: u32,
    number: &Decimal<'_>,
) {
    let lead = number.lead();
    let alternate = directive.flags.has(Flags::ALTERNATE);
    let (scientific, places) = match directive.conversion {
        Conversion::Fixed => (false, i64::from(precision)),
        Conversion::Exponent => (true, i64::from(precision)),
        _ => {
            let digits = i64::from(precision.max(1));
            let scientific = lead < -4 || lead >= digits;
            let first = if scientific { lead } else { 0 };
            // Without `#`, %g drops the zeros at the end.
            let last = if alternate { lead - digits + 1 } else { number.tail() };
            (scientific, (first - last).max(0))
        }
    };
    let places = places.cast_unsigned();
    // The first digit's weight, and how many digits come before the point.
    let (first, whole) = if scientific { (lead, 1) } else { (lead.max(0), lead.max(0).cast_unsigned() + 1) };
    let mut suffix = Exponent::NONE;
    if scientific {
        suffix = Exponent::new(if directive.upper { b'E' } else { b'e' }, lead as i32, 2);
    }
    let suffix = suffix.as_bytes();
    let point: &[u8] = if places > 0 || alternate { b"." } else { b"" };
    let length = whole + point.len() as u64 + places + suffix.len() as u64;

    let trailing = directive.open(output, sign.as_slice(), length, true);
    number.write(output, first, whole);
    output.write(point);
    number.write(output, first - whole.cast_signed(), places);
    output.write(suffix);
    output.fill(b' ', trailing);
}

/// The text of an exponent: a letter, a sign, and at least some digits.
struct Exponent {
    /// A letter, a sign and up to four digits, from `start` on.
    text: [u8; 6],
    start: usize,
}

impl Exponent {
    /// No exponent.
    const NONE: Self = Self { text: [0; 6], start: 6 };
    /// `value`, with at least `least` ≤ 4 digits. |`value`| < 10000.
    fn new(letter: u8, value: i32, least: usize) -> Self {
        let mut rest = value.unsigned_abs();
        let mut exponent = Self::NONE;
        for count in 0..4 {
            if rest == 0 && count >= least {
                break;
            }
            exponent.push(b'0' + (rest % 10) as u8);
            rest /= 10;
        }
        exponent.push(if value < 0 { b'-' } else { b'+' });
        exponent.push(letter);
        exponent
    }
    /// Puts a byte in front.
    fn push(&mut self, byte: u8) {
        self.start = self.start.saturating_sub(1);
        if let Some(place) = self.text.get_mut(self.start) {
            *place = byte;
        }
    }
    fn as_bytes(&self) -> &[u8] {
        self.text.get(self.start..).unwrap_or_default()
    }
}

/// 10^0 to 10^18.
pub(super) static POWERS_OF_TEN: [u64; 19] = powers(10);
/// 5^0 to 5^27, which is below 2^63.
static POWERS_OF_FIVE: [u64; 28] = powers(5);

const fn powers<const N: usize>(base: u64) -> [u64; N] {
    let mut powers = [1; N];
    let mut index = 1;
    while index < N {
        powers[index] = powers[index - 1] * base;
        index += 1;
    }
    powers
}

const BASE: u64 = 1_000_000_000;

/// A rounded number of a few limbs.
struct Quick {
    limbs: [u32; 5],
    scale: i64,
}

impl Quick {
    /// `whole` + `fraction` · 10^-18, with `fraction` < 10^18.
    const fn fixed(whole: u64, fraction: u64) -> Self {
        let high = whole / BASE;
        Self {
            limbs: [
                (fraction % BASE) as u32,
                (fraction / BASE) as u32,
                (whole % BASE) as u32,
                (high % BASE) as u32,
                (high / BASE) as u32,
            ],
            scale: 18,
        }
    }
    /// `number` · 10^-`scale`, with `number` ≤ 10^18.
    const fn scaled(number: u64, scale: i64) -> Self {
        let high = number / BASE;
        Self { limbs: [(number % BASE) as u32, (high % BASE) as u32, (high / BASE) as u32, 0, 0], scale }
    }
    fn decimal(&self) -> Decimal<'_> {
        Decimal { limbs: &self.limbs, scale: self.scale }
    }
}

/// Rounds `mantissa` · 2^`exponent` where 128 bits hold every intermediate result exactly; `None` where they may not.
fn quick(mantissa: u64, exponent: i32, cut: Cut, rounding: Rounding) -> Option<Quick> {
    if mantissa == 0 {
        return Some(Quick { limbs: [0; 5], scale: 0 });
    }
    // An odd mantissa makes the exponent as near to 0 as it can be.
    let zeros = mantissa.trailing_zeros();
    let (mantissa, exponent) = (mantissa >> zeros, exponent + zeros.cast_signed());
    match cut {
        Cut::Places(places) => quick_places(mantissa, exponent, places, rounding),
        Cut::Digits(digits) => quick_digits(mantissa, exponent, digits, rounding),
    }
}

/// `mantissa` · 2^`exponent` as a whole number below 2^64 and what is left over, in units of 2^`exponent`.
fn split(mantissa: u64, exponent: i32) -> Option<(u64, u64)> {
    if exponent >= 0 {
        let whole = mantissa.checked_shl(exponent.unsigned_abs())?;
        // Nothing was shifted out.
        return (whole >> exponent == mantissa).then_some((whole, 0));
    }
    let whole = mantissa.checked_shr(exponent.unsigned_abs()).unwrap_or(0);
    let fraction = if whole == 0 { mantissa } else { mantissa - (whole << exponent.unsigned_abs()) };
    Some((whole, fraction))
}

/// Divides by 2^`shift`, 1 ≤ `shift` ≤ 127: the quotient, and what is left.
fn halve(product: u128, shift: u32) -> (u64, Rest) {
    let remainder = product & ((1 << shift) - 1);
    ((product >> shift) as u64, Rest { half: remainder.cmp(&(1 << (shift - 1))), zero: remainder == 0 })
}

/// Rounds to `places` ≤ 18 digits after the point.
fn quick_places(mantissa: u64, exponent: i32, places: u32, rounding: Rounding) -> Option<Quick> {
    let unit = *POWERS_OF_TEN.get(places as usize)?;
    let (mut whole, fraction) = split(mantissa, exponent)?;
    if fraction != 0 && exponent <= -128 && rounding == Rounding::Away {
        return None;
    }
    // With 128 or more bits after the point the value is below 2^-75, and so below half of any last digit here.
    if fraction == 0 || exponent <= -128 {
        return Some(Quick::fixed(whole, 0));
    }
    // Below 2^53 · 10^18. The quotient is below `unit`, as the fraction is below 1.
    let (mut digits, remainder) = halve(u128::from(fraction) * u128::from(unit), exponent.unsigned_abs());
    let odd = if places == 0 { whole & 1 == 1 } else { digits & 1 == 1 };
    digits += u64::from(rounding.rounds_up(remainder, odd));
    if digits == unit {
        digits = 0;
        // There is a fraction, so this is below 2^53.
        whole += 1;
    }
    Some(Quick::fixed(whole, digits * POWERS_OF_TEN.get(18 - places as usize)?))
}

/// Rounds to `digits` ≤ 18 significant digits.
fn quick_digits(mantissa: u64, exponent: i32, digits: u32, rounding: Rounding) -> Option<Quick> {
    let above = *POWERS_OF_TEN.get(digits as usize)?;
    let least = *POWERS_OF_TEN.get((digits as usize).checked_sub(1)?)?;
    let bits = i64::from(mantissa.ilog2()) + i64::from(exponent);
    // ⌊log₁₀ 2^bits⌋, or one off.
    let mut lead = (bits * 78_913) >> 18;
    for _ in 0..3 {
        let scale = i64::from(digits) - 1 - lead;
        let (mut number, remainder) = scaled(mantissa, exponent, scale)?;
        if number >= above {
            lead += 1;
        } else if number < least {
            lead -= 1;
        } else {
            number += u64::from(rounding.rounds_up(remainder, number & 1 == 1));
            return Some(Quick::scaled(number, scale));
        }
    }
    None
}

/// ⌊`mantissa` · 2^`exponent` · 10^`scale`⌋, where that is below 10^20, and what is left; `None` where it
/// takes more than 128 bits.
fn scaled(mantissa: u64, exponent: i32, scale: i64) -> Option<(u64, Rest)> {
    if scale >= 0 {
        let scale = usize::try_from(scale).ok()?;
        // Below 2^53 · 2^63.
        let product = u128::from(mantissa) * u128::from(*POWERS_OF_FIVE.get(scale)?);
        let exponent = exponent + scale as i32;
        return match exponent {
            0.. => Some((u64::try_from(product.checked_shl(exponent.unsigned_abs())?).ok()?, NOTHING)),
            -127..0 => Some(halve(product, exponent.unsigned_abs())),
            _ => None,
        };
    }
    let unit = *POWERS_OF_TEN.get(usize::try_from(-scale).ok()?)?;
    let (whole, fraction) = split(mantissa, exponent)?;
    let remainder = whole.checked_rem(unit)?;
    let half = remainder.cmp(&(unit / 2));
    // What follows the point breaks a tie.
    let half = if fraction == 0 { half } else { half.then(core::cmp::Ordering::Greater) };
    Some((whole.checked_div(unit)?, Rest { half, zero: remainder == 0 && fraction == 0 }))
}

const NOTHING: Rest = Rest { half: core::cmp::Ordering::Less, zero: true };

/// `%a` and `%A`, with glibc's choice of digits: the first is 1, or 0 for zero and subnormals, before rounding.
pub(super) fn hexadecimal<S: Sink + ?Sized>(output: &mut Output<'_, S>, directive: &Directive, value: f64) {
    const NIBBLES: u32 = FRACTION_BITS / 4;
    let sign = directive.sign(value.is_sign_negative());
    let (mut mantissa, exponent) = match classify(value) {
        Class::Special(name) => return special(output, directive, sign, name),
        Class::Finite { mantissa: 0, .. } => (0, 0),
        Class::Finite { mantissa, exponent } => (mantissa, exponent + FRACTION_BITS.cast_signed()),
    };
    let kept = match directive.precision {
        Some(precision) => precision.min(NIBBLES),
        // As many as it takes.
        None => NIBBLES - (mantissa.trailing_zeros() / 4).min(NIBBLES),
    };
    if kept < NIBBLES {
        let (digits, remainder) = halve(u128::from(mantissa), 4 * (NIBBLES - kept));
        let up = Rounding::current(value.is_sign_negative()).rounds_up(remainder, digits & 1 == 1);
        mantissa = (digits + u64::from(up)) << (4 * (NIBBLES - kept));
    }
    let zeros = u64::from(directive.precision.unwrap_or(0).saturating_sub(NIBBLES));

    let ten = if directive.upper { b'A' } else { b'a' };
    let mut digits = [0; NIBBLES as usize];
    for (index, place) in (0..).zip(&mut digits) {
        let digit = (mantissa >> (4 * (NIBBLES - 1 - index))) as u8 & 0xf;
        *place = if digit < 10 { b'0' + digit } else { ten + (digit - 10) };
    }
    let digits = digits.get(..kept as usize).unwrap_or_default();
    let first = [b'0' + (mantissa >> FRACTION_BITS) as u8];
    let suffix = Exponent::new(if directive.upper { b'P' } else { b'p' }, exponent, 1);
    let suffix = suffix.as_bytes();
    let point: &[u8] =
        if kept > 0 || zeros > 0 || directive.flags.has(Flags::ALTERNATE) { b"." } else { b"" };
    let mark = if directive.upper { b'X' } else { b'x' };
    let prefix = [sign.unwrap_or(0), b'0', mark];
    let prefix = prefix.get(usize::from(sign.is_none())..).unwrap_or_default();

    let length = 1 + (point.len() + digits.len() + suffix.len()) as u64 + zeros;
    let trailing = directive.open(output, prefix, length, true);
    output.write(&first);
    output.write(point);
    output.write(digits);
    output.fill(b'0', zeros);
    output.write(suffix);
    output.fill(b' ', trailing);
}

#[cfg(test)]
mod tests {
    use std::string::String;

    use super::super::sink::{Output, SliceSink};
    use super::{Big, Class, Cut, Decimal, Rounding, classify, quick};

    /// The digits from the weight 20 down to −25, of which a quick number has no other.
    fn text(decimal: &Decimal<'_>) -> String {
        let mut text = [0; 46];
        decimal.write(&mut Output::new(&mut SliceSink::new(&mut text)), 20, 46);
        String::from_utf8(text.to_vec()).unwrap()
    }

    /// What most programs print takes no big number, and is rounded as that would be: also where the first guess of the exponent is one too low
    /// (10, 0.0019), and where all digits are before the point or behind it.
    #[test]
    fn common_values_are_rounded_in_registers_as_the_big_ones_are() {
        let values = [
            0.001,
            0.0019,
            0.01,
            0.1,
            0.3,
            0.5,
            0.999_999,
            1.0,
            1.5,
            2.5,
            3.0,
            9.5,
            10.0,
            33.25,
            99.999,
            100.0,
            1234.5,
            65_535.0,
            1e6,
            123_456_789.125,
            1e9,
            4_294_967_295.0,
            1e12,
            1e15,
            9_007_199_254_740_991.0,
        ];
        let cuts = || (0..=18).map(Cut::Places).chain((1..=18).map(Cut::Digits));
        let roundings = [Rounding::Nearest, Rounding::Away, Rounding::Truncate];
        for value in values {
            let Class::Finite { mantissa, exponent } = classify(value) else { panic!("{value}") };
            for (cut, rounding) in cuts().flat_map(|cut| roundings.map(|rounding| (cut, rounding))) {
                let mut big = Big::ZERO;
                big.set(mantissa, exponent);
                big.round(cut, rounding);
                let quick = quick(mantissa, exponent, cut, rounding);
                let quick = quick.map(|quick| text(&quick.decimal()));
                assert_eq!(
                    quick,
                    Some(text(&big.decimal())),
                    "{value}: {}",
                    match cut {
                        Cut::Places(places) => format!("{places} places"),
                        Cut::Digits(digits) => format!("{digits} digits"),
                    }
                );
            }
        }
    }
}
