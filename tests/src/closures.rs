//! Helpers of the tests that belong to CPU lanes alone: kernels there are closures.

use std::ffi::CStr;
use std::process::{Child, Command, Output, Stdio};

use gpufs_device::fprintf;
use gpufs_host::Session;

use crate::{Scratch, each, once};

/// Opens, writes, reads and closes in the session: it works.
///
/// # Panics
/// If it does not.
pub fn assert_works(session: &mut Session) {
    let scratch = Scratch::new("works");
    let name = scratch.c("file");
    let out = once(session, |fs| fs.fopen(&name, c"w+").unwrap());
    each(session, 40, |_, lane| fprintf!(out, c"lane %u\n", lane).unwrap());
    let line = once(session, |_| {
        out.rewind();
        let mut line = [0; 64];
        let line = out.fgets(&mut line).unwrap().map(CStr::to_owned);
        out.fclose().unwrap();
        line
    });
    assert_eq!(line.as_deref().map(CStr::to_bytes).and_then(<[u8]>::last), Some(&b'\n'));
    let text = String::from_utf8(scratch.read("file")).unwrap();
    let mut found: Vec<&str> = text.lines().collect();
    let mut wanted: Vec<String> = (0..40).map(|lane| format!("lane {lane}")).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

/// The name of the variable that tells a child which test it is to run.
const CHILD: &str = "GPUFS_TESTS_CHILD";

/// Whether this process is the one that [`child`] started for `test`.
#[must_use]
pub fn is_child(test: &str) -> bool {
    std::env::var(CHILD).is_ok_and(|name| name == test)
}

/// This test program once more, running `test` alone: for what a whole process has to give, such as limits, signals or users.
///
/// # Panics
/// If the system does not start it.
#[must_use]
pub fn child(test: &str) -> Child {
    Command::new(std::env::current_exe().expect("this program's path"))
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(CHILD, test)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program once more")
}

/// Runs [`child`] to its end, prints its SKIPs, and says what it said if it failed.
///
/// # Panics
/// If the child failed.
pub fn run_child(test: &str) {
    let Output { status, stdout, stderr } = child(test).wait_with_output().expect("the child's end");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    stdout.lines().filter(|line| line.contains("SKIP ")).for_each(|line| println!("{line}"));
    assert!(status.success() && stdout.contains("1 passed"), "{status}\n{stdout}\n{stderr}");
}
