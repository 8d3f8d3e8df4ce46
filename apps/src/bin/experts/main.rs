//! `experts make|run FILE`: a stack of mixture-of-experts layers, whose router decides on the device which weights it needs next.

mod slots;
mod stage;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser};
use gpufs_apps::cli::values::{Choice, from_to, number, path, size};
use gpufs_apps::cli::{self, Defaults, Failure, Options, Program};
use gpufs_apps::experts::{Stack, check, make};
use gpufs_apps::kernels::experts::{Shape, Tokens};
use gpufs_core::cache::WAYS;
use gpufs_host::Grid;

use stage::{Stage, Wants, Way};

const PROGRAM: Program = Program { name: "experts", needs: "make or run, and a FILE are needed", trouble: 1 };
const DEFAULTS: Defaults = Defaults {
    width: 8,
    all_at_once: true,
    ..Defaults::new(Grid { blocks: 2, threads: 16 }, Grid { blocks: 4096, threads: 256 })
};
const USAGE: &str = "\
experts make [OPTIONS] FILE
       experts run [OPTIONS] FILE";
const MORE: &str = "\
A router chooses some experts of a layer for each token, whose weights alone are needed. Tokens go
through the stack in up to three ways, whose results are compared; the time that a layer took is printed.

  cached    one kernel does it all; it looks at the file through a cache of pages, and the host knows
            nothing
  host      the numbers of the chosen experts go back to the host, which reads those that the device does
            not have, and copies them there
  resident  one kernel does it all; all weights are in the device's memory";
/// The most tokens of a round, and rounds.
const MOST: u64 = 1 << 20;

/// Make a stack of mixture-of-experts layers in a file, or take tokens through it
#[derive(Debug, Parser)]
#[command(override_usage = USAGE, after_help = MORE)]
struct Task {
    /// What to do with FILE
    #[arg(value_name = "VERB", value_parser = Verb::CHOICE)]
    verb: Verb,
    /// The stack: a safetensors file of made-up weights of 8 bits
    #[arg(value_name = "FILE", value_parser = path())]
    path: PathBuf,
    #[command(flatten)]
    making: Making,
    #[command(flatten)]
    running: Running,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "make")]
struct Making {
    /// Layers of the stack
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = number::<u64>())]
    layers: u64,
    /// Experts of a layer
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = number::<u64>())]
    experts: u64,
    /// Experts that a token needs of a layer
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = number::<u64>())]
    chosen: u64,
    /// Numbers of a state: a multiple of 16
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = number::<u64>())]
    hidden: u64,
    /// Bytes of an expert: a multiple of 48 times --hidden
    #[arg(long, value_name = "BYTES", default_value = "24K", value_parser = size())]
    expert: usize,
    /// Which of the stacks of this size
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = number::<u64>())]
    weights_seed: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "run")]
struct Running {
    /// Tokens in a round
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = from_to::<u64>(1, MOST, ""))]
    tokens: u64,
    /// So much of the experts' weights, of 100, fits the cache, and as much the device's memory where
    /// the host is in the loop; as many experts as a token needs of a layer always fit
    #[arg(
        long, verbatim_doc_comment, value_name = "PERCENT", default_value_t = 50, value_parser = from_to::<u64>(0, 100, ""), overrides_with = "cache"
    )]
    hit_rate: u64,
    /// As much fits, such as 512M, in place of --hit-rate
    #[arg(long, value_name = "BYTES", value_parser = size(), overrides_with = "hit_rate")]
    cache: Option<usize>,
    /// Bytes of a page of the cache: a power of two from 4K to 1M
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = size())]
    page: usize,
    /// Those of the three that are wanted, with commas
    #[arg(
        long, value_name = "WAYS", default_value = "cached,host,resident", value_parser = Way::CHOICE, value_delimiter = ',',
        action = clap::ArgAction::Set, num_args = 1
    )]
    ways: Vec<Way>,
    /// Do it N times, each with other tokens; the first begins with an empty cache
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = from_to::<u64>(1, MOST, ""))]
    rounds: u64,
    /// Compare with what one thread of the host computes
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Make,
    Run,
}

impl Verb {
    const CHOICE: Choice<Self> =
        Choice { wrong: "not make or run", names: &[("make", Self::Make), ("run", Self::Run)] };
}

