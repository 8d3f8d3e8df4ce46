//! NVIDIA GPUs through the driver API, loaded when it is first used: building and running without CUDA needs none of it.
//!
//! What this does: opens a device, loads a program, gives memory, launches, and names what went wrong. What it does not: touch any
//! setting of the GPU but the stack of its own context.
//!
//! | file | what |
//! |---|---|
//! | `device.rs` | a GPU and its primary context, and getting a whole one after a fault |
//! | `program.rs` | PTX and binaries: loading, what a kernel takes, launching |
#![allow(unsafe_code, reason = "the driver's C interface")]

mod device;
mod program;

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use cudarc::driver::{DriverError, result, sys};

use crate::cpu::Grid;
use crate::gpu::{Gpu, GpuError, GpuOptions, KernelLimits, Program, Refusal, Stream};
use crate::ring::RingMemory;

use device::Device;
use program::Module;

/// `CU_MEMHOST…_PORTABLE | CU_MEMHOST…_DEVICEMAP`, the same for allocating and registering.
const PORTABLE_AND_MAPPED: u32 = 1 | 2;

/// What the driver said while `doing` something.
fn tried(doing: &str) -> impl Fn(DriverError) -> GpuError {
    move |error| {
        let said = |text: Result<&CStr, DriverError>| {
            text.map_or(String::new(), |text| text.to_string_lossy().into_owned())
        };
        let (name, text) = (said(error.error_name()), said(error.error_string()));
        let name = if name.is_empty() { format!("CUDA error {}", error.0 as u32) } else { name };
        GpuError::Refused(Refusal::new(doing, error.0 as u32, &name, &text))
    }
}

/// Opens GPU number `ordinal` with a program loaded.
pub(crate) fn open(ordinal: u32, program: &[u8], options: &GpuOptions) -> Result<Arc<dyn Gpu>, GpuError> {
    let program = Program::of(program)?;
    if let Program::Amd(_) = program {
        return Err(GpuError::Program(
            "the device program is for AMD GPUs; Builder::cuda wants PTX, a cubin or a fat binary".to_owned(),
        ));
    }
    let device = Device::open(ordinal, options.stack_bytes)?;
    let module = Module::load(device, &program, options.registers)?;
    Ok(Arc::new(Cuda { module }))
}

/// A GPU with a program loaded.
#[derive(Debug)]
struct Cuda {
    module: Module,
}

impl Cuda {
    fn bind(&self) -> Result<(), GpuError> {
        self.module.device.bind()
    }
}

/// Waits for what copies and fills have queued. Kernels run on streams of their own, which this does not wait for, and which do not wait
/// for the copies.
fn settle_copies() -> Result<(), GpuError> {
    // SAFETY:
    // - the null stream is always there
    unsafe { sys::cuStreamSynchronize(ptr::null_mut()) }.result().map_err(tried("copying to the GPU"))
}

/// Sleeps until what the stream has been given has ended; an error if it did not end well, or there is no event. The driver's other waits
/// look on.
///
/// # Safety
/// The stream is one, of the current context.
unsafe fn sleep_on(stream: sys::CUstream) -> Result<(), DriverError> {
    use sys::CUevent_flags::{CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING};
    let mut event = ptr::null_mut();
    // SAFETY:
    // - a new event, destroyed below
    unsafe {
        sys::cuEventCreate(&raw mut event, CU_EVENT_BLOCKING_SYNC as u32 | CU_EVENT_DISABLE_TIMING as u32)
    }
    .result()?;
    // SAFETY:
    // - the stream is one, by this function's contract; the event was made above
    let ended = unsafe {
        sys::cuEventRecord(event, stream).result().and_then(|()| sys::cuEventSynchronize(event).result())
    };
    // SAFETY:
    // - made above, once
    let _ = unsafe { sys::cuEventDestroy_v2(event) };
    ended
}

