//! Descriptors against the system calls.
#![expect(unsafe_code, reason = "calls the C library")]

use gpufs_device::file::{self, Whence};
use gpufs_test_kernels::{PIECES_MAX, Verb, piece};

use super::places::{Kind, NAMES, Place, VERY_LONG, content};
use super::streams::Sides;
use super::{Difference, Outcome, Step, Subject};
use crate::random::{Random, text};
use crate::suite::harness::{Answer, Do};

/// Descriptors that a sequence has at once.
const PLACES: usize = 3;

/// One call; `on` is one of the sequence's descriptors, open or not.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "named as the system calls")]
pub enum Call {
    Open {
        on: usize,
        name: usize,
        flags: u32,
    },
    Read {
        on: usize,
        bytes: usize,
    },
    Write {
        on: usize,
        salt: u64,
        bytes: usize,
    },
    Pread {
        on: usize,
        bytes: usize,
        offset: u64,
    },
    Pwrite {
        on: usize,
        salt: u64,
        bytes: usize,
        offset: u64,
    },
    /// `readv`, `preadv`, `preadv2`.
    Scatter {
        on: usize,
        verb: Verb,
        bytes: usize,
        pieces: u32,
        offset: i64,
        flags: u32,
    },
    /// `writev`, `pwritev`, `pwritev2`.
    Gather {
        on: usize,
        verb: Verb,
        salt: u64,
        bytes: usize,
        pieces: u32,
        offset: i64,
        flags: u32,
    },
    Lseek {
        on: usize,
        offset: i64,
        whence: Whence,
    },
    Ftruncate {
        on: usize,
        length: u64,
    },
    Fsync {
        on: usize,
    },
    Close {
        on: usize,
    },
    /// Looks at the content of the file that most calls work on.
    Look,
}

impl System<'_> {
    fn call(&mut self, call: &Call) -> Outcome {
        let mut memory = Vec::new();
        let result = match *call {
            Call::Open { on, name, flags } => self.open(on, name, flags),
            Call::Read { on, bytes } => {
                memory = vec![0xee; bytes];
                self.read(on, &mut memory, None)
            }
            Call::Pread { on, bytes, offset } => {
                memory = vec![0xee; bytes];
                self.read(on, &mut memory, Some(offset))
            }
            Call::Write { on, salt, bytes } => self.write(on, &text(salt, bytes), None),
            Call::Pwrite { on, salt, bytes, offset } => self.write(on, &text(salt, bytes), Some(offset)),
            Call::Scatter { on, verb, bytes, pieces, offset, flags } => {
                memory = vec![0xee; bytes];
                self.vectored(on, verb, &mut memory, pieces, offset, flags)
            }
            Call::Gather { on, verb, salt, bytes, pieces, offset, flags } => {
                self.vectored(on, verb, &mut text(salt, bytes), pieces, offset, flags)
            }
            Call::Lseek { on, offset, whence } => self.lseek(on, offset, whence),
            Call::Ftruncate { on, length } => self.ftruncate(on, length),
            Call::Fsync { on } => self.fsync(on),
            Call::Close { on } => self.close(on),
            Call::Look => {
                let content = content(&self.place.path("a"));
                return Outcome { content, ..Outcome::default() };
            }
        };
        let outcome = result.map_or_else(Outcome::failed, Outcome::of);
        Outcome { bytes: memory, ..outcome }
    }
}

/// The system's side: −1 is a descriptor that is not open.
struct System<'a> {
    place: &'a Place,
    numbers: [i32; PLACES],
}

