//! Single orderings that the larger models do not tell, explored by loom: each model has nothing else that would stand in for them.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpufs-core --test loom_orders --release`
//!
//! Bounded as `loom.rs` is.
//!
//! Tried by hand, one at a time:
//!
//! | mutation | models that catch it |
//! |---|---|
//! | `TicketLock::release` stores, or `is_served` loads, relaxed | `ticket_lock` |
//! | the exchange FULL → CLAIMED is relaxed | `full_start` |
//! | no fence in `commit`; no fence in `grant`, which `free_block` relies on | `serial_start` |
//! | no fence in `commit` or `start`; `next` moves before the ticket is drawn | `started_in_order` |
//! | `advance` does not store `drained` | `lanes_drain` |
//! | `poll` loads the CQ tail relaxed | `own_delivery` |
//! | the generation is added to relaxed in `set_up` | `found_by_generation` |
//! | flags of a file that a lane opened are loaded relaxed | `found_open` |
//!
//! `lanes_drain` tells no single ordering: there `advance` and the lock stand in for each other.
#![cfg(loom)]
#![allow(unsafe_code, reason = "entries and cells")]

mod rig;

use gpufs_core::abi::Cqe;
use gpufs_core::session::TicketLock;
use gpufs_core::session::{FileIndex, OpenFile};
use gpufs_core::stream::{Buffering, Order, Reservation};
use gpufs_core::word::EntryCell;
use gpufs_core::{Delivery, Drain, Outcome, Slot};
use loom::thread;
use rig::models::{self, spawn};
use rig::streams::{BLOCK, BLOCKS, Byte, World};
use rig::{Rig, Shape};

