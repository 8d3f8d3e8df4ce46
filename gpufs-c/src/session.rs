//! Opening, launching, synchronizing, closing.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpufs_core::session::SessionTables;
use gpufs_core::word::SharedWord;
use gpufs_device::Fs;
use gpufs_device_c::used::{gpufs_raw_use_session, stop_using};
use gpufs_host::session::Owner;
use gpufs_host::{Grid, Session};

use crate::error::{Failure, guarded};
use crate::options::{Chosen, Options, chosen};
use crate::text::put;

/// `gpufs_host`: a session and its lock.
#[derive(Debug)]
pub struct Host {
    session: Mutex<Session>,
    /// The process that opened it.
    owner: Owner,
    /// The address of the session's tables on its device. It never changes.
    tables: u64,
    /// 1 while kernels may use the tables: always on CPU lanes; on a GPU between `gpufs_host_begin` and `gpufs_host_synchronize`. It
    /// changes under the lock. `gpufs_host_session` reads it without the lock, which `gpufs_host_synchronize` holds for long.
    begun: SharedWord,
    on_gpu: bool,
}

impl Host {
    /// The session.
    ///
    /// # Errors
    /// `EPERM` in a forked child. It is checked before the lock is touched, because a thread of the parent may have held the lock.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Session>, Failure> {
        self.owner.check()?;
        // A panic leaves the session in a state that its own rules allow.
        Ok(self.session.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// `GPUFS_CPU`.
const CPU: c_int = 0;
/// `GPUFS_CUDA`.
const CUDA: c_int = 1;
/// `GPUFS_HIP`.
const HIP: c_int = 2;

/// A program without kernels: the CUDA runtime loads the caller's own.
#[cfg(feature = "cuda")]
const NO_KERNELS: &[u8] =
    b".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .align 4 .u32 gpufs_no_kernels;\n\0";
/// The same for AMD GPUs: empty, since no code object loads on every GPU.
#[cfg(feature = "hip")]
const NO_CODE_OBJECT: &[u8] = b"";

/// The host session of a pointer.
///
/// # Errors
/// `EINVAL` for null.
///
/// # Safety
/// `host` is null, or from `gpufs_host_open` and not closed while the result is used.
pub(crate) unsafe fn host<'a>(host: *const Host) -> Result<&'a Host, Failure> {
    // SAFETY:
    // - if not null, `gpufs_host_open` made it with `Box::into_raw`, so that it is aligned and initialized, by this function's contract
    // - it is not freed while the result is used, by this function's contract
    // - nothing borrows it mutably: other threads have shared references only
    unsafe { host.as_ref() }.ok_or_else(Failure::no_host)
}

/// Opens a session on a device, `GPUFS_CPU`, `GPUFS_CUDA` or `GPUFS_HIP`; `options` may be null. Null on error.
///
/// # Safety
/// `options` is null or a `gpufs_options` with its `size` set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_open(device: c_int, ordinal: u32, options: *const Options) -> *mut Host {
    guarded(core::ptr::null_mut(), || {
        // SAFETY:
        // - this function's contract
        let Chosen { builder, cpu } = unsafe { chosen(options)? };
        let session = match device {
            CPU if ordinal == 0 => builder.cpu_with(cpu)?,
            CPU => {
                let text = format!("the ordinal of GPUFS_CPU is {ordinal}, and must be 0");
                return Err(Failure::new(libc::EINVAL, text));
            }
            #[cfg(feature = "cuda")]
            CUDA => builder.cuda(ordinal, NO_KERNELS)?,
            #[cfg(not(feature = "cuda"))]
            CUDA => {
                return Err(Failure::new(
                    libc::ENODEV,
                    "this libgpufs was built without NVIDIA GPUs; build gpufs-c with its feature cuda",
                ));
            }
            #[cfg(feature = "hip")]
            HIP => builder.hip(ordinal, NO_CODE_OBJECT)?,
            #[cfg(not(feature = "hip"))]
            HIP => {
                return Err(Failure::new(
                    libc::ENODEV,
                    "this libgpufs was built without AMD GPUs, which need libamdhip64; link libgpufs_hip, which 'cargo xtask dist DIR hip' \
                     builds (in CMake gpufs::host_hip), or build gpufs-c with its feature hip",
                ));
            }
            other => {
                let text = format!("there is no device {other}; use GPUFS_CPU, GPUFS_CUDA or GPUFS_HIP");
                return Err(Failure::new(libc::EINVAL, text));
            }
        };
        let (owner, tables, on_gpu) = (session.owner(), session.device_tables(), device != CPU);
        let begun = SharedWord::new((!on_gpu).into());
        Ok(Box::into_raw(Box::new(Host { session: Mutex::new(session), owner, tables, begun, on_gpu })))
    })
}

/// Synchronizes and closes. 0, or −1 with the error of `gpufs_host_synchronize`; it is closed in any case. In a forked child it does nothing
/// and fails with `EPERM`.
///
/// # Safety
/// `host` is null or from `gpufs_host_open`, and not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_close(host: *mut Host) -> c_int {
    guarded(-1, || {
        if host.is_null() {
            return Err(Failure::no_host());
        }
        // SAFETY:
        // - not null, as checked above; from `gpufs_host_open` and not closed, by this function's contract
        unsafe { &*host }.owner.check()?;
        // SAFETY:
        // - `gpufs_host_open` made it with `Box::into_raw`, by this function's contract
        // - no other thread uses it, and this is its last use, by this function's contract
        let owned = unsafe { Box::from_raw(host) };
        let mut session = owned.session.into_inner().unwrap_or_else(PoisonError::into_inner);
        let outcome = session.synchronize();
        stop_using(owned.tables);
        drop(session);
        outcome?;
        Ok(0)
    })
}

