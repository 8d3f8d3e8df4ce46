//! What goes wrong: each call gives the errno that the system call gives, in the lane that asked and only there, what a stream
//! accepted is kept, and the session stays usable.
#![expect(unsafe_code, reason = "mounts, limits, users and signals")]

use std::ffi::CString;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use gpufs_device::Errno;
use gpufs_device::file::{O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR, O_WRONLY};
use gpufs_device::stdio::Buffering;
use gpufs_host::Session;
use gpufs_host::session::SyncError;

use super::sessions::assert_works;
use crate::suite::rig::{Answer, Do, fopen, fputs, open, results};
use crate::suite::{Bench, Outcome};
use crate::{MODES, Scratch, c_path, record, skip, small};

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

/// Changes a soft limit of the whole process: only in one of its own.
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
    fn mount(test: &str) -> Result<Self, Outcome> {
        let scratch = Scratch::new(test);
        match mount_tmpfs(scratch.dir(), Self::BYTES) {
            Ok(()) => Ok(Self { scratch }),
            Err(error) => Err(Outcome::Skipped(format!("no small file system: {error}"))),
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

/// Blocks of [`fill_and_flush`].
const BLOCKS: usize = 4;
const BLOCK_BYTES: usize = 4096;

/// Fills every block exactly, flushes and closes: what was accepted, and the other two results.
fn fill_and_flush(bench: &Bench, path: &std::ffi::CStr) -> (i64, [Result<i64, Errno>; 2]) {
    let builder = Session::builder().buffers(1 << 20).blocks_per_stream(4).stream_buffer(4096);
    let mut rig = bench.open(builder.deadline(Duration::from_secs(5)));
    let mut calls = vec![fopen(0, path, c"w")];
    calls.extend(vec![Do::Fwrite(0, vec![b'x'; BLOCK_BYTES]); BLOCKS]);
    calls.extend([Do::Fflush(0), Do::Fclose(0)]);
    let answers = rig.once(calls);
    assert_eq!(answers[0].result(), Ok(0));
    let accepted = answers[1..=BLOCKS].iter().map(|answer| answer.value).sum();
    (accepted, [answers[BLOCKS + 1].result(), answers[BLOCKS + 2].result()])
}

/// A stream with a part of a block, an unbuffered stream and a descriptor.
fn small_writes_to_a_full_device(bench: &Bench) {
    let mut rig = bench.open(small());
    rig.must(vec![fopen(0, c"/dev/full", c"w")]);
    let (answers, outcome) = rig.try_each(vec![vec![Do::Fwrite(0, b"kept".to_vec()), Do::Fflush(0)]]);
    assert_eq!(results(&answers[0]), [Ok(4), Err(Errno::NOSPC)]);
    assert!(answers[0][1].error);
    assert!(
        matches!(&outcome, Err(SyncError::Stream(error)) if error.errno == Errno::NOSPC && error.unwritten == 4)
    );
    let (answers, _) = rig.try_each(vec![vec![Do::Fclose(0)]]);
    assert_eq!(results(&answers[0]), [Err(Errno::NOSPC)]);
    rig.synchronize().unwrap();
    let answers = rig.once(vec![
        fopen(0, c"/dev/full", c"w"),
        Do::Setvbuf(0, Buffering::None, 0),
        Do::Fwrite(0, b"refused".to_vec()),
        open(0, c"/dev/full", O_WRONLY),
        Do::Write(0, b"refused".to_vec()),
        Do::Close(0),
        Do::Fclose(0),
    ]);
    let full = Err(Errno::NOSPC);
    assert_eq!(results(&answers), [Ok(0), Ok(0), full, Ok(0), full, Ok(0), Ok(0)]);
    assert_eq!(answers[2].value, 0);
    assert_works(&mut rig);
}

/// Of a stream whose blocks are all full, the oldest shares its place with the block that comes next.
pub fn a_full_device_is_reported_at_every_flush(bench: &Bench) -> Outcome {
    let (_, outcomes) = fill_and_flush(bench, c"/dev/full");
    assert_eq!(outcomes, [Err(Errno::NOSPC); 2]);
    small_writes_to_a_full_device(bench);
    Outcome::Passed
}

/// The same, where it can be written.
pub fn a_file_gets_its_first_block_too(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("full-blocks");
    let found = fill_and_flush(bench, &scratch.c("file"));
    assert_eq!(found, ((BLOCKS * BLOCK_BYTES) as i64, [Ok(0); 2]));
    assert!(scratch.read("file") == [b'x'; BLOCKS * BLOCK_BYTES]);
    Outcome::Passed
}

/// What calls of `fwrite` accepted, and the errors they gave.
fn accepted(texts: &[CString], answers: &[Answer]) -> (Vec<u8>, Vec<Errno>) {
    let (mut bytes, mut errors) = (Vec::new(), Vec::new());
    for (text, answer) in texts.iter().zip(answers).filter(|(_, answer)| answer.done) {
        bytes.extend_from_slice(&text.as_bytes()[..usize::try_from(answer.value).expect("a count")]);
        errors.extend(answer.result().err());
    }
    (bytes, errors)
}

/// Nothing is lost, doubled or torn, and what there is room for later comes.
pub fn a_full_disk_keeps_what_was_accepted(bench: &Bench) -> Outcome {
    let disk = match FullDisk::mount("full-disk") {
        Ok(disk) => disk,
        Err(skipped) => return skipped,
    };
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
        let mut rig = bench.open(small().stream_buffer(8192));
        disk.fill(12 << 10);
        let name = disk.scratch.c("log");
        rig.must(vec![fopen(0, &name, mode), Do::Setvbuf(0, buffering, bytes)]);
        let what = format!("{mode:?} {buffering:?} {bytes}");
        // Until none is accepted in full any more. The kernel's own synchronization meets the full disk too.
        let texts: Vec<CString> = (0..2000).map(|round| record(7, round, 90)).collect();
        rig.stops = true;
        let calls = texts.iter().map(|text| Do::Fwrite(0, text.as_bytes().to_vec())).collect();
        let (mut answers, outcome) = rig.try_each(vec![calls]);
        rig.stops = false;
        let answers = answers.pop().expect("a lane's");
        let (mut accepted, errors) = accepted(&texts, &answers);
        assert_eq!(errors, [Errno::NOSPC], "{what}");
        assert!(answers.iter().rfind(|answer| answer.done).is_some_and(|answer| answer.error), "{what}");
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
        let (answers, _) =
            rig.try_each(vec![vec![fopen(1, &elsewhere, c"w"), fputs(1, c"all is well"), Do::Fclose(1)]]);
        assert_eq!(results(&answers[0]), [Ok(0); 3]);
        if kept > 0 {
            assert!(
                matches!(rig.synchronize(), Err(SyncError::Stream(error)) if error.errno == Errno::NOSPC)
            );
        }
        assert_eq!(others.read("file"), b"all is well");
        disk.make_room();
        rig.must(vec![Do::Fflush(0)]);
        assert!(disk.scratch.read("log") == accepted, "{what}");
        let more = record(7, 1000, 5);
        let calls =
            vec![Do::Clearerr(0), Do::Fwrite(0, more.as_bytes().to_vec()), Do::Flags(0), Do::Fclose(0)];
        assert!(!rig.must(calls)[2].error);
        accepted.extend_from_slice(more.as_bytes());
        assert!(disk.scratch.read("log") == accepted, "{what}");
        fs::remove_file(disk.scratch.path("log")).unwrap();
        assert_works(&mut rig);
    }
    Outcome::Passed
}

/// 512 threads × 3 × about 48 bytes: more than there is room for, with the blocks' own.
pub fn a_full_disk_under_many_lanes(bench: &Bench) -> Outcome {
    let disk = match FullDisk::mount("full-disk-lanes") {
        Ok(disk) => disk,
        Err(skipped) => return skipped,
    };
    let mut rig = bench.open(small());
    disk.fill(20 << 10);
    rig.must(vec![fopen(0, &disk.scratch.c("log"), c"w")]);
    let texts: Vec<Vec<CString>> =
        (0..512).map(|thread| (0..3).map(|round| record(thread, round, 40)).collect()).collect();
    let script =
        |texts: &Vec<CString>| texts.iter().map(|text| Do::Fwrite(0, text.as_bytes().to_vec())).collect();
    let (answers, _) = rig.try_each(texts.iter().map(script).collect());
    let (mut count, mut refused) = (0, 0);
    for (texts, answers) in texts.iter().zip(&answers) {
        let (bytes, errors) = accepted(texts, answers);
        count += bytes.len();
        refused += errors.len();
        assert!(errors.iter().all(|errno| *errno == Errno::NOSPC), "{errors:?}");
        for (text, answer) in texts.iter().zip(answers) {
            assert!(answer.errno != 0 || answer.value as usize == text.as_bytes().len());
        }
    }
    assert!(refused > 0, "the disk was not full");
    disk.make_room();
    rig.synchronize().unwrap();
    rig.must(vec![Do::Fclose(0)]);
    assert_eq!(disk.scratch.read("log").len(), count);
    Outcome::Passed
}

/// Lanes of one warp, each with another path.
pub fn errors_reach_the_lanes_that_asked(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("lanes");
    fs::write(scratch.path("file"), "x").unwrap();
    let paths = [scratch.c("none"), c_path(scratch.dir()), scratch.c("file/below"), scratch.c("file")];
    for mode in MODES {
        let mut rig = match bench.try_open(small().streams(64).blocks_per_stream(1).mode(mode)) {
            Ok(rig) => rig,
            Err(refused) => {
                skip(&format!("errors_reach_the_lanes_that_asked in {mode}"), refused);
                continue;
            }
        };
        let wanted = [Err(Errno::NOENT), Err(Errno::ISDIR), Err(Errno::NOTDIR), Ok(0)];
        let path = |lane: u32| &paths[lane as usize % 4];
        let opened = rig.every(32, |lane| open(lane, path(lane), O_RDWR));
        let closed = rig.every(32, Do::Close);
        let streams = rig.every(32, |lane| fopen(lane, path(lane), c"r+"));
        let streams_closed = rig.every(32, Do::Fclose);
        for lane in 0..32 {
            let wanted = wanted[lane % 4];
            assert_eq!((opened[lane], streams[lane]), (wanted, wanted), "{mode} lane {lane}");
            let wanted = (wanted.is_ok(), wanted.is_ok());
            assert_eq!((closed[lane].is_ok(), streams_closed[lane].is_ok()), wanted, "{mode} lane {lane}");
        }
        // Reading: a directory, a file for writing only, no file at all, and a file.
        let scripts = (0..32_u32).map(|lane| {
            let first = match lane % 4 {
                0 => open(lane, &paths[1], O_RDONLY | O_DIRECTORY),
                1 => open(lane, &paths[3], O_WRONLY),
                2 => Do::Nap(Duration::ZERO),
                _ => open(lane, &paths[3], O_RDONLY),
            };
            vec![first, Do::Read(lane, 4), Do::Pread(lane, 4, 0), Do::Close(lane)]
        });
        (0..8).for_each(|lane| rig.set_descriptor(lane * 4 + 2, 63));
        let read = rig.each(scripts.collect());
        let wanted = [Err(Errno::ISDIR), Err(Errno::BADF), Err(Errno::BADF), Ok(1)];
        for lane in 0..32 {
            assert_eq!(
                results(&read[lane])[..3],
                [Ok(0), wanted[lane % 4], wanted[lane % 4]],
                "{mode} lane {lane}"
            );
        }
        let long = CString::new(vec![b'x'; 5000]).unwrap();
        let answers =
            rig.once(vec![open(0, &long, O_RDONLY), fopen(0, &paths[3], c"wx"), fopen(0, &paths[3], c"q")]);
        assert_eq!(results(&answers), [Err(Errno::NAMETOOLONG), Err(Errno::EXIST), Err(Errno::INVAL)]);
        assert_works(&mut rig);
    }
    Outcome::Passed
}

/// Rust programs ignore SIGPIPE; C programs die of it.
pub fn a_broken_pipe_is_an_error_and_no_signal(bench: &Bench) -> Outcome {
    // SAFETY:
    // - the default action is no handler
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    for mode in MODES {
        let mut rig = match bench.try_open(small().mode(mode)) {
            Ok(rig) => rig,
            Err(refused) => {
                skip(&format!("a_broken_pipe_is_an_error_and_no_signal in {mode}"), refused);
                continue;
            }
        };
        let (reader, writer) = io::pipe().unwrap();
        let name = CString::new(format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd())).unwrap();
        let file = rig.session.register_file(writer).unwrap();
        rig.set_descriptor(0, file.0);
        rig.must(vec![fopen(0, &name, c"w")]);
        drop(reader);
        let nobody = || b"nobody".to_vec();
        let (answers, _) = rig.try_each(vec![vec![
            Do::Write(0, nobody()),
            Do::Fwrite(0, nobody()),
            Do::Fflush(0),
            Do::Fclose(0),
        ]]);
        let broken = Err(Errno::PIPE);
        assert_eq!(results(&answers[0]), [broken, Ok(6), broken, broken]);
        assert_works(&mut rig);
    }
    // SAFETY:
    // - nor is this one
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    Outcome::Passed
}

