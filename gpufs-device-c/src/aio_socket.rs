//! Asynchronous operations on sockets, from C: bytes that stay where they are, and a wait until a descriptor is ready.

use core::ffi::c_int;

use gpufs_core::session::SessionTables;
use gpufs_device::{Call, Errno};

use crate::aio::{ControlBlock, refused, with};
use crate::arguments::{descriptor, done};

/// Starts `recv(2)` into the block's memory.
///
/// # Safety
/// As [`gpufs_raw_aio_read`](crate::aio::gpufs_raw_aio_read). The block's memory is one piece that host and device share, and until the operation is
/// complete nobody else reads or writes it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_aio_recv(
    tables: *const SessionTables,
    block: *mut ControlBlock,
    flags: c_int,
) -> i64 {
    // SAFETY:
    // - this function's contract
    unsafe { transfer(tables, block, flags, true) }
}

/// Starts `send(2)` of the block's memory.
///
/// # Safety
/// As [`gpufs_raw_aio_recv`], but that others may read the bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_aio_send(
    tables: *const SessionTables,
    block: *mut ControlBlock,
    flags: c_int,
) -> i64 {
    // SAFETY:
    // - this function's contract
    unsafe { transfer(tables, block, flags, false) }
}

/// Either of them.
///
/// # Safety
/// As [`gpufs_raw_aio_recv`].
unsafe fn transfer(
    tables: *const SessionTables,
    block: *mut ControlBlock,
    flags: c_int,
    receives: bool,
) -> i64 {
    let call = if receives { Call::StartRecv } else { Call::StartSend };
    // SAFETY:
    // - this function's contract
    let given = unsafe { with(tables, call, block) };
    done(given.and_then(|(fs, block)| {
        // SAFETY:
        // - this function's contract
        let checked = unsafe { block.check(fs) };
        // SAFETY:
        // - this function's contract
        let memory = checked.and_then(|()| unsafe { block.bytes_of() });
        let sized = memory.and_then(|memory| u32::try_from(memory.len()).map_err(|_| Errno::INVAL));
        let bytes = refused(fs, call, sized)?;
        let memory = block.memory_of().cast::<u8>();
        let (socket, flags) = (descriptor(block.aio_fildes), flags.cast_unsigned());
        let pending = if receives {
            // SAFETY:
            // - this function's contract; the block's address is a number of the caller's
            unsafe { fs.start_recv(socket, memory, bytes, flags) }
        } else {
            // SAFETY:
            // - this function's contract
            unsafe { fs.start_send(socket, memory, bytes, flags) }
        };
        // Nothing is copied when it is complete.
        block.begin(fs, pending?, false);
        Ok(())
    }))
}

/// Starts to wait until a descriptor is ready for one of `events`.
///
/// # Safety
/// As [`gpufs_raw_aio_read`](crate::aio::gpufs_raw_aio_read), but for the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_aio_poll(
    tables: *const SessionTables,
    block: *mut ControlBlock,
    events: c_int,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let given = unsafe { with(tables, Call::StartPoll, block) };
    done(given.and_then(|(fs, block)| {
        let known = i16::try_from(events).map_err(|_| Errno::INVAL);
        // SAFETY:
        // - this function's contract
        let checked = known.and_then(|events| unsafe { block.check(fs) }.map(|()| events));
        let events = refused(fs, Call::StartPoll, checked)?;
        let pending = fs.start_poll(descriptor(block.aio_fildes), events);
        block.begin(fs, pending?, false);
        Ok(())
    }))
}
