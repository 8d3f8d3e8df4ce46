//! Buffers in the device's memory for kernels. The host fills and reads them while no kernel runs.
#![expect(unsafe_code, reason = "memory that stands in for a device's, on CPU lanes")]

use std::io;
use std::ptr::NonNull;

use super::Body;
use super::placed::is_ours;
use crate::gpu::{DeviceMemory, within};
use crate::ring::{CpuMemory, MemorySource};

/// Memory of the device. Freed with its session.
///
/// Kernels get its address as a number. They must stay within it, and order their own accesses to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceBuffer {
    address: u64,
    bytes: usize,
    /// Its place in the session's `placed`.
    place: usize,
    /// The number of the session.
    session: u64,
}

impl DeviceBuffer {
    /// Where it begins, for the device: a multiple of 256.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }
    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes
    }
    /// Whether it has no bytes: never.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

/// Bytes of a huge page. Where the system's are of another size, what is aligned to this is ordinary memory.
const HUGE_BYTES: usize = 2 << 20;

/// The device's memory on CPU lanes: whole pages of the host's, huge ones for what is larger, where there are any. Kernels look things up in it here
/// and there, and with small pages most looks would miss the TLB, too.
#[derive(Debug)]
struct HostMemory {
    memory: NonNull<u8>,
    bytes: usize,
    /// The mapping in which it lies, if that is not the memory itself.
    around: Option<(NonNull<u8>, usize)>,
}

// SAFETY:
// - a mapping of this owner's, which any thread may use
unsafe impl Send for HostMemory {}

impl HostMemory {
    fn allocate(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(4096);
        if bytes < HUGE_BYTES {
            return Ok(Self { memory: CpuMemory.allocate(bytes, 4096)?, bytes, around: None });
        }
        let room = bytes.checked_add(HUGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY:
        // - a new mapping at an address of the kernel's choice
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), room, protection, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = NonNull::new(mapped.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY:
        // - within the mapping, which is longer than the memory by that much
        let memory = unsafe { mapping.add(mapping.as_ptr().addr().wrapping_neg() % HUGE_BYTES) };
        // Without either, pages are small, or come when they are first used.
        for advice in [libc::MADV_HUGEPAGE, libc::MADV_POPULATE_WRITE] {
            // SAFETY:
            // - a part of the mapping, which nobody uses yet
            unsafe { libc::madvise(memory.as_ptr().cast(), bytes, advice) };
        }
        Ok(Self { memory, bytes, around: Some((mapping, room)) })
    }
}

impl DeviceMemory for HostMemory {
    fn address(&self) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn write_at(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        within(self.bytes, offset, bytes.len())?;
        // SAFETY:
        // - within the mapping, as checked
        let to = unsafe { self.memory.add(offset) };
        // SAFETY:
        // - as many bytes lie within the mapping, as checked
        // - no kernel uses them now (contract of the trait), and `bytes` is the caller's
        unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Ok(())
    }
    fn read_at(&self, offset: usize, bytes: &mut [u8]) -> io::Result<()> {
        within(self.bytes, offset, bytes.len())?;
        // SAFETY:
        // - within the mapping, as checked
        let from = unsafe { self.memory.add(offset) };
        // SAFETY:
        // - as many bytes lie within the mapping, as checked
        // - no kernel uses them now (contract of the trait), and `bytes` is the caller's
        unsafe { from.copy_to_nonoverlapping(NonNull::from(&mut *bytes).cast(), bytes.len()) };
        Ok(())
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        match self.around {
            // SAFETY:
            // - allocated in `allocate`; the session has waited for its kernels
            None => unsafe { CpuMemory.free(self.memory, self.bytes) },
            // SAFETY:
            // - as above
            Some((mapping, bytes)) => _ = unsafe { libc::munmap(mapping.as_ptr().cast(), bytes) },
        }
    }
}

impl Body {
    /// `Session::device_buffer`.
    pub(super) fn device_buffer(&mut self, bytes: usize) -> io::Result<DeviceBuffer> {
        if bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a device buffer has a byte at least"));
        }
        let memory = match self.backend.device_memory(bytes)? {
            Some(memory) => memory,
            None => Box::new(HostMemory::allocate(bytes)?),
        };
        let buffer =
            DeviceBuffer { address: memory.address(), bytes, place: self.placed.len(), session: self.number };
        self.placed.push(memory);
        Ok(buffer)
    }

    /// `Session::read_device`.
    pub(super) fn read_device(
        &mut self,
        buffer: &DeviceBuffer,
        offset: usize,
        into: &mut [u8],
    ) -> io::Result<()> {
        self.state.check_idle()?;
        is_ours(buffer.session, self.number)?;
        let _alone = self.alone();
        within(buffer.bytes, offset, into.len())?;
        self.memory_of(buffer).read_at(offset, into)
    }

    /// `Session::write_device`.
    pub(super) fn write_device(
        &mut self,
        buffer: &DeviceBuffer,
        offset: usize,
        from: &[u8],
    ) -> io::Result<()> {
        self.state.check_idle()?;
        is_ours(buffer.session, self.number)?;
        let _alone = self.alone();
        within(buffer.bytes, offset, from.len())?;
        self.memory_of(buffer).write_at(offset, from)
    }

    fn memory_of(&self, buffer: &DeviceBuffer) -> &dyn DeviceMemory {
        &**self.placed.get(buffer.place).expect("as many as were made")
    }
}
