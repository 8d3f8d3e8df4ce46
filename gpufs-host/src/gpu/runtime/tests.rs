//! The order of a runtime's calls, and what follows when one fails.

use std::sync::Mutex;

use super::*;
use crate::gpu::Refusal;

/// A runtime that notes its calls, and fails at one of them. It has no memory, and nothing reads its addresses.
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
    assert_eq!(calls("zero", allocate), said("bind, allocate, zero, bind, free", "zeroing device memory"));
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
