//! Device programs: loading them, what their kernels take, launching.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::{DriverError, result, sys};

use super::device::Device;
use super::tried;
use crate::cpu::Grid;
use crate::gpu::{GpuError, KernelLimits, Program, Stream};

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
        let loaded = Self { device, module };
        // The driver loads a kernel's code when it is first used, and may wait for running kernels to do so: one that waits for the
        // other would then wait for ever.
        for kernel in program.kernels() {
            let _ = loaded.limits(&kernel);
        }
        Ok(loaded)
    }

    fn function(&self, kernel: &CStr) -> Result<sys::CUfunction, GpuError> {
        self.device.bind()?;
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

    /// The address of a global variable.
    pub(super) fn global(&self, name: &CStr) -> Option<u64> {
        self.device.bind().ok()?;
        // SAFETY:
        // - the module is loaded as long as `self`
        unsafe { result::module::get_global(self.module, name.to_owned()) }.ok().map(|(address, _)| address)
    }

    /// What the kernel of this name takes.
    pub(super) fn limits(&self, kernel: &CStr) -> Result<KernelLimits, GpuError> {
        use sys::CUfunction_attribute_enum as Attribute;
        let function = self.function(kernel)?;
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY:
            // - a function of this module, and the number is written
            unsafe { sys::cuFuncGetAttribute(&raw mut value, attribute, function) }
                .result()
                .map_err(tried(&format!("asking what the kernel {} takes", shown(kernel))))?;
            Ok(value.cast_unsigned())
        };
        Ok(KernelLimits::new(
            Some(attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?),
            attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?.into(),
            attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        ))
    }

    /// How many blocks of so many threads a multiprocessor runs at once.
    pub(super) fn occupancy(&self, kernel: &CStr, threads_per_block: u32) -> Result<u32, GpuError> {
        let function = self.function(kernel)?;
        let threads = i32::try_from(threads_per_block).unwrap_or(i32::MAX);
        let mut blocks = 0;
        // SAFETY:
        // - a function of this module, and the number is written
        unsafe { sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, threads, 0) }
            .result()
            .map_err(tried(&format!("asking how many blocks of {} fit", shown(kernel))))?;
        Ok(blocks.cast_unsigned())
    }

    /// Starts a kernel on a stream of its own.
    ///
    /// # Safety
    /// As `Gpu::launch`.
    pub(super) unsafe fn launch(
        &self,
        kernel: &CStr,
        grid: Grid,
        parameters: &mut [*mut c_void],
    ) -> Result<Stream, GpuError> {
        let function = self.function(kernel)?;
        let mut stream = ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY:
        // - a new stream, destroyed by whoever gets it, or below
        unsafe { sys::cuStreamCreate(&raw mut stream, flags) }.result().map_err(tried("making a stream"))?;
        // SAFETY:
        // - the parameters are the kernel's, by this function's contract; the driver copies them before it returns
        let launched = unsafe {
            let (blocks, threads) = ((grid.blocks, 1, 1), (grid.threads, 1, 1));
            result::launch_kernel(function, blocks, threads, 0, stream, parameters)
        };
        if let Err(error) = launched {
            // SAFETY:
            // - made above, and nothing runs on it
            let _ = unsafe { sys::cuStreamDestroy_v2(stream) };
            return Err(self.refused(kernel, grid, error));
        }
        Ok(Stream(stream as usize))
    }

    /// Why a launch was refused, with the numbers that matter.
    fn refused(&self, kernel: &CStr, grid: Grid, error: DriverError) -> GpuError {
        use sys::CUdevice_attribute as Attribute;
        let refused = tried(&format!("launching the kernel {}", shown(kernel)))(error);
        let about_size = matches!(
            error.0,
            sys::CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES | sys::CUresult::CUDA_ERROR_INVALID_VALUE
        );
        let (true, Ok(limits)) = (about_size, self.limits(kernel)) else { return refused };
        let registers = limits.registers.unwrap_or(0);
        let of_block = self.device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
        refused.explained(&format!(
            "A block of {} threads × {registers} registers wants {} registers; a block has {}, and this kernel runs with at most {} \
             threads a block: use fewer threads a block, or lower Builder::gpu_registers.",
            grid.threads,
            u64::from(grid.threads) * u64::from(registers),
            of_block.map_or("a limited number".to_owned(), |number| number.to_string()),
            limits.threads_per_block,
        ))
    }
}

/// A kernel's name for messages.
fn shown(kernel: &CStr) -> String {
    kernel.to_string_lossy().into_owned()
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
