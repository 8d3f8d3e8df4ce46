//! Streams and descriptors as readers and writers of the crate `embedded_io`, beside the system's own files.

use std::collections::HashMap;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;

use embedded_io::{BufRead, Error as _, ErrorKind, Read, ReadExactError, Seek, SeekFrom, Write};
use gpufs_device::embedded::Buffered;
use gpufs_device::file::{O_CREAT, O_RDWR, O_WRONLY};
use gpufs_device::warp::global_thread;
use gpufs_device::{Errno, File, kernel};
use gpufs_host::{CpuOptions, Grid};
use gpufs_tests::random::Random;
use gpufs_tests::{Scratch, c_path, each, once, setting, small};

/// A file of the system's, and one of gpufs's that must do the same.
struct Twins<F> {
    seed: u64,
    step: u32,
    ours: F,
    theirs: std::fs::File,
}

impl<F: Read<Error = Errno> + Write + Seek> Twins<F> {
    /// A call on both, chosen by the seed.
    fn step(&mut self, random: &Random) {
        let at = format!("seed {}, step {}", self.seed, self.step);
        self.step += 1;
        let count = random.pick(&[0, 1, 3, 10, 100, 5000]);
        match random.below(6) {
            0 => {
                let (mut ours, mut theirs) = (vec![7; count], vec![7; count]);
                let mut length = 0;
                while length < count {
                    let came = self.theirs.read(&mut theirs[length..]).unwrap();
                    length += came;
                    if came == 0 {
                        break;
                    }
                }
                assert_eq!(self.ours.read(&mut ours), Ok(length), "{at}: read of {count}");
                assert!(ours == theirs, "{at}: read of {count}");
            }
            1 => {
                let (mut ours, mut theirs) = (vec![7; count], vec![7; count]);
                let before = self.theirs.stream_position().unwrap();
                let whole = self.theirs.read_exact(&mut theirs).is_ok();
                match self.ours.read_exact(&mut ours) {
                    Ok(()) => assert!(whole && ours == theirs, "{at}: read_exact of {count}"),
                    Err(ReadExactError::UnexpectedEof) => assert!(!whole, "{at}: read_exact of {count}"),
                    Err(ReadExactError::Other(errno)) => panic!("{at}: {errno}"),
                }
                // Where the file ends too soon, std leaves the position open.
                self.theirs.seek(std::io::SeekFrom::Start(before)).unwrap();
                self.ours.seek(SeekFrom::Start(before)).unwrap();
            }
            2 | 3 => {
                let bytes: Vec<u8> = (0..count).map(|_| random.bits() as u8).collect();
                self.theirs.write_all(&bytes).unwrap();
                self.ours.write_all(&bytes).unwrap();
            }
            4 => {
                let place = random.below(12_000) as u64;
                let signed = i64::try_from(place).unwrap() - 6000;
                let to = random.pick(&[
                    SeekFrom::Start(place),
                    SeekFrom::Current(signed),
                    SeekFrom::End(signed),
                    SeekFrom::Start(u64::MAX),
                ]);
                let standard = match to {
                    SeekFrom::Start(position) => std::io::SeekFrom::Start(position),
                    SeekFrom::Current(offset) => std::io::SeekFrom::Current(offset),
                    SeekFrom::End(offset) => std::io::SeekFrom::End(offset),
                };
                let (ours, theirs) = (self.ours.seek(to), self.theirs.seek(standard));
                assert_eq!(ours.ok(), theirs.ok(), "{at}: seek to {to:?}");
            }
            _ => {
                self.ours.flush().unwrap();
                let theirs = self.theirs.stream_position().unwrap();
                assert_eq!(self.ours.stream_position().unwrap(), theirs, "{at}");
            }
        }
    }
}

#[test]
fn files_like_the_systems() {
    let scratch = Scratch::new("embedded");
    let mut session = small().cpu().unwrap();
    for seed in 0..setting("GPUFS_SEQUENCES", 60) {
        let [ours, theirs] = ["ours", "theirs"].map(|name| scratch.path(name));
        let open = || {
            let mut options = std::fs::File::options();
            options.read(true).write(true).create(true).truncate(true).open(&theirs).unwrap()
        };
        let (file, path) = (open(), c_path(&ours));
        once(&mut session, |fs| {
            let random = Random::new(seed);
            let theirs = file.try_clone().unwrap();
            if seed % 2 == 0 {
                let stream = fs.fopen(&path, c"w+").unwrap();
                let mut twins = Twins { seed, step: 0, ours: stream, theirs };
                (0..60).for_each(|_| twins.step(&random));
                stream.fclose().unwrap();
            } else {
                let descriptor = fs.open(&path, O_RDWR | O_CREAT, 0o600).unwrap();
                let mut twins = Twins { seed, step: 0, ours: fs.io(descriptor), theirs };
                (0..60).for_each(|_| twins.step(&random));
                fs.close(descriptor).unwrap();
            }
        });
        assert!(std::fs::read(&ours).unwrap() == std::fs::read(&theirs).unwrap(), "seed {seed}");
        std::fs::remove_file(&ours).unwrap();
    }
}

