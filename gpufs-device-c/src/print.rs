//! The `printf` family. C's `...` does not cross to a GPU, so the header packs the arguments of a format into an array of [`RawArgument`].

use core::ffi::{c_char, c_void};

use gpufs_device::format::{Argument, FormatError, Kind, Passed, argument_types, snprintf_with};
use gpufs_device::{Call, Errno};
use static_assertions::{assert_eq_align, assert_eq_size, const_assert_eq};

use crate::arguments::{count, counted_with, readable, stream_for, writable};

/// `gpufs_argument`: an [`Argument`] whose kind is not yet checked.
///
/// ```text
///  0      4        8               16
/// +------+--------+----------------+
/// | kind | length |      bits      |
/// +------+--------+----------------+
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawArgument {
    /// A [`Kind`].
    pub kind: u32,
    /// Bytes of a [`Kind::Bytes`]; otherwise 0.
    pub length: u32,
    /// The value, as in [`Argument::bits`].
    pub bits: u64,
}

assert_eq_size!(RawArgument, Argument<'_>);
assert_eq_align!(RawArgument, Argument<'_>);
const_assert_eq!(core::mem::offset_of!(RawArgument, kind), 0);
const_assert_eq!(core::mem::offset_of!(RawArgument, length), 4);
const_assert_eq!(core::mem::offset_of!(RawArgument, bits), 8);
const_assert_eq!(Kind::Signed as u32, 0);
const_assert_eq!(Kind::WidePlace as u32, LAST_KIND);

/// The highest [`Kind`]: every number from 0 to it is a kind.
const LAST_KIND: u32 = 10;

/// `errno`, for `%m`. On CPU lanes it is looked up at once: lanes that run while this one waits share it.
fn errno() -> impl Fn() -> Option<i32> + Copy {
    let look = || {
        // SAFETY:
        // - the calling thread's own, aligned, and there as long as the thread
        Some(unsafe { *crate::used::gpufs_raw_errno() })
    };
    #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
    let look = {
        let now = look();
        move || now
    };
    look
}

/// A caller's format and arguments, checked.
struct Given<'a> {
    format: &'a [u8],
    arguments: &'a [Argument<'a>],
}

impl Given<'_> {
    /// # Errors
    /// `EINVAL` for a null format, for null arguments if there is to be one, and for an argument of an unknown kind.
    ///
    /// # Safety
    /// - `format` is null or holds `bytes` bytes.
    /// - `arguments` is null, or is aligned and holds `arguments_count` of them.
    /// - Each string that an argument points to may be read, and each integer that one points to may be set.
    /// - All of it is unchanged while the result is used.
    unsafe fn new(
        (format, bytes): (*const c_char, usize),
        (arguments, arguments_count): (*const RawArgument, usize),
    ) -> Result<Self, Errno> {
        if format.is_null() || arguments_count > isize::MAX as usize / size_of::<RawArgument>() {
            return Err(Errno::INVAL);
        }
        // SAFETY:
        // - this function's contract
        let format = unsafe { readable(format.cast(), bytes)? };
        if arguments_count == 0 {
            return Ok(Self { format, arguments: &[] });
        }
        if arguments.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY:
        // - not null, and not longer than an object can be, as checked above
        // - aligned, initialized and unchanged, by this function's contract
        let raw = unsafe { core::slice::from_raw_parts(arguments, arguments_count) };
        if raw.iter().any(|argument| argument.kind > LAST_KIND) {
            return Err(Errno::INVAL);
        }
        // SAFETY:
        // - `Argument` has the same size, alignment and fields, as asserted at the top of this file
        // - each kind is one of `Kind`, as checked above
        // - the memory is that of `raw`
        let arguments = unsafe { core::slice::from_raw_parts(arguments.cast(), arguments_count) };
        Ok(Self { format, arguments })
    }
}

/// `fprintf(3)`: bytes printed. Arguments that do not fit the format are `EINVAL`, and nothing is printed.
///
/// # Safety
/// - `file` is null or a stream of a session that is not closed.
/// - `format` is null or holds `format_bytes` bytes.
/// - `arguments` is null or holds `arguments_count` of them, and each string that an argument points to may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fprintf(
    file: *const c_void,
    format: *const c_char,
    format_bytes: usize,
    arguments: *const RawArgument,
    arguments_count: usize,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `file` is null or a stream of an open session, by this function's contract
        unsafe { stream_for(file, Call::Fprintf) },
        // SAFETY:
        // - the format and the arguments are null or there, by this function's contract
        unsafe { Given::new((format, format_bytes), (arguments, arguments_count)) },
    );
    match counted_with(Call::Fprintf, checked) {
        (Ok(file), Ok(given)) => count(file.fprintf_with(given.format, given.arguments, errno())),
        (Err(errno), _) | (_, Err(errno)) => count(Err(errno)),
    }
}

/// `snprintf(3)`: the length of the whole output.
///
/// # Safety
/// As [`gpufs_raw_fprintf`] for the format and the arguments; `into` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_snprintf(
    into: *mut c_char,
    bytes: usize,
    format: *const c_char,
    format_bytes: usize,
    arguments: *const RawArgument,
    arguments_count: usize,
) -> i64 {
    let checked = (
        // SAFETY:
        // - null or `bytes` bytes that the call may fill, by this function's contract
        unsafe { writable(into.cast(), bytes) },
        // SAFETY:
        // - the format and the arguments are null or there, by this function's contract
        unsafe { Given::new((format, format_bytes), (arguments, arguments_count)) },
    );
    count(match checked {
        (Ok(into), Ok(given)) => {
            snprintf_with(into, given.format, given.arguments, errno()).map_err(FormatError::errno)
        }
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}

/// The types of the arguments of a format, in order, as numbers of [`Passed`]: what `va_arg` is to be asked for. How many there are; `EINVAL` also
/// for more than `room`.
///
/// # Safety
/// `format` is null or holds `format_bytes` bytes; `types` is null or has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_argument_types(
    format: *const c_char,
    format_bytes: usize,
    types: *mut c_void,
    room: usize,
) -> i64 {
    // SAFETY:
    // - null or `format_bytes` bytes that do not change, by this function's contract
    let format = unsafe { readable(format.cast(), format_bytes) };
    // SAFETY:
    // - null or `room` bytes that the call may fill, by this function's contract
    let types = unsafe { writable(types, room) };
    let (Ok(format), Ok(types)) = (format, types) else {
        return count(Err(Errno::INVAL));
    };
    types.fill(Passed::Gap as u8);
    // SAFETY:
    // - `Passed` is a byte, and each is one of its numbers now
    // - the memory is that of `types`, which is not used meanwhile
    let passed = unsafe { core::slice::from_raw_parts_mut(types.as_mut_ptr().cast::<Passed>(), types.len()) };
    count(argument_types(format, passed).map_err(FormatError::errno))
}

/// `strerror(3)`: a string of this library, which is not to be changed. "Unknown error" for a number that has no name.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn gpufs_raw_strerror(number: i32) -> *const c_char {
    let message = match Errno::known(number) {
        Some(errno) => errno.message(),
        None if number == 0 => c"Success",
        None => c"Unknown error",
    };
    message.as_ptr()
}
