//! `sendmsg(2)`, `recvmsg(2)`: messages whose bytes lie in several pieces of memory.
//!
//! The pieces are copied together in staging memory, as are the header and the address. So the kernel reads and writes nothing of the caller's, and
//! what a call that gives up leaves in flight stays its own.

use gpufs_core::abi::SocketAddress;
use gpufs_core::failures::counted;
use gpufs_core::{Call, Errno};

use super::transfer::{Memory, Name, message};
use crate::Fs;
use crate::file::{Descriptor, IoSlice, IoSliceMut};
use crate::warp::Lanes;

/// What [`Fs::recvmsg`] says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// How many bytes came: 0 where the connection has ended.
    pub bytes: usize,
    /// [`MSG_TRUNC`](super::MSG_TRUNC): more than there was room for; [`MSG_CTRUNC`](super::MSG_CTRUNC): ancillary data, which is lost;
    /// [`MSG_OOB`](super::MSG_OOB), [`MSG_EOR`](super::MSG_EOR).
    pub flags: u32,
}

impl Fs {
    /// Sends the bytes of the pieces, one behind the other, as [sendmsg(2)](https://man7.org/linux/man-pages/man2/sendmsg.2.html): how many.
    /// Otherwise as [`Fs::send`], or with an address as [`Fs::sendto`]. There is no ancillary data.
    ///
    /// # Errors
    /// As [`Fs::sendto`]; `EMSGSIZE` for more than [`IOV_MAX`](crate::file::IOV_MAX) pieces.
    pub fn sendmsg(
        self,
        socket: Descriptor,
        from: &[IoSlice<'_>],
        flags: u32,
        to: Option<&SocketAddress>,
    ) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Sendmsg);
        let name = to.filter(|to| !to.is_empty()).map_or(Name::None, Name::To);
        let sent = message(self, lanes, socket, Memory::Gather(from), flags, name);
        counted(self.session(), Call::Sendmsg, sent.map(|(count, _)| count))
    }

    /// Receives into one piece after the other, as [recvmsg(2)](https://man7.org/linux/man-pages/man2/recvmsg.2.html): how many bytes, and the flags
    /// of the message. Otherwise as [`Fs::recvfrom`]. Ancillary data that comes is dropped, and descriptors in it are closed: the flags have
    /// [`MSG_CTRUNC`](super::MSG_CTRUNC) then.
    ///
    /// # Errors
    /// As [`Fs::recv`]; `EMSGSIZE` for more than [`IOV_MAX`](crate::file::IOV_MAX) pieces.
    pub fn recvmsg(
        self,
        socket: Descriptor,
        into: &mut [IoSliceMut<'_>],
        flags: u32,
        of: Option<&mut SocketAddress>,
    ) -> Result<Received, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Recvmsg);
        let mut name = SocketAddress::NONE;
        let came = message(self, lanes, socket, Memory::Scatter(into), flags, Name::Of(&mut name));
        if let (Some(of), Ok(_)) = (of, came) {
            *of = name;
        }
        counted(self.session(), Call::Recvmsg, came.map(|(bytes, flags)| Received { bytes, flags }))
    }
}
