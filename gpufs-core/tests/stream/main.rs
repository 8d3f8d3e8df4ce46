//! The steps of a stream, one at a time: what each says, asks the kernel for, and leaves.
//!
//! What lanes do at the same time is `loom_stream.rs`'s and its neighbours'.
#![cfg(not(loom))]
#![expect(unsafe_code, reason = "the journal's record in force, and a slot that is armed")]

mod flush;
mod journaled;
mod opening;
mod publishing;
mod reserving;
#[path = "../rig/mod.rs"]
mod rig;
mod taking;
mod text;
mod words;

use gpufs_core::Slot;
use gpufs_core::abi::{CURRENT_POSITION, Errno};
use gpufs_core::files::OpenFile;
use gpufs_core::journal::Record;
use gpufs_core::stream::{
    BLOCKS_MAX, Block, Buffering, CLOSED, Committed, Direction, MemoryKind, Progress, Reservation, State,
    Stream, Token,
};
use rig::tables::{BUFFERS, ENTRIES, SLOTS, STREAMS, Sizes, Tables};

/// log₂ B, and B.
const SHIFT: u32 = 5;
const BLOCK: u32 = 1 << SHIFT;
/// K.
const BLOCKS: u32 = 4;
/// The descriptor of the file.
const DESCRIPTOR: u32 = 17;
/// `EIO` as a completion has it.
const EIO: i32 = -5;

const USUAL: Sizes = Sizes { rings: 2, shift: SHIFT, blocks: BLOCKS, journaled: false };
const JOURNALED: Sizes = Sizes { journaled: true, ..USUAL };

/// Tables whose first stream is on a file of these flags, open, and neither reads nor writes.
fn opened(sizes: Sizes, file_flags: u32) -> Tables {
    let tables = Tables::new(sizes);
    tables.files[0].descriptor.set(DESCRIPTOR);
    tables.streams[0].set_up(&tables.session, 0, file_flags, Buffering::Full);
    tables
}

/// Tables whose first stream writes from an offset on, with all blocks that it asks for.
fn writing(sizes: Sizes, file_flags: u32, offset: u64) -> Tables {
    let tables = opened(sizes, file_flags);
    tables.streams[0].grow(&tables.session);
    tables.streams[0].begin_writing(&tables.session, offset);
    tables.streams[0].open_cursor();
    tables
}

impl Tables {
    fn stream(&self) -> &Stream {
        &self.streams[0]
    }
    fn block(&self, place: usize) -> &Block {
        &self.stream().blocks[place]
    }

    /// Takes room and counts it in, block by block; where it begins. What is full is not started.
    fn put(&self, bytes: u32) -> u64 {
        let Reservation::At(position) = self.stream().try_reserve(1, bytes.into()) else {
            panic!("no room for {bytes}")
        };
        self.commit(position, bytes);
        position
    }
    fn commit(&self, position: u64, bytes: u32) {
        let (mut at, end) = (position, position + u64::from(bytes));
        while at < end {
            let left = u64::from(BLOCK) - at % u64::from(BLOCK);
            let taken = left.min(end - at);
            let committed = self.commit_in_block(at, taken as u32);
            assert_eq!(committed.full, taken == left && at % u64::from(BLOCK) + taken == u64::from(BLOCK));
            at += taken;
        }
    }
    /// Counts in bytes of one block. All that is reserved before is counted in.
    fn commit_in_block(&self, position: u64, bytes: u32) -> Committed {
        let (stream, session) = (self.stream(), &self.session);
        let geometry = stream.geometry(session);
        let number = geometry.block_of(position);
        let range = ((position - geometry.start_of(number)) as u32, bytes);
        let entry = stream.draw_entry(&geometry, number, range);
        stream.commit(session, &geometry, stream.block_ref(&geometry, number), range, entry)
    }
    /// The lock's holder closes the fast path; nobody is on it.
    fn close(&self) {
        self.stream().close_cursor();
        assert!(self.stream().is_quiet());
    }
    /// The lock's holder writes all that was accepted.
    fn flush(&self) {
        for _ in 0..10 {
            match self.stream().flush_step(&self.session, 0) {
                Progress::Wait(_) => self.complete_all(),
                end => return assert_eq!(end, Progress::Done),
            }
        }
        panic!("no end");
    }
    /// Of the last entry of a ring: offset in the file, bytes, and where in the buffer of a place.
    fn last_write(&self, ring: u32, place: usize) -> (u64, u32, u64) {
        let sqe = self.entry(ring, self.submitted(ring) - 1);
        assert_eq!(sqe.fd.cast_unsigned(), DESCRIPTOR);
        let buffer = self.session.stream_buffers.address(self.block(place).buffer.peek());
        (sqe.off, sqe.len, sqe.addr - buffer)
    }
    /// The record in force of a place's buffer, and its epoch.
    fn record(&self, place: usize) -> (Record, u64) {
        // SAFETY:
        // - nobody switches
        let in_force = unsafe { self.session.journal.in_force(self.block(place).buffer.peek()) };
        let (record, epoch, _) = in_force.unwrap();
        assert_eq!(epoch, self.block(place).epoch.peek());
        (record, epoch)
    }
}
