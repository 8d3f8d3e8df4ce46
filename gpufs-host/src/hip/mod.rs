//! AMD GPUs through HIP, linked when the feature is on. It compiles, links, and says that there is no GPU where there is none; no AMD
//! hardware has run it.
//!
//! Rings are in memory of the host or of the runtime, given to the kernel with `IORING_SETUP_NO_MMAP`: the runtime pins pages that
//! belong to a process, and the kernel's own mappings of a ring are none. What the runtime allocates is asked for as coherent, which is what
//! words shared with the kernel need.
//!
//! The bindings (hip-runtime-sys, of HIP 5.4) have the runtime's errors as an enumeration, so this makes no call that later releases
//! gave new errors. It has the runtime's calls, one by one; `gpu/runtime` puts them together.
#![expect(unsafe_code, reason = "the runtime's C interface")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use hip_sys::hiprt as sys;
use hip_sys::hiprt::hipError_t;

use crate::cpu::Grid;
use crate::gpu::{
    Gpu, GpuError, GpuOptions, KernelAttribute, Program, Refusal, Runtime, RuntimeGpu, Stream, shown,
};
use crate::ring::RingMemory;

/// The result of a call.
fn result(called: hipError_t) -> Result<(), hipError_t> {
    if called == hipError_t::hipSuccess { Ok(()) } else { Err(called) }
}

/// What the runtime says of an error, with what the call was for.
fn refused(doing: &str, error: hipError_t) -> GpuError {
    let said = |text: *const c_char| {
        if text.is_null() {
            return String::new();
        }
        // SAFETY:
        // - the runtime's own text, which is always there and ends with a NUL
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    // SAFETY:
    // - takes a number
    let name = said(unsafe { sys::hipGetErrorName(error) });
    // SAFETY:
    // - takes a number
    let text = said(unsafe { sys::hipGetErrorString(error) });
    GpuError::Refused(Refusal::new(doing, error as u32, &name, &text))
}

/// The result of a call, with what the call was for.
fn done(doing: &str, called: hipError_t) -> Result<(), GpuError> {
    result(called).map_err(|error| refused(doing, error))
}

/// Opens GPU number `ordinal` with a program loaded. No bytes are a program without kernels, for a session whose kernels the program itself
/// loads and launches: a code object is for one kind of GPU, so no empty one would suit all.
pub(crate) fn open(ordinal: u32, program: &[u8], options: &GpuOptions) -> Result<Arc<dyn Gpu>, GpuError> {
    let image = if program.is_empty() {
        Vec::new()
    } else if let Program::Amd(image) = Program::of(program)? {
        image
    } else {
        return Err(GpuError::Program(
            "the device program is for NVIDIA GPUs; Builder::hip wants a code object".to_owned(),
        ));
    };
    let mut count = 0;
    // SAFETY:
    // - the number is written
    let counted = unsafe { sys::hipGetDeviceCount(&raw mut count) };
    let count = if counted == hipError_t::hipErrorNoDevice {
        0
    } else {
        done("counting AMD GPUs", counted)?;
        count.cast_unsigned()
    };
    if ordinal >= count {
        return Err(GpuError::NoDevice { maker: "AMD", ordinal, count });
    }
    let ordinal = ordinal.cast_signed();
    // SAFETY:
    // - takes a number
    done("opening the GPU", unsafe { sys::hipSetDevice(ordinal) })?;
    set_stack(options.stack_bytes);
    let mut module = ptr::null_mut();
    if !image.is_empty() {
        // SAFETY:
        // - an image that tells its own length, which the runtime reads and checks, and which stays as long as the module
        done("loading the device program", unsafe {
            sys::hipModuleLoadData(&raw mut module, image.as_ptr().cast())
        })?;
    }
    Ok(Arc::new(RuntimeGpu(Hip { ordinal, module, _image: image })))
}

/// Asks the runtime for `bytes` of stack a thread, where it has the call (HIP 5.3 and later). Where it has not, or refuses, a thread has
/// the stack that the compiler counted.
fn set_stack(bytes: usize) {
    type SetLimit = unsafe extern "C" fn(u32, usize) -> u32;
    // SAFETY:
    // - looks a name up among what is loaded
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"hipDeviceSetLimit".as_ptr()) };
    if !found.is_null() {
        // SAFETY:
        // - the function of that name has that type: two numbers and an error, which has the size of one
        let set: SetLimit = unsafe { std::mem::transmute(found) };
        // SAFETY:
        // - takes numbers
        let _ = unsafe { set(sys::hipLimit_t::hipLimitStackSize as u32, bytes) };
    }
}

