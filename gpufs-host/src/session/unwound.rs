//! What unwound lanes held: locks, slots of rings, staging buffers, room of streams. A lane is unwound by its own panic, by a wait past the
//! deadline, or because it waited for a lane that is gone. When the launch has ended, the host frees here what the lane held, since other
//! lanes need it.
//!
//! An operation that has not ended, such as a read of a pipe that nobody writes, keeps its slot and its memory: the kernel still has them.
#![expect(unsafe_code, reason = "reclaims slots whose holders are gone")]

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use gpufs_core::session::SessionTables;
use gpufs_core::stream::Direction;

/// How long the host waits for operations whose lanes are gone.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// Frees what unwound lanes still held. No kernel runs, and the ring service is busy. `staging` and `listings` are the numbers of
/// their buffers.
pub(super) fn reclaim(session: &'static SessionTables, staging: u32, listings: u32) {
    let quiet = settle_operations(session);
    session.shared.lock().reset();
    for entry in session.shared.entries() {
        entry.let_go();
    }
    for file in session.files() {
        file.lock.reset();
    }
    for stream in session.streams() {
        let _ = stream.let_go();
        match stream.direction() {
            Direction::Idle => stream.lock.reset(),
            Direction::Reading => {
                // A read in flight may fill the buffer at any time. Without another buffer the stream stays locked.
                if quiet || stream.change_read_buffer(session) {
                    stream.lock.reset();
                }
            }
            Direction::Writing => {
                stream.lock.reset();
                stream.count_in_abandoned(session);
            }
        }
    }
    if quiet {
        let used: BTreeSet<(u32, u32)> =
            session.streams().iter().flat_map(gpufs_core::stream::Stream::slots).collect();
        for (ring, queue) in (0..).zip(session.all_queues()) {
            // SAFETY:
            // - no kernel runs, and the lanes that held slots were unwound
            // - the ring is quiet: nothing is in flight but in the slots of streams, which are among `used`
            unsafe { queue.reclaim(|slot| used.contains(&(ring, slot))) };
        }
        session.staging.free.release_all(staging);
        // What was read ahead is read again: a lane that is gone may have had the memory in hand.
        for file in session.files() {
            let _ = file.listing.take();
        }
        session.listings.free.release_all(listings);
    }
}

/// Delivers completions until nothing is in flight, or for a while; whether nothing is.
fn settle_operations(session: &SessionTables) -> bool {
    let started = Instant::now();
    // Ends: at `SETTLE_MAX`.
    loop {
        let quiet = session.all_queues().iter().all(|queue| {
            // Ends: the number of completions in flight is finite.
            while queue.drain_alone(64) > 0 {}
            let progress = queue.progress();
            !queue.has_failed()
                && progress.tickets == progress.cq_tail
                && progress.drained == progress.cq_tail
        });
        if quiet {
            return true;
        }
        if started.elapsed() > SETTLE_MAX {
            return false;
        }
        thread::sleep(Duration::from_micros(50));
    }
}
