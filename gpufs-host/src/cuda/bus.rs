//! What bulk transfers need of the driver (`transfer/bus.rs`): pointers looked up, pinned memory, streams and events.
//!
//! Contexts are the GPUs' primary ones, which the CUDA runtime has, too. They stay retained. A call puts the thread's context back as it was:
//! the thread is often the program's own.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{DriverError, sys};

use super::device::{Device, start};
use super::tried;
use crate::gpu::GpuError;
use crate::transfer::bus::{Bus, Located, Mark, Queue, ToGpu};
use crate::transfer::request::{Direction, MemoryKind};

/// The driver, for transfers.
pub(crate) fn bus() -> Result<Arc<dyn Bus>, GpuError> {
    start()?;
    let mut version = 0;
    // SAFETY:
    // - the driver writes a number
    unsafe { sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .map_err(tried("asking for the driver's version"))?;
    Ok(Arc::new(Driver { takes_many: version >= WITH_BATCHES, devices: Mutex::default() }))
}

/// The first driver with `cuMemcpyBatchAsync`, as it numbers itself.
const WITH_BATCHES: i32 = 12_080;

/// The driver, and its GPUs that were used.
#[derive(Debug)]
struct Driver {
    takes_many: bool,
    devices: Mutex<HashMap<u32, Arc<Device>>>,
}

/// Puts the thread's context back on drop.
struct Before(sys::CUcontext);

impl Drop for Before {
    fn drop(&mut self) {
        // SAFETY:
        // - the context that was current before, or none
        let _ = unsafe { sys::cuCtxSetCurrent(self.0) };
    }
}

impl Driver {
    /// Makes a GPU's context current until the result is dropped.
    fn enter(&self, gpu: u32) -> Result<Before, GpuError> {
        let device = {
            let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
            match devices.get(&gpu) {
                Some(device) => Arc::clone(device),
                None => Arc::clone(devices.entry(gpu).or_insert(Device::present(gpu)?)),
            }
        };
        let mut current = ptr::null_mut();
        // SAFETY:
        // - the driver writes one handle, which is borrowed for the call
        unsafe { sys::cuCtxGetCurrent(&raw mut current) }
            .result()
            .map_err(tried("asking for the thread's context"))?;
        let before = Before(current);
        device.bind()?;
        Ok(before)
    }
}

/// One of the numbers that the driver knows of an address; `None` where it does not know the address.
fn attribute<T: Default>(which: sys::CUpointer_attribute, address: u64) -> Result<Option<T>, DriverError> {
    let mut value = T::default();
    // SAFETY:
    // - the driver writes a number of this attribute's type, by the callers below
    // - it looks the address up, and does not use it
    match unsafe { sys::cuPointerGetAttribute((&raw mut value).cast::<c_void>(), which, address) } {
        sys::CUresult::CUDA_ERROR_INVALID_VALUE => Ok(None),
        result => result.result().map(|()| Some(value)),
    }
}

fn event(mark: Mark) -> sys::CUevent {
    mark.0 as sys::CUevent
}

fn stream(queue: Queue) -> sys::CUstream {
    queue.0 as sys::CUstream
}

// SAFETY:
// - the driver's pinned memory is freed nowhere
// - an event that has completed has the copies before it in its stream behind it, and what they wrote is there
unsafe impl Bus for Driver {
    fn look_up(&self, address: u64) -> Result<Option<Located>, GpuError> {
        use sys::CUpointer_attribute_enum as Attribute;
        let refused = tried("asking what memory lies at an address");
        let known: Option<u32> =
            attribute(Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address).map_err(&refused)?;
        let Some(place) = known else { return Ok(None) };
        let managed: Option<u32> =
            attribute(Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, address).map_err(&refused)?;
        let gpu: Option<i32> =
            attribute(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address).map_err(&refused)?;
        let kind = if managed.unwrap_or(0) != 0 {
            MemoryKind::Managed
        } else if place == sys::CUmemorytype_enum::CU_MEMORYTYPE_HOST as u32 {
            MemoryKind::Pinned
        } else {
            MemoryKind::Device
        };
        // Managed memory that no GPU has touched may name none.
        let gpu = gpu.and_then(|gpu| u32::try_from(gpu).ok()).unwrap_or(0);
        Ok(Some(Located { kind, gpu }))
    }
    fn pinned(&self, gpu: u32, bytes: usize) -> Result<NonNull<u8>, GpuError> {
        let _before = self.enter(gpu)?;
        let mut memory = ptr::null_mut();
        // SAFETY:
        // - a new allocation, whose address the driver writes
        unsafe { sys::cuMemHostAlloc(&raw mut memory, bytes, super::PORTABLE_AND_MAPPED) }
            .result()
            .map_err(tried("allocating pinned memory for transfers"))?;
        let none = DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        NonNull::new(memory.cast()).ok_or_else(|| tried("allocating pinned memory for transfers")(none))
    }
    fn queue(&self, gpu: u32) -> Result<Queue, GpuError> {
        let _before = self.enter(gpu)?;
        let mut made = ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY:
        // - a new stream, whose handle the driver writes
        unsafe { sys::cuStreamCreate(&raw mut made, flags) }.result().map_err(tried("making a stream"))?;
        Ok(Queue(made as usize))
    }
    fn mark(&self, gpu: u32) -> Result<Mark, GpuError> {
        let _before = self.enter(gpu)?;
        let mut made = ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY:
        // - a new event, whose handle the driver writes
        unsafe { sys::cuEventCreate(&raw mut made, flags) }.result().map_err(tried("making an event"))?;
        Ok(Mark(made as usize))
    }
    unsafe fn forget(&self, gpu: u32, mark: Mark) {
        if let Ok(_before) = self.enter(gpu) {
            // SAFETY:
            // - from `mark`, and not used any more, by this function's contract
            let _ = unsafe { sys::cuEventDestroy_v2(event(mark)) };
        }
    }
    unsafe fn copy(
        &self,
        gpu: u32,
        queue: Queue,
        direction: Direction,
        device: u64,
        host: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), GpuError> {
        let _before = self.enter(gpu)?;
        let (host, queue) = (host.as_ptr().cast::<c_void>(), stream(queue));
        match direction {
            // SAFETY:
            // - both stretches are as long, and nothing else uses them until a mark behind the copy is reached, by this function's contract
            Direction::Read => unsafe { sys::cuMemcpyHtoDAsync_v2(device, host, bytes, queue) },
            // SAFETY:
            // - as above
            Direction::Write => unsafe { sys::cuMemcpyDtoHAsync_v2(host, device, bytes, queue) },
        }
        .result()
        .map_err(tried("copying between a chunk and memory of the GPU"))
    }
    fn takes_many(&self) -> bool {
        self.takes_many
    }
    unsafe fn copy_all(&self, gpu: u32, queue: Queue, copies: &[ToGpu]) -> Result<(), GpuError> {
        let _before = self.enter(gpu)?;
        let (mut to, mut from): (Vec<_>, Vec<_>) =
            copies.iter().map(|copy| (copy.device, copy.host.as_ptr().expose_provenance() as u64)).unzip();
        let mut sizes: Vec<usize> = copies.iter().map(|copy| copy.bytes).collect();
        let nowhere =
            sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_INVALID, id: 0 };
        let mut attributes = sys::CUmemcpyAttributes {
            srcAccessOrder: sys::CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
            srcLocHint: nowhere,
            dstLocHint: nowhere,
            flags: 0,
        };
        let (mut from_first_on, mut failed) = (0, 0);
        // SAFETY:
        // - the arrays are as long as the count says, and are read during the call; the attributes are those of all copies
        // - both stretches of each copy are as long, and nothing else uses them until a mark behind it is reached, by this function's contract
        // - the driver has this call, by the same
        unsafe {
            sys::cuMemcpyBatchAsync(
                to.as_mut_ptr(),
                from.as_mut_ptr(),
                sizes.as_mut_ptr(),
                copies.len(),
                &raw mut attributes,
                &raw mut from_first_on,
                1,
                &raw mut failed,
                stream(queue),
            )
        }
        .result()
        .map_err(tried("copying chunks to memory of the GPU"))
    }
    unsafe fn put(&self, gpu: u32, mark: Mark, queue: Queue) -> Result<(), GpuError> {
        let _before = self.enter(gpu)?;
        // SAFETY:
        // - an event and a stream of this GPU, by this function's contract; the driver refuses others
        unsafe { sys::cuEventRecord(event(mark), stream(queue)) }.result().map_err(tried(
            "putting an event into a stream (is it a stream of the GPU whose memory is transferred?)",
        ))
    }
    unsafe fn follow(&self, gpu: u32, queue: Queue, mark: Mark) -> Result<(), GpuError> {
        let _before = self.enter(gpu)?;
        // SAFETY:
        // - a stream and an event of this GPU, by this function's contract
        unsafe { sys::cuStreamWaitEvent(stream(queue), event(mark), 0) }
            .result()
            .map_err(tried("ordering a transfer behind a stream"))
    }
    unsafe fn is_reached(&self, gpu: u32, mark: Mark) -> Result<bool, GpuError> {
        let _before = self.enter(gpu)?;
        // SAFETY:
        // - an event of this GPU, by this function's contract
        match unsafe { sys::cuEventQuery(event(mark)) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            ended => ended.result().map(|()| true).map_err(tried("waiting for a copy of a transfer")),
        }
    }
}