/// A GPU with a program loaded.
#[derive(Debug)]
struct Hip {
    ordinal: c_int,
    /// Null where there is no program.
    module: sys::hipModule_t,
    /// What the module was loaded from: the runtime may read it later.
    _image: Vec<u64>,
}

// SAFETY:
// - a module may be used from any thread on which its device is current
unsafe impl Send for Hip {}
// SAFETY:
// - as for `Send`, on several at once
unsafe impl Sync for Hip {}

impl Hip {
    fn device_attribute(&self, attribute: sys::hipDeviceAttribute_t) -> Option<u32> {
        let mut value = 0;
        // SAFETY:
        // - the runtime writes one number, which is borrowed for the call
        let asked = unsafe { sys::hipDeviceGetAttribute(&raw mut value, attribute, self.ordinal) };
        result(asked).ok().map(|()| value.cast_unsigned())
    }
}

fn not_null(memory: *mut c_void) -> Result<NonNull<u8>, hipError_t> {
    NonNull::new(memory.cast::<u8>()).ok_or(hipError_t::hipErrorOutOfMemory)
}

// SAFETY:
// - the runtime knows the program's variables
// - memory comes from the runtime; that of the host is coherent, and `Allocated` checks its alignment
// - the runtime's device pointer reaches the host's bytes
// - the null stream's work has ended when it is synchronized with
// - a stream that has completed has no work left, and its writes to coherent host memory are done
unsafe impl Runtime for Hip {
    type Error = hipError_t;
    type Function = sys::hipFunction_t;

    const RING_MEMORIES: &'static [RingMemory] = &[RingMemory::Caller, RingMemory::Runtime];
    const ARGUMENTS_BY_ADDRESS: bool = true;
    const SLEEPS: bool = false;

    fn explain(doing: &str, error: hipError_t) -> GpuError {
        refused(doing, error)
    }
    fn explain_launch(&self, kernel: &CStr, _grid: Grid, error: hipError_t) -> GpuError {
        refused(&format!("launching the kernel {}", shown(kernel)), error)
    }

    fn bind(&self) -> Result<(), GpuError> {
        // SAFETY:
        // - takes a number
        done("choosing the GPU", unsafe { sys::hipSetDevice(self.ordinal) })
    }
    fn name(&self) -> String {
        let mut name = [0 as c_char; 256];
        // SAFETY:
        // - the runtime writes at most as many bytes as it is told, a NUL among them
        let asked = unsafe { sys::hipDeviceGetName(name.as_mut_ptr(), 255, self.ordinal) };
        if result(asked).is_err() {
            return "unknown GPU".to_owned();
        }
        // SAFETY:
        // - the last byte is a NUL in any case
        unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()
    }
    fn multiprocessors(&self) -> u32 {
        self.device_attribute(sys::hipDeviceAttribute_t::hipDeviceAttributeMultiprocessorCount).unwrap_or(1)
    }

