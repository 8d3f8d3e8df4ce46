//! The one source of chance in a run: SplitMix64 (Steele, Lea, Flood 2014), so that a seed is a run.

#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }
    pub(crate) const fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
    /// A number below `end`, which is not 0.
    pub(crate) const fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }
    /// True once in `times`; never for 0.
    pub(crate) const fn once_in(&mut self, times: u32) -> bool {
        times != 0 && self.word().is_multiple_of(times as u64)
    }
    /// One of the indices at which `wanted` holds.
    pub(crate) fn index_where<T>(&mut self, items: &[T], wanted: impl Fn(&T) -> bool) -> Option<usize> {
        let found: Vec<usize> =
            items.iter().enumerate().filter(|(_, item)| wanted(item)).map(|(index, _)| index).collect();
        (!found.is_empty()).then(|| found[self.below(found.len())])
    }
}
