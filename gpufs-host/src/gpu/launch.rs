//! A running kernel, and waiting for it without keeping a core busy.

use std::ffi::{CStr, c_void};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::{Allocation, DeviceMemory, Gpu, GpuError, Stream};
use crate::cpu::Grid;

/// How long a waiting thread polls without sleeping: as long as a short kernel takes.
const POLL_WITHOUT_SLEEP: Duration = Duration::from_micros(100);
/// The longest sleep between two polls. A poll takes some microseconds of the processor: at this length under a hundredth of a core.
const NAP_MAX: Duration = Duration::from_millis(2);

/// A kernel on a stream of its own. The stream goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Launch {
    gpu: Arc<dyn Gpu>,
    stream: Stream,
    /// The arguments, where the device wants them in its memory. Freed after the stream.
    _arguments: Option<Allocation>,
}

impl Launch {
    /// Starts a kernel with the session's tables and its arguments.
    ///
    /// # Safety
    /// The kernel takes a pointer to a session and one `T`, or the address of one where the GPU wants that; what they refer to stays
    /// until it ends.
    pub(crate) unsafe fn start<T: Copy>(
        gpu: &Arc<dyn Gpu>,
        kernel: &CStr,
        grid: Grid,
        session: u64,
        mut arguments: T,
    ) -> Result<Self, GpuError> {
        let mut session = session;
        let placed = if gpu.arguments_by_address() { Some(place(gpu, &arguments)?) } else { None };
        let mut address = placed.as_ref().map_or(0, DeviceMemory::address);
        let second = if placed.is_some() {
            (&raw mut address).cast::<c_void>()
        } else {
            (&raw mut arguments).cast::<c_void>()
        };
        let mut parameters = [(&raw mut session).cast::<c_void>(), second];
        // SAFETY:
        // - the parameters are the kernel's, by this function's contract; the runtime copies them before it returns
        let stream = unsafe { gpu.launch(kernel, grid, &mut parameters) }?;
        Ok(Self { gpu: Arc::clone(gpu), stream, _arguments: placed })
    }

    /// Whether it has ended; the error that ended it, if it did not end well.
    pub(crate) fn poll(&self) -> Result<bool, GpuError> {
        // SAFETY:
        // - destroyed only when `self` is dropped
        unsafe { self.gpu.poll(self.stream) }
    }

    /// Whether it has ended, well or not.
    pub(crate) fn is_finished(&self) -> bool {
        self.poll().unwrap_or(true)
    }

    /// Waits until it has ended: at first without sleeping, then until the runtime says so, or with naps of a sixty-fourth of the wait so far.
    pub(crate) fn wait(&self) -> Result<(), GpuError> {
        let started = Instant::now();
        // Ends when the kernel does; a kernel that never ends is the program's own.
        while !self.poll()? {
            let waited = started.elapsed();
            if waited < POLL_WITHOUT_SLEEP {
                thread::yield_now();
                continue;
            }
            // SAFETY:
            // - destroyed only when `self` is dropped
            let slept = unsafe { self.gpu.sleep(self.stream) }?;
            if !slept {
                thread::sleep((waited / 64).min(NAP_MAX));
            }
        }
        Ok(())
    }
}

/// A copy in the device's memory.
fn place<T: Copy>(gpu: &Arc<dyn Gpu>, value: &T) -> Result<Allocation, GpuError> {
    let bytes = size_of::<T>();
    let memory = Allocation::new(gpu, bytes.max(1))?;
    // SAFETY:
    // - the value is alive; where it has padding, the runtime copies that unseen
    let image = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), bytes) };
    // SAFETY:
    // - within the new allocation, which no kernel has seen
    unsafe { gpu.write(memory.address(), image) }?;
    Ok(memory)
}

impl Drop for Launch {
    fn drop(&mut self) {
        // SAFETY:
        // - from `launch`, and nothing has it any more
        unsafe { self.gpu.destroy(self.stream) };
    }
}
