//! What a Rust program needs below it on a GPU, where nothing else provides it: a panic handler, and the C functions that the compiler
//! calls on its own.
//!
//! Only with the feature `runtime`, for the crate that becomes a device image. (`compiler_builtins` has such functions too, but is
//! linked after the program has been compiled as a whole, and a device image is never linked. Copying and filling need none: the GPU
//! back ends write the loops out.)
#![allow(unsafe_code, reason = "functions with C's contracts")]

use core::panic::PanicInfo;

/// The kernel traps, and the host's synchronization with the launch reports it. The message goes nowhere: a wait that passed its deadline
/// has noted where in host memory (`gpufs_core::session::Stall`), which outlives the trap.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    core::intrinsics::abort()
}

/// `memcmp(3)`.
///
/// # Safety
/// Both pointers are valid for `bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, bytes: usize) -> i32 {
    for index in 0..bytes {
        // SAFETY:
        // - below `bytes`
        let (left, right) = unsafe { (*left.add(index), *right.add(index)) };
        if left != right {
            return i32::from(left) - i32::from(right);
        }
    }
    0
}

/// `memcmp(3)` for equality alone.
///
/// # Safety
/// As for [`memcmp`].
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, bytes: usize) -> i32 {
    // SAFETY:
    // - the same contract
    unsafe { memcmp(left, right, bytes) }
}

/// `strlen(3)`.
///
/// # Safety
/// `text` is valid up to and with its first NUL.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY:
    // - no NUL has been passed yet
    while unsafe { *text.add(length) } != 0 {
        length += 1;
    }
    length
}
