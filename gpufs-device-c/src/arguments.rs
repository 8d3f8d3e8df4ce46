//! What every call does with C's arguments and results: numbers become types, null and unended memory become errors.

use core::ffi::{CStr, c_char, c_int, c_void};

use gpufs_core::session::SessionTables;
use gpufs_device::file::{AT_FDCWD, Descriptor};
use gpufs_device::stdio::Whence;
use gpufs_device::{Call, Errno, File, Fs};

/// The number that C gets: a value, or a negated errno.
pub(crate) fn result<T: Into<u64>>(outcome: Result<T, Errno>) -> i64 {
    match outcome {
        // A stream's handle has its highest bit set, but is no number from −4095 to −1; every other value is below 2⁶³.
        Ok(value) => value.into().cast_signed(),
        Err(errno) => -i64::from(errno.number()),
    }
}

/// The result of a call that has no value.
pub(crate) fn done(outcome: Result<(), Errno>) -> i64 {
    result(outcome.map(|()| 0_u64))
}

/// The result of a call that counts bytes.
pub(crate) fn count(outcome: Result<usize, Errno>) -> i64 {
    result(outcome.map(|bytes| bytes as u64))
}

/// The session of a kernel's argument.
///
/// # Errors
/// `EINVAL` for null.
///
/// # Safety
/// `tables` is null, or the tables on this device of a session that is not closed while the result is used.
pub(crate) unsafe fn session(tables: *const SessionTables) -> Result<Fs, Errno> {
    // SAFETY:
    // - null, or aligned, initialized and not freed while the result is used, by this function's contract
    // - nothing borrows tables mutably
    let tables = unsafe { tables.as_ref() }.ok_or(Errno::INVAL)?;
    // SAFETY:
    // - a session's, by this function's contract
    Ok(unsafe { Fs::new(tables) })
}

/// The stream of a handle.
///
/// # Errors
/// `EBADF` for null, a word that is not a handle, and a closed stream.
///
/// # Safety
/// As [`File::from_handle`].
pub(crate) unsafe fn stream(file: *const c_void) -> Result<File, Errno> {
    // SAFETY:
    // - this function's contract
    unsafe { File::from_handle(file.expose_provenance() as u64) }
}

/// [`stream`], which also counts the failure for the session of a closed stream.
///
/// # Errors
/// As [`stream`].
///
/// # Safety
/// As [`stream`].
pub(crate) unsafe fn stream_for(file: *const c_void, call: Call) -> Result<File, Errno> {
    // SAFETY:
    // - this function's contract
    unsafe { File::from_handle_in(file.expose_provenance() as u64, call) }
}

/// An object of a session.
pub(crate) trait Owned: Copy {
    fn fs(self) -> Fs;
}
impl Owned for Fs {
    fn fs(self) -> Fs {
        self
    }
}
impl Owned for File {
    fn fs(self) -> Fs {
        Self::fs(self)
    }
}

/// Counts the failure of a call whose argument is refused before the call is made.
pub(crate) fn counted_with<O: Owned, T>(
    call: Call,
    (owner, argument): (Result<O, Errno>, Result<T, Errno>),
) -> (Result<O, Errno>, Result<T, Errno>) {
    if let (Ok(owner), Err(errno)) = (&owner, &argument) {
        let _ = owner.fs().counted::<()>(call, Err(*errno));
    }
    (owner, argument)
}

/// Bytes within which a path ends: `GPUFS_PATH_BYTES`, Linux's `PATH_MAX`.
pub const PATH_BYTES: usize = 4096;
/// Bytes within which the mode of `fopen` ends, with a character set's name after its letters: `GPUFS_FOPEN_MODE_BYTES`.
pub const MODE_BYTES: usize = 64;

/// A path.
///
/// # Errors
/// `EFAULT` for null, `ENAMETOOLONG` where none of [`PATH_BYTES`] bytes is a NUL.
///
/// # Safety
/// Null, or readable up to its first NUL or for [`PATH_BYTES`] bytes, and unchanged while the result is used.
pub(crate) unsafe fn path<'a>(string: *const c_char) -> Result<&'a CStr, Errno> {
    // SAFETY:
    // - this function's contract
    unsafe { bounded(string, PATH_BYTES) }?.ok_or(Errno::NAMETOOLONG)
}

/// The mode of `fopen`.
///
/// # Errors
/// `EFAULT` for null, `EINVAL` where none of [`MODE_BYTES`] bytes is a NUL.
///
/// # Safety
/// Null, or readable up to its first NUL or for [`MODE_BYTES`] bytes, and unchanged while the result is used.
pub(crate) unsafe fn mode<'a>(string: *const c_char) -> Result<&'a CStr, Errno> {
    // SAFETY:
    // - this function's contract
    unsafe { bounded(string, MODE_BYTES) }?.ok_or(Errno::INVAL)
}

