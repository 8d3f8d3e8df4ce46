//! A running kernel, and waiting for it without keeping a core busy.

use std::ffi::{CStr, c_void};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::{Gpu, GpuError, Stream};
use crate::cpu::Grid;

/// How long a waiting thread looks without sleeping: what a short kernel takes.
const BRISK: Duration = Duration::from_micros(100);
/// The longest sleep between two looks.
const LONGEST_NAP: Duration = Duration::from_micros(200);

/// A kernel on a stream of its own. The stream goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Launch {
    gpu: Arc<dyn Gpu>,
    stream: Stream,
}

impl Launch {
    /// Starts a kernel with the session's tables and the bytes of its arguments.
    ///
    /// # Safety
    /// The kernel takes a pointer to a session and one value of the layout of `arguments`; what they refer to stays until it ends.
    pub(crate) unsafe fn start(
        gpu: &Arc<dyn Gpu>,
        kernel: &CStr,
        grid: Grid,
        session: u64,
        arguments: *mut c_void,
    ) -> Result<Self, GpuError> {
        let mut session = session;
        let mut parameters = [(&raw mut session).cast::<c_void>(), arguments];
        // SAFETY:
        // - the parameters are the kernel's, by this function's contract; the runtime copies them before it returns
        let stream = unsafe { gpu.launch(kernel, grid, &mut parameters) }?;
        Ok(Self { gpu: Arc::clone(gpu), stream })
    }

    /// Whether it has ended; what ended it, if it did not end well.
    pub(crate) fn poll(&self) -> Result<bool, GpuError> {
        // SAFETY:
        // - destroyed only when `self` is dropped
        unsafe { self.gpu.poll(self.stream) }
    }

    /// Whether it has ended, well or not.
    pub(crate) fn is_finished(&self) -> bool {
        self.poll().unwrap_or(true)
    }

    /// Waits until it has ended: at first without sleeping, then with naps of an eighth of the wait so far.
    pub(crate) fn wait(&self) -> Result<(), GpuError> {
        let started = Instant::now();
        // Ends when the kernel does; a kernel that never ends is the program's own.
        while !self.poll()? {
            let waited = started.elapsed();
            if waited < BRISK {
                thread::yield_now();
            } else {
                thread::sleep((waited / 8).min(LONGEST_NAP));
            }
        }
        Ok(())
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        // SAFETY:
        // - from `launch`, and nobody has it any more
        unsafe { self.gpu.destroy(self.stream) };
    }
}