fn checked(result: i64) -> Result<i64, i32> {
    if result == -1 { Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { Ok(result) }
}

impl System<'_> {
    fn is_open(&self, on: usize) -> bool {
        self.numbers[on] >= 0
    }
    fn open(&mut self, on: usize, name: usize, flags: u32) -> Result<i64, i32> {
        let path = self.place.c_path(NAMES[name].0);
        // SAFETY: a string that ends.
        let number = unsafe { libc::open(path.as_ptr(), flags.cast_signed(), 0o666) };
        self.numbers[on] = number;
        checked(i64::from(number)).map(|_| 0)
    }
    fn read(&mut self, on: usize, into: &mut [u8], offset: Option<u64>) -> Result<i64, i32> {
        let (number, memory, bytes) = (self.numbers[on], into.as_mut_ptr().cast(), into.len());
        // SAFETY: memory of that length.
        let count = unsafe {
            match offset {
                None => libc::read(number, memory, bytes),
                Some(offset) => libc::pread(number, memory, bytes, offset.cast_signed()),
            }
        };
        checked(count as i64)
    }
    fn write(&mut self, on: usize, from: &[u8], offset: Option<u64>) -> Result<i64, i32> {
        let (number, memory, bytes) = (self.numbers[on], from.as_ptr().cast(), from.len());
        // SAFETY: memory of that length.
        let count = unsafe {
            match offset {
                None => libc::write(number, memory, bytes),
                Some(offset) => libc::pwrite(number, memory, bytes, offset.cast_signed()),
            }
        };
        checked(count as i64)
    }
    fn vectored(
        &mut self,
        on: usize,
        verb: Verb,
        mut memory: &mut [u8],
        pieces: u32,
        offset: i64,
        flags: u32,
    ) -> Result<i64, i32> {
        let (number, flags) = (self.numbers[on], flags.cast_signed());
        let mut vectors = Vec::new();
        for index in 0..pieces as usize {
            let (mine, rest) = memory.split_at_mut(piece(memory.len(), index, pieces as usize));
            vectors.push(libc::iovec { iov_base: mine.as_mut_ptr().cast(), iov_len: mine.len() });
            memory = rest;
        }
        let (vectors, pieces) = (vectors.as_ptr(), pieces.cast_signed());
        // SAFETY: memory of these lengths, and as many vectors.
        let count = unsafe {
            match verb {
                Verb::Readv => libc::readv(number, vectors, pieces),
                Verb::Writev => libc::writev(number, vectors, pieces),
                Verb::Preadv => libc::preadv(number, vectors, pieces, offset),
                Verb::Pwritev => libc::pwritev(number, vectors, pieces, offset),
                Verb::Preadv2 => libc::preadv2(number, vectors, pieces, offset, flags),
                _ => libc::pwritev2(number, vectors, pieces, offset, flags),
            }
        };
        checked(count as i64)
    }
    fn lseek(&mut self, on: usize, offset: i64, whence: Whence) -> Result<i64, i32> {
        let whence = match whence {
            Whence::Set => libc::SEEK_SET,
            Whence::Current => libc::SEEK_CUR,
            Whence::End => libc::SEEK_END,
        };
        // SAFETY: no memory is involved.
        checked(unsafe { libc::lseek(self.numbers[on], offset, whence) })
    }
    fn ftruncate(&mut self, on: usize, length: u64) -> Result<i64, i32> {
        // SAFETY: no memory is involved.
        checked(i64::from(unsafe { libc::ftruncate(self.numbers[on], length.cast_signed()) }))
    }
    fn fsync(&mut self, on: usize) -> Result<i64, i32> {
        // SAFETY: no memory is involved.
        checked(i64::from(unsafe { libc::fsync(self.numbers[on]) }))
    }
    fn close(&mut self, on: usize) -> Result<i64, i32> {
        let number = std::mem::replace(&mut self.numbers[on], -1);
        // SAFETY: the descriptor is this side's own, or −1.
        checked(i64::from(unsafe { libc::close(number) }))
    }
}

/// The call on this project's side; the sequence's descriptors are the entries from `on` on.
fn doing(place: &Place, call: &Call, first: u32) -> Do {
    let entry = |on: usize| first + u32::try_from(on).expect("one of a few");
    match *call {
        Call::Open { on, name, flags } => Do::Open(entry(on), place.c_path(NAMES[name].0), flags),
        Call::Read { on, bytes } => Do::Read(entry(on), bytes),
        Call::Pread { on, bytes, offset } => Do::Pread(entry(on), bytes, offset),
        Call::Write { on, salt, bytes } => Do::Write(entry(on), text(salt, bytes)),
        Call::Pwrite { on, salt, bytes, offset } => Do::Pwrite(entry(on), text(salt, bytes), offset),
        Call::Scatter { on, verb, bytes, pieces, offset, flags } => {
            Do::Scatter(entry(on), verb, (bytes, pieces), offset, flags)
        }
        Call::Gather { on, verb, salt, bytes, pieces, offset, flags } => {
            Do::Gather(entry(on), verb, (text(salt, bytes), pieces), offset, flags)
        }
        Call::Lseek { on, offset, whence } => Do::Lseek(entry(on), offset, whence),
        Call::Ftruncate { on, length } => Do::Ftruncate(entry(on), length),
        Call::Fsync { on } => Do::Fsync(entry(on)),
        Call::Close { on } => Do::Close(entry(on)),
        Call::Look => Do::Look(place.c_path("a")),
    }
}

