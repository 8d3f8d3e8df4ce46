//! Sizes of a stack, where its weights lie, and the arithmetic of single numbers, which the host does as well.

use gpufs_device::portable;

use crate::kernels::mixed;

portable! {
    /// Sizes of a stack of layers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Shape {
        /// Layers.
        pub layers: u64,
        /// Experts of a layer.
        pub experts: u64,
        /// How many of them a token needs.
        pub chosen: u64,
        /// Numbers of a state: a multiple of 16.
        pub hidden: u64,
        /// Numbers between an expert's matrices: a multiple of 16.
        pub inner: u64,
    }
}

impl Shape {
    /// Bytes of a router.
    #[must_use]
    pub const fn router_bytes(&self) -> u64 {
        self.experts * self.hidden
    }
    /// Bytes of one of an expert's three matrices.
    #[must_use]
    pub const fn matrix_bytes(&self) -> u64 {
        self.hidden * self.inner
    }
    /// Bytes of an expert: `gate` and `up`, of `inner` rows, and `down`, of `hidden` rows.
    #[must_use]
    pub const fn expert_bytes(&self) -> u64 {
        3 * self.matrix_bytes()
    }
    /// Where an expert begins, in bytes from the first.
    #[must_use]
    pub const fn place(&self, layer: u64, expert: u64) -> u64 {
        (layer * self.experts + expert) * self.expert_bytes()
    }
    /// The next state's number, of the last state's, the token's, and the weighted sum over the chosen experts.
    #[must_use]
    pub fn mixed(&self, state: i8, token: i8, sum: i64) -> i8 {
        let weights: i64 = (0..self.chosen).map(|place| weight_of_place(place, self.chosen)).sum();
        let experts = (sum / weights) >> shift(self.inner);
        clamped(i64::from(state) / 2 + i64::from(token) / 2 + experts)
    }
}

/// How much a chosen expert counts, by its place among the `chosen`.
#[inline]
#[must_use]
pub const fn weight_of_place(place: u64, chosen: u64) -> i64 {
    (chosen - place) as i64
}

/// Sums of so many products are about as large as a number, times 2 to the power of this.
#[inline]
const fn shift(count: u64) -> u32 {
    6 + count.ilog2() / 2
}

#[inline]
fn clamped(number: i64) -> i8 {
    number.clamp(-127, 127) as i8
}

/// What `gate` lets through of `up`: products of rows and a state of `hidden` numbers.
#[inline]
#[must_use]
pub fn activation(gate: i64, up: i64, hidden: u64) -> i8 {
    let (gate, up) = (gate >> shift(hidden), up >> shift(hidden));
    if gate <= 0 { 0 } else { clamped(2 * gate * up / (gate + up.abs())) }
}

/// Number `index` of a token, which stands for a word.
#[inline]
#[must_use]
pub const fn token(token: u64, index: u64) -> i8 {
    (mixed(mixed(token) ^ index) % 255) as i8
}

/// The product of sixteen numbers and sixteen others.
#[inline]
#[must_use]
pub fn dot(left: u128, right: u128) -> i32 {
    let pairs = left.to_le_bytes().into_iter().zip(right.to_le_bytes());
    pairs.map(|(left, right)| i32::from(left.cast_signed()) * i32::from(right.cast_signed())).sum()
}
