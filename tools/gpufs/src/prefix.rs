//! The folder that holds headers, libraries and device code: what `cargo xtask dist` makes.

use std::path::{Path, PathBuf};

/// An installed gpufs.
#[derive(Debug)]
pub(crate) struct Prefix(PathBuf);

impl Prefix {
    /// `GPUFS_PREFIX`, or the folder in whose `bin` this program lies.
    pub(crate) fn find() -> Result<Self, String> {
        let here =
            std::env::current_exe().ok().and_then(|program| Some(program.parent()?.parent()?.to_owned()));
        let named = std::env::var_os("GPUFS_PREFIX").filter(|named| !named.is_empty()).map(PathBuf::from);
        let is_named = named.is_some();
        let prefix = named.or(here).unwrap_or_default();
        if prefix.join("share/gpufs/libc/start.c").exists() {
            return std::path::absolute(prefix).map(Self).map_err(|error| error.to_string());
        }
        let which = if is_named { "GPUFS_PREFIX" } else { "the folder that this program lies in" };
        Err(format!(
            "{which}, {}, has no share/gpufs/libc: 'cargo xtask dist DIR' makes a folder with all that building needs; run DIR/bin/gpufs, \
             or set GPUFS_PREFIX to DIR",
            prefix.display()
        ))
    }

    /// A folder or file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file that a kind of device needs.
    pub(crate) fn part(&self, name: &str, chosen: &str) -> Result<PathBuf, String> {
        let path = self.path(name);
        if path.exists() {
            return Ok(path);
        }
        let folder = self.0.display();
        Err(format!("{} is not there: 'cargo xtask dist {folder} {chosen}' makes it", path.display()))
    }

    /// The C library's sources.
    pub(crate) fn libc(&self) -> PathBuf {
        self.path("share/gpufs/libc")
    }

    /// The folders with headers for a GPU, in the order in which the compiler searches them: the streams and files of gpufs in C's names,
    /// the C library's other headers, and gpufs's own.
    pub(crate) fn headers(&self) -> [PathBuf; 3] {
        ["include/gpufs/drop_in", "include/gpufs/libc", "include"].map(|name| self.path(name))
    }
}

/// A folder for what is built once and used again.
pub(crate) fn cache() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").filter(|named| Path::new(named).is_absolute());
    let base =
        named.map(PathBuf::from).or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let folder = base?.join("gpufs");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder)
}
