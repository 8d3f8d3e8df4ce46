//! The memory that calls are given: in the registered buffer, or in device memory with a copy before or after the call.

use core::ffi::CStr;

use gpufs_device::format::Argument;

use super::{Op, UNTOUCHED};

/// Copies whole words: both sides are multiples of 8.
fn copy(from: u64, to: u64, bytes: u64) {
    let words = bytes.div_ceil(8) as usize;
    // SAFETY:
    // - both are valid up to the next word's end, by `Op`'s contract, and apart
    unsafe { core::ptr::copy_nonoverlapping(from as *const u64, to as *mut u64, words) };
}

/// The memory that a writing call is given.
pub(super) fn source<'a>(op: &Op, bytes: u64) -> &'a [u8] {
    let mut memory = op.memory;
    if op.through != 0 {
        copy(memory, op.through, bytes);
        memory = op.through;
    }
    // SAFETY:
    // - as long, by `Op`'s contract
    unsafe { core::slice::from_raw_parts(memory as *const u8, bytes as usize) }
}

pub(super) fn c_string<'a>(address: u64) -> &'a CStr {
    // SAFETY:
    // - the host put a string there
    unsafe { CStr::from_ptr(address as *const _) }
}

/// Calls `read` with the memory that it is to fill.
pub(super) fn filled<T>(op: &Op, read: impl FnOnce(&mut [u8]) -> T) -> T {
    let memory = if op.through == 0 { op.memory } else { op.through };
    if op.through != 0 {
        for word in 0..op.bytes.div_ceil(8) as usize {
            // SAFETY:
            // - valid up to the next word's end, by `Op`'s contract
            unsafe { (memory as *mut u64).add(word).write(u64::from_ne_bytes([UNTOUCHED; 8])) };
        }
    }
    // SAFETY:
    // - as long, by `Op`'s contract, and this lane's
    let result = read(unsafe { core::slice::from_raw_parts_mut(memory as *mut u8, op.bytes as usize) });
    if op.through != 0 {
        copy(memory, op.memory, op.bytes);
    }
    result
}

/// The arguments at `number`, `choice` of them.
pub(super) fn arguments<'a>(op: &Op) -> &'a [Argument<'a>] {
    // SAFETY:
    // - the host put them there, with strings that the device reaches
    unsafe { core::slice::from_raw_parts(op.number as *const Argument<'_>, op.choice as usize) }
}
