//! `fseek(3)`, `ftell(3)`, `rewind(3)`.

use gpufs_core::failures::counted;
use gpufs_core::session::OpenFile;
use gpufs_core::stream::{Direction, Stream};
use gpufs_core::{Call, Errno};

use super::lock::{LockedStream, with_lock};
use super::{File, Whence};
use crate::file::moved;
use crate::warp::Lanes;

impl File {
    /// Moves the position, as `fseek(3)`, after writing what is buffered; clears the end-of-file flag and what `ungetc` pushed back.
    /// Lanes that call together are served in lane order.
    ///
    /// # Errors
    /// `ESPIPE` for what has no position; `EINVAL` for a position before the start, `EOVERFLOW` beyond 63 bits; what flushing met.
    pub fn fseek(self, offset: i64, whence: Whence) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fseek);
        let moved = lanes.grouped(u64::from(lanes.lane()), |alone| {
            with_lock(self, alone, |held| seek(held, offset, whence))
        });
        counted(self.session, Call::Fseek, moved)
    }

    /// The position in bytes from the start, as `ftell(3)`.
    ///
    /// # Errors
    /// `ESPIPE` for what has no position; `EBADF` for a closed stream.
    pub fn ftell(self) -> Result<u64, Errno> {
        let inside = self.enter()?;
        let position = Lanes::calling(&inside, Call::Ftell).grouped(self.key(), |group| {
            with_lock(self, group, |held| match held.file_flags() {
                flags if flags & OpenFile::POSITIONLESS != 0 => Ok(0),
                flags if flags & OpenFile::SHARED != 0 => held.shared_position(),
                flags if flags & OpenFile::SEEKABLE == 0 => Err(Errno::SPIPE),
                _ if held.stream.direction() == Direction::Writing => held.written_position(),
                _ => Ok(held.read_position()),
            })
        });
        counted(self.session, Call::Ftell, position)
    }

    /// Moves to the start and clears the error flag, as `rewind(3)`.
    pub fn rewind(self) {
        let Ok(inside) = self.enter() else { return };
        let lanes = Lanes::calling(&inside, Call::Rewind);
        let moved = lanes.grouped(u64::from(lanes.lane()), |alone| {
            with_lock(self, alone, |held| {
                let outcome = seek(held, 0, Whence::Set);
                held.lower(Stream::FLAG_ERROR | Stream::FLAG_EOF);
                outcome
            })
        });
        // rewind(3) has no result: a failed move shows in the position, and in the count of what failed.
        let _ = counted(self.session, Call::Rewind, moved);
    }
}

fn seek(held: &LockedStream, offset: i64, whence: Whence) -> Result<(), Errno> {
    let flags = held.file_flags();
    if flags & (OpenFile::SEEKABLE | OpenFile::SHARED | OpenFile::POSITIONLESS) == 0 {
        return Err(Errno::SPIPE);
    }
    if held.stream.direction() == Direction::Writing
        && let Err(errno) = held.leave_writing()
    {
        return held.fail(errno);
    }
    if flags & OpenFile::SHARED != 0 {
        return held.seek_shared(offset, whence);
    }
    let start = match whence {
        Whence::Set => 0,
        Whence::Current => held.read_position(),
        Whence::End => held.size()?,
    };
    let target = if flags & OpenFile::POSITIONLESS != 0 { 0 } else { moved(start, offset)? };
    held.check_place(target)?;
    held.forget_read();
    held.update(|stream| {
        stream.position.set(target);
        held.file().position.set(target);
        stream.direction.set(Direction::Idle as u32);
        stream.flags.set(stream.flags.peek() & !Stream::FLAG_EOF);
    });
    Ok(())
}
