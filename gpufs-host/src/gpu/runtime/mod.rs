//! What CUDA and HIP have in common: the trait `Gpu`, made of a runtime's single calls.
//!
//! A [`Runtime`] has one method for each call of its C interface. [`RuntimeGpu`] puts them in order: it makes the GPU current before each
//! call, has fills and copies end before their result is used, gives back what a failed step leaves, and says what it was doing. The runtimes
//! themselves are not here (`cuda`, `hip`), nor the waiting for kernels (`gpu/launch.rs`).

#[cfg(test)]
mod tests;

use std::ffi::{CStr, c_void};
use std::fmt::Debug;
use std::ptr::NonNull;

use super::{Gpu, GpuError, KernelLimits, Stream};
use crate::cpu::Grid;
use crate::ring::RingMemory;

/// What a runtime knows of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelAttribute {
    /// Registers of a thread.
    Registers,
    /// Bytes of stack that the compiler knows a thread to need.
    StackBytes,
    /// The most threads of a block.
    ThreadsPerBlock,
}

/// A GPU with a program loaded, as its runtime has it: each method is one call of the runtime, with the GPU current on the thread.
///
/// # Safety
/// The implementation promises that
/// - `variable` gives a variable's address, as long as the program declares it;
/// - `allocate` and `allocate_host` give memory that nothing else uses until it is freed, that of the host in whole pages;
/// - the address that `address_of_host` gives reaches the same bytes from the device, coherently;
/// - once `wait_for_copies` has returned, fills and copies that were asked for before have ended;
/// - once `query` says that a stream's work has ended, what its kernel wrote is there for the host to read, and nothing writes any more.
///
/// # Safety of the methods
/// Addresses, streams and functions that a method takes come from this runtime and have not been given back; ranges lie within one
/// allocation or variable, which no kernel uses meanwhile.
pub(crate) unsafe trait Runtime: Debug + Send + Sync {
    /// A failed call.
    type Error: Debug;
    /// A kernel.
    type Function: Copy;

    /// The kinds of ring memory that the GPU can reach, best first.
    const RING_MEMORIES: &'static [RingMemory];
    /// Whether a kernel takes the address of its arguments, in place of their bytes (see `gpufs_device::kernel!`).
    const ARGUMENTS_BY_ADDRESS: bool;
    /// Whether [`Runtime::sleep`] sleeps.
    const SLEEPS: bool;

    /// A failed call as an error, with what it was for.
    fn explain(doing: &str, error: Self::Error) -> GpuError;
    /// Why a launch was refused.
    fn explain_launch(&self, kernel: &CStr, grid: Grid, error: Self::Error) -> GpuError;

    /// Makes the GPU current on the calling thread.
    fn bind(&self) -> Result<(), GpuError>;
    /// What to call the GPU.
    fn name(&self) -> String;
    /// Multiprocessors, compute units.
    fn multiprocessors(&self) -> u32;

    /// The kernel of this name.
    fn function(&self, kernel: &CStr) -> Result<Self::Function, GpuError>;
    /// The address of a global variable of the program.
    fn variable(&self, name: &CStr) -> Option<u64>;
    /// One of a kernel's numbers.
    unsafe fn attribute(&self, function: Self::Function, which: KernelAttribute) -> Result<u32, Self::Error>;
    /// Blocks of `threads` threads that a multiprocessor runs at once.
    unsafe fn blocks(&self, function: Self::Function, threads: i32) -> Result<u32, Self::Error>;

    unsafe fn allocate(&self, bytes: usize) -> Result<u64, Self::Error>;
    unsafe fn free(&self, address: u64) -> Result<(), Self::Error>;
    /// Fills device memory with zeroes; `wait_for_copies` says when that has ended.
    unsafe fn zero(&self, address: u64, bytes: usize) -> Result<(), Self::Error>;
    /// Copies to the device; `wait_for_copies` says when that has ended.
    unsafe fn copy_to(&self, address: u64, bytes: &[u8]) -> Result<(), Self::Error>;
    /// Copies from the device, before it returns.
    unsafe fn copy_from(&self, address: u64, bytes: &mut [u8]) -> Result<(), Self::Error>;
    /// Waits for what copies and fills have queued. Kernels run on streams of their own, which this does not wait for, and which do not
    /// wait for the copies.
    fn wait_for_copies(&self) -> Result<(), Self::Error>;

