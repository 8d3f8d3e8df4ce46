//! Lanes of one warp in different calls at once: every pair of calls in two branches, however the program names them. A call is known by what
//! it is; where its text stands, and through which function of core it is made, changes nothing.

use std::ffi::CStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Mutex;

use gpufs_core::word::DeviceWord;
use gpufs_device::aio::{Link, Pending, wait_all};
use gpufs_device::file::{
    AT_FDCWD, Descriptor, IoSlice, IoSliceMut, O_CREAT, O_NONBLOCK, O_RDWR, O_TRUNC, RWF_APPEND,
    STATX_BASIC_STATS, Stat,
};
use gpufs_device::service::{Directory, Dirent, LOCK_SH, LockCommand, RecordLock, TimeSpec};
use gpufs_device::socket::{AF_INET, AF_UNIX, POLLIN, PollFd, SOCK_STREAM, SocketAddress};
use gpufs_device::stdio::{Buffering, Whence};
use gpufs_device::trace::Trace;
use gpufs_device::{Call, Errno, File, Fs, calling, fprintf, fscanf, warp};
use gpufs_host::cpu::Schedule;
use gpufs_host::ring::Mode;
use gpufs_host::{CpuOptions, Grid, Session};
use gpufs_tests::closures::{is_child, run_child};
use gpufs_tests::{Scratch, each, lanes, once, small};

/// Widths and schedulers, each with the threads of a block that a test of so many calls can afford: of the wider warp some of the upper half.
fn machines(seeds: u64) -> impl Iterator<Item = (CpuOptions, u32)> {
    [32, 64].into_iter().flat_map(move |width| {
        let whole = (Schedule::Fast, if width == 32 { 8 } else { 40 });
        let few = (0..seeds).map(|seed| (Schedule::Seeded(seed), 6));
        std::iter::once(whole).chain(few).map(move |(schedule, threads)| {
            (CpuOptions { width, schedule, ..CpuOptions::default() }, threads)
        })
    })
}

/// Lanes of a launch that makes pairs of calls on files of their own: each may have an asynchronous operation, and these have buffers for so many.
const LANES: u32 = 40;

/// Whether a pair is made on the machine with this number. Each pair of calls on files is made on one of the four machines; `GPUFS_PAIRS=all`
/// makes it on each.
fn is_made(machine: usize, first: Call, second: Call) -> bool {
    (first.index() + second.index()) % 4 == machine || std::env::var_os("GPUFS_PAIRS").is_some()
}

fn session(options: &CpuOptions) -> Session {
    let builder = small().mode(Mode::Enter).ring_entries(2048).streams(140).files(300).buffers(8 << 20);
    builder.blocks_per_stream(1).deadline(gpufs_tests::patience()).cpu_with(options.clone()).unwrap()
}

/// What a lane has to make calls on.
struct Mine {
    fs: Fs,
    file: File,
    descriptor: Descriptor,
    path: std::ffi::CString,
    /// A name that one other file may get.
    other: std::ffi::CString,
    /// An empty directory.
    folder: std::ffi::CString,
    /// A name that nothing has.
    absent: std::ffi::CString,
}

/// What is the same of all files that a lane has.
fn known(found: Stat) -> u64 {
    u64::from(found.st_mode) << 32 | found.st_nlink
}

const TEXT: &CStr = c"first line\nsecond line\n";

impl Mine {
    /// A stream and a descriptor on two files of the lane's own that hold [`TEXT`], both at the start.
    fn new(session: Fs, scratch: &Scratch, lane: u64) -> Self {
        let path = scratch.c(&format!("stream{lane}"));
        let file = session.fopen(&path, c"w+").unwrap();
        file.fputs(TEXT).unwrap();
        file.rewind();
        let raw = scratch.c(&format!("raw{lane}"));
        let descriptor = session.open(&raw, O_RDWR | O_CREAT | O_TRUNC, 0o600).unwrap();
        session.pwrite(descriptor, TEXT.to_bytes(), 0).unwrap();
        let [other, folder, absent] =
            ["other", "folder", "absent"].map(|name| scratch.c(&format!("{name}{lane}")));
        let place = |name: &str| scratch.path(&format!("{name}{lane}"));
        // `chmod` of another pair may have changed it.
        fs::set_permissions(scratch.path(&format!("stream{lane}")), fs::Permissions::from_mode(0o644))
            .unwrap();
        // Whatever was there before, of a lane that has made the call.
        let _ = fs::remove_file(place("other"));
        let _ = fs::remove_file(place("absent")).or_else(|_| fs::remove_dir(place("absent")));
        let _ = fs::create_dir(place("folder"));
        Self { fs: session, file, descriptor, path, other, folder, absent }
    }
    /// Closes what `call` has not closed.
    fn close_but(&self, call: Call) {
        if call != Call::Fclose {
            self.file.fclose().unwrap();
        }
        if call != Call::Close {
            self.fs.close(self.descriptor).unwrap();
        }
    }
}

