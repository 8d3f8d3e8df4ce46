//! Counters that come round, or short, on CPU lanes: sessions whose numbers begin shortly before that. The table of them is at the top of
//! `gpufs-core`.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;

use gpufs_core::session::SessionTables;
use gpufs_core::stream::readahead::Lines;
use gpufs_core::stream::{Direction, Stream};
use gpufs_device::stdio::Buffering;
use gpufs_device::{Errno, File, warp};
use gpufs_host::ring::Mode;
use gpufs_host::{CpuOptions, Grid, Session};
use gpufs_test_kernels::Letters;
use gpufs_tests::suite::printing::check_records;
use gpufs_tests::{Scratch, once, record, small, tables_of};

/// The one stream that the test opened.
fn opened(tables: &'static SessionTables) -> &'static Stream {
    let streams = tables.streams().iter().skip(3);
    streams.filter(|stream| stream.generation.peek() % 2 == 1).last().expect("a stream is open")
}

fn sessions() -> impl Iterator<Item = (String, Session)> {
    [(Mode::Enter, 1), (Mode::Enter, 32), (Mode::Threads, 64)].into_iter().map(|(mode, width)| {
        let options = CpuOptions { width, threads: 2, resident_warps: 4, ..CpuOptions::default() };
        let session = small()
            .mode(mode)
            .ring_entries(512)
            .buffers(2 << 20)
            .read_ahead(128 << 10)
            .cpu_with(options)
            .unwrap();
        (format!("{mode:?}, {width} lanes"), session)
    })
}

/// A grid of whole warps of each width.
const GRID: Grid = Grid { blocks: 4, threads: 64 };

/// All lines of a file, by a whole grid, from line number `first` on.
fn take_all(what: &str, session: &mut Session, first: u64) {
    const LINES: usize = 60_000;
    let scratch = Scratch::new("wrapping-lines");
    let text: String = (0..LINES).map(|line| format!("line {line}\n")).collect();
    fs::write(scratch.path("text"), text).unwrap();
    let name = scratch.c("text");
    let file = once(session, |fs| fs.fopen(&name, c"r").unwrap());
    let tables = once(session, tables_of);
    opened(tables).lines.begin_at(first);
    let taken = Mutex::new(BTreeSet::new());
    let ahead = Mutex::new(0_u64);
    session
        .run(GRID, |_| {
            let mut memory = [0; 64];
            let mut mine = Vec::new();
            while let Some(line) = file.fgets(&mut memory).unwrap() {
                mine.push(line.to_str().unwrap().trim_end()["line ".len()..].parse::<usize>().unwrap());
                if opened(tables).lines.is_open() {
                    *ahead.lock().unwrap() += 1;
                }
            }
            let mut taken = taken.lock().unwrap();
            for line in mine {
                assert!(taken.insert(line), "line {line} came twice");
            }
        })
        .unwrap();
    assert_eq!(taken.lock().unwrap().len(), LINES, "{what}, from line {first} on");
    let ahead = *ahead.lock().unwrap();
    assert!(ahead > LINES as u64 / 2, "{what}: {ahead} of {LINES} lines were read ahead");
    assert!(opened(tables).lines.next_line() <= LINES as u64, "{what}: numbers did not begin anew");
    once(session, |_| file.fclose().unwrap());
}

#[test]
fn lines_that_are_read_ahead_are_numbered_anew_in_time() {
    for (what, mut session) in sessions() {
        for before in [0, 1, 5000] {
            take_all(&what, &mut session, Lines::SPENT - before);
        }
    }
}

/// As if `blocks` whole blocks more had been written by now of a stream that has nothing buffered. While no kernel runs.
fn skip(stream: &Stream, blocks: u64) {
    assert_eq!((stream.direction(), stream.unwritten()), (Direction::Writing, 0));
    assert_eq!(blocks % u64::from(stream.block_count.peek()), 0, "each block keeps its place");
    let bytes = blocks << stream.block_shift.peek();
    stream.close_cursor();
    for block in &stream.blocks {
        block.block_number.set(block.block_number.peek() + blocks);
    }
    stream.next.set(stream.next.peek() + blocks);
    for word in [&stream.granted_to, &stream.closed_at] {
        word.set(word.peek() + bytes);
    }
    stream.base.set(stream.base.peek().wrapping_sub(bytes));
    stream.open_cursor();
}

#[test]
fn a_stream_that_was_written_for_long_begins_again() {
    const ROUNDS: u32 = 100;
    for (what, mut session) in sessions() {
        for (mode, buffering) in [
            (c"w", Buffering::Full),
            (c"a", Buffering::Full),
            (c"w", Buffering::Line),
            (c"w", Buffering::None),
        ] {
            let scratch = Scratch::new("wrapping-stream");
            let name = scratch.c("log");
            let file = once(&mut session, |fs| {
                let file = fs.fopen(&name, mode).unwrap();
                file.setvbuf(buffering, 0).unwrap();
                file.fputs(c"head\n").unwrap();
                file.fflush().unwrap();
                file
            });
            let stream = opened(once(&mut session, tables_of));
            // Blocks of 4 KiB, of which the grid fills some hundred.
            skip(stream, (Stream::SPENT >> stream.block_shift.peek()) + 1 - 64);
            assert!(!stream.is_spent());
            session
                .run(GRID, |_| {
                    let thread = warp::global_thread();
                    for round in 0..ROUNDS {
                        let text = record(thread, round, 40);
                        assert_eq!(file.fwrite(text.as_bytes()), Ok(text.as_bytes().len()));
                    }
                })
                .unwrap();
            assert!(!stream.is_spent() && stream.reserved() < 1 << 30, "{what}: {}", stream.reserved());
            once(&mut session, |_| {
                let size = fs::metadata(scratch.path("log")).unwrap().len();
                if buffering != Buffering::Full {
                    assert_eq!(file.ftell(), Ok(size));
                }
                file.fclose().unwrap();
            });
            let text = scratch.read("log");
            check_records(text.strip_prefix(b"head\n").unwrap(), 256, ROUNDS, Letters::Fixed(40));
        }
    }
}

/// A handle that was closed is refused until as many openings later as handles tell apart; and `fopen` does not take the
/// same entry again and again.
#[test]
fn handles_of_c_come_again_late() {
    const OPENINGS: u32 = 1 << 22;
    let mut session = small().mode(Mode::Enter).cpu().unwrap();
    let scratch = Scratch::new("wrapping-handles");
    let name = scratch.c("file");
    let handles: Vec<u64> = once(&mut session, |fs| {
        (0..200)
            .map(|_| {
                let file = fs.fopen(&name, c"w").unwrap();
                file.fclose().unwrap();
                file.to_handle()
            })
            .collect()
    });
    let different: BTreeSet<u64> = handles.iter().copied().collect();
    assert_eq!(different.len(), handles.len(), "a handle came twice");
    // The entry's number is the lowest 36 bits.
    let entries: BTreeSet<u64> = handles.iter().map(|handle| handle & ((1 << 36) - 1)).collect();
    assert!(entries.len() > 20, "200 openings had {} of 29 entries", entries.len());
    once(&mut session, |fs| {
        let file = fs.fopen(&name, c"w").unwrap();
        let closed = file.to_handle();
        file.fclose().unwrap();
        let entry = tables_of(fs).streams().iter().position(|stream| {
            // SAFETY:
            // - the handle is of this session
            let found = || unsafe { File::from_handle(closed) };
            let generation = stream.generation.peek();
            if generation % 2 == 1 || generation == 0 {
                return false;
            }
            // As if it were open, so many openings later.
            let reopened = [1, 2, 1 << 15, OPENINGS, OPENINGS + 1].map(|later: u32| {
                stream.generation.set(generation.wrapping_sub(1) + 2 * later);
                found().is_ok()
            });
            stream.generation.set(generation);
            // Of another entry, it is refused at any time.
            assert!(reopened == [false; 5] || reopened == [false, false, false, true, false], "{reopened:?}");
            reopened[3]
        });
        assert!(entry.is_some());
        // SAFETY:
        // - the handle is of this session
        assert!(matches!(unsafe { File::from_handle(closed) }, Err(Errno::BADF)));
    });
}
