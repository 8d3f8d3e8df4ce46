//! `libgpufs`: what `include/gpufs/host.h` declares, and the device calls of `gpufs-device-c` for C on CPU lanes.
//!
//! | file | what |
//! |---|---|
//! | `version.rs` | `gpufs_version` |
//! | `session.rs` | opening, launching, synchronizing, closing |
//! | `options.rs` | `gpufs_options`, and where each of its fields goes |
//! | `statistics.rs` | counters and failed calls |
//! | `given.rs` | files, buffers and streams that the host gives to kernels |
//! | `doctor.rs` | `gpufs_doctor` |
//! | `transfer.rs` | bulk transfers between files and memory |
//! | `error.rs`, `text.rs` | `errno`, and its text; texts put where there is room |
//! | `layouts.rs` | tests: the structures are those of the header |
//!
//! A host session is an object with a lock, so that any thread may call its functions. `gpufs_host_close` frees it.
#![expect(unsafe_code, reason = "functions with C's contracts")]

mod doctor;
mod error;
mod given;
#[cfg(test)]
mod layouts;
mod options;
mod sandbox;
mod session;
mod statistics;
mod text;
mod transfer;
mod version;

// The device calls: linked in, and exported with the rest.
pub use gpufs_device_c as device;

pub use doctor::gpufs_doctor;
pub use error::gpufs_last_error;
pub use given::{
    Service, gpufs_host_add_service, gpufs_host_buffer, gpufs_host_fclose, gpufs_host_fdopen,
    gpufs_host_fileno, gpufs_host_fopen, gpufs_host_map, gpufs_host_register_file, gpufs_host_unmap,
    gpufs_host_unregister_file,
};
pub use options::Options;
pub use sandbox::{GivenSandbox, Tree};
pub use session::{
    Host, Kernel, gpufs_host_adopt_credentials, gpufs_host_begin, gpufs_host_close, gpufs_host_describe,
    gpufs_host_launch, gpufs_host_open, gpufs_host_session, gpufs_host_synchronize, gpufs_host_use,
};
pub use statistics::{FailureKind, Statistics, gpufs_host_failures, gpufs_host_statistics};
pub use transfer::{
    GivenPart, GivenTransferOptions, RunningTransfer, gpufs_host_read_into, gpufs_host_start_read,
    gpufs_host_start_write, gpufs_host_write_from, gpufs_memory_kind, gpufs_transfer_configure,
    gpufs_transfer_poll, gpufs_transfer_statistics, gpufs_transfer_wait,
};
pub use version::gpufs_version;
