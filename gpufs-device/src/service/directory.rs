//! Directories: `opendir(3)`, `readdir(3)`, `rewinddir(3)`, `closedir(3)`.
//!
//! A directory that is read is a descriptor. Its position is where its next entry begins, as the file system counts, and the file's lock guards it.
//! Nothing else is kept of it on the device: each call of a group of lanes has the host give what comes from there on, an entry for each lane. The
//! host keeps what the system gave it beyond that.

use core::ffi::CStr;

use gpufs_core::abi::{Dirent, READDIR_END, Sqe};
use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, SessionTables, WaitReason};
use gpufs_core::{Call, Errno};

use crate::Fs;
use crate::file::{self, Descriptor, O_CLOEXEC, O_DIRECTORY, O_RDONLY};
use crate::io::{Backoff, StagingArea, drain, ring_of_warp, serve, staged};
use crate::warp::{Lanes, Machine, Warp};

/// An open directory. A kernel's argument, as a [`Descriptor`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Directory(pub Descriptor);

impl Fs {
    /// Opens a directory, to be read from its start, as [opendir(3)](https://man7.org/linux/man-pages/man3/opendir.3.html).
    ///
    /// # Errors
    /// As [`Fs::open`]: `ENOENT`, `ENOTDIR`, `EACCES`, `EMFILE` …
    pub fn opendir(self, path: &CStr) -> Result<Directory, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Opendir);
        let opened = file::open(self, lanes, Ok((path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)));
        counted(self.session(), Call::Opendir, opened.map(Directory))
    }

    /// The next entry of a directory, as [readdir(3)](https://man7.org/linux/man-pages/man3/readdir.3.html): `true` with an entry in `into`, `false`
    /// at the end. Entries come in the file system's order, `.` and `..` among them. Each is given to one lane; lanes that call together get the
    /// next ones in lane order.
    ///
    /// # Errors
    /// `EBADF`; the system call's: `ENOTDIR` for a descriptor that is no directory's, `ENOENT` where the directory was removed, `EIO`.
    pub fn readdir(self, directory: Directory, into: &mut Dirent) -> Result<bool, Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Readdir);
        let read = lanes.grouped(u64::from(directory.0.0), |group| {
            locked(session, group, directory.0, |file| next_entries(session, group, file, into))
        });
        counted(session, Call::Readdir, read)
    }

    /// Goes back to a directory's start, as [rewinddir(3)](https://man7.org/linux/man-pages/man3/rewinddir.3.html).
    ///
    /// # Errors
    /// `EBADF`.
    pub fn rewinddir(self, directory: Directory) -> Result<(), Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Rewinddir);
        let rewound = lanes.grouped(u64::from(directory.0.0), |group| {
            locked(session, group, directory.0, |file| {
                if group.is_leader() {
                    file.position.set(0);
                }
                Ok(())
            })
        });
        counted(session, Call::Rewinddir, rewound)
    }

    /// Closes a directory, as [closedir(3)](https://man7.org/linux/man-pages/man3/closedir.3.html).
    ///
    /// # Errors
    /// As [`Fs::close`].
    pub fn closedir(self, directory: Directory) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Closedir);
        counted(self.session(), Call::Closedir, file::close(self, lanes, Some(directory.0)))
    }
}

/// Calls `body` with the lock of a file, for a group of lanes that all name it. Convergent; called by `group`.
fn locked<T>(
    session: &SessionTables,
    group: Lanes,
    descriptor: Descriptor,
    body: impl FnOnce(&OpenFile) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let ring = ring_of_warp(session);
    // The leader says whether it is open: another lane may close it meanwhile.
    let is_open = |group: Lanes| group.from_leader(u32::from(session.file(descriptor).is_ok())) != 0;
    if !is_open(group) {
        return Err(Errno::BADF);
    }
    let file = &session.files()[descriptor.0 as usize];
    let ticket = if group.is_leader() && !Machine::is_host() { file.lock.draw() } else { 0 };
    let mut backoff = Backoff::new(session);
    // Ends: the lock is first come first served, and its holder waits only for the host ([L-PROGRESS e]). A thread of the host's may give up.
    loop {
        let mine = group.is_leader()
            && if Machine::is_host() { file.lock.try_take() } else { file.lock.is_served(ticket) };
        if group.any(mine) {
            break;
        }
        let drained = drain(session, group, ring);
        backoff.wait(drained, WaitReason::FileLock, ring, u64::from(ticket))?;
    }
    // Closed while the group waited: the number may be another file's by now.
    let outcome = if is_open(group) { body(file) } else { Err(Errno::BADF) };
    group.sync();
    if group.is_leader() {
        file.lock.release();
    }
    outcome
}

/// The next entries of a directory whose lock the group holds, one for each lane, in lane order: whether the lane has one. Convergent; called by
/// `group`.
fn next_entries(
    session: &SessionTables,
    group: Lanes,
    file: &OpenFile,
    into: &mut Dirent,
) -> Result<bool, Errno> {
    const BYTES: u32 = size_of::<Dirent>() as u32;
    let (lanes, rank) = (group.count(), group.rank());
    let fd = file.descriptor.peek().cast_signed();
    let mut given = 0;
    let mut mine = false;
    let mut ended = false;
    let mut failed = None;
    // Ends: each round gives an entry, or is the last.
    while given < lanes && !ended {
        let wanted = group.is_leader().then(|| u64::from((lanes - given) * BYTES));
        let mut count = 0;
        staged(session, group, wanted, |area: Option<StagingArea>| {
            // The leader's memory, which all lanes reach.
            let (address, bytes) = (
                group.from_leader(area.map_or(0, |area| area.address)),
                group.from_leader(area.map_or(0, |area| area.bytes)),
            );
            let most = (bytes / BYTES).min(lanes - given);
            let entry = area.map(|area| Sqe::readdir(fd, file.position.peek(), area.address, most));
            match Errno::check(group.from_leader(serve(session, group, entry))) {
                Ok(read) => {
                    count = (read & !READDIR_END).min(most);
                    ended = read & READDIR_END != 0;
                }
                Err(errno) => failed = Some(errno),
            }
            let area = StagingArea { address, bytes };
            if (given..given + count).contains(&rank) {
                *into = area.read((rank - given) * BYTES);
                mine = true;
            }
            if group.is_leader() && count > 0 {
                let last: Dirent = area.read((count - 1) * BYTES);
                file.position.set(last.d_off.cast_unsigned());
            }
            // The leader gives the memory back next.
            group.sync();
        })?;
        given += count;
        ended |= count == 0;
    }
    match failed {
        Some(errno) if !mine => Err(errno),
        _ => Ok(mine),
    }
}
