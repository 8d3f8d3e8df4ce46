//! Files, buffers and streams that the host gives to kernels.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::BorrowedFd;

use gpufs_core::session::FileIndex;
use gpufs_device::{File, Fs};

use crate::error::{Failure, guarded};
use crate::session::{Host, host};

/// Gives kernels a file that the program has open. The descriptor for kernels, or −1.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_register_file(pointer: *mut Host, descriptor: c_int) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        if descriptor < 0 {
            return Err(Failure::new(libc::EBADF, "the descriptor is negative"));
        }
        // SAFETY:
        // - not −1; where it is not open, duplicating it says so
        let ours = unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned().map_err(|error| {
            Failure::new(error.raw_os_error().unwrap_or(libc::EBADF), format!("the descriptor: {error}"))
        })?;
        let FileIndex(index) = host.lock()?.register_file(ours)?;
        c_int::try_from(index)
            .map_err(|_| Failure::new(libc::EMFILE, "the session's file table is too large"))
    })
}

/// Takes it back.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_unregister_file(pointer: *mut Host, descriptor: c_int) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        let index =
            u32::try_from(descriptor).map_err(|_| Failure::new(libc::EBADF, "the descriptor is negative"))?;
        host.lock()?.unregister_file(FileIndex(index))?;
        Ok(0)
    })
}

/// Makes a buffer that kernels and the system use in place. Null on error.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_buffer(pointer: *mut Host, bytes: usize) -> *mut c_void {
    guarded(core::ptr::null_mut(), || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        if bytes > isize::MAX as usize / 2 {
            return Err(Failure::new(libc::ENOMEM, "a buffer cannot be so large"));
        }
        let buffer = host.lock()?.register_buffer(bytes)?;
        Ok(buffer.as_ptr().cast())
    })
}

/// Opens a stream for kernels. Null on error.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed; the strings are null or end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_fopen(
    pointer: *mut Host,
    path: *const c_char,
    mode: *const c_char,
) -> *mut c_void {
    guarded(core::ptr::null_mut(), || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        if path.is_null() || mode.is_null() {
            return Err(Failure::new(libc::EFAULT, "the path or the mode is null"));
        }
        // SAFETY:
        // - not null; they end with a NUL, by this function's contract
        let (path, mode) = unsafe { (CStr::from_ptr(path), CStr::from_ptr(mode)) };
        let mut session = host.lock()?;
        let tables = session.device_tables();
        let opened = session
            .with_tables(|view| Fs::new(view).fopen(path, mode).map(|file| file.to_handle_at(tables)))?;
        let handle = opened
            .map_err(|errno| Failure::new(errno.number(), format!("{}: {errno}", path.to_string_lossy())))?;
        Ok(core::ptr::without_provenance_mut(usize::try_from(handle).unwrap_or(0)))
    })
}

/// Flushes and closes a stream.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_fclose(pointer: *mut Host, file: *mut c_void) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        let mut session = host.lock()?;
        let tables = session.device_tables();
        session.with_tables(|view| File::from_handle_at(file.addr() as u64, tables, view)?.fclose())??;
        Ok(0)
    })
}
