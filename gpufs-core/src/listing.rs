//! Entries of a directory that were read ahead ([R-SERVE-9]): which of them are taken, and which memory they lie in.
//!
//! The steps of the leader of a group that has the file's lock. Copying entries, and asking the host for more, stand above.

use crate::abi::READDIR_END;
use crate::alloc::Claim;
use crate::word::{DeviceWord, DeviceWord64};

/// What is read ahead of a directory. Guarded by the file's lock.
///
/// ```text
/// block   buffers of the pool `listings`: log₂ of how many (8), the first and 1 (24); 0 while there are none, or while an operation fills them
/// told    entries in them, with READDIR_END
/// taken   of those, at most as many
/// from    the directory's position after the last that was taken; another one is a seek's, and what is here is not what comes next
/// ```
#[derive(Debug, Default)]
#[repr(C)]
pub struct Listing {
    block: DeviceWord,
    told: DeviceWord,
    taken: DeviceWord,
    reserved: DeviceWord,
    from: DeviceWord64,
}

/// What comes next in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Entries that were read ahead.
    Entries {
        /// The memory of the listing.
        block: Claim,
        /// The first that is not taken.
        first: u32,
        /// How many there are from it on: at least 1.
        count: u32,
    },
    /// Nothing: the directory's end.
    End,
    /// The host knows.
    Unknown,
}

const FIRST_BITS: u32 = 24;

// ORDERING: relaxed throughout: the file's lock, which the caller has, orders what its holders do.
impl Listing {
    /// What comes after `position`.
    #[must_use]
    pub fn next(&self, position: u64) -> Next {
        let (told, taken) = (self.told.peek(), self.taken.peek());
        let count = told & !READDIR_END;
        match self.block() {
            _ if self.from.peek() != position => Next::Unknown,
            Some(block) if taken < count => Next::Entries { block, first: taken, count: count - taken },
            _ if told & READDIR_END != 0 => Next::End,
            _ => Next::Unknown,
        }
    }
    /// So many entries of [`Next::Entries`] are taken, and the directory goes on at `position`.
    pub fn took(&self, count: u32, position: u64) {
        self.taken.set(self.taken.peek() + count);
        self.from.set(position);
    }
    /// Takes the memory out, for an operation to fill or to be released, and forgets the entries. `None` where there is none.
    ///
    /// A lane that is gone before the operation has ended leaves nothing here that the operation may still write.
    #[must_use]
    pub fn take(&self) -> Option<Claim> {
        let block = self.block();
        self.block.set(0);
        self.told.set(0);
        self.taken.set(0);
        block
    }
    /// Puts memory in that holds the entries from `position` on, so many as `told` says.
    pub fn put(&self, block: Claim, told: u32, position: u64) {
        self.block.set(block.count().ilog2() << FIRST_BITS | (block.item(0) + 1));
        self.tell(told, position);
    }
    /// Notes without memory what comes at `position`: the end, or nothing that is known.
    pub fn tell(&self, told: u32, position: u64) {
        self.told.set(told);
        self.taken.set(0);
        self.from.set(position);
    }
    /// Forgets the entries, so that the host is asked again; the memory stays.
    pub fn forget(&self) {
        self.told.set(0);
        self.taken.set(0);
    }
    /// Exchanges what two directories have, each of which one lane alone uses.
    pub fn exchange(&self, other: &Self) {
        for (one, other) in
            [(&self.block, &other.block), (&self.told, &other.told), (&self.taken, &other.taken)]
        {
            let kept = one.peek();
            one.set(other.peek());
            other.set(kept);
        }
        let kept = self.from.peek();
        self.from.set(other.from.peek());
        other.from.set(kept);
    }

    fn block(&self) -> Option<Claim> {
        let word = self.block.peek();
        let first = (word & ((1 << FIRST_BITS) - 1)).checked_sub(1)?;
        Some(Claim::run(first, 1 << (word >> FIRST_BITS)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn entries_are_taken_once_and_then_the_end_comes() {
        let listing = Listing::default();
        assert_eq!(listing.next(0), Next::Unknown);
        let block = Claim::run(72, 8);
        listing.put(block, 5 | READDIR_END, 0);
        assert_eq!(listing.next(0), Next::Entries { block, first: 0, count: 5 });
        listing.took(3, 77);
        assert_eq!(listing.next(77), Next::Entries { block, first: 3, count: 2 });
        listing.took(2, 99);
        assert_eq!(listing.next(99), Next::End);
        // A seek.
        assert_eq!(listing.next(77), Next::Unknown);
        listing.forget();
        assert_eq!(listing.next(99), Next::Unknown);
        assert_eq!(listing.take(), Some(block));
        assert_eq!(listing.take(), None);
    }

    #[test]
    fn more_may_come_after_the_last_that_was_read_ahead() {
        let listing = Listing::default();
        listing.put(Claim::run(0, 1), 2, 0);
        listing.took(2, 40);
        assert_eq!(listing.next(40), Next::Unknown);
        listing.tell(READDIR_END, 40);
        assert_eq!(listing.next(40), Next::End);
    }

    #[test]
    fn what_an_operation_fills_is_not_there() {
        let listing = Listing::default();
        let block = Claim::run(5, 1);
        listing.put(block, 2, 0);
        assert_eq!(listing.take(), Some(block));
        assert_eq!(listing.next(0), Next::Unknown);
    }

    #[test]
    fn two_directories_change_places() {
        let (one, other) = (Listing::default(), Listing::default());
        let block = Claim::run(64, 64);
        one.put(block, 9, 3);
        one.exchange(&other);
        assert_eq!(one.next(0), Next::Unknown);
        assert_eq!(other.next(3), Next::Entries { block, first: 0, count: 9 });
    }
}
