//! What a fault finds of a stream's bytes, its writes and their results, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_survival --release`
//!
//! Bounded as `loom.rs` is. As in `loom_journal.rs`, one thread reads as a host does behind a fault, while the device goes on. A stream of one block of
//! two bytes, for each of which a cell stands whose accesses loom checks for races, and an entry of the journal.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | an entry is stored relaxed | `bytes_are_found` |
//! | an entry is stored behind the count | `entry_is_not_late` |
//! | `committed` is added to relaxed | `bytes_are_found entry_is_not_late` |
//! | the epoch is stored relaxed, or before the record | `bytes_are_found result_is_found` |
//! | the ticket is noted, or the place switched, behind `commit` of the batch; the tail is stored relaxed | `ticket_is_found` |
//! | results are kept behind the CQ head, or that is stored relaxed | `result_is_found` |
//! | the slot is released before the switch | `slot_is_released_last` |
#![cfg(loom)]
#![allow(unsafe_code, reason = "the journal and the queue are given pointers to the models' memory")]

mod rig;

use gpufs_core::abi::{Cqe, Sqe};
use gpufs_core::files::OpenFile;
use gpufs_core::journal::{Journal, JournalParts, Place, Record};
use gpufs_core::resources::{Resources, ResourcesParts};
use gpufs_core::stream::{Buffering, Progress, Reservation, Stream, Token};
use gpufs_core::word::{DeviceWord64, EntryCell, SharedWord64};
use gpufs_core::{Operation, Slot};
use loom::sync::Arc;
use rig::models::{self, spawn};
use rig::streams::Byte;
use rig::{Rig, Shape};

/// B, and entries of the journal.
const BLOCK: u64 = 2;

struct World {
    rig: Box<Rig>,
    stream: Box<Stream>,
    _file: Box<OpenFile>,
    _free: Box<DeviceWord64>,
    _place: Box<Place>,
    entries: Vec<SharedWord64>,
    results: Vec<SharedWord64>,
    session: Resources,
    bytes: Vec<EntryCell<Byte>>,
}

impl World {
    /// A stream whose block is reserved.
    fn new(capacity: u32) -> Self {
        let (stream, file) = (Box::<Stream>::default(), Box::<OpenFile>::default());
        let words = |count| (0..count).map(|_| SharedWord64::new(0)).collect::<Vec<_>>();
        let (entries, results) = (words(BLOCK), words(capacity.into()));
        let shape = Shape { cq_entries: 2 * capacity, capacity, ..Shape::square(2) };
        let rig = Box::new(Rig::with_results(shape, results.as_ptr()));
        let free = Box::new(DeviceWord64::new(0));
        let place = Box::new(Place {
            epoch: SharedWord64::new(0),
            ticket: SharedWord64::new(0),
            records: [(); 2].map(|()| EntryCell::new(Record::default())),
        });
        let parts = ResourcesParts {
            stream_buffers: models::pool_of(&free, BLOCK as u32),
            // SAFETY:
            // - the tables outlive the session
            journal: unsafe {
                Journal::new(JournalParts {
                    places: &raw const *place,
                    entries: entries.as_ptr(),
                    files: std::ptr::null(),
                    entries_per_buffer: BLOCK as u32,
                    shift: BLOCK.ilog2(),
                })
            },
            ..models::session_of(&rig.queue, &file, &stream)
        };
        // SAFETY:
        // - all of it outlives the session
        let session = unsafe { Resources::new(parts) };
        stream.set_up(&session, 0, OpenFile::SEEKABLE, Buffering::Full);
        stream.begin_writing(&session, 0);
        stream.open_cursor();
        for position in 0..BLOCK {
            assert_eq!(stream.try_reserve(1, 1), Reservation::At(position));
        }
        let bytes = (0..BLOCK).map(|_| EntryCell::new(Byte::default())).collect();
        Self { rig, stream, _file: file, _free: free, _place: place, entries, results, session, bytes }
    }

    /// Fills a reserved byte and counts it in; whether the block is full.
    fn fill(&self, position: u64) -> bool {
        let inside = position % BLOCK;
        // SAFETY:
        // - the position was reserved for the caller, and what its place held was read by the kernel
        unsafe { self.bytes[inside as usize].write(Byte(position, 1)) };
        let geometry = self.stream.geometry(&self.session);
        let block_ref = self.stream.block_ref(&geometry, geometry.block_of(position));
        let inside = inside as u32;
        self.stream.commit(&self.session, &geometry, block_ref, (inside, 1), inside).full
    }

    /// Fills the block and submits it.
    fn submit(&self) {
        assert_eq!([self.fill(0), self.fill(1)], [false, true]);
        assert_eq!(self.stream.start(&self.session, 0, 0), Progress::Wait(0));
    }

    /// The kernel: completes the submission of a ticket.
    fn serve(&self, ticket: u32) {
        // ORDERING: acquire, partner the publisher.
        assert!(self.rig.sq_tail().observe() > ticket);
        // SAFETY:
        // - the tail was acquired beyond the ticket
        // - the CQ has more entries than can be in flight
        unsafe {
            let sqe = self.rig.sqe(ticket).read();
            let cqe = Cqe { user_data: sqe.user_data, res: sqe.len.cast_signed(), flags: 0 };
            self.rig.cqe(ticket).write(cqe);
        }
        // ORDERING: release, partner the poller.
        self.rig.cq_tail().publish(ticket + 1);
    }

