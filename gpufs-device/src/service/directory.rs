//! Directories: `opendir(3)`, `readdir(3)`, `rewinddir(3)`, `telldir(3)`, `seekdir(3)`, `closedir(3)`.
//!
//! A directory that is read is a descriptor. Its position is where its next entry begins, as the file system counts, and the file's lock guards it.
//! The host gives many entries at a time ([R-SERVE-9]), the first with the open; lanes copy theirs from there, each its own, side by side.

use core::ffi::CStr;

use gpufs_core::abi::Dirent;
use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, SessionTables};
use gpufs_core::{Call, Errno};

use crate::Fs;
use crate::file::{self, Descriptor, listing};
use crate::warp::Lanes;

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
        let opened = listing::open(self, lanes, path);
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
            locked(session, group, directory.0, |file| listing::next_entries(session, group, file, into))
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
                    file.listing.forget();
                }
                Ok(())
            })
        });
        counted(session, Call::Rewinddir, rewound)
    }

    /// Where the next entry begins, in the file system's own numbering, as [telldir(3)](https://man7.org/linux/man-pages/man3/telldir.3.html).
    ///
    /// # Errors
    /// `EBADF`.
    pub fn telldir(self, directory: Directory) -> Result<i64, Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Telldir);
        let told = lanes.grouped(u64::from(directory.0.0), |group| {
            locked(session, group, directory.0, |file| {
                Ok(group.from_leader(file.position.peek()).cast_signed())
            })
        });
        counted(session, Call::Telldir, told)
    }

    /// Goes on with the entry that began where [`Fs::telldir`] said so, or a `d_off`, as
    /// [seekdir(3)](https://man7.org/linux/man-pages/man3/seekdir.3.html). Another number leads where the file system says. Of lanes that call
    /// together the last one's position stays.
    ///
    /// # Errors
    /// `EBADF`; `EINVAL` for a negative position.
    pub fn seekdir(self, directory: Directory, position: i64) -> Result<(), Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Seekdir);
        let sought = lanes.grouped(u64::from(directory.0.0), |group| {
            locked(session, group, directory.0, |file| {
                let wanted = u64::try_from(position).map_err(|_| Errno::INVAL);
                // The last lane that names one.
                let valid = group.ballot(wanted.is_ok());
                if let Ok(position) = wanted
                    && valid.last() == group.lane()
                {
                    file.position.set(position);
                }
                wanted.map(drop)
            })
        });
        counted(session, Call::Seekdir, sought)
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
    // The leader says whether it is open: another lane may close it meanwhile.
    let is_open = |group: Lanes| group.from_leader(u32::from(session.file(descriptor).is_ok())) != 0;
    if !is_open(group) {
        return Err(Errno::BADF);
    }
    let file = &session.files()[descriptor.0 as usize];
    listing::lock(session, group, file)?;
    // Closed while the group waited: the number may be another file's by now.
    let outcome = if is_open(group) { body(file) } else { Err(Errno::BADF) };
    group.sync();
    if group.is_leader() {
        file.lock.release();
    }
    outcome
}
