//! Memory of a device, and host memory that it reaches.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Gpu, GpuError};
use crate::ring::MemorySource;

/// Memory of a device, as far as a session needs it.
pub(crate) trait DeviceMemory: std::fmt::Debug + Send {
    /// Where it begins, for the device.
    fn address(&self) -> u64;
    /// Its length.
    fn bytes(&self) -> usize;
    /// Copies `bytes` to the device, to `offset` of this memory. No kernel runs.
    fn write_at(&self, offset: usize, bytes: &[u8]) -> io::Result<()>;
    /// Copies from `offset` of this memory into `bytes`. No kernel runs.
    fn read_at(&self, offset: usize, bytes: &mut [u8]) -> io::Result<()>;
    /// Copies `image` to the device, to the start of this memory. No kernel runs.
    fn write(&self, image: &[u8]) -> io::Result<()> {
        self.write_at(0, image)
    }
    /// Copies the start of this memory into `image`. No kernel runs.
    fn read(&self, image: &mut [u8]) -> io::Result<()> {
        self.read_at(0, image)
    }
}

/// Whether `bytes` bytes at `offset` lie within memory of `length` bytes.
pub(crate) fn within(length: usize, offset: usize, bytes: usize) -> io::Result<()> {
    if offset <= length && bytes <= length - offset {
        return Ok(());
    }
    let text = format!("{bytes} bytes at {offset} do not lie within memory of {length} bytes");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Device memory; given back on drop.
#[derive(Debug)]
pub(crate) struct Allocation {
    gpu: Arc<dyn Gpu>,
    address: u64,
    bytes: usize,
}

impl Allocation {
    /// Zeroed memory.
    pub(crate) fn new(gpu: &Arc<dyn Gpu>, bytes: usize) -> Result<Self, GpuError> {
        Ok(Self { gpu: Arc::clone(gpu), address: gpu.allocate(bytes)?, bytes })
    }
}

impl DeviceMemory for Allocation {
    fn address(&self) -> u64 {
        self.address
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn write_at(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        within(self.bytes, offset, bytes.len())?;
        // SAFETY:
        // - within the allocation, as checked; no kernel runs (contract of the trait)
        Ok(unsafe { self.gpu.write(self.address + offset as u64, bytes) }?)
    }
    fn read_at(&self, offset: usize, bytes: &mut [u8]) -> io::Result<()> {
        within(self.bytes, offset, bytes.len())?;
        // SAFETY:
        // - within the allocation, as checked; no kernel runs (contract of the trait)
        Ok(unsafe { self.gpu.read(self.address + offset as u64, bytes) }?)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY:
        // - from `allocate`; the session that used it has waited for its kernels
        unsafe { self.gpu.free(self.address) };
    }
}

/// Host memory that the GPU reaches: ordinary pages, pinned and mapped by the runtime.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(crate) gpu: Arc<dyn Gpu>,
    /// Where the pages come from.
    pub(crate) pages: Arc<dyn MemorySource>,
}

// SAFETY:
// - allocation and places are those of `pages`, whose promises hold
// - registering pins the pages where they are, and the address that it gives reaches them until unregistered
unsafe impl MemorySource for Registered {
    fn allocate(&self, bytes: usize, align: usize) -> io::Result<NonNull<u8>> {
        self.pages.allocate(bytes, align)
    }
    unsafe fn free(&self, memory: NonNull<u8>, bytes: usize) {
        // SAFETY:
        // - this function's contract is that of `pages`
        unsafe { self.pages.free(memory, bytes) };
    }
    fn place(&self, bytes: usize) -> io::Result<Option<NonNull<u8>>> {
        self.pages.place(bytes)
    }
    unsafe fn give_back_place(&self, place: NonNull<u8>, bytes: usize) {
        // SAFETY:
        // - this function's contract is that of `pages`
        unsafe { self.pages.give_back_place(place, bytes) };
    }
    unsafe fn share(&self, memory: NonNull<u8>, bytes: usize) -> io::Result<NonNull<u8>> {
        // SAFETY:
        // - mapped memory of that length until `unshare`, by this function's contract
        Ok(unsafe { self.gpu.register(memory, bytes) }?)
    }
    unsafe fn unshare(&self, memory: NonNull<u8>, _bytes: usize) {
        // SAFETY:
        // - registered in `share`, once; the GPU no longer uses it, by this function's contract
        unsafe { self.gpu.unregister(memory) };
    }
    fn runtime(&self) -> Option<Arc<dyn MemorySource>> {
        Some(Arc::new(Allocated(Arc::clone(&self.gpu))))
    }
}

/// Host memory that the GPU reaches, from the runtime's own allocator.
#[derive(Debug)]
struct Allocated(Arc<dyn Gpu>);

// SAFETY:
// - `allocate_host` gives whole zeroed pages, which stay where they are until `free_host`
// - they are mapped for the device from the start, at the address that `device_address` tells
unsafe impl MemorySource for Allocated {
    fn allocate(&self, bytes: usize, align: usize) -> io::Result<NonNull<u8>> {
        let memory = self.0.allocate_host(bytes)?;
        if !memory.addr().get().is_multiple_of(align) {
            // SAFETY:
            // - allocated just now
            unsafe { self.0.free_host(memory) };
            return Err(io::Error::other("the runtime's host memory is not aligned to pages"));
        }
        Ok(memory)
    }
    unsafe fn free(&self, memory: NonNull<u8>, _bytes: usize) {
        // SAFETY:
        // - from `allocate`, and nothing uses it any more, by this function's contract
        unsafe { self.0.free_host(memory) };
    }
    unsafe fn share(&self, memory: NonNull<u8>, _bytes: usize) -> io::Result<NonNull<u8>> {
        Ok(self.0.device_address(memory)?)
    }
    unsafe fn unshare(&self, _memory: NonNull<u8>, _bytes: usize) {}
}
