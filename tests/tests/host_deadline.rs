//! Calls that the host makes itself, past the session's deadline: before the first launch and after one, in every mode. Each ends with
//! `ETIMEDOUT`, and the session goes on.
#![expect(unsafe_code, reason = "makes a FIFO")]

use std::fs::{File as HostFile, OpenOptions};
use std::io::{Read as _, Write as _};
use std::sync::mpsc;
use std::time::Duration;

use gpufs_core::Queue;
use gpufs_device::Errno;
use gpufs_device::file::O_RDONLY;
use gpufs_device::stdio::Buffering;
use gpufs_host::ring::Mode;
use gpufs_host::{Grid, Session};
use gpufs_tests::{Scratch, skip, small, tables};

/// Runs `body` with a session of each mode that works here, before its first launch and after it, in a thread that is waited for no longer
/// than makes sense. Such a call would otherwise be waited for without end.
fn in_every_mode(test: &'static str, body: fn(&mut Session, &Scratch, Mode)) {
    for mode in Mode::BEST_FIRST {
        for launched in [false, true] {
            let (done, ended) = mpsc::channel();
            let thread = std::thread::spawn(move || {
                let scratch = Scratch::in_memory(test);
                match small().mode(mode).idle(Duration::from_millis(5)).deadline(Duration::from_secs(1)).cpu()
                {
                    Err(error) => skip(&format!("{test} in {mode}"), error),
                    Ok(mut session) => {
                        if launched {
                            session.run(Grid { blocks: 1, threads: 3 }, |_| {}).unwrap();
                        }
                        body(&mut session, &scratch, mode);
                    }
                }
                done.send(()).unwrap();
            });
            match ended.recv_timeout(Duration::from_secs(120)) {
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("{mode}, launched {launched}: it hangs"),
                _ => thread.join().unwrap_or_else(|_| panic!("{mode}, launched {launched}: it panicked")),
            }
        }
    }
}

/// A FIFO that both ends of which the test has open, so that opening it waits for nobody.
fn fifo(scratch: &Scratch) -> HostFile {
    let path = scratch.c("fifo");
    // SAFETY:
    // - the path ends with a NUL
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    OpenOptions::new().read(true).write(true).open(scratch.path("fifo")).unwrap()
}

/// The session still does what it is for.
fn still_works(session: &mut Session, scratch: &Scratch) {
    let path = scratch.c("after");
    let written = session.with_tables(|fs| {
        let file = fs.fopen(&path, c"w+")?;
        file.fwrite(b"hello")?;
        file.rewind();
        let mut back = [0; 8];
        let count = file.fread(&mut back)?;
        file.fclose()?;
        Ok::<_, Errno>(back[..count].to_vec())
    });
    assert_eq!(written.unwrap().unwrap(), b"hello");
    session.run(Grid { blocks: 2, threads: 32 }, |fs| fs.nop().unwrap()).unwrap();
    session.synchronize().unwrap();
}

#[test]
fn reading_a_pipe_that_nobody_writes() {
    in_every_mode("reading_a_pipe_that_nobody_writes", |session, scratch, _| {
        let mut writer = fifo(scratch);
        let path = scratch.c("fifo");
        let fs = session.fs();
        let mut into = [0; 16];
        let file = session.with_tables(|_| fs.fopen(&path, c"r")).unwrap().unwrap();
        let descriptor = session.with_tables(|_| fs.open(&path, O_RDONLY, 0)).unwrap().unwrap();
        // Again and again: what is given up is given back.
        for _ in 0..3 {
            assert_eq!(session.with_tables(|_| file.fread(&mut into)).unwrap(), Err(Errno::TIMEDOUT));
            file.clearerr();
            assert_eq!(
                session.with_tables(|_| fs.read(descriptor, &mut into)).unwrap(),
                Err(Errno::TIMEDOUT)
            );
        }
        assert_eq!(session.with_tables(|_| file.fgetc()).unwrap(), Err(Errno::TIMEDOUT));
        file.clearerr();
        // Nothing of a read that was given up takes what comes.
        writer.write_all(b"0123456789abcdef").unwrap();
        let got = session.with_tables(|_| file.fread(&mut into)).unwrap();
        assert_eq!((got, &into), (Ok(16), b"0123456789abcdef"));
        assert_eq!(session.with_tables(|_| file.fclose()).unwrap(), Ok(()));
        assert_eq!(session.with_tables(|_| fs.close(descriptor)).unwrap(), Ok(()));
        let tables = tables(session);
        assert!(tables.queues().iter().all(|queue| queue.free_slots() == queue.capacity()), "slots are lost");
        still_works(session, scratch);
    });
}

#[test]
fn calls_on_the_tables_alone() {
    in_every_mode("calls_on_the_tables_alone", |session, scratch, mode| {
        let mut writer = fifo(scratch);
        let fs = session.fs();
        // The thread of `sqpoll` sleeps, and the attendant does.
        std::thread::sleep(Duration::from_millis(20));
        let file = fs.fopen(&scratch.c("fifo"), c"r").unwrap();
        let mut into = [0; 4];
        assert_eq!(file.fread(&mut into), Err(Errno::TIMEDOUT), "{mode}");
        file.clearerr();
        writer.write_all(b"4444").unwrap();
        assert_eq!((file.fread(&mut into), &into), (Ok(4), b"4444"), "{mode}");
        file.fclose().unwrap();
        still_works(session, scratch);
    });
}

