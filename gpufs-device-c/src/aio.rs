//! Asynchronous operations from C, with POSIX's control blocks (`aio(7)`). A start is a method of [`Fs`], and what is in flight a [`Pending`], whose
//! numbers lie in the block between two calls.
//!
//! A block in flight says which block it is, by its address, and of which session, so a copy of it, one of another session and memory that holds
//! anything are `EINVAL`. What was read goes to the caller's memory in the call that finds the operation complete.

use core::ffi::{c_int, c_void};
use core::mem::ManuallyDrop;

use gpufs_core::session::SessionTables;
use gpufs_device::aio::{Cancel, Parts, Pending};
use gpufs_device::{Call, Errno, Fs};

use crate::arguments::{counted_with, descriptor, done, readable, result, session, writable};

/// `struct aiocb` of Linux on 64-bit machines: `gpufs_aiocb`. What the C library keeps in it between calls, gpufs does.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ControlBlock {
    /// The file.
    pub aio_fildes: c_int,
    /// What `lio_listio` starts: `LIO_READ`, `LIO_WRITE` or `LIO_NOP`.
    pub aio_lio_opcode: c_int,
    /// By how much its priority is lower: not below 0, and of no effect.
    pub aio_reqprio: c_int,
    /// The memory: an address.
    pub aio_buf: u64,
    /// Its length in bytes.
    pub aio_nbytes: u64,
    /// How its end is told: [`Event::is_none`].
    pub aio_sigevent: Event,
    tag: u64,
    operation: u64,
    ring: u64,
    /// The value of `aio_return`, or a negated errno; once it is complete.
    result: i64,
    /// Where in the file.
    pub aio_offset: i64,
    buffers: u64,
    memory: u64,
    address: u64,
    tables: u64,
}

/// `struct sigevent`.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Event {
    /// Of no use.
    pub sigev_value: u64,
    /// The signal.
    pub sigev_signo: c_int,
    /// `SIGEV_NONE`, or `SIGEV_SIGNAL`, which is 0.
    pub sigev_notify: c_int,
    unused: [u64; 6],
}

impl Event {
    /// Whether nothing is to be told: `SIGEV_NONE`, and zeroed memory, which asks for the signal 0.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        const SIGEV_NONE: c_int = 1;
        self.sigev_notify == SIGEV_NONE || (self.sigev_notify == 0 && self.sigev_signo == 0)
    }
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<ControlBlock>() == 168 && size_of::<Event>() == 64);
    assert!(offset_of!(ControlBlock, aio_buf) == 16 && offset_of!(ControlBlock, aio_sigevent) == 32);
    assert!(offset_of!(ControlBlock, tag) == 96 && offset_of!(ControlBlock, aio_offset) == 128);
    assert!(offset_of!(Event, sigev_signo) == 8 && offset_of!(Event, sigev_notify) == 12);
};

/// `O_SYNC` and `O_DSYNC` of Linux.
const SYNCS: [c_int; 2] = [0o4_010_000, 0o10_000];
/// What a block's tag has beside the block's address, which is a multiple of eight.
const TAG: u64 = 0x6770_7566_735f_a108;
/// The state in a tag's low bits: a write or a sync is in flight.
const WRITES: u64 = 1;
/// A read is in flight.
const READS: u64 = 2;
/// It is complete.
const COMPLETE: u64 = 3;
/// Added to the state of one that may wait without end.
const ENDLESS: u64 = 4;

/// What a block says of its operation.
pub(crate) enum State {
    InFlight(Parts, u64),
    Complete(i64),
}

impl ControlBlock {
    fn tag_of(&self, state: u64) -> u64 {
        TAG ^ core::ptr::from_ref(self).addr() as u64 ^ state
    }

