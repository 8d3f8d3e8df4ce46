//! `open(2)` and `close(2)`.

use core::ffi::CStr;

use gpufs_core::abi::{Sqe, Statx};
use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, SessionTables};
use gpufs_core::{Call, Claim, Errno};

use super::at_once::open_at_once;
use super::listing;
use super::paths::directory;
use super::{
    AT_EMPTY_PATH, AT_FDCWD, Descriptor, O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NONBLOCK, O_RDONLY,
    O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY, PATH_MAX, STATX_BASIC_STATS,
};
use crate::Fs;
use crate::io::{
    Rests, StagingArea, ring_of_warp, serve, slot_hint, staged, transact_open, transact_or_serve,
};
use crate::warp::Lanes;

/// Where the path lies in the staging memory of `statx`, after its result.
const EMPTY_PATH_AT: u32 = 512;

pub(super) const S_IFMT: u16 = 0o170_000;
pub(super) const S_IFIFO: u16 = 0o010_000;
const S_IFCHR: u16 = 0o020_000;
const S_IFBLK: u16 = 0o060_000;
pub(super) const S_IFREG: u16 = 0o100_000;
const S_IFDIR: u16 = 0o040_000;

impl Fs {
    /// Opens `path`, as `open(2)`; `mode` matters with [`super::O_CREAT`], less the process's umask.
    ///
    /// Of a FIFO ([fifo(7)](https://man7.org/linux/man-pages/man7/fifo.7.html)), whoever serves the rings: for writing, waits until somebody has
    /// it open for reading, as `open(2)` does. For reading, returns at once, and the first `read` waits until a writer has come: it returns what
    /// that writes, or 0 if it closes the FIFO without. A wait for either holds an entry of the file table, and nothing that other calls
    /// need. With [`O_NONBLOCK`] nothing waits: `ENXIO` for writing where nobody reads; reads return 0 where nobody writes, else `EAGAIN`.
    ///
    /// # Errors
    /// The system call's; `EMFILE` too where the session's file table is full, `ENAMETOOLONG` for a path of 4,096 bytes or more.
    pub fn open(self, path: &CStr, flags: u32, mode: u32) -> Result<Descriptor, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Open);
        let opened = open_unasked(self, lanes, AT_FDCWD, (path, flags, mode));
        counted(self.session(), Call::Open, opened)
    }

    /// Opens `path`, as `openat(2)`: relative to the directory `dir`, as in [`Fs::unlinkat`]; otherwise as [`Fs::open`].
    ///
    /// # Errors
    /// As [`Fs::open`] and, for the directory, [`Fs::unlinkat`].
    pub fn openat(self, dir: Descriptor, path: &CStr, flags: u32, mode: u32) -> Result<Descriptor, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Openat);
        counted(self.session(), Call::Openat, open_unasked(self, lanes, dir, (path, flags, mode)))
    }

    /// Makes a file, or empties it, and opens it for writing, as `creat(2)`: [`Fs::open`] with [`super::O_CREAT`], [`super::O_WRONLY`] and
    /// [`super::O_TRUNC`].
    ///
    /// # Errors
    /// As [`Fs::open`].
    pub fn creat(self, path: &CStr, mode: u32) -> Result<Descriptor, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Creat);
        let opened = open(self, lanes, Ok((path, O_CREAT | O_WRONLY | O_TRUNC, mode)));
        counted(self.session(), Call::Creat, opened)
    }

    /// Closes a descriptor, as `close(2)`: it is closed whatever is returned. What ends with the last descriptor of a file, as a pipe's end or a
    /// lock of `flock(2)`, may end a moment later: Linux lets a file go after io_uring has completed the close.
    ///
    /// # Errors
    /// `EBADF` for a descriptor that is not open; the system call's.
    pub fn close(self, descriptor: Descriptor) -> Result<(), Errno> {
        let inside = self.enter()?;
        let closed = close(self, Lanes::calling(&inside, Call::Close), Some(descriptor));
        counted(self.session(), Call::Close, closed)
    }
}

/// `open` of every lane that has a path; the error of a lane that has none is handed back. Convergent; called by `lanes`.
pub(crate) fn open(
    fs: Fs,
    lanes: Lanes,
    request: Result<(&CStr, u32, u32), Errno>,
) -> Result<Descriptor, Errno> {
    let claimed = request.and_then(|(path, ..)| claim_entry(fs.session(), path));
    open_entry(fs.session(), lanes, directory(fs.session(), AT_FDCWD), request, claimed)
}

