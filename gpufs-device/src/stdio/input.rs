//! The read path: the first block's buffer holds a piece of the file, and lanes take from it in lane order under the lock.
#![allow(unsafe_code, reason = "reads from the stream's buffer, writes to the caller's memory")]

use gpufs_core::abi::{POLLIN, RWF_NOWAIT, Sqe};
use gpufs_core::session::{OpenFile, Resources};
use gpufs_core::stream::{Buffering, Direction, Stream};
use gpufs_core::{Call, Errno};

use super::lock::{LockedStream, with_lock};
use super::{File, Transfer};
use crate::io::{
    Flow, abandoned, copy_lanes, end_of_wait, operate_until, poll_entry, ring_of_warp, transact_one,
};
use crate::warp::{LaneMask, Lanes};

impl LockedStream {
    /// Makes the stream ready to give bytes: access and direction.
    pub(super) fn prepare_reading(&self) -> Result<(), Errno> {
        if self.file_flags() & OpenFile::READABLE == 0 {
            return self.fail(Errno::BADF);
        }
        if self.stream.direction() == Direction::Writing
            && let Err(errno) = self.leave_writing()
        {
            return self.fail(errno);
        }
        if self.stream.direction() == Direction::Idle {
            self.update(|stream| {
                stream.read_next.set(0);
                stream.read_end.set(0);
                stream.direction.set(Direction::Reading as u32);
            });
        }
        Ok(())
    }

    /// From reading to idle: the position is where the reader stood, also that of a file that others share; what was read ahead and pushed back is
    /// dropped. Nothing, of a stream that is not reading.
    ///
    /// # Errors
    /// Of a position that others share: the host could not move it back. Then nothing is dropped.
    pub(super) fn leave_reading(&self) -> Result<(), Errno> {
        if self.is_ahead_of_others() {
            self.step_back()?;
        }
        self.forget_read();
        Ok(())
    }

    /// As [`LockedStream::leave_reading`], where the position of the file itself stays or is moved anyway.
    pub(super) fn forget_read(&self) {
        let position = self.read_position();
        let reading = self.stream.direction() == Direction::Reading;
        self.update(|stream| {
            if reading {
                stream.position.set(position);
                stream.direction.set(Direction::Idle as u32);
            }
            stream.pushed_count.set(0);
        });
    }

    /// Whether others share the file's position, which is ahead of the stream's.
    pub(super) fn is_ahead_of_others(&self) -> bool {
        self.file_flags() & OpenFile::SHARED != 0 && self.ahead() > 0
    }

    /// Bytes that were read from the file, or pushed back, and not taken.
    pub(super) fn ahead(&self) -> u64 {
        match self.stream.direction() {
            Direction::Reading => {
                u64::from(self.stream.read_end.peek() - self.stream.read_next.peek())
                    + u64::from(self.stream.pushed_count.peek())
            }
            _ => 0,
        }
    }

    /// The position of a stream that is not writing.
    pub(super) fn read_position(&self) -> u64 {
        let ahead = match self.stream.direction() {
            Direction::Reading => u64::from(self.stream.read_next.peek()),
            _ => 0,
        };
        (self.stream.position.peek() + ahead).saturating_sub(u64::from(self.stream.pushed_count.peek()))
    }

    /// Address and length of what can be taken at once, refilling the buffer if it is empty; `None` at the end of the file.
    /// `wanted` is what the call can still take: an unbuffered stream asks for no more, another for its buffer at least. Convergent; valid
    /// in all.
    pub(super) fn available(&self, wanted: u64) -> Result<Option<(u64, u64)>, Errno> {
        let stream = self.stream;
        if stream.read_next.peek() == stream.read_end.peek() {
            // The end of the file is sticky until it is cleared (C11 7.21.7.1).
            if stream.flags.peek() & Stream::FLAG_EOF != 0 {
                return Ok(None);
            }
            // What is wanted now may come in pieces of the session's buffer size, however small the stream's own was set.
            let wanted = wanted.min(u64::from(self.session.stream_buffers.buffer_bytes));
            let bytes = match stream.buffering() {
                Buffering::None => wanted,
                _ => wanted.max(stream.block_bytes()),
            };
            let count = self.refill(bytes)?;
            if count == 0 {
                self.raise(Stream::FLAG_EOF);
                return Ok(None);
            }
        }
        let (next, end) = (stream.read_next.peek(), stream.read_end.peek());
        Ok(Some((self.buffer() + u64::from(next), u64::from(end - next))))
    }

