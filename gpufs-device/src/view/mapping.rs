//! Files that the host has mapped, as kernels hold them.
#![expect(unsafe_code, reason = "promises about layouts")]

use gpufs_core::Errno;
use gpufs_core::kernel::Portable;
use gpufs_core::session::SessionTables;

/// A file that the host mapped for reading (`Session::map`). A kernel's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Mapping {
    index: u32,
    generation: u32,
}

/// A file that the host mapped for reading and writing (`Session::map_mut`). A kernel's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct MappingMut {
    index: u32,
    generation: u32,
}

// SAFETY:
// - `repr(C)`, two numbers, which are looked up in the session's table before they are used
unsafe impl Portable for Mapping {}
// SAFETY:
// - as above
unsafe impl Portable for MappingMut {}

impl Mapping {
    /// The handle of a mapping's entry in its generation, for the host.
    #[doc(hidden)]
    #[must_use]
    pub const fn of_entry(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }
    /// The entry and its generation.
    #[doc(hidden)]
    #[must_use]
    pub const fn entry(self) -> (u32, u32) {
        (self.index, self.generation)
    }
}

impl MappingMut {
    /// The handle of a mapping's entry in its generation, for the host.
    #[doc(hidden)]
    #[must_use]
    pub const fn of_entry(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }
    /// The entry and its generation.
    #[doc(hidden)]
    #[must_use]
    pub const fn entry(self) -> (u32, u32) {
        (self.index, self.generation)
    }
}

/// The index of a mapping that is still what its handle says.
///
/// # Errors
/// `EBADF`.
pub(super) fn check(
    session: &SessionTables,
    (index, generation): (u32, u32),
    writable: bool,
) -> Result<u32, Errno> {
    let entry = session.cache.mappings().get(index as usize).ok_or(Errno::BADF)?;
    // ORDERING: relaxed: constant while kernels run.
    let same = entry.generation.peek() == generation && generation % 2 == 1;
    if same && (entry.writable.peek() != 0) == writable { Ok(index) } else { Err(Errno::BADF) }
}
