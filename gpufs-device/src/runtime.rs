//! What a Rust program needs below it on a GPU, where nothing else provides it: a panic handler, and the C functions that the compiler
//! calls on its own.
//!
//! Only with the feature `runtime`, for the crate that becomes a device image. (`compiler_builtins` has such functions too, but is
//! linked after the program has been compiled as a whole, and a device image is never linked. Copying and filling need none: the GPU
//! back ends write the loops out.)
#![allow(unsafe_code, reason = "functions with C's contracts")]

use core::panic::PanicInfo;

use gpufs_core::session::{PanicNote, PanicRoute};
use gpufs_core::word::DeviceWord64;

use crate::warp::nap;

/// Filled in by the host when it has loaded the program ([`PanicRoute::NAME`]).
#[unsafe(export_name = "gpufs_panic_route")]
static ROUTE: PanicRoute = PanicRoute { note: DeviceWord64::new(0), claimed: DeviceWord64::new(0) };
/// Naps of a microsecond after which a lane that panics too no longer waits for the note of the one that was first.
const NOTE_NAPS: u32 = 1_000;

/// The kernel traps, and the host's synchronization with the launch reports it, with what the first panic noted in host memory, which
/// outlives the trap: where it was, and its message where that is a constant (to format others would take code and registers of every kernel).
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // ORDERING: relaxed: the host stored it before the launch.
    let note = ROUTE.note.peek() as *const PanicNote;
    // SAFETY:
    // - 0, or the note of the session, which stays as long as the program is loaded
    if let Some(note) = unsafe { note.as_ref() } {
        // ORDERING: device: nothing but the claim itself.
        if ROUTE.claimed.compare_exchange(0, 1).is_ok() {
            let (file, line) = info.location().map_or(("", 0), |place| (place.file(), place.line()));
            let message = info.message().as_str().unwrap_or("");
            note.note(file.bytes().chain([b':']).chain(decimal(line)).chain(*b": ").chain(message.bytes()));
        } else {
            // The first trap ends the kernel: the note should be whole by then. Ends: a count.
            for _ in 0..NOTE_NAPS {
                // ORDERING: relaxed: the wait is for the note's sake alone.
                if note.length.peek() != 0 {
                    break;
                }
                nap(1_000);
            }
        }
    }
    core::intrinsics::abort()
}

/// The digits of a number.
fn decimal(number: u32) -> impl Iterator<Item = u8> {
    let digits = number.checked_ilog10().unwrap_or(0) + 1;
    (0..digits).rev().map(move |place| b'0' + (number / 10_u32.pow(place) % 10).to_le_bytes()[0])
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
