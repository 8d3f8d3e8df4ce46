//! Memory that the host registered, which calls use in place.

use crate::word::{DeviceWord, DeviceWord64};

/// Memory that the host registered with every ring.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Region {
    /// First address.
    pub address: DeviceWord64,
    /// Length in bytes; 0 for an unused entry.
    pub bytes: DeviceWord64,
    /// Index under which every ring has it.
    pub buffer_index: DeviceWord,
}

/// [`Resources::region_of`](crate::resources::Resources::region_of), in a table that is filled from its start.
///
/// Selects instead of returning early, and stands alone: lanes of a warp leave it together, and what it looks at stays in registers.
#[inline(never)]
pub(crate) fn region_among(regions: &[Region], address: u64, bytes: u64) -> Option<u32> {
    /// Regions that are looked at with one trip to memory.
    const AT_ONCE: usize = 4;
    let mut found = None;
    let mut next = 0;
    // Ends: `next` grows.
    while next < regions.len() {
        let mut seen = [(0, 0, 0); AT_ONCE];
        // By index: written out, it stays in registers.
        for offset in 0..AT_ONCE {
            // Past the table's end it is its last entry again.
            let region = &regions[(next + offset).min(regions.len() - 1)];
            // ORDERING: relaxed: regions change only while no kernel runs.
            seen[offset] = (region.address.peek(), region.bytes.peek(), region.buffer_index.peek());
        }
        #[expect(clippy::needless_range_loop, reason = "an iterator over the array keeps it in memory")]
        for offset in 0..AT_ONCE {
            let (start, length, index) = seen[offset];
            let begins = start != 0 && address >= start && bytes <= length;
            if begins && address.wrapping_sub(start) <= length.wrapping_sub(bytes) {
                found = Some(index);
            }
        }
        let last = found.is_some() || seen[AT_ONCE - 1].0 == 0;
        next = if last { regions.len() } else { next + AT_ONCE };
    }
    found
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::{Region, region_among};
    use crate::word::{DeviceWord, DeviceWord64};

    proptest! {
        /// Tables of every fill, beside a look at one region after the other; addresses and lengths around the regions' ends and the largest.
        #[test]
        fn finds_the_region_that_holds_all(
            lengths in prop::collection::vec(1_u64..100, 0..10),
            free in 0_usize..3,
            near in 0_usize..10,
            offset in -3_i64..103,
            bytes in prop_oneof![0_u64..104, Just(u64::MAX), Just(u64::MAX - 1000)],
        ) {
            let at = |index: usize| 1000 + 200 * index as u64;
            let regions: Vec<Region> = (0..lengths.len() + free)
                .map(|index| {
                    let length = lengths.get(index).copied();
                    Region {
                        address: DeviceWord64::new(length.map_or(0, |_| at(index))),
                        bytes: DeviceWord64::new(length.unwrap_or(0)),
                        buffer_index: DeviceWord::new(70 + u32::try_from(index).unwrap()),
                    }
                })
                .collect();
            let address = at(near).wrapping_add_signed(offset);
            let holds = |index: &usize| {
                let (start, end) = (u128::from(at(*index)), u128::from(at(*index)) + u128::from(lengths[*index]));
                u128::from(address) >= start && u128::from(address) + u128::from(bytes) <= end
            };
            let expected = (0..lengths.len()).find(holds).map(|index| 70 + u32::try_from(index).unwrap());
            prop_assert_eq!(region_among(&regions, address, bytes), expected);
        }
    }
}
