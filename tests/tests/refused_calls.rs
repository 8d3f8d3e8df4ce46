//! io_uring's system calls refused by a seccomp filter, before a session is opened and after: each time a session that works, in a mode that
//! does without them, or an error that names what is refused. Never silence.
//!
//! A filter stays until its process ends, so each case is a process of its own: this program again, with the case in its environment.

use std::fmt::Write as _;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gpufs_core::abi::IORING_REGISTER_BUFFERS;
use gpufs_core::alloc::BufferPool;
use gpufs_device::aio::Link;
use gpufs_device::file::{O_CREAT, O_RDWR};
use gpufs_device::{Errno, fprintf};
use gpufs_host::ring::Mode;
use gpufs_host::session::SyncError;
use gpufs_host::{Grid, Session};
use gpufs_tests::{Scratch, each, once, refuse_call_of, skip, small, tables};

/// No case takes nearly as long.
const LIMIT: Duration = Duration::from_secs(100);
const CASE: &str = "GPUFS_REFUSED_CALLS_CASE";
const SETUP: i64 = libc::SYS_io_uring_setup;
const ENTER: i64 = libc::SYS_io_uring_enter;
const REGISTER: i64 = libc::SYS_io_uring_register;

/// What a case does.
#[derive(Clone, Copy, Debug)]
struct Case {
    call: i64,
    /// Calls alone whose second argument it is.
    second: Option<u32>,
    errno: i32,
    /// The filter comes after the session was opened, and after it has served a kernel.
    late: bool,
    mode: Option<Mode>,
}

impl Case {
    fn encode(self) -> String {
        let mode = self.mode.map_or_else(|| "-".to_owned(), |mode| mode.to_string());
        let second = self.second.map_or_else(|| "-".to_owned(), |second| second.to_string());
        format!("{} {} {} {mode} {second}", self.call, self.errno, self.late)
    }
    fn decode(text: &str) -> Self {
        let words: Vec<_> = text.split(' ').collect();
        let mode = Mode::BEST_FIRST.into_iter().find(|mode| mode.to_string() == words[3]);
        Self {
            call: words[0].parse().unwrap(),
            second: words[4].parse().ok(),
            errno: words[1].parse().unwrap(),
            late: words[2].parse().unwrap(),
            mode,
        }
    }
}

/// Has a kernel open a file, another write a line from each lane, and a third close it; how many lines there are.
fn write_lines(session: &mut Session, scratch: &Scratch, name: &str) -> Result<usize, SyncError> {
    let path = scratch.c(name);
    let opened = OnceLock::new();
    let one = Grid { blocks: 1, threads: 1 };
    session.run(one, |fs| assert!(opened.set(fs.fopen(&path, c"w")).is_ok()))?;
    let file = opened.into_inner().expect("the lane has ended").expect("a file that can be written");
    session.run(Grid { blocks: 2, threads: 64 }, |_| {
        fprintf!(file, c"a line of %lu\n", gpufs_device::warp::global_thread()).expect("room");
    })?;
    session.run(one, |_| file.fclose().expect("written"))?;
    Ok(std::fs::read_to_string(scratch.path(name)).unwrap().lines().count())
}

/// A lane's transfers of each kind, through memory of the session's: what the file then has.
fn transfer(session: &mut Session, scratch: &Scratch) -> Result<String, Errno> {
    let path = scratch.c("transfers");
    let file = once(session, |fs| fs.open(&path, O_RDWR | O_CREAT, 0o600))?;
    each(session, 7, |fs, lane| fs.pwrite(file, &b"called "[lane as usize..][..1], lane).unwrap());
    once(session, |fs| {
        fs.close(file)?;
        let file = fs.open(&path, O_RDWR, 0)?;
        let started = fs.start_pwrite(file, b"started ", 7)?.wait()?.count();
        let [linked, synced] = fs.start_chain([
            Link::Pwrite { descriptor: file, from: b"linked", offset: 15 },
            Link::Fdatasync(file),
        ])?;
        synced.wait().map(drop)?;
        assert_eq!((started, linked.wait()?.count()), (8, 6));
        let mut bytes = [0; 32];
        let count = fs.pread(file, &mut bytes, 0)?;
        fs.start_pread(file, 11, 0)?.wait_into(&mut bytes[count..])?;
        fs.close(file)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    })
}

