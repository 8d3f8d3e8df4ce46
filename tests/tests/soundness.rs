//! Programs of safe Rust that misuse sessions: each ends in an error or a panic that says what was wrong, none touches memory that is not there.
//! Such as must not compile stand as examples in the documentation of what they misuse (`compile_fail`).
#![forbid(unsafe_code)]

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use gpufs_core::word::DeviceWord;
use gpufs_device::file::O_RDONLY;
use gpufs_device::kernel::Shared;
use gpufs_device::service::Directory;
use gpufs_device::{Errno, File, Fs, warp};
use gpufs_host::ring::Mode;
use gpufs_host::{Builder, CpuOptions, Session};
use gpufs_tests::{MODES, Scratch, lanes, once, skip, small};

/// Sessions of this process take each other's memory: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn options() -> CpuOptions {
    CpuOptions { threads: 2, ..CpuOptions::default() }
}

fn open(builder: &Builder) -> Session {
    builder.clone().cpu_with(options()).unwrap()
}

/// Each mode that works here.
fn modes(test: &str) -> impl Iterator<Item = (Mode, Builder)> {
    MODES.into_iter().filter_map(move |mode| {
        let builder = small().mode(mode);
        match builder.clone().cpu_with(options()) {
            Ok(_) => Some((mode, builder)),
            Err(error) => {
                skip(&format!("{test} in {mode}"), error.to_string());
                None
            }
        }
    })
}

/// What a program may keep of a session.
struct Kept {
    fs: Fs,
    stream: File,
    text: File,
    file: gpufs_device::file::Descriptor,
    directory: Directory,
}

impl Kept {
    fn of(session: &Session, scratch: &Scratch) -> Self {
        let fs = session.fs();
        std::fs::write(scratch.path("data"), b"some data").unwrap();
        let directory = scratch.c(".");
        Self {
            fs,
            stream: fs.fopen(&scratch.c("kept"), c"w+").unwrap(),
            text: fs.open_memstream().unwrap(),
            file: fs.open(&scratch.c("data"), O_RDONLY, 0).unwrap(),
            directory: fs.opendir(&directory).unwrap(),
        }
    }

    /// Every kind of call: each is refused.
    fn is_refused(&self, scratch: &Scratch) {
        let Self { fs, stream, text, file, directory } = *self;
        let mut bytes = [0; 16];
        assert_eq!(fs.nop(), Err(Errno::BADF));
        assert_eq!(fs.pread(file, &mut bytes, 0), Err(Errno::BADF));
        assert_eq!(fs.read(file, &mut bytes), Err(Errno::BADF));
        assert_eq!(fs.close(file), Err(Errno::BADF));
        assert_eq!(fs.fopen(&scratch.c("other"), c"w").err(), Some(Errno::BADF));
        assert_eq!(fs.open(&scratch.c("data"), O_RDONLY, 0), Err(Errno::BADF));
        assert_eq!(fs.stat(&scratch.c("data")).err(), Some(Errno::BADF));
        assert_eq!(fs.readdir(directory, &mut gpufs_core::abi::Dirent::default()), Err(Errno::BADF));
        assert_eq!(fs.closedir(directory), Err(Errno::BADF));
        assert_eq!(fs.fflush_all(), Err(Errno::BADF));
        assert_eq!(fs.stdout().fputs(c"nothing\n"), Err(Errno::BADF));
        for stream in [stream, text] {
            assert_eq!(stream.fputs(c"a line\n"), Err(Errno::BADF));
            assert_eq!(stream.fwrite_counted(b"a line\n").error, Some(Errno::BADF));
            assert_eq!(stream.fread(&mut bytes), Err(Errno::BADF));
            assert_eq!(stream.fgets(&mut [0; 16]), Err(Errno::BADF));
            assert_eq!(stream.fflush(), Err(Errno::BADF));
            assert_eq!(stream.ftell(), Err(Errno::BADF));
            assert_eq!(stream.fileno(), Err(Errno::BADF));
            stream.clearerr();
            stream.rewind();
            assert_eq!(stream.fs().nop(), Err(Errno::BADF), "nor does it lead to a session");
            assert_eq!(stream.fclose(), Err(Errno::BADF));
        }
        assert!(text.memory_text(&mut [0; 16]).is_err());
    }
}

