//! Experts in the device's memory that the host brings and replaces: what a host in the loop does.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt as _;

use gpufs_apps::experts::Stack;
use gpufs_apps::kernels::Array;
use gpufs_apps::kernels::experts::Shape;
use gpufs_apps::memory;
use gpufs_host::Session;
use gpufs_host::session::DeviceBuffer;

/// Experts in the device's memory that the host brings and replaces.
pub(crate) struct Slots {
    buffer: DeviceBuffer,
    pub(crate) array: Array,
    /// The expert of each, by its place in the file, and when it was used last.
    held: Vec<(u64, u64)>,
    slot_of: HashMap<u64, usize>,
    /// The step.
    pub(crate) now: u64,
    piece: Vec<u8>,
}

impl Slots {
    /// Room for `count` experts, or for all.
    pub(crate) fn new(session: &mut Session, shape: &Shape, count: usize) -> io::Result<Self> {
        let count = count.min((shape.layers * shape.experts) as usize);
        let bytes = shape.expert_bytes() as usize;
        let (buffer, array) = memory::array(session, (count * bytes) as u64)?;
        // No expert is there.
        let held = vec![(u64::MAX, 0); count];
        Ok(Self { buffer, array, held, slot_of: HashMap::new(), now: 0, piece: vec![0; bytes] })
    }
    /// The slot of the expert at this place in the file, and whether it was there; else it is brought, in place of the one that was not used for
    /// longest.
    pub(crate) fn slot(
        &mut self,
        session: &mut Session,
        stack: &Stack,
        place: u64,
    ) -> io::Result<(usize, bool)> {
        if let Some(slot) = self.slot_of.get(&place) {
            self.held[*slot].1 = self.now;
            return Ok((*slot, true));
        }
        let oldest = (0..self.held.len()).min_by_key(|slot| self.held[*slot].1);
        let slot = oldest.ok_or(io::ErrorKind::OutOfMemory)?;
        stack.file.read_exact_at(&mut self.piece, stack.experts_at + place)?;
        session.write_device(&self.buffer, slot * self.piece.len(), &self.piece)?;
        self.slot_of.remove(&self.held[slot].0);
        self.slot_of.insert(place, slot);
        self.held[slot] = (place, self.now);
        Ok((slot, false))
    }
}
