//! A session and its process: what a forked child may do with a copy of its parent's session, and what becomes of buffered output
//! when the process ends.
#![expect(unsafe_code, reason = "forks")]

use std::ffi::CString;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{fs, mem, thread};

use gpufs_core::word::DeviceWord;
use gpufs_device::file::O_RDONLY;
use gpufs_device::{Errno, File};
use gpufs_host::cpu::LaunchError;
use gpufs_host::ring::Mode;
use gpufs_host::session::SyncError;
use gpufs_host::{CpuOptions, Session};
use gpufs_tests::closures::{is_child, run_child};
use gpufs_tests::{MODES, Scratch, lanes, once, skip, small, tables};

/// A session in a mode, unless the machine has none.
fn session(test: &str, mode: Mode) -> Option<Session> {
    match small().mode(mode).cpu_with(CpuOptions { threads: 2, ..CpuOptions::default() }) {
        Ok(session) => Some(session),
        Err(refused) => {
            skip(&format!("{test} in {mode}"), refused);
            None
        }
    }
}

/// Writes lines, which stay in the stream's buffer.
fn print(session: &mut Session, log: File, lines: std::ops::Range<u32>) {
    let written = session.with_tables(|_| {
        lines.into_iter().all(|line| {
            let text = CString::new(format!("line {line}\n")).unwrap();
            log.fputs(&text).is_ok()
        })
    });
    assert_eq!(written, Ok(true));
}

fn expected(lines: u32) -> String {
    (0..lines).map(|line| format!("line {line}\n")).collect()
}

/// Runs `body` in a forked child, which then ends as `end` says. Its status, however it ended; a child that hangs is killed.
fn fork(body: impl FnOnce(), end: unsafe extern "C" fn(i32) -> !) -> ExitStatus {
    // SAFETY:
    // - the child runs `body` and ends; what other threads of this one held at the fork is not asked for: the C library's own locks are seen to
    //   by itself
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let went = catch_unwind(AssertUnwindSafe(body));
        // SAFETY:
        // - ends the process
        unsafe { end(if went.is_ok() { 0 } else { 101 }) };
    }
    wait_for(child)
}

