//! A GPU and its primary context.
//!
//! The primary context belongs to the whole process: every session of a GPU has it, and so has the CUDA runtime, if the program uses
//! that too, so that all see each other's memory. A kernel's fault breaks it for all of them, and for good: "to continue using CUDA, the
//! process must be terminated and relaunched" (CUDA driver API, `CUresult`). On an H200 with driver 580 that held for a primary context let go
//! and retained again, for one reset before, and for contexts of our own, made before the fault or after it.

use std::ptr;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::tried;
use crate::gpu::GpuError;

/// Loads and starts the driver, and counts its GPUs.
pub(super) fn start() -> Result<u32, GpuError> {
    // SAFETY:
    // - loads a library by its name; its initializers are the driver's
    if !unsafe { sys::is_culib_present() } {
        return Err(GpuError::NoRuntime(
            "libcuda.so was not found: install the NVIDIA driver, or use CPU lanes".to_owned(),
        ));
    }
    result::init().map_err(tried("starting the NVIDIA driver"))?;
    result::device::get_count().map(i32::cast_unsigned).map_err(tried("counting GPUs"))
}

/// A GPU with its primary context, which is let go on drop.
#[derive(Debug)]
pub(super) struct Device {
    device: sys::CUdevice,
    context: sys::CUcontext,
}

// SAFETY:
// - a context may be made current on any thread, on several at once
unsafe impl Send for Device {}
// SAFETY:
// - as for `Send`
unsafe impl Sync for Device {}

impl Device {
    /// Opens GPU number `ordinal`, with `stack_bytes` of stack for each thread of a kernel.
    pub(super) fn open(ordinal: u32, stack_bytes: usize) -> Result<Arc<Self>, GpuError> {
        let opened = Self::present(ordinal)?;
        result::ctx::set_limit(sys::CUlimit::CU_LIMIT_STACK_SIZE, stack_bytes)
            .map_err(tried("setting the stack of a thread"))?;
        Ok(opened)
    }

    /// GPU number `ordinal` with its context, current on the calling thread. No setting of it is changed.
    pub(super) fn present(ordinal: u32) -> Result<Arc<Self>, GpuError> {
        let count = start()?;
        if ordinal >= count {
            return Err(GpuError::NoDevice { maker: "NVIDIA", ordinal, count });
        }
        let device = result::device::get(ordinal.cast_signed()).map_err(tried("opening the GPU"))?;
        Self::whole(device).map(Arc::new)
    }

    /// The GPU with its context, current on the calling thread, unless a fault has broken it.
    fn whole(device: sys::CUdevice) -> Result<Self, GpuError> {
        Self::retain(device).and_then(|opened| opened.check().map(|()| opened)).map_err(|error| {
            if !error.is_fault() {
                return error;
            }
            GpuError::Broken(format!(
                "an earlier kernel's fault has ended this process's use of the GPU ({error}): the driver takes no new context of it, \
                 even where every session is dropped; go on in a new process"
            ))
        })
    }

    fn retain(device: sys::CUdevice) -> Result<Self, GpuError> {
        // SAFETY:
        // - `device` is one; released when this is dropped
        let context =
            unsafe { result::primary_ctx::retain(device) }.map_err(tried("opening the GPU's context"))?;
        Ok(Self { device, context })
    }

    /// Whether the context works. Waits for nothing.
    fn check(&self) -> Result<(), GpuError> {
        self.bind()?;
        // SAFETY:
        // - the null stream is always there
        match unsafe { sys::cuStreamQuery(ptr::null_mut()) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(()),
            state => state.result().map_err(tried("looking at the GPU's context")),
        }
    }

    /// Makes the context current on the calling thread.
    pub(super) fn bind(&self) -> Result<(), GpuError> {
        // SAFETY:
        // - the context is retained as long as `self`
        unsafe { result::ctx::set_current(self.context) }.map_err(tried("choosing the GPU's context"))
    }

    /// The GPU's name.
    pub(super) fn name(&self) -> String {
        result::device::get_name(self.device).unwrap_or_else(|_| "unknown GPU".to_owned())
    }

    /// One of the GPU's numbers, where the driver knows it.
    pub(super) fn attribute(&self, attribute: sys::CUdevice_attribute) -> Option<u32> {
        // SAFETY:
        // - `device` is one
        let value = unsafe { result::device::get_attribute(self.device, attribute) };
        value.ok().map(i32::cast_unsigned)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY:
        // - retained in `retain`, once; what used it is gone: it holds this device
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}
