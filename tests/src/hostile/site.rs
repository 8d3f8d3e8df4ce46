//! Where attempts are made, and how a child process comes to make them.

use std::process::Command;

use gpufs_host::CpuOptions;

use super::child::{attack, part};
use crate::suite::Device;

/// A device, and this program's arguments for the same again.
#[derive(Clone, Debug)]
pub struct Site {
    /// Where kernels run.
    pub device: Device,
    arguments: Vec<String>,
}

impl Site {
    /// CPU lanes, in a test.
    #[must_use]
    pub fn test(name: &str) -> Self {
        let arguments = ["--exact", name, "--nocapture", "--test-threads", "1"];
        Self { device: Device::Cpu(CpuOptions::default()), arguments: arguments.map(Into::into).into() }
    }
    /// That of a program that is run with these arguments. A child makes its attempts here, and does not return.
    #[must_use]
    pub fn program(device: Device, arguments: Vec<String>) -> Self {
        let site = Self { device, arguments };
        if let Some(part) = part() {
            attack(&site, &part);
        }
        site
    }
    /// Whether kernels run on a GPU.
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        matches!(self.device, Device::Cuda { .. })
    }
    /// This program once more.
    pub(super) fn again(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this program's path"));
        command.args(&self.arguments);
        command
    }
}
