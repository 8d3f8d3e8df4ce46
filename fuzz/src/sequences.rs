//! Calls of two warps, in the order that a seed gives, some of them wrong, against a model of files.

use std::fmt::Write as _;
use std::panic::resume_unwind;

use gpufs_device::file::{Descriptor, O_CREAT, O_RDWR, O_TRUNC, Whence};
use gpufs_device::{Errno, File, Fs, warp};
use gpufs_host::cpu::Schedule;
use gpufs_host::ring::Mode;
use gpufs_host::{CpuOptions, Grid};
use gpufs_tests::{Scratch, c_path, small};

use crate::bytes::Bytes;

const WARPS: u32 = 2;
const WIDTH: u32 = 2;
const LANES: usize = (WARPS * WIDTH) as usize;
/// No file grows beyond.
const MOST: u64 = 1 << 16;

/// One call of one lane.
#[derive(Clone, Copy, Debug)]
enum Do {
    Write(u16, u8),
    Read(u16),
    Seek(u16),
    SeekEnd,
    Tell,
    Flush,
    Reopen,
    PositionedWrite(u16, u16, u8),
    PositionedRead(u16, u16),
    SequentialWrite(u16, u8),
    SequentialRead(u16),
    Truncate(u16),
    Share(u8),
    Fail(u8),
    Nothing,
}

impl Do {
    fn of(bytes: &mut Bytes<'_>) -> Self {
        match bytes.below(18) {
            0 | 1 => Self::Write(bytes.half() % 9000, bytes.byte()),
            2 | 3 => Self::Read(bytes.half() % 9000),
            4 => Self::Seek(bytes.half() % 20_000),
            5 => Self::SeekEnd,
            6 => Self::Tell,
            7 => Self::Flush,
            8 => Self::Reopen,
            9 => Self::PositionedWrite(bytes.half() % 20_000, bytes.half() % 9000, bytes.byte()),
            10 => Self::PositionedRead(bytes.half() % 20_000, bytes.half() % 9000),
            11 => Self::SequentialWrite(bytes.half() % 3000, bytes.byte()),
            12 => Self::SequentialRead(bytes.half() % 3000),
            13 => Self::Truncate(bytes.half() % 20_000),
            14 | 15 => Self::Share(bytes.byte()),
            16 => Self::Fail(bytes.byte()),
            _ => Self::Nothing,
        }
    }
}

/// Makes the calls that the bytes say.
///
/// # Panics
/// Where a call says other than the model, or a file's bytes are other than the model's.
pub fn sequences(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let seed = bytes.half();
    let mode = if bytes.below(4) == 0 { Mode::Enter } else { Mode::Threads };
    // A lane that ends with a panic, if there is one.
    let panics = bytes.byte();
    let mut scripts: [Vec<Do>; LANES] = Default::default();
    // Ends: each round takes a byte.
    while !bytes.is_empty() {
        let lane = bytes.below(LANES);
        if scripts[lane].len() < 64 {
            scripts[lane].push(Do::of(&mut bytes));
        }
    }
    let scratch = Scratch::new("fuzz-sequences");
    let schedule = if seed.is_multiple_of(4) { Schedule::Fast } else { Schedule::Seeded(seed.into()) };
    let options = CpuOptions { width: WIDTH, threads: 2, schedule, ..CpuOptions::default() };
    let builder = small().mode(mode).report_failures(false).report_fallback(false);
    let Ok(mut session) = builder.cpu_with(options) else { return };
    let shared = session.fopen(scratch.path("shared"), "w").expect("a stream for all");
    let shared = &shared;
    let ended = session.run(Grid { blocks: WARPS, threads: WIDTH }, |fs| {
        let lane = warp::global_thread() as usize;
        let mut player = Player::new(fs, &scratch, lane);
        for step in &scripts[lane] {
            player.make(*step, shared.get(fs).expect("open"));
        }
        if usize::from(panics) == lane {
            // Its streams stay open.
            resume_unwind(Box::new("deliberate"));
        }
        player.end();
    });
    let is_deliberate = usize::from(panics) < LANES;
    match ended {
        Ok(()) => assert!(!is_deliberate, "the panic was not told"),
        Err(error) => assert!(is_deliberate && error.to_string().contains("deliberate"), "{error}"),
    }
    drop(session);
    check_shared(&scratch, &scripts);
    for (lane, script) in scripts.iter().enumerate() {
        let mut model = Model::default();
        script.iter().for_each(|step| model.make(*step));
        assert!(
            scratch.read(&format!("stream{lane}")) == model.stream,
            "lane {lane}: the stream's file: {script:?}"
        );
        assert!(
            scratch.read(&format!("file{lane}")) == model.file,
            "lane {lane}: the descriptor's file: {script:?}"
        );
    }
}

