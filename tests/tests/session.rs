//! Sessions: every way to serve and place the rings, the builder, statistics, sleep and waking, and what ends a session.
#![allow(unsafe_code, reason = "parts of registered buffers")]

use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use gpufs_core::word::DeviceWord;
use gpufs_device::file::{O_CREAT, O_RDWR, Whence};
use gpufs_device::{Errno, Fs, fprintf, printf, warp};
use gpufs_host::ring::{Mode, RingMemory};
use gpufs_host::session::{OpenError, SyncError};
use gpufs_host::{CpuOptions, Grid, Session};
use gpufs_test_kernels::print;
use gpufs_tests::{
    Call, MODES, Printing, Scratch, assert_works, check_records, each, is_child, lanes, once, run_child,
    skip, small, timed,
};

fn printing(rounds: u32) -> Printing<'static> {
    let grid = Grid { blocks: 3, threads: 100 };
    Printing { grid, rounds, mode: c"w", buffer: None, call: Call::Mixed, letters: |_, _| 20 }
}

#[test]
fn every_mode_and_memory() {
    for mode in MODES {
        for memory in RingMemory::BEST_FIRST {
            let scratch = Scratch::new("modes");
            let name = scratch.c("file");
            let mut session = match small().rings(2).mode(mode).ring_memory(memory).cpu() {
                Ok(session) => session,
                Err(refused) => {
                    skip(&format!("every_mode_and_memory in {mode}, rings of {memory:?}"), refused);
                    continue;
                }
            };
            assert_eq!((session.mode(), session.ring_memory()), (mode, memory));
            assert!(session.refused_memory().is_empty());
            assert_works(&mut session);
            printing(5).run(&mut session, "modes");
            // Each lane its own part, then another's.
            let file = once(&mut session, |fs| fs.open(&name, O_RDWR | O_CREAT, 0o644).unwrap());
            session
                .run(Grid { blocks: 2, threads: 50 }, |tables| {
                    let (fs, thread) = (Fs::new(tables), warp::global_thread());
                    assert_eq!(fs.pwrite(file, &[thread as u8; 5000], thread * 5000), Ok(5000));
                })
                .unwrap();
            session
                .run(Grid { blocks: 2, threads: 50 }, |tables| {
                    let (fs, thread) = (Fs::new(tables), warp::global_thread());
                    let (other, mut bytes) = (99 - thread, [0; 5000]);
                    assert_eq!(fs.pread(file, &mut bytes, other * 5000), Ok(5000));
                    assert!(bytes.iter().all(|byte| *byte == other as u8));
                })
                .unwrap();
            once(&mut session, |fs| {
                assert_eq!(fs.lseek(file, -1, Whence::End), Ok(499_999));
                assert_eq!(fs.read(file, &mut [0; 10]), Ok(1));
                fs.fsync(file).unwrap();
                fs.close(file).unwrap();
            });
            // A registered file and a registered buffer, in place.
            let open = fs::File::options().read(true).write(true).open(scratch.path("file")).unwrap();
            let fixed = session.register_file(OwnedFd::from(open)).unwrap();
            let buffer = session.register_buffer(32 * 1000).unwrap();
            each(&mut session, 32, |fs, lane| {
                // SAFETY:
                // - each lane has a part of its own, and the session is open
                let part = unsafe { buffer.part(usize::try_from(lane).unwrap() * 1000, 1000) };
                assert_eq!(fs.pread(fixed, part, lane * 5000), Ok(1000));
                assert!(part.iter().all(|byte| *byte == lane as u8));
                part.fill(200);
                assert_eq!(fs.pwrite(fixed, part, lane * 5000), Ok(1000));
            });
            assert!(scratch.read("file")[31 * 5000..].starts_with(&[200; 1000]));
            session.unregister_file(fixed).unwrap();
            once(&mut session, |fs| assert_eq!(fs.pread(fixed, &mut [0], 0), Err(Errno::BADF)));
            assert!(session.unregister_file(fixed).is_err());
            assert_eq!(session.statistics().total().stale, 0, "{mode} {memory:?}");
        }
    }
}

#[test]
fn a_kernel_closes_what_the_host_registered() {
    let scratch = Scratch::new("closes");
    let name = scratch.c("file");
    let mut session = small().cpu().unwrap();
    let open = fs::File::create(scratch.path("first")).unwrap();
    let first = session.register_file(OwnedFd::from(open)).unwrap();
    let again = once(&mut session, |fs| {
        fs.close(first).unwrap();
        fs.open(&name, O_RDWR | O_CREAT, 0o644).unwrap()
    });
    assert_eq!(first, again, "the entry is used again");
    session.unregister_file(first).unwrap();
    once(&mut session, |fs| assert_eq!(fs.write(again, b"still open"), Ok(10)));
}

