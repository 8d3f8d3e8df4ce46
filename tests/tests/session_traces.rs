//! What a session writes of itself, as Perfetto's own definitions read it, and the page that describes it.
//!
//! The reader is that of `traces.rs`. Where it cannot be had, what it reads is skipped.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

use gpufs_host::ring::Mode;
use gpufs_host::session::OpenError;
use gpufs_host::{Grid, Session};
use gpufs_tests::perfetto::{Read, read, reader};
use gpufs_tests::{MODES, Scratch, compilers, skip};

// The sample of docs/tracing.md.
fn traced(folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut session = Session::builder().trace(folder.join("run.pftrace")).cpu()?;
    session.run(Grid { blocks: 64, threads: 128 }, |fs| {
        for _ in 0..10 {
            fs.nop().expect("an operation that does nothing");
        }
    })?;
    Ok(())
}
// Its end.

/// Operations of the sample.
const OPERATIONS: f64 = 64.0 * 128.0 * 10.0;

fn read_or_skip(test: &str, path: &Path) -> Option<Read> {
    match reader() {
        Ok(_) => Some(read(path).unwrap()),
        Err(reason) => {
            skip(test, reason);
            None
        }
    }
}

fn page() -> String {
    std::fs::read_to_string(compilers::root().join("docs/tracing.md")).expect("the page")
}

#[test]
fn the_sample_of_the_page() {
    let source = include_str!("session_traces.rs");
    let sample = source.split("// The sample of docs/tracing.md.\n").nth(1).unwrap();
    let sample = sample.split("// Its end.").next().unwrap();
    assert!(page().contains(&format!("```text\n{sample}```")), "the page shows another sample");
    let scratch = Scratch::new("session_trace_sample");
    traced(&scratch.path("")).unwrap();
    let Some(read) = read_or_skip("the_sample_of_the_page", &scratch.path("run.pftrace")) else { return };
    assert_eq!(read.errors, Vec::<String>::new());
    for span in ["open", "run", "synchronize", "close"] {
        assert!(read.count("begin", span) >= 1, "{span}: {read:?}");
    }
    assert_eq!(read.sum("run", "blocks"), 64.0);
    assert_eq!(read.sum("run", "threads"), 128.0);
    let ended = ["open", "launch", "run", "synchronize", "close"].map(|name| read.count("begin", name));
    assert_eq!(read.count("end", ""), ended.iter().sum::<u64>(), "each span has an end");
    // Each track that the page names is there.
    let counted = ["in flight", "submitted", "completed", "empty looks", "slot waits"];
    let of_ring = counted.iter().map(|counted| format!("ring 0 {counted}"));
    for track in &of_ring.chain(["failed calls".to_owned()]).collect::<Vec<_>>() {
        assert!(read.tracks.iter().any(|name| name == track), "{track} of {:?}", read.tracks);
        assert!(read.count("counter", track) >= 2, "{track}: at the first look and at the last: {read:?}");
    }
}

/// What the last look saw of a counter: the largest, of one that only grows.
fn last_of(read: &Read, rings: usize, counted: &str) -> f64 {
    (0..rings).map(|ring| read.largest(&format!("ring {ring} {counted}"))).sum()
}

