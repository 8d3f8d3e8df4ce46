//! The memory that addresses in entries may name under a sandbox, and strings there.

use gpufs_core::Errno;

use super::operation::Tables;

/// Bytes of a path, with its NUL.
const PATH_BYTES: u64 = 4096;

/// The memory that the session registered with its rings.
#[derive(Clone, Copy)]
pub(super) struct Memory<'a>(&'a Tables);

impl<'a> Memory<'a> {
    pub(super) const fn of(tables: &'a Tables) -> Self {
        Self(tables)
    }

    /// Whether so many bytes lie there: `EFAULT` where not.
    pub(super) fn check(self, address: u64, bytes: u64) -> Result<(), Errno> {
        if self.0.room_at(address).is_some_and(|room| bytes <= room) { Ok(()) } else { Err(Errno::FAULT) }
    }

    /// A copy of the string at an address, without its NUL, which lies in the memory as well.
    pub(super) fn string(self, address: u64) -> Result<Vec<u8>, Errno> {
        let room = self.0.room_at(address).ok_or(Errno::FAULT)?.min(PATH_BYTES);
        let mut copy = Vec::new();
        for place in 0..room {
            // SAFETY:
            // - in memory that the session registered, as looked up, which stays mapped while its rings are served; a lane may write it, and then
            //   any byte of it is a byte
            let byte = unsafe { ((address + place) as *const u8).read_volatile() };
            if byte == 0 {
                return Ok(copy);
            }
            copy.push(byte);
        }
        Err(if room == PATH_BYTES { Errno::NAMETOOLONG } else { Errno::FAULT })
    }
}
