//! `Builder::wait_limit`: waits for another party end with `ETIMEDOUT`, in each mode, and leave nothing behind: the slot, the lock and the lane are
//! free again, and the same call works once the other party is there. And what a `poll` asks the system.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use gpufs_device::file::{Descriptor, O_RDONLY, O_WRONLY};
use gpufs_device::service::{LOCK_EX, LOCK_UN};
use gpufs_device::socket::{
    AF_UNIX, POLL_MAX, POLLIN, POLLOUT, PollFd, SOCK_NONBLOCK, SOCK_STREAM, SocketAddress,
};
use gpufs_device::{Errno, warp};
use gpufs_host::cpu::Schedule;
use gpufs_host::{CpuOptions, Grid, Session};
use gpufs_tests::{MODES, Scratch, each, once, skip, small, tables, tables_of};

/// Long enough for what does not wait.
const LIMIT: Duration = Duration::from_millis(60);

fn everywhere(mut test: impl FnMut(&mut Session, &str)) {
    for mode in MODES {
        for (width, schedule) in [(1, Schedule::Fast), (32, Schedule::Fast), (32, Schedule::Seeded(7))] {
            let name = format!("{mode}, width {width}, {schedule:?}");
            let options = CpuOptions { width, schedule, ..CpuOptions::default() };
            let builder = small().mode(mode).wait_limit(LIMIT).report_failures(false);
            match builder.cpu_with(options) {
                Ok(mut session) => {
                    let started = Instant::now();
                    test(&mut session, &name);
                    assert!(started.elapsed() < Duration::from_secs(100), "{name}");
                    for queue in tables(&session).queues() {
                        assert_eq!((queue.waits(), queue.free_slots()), (0, queue.capacity()), "{name}");
                    }
                }
                Err(refused) => skip(&name, refused),
            }
        }
    }
}

fn give(session: &mut Session, end: impl Into<OwnedFd>) -> Descriptor {
    Descriptor(session.register_file(end.into()).unwrap().0)
}

/// More lanes than may poll at a time read an empty pipe, and write a full one.
#[test]
fn pipes_that_nobody_serves() {
    everywhere(|session, name| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let from = give(session, reader);
        let read = each(session, 50, |fs, _| {
            let started = Instant::now();
            let read = fs.read(from, &mut [0; 4]);
            (read, started.elapsed() >= LIMIT)
        });
        assert_eq!(read, [(Err(Errno::TIMEDOUT), true); 50], "{name}");
        writer.write_all(b"ab").unwrap();
        assert_eq!(once(session, |fs| fs.read(from, &mut [0; 4])), Ok(2), "{name}");

        let (mut reader, writer) = std::io::pipe().unwrap();
        let to = give(session, writer);
        let written = once(session, |fs| {
            let first = fs.write(to, &[7; 100_000]);
            (first, fs.write(to, &[8; 10]))
        });
        // What was written counts; the error is the next call's.
        assert_eq!(written, (Ok(65_536), Err(Errno::TIMEDOUT)), "{name}");
        reader.read_exact(&mut [0; 65_536]).unwrap();
        assert_eq!(once(session, |fs| fs.write(to, b"more")), Ok(4), "{name}");
    });
}

/// Lanes that may not poll look less and less often.
#[test]
fn lanes_that_wait_for_long_look_rarely() {
    for mode in MODES {
        let options = CpuOptions { width: 1, ..CpuOptions::default() };
        let builder = small().mode(mode).wait_limit(Duration::from_millis(500));
        let Ok(mut session) = builder.cpu_with(options) else {
            skip("lanes_that_wait_for_long_look_rarely", mode);
            continue;
        };
        let [from, _to] = once(&mut session, |fs| fs.pipe().unwrap());
        let before = session.statistics().total().operations;
        session
            .run(Grid { blocks: 200, threads: 1 }, |fs| {
                assert_eq!(fs.read(from, &mut [0; 4]), Err(Errno::TIMEDOUT));
            })
            .unwrap();
        let done = session.statistics().total().operations - before;
        assert!(done < 200 * 100, "{mode}: {done} operations");
    }
}