    /// Host memory that the device reaches, from the runtime's allocator.
    unsafe fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, Self::Error>;
    unsafe fn free_host(&self, memory: NonNull<u8>) -> Result<(), Self::Error>;
    /// Pins ordinary pages and maps them for the device.
    unsafe fn pin(&self, memory: NonNull<u8>, bytes: usize) -> Result<(), Self::Error>;
    unsafe fn unpin(&self, memory: NonNull<u8>) -> Result<(), Self::Error>;
    /// Where the device reaches host memory that was allocated or pinned here; an error for other memory.
    fn address_of_host(&self, memory: NonNull<u8>) -> Result<NonNull<u8>, Self::Error>;

    /// A stream that waits for no other.
    unsafe fn make_stream(&self) -> Result<Stream, Self::Error>;
    /// The runtime keeps the stream as long as its work runs.
    unsafe fn destroy_stream(&self, stream: Stream) -> Result<(), Self::Error>;
    /// Starts a kernel. The runtime copies the parameters before it returns.
    unsafe fn start(
        &self,
        function: Self::Function,
        grid: Grid,
        stream: Stream,
        parameters: &mut [*mut c_void],
    ) -> Result<(), Self::Error>;
    /// Whether the stream's work has ended; what ended it, if it did not end well.
    unsafe fn query(&self, stream: Stream) -> Result<bool, Self::Error>;
    /// Sleeps until the stream's work has ended; whether the runtime could. How it ended is `query`'s to say.
    unsafe fn sleep(&self, stream: Stream) -> bool;
    /// Waits until nothing runs in the process's use of the GPU.
    fn wait_for_all(&self) -> Result<(), Self::Error>;
}

/// A GPU, by its runtime.
#[derive(Debug)]
pub(crate) struct RuntimeGpu<R>(pub(crate) R);

/// What a runtime's error is an error of.
fn explain<R: Runtime>(doing: &str) -> impl Fn(R::Error) -> GpuError {
    move |error| R::explain(doing, error)
}

/// A kernel's name for messages.
pub(crate) fn shown(kernel: &CStr) -> String {
    kernel.to_string_lossy().into_owned()
}

/// What a kernel takes of the device.
pub(crate) fn limits_of<R: Runtime>(runtime: &R, kernel: &CStr) -> Result<KernelLimits, GpuError> {
    runtime.bind()?;
    let function = runtime.function(kernel)?;
    let attribute = |which| {
        // SAFETY:
        // - a function of this runtime's program
        unsafe { runtime.attribute(function, which) }
            .map_err(explain::<R>(&format!("asking what the kernel {} takes", shown(kernel))))
    };
    Ok(KernelLimits::new(
        Some(attribute(KernelAttribute::Registers)?),
        attribute(KernelAttribute::StackBytes)?.into(),
        attribute(KernelAttribute::ThreadsPerBlock)?,
    ))
}

const ENDED_ILL: &str = "a kernel did not end well";

