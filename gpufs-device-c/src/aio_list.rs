//! Several asynchronous operations at once, from C: waiting for one of them, and starting a list.

use core::ffi::c_int;
use core::mem::ManuallyDrop;
use core::time::Duration;

use gpufs_core::abi::TimeSpec;
use gpufs_core::session::SessionTables;
use gpufs_device::aio::{Pending, wait_any};
use gpufs_device::warp::{Machine, Warp};
use gpufs_device::{Call, Errno, Fs};

use crate::aio::{ControlBlock, Event, State, refused};
use crate::arguments::{counted_with, done, session};

/// `LIO_READ`.
pub const LIO_READ: c_int = 0;
/// `LIO_WRITE`.
pub const LIO_WRITE: c_int = 1;
/// `LIO_NOP`.
pub const LIO_NOP: c_int = 2;
/// `LIO_WAIT`.
const LIO_WAIT: c_int = 0;
/// `LIO_NOWAIT`.
const LIO_NOWAIT: c_int = 1;
/// The most blocks of one list: no list is that long, so a negative number of them is one that is longer.
const LIST_MAX: usize = 1 << 24;
/// What a list is counted as that is refused: a start.
const STARTS: Call = Call::AioRead;
/// How long [`gpufs_raw_aio_suspend`] looks at one of several operations before it looks at the next.
const LOOK: Duration = Duration::from_micros(1);

/// The blocks of a list.
///
/// # Errors
/// `EINVAL` for a negative number of them; `EFAULT` for a null list.
///
/// # Safety
/// Null, or so many pointers, each null or to a block, as [`with`] has it.
pub(crate) unsafe fn list<'a>(
    blocks: *const *mut ControlBlock,
    entries: c_int,
) -> Result<&'a [*mut ControlBlock], Errno> {
    let entries = usize::try_from(entries).ok().filter(|entries| *entries <= LIST_MAX).ok_or(Errno::INVAL)?;
    if blocks.is_null() && entries > 0 {
        return Err(Errno::FAULT);
    }
    if entries == 0 {
        return Ok(&[]);
    }
    // SAFETY:
    // - so many, by this function's contract; not null
    Ok(unsafe { core::slice::from_raw_parts(blocks, entries) })
}

/// `aio_suspend(3)`.
///
/// # Safety
/// As [`gpufs_raw_aio_read`](crate::aio::gpufs_raw_aio_read) for each block of the list, which is null or has so many entries; `timeout` is null
/// or a time.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_aio_suspend(
    tables: *const SessionTables,
    blocks: *const *mut ControlBlock,
    entries: c_int,
    timeout: *const TimeSpec,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    // SAFETY:
    // - as above
    let (fs, blocks) = counted_with(Call::AioSuspend, (fs, unsafe { list(blocks, entries) }));
    // SAFETY:
    // - this function's contract
    let timeout = unsafe { timeout.as_ref() };
    done(fs.and_then(|fs| {
        let limit = timeout.map(duration).transpose();
        let checked = blocks.and_then(|blocks| limit.map(|limit| (blocks, limit)));
        let (blocks, limit) = refused(fs, Call::AioSuspend, checked)?;
        // SAFETY:
        // - this function's contract
        unsafe { suspend(fs, blocks, limit) }
    }))
}

/// # Errors
/// `EINVAL` for a time that is none.
fn duration(time: &TimeSpec) -> Result<Duration, Errno> {
    let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::INVAL)?;
    let nanoseconds = u32::try_from(time.tv_nsec).ok().filter(|parts| *parts < 1_000_000_000);
    Ok(Duration::new(seconds, nanoseconds.ok_or(Errno::INVAL)?))
}

/// Waits until one of several is complete.
///
/// # Errors
/// `EAGAIN` where the time is over; `EINVAL` for a block without an operation, and where there is no block.
///
/// # Safety
/// As [`ControlBlock::look`], for each block.
unsafe fn suspend(fs: Fs, blocks: &[*mut ControlBlock], limit: Option<Duration>) -> Result<(), Errno> {
    let given = blocks.iter().filter(|block| !block.is_null()).count();
    if given == 0 {
        return refused(fs, Call::AioSuspend, Err(Errno::INVAL));
    }
    let nanoseconds = |limit: Duration| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    let until = limit.map(|limit| Machine::clock().saturating_add(nanoseconds(limit)));
    // Ends: as a wait for each of them does, or with the limit.
    loop {
        for block in blocks {
            // SAFETY:
            // - null or a block, which no other thread uses, by this function's contract
            let Some(block) = (unsafe { block.as_mut() }) else { continue };
            let State::InFlight(parts, state) = refused(fs, Call::AioSuspend, block.state(fs))? else {
                return Ok(());
            };
            // SAFETY:
            // - the block has them of a start, under its tag, which `finish` changes
            let pending = ManuallyDrop::new(unsafe { Pending::from_parts(fs, parts) });
            let look = match until {
                // It alone: the session's deadline says where it waits.
                None if given == 1 => None,
                None => Some(LOOK),
                Some(until) => Some(LOOK.min(Duration::from_nanos(until.saturating_sub(Machine::clock())))),
            };
            match wait_any([&*pending], look) {
                Ok(_) => {
                    // SAFETY:
                    // - this function's contract
                    let _ = unsafe { block.finish(fs, ManuallyDrop::into_inner(pending), state) };
                    return Ok(());
                }
                Err(Errno::TIMEDOUT) => {}
                Err(errno) => return Err(errno),
            }
        }
        if until.is_some_and(|until| Machine::clock() >= until) {
            return Err(Errno::AGAIN);
        }
    }
}

