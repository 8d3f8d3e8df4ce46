//! The interleavings of lines that are read ahead, and what weak memory makes of them, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_lines --release`
//!
//! Bounded as `loom.rs` is. A file of lines of 8 bytes, four to a block; two places. For what the kernel reads into a place stands one cell,
//! for the text of each of its lines another, whose accesses loom checks for races.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | room is taken relaxed; a block's lines are noted behind its room | `publish_take`, `close_progress`, `reopen_take` |
//! | what was taken in vain is kept | `take_take`, `close_take`, `reopen_take` |
//! | no look at CLOSED behind the cursor's addition; the room is then kept | `close_take`, `reopen_take` |
//! | the cursor is closed by a store; `is_quiet` without its look at the cursor | `close_take`, `close_progress`, `reopen_take` |
//! | `taken` is counted relaxed | `free_publish` |
//! | a block is freed before its begun line was carried over | `free_publish` |
//! | no second look at `next` | `progress_progress` |
//! | a claim, or a read's start, without its exchange | `progress_progress`; `free_publish` |
//! | `READ`, `INDEXED` or `next` stored relaxed | `progress_progress` |
//! | a caller leaves relaxed | `close_take`, `close_progress`, `reopen_take` |
//!
//! No model catches `is_quiet` without its look at the room, which is there as long as a caller is active but for a moment; nor lines that settle
//! without waiting for their reads. Not decided: settled in one step, which takes too long.
#![cfg(loom)]
#![allow(unsafe_code, reason = "a session of pointers, and the cells")]

mod rig;

use gpufs_core::FreeSet;
use gpufs_core::abi::Cqe;
use gpufs_core::alloc::BufferPool;
use gpufs_core::files::OpenFile;
use gpufs_core::resources::Resources;
use gpufs_core::stream::readahead::Work;
use gpufs_core::stream::{Buffering, Progress, Reservation, Stream};
use gpufs_core::word::{DeviceWord64, EntryCell};
use loom::sync::Arc;
use loom::thread;
use rig::models::{self, spawn};
use rig::{Rig, Shape};

/// B.
const BLOCK: u64 = 32;
/// Bytes of a line: the longest that is published.
const LINE: u64 = 8;
/// Lines of a block.
const LINES: u64 = BLOCK / LINE;
/// K.
const PLACES: u32 = 2;

/// What a cell holds: the number of a block or line in the file, from 1. 16 bytes, as entry cells do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
struct Number(u64, u64);

/// A session of one ring and one stream that reads. What pointers point to is in boxes and vectors.
struct World {
    rig: Box<Rig>,
    stream: Box<Stream>,
    session: Resources,
    _file: Box<OpenFile>,
    _texts: Vec<u128>,
    _free: Vec<DeviceWord64>,
    /// What each place's buffer holds.
    buffers: Vec<EntryCell<Number>>,
    /// What the lines of each place's text hold.
    texts: Vec<EntryCell<Number>>,
}

impl World {
    /// Lines are open; nothing was read.
    fn new() -> Self {
        let (rig, stream, file) =
            (Box::new(Rig::new(Shape::square(4))), Box::<Stream>::default(), Box::<OpenFile>::default());
        let memory = vec![0_u128; PLACES as usize * 2 * BLOCK as usize / 16];
        let free: Vec<_> = (0..2).map(|_| DeviceWord64::new(FreeSet::initial_word(PLACES, 0))).collect();
        // SAFETY:
        // - one word each, in a vector that is never resized and lives as long as the session
        let sets = unsafe { [FreeSet::new(&raw const free[0], 1), FreeSet::new(&raw const free[1], 1)] };
        let session = Resources {
            stream_buffers: BufferPool { free: sets[0], ..models::no_pool(BLOCK as u32) },
            line_buffers: BufferPool {
                base: memory.as_ptr() as u64,
                free: sets[1],
                ..models::no_pool(2 * BLOCK as u32)
            },
            blocks_per_stream: PLACES,
            ..models::session_of(&rig.queue, &file, &stream)
        };
        stream.set_up(&session, 0, OpenFile::SEEKABLE, Buffering::Full);
        stream.lines.open(&session, &stream, LINE as u32);
        let cells = |count| (0..count).map(|_| EntryCell::new(Number::default())).collect();
        let (buffers, texts) = (cells(PLACES.into()), cells(u64::from(PLACES) * LINES));
        Self { rig, stream, session, _file: file, _texts: memory, _free: free, buffers, texts }
    }

    /// The cell of a line of a place's block.
    fn text(&self, place: u32, line: u64) -> &EntryCell<Number> {
        &self.texts[(u64::from(place) * LINES + line) as usize]
    }