/// What `writev` and its kin write.
const PIECES: [IoSlice<'static>; 3] = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];

/// A stream on memory of its own.
fn on_memory(fs: Fs) -> Result<File, Errno> {
    // SAFETY:
    // - null
    unsafe { fs.fmemopen(std::ptr::null_mut(), 8, c"w+") }
}

/// What `write` does with a trace of its own.
fn traced(fs: Fs, path: &CStr, write: impl FnOnce(Trace) -> Result<(), Errno>) -> Result<u64, Errno> {
    let trace = fs.trace(path)?;
    write(trace).and(trace.close()).map(|()| 0)
}

/// Eight bytes in two pieces.
macro_rules! halves {
    ($bytes:expr) => {{
        let (first, second) = $bytes.split_at_mut(3);
        [IoSliceMut::new(first), IoSliceMut::new(second)]
    }};
}

/// All calls by their names, from one place of the program: where a macro was invoked is the place of all that it holds.
macro_rules! perform {
    ($call:expr, $mine:expr) => {{
        let Mine { fs, file, descriptor, path, other, folder, absent } = $mine;
        let mut bytes = [0; 8];
        match $call {
            Call::Open => fs.open(path, O_RDWR, 0).and_then(|opened| fs.close(opened)).map(|()| 0),
            Call::Close => fs.close(*descriptor).map(|()| 0),
            Call::Dup => fs.dup(*descriptor).and_then(|made| fs.close(made)).map(|()| 0),
            Call::Dup2 => fs.dup2(*descriptor, *descriptor).map(|_| 0),
            // Onto one that nobody else has.
            Call::Dup3 => fs
                .open(path, O_RDWR, 0)
                .and_then(|opened| fs.dup3(*descriptor, opened, 0))
                .and_then(|made| fs.close(made))
                .map(|()| 0),
            Call::Read => fs.read(*descriptor, &mut bytes).map(|count| count as u64),
            Call::Write => fs.write(*descriptor, b"abc").map(|count| count as u64),
            Call::Pread => fs.pread(*descriptor, &mut bytes, 3).map(|_| u64::from_le_bytes(bytes)),
            Call::Pwrite => fs.pwrite(*descriptor, b"abc", 1).map(|count| count as u64),
            Call::Readv => fs.readv(*descriptor, &mut halves!(bytes)).map(|_| u64::from_le_bytes(bytes)),
            Call::Writev => fs.writev(*descriptor, &PIECES).map(|count| count as u64),
            Call::Preadv => fs.preadv(*descriptor, &mut halves!(bytes), 3).map(|_| u64::from_le_bytes(bytes)),
            Call::Pwritev => fs.pwritev(*descriptor, &PIECES, 1).map(|count| count as u64),
            Call::Preadv2 => {
                fs.preadv2(*descriptor, &mut halves!(bytes), None, 0).map(|_| u64::from_le_bytes(bytes))
            }
            Call::Pwritev2 => {
                fs.pwritev2(*descriptor, &PIECES, Some(1), RWF_APPEND).map(|count| count as u64)
            }
            Call::Lseek => fs.lseek(*descriptor, -2, Whence::End),
            Call::Fsync => fs.fsync(*descriptor).map(|()| 0),
            Call::Fdatasync => fs.fdatasync(*descriptor).map(|()| 0),
            // Refused before Linux 6.9.
            Call::Ftruncate => fs.ftruncate(*descriptor, 5).or(Ok(())).map(|()| 0),
            Call::AioRead => {
                fs.start_pread(*descriptor, 8, 0).and_then(Pending::wait).map(|done| done.count() as u64)
            }
            Call::AioWrite => fs.start_pwrite(*descriptor, b"abc", 1).and_then(Pending::wait).map(|_| 0),
            Call::AioFsync => fs.start_fsync(*descriptor).and_then(Pending::wait).map(|_| 0),
            Call::AioError => fs.start_fsync(*descriptor).and_then(|pending| {
                while !pending.is_done() {
                    warp::nap(1_000);
                }
                pending.wait().map(|_| 0)
            }),
            Call::AioReturn => {
                let read = fs.start_pread(*descriptor, 8, 3);
                read.and_then(|read| read.wait_into(&mut bytes)).map(|_| u64::from_le_bytes(bytes))
            }
            Call::AioSuspend => fs
                .start_fsync(*descriptor)
                .and_then(|pending| wait_all([&pending]).and_then(|()| pending.wait()))
                .map(|_| 0),
            // It may be complete before.
            Call::AioCancel => fs.start_pread(*descriptor, 8, 0).and_then(|pending| {
                let asked = pending.cancel();
                let _ = pending.wait();
                asked.map(|_| 0)
            }),
            Call::Readlink => fs.readlink(path, &mut bytes).map(|count| count as u64),
            Call::Openat => {
                fs.openat(AT_FDCWD, path, O_RDWR, 0).and_then(|opened| fs.close(opened)).map(|()| 0)
            }
            Call::Creat => fs.creat(other, 0o600).and_then(|made| fs.close(made)).map(|()| 0),
            Call::Fallocate => fs.fallocate(*descriptor, 0, 0, 100).map(|()| 0),
            Call::PosixFadvise => fs.posix_fadvise(*descriptor, 0, 0, 2).map(|()| 0),
            Call::SyncFileRange => fs.sync_file_range(*descriptor, 0, 0, 2).map(|()| 0),
            Call::Stat => fs.stat(path).map(known),
            Call::Lstat => fs.lstat(path).map(known),
            Call::Fstat => fs.fstat(*descriptor).map(known),
            Call::Fstatat => fs.fstatat(AT_FDCWD, path, 0).map(known),
            Call::Statx => {
                fs.statx(AT_FDCWD, path, 0, STATX_BASIC_STATS).map(|found| u64::from(found.stx_mode))
            }
            Call::Unlink => fs.unlink(path).map(|()| 0),
            Call::Unlinkat => fs.unlinkat(AT_FDCWD, path, 0).map(|()| 0),
            Call::Rmdir => fs.rmdir(folder).map(|()| 0),
            Call::Remove => fs.remove(folder).map(|()| 0),
            Call::Rename => fs.rename(path, other).map(|()| 0),
            Call::Renameat => fs.renameat(AT_FDCWD, path, AT_FDCWD, other).map(|()| 0),
            Call::Renameat2 => fs.renameat2(AT_FDCWD, path, AT_FDCWD, other, 0).map(|()| 0),
            Call::Mkdir => fs.mkdir(absent, 0o700).map(|()| 0),
            Call::Mkdirat => fs.mkdirat(AT_FDCWD, absent, 0o700).map(|()| 0),
            Call::Link => fs.link(path, absent).map(|()| 0),
            Call::Linkat => fs.linkat(AT_FDCWD, path, AT_FDCWD, absent, 0).map(|()| 0),
            Call::Symlink => fs.symlink(path, absent).map(|()| 0),
            Call::Symlinkat => fs.symlinkat(path, AT_FDCWD, absent).map(|()| 0),
            Call::Truncate => fs.truncate(path, 7).map(|()| 0),
            Call::Chmod => fs.chmod(path, 0o600).map(|()| 0),
            Call::Fchmod => fs.fchmod(*descriptor, 0o600).map(|()| 0),
            Call::Readlinkat => fs.readlinkat(AT_FDCWD, path, &mut bytes).map(|count| count as u64),
            Call::Fchmodat => fs.fchmodat(AT_FDCWD, path, 0o600, 0).map(|()| 0),
            Call::Getfl => fs.getfl(*descriptor).map(|flags| u64::from(flags & 3)),
            Call::Access => fs.access(path, 6).map(|()| 0),
            Call::Faccessat => fs.faccessat(AT_FDCWD, path, 6, 0).map(|()| 0),
            Call::Utimensat => fs.utimensat(AT_FDCWD, path, None, 0).map(|()| 0),
            Call::Futimens => fs.futimens(*descriptor, None).map(|()| 0),
            Call::Getcwd => fs.getcwd(&mut [0; 4096]).map(|path| path.count_bytes() as u64),
            Call::Chdir => fs.chdir(c".").map(|()| 0),
            // A file is no directory.
            Call::Fchdir => fs.fchdir(*descriptor).map(|()| 0),
            Call::Umask => fs.umask(0o22).map(|mask| u64::from(mask <= 0o777)),
            Call::Opendir => fs.opendir(c"/").and_then(|opened| fs.closedir(opened)).map(|()| 0),
            // A file is no directory.
            Call::Readdir => fs.readdir(Directory(*descriptor), &mut Dirent::default()).map(u64::from),
            Call::Rewinddir => fs.rewinddir(Directory(*descriptor)).map(|()| 0),
            Call::Telldir => fs.telldir(Directory(*descriptor)).map(|position| u64::from(position >= 0)),
            Call::Seekdir => fs.seekdir(Directory(*descriptor), -1).map(|()| 0),
            Call::Closedir => fs.opendir(c"/").and_then(|opened| fs.closedir(opened)).map(|()| 1),
            Call::Flock => fs.flock(*descriptor, LOCK_SH).map(|()| 0),
            Call::Fcntl => fs.fcntl(*descriptor, LockCommand::Set, &mut RecordLock::default()).map(|()| 0),
            Call::Getenv => fs.getenv(c"PATH", &mut bytes).map(|length| length as u64),
            Call::ClockGettime => fs.clock_gettime(0).map(|time| u64::from(time.tv_sec > 0)),
            Call::Time => fs.time().map(|time| u64::from(time > 0)),
            Call::Nanosleep => fs.nanosleep(TimeSpec { tv_sec: 0, tv_nsec: 1 }).map(|()| 0),
            Call::Popen => fs
                .popen(c"exit 3", c"r")
                .and_then(|child| fs.pclose(child))
                .map(i32::cast_unsigned)
                .map(u64::from),
            // Not of popen.
            Call::Pclose => fs.pclose(*file).map(|_| 0),
            Call::Service => fs.call_by_key(7, b"", &mut []).map(|()| 0),
            Call::Socket => fs.socket(AF_INET, SOCK_STREAM, 0).and_then(|made| fs.close(made)).map(|()| 0),
            Call::Socketpair => fs
                .socketpair(AF_UNIX, SOCK_STREAM, 0)
                .and_then(|[one, other]| fs.close(one).and(fs.close(other)))
                .map(|()| 0),
            // A file is no socket.
            Call::Bind => fs.bind(*descriptor, &SocketAddress::NONE).map(|()| 0),
            Call::Listen => fs.listen(*descriptor, 1).map(|()| 0),
            Call::Accept => fs.accept(*descriptor, None).map(|_| 0),
            Call::Accept4 => fs.accept4(*descriptor, None, 0).map(|_| 0),
            Call::Connect => fs.connect(*descriptor, &SocketAddress::NONE).map(|()| 0),
            Call::Shutdown => fs.shutdown(*descriptor, 0).map(|()| 0),
            Call::Send => fs.send(*descriptor, b"abc", 0).map(|count| count as u64),
            Call::Sendto => fs.sendto(*descriptor, b"abc", 0, &SocketAddress::NONE).map(|count| count as u64),
            Call::Recv => fs.recv(*descriptor, &mut bytes, 0).map(|count| count as u64),
            Call::Recvfrom => fs
                .recvfrom(*descriptor, &mut bytes, 0, &mut SocketAddress::default())
                .map(|count| count as u64),
            Call::Sendmsg => fs.sendmsg(*descriptor, &PIECES, 0, None).map(|count| count as u64),
            Call::Recvmsg => fs
                .recvmsg(*descriptor, &mut [IoSliceMut::new(&mut bytes)], 0, None)
                .map(|came| came.bytes as u64),
            Call::Getsockopt => fs.getsockopt(*descriptor, 1, 3, &mut bytes).map(|count| count as u64),
            Call::Setsockopt => fs.setsockopt(*descriptor, 1, 2, &bytes).map(|()| 0),
            Call::Getsockname => fs.getsockname(*descriptor).map(|_| 0),
            Call::Getpeername => fs.getpeername(*descriptor).map(|_| 0),
            Call::Poll => {
                let mut all = [PollFd { fd: descriptor.0.cast_signed(), events: POLLIN, revents: 0 }];
                fs.poll(&mut all, -1).map(|count| count as u64)
            }
            Call::Pipe => fs.pipe().and_then(|[one, other]| fs.close(one).and(fs.close(other))).map(|()| 0),
            Call::Pipe2 => {
                fs.pipe2(O_NONBLOCK).and_then(|[one, other]| fs.close(one).and(fs.close(other))).map(|()| 1)
            }
            Call::Eventfd => fs.eventfd(7, 0).and_then(|counter| {
                let came = fs.read(counter, &mut bytes);
                fs.close(counter).and(came).map(|_| u64::from_ne_bytes(bytes))
            }),
            // A file is no pipe.
            Call::Splice => fs.splice(*descriptor, None, *descriptor, None, 5, 0).map(|count| count as u64),
            Call::Tee => fs.tee(*descriptor, *descriptor, 5, 0).map(|count| count as u64),
            Call::Nop => fs.nop().map(|()| 0),
            Call::Fopen => fs.fopen(path, c"r").and_then(File::fclose).map(|()| 0),
            Call::FopenShared => fs.fopen_shared(path, c"r").and_then(File::fclose).map(|()| 0),
            // The stream has the descriptor, which its end closes: of another one, so that this one stays.
            Call::Fdopen => {
                let opened = fs.open(path, O_RDWR, 0);
                opened.and_then(|opened| fs.fdopen(opened, c"r+")).and_then(File::fclose).map(|()| 0)
            }
            Call::Freopen => file.freopen(Some(path), c"r+").map(|_| 0),
            Call::Tmpfile => fs.tmpfile().and_then(File::fclose).map(|()| 0),
            Call::Fmemopen => on_memory(*fs).and_then(File::fclose).map(|()| 0),
            Call::OpenMemstream => fs.open_memstream().and_then(File::fclose).map(|()| 0),
            // Not on memory.
            Call::MemoryText => file.memory_text(&mut bytes).map(|text| text.position),
            Call::Mkstemp => {
                let mut name = *b"/tmp/gpufs-pairs-XXXXXX\0";
                fs.mkstemp(&mut name).and_then(|made| fs.close(made)).map(|()| {
                    let name = CStr::from_bytes_with_nul(&name).unwrap().to_str().unwrap();
                    std::fs::remove_file(name).map_or(1, |()| 0)
                })
            }
            Call::Fclose => Some(*file).map(File::fclose).unwrap().map(|()| 0),
            Call::Fread => file.fread(&mut bytes).map(|_| u64::from_le_bytes(bytes)),
            // Of what may wait.
            Call::ReadSome => fs.popen(c"echo", c"r").and_then(|child| {
                let mut reader = child;
                let came = embedded_io::Read::read(&mut reader, &mut bytes);
                fs.pclose(child).and(came).map(|count| count as u64)
            }),
            Call::Fwrite => file.fwrite(b"abcd").map(|count| count as u64),
            Call::Fgetc => Ok(*file).and_then(File::fgetc).map(|byte| byte.map_or(256, u64::from)),
            Call::Fputc => file.fputc(b'x').map(u64::from),
            Call::Ungetc => file.ungetc(b'x').map(|byte| byte.map_or(256, u64::from)),
            Call::Fgets => {
                file.fgets(&mut bytes).map(|line| line.map_or(0, |line| line.count_bytes() as u64))
            }
            Call::Fputs => file.fputs(c"text").map(|()| 0),
            Call::Puts => fs.puts(c"said").map(|()| 0),
            Call::Fprintf => fprintf!(*file, c"%d and %s", 17, c"text").map(|count| count as u64),
            Call::Fscanf => {
                fscanf!(*file, c"%7s", &mut bytes).map(|stored| stored.map_or(99, |stored| stored as u64))
            }
            Call::WriteFmt => write!(*file, "{} and {}", 17, "text").map(|()| 0),
            Call::Fseek => file.fseek(5, Whence::Set).map(|()| 0),
            Call::Ftell => Ok(*file).and_then(File::ftell),
            Call::Rewind => Some(*file).map(File::rewind).map(|()| 0).ok_or(Errno::BADF),
            Call::Fflush => Ok(*file).and_then(File::fflush).map(|()| 0),
            Call::FflushAll => Ok(*fs).and_then(Fs::fflush_all).map(|()| 0),
            Call::Setvbuf => file.setvbuf(Buffering::Line, 64).map(|()| 0),
            Call::Flockfile => {
                Ok(*file).and_then(File::flockfile).and_then(|()| file.funlockfile()).map(|()| 0)
            }
            Call::Ftrylockfile => {
                // A lane that flushes all streams may have it now.
                Ok(*file)
                    .and_then(File::ftrylockfile)
                    .and_then(|kept| if kept { file.funlockfile() } else { Ok(()) })
                    .map(|()| 0)
            }
            Call::Funlockfile => match file.funlockfile() {
                Err(Errno::PERM) => Ok(1),
                other => other.map(|()| 0),
            },
            Call::StartRecvWhenReady => {
                let into = bytes.as_mut_ptr();
                // SAFETY:
                // - no socket: it is refused
                let started = unsafe { fs.start_recv_when_ready(*descriptor, into, 8, 0) };
                started.and_then(Pending::wait).map(|done| done.count() as u64)
            }
            // SAFETY:
            // - as above
            Call::StartRecv => unsafe { fs.start_recv(*descriptor, bytes.as_mut_ptr(), 8, 0) }
                .and_then(Pending::wait)
                .map(|done| done.count() as u64),
            // SAFETY:
            // - as above
            Call::StartSend => unsafe { fs.start_send(*descriptor, bytes.as_ptr(), 8, 0) }
                .and_then(Pending::wait)
                .map(|done| done.count() as u64),
            Call::StartPoll => {
                fs.start_poll(*descriptor, POLLIN).and_then(Pending::wait).map(|done| done.count() as u64)
            }
            Call::StartChain => {
                fs.start_chain([Link::Fsync(*descriptor)]).and_then(|[link]| link.wait()).map(|_| 0)
            }
            Call::TraceOpen => fs.trace(absent).and_then(Trace::close).map(|()| 0),
            Call::TraceName => traced(*fs, absent, |trace| trace.counter("counter").map(drop)),
            Call::TraceBegin => traced(*fs, absent, |trace| trace.event("span", [])?.begin(()).map(drop)),
            Call::TraceEnd => traced(*fs, absent, |trace| trace.event("span", [])?.begin(())?.end()),
            Call::TraceEvent => traced(*fs, absent, |trace| trace.event("moment", ["of"])?.instant([1])),
            Call::TraceClocks => traced(*fs, absent, Trace::join_clocks),
            Call::TraceFlush => traced(*fs, absent, Trace::flush),
            Call::TraceClose => fs.trace(absent).and_then(Trace::close).map(|()| 0),
            Call::Getdelim => {
                file.getline(&mut &mut bytes[..]).map(|line| line.map_or(0, |length| length as u64))
            }
            Call::Clearerr => Some(*file).map(File::clearerr).map(|()| 0).ok_or(Errno::BADF),
        }
    }};
}

/// Not inlined, so that all of a program's calls are its.
#[inline(never)]
fn perform(call: Call, mine: &Mine) -> Result<u64, Errno> {
    perform!(call, mine)
}

/// Every `Lanes::calling` of the library, which is the one way to get lanes, with the call that it names.
fn entries(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            entries(&path, found);
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        // Where lines were broken does not matter.
        let source: String = source.split_whitespace().collect();
        found.extend(source.split("Lanes::calling(").skip(1).map(|rest| {
            let (_, call) = rest.split_once("Call::").unwrap_or_else(|| panic!("{path:?}: {rest:.60}"));
            call.chars().take_while(|letter| letter.is_alphanumeric()).collect()
        }));
    }
}