    /// # Errors
    /// `EINVAL`: there is no operation of `fs` whose result was not taken.
    pub(crate) fn state(&self, fs: Fs) -> Result<State, Errno> {
        let state = self.tag ^ self.tag_of(0);
        if self.tables != fs.identity() {
            return Err(Errno::INVAL);
        }
        match state & !ENDLESS {
            COMPLETE => Ok(State::Complete(self.result)),
            READS | WRITES => {
                let &Self { operation, ring, buffers, memory, address, .. } = self;
                let endless = state & ENDLESS != 0;
                Ok(State::InFlight(
                    Parts { operation, ring, buffers, memory, address, endless },
                    state & !ENDLESS,
                ))
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// Keeps the numbers of an operation that was started: one that `reads`, whose bytes come to the block's memory, or another.
    pub(crate) fn begin(&mut self, fs: Fs, pending: Pending, reads: bool) {
        let state = if reads { READS } else { WRITES };
        if let Some(Parts { operation, ring, buffers, memory, address, endless }) = pending.into_parts() {
            let tag = self.tag_of(state | if endless { ENDLESS } else { 0 });
            let tables = fs.identity();
            (self.tag, self.operation, self.ring, self.tables) = (tag, operation, ring, tables);
            (self.buffers, self.memory, self.address) = (buffers, memory, address);
        }
    }

    /// Keeps its end.
    pub(crate) fn end(&mut self, fs: Fs, result: i64) {
        (self.tag, self.tables, self.result) = (self.tag_of(COMPLETE), fs.identity(), result);
    }

    /// The result where it is complete, `None` where it is in flight; what was read is where the caller wants it.
    ///
    /// # Errors
    /// [`ControlBlock::state`]'s.
    ///
    /// # Safety
    /// The block's memory is as `aio_read` wants it.
    pub(crate) unsafe fn look(&mut self, fs: Fs) -> Result<Option<i64>, Errno> {
        match self.state(fs)? {
            State::Complete(result) => Ok(Some(result)),
            State::InFlight(parts, state) => {
                // SAFETY:
                // - the block has them of a start, under this very tag, which `finish` and `end` change
                let pending = ManuallyDrop::new(unsafe { Pending::from_parts(fs, parts) });
                if !pending.is_done() {
                    return Ok(None);
                }
                // SAFETY:
                // - this function's contract
                Ok(Some(unsafe { self.finish(fs, ManuallyDrop::into_inner(pending), state) }))
            }
        }
    }

    /// Waits for the operation, whose numbers the block holds, and keeps its result.
    ///
    /// # Safety
    /// As [`ControlBlock::look`].
    pub(crate) unsafe fn finish(&mut self, fs: Fs, pending: Pending, state: u64) -> i64 {
        let finished = if state == READS {
            // SAFETY:
            // - the caller's memory for what is read, by this function's contract
            match unsafe { writable(self.memory_of(), self.bytes()) } {
                Ok(into) => pending.wait_into(into),
                // It was looked at when the read began, and changed meanwhile.
                Err(errno) => pending.wait().and(Err(errno)),
            }
        } else {
            pending.wait().map(|finished| finished.count())
        };
        let result = match finished {
            Ok(count) => i64::try_from(count).unwrap_or(i64::MAX),
            Err(Errno::INTR) => -i64::from(Errno::CANCELED.number()),
            Err(errno) => -i64::from(errno.number()),
        };
        self.end(fs, result);
        result
    }

    pub(crate) fn memory_of(&self) -> *mut c_void {
        core::ptr::with_exposed_provenance_mut(self.aio_buf as usize)
    }
    #[expect(clippy::cast_possible_truncation, reason = "machines of 64 bits")]
    fn bytes(&self) -> usize {
        self.aio_nbytes as usize
    }

    /// Checks what every start asks of a block, which has no operation in flight.
    ///
    /// # Errors
    /// `EBUSY` for one that has; `EINVAL` for an event that is to be told, and a priority below 0.
    ///
    /// # Safety
    /// As [`ControlBlock::look`].
    pub(crate) unsafe fn check(&mut self, fs: Fs) -> Result<(), Errno> {
        // SAFETY:
        // - this function's contract
        if let Ok(None) = unsafe { self.look(fs) } {
            return Err(Errno::BUSY);
        }
        self.tag = 0;
        if self.aio_reqprio < 0 || !self.aio_sigevent.is_none() { Err(Errno::INVAL) } else { Ok(()) }
    }

    /// The block's memory.
    ///
    /// # Errors
    /// `EFAULT` for null memory.
    ///
    /// # Safety
    /// As [`ControlBlock::look`].
    pub(crate) unsafe fn bytes_of<'a>(&self) -> Result<&'a [u8], Errno> {
        // SAFETY:
        // - this function's contract
        unsafe { readable(self.memory_of(), self.bytes()) }
    }
    /// Whether it has the very memory of another.
    pub(crate) const fn has_memory_of(&self, other: &Self) -> bool {
        self.aio_buf == other.aio_buf && self.aio_nbytes == other.aio_nbytes
    }
    /// Whether its memory and that of another have bytes in common.
    pub(crate) const fn overlaps(&self, other: &Self) -> bool {
        self.aio_buf < other.aio_buf.saturating_add(other.aio_nbytes)
            && other.aio_buf < self.aio_buf.saturating_add(self.aio_nbytes)
    }

    /// Starts to read or write.
    ///
    /// # Errors
    /// [`ControlBlock::check`]'s; the start's.
    ///
    /// # Safety
    /// As [`ControlBlock::look`].
    pub(crate) unsafe fn transfer(&mut self, fs: Fs, reads: bool) -> Result<(), Errno> {
        let call = if reads { Call::AioRead } else { Call::AioWrite };
        // SAFETY:
        // - this function's contract
        let checked = unsafe { self.check(fs) };
        // SAFETY:
        // - this function's contract
        let memory = checked.and_then(|()| unsafe { readable(self.memory_of(), self.bytes()) });
        let (_, memory) = counted_with(call, (Ok(fs), memory));
        let (memory, at) = (memory?, self.aio_offset.cast_unsigned());
        let file = descriptor(self.aio_fildes);
        let pending = if reads {
            fs.start_aio_read(file, memory.len(), at)
        } else {
            fs.start_aio_write(file, memory, at)
        };
        self.begin(fs, pending?, reads);
        Ok(())
    }
}

/// The session and the block of a call. A refusal is counted.
///
/// # Errors
/// `EINVAL` for a null session; `EFAULT` for a null block.
///
/// # Safety
/// As [`session`]; the block is null or a block that no other thread uses meanwhile.
pub(crate) unsafe fn with<'a>(
    tables: *const SessionTables,
    call: Call,
    block: *mut ControlBlock,
) -> Result<(Fs, &'a mut ControlBlock), Errno> {
    // SAFETY:
    // - this function's contract
    let block = unsafe { block.as_mut() }.ok_or(Errno::FAULT);
    // SAFETY:
    // - this function's contract
    let (fs, block) = counted_with(call, (unsafe { session(tables) }, block));
    Ok((fs?, block?))
}

/// `aio_read(3)`.
///
/// # Safety
/// `tables` is null or a session's on this device; `block` is null or a control block that no other thread uses meanwhile, and which is at its place
/// until its operation's result was taken. Its memory is null or has room for as many bytes as it says, for as long.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_aio_read(
    tables: *const SessionTables,
    block: *mut ControlBlock,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let given = unsafe { with(tables, Call::AioRead, block) };
    // SAFETY:
    // - as above
    done(given.and_then(|(fs, block)| unsafe { block.transfer(fs, true) }))
}

/// `aio_write(3)`.
///
/// # Safety
/// As [`gpufs_raw_aio_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_aio_write(
    tables: *const SessionTables,
    block: *mut ControlBlock,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let given = unsafe { with(tables, Call::AioWrite, block) };
    // SAFETY:
    // - as above
    done(given.and_then(|(fs, block)| unsafe { block.transfer(fs, false) }))
}

