//! `experts make|run FILE`: a stack of mixture-of-experts layers, whose router decides on the device which weights it needs next.

mod slots;
mod stage;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use gpufs_apps::cli::{self, CommandLine, Failure, Given, Options, Program};
use gpufs_apps::experts::{Stack, check, make};
use gpufs_apps::kernels::experts::{Shape, Tokens};
use gpufs_core::cache::WAYS;
use gpufs_host::Grid;

use stage::{Stage, Wants, Way};

const HELP: &str = "\
Usage: experts make [--layers N] [--experts N] [--chosen N] [--hidden N] [--expert BYTES] [--weights-seed S] FILE
       experts run  [--tokens N] [--hit-rate P | --cache BYTES] [--page BYTES] [--ways W] [--rounds N] [--check] FILE

A stack of mixture-of-experts layers: a router chooses some experts of a layer for each token, whose weights alone are needed. Takes tokens through
the stack in up to three ways, compares the results, and prints the time that a layer took.

  cached    one kernel does it all; it looks at the file through a cache of pages, and the host knows nothing
  host      the numbers of the chosen experts go back to the host, which reads those that the device does not have, and copies them there
  resident  one kernel does it all; all weights are in the device's memory

make: a safetensors file of made-up weights of 8 bits
  --layers N     (default 4)
  --experts N    of a layer (default 16)
  --chosen N     experts that a token needs of a layer (default 2)
  --hidden N     numbers of a state: a multiple of 16 (default 64)
  --expert BYTES of an expert: a multiple of 48 times --hidden (default 24K)
  --weights-seed S which of the stacks of this size (default 1)

run:
  --tokens N     in a round (default 16)
  --hit-rate P   of 100: so much of the experts' weights fits the cache, and as much the device's memory where the host is in the loop (default 50)
  --cache BYTES  as much fits, such as 512M
  --page BYTES   of a page of the cache: a power of two from 4K to 1M (default 64K)
  --ways W       those of the three that are wanted, such as cached,host (default cached,host,resident)
  --rounds N     do it N times, each with other tokens; the first begins with an empty cache (default 2)
  --check        compare with what one thread of the host computes
";

const PROGRAM: Program = Program { name: "experts", help: &[HELP, cli::HELP], trouble: 1 };

/// How much of the weights fits.
#[derive(Clone, Copy)]
enum Fits {
    Percent(u64),
    Bytes(usize),
}

/// What the command line says.
struct Task {
    options: Options,
    makes: bool,
    shape: Shape,
    expert_bytes: usize,
    seed: u64,
    tokens: u64,
    fits: Fits,
    page: usize,
    ways: Vec<Way>,
    rounds: u64,
    check: bool,
    path: PathBuf,
}

fn main() -> ExitCode {
    PROGRAM.main(command, |task| if task.makes { made(&task) } else { run(&task) })
}

fn command(line: &mut CommandLine) -> Result<Task, Failure> {
    let mut options = Options::new(Grid { blocks: 2, threads: 16 }, Grid { blocks: 4096, threads: 256 });
    options.cpu.width = 8;
    let mut task = Task {
        options,
        makes: false,
        shape: Shape { layers: 4, experts: 16, chosen: 2, hidden: 64, inner: 0 },
        expert_bytes: 24 << 10,
        seed: 1,
        tokens: 16,
        fits: Fits::Percent(50),
        page: 64 << 10,
        ways: Way::ALL.to_vec(),
        rounds: 2,
        check: false,
        path: PathBuf::new(),
    };
    let mut operands = Vec::new();
    line.read(|given, line| {
        match given {
            Given::Long(name @ "layers") => task.shape.layers = line.number(name)?,
            Given::Long(name @ "experts") => task.shape.experts = line.number(name)?,
            Given::Long(name @ "chosen") => task.shape.chosen = line.number(name)?,
            Given::Long(name @ "hidden") => task.shape.hidden = line.number(name)?,
            Given::Long(name @ "expert") => task.expert_bytes = line.size(name)?,
            Given::Long(name @ "weights-seed") => task.seed = line.number(name)?,
            Given::Long(name @ "tokens") => task.tokens = line.number(name)?,
            Given::Long(name @ "hit-rate") => task.fits = Fits::Percent(line.number(name)?),
            Given::Long(name @ "cache") => task.fits = Fits::Bytes(line.size(name)?),
            Given::Long(name @ "page") => task.page = line.size(name)?,
            Given::Long("ways") => task.ways = Way::of_list(&line.text()?)?,
            Given::Long(name @ "rounds") => task.rounds = line.number(name)?,
            Given::Long("check") => task.check = true,
            Given::Operand(value) if operands.len() < 2 => operands.push(value),
            other => return task.options.take(&other, line),
        }
        Ok(true)
    })?;
    let Ok([verb, path]) = <[_; 2]>::try_from(operands) else {
        return Err(line.see_help("make or run, and a FILE are needed"));
    };
    task.path = path.into();
    task.makes = match verb.to_str() {
        Some("make") => true,
        Some("run") => false,
        _ => return Err(line.see_help(format!("{}: not make or run", verb.to_string_lossy()))),
    };
    for (name, number) in [("tokens", task.tokens), ("rounds", task.rounds)] {
        if !(1..=1 << 20).contains(&number) {
            return Err(format!("--{name} {number}: from 1 to 1048576").into());
        }
    }
    if let Fits::Percent(percent) = task.fits
        && percent > 100
    {
        return Err(format!("--hit-rate {percent}: from 0 to 100").into());
    }
    Ok(task)
}

