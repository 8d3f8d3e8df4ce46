//! What a session reports of its kernels, its rings and its streams.

use std::fmt;

use super::{CacheError, Fault, StreamError};
use crate::cpu::LaunchError;
use crate::gpu::GpuError;
use crate::process::Forked;
use crate::ring;

/// Why `synchronize` failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum SyncError {
    /// A kernel did not end well: a lane's panic, a wait past its deadline.
    Kernel(LaunchError),
    /// A GPU refused to run a kernel.
    Gpu(GpuError),
    /// A kernel did not end well on a GPU: an illegal address, a panic, a wait past its deadline. The session is dead. The recovery in the
    /// fault says which of the bytes that its streams had accepted are written.
    Fault(Box<Fault>),
    /// The device died earlier, and an earlier call reported that. The session can only be dropped. A new one may be opened: of CPU lanes
    /// in this process, of an NVIDIA GPU in a new process.
    Dead,
    /// The session is a forked child's copy, which does nothing.
    Forked,
    /// The tables could not be copied to or from the device.
    Tables(std::io::Error),
    /// A ring is no longer served: the kernel refuses, or takes no entries. Waits on it have ended; the session can only be dropped.
    Ring {
        /// Which ring, and why.
        failure: ring::Failure,
        /// The first stream whose bytes could not be written because of that.
        stream: Option<StreamError>,
    },
    /// A stream's bytes could not be written; they are kept and tried again by the next `synchronize`.
    Stream(StreamError),
    /// Stores to mapped files could not be written; they are kept and tried again by the next `synchronize`.
    Cache(CacheError),
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(error) => write!(f, "{error}"),
            Self::Gpu(error) => write!(f, "{error}"),
            Self::Fault(fault) => write!(f, "{fault}"),
            Self::Forked => Forked.fmt(f),
            Self::Dead => f.write_str(
                "the session's device died in an earlier kernel, as was reported then: drop this session and open a new one",
            ),
            Self::Tables(error) => write!(f, "the session's tables could not be copied: {error}"),
            Self::Ring { failure, stream: None } => write!(f, "{failure}"),
            Self::Ring { failure, stream: Some(stream) } => write!(f, "{failure}; {stream}"),
            Self::Stream(error) => write!(f, "{error}"),
            Self::Cache(error) => write!(f, "{error}"),
        }
    }
}

impl From<Forked> for SyncError {
    fn from(_: Forked) -> Self {
        Self::Forked
    }
}

impl std::error::Error for SyncError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Kernel(error) => Some(error),
            Self::Gpu(error) => Some(error),
            Self::Fault(fault) => Some(&*fault.cause),
            Self::Forked => Some(&Forked),
            Self::Dead => None,
            Self::Tables(error) => Some(error),
            Self::Ring { failure, .. } => Some(failure),
            Self::Stream(error) => Some(error),
            Self::Cache(error) => Some(error),
        }
    }
}
