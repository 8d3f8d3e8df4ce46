//! What a session has done so far.

use gpufs_core::session::SessionTables;

use super::failures::{self, FailedCalls};
use super::{Backend, Body};

/// What one ring has done since the session began. `gpufs_statistics` of C has these fields in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RingStatistics {
    /// Operations submitted.
    pub operations: u64,
    /// Stores of the SQ tail: batches, or several batches at once.
    pub publications: u64,
    /// Completions drained.
    pub completions: u64,
    /// Polls of the completion queue that found it empty.
    pub empty_looks: u64,
    /// Completions that no operation waited for. Not zero only if the protocol was broken.
    pub stale: u64,
    /// Times that a warp found no free slot.
    pub slot_waits: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Times that the sleeping SQPOLL thread was woken.
    pub wake_ups: u64,
}

/// What a session has done since it began. Exact while no kernel runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// One entry for each ring of I/O.
    pub rings: Vec<RingStatistics>,
    /// The service ring, which does what io_uring has no operation for. Zero where `rings` are served by host threads: they do it themselves.
    pub services: RingStatistics,
    /// Calls that failed, by call and error, including those of the host. `None` after a fault of a GPU, whose memory they were counted in.
    /// A program that never asks for statistics gets them on its standard error (`Builder::report_failures`).
    pub failures: Option<Vec<FailedCalls>>,
}

impl Statistics {
    /// The sum over all rings, the service ring included. Kernels write the counters, so a sum wraps around and is no panic.
    #[must_use]
    pub fn total(&self) -> RingStatistics {
        self.rings.iter().fold(self.services, |sum, ring| RingStatistics {
            operations: sum.operations.wrapping_add(ring.operations),
            publications: sum.publications.wrapping_add(ring.publications),
            completions: sum.completions.wrapping_add(ring.completions),
            empty_looks: sum.empty_looks.wrapping_add(ring.empty_looks),
            stale: sum.stale.wrapping_add(ring.stale),
            slot_waits: sum.slot_waits.wrapping_add(ring.slot_waits),
            bytes_read: sum.bytes_read.wrapping_add(ring.bytes_read),
            bytes_written: sum.bytes_written.wrapping_add(ring.bytes_written),
            wake_ups: sum.wake_ups.wrapping_add(ring.wake_ups),
        })
    }
}

fn gather(session: &SessionTables, wake_ups: &[u64], failures: Option<Vec<FailedCalls>>) -> Statistics {
    let one = |(queue, wake_ups): (&gpufs_core::Queue, &u64)| {
        let counters = queue.counters();
        // ORDERING: relaxed: statistics.
        RingStatistics {
            operations: counters.operations.peek(),
            publications: counters.publications.peek(),
            completions: counters.completions.peek(),
            empty_looks: counters.empty_looks.peek(),
            stale: counters.stale.peek(),
            slot_waits: counters.slot_waits.peek(),
            bytes_read: counters.bytes_read.peek(),
            bytes_written: counters.bytes_written.peek(),
            wake_ups: *wake_ups,
        }
    };
    let mut rings: Vec<_> = session.all_queues().iter().zip(wake_ups).map(one).collect();
    let services = rings.split_off(session.queues().len()).pop().unwrap_or_default();
    Statistics { rings, services, failures }
}

impl Body {
    /// `Session::statistics`.
    #[must_use]
    pub(super) fn statistics(&self) -> Statistics {
        let wake_ups: Vec<u64> = self.service().ring_reports().iter().map(|ring| ring.wake_ups).collect();
        let failures = self.failures();
        self.reported.note_seen(failures.as_deref().unwrap_or_default());
        gather(self.tables.host, &wake_ups, failures)
    }

    /// Calls that failed; `None` after a fault of a GPU, whose memory they were counted in. While no kernel runs on a GPU.
    fn failures(&self) -> Option<Vec<FailedCalls>> {
        (!self.state.is_dead() || matches!(self.backend, Backend::Cpu(_)))
            .then(|| failures::failed(self.tables.host))
    }

    /// Tells a program that never asked for statistics which calls failed. When the session or the process ends.
    pub(super) fn report_failures(&self) {
        match self.failures() {
            Some(failures) => self.reported.report(failures),
            None => self.reported.report_unknown(),
        }
    }
}