/// A line of the shared stream.
fn line(lane: usize, count: usize, letters: u8) -> String {
    let mut text = format!("{lane} {count} ");
    (0..letters).for_each(|_| _ = text.write_char('x'));
    text.push('\n');
    text
}

/// Each line is whole and there once, each lane's in their order.
fn check_shared(scratch: &Scratch, scripts: &[Vec<Do>; LANES]) {
    let text = String::from_utf8(scratch.read("shared")).expect("text");
    let mut found: [Vec<String>; LANES] = Default::default();
    for line in text.split_inclusive('\n') {
        let lane = line.split(' ').next().and_then(|lane| lane.parse::<usize>().ok());
        let lane = lane.filter(|lane| *lane < LANES).unwrap_or_else(|| panic!("no line: {line:?}"));
        found[lane].push(line.to_owned());
    }
    for (lane, script) in scripts.iter().enumerate() {
        let letters = script.iter().filter_map(|step| match step {
            Do::Share(letters) => Some(*letters),
            _ => None,
        });
        let wanted: Vec<String> =
            letters.enumerate().map(|(count, letters)| line(lane, count, letters)).collect();
        assert_eq!(found[lane], wanted, "lane {lane}'s lines");
    }
}

/// What a lane's two files hold, and where it stands in them.
#[derive(Debug, Default)]
struct Model {
    stream: Vec<u8>,
    at: u64,
    at_end: bool,
    file: Vec<u8>,
    position: u64,
}

fn put(file: &mut Vec<u8>, at: u64, count: u64, byte: u8) {
    let (at, end) = (at as usize, (at + count) as usize);
    if count > 0 {
        file.resize(file.len().max(end), 0);
        file[at..end].fill(byte);
    }
}

fn part(file: &[u8], at: u64, count: u64) -> &[u8] {
    let at = (at as usize).min(file.len());
    &file[at..(at + count as usize).min(file.len())]
}

impl Model {
    /// Whether a write of so many bytes at a place would make a file too long: then it is not made.
    fn is_too_long(at: u64, count: u16) -> bool {
        at + u64::from(count) > MOST
    }
    /// What a read of the stream gives.
    fn read(&mut self, count: u16) -> Vec<u8> {
        if self.at_end {
            return Vec::new();
        }
        let bytes = part(&self.stream, self.at, count.into()).to_vec();
        self.at += bytes.len() as u64;
        self.at_end = bytes.len() < count.into();
        bytes
    }
    /// What changes the files and positions.
    fn make(&mut self, step: Do) {
        match step {
            Do::Write(count, byte) if !Self::is_too_long(self.at, count) => {
                put(&mut self.stream, self.at, count.into(), byte);
                self.at += u64::from(count);
                self.at_end = false;
            }
            Do::Read(count) => _ = self.read(count),
            Do::Seek(to) => (self.at, self.at_end) = (to.into(), false),
            Do::SeekEnd => (self.at, self.at_end) = (self.stream.len() as u64, false),
            Do::Reopen => (self.at, self.at_end) = (0, false),
            Do::PositionedWrite(at, count, byte) => put(&mut self.file, at.into(), count.into(), byte),
            Do::SequentialWrite(count, byte) if !Self::is_too_long(self.position, count) => {
                put(&mut self.file, self.position, count.into(), byte);
                self.position += u64::from(count);
            }
            Do::SequentialRead(count) => {
                self.position += part(&self.file, self.position, count.into()).len() as u64;
            }
            Do::Truncate(bytes) => self.file.resize(bytes.into(), 0),
            _ => {}
        }
    }
}

/// One lane, its files and its model.
struct Player<'a> {
    fs: Fs,
    scratch: &'a Scratch,
    lane: usize,
    model: Model,
    stream: File,
    descriptor: Descriptor,
    shared: usize,
    writes: bool,
}

impl<'a> Player<'a> {
    fn new(fs: Fs, scratch: &'a Scratch, lane: usize) -> Self {
        let stream = fs.fopen(&scratch.c(&format!("stream{lane}")), c"w+").expect("a stream");
        let flags = O_RDWR | O_CREAT | O_TRUNC;
        let descriptor = fs.open(&scratch.c(&format!("file{lane}")), flags, 0o600).expect("a file");
        Self { fs, scratch, lane, model: Model::default(), stream, descriptor, shared: 0, writes: false }
    }

    /// C wants a move between writing and reading.
    fn turn(&mut self, writes: bool) {
        if self.writes != writes {
            self.writes = writes;
            self.model.at_end = false;
            self.stream.fseek(0, Whence::Current).expect("a move to the same place");
        }
    }

