//! Operations that may never end hold nothing that others need: reads of empty pipes, FIFOs and sockets, writes to full ones, opens of FIFOs.
//! However few staging buffers, slots and threads there are, who ends such a wait can start.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use gpufs_core::word::DeviceWord;
use gpufs_device::file::{Descriptor, O_NONBLOCK, O_RDONLY, O_WRONLY};
use gpufs_device::socket::{POLLIN, PollFd};
use gpufs_device::{Errno, Fs, warp};
use gpufs_host::ring::Mode;
use gpufs_host::{Builder, CpuOptions, Grid, Session};
use gpufs_tests::{MODES, Scratch, once, skip, small};

/// A session in `mode`, of warps of `width` lanes, as many of them at a time as there are.
fn open(builder: Builder, mode: Mode, width: u32) -> Option<Session> {
    let options = CpuOptions { width, resident_warps: 8192, stack_bytes: 64 << 10, ..CpuOptions::default() };
    match builder.mode(mode).cpu_with(options) {
        Ok(session) => Some(session),
        Err(refused) => {
            skip(&format!("{mode}, width {width}"), refused);
            None
        }
    }
}

/// Sixteen staging buffers and few slots.
fn tight() -> Builder {
    small().buffers(128 << 10).ring_entries(128).files(4096).deadline(gpufs_tests::patience())
}

/// Raises the process's limit of descriptors to what it may be; whether `wanted` fit.
fn descriptors_fit(wanted: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY:
    // - the kernel writes and reads one `rlimit`, which is borrowed for the calls
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
    limit.rlim_cur >= wanted
}

/// Lanes that read a byte each from files of their own, of `pipes` pipes, and lanes behind them, in warps of their own, that then write
/// these bytes.
fn reads_then_writes(session: &mut Session, width: u32, readers: u32, pipes: u32) {
    let mut give = |end: OwnedFd| session.register_file(end).unwrap().0;
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for pipe in 0..pipes {
        let (reader, writer) = std::io::pipe().unwrap();
        to.push(give(writer.into()));
        // The lanes' own, so that they do not come one after the other.
        let lanes = (pipe..readers).step_by(pipes as usize).count();
        from.push((0..lanes).map(|_| give(reader.try_clone().unwrap().into())).collect::<Vec<_>>());
    }
    let (arrived, read) = (DeviceWord::new(0), DeviceWord::new(0));
    let first_writer = readers.next_multiple_of(width);
    let end = first_writer + readers;
    session
        .run(Grid { blocks: end.div_ceil(width), threads: width }, |fs| {
            let lane = u32::try_from(warp::global_thread()).unwrap();
            if lane < readers {
                arrived.fetch_add(1);
                let mut byte = [0];
                let from = Descriptor(from[(lane % pipes) as usize][(lane / pipes) as usize]);
                assert_eq!(fs.read(from, &mut byte), Ok(1));
                assert_eq!(byte, [b'x']);
                read.fetch_add(1);
            } else if (first_writer..end).contains(&lane) {
                // As many reads as can be are under way by now.
                while arrived.observe() < readers {
                    warp::nap(10_000);
                }
                let to = Descriptor(to[((lane - first_writer) % pipes) as usize]);
                assert_eq!(fs.write(to, b"x"), Ok(1));
            }
        })
        .unwrap();
    assert_eq!(read.peek(), readers);
}

#[test]
fn lanes_read_pipes_that_others_then_write() {
    for mode in MODES {
        for (width, readers) in [(1, 70), (1, 200), (32, 200), (64, 640), (1, 1000)] {
            let Some(mut session) = open(tight(), mode, width) else { continue };
            reads_then_writes(&mut session, width, readers, readers);
            println!("{mode}, width {width}: {readers} lanes");
        }
    }
}

#[test]
fn more_lanes_wait_than_there_are_staging_buffers_by_default() {
    if !descriptors_fit(12_000) {
        return skip("more_lanes_wait_than_there_are_staging_buffers_by_default", "too few descriptors");
    }
    for mode in MODES {
        let builder = Session::builder().files(8192).deadline(gpufs_tests::patience());
        let Some(mut session) = open(builder, mode, 1) else { continue };
        reads_then_writes(&mut session, 1, 5000, 20);
        println!("{mode}");
    }
}

