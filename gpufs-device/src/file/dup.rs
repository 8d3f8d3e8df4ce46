//! `dup(2)`: one more descriptor for an open file.

use gpufs_core::abi::Sqe;
use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, SessionTables};
use gpufs_core::{Call, Claim, Errno};

use super::Descriptor;
use super::open::enter;
use crate::Fs;
use crate::io::{serve, slot_hint};
use crate::warp::Lanes;

impl Fs {
    /// One more descriptor for an open file, as [dup(2)](https://man7.org/linux/man-pages/man2/dup.2.html): each is closed by itself. Of a file
    /// with a position, each has one of its own: the new one's begins where the other's is. (POSIX: they share one. With
    /// [`super::O_APPEND`] that makes no difference for writing.) The new descriptor of a redirected standard stream goes on where the
    /// program does, and has no position to move (`ESPIPE`).
    ///
    /// # Errors
    /// `EBADF` for a descriptor that is not open; `EMFILE` where the session's file table is full, or the process has no descriptor left.
    pub fn dup(self, descriptor: Descriptor) -> Result<Descriptor, Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Dup);
        let request = session.file(descriptor).and_then(|_| Ok((descriptor, claim(session)?)));
        counted(session, Call::Dup, duplicate(session, lanes, request))
    }
}

/// A free entry of the file table. Any lane.
pub(crate) fn claim(session: &SessionTables) -> Result<Descriptor, Errno> {
    let claim = session.files_free.claim(1, slot_hint(0)).ok_or(Errno::MFILE)?;
    Ok(Descriptor(claim.item(0)))
}

/// Two of them, or none. Any lane.
pub(crate) fn claim_two(session: &SessionTables) -> Result<[Descriptor; 2], Errno> {
    let first = claim(session)?;
    let second = claim(session).inspect_err(|_| session.files_free.release(Claim::single(first.0)))?;
    Ok([first, second])
}

/// Opens for each lane that has a request the file of its first descriptor in its second entry, which it has claimed: that entry. Where it fails
/// the entry is free again; the error of a lane that has no request is handed back. Convergent; called by `lanes`.
pub(crate) fn duplicate(
    session: &SessionTables,
    lanes: Lanes,
    request: Result<(Descriptor, Descriptor), Errno>,
) -> Result<Descriptor, Errno> {
    let seen = request.and_then(|(old, new)| match session.file_and_flags(old) {
        Ok((file, flags)) => Ok((file, flags, new)),
        Err(errno) => {
            session.files_free.release(Claim::single(new.0));
            Err(errno)
        }
    });
    let entry = seen.ok().map(|(file, ..)| Sqe::duplicate(file.descriptor.peek().cast_signed()));
    let made = Errno::check(serve(session, lanes, entry));
    let (file, flags, new) = seen?;
    match made {
        Ok(number) => {
            session.journal.note_open(new.0, number);
            // Another entry than the rings know, and than the host closes. The host moves a shared position for the old one alone.
            let flags = flags & !(OpenFile::FIXED | OpenFile::HOST_OWNED | OpenFile::SHARED);
            let position = file.position.peek();
            enter(session, new, number, flags);
            session.files()[new.0 as usize].position.set(position);
            Ok(new)
        }
        Err(errno) => {
            session.files_free.release(Claim::single(new.0));
            Err(errno)
        }
    }
}
