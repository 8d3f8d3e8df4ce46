//! `write`: streams and `pwrite`, to nowhere, to memory, to a disk's page cache, to a disk past that.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;

use gpufs_bench_kernels::MOST_FILES;
use gpufs_bench_kernels::calls::{Transfers, Writes, write_pieces, write_streams};
use gpufs_bench_kernels::rivals::store_raw;
use gpufs_bench_kernels::steps::{WRITE_STEPS, write_steps};

use crate::bench::Bench;
use crate::cpu::{Means, Moving, Plain};
use crate::failure::Failure;
use crate::gpu::Staging;
use crate::read::{Piece, Way, gigabytes, pieces};
use crate::report::{Place, Role, size};
use crate::sample::{Effort, Spread};
use crate::scratch::{Access, Scratch, in_memory};
use crate::stage::{Stage, WIDTH, grid_of};

const NAME: &str = "write";
const UNIT: &str = "GB/s";

/// What is written to.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) paths: Vec<PathBuf>,
    /// Bytes of each that are used.
    pub(crate) span: u64,
    /// Whether more than `span` may be written to a stream.
    pub(crate) endless: bool,
    pub(crate) access: Access,
}

impl Target {
    /// Nowhere, as so many files of `bytes` in all.
    pub(crate) fn null(count: usize, bytes: u64) -> Self {
        let paths = vec!["/dev/null".into(); count];
        Self {
            name: "/dev/null",
            paths,
            span: Self::span(count, bytes),
            endless: true,
            access: Access::Cached,
        }
    }
    /// So many files of `bytes` in all, made here.
    pub(crate) fn files(
        name: &'static str,
        scratch: &Scratch,
        count: usize,
        bytes: u64,
    ) -> Result<Self, Failure> {
        let span = Self::span(count, bytes);
        let paths: Result<Vec<_>, _> =
            (0..count).map(|number| scratch.filled(&format!("write-{number}"), span)).collect();
        Ok(Self { name, paths: paths?, span, endless: false, access: Access::Cached })
    }
    fn span(count: usize, bytes: u64) -> u64 {
        (bytes / count as u64).max(4 << 20)
    }
    fn open(&self) -> Result<Vec<File>, Failure> {
        if self.access == Access::Direct {
            return self.paths.iter().map(|path| self.access.open(path)).collect();
        }
        let open = |path: &PathBuf| {
            let file = OpenOptions::new().write(true).open(path);
            file.map_err(|error| format!("{}: {error}", path.display()).into())
        };
        self.paths.iter().map(open).collect()
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let sizes = bench.options.sizes.clone().unwrap_or_else(|| vec![64, 64 << 10, 1 << 20]);
    let disk = Scratch::new(&bench.options.directory, NAME)?;
    let memory = in_memory().map(|parent| Scratch::new(parent, NAME)).transpose()?;
    for count in [1, MOST_FILES] {
        let bytes = bench.options.file_bytes;
        let mut targets = vec![Target::null(count, bytes)];
        if let Some(memory) = &memory {
            targets.push(Target::files("tmpfs", memory, count, bytes)?);
        } else {
            bench.report.skip(NAME, "tmpfs", "there is no /dev/shm");
        }
        targets.push(Target::files("--dir", &disk, count, bytes)?);
        for target in &targets {
            for warps in bench.warps() {
                for piece in pieces(&sizes, warps, bench.options.memory as u64) {
                    one(bench, target, &piece)?;
                }
            }
        }
    }
    // One file is enough to see the disk.
    let mut direct = Target::files("--dir with direct I/O", &disk, 1, bench.options.file_bytes)?;
    direct.access = Access::Direct;
    if let Some(reason) = direct.access.refusal(&direct.paths[0]) {
        bench.report.skip(NAME, direct.name, reason);
        return Ok(());
    }
    for piece in pieces(&sizes, bench.warps()[0], bench.options.memory as u64) {
        if piece.size >= direct.access.granule() {
            one(bench, &direct, &piece)?;
        }
    }
    Ok(())
}

fn one(bench: &mut Bench, target: &Target, piece: &Piece) -> Result<(), Failure> {
    let count = target.paths.len();
    let case = format!("{}, {}, files: {count}", piece.name(), target.name);
    bench.step(&format!("write {case}"));
    let place = Place {
        plot: format!("writing to {}, files {count}", target.name),
        title: None,
        axis: "bytes",
        x: piece.size as f64,
    };
    let effort = bench.options.effort;
    let direct = target.access == Access::Direct;
    let rings = bench.rings(&[4, 2, 1])[0];
    let stage = bench.stage(rings)?;
    let mut figures = Vec::new();
    // A stream opens its file itself, through the page cache.
    if !direct {
        figures.push((Role::Ours, STREAM.to_owned(), streamed(stage, effort, target, piece)?));
    }
    for way in Way::ALL.into_iter().filter(|way| way.suits(piece, target.access.granule())) {
        figures.push((Role::Ours, way.name(true).to_owned(), placed(stage, effort, target, piece, way)?));
    }
    let bus = "GPU: stores to pinned memory, no file";
    if bench.gpu.is_none() {
        for name in [bus, "CPU: cudaMemcpy and pwrite"] {
            bench.report.skip(NAME, name, "needs a GPU");
        }
    } else if !direct {
        figures.push((Role::Rival, bus.to_owned(), stored(bench.stage(rings)?, effort, piece)?));
    }
    bench.quiet();
    let (threads, rate) = by_threads(target, piece, &Plain, effort, None)?;
    figures.push((Role::Rival, format!("CPU: pwrite, threads: {threads}"), rate));
    if let Some(gpu) = &bench.gpu {
        let (threads, rate) = by_threads(target, piece, &Staging(gpu), effort, None)?;
        figures.push((Role::Rival, format!("CPU: cudaMemcpy and pwrite, threads: {threads}"), rate));
    }
    for (role, name, spread) in figures {
        bench.figure(NAME, &case, &name, role, UNIT, spread, Some(place.clone()));
    }
    Ok(())
}

/// What [`streamed`] measures.
pub(crate) const STREAM: &str = "gpufs: fwrite, from device memory";

/// Through streams: each lane writes its share of the piece.
pub(crate) fn streamed(
    stage: &mut Stage,
    effort: Effort,
    target: &Target,
    piece: &Piece,
) -> Result<Spread, Failure> {
    let bytes = piece.bytes / u64::from(WIDTH);
    let round = u64::from(piece.warps) * piece.bytes;
    let most =
        if target.endless { u64::from(u32::MAX) } else { target.span * target.paths.len() as u64 / round };
    let rate = effort.rate(u32::try_from(most).unwrap_or(u32::MAX), |rounds| {
        let streams = stage.open_streams(&target.paths, "r+")?;
        let job = Writes {
            streams: streams.handle,
            stream_count: u32::try_from(streams.files.len())?,
            rounds,
            bytes,
            device: stage.device(),
            times: stage.times(),
        };
        // With what is still in the streams' buffers when the kernel ends.
        let seconds =
            stage.run::<write_streams::Entry>(grid_of(piece.warps), write_streams::Arguments { job })?;
        stage.close_streams(&streams)?;
        Ok((round as f64 * f64::from(rounds), seconds))
    })?;
    Ok(gigabytes(&rate))
}

/// Where the time of a stream's calls goes, by the core's steps: microseconds of each, of every warp.
pub(crate) fn stepped(stage: &mut Stage, warps: u32) -> Result<Vec<(&'static str, Spread)>, Failure> {
    let rounds = 2_000;
    let streams = stage.open_streams(&["/dev/null".into()], "r+")?;
    let (file, device, times) = (streams.files[0], stage.device(), stage.times());
    stage
        .run::<write_steps::Entry>(grid_of(warps), write_steps::Arguments { file, rounds, device, times })?;
    let sums = stage.samples_us(warps * u32::try_from(WRITE_STEPS.len())?);
    stage.close_streams(&streams)?;
    let of = |index: usize| sums.iter().skip(index).step_by(WRITE_STEPS.len());
    let spread = |index| Spread::of(of(index).map(|sum| sum / f64::from(rounds)).collect());
    Ok(WRITE_STEPS.into_iter().enumerate().map(|(index, step)| (step, spread(index))).collect())
}

/// Each warp its pieces, each at its own place.
pub(crate) fn placed(
    stage: &mut Stage,
    effort: Effort,
    target: &Target,
    piece: &Piece,
    way: Way,
) -> Result<Spread, Failure> {
    let (indices, handle) = stage.register(target.open()?)?;
    let round = u64::from(piece.warps) * piece.bytes;
    let mut first = 0;
    let rate = effort.rate(u32::MAX, |rounds| {
        let job = Transfers {
            files: handle,
            file_count: u32::try_from(indices.len())?,
            way: way.number(),
            random: 0,
            request: way.request(piece),
            piece: piece.bytes,
            pinned: stage.pinned(),
            device: stage.device(),
            span: target.span / piece.bytes * piece.bytes,
            first,
            supply: stage.supply(u64::from(rounds) * u64::from(piece.warps))?,
            times: stage.times(),
        };
        first += job.supply.pieces;
        let seconds =
            stage.run_timed::<write_pieces::Entry>(grid_of(piece.warps), write_pieces::Arguments { job })?;
        Ok((round as f64 * f64::from(rounds), seconds))
    })?;
    stage.unregister(&indices)?;
    Ok(gigabytes(&rate))
}

/// Threads of the CPU that write such requests: how many, by default the number that does best, and their rate.
pub(crate) fn by_threads(
    target: &Target,
    piece: &Piece,
    means: &dyn Means,
    effort: Effort,
    threads: Option<usize>,
) -> Result<(usize, Spread), Failure> {
    let files = target.open()?;
    let moving =
        Moving { means, files: &files, writing: true, random: false, bytes: piece.size, span: target.span };
    let (threads, rate) = match threads {
        Some(threads) => (threads, moving.rate(effort, threads)?),
        None => moving.best(effort)?,
    };
    Ok((threads, gigabytes(&rate)))
}

/// Stores alone.
pub(crate) fn stored(stage: &mut Stage, effort: Effort, piece: &Piece) -> Result<Spread, Failure> {
    let (device, pinned, times, bytes) = (stage.device(), stage.pinned(), stage.times(), piece.bytes);
    let rate = effort.rate(u32::MAX, |rounds| {
        let arguments = store_raw::Arguments { device, pinned, piece: bytes, rounds, times };
        let seconds = stage.run_timed::<store_raw::Entry>(grid_of(piece.warps), arguments)?;
        Ok((f64::from(piece.warps) * bytes as f64 * f64::from(rounds), seconds))
    })?;
    Ok(gigabytes(&rate))
}

/// Bytes of a stream's block where a file is written in large pieces: the system takes a lock, and a journal an entry, for each.
pub(crate) const LARGE_BLOCK: u32 = 1 << 20;

/// Which piece, and how: by `pwrite`, or through a stream.
pub(crate) type WritingWay = (usize, Option<Way>);

/// The ways from device memory to a file, for each of the pieces.
pub(crate) fn writing_ways(pieces: &[Piece]) -> Vec<(String, WritingWay)> {
    let mut ways = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let of = |name: &str| format!("{name}, {}, warps: {}", size(piece.size), piece.warps);
        ways.push((of(STREAM), (index, None)));
        for way in Way::OF_DEVICE_MEMORY.into_iter().filter(|way| way.suits(piece, 1)) {
            ways.push((of(way.name(true)), (index, Some(way))));
        }
    }
    ways
}

/// The rate of one of them.
pub(crate) fn written(
    stage: &mut Stage,
    effort: Effort,
    target: &Target,
    pieces: &[Piece],
    (index, way): WritingWay,
) -> Result<Spread, Failure> {
    match way {
        Some(way) => placed(stage, effort, target, &pieces[index], way),
        None => streamed(stage, effort, target, &pieces[index]),
    }
}
