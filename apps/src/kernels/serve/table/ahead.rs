//! What will be looked for soon: a CPU fetches it meanwhile, for several keys at once.

use gpufs_core::word::fetch_ahead;

use super::{Header, Shard, Slot, Table, UNIT_BYTES, hash_of};

/// Bytes of a line of a CPU's caches, and of a block what is fetched ahead.
const LINE_BYTES: usize = 64;
const FETCHED_BYTES: u64 = 256;

impl Table {
    /// Fetches where the search for a key begins; the key's hash.
    pub(in super::super) fn fetch_slot(&self, key: &[u8]) -> u64 {
        let hash = hash_of(key);
        let (shard, low) = self.place_of(hash);
        let slots = self.base + u64::from(shard) * self.shard_bytes + size_of::<Header>() as u64;
        let slot = slots + u64::from(low & (self.slots - 1)) * size_of::<Slot>() as u64;
        fetch_ahead(slot);
        fetch_ahead(slot + size_of::<Slot>() as u64 - 1);
        hash
    }
    /// Fetches the beginning of what a key of this hash has.
    pub(in super::super) fn fetch_block(&self, hash: u64) {
        let (shard, hash) = self.place_of(hash);
        self.locked(shard, |shard| shard.fetch(hash));
    }
}

impl Shard<'_> {
    /// Fetches the first lines of the block that a search for a key of this hash looks at first.
    fn fetch(&self, hash: u32) {
        let mut index = hash & (self.slot_count - 1);
        let mut slot = self.slot(index);
        // Ends: some slots are empty.
        while slot.block != 0 && slot.hash != hash {
            index = (index + 1) & (self.slot_count - 1);
            slot = self.slot(index);
        }
        if slot.block != 0 {
            let start = self.room.addr() as u64 + u64::from(slot.block - 1) * UNIT_BYTES as u64;
            let bytes = u64::from(slot.key_bytes) + u64::from(slot.value_bytes);
            for at in (0..bytes.min(FETCHED_BYTES)).step_by(LINE_BYTES) {
                fetch_ahead(start + at);
            }
        }
    }
}