#[test]
fn each_call_is_entered_with_an_identity_of_its_own() {
    let mut found = Vec::new();
    entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpufs-device/src"), &mut found);
    found.sort();
    let mut wanted = Call::ALL.map(|call| format!("{call:?}"));
    wanted.sort();
    assert_eq!(found, wanted);
}

#[test]
fn every_pair_of_calls_on_files_of_their_own() {
    let name = "every_pair_of_calls_on_files_of_their_own";
    if !is_child(name) {
        // The standard output gets what `puts` says.
        return run_child(name);
    }
    let scratch = Scratch::new("pairs");
    let mut alone = session(&CpuOptions::default());
    let wanted = Call::ALL.map(|call| {
        once(&mut alone, |fs| {
            let mine = Mine::new(fs, &scratch, 0);
            let result = perform(call, &mine);
            mine.close_but(call);
            result
        })
    });
    for (machine, (options, threads)) in machines(1).enumerate() {
        let mut session = session(&options);
        // They share the pairs, so that one goes on while another waits.
        let warps = LANES / threads;
        for first in Call::ALL {
            let outcome = session.run(Grid { blocks: warps, threads }, |fs| {
                let lane = warp::global_thread();
                let made = Call::ALL.into_iter().filter(|second| is_made(machine, first, *second));
                for second in made.skip(lane as usize / threads as usize).step_by(warps as usize) {
                    let mine = Mine::new(fs, &scratch, lane);
                    let (call, result) = if lane.is_multiple_of(2) {
                        (first, perform(first, &mine))
                    } else {
                        (second, perform(second, &mine))
                    };
                    mine.close_but(call);
                    assert_eq!(result, wanted[call.index()], "{call:?} of {first:?} and {second:?}");
                }
            });
            outcome.unwrap_or_else(|error| panic!("{first:?} and the others, {options:?}: {error}"));
        }
    }
}

