//! Reading a directory, from a position that the device keeps.

use gpufs_core::Errno;
use gpufs_core::abi::{Dirent, Sqe};

use super::super::sys::{self, signed};

/// Bytes of an entry as the system gives it, without its name (`struct linux_dirent64`).
const HEAD_BYTES: usize = 19;
/// What an entry takes as the system gives it, mostly; and the most.
const ENTRY_BYTES: (usize, usize) = (48, 280);
/// The most that the system is asked for at a time.
const BLOCK_BYTES: usize = 32 << 10;

/// The next entries, as many as are asked for or as there are.
///
/// The position is the open file description's. The device locks the file meanwhile, so no other reader of this session moves it.
///
/// # Safety
/// At `sqe.addr` there is room for `sqe.len` entries, which nothing else uses until the CQE.
pub(super) unsafe fn read(sqe: &Sqe) -> Result<i32, Errno> {
    let mut position = sqe.off;
    let mut done = 0;
    let mut block = vec![0_u64; BLOCK_BYTES / 8];
    // Ends: each round reads an entry at least, or is the last.
    while done < sqe.len {
        let wanted = (sqe.len - done) as usize;
        let room = (wanted * ENTRY_BYTES.0 + ENTRY_BYTES.1).next_multiple_of(8).min(BLOCK_BYTES);
        match next_block(sqe.fd, position, &mut block, room) {
            Ok([]) => break,
            Ok(mut rest) => {
                while let Some((entry, after)) = first(rest)
                    && done < sqe.len
                {
                    let into = (sqe.addr as *mut Dirent).wrapping_add(done as usize);
                    // SAFETY:
                    // - within the room for `len` entries, by this function's contract
                    unsafe { into.write_unaligned(entry) };
                    position = entry.d_off.cast_unsigned();
                    done += 1;
                    rest = after;
                }
            }
            // What has been read is told first; the next call meets the error again.
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done.cast_signed())
}

/// What the system says of the entries from a position on.
fn next_block(fd: i32, position: u64, block: &mut [u64], room: usize) -> Result<&[u8], Errno> {
    // SAFETY:
    // - the call takes numbers
    unsafe { sys::call(libc::SYS_lseek, [signed(fd), position, 0, 0, 0, 0]) }?;
    let address = block.as_mut_ptr().expose_provenance() as u64;
    // SAFETY:
    // - the kernel writes at most `room` bytes, which `block` has
    let bytes = unsafe { sys::call(libc::SYS_getdents64, [signed(fd), address, room as u64, 0, 0, 0]) }?;
    // SAFETY:
    // - bytes of `block`, which is borrowed for the result
    let all = unsafe { std::slice::from_raw_parts(block.as_ptr().cast::<u8>(), block.len() * 8) };
    Ok(&all[..usize::try_from(bytes).unwrap_or(0)])
}

/// The first entry of a block, and what comes after it.
fn first(block: &[u8]) -> Option<(Dirent, &[u8])> {
    let head = block.get(..HEAD_BYTES)?;
    let number = |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().unwrap_or_default());
    let record = usize::from(u16::from_ne_bytes([head[16], head[17]]));
    let name = block.get(HEAD_BYTES..record)?;
    let length = name.iter().position(|byte| *byte == 0)?;
    let mut entry = Dirent {
        d_ino: number(0),
        d_off: number(8).cast_signed(),
        d_reclen: 280,
        d_type: head[18],
        ..Dirent::default()
    };
    entry.d_name.get_mut(..length)?.copy_from_slice(&name[..length]);
    Some((entry, &block[record..]))
}
