//! `dup2(2)`, `dup3(2)`: a descriptor, and the stream on it, becomes another file.

use gpufs_core::failures::counted;
use gpufs_core::stream::{Buffering, Direction};
use gpufs_core::{Call, Errno};

use super::File;
use super::fopen::buffering_of;
use super::lock::with_lock;
use crate::Fs;
use crate::file::{self, Descriptor, O_CLOEXEC, claim, duplicate};
use crate::warp::Lanes;

impl Fs {
    /// Makes `new` one more descriptor for the file of `old`, as [dup2(2)](https://man7.org/linux/man-pages/man2/dup2.2.html), and [`Fs::dup`] as
    /// for positions: what `new` had open is closed. A stream on `new` is flushed and goes on in the new file, where `old` stands. (POSIX:
    /// it is not flushed.) One lane calls it for a `new`; others that use that at the same time use the old file or the new one.
    ///
    /// # Errors
    /// `EBADF` where `old` is not open, or `new` is not below the length of the session's file table; `EBUSY` where it is being opened or
    /// closed; as [`Fs::dup`].
    pub fn dup2(self, old: Descriptor, new: Descriptor) -> Result<Descriptor, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Dup2);
        let made = lanes.grouped(u64::from(lanes.lane()), |alone| self.replace(alone, old, new));
        counted(self.session(), Call::Dup2, made)
    }

    /// [`Fs::dup2`], as [dup3(2)](https://man7.org/linux/man-pages/man2/dup3.2.html): `flags` are 0 or [`O_CLOEXEC`], which changes nothing, as
    /// all descriptors of a session close on `execve(2)`.
    ///
    /// # Errors
    /// `EINVAL` for other flags, and where `old` is `new`; as [`Fs::dup2`].
    pub fn dup3(self, old: Descriptor, new: Descriptor, flags: u32) -> Result<Descriptor, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Dup3);
        let made = lanes.grouped(u64::from(lanes.lane()), |alone| {
            if flags & !O_CLOEXEC != 0 || old == new {
                return Err(Errno::INVAL);
            }
            self.replace(alone, old, new)
        });
        counted(self.session(), Call::Dup3, made)
    }

    /// [`Fs::dup2`] of one lane alone.
    fn replace(self, alone: Lanes, old: Descriptor, new: Descriptor) -> Result<Descriptor, Errno> {
        let session = self.session();
        session.file(old)?;
        if new.0 as usize >= session.files().len() {
            return Err(Errno::BADF);
        }
        if old == new {
            return Ok(new);
        }
        if session.files_free.claim_item(new.0) {
            return duplicate(session, alone, Ok((old, new)));
        }
        session.file(new).map_err(|_| Errno::BUSY)?;
        let made = duplicate(session, alone, claim(session).map(|made| (old, made)))?;
        let is_on_it = |file: &File| file.is_open() && file.stream().file.peek() == new.0;
        let stream = self.open_streams().find(is_on_it);
        let exchanged = match stream {
            Some(file) => with_lock(file, alone, |held| {
                // What cannot be written is lost with the file, as where a file is closed.
                let flushed = held.flush().and_then(|()| held.leave_reading());
                if flushed.is_err() {
                    held.take_back()?;
                }
                held.update(|stream| {
                    stream.direction.set(Direction::Idle as u32);
                    stream.give_back(session);
                    let position = take_place(self, made, new);
                    let flags = held.file_flags();
                    let unbuffered = stream.buffering() == Buffering::None;
                    let buffering = if unbuffered { Buffering::None } else { buffering_of(flags) };
                    stream.begin(session, new.0, flags, buffering);
                    stream.position.set(position);
                });
                Ok(())
            }),
            None => {
                take_place(self, made, new);
                Ok(())
            }
        };
        // What `new` had open, or, where the stream's lock was not to be had, what was made in vain.
        let _: Result<_, _> = file::close(self, alone, Some(made));
        exchanged.map(|()| new)
    }

    /// The streams that are open: a look at each.
    fn open_streams(self) -> impl Iterator<Item = File> {
        let session = self.session();
        (0..).zip(session.streams()).filter_map(move |(index, stream)| {
            // ORDERING: acquire, device, partner `set_up`.
            let generation = stream.generation.observe();
            (generation % 2 == 1).then_some(File { session, index, generation })
        })
    }
}

/// Exchanges what two entries have open; the position of `new` from then on.
fn take_place(fs: Fs, made: Descriptor, new: Descriptor) -> u64 {
    let files = fs.session().files();
    let position = files[made.0 as usize].position.peek();
    file::exchange(fs.session(), made, new);
    files[new.0 as usize].position.set(position);
    position
}