    fn function(&self, kernel: &CStr) -> Result<sys::hipFunction_t, GpuError> {
        if self.module.is_null() {
            let kernel = shown(kernel);
            return Err(GpuError::Program(format!(
                "there is no kernel {kernel}: the session has no device program"
            )));
        }
        let mut function = ptr::null_mut();
        let doing = format!("finding the kernel {} in the device program", shown(kernel));
        // SAFETY:
        // - the module is loaded as long as `self`, and the name ends with a NUL
        let found = unsafe { sys::hipModuleGetFunction(&raw mut function, self.module, kernel.as_ptr()) };
        done(&doing, found).map_err(|error| {
            error.explained("A program of other kernels, or of an older build, has none of that name.")
        })?;
        Ok(function)
    }
    fn variable(&self, name: &CStr) -> Option<u64> {
        if self.module.is_null() {
            return None;
        }
        let (mut address, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY:
        // - the module is loaded as long as `self`, the name ends with a NUL, and both results are borrowed for the call
        let found =
            unsafe { sys::hipModuleGetGlobal(&raw mut address, &raw mut bytes, self.module, name.as_ptr()) };
        result(found).ok().map(|()| address as u64)
    }
    unsafe fn attribute(
        &self,
        function: sys::hipFunction_t,
        which: KernelAttribute,
    ) -> Result<u32, hipError_t> {
        use sys::hipFunction_attribute as Attribute;
        let attribute = match which {
            KernelAttribute::Registers => Attribute::HIP_FUNC_ATTRIBUTE_NUM_REGS,
            KernelAttribute::StackBytes => Attribute::HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
            KernelAttribute::ThreadsPerBlock => Attribute::HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        };
        let mut value = 0;
        // SAFETY:
        // - a function of the loaded module, by this function's contract
        // - the runtime writes one number, which is borrowed for the call
        result(unsafe { sys::hipFuncGetAttribute(&raw mut value, attribute, function) })?;
        Ok(value.cast_unsigned())
    }
    unsafe fn blocks(&self, function: sys::hipFunction_t, threads: i32) -> Result<u32, hipError_t> {
        let mut blocks = 0;
        // SAFETY:
        // - a function of the loaded module, by this function's contract
        // - the runtime writes one number, which is borrowed for the call
        result(unsafe {
            sys::hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, threads, 0)
        })?;
        Ok(blocks.cast_unsigned())
    }

    unsafe fn allocate(&self, bytes: usize) -> Result<u64, hipError_t> {
        let mut memory = ptr::null_mut();
        // SAFETY:
        // - a new allocation, whose address the runtime writes
        result(unsafe { sys::hipMalloc(&raw mut memory, bytes) })?;
        Ok(not_null(memory)?.as_ptr() as u64)
    }
    unsafe fn free(&self, address: u64) -> Result<(), hipError_t> {
        // SAFETY:
        // - from `allocate`, and no longer used, by this function's contract
        result(unsafe { sys::hipFree(address as *mut c_void) })
    }
    unsafe fn zero(&self, address: u64, bytes: usize) -> Result<(), hipError_t> {
        // SAFETY:
        // - within an allocation, by this function's contract
        result(unsafe { sys::hipMemset(address as *mut c_void, 0, bytes) })
    }
    unsafe fn copy_to(&self, address: u64, bytes: &[u8]) -> Result<(), hipError_t> {
        let kind = sys::hipMemcpyKind::hipMemcpyHostToDevice;
        // SAFETY:
        // - within an allocation or variable that no kernel uses, by this function's contract
        result(unsafe { sys::hipMemcpy(address as *mut c_void, bytes.as_ptr().cast(), bytes.len(), kind) })
    }
    unsafe fn copy_from(&self, address: u64, bytes: &mut [u8]) -> Result<(), hipError_t> {
        let kind = sys::hipMemcpyKind::hipMemcpyDeviceToHost;
        // SAFETY:
        // - within an allocation that no kernel writes, by this function's contract
        result(unsafe {
            sys::hipMemcpy(bytes.as_mut_ptr().cast(), address as *const c_void, bytes.len(), kind)
        })
    }
    fn wait_for_copies(&self) -> Result<(), hipError_t> {
        // SAFETY:
        // - the null stream is always there
        result(unsafe { sys::hipStreamSynchronize(ptr::null_mut()) })
    }

