//! `plots`: what the others measure, over sizes, in a short run: a few plots whose files are called the same on every machine.
//!
//! gpufs' line is its best way at each size, which one short sample of each way shows; the rivals' are theirs with as many threads as do
//! best. A plot of one point is not drawn.

use std::path::Path;

use gpufs_bench_kernels::MOST_FILES;
use gpufs_host::Grid;

use crate::bench::Bench;
use crate::cpu::{Means, Plain};
use crate::failure::Failure;
use crate::gpu::Staging;
use crate::latency::Landing;
use crate::read::{Piece, Source, pieces, reading_ways};
use crate::report::{Place, Role, size};
use crate::sample::Spread;
use crate::scratch::{Access, Scratch, in_memory};
use crate::write::Target;
use crate::{iops, latency, print, read, write};

const NAME: &str = "plots";

const UNIT: &str = "GB/s";
const BYTES: &str = "bytes of a request: up to 4K each lane's own, above each warp's";

/// One plot in progress.
struct Plot {
    /// Its file's name.
    name: &'static str,
    title: String,
    axis: &'static str,
    unit: &'static str,
}

impl Plot {
    /// Notes a point of a line.
    fn point(&self, bench: &mut Bench, x: f64, role: Role, line: &str, spread: Spread) {
        let (plot, title) = (self.name.to_owned(), Some(self.title.clone()));
        let place = Place { plot, title, axis: self.axis, x };
        bench.figure(NAME, &format!("{}, at {x}", self.name), line, role, self.unit, spread, Some(place));
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let rings = bench.most_rings();
    bench.progress.parts(6);
    reading(bench, rings)?;
    bench.progress.part_done();
    writing(bench, rings, Target::null(1, bench.options.file_bytes), "write-nowhere")?;
    bench.progress.part_done();
    match in_memory() {
        Some(memory) => {
            let scratch = Scratch::new(memory, NAME)?;
            let target = Target::files("tmpfs", &scratch, MOST_FILES, bench.options.file_bytes)?;
            writing(bench, rings, target, "write-tmpfs")?;
        }
        None => bench.report.skip(NAME, "write-tmpfs", "there is no /dev/shm"),
    }
    bench.progress.part_done();
    printing(bench, rings)?;
    bench.progress.part_done();
    waiting(bench)?;
    bench.progress.part_done();
    operating(bench)
}

/// The sizes of a plot over bytes.
fn sizes(bench: &Bench) -> Vec<Piece> {
    let sizes = bench.options.sizes.clone();
    let sizes = sizes.unwrap_or_else(|| vec![64, 512, 4096, 16 << 10, 64 << 10, 256 << 10, 1 << 20]);
    pieces(&sizes, bench.warps()[0], bench.options.memory as u64)
}

fn reading(bench: &mut Bench, rings: u32) -> Result<(), Failure> {
    let plot = Plot {
        name: "read",
        title: format!("Reading from the page cache into device memory, rings: {rings}"),
        axis: BYTES,
        unit: UNIT,
    };
    let effort = bench.options.effort;
    let scratch = Scratch::new(&bench.options.directory, NAME)?;
    let span = bench.options.file_bytes;
    let source = Source { path: scratch.filled("read", span)?, span, access: Access::Cached };
    for piece in sizes(bench).into_iter().filter(|piece| piece.bytes <= span) {
        bench.step(&format!("read {}", piece.name()));
        let x = piece.size as f64;
        let ways = reading_ways(std::slice::from_ref(&piece));
        let (_, (_, ours)) = bench.best(rings, effort, &ways, |stage, effort, (_, way)| {
            read::transferred(stage, effort, &source, &piece, way)
        })?;
        plot.point(bench, x, Role::Ours, "gpufs: pread", ours);
        if bench.gpu.is_some() {
            let bus = read::loaded(bench.stage(rings)?, effort, &piece)?;
            plot.point(bench, x, Role::Rival, "GPU: loads from pinned memory, no file", bus);
        }
        bench.quiet();
        let by_cpu = read::by_threads(&source, &piece, &Plain, effort, Some(rings as usize))?.1;
        plot.point(bench, x, Role::Rival, "CPU: pread into its own memory, as many threads as rings", by_cpu);
        if let Some(gpu) = &bench.gpu {
            let staged = read::by_threads(&source, &piece, &Staging(gpu), effort, None)?.1;
            plot.point(
                bench,
                x,
                Role::Rival,
                "CPU: pread and cudaMemcpy, the best number of threads",
                staged,
            );
        }
        if let Some((name, rate)) = read::by_cufile(bench, NAME, &source, &piece, rings)? {
            plot.point(bench, x, Role::Rival, &name, rate);
        }
    }
    Ok(())
}

fn writing(bench: &mut Bench, rings: u32, target: Target, name: &'static str) -> Result<(), Failure> {
    let effort = bench.options.effort;
    let title =
        format!("Writing device memory to {}, files: {}, rings: {rings}", target.name, target.paths.len());
    let plot = Plot { name, title, axis: BYTES, unit: UNIT };
    for piece in sizes(bench).into_iter().filter(|piece| piece.bytes <= target.span) {
        bench.step(&format!("{name} {}", piece.name()));
        let x = piece.size as f64;
        let one = std::slice::from_ref(&piece);
        let (_, (_, ours)) = bench.best(rings, effort, &write::writing_ways(one), |stage, effort, way| {
            write::written(stage, effort, &target, one, way)
        })?;
        plot.point(bench, x, Role::Ours, "gpufs: fwrite or pwrite", ours);
        if bench.gpu.is_some() {
            let bus = write::stored(bench.stage(rings)?, effort, &piece)?;
            plot.point(bench, x, Role::Rival, "GPU: stores to pinned memory, no file", bus);
        }
        bench.quiet();
        let by_cpu = write::by_threads(&target, &piece, &Plain, effort, None)?.1;
        let line = "CPU: pwrite of its own memory, the best number of threads";
        plot.point(bench, x, Role::Rival, line, by_cpu);
        if let Some(gpu) = &bench.gpu {
            let staged = write::by_threads(&target, &piece, &Staging(gpu), effort, None)?.1;
            let line = "CPU: cudaMemcpy and pwrite, the best number of threads";
            plot.point(bench, x, Role::Rival, line, staged);
        }
    }
    Ok(())
}

fn printing(bench: &mut Bench, rings: u32) -> Result<(), Failure> {
    let plot = Plot {
        name: "print",
        title: format!("Lines to /dev/null, every thread's, rings: {rings}"),
        axis: "threads of the grid",
        unit: "Mlines/s",
    };
    let path = Path::new("/dev/null");
    let blocks = bench.gpu.as_ref().map_or(1, |gpu| gpu.multiprocessors);
    let grids = [(1, 32), (1, 128), (4, 128), (8, 256)];
    let one_thread = print::libc_lines(bench.options.effort.samples, path, bench.options.quick)?.lines;
    for (each, threads) in grids {
        let grid = Grid { blocks: each * blocks, threads };
        let count = print::threads_of(grid);
        bench.step(&format!("print, threads: {count}"));
        let ours = print::by_grid(bench, rings, grid, path)?.0;
        let x = count as f64;
        plot.point(bench, x, Role::Ours, "gpufs: fprintf", Spread::of(ours.lines));
        if bench.gpu.is_some() {
            let lines = print::cuda_lines(bench, rings, grid, path)?.lines;
            plot.point(bench, x, Role::Rival, "CUDA: printf", Spread::of(lines));
        }
        plot.point(bench, x, Role::Rival, "CPU: fprintf, one thread", Spread::of(one_thread.clone()));
    }
    Ok(())
}

fn waiting(bench: &mut Bench) -> Result<(), Failure> {
    let plot = Plot {
        name: "latency",
        title: "One pread from the page cache, at a random place".to_owned(),
        axis: "bytes",
        unit: "µs",
    };
    let (runs, rings) = (bench.options.effort.samples, bench.rings(&[1])[0]);
    let scratch = Scratch::new(&bench.options.directory, NAME)?;
    let span = bench.options.file_bytes.min(16 << 20);
    let path = scratch.filled("latency", span)?;
    for piece in sizes(bench).into_iter().filter(|piece| piece.size <= span) {
        let (bytes, x) = (piece.size, piece.size as f64);
        bench.step(&format!("latency of {}", size(bytes)));
        // Long reads take long.
        let rounds = u32::try_from((8 << 20) / bytes)?.clamp(20, 200);
        for landing in [Landing::Registered, Landing::DeviceOfWarp] {
            let found = latency::pread(bench.stage(rings)?, (&path, span), bytes, landing, (runs, rounds))?;
            plot.point(bench, x, Role::Ours, landing.name(), found.p50());
        }
        bench.quiet();
        let mut rivals: Vec<(&str, Box<dyn Means + '_>)> = vec![("one CPU thread: pread", Box::new(Plain))];
        if let Some(gpu) = &bench.gpu {
            rivals.push(("one CPU thread: pread and cudaMemcpy", Box::new(Staging(gpu))));
        }
        let mut points = Vec::new();
        for (line, means) in rivals {
            points.push((line, latency::by_one_thread(&*means, (&path, span), bytes, (runs, rounds))?.p50()));
        }
        for (line, spread) in points {
            plot.point(bench, x, Role::Rival, line, spread);
        }
    }
    Ok(())
}

fn operating(bench: &mut Bench) -> Result<(), Failure> {
    let (effort, warps) = (bench.options.effort, bench.warps()[0]);
    let plot = Plot { name: "iops", title: format!("NOPs of {warps} warps"), axis: "rings", unit: "M/s" };
    bench.quiet();
    let mut rivals = Vec::new();
    for (line, sqpoll) in [("one core with io_uring", false), ("one core with io_uring, SQPOLL", true)] {
        bench.step(line);
        rivals.push((line, iops::one_core(sqpoll, effort)?));
    }
    for rings in bench.rings(&[1, 2, 4, 8]) {
        bench.step(&format!("NOPs, rings: {rings}"));
        let x = f64::from(rings);
        let ours = iops::of_warps(bench.stage(rings)?, effort, warps)?;
        plot.point(bench, x, Role::Ours, "gpufs", ours);
        for (line, rate) in &rivals {
            plot.point(bench, x, Role::Rival, line, rate.clone());
        }
    }
    Ok(())
}