    fn make(&mut self, step: Do, shared: File) {
        let (fs, descriptor) = (self.fs, self.descriptor);
        match step {
            Do::Write(count, _) if Model::is_too_long(self.model.at, count) => {}
            Do::Write(count, byte) => {
                self.turn(true);
                assert_eq!(self.stream.fwrite(&vec![byte; count.into()]), Ok(count.into()));
            }
            Do::Read(count) => {
                // A read that the end has been met by before gives nothing until a move.
                if self.writes {
                    self.turn(false);
                }
                let mut into = vec![0; count.into()];
                let mut model = Model { stream: self.model.stream.clone(), ..Model::default() };
                (model.at, model.at_end) = (self.model.at, self.model.at_end);
                let wanted = model.read(count);
                assert_eq!(self.stream.fread(&mut into), Ok(wanted.len()), "lane {} {step:?}", self.lane);
                assert!(into[..wanted.len()] == wanted, "lane {}: {step:?} gives other bytes", self.lane);
            }
            Do::Seek(to) => self.stream.fseek(to.into(), Whence::Set).expect("a place"),
            Do::SeekEnd => self.stream.fseek(0, Whence::End).expect("the end"),
            Do::Tell => assert_eq!(self.stream.ftell(), Ok(self.model.at), "lane {}", self.lane),
            Do::Flush => self.stream.fflush().expect("room"),
            Do::Reopen => {
                self.stream.fclose().expect("open");
                self.stream =
                    fs.fopen(&self.scratch.c(&format!("stream{}", self.lane)), c"r+").expect("the file");
                self.writes = false;
            }
            Do::PositionedWrite(at, count, byte) => {
                let written = fs.pwrite(descriptor, &vec![byte; count.into()], at.into());
                assert_eq!(written, Ok(count.into()));
            }
            Do::PositionedRead(at, count) => {
                let mut into = vec![0; count.into()];
                let wanted = part(&self.model.file, at.into(), count.into());
                assert_eq!(fs.pread(descriptor, &mut into, at.into()), Ok(wanted.len()));
                assert!(into[..wanted.len()] == *wanted, "lane {}: {step:?} gives other bytes", self.lane);
            }
            Do::SequentialWrite(count, _) if Model::is_too_long(self.model.position, count) => {}
            Do::SequentialWrite(count, byte) => {
                assert_eq!(fs.write(descriptor, &vec![byte; count.into()]), Ok(count.into()));
            }
            Do::SequentialRead(count) => {
                let mut into = vec![0; count.into()];
                let wanted = part(&self.model.file, self.model.position, count.into());
                assert_eq!(fs.read(descriptor, &mut into), Ok(wanted.len()));
                assert!(into[..wanted.len()] == *wanted, "lane {}: {step:?} gives other bytes", self.lane);
            }
            Do::Truncate(bytes) => fs.ftruncate(descriptor, bytes.into()).expect("a length"),
            Do::Share(letters) => {
                let text = line(self.lane, self.shared, letters);
                assert_eq!(shared.fwrite(text.as_bytes()), Ok(text.len()));
                self.shared += 1;
            }
            Do::Fail(kind) => self.fail(kind),
            Do::Nothing => fs.nop().expect("nothing"),
        }
        self.model.make(step);
    }

    /// A call that must fail, and change nothing.
    fn fail(&self, kind: u8) {
        let fs = self.fs;
        match kind % 6 {
            0 => assert_eq!(fs.pread(Descriptor(kind.into()), &mut [0], u64::MAX), Err(self.far(kind))),
            1 => assert_eq!(fs.close(Descriptor(1 << 20)), Err(Errno::BADF)),
            2 => {
                let missing = c_path(&self.scratch.path("missing/file"));
                assert_eq!(fs.fopen(&missing, c"w").err(), Some(Errno::NOENT));
            }
            3 => {
                let full = fs.fopen(c"/dev/full", c"w").expect("the device");
                assert_eq!(full.fputs(c"lost"), Ok(()));
                assert_eq!(full.fflush(), Err(Errno::NOSPC));
                let _ = full.fclose();
                assert_eq!(full.fclose(), Err(Errno::BADF));
            }
            4 => assert_eq!(self.stream.fseek(i64::MIN, Whence::Set), Err(Errno::INVAL)),
            _ => assert_eq!(fs.lseek(self.descriptor, -1, Whence::Set), Err(Errno::INVAL)),
        }
    }

    /// What a read at an impossible place says: of a descriptor that is none, that.
    fn far(&self, kind: u8) -> Errno {
        let mut into = [0];
        match self.fs.pread(Descriptor(kind.into()), &mut into, u64::MAX) {
            Err(errno @ (Errno::BADF | Errno::INVAL | Errno::SPIPE)) => errno,
            other => panic!("a read at 2⁶⁴ − 1 gives {other:?}"),
        }
    }

    fn end(self) {
        self.stream.fclose().expect("closed once");
        self.fs.close(self.descriptor).expect("closed once");
    }
}
