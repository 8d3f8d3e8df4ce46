//! Lines that are read ahead, step by step, on CPU lanes: which calls open them, how long they stay open, and that who gets none is served as well.

use std::fs;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::Duration;

use gpufs_core::stream::Stream;
use gpufs_core::stream::readahead::Work;
use gpufs_device::stdio::{Buffering, Whence};
use gpufs_device::{Errno, File, Fs, warp};
use gpufs_host::ring::Mode;
use gpufs_host::{Builder, CpuOptions, Session};
use gpufs_tests::{Scratch, each, once, small, tables, tables_of};

/// Calls under the lock, counted by lane, after which lines open.
const CALLS_BEFORE_OPEN: u64 = 128;
/// Calls of a test that takes a text of as many lines by each lane.
const CALLS: u64 = 40;
/// What a lane's memory for a line has room for, where nothing else is said.
const ROOM: usize = 64;

/// A session with memory for as many places as a stream can have.
fn builder() -> Builder {
    small().mode(Mode::Enter).ring_entries(1024).buffers(2 << 20).read_ahead(256 << 10)
}

fn session(builder: Builder, width: u32) -> Session {
    builder.cpu_with(CpuOptions { width, ..CpuOptions::default() }).unwrap()
}

/// The stream whose lines are open, if there is one.
fn open_lines(fs: Fs) -> Option<&'static Stream> {
    // Of an entry that was never used the words mean nothing.
    tables_of(fs).streams().iter().find(|stream| stream.generation.peek() % 2 == 1 && stream.lines.is_open())
}

fn take(file: File, room: usize) -> Result<Option<Vec<u8>>, Errno> {
    let mut memory = vec![0; room];
    Ok(file.fgets(&mut memory)?.map(|line| line.to_bytes().to_vec()))
}

/// The line of a number, of so many bytes with its newline.
fn line(number: u64, bytes: usize) -> Vec<u8> {
    format!("{number:0width$}\n", width = bytes - 1).into_bytes()
}

/// So many of them.
fn text(lines: u64, bytes: usize) -> Vec<u8> {
    (0..lines).flat_map(|number| line(number, bytes)).collect()
}

fn open(session: &mut Session, scratch: &Scratch) -> File {
    once(session, |fs| fs.fopen(&scratch.c("text"), c"r").unwrap())
}

/// Lines that begin in a block and end in the next one are carried over, short ones by lanes each alone, and long ones by the warp: once lines are
/// open, a warp gets all of the file without the lock. As many places as there can be, and as many lanes or more.
#[test]
fn lines_stay_open_to_the_end_of_the_file() {
    let scratch = Scratch::in_memory("ahead-end");
    for (bytes, width) in [(20, 64), (300, 32), (900, 32), (900, 64)] {
        fs::write(scratch.path("text"), text(CALLS * u64::from(width), bytes)).unwrap();
        stay_open(&scratch, (bytes, width), |file| take(file, 1024).unwrap().unwrap());
    }
}

/// Lines as long as the memory has room for, beside the NUL.
#[test]
fn the_longest_lines_that_fit_are_read_ahead() {
    let scratch = Scratch::in_memory("ahead-fit");
    fs::write(scratch.path("text"), text(CALLS * 32, ROOM - 1)).unwrap();
    stay_open(&scratch, (ROOM - 1, 32), |file| take(file, ROOM).unwrap().unwrap());
    stay_open(&scratch, (ROOM - 1, 32), |file| {
        let mut memory = [0; ROOM];
        assert_eq!(file.getline(&mut &mut memory[..]), Ok(Some(ROOM - 1)));
        memory[..ROOM - 1].to_vec()
    });
}

/// Takes lines of so many bytes by a warp of that width: each is the right one, and they are open from the call on that opened them. On a busy
/// machine a call may wait for a read for so long that it goes to the lock: then it is tried again.
fn stay_open(scratch: &Scratch, (bytes, width): (usize, u32), take: impl Fn(File) -> Vec<u8> + Sync) {
    let mut session = session(builder(), width);
    let mut stayed = false;
    for _ in 0..5 {
        let file = open(&mut session, scratch);
        let got = each(&mut session, width, |fs, _| {
            let call = |_| (take(file), open_lines(fs).map(|stream| stream.lines.place_count()));
            (0..CALLS).map(call).collect::<Vec<_>>()
        });
        once(&mut session, |_| file.fclose().unwrap());
        let mut all = (0..CALLS).flat_map(|call| got.iter().map(move |calls| &calls[call as usize]));
        for number in 0..CALLS * u64::from(width) {
            assert_eq!(all.next().unwrap().0, line(number, bytes), "{bytes} bytes, {width} lanes");
        }
        let opened = |call: u64| ((call + 1) * u64::from(width) >= CALLS_BEFORE_OPEN).then_some(32);
        stayed |= got.iter().all(|calls| (0..).zip(calls).all(|(call, (_, places))| *places == opened(call)));
        if stayed {
            break;
        }
    }
    assert!(stayed, "{bytes} bytes, {width} lanes: lines do not stay open");
}

