//! Where a ring's memory comes from, and how the device reaches it.
//!
//! Either the kernel allocates the rings and they are mapped here, or the host supplies the memory
//! (`IORING_SETUP_NO_MMAP`), in ordinary pages or in those of the device's runtime. In any case the memory is then shared with the
//! device by its [`MemorySource`]; on a machine whose lanes run on the CPU there is nothing to share with, and [`CpuMemory`] is the
//! source.

use std::fmt::{self, Debug};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use super::sys;

/// What allocates the memory of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RingMemory {
    /// The kernel; the host maps it and shares the mapping with the device. Works on every kernel.
    #[default]
    Kernel,
    /// The host, from its [`MemorySource`]. Since Linux 6.5; before 6.10, a ring of more than one page needs
    /// contiguous memory (huge pages).
    Caller,
    /// The device's runtime: pinned memory of its own allocator ([`MemorySource::runtime`]), given to the kernel as the host's is.
    /// Where the device has no such allocator, as on CPU lanes, the same as [`RingMemory::Caller`].
    Runtime,
}

impl RingMemory {
    /// All kinds, best first: what the kernel allocates needs no more of it than any ring does, and ordinary pages no more of the
    /// runtime than pinning.
    pub const BEST_FIRST: [Self; 3] = [Self::Kernel, Self::Caller, Self::Runtime];
}

impl fmt::Display for RingMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "kernel",
            Self::Caller => "caller",
            Self::Runtime => "runtime",
        })
    }
}

/// Memory that a device can reach: where it comes from, and how the device is told.
///
/// # Safety
/// The implementation promises that
/// - `allocate` returns `bytes` bytes of zeroed memory at a multiple of `align`, readable and writable, that nobody else uses
///   until `free`, and that other mappings of the process do not move or discard;
/// - `share` leaves the memory where it is for the host, and the address that it returns reaches the same bytes from the
///   device until `unshare`.
///
/// It may rely on each `free` and `unshare` matching one earlier `allocate` and `share`, in the reverse order.
pub unsafe trait MemorySource: Debug + Send + Sync {
    /// Zeroed memory of `bytes` bytes, both a multiple of the page size, aligned to `align`, a power of two.
    ///
    /// # Errors
    /// The system's, where there is no memory.
    fn allocate(&self, bytes: usize, align: usize) -> io::Result<NonNull<u8>>;

    /// Gives back what [`MemorySource::allocate`] returned.
    ///
    /// # Safety
    /// `memory` and `bytes` come from one `allocate` of this source, nothing refers to it any more, and it is not shared.
    unsafe fn free(&self, memory: NonNull<u8>, bytes: usize);

    /// Makes memory of this process reachable from the device; its address there.
    ///
    /// # Errors
    /// The device's, where it refuses.
    ///
    /// # Safety
    /// `memory` is `bytes` bytes, page-aligned, mapped until [`MemorySource::unshare`].
    unsafe fn share(&self, memory: NonNull<u8>, bytes: usize) -> io::Result<NonNull<u8>>;

    /// Undoes [`MemorySource::share`].
    ///
    /// # Safety
    /// `memory` and `bytes` come from one `share` of this source, and the device no longer uses it.
    unsafe fn unshare(&self, memory: NonNull<u8>, bytes: usize);

    /// Reserves addresses for a mapping of the caller's, which it makes there with `MAP_FIXED`; none where any address will do, as here. A
    /// source that gives the same addresses again for the same questions has rings that lie where earlier ones lay.
    ///
    /// # Errors
    /// The system's, where there are no addresses.
    fn place(&self, bytes: usize) -> io::Result<Option<NonNull<u8>>> {
        let _ = bytes;
        Ok(None)
    }

    /// Gives back what [`MemorySource::place`] returned, whatever is mapped there.
    ///
    /// # Safety
    /// `place` and `bytes` come from one `place` of this source, and nothing refers to what is mapped there any more.
    unsafe fn give_back_place(&self, place: NonNull<u8>, bytes: usize) {
        let _ = (place, bytes);
    }

    /// The source of [`RingMemory::Runtime`], where the device's runtime has an allocator of its own.
    fn runtime(&self) -> Option<Arc<dyn MemorySource>> {
        None
    }
}

/// Ordinary memory, for lanes that run on the CPU: anonymous, shared, populated, in the system's ordinary pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuMemory;

