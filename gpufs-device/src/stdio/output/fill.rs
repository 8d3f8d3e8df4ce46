//! Filling a reservation: its bytes are copied, counted in, and the blocks that this made full are started. Waits only for slots, after
//! all is committed.

use gpufs_core::session::WaitReason;
use gpufs_core::stream::{BLOCKS_MAX, Progress};
use static_assertions::const_assert;

use super::place::{Destination, place_bytes};
use super::{LaneRecord, Record, WriteTarget};
use crate::io::{Backoff, drain};
use crate::stdio::File;
use crate::warp::{Broadcast, Lanes};

/// Commits that found no journal entry left, by block and epoch; the leader's value counts. A block that a commit has to itself
/// is full with it, and then in the journal: only the first and the last can be here.
pub(super) type Unrecorded = [Option<(u64, u64)>; 2];

/// Copies the group's bytes [`from`, `to`) to the reserved positions from `position` on, counts them in, and starts each block that
/// this made full; whether the journal had no entry left. Convergent.
pub(super) fn fill<R: Record>(
    target: WriteTarget,
    lanes: Lanes,
    part: &LaneRecord<'_, R>,
    (from, to): (u64, u64),
    position: u64,
) -> Option<Unrecorded> {
    let WriteTarget { file: File { session, .. }, stream, .. } = target;
    let geometry = stream.geometry(session);
    let end = position + (to - from);
    let (first, last) = (geometry.block_of(position), geometry.block_of(end - 1));
    // What of a block is the group's: the first byte in the block, and how many.
    let share_of = |number| {
        let block_start = geometry.start_of(number).max(position);
        let block_end = geometry.start_of(number + 1).min(end);
        #[allow(clippy::cast_possible_truncation, reason = "within one block")]
        let share = ((block_start - geometry.start_of(number)) as u32, (block_end - block_start) as u32);
        share
    };
    let mut block_ref = stream.block_ref(&geometry, first);
    let mut entry = if lanes.is_leader() { stream.draw_entry(&geometry, first, share_of(first)) } else { 0 };
    place_bytes(target, lanes, part, to, &Destination { stream, geometry, from, position, first: block_ref });
    lanes.sync();
    let mut unrecorded = Unrecorded::default();
    let filled = lanes.on_leader(|| {
        let mut full = 0_u64;
        for number in first..=last {
            let share = share_of(number);
            if number != first {
                block_ref = stream.block_ref(&geometry, number);
                entry = stream.draw_entry(&geometry, number, share);
            }
            let committed = stream.commit(session, &geometry, block_ref, share, entry);
            if committed.full {
                full |= 1 << (number - first);
            }
            if let Some(epoch) = committed.unrecorded {
                unrecorded[usize::from(number != first)] = Some((number, epoch));
            }
        }
        Filled { full, is_behind: unrecorded != Unrecorded::default() }
    });
    if filled.full != 0 {
        start_blocks(target, lanes, first, filled.full);
    }
    filled.is_behind.then_some(unrecorded)
}

/// What the leader of [`fill`] tells after the commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Filled {
    /// Which blocks are full, of at most [`BLOCKS_MAX`]: bit `i` stands for the `i`th of the reservation.
    full: u64,
    /// The journal had no entry left for a commit.
    is_behind: bool,
}

impl Filled {
    /// Above the bits of `full`.
    const BEHIND: u64 = 1 << 63;
}

const_assert!(BLOCKS_MAX <= 63);

impl Broadcast for Filled {
    #[inline]
    fn to_word(self) -> u64 {
        self.full | if self.is_behind { Self::BEHIND } else { 0 }
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        Self { full: word & !Self::BEHIND, is_behind: word & Self::BEHIND != 0 }
    }
}

/// Starts the full blocks `first + i` for each bit `i`. Convergent.
fn start_blocks(target: WriteTarget, lanes: Lanes, first: u64, full: u64) {
    let WriteTarget { file: File { session, .. }, stream, ring } = target;
    let mut rest = full;
    let mut backoff = Backoff::new(session);
    // Ends: each round starts a block or waits for a slot, which comes ([L-PROGRESS b]).
    while rest != 0 {
        let number = first + u64::from(rest.trailing_zeros());
        if lanes.on_leader(|| stream.start(session, ring, number)) == Progress::NoSlot {
            // Slots may all be held by write-behind of this very stream.
            if lanes.is_leader() {
                let _ = stream.reap_all(session, ring);
            }
            let drained = drain(session, lanes, ring);
            if let Err(errno) = backoff.wait(drained, WaitReason::Slot, ring, number) {
                // The block stays full. Whoever comes next meets the error under the lock, and starts it.
                stream.fail(errno);
                return;
            }
        } else {
            rest &= rest - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::message::assert_comes_back;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_filled_comes_back(full in 0_u64..1 << BLOCKS_MAX, is_behind: bool) {
            assert_comes_back(Filled { full, is_behind });
        }
    }
}
