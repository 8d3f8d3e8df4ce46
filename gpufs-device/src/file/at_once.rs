//! `open(2)` of what the kernel has cached: three short operations, each done by the thread that polls the ring, instead of a `statx` that Linux
//! hands to a worker, and an `openat` ([R-SERVE-6]).

use core::ffi::CStr;

use gpufs_core::Errno;
use gpufs_core::abi::{OpenHow, RESOLVE_CACHED, Sqe, Statx};
use gpufs_core::session::{OpenFile, SessionTables};

use super::open::{S_IFIFO, S_IFMT, S_IFREG, entry_flags, statx_entry};
use super::{Descriptor, O_CREAT, O_DIRECTORY, O_NONBLOCK, O_TRUNC};
use crate::io::{StagingArea, serve, staged, transact, transact_open};
use crate::warp::Lanes;

/// Where the path lies in staging memory, after how it is opened.
const PATH_AT: u32 = size_of::<OpenHow>() as u32;

/// Bytes of the longest path: with what lies before it, it fits into one buffer of staging memory.
const PATH_BYTES_MAX: usize = 1024;

/// Flags with which the kernel does not look in its caches alone, or with which it is known what is opened.
const NEVER_AT_ONCE: u32 = O_CREAT | O_TRUNC | O_DIRECTORY;

/// Opens for each lane that has a path and flags, for the entry `index` of the file table, what the kernel has cached: the process's descriptor,
/// and the entry's flags. `None` for a lane whose file is to be opened in the ordinary way: it is not cached, or to open it means to wait, or it
/// is for that way to say what is wrong. Convergent; called by `lanes`.
#[inline(never)]
pub(super) fn open_at_once(
    session: &SessionTables,
    lanes: Lanes,
    dir: i32,
    request: Option<(&CStr, u32)>,
    index: u32,
) -> Option<Result<(u32, u32), Errno>> {
    let request = request.filter(|(path, flags)| {
        flags & NEVER_AT_ONCE == 0 && path.to_bytes_with_nul().len() <= PATH_BYTES_MAX
    });
    if session.opens_at_once == 0 || !lanes.any(request.is_some()) {
        return None;
    }
    let mut outcome = None;
    let bytes = request.map(|(path, _)| u64::from(PATH_AT) + path.to_bytes_with_nul().len() as u64);
    // A lane that gives up the wait for memory gives it up in the ordinary way, too.
    let _ = staged(session, lanes, bytes, |stage| {
        let request = request.filter(|_| stage.is_some());
        let mut entry = None;
        if let (Some(stage), Some((path, flags))) = (stage, request) {
            let how = OpenHow { flags: flags.into(), mode: 0, resolve: RESOLVE_CACHED };
            for (at, word) in [(0, how.flags), (8, how.mode), (16, how.resolve)] {
                stage.put(at, &word.to_ne_bytes());
            }
            stage.put(PATH_AT, path.to_bytes_with_nul());
            entry = Some(Sqe::openat2(dir, stage.address + u64::from(PATH_AT), stage.address));
        }
        let opened = Errno::check(transact_open(session, lanes, entry, index));
        let number = opened.ok().filter(|_| entry.is_some());
        let probe = number.map(|number| Sqe::pollable(number.cast_signed()));
        let probed = Errno::check(transact(session, lanes, probe));
        let has_position = probe.is_some() && probed == Err(Errno::PERM);
        let asked = number.filter(|_| !has_position);
        let stat = stat_of(session, lanes, stage, asked);
        let is_fifo = stat.is_some_and(|stat| stat.stx_mode & S_IFMT == S_IFIFO);
        let fifo = asked.filter(|_| is_fifo && request.is_some_and(|(_, flags)| flags & O_NONBLOCK == 0));
        let told = tell_not_to_wait(session, lanes, fifo, index);
        let Some((_, flags)) = request else { return };
        outcome = match (opened, fifo) {
            // It is not cached, it has no reader yet, or the kernel does not know such an open.
            (Err(Errno::AGAIN | Errno::NXIO | Errno::INVAL), _) => None,
            (Err(errno), _) => Some(Err(errno)),
            (Ok(number), Some(_)) => {
                Some(told.map(|()| (number, entry_flags(flags, &stat.unwrap_or_default()))))
            }
            (Ok(number), None) if has_position => {
                let stat = Statx { stx_mode: S_IFREG, ..Statx::default() };
                Some(Ok((number, entry_flags(flags, &stat) | OpenFile::UNASKED)))
            }
            (Ok(number), None) => Some(Ok((number, entry_flags(flags, &stat.unwrap_or_default())))),
        };
    });
    outcome
}

/// What each lane's descriptor names; `None` where it cannot be told. Convergent; called by `lanes`.
fn stat_of(
    session: &SessionTables,
    lanes: Lanes,
    stage: Option<StagingArea>,
    number: Option<u32>,
) -> Option<Statx> {
    if !lanes.any(number.is_some()) {
        return None;
    }
    let entry = number.zip(stage).map(|(number, stage)| statx_entry(number.cast_signed(), stage));
    let told = Errno::check(transact(session, lanes, entry));
    entry.zip(stage).and_then(|(_, stage)| told.ok().map(|_| stage.read(0)))
}

/// Has each lane's FIFO not wait, as one that is opened in the ordinary way does not; where that fails it is closed. It is not opened again: the
/// writer that a first open has let in may be gone by the second, which would wait for another. Convergent; called by `lanes`.
fn tell_not_to_wait(
    session: &SessionTables,
    lanes: Lanes,
    fifo: Option<u32>,
    index: u32,
) -> Result<(), Errno> {
    if !lanes.any(fifo.is_some()) {
        return Ok(());
    }
    let number = fifo.map(u32::cast_signed);
    let entry = number.map(|number| Sqe::add_status_flags(number, O_NONBLOCK));
    let told = Errno::check(serve(session, lanes, entry)).map(|_| ());
    let failed = number.filter(|_| told.is_err());
    if lanes.any(failed.is_some()) {
        if failed.is_some() {
            session.journal.note_close(index);
        }
        let _ = transact(session, lanes, failed.map(Sqe::close));
    }
    told
}

/// Has each lane that names a file know what it is, where that was not asked when it was opened ([`OpenFile::UNASKED`]). Convergent; called by
/// `lanes`.
///
/// # Errors
/// `EIO` where the system does not say what an open file is; of a thread of the host's, that it gave up.
pub(crate) fn ask(
    session: &SessionTables,
    lanes: Lanes,
    descriptor: Option<Descriptor>,
) -> Result<(), Errno> {
    let asked = descriptor.and_then(|descriptor| session.file_and_flags(descriptor).ok());
    let asked = asked.filter(|(_, flags)| flags & OpenFile::UNASKED != 0).map(|(file, _)| file);
    if !lanes.any(asked.is_some()) {
        return Ok(());
    }
    let mut outcome = Ok(());
    staged(session, lanes, asked.map(|_| 1024), |stage| {
        let number = asked.filter(|_| stage.is_some()).map(|file| file.descriptor.peek());
        let stat = stat_of(session, lanes, stage, number);
        if let (Some(file), Some(_)) = (asked, number) {
            match stat {
                Some(stat) => file.answer(entry_flags(0, &stat) & OpenFile::POSITIONLESS != 0),
                None => outcome = Err(Errno::IO),
            }
        }
    })?;
    outcome
}