// SAFETY:
// - variables, allocations, mapped addresses and completed streams are the runtime's, whose promises are those of `Gpu`
// - device memory is filled with zeroes, and the fill has ended when it is handed out; host memory is zeroed here
unsafe impl<R: Runtime> Gpu for RuntimeGpu<R> {
    fn name(&self) -> String {
        self.0.name()
    }
    fn multiprocessors(&self) -> u32 {
        self.0.multiprocessors()
    }
    fn ring_memories(&self) -> &'static [RingMemory] {
        R::RING_MEMORIES
    }
    fn arguments_by_address(&self) -> bool {
        R::ARGUMENTS_BY_ADDRESS
    }

    fn limits(&self, kernel: &CStr) -> Result<KernelLimits, GpuError> {
        limits_of(&self.0, kernel)
    }
    fn occupancy(&self, kernel: &CStr, threads_per_block: u32) -> Result<u32, GpuError> {
        self.0.bind()?;
        let function = self.0.function(kernel)?;
        let threads = i32::try_from(threads_per_block).unwrap_or(i32::MAX);
        // SAFETY:
        // - a function of this runtime's program
        unsafe { self.0.blocks(function, threads) }
            .map_err(explain::<R>(&format!("asking how many blocks of {} fit", shown(kernel))))
    }
    fn global(&self, name: &CStr) -> Option<u64> {
        self.0.bind().ok()?;
        self.0.variable(name)
    }

    fn allocate(&self, bytes: usize) -> Result<u64, GpuError> {
        self.0.bind()?;
        // SAFETY:
        // - freed with `free`
        let address = unsafe { self.0.allocate(bytes) }.map_err(explain::<R>("allocating device memory"))?;
        // SAFETY:
        // - allocated just now, with this length
        let zeroed = unsafe { self.0.zero(address, bytes) }
            .map_err(explain::<R>("zeroing device memory"))
            .and_then(|()| self.0.wait_for_copies().map_err(explain::<R>("copying to the GPU")));
        zeroed.map(|()| address).inspect_err(|_| {
            // SAFETY:
            // - allocated above, and nothing has seen it
            unsafe { Gpu::free(self, address) };
        })
    }
    unsafe fn free(&self, address: u64) {
        // After a fault the runtime refuses; the memory goes with the context.
        if self.0.bind().is_ok() {
            // SAFETY:
            // - allocated in `allocate`, and no longer used, by this function's contract
            let _ = unsafe { self.0.free(address) };
        }
    }
    unsafe fn write(&self, address: u64, bytes: &[u8]) -> Result<(), GpuError> {
        self.0.bind()?;
        // SAFETY:
        // - within an allocation or variable that no kernel uses, by this function's contract
        unsafe { self.0.copy_to(address, bytes) }.map_err(explain::<R>("copying to the GPU"))?;
        // From pageable memory the call may return before the bytes are there.
        self.0.wait_for_copies().map_err(explain::<R>("copying to the GPU"))
    }
    unsafe fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), GpuError> {
        self.0.bind()?;
        // SAFETY:
        // - within an allocation that no kernel writes, by this function's contract
        unsafe { self.0.copy_from(address, bytes) }.map_err(explain::<R>("copying from the GPU"))
    }

    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        self.0.bind()?;
        // SAFETY:
        // - freed with `free_host`
        let memory =
            unsafe { self.0.allocate_host(bytes) }.map_err(explain::<R>("allocating pinned host memory"))?;
        // SAFETY:
        // - allocated just now, with this length
        unsafe { memory.write_bytes(0, bytes) };
        Ok(memory)
    }
    unsafe fn free_host(&self, memory: NonNull<u8>) {
        if self.0.bind().is_ok() {
            // SAFETY:
            // - allocated in `allocate_host`, and no longer used, by this function's contract
            let _ = unsafe { self.0.free_host(memory) };
        }
    }
    fn device_address(&self, memory: NonNull<u8>) -> Result<NonNull<u8>, GpuError> {
        self.0.bind()?;
        self.0.address_of_host(memory).map_err(explain::<R>("mapping host memory for the GPU"))
    }
    unsafe fn register(&self, memory: NonNull<u8>, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        self.0.bind()?;
        // SAFETY:
        // - mapped memory of that length until `unregister`, by this function's contract
        unsafe { self.0.pin(memory, bytes) }.map_err(explain::<R>("pinning host memory"))?;
        self.device_address(memory).inspect_err(|_| {
            // SAFETY:
            // - pinned above, and nothing has used it
            unsafe { self.unregister(memory) };
        })
    }
    unsafe fn unregister(&self, memory: NonNull<u8>) {
        if self.0.bind().is_ok() {
            // SAFETY:
            // - pinned in `register`, once; the GPU no longer uses it, by this function's contract
            let _ = unsafe { self.0.unpin(memory) };
        }
    }

    unsafe fn launch(
        &self,
        kernel: &CStr,
        grid: Grid,
        parameters: &mut [*mut c_void],
    ) -> Result<Stream, GpuError> {
        self.0.bind()?;
        let function = self.0.function(kernel)?;
        // SAFETY:
        // - destroyed by whoever gets it, or below
        let stream = unsafe { self.0.make_stream() }.map_err(explain::<R>("making a stream"))?;
        // SAFETY:
        // - a function of this runtime's program, and the stream made above
        // - the parameters are the kernel's, by this function's contract
        let started = unsafe { self.0.start(function, grid, stream, parameters) };
        started.map(|()| stream).map_err(|error| {
            // SAFETY:
            // - made above, and nothing runs on it
            let _ = unsafe { self.0.destroy_stream(stream) };
            self.0.explain_launch(kernel, grid, error)
        })
    }
    unsafe fn poll(&self, stream: Stream) -> Result<bool, GpuError> {
        self.0.bind()?;
        // SAFETY:
        // - a stream of `launch`, by this function's contract
        unsafe { self.0.query(stream) }.map_err(explain::<R>(ENDED_ILL))
    }
    unsafe fn sleep(&self, stream: Stream) -> Result<bool, GpuError> {
        if !R::SLEEPS {
            return Ok(false);
        }
        self.0.bind()?;
        // SAFETY:
        // - a stream of `launch`, by this function's contract
        Ok(unsafe { self.0.sleep(stream) })
    }
    fn settle(&self) -> Result<(), GpuError> {
        self.0.bind()?;
        self.0.wait_for_all().map_err(explain::<R>(ENDED_ILL))
    }
    unsafe fn destroy(&self, stream: Stream) {
        if self.0.bind().is_ok() {
            // SAFETY:
            // - a stream of `launch`, once, by this function's contract
            let _ = unsafe { self.0.destroy_stream(stream) };
        }
    }
}
