//! What every build has: a folder for what it leaves behind, and the error of a program that does not link.

use std::path::{Path, PathBuf};

/// A folder for what a build leaves behind, which goes with this value.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Result<Self, String> {
        let base = std::env::temp_dir();
        // Ends: at a number that no folder has yet, or at another error.
        for number in 0_u32.. {
            let folder = base.join(format!("gpufs-build-{}-{number}", std::process::id()));
            match std::fs::create_dir(&folder) {
                Ok(()) => return Ok(Self(folder)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("{}: {error}", folder.display())),
            }
        }
        Err(format!("{}: it is full of folders of earlier builds", base.display()))
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What is undefined, and what that means.
pub(super) fn undefined(mut names: Vec<String>) -> String {
    names.sort();
    names.dedup();
    let are = if names.len() == 1 { "is" } else { "are" };
    format!(
        "the program does not link: {} {are} in none of its sources, nor in what gpufs has of the C library for GPUs (docs/c-programs.md lists \
         that). Name the source that defines it, or leave the call out (-DNAME=…)",
        names.join(", ")
    )
}
