//! What outlives the device: the journal, in host memory that the device reaches at the same address.
//!
//! The memory is a part of the session's own (`memory.rs`); what the journal means is in `gpufs_core::journal`, and its use after a fault
//! in `recover.rs`.
#![expect(unsafe_code, reason = "reads words through their addresses")]

use gpufs_core::journal::{Journal, JournalParts, Place};
use gpufs_core::session::Stall;
use gpufs_core::word::SharedWord64;

use super::layout::Cutter;
use crate::ring::{Ring, RingParts};

/// Where the parts of the journal lie. The memory is zeroed before the session begins.
#[derive(Clone, Debug)]
pub(super) struct HostJournal {
    /// Where the device has memory of its own. Where not, it is in the image, and is never freed.
    pub(super) stall: Option<*const Stall>,
    files: *const SharedWord64,
    /// One for each stream buffer, and the rest, where output survives.
    places: Option<*const Place>,
    entries: *const SharedWord64,
    entries_per_buffer: u32,
    shift: u32,
    /// For each ring of I/O, one word for each slot; null for the service ring.
    pub(super) results: Vec<*const SharedWord64>,
    /// Length in bytes.
    pub(super) bytes: usize,
}

impl HostJournal {
    /// Lays it out from address `base` on. A first call, at any address, tells the size.
    pub(super) fn lay_out(
        base: u64,
        rings: &[Ring],
        files: u32,
        (buffers, buffer_bytes): (u32, u32),
        (own_memory, survives): (bool, bool),
    ) -> Self {
        let mut cutter = Cutter::new(base);
        let entries_per_buffer = Journal::entries_for(buffer_bytes);
        let (stall, files) = (own_memory.then(|| cutter.table(1)), cutter.table(files));
        let mut kept = Self {
            stall,
            files,
            places: None,
            entries: std::ptr::null(),
            entries_per_buffer,
            shift: buffer_bytes.trailing_zeros(),
            results: vec![std::ptr::null(); rings.len()],
            bytes: 0,
        };
        if survives {
            kept.places = Some(cutter.table(buffers));
            kept.entries = cutter.table(buffers * entries_per_buffer);
        }
        // The service ring carries nothing that is kept ([R-SERVE-4]).
        let io = |(_, ring): &(_, &Ring)| !ring.is_for_services();
        for (results, ring) in kept.results.iter_mut().zip(rings).filter(io) {
            *results = cutter.table(capacity_of(&ring.parts(), true));
        }
        kept.bytes = cutter.bytes();
        kept
    }
    /// Whether output survives.
    pub(super) fn is_enabled(&self) -> bool {
        self.places.is_some()
    }
    /// The journal, as the tables name it.
    pub(super) fn journal(&self) -> Journal {
        // SAFETY:
        // - laid out for that many, in the session's memory, which stays as long as the tables are used (`close.rs`)
        unsafe {
            Journal::new(JournalParts {
                places: self.places.unwrap_or(std::ptr::null()),
                entries: self.entries,
                files: self.files,
                entries_per_buffer: self.entries_per_buffer,
                shift: self.shift,
            })
        }
    }
    /// The generation and result of the last write of a block, or opening of a file, that `slot` of ring `ring` carried. 0 for none.
    pub(super) fn result(&self, ring: u32, slot: u32) -> u64 {
        let Some(results) = self.results.get(ring as usize).filter(|results| !results.is_null()) else {
            return 0;
        };
        // SAFETY:
        // - laid out for each slot of each ring; the session, which owns this, owns the memory too
        let result = unsafe { &*results.wrapping_add(slot as usize) };
        // ORDERING: relaxed: the device is dead.
        result.peek()
    }
}

/// Slots of a ring. `journaled`: some results are kept.
pub(super) fn capacity_of(parts: &RingParts, journaled: bool) -> u32 {
    // `Queue::new` says why half.
    parts.sq_entries.min(if journaled { parts.cq_entries / 2 } else { parts.cq_entries })
}
