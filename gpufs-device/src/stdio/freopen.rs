//! `freopen(3)`.

use core::ffi::CStr;

use gpufs_core::failures::counted;
use gpufs_core::stream::Direction;
use gpufs_core::{Call, Claim, Errno};

use super::File;
use super::fopen::{MODE, begins_at_end, buffering_of, open_flags};
use super::lock::{LockedStream, with_lock};
use crate::file::{self, Descriptor};
use crate::warp::Lanes;

/// Room for the name of an open file, with its NUL.
const NAME_BYTES: usize = 32;

impl File {
    /// Closes what the stream is on and opens `path` in its place, as `freopen(3)`: the stream, its handle and its descriptor's number stay. With
    /// no path, opens the same file again in another mode. A lane that keeps the stream ([`File::flockfile`]) still does.
    /// Errors of flushing and closing do not count. One lane calls it, once; others
    /// that use the stream at that time use the old file or the new one.
    ///
    /// # Errors
    /// As [`crate::Fs::fopen`]: the stream is then closed. `EBUSY` for a stream that [`crate::Fs::fopen_shared`] opened, which stays open; `EBADF`
    /// if it is closed. `EMFILE` where the session's file table has no entry more: the new file needs one before the old one is closed.
    pub fn freopen(self, path: Option<&CStr>, mode: &CStr) -> Result<Self, Errno> {
        let session = self.session;
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Freopen);
        let flags = open_flags(mode.to_bytes());
        let reopened = lanes.grouped(u64::from(lanes.lane()), |alone| {
            with_lock(self, alone, |held| {
                if held.stream.shared.peek() != 0 {
                    return Err(Errno::BUSY);
                }
                Ok(held.reopen(self, path, flags))
            })
        });
        let reopened = reopened.and_then(|failed| {
            if let Some(Failed { errno, closed }) = failed {
                if closed {
                    session.streams_free.release(Claim::single(self.index));
                }
                return Err(errno);
            }
            Ok(self)
        });
        counted(session, Call::Freopen, reopened)
    }
}

/// Why a stream was not opened again, and whether it is closed now.
struct Failed {
    errno: Errno,
    closed: bool,
}

impl LockedStream {
    /// [`File::freopen`]: what failed. One lane alone.
    fn reopen(&self, file: File, path: Option<&CStr>, flags: Result<u32, Errno>) -> Option<Failed> {
        let session = self.session;
        let old = Descriptor(self.stream.file.peek());
        if let Err(errno) = self.flush().and_then(|()| self.leave_reading()) {
            // The system still has the stream's buffers where a thread of the host's gave up.
            let kept = if self.gave_up(errno) { Some(errno) } else { self.take_back().err() };
            if let Some(errno) = kept {
                return Some(Failed { errno, closed: false });
            }
        }
        self.update(|stream| {
            stream.direction.set(Direction::Idle as u32);
            stream.give_back(session);
        });
        let mut name = [0; NAME_BYTES];
        let path = path.unwrap_or_else(|| name_of(self.descriptor(), &mut name));
        let opened = file::open(file.fs(), self.lanes, flags.map(|flags| (path, flags, MODE)));
        match (opened, flags) {
            (Ok(new), Ok(flags)) => {
                file::exchange(session, old, new);
                let closed = file::close(file.fs(), self.lanes, Some(new));
                // The old file's last error is lost with it (C11 7.21.5.4).
                let _ = closed;
                let number = begins_at_end(flags).then(|| self.descriptor());
                let end = file::size(session, self.lanes, number).unwrap_or(0);
                let file_flags = self.file_flags();
                self.update(|stream| {
                    // Who keeps the stream keeps it.
                    let (holder, holds) = (stream.holder.peek(), stream.holds.peek());
                    stream.begin(session, old.0, file_flags, buffering_of(file_flags));
                    stream.holder.set(holder);
                    stream.holds.set(holds);
                    stream.position.set(end);
                });
                None
            }
            (opened, flags) => {
                // ORDERING: acquire and release, device, partner `with_lock`'s look at the generation.
                self.update(|stream| _ = stream.generation.fetch_add(1));
                let _ = file::close(file.fs(), self.lanes, Some(old));
                Some(Failed { errno: flags.err().or(opened.err()).unwrap_or(Errno::BADF), closed: true })
            }
        }
    }
}

/// The path under which the process's open file of that number can be opened again (`proc(5)`).
fn name_of(descriptor: i32, into: &mut [u8; NAME_BYTES]) -> &CStr {
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
