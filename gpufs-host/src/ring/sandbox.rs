//! What kernels of a session may do where the host names it: [`Sandbox`].

use std::path::PathBuf;

use super::sockets::Sockets;

/// What may be done below a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rights(u8);

impl Rights {
    pub(super) const NONE: Self = Self(0);
    /// Opening for reading, listing, asking for properties.
    pub(super) const READ: Self = Self(1);
    /// [`Rights::READ`], and changing the content of files.
    pub(super) const WRITE: Self = Self(3);
    /// [`Rights::WRITE`], and changing which entries there are.
    pub(super) const CREATE: Self = Self(7);

    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What kernels of a session may do: what is named here, and nothing else. What they may not do fails with `EACCES` in the lane that asked.
///
/// A new sandbox allows the files and buffers that the host registers or opens streams on (`Session::register_file`, `Session::fdopen`), and
/// files in memory. Each method allows more. A tree is a directory with all that is below it; a symbolic link, a `..` or an absolute path that
/// leads out of it is refused.
///
/// `SECURITY.md` says what holds each refusal, and what a sandbox does not hold against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a sandbox does something once a builder has it: Builder::sandbox"]
pub struct Sandbox {
    pub(super) trees: Vec<(PathBuf, Rights)>,
    pub(super) standard_streams: bool,
    pub(super) services: Vec<String>,
    pub(super) sockets: Sockets,
    pub(super) may_be_weaker: bool,
}

impl Sandbox {
    /// Only what the host registers, or opens streams on.
    pub fn new() -> Self {
        Self::default()
    }
    /// Also opening what is below `tree` for reading, listing directories there, and asking for properties (`stat`, `access`, `readlink`).
    pub fn read_only(self, tree: impl Into<PathBuf>) -> Self {
        self.tree(tree.into(), Rights::READ)
    }
    /// [`Sandbox::read_only`]; also writing and truncating files that exist, and setting their times.
    pub fn read_write(self, tree: impl Into<PathBuf>) -> Self {
        self.tree(tree.into(), Rights::WRITE)
    }
    /// [`Sandbox::read_write`]; also making, renaming, linking and removing files and directories, and setting their permissions. A file that
    /// runs with the rights of its owner or group (`S_ISUID`, `S_ISGID`) cannot be made.
    pub fn read_write_create(self, tree: impl Into<PathBuf>) -> Self {
        self.tree(tree.into(), Rights::CREATE)
    }
    /// Also the standard streams of the process. Otherwise they are as closed ones: `EBADF`.
    pub fn standard_streams(mut self) -> Self {
        self.standard_streams = true;
        self
    }
    /// Also calling the function of the program with this name (`Builder::service`). It runs outside of the sandbox, and must not trust its request.
    pub fn service(mut self, name: &str) -> Self {
        self.services.push(name.into());
        self
    }
    /// Also these sockets. Otherwise kernels make none, and a socket that the host registered is read, written and polled alone.
    pub fn sockets(mut self, sockets: Sockets) -> Self {
        self.sockets = sockets;
        self
    }
    /// Where this Linux lacks a part of what holds a sandbox: opens the session without that part, and says so on standard error. Otherwise
    /// such a session is not opened.
    pub fn as_far_as_possible(mut self) -> Self {
        self.may_be_weaker = true;
        self
    }

    fn tree(mut self, tree: PathBuf, rights: Rights) -> Self {
        self.trees.push((tree, rights));
        self
    }
}