/// What came before the limit counts, however late a lane comes to see it.
#[test]
fn what_came_in_time_counts() {
    for mode in MODES {
        let options = CpuOptions { width: 1, threads: 1, ..CpuOptions::default() };
        let limit = Duration::from_millis(600);
        let Ok(mut session) = small().mode(mode).wait_limit(limit).cpu_with(options) else {
            skip("what_came_in_time_counts", mode);
            continue;
        };
        let (reader, writer) = std::io::pipe().unwrap();
        let from = give(&mut session, reader);
        session
            .run(Grid { blocks: 2, threads: 1 }, |fs| {
                if warp::global_thread() == 0 {
                    assert_eq!(fs.read(from, &mut [0; 4]), Ok(1), "{mode}");
                } else {
                    while tables_of(fs).queues().iter().all(|queue| queue.waits() == 0) {
                        warp::nap(10_000);
                    }
                    (&writer).write_all(b"x").unwrap();
                    // All lanes are this thread's.
                    std::thread::sleep(limit + Duration::from_millis(50));
                }
            })
            .unwrap();
    }
}

#[test]
fn a_fifo_that_nobody_opens() {
    let scratch = Scratch::new("limit-fifo");
    let name = scratch.c("fifo");
    // SAFETY:
    // - a path with its NUL, alive for the call
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    std::fs::write(scratch.path("file"), "x").unwrap();
    let file = scratch.c("file");
    everywhere(|session, what| {
        let free = tables(session).files_free.free();
        // Lanes that call together with those that wait get their files.
        let opened = each(session, 6, |fs, lane| {
            let opened = fs.open(if lane % 2 == 0 { &name } else { &file }, O_WRONLY, 0);
            opened.and_then(|opened| fs.close(opened))
        });
        for (lane, opened) in opened.into_iter().enumerate() {
            assert_eq!(opened, if lane % 2 == 0 { Err(Errno::TIMEDOUT) } else { Ok(()) }, "{what}: {lane}");
        }
        // Opening for reading does not wait, and the first read does.
        let read = once(session, |fs| {
            let end = fs.open(&name, O_RDONLY, 0)?;
            let read = fs.read(end, &mut [0; 4]);
            fs.close(end)?;
            read
        });
        assert_eq!(read, Err(Errno::TIMEDOUT), "{what}");
        assert_eq!(tables(session).files_free.free(), free, "{what}: entries of the file table");
    });
}

/// A stream's reader gives the lock back, and the stream reads on when there is something.
#[test]
fn a_stream_on_a_silent_socket() {
    everywhere(|session, name| {
        let (near, mut far) = UnixStream::pair().unwrap();
        let socket = give(session, near);
        let file = once(session, |fs| fs.fdopen(socket, c"r").unwrap());
        let read = each(session, 3, |_, _| file.fgetc());
        assert_eq!(read, [Err(Errno::TIMEDOUT); 3], "{name}");
        far.write_all(b"line\n").unwrap();
        let line = once(session, |_| {
            file.clearerr();
            let mut line = [0; 16];
            file.fgets(&mut line).map(|line| line.map(|line| line.to_owned()))
        });
        assert_eq!(line, Ok(Some(c"line\n".to_owned())), "{name}");
        once(session, |_| file.fclose().unwrap());
    });
}

#[test]
fn a_lock_that_another_has() {
    let scratch = Scratch::new("limit-lock");
    std::fs::write(scratch.path("file"), "x").unwrap();
    let file = scratch.c("file");
    everywhere(|session, name| {
        let other = std::fs::File::open(scratch.path("file")).unwrap();
        other.lock().unwrap();
        let outcome = once(session, |fs| {
            let opened = fs.open(&file, O_RDONLY, 0).unwrap();
            let outcome = fs.flock(opened, LOCK_EX);
            fs.close(opened).unwrap();
            outcome
        });
        assert_eq!(outcome, Err(Errno::TIMEDOUT), "{name}");
        other.unlock().unwrap();
        let outcome = once(session, |fs| {
            let opened = fs.open(&file, O_RDONLY, 0).unwrap();
            let outcome = fs.flock(opened, LOCK_EX).and_then(|()| fs.flock(opened, LOCK_UN));
            fs.close(opened).unwrap();
            outcome
        });
        assert_eq!(outcome, Ok(()), "{name}");
    });
}

