//! `print`: every thread prints lines to one file.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gpufs_bench_kernels::calls::print_lines;
use gpufs_bench_kernels::rivals::print_cuda;
use gpufs_host::Grid;

use crate::bench::Bench;
use crate::cpu::{Moving, Plain};
use crate::failure::Failure;
use crate::report::Role;
use crate::sample::Spread;
use crate::scratch::{Scratch, both_ways, in_memory};

const NAME: &str = "print";
/// Bytes that a CPU thread writes at a time.
pub(crate) const CHUNK: u64 = 64 << 10;

/// Millions of lines, and GB, of each sample, a second.
#[derive(Default)]
pub(crate) struct Rates {
    pub(crate) lines: Vec<f64>,
    pub(crate) bytes: Vec<f64>,
}

impl Rates {
    fn add(self, bench: &mut Bench, case: &str, name: &str, role: Role) {
        bench.figure(NAME, case, name, role, "Mlines/s", Spread::of(self.lines), None);
        bench.figure(NAME, case, name, role, "GB/s", Spread::of(self.bytes), None);
    }
    fn note(&mut self, lines: u64, bytes: u64, seconds: f64) {
        self.lines.push(lines as f64 / seconds / 1e6);
        self.bytes.push(bytes as f64 / seconds / 1e9);
    }
}

/// How many bytes the lines of that many threads have.
fn bytes_of(threads: u64, rounds: u32) -> u64 {
    let digits = |number: u64| number.checked_ilog10().map_or(1, |digits| u64::from(digits) + 1);
    let of_threads: u64 = (0..threads)
        .map(|thread| "thread  iter  value .000000\n".len() as u64 + digits(thread) + digits(thread / 2))
        .sum();
    let of_rounds: u64 = (0..rounds).map(|round| digits(round.into())).sum();
    of_threads * u64::from(rounds) + of_rounds * threads
}

/// The grids whose threads print: a few for each multiprocessor, and as many as there is room for.
pub(crate) fn grids(bench: &Bench) -> [Grid; 2] {
    match bench.gpu.as_ref().map(|gpu| gpu.multiprocessors) {
        Some(count) => [Grid { blocks: count, threads: 128 }, Grid { blocks: 8 * count, threads: 256 }],
        None => [Grid { blocks: 4, threads: 128 }, Grid { blocks: 8, threads: 256 }],
    }
}

/// How many threads a grid has.
pub(crate) fn threads_of(grid: Grid) -> u64 {
    u64::from(grid.blocks) * u64::from(grid.threads)
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let scratch = Scratch::new(in_memory().unwrap_or(&bench.options.directory), NAME)?;
    let place = if in_memory().is_some() { "tmpfs" } else { "a file" };
    for grid in grids(bench) {
        let threads = threads_of(grid);
        for (target, path) in [(place, scratch.path("lines")), ("/dev/null", PathBuf::from("/dev/null"))] {
            let case = format!("lines of {threads} threads to one file, {target}");
            bench.step(&case);
            one_file(bench, &case, grid, &path)?;
        }
    }
    Ok(())
}

fn one_file(bench: &mut Bench, case: &str, grid: Grid, path: &Path) -> Result<(), Failure> {
    let rings = bench.rings(&[4, 2, 1])[0];
    let (rates, rounds) = by_grid(bench, rings, grid, path)?;
    rates.add(bench, case, "gpufs: fprintf", Role::Ours);

    let name = "CUDA: printf";
    if bench.gpu.is_some() {
        cuda_lines(bench, rings, grid, path)?.add(bench, case, name, Role::Rival);
    } else {
        bench.report.skip(NAME, name, "needs a GPU");
    }

    let (count, rates) = by_threads(bench, grid, rounds, path)?;
    rates.add(bench, case, &format!("CPU: pwrite of {CHUNK} bytes, threads: {count}"), Role::Rival);
    libc_lines(bench.options.effort.samples, path, bench.options.quick)?.add(
        bench,
        case,
        "CPU: fprintf, one thread",
        Role::Rival,
    );
    Ok(())
}

fn is_file(path: &Path) -> bool {
    path != Path::new("/dev/null")
}

/// gpufs: every thread prints lines to one new file; how fast, and how many lines each.
pub(crate) fn by_grid(
    bench: &mut Bench,
    rings: u32,
    grid: Grid,
    path: &Path,
) -> Result<(Rates, u32), Failure> {
    let (threads, effort) = (threads_of(grid), bench.options.effort);
    let on_disk = is_file(path);
    let most = if on_disk { bench.options.file_bytes / (threads * 40) } else { u64::MAX };
    let most = u32::try_from(most).unwrap_or(u32::MAX).max(1);
    let stage = bench.stage(rings)?;
    let mut last_rounds = 1;
    let mut rates = Rates::default();
    effort.rate(most, |rounds| {
        let streams = stage.open_streams(&[path.to_owned()], "w")?;
        let arguments = print_lines::Arguments { file: streams.files[0], rounds, times: stage.times() };
        let seconds = stage.run::<print_lines::Entry>(grid, arguments)?;
        stage.close_streams(&streams)?;
        let bytes = bytes_of(threads, rounds);
        if on_disk && fs::metadata(path)?.len() != bytes {
            return Err(format!("{} bytes were printed, not {bytes}", fs::metadata(path)?.len()).into());
        }
        last_rounds = rounds;
        rates.note(threads * u64::from(rounds), bytes, seconds);
        Ok((1.0, seconds))
    })?;
    // Those before found how many rounds a sample has.
    rates.lines.drain(..rates.lines.len() - effort.samples);
    rates.bytes.drain(..rates.bytes.len() - effort.samples);
    Ok((rates, last_rounds))
}

