//! Bulk transfers between files and memory: `include/gpufs/transfer.h`.

use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use gpufs_host::transfer::{
    self, Direction, MemoryKind, Part, Rows, Transfer, TransferCount, TransferOptions, Tuning,
};

use crate::error::{Failure, guarded};
use crate::session::{Host, host};

/// `gpufs_part`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GivenPart {
    /// Of the file.
    pub descriptor: c_int,
    /// `GPUFS_MEMORY_…`.
    pub memory_kind: u32,
    /// The memory's address.
    pub memory: *mut c_void,
    /// Its length.
    pub bytes: u64,
    /// Of the first byte in the file.
    pub offset: u64,
    /// Bytes of a row, or 0.
    pub row_bytes: u64,
    /// Where each row begins.
    pub row_offsets: *const u64,
}

/// `gpufs_transfer_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GivenTransferOptions {
    /// Bytes of the caller's structure.
    pub size: usize,
    /// A stream of the GPU's runtime.
    pub stream: *mut c_void,
    /// Whether the transfer begins behind what is queued there.
    pub on_stream: u32,
    /// 0.
    pub reserved: u32,
}

/// `gpufs_transfer`.
#[derive(Debug)]
pub struct RunningTransfer(Transfer);

/// The kind that a number names; `None`: it is to be found out.
fn kind_of(number: u32) -> Result<Option<MemoryKind>, Failure> {
    match number {
        0 => Ok(None),
        1..=4 => Ok(Some(MemoryKind::ALL[number as usize - 1])),
        other => {
            let text = format!("there is no memory_kind {other}; use one of GPUFS_MEMORY_…");
            Err(Failure::new(libc::EINVAL, text))
        }
    }
}

/// A part of the caller's.
///
/// # Safety
/// Its `row_offsets`, if it has rows, are as many numbers as rows fill its memory.
unsafe fn part_of(given: &GivenPart) -> Result<Part<'_>, Failure> {
    if given.descriptor < 0 {
        return Err(Failure::new(libc::EBADF, format!("the descriptor is negative: {}", given.descriptor)));
    }
    let bytes = usize::try_from(given.bytes).unwrap_or(usize::MAX);
    let rows = match usize::try_from(given.row_bytes).unwrap_or(usize::MAX) {
        0 => None,
        _ if given.row_offsets.is_null() => {
            return Err(Failure::new(libc::EINVAL, "row_offsets is null, and row_bytes is not 0"));
        }
        row => {
            // SAFETY:
            // - not null; so many numbers, by this function's contract
            let offsets = unsafe { core::slice::from_raw_parts(given.row_offsets, bytes / row) };
            Some(Rows { bytes: row, offsets })
        }
    };
    // SAFETY:
    // - not −1, as checked above
    // - the descriptor is duplicated when the transfer starts, which fails if it is not open
    let file = unsafe { BorrowedFd::borrow_raw(given.descriptor) };
    let (address, kind) = (given.memory.expose_provenance() as u64, kind_of(given.memory_kind)?);
    Ok(Part { file, offset: given.offset, address, bytes, kind, rows })
}

/// Starts a transfer.
///
/// # Safety
/// - `pointer` is null or from `gpufs_host_open` and not closed.
/// - `parts` are `count` parts, as `part_of` wants them; `options` is null or may be read.
/// - The memory is the transfer's until it has ended, by the header's contract.
unsafe fn start(
    direction: Direction,
    pointer: *const Host,
    parts: *const GivenPart,
    count: usize,
    options: *const GivenTransferOptions,
) -> Result<Transfer, Failure> {
    if parts.is_null() && count > 0 {
        return Err(Failure::new(libc::EINVAL, "parts is null, and count is not 0"));
    }
    let mut chosen = TransferOptions::default();
    // SAFETY:
    // - null, or may be read, by this function's contract
    if let Some(options) = unsafe { options.as_ref() } {
        if options.size != size_of::<GivenTransferOptions>() || options.reserved != 0 {
            let text =
                "gpufs_transfer_options: size is not sizeof(gpufs_transfer_options), or reserved is not 0";
            return Err(Failure::new(libc::EINVAL, text));
        }
        chosen.stream = (options.on_stream != 0).then(|| options.stream.expose_provenance() as u64);
    }
    let mut asked = Vec::with_capacity(count);
    for index in 0..count {
        // SAFETY:
        // - one of `count` parts, by this function's contract
        let given = unsafe { &*parts.wrapping_add(index) };
        // SAFETY:
        // - this function's contract
        asked.push(unsafe { part_of(given) }.map_err(|failure| Failure {
            text: format!("part {index} of the transfer: {}", failure.text),
            ..failure
        })?);
    }
    if pointer.is_null() {
        // SAFETY:
        // - this function's contract
        return Ok(unsafe { transfer::start(direction, &asked, &chosen) }?);
    }
    // SAFETY:
    // - this function's contract
    let host = unsafe { host(pointer)? };
    let session = host.lock()?;
    // SAFETY:
    // - this function's contract
    Ok(unsafe { session.start_transfer(direction, &asked, &chosen) }?)
}

