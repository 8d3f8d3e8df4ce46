//! The GPU, as far as a benchmark needs it beside a session: how large it is, device memory, and the buffer of CUDA's own `printf`.
#![allow(unsafe_code, reason = "the driver's C interface")]

use cudarc::driver::{DriverError, result, sys};

use crate::Failure;

/// Bytes of the buffer that CUDA's `printf` leaves its lines in. It overwrites silently, so only lines that came out are counted.
pub(crate) const PRINTF_BYTES: usize = 128 << 20;

/// A GPU whose primary context is kept, so that sessions come and go without making it anew.
#[derive(Debug)]
pub(crate) struct Gpu {
    device: sys::CUdevice,
    context: sys::CUcontext,
    pub(crate) multiprocessors: u32,
}

/// The driver's own words.
#[allow(clippy::needless_pass_by_value, reason = "what map_err hands over")]
fn refused(error: DriverError) -> Failure {
    let name = error.error_name().map_or("unknown error".into(), std::ffi::CStr::to_string_lossy);
    let text = error.error_string().map_or("".into(), std::ffi::CStr::to_string_lossy);
    format!("the GPU's driver: {name} ({text})").into()
}

impl Gpu {
    pub(crate) fn open(ordinal: u32) -> Result<Self, Failure> {
        // SAFETY:
        // - loads a library by its name; its initializers are the driver's
        if !unsafe { sys::is_culib_present() } {
            return Err("libcuda.so was not found: install the NVIDIA driver, or use --device cpu".into());
        }
        result::init().map_err(refused)?;
        let device = result::device::get(ordinal.cast_signed()).map_err(refused)?;
        // SAFETY:
        // - `device` is one; released when this is dropped
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(refused)?;
        let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        // SAFETY:
        // - `device` is one
        let multiprocessors =
            unsafe { result::device::get_attribute(device, attribute) }.map_err(refused)?.cast_unsigned();
        let gpu = Self { device, context, multiprocessors };
        gpu.bind()?;
        // Only before the first kernel that prints.
        result::ctx::set_limit(sys::CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE, PRINTF_BYTES).map_err(refused)?;
        Ok(gpu)
    }

    fn bind(&self) -> Result<(), Failure> {
        // SAFETY:
        // - retained as long as `self`
        unsafe { result::ctx::set_current(self.context) }.map_err(refused)
    }

    /// Bytes of device memory that nobody has.
    pub(crate) fn free_bytes(&self) -> Result<u64, Failure> {
        self.bind()?;
        Ok(result::mem_get_info().map_err(refused)?.0 as u64)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY:
        // - retained in `open`, once; device memory of this program is gone
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// Memory of the device: on a GPU its own, on CPU lanes the host's. Every byte is `x`.
///
/// The one place that becomes a call of the session when it gives such memory itself.
#[derive(Debug)]
pub(crate) enum DeviceBytes {
    Host(Vec<u128>),
    Gpu(sys::CUdeviceptr),
}

impl DeviceBytes {
    pub(crate) fn allocate(gpu: Option<&Gpu>, bytes: usize) -> Result<Self, Failure> {
        let Some(gpu) = gpu else {
            return Ok(Self::Host(vec![u128::from_ne_bytes([b'x'; 16]); bytes.div_ceil(16)]));
        };
        gpu.bind()?;
        // SAFETY:
        // - a new allocation, freed when this is dropped
        let address = unsafe { result::malloc_sync(bytes) }.map_err(refused)?;
        let memory = Self::Gpu(address);
        // SAFETY:
        // - as long as was just allocated
        unsafe { result::memset_d8_sync(address, b'x', bytes) }.map_err(refused)?;
        Ok(memory)
    }
    /// The first byte, as kernels see it.
    pub(crate) fn address(&self) -> u64 {
        match self {
            Self::Host(memory) => memory.as_ptr() as u64,
            Self::Gpu(address) => *address,
        }
    }
}

impl Drop for DeviceBytes {
    fn drop(&mut self) {
        if let Self::Gpu(address) = self {
            // SAFETY:
            // - allocated in `allocate`; no kernel runs, and the context is the one that stays current
            let _ = unsafe { result::free_sync(*address) };
        }
    }
}
