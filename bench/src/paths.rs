//! `paths`: `stat` of many files, and pairs of `open` and `close`, beside as many CPU threads as rings.

use std::ffi::CString;
use std::time::Instant;

use gpufs_bench_kernels::paths::{NAME_BYTES, open_and_close, stat_all};

use crate::bench::Bench;
use crate::failure::Failure;
use crate::report::Role;
use crate::sample::Spread;
use crate::scratch::Scratch;
use crate::stage::{Stage, grid_of};

const NAME: &str = "paths";
const UNIT: &str = "M/s";

/// Files, in one folder.
const FILES: u64 = 100_000;
/// The same for a short look.
const FEW_FILES: u64 = 4_000;

/// What is done with each file.
#[derive(Clone, Copy)]
enum What {
    Stat,
    OpenAndClose,
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let scratch = Scratch::new(&bench.options.directory, NAME)?;
    let files = if bench.options.quick { FEW_FILES } else { FILES };
    for index in 0..files {
        std::fs::write(scratch.path(&format!("{index:08}")), "x")?;
    }
    let prefix = scratch.path("").display().to_string();
    if prefix.len() + 9 > NAME_BYTES {
        return Err(format!("{prefix}: paths in it have more than {NAME_BYTES} bytes").into());
    }
    let rings = bench.most_rings();
    for (what, case) in [(What::Stat, "stat"), (What::OpenAndClose, "open and close")] {
        for warps in bench.warps() {
            let case = format!("{case} of {files} files, warps: {warps}, rings: {rings}");
            bench.step(&case);
            let samples = bench.options.effort.samples;
            let stage = bench.stage(rings)?;
            let ours = spread(samples, files, || pass(stage, what, warps, files, &prefix))?;
            stage.rest();
            let rival = spread(samples, files, || threads(what, rings, files, &prefix))?;
            bench.figure(NAME, &case, "gpufs", Role::Ours, UNIT, ours, None);
            bench.figure(NAME, &case, &format!("CPU: threads: {rings}"), Role::Rival, UNIT, rival, None);
        }
    }
    Ok(())
}

/// Millions of files a second.
fn spread(
    samples: usize,
    files: u64,
    mut pass: impl FnMut() -> Result<f64, Failure>,
) -> Result<Spread, Failure> {
    let rates: Result<Vec<_>, Failure> = (0..samples).map(|_| Ok(files as f64 / pass()? / 1e6)).collect();
    Ok(Spread::of(rates?))
}

/// One pass of the grid over all files: seconds.
fn pass(stage: &mut Stage, what: What, warps: u32, files: u64, prefix: &str) -> Result<f64, Failure> {
    let mut bytes = [0; NAME_BYTES];
    bytes[..prefix.len()].copy_from_slice(prefix.as_bytes());
    let length = u32::try_from(prefix.len())?;
    let placed = stage.session().place::<[u8; NAME_BYTES]>(bytes)?;
    let (prefix, times) = (placed.handle(), stage.times());
    match what {
        What::Stat => {
            let arguments = stat_all::Arguments { prefix, length, files, times };
            stage.run_timed::<stat_all::Entry>(grid_of(warps), arguments)
        }
        What::OpenAndClose => {
            let arguments = open_and_close::Arguments { prefix, length, files, times };
            stage.run_timed::<open_and_close::Entry>(grid_of(warps), arguments)
        }
    }
}

/// One pass of so many threads, each of which takes the next file: seconds.
fn threads(what: What, count: u32, files: u64, prefix: &str) -> Result<f64, Failure> {
    let started = Instant::now();
    let every = count as usize;
    let wrong: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..u64::from(count))
            .map(|thread| {
                scope.spawn(move || {
                    (thread..files).step_by(every).filter(|index| !made(what, *index, prefix)).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(1)).sum()
    });
    match wrong {
        0 => Ok(started.elapsed().as_secs_f64()),
        wrong => Err(format!("{wrong} of {files} calls of CPU threads failed").into()),
    }
}

/// Whether the call on one file went well.
#[expect(unsafe_code, reason = "the C library's calls")]
fn made(what: What, index: u64, prefix: &str) -> bool {
    let path = CString::new(format!("{prefix}{index:08}")).unwrap_or_default();
    match what {
        What::Stat => {
            let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
            // SAFETY:
            // - a string that ends, and room for the result
            unsafe { libc::stat(path.as_ptr(), stat.as_mut_ptr()) == 0 }
        }
        What::OpenAndClose => {
            // SAFETY:
            // - a string that ends
            let number = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY) };
            // SAFETY:
            // - opened above, and used no more
            number >= 0 && unsafe { libc::close(number) } == 0
        }
    }
}
