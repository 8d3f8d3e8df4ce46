//! What a ring should be like, and whether that is possible.

use std::sync::Arc;

use super::confined::Confined;
use super::memory::{CpuMemory, MemorySource, RingMemory};
use super::services::Services;
use super::{Mode, RingError};

/// What a ring should be like.
#[derive(Clone, Debug)]
pub struct RingConfig {
    /// Entries of the submission ring: a power of two, 1 to 32,768.
    pub entries: u32,
    /// Entries of the completion ring: a power of two, `entries` to 65,536.
    pub cq_entries: u32,
    /// What serves it. For [`choose`](super::choose), the best to try.
    pub mode: Mode,
    /// What allocates it. The kernel never allocates for [`Mode::Threads`]: there `Kernel` means `Caller`.
    pub memory: RingMemory,
    /// Shares the memory with the device, and supplies it where the kernel does not.
    pub source: Arc<dyn MemorySource>,
    /// How long the SQPOLL thread polls an idle ring before it sleeps, in milliseconds; 0 means the kernel's default, one second.
    pub idle_ms: u32,
    /// The CPU to keep the SQPOLL thread on.
    pub sq_thread_cpu: Option<u32>,
    /// Keeps the index array of kernels before 6.6 even where the kernel needs none. For tests.
    pub index_array: bool,
    /// What the services of the rings share, where host threads serve them.
    pub services: Arc<Services>,
    /// The sandbox that is in force.
    pub confined: Option<Arc<Confined>>,
}

impl Default for RingConfig {
    fn default() -> Self {
        Self {
            entries: 1024,
            cq_entries: 2048,
            mode: Mode::default(),
            memory: RingMemory::default(),
            source: Arc::new(CpuMemory),
            idle_ms: 1000,
            sq_thread_cpu: None,
            index_array: false,
            services: Arc::default(),
            confined: None,
        }
    }
}

impl RingConfig {
    /// The source of the ring's own memory, where the kernel does not allocate it.
    pub(super) fn own_source(&self) -> Arc<dyn MemorySource> {
        let runtime = if self.memory == RingMemory::Runtime { self.source.runtime() } else { None };
        runtime.unwrap_or_else(|| Arc::clone(&self.source))
    }
    pub(super) fn check(&self) -> Result<(), RingError> {
        if !self.entries.is_power_of_two() || self.entries > 32_768 {
            return Err(RingError::Config("a ring's entries are a power of two, at most 32768"));
        }
        if !self.cq_entries.is_power_of_two() || self.cq_entries > 65_536 || self.cq_entries < self.entries {
            return Err(RingError::Config(
                "a ring's CQ entries are a power of two, at least its entries, at most 65536",
            ));
        }
        Ok(())
    }
}
