//! Why a session could not be opened.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use crate::gpu::GpuError;
use crate::ring::{RingError, ServiceError};

/// Why a session could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// A size does not fit what it is for; the text says which and what would.
    Size(String),
    /// The sandbox cannot be had; the text says what it lacks.
    Sandbox(String),
    /// A service that cannot be had; the text says why.
    Service(ServiceError),
    /// The machine refuses the rings, and how to help it.
    Ring(RingError),
    /// The system refuses memory or a thread.
    System(std::io::Error),
    /// The GPU, its driver or the device program refuses.
    Gpu(GpuError),
    /// The file for the session's trace ([`Builder::trace`](super::Builder::trace)) cannot be opened or written.
    Trace {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(text) | Self::Sandbox(text) => f.write_str(text),
            Self::Service(error) => error.fmt(f),
            Self::Ring(error) => write!(f, "no ring could be opened: {error}"),
            Self::Gpu(error) => write!(f, "the GPU could not be used: {error}"),
            Self::Trace { path, error } => write!(
                f,
                "the session's trace {} cannot be written: {error}; name another file (Builder::trace, the option trace of C, GPUFS_TRACE in the \
                 environment), or none",
                path.display()
            ),
            Self::System(error) if error.raw_os_error().is_none_or(|number| number == libc::ENOMEM) => {
                write!(
                    f,
                    "the session's memory could not be made: {error}; raise the limit of address space (`ulimit -v`) or of memory (the cgroup's), \
                 or ask for fewer buffers, files and streams"
                )
            }
            Self::System(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                write!(
                    f,
                    "the session could not be made: {error}; raise the limit of descriptors (`ulimit -n`) or close files"
                )
            }
            Self::System(error) => write!(f, "the session's memory could not be made: {error}"),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Size(_) | Self::Sandbox(_) => None,
            Self::Service(error) => Some(error),
            Self::Ring(error) => Some(error),
            Self::System(error) | Self::Trace { error, .. } => Some(error),
            Self::Gpu(error) => Some(error),
        }
    }
}
