//! Output survives the device ([D-14]): kernels are stopped for ever at a random instruction, or end, the tables are given up, and
//! the host writes from the journal, the buffers and the rings alone what returned calls had accepted.
#![expect(unsafe_code, reason = "signals, and a device that is given up")]

use std::ffi::CString;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gpufs_core::word::DeviceWord;
use gpufs_device::file::{O_CREAT, O_RDWR};
use gpufs_device::stdio::Buffering;
use gpufs_device::{Errno, File, fprintf, warp};
use gpufs_host::session::{Fault, SyncError};
use gpufs_host::{CpuOptions, Grid, Session};
use gpufs_test_kernels::{Call, Letters};
use gpufs_tests::closures::{assert_works, is_child, run_child};
use gpufs_tests::random::Random;
use gpufs_tests::returned::{RECORD_BYTES_MAX, check, record};
use gpufs_tests::stopped::{alone, fault, register_lane, stop_lanes};
use gpufs_tests::suite::Bench;
use gpufs_tests::suite::cases::sessions;
use gpufs_tests::suite::printing::{Printing, check_records};
use gpufs_tests::{MODES, Scratch, lanes, once, setting, skip, small};

/// Where the kernels write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    New,
    Append,
    Pipe,
}

/// A reader of everything that comes out of a pipe.
type Reader = JoinHandle<io::Result<Vec<u8>>>;

fn open(session: &mut Session, output: Output, scratch: &Scratch) -> (File, Option<Reader>) {
    if output != Output::Pipe {
        let (name, mode) = (scratch.c("out"), if output == Output::New { c"w" } else { c"a" });
        return (once(session, |fs| fs.fopen(&name, mode).unwrap()), None);
    }
    let (mut reader, writer) = io::pipe().unwrap();
    let name = CString::new(format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd())).unwrap();
    let out = once(session, |fs| fs.fopen(&name, c"w").unwrap());
    drop(writer);
    let read = thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).map(|_| all)
    });
    (out, Some(read))
}

fn stopped_anywhere(seed: u64) {
    let random = Random::new(seed);
    let mode = random.pick(&MODES);
    let output = random.pick(&[Output::New, Output::Append, Output::Pipe]);
    let buffer = random.pick(&[
        None,
        None,
        Some((Buffering::Full, 16)),
        Some((Buffering::Full, 256)),
        Some((Buffering::Line, 0)),
        Some((Buffering::None, 0)),
    ]);
    let bytewise = random.one_in(4);
    let style = random.below(3) as u32;
    let width = random.pick(&[1, 4, 32]);
    let builder = small().survives(true).rings(random.pick(&[1, 2])).mode(mode);
    let builder = builder.blocks_per_stream(random.pick(&[1, 2, 4]));
    let options = CpuOptions { width, threads: random.pick(&[1, 3]), ..CpuOptions::default() };
    println!("seed {seed}: {mode} {output:?} {buffer:?} bytewise {bytewise} style {style} {options:?}");
    let mut session = match builder.cpu_with(options) {
        Ok(session) => session,
        Err(refused) => return skip(&format!("stopped_anywhere in {mode}"), refused),
    };
    let scratch = Scratch::new("stopped");
    let (out, reader) = open(&mut session, output, &scratch);
    if let Some((buffering, bytes)) = buffer {
        once(&mut session, |_| out.setvbuf(buffering, bytes).unwrap());
    }
    let grid = random.pick(&[lanes(1), lanes(26), Grid { blocks: 2, threads: 13 }]);
    let threads = (grid.blocks * grid.threads) as usize;
    let progress: &'static [DeviceWord] = Vec::leak((0..threads).map(|_| DeviceWord::new(0)).collect());
    session
        .launch(grid, move |_| {
            register_lane();
            let thread = warp::global_thread() as u32;
            let mut text = [0; RECORD_BYTES_MAX];
            for round in 0.. {
                if bytewise {
                    out.fputc(b'A' + thread as u8).unwrap();
                } else {
                    let length = record(&mut text, thread, round, style);
                    out.fwrite(&text[..length]).unwrap();
                }
                progress[thread as usize].publish(round + 1);
            }
        })
        .unwrap();
    while progress.iter().any(|progress| progress.observe() == 0) {
        thread::sleep(Duration::from_micros(50));
    }
    thread::sleep(Duration::from_micros(random.below(20_000) as u64));
    stop_lanes();
    let returned: Vec<u32> = progress.iter().map(DeviceWord::observe).collect();
    // SAFETY:
    // - its kernel's threads have stopped for ever
    let fault = fault(unsafe { session.pretend_fault() });
    println!("{} calls returned; {fault}", returned.iter().sum::<u32>());
    assert!(fault.recovery.kept);
    assert_eq!(fault.recovery.lost(), 0);
    assert!(matches!(session.synchronize(), Err(SyncError::Dead)));
    drop(session);
    let text = match reader {
        Some(reader) => reader.join().unwrap().unwrap(),
        None => scratch.read("out"),
    };
    if !bytewise {
        return check(&text, &returned, style);
    }
    for (letter, returned) in (b'A'..).zip(&returned) {
        let found = text.iter().filter(|byte| **byte == letter).count() as u32;
        assert!(
            (*returned..=returned + 1).contains(&found),
            "{}: {found}, {returned} returned",
            letter as char
        );
    }
}

