//! As many streams as a session has are open and written at once, with the session's default sizes or with those that somebody chose; all
//! buffers come back.

use std::fs;

use gpufs_core::word::DeviceWord;
use gpufs_device::stdio::Buffering;
use gpufs_device::{Errno, warp};
use gpufs_host::ring::Mode;
use gpufs_host::{Builder, CpuOptions, Session};
use gpufs_tests::{MODES, Scratch, each, once, skip, small, tables};

/// Streams that a session has beside the three standard ones, by default.
const STREAMS: u32 = 253;

fn default_session() -> Builder {
    Session::builder().mode(Mode::Enter).deadline(gpufs_tests::patience())
}

/// What thread `thread` writes with its call number `call`.
fn piece(thread: u64, call: u64) -> Vec<u8> {
    let mut bytes = format!("{thread} {call}\n").into_bytes();
    bytes.resize(PIECE, b'a' + u8::try_from((thread + call) % 26).unwrap());
    bytes
}
const PIECE: usize = 7000;

/// Every one of `count` lanes and more opens a file of its own, and writes it once all have opened; who does not get a stream gets
/// `EMFILE`. What the files hold is checked.
fn write_at_once(session: &mut Session, count: u32, calls: u64) {
    let scratch = Scratch::new("many-streams");
    let tries = count + 5;
    let names: Vec<_> = (0..tries).map(|thread| scratch.c(&thread.to_string())).collect();
    let path = |thread: u64| scratch.path(&thread.to_string());
    for thread in 0..u64::from(tries) {
        fs::write(path(thread), "old\n").unwrap();
    }
    let opened = DeviceWord::new(0);
    let closed = DeviceWord::new(0);
    let results = each(session, tries, |fs, thread| {
        let mode = [c"w", c"a", c"r+", c"w+"][thread as usize % 4];
        let file = fs.fopen(&names[thread as usize], mode);
        opened.fetch_add_relaxed(1);
        while opened.observe() < tries {
            warp::nap(1000);
        }
        let outcome = file.inspect(|file| {
            for call in 0..calls {
                assert_eq!(file.fwrite(&piece(thread, call)), Ok(PIECE));
            }
        });
        // All have written before the first closes.
        closed.fetch_add_relaxed(1);
        while closed.observe() < tries {
            warp::nap(1000);
        }
        outcome.and_then(|file| file.fclose())
    });
    let refused = results.iter().filter(|result| **result == Err(Errno::MFILE)).count();
    let written = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!((written, refused), (count as usize, 5), "{results:?}");
    for (thread, result) in (0..).zip(&results) {
        let mut wanted: Vec<u8> = (0..calls).flat_map(|call| piece(thread, call)).collect();
        let found = fs::read(path(thread)).unwrap();
        if result.is_err() {
            wanted = b"old\n".to_vec();
        } else if thread % 4 == 1 {
            wanted.splice(0..0, *b"old\n");
        }
        assert!(found == wanted, "file {thread}: {} of {} bytes", found.len(), wanted.len());
    }
}

/// Writes at once with as many streams as there are, twice: what the first ones took came back.
fn check(mut session: Session, count: u32, calls: u64) {
    let before = tables(&session).stream_buffers.free.free();
    for calls in [calls, calls / 2] {
        write_at_once(&mut session, count, calls);
        assert_eq!(tables(&session).stream_buffers.free.free(), before, "all buffers are back");
    }
}

#[test]
fn as_many_as_the_session_has_with_default_sizes() {
    for width in [32, 1, 64] {
        // A lane that waits for all others to open has a warp that stays resident.
        let options = CpuOptions { width, resident_warps: 300, ..CpuOptions::default() };
        check(default_session().cpu_with(options).unwrap(), STREAMS, 40);
    }
}

#[test]
fn as_many_as_the_session_has_in_each_mode() {
    for mode in MODES {
        match small().mode(mode).cpu() {
            Ok(session) => check(session, 29, 6),
            Err(error) => skip("as_many_as_the_session_has_in_each_mode", error),
        }
    }
}