fn made(task: &Task) -> Result<ExitCode, Failure> {
    let row = task.shape.hidden.saturating_mul(3);
    let bytes = task.expert_bytes as u64;
    if row == 0 || !bytes.is_multiple_of(row) {
        return Err(
            format!("--expert {bytes}: not a multiple of 3 times --hidden {}", task.shape.hidden).into()
        );
    }
    let shape = Shape { inner: bytes / row, ..task.shape };
    check(&shape)?;
    let bytes = make(&task.path, &shape, task.seed)?;
    println!(
        "{}: {} layers of {} experts of {} bytes, {bytes} bytes",
        cli::show(&task.path),
        shape.layers,
        shape.experts,
        shape.expert_bytes()
    );
    Ok(ExitCode::SUCCESS)
}

fn run(task: &Task) -> Result<ExitCode, Failure> {
    let stack = Stack::open(&task.path)?;
    let shape = stack.shape;
    let set = task.page.saturating_mul(WAYS as usize).max(1);
    let wanted = match task.fits {
        Fits::Percent(percent) => usize::try_from(stack.bytes() * percent / 100)?,
        Fits::Bytes(bytes) => bytes,
    };
    let fits = wanted.div_ceil(set).max(1).saturating_mul(set);
    let page = u32::try_from(task.page).map_err(|_| format!("--page {}: at most 1M", task.page))?;
    let wants = Wants { cache: fits, page, experts: wanted, tokens: task.tokens, ways: &task.ways };
    let failed = |error| cli::about(&task.path, error);
    let mut stage = Stage::open(&task.options, &stack, &wants)?;
    println!(
        "{}: {} layers of {} experts of {} bytes, {} chosen; {fits} of {} bytes fit",
        cli::show(&task.path),
        shape.layers,
        shape.experts,
        shape.expert_bytes(),
        shape.chosen,
        stack.bytes()
    );
    println!(
        "{:<9}{:>6}{:>12}{:>8}{:>12}{:>10}{:>14}",
        "way", "round", "us/layer", "hit %", "hits", "misses", "bytes read"
    );
    let layers = (task.tokens * shape.layers) as f64;
    let needed = layers * (shape.chosen * shape.expert_bytes()) as f64;
    let mut states: Vec<Vec<u8>> = Vec::new();
    let mut ran = Duration::ZERO;
    for way in &task.ways {
        for round in 0..task.rounds {
            let tokens = Tokens { first: round * task.tokens, count: task.tokens };
            let outcome = stage.round(*way, tokens).map_err(failed)?;
            ran += outcome.took;
            println!(
                "{:<9}{:>6}{:>12.2}{:>8.1}{:>12}{:>10}{:>14}",
                way.name(),
                round + 1,
                outcome.took.as_secs_f64() * 1e6 / layers,
                100.0 * (1.0 - outcome.read as f64 / needed).max(0.0),
                outcome.hits,
                outcome.misses,
                outcome.read
            );
            match states.get(round as usize) {
                None => states.push(outcome.states),
                Some(first) if *first == outcome.states => {}
                Some(_) => {
                    return Err(format!(
                        "{}, round {}: other states than {}",
                        way.name(),
                        round + 1,
                        task.ways[0].name()
                    )
                    .into());
                }
            }
        }
    }
    println!("states of {} tokens, in {} ways: equal", task.tokens * task.rounds, task.ways.len());
    stage.report(&task.options, ran);
    compare(task, &stack, &states.concat())?;
    Ok(ExitCode::SUCCESS)
}

/// Compares with what the host computes, if `--check` was given.
fn compare(task: &Task, stack: &Stack, states: &[u8]) -> Result<(), Failure> {
    if !task.check {
        return Ok(());
    }
    let wanted = stack.states(0, task.tokens * task.rounds);
    let wanted = wanted.map_err(|error| cli::about(&task.path, cli::reason(&error)))?;
    if !states.iter().copied().eq(wanted.into_iter().map(i8::cast_unsigned)) {
        return Err(cli::about(&task.path, "the host computes something else"));
    }
    println!("checked: the host computes the same");
    Ok(())
}
