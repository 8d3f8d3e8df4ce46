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
    /// `CpuOptions::threads` is outside [`super::THREADS`].
    Threads(usize),
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

/// What to do where the system refuses a thread or a stack.
const fn remedy(errno: Option<i32>) -> &'static str {
    match errno {
        Some(libc::EAGAIN) => {
            "a limit of processes is reached; raise it (`ulimit -u`, pids.max of the cgroup, `--pids-limit` in Docker), or ask for fewer threads"
        }
        Some(libc::ENOMEM) => {
            "a limit of address space is reached; raise it (`ulimit -v`, vm.max_map_count), or ask for smaller stacks (stack_bytes), fewer \
             threads or fewer resident_warps"
        }
        _ => "ask for fewer threads, smaller stacks or fewer resident warps",
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyGrid(Grid { blocks, threads }) => {
                write!(f, "the grid is empty: {blocks} blocks of {threads} threads")
            }
            Self::Width(width) => {
                write!(f, "width (warp_width): a warp of {width} lanes: not a power of two from 1 to 64")
            }
            Self::Threads(threads) => {
                let range = super::THREADS;
                write!(f, "threads: {threads} OS threads: not from {} to {}", range.start(), range.end())
            }
            Self::NoResidentWarps => f.write_str("resident_warps: 0 warps may be resident: not 1 or more"),
            Self::StackBytes(bytes) => {
                let range = super::STACK_BYTES;
                write!(f, "stack_bytes: a lane's stack of {bytes} bytes: not from {} to {}", range.start(), range.end())
            }
            Self::Panicked { block, thread, message } => {
                write!(f, "thread {thread} of block {block} panicked: {message}")
            }
            Self::Dead => f.write_str("the session's device died in an earlier kernel: open a new session"),
            Self::Forked => Forked.fmt(f),
            Self::NotHere => f.write_str(
                "a closure runs on CPU lanes only, and this session has a GPU: declare a kernel with gpufs_device::kernel! and start it",
            ),
            Self::System(error) => write!(
                f,
                "the system refused a thread or a lane's stack ({error}): {}",
                remedy(error.raw_os_error())
            ),
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
