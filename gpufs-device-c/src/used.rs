//! The session in use, for sources whose calls name none (`include/gpufs/drop_in.h`), and `errno` for C on a GPU.
//!
//! On a GPU both are device memory of the program that links this library: every kernel of that program sees them. On CPU lanes the session is
//! the process's, and `errno` is the C library's own.
#![expect(unsafe_code, reason = "exported names")]

use gpufs_core::session::SessionTables;
use gpufs_core::word::DeviceWord64;

/// The address of the tables of the session in use; 0 for none.
static USED: DeviceWord64 = DeviceWord64::new(0);

/// Makes a session the one in use; null for none. One thread, while no kernel runs that makes calls without a session.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn gpufs_raw_use_session(tables: *const SessionTables) {
    // ORDERING: release, device scope, partner: `gpufs_raw_used_session`. The tables are the host's work from before the launch; a thread of
    // the process that finds the address finds them too.
    USED.publish(tables.expose_provenance() as u64);
}

/// The session in use, or null, which the first call that finds none tells on the standard error. Any thread.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn gpufs_raw_used_session() -> *const SessionTables {
    // ORDERING: acquire, device scope, partner: `gpufs_raw_use_session`.
    let tables = USED.observe();
    if tables == 0 {
        tell();
    }
    core::ptr::with_exposed_provenance(tables as usize)
}

/// 1 when it has been told that no session is in use.
static TOLD: DeviceWord64 = DeviceWord64::new(0);

/// What is told.
#[cfg(not(target_arch = "amdgpu"))]
const NONE_IN_USE: &core::ffi::CStr =
    c"gpufs: a call of <gpufs/drop_in.h> found no session in use, and failed: gpufs_host_use(host) comes first\n";

/// Says once that there is no session.
#[cold]
fn tell() {
    // ORDERING: relaxed would do: it orders nothing.
    if TOLD.compare_exchange(0, 1).is_ok() {
        tell_now();
    }
}

/// On CPU lanes: on the process's standard error. The error of a line that cannot be written is the call's own.
#[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
fn tell_now() {
    unsafe extern "C" {
        fn write(descriptor: i32, from: *const core::ffi::c_char, bytes: usize) -> isize;
    }
    // SAFETY:
    // - the text is a constant of that length
    let _ = unsafe { write(2, NONE_IN_USE.as_ptr(), NONE_IN_USE.count_bytes()) };
}

/// On an NVIDIA GPU: through the driver's own printing, which reaches the process's standard output.
#[cfg(target_arch = "nvptx64")]
fn tell_now() {
    unsafe extern "C" {
        fn vprintf(format: *const core::ffi::c_char, arguments: *const core::ffi::c_void) -> i32;
    }
    // SAFETY:
    // - a constant format without conversions, which takes no arguments
    let _ = unsafe { vprintf(NONE_IN_USE.as_ptr(), core::ptr::null()) };
}

/// An AMD GPU has no such way: the call's error says it.
#[cfg(target_arch = "amdgpu")]
fn tell_now() {}

/// Stops using a session, if it is the one in use: it is about to be closed.
pub fn stop_using(tables: u64) {
    // ORDERING: relaxed on failure, acquire and release on success, device scope, partner: `gpufs_raw_used_session`. Another session that was put
    // into use meanwhile stays.
    let _ = USED.compare_exchange(tables, 0);
}

/// Places for `errno` on a GPU, a power of two. Threads of a launch whose indices differ by a multiple of it share one.
#[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
const PLACES: usize = 1 << 18;

/// `errno` of each thread.
#[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
struct Places(core::cell::UnsafeCell<[i32; PLACES]>);

// SAFETY:
// - the memory is handed out as raw pointers only, each to the thread that asked; C's rules hold for what it does with it
#[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
unsafe impl Sync for Places {}

#[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
static ERRNO: Places = Places(core::cell::UnsafeCell::new([0; PLACES]));

/// The calling thread's `errno`. On a GPU a number in device memory: threads of a launch whose indices differ by a multiple of 2¹⁸ share one, as
/// do threads of launches that run at once. On CPU lanes the C library's, which a lane keeps while others run.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn gpufs_raw_errno() -> *mut i32 {
    errno()
}

#[cfg(any(target_arch = "nvptx64", target_arch = "amdgpu"))]
fn errno() -> *mut i32 {
    let place = gpufs_device::warp::global_thread() as usize & (PLACES - 1);
    ERRNO.0.get().cast::<i32>().wrapping_add(place)
}

#[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
fn errno() -> *mut i32 {
    unsafe extern "C" {
        safe fn __errno_location() -> *mut i32;
    }
    __errno_location()
}
