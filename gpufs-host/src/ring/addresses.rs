//! The memory that addresses in entries may name under a sandbox, and strings there.

use gpufs_core::Errno;
use gpufs_core::abi::SocketAddress;

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

    /// A copy of what lies there.
    pub(super) fn copy(self, address: u64, into: &mut [u8]) -> Result<(), Errno> {
        self.check(address, into.len() as u64)?;
        for (byte, place) in into.iter_mut().zip(address..) {
            // SAFETY:
            // - in memory that the session registered, as checked, as in `string`
            *byte = unsafe { (place as *const u8).read_volatile() };
        }
        Ok(())
    }
    /// Writes there.
    pub(super) fn put(self, address: u64, from: &[u8]) -> Result<(), Errno> {
        self.check(address, from.len() as u64)?;
        for (byte, place) in from.iter().zip(address..) {
            // SAFETY:
            // - as in `copy`; its producer leaves it alone until the CQE, and if it does not, any byte of it is a byte
            unsafe { (place as *mut u8).write_volatile(*byte) };
        }
        Ok(())
    }
    /// A copy of the address of a socket there.
    pub(super) fn socket_address(self, address: u64, bytes: u32) -> Result<SocketAddress, Errno> {
        let mut copy = SocketAddress::NONE;
        self.copy(address, copy.storage().get_mut(..bytes as usize).ok_or(Errno::INVAL)?)?;
        copy.set_len(bytes);
        Ok(copy)
    }
    /// A copy of words there.
    pub(super) fn words<const N: usize>(self, address: u64) -> Result<[u64; N], Errno> {
        let mut copy = [[0_u8; 8]; N];
        self.copy(address, copy.as_flattened_mut())?;
        Ok(copy.map(u64::from_ne_bytes))
    }
}
