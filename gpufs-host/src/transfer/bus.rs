//! What a transfer needs of a GPU's driver: what lies at an address, pinned memory, and copies that go on by themselves.

use std::fmt::Debug;
use std::ptr::NonNull;

use super::request::{Direction, MemoryKind};
use crate::gpu::GpuError;

/// Memory that the driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) kind: MemoryKind,
    /// The GPU that it belongs to.
    pub(crate) gpu: u32,
}

/// A queue of copies of a GPU: the driver's handle, as a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue(pub(crate) usize);

/// A place in a queue: the driver's handle, as a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(pub(crate) usize);

/// A copy of a chunk of the host to memory of a GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToGpu {
    pub(crate) device: u64,
    pub(crate) host: NonNull<u8>,
    pub(crate) bytes: usize,
}

/// A driver, for all its GPUs. Calls come from any thread, and leave the thread's current context as it was.
///
/// # Safety
/// The implementation promises that
/// - `pinned` gives memory of the host of that length that nothing else uses, for ever;
/// - once `is_reached` says so, the copies that were queued before the mark have ended, and what they wrote is there.
pub(crate) unsafe trait Bus: Debug + Send + Sync {
    /// What lies at an address; `None`: memory that the driver does not know, which is the host's.
    fn look_up(&self, address: u64) -> Result<Option<Located>, GpuError>;
    /// Pinned memory of the host, which every GPU reaches, from this one's context. It is never given back.
    fn pinned(&self, gpu: u32, bytes: usize) -> Result<NonNull<u8>, GpuError>;
    /// A new queue of this GPU.
    fn queue(&self, gpu: u32) -> Result<Queue, GpuError>;
    /// A new mark of this GPU.
    fn mark(&self, gpu: u32) -> Result<Mark, GpuError>;
    /// Lets a mark go.
    ///
    /// # Safety
    /// From `mark` of this GPU, and not used afterwards.
    unsafe fn forget(&self, gpu: u32, mark: Mark);
    /// Starts to copy `bytes` bytes between memory of the GPU and of the host: to the GPU for a read.
    ///
    /// # Safety
    /// Both are as long, and nothing else uses them until a mark behind it is reached.
    unsafe fn copy(
        &self,
        gpu: u32,
        queue: Queue,
        direction: Direction,
        device: u64,
        host: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), GpuError>;
    /// Whether it takes several copies at once.
    fn takes_many(&self) -> bool;
    /// Starts copies to the GPU, which may run in any order and at the same time. Where it is refused some may have begun.
    ///
    /// # Safety
    /// As `copy`, for each; they overlap nowhere. Of a driver that takes several.
    unsafe fn copy_all(&self, gpu: u32, queue: Queue, copies: &[ToGpu]) -> Result<(), GpuError>;
    /// Puts a mark behind what was queued.
    ///
    /// # Safety
    /// Of this GPU, from `queue` and `mark`; or a stream of the program's.
    unsafe fn put(&self, gpu: u32, mark: Mark, queue: Queue) -> Result<(), GpuError>;
    /// Lets the queue's later copies wait for a mark.
    ///
    /// # Safety
    /// As `put`.
    unsafe fn follow(&self, gpu: u32, queue: Queue, mark: Mark) -> Result<(), GpuError>;
    /// Whether all before the mark has ended.
    ///
    /// # Safety
    /// From `mark` of this GPU, and put.
    unsafe fn is_reached(&self, gpu: u32, mark: Mark) -> Result<bool, GpuError>;
}
