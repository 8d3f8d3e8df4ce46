//! A program whose standard streams somebody has redirected: it makes calls on them through `gpufs` or through the C library, and writes
//! what each came to into a file. `tests/standard_streams.rs` runs it both ways and compares.
//!
//! ```text
//! standard_streams system|sqpoll|enter|threads REPORT random SEED append|other
//! standard_streams system|sqpoll|enter|threads REPORT calls CALL …
//! ```
//!
//! With `LEAK` in the environment it leaves the session to the end of the process.
#![expect(unsafe_code, reason = "calls the C library")]

use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use gpufs_device::stdio::Whence;
use gpufs_device::{Errno, Fs};
use gpufs_host::Session;
use gpufs_host::ring::Mode;
use gpufs_tests::random::{Random, text};
use gpufs_tests::{once, small};

/// One call.
#[derive(Clone, Copy, Debug)]
enum Call {
    Read(usize),
    Getc,
    Gets(usize),
    Ungetc(u8),
    SeekIn(i64, Whence),
    TellIn,
    RewindIn,
    FlushIn,
    ClearIn,
    Write(u64, usize),
    Printf(i32),
    SeekOut(i64, Whence),
    TellOut,
    RewindOut,
    FlushOut,
    /// The kernel ends, and the program itself writes to its descriptor 1. A handle on it is made right again by a seek (POSIX 2.5.1).
    Host,
    /// The same without the seek.
    HostOnly,
    /// The kernel ends, and another begins.
    Next,
}

fn propose(random: &Random, append: bool) -> Vec<Call> {
    let whence = |random: &Random| random.pick(&[Whence::Set, Whence::Current, Whence::End]);
    let offset = |random: &Random| match random.below(12) {
        0 => random.pick(&[i64::MIN, i64::MAX, -1, 0, 1 << 40]),
        1..4 => -(random.below(3000) as i64),
        _ => random.below(9000) as i64,
    };
    let (mut pushed, mut moved, mut miscounted, mut start) = (false, false, false, false);
    let mut sought = true;
    // glibc's exit leaves a stream alone that has never filled its buffer by reading, be it filled by a seek.
    let mut calls = vec![Call::Getc];
    for _ in 0..4 + random.below(36) {
        let call = match random.below(18) {
            0 | 1 => Call::Read(random.pick(&[1, 7, 100, 4096, 6000])),
            2 => Call::Getc,
            3 => Call::Gets(random.pick(&[2, 20, 300])),
            4 => Call::Ungetc(random.bits() as u8),
            5 | 6 => Call::SeekIn(offset(random), whence(random)),
            7 => Call::TellIn,
            8 => random.pick(&[Call::RewindIn, Call::FlushIn, Call::ClearIn]),
            9 | 10 => Call::Write(random.bits(), random.pick(&[1, 30, 500, 4096, 9000])),
            11 => Call::Printf(random.bits() as i32),
            12 => Call::SeekOut(offset(random), whence(random)),
            13 => Call::TellOut,
            14 => random.pick(&[Call::RewindOut, Call::FlushOut]),
            15 => Call::Host,
            _ => Call::Next,
        };
        // What C leaves undefined, and where glibc 2.36 goes wrong (`differential/streams/rules.rs` says how).
        let allowed = match &call {
            Call::Ungetc(_) => !pushed && !start,
            Call::TellIn | Call::FlushIn => !pushed,
            Call::SeekIn(offset, Whence::Current) => !pushed && !miscounted && *offset < 1 << 41,
            Call::SeekIn(offset, _) => !pushed && *offset < 1 << 41,
            // glibc does not know that the stream appends, and counts on from where it stood.
            Call::SeekOut(_, Whence::Current) | Call::TellOut if append && !sought => false,
            // A sum beyond an off_t is not checked there.
            Call::SeekOut(offset, _) => *offset < 1 << 20,
            _ => true,
        };
        if !allowed {
            continue;
        }
        match &call {
            Call::Ungetc(_) => (pushed, miscounted) = (true, miscounted || moved),
            Call::Read(_) | Call::Getc | Call::Gets(_) => (pushed, start) = (false, false),
            Call::SeekIn(..) | Call::RewindIn => (pushed, moved, start) = (false, true, true),
            Call::Write(..) | Call::Printf(_) => sought = false,
            Call::SeekOut(..) | Call::RewindOut | Call::Host => sought = true,
            _ => {}
        }
        calls.push(call);
    }
    if pushed {
        // Where exit leaves a pushed-back byte is not said in one way.
        calls.push(Call::Getc);
    }
    calls
}