#[test]
fn a_buffered_reader_gives_every_byte_once() {
    let text: Vec<u8> = (0..1000_u32).map(|number| (number * 7 % 251) as u8).collect();
    for seed in 0..200 {
        let random = Random::new(seed);
        let mut memory = vec![0; random.pick(&[1, 2, 7, 64, 2000])];
        let mut from = &text[..];
        let mut reader = Buffered::new(&mut from, &mut memory);
        let mut got = Vec::new();
        while got.len() < text.len() {
            if random.one_in(2) {
                let mut into = vec![0; random.below(90) + 1];
                let count = reader.read(&mut into).unwrap();
                got.extend_from_slice(&into[..count]);
            } else {
                let ahead = reader.fill_buf().unwrap();
                let count = random.below(ahead.len() + 1);
                got.extend_from_slice(&ahead[..count]);
                reader.consume(count);
            }
        }
        assert!(got == text, "seed {seed}");
        assert_eq!(reader.fill_buf(), Ok(&[][..]));
        assert_eq!(reader.ahead().len(), 0);
    }
}

#[test]
fn a_buffered_reader_moves_from_where_its_user_is() {
    let scratch = Scratch::new("embedded-seek");
    let path = scratch.path("file");
    std::fs::write(&path, (0..=255).collect::<Vec<u8>>()).unwrap();
    let mut session = small().cpu().unwrap();
    let path = c_path(&path);
    once(&mut session, |fs| {
        let descriptor = fs.open(&path, O_RDWR, 0).unwrap();
        let mut memory = [0; 32];
        let mut reader = Buffered::new(fs.io(descriptor), &mut memory);
        let mut three = [0; 3];
        reader.read_exact(&mut three).unwrap();
        assert_eq!((three, reader.ahead().len()), ([0, 1, 2], 29));
        assert_eq!(reader.seek(SeekFrom::Current(10)), Ok(13));
        reader.read_exact(&mut three).unwrap();
        assert_eq!(three, [13, 14, 15]);
        assert_eq!(reader.seek(SeekFrom::Current(-17)), Err(Errno::INVAL));
        reader.read_exact(&mut three).unwrap();
        assert_eq!(three, [16, 17, 18], "a seek that fails moves nothing");
        assert_eq!(reader.seek(SeekFrom::End(-1)), Ok(255));
        assert_eq!(reader.fill_buf(), Ok(&[255][..]));
        assert_eq!(reader.into_inner().descriptor(), descriptor);
    });
}

#[test]
fn a_pipe_gives_what_has_come() {
    let (reading, mut writing) = std::io::pipe().unwrap();
    let mut session = small().cpu().unwrap();
    let stream = session.fdopen(OwnedFd::from(reading), "r").unwrap();
    writing.write_all(b"three").unwrap();
    let (given, _keeps_the_pipe_open) = (stream, writing.try_clone().unwrap());
    once(&mut session, |fs| {
        let mut stream: File = given.get(fs).unwrap();
        let mut into = [0; 100];
        // fread would wait for all hundred.
        assert_eq!(stream.read(&mut into[..2]), Ok(2));
        stream.ungetc(b'H').unwrap();
        assert_eq!(stream.read(&mut into), Ok(1));
        assert_eq!((stream.read(&mut into), &into[..3]), (Ok(3), &b"ree"[..]));
        assert_eq!(stream.read(&mut []), Ok(0));
    });
    drop((writing, _keeps_the_pipe_open));
    once(&mut session, |fs| {
        let mut stream: File = given.get(fs).unwrap();
        assert_eq!(stream.read(&mut [0; 9]), Ok(0));
    });
}

#[test]
fn lanes_share_a_pipe() {
    let (reading, mut writing) = std::io::pipe().unwrap();
    let mut session = small().cpu().unwrap();
    let stream = session.fdopen(OwnedFd::from(reading), "r").unwrap();
    let writer = std::thread::spawn(move || {
        for byte in 0..=255_u8 {
            writing.write_all(&[byte]).unwrap();
        }
    });
    let parts = each(&mut session, 80, |fs, _| {
        let mut stream: File = stream.get(fs).unwrap();
        let (mut into, mut all) = ([0; 7], Vec::new());
        loop {
            match stream.read(&mut into).unwrap() {
                0 => return all,
                count => all.extend_from_slice(&into[..count]),
            }
        }
    });
    writer.join().unwrap();
    let mut all: Vec<u8> = parts.into_iter().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (0..=255).collect::<Vec<u8>>());
}

