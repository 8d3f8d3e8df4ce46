//! Why a launch did not run, or did not run to its end.

use std::fmt;
use std::io;

use super::Grid;
use crate::process::Forked;

/// Why a launch did not run, or did not run to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum LaunchError {
    /// The grid has no blocks, or its blocks have no threads.
    EmptyGrid(Grid),
    /// `CpuOptions::width` is not a power of two between 1 and 64.
    Width(u32),
    /// `CpuOptions::threads` is zero.
    NoThreads,
    /// `CpuOptions::resident_warps` is zero.
    NoResidentWarps,
    /// `CpuOptions::stack_bytes` is outside [`super::STACK_BYTES`].
    StackBytes(usize),
    /// A lane panicked, or the lanes of a warp broke the rules of a warp operation; the first one, where there are several.
    Panicked {
        /// The block of the lane.
        block: u32,
        /// The lane's index in its block.
        thread: u32,
        /// What the panic said.
        message: String,
    },
    /// The session's kernels run on a GPU, which cannot run a closure.
    NotHere,
    /// The session's device died in an earlier kernel.
    Dead,
    /// The session is a forked child's copy, which does nothing.
    Forked,
    /// The system refused a thread or a lane's stack.
    System(io::Error),
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyGrid(Grid { blocks, threads }) => {
                write!(f, "the grid is empty: {blocks} blocks of {threads} threads")
            }
            Self::Width(width) => write!(f, "a warp of {width} lanes: not a power of two from 1 to 64"),
            Self::NoThreads => f.write_str("no threads to run the lanes on"),
            Self::NoResidentWarps => f.write_str("no warps may be resident"),
            Self::StackBytes(bytes) => {
                let range = super::STACK_BYTES;
                write!(f, "a lane's stack of {bytes} bytes: not from {} to {}", range.start(), range.end())
            }
            Self::Panicked { block, thread, message } => {
                write!(f, "thread {thread} of block {block} panicked: {message}")
            }
            Self::Dead => f.write_str("the session's device died in an earlier kernel: open a new session"),
            Self::Forked => Forked.fmt(f),
            Self::NotHere => f.write_str(
                "a closure runs on CPU lanes only, and this session has a GPU: declare a kernel with gpufs_device::kernel! and start it",
            ),
            Self::System(_) => f.write_str("the system refused a thread or a lane's stack"),
        }
    }
}

impl From<Forked> for LaunchError {
    fn from(_: Forked) -> Self {
        Self::Forked
    }
}

impl std::error::Error for LaunchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            Self::Forked => Some(&Forked),
            _ => None,
        }
    }
}