/// `drop(session); fs.nop()`, and whatever else a program has kept.
#[test]
fn what_was_kept_of_a_closed_session_is_closed() {
    let _alone = alone();
    let scratch = Scratch::new("sound-closed");
    for (_, builder) in modes("what_was_kept_of_a_closed_session_is_closed") {
        let session = open(&builder);
        let kept = Kept::of(&session, &scratch);
        kept.fs.nop().unwrap();
        drop(session);
        kept.is_refused(&scratch);
    }
}

/// A later session gets the memory of a closed one: what was kept of that does not work on it.
#[test]
fn what_was_kept_does_not_work_on_a_later_session() {
    let _alone = alone();
    let scratch = Scratch::new("sound-later");
    for (mode, builder) in modes("what_was_kept_does_not_work_on_a_later_session") {
        // A thread that ends late may give back, or take, what lies beside the memory: then once more.
        let same_memory = || {
            let session = open(&builder);
            let kept = Kept::of(&session, &scratch);
            let tables = session.device_tables();
            drop(session);
            let later = open(&builder);
            (later.device_tables() == tables).then_some((kept, later))
        };
        let found = (0..20).find_map(|_| same_memory());
        let Some((kept, mut later)) = found else { panic!("{mode}: no later session has the same memory") };
        kept.is_refused(&scratch);
        // Nor from a lane of its own, which passes no gate.
        once(&mut later, move |_| Kept { ..kept }.is_refused(&Scratch::new("sound-later-lane")));
        later.fs().nop().unwrap();
        once(&mut later, |fs| fs.nop().unwrap());
    }
}

/// Threads make calls while the session is closed: each call is made or refused, and none is left inside.
#[test]
fn calls_of_threads_while_a_session_is_closed() {
    let _alone = alone();
    let scratch = Scratch::new("sound-racing");
    for (mode, builder) in modes("calls_of_threads_while_a_session_is_closed") {
        for round in 0..6 {
            let session = open(&builder);
            let fs = session.fs();
            let log = fs.fopen(&scratch.c("log"), c"w").unwrap();
            let calls: Vec<_> = (0..3)
                .map(|index| {
                    thread::spawn(move || {
                        let mut made = 0_u64;
                        loop {
                            let called = match index {
                                0 => fs.nop(),
                                1 => log.fputs(c"a line\n"),
                                _ => fs.stat(c"/").map(drop),
                            };
                            match called {
                                Ok(()) => made += 1,
                                Err(Errno::BADF) => return made,
                                Err(errno) => panic!("{errno}"),
                            }
                        }
                    })
                })
                .collect();
            thread::sleep(Duration::from_millis(2 * round));
            drop(session);
            let made: Vec<u64> = calls.into_iter().map(|call| call.join().unwrap()).collect();
            let lines = scratch.read("log");
            assert_eq!(lines.len() as u64, 7 * made[1], "{mode}: each line that was accepted is there");
        }
    }
}

/// Closing waits for a call that is inside, and it is made whole.
#[test]
fn closing_waits_for_a_call_that_is_inside() {
    let _alone = alone();
    for (mode, builder) in modes("closing_waits_for_a_call_that_is_inside") {
        let session = open(&builder);
        let fs = session.fs();
        let (reader, mut writer) = io::pipe().unwrap();
        let path =
            std::ffi::CString::new(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader)))
                .unwrap();
        let input = fs.open(&path, O_RDONLY, 0).unwrap();
        let reads = thread::spawn(move || {
            let mut bytes = [0; 5];
            fs.read(input, &mut bytes).map(|count| (count, bytes))
        });
        thread::sleep(Duration::from_millis(50));
        let closed = Arc::new(DeviceWord::new(0));
        let closes = thread::spawn({
            let closed = Arc::clone(&closed);
            move || {
                drop(session);
                closed.publish(1);
            }
        });
        thread::sleep(Duration::from_millis(50));
        assert_eq!(closed.observe(), 0, "{mode}: it waits for the read");
        assert_eq!(fs.nop(), Err(Errno::BADF), "and lets nothing in");
        io::Write::write_all(&mut writer, b"bytes").unwrap();
        assert_eq!(reads.join().unwrap(), Ok((5, *b"bytes")), "{mode}");
        closes.join().unwrap();
    }
}

