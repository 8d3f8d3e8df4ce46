//! `grep PATTERN FILE...`: lines that hold a string or a byte of a class, in many files, read by the device.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;

use gpufs_core::Errno;
use gpufs_core::word::DeviceWord;
use gpufs_examples::cli::{self, Failure, Options};
use gpufs_examples::kernels::Parts;
use gpufs_examples::kernels::grep::{self, LONGEST_NEEDLE, Names, Needle, Show};
use gpufs_host::{Grid, Session};
use lexopt::prelude::*;

const HELP: &str = "\
Usage: grep [-c|-l] [-n] [-H|-h] [-F|--class] PATTERN [FILE...] [--files-from LIST]

Prints the lines of the files that hold PATTERN, in the order of the files, as LC_ALL=C grep -F does.

  -c             print for each file how many lines match
  -l             print the names of the files that have a match
  -n             print each line's number
  -H, -h         print file names, or do not (default: where there is more than one file)
  -F             PATTERN is a string (the default)
  --class        PATTERN is a class of bytes, such as [a-z0-9] or [^a]
  --files-from LIST
                 search the files named in LIST too, one on each line; - is the standard input

Exit status: 0 if a line matched, 1 if none did, 2 if there was trouble.
";

/// Entries of the file table, and descriptors, beside those that lanes have open.
const FILES_BESIDE: u32 = 64;

/// What the command line says.
struct Command {
    options: Options,
    show: Show,
    numbered: bool,
    named: Option<bool>,
    is_class: bool,
    pattern: OsString,
    files: Vec<OsString>,
}

fn main() -> ExitCode {
    cli::main("grep", 2, |parser| match command(parser)? {
        Some(command) => search(&command),
        None => Ok(ExitCode::SUCCESS),
    })
}

