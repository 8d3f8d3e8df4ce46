//! Calls on paths, and those on descriptors that change what a path's call would.

use core::ffi::CStr;

use gpufs_core::abi::{Sqe, TimeSpec};
use gpufs_core::failures::counted;
use gpufs_core::session::OpenFile;
use gpufs_core::{Call, Errno};

use crate::Fs;
use crate::file::{Descriptor, O_APPEND, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY, PATH_MAX, directory};
use crate::io::{StagingArea, serve, serve_staged};
use crate::warp::Lanes;

/// Of [`Fs::access`]: does it exist?
pub const F_OK: u32 = 0;
/// Of [`Fs::access`]: may it be executed, or a directory be searched?
pub const X_OK: u32 = 1;
/// Of [`Fs::access`]: may it be written?
pub const W_OK: u32 = 2;
/// Of [`Fs::access`]: may it be read?
pub const R_OK: u32 = 4;
/// Of [`Fs::faccessat`]: with the effective user and group, as opening does.
pub const AT_EACCESS: u32 = 0x200;
/// Nanoseconds of a time of [`Fs::utimensat`] that is to be the present.
pub const UTIME_NOW: i64 = (1 << 30) - 1;
/// Nanoseconds of a time of [`Fs::utimensat`] that is to stay.
pub const UTIME_OMIT: i64 = (1 << 30) - 2;