fn parse(argument: &str) -> Option<Call> {
    let mut words = argument.split(':');
    let name = words.next()?;
    let mut number = || words.next().and_then(|word| word.parse::<i64>().ok());
    Some(match name {
        "read" => Call::Read(usize::try_from(number()?).ok()?),
        "getc" => Call::Getc,
        "gets" => Call::Gets(usize::try_from(number()?).ok()?),
        "ungetc" => Call::Ungetc(u8::try_from(number()?).ok()?),
        "seekin" => Call::SeekIn(number()?, whence(number()?)?),
        "tellin" => Call::TellIn,
        "rewindin" => Call::RewindIn,
        "flushin" => Call::FlushIn,
        "clearin" => Call::ClearIn,
        "write" => Call::Write(7, usize::try_from(number()?).ok()?),
        "printf" => Call::Printf(i32::try_from(number()?).ok()?),
        "seekout" => Call::SeekOut(number()?, whence(number()?)?),
        "tellout" => Call::TellOut,
        "rewindout" => Call::RewindOut,
        "flushout" => Call::FlushOut,
        "host" => Call::HostOnly,
        "next" => Call::Next,
        _ => return None,
    })
}

fn whence(number: i64) -> Option<Whence> {
    match number {
        0 => Some(Whence::Set),
        1 => Some(Whence::Current),
        2 => Some(Whence::End),
        _ => None,
    }
}

/// A value or an errno, and bytes that were read.
type Came = (Result<i64, i32>, Vec<u8>, (bool, bool));

fn errno(errno: Errno) -> i32 {
    errno.number()
}

/// Makes a call through `gpufs`.
fn here(fs: Fs, call: &Call) -> Came {
    let (input, output) = (fs.stdin(), fs.stdout());
    let mut bytes = Vec::new();
    let result = match *call {
        Call::Read(length) => {
            bytes = vec![0; length];
            let came = input.fread_counted(&mut bytes);
            bytes.truncate(came.bytes);
            came.error.map_or(Ok(came.bytes as i64), Err)
        }
        Call::Getc => input.fgetc().map(|byte| byte.map_or(-1, i64::from)),
        Call::Gets(room) => {
            let mut memory = vec![0; room];
            input.fgets(&mut memory).map(|line| {
                bytes = line.map_or_else(Vec::new, |line| line.to_bytes().to_vec());
                bytes.len() as i64
            })
        }
        Call::Ungetc(byte) => input.ungetc(byte).map(|byte| byte.map_or(-1, i64::from)),
        Call::SeekIn(offset, whence) => input.fseek(offset, whence).map(|()| 0),
        Call::TellIn => input.ftell().map(|at| at as i64),
        Call::RewindIn => {
            input.rewind();
            Ok(0)
        }
        Call::FlushIn => input.fflush().map(|()| 0),
        Call::ClearIn => {
            input.clearerr();
            Ok(0)
        }
        Call::Write(salt, length) => output.fwrite(&text(salt, length)).map(|count| count as i64),
        Call::Printf(number) => {
            gpufs_device::fprintf!(output, c"number %d\n", number).map(|count| count as i64)
        }
        Call::SeekOut(offset, whence) => output.fseek(offset, whence).map(|()| 0),
        Call::TellOut => output.ftell().map(|at| at as i64),
        Call::RewindOut => {
            output.rewind();
            Ok(0)
        }
        Call::FlushOut => output.fflush().map(|()| 0),
        Call::Host | Call::HostOnly | Call::Next => Ok(0),
    };
    (result.map_err(errno), bytes, (input.feof(), input.ferror()))
}

unsafe extern "C" {
    static stdin: *mut libc::FILE;
    static stdout: *mut libc::FILE;
}