/// Reads the command line; `None` if it only asks for help.
fn command(mut parser: lexopt::Parser) -> Result<Option<Command>, Failure> {
    // Eight warps: memory for their texts stays near the cores, and there is always one that does not wait.
    // A GPU's lane does one thing after the other and waits for each: there, as many as the files' texts have room for.
    let mut options = Options::new(Grid { blocks: 8, threads: 32 }, Grid { blocks: 132, threads: 32 });
    let (mut counts, mut names) = (false, false);
    let (mut numbered, mut named, mut is_class) = (false, None, false);
    let (mut operands, mut lists) = (Vec::new(), Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Long("help") => {
                println!("{HELP}\n{}", cli::HELP);
                return Ok(None);
            }
            Short('c') => counts = true,
            Short('l') => names = true,
            Short('n') => numbered = true,
            Short('H') => named = Some(true),
            Short('h') => named = Some(false),
            Short('F') => is_class = false,
            Long("class") => is_class = true,
            Long("files-from") => lists.push(parser.value()?),
            Value(value) => operands.push(value),
            Long(name) => {
                let name = name.to_owned();
                if !options.take(&name, &mut parser)? {
                    return Err(format!("--{name}: no such option; see grep --help").into());
                }
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if operands.is_empty() {
        return Err("no PATTERN was given; see grep --help".into());
    }
    let pattern = operands.remove(0);
    let mut files = operands;
    for list in &lists {
        files.extend(read_list(list)?);
    }
    if files.is_empty() && lists.is_empty() {
        return Err("no FILE was named; name some, or a list of them with --files-from".into());
    }
    let show = match (names, counts) {
        (true, _) => Show::Names,
        (_, true) => Show::Counts,
        _ => Show::Lines,
    };
    Ok(Some(Command { options, show, numbered, named, is_class, pattern, files }))
}

/// The names in a list.
fn read_list(list: &OsString) -> Result<Vec<OsString>, Failure> {
    let path = Path::new(list);
    let mut bytes = Vec::new();
    let read = if list == "-" {
        std::io::stdin().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(path).map(|read| bytes = read)
    };
    read.map_err(|error| cli::about(path, cli::reason(&error)))?;
    let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(|line| OsString::from_vec(line.to_vec())).collect())
}

/// What to look for.
fn needle(command: &Command) -> Result<Needle, Failure> {
    let bytes = command.pattern.as_bytes();
    if command.is_class {
        return class(bytes);
    }
    if bytes.contains(&b'\n') {
        return Err("PATTERN holds a newline: one string at a time, please".into());
    }
    Needle::fixed(bytes).ok_or_else(|| format!("PATTERN is longer than {LONGEST_NEEDLE} bytes").into())
}

/// The bytes of a bracket expression, as `grep` reads it in the C locale. Named classes such as `[:alpha:]` are not known.
fn class(pattern: &[u8]) -> Result<Needle, Failure> {
    let usage = || "--class: PATTERN is not a class of bytes, such as [a-z0-9] or [^a]";
    let inside = pattern.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")).ok_or_else(usage)?;
    let (is_negated, mut inside) = match inside {
        [b'^', rest @ ..] => (true, rest),
        all => (false, all),
    };
    if inside.is_empty() || inside.windows(2).any(|pair| matches!(pair, b"[:" | b"[." | b"[=")) {
        return Err(usage().into());
    }
    let mut class = [0; 4];
    let mut position = 0;
    // Ends: each round takes a byte or a range.
    while let [first, rest @ ..] = inside {
        let last = match rest {
            [b'-', last, after @ ..] => {
                inside = after;
                *last
            }
            _ => {
                inside = rest;
                *first
            }
        };
        if (*first == b']' && position > 0) || last < *first {
            return Err(usage().into());
        }
        for byte in *first..=last {
            class[usize::from(byte >> 6)] |= 1_u64 << (byte & 63);
        }
        position += 1;
    }
    if is_negated {
        class = class.map(|bits| !bits);
    }
    // What ends a line is in none.
    class[0] &= !(1 << b'\n' | 1);
    Ok(Needle::class(class))
}

/// Hands the files' names to the device.
fn names(session: &mut Session, files: &[OsString]) -> Result<Names, Failure> {
    let (mut text, mut starts) = (Vec::new(), Vec::new());
    for file in files {
        let start =
            u32::try_from(text.len()).map_err(|_| "the files' names are longer than 4 GiB together")?;
        starts.extend_from_slice(&start.to_ne_bytes());
        text.extend_from_slice(cli::c_path(file)?.as_bytes_with_nul());
    }
    let memory = session.register_buffer(starts.len() + text.len())?;
    #[allow(unsafe_code, reason = "memory that the kernel reads")]
    // SAFETY:
    // - no kernel runs yet
    let into = unsafe { memory.part(0, starts.len() + text.len()) };
    into[..starts.len()].copy_from_slice(&starts);
    into[starts.len()..].copy_from_slice(&text);
    let base = memory.as_ptr() as u64;
    let count = u32::try_from(files.len()).map_err(|_| "there are more than 4 billion files")?;
    #[allow(unsafe_code, reason = "memory that the kernel reads")]
    // SAFETY:
    // - the session's, page-aligned, and written just now for the last time
    Ok(unsafe { Names::new(base + starts.len() as u64, text.len() as u64, base, count) })
}

fn search(command: &Command) -> Result<ExitCode, Failure> {
    let options = &command.options;
    let (mut session, plan) = options.open(|plan| {
        // Each lane has a file open.
        plan.limit_lanes(
            cli::allow_files(plan.all_lanes().saturating_add(FILES_BESIDE)).saturating_sub(FILES_BESIDE),
        );
        Session::builder().files(plan.all_lanes().saturating_add(FILES_BESIDE))
    })?;
    let part_bytes = grep::part_bytes(plan.width);
    let total = part_bytes * plan.warps() as usize;
    let memory = plan.scratch(&mut session, total)?;
    #[allow(unsafe_code, reason = "memory that the kernel uses")]
    // SAFETY:
    // - the session's, and nobody touches it here
    let memory = unsafe { Parts::new(memory, total, part_bytes) };
    let job = grep::Job {
        names: names(&mut session, &command.files)?,
        show: command.show,
        numbered: u32::from(command.numbered),
        named: u32::from(command.named.unwrap_or(command.files.len() > 1)),
        memory,
        next: DeviceWord::new(0),
        turn: DeviceWord::new(0),
        matched: DeviceWord::new(0),
        failed: DeviceWord::new(0),
        output_errno: DeviceWord::new(0),
        needle: needle(command)?,
    };
    let job = session.place(job)?;
    let ran = cli::run::<grep::search::Entry>(
        &mut session,
        plan.grid,
        grep::search::Arguments { job: job.handle() },
    );
    let job = session.fetch(&job);
    let output_errno = job.as_ref().map_or(0, |job| job.output_errno.peek());
    if output_errno != 0 {
        let errno = Errno::from_number(output_errno.cast_signed());
        return Err(format!("write error: {}", errno.text()).into());
    }
    options.report(&session, &plan, ran?);
    let job = job?;
    Ok(match (job.failed.peek(), job.matched.peek()) {
        (0, 0) => ExitCode::from(1),
        (0, _) => ExitCode::SUCCESS,
        _ => ExitCode::from(2),
    })
}
