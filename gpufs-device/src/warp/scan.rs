//! The scan of machines that only have shuffles.

use super::LaneMask;

/// [`super::Warp::scan`] by `shuffle`, a function of value and source lane that gives values of lanes in `lanes`. Convergent; called
/// by exactly `lanes`; valid in all of them.
///
/// The lanes of a mask need not be neighbours, so each lane keeps the lane whose sum it is to add next: at first its neighbour
/// below within the mask, then that one's, and so on, twice as far each round.
#[inline]
pub(super) fn scan_by_shuffles(
    lanes: LaneMask,
    lane: u32,
    value: u64,
    mut shuffle: impl FnMut(u64, u32) -> u64,
) -> u64 {
    let below = LaneMask(lanes.0 & ((1 << lane) - 1));
    // A lane with nothing left to add points at itself.
    let mut source = if below.is_empty() { lane } else { below.last() };
    let mut sum = value;
    let mut reach = 1;
    // Ends: `reach` doubles. All lanes make the same number of rounds.
    while reach < lanes.count() {
        let theirs = shuffle(sum, source);
        #[allow(clippy::cast_possible_truncation, reason = "a lane's index")]
        let next = shuffle(u64::from(source), source) as u32;
        if source != lane {
            sum = sum.wrapping_add(theirs);
        }
        // The neighbour has nothing left to add: neither has this lane.
        source = if next == source { lane } else { next };
        reach *= 2;
    }
    sum.wrapping_sub(value)
}

/// [`scan_by_shuffles`] of a whole warp: whose sum is next is known. Convergent; called by all lanes of the warp.
#[cfg(any(target_arch = "nvptx64", test))]
#[inline]
pub(super) fn scan_of_warp(
    width: u32,
    lane: u32,
    value: u64,
    mut shuffle: impl FnMut(u64, u32) -> u64,
) -> u64 {
    let mut sum = value;
    let mut reach = 1;
    // Ends: `reach` doubles. All lanes make the same number of rounds.
    while reach < width {
        let theirs = shuffle(sum, if lane < reach { lane } else { lane - reach });
        if lane >= reach {
            sum = sum.wrapping_add(theirs);
        }
        reach *= 2;
    }
    sum.wrapping_sub(value)
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};

    use super::*;

    /// What lane `lane` of `lanes` gets for `values` from `scan`, with threads for lanes.
    fn scans<S>(lanes: LaneMask, values: &[u64; 64], scan: S) -> Vec<(u32, u64)>
    where
        S: Fn(u32, u64, &mut dyn FnMut(u64, u32) -> u64) -> u64 + Copy + Send,
    {
        let count = lanes.count() as usize;
        let (barrier, board) = (Barrier::new(count), Mutex::new([0; 64]));
        std::thread::scope(|scope| {
            let (barrier, board) = (&barrier, &board);
            let workers: Vec<_> = lanes
                .iter()
                .map(|lane| {
                    let mut shuffle = move |value: u64, from: u32| {
                        assert!(lanes.contains(from));
                        board.lock().unwrap()[lane as usize] = value;
                        barrier.wait();
                        let theirs = board.lock().unwrap()[from as usize];
                        barrier.wait();
                        theirs
                    };
                    let value = values[lane as usize];
                    scope.spawn(move || (lane, scan(lane, value, &mut shuffle)))
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        })
    }

    #[test]
    fn sums_lower_lanes_of_any_mask() {
        let values = core::array::from_fn(|lane| (lane as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let masks = [
            1,
            1 << 63,
            0b11,
            0b1010_0110,
            u64::MAX,
            u64::from(u32::MAX),
            0x8000_0000_0000_0001,
            0x5555_5555_5555_5555,
        ];
        for mask in masks.map(LaneMask) {
            let mut all =
                scans(mask, &values, |lane, value, shuffle| scan_by_shuffles(mask, lane, value, shuffle));
            if mask.0.trailing_ones() == mask.count() {
                all.extend(scans(mask, &values, |lane, value, shuffle| {
                    scan_of_warp(mask.count(), lane, value, shuffle)
                }));
            }
            for (lane, scanned) in all {
                let lower = mask.iter().take_while(|other| *other < lane);
                let expected = lower.fold(0_u64, |sum, other| sum.wrapping_add(values[other as usize]));
                assert_eq!(scanned, expected, "lane {lane} of {:#x}", mask.0);
            }
        }
    }
}