#[test]
fn every_pair_of_calls_on_one_file() {
    let name = "every_pair_of_calls_on_one_file";
    if !is_child(name) {
        return run_child(name);
    }
    let scratch = Scratch::new("pairs-shared");
    for (machine, (options, threads)) in machines(1).enumerate() {
        let mut session = session(&options);
        for (at, first) in Call::ALL.into_iter().enumerate() {
            for second in Call::ALL[at..].iter().filter(|second| is_made(machine, first, **second)) {
                let mine = once(&mut session, |fs| Mine::new(fs, &scratch, 0));
                // What each gets depends on who came first, if one of them closes; that all get something does not.
                let outcome = session.run(lanes(threads), |_| {
                    let call = if warp::global_thread().is_multiple_of(2) { first } else { *second };
                    let _ = perform(call, &mine);
                });
                outcome.unwrap_or_else(|error| panic!("{first:?} and {second:?}, {options:?}: {error}"));
                once(&mut session, |_| {
                    for close in [Call::Close, Call::Fclose] {
                        if first == close || *second == close {
                            continue;
                        }
                        // `freopen` closes the stream where it fails.
                        let may_be_closed =
                            close == Call::Fclose && [first, *second].contains(&Call::Freopen);
                        let result = perform(close, &mine);
                        assert!(
                            result.is_ok() || may_be_closed,
                            "{close:?} after {first:?} and {second:?}: {result:?}"
                        );
                    }
                });
            }
        }
    }
}

