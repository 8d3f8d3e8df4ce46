//! `open(2)` and `close(2)`.

use core::ffi::CStr;

use gpufs_core::abi::{Sqe, Statx};
use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, Session};
use gpufs_core::{Call, Claim, Errno};

use super::{Descriptor, O_APPEND, O_RDONLY, O_RDWR, O_WRONLY, PATH_MAX};
use crate::Fs;
use crate::io::{StagingArea, slot_hint, staged, transact, transact_open};
use crate::warp::Lanes;

/// Paths are relative to the process's working directory.
const AT_FDCWD: i32 = -100;
const AT_EMPTY_PATH: u32 = 0x1000;
const STATX_BASIC_STATS: u32 = 0x7ff;
/// Where the path lies in the staging memory of `statx`, behind its result.
const EMPTY_PATH_AT: u32 = 512;

const S_IFMT: u16 = 0o170_000;
const S_IFCHR: u16 = 0o020_000;
const S_IFBLK: u16 = 0o060_000;
const S_IFREG: u16 = 0o100_000;
const S_IFDIR: u16 = 0o040_000;

impl Fs {
    /// Opens `path`, as `open(2)`; `mode` matters with [`super::O_CREAT`], less the process's umask.
    ///
    /// # Errors
    /// The system call's; `EMFILE` too where the session's file table is full, `ENAMETOOLONG` for a path of 4,096 bytes or more.
    pub fn open(self, path: &CStr, flags: u32, mode: u32) -> Result<Descriptor, Errno> {
        let opened = open(self, Lanes::calling(self.session(), Call::Open), Ok((path, flags, mode)));
        counted(self.session(), Call::Open, opened)
    }

    /// Closes a descriptor, as `close(2)`: it is closed whatever is returned.
    ///
    /// # Errors
    /// `EBADF` for a descriptor that is not open; the system call's.
    pub fn close(self, descriptor: Descriptor) -> Result<(), Errno> {
        let closed = close(self, Lanes::calling(self.session(), Call::Close), Some(descriptor));
        counted(self.session(), Call::Close, closed)
    }
}

/// `open` of every lane that has a path; the error of a lane that has none is handed back. Convergent; called by `lanes`.
pub(crate) fn open(
    fs: Fs,
    lanes: Lanes,
    request: Result<(&CStr, u32, u32), Errno>,
) -> Result<Descriptor, Errno> {
    let session = fs.session();
    let mut outcome = match request {
        Ok((path, ..)) if path.to_bytes_with_nul().len() > PATH_MAX => Err(Errno::NAMETOOLONG),
        Ok(_) => match session.files_free.claim(1, slot_hint(0)) {
            Some(claim) => Ok(Descriptor(claim.item(0))),
            None => Err(Errno::MFILE),
        },
        Err(errno) => Err(errno),
    };
    let wanted = match (outcome, request) {
        (Ok(_), Ok((path, ..))) => Some(path.to_bytes_with_nul().len() as u64),
        _ => None,
    };
    let waited = staged(session, lanes, wanted, |stage| {
        let mut sqe = None;
        if let (Some(stage), Ok((path, flags, mode))) = (stage, request) {
            stage.put(0, path.to_bytes_with_nul());
            sqe = Some(Sqe::openat(AT_FDCWD, stage.address, flags, mode));
        }
        let index = outcome.map_or(0, |index| index.0);
        let result = Errno::check(transact_open(session, lanes, sqe, index));
        // What kind of file it is decides about positions and buffering.
        let mut stat = None;
        if let (Some(stage), Ok(number)) = (stage, result) {
            stat = Some(statx_entry(number.cast_signed(), stage));
        }
        let stat_result = Errno::check(transact(session, lanes, stat));
        if let (Some(stage), Ok(index), Ok((_, flags, _))) = (stage, outcome, request) {
            match (result, stat_result) {
                (Ok(number), Ok(_)) => {
                    let stat: Statx = stage.read(0);
                    fill_entry(session, index, number, entry_flags(flags, &stat));
                }
                (Ok(number), Err(_)) => {
                    fill_entry(session, index, number, entry_flags(flags, &Statx::default()));
                }
                (Err(errno), _) => {
                    session.files_free.release(Claim::single(index.0));
                    outcome = Err(errno);
                }
            }
        }
    });
    if let (Err(errno), Ok(index)) = (waited, outcome) {
        session.files_free.release(Claim::single(index.0));
        return Err(errno);
    }
    outcome
}