/// One lane takes lines until they are read ahead.
fn open_by_one(session: &mut Session, file: File, bytes: usize) {
    once(session, |fs| {
        for number in 0..CALLS_BEFORE_OPEN {
            assert!(open_lines(fs).is_none());
            assert_eq!(take(file, ROOM), Ok(Some(line(number, bytes))));
        }
        assert!(open_lines(fs).is_some());
    });
}

/// A block that was read up to the file's end is the last, though the file grows and the block behind it is read whole: what lies between them was
/// not read.
#[test]
fn nothing_is_read_ahead_behind_the_end_that_a_file_had() {
    let scratch = Scratch::in_memory("ahead-grown");
    // The first block ends two lines behind the file's end.
    let (bytes, lines) = (16, CALLS_BEFORE_OPEN + 4096 / 16 - 2);
    fs::write(scratch.path("text"), text(lines, bytes)).unwrap();
    let mut session = session(builder(), 32);
    let file = open(&mut session, &scratch);
    open_by_one(&mut session, file, bytes);
    once(&mut session, |fs| {
        let (stream, tables) = (open_lines(fs).unwrap(), tables_of(fs));
        assert!(stream.lines.enter_progress());
        let read = |place: u32| {
            // Ends: the read does.
            while stream.lines.progress(tables, stream, place).0 != Work::Index {
                tables.queues().iter().for_each(|queue| _ = queue.drain_alone(64));
                warp::nap(1_000);
            }
            stream.lines.places[place as usize].got.peek()
        };
        assert_eq!(read(0), 4096 - 2 * 16);
        let more: Vec<u8> = (lines..2000).flat_map(|number| line(number, bytes)).collect();
        OpenOptions::new().append(true).open(scratch.path("text")).unwrap().write_all(&more).unwrap();
        assert_eq!(read(1), 4096);
        stream.lines.leave_progress();
    });
    // The second warp of a grid begins with the second of two blocks that it could index.
    let calls = each(&mut session, 64, |fs, thread| {
        let calls = if thread < 32 { 0 } else { 40 };
        let call = |_| (take(file, ROOM).unwrap().unwrap(), open_lines(fs).is_some());
        (0..calls).map(call).collect::<Vec<_>>()
    });
    for (lane, calls) in (0..).zip(&calls[32..]) {
        for (call, (got, _)) in (0..).zip(calls) {
            let wanted = line(CALLS_BEFORE_OPEN + call * 32 + lane, bytes);
            assert_eq!(*got, wanted, "lane {lane}, call {call}");
        }
        assert!(calls[0].1, "the first lines were read ahead");
    }
    once(&mut session, |_| file.fclose().unwrap());
}

/// Nobody makes progress on the places, so that a call finds no lines however often it looks: it goes to the lock, where it is served.
#[test]
fn a_call_that_finds_no_lines_is_served_under_the_lock() {
    let scratch = Scratch::in_memory("ahead-busy");
    fs::write(scratch.path("text"), text(1000, 16)).unwrap();
    let mut session = session(builder().deadline(Duration::from_secs(60)), 32);
    let file = open(&mut session, &scratch);
    open_by_one(&mut session, file, 16);
    let lines = &tables(&session).streams().iter().find(|stream| stream.lines.is_open()).unwrap().lines;
    let places = &lines.places[..lines.place_count() as usize];
    assert!(places.iter().all(|place| place.state.claim_filling()));
    let got = each(&mut session, 32, |fs, _| (take(file, ROOM), open_lines(fs).is_some()));
    for (got, number) in got.into_iter().zip(CALLS_BEFORE_OPEN..) {
        assert_eq!(got, (Ok(Some(line(number, 16))), false));
    }
    once(&mut session, |_| file.fclose().unwrap());
}

/// Who keeps a stream takes lines under the lock that it has, and other calls find the stream behind the last one.
#[test]
fn lines_of_a_stream_that_is_kept_stay_closed() {
    let scratch = Scratch::new("ahead-kept");
    fs::write(scratch.path("text"), text(1000, 16)).unwrap();
    let mut session = session(builder(), 32);
    let file = open(&mut session, &scratch);
    once(&mut session, |fs| {
        file.flockfile().unwrap();
        for number in 0..200 {
            assert_eq!(take(file, ROOM), Ok(Some(line(number, 16))));
            assert!(open_lines(fs).is_none());
        }
        assert_eq!((file.ftell(), file.fgetc()), (Ok(200 * 16), Ok(Some(b'0'))));
        file.funlockfile().unwrap();
        assert_eq!(take(file, ROOM), Ok(Some(line(200, 16)[1..].to_vec())));
        assert_eq!(take(file, ROOM), Ok(Some(line(201, 16))));
        file.fclose().unwrap();
    });
}