fn wait_for(child: libc::pid_t) -> ExitStatus {
    let started = Instant::now();
    let mut status = 0;
    // Ends: a child that hangs is killed.
    loop {
        // SAFETY:
        // - the status is alive for the call
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
            return ExitStatus::from_raw(status);
        }
        if started.elapsed() > Duration::from_secs(100) {
            // SAFETY:
            // - no memory is involved
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// What a child does with its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Nothing,
    Drops,
    Calls,
    Writes,
    Opens,
    Forks,
}

/// The session as a child finds it, taken from its parent's variable.
fn copy_of(session: &Session) -> Session {
    // SAFETY:
    // - in the child the parent's own is never used again
    unsafe { std::ptr::from_ref(session).read() }
}

fn calls_say_so(session: &mut Session) {
    let said = session.synchronize().unwrap_err();
    assert!(matches!(said, SyncError::Forked), "{said:?}");
    assert!(said.to_string().contains("fork"), "{said}");
    assert!(matches!(session.launch(lanes(1), |_| ()), Err(LaunchError::Forked)));
    assert!(session.run(lanes(1), |_| ()).is_err());
    assert!(matches!(session.begin_external(), Err(SyncError::Forked)));
    assert_eq!(session.with_tables(|_| ()), Err(Errno::PERM));
    let text = session.register_buffer(1).unwrap_err().to_string();
    assert!(text.contains("fork"), "{text}");
    assert!(session.register_file(fs::File::open("/dev/null").unwrap()).is_err());
    assert!(session.unregister_file(gpufs_core::session::FileIndex(3)).is_err());
    assert!(session.place(7_u32).is_err() && session.device_buffer(8).is_err());
    assert!(session.is_finished() && session.is_inherited());
    // What only tells something still does.
    assert!(!session.statistics().rings.is_empty() && !session.device_name().is_empty());
    assert!(session.multiprocessors() > 0 && tables(session).queue_count == 1);
    let _ = (session.mode(), session.refused(), session.ring_memory(), session.device_tables());
}

fn in_the_child(deed: Deed, session: &Session, log: File, scratch: &Scratch) {
    let mut copy = mem::ManuallyDrop::new(copy_of(session));
    match deed {
        Deed::Nothing => {}
        Deed::Drops => drop(mem::ManuallyDrop::into_inner(copy)),
        Deed::Calls => calls_say_so(&mut copy),
        Deed::Writes => {
            // Device calls on the copied tables, which nothing of the session's stands in front of.
            assert_eq!(log.fputs(c"the child's\n"), Err(Errno::BADF));
            assert_eq!(log.fclose(), Err(Errno::BADF));
            let fs = copy.fs();
            assert!(fs.fopen(&scratch.c("child"), c"w").is_err());
            assert!(fs.open(&scratch.c("data"), O_RDONLY, 0).is_err());
            assert_eq!(fs.nop(), Err(Errno::BADF));
        }
        Deed::Opens => {
            let mut own = small().mode(copy.mode()).cpu().unwrap();
            let file = once(&mut own, |fs| fs.fopen(&scratch.c("child"), c"w").unwrap());
            once(&mut own, |_| file.fputs(c"its own\n").unwrap());
            calls_say_so(&mut copy);
            drop(own);
            drop(mem::ManuallyDrop::into_inner(copy));
            assert_eq!(scratch.read("child"), b"its own\n");
        }
        Deed::Forks => {
            let status = fork(|| calls_say_so(&mut copy), libc::_exit);
            assert!(status.success(), "the grandchild: {status}");
        }
    }
}

#[test]
fn a_forked_child_leaves_its_parents_session_alone() {
    for mode in MODES {
        let Some(mut session) = session("a_forked_child_leaves_its_parents_session_alone", mode) else {
            continue;
        };
        let scratch = Scratch::new("fork");
        let data: Vec<u8> = (0..200_000_u32).map(|byte| (byte % 251) as u8).collect();
        fs::write(scratch.path("data"), &data).unwrap();
        let (log, file) = once(&mut session, |fs| {
            (fs.fopen(&scratch.c("log"), c"w").unwrap(), fs.open(&scratch.c("data"), O_RDONLY, 0).unwrap())
        });
        let mut lines = 0;
        for deed in [Deed::Nothing, Deed::Drops, Deed::Calls, Deed::Writes, Deed::Opens, Deed::Forks] {
            for end in [libc::_exit as unsafe extern "C" fn(i32) -> !, libc::exit] {
                print(&mut session, log, lines..lines + 10);
                lines += 10;
                let status = fork(|| in_the_child(deed, &session, log, &scratch), end);
                assert!(status.success(), "{mode} {deed:?}: {status}");
                let read = once(&mut session, |fs| {
                    let mut into = [0; 40];
                    fs.pread(file, &mut into, u64::from(lines) * 7).map(|count| (count, into))
                });
                let (count, into) = read.unwrap();
                let at = lines as usize * 7;
                assert!(count == 40 && into == data[at..at + 40], "{mode} {deed:?}: {count} {into:?}");
            }
        }
        drop(session);
        assert_eq!(String::from_utf8(scratch.read("log")).unwrap(), expected(lines), "{mode}");
    }
}

/// A fork while the host works alone on the tables: in the child nobody does, and a call is refused as ever.
#[test]
fn a_fork_while_the_host_works_alone() {
    for mode in MODES {
        let Some(mut session) = session("a_fork_while_the_host_works_alone", mode) else { continue };
        let scratch = Scratch::new("fork-alone");
        let log = once(&mut session, |fs| fs.fopen(&scratch.c("log"), c"w").unwrap());
        let gate = tables(&session).gate().expect("the host's calls pass one");
        gate.exclude();
        let status = fork(|| assert_eq!(log.fputs(c"the child's\n"), Err(Errno::BADF)), libc::_exit);
        gate.admit();
        assert!(status.success(), "{mode}: {status}");
        assert_eq!(log.fputs(c"the parent's\n"), Ok(()), "{mode}");
        drop(session);
        assert_eq!(scratch.read("log"), b"the parent's\n", "{mode}");
    }
}

/// A fork while kernels run, which go on in the parent and are not there in the child.
#[test]
fn a_fork_beside_running_kernels_changes_nothing() {
    static GO: DeviceWord = DeviceWord::new(0);
    for mode in MODES {
        let Some(mut session) = session("a_fork_beside_running_kernels_changes_nothing", mode) else {
            continue;
        };
        let scratch = Scratch::new("fork-running");
        let log = once(&mut session, |fs| fs.fopen(&scratch.c("log"), c"w").unwrap());
        GO.set(0);
        session
            .launch(lanes(4), move |fs| {
                while GO.observe() == 0 {
                    fs.nop().unwrap();
                }
                log.fputs(c"a line\n").unwrap();
            })
            .unwrap();
        for _ in 0..4 {
            let mut copy = mem::ManuallyDrop::new(copy_of(&session));
            let status = fork(
                || {
                    assert!(copy.is_finished());
                    calls_say_so(&mut copy);
                    drop(mem::ManuallyDrop::into_inner(copy));
                },
                libc::exit,
            );
            assert!(status.success(), "{mode}: {status}");
        }
        GO.publish(1);
        session.synchronize().unwrap();
        drop(session);
        assert_eq!(scratch.read("log"), "a line\n".repeat(4).as_bytes(), "{mode}");
    }
}

/// Nothing of a session's is left to a program that the process becomes.
#[test]
fn descriptors_of_a_session_close_on_exec() {
    for mode in MODES {
        let Some(session) = session("descriptors_of_a_session_close_on_exec", mode) else { continue };
        for entry in fs::read_dir("/proc/self/fd").unwrap() {
            let entry = entry.unwrap();
            let target = fs::read_link(entry.path()).unwrap_or_default();
            if !target.to_string_lossy().contains("anon_inode:") {
                continue;
            }
            let number: i32 = entry.file_name().to_string_lossy().parse().unwrap();
            // SAFETY:
            // - no memory is involved
            let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
            assert!(flags < 0 || flags & libc::FD_CLOEXEC != 0, "{mode}: {}", target.display());
        }
        drop(session);
    }
}

/// How a program that has output buffered ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// `exit` with the session in a variable.
    Exit,
    /// `exit` with the session forgotten.
    Forgotten,
    /// `exit` of a thread while another has the session.
    Elsewhere,
    /// `exit` while a kernel runs that ends soon.
    Running,
    /// `exit` while a kernel runs that never ends.
    Endless,
    /// A lane calls `exit`.
    Lane,
    /// A lane calls `exit` while another thread makes one short call of the session after another.
    LaneBesideCalls,
    /// A lane of `run`, for which the session is waiting.
    LaneOfRun,
    /// `exit` inside `with_tables`.
    Inside,
    /// A panic that unwinds, past a session that was forgotten.
    Panic,
}

