//! Streams (C11 7.21). Each call is a method of [`File`](gpufs_device::File) or [`Fs`](gpufs_device::Fs), which describes it, as the header does.

use core::ffi::{c_char, c_int, c_void};

use gpufs_core::session::SessionTables;
use gpufs_device::stdio::{Buffering, LineStep, Transfer};
use gpufs_device::{Call, Errno};

use crate::arguments::{
    self, counted_with, done, readable, result, session, stream, stream_for, text, whence, writable,
};

/// The result of `fgetc` and `ungetc` where C has `EOF` without an error.
const NO_BYTE: u64 = 256;

/// The lowest bit of the error in the result of [`gpufs_raw_fread`] and [`gpufs_raw_fwrite`].
pub const TRANSFER_ERROR_SHIFT: u32 = 48;

/// Whole items in the low 48 bits, the errno above them, 0 if there is none.
fn transfer(item_bytes: usize, outcome: Result<Transfer, Errno>) -> u64 {
    let (bytes, error) = match outcome {
        Ok(Transfer { bytes, error }) => (bytes, error),
        Err(errno) => (0, Some(errno)),
    };
    let items = bytes.checked_div(item_bytes).unwrap_or(0) as u64;
    let number = error.map_or(0, |errno| u64::from(errno.number().cast_unsigned()));
    number << TRANSFER_ERROR_SHIFT | items & ((1 << TRANSFER_ERROR_SHIFT) - 1)
}

fn whole(item_bytes: usize, items: usize) -> Result<usize, Errno> {
    item_bytes.checked_mul(items).ok_or(Errno::INVAL)
}

/// The standard streams, 0 to 2; null without a session.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_standard_stream(
    tables: *const SessionTables,
    number: c_int,
) -> u64 {
    // SAFETY:
    // - this function's contract
    let Ok(fs) = (unsafe { session(tables) }) else { return 0 };
    match number {
        0 => fs.stdin().to_handle(),
        1 => fs.stdout().to_handle(),
        2 => fs.stderr().to_handle(),
        _ => 0,
    }
}

/// `fopen(3)`: a stream, or a negated errno.
///
/// # Safety
/// `tables` is null or a session's on this device; the strings are null or end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fopen(
    tables: *const SessionTables,
    path: *const c_char,
    mode: *const c_char,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or ends with a NUL, by this function's contract
        unsafe { arguments::path(path) },
        // SAFETY:
        // - null or ends with a NUL, by this function's contract
        unsafe { arguments::mode(mode) },
    );
    if let (Ok(fs), Err(errno), _) | (Ok(fs), Ok(_), Err(errno)) = checked {
        let _ = fs.counted::<()>(Call::Fopen, Err(errno));
    }
    let (fs, path, mode) = match checked {
        (Ok(fs), Ok(path), Ok(mode)) => (fs, path, mode),
        (Err(errno), ..) | (_, Err(errno), _) | (.., Err(errno)) => return done(Err(errno)),
    };
    result(fs.fopen(path, mode).map(gpufs_device::File::to_handle))
}

/// A shared open: all threads that open the same path in the same mode get one stream. The stream, or a negated errno.
///
/// # Safety
/// As [`gpufs_raw_fopen`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fopen_shared(
    tables: *const SessionTables,
    path: *const c_char,
    mode: *const c_char,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or ends with a NUL, by this function's contract
        unsafe { arguments::path(path) },
        // SAFETY:
        // - null or ends with a NUL, by this function's contract
        unsafe { arguments::mode(mode) },
    );
    let (fs, path, mode) = match checked {
        (Ok(fs), Ok(path), Ok(mode)) => (fs, path, mode),
        (Err(errno), ..) | (_, Err(errno), _) | (.., Err(errno)) => return done(Err(errno)),
    };
    result(fs.fopen_shared(path, mode).map(gpufs_device::File::to_handle))
}

/// `fclose(3)`: 0. Of a stream that has a word ([`gpufs_raw_open_memstream`](crate::memory::gpufs_raw_open_memstream)) the word, which it has no
/// longer: the next call closes it.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fclose(file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    let file = unsafe { stream_for(file, Call::Fclose) };
    if let Ok(file) = file
        && let Some(word) = file.memory_word()
    {
        // SAFETY:
        // - it has a word, so it is a stream of `open_memstream`; none from now on
        unsafe { file.set_memory_word(0) };
        return result(Ok(word));
    }
    done(file.and_then(gpufs_device::File::fclose))
}

/// `fflush(3)`: 0, or the word of a stream that has one.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fflush(file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    let file = unsafe { stream_for(file, Call::Fflush) };
    result(file.and_then(|file| file.fflush().map(|()| file.memory_word().unwrap_or(0))))
}

