//! What the host does for kernels where io_uring has no operation. Each call is a method of [`Fs`](gpufs_device::Fs), which describes it, as the
//! headers do.

use core::ffi::{c_char, c_void};

use gpufs_core::session::SessionTables;
use gpufs_device::Call;

use crate::{count, counted_with, session, writable};

/// `readlink(2)`: bytes of the target.
///
/// # Safety
/// `tables` is null or a session's on this device; `path` is null or ends with a NUL; `into` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_readlink(
    tables: *const SessionTables,
    path: *const c_char,
    into: *mut c_void,
    bytes: usize,
) -> i64 {
    let checked = (
        // SAFETY:
        // - `tables` is null or a session's, by this function's contract
        unsafe { session(tables) },
        // SAFETY:
        // - null or ends with a NUL, by this function's contract
        unsafe { crate::path(path) }.and_then(|path| {
            // SAFETY:
            // - null or `bytes` bytes that the call may fill, by this function's contract
            let into = unsafe { writable(into, bytes) }?;
            Ok((path, into))
        }),
    );
    count(match counted_with(Call::Readlink, checked) {
        (Ok(fs), Ok((path, into))) => fs.readlink(path, into),
        (Err(errno), _) | (_, Err(errno)) => Err(errno),
    })
}