/// `close` of every lane that has a descriptor. Convergent; called by `lanes`.
pub(crate) fn close(fs: Fs, lanes: Lanes, descriptor: Option<Descriptor>) -> Result<(), Errno> {
    let session = fs.session();
    let mut sqe = None;
    let mut outcome = Ok(());
    if let Some(descriptor) = descriptor {
        match session.file(descriptor) {
            // ORDERING: acquire and release, device: one of several that close at once goes on.
            Ok(file) => {
                let flags = file.flags.peek();
                if flags & OpenFile::OPEN != 0 && file.flags.replace(flags, 0).is_ok() {
                    if flags & OpenFile::HOST_OWNED == 0 {
                        session.journal.note_close(descriptor.0);
                        sqe = Some(Sqe::close(file.descriptor.peek().cast_signed()));
                    } else {
                        // The host closes what it opened; here it only leaves the table.
                        session.files_free.release(Claim::single(descriptor.0));
                    }
                } else {
                    outcome = Err(Errno::BADF);
                }
            }
            Err(errno) => outcome = Err(errno),
        }
    }
    let result = Errno::check(transact(session, lanes, sqe));
    if let (Some(_), Some(descriptor)) = (sqe, descriptor) {
        session.files_free.release(Claim::single(descriptor.0));
        outcome = result.map(|_| ());
    }
    outcome
}

/// The size of each lane's file, in bytes. Convergent; called by `lanes`; a lane without a descriptor gets 0.
pub(crate) fn size(session: &Session, lanes: Lanes, descriptor: Option<i32>) -> Result<u64, Errno> {
    let mut outcome = Ok(0);
    staged(session, lanes, descriptor.map(|_| 1024), |stage| {
        let sqe = match (stage, descriptor) {
            (Some(stage), Some(descriptor)) => Some(statx_entry(descriptor, stage)),
            _ => None,
        };
        let result = Errno::check(transact(session, lanes, sqe));
        if let Some(stage) = stage {
            outcome = result.map(|_| stage.read::<Statx>(0).stx_size);
        }
    })?;
    outcome
}

/// A `statx` of an open descriptor, its result at the start of the staging memory.
fn statx_entry(descriptor: i32, stage: StagingArea) -> Sqe {
    stage.put(EMPTY_PATH_AT, &[0]);
    let path = stage.address + u64::from(EMPTY_PATH_AT);
    Sqe::statx(descriptor, path, AT_EMPTY_PATH, STATX_BASIC_STATS, stage.address)
}

/// The entry's flags, from how the file was opened and what it is.
fn entry_flags(flags: u32, stat: &Statx) -> u32 {
    let mut entry = OpenFile::OPEN;
    entry |= match flags & 3 {
        O_RDONLY => OpenFile::READABLE,
        O_WRONLY => OpenFile::WRITABLE,
        O_RDWR => OpenFile::READABLE | OpenFile::WRITABLE,
        _ => 0,
    };
    if flags & O_APPEND != 0 {
        entry |= OpenFile::APPEND;
    }
    match stat.stx_mode & S_IFMT {
        S_IFREG | S_IFBLK | S_IFDIR => entry |= OpenFile::SEEKABLE,
        S_IFCHR => match (stat.stx_rdev_major, stat.stx_rdev_minor) {
            // /dev/null, /dev/zero, /dev/full, /dev/random, /dev/urandom (null_lseek, noop_llseek)
            (1, 3 | 5 | 7 | 8 | 9) => entry |= OpenFile::POSITIONLESS,
            // /dev/ttyN, /dev/tty, /dev/pts/N
            (4 | 5 | 136..=143, _) => entry |= OpenFile::TERMINAL,
            _ => {}
        },
        _ => {}
    }
    entry
}

fn fill_entry(session: &Session, index: Descriptor, number: u32, flags: u32) {
    let file = &session.files()[index.0 as usize];
    file.descriptor.set(number);
    file.position.set(0);
    // ORDERING: release, device, partner `Session::file`.
    file.flags.publish(flags);
}
