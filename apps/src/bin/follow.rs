//! `follow FILE`: a kernel logs while it runs, and the host reads the log as it grows.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use gpufs_apps::cli::{self, CommandLine, Failure, Given, Options, Program};
use gpufs_apps::kernels::follow::keep_log;
use gpufs_apps::records::Checker;
use gpufs_device::kernel::Handoff;
use gpufs_host::{Grid, Session};

const HELP: &str = "\
Usage: follow [--lines N] [--pause MICROSECONDS] [--flush-every N] FILE

A kernel appends lines to FILE while it runs. The host reads them as they arrive, and checks that no line is torn, that the lines of each
lane are in order, and that none is missing at the end. An existing FILE is replaced.

  --lines N      lines that each lane logs (default 200)
  --pause MICROSECONDS
                 work before each line (default 5000)
  --flush-every N
                 a lane flushes after N of its lines; 0, the default: the stream is line buffered
";

const PROGRAM: Program = Program { name: "follow", help: &[HELP, cli::HELP], trouble: 1 };

/// What the command line says.
struct Task {
    options: Options,
    lines: u32,
    pause_ns: u64,
    flush_every: u32,
    path: PathBuf,
}

/// How often the host looks at the log.
const LOOK: Duration = Duration::from_millis(1);
/// How often it prints the number of lines.
const SAY: Duration = Duration::from_millis(250);

/// The log, read as it grows.
struct Reader {
    file: File,
    checker: Checker,
    /// The beginning of a line whose end has not arrived yet.
    rest: Vec<u8>,
}

impl Reader {
    /// Reads and checks the lines that are new: how many.
    fn read_new(&mut self) -> Result<u64, Failure> {
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
    PROGRAM.main(command, |task| follow(&task))
}

fn command(line: &mut CommandLine) -> Result<Task, Failure> {
    let mut options = Options::new(Grid { blocks: 4, threads: 32 }, Grid { blocks: 33, threads: 32 });
    let (mut lines, mut pause_us, mut flush_every, mut path) = (200, 5_000_u64, 0, None);
    line.read(|given, line| {
        match given {
            Given::Long(name @ "lines") => lines = line.number(name)?,
            Given::Long(name @ "pause") => pause_us = line.number(name)?,
            Given::Long(name @ "flush-every") => flush_every = line.number(name)?,
            Given::Operand(value) if path.is_none() => path = Some(PathBuf::from(value)),
            other => return options.take(&other, line),
        }
        Ok(true)
    })?;
    let path = path.ok_or_else(|| line.see_help("no FILE to log to was named"))?;
    Ok(Task { options, lines, pause_ns: pause_us.saturating_mul(1_000), flush_every, path })
}

fn follow(task: &Task) -> Result<ExitCode, Failure> {
    let Task { options, path, .. } = task;
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(cli::about(path, cli::reason(&error)));
        }
        _ => {}
    }
    let (mut session, plan) = options.open(|_| Session::builder())?;
    // Appending: the reader never sees a gap.
    let log = session.fopen(path, "a").map_err(|error| cli::about(path, error.errno().text()))?;
    let file = File::open(path).map_err(|error| cli::about(path, cli::reason(&error)))?;
    let checker = Checker::new(plan.all_lanes(), task.lines);
    let mut reader = Reader { file, checker, rest: Vec::new() };
    let failed = session.place(Handoff::default())?;
    let arguments = keep_log::Arguments {
        log,
        pause_ns: task.pause_ns,
        lines: task.lines,
        flush_every: task.flush_every,
        failed: failed.handle(),
    };

    let started = Instant::now();
    session.start::<keep_log::Entry>(plan.grid, arguments)?;
    let (mut first, mut said, mut looks) = (None, started, 0_u64);
    // Ends with the kernel.
    while !session.is_finished() {
        let lines = reader.read_new()?;
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
    session.fclose(log)?;
    options.report(&session, &plan, ran);
    if let Some(errno) = session.fetch(&failed)?.get() {
        return Err(cli::about(path, errno.text()));
    }
    reader.read_new()?;
    if !reader.rest.is_empty() {
        return Err(cli::about(path, "the last line has no newline"));
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
