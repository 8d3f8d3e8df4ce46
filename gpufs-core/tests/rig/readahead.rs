//! A session of one ring and one stream whose units, lines or tokens, are read ahead: what the models of them are about.
//!
//! A file of units of 8 bytes, four to a block; two places. For what the kernel reads into a place stands one cell, for the text of each of its
//! units another, whose accesses loom checks for races. A line ends with its block; of tokens, each block ends the one that the block before
//! began, so block 0 has an end that ends nothing.

use gpufs_core::FreeSet;
use gpufs_core::abi::Cqe;
use gpufs_core::alloc::{BufferPool, BufferPoolParts};
use gpufs_core::files::OpenFile;
use gpufs_core::resources::{Resources, ResourcesParts};
use gpufs_core::stream::readahead::{Tokens, Work};
use gpufs_core::stream::{Buffering, Progress, Reservation, Stream};
use gpufs_core::word::{DeviceWord64, EntryCell};
use loom::thread;

use super::models;
use super::run::publish_run;
use super::{Rig, Shape};

/// B.
pub(crate) const BLOCK: u64 = 32;
/// Bytes of a unit: the longest that is published.
pub(crate) const UNIT: u64 = 8;
/// Ends of units in a block.
const ENDS: u64 = BLOCK / UNIT;
/// K.
pub(crate) const PLACES: u32 = 2;

/// What a cell holds: the number of a unit in the file, from 1. 16 bytes, as entry cells do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
struct Number(u64, u64);

/// A session of one ring and one stream that reads. What pointers point to is in boxes and vectors.
pub(crate) struct World {
    pub(crate) rig: Box<Rig>,
    pub(crate) stream: Box<Stream>,
    pub(crate) session: Resources,
    _file: Box<OpenFile>,
    _texts: Vec<u128>,
    _free: Vec<DeviceWord64>,
    /// What each place's buffer holds.
    buffers: Vec<EntryCell<Number>>,
    /// What the units of each place's text hold, by the ends in it.
    texts: Vec<EntryCell<Number>>,
}

impl World {
    /// Lines are open, or tokens of a kind; nothing was read.
    pub(crate) fn new(units: Option<Tokens>) -> Self {
        let (rig, stream, file) =
            (Box::new(Rig::new(Shape::square(4))), Box::<Stream>::default(), Box::<OpenFile>::default());
        let memory = vec![0_u128; PLACES as usize * 2 * BLOCK as usize / 16];
        let free: Vec<_> = (0..2).map(|_| DeviceWord64::new(FreeSet::initial_word(PLACES, 0))).collect();
        // SAFETY:
        // - one word each, in a vector that is never resized and lives as long as the session
        let sets = unsafe { [FreeSet::new(&raw const free[0], 1), FreeSet::new(&raw const free[1], 1)] };
        let blocks = BufferPoolParts { free: sets[0], ..*models::no_pool(BLOCK as u32) };
        let texts = BufferPoolParts {
            base: memory.as_ptr() as u64,
            free: sets[1],
            ..*models::no_pool(2 * BLOCK as u32)
        };
        // SAFETY:
        // - the memory of texts outlives the session; that of blocks is not reached
        let (stream_buffers, line_buffers) = unsafe { (BufferPool::new(blocks), BufferPool::new(texts)) };
        let parts = ResourcesParts {
            stream_buffers,
            line_buffers,
            blocks_per_stream: PLACES,
            ..models::session_of(&rig.queue, &file, &stream)
        };
        // SAFETY:
        // - all of it outlives the session
        let session = unsafe { Resources::new(parts) };
        stream.set_up(&session, 0, OpenFile::SEEKABLE, Buffering::Full);
        let cells = |count| (0..count).map(|_| EntryCell::new(Number::default())).collect();
        let (buffers, texts) = (cells(PLACES.into()), cells(u64::from(PLACES) * ENDS));
        let world = Self { rig, stream, session, _file: file, _texts: memory, _free: free, buffers, texts };
        world.open(units);
        world
    }

