//! The calls that a kernel makes, one name each. A lane's call is known by this name and its session, never by where its text stands.

use core::ffi::CStr;

use crate::session::SessionTables;

/// Declares [`Call`], its table and its names, so that none of the three can lack a call.
macro_rules! calls {
    ($($call:ident $name:literal),* $(,)?) => {
        /// A call of a session. Each enters with a value of its own, which no other has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Call {
            $(#[doc = concat!("`", $name, "`.")] $call,)*
        }

        impl Call {
            /// Every call, in the order of the numbers.
            pub const ALL: [Self; [$(Self::$call),*].len()] = [$(Self::$call),*];

            /// What the manual calls it; the name in C, but for `write!`, which C does not have.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$call => $name,)*
                }
            }

            /// [`Call::name`] with its NUL.
            #[must_use]
            pub const fn c_name(self) -> &'static CStr {
                let text = match self {
                    $(Self::$call => concat!($name, "\0"),)*
                };
                match CStr::from_bytes_with_nul(text.as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                }
            }
        }
    };
}

calls! {
    Open "open",
    Close "close",
    Dup "dup",
    Dup2 "dup2",
    Dup3 "dup3",
    Read "read",
    Write "write",
    Pread "pread",
    Pwrite "pwrite",
    Readv "readv",
    Writev "writev",
    Preadv "preadv",
    Pwritev "pwritev",
    Preadv2 "preadv2",
    Pwritev2 "pwritev2",
    Lseek "lseek",
    Fsync "fsync",
    Fdatasync "fdatasync",
    Ftruncate "ftruncate",
    AioRead "aio_read",
    AioWrite "aio_write",
    AioFsync "aio_fsync",
    AioError "aio_error",
    AioReturn "aio_return",
    AioSuspend "aio_suspend",
    AioCancel "aio_cancel",
    Openat "openat",
    Creat "creat",
    Fallocate "fallocate",
    PosixFadvise "posix_fadvise",
    SyncFileRange "sync_file_range",
    Stat "stat",
    Lstat "lstat",
    Fstat "fstat",
    Fstatat "fstatat",
    Statx "statx",
    Unlink "unlink",
    Unlinkat "unlinkat",
    Rmdir "rmdir",
    Remove "remove",
    Rename "rename",
    Renameat "renameat",
    Renameat2 "renameat2",
    Mkdir "mkdir",
    Mkdirat "mkdirat",
    Link "link",
    Linkat "linkat",
    Symlink "symlink",
    Symlinkat "symlinkat",
    Nop "nop",
    Readlink "readlink",
    Readlinkat "readlinkat",
    Truncate "truncate",
    Chmod "chmod",
    Fchmod "fchmod",
    Fchmodat "fchmodat",
    Getfl "getfl",
    Access "access",
    Faccessat "faccessat",
    Utimensat "utimensat",
    Futimens "futimens",
    Getcwd "getcwd",
    Chdir "chdir",
    Fchdir "fchdir",
    Umask "umask",
    Opendir "opendir",
    Readdir "readdir",
    Rewinddir "rewinddir",
    Telldir "telldir",
    Seekdir "seekdir",
    Closedir "closedir",
    Flock "flock",
    Fcntl "fcntl",
    Getenv "getenv",
    ClockGettime "clock_gettime",
    Time "time",
    Nanosleep "nanosleep",
    Popen "popen",
    Pclose "pclose",
    Service "call",
    Socket "socket",
    Socketpair "socketpair",
    Bind "bind",
    Listen "listen",
    Accept "accept",
    Accept4 "accept4",
    Connect "connect",
    Shutdown "shutdown",
    Send "send",
    Sendto "sendto",
    Recv "recv",
    Recvfrom "recvfrom",
    Sendmsg "sendmsg",
    Recvmsg "recvmsg",
    Getsockopt "getsockopt",
    Setsockopt "setsockopt",
    Getsockname "getsockname",
    Getpeername "getpeername",
    Poll "poll",
    Pipe "pipe",
    Pipe2 "pipe2",
    Eventfd "eventfd",
    Splice "splice",
    Tee "tee",
    Fopen "fopen",
    FopenShared "fopen_shared",
    Fdopen "fdopen",
    Freopen "freopen",
    Tmpfile "tmpfile",
    Fmemopen "fmemopen",
    OpenMemstream "open_memstream",
    MemoryText "memory_text",
    Mkstemp "mkstemp",
    Fclose "fclose",
    Fread "fread",
    ReadSome "embedded_io::Read",
    Fwrite "fwrite",
    Fgetc "fgetc",
    Fputc "fputc",
    Ungetc "ungetc",
    Fgets "fgets",
    Fputs "fputs",
    Puts "puts",
    Fprintf "fprintf",
    WriteFmt "write!",
    Fscanf "fscanf",
    Fseek "fseek",
    Ftell "ftell",
    Rewind "rewind",
    Fflush "fflush",
    FflushAll "fflush(NULL)",
    Setvbuf "setvbuf",
    Clearerr "clearerr",
    Flockfile "flockfile",
    Ftrylockfile "ftrylockfile",
    Funlockfile "funlockfile",
    Getdelim "getdelim",
    StartRecv "start_recv",
    StartRecvWhenReady "start_recv_when_ready",
    StartSend "start_send",
    StartPoll "start_poll",
    StartChain "start_chain",
    TraceOpen "trace_open",
    TraceName "trace_name",
    TraceBegin "trace_begin",
    TraceEnd "trace_end",
    TraceEvent "trace_event",
    TraceClocks "trace_clocks",
    TraceFlush "trace_flush",
    TraceClose "trace_close",
}

// An address within the session for each call.
const _: () = assert!(Call::ALL.len() <= size_of::<SessionTables>());

impl Call {
    /// The call's number, below the length of [`Call::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// What tells this call of `session` from every other one, of this session or another: an address within the session.
    #[must_use]
    pub fn identity(self, session: &SessionTables) -> usize {
        core::ptr::from_ref(session).addr() + self.index()
    }

    /// The call of a number.
    #[must_use]
    pub fn of_index(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }
}

/// A place at which a kernel itself takes the lanes that call together. Each that is declared has an address of its own, as any static
/// of at least one byte has.
#[derive(Debug)]
pub struct CallSite {
    _place: u8,
}

impl CallSite {
    /// A place, for a static.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a place is a static, which no default makes")]
    pub const fn new() -> Self {
        Self { _place: 0 }
    }

    /// What tells this place from every other one, and from every call of a session.
    #[must_use]
    pub fn identity(&'static self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Call;

    #[test]
    fn no_two_calls_share_a_number_or_a_name() {
        let names: BTreeSet<_> = Call::ALL.iter().map(|call| call.name()).collect();
        assert_eq!(names.len(), Call::ALL.len());
        for (index, call) in Call::ALL.into_iter().enumerate() {
            assert_eq!((call.index(), Call::of_index(index)), (index, Some(call)));
            assert_eq!(call.c_name().to_str(), Ok(call.name()));
        }
        assert_eq!(Call::of_index(Call::ALL.len()), None);
    }
}
