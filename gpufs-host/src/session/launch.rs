//! Starting kernels: closures on CPU lanes, declared kernels on any device, and kernels that the program launches itself. Also calls that
//! the host makes on the tables. Waiting for kernels is in `synchronize.rs`.
#![expect(unsafe_code, reason = "launches kernels of a GPU")]

use gpufs_core::Errno;
use gpufs_core::kernel::Kernel;
use gpufs_device::Fs;

use super::state::Launch;
use super::{Backend, Body, SyncError};
use crate::cpu::{self, CpuOptions, Grid, LaunchError};
use crate::gpu;
use crate::ring::{BusyGuard, RingService};

impl Body {
    /// The ring service.
    pub(super) fn service(&self) -> &RingService {
        self.service.as_ref().expect("the service lives until `close` has used it last")
    }

    /// Keeps the ring service busy until the result is dropped.
    pub(super) fn busy(&self) -> BusyGuard {
        self.service().busy()
    }

    /// The options of CPU lanes, on which a closure may run.
    fn cpu_options(&self) -> Result<&CpuOptions, LaunchError> {
        match &self.backend {
            _ if self.state.is_dead() => Err(LaunchError::Dead),
            Backend::Cpu(options) => Ok(options),
            Backend::Gpu(_) => Err(LaunchError::NotHere),
        }
    }

    /// The session, for calls on the host.
    pub(super) fn fs(&self) -> Fs {
        // SAFETY:
        // - made for this session, never unmapped (`estate.rs`), with a gate
        unsafe { Fs::new(self.tables.host) }
    }

    /// `Session::launch`.
    pub(super) fn launch<F>(&mut self, grid: Grid, kernel: F) -> Result<(), LaunchError>
    where
        F: Fn(Fs) + Send + Sync + 'static,
    {
        let (fs, number) = (self.fs(), self.number);
        let options = self.cpu_options()?.clone();
        let _span = self.span_of("launch", grid);
        let busy = self.busy();
        let kernel = move || kernel(fs);
        let launched = match &self.kept_thread {
            Some(thread) => thread.spawn_of(number, grid, &options, kernel)?,
            None => Err(kernel),
        };
        let launched = match launched {
            Ok(launched) => launched,
            Err(kernel) => cpu::spawn_of(number, grid, &options, kernel)?,
        };
        self.state.run().lanes.push(Launch::new(launched, busy));
        Ok(())
    }

    /// `Session::start`.
    pub(super) fn start<K: Kernel>(&mut self, grid: Grid, arguments: K::Arguments) -> Result<(), SyncError> {
        if self.state.is_dead() {
            return Err(SyncError::Dead);
        }
        let Backend::Gpu(gpu) = &self.backend else {
            let tables = self.tables.host;
            return self.launch(grid, move |_| K::run(tables, arguments)).map_err(SyncError::Kernel);
        };
        if grid.blocks == 0 || grid.threads == 0 {
            return Err(SyncError::Kernel(LaunchError::EmptyGrid(grid)));
        }
        let _span = self.span_of("launch", grid);
        if !self.state.on_gpu() {
            self.tables.push().map_err(SyncError::Tables)?;
        }
        let session = self.tables.device_address;
        let busy = self.busy();
        // SAFETY:
        // - the kernel of that name was declared with these arguments, which the macro that made both guarantees
        // - the tables stay as long as the session, which synchronizes before it goes
        let launched = unsafe { gpu::Launch::start(gpu, K::NAME, grid, session, arguments) };
        let launched = launched.map_err(SyncError::Gpu)?;
        self.state.run().gpu.push(Launch::new(launched, busy));
        Ok(())
    }

    /// `Session::run`.
    pub(super) fn run<F>(&mut self, grid: Grid, kernel: F) -> Result<(), SyncError>
    where
        F: Fn(Fs) + Sync,
    {
        let fs = self.fs();
        let span = self.span_of("run", grid);
        let ran = self.cpu_options().and_then(|options| {
            let _busy = self.busy();
            let _lanes = self.gate.lanes();
            cpu::launch_of(self.number, grid, options, || kernel(fs))
        });
        drop(span);
        self.finish(ran, None)
    }

    /// `Session::begin_external`.
    pub(super) fn begin_external(&mut self) -> Result<(), SyncError> {
        let Backend::Gpu(_) = &self.backend else {
            // On CPU lanes only the session launches kernels.
            return Ok(());
        };
        if self.state.is_dead() {
            return Err(SyncError::Dead);
        }
        if self.state.has_external() {
            return Ok(());
        }
        if !self.state.on_gpu() {
            self.tables.push().map_err(SyncError::Tables)?;
        }
        let busy = self.busy();
        self.state.run().external = Some(busy);
        Ok(())
    }

    /// `Session::with_tables`.
    pub(super) fn with_tables<T>(&mut self, calls: impl FnOnce(Fs) -> T) -> Result<T, Errno> {
        if self.state.on_gpu() {
            return Err(Errno::BUSY);
        }
        let _busy = self.busy();
        let _lanes = self.gate.lanes();
        let _lent = self.lend();
        Ok(calls(self.fs()))
    }

    /// `Session::is_finished`.
    pub(super) fn is_finished(&self) -> bool {
        self.state.is_finished()
    }
}