/// The session that kernels take. Null for null, and on a GPU outside `gpufs_host_begin` and `gpufs_host_synchronize`: calls of a kernel that
/// is launched too early then fail with `EINVAL` and do not touch tables that are not there.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_session(pointer: *const Host) -> *const SessionTables {
    guarded(core::ptr::null(), || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        host.owner.check()?;
        // ORDERING: relaxed, host threads: orders nothing. A caller that races with `gpufs_host_begin` or `gpufs_host_synchronize` may get
        // either answer; other callers have ordered the calls themselves.
        if host.begun.peek() == 0 {
            return Err(Failure::new(
                libc::EINVAL,
                "there is no session for kernels of a GPU: call gpufs_host_begin first, and again after each gpufs_host_synchronize",
            ));
        }
        Ok(core::ptr::with_exposed_provenance(usize::try_from(host.tables).unwrap_or(0)))
    })
}

/// Makes a session on CPU lanes the one that calls without a session go to; null for none. A session on a GPU is `EXDEV`: the word is in the
/// memory of the program's kernels, and `include/gpufs/use.h` sets it there.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_use(pointer: *const Host) -> c_int {
    guarded(-1, || {
        if pointer.is_null() {
            gpufs_raw_use_session(core::ptr::null());
            return Ok(0);
        }
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        host.owner.check()?;
        if host.on_gpu {
            return Err(Failure::new(
                libc::EXDEV,
                "the session is on a GPU: include <gpufs/use.h> in the CUDA or HIP file that launches the kernels, and call \
                 gpufs_host_use there",
            ));
        }
        gpufs_raw_use_session(core::ptr::with_exposed_provenance(usize::try_from(host.tables).unwrap_or(0)));
        Ok(0)
    })
}

/// A kernel for CPU lanes.
pub type Kernel = unsafe extern "C-unwind" fn(*const SessionTables, *mut c_void);

/// The call that every lane makes.
#[derive(Clone, Copy)]
struct Call {
    kernel: Kernel,
    argument: *mut c_void,
}

// SAFETY:
// - any thread may use the function and the argument, by the contract of `gpufs_host_launch`
unsafe impl Send for Call {}
// SAFETY:
// - all threads of a launch may use both at once, by the contract of `gpufs_host_launch`
unsafe impl Sync for Call {}

impl Call {
    fn make(&self, fs: Fs) {
        // SAFETY:
        // - the kernel uses them through the calls of the library, while the launch runs
        let tables = unsafe { fs.tables() };
        // SAFETY:
        // - the kernel may be called with this argument from any lane, by the contract of `gpufs_host_launch`
        // - the tables live until the session is closed, which waits for its kernels
        unsafe { (self.kernel)(tables, self.argument) };
    }
}

/// Starts `kernel` on CPU lanes, once for each thread of the grid, and returns.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed; `kernel` is null or may be called from many threads at once with
/// `argument`, which stays until the session is synchronized.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_launch(
    pointer: *mut Host,
    blocks: u32,
    threads: u32,
    kernel: Option<Kernel>,
    argument: *mut c_void,
) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        let kernel = kernel.ok_or_else(|| Failure::new(libc::EINVAL, "the kernel is null"))?;
        let call = Call { kernel, argument };
        host.lock()?.launch(Grid { blocks, threads }, move |fs| call.make(fs))?;
        Ok(0)
    })
}

/// Makes the session ready for kernels that the program launches itself.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_begin(pointer: *mut Host) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        let mut session = host.lock()?;
        session.begin_external()?;
        // ORDERING: relaxed, host threads: orders nothing; see `gpufs_host_session`.
        host.begun.set(1);
        Ok(0)
    })
}

/// Lets kernels have the rights that the calling thread has now.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_adopt_credentials(pointer: *mut Host) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        host.lock()?.adopt_credentials()?;
        Ok(0)
    })
}

/// Waits for all kernels, and writes what their streams hold.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_synchronize(pointer: *mut Host) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        let mut session = host.lock()?;
        if host.on_gpu {
            // ORDERING: relaxed, host threads: orders nothing; see `gpufs_host_session`.
            host.begun.set(0);
        }
        session.synchronize()?;
        Ok(0)
    })
}

/// Describes in words the device and what serves the rings, as `snprintf` does. The length of the whole text.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed; `into` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_describe(pointer: *const Host, into: *mut c_char, bytes: usize) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        let session = host.lock()?;
        let mut text = format!("{}; rings served by {}", session.device_name(), session.mode());
        for (mode, reason) in session.refused() {
            text.push_str(&format!("; not by {mode}: {reason}"));
        }
        // SAFETY:
        // - this function's contract
        Ok(unsafe { put(&text, into, bytes) })
    })
}
