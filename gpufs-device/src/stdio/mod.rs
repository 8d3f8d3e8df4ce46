//! Streams: C11 7.21 on a `FILE` that the whole grid shares.
//!
//! One call's bytes are never torn or interleaved with another's; a thread's calls appear in its program order; where a call starts
//! after another returned, its bytes come later. Lanes that call together are served in lane order.
//!
//! What differs from a CPU's stdio:
//!
//! | call | difference |
//! |---|---|
//! | writing, fully buffered | a full buffer is written behind the caller's back: its error is reported by the next call on the stream that meets it (`fwrite`, `fflush`, `fclose` …), and the bytes are kept and tried again |
//! | writing to a seekable file not in append mode | buffers go out at once, each at its own offset: another reader of the growing file may see a later one first (open with `"a"` for a log that is followed) |
//! | `ungetc` | up to 8 bytes |
//! | `fopen` | letters of the mode that mean nothing here are passed over, as in glibc, `m` and `c` among them; so is `,ccs=…`, where glibc opens a wide stream: there is none here, and bytes stay as they are |
//! | `fdopen` with `"a"` | sets `O_APPEND` on the descriptor, and begins at the end (glibc: where the descriptor stands, if it had `O_APPEND`) |
//! | a stream on a socket, for reading and writing | one buffer serves both directions: writing while bytes that came are not read yet is `ESPIPE`, as in glibc. A peer that does not wait for answers has two streams, `fdopen(socket, "r")` and `fdopen(dup(socket), "w")` |
//! | `fileno`, and a stream beside its descriptor | a seekable file's descriptor has a position of its own: `fflush` and `fseek` put it where the stream stands, and only `fseek` moves the stream to where a descriptor was used. Where the stream appends, its descriptor stays where it was |
//! | `freopen` | needs an entry of the file table more while both files are open; `EBUSY` for a stream of `fopen_shared`; what failed to be written of the old file is not reported |
//! | `tmpfile` | the file never has a name (`O_TMPFILE`): `EOPNOTSUPP` where `/tmp` lies on a file system without such files |
//! | `fmemopen` | the stream is on a file of the host's in memory. The caller's memory has what was written after `fflush` and `fclose`, and after the opener's `fseek` or change to reading: not when a buffer is full, nor where nothing is buffered. What the program writes there meanwhile the stream does not see, and a gap that `fseek` leaves has zeros. What does not fit is `ENOSPC` of the flush, and dropped |
//! | `open_memstream` | in Rust, [`File::memory_text`] gives the text. In C the caller's words change with `fflush` and `fclose` of the stream, not with `fflush(NULL)` |
//! | a kernel that ends with a stream on memory open | the memory stays as the last flush left it: the host writes to no memory of a device's |
//! | standard streams of a redirected program | the position is the one that the program, its shell and its children share, as in C. io_uring has no `lseek(2)`: a host thread makes it, so that `fseek` and `ftell` there cost a wake-up of it, and reading on a stream so opened is never ahead of the lock |
//! | a session that ends | leaves a redirected standard input where its reader stands, as `exit(3)` does; glibc only if the reader has ever filled its buffer by reading |
//! | `_IOLBF` | a call that brings a newline writes all that is buffered, the bytes behind the newline included (glibc keeps those) |
//! | rounding direction | `printf` follows it on CPU lanes, as glibc's does; it is the OS thread's, which lanes share, as `errno` is. A GPU has none: to nearest, ties to even. Rust's `write!` always rounds to nearest |
//! | `printf` from C | a format ends within 4,096 bytes, `GPUFS_FORMAT_BYTES`, or is `EINVAL`: it has lost its NUL (C reads on). With its length, `gpufs_fprintf_arguments`, it may be longer |
//! | `fscanf`, `scanf` | read as one unit, under the lock or from numbers that were read ahead ([`File::fscanf`]); conversions as in [`format::scan`](crate::format::scan), whose table has the rest. What does not match stays unread, also where glibc takes it (`+na?`) |
//! | `ungetc` on a stream not open for reading | `EBADF` (undefined in C11; glibc takes the byte) |
//! | `write!` of a text longer than about 4 MiB (256 KiB on a GPU where streams have less than 8 MiB) | `ENOMEM`: a text is formatted as a whole before the stream is touched |
//! | `fprintf` of nothing on a stream not open for writing | succeeds, as `fwrite` of nothing does (glibc: `EBADF`) |
//! | `fseek`, `ftell` on a device without a position | the position is always 0 |
//! | `fseek` that fails | what `ungetc` pushed back stays (C11; glibc drops it) |
//! | `flockfile`, `ftrylockfile`, `funlockfile` | a lane keeps the stream. Where lanes of a warp run in lockstep (AMD's GPUs) the warp does, and its lanes use it call by call; [`File::locked`] is one lane's everywhere. `funlockfile` without `flockfile` is `EPERM` (undefined in POSIX). `fclose`, and the host's `synchronize`, end it |
//! | `getline`, `getdelim` | where memory cannot grow, what was read is in the caller's memory, with a NUL, and the next call reads on behind it (glibc loses it); lanes that call together get lines in lane order, but lines of other warps may lie between |
//! | wide streams | there are none: `fwide` returns −1. Sources under `gpufs/drop_in.h` have `fgetwc`, `fwprintf` and their kin, as UTF-8 on streams of bytes (`gpufs/standard/wide_streams.h`) |
//! | forms with `_unlocked` (C) | the same as the calls without: a grid shares its streams |
//! | `setvbuf` | the buffer is the session's own; its size is rounded down to a power of two, 16 bytes at least; it may be called at any time, and loses nothing (C11: only before any other call; glibc's drops what was pushed back) |
//! | a kernel that ends, or returns early | loses nothing: the host flushes what is buffered |
//! | a GPU that faults (an illegal address, a panic) | loses nothing that a returned call had accepted, where the session keeps a journal, as it does by default; of calls that had not returned, a part may be there, and in a seekable file a hole |

