//! The interleavings of a stream's fast path, and what weak memory makes of them, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_stream --release`
//!
//! Bounded as `loom.rs` is. A stream of two blocks of two bytes, for each of which a cell stands whose accesses loom checks for races.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | room is taken relaxed | `free_reserve` |
//! | what was taken in vain is kept | `reserve_reserve` |
//! | no look at CLOSED behind the cursor's addition; the room is then kept; the cursor is closed by a store | `close_write` |
//! | the cursor is opened while somebody has room in hand; the generation is not compared | `reopen_write` |
//! | `committed` is added to, or read by `is_quiet`, relaxed; FULL is stored relaxed | `close_write` |
//! | a grant is stored, not exchanged; no fence before granting; two free a block | `tend_tend` |
//! | two start a block | `start_start` |
//!
//! No model catches: the cursor added to relaxed; `is_quiet` without its look at the cursor, or at the room, which `open_cursor` makes again;
//! `turn`, the granted room or the generation stored relaxed. Here other orders stand in for each.
#![cfg(loom)]
#![allow(unsafe_code, reason = "a session of pointers, and the cells")]

mod rig;

use gpufs_core::abi::Cqe;
use gpufs_core::session::{OpenFile, Session};
use gpufs_core::stream::{Buffering, Progress, Reservation, Stream};
use gpufs_core::word::EntryCell;
use loom::sync::Arc;
use loom::thread;
use rig::models::{self, spawn};
use rig::{Rig, Shape};

/// B.
const BLOCK: u64 = 2;
/// K.
const BLOCKS: u64 = 2;

/// What a cell holds: 16 bytes, as entry cells do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
struct Byte(u64, u64);

/// A session of one ring and one stream, open for writing, with nothing in it. What pointers point to is in boxes.
struct World {
    rig: Box<Rig>,
    stream: Box<Stream>,
    _file: Box<OpenFile>,
    session: Session,
    bytes: Vec<EntryCell<Byte>>,
}

impl World {
    fn new() -> Self {
        let (rig, stream, file) =
            (Box::new(Rig::new(Shape::square(2))), Box::<Stream>::default(), Box::<OpenFile>::default());
        let session = Session {
            stream_buffers: models::no_pool(BLOCK as u32),
            blocks_per_stream: BLOCKS as u32,
            ..models::session_of(&rig.queue, &file, &stream)
        };
        stream.set_up(&session, 0, OpenFile::SEEKABLE, &[0, 1], BLOCK as u32, Buffering::Full);
        stream.begin_writing(&session, 0);
        stream.open_cursor();
        let bytes = (0..BLOCK * BLOCKS).map(|_| EntryCell::new(Byte::default())).collect();
        Self { rig, stream, _file: file, session, bytes }
    }

    /// The cell of a position.
    fn byte(&self, position: u64) -> &EntryCell<Byte> {
        &self.bytes[(position % (BLOCK * BLOCKS)) as usize]
    }

    /// Writes a byte by the fast path, looking for room at most `looks` times; its position. Starts the block that it fills.
    fn write(&self, looks: u32) -> Option<u64> {
        let stream = &self.stream;
        for _ in 0..looks {
            match stream.try_reserve(1, 1) {
                Reservation::At(position) => {
                    // Until it is counted in, the stream stays what it is.
                    assert_eq!(stream.generation.observe(), 1);
                    // SAFETY:
                    // - the position was reserved by this thread alone, and what its place held was read by the kernel: what is tested
                    unsafe { self.byte(position).write(Byte(position, 1)) };
                    self.commit(position);
                    return Some(position);
                }
                Reservation::Closed => return None,
                Reservation::Busy => thread::yield_now(),
            }
        }
        None
    }

    /// Counts the byte of a reserved position in.
    fn commit(&self, position: u64) {
        let layout = self.stream.layout(&self.session);
        let spot = self.stream.spot(&layout, layout.block_of(position));
        let inside = (position % BLOCK) as u32;
        let committed = self.stream.commit(&self.session, &layout, spot, (inside, 1), 0);
        assert_eq!(committed.unrecorded, None);
        if committed.full {
            let (Progress::Wait(_) | Progress::Done | Progress::NoSlot) =
                self.stream.start(&self.session, 0, spot.number)
            else {
                panic!("no write has failed");
            };
        }
    }

    /// The kernel: reads the bytes of each write that it finds, and completes it. Looks at most `looks` times; how many it served.
    fn serve(&self, looks: u32) -> u32 {
        let mut head = 0;
        for _ in 0..looks {
            // ORDERING: acquire, partner the publisher.
            let tail = self.rig.sq_tail().observe();
            for ticket in head..tail {
                // SAFETY:
                // - the tail was acquired beyond the ticket
                let sqe = unsafe { self.rig.sqe(ticket).read() };
                for position in sqe.off..sqe.off + u64::from(sqe.len) {
                    // SAFETY:
                    // - the block is the kernel's: what is tested
                    let byte = unsafe { self.byte(position).read() };
                    assert_eq!(byte, Byte(position, 1), "a block was started before it was full");
                }
                // SAFETY:
                // - as many entries as slots, each of which is in flight once
                unsafe {
                    self.rig.cqe(ticket).write(Cqe {
                        user_data: sqe.user_data,
                        res: sqe.len.cast_signed(),
                        flags: 0,
                    })
                };
                // ORDERING: release, partner the poller.
                self.rig.cq_tail().publish(ticket.wrapping_add(1));
            }
            head = tail;
            thread::yield_now();
        }
        head
    }