/// What the buffer holds is given, and then the end is met.
pub fn a_file_that_shrinks_under_its_reader(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("shrinks");
    let (path, name) = (scratch.path("file"), scratch.c("file"));
    fs::write(&path, vec![b'x'; 64 << 10]).unwrap();
    let mut rig = bench.open(small());
    let answers = rig.must(vec![fopen(0, &name, c"r"), Do::Fread(0, 5000)]);
    assert_eq!(answers[1].value, 5000);
    fs::File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let answers = rig.must(vec![
        Do::Fread(0, 10_000),
        Do::Fread(0, 10_000),
        Do::Rewind(0),
        Do::Fread(0, 10_000),
        open(0, &name, O_RDONLY),
        Do::Pread(0, 10_000, 500),
        Do::Pread(0, 10_000, 1000),
        Do::Close(0),
        Do::Fclose(0),
    ]);
    let values: Vec<i64> = answers.iter().map(|answer| answer.value).collect();
    assert_eq!(values, [8192 - 5000, 0, 0, 1000, 0, 500, 0, 0, 0]);
    assert!(answers[0].end && !answers[0].error);
    Outcome::Passed
}

/// As a user who owns nothing.
pub fn a_directory_without_permission(bench: &Bench) -> Outcome {
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
        return Outcome::Skipped(format!(
            "root may open anything, and cannot become another: {}",
            io::Error::last_os_error()
        ));
    }
    // Nobody may lock little memory: what cannot be registered is copied or named by the whole.
    let mut rig = bench.open(small().streams(64).blocks_per_stream(1));
    let open = scratch.c("open");
    let outcomes = rig.every(32, |lane| fopen(lane, if lane % 2 == 0 { &name } else { &open }, c"r"));
    for (lane, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome, if lane % 2 == 0 { Err(Errno::ACCES) } else { Ok(0) });
    }
    rig.every(32, Do::Abandon);
    assert_eq!(rig.once(vec![fopen(0, &open, c"w")])[0].result(), Err(Errno::ACCES));
    drop(rig);
    // Back to the user that may remove the directory.
    // SAFETY:
    // - the call takes numbers
    unsafe { libc::setresuid(u32::MAX, 0, u32::MAX) };
    Outcome::Passed
}

