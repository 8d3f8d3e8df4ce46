//! What a path or a descriptor names: `stat(2)`, `lstat(2)`, `fstat(2)`, `fstatat(2)`, `statx(2)`. All are the one operation `statx`, whose
//! result the system writes over the path in staging memory. The service ring has it ([R-SERVE-6]).

use core::ffi::CStr;

use gpufs_core::abi::Sqe;
pub use gpufs_core::abi::{Stat, Statx, StatxTimestamp, TimeSpec};
use gpufs_core::failures::counted;
use gpufs_core::session::SessionTables;
use gpufs_core::{Call, Errno};

use super::paths::directory;
use super::{
    AT_EMPTY_PATH, AT_FDCWD, AT_NO_AUTOMOUNT, AT_SYMLINK_NOFOLLOW, Descriptor, PATH_MAX, STATX_BASIC_STATS,
};
use crate::Fs;
use crate::io::{serve, staged};
use crate::warp::Lanes;

impl Fs {
    /// What `path` names, as `stat(2)`: symbolic links are followed.
    ///
    /// # Errors
    /// The system call's: `ENOENT`, `ENOTDIR`, `EACCES`, `ELOOP` …; `ENAMETOOLONG` for a path of 4,096 bytes or more.
    pub fn stat(self, path: &CStr) -> Result<Stat, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Stat);
        self.stat_of(lanes, Call::Stat, Ok((AT_FDCWD, path, AT_NO_AUTOMOUNT)))
    }

    /// What `path` names, as `lstat(2)`: of a symbolic link, the link itself.
    ///
    /// # Errors
    /// As [`Fs::stat`].
    pub fn lstat(self, path: &CStr) -> Result<Stat, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Lstat);
        self.stat_of(lanes, Call::Lstat, Ok((AT_FDCWD, path, AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW)))
    }

    /// What a descriptor names, as `fstat(2)`.
    ///
    /// # Errors
    /// `EBADF` for a descriptor that is not open; the system call's.
    pub fn fstat(self, descriptor: Descriptor) -> Result<Stat, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fstat);
        let open = self.session().file(descriptor);
        self.stat_of(lanes, Call::Fstat, open.map(|_| (descriptor, c"", AT_EMPTY_PATH)))
    }

    /// What `path` names, as `fstatat(2)`: relative to the directory `dir`, as in [`Fs::unlinkat`]. `flags` of
    /// [`AT_SYMLINK_NOFOLLOW`], [`AT_EMPTY_PATH`] and
    /// [`AT_NO_AUTOMOUNT`].
    ///
    /// # Errors
    /// As [`Fs::stat`] and, for the directory, [`Fs::unlinkat`]; `EINVAL` for other flags.
    pub fn fstatat(self, dir: Descriptor, path: &CStr, flags: u32) -> Result<Stat, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fstatat);
        self.stat_of(lanes, Call::Fstatat, Ok((dir, path, flags | AT_NO_AUTOMOUNT)))
    }

    /// What `path` names, as `statx(2)`: the members that `mask` asks for (`STATX_…`), if the file system has them; `stx_mask` says which it
    /// gave. `dir` and `flags` as in [`Fs::fstatat`].
    ///
    /// # Errors
    /// As [`Fs::fstatat`]; `EINVAL` for a reserved bit of `mask`.
    pub fn statx(self, dir: Descriptor, path: &CStr, flags: u32, mask: u32) -> Result<Statx, Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Statx);
        let mut statx = Statx::default();
        let outcome = look(session, lanes, Ok((dir, path, flags)), mask, Into::Statx(&mut statx));
        counted(session, Call::Statx, outcome.map(|()| statx))
    }

    /// Convergent; called by `lanes`.
    fn stat_of(
        self,
        lanes: Lanes,
        call: Call,
        request: Result<(Descriptor, &CStr, u32), Errno>,
    ) -> Result<Stat, Errno> {
        let session = self.session();
        let mut stat = Stat::default();
        let outcome = look(session, lanes, request, STATX_BASIC_STATS, Into::Stat(&mut stat));
        counted(session, call, outcome.map(|()| stat))
    }
}

/// Where a lane wants the result.
enum Into<'a> {
    Stat(&'a mut Stat),
    Statx(&'a mut Statx),
}

/// The `statx` of those lanes that have a directory, a path and flags, as one batch; the error of a lane that has none is handed back.
/// Convergent; called by `lanes`.
///
/// Not inlined: all calls of this file share it.
#[inline(never)]
fn look(
    session: &SessionTables,
    lanes: Lanes,
    request: Result<(Descriptor, &CStr, u32), Errno>,
    mask: u32,
    mut into: Into,
) -> Result<(), Errno> {
    let mut outcome = request.and_then(|(_, path, _)| {
        if path.to_bytes_with_nul().len() > PATH_MAX { Err(Errno::NAMETOOLONG) } else { Ok(()) }
    });
    let request = if outcome.is_ok() { request.ok() } else { None };
    // A path takes one staging buffer, and so does the result.
    let bytes = request.map(|_| size_of::<Statx>() as u64);
    staged(session, lanes, bytes, |stage| {
        let mut sqe = None;
        if let (Some(stage), Some((dir, path, flags))) = (stage, request) {
            stage.put(0, path.to_bytes_with_nul());
            // The system takes the path in before it writes the result, which may therefore lie at the same place.
            sqe = Some(Sqe::statx(directory(session, dir), stage.address, flags, mask, stage.address));
        }
        let result = Errno::check(serve(session, lanes, sqe));
        if let (Some(stage), Some(_)) = (stage, sqe) {
            outcome = result.map(|_| match &mut into {
                Into::Stat(stat) => **stat = Stat::from(&stage.read::<Statx>(0)),
                Into::Statx(statx) => **statx = stage.read(0),
            });
        }
    })?;
    outcome
}
