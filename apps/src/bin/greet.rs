//! `greet FILE`: thousands of lanes print to the standard output and to one file.

use std::path::PathBuf;
use std::process::ExitCode;

use gpufs_apps::cli::{self, Failure, Options};
use gpufs_apps::kernels::greet::say_hello;
use gpufs_apps::records::Checker;
use gpufs_device::kernel::Handoff;
use gpufs_host::{Grid, Session};
use lexopt::prelude::*;

const HELP: &str = "\
Usage: greet [--lines N] [--check] FILE

Thousands of lanes each print a few lines to the standard output and to FILE.

  --lines N      lines that each lane prints to each of the two (default 4)
  --check        read FILE afterwards: every record whole, none missing, each lane's in order
";

fn main() -> ExitCode {
    cli::main("greet", 1, greet_main)
}

fn greet_main(mut parser: lexopt::Parser) -> Result<ExitCode, Failure> {
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
                    return Err(format!("--{name}: no such option; see greet --help").into());
                }
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let path = path.ok_or("no FILE to print to was named; see greet --help")?;
    let (mut session, plan) = options.open(|_| Session::builder())?;
    let file = session.fopen(&path, "w").map_err(|error| cli::about(&path, error.errno().text()))?;
    let failed = session.place(Handoff::default())?;
    let arguments = say_hello::Arguments { file, lines, failed: failed.handle() };
    let ran = cli::run::<say_hello::Entry>(&mut session, plan.grid, arguments)?;
    if let Some(errno) = session.fetch(&failed)?.get() {
        return Err(format!("a lane could not print: {errno}").into());
    }
    session.fclose(file)?;
    options.report(&session, &plan, ran);
    if check {
        let text = std::fs::read(&path).map_err(|error| cli::about(&path, cli::reason(&error)))?;
        let records =
            Checker::new(plan.all_lanes(), lines).text(&text).map_err(|wrong| cli::about(&path, wrong))?;
        eprintln!("greet: {}: {records} whole records in order, in {ran:.2?}", cli::show(&path));
    }
    Ok(ExitCode::SUCCESS)
}
