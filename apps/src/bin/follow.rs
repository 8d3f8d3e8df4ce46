//! `follow FILE`: a kernel logs while it runs, and the host reads the log as it grows.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use gpufs_apps::cli::values::{number, path};
use gpufs_apps::cli::{self, Defaults, Failure, Options, Program};
use gpufs_apps::kernels::follow::keep_log;
use gpufs_apps::records::Checker;
use gpufs_device::kernel::Handoff;
use gpufs_host::{Grid, Session};

const PROGRAM: Program = Program { name: "follow", needs: "no FILE to log to was named", trouble: 1 };
const DEFAULTS: Defaults = Defaults::new(Grid { blocks: 4, threads: 32 }, Grid { blocks: 33, threads: 32 });

/// Let a kernel append lines to FILE while it runs, and read them as they arrive
#[derive(Debug, Parser)]
#[command(after_help = MORE)]
struct Task {
    /// Lines that each lane logs
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = number::<u32>())]
    lines: u32,
    /// Work before each line
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 5_000, value_parser = number::<u64>())]
    pause: u64,
    /// A lane flushes after N of its lines; 0: the stream is line buffered
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number::<u32>())]
    flush_every: u32,
    /// The log: it is replaced
    #[arg(value_name = "FILE", value_parser = path())]
    path: PathBuf,
    #[command(flatten)]
    options: Options,
}

const MORE: &str = "\
The host checks that no line is torn, that the lines of each lane are in order, and that none is
missing at the end.";

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
    PROGRAM.main(|task| follow(&task))
}

fn follow(task: &Task) -> Result<ExitCode, Failure> {
    let Task { options, path, .. } = task;
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(cli::about(path, cli::reason(&error)));
        }
        _ => {}
    }
    let (mut session, plan) = options.open(&DEFAULTS, |_| Session::builder())?;
    // Appending: the reader never sees a gap.
    let log = session.fopen(path, "a").map_err(|error| cli::about(path, error.errno().text()))?;
    let file = File::open(path).map_err(|error| cli::about(path, cli::reason(&error)))?;
    let checker = Checker::new(plan.all_lanes(), task.lines);
    let mut reader = Reader { file, checker, rest: Vec::new() };
    let failed = session.place(Handoff::default())?;
    let arguments = keep_log::Arguments {
        log,
        pause_ns: task.pause.saturating_mul(1_000),
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