#[test]
fn sizes_that_somebody_chose() {
    let sessions = [
        // Neither needs anything else to be chosen.
        (default_session().buffers(256 << 20), STREAMS, 20),
        (default_session().buffers(8 << 20), 23, 20),
        (default_session().buffers(8 << 20).streams(100), 97, 20),
        (default_session().streams(600).files(700), 597, 4),
        (default_session().ring_entries(256), 151, 10),
        // One for each and none to spare.
        (small().buffers(256 << 10), 29, 4),
        // Fewer than streams: four fifths of them are streams' own.
        (small().buffers(128 << 10), 10, 4),
        (small().blocks_per_stream(1), 29, 4),
    ];
    for (builder, count, calls) in sessions {
        let options = CpuOptions { resident_warps: 30, ..CpuOptions::default() };
        check(builder.cpu_with(options).unwrap(), count, calls);
    }
}

/// How many blocks the first stream that a kernel opened has.
fn blocks_of_first(session: &Session) -> u32 {
    tables(session).streams()[3].block_count.peek()
}

/// A stream has its blocks before it has written a few of one; one that writes little has one.
#[test]
fn who_writes_much_gets_more_blocks() {
    let scratch = Scratch::new("many-streams-growth");
    let record = [b'x'; 512];
    for (lanes, calls, blocks) in [(1, 10, 1), (32, 7, 1), (1, 600, 16), (256, 4, 16), (1024, 1, 16)] {
        let mut session = default_session().cpu().unwrap();
        let name = scratch.c("log");
        let file = once(&mut session, |fs| fs.fopen(&name, c"w").unwrap());
        each(&mut session, lanes, |_, _| {
            for _ in 0..calls {
                assert_eq!(file.fwrite(&record), Ok(512));
            }
        });
        assert_eq!(blocks_of_first(&session), blocks, "{lanes} lanes, {calls} calls");
        once(&mut session, |_| file.fclose().unwrap());
        assert_eq!(blocks_of_first(&session), 1);
        assert_eq!(fs::metadata(scratch.path("log")).unwrap().len(), u64::from(lanes) * calls * 512);
    }
}

/// Growing changes nothing of what a stream is: its buffering, its block size, its position, in a file and in a pipe.
#[test]
fn a_stream_that_grows_is_otherwise_as_it_was() {
    let scratch = Scratch::new("many-streams-kinds");
    let text = |number: u64| format!("line {number} of a file that grows\n").into_bytes();
    let wanted: Vec<u8> = (0..2000).flat_map(text).collect();
    for (buffering, bytes) in [
        (Buffering::Full, 0),
        (Buffering::Full, 16),
        (Buffering::Full, 1000),
        (Buffering::Line, 64),
        (Buffering::None, 0),
    ] {
        for mode in [c"w", c"w+", c"a", c"a+", c"r+"] {
            let mut session = small().mode(Mode::Enter).cpu().unwrap();
            let name = scratch.c("log");
            fs::write(scratch.path("log"), "").unwrap();
            once(&mut session, |fs| {
                let file = fs.fopen(&name, mode).unwrap();
                file.setvbuf(buffering, bytes).unwrap();
                for number in 0..2000 {
                    file.fwrite(&text(number)).unwrap();
                    if number % 500 == 0 {
                        assert_eq!(
                            file.ftell(),
                            Ok((0..=number).map(|number| text(number).len() as u64).sum())
                        );
                    }
                }
                file.fclose().unwrap();
            });
            assert!(scratch.read("log") == wanted, "{buffering:?} {bytes} {mode:?}");
        }
    }
    // A pipe's bytes go out in order.
    let pipe = scratch.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    let mut session = small().mode(Mode::Enter).cpu().unwrap();
    let name = scratch.c("pipe");
    once(&mut session, |fs| {
        let file = fs.fopen(&name, c"w").unwrap();
        for number in 0..2000 {
            file.fwrite(&text(number)).unwrap();
        }
        file.fclose().unwrap();
    });
    assert!(reader.join().unwrap() == wanted);
}
