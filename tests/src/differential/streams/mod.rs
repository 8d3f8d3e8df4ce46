//! Streams against the C library's stdio.

mod device;
mod rules;
mod system;

use gpufs_device::stdio::{Buffering, Whence};
use gpufs_test_kernels::SCANS;

use super::places::{NAMES, Place};
use super::{Difference, Step, Subject};
use crate::random::Random;
use crate::suite::harness::{Answer, Do};
use device::Plan;
use rules::Rules;
use system::System;

/// One call.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "named as in the C library")]
pub enum Call {
    Open {
        name: usize,
        mode: String,
    },
    Read {
        bytes: usize,
    },
    Write {
        salt: u64,
        bytes: usize,
    },
    Getc,
    Putc(u8),
    Gets {
        room: usize,
    },
    Puts {
        salt: u64,
        bytes: usize,
    },
    Ungetc(u8),
    /// One of the formats of [`gpufs_test_kernels::SCANS`].
    Scanf(usize),
    Printf {
        kind: Printf,
        number: i32,
    },
    Seek(i64, Whence),
    Tell,
    Rewind,
    Flush,
    Setvbuf(Buffering, usize),
    /// Another size on this project's side only, between any other calls: it must change nothing that can be seen.
    SetvbufHere(usize),
    Clearerr,
    /// Up to a byte, into memory with so much to spare on this project's side.
    Getdelim {
        delimiter: u8,
        spare: usize,
    },
    Lock,
    TryLock,
    Unlock,
    /// A flush, and where the descriptor stands then.
    Where,
    /// `open` with these flags, and `fdopen`.
    OpenBy {
        name: usize,
        flags: i32,
        mode: String,
    },
    /// `freopen` on a name, or on the same file.
    Reopen {
        name: Option<usize>,
        mode: String,
    },
    Close,
}

/// The formats that are printed; the conversions themselves have a test of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printf {
    /// Short, without a newline.
    Number,
    /// Short, with a newline.
    Line,
    /// Longer than the memory that a lane formats into.
    Long,
}

/// A string for `fputs`.
fn string(salt: u64, bytes: usize) -> std::ffi::CString {
    let bytes = crate::random::text(salt, bytes).into_iter().map(|byte| byte.max(1)).collect::<Vec<_>>();
    std::ffi::CString::new(bytes).expect("no NUL")
}

/// What an untouched byte of a read's memory is.
const UNTOUCHED: u8 = 0xee;

/// What a sequence begins with.
#[derive(Clone, Copy, Debug)]
struct Start {
    salt: u64,
    content: usize,
}

impl Start {
    fn new(seed: u64) -> (Self, Random) {
        let random = Random::new(seed);
        let start = Self { salt: random.bits(), content: amount(&random) };
        (start, random)
    }
}

/// A number of bytes: mostly small, sometimes around a buffer's size.
fn amount(random: &Random) -> usize {
    match random.below(16) {
        0 => 0,
        1..9 => random.below(40),
        9..12 => random.below(300),
        12 => 4090 + random.below(12),
        13 => random.below(10_000),
        14 => random.pick(&[15, 16, 17, 32, 64, 1024, 4096, 8192]),
        _ if random.one_in(4) => 65_530 + random.below(12),
        _ if random.one_in(4) => random.below(200_000),
        _ => 4096 * (1 + random.below(4)),
    }
}

/// Both sides' directories, for one lane at a time.
#[derive(Clone, Debug)]
pub struct Sides {
    /// This project's.
    pub here: Place,
    /// The system's.
    pub system: Place,
}

/// A sequence: the system's answers to it, and the script that makes the same calls.
#[derive(Debug)]
pub struct Sequence {
    steps: Vec<Step<Call>>,
    plan: Plan,
}

