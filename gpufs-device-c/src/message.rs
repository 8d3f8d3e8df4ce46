//! Messages in several pieces from C. Each call is a method of [`Fs`](gpufs_device::Fs), which describes it, as the header does.

use core::ffi::{c_int, c_void};
use core::mem::offset_of;

use gpufs_core::session::SessionTables;
use gpufs_device::file::IOV_MAX;
use gpufs_device::socket::SocketAddress;
use gpufs_device::{Call, Errno};
use static_assertions::const_assert;

use crate::arguments::{count, descriptor, writable};
use crate::file::{sources, targets};
use crate::socket::{name, with};

/// `struct msghdr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Message {
    /// An address, or null.
    pub name: *mut c_void,
    /// Its bytes, or the room for one.
    pub name_bytes: u32,
    /// The pieces: `struct iovec`.
    pub pieces: *mut c_void,
    /// How many.
    pub piece_count: usize,
    /// Ancillary data.
    pub control: *mut c_void,
    /// Its bytes.
    pub control_bytes: usize,
    /// Of a message that came.
    pub flags: c_int,
}
const_assert!(size_of::<Message>() == 56 && offset_of!(Message, pieces) == 16);
const_assert!(offset_of!(Message, control_bytes) == 40 && offset_of!(Message, flags) == 48);

/// How many pieces a message has.
fn pieces_of(message: &Message) -> Result<c_int, Errno> {
    if message.piece_count > IOV_MAX { Err(Errno::MSGSIZE) } else { Ok(message.piece_count as c_int) }
}

/// `sendmsg(2)`: bytes sent.
///
/// # Safety
/// `tables` is null or a session's on this device; `message` is null or a header, whose address is null or as many bytes as it says, and whose pieces
/// are as many as it says, each null or as many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_sendmsg(
    tables: *const SessionTables,
    number: c_int,
    message: *const Message,
    flags: c_int,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let message = unsafe { message.as_ref() }.ok_or(Errno::FAULT);
    let argument = message.and_then(|message| {
        if message.control_bytes > 0 {
            return Err(Errno::OPNOTSUPP);
        }
        // SAFETY:
        // - by this function's contract
        let from = unsafe { sources(message.pieces, pieces_of(message)?) }?;
        let bytes = if message.name.is_null() { 0 } else { message.name_bytes };
        // SAFETY:
        // - by this function's contract
        Ok((from, unsafe { name(message.name, bytes) }?))
    });
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Sendmsg, argument) };
    count(
        checked.and_then(|(fs, (from, to))| {
            fs.sendmsg(descriptor(number), from, flags.cast_unsigned(), Some(&to))
        }),
    )
}

/// `recvmsg(2)`: bytes received. The header gets the length of the sender's address, the flags, and 0 bytes of ancillary data.
///
/// # Safety
/// `tables` is null or a session's on this device; `message` is null or a header, whose address is null or room for as many bytes as it says, and
/// whose pieces are as many as it says, each null or room for as many bytes. Nothing else uses any of it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_recvmsg(
    tables: *const SessionTables,
    number: c_int,
    message: *mut Message,
    flags: c_int,
) -> i64 {
    // SAFETY:
    // - by this function's contract
    let message = unsafe { message.as_mut() }.ok_or(Errno::FAULT);
    let argument = message.and_then(|message| {
        // SAFETY:
        // - by this function's contract
        let into = unsafe { targets(message.pieces, pieces_of(message)?) }?;
        let room = if message.name.is_null() { 0 } else { message.name_bytes as usize };
        // SAFETY:
        // - by this function's contract
        let place = unsafe { writable(message.name, room) }?;
        Ok((message, into, place))
    });
    // SAFETY:
    // - by this function's contract
    let checked = unsafe { with(tables, Call::Recvmsg, argument) };
    count(checked.and_then(|(fs, (message, into, place))| {
        let mut of = SocketAddress::NONE;
        let came = fs.recvmsg(descriptor(number), into, flags.cast_unsigned(), Some(&mut of))?;
        let kept = place.len().min(of.len());
        place[..kept].copy_from_slice(&of.as_bytes()[..kept]);
        message.name_bytes = if message.name.is_null() { 0 } else { of.len() as u32 };
        message.control_bytes = 0;
        message.flags = came.flags.cast_signed();
        Ok(came.bytes)
    }))
}