/// A C string. `None` if it has no NUL within `room` bytes.
///
/// # Errors
/// `EFAULT` for null.
///
/// # Safety
/// Null, or readable up to its first NUL or for `room` bytes, and unchanged while the result is used.
pub(crate) unsafe fn bounded<'a>(string: *const c_char, room: usize) -> Result<Option<&'a CStr>, Errno> {
    if string.is_null() {
        return Err(Errno::FAULT);
    }
    // Ends: at `room`.
    for length in 0..room {
        // SAFETY:
        // - not null, and no byte before this one was the NUL: still within the string, by this function's contract
        let byte = unsafe { string.add(length) };
        // SAFETY:
        // - readable, by this function's contract; bytes have no alignment
        if unsafe { byte.read() } == 0 {
            // SAFETY:
            // - the loop has read each of these bytes
            // - unchanged while the result is used, by this function's contract
            let bytes = unsafe { core::slice::from_raw_parts(string.cast(), length + 1) };
            // SAFETY:
            // - the last byte is a NUL
            // - no other is one: the loop ends at the first
            return Ok(Some(unsafe { CStr::from_bytes_with_nul_unchecked(bytes) }));
        }
    }
    Ok(None)
}

/// A C string of any length.
///
/// # Errors
/// `EFAULT` for null.
///
/// # Safety
/// Null, or readable up to its first NUL, and unchanged while the result is used.
pub(crate) unsafe fn text<'a>(string: *const c_char) -> Result<&'a CStr, Errno> {
    if string.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY:
    // - not null, as checked above
    // - ends with a NUL and is unchanged while the result is used, by this function's contract
    Ok(unsafe { CStr::from_ptr(string) })
}

/// Memory that a call reads.
///
/// # Errors
/// `EFAULT` for null, unless there are no bytes; `EINVAL` for more than memory can hold.
///
/// # Safety
/// Null, or `bytes` bytes that may be read and do not change while the result is used.
pub(crate) unsafe fn readable<'a>(memory: *const c_void, bytes: usize) -> Result<&'a [u8], Errno> {
    check(memory, bytes)?;
    if bytes == 0 {
        return Ok(&[]);
    }
    // SAFETY:
    // - not null, and not longer than an object can be, as checked above
    // - readable and unchanged, by this function's contract; bytes have no alignment
    Ok(unsafe { core::slice::from_raw_parts(memory.cast(), bytes) })
}

/// Memory that a call fills.
///
/// # Errors
/// As [`readable`].
///
/// # Safety
/// Null, or `bytes` bytes that nothing else uses while the result is used.
pub(crate) unsafe fn writable<'a>(memory: *mut c_void, bytes: usize) -> Result<&'a mut [u8], Errno> {
    check(memory, bytes)?;
    if bytes == 0 {
        return Ok(&mut []);
    }
    // SAFETY:
    // - not null, and not longer than an object can be, as checked above
    // - writable and used by nothing else, by this function's contract; bytes have no alignment
    Ok(unsafe { core::slice::from_raw_parts_mut(memory.cast(), bytes) })
}

/// Whether a call may use memory of this length: the errors of [`readable`].
pub(crate) fn check(memory: *const c_void, bytes: usize) -> Result<(), Errno> {
    match bytes {
        0 => Ok(()),
        _ if memory.is_null() => Err(Errno::FAULT),
        _ if bytes > isize::MAX as usize => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

/// A descriptor, or [`AT_FDCWD`], which is the same number in C.
pub(crate) fn descriptor(number: c_int) -> Descriptor {
    const { assert!(AT_FDCWD.0 == (-100_i32).cast_unsigned()) };
    // The call refuses another negative number: it becomes larger than any table.
    Descriptor(number.cast_unsigned())
}

/// An offset or a length. A negative one is `EINVAL`.
pub(crate) fn offset(offset: i64) -> Result<u64, Errno> {
    // The call refuses a negative number: it becomes larger than the largest offset.
    Ok(offset.cast_unsigned())
}

/// `SEEK_SET`, `SEEK_CUR`, `SEEK_END`, by Linux's numbers.
pub(crate) fn whence(number: c_int) -> Result<Whence, Errno> {
    match number {
        0 => Ok(Whence::Set),
        1 => Ok(Whence::Current),
        2 => Ok(Whence::End),
        _ => Err(Errno::INVAL),
    }
}

/// A structure that a call reads or fills.
///
/// # Errors
/// `EFAULT` for null.
///
/// # Safety
/// Null, or a `T` that nothing else uses while the result is used.
pub(crate) unsafe fn structure<'a, T>(memory: *mut T) -> Result<&'a mut T, Errno> {
    // SAFETY:
    // - this function's contract
    unsafe { memory.as_mut() }.ok_or(Errno::FAULT)
}

/// The session and a path, for a call that takes both.
///
/// # Errors
/// `EINVAL` for a null session; those of [`path`].
///
/// # Safety
/// As [`session`] and [`path`].
pub(crate) unsafe fn fs_and_path<'a>(
    tables: *const SessionTables,
    path: *const c_char,
    call: Call,
) -> Result<(Fs, &'a CStr), Errno> {
    let checked = (
        // SAFETY:
        // - this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - this function's contract
        unsafe { self::path(path) },
    );
    let (fs, path) = counted_with(call, checked);
    Ok((fs?, path?))
}
