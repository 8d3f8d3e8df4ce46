//! Opening, launching, synchronizing, closing.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpufs_core::session::SessionTables;
use gpufs_host::session::Owner;
use gpufs_host::{Grid, Session};

use crate::error::{Failure, guarded};
use crate::options::{FailureKind, Options, Statistics, builder, number_of};

/// `gpufs_host`: a session and its lock.
#[derive(Debug)]
pub struct Host {
    session: Mutex<Session>,
    /// The process that opened it.
    owner: Owner,
    /// What never changes and is asked for often.
    tables: u64,
    /// Whether kernels may use the tables: always on CPU lanes; on a GPU between `gpufs_host_begin` and `gpufs_host_synchronize`. It
    /// changes under the lock, and orders nothing: who asks while another thread changes it may get either answer.
    begun: AtomicBool,
    on_gpu: bool,
}

impl Host {
    /// The session. In a forked child an error, before its lock is looked at, which a thread of the parent may have held.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Session>, Failure> {
        self.owner.check()?;
        // What panicked has left the session as its own rules leave it.
        Ok(self.session.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// `GPUFS_CPU`.
const CPU: c_int = 0;
/// `GPUFS_CUDA`.
const CUDA: c_int = 1;
/// `GPUFS_HIP`.
const HIP: c_int = 2;

/// A program without kernels: the caller's own are the CUDA runtime's business.
#[cfg(feature = "cuda")]
const NO_KERNELS: &[u8] =
    b".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .align 4 .u32 gpufs_no_kernels;\n\0";
/// The same for AMD GPUs, where there is no form that every GPU loads.
#[cfg(feature = "hip")]
const NO_CODE_OBJECT: &[u8] = b"";

/// The host session of a pointer.
///
/// # Errors
/// `EINVAL` for null.
///
/// # Safety
/// Null, or from `gpufs_host_open` and not closed while the result is used.
pub(crate) unsafe fn host<'a>(host: *const Host) -> Result<&'a Host, Failure> {
    // SAFETY:
    // - by this function's contract
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
        let (builder, cpu) = unsafe { builder(options)? };
        let session = match device {
            CPU if ordinal == 0 => builder.cpu_with(cpu)?,
            CPU => return Err(Failure::new(libc::EINVAL, "there is one CPU device, number 0")),
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
                    "this libgpufs was built without AMD GPUs, which want libamdhip64: link libgpufs_hip, which 'cargo xtask dist DIR hip' \
                     builds (in CMake gpufs::host_hip), or build gpufs-c with its feature hip",
                ));
            }
            other => return Err(Failure::new(libc::EINVAL, format!("there is no kind of device {other}"))),
        };
        let (owner, tables, on_gpu) = (session.owner(), session.device_tables(), device != CPU);
        let begun = AtomicBool::new(!on_gpu);
        Ok(Box::into_raw(Box::new(Host { session: Mutex::new(session), owner, tables, begun, on_gpu })))
    })
}

/// Synchronizes and closes. 0, or −1 with what `gpufs_host_synchronize` says; it is closed in any case. In a forked child −1 with `EPERM`, and
/// nothing is done.
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
        // - not null; this function's contract
        unsafe { &*host }.owner.check()?;
        // SAFETY:
        // - made by `gpufs_host_open`, and nobody else uses it any more, by this function's contract
        let owned = unsafe { Box::from_raw(host) };
        let mut session = owned.session.into_inner().unwrap_or_else(PoisonError::into_inner);
        let outcome = session.synchronize();
        drop(session);
        outcome?;
        Ok(0)
    })
}

/// What kernels get as their session. Null for null, and on a GPU while it is not begun, so that a kernel that was launched too early gets
/// `EINVAL` where it would meet tables that are not there.
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
        if !host.begun.load(Ordering::Relaxed) {
            return Err(Failure::new(
                libc::EINVAL,
                "kernels of a GPU have no session before gpufs_host_begin, nor after gpufs_host_synchronize until the next",
            ));
        }
        Ok(core::ptr::with_exposed_provenance(usize::try_from(host.tables).unwrap_or(0)))
    })
}

/// A kernel for CPU lanes.
pub type Kernel = unsafe extern "C-unwind" fn(*const SessionTables, *mut c_void);

/// What every lane calls.
#[derive(Clone, Copy)]
struct Call {
    kernel: Kernel,
    argument: *mut c_void,
}

