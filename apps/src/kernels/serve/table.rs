//! A hash table in the device's memory, for all lanes of a grid: keys and values of any bytes.
//!
//! The memory is divided into shards of equal size, each with a lock, slots and room for texts. A key's hash names its shard and where in it the
//! search begins; slots are probed one after the other, and removing a key moves those behind it up (no tombstones). A block of the room is of a size
//! class and holds a key and its value, one after the other. It is taken from the free blocks of its class, from the rest of the room, or from a
//! larger class. What is full says so: nothing waits for memory.
//!
//! ```text
//! shard: header | slots | room for blocks
//! ```
//!
//! A lane holds the lock of one shard at most, and waits for nothing while it does.
#![expect(unsafe_code, reason = "memory behind locks of its own")]

mod ahead;

use core::slice;

use gpufs_core::word::DeviceWord;
use gpufs_device::portable;
use gpufs_device::warp::nap;

use super::class::{CLASSES, UNIT_BYTES, class_of, size_of_class};
use super::copy::copy_text;
use super::number::{Digits, number_of};

/// A shard's memory for each of its slots: a slot, and what a short key and a short value take.
const BYTES_OF_A_SLOT: usize = 96;
/// Seven eighths of the slots are used at most, so that a search ends.
const FULL_EIGHTHS: u32 = 7;

portable! {
    /// The table. A field of a placed value; the memory itself lies elsewhere.
    #[derive(Debug)]
    pub struct Table {
        /// As the device sees it.
        base: u64,
        /// Bytes of a shard.
        shard_bytes: u64,
        shards: u32,
        /// Slots of a shard: a power of two.
        slots: u32,
    }
}

/// The start of a shard. The holder of `lock` alone uses the rest, but for a look at `count`.
#[repr(C)]
struct Header {
    lock: DeviceWord,
    /// Keys.
    count: DeviceWord,
    /// Units of the room that were given out once.
    used: DeviceWord,
    /// The first free block of each class, plus one; 0 for none. A free block begins with the next one's number.
    free: [DeviceWord; CLASSES],
}

/// A place for a key.
#[derive(Clone, Copy)]
#[repr(C)]
struct Slot {
    hash: u32,
    /// The block's first unit, plus one; 0: empty.
    block: u32,
    class: u32,
    key_bytes: u32,
    value_bytes: u32,
}

/// There is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Why a number could not be added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdded {
    /// The value is no number of 64 bits.
    NoNumber,
    /// The sum would not fit.
    Overflow,
    /// There is no room.
    Full,
}

/// Eight bytes at a time are mixed in by a product, of whose 128 bits both halves count: each bit of a key has a part in each bit of the hash.
pub(super) fn hash_of(key: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
        (product >> 64) as u64 ^ product as u64
    };
    let (words, rest) = key.as_chunks::<8>();
    let hash = words.iter().fold(key.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let rest = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    mix(hash, rest)
}

impl Table {
    /// Divides the `bytes` bytes at `base`, an address on the device, into shards of at least `least` bytes each.
    ///
    /// # Safety
    /// The memory is zeroed. As long as kernels use the table, it is valid, and nothing else accesses it.
    ///
    /// # Panics
    /// If there is not room for one shard.
    #[must_use]
    pub unsafe fn new(base: u64, bytes: usize, least: usize) -> Self {
        let shards = (bytes / least.next_multiple_of(UNIT_BYTES)).clamp(1, 1024);
        let shard_bytes = bytes / shards / UNIT_BYTES * UNIT_BYTES;
        let slots = (shard_bytes / BYTES_OF_A_SLOT).max(16).next_power_of_two() / 2;
        assert!(size_of::<Header>() + slots * size_of::<Slot>() < shard_bytes, "room for a shard");
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Self { base, shard_bytes: shard_bytes as u64, shards: number(shards), slots: number(slots) }
    }

