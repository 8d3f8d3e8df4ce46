//! Exact decimal expansions: natural numbers in base 10⁹, long enough for every `f64`.

use super::float::{Cut, Decimal, POWERS_OF_TEN};

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
    /// `mantissa` · 2^`exponent`, exactly. `mantissa` < 2⁵³, −1074 ≤ `exponent` ≤ 971.
    pub(super) fn new(mantissa: u64, exponent: i32) -> Self {
        let mut big = Self { limbs: [0; LIMBS], length: 2, scale: 0 };
        big.limbs[0] = (mantissa % BASE) as u32;
        big.limbs[1] = (mantissa / BASE) as u32;
        if exponent >= 0 {
            big.multiply_by_power(2, 29, exponent.unsigned_abs());
        } else {
            // m · 2^-s = m · 5^s · 10^-s
            big.multiply_by_power(5, 12, exponent.unsigned_abs());
            big.scale = -i64::from(exponent);
        }
        big
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
    /// Rounds to the nearest number that has no digits beyond the cut, half to even.
    pub(super) fn round(&mut self, cut: Cut) {
        let last = match cut {
            Cut::Places(places) => -i64::from(places),
            Cut::Digits(digits) => self.decimal().lead() - i64::from(digits) + 1,
        };
        // How many of the limbs' digits go.
        let Ok(dropped @ 1..) = u32::try_from(last + self.scale) else { return };
        let index = (dropped / 9) as usize;
        let unit = POWERS_OF_TEN[(dropped % 9) as usize] as u32;
        let limb = self.limbs.get(index).copied().unwrap_or(0);
        // The first limb that is dropped, whole or in part; what one unit of the last digit kept is in it; and how many
        // limbs lie below.
        let (part, whole, below) = if unit > 1 {
            (limb % unit, unit, index)
        } else {
            (self.limbs.get(index - 1).copied().unwrap_or(0), BASE as u32, index - 1)
        };
        let sticky = self.limbs.iter().take(below).any(|&limb| limb != 0);
        let odd = limb / unit % 2 == 1;
        let up = part > whole / 2 || part == whole / 2 && (sticky || odd);

        self.limbs.iter_mut().take(index).for_each(|limb| *limb = 0);
        if let Some(place) = self.limbs.get_mut(index) {
            *place = limb - limb % unit;
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
