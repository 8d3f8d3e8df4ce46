//! What the journal is told of a stream's blocks. What its places and entries mean, and why they are enough, is in [`crate::journal`].

use super::{Direction, ENTRY, Order, State, Stream};
use crate::journal::Record;
use crate::resources::Resources;

impl Stream {
    /// Switches the place of a block to what it is now: all that it counts as committed is known, `written` is in the file, and `token` is
    /// the write in flight, 0 for none. The block's owner, with nobody committing to it.
    pub(super) fn note(&self, resources: &Resources, block_number: u64, token: u64) {
        if !resources.journal.is_enabled() {
            return;
        }
        let block = self.place(block_number);
        // ORDERING: relaxed throughout: the owner's words, acquired with the block.
        let buffer = block.buffer.peek();
        let order = match self.order() {
            Order::Any => 0,
            Order::OneByOne => Record::SERIAL,
            Order::Started => Record::ORDERED,
        };
        let shift = self.block_shift.peek();
        let filled = block.committed();
        let record = Record {
            block_number,
            offset: self.base.peek().wrapping_add(block_number << shift),
            token,
            written: block.written.peek(),
            filled,
            descriptor: resources.files()[self.file.peek() as usize].descriptor.peek().cast_signed(),
            shape: order | shift,
            stream: self.index_in(resources) + 1,
            generation: self.generation.peek(),
        };
        let epoch = resources.journal.switch(buffer, block.epoch.peek(), record);
        block.committed.set(u64::from(filled));
        // ORDERING: release, device, partner `is_behind`: the place is switched. To the next committers it is published by what lets
        // them commit, `block_number` or the cursor.
        block.epoch.publish(epoch);
    }

    /// Whether a commit that found no journal entry in `epoch` of block `block_number` is still without a record. Any lane: it was counted in
    /// in that epoch, and each switch takes in all that was.
    #[must_use]
    pub fn is_behind(&self, block_number: u64, epoch: u64) -> bool {
        // ORDERING: acquire, device, partner `grow`: where the block's place is another one now, all was written and switched before.
        let count = self.block_count.observe();
        // ORDERING: acquire, device, partner `note`: what the caller then releases to the host comes after the switch.
        self.masked(block_number, u64::from(count).wrapping_sub(1)).epoch.observe() == epoch
    }

    /// Switches the place of the unfinished block, if it has used up its journal entries. The lock's holder, when quiet.
    pub fn catch_up(&self, resources: &Resources) {
        if self.direction() != Direction::Writing {
            return;
        }
        let block_number = self.reserved() >> self.block_shift.peek();
        let block = self.place(block_number);
        // ORDERING: acquire, device, partner `free_block`; then relaxed: quiet.
        if block.block_number.observe() == block_number
            && block.state.seems(State::Filling)
            && block.committed.peek() >= ENTRY
        {
            self.note(resources, block_number, 0);
        }
    }

    /// Marks blocks FULL whose last committer is gone: FILLING, with all bytes counted in. While no kernel runs, of a writing stream.
    ///
    /// Lanes are unwound where code of the program runs, or where they wait, alone or for each other's being unwound. Between reserving and
    /// committing neither happens [D-13], so that what is reserved is counted in. Should it not be, it is counted in here, so that
    /// what other calls put around it is not lost.
    pub fn count_in_abandoned(&self, resources: &Resources) {
        // ORDERING: relaxed throughout: no kernel runs.
        let (end, shift) = (self.reserved(), self.block_shift.peek());
        for block in self.places() {
            let block_number = block.block_number.peek();
            let reserved = end.saturating_sub(block_number << shift).min(self.block_bytes());
            if block.state.seems(State::Filling) && u64::from(block.committed()) < reserved {
                block.committed.set(reserved);
                self.note(resources, block_number, 0);
            }
            if block.state.seems(State::Filling) && u64::from(block.committed()) == self.block_bytes() {
                block.state.fill();
            }
        }
    }
}
