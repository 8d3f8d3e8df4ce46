//! Calls that name files by paths and change what the names mean: `unlink(2)`, `rename(2)`, `mkdir(2)`, `link(2)`, `symlink(2)` and their
//! kin. Each is one operation of the service ring ([R-SERVE-6]), which finds the paths in staging memory. What a path names is in `stat`, opening
//! in `open`.

use core::ffi::CStr;

use gpufs_core::abi::Sqe;
use gpufs_core::failures::counted;
use gpufs_core::session::SessionTables;
use gpufs_core::{Call, Errno};

use super::{AT_FDCWD, AT_REMOVEDIR, Descriptor, PATH_MAX};
use crate::Fs;
use crate::io::{serve, staged_whole};
use crate::warp::Lanes;

impl Fs {
    /// Removes a name, as `unlink(2)`; the file with it if that was its last name and nobody has it open.
    ///
    /// # Errors
    /// The system call's: `ENOENT`, `EISDIR` for a directory, `EACCES`, `EPERM`, `EROFS` …; `ENAMETOOLONG` for a path of 4,096 bytes or more.
    pub fn unlink(self, path: &CStr) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Unlink);
        self.named(lanes, Call::Unlink, unlink_entry(self.session(), AT_FDCWD, 0), path)
    }

    /// Removes a name, as `unlinkat(2)`: relative to the directory `dir`, which is open, or to the working directory where that is
    /// [`AT_FDCWD`]. `flags`: 0, or [`AT_REMOVEDIR`] for an empty directory.
    ///
    /// # Errors
    /// As [`Fs::unlink`]; `EINVAL` for other flags; `EBADF` for a relative path where `dir` is not open, `ENOTDIR` where it is no directory.
    pub fn unlinkat(self, dir: Descriptor, path: &CStr, flags: u32) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Unlinkat);
        self.named(lanes, Call::Unlinkat, unlink_entry(self.session(), dir, flags), path)
    }

    /// Removes an empty directory, as `rmdir(2)`.
    ///
    /// # Errors
    /// The system call's: `ENOENT`, `ENOTDIR`, `ENOTEMPTY`, `EBUSY`, `EINVAL` for a path that ends in `.` …
    pub fn rmdir(self, path: &CStr) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Rmdir);
        self.named(lanes, Call::Rmdir, unlink_entry(self.session(), AT_FDCWD, AT_REMOVEDIR), path)
    }

    /// Removes a file or an empty directory, as `remove(3)`: an `unlink`, and an `rmdir` where that finds a directory.
    ///
    /// # Errors
    /// As [`Fs::unlink`]; of a directory as [`Fs::rmdir`].
    pub fn remove(self, path: &CStr) -> Result<(), Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Remove);
        let entry = |flags| PathEntry::one(unlink_entry(session, AT_FDCWD, flags), path);
        let mut outcome = on_paths(session, lanes, Some(entry(0)));
        let is_directory = outcome == Err(Errno::ISDIR);
        if lanes.any(is_directory) {
            let removed = on_paths(session, lanes, is_directory.then(|| entry(AT_REMOVEDIR)));
            if is_directory {
                outcome = removed;
            }
        }
        counted(session, Call::Remove, outcome)
    }

    /// Gives a file another name, as `rename(2)`: what had that name before is replaced.
    ///
    /// # Errors
    /// The system call's: `ENOENT`, `EXDEV` across file systems, `EISDIR`, `ENOTDIR`, `ENOTEMPTY`, `EINVAL` for a directory into itself …
    pub fn rename(self, old: &CStr, new: &CStr) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Rename);
        self.renamed(lanes, Call::Rename, (AT_FDCWD, old), (AT_FDCWD, new), 0)
    }

    /// Gives a file another name, as `renameat(2)`: each path is relative to its directory, as in [`Fs::unlinkat`].
    ///
    /// # Errors
    /// As [`Fs::rename`] and, for the directories, [`Fs::unlinkat`].
    pub fn renameat(
        self,
        old_dir: Descriptor,
        old: &CStr,
        new_dir: Descriptor,
        new: &CStr,
    ) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Renameat);
        self.renamed(lanes, Call::Renameat, (old_dir, old), (new_dir, new), 0)
    }

    /// Gives a file another name, as `renameat2(2)`, with `flags` of [`RENAME_NOREPLACE`](super::RENAME_NOREPLACE),
    /// [`RENAME_EXCHANGE`](super::RENAME_EXCHANGE) and [`RENAME_WHITEOUT`](super::RENAME_WHITEOUT).
    ///
    /// # Errors
    /// As [`Fs::renameat`]; `EEXIST` with `RENAME_NOREPLACE`; `EINVAL` for flags that the file system does not have.
    pub fn renameat2(
        self,
        old_dir: Descriptor,
        old: &CStr,
        new_dir: Descriptor,
        new: &CStr,
        flags: u32,
    ) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Renameat2);
        self.renamed(lanes, Call::Renameat2, (old_dir, old), (new_dir, new), flags)
    }

    /// Makes a directory, as `mkdir(2)`, with the permissions `mode` less the process's umask.
    ///
    /// # Errors
    /// The system call's: `EEXIST`, `ENOENT` for a parent that is missing, `EACCES`, `ENOSPC`, `EROFS` ….
    pub fn mkdir(self, path: &CStr, mode: u32) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Mkdir);
        self.named(lanes, Call::Mkdir, mkdir_entry(self.session(), AT_FDCWD, mode), path)
    }

    /// Makes a directory, as `mkdirat(2)`: `path` is relative to `dir`, as in [`Fs::unlinkat`].
    ///
    /// # Errors
    /// As [`Fs::mkdir`] and, for the directory, [`Fs::unlinkat`].
    pub fn mkdirat(self, dir: Descriptor, path: &CStr, mode: u32) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Mkdirat);
        self.named(lanes, Call::Mkdirat, mkdir_entry(self.session(), dir, mode), path)
    }

    /// Gives a file one more name, as `link(2)`: a symbolic link is not followed.
    ///
    /// # Errors
    /// The system call's: `EEXIST`, `ENOENT`, `EPERM` for a directory, `EXDEV`, `EMLINK` ….
    pub fn link(self, old: &CStr, new: &CStr) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Link);
        self.linked(lanes, Call::Link, (AT_FDCWD, old), (AT_FDCWD, new), 0)
    }

    /// Gives a file one more name, as `linkat(2)`: each path is relative to its directory, as in [`Fs::unlinkat`]. `flags`: 0, or of
    /// [`AT_SYMLINK_FOLLOW`](super::AT_SYMLINK_FOLLOW) and [`AT_EMPTY_PATH`](super::AT_EMPTY_PATH).
    ///
    /// # Errors
    /// As [`Fs::link`] and, for the directories, [`Fs::unlinkat`].
    pub fn linkat(
        self,
        old_dir: Descriptor,
        old: &CStr,
        new_dir: Descriptor,
        new: &CStr,
        flags: u32,
    ) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Linkat);
        self.linked(lanes, Call::Linkat, (old_dir, old), (new_dir, new), flags)
    }

    /// Makes a symbolic link at `path` whose content is `target`, as `symlink(2)`.
    ///
    /// # Errors
    /// The system call's: `EEXIST`, `ENOENT` also for an empty target, `EACCES`, `ENOSPC` ….
    pub fn symlink(self, target: &CStr, path: &CStr) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Symlink);
        self.symlinked(lanes, Call::Symlink, target, AT_FDCWD, path)
    }

    /// Makes a symbolic link, as `symlinkat(2)`: `path` is relative to `dir`, as in [`Fs::unlinkat`].
    ///
    /// # Errors
    /// As [`Fs::symlink`] and, for the directory, [`Fs::unlinkat`].
    pub fn symlinkat(self, target: &CStr, dir: Descriptor, path: &CStr) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Symlinkat);
        self.symlinked(lanes, Call::Symlinkat, target, dir, path)
    }

    /// A call on one path. Convergent; called by `lanes`.
    fn named(self, lanes: Lanes, call: Call, sqe: Sqe, path: &CStr) -> Result<(), Errno> {
        let session = self.session();
        counted(session, call, on_paths(session, lanes, Some(PathEntry::one(sqe, path))))
    }

    /// Convergent; called by `lanes`.
    fn renamed(
        self,
        lanes: Lanes,
        call: Call,
        (old_dir, old): (Descriptor, &CStr),
        (new_dir, new): (Descriptor, &CStr),
        flags: u32,
    ) -> Result<(), Errno> {
        let session = self.session();
        let sqe = Sqe::renameat(directory(session, old_dir), 0, directory(session, new_dir), 0, flags);
        counted(
            session,
            call,
            on_paths(session, lanes, Some(PathEntry { sqe, first: old, second: Some(new) })),
        )
    }

    /// Convergent; called by `lanes`.
    fn linked(
        self,
        lanes: Lanes,
        call: Call,
        (old_dir, old): (Descriptor, &CStr),
        (new_dir, new): (Descriptor, &CStr),
        flags: u32,
    ) -> Result<(), Errno> {
        let session = self.session();
        let sqe = Sqe::linkat(directory(session, old_dir), 0, directory(session, new_dir), 0, flags);
        counted(
            session,
            call,
            on_paths(session, lanes, Some(PathEntry { sqe, first: old, second: Some(new) })),
        )
    }

    /// Convergent; called by `lanes`.
    fn symlinked(
        self,
        lanes: Lanes,
        call: Call,
        target: &CStr,
        dir: Descriptor,
        path: &CStr,
    ) -> Result<(), Errno> {
        let session = self.session();
        let sqe = Sqe::symlinkat(0, directory(session, dir), 0);
        counted(
            session,
            call,
            on_paths(session, lanes, Some(PathEntry { sqe, first: target, second: Some(path) })),
        )
    }
}