/// In the child: what the case comes to, as lines for the parent.
#[test]
fn child() {
    let Ok(case) = std::env::var(CASE) else { return };
    let case = Case::decode(&case);
    let scratch = Scratch::new("refused-calls");
    if !case.late
        && let Err(reason) = refuse_call_of(case.call, case.second, case.errno)
    {
        return println!("\nskip={reason}");
    }
    // The SQPOLL thread sleeps soon, so that it has to be woken.
    let mut builder = small().idle(Duration::from_millis(1));
    if let Some(mode) = case.mode {
        builder = builder.mode(mode);
    }
    let mut session = match builder.rings(2).cpu() {
        Ok(session) => session,
        Err(error) => return println!("\nopen={error}"),
    };
    let mut said = String::new();
    std::write!(said, "\nmode={}", session.mode()).unwrap();
    for (mode, reason) in session.refused() {
        std::write!(said, "\nrefused={mode}: {reason}").unwrap();
    }
    let unregistered = tables(&session).staging.buffer_index == BufferPool::UNREGISTERED;
    println!("{said}\nunregistered={unregistered}");
    if case.late {
        println!("\nbefore={:?}", write_lines(&mut session, &scratch, "before").ok());
        std::thread::sleep(Duration::from_millis(50));
        if let Err(reason) = refuse_call_of(case.call, case.second, case.errno) {
            return println!("\nskip={reason}");
        }
    }
    match write_lines(&mut session, &scratch, "lines") {
        Ok(count) => {
            println!("\nlines={count}");
            // Of a ring whose `io_uring_enter` does nothing no more is promised than that it says so.
            if case.call == REGISTER {
                println!("\ntransfers={:?}", transfer(&mut session, &scratch));
            }
        }
        Err(error @ SyncError::Ring { .. }) => println!("\nfailed={error}"),
        Err(error) => println!("\nother={error}"),
    }
    let path = scratch.c("host");
    let host = session.with_tables(|fs| fs.fopen(&path, c"w").and_then(gpufs_device::File::fclose));
    println!("\nhost={host:?}");
    if let Some(failure) = session.ring_failure() {
        println!("\nfailure={failure}");
    }
    drop(session);
    println!("\nclosed=yes");
}

/// What the child said of a case: key and value. None, and a SKIP, where it could not be arranged.
fn run(case: Case) -> Option<Vec<(String, String)>> {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program)
        .args(["--exact", "child", "--nocapture", "--test-threads", "1"])
        .env(CASE, case.encode())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if started.elapsed() > LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(ended.is_some(), "{case:?} hangs after\n{text}");
    let said = text.lines().filter_map(|line| line.split_once('='));
    let said: Vec<_> = said.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    println!("{case:?} ({:.1?}): {said:#?}", started.elapsed());
    if let Some((_, reason)) = said.iter().find(|(key, _)| key == "skip") {
        skip("refused_calls", reason);
        return None;
    }
    assert!(ended.unwrap().success(), "{case:?} failed:\n{text}");
    Some(said)
}

fn value<'a>(said: &'a [(String, String)], key: &str) -> Option<&'a str> {
    said.iter().find(|(its, _)| its == key).map(|(_, value)| value.as_str())
}

fn here(mode: Mode) -> bool {
    match small().mode(mode).cpu() {
        Ok(_) => true,
        Err(error) => {
            skip(&format!("refused_calls in {mode}"), error);
            false
        }
    }
}