/// The session's own: files, streams, stream buffers.
pub fn tables_run_out(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("tables");
    let name = scratch.c("file");
    let full = |outcomes: &[Result<i64, Errno>], errno| {
        assert!(outcomes.iter().all(|one| *one == Ok(0) || *one == Err(errno)), "{outcomes:?}");
        outcomes.iter().filter(|outcome| outcome.is_ok()).count()
    };
    let mut rig = bench.open(small().files(12).streams(10));
    // 9 files and 7 streams beside the standard ones.
    let files = rig.every(32, |lane| open(lane, &name, O_RDWR | O_CREAT));
    assert_eq!(full(&files, Errno::MFILE), 9);
    assert_eq!(rig.once(vec![fopen(40, &name, c"r")])[0].result(), Err(Errno::MFILE));
    assert_eq!(full(&rig.every(32, Do::Close), Errno::BADF), 9);
    for _ in 0..3 {
        let streams = rig.every(32, |lane| fopen(lane, &name, c"r"));
        assert_eq!(full(&streams, Errno::MFILE), 7);
        assert_eq!(full(&rig.every(32, Do::Fclose), Errno::NXIO), 7);
    }
    assert_works(&mut rig);
    drop(rig);

    // 16 stream buffers of 4 KiB: 13 streams, three of them the standard ones.
    let mut rig = bench.open(small().buffers(128 << 10).read_ahead(0));
    let streams = rig.every(20, |lane| fopen(lane, &name, c"r"));
    assert_eq!(full(&streams, Errno::MFILE), 10);
    rig.every(20, Do::Abandon);
    assert_works(&mut rig);
    Outcome::Passed
}