/// The programs of a report: paths of calls handed to functions of core.
#[test]
fn paths_of_calls_in_two_branches() {
    let scratch = Scratch::new("paths");
    for (options, _) in machines(6) {
        let mut session = session(&options);
        let told = each(&mut session, 2, |fs, lane| {
            let file = fs.fopen(&scratch.c(&format!("two{lane}")), c"w+").unwrap();
            file.fputs(c"text").unwrap();
            if lane == 1 {
                Ok(file).and_then(File::ftell)
            } else {
                Ok(file).and_then(File::fclose).map(|()| 0)
            }
        });
        assert_eq!(told, [Ok(0), Ok(4)], "{options:?}");
        // A file a lane, so that lanes come to each call at their own pace.
        for _ in 0..20 {
            each(&mut session, 2, |fs, lane| {
                let name = scratch.c(&format!("own{lane}"));
                let file = fs.fopen(&name, c"w+");
                file.and_then(|file| file.fputs(c"text")).unwrap();
                let _ = file.map(File::rewind);
                assert_eq!(file.and_then(File::ftell), Ok(0));
                file.and_then(File::fclose).unwrap();
            });
        }
        // Calls as values.
        let calls: [fn(File) -> Result<(), Errno>; 2] = [File::fflush, File::fclose];
        let results = each(&mut session, 32, |fs, lane| {
            let file = fs.fopen(&scratch.c(&format!("value{lane}")), c"w").unwrap();
            file.fputs(c"text").unwrap();
            calls[usize::from(lane % 3 == 0)](file)
        });
        assert!(results.iter().all(Result::is_ok), "{options:?}: {results:?}");
    }
}

