//! Streams and descriptors: `fdopen`, `fileno`, `freopen`, `tmpfile`, `mkstemp`. Each call is a method of [`File`](gpufs_device::File) or
//! [`Fs`](gpufs_device::Fs), which describes it, as the header does.

use core::ffi::{c_char, c_int, c_void};

use gpufs_core::session::SessionTables;
use gpufs_device::Call;
use gpufs_device::file::Descriptor;

use crate::arguments::{self, counted_with, done, result, session, stream, stream_for, text, writable};

/// `fdopen(3)`: a stream, or a negated errno.
///
/// # Safety
/// `tables` is null or a session's on this device; `mode` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fdopen(
    tables: *const SessionTables,
    number: c_int,
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
    match counted_with(Call::Fdopen, checked) {
        (Ok(fs), Ok(mode)) => {
            result(fs.fdopen(Descriptor(number.cast_unsigned()), mode).map(gpufs_device::File::to_handle))
        }
        (Err(errno), _) | (_, Err(errno)) => done(Err(errno)),
    }
}

/// `fileno(3)`: a descriptor.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fileno(file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    result(unsafe { stream(file) }.and_then(gpufs_device::File::fileno).map(|descriptor| descriptor.0))
}

/// `dup(2)`: a descriptor.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_dup(tables: *const SessionTables, number: c_int) -> i64 {
    // SAFETY:
    // - this function's contract
    let made = unsafe { session(tables) }.and_then(|fs| fs.dup(Descriptor(number.cast_unsigned())));
    result(made.map(|descriptor| descriptor.0))
}

/// `dup2(2)`: a descriptor.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_dup2(
    tables: *const SessionTables,
    number: c_int,
    new: c_int,
) -> i64 {
    let [old, new] = [number, new].map(|number| Descriptor(number.cast_unsigned()));
    // SAFETY:
    // - this function's contract
    let made = unsafe { session(tables) }.and_then(|fs| fs.dup2(old, new));
    result(made.map(|descriptor| descriptor.0))
}

/// `dup3(2)`: a descriptor.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_dup3(
    tables: *const SessionTables,
    number: c_int,
    new: c_int,
    flags: c_int,
) -> i64 {
    let [old, new] = [number, new].map(|number| Descriptor(number.cast_unsigned()));
    // SAFETY:
    // - this function's contract
    let made = unsafe { session(tables) }.and_then(|fs| fs.dup3(old, new, flags.cast_unsigned()));
    result(made.map(|descriptor| descriptor.0))
}

/// `freopen(3)`: the stream, or a negated errno. Null for `path` opens the same file again.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed; the strings are null or end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_freopen(
    path: *const c_char,
    mode: *const c_char,
    file: *const c_void,
) -> i64 {
    let strings = || {
        let path = if path.is_null() {
            None
        } else {
            // SAFETY:
            // - ends with a NUL, by this function's contract
            Some(unsafe { arguments::path(path) }?)
        };
        // SAFETY:
        // - null or ends with a NUL, by this function's contract
        Ok((path, unsafe { arguments::mode(mode) }?))
    };
    let checked = (
        // SAFETY:
        // - `file` is null or a stream of an open session, by this function's contract
        unsafe { stream_for(file, Call::Freopen) },
        strings(),
    );
    match counted_with(Call::Freopen, checked) {
        (Ok(file), Ok((path, mode))) => result(file.freopen(path, mode).map(gpufs_device::File::to_handle)),
        (Err(errno), _) | (_, Err(errno)) => done(Err(errno)),
    }
}

/// `tmpfile(3)`: a stream, or a negated errno.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_tmpfile(tables: *const SessionTables) -> i64 {
    // SAFETY:
    // - this function's contract
    result(unsafe { session(tables) }.and_then(|fs| fs.tmpfile().map(gpufs_device::File::to_handle)))
}

/// `mkstemp(3)`: a descriptor.
///
/// # Safety
/// `tables` is null or a session's on this device; `template` is null or ends with a NUL, and nothing else uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_mkstemp(
    tables: *const SessionTables,
    template: *mut c_char,
) -> i64 {
    // SAFETY:
    // - null or ends with a NUL, by this function's contract
    let length = unsafe { text(template) }.map(|text| text.count_bytes() + 1);
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - so long, with its NUL, and used by nothing else, by this function's contract
        length.and_then(|length| unsafe { writable(template.cast(), length) }),
    );
    match counted_with(Call::Mkstemp, checked) {
        (Ok(fs), Ok(template)) => result(fs.mkstemp(template).map(|descriptor| descriptor.0)),
        (Err(errno), _) | (_, Err(errno)) => done(Err(errno)),
    }
}