#[test]
fn a_device_buffer_is_shared_by_kernels_and_read_by_the_host() {
    let mut session = small().cpu().unwrap();
    assert!(session.device_buffer(0).is_err());
    let buffer = session.device_buffer(100 * 8).unwrap();
    let other = session.device_buffer(1).unwrap();
    assert_eq!((buffer.len(), buffer.address() % 256, other.len()), (800, 0, 1));
    let mut bytes = [1; 800];
    session.read_device(&buffer, 0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 800], "zeroed");
    session.write_device(&buffer, 8, &7_u64.to_ne_bytes()).unwrap();
    let address = buffer.address();
    let gate: &'static DeviceWord = Box::leak(Box::default());
    session
        .launch(lanes(100), move |_| {
            while gate.observe() == 0 {
                warp::nap(1000);
            }
            let thread = warp::global_thread();
            // SAFETY:
            // - the buffer has eight bytes for each thread, and no thread uses another's
            let own = unsafe { &mut *(address as *mut u64).add(usize::try_from(thread).unwrap()) };
            *own += thread;
        })
        .unwrap();
    let busy = session.read_device(&buffer, 0, &mut bytes).unwrap_err();
    assert!(busy.to_string().contains("kernels are running"), "{busy}");
    assert!(session.write_device(&buffer, 0, &bytes).is_err());
    gate.publish(1);
    session.synchronize().unwrap();
    session.read_device(&buffer, 0, &mut bytes).unwrap();
    for (thread, own) in (0_u64..).zip(bytes.as_chunks::<8>().0) {
        assert_eq!(u64::from_ne_bytes(*own), thread + if thread == 1 { 7 } else { 0 });
    }
    for (offset, length) in [(800, 1), (793, 8), (usize::MAX, 1), (0, 801)] {
        let outside = session.write_device(&buffer, offset, &vec![0; length]).unwrap_err();
        assert!(outside.to_string().contains("do not lie within"), "{outside}");
    }
    session.read_device(&buffer, 800, &mut []).unwrap();
}

#[test]
fn a_grid_can_be_sized_to_the_device() {
    let options = CpuOptions { threads: 3, resident_warps: 4, width: 32, ..CpuOptions::default() };
    let session = small().cpu_with(options.clone()).unwrap();
    let limits = session.kernel_limits::<print::Entry>().unwrap();
    assert_eq!((limits.registers, limits.threads_per_block), (None, 128));
    assert_eq!(limits.stack_bytes, options.stack_bytes as u64);
    assert_eq!(session.multiprocessors(), 3);
    assert_eq!([32, 100, 1000].map(|threads| session.occupancy::<print::Entry>(threads).unwrap()), [4, 1, 1]);
}