/// One part's transfer, to its end: its bytes.
///
/// # Safety
/// As `start`.
unsafe fn moved(direction: Direction, pointer: *const Host, part: GivenPart) -> Result<i64, Failure> {
    // SAFETY:
    // - this function's contract; the part is borrowed until the transfer has started
    let transfer = unsafe { start(direction, pointer, &raw const part, 1, core::ptr::null()) }?;
    Ok(transfer.wait()?.first().map_or(0, |bytes| i64::try_from(*bytes).unwrap_or(i64::MAX)))
}

/// Reads into memory, and waits: the bytes, or −1.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed; the memory has room for `bytes` bytes, which nothing else uses meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_read_into(
    pointer: *mut Host,
    memory: *mut c_void,
    bytes: usize,
    descriptor: c_int,
    offset: u64,
) -> i64 {
    guarded(-1, || {
        let (memory_kind, row_bytes, row_offsets) = (0, 0, core::ptr::null());
        let bytes = bytes as u64;
        let part = GivenPart { descriptor, memory_kind, memory, bytes, offset, row_bytes, row_offsets };
        // SAFETY:
        // - this function's contract
        unsafe { moved(Direction::Read, pointer, part) }
    })
}

/// Writes memory to a file, and waits: the bytes, or −1.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed; the memory has `bytes` bytes, which nothing changes meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_write_from(
    pointer: *mut Host,
    memory: *const c_void,
    bytes: usize,
    descriptor: c_int,
    offset: u64,
) -> i64 {
    guarded(-1, || {
        let (memory_kind, row_bytes, row_offsets) = (0, 0, core::ptr::null());
        let (memory, bytes) = (memory.cast_mut(), bytes as u64);
        let part = GivenPart { descriptor, memory_kind, memory, bytes, offset, row_bytes, row_offsets };
        // SAFETY:
        // - this function's contract
        unsafe { moved(Direction::Write, pointer, part) }
    })
}

/// Starts to read into memory. Null on error.
///
/// # Safety
/// - `pointer` is null or from `gpufs_host_open` and not closed.
/// - `parts` is null or `count` parts, with their rows; `options` is null or may be read.
/// - Until the transfer has ended, the parts' memory is there, and nothing else uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_start_read(
    pointer: *mut Host,
    parts: *const GivenPart,
    count: usize,
    options: *const GivenTransferOptions,
) -> *mut RunningTransfer {
    guarded(core::ptr::null_mut(), || {
        // SAFETY:
        // - this function's contract
        let transfer = unsafe { start(Direction::Read, pointer, parts, count, options) }?;
        Ok(Box::into_raw(Box::new(RunningTransfer(transfer))))
    })
}

/// Starts to write memory to files. Null on error.
///
/// # Safety
/// As `gpufs_host_start_read`, but that others may read the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_start_write(
    pointer: *mut Host,
    parts: *const GivenPart,
    count: usize,
    options: *const GivenTransferOptions,
) -> *mut RunningTransfer {
    guarded(core::ptr::null_mut(), || {
        // SAFETY:
        // - this function's contract
        let transfer = unsafe { start(Direction::Write, pointer, parts, count, options) }?;
        Ok(Box::into_raw(Box::new(RunningTransfer(transfer))))
    })
}

