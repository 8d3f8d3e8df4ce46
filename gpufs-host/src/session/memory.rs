//! The session's own memory for data: where it comes from, and how it is divided.
//!
//! One stretch holds, in this order, the staging pool with those of directories and of asynchronous operations, the stream buffers, what
//! outlives the device (`host_journal.rs`), the pieces of traces, and, where the device has no memory of its own, the long records.
#![expect(unsafe_code, reason = "memory that host, kernel and device share")]

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::ring::MemorySource;

/// Each part of the memory begins at a page.
const PAGE: usize = 4096;

/// How many bytes each part has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub(super) staging: usize,
    /// Entries of directories, which follow the staging memory of calls.
    pub(super) listings: usize,
    /// Staging memory of asynchronous operations, which follows that.
    pub(super) asynchronous: usize,
    pub(super) streams: usize,
    pub(super) journal: usize,
    /// Pieces of traces.
    pub(super) pieces: usize,
    pub(super) records: usize,
}

/// The session's own memory for data.
#[derive(Debug)]
pub(super) struct SessionMemory {
    address: NonNull<u8>,
    bytes: usize,
    source: Arc<dyn MemorySource>,
    /// Bytes of the staging pool, where that of directories begins.
    pub(super) staging_bytes: usize,
    /// Bytes of the latter, after which that of asynchronous operations begins.
    pub(super) listing_bytes: usize,
    /// Bytes of that, after which the stream buffers begin.
    pub(super) async_bytes: usize,
    /// Bytes of the stream buffers.
    pub(super) stream_bytes: usize,
    journal_at: usize,
    pieces_at: usize,
    records_at: usize,
    /// Whether it is memory of the GPU's runtime, which frees it when it ends.
    pub(super) is_of_runtime: bool,
    /// Something in flight may still use it: it is not given back.
    pub(super) stays: bool,
}

impl SessionMemory {
    /// Memory for these parts, from `source`, or else from the runtime's own allocator: memory that the device sees at another address than
    /// the host when it is registered may have one address when the runtime allocates it.
    pub(super) fn allocate(source: &Arc<dyn MemorySource>, parts: Parts) -> io::Result<Self> {
        let journal_at =
            (parts.staging + parts.listings + parts.asynchronous + parts.streams).next_multiple_of(PAGE);
        let pieces_at = (journal_at + parts.journal).next_multiple_of(PAGE);
        let records_at = (pieces_at + parts.pieces).next_multiple_of(PAGE);
        let bytes = records_at + parts.records;
        let allocated = allocate_shared(&**source, bytes).map(|address| (Arc::clone(source), address));
        let (from, address) = allocated.or_else(|error| {
            let runtime = source.runtime().ok_or(error)?;
            let address = allocate_shared(&*runtime, bytes)?;
            Ok::<_, io::Error>((runtime, address))
        })?;
        // SAFETY:
        // - the part lies within the allocation
        let pieces = unsafe { address.add(pieces_at) };
        // SAFETY:
        // - as above; it is nobody else's
        unsafe { pieces.write_bytes(0, parts.pieces) };
        Ok(Self {
            address,
            bytes,
            is_of_runtime: !Arc::ptr_eq(&from, source),
            source: from,
            staging_bytes: parts.staging,
            async_bytes: parts.asynchronous,
            listing_bytes: parts.listings,
            stream_bytes: parts.streams,
            journal_at,
            pieces_at,
            records_at,
            stays: false,
        })
    }

    /// The source that it came from.
    pub(super) const fn source(&self) -> &Arc<dyn MemorySource> {
        &self.source
    }
    /// Where the staging pool begins.
    pub(super) const fn staging(&self) -> NonNull<u8> {
        self.address
    }
    /// Where the pool of directories begins.
    pub(super) fn listings(&self) -> NonNull<u8> {
        self.part(self.staging_bytes)
    }
    /// Where the staging pool of asynchronous operations begins.
    pub(super) fn asynchronous(&self) -> NonNull<u8> {
        self.part(self.staging_bytes + self.listing_bytes)
    }
    /// Where the stream buffers begin.
    pub(super) fn streams(&self) -> NonNull<u8> {
        self.part(self.before_streams())
    }
    const fn before_streams(&self) -> usize {
        self.staging_bytes + self.listing_bytes + self.async_bytes
    }
    /// Where what outlives the device begins.
    pub(super) fn journal(&self) -> NonNull<u8> {
        self.part(self.journal_at)
    }
    /// Where the pieces of traces begin: zeros.
    pub(super) fn pieces(&self) -> NonNull<u8> {
        self.part(self.pieces_at)
    }
    /// Where the long records begin, if they are here.
    pub(super) fn records(&self) -> NonNull<u8> {
        self.part(self.records_at)
    }
    /// The pools, as rings register them: those before the stream buffers are one.
    pub(super) fn pools(&self) -> [(NonNull<u8>, usize); 2] {
        [(self.staging(), self.before_streams()), (self.streams(), self.stream_bytes)]
    }

    /// The address `offset` bytes in.
    fn part(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.bytes);
        // SAFETY:
        // - within the allocation or at its end, as checked
        unsafe { self.address.add(offset) }
    }
}

impl Drop for SessionMemory {
    fn drop(&mut self) {
        if !self.stays {
            // SAFETY:
            // - allocated with this source; the session is closed, with nothing in flight, or was never opened
            unsafe { free_shared(&*self.source, self.address, self.bytes) };
        }
    }
}

/// Memory that the host, the kernel and the device reach at one address.
pub(super) fn allocate_shared(source: &dyn MemorySource, bytes: usize) -> io::Result<NonNull<u8>> {
    let address = source.allocate(bytes, PAGE)?;
    // SAFETY:
    // - allocated above, and freed by `free_shared`, which undoes this first
    let shared = unsafe { source.share(address, bytes) };
    let error = match shared {
        Ok(device) if device == address => return Ok(address),
        Ok(_) => {
            // SAFETY:
            // - shared above, once; nothing has seen the address
            unsafe { source.unshare(address, bytes) };
            io::Error::other(
                "the device sees host memory at another address than the host; gpufs needs one address for both",
            )
        }
        Err(error) => error,
    };
    // SAFETY:
    // - allocated above; not shared, or not any more; nothing has seen the address
    unsafe { source.free(address, bytes) };
    Err(error)
}

/// Undoes [`allocate_shared`].
///
/// # Safety
/// The memory came from `allocate_shared` with the same source and size, and nothing uses it any more.
pub(super) unsafe fn free_shared(source: &dyn MemorySource, address: NonNull<u8>, bytes: usize) {
    // SAFETY:
    // - shared by `allocate_shared`, once; the device no longer uses it, by this function's contract
    unsafe { source.unshare(address, bytes) };
    // SAFETY:
    // - allocated by `allocate_shared`, with this size; unshared above; nothing refers to it, by this function's contract
    unsafe { source.free(address, bytes) };
}
