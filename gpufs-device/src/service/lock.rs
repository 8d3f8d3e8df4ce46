//! Locks of files: [flock(2)](https://man7.org/linux/man-pages/man2/flock.2.html), and the record locks of
//! [fcntl(2)](https://man7.org/linux/man-pages/man2/fcntl.2.html).

use gpufs_core::abi::{F_UNLCK, RecordLock, Sqe};
use gpufs_core::failures::counted;
use gpufs_core::{Call, Errno};

use super::serve_until_done;
use crate::Fs;
use crate::file::{Descriptor, moved};
use crate::io::serve_staged;
use crate::warp::Lanes;

/// Of [`Fs::flock`]: a lock that excludes exclusive ones.
pub const LOCK_SH: u32 = 1;
/// Of [`Fs::flock`]: a lock that excludes all others.
pub const LOCK_EX: u32 = 2;
/// Of [`Fs::flock`]: do not wait.
pub const LOCK_NB: u32 = 4;
/// Of [`Fs::flock`]: give the lock up.
pub const LOCK_UN: u32 = 8;

/// What [`Fs::fcntl`] does with a record lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockCommand {
    /// `F_GETLK`: finds the lock that would keep this one from being set; its type is [`F_UNLCK`] where there is none.
    Find,
    /// `F_SETLK`: sets it, or fails with `EAGAIN` where another excludes it.
    Set,
    /// `F_SETLKW`: sets it, and waits for that.
    SetAndWait,
}

impl Fs {
    /// Locks a whole file, as `flock(2)`: [`LOCK_SH`], [`LOCK_EX`] or [`LOCK_UN`], and [`LOCK_NB`]. The lock belongs to the open file
    /// description: a lane that names the same descriptor has it too, and one that opened the file itself is kept out. Where lanes of a warp run in
    /// lockstep (AMD's GPUs), a lane must not wait for a lock that another lane of its warp has.
    ///
    /// # Errors
    /// `EBADF`; `EAGAIN` (`EWOULDBLOCK`) with [`LOCK_NB`] where another has it; `EINVAL` for another operation.
    pub fn flock(self, descriptor: Descriptor, operation: u32) -> Result<(), Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Flock);
        let file = session.process_descriptor(descriptor);
        let entry = file.ok().map(|file| Sqe::flock(file, operation));
        let done = serve_until_done(session, lanes, entry, operation & LOCK_NB == 0);
        counted(session, Call::Flock, file.and(done.map(drop)))
    }

    /// A record lock, as `fcntl(2)` with `F_SETLK`, `F_SETLKW` and `F_GETLK`. It belongs to the open file description, as with `F_OFD_SETLK`;
    /// `l_pid` is 0. With [`LockCommand::Find`], `lock` becomes what was found.
    ///
    /// # Errors
    /// `EBADF`, also for a lock that the file is not open for; `EAGAIN` where another lock excludes it; `EINVAL` for a range before the start or
    /// an `l_pid` that is not 0; `EOVERFLOW`; `ENOLCK`.
    pub fn fcntl(
        self,
        descriptor: Descriptor,
        command: LockCommand,
        lock: &mut RecordLock,
    ) -> Result<(), Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fcntl);
        let wanted = session.file(descriptor).and_then(|file| {
            let mut wanted = *lock;
            // The position is the session's, so the system cannot count from it.
            if wanted.l_whence == 1 {
                wanted.l_whence = 0;
                wanted.l_start = moved(file.position.peek(), wanted.l_start)?.cast_signed();
            }
            Ok((file.descriptor.peek().cast_signed(), wanted))
        });
        let finds = command == LockCommand::Find;
        let bytes = (finds && wanted.is_ok()).then_some(size_of::<RecordLock>() as u64);
        let mut found = *lock;
        let (file, asked) = wanted.unwrap_or((-1, *lock));
        let looked = serve_staged(
            session,
            lanes,
            bytes,
            |area| Sqe::lock(file, &asked, area.address),
            |area, _| found = area.read(0),
        );
        let entry = (!finds && wanted.is_ok()).then(|| Sqe::lock(file, &asked, 0));
        let set = serve_until_done(session, lanes, entry, command == LockCommand::SetAndWait);
        let done = wanted.and(if finds { looked } else { set });
        if finds && done.is_ok() {
            // Where there is none, only the type changes.
            if found.l_type == F_UNLCK { lock.l_type = F_UNLCK } else { *lock = found }
        }
        counted(session, Call::Fcntl, done.map(drop))
    }
}
