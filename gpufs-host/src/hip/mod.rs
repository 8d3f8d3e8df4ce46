//! AMD GPUs through HIP, linked when the feature is on. It compiles, links, and says that there is no GPU where there is none; no AMD
//! hardware has run it.
//!
//! Rings are in memory of the host or of the runtime, given to the kernel with `IORING_SETUP_NO_MMAP`: the runtime pins pages that
//! belong to a process, and the kernel's own mappings of a ring are none. What the runtime allocates is asked for as coherent, which is what
//! words shared with the kernel need.
//!
//! The bindings (hip-runtime-sys, of HIP 5.4) have the runtime's errors as an enumeration, so this calls nothing whose errors later
//! releases have added to.
#![allow(unsafe_code, reason = "the runtime's C interface")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use hip_sys::hiprt as sys;
use hip_sys::hiprt::hipError_t;

use crate::cpu::Grid;
use crate::gpu::{Gpu, GpuError, GpuOptions, KernelLimits, Program, Refusal, Stream};
use crate::ring::RingMemory;

/// What a call came to, with what the runtime says of an error while `doing` something.
fn done(doing: &str, result: hipError_t) -> Result<(), GpuError> {
    if result == hipError_t::hipSuccess {
        return Ok(());
    }
    let said = |text: *const c_char| {
        if text.is_null() {
            return String::new();
        }
        // SAFETY:
        // - the runtime's own text, which is always there
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    // SAFETY:
    // - these take a number
    let (name, text) = unsafe { (said(sys::hipGetErrorName(result)), said(sys::hipGetErrorString(result))) };
    Err(GpuError::Refused(Refusal::new(doing, result as u32, &name, &text)))
}

/// Opens GPU number `ordinal` with a program loaded. No bytes are a program without kernels, for a session whose kernels somebody else loads
/// and launches: a code object is for one kind of GPU, so none could stand for all.
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
    Ok(Arc::new(Hip { ordinal, module, _image: image }))
}

/// Asks for so many bytes of stack a thread, of a runtime that can be asked (HIP 5.3 and later; 5.2 does not have the call). Where it
/// cannot, or refuses, a thread has the stack that the compiler counted.
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
    /// Makes the GPU current on the calling thread.
    fn bind(&self) -> Result<(), GpuError> {
        // SAFETY:
        // - takes a number
        done("choosing the GPU", unsafe { sys::hipSetDevice(self.ordinal) })
    }

    fn attribute(&self, attribute: sys::hipDeviceAttribute_t) -> Option<u32> {
        let mut value = 0;
        // SAFETY:
        // - the number is written
        let asked = unsafe { sys::hipDeviceGetAttribute(&raw mut value, attribute, self.ordinal) };
        (asked == hipError_t::hipSuccess).then_some(value.cast_unsigned())
    }

    fn function(&self, kernel: &CStr) -> Result<sys::hipFunction_t, GpuError> {
        self.bind()?;
        if self.module.is_null() {
            let kernel = kernel.to_string_lossy();
            return Err(GpuError::Program(format!(
                "there is no kernel {kernel}: the session has no device program"
            )));
        }
        let mut function = ptr::null_mut();
        let doing = format!("finding the kernel {} in the device program", kernel.to_string_lossy());
        // SAFETY:
        // - the module is loaded as long as `self`, and the name ends with a NUL
        let found = unsafe { sys::hipModuleGetFunction(&raw mut function, self.module, kernel.as_ptr()) };
        done(&doing, found).map_err(|error| {
            error.explained("A program of other kernels, or of an older build, has none of that name.")
        })?;
        Ok(function)
    }

    /// Waits for what copies and fills have queued; kernels run on streams that do not wait for those.
    fn settle_copies(&self) -> Result<(), GpuError> {
        // SAFETY:
        // - the null stream is always there
        done("copying to the GPU", unsafe { sys::hipStreamSynchronize(ptr::null_mut()) })
    }
}

fn not_null(doing: &str, memory: *mut c_void) -> Result<NonNull<u8>, GpuError> {
    NonNull::new(memory.cast::<u8>())
        .ok_or_else(|| GpuError::Refused(Refusal::new(doing, 2, "hipErrorOutOfMemory", "no address")))
}