#[test]
fn all_operations_are_counted_in_each_mode() {
    let scratch = Scratch::new("session_trace_modes");
    for mode in MODES {
        let path = scratch.path(&format!("{mode:?}.pftrace"));
        let mut session = match Session::builder().mode(mode).rings(2).trace(&path).cpu() {
            Ok(session) => session,
            Err(error) => {
                skip("all_operations_are_counted_in_each_mode", format_args!("{mode:?}: {error}"));
                continue;
            }
        };
        let before = session.statistics().rings.iter().map(|ring| ring.operations).sum::<u64>();
        session
            .run(Grid { blocks: 64, threads: 128 }, |fs| {
                for _ in 0..10 {
                    fs.nop().unwrap();
                }
                assert!(fs.open(c"/no/such/file", 0, 0).is_err());
            })
            .unwrap();
        let statistics = session.statistics();
        let after = statistics.rings.iter().map(|ring| ring.operations).sum::<u64>();
        assert!((after - before) as f64 >= OPERATIONS);
        drop(session);
        let Some(read) = read_or_skip("all_operations_are_counted_in_each_mode", &path) else { return };
        assert_eq!(read.errors, Vec::<String>::new());
        // What the host did before the first look is not in it, and what it did after the statistics is.
        let (submitted, completed) = (last_of(&read, 2, "submitted"), last_of(&read, 2, "completed"));
        assert!(submitted >= (after - before) as f64, "{mode:?}: {submitted} of {after} - {before}");
        assert_eq!(submitted, completed, "{mode:?}: all have ended");
        let failed = statistics.failures.unwrap().iter().map(|failed| failed.count).sum::<u64>();
        assert!(failed > 0, "{mode:?}");
        assert_eq!(read.largest("failed calls"), failed as f64, "{mode:?}");
        let looks = statistics.rings.iter().map(|ring| ring.empty_looks).sum::<u64>();
        assert!(last_of(&read, 2, "empty looks") >= looks as f64, "{mode:?}");
    }
}

#[test]
fn sessions_of_a_process_share_a_file() {
    let scratch = Scratch::new("session_trace_shared");
    let path = scratch.path("run.pftrace");
    std::fs::write(&path, "what was there before").unwrap();
    for round in 1..=3_u64 {
        let mut session = Session::builder().trace(&path).mode(Mode::Threads).cpu().unwrap();
        session.launch(Grid { blocks: 1, threads: 32 }, |fs| fs.nop().unwrap()).unwrap();
        session.synchronize().unwrap();
        drop(session);
        let Some(read) = read_or_skip("sessions_of_a_process_share_a_file", &path) else { return };
        assert_eq!(read.errors, Vec::<String>::new());
        assert_eq!((read.count("begin", "open"), read.count("begin", "launch")), (round, round));
        assert_eq!(read.count("begin", "close"), round);
    }
}

#[test]
fn paths_that_cannot_be_written() {
    let scratch = Scratch::new("session_trace_refused");
    let path = scratch.path("no/such/folder.pftrace");
    let refused = Session::builder().trace(&path).cpu().map(drop).unwrap_err();
    assert!(matches!(refused, OpenError::Trace { .. }), "{refused:?}");
    let said = refused.to_string();
    assert!(said.contains(path.to_str().unwrap()) && said.contains("GPUFS_TRACE"), "{said}");
    // The disk is full: the first packets are written when the session is opened.
    let refused = Session::builder().trace("/dev/full").cpu().map(drop).unwrap_err();
    assert!(matches!(refused, OpenError::Trace { .. }), "{refused:?}");
}

/// The command of the page: `gpufs doctor` opens sessions of its own, and the environment names the file.
#[test]
fn the_command_of_the_page() {
    let page = page();
    let command = page.lines().find_map(|line| line.strip_prefix("    GPUFS_TRACE=")).expect("a command");
    let (file, arguments) = command.split_once(" gpufs ").expect("a file, and what gpufs is asked");
    let scratch = Scratch::new("session_trace_command");
    let child = Command::new(compilers::build(&["gpufs"]).join("gpufs"))
        .current_dir(scratch.path(""))
        .args(arguments.split(' '))
        .env("GPUFS_TRACE", format!("%p.{file}"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let id = child.id();
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0..=2)), "{}", compilers::said(&output));
    let path = scratch.path(&format!("{id}.{file}"));
    let Some(read) = read_or_skip("the_command_of_the_page", &path) else { return };
    assert_eq!(read.errors, Vec::<String>::new());
    assert!(read.count("begin", "open") >= 1 && read.count("begin", "close") >= 1, "{read:?}");
}
