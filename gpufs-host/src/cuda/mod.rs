//! NVIDIA GPUs through the driver API, loaded when it is first used: building and running without CUDA needs none of it.
//!
//! What this does: opens a device, gives a session device memory for its tables and a view of host memory for its rings and pools,
//! loads PTX, launches, waits, and names what went wrong. What it does not: touch any setting of the GPU but the stack of its own
//! context.
#![allow(unsafe_code, reason = "the driver's C interface")]

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::{DriverError, result, sys};

use crate::cpu::Grid;
use crate::ring::{CpuMemory, MemorySource};
use crate::session::DeviceMemory;

/// What the driver refused, and what that means.
#[derive(Debug)]
#[non_exhaustive]
pub enum CudaError {
    /// `libcuda.so` is not there.
    NoDriver,
    /// There is no such GPU.
    NoDevice {
        /// The one that was asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// A call failed.
    Call {
        /// What was tried.
        what: &'static str,
        /// What the driver says.
        error: DriverError,
    },
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDriver => {
                f.write_str("libcuda.so was not found: install the NVIDIA driver, or use CPU lanes")
            }
            Self::NoDevice { ordinal, count } => {
                write!(f, "there is no GPU {ordinal}: the driver sees {count}, numbered from 0")
            }
            Self::Call { what, error } => {
                let name = error.error_name().map_or("unknown error".into(), CStr::to_string_lossy);
                let text = error.error_string().map_or("".into(), CStr::to_string_lossy);
                write!(f, "{what}: {name} ({text})")
            }
        }
    }
}

impl std::error::Error for CudaError {}

impl From<CudaError> for io::Error {
    fn from(error: CudaError) -> Self {
        Self::other(error)
    }
}

fn tried(what: &'static str) -> impl Fn(DriverError) -> CudaError {
    move |error| CudaError::Call { what, error }
}

/// A GPU with its primary context.
#[derive(Debug)]
pub(crate) struct Device {
    device: sys::CUdevice,
    context: sys::CUcontext,
}

// SAFETY:
// - a context may be made current on any thread, on several at once
unsafe impl Send for Device {}
// SAFETY:
// - as for `Send`
unsafe impl Sync for Device {}