const WAY: &str = "GPUFS_TESTS_WAY";
const ENDS: [End; 10] = [
    End::Exit,
    End::Forgotten,
    End::Elsewhere,
    End::Running,
    End::Endless,
    End::Lane,
    End::LaneBesideCalls,
    End::LaneOfRun,
    End::Inside,
    End::Panic,
];

/// The process ends after that.
fn last(work: impl Fn()) {
    work();
    std::process::exit(0);
}

/// Prints 32 lines, and ends so.
fn end(end: End, mode: Mode, path: &str) {
    static KEPT: Mutex<Option<Session>> = Mutex::new(None);
    let mut session =
        small().mode(mode).cpu_with(CpuOptions { threads: 2, ..CpuOptions::default() }).unwrap();
    let path = CString::new(path).unwrap();
    let log = once(&mut session, |fs| fs.fopen(&path, c"w").unwrap());
    let line = |line: u32| CString::new(format!("line {line}\n")).unwrap();
    let lines = move || (0..32).for_each(|number| log.fputs(&line(number)).unwrap());
    match end {
        End::Exit => {
            print(&mut session, log, 0..32);
            std::process::exit(0);
        }
        End::Forgotten => {
            print(&mut session, log, 0..32);
            mem::forget(session);
            std::process::exit(0);
        }
        End::Elsewhere => {
            print(&mut session, log, 0..32);
            *KEPT.lock().unwrap() = Some(session);
            thread::spawn(|| std::process::exit(0)).join().unwrap();
        }
        End::Running => {
            session
                .launch(lanes(1), move |_| {
                    thread::sleep(Duration::from_millis(200));
                    lines();
                })
                .unwrap();
            std::process::exit(0);
        }
        End::Endless => {
            static PRINTED: DeviceWord = DeviceWord::new(0);
            session
                .launch(lanes(1), move |fs| {
                    lines();
                    PRINTED.publish(1);
                    loop {
                        fs.nop().unwrap();
                    }
                })
                .unwrap();
            while PRINTED.observe() == 0 {
                thread::yield_now();
            }
            std::process::exit(0);
        }
        End::Lane => {
            session.launch(lanes(1), move |_| last(lines)).unwrap();
            let _ = session.synchronize();
        }
        End::LaneBesideCalls => {
            session.launch(lanes(1), move |_| last(lines)).unwrap();
            loop {
                let _ = session.statistics();
            }
        }
        End::LaneOfRun => {
            let _ = session.run(lanes(1), move |_| last(lines));
        }
        End::Inside => {
            let _ = session.with_tables(move |_| last(lines));
        }
        End::Panic => {
            print(&mut session, log, 0..32);
            mem::forget(session);
            panic!("as it should");
        }
    }
}