/// A lane that reads a socket does not keep another from writing to it what the answer waits for.
#[test]
fn lanes_talk_through_sockets_that_the_host_gave() {
    for mode in MODES {
        for width in [1, 32] {
            let Some(mut session) = open(tight(), mode, width) else { continue };
            let (near, far): (Vec<_>, Vec<_>) = (0..40).map(|_| UnixStream::pair().unwrap()).unzip();
            let near: Vec<u32> =
                near.into_iter().map(|end| session.register_file(OwnedFd::from(end)).unwrap().0).collect();
            let echo = thread::spawn(move || {
                for mut far in far {
                    let mut question = [0; 8];
                    far.read_exact(&mut question).unwrap();
                    far.write_all(&question.map(|byte| byte.to_ascii_uppercase())).unwrap();
                }
            });
            let first_writer = 40_u64.next_multiple_of(u64::from(width));
            let blocks = u32::try_from(first_writer + 40).unwrap().div_ceil(width);
            session
                .run(Grid { blocks, threads: width }, |fs| {
                    let lane = warp::global_thread();
                    if let Some(socket) = near.get(usize::try_from(lane).unwrap()) {
                        let mut answer = [0; 8];
                        assert_eq!(fs.read(Descriptor(*socket), &mut answer), Ok(8));
                        assert_eq!(&answer, b"QUESTION");
                    } else if let Some(lane) = lane.checked_sub(first_writer)
                        && let Some(socket) = near.get(usize::try_from(lane).unwrap())
                    {
                        assert_eq!(fs.write(Descriptor(*socket), b"question"), Ok(8));
                    }
                })
                .unwrap();
            echo.join().unwrap();
        }
    }
}

/// A write waits until all of it is taken; others read meanwhile, more than the staging memory at a time.
#[test]
fn lanes_fill_pipes_that_others_read_later() {
    const BYTES: usize = 150_000;
    for mode in MODES {
        let Some(mut session) = open(tight(), mode, 1) else { continue };
        let pipes: Vec<(u32, u32)> = (0..40)
            .map(|_| {
                let (reader, writer) = std::io::pipe().unwrap();
                let mut give = |end: OwnedFd| session.register_file(end).unwrap().0;
                (give(reader.into()), give(writer.into()))
            })
            .collect();
        let arrived = DeviceWord::new(0);
        let text: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
        session
            .run(Grid { blocks: 80, threads: 1 }, |fs| {
                let lane = usize::try_from(warp::global_thread()).unwrap();
                if lane < 40 {
                    arrived.fetch_add(1);
                    assert_eq!(fs.write(Descriptor(pipes[lane].1), &text), Ok(BYTES));
                    return;
                }
                while arrived.observe() < 40 {
                    warp::nap(10_000);
                }
                let mut all = vec![0; BYTES];
                let mut done = 0;
                while done < BYTES {
                    let count = fs.read(Descriptor(pipes[lane - 40].0), &mut all[done..]).unwrap();
                    assert_ne!(count, 0);
                    done += count;
                }
                assert!(all == text);
            })
            .unwrap();
    }
}

fn make_fifo(scratch: &Scratch, name: &str) -> std::ffi::CString {
    let path = scratch.c(name);
    // SAFETY:
    // - a path with its NUL, alive for the call
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    path
}