// SAFETY:
// - that all threads of a launch may use function and argument at once is the contract of `gpufs_host_launch`
unsafe impl Send for Call {}
// SAFETY:
// - as for `Send`
unsafe impl Sync for Call {}

impl Call {
    fn make(&self, tables: &'static SessionTables) {
        // SAFETY:
        // - the contract of `gpufs_host_launch`
        unsafe { (self.kernel)(tables, self.argument) };
    }
}

/// Runs `kernel` on CPU lanes, once for each thread of the grid, and returns before it has ended.
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
        host.lock()?.launch(Grid { blocks, threads }, move |tables| call.make(tables))?;
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
        host.begun.store(true, Ordering::Relaxed);
        Ok(0)
    })
}

/// Waits for all kernels and writes what their streams hold.
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
            host.begun.store(false, Ordering::Relaxed);
        }
        session.synchronize()?;
        Ok(0)
    })
}

/// What the session has done so far.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed; `into` is null or a `gpufs_statistics` with its `size` set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_statistics(pointer: *const Host, into: *mut Statistics) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        if into.is_null() {
            return Err(Failure::new(libc::EINVAL, "the statistics are null"));
        }
        // SAFETY:
        // - this function's contract
        let size = unsafe { (*into).size };
        if size < size_of::<usize>() {
            return Err(Failure::new(libc::EINVAL, "gpufs_statistics: size is not sizeof(gpufs_statistics)"));
        }
        let session = host.lock()?;
        let (all, mode) = (session.statistics(), number_of(session.mode()));
        let total = all.total();
        let found = Statistics {
            size,
            rings: u32::try_from(all.rings.len()).unwrap_or(u32::MAX),
            mode,
            operations: total.operations,
            publications: total.publications,
            completions: total.completions,
            empty_looks: total.empty_looks,
            stale: total.stale,
            slot_waits: total.slot_waits,
            bytes_read: total.bytes_read,
            bytes_written: total.bytes_written,
            wake_ups: total.wake_ups,
            failed_calls: all
                .failures
                .map_or(u64::MAX, |failures| failures.iter().map(|failure| failure.count).sum()),
        };
        // SAFETY:
        // - `size` bytes are there, by this function's contract, and no more than the shorter one has are copied
        unsafe {
            core::ptr::copy_nonoverlapping(
                (&raw const found).cast::<u8>(),
                into.cast::<u8>(),
                size.min(size_of::<Statistics>()),
            );
        }
        Ok(0)
    })
}

/// Which calls failed, a kind of failure each: how many kinds there are, of which `into` gets as many as there is room for.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed; `into` is null or has room for `room` kinds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_failures(
    pointer: *const Host,
    into: *mut FailureKind,
    room: usize,
) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let host = unsafe { host(pointer)? };
        let failures = host.lock()?.statistics().failures.ok_or_else(|| {
            Failure::new(
                libc::ENODATA,
                "which calls failed is not known: they were counted in the memory of the GPU, which died",
            )
        })?;
        let room = if into.is_null() { 0 } else { room };
        for (index, failure) in failures.iter().take(room).enumerate() {
            let kind = FailureKind {
                call: failure.call.c_name().as_ptr(),
                error: failure.errno.map_or(0, gpufs_device::Errno::number),
                reserved: 0,
                count: failure.count,
            };
            // SAFETY:
            // - within the room, by this function's contract
            unsafe { into.add(index).write(kind) };
        }
        Ok(c_int::try_from(failures.len()).unwrap_or(c_int::MAX))
    })
}

/// Says in words what the session runs on and who serves its rings, as `snprintf` does: the length of the whole text.
///
/// # Safety
/// `pointer` is null or from `gpufs_host_open` and not closed; `into` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpufs_host_describe(pointer: *const Host, into: *mut c_char, bytes: usize) -> c_int {
    guarded(-1, || {
        // SAFETY:
        // - this function's contract
        let session = unsafe { host(pointer)? }.lock()?;
        let mut text = format!("{}; rings served by {}", session.device_name(), session.mode());
        for (mode, reason) in session.refused() {
            text.push_str(&format!("; not by {mode}: {reason}"));
        }
        if !into.is_null() && bytes > 0 {
            let kept = text.len().min(bytes - 1);
            // SAFETY:
            // - `kept` and a NUL fit, by this function's contract
            unsafe {
                core::ptr::copy_nonoverlapping(text.as_ptr().cast(), into, kept);
                *into.add(kept) = 0;
            }
        }
        Ok(c_int::try_from(text.len()).unwrap_or(c_int::MAX))
    })
}
