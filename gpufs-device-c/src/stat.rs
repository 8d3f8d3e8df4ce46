//! Metadata, and ranges of files (section 2 of the manual). Each call is a method of [`Fs`], which describes it, as the
//! header does.

use core::ffi::{CStr, c_char, c_int};

use gpufs_core::session::SessionTables;
use gpufs_device::file::{Stat, Statx};
use gpufs_device::{Call, Errno, Fs};

use crate::arguments::{counted_with, descriptor, done, offset, session};
use crate::paths::on_path;

/// Puts what a call of the `stat` family gave where C wants it. The memory is looked at before the call is made.
///
/// # Errors
/// `EINVAL` for a null session, `EFAULT` for null memory, and the call's.
///
/// # Safety
/// `tables` is null or a session's on this device; `into` is null or room for a `T`.
unsafe fn fill<T>(
    call: Call,
    tables: *const SessionTables,
    into: *mut T,
    body: impl FnOnce(Fs) -> Result<T, Errno>,
) -> i64 {
    // SAFETY:
    // - `tables` is null or a session's, by this function's contract
    let fs = unsafe { session(tables) };
    let room = if into.is_null() { Err(Errno::FAULT) } else { Ok(()) };
    let (fs, room) = counted_with(call, (fs, room));
    done(fs.and_then(|fs| room.and_then(|()| body(fs))).map(|value| {
        // SAFETY:
        // - not null, and room for a `T`, by this function's contract
        unsafe { into.write(value) };
    }))
}

/// As [`fill`], of a call on a path.
///
/// # Errors
/// As [`fill`] and [`on_path`].
///
/// # Safety
/// As [`fill`]; `path` is null or ends with a NUL.
unsafe fn fill_of_path<T>(
    call: Call,
    tables: *const SessionTables,
    path: *const c_char,
    into: *mut T,
    body: impl FnOnce(Fs, &CStr) -> Result<T, Errno>,
) -> i64 {
    let of_path = |_| {
        // SAFETY:
        // - this function's contract
        unsafe { on_path(call, tables, path, body) }
    };
    // SAFETY:
    // - this function's contract
    unsafe { fill(call, tables, into, of_path) }
}

/// `stat(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL; `into` is null or room for the result.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_stat(
    tables: *const SessionTables,
    path: *const c_char,
    into: *mut Stat,
) -> i64 {
    // SAFETY:
    // - this function's contract
    unsafe { fill_of_path(Call::Stat, tables, path, into, |fs, path| fs.stat(path)) }
}

/// `lstat(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL; `into` is null or room for the result.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_lstat(
    tables: *const SessionTables,
    path: *const c_char,
    into: *mut Stat,
) -> i64 {
    // SAFETY:
    // - this function's contract
    unsafe { fill_of_path(Call::Lstat, tables, path, into, |fs, path| fs.lstat(path)) }
}

/// `fstat(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `into` is null or room for the result.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fstat(
    tables: *const SessionTables,
    number: c_int,
    into: *mut Stat,
) -> i64 {
    // SAFETY:
    // - this function's contract
    unsafe { fill(Call::Fstat, tables, into, |fs| fs.fstat(descriptor(number))) }
}

/// `fstatat(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL; `into` is null or room for the result.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fstatat(
    tables: *const SessionTables,
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    into: *mut Stat,
) -> i64 {
    // SAFETY:
    // - this function's contract
    unsafe {
        fill_of_path(Call::Fstatat, tables, path, into, |fs, path| {
            fs.fstatat(descriptor(dir), path, flags.cast_unsigned())
        })
    }
}

/// `statx(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL; `into` is null or room for the result.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_statx(
    tables: *const SessionTables,
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mask: u32,
    into: *mut Statx,
) -> i64 {
    // SAFETY:
    // - this function's contract
    unsafe {
        fill_of_path(Call::Statx, tables, path, into, |fs, path| {
            fs.statx(descriptor(dir), path, flags.cast_unsigned(), mask)
        })
    }
}

/// `fallocate(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fallocate(
    tables: *const SessionTables,
    number: c_int,
    mode: c_int,
    at: i64,
    length: i64,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    done(
        fs.and_then(|fs| {
            fs.fallocate(descriptor(number), mode.cast_unsigned(), offset(at)?, offset(length)?)
        }),
    )
}

/// `posix_fadvise(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_posix_fadvise(
    tables: *const SessionTables,
    number: c_int,
    at: i64,
    length: i64,
    advice: c_int,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    done(fs.and_then(|fs| {
        fs.posix_fadvise(descriptor(number), offset(at)?, offset(length)?, advice.cast_unsigned())
    }))
}

/// `sync_file_range(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_sync_file_range(
    tables: *const SessionTables,
    number: c_int,
    at: i64,
    length: i64,
    flags: u32,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    done(fs.and_then(|fs| fs.sync_file_range(descriptor(number), offset(at)?, offset(length)?, flags)))
}