    /// Opens lines, or tokens of a kind, where the stream stands.
    pub(crate) fn open(&self, units: Option<Tokens>) {
        let (lines, session, stream) = (&self.stream.lines, &self.session, &*self.stream);
        match units {
            None => lines.open(session, stream, UNIT as u32),
            Some(kind) => lines.open_tokens(session, stream, kind),
        }
    }

    /// Whether a place's first end ends nothing. Of a place that is claimed, or whose units are taken.
    fn is_first_skipped(&self, place: u32) -> bool {
        let lines = &self.stream.lines;
        lines.tokens().is_some() && lines.places[place as usize].block_number.peek() == 0
    }

    /// The cell of the unit that ends at an end of a place's block.
    fn text(&self, place: u32, end: u64) -> &EntryCell<Number> {
        &self.texts[(u64::from(place) * ENDS + end) as usize]
    }

    /// The kernel, which one thread at a time is: completes the reads that it has not seen yet; how many there were so far.
    pub(crate) fn serve(&self) -> u32 {
        // ORDERING: acquire, partner this function in another thread.
        let head = self.rig.cq_tail().observe();
        // ORDERING: acquire, partner the publisher.
        let tail = self.rig.sq_tail().observe();
        for ticket in head..tail {
            // SAFETY:
            // - the tail was acquired beyond the ticket
            let sqe = unsafe { self.rig.sqe(ticket).read() };
            assert_eq!((u64::from(sqe.len), sqe.off % UNIT), (BLOCK, 0), "whole blocks are read");
            // SAFETY:
            // - the buffer is the kernel's: what is tested. Which it is shows in its address, since the pool begins at 0
            unsafe { self.buffers[(sqe.addr / BLOCK) as usize].write(Number(1 + sqe.off / UNIT, 0)) };
            let cqe = Cqe { user_data: sqe.user_data, res: sqe.len.cast_signed(), flags: 0 };
            // SAFETY:
            // - as many entries as slots, each of which is in flight once
            unsafe { self.rig.cqe(ticket).write(cqe) };
            // ORDERING: release, partner the poller.
            self.rig.cq_tail().publish(ticket.wrapping_add(1));
        }
        tail
    }

    /// Starts and reaps reads, and indexes what was read.
    pub(crate) fn look_after(&self) {
        let (lines, session, stream) = (&self.stream.lines, &self.session, &*self.stream);
        self.rig.queue.drain_alone(4);
        for place in 0..PLACES {
            if lines.progress(session, stream, place).0 == Work::Index && lines.claim(place, Work::Index) {
                let buffer = (lines.memory(session, place).0 / BLOCK) as usize;
                // SAFETY:
                // - the place is claimed, and its read was reaped: what is tested
                let first = unsafe { self.buffers[buffer].read() }.0;
                let ends = lines.memory(session, place).2 as *mut u32;
                let of_tokens = u64::from(lines.tokens().is_some());
                for end in 0..ENDS {
                    // SAFETY:
                    // - the place is claimed: what is tested
                    unsafe { self.text(place, end).write(Number(first + end - of_tokens, 1)) };
                    // SAFETY:
                    // - within the pool's memory, which has room for so many ends behind a text
                    unsafe { ends.add(end as usize).write(((end + 1 - of_tokens) * UNIT) as u32) };
                }
                lines.indexed(place, ENDS as u32, (BLOCK - of_tokens * UNIT) as u32, false);
            }
        }
    }

    /// Publishes what is next.
    pub(crate) fn publish(&self) {
        while self.publish_run(PLACES) {}
    }

    /// [`publish_run`] of this stream; whether there was one.
    pub(crate) fn publish_run(&self, blocks_max: u32) -> bool {
        publish_run((&self.session, &self.stream), blocks_max, |place, bytes, _| {
            self.check_carried(place, bytes)
        })
    }