/// At the end of a file that a stream has met no lock is needed to say so, but where something was written since.
#[test]
fn what_was_written_at_the_end_is_in_the_file_before_the_next_line_is_asked_for() {
    let scratch = Scratch::new("ahead-written");
    fs::write(scratch.path("text"), "line\n").unwrap();
    let mut session = session(builder(), 32);
    once(&mut session, |fs| {
        let file = fs.fopen(&scratch.c("text"), c"r+").unwrap();
        assert_eq!([(); 2].map(|()| take(file, ROOM).unwrap()), [Some(b"line\n".to_vec()), None]);
        file.fputs(c"more\n").unwrap();
        assert_eq!((take(file, ROOM), file.feof()), (Ok(None), true));
        assert_eq!(scratch.read("text"), b"line\nmore\n");
        file.fclose().unwrap();
    });
}

/// The handle of a stream that was closed, when the next stream of its entry has met the end of its file.
#[test]
fn an_old_handle_is_not_at_the_end_of_another_stream() {
    let scratch = Scratch::new("ahead-old");
    fs::write(scratch.path("text"), "line\n").unwrap();
    // One stream beside those of the process.
    let mut session = session(builder().streams(4), 32);
    once(&mut session, |fs| {
        let [old, file] = [true, false].map(|closes| {
            let file = fs.fopen(&scratch.c("text"), c"r").unwrap();
            assert_eq!([(); 2].map(|()| take(file, ROOM).unwrap()), [Some(b"line\n".to_vec()), None]);
            if closes {
                file.fclose().unwrap();
            }
            file
        });
        assert_eq!((take(old, ROOM), take(file, ROOM)), (Err(Errno::BADF), Ok(None)));
        file.fclose().unwrap();
    });
}

/// Lines are read ahead of nothing but what reads, is buffered, has places, and has nothing pushed back and no end met: and all is as the model says.
#[test]
fn streams_whose_lines_stay_closed() {
    let scratch = Scratch::new("ahead-closed");
    let text: String = (0..1000).map(|line| format!("line {line}\n")).collect();
    let stay_closed = |session: &mut Session, lanes, file| {
        let opened = each(session, lanes, |fs, _| {
            let call = |_| (take(file, ROOM), open_lines(fs).is_some()).1;
            (0..160 / lanes).map(call).collect::<Vec<_>>().contains(&true)
        });
        assert_eq!(opened, vec![false; lanes as usize]);
    };
    for builder in [small(), builder(), builder().assembly(64 << 10)] {
        let mut session = session(builder, 32);
        let free = |session: &Session| tables(session).resources.stream_buffers.free.free();
        let before = free(&session);
        for lanes in [1, 32] {
            fs::write(scratch.path("text"), &text).unwrap();
            let ways = [(c"r", Buffering::None), (c"r", Buffering::Line), (c"a", Buffering::Full)];
            for (mode, buffering) in ways {
                let file = once(&mut session, |fs| fs.fopen(&scratch.c("text"), mode).unwrap());
                once(&mut session, |_| file.setvbuf(buffering, 0)).unwrap();
                stay_closed(&mut session, lanes, file);
                once(&mut session, |_| file.fclose()).unwrap();
            }
            // At the end, which is one until it is cleared, whatever others append.
            let file = once(&mut session, |fs| fs.fopen(&scratch.c("text"), c"r").unwrap());
            once(&mut session, |_| file.fseek(0, Whence::End).unwrap());
            stay_closed(&mut session, lanes, file);
            fs::write(scratch.path("text"), text.clone() + "appended\n").unwrap();
            let got = once(&mut session, |_| [64, 1, 0].map(|room| take(file, room)));
            assert_eq!(got, [Ok(None), Ok(Some(Vec::new())), Ok(None)]);
            once(&mut session, |_| file.fclose()).unwrap();
        }
        // One byte of two that were pushed back stays, each time.
        once(&mut session, |fs| {
            let file = fs.fopen(&scratch.c("text"), c"r").unwrap();
            for line in 0..200 {
                file.ungetc(b'a').unwrap();
                file.ungetc(b'b').unwrap();
                assert_eq!(take(file, 2), Ok(Some(b"b".to_vec())));
                assert_eq!(take(file, ROOM), Ok(Some(format!("aline {line}\n").into_bytes())));
            }
            file.fclose().unwrap();
        });
        assert_eq!(free(&session), before);
    }
    let mut session = session(builder(), 32);
    let (reader, mut writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut writer, text.as_bytes()).unwrap();
    let descriptor = session.register_file(std::os::fd::OwnedFd::from(reader)).unwrap();
    let file = once(&mut session, |fs| fs.fdopen(descriptor, c"r").unwrap());
    stay_closed(&mut session, 32, file);
    assert_eq!(once(&mut session, |_| take(file, ROOM)), Ok(Some(b"line 160\n".to_vec())));
}
