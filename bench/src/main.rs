//! `gpufs-bench`: measures gpufs on this machine. Beside each figure stands what else does the same, measured in the same run.
//!
//! | file | what |
//! |---|---|
//! | `options.rs` | the command line |
//! | `bench.rs` | a run: options, report, and what measurements share |
//! | `stage.rs`, `gpu.rs` | a session with the memory that measurements need; the GPU beside it |
//! | `cpu.rs` | the rivals on the CPU: threads, and plain io_uring |
//! | `one_core.rs` | the rival of a single stream: one core that writes one file |
//! | `sample.rs` | repeating, medians |
//! | `report.rs`, `svg.rs` | the table, JSON, plots |
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
mod read;
mod report;
mod sample;
mod scratch;
mod stage;
mod svg;
mod targets;
mod write;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;

use bench::{Bench, Progress};
use failure::Failure;
use gpu::Gpu;
use options::{Asked, Options};
use report::Report;
use scratch::Scratch;

/// A subcommand: its name, and what it does.
type Subcommand = (&'static str, fn(&mut Bench) -> Result<(), Failure>);

/// Not parts of `all`, which measures the same and more.
const OTHERS: [Subcommand; 2] = [(targets::NAME, targets::run), (plots::NAME, plots::run)];
const SUBCOMMANDS: [Subcommand; 12] = [
    ("latency", latency::run),
    ("iops", iops::run),
    ("print", print::run),
    ("write", write::run),
    ("read", read::run),
    ("fgets", fgets::run),
    ("fscanf", fscanf::run),
    ("paths", paths::run),
    ("async", pending::run),
    ("overlap", overlap::run),
    ("cache", cache::run),
    ("cpu-cost", cost::run),
];

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("gpufs-bench: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the wanted subcommands. Returns whether each ended well.
fn run() -> Result<bool, Failure> {
    let options = match Options::read().map_err(|error| format!("{error}; see gpufs-bench --help"))? {
        Asked::Work(options) => *options,
        Asked::Version => {
            println!("gpufs-bench (gpufs) {}", env!("CARGO_PKG_VERSION"));
            return Ok(true);
        }
        Asked::Help => {
            print!("{}", options::HELP);
            if let Some(warning) = options::BUILD {
                println!("\n{warning}");
            }
            return Ok(true);
        }
    };
    if let Some(warning) = options::BUILD {
        eprintln!("gpufs-bench: {warning}");
    }
    let wanted = wanted(&options)?;
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

/// The subcommands that the options name.
fn wanted(options: &Options) -> Result<Vec<Subcommand>, Failure> {
    let is_named = |name: &str| options.subcommand == name;
    let wanted: Vec<Subcommand> = SUBCOMMANDS
        .into_iter()
        .filter(|(name, _)| is_named(name) || is_named("all"))
        .chain(OTHERS.into_iter().filter(|(name, _)| is_named(name)))
        .collect();
    if wanted.is_empty() {
        return Err(format!("there is no subcommand '{}'; see gpufs-bench --help", options.subcommand).into());
    }
    Ok(wanted)
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
    let progress =
        Progress { shown: std::io::stderr().is_terminal(), started: Instant::now(), done: (0, count) };
    Ok(Bench {
        options,
        report: Report::default(),
        stage: None,
        cufile: None,
        cufile_place: None,
        gpu,
        progress,
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

/// Runs each subcommand. Returns whether each ended well.
fn measure(bench: &mut Bench, wanted: &[Subcommand]) -> bool {
    let mut is_whole = true;
    for (number, (name, body)) in wanted.iter().enumerate() {
        bench.progress.done.0 = number;
        let outcome = body(bench);
        bench.progress.clear();
        if let Err(error) = outcome {
            eprintln!("gpufs-bench: {name}: {error}");
            bench.report.skip(name, "the rest of it", format!("failed: {error}"));
            is_whole = false;
            // The next subcommand opens a session of its own.
            bench.stage = None;
        }
    }
    is_whole
}

/// Prints the tables, and writes the JSON and the plots that the options ask for.
fn tell(bench: &Bench, machine: &serde_json::Value) -> Result<(), Failure> {
    print!("{}{}", bench.report.table(), bench.report.goals());
    println!("{:.1} s", bench.progress.started.elapsed().as_secs_f64());
    if let Some(path) = &bench.options.json {
        std::fs::write(path, serde_json::to_string_pretty(&bench.report.json(machine))?)?;
    }
    if let Some(directory) = &bench.options.svg {
        bench.report.plots(directory)?;
    }
    Ok(())
}
