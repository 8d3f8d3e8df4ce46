//! Files, buffers and streams that the host gives to kernels.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, IntoRawFd};

use gpufs_core::Errno;
use gpufs_core::session::FileIndex;
use gpufs_device::File;
use gpufs_device::kernel::FileHandle;
use gpufs_device::view::{Mapping, MappingMut};
use gpufs_device_c::view::{entry_of, number_of};
use gpufs_host::FileError;
use gpufs_host::ring::ServiceError;

use crate::error::{Failure, duplicate, guarded};
use crate::session::{Host, host};

fn negative(descriptor: c_int) -> Failure {
    Failure::new(libc::EBADF, format!("the descriptor is negative: {descriptor}"))
}

fn refused(error: &FileError) -> Failure {
    Failure::new(error.errno().number(), error.to_string())
}

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
            return Err(negative(descriptor));
        }
        // SAFETY:
        // - not −1, as checked above
        // - the borrow ends with the next call, fcntl(2), which fails if the descriptor is not open
        let ours = duplicate(unsafe { BorrowedFd::borrow_raw(descriptor) })?;
        let FileIndex(index) = host.lock()?.register_file(ours)?;
        c_int::try_from(index)
            .map_err(|_| Failure::new(libc::EMFILE, "the session's file table is too large"))
    })
}

/// Maps a file that the program has open: 0 and its mapping, or −1.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed; `into` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_map(
    pointer: *mut Host,
    descriptor: c_int,
    access: c_int,
    into: *mut u64,
) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        if descriptor < 0 {
            return Err(negative(descriptor));
        }
        if into.is_null() {
            return Err(Failure::new(libc::EINVAL, "the pointer to the gpufs_mapping is null"));
        }
        // SAFETY:
        // - not −1, as checked above
        // - the borrow ends with the next call, fcntl(2), which fails if the descriptor is not open
        let ours = duplicate(unsafe { BorrowedFd::borrow_raw(descriptor) })?;
        let mut session = host.lock()?;
        let number = match access {
            0 => number_of(session.map(ours)?.entry(), false),
            1 => number_of(session.map_mut(ours)?.entry(), true),
            _ => {
                return Err(Failure::new(
                    libc::EINVAL,
                    format!("gpufs_host_map: there is no access {access}"),
                ));
            }
        };
        // SAFETY:
        // - not null, as checked above, and may be written, by this function's contract
        unsafe { into.write(number) };
        Ok(0)
    })
}

/// Takes a mapping back.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_unmap(pointer: *mut Host, mapping: u64) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        let mut session = host.lock()?;
        match entry_of(mapping) {
            ((entry, generation), true) => session.unmap_mut(MappingMut::of_entry(entry, generation))?,
            ((entry, generation), false) => session.unmap(Mapping::of_entry(entry, generation))?,
        }
        Ok(0)
    })
}

/// Takes a file back from kernels.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_unregister_file(pointer: *mut Host, descriptor: c_int) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        let index = u32::try_from(descriptor).map_err(|_| negative(descriptor))?;
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
            let text = format!("a buffer of {bytes} bytes is larger than memory can be");
            return Err(Failure::new(libc::ENOMEM, text));
        }
        let buffer = host.lock()?.register_buffer(bytes)?;
        Ok(buffer.as_ptr().cast())
    })
}

/// Opens a stream for kernels. Null on error.
///
/// # Safety
/// - `pointer` is null or from `gpufs_host_open` and not closed.
/// - Each string is null or ends with a NUL.
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
            let null = if path.is_null() { "path" } else { "mode" };
            return Err(Failure::new(libc::EFAULT, format!("the {null} is null")));
        }
        // SAFETY:
        // - not null, as checked above
        // - ends with a NUL, and the caller leaves it alone during the call, by this function's contract
        let path = unsafe { CStr::from_ptr(path) };
        // SAFETY:
        // - as for the path
        let mode = unsafe { CStr::from_ptr(mode) };
        let mut session = host.lock()?;
        let tables = session.device_tables();
        let opened = session.with_tables(|fs| fs.fopen(path, mode).map(|file| file.to_handle_at(tables)))?;
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
        session.with_tables(|fs| File::from_handle_at(file.addr() as u64, tables, fs)?.fclose())??;
        Ok(0)
    })
}

