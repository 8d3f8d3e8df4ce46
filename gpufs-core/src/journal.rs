//! What outlives the device: the bytes of the streams, and enough about them to finish their writes ([D-14]).
//!
//! A fault takes the device's memory with it, and the tables in it. The stream buffers are host memory and stay. So does the journal:
//!
//! ```text
//! Journal ── places[]   one per stream buffer: whose block it holds, and how far that is written
//!         ── entries[]  E per stream buffer: which bytes of the block are whole, one entry per commit
//!         ── files[]    descriptors that kernels opened, for the host to close
//! Queue   ── results[]  one per slot: the result of the last write of a block, or opening of a file, that it carried
//! ```
//!
//! All of it is written with plain stores by the device ([R-1]), and read by the host once the device is dead.
//!
//! # The place
//!
//! The owner of a block (by its `operation` word, or by the lock with the stream quiet) records its state by a *switch*: it writes
//! the record that is not in force, then publishes the next epoch, whose lowest bit says which record is in force. A switch
//! is one store, so a fault finds the place before it or after it (for one that ends a round, see "Rounds"). It happens when
//!
//! | step | the new record says |
//! |---|---|
//! | the last commit of a block | the whole block is known |
//! | a write is submitted | the same, or all that an unfinished block holds; and which operation writes it |
//! | a write ends | how far the file has the block; where that is all of it, whose block comes next |
//! | `begin_writing` | a first block, of which nothing is to be written |
//! | too many commits for the entries | all that the unfinished block holds is known |
//! | `fclose` | the buffer has no owner |
//!
//! At each of them every byte that the block counts as committed lies in the buffer, visible to a thread that observes the epoch: the committers'
//! additions to `committed` come before, and the epoch is stored with system-scope release. So `filled` replaces the entries.
//!
//! # The entries
//!
//! Between two switches, each commit stores one entry, with system-scope release, after its bytes and *before* it counts them in:
//!
//! ```text
//! 63 … 2·shift    2·shift−1 … shift    shift−1 … 0      1 << shift: bytes of a buffer
//! epoch           start                length − 1
//! ```
//!
//! A commit of at least [`Journal::BYTES_PER_ENTRY`] bytes has the entry of its place in the block, since no other that long begins so
//! near; a shorter one draws its index, from the rest of the table. Only entries of the epoch in force count. An entry is never stored late,
//! over one of a later epoch: a switch needs all commits of the epoch counted in, and each stored
//! its entry before. (This is why the index is drawn by an addition of its own. One addition for index and bytes would
//! allow the block to be filled, written and reused between it and the store.) A commit for which no entry is left is followed by a
//! switch before the call returns.
//!
//! So at any moment: a call that returned has its bytes in an entry of the epoch in force, or below `filled`, or below `written`. ∎
//! (Returned as far as anybody outside the device can know: an entry is on its way before whatever the caller then releases to the host.)
//!
//! # Rounds
//!
//! An entry holds the low bits of its epoch only, and so does `ticket`: their *part*. A part comes round, after 2³² switches of a place at the
//! latest. So that none of an earlier round is taken for one of the epoch in force, they are cleared away once in each round, in the epoch
//! where one of the parts is 0, in which nothing is ever entered:
//!
//! 1. The switch that ends the round publishes that epoch, with the new record. From here on `filled` is all that counts.
//! 2. It clears the entries and the ticket, each by a release: a reader that finds one cleared finds the epoch of step 1, or a later one.
//! 3. It publishes the epoch that is two further, whose lowest bit, and so the record, is the same: by its release, a reader that finds it finds
//!    everything cleared.
//!
//! A fault between two of these stores finds the old epoch with its entries, or the new record, and no entry of another round. ∎
//!
//! # The write in flight
//!
//! The record holds the operation's token; `ticket` is stored after the ticket is drawn and before the batch is committed, so that
//! it is visible before the tail that publishes the SQE. The result of the operation is known:
//!
//! - *Delivered.* The lane that delivers it first stores its result in `results`. The slot is not armed again before the reaper has
//!   switched the place, so a record's token and a result of another generation never mean the same operation.
//! - *Complete, and its result not visible.* Its CQE still lies in the ring. Let the last drain have begun at *h*, with *n* completions. At
//!   most *capacity* operations were in flight then. Of their slots those of the *n* can have been used again since, once, and those of CQEs
//!   before *h* that the drain before still delivered, which have posted theirs. So no CQE at or past *h + capacity + n* is ever posted.
//!   Let the drain that stored the CQ head last have begun at *x*, with *m* completions: results of CQEs before *x* are visible, as that store
//!   is a release after them, and no CQE from *x* on is overwritten. If
//!   it is the last drain, *h = x*. Else no later one has passed a multiple of the head step, so that *h + n* is at most *x + m + head step
//!   − 1*. Either way the ring's entries, at least *capacity + m + head step − 1*, are enough. ∎
//! - *Not complete.* Then its ticket says whether the kernel will complete it: tickets before the SQ tail are published, later
//!   ones, and those not stored, never will be.
//!
//! # The open in flight
//!
//! A file's word holds the token of its `openat` from before the batch is committed until the lane that asked for it has the result, and then the
//! descriptor. The slot is released after that. So what is said of a write's result above holds for the `openat`'s: where its word has a token,
//! its result is in `results`, or its CQE lies in the ring, or it is not complete. So there are `results` and files' words where output does
//! not survive, too.
#![expect(unsafe_code, reason = "tables behind pointers that the host made")]

