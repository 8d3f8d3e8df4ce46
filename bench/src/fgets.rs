//! `fgets`: the lines of a text file, taken by the whole grid from one stream.

use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

use gpufs_bench_kernels::calls::take_lines;
use gpufs_host::Grid;

use crate::bench::Bench;
use crate::failure::Failure;
use crate::report::Role;
use crate::sample::Spread;
use crate::scratch::Scratch;
use crate::stage::{Stage, grid_of};

const NAME: &str = "fgets";
const UNIT: &str = "GB/s";

/// A text file of about so many bytes: how many it has, and how many lines.
fn text(path: &Path, bytes: u64) -> Result<(u64, u64), Failure> {
    let mut file = BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
    let (mut written, mut lines) = (0, 0);
    while written < bytes {
        let line = format!("thread {lines} iter 0 value {}.500000\n", lines / 2);
        file.write_all(line.as_bytes())?;
        written += line.len() as u64;
        lines += 1;
    }
    file.flush()?;
    Ok((written, lines))
}

/// One pass of the grid: seconds.
pub(crate) fn pass(stage: &mut Stage, grid: Grid, path: &Path, lines: u64) -> Result<f64, Failure> {
    let streams = stage.open_streams(&[path.to_owned()], "r")?;
    let arguments =
        take_lines::Arguments { file: streams.files[0], counts: stage.counts(), times: stage.times() };
    let seconds = stage.run_timed::<take_lines::Entry>(grid, arguments)?;
    stage.close_streams(&streams)?;
    let counts = stage.read_counts(grid.blocks as usize * grid.threads as usize);
    let taken: u64 = counts.iter().sum();
    if taken != lines {
        return Err(format!("{taken} lines were taken of {lines}").into());
    }
    Ok(seconds)
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let scratch = Scratch::new(&bench.options.directory, NAME)?;
    let path = scratch.path("text");
    let rings = bench.rings(&[4, 2, 1])[0];
    // As large as the time allows.
    let budget = bench.options.effort.target.as_secs_f64() * if bench.options.quick { 10.0 } else { 100.0 };
    for warps in bench.warps() {
        bench.step(NAME);
        let Lines { megabytes, ours, rival } = both(bench, &path, rings, warps, budget)?;
        let case = format!("every line of {megabytes:.1} MB, warps: {warps}");
        bench.figure(NAME, &case, OURS, Role::Ours, UNIT, ours, None);
        bench.figure(NAME, &case, RIVAL, Role::Rival, UNIT, rival, None);
    }
    Ok(())
}

/// What [`both`] measures.
pub(crate) const OURS: &str = "gpufs: fgets of the whole grid";
pub(crate) const RIVAL: &str = "CPU: fgets, one thread";

/// How fast the lines of one file were taken, in GB/s.
pub(crate) struct Lines {
    pub(crate) megabytes: f64,
    pub(crate) ours: Spread,
    pub(crate) rival: Spread,
}

/// The grid's `fgets` and one CPU thread's, of a new text file that is as large as `budget` seconds allow for one pass of the grid, and at
/// most a GiB.
pub(crate) fn both(
    bench: &mut Bench,
    path: &Path,
    rings: u32,
    warps: u32,
    budget: f64,
) -> Result<Lines, Failure> {
    let (samples, most) = (bench.options.effort.samples, bench.options.file_bytes.clamp(256 << 10, 1 << 30));
    let grid = grid_of(warps);
    let stage = bench.stage(rings)?;
    // How fast it is shows a small file, then a larger one: in the first the warps have hardly begun.
    let (mut bytes, mut lines) = text(path, 256 << 10)?;
    for share in [0.1, 1.0] {
        let rate = bytes as f64 / pass(stage, grid, path, lines)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size")]
        let wanted = (rate * budget * share) as u64;
        (bytes, lines) = text(path, wanted.clamp(256 << 10, most))?;
    }
    let rates = |pass: &mut dyn FnMut() -> Result<f64, Failure>| -> Result<Spread, Failure> {
        let rates: Result<Vec<_>, Failure> = (0..samples).map(|_| Ok(bytes as f64 / pass()? / 1e9)).collect();
        Ok(Spread::of(rates?))
    };
    let ours = rates(&mut || pass(stage, grid, path, lines))?;
    stage.rest();
    let rival = rates(&mut || libc_pass(path, lines))?;
    Ok(Lines { megabytes: bytes as f64 / 1e6, ours, rival })
}

/// One pass of the C library's `fgets`: seconds.
#[expect(unsafe_code, reason = "the C library's stdio")]
fn libc_pass(path: &Path, lines: u64) -> Result<f64, Failure> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    let started = Instant::now();
    // SAFETY:
    // - NUL-terminated strings; closed below
    let file = unsafe { libc::fopen(path.as_ptr(), c"r".as_ptr()) };
    if file.is_null() {
        return Err(std::io::Error::last_os_error().into());
    }
    let mut line = [0; 128];
    let mut taken = 0;
    // SAFETY:
    // - an open stream and a buffer of that length
    while !unsafe { libc::fgets(line.as_mut_ptr(), 128, file) }.is_null() {
        taken += 1;
    }
    // SAFETY:
    // - opened above, used no more
    unsafe { libc::fclose(file) };
    if taken != lines {
        return Err(format!("{taken} lines were taken of {lines}").into());
    }
    Ok(started.elapsed().as_secs_f64())
}
