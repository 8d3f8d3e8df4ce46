//! Whole kernels. Each takes the session and what it needs as plain values, as a host would pass them.

use core::ffi::CStr;

use gpufs_core::session::SessionTables;
use gpufs_device::file::Descriptor;
use gpufs_device::warp::global_thread;
use gpufs_device::{Fs, fprintf};

/// The session of a launch.
fn fs(session: *const SessionTables) -> Fs {
    // SAFETY:
    // - the launch gives a session that outlives the kernel
    let tables = unsafe { &*session };
    // SAFETY:
    // - the host keeps them while kernels run
    unsafe { Fs::new(tables) }
}

/// `pwrite`: 64 bytes of `from` a thread.
#[unsafe(no_mangle)]
extern "gpu-kernel" fn kernel_pwrite(session: *const SessionTables, descriptor: u32, from: *const u8) {
    let thread = global_thread();
    // SAFETY:
    // - the launch gives 64 bytes for each thread
    let bytes = unsafe { core::slice::from_raw_parts(from.add(64 * thread as usize), 64) };
    let _ = fs(session).pwrite(Descriptor(descriptor), bytes, 64 * thread);
}

/// `pread`: 64 bytes to `into` a thread.
#[unsafe(no_mangle)]
extern "gpu-kernel" fn kernel_pread(session: *const SessionTables, descriptor: u32, into: *mut u8) {
    let thread = global_thread();
    // SAFETY:
    // - the launch gives 64 bytes for each thread
    let bytes = unsafe { core::slice::from_raw_parts_mut(into.add(64 * thread as usize), 64) };
    let _ = fs(session).pread(Descriptor(descriptor), bytes, 64 * thread);
}

/// 64 bytes a thread, read and written back by calls that are started and waited for.
#[unsafe(no_mangle)]
extern "gpu-kernel" fn kernel_started(session: *const SessionTables, descriptor: u32, into: *mut u8) {
    let (fs, place) = (fs(session), 64 * global_thread());
    // SAFETY:
    // - the launch gives 64 bytes for each thread
    let bytes = unsafe { core::slice::from_raw_parts_mut(into.add(place as usize), 64) };
    let read = fs.start_pread(Descriptor(descriptor), bytes.len(), place);
    let _ = read.and_then(|read| read.wait_into(bytes));
    let _ = fs.start_pwrite(Descriptor(descriptor), bytes, place).and_then(|written| written.wait());
}

/// `fwrite` to the standard output: 64 bytes of `from` a thread.
#[unsafe(no_mangle)]
extern "gpu-kernel" fn kernel_fwrite(session: *const SessionTables, from: *const u8) {
    let thread = global_thread();
    // SAFETY:
    // - the launch gives 64 bytes for each thread
    let bytes = unsafe { core::slice::from_raw_parts(from.add(64 * thread as usize), 64) };
    let _ = fs(session).stdout().fwrite(bytes);
}

/// `fread` from the standard input: 64 bytes to `into` a thread.
#[unsafe(no_mangle)]
extern "gpu-kernel" fn kernel_fread(session: *const SessionTables, into: *mut u8) {
    let thread = global_thread();
    // SAFETY:
    // - the launch gives 64 bytes for each thread
    let bytes = unsafe { core::slice::from_raw_parts_mut(into.add(64 * thread as usize), 64) };
    let _ = fs(session).stdin().fread(bytes);
}

/// `fprintf` without floating point.
#[unsafe(no_mangle)]
extern "gpu-kernel" fn kernel_fprintf(session: *const SessionTables) {
    let _ = fprintf!(fs(session).stdout(), c"thread %llu\n", global_thread());
}

/// `fprintf` with floating point.
#[unsafe(no_mangle)]
extern "gpu-kernel" fn kernel_fprintf_float(session: *const SessionTables, value: f64) {
    let _ = fprintf!(fs(session).stdout(), c"thread %llu saw %g\n", global_thread(), value);
}

/// Rust's `writeln!`.
#[cfg(feature = "writeln")]
#[unsafe(no_mangle)]
extern "gpu-kernel" fn kernel_writeln(session: *const SessionTables) {
    let _ = fs(session).stdout().write_fmt(format_args!("thread {}\n", global_thread()));
}

/// `fopen`, `fputs`, `fclose`.
#[unsafe(no_mangle)]
extern "gpu-kernel" fn kernel_fopen(session: *const SessionTables, path: *const core::ffi::c_char) {
    // SAFETY:
    // - the launch gives a path that ends with a NUL
    let path = unsafe { CStr::from_ptr(path) };
    if let Ok(file) = fs(session).fopen(path, c"w") {
        let _ = file.fwrite(b"hello\n");
        let _ = file.fclose();
    }
}
