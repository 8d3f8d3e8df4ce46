//! The GPU, as far as a benchmark needs it beside a session: how large it is, device memory, the buffer of CUDA's own `printf`, and
//! copies between its memory and files by threads of the host.
#![expect(unsafe_code, reason = "the driver's C interface")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::ptr::{self, NonNull};

use cudarc::driver::{DriverError, result, sys};

use crate::cpu::{Means, Mover};
use crate::failure::Failure;

/// Bytes of the buffer that CUDA's `printf` leaves its lines in. It overwrites silently, so only lines that came out are counted.
pub(crate) const PRINTF_BYTES: usize = 128 << 20;

/// A GPU whose primary context is kept, so that sessions come and go without making it again.
#[derive(Debug)]
pub(crate) struct Gpu {
    device: sys::CUdevice,
    context: sys::CUcontext,
    pub(crate) multiprocessors: u32,
}

// SAFETY:
// - the context may be made current in any number of threads at once (CUDA's driver API: "Context Management"); the rest is numbers
unsafe impl Sync for Gpu {}

/// The driver's own words.
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

    /// Makes its context the calling thread's.
    pub(crate) fn bind(&self) -> Result<(), Failure> {
        // SAFETY:
        // - retained as long as `self`
        unsafe { result::ctx::set_current(self.context) }.map_err(refused)
    }

    /// Pins memory of the host where it is.
    ///
    /// # Safety
    /// Mapped, with that length, until [`Gpu::unpin`].
    pub(crate) unsafe fn pin(&self, memory: NonNull<u8>, bytes: usize) -> Result<(), Failure> {
        self.bind()?;
        // SAFETY:
        // - mapped as long as it is pinned, by this function's contract
        unsafe { sys::cuMemHostRegister_v2(memory.as_ptr().cast(), bytes, 0) }.result().map_err(refused)
    }
    /// Takes that back.
    ///
    /// # Safety
    /// Pinned by [`Gpu::pin`], and not taken back before.
    pub(crate) unsafe fn unpin(&self, memory: NonNull<u8>) {
        if self.bind().is_ok() {
            // SAFETY:
            // - as this function's contract has it; no copy of the driver's is in progress: each was waited for
            let _ = unsafe { sys::cuMemHostUnregister(memory.as_ptr().cast()) };
        }
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
    /// Copies its beginning to the host.
    pub(crate) fn copy_to(&self, bytes: &mut [u8]) -> Result<(), Failure> {
        match self {
            Self::Host(memory) => {
                let whole = memory.iter().flat_map(|word| word.to_ne_bytes());
                bytes.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
                Ok(())
            }
            // SAFETY:
            // - device memory as long as the caller allocated it; the context is the calling thread's
            Self::Gpu(address) => unsafe { result::memcpy_dtoh_sync(bytes, *address) }.map_err(refused),
        }
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

/// Means: the system calls on pinned memory, and a copy between that and device memory, each thread for itself.
pub(crate) struct Staging<'a>(pub(crate) &'a Gpu);

/// One thread's memory, here and there, and its stream of copies. Null: not made yet.
struct Stager {
    host: *mut u8,
    bytes: usize,
    device: sys::CUdeviceptr,
    stream: sys::CUstream,
}

/// An error that crosses threads.
pub(crate) fn said(error: impl ToString) -> io::Error {
    io::Error::other(error.to_string())
}

impl Means for Staging<'_> {
    fn mover(&self, bytes: usize) -> io::Result<Box<dyn Mover + '_>> {
        self.0.bind().map_err(said)?;
        let mut stager = Stager { host: ptr::null_mut(), bytes, device: 0, stream: ptr::null_mut() };
        let refused = |error| said(refused(error));
        // SAFETY:
        // - new allocations of the context that is current, freed when `stager` is dropped
        unsafe {
            stager.host = result::malloc_host(bytes, 0).map_err(refused)?.cast();
            stager.device = result::malloc_sync(bytes).map_err(refused)?;
        }
        let copies = result::stream::StreamKind::NonBlocking;
        stager.stream = result::stream::create(copies).map_err(refused)?;
        // SAFETY:
        // - as long as was just allocated
        unsafe { result::memset_d8_sync(stager.device, b'x', bytes) }.map_err(refused)?;
        Ok(Box::new(stager))
    }
}

impl Stager {
    /// The pinned memory.
    fn host(&mut self) -> &mut [u8] {
        let host = NonNull::new(self.host).expect("a stager that was handed out is whole");
        // SAFETY:
        // - allocated with that length, this stager's alone; nothing is copied while the slice lives, since copies are waited for
        // - any bytes are valid
        unsafe { std::slice::from_raw_parts_mut(host.as_ptr(), self.bytes) }
    }
    /// Waits for the copy.
    fn wait(&self) -> Result<(), DriverError> {
        // SAFETY:
        // - created in `mover`
        unsafe { result::stream::synchronize(self.stream) }
    }
}

impl Mover for Stager {
    fn read(&mut self, file: &File, offset: u64) -> io::Result<()> {
        file.read_exact_at(self.host(), offset)?;
        let (device, stream) = (self.device, self.stream);
        // SAFETY:
        // - both are of that length, and are left alone until the copy was waited for
        unsafe { result::memcpy_htod_async(device, self.host(), stream) }
            .and_then(|()| self.wait())
            .map_err(|error| said(refused(error)))
    }
    fn write(&mut self, file: &File, offset: u64) -> io::Result<()> {
        let (device, stream) = (self.device, self.stream);
        // SAFETY:
        // - as above
        unsafe { result::memcpy_dtoh_async(self.host(), device, stream) }
            .and_then(|()| self.wait())
            .map_err(|error| said(refused(error)))?;
        file.write_all_at(self.host(), offset)
    }
}

impl Drop for Stager {
    fn drop(&mut self) {
        // SAFETY:
        // - what is not null was made in `mover`, in this thread, whose context is still current; every copy was waited for
        unsafe {
            if !self.stream.is_null() {
                let _ = result::stream::destroy(self.stream);
            }
            if self.device != 0 {
                let _ = result::free_sync(self.device);
            }
            if !self.host.is_null() {
                let _ = result::free_host(self.host.cast());
            }
        }
    }
}