/// `fflush(NULL)`: every open stream of the session.
///
/// # Safety
/// `tables` is null or a session's on this device.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fflush_all(tables: *const SessionTables) -> i64 {
    // SAFETY:
    // - this function's contract
    done(unsafe { session(tables) }.and_then(gpufs_device::Fs::fflush_all))
}

/// `fread(3)`: whole items in the low 48 bits, the errno above them, 0 if there is none.
///
/// # Safety
/// - `file` is null or a stream of a session that is not closed.
/// - `into` is null or has room for `items` times `item_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fread(
    into: *mut c_void,
    item_bytes: usize,
    items: usize,
    file: *const c_void,
) -> u64 {
    let checked = (
        // SAFETY:
        // - `file` is null or a stream of an open session, by this function's contract
        unsafe { stream_for(file, Call::Fread) },
        // SAFETY:
        // - null or `bytes` bytes that the call may fill, by this function's contract
        whole(item_bytes, items).and_then(|bytes| unsafe { writable(into, bytes) }),
    );
    let outcome = match counted_with(Call::Fread, checked) {
        (Ok(file), Ok(into)) => Ok(file.fread_counted(into)),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    };
    transfer(item_bytes, outcome)
}

/// `fwrite(3)`: whole items in the low 48 bits, the errno above them, 0 if there is none.
///
/// # Safety
/// - `file` is null or a stream of a session that is not closed.
/// - `from` is null or holds `items` times `item_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fwrite(
    from: *const c_void,
    item_bytes: usize,
    items: usize,
    file: *const c_void,
) -> u64 {
    let checked = (
        // SAFETY:
        // - `file` is null or a stream of an open session, by this function's contract
        unsafe { stream_for(file, Call::Fwrite) },
        // SAFETY:
        // - null or `bytes` bytes that the call may read, by this function's contract
        whole(item_bytes, items).and_then(|bytes| unsafe { readable(from, bytes) }),
    );
    let outcome = match counted_with(Call::Fwrite, checked) {
        (Ok(file), Ok(from)) => Ok(file.fwrite_counted(from)),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    };
    transfer(item_bytes, outcome)
}

/// `fgets(3)`: 1, or 0 at the end of the file.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed; `into` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fgets(into: *mut c_char, bytes: c_int, file: *const c_void) -> i64 {
    // Without room there is no line and no error, as in glibc.
    let bytes = usize::try_from(bytes).unwrap_or(0);
    let checked = (
        // SAFETY:
        // - `file` is null or a stream of an open session, by this function's contract
        unsafe { stream_for(file, Call::Fgets) },
        // SAFETY:
        // - null or `bytes` bytes that the call may fill, by this function's contract
        unsafe { writable(into.cast(), bytes) },
    );
    match counted_with(Call::Fgets, checked) {
        (Ok(file), Ok(into)) => result(file.fgets(into).map(|line| u64::from(line.is_some()))),
        (Err(errno), _) | (_, Err(errno)) => done(Err(errno)),
    }
}

/// `fputs(3)`.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed; `string` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fputs(string: *const c_char, file: *const c_void) -> i64 {
    let checked = (
        // SAFETY:
        // - `file` is null or a stream of an open session, by this function's contract
        unsafe { stream_for(file, Call::Fputs) },
        // SAFETY:
        // - null or ends with a NUL, by this function's contract
        unsafe { text(string) },
    );
    match counted_with(Call::Fputs, checked) {
        (Ok(file), Ok(string)) => done(file.fputs(string)),
        (Err(errno), _) | (_, Err(errno)) => done(Err(errno)),
    }
}

/// `puts(3)`, to the session's standard output.
///
/// # Safety
/// `tables` is null or a session's on this device; `string` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_puts(tables: *const SessionTables, string: *const c_char) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or ends with a NUL, by this function's contract
        unsafe { text(string) },
    );
    match counted_with(Call::Puts, checked) {
        (Ok(fs), Ok(string)) => done(fs.puts(string)),
        (Err(errno), _) | (_, Err(errno)) => done(Err(errno)),
    }
}

/// `fputc(3)`: the byte written, `byte` as an unsigned char.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "C11 7.21.7.3")]
pub unsafe extern "C-unwind" fn gpufs_raw_fputc(byte: c_int, file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    result(unsafe { stream_for(file, Call::Fputc) }.and_then(|file| file.fputc(byte as u8)))
}

/// `fgetc(3)`: a byte, or 256 at the end of the file.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fgetc(file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    let outcome = unsafe { stream_for(file, Call::Fgetc) }.and_then(gpufs_device::File::fgetc);
    result(outcome.map(|byte| byte.map_or(NO_BYTE, u64::from)))
}

