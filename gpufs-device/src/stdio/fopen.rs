//! `fopen(3)`.

use core::ffi::CStr;

use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, SessionTables};
use gpufs_core::stream::Buffering;
use gpufs_core::{Call, Claim, Errno};

use super::File;
use crate::Fs;
use crate::file::{
    self, Descriptor, O_APPEND, O_CLOEXEC, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY,
};
use crate::io::slot_hint;
use crate::warp::Lanes;

/// Read and write for all, less the process's umask (`fopen(3)`).
pub(super) const MODE: u32 = 0o666;
/// Where files without a name are made: `P_tmpdir`.
const TEMPORARY: &CStr = c"/tmp";

impl Fs {
    /// Opens a stream, as `fopen(3)`. `mode` is `"r"`, `"w"` or `"a"`, then any of `+` (read and write), `x` (fail if the file
    /// exists), `e` (close on exec). Other letters have no effect, as in glibc: `b`, `t`, `c`, `m`; nor has what follows a comma (`,ccs=UTF-8`).
    ///
    /// # Errors
    /// `EINVAL` for a mode that begins otherwise; `EMFILE` if the session has no stream or file entry left (set by the session's builder); the system
    /// call's: `ENOENT`, `EACCES`, `EEXIST`, `EISDIR` …
    pub fn fopen(self, path: &CStr, mode: &CStr) -> Result<File, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Fopen);
        let request = open_flags(mode.to_bytes()).map(|flags| (path, flags));
        counted(self.session(), Call::Fopen, open_stream(self, lanes, request, false))
    }

    /// Opens a stream for reading and writing on a new file in `/tmp` that has no name and goes with its last close, as `tmpfile(3)`
    /// ([`O_TMPFILE`]). Each lane gets a file of its own.
    ///
    /// # Errors
    /// As [`Fs::fopen`]; `EOPNOTSUPP` where the file system of `/tmp` has no such files.
    pub fn tmpfile(self) -> Result<File, Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Tmpfile);
        let request = Ok((TEMPORARY, O_RDWR | O_TMPFILE | O_EXCL | O_CLOEXEC));
        counted(self.session(), Call::Tmpfile, open_stream(self, lanes, request, false))
    }
}

/// A stream for every lane that has a path and flags, which begins at the end of the file if `goes_on`; the error of a lane that has none is handed
/// back. Convergent; called by `lanes`.
pub(super) fn open_stream(
    fs: Fs,
    lanes: Lanes,
    request: Result<(&CStr, u32), Errno>,
    goes_on: bool,
) -> Result<File, Errno> {
    let session = fs.session();
    let claimed = request.and_then(|(path, flags)| Ok((claim(session)?, path, flags)));
    let opened = file::open(fs, lanes, claimed.map(|(_, path, flags)| (path, flags, MODE)));
    // A stream that only appends stands at the end from the start.
    let at_end = matches!(request, Ok((_, flags)) if goes_on || begins_at_end(flags));
    let appending = match opened {
        Ok(descriptor) if at_end => {
            Some(session.files()[descriptor.0 as usize].descriptor.peek().cast_signed())
        }
        _ => None,
    };
    let end = file::size(session, lanes, appending);
    // From here on each lane is on its own.
    let (index, ..) = claimed?;
    let descriptor = match opened {
        Ok(descriptor) => descriptor,
        Err(errno) => {
            session.streams_free.release(Claim::single(index));
            return Err(errno);
        }
    };
    Ok(stream_on(session, index, descriptor, end.unwrap_or(0)))
}

/// Whether a stream with these flags stands at the end from the start.
pub(super) const fn begins_at_end(flags: u32) -> bool {
    flags & O_APPEND != 0 && flags & 3 == O_WRONLY
}

/// The system call's flags for a mode (C11 7.21.5.3, and glibc's letters).
pub(super) fn open_flags(mode: &[u8]) -> Result<u32, Errno> {
    let mut flags = match mode.first() {
        Some(b'r') => O_RDONLY,
        Some(b'w') => O_WRONLY | O_CREAT | O_TRUNC,
        Some(b'a') => O_WRONLY | O_CREAT | O_APPEND,
        _ => return Err(Errno::INVAL),
    };
    for letter in &mode[1..] {
        match letter {
            b'+' => flags = flags & !3 | O_RDWR,
            b'x' => flags |= O_EXCL,
            b'e' => flags |= O_CLOEXEC,
            // What follows names a character set, which no stream here converts to.
            b',' => break,
            // `b`, `t`, glibc's `c` and `m`, and whatever else there is.
            _ => {}
        }
    }
    Ok(flags)
}

/// A stream entry, which has a buffer of its own. Which of the free ones is left to chance, so that it takes long until one has had so many
/// streams that the handles of C come again (`handle`).
pub(super) fn claim(session: &SessionTables) -> Result<u32, Errno> {
    // ORDERING: relaxed: a number that differs from opening to opening.
    let operations = session.queues()[0].counters().operations.peek();
    #[allow(clippy::cast_possible_truncation, reason = "the upper half of the product")]
    let chance = ((operations + u64::from(slot_hint(0))).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
    session.streams_free.claim_one(chance).map(|entry| entry.item(0)).ok_or(Errno::MFILE)
}

/// An entry of the file table and one of the stream table. Any lane.
pub(crate) fn claim_with_file(session: &SessionTables) -> Result<(Descriptor, u32), Errno> {
    let file = session.files_free.claim(1, slot_hint(0)).ok_or(Errno::MFILE)?.item(0);
    match claim(session) {
        Ok(stream) => Ok((Descriptor(file), stream)),
        Err(errno) => {
            session.files_free.release(Claim::single(file));
            Err(errno)
        }
    }
}

/// A stream on an open file, at `position`, with an entry that [`claim`] gave.
pub(crate) fn stream_on(
    session: &'static SessionTables,
    index: u32,
    descriptor: Descriptor,
    position: u64,
) -> File {
    let stream = &session.streams()[index as usize];
    let file_flags = session.files()[descriptor.0 as usize].flags.peek();
    stream.set_up(session, descriptor.0, file_flags, buffering_of(file_flags));
    stream.position.set(position);
    File { session, index, generation: stream.generation.peek() }
}

/// How a new stream on a file with these flags is buffered.
pub(super) const fn buffering_of(file_flags: u32) -> Buffering {
    if file_flags & OpenFile::TERMINAL != 0 { Buffering::Line } else { Buffering::Full }
}
