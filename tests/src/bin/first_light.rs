//! `first_light FILE [PTX]`: prints from every thread of a grid to one file, on CPU lanes or, given a device program, on the first GPU,
//! and checks every record.

use std::error::Error;
use std::time::{Duration, Instant};

use gpufs_device::{Errno, File};
use gpufs_host::{Grid, Session};
use gpufs_test_kernels::{RESULT_AT, open, print};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: first_light FILE [PTX [BLOCKS THREADS ROUNDS]]")?;
    let program = arguments.next().map(std::fs::read).transpose()?;
    let mut number = |default: u32| arguments.next().map_or(Ok(default), |word| word.parse());
    let grid = Grid { blocks: number(4)?, threads: number(128)? };
    let rounds = number(10)?;
    let builder = Session::builder().deadline(Duration::from_secs(5));
    let mut session = match &program {
        Some(program) => builder.cuda(0, program)?,
        None => builder.cpu()?,
    };
    println!("{}, served by {}", session.device_name(), session.mode());
    let shared = session.register_buffer(2 * RESULT_AT)?;
    // SAFETY:
    // - no kernel runs
    let memory = unsafe { shared.part(0, shared.len()) };
    memory[..path.len()].copy_from_slice(path.as_bytes());
    session.start::<open::Entry>(
        Grid { blocks: 1, threads: 1 },
        open::Arguments { shared: shared.as_ptr() as u64 },
    )?;
    session.synchronize()?;
    // SAFETY:
    // - the kernel has written it and ended
    let opened = unsafe { shared.as_ptr().add(RESULT_AT).cast::<Result<File, Errno>>().read() };
    let file = opened?;
    let started = Instant::now();
    session.start::<print::Entry>(grid, print::Arguments { file, rounds })?;
    session.synchronize()?;
    let took = started.elapsed();
    let threads = grid.blocks as usize * grid.threads as usize;
    let mut next = vec![0; threads];
    let text = std::fs::read_to_string(&path)?;
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (thread, round): (usize, u32) = (words[1].parse()?, words[3].parse()?);
        if line != format!("thread {thread} iter {round} value {:.6}", thread as f64 * 0.5)
            || next[thread] != round
        {
            return Err(format!("wrong record, or out of order: {line}").into());
        }
        next[thread] += 1;
    }
    if next.iter().any(|count| *count != rounds) {
        return Err("records are missing".into());
    }
    println!(
        "{} records of {threads} threads whole and in order, {} bytes in {took:.2?}",
        text.lines().count(),
        text.len()
    );
    println!("{:?}", session.statistics().total());
    Ok(())
}