/// As many lanes read FIFOs that others open for writing later, as wait for their readers; more than the staging buffers.
#[test]
fn fifos_wait_for_their_other_end() {
    const FIFOS: u64 = 70;
    let scratch = Scratch::new("waiting-fifos");
    let names: Vec<_> = (0..2 * FIFOS).map(|number| make_fifo(&scratch, &format!("fifo{number}"))).collect();
    for mode in MODES {
        for width in [1, 32] {
            let Some(mut session) = open(tight(), mode, width) else { continue };
            let arrived = DeviceWord::new(0);
            let first_later = FIFOS.next_multiple_of(width.into());
            let blocks = u32::try_from(first_later + FIFOS).unwrap().div_ceil(width);
            let read = |fs: Fs, name: &std::ffi::CStr| {
                let from = fs.open(name, O_RDONLY, 0).unwrap();
                let mut bytes = [0; 8];
                assert_eq!(fs.read(from, &mut bytes), Ok(5));
                assert_eq!(&bytes[..5], b"hello");
                assert_eq!(fs.read(from, &mut bytes), Ok(0), "the writer is gone");
                fs.close(from).unwrap();
            };
            let write = |fs: Fs, name: &std::ffi::CStr| {
                let to = fs.open(name, O_WRONLY, 0).unwrap();
                assert_eq!(fs.write(to, b"hello"), Ok(5));
                fs.close(to).unwrap();
            };
            session
                .run(Grid { blocks, threads: width }, |fs| {
                    let lane = warp::global_thread();
                    if lane < FIFOS {
                        arrived.fetch_add(1);
                        let name = &names[usize::try_from(lane).unwrap()];
                        if (lane / u64::from(width)).is_multiple_of(2) {
                            read(fs, name);
                        } else {
                            write(fs, name);
                        }
                    } else if let Some(lane) = lane.checked_sub(first_later).filter(|lane| *lane < FIFOS) {
                        while u64::from(arrived.observe()) < FIFOS {
                            warp::nap(10_000);
                        }
                        let name = &names[usize::try_from(lane).unwrap()];
                        if lane / u64::from(width) % 2 == 0 { write(fs, name) } else { read(fs, name) }
                    }
                })
                .unwrap();
        }
    }
}

/// What a call that does not wait comes to: where the kernel's threads get no core for a while, the answer is `EAGAIN` first.
fn patiently(mut call: impl FnMut() -> Result<usize, Errno>) -> Option<Result<usize, Errno>> {
    (0..1000).map(|_| call()).find(|tried| *tried != Err(Errno::AGAIN))
}

/// One behaviour in all modes, whether or not the system has the path at hand.
#[test]
fn opens_of_fifos_are_alike_in_all_modes() {
    for mode in MODES {
        let Some(mut session) = open(small(), mode, 1) else { continue };
        let scratch = Scratch::new("waiting-opens");
        let name = make_fifo(&scratch, "fifo");
        once(&mut session, |fs| {
            let mut byte = [0];
            assert_eq!(fs.open(&name, O_WRONLY | O_NONBLOCK, 0), Err(Errno::NXIO));
            let from = fs.open(&name, O_RDONLY | O_NONBLOCK, 0).unwrap();
            assert_eq!(patiently(|| fs.read(from, &mut byte)), Some(Ok(0)), "no writer");
            let to = fs.open(&name, O_WRONLY | O_NONBLOCK, 0).unwrap();
            assert_eq!(fs.read(from, &mut byte), Err(Errno::AGAIN));
            assert_eq!(patiently(|| fs.write(to, b"x")), Some(Ok(1)));
            assert_eq!(patiently(|| fs.read(from, &mut byte)), Some(Ok(1)));
            let full = (0..100_000).find_map(|_| fs.write(to, &[b'y'; 4096]).err());
            assert_eq!(full, Some(Errno::AGAIN));
            fs.close(from).unwrap();
            // The system lets the last of the reading end go a moment after the close has completed.
            let mut tries = (0..10_000).map(|_| fs.write(to, b"x"));
            assert_eq!(tries.find(|tried| *tried != Err(Errno::AGAIN)), Some(Err(Errno::PIPE)));
            assert_eq!(fs.read(to, &mut byte), Err(Errno::BADF));
            fs.close(to).unwrap();
            // For reading without a writer: open returns, and so does the call that needs none.
            let from = fs.open(&name, O_RDONLY, 0).unwrap();
            assert_eq!(fs.read(from, &mut []), Ok(0));
            fs.close(from).unwrap();
        });
    }
}

