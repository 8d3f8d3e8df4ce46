//! NVIDIA GPUs through the driver API, loaded when it is first used: building and running without CUDA needs none of it.
//!
//! This opens a device, loads a program, and has the driver's calls, one by one; `gpu/runtime` puts them together. It changes no
//! setting of the GPU except the stack of its own context.
//!
//! | file | what |
//! |---|---|
//! | `bus.rs` | what bulk transfers need |
//! | `device.rs` | a GPU and its primary context, and getting a whole one after a fault |
//! | `program.rs` | PTX and binaries: loading them, and what they hold |
//! | `survey.rs` | which GPUs the driver has |
#![expect(unsafe_code, reason = "the driver's C interface")]

mod bus;
mod device;
mod program;
mod survey;

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use cudarc::driver::{DriverError, result, sys};

use crate::cpu::Grid;
use crate::gpu::{
    Gpu, GpuError, GpuOptions, KernelAttribute, Program, Refusal, Runtime, RuntimeGpu, Stream, limits_of,
    shown,
};
use crate::ring::RingMemory;

use device::Device;
use program::Module;

pub(crate) use bus::bus;
pub(crate) use survey::{Found, survey};

/// `CU_MEMHOST…_PORTABLE | CU_MEMHOST…_DEVICEMAP`, the same for allocating and registering.
const PORTABLE_AND_MAPPED: u32 = 1 | 2;

/// What the driver says of an error, with what the call was for.
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
    let gpu = RuntimeGpu(Cuda { module: Module::load(device, &program, options.registers)? });
    // The driver loads a kernel's code when it is first used, and may wait for running kernels to do so. A running kernel that waits for
    // the other would then wait for ever.
    for kernel in program.kernels() {
        let _ = gpu.limits(&kernel);
    }
    Ok(Arc::new(gpu))
}

/// A GPU with a program loaded.
#[derive(Debug)]
struct Cuda {
    module: Module,
}

/// Sleeps until the stream's work has ended; an error if it did not end well, or there is no event. The driver's other waits keep a
/// core busy.
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
    let recorded = unsafe { sys::cuEventRecord(event, stream) }.result();
    let ended = recorded.and_then(|()| {
        // SAFETY:
        // - the event was made and recorded above
        unsafe { sys::cuEventSynchronize(event) }.result()
    });
    // SAFETY:
    // - made above, once
    let _ = unsafe { sys::cuEventDestroy_v2(event) };
    ended
}

// SAFETY:
// - the driver knows the program's variables
// - memory comes from the driver, which aligns that of the host to pages
// - the driver's device pointer reaches the host's bytes
// - the null stream's work has ended when it is synchronized with
// - a stream that has completed has no work left, and its writes to host memory are done
unsafe impl Runtime for Cuda {
    type Error = DriverError;
    type Function = sys::CUfunction;

    const RING_MEMORIES: &'static [RingMemory] = &RingMemory::BEST_FIRST;
    const ARGUMENTS_BY_ADDRESS: bool = false;
    const SLEEPS: bool = true;

    fn explain(doing: &str, error: DriverError) -> GpuError {
        tried(doing)(error)
    }
    fn explain_launch(&self, kernel: &CStr, grid: Grid, error: DriverError) -> GpuError {
        use sys::CUdevice_attribute as Attribute;
        let refused = tried(&format!("launching the kernel {}", shown(kernel)))(error);
        let about_size = matches!(
            error.0,
            sys::CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES | sys::CUresult::CUDA_ERROR_INVALID_VALUE
        );
        let (true, Ok(limits)) = (about_size, limits_of(self, kernel)) else { return refused };
        let registers = limits.registers.unwrap_or(0);
        let of_block = self.module.device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
        refused.explained(&format!(
            "A block of {} threads × {registers} registers wants {} registers; a block has {}, and this kernel runs with at most {} \
             threads a block: use fewer threads a block, or lower Builder::gpu_registers.",
            grid.threads,
            u64::from(grid.threads) * u64::from(registers),
            of_block.map_or("a limited number".to_owned(), |number| number.to_string()),
            limits.threads_per_block,
        ))
    }

    fn bind(&self) -> Result<(), GpuError> {
        self.module.device.bind()
    }
    fn name(&self) -> String {
        self.module.device.name()
    }
    fn multiprocessors(&self) -> u32 {
        self.module
            .device
            .attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .unwrap_or(1)
    }

