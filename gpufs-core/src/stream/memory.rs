//! What memory a stream of `fmemopen(3)` or `open_memstream(3)` is on. Its bytes are those of a file without a name, as far as the stream's
//! other words go; these say where they are copied to.

use crate::word::{DeviceWord, DeviceWord64};

/// The words. The lock's holder writes them, or the lane that opens the stream before anybody else has it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct MemoryWords {
    /// A [`MemoryKind`].
    kind: DeviceWord,
    /// Whether the file has bytes that the memory lacks: 0 or 1.
    pub dirty: DeviceWord,
    /// Fixed: the memory, 0 where it is the stream's own. Growing: a word of the caller's, 0 if it gave none.
    pub address: DeviceWord64,
    /// Fixed: the memory's length in bytes.
    pub limit: DeviceWord64,
    /// Fixed: how long its content was when it was last copied, at most `limit`.
    pub end: DeviceWord64,
    /// Fixed: the identity of the lane that opened the stream.
    pub opener: DeviceWord64,
}

/// What kind of memory a stream is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MemoryKind {
    /// None: the stream is on a file.
    None,
    /// A piece of a fixed length (`fmemopen`).
    Fixed,
    /// As long as what is written (`open_memstream`).
    Growing,
}

impl MemoryWords {
    /// What the stream is on.
    #[must_use]
    pub fn kind(&self) -> MemoryKind {
        // ORDERING: relaxed: constant while the stream is open, and acquired with it.
        match self.kind.peek() {
            0 => MemoryKind::None,
            1 => MemoryKind::Fixed,
            _ => MemoryKind::Growing,
        }
    }
    /// Makes the stream one on memory of a kind. The lane that opens it.
    pub fn set_kind(&self, kind: MemoryKind) {
        // ORDERING: relaxed: whoever gets the stream from its opener has an edge.
        self.kind.set(kind as u32);
    }
    /// Makes the stream one on a file.
    pub fn forget(&self) {
        self.set_kind(MemoryKind::None);
    }
}