fn unlink_entry(session: &SessionTables, dir: Descriptor, flags: u32) -> Sqe {
    Sqe::unlinkat(directory(session, dir), 0, flags)
}

fn mkdir_entry(session: &SessionTables, dir: Descriptor, mode: u32) -> Sqe {
    Sqe::mkdirat(directory(session, dir), 0, mode)
}

/// The process's descriptor of a directory that paths are relative to. What is not open becomes a number that is no descriptor: the system
/// ignores it beside an absolute path, and answers `EBADF` where it answers so.
pub(crate) fn directory(session: &SessionTables, dir: Descriptor) -> i32 {
    if dir == AT_FDCWD { gpufs_core::abi::AT_FDCWD } else { session.process_descriptor(dir).unwrap_or(-1) }
}

/// One lane's operation on one path, or on two.
#[derive(Clone, Copy)]
struct PathEntry<'a> {
    /// The entry, but for the addresses of the paths.
    sqe: Sqe,
    /// The path whose address is the entry's `addr`.
    first: &'a CStr,
    /// The path whose address is the entry's `off`.
    second: Option<&'a CStr>,
}

impl<'a> PathEntry<'a> {
    fn one(sqe: Sqe, path: &'a CStr) -> Self {
        Self { sqe, first: path, second: None }
    }
    /// Where the second path lies in staging memory, and where it ends; after the first, at the next word that lanes copy.
    fn places(&self) -> (usize, usize) {
        let end = self.first.to_bytes_with_nul().len();
        match self.second {
            Some(second) => {
                let at = end.next_multiple_of(16);
                (at, at + second.to_bytes_with_nul().len())
            }
            None => (end, end),
        }
    }
    fn is_too_long(&self) -> bool {
        [Some(self.first), self.second]
            .into_iter()
            .flatten()
            .any(|path| path.to_bytes_with_nul().len() > PATH_MAX)
    }
}

