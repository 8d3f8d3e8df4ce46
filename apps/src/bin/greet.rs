//! `greet FILE`: thousands of lanes print to the standard output and to one file.

use std::path::PathBuf;
use std::process::ExitCode;

use gpufs_apps::cli::{self, CommandLine, Failure, Given, Options, Program};
use gpufs_apps::kernels::greet::say_hello;
use gpufs_apps::records::Checker;
use gpufs_device::kernel::Handoff;
use gpufs_host::{Grid, Session};

const HELP: &str = "\
Usage: greet [--lines N] [--check] FILE

Thousands of lanes each print a few lines to the standard output and to FILE.

  --lines N      lines that each lane prints to each of the two (default 4)
  --check        read FILE afterwards, and check that no record is torn or missing, and that those of each lane are in order
";

const PROGRAM: Program = Program { name: "greet", help: &[HELP, cli::HELP], trouble: 1 };

/// What the command line says.
struct Task {
    options: Options,
    lines: u32,
    check: bool,
    path: PathBuf,
}

fn main() -> ExitCode {
    PROGRAM.main(command, |task| greet(&task))
}

fn command(line: &mut CommandLine) -> Result<Task, Failure> {
    let mut options = Options::new(Grid { blocks: 16, threads: 256 }, Grid { blocks: 132, threads: 256 });
    let (mut lines, mut check, mut path) = (4, false, None);
    line.read(|given, line| {
        match given {
            Given::Long(name @ "lines") => lines = line.number(name)?,
            Given::Long("check") => check = true,
            Given::Operand(value) if path.is_none() => path = Some(PathBuf::from(value)),
            other => return options.take(&other, line),
        }
        Ok(true)
    })?;
    let path = path.ok_or_else(|| line.see_help("no FILE to print to was named"))?;
    Ok(Task { options, lines, check, path })
}

fn greet(task: &Task) -> Result<ExitCode, Failure> {
    let Task { options, lines, check, path } = task;
    let (mut session, plan) = options.open(|_| Session::builder())?;
    let file = session.fopen(path, "w").map_err(|error| cli::about(path, error.errno().text()))?;
    let failed = session.place(Handoff::default())?;
    let arguments = say_hello::Arguments { file, lines: *lines, failed: failed.handle() };
    let ran = cli::run::<say_hello::Entry>(&mut session, plan.grid, arguments)?;
    if let Some(errno) = session.fetch(&failed)?.get() {
        return Err(
            format!("a lane could not print to {} or the standard output: {errno}", cli::show(path)).into()
        );
    }
    session.fclose(file)?;
    options.report(&session, &plan, ran);
    if *check {
        let text = std::fs::read(path).map_err(|error| cli::about(path, cli::reason(&error)))?;
        let records =
            Checker::new(plan.all_lanes(), *lines).text(&text).map_err(|wrong| cli::about(path, wrong))?;
        eprintln!("greet: {}: {records} whole records in order, in {ran:.2?}", cli::show(path));
    }
    Ok(ExitCode::SUCCESS)
}
