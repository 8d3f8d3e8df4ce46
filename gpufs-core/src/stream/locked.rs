//! Under the lock: closing and opening the fast path, beginning to write, reserving without the fast path, setting up an entry.

use super::reservation::CLOSED;
use super::{Block, Buffering, Direction, Order, State, Stream};
use crate::files::OpenFile;
use crate::resources::Resources;

impl Stream {
    /// Closes the fast path. The lock's holder, which then waits until [`Stream::is_quiet`].
    pub fn close_cursor(&self) {
        self.reservation().close();
    }
    /// Whether the fast path is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        // ORDERING: relaxed: a hint; `try_reserve` looks again.
        self.cursor.0.peek() & CLOSED == 0 && self.failed().is_none()
    }
    /// Opens the fast path. The lock's holder, before it hands the lock on, if the stream is writing with a full buffer.
    ///
    /// Does nothing after a failed write, or while a writer holds room that it has not added to the cursor. That writer asked `admits`
    /// before the lock holder changed the stream (its geometry, its file), so it must find the cursor closed and give the room back. The next
    /// holder then opens it.
    pub fn open_cursor(&self) {
        let words = self.reservation();
        // The addition in `restart`, which `has_none_in_hand` acquires, and the release in `open`: a lane that takes room from here on sees
        // the stream as it is now.
        let none_in_hand = words.has_none_in_hand();
        if self.failed().is_none() && none_in_hand {
            words.open();
        }
    }
    /// The cursor's position. The lock's holder, with the cursor closed, or while no kernel runs.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        self.reservation().position()
    }
    /// Whether positions run short, so that writing has to restart. The lock's holder.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.reserved() > Self::SPENT
    }
    /// Whether every reservation made before the cursor was closed has been committed, every full block handed on, and nobody has room in
    /// hand. The lock's holder, with the cursor closed.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        // The block numbers seen below are no older than those that the reservers saw: acquired here. With an older one, a block's next
        // filling would pass for its last.
        let Some(end) = self.reservation().quiet_at() else { return false };
        // Only a writing stream's cursor is ever open. The blocks of another may be of an earlier size.
        if self.direction() != Direction::Writing {
            return true;
        }
        let bytes = self.block_bytes();
        let current = end >> self.block_shift.peek();
        self.places().all(|block| {
            // ORDERING: acquire, device, partner `free_block`, then `commit`.
            let block_number = block.block_number.observe();
            match block_number.cmp(&current) {
                core::cmp::Ordering::Less => {
                    // ORDERING: acquire, device, partner `free_block`: a block that has moved on is not the one that was looked at.
                    !block.state.is(State::Filling) || block.block_number.observe() != block_number
                }
                core::cmp::Ordering::Equal => {
                    // ORDERING: acquire, device, partner `commit`: the bytes come before.
                    block.committed.observe() & u64::from(u32::MAX) == end & (bytes - 1)
                }
                core::cmp::Ordering::Greater => true,
            }
        })
    }
    /// Begins writing at `offset` of the file. The lock's holder, with every block at rest (`rest.rs`): after a flush that came to `Done`,
    /// or [`Stream::take_back_step`].
    pub fn begin_writing(&self, resources: &Resources, offset: u64) {
        debug_assert!(self.is_all_filling(), "a block is in use");
        let shift = self.block_shift.peek();
        // Blocks of a seekable stream lie at multiples of B in the file.
        let inside = if self.order() == Order::OneByOne { 0 } else { offset & ((1 << shift) - 1) };
        // ORDERING: relaxed throughout: `open_cursor` or handing the lock on publishes it.
        self.base.set(offset - inside);
        for (block_number, block) in (0_u64..).zip(&self.blocks) {
            block.block_number.set(block_number);
            block.state.reset();
            let taken = if block_number == 0 { inside } else { 0 };
            block.committed.set(taken);
            #[allow(clippy::cast_possible_truncation, reason = "below B, which is below 2³²")]
            block.written.set(taken as u32);
            if block_number < u64::from(self.block_count.peek()) {
                // Nothing is to be written now, and before this place's switch its block had nothing to be written either, or what is
                // dropped: a fault between two of them finds no more than that.
                self.note(resources, block_number, 0);
            }
        }
        self.next.set(0);
        self.reservation().restart(inside, u64::from(self.block_count.peek()) << shift);
        self.direction.set(Direction::Writing as u32);
    }
    /// Reserves under the lock, up to the end of the block that the cursor stands in. The result is how many of `bytes`: 0 while the block's
    /// earlier content is still being written. The lock's holder, when quiet.
    #[must_use]
    pub fn reserve_locked(&self, bytes: u64) -> u64 {
        let at = self.reserved();
        let block_number = at >> self.block_shift.peek();
        // ORDERING: acquire, device, partner `free_block`: the kernel's reading of the old content comes before.
        if self.place(block_number).block_number.observe() != block_number {
            return 0;
        }
        let left_in_block = self.block_bytes() - (at & (self.block_bytes() - 1));
        let taken = bytes.min(left_in_block);
        self.reservation().take_closed(at, taken);
        taken
    }
    /// Whether the system may still use one of the buffers of a stream that writes. The lock's holder, when quiet.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        // `observe` acquires from `reap`: where the answer is no, the buffers are this lane's.
        let is_the_systems =
            |block: &Block| matches!(block.state.observe(), State::Claimed | State::InFlight(_));
        self.direction() == Direction::Writing && self.places().any(is_the_systems)
    }
    /// Gives a stream that reads another buffer, since an operation that nobody waits for any more may still fill its own, which stays
    /// taken; whether there was one. While no kernel runs.
    #[must_use]
    pub fn change_read_buffer(&self, resources: &Resources) -> bool {
        // ORDERING: relaxed: no kernel runs.
        // What is left in the buffer was read by an operation that has ended, and none is made before it is used up.
        if self.read_next.peek() != self.read_end.peek() {
            return true;
        }
        let Some(claim) = resources.stream_buffers.free.claim(1, 0) else { return false };
        // It is the stream's own from now on.
        self.blocks[0].give(resources, claim.item(0));
        true
    }
    /// Makes a free entry an open stream on `file`, with one block in the buffer of its own. Its only user so far; the blocks of its last
    /// stream came to rest before that was closed (`rest.rs`).
    pub fn set_up(&self, resources: &Resources, file: u32, file_flags: u32, buffering: Buffering) {
        self.shared.set(0);
        self.begin(resources, file, file_flags, buffering);
        // ORDERING: release (and acquire), device, partner whoever finds the stream open by its generation alone, with acquire: `fflush(NULL)`,
        // a handle of C. A lane that has the handle from the opener has it by an edge of the program's.
        self.generation.fetch_add(1);
    }

    /// The flag of a stream that refuses some of the access that its file is open for: [`OpenFile::READABLE`], [`OpenFile::WRITABLE`].
    #[must_use]
    pub const fn without(access: u32) -> u32 {
        (access & (OpenFile::READABLE | OpenFile::WRITABLE)) << Self::REFUSED_SHIFT
    }
    /// The access that it refuses. The lock's holder.
    #[must_use]
    pub fn refused(&self) -> u32 {
        // ORDERING: relaxed: constant while the stream is open, and handed on with its handle.
        self.flags.peek() >> Self::REFUSED_SHIFT
    }

    /// Makes an entry a stream on `file` that nobody has used yet, as [`Stream::set_up`]; whether it is open stays. The lock's holder, one lane,
    /// when the blocks are at rest, or the only user.
    pub fn begin(&self, resources: &Resources, file: u32, file_flags: u32, buffering: Buffering) {
        debug_assert!(self.is_all_filling(), "a block is in use");
        // ORDERING: relaxed throughout: the generation's release publishes it, or the lock's hand-over.
        // Room of the entry's last stream that a late lane still has in hand it gives back: `available`, `granted_to` and `closed_at` stay as
        // they are.
        self.reservation().close();
        self.block_shift.set(resources.stream_buffers.buffer_bytes.trailing_zeros());
        self.block_count.set(1);
        // What has no position forgets what it is given, in whatever order that comes.
        let placed = file_flags & (OpenFile::SEEKABLE | OpenFile::POSITIONLESS) != 0;
        let serial = !placed || file_flags & OpenFile::APPEND != 0;
        let order = if serial { Order::OneByOne } else { Order::Any };
        self.order.set(order as u32);
        self.error.set(0);
        self.file.set(file);
        self.base.set(0);
        self.next.set(0);
        self.direction.set(Direction::Idle as u32);
        self.buffering.set(buffering as u32);
        self.flags.set(0);
        self.pushed_count.set(0);
        self.position.set(0);
        self.read_next.set(0);
        self.read_end.set(0);
        self.holder.set(0);
        self.holds.set(0);
        self.memory.forget();
        self.lines.set_up();
        for (block_number, block) in (0..).zip(&self.blocks) {
            block.block_number.set(block_number);
            block.state.reset();
            block.committed.set(0);
            block.written.set(0);
        }
        self.blocks[0].give(resources, self.blocks[0].buffer.peek());
    }
}
