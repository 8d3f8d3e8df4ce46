//! Calls on paths and descriptors, one in each thread, so that lanes of a warp make different ones at once: for what they refuse.

use core::ffi::CStr;

use gpufs_device::file::{Descriptor, Stat};
use gpufs_device::service::{Directory, Dirent, F_WRLCK, LockCommand, RecordLock};
use gpufs_device::warp::global_thread;
use gpufs_device::{Errno, Fs, kernel};

/// One call, and below its result.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Attempt {
    /// What to call.
    pub what: What,
    /// A descriptor.
    pub descriptor: u32,
    /// The address of a path, of the old one where there are two, of a template.
    pub path: u64,
    /// The address of the new path, of a symbolic link's target, of a mode.
    pub other: u64,
    /// A length, and how many bytes a path's memory has.
    pub number: u64,
    /// Flags, a mode, an operation.
    pub choice: u32,
    /// The errno of a call that failed, else 0.
    pub errno: i32,
    /// What was returned; −1 for errors.
    pub value: i64,
}

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs, reason = "named as in C")]
pub enum What {
    Stat,
    Lstat,
    Unlink,
    Rmdir,
    Remove,
    Mkdir,
    Creat,
    Rename,
    Link,
    /// To `path`; the target is `other`.
    Symlink,
    /// Into `number` bytes.
    Readlink,
    Truncate,
    Chmod,
    Access,
    Utimensat,
    Opendir,
    Mkstemp,
    Getcwd,
    Fstat,
    Fchmod,
    Futimens,
    Fallocate,
    PosixFadvise,
    SyncFileRange,
    Flock,
    /// `F_SETLK` of a lock for writing.
    Fcntl,
    Readdir,
    Rewinddir,
    Closedir,
    Fdopen,
}

impl What {
    /// Those that take a path.
    pub const ON_PATHS: [Self; 16] = [
        Self::Stat,
        Self::Lstat,
        Self::Unlink,
        Self::Rmdir,
        Self::Remove,
        Self::Mkdir,
        Self::Creat,
        Self::Rename,
        Self::Link,
        Self::Symlink,
        Self::Readlink,
        Self::Truncate,
        Self::Chmod,
        Self::Access,
        Self::Utimensat,
        Self::Opendir,
    ];
    /// Those that take a descriptor.
    pub const ON_DESCRIPTORS: [Self; 12] = [
        Self::Fstat,
        Self::Fchmod,
        Self::Futimens,
        Self::Fallocate,
        Self::PosixFadvise,
        Self::SyncFileRange,
        Self::Flock,
        Self::Fcntl,
        Self::Readdir,
        Self::Rewinddir,
        Self::Closedir,
        Self::Fdopen,
    ];
}

kernel! {
    /// Thread `i` of the first `count` makes the [`Attempt`] number `i` of those at `attempts`.
    pub fn attempt(fs: Fs, attempts: u64, count: u64) {
        let thread = global_thread();
        if thread < count {
            let place = (attempts as *mut Attempt).wrapping_add(thread as usize);
            // SAFETY:
            // - the host wrote it, and this thread alone uses it
            let mine = unsafe { &mut *place };
            let outcome = if What::ON_DESCRIPTORS.contains(&mine.what) {
                on_descriptor(fs, mine)
            } else {
                on_path(fs, mine)
            };
            (mine.value, mine.errno) = match outcome {
                Ok(value) => (value, 0),
                Err(errno) => (-1, errno.number()),
            };
        }
    }
}

fn string<'a>(address: u64) -> &'a CStr {
    // SAFETY:
    // - the host put a string there
    unsafe { CStr::from_ptr(address as *const _) }
}

#[inline(never)]
fn on_path(fs: Fs, mine: &Attempt) -> Result<i64, Errno> {
    let path = if mine.path == 0 { c"" } else { string(mine.path) };
    let other = if mine.other == 0 { c"" } else { string(mine.other) };
    let mut room = [0; 64];
    let room = &mut room[..(mine.number as usize).min(64)];
    match mine.what {
        What::Stat => fs.stat(path).map(|_| 0),
        What::Lstat => fs.lstat(path).map(|_| 0),
        What::Unlink => fs.unlink(path).map(|()| 0),
        What::Rmdir => fs.rmdir(path).map(|()| 0),
        What::Remove => fs.remove(path).map(|()| 0),
        What::Mkdir => fs.mkdir(path, 0o777).map(|()| 0),
        What::Creat => fs.creat(path, 0o666).and_then(|made| fs.close(made)).map(|()| 0),
        What::Rename => fs.rename(path, other).map(|()| 0),
        What::Link => fs.link(path, other).map(|()| 0),
        What::Symlink => fs.symlink(other, path).map(|()| 0),
        What::Readlink => fs.readlink(path, room).map(|count| count as i64),
        What::Truncate => fs.truncate(path, mine.number).map(|()| 0),
        What::Chmod => fs.chmod(path, mine.choice).map(|()| 0),
        What::Access => fs.access(path, mine.choice).map(|()| 0),
        What::Utimensat => fs.utimensat(gpufs_device::file::AT_FDCWD, path, None, 0).map(|()| 0),
        What::Opendir => fs.opendir(path).and_then(|made| fs.closedir(made)).map(|()| 0),
        What::Getcwd => fs.getcwd(room).map(|path| path.count_bytes() as i64),
        _ => {
            // SAFETY:
            // - the host put as many bytes there, for this thread
            let template =
                unsafe { core::slice::from_raw_parts_mut(mine.path as *mut u8, mine.number as usize) };
            fs.mkstemp(template).and_then(|made| fs.close(made)).map(|()| 0)
        }
    }
}

#[inline(never)]
fn on_descriptor(fs: Fs, mine: &Attempt) -> Result<i64, Errno> {
    let descriptor = Descriptor(mine.descriptor);
    match mine.what {
        What::Fstat => fs.fstat(descriptor).map(|Stat { st_size, .. }| st_size),
        What::Fchmod => fs.fchmod(descriptor, 0o644).map(|()| 0),
        What::Futimens => fs.futimens(descriptor, None).map(|()| 0),
        What::Fallocate => fs.fallocate(descriptor, 0, 0, mine.number).map(|()| 0),
        What::PosixFadvise => fs.posix_fadvise(descriptor, 0, 0, mine.choice).map(|()| 0),
        What::SyncFileRange => fs.sync_file_range(descriptor, 0, mine.number, mine.choice).map(|()| 0),
        What::Flock => fs.flock(descriptor, mine.choice).map(|()| 0),
        What::Fcntl => {
            let mut lock = RecordLock { l_type: F_WRLCK, ..RecordLock::default() };
            fs.fcntl(descriptor, LockCommand::Set, &mut lock).map(|()| 0)
        }
        What::Readdir => {
            let mut entry = Dirent::default();
            fs.readdir(Directory(descriptor), &mut entry).map(i64::from)
        }
        What::Rewinddir => fs.rewinddir(Directory(descriptor)).map(|()| 0),
        What::Closedir => fs.closedir(Directory(descriptor)).map(|()| 0),
        _ => {
            let mode = if mine.other == 0 { c"r" } else { string(mine.other) };
            fs.fdopen(descriptor, mode).and_then(|stream| stream.fclose()).map(|()| 0)
        }
    }
}