/// [`open`], relative to the directory `dir` of each lane. What the kernel has cached is opened at once, and not asked what it is. Convergent;
/// called by `lanes`.
fn open_unasked(
    fs: Fs,
    lanes: Lanes,
    dir: Descriptor,
    request: (&CStr, u32, u32),
) -> Result<Descriptor, Errno> {
    let session = fs.session();
    let dir = directory(session, dir);
    let (path, flags, _) = request;
    let claimed = claim_entry(session, path);
    let cached = claimed.ok().map(|_| (path, flags));
    let opened = open_at_once(session, lanes, dir, cached, claimed.map_or(0, |index| index.0));
    let done = claimed.ok().zip(opened).map(|(index, opened)| {
        match opened {
            Ok((number, flags)) => enter(session, index, number, flags),
            Err(_) => session.files_free.release(Claim::single(index.0)),
        }
        opened.map(|_| index)
    });
    let rest = if done.is_some() { Err(Errno::AGAIN) } else { Ok(request) };
    if !lanes.any(rest.is_ok()) {
        return done.unwrap_or(claimed);
    }
    let opened = open_entry(session, lanes, dir, rest, rest.and(claimed));
    done.unwrap_or(opened)
}

/// [`open`] of every lane that has an entry of the file table and a path, relative to the directory `dir`: what it names is asked first, where to
/// open it could mean to wait. Where it fails, the entry is free again. Convergent; called by `lanes`.
#[inline(never)]
fn open_entry(
    session: &SessionTables,
    lanes: Lanes,
    dir: i32,
    request: Result<(&CStr, u32, u32), Errno>,
    claimed: Result<Descriptor, Errno>,
) -> Result<Descriptor, Errno> {
    let mut outcome = claimed;
    let mut wanted = match (outcome, request) {
        (Ok(_), Ok((path, ..))) => Some(path.to_bytes_with_nul().len() as u64),
        _ => None,
    };
    let mut rests = Rests::new(session, ring_of_warp(session));
    // Ends: each round opens files or fails, but of FIFOs that nobody reads yet. Between rounds nothing is held that others need.
    loop {
        let mut again = false;
        let has_memory = staged(session, lanes, wanted, |stage| {
            let request = request.ok().filter(|_| stage.is_some());
            let seen = look_at(session, lanes, stage, dir, request);
            let is_fifo = seen.is_some_and(|stat| stat.stx_mode & S_IFMT == S_IFIFO);
            let mut sqe = None;
            if let (Some(stage), Some((path, flags, mode))) = (stage, request) {
                stage.put(0, path.to_bytes_with_nul());
                let more = if is_fifo { O_NONBLOCK } else { 0 };
                sqe = Some(Sqe::openat(dir, stage.address, flags | more, mode));
            }
            let index = outcome.map_or(0, |index| index.0);
            let result = Errno::check(transact_open(session, lanes, sqe, index));
            // What kind of file it is decides about positions and buffering.
            let known = seen
                .or_else(|| request.and_then(|(_, flags, _)| kind_of(flags)))
                .filter(|stat| matches!(stat.stx_mode & S_IFMT, S_IFREG | S_IFDIR | S_IFBLK));
            let mut stat = None;
            if let (Some(stage), Ok(number), None) = (stage, result, known) {
                stat = Some(statx_entry(number.cast_signed(), stage));
            }
            let stat_result = Errno::check(transact_or_serve(session, lanes, stat));
            if let (Some(stage), Ok(index), Some((_, flags, _))) = (stage, outcome, request) {
                match (result, stat_result) {
                    (Ok(number), Ok(_)) => {
                        let stat = known.unwrap_or_else(|| stage.read(0));
                        enter(session, index, number, entry_flags(flags, &stat));
                    }
                    (Ok(number), Err(_)) => {
                        enter(session, index, number, entry_flags(flags, &Statx::default()));
                    }
                    // Nobody reads it yet.
                    (Err(Errno::NXIO), _) if is_fifo => again = true,
                    (Err(errno), _) => {
                        session.files_free.release(Claim::single(index.0));
                        outcome = Err(errno);
                    }
                }
            }
        });
        if !again {
            wanted = None;
        }
        let waited = match has_memory {
            Ok(()) if !lanes.any(again) => return outcome,
            Ok(()) => rests.rest(lanes, u64::from(outcome.map_or(0, |index| index.0))),
            given_up => given_up,
        };
        if let Err(errno) = waited {
            return given_up(session, outcome, again || has_memory.is_err(), errno);
        }
    }
}