/// The same where the other end comes later. Each part has a FIFO of its own: the system lets the last of an end go a moment after its close has
/// completed, and another part could meet it.
#[test]
fn other_ends_that_come_later_are_alike_in_all_modes() {
    for mode in MODES {
        let Some(mut session) = open(small(), mode, 1) else { continue };
        let scratch = Scratch::new("waiting-later");
        // A writer that comes, and goes without a word, is the end of the file.
        let (name, path) = (make_fifo(&scratch, "silent"), scratch.path("silent"));
        let late = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            drop(OpenOptions::new().write(true).open(path).unwrap());
        });
        once(&mut session, |fs| {
            let from = fs.open(&name, O_RDONLY, 0).unwrap();
            assert_eq!(fs.read(from, &mut [0]), Ok(0));
            fs.close(from).unwrap();
        });
        late.join().unwrap();
        // A stream waits for its writer, likewise.
        let (name, path) = (make_fifo(&scratch, "line"), scratch.path("line"));
        let late = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            let mut to = OpenOptions::new().write(true).open(path).unwrap();
            to.write_all(b"a line\n").unwrap();
        });
        once(&mut session, |fs| {
            let mut line = [0; 100];
            let file = fs.fopen(&name, c"r").unwrap();
            assert_eq!(file.fgets(&mut line).unwrap(), Some(c"a line\n"));
            assert_eq!(file.fgets(&mut line).unwrap(), None);
            file.fclose().unwrap();
        });
        late.join().unwrap();
        // For writing: waits for the reader.
        let (name, path) = (make_fifo(&scratch, "written"), scratch.path("written"));
        let late = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            std::fs::read(path).unwrap()
        });
        once(&mut session, |fs| {
            let file = fs.fopen(&name, c"w").unwrap();
            for _ in 0..3000 {
                file.fputs(c"thirty bytes of text and more\n").unwrap();
            }
            file.fclose().unwrap();
        });
        assert_eq!(late.join().unwrap(), b"thirty bytes of text and more\n".repeat(3000));
        // And of a pipe that does not wait.
        let (reader, mut writer) = std::io::pipe().unwrap();
        // SAFETY:
        // - this `fcntl` takes numbers
        unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        let from = Descriptor(session.register_file(OwnedFd::from(reader)).unwrap().0);
        assert_eq!(once(&mut session, |fs| fs.read(from, &mut [0])), Err(Errno::AGAIN));
        writer.write_all(b"x").unwrap();
        assert_eq!(once(&mut session, |fs| fs.read(from, &mut [0])), Ok(1));
        drop(writer);
        assert_eq!(once(&mut session, |fs| fs.read(from, &mut [0])), Ok(0));
    }
}

/// What waits past the deadline is reported, and closing ends whatever was waited for.
#[test]
fn closing_ends_after_a_wait_for_a_fifo() {
    for mode in MODES {
        for reading in [false, true] {
            let builder = small().deadline(Duration::from_millis(200));
            let Some(mut session) = open(builder, mode, 1) else { continue };
            let scratch = Scratch::in_memory("waiting-close");
            let name = make_fifo(&scratch, "fifo");
            let ran = session.run(Grid { blocks: 1, threads: 1 }, |fs| {
                let file = fs.open(&name, if reading { O_RDONLY } else { O_WRONLY }, 0).unwrap();
                fs.read(file, &mut [0]).unwrap();
            });
            let said = ran.unwrap_err().to_string();
            assert!(said.contains("deadline") && said.contains("Completion"), "{said}");
            drop(session);
        }
    }
}

