//! What kernels started and left: the host ends it when they have ended ([R-ASYNC-6]).
//!
//! Operations that end by themselves are waited for, so that a write that was started is done when the session has synchronized. Those that may
//! never end (a read of an empty pipe) are cancelled at once. Then slots and memory are free again, and a new round begins: a handle that a
//! program kept is refused.
#![expect(unsafe_code, reason = "submits cancels, and reclaims slots whose holders are gone")]

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use gpufs_core::abi::Sqe;
use gpufs_core::session::SessionTables;
use gpufs_core::stream::Stream;
use gpufs_core::{Call, Errno, Operation, Queue, Slot, SlotClaim};

use super::flush::write_wait_max;

/// How long the host waits for operations after it has cancelled all of them. What does not end by then, never may.
const CANCEL_MAX: Duration = Duration::from_secs(1);
/// Between two looks.
const NAP: Duration = Duration::from_micros(50);

/// Ends all asynchronous operations. No kernel runs, no call is inside, and the ring service is busy. `buffers` is the number of their staging
/// buffers.
pub(super) fn end_operations(session: &'static SessionTables, buffers: u32) {
    if session.queues().iter().all(|queue| queue.waits() == 0) {
        return;
    }
    let of_streams: BTreeSet<(u32, u32)> = session.streams().iter().flat_map(Stream::slots).collect();
    let rings: Vec<Left<'_>> = (0..)
        .zip(session.queues())
        .map(|(ring, queue)| {
            let slots =
                (0..queue.capacity()).filter(|slot| !of_streams.contains(&(ring, *slot))).map(Slot).collect();
            Left { queue, slots }
        })
        .collect();
    let mut cancels = Vec::new();
    let cancel_all = |cancels: &mut Vec<_>, all: bool| {
        for (index, ring) in rings.iter().enumerate() {
            let targets: Vec<_> = ring.in_flight().filter(|(_, endless)| all || *endless).collect();
            for (target, _) in targets {
                cancels.extend(ring.cancel(target).map(|cancel| (index, cancel)));
            }
        }
    };
    drain(&rings);
    cancel_all(&mut cancels, false);
    if !wait(&rings, write_wait_max(session)) {
        cancel_all(&mut cancels, true);
        wait(&rings, CANCEL_MAX);
    }
    let cancels: BTreeSet<(usize, u32)> =
        cancels.into_iter().map(|(ring, cancel)| (ring, cancel.slot.0)).collect();
    let mut left = 0;
    for (index, ring) in rings.iter().enumerate() {
        left += ring.release(session, |slot| cancels.contains(&(index, slot)));
    }
    if left == 0 {
        session.async_buffers.free.release_all(buffers);
    }
}

/// A ring, and its slots that are no stream's.
struct Left<'a> {
    queue: &'a Queue,
    slots: Vec<Slot>,
}

impl Left<'_> {
    /// What is in flight in these slots, and what was noted that it may never end.
    fn in_flight(&self) -> impl Iterator<Item = (Operation, bool)> + '_ {
        self.slots.iter().filter_map(|slot| self.queue.in_flight(*slot))
    }

    /// Cancels an operation ([R-ASYNC-4]); `None` where no slot is free for that.
    fn cancel(&self, target: Operation) -> Option<Operation> {
        let claim = self.queue.claim(1, 0)?;
        // SAFETY:
        // - claimed above; released with all others of the ring, when it is done
        let cancel = unsafe { self.queue.arm(Slot(claim.item(0))) };
        // SAFETY:
        // - the slot was claimed for this batch, which is filled and committed below, with nothing between that could fail
        let batch = unsafe { self.queue.reserve(1) };
        let entry = Sqe::async_cancel(target.token()).with_user_data(cancel.token());
        // SAFETY:
        // - drawn above, with a slot of its own; the entry refers to no memory
        unsafe { self.queue.fill(batch.first(), entry) };
        // SAFETY:
        // - the one ticket was drawn and filled above
        unsafe { self.queue.commit(batch) };
        Some(cancel)
    }

    /// Counts results that nobody took and that are errors, releases what is complete, and begins a new round: how many operations are still in
    /// flight.
    fn release(&self, session: &SessionTables, is_cancel: impl Fn(u32) -> bool) -> u32 {
        let live: BTreeSet<u32> = self.in_flight().map(|(operation, _)| operation.slot.0).collect();
        for slot in &self.slots {
            let Some(result) = self.queue.untaken(*slot) else { continue };
            if let (Err(errno), false) = (Errno::check(result), is_cancel(slot.0)) {
                session.note_failure(Call::AioReturn, errno);
            }
            // SAFETY:
            // - taken, and complete; no lane comes back for it: no kernel runs, and what a thread has of it is of an earlier round
            self.queue.release(unsafe { SlotClaim::of(Operation { slot: *slot, generation: 0 }) });
        }
        let left = u32::try_from(live.len()).unwrap_or(u32::MAX);
        self.queue.begin_round(left);
        left
    }
}

/// Delivers what has completed.
fn drain(rings: &[Left<'_>]) {
    for ring in rings {
        // Ends: the number of completions in flight is finite.
        while ring.queue.drain_alone(64) > 0 {}
    }
}

/// Waits until nothing is in flight, for so long at most; whether that is so.
fn wait(rings: &[Left<'_>], most: Duration) -> bool {
    let started = Instant::now();
    // Ends: at `most`.
    loop {
        drain(rings);
        if rings.iter().all(|ring| ring.queue.has_failed() || ring.in_flight().next().is_none()) {
            return true;
        }
        if started.elapsed() > most {
            return false;
        }
        thread::sleep(NAP);
    }
}
