//! `fscanf`: the numbers of a text file, read by the whole grid from one stream, beside one CPU thread, and beside the grid's `fgets` of the
//! same text.

use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

use gpufs_bench_kernels::calls::{FOUR_INTEGERS, FOUR_REALS, ONE_INTEGER, take_numbers};
use gpufs_host::Grid;

use crate::bench::Bench;
use crate::failure::Failure;
use crate::fgets;
use crate::report::Role;
use crate::sample::Spread;
use crate::scratch::Scratch;
use crate::stage::{Stage, grid_of};

const NAME: &str = "fscanf";
const UNIT: &str = "GB/s";

/// Numbers of a line.
const IN_A_LINE: u64 = 4;
/// The smallest text and the largest.
const LEAST_BYTES: u64 = 256 << 10;
const MOST_BYTES: u64 = 1 << 30;
/// The largest text of the CPU thread, which takes seconds for it.
const RIVAL_BYTES: u64 = 64 << 20;

/// What a text holds.
#[derive(Clone, Copy)]
struct Text {
    bytes: u64,
    numbers: u64,
    /// Of the numbers; of reals twice that.
    sum: u64,
}

/// A text file of about so many bytes, with lines of [`IN_A_LINE`] numbers of six to eight digits, of reals with a half behind a point.
fn text(path: &Path, bytes: u64, reals: bool) -> Result<Text, Failure> {
    let mut file = BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
    let mut text = Text { bytes: 0, numbers: 0, sum: 0 };
    while text.bytes < bytes {
        let mut line = String::new();
        for at in 0..IN_A_LINE {
            let value = (text.numbers + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 38;
            let value = 100_000 + value;
            let end = if at + 1 == IN_A_LINE { '\n' } else { ' ' };
            if reals {
                line.push_str(&format!("{value}.5{end}"));
                text.sum = text.sum.wrapping_add(2 * value + 1);
            } else {
                line.push_str(&format!("{value}{end}"));
                text.sum = text.sum.wrapping_add(value);
            }
        }
        file.write_all(line.as_bytes())?;
        text.bytes += line.len() as u64;
        text.numbers += IN_A_LINE;
    }
    file.flush()?;
    Ok(text)
}

/// One pass of the grid: seconds.
fn pass(stage: &mut Stage, grid: Grid, path: &Path, way: u32, text: Text) -> Result<f64, Failure> {
    let streams = stage.open_streams(&[path.to_owned()], "r")?;
    let arguments =
        take_numbers::Arguments { file: streams.files[0], way, sums: stage.counts(), times: stage.times() };
    let seconds = stage.run_timed::<take_numbers::Entry>(grid, arguments)?;
    stage.close_streams(&streams)?;
    let sums = stage.read_counts(grid.blocks as usize * grid.threads as usize);
    check(sums.iter().fold(0, |all, sum| all.wrapping_add(*sum)), text)?;
    Ok(seconds)
}

fn check(sum: u64, text: Text) -> Result<(), Failure> {
    if sum == text.sum {
        return Ok(());
    }
    Err(format!("the sum of {} numbers is {sum}, and should be {}", text.numbers, text.sum).into())
}

/// GB/s of some passes over so many bytes.
fn rates(
    samples: usize,
    bytes: u64,
    mut pass: impl FnMut() -> Result<f64, Failure>,
) -> Result<Spread, Failure> {
    let rates: Result<Vec<_>, Failure> = (0..samples).map(|_| Ok(bytes as f64 / pass()? / 1e9)).collect();
    Ok(Spread::of(rates?))
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let scratch = Scratch::new(&bench.options.directory, NAME)?;
    let (path, short) = (scratch.path("numbers"), scratch.path("few"));
    let rings = bench.rings(&[4, 2, 1])[0];
    // As large as the time allows.
    let budget = bench.options.effort.target.as_secs_f64() * if bench.options.quick { 10.0 } else { 100.0 };
    let most = bench.options.file_bytes.clamp(LEAST_BYTES, MOST_BYTES);
    let samples = bench.options.effort.samples;
    for (way, format) in
        [(ONE_INTEGER, "%ld"), (FOUR_INTEGERS, "%ld %ld %ld %ld"), (FOUR_REALS, "%lf %lf %lf %lf")]
    {
        let reals = way == FOUR_REALS;
        for warps in bench.warps() {
            bench.step(&format!("{NAME} of {format}"));
            let grid = grid_of(warps);
            let stage = bench.stage(rings)?;
            // How fast it is shows a small file, then a larger one: in the first the warps have hardly begun.
            let mut numbers = text(&path, LEAST_BYTES, reals)?;
            for share in [0.1, 1.0] {
                let rate = numbers.bytes as f64 / pass(stage, grid, &path, way, numbers)?;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size")]
                let wanted = (rate * budget * share) as u64;
                numbers = text(&path, wanted.clamp(LEAST_BYTES, most), reals)?;
            }
            let ours = rates(samples, numbers.bytes, || pass(stage, grid, &path, way, numbers))?;
            let lines = numbers.numbers / IN_A_LINE;
            let by_lines = rates(samples, numbers.bytes, || fgets::pass(stage, grid, &path, lines))?;
            stage.rest();
            let few = text(&short, numbers.bytes.min(RIVAL_BYTES), reals)?;
            let rival = rates(samples, few.bytes, || libc_pass(&short, way, few))?;
            let case = format!("{format} of {:.1} MB, warps: {warps}", numbers.bytes as f64 / 1e6);
            bench.figure(NAME, &case, "gpufs: fscanf of the whole grid", Role::Ours, UNIT, ours, None);
            let name = format!("CPU: fscanf, one thread, of {:.1} MB", few.bytes as f64 / 1e6);
            bench.figure(NAME, &case, &name, Role::Rival, UNIT, rival, None);
            bench.figure(NAME, &case, "gpufs: fgets of the whole grid", Role::Fact, UNIT, by_lines, None);
        }
    }
    Ok(())
}

/// One pass of the C library's `fscanf`: seconds.
#[expect(unsafe_code, reason = "the C library's stdio")]
fn libc_pass(path: &Path, way: u32, text: Text) -> Result<f64, Failure> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    let started = Instant::now();
    // SAFETY:
    // - NUL-terminated strings; closed below
    let file = unsafe { libc::fopen(path.as_ptr(), c"r".as_ptr()) };
    if file.is_null() {
        return Err(std::io::Error::last_os_error().into());
    }
    let (mut integers, mut reals) = ([0_i64; 4], [0.0_f64; 4]);
    let mut sum = 0_u64;
    // Ends: with the file, or at what is no number.
    loop {
        let ([i, j, k, l], [x, y, z, w]) = (&mut integers, &mut reals);
        let ([i, j, k, l], [x, y, z, w]) =
            ([i, j, k, l].map(std::ptr::from_mut), [x, y, z, w].map(std::ptr::from_mut));
        let stored = match way {
            // SAFETY:
            // - an open stream, a format that ends, and a target of the conversion's type
            ONE_INTEGER => unsafe { libc::fscanf(file, c"%ld".as_ptr(), i) },
            // SAFETY:
            // - the same, for each of four
            FOUR_INTEGERS => unsafe { libc::fscanf(file, c"%ld %ld %ld %ld".as_ptr(), i, j, k, l) },
            // SAFETY:
            // - the same
            _ => unsafe { libc::fscanf(file, c"%lf %lf %lf %lf".as_ptr(), x, y, z, w) },
        };
        let Ok(stored @ 1..) = usize::try_from(stored) else { break };
        for at in 0..stored.min(4) {
            #[expect(clippy::cast_possible_truncation, reason = "multiples of a half, below 2³²")]
            let value = if way == FOUR_REALS { (2.0 * reals[at]) as i64 } else { integers[at] };
            sum = sum.wrapping_add(value.cast_unsigned());
        }
    }
    // SAFETY:
    // - opened above, used no more
    unsafe { libc::fclose(file) };
    check(sum, text)?;
    Ok(started.elapsed().as_secs_f64())
}