    /// The host: the record in force, its epoch, and the ticket of its write.
    fn in_force(&self) -> (Record, u64, Option<u32>) {
        // SAFETY:
        // - at most one switch comes meanwhile: it writes the record that is not in force before it
        unsafe { self.session.journal.in_force(0) }.expect("the buffer was used")
    }
    /// The host: what an entry tells in an epoch.
    fn whole(&self, index: usize, epoch: u64) -> Option<(u32, u32)> {
        // ORDERING: acquire, partner `enter`.
        self.session.journal.whole(self.entries[index].observe(), epoch)
    }
    /// The host: the result that was kept for a slot.
    fn result(&self, slot: Slot) -> (u32, u32) {
        // ORDERING: relaxed: whatever has arrived.
        let word = self.results[slot.0 as usize].peek();
        ((word >> 32) as u32, word as u32)
    }
}

fn explore(preemptions: usize, capacity: u32, model: impl Fn(&Arc<World>) + Sync + Send + 'static) {
    models::explore(preemptions, move || World::new(capacity), model);
}

/// Two fill a block: what an entry or the record tells of is there.
#[test]
fn bytes_are_found() {
    explore(3, 2, |world| {
        let others = [0, 1].map(|position| spawn(world, move |world| world.fill(position)));
        let (record, epoch, _) = world.in_force();
        for (position, cell) in (0..).zip(&world.bytes) {
            if position < u64::from(record.filled) || world.whole(position as usize, epoch).is_some() {
                // SAFETY:
                // - the byte is whole, and nobody writes it again: what is tested
                assert_eq!(unsafe { cell.read() }, Byte(position, 1));
            }
        }
        let full = others.map(|other| other.join().unwrap());
        assert!(full[0] != full[1], "one has made the block full");
        // Whenever both have returned, all is found.
        assert_eq!(u64::from(world.in_force().0.filled), BLOCK);
    });
}

/// One fills the block's first byte, the other the second, and then, if that was all, the first byte of the next block in the same place: its entry
/// stays.
#[test]
fn entry_is_not_late() {
    explore(3, 2, |world| {
        let other = spawn(world, |world| world.fill(0));
        let mut entered = false;
        if world.fill(1) {
            assert_eq!(world.stream.start(&world.session, 0, 0), Progress::Wait(0));
            world.serve(0);
            world.rig.queue.drain_alone(2);
            assert_eq!(world.stream.reap(&world.session, 0), Progress::Done);
            assert_eq!(world.stream.try_reserve(1, 1), Reservation::At(BLOCK));
            entered = !world.fill(BLOCK);
        }
        other.join().unwrap();
        if entered {
            let (_, epoch, _) = world.in_force();
            assert_eq!(world.whole(0, epoch), Some((0, 1)), "an entry was stored late");
        }
    });
}

/// A write that is published is found in flight, with its ticket.
#[test]
fn ticket_is_found() {
    explore(5, 2, |world| {
        assert_eq!([world.fill(0), world.fill(1)], [false, true]);
        let device = spawn(world, |world| world.stream.start(&world.session, 0, 0));
        // ORDERING: acquire, partner the publisher.
        if world.rig.sq_tail().observe() != 0 {
            let (record, _, ticket) = world.in_force();
            assert_ne!(record.token, 0, "a write is published that is not in force");
            assert_eq!(ticket, Some(0), "a write is published whose ticket is not noted");
        }
        assert_eq!(device.join().unwrap(), Progress::Wait(0));
    });
}

/// A write whose completion the kernel may overwrite is found with its result, or as one that has ended.
#[test]
fn result_is_found() {
    explore(5, 2, |world| {
        world.submit();
        world.serve(0);
        let device = spawn(world, |world| {
            world.rig.queue.drain_alone(2);
            world.stream.reap(&world.session, 0)
        });
        // ORDERING: acquire, partner `advance`.
        let head = world.rig.cq_head().observe();
        let (record, ..) = world.in_force();
        if record.token != 0 && head != 0 {
            let (_, operation) = Token::from_word(record.token).parts();
            assert_eq!(world.result(operation.slot), (operation.generation, BLOCK as u32));
        }
        assert_eq!(device.join().unwrap(), Progress::Done);
    });
}

/// A slot has the result of another operation only when the record names that of the first no more.
#[test]
fn slot_is_released_last() {
    explore(5, 1, |world| {
        world.submit();
        world.serve(0);
        world.rig.queue.drain_alone(1);
        let device = spawn(world, |world| world.stream.reap(&world.session, 0));
        let queue = &world.rig.queue;
        if let Some(claim) = queue.claim(1, 0) {
            // SAFETY:
            // - claimed above, and never released
            let operation = unsafe { queue.arm(Slot(claim.item(0))) };
            // SAFETY:
            // - the slots were claimed for this batch, which is filled and committed below, with nothing between that could fail
            let batch = unsafe { queue.reserve(1) };
            let sqe = Sqe::default().with_user_data(operation.token() | Operation::JOURNALED);
            // SAFETY:
            // - the ticket was just drawn, and is filled and committed once
            unsafe {
                queue.fill(batch.first(), sqe);
                queue.commit(batch);
            }
            world.serve(1);
            assert_eq!(queue.drain_alone(1), 1);
            assert_eq!(world.result(operation.slot).0, operation.generation);
            let (record, ..) = world.in_force();
            assert_eq!(record.token, 0, "the record names an operation whose result is gone");
        }
        assert_eq!(device.join().unwrap(), Progress::Done);
    });
}