#[test]
fn writing_a_pipe_that_nobody_reads() {
    in_every_mode("writing_a_pipe_that_nobody_reads", |session, scratch, mode| {
        let mut reader = fifo(scratch);
        let path = scratch.c("fifo");
        let fs = session.fs();
        // It stays open where closing gives up, also as one that may have been opened by others.
        let file = session.with_tables(|_| fs.fopen_shared(&path, c"w")).unwrap().unwrap();
        let bytes: Vec<u8> = (0..200_000_u32).map(|index| (index % 251) as u8).collect();
        let transfer = session.with_tables(|_| file.fwrite_counted(&bytes)).unwrap();
        assert_eq!(transfer.error, Some(Errno::TIMEDOUT));
        assert_eq!(session.with_tables(|_| file.fflush()).unwrap(), Err(Errno::TIMEDOUT));
        // What has its buffers in flight does not let them go.
        assert_eq!(session.with_tables(|_| file.fclose()).unwrap(), Err(Errno::TIMEDOUT));
        // Every byte that was accepted arrives, once and in order.
        let accepted = transfer.bytes;
        let draining = std::thread::spawn(move || {
            let mut back = vec![0; accepted];
            reader.read_exact(&mut back).unwrap();
            back
        });
        assert_eq!(session.with_tables(|_| file.fclose()).unwrap(), Ok(()), "{mode}");
        assert!(draining.join().unwrap() == bytes[..accepted], "{mode}: {accepted} bytes, not those");
        still_works(session, scratch);
    });
}

/// A call that gave up before any of the stream's bytes were in flight: they are lost with the stream, which is closed.
#[test]
fn a_stream_of_which_nothing_is_in_flight_is_closed() {
    let scratch = Scratch::in_memory("nothing-in-flight");
    let mut session = small().mode(Mode::Enter).deadline(Duration::from_secs(1)).cpu().unwrap();
    let file = session.with_tables(|fs| fs.fopen(&scratch.c("file"), c"w")).unwrap().unwrap();
    session.with_tables(|_| file.fputs(c"text")).unwrap().unwrap();
    // Others have all slots.
    let claims = |queue: &'static Queue| std::iter::from_fn(move || Some((queue, queue.claim(64, 0)?)));
    let taken: Vec<_> = tables(&session).queues().iter().flat_map(claims).collect();
    let closed = session.with_tables(|_| (file.fclose(), file.fclose()));
    taken.into_iter().for_each(|(queue, claim)| queue.release(claim));
    assert_eq!(closed.unwrap(), (Err(Errno::TIMEDOUT), Err(Errno::BADF)));
    assert_eq!(scratch.read("file"), b"");
    still_works(&mut session, &scratch);
}

#[test]
fn unbuffered_too() {
    in_every_mode("unbuffered_too", |session, scratch, _| {
        let mut reader = fifo(scratch);
        let path = scratch.c("fifo");
        let fs = session.fs();
        let file = session.with_tables(|_| fs.fopen(&path, c"w")).unwrap().unwrap();
        session.with_tables(|_| file.setvbuf(Buffering::None, 0)).unwrap().unwrap();
        let bytes = vec![7; 200_000];
        let transfer = session.with_tables(|_| file.fwrite_counted(&bytes)).unwrap();
        assert_eq!(transfer.error, Some(Errno::TIMEDOUT));
        let accepted = transfer.bytes;
        let draining = std::thread::spawn(move || {
            let mut back = vec![0; accepted];
            reader.read_exact(&mut back).unwrap();
        });
        assert_eq!(session.with_tables(|_| file.fclose()).unwrap(), Ok(()));
        draining.join().unwrap();
        still_works(session, scratch);
    });
}

#[test]
fn opening_a_fifo_that_nobody_writes() {
    in_every_mode("opening_a_fifo_that_nobody_writes", |session, scratch, mode| {
        if mode == Mode::Threads {
            // A worker is then in `open(2)`, which only a writer ends.
            return skip("opening_a_fifo_that_nobody_writes in threads", "a worker cannot leave open(2)");
        }
        drop(fifo(scratch));
        let path = scratch.c("fifo");
        let opened = session.with_tables(|fs| fs.fopen(&path, c"r").map(drop)).unwrap();
        // The other modes may open it without waiting.
        assert!(matches!(opened, Err(Errno::TIMEDOUT) | Ok(())), "{opened:?}");
        still_works(session, scratch);
    });
}

#[test]
fn a_stream_that_a_lane_holds() {
    in_every_mode("a_stream_that_a_lane_holds", |session, scratch, mode| {
        let mut writer = fifo(scratch);
        let path = scratch.c("fifo");
        let fs = session.fs();
        let file = session.with_tables(|_| fs.fopen(&path, c"r")).unwrap().unwrap();
        session
            .launch(Grid { blocks: 1, threads: 1 }, move |_| {
                let mut into = [0; 16];
                let _ = file.fread(&mut into);
            })
            .unwrap();
        std::thread::sleep(Duration::from_millis(50));
        // The lane's own wait ends with its kernel, about now.
        let mut into = [0; 16];
        let got = session.with_tables(|_| file.fread(&mut into)).unwrap();
        assert!(got.is_err(), "{mode}: {got:?}");
        assert!(session.synchronize().is_err(), "{mode}");
        writer.write_all(b"x").unwrap();
    });
}
