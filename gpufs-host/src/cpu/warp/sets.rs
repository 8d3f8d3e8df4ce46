//! Sets of lanes, and how they are shown.

use std::cell::Cell;
use std::fmt;

/// A set of lanes in a cell.
#[derive(Debug, Default)]
pub(in crate::cpu) struct LaneSet(Cell<u64>);

impl LaneSet {
    #[inline]
    pub(in crate::cpu) fn mask(&self) -> u64 {
        self.0.get()
    }
    #[inline]
    pub(in crate::cpu) fn is_empty(&self) -> bool {
        self.0.get() == 0
    }
    #[inline]
    pub(in crate::cpu) fn contains(&self, lane: u32) -> bool {
        self.0.get() >> lane & 1 == 1
    }
    #[inline]
    pub(in crate::cpu) fn insert(&self, lanes: u64) {
        self.0.set(self.0.get() | lanes);
    }
    #[inline]
    pub(in crate::cpu) fn remove(&self, lanes: u64) {
        self.0.set(self.0.get() & !lanes);
    }
    #[inline]
    pub(in crate::cpu) fn take(&self) -> u64 {
        self.0.take()
    }
}

/// The lanes of `mask` in ascending order.
pub(in crate::cpu) fn lanes_of(mask: u64) -> impl Iterator<Item = u32> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let lane = rest.trailing_zeros();
            rest &= rest - 1;
            lane
        })
    })
}

/// Lanes as people write them: `{0-3, 7}`.
#[derive(Debug)]
pub(in crate::cpu) struct Names(pub(in crate::cpu) u64);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        let mut rest = u128::from(self.0);
        while rest != 0 {
            let first = rest.trailing_zeros();
            let last = first + (rest >> first).trailing_ones() - 1;
            let separator = if u128::from(self.0).trailing_zeros() == first { "" } else { ", " };
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            rest &= u128::MAX << (last + 1);
        }
        f.write_str("}")
    }
}
