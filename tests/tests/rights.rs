//! Rights that the program gives up after it has opened a session, and gives up for its kernels, too: `Session::adopt_credentials`.
#![expect(unsafe_code, reason = "changes the rights of a thread")]

use std::ffi::CStr;
use std::os::unix::fs::PermissionsExt;

use gpufs_core::Errno;
use gpufs_core::abi::Sqe;
use gpufs_device::file::Descriptor;
use gpufs_host::{Sandbox, Session};
use gpufs_test_kernels::{Answer, hostile_entries};
use gpufs_tests::closures::{is_child, run_child};
use gpufs_tests::{MEMORIES, MODES, Scratch, lanes, once, skip, small};

/// An unprivileged user.
const NOBODY: u64 = 65534;
const CAP_DAC_OVERRIDE: u32 = 1;
const CAP_DAC_READ_SEARCH: u32 = 2;

/// Whether the test cannot run here, which it then says.
fn is_no_root(name: &str) -> bool {
    // SAFETY:
    // - takes nothing
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        skip(name, "only root has rights to give up");
    }
    !is_root
}

/// Gives up root in the calling thread, and in no other: the system call, not the C library's function.
fn become_nobody() {
    for (call, groups) in
        [(libc::SYS_setgroups, 0), (libc::SYS_setresgid, NOBODY), (libc::SYS_setresuid, NOBODY)]
    {
        // SAFETY:
        // - takes numbers; no group is read
        assert_eq!(unsafe { libc::syscall(call, groups, groups, groups) }, 0, "{call}");
    }
}

/// Gives up the capabilities that pass over the permissions of files, in the calling thread.
fn obey_permissions() {
    let mut header = [0x2008_0522_u32, 0];
    let mut data = [0_u32; 6];
    // SAFETY:
    // - the structures are as the call wants them, and alive
    assert_eq!(unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), data.as_mut_ptr()) }, 0);
    let without = !(1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH);
    for set in &mut data[..3] {
        *set &= without;
    }
    // SAFETY:
    // - as above
    assert_eq!(unsafe { libc::syscall(libc::SYS_capset, header.as_mut_ptr(), data.as_mut_ptr()) }, 0);
}

/// Has Linux refuse these system calls with `EPERM`: to the calling thread and those that it starts, or to all threads of the process.
fn filter(calls: &[libc::c_long], all_threads: bool) {
    let load = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    // Each comparison falls to the next, or goes on to the last instruction.
    let compare = |(at, call): (usize, &libc::c_long)| libc::sock_filter {
        code: 0x15,
        jt: u8::try_from(calls.len() - at).expect("a few"),
        jf: 0,
        k: u32::try_from(*call).expect("a number"),
    };
    let ends = [libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned()]
        .map(|k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k });
    let mut program: Vec<_> =
        std::iter::once(load).chain(calls.iter().enumerate().map(compare)).chain(ends).collect();
    let filter =
        libc::sock_fprog { len: u16::try_from(program.len()).expect("a few"), filter: program.as_mut_ptr() };
    let flags = if all_threads { libc::SECCOMP_FILTER_FLAG_TSYNC } else { 0 };
    // SAFETY:
    // - takes numbers
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64) }, 0);
    // SAFETY:
    // - the program is as long as said, and alive
    let set =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// `fchmodat`, `fchmodat2`: what the service ring makes of `chmod`, with a sandbox and without.
const CHMOD: [libc::c_long; 2] = [libc::SYS_fchmodat, 452];