/// Makes a call through the C library.
fn system(call: &Call) -> Came {
    let seek = |whence: Whence| match whence {
        Whence::Set => libc::SEEK_SET,
        Whence::Current => libc::SEEK_CUR,
        Whence::End => libc::SEEK_END,
    };
    let mut bytes = Vec::new();
    // SAFETY:
    // - the standard streams are open; every call gets memory of the length that it is told
    let result = unsafe {
        *libc::__errno_location() = 0;
        match *call {
            Call::Read(length) => {
                bytes = vec![0; length];
                let count = libc::fread(bytes.as_mut_ptr().cast(), 1, length, stdin);
                bytes.truncate(count);
                let failed = count < length && *libc::__errno_location() != 0;
                if failed { i64::MIN } else { count as i64 }
            }
            // The end of the file is no error.
            Call::Getc => match libc::fgetc(stdin) {
                -1 if *libc::__errno_location() != 0 => i64::MIN,
                byte => i64::from(byte),
            },
            Call::Gets(room) => {
                let mut memory = vec![0_u8; room];
                let line = libc::fgets(memory.as_mut_ptr().cast(), room as i32, stdin);
                if !line.is_null() {
                    bytes = memory[..libc::strlen(line)].to_vec();
                }
                if line.is_null() && *libc::__errno_location() != 0 { i64::MIN } else { bytes.len() as i64 }
            }
            Call::Ungetc(byte) => i64::from(libc::ungetc(i32::from(byte), stdin)),
            Call::SeekIn(offset, whence) => i64::from(libc::fseeko(stdin, offset, seek(whence))),
            Call::TellIn => libc::ftello(stdin),
            Call::RewindIn => {
                libc::rewind(stdin);
                0
            }
            Call::FlushIn => i64::from(libc::fflush(stdin)),
            Call::ClearIn => {
                libc::clearerr(stdin);
                0
            }
            Call::Write(salt, length) => {
                libc::fwrite(text(salt, length).as_ptr().cast(), 1, length, stdout) as i64
            }
            Call::Printf(number) => i64::from(libc::fprintf(stdout, c"number %d\n".as_ptr(), number)),
            Call::SeekOut(offset, whence) => i64::from(libc::fseeko(stdout, offset, seek(whence))),
            Call::TellOut => libc::ftello(stdout),
            Call::RewindOut => {
                libc::rewind(stdout);
                0
            }
            Call::FlushOut => i64::from(libc::fflush(stdout)),
            Call::Host | Call::HostOnly | Call::Next => i64::from(libc::fflush(stdout)),
        }
    };
    let failed = match call {
        Call::Read(_) | Call::Getc | Call::Gets(_) => result == i64::MIN,
        Call::Ungetc(_) => false,
        _ => result == -1,
    };
    // SAFETY:
    // - as above
    let (errno, flags) =
        unsafe { (*libc::__errno_location(), (libc::feof(stdin) != 0, libc::ferror(stdin) != 0)) };
    (if failed { Err(errno) } else { Ok(result) }, bytes, flags)
}

/// What the program itself does between kernels.
fn between(call: &Call) {
    if matches!(call, Call::Host | Call::HostOnly) {
        let line = b"the program's own\n";
        // SAFETY:
        // - memory of that length
        unsafe { libc::write(1, line.as_ptr().cast(), line.len()) };
    }
}

fn run_here(mode: Mode, calls: &[Call]) -> Vec<Came> {
    let mut session: Session =
        small().mode(mode).deadline(Duration::from_secs(240)).cpu().expect("a session");
    let all = Mutex::new(Vec::new());
    for batch in calls.split_inclusive(|call| matches!(call, Call::Host | Call::HostOnly | Call::Next)) {
        once(&mut session, |fs| {
            let came: Vec<Came> = batch.iter().map(|call| here(fs, call)).collect();
            all.lock().expect("nobody died").extend(came);
        });
        if let Some(last) = batch.last() {
            between(last);
        }
        if let Some(Call::Host) = batch.last() {
            once(&mut session, |fs| fs.stdout().fseek(0, Whence::End).expect("a seek"));
        }
    }
    if std::env::var_os("LEAK").is_some() {
        std::mem::forget(session);
    } else {
        drop(session);
    }
    all.into_inner().expect("nobody died")
}

fn run_system(calls: &[Call]) -> Vec<Came> {
    calls
        .iter()
        .map(|call| {
            let came = system(call);
            between(call);
            if let Call::Host = call {
                // SAFETY:
                // - the stream is open
                unsafe { libc::fseeko(stdout, 0, libc::SEEK_END) };
            }
            came
        })
        .collect()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [side, report, kind, rest @ ..] = &arguments[..] else { return ExitCode::from(2) };
    let calls: Option<Vec<Call>> = match (kind.as_str(), rest) {
        ("random", [seed, append]) => {
            seed.parse().ok().map(|seed| propose(&Random::new(seed), append == "append"))
        }
        ("calls", calls) => calls.iter().map(|call| parse(call)).collect(),
        _ => None,
    };
    let Some(calls) = calls else { return ExitCode::from(2) };
    let came = match side.as_str() {
        "system" => run_system(&calls),
        "sqpoll" => run_here(Mode::Sqpoll, &calls),
        "enter" => run_here(Mode::Enter, &calls),
        "threads" => run_here(Mode::Threads, &calls),
        _ => return ExitCode::from(2),
    };
    let mut text = String::new();
    for (call, (result, bytes, flags)) in calls.iter().zip(came) {
        let _ = writeln!(
            text,
            "{call:?} {result:?} {} bytes {:?}… {flags:?}",
            bytes.len(),
            bytes[..bytes.len().min(24)].escape_ascii().to_string()
        );
    }
    if fs::write(report, text).is_err() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
