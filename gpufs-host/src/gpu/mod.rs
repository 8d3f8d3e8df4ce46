//! What a session needs of a GPU's runtime. CUDA and HIP each implement the trait `Gpu`; everything above it is written once.
//!
//! | file | what |
//! |---|---|
//! | `error.rs` | what a runtime refused, and what that means |
//! | `fake.rs` | a GPU for tests, which runs nothing |
//! | `launch.rs` | a running kernel on a stream of its own, and waiting for it |
//! | `memory.rs` | the device's memory, and host memory that it reaches |
//! | `program.rs` | what kind of device program some bytes are |
//! | `runtime/` | the trait, made of the single calls of a runtime; what CUDA and HIP have in common |
#![expect(unsafe_code, reason = "calls of the runtimes' C interfaces, behind one trait")]
#![cfg_attr(
    not(any(feature = "cuda", feature = "hip", test, fuzzing)),
    allow(dead_code, reason = "built without a GPU's runtime, nothing implements the trait")
)]

mod error;
#[cfg(any(test, fuzzing))]
#[cfg_attr(not(test), expect(dead_code, reason = "tests use more of it"))]
pub(crate) mod fake;
mod launch;
mod memory;
mod program;
#[cfg(any(feature = "cuda", feature = "hip", test))]
mod runtime;

use std::ffi::{CStr, c_void};
use std::fmt::Debug;
use std::ptr::NonNull;

use crate::cpu::Grid;
use crate::ring::RingMemory;

pub use error::{GpuError, Refusal};
pub(crate) use launch::Launch;
pub(crate) use memory::{Allocation, DeviceMemory, Registered, within};
#[cfg(any(feature = "cuda", feature = "hip"))]
pub(crate) use program::Program;
#[cfg(feature = "cuda")]
pub(crate) use runtime::limits_of;
#[cfg(any(feature = "cuda", feature = "hip"))]
pub(crate) use runtime::{KernelAttribute, Runtime, RuntimeGpu, shown};

/// What a kernel takes of the device, as its compiler left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelLimits {
    /// Registers of a thread; `None` on CPU lanes.
    pub registers: Option<u32>,
    /// Bytes of stack that the compiler knows a thread to need. On CPU lanes, those that a lane has.
    pub stack_bytes: u64,
    /// The most threads that a block of this kernel may have.
    pub threads_per_block: u32,
}

impl KernelLimits {
    pub(crate) const fn new(registers: Option<u32>, stack_bytes: u64, threads_per_block: u32) -> Self {
        Self { registers, stack_bytes, threads_per_block }
    }
}

/// How to open a GPU.
#[derive(Clone, Copy, Debug)]
#[cfg(any(feature = "cuda", feature = "hip"))]
pub(crate) struct GpuOptions {
    /// Stack of a thread, in bytes.
    pub(crate) stack_bytes: usize,
    /// The most registers that the driver's compiler may give a thread.
    pub(crate) registers: Option<u32>,
}

/// A stream of the runtime's: its handle, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream(pub(crate) usize);

/// A GPU with a device program loaded. Calls come from any thread.
///
/// # Safety
/// The implementation promises that
/// - `global` gives a variable's address, as long as the program declares it;
/// - `allocate` gives memory of the device, zeroed, that nothing else uses until `free`;
/// - `allocate_host` gives page-aligned, zeroed memory of the host that nothing else uses until `free_host`;
/// - the address that `register` and `device_address` give reaches the same bytes from the device;
/// - once `poll` says that a stream's kernel has ended, what it wrote is there for the host to read, and nothing writes any more.
pub(crate) unsafe trait Gpu: Debug + Send + Sync {
    /// What to call it.
    fn name(&self) -> String;
    /// Multiprocessors, compute units.
    fn multiprocessors(&self) -> u32;
    /// The kinds of ring memory that it can reach, best first.
    fn ring_memories(&self) -> &'static [RingMemory];

    /// Whether a kernel takes the address of its arguments, in place of their bytes (see `gpufs_device::kernel!`).
    fn arguments_by_address(&self) -> bool {
        false
    }

    /// What the kernel of this name takes.
    fn limits(&self, kernel: &CStr) -> Result<KernelLimits, GpuError>;
    /// Blocks of `threads_per_block` threads that a multiprocessor runs at once.
    fn occupancy(&self, kernel: &CStr, threads_per_block: u32) -> Result<u32, GpuError>;

    /// The address of a global variable of the program, if it has one of that name.
    fn global(&self, name: &CStr) -> Option<u64>;

    /// Device memory; its address there.
    fn allocate(&self, bytes: usize) -> Result<u64, GpuError>;
    /// Gives it back.
    ///
    /// # Safety
    /// From `allocate`, and no kernel uses it any more.
    unsafe fn free(&self, address: u64);
    /// Copies to the device; kernels launched afterwards see it.
    ///
    /// # Safety
    /// The bytes lie within one allocation or variable, and no kernel uses them meanwhile.
    unsafe fn write(&self, address: u64, bytes: &[u8]) -> Result<(), GpuError>;
    /// Copies from the device.
    ///
    /// # Safety
    /// The bytes lie within one allocation, and no kernel writes them meanwhile.
    unsafe fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), GpuError>;

    /// Host memory of the runtime's own allocator, whole pages.
    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, GpuError>;
    /// Gives it back.
    ///
    /// # Safety
    /// From `allocate_host`, and nothing uses it any more.
    unsafe fn free_host(&self, memory: NonNull<u8>);
    /// Where the device reaches memory of `allocate_host`.
    fn device_address(&self, memory: NonNull<u8>) -> Result<NonNull<u8>, GpuError>;
    /// Makes ordinary pages reachable from the device; their address there.
    ///
    /// # Safety
    /// They stay mapped until `unregister`.
    unsafe fn register(&self, memory: NonNull<u8>, bytes: usize) -> Result<NonNull<u8>, GpuError>;
    /// Undoes `register`.
    ///
    /// # Safety
    /// Registered once, and the device no longer uses it.
    unsafe fn unregister(&self, memory: NonNull<u8>);

    /// Starts a kernel on a new stream, which waits for no other.
    ///
    /// # Safety
    /// `parameters` are the kernel's, and what they refer to stays until it ends.
    unsafe fn launch(
        &self,
        kernel: &CStr,
        grid: Grid,
        parameters: &mut [*mut c_void],
    ) -> Result<Stream, GpuError>;
    /// Whether the stream's kernel has ended; the fault that ended it.
    ///
    /// # Safety
    /// From `launch`, not yet destroyed.
    unsafe fn poll(&self, stream: Stream) -> Result<bool, GpuError>;
    /// Sleeps until the stream's kernel has ended, where the runtime can; whether it did so. Else it returns at once. How the kernel ended is
    /// [`Gpu::poll`]'s to say.
    ///
    /// # Safety
    /// From `launch`, not yet destroyed.
    unsafe fn sleep(&self, stream: Stream) -> Result<bool, GpuError> {
        let _ = stream;
        Ok(false)
    }
    /// Waits until nothing runs in the process's use of the GPU any more, whoever started it; the fault that ended it.
    fn settle(&self) -> Result<(), GpuError>;
    /// Lets the stream go.
    ///
    /// # Safety
    /// From `launch`, once.
    unsafe fn destroy(&self, stream: Stream);
}