/// Opens a stream for kernels on a file that the program has open and keeps. Null on error.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed; `mode` is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_fdopen(
    pointer: *mut Host,
    descriptor: c_int,
    mode: *const c_char,
) -> *mut c_void {
    guarded(core::ptr::null_mut(), || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        if mode.is_null() {
            return Err(Failure::new(libc::EFAULT, "the mode is null"));
        }
        if descriptor < 0 {
            return Err(negative(descriptor));
        }
        // SAFETY:
        // - not null, as checked above; ends with a NUL, and the caller leaves it alone during the call, by this function's contract
        let mode = unsafe { CStr::from_ptr(mode) }.to_string_lossy();
        // SAFETY:
        // - not −1, as checked above
        // - the borrow ends with the next call, fcntl(2), which fails if the descriptor is not open
        let ours = duplicate(unsafe { BorrowedFd::borrow_raw(descriptor) })?;
        let mut session = host.lock()?;
        let tables = session.device_tables();
        let file = session.fdopen(ours, &mode).map_err(|error| refused(&error))?;
        let handle =
            session.with_tables(|fs| file.get_at(fs, tables).map(|file| file.to_handle_at(tables)))??;
        Ok(core::ptr::without_provenance_mut(usize::try_from(handle).unwrap_or(0)))
    })
}

/// A descriptor of the process for a stream's file, which the program closes; or −1.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_fileno(pointer: *mut Host, file: *mut c_void) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        let mut session = host.lock()?;
        let tables = session.device_tables();
        let file = session.with_tables(|fs| {
            File::from_handle_at(file.addr() as u64, tables, fs).map(|file| FileHandle::new(file, tables))
        })??;
        Ok(session.fileno(file).map_err(|error| refused(&error))?.into_raw_fd())
    })
}

/// `gpufs_service`.
pub type Service = Option<unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void) -> c_int>;

/// What a service's function gets besides a request.
#[derive(Clone, Copy)]
struct Context(*mut c_void);

// SAFETY:
// - the program's, which hands it to a function that runs on several threads (`gpufs_host_add_service`)
unsafe impl Send for Context {}
// SAFETY:
// - as above
unsafe impl Sync for Context {}

impl Context {
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

/// Lets kernels call a function of the program. 0, or −1.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed; `name` is null or ends with a NUL. `function` is null, or may be called with
/// `context` on any thread, several times at once, until the host is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_add_service(
    pointer: *mut Host,
    name: *const c_char,
    request_bytes: usize,
    reply_bytes: usize,
    function: Service,
    context: *mut c_void,
) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        let (false, Some(function)) = (name.is_null(), function) else {
            return Err(Failure::new(libc::EINVAL, "the service's name or its function is null"));
        };
        // SAFETY:
        // - not null, and ends with a NUL, by this function's contract
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let context = Context(context);
        let call = move |request: &[u8], reply: &mut [u8]| {
            // SAFETY:
            // - by this function's contract; the memory is as long as the function was added with, and lives during the call
            match unsafe { function(context.pointer(), request.as_ptr().cast(), reply.as_mut_ptr().cast()) } {
                0 => Ok(()),
                number @ 1..=4095 => Err(Errno::from_number(number)),
                _ => Err(Errno::IO),
            }
        };
        host.lock()?.add_service_of_bytes(&name, (request_bytes, reply_bytes), call).map_err(|error| {
            let errno = if matches!(error, ServiceError::Taken { .. }) { libc::EEXIST } else { libc::EINVAL };
            Failure::new(errno, error.to_string())
        })?;
        Ok(0)
    })
}
