//! Device programs: loading them, and the kernels and variables that they hold.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::device::Device;
use super::tried;
use crate::gpu::{GpuError, Program, shown};

/// Room for what the driver's compiler has to say.
const LOG_BYTES: usize = 8 << 10;

/// A loaded program.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) device: Arc<Device>,
    module: sys::CUmodule,
}

// SAFETY:
// - a module may be used from any thread on which its context is current
unsafe impl Send for Module {}
// SAFETY:
// - as for `Send`, on several at once
unsafe impl Sync for Module {}

impl Module {
    /// Loads a program. PTX is compiled by the driver, with at most `registers` registers a thread.
    pub(super) fn load(
        device: Arc<Device>,
        program: &Program,
        registers: Option<u32>,
    ) -> Result<Self, GpuError> {
        device.bind()?;
        let image = match program {
            Program::Ptx(text) => text.as_ptr().cast::<c_void>(),
            Program::Nvidia(words) | Program::Amd(words) => words.as_ptr().cast(),
        };
        let mut log = vec![0_u8; LOG_BYTES];
        // Numbers are passed in place of pointers.
        let mut options = vec![
            (sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER, log.as_mut_ptr().cast::<c_void>()),
            (sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, ptr::without_provenance_mut(log.len())),
        ];
        if let Some(registers) = registers {
            let registers = ptr::without_provenance_mut(registers as usize);
            options.push((sys::CUjit_option::CU_JIT_MAX_REGISTERS, registers));
        }
        let (mut names, mut values): (Vec<_>, Vec<_>) = options.into_iter().unzip();
        let mut module = ptr::null_mut();
        // SAFETY:
        // - NUL-terminated PTX, or a binary that tells its own length, which the driver reads and checks
        // - as many options as values, and the log is as long as they say
        let loaded = unsafe {
            let count = u32::try_from(names.len()).unwrap_or(0);
            sys::cuModuleLoadDataEx(&raw mut module, image, count, names.as_mut_ptr(), values.as_mut_ptr())
        };
        if let Err(error) = loaded.result() {
            let said = CStr::from_bytes_until_nul(&log).map_or("".into(), CStr::to_string_lossy);
            let error = tried("loading the device program")(error);
            return Err(if said.trim().is_empty() {
                error
            } else {
                error.explained(&format!("The driver's compiler says:\n{}", said.trim_end()))
            });
        }
        Ok(Self { device, module })
    }

    /// The kernel of this name. The context is current.
    pub(super) fn function(&self, kernel: &CStr) -> Result<sys::CUfunction, GpuError> {
        // SAFETY:
        // - the module is loaded as long as `self`
        unsafe { result::module::get_function(self.module, kernel.to_owned()) }.map_err(|error| {
            let named = tried(&format!("finding the kernel {} in the device program", shown(kernel)))(error);
            if error.0 == sys::CUresult::CUDA_ERROR_NOT_FOUND {
                named.explained("The program that was loaded is of other kernels, or of an older build.")
            } else {
                named
            }
        })
    }

    /// The address of a global variable. The context is current.
    pub(super) fn variable(&self, name: &CStr) -> Option<u64> {
        // SAFETY:
        // - the module is loaded as long as `self`
        unsafe { result::module::get_global(self.module, name.to_owned()) }.ok().map(|(address, _)| address)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // After a fault the driver refuses; the module goes with the context.
        if self.device.bind().is_ok() {
            // SAFETY:
            // - loaded in `load`; the session that ran its kernels is gone
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}
