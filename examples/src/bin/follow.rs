//! `follow FILE`: a kernel logs while it runs, and the host reads the log as it grows.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpufs_core::Errno;
use gpufs_core::word::DeviceWord;
use gpufs_device::Fs;
use gpufs_examples::cli::{self, Failure, Options};
use gpufs_examples::kernels::{Handoff, follow};
use gpufs_examples::records::Checker;
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
    cli::run("follow", 1, follow_main)
}

fn follow_main(mut parser: lexopt::Parser) -> Result<ExitCode, Failure> {
    let mut options = Options::new(4, 32);
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
    // The job outlives this function's borrow: the kernel runs beside it.
    let name: &'static std::ffi::CStr = Box::leak(cli::c_path(&path)?.into_boxed_c_str());
    let job = Arc::new(follow::Job {
        path: name,
        lines,
        pause_ns: pause_us.saturating_mul(1_000),
        flush_every,
        log: Handoff::default(),
        failed: DeviceWord::new(0),
    });
    watch(&options, &path, &job)
}

fn watch(options: &Options, path: &Path, job: &Arc<follow::Job<'static>>) -> Result<ExitCode, Failure> {
    let mut session = options.open(Session::builder())?;
    session.run(Grid { blocks: 1, threads: 1 }, |tables| follow::open(Fs::new(tables), job))?;
    if let Some(Err(errno)) = job.log.get() {
        return Err(cli::about(path, errno.text()));
    }
    let file = File::open(path).map_err(|error| cli::about(path, cli::reason(&error)))?;
    let checker = Checker::new(options.all_lanes(), job.lines);
    let mut reader = Reader { file, checker, rest: Vec::new() };

    let started = Instant::now();
    let shared = Arc::clone(job);
    session.launch(options.grid(), move |tables| follow::follow(Fs::new(tables), &shared))?;
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
    options.report(&session);
    let failed = job.failed.peek();
    if failed != 0 {
        return Err(cli::about(path, Errno::from_number(failed.cast_signed()).text()));
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
