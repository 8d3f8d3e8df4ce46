//! Pipes and counters from C. Each call is a method of [`Fs`], which describes it, as the header does.

use core::ffi::{c_int, c_uint};

use gpufs_core::session::SessionTables;
use gpufs_device::file::Descriptor;
use gpufs_device::{Call, Errno, Fs};

use crate::arguments::{count, counted_with, descriptor, done, result, session};

/// What makes two descriptors, to `into`.
///
/// # Safety
/// `tables` is null or a session's on this device; `into` is null or two numbers that nothing else uses.
unsafe fn two(
    tables: *const SessionTables,
    call: Call,
    into: *mut c_int,
    make: impl FnOnce(Fs) -> Result<[Descriptor; 2], Errno>,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let into = unsafe { into.cast::<[c_int; 2]>().as_mut() };
    // SAFETY:
    // - by this function's contract
    let (fs, into) = counted_with(call, (unsafe { session(tables) }, into.ok_or(Errno::FAULT)));
    done(fs.and_then(|fs| {
        let into = into?;
        *into = make(fs)?.map(|end| end.0.cast_signed());
        Ok(())
    }))
}

/// `pipe(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `into` is null or two numbers that nothing else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_pipe(tables: *const SessionTables, into: *mut c_int) -> i64 {
    // SAFETY:
    // - by this function's contract
    unsafe { two(tables, Call::Pipe, into, Fs::pipe) }
}

/// `pipe2(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `into` is null or two numbers that nothing else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_pipe2(
    tables: *const SessionTables,
    into: *mut c_int,
    flags: c_int,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    unsafe { two(tables, Call::Pipe2, into, |fs| fs.pipe2(flags.cast_unsigned())) }
}

/// `eventfd(2)`: a descriptor.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_eventfd(
    tables: *const SessionTables,
    initial: c_uint,
    flags: c_int,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let fs = unsafe { session(tables) };
    result(fs.and_then(|fs| fs.eventfd(initial, flags.cast_unsigned()).map(|made| made.0)))
}

/// `splice(2)`: bytes moved. An offset that is not null moves by them.
///
/// # Safety
/// `tables` is null or a session's on this device; each offset is null or a number that nothing else uses, the other offset neither.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_splice(
    tables: *const SessionTables,
    from: c_int,
    from_offset: *mut i64,
    to: c_int,
    to_offset: *mut i64,
    bytes: usize,
    flags: c_uint,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let from_offset = unsafe { from_offset.cast::<u64>().as_mut() };
    // SAFETY:
    // - by this function's contract
    let to_offset = unsafe { to_offset.cast::<u64>().as_mut() };
    // SAFETY:
    // - by this function's contract
    let fs = unsafe { session(tables) };
    count(fs.and_then(|fs| fs.splice(descriptor(from), from_offset, descriptor(to), to_offset, bytes, flags)))
}

/// `tee(2)`: bytes copied.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_tee(
    tables: *const SessionTables,
    from: c_int,
    to: c_int,
    bytes: usize,
    flags: c_uint,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let fs = unsafe { session(tables) };
    count(fs.and_then(|fs| fs.tee(descriptor(from), descriptor(to), bytes, flags)))
}