#[test]
fn what_is_refused_before_is_done_without_and_named() {
    // Two at a time would wait for each other's cores.
    for (call, name) in
        [(SETUP, "io_uring_setup"), (ENTER, "io_uring_enter"), (REGISTER, "io_uring_register")]
    {
        for errno in [libc::EPERM, libc::ENOSYS] {
            let case = Case { call, second: None, errno, late: false, mode: None };
            let Some(said) = run(case) else { return };
            assert_eq!(value(&said, "mode"), Some("threads"), "{case:?}");
            assert_eq!(value(&said, "lines"), Some("128"), "{case:?}");
            assert_eq!(value(&said, "closed"), Some("yes"), "{case:?}");
            let refused: Vec<_> = said.iter().filter(|(key, _)| key == "refused").collect();
            assert!(!refused.is_empty(), "{case:?} says nothing of what is refused");
            let by_sysctl = refused.iter().any(|(_, reason)| reason.contains("io_uring_disabled"));
            assert!(
                by_sysctl || refused.iter().all(|(_, reason)| reason.contains(name)),
                "{case:?}: {refused:?}"
            );
        }
    }
}

/// Where the rings take no registered memory, as where little may be locked, operations name addresses.
#[test]
fn memory_that_cannot_be_registered_is_used_all_the_same() {
    for mode in [Mode::Sqpoll, Mode::Enter] {
        if !here(mode) {
            continue;
        }
        for errno in [libc::ENOMEM, libc::EPERM] {
            let second = Some(IORING_REGISTER_BUFFERS);
            let Some(said) = run(Case { call: REGISTER, second, errno, late: false, mode: Some(mode) })
            else {
                return;
            };
            let whole = "Ok(\"called started linkedcalled star\")";
            for (key, wanted) in
                [("unregistered", "true"), ("lines", "128"), ("transfers", whole), ("closed", "yes")]
            {
                assert_eq!(value(&said, key), Some(wanted), "{key}");
            }
        }
    }
}

#[test]
fn a_mode_that_was_asked_for_and_is_refused_is_an_error() {
    for mode in [Mode::Sqpoll, Mode::Enter] {
        if !here(mode) {
            continue;
        }
        // With 0 the call says that all is well, and nothing happens.
        for errno in [libc::EPERM, 0] {
            let case = Case { call: ENTER, second: None, errno, late: false, mode: Some(mode) };
            let Some(said) = run(case) else { return };
            if mode == Mode::Sqpoll && errno == 0 {
                // A thread that is up needs nobody to enter.
                continue;
            }
            let error = value(&said, "open").unwrap_or_default();
            let named = if errno == 0 { "did not come back" } else { "io_uring_enter" };
            assert!(error.contains(named), "{case:?}: {error}");
        }
    }
}

#[test]
fn what_is_refused_later_ends_the_waits_and_is_named() {
    for mode in [Mode::Sqpoll, Mode::Enter] {
        if !here(mode) {
            continue;
        }
        for errno in [libc::EPERM, libc::ENOSYS, libc::EINVAL] {
            let case = Case { call: ENTER, second: None, errno, late: true, mode: Some(mode) };
            let Some(said) = run(case) else { return };
            assert_eq!(value(&said, "before"), Some("Some(128)"), "{case:?}");
            assert_eq!(value(&said, "closed"), Some("yes"), "{case:?}");
            let failure = value(&said, "failure").unwrap_or_default();
            assert!(failure.contains("io_uring_enter"), "{case:?}: {said:?}");
            assert_eq!(value(&said, "host"), Some("Ok(Err(EIO))"), "{case:?}");
            assert_eq!(value(&said, "other"), None, "{case:?}");
            assert_ne!(value(&said, "lines"), Some("128"), "{case:?}");
        }
    }
    // What a session no longer calls may be refused.
    for (call, mode) in [(SETUP, None), (REGISTER, None), (ENTER, Some(Mode::Threads))] {
        let case = Case { call, second: None, errno: libc::EPERM, late: true, mode };
        let Some(said) = run(case) else { return };
        assert_eq!((value(&said, "lines"), value(&said, "closed")), (Some("128"), Some("yes")), "{case:?}");
    }
}