/// Lanes of one session make calls on another, which runs nothing, while that is closed and another takes its memory.
#[test]
fn lanes_of_another_session_make_calls() {
    let _alone = alone();
    let scratch = Scratch::new("sound-abroad");
    for (mode, builder) in modes("lanes_of_another_session_make_calls") {
        let mut first = open(&builder);
        let second = open(&builder.clone().ring_entries(256));
        let (fs, log) = (second.fs(), second.fs().fopen(&scratch.c("log"), c"w").unwrap());
        static MADE: DeviceWord = DeviceWord::new(0);
        static REFUSED: DeviceWord = DeviceWord::new(0);
        MADE.set(0);
        REFUSED.set(0);
        let kernel = move |_: Fs| {
            // Ends: the session is closed.
            loop {
                let called =
                    if warp::global_thread().is_multiple_of(2) { fs.nop() } else { log.fputs(c"a line\n") };
                match called {
                    Ok(()) => MADE.count(1),
                    Err(errno) => {
                        assert_eq!(errno, Errno::BADF);
                        REFUSED.count(1);
                        return;
                    }
                }
            }
        };
        first.launch(lanes(40), kernel).unwrap();
        while MADE.observe() < 200 {
            thread::yield_now();
        }
        drop(second);
        let third = open(&builder.clone().ring_entries(256));
        first.synchronize().unwrap();
        assert_eq!(REFUSED.observe(), 40, "{mode}");
        third.fs().nop().unwrap();
        assert_eq!(scratch.read("log").len() % 7, 0, "{mode}: whole lines");
    }
}

/// The host flushes streams while threads print: nothing is lost, and no line is torn.
#[test]
fn threads_print_while_the_host_synchronizes() {
    let _alone = alone();
    let scratch = Scratch::new("sound-synchronize");
    for (mode, builder) in modes("threads_print_while_the_host_synchronizes") {
        let mut session = open(&builder);
        let log = session.fs().fopen(&scratch.c("log"), c"w").unwrap();
        let stop = Arc::new(DeviceWord::new(0));
        let prints: Vec<_> = (0..2)
            .map(|_| {
                let stop = Arc::clone(&stop);
                thread::spawn(move || {
                    let mut made = 0_usize;
                    while stop.observe() == 0 {
                        log.fputs(c"a line\n").unwrap();
                        made += 1;
                    }
                    made
                })
            })
            .collect();
        let placed = session.place(DeviceWord::new(7)).unwrap();
        for _ in 0..50 {
            session.synchronize().unwrap();
            assert_eq!(session.fetch(&placed).unwrap().peek(), 7);
        }
        stop.publish(1);
        let made: usize = prints.into_iter().map(|print| print.join().unwrap()).sum();
        session.fs().fflush_all().unwrap();
        assert_eq!(scratch.read("log"), b"a line\n".repeat(made), "{mode}");
    }
}