/// What was sent before the limit counts. A Unix socket whose peer takes no more connections waits for that, and without waiting says so.
#[test]
fn sockets_that_nobody_serves() {
    everywhere(|session, name| {
        let (near, _far) = UnixStream::pair().unwrap();
        let socket = give(session, near);
        let (first, second) = once(session, |fs| {
            let much = vec![1; 1 << 20];
            (fs.send(socket, &much, 0), fs.send(socket, &much, 0))
        });
        assert!(matches!(first, Ok(1..1_048_576)), "{name}: {first:?}");
        assert_eq!(second, Err(Errno::TIMEDOUT), "{name}");
        let address = SocketAddress::unix(b"\0gpufs-limit-backlog").unwrap();
        let ends = once(session, |fs| {
            let listener = fs.socket(AF_UNIX, SOCK_STREAM, 0).unwrap();
            fs.bind(listener, &address).unwrap();
            fs.listen(listener, 0).unwrap();
            let ends = [SOCK_NONBLOCK, 0].map(|flag| {
                // The first takes the only place.
                let sockets = [(); 3].map(|()| fs.socket(AF_UNIX, SOCK_STREAM | flag, 0).unwrap());
                let connected = sockets.map(|socket| fs.connect(socket, &address));
                sockets.into_iter().for_each(|socket| fs.close(socket).unwrap());
                connected[2]
            });
            fs.close(listener).unwrap();
            ends
        });
        assert_eq!(ends, [Err(Errno::AGAIN), Err(Errno::TIMEDOUT)], "{name}");
    });
}

/// A poll asks once where something is ready, does not ask where nothing is named, and looks once more behind a wait.
#[test]
fn polls_ask_no_more_than_they_must() {
    for mode in MODES {
        let Ok(mut session) = small().mode(mode).cpu() else {
            skip("polls_ask_no_more_than_they_must", mode);
            continue;
        };
        let [from, to] = once(&mut session, |fs| fs.pipe().unwrap());
        let of = |end: Descriptor, events| PollFd { fd: end.0.cast_signed(), events, revents: 0 };
        let mut polled = |all: &[PollFd], timeout| {
            let before = session.statistics().total().operations;
            let ready = once(&mut session, |fs| fs.poll(&mut all.to_vec(), timeout));
            (ready, session.statistics().total().operations - before)
        };
        let nobody = PollFd { fd: -1, events: POLLIN, revents: 0 };
        assert_eq!(polled(&[of(to, POLLOUT)], 100), (Ok(1), 1), "{mode}");
        assert_eq!(polled(&[of(from, POLLIN)], 0), (Ok(0), 1), "{mode}");
        assert_eq!(polled(&[], 3), (Ok(0), 0), "{mode}");
        assert_eq!(polled(&[nobody], 3), (Ok(0), 2), "{mode}");
        // A poll of the ring and its cancel, between two looks.
        assert_eq!(polled(&[of(from, POLLIN)], 3), (Ok(0), 4), "{mode}");
        assert_eq!(polled(&vec![of(from, POLLIN); POLL_MAX + 1], 3), (Err(Errno::INVAL), 0), "{mode}");
        // Number 0 is a descriptor like any other.
        let first = once(&mut session, |fs| {
            assert_eq!(fs.write(to, b"x"), Ok(1));
            assert_eq!(fs.dup2(from, Descriptor(0)), Ok(Descriptor(0)));
            let mut all = [of(Descriptor(0), POLLIN | POLLOUT)];
            (fs.poll(&mut all, 0), all[0].revents)
        });
        assert_eq!(first, (Ok(1), POLLIN), "{mode}");
    }
}