/// `RLIMIT_NOFILE`.
pub fn the_process_runs_out_of_descriptors(bench: &Bench) -> Outcome {
    for mode in MODES {
        let mut rig = match bench.try_open(small().mode(mode)) {
            Ok(rig) => rig,
            Err(refused) => {
                skip(&format!("the_process_runs_out_of_descriptors in {mode}"), refused);
                continue;
            }
        };
        let scratch = Scratch::new("descriptors");
        let name = scratch.c("file");
        fs::write(scratch.path("file"), "x").unwrap();
        // Whatever the device's driver opens when it is first used is open then.
        assert_works(&mut rig);
        let most = fs::File::open("/dev/null").unwrap().as_raw_fd() + 5;
        limit(libc::RLIMIT_NOFILE, u64::try_from(most).unwrap());
        // SAFETY:
        // - the call takes numbers
        let free = (0..most).filter(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } < 0).count();
        assert!((1..=5).contains(&free));
        let files = rig.every(32, |lane| open(lane, &name, O_RDONLY));
        assert_eq!(files.iter().filter(|file| file.is_ok()).count(), free, "{mode}: {files:?}");
        assert!(files.iter().all(|file| matches!(file, Ok(_) | Err(Errno::MFILE))), "{mode}: {files:?}");
        rig.every(32, Do::Abandon);
        rig.must(vec![fopen(0, &name, c"r"), Do::Fclose(0)]);
        limit(libc::RLIMIT_NOFILE, 1024);
        assert_works(&mut rig);
    }
    Outcome::Passed
}