/// Lanes that read files of different lengths to their ends come to `fclose` while others still read.
#[test]
fn files_of_different_lengths_are_read_to_their_ends() {
    let scratch = Scratch::new("lengths");
    for lane in 0..16_usize {
        fs::write(scratch.path(&format!("length{lane}")), vec![b'x'; lane * 13]).unwrap();
    }
    for (options, _) in machines(4) {
        let mut session = session(&options);
        let lengths = each(&mut session, 16, |fs, lane| {
            let file = fs.fopen(&scratch.c(&format!("length{lane}")), c"r");
            let mut length = 0_u64;
            while file.and_then(File::fgetc).unwrap().is_some() {
                length += 1;
            }
            assert!(file.is_ok_and(File::feof));
            file.and_then(File::fclose).unwrap();
            length
        });
        assert_eq!(lengths, (0..16).map(|lane| lane * 13).collect::<Vec<_>>(), "{options:?}");
    }
}

/// Two places of a kernel's own in one macro.
macro_rules! in_two_places {
    ($first:expr, $then:expr, $else:expr) => {
        if $first { $then(calling!()) } else { $else(calling!()) }
    };
}

#[test]
fn a_kernels_own_places_are_told_apart_in_one_macro() {
    for (options, threads) in machines(12) {
        let mut session = session(&options);
        let seen = Mutex::new(0);
        session
            .run(lanes(threads), |_| {
                let odd = warp::global_thread() % 2 == 1;
                for _ in 0..10 {
                    // Different operations, so that lanes of one place must not wait for those of the other.
                    let kin =
                        in_two_places!(odd, |lanes: warp::Lanes| lanes.ballot(odd), |lanes: warp::Lanes| {
                            (0..3).for_each(|_| lanes.sync());
                            lanes.ballot(!odd)
                        });
                    assert!(kin.contains(calling!().lane()));
                    let parity = kin.iter().map(|lane| lane % 2).max();
                    assert!(kin.iter().all(|lane| Some(lane % 2) == parity), "{kin:?}");
                }
                *seen.lock().unwrap() += 1;
            })
            .unwrap();
        assert_eq!(seen.into_inner().unwrap(), threads);
    }
}