// SAFETY:
// - the runtime knows the program's variables
// - device memory comes from the runtime, is filled with zeroes, and the fill has ended when it is handed out
// - so does host memory, which `Allocated` checks for alignment; it is zeroed here
// - the runtime's device pointer reaches the host's bytes, which are coherent
// - a stream that has completed has no work left, and its writes to coherent host memory are done
unsafe impl Gpu for Hip {
    fn name(&self) -> String {
        let mut name = [0 as c_char; 256];
        // SAFETY:
        // - as many bytes as it says are written, a NUL among them
        let asked = unsafe { sys::hipDeviceGetName(name.as_mut_ptr(), 255, self.ordinal) };
        if asked != hipError_t::hipSuccess {
            return "unknown GPU".to_owned();
        }
        // SAFETY:
        // - the last byte is a NUL in any case
        unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()
    }
    fn multiprocessors(&self) -> u32 {
        self.attribute(sys::hipDeviceAttribute_t::hipDeviceAttributeMultiprocessorCount).unwrap_or(1)
    }
    fn ring_memories(&self) -> &'static [RingMemory] {
        &[RingMemory::Caller, RingMemory::Runtime]
    }

    fn arguments_by_address(&self) -> bool {
        true
    }

    fn limits(&self, kernel: &CStr) -> Result<KernelLimits, GpuError> {
        use sys::hipFunction_attribute as Attribute;
        let function = self.function(kernel)?;
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY:
            // - a function of this module, and the number is written
            let asked = unsafe { sys::hipFuncGetAttribute(&raw mut value, attribute, function) };
            done(&format!("asking what the kernel {} takes", kernel.to_string_lossy()), asked)?;
            Ok(value.cast_unsigned())
        };
        Ok(KernelLimits::new(
            Some(attribute(Attribute::HIP_FUNC_ATTRIBUTE_NUM_REGS)?),
            attribute(Attribute::HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?.into(),
            attribute(Attribute::HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        ))
    }
    fn occupancy(&self, kernel: &CStr, threads_per_block: u32) -> Result<u32, GpuError> {
        let function = self.function(kernel)?;
        let threads = i32::try_from(threads_per_block).unwrap_or(i32::MAX);
        let mut blocks = 0;
        // SAFETY:
        // - a function of this module, and the number is written
        let asked = unsafe {
            sys::hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, threads, 0)
        };
        done(&format!("asking how many blocks of {} fit", kernel.to_string_lossy()), asked)?;
        Ok(blocks.cast_unsigned())
    }

    fn global(&self, name: &CStr) -> Option<u64> {
        self.bind().ok()?;
        if self.module.is_null() {
            return None;
        }
        let (mut address, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY:
        // - the module is loaded as long as `self`, the name ends with a NUL, and both are written
        let found =
            unsafe { sys::hipModuleGetGlobal(&raw mut address, &raw mut bytes, self.module, name.as_ptr()) };
        (found == hipError_t::hipSuccess).then_some(address as u64)
    }

    fn allocate(&self, bytes: usize) -> Result<u64, GpuError> {
        self.bind()?;
        let mut memory = ptr::null_mut();
        // SAFETY:
        // - a new allocation, freed with `free`
        done("allocating device memory", unsafe { sys::hipMalloc(&raw mut memory, bytes) })?;
        let address = not_null("allocating device memory", memory)?.as_ptr() as u64;
        // SAFETY:
        // - allocated just now, as long
        let zeroed = done("zeroing device memory", unsafe { sys::hipMemset(memory, 0, bytes) })
            .and_then(|()| self.settle_copies());
        zeroed.map(|()| address).inspect_err(|_| {
            // SAFETY:
            // - allocated above, and nobody has seen it
            unsafe { self.free(address) };
        })
    }
    unsafe fn free(&self, address: u64) {
        if self.bind().is_ok() {
            // SAFETY:
            // - allocated in `allocate`, and no longer used, by this function's contract
            let _ = unsafe { sys::hipFree(address as *mut c_void) };
        }
    }
    unsafe fn write(&self, address: u64, bytes: &[u8]) -> Result<(), GpuError> {
        self.bind()?;
        let kind = sys::hipMemcpyKind::hipMemcpyHostToDevice;
        // SAFETY:
        // - within an allocation that no kernel uses, by this function's contract
        let copied =
            unsafe { sys::hipMemcpy(address as *mut c_void, bytes.as_ptr().cast(), bytes.len(), kind) };
        done("copying to the GPU", copied)?;
        self.settle_copies()
    }
    unsafe fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), GpuError> {
        self.bind()?;
        let kind = sys::hipMemcpyKind::hipMemcpyDeviceToHost;
        // SAFETY:
        // - within an allocation that no kernel writes, by this function's contract
        let copied =
            unsafe { sys::hipMemcpy(bytes.as_mut_ptr().cast(), address as *const c_void, bytes.len(), kind) };
        done("copying from the GPU", copied)
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        self.bind()?;
        let flags = sys::hipHostMallocPortable | sys::hipHostMallocMapped | sys::hipHostMallocCoherent;
        let mut memory = ptr::null_mut();
        // SAFETY:
        // - a new allocation, freed with `free_host`
        done("allocating pinned host memory", unsafe { sys::hipHostMalloc(&raw mut memory, bytes, flags) })?;
        let memory = not_null("allocating pinned host memory", memory)?;
        // SAFETY:
        // - allocated just now, as long
        unsafe { memory.write_bytes(0, bytes) };
        Ok(memory)
    }
    unsafe fn free_host(&self, memory: NonNull<u8>) {
        if self.bind().is_ok() {
            // SAFETY:
            // - allocated in `allocate_host`, and no longer used, by this function's contract
            let _ = unsafe { sys::hipHostFree(memory.as_ptr().cast()) };
        }
    }
    fn device_address(&self, memory: NonNull<u8>) -> Result<NonNull<u8>, GpuError> {
        self.bind()?;
        let mut address = ptr::null_mut();
        // SAFETY:
        // - the runtime looks the pointer up, and refuses one that it does not know
        let asked = unsafe { sys::hipHostGetDevicePointer(&raw mut address, memory.as_ptr().cast(), 0) };
        done("mapping host memory for the GPU", asked)?;
        not_null("mapping host memory for the GPU", address)
    }
    unsafe fn register(&self, memory: NonNull<u8>, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        self.bind()?;
        let flags = sys::hipHostRegisterPortable | sys::hipHostRegisterMapped;
        // SAFETY:
        // - mapped memory of that length until `unregister`, by this function's contract
        let registered = unsafe { sys::hipHostRegister(memory.as_ptr().cast(), bytes, flags) };
        done("pinning host memory", registered)?;
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
            let _ = unsafe { sys::hipHostUnregister(memory.as_ptr().cast()) };
        }
    }

    unsafe fn launch(
        &self,
        kernel: &CStr,
        grid: Grid,
        parameters: &mut [*mut c_void],
    ) -> Result<Stream, GpuError> {
        let function = self.function(kernel)?;
        let mut stream = ptr::null_mut();
        // SAFETY:
        // - a new stream, destroyed by whoever gets it, or below
        let made = unsafe { sys::hipStreamCreateWithFlags(&raw mut stream, sys::hipStreamNonBlocking) };
        done("making a stream", made)?;
        let (blocks, threads) = (grid.blocks, grid.threads);
        // SAFETY:
        // - the parameters are the kernel's, by this function's contract; the runtime copies them before it returns
        let launched = unsafe {
            let (parameters, extra) = (parameters.as_mut_ptr(), ptr::null_mut());
            sys::hipModuleLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, extra)
        };
        let launched = done(&format!("launching the kernel {}", kernel.to_string_lossy()), launched);
        let stream = Stream(stream as usize);
        launched.map(|()| stream).inspect_err(|_| {
            // SAFETY:
            // - made above, and nothing runs on it
            unsafe { self.destroy(stream) };
        })
    }
    unsafe fn poll(&self, stream: Stream) -> Result<bool, GpuError> {
        self.bind()?;
        // SAFETY:
        // - a stream of `launch`, by this function's contract
        match unsafe { sys::hipStreamQuery(stream.0 as sys::hipStream_t) } {
            hipError_t::hipErrorNotReady => Ok(false),
            ended => done("a kernel did not end well", ended).map(|()| true),
        }
    }
    fn settle(&self) -> Result<(), GpuError> {
        self.bind()?;
        // SAFETY:
        // - takes nothing
        done("a kernel did not end well", unsafe { sys::hipDeviceSynchronize() })
    }
    unsafe fn destroy(&self, stream: Stream) {
        if self.bind().is_ok() {
            // SAFETY:
            // - a stream of `launch`, once, by this function's contract; the runtime keeps it as long as its work runs
            let _ = unsafe { sys::hipStreamDestroy(stream.0 as sys::hipStream_t) };
        }
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
