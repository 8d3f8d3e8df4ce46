//! Files that a measurement makes and takes away.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::Failure;

/// A directory of its own, removed with what it holds.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(parent: &Path) -> Result<Self, Failure> {
        let path = parent.join(format!("gpufs-bench-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("--dir: {}: {error}", path.display()))?;
        Ok(Self(path))
    }
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    /// A file of so many bytes, all written, so that they are in the page cache.
    pub(crate) fn filled(&self, name: &str, bytes: u64) -> Result<PathBuf, Failure> {
        let path = self.path(name);
        let mut file = File::create(&path)?;
        let piece = vec![b'f'; 1 << 20];
        let mut left = bytes;
        // Ends: each round writes bytes.
        while left > 0 {
            let count = left.min(piece.len() as u64);
            file.write_all(&piece[..usize::try_from(count)?])?;
            left -= count;
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

/// A file system in memory, where there is one.
pub(crate) fn in_memory() -> Option<&'static Path> {
    let path = Path::new("/dev/shm");
    path.is_dir().then_some(path)
}
