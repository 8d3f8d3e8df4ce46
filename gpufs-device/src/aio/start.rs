//! Starting: arguments are checked per lane, then all of the warp's entries go out as one batch.

use gpufs_core::abi::{CURRENT_POSITION, Sqe};
use gpufs_core::alloc::{BufferPool, Staged};
use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, Resources, Target};
use gpufs_core::{Call, Errno};

use super::Pending;
use crate::Fs;
use crate::file::Descriptor;
use crate::io::{Begun, Flow, copy_lanes, dismiss, slot_hint, start};
use crate::warp::Lanes;

/// The most bytes of one operation: sixteen staging buffers.
pub const BYTES_MAX: usize = 4096 * BufferPool::BUFFERS_MAX as usize;

/// `IORING_FSYNC_DATASYNC` (`io_uring_enter(2)`).
const FSYNC_DATASYNC: u32 = 1;

/// What a lane wants to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Bytes of staging memory; 0 for none.
    pub(crate) bytes: u64,
    /// Where to copy them from, before the start of a write.
    pub(crate) from: u64,
    /// It may never end: it waits for another party.
    pub(crate) endless: bool,
}

/// Where in its file a transfer begins.
#[derive(Clone, Copy)]
pub(super) enum At {
    /// So many bytes from the start on.
    Offset(u64),
    /// Where a file is that has no position.
    Here,
    /// The one or the other, as the file is.
    Either(u64),
}

/// What a transfer is of.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    pub(super) target: Target,
    pub(super) offset: u64,
    pub(super) asked: Asked,
}

impl Fs {
    /// Starts to read up to `bytes` bytes from `offset` (bytes from the start) on, as `pread(2)`. At most [`BYTES_MAX`].
    ///
    /// # Errors
    /// `EAGAIN`: as many operations as can be are in flight ([module documentation](crate::aio)). `EBADF` (not open for reading), `ESPIPE`,
    /// `EINVAL` for an offset beyond 63 bits. What the read itself meets is [`Pending::wait`]'s.
    #[inline]
    pub fn start_pread(self, descriptor: Descriptor, bytes: usize, offset: u64) -> Result<Pending, Errno> {
        self.start_reading(descriptor, bytes, At::Offset(offset))
    }

    /// Starts to write `from`, or its first [`BYTES_MAX`] bytes, at `offset`, as `pwrite(2)`. The bytes are copied before it returns.
    ///
    /// # Errors
    /// As [`Fs::start_pread`]; `EBADF` for a file that is not open for writing.
    #[inline]
    pub fn start_pwrite(self, descriptor: Descriptor, from: &[u8], offset: u64) -> Result<Pending, Errno> {
        self.start_writing(descriptor, from, At::Offset(offset))
    }

    /// Starts to read up to `bytes` bytes of a pipe, FIFO, socket or terminal, as `read(2)`: it is complete when there are some, or the end. What
    /// does not wait (`O_NONBLOCK`, and a FIFO that a kernel opened) completes with `EAGAIN` where there is nothing.
    ///
    /// # Errors
    /// As [`Fs::start_pread`]; `EINVAL` for a file that has a position, for which [`Fs::start_pread`] says where.
    #[inline]
    pub fn start_read(self, descriptor: Descriptor, bytes: usize) -> Result<Pending, Errno> {
        self.start_reading(descriptor, bytes, At::Here)
    }

    /// Starts to write `from`, or its first [`BYTES_MAX`] bytes, to a pipe, FIFO, socket or terminal, as `write(2)`: it is complete when some are
    /// taken.
    ///
    /// # Errors
    /// As [`Fs::start_read`].
    #[inline]
    pub fn start_write(self, descriptor: Descriptor, from: &[u8]) -> Result<Pending, Errno> {
        self.start_writing(descriptor, from, At::Here)
    }

    /// As `aio_read(3)`: [`Fs::start_pread`] of a file that has a position, [`Fs::start_read`] of another.
    ///
    /// # Errors
    /// As [`Fs::start_pread`], without `ESPIPE`.
    #[inline]
    pub fn start_aio_read(self, descriptor: Descriptor, bytes: usize, offset: u64) -> Result<Pending, Errno> {
        self.start_reading(descriptor, bytes, At::Either(offset))
    }