#[test]
fn buffered_output_is_written_at_exit() {
    const TEST: &str = "buffered_output_is_written_at_exit";
    if let Ok(way) = std::env::var(WAY) {
        let mut words = way.split(' ');
        let (which, mode, path) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        let which = ENDS.into_iter().find(|end| format!("{end:?}") == which).unwrap();
        let mode = MODES.into_iter().find(|one| one.to_string() == mode).unwrap();
        return end(which, mode, path);
    }
    for mode in MODES {
        if session(TEST, mode).is_none() {
            continue;
        }
        for which in ENDS {
            // The handler waits for ten seconds: once is enough.
            if which == End::Endless && mode != Mode::Enter {
                continue;
            }
            let scratch = Scratch::new("exit");
            let output = Command::new("timeout")
                .args(["-s", "KILL", "60"])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", TEST, "--nocapture", "--test-threads", "1"])
                .env(WAY, format!("{which:?} {mode} {}", scratch.path("log").display()))
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let ended = output.status.code() == Some(if which == End::Panic { 101 } else { 0 });
            assert!(ended, "{mode} {which:?}: {} {said}", output.status);
            let found = String::from_utf8(scratch.read("log")).unwrap();
            assert_eq!(found, expected(32), "{mode} {which:?}: {said}");
        }
    }
}

/// With few descriptors a session opens or is refused, wherever it runs out of them; it never waits. The standard input is a file, whose position the
/// session shares, by descriptors of its own.
#[test]
fn few_descriptors_are_enough_or_named() {
    const TEST: &str = "few_descriptors_are_enough_or_named";
    if !is_child(TEST) {
        return run_child(TEST);
    }
    let scratch = Scratch::new("few-descriptors");
    fs::write(scratch.path("input"), "a line\n").unwrap();
    let input = CString::new(scratch.path("input").to_str().unwrap()).unwrap();
    // SAFETY:
    // - a path with its NUL, alive for the call; the number 0 is opened again
    unsafe { libc::close(0) };
    // SAFETY:
    // - as above
    assert_eq!(unsafe { libc::open(input.as_ptr(), libc::O_RDONLY) }, 0);
    // SAFETY:
    // - a wait that does not end ends this process
    unsafe { libc::alarm(120) };
    let (mut opened, mut refused) = (0, 0);
    for most in 3..32 {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: 1024 };
        // SAFETY:
        // - plain numbers, alive for the call
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
        match small().mode(Mode::Enter).cpu() {
            Ok(session) => {
                opened += 1;
                drop(session);
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("descriptor"), "{most}: {error}");
            }
        }
    }
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} were refused");
}
