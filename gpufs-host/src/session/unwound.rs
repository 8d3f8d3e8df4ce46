//! What lanes held that were unwound: locks, slots of rings, staging buffers, room of streams. A lane is unwound by its own panic, by a wait past
//! the deadline, or because it waited for one that is gone; what other lanes then need is freed here, when the launch has ended.
//!
//! What the kernel still has is not: an operation that has not ended, such as a read of a pipe that nobody writes, keeps its slot and its memory.
#![allow(unsafe_code, reason = "reclaims slots whose holders are gone")]

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use gpufs_core::session::SessionTables;
use gpufs_core::stream::Direction;

/// How long operations may take whose lanes are gone, until the host no longer waits for them.
const PATIENCE: Duration = Duration::from_secs(1);

/// Frees what lanes that were unwound still held. Only while no kernel runs, and while somebody serves the rings. `staging` is the number of
/// staging buffers.
pub(super) fn let_go(session: &'static SessionTables, staging: u32) {
    let quiet = settle(session);
    session.shared.lock().reset();
    for entry in session.shared.entries() {
        entry.let_go();
    }
    for file in session.files() {
        file.lock.reset();
    }
    for stream in session.streams() {
        match stream.direction() {
            Direction::Idle => stream.lock.reset(),
            Direction::Reading => {
                // A read in flight may fill the buffer at any time; with no other buffer to be had, nobody may use the stream.
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
        for (ring, queue) in (0..).zip(session.queues()) {
            // SAFETY:
            // - no kernel runs, and the lanes that held slots were unwound
            // - the ring is quiet: nothing is in flight but in the slots of streams, which are among `used`
            unsafe { queue.reclaim(|slot| used.contains(&(ring, slot))) };
        }
        session.staging.free.release_all(staging);
    }
}

/// Hands on what completes, until nothing is in flight, or for a while; whether nothing is.
fn settle(session: &SessionTables) -> bool {
    let started = Instant::now();
    // Ends: a time.
    loop {
        let quiet = session.queues().iter().all(|queue| {
            // Ends: what there is to drain does.
            while queue.drain_alone(64) > 0 {}
            let progress = queue.progress();
            !queue.has_failed()
                && progress.tickets == progress.cq_tail
                && progress.drained == progress.cq_tail
        });
        if quiet {
            return true;
        }
        if started.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_micros(50));
    }
}