    /// As `aio_write(3)`: [`Fs::start_pwrite`] to a file that has a position, [`Fs::start_write`] to another.
    ///
    /// # Errors
    /// As [`Fs::start_aio_read`].
    #[inline]
    pub fn start_aio_write(self, descriptor: Descriptor, from: &[u8], offset: u64) -> Result<Pending, Errno> {
        self.start_writing(descriptor, from, At::Either(offset))
    }

    /// Starts `fsync(2)`. It is not ordered after writes that are still in flight: wait for those first.
    ///
    /// # Errors
    /// `EAGAIN`, `EBADF`.
    pub fn start_fsync(self, descriptor: Descriptor) -> Result<Pending, Errno> {
        self.start_syncing(descriptor, 0)
    }

    /// Starts `fdatasync(2)`, as [`Fs::start_fsync`].
    ///
    /// # Errors
    /// `EAGAIN`, `EBADF`.
    pub fn start_fdatasync(self, descriptor: Descriptor) -> Result<Pending, Errno> {
        self.start_syncing(descriptor, FSYNC_DATASYNC)
    }

    /// Starts the lanes' reads. One function, which saves few registers (`preserve.rs` of gpufs-build names it).
    #[inline(never)]
    fn start_reading(self, descriptor: Descriptor, bytes: usize, at: At) -> Result<Pending, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::AioRead);
        let begun = Begun::new(self.session(), lanes);
        let transfer = self.transfer(false, descriptor, (0, bytes), at);
        self.told(Call::AioRead, self.start_transfer((begun, lanes), false, transfer))
    }

    /// Starts the lanes' writes, as [`Fs::start_reading`].
    #[inline(never)]
    fn start_writing(self, descriptor: Descriptor, from: &[u8], at: At) -> Result<Pending, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::AioWrite);
        let begun = Begun::new(self.session(), lanes);
        let transfer = self.transfer(true, descriptor, (from.as_ptr() as u64, from.len()), at);
        self.told(Call::AioWrite, self.start_transfer((begun, lanes), true, transfer))
    }

    fn start_syncing(self, descriptor: Descriptor, flags: u32) -> Result<Pending, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::AioFsync);
        let begun = Begun::new(self.session(), lanes);
        let number = self.session().process_descriptor(descriptor);
        let asked = number.map(|_| Asked { bytes: 0, from: 0, endless: false });
        // SAFETY:
        // - the entry refers to no memory
        let started = unsafe {
            self.start_entry((begun, lanes), false, asked, |_| Sqe::fsync(number.unwrap_or(-1), flags))
        };
        self.told(Call::AioFsync, started)
    }

    /// Counts a start that failed. That there is no room is an answer, at which every caller looks, and no failure.
    pub(super) fn told<T>(self, call: Call, started: Result<T, Errno>) -> Result<T, Errno> {
        match started {
            Err(Errno::AGAIN) => started,
            started => counted(self.session(), call, started),
        }
    }

    /// What a lane's transfer is of, or what is wrong with it: the offset, the descriptor, the access, the kind of file, in this order.
    pub(super) fn transfer(
        self,
        writing: bool,
        descriptor: Descriptor,
        (from, bytes): (u64, usize),
        at: At,
    ) -> Result<Transfer, Errno> {
        let is_beyond = |offset: u64| offset > i64::MAX.cast_unsigned();
        if matches!(at, At::Offset(offset) if is_beyond(offset)) {
            return Err(Errno::INVAL);
        }
        let (file, flags) = self.session().file_and_flags(descriptor)?;
        if flags & (if writing { OpenFile::WRITABLE } else { OpenFile::READABLE }) == 0 {
            return Err(Errno::BADF);
        }
        let takes_offset = flags & (OpenFile::SEEKABLE | OpenFile::SHARED | OpenFile::POSITIONLESS) != 0;
        let offset = match at {
            At::Offset(_) if !takes_offset => return Err(Errno::SPIPE),
            At::Here if flags & OpenFile::SEEKABLE != 0 => return Err(Errno::INVAL),
            At::Either(offset) if takes_offset && is_beyond(offset) => return Err(Errno::INVAL),
            At::Either(offset) if takes_offset => offset,
            At::Offset(offset) => offset,
            At::Here | At::Either(_) => CURRENT_POSITION,
        };
        let bytes = bytes.min(BYTES_MAX) as u64;
        let asked = Asked { bytes, from, endless: OpenFile::may_wait(flags) };
        let target = file.target_of(flags, descriptor);
        Ok(Transfer { target, offset, asked })
    }

    /// Starts the lanes' transfers, all in one direction. Convergent; called by `lanes`.
    fn start_transfer(
        self,
        begun: (Begun, Lanes),
        writing: bool,
        transfer: Result<Transfer, Errno>,
    ) -> Result<Pending, Errno> {
        let index = self.session().async_buffers.buffer_index;
        let index = (index != BufferPool::UNREGISTERED).then_some(index);
        let entry = |memory: Option<(u64, u32)>| match (transfer, memory) {
            (Ok(Transfer { target, offset, .. }), Some(memory)) => {
                Resources::transfer(index, writing, target, memory, offset)
            }
            // Of no bytes, of a file that was looked at.
            _ => Sqe::nop(),
        };
        // SAFETY:
        // - the entry refers to the memory that it was given alone
        unsafe { self.start_entry(begun, writing, transfer.map(|transfer| transfer.asked), entry) }
    }

    /// Starts an operation of each lane that asked for one: `entry` makes it, of the lane's staging memory, an address and the bytes asked for, if
    /// it asked for some; of a write with what lies where it says. What all asynchronous calls do, after [`Begun::new`]. Convergent; called by
    /// `lanes`. [R-ASYNC-1].
    ///
    /// # Errors
    /// `asked`'s, and `EAGAIN`.
    ///
    /// # Safety
    /// The entry refers to no memory but what it was given, or to what stays until the operation is complete.
    pub(crate) unsafe fn start_entry(
        self,
        (mut begun, lanes): (Begun, Lanes),
        writing: bool,
        asked: Result<Asked, Errno>,
        entry: impl FnOnce(Option<(u64, u32)>) -> Sqe,
    ) -> Result<Pending, Errno> {
        let session = self.session();
        let (ring, pool) = (begun.ring, begun.pool);
        // Copied before the first claim, behind which the next look at the tables would be a trip to memory.
        let queue = &{ *begun.queue };
        let room = begun.admit(lanes);
        let wanting = lanes.ballot(asked.is_ok());
        let admitted = asked.is_ok() && wanting.rank(lanes.lane()) < room;
        let bytes = asked.map_or(0, |asked| if admitted { asked.bytes } else { 0 });
        let hint = slot_hint(ring).wrapping_mul(7).wrapping_add(lanes.rank());
        let claim = if bytes > 0 { pool.claim_whole(bytes, hint) } else { None };
        let goes = admitted && (bytes == 0 || claim.is_some());
        dismiss(queue, lanes, room - lanes.ballot(goes).count());
        #[expect(clippy::cast_possible_truncation, reason = "at most BYTES_MAX")]
        let memory =
            claim.map(|claim| Staged { claim, address: pool.address(claim.item(0)), bytes: bytes as u32 });
        if writing {
            let from = asked.map_or(0, |asked| asked.from);
            let (to, copied) = memory.map_or((0, 0), |memory| (memory.address, u64::from(memory.bytes)));
            // SAFETY:
            // - one end is the lane's staging memory, the other what its caller gave for the call; the barrier puts the copies before
            unsafe { copy_lanes(session, lanes, Flow::Out, (to, from, copied)) };
            lanes.sync();
        }
        let sqe = goes.then(|| entry(memory.map(|memory| (memory.address, memory.bytes))));
        let endless = asked.is_ok_and(|asked| asked.endless);
        // SAFETY:
        // - this function's contract, and the staging memory is released when the operation is complete
        let started = unsafe { start(session, (ring, begun.queue, queue), lanes, sqe, endless) };
        let refused = match started {
            Ok(Some(started)) => return Ok(Pending::new(self, started, memory)),
            Ok(None) => Err(Errno::AGAIN),
            Err(errno) => Err(errno),
        };
        if let Some(memory) = memory {
            pool.free.release(memory.claim);
        }
        asked.and(refused)
    }
}
