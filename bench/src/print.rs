//! `print`: every thread prints lines to one file.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gpufs_bench_kernels::calls::print_lines;
use gpufs_bench_kernels::rivals::print_cuda;
use gpufs_host::Grid;

use crate::cpu::Moving;
use crate::report::Role;
use crate::sample::Spread;
use crate::scratch::{Scratch, both_ways, in_memory};
use crate::{Bench, Failure};

const NAME: &str = "print";
/// Bytes that a CPU thread writes at a time.
const CHUNK: u64 = 64 << 10;

/// Lines and bytes of one sample, a second.
#[derive(Default)]
struct Rates {
    lines: Vec<f64>,
    bytes: Vec<f64>,
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

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let full = bench.gpu.as_ref().map(|gpu| gpu.multiprocessors);
    let grids = match full {
        Some(count) => [Grid { blocks: count, threads: 128 }, Grid { blocks: 8 * count, threads: 256 }],
        None => [Grid { blocks: 4, threads: 128 }, Grid { blocks: 8, threads: 256 }],
    };
    let scratch = Scratch::new(in_memory().unwrap_or(&bench.options.directory))?;
    let place = if in_memory().is_some() { "tmpfs" } else { "a file" };
    for grid in grids {
        let threads = u64::from(grid.blocks) * u64::from(grid.threads);
        for (target, path) in [(place, scratch.path("lines")), ("/dev/null", PathBuf::from("/dev/null"))] {
            let case = format!("lines of {threads} threads to one file, {target}");
            bench.step(&case);
            one_file(bench, &case, grid, &path)?;
        }
    }
    Ok(())
}

fn one_file(bench: &mut Bench, case: &str, grid: Grid, path: &Path) -> Result<(), Failure> {
    let threads = u64::from(grid.blocks) * u64::from(grid.threads);
    let effort = bench.options.effort;
    let most_bytes = bench.options.file_bytes;
    let most = u32::try_from(most_bytes / (threads * 40)).unwrap_or(u32::MAX).max(1);
    let on_disk = path != Path::new("/dev/null");
    let rings = bench.rings(&[4, 2, 1])[0];
    let stage = bench.stage(rings)?;
    let mut last_rounds = 1;
    let mut rates = Rates::default();
    effort.rate(most, |rounds| {
        let streams = stage.open_streams(&[path.to_owned()], "w")?;
        let arguments = print_lines::Arguments { file: streams.first, rounds, times: stage.times() };
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
    rates.add(bench, case, "gpufs: fprintf", Role::Ours);

    let name = "CUDA: printf";
    if bench.gpu.is_some() {
        cuda_lines(bench, grid, path)?.add(bench, case, name, Role::Rival);
    } else {
        bench.report.skip(NAME, name, "needs a GPU");
    }

    let mean = bytes_of(threads, last_rounds) as f64 / (threads * u64::from(last_rounds)) as f64;
    // As much as the grid printed, but not so little that starting the threads would count.
    let span =
        bytes_of(threads, last_rounds).clamp(16 << 20, 1 << 30).min(most_bytes).next_multiple_of(CHUNK);
    let files = [if on_disk { File::create(path)? } else { both_ways(path)? }];
    let moving = Moving { files: &files, writing: true, random: false, bytes: CHUNK, span };
    let (count, rate) = moving.best_anew(effort.samples)?;
    let mut rates = Rates::default();
    for bytes in rate.samples() {
        rates.lines.push(bytes / mean / 1e6);
        rates.bytes.push(bytes / 1e9);
    }
    rates.add(bench, case, &format!("CPU: pwrite of {CHUNK} bytes, threads: {count}"), Role::Rival);
    libc_lines(effort.samples, path, bench.options.quick)?.add(
        bench,
        case,
        "CPU: fprintf, one thread",
        Role::Rival,
    );
    Ok(())
}

/// CUDA's own `printf`, its output sent to the file; only the lines that came out are counted.
#[allow(unsafe_code, reason = "the standard output of C and of this process")]
fn cuda_lines(bench: &mut Bench, grid: Grid, path: &Path) -> Result<Rates, Failure> {
    let threads = u64::from(grid.blocks) * u64::from(grid.threads);
    let samples = bench.options.effort.samples;
    // A line takes up to 64 bytes of the buffer.
    let most = (crate::gpu::PRINTF_BYTES as u64 / 64 / threads).max(1);
    let wanted = if bench.options.quick { 100_000 } else { 1_000_000 };
    let rounds = u32::try_from(u64::min(most, wanted_rounds(wanted, threads)))?;
    let rings = bench.rings(&[4, 2, 1])[0];
    let stage = bench.stage(rings)?;
    let mut rates = Rates::default();
    let counted = path != Path::new("/dev/null");
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
#[allow(unsafe_code, reason = "the C library's stdio")]
fn libc_lines(samples: usize, path: &Path, quick: bool) -> Result<Rates, Failure> {
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
