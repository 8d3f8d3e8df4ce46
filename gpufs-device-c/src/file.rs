//! Descriptors (section 2 of the manual). Each call is a method of [`Fs`](gpufs_device::Fs), which describes it, as the header does.

use core::ffi::{c_char, c_int, c_void};

use gpufs_core::session::SessionTables;
use gpufs_device::file::{IOV_MAX, IoSlice, IoSliceMut};
use gpufs_device::{Call, Errno};

use crate::arguments::{
    self, count, counted_with, descriptor, done, offset, readable, result, session, whence, writable,
};

/// `open(2)`: a descriptor.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_open(
    tables: *const SessionTables,
    path: *const c_char,
    flags: c_int,
    mode: u32,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or ends with a NUL, by this function's contract
        unsafe { arguments::path(path) },
    );
    match counted_with(Call::Open, checked) {
        (Ok(fs), Ok(path)) => {
            result(fs.open(path, flags.cast_unsigned(), mode).map(|descriptor| descriptor.0))
        }
        (Err(errno), _) | (_, Err(errno)) => done(Err(errno)),
    }
}

/// `close(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_close(tables: *const SessionTables, number: c_int) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    done(fs.and_then(|fs| fs.close(descriptor(number))))
}

/// `read(2)`: bytes read.
///
/// # Safety
/// `tables` is null or a session's on this device; `into` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_read(
    tables: *const SessionTables,
    number: c_int,
    into: *mut c_void,
    bytes: usize,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or `bytes` bytes that the call may fill, by this function's contract
        unsafe { writable(into, bytes) },
    );
    count(match counted_with(Call::Read, checked) {
        (Ok(fs), Ok(into)) => fs.read(descriptor(number), into),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// `write(2)`: bytes written.
///
/// # Safety
/// `tables` is null or a session's on this device; `from` is null or holds `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_write(
    tables: *const SessionTables,
    number: c_int,
    from: *const c_void,
    bytes: usize,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or `bytes` bytes that the call may read, by this function's contract
        unsafe { readable(from, bytes) },
    );
    count(match counted_with(Call::Write, checked) {
        (Ok(fs), Ok(from)) => fs.write(descriptor(number), from),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// `pread(2)`: bytes read.
///
/// # Safety
/// As [`gpufs_raw_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_pread(
    tables: *const SessionTables,
    number: c_int,
    into: *mut c_void,
    bytes: usize,
    at: i64,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or `bytes` bytes that the call may fill, by this function's contract
        unsafe { writable(into, bytes) },
    );
    count(match counted_with(Call::Pread, checked) {
        (Ok(fs), Ok(into)) => offset(at).and_then(|at| fs.pread(descriptor(number), into, at)),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// `pwrite(2)`: bytes written.
///
/// # Safety
/// As [`gpufs_raw_write`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_pwrite(
    tables: *const SessionTables,
    number: c_int,
    from: *const c_void,
    bytes: usize,
    at: i64,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or `bytes` bytes that the call may read, by this function's contract
        unsafe { readable(from, bytes) },
    );
    count(match counted_with(Call::Pwrite, checked) {
        (Ok(fs), Ok(from)) => offset(at).and_then(|at| fs.pwrite(descriptor(number), from, at)),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// `lseek(2)`: the position.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_lseek(
    tables: *const SessionTables,
    number: c_int,
    distance: i64,
    from: c_int,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    result(fs.and_then(|fs| fs.lseek(descriptor(number), distance, fs.counted(Call::Lseek, whence(from))?)))
}

/// `fsync(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fsync(tables: *const SessionTables, number: c_int) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    done(fs.and_then(|fs| fs.fsync(descriptor(number))))
}

/// `fdatasync(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fdatasync(tables: *const SessionTables, number: c_int) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    done(fs.and_then(|fs| fs.fdatasync(descriptor(number))))
}

/// `ftruncate(2)`.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_ftruncate(
    tables: *const SessionTables,
    number: c_int,
    length: i64,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    done(fs.and_then(|fs| {
        let length = offset(length)?;
        fs.ftruncate(descriptor(number), length)
    }))
}

/// The vectors of a call, which have the layout of `struct iovec`.
///
/// # Errors
/// `EINVAL` for a negative count, one above [`IOV_MAX`], and a length that no object has; `EFAULT` for null.
///
/// # Safety
/// Null, or `count` vectors whose memory the call may use as `T` says.
unsafe fn vectors<'a, T>(
    vectors: *const c_void,
    count: c_int,
    parts: impl Fn(&T) -> (*const u8, usize),
) -> Result<&'a [T], Errno> {
    let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
    if count > IOV_MAX {
        return Err(Errno::INVAL);
    }
    if count == 0 {
        return Ok(&[]);
    }
    if vectors.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY:
    // - not null, and `count` of them, which do not change, by this function's contract
    let all: &[T] = unsafe { core::slice::from_raw_parts(vectors.cast(), count) };
    // Ends: at `count`.
    for vector in all {
        let (base, bytes) = parts(vector);
        arguments::check(base.cast(), bytes)?;
    }
    Ok(all)
}

