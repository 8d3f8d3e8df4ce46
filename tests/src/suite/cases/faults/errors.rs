//! Calls that fail: the errno is the system call's, in the lane that asked and only there.
#![expect(unsafe_code, reason = "signals")]

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use gpufs_device::Errno;
use gpufs_device::file::{O_DIRECTORY, O_RDONLY, O_RDWR, O_WRONLY};

use super::super::sessions::assert_works;
use crate::suite::harness::{Answer, Do, fopen, fputs, open, results};
use crate::suite::{Bench, Outcome};
use crate::{MODES, Scratch, c_path, skip, small};

/// Lanes of one warp, each with another path.
pub fn errors_reach_the_lanes_that_asked(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("lanes");
    fs::write(scratch.path("file"), "x").unwrap();
    let paths = [scratch.c("none"), c_path(scratch.dir()), scratch.c("file/below"), scratch.c("file")];
    for mode in MODES {
        let mut harness = match bench.try_open(small().streams(64).blocks_per_stream(1).mode(mode)) {
            Ok(harness) => harness,
            Err(refused) => {
                skip(&format!("errors_reach_the_lanes_that_asked in {mode}"), refused);
                continue;
            }
        };
        let wanted = [Err(Errno::NOENT), Err(Errno::ISDIR), Err(Errno::NOTDIR), Ok(0)];
        let path = |lane: u32| &paths[lane as usize % 4];
        let opened = harness.every(32, |lane| open(lane, path(lane), O_RDWR));
        let closed = harness.every(32, Do::Close);
        let streams = harness.every(32, |lane| fopen(lane, path(lane), c"r+"));
        let streams_closed = harness.every(32, Do::Fclose);
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
        (0..8).for_each(|lane| harness.set_descriptor(lane * 4 + 2, 63));
        let read = harness.each(scripts.collect());
        let wanted = [Err(Errno::ISDIR), Err(Errno::BADF), Err(Errno::BADF), Ok(1)];
        for lane in 0..32 {
            assert_eq!(
                results(&read[lane])[..3],
                [Ok(0), wanted[lane % 4], wanted[lane % 4]],
                "{mode} lane {lane}"
            );
        }
        let long = CString::new(vec![b'x'; 5000]).unwrap();
        let answers = harness.once(vec![
            open(0, &long, O_RDONLY),
            fopen(0, &paths[3], c"wx"),
            fopen(0, &paths[3], c"q"),
        ]);
        assert_eq!(results(&answers), [Err(Errno::NAMETOOLONG), Err(Errno::EXIST), Err(Errno::INVAL)]);
        assert_works(&mut harness);
    }
    Outcome::Passed
}

/// Rust programs ignore SIGPIPE; C programs die of it.
pub fn a_broken_pipe_is_an_error_and_no_signal(bench: &Bench) -> Outcome {
    // SAFETY:
    // - the default action is no handler
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    for mode in MODES {
        let mut harness = match bench.try_open(small().mode(mode)) {
            Ok(harness) => harness,
            Err(refused) => {
                skip(&format!("a_broken_pipe_is_an_error_and_no_signal in {mode}"), refused);
                continue;
            }
        };
        let (reader, writer) = io::pipe().unwrap();
        let name = CString::new(format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd())).unwrap();
        let file = harness.session.register_file(writer).unwrap();
        harness.set_descriptor(0, file.0);
        harness.must(vec![fopen(0, &name, c"w")]);
        drop(reader);
        let nobody = || b"nobody".to_vec();
        let (answers, _) = harness.try_each(vec![vec![
            Do::Write(0, nobody()),
            Do::Fwrite(0, nobody()),
            Do::Fflush(0),
            Do::Fclose(0),
        ]]);
        let broken = Err(Errno::PIPE);
        assert_eq!(results(&answers[0]), [broken, Ok(6), broken, broken]);
        assert_works(&mut harness);
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
    let mut harness = bench.open(small());
    let answers = harness.must(vec![fopen(0, &name, c"r"), Do::Fread(0, 5000)]);
    assert_eq!(answers[1].value, 5000);
    fs::File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let answers = harness.must(vec![
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

/// Handles of closed streams and descriptors.
pub fn closed_is_closed(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("closed");
    let name = scratch.c("file");
    let mut harness = bench.open(small());
    harness.must(vec![fopen(0, &name, c"w+")]);
    // Of the lanes of a warp that close one stream together, one does.
    let closed = harness.every(32, |_| Do::FcloseAndKeep(0));
    assert_eq!(closed.iter().filter(|outcome| **outcome == Ok(0)).count(), 1);
    assert!(closed.iter().all(|outcome| matches!(outcome, Ok(0) | Err(Errno::BADF))), "{closed:?}");
    harness.set_descriptor(0, 40);
    let late = || b"late".to_vec();
    let refused = || {
        vec![
            Do::Fwrite(0, late()),
            fputs(0, c"late"),
            Do::Fread(0, 4),
            Do::Fgets(0, 4),
            Do::Fflush(0),
            Do::Getdelim(0, b'x', 8),
            Do::Fscanf(0, 0),
            Do::Flockfile(0),
            Do::Ftrylockfile(0),
            Do::Funlockfile(0),
            Do::Where(0),
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
    assert_refused(&harness.once(refused()));
    // The entry's next stream is none of the old handle's business.
    harness.must(vec![fopen(1, &name, c"w")]);
    harness.must(vec![fputs(1, c"mine")]);
    assert_refused(&harness.once(refused()));
    harness.must(vec![Do::Fclose(1)]);
    assert_eq!(scratch.read("file"), b"mine");
    Outcome::Passed
}
