//! Where the time of a round trip goes: one NOP by the steps of the core, with a look at the clock between them.

use gpufs_core::abi::Sqe;
use gpufs_core::session::SessionTables;
use gpufs_core::stream::{Reservation, Stream};
use gpufs_core::word::wake_fence;
use gpufs_core::{Delivery, Poll};
use gpufs_device::warp::{Machine, Warp, nap};
use gpufs_device::{File, Fs, calling, kernel};

use crate::{Times, copy_wide, ticks, warp_index};

/// The steps, in order.
pub const STEPS: [&str; 10] = [
    "claim a slot",
    "arm it, reserve a ticket",
    "fill the entry",
    "commit and publish",
    "look until it is complete",
    "copy the completion",
    "advance the head",
    "deliver",
    "end the drain",
    "outcome, release the slot",
];

/// The tables, for the steps of the core.
fn tables(fs: Fs) -> &'static SessionTables {
    // SAFETY:
    // - the kernels below take the steps in their order, while nobody else uses the ring
    unsafe { fs.tables() }
}

kernel! {
    /// One lane makes NOPs on the first ring, while nobody else uses it. Samples of each of [`STEPS`], in their order.
    pub fn nop_steps(fs: Fs, rounds: u32, times: u64) {
        let times = Times(times);
        let queue = &{ tables(fs).queues()[0] };
        let (start_ns, start) = (gpufs_device::warp::clock(), ticks());
        for round in 0..rounds {
            let mut at = Times::HEAD + round as usize * STEPS.len();
            let mut last = ticks();
            let mut stamp = || {
                let now = ticks();
                times.put(at, now.wrapping_sub(last));
                at += 1;
                wake_fence();
                last = ticks();
            };
            let Some(claim) = queue.claim(1, 0) else { return times.put(0, Times::SHORT) };
            stamp();
            // SAFETY:
            // - claimed above, and released below when the outcome is known, or never
            let operation = unsafe { queue.arm(gpufs_core::Slot(claim.item(0))) };
            // SAFETY:
            // - the slots were claimed for this batch, which is filled and committed below, with nothing between that could fail
            let drawn = unsafe { queue.reserve(1) };
            stamp();
            // SAFETY:
            // - the ticket was just drawn, by the holder of a slot, and a NOP refers to nothing
            unsafe { queue.fill(drawn.first(), Sqe::nop().with_user_data(operation.token())) };
            stamp();
            // SAFETY:
            // - drawn and filled above
            unsafe { queue.commit(drawn) };
            stamp();
            let mut waits = false;
            // Ends: the kernel completes it, and nobody else drains.
            let drain = loop {
                if let Poll::Taken(drain) = queue.poll(1, 8, waits) {
                    break drain;
                }
                waits = true;
            };
            stamp();
            let copy = queue.entry(&drain, 0);
            core::hint::black_box(copy.cqe().user_data);
            stamp();
            // SAFETY:
            // - the only entry was copied above
            unsafe { queue.advance(&drain) };
            stamp();
            let delivery = queue.deliver(copy);
            stamp();
            // SAFETY:
            // - advanced and delivered above
            unsafe { queue.end_drain(drain) };
            stamp();
            if delivery != Delivery::Delivered || copy.result_of(operation).is_none() {
                times.put(0, Times::SHORT);
            }
            queue.release(claim);
            stamp();
        }
        times.put(1, ticks().wrapping_sub(start));
        times.put(2, gpufs_device::warp::clock() - start_ns);
    }
}

/// The steps of a call of `fwrite` that all lanes of a warp make with [`WRITTEN`] bytes each, in order.
pub const WRITE_STEPS: [&str; 6] = [
    "wait for room",
    "take room, reserve",
    "look where the bytes go",
    "copy, over the bus",
    "count them in, behind the journal's entry",
    "start a full block",
];
/// Bytes of a lane.
pub const WRITTEN: u64 = 64;

kernel! {
    /// Every warp makes the steps of `rounds` calls on the one stream that kernels have open. Sums of each of [`WRITE_STEPS`], a warp's
    /// after the other's. Without the assembly of records: the warp copies its bytes as they lie.
    pub fn write_steps(fs: Fs, file: File, rounds: u32, device: u64, times: u64) {
        let times = Times(times);
        let (warp, session) = (calling!(), tables(fs));
        let bytes = WRITTEN * u64::from(Machine::width());
        let source = device + u64::from(warp_index()) * bytes;
        // SAFETY:
        // - the host gives each lane that many bytes, which nobody writes
        let mine = unsafe {
            core::slice::from_raw_parts((source + WRITTEN * u64::from(Machine::lane())) as *const u8, WRITTEN as usize)
        };
        // The first call makes the stream one that writes.
        times.check(file.fwrite(mine), WRITTEN);
        // Behind the standard streams.
        let open = |stream: &&Stream| stream.generation.peek() % 2 == 1;
        let Some(stream) = session.streams().iter().skip(3).find(open) else {
            return times.put(0, Times::SHORT);
        };
        let (ring, generation) = (stream.ring(session), stream.generation.peek());
        let mut sums = [0; WRITE_STEPS.len()];
        let (start_ns, start) = (gpufs_device::warp::clock(), ticks());
        for _ in 0..rounds {
            let mut last = ticks();
            let mut lap = |sum: &mut u64| {
                let now = ticks();
                *sum += now.wrapping_sub(last);
                last = now;
            };
            // Ends: blocks are written, and room is granted.
            let position = loop {
                let reserved = if warp.is_leader() { stream.try_reserve(generation, bytes) } else { Reservation::Busy };
                let word = if let Reservation::At(position) = reserved { position } else { u64::MAX };
                let word = warp.from_leader(word);
                if word != u64::MAX {
                    break word;
                }
                if warp.is_leader() && stream.enter_progress(Machine::PROGRESS_WARPS_MAX) {
                    let _ = stream.reap_all(session, ring);
                    session.queues()[ring as usize].drain_alone(64);
                    stream.leave_progress();
                } else {
                    nap(1_000);
                }
                lap(&mut sums[0]);
            };
            lap(&mut sums[1]);
            let geometry = stream.geometry(session);
            let number = geometry.block_of(position);
            #[expect(clippy::cast_possible_truncation, reason = "within a block, which holds whole calls")]
            let share = ((position - geometry.start_of(number)) as u32, bytes as u32);
            let block_ref = stream.block_ref(&geometry, number);
            let entry = if warp.is_leader() { stream.draw_entry(&geometry, number, share) } else { 0 };
            let (target, _) = geometry.address(block_ref, position);
            lap(&mut sums[2]);
            copy_wide(target, source, bytes);
            warp.sync();
            lap(&mut sums[3]);
            let full = warp.is_leader() && stream.commit(session, &geometry, block_ref, share, entry).full;
            lap(&mut sums[4]);
            if full {
                let _ = stream.start(session, ring, number);
            }
            lap(&mut sums[5]);
        }
        if warp.is_leader() {
            for (index, sum) in sums.into_iter().enumerate() {
                times.put(Times::HEAD + warp_index() as usize * WRITE_STEPS.len() + index, sum);
            }
            if warp_index() == 0 {
                times.put(1, ticks().wrapping_sub(start));
                times.put(2, gpufs_device::warp::clock() - start_ns);
            }
        }
    }
}
