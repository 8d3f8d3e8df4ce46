//! The copy of a reservation's bytes: one function for each of three strategies.
#![allow(unsafe_code, reason = "writes into the stream's blocks")]

use gpufs_core::Claim;
use gpufs_core::alloc::BufferPool;
use gpufs_core::stream::{BlockRef, Stream, StreamGeometry};

use super::{LaneRecord, Record, WriteTarget};
use crate::io::{DeviceRange, Flow, copy_together, slot_hint};
use crate::stdio::File;
use crate::warp::{Broadcast, Lanes, Machine, Warp};

/// Where a reservation's bytes go.
pub(super) struct Destination {
    pub(super) stream: &'static Stream,
    pub(super) geometry: StreamGeometry,
    /// The first byte, among those of the group.
    pub(super) from: u64,
    /// Its position.
    pub(super) position: u64,
    /// The place of its block.
    pub(super) first: BlockRef,
}

impl Destination {
    /// Where the group's byte `at` goes, and how many bytes follow in the same block (at least 1).
    #[inline]
    fn address(&self, at: u64) -> (u64, u64) {
        let position = self.position + (at - self.from);
        let number = self.geometry.block_of(position);
        let block_ref = if number == self.first.block_number {
            self.first
        } else {
            self.stream.block_ref(&self.geometry, number)
        };
        self.geometry.address(block_ref, position)
    }
}

/// Bytes of a record from which on the warp copies one lane's record after the other's, if it lies in memory that all lanes reach.
const TOGETHER_BYTES: u64 = 256;

/// Copies the group's bytes from `destination.from` to `to`. Convergent; others see them after the next barrier. Waits for nothing.
///
/// Over a bus an access costs as much for one byte as for sixteen, and the next lane's bytes lie next to this one's. So where lanes copy
/// together, they put their records side by side in device memory first, and then store that in wide words. A lane alone would store the same
/// words as from where its record is, and load each from device memory first, one after the other.
pub(super) fn place_bytes<R: Record>(
    target: WriteTarget,
    lanes: Lanes,
    part: &LaneRecord<'_, R>,
    to: u64,
    destination: &Destination,
) {
    let WriteTarget { file: File { session, .. }, ring, .. } = target;
    let from = destination.from;
    if let Some(own) = part.record.side_by_side() {
        // Where some lanes of a call write apart, those that do may have others between them.
        let source = own.wrapping_sub(part.before);
        if lanes.same(source) {
            place_range(lanes, source.wrapping_add(from), to - from, destination);
            return;
        }
    }
    let share = part.share_of((from, to));
    let buffers = session.coalescing_buffers;
    let at_once = lanes.count() == 1 && part.record.is_stored_in_words();
    if buffers.base != 0 && to - from >= u64::from(lanes.count()) && !at_once {
        let long = (to - from) / u64::from(lanes.count()) >= TOGETHER_BYTES;
        let reached = part.record.address().filter(|address| !Machine::is_private(*address));
        if long && lanes.all(reached.is_some()) {
            place_in_turn(lanes, reached.unwrap_or(0).wrapping_sub(part.before), share, destination);
            return;
        }
        // Placed as in the stream, so that the words of both are aligned alike.
        let misalignment = destination.position % 16;
        if let Some((claim, buffer)) = claim_coalescing(&buffers, lanes, ring, misalignment + (to - from)) {
            let assembled = DeviceRange::new(buffer + misalignment, to - from);
            place_assembled(lanes, part, share, assembled, destination);
            if lanes.is_leader() {
                buffers.free.release(claim);
            }
            return;
        }
    }
    place_alone(part, share, destination);
}

/// All lanes copy one lane's record after the other's; `source` is where the group's byte 0 would lie in front of the lane's own record,
/// and [`start`, `end`) the lane's share. Convergent.
#[inline]
fn place_in_turn(lanes: Lanes, source: u64, (start, end): (u64, u64), destination: &Destination) {
    // Ends: over the lanes.
    for lane in lanes.mask().iter() {
        let (source, mut at, end) =
            (lanes.broadcast(source, lane), lanes.broadcast(start, lane), lanes.broadcast(end, lane));
        while at < end {
            let (target, room) = destination.address(at);
            let count = room.min(end - at);
            // SAFETY:
            // - the target is reserved for this group until it is committed, and a block's buffer is valid for its whole length
            // - the source is the record of lane `lane`, which waits at the next broadcast or barrier; all lanes reach it
            // - the stream's blocks are nobody's record
            unsafe { copy_together(lanes, Flow::Out, target, source.wrapping_add(at), count) };
            at += count;
        }
    }
}

