//! The end of a session: what happens when it is dropped, in this order.
//!
//! 1. It closes the channels, so that no kernel waits for the host any more. It lets no call of other threads in any more, waits for those that are
//!    inside, synchronizes, and says what could not be written.
//! 2. It waits for operations in flight, for a while, while the ring service still serves them.
//! 3. It leaves the files of standard streams where their readers stand, and reports failed calls.
//! 4. It closes the tables, so that every handle that outlives the session finds nothing open, and the files that kernels had opened.
//! 5. It ends the ring service, then closes the rings.
//! 6. It gives the tables' memory back, then that of buffers and values, unless something may still use it.
#![expect(unsafe_code, reason = "closes what kernels had opened, and frees memory")]

use std::time::{Duration, Instant};

use gpufs_core::session::OpenFile;

use super::memory::free_shared;
use super::{Body, recover, seeker};

/// How long closing waits for operations in flight.
const SETTLE_MAX: Duration = Duration::from_secs(1);
/// Between two polls of what is in flight.
const NAP: Duration = Duration::from_micros(50);

impl Body {
    /// Waits until nothing is in flight, for a while; whether that is so.
    pub(super) fn settle(&self) -> bool {
        let started = Instant::now();
        // Ends: at `SETTLE_MAX`.
        loop {
            let idle = if self.state.is_dead() {
                self.rings.iter().all(|ring| ring.tails().0 == ring.tails().1)
            } else {
                let tables = self.tables.host;
                for queue in tables.all_queues() {
                    queue.drain_alone(64);
                }
                for stream in tables.streams() {
                    stream.lines.reclaim_slots(tables);
                }
                tables.all_queues().iter().all(|queue| queue.free_slots() == queue.capacity())
            };
            if idle {
                return true;
            }
            if started.elapsed() > SETTLE_MAX {
                return false;
            }
            std::thread::sleep(NAP);
        }
    }

    /// Makes every handle that outlives the session find closed tables.
    fn close_tables(&self) {
        let tables = self.tables.host;
        while tables.streams_free.claim(64, 0).is_some() {}
        for entry in tables.shared.entries() {
            entry.kill();
        }
        while tables.files_free.claim(64, 0).is_some() {}
        // A lane formats before it asks whether its stream is open.
        while tables.records.free.claim(64, 0).is_some() {}
        for stream in tables.streams() {
            if stream.generation.peek() % 2 == 1 {
                stream.close_cursor();
                // ORDERING: acquire and release, partner a stale handle's look at the generation.
                stream.generation.fetch_add(1);
            }
        }
        for (index, file) in (0..).zip(tables.files()) {
            let flags = file.flags.peek();
            // ORDERING: release, device: no kernel runs.
            file.flags.publish(0);
            let opened = if !self.state.is_dead() && flags & OpenFile::OPEN != 0 {
                (flags & OpenFile::HOST_OWNED == 0).then(|| file.descriptor.peek().cast_signed())
            } else {
                // Of a dead device, or of a lane that was unwound while it opened the file. The rings are at rest, or were waited for
                // (`settle`): an operation that has not completed never does, except an open that hangs.
                let opening = |token| recover::result_of(&self.host_journal, &self.rings, token);
                let journal = &tables.journal;
                journal
                    .opened(index)
                    .or_else(|| opening(journal.opening(index)?).filter(|number| *number >= 0))
            };
            // What a sandbox's kernels opened is open in the table of its family alone, and closed with that.
            if let Some(descriptor) = opened.filter(|_| self.confined.is_none()) {
                // SAFETY:
                // - the descriptor was opened by a kernel of this session for this entry, and nothing else closes it
                unsafe { libc::close(descriptor) };
            }
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let _span = self.span("close");
        {
            let _busy = self.busy();
            let _lanes = self.gate.lanes();
            self.close_channels();
            self.shut();
        }
        if !self.state.is_dead()
            && let Err(error) = self.synchronize()
        {
            eprintln!("gpufs: while closing a session: {error}");
        }
        let settled = {
            let _busy = self.busy();
            self.settle()
        };
        if !self.state.is_dead() {
            seeker::leave_standard_streams(self.tables.host);
        }
        self.shut_channels();
        self.report_failures();
        self.close_tables();
        if let Some(trace) = &mut self.trace {
            trace.stop();
        }
        self.end_kept_thread();
        self.service = None;
        self.rings.clear();
        let lanes_remain = self.state.lanes_remain();
        if !lanes_remain {
            self.tables.close();
        }
        if !settled || lanes_remain {
            // An operation that was given up on (a deadline) may still use its buffer: the memory stays the kernel's.
            self.memory.stays = true;
            return;
        }
        for buffer in self.buffers.drain(..) {
            // SAFETY:
            // - allocated by this session; the rings are closed, nothing is in flight, and no kernel runs
            unsafe { free_shared(&*self.source, buffer.address, buffer.bytes) };
        }
        self.give_back_values();
    }
}
