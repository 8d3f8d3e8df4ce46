//! The mode that a session chooses by itself: by the cores that there are, and what it says where a better one is refused.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use gpufs_device::file::O_RDONLY;
use gpufs_device::stdio::Buffering;
use gpufs_host::ring::Mode;
use gpufs_host::{Grid, Session};
use gpufs_tests::{skip, small};

const CHILD: &str = "GPUFS_MODE_CHOICE_CHILD";

/// Opens two sessions where the child is told how.
#[test]
fn child() {
    let Ok(how) = std::env::var(CHILD) else { return };
    for _ in 0..2 {
        let session = Session::builder().report_fallback(how != "option").cpu().unwrap();
        println!("\nmode={} refused={}", session.mode(), session.refused().len());
    }
}

/// What a child said on its standard output and its standard error.
fn run(command: &mut Command, how: &str) -> (String, String) {
    let output = command.env(CHILD, how).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn few_cores_are_entered_and_nothing_is_said() {
    if let Err(error) = small().mode(Mode::Enter).cpu() {
        return skip("few_cores_are_entered_and_nothing_is_said", error);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(std::env::current_exe().unwrap()).args(["--exact", "child", "--nocapture"]);
    if Command::new("taskset").arg("--version").output().is_err() {
        return skip("few_cores_are_entered_and_nothing_is_said", "no taskset");
    }
    let (said, told) = run(&mut command, "plain");
    assert!(said.contains("mode=enter refused=0"), "{said}");
    assert!(!told.contains("gpufs:"), "{told}");
}

#[test]
fn a_fallback_is_told_once() {
    // No descriptor for a ring, though threads need a few.
    let limited = |how: &str, quiet: &str| {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit -l 0; exec \"$0\" --exact refused_child --nocapture"])
            .arg(program)
            .env("GPUFS_QUIET", quiet);
        run(&mut command, how)
    };
    for (how, quiet, lines) in [("plain", "", 1), ("option", "", 0), ("plain", "1", 0)] {
        let (said, told) = limited(how, quiet);
        if said.contains("SKIP") {
            return skip("a_fallback_is_told_once", "no seccomp filter");
        }
        assert!(said.contains("mode=threads"), "{said}");
        let found = told.lines().filter(|line| line.contains("served by threads, which is slower")).count();
        assert_eq!(found, lines, "{how} {quiet}: {told}");
    }
}

/// [`child`], where io_uring is refused.
#[test]
fn refused_child() {
    if std::env::var(CHILD).is_ok() {
        match gpufs_tests::refuse_call(libc::SYS_io_uring_setup, libc::EPERM) {
            Ok(()) => child(),
            Err(reason) => println!("SKIP {reason}"),
        }
    }
}

/// One read of a page by each lane.
fn reads(session: &mut Session) {
    let grid = Grid { blocks: 4, threads: 64 };
    session
        .run(grid, |fs| {
            let file = fs.open(c"/proc/self/exe", O_RDONLY, 0).unwrap();
            for round in 0..8 {
                assert_eq!(fs.pread(file, &mut [0; 512], round * 4096).unwrap(), 512);
            }
            fs.close(file).unwrap();
        })
        .unwrap();
}

/// A line from each lane, unbuffered: each waits for its write.
fn lines(session: &mut Session) {
    let file = session.with_tables(|fs| fs.fopen(c"/dev/null", c"a")).unwrap().unwrap();
    session.with_tables(|_| file.setvbuf(Buffering::None, 0)).unwrap().unwrap();
    let grid = Grid { blocks: 4, threads: 64 };
    session.run(grid, |_| assert_eq!(file.fwrite(b"a line\n"), Ok(7))).unwrap();
}

/// `cargo test -p gpufs-tests --test mode_choice -- --ignored --nocapture measure`
#[test]
#[ignore = "a measurement, not a test"]
fn measure() {
    let stop = AtomicBool::new(false);
    for busy in [0, 1] {
        std::thread::scope(|scope| {
            for _ in 0..busy {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            for mode in Mode::BEST_FIRST {
                let mut session = match small().files(512).mode(mode).cpu() {
                    Ok(session) => session,
                    Err(error) => {
                        skip(&format!("measure {mode}"), error);
                        continue;
                    }
                };
                reads(&mut session);
                let mut times: Vec<_> = (0..9)
                    .map(|_| {
                        let started = Instant::now();
                        reads(&mut session);
                        started.elapsed()
                    })
                    .collect();
                times.sort();
                drop(session);
                let started = Instant::now();
                for _ in 0..20 {
                    let mut session = small().files(512).mode(mode).cpu().unwrap();
                    lines(&mut session);
                }
                let sessions = started.elapsed() / 20;
                println!(
                    "{busy} busy, {mode}: reads: median {:.1?}, worst {:.1?}; a session that writes lines {sessions:.1?}",
                    times[4], times[8]
                );
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