/// The outcome of a lane that waits no more: where its file is `unopened`, it gives the entry back, and other lanes of the call keep what they
/// opened. Any lane.
fn given_up(
    session: &SessionTables,
    outcome: Result<Descriptor, Errno>,
    unopened: bool,
    errno: Errno,
) -> Result<Descriptor, Errno> {
    let index = outcome?;
    if !unopened {
        return Ok(index);
    }
    session.files_free.release(Claim::single(index.0));
    Err(errno)
}

/// An entry of the file table for a file that is to be opened. Any lane.
fn claim_entry(session: &SessionTables, path: &CStr) -> Result<Descriptor, Errno> {
    if path.to_bytes_with_nul().len() > PATH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    match session.files_free.claim(1, slot_hint(0)) {
        Some(claim) => Ok(Descriptor(claim.item(0))),
        None => Err(Errno::MFILE),
    }
}

/// What the path of each lane's request names, where to open it could mean to wait; `None` too where it cannot be told. Convergent; called by
/// `lanes`.
fn look_at(
    session: &SessionTables,
    lanes: Lanes,
    stage: Option<StagingArea>,
    dir: i32,
    request: Option<(&CStr, u32, u32)>,
) -> Option<Statx> {
    /// Flags with which no open waits for another party.
    const WAIT_FOR_NOBODY: [u32; 3] = [O_NONBLOCK, O_DIRECTORY, O_CREAT | O_EXCL];
    let mut look = None;
    if let (Some(stage), Some((path, flags, _))) = (stage, request)
        && !WAIT_FOR_NOBODY.into_iter().any(|some| flags & some == some)
    {
        stage.put(0, path.to_bytes_with_nul());
        // The system takes the path in before it writes the result, which may therefore lie at the same place.
        look = Some(Sqe::statx(dir, stage.address, 0, STATX_BASIC_STATS, stage.address));
    }
    let looked = Errno::check(transact_or_serve(session, lanes, look));
    match (stage, look, looked) {
        (Some(stage), Some(_), Ok(_)) => Some(stage.read(0)),
        _ => None,
    }
}

/// What a file is that is opened with these flags, where they say it: a directory, or a regular file that the call makes.
fn kind_of(flags: u32) -> Option<Statx> {
    let is = |all: u32| flags & all == all;
    let stx_mode = if is(O_TMPFILE) || is(O_CREAT | O_EXCL) {
        S_IFREG
    } else if is(O_DIRECTORY) {
        S_IFDIR
    } else {
        return None;
    };
    Some(Statx { stx_mode, ..Statx::default() })
}

/// `close` of every lane that has a descriptor. Convergent; called by `lanes`.
pub(crate) fn close(fs: Fs, lanes: Lanes, descriptor: Option<Descriptor>) -> Result<(), Errno> {
    let session = fs.session();
    // Of a directory, a service ([R-SERVE-9]).
    let (mut sqe, mut service, mut directory) = (None, None, None);
    let mut outcome = Ok(());
    if let Some(descriptor) = descriptor {
        match session.file(descriptor) {
            Ok(file) => match file.take_out() {
                Some(flags) if flags & OpenFile::HOST_OWNED == 0 => {
                    session.journal.note_close(descriptor.0);
                    let number = file.descriptor.peek().cast_signed();
                    if flags & OpenFile::DIRECTORY != 0 {
                        (service, directory) = (Some(Sqe::closedir(number)), Some(descriptor));
                    } else {
                        sqe = Some(Sqe::close(number));
                    }
                }
                // The host closes what it opened; here it only leaves the table.
                Some(_) => session.files_free.release(Claim::single(descriptor.0)),
                None => outcome = Err(Errno::BADF),
            },
            Err(errno) => outcome = Err(errno),
        }
    }
    let mut let_go = Ok(());
    let mut result = 0;
    if lanes.any(directory.is_some()) {
        let_go = listing::let_go(session, lanes, directory);
        result = serve(session, lanes, service);
    }
    if lanes.any(sqe.is_some()) {
        result += transact_or_serve(session, lanes, sqe);
    }
    let result = Errno::check(result);
    if let (Some(_), Some(descriptor)) = (sqe.or(service), descriptor) {
        if let_go.is_ok() {
            session.files_free.release(Claim::single(descriptor.0));
        }
        outcome = let_go.and(result.map(|_| ()));
    }
    outcome
}

