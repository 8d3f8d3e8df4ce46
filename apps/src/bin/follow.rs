//! `follow FILE`: a kernel logs while it runs, and the host reads the log as it grows.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use gpufs_apps::cli::{self, Failure, ONE, Options};
use gpufs_apps::kernels::follow::{self, keep_log, open_log};
use gpufs_apps::records::Checker;
use gpufs_core::Errno;
use gpufs_core::word::DeviceWord;
use gpufs_device::kernel::Handoff;
use gpufs_host::{Grid, Session};
use lexopt::prelude::*;

const HELP: &str = "\
Usage: follow [--lines N] [--pause MICROSECONDS] [--flush-every N] FILE

A kernel appends lines to FILE while it runs; the host reads them as they come and checks them: each one whole, each lane's
in order, none missing at the end. An old FILE is replaced.

  --lines N      lines that each lane logs (default 200)
  --pause U      microseconds of work before each line (default 5000)
  --flush-every N
                 a lane flushes after N of its lines; 0, the default: the stream is line buffered
";

/// How often the host looks at the log.
const LOOK: Duration = Duration::from_millis(1);
/// How often it says how far the log is.
const SAY: Duration = Duration::from_millis(250);

/// The log, read as it grows.
struct Reader {
    file: File,
    checker: Checker,
    /// The beginning of a line whose end was not there yet.
    rest: Vec<u8>,
}

impl Reader {
    /// Reads what is new: how many lines.
    fn look(&mut self) -> Result<u64, Failure> {
        let before = self.checker.seen();
        self.file.read_to_end(&mut self.rest)?;
        let end = self.rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        for line in self.rest[..end].split_inclusive(|&byte| byte == b'\n') {
            self.checker.line(&String::from_utf8_lossy(&line[..line.len() - 1]))?;
        }
        self.rest.drain(..end);
        Ok(self.checker.seen() - before)
    }
}

fn main() -> ExitCode {
    cli::main("follow", 1, follow_main)
}

fn follow_main(mut parser: lexopt::Parser) -> Result<ExitCode, Failure> {
    let mut options = Options::new(Grid { blocks: 4, threads: 32 }, Grid { blocks: 33, threads: 32 });
    let (mut lines, mut pause_us, mut flush_every, mut path) = (200, 5_000_u64, 0, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("help") => {
                println!("{HELP}\n{}", cli::HELP);
                return Ok(ExitCode::SUCCESS);
            }
            Long("lines") => lines = cli::number("lines", &mut parser)?,
            Long("pause") => pause_us = cli::number("pause", &mut parser)?,
            Long("flush-every") => flush_every = cli::number("flush-every", &mut parser)?,
            Value(value) if path.is_none() => path = Some(PathBuf::from(value)),
            Long(name) => {
                let name = name.to_owned();
                if !options.take(&name, &mut parser)? {
                    return Err(format!("--{name}: no such option; see follow --help").into());
                }
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let path = path.ok_or("no FILE to log to was named; see follow --help")?;
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(cli::about(&path, cli::reason(&error)));
        }
        _ => {}
    }
    let job = follow::Job {
        path: cli::device_path(&path)?,
        pause_ns: pause_us.saturating_mul(1_000),
        lines,
        flush_every,
        failed: DeviceWord::new(0),
        log: Handoff::default(),
    };
    watch(&options, &path, job)
}

fn watch(options: &Options, path: &Path, job: follow::Job) -> Result<ExitCode, Failure> {
    let lines = job.lines;
    let (mut session, plan) = options.open(|_| Session::builder())?;
    let job = session.place(job)?;
    cli::run::<open_log::Entry>(&mut session, ONE, open_log::Arguments { job: job.handle() })?;
    if let Some(errno) = failure(&session.fetch(&job)?) {
        return Err(cli::about(path, errno.text()));
    }
    let file = File::open(path).map_err(|error| cli::about(path, cli::reason(&error)))?;
    let checker = Checker::new(plan.all_lanes(), lines);
    let mut reader = Reader { file, checker, rest: Vec::new() };

    let started = Instant::now();
    session.start::<keep_log::Entry>(plan.grid, keep_log::Arguments { job: job.handle() })?;
    let (mut first, mut said, mut looks) = (None, started, 0_u64);
    // Ends with the kernel.
    while !session.is_finished() {
        let lines = reader.look()?;
        if lines > 0 {
            first.get_or_insert_with(|| started.elapsed());
            looks += 1;
        }
        if said.elapsed() >= SAY {
            said = Instant::now();
            println!("{:6.2} s: {} lines", started.elapsed().as_secs_f64(), reader.checker.seen());
        }
        std::thread::sleep(LOOK);
    }
    let ran = started.elapsed();
    let during = reader.checker.seen();
    session.synchronize()?;
    options.report(&session, &plan, ran);
    if let Some(errno) = failure(&session.fetch(&job)?) {
        return Err(cli::about(path, errno.text()));
    }
    reader.look()?;
    if !reader.rest.is_empty() {
        return Err(cli::about(path, "the last line has no end"));
    }
    let all = reader.checker.finish()?;
    match first {
        Some(first) => println!(
            "{all} lines, each whole and each lane's in order; the first was seen after {first:.2?}, {during} of them, in {looks} \
             steps, while the kernel ran ({ran:.2?})"
        ),
        None => println!(
            "{all} lines, each whole and each lane's in order; none was seen before the kernel ended ({ran:.2?})"
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// What a call of a lane came to, if it failed.
fn failure(job: &follow::Job) -> Option<Errno> {
    let number = job.failed.peek().cast_signed();
    (number != 0).then(|| Errno::from_number(number))
}