/// What came of it.
fn outcome(call: &Call, answer: &Answer) -> Outcome {
    if *call == Call::Look {
        let content = usize::try_from(answer.value).ok().map(|length| (length, answer.hash));
        return Outcome { content, ..Outcome::default() };
    }
    Outcome { value: answer.value, errno: answer.errno, bytes: answer.bytes.clone(), ..Outcome::default() }
}

/// Descriptors, for [`super::compare`].
#[derive(Clone, Copy, Debug)]
pub struct Descriptors;

impl Subject for Descriptors {
    const NAME: &'static str = "descriptors";
    const ENTRIES: u32 = PLACES as u32;
    type Call = Call;
    type Sequence = Vec<Step<Call>>;
    fn prepare(sides: &Sides, seed: u64, calls: Option<&[Call]>, on: u32) -> (Self::Sequence, Vec<Do>) {
        let random = Random::new(seed);
        let (salt, amount) = (random.bits(), random.below(10_000));
        let steps = if let Some(calls) = calls {
            on_system(sides, (salt, amount), calls)
        } else {
            let mut calls = vec![Call::Open { on: 0, name: 0, flags: file::O_RDWR }];
            for _ in 0..5 + random.below(40) {
                calls.push(propose(&random));
            }
            on_system(sides, (salt, amount), &calls)
        };
        sides.here.reset(salt, amount);
        let mut script: Vec<Do> = steps.iter().map(|step| doing(&sides.here, &step.call, on)).collect();
        // After a difference something may be open.
        script.extend((0..Self::ENTRIES).map(|entry| Do::Abandon(on + entry)));
        (steps, script)
    }
    fn judge(steps: Self::Sequence, answers: &[Answer]) -> Option<Difference<Call>> {
        let differs = |(step, answer): (&Step<Call>, &Answer)| outcome(&step.call, answer) != step.expected;
        let at = steps.iter().zip(answers).position(differs)?;
        let got = outcome(&steps[at].call, &answers[at]);
        Some(Difference { steps: steps[..=at].to_vec(), got })
    }
}

/// The system's answers to the calls that are allowed; in the end all is closed.
fn on_system(sides: &Sides, (salt, amount): (u64, usize), calls: &[Call]) -> Vec<Step<Call>> {
    sides.system.reset(salt, amount);
    let mut system = System { place: &sides.system, numbers: [-1; PLACES] };
    let mut kinds = [Kind::File; PLACES];
    let mut steps = Vec::new();
    for call in calls {
        if allowed(call, &system, &mut kinds) {
            steps.push(Step { call: call.clone(), expected: system.call(call), compared: true });
        }
    }
    for on in (0..PLACES).filter(|on| system.numbers[*on] >= 0).collect::<Vec<_>>() {
        let call = Call::Close { on };
        steps.push(Step { expected: system.call(&call), call, compared: true });
    }
    steps
}

/// Everything is allowed but to forget an open descriptor, and what is said below.
fn allowed(call: &Call, system: &System<'_>, kinds: &mut [Kind; PLACES]) -> bool {
    let is_file = |on: usize| kinds[on] == Kind::File || !system.is_open(on);
    match *call {
        Call::Open { on, name, flags } => {
            // Where flags and path are both wrong, the system call looks at the flags first, and io_uring at the path.
            let both_wrong = matches!(NAMES[name].0, VERY_LONG | "")
                && flags & file::O_CREAT != 0
                && flags & file::O_DIRECTORY != 0;
            let free = !system.is_open(on) && !both_wrong;
            if free {
                kinds[on] = NAMES[name].1;
            }
            free
        }
        // io_uring does not ask a driver or a directory for a transfer of nothing; and it may end a device's transfer after any page,
        // where the system call goes on (the kernel's `read_iter_zero` under `IOCB_NOWAIT`).
        Call::Read { on, bytes } | Call::Write { on, bytes, .. } => {
            is_file(on) || (1..=4096).contains(&bytes)
        }
        Call::Scatter { on, .. } | Call::Gather { on, .. } => is_file(on),
        // A directory's positions are its file system's own; a device's are its driver's.
        Call::Lseek { on, .. }
        | Call::Ftruncate { on, .. }
        | Call::Pread { on, .. }
        | Call::Pwrite { on, .. } => is_file(on),
        _ => true,
    }
}

