//! `suite [OPTION VALUE] …`: the whole-stack tests, on CPU lanes or on a GPU. Prints a line for each case as it ends, and a summary.
//!
//! | option | value |
//! |---|---|
//! | `--device` | `cpu` or `cuda`; without it, `cpu` |
//! | `--program` | for `cuda`: `tests/kernels`, as PTX or as `ptxas` assembled it |
//! | `--ordinal` | for `cuda`: which GPU, from 0 |
//! | `--filter` | only cases whose name contains this |
//! | `--scale` | how much more than usual to do |
//! | `--limit` | seconds after which a case that has not ended is killed; without it, 300, and 1,200 for those of a GPU's size |
//! | `--list` | none: prints the names and does nothing |
//!
//! Cases run in child processes: a kernel that waits for what never comes can only be killed, and one that traps ends its process's use of
//! the GPU. A group's cases share a child until one fails; the others go on in a new one.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::panic::AssertUnwindSafe;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use gpufs_host::CpuOptions;
use gpufs_tests::suite::{Bench, CASES, CPU_ONLY, Case, Device, Needs, Outcome, cases};

/// What lines of a child that are meant for its parent begin with.
const MARK: &str = "@suite";
/// Lines of a failed case's output that are shown.
const SHOWN: usize = 60;

/// The command line.
struct Options {
    cuda: bool,
    program: Option<String>,
    ordinal: u32,
    filter: String,
    scale: u32,
    limit: Option<u64>,
    list: bool,
    /// Hidden: the cases that a child runs, or the inner program.
    run: Vec<String>,
    inner: Option<String>,
}

