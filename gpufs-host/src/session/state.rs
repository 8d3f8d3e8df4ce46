//! Where a session is in its life, and the kernels that it has started.
//!
//! ```text
//!            a launch
//!   Idle ───────────────► Running
//!    │ ▲                     │
//!    │ └─────────────────────┘
//!    │    launches are taken, and waited for
//!    │ a fault
//!    └────────► Dead
//! ```
//!
//! A launch keeps the ring service busy itself: [`Launch`] holds the guard, so a launch that is waited for, refused or dropped always ends
//! its claim. What waiting means, and what follows a fault, is not decided here (`synchronize.rs`).

use std::io;

use crate::cpu::{LaunchError, Launched};
use crate::gpu::{self, GpuError};
use crate::ring::BusyGuard;

/// Where a session is in its life.
#[derive(Debug)]
pub(super) enum State {
    /// Every kernel that was started has been synchronized with.
    Idle,
    /// Kernels were started, and not synchronized with.
    Running(Launches),
    /// The device died: there are no tables any more. Nothing starts.
    Dead {
        /// Lanes that were given up on may still use the session's memory: it is never freed.
        lanes_remain: bool,
    },
}

/// A running kernel, and what keeps the ring service busy for it.
#[derive(Debug)]
pub(super) struct Launch<K> {
    kernel: K,
    /// Dropped after the kernel was waited for.
    _busy: BusyGuard,
}

impl<K> Launch<K> {
    pub(super) const fn new(kernel: K, busy: BusyGuard) -> Self {
        Self { kernel, _busy: busy }
    }
}

impl Launch<Launched> {
    /// Waits until all lanes have ended.
    pub(super) fn join(self) -> Result<(), LaunchError> {
        let Self { kernel, _busy } = self;
        kernel.join()
    }
}

impl Launch<gpu::Launch> {
    /// Waits until the kernel has ended, and gives its stream back.
    pub(super) fn wait(self) -> Result<(), GpuError> {
        self.kernel.wait()
    }
}

/// Kernels that were started and not synchronized with.
#[derive(Debug, Default)]
pub(super) struct Launches {
    /// Of closures and kernels on CPU lanes.
    pub(super) lanes: Vec<Launch<Launched>>,
    /// Of kernels on a GPU, each on a stream of its own.
    pub(super) gpu: Vec<Launch<gpu::Launch>>,
    /// Kernels may run that the program launched without the session.
    pub(super) external: Option<BusyGuard>,
}

impl Launches {
    /// Whether kernels may run on a GPU, which then has the tables.
    fn on_gpu(&self) -> bool {
        !self.gpu.is_empty() || self.external.is_some()
    }
    /// Whether all kernels that the session has launched have ended.
    fn are_finished(&self) -> bool {
        self.lanes.iter().all(|launch| launch.kernel.is_finished())
            && self.gpu.iter().all(|launch| launch.kernel.is_finished())
    }
}

impl State {
    /// Whether the device has died.
    pub(super) const fn is_dead(&self) -> bool {
        matches!(self, Self::Dead { .. })
    }
    /// Whether lanes that were given up on may still use the session's memory.
    pub(super) const fn lanes_remain(&self) -> bool {
        matches!(self, Self::Dead { lanes_remain: true })
    }
    /// Whether kernels may run on a GPU, which then has the tables.
    pub(super) fn on_gpu(&self) -> bool {
        matches!(self, Self::Running(launches) if launches.on_gpu())
    }
    /// Whether kernels may run that the program launched without the session.
    pub(super) fn has_external(&self) -> bool {
        matches!(self, Self::Running(Launches { external: Some(_), .. }))
    }
    /// Whether all kernels that the session has launched have ended.
    pub(super) fn is_finished(&self) -> bool {
        match self {
            Self::Running(launches) => launches.are_finished(),
            Self::Idle | Self::Dead { .. } => true,
        }
    }
    /// An error while kernels have been started that were not synchronized with.
    pub(super) fn check_idle(&self) -> io::Result<()> {
        match self {
            Self::Idle | Self::Dead { .. } => Ok(()),
            Self::Running(_) => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "kernels are running; call synchronize first",
            )),
        }
    }

    /// Idle or running → running; the launches, of which the caller adds one.
    ///
    /// # Panics
    /// If the device has died: callers refuse a launch before.
    pub(super) fn run(&mut self) -> &mut Launches {
        if matches!(self, Self::Idle) {
            *self = Self::Running(Launches::default());
        }
        match self {
            Self::Running(launches) => launches,
            Self::Idle | Self::Dead { .. } => unreachable!("nothing starts on a dead device"),
        }
    }
    /// Running → idle; the launches, for the caller to wait for. Another state stays as it is, and has none.
    pub(super) fn take_launches(&mut self) -> Launches {
        if !matches!(self, Self::Running(_)) {
            return Launches::default();
        }
        match std::mem::replace(self, Self::Idle) {
            Self::Running(launches) => launches,
            Self::Idle | Self::Dead { .. } => unreachable!("looked at above"),
        }
    }
    /// Any state → dead. `lanes_remain`: lanes that were given up on may still use the session's memory. That never becomes untrue.
    pub(super) fn die(&mut self, lanes_remain: bool) {
        debug_assert!(
            !matches!(self, Self::Running(_)),
            "what ran was taken, to be waited for or given up on"
        );
        *self = Self::Dead { lanes_remain: lanes_remain || self.lanes_remain() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{CpuOptions, Grid, spawn};
    use crate::ring::{Mode, Ring, RingConfig, RingService};

    fn service() -> RingService {
        let config = RingConfig { mode: Mode::Threads, entries: 8, cq_entries: 16, ..RingConfig::default() };
        RingService::start(&[&Ring::open(&config).unwrap()]).unwrap()
    }

    #[test]
    fn a_launch_runs_until_it_is_taken() {
        let service = service();
        let mut state = State::Idle;
        assert!(state.check_idle().is_ok() && state.is_finished() && !state.on_gpu());
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let receiver = std::sync::Mutex::new(receiver);
        let wait = move || {
            let _ = receiver.lock().unwrap().recv();
        };
        let kernel = spawn(Grid { blocks: 1, threads: 1 }, &CpuOptions::default(), wait).unwrap();
        state.run().lanes.push(Launch::new(kernel, service.busy()));
        assert!(state.check_idle().is_err() && !state.is_finished() && !state.on_gpu());
        drop(sender);
        let launches = state.take_launches();
        assert!(matches!(state, State::Idle) && state.check_idle().is_ok());
        for launch in launches.lanes {
            launch.join().unwrap();
        }
        assert!(state.take_launches().lanes.is_empty());
    }

    #[test]
    fn kernels_of_others_hold_the_tables_until_they_are_taken() {
        let service = service();
        let mut state = State::Idle;
        state.run().external = Some(service.busy());
        assert!(state.has_external() && state.on_gpu() && state.check_idle().is_err());
        assert!(state.is_finished(), "only the runtime knows of them");
        assert!(state.take_launches().external.is_some() && !state.has_external());
    }

    #[test]
    fn death_is_for_ever() {
        let mut state = State::Idle;
        state.die(true);
        assert!(state.is_dead() && state.lanes_remain() && state.check_idle().is_ok());
        state.die(false);
        assert!(state.lanes_remain(), "the lanes are still there");
        assert!(state.take_launches().lanes.is_empty() && state.is_dead());
        assert!(
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(state.run().lanes.pop()))).is_err()
        );
    }
}