#[test]
fn whatever_returned_is_written_wherever_lanes_stop() {
    let _alone = alone();
    let (first, count) = (setting("GPUFS_SEED", 1), setting("GPUFS_CASES", 40));
    for seed in first..first + count {
        let outcome = std::panic::catch_unwind(|| stopped_anywhere(seed));
        assert!(outcome.is_ok(), "with GPUFS_SEED={seed}");
    }
}

#[test]
fn a_session_with_a_journal_works_as_without() {
    let grid = Grid { blocks: 3, threads: 100 };
    for mode in [c"w", c"a", c"w+"] {
        for buffer in
            [None, Some((Buffering::Full, 16)), Some((Buffering::Line, 0)), Some((Buffering::None, 0))]
        {
            let mut harness = Bench::cpu("").open(small().rings(2).survives(true));
            let letters = Letters::Drawn { seed: 11, far: false };
            Printing { grid, rounds: 10, mode, buffer, call: Call::Mixed, letters }.run(&mut harness, "kept");
            sessions::assert_works(&mut harness);
            assert_eq!(harness.session.statistics().total().stale, 0);
        }
    }
}

#[test]
fn what_ended_kernels_left_is_written_without_the_tables() {
    let scratch = Scratch::new("ended");
    let (name, again) = (scratch.c("out"), scratch.c("again"));
    let mut session = small().survives(true).cpu().unwrap();
    let out = once(&mut session, |fs| {
        // Buffers that other streams have used, and a stream that is closed with its file.
        for _ in 0..20 {
            let other = fs.fopen(&again, c"w").unwrap();
            other.fputs(c"closed").unwrap();
            other.fclose().unwrap();
        }
        fs.fopen(&name, c"w").unwrap()
    });
    let full = once(&mut session, |fs| fs.fopen(c"/dev/full", c"w").unwrap());
    session
        .launch(lanes(50), move |_| {
            let thread = warp::global_thread();
            let text = gpufs_tests::record(thread, 0, 150);
            match thread % 3 {
                0 => fprintf!(out, c"%s", text.as_c_str()).map(drop),
                1 => out.fputs(&text),
                _ => out.fwrite(text.as_bytes()).map(drop),
            }
            .unwrap();
            full.fputs(c"bad").unwrap();
        })
        .unwrap();
    while !session.is_finished() {
        thread::sleep(Duration::from_millis(1));
    }
    // SAFETY:
    // - its kernel has ended
    let Fault { recovery, stalled, .. } = fault(unsafe { session.pretend_fault() });
    assert_eq!(stalled, None);
    check_records(&scratch.read("out"), 50, 1, Letters::Fixed(150));
    assert_eq!(scratch.read("again"), b"closed");
    let bad = recovery.streams.iter().find(|stream| stream.file == "/dev/full").unwrap();
    assert_eq!((bad.lost, bad.written, bad.errno), (150, 0, Some(Errno::NOSPC)));
    let good = recovery.streams.iter().find(|stream| stream.file.ends_with("out")).unwrap();
    assert_eq!((good.lost, good.unfinished, good.errno), (0, 0, None));
    assert_eq!(recovery.lost(), 150);
    // Dead, and says so; nothing is written twice.
    let length = scratch.read("out").len();
    assert!(matches!(session.run(lanes(1), |_| {}), Err(SyncError::Dead)));
    assert!(session.launch(lanes(1), |_| {}).unwrap_err().to_string().contains("new session"));
    let held = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to == scratch.path("out")))
            .count()
    };
    assert_eq!(held(), 1);
    drop(session);
    assert_eq!(held(), 0);
    assert_eq!(scratch.read("out").len(), length);
    assert_works(&mut small().cpu().unwrap());
}

#[test]
fn without_a_journal_it_says_so() {
    let scratch = Scratch::new("without");
    let name = scratch.c("out");
    let mut session = small().cpu().unwrap();
    once(&mut session, |fs| fs.fopen(&name, c"w").unwrap());
    // SAFETY:
    // - its kernel has ended
    let error = unsafe { session.pretend_fault() };
    assert!(error.to_string().contains("no journal"), "{error}");
    assert!(!fault(error).recovery.kept);
}

