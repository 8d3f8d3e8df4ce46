//! The engine with a driver whose copies end late: a chunk that is used too early, or a piece that is told too early, shows as wrong bytes.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::*;

mod late;

use late::Late;

/// Bytes whose places can be told from them.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("gpufs-transfer-{name}-{}", std::process::id()))
}

/// An engine with little chunks, and memory of its GPU.
fn with_memory(pins: bool, bytes: usize) -> (&'static Engine, Arc<Late>, &'static mut [u8]) {
    with_driver(Late { pins, takes_many: pins, ..Late::default() }, vec![0_u8; bytes].leak())
}

fn with_driver(late: Late, memory: &'static mut [u8]) -> (&'static Engine, Arc<Late>, &'static mut [u8]) {
    let late = Arc::new(late);
    let bytes = memory.len();
    late.held.lock().unwrap().device.push((memory.as_ptr().expose_provenance() as u64, bytes));
    let tuning = Tuning { threads: 3, chunk_bytes: 4096, chunks: 2 };
    (Engine::with(Arc::<Late>::clone(&late), tuning), late, memory)
}

fn part<'a>(file: &'a File, memory: &[u8]) -> Part<'a> {
    let (address, bytes) = (memory.as_ptr().expose_provenance() as u64, memory.len());
    Part { file: file.as_fd(), offset: 0, address, bytes, kind: None, rows: None }
}

