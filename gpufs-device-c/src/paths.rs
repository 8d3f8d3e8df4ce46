//! Calls on paths (section 2 of the manual). Each call is a method of [`Fs`], which describes it, as the header does. What paths name is in `stat`.

use core::ffi::{CStr, c_char, c_int};

use gpufs_core::session::SessionTables;
use gpufs_device::{Call, Errno, Fs};

use crate::arguments::{self, counted_with, descriptor, done, result, session};

/// A call on one path.
///
/// # Errors
/// `EINVAL` for a null session, `EFAULT` and `ENAMETOOLONG` as [`arguments::path`], and the call's.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` as for [`arguments::path`].
pub(crate) unsafe fn on_path<T>(
    call: Call,
    tables: *const SessionTables,
    path: *const c_char,
    body: impl FnOnce(Fs, &CStr) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or ends with a NUL, by this function's contract
        unsafe { arguments::path(path) },
    );
    let (fs, path) = counted_with(call, checked);
    body(fs?, path?)
}

/// A call on two paths.
///
/// # Errors
/// As [`on_path`].
///
/// # Safety
/// As [`on_path`], for each path.
unsafe fn on_two_paths(
    call: Call,
    tables: *const SessionTables,
    (first, second): (*const c_char, *const c_char),
    body: impl FnOnce(Fs, &CStr, &CStr) -> Result<(), Errno>,
) -> i64 {
    let both = |fs, first: &CStr| {
        // SAFETY:
        // - null or ends with a NUL, by this function's contract
        let second = unsafe { arguments::path(second) };
        let (fs, second) = counted_with(call, (Ok(fs), second));
        body(fs?, first, second?)
    };
    // SAFETY:
    // - this function's contract
    let outcome = unsafe { on_path(call, tables, first, both) };
    done(outcome)
}

/// `openat(2)`: a descriptor`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_openat(
    tables: *const SessionTables,
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mode: u32,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let outcome = unsafe {
        on_path(Call::Openat, tables, path, |fs, path| {
            fs.openat(descriptor(dir), path, flags.cast_unsigned(), mode)
        })
    };
    result(outcome.map(|descriptor| descriptor.0))
}

/// `creat(2)`: a descriptor`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_creat(
    tables: *const SessionTables,
    path: *const c_char,
    mode: u32,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let outcome = unsafe { on_path(Call::Creat, tables, path, |fs, path| fs.creat(path, mode)) };
    result(outcome.map(|descriptor| descriptor.0))
}

/// `unlink(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_unlink(tables: *const SessionTables, path: *const c_char) -> i64 {
    // SAFETY:
    // - this function's contract
    let outcome = unsafe { on_path(Call::Unlink, tables, path, |fs, path| fs.unlink(path)) };
    done(outcome)
}

/// `unlinkat(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_unlinkat(
    tables: *const SessionTables,
    dir: c_int,
    path: *const c_char,
    flags: c_int,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let outcome = unsafe {
        on_path(Call::Unlinkat, tables, path, |fs, path| {
            fs.unlinkat(descriptor(dir), path, flags.cast_unsigned())
        })
    };
    done(outcome)
}

/// `rmdir(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_rmdir(tables: *const SessionTables, path: *const c_char) -> i64 {
    // SAFETY:
    // - this function's contract
    let outcome = unsafe { on_path(Call::Rmdir, tables, path, |fs, path| fs.rmdir(path)) };
    done(outcome)
}

/// `remove(3)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_remove(tables: *const SessionTables, path: *const c_char) -> i64 {
    // SAFETY:
    // - this function's contract
    let outcome = unsafe { on_path(Call::Remove, tables, path, |fs, path| fs.remove(path)) };
    done(outcome)
}

/// `mkdir(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_mkdir(
    tables: *const SessionTables,
    path: *const c_char,
    mode: u32,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let outcome = unsafe { on_path(Call::Mkdir, tables, path, |fs, path| fs.mkdir(path, mode)) };
    done(outcome)
}

/// `mkdirat(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_mkdirat(
    tables: *const SessionTables,
    dir: c_int,
    path: *const c_char,
    mode: u32,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let outcome =
        unsafe { on_path(Call::Mkdirat, tables, path, |fs, path| fs.mkdirat(descriptor(dir), path, mode)) };
    done(outcome)
}

/// `rename(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; each path is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_rename(
    tables: *const SessionTables,
    old: *const c_char,
    new: *const c_char,
) -> i64 {
    // SAFETY:
    // - this function's contract
    unsafe { on_two_paths(Call::Rename, tables, (old, new), |fs, old, new| fs.rename(old, new)) }
}

/// `renameat(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; each path is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_renameat(
    tables: *const SessionTables,
    old_dir: c_int,
    old: *const c_char,
    new_dir: c_int,
    new: *const c_char,
) -> i64 {
    // SAFETY:
    // - this function's contract
    unsafe {
        on_two_paths(Call::Renameat, tables, (old, new), |fs, old, new| {
            fs.renameat(descriptor(old_dir), old, descriptor(new_dir), new)
        })
    }
}

/// `renameat2(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; each path is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_renameat2(
    tables: *const SessionTables,
    old_dir: c_int,
    old: *const c_char,
    new_dir: c_int,
    new: *const c_char,
    flags: u32,
) -> i64 {
    // SAFETY:
    // - this function's contract
    unsafe {
        on_two_paths(Call::Renameat2, tables, (old, new), |fs, old, new| {
            fs.renameat2(descriptor(old_dir), old, descriptor(new_dir), new, flags)
        })
    }
}

/// `link(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; each path is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_link(
    tables: *const SessionTables,
    old: *const c_char,
    new: *const c_char,
) -> i64 {
    // SAFETY:
    // - this function's contract
    unsafe { on_two_paths(Call::Link, tables, (old, new), |fs, old, new| fs.link(old, new)) }
}

/// `linkat(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; each path is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_linkat(
    tables: *const SessionTables,
    old_dir: c_int,
    old: *const c_char,
    new_dir: c_int,
    new: *const c_char,
    flags: c_int,
) -> i64 {
    // SAFETY:
    // - this function's contract
    unsafe {
        on_two_paths(Call::Linkat, tables, (old, new), |fs, old, new| {
            fs.linkat(descriptor(old_dir), old, descriptor(new_dir), new, flags.cast_unsigned())
        })
    }
}

/// `symlink(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; each path is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_symlink(
    tables: *const SessionTables,
    target: *const c_char,
    path: *const c_char,
) -> i64 {
    // SAFETY:
    // - this function's contract
    unsafe {
        on_two_paths(Call::Symlink, tables, (target, path), |fs, target, path| fs.symlink(target, path))
    }
}

/// `symlinkat(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; each path is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_symlinkat(
    tables: *const SessionTables,
    target: *const c_char,
    dir: c_int,
    path: *const c_char,
) -> i64 {
    // SAFETY:
    // - this function's contract
    unsafe {
        on_two_paths(Call::Symlinkat, tables, (target, path), |fs, target, path| {
            fs.symlinkat(target, descriptor(dir), path)
        })
    }
}