/// First come, first served, alone, and behind what the holder before did.
#[test]
fn ticket_lock() {
    let make = || (TicketLock::default(), EntryCell::new(0_u64));
    models::explore(3, make, |shared| {
        let turn = |(lock, count): &(TicketLock, EntryCell<u64>)| {
            let ticket = lock.draw();
            for _ in 0..3 {
                if lock.is_served(ticket) {
                    // SAFETY:
                    // - the lock is held: what is tested
                    let before = unsafe { count.read() };
                    assert_eq!(before, u64::from(ticket));
                    // SAFETY:
                    // - as above
                    unsafe { count.write(before + 1) };
                    lock.release();
                    return;
                }
                thread::yield_now();
            }
        };
        let others = [(); 2].map(|()| spawn(shared, turn));
        turn(shared);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// One opens a stream in the entry of another; a lane that finds it by its generation alone, as `fflush(NULL)` does, finds what was set up.
#[test]
fn found_by_generation() {
    models::explore(3, World::new, |world| {
        world.stream.close_cursor();
        world.give_up();
        let finder = spawn(world, |world| {
            if world.stream.generation.observe() == 3 {
                assert_eq!(world.stream.buffering(), Buffering::Line);
            }
        });
        world.stream.set_up(&world.session, 0, OpenFile::SEEKABLE, Buffering::Line);
        finder.join().unwrap();
    });
}

/// One opens a file in an entry of the table; a lane that finds it open finds its descriptor.
#[test]
fn found_open() {
    models::explore(3, World::new, |world| {
        let finder = spawn(world, |world| {
            if let Ok(descriptor) = world.session.process_descriptor(FileIndex(0)) {
                assert_eq!(descriptor, 7);
            }
        });
        world.file.descriptor.set(7);
        // ORDERING: release, partner `Resources::file_and_flags`.
        world.file.flags.publish(OpenFile::OPEN);
        finder.join().unwrap();
    });
}

/// One makes a block full, another starts it and is the kernel that reads it.
#[test]
fn full_start() {
    models::explore(3, World::new, |world| {
        assert_eq!(world.write(1), Some(0));
        let writer = spawn(world, |world| {
            let Reservation::At(position) = world.stream.try_reserve(1, 1) else { panic!("there is room") };
            // SAFETY:
            // - the position was reserved by this thread alone
            unsafe { world.byte(position).write(Byte(position, 1)) };
            let geometry = world.stream.geometry(&world.session);
            let block_ref = world.stream.block_ref(&geometry, 0);
            assert!(world.stream.commit(&world.session, &geometry, block_ref, (1, 1), 0).full);
        });
        let _ = world.stream.start(&world.session, 0, 0);
        // What it reads it has only by the exchange in `start`.
        world.serve_once(|sqe| sqe.len.cast_signed());
        writer.join().unwrap();
    });
}

/// A serial stream: a block is freed while the next one becomes full. One of the two starts it.
#[test]
fn serial_start() {
    models::explore(3, World::new, |world| {
        let (stream, session) = (&world.stream, &world.session);
        stream.order.set(Order::OneByOne as u32);
        for position in 0..=BLOCK {
            assert_eq!(world.write(1), Some(position));
        }
        // SAFETY:
        // - the tail is beyond the first ticket; the kernel's entries are free
        unsafe {
            let sqe = world.rig.sqe(0).read();
            world.rig.cqe(0).write(Cqe { user_data: sqe.user_data, res: BLOCK as i32, flags: 0 });
        }
        world.rig.cq_tail().publish(1);
        world.rig.queue.drain_alone(1);
        let writer = spawn(world, |world| world.write(1));
        let _ = stream.reap(session, 0);
        assert_eq!(writer.join().unwrap(), Some(BLOCK + 1));
        assert_eq!(world.rig.sq_tail().peek(), 2, "nobody started the next block");
    });
}

/// A stream whose writes begin in order: two blocks become full at the same time. Both are started, in order.
#[test]
fn started_in_order() {
    models::explore(3, World::new, |world| {
        world.stream.start_in_order();
        for position in 0..BLOCK * BLOCKS {
            assert_eq!(world.stream.try_reserve(1, 1), Reservation::At(position));
        }
        world.commit(1);
        world.commit(BLOCK + 1);
        let other = spawn(world, |world| world.commit(BLOCK));
        world.commit(0);
        other.join().unwrap();
        // Publishes what the two left to each other.
        world.rig.queue.drain_alone(1);
        assert_eq!(world.rig.sq_tail().peek(), 2, "nobody started a block");
        // SAFETY:
        // - the tail is beyond both
        let places = [0, 1].map(|ticket| unsafe { world.rig.sqe(ticket).read() }.off);
        assert_eq!(places, [0, BLOCK]);
    });
}

/// A drain of two lanes, of which the leader gives the lock back while the other still delivers, and another poller.
#[test]
fn lanes_drain() {
    models::explore(
        2,
        || Rig::new(Shape::square(4)),
        |rig| {
            // SAFETY:
            // - nobody claims slots here
            let operations = [0, 1, 2].map(|slot| unsafe { rig.queue.arm(Slot(slot)) });
            let post = |index: u32| {
                let cqe = Cqe { user_data: operations[index as usize].token(), res: index as i32, flags: 0 };
                // SAFETY:
                // - the entry is free
                unsafe { rig.cqe(index).write(cqe) };
                // ORDERING: release, partner `begin_drain`.
                rig.cq_tail().publish(index + 1);
            };
            post(0);
            post(1);
            let word = rig.queue.begin_drain(2).unwrap().into_word();
            // SAFETY:
            // - of the drain that has just begun, which this thread alone advances and ends; the other copies before that
            let [drain, theirs] = [(); 2].map(|()| unsafe { Drain::from_word(word) });
            // Each thread stands for a lane between two barriers.
            let lane = spawn(rig, move |rig| rig.queue.entry(&theirs, 1));
            let mine = rig.queue.entry(&drain, 0);
            let theirs = lane.join().unwrap();
            // SAFETY:
            // - both entries were copied, and the join puts the other's copy before
            unsafe { rig.queue.advance(&drain) };
            let other = spawn(rig, |rig| rig.queue.drain_alone(2));
            let lane = spawn(rig, move |rig| rig.queue.deliver(theirs));
            assert_eq!(rig.queue.deliver(mine), Delivery::Delivered);
            // SAFETY:
            // - advanced above, and this thread's own copy is delivered
            unsafe { rig.queue.end_drain(drain) };
            post(2);
            assert_eq!(lane.join().unwrap(), Delivery::Delivered);
            let drained = other.join().unwrap() + rig.queue.drain_alone(2);
            assert_eq!(drained, 1);
            let outcomes = operations.map(|operation| rig.queue.outcome(operation));
            assert_eq!(outcomes, [0, 1, 2].map(Outcome::Done));
            assert_eq!(rig.queue.counters().stale.peek(), 0);
        },
    );
}

/// A lane that delivers the completion of its own operation takes the result from its copy, and reads the buffer, without a look at the slot.
#[test]
fn own_delivery() {
    let make = || (Rig::new(Shape::square(4)), EntryCell::new(0_u64));
    models::explore(3, make, |shared| {
        // SAFETY:
        // - nobody claims slots here
        let [ours, theirs] = [0, 1].map(|slot| unsafe { shared.0.queue.arm(Slot(slot)) });
        let kernel = spawn(shared, move |(rig, buffer)| {
            for (index, operation) in [(0, ours), (1, theirs)] {
                let cqe = Cqe { user_data: operation.token(), res: 7, flags: 0 };
                // SAFETY:
                // - the entry is free
                unsafe { rig.cqe(index).write(cqe) };
            }
            // SAFETY:
            // - the operation of this buffer is in flight
            unsafe { buffer.write(7) };
            // ORDERING: release, partner `begin_drain`.
            rig.cq_tail().publish(2);
        });
        let begun = (0..3).find_map(|_| {
            thread::yield_now();
            shared.0.queue.begin_drain(2)
        });
        if let Some(drain) = begun {
            let word = drain.into_word();
            // SAFETY:
            // - of the drain that has just begun, which this thread alone advances and ends; the other copies before that
            let [drain, its] = [(); 2].map(|()| unsafe { Drain::from_word(word) });
            // Each thread stands for a lane between two barriers.
            let lane = spawn(shared, move |(rig, _)| rig.queue.entry(&its, 1));
            let mine = shared.0.queue.entry(&drain, 0);
            let copy = lane.join().unwrap();
            // SAFETY:
            // - both entries were copied, and the join puts the other's copy before
            unsafe { shared.0.queue.advance(&drain) };
            let lane = spawn(shared, move |(rig, buffer)| {
                assert_eq!(rig.queue.deliver(copy), Delivery::Delivered);
                assert_eq!((copy.result_of(theirs), copy.result_of(ours)), (Some(7), None));
                // SAFETY:
                // - the operation is done: what is tested
                assert_eq!(unsafe { buffer.read() }, 7);
            });
            assert_eq!(shared.0.queue.deliver(mine), Delivery::Delivered);
            // SAFETY:
            // - advanced above, and this thread's own copy is delivered
            unsafe { shared.0.queue.end_drain(drain) };
            lane.join().unwrap();
        }
        kernel.join().unwrap();
    });
}