    /// Address of the buffer.
    fn buffer(&self) -> u64 {
        self.session.stream_buffers.address(self.stream.blocks[0].buffer.peek())
    }

    /// Reads up to `bytes` after those that were read before.
    fn refill(&self, bytes: u64) -> Result<u32, Errno> {
        let stream = self.stream;
        let position = stream.position.peek() + u64::from(stream.read_end.peek());
        let offset = OpenFile::offset(self.file_flags(), position, false);
        #[allow(clippy::cast_possible_truncation, reason = "at most a block")]
        let bytes = bytes as u32;
        let before = abandoned(self.session, ring_of_warp(self.session));
        let pool = &self.session.stream_buffers;
        let read = Resources::pool_transfer(pool, false, self.target(), (self.buffer(), bytes), offset);
        let flags = self.file_flags();
        let tries = OpenFile::may_wait(flags) && flags & OpenFile::NONBLOCK != 0;
        let polls = OpenFile::may_wait(flags) && flags & OpenFile::FIFO != 0 && !tries;
        let (mut is_ready, mut may_try) = (!polls, tries);
        let end_ns = if OpenFile::may_wait(flags) { end_of_wait(self.session) } else { None };
        // The buffer and the slot are the stream's own ([R-8]), so a read may wait for ever. A FIFO's descriptor does not wait: a poll waits
        // in the read's place. All are one operation after the other here: on a GPU, each level of calls takes registers from all of them.
        // Ends: the kernel interrupts an operation once for each signal, another way is tried once, and a poll ends when the FIFO is ready.
        let outcome = loop {
            let entry = if !is_ready {
                poll_entry(self.target(), POLLIN)
            } else if may_try {
                read.with_transfer_flags(RWF_NOWAIT)
            } else {
                read
            };
            let done = match end_ns {
                None => transact_one(self.session, self.lanes, entry),
                Some(end_ns) => self.transact_until(entry, end_ns),
            };
            match done {
                Ok(_) if !is_ready => is_ready = true,
                Err(Errno::INTR) => {}
                // Another reader was faster.
                Err(Errno::AGAIN) if polls => is_ready = false,
                // The file cannot be told per operation; its descriptor does not wait.
                Err(Errno::OPNOTSUPP) if may_try => may_try = false,
                other => break other,
            }
        };
        match outcome {
            Ok(count) => {
                if self.lanes.is_leader() {
                    // ORDERING: relaxed: a counter.
                    self.session.queues()[self.ring as usize].counters().bytes_read.count(u64::from(count));
                }
                self.update(|stream| {
                    stream.position.set(position);
                    stream.read_next.set(0);
                    stream.read_end.set(count);
                });
                Ok(count)
            }
            Err(errno) => {
                if abandoned(self.session, ring_of_warp(self.session)) != before {
                    self.stream.replace_own_buffer(self.session);
                }
                self.fail(errno)
            }
        }
    }

    /// One operation of the stream's own slot, cancelled when the clock says `end_ns`: `ETIMEDOUT` then. By the leader, while the others wait.
    #[cold]
    #[inline(never)]
    fn transact_until(&self, entry: Sqe, end_ns: u64) -> Result<u32, Errno> {
        let (session, lanes) = (self.session, self.lanes);
        let ring = ring_of_warp(session);
        let mut result = 0;
        if lanes.is_leader() {
            let alone = lanes.subset(LaneMask(1 << lanes.leader()));
            result = operate_until(session, ring, alone, entry, end_ns);
        }
        Errno::check(lanes.from_leader(result))
    }

    /// Takes `count` bytes: they were copied out.
    pub(super) fn take(&self, count: u64) {
        #[allow(clippy::cast_possible_truncation, reason = "within the buffer")]
        let count = count as u32;
        self.update(|stream| stream.read_next.set(stream.read_next.peek() + count));
    }

    /// Takes the byte that `ungetc` pushed back last, if there is one.
    pub(super) fn take_pushed(&self) -> Option<u8> {
        let (count, bytes) = (self.stream.pushed_count.peek(), self.stream.pushed.peek());
        if count == 0 {
            return None;
        }
        self.update(|stream| {
            stream.pushed_count.set(count - 1);
            stream.pushed.set(bytes >> 8);
        });
        #[allow(clippy::cast_possible_truncation, reason = "the lowest byte")]
        Some(bytes as u8)
    }
}