/// The start and the steps that `seed` gives, or those of a given list of calls, made on the system's side; and the script.
fn sequence(sides: &Sides, seed: u64, calls: Option<&[Call]>, on: u32) -> Sequence {
    let (start, random) = Start::new(seed);
    let steps = if let Some(calls) = calls {
        let mut calls = calls.iter();
        on_system(sides, start, |_| calls.next().cloned(), Rules::new(0))
    } else {
        let most = if random.one_in(4) { 120 } else { 40 };
        let count = 3 + random.below(most);
        let mut proposed = 0;
        let rules = Rules::new(random.bits());
        let next = |rules: &Rules| {
            proposed += 1;
            (proposed <= count * 2).then(|| propose(&random, rules))
        };
        on_system(sides, start, next, rules)
    };
    sides.here.reset(start.salt, start.content);
    let plan = device::plan(&sides.here, &steps, on);
    Sequence { steps, plan }
}

/// Streams, for [`super::compare`].
#[derive(Clone, Copy, Debug)]
pub struct Streams;

impl Subject for Streams {
    const NAME: &'static str = "streams";
    const ENTRIES: u32 = 1;
    type Call = Call;
    type Sequence = Sequence;
    fn prepare(sides: &Sides, seed: u64, calls: Option<&[Call]>, on: u32) -> (Sequence, Vec<Do>) {
        let mut sequence = sequence(sides, seed, calls, on);
        let calls = std::mem::take(&mut sequence.plan.calls);
        (sequence, calls)
    }
    fn judge(sequence: Sequence, answers: &[Answer]) -> Option<Difference<Call>> {
        for (at, step) in sequence.steps.iter().enumerate() {
            let got = device::outcome(&sequence.plan, at, answers);
            if step.compared && got != step.expected {
                return Some(Difference { steps: sequence.steps[..=at].to_vec(), got });
            }
        }
        None
    }
}

/// The system's answers to the calls that the rules allow.
fn on_system(
    sides: &Sides,
    start: Start,
    mut next: impl FnMut(&Rules) -> Option<Call>,
    mut rules: Rules,
) -> Vec<Step<Call>> {
    sides.system.reset(start.salt, start.content);
    let mut system = System::new(&sides.system);
    let mut steps = Vec::new();
    let mut ending = false;
    loop {
        let call = match next(&rules) {
            Some(call) if !ending => call,
            _ if rules.is_open() => {
                ending = true;
                Call::Close
            }
            _ => return steps,
        };
        if !rules.allow(&call) {
            continue;
        }
        let expected = system.call(&call);
        let compared = rules.note(&call, &expected);
        steps.push(Step { call, expected, compared });
    }
}

fn propose(random: &Random, rules: &Rules) -> Call {
    if !rules.is_open() {
        let (name, mode) = (random.below(NAMES.len()), mode(random));
        return match random.below(4) {
            0 => {
                // Beyond the fifth letter glibc's `fdopen` does not look.
                let mode: String = mode.chars().take(5).collect();
                Call::OpenBy { name, flags: flags(random, &mode), mode }
            }
            _ => Call::Open { name, mode },
        };
    }
    if rules.is_fresh() && random.one_in(2) {
        return Call::Setvbuf(
            buffering(random),
            random.pick(&[1, 16, 17, 64, 100, 1000, 4096, 10_000, 65_536]),
        );
    }
    match random.below(120) {
        0..12 => Call::Read { bytes: amount(random) },
        12..28 => Call::Write { salt: random.bits(), bytes: amount(random) },
        28..34 => Call::Getc,
        34..37 => Call::Scanf(random.below(SCANS.len())),
        37..40 => Call::Putc(random.pick(b"\n\0\xffxyz")),
        40..46 => Call::Gets { room: random.pick(&[0, 1, 2, 3, 8, 20, 100, 300, 5000, 70_000]) },
        46..50 => Call::Puts { salt: random.bits(), bytes: amount(random) },
        50..56 => Call::Ungetc(random.bits() as u8),
        56..62 => Call::Printf {
            kind: random.pick(&[Printf::Number, Printf::Line, Printf::Long]),
            number: random.bits() as i32,
        },
        62..74 => seek(random),
        74..82 => Call::Tell,
        82..84 => Call::Rewind,
        84..90 => Call::Flush,
        90..93 => Call::SetvbufHere(random.pick(&[0, 1, 16, 64, 1000, 4096, 100_000])),
        93..96 => Call::Clearerr,
        96..104 => {
            Call::Getdelim { delimiter: random.pick(b"\n\n\nx\0\xff"), spare: random.pick(&[0, 1, 50, 3000]) }
        }
        104..108 => Call::Lock,
        108..109 => Call::TryLock,
        109..113 => Call::Unlock,
        113..115 => Call::Where,
        115..117 => {
            let name = if random.one_in(2) { None } else { Some(random.below(NAMES.len())) };
            Call::Reopen { name, mode: mode(random) }
        }
        _ => Call::Close,
    }
}

