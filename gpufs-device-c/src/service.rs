//! What the host does for kernels where io_uring has no operation. Each call is a method of [`Fs`](gpufs_device::Fs), which describes it, as the
//! headers do.

use core::ffi::{CStr, c_char, c_int, c_void};

use gpufs_core::session::SessionTables;
use gpufs_device::service::{LockCommand, RecordLock, TimeSpec, key_of};
use gpufs_device::{Call, Errno, File};

use crate::arguments::{
    self, bounded, count, counted_with, descriptor, done, fs_and_path, readable, result, session, stream_for,
    structure, writable,
};

/// Two times of `utimensat`, or none for null.
///
/// # Safety
/// Null, or two times that do not change during the call.
unsafe fn times(times: *const TimeSpec) -> Option<[TimeSpec; 2]> {
    // SAFETY:
    // - this function's contract
    unsafe { times.cast::<[TimeSpec; 2]>().as_ref() }.copied()
}

/// `readlink(2)`: bytes of the target.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL; `into` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_readlink(
    tables: *const SessionTables,
    path: *const c_char,
    into: *mut c_void,
    bytes: usize,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { fs_and_path(tables, path, Call::Readlink) };
    count(checked.and_then(|(fs, path)| {
        // SAFETY:
        // - null or `bytes` bytes that the call may fill, by this function's contract
        let (_, into) = counted_with(Call::Readlink, (Ok(fs), unsafe { writable(into, bytes) }));
        fs.readlink(path, into?)
    }))
}

/// `readlinkat(2)`: bytes of the target.
///
/// # Safety
/// As [`gpufs_raw_readlink`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_readlinkat(
    tables: *const SessionTables,
    dir: c_int,
    path: *const c_char,
    into: *mut c_void,
    bytes: usize,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { fs_and_path(tables, path, Call::Readlinkat) };
    count(checked.and_then(|(fs, path)| {
        // SAFETY:
        // - null or `bytes` bytes that the call may fill, by this function's contract
        let (_, into) = counted_with(Call::Readlinkat, (Ok(fs), unsafe { writable(into, bytes) }));
        fs.readlinkat(descriptor(dir), path, into?)
    }))
}

/// `fchmodat(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fchmodat(
    tables: *const SessionTables,
    dir: c_int,
    path: *const c_char,
    mode: u32,
    flags: c_int,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { fs_and_path(tables, path, Call::Fchmodat) };
    done(checked.and_then(|(fs, path)| fs.fchmodat(descriptor(dir), path, mode, flags.cast_unsigned())))
}

/// `F_GETFL` of `fcntl(2)`: the flags.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_getfl(tables: *const SessionTables, number: c_int) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    result(fs.and_then(|fs| fs.getfl(descriptor(number))))
}

/// `truncate(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_truncate(
    tables: *const SessionTables,
    path: *const c_char,
    length: i64,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { fs_and_path(tables, path, Call::Truncate) };
    done(checked.and_then(|(fs, path)| fs.truncate(path, length.cast_unsigned())))
}

/// `chmod(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_chmod(
    tables: *const SessionTables,
    path: *const c_char,
    mode: u32,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { fs_and_path(tables, path, Call::Chmod) };
    done(checked.and_then(|(fs, path)| fs.chmod(path, mode)))
}

/// `access(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_access(
    tables: *const SessionTables,
    path: *const c_char,
    mode: c_int,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { fs_and_path(tables, path, Call::Access) };
    done(checked.and_then(|(fs, path)| fs.access(path, mode.cast_unsigned())))
}

/// `faccessat(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_faccessat(
    tables: *const SessionTables,
    dir: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { fs_and_path(tables, path, Call::Faccessat) };
    done(checked.and_then(|(fs, path)| {
        fs.faccessat(descriptor(dir), path, mode.cast_unsigned(), flags.cast_unsigned())
    }))
}

/// `utimensat(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL; `pair` is null or two times.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_utimensat(
    tables: *const SessionTables,
    dir: c_int,
    path: *const c_char,
    pair: *const TimeSpec,
    flags: c_int,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { fs_and_path(tables, path, Call::Utimensat) };
    // SAFETY:
    // - null or two times, by this function's contract
    let pair = unsafe { times(pair) };
    done(checked.and_then(|(fs, path)| fs.utimensat(descriptor(dir), path, pair, flags.cast_unsigned())))
}

/// `fchmod(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fchmod(
    tables: *const SessionTables,
    number: c_int,
    mode: u32,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    done(fs.and_then(|fs| fs.fchmod(descriptor(number), mode)))
}

/// `futimens(3)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `pair` is null or two times.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_futimens(
    tables: *const SessionTables,
    number: c_int,
    pair: *const TimeSpec,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    // SAFETY:
    // - null or two times, by this function's contract
    let pair = unsafe { times(pair) };
    done(fs.and_then(|fs| fs.futimens(descriptor(number), pair)))
}

/// `flock(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_flock(
    tables: *const SessionTables,
    number: c_int,
    operation: c_int,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    done(fs.and_then(|fs| fs.flock(descriptor(number), operation.cast_unsigned())))
}

/// `time(2)`: seconds since 1970.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_time(tables: *const SessionTables) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    result(fs.and_then(|fs| fs.time().map(i64::cast_unsigned)))
}

