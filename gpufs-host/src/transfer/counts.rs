//! Operations and bytes of transfers, by kind of memory and by the way that they took.

use std::sync::{Mutex, PoisonError};

use super::request::{Direction, MemoryKind};

/// How bytes got between a file and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The system read or wrote the memory itself.
    InPlace,
    /// Through pinned chunks and the GPU's copy engine.
    Staged,
    /// Through ordinary memory of the host, since none could be pinned.
    ThroughHost,
}

impl Way {
    /// All ways.
    pub const ALL: [Self; 3] = [Self::InPlace, Self::Staged, Self::ThroughHost];
}

/// What went one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TransferCount {
    /// Pieces that were read, each by one system call or more.
    pub reads: u64,
    /// Pieces that were written.
    pub writes: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
}

/// What transfers have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TransferStatistics {
    /// In the order of [`MemoryKind::ALL`] and [`Way::ALL`].
    pub counts: [[TransferCount; 3]; 4],
}

impl TransferStatistics {
    /// What memory of one kind did one way.
    #[must_use]
    pub const fn of(&self, kind: MemoryKind, way: Way) -> TransferCount {
        self.counts[kind as usize][way as usize]
    }
}

/// The counts, shared by threads.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<TransferStatistics>);

impl Counters {
    /// The counts now.
    pub(crate) fn statistics(&self) -> TransferStatistics {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Counts one piece.
    pub(super) fn note(&self, direction: Direction, kind: MemoryKind, way: Way, bytes: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = &mut all.counts[kind as usize][way as usize];
        match direction {
            Direction::Read => {
                count.reads += 1;
                count.bytes_read += bytes;
            }
            Direction::Write => {
                count.writes += 1;
                count.bytes_written += bytes;
            }
        }
    }
}
