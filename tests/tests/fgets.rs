//! `fgets` of many lanes on one stream, on CPU lanes: against a model that anyone can read, and of whole grids with seeds.

use std::ffi::CStr;
use std::fs;
use std::sync::Mutex;

use gpufs_core::session::SessionTables;
use gpufs_core::word::DeviceWord;
use gpufs_device::stdio::{Buffering, Whence};
use gpufs_device::{Errno, File, Fs, warp};
use gpufs_host::cpu::Schedule;
use gpufs_host::ring::Mode;
use gpufs_host::{Builder, CpuOptions, Grid, Session};
use gpufs_tests::random::{Random, text};
use gpufs_tests::{MODES, Scratch, each, once, setting, small, tables, tables_of};

/// What lies where `fgets` wrote nothing.
const UNTOUCHED: u8 = 0xee;

/// What a lane's `fgets` came to: the whole memory, and the string that was returned.
type Line = (Vec<u8>, Result<Option<Vec<u8>>, Errno>);

fn take_line(file: File, room: usize) -> Line {
    let mut memory = vec![UNTOUCHED; room];
    let outcome = file.fgets(&mut memory).map(|line| line.map(|line| line.to_bytes().to_vec()));
    (memory, outcome)
}

/// A stream that only reads, as C11 has it.
struct Model {
    text: Vec<u8>,
    position: usize,
    /// The last one is read first.
    pushed: Vec<u8>,
    end: bool,
}

impl Model {
    fn byte(&mut self) -> Option<u8> {
        if let Some(byte) = self.pushed.pop() {
            return Some(byte);
        }
        let byte = self.text.get(self.position).copied().filter(|_| !self.end);
        self.end = byte.is_none();
        self.position += usize::from(byte.is_some());
        byte
    }
    fn line(&mut self, room: usize) -> Line {
        let mut memory = vec![UNTOUCHED; room];
        if room == 0 {
            return (memory, Ok(None));
        }
        let mut line = Vec::new();
        while line.len() < room - 1 && line.last() != Some(&b'\n') {
            let Some(byte) = self.byte() else { break };
            line.push(byte);
        }
        if line.is_empty() && room > 1 {
            return (memory, Ok(None));
        }
        line.push(0);
        memory[..line.len()].copy_from_slice(&line);
        let string = CStr::from_bytes_until_nul(&line).unwrap().to_bytes().to_vec();
        (memory, Ok(Some(string)))
    }
}

/// A text with lines of all lengths: mostly below `length`.
fn lines(random: &Random, bytes: usize, length: usize) -> Vec<u8> {
    let mut all = text(random.bits(), bytes);
    for byte in &mut all {
        let ends = random.one_in(length);
        if ends || *byte == b'\n' {
            *byte = if ends { b'\n' } else { b' ' };
        }
    }
    all
}

fn session(builder: Builder, width: u32, schedule: Schedule) -> Session {
    // The threads that look at rings would take the time from the lanes.
    builder.mode(Mode::Enter).cpu_with(CpuOptions { width, schedule, ..CpuOptions::default() }).unwrap()
}

/// Builders of sessions whose lanes look for lines in turn, and together; and of the same that read ahead, with few places and with many.
fn builders() -> [Builder; 4] {
    let together = || small().assembly(64 << 10);
    [
        small(),
        together(),
        small().rings(2).ring_entries(256).read_ahead(16 << 10),
        together().ring_entries(512).buffers(2 << 20).read_ahead(128 << 10),
    ]
}