impl Device {
    /// Opens GPU number `ordinal`, with `stack_bytes` of stack for each thread of a kernel.
    pub(crate) fn open(ordinal: u32, stack_bytes: usize) -> Result<Arc<Self>, CudaError> {
        // SAFETY:
        // - loads a library by its name; its initializers are the driver's
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoDriver);
        }
        result::init().map_err(tried("starting the driver"))?;
        let count = result::device::get_count().map_err(tried("counting GPUs"))?.cast_unsigned();
        if ordinal >= count {
            return Err(CudaError::NoDevice { ordinal, count });
        }
        let device = result::device::get(ordinal.cast_signed()).map_err(tried("opening the GPU"))?;
        // SAFETY:
        // - `device` is one; released when this is dropped
        let context =
            unsafe { result::primary_ctx::retain(device) }.map_err(tried("opening the GPU's context"))?;
        let opened = Arc::new(Self { device, context });
        opened.bind()?;
        result::ctx::set_limit(sys::CUlimit::CU_LIMIT_STACK_SIZE, stack_bytes)
            .map_err(tried("setting the stack of a thread"))?;
        Ok(opened)
    }

    /// Makes the context current on the calling thread.
    pub(crate) fn bind(&self) -> Result<(), CudaError> {
        // SAFETY:
        // - the context is retained as long as `self`
        unsafe { result::ctx::set_current(self.context) }.map_err(tried("choosing the GPU's context"))
    }

    /// The GPU's name.
    pub(crate) fn name(&self) -> String {
        result::device::get_name(self.device).unwrap_or_else(|_| "unknown GPU".to_owned())
    }

    /// Waits until everything launched has ended.
    pub(crate) fn synchronize(&self) -> Result<(), CudaError> {
        self.bind()?;
        result::ctx::synchronize().map_err(tried("a kernel"))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY:
        // - retained in `open`, once
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// Device memory that holds a session's tables.
#[derive(Debug)]
pub(crate) struct Tables {
    device: Arc<Device>,
    address: sys::CUdeviceptr,
}

impl Tables {
    pub(crate) fn allocate(device: &Arc<Device>, bytes: usize) -> Result<Self, CudaError> {
        device.bind()?;
        // SAFETY:
        // - a new allocation, freed when this is dropped
        let address = unsafe { result::malloc_sync(bytes) }.map_err(tried("allocating device memory"))?;
        Ok(Self { device: Arc::clone(device), address })
    }
}

impl DeviceMemory for Tables {
    fn address(&self) -> u64 {
        self.address
    }
    fn write(&self, image: &[u8]) -> io::Result<()> {
        self.device.bind()?;
        // SAFETY:
        // - the allocation is as long as the image, and no kernel runs (contract of the trait)
        Ok(unsafe { result::memcpy_htod_sync(self.address, image) }
            .map_err(tried("copying tables to the GPU"))?)
    }
    fn read(&self, image: &mut [u8]) -> io::Result<()> {
        self.device.bind()?;
        // SAFETY:
        // - the allocation is as long as the image, and no kernel runs (contract of the trait)
        Ok(unsafe { result::memcpy_dtoh_sync(image, self.address) }
            .map_err(tried("copying tables from the GPU"))?)
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY:
            // - allocated in `allocate`; the session that used it is gone
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Host memory that the GPU reaches: ordinary pages, pinned and mapped by the driver.
#[derive(Clone, Debug)]
pub(crate) struct Pinned(pub(crate) Arc<Device>);

// SAFETY:
// - allocation is `CpuMemory`'s, whose promises hold
// - registering pins the pages where they are, and the address that the driver gives reaches them until unregistered
unsafe impl MemorySource for Pinned {
    fn allocate(&self, bytes: usize, align: usize) -> io::Result<NonNull<u8>> {
        CpuMemory.allocate(bytes, align)
    }
    unsafe fn free(&self, memory: NonNull<u8>, bytes: usize) {
        // SAFETY:
        // - this function's contract is `CpuMemory`'s
        unsafe { CpuMemory.free(memory, bytes) };
    }
    unsafe fn share(&self, memory: NonNull<u8>, bytes: usize) -> io::Result<NonNull<u8>> {
        const PORTABLE_AND_MAPPED: u32 = 1 | 2;
        self.0.bind()?;
        let pointer = memory.as_ptr().cast::<c_void>();
        // SAFETY:
        // - mapped memory of that length until `unshare`, by this function's contract
        unsafe { sys::cuMemHostRegister_v2(pointer, bytes, PORTABLE_AND_MAPPED) }
            .result()
            .map_err(tried("pinning host memory"))?;
        let mut address = 0;
        // SAFETY:
        // - `pointer` was just registered
        unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut address, pointer, 0) }
            .result()
            .map_err(tried("mapping host memory for the GPU"))?;
        NonNull::new(address as *mut u8).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }
    unsafe fn unshare(&self, memory: NonNull<u8>, _bytes: usize) {
        if self.0.bind().is_ok() {
            // SAFETY:
            // - registered in `share`, once; the GPU no longer uses it, by this function's contract
            let _ = unsafe { sys::cuMemHostUnregister(memory.as_ptr().cast()) };
        }
    }
}

/// What an image begins with that was assembled before (`ptxas`).
const ELF: &[u8] = b"\x7fELF";

/// A loaded program.
#[derive(Debug)]
pub(crate) struct Module {
    device: Arc<Device>,
    module: sys::CUmodule,
}

// SAFETY:
// - a module may be used from any thread on which its context is current
unsafe impl Send for Module {}

impl Module {
    /// Loads PTX, which the driver compiles, or an image that was assembled before.
    pub(crate) fn load(device: &Arc<Device>, ptx: &[u8]) -> Result<Self, CudaError> {
        device.bind()?;
        let image = if ptx.starts_with(ELF) {
            ptx.to_vec()
        } else {
            CString::new(ptx.strip_suffix(b"\0").unwrap_or(ptx)).unwrap_or_default().into_bytes_with_nul()
        };
        // SAFETY:
        // - NUL-terminated PTX, which the driver reads and checks, or an image that `ptxas` made, which says how long it is
        let module = unsafe { result::module::load_data(image.as_ptr().cast()) }
            .map_err(tried("loading the program"))?;
        Ok(Self { device: Arc::clone(device), module })
    }

    /// Starts the kernel `name` with the session's tables and the bytes of its arguments.
    ///
    /// # Safety
    /// The kernel takes a pointer to a session and one value of the layout of `arguments`; what they refer to stays until it ends.
    pub(crate) unsafe fn launch(
        &self,
        name: &CStr,
        grid: Grid,
        session: u64,
        arguments: *mut c_void,
    ) -> Result<(), CudaError> {
        self.device.bind()?;
        // SAFETY:
        // - the module is loaded as long as `self`
        let function = unsafe { result::module::get_function(self.module, name.to_owned()) }
            .map_err(tried("finding the kernel in the program"))?;
        let mut session = session;
        let mut parameters = [(&raw mut session).cast::<c_void>(), arguments];
        // SAFETY:
        // - the parameters are the kernel's, by this function's contract; the driver copies them before it returns
        unsafe {
            result::launch_kernel(
                function,
                (grid.blocks, 1, 1),
                (grid.threads, 1, 1),
                0,
                result::stream::null(),
                &mut parameters,
            )
        }
        .map_err(tried("launching a kernel"))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY:
            // - loaded in `load`; the session that ran its kernels is gone
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}
