//! After a lane's panic: the others end, `synchronize` says what was said, and every stream and file can be used by the next launch.

use std::ffi::CStr;
use std::io::Write as _;
use std::time::{Duration, Instant};

use gpufs_device::file::{O_RDONLY, Whence};
use gpufs_device::{Errno, File, fprintf, warp};
use gpufs_host::cpu::Schedule;
use gpufs_host::ring::Mode;
use gpufs_host::session::SyncError;
use gpufs_host::{CpuOptions, Grid, Session};
use gpufs_tests::closures::assert_works;
use gpufs_tests::{Scratch, each, lanes, once, small};

fn session(options: CpuOptions) -> Session {
    small().mode(Mode::Enter).deadline(gpufs_tests::patience()).cpu_with(options).unwrap()
}

fn machines() -> impl Iterator<Item = CpuOptions> {
    [(1, Schedule::Fast), (32, Schedule::Fast), (64, Schedule::Fast), (32, Schedule::Seeded(7))]
        .map(|(width, schedule)| CpuOptions { width, schedule, ..CpuOptions::default() })
        .into_iter()
}

/// One lane panics while all others make calls, again and again, until they are given up. Only the others look at the clock: on a busy machine
/// five seconds may pass before the one has had its rounds.
fn panic_while(session: &mut Session, call: impl Fn(u64) + Sync) {
    let until = Instant::now() + Duration::from_secs(5);
    let outcome = session.run(Grid { blocks: 2, threads: 64 }, |_| {
        let thread = warp::global_thread();
        for round in 0.. {
            assert!(thread != 5 || round < 2, "thread 5 has had enough");
            call(thread);
            if thread != 5 && Instant::now() > until {
                break;
            }
        }
    });
    match outcome {
        Err(SyncError::Kernel(error)) => assert!(error.to_string().contains("has had enough"), "{error}"),
        other => panic!("{other:?}"),
    }
}

/// Every call on the stream returns, and what it reads is the file's.
fn assert_usable(session: &mut Session, file: File, line: &CStr) {
    let results = each(session, 40, |_, lane| {
        let mut text = [0; 64];
        match lane % 5 {
            0 => file.fread(&mut text).map(drop),
            1 => file.fgets(&mut text).map(drop),
            2 => file.fgetc().map(drop),
            3 => file.ftell().map(drop),
            _ => file.fflush(),
        }
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    once(session, |fs| {
        file.fseek(0, Whence::Set).unwrap();
        let mut text = [0; 64];
        assert_eq!(file.fgets(&mut text), Ok(Some(line)));
        fs.fflush_all().unwrap();
        file.fclose().unwrap();
    });
    assert_works(session);
}

#[test]
fn streams_that_others_were_reading_can_be_read() {
    let scratch = Scratch::new("unwound-read");
    std::fs::write(scratch.path("text"), "a line of the text\n".repeat(200_000)).unwrap();
    let calls: [fn(File); 3] = [
        |file| {
            let _ = file.fread(&mut [0; 700]);
        },
        |file| {
            let _ = file.fgets(&mut [0; 64]).is_ok();
        },
        |file| {
            let _ = file.fseek(0, Whence::Set);
            let _ = file.fread(&mut [0; 9000]);
        },
    ];
    for options in machines() {
        for call in calls {
            let mut session = session(options.clone());
            let file = once(&mut session, |fs| fs.fopen(&scratch.c("text"), c"r").unwrap());
            panic_while(&mut session, |_| {
                // A file that is at its end is read again.
                if file.feof() {
                    file.rewind();
                }
                call(file);
            });
            assert_usable(&mut session, file, c"a line of the text\n");
        }
    }
}

#[test]
fn streams_and_files_that_others_were_using_can_be_used() {
    let scratch = Scratch::new("unwound-write");
    for options in machines() {
        let mut session = session(options);
        let (file, raw) = once(&mut session, |fs| {
            (fs.fopen(&scratch.c("out"), c"w+").unwrap(), fs.open(&scratch.c("out"), O_RDONLY, 0).unwrap())
        });
        let fs = file.fs();
        panic_while(&mut session, |thread| {
            fprintf!(file, c"a line of %d\n", 1).unwrap();
            match thread % 4 {
                0 => file.fflush().unwrap(),
                1 => assert!(fs.read(raw, &mut [0; 100]).is_ok()),
                2 => assert_eq!(fs.lseek(raw, 0, Whence::Set), Ok(0)),
                _ => assert!(file.ftell().is_ok()),
            }
        });
        once(&mut session, |fs| {
            fs.lseek(raw, 0, Whence::Set).unwrap();
            let mut text = [0; 12];
            assert_eq!(fs.read(raw, &mut text), Ok(12));
            assert_eq!(&text, b"a line of 1\n");
            fs.close(raw).unwrap();
        });
        let text = scratch.read("out");
        assert!(text.chunks(12).all(|line| line == b"a line of 1\n"), "nothing else is in the file");
        assert_usable(&mut session, file, c"a line of 1\n");
    }
}

/// A read of a pipe that nobody writes passes the deadline: the kernel has it still, and everything but that read goes on.
#[test]
fn a_read_that_never_ends_holds_nothing_else() {
    let scratch = Scratch::in_memory("unwound-pipe");
    let mut session = small().mode(Mode::Enter).deadline(Duration::from_secs(4)).cpu().unwrap();
    let (from, mut to) = std::io::pipe().unwrap();
    let input = session.register_file(from).unwrap();
    let outcome = session.run(lanes(8), |fs| {
        let _ = fs.read(input, &mut [0; 16]);
    });
    assert!(matches!(outcome, Err(SyncError::Kernel(_))), "{outcome:?}");
    let file = once(&mut session, |fs| {
        let file = fs.fopen(&scratch.c("out"), c"w+").unwrap();
        file.fputs(c"a line\n").unwrap();
        file
    });
    assert_usable(&mut session, file, c"a line\n");
    // What the lost reads do not take is there for others.
    for _ in 0..20 {
        to.write_all(&[b'x'; 16]).unwrap();
    }
    let read = once(&mut session, |fs| fs.read(input, &mut [0; 16]));
    assert!(matches!(read, Ok(1..=16) | Err(Errno::AGAIN)), "{read:?}");
}
