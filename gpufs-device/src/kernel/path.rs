//! A path that travels in a placed value, so that lanes read it in the device's memory.

use core::ffi::CStr;

use crate::portable;

/// Bytes of the longest path, its NUL included (`path_resolution(7)`).
const PATH_MAX: usize = 4096;

portable! {
    /// A path, ended by a NUL.
    pub struct Path {
        bytes: [u8; PATH_MAX],
    }
}

impl Path {
    /// A copy of `path`; `None` if no system call would take one so long.
    #[must_use]
    pub fn new(path: &CStr) -> Option<Self> {
        let path = path.to_bytes_with_nul();
        let mut bytes = [0; PATH_MAX];
        bytes.get_mut(..path.len())?.copy_from_slice(path);
        Some(Self { bytes })
    }
    /// The path.
    #[must_use]
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}