/// `aio_fsync(3)`: `operation` is `O_SYNC` or `O_DSYNC`.
///
/// # Safety
/// As [`gpufs_raw_aio_read`], but for the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_aio_fsync(
    tables: *const SessionTables,
    operation: c_int,
    block: *mut ControlBlock,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let given = unsafe { with(tables, Call::AioFsync, block) };
    done(given.and_then(|(fs, block)| {
        let known = if SYNCS.contains(&operation) { Ok(()) } else { Err(Errno::INVAL) };
        // SAFETY:
        // - this function's contract
        let checked = known.and_then(|()| unsafe { block.check(fs) });
        counted_with(Call::AioFsync, (Ok(fs), checked)).1?;
        let file = descriptor(block.aio_fildes);
        let pending = if operation == SYNCS[0] { fs.start_fsync(file) } else { fs.start_fdatasync(file) };
        block.begin(fs, pending?, false);
        Ok(())
    }))
}

/// `aio_error(3)`: `EINPROGRESS`, 0, or the error number of the operation.
///
/// # Safety
/// As [`gpufs_raw_aio_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_aio_error(
    tables: *const SessionTables,
    block: *mut ControlBlock,
) -> i64 {
    // SAFETY:
    // - this function's contract
    let given = unsafe { with(tables, Call::AioError, block) };
    // SAFETY:
    // - as above
    let looked = given.and_then(|(fs, block)| refused(fs, Call::AioError, unsafe { block.look(fs) }));
    result(looked.map(|result| match result {
        None => u64::from(Errno::INPROGRESS.number().cast_unsigned()),
        Some(result) => result.min(0).unsigned_abs(),
    }))
}

