//! `gpufs_statistics` and `gpufs_failure`: what a session has done, and which calls failed.

use std::ffi::{c_char, c_int};

use gpufs_host::session::RingStatistics;

use crate::error::{Failure, guarded};
use crate::options::number_of;
use crate::session::{Host, host};

/// `gpufs_statistics`. Begins with its size as the caller's header has it, so that it can grow.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Statistics {
    /// Bytes of the caller's structure.
    pub size: usize,
    /// Rings.
    pub rings: u32,
    /// `GPUFS_MODE_…`: what serves them.
    pub mode: u32,
    /// The counters, summed over all rings: fields of the C structure themselves.
    pub total: RingStatistics,
    /// Calls that failed; `UINT64_MAX` where it is not known.
    pub failed_calls: u64,
    /// Threads that looked for a page of a mapped file, and found it.
    pub cache_hits: u64,
    /// Pages that were read.
    pub cache_misses: u64,
    /// Pages that went to make room.
    pub cache_evictions: u64,
    /// Pages that kernels wrote.
    pub cache_write_backs: u64,
    /// Times that a thread found a page on its way, or no room.
    pub cache_waits: u64,
}

/// `gpufs_failure`: how often a call failed with an error.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FailureKind {
    /// The call's name; a constant.
    pub call: *const c_char,
    /// The error number; 0 for one that Linux does not have.
    pub error: i32,
    /// 0.
    pub reserved: u32,
    /// How often.
    pub count: u64,
}

/// Copies what the session has done so far.
///
/// # Safety
/// - `pointer` is null or from `gpufs_host_open` and not closed.
/// - `into` is null, or is aligned and begins with a `size_t`, the number of its bytes that may be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_statistics(pointer: *const Host, into: *mut Statistics) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        if into.is_null() {
            return Err(Failure::new(libc::EINVAL, "the pointer to the gpufs_statistics is null"));
        }
        // SAFETY:
        // - not null, as checked above
        // - aligned, and its first field may be read, by this function's contract
        let size = unsafe { (*into).size };
        if size < size_of::<usize>() {
            let text = format!("gpufs_statistics: size is {size}, not sizeof(gpufs_statistics)");
            return Err(Failure::new(libc::EINVAL, text));
        }
        let session = host.lock()?;
        let all = session.statistics();
        let cache = session.cache_statistics();
        let found = Statistics {
            size,
            rings: u32::try_from(all.rings.len()).unwrap_or(u32::MAX),
            mode: number_of(session.mode()),
            total: all.total(),
            failed_calls: all
                .failures
                .map_or(u64::MAX, |failures| failures.iter().map(|failure| failure.count).sum()),
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            cache_evictions: cache.evictions,
            cache_write_backs: cache.write_backs,
            cache_waits: cache.waits,
        };
        // SAFETY:
        // - `into` has `size` bytes, by this function's contract, and `found` all of its own: the shorter one's are copied
        // - `found` is this function's own, so that they do not overlap
        unsafe {
            core::ptr::copy_nonoverlapping(
                (&raw const found).cast::<u8>(),
                into.cast::<u8>(),
                size.min(size_of::<Statistics>()),
            );
        }
        Ok(0)
    })
}

/// Copies the first `room` kinds of failure. The number of kinds that there are.
///
/// # Safety
/// - `pointer` is null or from `gpufs_host_open` and not closed.
/// - `into` is null, or is aligned and has room for `room` kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_failures(
    pointer: *const Host,
    into: *mut FailureKind,
    room: usize,
) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        let failures = host.lock()?.statistics().failures.ok_or_else(|| {
            let text = "the counts of failed calls are lost: they were in the memory of the GPU, which died";
            Failure::new(libc::ENODATA, text)
        })?;
        let room = if into.is_null() { 0 } else { room };
        for (index, failure) in failures.iter().take(room).enumerate() {
            let kind = FailureKind {
                call: failure.call.c_name().as_ptr(),
                error: failure.errno.map_or(0, gpufs_device::Errno::number),
                reserved: 0,
                count: failure.count,
            };
            // SAFETY:
            // - not null: else there is no room
            // - `index` is below `room`, and as many kinds fit, by this function's contract
            let place = unsafe { into.add(index) };
            // SAFETY:
            // - aligned, and within the caller's array, by this function's contract
            unsafe { place.write(kind) };
        }
        Ok(c_int::try_from(failures.len()).unwrap_or(c_int::MAX))
    })
}