/// Reads into every lane's memory from its file, lanes in order. Convergent; called by `lanes`.
pub(super) fn read(file: File, lanes: Lanes, memory: *mut u8, bytes: u64) -> Transfer {
    lanes.grouped(file.key(), |group| {
        let before = group.scan(bytes);
        let total = group.broadcast(before + bytes, group.mask().last());
        if total == 0 {
            return Transfer { bytes: 0, error: None };
        }
        let mut done = 0;
        let outcome = with_lock(file, group, |held| read_held(held, memory, before, bytes, total, &mut done));
        let mine = done.saturating_sub(before).min(bytes);
        let error = if mine < bytes { outcome.err() } else { None };
        Transfer { bytes: usize::try_from(mine).unwrap_or(usize::MAX), error }
    })
}

fn read_held(
    held: &LockedStream,
    memory: *mut u8,
    before: u64,
    bytes: u64,
    total: u64,
    done: &mut u64,
) -> Result<(), Errno> {
    held.prepare_reading()?;
    // Ends: each round takes bytes, or meets the end or an error.
    while *done < total {
        if let Some(byte) = held.take_pushed() {
            if (before..before + bytes).contains(done) {
                // SAFETY:
                // - `memory` came from a `&mut [u8]` of `bytes` bytes of the calling lane
                unsafe { memory.add(usize::try_from(*done - before).unwrap_or(usize::MAX)).write(byte) };
            }
            *done += 1;
            continue;
        }
        let Some((address, length)) = held.available(total - *done)? else { return Ok(()) };
        let count = length.min(total - *done);
        let (start, end) = (before.max(*done), (before + bytes).min(*done + count));
        let (skip, count_here) = (start.wrapping_sub(*done), end.saturating_sub(start));
        let target = (memory as u64).wrapping_add(start.wrapping_sub(before));
        // SAFETY:
        // - the buffer holds `length` bytes from `address` on, and nobody writes it while the stream is held and no read is in flight
        // - `memory` came from a `&mut [u8]` of `bytes` bytes of the calling lane, and the range lies within its share; its lane goes on
        //   after the barrier in `take`
        unsafe {
            copy_lanes(held.session, held.lanes, Flow::In, (target, address.wrapping_add(skip), count_here));
        };
        held.take(count);
        *done += count;
    }
    Ok(())
}

/// Reads what there is without waiting for more than a first byte, for one lane of `bytes` > 0 after the other: from the buffer, or by one read.
/// Convergent; called by `lanes`.
#[cfg(feature = "embedded-io")]
pub(crate) fn read_some(file: File, lanes: Lanes, into: &mut [u8]) -> Result<usize, Errno> {
    let (memory, bytes) = (into.as_mut_ptr(), into.len() as u64);
    let mut done = 0;
    let outcome = lanes.grouped(u64::from(lanes.lane()), |alone| {
        with_lock(file, alone, |held| {
            held.prepare_reading()?;
            // What was pushed back, and then what is in the buffer: a read that may wait comes only where there is neither.
            let pushed = u64::from(held.stream.pushed_count.peek()).min(bytes);
            let wanted = if pushed > 0 {
                pushed
            } else {
                held.available(bytes)?.map_or(0, |(_, length)| length.min(bytes))
            };
            read_held(held, memory, 0, wanted, wanted, &mut done)
        })
    });
    outcome.map(|()| usize::try_from(done).unwrap_or(usize::MAX))
}

impl File {
    /// Reads bytes, as `fread(3)` with a size of 1: how many; fewer than asked only at the end of the file.
    ///
    /// # Errors
    /// `EBADF` (closed, or not open for reading), `EISDIR`, `EIO`, `EAGAIN` …
    pub fn fread(self, into: &mut [u8]) -> Result<usize, Errno> {
        self.fread_counted(into).result()
    }

    /// As [`File::fread`], with the count also when there is an error.
    pub fn fread_counted(self, into: &mut [u8]) -> Transfer {
        let inside = match self.enter() {
            Ok(inside) => inside,
            Err(errno) => return Transfer { bytes: 0, error: Some(errno) },
        };
        let came = read(self, Lanes::calling(&inside, Call::Fread), into.as_mut_ptr(), into.len() as u64);
        if let Some(errno) = came.error {
            self.session.note_failure(Call::Fread, errno);
        }
        came
    }
}