/// As code does that knows no gpufs.
fn tell(mut to: impl Write<Error = Errno>, thread: u64) {
    writeln!(to, "thread {thread} has {} parts: {:?}", 3, [thread; 3]).unwrap();
}

kernel! {
    /// Every thread writes a line in several parts.
    pub fn tell_all(fs: Fs, log: File) {
        let _ = fs;
        tell(log, global_thread());
    }
}

#[test]
fn a_text_of_several_parts_is_one_unit() {
    let scratch = Scratch::new("embedded-text");
    for width in [1, 32] {
        let mut session = small().cpu_with(CpuOptions { width, ..CpuOptions::default() }).unwrap();
        let log = session.fopen(scratch.path("log"), "w").unwrap();
        session
            .start::<tell_all::Entry>(Grid { blocks: 4, threads: 64 }, tell_all::Arguments { log })
            .unwrap();
        session.synchronize().unwrap();
        session.fclose(log).unwrap();
        let text = String::from_utf8(scratch.read("log")).unwrap();
        let mut lines: Vec<_> = text.lines().map(ToOwned::to_owned).collect();
        lines.sort_unstable();
        let mut expected: Vec<_> = (0..256)
            .map(|thread| format!("thread {thread} has 3 parts: [{thread}, {thread}, {thread}]"))
            .collect();
        expected.sort_unstable();
        assert_eq!(lines, expected);
    }
}

#[test]
fn errors_are_the_kernels() {
    let mut session = small().cpu().unwrap();
    once(&mut session, |fs| {
        let mut full = fs.fopen(c"/dev/full", c"w").unwrap();
        full.write_all(b"x").unwrap();
        assert_eq!(full.flush(), Err(Errno::NOSPC));
        assert_eq!(full.read(&mut [0; 4]), Err(Errno::BADF));
        assert_eq!(full.fclose(), Err(Errno::NOSPC));
        assert_eq!(full.write(b"x"), Err(Errno::BADF));
        assert_eq!(Errno::BADF.kind(), ErrorKind::InvalidInput);
        let descriptor = fs.open(c"/dev/full", O_WRONLY, 0).unwrap();
        let mut io = fs.io(descriptor);
        assert_eq!(io.write(b"x"), Err(Errno::NOSPC));
        assert_eq!(io.write(b""), Ok(0));
        assert_eq!(io.read(&mut [0; 4]), Err(Errno::BADF));
        fs.close(descriptor).unwrap();
        assert_eq!(io.seek(SeekFrom::Start(0)), Err(Errno::BADF));
        assert_eq!(fs.fopen(c"/no/such", c"r").unwrap_err().kind(), ErrorKind::NotFound);
    });
    assert_eq!(Errno::INTR.kind(), ErrorKind::Interrupted);
    assert_eq!(Errno::PIPE.kind(), ErrorKind::BrokenPipe);
    assert_eq!(Errno::NOMEM.kind(), ErrorKind::OutOfMemory);
    assert_eq!(Errno::DQUOT.kind(), ErrorKind::Other);
}

/// Each number's kind is the one that std gives it, where both have such a kind.
#[test]
fn kinds_of_errors_are_those_of_std() {
    let named = |number: i32| format!("{:?}", std::io::Error::from_raw_os_error(number).kind());
    let kind = |number: i32| format!("{:?}", embedded_io::Error::kind(&Errno::from_number(number)));
    // What a caller gave is invalid, which std says of one number alone; that text is none has no kind there.
    let ours =
        [Errno::BADF, Errno::NAMETOOLONG, Errno::OVERFLOW].map(|errno| (errno.number(), "InvalidInput"));
    let ours = ours.into_iter().chain([(Errno::ILSEQ.number(), "InvalidData")]).collect::<HashMap<_, _>>();
    let mut same = 0;
    for number in 1..=133 {
        let (std, kind) = (named(number), kind(number));
        if let Some(expected) = ours.get(&number) {
            assert_eq!(kind, *expected, "{number}");
        } else if kind == "Other" {
            let known =
                ["NotFound", "PermissionDenied", "AlreadyExists", "BrokenPipe", "TimedOut", "OutOfMemory"];
            assert!(!known.contains(&std.as_str()), "{number} is {std}");
        } else {
            assert_eq!(kind, std, "{number}");
            same += 1;
        }
    }
    assert_eq!(same, 17);
}
