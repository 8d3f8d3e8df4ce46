//! `fgets` of many lanes on one stream, on CPU lanes: against a model that anyone can read, and of whole grids with seeds.

use std::ffi::CStr;
use std::fs;

use gpufs_device::stdio::{Buffering, Whence};
use gpufs_device::{Errno, File, Fs};
use gpufs_host::cpu::Schedule;
use gpufs_host::ring::Mode;
use gpufs_host::{Builder, CpuOptions, Grid, Session};
use gpufs_tests::random::{Random, text};
use gpufs_tests::{Scratch, each, once, setting, small};

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
fn lines(random: &mut Random, bytes: usize, length: usize) -> Vec<u8> {
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

/// Builders of sessions whose lanes look for lines in turn, and together.
fn builders() -> [Builder; 2] {
    [small(), small().assembly(64 << 10)]
}

#[test]
fn lanes_that_call_together_get_what_the_model_says() {
    let scratch = Scratch::new("fgets-model");
    let name = scratch.c("text");
    let first = setting("GPUFS_SEED", 0);
    for seed in first..first + setting("GPUFS_SEQUENCES", 8) {
        let mut random = Random::new(seed);
        let width = random.pick(&[1, 32, 32, 64]);
        let length = random.pick(&[2, 10, 40, 40, 300, 3000]);
        let bytes = random.pick(&[0, 100, 20_000, 60_000]);
        let mut model =
            Model { text: lines(&mut random, bytes, length), position: 0, pushed: Vec::new(), end: false };
        fs::write(scratch.path("text"), &model.text).unwrap();
        for builder in builders() {
            let mut random = random.clone();
            let mut session = session(builder, width, Schedule::Fast);
            let file = once(&mut session, |fs| fs.fopen(&name, c"r").unwrap());
            (model.position, model.end) = (0, false);
            model.pushed.clear();
            let mut reads_bytes = false;
            for step in 0..40 {
                let what = format!("seed {seed}, step {step}, width {width}");
                match random.below(12) {
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
                        model.position = model.position.saturating_sub(model.pushed.len());
                        model.pushed.clear();
                        once(&mut session, |_| file.setvbuf(buffering, size)).unwrap();
                        reads_bytes = buffering == Buffering::None;
                    }
                    _ => {
                        let calling = if random.one_in(3) { random.bits() } else { u64::MAX };
                        let most = random.pick(&[3, 20, 100, 1000, 5000]);
                        // A system call for each byte takes a while.
                        let most = if reads_bytes { most.min(20) } else { most };
                        let rooms: Vec<usize> = (0..width)
                            .map(|_| if random.one_in(4) { random.below(most) } else { most })
                            .collect();
                        let answers = each(&mut session, width, |_, lane| {
                            (calling >> lane & 1 == 1).then(|| take_line(file, rooms[lane as usize]))
                        });
                        for (lane, answer) in answers.into_iter().enumerate() {
                            let wanted = (calling >> lane & 1 == 1).then(|| model.line(rooms[lane]));
                            assert_eq!(answer, wanted, "{what}, lane {lane}");
                        }
                        if random.one_in(4) {
                            assert_eq!(once(&mut session, |_| file.feof()), model.end, "{what}");
                        }
                    }
                }
            }
            once(&mut session, |_| file.fclose()).unwrap();
        }
    }
}

/// Every thread of the grid takes lines until there is none left: what all took, sorted.
fn taken_by_all(session: &mut Session, grid: Grid, file: File, room: usize) -> Vec<Vec<u8>> {
    let taken = std::sync::Mutex::new(Vec::new());
    session
        .run(grid, |_| {
            let mut memory = vec![0; room];
            while let Some(line) = file.fgets(&mut memory).unwrap() {
                taken.lock().unwrap().push(line.to_bytes().to_vec());
            }
        })
        .unwrap();
    let mut taken = taken.into_inner().unwrap();
    taken.sort();
    taken
}

#[test]
fn a_grid_takes_every_line_once() {
    let scratch = Scratch::new("fgets-grid");
    let name = scratch.c("text");
    let first = setting("GPUFS_SEED", 0);
    for seed in first..first + setting("GPUFS_SEQUENCES", 16) {
        let mut random = Random::new(seed);
        let width = random.pick(&[1, 32, 32, 64]);
        let text: String = (0..random.below(3000)).map(|line| format!("line {line} {seed}\n")).collect();
        fs::write(scratch.path("text"), &text).unwrap();
        let mut wanted: Vec<&[u8]> = text.split_inclusive('\n').map(str::as_bytes).collect();
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
