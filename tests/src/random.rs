//! Random numbers that a seed repeats.

/// The splitmix64 generator (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }
    /// A number below `limit`, which is at least 1.
    pub fn below(&mut self, limit: usize) -> usize {
        let wide = u128::from(self.bits()) * limit as u128;
        (wide >> 64) as usize
    }
    /// True once in `count` times.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
    /// One of `items`, of which there is at least one.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// `len` bytes that `salt` repeats: many lines, some NULs, all values.
#[must_use]
pub fn text(salt: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(salt);
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
