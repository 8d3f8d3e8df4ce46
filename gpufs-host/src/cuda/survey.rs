//! What the driver says of the machine's GPUs. No context is opened, so that no GPU is woken for longer than the question takes.

use cudarc::driver::{result, sys};

use super::tried;
use crate::gpu::GpuError;

/// A GPU, as the driver names it.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) ordinal: u32,
    pub(crate) name: String,
    /// 90 for sm_90.
    pub(crate) architecture: u32,
    pub(crate) memory_bytes: u64,
    /// Its address on the bus, as sysfs has it.
    pub(crate) address: String,
}

/// The driver's version, as `cuDriverGetVersion` says it, and its GPUs.
///
/// # Errors
/// There is no driver, or it refuses, or it shows no GPU.
pub(crate) fn survey() -> Result<(i32, Vec<Found>), GpuError> {
    let count = super::device::start()?;
    let mut version = 0;
    // SAFETY:
    // - the driver writes one number, which is borrowed for the call
    unsafe { sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .map_err(tried("asking for the driver's version"))?;
    let gpus = (0..count).map(found).collect::<Result<_, _>>()?;
    Ok((version, gpus))
}

fn found(ordinal: u32) -> Result<Found, GpuError> {
    use sys::CUdevice_attribute_enum as Attribute;
    let refused = tried("asking for a GPU's properties");
    let device = result::device::get(ordinal.cast_signed()).map_err(&refused)?;
    let number = |attribute| {
        // SAFETY:
        // - `device` is one
        unsafe { result::device::get_attribute(device, attribute) }.map_err(&refused)
    };
    let major = number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let address = format!(
        "{:04x}:{:02x}:{:02x}.0",
        number(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?,
        number(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?,
        number(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?
    );
    // SAFETY:
    // - `device` is one
    let memory_bytes = unsafe { result::device::total_mem(device) }.map_err(&refused)? as u64;
    let name = result::device::get_name(device).map_err(&refused)?;
    Ok(Found { ordinal, name, architecture: (major * 10 + minor).cast_unsigned(), memory_bytes, address })
}
