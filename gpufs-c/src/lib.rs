//! `libgpufs`: what `include/gpufs/host.h` declares, and the device calls of `gpufs-device-c` for C on CPU lanes.
//!
//! | file | what |
//! |---|---|
//! | `options.rs` | the structures that cross |
//! | `session.rs` | opening, launching, synchronizing, closing |
//! | `given.rs` | files, buffers and streams that the host gives to kernels |
//! | `version.rs` | `gpufs_version` |
//! | `error.rs` | `errno`, and the text beside it |
//!
//! A host session is one object behind a lock, so its functions may be called from any thread; closing it ends its life, as `free` does.
#![allow(unsafe_code, reason = "functions with C's contracts")]

mod error;
mod given;
mod options;
mod session;
mod version;

// The device calls: linked in, and exported with the rest.
pub use gpufs_device_c as device;

pub use error::gpufs_last_error;
pub use given::{
    gpufs_host_buffer, gpufs_host_fclose, gpufs_host_fopen, gpufs_host_register_file,
    gpufs_host_unregister_file,
};
pub use options::{FailureKind, Options, Statistics};
pub use session::{
    Host, Kernel, gpufs_host_begin, gpufs_host_close, gpufs_host_describe, gpufs_host_failures,
    gpufs_host_launch, gpufs_host_open, gpufs_host_session, gpufs_host_statistics, gpufs_host_synchronize,
};
pub use version::gpufs_version;