/// Runs `body` in a thread of its own, whose rights are its own; the test's keep those that its end needs.
fn in_a_thread(body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        if let Err(panic) = scope.spawn(body).join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// A folder that everyone may enter, with files that only root may read, that root may not read by its permissions, and that everyone may use.
fn folder(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    std::fs::set_permissions(scratch.dir(), PermissionsExt::from_mode(0o755)).expect("the test's own");
    for (file, mode, owner) in
        [("of-root", 0o600, 0), ("of-nobody", 0o600, NOBODY as u32), ("free", 0o666, 0)]
    {
        std::fs::write(scratch.path(file), file).expect("the test's own");
        std::fs::set_permissions(scratch.path(file), PermissionsExt::from_mode(mode))
            .expect("the test's own");
        std::os::unix::fs::chown(scratch.path(file), Some(owner), Some(owner)).expect("the test's own");
    }
    scratch
}

/// Sessions in each mode, without a sandbox and with one.
fn sessions(name: &str, scratch: &Scratch) -> Vec<(String, Session)> {
    let mut sessions = Vec::new();
    for mode in MODES {
        for boxed in [false, true] {
            let builder = small().mode(mode);
            let opened = if boxed {
                builder.sandbox(Sandbox::new().read_write_create(scratch.dir())).cpu()
            } else {
                builder.cpu()
            };
            let what = format!("{mode}, sandbox: {boxed}");
            match opened {
                Ok(session) => sessions.push((what, session)),
                Err(error) => skip(&format!("{name}: {what}"), error),
            }
        }
    }
    sessions
}

/// What a kernel gets that opens the file, by the rings or by the service ring alike, and that makes one.
fn opened(session: &mut Session, path: &CStr) -> Result<Vec<u8>, Errno> {
    once(session, |fs| {
        let file = fs.open(path, 0, 0)?;
        let mut bytes = [0; 16];
        let read = fs.pread(file, &mut bytes, 0)?;
        fs.close(file)?;
        Ok(bytes[..read].to_vec())
    })
}

#[test]
fn kernels_lose_what_the_thread_has_lost() {
    const NAME: &str = "kernels_lose_what_the_thread_has_lost";
    if is_no_root(NAME) {
        return;
    }
    if !is_child(NAME) {
        return run_child(NAME);
    }
    let scratch = folder("rights");
    let mut sessions = sessions(NAME, &scratch);
    let (of_root, free) = (scratch.c("of-root"), scratch.c("free"));
    // What was opened before stays open.
    let kept: Vec<Descriptor> = sessions
        .iter_mut()
        .map(|(what, session)| {
            once(session, |fs| fs.open(&of_root, 0, 0)).unwrap_or_else(|errno| panic!("{what}: {errno}"))
        })
        .collect();
    in_a_thread(|| {
        become_nobody();
        std::fs::File::open(scratch.path("of-root")).expect_err("the thread has no such right any more");
        println!("| opening a file of root's | before the call | after it |\n|---|---|---|");
        for ((what, session), kept) in sessions.iter_mut().zip(kept) {
            let before = opened(session, &of_root).map(drop);
            assert_eq!(before, Ok(()), "{what}: kernels keep what the session was opened with");
            session.adopt_credentials().unwrap_or_else(|error| panic!("{what}: {error}"));
            let after = opened(session, &of_root);
            println!("| {what} | {before:?} | {:?} |", after.as_ref().map(drop));
            assert_eq!(after, Err(Errno::ACCES), "{what}");
            assert_eq!(opened(session, &free), Ok(b"free".to_vec()), "{what}");
            let still = once(session, |fs| fs.pread(kept, &mut [0; 16], 0));
            assert_eq!(still, Ok(7), "{what}: what is open stays open");
            // By the service ring, and a call that changes something.
            let refused = once(session, |fs| fs.chmod(&of_root, 0o666));
            assert!(matches!(refused, Err(Errno::PERM | Errno::ACCES)), "{what}: {refused:?}");
        }
    });
}

#[test]
fn capabilities_alone_are_given_up() {
    const NAME: &str = "capabilities_alone_are_given_up";
    if is_no_root(NAME) {
        return;
    }
    if !is_child(NAME) {
        return run_child(NAME);
    }
    let scratch = folder("capabilities");
    let mut sessions = sessions(NAME, &scratch);
    let path = scratch.c("of-nobody");
    in_a_thread(|| {
        obey_permissions();
        std::fs::File::open(scratch.path("of-nobody")).expect_err("root without its capability");
        for (what, session) in &mut sessions {
            assert_eq!(opened(session, &path), Ok(b"of-nobody".to_vec()), "{what}");
            session.adopt_credentials().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(opened(session, &path), Err(Errno::ACCES), "{what}");
        }
    });
}

/// Filters of the calling thread hold for what its host threads do: the service ring's operations in each mode, and all in the mode `threads`. Linux
/// asks none about io_uring. A sandbox's threads cannot be given them, so there the call fails, and says what to do.
#[test]
fn seccomp_filters_of_one_thread() {
    const NAME: &str = "seccomp_filters_of_one_thread";
    if !is_child(NAME) {
        return run_child(NAME);
    }
    let scratch = Scratch::new("filters");
    std::fs::write(scratch.path("file"), "free").expect("the test's own");
    let mut sessions = sessions(NAME, &scratch);
    let path = scratch.c("file");
    let calls = |session: &mut Session| {
        once(session, |fs| {
            let chmod = fs.chmod(&path, 0o644);
            let file = fs.open(&path, libc::O_RDWR.cast_unsigned(), 0).expect("no filter refuses it");
            let fsync = fs.fsync(file);
            fs.close(file).expect("open");
            (chmod, fsync)
        })
    };
    in_a_thread(|| {
        filter(&[CHMOD[0], CHMOD[1], libc::SYS_fsync], false);
        std::fs::File::open(scratch.path("file"))
            .and_then(|file| file.sync_all())
            .expect_err("the thread may not");
        for (what, session) in &mut sessions {
            assert_eq!(calls(session), (Ok(()), Ok(())), "{what}: kernels keep what they had");
            let adopted = session.adopt_credentials();
            if what.contains("true") {
                let refused = adopted.expect_err("a sandbox's threads have no filter").to_string();
                assert!(refused.contains("SECCOMP_FILTER_FLAG_TSYNC"), "{what}: {refused}");
                assert_eq!(calls(session), (Ok(()), Ok(())), "{what}: nothing has changed");
                continue;
            }
            adopted.unwrap_or_else(|error| panic!("{what}: {error}"));
            let fsync = if what.starts_with("threads") { Err(Errno::PERM) } else { Ok(()) };
            assert_eq!(calls(session), (Err(Errno::PERM), fsync), "{what}");
        }
    });
}

/// Filters that all threads have been given hold for a sandbox's as well, from that moment; the call then has nothing to refuse.
#[test]
fn seccomp_filters_of_all_threads() {
    const NAME: &str = "seccomp_filters_of_all_threads";
    if !is_child(NAME) {
        return run_child(NAME);
    }
    let scratch = Scratch::new("all-filters");
    std::fs::write(scratch.path("file"), "free").expect("the test's own");
    let mut sessions = sessions(NAME, &scratch);
    let path = scratch.c("file");
    let chmod = |session: &mut Session| once(session, |fs| fs.chmod(&path, 0o644));
    for (what, session) in &mut sessions {
        assert_eq!(chmod(session), Ok(()), "{what}");
    }
    filter(&CHMOD, true);
    for (what, session) in &mut sessions {
        assert_eq!(chmod(session), Err(Errno::PERM), "{what}: the filter is of each thread");
        session.adopt_credentials().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(chmod(session), Err(Errno::PERM), "{what}");
        assert_eq!(opened(session, &path), Ok(b"free".to_vec()), "{what}");
    }
}

/// Whatever the rights: buffers, files and streams are as they were, again and again, in rings of each kind of memory.
#[test]
fn what_kernels_have_stays() {
    for (mode, memory) in MODES.into_iter().flat_map(|mode| MEMORIES.map(|memory| (mode, memory))) {
        let what = format!("{mode}, {memory}");
        let scratch = Scratch::new("adopted");
        std::fs::write(scratch.path("in"), [7; 4096]).expect("the test's own");
        let mut session = match small().mode(mode).ring_memory(memory).rings(2).cpu() {
            Ok(session) => session,
            Err(error) => {
                skip(&format!("what_kernels_have_stays: {what}"), error);
                continue;
            }
        };
        let buffer = session.register_buffer(4096).expect("memory");
        let file = std::fs::File::open(scratch.path("in")).expect("the test's own");
        let registered = session.register_file(file).expect("a place");
        let out = session.fopen(scratch.path("out"), "w").expect("a stream");
        let mut lines = String::new();
        for round in 0..4_u8 {
            // More than the ring has entries, so that it has come round.
            session
                .run(lanes(64), |fs| {
                    for _ in 0..5 {
                        assert_eq!(fs.nop(), Ok(()));
                    }
                })
                .expect("a kernel");
            let read = once(&mut session, |fs| {
                // SAFETY:
                // - this lane alone uses it
                let part = unsafe { buffer.part(0, 4096) };
                part.fill(0);
                let read = fs.pread(Descriptor(registered.0), part, 0);
                let all_there = part.iter().all(|byte| *byte == 7);
                let out = out.get(fs).expect("open");
                (read, all_there, out.fputs(c"a line\n").is_ok())
            });
            assert_eq!(read, (Ok(4096), true, true), "{what}, {round}");
            lines += "a line\n";
            session.adopt_credentials().unwrap_or_else(|error| panic!("{what}, {round}: {error}"));
        }
        session.fclose(out).expect("written");
        assert_eq!(scratch.read("out"), lines.as_bytes(), "{what}");
        drop(session);
    }
}

/// A sandbox holds as before: an operation that its rings do not have, a path outside of its trees, a service that is not named.
#[test]
fn a_sandbox_holds_afterwards() {
    for mode in MODES {
        let scratch = Scratch::new("held");
        std::fs::write(scratch.path("inside"), "free").expect("the test's own");
        let sandbox = Sandbox::new().read_only(scratch.dir());
        let mut session = match small().mode(mode).sandbox(sandbox).cpu() {
            Ok(session) => session,
            Err(error) => {
                skip(&format!("a_sandbox_holds_afterwards: {mode}"), error);
                continue;
            }
        };
        session.adopt_credentials().unwrap_or_else(|error| panic!("{mode}: {error}"));
        let buffer = session.register_buffer(4096).expect("memory");
        let own = buffer.as_ptr() as u64;
        let answer = own + 2048;
        let put = |entry: Sqe| {
            // SAFETY:
            // - at the start of the buffer, which no kernel uses now
            unsafe { (own as *mut Sqe).write(entry) };
            // SAFETY:
            // - as above, behind it
            unsafe { (answer as *mut Answer).write(Answer::default()) };
        };
        for entry in [Sqe::openat(libc::AT_FDCWD, own, 0, 0), Sqe::read(0, own, 8, 0), Sqe::close(0)] {
            put(entry);
            let arguments = hostile_entries::Arguments {
                ring: 0,
                entries: own,
                count: 1,
                answers: answer,
                patience_ns: 1 << 32,
            };
            session.start::<hostile_entries::Entry>(lanes(1), arguments).expect("a kernel");
            session.synchronize().expect("it ends");
            // SAFETY:
            // - written above, and by the kernel, which has ended
            let came = unsafe { (answer as *const Answer).read() };
            let refused = [libc::EACCES, libc::EBADF, libc::EFAULT].contains(&-came.result);
            assert!(came.completed == 1 && refused, "{mode}, {}: {came:?}", entry.opcode);
        }
        assert_eq!(opened(&mut session, &scratch.c("inside")), Ok(b"free".to_vec()), "{mode}");
        assert_eq!(opened(&mut session, c"/etc/passwd"), Err(Errno::ACCES), "{mode}");
        let called = once(&mut session, |fs| fs.popen(c"true", c"r").map(drop));
        assert_eq!(called, Err(Errno::ACCES), "{mode}");
    }
}

#[test]
fn not_while_kernels_run() {
    for mode in MODES {
        let Ok(mut session) = small().mode(mode).cpu() else {
            skip(&format!("not_while_kernels_run: {mode}"), "the mode does not work here");
            continue;
        };
        session.launch(lanes(1), |fs| assert_eq!(fs.nop(), Ok(()))).expect("a kernel");
        let refused = session.adopt_credentials().expect_err("a kernel runs");
        assert_eq!(refused.kind(), std::io::ErrorKind::ResourceBusy, "{mode}");
        session.synchronize().expect("it ends");
        session.adopt_credentials().unwrap_or_else(|error| panic!("{mode}: {error}"));
        assert_eq!(once(&mut session, |fs| fs.nop()), Ok(()), "{mode}");
    }
}

/// An operation that a kernel left behind is not lost by making its ring anew: the call says that it is there.
#[test]
fn not_while_an_operation_is_in_flight() {
    for mode in MODES {
        let Ok(mut session) = small().mode(mode).deadline(std::time::Duration::from_millis(50)).cpu() else {
            skip(&format!("not_while_an_operation_is_in_flight: {mode}"), "the mode does not work here");
            continue;
        };
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let reader = Descriptor(session.register_file(reader).expect("a place").0);
        let ran = session.run(lanes(1), |fs| {
            let _ = fs.read(reader, &mut [0; 16]);
        });
        drop(ran);
        let queues = gpufs_tests::tables(&session).all_queues();
        let in_flight = queues.iter().any(|queue| queue.free_slots() < queue.capacity());
        match session.adopt_credentials() {
            Err(error) => {
                assert!(in_flight, "{mode}: {error}");
                assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy, "{mode}: {error}");
            }
            Ok(()) => assert!(!in_flight, "{mode}"),
        }
    }
}