fn propose(random: &Random) -> Call {
    let on = random.pick(&[0, 0, 0, 1, 1, 2]);
    let bytes = random.pick(&[0, 1, 7, 100, 1000, 4095, 4096, 4097, 9000, 70_000]);
    let offset = random.pick(&[0, 1, 100, 4096, 5000, 20_000]);
    let salt = random.bits();
    match random.below(100) {
        0..20 => Call::Open { on, name: random.below(NAMES.len()), flags: flags(random) },
        20..32 => Call::Read { on, bytes },
        32..44 => Call::Write { on, salt, bytes },
        44..54 => Call::Pread { on, bytes, offset: if random.one_in(20) { u64::MAX - 3 } else { offset } },
        54..59 => {
            let verb = random.pick(&[Verb::Readv, Verb::Preadv, Verb::Preadv2]);
            let (pieces, offset, flags) =
                vectors(random, verb == Verb::Preadv2, &[0, 0, 0, file::RWF_HIPRI, 1 << 20]);
            Call::Scatter { on, verb, bytes, pieces, offset, flags }
        }
        59..64 => {
            let verb = random.pick(&[Verb::Writev, Verb::Pwritev, Verb::Pwritev2]);
            let flags = [0, 0, file::RWF_DSYNC, file::RWF_SYNC, file::RWF_APPEND, file::RWF_APPEND, 1 << 20];
            let (pieces, offset, flags) = vectors(random, verb == Verb::Pwritev2, &flags);
            Call::Gather { on, verb, salt, bytes, pieces, offset, flags }
        }
        64..72 => Call::Pwrite { on, salt, bytes, offset: if random.one_in(20) { u64::MAX } else { offset } },
        72..80 => {
            let offset = offset.cast_signed();
            let whence = random.pick(&[Whence::Set, Whence::Current, Whence::End]);
            let sign = if whence == Whence::Set && !random.one_in(4) { 1 } else { random.pick(&[1, -1]) };
            Call::Lseek { on, offset: sign * offset, whence }
        }
        80..84 => Call::Ftruncate { on, length: if random.one_in(10) { u64::MAX } else { offset } },
        84..87 => Call::Fsync { on },
        87..95 => Call::Look,
        _ => Call::Close { on },
    }
}

/// Pieces, an offset, and flags if the call `takes` them: with those it also takes the position.
fn vectors(random: &Random, takes: bool, flags: &[u32]) -> (u32, i64, u32) {
    let pieces = random.pick(&[0, 1, 1, 2, 3, 3, 5, PIECES_MAX as u32]);
    let mut offset = random.pick(&[0, 1, 100, 4096, 5000, 20_000]);
    if random.one_in(20) {
        offset = -7;
    }
    if takes && random.one_in(2) {
        offset = -1;
    }
    (pieces, offset, if takes { random.pick(flags) } else { 0 })
}

fn flags(random: &Random) -> u32 {
    let mut flags = random.pick(&[file::O_RDONLY, file::O_WRONLY, file::O_RDWR, file::O_RDWR]);
    for (flag, rarity) in [
        (file::O_CREAT, 2),
        (file::O_EXCL, 8),
        (file::O_TRUNC, 6),
        (file::O_APPEND, 4),
        (file::O_NONBLOCK, 20),
        (file::O_DIRECTORY, 20),
        (file::O_NOFOLLOW, 10),
        (file::O_CLOEXEC, 4),
    ] {
        if random.one_in(rarity) {
            flags |= flag;
        }
    }
    flags
}
