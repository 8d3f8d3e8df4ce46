//! The length and a hash of a file.

use gpufs_device::Fs;

use super::memory::c_string;
use super::{Answer, Op};

/// What [`hash`] begins with.
pub const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

/// A hash of bytes (FNV-1a), `state` being that of what came before.
#[must_use]
pub fn hash(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[inline(never)]
pub(super) fn look(fs: Fs, op: &mut Op) -> Answer {
    let descriptor = fs.open(c_string(op.memory), 0, 0)?;
    let (mut length, mut state) = (0, HASH_START);
    let outcome = loop {
        // SAFETY:
        // - as long, by `Op`'s contract, and this lane's
        let memory = unsafe { core::slice::from_raw_parts_mut(op.through as *mut u8, op.bytes as usize) };
        match fs.pread(descriptor, memory, length) {
            Ok(0) => break Ok(length.cast_signed()),
            Ok(count) => {
                state = hash(state, &memory[..count]);
                length += count as u64;
            }
            Err(errno) => break Err(errno),
        }
    };
    op.hash = state;
    fs.close(descriptor)?;
    outcome
}