fn no_transfer() -> Failure {
    Failure::new(libc::EINVAL, "the transfer is null: start one with gpufs_host_start_read or _start_write")
}

/// Stores a number where there is a place for it.
///
/// # Safety
/// `into` is null or may be written.
unsafe fn store<T>(into: *mut T, value: T) {
    if !into.is_null() {
        // SAFETY:
        // - not null, and may be written, by this function's contract
        unsafe { into.write(value) };
    }
}

/// Whether a transfer has ended, after so long at most; how far it is.
///
/// # Safety
/// `transfer` is null or was started and not waited for; `done` and `total` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_transfer_poll(
    transfer: *const RunningTransfer,
    timeout_ms: u64,
    done: *mut u64,
    total: *mut u64,
) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - null, or not freed before it is waited for, by this function's contract
        let RunningTransfer(transfer) = unsafe { transfer.as_ref() }.ok_or_else(no_transfer)?;
        let ended = transfer.wait_for(Duration::from_millis(timeout_ms));
        let (so_far, all) = transfer.progress();
        // SAFETY:
        // - this function's contract
        unsafe { store(done, so_far) };
        // SAFETY:
        // - this function's contract
        unsafe { store(total, all) };
        Ok(ended.into())
    })
}

/// Waits for the end of a transfer, and frees it: its bytes, or −1.
///
/// # Safety
/// `transfer` is null or was started and not waited for; `each` is null or has room for a number for each part; `failed` is null or may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_transfer_wait(
    transfer: *mut RunningTransfer,
    each: *mut u64,
    failed: *mut usize,
) -> i64 {
    guarded(-1, || {
        if transfer.is_null() {
            return Err(no_transfer());
        }
        // SAFETY:
        // - not null; made by `Box::into_raw`, and this is its last use, by this function's contract
        let RunningTransfer(transfer) = *unsafe { Box::from_raw(transfer) };
        let bytes = transfer.wait().inspect_err(|error| {
            // SAFETY:
            // - this function's contract
            unsafe { store(failed, error.part.unwrap_or(0)) };
        })?;
        if !each.is_null() {
            // SAFETY:
            // - not null; a number for each part, by this function's contract; the numbers are this function's own
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), each, bytes.len()) };
        }
        Ok(i64::try_from(bytes.iter().sum::<u64>()).unwrap_or(i64::MAX))
    })
}

/// The kind of memory at an address, or −1.
#[unsafe(no_mangle)]
pub extern "C" fn gpufs_memory_kind(memory: *const c_void) -> c_int {
    guarded(-1, || Ok(transfer::kind_of(memory.expose_provenance() as u64)? as c_int + 1))
}

/// Sets the sizes of what transfers share. 0, or −1.
#[unsafe(no_mangle)]
pub extern "C" fn gpufs_transfer_configure(threads: u32, chunk_bytes: u64, chunks: u32) -> c_int {
    guarded(-1, || {
        let (threads, chunks) = (threads as usize, chunks as usize);
        let chunk_bytes = usize::try_from(chunk_bytes).unwrap_or(usize::MAX);
        transfer::configure(Tuning { threads, chunk_bytes, chunks }).map_err(|error| {
            let busy = error.kind() == std::io::ErrorKind::ResourceBusy;
            Failure::new(if busy { libc::EBUSY } else { libc::EINVAL }, error.to_string())
        })?;
        Ok(0)
    })
}

/// What transfers have done: of a host, or of the process. 0, or −1.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed; `into` is null or has room for 12.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_transfer_statistics(pointer: *const Host, into: *mut TransferCount) -> c_int {
    guarded(-1, || {
        if into.is_null() {
            return Err(Failure::new(libc::EINVAL, "the pointer to the gpufs_transfer_count is null"));
        }
        let found = if pointer.is_null() {
            transfer::statistics()?
        } else {
            // SAFETY:
            // - this function's contract
            unsafe { host(pointer)? }.lock()?.transfer_statistics()
        };
        let counts = found.counts.as_flattened();
        // SAFETY:
        // - not null, and room for 12, by this function's contract; the counts are this function's own
        unsafe { core::ptr::copy_nonoverlapping(counts.as_ptr(), into, counts.len()) };
        Ok(0)
    })
}
