//! `hello FILE`: thousands of lanes print to the standard output and to one file.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use gpufs_core::Errno;
use gpufs_core::word::DeviceWord;
use gpufs_device::Fs;
use gpufs_examples::cli::{self, Failure, Options};
use gpufs_examples::kernels::{Handoff, hello};
use gpufs_examples::records::Checker;
use gpufs_host::{Grid, Session};
use lexopt::prelude::*;

const HELP: &str = "\
Usage: hello [--lines N] [--check] FILE

Thousands of lanes each print a few lines to the standard output and to FILE.

  --lines N      lines that each lane prints to each of the two (default 4)
  --check        read FILE afterwards: every record whole, none missing, each lane's in order
";

fn main() -> ExitCode {
    cli::run("hello", 1, hello_main)
}

fn hello_main(mut parser: lexopt::Parser) -> Result<ExitCode, Failure> {
    let mut options = Options::new(16, 256);
    let (mut lines, mut check, mut path) = (4, false, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("help") => {
                println!("{HELP}\n{}", cli::HELP);
                return Ok(ExitCode::SUCCESS);
            }
            Long("lines") => lines = cli::number("lines", &mut parser)?,
            Long("check") => check = true,
            Value(value) if path.is_none() => path = Some(PathBuf::from(value)),
            Long(name) => {
                let name = name.to_owned();
                if !options.take(&name, &mut parser)? {
                    return Err(format!("--{name}: no such option; see hello --help").into());
                }
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let path = path.ok_or("no FILE to print to was named; see hello --help")?;
    let mut session = options.open(Session::builder())?;
    let name = cli::c_path(&path)?;
    let job = hello::Job { path: &name, lines, stream: Handoff::default(), failed: DeviceWord::new(0) };
    session.run(Grid { blocks: 1, threads: 1 }, |tables| hello::open(Fs::new(tables), &job))?;
    if let Some(Err(errno)) = job.stream.get() {
        return Err(cli::about(&path, errno.text()));
    }
    let started = Instant::now();
    session.run(options.grid(), |tables| hello::hello(Fs::new(tables), &job))?;
    let elapsed = started.elapsed();
    let failed = job.failed.peek();
    if failed != 0 {
        let errno = Errno::from_number(failed.cast_signed());
        return Err(format!("a lane could not print: {}", errno.text()).into());
    }
    options.report(&session);
    if check {
        let text = std::fs::read(&path).map_err(|error| cli::about(&path, cli::reason(&error)))?;
        let records =
            Checker::new(options.all_lanes(), lines).text(&text).map_err(|wrong| cli::about(&path, wrong))?;
        eprintln!("hello: {}: {records} whole records in order, in {elapsed:.2?}", cli::show(&path));
    }
    Ok(ExitCode::SUCCESS)
}
