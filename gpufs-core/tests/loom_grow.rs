//! A stream that gets more blocks while others write to it, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_grow --release`
//!
//! Bounded as `loom.rs` is. A stream of one block of two bytes, and one more buffer to spare. For each byte of the buffers a cell stands whose
//! accesses loom checks for races.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | it grows before everything accepted is written | `grow_write` |
//! | a buffer is claimed and not noted in its place | `grow_write` |
//! | what others claimed meanwhile is taken for its own | `grow_grow` |
#![cfg(loom)]
#![allow(unsafe_code, reason = "a session of pointers, and the cells")]

mod rig;

use gpufs_core::abi::Cqe;
use gpufs_core::files::OpenFile;
use gpufs_core::resources::{Resources, ResourcesParts};
use gpufs_core::stream::{Buffering, Progress, Reservation, Stream};
use gpufs_core::word::{DeviceWord64, EntryCell};
use loom::sync::Mutex;
use loom::thread;
use rig::models::{self, spawn};
use rig::{Rig, Shape};

/// B.
const BLOCK: u64 = 2;

/// What a cell holds: 16 bytes, as entry cells do. Who wrote it, and which of its bytes it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C, align(16))]
struct Byte(u64, u64);

struct World {
    rig: Box<Rig>,
    stream: Box<Stream>,
    _file: Box<OpenFile>,
    free: Box<DeviceWord64>,
    session: Resources,
    /// The buffers' memory, by address.
    bytes: Vec<EntryCell<Byte>>,
    /// The file, by offset, and how many submissions the kernel has read.
    file: Mutex<(Vec<Option<Byte>>, u32)>,
}

impl World {
    fn new() -> Self {
        let (rig, stream, file) =
            (Box::new(Rig::new(Shape::square(2))), Box::<Stream>::default(), Box::<OpenFile>::default());
        let free = Box::new(DeviceWord64::new(0b10));
        let parts = ResourcesParts {
            stream_buffers: models::pool_of(&free, BLOCK as u32),
            blocks_per_stream: 2,
            ..models::session_of(&rig.queue, &file, &stream)
        };
        // SAFETY:
        // - all of it outlives the session
        let session = unsafe { Resources::new(parts) };
        stream.set_up(&session, 0, OpenFile::SEEKABLE, Buffering::Full);
        stream.begin_writing(&session, 0);
        stream.open_cursor();
        let bytes = (0..2 * BLOCK).map(|_| EntryCell::new(Byte::default())).collect();
        Self { rig, stream, _file: file, free, session, bytes, file: Mutex::new((vec![None; 8], 0)) }
    }

    /// Writes `byte` by the fast path, trying at most `tries` times; whether it did.
    fn write(&self, byte: Byte, tries: u32) -> bool {
        let stream = &self.stream;
        for _ in 0..tries {
            match stream.try_reserve(1, 1) {
                Reservation::At(position) => {
                    let geometry = stream.geometry(&self.session);
                    let block_ref = stream.block_ref(&geometry, geometry.block_of(position));
                    let (address, _) = geometry.address(block_ref, position);
                    // SAFETY:
                    // - the position was reserved by this thread alone, and what its place held was read by the kernel: what is tested
                    unsafe { self.bytes[address as usize].write(byte) };
                    let inside = (position % BLOCK) as u32;
                    if stream.commit(&self.session, &geometry, block_ref, (inside, 1), 0).full {
                        let _ = stream.start(&self.session, 0, block_ref.block_number);
                    }
                    return true;
                }
                Reservation::Closed => return false,
                Reservation::Busy => thread::yield_now(),
            }
        }
        false
    }

    /// The kernel: writes what was submitted to the file.
    fn serve(&self) {
        let (file, head) = &mut *self.file.lock().unwrap();
        // ORDERING: acquire, partner the publisher.
        let tail = self.rig.sq_tail().observe();
        while *head != tail {
            // SAFETY:
            // - the tail was acquired beyond the ticket
            let sqe = unsafe { self.rig.sqe(*head).read() };
            for index in 0..u64::from(sqe.len) {
                // SAFETY:
                // - the block is the kernel's: what is tested
                let byte = unsafe { self.bytes[(sqe.addr + index) as usize].read() };
                file[(sqe.off + index) as usize] = Some(byte);
            }
            let cqe = Cqe { user_data: sqe.user_data, res: sqe.len.cast_signed(), flags: 0 };
            // SAFETY:
            // - as many entries as slots, each of which is in flight once
            unsafe { self.rig.cqe(*head).write(cqe) };
            *head = head.wrapping_add(1);
            // ORDERING: release, partner the poller.
            self.rig.cq_tail().publish(*head);
        }
        self.rig.queue.drain_alone(2);
    }

    /// Writes everything accepted. The lock's holder, when quiet.
    fn flush(&self) {
        // Ends: loom's other threads have no part in it, but for who looks after a place in passing.
        loop {
            match self.stream.flush_step(&self.session, 0) {
                Progress::Done => return,
                Progress::Failed(errno) => panic!("{errno}"),
                Progress::Wait(_) | Progress::NoSlot => {
                    self.serve();
                    thread::yield_now();
                }
            }
        }
    }

    /// Closes the fast path; whether the stream is found quiet in so many looks.
    fn close(&self, looks: u32) -> bool {
        self.stream.close_cursor();
        (0..looks).any(|_| {
            thread::yield_now();
            self.stream.is_quiet()
        })
    }

    /// What the lock's holder does to let the stream grow.
    fn grow(&self) {
        self.flush();
        let offset = self.stream.base.peek() + self.stream.reserved();
        self.stream.grow(&self.session);
        self.stream.begin_writing(&self.session, offset);
        self.stream.open_cursor();
    }
}

/// The lock's holder lets the stream grow while another writes, who finds the block full or the fast path closed, and then writes in what is
/// there now: every byte is in the file once, those of a writer in its order.
#[test]
fn grow_write() {
    models::explore(3, World::new, |world| {
        let mut wanted = vec![Byte(1, 0)];
        assert!(world.write(Byte(1, 0), 1));
        let writer = spawn(world, |world| {
            (0..2).map(|number| Byte(2, number)).filter(|byte| world.write(*byte, 1)).collect::<Vec<_>>()
        });
        let quiet = world.close(2);
        if quiet {
            world.grow();
            assert_eq!(world.stream.block_count.peek(), 2);
            let byte = Byte(1, 1);
            if world.write(byte, 1) {
                wanted.push(byte);
            }
        }
        wanted.extend(writer.join().unwrap());
        assert!(world.close(1), "nobody is under way");
        world.flush();
        let file: Vec<_> = world.file.lock().unwrap().0.iter().flatten().copied().collect();
        for writer in [1, 2] {
            let of =
                |bytes: &[Byte]| bytes.iter().filter(|byte| byte.0 == writer).copied().collect::<Vec<_>>();
            assert_eq!(of(&file), of(&wanted));
        }
        assert_eq!(file.len(), wanted.len());
        world.stream.give_back(&world.session);
        assert_eq!(world.free.peek(), 0b10, "the spare buffer is back, and only that one");
    });
}

/// Two want the last spare buffer: one gets it, and the other goes on with what it has.
#[test]
fn grow_grow() {
    models::explore(3, World::new, |world| {
        assert!(world.close(1));
        let other =
            spawn(world, |world| world.session.stream_buffers.free.claim(1, 0).map(|claim| claim.item(0)));
        world.grow();
        let got = other.join().unwrap();
        let count = world.stream.block_count.peek();
        assert_eq!((got, count), if got.is_some() { (Some(1), 1) } else { (None, 2) });
    });
}
