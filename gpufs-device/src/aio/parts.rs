//! A [`Pending`] as plain numbers, for who keeps it in memory of a form that is given: C's control block of an operation.

use gpufs_core::alloc::Staged;
use gpufs_core::{Claim, Operation, Slot};

use super::Pending;
use crate::Fs;
use crate::io::Started;

/// What [`Pending::into_parts`] makes of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what the operation holds, until the session synchronizes"]
pub struct Parts {
    /// The slot, and above 32 bits its generation.
    pub operation: u64,
    /// The ring, and above 32 bits its round.
    pub ring: u64,
    /// Which staging buffers of the word in the lower half of `memory`; 0 for no memory.
    pub buffers: u64,
    /// The word of `buffers`, and above 32 bits how many bytes they were claimed for.
    pub memory: u64,
    /// Where they lie.
    pub address: u64,
    /// It may wait for another party without end.
    pub endless: bool,
}

/// Two numbers of 32 bits in one.
const fn both(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}
/// The two again.
#[expect(clippy::cast_possible_truncation, reason = "the halves")]
const fn halves(both: u64) -> (u32, u32) {
    (both as u32, (both >> 32) as u32)
}

impl Pending {
    /// The operation as numbers, which say where it is; `None` of one whose result was taken.
    pub fn into_parts(mut self) -> Option<Parts> {
        let (started, memory) = (self.started.take()?, self.memory.take());
        let operation = started.operation();
        let (buffers, word, bytes, address) = memory.map_or((0, 0, 0, 0), |memory| {
            (memory.claim.bits, memory.claim.word, memory.bytes, memory.address)
        });
        Some(Parts {
            operation: both(operation.slot.0, operation.generation),
            ring: both(started.ring, started.round),
            buffers,
            memory: both(word, bytes),
            address,
            endless: started.is_endless(),
        })
    }

    /// The operation of which these are the parts.
    ///
    /// # Safety
    /// [`Pending::into_parts`] made them of an operation of this session, and of them no more than one `Pending` takes the result, or is dropped.
    pub unsafe fn from_parts(fs: Fs, parts: Parts) -> Self {
        let (slot, generation) = halves(parts.operation);
        let (ring, round) = halves(parts.ring);
        let (word, bytes) = halves(parts.memory);
        let memory = (parts.buffers != 0).then_some(Staged {
            claim: Claim { word, bits: parts.buffers },
            address: parts.address,
            bytes,
        });
        let operation = Operation { slot: Slot(slot), generation };
        let queue = &fs.session().all_queues()[ring as usize];
        Self::new(fs, Started::of((ring, queue), operation, round, parts.endless), memory)
    }
}