    /// Calls `body` with a shard, whose lock the lane has meanwhile. `body` waits for nothing.
    fn locked<T>(&self, shard: u32, body: impl FnOnce(&mut Shard<'_>) -> T) -> T {
        let mut body = Some(body);
        let mut result = None;
        let base = (self.base + u64::from(shard) * self.shard_bytes) as *mut u8;
        // SAFETY:
        // - a shard begins there (`new`); its header is words, which many may use at once, and zeros are one
        let header = unsafe { &*base.cast::<Header>() };
        let room_at =
            (size_of::<Header>() + self.slots as usize * size_of::<Slot>()).next_multiple_of(UNIT_BYTES);
        // Ends: a holder waits for nothing. It lets go within the round in which it got the lock: lanes of a warp that runs in lockstep wait for
        // each other at the round's end.
        while result.is_none() {
            // ORDERING: acquire and release, device, partner `publish` of the holder before: what it did to the shard comes before.
            if header.lock.compare_exchange(0, 1).is_ok() {
                if let Some(body) = body.take() {
                    #[expect(clippy::cast_possible_truncation, reason = "a length in memory")]
                    let room_units = (self.shard_bytes as usize - room_at) / UNIT_BYTES;
                    result = Some(body(&mut Shard {
                        header,
                        slots: base.wrapping_add(size_of::<Header>()).cast(),
                        slot_count: self.slots,
                        room: base.wrapping_add(room_at),
                        room_units,
                    }));
                }
                // ORDERING: release, device, partner the exchange above.
                header.lock.publish(0);
            } else {
                nap(200);
            }
        }
        let Some(result) = result else { unreachable!("the loop ends with a result") };
        result
    }

    /// The shard of a hash, and the hash within it.
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the hash")]
    const fn place_of(&self, hash: u64) -> (u32, u32) {
        ((hash >> 32) as u32 % self.shards, hash as u32)
    }
    fn of_key<T>(&self, key: &[u8], body: impl FnOnce(&mut Shard<'_>, u32) -> T) -> T {
        let (shard, hash) = self.place_of(hash_of(key));
        self.locked(shard, |shard| body(shard, hash))
    }

    /// What `body` makes of a key's value, if there is one. It waits for nothing.
    pub fn get<T>(&self, key: &[u8], body: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.of_key(key, |shard, hash| {
            let slot = shard.find(hash, key).ok()?;
            let slot = shard.slot(slot);
            Some(body(shard.value(&slot)))
        })
    }
    /// Sets a key's value.
    ///
    /// # Errors
    /// There is no room. A value that the key has stays.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Full> {
        self.of_key(key, |shard, hash| shard.set(hash, key, value))
    }
    /// Removes a key; whether it was there.
    pub fn remove(&self, key: &[u8]) -> bool {
        self.of_key(key, |shard, hash| shard.find(hash, key).map(|slot| shard.remove(slot)).is_ok())
    }
    /// Adds to a key's value, which is a number in decimal, or 0 where there is none: the sum.
    ///
    /// # Errors
    /// It is no number, the sum does not fit, or there is no room. The value stays.
    pub fn add(&self, key: &[u8], number: i64) -> Result<i64, NotAdded> {
        self.of_key(key, |shard, hash| {
            let before = match shard.find(hash, key) {
                Ok(slot) => number_of(shard.value(&shard.slot(slot))).ok_or(NotAdded::NoNumber)?,
                Err(_) => 0,
            };
            let sum = before.checked_add(number).ok_or(NotAdded::Overflow)?;
            let mut digits = Digits::new();
            shard.set(hash, key, digits.of(sum)).map_err(|Full| NotAdded::Full)?;
            Ok(sum)
        })
    }
    /// How many keys there are. Those that others set or remove meanwhile may be counted or not.
    #[must_use]
    pub fn count(&self) -> u64 {
        (0..self.shards)
            .map(|shard| {
                let base = (self.base + u64::from(shard) * self.shard_bytes) as *const Header;
                // SAFETY:
                // - as in `locked`
                let header = unsafe { &*base };
                // ORDERING: relaxed: a number, of now or a moment ago.
                u64::from(header.count.peek())
            })
            .sum()
    }
    /// Removes all keys.
    pub fn clear(&self) {
        for shard in 0..self.shards {
            self.locked(shard, |shard| shard.clear());
        }
    }
}

/// A shard whose lock the caller has.
struct Shard<'a> {
    header: &'a Header,
    slots: *mut Slot,
    slot_count: u32,
    room: *mut u8,
    room_units: usize,
}