    fn function(&self, kernel: &CStr) -> Result<sys::CUfunction, GpuError> {
        self.module.function(kernel)
    }
    fn variable(&self, name: &CStr) -> Option<u64> {
        self.module.variable(name)
    }
    unsafe fn attribute(
        &self,
        function: sys::CUfunction,
        which: KernelAttribute,
    ) -> Result<u32, DriverError> {
        use sys::CUfunction_attribute_enum as Attribute;
        let attribute = match which {
            KernelAttribute::Registers => Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS,
            KernelAttribute::StackBytes => Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
            KernelAttribute::ThreadsPerBlock => Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        };
        let mut value = 0;
        // SAFETY:
        // - a function of the loaded module, by this function's contract
        // - the driver writes one number, which is borrowed for the call
        unsafe { sys::cuFuncGetAttribute(&raw mut value, attribute, function) }.result()?;
        Ok(value.cast_unsigned())
    }
    unsafe fn blocks(&self, function: sys::CUfunction, threads: i32) -> Result<u32, DriverError> {
        let mut blocks = 0;
        // SAFETY:
        // - a function of the loaded module, by this function's contract
        // - the driver writes one number, which is borrowed for the call
        unsafe { sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, threads, 0) }
            .result()?;
        Ok(blocks.cast_unsigned())
    }

    unsafe fn allocate(&self, bytes: usize) -> Result<u64, DriverError> {
        // SAFETY:
        // - a new allocation
        unsafe { result::malloc_sync(bytes) }
    }
    unsafe fn free(&self, address: u64) -> Result<(), DriverError> {
        // SAFETY:
        // - from `allocate`, and no longer used, by this function's contract
        unsafe { result::free_sync(address) }
    }
    unsafe fn zero(&self, address: u64, bytes: usize) -> Result<(), DriverError> {
        // SAFETY:
        // - within an allocation, by this function's contract
        unsafe { result::memset_d8_sync(address, 0, bytes) }
    }
    unsafe fn copy_to(&self, address: u64, bytes: &[u8]) -> Result<(), DriverError> {
        // SAFETY:
        // - within an allocation or variable that no kernel uses, by this function's contract
        unsafe { result::memcpy_htod_sync(address, bytes) }
    }
    unsafe fn copy_from(&self, address: u64, bytes: &mut [u8]) -> Result<(), DriverError> {
        // SAFETY:
        // - within an allocation that no kernel writes, by this function's contract
        unsafe { result::memcpy_dtoh_sync(bytes, address) }
    }
    fn wait_for_copies(&self) -> Result<(), DriverError> {
        // SAFETY:
        // - the null stream is always there
        unsafe { sys::cuStreamSynchronize(ptr::null_mut()) }.result()
    }

    unsafe fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, DriverError> {
        let mut memory = ptr::null_mut();
        // SAFETY:
        // - a new allocation, whose address the driver writes
        unsafe { sys::cuMemHostAlloc(&raw mut memory, bytes, PORTABLE_AND_MAPPED) }.result()?;
        NonNull::new(memory.cast::<u8>()).ok_or(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY))
    }
    unsafe fn free_host(&self, memory: NonNull<u8>) -> Result<(), DriverError> {
        // SAFETY:
        // - from `allocate_host`, and no longer used, by this function's contract
        unsafe { sys::cuMemFreeHost(memory.as_ptr().cast()) }.result()
    }
    unsafe fn pin(&self, memory: NonNull<u8>, bytes: usize) -> Result<(), DriverError> {
        // SAFETY:
        // - mapped memory of that length until `unpin`, by this function's contract
        unsafe { sys::cuMemHostRegister_v2(memory.as_ptr().cast(), bytes, PORTABLE_AND_MAPPED) }.result()
    }
    unsafe fn unpin(&self, memory: NonNull<u8>) -> Result<(), DriverError> {
        // SAFETY:
        // - pinned by `pin`, once, and no longer used, by this function's contract
        unsafe { sys::cuMemHostUnregister(memory.as_ptr().cast()) }.result()
    }
    fn address_of_host(&self, memory: NonNull<u8>) -> Result<NonNull<u8>, DriverError> {
        let mut address = 0;
        // SAFETY:
        // - the driver looks the pointer up, and refuses one that it does not know
        unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut address, memory.as_ptr().cast(), 0) }.result()?;
        NonNull::new(address as *mut u8).ok_or(DriverError(sys::CUresult::CUDA_ERROR_MAP_FAILED))
    }

    unsafe fn make_stream(&self) -> Result<Stream, DriverError> {
        let mut stream = ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY:
        // - a new stream, whose handle the driver writes
        unsafe { sys::cuStreamCreate(&raw mut stream, flags) }.result()?;
        Ok(Stream(stream as usize))
    }
    unsafe fn destroy_stream(&self, stream: Stream) -> Result<(), DriverError> {
        // SAFETY:
        // - from `make_stream`, once, by this function's contract; the driver keeps it as long as its work runs
        unsafe { sys::cuStreamDestroy_v2(stream.0 as sys::CUstream) }.result()
    }
    unsafe fn start(
        &self,
        function: sys::CUfunction,
        grid: Grid,
        stream: Stream,
        parameters: &mut [*mut c_void],
    ) -> Result<(), DriverError> {
        let (blocks, threads) = ((grid.blocks, 1, 1), (grid.threads, 1, 1));
        // SAFETY:
        // - a function of the loaded module and a stream of `make_stream`, by this function's contract
        // - the parameters are the kernel's, by this function's contract; the driver copies them before it returns
        unsafe { result::launch_kernel(function, blocks, threads, 0, stream.0 as sys::CUstream, parameters) }
    }
    unsafe fn query(&self, stream: Stream) -> Result<bool, DriverError> {
        // SAFETY:
        // - from `make_stream`, by this function's contract
        match unsafe { sys::cuStreamQuery(stream.0 as sys::CUstream) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            ended => ended.result().map(|()| true),
        }
    }
    unsafe fn sleep(&self, stream: Stream) -> bool {
        // An event that cannot be had says nothing of the kernel.
        // SAFETY:
        // - from `make_stream`, by this function's contract
        unsafe { sleep_on(stream.0 as sys::CUstream) }.is_ok()
    }
    fn wait_for_all(&self) -> Result<(), DriverError> {
        // It keeps a core busy. The thread could sleep on an event of the null stream, but what others launch meanwhile would wait for it.
        result::ctx::synchronize()
    }
}