impl Options {
    fn parse() -> Result<Self, Box<dyn Error>> {
        let mut options = Self {
            cuda: false,
            program: None,
            ordinal: 0,
            filter: String::new(),
            scale: 1,
            limit: None,
            list: false,
            run: Vec::new(),
            inner: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(option) = arguments.next() {
            if option == "--list" {
                options.list = true;
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{option} wants a value"))?;
            match option.as_str() {
                "--device" => {
                    options.cuda = match value.as_str() {
                        "cpu" => false,
                        "cuda" => true,
                        _ => return Err("--device: cpu or cuda".into()),
                    }
                }
                "--program" => options.program = Some(value),
                "--ordinal" => options.ordinal = value.parse()?,
                "--filter" => options.filter = value,
                "--scale" => options.scale = value.parse::<u32>()?.max(1),
                "--limit" => options.limit = Some(value.parse()?),
                "--run" => options.run = value.split(',').map(str::to_owned).collect(),
                "--inner" => options.inner = Some(value),
                other => return Err(format!("there is no option {other}").into()),
            }
        }
        if options.cuda && options.program.is_none() {
            return Err("--device cuda wants --program, PTX of tests/kernels".into());
        }
        Ok(options)
    }

    /// What makes a child use the same device, the program's path first.
    fn program(&self) -> Result<Vec<String>, Box<dyn Error>> {
        let path = std::env::current_exe()?.into_os_string().into_string().map_err(|_| "a path in UTF-8")?;
        let mut all = vec![path, "--device".into(), if self.cuda { "cuda" } else { "cpu" }.into()];
        all.extend(self.program.iter().flat_map(|program| ["--program".into(), program.clone()]));
        all.extend(["--ordinal".into(), self.ordinal.to_string()]);
        all.extend(["--scale".into(), self.scale.to_string()]);
        Ok(all)
    }

    fn bench(&self) -> Result<Bench, Box<dyn Error>> {
        let device = match &self.program {
            Some(path) if self.cuda => {
                let program = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
                Device::Cuda { ordinal: self.ordinal, program: program.into() }
            }
            _ => Device::Cpu(CpuOptions::default()),
        };
        Ok(Bench { device, scale: self.scale, program: self.program()? })
    }
}

fn main() -> ExitCode {
    match Options::parse().and_then(|options| start(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("suite: {error}");
            ExitCode::from(2)
        }
    }
}

fn start(options: &Options) -> Result<bool, Box<dyn Error>> {
    if let Some(name) = &options.inner {
        let inner = cases::INNER.iter().find(|(known, _)| known == name);
        let (_, run) = inner.ok_or_else(|| format!("there is no inner program {name}"))?;
        run(&options.bench()?);
        return Ok(true);
    }
    if !options.run.is_empty() {
        return run_here(&options.bench()?, &options.run);
    }
    let chosen: Vec<&Case> = CASES.iter().filter(|case| case.name.contains(&options.filter)).collect();
    if options.list {
        chosen.iter().for_each(|case| println!("{:<70} {:?}", case.name, case.needs));
        CPU_ONLY.iter().for_each(|(name, why)| println!("{name:<70} CPU lanes, cargo test: {why}"));
        return Ok(true);
    }
    run_all(options, &chosen)
}

/// Runs cases in this process, up to the first that fails.
fn run_here(bench: &Bench, names: &[String]) -> Result<bool, Box<dyn Error>> {
    for name in names {
        let case = CASES.iter().find(|case| case.name == name);
        let case = case.ok_or_else(|| format!("there is no case {name}"))?;
        println!("{MARK} begin {name}");
        std::io::stdout().flush()?;
        match std::panic::catch_unwind(AssertUnwindSafe(|| case.try_on(bench))) {
            Ok(Outcome::Passed) => println!("{MARK} passed {name}"),
            Ok(Outcome::Skipped(reason)) => println!("{MARK} SKIP {name}: {reason}"),
            Err(_) => {
                println!("{MARK} failed {name}");
                std::io::stdout().flush()?;
                // At once: what the failure left of the device is not worth a tidy end.
                std::process::exit(1);
            }
        }
        std::io::stdout().flush()?;
    }
    Ok(true)
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: Vec<&'static str>,
    skipped: Vec<&'static str>,
    /// Parts of cases, as they said.
    parts: Vec<String>,
}

fn run_all(options: &Options, chosen: &[&'static Case]) -> Result<bool, Box<dyn Error>> {
    let started = Instant::now();
    let mut tally = Tally::default();
    let mut rest = chosen;
    while let Some(first) = rest.first() {
        let together = |case: &&Case| !first.is_alone() && !case.is_alone() && case.group() == first.group();
        let count = rest.iter().take_while(|case| together(case)).count().max(1);
        let (group, others) = rest.split_at(count);
        rest = others;
        let mut left = group;
        while !left.is_empty() {
            let done = run_child(options, left, &mut tally)?;
            left = &left[done..];
        }
    }
    let names =
        |names: &[&str]| if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    tally.parts.iter().for_each(|part| println!("part of a case: {part}"));
    println!(
        "{} passed, {} failed{}, {} skipped{}, in {:.0?}",
        tally.passed,
        tally.failed.len(),
        names(&tally.failed),
        tally.skipped.len(),
        names(&tally.skipped),
        started.elapsed()
    );
    Ok(tally.failed.is_empty())
}

/// A child's lines, of both its outputs.
fn lines_of(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    let outputs: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|output| Box::new(output) as Box<dyn Read + Send>),
        child.stderr.take().map(|output| Box::new(output) as Box<dyn Read + Send>),
    ];
    for output in outputs.into_iter().flatten() {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

/// Runs cases in one child until one fails; how many are done with.
fn run_child(options: &Options, group: &[&'static Case], tally: &mut Tally) -> Result<usize, Box<dyn Error>> {
    let program = options.program()?;
    let names: Vec<&str> = group.iter().map(|case| case.name).collect();
    let mut child = Command::new(&program[0])
        .args(&program[1..])
        .args(["--run", &names.join(",")])
        // A message says enough.
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let lines = lines_of(&mut child);
    let mut done = 0;
    let mut begun = Instant::now();
    let mut said: Vec<String> = Vec::new();
    while done < group.len() {
        let case = group[done];
        let usual = if matches!(case.needs, Needs::gpu | Needs::gpu_alone) { 1200 } else { 300 };
        let limit = Duration::from_secs(options.limit.unwrap_or(usual));
        let line = lines.recv_timeout((begun + limit).saturating_duration_since(Instant::now()));
        let seconds = begun.elapsed().as_secs_f64();
        let why = match line {
            Ok(line) => {
                let Some(mark) = line.strip_prefix(MARK) else {
                    if let Some(part) = line.trim_start().strip_prefix("SKIP ") {
                        tally.parts.push(part.to_owned());
                    }
                    said.push(line);
                    continue;
                };
                let (verb, rest) = mark.trim_start().split_once(' ').unwrap_or((mark, ""));
                match verb {
                    "begin" => {
                        begun = Instant::now();
                        said.clear();
                        continue;
                    }
                    "passed" => {
                        println!("ok     {} {seconds:.1} s", case.name);
                        tally.passed += 1;
                        done += 1;
                        begun = Instant::now();
                        continue;
                    }
                    "SKIP" => {
                        println!("SKIP   {rest}, {seconds:.1} s");
                        tally.skipped.push(case.name);
                        done += 1;
                        begun = Instant::now();
                        continue;
                    }
                    _ => "it failed".to_owned(),
                }
            }
            Err(RecvTimeoutError::Timeout) => format!("killed after {limit:?}"),
            Err(RecvTimeoutError::Disconnected) => "its process ended".to_owned(),
        };
        // It may hang where it ends, too.
        let ended = Instant::now() + Duration::from_secs(5);
        while child.try_wait()?.is_none() && Instant::now() < ended && !why.starts_with("killed") {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let status = child.wait()?;
        while let Ok(line) = lines.recv_timeout(Duration::from_millis(100)) {
            said.push(line);
        }
        println!("FAILED {} {seconds:.1} s: {why}, {status}", case.name);
        said.iter().rev().take(SHOWN).rev().for_each(|line| println!("    {line}"));
        tally.failed.push(case.name);
        return Ok(done + 1);
    }
    // All said that they passed; its end is worth nothing more.
    let ended = Instant::now() + Duration::from_secs(100);
    while child.try_wait()?.is_none() && Instant::now() < ended {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    child.wait()?;
    Ok(done)
}