impl Shard<'_> {
    fn slot(&self, index: u32) -> Slot {
        debug_assert!(index < self.slot_count);
        // SAFETY:
        // - one of the shard's slots, which are aligned and initialized: zeros are an empty one; the lock's holder alone uses them
        unsafe { self.slots.wrapping_add(index as usize).read() }
    }
    fn put_slot(&mut self, index: u32, slot: Slot) {
        debug_assert!(index < self.slot_count);
        // SAFETY:
        // - as in `slot`
        unsafe { self.slots.wrapping_add(index as usize).write(slot) };
    }
    /// The bytes of a block from `from` on.
    fn bytes(&self, block: u32, from: u32, bytes: u32) -> &[u8] {
        let start = self.room.wrapping_add(block as usize * UNIT_BYTES + from as usize);
        // SAFETY:
        // - a part of a block that is in use, whose bytes were written; the lock's holder alone uses it
        unsafe { slice::from_raw_parts(start, bytes as usize) }
    }
    fn key(&self, slot: &Slot) -> &[u8] {
        self.bytes(slot.block - 1, 0, slot.key_bytes)
    }
    fn value(&self, slot: &Slot) -> &[u8] {
        self.bytes(slot.block - 1, slot.key_bytes, slot.value_bytes)
    }
    fn write(&mut self, block: u32, from: usize, bytes: &[u8]) {
        let start = self.room.wrapping_add(block as usize * UNIT_BYTES + from);
        // SAFETY:
        // - a part of a block of the shard's, which was zeroed or written and the lock's holder alone uses; the caller's bytes lie elsewhere
        copy_text(unsafe { slice::from_raw_parts_mut(start, bytes.len()) }, bytes);
    }

    /// The slot of a key, or the empty one in which the search for it ended.
    fn find(&self, hash: u32, key: &[u8]) -> Result<u32, u32> {
        let mut index = hash & (self.slot_count - 1);
        // Ends: some slots are empty.
        loop {
            let slot = self.slot(index);
            if slot.block == 0 {
                return Err(index);
            }
            if slot.hash == hash && slot.key_bytes as usize == key.len() && self.key(&slot) == key {
                return Ok(index);
            }
            index = (index + 1) & (self.slot_count - 1);
        }
    }

    fn set(&mut self, hash: u32, key: &[u8], value: &[u8]) -> Result<(), Full> {
        let found = self.find(hash, key);
        let (class, _) = class_of(key.len() + value.len());
        let number = |bytes: usize| u32::try_from(bytes).map_err(|_| Full);
        let (key_bytes, value_bytes) = (number(key.len())?, number(value.len())?);
        if let Ok(index) = found {
            let old = self.slot(index);
            if old.class as usize == class {
                self.write(old.block - 1, key.len(), value);
                self.put_slot(index, Slot { value_bytes, ..old });
                return Ok(());
            }
        }
        let count = self.header.count.peek();
        if found.is_err() && count >= self.slot_count / 8 * FULL_EIGHTHS {
            return Err(Full);
        }
        let (block, class) = self.allocate(class)?;
        self.write(block, 0, key);
        self.write(block, key.len(), value);
        let slot = Slot { hash, block: block + 1, class, key_bytes, value_bytes };
        match found {
            Ok(index) => {
                let old = self.slot(index);
                self.release(old);
                self.put_slot(index, slot);
            }
            Err(index) => {
                self.put_slot(index, slot);
                self.header.count.set(count + 1);
            }
        }
        Ok(())
    }

    fn remove(&mut self, index: u32) {
        let slot = self.slot(index);
        self.release(slot);
        let mask = self.slot_count - 1;
        let (mut hole, mut next) = (index, index);
        // Ends: at an empty slot, of which there are some.
        loop {
            next = (next + 1) & mask;
            let slot = self.slot(next);
            if slot.block == 0 {
                break;
            }
            // A slot may move up unless its search begins behind the hole.
            let home = slot.hash & mask;
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.put_slot(hole, slot);
                hole = next;
            }
        }
        self.put_slot(hole, Slot { hash: 0, block: 0, class: 0, key_bytes: 0, value_bytes: 0 });
        self.header.count.set(self.header.count.peek() - 1);
    }

    fn clear(&mut self) {
        for index in 0..self.slot_count {
            self.put_slot(index, Slot { hash: 0, block: 0, class: 0, key_bytes: 0, value_bytes: 0 });
        }
        self.header.free.iter().for_each(|free| free.set(0));
        self.header.used.set(0);
        self.header.count.set(0);
    }

    /// A block of a class, or of a larger one: its first unit, and its class.
    fn allocate(&mut self, class: usize) -> Result<(u32, u32), Full> {
        if class >= CLASSES {
            return Err(Full);
        }
        let used = self.header.used.peek();
        let size = size_of_class(class);
        if self.header.free[class].peek() == 0 && used as usize + size <= self.room_units {
            #[expect(clippy::cast_possible_truncation, reason = "below the room's units")]
            self.header.used.set(used + size as u32);
            #[expect(clippy::cast_possible_truncation, reason = "below CLASSES")]
            return Ok((used, class as u32));
        }
        for (class, free) in (0..).zip(&self.header.free).skip(class) {
            let first = free.peek();
            if first != 0 {
                let start = self.room.wrapping_add((first as usize - 1) * UNIT_BYTES).cast::<u32>();
                // SAFETY:
                // - a free block, which begins with a number and is aligned; the lock's holder alone uses it
                free.set(unsafe { start.read() });
                return Ok((first - 1, class));
            }
        }
        Err(Full)
    }
    /// Gives a slot's block back.
    fn release(&mut self, slot: Slot) {
        let free = &self.header.free[slot.class as usize];
        let next = free.peek();
        self.write(slot.block - 1, 0, &next.to_ne_bytes());
        free.set(slot.block);
    }
}