fn buffering(random: &Random) -> Buffering {
    random.pick(&[Buffering::Full, Buffering::Full, Buffering::Line, Buffering::None])
}

fn seek(random: &Random) -> Call {
    let whence = random.pick(&[Whence::Set, Whence::Current, Whence::End]);
    let near = amount(random) as i64;
    let offset = match random.below(20) {
        0 => 0,
        1 => random.pick(&[i64::MAX, i64::MIN, 1 << 40, -(1 << 40), i64::MIN + 1]),
        2..10 if whence != Whence::Set => -near,
        2 => -near,
        _ => near,
    };
    Call::Seek(offset, whence)
}

/// A mode, most often a valid one: the letters after the first in any order.
fn mode(random: &Random) -> String {
    if random.one_in(40) {
        return random.pick(&["", "+", "b", "x", "R", "+r", "br", "1", " r"]).to_owned();
    }
    let mut mode = random.pick(&["r", "w", "a"]).to_owned();
    // Not `m`: glibc 2.36 then frees a mapping as if it were of its heap.
    let mut letters = vec!['+', '+', 'b', 'e', 't', 'c', 'w', 'r', ' ', 'R', '\n', 'x'];
    if !random.one_in(4) {
        letters.pop();
    }
    // glibc does not look beyond the seventh.
    for _ in 0..random.below(6) {
        mode.push(letters.remove(random.below(letters.len())));
    }
    mode
}

/// Flags of `open` for a stream of this mode, most often such that it can be made.
fn flags(random: &Random, mode: &str) -> i32 {
    let mut flags = match mode.as_bytes() {
        _ if mode.contains('+') => random.pick(&[libc::O_RDWR, libc::O_RDWR, libc::O_RDONLY, libc::O_WRONLY]),
        _ if random.one_in(8) => random.pick(&[libc::O_RDONLY, libc::O_WRONLY]),
        // Other modes' streams glibc lets read, sometimes.
        [b'r', ..] if random.one_in(3) => libc::O_RDWR,
        [b'r', ..] => libc::O_RDONLY,
        _ => libc::O_WRONLY,
    };
    for flag in [libc::O_CREAT, libc::O_TRUNC, libc::O_EXCL] {
        if random.one_in(3) && flag & libc::O_EXCL == 0 || random.one_in(20) {
            flags |= flag;
        }
    }
    // Not `O_APPEND`: with it, glibc's `fdopen` in mode "a" stands where the descriptor does; without, at the end, as here always.
    flags
}

/// Whether a call leaves all that was written in the file.
fn shows_content(call: &Call, buffering: Buffering) -> bool {
    match call {
        Call::Flush | Call::Where => true,
        Call::Putc(byte) => match buffering {
            Buffering::None => true,
            Buffering::Line => *byte == b'\n',
            Buffering::Full => false,
        },
        Call::Write { .. } | Call::Puts { .. } | Call::Printf { .. } => buffering == Buffering::None,
        _ => false,
    }
}
