//! `read(2)`, `write(2)`, `lseek(2)`: calls that share the open file's position. io_uring has no `lseek`, so the position is ours,
//! guarded by the file's lock.

use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, WaitReason};
use gpufs_core::{Call, Errno};

use super::at_once::ask;
use super::open::size;
use super::shared::seek_shared;
use super::{Descriptor, Whence};
use crate::Fs;
use crate::io::{Backoff, Request, Waiting, drain, ring_of_warp, transfer, transfer_waiting};
use crate::warp::{Lanes, Machine, Warp};

impl Fs {
    /// Reads at the position and moves it, as `read(2)`: how many bytes; 0 at the end of the file.
    ///
    /// # Errors
    /// The system call's: `EBADF`, `EISDIR`, `EIO`, `EAGAIN` …
    pub fn read(self, descriptor: Descriptor, into: &mut [u8]) -> Result<usize, Errno> {
        let (memory, bytes) = (into.as_mut_ptr() as u64, into.len() as u64);
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Read);
        counted(self.session(), Call::Read, self.sequential(lanes, false, descriptor, memory, bytes))
    }

    /// Writes at the position and moves it, or at the end with [`super::O_APPEND`], as `write(2)`: how many bytes.
    ///
    /// # Errors
    /// The system call's: `EBADF`, `ENOSPC`, `EPIPE`, `EFBIG`, `EAGAIN` …
    pub fn write(self, descriptor: Descriptor, from: &[u8]) -> Result<usize, Errno> {
        let (memory, bytes) = (from.as_ptr() as u64, from.len() as u64);
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Write);
        counted(self.session(), Call::Write, self.sequential(lanes, true, descriptor, memory, bytes))
    }

    /// Moves the position, as `lseek(2)`: the new one, in bytes from the start.
    ///
    /// # Errors
    /// `EBADF`; `ESPIPE` for a pipe, socket or terminal; `EINVAL` for a position before the start; `EOVERFLOW` for one that does
    /// not fit 63 bits.
    pub fn lseek(self, descriptor: Descriptor, offset: i64, whence: Whence) -> Result<u64, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Lseek);
        let session = self.session();
        let moved = self.one_by_one(lanes, descriptor, |lanes, file| {
            ask(session, lanes, Some(descriptor))?;
            let flags = file.flags.peek();
            if flags & OpenFile::POSITIONLESS != 0 {
                return Ok(0);
            }
            if flags & OpenFile::SHARED != 0 {
                return seek_shared(session, lanes, file, offset, whence);
            }
            if flags & OpenFile::SEEKABLE == 0 {
                return Err(Errno::SPIPE);
            }
            let number = file.descriptor.peek().cast_signed();
            let end = size(session, lanes, (whence == Whence::End).then_some(number))?;
            let start = match whence {
                Whence::Set => 0,
                Whence::Current => file.position.peek(),
                Whence::End => end,
            };
            let target = moved(start, offset)?;
            file.position.set(target);
            Ok(target)
        });
        counted(session, Call::Lseek, moved)
    }

    fn sequential(
        self,
        lanes: Lanes,
        writing: bool,
        descriptor: Descriptor,
        memory: u64,
        bytes: u64,
    ) -> Result<usize, Errno> {
        let session = self.session();
        // What may wait for another party has no position, and is waited for without the lock: who would end the wait may need the same
        // file, a socket say.
        let flags = session.file_and_flags(descriptor).map_or(0, |(_, flags)| flags);
        let may_wait = bytes > 0 && flags != 0 && OpenFile::may_wait(flags);
        let waiting = lanes.ballot(may_wait);
        if may_wait {
            let waiting = lanes.subset(waiting);
            return waiting.grouped(u64::from(lanes.lane()), |alone| {
                let (vectors, rw_flags) = (0, 0);
                let waiting = Waiting { descriptor, writing, memory, bytes, vectors, rw_flags };
                let count = transfer_waiting(session, alone, waiting)?;
                Ok(usize::try_from(count).unwrap_or(usize::MAX))
            });
        }
        let lanes = lanes.subset(lanes.mask().without(waiting));
        self.one_by_one(lanes, descriptor, |lanes, file| {
            let flags = file.flags.peek();
            let position = file.position.peek();
            let offset = OpenFile::offset(flags, position, writing);
            let number = file.descriptor.peek().cast_signed();
            let request = Request { target: file.target_of(flags, descriptor), memory, bytes, offset };
            let count = transfer(session, lanes, writing, Some(request))?;
            if count == 0 {
                // Nothing moved, an appending write's position neither.
            } else if writing
                && flags & (OpenFile::APPEND | OpenFile::SEEKABLE) == OpenFile::APPEND | OpenFile::SEEKABLE
            {
                // After an appending write the position is the end (POSIX write()).
                file.position.set(size(session, lanes, Some(number))?);
            } else {
                file.position.set(position + count);
            }
            Ok(usize::try_from(count).unwrap_or(usize::MAX))
        })
    }

    /// Calls `body` in one lane after the other, in lane order, each alone and holding its file's lock. Convergent.
    pub(crate) fn one_by_one<T>(
        self,
        lanes: Lanes,
        descriptor: Descriptor,
        body: impl FnOnce(Lanes, &OpenFile) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let session = self.session();
        let file = session.file(descriptor);
        let open = lanes.ballot(file.is_ok());
        let file = file?;
        let lanes = lanes.subset(open);
        lanes.grouped(u64::from(lanes.lane()), |alone| {
            let ring = ring_of_warp(session);
            let ticket = if Machine::is_host() { 0 } else { file.lock.draw() };
            let mut backoff = Backoff::new(session);
            // Ends: the lock is first come first served, and its holder waits only for the kernel ([L-PROGRESS e]).
            // A thread of the host's may give up.
            while !(if Machine::is_host() { file.lock.try_take() } else { file.lock.is_served(ticket) }) {
                let drained = drain(session, alone, ring);
                backoff.wait(drained, WaitReason::FileLock, ring, u64::from(ticket))?;
            }
            // Closed while this lane waited: the number below may be another file's by now.
            let open = file.flags.peek() & OpenFile::OPEN != 0;
            let outcome = if open { body(alone, file) } else { Err(Errno::BADF) };
            file.lock.release();
            outcome
        })
    }
}

/// `start + offset`, as a position.
pub(crate) fn moved(start: u64, offset: i64) -> Result<u64, Errno> {
    let target = i128::from(start) + i128::from(offset);
    if target < 0 {
        Err(Errno::INVAL)
    } else if target > i128::from(i64::MAX) {
        Err(Errno::OVERFLOW)
    } else {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to i64::MAX")]
        Ok(target as u64)
    }
}