#[test]
fn lanes_that_call_together_get_what_the_model_says() {
    let scratch = Scratch::new("fgets-model");
    let name = scratch.c("text");
    let first = setting("GPUFS_SEED", 0);
    let mut opened = 0;
    for seed in first..first + setting("GPUFS_SEQUENCES", 20) {
        let random = Random::new(seed);
        let width = random.pick(&[1, 32, 32, 64]);
        // So that lines are read ahead, mostly, or not.
        let steady = random.one_in(2);
        let length = random.pick(if steady { &[10, 40] } else { &[2, 10, 40, 40, 300, 3000] });
        let bytes = random.pick(if steady { &[60_000, 200_000] } else { &[0, 100, 20_000, 60_000] });
        let mut model =
            Model { text: lines(&random, bytes, length), position: 0, pushed: Vec::new(), end: false };
        fs::write(scratch.path("text"), &model.text).unwrap();
        for builder in builders() {
            let random = random.clone();
            let mut session = session(builder, width, Schedule::Fast);
            let file = once(&mut session, |fs| fs.fopen(&name, c"r").unwrap());
            (model.position, model.end) = (0, false);
            model.pushed.clear();
            let mut reads_bytes = false;
            for step in 0..if steady { 60 } else { 40 } {
                let what = format!("seed {seed}, step {step}, width {width}");
                match random.below(if steady { 150 } else { 12 }) {
                    0 => {
                        let byte = random.pick(b"\n\nab\0");
                        let pushed = once(&mut session, |_| file.ungetc(byte)).unwrap();
                        if model.pushed.len() < 8 {
                            model.pushed.push(byte);
                            model.end = false;
                        }
                        assert_eq!(pushed.is_some(), model.pushed.last() == Some(&byte), "{what}");
                    }
                    1 => {
                        let (byte, wanted) = (once(&mut session, |_| file.fgetc()), model.byte());
                        assert_eq!(byte, Ok(wanted), "{what}");
                    }
                    2 => {
                        let position = once(&mut session, |_| file.ftell()).unwrap();
                        let wanted = model.position.saturating_sub(model.pushed.len());
                        assert_eq!(position, wanted as u64, "{what}");
                    }
                    3 if random.one_in(3) => {
                        let position = random.below(bytes + 10);
                        once(&mut session, |_| file.fseek(position as i64, Whence::Set)).unwrap();
                        (model.position, model.end) = (position, false);
                        model.pushed.clear();
                    }
                    4 if random.one_in(3) => {
                        let (buffering, size) = (
                            random.pick(&[Buffering::Full, Buffering::None]),
                            random.pick(&[16, 64, 256, 4096]),
                        );
                        once(&mut session, |_| file.setvbuf(buffering, size)).unwrap();
                        reads_bytes = buffering == Buffering::None;
                    }
                    _ => {
                        let calling = if !steady && random.one_in(3) { random.bits() } else { u64::MAX };
                        let most =
                            random.pick(if steady { &[1000, 5000] } else { &[3, 20, 100, 1000, 5000] });
                        // A system call for each byte takes a while.
                        let most = if reads_bytes { most.min(20) } else { most };
                        let rooms: Vec<usize> = (0..width)
                            .map(|_| if !steady && random.one_in(4) { random.below(most) } else { most })
                            .collect();
                        let answers = each(&mut session, width, |_, lane| {
                            (calling >> lane & 1 == 1).then(|| take_line(file, rooms[lane as usize]))
                        });
                        for (lane, answer) in answers.into_iter().enumerate() {
                            let wanted = (calling >> lane & 1 == 1).then(|| model.line(rooms[lane]));
                            assert_eq!(answer, wanted, "{what}, lane {lane}");
                        }
                        opened += usize::from(once(&mut session, |fs| are_lines_open(tables_of(fs))));
                        if random.one_in(4) {
                            assert_eq!(once(&mut session, |_| file.feof()), model.end, "{what}");
                        }
                    }
                }
            }
            once(&mut session, |_| file.fclose()).unwrap();
        }
    }
    println!("lines were open behind {opened} calls");
    assert!(opened > 0, "lines were never read ahead");
}

/// Whether some open stream's lines are read ahead.
fn are_lines_open(tables: &SessionTables) -> bool {
    // Of an entry that was never used the words mean nothing.
    tables.streams().iter().any(|stream| stream.generation.peek() % 2 == 1 && stream.lines.is_open())
}

/// Every thread of the grid takes lines until there is none left: what all took, sorted.
fn taken_by_all(session: &mut Session, grid: Grid, file: File, room: usize) -> Vec<Vec<u8>> {
    taken_ahead(session, grid, file, room).0
}

