//! How long the core's steps take where nobody else runs: a queue whose kernel is the same thread, and a stream's records.
//!
//! The queue against a second thread is in gpufs-core's own benchmark, formatting in gpufs-device's.
#![expect(unsafe_code, reason = "the queue's steps")]

#[path = "../../gpufs-core/tests/rig/mod.rs"]
mod rig;

use std::fs::OpenOptions;

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use gpufs_core::abi::Cqe;
use gpufs_core::session::OpenFile;
use gpufs_core::stream::{Buffering, Reservation, Stream};
use gpufs_core::{Operation, Outcome, Slot, Ticket};
use gpufs_host::Session;

use rig::{Rig, Shape, sqe_of};

fn main() {
    divan::main();
}

/// Entries of the queue, and of a warp's batch at most.
const ENTRIES: u32 = 256;
const WIDTH: usize = 32;

/// What the kernel does with `count` entries from `head` on: it completes them.
fn serve(rig: &Rig, head: u32, count: u32) {
    for at in (0..count).map(|index| head.wrapping_add(index)) {
        // SAFETY:
        // - published, and not filled again before its completion was drained
        let sqe = unsafe { rig.sqe(at).read() };
        // SAFETY:
        // - as many completions as submissions fit, and credits bound both
        unsafe { rig.cqe(at).write(Cqe { user_data: sqe.user_data, ..Cqe::default() }) };
    }
    // ORDERING: release, system, partner the queue's poller.
    rig.cq_tail().publish(head.wrapping_add(count));
}

/// A batch from its claim to its commit; what was submitted, and the first ticket.
fn submit(rig: &Rig, batch: u32) -> ([Option<Operation>; WIDTH], gpufs_core::SlotClaim, Ticket) {
    let queue = &rig.queue;
    let claim = queue.claim(batch, 0).expect("every slot is free");
    // SAFETY:
    // - the slots were claimed for this batch, which is filled and committed below, with nothing between that could fail
    let drawn = unsafe { queue.reserve(claim.count()) };
    let ticket = drawn.first();
    let mut operations = [None; WIDTH];
    for (rank, operation) in (0..claim.count()).zip(&mut operations) {
        // SAFETY:
        // - claimed above; the caller releases the claim when every outcome is known
        let armed = unsafe { queue.arm(Slot(claim.item(rank))) };
        // SAFETY:
        // - the ticket was just drawn by this thread
        unsafe { queue.fill(ticket.plus(rank), sqe_of(armed, ticket.plus(rank))) };
        *operation = Some(armed);
    }
    // SAFETY:
    // - the tickets were drawn together, and each has been filled
    unsafe { queue.commit(drawn) };
    (operations, claim, ticket)
}

/// Claim, reserve, fill, commit; then the kernel's part, drain, outcome, release.
#[divan::bench(args = [1, 8, 32])]
fn queue_alone(bencher: Bencher<'_, '_>, batch: u32) {
    let rig = Rig::new(Shape::square(ENTRIES));
    bencher.counter(ItemsCount::new(batch)).bench_local(|| {
        let (operations, claim, ticket) = submit(&rig, black_box(batch));
        serve(&rig, ticket.0, claim.count());
        let drained = rig.queue.drain_alone(64);
        for operation in operations.into_iter().flatten() {
            assert!(matches!(rig.queue.outcome(operation), Outcome::Done(_)));
        }
        rig.queue.release(claim);
        drained
    });
}

/// A stream on `/dev/null`, open for writing through its fast path.
fn stream(session: &mut Session) -> &'static Stream {
    let file = OpenOptions::new().write(true).open("/dev/null").expect("/dev/null");
    let file = session.register_file(file).expect("a free place");
    // SAFETY:
    // - nothing else uses the session
    let view = unsafe { session.tables() };
    let stream = view.streams().last().expect("a session has streams");
    let flags = OpenFile::OPEN | OpenFile::WRITABLE | OpenFile::SEEKABLE;
    stream.set_up(view, file.0, flags, Buffering::Full);
    stream.grow(view);
    stream.begin_writing(view, 0);
    stream.open_cursor();
    stream
}

/// Reserves and commits a record of a warp. Nothing is written: full blocks are forgotten, four at a time.
#[divan::bench(args = [64, 2048])]
fn stream_record(bencher: Bencher<'_, '_>, bytes: u32) {
    let mut session = Session::builder().rings(1).cpu().expect("a session");
    let stream = stream(&mut session);
    // SAFETY:
    // - as above
    let (view, generation) = (unsafe { session.tables() }, stream.generation.peek());
    let size = stream.block_bytes();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        // Ends: the second time every block is free.
        loop {
            match stream.try_reserve(generation, u64::from(black_box(bytes))) {
                Reservation::At(position) => {
                    let start = u32::try_from(position % size).expect("a block is smaller");
                    let geometry = stream.geometry(view);
                    let block_ref = stream.block_ref(&geometry, position / size);
                    break stream.commit(view, &geometry, block_ref, (start, bytes), 0);
                }
                Reservation::Busy => {
                    stream.begin_writing(view, 0);
                    stream.open_cursor();
                }
                Reservation::Closed => panic!("the stream takes bytes"),
            }
        }
    });
    // Nothing is left to write.
    stream.begin_writing(view, 0);
}
