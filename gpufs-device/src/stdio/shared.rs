//! Streams on a file whose position others share: the standard streams of a program whose input or output was redirected.
//!
//! Their transfers take the kernel's position. What the stream has read and not given out, or accepted and not written, is what it differs by
//! from the stream's (POSIX 2.5.1).

use gpufs_core::Errno;
use gpufs_core::session::OpenFile;
use gpufs_core::stream::{Direction, Stream};

use super::Whence;
use super::lock::LockedStream;
use crate::file::seek_shared_file;

impl LockedStream {
    /// Asks for the position of the file itself, or moves it. Convergent.
    fn move_file(&self, offset: i64, whence: Whence) -> Result<u64, Errno> {
        seek_shared_file(self.session, self.lanes, self.file(), offset, whence)
    }

    /// The stream's position.
    pub(super) fn shared_position(&self) -> Result<u64, Errno> {
        if self.stream.direction() != Direction::Writing {
            return Ok(self.move_file(0, Whence::Current)?.saturating_sub(self.ahead()));
        }
        // What is in flight moves the position when it ends, and where it fails it is unwritten.
        let _ = self.advance(|stream| stream.settle_writes_step(self.session, self.ring));
        let unwritten = self.stream.unwritten();
        let appends = self.file_flags() & OpenFile::APPEND != 0 && unwritten > 0;
        let from = if appends { Whence::End } else { Whence::Current };
        Ok(self.move_file(0, from)? + unwritten)
    }

    /// Moves the stream's position. It is not writing.
    pub(super) fn seek_shared(&self, offset: i64, whence: Whence) -> Result<(), Errno> {
        let ahead = self.ahead().cast_signed();
        let offset = match whence {
            // The file's position is after what was read ahead.
            Whence::Current => offset.checked_sub(ahead).ok_or(Errno::INVAL)?,
            Whence::Set | Whence::End => offset,
        };
        self.move_file(offset, whence)?;
        self.forget_read();
        self.update(|stream| {
            stream.direction.set(Direction::Idle as u32);
            stream.flags.set(stream.flags.peek() & !Stream::FLAG_EOF);
        });
        Ok(())
    }

    /// Moves the file's position back over what was read ahead and pushed back, at most to the start.
    pub(super) fn step_back(&self) -> Result<(), Errno> {
        let ahead = self.ahead().cast_signed();
        match self.move_file(-ahead, Whence::Current) {
            // More was pushed back than there is in front.
            Err(Errno::INVAL) => self.move_file(0, Whence::Set).map(drop),
            outcome => outcome.map(drop),
        }
    }
}
