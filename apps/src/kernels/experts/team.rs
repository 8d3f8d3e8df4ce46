//! All lanes of a grid work on one layer: warps draw pieces of a step, and all wait for each other before the next.

use gpufs_core::word::DeviceWord64;
use gpufs_device::kernel::Handoff;
use gpufs_device::warp::{Lanes, grid_threads, nap};
use gpufs_device::{Errno, portable};

/// How long a warp that waits for others naps.
const NAP_NS: u32 = 100;

portable! {
    /// Where the lanes of a grid meet.
    #[derive(Debug, Default)]
    pub struct Meeting {
        /// Pieces of the step that are drawn, or more.
        drawn: DeviceWord64,
        /// Threads that have done their part of the step.
        arrived: DeviceWord64,
        /// Steps that are done by all.
        step: DeviceWord64,
        /// The first failure. Then nobody waits any more.
        pub failure: Handoff<Errno>,
    }
}

/// The lanes that work together, in the grid.
pub(super) struct Team<'a> {
    meeting: &'a Meeting,
    lanes: Lanes,
    /// The step that is done now.
    step: u64,
}

impl<'a> Team<'a> {
    /// The team of the calling lanes. Called by all threads of the grid.
    pub(super) fn new(meeting: &'a Meeting, lanes: Lanes) -> Self {
        // It does not move before this thread has arrived.
        // ORDERING: relaxed: as an earlier launch left it.
        Self { meeting, lanes, step: meeting.step.peek() }
    }
    pub(super) const fn lanes(&self) -> Lanes {
        self.lanes
    }
    /// The next `count` pieces of a step, or what lies behind the last: the first of them. Convergent.
    fn draw(&self, count: u64) -> u64 {
        // ORDERING: relaxed: the number is the claim.
        self.lanes.on_leader_inline(|| self.meeting.drawn.fetch_add_relaxed(count))
    }
    /// Hands pieces of a step to `body`, one at a time, until all `count` are drawn. Convergent; so is `body`.
    pub(super) fn each(&self, count: u64, mut body: impl FnMut(u64)) {
        // Ends: each round draws a piece.
        loop {
            let piece = self.draw(1);
            if piece >= count {
                return;
            }
            body(piece);
        }
    }
    /// The same, with a piece for each lane; `body` is any lane's. Convergent.
    pub(super) fn each_lane(&self, count: u64, mut body: impl FnMut(u64)) {
        let (width, rank) = (u64::from(self.lanes.count()), u64::from(self.lanes.rank()));
        // Ends: each round draws pieces.
        loop {
            let first = self.draw(width);
            if first >= count {
                return;
            }
            if first + rank < count {
                body(first + rank);
            }
        }
    }
    /// Ends the step: waits until all threads have ended it. What each did before is visible to all after. Whether all goes well; after a
    /// failure nobody may go on. Convergent.
    pub(super) fn meet(&mut self) -> bool {
        let (meeting, lanes, step) = (self.meeting, self.lanes, self.step);
        self.step += 1;
        lanes.sync();
        let goes_on = lanes.on_leader(|| {
            let count = u64::from(lanes.count());
            // ORDERING: acquire and release, device: the last one has what all the others did, and hands it on.
            if meeting.arrived.fetch_add(count) + count == grid_threads() {
                // ORDERING: relaxed: nobody draws or arrives before the step is published.
                meeting.drawn.set(0);
                meeting.arrived.set(0);
                // ORDERING: release, device, partner the look below.
                meeting.step.publish(step + 1);
            }
            // Ends: the others arrive as well, since all threads run; or one has failed.
            loop {
                if meeting.failure.is_full() {
                    return false;
                }
                // ORDERING: acquire, device, partner the store above.
                if meeting.step.observe() > step {
                    return true;
                }
                nap(NAP_NS);
            }
        });
        lanes.sync();
        goes_on
    }
}