#[test]
fn builder_errors_name_what_is_wrong() {
    for (builder, name) in [
        (small().rings(0), "rings"),
        (small().rings(65), "rings"),
        (small().ring_entries(100), "ring_entries"),
        (small().ring_entries(64), "ring_entries"),
        (small().stream_buffer(5000), "stream_buffer"),
        (small().stream_buffer(2048), "stream_buffer"),
        (small().blocks_per_stream(3), "blocks_per_stream"),
        (small().blocks_per_stream(16), "blocks_per_stream"),
        (small().buffers(16 << 10), "buffers"),
        (small().files(2), "files"),
        (small().streams(1), "streams"),
        (small().registered_buffers(5000), "registered_buffers"),
        (small().gpu_registers(8), "gpu_registers"),
    ] {
        match builder.cpu() {
            Err(OpenError::Size(text)) => assert!(text.contains(name), "{name}: {text}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    let mut session = small().cpu_with(CpuOptions { width: 5, ..CpuOptions::default() }).unwrap();
    assert!(matches!(session.run(lanes(1), |_| {}), Err(SyncError::Kernel(_))));
    let mut session = small().cpu().unwrap();
    assert!(session.launch(lanes(0), |_| {}).is_err());
    assert_works(&mut session);
}

#[test]
fn statistics_add_up() {
    let scratch = Scratch::new("statistics");
    let (name, text) = (scratch.c("file"), scratch.c("text"));
    for rings in [1, 3] {
        let mut session = small().rings(rings).cpu().unwrap();
        let before = session.statistics().total();
        assert_eq!((before.operations, before.bytes_read, before.bytes_written), (0, 0, 0));
        let file = once(&mut session, |fs| fs.open(&name, O_RDWR | O_CREAT, 0o644).unwrap());
        // An open and a statx.
        assert_eq!(session.statistics().total().operations, 2);
        session
            .run(Grid { blocks: 4, threads: 64 }, |tables| {
                let (fs, thread) = (Fs::new(tables), warp::global_thread());
                assert_eq!(fs.pwrite(file, &[7; 1000], thread * 1000), Ok(1000));
                assert_eq!(fs.pread(file, &mut [0; 1000], thread * 1000), Ok(1000));
            })
            .unwrap();
        let after = session.statistics().total();
        assert_eq!((after.bytes_read, after.bytes_written), (256_000, 256_000));
        assert_eq!(after.operations, 2 + 512);
        printing(10).run_to(&mut session, &text);
        let length = u64::try_from(scratch.read("text").len()).unwrap();
        let total = session.statistics().total();
        assert_eq!(total.bytes_written, 256_000 + length);
        assert_eq!((total.completions, total.stale), (total.operations, 0));
        assert!(total.publications <= total.operations && total.publications > 0);
        assert_eq!(session.statistics().rings.len(), rings as usize);
    }
}

#[test]
fn a_sleeping_ring_is_woken() {
    for idle_ms in [1, 3, 10] {
        let idle = Duration::from_millis(idle_ms);
        let mut session = match small().rings(2).mode(Mode::Sqpoll).idle(idle).cpu() {
            Ok(session) => session,
            Err(refused) => return skip("a_sleeping_ring_is_woken", refused),
        };
        let scratch = Scratch::new("sleeping");
        let name = scratch.c("file");
        let file = once(&mut session, |fs| fs.open(&name, O_RDWR | O_CREAT, 0o644).unwrap());
        let (took, ()) = timed(|| {
            session
                .run(Grid { blocks: 2, threads: 32 }, |tables| {
                    let (fs, thread) = (Fs::new(tables), warp::global_thread());
                    for round in 0..4 {
                        let start = warp::clock();
                        // SQPOLL threads count in jiffies: up to 10 ms beyond what was asked.
                        while warp::clock() - start < (2 * idle_ms + 25) * 1_000_000 {
                            warp::nap(1000);
                        }
                        assert_eq!(fs.pwrite(file, &[1], thread * 4 + round), Ok(1));
                    }
                })
                .unwrap();
        });
        let wake_ups = session.statistics().total().wake_ups;
        assert!(wake_ups > 0, "idle {idle_ms} ms: no ring ever slept");
        println!("idle {idle_ms} ms: {wake_ups} wake-ups in {took:?}");
        // The host's own flush meets sleeping rings too.
        let out = once(&mut session, |fs| fs.fopen(&name, c"w").unwrap());
        session.launch(lanes(40), move |_| out.fputs(c"awake\n").unwrap()).unwrap();
        std::thread::sleep(Duration::from_millis(2 * idle_ms + 25));
        session.synchronize().unwrap();
        assert_eq!(scratch.read("file").len(), 240);
    }
}

#[test]
fn any_number_of_rings() {
    for rings in [1, 2, 5] {
        let mut session = small().rings(rings).idle(Duration::from_millis(5)).cpu().unwrap();
        printing(10).run(&mut session, "rings");
        assert_works(&mut session);
    }
}

#[test]
fn dropping_loses_nothing() {
    let scratch = Scratch::new("drop");
    let (name, own) = (scratch.c("shared"), scratch.c("own"));
    let mut session = small().rings(2).cpu().unwrap();
    let out = once(&mut session, |fs| fs.fopen(&name, c"w").unwrap());
    // Still running when the session is dropped; nobody closes anything; some lanes return early.
    session
        .launch(Grid { blocks: 3, threads: 100 }, move |tables| {
            let thread = warp::global_thread();
            let start = warp::clock();
            while warp::clock() - start < 20_000_000 {
                warp::nap(1000);
            }
            if thread == 0 {
                Fs::new(tables).fopen(&own, c"w").unwrap().fputs(c"never closed").unwrap();
                Call::Mixed.write(out, thread, 0, 20);
                return;
            }
            Call::Mixed.write(out, thread, 0, 20);
        })
        .unwrap();
    drop(session);
    check_records(&scratch.read("shared"), 300, 1, |_, _| 20);
    assert_eq!(scratch.read("own"), b"never closed");
}

#[test]
fn a_launch_runs_by_itself() {
    let scratch = Scratch::new("launch");
    let name = scratch.c("out");
    let mut session = small().cpu().unwrap();
    assert!(session.is_finished());
    let out = once(&mut session, |fs| fs.fopen(&name, c"w").unwrap());
    let gate: &'static DeviceWord = Box::leak(Box::default());
    for part in 0..2 {
        session
            .launch(lanes(50), move |_| {
                while gate.observe() == 0 {
                    warp::nap(1000);
                }
                Call::Mixed.write(out, part * 50 + warp::global_thread(), 0, 10);
            })
            .unwrap();
    }
    assert!(!session.is_finished());
    assert!(session.register_buffer(4096).is_err(), "kernels are running");
    gate.publish(1);
    while !session.is_finished() {
        std::thread::sleep(Duration::from_millis(1));
    }
    session.synchronize().unwrap();
    check_records(&scratch.read("out"), 100, 1, |_, _| 10);
    session.register_buffer(4096).unwrap();
}

#[test]
fn synchronize_reports_the_first_error_and_tries_again() {
    let scratch = Scratch::new("again");
    let name = scratch.c("good");
    let mut session = small().cpu().unwrap();
    let (bad, good) =
        once(&mut session, |fs| (fs.fopen(c"/dev/full", c"w").unwrap(), fs.fopen(&name, c"w").unwrap()));
    session
        .launch(lanes(10), move |_| {
            bad.fputs(c"bad").unwrap();
            good.fputs(c"good").unwrap();
        })
        .unwrap();
    for _ in 0..3 {
        match session.synchronize() {
            Err(SyncError::Stream(error)) => {
                assert_eq!(
                    (error.errno, error.unwritten, error.file.as_str()),
                    (Errno::NOSPC, 30, "/dev/full")
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(scratch.read("good"), b"good".repeat(10));
    }
}

#[test]
fn kernels_and_program_share_standard_output() {
    const TEST: &str = "kernels_and_program_share_standard_output";
    if is_child(TEST) {
        let mut session = small().cpu().unwrap();
        for round in 0..3 {
            println!("program {round}");
            session
                .run(lanes(40), |tables| printf!(Fs::new(tables), c"kernel %d\n", round).map(drop).unwrap())
                .unwrap();
        }
        return;
    }
    // In a pipe, as `run_child` has it, and in a file.
    run_child(TEST);
    let scratch = Scratch::new("stdout");
    let file = fs::File::create(scratch.path("out")).unwrap();
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture", "--test-threads", "1"])
        .env("GPUFS_TESTS_CHILD", TEST)
        .stdout(file)
        .status()
        .unwrap();
    assert!(status.success());
    let text = String::from_utf8(scratch.read("out")).unwrap();
    let lines: Vec<&str> =
        text.lines().map(|line| line.trim_start_matches(|c| c != 'p' && c != 'k')).collect();
    for round in 0..3 {
        let program = text.find(&format!("program {round}\n")).expect("the program's line");
        let kernel = format!("kernel {round}");
        assert_eq!(lines.iter().filter(|line| **line == kernel).count(), 40, "{text}");
        assert!(program < text.find(&kernel).unwrap(), "{text}");
    }
}

#[test]
fn unflushed_output_of_an_early_return() {
    let scratch = Scratch::new("early");
    let name = scratch.c("out");
    let mut session = small().cpu().unwrap();
    session
        .run(lanes(1), |tables| {
            let out = Fs::new(tables).fopen(&name, c"w").unwrap();
            fprintf!(out, c"%s", c"and gone").unwrap();
        })
        .unwrap();
    assert_eq!(scratch.read("out"), b"and gone");
    // A panic flushes as well.
    let outcome = session.run(lanes(1), |tables| {
        let out = Fs::new(tables).fopen(&name, c"w").unwrap();
        fprintf!(out, c"%s", c"last words").unwrap();
        panic!("on purpose");
    });
    assert!(outcome.is_err());
    assert_eq!(scratch.read("out"), b"last words");
}

#[test]
fn several_sessions() {
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut session: Session = small().idle(Duration::from_millis(2)).cpu().unwrap();
                printing(10).run(&mut session, "sessions");
                assert_works(&mut session);
            });
        }
    });
}