/// Runs a transfer on memory that the test leaves alone meanwhile.
fn moved(
    engine: &'static Engine,
    direction: Direction,
    parts: &[Part<'_>],
    stream: Option<u64>,
    counters: &Arc<Counters>,
) -> Result<Vec<u64>, TransferError> {
    // SAFETY:
    // - the callers hold the memory, and do not use it until this returns
    let started =
        unsafe { engine.start(direction, parts, &TransferOptions { stream }, Some(Arc::clone(counters))) };
    started?.wait()
}

#[test]
fn a_gpus_memory_gets_the_files_bytes_and_gives_them_back() {
    for (pins, takes_many) in [(true, true), (true, false), (false, false), (false, true)] {
        let way = if pins { Way::Staged } else { Way::ThroughHost };
        let bytes = 300_001;
        let content = pattern(bytes);
        let name = |what| path(&format!("{what}-{pins}-{takes_many}"));
        let (from, to) = (name("from"), name("to"));
        std::fs::write(&from, &content).unwrap();
        let late = Late { pins, takes_many, ..Late::default() };
        let (engine, late, memory) = with_driver(late, vec![0_u8; bytes + 5000].leak());
        let counters = Arc::<Counters>::default();
        let file = File::open(&from).unwrap();
        let read = moved(engine, Direction::Read, &[part(&file, memory)], Some(7), &counters).unwrap();
        assert_eq!(read, [bytes as u64], "up to the end of the file");
        assert!(memory[..bytes] == content[..] && memory[bytes..].iter().all(|byte| *byte == 0));
        assert!(late.held.lock().unwrap().followed >= 1, "behind the program's stream");
        memory.fill(0);
        moved(engine, Direction::Read, &[part(&file, memory)], None, &counters).unwrap();
        assert!(memory[..bytes] == content[..]);
        let requests = late.held.lock().unwrap().requests.clone();
        // What is not pinned goes alone: a driver may have to read it at once.
        assert_eq!(requests.iter().sum::<usize>() >= bytes / 4096, takes_many && pins, "{requests:?}");

        let file = File::create(&to).unwrap();
        let wrote =
            moved(engine, Direction::Write, &[part(&file, &memory[..bytes])], None, &counters).unwrap();
        assert_eq!(wrote, [bytes as u64]);
        assert!(std::fs::read(&to).unwrap() == content);
        let count = counters.statistics().of(MemoryKind::Device, way);
        assert_eq!((count.bytes_read, count.bytes_written), (2 * bytes as u64, bytes as u64));
        assert_eq!(counters.statistics().of(MemoryKind::Pageable, Way::InPlace), TransferCount::default());
        for path in [from, to] {
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// What comes while the GPU has two requests becomes the next ones, of 32 MiB at most.
#[test]
fn copies_that_wait_become_one_request() {
    let late = Late { takes_many: true, looks: 200, ..Late::default() };
    let merger = merge::Merger::new(&late, 3).unwrap();
    let (content, memory) = (pattern(30 << 20).leak(), vec![0_u8; 75 << 20].leak());
    let device = memory.as_ptr().expose_provenance() as u64;
    let (mut begin, mut tickets) = (0, Vec::new());
    for mib in [1, 2, 3, 4, 5, 25, 30, 1, 4] {
        let bytes = mib << 20;
        let host = std::ptr::NonNull::from(&mut content[0]);
        let copy = bus::ToGpu { device: device + begin as u64, host, bytes };
        // SAFETY:
        // - memory of this test, which is as long and used by nothing else before the last outcome
        tickets.push(unsafe { merger.add(&late, copy) });
        begin += bytes;
    }
    for ticket in tickets.into_iter().rev() {
        // Ends: each look brings the copies nearer to their end.
        let outcome = loop {
            if let Some(outcome) = merger.outcome(&late, ticket) {
                break outcome;
            }
        };
        outcome.unwrap();
    }
    assert_eq!(late.held.lock().unwrap().requests, [1, 1, 3, 1, 2, 1]);
    assert!(memory[..1 << 20] == content[..1 << 20] && memory[71 << 20..] == content[..4 << 20]);
}

/// Copies of several transfers become one request: that one of them is refused is told of its part, and the others get their bytes.
#[test]
fn a_copy_that_is_refused_is_no_others_fault() {
    let path = path("refused");
    let content = pattern(40_960);
    std::fs::write(&path, &content).unwrap();
    let file = File::open(&path).unwrap();
    let memory = vec![0_u8; 4 * content.len()].leak();
    let wrong = memory.as_ptr().expose_provenance() as u64 + 2 * content.len() as u64 + 8192;
    let (engine, late, memory) =
        with_driver(Late { pins: true, takes_many: true, wrong, ..Late::default() }, memory);
    for round in 0..20 {
        memory.fill(0);
        let parts: Vec<Part<'_>> = memory.chunks(content.len()).map(|memory| part(&file, memory)).collect();
        std::thread::scope(|scope| {
            for (number, part) in parts.iter().enumerate() {
                scope.spawn(move || {
                    let read = moved(engine, Direction::Read, &[*part], None, &Arc::default());
                    match (number, read) {
                        (2, Err(error)) => assert!(error.to_string().contains("refused"), "{error}"),
                        (_, read) => assert_eq!(read.unwrap(), [40_960], "round {round}, part {number}"),
                    }
                });
            }
        });
        for (number, memory) in memory.chunks(content.len()).enumerate() {
            assert!(number == 2 || memory == content, "round {round}, part {number}");
        }
    }
    assert!(late.held.lock().unwrap().refused >= 20);
    std::fs::remove_file(path).unwrap();
}

/// A driver that stops to work ends every transfer with an error, those that come later too.
#[test]
fn a_driver_that_breaks_leaves_nobody_waiting() {
    let path = path("breaks");
    std::fs::write(&path, pattern(100_000)).unwrap();
    let file = File::open(&path).unwrap();
    for takes_many in [true, false] {
        let late = Late { pins: true, takes_many, breaks_after: 3, ..Late::default() };
        let (engine, _late, memory) = with_driver(late, vec![0_u8; 100_000].leak());
        for _ in 0..3 {
            let error = moved(engine, Direction::Read, &[part(&file, memory)], None, &Arc::default());
            let error = error.unwrap_err().to_string();
            assert!(error.contains("does not work") || error.contains("chunk"), "{error}");
        }
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn rows_lie_in_memory_as_they_were_asked_for() {
    let path = path("rows");
    let content = pattern(64 * 1000);
    std::fs::write(&path, &content).unwrap();
    let file = File::open(&path).unwrap();
    // Rows that are shorter than a chunk, as long, and longer; neighbours among them, and one twice.
    for row in [64, 100, 4096, 5000] {
        let places = content.len() / row;
        let offsets: Vec<u64> = [0, 1, 2, 7, 3, 3, 9, 10, 11, 12, 5, 0, 1, 8]
            .into_iter()
            .map(|index| (index % places * row) as u64)
            .collect();
        let expected: Vec<u8> = offsets
            .iter()
            .flat_map(|offset| &content[*offset as usize..*offset as usize + row])
            .copied()
            .collect();
        let (engine, _late, memory) = with_memory(true, expected.len());
        let rows = Some(Rows { bytes: row, offsets: &offsets });
        let counters = Arc::default();
        let asked = Part { rows, ..part(&file, memory) };
        moved(engine, Direction::Read, &[asked], None, &counters).unwrap();
        assert!(memory == &expected[..], "rows of {row}");
        let outside = [content.len() as u64 - 1];
        let rows = Some(Rows { bytes: row, offsets: &outside });
        let asked = Part { rows, ..part(&file, &memory[..row]) };
        let error = moved(engine, Direction::Read, &[asked], None, &counters).unwrap_err();
        assert!(error.to_string().contains("not all there"), "{error}");
    }
    std::fs::remove_file(path).unwrap();
}

/// The same rows again and again, then those of a file that was cut off, and of another one by the same name.
#[test]
fn rows_are_as_asked_for_when_their_file_is_mapped() {
    let path = path("rows-again");
    let (row, places) = (4096, 100);
    let content = pattern(places * row);
    std::fs::write(&path, &content).unwrap();
    let offsets: Vec<u64> = (0..200_usize).map(|index| (index * 37 % places * row) as u64).collect();
    let (engine, _late, memory) = with_memory(true, offsets.len() * row);
    let counters = Arc::default();
    let gathered = |memory: &[u8]| {
        let file = File::open(&path).unwrap();
        let rows = Some(Rows { bytes: row, offsets: &offsets });
        moved(engine, Direction::Read, &[Part { rows, ..part(&file, memory) }], None, &counters)
    };
    let is_of = |memory: &[u8], content: &[u8]| {
        let mut rows = offsets.iter().zip(memory.chunks(row));
        rows.all(|(offset, bytes)| bytes == &content[*offset as usize..][..row])
    };
    for round in 0..5 {
        memory.fill(0);
        assert_eq!(gathered(memory).unwrap(), [memory.len() as u64]);
        assert!(is_of(memory, &content), "round {round}");
    }
    File::options().write(true).open(&path).unwrap().set_len((places * row - 1) as u64).unwrap();
    for _ in 0..4 {
        let error = gathered(memory).unwrap_err();
        assert!(error.to_string().contains("not all there"), "{error}");
    }
    let other: Vec<u8> = content.iter().map(|byte| !byte).collect();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, &other).unwrap();
    for _ in 0..4 {
        gathered(memory).unwrap();
        assert!(is_of(memory, &other));
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn wrong_requests_and_failures_name_their_part() {
    let path = path("wrong");
    std::fs::write(&path, pattern(10_000)).unwrap();
    let file = File::open(&path).unwrap();
    let (engine, _late, memory) = with_memory(true, 8192);
    let counters = Arc::default();
    let try_it =
        |direction, parts: &[Part<'_>]| moved(engine, direction, parts, None, &counters).unwrap_err();
    let fine = part(&file, memory);
    let named = Part { kind: Some(MemoryKind::Pinned), ..fine };
    let error = try_it(Direction::Read, &[fine, named]);
    assert_eq!(error.part, Some(1));
    assert!(error.to_string().contains("is memory of a GPU, and was named pinned"), "{error}");
    let longer = Part { bytes: 10_000, ..fine };
    let error = try_it(Direction::Read, &[longer]);
    assert!(error.to_string().contains("it is shorter"), "{error}");
    let rows = Part { rows: Some(Rows { bytes: 100, offsets: &[0] }), ..fine };
    assert!(try_it(Direction::Read, &[rows]).to_string().contains("1 rows of 100 bytes are not 8192"));
    let far = Part { offset: u64::MAX - 10, ..fine };
    assert_eq!(try_it(Direction::Read, &[far]).error.raw_os_error(), Some(libc::EOVERFLOW));
    // A file that is not open for writing.
    let error = try_it(Direction::Write, &[fine]);
    assert_eq!((error.part, error.error.raw_os_error()), (Some(0), Some(libc::EBADF)));
    // A device that is full.
    let full = File::options().write(true).open("/dev/full").unwrap();
    let error = try_it(Direction::Write, &[part(&full, memory)]);
    assert_eq!(error.error.raw_os_error(), Some(libc::ENOSPC));
    assert!(Tuning { chunk_bytes: 5000, ..Tuning::default() }.chosen().unwrap_err().contains("5000"));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn many_files_at_once_and_memory_of_the_host_in_place() {
    let (engine, _late, memory) = with_memory(true, 40_000);
    let counters = Arc::<Counters>::default();
    let host = pattern(50_000);
    memory.copy_from_slice(&pattern(90_000)[50_000..]);
    let paths: Vec<PathBuf> = (0..8).map(|index| path(&format!("many-{index}"))).collect();
    let files: Vec<File> = paths.iter().map(|path| File::create(path).unwrap()).collect();
    let parts: Vec<Part<'_>> = files
        .iter()
        .enumerate()
        .map(|(index, file)| if index % 2 == 0 { part(file, &host) } else { part(file, memory) })
        .collect();
    moved(engine, Direction::Write, &parts, None, &counters).unwrap();
    for (index, path) in paths.iter().enumerate() {
        let mut found = Vec::new();
        File::open(path).unwrap().read_to_end(&mut found).unwrap();
        assert!(if index % 2 == 0 { found == host } else { found == *memory }, "file {index}");
        std::fs::remove_file(path).unwrap();
    }
    let all = counters.statistics();
    assert_eq!(all.of(MemoryKind::Pageable, Way::InPlace).bytes_written, 200_000);
    assert_eq!(all.of(MemoryKind::Device, Way::Staged).bytes_written, 160_000);
}

/// A new file in a tmpfs; `None`, said by name, where there is none.
fn in_memory(test: &str) -> Option<PathBuf> {
    let path = PathBuf::from(format!("/dev/shm/gpufs-transfer-{test}-{}", std::process::id()));
    let about = std::process::Command::new("stat").args(["-f", "-c", "%T", "/dev/shm"]).output();
    if about.is_ok_and(|about| about.stdout == b"tmpfs\n") && File::create(&path).is_ok() {
        return Some(path);
    }
    println!("SKIP {test}: /dev/shm is no tmpfs that can be written to");
    None
}

#[test]
fn a_window_is_for_large_ranges_of_files_in_memory_that_may_be_written_to() {
    let Some(name) = in_memory("window") else { return };
    let open = |options: &mut std::fs::OpenOptions, name: &PathBuf| options.open(name).unwrap().into();
    let wide = 9 << 20;
    for (opened, good) in [
        (open(File::options().write(true), &name), true),
        (open(File::options().read(true).write(true), &name), true),
        (open(File::options().append(true), &name), false),
        (open(File::options().read(true), &name), false),
        (open(File::options().write(true), &PathBuf::from("/dev/null")), false),
    ] {
        assert_eq!(window::Window::on(&opened, 0, wide).is_some(), good, "{opened:?}");
        assert!(
            window::Window::on(&opened, 0, 4096).is_none()
                && window::Window::on(&opened, 9, u64::MAX).is_none()
        );
    }
    assert_eq!(std::fs::metadata(&name).unwrap().len(), wide);
    // What is outside is left to others; a file that was cut off ends no process.
    let file: std::os::fd::OwnedFd = open(File::options().write(true), &name);
    let window = window::Window::on(&file, 100_000, wide).unwrap();
    let mut bytes = pattern(200_000);
    for (offset, written) in [(150_001, 200_000), (0, 0), (wide - 1, 0)] {
        // SAFETY:
        // - memory of this test, which is as long
        assert_eq!(unsafe { window.write(offset, bytes.as_mut_ptr(), bytes.len()) }, written, "{offset}");
    }
    assert_eq!(std::fs::read(&name).unwrap()[150_001..350_001], bytes);
    File::options().write(true).open(&name).unwrap().set_len(163_840).unwrap();
    // SAFETY:
    // - as above
    assert_eq!(unsafe { window.write(150_000, bytes.as_mut_ptr(), bytes.len()) }, 163_840 - 150_000);
    std::fs::remove_file(name).unwrap();
}

/// Huge pages are made of what the file has not had before, and nothing else changes.
#[test]
fn what_a_file_in_memory_has_not_had_comes_as_huge_pages() {
    const HUGE: usize = 2 << 20;
    let Some(name) = in_memory("huge") else { return };
    let (before, begin, end) = (3 * HUGE + 9, HUGE + 5, 9 * HUGE + 77);
    std::fs::write(&name, vec![7_u8; before]).unwrap();
    let file = File::options().write(true).open(&name).unwrap().into();
    let window = window::Window::on(&file, begin as u64, end as u64).unwrap();
    let mut bytes = pattern(end - begin);
    let pieces = bytes.chunks_mut(300_000).enumerate().collect::<Vec<_>>();
    std::thread::scope(|scope| {
        for (number, piece) in pieces {
            let offset = (begin + number * 300_000) as u64;
            let window = &window;
            scope.spawn(move || {
                // SAFETY:
                // - memory of this test, which is as long
                let written = unsafe { window.write(offset, piece.as_mut_ptr(), piece.len()) };
                assert_eq!(written, piece.len());
            });
        }
    });
    let huge = window.huge_pages();
    println!("{huge} huge pages");
    if huge == 0 {
        println!(
            "SKIP what_a_file_in_memory_has_not_had_comes_as_huge_pages: this kernel makes none in /dev/shm (Linux 6.1)"
        );
    }
    // Those from 4 × HUGE to 9 × HUGE: the file has had what is before, and the last one would be longer than the window.
    assert!(huge <= 5);
    drop(window);
    let found = std::fs::read(&name).unwrap();
    assert_eq!(found.len(), end);
    assert!(found[..begin].iter().all(|byte| *byte == 7) && found[begin..] == bytes);
    std::fs::remove_file(name).unwrap();
}

#[test]
fn many_threads_write_one_file_in_memory() {
    let Some(name) = in_memory("one-file") else { return };
    let late = Arc::new(Late { pins: true, ..Late::default() });
    let device = vec![0_u8; 9_000_001].leak();
    device.copy_from_slice(&pattern(9_000_001));
    late.held.lock().unwrap().device.push((device.as_ptr().expose_provenance() as u64, device.len()));
    let engine = Engine::with(late, Tuning { threads: 8, chunk_bytes: 65_536, chunks: 2 });
    let counters = Arc::<Counters>::default();
    let host = pattern(3_000_000);
    // What was there before and behind stays.
    std::fs::write(&name, vec![7_u8; 14_000_000]).unwrap();
    let file = File::options().write(true).open(&name).unwrap();
    let parts =
        [Part { offset: 70_001, ..part(&file, device) }, Part { offset: 9_200_000, ..part(&file, &host) }];
    assert_eq!(moved(engine, Direction::Write, &parts, None, &counters).unwrap(), [9_000_001, 3_000_000]);
    let found = std::fs::read(&name).unwrap();
    assert!(found.len() == 14_000_000 && found[70_001..9_070_002] == *device);
    assert!(found[9_200_000..12_200_000] == host);
    assert!(
        [0..70_001, 9_070_002..9_200_000, 12_200_000..14_000_000]
            .into_iter()
            .flatten()
            .all(|at| found[at] == 7)
    );
    let all = counters.statistics();
    assert_eq!(all.of(MemoryKind::Device, Way::Staged).bytes_written, 9_000_001);
    assert_eq!(all.of(MemoryKind::Pageable, Way::InPlace).bytes_written, 3_000_000);
    std::fs::remove_file(name).unwrap();
}

/// When the wait returns, no thread of the engine has the file or a mapping of it any more: on a full file system their memory is there again.
#[test]
fn what_has_ended_holds_no_file() {
    let Some(name) = in_memory("ended") else { return };
    let path = name.to_str().unwrap();
    let engine =
        Engine::with(Arc::new(Late::default()), Tuning { threads: 8, chunk_bytes: 65_536, chunks: 2 });
    let bytes = pattern(9_000_001);
    let file = File::options().write(true).create(true).truncate(true).open(&name).unwrap();
    for round in 0..40 {
        moved(engine, Direction::Write, &[part(&file, &bytes)], None, &Arc::default()).unwrap();
        let open = std::fs::read_dir("/proc/self/fd").unwrap().filter(|entry| {
            let link = entry.as_ref().ok().and_then(|entry| std::fs::read_link(entry.path()).ok());
            link.is_some_and(|link| link == name)
        });
        assert_eq!(open.count(), 1, "round {round}: this test's own");
        assert!(!std::fs::read_to_string("/proc/self/maps").unwrap().contains(path), "round {round}");
    }
    std::fs::remove_file(name).unwrap();
}

/// The system puts what is written there at the end, in the order in which threads come.
#[test]
fn a_file_that_is_open_for_appending_is_refused() {
    let name = path("appended");
    std::fs::write(&name, "there").unwrap();
    let file = File::options().append(true).open(&name).unwrap();
    let (engine, _, memory) = with_memory(true, 5000);
    let refused = moved(engine, Direction::Write, &[part(&file, memory)], None, &Arc::default()).unwrap_err();
    assert_eq!(refused.part, Some(0));
    assert!(refused.to_string().contains("O_APPEND"), "{refused}");
    assert_eq!(std::fs::read(&name).unwrap(), b"there");
    std::fs::remove_file(&name).unwrap();
}