/// `aio_return(3)`: the operation's value, once.
///
/// # Safety
/// As [`gpufs_raw_aio_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_aio_return(
    tables: *const SessionTables,
    block: *mut ControlBlock,
) -> i64 {
    // SAFETY:
    // - this function's contract
    match unsafe { with(tables, Call::AioReturn, block) } {
        Err(errno) => done(Err(errno)),
        // SAFETY:
        // - this function's contract
        Ok((fs, block)) => match refused(fs, Call::AioReturn, unsafe { block.look(fs) }) {
            Err(errno) => done(Err(errno)),
            Ok(None) => done(Err(Errno::INPROGRESS)),
            Ok(Some(result)) => {
                block.tag = 0;
                result
            }
        },
    }
}

/// Counts a refusal.
pub(crate) fn refused<T>(fs: Fs, call: Call, outcome: Result<T, Errno>) -> Result<T, Errno> {
    counted_with(call, (Ok(fs), outcome)).1
}

/// `aio_cancel(3)` of one block: `AIO_CANCELED` 0, `AIO_NOTCANCELED` 1, `AIO_ALLDONE` 2.
///
/// # Safety
/// As [`gpufs_raw_aio_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn gpufs_raw_aio_cancel(
    tables: *const SessionTables,
    number: c_int,
    block: *mut ControlBlock,
) -> i64 {
    if block.is_null() {
        // SAFETY:
        // - this function's contract
        let fs = unsafe { session(tables) };
        return done(fs.and_then(|fs| refused(fs, Call::AioCancel, Err(Errno::INVAL))));
    }
    // SAFETY:
    // - this function's contract
    let given = unsafe { with(tables, Call::AioCancel, block) };
    // SAFETY:
    // - this function's contract
    let cancelled = given.and_then(|(fs, block)| unsafe { cancel(fs, number, block) });
    result(cancelled.map(|cancelled| match cancelled {
        Cancel::Canceled => 0_u64,
        Cancel::NotCanceled => 1,
        Cancel::AllDone => 2,
    }))
}

/// # Errors
/// `EINVAL` for a block without an operation, and one of another file.
///
/// # Safety
/// As [`ControlBlock::look`].
unsafe fn cancel(fs: Fs, number: c_int, block: &mut ControlBlock) -> Result<Cancel, Errno> {
    let state = if block.aio_fildes == number { block.state(fs) } else { Err(Errno::INVAL) };
    let State::InFlight(parts, state) = refused(fs, Call::AioCancel, state)? else {
        return Ok(Cancel::AllDone);
    };
    // SAFETY:
    // - the block has them of a start, under its tag, which `finish` changes
    let pending = ManuallyDrop::new(unsafe { Pending::from_parts(fs, parts) });
    let cancelled = pending.cancel()?;
    if cancelled == Cancel::NotCanceled {
        return Ok(cancelled);
    }
    // The end of one that was cancelled comes soon, and the block then says so.
    // SAFETY:
    // - this function's contract
    let result = unsafe { block.finish(fs, ManuallyDrop::into_inner(pending), state) };
    Ok(if result == -i64::from(Errno::CANCELED.number()) { Cancel::Canceled } else { Cancel::AllDone })
}