    /// Looks after the blocks at most `looks` times.
    fn tend(&self, looks: u32) {
        for _ in 0..looks {
            self.rig.queue.drain_alone(2);
            for place in 0..BLOCKS as u32 {
                let _ = self.stream.tend(&self.session, 0, place);
            }
            thread::yield_now();
        }
    }

    /// Closes the fast path and looks at most `looks` times whether all that was reserved is counted in; if so, every byte is there.
    fn close(&self, looks: u32) -> Option<u64> {
        self.stream.close_cursor();
        for _ in 0..looks {
            if self.stream.is_quiet() {
                let end = self.stream.reserved();
                for position in end.saturating_sub(BLOCK * BLOCKS)..end {
                    // SAFETY:
                    // - the stream is quiet: what is tested
                    assert_eq!(unsafe { self.byte(position).read() }, Byte(position, 1));
                }
                return Some(end);
            }
            thread::yield_now();
        }
        None
    }
}

/// Explores `model`, with at most `preemptions` involuntary switches in one run.
fn explore(preemptions: usize, model: impl Fn(&Arc<World>) + Sync + Send + 'static) {
    models::explore(preemptions, World::new, model);
}

/// Two reserve at once, for the last bytes: each gets a place of its own, or none.
#[test]
fn reserve_reserve() {
    explore(5, |world| {
        for position in 0..BLOCK * BLOCKS - 1 {
            assert_eq!(world.write(1), Some(position));
        }
        let other = spawn(world, |world| world.write(1));
        let places = [world.write(1), other.join().unwrap()];
        assert!(places.iter().flatten().eq([&3]), "{places:?}");
        assert_eq!(world.stream.room.0.peek(), 0, "what was taken in vain was given back");
    });
}

/// The lock's holder closes the fast path while two write: when it finds the stream quiet, all that was reserved is there, and nobody
/// reserves any more.
#[test]
fn close_write() {
    explore(3, |world| {
        let others = [(); 2].map(|()| spawn(world, |world| world.write(1)));
        let end = world.close(2);
        let places: Vec<_> = others.into_iter().filter_map(|other| other.join().unwrap()).collect();
        if let Some(end) = end {
            assert_eq!(places.len() as u64, end);
        }
        let mut sorted = places.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..places.len() as u64), "{places:?}");
        assert!(world.stream.is_quiet());
    });
}

/// The lock's holder closes the stream and opens another in its place, while one writes by the old handle: it writes before, or not at all.
#[test]
fn reopen_write() {
    explore(3, |world| {
        let writer = spawn(world, |world| world.write(1));
        if let Some(end) = world.close(2) {
            let (stream, session) = (&world.stream, &world.session);
            stream.generation.add(1);
            stream.set_up(session, 0, OpenFile::SEEKABLE, &[0, 1], BLOCK as u32, Buffering::Full);
            stream.begin_writing(session, 0);
            stream.open_cursor();
            assert_eq!(writer.join().unwrap().is_some(), end == 1);
            assert_eq!(stream.room.0.peek(), BLOCK * BLOCKS);
        } else {
            writer.join().unwrap();
        }
    });
}

/// The lock's holder closes the fast path while a block is freed and another writer takes its place.
#[test]
fn free_close() {
    explore(2, |world| {
        for position in 0..BLOCK * BLOCKS {
            assert_eq!(world.write(1), Some(position));
        }
        assert_eq!(world.serve(1), 2);
        let tender = spawn(world, |world| world.tend(1));
        let writer = spawn(world, |world| world.write(2));
        let end = world.close(2);
        tender.join().unwrap();
        let place = writer.join().unwrap();
        assert!(place.is_none_or(|place| place == BLOCK * BLOCKS), "{place:?}");
        if let Some(end) = end {
            assert_eq!(end, BLOCK * BLOCKS + u64::from(place.is_some()));
        }
    });
}

/// Two start the same blocks, which found no slot when they were full: each is started once.
#[test]
fn start_start() {
    explore(3, |world| {
        let claim = world.rig.queue.claim(2, 0).unwrap();
        for position in 0..BLOCK * BLOCKS {
            assert_eq!(world.write(1), Some(position));
        }
        world.rig.queue.release(claim);
        let other = spawn(world, |world| world.tend(1));
        world.tend(1);
        other.join().unwrap();
        world.tend(1);
        assert_eq!(world.serve(1), 2);
        world.tend(1);
        assert_eq!(world.stream.room.0.peek(), BLOCK * BLOCKS);
    });
}

/// A block is written, freed and granted while another writer waits for room: it writes where the kernel has read.
#[test]
fn free_reserve() {
    explore(3, |world| {
        for position in 0..BLOCK * BLOCKS {
            assert_eq!(world.write(1), Some(position));
        }
        let writer = spawn(world, |world| world.write(2));
        let tender = spawn(world, |world| world.tend(2));
        world.serve(1);
        tender.join().unwrap();
        let place = writer.join().unwrap();
        assert!(place.is_none_or(|place| place == BLOCK * BLOCKS), "{place:?}");
    });
}

/// Two look after the same blocks: each is freed once, and granted once.
#[test]
fn tend_tend() {
    explore(3, |world| {
        for position in 0..BLOCK * BLOCKS {
            assert_eq!(world.write(1), Some(position));
        }
        assert_eq!(world.serve(1), 2);
        let other = spawn(world, |world| world.tend(1));
        world.tend(1);
        other.join().unwrap();
        // Whoever came late finds nothing to do.
        world.tend(1);
        assert_eq!(world.stream.room.0.peek(), BLOCK * BLOCKS);
        assert_eq!(world.rig.queue.free_slots(), 2);
        assert_eq!(world.write(1), Some(BLOCK * BLOCKS));
    });
}