use crate::word::{EntryCell, SharedWord64};

/// Bits of a ticket in a place's `ticket`; as many are left for the epoch's part.
const TICKET_BITS: u32 = 32;

/// What a stream buffer holds. Plain data: it is in force once the epoch that names it is published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Record {
    /// The block's number. Blocks of a serial stream are written in this order.
    pub block_number: u64,
    /// Where in the file the block's first byte lies; of no meaning in a serial stream.
    pub offset: u64,
    /// The write in flight: ring and token, as in the block's `operation` word; 0 if there is none.
    pub token: u64,
    /// Bytes of the block that are in the file.
    pub written: u32,
    /// Bytes from the block's start that are known to be whole without an entry.
    pub filled: u32,
    /// The process's descriptor.
    pub descriptor: i32,
    /// [`Record::SERIAL`] or [`Record::ORDERED`], and log₂ of the block's bytes.
    pub shape: u32,
    /// Index of the stream and 1; 0 if the buffer has no owner.
    pub stream: u32,
    /// The stream's generation.
    pub generation: u32,
}

impl Record {
    /// In `shape`: one write follows the other.
    pub const SERIAL: u32 = 1 << 31;
    /// In `shape`: writes begin in order, so that behind a byte that is not there nothing is written.
    pub const ORDERED: u32 = 1 << 30;

    /// log₂ of the block's bytes.
    #[must_use]
    pub const fn block_shift(&self) -> u32 {
        self.shape & 0xff
    }
    /// Whether one write follows the other.
    #[must_use]
    pub const fn is_serial(&self) -> bool {
        self.shape & Self::SERIAL != 0
    }
    /// Whether writes begin in order.
    #[must_use]
    pub const fn is_ordered(&self) -> bool {
        self.shape & Self::ORDERED != 0
    }
}

/// A stream buffer's place in the journal.
///
/// | word | range | written by |
/// |---|---|---|
/// | `epoch` | grows | a switch: the block's owner |
/// | `ticket` | part of the epoch, then the ticket; 0 for none | the lane that submits the block's write, between ticket and commit |
/// | `records` | the one of the epoch's lowest bit is in force | a switch writes the other |
#[derive(Debug, Default)]
#[cfg_attr(not(loom), repr(C, align(128)))]
pub struct Place {
    /// 0 while the buffer was never used.
    pub epoch: SharedWord64,
    /// The ticket of the write in flight, if its upper half is the part of the epoch in force.
    pub ticket: SharedWord64,
    /// What the buffer holds.
    pub records: [EntryCell<Record>; 2],
}