/// How many bytes a rival writes that is held against `rounds` lines of each of the grid's threads.
pub(crate) fn span(bench: &Bench, grid: Grid, rounds: u32) -> u64 {
    // Not so little that a clock would count.
    let bytes = bytes_of(threads_of(grid), rounds).clamp(16 << 20, 1 << 30);
    bytes.min(bench.options.file_bytes).next_multiple_of(CHUNK)
}

/// The threads of the CPU that best write as many bytes as `rounds` lines of each of the grid's threads have: how many, and how fast.
pub(crate) fn by_threads(
    bench: &Bench,
    grid: Grid,
    rounds: u32,
    path: &Path,
) -> Result<(usize, Rates), Failure> {
    let threads = threads_of(grid);
    let bytes = bytes_of(threads, rounds);
    let mean = bytes as f64 / (threads * u64::from(rounds)) as f64;
    let span = span(bench, grid, rounds);
    let files = [if is_file(path) { File::create(path)? } else { both_ways(path)? }];
    let moving = Moving { means: &Plain, files: &files, writing: true, random: false, bytes: CHUNK, span };
    bench.quiet();
    let (count, rate) = moving.best_anew(bench.options.effort.samples)?;
    let mut rates = Rates::default();
    for bytes in rate.samples() {
        rates.lines.push(bytes / mean / 1e6);
        rates.bytes.push(bytes / 1e9);
    }
    Ok((count, rates))
}

/// CUDA's own `printf`, its output sent to the file; only the lines that came out are counted.
#[expect(unsafe_code, reason = "the standard output of C and of this process")]
pub(crate) fn cuda_lines(bench: &mut Bench, rings: u32, grid: Grid, path: &Path) -> Result<Rates, Failure> {
    let threads = threads_of(grid);
    let samples = bench.options.effort.samples;
    // A line takes up to 64 bytes of the buffer.
    let most = (crate::gpu::PRINTF_BYTES as u64 / 64 / threads).max(1);
    let wanted = if bench.options.quick { 100_000 } else { 1_000_000 };
    let rounds = u32::try_from(u64::min(most, wanted_rounds(wanted, threads)))?;
    let stage = bench.stage(rings)?;
    let mut rates = Rates::default();
    let counted = is_file(path);
    std::io::stdout().flush()?;
    for sample in 0..=samples {
        let file = if counted { File::create(path)? } else { both_ways(path)? };
        // SAFETY:
        // - descriptors of this process; the old one is put back below
        let kept = unsafe {
            libc::fflush(std::ptr::null_mut());
            let kept = libc::dup(1);
            libc::dup2(file.as_raw_fd(), 1);
            kept
        };
        let started = Instant::now();
        let ran = stage.run::<print_cuda::Entry>(grid, print_cuda::Arguments { rounds });
        // SAFETY:
        // - all streams of C
        unsafe { libc::fflush(std::ptr::null_mut()) };
        let seconds = started.elapsed().as_secs_f64();
        // SAFETY:
        // - puts back the descriptor that was kept
        unsafe {
            libc::dup2(kept, 1);
            libc::close(kept);
        }
        ran?;
        let (lines, bytes) = if counted {
            let text = fs::read(path)?;
            (text.iter().filter(|&&byte| byte == b'\n').count() as u64, text.len() as u64)
        } else {
            (threads * u64::from(rounds), bytes_of(threads, rounds))
        };
        // The first makes the buffer.
        if sample > 0 {
            rates.note(lines, bytes, seconds);
        }
    }
    Ok(rates)
}

fn wanted_rounds(lines: u64, threads: u64) -> u64 {
    (lines / threads).max(1)
}

/// The C library's `fprintf` of such lines in one thread.
#[expect(unsafe_code, reason = "the C library's stdio")]
pub(crate) fn libc_lines(samples: usize, path: &Path, quick: bool) -> Result<Rates, Failure> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    let lines = if quick { 50_000_u64 } else { 500_000 };
    let mut rates = Rates::default();
    for _ in 0..samples {
        let started = Instant::now();
        // SAFETY:
        // - NUL-terminated strings; closed below
        let file = unsafe { libc::fopen(path.as_ptr(), c"w".as_ptr()) };
        if file.is_null() {
            return Err(std::io::Error::last_os_error().into());
        }
        for line in 0..lines {
            // SAFETY:
            // - an open stream, and the arguments that the format names
            let printed = unsafe {
                libc::fprintf(file, c"thread %lu iter %u value %f\n".as_ptr(), line, 0_u32, line as f64 * 0.5)
            };
            if printed < 0 {
                return Err(std::io::Error::last_os_error().into());
            }
        }
        // SAFETY:
        // - opened above, used no more
        unsafe { libc::fclose(file) };
        rates.note(lines, bytes_of(lines, 1), started.elapsed().as_secs_f64());
    }
    Ok(rates)
}