/// A value that makes calls while it is printed, in the middle of a call as it seems.
struct Chatty(File);

impl std::fmt::Display for Chatty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fputs(c"aside\n").map_err(|_| std::fmt::Error)?;
        f.write_str("chatty\n")
    }
}

#[test]
fn calls_within_calls_have_their_own_identity() {
    let scratch = Scratch::new("nested");
    for (options, threads) in machines(4) {
        let mut session = session(&options);
        let (out, aside) = once(&mut session, |fs| {
            (fs.fopen(&scratch.c("out"), c"w").unwrap(), fs.fopen(&scratch.c("aside"), c"w").unwrap())
        });
        each(&mut session, threads, |_, lane| {
            if lane % 2 == 0 {
                write!(out, "{}", Chatty(aside)).unwrap();
            } else {
                writeln!(out, "plain").unwrap();
            }
        });
        once(&mut session, |_| out.fclose().and(aside.fclose())).unwrap();
        let count = |name: &str, line: &str| {
            String::from_utf8(scratch.read(name)).unwrap().lines().filter(|found| *found == line).count()
        };
        let half = threads as usize / 2;
        assert_eq!(
            (count("out", "chatty"), count("out", "plain"), count("aside", "aside")),
            (half, half, half)
        );
    }
}

/// The streams of two sessions have the same numbers: a warp that uses both keeps them apart.
#[test]
fn two_sessions_in_one_warp() {
    let scratch = Scratch::new("two-sessions");
    for (options, threads) in machines(4) {
        let (mut first, mut second) = (session(&options), session(&options));
        let open =
            |session: &mut Session, name| once(session, |fs| fs.fopen(&scratch.c(name), c"w").unwrap());
        let files = [open(&mut first, "even"), open(&mut second, "odd")];
        // A session serves its rings while a kernel of its own runs.
        let gate: &'static DeviceWord = Box::leak(Box::default());
        let waits = move |_: Fs| {
            while gate.observe() == 0 {
                warp::nap(1_000);
            }
        };
        second.launch(lanes(1), waits).unwrap();
        let outcome = first.run(lanes(threads), |_| {
            let thread = warp::global_thread();
            let file = files[usize::from(thread % 2 == 1)];
            fprintf!(file, c"%lu\n", thread % 2).unwrap();
            file.fflush().unwrap();
        });
        gate.publish(1);
        second.synchronize().unwrap();
        outcome.unwrap();
        once(&mut first, |_| files[0].fclose()).unwrap();
        once(&mut second, |_| files[1].fclose()).unwrap();
        let half = threads as usize / 2;
        assert_eq!(scratch.read("even"), b"0\n".repeat(half));
        assert_eq!(scratch.read("odd"), b"1\n".repeat(half));
    }
}