// SAFETY:
// - the driver knows the program's variables
// - device memory comes from the driver, is filled with zeroes, and the fill has ended when it is handed out
// - so does host memory, which the driver aligns to pages; it is zeroed here
// - the driver's device pointer reaches the host's bytes
// - a stream that has completed has no work left, and its writes to host memory are done
unsafe impl Gpu for Cuda {
    fn name(&self) -> String {
        self.module.device.name()
    }
    fn multiprocessors(&self) -> u32 {
        self.module
            .device
            .attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .unwrap_or(1)
    }
    fn ring_memories(&self) -> &'static [RingMemory] {
        &RingMemory::BEST_FIRST
    }

    fn limits(&self, kernel: &CStr) -> Result<KernelLimits, GpuError> {
        self.module.limits(kernel)
    }
    fn occupancy(&self, kernel: &CStr, threads_per_block: u32) -> Result<u32, GpuError> {
        self.module.occupancy(kernel, threads_per_block)
    }

    fn global(&self, name: &CStr) -> Option<u64> {
        self.module.global(name)
    }

    fn allocate(&self, bytes: usize) -> Result<u64, GpuError> {
        self.bind()?;
        // SAFETY:
        // - a new allocation, freed with `free`
        let address = unsafe { result::malloc_sync(bytes) }.map_err(tried("allocating device memory"))?;
        // SAFETY:
        // - allocated just now, as long
        let zeroed = unsafe { result::memset_d8_sync(address, 0, bytes) }
            .map_err(tried("zeroing device memory"))
            .and_then(|()| settle_copies());
        if let Err(error) = zeroed {
            // SAFETY:
            // - allocated above, and nobody has seen it
            unsafe { self.free(address) };
            return Err(error);
        }
        Ok(address)
    }
    unsafe fn free(&self, address: u64) {
        // After a fault the driver refuses; the memory goes with the context.
        if self.bind().is_ok() {
            // SAFETY:
            // - allocated in `allocate`, and no longer used, by this function's contract
            let _ = unsafe { result::free_sync(address) };
        }
    }
    unsafe fn write(&self, address: u64, bytes: &[u8]) -> Result<(), GpuError> {
        self.bind()?;
        // SAFETY:
        // - within an allocation that no kernel uses, by this function's contract
        unsafe { result::memcpy_htod_sync(address, bytes) }.map_err(tried("copying to the GPU"))?;
        // From pageable memory the call may return before the bytes are there.
        settle_copies()
    }
    unsafe fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), GpuError> {
        self.bind()?;
        // SAFETY:
        // - within an allocation that no kernel writes, by this function's contract
        unsafe { result::memcpy_dtoh_sync(bytes, address) }.map_err(tried("copying from the GPU"))
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        self.bind()?;
        let mut memory = ptr::null_mut();
        // SAFETY:
        // - a new allocation, freed with `free_host`
        unsafe { sys::cuMemHostAlloc(&raw mut memory, bytes, PORTABLE_AND_MAPPED) }
            .result()
            .map_err(tried("allocating pinned host memory"))?;
        let memory = NonNull::new(memory.cast::<u8>()).ok_or_else(|| {
            tried("allocating pinned host memory")(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY))
        })?;
        // SAFETY:
        // - allocated just now, as long
        unsafe { memory.write_bytes(0, bytes) };
        Ok(memory)
    }
    unsafe fn free_host(&self, memory: NonNull<u8>) {
        if self.bind().is_ok() {
            // SAFETY:
            // - allocated in `allocate_host`, and no longer used, by this function's contract
            let _ = unsafe { sys::cuMemFreeHost(memory.as_ptr().cast()) };
        }
    }
    fn device_address(&self, memory: NonNull<u8>) -> Result<NonNull<u8>, GpuError> {
        self.bind()?;
        let mut address = 0;
        // SAFETY:
        // - the driver looks the pointer up, and refuses one that it does not know
        unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut address, memory.as_ptr().cast(), 0) }
            .result()
            .map_err(tried("mapping host memory for the GPU"))?;
        NonNull::new(address as *mut u8).ok_or_else(|| {
            tried("mapping host memory for the GPU")(DriverError(sys::CUresult::CUDA_ERROR_MAP_FAILED))
        })
    }
    unsafe fn register(&self, memory: NonNull<u8>, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        self.bind()?;
        // SAFETY:
        // - mapped memory of that length until `unregister`, by this function's contract
        unsafe { sys::cuMemHostRegister_v2(memory.as_ptr().cast(), bytes, PORTABLE_AND_MAPPED) }
            .result()
            .map_err(tried("pinning host memory"))?;
        self.device_address(memory).inspect_err(|_| {
            // SAFETY:
            // - registered above, and nobody has used it
            unsafe { self.unregister(memory) };
        })
    }
    unsafe fn unregister(&self, memory: NonNull<u8>) {
        if self.bind().is_ok() {
            // SAFETY:
            // - registered in `register`, once; the GPU no longer uses it, by this function's contract
            let _ = unsafe { sys::cuMemHostUnregister(memory.as_ptr().cast()) };
        }
    }

    unsafe fn launch(
        &self,
        kernel: &CStr,
        grid: Grid,
        parameters: &mut [*mut c_void],
    ) -> Result<Stream, GpuError> {
        // SAFETY:
        // - this function's contract
        unsafe { self.module.launch(kernel, grid, parameters) }
    }
    unsafe fn poll(&self, stream: Stream) -> Result<bool, GpuError> {
        self.bind()?;
        // SAFETY:
        // - a stream of `launch`, by this function's contract
        match unsafe { sys::cuStreamQuery(stream.0 as sys::CUstream) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            ended => ended.result().map(|()| true).map_err(tried("a kernel did not end well")),
        }
    }
    unsafe fn sleep(&self, stream: Stream) -> Result<bool, GpuError> {
        self.bind()?;
        // Whether it ended ill is `poll`'s to say; an event that cannot be had says nothing of the kernel.
        // SAFETY:
        // - a stream of `launch`, by this function's contract
        Ok(unsafe { sleep_on(stream.0 as sys::CUstream) }.is_ok())
    }
    fn settle(&self) -> Result<(), GpuError> {
        self.bind()?;
        // It keeps a core busy. An event of the null stream could be slept on, but what others launch meanwhile would wait behind it.
        result::ctx::synchronize().map_err(tried("a kernel did not end well"))
    }
    unsafe fn destroy(&self, stream: Stream) {
        if self.bind().is_ok() {
            // SAFETY:
            // - a stream of `launch`, once, by this function's contract; the driver keeps it as long as its work runs
            let _ = unsafe { sys::cuStreamDestroy_v2(stream.0 as sys::CUstream) };
        }
    }
}