// SAFETY:
// - an anonymous mapping is zeroed, page-aligned (`allocate` refuses more), and ours until unmapped
// - sharing changes nothing: the lanes are threads of this process
unsafe impl MemorySource for CpuMemory {
    fn allocate(&self, bytes: usize, align: usize) -> io::Result<NonNull<u8>> {
        if align > sys::page_bytes() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY:
        // - a new mapping at an address of the kernel's choice
        unsafe { map(None, bytes, flags, -1, 0) }
    }
    unsafe fn free(&self, memory: NonNull<u8>, bytes: usize) {
        // SAFETY:
        // - the mapping is `allocate`'s and nothing refers to it, by this function's contract
        unsafe { unmap(memory, bytes) };
    }
    unsafe fn share(&self, memory: NonNull<u8>, _bytes: usize) -> io::Result<NonNull<u8>> {
        Ok(memory)
    }
    unsafe fn unshare(&self, _memory: NonNull<u8>, _bytes: usize) {}
}

/// `mmap(2)`, readable and writable, at a place of the kernel's choice or at the caller's.
///
/// # Safety
/// At `place`, if there is one, `bytes` bytes are the caller's, and nothing refers to them.
unsafe fn map(
    place: Option<NonNull<u8>>,
    bytes: usize,
    flags: i32,
    fd: i32,
    offset: i64,
) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (address, fixed) =
        place.map_or((std::ptr::null_mut(), 0), |place| (place.as_ptr().cast(), libc::MAP_FIXED));
    // SAFETY:
    // - what is replaced is the caller's, by this function's contract
    let address = unsafe { libc::mmap(address, bytes, protection, flags | fixed, fd, offset) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// `munmap(2)`.
///
/// # Safety
/// The mapping is whole and nothing refers to it.
unsafe fn unmap(memory: NonNull<u8>, bytes: usize) {
    // SAFETY:
    // - the mapping is the caller's to drop, by this function's contract
    let result = unsafe { libc::munmap(memory.as_ptr().cast(), bytes) };
    debug_assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

/// How a [`Region`] is given back.
#[derive(Debug)]
enum Origin {
    Source,
    Mapping,
    /// A mapping at a place of the source's.
    Placed,
    /// Not at all: it has been moved away.
    Moved,
}

/// One stretch of memory that the device shares; given back on drop.
#[derive(Debug)]
pub(super) struct Region {
    /// Where the host sees it.
    pub(super) host: NonNull<u8>,
    /// Where the device sees it, once shared.
    device: Option<NonNull<u8>>,
    bytes: usize,
    origin: Origin,
    source: Arc<dyn MemorySource>,
}

// SAFETY:
// - the region owns its memory and never touches it; the code that does says why it may
unsafe impl Send for Region {}
// SAFETY:
// - as for `Send`
unsafe impl Sync for Region {}

impl Region {
    /// `bytes` bytes (rounded up to pages) from the source.
    pub(super) fn allocate(source: &Arc<dyn MemorySource>, bytes: usize) -> io::Result<Self> {
        let page = sys::page_bytes();
        let bytes = bytes.next_multiple_of(page);
        let host = source.allocate(bytes, page)?;
        Self { host, device: None, bytes, origin: Origin::Source, source: source.clone() }.shared()
    }
    /// `bytes` bytes (rounded up to pages) of the ring `descriptor`, from `offset` (`IORING_OFF_*`) on.
    pub(super) fn map(
        source: &Arc<dyn MemorySource>,
        descriptor: BorrowedFd<'_>,
        offset: u64,
        bytes: usize,
    ) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(sys::page_bytes());
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let place = source.place(bytes)?;
        // SAFETY:
        // - reserved for this, or at an address of the kernel's choice
        let mapped = unsafe { map(place, bytes, flags, descriptor.as_raw_fd(), offset.cast_signed()) };
        let (host, place) = match (mapped, place) {
            (Ok(host), place) => (host, place),
            (Err(error), None) => return Err(error),
            (Err(error), Some(place)) => {
                // SAFETY:
                // - reserved above, and nothing has it
                unsafe { source.give_back_place(place, bytes) };
                if error.raw_os_error() != Some(libc::EINVAL) {
                    return Err(error);
                }
                // The kernel maps its rings where it likes, and nowhere else (io_uring/memmap.c): for most programs where it did before.
                // SAFETY:
                // - at an address of the kernel's choice
                (unsafe { map(None, bytes, flags, descriptor.as_raw_fd(), offset.cast_signed()) }?, None)
            }
        };
        let origin = if place.is_some() { Origin::Placed } else { Origin::Mapping };
        Self { host, device: None, bytes, origin, source: source.clone() }.shared()
    }
    /// Shares the memory with the device. On an error the memory is given back.
    fn shared(mut self) -> io::Result<Self> {
        // SAFETY:
        // - the memory is whole pages, and stays until this region's drop, which unshares it first
        self.device = Some(unsafe { self.source.share(self.host, self.bytes) }?);
        Ok(self)
    }
    /// Puts other memory in the place of its own, at the same addresses: that of `other`, whole pages of the host's that nobody else has, which
    /// are moved. Its own is given back.
    ///
    /// # Errors
    /// The system's refusal, with all as it was; or the device's, which then reaches nothing there any more.
    ///
    /// # Safety
    /// `other` is a mapping of ordinary memory, of as many bytes at least, that is the caller's; what lies behind those is unmapped with it. Nothing
    /// uses what lies in the region.
    pub(super) unsafe fn replace(&mut self, other: NonNull<u8>) -> io::Result<()> {
        if let Some(device) = self.device.take() {
            // SAFETY:
            // - `shared` shared exactly this, and the device uses nothing there, by this function's contract
            unsafe { self.source.unshare(self.host, self.bytes) };
            let moved = self.take_place(other);
            // SAFETY:
            // - whole pages at these addresses, whether they were moved or not, until this region's drop
            let shared = unsafe { self.source.share(self.host, self.bytes) };
            moved?;
            return match shared {
                Ok(again) => {
                    self.device = Some(again);
                    if again == device {
                        Ok(())
                    } else {
                        Err(io::Error::other("the device sees it at another address"))
                    }
                }
                Err(error) => Err(error),
            };
        }
        self.take_place(other)
    }
    /// Gives nothing back but `rest`, some of its bytes: the others have been moved away.
    ///
    /// # Safety
    /// That is so, and nobody refers to the rest.
    pub(super) unsafe fn moved(mut self, rest: std::ops::Range<usize>) {
        self.origin = Origin::Moved;
        if !rest.is_empty() {
            // SAFETY:
            // - a part of the mapping that is still there, by this function's contract
            unsafe { libc::munmap(self.host.as_ptr().wrapping_add(rest.start).cast(), rest.len()) };
        }
        // Sharing changes nothing where memory is the host's own, and undoing it neither.
        self.device = None;
    }
    fn take_place(&self, other: NonNull<u8>) -> io::Result<()> {
        let (old, bytes) = (other.as_ptr().cast(), self.bytes);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY:
        // - both are the caller's, by the contract of `replace`
        let moved = unsafe { libc::mremap(old, bytes, bytes, flags, self.host.as_ptr()) };
        if moved == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
    /// Where the device sees it.
    pub(super) fn device(&self) -> NonNull<u8> {
        self.device.unwrap_or(self.host)
    }
    /// Bytes, whole pages.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.device.is_some() {
            // SAFETY:
            // - `shared` shared exactly this, and the device is done with a ring that is dropped (`Ring::open`)
            unsafe { self.source.unshare(self.host, self.bytes) };
        }
        match self.origin {
            // SAFETY:
            // - the memory came from this source's `allocate`, is not shared (any more), and the ring that used it is gone
            Origin::Source => unsafe { self.source.free(self.host, self.bytes) },
            // SAFETY:
            // - the mapping is this region's, and the ring that used it is gone
            Origin::Mapping => unsafe { unmap(self.host, self.bytes) },
            // SAFETY:
            // - the place came from this source, the mapping there is this region's, and the ring that used it is gone
            Origin::Placed => unsafe { self.source.give_back_place(self.host, self.bytes) },
            Origin::Moved => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Says what was asked of it, and refuses to share.
    #[derive(Debug, Default)]
    struct Refusing(Mutex<Vec<&'static str>>);

    // SAFETY:
    // - memory is `CpuMemory`'s, and none is ever shared
    unsafe impl MemorySource for Refusing {
        fn allocate(&self, bytes: usize, align: usize) -> io::Result<NonNull<u8>> {
            self.0.lock().unwrap().push("allocate");
            CpuMemory.allocate(bytes, align)
        }
        unsafe fn free(&self, memory: NonNull<u8>, bytes: usize) {
            self.0.lock().unwrap().push("free");
            // SAFETY:
            // - from `allocate`
            unsafe { CpuMemory.free(memory, bytes) };
        }
        unsafe fn share(&self, _memory: NonNull<u8>, _bytes: usize) -> io::Result<NonNull<u8>> {
            Err(io::ErrorKind::Unsupported.into())
        }
        unsafe fn unshare(&self, _memory: NonNull<u8>, _bytes: usize) {
            self.0.lock().unwrap().push("unshare");
        }
    }

    #[test]
    fn a_refused_region_is_freed_and_not_unshared() {
        let refusing = Arc::new(Refusing::default());
        let source: Arc<dyn MemorySource> = refusing.clone();
        assert_eq!(Region::allocate(&source, 1).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(*refusing.0.lock().unwrap(), ["allocate", "free"]);
        assert_eq!(Arc::strong_count(&source), 2, "the region let its source go");
    }
}