fn main() -> ExitCode {
    PROGRAM.main(|task: Task| match task.verb {
        Verb::Make => made(&task),
        Verb::Run => run(&task),
    })
}

fn made(task: &Task) -> Result<ExitCode, Failure> {
    let Making { layers, experts, chosen, hidden, expert, weights_seed } = task.making;
    let (row, bytes) = (hidden.saturating_mul(3), expert as u64);
    if row == 0 || !bytes.is_multiple_of(row) {
        return Err(format!("--expert {bytes}: not a multiple of 3 times --hidden {hidden}").into());
    }
    let shape = Shape { layers, experts, chosen, hidden, inner: bytes / row };
    check(&shape)?;
    let bytes = make(&task.path, &shape, weights_seed)?;
    println!(
        "{}: {layers} layers of {experts} experts of {} bytes, {bytes} bytes",
        cli::show(&task.path),
        shape.expert_bytes()
    );
    Ok(ExitCode::SUCCESS)
}

/// Bytes of so much of the weights, of 100, and of as many experts as a token needs of a layer at least; with all of them what routers need has room,
/// too.
fn room(stack: &Stack, percent: u64) -> Result<usize, Failure> {
    let bytes = if percent == 100 { stack.file.metadata()?.len() } else { stack.bytes() * percent / 100 };
    let least = stack.shape.chosen * stack.shape.expert_bytes();
    Ok(usize::try_from(bytes.max(least))?)
}

fn run(task: &Task) -> Result<ExitCode, Failure> {
    let stack = Stack::open(&task.path)?;
    let shape = stack.shape;
    let Running { tokens, rounds, .. } = task.running;
    let ways = &task.running.ways;
    let set = task.running.page.saturating_mul(WAYS as usize).max(1);
    let wanted = match task.running.cache {
        Some(bytes) => bytes,
        None => room(&stack, task.running.hit_rate)?,
    };
    let fits = wanted.div_ceil(set).max(1).saturating_mul(set);
    let page = task.running.page;
    let page = u32::try_from(page).map_err(|_| format!("--page {page}: at most 1M"))?;
    let wants = Wants { cache: fits, page, experts: wanted, tokens, ways };
    let failed = |error| cli::about(&task.path, error);
    let mut stage = Stage::open(&task.options, &DEFAULTS, &stack, &wants)?;
    println!(
        "{}: {} layers of {} experts of {} bytes, {} chosen; {} of {} bytes fit",
        cli::show(&task.path),
        shape.layers,
        shape.experts,
        shape.expert_bytes(),
        shape.chosen,
        (fits as u64).min(stack.bytes()),
        stack.bytes()
    );
    println!(
        "{:<9}{:>6}{:>12}{:>8}{:>12}{:>10}{:>14}",
        "way", "round", "us/layer", "hit %", "hits", "misses", "bytes read"
    );
    let layers = (tokens * shape.layers) as f64;
    let needed = layers * (shape.chosen * shape.expert_bytes()) as f64;
    let mut states: Vec<Vec<u8>> = Vec::new();
    let mut ran = Duration::ZERO;
    for way in ways {
        for round in 0..rounds {
            let taken = Tokens { first: round * tokens, count: tokens };
            let outcome = stage.round(*way, taken).map_err(failed)?;
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
                        ways[0].name()
                    )
                    .into());
                }
            }
        }
    }
    println!("states of {} tokens, in {} ways: equal", tokens * rounds, ways.len());
    stage.report(&task.options, ran);
    compare(task, &stack, &states.concat())?;
    Ok(ExitCode::SUCCESS)
}

/// Compares with what the host computes, if `--check` was given.
fn compare(task: &Task, stack: &Stack, states: &[u8]) -> Result<(), Failure> {
    if !task.running.check {
        return Ok(());
    }
    let wanted = stack.states(0, task.running.tokens * task.running.rounds);
    let wanted = wanted.map_err(|error| cli::about(&task.path, cli::reason(&error)))?;
    if !states.iter().copied().eq(wanted.into_iter().map(i8::cast_unsigned)) {
        return Err(cli::about(&task.path, "the host computes something else"));
    }
    println!("checked: the host computes the same");
    Ok(())
}
