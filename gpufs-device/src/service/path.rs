//! Calls on paths. A relative path begins at the process's working directory at the time of the call.

use core::ffi::CStr;

use gpufs_core::abi::{AT_FDCWD, Sqe};
use gpufs_core::failures::counted;
use gpufs_core::{Call, Errno};

use crate::Fs;
use crate::file::PATH_MAX;
use crate::io::{StagingArea, serve_staged};
use crate::warp::Lanes;

impl Fs {
    /// Where the symbolic link at `path` points to, as
    /// [readlink(2)](https://man7.org/linux/man-pages/man2/readlink.2.html): puts the target into `into`, without a NUL, and returns how many
    /// bytes that are. What does not fit is cut off without an error.
    ///
    /// # Errors
    /// The system call's: `EINVAL` where the path names something else than a symbolic link, or `into` is empty; `ENOENT`, `ENOTDIR`, `EACCES`,
    /// `ELOOP` … `ENAMETOOLONG` for a path of 4,096 bytes or more.
    pub fn readlink(self, path: &CStr, into: &mut [u8]) -> Result<usize, Errno> {
        let lanes = Lanes::calling(self.session(), Call::Readlink);
        // A target is shorter than PATH_MAX.
        let room = into.len().min(PATH_MAX);
        #[expect(clippy::cast_possible_truncation, reason = "at most PATH_MAX")]
        let entry = |path| Sqe::readlink(AT_FDCWD, path, path, room as u32);
        let taken = self.on_path(lanes, path, entry, |area, count| area.take(0, &mut into[..count as usize]));
        counted(self.session(), Call::Readlink, taken.map(|count| count as usize))
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
