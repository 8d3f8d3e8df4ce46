//! The range of each choice of a session, checked before anything is opened. Rules over several choices are in `builder.rs`.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::builder::{Builder, STAGING_BYTES};
use super::open_error::OpenError;
use crate::cpu::{self, CpuOptions};

/// Bytes that [`Builder::buffers`] may ask for.
const BUFFERS: RangeInclusive<usize> = (128 << 10)..=(256 << 30);
/// Bytes of each pool in the device's own memory; 0 for none.
const DEVICE_POOL: RangeInclusive<usize> = 0..=(16 << 30);
const FILES: RangeInclusive<u32> = 3..=(1 << 20);
/// Each has a buffer that may have a write in flight in one ring.
const STREAMS: RangeInclusive<u32> = 3..=32_704;
#[cfg(any(feature = "cuda", feature = "hip"))]
/// What CUDA takes for the stack of a thread.
const GPU_STACK: RangeInclusive<usize> = 1024..=(512 << 10);
/// From the shortest time that a clock can measure here to the longest.
const DEADLINE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::MAX;

/// Whether `value` lies in the range of `option`.
fn within<T: PartialOrd + Display>(
    option: &str,
    value: T,
    range: &RangeInclusive<T>,
    hint: &str,
) -> Result<(), OpenError> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    Err(OpenError::Size(format!("{option}: {value} is not from {least} to {most}{hint}")))
}

impl Builder {
    /// Checks each choice by itself.
    pub(super) fn check_ranges(&self) -> Result<(), OpenError> {
        let halves = self.stream_bytes.unwrap_or(0).max(self.staging_bytes.unwrap_or(STAGING_BYTES));
        within("buffers", halves.saturating_mul(2), &BUFFERS, " bytes")?;
        within("assembly", self.assembly.unwrap_or(0), &DEVICE_POOL, " bytes")?;
        within("read_ahead", self.read_ahead.unwrap_or(0), &DEVICE_POOL, " bytes")?;
        within("files", self.files, &FILES, ", the three standard ones among them")?;
        within("streams", self.streams.unwrap_or(3), &STREAMS, ", the three standard ones among them")?;
        for (option, limit) in [("deadline", self.deadline), ("wait_limit", self.wait_limit)] {
            if let Some(limit) = limit.filter(|limit| !DEADLINE.contains(limit)) {
                return Err(OpenError::Size(format!(
                    "{option}: {limit:?} is less than a millisecond; leave it out for none"
                )));
            }
        }
        Ok(())
    }

    /// The choices that only a GPU uses.
    #[cfg(any(feature = "cuda", feature = "hip"))]
    pub(super) fn check_gpu(&self) -> Result<(), OpenError> {
        within("gpu_stack", self.gpu_stack_bytes, &GPU_STACK, " bytes")
    }
}

/// Checks the choices of CPU lanes.
pub(super) fn check_lanes(options: &CpuOptions) -> Result<(), OpenError> {
    cpu::check_options(options).map_err(|error| OpenError::Size(error.to_string()))
}