/// `RLIMIT_FSIZE`. SIGXFSZ would end the process if it came.
pub fn a_file_grows_past_the_limit(bench: &Bench) -> Outcome {
    for mode in MODES {
        let mut rig = match bench.try_open(small().mode(mode)) {
            Ok(rig) => rig,
            Err(refused) => {
                skip(&format!("a_file_grows_past_the_limit in {mode}"), refused);
                continue;
            }
        };
        let scratch = Scratch::new("limit");
        assert_works(&mut rig);
        limit(libc::RLIMIT_FSIZE, 8192);
        let answers = rig.once(vec![
            open(0, &scratch.c("file"), O_RDWR | O_CREAT),
            Do::Pwrite(0, vec![1; 4096], 0),
            Do::Pwrite(0, vec![1; 8192], 4096),
            Do::Pwrite(0, vec![1], 8192),
            Do::Close(0),
        ]);
        limit(libc::RLIMIT_FSIZE, libc::RLIM_INFINITY);
        let written = &results(&answers)[1..4];
        if written[2] == Ok(1) {
            let reason = "the service does not keep to RLIMIT_FSIZE";
            skip(&format!("a_file_grows_past_the_limit in {mode}"), reason);
        } else {
            assert_eq!(written, [Ok(4096), Ok(4096), Err(Errno::FBIG)], "{mode}");
        }
        assert_works(&mut rig);
    }
    Outcome::Passed
}