#[test]
fn seeks_reads_and_appends_before_the_fault() {
    let scratch = Scratch::new("seeks");
    let (name, log) = (scratch.c("out"), scratch.c("log"));
    std::fs::write(scratch.path("log"), b"old\n").unwrap();
    let mut session = small().survives(true).cpu().unwrap();
    let (out, add) = once(&mut session, |fs| {
        let out = fs.fopen(&name, c"w+").unwrap();
        out.fputs(c"0123456789").unwrap();
        out.fseek(2, gpufs_device::stdio::Whence::Set).unwrap();
        let mut two = [0; 2];
        assert_eq!(out.fread(&mut two), Ok(2));
        out.fseek(5000, gpufs_device::stdio::Whence::Set).unwrap();
        (out, fs.fopen(&log, c"a").unwrap())
    });
    session
        .launch(lanes(1), move |_| {
            out.fputs(c"far").unwrap();
            add.fputs(c"new\n").unwrap();
            add.fflush().unwrap();
            add.fputs(c"newer\n").unwrap();
        })
        .unwrap();
    while !session.is_finished() {
        thread::sleep(Duration::from_millis(1));
    }
    // SAFETY:
    // - its kernel has ended
    let Fault { recovery, .. } = fault(unsafe { session.pretend_fault() });
    assert_eq!((recovery.written(), recovery.lost()), (9, 0));
    let text = scratch.read("out");
    assert!(text.starts_with(b"0123456789\0") && text.ends_with(b"\0far") && text.len() == 5003);
    assert_eq!(scratch.read("log"), b"old\nnew\nnewer\n");
}

#[test]
fn a_pipe_broken_or_full_at_recovery() {
    const TEST: &str = "a_pipe_broken_or_full_at_recovery";
    if !is_child(TEST) {
        return run_child(TEST);
    }
    // SAFETY:
    // - the default action is no handler
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    for broken in [true, false] {
        let mut session = small().survives(true).deadline(Duration::from_secs(2)).cpu().unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let name = CString::new(format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd())).unwrap();
        let out = once(&mut session, |fs| fs.fopen(&name, c"w").unwrap());
        drop(writer);
        // More than a pipe holds, and less than the pipe and the stream's blocks together.
        let count = if broken { 100 } else { 70_000 };
        session
            .launch(lanes(1), move |_| {
                let text = [b'x'; 1000];
                for at in (0..count).step_by(1000) {
                    out.fwrite(&text[..text.len().min(count - at)]).unwrap();
                }
            })
            .unwrap();
        while !session.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        let reader = if broken {
            drop(reader);
            None
        } else {
            Some(reader)
        };
        // SAFETY:
        // - its kernel has ended
        let Fault { recovery, .. } = fault(unsafe { session.pretend_fault() });
        let stream = &recovery.streams[0];
        let wanted = if broken { Errno::PIPE } else { Errno::TIMEDOUT };
        assert_eq!(stream.errno, Some(wanted));
        assert!(stream.lost > 0, "{stream:?}");
        drop(session);
        if let Some(mut reader) = reader {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            assert!(all.len() as u64 + stream.lost >= 70_000, "{} {stream:?}", all.len());
        }
    }
}

#[test]
fn a_stall_is_told_in_words() {
    let mut session = small().survives(true).deadline(Duration::from_secs(1)).cpu().unwrap();
    let (reader, writer) = io::pipe().unwrap();
    let file = session.register_file(std::os::fd::OwnedFd::from(reader)).unwrap();
    session
        .launch(lanes(1), move |fs| {
            let _ = fs.read(file, &mut [0; 4]);
        })
        .unwrap();
    while !session.is_finished() {
        thread::sleep(Duration::from_millis(1));
    }
    // SAFETY:
    // - its kernel has ended
    let error = unsafe { session.pretend_fault() };
    let text = error.to_string();
    assert!(text.contains("the completion of the operation in slot"), "{text}");
    // The read that would have waited, and the poll that does.
    assert!(text.contains("ring 0: 66 tickets, SQ tail 66, CQ tail 65"), "{text}");
    drop(writer);
}

#[test]
fn a_write_that_ended_long_ago_is_not_repeated() {
    let scratch = Scratch::new("long");
    let name = scratch.c("other");
    let mut session = small().survives(true).cpu().unwrap();
    let (out, reader) = open(&mut session, Output::Pipe, &scratch);
    session
        .launch(lanes(1), move |fs| {
            // A block that is full goes out; nobody looks at the stream afterwards.
            out.fwrite(&[b'x'; 4096]).unwrap();
            out.fwrite(b"rest").unwrap();
            // Others drain its completion, and fill the CQ, of 256 entries, more than once.
            let file = fs.open(&name, O_RDWR | O_CREAT, 0o644).unwrap();
            for _ in 0..1000 {
                fs.pwrite(file, b"y", 0).unwrap();
            }
        })
        .unwrap();
    while !session.is_finished() {
        thread::sleep(Duration::from_millis(1));
    }
    // SAFETY:
    // - its kernel has ended
    let Fault { recovery, .. } = fault(unsafe { session.pretend_fault() });
    assert_eq!((recovery.written(), recovery.lost()), (4, 0));
    drop(session);
    let text = reader.unwrap().join().unwrap().unwrap();
    assert!(text == [&[b'x'; 4096][..], b"rest"].concat(), "{} bytes", text.len());
}