/// Vectors that a call reads.
///
/// # Errors
/// As [`vectors`].
///
/// # Safety
/// Null, or `count` vectors, each null without bytes or memory that may be read and does not change.
pub(crate) unsafe fn sources<'a>(array: *const c_void, count: c_int) -> Result<&'a [IoSlice<'a>], Errno> {
    // SAFETY:
    // - this function's contract
    unsafe { vectors(array, count, IoSlice::parts) }
}

/// Vectors that a call fills.
///
/// # Errors
/// As [`vectors`].
///
/// # Safety
/// Null, or `count` vectors, each null without bytes or memory that nothing else uses.
pub(crate) unsafe fn targets<'a>(
    array: *const c_void,
    count: c_int,
) -> Result<&'a mut [IoSliceMut<'a>], Errno> {
    // SAFETY:
    // - this function's contract
    let all: &[IoSliceMut<'a>] = unsafe {
        vectors(array, count, |vector: &IoSliceMut<'_>| {
            let (base, bytes) = vector.parts();
            (base.cast_const(), bytes)
        })
    }?;
    // SAFETY:
    // - the caller's vectors, which nothing else uses during the call; the calls change none of them
    Ok(unsafe { core::slice::from_raw_parts_mut(all.as_ptr().cast_mut(), all.len()) })
}

/// The offset of `preadv2` and `pwritev2`: −1 is the position.
fn offset_or_position(at: i64) -> Result<Option<u64>, Errno> {
    if at == -1 { Ok(None) } else { offset(at).map(Some) }
}

/// `readv(2)`: bytes read.
///
/// # Safety
/// - `tables` is null or a session's on this device.
/// - `into` is null or `count` vectors, each null without bytes or memory with room for its bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_readv(
    tables: *const SessionTables,
    number: c_int,
    into: *const c_void,
    vectors_given: c_int,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or as many vectors, by this function's contract
        unsafe { targets(into, vectors_given) },
    );
    count(match counted_with(Call::Readv, checked) {
        (Ok(fs), Ok(into)) => fs.readv(descriptor(number), into),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// `writev(2)`: bytes written.
///
/// # Safety
/// - `tables` is null or a session's on this device.
/// - `from` is null or `count` vectors, each null without bytes or memory that holds its bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_writev(
    tables: *const SessionTables,
    number: c_int,
    from: *const c_void,
    vectors_given: c_int,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or as many vectors, by this function's contract
        unsafe { sources(from, vectors_given) },
    );
    count(match counted_with(Call::Writev, checked) {
        (Ok(fs), Ok(from)) => fs.writev(descriptor(number), from),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// `preadv(2)`: bytes read.
///
/// # Safety
/// As [`gpufs_raw_readv`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_preadv(
    tables: *const SessionTables,
    number: c_int,
    into: *const c_void,
    vectors_given: c_int,
    at: i64,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or as many vectors, by this function's contract
        unsafe { targets(into, vectors_given) },
    );
    count(match counted_with(Call::Preadv, checked) {
        (Ok(fs), Ok(into)) => offset(at).and_then(|at| fs.preadv(descriptor(number), into, at)),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// `pwritev(2)`: bytes written.
///
/// # Safety
/// As [`gpufs_raw_writev`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_pwritev(
    tables: *const SessionTables,
    number: c_int,
    from: *const c_void,
    vectors_given: c_int,
    at: i64,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or as many vectors, by this function's contract
        unsafe { sources(from, vectors_given) },
    );
    count(match counted_with(Call::Pwritev, checked) {
        (Ok(fs), Ok(from)) => offset(at).and_then(|at| fs.pwritev(descriptor(number), from, at)),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// `preadv2(2)`: bytes read; `at` −1 is the position.
///
/// # Safety
/// As [`gpufs_raw_readv`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_preadv2(
    tables: *const SessionTables,
    number: c_int,
    into: *const c_void,
    vectors_given: c_int,
    at: i64,
    flags: c_int,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or as many vectors, by this function's contract
        unsafe { targets(into, vectors_given) },
    );
    count(match counted_with(Call::Preadv2, checked) {
        (Ok(fs), Ok(into)) => {
            let flags = flags.cast_unsigned();
            offset_or_position(at).and_then(|at| fs.preadv2(descriptor(number), into, at, flags))
        }
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// `pwritev2(2)`: bytes written; `at` −1 is the position.
///
/// # Safety
/// As [`gpufs_raw_writev`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_pwritev2(
    tables: *const SessionTables,
    number: c_int,
    from: *const c_void,
    vectors_given: c_int,
    at: i64,
    flags: c_int,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or as many vectors, by this function's contract
        unsafe { sources(from, vectors_given) },
    );
    count(match counted_with(Call::Pwritev2, checked) {
        (Ok(fs), Ok(from)) => {
            let flags = flags.cast_unsigned();
            offset_or_position(at).and_then(|at| fs.pwritev2(descriptor(number), from, at, flags))
        }
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}
