//! Waiting for kernels, writing what their streams hold, and what follows when a device has died.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpufs_core::session::SessionTables;

use super::alone::Alone;
use super::builder::STAGING_BUFFER_BYTES;
use super::state::Launches;
use super::{Backend, Body, Fault, StalledAt, SyncError, asynchronous, flush, recover, unwound};
use crate::cpu::LaunchError;
use crate::gpu::GpuError;
use crate::ring;

impl Body {
    /// `Session::synchronize`.
    pub(super) fn synchronize(&mut self) -> Result<(), SyncError> {
        self.finish(Ok(()), None)
    }

    /// [`Body::synchronize`], after a kernel that the caller has run to its end, with this result. `alone`: no call of others is inside, which
    /// is otherwise waited for.
    pub(super) fn finish(
        &mut self,
        ran: Result<(), LaunchError>,
        alone: Option<Alone>,
    ) -> Result<(), SyncError> {
        if self.state.is_dead() {
            return Err(SyncError::Dead);
        }
        let _span = self.span("synchronize");
        let on_gpu = self.state.on_gpu();
        let mut launches = self.state.take_launches();
        let mut outcome = ran.map_err(SyncError::Kernel);
        for launch in launches.lanes.drain(..) {
            let _lanes = self.gate.lanes();
            outcome = outcome.and(launch.join().map_err(SyncError::Kernel));
        }
        let _alone = {
            let _busy = self.busy();
            let _lanes = self.gate.lanes();
            alone.unwrap_or_else(|| self.alone())
        };
        if !on_gpu {
            let _busy = self.busy();
            self.end_operations();
        }
        if outcome.is_err() {
            let _busy = self.busy();
            let buffers =
                |bytes: usize| u32::try_from(bytes / STAGING_BUFFER_BYTES as usize).unwrap_or(u32::MAX);
            let of = (buffers(self.memory.staging_bytes), buffers(self.memory.listing_bytes));
            unwound::reclaim(self.tables.host, of.0, of.1);
        }
        if on_gpu {
            match self.wait_for_gpu(launches) {
                Err(cause) if cause.is_fault() => return Err(self.after_fault(Box::new(cause), false)),
                ended => {
                    outcome = outcome
                        .and(ended.map_err(SyncError::Gpu))
                        .and(self.tables.pull().map_err(SyncError::Tables));
                }
            }
        }
        let _busy = self.busy();
        if on_gpu {
            self.end_operations();
        }
        for stream in self.tables.host.streams() {
            // A lane kept it, and has ended ([R-12]).
            if stream.let_go() {
                stream.lock.reset();
            }
        }
        let pieces = flush::flush_pieces(self.tables.host);
        let flushed = flush::flush_streams(self.tables.host).and(pieces);
        let cached = self.write_cache();
        for entry in self.tables.host.shared.entries() {
            entry.forget();
        }
        if let Some(failure) = self.ring_failure() {
            // Its consequences are lanes that gave up on it, and streams that could not be written.
            return Err(SyncError::Ring { failure, stream: flushed.err() });
        }
        outcome.and(flushed.map_err(SyncError::Stream)).and(cached.map_err(SyncError::Cache))
    }

    /// Ends what kernels have started and not waited for ([R-ASYNC-6]). No kernel runs, no call is inside, and the ring service is busy.
    fn end_operations(&self) {
        let buffers = self.memory.async_bytes / STAGING_BUFFER_BYTES as usize;
        asynchronous::end_operations(self.tables.host, u32::try_from(buffers).unwrap_or(u32::MAX));
    }

    /// `Session::ring_failure`.
    pub(super) fn ring_failure(&self) -> Option<ring::Failure> {
        self.service().failure()
    }

    /// The tables, where lanes on the CPU have them.
    pub(super) fn lanes(&self) -> Option<&'static SessionTables> {
        matches!(self.backend, Backend::Cpu(_)).then_some(self.tables.host)
    }

    /// Waits until every kernel has ended, or until then; whether all have.
    pub(super) fn wait_until(&self, until: Instant) -> bool {
        while !self.is_finished() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let (true, Backend::Gpu(gpu)) = (self.state.has_external(), &self.backend) else { return true };
        // The runtime's wait has no limit. Where it does not return in time, the process ends with its thread in it.
        let (gpu, (sender, ended)) = (Arc::clone(gpu), std::sync::mpsc::channel());
        let waiting = std::thread::Builder::new().spawn(move || {
            let _ = gpu.settle();
            let _ = sender.send(());
        });
        waiting.is_ok() && ended.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok()
    }

    /// Waits for the kernels on the GPU; the first error.
    fn wait_for_gpu(&self, launches: Launches) -> Result<(), GpuError> {
        let mut outcome = Ok(());
        let _lanes = self.gate.lanes();
        if let (Some(busy), Backend::Gpu(gpu)) = (launches.external, &self.backend) {
            outcome = gpu.settle();
            drop(busy);
        }
        for launch in launches.gpu {
            outcome = outcome.and(launch.wait());
        }
        outcome
    }

    /// The process ends, and the GPU's runtime has ended before: writes what the streams had accepted from host memory. The text for
    /// the user.
    pub(super) fn recover_at_exit(&mut self, cause: Box<dyn Error + Send + Sync>) -> String {
        if self.memory.is_of_runtime || !self.host_journal.is_enabled() {
            return format!("what streams had buffered is lost: {cause}");
        }
        self.after_fault(cause, false).to_string()
    }

    /// The device has died of `cause`: saves what the streams had accepted. `lanes_remain`: lanes may still use the session's memory.
    fn after_fault(&mut self, mut cause: Box<dyn Error + Send + Sync>, lanes_remain: bool) -> SyncError {
        self.state.die(lanes_remain);
        let failure = self.ring_failure();
        if let Some(failure) = failure {
            cause = Box::new(failure);
        }
        let _busy = self.busy();
        let host = self.tables.host;
        let buffers = self.memory.stream_bytes / host.stream_buffers.buffer_bytes as usize;
        let buffers = u32::try_from(buffers).unwrap_or(u32::MAX);
        let recovery = recover::recover(
            host,
            buffers,
            &self.host_journal,
            &self.rings,
            self.confined.as_ref(),
            flush::write_wait_max(host),
        );
        SyncError::Fault(Box::new(Fault {
            cause,
            panicked: recover::panicked(&host.stall().panic),
            stalled: if failure.is_some() { None } else { StalledAt::of(host.stall()) },
            recovery,
        }))
    }

    /// `Session::pretend_fault`.
    ///
    /// # Safety
    /// As for `Session::pretend_fault`.
    #[expect(unsafe_code, reason = "lanes that have stopped for ever are given up on")]
    pub(super) unsafe fn pretend_fault(&mut self) -> SyncError {
        drop(self.state.take_launches());
        self.after_fault("a pretended fault".into(), true)
    }
}
