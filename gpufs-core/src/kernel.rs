//! A kernel that is written once and runs on every device. `gpufs_device::kernel!` declares one.

use core::ffi::CStr;

use crate::session::Session;

/// One kernel: how the host starts it, on CPU lanes by calling it, on a GPU by its name in the device program.
pub trait Kernel {
    /// The entry point's name in a device program.
    const NAME: &'static CStr;
    /// What a launch hands to every thread, by value: plain data and handles, laid out as C would.
    type Arguments: Copy + Send + Sync + 'static;
    /// The kernel's body, for one thread.
    fn run(session: &'static Session, arguments: Self::Arguments);
}
