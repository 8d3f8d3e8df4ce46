//! What goes wrong: each call gives the errno that the system call gives, in the lane that asked and only there, what a stream
//! accepted is kept, and the session stays usable.
#![allow(unsafe_code, reason = "mounts, limits, users and signals")]

use std::ffi::CString;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use gpufs_core::word::DeviceWord;
use gpufs_device::file::{O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR, O_WRONLY};
use gpufs_device::stdio::Buffering;
use gpufs_device::{Errno, File, Fs, warp};
use gpufs_host::session::SyncError;
use gpufs_host::{Grid, Session};
use gpufs_tests::{
    Call, MODES, Scratch, assert_works, c_path, check_records, each, is_child, lanes, once, record,
    run_child, skip, small, timed,
};

/// Gives the calling thread, and all it starts, a mount namespace of its own with a small file system at `at`.
fn mount_tmpfs(at: &Path, bytes: usize) -> io::Result<()> {
    let (at, options) = (c_path(at), CString::new(format!("size={bytes}"))?);
    // SAFETY:
    // - the strings are alive and end with NUL; the namespace and its mounts go with the threads that are in it
    let done = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(c"tmpfs".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Changes a soft limit of the whole process: only in a child.
fn limit(resource: libc::__rlimit_resource_t, to: u64) {
    let limit = libc::rlimit { rlim_cur: to, rlim_max: libc::RLIM_INFINITY };
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY:
    // - both structures are alive for their calls
    unsafe {
        libc::getrlimit(resource, &raw mut now);
        let limit = libc::rlimit { rlim_max: now.rlim_max, ..limit };
        assert_eq!(libc::setrlimit(resource, &raw const limit), 0);
    }
}

/// A disk without room, with 4 KiB freed by each removal of a filler file.
struct FullDisk {
    scratch: Scratch,
}

impl FullDisk {
    const BYTES: usize = 64 << 10;
    fn mount(test: &str) -> Option<Self> {
        let scratch = Scratch::new(test);
        match mount_tmpfs(scratch.dir(), Self::BYTES) {
            Ok(()) => Some(Self { scratch }),
            Err(error) => {
                skip(test, format!("no small file system: {error}"));
                None
            }
        }
    }
    /// Takes all but `rest` bytes.
    fn fill(&self, rest: usize) {
        fs::write(self.scratch.path("filler"), vec![0; Self::BYTES - rest]).unwrap();
    }
    fn make_room(&self) {
        fs::remove_file(self.scratch.path("filler")).unwrap();
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        // So that the directory below can be removed.
        let at = c_path(self.scratch.dir());
        // SAFETY:
        // - the string is alive and ends with NUL
        unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Writes records until none is accepted in full any more: what was accepted, and the error.
fn write_until_refused(out: File) -> (Vec<u8>, Errno) {
    let mut accepted = Vec::new();
    for round in 0.. {
        let text = record(7, round, 90);
        let transfer = out.fwrite_counted(text.as_bytes());
        accepted.extend_from_slice(&text.as_bytes()[..transfer.bytes]);
        if let Some(errno) = transfer.error {
            return (accepted, errno);
        }
    }
    unreachable!()
}

#[test]
fn a_full_disk_keeps_what_was_accepted() {
    let Some(disk) = FullDisk::mount("full-disk") else { return };
    let others = Scratch::new("room");
    let elsewhere = others.c("file");
    for (mode, buffering, bytes) in [
        (c"w", Buffering::Full, 0),
        (c"w", Buffering::Full, 64),
        (c"w", Buffering::None, 0),
        (c"w", Buffering::Line, 0),
        (c"a", Buffering::Full, 0),
        (c"a", Buffering::None, 0),
    ] {
        // A block of 8 KiB is cut short by what little is left.
        let mut session = small().stream_buffer(8192).cpu().unwrap();
        disk.fill(12 << 10);
        let name = disk.scratch.c("log");
        let out = once(&mut session, |fs| {
            let out = fs.fopen(&name, mode).unwrap();
            out.setvbuf(buffering, bytes).unwrap();
            out
        });
        let what = format!("{mode:?} {buffering:?} {bytes}");
        // The kernel's own synchronization meets the full disk too.
        let seen = std::sync::Mutex::new(None);
        let outcome = session.run(lanes(1), |_| {
            let refused = write_until_refused(out);
            assert!(out.ferror());
            *seen.lock().unwrap() = Some(refused);
        });
        let (mut accepted, errno) = seen.into_inner().unwrap().unwrap();
        assert_eq!(errno, Errno::NOSPC, "{what}");
        let kept = accepted.len() - fs::metadata(disk.scratch.path("log")).unwrap().len() as usize;
        match outcome {
            Ok(()) => assert_eq!(kept, 0, "{what}"),
            Err(SyncError::Stream(error)) => {
                assert_eq!((error.errno, error.unwritten), (Errno::NOSPC, kept as u64), "{what}");
                assert!(error.file.ends_with("log"), "{error}");
            }
            Err(other) => panic!("{what}: {other}"),
        }
        // Still full: still refused, and nothing more is lost or doubled. Elsewhere all is well.
        once_unsynchronized(&mut session, |fs| {
            let other = fs.fopen(&elsewhere, c"w").unwrap();
            other.fputs(c"all is well").unwrap();
            other.fclose().unwrap();
        });
        if kept > 0 {
            assert!(
                matches!(session.synchronize(), Err(SyncError::Stream(error)) if error.errno == Errno::NOSPC)
            );
        }
        assert_eq!(others.read("file"), b"all is well");
        disk.make_room();
        once(&mut session, |_| out.fflush()).unwrap();
        assert!(disk.scratch.read("log") == accepted, "{what}");
        let more = record(7, 1000, 5);
        once(&mut session, |_| {
            out.clearerr();
            out.fwrite(more.as_bytes()).unwrap();
            assert!(!out.ferror());
            out.fclose()
        })
        .unwrap();
        accepted.extend_from_slice(more.as_bytes());
        assert!(disk.scratch.read("log") == accepted, "{what}");
        fs::remove_file(disk.scratch.path("log")).unwrap();
        assert_works(&mut session);
    }
}

#[test]
fn a_full_disk_under_many_lanes() {
    let Some(disk) = FullDisk::mount("full-disk-lanes") else { return };
    let mut session = small().cpu().unwrap();
    disk.fill(20 << 10);
    let name = disk.scratch.c("log");
    let out = once(&mut session, |fs| fs.fopen(&name, c"w").unwrap());
    let (accepted, refused) = (DeviceWord::new(0), DeviceWord::new(0));
    // 512 threads × 3 × about 35 bytes: more than there is room for, with the blocks' own.
    let _ = session.run(Grid { blocks: 4, threads: 128 }, |_| {
        let thread = warp::global_thread();
        for round in 0..3 {
            let text = record(thread, round, 40);
            let transfer = out.fwrite_counted(text.as_bytes());
            accepted.draw(u32::try_from(transfer.bytes).unwrap());
            if let Some(errno) = transfer.error {
                assert_eq!(errno, Errno::NOSPC);
                refused.draw(1);
            } else {
                assert_eq!(transfer.bytes, text.as_bytes().len());
            }
        }
    });
    assert!(refused.peek() > 0, "the disk was not full");
    disk.make_room();
    session.synchronize().unwrap();
    once(&mut session, |_| out.fclose()).unwrap();
    assert_eq!(disk.scratch.read("log").len(), accepted.peek() as usize);
}

#[test]
fn dev_full() {
    let mut session = small().cpu().unwrap();
    let out = once(&mut session, |fs| fs.fopen(c"/dev/full", c"w").unwrap());
    let outcome = session.run(lanes(1), |_| {
        assert_eq!(out.fwrite(b"kept"), Ok(4));
        assert_eq!(out.fflush(), Err(Errno::NOSPC));
        assert!(out.ferror());
    });
    assert!(
        matches!(&outcome, Err(SyncError::Stream(error)) if error.errno == Errno::NOSPC && error.unwritten == 4)
    );
    once_unsynchronized(&mut session, |_| assert_eq!(out.fclose(), Err(Errno::NOSPC)));
    session.synchronize().unwrap();
    once(&mut session, |fs| {
        let out = fs.fopen(c"/dev/full", c"w").unwrap();
        out.setvbuf(Buffering::None, 0).unwrap();
        let transfer = out.fwrite_counted(b"refused");
        assert_eq!((transfer.bytes, transfer.error), (0, Some(Errno::NOSPC)));
        let file = fs.open(c"/dev/full", O_WRONLY, 0).unwrap();
        assert_eq!(fs.write(file, b"refused"), Err(Errno::NOSPC));
        assert_eq!(fs.close(file), Ok(()));
        assert_eq!(out.fclose(), Ok(()));
    });
    assert_works(&mut session);
}

/// One lane, whatever the flush behind it says.
fn once_unsynchronized(session: &mut Session, kernel: impl Fn(Fs) + Sync) {
    if let Err(SyncError::Kernel(error)) = session.run(lanes(1), |tables| kernel(Fs::new(tables))) {
        panic!("{error}");
    }
}

#[test]
fn errors_reach_the_lanes_that_asked() {
    let scratch = Scratch::new("lanes");
    fs::write(scratch.path("file"), "x").unwrap();
    let paths = [scratch.c("none"), c_path(scratch.dir()), scratch.c("file/below"), scratch.c("file")];
    for mode in MODES {
        let mut session = match small().streams(64).blocks_per_stream(1).mode(mode).cpu() {
            Ok(session) => session,
            Err(refused) => {
                skip(&format!("errors_reach_the_lanes_that_asked in {mode}"), refused);
                continue;
            }
        };
        let wanted = [Err(Errno::NOENT), Err(Errno::ISDIR), Err(Errno::NOTDIR), Ok(())];
        let opened = each(&mut session, 32, |fs, lane| {
            fs.open(&paths[lane as usize % 4], O_RDWR, 0).and_then(|file| fs.close(file))
        });
        let streams = each(&mut session, 32, |fs, lane| {
            fs.fopen(&paths[lane as usize % 4], c"r+").and_then(File::fclose)
        });
        for lane in 0..32 {
            assert_eq!(
                (opened[lane], streams[lane]),
                (wanted[lane % 4], wanted[lane % 4]),
                "{mode} lane {lane}"
            );
        }
        // Reading: a directory, a file for writing only, no file at all, and a file.
        let read = each(&mut session, 32, |fs, lane| {
            let file = match lane % 4 {
                0 => fs.open(&paths[1], O_RDONLY | O_DIRECTORY, 0),
                1 => fs.open(&paths[3], O_WRONLY, 0),
                2 => Ok(gpufs_device::file::Descriptor(63)),
                _ => fs.open(&paths[3], O_RDONLY, 0),
            }
            .unwrap();
            let mut byte = [0; 4];
            let outcomes = (fs.read(file, &mut byte), fs.pread(file, &mut byte, 0));
            let _ = fs.close(file);
            outcomes
        });
        let wanted = [Err(Errno::ISDIR), Err(Errno::BADF), Err(Errno::BADF), Ok(1)];
        for lane in 0..32 {
            assert_eq!(read[lane], (wanted[lane % 4], wanted[lane % 4]), "{mode} lane {lane}");
        }
        let long = CString::new(vec![b'x'; 5000]).unwrap();
        once(&mut session, |fs| {
            assert_eq!(fs.open(&long, O_RDONLY, 0), Err(Errno::NAMETOOLONG));
            assert_eq!(fs.fopen(&paths[3], c"wx").map(drop), Err(Errno::EXIST));
            assert_eq!(fs.fopen(&paths[3], c"q").map(drop), Err(Errno::INVAL));
        });
        assert_works(&mut session);
    }
}

#[test]
fn a_broken_pipe_is_an_error_and_no_signal() {
    const TEST: &str = "a_broken_pipe_is_an_error_and_no_signal";
    if !is_child(TEST) {
        return run_child(TEST);
    }
    // Rust programs ignore SIGPIPE; C programs die of it.
    // SAFETY:
    // - the default action is no handler
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    for mode in MODES {
        let mut session = match small().mode(mode).cpu() {
            Ok(session) => session,
            Err(refused) => {
                skip(&format!("{TEST} in {mode}"), refused);
                continue;
            }
        };
        let (reader, writer) = io::pipe().unwrap();
        let name = CString::new(format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd())).unwrap();
        let file = session.register_file(writer).unwrap();
        let out = once(&mut session, |fs| fs.fopen(&name, c"w").unwrap());
        drop(reader);
        once_unsynchronized(&mut session, |fs| {
            assert_eq!(fs.write(file, b"nobody"), Err(Errno::PIPE));
            assert_eq!(out.fwrite(b"nobody"), Ok(6));
            assert_eq!(out.fflush(), Err(Errno::PIPE));
            assert_eq!(out.fclose(), Err(Errno::PIPE));
        });
        assert_works(&mut session);
    }
}

#[test]
fn a_file_that_shrinks_under_its_reader() {
    let scratch = Scratch::new("shrinks");
    let (path, name) = (scratch.path("file"), scratch.c("file"));
    fs::write(&path, vec![b'x'; 64 << 10]).unwrap();
    let mut session = small().cpu().unwrap();
    once(&mut session, |fs| {
        let input = fs.fopen(&name, c"r").unwrap();
        let mut bytes = vec![0; 10_000];
        assert_eq!(input.fread(&mut bytes[..5000]), Ok(5000));
        fs::File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
        // What the buffer holds is given, and then the end is met.
        assert_eq!(input.fread(&mut bytes), Ok(8192 - 5000));
        assert!(input.feof() && !input.ferror());
        assert_eq!(input.fread(&mut bytes), Ok(0));
        input.rewind();
        assert_eq!(input.fread(&mut bytes), Ok(1000));
        let file = fs.open(&name, O_RDONLY, 0).unwrap();
        assert_eq!(fs.pread(file, &mut bytes, 500), Ok(500));
        assert_eq!(fs.pread(file, &mut bytes, 1000), Ok(0));
        fs.close(file).unwrap();
        input.fclose().unwrap();
    });
}

#[test]
fn a_directory_without_permission() {
    const TEST: &str = "a_directory_without_permission";
    if !is_child(TEST) {
        return run_child(TEST);
    }
    let scratch = Scratch::new("permission");
    let name = scratch.c("closed/file");
    fs::create_dir(scratch.path("closed")).unwrap();
    fs::write(scratch.path("closed/file"), "x").unwrap();
    fs::write(scratch.path("open"), "x").unwrap();
    fs::set_permissions(scratch.path("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(scratch.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    // SAFETY:
    // - the calls take numbers; 65534 is nobody, who owns nothing
    let stays_root = unsafe { libc::geteuid() == 0 && libc::setresuid(65534, 65534, 0) != 0 };
    if stays_root {
        return skip(
            TEST,
            format!("root may open anything, and cannot become another: {}", io::Error::last_os_error()),
        );
    }
    // Nobody may lock little memory: what cannot be registered is copied or named by the whole.
    let mut session = small().streams(64).blocks_per_stream(1).cpu().unwrap();
    let open = scratch.c("open");
    let outcomes = each(&mut session, 32, |fs, lane| {
        let path = if lane % 2 == 0 { &name } else { &open };
        fs.fopen(path, c"r").and_then(File::fclose)
    });
    for (lane, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome, if lane % 2 == 0 { Err(Errno::ACCES) } else { Ok(()) });
    }
    once(&mut session, |fs| assert_eq!(fs.fopen(&open, c"w").map(drop), Err(Errno::ACCES)));
    drop(session);
    // Back to the user that may remove the directory.
    // SAFETY:
    // - the call takes numbers
    unsafe { libc::setresuid(u32::MAX, 0, u32::MAX) };
}

#[test]
fn tables_run_out() {
    let scratch = Scratch::new("tables");
    let name = scratch.c("file");
    let mut session = small().files(12).streams(10).cpu().unwrap();
    // 9 files and 7 streams beside the standard ones.
    let files = each(&mut session, 32, |fs, _| fs.open(&name, O_RDWR | O_CREAT, 0o644));
    assert_eq!(files.iter().filter(|file| file.is_ok()).count(), 9);
    assert!(files.iter().all(|file| matches!(file, Ok(_) | Err(Errno::MFILE))), "{files:?}");
    once(&mut session, |fs| assert_eq!(fs.fopen(&name, c"r").map(drop), Err(Errno::MFILE)));
    let closed = each(&mut session, 32, |fs, lane| files[lane as usize].and_then(|file| fs.close(file)));
    assert_eq!(closed.iter().filter(|outcome| outcome.is_ok()).count(), 9);
    for _ in 0..3 {
        let streams = each(&mut session, 32, |fs, _| fs.fopen(&name, c"r"));
        assert_eq!(streams.iter().filter(|stream| stream.is_ok()).count(), 7);
        each(&mut session, 32, |_, lane| streams[lane as usize].map(|stream| stream.fclose().unwrap()).ok());
    }
    assert_works(&mut session);
    drop(session);

    // 16 stream buffers of 4 KiB; the standard streams have six of them.
    let mut session = small().buffers(128 << 10).cpu().unwrap();
    let streams = each(&mut session, 20, |fs, _| fs.fopen(&name, c"r"));
    let opened = streams.iter().filter(|stream| stream.is_ok()).count();
    assert!((8..=13).contains(&opened), "{opened}");
    assert!(streams.iter().all(|stream| matches!(stream, Ok(_) | Err(Errno::NOMEM))), "{streams:?}");
    each(&mut session, 20, |_, lane| streams[lane as usize].map(|stream| stream.fclose().unwrap()).ok());
    assert_works(&mut session);
}

#[test]
fn the_process_runs_out_of_descriptors() {
    const TEST: &str = "the_process_runs_out_of_descriptors";
    if !is_child(TEST) {
        return run_child(TEST);
    }
    for mode in MODES {
        let mut session = match small().mode(mode).cpu() {
            Ok(session) => session,
            Err(refused) => {
                skip(&format!("{TEST} in {mode}"), refused);
                continue;
            }
        };
        let scratch = Scratch::new("descriptors");
        let name = scratch.c("file");
        fs::write(scratch.path("file"), "x").unwrap();
        let most = fs::File::open("/dev/null").unwrap().as_raw_fd() + 5;
        limit(libc::RLIMIT_NOFILE, u64::try_from(most).unwrap());
        // SAFETY:
        // - the call takes numbers
        let free = (0..most).filter(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } < 0).count();
        assert!((1..=5).contains(&free));
        let files = each(&mut session, 32, |fs, _| fs.open(&name, O_RDONLY, 0));
        assert_eq!(files.iter().filter(|file| file.is_ok()).count(), free, "{mode}: {files:?}");
        assert!(files.iter().all(|file| matches!(file, Ok(_) | Err(Errno::MFILE))), "{mode}: {files:?}");
        each(&mut session, 32, |fs, lane| files[lane as usize].map(|file| fs.close(file).unwrap()).ok());
        once(&mut session, |fs| fs.fopen(&name, c"r").unwrap().fclose().unwrap());
        limit(libc::RLIMIT_NOFILE, 1024);
        assert_works(&mut session);
    }
}

#[test]
fn a_file_grows_past_the_limit() {
    const TEST: &str = "a_file_grows_past_the_limit";
    if !is_child(TEST) {
        return run_child(TEST);
    }
    for mode in MODES {
        let mut session = match small().mode(mode).cpu() {
            Ok(session) => session,
            Err(refused) => {
                skip(&format!("{TEST} in {mode}"), refused);
                continue;
            }
        };
        let scratch = Scratch::new("limit");
        let name = scratch.c("file");
        limit(libc::RLIMIT_FSIZE, 8192);
        // SIGXFSZ would end the process if it came.
        let written = once(&mut session, |fs| {
            let file = fs.open(&name, O_RDWR | O_CREAT, 0o644).unwrap();
            let outcomes = (
                fs.pwrite(file, &[1; 4096], 0),
                fs.pwrite(file, &[1; 8192], 4096),
                fs.pwrite(file, &[1], 8192),
            );
            fs.close(file).unwrap();
            outcomes
        });
        limit(libc::RLIMIT_FSIZE, libc::RLIM_INFINITY);
        if written.2 == Ok(1) {
            skip(&format!("{TEST} in {mode}"), "the service does not keep to RLIMIT_FSIZE");
        } else {
            assert_eq!(written, (Ok(4096), Ok(4096), Err(Errno::FBIG)), "{mode}");
        }
        assert_works(&mut session);
    }
}

#[test]
fn closed_is_closed() {
    let scratch = Scratch::new("closed");
    let name = scratch.c("file");
    let mut session = small().cpu().unwrap();
    let out = once(&mut session, |fs| fs.fopen(&name, c"w+").unwrap());
    // Of the lanes of a warp that close one stream together, one does.
    let closed = each(&mut session, 32, |_, _| out.fclose());
    assert_eq!(closed.iter().filter(|outcome| **outcome == Ok(())).count(), 1);
    assert!(closed.iter().all(|outcome| matches!(outcome, Ok(()) | Err(Errno::BADF))), "{closed:?}");
    let refused = |fs: Fs, out: File| {
        let mut bytes = [0; 4];
        assert_eq!(out.fwrite(b"late"), Err(Errno::BADF));
        assert_eq!(out.fputs(c"late"), Err(Errno::BADF));
        assert_eq!(out.fread(&mut bytes), Err(Errno::BADF));
        assert_eq!(out.fgets(&mut bytes).map(drop), Err(Errno::BADF));
        assert_eq!(out.fflush(), Err(Errno::BADF));
        assert_eq!(out.fclose(), Err(Errno::BADF));
        assert_eq!(out.ftell(), Err(Errno::BADF));
        assert!(!out.feof() && !out.ferror());
        let file = gpufs_device::file::Descriptor(40);
        assert_eq!(fs.close(file), Err(Errno::BADF));
        assert_eq!(fs.write(file, b"late"), Err(Errno::BADF));
        assert_eq!(fs.pwrite(file, b"late", 0), Err(Errno::BADF));
        assert_eq!(fs.fsync(file), Err(Errno::BADF));
    };
    once(&mut session, |fs| refused(fs, out));
    // The entry's next stream is none of the old handle's business.
    let next = once(&mut session, |fs| fs.fopen(&name, c"w").unwrap());
    once(&mut session, |fs| {
        next.fputs(c"mine").unwrap();
        refused(fs, out);
        next.fclose().unwrap();
    });
    assert_eq!(scratch.read("file"), b"mine");

    // A handle that outlives its session.
    let (left, fs) = once(&mut session, |fs| (fs.fopen(&name, c"w").unwrap(), fs));
    let file = once(&mut session, |fs| fs.open(&name, O_RDWR, 0).unwrap());
    once(&mut session, |_| left.fputs(c"left behind").unwrap());
    drop(session);
    assert_eq!(scratch.read("file"), b"left behind");
    refused(fs, left);
    assert_eq!(fs.read(file, &mut [0]), Err(Errno::BADF));
    assert_eq!(fs.open(&name, O_RDONLY, 0), Err(Errno::MFILE));
    assert_eq!(fs.fopen(&name, c"r").map(drop), Err(Errno::MFILE));
}

#[test]
fn a_lane_panics_between_calls() {
    let scratch = Scratch::new("panics");
    let name = scratch.c("out");
    let mut session = small().cpu().unwrap();
    let out = once(&mut session, |fs| fs.fopen(&name, c"w").unwrap());
    let outcome = session.run(Grid { blocks: 2, threads: 64 }, |_| {
        let thread = warp::global_thread();
        for round in 0..20 {
            assert!(thread != 5 || round < 3, "thread 5 has had enough");
            Call::Fprintf.write(out, thread, round, 20);
        }
    });
    assert!(
        matches!(&outcome, Err(SyncError::Kernel(error)) if error.to_string().contains("has had enough"))
    );
    let text = String::from_utf8(scratch.read("out")).unwrap();
    let (five, others): (Vec<_>, Vec<_>) =
        text.split_inclusive('\n').partition(|line: &&str| line.starts_with("5 "));
    assert_eq!(five.len(), 3);
    // Numbered as if thread 5 had gone on.
    let rest: String = (3..20).map(|round| record(5, round, 20).into_string().unwrap()).collect();
    check_records((five.concat() + &others.concat() + &rest).as_bytes(), 128, 20, |_, _| 20);
    assert_works(&mut session);
    once(&mut session, |_| out.fclose()).unwrap();
}

/// Prints well once, and panics the second time, which is between reserving and committing.
struct Treacherous(DeviceWord);

impl fmt::Display for Treacherous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(self.0.draw(1) == 0, "the second time");
        // Longer than a lane's scratch memory, so that it is asked again.
        f.write_str(&"x".repeat(300))
    }
}

#[test]
fn a_lane_panics_in_the_middle_of_a_call() {
    let scratch = Scratch::new("treacherous");
    let name = scratch.c("out");
    for (mode, buffering) in [(c"w", Buffering::Full), (c"a", Buffering::Full), (c"w", Buffering::Line)] {
        let mut session = small().cpu().unwrap();
        let out = once(&mut session, |fs| {
            let out = fs.fopen(&name, mode).unwrap();
            out.setvbuf(buffering, 0).unwrap();
            out
        });
        let (took, outcome) = timed(|| {
            session.run(Grid { blocks: 1, threads: 96 }, |_| {
                let thread = warp::global_thread();
                Call::Fwrite.write(out, thread, 0, 30);
                if thread == 40 {
                    let _ = write!(out, "{}", Treacherous(DeviceWord::new(0)));
                }
            })
        });
        assert!(
            matches!(&outcome, Err(SyncError::Kernel(error)) if error.to_string().contains("the second time"))
        );
        assert!(took < Duration::from_secs(10), "{took:?}");
        // Every record whose call returned is there.
        let text = scratch.read("out");
        for thread in 0..96 {
            let record = record(thread, 0, 30);
            let found = text.windows(record.as_bytes().len()).any(|window| window == record.as_bytes());
            assert!(found, "{mode:?} {buffering:?}: thread {thread}");
        }
        once(&mut session, |_| {
            out.fputs(c"\nafterwards\n").unwrap();
            out.fclose().unwrap();
        });
        assert!(scratch.read("out").ends_with(b"\nafterwards\n"));
        assert_works(&mut session);
        fs::remove_file(scratch.path("out")).unwrap();
    }
}

#[test]
fn a_wait_past_the_deadline_says_where() {
    for mode in MODES {
        let mut session = match small().mode(mode).deadline(Duration::from_millis(300)).cpu() {
            Ok(session) => session,
            Err(refused) => {
                skip(&format!("a_wait_past_the_deadline_says_where in {mode}"), refused);
                continue;
            }
        };
        let (mut reader, writer) = io::pipe().unwrap();
        let file = session.register_file(OwnedFd::from(reader.try_clone().unwrap())).unwrap();
        let outcome = session.run(lanes(1), |tables| {
            let mut bytes = [0; 4];
            let _ = Fs::new(tables).read(file, &mut bytes);
        });
        let said = outcome.map_err(|error| error.to_string()).unwrap_err();
        assert!(said.contains("stage Completion, ring 0"), "{mode}: {said}");
        let stage = session.tables().stall().stage.peek();
        assert_eq!(stage, 1 + gpufs_core::session::Stage::Completion as u32);
        assert_works(&mut session);
        let (took, ()) = timed(|| drop(session));
        assert!(took < Duration::from_secs(5), "{mode}: {took:?}");
        // The pipe is the caller's still.
        drop(writer);
        assert_eq!(reader.read(&mut [0; 4]).unwrap(), 0);
    }
}

#[test]
fn a_stream_to_a_pipe_that_nobody_reads() {
    let mut session = small().deadline(Duration::from_millis(500)).cpu().unwrap();
    let (mut reader, writer) = io::pipe().unwrap();
    let name = CString::new(format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd())).unwrap();
    let out = once(&mut session, |fs| fs.fopen(&name, c"w").unwrap());
    drop(writer);
    // More than a pipe holds, and less than the pipe and the stream's blocks together.
    let text = record(1, 1, 70_000);
    let (took, outcome) = timed(|| {
        session.run(lanes(1), |_| {
            out.fwrite(text.as_bytes()).unwrap();
        })
    });
    assert!(took < Duration::from_secs(5), "{took:?}");
    let Err(SyncError::Stream(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.errno, Errno::TIMEDOUT);
    // Once somebody reads, everything comes, in order, once.
    let read = std::thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).map(|_| all)
    });
    once(&mut session, |_| {
        out.fputs(c"the end\n").unwrap();
        out.fclose().unwrap();
    });
    let all = read.join().unwrap().unwrap();
    assert!(all == [text.as_bytes(), b"the end\n"].concat());
}
