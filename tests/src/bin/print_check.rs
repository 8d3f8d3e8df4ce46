//! `print_check FILE [OPTION VALUE] …`: prints from every thread of a grid to one file, on CPU lanes or, given a device program, on the
//! first GPU; then checks that every record is whole, none is missing, and each thread's are in order.
//!
//! | option | value |
//! |---|---|
//! | `--program` | PTX or a cubin that holds the kernels of `tests/kernels` |
//! | `--blocks`, `--threads`, `--rounds` | the grid, and lines a thread |
//! | `--survives` | 0 or 1: whether output survives a fault; the default is the device's |
//! | `--registers` | the most registers that a thread of the GPU may have |
//! | `--rings`, `--mode`, `--memory` | rings; `sqpoll`, `enter`, `threads`; `kernel`, `caller`, `runtime` |

use std::error::Error;
use std::time::{Duration, Instant};

use gpufs_host::ring::{Mode, RingMemory};
use gpufs_host::{Grid, Session};
use gpufs_test_kernels::print;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("print_check: which file? See the head of its source")?;
    let mut builder = Session::builder().deadline(Duration::from_secs(10));
    let (mut program, mut grid, mut rounds) = (None, Grid { blocks: 4, threads: 128 }, 10);
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{option} wants a value"))?;
        match option.as_str() {
            "--program" => {
                program = Some(std::fs::read(&value).map_err(|error| format!("{value}: {error}"))?);
            }
            "--blocks" => grid.blocks = value.parse()?,
            "--threads" => grid.threads = value.parse()?,
            "--rounds" => rounds = value.parse()?,
            "--registers" => builder = builder.gpu_registers(value.parse()?),
            "--rings" => builder = builder.rings(value.parse()?),
            "--mode" => {
                let mode = Mode::BEST_FIRST.into_iter().find(|mode| mode.to_string() == value);
                builder = builder.mode(mode.ok_or("--mode: sqpoll, enter or threads")?);
            }
            "--survives" => builder = builder.survives(value != "0"),
            "--memory" => {
                let memory = RingMemory::BEST_FIRST.into_iter().find(|memory| memory.to_string() == value);
                builder = builder.ring_memory(memory.ok_or("--memory: kernel, caller or runtime")?);
            }
            _ => return Err(format!("{option} {value}: no such option or value").into()),
        }
    }
    let mut session = match &program {
        Some(program) => builder.cuda(0, program)?,
        None => builder.cpu()?,
    };
    println!(
        "{}, {} rings served by {}, in memory of the {}",
        session.device_name(),
        session.statistics().rings.len(),
        session.mode(),
        session.ring_memory()
    );
    for (memory, reason) in session.refused_memory() {
        println!("not of the {memory}: {reason}");
    }
    println!(
        "print: {:?}, {} blocks of {} threads on each of {} multiprocessors",
        session.kernel_limits::<print::Entry>()?,
        session.occupancy::<print::Entry>(grid.threads)?,
        grid.threads,
        session.multiprocessors()
    );
    let file = session.fopen(&path, "w")?;
    let started = Instant::now();
    session.start::<print::Entry>(grid, print::Arguments { file, rounds })?;
    session.synchronize()?;
    let took = started.elapsed();
    let text = std::fs::read_to_string(&path)?;
    let records = check(&text, grid.blocks as usize * grid.threads as usize, rounds)?;
    let speed = records as f64 / took.as_secs_f64() / 1e6;
    println!(
        "{records} records whole and in order, {} bytes in {took:.2?}: {speed:.2} million a second",
        text.len()
    );
    println!("{:?}", session.statistics().total());
    Ok(())
}

/// How many records there are, if they are what `threads` threads print in `rounds` rounds.
fn check(text: &str, threads: usize, rounds: u32) -> Result<usize, Box<dyn Error>> {
    let mut next = vec![0; threads];
    for line in text.lines() {
        let mut words = line.split(' ').skip(1).step_by(2);
        let (Some(thread), Some(round)) = (words.next(), words.next()) else {
            return Err(format!("a torn record: {line}").into());
        };
        let (thread, round): (usize, u32) = (thread.parse()?, round.parse()?);
        if line != format!("thread {thread} iter {round} value {:.6}", thread as f64 * 0.5)
            || next[thread] != round
        {
            return Err(format!("a wrong record, or one out of order: {line}").into());
        }
        next[thread] += 1;
    }
    match next.iter().position(|count| *count != rounds) {
        Some(thread) => Err(format!("thread {thread} has {} records of {rounds}", next[thread]).into()),
        None => Ok(text.lines().count()),
    }
}
