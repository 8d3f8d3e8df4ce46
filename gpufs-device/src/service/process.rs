//! Processes: `popen(3)`, `pclose(3)`, and the environment.

use core::ffi::CStr;

use gpufs_core::abi::Sqe;
use gpufs_core::failures::counted;
use gpufs_core::session::OpenFile;
use gpufs_core::{Call, Claim, Errno};

use super::serve_until_done;
use crate::file::{self, PATH_MAX};
use crate::io::{StagingArea, serve, serve_staged};
use crate::stdio::{claim_with_file, stream_on};
use crate::warp::Lanes;
use crate::{File, Fs};

impl Fs {
    /// Starts `command` in a shell of the host, as [popen(3)](https://man7.org/linux/man-pages/man3/popen.3.html): a stream that reads what it
    /// writes (`"r"`), or that writes what it reads (`"w"`). An `e` in `mode` changes nothing. [`Fs::pclose`] closes it.
    ///
    /// # Errors
    /// `EINVAL` for another mode, `E2BIG` for a command of 4,096 bytes or more, `EMFILE` where the session has no file or stream left, or the
    /// process no descriptor; `EAGAIN`, `ENOMEM` where the system has no process.
    pub fn popen(self, command: &CStr, mode: &CStr) -> Result<File, Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Popen);
        let command = command.to_bytes_with_nul();
        let writes = match mode.to_bytes() {
            b"r" | b"re" => Ok(false),
            b"w" | b"we" => Ok(true),
            _ => Err(Errno::INVAL),
        };
        let fits = if command.len() <= PATH_MAX { Ok(()) } else { Err(Errno::TOOBIG) };
        let claimed = writes.and_then(|writes| fits.and_then(|()| Ok((claim_with_file(session)?, writes))));
        let entry = |area: StagingArea| {
            area.put(0, command);
            Sqe::popen(area.address, writes == Ok(true))
        };
        let wanted = claimed.is_ok().then_some(PATH_MAX as u64);
        let started = serve_staged(session, lanes, wanted, entry, |_, _| {});
        let opened = claimed.and_then(|((file, stream), writes)| match started {
            Ok(number) => {
                let flags = if writes { OpenFile::WRITABLE } else { OpenFile::READABLE };
                session.journal.note_open(file.0, number);
                file::enter(session, file, number, OpenFile::OPEN | flags);
                Ok(stream_on(session, stream, file, 0))
            }
            Err(errno) => {
                session.files_free.release(Claim::single(file.0));
                session.streams_free.release(Claim::single(stream));
                Err(errno)
            }
        });
        counted(session, Call::Popen, opened)
    }

    /// Closes a stream of [`Fs::popen`] and waits for its process, as [pclose(3)](https://man7.org/linux/man-pages/man3/pclose.3.html): how that
    /// ended, as [waitpid(2)](https://man7.org/linux/man-pages/man2/waitpid.2.html) gives it (`status >> 8 & 255` is the code of its `exit`). The
    /// stream is closed whatever is returned, but for the errors `EBADF` and `ECHILD`. One lane closes it, once.
    ///
    /// # Errors
    /// `EBADF` for a stream that is closed; `ECHILD` for one that is not of `popen`. What could not be written is lost with the process.
    pub fn pclose(self, stream: File) -> Result<i32, Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Pclose);
        let number = stream.file_number();
        let entry = number.ok().map(Sqe::child_of);
        let child = number.and(Errno::check(serve(session, lanes, entry)));
        let closing = lanes.ballot(child.is_ok());
        let child = match child {
            Ok(child) => child,
            Err(errno) => return counted(session, Call::Pclose, Err(errno)),
        };
        let lanes = lanes.subset(closing);
        // What the process did not read is no error of its end.
        let _ = stream.close(lanes);
        let status = serve_until_done(session, lanes, Some(Sqe::wait_for(child)), true);
        counted(session, Call::Pclose, status.map(u32::cast_signed))
    }

    /// The value of an environment variable of the process, as [getenv(3)](https://man7.org/linux/man-pages/man3/getenv.3.html), in `into`, with a
    /// NUL; what does not fit is cut off. Returns the length of the whole value, without the NUL, as `snprintf` does.
    ///
    /// # Errors
    /// `ENOENT` where there is no such variable; `ENAMETOOLONG` for a name of 4,096 bytes or more.
    pub fn getenv(self, name: &CStr, into: &mut [u8]) -> Result<usize, Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let mut lanes = Lanes::calling(&inside, Call::Getenv);
        let name = name.to_bytes_with_nul();
        let room = into.len().saturating_sub(1);
        let mut done = 0;
        let mut whole = Ok(0);
        let mut more = name.len() <= PATH_MAX;
        if !more {
            whole = Err(Errno::NAMETOOLONG);
        }
        // Ends: each round takes bytes of the value, as there is room and some are left, or is the last.
        loop {
            let asking = lanes.ballot(more);
            if !more {
                break;
            }
            lanes = lanes.subset(asking);
            let part = (room - done).min(PATH_MAX);
            #[expect(clippy::cast_possible_truncation, reason = "at most PATH_MAX")]
            let entry = |area: StagingArea| {
                area.put(0, name);
                Sqe::getenv(area.address, done as u64, part as u32)
            };
            let mut taken = 0;
            whole = serve_staged(session, lanes, Some(PATH_MAX as u64), entry, |area, length| {
                taken = part.min((length as usize).saturating_sub(done));
                area.take(0, &mut into[done..done + taken]);
            });
            done += taken;
            more = done < room && whole.is_ok_and(|length| done < length as usize);
        }
        if whole.is_ok()
            && let Some(end) = into.get_mut(done)
        {
            *end = 0;
        }
        counted(session, Call::Getenv, whole.map(|length| length as usize))
    }
}