/// `lio_listio(3)`.
///
/// # Safety
/// As [`gpufs_raw_aio_suspend`]; `event` is null or an event.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_lio_listio(
    tables: *const SessionTables,
    mode: c_int,
    blocks: *const *mut ControlBlock,
    entries: c_int,
    event: *const Event,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let fs = unsafe { session(tables) };
    // SAFETY:
    // - as above
    let (fs, blocks) = counted_with(STARTS, (fs, unsafe { list(blocks, entries) }));
    // SAFETY:
    // - this function's contract
    let tells = unsafe { event.as_ref() }.is_some_and(|event| !event.is_none());
    let is_wrong = tells || !matches!(mode, LIO_WAIT | LIO_NOWAIT);
    done(fs.and_then(|fs| {
        let checked = blocks.and_then(|blocks| if is_wrong { Err(Errno::INVAL) } else { Ok(blocks) });
        let blocks = refused(fs, STARTS, checked)?;
        // SAFETY:
        // - this function's contract
        unsafe { start_all(fs, mode == LIO_WAIT, blocks) }
    }))
}

/// Starts what each block says, and waits for all of them with `waits`. A block whose start fails says why, as if its operation had.
///
/// # Errors
/// `EAGAIN` where there was no room for one, else `EIO` where one failed.
///
/// # Safety
/// As [`ControlBlock::look`], for each block.
unsafe fn start_all(fs: Fs, waits: bool, blocks: &[*mut ControlBlock]) -> Result<(), Errno> {
    let (mut is_full, mut has_failed) = (false, false);
    for (index, block) in blocks.iter().enumerate() {
        // SAFETY:
        // - null or a block, which no other thread uses, by this function's contract
        let Some(block) = (unsafe { block.as_mut() }) else { continue };
        // SAFETY:
        // - this function's contract
        let mut begun = unsafe { start_one(fs, block) };
        if begun == Err(Errno::AGAIN) && waits {
            // Those before it may have had the room.
            // SAFETY:
            // - this function's contract
            let _ = unsafe { finish_all(fs, &blocks[..index]) };
            // SAFETY:
            // - this function's contract
            begun = unsafe { start_one(fs, block) };
        }
        if let Err(errno) = begun {
            (is_full, has_failed) = (is_full || errno == Errno::AGAIN, true);
            // The block of an operation in flight stays that one's.
            if errno != Errno::BUSY {
                block.end(fs, -i64::from(errno.number()));
            }
        }
    }
    if waits {
        // SAFETY:
        // - this function's contract
        has_failed |= unsafe { finish_all(fs, blocks) };
    }
    match (is_full, has_failed) {
        (true, _) => Err(Errno::AGAIN),
        (false, true) => refused(fs, STARTS, Err(Errno::IO)),
        (false, false) => Ok(()),
    }
}

/// Starts what a block says.
///
/// # Errors
/// The start's; `EINVAL` for an opcode that is none.
///
/// # Safety
/// As [`ControlBlock::look`].
unsafe fn start_one(fs: Fs, block: &mut ControlBlock) -> Result<(), Errno> {
    match block.aio_lio_opcode {
        // SAFETY:
        // - this function's contract
        LIO_READ => unsafe { block.transfer(fs, true) },
        // SAFETY:
        // - this function's contract
        LIO_WRITE => unsafe { block.transfer(fs, false) },
        LIO_NOP => Ok(()),
        _ => refused(fs, STARTS, Err(Errno::INVAL)),
    }
}

/// Waits for those of the blocks that have an operation in flight; whether one of them failed.
///
/// # Safety
/// As [`ControlBlock::look`], for each block.
unsafe fn finish_all(fs: Fs, blocks: &[*mut ControlBlock]) -> bool {
    let mut has_failed = false;
    for block in blocks {
        // SAFETY:
        // - null or a block, which no other thread uses, by this function's contract
        let Some(block) = (unsafe { block.as_mut() }) else { continue };
        if block.aio_lio_opcode == LIO_NOP {
            continue;
        }
        let result = match block.state(fs) {
            Ok(State::InFlight(parts, state)) => {
                // SAFETY:
                // - the block has them of a start, under its tag, which `finish` changes
                let pending = unsafe { Pending::from_parts(fs, parts) };
                // SAFETY:
                // - this function's contract
                unsafe { block.finish(fs, pending, state) }
            }
            Ok(State::Complete(result)) => result,
            Err(_) => 0,
        };
        has_failed |= result < 0;
    }
    has_failed
}
