//! `open(2)` of what the kernel has cached: three short operations, each done by the thread that polls the ring, instead of a `statx` that Linux
//! hands to a worker, and an `openat` ([R-SERVE-6]).

use core::ffi::CStr;

use gpufs_core::Errno;
use gpufs_core::abi::{AT_FDCWD, OpenHow, RESOLVE_CACHED, Sqe, Statx};
use gpufs_core::session::{OpenFile, SessionTables};

use super::open::{S_IFIFO, S_IFMT, S_IFREG, entry_flags, statx_entry};
use super::{Descriptor, O_CREAT, O_DIRECTORY, O_NONBLOCK, O_TRUNC};
use crate::io::{StagingArea, staged, transact, transact_open};
use crate::warp::Lanes;

/// Where the path lies in staging memory, after how it is opened.
const PATH_AT: u32 = size_of::<OpenHow>() as u32;

/// Bytes of the longest path: with what lies before it, it fits into one buffer of staging memory.
const PATH_BYTES_MAX: usize = 1024;

/// Room for the name of an open file, with its NUL.
pub(crate) const NAME_BYTES: usize = 32;

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
        let opened_again = open_again(session, lanes, stage, (fifo, request), index);
        let Some((_, flags)) = request else { return };
        outcome = match (opened, fifo) {
            // It is not cached, it has no reader yet, or the kernel does not know such an open.
            (Err(Errno::AGAIN | Errno::NXIO | Errno::INVAL), _) => None,
            (Err(errno), _) => Some(Err(errno)),
            (Ok(_), Some(_)) => {
                opened_again.ok().zip(stat).map(|(number, stat)| Ok((number, entry_flags(flags, &stat))))
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

/// Opens each lane's FIFO once more, so that its descriptor does not wait, and then closes the first: meanwhile the FIFO stays open. Convergent;
/// called by `lanes`.
fn open_again(
    session: &SessionTables,
    lanes: Lanes,
    stage: Option<StagingArea>,
    (fifo, request): (Option<u32>, Option<(&CStr, u32)>),
    index: u32,
) -> Result<u32, Errno> {
    if !lanes.any(fifo.is_some()) {
        return Err(Errno::BADF);
    }
    let mut entry = None;
    if let (Some(number), Some(stage), Some((_, flags))) = (fifo, stage, request) {
        let mut name = [0; NAME_BYTES];
        stage.put(0, name_of(number.cast_signed(), &mut name).to_bytes_with_nul());
        entry = Some(Sqe::openat(AT_FDCWD, stage.address, flags | O_NONBLOCK, 0));
    }
    let opened = Errno::check(transact_open(session, lanes, entry, index));
    let closed = transact(session, lanes, fifo.map(|number| Sqe::close(number.cast_signed())));
    // The one that stays is open, whatever the other's close says.
    let _ = closed;
    opened
}

/// Has each lane that names a file know what it is, where that was not asked when it was opened ([`OpenFile::UNASKED`]): the system's error where
/// it does not say. Convergent; called by `lanes`.
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

/// The path under which the process's open file of that number can be opened again (`proc(5)`).
pub(crate) fn name_of(descriptor: i32, into: &mut [u8; NAME_BYTES]) -> &CStr {
    const FOLDER: &[u8] = b"/proc/self/fd/";
    into[..FOLDER.len()].copy_from_slice(FOLDER);
    let mut digits = [0; 10];
    let (mut rest, mut first) = (descriptor.cast_unsigned(), digits.len());
    // Ends: a number has at most ten digits.
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let count = digits.len() - first;
    into[FOLDER.len()..FOLDER.len() + count].copy_from_slice(&digits[first..]);
    CStr::from_bytes_until_nul(into).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_have_names() {
        for (number, name) in [(0, c"/proc/self/fd/0"), (407, c"/proc/self/fd/407")] {
            assert_eq!(name_of(number, &mut [0; NAME_BYTES]), name);
        }
        assert_eq!(name_of(i32::MAX, &mut [0; NAME_BYTES]), c"/proc/self/fd/2147483647");
    }
}