/// Streams of pipes, as many as there are, each read by a lane; and streams to full pipes.
#[test]
fn streams_of_pipes_wait_for_each_other() {
    const STREAMS: usize = 14;
    let text: String = (0..8000).map(|number| format!("line {number}\n")).collect();
    for mode in MODES {
        let Some(mut session) = open(small(), mode, 1) else { continue };
        let pipes: Vec<_> = (0..STREAMS).map(|_| std::io::pipe().unwrap()).collect();
        let name = |fd: i32| std::ffi::CString::new(format!("/proc/self/fd/{fd}")).unwrap();
        let names: Vec<_> = pipes
            .iter()
            .map(|(reader, writer)| (name(reader.as_raw_fd()), name(writer.as_raw_fd())))
            .collect();
        let (arrived, written) = (DeviceWord::new(0), DeviceWord::new(0));
        let pipes = std::sync::Mutex::new(Some(pipes));
        session
            .run(Grid { blocks: 2 * STREAMS as u32, threads: 1 }, |fs| {
                let lane = usize::try_from(warp::global_thread()).unwrap();
                let reads = lane < STREAMS;
                let (from, to) = &names[lane % STREAMS];
                let file = if reads { fs.fopen(from, c"r").unwrap() } else { fs.fopen(to, c"w").unwrap() };
                if arrived.fetch_add(1) as usize == 2 * STREAMS - 1 {
                    // So that the streams' are the only ends.
                    drop(pipes.lock().unwrap().take());
                    written.fetch_add(1);
                }
                while written.observe() == 0 {
                    warp::nap(10_000);
                }
                if reads {
                    let (mut all, mut line) = (String::new(), [0; 64]);
                    while let Some(line) = file.fgets(&mut line).unwrap() {
                        all.push_str(line.to_str().unwrap());
                    }
                    assert!(all == text);
                } else {
                    assert_eq!(file.fwrite(text.as_bytes()), Ok(text.len()));
                }
                file.fclose().unwrap();
            })
            .unwrap();
    }
}

/// A terminal, which the system cannot try without waiting.
#[test]
fn terminals_are_read_and_written() {
    for mode in MODES {
        let Some(mut session) = open(small(), mode, 1) else { continue };
        // SAFETY:
        // - these calls take numbers, and a buffer that is alive; the descriptors are this test's own
        let (mut near, far) = unsafe {
            let near = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
            assert!(near >= 0 && libc::grantpt(near) == 0 && libc::unlockpt(near) == 0);
            let mut name = [0; 64];
            assert_eq!(libc::ptsname_r(near, name.as_mut_ptr(), 64), 0);
            (File::from_raw_fd(near), std::ffi::CStr::from_ptr(name.as_ptr()).to_owned())
        };
        let far = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY)
            .open(far.to_str().unwrap())
            .unwrap();
        let far = Descriptor(session.register_file(far).unwrap().0);
        let typist = thread::spawn(move || {
            let mut seen = [0; 6];
            near.read_exact(&mut seen).unwrap();
            near.write_all(b"typed\n").unwrap();
            (near, seen)
        });
        once(&mut session, |fs| {
            assert_eq!(fs.write(far, b"hello\n"), Ok(6));
            let mut line = [0; 100];
            assert_eq!(fs.read(far, &mut line), Ok(6));
            assert_eq!(&line[..6], b"typed\n");
        });
        let (near, seen) = typist.join().unwrap();
        assert_eq!(&seen, b"hello\r");
        drop(near);
    }
}

/// Lanes that wait for the same pipe wake together, and one of them finds something: a poll without a limit never ends with nothing.
#[test]
fn a_poll_goes_on_where_another_was_faster() {
    const BYTES: u32 = 300;
    for mode in MODES {
        let Some(mut session) = open(small(), mode, 1) else { continue };
        let [from, to] = once(&mut session, |fs| {
            let [from, to] = fs.pipe2(O_NONBLOCK).unwrap();
            [from, to]
        });
        let (taken, empty) = (DeviceWord::new(0), DeviceWord::new(0));
        session
            .run(Grid { blocks: 7, threads: 1 }, |fs| {
                if warp::global_thread() == 0 {
                    for byte in 0..BYTES {
                        while taken.observe() < byte {
                            warp::nap(1_000);
                        }
                        assert_eq!(fs.write(to, b"x"), Ok(1));
                    }
                    return fs.close(to).unwrap();
                }
                loop {
                    let mut all = [PollFd { fd: from.0.cast_signed(), events: POLLIN, revents: 0 }];
                    if fs.poll(&mut all, -1) == Ok(0) {
                        empty.fetch_add(1);
                    }
                    match fs.read(from, &mut [0]) {
                        Ok(0) => return,
                        Ok(_) => _ = taken.fetch_add(1),
                        Err(errno) => assert_eq!(errno, Errno::AGAIN),
                    }
                }
            })
            .unwrap();
        assert_eq!((taken.peek(), empty.peek()), (BYTES, 0), "{mode}");
    }
}
