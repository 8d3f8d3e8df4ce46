//! `Session::enter_from_lanes`: one thread runs lanes and enters the ring for them. What holds without it holds with it.
#![expect(
    unsafe_code,
    reason = "lanes that are given up on; an operation that is left behind; rights of a thread"
)]

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use gpufs_core::word::DeviceWord;
use gpufs_device::aio::wait_all;
use gpufs_device::file::Descriptor;
use gpufs_device::{Errno, warp};
use gpufs_host::ring::Mode;
use gpufs_host::{CpuOptions, Sandbox, Session};
use gpufs_tests::{MODES, Scratch, lanes, patience, skip, small};

/// A session whose lanes enter its ring; `None` where the mode does not work.
fn entering(test: &str, options: CpuOptions) -> Option<Session> {
    match small().mode(Mode::Enter).report_failures(false).cpu_with(options) {
        Ok(mut session) => {
            assert!(session.enter_from_lanes().expect("a thread"), "Linux before 5.11?");
            Some(session)
        }
        Err(refused) => {
            skip(test, refused);
            None
        }
    }
}

fn give(session: &mut Session, end: impl Into<OwnedFd>) -> Descriptor {
    Descriptor(session.register_file(end.into()).expect("a place").0)
}

/// Waits until `holds`.
fn await_that(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    // Ends: at the limit.
    while !holds() {
        assert!(started.elapsed() < patience(), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn only_where_one_thread_can() {
    for mode in MODES {
        let scratch = Scratch::new("entering");
        for (rings, boxed) in [(1, false), (2, false), (1, true)] {
            let builder = small().mode(mode).rings(rings);
            let builder =
                if boxed { builder.sandbox(Sandbox::new().read_only(scratch.dir())) } else { builder };
            let Ok(mut session) = builder.cpu() else {
                skip("only_where_one_thread_can", format!("{mode}, {rings} rings, sandbox: {boxed}"));
                continue;
            };
            let expected = mode == Mode::Enter && rings == 1 && !boxed;
            assert_eq!(session.enter_from_lanes().expect("threads"), expected, "{mode}, {rings}, {boxed}");
            // A second time changes nothing.
            assert_eq!(session.enter_from_lanes().expect("threads"), expected, "{mode}, {rings}, {boxed}");
            session.launch(lanes(1), |fs| assert_eq!(fs.nop(), Ok(()))).expect("a kernel");
            let refused = session.enter_from_lanes().expect_err("a kernel was started");
            assert_eq!(refused.kind(), std::io::ErrorKind::ResourceBusy);
            session.synchronize().expect("it ends");
        }
    }
}

/// A lane waits for the host, which waits for the lane, many times; launches of one warp and of several, whose lanes enter it and do not.
#[test]
fn it_answers() {
    for (threads, count) in [(1, 1), (1, 3), (2, 1), (2, 2)] {
        for width in [1, 32] {
            let options = CpuOptions { width, threads, ..CpuOptions::default() };
            let Some(mut session) = entering("it_answers", options) else { return };
            let mut ends = Vec::new();
            for warp in 0..count {
                let (there, to) = std::io::pipe().expect("a pipe");
                let (from, back) = std::io::pipe().expect("a pipe");
                let own = (give(&mut session, there), give(&mut session, back));
                ends.push((to, from, own, warp));
            }
            let own: Vec<_> = ends.iter().map(|(_, _, own, _)| *own).collect();
            session
                .launch(gpufs_host::Grid { blocks: count, threads: width }, move |fs| {
                    let position = warp::position();
                    let (there, back) = own[position.block as usize];
                    let mut byte = [0];
                    // Ends: with the pipe.
                    while position.thread == 0 && fs.read(there, &mut byte) == Ok(1) {
                        byte[0] += 1;
                        assert_eq!(fs.write(back, &byte), Ok(1));
                    }
                })
                .expect("a kernel");
            for round in 0..200_u8 {
                for (to, from, ..) in &mut ends {
                    to.write_all(&[round]).expect("a reader");
                    let mut byte = [0];
                    from.read_exact(&mut byte).expect("a writer");
                    assert_eq!(byte[0], round + 1);
                }
            }
            drop(ends);
            session.synchronize().expect("it ends");
        }
    }
}

/// What a launch has started and left goes on when the launch is over: the thread that submitted it is there.
#[test]
fn what_is_left_goes_on() {
    let Some(mut session) = entering("what_is_left_goes_on", CpuOptions::default()) else { return };
    let (there, mut to) = UnixStream::pair().expect("two sockets");
    let there = give(&mut session, there);
    let buffer = session.register_buffer(4096).expect("memory");
    let address = buffer.as_ptr() as u64;
    session
        .launch(lanes(1), move |fs| {
            // SAFETY:
            // - registered memory, which is read when the operation is complete
            let started = unsafe { fs.start_recv(there, address as *mut u8, 8, 0) };
            std::mem::forget(started.expect("room"));
            // It is submitted when lanes wait.
            for _ in 0..100 {
                warp::nap(100_000);
            }
        })
        .expect("a kernel");
    await_that("the launch ends", || session.is_finished());
    to.write_all(b"whatever").expect("a reader");
    // SAFETY:
    // - the first eight bytes of the buffer, which the kernel writes at some time
    await_that("it was read", || unsafe { (address as *const u64).read_volatile() } != 0);
    session.synchronize().expect("nothing runs");
}

/// Deadlines, cancels and the end of the other side end waits.
#[test]
fn waits_end() {
    let Some(mut session) = entering("waits_end", CpuOptions { threads: 1, ..CpuOptions::default() }) else {
        return;
    };
    let (there, to) = std::io::pipe().expect("a pipe");
    let there = give(&mut session, there);
    session
        .launch(lanes(16), move |fs| {
            let started = fs.start_read(there, 8).expect("room");
            assert_eq!(started.wait_for(Duration::from_millis(20)).map(drop), Err(Errno::TIMEDOUT));
            let started = fs.start_read(there, 8).expect("room");
            assert!(started.cancel().is_ok());
            assert!(started.wait().is_err());
        })
        .expect("a kernel");
    session.synchronize().expect("waits ended");
    session.launch(lanes(1), move |fs| assert_eq!(fs.read(there, &mut [0; 4]), Ok(0))).expect("a kernel");
    drop(to);
    session.synchronize().expect("the end was read");
}

/// Files, paths and many operations at a time; the service ring's operations, too.
#[test]
fn files_and_services() {
    let scratch = Scratch::new("entering-files");
    let Some(mut session) = entering("files_and_services", CpuOptions::default()) else { return };
    let (path, other) = (scratch.c("one"), scratch.c("two"));
    session
        .launch(lanes(32), move |fs| {
            let file = fs.fopen_shared(&path, c"w+").expect("a stream");
            for round in 0..200_u32 {
                assert!(file.fputs(c"a line of thirty-two lanes\n").is_ok(), "{round}");
            }
            file.fflush().expect("written");
            let number = file.fileno().expect("a file");
            let started: Vec<_> = (0..2).filter_map(|_| fs.start_pread(number, 8, 0).ok()).collect();
            wait_all(&started).expect("all end");
            if warp::position().thread == 0 {
                fs.rename(&path, &other).expect("the service ring");
            }
        })
        .expect("a kernel");
    session.synchronize().expect("written");
    assert_eq!(scratch.read("two").len(), 32 * 200 * 27);
}

/// What the kernel of the system does at once, in the thread that enters the ring, sends it no signal that ends the process.
#[test]
fn a_broken_pipe_is_an_error() {
    // SAFETY:
    // - no handler is installed; nothing else in this program writes to a pipe without readers
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let Some(mut session) = entering("a_broken_pipe_is_an_error", CpuOptions::default()) else { return };
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let writer = give(&mut session, writer);
    drop(reader);
    session
        .launch(lanes(1), move |fs| {
            for _ in 0..100 {
                assert_eq!(fs.write(writer, b"nobody"), Err(Errno::PIPE));
            }
        })
        .expect("a kernel");
    session.synchronize().expect("it ends");
}

/// A launch that waits keeps no other from running, nor the host from making calls.
#[test]
fn others_run_beside_it() {
    let Some(mut session) = entering("others_run_beside_it", CpuOptions::default()) else { return };
    let (there, to) = std::io::pipe().expect("a pipe");
    let there = give(&mut session, there);
    session.launch(lanes(1), move |fs| assert_eq!(fs.read(there, &mut [0; 4]), Ok(0))).expect("a kernel");
    static ENDED: DeviceWord = DeviceWord::new(0);
    for _ in 0..20 {
        session
            .launch(lanes(32), |fs| {
                for _ in 0..10 {
                    assert_eq!(fs.nop(), Ok(()));
                }
                ENDED.fetch_add(1);
            })
            .expect("a kernel");
        assert_eq!(session.with_tables(|fs| fs.nop()), Ok(Ok(())));
    }
    await_that("the others end", || ENDED.observe() == 20 * 32);
    drop(to);
    session.synchronize().expect("all end");
}

/// A panic ends a launch, and the thread runs the next one.
#[test]
fn panics() {
    let Some(mut session) = entering("panics", CpuOptions::default()) else { return };
    for _ in 0..3 {
        session
            .launch(lanes(32), |fs| {
                assert_eq!(fs.nop(), Ok(()));
                assert!(warp::position().thread != 7, "as it should");
            })
            .expect("a kernel");
        let failed = session.synchronize().expect_err("a lane panicked");
        assert!(failed.to_string().contains("as it should"), "{failed}");
        session.launch(lanes(32), |fs| assert_eq!(fs.nop(), Ok(()))).expect("a kernel");
        session.synchronize().expect("nothing is wrong");
    }
}

/// Lanes that are given up on keep neither the session nor the process.
#[test]
fn given_up() {
    static STOP: DeviceWord = DeviceWord::new(0);
    let Some(mut session) = entering("given_up", CpuOptions::default()) else { return };
    session
        .launch(lanes(1), |_| {
            // Ends: with the test.
            while STOP.observe() == 0 {
                warp::nap(1000);
            }
        })
        .expect("a kernel");
    // SAFETY:
    // - the lane makes no more calls
    let _ = unsafe { session.pretend_fault() };
    drop(session);
    STOP.publish(1);
}

/// The thread has the rights that the session has, and others with it.
#[test]
fn rights() {
    // SAFETY:
    // - takes nothing
    if unsafe { libc::geteuid() } != 0 {
        return skip("rights", "only root has rights to give up");
    }
    let scratch = Scratch::new("entering-rights");
    std::fs::write(scratch.path("own"), "of root").expect("the test's own");
    std::fs::set_permissions(scratch.path("own"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("the test's own");
    let path = scratch.c("own");
    let worker = std::thread::spawn(move || {
        let Some(mut session) = entering("rights", CpuOptions::default()) else { return };
        let opened = |session: &mut Session| {
            static ANSWER: DeviceWord = DeviceWord::new(0);
            let path = path.clone();
            let open = move |fs: gpufs_device::Fs| {
                let opened = fs.open(&path, gpufs_device::file::O_RDONLY, 0);
                let number = opened.as_ref().map_or_else(|errno| errno.number(), |_| 0);
                ANSWER.publish(number.cast_unsigned());
                if let Ok(file) = opened {
                    fs.close(file).expect("open");
                }
            };
            session.launch(lanes(1), open).expect("a kernel");
            session.synchronize().expect("it ends");
            ANSWER.observe().cast_signed()
        };
        assert_eq!(opened(&mut session), 0);
        // In this thread alone: the system call, not the C library's function.
        for call in [libc::SYS_setresgid, libc::SYS_setresuid] {
            // SAFETY:
            // - takes numbers
            assert_eq!(unsafe { libc::syscall(call, 65534_u64, 65534_u64, 65534_u64) }, 0);
        }
        assert_eq!(opened(&mut session), 0, "kernels keep what they had");
        session.adopt_credentials().expect("nothing runs");
        assert_eq!(opened(&mut session), Errno::ACCES.number(), "they have what the program has");
    });
    worker.join().expect("no panic");
}
