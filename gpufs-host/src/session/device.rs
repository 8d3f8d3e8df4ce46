//! A session's device: its name, its memory, its multiprocessors, and how many threads of a kernel run on it at once.

use std::sync::Arc;

use gpufs_core::kernel::Kernel;

use super::{Backend, Body};
use crate::cpu::CpuOptions;
use crate::gpu::{Allocation, DeviceMemory, GpuError, KernelLimits, Registered};
use crate::ring::{MemorySource, RingError, RingMemory};

impl Backend {
    /// Whether kernels run on a GPU.
    pub(super) const fn is_gpu(&self) -> bool {
        matches!(self, Self::Gpu(_))
    }

    /// Pages of `pages` that the device reaches.
    pub(super) fn source(&self, pages: Arc<dyn MemorySource>) -> Arc<dyn MemorySource> {
        match self {
            Self::Cpu(_) => pages,
            Self::Gpu(gpu) => Arc::new(Registered { gpu: Arc::clone(gpu), pages }),
        }
    }

    /// The device's own memory, zeroed, where it has some.
    pub(super) fn device_memory(&self, bytes: usize) -> std::io::Result<Option<Box<dyn DeviceMemory>>> {
        match self {
            Self::Cpu(_) => Ok(None),
            Self::Gpu(gpu) => Ok(Some(Box::new(Allocation::new(gpu, bytes)?))),
        }
    }

    /// The kinds of ring memory to try: `wanted` alone, if the program has chosen.
    pub(super) fn ring_memories(&self, wanted: Option<RingMemory>) -> Result<Vec<RingMemory>, RingError> {
        let possible = match self {
            Self::Cpu(_) => &RingMemory::BEST_FIRST,
            Self::Gpu(gpu) => gpu.ring_memories(),
        };
        match wanted {
            None => Ok(possible.to_vec()),
            Some(memory) if possible.contains(&memory) => Ok(vec![memory]),
            Some(_) => Err(RingError::Config(
                "this GPU cannot reach rings that the kernel allocates; RingMemory::Caller or Runtime work, or leave the choice to gpufs",
            )),
        }
    }
}

/// The most lanes that an OS thread holds at once.
fn resident_lanes(options: &CpuOptions) -> u32 {
    u32::try_from(options.resident_warps).unwrap_or(u32::MAX).saturating_mul(options.width)
}

impl Body {
    /// `Session::device_name`.
    #[must_use]
    pub(super) fn device_name(&self) -> String {
        match &self.backend {
            Backend::Cpu(options) => {
                format!("CPU lanes, {} a warp, on {} threads", options.width, options.threads)
            }
            Backend::Gpu(gpu) => gpu.name(),
        }
    }

    /// `Session::device_bytes`.
    #[must_use]
    pub(super) fn device_bytes(&self) -> usize {
        match &self.backend {
            Backend::Cpu(_) => 0,
            Backend::Gpu(_) => {
                self.tables.device_bytes() + self.placed.iter().map(|memory| memory.bytes()).sum::<usize>()
            }
        }
    }

    /// `Session::multiprocessors`.
    #[must_use]
    pub(super) fn multiprocessors(&self) -> u32 {
        match &self.backend {
            Backend::Cpu(options) => u32::try_from(options.threads).unwrap_or(u32::MAX),
            Backend::Gpu(gpu) => gpu.multiprocessors(),
        }
    }

    /// `Session::kernel_limits`.
    pub(super) fn kernel_limits<K: Kernel>(&self) -> Result<KernelLimits, GpuError> {
        match &self.backend {
            Backend::Cpu(options) => {
                Ok(KernelLimits::new(None, options.stack_bytes as u64, resident_lanes(options)))
            }
            Backend::Gpu(gpu) => gpu.limits(K::NAME),
        }
    }

    /// `Session::occupancy`.
    pub(super) fn occupancy<K: Kernel>(&self, threads_per_block: u32) -> Result<u32, GpuError> {
        match &self.backend {
            Backend::Cpu(options) => Ok((resident_lanes(options) / threads_per_block.max(1)).max(1)),
            Backend::Gpu(gpu) => gpu.occupancy(K::NAME, threads_per_block),
        }
    }
}
