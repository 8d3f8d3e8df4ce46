//! What this machine can do for sessions, as text: `gpufs_host::doctor`.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gpufs_host::doctor::{self, Weight};

use crate::error::{Failure, guarded};
use crate::text::put;

/// Looks at this machine, and at files: the report as text, and how much is lacking.
///
/// # Safety
/// `files` is null, or `file_count` addresses of C strings; `status` is null or may be written; `into` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_doctor(
    files: *const *const c_char,
    file_count: usize,
    status: *mut c_int,
    into: *mut c_char,
    bytes: usize,
) -> c_int {
    guarded(-1, || {
        if files.is_null() && file_count > 0 {
            return Err(Failure::new(libc::EINVAL, "gpufs_doctor: files is null, and file_count is not 0"));
        }
        let mut paths = Vec::new();
        for index in 0..file_count {
            // SAFETY:
            // - one of `file_count` addresses, by this function's contract
            let file = unsafe { files.wrapping_add(index).read() };
            if file.is_null() {
                return Err(Failure::new(libc::EINVAL, format!("gpufs_doctor: file {index} is null")));
            }
            // SAFETY:
            // - not null, and a C string, by this function's contract
            let file = unsafe { CStr::from_ptr(file) };
            paths.push(Path::new(OsStr::from_bytes(file.to_bytes())));
        }
        let report = doctor::examine(&paths);
        if !status.is_null() {
            let worst = match report.worst() {
                Some(Weight::Stop) => 2,
                Some(Weight::Lack) => 1,
                _ => 0,
            };
            // SAFETY:
            // - not null, and may be written, by this function's contract
            unsafe { status.write(worst) };
        }
        // SAFETY:
        // - this function's contract
        Ok(unsafe { put(&report.to_string(), into, bytes) })
    })
}
