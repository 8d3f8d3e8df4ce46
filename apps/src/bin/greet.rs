//! `greet FILE`: thousands of lanes print to the standard output and to one file.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use gpufs_apps::cli::values::{number, path};
use gpufs_apps::cli::{self, Defaults, Failure, Options, Program};
use gpufs_apps::kernels::greet::say_hello;
use gpufs_apps::records::Checker;
use gpufs_device::kernel::Handoff;
use gpufs_host::{Grid, Session};

const PROGRAM: Program = Program { name: "greet", needs: "no FILE to print to was named", trouble: 1 };
const DEFAULTS: Defaults =
    Defaults::new(Grid { blocks: 16, threads: 256 }, Grid { blocks: 132, threads: 256 });

/// Let thousands of lanes each print a few lines to the standard output and to FILE
#[derive(Debug, Parser)]
struct Task {
    /// Lines that each lane prints to each of the two
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = number::<u32>())]
    lines: u32,
    /// Read FILE afterwards: no record is torn or missing, and those of each lane are in order
    #[arg(long)]
    check: bool,
    /// Where to print: it is replaced
    #[arg(value_name = "FILE", value_parser = path())]
    path: PathBuf,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    PROGRAM.main(|task| greet(&task))
}

fn greet(task: &Task) -> Result<ExitCode, Failure> {
    let Task { options, lines, check, path } = task;
    let (mut session, plan) = options.open(&DEFAULTS, |_| Session::builder())?;
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
