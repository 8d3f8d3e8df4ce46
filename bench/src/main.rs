//! `gpufs-bench`: measures gpufs on this machine. Beside each figure stands what else does the same, measured in the same run.
//!
//! | file | what |
//! |---|---|
//! | `options.rs`, `generate.rs` | the command line; its manual page and completions for shells |
//! | `bench.rs` | a run: options, report, and what measurements share |
//! | `stage.rs`, `gpu.rs` | a session with the memory that measurements need; the GPU beside it |
//! | `cpu.rs` | the rivals on the CPU: threads, and plain io_uring |
//! | `one_core.rs` | the rival of a single stream: one core that writes one file |
//! | `sample.rs` | repeating, medians |
//! | `report.rs`, `svg.rs` | the table, JSON, plots |
//! | `progress.rs` | how far a run is |
//! | `cufile.rs` | a rival on the GPU: NVIDIA's cuFile, where it is |
//! | `targets`, `plots.rs` | the project's thirteen targets, and plots over sizes, from the measurements of the others |
//! | the others | one for each subcommand |
//!
//! `xtask/tidy/layers.txt` says which of them may import which.
#![deny(unsafe_code)]

mod bench;
mod cache;
mod cost;
mod cpu;
mod cufile;
mod failure;
mod fgets;
mod fscanf;
mod generate;
mod gpu;
mod iops;
mod latency;
mod one_core;
mod options;
mod overlap;
mod paths;
mod pending;
mod plots;
mod print;
mod progress;
mod read;
mod report;
mod sample;
mod scratch;
mod stage;
mod svg;
mod targets;
mod wake;
mod write;

use std::io::Write as _;
use std::process::ExitCode;

use clap::ValueEnum as _;
use serde_json::json;

use bench::Bench;
use failure::Failure;
use gpu::Gpu;
use options::{Asked, Options, Subcommand};
use progress::Progress;
use report::Report;
use scratch::Scratch;

/// A subcommand, and what it does.
type Part = (Subcommand, fn(&mut Bench) -> Result<(), Failure>);

/// Not parts of `all`, which measures the same and more.
const OTHERS: [Part; 2] = [(Subcommand::Targets, targets::run), (Subcommand::Plots, plots::run)];
const PARTS: [Part; 13] = [
    (Subcommand::Latency, latency::run),
    (Subcommand::Iops, iops::run),
    (Subcommand::Print, print::run),
    (Subcommand::Write, write::run),
    (Subcommand::Read, read::run),
    (Subcommand::Fgets, fgets::run),
    (Subcommand::Fscanf, fscanf::run),
    (Subcommand::Paths, paths::run),
    (Subcommand::Async, pending::run),
    (Subcommand::Overlap, overlap::run),
    (Subcommand::Wake, wake::run),
    (Subcommand::Cache, cache::run),
    (Subcommand::CpuCost, cost::run),
];

/// The exit status where nothing could begin.
const TROUBLE: u8 = 2;

fn main() -> ExitCode {
    let asked = match options::read(std::env::args_os()) {
        Ok(asked) => asked,
        Err(said) => {
            // A reader such as head(1) may have closed the pipe.
            let _ = said.print();
            return if said.use_stderr() { ExitCode::from(TROUBLE) } else { ExitCode::SUCCESS };
        }
    };
    let ended = match asked {
        Asked::ManualPage => print(&generate::manual_page()),
        Asked::Completions(shell) => print(&generate::completions(shell)),
        Asked::Work(subcommand, options) => run(subcommand, *options),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("gpufs-bench: {error}");
            ExitCode::from(TROUBLE)
        }
    }
}

/// Prints what takes no run.
fn print(text: &[u8]) -> Result<bool, Failure> {
    std::io::stdout().write_all(text)?;
    Ok(true)
}

/// Runs the wanted subcommand. Returns whether all of it ended well.
fn run(subcommand: Subcommand, options: Options) -> Result<bool, Failure> {
    if let Some(warning) = options::BUILD {
        eprintln!("gpufs-bench: {warning}");
    }
    let wanted = wanted(subcommand);
    // Removed last, when nothing uses cuFile any more.
    let _settings = settings(&options)?;
    let mut bench = open(options, wanted.len())?;
    let machine = machine(&mut bench)?;
    println!("{}", serde_json::to_string(&machine)?);
    let is_whole = measure(&mut bench, &wanted);
    tell(&bench, &machine)?;
    // The session and cuFile go before the GPU's context.
    bench.stage = None;
    bench.cufile_place = None;
    bench.cufile = None;
    Ok(is_whole)
}

/// What a subcommand consists of.
fn wanted(subcommand: Subcommand) -> Vec<Part> {
    let is_part = |(name, _): &Part| subcommand == *name || subcommand == Subcommand::All;
    let others = OTHERS.into_iter().filter(|(name, _)| subcommand == *name);
    PARTS.into_iter().filter(is_part).chain(others).collect()
}

/// The folder of cuFile's settings and log, on a GPU. Called while the process has one thread.
#[expect(unsafe_code, reason = "leaves settings in the environment")]
fn settings(options: &Options) -> Result<Option<Scratch>, Failure> {
    // SAFETY:
    // - the process has this one thread so far
    options.cuda.then(|| unsafe { cufile::prepare(&options.directory) }).transpose()
}

fn open(options: Options, count: usize) -> Result<Bench, Failure> {
    let gpu = if options.cuda { Some(Gpu::open(options.ordinal)?) } else { None };
    Ok(Bench {
        options,
        report: Report::default(),
        stage: None,
        cufile: None,
        cufile_place: None,
        gpu,
        progress: Progress::of(count),
    })
}

/// What the figures are of.
fn machine(bench: &mut Bench) -> Result<serde_json::Value, Failure> {
    let rings = bench.rings(&[1])[0];
    let first = bench.stage(rings)?.session();
    Ok(json!({
        "device": first.device_name(),
        "mode": first.mode().to_string(),
        "cores": cpu::cores(),
        "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim_end(),
        "quick": bench.options.quick,
        "sample_ms": bench.options.effort.target.as_millis() as u64,
        "commit": option_env!("GPUFS_COMMIT"),
        "files": bench.options.directory.display().to_string(),
    }))
}

/// Measures each part. Returns whether each ended well.
fn measure(bench: &mut Bench, wanted: &[Part]) -> bool {
    let mut is_whole = true;
    for (subcommand, body) in wanted {
        if let Err(error) = body(bench) {
            let name = subcommand.to_possible_value().expect("each has a name");
            let name = name.get_name();
            bench.progress.above(|| eprintln!("gpufs-bench: {name}: {error}"));
            bench.report.skip(name, "the rest of it", format!("failed: {error}"));
            is_whole = false;
            // The next part opens a session of its own.
            bench.stage = None;
        }
        bench.progress.part_done();
    }
    bench.progress.clear();
    is_whole
}

/// Prints the tables, and writes the JSON and the plots that the options ask for.
fn tell(bench: &Bench, machine: &serde_json::Value) -> Result<(), Failure> {
    print!("{}{}", bench.report.table(), bench.report.goals());
    println!("{:.1} s", bench.progress.elapsed().as_secs_f64());
    if let Some(path) = &bench.options.json {
        std::fs::write(path, serde_json::to_string_pretty(&bench.report.json(machine))?)?;
    }
    if let Some(directory) = &bench.options.svg {
        bench.report.plots(directory)?;
    }
    Ok(())
}
