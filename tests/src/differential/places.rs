//! The files that both sides work on: a directory for each side, with the same things in it.

use std::ffi::CString;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::{fs, io};

use gpufs_test_kernels::{HASH_START, hash};

use crate::random::text;

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file, or nothing that can be opened.
    File,
    /// A directory.
    Directory,
    /// A device that takes and gives any number of bytes.
    Device,
    /// The device that is always full.
    Full,
}

/// Names to open, some more often than others.
pub const NAMES: &[(&str, Kind)] = &[
    ("a", Kind::File),
    ("a", Kind::File),
    ("a", Kind::File),
    ("a", Kind::File),
    ("a", Kind::File),
    ("a", Kind::File),
    ("a", Kind::File),
    ("a", Kind::File),
    ("b", Kind::File),
    ("b", Kind::File),
    ("b", Kind::File),
    ("empty", Kind::File),
    ("link", Kind::File),
    ("dangling", Kind::File),
    ("loop", Kind::File),
    ("locked", Kind::File),
    ("a/below", Kind::File),
    ("missing/b", Kind::File),
    (LONG, Kind::File),
    (VERY_LONG, Kind::File),
    ("", Kind::Directory),
    ("directory", Kind::Directory),
    ("/dev/null", Kind::Device),
    ("/dev/zero", Kind::Device),
    ("/dev/full", Kind::Full),
];

/// Stands for a name longer than `NAME_MAX`.
pub const LONG: &str = "(long)";
/// Stands for a path longer than `PATH_MAX`.
pub const VERY_LONG: &str = "(very long)";

/// One side's directory.
#[derive(Clone, Debug)]
pub struct Place {
    base: PathBuf,
}

impl Place {
    /// Makes the directory and what stays in it.
    ///
    /// # Panics
    /// If the system refuses.
    #[must_use]
    pub fn new(base: PathBuf) -> Self {
        fs::create_dir_all(base.join("directory")).expect("a directory");
        symlink("a", base.join("link")).expect("a link");
        symlink("target", base.join("dangling")).expect("a link");
        symlink("loop", base.join("loop")).expect("a link");
        fs::write(base.join("locked"), "locked").expect("a file");
        fs::set_permissions(base.join("locked"), fs::Permissions::from_mode(0o000)).expect("permissions");
        Self { base }
    }

    /// Puts the files back: `a` with `content` bytes, `empty`, and no other.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn reset(&self, salt: u64, content: usize) {
        for name in ["b", "target"] {
            match fs::remove_file(self.base.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => panic!("{name}: {error}"),
                _ => {}
            }
        }
        fs::write(self.base.join("a"), text(salt, content)).expect("a file");
        fs::write(self.base.join("empty"), "").expect("a file");
        // Root may have opened it.
        let locked = self.base.join("locked");
        if fs::metadata(&locked).expect("a file").len() != 6 {
            fs::remove_file(&locked).expect("removed");
            fs::write(&locked, "locked").expect("a file");
            fs::set_permissions(locked, fs::Permissions::from_mode(0o000)).expect("permissions");
        }
    }

    /// The path of a name.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        match name {
            LONG => self.base.join("n".repeat(256)),
            VERY_LONG => self.base.join("./".repeat(2048)).join("a"),
            "" => PathBuf::new(),
            name => self.base.join(name),
        }
    }

    /// The path of a name, for a call.
    ///
    /// # Panics
    /// Never: no path here holds a NUL.
    #[must_use]
    pub fn c_path(&self, name: &str) -> CString {
        CString::new(self.path(name).into_os_string().into_encoded_bytes()).expect("no NUL")
    }
}

/// A regular file's length and a hash of its content.
#[must_use]
pub fn content(path: &Path) -> Option<(usize, u64)> {
    let bytes = fs::read(path).ok()?;
    Some((bytes.len(), hash(HASH_START, &bytes)))
}

/// A directory for a test's files, in memory where the system has such a place. Removed in the end.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new one.
    ///
    /// # Panics
    /// If the system refuses.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = parent.join(format!("gpufs-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
