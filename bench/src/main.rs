//! `gpufs-bench`: what gpufs does on this machine, and beside each figure what else does the same, in the same run.
//!
//! | file | what |
//! |---|---|
//! | `options.rs` | the command line |
//! | `stage.rs`, `gpu.rs` | a session with the memory that measurements need; the GPU beside it |
//! | `cpu.rs` | the rivals on the CPU: threads, and plain io_uring |
//! | `one_core.rs` | the rival of a single stream: one core that writes one file |
//! | `sample.rs` | repeating, medians |
//! | `report.rs`, `svg.rs` | the table, JSON, plots |
//! | `cufile.rs` | a rival on the GPU: NVIDIA's cuFile, where it is |
//! | `targets.rs`, `plots.rs` | the project's thirteen targets, and plots over sizes, from the pieces of the others |
//! | the others | one for each subcommand |
#![deny(unsafe_code)]

mod cost;
mod cpu;
mod cufile;
mod fgets;
mod gpu;
mod iops;
mod latency;
mod one_core;
mod options;
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

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;

use cufile::CuFile;
use gpu::Gpu;
use options::Options;
use report::{Figure, Place, Report, Role};
use sample::{Effort, Named, Spread};
use stage::Stage;

/// Anything that ends a measurement; its text is the message.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// A run of the benchmark.
struct Bench {
    options: Options,
    report: Report,
    stage: Option<Stage>,
    /// What came of opening it, once it was wanted.
    cufile: Option<Result<CuFile, String>>,
    /// The file that was last asked for, and what it takes instead, or why it takes none.
    cufile_place: Option<(PathBuf, Result<cufile::Place, String>)>,
    gpu: Option<Gpu>,
    progress: Progress,
}