/// `getcwd(3)`: bytes of the path, without the NUL.
///
/// # Safety
/// `tables` is null or a session's on this device; `into` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_getcwd(
    tables: *const SessionTables,
    into: *mut c_void,
    bytes: usize,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or what the call uses, by this function's contract
        unsafe { writable(into, bytes) },
    );
    count(match counted_with(Call::Getcwd, checked) {
        (Ok(fs), Ok(into)) => fs.getcwd(into).map(CStr::count_bytes),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// `chdir(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_chdir(tables: *const SessionTables, path: *const c_char) -> i64 {
    // SAFETY:
    // - this function's contract
    let checked = unsafe { fs_and_path(tables, path, Call::Chdir) };
    done(checked.and_then(|(fs, path)| fs.chdir(path)))
}

/// `fchdir(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fchdir(tables: *const SessionTables, number: c_int) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    done(fs.and_then(|fs| fs.fchdir(descriptor(number))))
}

/// `umask(2)`: the mask that was.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_umask(tables: *const SessionTables, mask: u32) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    result(fs.and_then(|fs| fs.umask(mask)))
}

/// `clock_gettime(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `into` is null or a structure of the call's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_clock_gettime(
    tables: *const SessionTables,
    clock: c_int,
    into: *mut TimeSpec,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or what the call uses, by this function's contract
        unsafe { structure(into) },
    );
    done(match counted_with(Call::ClockGettime, checked) {
        (Ok(fs), Ok(into)) => fs.clock_gettime(clock.cast_unsigned()).map(|time| *into = time),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// `nanosleep(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `duration` is null or a structure of the call's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_nanosleep(
    tables: *const SessionTables,
    duration: *const TimeSpec,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or what the call uses, by this function's contract
        unsafe { structure(duration.cast_mut()) },
    );
    done(match counted_with(Call::Nanosleep, checked) {
        (Ok(fs), Ok(duration)) => fs.nanosleep(*duration),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// Record locks of `fcntl(2)`: `command` is `F_GETLK` (5), `F_SETLK` (6) or `F_SETLKW` (7).
///
/// # Safety
/// `tables` is null or a session's on this device; `lock` is null or a lock that nothing else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fcntl(
    tables: *const SessionTables,
    number: c_int,
    command: c_int,
    lock: *mut RecordLock,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or a lock, by this function's contract
        unsafe { structure(lock) }.and_then(|lock| match command {
            5 => Ok((LockCommand::Find, lock)),
            6 => Ok((LockCommand::Set, lock)),
            7 => Ok((LockCommand::SetAndWait, lock)),
            _ => Err(Errno::INVAL),
        }),
    );
    done(match counted_with(Call::Fcntl, checked) {
        (Ok(fs), Ok((command, lock))) => fs.fcntl(descriptor(number), command, lock),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// `getenv(3)`: the length of the whole value.
///
/// # Safety
/// `tables` is null or a session's on this device; `name` is null or ends with a NUL; `into` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_getenv(
    tables: *const SessionTables,
    name: *const c_char,
    into: *mut c_void,
    bytes: usize,
) -> i64 {
    // SAFETY:
    // - this function's contract: a name is bounded as a path is
    let checked = unsafe { fs_and_path(tables, name, Call::Getenv) };
    count(checked.and_then(|(fs, name)| {
        // SAFETY:
        // - null or `bytes` bytes that the call may fill, by this function's contract
        let (_, into) = counted_with(Call::Getenv, (Ok(fs), unsafe { writable(into, bytes) }));
        fs.getenv(name, into?)
    }))
}

/// `popen(3)`: a stream.
///
/// # Safety
/// `tables` is null or a session's on this device; the strings are null or end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_popen(
    tables: *const SessionTables,
    command: *const c_char,
    mode: *const c_char,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or ends with a NUL, by this function's contract
        unsafe { bounded(command, arguments::PATH_BYTES) }.and_then(|command| {
            // SAFETY:
            // - null or ends with a NUL, by this function's contract
            let mode = unsafe { arguments::mode(mode) }?;
            Ok((command.ok_or(Errno::TOOBIG)?, mode))
        }),
    );
    result(match counted_with(Call::Popen, checked) {
        (Ok(fs), Ok((command, mode))) => fs.popen(command, mode).map(File::to_handle),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// `pclose(3)`: the wait status.
///
/// # Safety
/// As [`crate::stdio::gpufs_raw_fclose`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_pclose(file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    let file = unsafe { stream_for(file, Call::Pclose) };
    result(file.and_then(|file| file.fs().pclose(file)).map(i32::cast_unsigned))
}

/// A function of the program, by its name.
///
/// # Safety
/// `tables` is null or a session's on this device; `name` is null or ends with a NUL; `request` holds `request_bytes` bytes, and `reply` has
/// room for `reply_bytes`, or are null.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_call(
    tables: *const SessionTables,
    name: *const c_char,
    request: *const c_void,
    request_bytes: usize,
    reply: *mut c_void,
    reply_bytes: usize,
) -> i64 {
    // SAFETY:
    // - this function's contract: a name is bounded as a path is
    let checked = unsafe { fs_and_path(tables, name, Call::Service) };
    done(checked.and_then(|(fs, name)| {
        // SAFETY:
        // - null or `request_bytes` bytes that stay as they are, by this function's contract
        let request = unsafe { readable(request, request_bytes) };
        // SAFETY:
        // - null or `reply_bytes` bytes that the call may fill, by this function's contract
        let reply = unsafe { writable(reply, reply_bytes) };
        let memory = request.and_then(|request| Ok((request, reply?)));
        let (_, memory) = counted_with(Call::Service, (Ok(fs), memory));
        let (request, reply) = memory?;
        fs.call_by_key(key_of(name.to_bytes()), request, reply)
    }))
}
