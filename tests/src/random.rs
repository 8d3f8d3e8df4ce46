//! Random numbers that a seed repeats.

use std::cell::{Cell, RefCell};

/// The splitmix64 generator (Steele, Lea, Flood: "Fast splittable pseudorandom number generators"), behind bytes that were given.
#[derive(Clone, Debug)]
pub struct Random {
    state: Cell<u64>,
    /// What comes first, from the end.
    given: RefCell<Vec<u8>>,
}

impl Random {
    /// The generator of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: Cell::new(seed), given: RefCell::new(Vec::new()) }
    }
    /// The generator that first gives these bytes, eight at a time: whoever chooses them makes the choices.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let given = RefCell::new(bytes.iter().rev().copied().collect());
        Self { given, ..Self::new(bytes.len() as u64) }
    }
    /// The generator of case `index` of a seed.
    #[must_use]
    pub const fn of_case(seed: u64, index: u64) -> Self {
        Self::new(seed.wrapping_add(index.wrapping_mul(0xd134_2543_de82_ef95)))
    }
    /// The next 64 bits.
    pub fn bits(&self) -> u64 {
        let mut given = self.given.borrow_mut();
        if !given.is_empty() {
            // The bits that choices look at first are those of the first byte.
            return (0..8).fold(0, |word, _| word << 8 | u64::from(given.pop().unwrap_or(0)));
        }
        let mut value = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.set(value);
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }
    /// A number below `limit`, which is at least 1.
    pub fn below(&self, limit: usize) -> usize {
        self.word_below(limit as u64) as usize
    }
    /// The same in 64 bits.
    pub fn word_below(&self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }
    /// True once in `count` times.
    pub fn one_in(&self, count: usize) -> bool {
        self.below(count) == 0
    }
    /// One of `items`, of which there is at least one.
    pub fn pick<T: Copy>(&self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// `len` bytes that `salt` repeats: many lines, some NULs, all values.
#[must_use]
pub fn text(salt: u64, len: usize) -> Vec<u8> {
    let random = Random::new(salt);
    let byte = |word: u64| match (word & 0xff, word >> 8 & 0xff) {
        (0..16, _) => b'\n',
        (16..20, _) => 0,
        (20..60, value) => value as u8,
        (_, value) => b'a' + (value % 26) as u8,
    };
    let mut bytes = Vec::with_capacity(len + 4);
    while bytes.len() < len {
        let word = random.bits();
        bytes.extend([0, 16, 32, 48].map(|shift| byte(word >> shift)));
    }
    bytes.truncate(len);
    bytes
}
