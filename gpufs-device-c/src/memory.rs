//! Streams on memory: `fmemopen`, `open_memstream`. The calls are methods of [`Fs`](gpufs_device::Fs) and [`File`](gpufs_device::File), which
//! describe them. What grows the memory of `open_memstream` is the header's: it knows the program's allocator.

use core::ffi::{c_char, c_void};

use gpufs_core::session::SessionTables;
use gpufs_device::Call;

use crate::arguments::{self, counted_with, done, result, session, stream_for, writable};

/// `fmemopen(3)`: a stream, or a negated errno.
///
/// # Safety
/// - `tables` is null or a session's on this device; `mode` is null or ends with a NUL.
/// - `memory` is as `Fs::fmemopen` has it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fmemopen(
    tables: *const SessionTables,
    memory: *mut c_void,
    bytes: usize,
    mode: *const c_char,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or ends with a NUL, by this function's contract
        unsafe { arguments::mode(mode) },
    );
    match counted_with(Call::Fmemopen, checked) {
        (Ok(fs), Ok(mode)) => {
            // SAFETY:
            // - this function's contract
            let opened = unsafe { fs.fmemopen(memory.cast(), bytes, mode) };
            result(opened.map(gpufs_device::File::to_handle))
        }
        (Err(errno), _) | (_, Err(errno)) => done(Err(errno)),
    }
}

/// `open_memstream(3)`: a stream, or a negated errno. `word` is a number of the caller's, an address: what `gpufs_raw_fflush` of the stream gives,
/// and `gpufs_raw_fclose` the first time.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_open_memstream(
    tables: *const SessionTables,
    word: *const c_void,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let opened = unsafe { session(tables) }.and_then(gpufs_device::Fs::open_memstream);
    let word = word.expose_provenance() as u64;
    result(opened.map(|file| {
        // SAFETY:
        // - opened just now, by `open_memstream`; the word is C's
        unsafe { file.set_memory_word(word) };
        file.to_handle()
    }))
}

/// The text of a stream on memory, with a NUL, to `into` if that has room for more than its `length`. The stream's position, at most that; or a
/// negated errno.
///
/// # Safety
/// - `file` is null or a stream of a session that is not closed.
/// - `into` is null, or `bytes` bytes that nothing else uses; `length` is null or a number that nothing else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_memory_text(
    into: *mut c_char,
    bytes: usize,
    length: *mut usize,
    file: *const c_void,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `file` is null or a stream of an open session, by this function's contract
        unsafe { stream_for(file, Call::MemoryText) },
        // SAFETY:
        // - null or `bytes` bytes that the call may fill, by this function's contract
        unsafe { writable(into.cast(), bytes) },
    );
    let text = match counted_with(Call::MemoryText, checked) {
        (Ok(file), Ok(into)) => file.memory_text(into),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    };
    // SAFETY:
    // - null or a number that nothing else uses, by this function's contract
    if let (Ok(text), Some(length)) = (text, unsafe { length.as_mut() }) {
        *length = text.bytes;
    }
    let position = |text: gpufs_device::stdio::MemoryText| text.position.min(text.bytes as u64);
    result::<u64>(text.map(position))
}
