//! The `scanf` family. The header packs the targets of a format, with their types, into an array of [`RawTarget`].

use core::ffi::{c_char, c_void};

use gpufs_device::format::scan::{
    Memory, Reallocate, ScanError, Scanned, Target, TargetKind, Text, count_targets, scan,
};
use gpufs_device::{Call, Errno};
use static_assertions::{assert_eq_align, assert_eq_size, const_assert_eq};

use crate::arguments::{counted_with, readable, result, stream_for};

/// `gpufs_scan_target`: a [`Target`] whose kind is not yet checked.
///
/// ```text
///  0      4        8               16
/// +------+--------+----------------+
/// | kind | length |    address     |
/// +------+--------+----------------+
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawTarget {
    /// A [`TargetKind`].
    pub kind: u32,
    /// Elements of text; `u32::MAX` for a bare pointer.
    pub length: u32,
    /// The address.
    pub address: u64,
}

assert_eq_size!(RawTarget, Target<'_>);
assert_eq_align!(RawTarget, Target<'_>);
const_assert_eq!(TargetKind::Int8 as u32, 0);
const_assert_eq!(TargetKind::Any as u32, LAST_KIND);

/// The highest [`TargetKind`]: every number from 0 to it is a kind.
const LAST_KIND: u32 = 12;

/// The result where C has `EOF` without an error.
const NOTHING: u64 = 1 << 40;
/// Added to a result where a number did not fit: C has it beside `ERANGE`.
const OUT_OF_RANGE: u64 = 1 << 41;

/// A caller's format and targets, checked.
struct Given<'a> {
    format: &'a [u8],
    targets: &'a [Target<'a>],
}

impl Given<'_> {
    /// # Errors
    /// `EINVAL` for a null format, for null targets if there is to be one, and for a target of an unknown kind; `EFAULT` for a target that is a
    /// null pointer.
    ///
    /// # Safety
    /// - `format` is null or holds `bytes` bytes.
    /// - `targets` is null, or is aligned and holds `count` of them. Each points to what its kind says, or is null.
    /// - All of it is this call's while the result is used.
    unsafe fn new(
        (format, bytes): (*const c_char, usize),
        (targets, count): (*const RawTarget, usize),
    ) -> Result<Self, Errno> {
        if format.is_null() || count > isize::MAX as usize / size_of::<RawTarget>() {
            return Err(Errno::INVAL);
        }
        // SAFETY:
        // - this function's contract
        let format = unsafe { readable(format.cast(), bytes)? };
        if count == 0 {
            return Ok(Self { format, targets: &[] });
        }
        if targets.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY:
        // - not null, and not longer than an object can be, as checked above
        // - aligned, initialized and unchanged, by this function's contract
        let raw = unsafe { core::slice::from_raw_parts(targets, count) };
        if raw.iter().any(|target| target.kind > LAST_KIND) {
            return Err(Errno::INVAL);
        }
        if raw.iter().any(|target| target.address == 0) {
            return Err(Errno::FAULT);
        }
        // SAFETY:
        // - `Target` has the same size, alignment and fields, as asserted at the top of this file
        // - each kind is one of `TargetKind`, as checked above
        // - the memory is that of `raw`
        let targets = unsafe { core::slice::from_raw_parts(targets.cast(), count) };
        Ok(Self { format, targets })
    }
}

/// The allocator behind `%m`.
///
/// # Safety
/// As [`Memory::new`], if there is one.
unsafe fn memory(reallocate: Option<Reallocate>) -> Memory {
    // SAFETY:
    // - this function's contract
    reallocate.map_or(Memory::NONE, |reallocate| unsafe { Memory::new(reallocate) })
}

/// The number that C gets.
fn stored(outcome: Result<Scanned, Errno>) -> i64 {
    result(outcome.map(|scanned| {
        let stored = scanned.stored.map_or(NOTHING, |stored| stored as u64);
        stored | if scanned.out_of_range { OUT_OF_RANGE } else { 0 }
    }))
}

/// `fscanf(3)`: targets that got a value; 2⁴⁰ for `EOF` without an error. 2⁴¹ more where a number did not fit (`ERANGE`).
///
/// # Safety
/// - `file` is null or a stream of a session that is not closed.
/// - `format` is null or holds `format_bytes` bytes.
/// - `targets` is null or holds `count` of them, each of which points to what its kind says, or is null.
/// - `reallocate` is null or does what [`Reallocate`] says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_fscanf(
    file: *const c_void,
    format: *const c_char,
    format_bytes: usize,
    targets: *const RawTarget,
    count: usize,
    reallocate: Option<Reallocate>,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `file` is null or a stream of an open session, by this function's contract
        unsafe { stream_for(file, Call::Fscanf) },
        // SAFETY:
        // - the format and the targets are null or there, by this function's contract
        unsafe { Given::new((format, format_bytes), (targets, count)) },
    );
    // SAFETY:
    // - this function's contract
    let memory = unsafe { memory(reallocate) };
    match counted_with(Call::Fscanf, checked) {
        (Ok(file), Ok(given)) => stored(file.fscanf_with(given.format, given.targets, memory)),
        (Err(errno), _) | (_, Err(errno)) => stored(Err(errno)),
    }
}

/// `sscanf(3)`: as [`gpufs_raw_fscanf`].
///
/// # Safety
/// As [`gpufs_raw_fscanf`]; `text` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_sscanf(
    text: *const c_char,
    format: *const c_char,
    format_bytes: usize,
    targets: *const RawTarget,
    count: usize,
    reallocate: Option<Reallocate>,
) -> i64 {
    if text.is_null() {
        return stored(Err(Errno::FAULT));
    }
    // SAFETY:
    // - the format and the targets are null or there, by this function's contract
    let given = match unsafe { Given::new((format, format_bytes), (targets, count)) } {
        Ok(given) => given,
        Err(errno) => return stored(Err(errno)),
    };
    // SAFETY:
    // - this function's contract
    let memory = unsafe { memory(reallocate) };
    // SAFETY:
    // - not null, and ends with a NUL, by this function's contract
    let mut text = unsafe { Text::c_string(text.cast()) };
    let outcome = scan(&mut text, given.format, given.targets, memory);
    stored(outcome.map_err(ScanError::errno))
}

/// How many targets a format takes: what a function with C's `...` has to fetch.
///
/// # Safety
/// `format` is null or holds `format_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_scan_targets(format: *const c_char, format_bytes: usize) -> i64 {
    if format.is_null() {
        return stored(Err(Errno::INVAL));
    }
    // SAFETY:
    // - this function's contract
    let format = unsafe { readable(format.cast(), format_bytes) };
    result(
        format.and_then(|format| count_targets(format).map(|count| count as u64).map_err(ScanError::errno)),
    )
}
