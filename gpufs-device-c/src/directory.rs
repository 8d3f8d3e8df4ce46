//! Directories. Each call is a method of [`Fs`](gpufs_device::Fs), which describes it, as the headers do.

use core::ffi::{c_char, c_int};

use gpufs_core::session::SessionTables;
use gpufs_device::Call;
use gpufs_device::service::{Directory, Dirent};

use crate::arguments::{counted_with, descriptor, done, fs_and_path, result, session, structure};

/// `opendir(3)`: a descriptor.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_opendir(tables: *const SessionTables, path: *const c_char) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { fs_and_path(tables, path, Call::Opendir) };
    result(checked.and_then(|(fs, path)| fs.opendir(path).map(|Directory(opened)| opened.0)))
}

/// `rewinddir(3)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_rewinddir(tables: *const SessionTables, number: c_int) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    done(fs.and_then(|fs| fs.rewinddir(Directory(descriptor(number)))))
}

/// `telldir(3)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_telldir(tables: *const SessionTables, number: c_int) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    result(fs.and_then(|fs| fs.telldir(Directory(descriptor(number))).map(i64::cast_unsigned)))
}

/// `seekdir(3)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_seekdir(
    tables: *const SessionTables,
    number: c_int,
    position: i64,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    done(fs.and_then(|fs| fs.seekdir(Directory(descriptor(number)), position)))
}

/// `closedir(3)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_closedir(tables: *const SessionTables, number: c_int) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    done(fs.and_then(|fs| fs.closedir(Directory(descriptor(number)))))
}

/// `readdir(3)`: 1 with an entry, 0 at the end.
///
/// # Safety
/// `tables` is null or a session's on this device; `into` is null or a structure of the call's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_readdir(
    tables: *const SessionTables,
    number: c_int,
    into: *mut Dirent,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or what the call uses, by this function's contract
        unsafe { structure(into) },
    );
    result(match counted_with(Call::Readdir, checked) {
        (Ok(fs), Ok(into)) => fs.readdir(Directory(descriptor(number)), into),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}
