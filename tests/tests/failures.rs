//! Failed calls are seen: statistics count them by call and error, and a program that never looks is told on its standard error.

use std::process::Command;

use gpufs_tests::Scratch;

/// What the program was told, and what it printed.
fn told(mode: &str, width: u32, what: &str) -> (Vec<String>, Vec<String>) {
    let scratch = Scratch::new("failures");
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_failed_calls"), mode, &width.to_string(), what])
        .arg(scratch.dir())
        .output()
        .expect("the program starts");
    let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(output.status.success(), "{mode} {width} {what}: {:?}", lines(&output.stderr));
    (lines(&output.stderr), lines(&output.stdout))
}

const TOLD: [&str; 9] = [
    "gpufs: open failed 300 times with ENOENT (No such file or directory)",
    "gpufs: pread failed 300 times with EBADF (Bad file descriptor)",
    "gpufs: fopen failed once with ENOENT (No such file or directory)",
    "gpufs: fopen failed 8 times with EMFILE (Too many open files): open a stream once and share it, or raise the session's streams and files \
     (Builder::streams, Builder::files; gpufs_options) or the process's limit of open files (ulimit -n)",
    "gpufs: fclose failed once with EBADF (Bad file descriptor)",
    "gpufs: fclose failed once with ENOSPC (No space left on device)",
    "gpufs: fputc failed once with EBADF (Bad file descriptor)",
    "gpufs: fseek failed once with EINVAL (Invalid argument)",
    "gpufs: fflush failed once with ENOSPC (No space left on device)",
];

/// In every mode and width; also where it asked before anything failed, or ended without closing the session.
#[test]
fn a_program_that_never_looks_is_told() {
    for (mode, width, what) in [
        ("enter", 32, "plain"),
        ("threads", 32, "plain"),
        ("sqpoll", 32, "plain"),
        ("enter", 1, "plain"),
        ("enter", 64, "plain"),
        ("enter", 32, "look-early"),
        ("enter", 32, "exit"),
    ] {
        assert_eq!(told(mode, width, what).0, TOLD, "{mode} {width} {what}");
    }
}

#[test]
fn a_program_that_looks_is_not() {
    let (errors, printed) = told("enter", 32, "look");
    assert_eq!(errors, [""; 0]);
    let wanted = [
        "open Some(ENOENT) 300",
        "pread Some(EBADF) 300",
        "fopen Some(ENOENT) 1",
        "fopen Some(EMFILE) 8",
        "fclose Some(EBADF) 1",
        "fclose Some(ENOSPC) 1",
        "fputc Some(EBADF) 1",
        "fseek Some(EINVAL) 1",
        "fflush Some(ENOSPC) 1",
    ];
    assert_eq!(printed, wanted);
}

/// Nothing failed, or the option says so.
#[test]
fn silence() {
    for what in ["none", "quiet"] {
        assert_eq!(told("enter", 32, what).0, [""; 0], "{what}");
    }
}
