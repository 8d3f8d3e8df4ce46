//! Where a thread stands in its launch.

/// Where a thread stands in its launch. Counts are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Position {
    /// Index of the thread in its block.
    pub thread: u32,
    /// Index of the block in the grid.
    pub block: u32,
    /// Threads in a block.
    pub block_threads: u32,
    /// Blocks in the grid.
    pub grid_blocks: u32,
}