    /// The kernel, which one thread at a time is: completes the reads that it has not seen yet; how many there were so far.
    fn serve(&self) -> u32 {
        // ORDERING: acquire, partner this function in another thread.
        let head = self.rig.cq_tail().observe();
        // ORDERING: acquire, partner the publisher.
        let tail = self.rig.sq_tail().observe();
        for ticket in head..tail {
            // SAFETY:
            // - the tail was acquired beyond the ticket
            let sqe = unsafe { self.rig.sqe(ticket).read() };
            assert_eq!((u64::from(sqe.len), sqe.off % LINE), (BLOCK, 0), "whole blocks are read");
            // SAFETY:
            // - the buffer is the kernel's: what is tested. Which it is shows in its address, since the pool begins at 0
            unsafe { self.buffers[(sqe.addr / BLOCK) as usize].write(Number(1 + sqe.off / LINE, 0)) };
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
    fn look_after(&self) {
        let (lines, session, stream) = (&self.stream.lines, &self.session, &*self.stream);
        self.rig.queue.drain_alone(4);
        for place in 0..PLACES {
            if lines.progress(session, stream, place).0 == Work::Index && lines.claim(place, Work::Index) {
                let buffer = (lines.memory(session, place).0 / BLOCK) as usize;
                // SAFETY:
                // - the place is claimed, and its read was reaped: what is tested
                let first = unsafe { self.buffers[buffer].read() }.0;
                let ends = lines.memory(session, place).2 as *mut u32;
                for line in 0..LINES {
                    // SAFETY:
                    // - the place is claimed: what is tested
                    unsafe { self.text(place, line).write(Number(first + line, 1)) };
                    // SAFETY:
                    // - within the pool's memory, which has room for so many ends behind a text
                    unsafe { ends.add(line as usize).write(((line + 1) * LINE) as u32) };
                }
                lines.indexed(place, LINES as u32, BLOCK as u32, false);
            }
        }
    }

    /// Publishes what is next.
    fn publish(&self) {
        let lines = &self.stream.lines;
        while let Some(place) = lines.claim_next() {
            match lines.carry(&self.session, &self.stream, place) {
                Some((bytes, _)) => {
                    assert_eq!(bytes, 0, "blocks end with a line");
                    // As if one were begun there.
                    if lines.places[place as usize].block_number.peek() > 0 {
                        let before = self.text((place + 1) % PLACES, LINES - 1);
                        // SAFETY:
                        // - the block before stays until its begun line is carried over: what is tested
                        let carried = unsafe { before.read() };
                        // SAFETY:
                        // - the place is claimed: what is tested
                        let first = unsafe { self.text(place, 0).read() };
                        assert_eq!(carried.0 + 1, first.0);
                    }
                    lines.publish(&self.session, &self.stream, place, bytes);
                }
                None => lines.stop_at(place),
            }
        }
    }

    /// As a warp that found no lines.
    fn progress(&self) {
        if self.stream.lines.enter_progress() {
            self.look_after();
            self.publish();
            self.stream.lines.leave_progress();
        }
    }

    /// Reads both places' blocks; leaves them indexed.
    fn indexed(&self) {
        self.look_after();
        assert_eq!(self.serve(), PLACES);
        self.look_after();
    }

    /// Takes `count` lines, looking for them at most `looks` times: their numbers in the file, from 1.
    fn take(&self, count: u64, looks: u32) -> Option<Vec<u64>> {
        let (lines, session, stream) = (&self.stream.lines, &self.session, &*self.stream);
        for _ in 0..looks {
            match lines.try_take_lines(stream, stream.generation.peek(), count, LINE) {
                Reservation::At(line) => {
                    let mut numbers = Vec::new();
                    for place in 0..PLACES {
                        let (base, published) = lines.of_place(place);
                        let mine = line.max(base)..(line + count).min(base + published);
                        let taken = mine.end.saturating_sub(mine.start);
                        for number in mine {
                            let (_, bytes) = lines.locate(session, place, number - base);
                            assert_eq!(bytes, LINE);
                            // SAFETY:
                            // - the line was taken by this thread alone, and its block stays until it is counted: what is tested
                            let found = unsafe { self.text(place, number - base).read() };
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

    /// As the lock's holder: closes lines, and looks at most `looks` times whether they are settled; if so, how many lines of the file the stream
    /// is behind.
    fn close(&self, looks: u32) -> Option<u64> {
        let (lines, session, stream) = (&self.stream.lines, &self.session, &*self.stream);
        lines.close();
        for _ in 0..looks {
            if lines.settle_reads(session, stream) == Progress::Done {
                // The buffers and texts are somebody else's now.
                for cell in self.buffers.iter().chain(&self.texts) {
                    // SAFETY:
                    // - nobody has lines, nor reads: what is tested
                    unsafe { cell.write(Number::default()) };
                }
                assert_eq!(
                    (session.stream_buffers.free.free(), session.line_buffers.free.free()),
                    (PLACES, PLACES)
                );
                assert_eq!(stream.position.peek() % LINE, 0);
                return Some(stream.position.peek() / LINE);
            }
            self.serve();
            self.rig.queue.drain_alone(4);
            thread::yield_now();
        }
        None
    }
}

/// Explores `model`, with at most `preemptions` involuntary switches in one run.
fn explore(preemptions: usize, model: impl Fn(&Arc<World>) + Sync + Send + 'static) {
    models::explore(preemptions, World::new, model);
}

/// Two take at once, where there are lines for one of them: each gets lines of its own, or none, and what was taken in vain is given back.
#[test]
fn take_take() {
    explore(5, |world| {
        world.indexed();
        world.publish();
        assert_eq!(world.take(5, 1).unwrap(), [1, 2, 3, 4, 5]);
        let other = spawn(world, |world| world.take(2, 1));
        let mut all: Vec<_> =
            [world.take(2, 1), other.join().unwrap()].into_iter().flatten().flatten().collect();
        all.sort_unstable();
        assert!(all.is_empty() || all == [6, 7], "{all:?}");
        if all.is_empty() {
            assert_eq!(world.take(2, 1).unwrap(), [6, 7], "what was taken in vain is there again");
        }
        assert_eq!(world.take(1, 1).unwrap(), [8]);
    });
}

/// A block is published while another takes lines: what it takes is there.
#[test]
fn publish_take() {
    explore(4, |world| {
        world.indexed();
        let taker = spawn(world, |world| world.take(3, 2));
        world.publish();
        let taken = taker.join().unwrap();
        assert!(taken.is_none_or(|taken| taken == [1, 2, 3]));
    });
}

/// Two publish, and two index, the same blocks: each is published once, in order.
#[test]
fn progress_progress() {
    explore(2, |world| {
        world.look_after();
        assert_eq!(world.serve(), PLACES);
        world.rig.queue.drain_alone(4);
        let other = spawn(world, World::progress);
        world.progress();
        other.join().unwrap();
        world.progress();
        assert_eq!(world.take(8, 1).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
    });
}

/// The last lines of a block are taken while the next is published, which takes over what was begun in it: one of the two frees it, and its
/// place is read into anew while others may still copy.
#[test]
fn free_publish() {
    explore(4, |world| {
        world.indexed();
        let place = world.stream.lines.claim_next().unwrap();
        world.stream.lines.publish(&world.session, &world.stream, place, 0);
        let taker = spawn(world, |world| {
            let taken = world.take(4, 1);
            // The next block is read there, if it may be.
            world.look_after();
            world.serve();
            world.look_after();
            taken
        });
        world.publish();
        assert_eq!(taker.join().unwrap().unwrap(), [1, 2, 3, 4]);
        world.look_after();
        world.serve();
        world.progress();
        assert_eq!(world.take(8, 1).unwrap(), [5, 6, 7, 8, 9, 10, 11, 12]);
    });
}

/// The lock's holder closes lines while two take some: when they are settled, all that was taken has been copied, and the stream is behind it.
#[test]
fn close_take() {
    explore(3, |world| {
        world.indexed();
        world.publish();
        let takers = [(); 2].map(|()| spawn(world, |world| world.take(3, 1)));
        let end = world.close(3);
        let mut all: Vec<_> =
            takers.into_iter().filter_map(|taker| taker.join().unwrap()).flatten().collect();
        all.sort_unstable();
        assert!(all.iter().copied().eq(1..=all.len() as u64), "{all:?}");
        let end = end.or_else(|| world.close(3));
        assert_eq!(end, Some(all.len() as u64), "when all have left, lines are settled");
    });
}

/// The lock's holder closes lines while another starts reads, indexes and publishes.
#[test]
fn close_progress() {
    explore(3, |world| {
        world.look_after();
        assert_eq!(world.serve(), PLACES);
        let helper = spawn(world, World::progress);
        let taken = world.take(2, 1).map_or(0, |taken| taken.len() as u64);
        let end = world.close(3);
        helper.join().unwrap();
        let end = end.or_else(|| world.close(3));
        assert_eq!(end, Some(taken), "when all have left, lines are settled");
    });
}

/// The lock's holder closes lines and opens them again, while another takes some: no line twice, and none of the other opening's.
#[test]
fn reopen_take() {
    explore(2, |world| {
        world.indexed();
        world.publish();
        let taker = spawn(world, |world| world.take(2, 1));
        if let Some(end) = world.close(3) {
            let (lines, stream, session) = (&world.stream.lines, &world.stream, &world.session);
            lines.open(session, stream, LINE as u32);
            world.progress();
            world.serve();
            world.progress();
            let first = world.take(2, 1);
            let other = taker.join().unwrap();
            let mut all: Vec<_> = [first, other].into_iter().flatten().flatten().collect();
            all.sort_unstable();
            let before = if end == 2 { 0 } else { end };
            assert!(all.iter().copied().eq(before + 1..=before + all.len() as u64), "{all:?} behind {end}");
        } else {
            let taken = taker.join().unwrap().map_or(0, |taken| taken.len() as u64);
            assert_eq!(world.close(3), Some(taken), "when all have left, lines are settled");
        }
    });
}
