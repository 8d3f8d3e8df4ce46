//! A GPU for tests: its memory is the host's, and a kernel is its name: it ends when the test says so, well or not.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::Mutex;

use super::{Gpu, GpuError, KernelLimits, Refusal, Stream};
use crate::cpu::Grid;
use crate::ring::{CpuMemory, MemorySource, RingMemory};

/// How a kernel ended, or that it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Done,
    Faulted,
}

/// What the GPU holds.
#[derive(Debug, Default)]
struct Held {
    device: HashMap<u64, usize>,
    host: HashMap<usize, usize>,
    registered: HashMap<usize, usize>,
    streams: HashMap<usize, State>,
    started: usize,
    /// Each kernel's argument, a number.
    arguments: Vec<u64>,
    /// How often a thread polled.
    polls: usize,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    held: Mutex<Held>,
    /// Whether it refuses to reach ordinary pages.
    picky: bool,
}

impl Fake {
    /// One that does not reach ordinary pages in small pieces, and wants arguments by their address.
    pub(crate) fn picky() -> Self {
        Self { picky: true, ..Self::default() }
    }
    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap()
    }
    /// Ends the kernel that was started as number `stream`, from 1.
    pub(crate) fn end(&self, stream: usize, state: State) {
        *self.held().streams.get_mut(&stream).expect("a stream that was not destroyed") = state;
    }
    /// Streams that there are, stretches of device memory, of host memory, and registered ones.
    pub(crate) fn counts(&self) -> [usize; 4] {
        let held = self.held();
        [held.streams.len(), held.device.len(), held.host.len(), held.registered.len()]
    }
    /// Bytes of device memory that are allocated.
    pub(crate) fn device_bytes(&self) -> usize {
        self.held().device.values().sum()
    }
    /// Bytes of the host's memory that it reaches: its own, and what was registered.
    pub(crate) fn mapped_bytes(&self) -> usize {
        let held = self.held();
        held.host.values().chain(held.registered.values()).sum()
    }
    /// Each kernel's argument.
    pub(crate) fn arguments(&self) -> Vec<u64> {
        self.held().arguments.clone()
    }
    /// How often a thread polled whether a kernel had ended.
    pub(crate) fn polls(&self) -> usize {
        self.held().polls
    }
}

fn refused(doing: &str, code: u32) -> GpuError {
    GpuError::Refused(Refusal::new(doing, code, "FAKE_ERROR", "a test's"))
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 256).unwrap()
}

// SAFETY:
// - memory is the host's, allocated zeroed, at one address for all
// - nothing runs
unsafe impl Gpu for Fake {
    fn name(&self) -> String {
        "a fake GPU".to_owned()
    }
    fn multiprocessors(&self) -> u32 {
        2
    }
    fn ring_memories(&self) -> &'static [RingMemory] {
        &[RingMemory::Caller, RingMemory::Runtime]
    }
    fn arguments_by_address(&self) -> bool {
        self.picky
    }
    fn limits(&self, kernel: &CStr) -> Result<KernelLimits, GpuError> {
        match kernel.to_bytes() {
            b"missing" => Err(refused("finding the kernel missing", 500)),
            _ => Ok(KernelLimits::new(Some(32), 64, 1024)),
        }
    }
    fn occupancy(&self, _kernel: &CStr, threads_per_block: u32) -> Result<u32, GpuError> {
        Ok(2048 / threads_per_block)
    }
    fn global(&self, _: &CStr) -> Option<u64> {
        None
    }

    fn allocate(&self, bytes: usize) -> Result<u64, GpuError> {
        // SAFETY:
        // - the layout is not empty: callers ask for a byte at least
        let address = unsafe { alloc_zeroed(layout(bytes)) }.expose_provenance() as u64;
        self.held().device.insert(address, bytes);
        Ok(address)
    }
    unsafe fn free(&self, address: u64) {
        let bytes = self.held().device.remove(&address).expect("allocated");
        // SAFETY:
        // - allocated so, once
        unsafe { dealloc(address as *mut u8, layout(bytes)) };
    }
    unsafe fn write(&self, address: u64, bytes: &[u8]) -> Result<(), GpuError> {
        // SAFETY:
        // - within an allocation, by this function's contract
        unsafe { (address as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
    unsafe fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), GpuError> {
        if self.held().streams.values().any(|state| *state == State::Faulted) {
            return Err(refused("copying from the GPU", 700));
        }
        // SAFETY:
        // - within an allocation, by this function's contract
        unsafe { (address as *const u8).copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }
    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        let memory = CpuMemory.allocate(bytes, 4096).map_err(|_| refused("allocating", 2))?;
        self.held().host.insert(memory.addr().get(), bytes);
        Ok(memory)
    }
    unsafe fn free_host(&self, memory: NonNull<u8>) {
        let bytes = self.held().host.remove(&memory.addr().get()).expect("allocated");
        // SAFETY:
        // - allocated so, once
        unsafe { CpuMemory.free(memory, bytes) };
    }
    fn device_address(&self, memory: NonNull<u8>) -> Result<NonNull<u8>, GpuError> {
        Ok(memory)
    }
    unsafe fn register(&self, memory: NonNull<u8>, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        // The pools are larger than any ring of these tests.
        if self.picky && bytes < 1 << 20 {
            return Err(refused("pinning host memory", 801));
        }
        assert_eq!(self.held().registered.insert(memory.addr().get(), bytes), None);
        Ok(memory)
    }
    unsafe fn unregister(&self, memory: NonNull<u8>) {
        assert!(self.held().registered.remove(&memory.addr().get()).is_some());
    }
    unsafe fn launch(
        &self,
        kernel: &CStr,
        _grid: Grid,
        parameters: &mut [*mut c_void],
    ) -> Result<Stream, GpuError> {
        self.limits(kernel)?;
        assert_eq!(parameters.len(), 2);
        let mut held = self.held();
        // SAFETY:
        // - the kernels of these tests take one number, or its address, by this function's contract
        let argument = unsafe {
            let second = parameters[1].cast::<u64>().read();
            if self.picky { (second as *const u64).read() } else { second }
        };
        held.arguments.push(argument);
        held.started += 1;
        let stream = held.started;
        held.streams.insert(stream, State::Running);
        Ok(Stream(stream))
    }
    unsafe fn poll(&self, stream: Stream) -> Result<bool, GpuError> {
        let mut held = self.held();
        held.polls += 1;
        match held.streams[&stream.0] {
            State::Running => Ok(false),
            State::Done => Ok(true),
            State::Faulted => Err(refused("a kernel did not end well", 700)),
        }
    }
    fn settle(&self) -> Result<(), GpuError> {
        Ok(())
    }
    unsafe fn destroy(&self, stream: Stream) {
        self.held().streams.remove(&stream.0).expect("destroyed once");
    }
}