/// A subcommand: its name, and what it does.
type Subcommand = (&'static str, fn(&mut Bench) -> Result<(), Failure>);

/// Not parts of `all`, which measures the same and more.
const OTHERS: [Subcommand; 2] = [(targets::NAME, targets::run), (plots::NAME, plots::run)];
const SUBCOMMANDS: [Subcommand; 7] = [
    ("latency", latency::run),
    ("iops", iops::run),
    ("print", print::run),
    ("write", write::run),
    ("read", read::run),
    ("fgets", fgets::run),
    ("cpu-cost", cost::run),
];

impl Bench {
    /// The session with that many rings: the one before, if it has as many and blocks of the size that the options say, else a new one in
    /// its place.
    fn stage(&mut self, rings: u32) -> Result<&mut Stage, Failure> {
        let wanted = (rings, self.options.stream_buffer);
        if self.stage.as_ref().is_none_or(|stage| (stage.rings, stage.stream_buffer) != wanted) {
            self.stage = None;
            self.stage = Some(Stage::open(&self.options, self.gpu.as_ref(), rings)?);
        }
        Ok(self.stage.as_mut().expect("opened above"))
    }
    /// Measures the best of several ways on so many rings, which one short sample of each shows. Those samples, and the best's.
    fn best<W: Copy>(
        &mut self,
        rings: u32,
        effort: Effort,
        ways: &[(String, W)],
        mut measure: impl FnMut(&mut Stage, Effort, W) -> Result<Spread, Failure>,
    ) -> Result<(Vec<Named>, Named), Failure> {
        let short = Effort { samples: 1, target: effort.target / 4 };
        let mut tried: Vec<Named> = Vec::new();
        for (name, way) in ways {
            tried.push((name.clone(), measure(self.stage(rings)?, short, *way)?));
        }
        let rate = |index: &usize| tried[*index].1.median();
        let best = (0..tried.len()).max_by(|one, other| rate(one).total_cmp(&rate(other)));
        let (name, way) = &ways[best.ok_or("there is no way to do it")?];
        let measured = measure(self.stage(rings)?, effort, *way)?;
        Ok((tried, (name.clone(), measured)))
    }
    /// Waits until the session, if one is open, leaves the cores to a rival.
    fn quiet(&self) {
        if let Some(stage) = &self.stage {
            stage.rest();
        }
    }
    /// cuFile, and the GPU whose context is then the calling thread's; or why there is none.
    fn cufile(&mut self) -> Result<(&CuFile, &Gpu), String> {
        let gpu = self.gpu.as_ref().ok_or("needs a GPU")?;
        let chosen = self.options.cufile.as_deref();
        let opened = self.cufile.get_or_insert_with(|| {
            gpu.bind().and_then(|()| CuFile::open(chosen)).map_err(|error| error.to_string())
        });
        opened.as_ref().map(|library| (library, gpu)).map_err(Clone::clone)
    }
    /// The same, with the file that it takes for the one at `path`, of which `span` bytes are read.
    fn cufile_place(&mut self, path: &Path, span: u64) -> Result<(&CuFile, &Gpu, &cufile::Place), String> {
        self.cufile()?;
        let (Some(Ok(library)), Some(gpu)) = (&self.cufile, &self.gpu) else {
            unreachable!("it was opened above");
        };
        let known = self.cufile_place.take().filter(|(asked, _)| asked == path);
        let found = known.unwrap_or_else(|| (path.to_owned(), cufile::Place::find(library, gpu, path, span)));
        let (_, place) = self.cufile_place.insert(found);
        place.as_ref().map(|place| (library, gpu, place)).map_err(|reason| reason.clone())
    }
    /// The numbers of rings to try.
    fn rings(&self, default: &[u32]) -> Vec<u32> {
        let cores = u32::try_from(cpu::cores()).unwrap_or(u32::MAX);
        self.options
            .rings
            .clone()
            .unwrap_or_else(|| default.iter().copied().filter(|&rings| rings <= cores).collect())
    }
    /// Rings where nothing says how many: half the cores', up to 8.
    fn most_rings(&self) -> u32 {
        let half = u32::try_from(cpu::cores() / 2).unwrap_or(u32::MAX).max(1);
        let default: Vec<u32> = [8, 4, 2, 1].into_iter().filter(|rings| *rings <= half).collect();
        self.rings(&default)[0]
    }
    /// The numbers of warps to try: by default four for each multiprocessor, on a CPU eight.
    fn warps(&self) -> Vec<u32> {
        let default = self.gpu.as_ref().map_or(8, |gpu| 4 * gpu.multiprocessors);
        self.options.warps.clone().unwrap_or_else(|| vec![default])
    }
    /// Says what is being measured, while it is.
    fn step(&mut self, what: &str) {
        self.progress.step(what);
    }
    #[allow(clippy::too_many_arguments, reason = "the fields of a figure")]
    fn figure(
        &mut self,
        benchmark: &'static str,
        case: &str,
        name: &str,
        role: Role,
        unit: &'static str,
        spread: Spread,
        place: Option<Place>,
    ) {
        let (case, name) = (case.to_owned(), name.to_owned());
        self.report.add(Figure { benchmark, case, name, role, unit, spread, place });
    }
}

/// A line on the terminal that says how far things are.
struct Progress {
    shown: bool,
    started: Instant,
    /// Subcommands done and in all.
    done: (usize, usize),
}

impl Progress {
    const WIDTH: usize = 20;

    fn step(&self, what: &str) {
        if self.shown {
            let filled = Self::WIDTH * self.done.0 / self.done.1.max(1);
            let seconds = self.started.elapsed().as_secs();
            let bar = format!("{}{}", "█".repeat(filled), "░".repeat(Self::WIDTH - filled));
            eprint!("\r\x1b[K{bar} {seconds:>3} s  {what}");
            let _ = std::io::stderr().flush();
        }
    }
    fn clear(&self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

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

/// Runs the subcommands that are wanted; whether each ended well.
#[allow(unsafe_code, reason = "leaves settings in the environment")]
fn run() -> Result<bool, Failure> {
    let Some(options) = Options::read()? else {
        print!("{}", options::HELP);
        if let Some(warning) = options::BUILD {
            println!("\n{warning}");
        }
        return Ok(true);
    };
    let wanted: Vec<Subcommand> = SUBCOMMANDS
        .into_iter()
        .filter(|(name, _)| options.subcommand == *name || options.subcommand == "all")
        .chain(OTHERS.into_iter().filter(|(name, _)| options.subcommand == *name))
        .collect();
    if let Some(warning) = options::BUILD {
        eprintln!("gpufs-bench: {warning}");
    }
    if wanted.is_empty() {
        return Err(format!("there is no subcommand '{}'; see gpufs-bench --help", options.subcommand).into());
    }
    // SAFETY:
    // - the process has this one thread so far
    let settings = options.cuda.then(|| unsafe { cufile::prepare(&options.directory) }).transpose()?;
    let gpu = if options.cuda { Some(Gpu::open(options.ordinal)?) } else { None };
    let progress =
        Progress { shown: std::io::stderr().is_terminal(), started: Instant::now(), done: (0, wanted.len()) };
    let mut bench = Bench {
        options,
        report: Report::default(),
        stage: None,
        cufile: None,
        cufile_place: None,
        gpu,
        progress,
    };
    let rings = bench.rings(&[1])[0];
    let first = bench.stage(rings)?.session();
    let machine = json!({
        "device": first.device_name(),
        "mode": first.mode().to_string(),
        "cores": cpu::cores(),
        "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim_end(),
        "quick": bench.options.quick,
        "sample_ms": bench.options.effort.target.as_millis() as u64,
        "commit": option_env!("GPUFS_COMMIT"),
        "files": bench.options.directory.display().to_string(),
    });
    println!("{}", serde_json::to_string(&machine)?);
    let mut failed = false;
    for (number, (name, body)) in wanted.iter().enumerate() {
        bench.progress.done.0 = number;
        let outcome = body(&mut bench);
        bench.progress.clear();
        if let Err(error) = outcome {
            eprintln!("gpufs-bench: {name}: {error}");
            bench.report.skip(name, "the rest of it", format!("failed: {error}"));
            failed = true;
            // Whatever the session is left with.
            bench.stage = None;
        }
    }
    print!("{}{}", bench.report.table(), bench.report.goals());
    println!("{:.1} s", bench.progress.started.elapsed().as_secs_f64());
    if let Some(path) = &bench.options.json {
        std::fs::write(path, serde_json::to_string_pretty(&bench.report.json(&machine))?)?;
    }
    if let Some(directory) = &bench.options.svg {
        bench.report.plots(directory)?;
    }
    // Both go before the GPU's context.
    bench.stage = None;
    bench.cufile_place = None;
    bench.cufile = None;
    drop(settings);
    Ok(!failed)
}