/// [`taken_by_all`], and how many of the calls saw lines that are read ahead.
fn taken_ahead(session: &mut Session, grid: Grid, file: File, room: usize) -> (Vec<Vec<u8>>, u32) {
    let taken = Mutex::new(Vec::new());
    let opened = &DeviceWord::new(0);
    session
        .run(grid, |fs| {
            let mut memory = vec![0; room];
            while let Some(line) = file.fgets(&mut memory).unwrap() {
                taken.lock().unwrap().push(line.to_bytes().to_vec());
                let open = are_lines_open(tables_of(fs));
                opened.fetch_add_relaxed(u32::from(open));
            }
        })
        .unwrap();
    println!("{} of {} calls saw lines open", opened.peek(), taken.lock().unwrap().len());
    let mut taken = taken.into_inner().unwrap();
    taken.sort();
    (taken, opened.peek())
}

#[test]
fn a_grid_takes_every_line_once() {
    let scratch = Scratch::new("fgets-grid");
    let name = scratch.c("text");
    let first = setting("GPUFS_SEED", 0);
    for seed in first..first + setting("GPUFS_SEQUENCES", 10) {
        let random = Random::new(seed);
        let width = random.pick(&[1, 32, 32, 64]);
        let most = if random.one_in(4) { 20_000 } else { 3000 };
        let mut text: String = (0..random.below(most)).map(|line| format!("line {line} {seed}\n")).collect();
        // Sometimes a few lines are longer than the room, or the last does not end.
        if random.one_in(3) {
            for _ in 0..random.below(5) {
                let at = random.below(text.len() + 1);
                text.insert_str(at, &"long ".repeat(random.below(100)));
            }
        }
        if random.one_in(3) {
            text.push_str("the end");
        }
        fs::write(scratch.path("text"), &text).unwrap();
        let lines = text.split_inclusive('\n').map(str::as_bytes);
        let mut wanted: Vec<&[u8]> = lines.flat_map(|line| line.chunks(63)).collect();
        wanted.sort();
        for builder in builders() {
            let schedule = if random.one_in(3) { Schedule::Fast } else { Schedule::Seeded(seed) };
            let mut session = session(builder, width, schedule);
            let file = once(&mut session, |fs| fs.fopen(&name, c"r").unwrap());
            let grid = Grid { blocks: 1 + random.below(3) as u32, threads: 1 + random.below(100) as u32 };
            let taken = taken_by_all(&mut session, grid, file, 64);
            assert_eq!(taken, wanted, "seed {seed}, width {width}, {schedule:?}");
            once(&mut session, |_| file.fclose()).unwrap();
        }
    }
}

/// Blocks end within lines of up to a quarter of their length: some are carried over by the lanes of a run of blocks, one each, some by the warp.
#[test]
fn lines_of_all_lengths_are_carried_over() {
    let scratch = Scratch::new("fgets-carried");
    let name = scratch.c("text");
    let first = setting("GPUFS_SEED", 0);
    let mut ahead = 0;
    for seed in first..first + setting("GPUFS_SEQUENCES", 10) {
        let random = Random::new(seed);
        let most = random.pick(&[60, 300, 1000]);
        let line = |number| format!("{number:06} {}\n", "x".repeat(random.below(most)));
        let text: String = (0..400_000 / (8 + most / 2)).map(line).collect();
        fs::write(scratch.path("text"), &text).unwrap();
        let mut wanted: Vec<&[u8]> = text.split_inclusive('\n').map(str::as_bytes).collect();
        wanted.sort();
        let builder = small().rings(2).ring_entries(512).buffers(2 << 20).read_ahead(128 << 10);
        let schedule = if random.one_in(3) { Schedule::Fast } else { Schedule::Seeded(seed) };
        let mut session = session(builder, random.pick(&[4, 32, 64]), schedule);
        let file = once(&mut session, |fs| fs.fopen(&name, c"r").unwrap());
        let (taken, open) = taken_ahead(&mut session, Grid { blocks: 4, threads: 64 }, file, 1024);
        assert!(taken == wanted, "seed {seed}, {schedule:?}");
        ahead += open;
        once(&mut session, |_| file.fclose()).unwrap();
    }
    assert!(ahead > 1000, "lines were hardly ever read ahead");
}

