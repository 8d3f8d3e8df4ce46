//! Exact decimal expansions: natural numbers in base 10⁹, long enough for every `f64`.

use super::float::{Cut, Decimal, POWERS_OF_TEN};
use super::rounding::{Rest, Rounding};

const BASE: u64 = 1_000_000_000;

/// Limbs for the longest number: m · 5¹⁰⁷⁴ with m < 2⁵³ has 767 digits. Rounding adds at most one.
const LIMBS: usize = 86;

/// A natural number and a scale: `limbs` · 10^-`scale`.
pub(super) struct Big {
    /// Nine decimal digits each, the lowest first; those from `length` on are 0.
    limbs: [u32; LIMBS],
    length: usize,
    scale: i64,
}

impl Big {
    /// Zero, from which [`Big::set`] makes the others in place: a big number is too big to move around.
    pub(super) const ZERO: Self = Self { limbs: [0; LIMBS], length: 0, scale: 0 };

    /// Turns zero into `mantissa` · 2^`exponent`, exactly. `mantissa` < 2⁵³, −1074 ≤ `exponent` ≤ 971.
    pub(super) fn set(&mut self, mantissa: u64, exponent: i32) {
        self.limbs[0] = (mantissa % BASE) as u32;
        self.limbs[1] = (mantissa / BASE) as u32;
        self.length = 2;
        if exponent >= 0 {
            self.multiply_by_power(2, 29, exponent.unsigned_abs());
        } else {
            // m · 2^-s = m · 5^s · 10^-s
            self.multiply_by_power(5, 12, exponent.unsigned_abs());
            self.scale = -i64::from(exponent);
        }
    }
    /// Multiplies by `base`^`power`, where `base`^`step` < 10⁹.
    fn multiply_by_power(&mut self, base: u32, step: u32, mut power: u32) {
        let factor = base.pow(step);
        while power >= step {
            self.multiply(factor);
            power -= step;
        }
        self.multiply(base.pow(power));
    }
    /// Multiplies by `factor` < 10⁹.
    fn multiply(&mut self, factor: u32) {
        let mut carry: u64 = 0;
        for limb in self.limbs.iter_mut().take(self.length) {
            // Below 10⁹ · `factor`, so the carry stays below `factor` and is a limb.
            let product = u64::from(*limb) * u64::from(factor) + carry;
            *limb = (product % BASE) as u32;
            carry = product / BASE;
        }
        self.push(carry as u32);
    }
    /// Puts a limb on top, unless it is 0.
    fn push(&mut self, limb: u32) {
        if limb == 0 {
            return;
        }
        // There is always room: `LIMBS` holds the longest number.
        if let Some(place) = self.limbs.get_mut(self.length) {
            *place = limb;
            self.length += 1;
        }
    }
    /// The number as it stands.
    pub(super) fn decimal(&self) -> Decimal<'_> {
        Decimal { limbs: self.limbs.get(..self.length).unwrap_or_default(), scale: self.scale }
    }
    /// Rounds to a number that has no digits beyond the cut. It is not zero.
    pub(super) fn round(&mut self, cut: Cut, rounding: Rounding) {
        let last = match cut {
            Cut::Places(places) => -i64::from(places),
            Cut::Digits(digits) => self.decimal().lead() - i64::from(digits) + 1,
        };
        // How many of the limbs' digits go.
        let Ok(dropped @ 1..) = u32::try_from(last + self.scale) else { return };
        let index = (dropped / 9) as usize;
        if rounding == Rounding::Away && index >= self.length {
            // All of it goes, and it becomes a unit of the last digit kept.
            self.limbs.iter_mut().take(self.length).for_each(|limb| *limb = 0);
            self.limbs[0] = 1;
            (self.length, self.scale) = (1, -last);
            return;
        }
        let unit = POWERS_OF_TEN[(dropped % 9) as usize] as u32;
        let limb = self.limbs.get(index).copied().unwrap_or(0);
        // The first limb that is dropped, whole or in part; what one unit of the last digit kept is in it; and how many
        // limbs lie below.
        let (part, whole, below) = if unit > 1 {
            (limb.checked_rem(unit).unwrap_or(0), unit, index)
        } else {
            (self.limbs.get(index - 1).copied().unwrap_or(0), BASE as u32, index - 1)
        };
        let sticky = self.limbs.iter().take(below).any(|&limb| limb != 0);
        let odd = limb.checked_div(unit).unwrap_or(0) % 2 == 1;
        let half = part.cmp(&(whole / 2));
        let half = if sticky { half.then(core::cmp::Ordering::Greater) } else { half };
        let up = rounding.rounds_up(Rest { half, zero: part == 0 && !sticky }, odd);

        self.limbs.iter_mut().take(index).for_each(|limb| *limb = 0);
        if let Some(place) = self.limbs.get_mut(index) {
            *place = limb - limb.checked_rem(unit).unwrap_or(0);
        }
        if up {
            self.add(index, unit);
        }
    }
    /// Adds `value` ≤ 10⁹ · 9/10 to the limb at `index` ≤ `length`.
    fn add(&mut self, index: usize, value: u32) {
        let mut carry = value;
        for limb in self.limbs.iter_mut().take(self.length).skip(index) {
            let sum = *limb + carry;
            carry = u32::from(u64::from(sum) >= BASE);
            *limb = if carry == 1 { sum - BASE as u32 } else { sum };
        }
        self.push(carry);
    }
}

#[cfg(test)]
mod tests {
    use super::{Big, Cut, Rounding};

    /// Numbers that lie below the last digit kept, also where they fill all limbs: they become a unit of that digit.
    #[test]
    fn less_than_a_unit_rounds_away_to_a_unit() {
        for (mantissa, exponent) in [(1 << 52, -1074), ((1 << 53) - 1, -1074), (1, -1074), (3, -200)] {
            let mut exact = Big::ZERO;
            exact.set(mantissa, exponent);
            let first = exact.decimal().lead();
            for places in 1..u32::try_from(-first).unwrap() {
                let mut big = Big::ZERO;
                big.set(mantissa, exponent);
                big.round(Cut::Places(places), Rounding::Away);
                let decimal = big.decimal();
                let sum: u64 = decimal.limbs.iter().map(|&limb| u64::from(limb)).sum();
                assert_eq!(decimal.lead(), -i64::from(places), "{mantissa} 2^{exponent}, {places} places");
                assert_eq!(sum.to_string().trim_end_matches('0'), "1");
            }
        }
    }
}