/// What a [`Journal`] is made of. Whoever has one can do nothing with it but to read it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct JournalParts {
    /// One for each stream buffer, or null.
    pub places: *const Place,
    /// `entries_per_buffer` for each stream buffer.
    pub entries: *const SharedWord64,
    /// One for each entry of the file table: 0; [`Journal::OPENING`] and the ring and token of a kernel's `openat`, as in a block's `operation`
    /// word; or [`Journal::OPEN`] and the descriptor that it gave.
    pub files: *const SharedWord64,
    /// E.
    pub entries_per_buffer: u32,
    /// log₂ of a buffer's bytes: at most 20.
    pub shift: u32,
}

/// The journal as the device sees it. Without `places`, output does not survive a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Journal {
    parts: JournalParts,
}

impl core::ops::Deref for Journal {
    type Target = JournalParts;

    #[inline]
    fn deref(&self) -> &JournalParts {
        &self.parts
    }
}

impl Journal {
    /// The journal of these parts.
    ///
    /// # Safety
    /// Every pointer that is not null is valid for as many items as its field says, on every device that uses the journal, as long as that is used.
    #[must_use]
    pub const unsafe fn new(parts: JournalParts) -> Self {
        Self { parts }
    }
}

impl Journal {
    /// A file's word holds a descriptor, if it is not [`Journal::OPENING`].
    pub const OPEN: u64 = 1 << 32;
    /// A file's word holds a token.
    pub const OPENING: u64 = 1 << 63;
    /// Bytes of a buffer for each entry that commits have by their place.
    pub const BYTES_PER_ENTRY: u32 = 64;
    /// Bytes of a buffer for each entry that shorter commits draw: fewer, since a lane that finds none left only takes the lock once.
    pub const BYTES_PER_DRAWN_ENTRY: u32 = 256;

    const fn entries_by_place(buffer_bytes: u32) -> u32 {
        buffer_bytes / Self::BYTES_PER_ENTRY
    }
    /// Entries that a buffer of `buffer_bytes` has: those by place, and those to draw.
    #[must_use]
    pub const fn entries_for(buffer_bytes: u32) -> u32 {
        Self::entries_by_place(buffer_bytes) + buffer_bytes / Self::BYTES_PER_DRAWN_ENTRY
    }
    /// The entry of a commit by its place, the block's byte that it begins at, if it has `bytes` enough.
    #[must_use]
    #[inline]
    pub const fn entry_at(start: u32, bytes: u32) -> Option<u32> {
        if bytes < Self::BYTES_PER_ENTRY { None } else { Some(start / Self::BYTES_PER_ENTRY) }
    }
    /// The entry of a commit that drew `index`.
    #[must_use]
    #[inline]
    pub const fn entry_drawn(&self, index: u32) -> u32 {
        Self::entries_by_place(1 << self.parts.shift).saturating_add(index)
    }

    /// Whether output survives.
    #[must_use]
    #[inline]
    pub fn is_enabled(&self) -> bool {
        !self.places.is_null()
    }
    /// The place of a buffer, if output survives.
    #[must_use]
    pub fn place(&self, buffer: u32) -> Option<&Place> {
        // SAFETY:
        // - one place for each stream buffer, by the host's construction, and `buffer` is one
        self.is_enabled().then(|| unsafe { &*self.places.add(buffer as usize) })
    }
    /// A buffer's entries, if output survives.
    #[must_use]
    pub fn entries(&self, buffer: u32) -> &[SharedWord64] {
        if !self.is_enabled() {
            return &[];
        }
        let count = self.entries_per_buffer as usize;
        // SAFETY:
        // - `count` for each stream buffer, by the host's construction, and `buffer` is one
        unsafe { core::slice::from_raw_parts(self.entries.add(buffer as usize * count), count) }
    }
    fn file(&self, index: u32) -> Option<&SharedWord64> {
        // SAFETY:
        // - one word for each entry of the file table, by the host's construction, and `index` is one
        (!self.files.is_null()).then(|| unsafe { &*self.files.add(index as usize) })
    }

