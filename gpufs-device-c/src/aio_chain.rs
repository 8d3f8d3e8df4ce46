//! Chains from C: the operations of several control blocks, which the kernel carries out one after the other ([`gpufs_device::aio::Link`]).

use core::ffi::c_int;

use gpufs_core::session::SessionTables;
use gpufs_device::aio::{LINKS_MAX, Link};
use gpufs_device::{Call, Errno, Fs};

use crate::aio::{ControlBlock, refused};
use crate::aio_list::{LIO_READ, LIO_WRITE, list};
use crate::arguments::{counted_with, done, session};

/// `GPUFS_LIO_SYNC`.
const LIO_SYNC: c_int = 3;
/// `GPUFS_LIO_DSYNC`.
const LIO_DSYNC: c_int = 4;
/// `GPUFS_CHAIN_STOPS`.
const STOPS: c_int = 0;
/// `GPUFS_CHAIN_GOES_ON`.
const GOES_ON: c_int = 1;

/// As `GPUFS_CHAIN_MAX` says.
const _: () = assert!(LINKS_MAX == 4);

/// Starts the operations of so many blocks as a chain.
///
/// # Safety
/// As [`gpufs_raw_aio_read`](crate::aio::gpufs_raw_aio_read) for each block of the list, which is null or has so many entries.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_aio_chain(
    tables: *const SessionTables,
    mode: c_int,
    blocks: *const *mut ControlBlock,
    entries: c_int,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    // SAFETY:
    // - as above
    let (fs, blocks) = counted_with(Call::StartChain, (fs, unsafe { list(blocks, entries) }));
    done(fs.and_then(|fs| {
        // SAFETY:
        // - this function's contract
        let links = blocks.and_then(|blocks| unsafe { links(fs, mode, blocks) });
        let (blocks, links) = (blocks?, refused(fs, Call::StartChain, links)?);
        let started = fs.start_links(&links[..blocks.len()], mode == GOES_ON)?;
        for (place, (block, pending)) in blocks.iter().zip(started).enumerate() {
            // What the next link writes comes to the memory with that one's result.
            let reads = matches!(links[place], Link::PwriteRead { .. })
                || (matches!(links[place], Link::Pread { .. })
                    && !matches!(links.get(place + 1), Some(Link::PwriteRead { .. })));
            // SAFETY:
            // - a block, by `links`, which no other thread uses, by this function's contract
            if let (Some(block), Some(pending)) = (unsafe { block.as_mut() }, pending) {
                block.begin(fs, pending, reads);
            }
        }
        Ok(())
    }))
}

/// What the blocks say, in order. A write of the memory that the block before reads into writes what is read.
///
/// # Errors
/// `EINVAL`: an unknown mode or operation, too few or too many blocks, one twice, a write of a part of what is read. `EFAULT`: a null block, null
/// memory. `EBUSY`: a block has an operation in flight.
///
/// # Safety
/// As [`gpufs_raw_aio_chain`].
unsafe fn links<'a>(
    fs: Fs,
    mode: c_int,
    blocks: &[*mut ControlBlock],
) -> Result<[Link<'a>; LINKS_MAX], Errno> {
    if !matches!(mode, STOPS | GOES_ON) || blocks.is_empty() || blocks.len() > LINKS_MAX {
        return Err(Errno::INVAL);
    }
    let mut links = [Link::Fsync(crate::arguments::descriptor(-1)); LINKS_MAX];
    for (place, block) in blocks.iter().enumerate() {
        let before = &blocks[..place];
        if before.contains(block) {
            return Err(Errno::INVAL);
        }
        // SAFETY:
        // - null or a block, which no other thread uses, by this function's contract
        let block = unsafe { block.as_mut() }.ok_or(Errno::FAULT)?;
        // SAFETY:
        // - this function's contract
        unsafe { block.check(fs) }?;
        let descriptor = crate::arguments::descriptor(block.aio_fildes);
        let offset = block.aio_offset.cast_unsigned();
        links[place] = match block.aio_lio_opcode {
            LIO_SYNC => Link::Fsync(descriptor),
            LIO_DSYNC => Link::Fdatasync(descriptor),
            LIO_READ => {
                // SAFETY:
                // - this function's contract
                let memory = unsafe { block.bytes_of() }?;
                Link::Pread { descriptor, bytes: memory.len(), offset }
            }
            LIO_WRITE => {
                // SAFETY:
                // - this function's contract
                let from = unsafe { block.bytes_of() }?;
                // SAFETY:
                // - blocks, of which each was looked at before
                let last = before.last().map(|block| unsafe { &**block });
                if last.is_some_and(|last| last.aio_lio_opcode == LIO_READ && last.has_memory_of(block)) {
                    Link::PwriteRead { descriptor, offset }
                } else if before.iter().any(|read| {
                    // SAFETY:
                    // - as above
                    let read = unsafe { &**read };
                    read.aio_lio_opcode == LIO_READ && read.overlaps(block)
                }) {
                    return Err(Errno::INVAL);
                } else {
                    Link::Pwrite { descriptor, from, offset }
                }
            }
            _ => return Err(Errno::INVAL),
        };
    }
    Ok(links)
}