#[cfg(all(test, feature = "host"))]
mod tests {
    use std::collections::HashMap;

    use super::{Full, NotAdded, Table};

    fn table(bytes: usize, shards: usize) -> (Vec<u64>, Table) {
        let mut memory = vec![0_u64; bytes / 8];
        // SAFETY:
        // - zeroed, and kept by the caller as long as the table
        let table =
            unsafe { Table::new(memory.as_mut_ptr().expose_provenance() as u64, bytes, bytes / shards) };
        (memory, table)
    }

    struct Random(u64);
    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % limit
        }
    }

    #[test]
    fn does_what_a_map_does() {
        for (seed, shards, keys) in [(1, 1, 40), (2, 4, 300), (3, 16, 5000)] {
            let (_memory, table) = table(1 << 20, shards);
            let (mut model, mut random) = (HashMap::<Vec<u8>, Vec<u8>>::new(), Random(seed));
            for round in 0..60_000 {
                let key = format!("key:{}", random.below(keys)).into_bytes();
                match random.below(8) {
                    0..=2 => {
                        let value =
                            vec![round as u8; random.below(if round % 50 == 0 { 3000 } else { 90 }) as usize];
                        // Where it is full, all stays.
                        if table.set(&key, &value).is_ok() {
                            model.insert(key, value);
                        }
                    }
                    3 => assert_eq!(table.remove(&key), model.remove(&key).is_some()),
                    4 if round % 9_000 == 0 => {
                        table.clear();
                        model.clear();
                    }
                    _ => {
                        let got = table.get(&key, <[u8]>::to_vec);
                        assert_eq!(got.as_ref(), model.get(&key), "seed {seed}, round {round}");
                    }
                }
                assert_eq!(table.count(), model.len() as u64);
            }
        }
    }

    #[test]
    fn says_that_it_is_full_and_keeps_what_it_has() {
        let (_memory, table) = table(64 << 10, 1);
        let value = [7; 1000];
        let mut count = 0_u32;
        while table.set(&count.to_ne_bytes(), &value) == Ok(()) {
            count += 1;
        }
        assert!((30..60).contains(&count), "{count}");
        assert_eq!(table.set(b"one more", &value), Err(Full));
        for key in 0..count {
            assert_eq!(table.get(&key.to_ne_bytes(), |kept| kept == value), Some(true));
        }
        // What is removed makes room, for less too.
        assert!(table.remove(&0_u32.to_ne_bytes()));
        assert_eq!(table.set(b"one more", b"short"), Ok(()));
        assert_eq!(table.set(&1_u32.to_ne_bytes(), b"shorter"), Ok(()));
        assert_eq!(table.set(b"two more", &value), Ok(()));
    }

    #[test]
    fn adds() {
        let (_memory, table) = table(64 << 10, 2);
        assert_eq!(table.add(b"n", 1), Ok(1));
        assert_eq!(table.add(b"n", -3), Ok(-2));
        assert_eq!(table.get(b"n", <[u8]>::to_vec), Some(b"-2".to_vec()));
        table.set(b"n", b"9223372036854775807").unwrap();
        assert_eq!(table.add(b"n", 1), Err(NotAdded::Overflow));
        table.set(b"n", b"x").unwrap();
        assert_eq!(table.add(b"n", 1), Err(NotAdded::NoNumber));
    }
}