    /// Notes that a kernel opens a file with the operation of this token. Before the batch that has it is committed.
    pub fn note_opening(&self, index: u32, token: u64) {
        if let Some(file) = self.file(index) {
            // ORDERING: relaxed: visible before the tail that publishes the open, by that store's release.
            file.set(Self::OPENING | token);
        }
    }
    /// Notes that a kernel opened a file. Before anybody else learns of it.
    pub fn note_open(&self, index: u32, descriptor: u32) {
        if let Some(file) = self.file(index) {
            // ORDERING: relaxed: the host reads it when the device is dead, or has ended.
            file.set(Self::OPEN | u64::from(descriptor));
        }
    }
    /// Notes that a kernel closes a file. Before the close is submitted: the number may then be another file's.
    pub fn note_close(&self, index: u32) {
        if let Some(file) = self.file(index) {
            // ORDERING: relaxed: visible before the tail that publishes the close, by that store's release.
            file.set(0);
        }
    }
    /// The descriptor that a kernel opened for an entry of the file table and has not closed.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low half is the descriptor")]
    pub fn opened(&self, index: u32) -> Option<i32> {
        // ORDERING: relaxed: the device is dead.
        let word = self.file(index)?.peek();
        (word & (Self::OPENING | Self::OPEN) == Self::OPEN).then_some((word as u32).cast_signed())
    }
    /// The token of the operation that was to open a file for an entry of the file table, if its result was not noted.
    #[must_use]
    pub fn opening(&self, index: u32) -> Option<u64> {
        // ORDERING: relaxed: the device is dead.
        let word = self.file(index)?.peek();
        (word & Self::OPENING != 0).then_some(word & !Self::OPENING)
    }