/// Two places of blocks with 13 lines each: a warp of 32 never finds lines enough, and must not wait for more.
#[test]
fn lines_too_few_for_a_warp_are_not_waited_for() {
    let scratch = Scratch::new("fgets-few");
    let wanted: Vec<Vec<u8>> = (0..2000).map(|line| format!("{line:0299}\n").into_bytes()).collect();
    fs::write(scratch.path("text"), wanted.concat()).unwrap();
    let builder = small().rings(2).ring_entries(256).read_ahead(16 << 10).deadline(gpufs_tests::patience());
    let mut session = session(builder, 32, Schedule::Fast);
    let file = once(&mut session, |fs| fs.fopen(&scratch.c("text"), c"r").unwrap());
    assert_eq!(taken_by_all(&mut session, Grid { blocks: 1, threads: 32 }, file, 512), wanted);
    once(&mut session, |_| file.fclose()).unwrap();
}

#[test]
fn a_session_ends_with_lines_open() {
    let scratch = Scratch::new("fgets-open");
    let name = scratch.c("text");
    let text: String = (0..100_000).map(|line| format!("line {line}\n")).collect();
    fs::write(scratch.path("text"), &text).unwrap();
    for mode in MODES {
        let builder = small().mode(mode).rings(2).ring_entries(512).buffers(2 << 20).read_ahead(128 << 10);
        let mut session = builder.cpu().unwrap();
        let file = once(&mut session, |fs| fs.fopen(&name, c"r").unwrap());
        let mut lines = text.split_inclusive('\n');
        for _ in 0..20 {
            for (_, line) in each(&mut session, 32, |_, _| take_line(file, 100)) {
                assert_eq!(line.unwrap().as_deref(), lines.next().map(str::as_bytes));
            }
        }
        assert!(once(&mut session, |fs| are_lines_open(tables_of(fs))));
        // Closing waits until every slot is free, or gives up. Ends: the reads complete, and what they read is given up.
        let tables = tables(&session);
        while tables.queues().iter().any(|queue| queue.free_slots() != queue.capacity()) {
            for queue in tables.queues() {
                queue.drain_alone(64);
            }
            for stream in tables.streams() {
                stream.lines.reclaim_slots(tables);
            }
            std::thread::yield_now();
        }
        drop(session);
    }
}

/// How often each byte occurs.
fn histogram(bytes: impl IntoIterator<Item = u8>) -> [u32; 256] {
    bytes.into_iter().fold([0; 256], |mut counts, byte| {
        counts[usize::from(byte)] += 1;
        counts
    })
}

#[test]
fn other_calls_between_lines_lose_nothing() {
    let scratch = Scratch::new("fgets-mixed");
    let name = scratch.c("text");
    let first = setting("GPUFS_SEED", 0);
    for seed in first..first + setting("GPUFS_SEQUENCES", 12) {
        let random = Random::new(seed);
        let width = random.pick(&[1, 32, 32, 64]);
        let text: String = (0..random.below(5000)).map(|line| format!("{line} of {seed}\n")).collect();
        fs::write(scratch.path("text"), &text).unwrap();
        let rarely = random.pick(&[20, 200, 1000]);
        for builder in builders() {
            let schedule = if random.one_in(3) { Schedule::Fast } else { Schedule::Seeded(seed) };
            let mut session = session(builder, width, schedule);
            let file = once(&mut session, |fs| fs.fopen(&name, c"r").unwrap());
            let taken = Mutex::new(Vec::new());
            let grid = Grid { blocks: 1 + random.below(3) as u32, threads: 1 + random.below(100) as u32 };
            session
                .run(grid, |_| {
                    let random = Random::new(seed << 32 | warp::global_thread());
                    let mut memory = [0; 100];
                    loop {
                        match random.below(4 * rarely) {
                            0 => {
                                let byte = file.fgetc().unwrap();
                                taken.lock().unwrap().extend(byte);
                            }
                            // What is pushed back is taken again, sooner or later.
                            1 => {
                                if let Some(byte) = file.fgetc().unwrap()
                                    && file.ungetc(byte).unwrap().is_none()
                                {
                                    taken.lock().unwrap().push(byte);
                                }
                            }
                            2 => {
                                let position = file.ftell().unwrap();
                                assert!(position <= text.len() as u64);
                            }
                            3 => {
                                let mut bytes = [0; 50];
                                let count = file.fread(&mut bytes).unwrap();
                                taken.lock().unwrap().extend(&bytes[..count]);
                            }
                            _ => match file.fgets(&mut memory).unwrap() {
                                Some(line) => taken.lock().unwrap().extend(line.to_bytes()),
                                None => break,
                            },
                        }
                    }
                })
                .unwrap();
            // A lane that pushes a byte back when all the others are done leaves it.
            let mut taken = taken.into_inner().unwrap();
            taken.extend(
                each(&mut session, 1, |_, _| {
                    let mut left = [0; 16];
                    let count = file.fread(&mut left).unwrap();
                    left[..count].to_vec()
                })
                .concat(),
            );
            assert_eq!(taken.len(), text.len(), "seed {seed}, width {width}, {schedule:?}");
            assert!(histogram(taken) == histogram(text.bytes()), "seed {seed}, width {width}, {schedule:?}");
            once(&mut session, |_| file.fclose()).unwrap();
        }
    }
}