/// `ungetc(3)`: the byte pushed back, or 256 where there is no room, or for `EOF`.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "C11 7.21.7.10")]
pub unsafe extern "C-unwind" fn gpufs_raw_ungetc(byte: c_int, file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    let file = unsafe { stream_for(file, Call::Ungetc) };
    let outcome = if byte == -1 { file.map(|_| None) } else { file.and_then(|file| file.ungetc(byte as u8)) };
    result(outcome.map(|byte| byte.map_or(NO_BYTE, u64::from)))
}

/// `fseeko(3)`.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fseek(file: *const c_void, offset: i64, from: c_int) -> i64 {
    // SAFETY:
    // - this function's contract
    let file = unsafe { stream_for(file, Call::Fseek) };
    done(file.and_then(|file| file.fseek(offset, file.fs().counted(Call::Fseek, whence(from))?)))
}

/// `ftello(3)`.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_ftell(file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    result(unsafe { stream_for(file, Call::Ftell) }.and_then(gpufs_device::File::ftell))
}

/// `rewind(3)`. 0, or `EBADF` without an open stream.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_rewind(file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    done(unsafe { stream_for(file, Call::Rewind) }.map(gpufs_device::File::rewind))
}

/// `setvbuf(3)`; `mode` is `_IOFBF` (0), `_IOLBF` (1) or `_IONBF` (2), by the numbers of Linux's C libraries.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_setvbuf(file: *const c_void, mode: c_int, bytes: usize) -> i64 {
    let buffering = match mode {
        0 => Ok(Buffering::Full),
        1 => Ok(Buffering::Line),
        2 => Ok(Buffering::None),
        _ => Err(Errno::INVAL),
    };
    // SAFETY:
    // - this function's contract
    let file = unsafe { stream_for(file, Call::Setvbuf) };
    done(file.and_then(|file| file.setvbuf(file.fs().counted(Call::Setvbuf, buffering)?, bytes)))
}

/// `flockfile(3)`. 0.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_flockfile(file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    done(unsafe { stream_for(file, Call::Flockfile) }.and_then(gpufs_device::File::flockfile))
}

/// `ftrylockfile(3)`: 0, or 1 if the stream is another's now.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_ftrylockfile(file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    let kept = unsafe { stream_for(file, Call::Ftrylockfile) }.and_then(gpufs_device::File::ftrylockfile);
    result(kept.map(|kept| u64::from(!kept)))
}

/// `funlockfile(3)`. 0, or `EPERM` if the caller does not keep the stream.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_funlockfile(file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    done(unsafe { stream_for(file, Call::Funlockfile) }.and_then(gpufs_device::File::funlockfile))
}

/// Where a step's outcome stands in its result, above the length.
const STEP_SHIFT: u32 = 48;

/// A step of `getdelim(3)`: `into` has room for `bytes`, of which an earlier step, whose result said "more", filled `done`. The length of the line so
/// far in the low 48 bits; above them 0: the line is whole, 1: it needs more room, 2: the same step again, 3: the file ends. With null memory
/// it gives up the line of which a step said "more".
///
/// # Safety
/// `file` is null or a stream of a session that is not closed; `into` is null, or `bytes` bytes that nothing else uses meanwhile.
#[unsafe(no_mangle)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "C: converted to an unsigned char"
)]
pub unsafe extern "C-unwind" fn gpufs_raw_getdelim(
    into: *mut c_char,
    bytes: usize,
    filled: usize,
    delimiter: c_int,
    file: *const c_void,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `file` is null or a stream of an open session, by this function's contract
        unsafe { stream_for(file, Call::Getdelim) },
        // SAFETY:
        // - null or `bytes` bytes that the call may fill, by this function's contract
        unsafe { writable(into.cast(), bytes) },
    );
    let (file, into) = match checked {
        (Ok(file), Ok(into)) => (file, into),
        (Err(errno), _) | (_, Err(errno)) => return done(Err(errno)),
    };
    if into.is_empty() {
        file.leave_line();
        return 0;
    }
    let step = file.getdelim_step(delimiter as u8, into, filled);
    result(step.map(|step| match step {
        LineStep::Whole(length) => length as u64,
        LineStep::More(length) => 1 << STEP_SHIFT | length as u64,
        LineStep::Again => 2 << STEP_SHIFT,
        LineStep::End => 3 << STEP_SHIFT,
    }))
}

/// `feof(3)`: 0 or 1.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_feof(file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    result(unsafe { stream(file) }.map(gpufs_device::File::feof))
}

/// `ferror(3)`: 0 or 1.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_ferror(file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    result(unsafe { stream(file) }.map(gpufs_device::File::ferror))
}

/// `clearerr(3)`. 0, or `EBADF` without an open stream.
///
/// # Safety
/// `file` is null or a stream of a session that is not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_clearerr(file: *const c_void) -> i64 {
    // SAFETY:
    // - this function's contract
    done(unsafe { stream_for(file, Call::Clearerr) }.map(gpufs_device::File::clearerr))
}
