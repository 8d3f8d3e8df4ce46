//! What CUDA and HIP have in common: the trait `Gpu`, made of a runtime's single calls.
//!
//! A [`Runtime`] has one method for each call of its C interface. [`RuntimeGpu`] puts them in order: it makes the GPU current before each
//! call, has fills and copies end before their result is used, gives back what a failed step leaves, and says what it was doing.

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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::gpu::Refusal;

    /// A runtime that notes its calls, and fails at one of them. It has no memory: nobody reads an address of its.
    #[derive(Debug, Default)]
    struct Noting {
        calls: Mutex<Vec<&'static str>>,
        fails: &'static str,
    }

    impl Noting {
        fn call(&self, name: &'static str) -> Result<(), &'static str> {
            self.calls.lock().unwrap().push(name);
            if name == self.fails { Err(name) } else { Ok(()) }
        }
    }

    const MEMORY: NonNull<u8> = NonNull::dangling();

    // SAFETY:
    // - nothing is allocated, and nothing runs
    unsafe impl Runtime for Noting {
        type Error = &'static str;
        type Function = ();
        const RING_MEMORIES: &'static [RingMemory] = &[RingMemory::Caller];
        const ARGUMENTS_BY_ADDRESS: bool = false;
        const SLEEPS: bool = false;

        fn explain(doing: &str, error: Self::Error) -> GpuError {
            GpuError::Refused(Refusal::new(doing, 2, error, ""))
        }
        fn explain_launch(&self, kernel: &CStr, _: Grid, error: Self::Error) -> GpuError {
            Self::explain(&format!("launching {}", shown(kernel)), error)
        }
        fn bind(&self) -> Result<(), GpuError> {
            self.call("bind").map_err(explain::<Self>("choosing the GPU"))
        }
        fn name(&self) -> String {
            String::new()
        }
        fn multiprocessors(&self) -> u32 {
            1
        }
        fn function(&self, _: &CStr) -> Result<(), GpuError> {
            self.call("function").map_err(explain::<Self>("finding"))
        }
        fn variable(&self, _: &CStr) -> Option<u64> {
            None
        }
        unsafe fn attribute(&self, (): (), which: KernelAttribute) -> Result<u32, Self::Error> {
            self.call("attribute").map(|()| which as u32 + 10)
        }
        unsafe fn blocks(&self, (): (), threads: i32) -> Result<u32, Self::Error> {
            self.call("blocks").map(|()| 1024 / threads.cast_unsigned())
        }
        unsafe fn allocate(&self, _: usize) -> Result<u64, Self::Error> {
            self.call("allocate").map(|()| 64)
        }
        unsafe fn free(&self, address: u64) -> Result<(), Self::Error> {
            assert_eq!(address, 64);
            self.call("free")
        }
        unsafe fn zero(&self, address: u64, _: usize) -> Result<(), Self::Error> {
            assert_eq!(address, 64);
            self.call("zero")
        }
        unsafe fn copy_to(&self, _: u64, _: &[u8]) -> Result<(), Self::Error> {
            self.call("copy to")
        }
        unsafe fn copy_from(&self, _: u64, _: &mut [u8]) -> Result<(), Self::Error> {
            self.call("copy from")
        }
        fn wait_for_copies(&self) -> Result<(), Self::Error> {
            self.call("wait for copies")
        }
        unsafe fn allocate_host(&self, _: usize) -> Result<NonNull<u8>, Self::Error> {
            self.call("allocate host").map(|()| MEMORY)
        }
        unsafe fn free_host(&self, _: NonNull<u8>) -> Result<(), Self::Error> {
            self.call("free host")
        }
        unsafe fn pin(&self, _: NonNull<u8>, _: usize) -> Result<(), Self::Error> {
            self.call("pin")
        }
        unsafe fn unpin(&self, _: NonNull<u8>) -> Result<(), Self::Error> {
            self.call("unpin")
        }
        fn address_of_host(&self, memory: NonNull<u8>) -> Result<NonNull<u8>, Self::Error> {
            self.call("address").map(|()| memory)
        }
        unsafe fn make_stream(&self) -> Result<Stream, Self::Error> {
            self.call("make stream").map(|()| Stream(7))
        }
        unsafe fn destroy_stream(&self, stream: Stream) -> Result<(), Self::Error> {
            assert_eq!(stream, Stream(7));
            self.call("destroy stream")
        }
        unsafe fn start(
            &self,
            (): (),
            _: Grid,
            stream: Stream,
            _: &mut [*mut c_void],
        ) -> Result<(), Self::Error> {
            assert_eq!(stream, Stream(7));
            self.call("start")
        }
        unsafe fn query(&self, _: Stream) -> Result<bool, Self::Error> {
            self.call("query").map(|()| true)
        }
        unsafe fn sleep(&self, _: Stream) -> bool {
            unreachable!("it cannot")
        }
        fn wait_for_all(&self) -> Result<(), Self::Error> {
            self.call("wait for all")
        }
    }

    /// The calls that `step` makes when the call `fails` fails, and its error.
    fn calls<T>(
        fails: &'static str,
        step: impl FnOnce(&RuntimeGpu<Noting>) -> Result<T, GpuError>,
    ) -> (String, Option<String>) {
        let gpu = RuntimeGpu(Noting { fails, ..Noting::default() });
        let error = step(&gpu).err().map(|error| error.to_string());
        let calls = gpu.0.calls.lock().unwrap().join(", ");
        (calls, error.map(|error| error.split(": ").next().unwrap_or_default().to_owned()))
    }

    fn said(calls: &str, doing: &str) -> (String, Option<String>) {
        (calls.to_owned(), (!doing.is_empty()).then(|| doing.to_owned()))
    }

    #[test]
    fn device_memory_is_zeroed_before_it_is_handed_out() {
        let allocate = |gpu: &RuntimeGpu<Noting>| gpu.allocate(8);
        let doing = "allocating device memory";
        assert_eq!(calls("", allocate), said("bind, allocate, zero, wait for copies", ""));
        assert_eq!(calls("bind", allocate), said("bind", "choosing the GPU"));
        assert_eq!(calls("allocate", allocate), said("bind, allocate", doing));
        assert_eq!(
            calls("zero", allocate),
            said("bind, allocate, zero, bind, free", "zeroing device memory")
        );
        let waited = "bind, allocate, zero, wait for copies, bind, free";
        assert_eq!(calls("wait for copies", allocate), said(waited, "copying to the GPU"));
    }

    #[test]
    fn a_copy_to_the_device_has_ended() {
        // SAFETY:
        // - nothing is copied
        let write = |gpu: &RuntimeGpu<Noting>| unsafe { gpu.write(64, &[1]) };
        assert_eq!(calls("", write), said("bind, copy to, wait for copies", ""));
        assert_eq!(calls("copy to", write), said("bind, copy to", "copying to the GPU"));
        // SAFETY:
        // - nothing is copied
        let read = |gpu: &RuntimeGpu<Noting>| unsafe { gpu.read(64, &mut [1]) };
        assert_eq!(calls("copy from", read), said("bind, copy from", "copying from the GPU"));
    }

    #[test]
    fn what_cannot_be_mapped_is_not_left_pinned() {
        // SAFETY:
        // - nothing is pinned
        let register = |gpu: &RuntimeGpu<Noting>| unsafe { gpu.register(MEMORY, 0) };
        assert_eq!(calls("", register), said("bind, pin, bind, address", ""));
        assert_eq!(calls("pin", register), said("bind, pin", "pinning host memory"));
        let mapping = "mapping host memory for the GPU";
        assert_eq!(calls("address", register), said("bind, pin, bind, address, bind, unpin", mapping));
    }

    #[test]
    fn a_launch_that_is_refused_leaves_no_stream() {
        let grid = Grid { blocks: 1, threads: 1 };
        // SAFETY:
        // - nothing runs
        let launch = |gpu: &RuntimeGpu<Noting>| unsafe { gpu.launch(c"k", grid, &mut []) };
        assert_eq!(calls("", launch), said("bind, function, make stream, start", ""));
        assert_eq!(calls("function", launch), said("bind, function", "finding"));
        assert_eq!(calls("make stream", launch), said("bind, function, make stream", "making a stream"));
        let refused = "bind, function, make stream, start, destroy stream";
        assert_eq!(calls("start", launch), said(refused, "launching k"));
    }

    #[test]
    fn nothing_is_given_back_to_a_broken_runtime() {
        // SAFETY:
        // - nothing was allocated, and nothing is freed
        let give_back = |gpu: &RuntimeGpu<Noting>| unsafe {
            Gpu::free(gpu, 64);
            Gpu::free_host(gpu, MEMORY);
            gpu.unregister(MEMORY);
            gpu.destroy(Stream(7));
            gpu.settle()
        };
        assert_eq!(calls("bind", give_back), said("bind, bind, bind, bind, bind", "choosing the GPU"));
        let all = "bind, free, bind, free host, bind, unpin, bind, destroy stream, bind, wait for all";
        assert_eq!(calls("", give_back), said(all, ""));
    }

    #[test]
    fn a_kernel_has_three_numbers() {
        let gpu = RuntimeGpu(Noting::default());
        let limits = gpu.limits(c"k").unwrap();
        assert_eq!((limits.registers, limits.stack_bytes, limits.threads_per_block), (Some(10), 11, 12));
        assert_eq!(gpu.occupancy(c"k", 256).unwrap(), 4);
        // SAFETY:
        // - nothing runs
        assert!(!unsafe { gpu.sleep(Stream(7)) }.unwrap(), "this runtime cannot");
    }
}
