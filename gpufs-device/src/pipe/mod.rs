//! Pipes, and counters that are descriptors: `pipe`, `pipe2`, `eventfd`; `splice` and `tee`, which pass bytes on.
//!
//! What these make are [`Descriptor`]s, valid in every kernel and warp of the session. `read`, `write`, `poll`, `dup`, `close` and `fdopen` take
//! them as they take a file, and a stream on a pipe prints with `fprintf` and reads lines with `fgets`. A lane that waits for another, by a read of
//! a pipe that is empty or of a count of 0, waits as for a socket's peer ([`socket`](crate::socket)): by itself, holding nothing that others need.
//!
//! The host makes them, by the service ring. In a sandbox, too: they reach nothing but the session's own kernels.
//!
//! What differs from the system's calls:
//!
//! | call | difference |
//! |---|---|
//! | all | what is made closes on `execve(2)` (`O_CLOEXEC`, `EFD_CLOEXEC`). `O_NONBLOCK` and `EFD_NONBLOCK` are known to the session alone |
//! | `pipe2` | `EINVAL` for `O_DIRECT` (packets) and `O_NOTIFICATION_PIPE` |
//! | `write` to a pipe that nobody reads | `EPIPE`, and no signal |
//! | `splice` | `EINVAL` for a socket or a terminal, which could have a thread of the host's wait. A file without an offset has the session's position |
//! | `write` of more than 8 bytes to an `eventfd` | adds each 8 of them in turn; the system's takes the first 8 |

mod splice;

pub use gpufs_core::abi::{SPLICE_F_MORE, SPLICE_F_MOVE, SPLICE_F_NONBLOCK};

use gpufs_core::abi::Sqe;
use gpufs_core::failures::counted;
use gpufs_core::session::{OpenFile, SessionTables};
use gpufs_core::{Call, Errno};

use crate::Fs;
use crate::file::{Descriptor, O_CLOEXEC, O_NONBLOCK, claim, claim_two, entered};
use crate::io::serve;
use crate::warp::Lanes;

/// Of [`Fs::eventfd`]: each read takes 1 of the count.
pub const EFD_SEMAPHORE: u32 = 1;
/// Of [`Fs::eventfd`]: its calls do not wait.
pub const EFD_NONBLOCK: u32 = 0o4000;
/// Of [`Fs::eventfd`]: it closes on `execve(2)`, as each does.
pub const EFD_CLOEXEC: u32 = 0o2_000_000;

impl Fs {
    /// Makes a pipe, as [pipe(2)](https://man7.org/linux/man-pages/man2/pipe.2.html): the end that is read, and the end that is written. Each is
    /// closed by itself; reads return 0 once all that is written has been read and no end for writing is open.
    ///
    /// # Errors
    /// `EMFILE` where the session's file table has no two entries left, or the process no two descriptors; the system call's: `ENFILE`.
    pub fn pipe(self) -> Result<[Descriptor; 2], Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Pipe);
        counted(self.session(), Call::Pipe, make_pipe(self.session(), lanes, 0))
    }

    /// [`Fs::pipe`] with flags, as [pipe2(2)](https://man7.org/linux/man-pages/man2/pipe.2.html): with [`O_NONBLOCK`], calls on either end do not
    /// wait.
    ///
    /// # Errors
    /// As [`Fs::pipe`]; `EINVAL` for a flag other than [`O_NONBLOCK`] and [`O_CLOEXEC`].
    pub fn pipe2(self, flags: u32) -> Result<[Descriptor; 2], Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Pipe2);
        counted(self.session(), Call::Pipe2, make_pipe(self.session(), lanes, flags))
    }

    /// Makes a counter of 64 bits, as [eventfd(2)](https://man7.org/linux/man-pages/man2/eventfd.2.html), which begins at `initial`. A write of 8
    /// bytes adds the number that they are; a read of 8 bytes waits until the count is not 0, then takes all of it, or 1 with [`EFD_SEMAPHORE`].
    ///
    /// # Errors
    /// `EMFILE` as [`Fs::pipe`]; `EINVAL` for a flag other than [`EFD_SEMAPHORE`], [`EFD_NONBLOCK`] and [`EFD_CLOEXEC`]. Of reads and writes on it:
    /// `EINVAL` for fewer than 8 bytes, and for writing `u64::MAX`.
    pub fn eventfd(self, initial: u32, flags: u32) -> Result<Descriptor, Errno> {
        let session = self.session();
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Eventfd);
        let known = flags & !(EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC) == 0;
        let claimed = if known { claim(session) } else { Err(Errno::INVAL) };
        let entry = claimed.ok().map(|_| Sqe::eventfd(initial, flags & EFD_SEMAPHORE != 0));
        let made = Errno::check(serve(session, lanes, entry));
        let access = OpenFile::READABLE | OpenFile::WRITABLE;
        let entry_flags = entry_flags(access, flags & EFD_NONBLOCK != 0);
        counted(session, Call::Eventfd, claimed.and_then(|index| entered(session, index, made, entry_flags)))
    }
}

/// Convergent; called by `lanes`.
#[inline(never)]
fn make_pipe(session: &SessionTables, lanes: Lanes, flags: u32) -> Result<[Descriptor; 2], Errno> {
    let known = flags & !(O_NONBLOCK | O_CLOEXEC) == 0;
    let claimed = if known { claim_two(session) } else { Err(Errno::INVAL) };
    let entry = claimed.ok().map(|_| Sqe::pipe());
    let first = Errno::check(serve(session, lanes, entry));
    let other = entry.and(first.ok()).map(|first| Sqe::other_end(first.cast_signed()));
    let second = Errno::check(serve(session, lanes, other));
    let [from, to] = claimed?;
    let nonblock = flags & O_NONBLOCK != 0;
    let second = first.and(second);
    let from = entered(session, from, first, entry_flags(OpenFile::READABLE, nonblock));
    let to = entered(session, to, second, entry_flags(OpenFile::WRITABLE, nonblock));
    Ok([from?, to?])
}

/// The flags of an entry of the file table.
const fn entry_flags(access: u32, nonblock: bool) -> u32 {
    OpenFile::OPEN | access | if nonblock { OpenFile::NONBLOCK } else { 0 }
}