/// A placed value is its session's: another cannot fetch it, nor while a kernel runs, and no lane of another session reaches it.
#[test]
fn a_placed_value_is_for_its_own_session() {
    let _alone = alone();
    let builder = small().mode(Mode::Threads);
    let (mut first, mut second) = (open(&builder), open(&builder.clone().ring_entries(256)));
    let placed = first.place(DeviceWord::new(1)).unwrap();
    let buffer = first.device_buffer(4096).unwrap();
    let other = second.place([0_u8; 4096]).unwrap();
    let error = second.fetch(&placed).map(drop).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("another session"), "{error}");
    assert!(first.fetch(&other).is_err() && second.read_device(&buffer, 0, &mut [0; 8]).is_err());
    assert!(second.write_device(&buffer, 0, &[0; 8]).is_err());

    let (fs, handle): (Fs, Shared<DeviceWord>) = (first.fs(), placed.handle());
    let got = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handle.with(fs, DeviceWord::peek)));
    assert!(got.is_err(), "a thread has no placed values");
    let ran = second.run(lanes(1), move |_| handle.with(fs, |word| word.set(2)));
    assert!(ran.unwrap_err().to_string().contains("session's kernels"));
    let ran = second.run(lanes(1), move |own| handle.with(own, |word| word.set(2)));
    assert!(ran.unwrap_err().to_string().contains("another session placed"));

    static GO: DeviceWord = DeviceWord::new(0);
    GO.set(0);
    first
        .launch(lanes(1), move |fs| {
            while GO.observe() == 0 {
                warp::nap(1_000);
            }
            handle.with(fs, |word| word.set(3));
        })
        .unwrap();
    assert_eq!(first.fetch(&placed).map(drop).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    GO.publish(1);
    first.synchronize().unwrap();
    assert_eq!(first.fetch(&placed).unwrap().peek(), 3);
    // A session that has the memory of the one that placed it.
    drop(first);
    let mut later = open(&builder);
    let new = later.place(DeviceWord::new(9)).unwrap();
    assert!(later.fetch(&placed).is_err(), "it was a session before");
    assert_eq!(later.fetch(&new).unwrap().peek(), 9);
    // Nor from a lane: where it lay, another session may be writing a value of its own.
    let ran = later.run(lanes(1), move |own| handle.with(own, |word| word.set(2)));
    assert!(ran.unwrap_err().to_string().contains("which is closed"));
    assert_eq!(later.fetch(&new).unwrap().peek(), 9);
}

/// Whoever prints may run code of the program: it can close what it prints to.
#[test]
fn a_text_that_closes_its_stream() {
    struct Closes(File);
    impl std::fmt::Display for Closes {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let _ = self.0.fclose();
            f.write_str("closed")
        }
    }
    let _alone = alone();
    let scratch = Scratch::new("sound-text");
    let session = open(&small().mode(Mode::Threads));
    let log = session.fs().fopen(&scratch.c("log"), c"w").unwrap();
    assert_eq!(log.write_fmt(format_args!("{}", Closes(log))), Err(Errno::BADF));
}

/// What a lane, or a function that a kernel has called, gets that closes or waits for its own session; it would wait for itself for ever.
#[test]
fn a_session_is_not_closed_by_what_it_waits_for() {
    let _alone = alone();
    type Slot = Arc<Mutex<Option<Session>>>;
    /// Does it with the session once it is there: what it says.
    fn refused(slot: &Slot, act: impl FnOnce(Session)) -> String {
        // Ends: the host puts it there.
        let session = loop {
            if let Some(session) = slot.lock().unwrap().take() {
                break session;
            }
            warp::nap(10_000);
        };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(session)));
        *caught.expect_err("it would wait for ever").downcast::<String>().expect("a sentence")
    }
    for (mode, _) in modes("a_session_is_not_closed_by_what_it_waits_for") {
        for by_function in [false, true] {
            for act in [drop as fn(Session), |mut session| drop(session.synchronize())] {
                let (slot, said) = (Slot::default(), Arc::new(Mutex::new(String::new())));
                let (own, says) = (Arc::clone(&slot), Arc::clone(&said));
                let work = move || *says.lock().unwrap() = refused(&own, act);
                // Sessions of one builder share its functions.
                let mut session = open(&small().mode(mode));
                if by_function {
                    let function = move |_: &[u8], _: &mut [u8]| {
                        work();
                        Ok(())
                    };
                    session.add_service_of_bytes("close", (0, 0), function).unwrap();
                    session
                        .launch(lanes(1), |fs| {
                            fs.call_by_key(gpufs_core::service::key_of(b"close"), &[], &mut []).unwrap();
                        })
                        .unwrap();
                } else {
                    session.launch(lanes(1), move |_| work()).unwrap();
                }
                *slot.lock().unwrap() = Some(session);
                let started = std::time::Instant::now();
                // Ends: it is said, or too late.
                while said.lock().unwrap().is_empty() {
                    assert!(started.elapsed() < Duration::from_secs(100), "{mode}: it waits");
                    thread::sleep(Duration::from_millis(1));
                }
                let said = said.lock().unwrap().clone();
                assert!(said.contains("would wait for itself for ever"), "{mode}: {said}");
                assert!(
                    said.starts_with(if by_function { "a function" } else { "a lane" }),
                    "{mode}: {said}"
                );
            }
        }
    }
}
