//! Files that a measurement makes and takes away.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use gpufs_bench_kernels::pending::stamp;

use crate::failure::Failure;

/// Bytes of a page.
const PAGE: usize = 4096;

/// A directory of its own, removed with what it holds.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// One in `parent`, for what `purpose` names: two with the same would go together.
    pub(crate) fn new(parent: &Path, purpose: &str) -> Result<Self, Failure> {
        let path = parent.join(format!("gpufs-bench-{}-{purpose}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("--dir: {}: {error}", path.display()))?;
        Ok(Self(path))
    }
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    /// A file of so many bytes, all written, so that they are in the page cache.
    pub(crate) fn filled(&self, name: &str, bytes: u64) -> Result<PathBuf, Failure> {
        self.written(name, bytes, |_, _| ())
    }
    /// The same, with a [`stamp`] at the beginning of each page.
    pub(crate) fn stamped(&self, name: &str, bytes: u64) -> Result<PathBuf, Failure> {
        self.written(name, bytes, |from, piece| {
            for (number, page) in (0..).zip(piece.chunks_exact_mut(PAGE)) {
                page[..8].copy_from_slice(&stamp(from + number * PAGE as u64).to_le_bytes());
            }
        })
    }
    fn written(&self, name: &str, bytes: u64, mark: impl Fn(u64, &mut [u8])) -> Result<PathBuf, Failure> {
        let path = self.path(name);
        let mut file = File::create(&path)?;
        let mut piece = vec![b'f'; 1 << 20];
        let mut done = 0;
        // Ends: each round writes bytes.
        while done < bytes {
            let count = (bytes - done).min(piece.len() as u64);
            mark(done, &mut piece);
            file.write_all(&piece[..usize::try_from(count)?])?;
            done += count;
        }
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Opens a file for reading and writing.
pub(crate) fn both_ways(path: &Path) -> Result<File, Failure> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.map_err(|error| format!("{}: {error}", path.display()).into())
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Through the page cache.
    Cached,
    /// Past it (`O_DIRECT` of `open(2)`).
    Direct,
}

impl Access {
    /// Bytes that a request is a multiple of, at least.
    pub(crate) fn granule(self) -> u64 {
        if self == Self::Direct { 4096 } else { 1 }
    }
    /// Opens a file for reading and writing.
    pub(crate) fn open(self, path: &Path) -> Result<File, Failure> {
        if self == Self::Cached {
            return both_ways(path);
        }
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path);
        file.map_err(|error| format!("{}, with O_DIRECT: {error}", path.display()).into())
    }
    /// Why `file`, of a page at least, cannot be used like this on its file system, if so.
    pub(crate) fn refusal(self, path: &Path) -> Option<String> {
        let mut memory = vec![0; 2 * 4096];
        let skip = memory.as_ptr().align_offset(4096);
        let read = self.open(path).map_err(|error| error.to_string()).and_then(|file| {
            file.read_exact_at(&mut memory[skip..skip + 4096], 0).map_err(|error| error.to_string())
        });
        read.err().map(|error| format!("the file system refuses it: {error}"))
    }
}

/// What file system a directory is on, if it is a well-known one (`statfs(2)`).
#[expect(unsafe_code, reason = "statfs")]
pub(crate) fn kind(directory: &Path) -> Option<&'static str> {
    let path = std::ffi::CString::new(directory.as_os_str().as_encoded_bytes()).ok()?;
    // SAFETY:
    // - plain numbers, for which zero is valid
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY:
    // - a NUL-terminated string, and room for the answer
    if unsafe { libc::statfs(path.as_ptr(), &raw mut found) } != 0 {
        return None;
    }
    match found.f_type {
        libc::EXT4_SUPER_MAGIC => Some("ext4"),
        libc::XFS_SUPER_MAGIC => Some("xfs"),
        libc::BTRFS_SUPER_MAGIC => Some("btrfs"),
        libc::TMPFS_MAGIC => Some("tmpfs (--dir)"),
        libc::OVERLAYFS_SUPER_MAGIC => Some("overlayfs"),
        _ => None,
    }
}

/// A file system in memory, where there is one.
pub(crate) fn in_memory() -> Option<&'static Path> {
    let path = Path::new("/dev/shm");
    path.is_dir().then_some(path)
}
