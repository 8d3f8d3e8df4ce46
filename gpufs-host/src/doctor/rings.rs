//! A ring of each mode, through which a few operations go, and a session with the default options.

use std::time::{Duration, Instant};

use crate::Session;
use crate::ring::{Mode, Ring, RingConfig, RingError};
use crate::session::OpenError;

/// A mode, and whether a ring works in it.
#[derive(Debug)]
#[non_exhaustive]
pub struct ModeTried {
    /// What served the ring.
    pub mode: Mode,
    /// How long it took to open the ring and to have 64 operations that do nothing (`NOP`) come back through it; or why it does not work. An
    /// operation is waited for three seconds.
    pub result: Result<Duration, RingError>,
}

/// A session on CPU lanes with the default options, or why there is none.
#[derive(Debug)]
#[non_exhaustive]
pub struct SessionTried {
    /// What it was opened with.
    pub result: Result<SessionReport, OpenError>,
}

/// What a session was opened with.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SessionReport {
    /// What serves the rings.
    pub mode: Mode,
    /// Bytes that it registers with the kernel for all rings together, or would if the kernel served them and took them. They count as locked
    /// memory.
    pub registered_bytes: u64,
    /// Whether its buffers are registered, with the kernel or, in the mode `threads`, with gpufs. Without, each operation has its pages looked up
    /// again.
    pub is_registered: bool,
    /// How long opening took.
    pub opening: Duration,
}

/// Tries each mode, best first.
pub(super) fn try_each() -> Vec<ModeTried> {
    Mode::BEST_FIRST.into_iter().map(|mode| ModeTried { mode, result: try_one(mode) }).collect()
}

fn try_one(mode: Mode) -> Result<Duration, RingError> {
    let started = Instant::now();
    Ring::open(&RingConfig { mode, ..RingConfig::default() })?.prove()?;
    Ok(started.elapsed())
}

impl SessionTried {
    pub(super) fn open() -> Self {
        let started = Instant::now();
        let opened = Session::builder().report_failures(false).report_fallback(false).cpu();
        let result = opened.map(|session| {
            let (registered_bytes, is_registered) = session.registered();
            SessionReport {
                mode: session.mode(),
                registered_bytes,
                is_registered,
                opening: started.elapsed(),
            }
        });
        Self { result }
    }
}
