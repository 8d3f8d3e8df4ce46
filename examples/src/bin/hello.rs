//! `hello FILE`: thousands of lanes print to the standard output and to one file.

use std::path::PathBuf;
use std::process::ExitCode;

use gpufs_core::Errno;
use gpufs_core::word::DeviceWord;
use gpufs_examples::cli::{self, Failure, ONE, Options};
use gpufs_examples::kernels::Handoff;
use gpufs_examples::kernels::hello::{self, open_greetings, say_hello};
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
    cli::main("hello", 1, hello_main)
}

fn hello_main(mut parser: lexopt::Parser) -> Result<ExitCode, Failure> {
    let mut options = Options::new(Grid { blocks: 16, threads: 256 }, Grid { blocks: 132, threads: 256 });
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
    let (mut session, plan) = options.open(|_| Session::builder())?;
    let (stream, failed) = (Handoff::default(), DeviceWord::new(0));
    let job = session.place(hello::Job { path: cli::device_path(&path)?, lines, failed, stream })?;
    let handle = job.handle();
    cli::run::<open_greetings::Entry>(&mut session, ONE, open_greetings::Arguments { job: handle })?;
    if let Some(errno) = failure(&session.fetch(&job)?) {
        return Err(cli::about(&path, errno.text()));
    }
    let ran = cli::run::<say_hello::Entry>(&mut session, plan.grid, say_hello::Arguments { job: handle })?;
    if let Some(errno) = failure(&session.fetch(&job)?) {
        return Err(format!("a lane could not print: {}", errno.text()).into());
    }
    options.report(&session, &plan, ran);
    if check {
        let text = std::fs::read(&path).map_err(|error| cli::about(&path, cli::reason(&error)))?;
        let records =
            Checker::new(plan.all_lanes(), lines).text(&text).map_err(|wrong| cli::about(&path, wrong))?;
        eprintln!("hello: {}: {records} whole records in order, in {ran:.2?}", cli::show(&path));
    }
    Ok(ExitCode::SUCCESS)
}

/// What a call of a lane came to, if it failed.
fn failure(job: &hello::Job) -> Option<Errno> {
    let number = job.failed.peek().cast_signed();
    (number != 0).then(|| Errno::from_number(number))
}