#[test]
fn every_lane_meets_the_error() {
    let scratch = Scratch::new("fgets-errors");
    let (directory, written) = (scratch.c(""), scratch.c("written"));
    for builder in builders() {
        let mut session = session(builder, 32, Schedule::Fast);
        for (name, mode, errno) in [(&directory, c"r", Errno::ISDIR), (&written, c"w", Errno::BADF)] {
            let file = once(&mut session, |fs: Fs| fs.fopen(name, mode).unwrap());
            let answers = each(&mut session, 32, |_, lane| take_line(file, lane as usize));
            for (lane, (_, outcome)) in answers.into_iter().enumerate() {
                let wanted = match lane {
                    0 => Ok(None),
                    1 => Ok(Some(Vec::new())),
                    _ => Err(errno),
                };
                assert_eq!(outcome, wanted, "lane {lane}");
            }
            assert!(once(&mut session, |_| file.ferror()));
            once(&mut session, |_| file.fclose()).unwrap();
        }
    }
}

/// Takes lines, each lane as many as open the stream's lines with those of the others; whether they are open then.
fn opens_lines(fs: Fs, file: File, lanes: u32) -> bool {
    (0..160 / lanes).for_each(|_| drop(take_line(file, 64)));
    are_lines_open(tables_of(fs))
}

/// Where the room is as long as a line, and the NUL has none, the next call gets the line's end.
#[test]
fn a_line_as_long_as_the_room_is_cut() {
    let scratch = Scratch::new("fgets-exact");
    let line = |number: u64| format!("{number:062}\n").into_bytes();
    fs::write(scratch.path("text"), (0..1000).flat_map(line).collect::<Vec<_>>()).unwrap();
    let [.., many] = builders();
    let mut session = session(many, 32, Schedule::Fast);
    let file = once(&mut session, |fs| fs.fopen(&scratch.c("text"), c"r").unwrap());
    each(&mut session, 32, |fs, lane| {
        assert!(opens_lines(fs, file, 32));
        let mut memory = [UNTOUCHED; 64];
        let got = file.fgets(&mut memory[..63]).unwrap().map(|line| line.to_bytes().to_vec());
        assert_eq!(memory[63], UNTOUCHED);
        let (whole, end) = (line(160 + lane / 2), lane % 2 == 1);
        assert_eq!(got.as_deref(), Some(if end { &whole[62..] } else { &whole[..62] }));
    });
    once(&mut session, |_| file.fclose()).unwrap();
}

/// A last line without a newline ends with the file, whatever the stream's buffer held behind it before.
#[test]
fn a_last_line_without_an_end_ends_with_the_file() {
    let scratch = Scratch::new("fgets-last");
    fs::write(scratch.path("text"), "\n".repeat(4096) + "end").unwrap();
    for builder in builders() {
        let mut session = session(builder, 32, Schedule::Fast);
        let file = once(&mut session, |fs| fs.fopen(&scratch.c("text"), c"r").unwrap());
        for _ in 0..4096 / 32 {
            assert!(
                each(&mut session, 32, |_, _| take_line(file, 64).1)
                    .iter()
                    .all(|line| *line == Ok(Some(vec![b'\n'])))
            );
        }
        let got = each(&mut session, 32, |_, _| take_line(file, 64).1);
        assert_eq!(got[0], Ok(Some(b"end".to_vec())));
        assert_eq!(got[1..], [const { Ok(None) }; 31]);
        once(&mut session, |_| file.fclose()).unwrap();
    }
}
