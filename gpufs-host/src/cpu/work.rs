//! What the OS threads of one launch share: the kernel, the warps that no thread has taken yet, and the first failure.

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gpufs_core::lanes::Position;
use gpufs_core::word::DeviceWord64;

use super::error::LaunchError;
use super::{CpuOptions, Grid};

/// How long lanes may go on waiting after another lane has panicked: what they wait for may be that lane.
const GRACE_MAX: Duration = Duration::from_secs(1);

/// One launch.
pub(super) struct Work<'k> {
    pub(super) kernel: &'k (dyn Fn() + Sync),
    pub(super) width: u32,
    pub(super) stack_bytes: usize,
    /// What tells it from other launches.
    pub(super) number: u32,
    /// The session whose launch it is, or 0.
    pub(super) session: u64,
    grid: Grid,
    /// Warps that were taken, or more. Warps are taken in order of their blocks, so the first block that is incomplete is never
    /// kept waiting by a later one.
    taken: DeviceWord64,
    /// The first failure, and when.
    failure: OnceLock<(Instant, LaunchError)>,
}

impl fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("grid", &self.grid)
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

/// A warp that has not started.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewWarp {
    /// Where its lane 0 stands.
    pub(super) origin: Position,
    /// How many lanes it has; fewer than the width where a block's threads are no multiple of it.
    pub(super) lanes: u32,
}

impl<'k> Work<'k> {
    pub(super) fn new(grid: Grid, options: &CpuOptions, session: u64, kernel: &'k (dyn Fn() + Sync)) -> Self {
        Self {
            kernel,
            width: options.width,
            stack_bytes: options.stack_bytes,
            number: super::runtime::launch_number(),
            session,
            grid,
            taken: DeviceWord64::new(0),
            failure: OnceLock::new(),
        }
    }

    /// Warps in a block.
    pub(super) fn block_warps(&self) -> u32 {
        self.grid.threads.div_ceil(self.width)
    }

    /// Warps in the grid.
    pub(super) fn warps(&self) -> u64 {
        u64::from(self.grid.blocks) * u64::from(self.block_warps())
    }

    /// The next warp that no thread has taken; `None` when all are taken.
    pub(super) fn take(&self) -> Option<NewWarp> {
        // ORDERING: relaxed, no partner: the ticket orders nothing. What a warp reads was there before the threads were.
        let ticket = self.taken.fetch_add_relaxed(1);
        if ticket >= self.warps() {
            return None;
        }
        let block_warps = u64::from(self.block_warps());
        let block = u32::try_from(ticket / block_warps).expect("below the number of blocks");
        let warp = u32::try_from(ticket % block_warps).expect("below the warps of a block");
        let thread = warp * self.width;
        Some(NewWarp {
            origin: Position {
                thread,
                block,
                block_threads: self.grid.threads,
                grid_blocks: self.grid.blocks,
            },
            lanes: self.width.min(self.grid.threads - thread),
        })
    }

    /// Notes a failure; the first one stays.
    #[cold]
    pub(super) fn fail(&self, error: LaunchError) {
        // An error here says that there was one before.
        let _ = self.failure.set((Instant::now(), error));
    }

    /// Notes that the lane at `position` panicked; the first failure stays.
    #[cold]
    pub(super) fn fail_at(&self, Position { thread, block, .. }: Position, message: String) {
        self.fail(LaunchError::Panicked { block, thread, message });
    }

    /// Whether there was a failure so long ago that lanes that still wait should be given up.
    #[inline]
    pub(super) fn is_past_grace(&self) -> bool {
        self.failure.get().is_some_and(|(since, _)| since.elapsed() > GRACE_MAX)
    }

    /// How it went.
    pub(super) fn into_result(self) -> Result<(), LaunchError> {
        self.failure.into_inner().map_or(Ok(()), |(_, error)| Err(error))
    }
}
