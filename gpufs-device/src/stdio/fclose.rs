//! `fclose(3)`.

use gpufs_core::failures::counted;
use gpufs_core::session::FileIndex;
use gpufs_core::stream::Direction;
use gpufs_core::{Call, Claim, Errno};

use super::File;
use super::lock::with_lock;
use super::memory::Asked;
use super::shared_open::{Closing, EMPTIES, leave};
use crate::file;
use crate::warp::Lanes;

impl File {
    /// Flushes and closes, as `fclose(3)`. The stream is closed whatever is returned; one lane closes it, once. One that was opened by
    /// [`crate::Fs::fopen_shared`] is closed as often as it was opened, and the last time is what this says: before, nothing is written, and
    /// there is no error but `EBADF`.
    ///
    /// # Errors
    /// Of a call of the host's own that gave up waiting (`ETIMEDOUT` past the deadline, `EIO` on a ring that has failed), the stream stays open
    /// as long as the system has bytes of it in flight.
    /// `EBADF` if it is closed already; what flushing met (the bytes are then lost with the stream) or closing.
    pub fn fclose(self) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fclose);
        // A lane whose stream another keeps, of these lanes perhaps, waits by itself.
        let waits = self.stream().is_kept() && !self.is_kept();
        let apart = if waits { u64::from(lanes.lane()) + 1 } else { 0 };
        counted(self.session, Call::Fclose, lanes.grouped(apart, |group| self.close(group)))
    }

    /// [`File::fclose`] of every lane. Convergent; called by `lanes`.
    pub(crate) fn close(self, lanes: Lanes) -> Result<(), Errno> {
        let session = self.session;
        let part = leave(self, lanes);
        let closes = matches!(part, Closing::Alone | Closing::Last(_));
        // One lane at a time: of several that name the same stream, the first closes it and the others meet EBADF.
        let closed = lanes.grouped(u64::from(lanes.lane()), |alone| {
            if !closes {
                return Err(Errno::BADF);
            }
            with_lock(self, alone, |held| {
                let flushed = held
                    .flush()
                    .and_then(|()| held.update_memory(Asked::ByName))
                    .and_then(|()| held.leave_reading());
                if let Err(errno) = flushed {
                    if held.gave_up(errno) {
                        // The system still has the stream's buffers.
                        return Err(errno);
                    }
                    held.take_back()?;
                }
                let stream = held.stream;
                let file = FileIndex(stream.file.peek());
                held.update(|stream| {
                    stream.direction.set(Direction::Idle as u32);
                    // Before the descriptor is closed: what could not be written is lost with the stream.
                    stream.give_back(session);
                });
                // ORDERING: acquire and release, device, partner `with_lock`'s look at the generation.
                stream.generation.fetch_add(1);
                Ok((flushed, file))
            })
        });
        let descriptor = closed.as_ref().ok().map(|(_, file)| *file);
        let result = file::close(self.fs(), lanes, descriptor);
        if closed.is_ok() {
            session.streams_free.release(Claim::single(self.index));
        }
        match part {
            Closing::Left => return Ok(()),
            Closing::Last(entry) if closed.is_ok() => {
                let entry = session.shared.entry(entry);
                entry.closed(entry.flags() & EMPTIES != 0);
            }
            Closing::Last(entry) => session.shared.entry(entry).kept_open(),
            Closing::Alone | Closing::NotOpen => {}
        }
        closed?.0.and(result)
    }
}
