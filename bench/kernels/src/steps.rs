//! Where the time of a round trip goes: one NOP by the steps of the core, with a look at the clock between them.

use gpufs_core::abi::Sqe;
use gpufs_core::{Look, Outcome};
use gpufs_device::kernel;

use crate::{Times, ticks};

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

kernel! {
    /// One lane makes NOPs on the first ring, while nobody else uses it. Samples of each of [`STEPS`], in their order.
    pub fn nop_steps(fs: Fs, rounds: u32, times: u64) {
        let times = Times(times);
        let queue = &{ fs.session().queues()[0] };
        let (start_ns, start) = (gpufs_device::warp::clock(), ticks());
        for round in 0..rounds {
            let mut at = Times::HEAD + round as usize * STEPS.len();
            let mut last = ticks();
            let mut stamp = || {
                let now = ticks();
                times.put(at, now.wrapping_sub(last));
                at += 1;
                last = ticks();
            };
            let Some(claim) = queue.claim(1, 0) else { return times.put(0, Times::SHORT) };
            stamp();
            let operation = queue.arm(gpufs_core::Slot(claim.item(0)));
            let drawn = queue.reserve(1);
            stamp();
            // SAFETY:
            // - the ticket was just drawn, and a NOP refers to nothing
            unsafe { queue.fill(drawn.first, Sqe::nop().with_user_data(operation.token())) };
            stamp();
            // SAFETY:
            // - drawn and filled above
            unsafe { queue.commit(drawn) };
            stamp();
            // Ends: the kernel completes it, and nobody else drains.
            let drain = loop {
                if let Look::Taken(drain) = queue.look(1, 8) {
                    break drain;
                }
            };
            stamp();
            let copy = queue.entry(drain, 0);
            core::hint::black_box(copy.user_data);
            stamp();
            queue.advance(drain);
            stamp();
            let _ = queue.deliver(copy);
            stamp();
            queue.end_drain(drain);
            stamp();
            if !matches!(queue.outcome(operation), Outcome::Done(_)) {
                times.put(0, Times::SHORT);
            }
            queue.release(claim);
            stamp();
        }
        times.put(1, ticks().wrapping_sub(start));
        times.put(2, gpufs_device::warp::clock() - start_ns);
    }
}