    unsafe fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, hipError_t> {
        let flags = sys::hipHostMallocPortable | sys::hipHostMallocMapped | sys::hipHostMallocCoherent;
        let mut memory = ptr::null_mut();
        // SAFETY:
        // - a new allocation, whose address the runtime writes
        result(unsafe { sys::hipHostMalloc(&raw mut memory, bytes, flags) })?;
        not_null(memory)
    }
    unsafe fn free_host(&self, memory: NonNull<u8>) -> Result<(), hipError_t> {
        // SAFETY:
        // - from `allocate_host`, and no longer used, by this function's contract
        result(unsafe { sys::hipHostFree(memory.as_ptr().cast()) })
    }
    unsafe fn pin(&self, memory: NonNull<u8>, bytes: usize) -> Result<(), hipError_t> {
        let flags = sys::hipHostRegisterPortable | sys::hipHostRegisterMapped;
        // SAFETY:
        // - mapped memory of that length until `unpin`, by this function's contract
        result(unsafe { sys::hipHostRegister(memory.as_ptr().cast(), bytes, flags) })
    }
    unsafe fn unpin(&self, memory: NonNull<u8>) -> Result<(), hipError_t> {
        // SAFETY:
        // - pinned by `pin`, once, and no longer used, by this function's contract
        result(unsafe { sys::hipHostUnregister(memory.as_ptr().cast()) })
    }
    fn address_of_host(&self, memory: NonNull<u8>) -> Result<NonNull<u8>, hipError_t> {
        let mut address = ptr::null_mut();
        // SAFETY:
        // - the runtime looks the pointer up, and refuses one that it does not know
        result(unsafe { sys::hipHostGetDevicePointer(&raw mut address, memory.as_ptr().cast(), 0) })?;
        not_null(address)
    }

    unsafe fn make_stream(&self) -> Result<Stream, hipError_t> {
        let mut stream = ptr::null_mut();
        // SAFETY:
        // - a new stream, whose handle the runtime writes
        result(unsafe { sys::hipStreamCreateWithFlags(&raw mut stream, sys::hipStreamNonBlocking) })?;
        Ok(Stream(stream as usize))
    }
    unsafe fn destroy_stream(&self, stream: Stream) -> Result<(), hipError_t> {
        // SAFETY:
        // - from `make_stream`, once, by this function's contract; the runtime keeps it as long as its work runs
        result(unsafe { sys::hipStreamDestroy(stream.0 as sys::hipStream_t) })
    }
    unsafe fn start(
        &self,
        function: sys::hipFunction_t,
        grid: Grid,
        stream: Stream,
        parameters: &mut [*mut c_void],
    ) -> Result<(), hipError_t> {
        let (blocks, threads) = (grid.blocks, grid.threads);
        let (stream, parameters, extra) =
            (stream.0 as sys::hipStream_t, parameters.as_mut_ptr(), ptr::null_mut());
        // SAFETY:
        // - a function of the loaded module and a stream of `make_stream`, by this function's contract
        // - the parameters are the kernel's, by this function's contract; the runtime copies them before it returns
        result(unsafe {
            sys::hipModuleLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, extra)
        })
    }
    unsafe fn query(&self, stream: Stream) -> Result<bool, hipError_t> {
        // SAFETY:
        // - from `make_stream`, by this function's contract
        match unsafe { sys::hipStreamQuery(stream.0 as sys::hipStream_t) } {
            hipError_t::hipErrorNotReady => Ok(false),
            ended => result(ended).map(|()| true),
        }
    }
    unsafe fn sleep(&self, _stream: Stream) -> bool {
        false
    }
    fn wait_for_all(&self) -> Result<(), hipError_t> {
        // SAFETY:
        // - takes nothing
        result(unsafe { sys::hipDeviceSynchronize() })
    }
}

impl Drop for Hip {
    fn drop(&mut self) {
        if !self.module.is_null() && self.bind().is_ok() {
            // SAFETY:
            // - loaded in `open`; the session that ran its kernels is gone
            let _ = unsafe { sys::hipModuleUnload(self.module) };
        }
    }
}
