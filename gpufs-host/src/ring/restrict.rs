//! What a ring of the kernel is restricted to under a sandbox (`io_uring_register_restrictions(3)`): the operations whose files are the family's and
//! whose memory is registered, four flags, and what the host registers.

use std::io;
use std::os::fd::BorrowedFd;

use gpufs_core::abi::{
    IORING_REGISTER_BUFFERS, IORING_REGISTER_ENABLE_RINGS, IORING_REGISTER_FILES,
    IORING_REGISTER_FILES_UPDATE, IORING_REGISTER_RESTRICTIONS, IORING_UNREGISTER_BUFFERS,
    IORING_UNREGISTER_FILES, IOSQE_ASYNC, IOSQE_FIXED_FILE, IOSQE_IO_HARDLINK, IOSQE_IO_LINK,
};

use super::confined::RING_OPCODES;
use super::{count, sys};

/// `struct io_uring_restriction`.
#[repr(C)]
struct Restriction {
    kind: u16,
    /// The operation, the command or the flags.
    what: u8,
    reserved: [u8; 13],
}

/// `IORING_RESTRICTION_REGISTER_OP`, `IORING_RESTRICTION_SQE_OP`, `IORING_RESTRICTION_SQE_FLAGS_ALLOWED`.
const REGISTER_OP: u16 = 0;
const SQE_OP: u16 = 1;
const SQE_FLAGS_ALLOWED: u16 = 2;

/// What the host asks of a ring once it is restricted.
const COMMANDS: [u32; 6] = [
    IORING_REGISTER_BUFFERS,
    IORING_UNREGISTER_BUFFERS,
    IORING_REGISTER_FILES,
    IORING_UNREGISTER_FILES,
    IORING_REGISTER_FILES_UPDATE,
    IORING_REGISTER_ENABLE_RINGS,
];

#[expect(clippy::cast_possible_truncation, reason = "commands and flags are numbers of a byte")]
const fn byte(number: u32) -> u8 {
    number as u8
}

/// Restricts a ring that is not enabled yet, and enables it.
pub(super) fn restrict(ring: BorrowedFd<'_>) -> io::Result<()> {
    let one = |kind, what| Restriction { kind, what, reserved: [0; 13] };
    let commands = COMMANDS.map(|command| one(REGISTER_OP, byte(command)));
    let operations = RING_OPCODES.map(|opcode| one(SQE_OP, opcode));
    let flags =
        one(SQE_FLAGS_ALLOWED, byte(IOSQE_FIXED_FILE | IOSQE_ASYNC | IOSQE_IO_LINK | IOSQE_IO_HARDLINK));
    let all: Vec<Restriction> = commands.into_iter().chain(operations).chain([flags]).collect();
    // SAFETY:
    // - the kernel reads as many restrictions, which are alive
    unsafe { sys::register(ring, IORING_REGISTER_RESTRICTIONS, all.as_ptr().cast(), count(all.len())) }?;
    // SAFETY:
    // - the command takes no memory
    unsafe { sys::register(ring, IORING_REGISTER_ENABLE_RINGS, std::ptr::null(), 0) }.map(drop)
}