/// Handles of closed streams and descriptors.
pub fn closed_is_closed(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("closed");
    let name = scratch.c("file");
    let mut rig = bench.open(small());
    rig.must(vec![fopen(0, &name, c"w+")]);
    // Of the lanes of a warp that close one stream together, one does.
    let closed = rig.every(32, |_| Do::FcloseAndKeep(0));
    assert_eq!(closed.iter().filter(|outcome| **outcome == Ok(0)).count(), 1);
    assert!(closed.iter().all(|outcome| matches!(outcome, Ok(0) | Err(Errno::BADF))), "{closed:?}");
    rig.set_descriptor(0, 40);
    let late = || b"late".to_vec();
    let refused = || {
        vec![
            Do::Fwrite(0, late()),
            fputs(0, c"late"),
            Do::Fread(0, 4),
            Do::Fgets(0, 4),
            Do::Fflush(0),
            Do::FcloseAndKeep(0),
            Do::Ftell(0),
            Do::CloseAndKeep(0),
            Do::Write(0, late()),
            Do::Pwrite(0, late(), 0),
            Do::Fsync(0),
        ]
    };
    let assert_refused = |answers: &[Answer]| {
        for (index, answer) in answers.iter().enumerate() {
            assert_eq!(answer.result(), Err(Errno::BADF), "call {index}");
            assert!(!answer.end && !answer.error, "call {index}");
        }
    };
    assert_refused(&rig.once(refused()));
    // The entry's next stream is none of the old handle's business.
    rig.must(vec![fopen(1, &name, c"w")]);
    rig.must(vec![fputs(1, c"mine")]);
    assert_refused(&rig.once(refused()));
    rig.must(vec![Do::Fclose(1)]);
    assert_eq!(scratch.read("file"), b"mine");
    Outcome::Passed
}

/// The report names the reason, the ring, and what was waited for.
pub fn a_wait_past_the_deadline_says_where(bench: &Bench) -> Outcome {
    for mode in MODES {
        let mut rig = match bench.try_open(small().mode(mode).deadline(Duration::from_millis(300))) {
            Ok(rig) => rig,
            Err(refused) => {
                skip(&format!("a_wait_past_the_deadline_says_where in {mode}"), refused);
                continue;
            }
        };
        let (mut reader, writer) = io::pipe().unwrap();
        let file = rig.session.register_file(OwnedFd::from(reader.try_clone().unwrap())).unwrap();
        rig.set_descriptor(0, file.0);
        let started = rig.start(vec![vec![Do::Read(0, 4)]]);
        let said = rig.synchronize().map_err(|error| error.to_string()).unwrap_err();
        assert!(said.contains("reason Completion, ring 0"), "{mode}: {said}");
        // Behind the 64 operations that a new ring is tried with: the read that would have waited, and the poll that does.
        assert!(said.contains("66 tickets, SQ tail 66, CQ tail 65") || !bench.is_gpu(), "{mode}: {said}");
        drop(started);
        if bench.is_gpu() {
            // The context is gone with the kernel, and this process's with it.
            return Outcome::Passed;
        }
        let reason = rig.session.tables().stall().reason.peek();
        assert_eq!(reason, 1 + gpufs_core::session::WaitReason::Completion as u32);
        assert_works(&mut rig);
        drop(rig);
        // The pipe is the caller's still.
        drop(writer);
        assert_eq!(reader.read(&mut [0; 4]).unwrap(), 0);
    }
    Outcome::Passed
}

/// More than a pipe holds, and less than the pipe and the stream's blocks together.
pub fn a_stream_to_a_pipe_that_nobody_reads(bench: &Bench) -> Outcome {
    let mut rig = bench.open(small().deadline(Duration::from_millis(500)));
    let (mut reader, writer) = io::pipe().unwrap();
    let name = CString::new(format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd())).unwrap();
    rig.must(vec![fopen(0, &name, c"w")]);
    drop(writer);
    let text = record(1, 1, 70_000);
    let calls = vec![vec![Do::Fwrite(0, text.as_bytes().to_vec())]];
    let (answers, outcome) = rig.try_each(calls);
    assert_eq!(answers[0][0].result(), Ok(text.as_bytes().len() as i64));
    let Err(SyncError::Stream(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.errno, Errno::TIMEDOUT);
    // Once somebody reads, everything comes, in order, once.
    let read = std::thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).map(|_| all)
    });
    rig.must(vec![fputs(0, c"the end\n"), Do::Fclose(0)]);
    let all = read.join().unwrap().unwrap();
    assert!(all == [text.as_bytes(), b"the end\n"].concat());
    Outcome::Passed
}
