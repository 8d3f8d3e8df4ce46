//! C sources to a program.

mod amd;
mod bitcode;
mod jumps;
mod lanes;
mod nvidia;
mod ptx;
mod scratch;

use std::ffi::OsStr;
use std::path::Path;

use crate::command_line::{Device, Options};

pub(crate) use scratch::Scratch;

/// `gpufs build`: the device is what the output's name says, or the option.
pub(crate) fn to_output(options: &Options) -> Result<(), String> {
    let output = options.output.as_deref().expect("the command line has one");
    let by_name = match output.extension().and_then(OsStr::to_str) {
        Some("cubin" | "ptx") => Some(Device::Cuda),
        Some("hsaco") => Some(Device::Amd),
        _ => None,
    };
    let device = match (options.device, by_name) {
        (Some(Device::Cpu), Some(_)) => {
            return Err(format!("{}: a program for CPU lanes has another ending", output.display()));
        }
        (Some(Device::Cuda), Some(Device::Cuda))
        | (Some(Device::Amd), Some(Device::Amd))
        | (None, Some(_)) => by_name.expect("matched"),
        (Some(Device::Cpu), None) => Device::Cpu,
        (Some(Device::Cuda), _) => {
            return Err(format!(
                "{}: for an NVIDIA GPU it is PROGRAM.cubin or PROGRAM.ptx",
                output.display()
            ));
        }
        (Some(Device::Amd), _) => {
            return Err(format!("{}: for an AMD GPU it is PROGRAM.hsaco", output.display()));
        }
        (None, None) => {
            return Err(format!(
                "{}: PROGRAM.cubin, PROGRAM.ptx or PROGRAM.hsaco is for a GPU; --device cpu, for CPU lanes",
                output.display()
            ));
        }
    };
    program(options, device, output)
}

/// Builds for a device.
pub(crate) fn program(options: &Options, device: Device, output: &Path) -> Result<(), String> {
    for file in &options.files {
        if !file.exists() {
            return Err(format!("{}: there is no such file", file.display()));
        }
    }
    match device {
        Device::Cuda => nvidia::build(options, output),
        Device::Amd => amd::build(options, output),
        Device::Cpu => lanes::build(options, output),
    }
}