/// The size of each lane's file, in bytes. Convergent; called by `lanes`; a lane without a descriptor gets 0.
pub(crate) fn size(session: &SessionTables, lanes: Lanes, descriptor: Option<i32>) -> Result<u64, Errno> {
    let mut outcome = Ok(0);
    staged(session, lanes, descriptor.map(|_| 1024), |stage| {
        let sqe = match (stage, descriptor) {
            (Some(stage), Some(descriptor)) => Some(statx_entry(descriptor, stage)),
            _ => None,
        };
        let result = Errno::check(transact_or_serve(session, lanes, sqe));
        if let Some(stage) = stage {
            outcome = result.map(|_| stage.read::<Statx>(0).stx_size);
        }
    })?;
    outcome
}

/// A `statx` of an open descriptor, its result at the start of the staging memory.
pub(super) fn statx_entry(descriptor: i32, stage: StagingArea) -> Sqe {
    stage.put(EMPTY_PATH_AT, &[0]);
    let path = stage.address + u64::from(EMPTY_PATH_AT);
    Sqe::statx(descriptor, path, AT_EMPTY_PATH, STATX_BASIC_STATS, stage.address)
}

/// The entry's flags, from how the file was opened and what it is.
pub(super) fn entry_flags(flags: u32, stat: &Statx) -> u32 {
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
    if flags & O_NONBLOCK != 0 {
        entry |= OpenFile::NONBLOCK;
    }
    match stat.stx_mode & S_IFMT {
        S_IFIFO => entry |= OpenFile::FIFO,
        S_IFREG | S_IFBLK => entry |= OpenFile::SEEKABLE,
        S_IFDIR => entry |= OpenFile::SEEKABLE | OpenFile::DIRECTORY,
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

/// Fills an entry of the file table that the caller has claimed, with an open descriptor of the process.
pub(crate) fn enter(session: &SessionTables, index: Descriptor, number: u32, flags: u32) {
    let file = &session.files()[index.0 as usize];
    file.descriptor.set(number);
    file.position.set(0);
    // ORDERING: release, device, partner `SessionTables::file`.
    file.flags.publish(flags);
}

/// Enters what an operation made at the entry that was claimed for it; where it failed the entry is free again.
pub(crate) fn entered(
    session: &SessionTables,
    index: Descriptor,
    made: Result<u32, Errno>,
    flags: u32,
) -> Result<Descriptor, Errno> {
    match made {
        Ok(number) => {
            session.journal.note_open(index.0, number);
            enter(session, index, number, flags);
            Ok(index)
        }
        Err(errno) => {
            session.files_free.release(Claim::single(index.0));
            Err(errno)
        }
    }
}

/// Exchanges what two entries have open, each of which one lane alone uses.
pub(crate) fn exchange(session: &SessionTables, first: Descriptor, second: Descriptor) {
    let files = session.files();
    let (one, other) = (&files[first.0 as usize], &files[second.0 as usize]);
    // The rings have a registered file under its old index alone.
    let flags = [one, other].map(|file| file.flags.peek() & !OpenFile::FIXED);
    let numbers = [one, other].map(|file| file.descriptor.peek());
    let seekers = [one, other].map(|file| file.seeker.peek());
    enter(session, first, numbers[1], flags[1]);
    enter(session, second, numbers[0], flags[0]);
    one.listing.exchange(&other.listing);
    one.seeker.set(seekers[1]);
    other.seeker.set(seekers[0]);
    for (descriptor, flags, number) in [(first, flags[1], numbers[1]), (second, flags[0], numbers[0])] {
        if flags & OpenFile::HOST_OWNED == 0 {
            session.journal.note_open(descriptor.0, number);
        } else {
            session.journal.note_close(descriptor.0);
        }
    }
}