mod ahead;
mod chars;
mod dup2;
mod fclose;
mod fdopen;
mod fgets;
mod flags;
mod flush;
mod fopen;
mod freopen;
mod getline;
mod handle;
mod hold;
mod input;
mod lines;
mod lock;
mod memory;
mod message;
mod newlines;
mod numbers;
mod output;
mod perror;
mod printf;
mod scan;
mod seek;
mod setvbuf;
mod shared;
mod shared_open;
mod text;
mod tokens;

use gpufs_core::Errno;
use gpufs_core::pieces::stream_word;
use gpufs_core::session::{FileIndex, SessionTables};
use gpufs_core::stream::Stream;

use crate::Fs;
use crate::inside::Inside;

pub(crate) use fopen::{claim_with_file, stream_on};
#[cfg(feature = "embedded-io")]
pub(crate) use input::read_some;
pub(crate) use output::{Record, write};

pub use crate::file::Whence;
pub use getline::{LineBuffer, LineStep};
pub use gpufs_core::stream::Buffering;
pub use lines::NEWLINE;
pub use memory::MemoryText;

/// An open stream: a small handle, copied freely, valid in every kernel and warp of the session until it is closed.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct File {
    session: &'static SessionTables,
    index: u32,
    generation: u32,
}

/// What a transfer came to: C's short count with its errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Transfer {
    /// Bytes transferred.
    pub bytes: usize,
    /// Why not all were; `None` also at the end of the file.
    pub error: Option<Errno>,
}

impl Transfer {
    /// The bytes, or the error if there was one.
    ///
    /// # Errors
    /// The transfer's, even if some bytes were transferred before it.
    pub fn result(self) -> Result<usize, Errno> {
        self.error.map_or(Ok(self.bytes), Err)
    }
}

impl File {
    pub(crate) fn stream(self) -> &'static Stream {
        &self.session.streams()[self.index as usize]
    }
    /// The stream as a piece of a trace names it.
    #[inline]
    pub(crate) const fn stream_word(self) -> u64 {
        stream_word(self.index, self.generation)
    }
    /// The process's descriptor of its file.
    pub(crate) fn file_number(self) -> Result<i32, Errno> {
        let stream = self.stream();
        // ORDERING: acquire, device, partner the lane that opened it.
        if stream.generation.observe() != self.generation {
            return Err(Errno::BADF);
        }
        self.session.process_descriptor(FileIndex(stream.file.peek()))
    }
    /// Whether reading may wait for another party, as a pipe's does. Of a closed stream, either.
    #[cfg(feature = "embedded-io")]
    pub(crate) fn may_wait(self) -> bool {
        // ORDERING: relaxed: a hint where others close it.
        let flags =
            self.session.file_and_flags(FileIndex(self.stream().file.peek())).map_or(0, |(_, flags)| flags);
        gpufs_core::session::OpenFile::may_wait(flags)
    }
    /// Tells streams apart within a warp, for a way that needs no lock. [`File::key`] is for the others.
    pub(crate) fn name(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }
    /// The session that opened it. On the host, of a stream that is closed, perhaps with its session: one that is closed.
    #[must_use]
    #[inline]
    pub fn fs(self) -> Fs {
        #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
        if !self.is_open() {
            return Fs::closed_session(self.session);
        }
        Fs::of(self.session)
    }
    /// Begins a call. On the host a stream of a session that is closed is closed, whoever has its entry now: the call finds that out.
    ///
    /// # Errors
    /// As `Fs::enter`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "nothing, on a GPU")]
    pub(crate) fn enter(self) -> Result<Inside, Errno> {
        Inside::enter(self.session, 0)
    }
}

impl Fs {
    /// The standard input, stream 0.
    #[must_use]
    pub fn stdin(self) -> File {
        self.standard(0)
    }
    /// The standard output, stream 1: line buffered if it is a terminal.
    #[must_use]
    pub fn stdout(self) -> File {
        self.standard(1)
    }
    /// The standard error, stream 2: not buffered.
    #[must_use]
    pub fn stderr(self) -> File {
        self.standard(2)
    }
    /// A stream that was closed before anybody used it: every call on it is `EBADF`.
    pub(crate) fn closed(self) -> File {
        // Generations of open streams are odd.
        File { session: self.session(), index: 0, generation: 0 }
    }
    fn standard(self, index: u32) -> File {
        #[cfg(not(any(target_arch = "nvptx64", target_arch = "amdgpu")))]
        if self.is_past() {
            return self.closed();
        }
        let stream = &self.session().streams()[index as usize];
        // ORDERING: relaxed: opened by the host before the first launch. Of a stream that is closed, which is even, this is the handle that was
        // closed.
        let generation = stream.generation.peek().wrapping_sub(1) | 1;
        File { session: self.session(), index, generation }
    }
}