    /// The part of an epoch that an entry holds: 0 in no epoch in which something is entered.
    #[must_use]
    pub const fn entry_epoch(&self, epoch: u64) -> u64 {
        epoch & (u64::MAX >> (2 * self.parts.shift))
    }
    /// The part of an epoch that stands next to a ticket, likewise.
    const fn ticket_epoch(epoch: u64) -> u64 {
        epoch & (u64::MAX >> TICKET_BITS)
    }
    /// Whether one of the parts has come round.
    const fn ends_round(&self, epoch: u64) -> bool {
        self.entry_epoch(epoch) == 0 || Self::ticket_epoch(epoch) == 0
    }
    /// The bytes that an entry tells of, as start and end, if it is of this epoch.
    #[must_use]
    pub const fn whole(&self, entry: u64, epoch: u64) -> Option<(u32, u32)> {
        if entry >> (2 * self.parts.shift) != self.entry_epoch(epoch) || entry == 0 {
            return None;
        }
        let mask = (1 << self.parts.shift) - 1;
        #[expect(clippy::cast_possible_truncation, reason = "below a buffer's bytes")]
        let (start, last) = ((entry >> self.parts.shift & mask) as u32, (entry & mask) as u32);
        Some((start, start + last + 1))
    }
    /// Stores entry `index` of a buffer: [`start`, `start + bytes`) is whole. The committer, with `bytes` at least 1, after
    /// a barrier with the lanes that copied, before it counts them in. Whether there was such an entry.
    #[must_use]
    pub fn enter(&self, buffer: u32, epoch: u64, index: u32, start: u32, bytes: u32) -> bool {
        let Some(entry) = self.entries(buffer).get(index as usize) else { return false };
        let span = u64::from(start) << self.parts.shift | u64::from(bytes - 1);
        // ORDERING: release, system, partner the host, once the device is dead: the bytes come before.
        entry.publish(self.entry_epoch(epoch) << (2 * self.parts.shift) | span);
        true
    }
    /// Puts a record in force; the epoch that it begins. The owner of the block, whose epoch is `epoch`, while no lane commits to it.
    pub fn switch(&self, buffer: u32, epoch: u64, record: Record) -> u64 {
        let Some(place) = self.place(buffer) else { return epoch };
        // Of an epoch that a device has not counted up to, it may come round.
        let next = epoch.wrapping_add(1);
        // SAFETY:
        // - the record that is not in force belongs to the owner of the block alone
        unsafe { place.records[usize::from(next & 1 == 1)].write(record) };
        // ORDERING: release, system, partner the host, once the device is dead: the record and all bytes that it tells of come before.
        place.epoch.publish(next);
        if self.ends_round(next) { self.end_round(buffer, place, next) } else { next }
    }
    /// Clears away what was entered in a round that the epoch `next`, which is in force, has ended; the epoch that it begins, with the same record.
    /// The owner of the block.
    #[cold]
    fn end_round(&self, buffer: u32, place: &Place, next: u64) -> u64 {
        for word in self.entries(buffer).iter().chain([&place.ticket]) {
            // ORDERING: release, system, partner the host, once the device is dead: `next` comes before, in which none of these counts. No
            // other is stored meanwhile: the next is stored by a lane that acquires the block from this one.
            word.publish(0);
        }
        // ORDERING: release, system, partner the host, once the device is dead: all is cleared before.
        place.epoch.publish(next.wrapping_add(2));
        next.wrapping_add(2)
    }
    /// Records that a buffer has no owner. The lane that closes its stream, before it releases the buffer.
    pub fn clear_owner(&self, buffer: u32) {
        if let Some(place) = self.place(buffer) {
            // ORDERING: relaxed: acquired with the buffer or the lock.
            let epoch = place.epoch.peek();
            self.switch(buffer, epoch, Record::default());
        }
    }
    /// Notes the ticket of the write that the record in force names. The lane that submits it, before it commits the ticket.
    pub fn note_ticket(&self, buffer: u32, epoch: u64, ticket: u32) {
        if let Some(place) = self.place(buffer) {
            // ORDERING: relaxed: visible before the tail that publishes the ticket, by that store's release.
            place.ticket.set(Self::ticket_epoch(epoch) << TICKET_BITS | u64::from(ticket));
        }
    }
    /// What a buffer holds: the record in force, its epoch, and the ticket of its write if one was drawn. `None` if the buffer was
    /// never used.
    ///
    /// # Safety
    /// No lane switches the place at the same time: the device is dead or idle.
    #[must_use]
    pub unsafe fn in_force(&self, buffer: u32) -> Option<(Record, u64, Option<u32>)> {
        let place = self.place(buffer)?;
        // ORDERING: acquire, system, partner `switch`.
        let epoch = place.epoch.observe();
        if epoch == 0 {
            return None;
        }
        // SAFETY:
        // - no writer, by this function's contract
        let record = unsafe { place.records[usize::from(epoch & 1 == 1)].read() };
        // ORDERING: relaxed: the device is dead.
        let ticket = place.ticket.peek();
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let drawn =
            (ticket >> TICKET_BITS == Self::ticket_epoch(epoch) && ticket != 0).then_some(ticket as u32);
        Some((record, epoch, drawn))
    }
}

// SAFETY:
// - the tables are shared by design: words are atomic, records are handed over by epochs
unsafe impl Sync for Journal {}
// SAFETY:
// - as for `Sync`: nothing in a journal belongs to a thread
unsafe impl Send for Journal {}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Place>() == 128 && size_of::<Record>() == 48);