/// The operations of those lanes that have one, as one batch. Convergent; called by `lanes`; a lane without gets `Ok`.
///
/// Not inlined: all calls of this file share it.
#[inline(never)]
fn on_paths(session: &SessionTables, lanes: Lanes, request: Option<PathEntry>) -> Result<(), Errno> {
    let mut outcome = Ok(());
    let request = request.filter(|request| {
        if request.is_too_long() {
            outcome = Err(Errno::NAMETOOLONG);
        }
        outcome.is_ok()
    });
    let bytes = request.map(|request| request.places().1 as u64);
    staged_whole(session, lanes, bytes, |stage| {
        let mut sqe = None;
        if let (Some(stage), Some(request)) = (stage, request) {
            stage.put(0, request.first.to_bytes_with_nul());
            let mut entry = Sqe { addr: stage.address, ..request.sqe };
            if let Some(second) = request.second {
                #[expect(clippy::cast_possible_truncation, reason = "below PATH_MAX")]
                let at = request.places().0 as u32;
                stage.put(at, second.to_bytes_with_nul());
                entry.off = stage.address + u64::from(at);
            }
            sqe = Some(entry);
        }
        let result = Errno::check(serve(session, lanes, sqe));
        if sqe.is_some() {
            outcome = result.map(drop);
        }
    })?;
    outcome
}