impl Fs {
    /// Where the symbolic link at `path` points to, as
    /// [readlink(2)](https://man7.org/linux/man-pages/man2/readlink.2.html): puts the target into `into`, without a NUL, and returns how many
    /// bytes that are. What does not fit is cut off without an error.
    ///
    /// # Errors
    /// The system call's: `EINVAL` where the path names something else than a symbolic link, or `into` is empty; `ENOENT`, `ENOTDIR`, `EACCES`,
    /// `ELOOP` … `ENAMETOOLONG` for a path of 4,096 bytes or more.
    pub fn readlink(self, path: &CStr, into: &mut [u8]) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Readlink);
        counted(self.session(), Call::Readlink, self.target(lanes, gpufs_core::abi::AT_FDCWD, path, into))
    }

    /// [`Fs::readlink`] of a path relative to `dir`, as in [`Fs::faccessat`], as
    /// [readlinkat(2)](https://man7.org/linux/man-pages/man2/readlinkat.2.html).
    ///
    /// # Errors
    /// As [`Fs::readlink`]; for the directory, as [`Fs::faccessat`].
    pub fn readlinkat(self, dir: Descriptor, path: &CStr, into: &mut [u8]) -> Result<usize, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Readlinkat);
        let dir = directory(self.session(), dir);
        counted(self.session(), Call::Readlinkat, self.target(lanes, dir, path, into))
    }

    /// Where a symbolic link points to. Convergent; called by `lanes`.
    fn target(self, lanes: Lanes, dir: i32, path: &CStr, into: &mut [u8]) -> Result<usize, Errno> {
        // A target is shorter than PATH_MAX.
        let room = into.len().min(PATH_MAX);
        #[expect(clippy::cast_possible_truncation, reason = "at most PATH_MAX")]
        let entry = |path| Sqe::readlink(dir, path, path, room as u32);
        let taken = self.on_path(lanes, path, entry, |area, count| area.take(0, &mut into[..count as usize]));
        taken.map(|count| count as usize)
    }

    /// Cuts or extends the file at `path` to `length` bytes, as [truncate(2)](https://man7.org/linux/man-pages/man2/truncate.2.html).
    ///
    /// # Errors
    /// The system call's: `EINVAL` for a length of 2⁶³ or more, and for what is no file; `EISDIR`, `EACCES`, `ENOENT`, `EROFS`, `EFBIG` …
    pub fn truncate(self, path: &CStr, length: u64) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Truncate);
        self.changed(lanes, Call::Truncate, path, |path| Sqe::truncate(path, length))
    }

    /// Sets the permissions of the file at `path`, as [chmod(2)](https://man7.org/linux/man-pages/man2/chmod.2.html).
    ///
    /// # Errors
    /// The system call's: `EPERM` for another user's file, `ENOENT`, `EACCES`, `EROFS` …
    pub fn chmod(self, path: &CStr, mode: u32) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Chmod);
        self.changed(lanes, Call::Chmod, path, |path| Sqe::chmod(gpufs_core::abi::AT_FDCWD, path, mode, 0))
    }

    /// Sets the permissions of an open file, as [fchmod(2)](https://man7.org/linux/man-pages/man2/fchmod.2.html).
    ///
    /// # Errors
    /// `EBADF`; the system call's: `EPERM`, `EROFS` …
    pub fn fchmod(self, descriptor: Descriptor, mode: u32) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fchmod);
        let file = self.session().process_descriptor(descriptor);
        let entry = file.ok().map(|file| Sqe::fchmod(file, mode));
        let done = Errno::check(serve(self.session(), lanes, entry));
        counted(self.session(), Call::Fchmod, file.and(done.map(drop)))
    }

    /// [`Fs::chmod`] of a path relative to `dir`, as in [`Fs::faccessat`], as
    /// [fchmodat(2)](https://man7.org/linux/man-pages/man2/fchmodat.2.html). `flags`: 0 or `AT_SYMLINK_NOFOLLOW`, since Linux 6.6.
    ///
    /// # Errors
    /// As [`Fs::chmod`]; `EINVAL` for other flags, `EOPNOTSUPP` for a link itself, `ENOSYS` for a flag on an older Linux; for the directory, as
    /// [`Fs::faccessat`].
    pub fn fchmodat(self, dir: Descriptor, path: &CStr, mode: u32, flags: u32) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fchmodat);
        let dir = directory(self.session(), dir);
        self.changed(lanes, Call::Fchmodat, path, |path| Sqe::chmod(dir, path, mode, flags))
    }

    /// How a file is open, as `F_GETFL` of [fcntl(2)](https://man7.org/linux/man-pages/man2/fcntl.2.html): `O_RDONLY`, `O_WRONLY` or `O_RDWR`,
    /// with `O_APPEND` and `O_NONBLOCK`. Other flags are not told.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn getfl(self, descriptor: Descriptor) -> Result<u32, Errno> {
        let inside = self.enter()?;
        let _lanes = Lanes::calling(&inside, Call::Getfl);
        let found = self.session().file_and_flags(descriptor).map(|(_, flags)| {
            let has = |flag: u32| flags & flag != 0;
            let access = match (has(OpenFile::READABLE), has(OpenFile::WRITABLE)) {
                (true, true) => O_RDWR,
                (false, true) => O_WRONLY,
                _ => O_RDONLY,
            };
            let appends = if has(OpenFile::APPEND) { O_APPEND } else { 0 };
            access | appends | if has(OpenFile::NONBLOCK) { O_NONBLOCK } else { 0 }
        });
        counted(self.session(), Call::Getfl, found)
    }

    /// Whether the process may do with the file at `path` what `mode` names: [`F_OK`], or of [`R_OK`], [`W_OK`] and [`X_OK`], as
    /// [access(2)](https://man7.org/linux/man-pages/man2/access.2.html), with the real user and group.
    ///
    /// # Errors
    /// The system call's: `EACCES` or `EROFS` where it may not, `ENOENT`, `ENOTDIR`; `EINVAL` for another mode.
    pub fn access(self, path: &CStr, mode: u32) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Access);
        self.changed(lanes, Call::Access, path, |path| Sqe::access(gpufs_core::abi::AT_FDCWD, path, mode, 0))
    }

    /// [`Fs::access`] of a path relative to the open directory `dir`, or to the working directory with [`AT_FDCWD`](crate::file::AT_FDCWD), as
    /// [faccessat(2)](https://man7.org/linux/man-pages/man2/faccessat.2.html). `flags`: 0, or of [`AT_EACCESS`] and `AT_SYMLINK_NOFOLLOW`.
    ///
    /// # Errors
    /// As [`Fs::access`]; for a relative path `EBADF` where `dir` is not open, `ENOTDIR` where it is no directory.
    pub fn faccessat(self, dir: Descriptor, path: &CStr, mode: u32, flags: u32) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Faccessat);
        let dir = directory(self.session(), dir);
        self.changed(lanes, Call::Faccessat, path, |path| Sqe::access(dir, path, mode, flags))
    }

    /// Sets the times of last access and of last modification of the file at `path`, relative to `dir` as in [`Fs::faccessat`], as
    /// [utimensat(2)](https://man7.org/linux/man-pages/man2/utimensat.2.html). `None`: both are the present. Nanoseconds may be [`UTIME_NOW`] or
    /// [`UTIME_OMIT`]. `flags`: 0 or `AT_SYMLINK_NOFOLLOW`.
    ///
    /// # Errors
    /// The system call's: `EINVAL` for nanoseconds out of range, `EPERM`, `EACCES`, `ENOENT`, `EROFS` …; for the directory, as
    /// [`Fs::faccessat`].
    pub fn utimensat(
        self,
        dir: Descriptor,
        path: &CStr,
        times: Option<[TimeSpec; 2]>,
        flags: u32,
    ) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Utimensat);
        let (dir, [accessed, modified]) = (directory(self.session(), dir), packed(times));
        let entry = |path| Sqe::utimens(dir, path, accessed, modified, flags);
        self.changed(lanes, Call::Utimensat, path, entry)
    }

    /// [`Fs::utimensat`] of an open file, as [futimens(3)](https://man7.org/linux/man-pages/man3/futimens.3.html).
    ///
    /// # Errors
    /// `EBADF`; as [`Fs::utimensat`].
    pub fn futimens(self, descriptor: Descriptor, times: Option<[TimeSpec; 2]>) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Futimens);
        let [accessed, modified] = packed(times);
        let file = self.session().process_descriptor(descriptor);
        let entry = file.ok().map(|file| Sqe::utimens(file, 0, accessed, modified, 0));
        let done = Errno::check(serve(self.session(), lanes, entry));
        counted(self.session(), Call::Futimens, file.and(done.map(drop)))
    }

    /// The process's working directory, as [getcwd(3)](https://man7.org/linux/man-pages/man3/getcwd.3.html), in `into`, with a NUL.
    ///
    /// # Errors
    /// `EINVAL` for an empty `into`, `ERANGE` for one that is too short, `ENOENT` where the directory was removed.
    pub fn getcwd(self, into: &mut [u8]) -> Result<&CStr, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Getcwd);
        let room = into.len().min(PATH_MAX);
        #[expect(clippy::cast_possible_truncation, reason = "at most PATH_MAX")]
        let entry = |area: StagingArea| Sqe::getcwd(area.address, room as u32);
        let wanted = (room > 0).then_some(PATH_MAX as u64);
        let taken = serve_staged(self.session(), lanes, wanted, entry, |area, count| {
            area.take(0, &mut into[..count as usize]);
        });
        let taken = if room > 0 { taken } else { Err(Errno::INVAL) };
        counted(self.session(), Call::Getcwd, taken)?;
        CStr::from_bytes_until_nul(into).map_err(|_| Errno::RANGE)
    }

    /// Changes the working directory of the process, as [chdir(2)](https://man7.org/linux/man-pages/man2/chdir.2.html): that of all lanes, and of
    /// the program on the host. Relative paths of calls that begin after it has returned are resolved there.
    ///
    /// # Errors
    /// The system call's: `ENOENT`, `ENOTDIR`, `EACCES` …; `ENAMETOOLONG`. In a sandbox always `EACCES`: the directory is the host's.
    pub fn chdir(self, path: &CStr) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Chdir);
        self.changed(lanes, Call::Chdir, path, |path| Sqe::chdir(gpufs_core::abi::AT_FDCWD, path))
    }

    /// [`Fs::chdir`] to an open directory, as [fchdir(2)](https://man7.org/linux/man-pages/man2/fchdir.2.html).
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR`; as [`Fs::chdir`].
    pub fn fchdir(self, dir: Descriptor) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fchdir);
        let dir = self.session().process_descriptor(dir);
        let done = Errno::check(serve(self.session(), lanes, dir.ok().map(|dir| Sqe::chdir(dir, 0))));
        counted(self.session(), Call::Fchdir, dir.and(done.map(drop)))
    }

    /// Sets which permissions files are made without, as [umask(2)](https://man7.org/linux/man-pages/man2/umask.2.html): the mask that was. It is
    /// the process's, as the working directory is.
    ///
    /// # Errors
    /// In a sandbox `EACCES`.
    pub fn umask(self, mask: u32) -> Result<u32, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Umask);
        let done = Errno::check(serve(self.session(), lanes, Some(Sqe::umask(mask))));
        counted(self.session(), Call::Umask, done)
    }

    /// A call on a path that has no result but its error. Convergent; called by `lanes`.
    fn changed(self, lanes: Lanes, call: Call, path: &CStr, entry: impl Fn(u64) -> Sqe) -> Result<(), Errno> {
        counted(self.session(), call, self.on_path(lanes, path, entry, |_, _| {}).map(drop))
    }

    /// A service on `path`: `entry` makes it of the path's address, `answer` gets what it left there and its result. Convergent; called by
    /// `lanes`.
    fn on_path(
        self,
        lanes: Lanes,
        path: &CStr,
        entry: impl Fn(u64) -> Sqe,
        answer: impl FnMut(StagingArea, u32),
    ) -> Result<u32, Errno> {
        let path = path.to_bytes_with_nul();
        let fits = path.len() <= PATH_MAX;
        let wanted = fits.then_some(PATH_MAX as u64);
        let staged = |area: StagingArea| {
            area.put(0, path);
            entry(area.address)
        };
        let served = serve_staged(self.session(), lanes, wanted, staged, answer);
        if fits { served } else { Err(Errno::NAMETOOLONG) }
    }
}

/// Two times as an entry has them. Nanoseconds that do not fit are none that the system takes.
fn packed(times: Option<[TimeSpec; 2]>) -> [(i64, u32); 2] {
    let now = TimeSpec { tv_sec: 0, tv_nsec: UTIME_NOW };
    times.unwrap_or([now; 2]).map(|time| (time.tv_sec, u32::try_from(time.tv_nsec).unwrap_or(u32::MAX)))
}