    /// What is carried over into a claimed place is what was begun in the block before.
    fn check_carried(&self, place: u32, bytes: u64) {
        let lines = &self.stream.lines;
        let is_first = lines.places[place as usize].block_number.peek() == 0;
        let begun = if is_first || lines.tokens().is_none() { 0 } else { UNIT };
        assert_eq!(bytes, begun, "a block ends with a line, or with a token that is begun");
        // As if a line were begun there, too.
        if is_first {
            return;
        }
        let before = self.text((place + 1) % PLACES, ENDS - 1);
        // SAFETY:
        // - the block before stays until its begun line is carried over: what is tested
        let carried = unsafe { before.read() };
        // SAFETY:
        // - the place is claimed: what is tested
        let first = unsafe { self.text(place, 0).read() };
        assert_eq!(carried.0 + 1, first.0);
    }

    /// As a warp that found no lines.
    pub(crate) fn progress(&self) {
        if self.stream.lines.enter_progress() {
            self.look_after();
            self.publish();
            self.stream.lines.leave_progress();
        }
    }

    /// Reads both places' blocks; leaves them indexed.
    pub(crate) fn indexed(&self) {
        self.look_after();
        assert_eq!(self.serve(), PLACES);
        self.look_after();
    }

    /// Takes `count` lines, or tokens of a kind, looking for them at most `looks` times: their numbers in the file, from 1.
    pub(crate) fn take(&self, units: Option<Tokens>, count: u64, looks: u32) -> Option<Vec<u64>> {
        let (lines, session, stream) = (&self.stream.lines, &self.session, &*self.stream);
        for _ in 0..looks {
            let generation = stream.generation.peek();
            let taken = match units {
                None => lines.try_take_lines(stream, generation, count, UNIT),
                Some(kind) => lines.try_take_tokens(stream, generation, count, kind),
            };
            match taken {
                Reservation::At(first) => {
                    assert_eq!(lines.tokens(), units, "what was taken is what was asked for");
                    let mut numbers = Vec::new();
                    for place in 0..PLACES {
                        let (base, published) = lines.of_place(place);
                        let mine = first.max(base)..(first + count).min(base + published);
                        let taken = mine.end.saturating_sub(mine.start);
                        let skipped = u64::from(self.is_first_skipped(place));
                        for number in mine {
                            let (_, bytes) = lines.locate(session, place, number - base);
                            assert_eq!(bytes, UNIT);
                            // SAFETY:
                            // - the unit was taken by this thread alone, and its block stays until it is counted: what is tested
                            let found = unsafe { self.text(place, number - base + skipped).read() };
                            assert_eq!(found.1, 1);
                            numbers.push(found.0);
                        }
                        if taken != 0 {
                            lines.count_taken(session, stream, place, taken);
                        }
                    }
                    lines.leave();
                    assert_eq!(numbers.len() as u64, count, "what was taken is published");
                    numbers.sort_unstable();
                    return Some(numbers);
                }
                Reservation::Closed => return None,
                Reservation::Busy => thread::yield_now(),
            }
        }
        None
    }

    /// As the lock's holder: closes lines, and looks at most `looks` times whether they are settled; if so, how many units of the file the
    /// stream is behind.
    pub(crate) fn close(&self, looks: u32) -> Option<u64> {
        let (lines, session, stream) = (&self.stream.lines, &self.session, &*self.stream);
        lines.close();
        for _ in 0..looks {
            if lines.settle_reads(session, stream) == Progress::Done {
                // The buffers and texts are somebody else's now.
                for cell in self.buffers.iter().chain(&self.texts) {
                    // SAFETY:
                    // - nobody has units, nor reads: what is tested
                    unsafe { cell.write(Number::default()) };
                }
                assert_eq!(
                    (session.stream_buffers.free.free(), session.line_buffers.free.free()),
                    (PLACES, PLACES)
                );
                assert_eq!(stream.position.peek() % UNIT, 0);
                return Some(stream.position.peek() / UNIT);
            }
            self.serve();
            self.rig.queue.drain_alone(4);
            thread::yield_now();
        }
        None
    }
}