/// Each lane puts its record into `assembled`, which is in device memory, and then all copy that. Convergent; ends with a barrier.
#[inline]
fn place_assembled<R: Record>(
    lanes: Lanes,
    part: &LaneRecord<'_, R>,
    (start, end): (u64, u64),
    assembled: DeviceRange,
    destination: &Destination,
) {
    let from = destination.from;
    if start < end {
        // SAFETY:
        // - the claim is this group's, valid for reads and writes in every lane; any bytes are initialized
        // - the range is this lane's alone until the barrier
        let into = unsafe { assembled.part(start - from, end - start).slice_mut() };
        part.record.emit(start - part.before, into);
    }
    lanes.sync();
    place_range(lanes, assembled.address, assembled.bytes, destination);
    lanes.sync();
}

/// All lanes copy the bytes that lie at `source`, which were written before the last barrier, and which nobody writes until the next. Convergent.
#[inline]
fn place_range(lanes: Lanes, source: u64, bytes: u64, destination: &Destination) {
    let from = destination.from;
    let (mut at, to) = (from, from + bytes);
    // Ends: each round copies bytes.
    while at < to {
        let (target, room) = destination.address(at);
        let count = room.min(to - at);
        // SAFETY:
        // - the target is reserved for this group until it is committed, and a block's buffer is valid for its whole length
        // - the source as the callers say: memory of the group's own
        // - the stream's blocks are neither coalescing buffers nor pieces
        unsafe { copy_together(lanes, Flow::Out, target, source + (at - from), count) };
        at += count;
    }
}

/// The lane copies its own share [`start`, `end`). Any lane.
#[inline]
fn place_alone<R: Record>(part: &LaneRecord<'_, R>, (start, end): (u64, u64), destination: &Destination) {
    let mut at = start;
    // Ends: each round copies bytes.
    while at < end {
        let (target, room) = destination.address(at);
        let count = room.min(end - at);
        // SAFETY:
        // - a block's buffer is valid for its whole length, and `room` ends with it; any bytes are initialized
        // - the range is reserved for this lane alone until it is committed
        let into = unsafe { DeviceRange::new(target, count).slice_mut() };
        part.record.emit(at - part.before, into);
        at += count;
    }
}

/// Claims device memory for `bytes` that a group assembles; `None` if there is none now. Convergent; valid in all. Waits for nothing.
fn claim_coalescing(pool: &BufferPool, lanes: Lanes, ring: u32, bytes: u64) -> Option<(Claim, u64)> {
    if bytes > pool.most_bytes() {
        return None;
    }
    let run = lanes.on_leader(|| {
        pool.claim_whole(bytes, slot_hint(ring))
            .map(|claim| Run { first: claim.item(0), count: claim.count() })
    });
    run.map(|Run { first, count }| (Claim::run(first, count), pool.address(first)))
}

/// Neighbouring buffers that the leader claimed: few of them, and at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u32,
    count: u32,
}

/// The two numbers. Together they never have all bits set: a claim has at most [`BufferPool::BUFFERS_MAX`] items.
impl Broadcast for Option<Run> {
    #[inline]
    fn to_word(self) -> u64 {
        self.map_or(u64::MAX, |Run { first, count }| first.to_word() << 32 | count.to_word())
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        (word != u64::MAX).then(|| Run { first: u32::from_word(word >> 32), count: u32::from_word(word) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::message::assert_comes_back;
    use proptest::prelude::*;

    #[test]
    fn no_run_comes_back() {
        assert_comes_back(None::<Run>);
    }

    proptest! {
        #[test]
        fn every_run_comes_back(first: u32, count in 1..=BufferPool::BUFFERS_MAX) {
            assert_comes_back(Some(Run { first, count }));
        }
    }
}
