//! The version of the library: Cargo's, as `GPUFS_VERSION` counts.

use std::ffi::c_uint;

/// A part of the version: a decimal number.
const fn number(digits: &str) -> c_uint {
    match c_uint::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("Cargo's versions are numbers"),
    }
}

/// `GPUFS_MAKE_VERSION` of Cargo's version.
pub(crate) const VERSION: c_uint = number(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
    + number(env!("CARGO_PKG_VERSION_MINOR")) * 1000
    + number(env!("CARGO_PKG_VERSION_PATCH"));

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn gpufs_version() -> c_uint {
    VERSION
}
