//! `fflush(3)`, and what every change of direction needs: everything reserved is in the file.

use gpufs_core::failures::counted;
use gpufs_core::session::OpenFile;
use gpufs_core::stream::{Direction, Stream};
use gpufs_core::{Call, Errno};

use super::File;
use super::lock::{LockedStream, with_lock};
use super::memory::Asked;
use crate::Fs;
use crate::file;
use crate::warp::{Broadcast, Lanes, identity};

impl LockedStream {
    /// Writes everything accepted; an error kept from before is tried again first. Convergent.
    pub(super) fn flush(&self) -> Result<(), Errno> {
        if self.stream.direction() != Direction::Writing {
            return Ok(());
        }
        self.update(Stream::forget_error);
        let ring = self.ring;
        self.advance(|stream| stream.flush_step(self.session, ring))
    }

    /// Puts the descriptor of a seekable file where the stream stands, whose bytes are all written. Where a file only appends, the stream does
    /// not know.
    pub(super) fn place_descriptor(&self) {
        let flags = self.file_flags();
        let writing = self.stream.direction() == Direction::Writing;
        if flags & OpenFile::SEEKABLE == 0 || (writing && flags & OpenFile::APPEND != 0) {
            return;
        }
        let written = self.stream.base.peek().wrapping_add(self.stream.reserved());
        let position = if writing { written } else { self.read_position() };
        self.update(|_| self.file().position.set(position));
    }

    /// Drops what could not be written: after this no block is in use, and nothing is written before one is filled again. After a flush
    /// that failed. Convergent.
    ///
    /// # Errors
    /// Of a thread of the host's, that it gave up waiting for what is in flight.
    pub(super) fn take_back(&self) -> Result<(), Errno> {
        if self.stream.direction() != Direction::Writing {
            return Ok(());
        }
        let ring = self.ring;
        self.advance(|stream| stream.take_back_step(self.session, ring))
    }

    /// From writing to idle: flushes, brings the memory of a stream on memory up to date, and notes where the file's position then is. On an
    /// error the stream stays writing.
    pub(super) fn leave_writing(&self) -> Result<(), Errno> {
        if self.stream.direction() != Direction::Writing {
            return Ok(());
        }
        self.flush()?;
        self.update_memory(Asked::Else)?;
        self.rest()
    }

    /// [`LockedStream::leave_writing`] of a stream that will write again: its memory is not looked at, which printing would pay for.
    pub(super) fn pause_writing(&self) -> Result<(), Errno> {
        self.flush()?;
        self.rest()
    }

    /// From writing to idle, after a flush.
    fn rest(&self) -> Result<(), Errno> {
        if self.stream.direction() != Direction::Writing {
            return Ok(());
        }
        let position = self.written_position()?;
        self.update(|stream| {
            stream.position.set(position);
            stream.direction.set(Direction::Idle as u32);
        });
        Ok(())
    }

    /// The position after everything accepted, of a stream that is writing.
    pub(super) fn written_position(&self) -> Result<u64, Errno> {
        let flags = self.file_flags();
        if flags & OpenFile::SEEKABLE == 0 {
            return Ok(0);
        }
        if flags & OpenFile::APPEND != 0 {
            // What is in flight may be in the file already and counted as unwritten as well: it is waited for. Where it fails, it is
            // unwritten.
            let _ = self.advance(|stream| stream.settle_writes_step(self.session, self.ring));
            return Ok(self.size()? + self.stream.unwritten());
        }
        Ok(self.stream.base.peek().wrapping_add(self.stream.reserved()))
    }

    /// The file's size.
    pub(super) fn size(&self) -> Result<u64, Errno> {
        let lanes = self.lanes;
        let size = file::size(self.session, lanes, lanes.is_leader().then(|| self.descriptor()));
        lanes.from_leader(FileSize(size)).0
    }
}

/// A file's size, or why it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileSize(pub(super) Result<u64, Errno>);

/// As a system call returns it: an error is its number, negated. A size is an `off_t`, and not negative.
impl Broadcast for FileSize {
    fn to_word(self) -> u64 {
        match self.0 {
            Ok(bytes) => bytes.min(u64::MAX >> 1),
            Err(errno) => i64::from(-errno.number()).cast_unsigned(),
        }
    }
    fn from_word(word: u64) -> Self {
        if word >> 63 == 0 { Self(Ok(word)) } else { Self(Err(Errno::from_number(-i32::from_word(word)))) }
    }
}

impl File {
    /// Writes what is buffered, as `fflush(3)`. On a stream that is reading a seekable file, forgets what was read ahead and pushed
    /// back (POSIX), so that the next read sees the file as it then is; the position stays.
    ///
    /// # Errors
    /// What a write met, now or since the last call: `ENOSPC`, `EPIPE`, `EIO` …; the bytes are kept, and tried again by the next
    /// flush. `EBADF` for a closed stream.
    pub fn fflush(self) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fflush);
        counted(self.session, Call::Fflush, flush(self, lanes, Asked::ByName))
    }
}

fn flush(file: File, lanes: Lanes, asked: Asked) -> Result<(), Errno> {
    lanes.grouped(file.key(), |group| {
        with_lock(file, group, |held| {
            let placed = OpenFile::SEEKABLE | OpenFile::SHARED;
            if held.stream.direction() == Direction::Reading && held.file_flags() & placed != 0 {
                held.leave_reading()?;
            }
            held.flush().and_then(|()| held.update_memory(asked)).or_else(|errno| held.fail(errno))?;
            held.place_descriptor();
            Ok(())
        })
    })
}

impl Fs {
    /// Flushes every open stream, as `fflush(NULL)`.
    ///
    /// # Errors
    /// The first error met; the other streams are flushed all the same.
    pub fn fflush_all(self) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::FflushAll);
        // Lanes that keep streams go by themselves: others wait for those.
        let keeps =
            self.session().streams().iter().any(|stream| stream.is_kept() && stream.is_kept_by(identity()));
        let apart = if keeps { u64::from(lanes.lane()) + 1 } else { 0 };
        counted(self.session(), Call::FflushAll, lanes.grouped(apart, |group| self.flush_streams(group)))
    }

    fn flush_streams(self, lanes: Lanes) -> Result<(), Errno> {
        let session = self.session();
        let mut outcome = Ok(());
        for (index, stream) in (0..).zip(session.streams()) {
            // ORDERING: acquire, device, partner `set_up`. The leader's look decides for all.
            let generation = lanes.from_leader(stream.generation.observe());
            if generation % 2 == 1 {
                let flushed = flush(File { session, index, generation }, lanes, Asked::Else);
                // Closed by another meanwhile: then it was flushed.
                if flushed != Err(Errno::BADF) {
                    outcome = outcome.and(flushed);
                }
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::message::assert_comes_back;
    use proptest::prelude::*;

    #[test]
    fn every_errno_comes_back() {
        for number in 1..=4095 {
            assert_comes_back(FileSize(Err(Errno::from_number(number))));
        }
    }

    proptest! {
        #[test]
        fn every_size_comes_back(bytes in 0..=u64::MAX >> 1) {
            assert_comes_back(FileSize(Ok(bytes)));
        }
    }
}
