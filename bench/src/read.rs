//! `read`: from the page cache, and past it.

use std::path::PathBuf;

use gpufs_bench_kernels::calls::{COPIED, DIRECT, IN_PLACE, JOINED, Transfers, read_pieces};
use gpufs_bench_kernels::rivals::load_raw;

use crate::bench::Bench;
use crate::cpu::{Means, Moving, Plain};
use crate::cufile::{self, Reading};
use crate::failure::Failure;
use crate::gpu::Staging;
use crate::report::{Place, Role, size};
use crate::sample::{Effort, Spread};
use crate::scratch::{Access, Scratch, both_ways};
use crate::stage::{Stage, WIDTH, grid_of};

const NAME: &str = "read";
const UNIT: &str = "GB/s";
/// Requests up to here are a lane's each; larger ones are a warp's.
const LANE_BYTES: u64 = 4096;

/// What one warp moves at a time.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Bytes of one request.
    pub(crate) size: u64,
    /// Bytes of the whole.
    pub(crate) bytes: u64,
    /// Warps that do so.
    pub(crate) warps: u32,
}

impl Piece {
    /// Whose request has this size.
    pub(crate) fn request(&self) -> String {
        format!("{} a {}", size(self.size), if self.size > LANE_BYTES { "warp" } else { "lane" })
    }
    /// That, and how many warps ask.
    pub(crate) fn name(&self) -> String {
        format!("{}, warps: {}", self.request(), self.warps)
    }
}

/// How a warp asks for its piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Each lane asks for its share, in device memory.
    Shares,
    /// One lane asks for all of it, in device memory, and the others do not call.
    Alone,
    /// One lane asks for all of it, in device memory, and the others call with no bytes.
    Joined,
    /// In registered memory; the warp copies between that and device memory.
    Copied,
    /// In registered memory, where it stays.
    InPlace,
}

impl Way {
    /// Those between a file and device memory.
    pub(crate) const OF_DEVICE_MEMORY: [Self; 4] = [Self::Shares, Self::Alone, Self::Joined, Self::Copied];
    pub(crate) const ALL: [Self; 5] = [Self::Shares, Self::Alone, Self::Joined, Self::Copied, Self::InPlace];

    pub(crate) fn name(self, writing: bool) -> &'static str {
        match (self, writing) {
            (Self::Shares, false) => "gpufs: pread into device memory",
            (Self::Alone, false) => "gpufs: pread into device memory, by one lane of the warp",
            (Self::Joined, false) => "gpufs: pread into device memory, one lane's, all calling",
            (Self::Copied, false) => "gpufs: pread, load into device memory",
            (Self::InPlace, false) => "gpufs: pread into registered memory",
            (Self::Shares, true) => "gpufs: pwrite, from device memory",
            (Self::Alone, true) => "gpufs: pwrite, from device memory, by one lane of the warp",
            (Self::Joined, true) => "gpufs: pwrite, from device memory, one lane's, all calling",
            (Self::Copied, true) => "gpufs: store to registered memory, pwrite",
            (Self::InPlace, true) => "gpufs: pwrite of registered memory",
        }
    }
    /// Whether it is one of its own for this piece, and its requests are multiples of `granule`.
    pub(crate) fn suits(self, piece: &Piece, granule: u64) -> bool {
        let same = piece.size <= LANE_BYTES && matches!(self, Self::Alone | Self::Joined);
        !same && self.request(piece).is_multiple_of(granule)
    }
    /// Bytes of one lane's request.
    pub(crate) fn request(self, piece: &Piece) -> u64 {
        match self {
            Self::Shares => piece.bytes / u64::from(WIDTH),
            Self::Alone | Self::Joined | Self::Copied | Self::InPlace => piece.size,
        }
    }
    /// What the kernel is told.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Shares | Self::Alone => DIRECT,
            Self::Joined => JOINED,
            Self::Copied => COPIED,
            Self::InPlace => IN_PLACE,
        }
    }
}

/// The pieces of these sizes, for as many of the warps as there is memory for.
pub(crate) fn pieces(sizes: &[u64], warps: u32, memory: u64) -> Vec<Piece> {
    let of_size = |&size: &u64| {
        let whole = size > LANE_BYTES;
        let bytes = if whole { size } else { size * u64::from(WIDTH) };
        let room = u32::try_from(memory / bytes).unwrap_or(u32::MAX);
        let warps = warps.min(room);
        let warps = if warps > 4 { warps / 4 * 4 } else { warps };
        (warps > 0).then_some(Piece { size, bytes, warps })
    };
    sizes.iter().filter_map(of_size).collect()
}

/// The pieces of one size by as many warps as there is memory for; where that bounds them, by half as many, too: many keep the bus busy while
/// rings are slow, few keep what they wait for in the processor's cache.
pub(crate) fn choices(size: u64, warps: u32, memory: u64) -> Vec<Piece> {
    let mut found = pieces(&[size], warps, memory);
    let fewer = pieces(&[size], warps, memory / 2).pop();
    found.extend(fewer.filter(|fewer| fewer.warps < warps / 2));
    found
}

/// The ways into device memory, for each of the pieces: which, and how.
pub(crate) fn reading_ways(pieces: &[Piece]) -> Vec<(String, (usize, Way))> {
    let of = |(index, piece): (usize, &Piece)| {
        let (piece, warps) = (piece.clone(), piece.warps);
        let suiting = Way::OF_DEVICE_MEMORY.into_iter().filter(move |way| way.suits(&piece, 1));
        suiting.map(move |way| (format!("{}, warps: {warps}", way.name(false)), (index, way)))
    };
    pieces.iter().enumerate().flat_map(of).collect()
}

/// The best of several pieces' rates.
pub(crate) fn best_of(
    pieces: &[Piece],
    rate: impl FnMut(&Piece) -> Result<Spread, Failure>,
) -> Result<Spread, Failure> {
    let rates: Result<Vec<Spread>, Failure> = pieces.iter().map(rate).collect();
    let best = rates?.into_iter().max_by(|one, other| one.median().total_cmp(&other.median()));
    best.ok_or_else(|| "there is no piece".into())
}

/// A rate in GB/s.
pub(crate) fn gigabytes(spread: &Spread) -> Spread {
    Spread::of(spread.samples().iter().map(|rate| rate / 1e9).collect())
}

/// A file that is read.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// Bytes of it.
    pub(crate) span: u64,
    pub(crate) access: Access,
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let sizes = bench.options.sizes.clone().unwrap_or_else(|| vec![4096, 64 << 10, 1 << 20]);
    let scratch = Scratch::new(&bench.options.directory, NAME)?;
    let span = bench.options.file_bytes;
    let path = scratch.filled("read", span)?;
    let cached = Source { path: path.clone(), span, access: Access::Cached };
    let rings = bench.rings(&[1, 4, 8]);
    for &rings in &rings {
        for warps in bench.warps() {
            for piece in pieces(&sizes, warps, bench.options.memory as u64) {
                one(bench, &cached, &piece, rings)?;
            }
        }
    }
    let direct = Source { path, span, access: Access::Direct };
    if let Some(reason) = direct.access.refusal(&direct.path) {
        bench.report.skip(NAME, "--dir with direct I/O", reason);
        return Ok(());
    }
    // What is not on the disk yet would have to be written first.
    both_ways(&direct.path)?.sync_all()?;
    let (most, warps) = (rings[rings.len() - 1], bench.warps()[0]);
    for piece in pieces(&sizes, warps, bench.options.memory as u64) {
        if piece.size >= direct.access.granule() {
            one(bench, &direct, &piece, most)?;
        }
    }
    Ok(())
}

fn one(bench: &mut Bench, source: &Source, piece: &Piece, rings: u32) -> Result<(), Failure> {
    let effort = bench.options.effort;
    let direct = source.access == Access::Direct;
    let order = if piece.size <= LANE_BYTES { "random" } else { "in order" };
    let past = if direct { ", direct I/O" } else { "" };
    let case = format!("{}, {order}, rings: {rings}{past}", piece.name());
    bench.step(&format!("read {case}"));
    if piece.bytes > source.span {
        bench.report.skip(NAME, &case, "larger than the file; see --file-bytes");
        return Ok(());
    }
    let what = if direct { "reading the disk" } else { "reading from the page cache" };
    let place =
        Place { plot: format!("{what}, rings {rings}"), title: None, axis: "bytes", x: piece.size as f64 };
    let mut figures = Vec::new();
    for way in Way::ALL.into_iter().filter(|way| way.suits(piece, source.access.granule())) {
        let rate = transferred(bench.stage(rings)?, effort, source, piece, way)?;
        figures.push((Role::Ours, way.name(false).to_owned(), rate));
    }
    let bus = "GPU: loads from pinned memory, no file";
    if bench.gpu.is_none() {
        for name in [bus, "GPU: pread and cudaMemcpy", "cuFile"] {
            bench.report.skip(NAME, name, "needs a GPU");
        }
    } else if !direct {
        figures.push((Role::Rival, bus.to_owned(), loaded(bench.stage(rings)?, effort, piece)?));
    }
    bench.quiet();
    let rate = by_threads(source, piece, &Plain, effort, Some(rings as usize))?.1;
    figures.push((Role::Rival, "CPU: pread, as many threads as rings".to_owned(), rate));
    if let Some(gpu) = &bench.gpu {
        let (threads, rate) = by_threads(source, piece, &Staging(gpu), effort, None)?;
        figures.push((Role::Rival, format!("CPU: pread and cudaMemcpy, threads: {threads}"), rate));
    }
    if let Some((name, rate)) = by_cufile(bench, NAME, source, piece, rings)? {
        figures.push((Role::Rival, name, rate));
    }
    for (role, name, spread) in figures {
        bench.figure(NAME, &case, &name, role, UNIT, spread, Some(place.clone()));
    }
    Ok(())
}

/// gpufs: every warp reads pieces, small ones at random places.
pub(crate) fn transferred(
    stage: &mut Stage,
    effort: Effort,
    source: &Source,
    piece: &Piece,
    way: Way,
) -> Result<Spread, Failure> {
    let (indices, handle) = stage.register(vec![source.access.open(&source.path)?])?;
    let mut job = Transfers {
        files: handle,
        file_count: 1,
        way: way.number(),
        random: u32::from(piece.size <= LANE_BYTES),
        request: way.request(piece),
        piece: piece.bytes,
        pinned: stage.pinned(),
        device: stage.device(),
        span: source.span / piece.bytes * piece.bytes,
        first: 0,
        supply: stage.supply(0)?,
        times: stage.times(),
    };
    let rate = effort.rate(u32::MAX, |rounds| {
        job.supply = stage.supply(u64::from(rounds) * u64::from(piece.warps))?;
        let seconds =
            stage.run_timed::<read_pieces::Entry>(grid_of(piece.warps), read_pieces::Arguments { job })?;
        job.first += job.supply.pieces;
        Ok((f64::from(piece.warps) * piece.bytes as f64 * f64::from(rounds), seconds))
    })?;
    stage.unregister(&indices)?;
    Ok(gigabytes(&rate))
}

/// Threads of the CPU that read such requests: how many, by default the number that does best, and their rate.
pub(crate) fn by_threads(
    source: &Source,
    piece: &Piece,
    means: &dyn Means,
    effort: Effort,
    threads: Option<usize>,
) -> Result<(usize, Spread), Failure> {
    let files = [source.access.open(&source.path)?];
    let random = piece.size <= LANE_BYTES;
    let moving =
        Moving { means, files: &files, writing: false, random, bytes: piece.size, span: source.span };
    let (threads, rate) = match threads {
        Some(threads) => (threads, moving.rate(effort, threads)?),
        None => moving.best(effort)?,
    };
    Ok((threads, gigabytes(&rate)))
}

/// cuFile with as many threads as rings: what was measured, and its rate. `None` where it cannot be had, which the report then says.
pub(crate) fn by_cufile(
    bench: &mut Bench,
    benchmark: &'static str,
    source: &Source,
    piece: &Piece,
    rings: u32,
) -> Result<Option<(String, Spread)>, Failure> {
    let effort = bench.options.effort;
    bench.quiet();
    let (library, gpu, place) = match bench.cufile_place(&source.path, source.span) {
        Ok(all) => all,
        Err(reason) => {
            bench.report.skip(benchmark, "cuFile", reason);
            return Ok(None);
        }
    };
    let of = place.instead.map_or_else(String::new, |place| format!(", of a file on {place}"));
    let taken = Source { path: place.path.clone(), ..*source };
    let measured = Reading::open(library, gpu, &taken.path, piece.size).and_then(|reading| {
        let name = format!("cuFile, as many threads as rings{of}{}", reading.note());
        let rate = by_threads(&taken, piece, &reading, effort, Some(rings as usize));
        rate.map(|(_, rate)| (name, rate)).map_err(|error| format!("{error}{}", cufile::logged()).into())
    });
    match measured {
        Ok(measured) => Ok(Some(measured)),
        Err(error) => {
            bench.report.skip(benchmark, format!("cuFile, {}", piece.name()), error.to_string());
            Ok(None)
        }
    }
}

/// Loads alone.
pub(crate) fn loaded(stage: &mut Stage, effort: Effort, piece: &Piece) -> Result<Spread, Failure> {
    let (device, pinned, times, bytes) = (stage.device(), stage.pinned(), stage.times(), piece.bytes);
    let rate = effort.rate(u32::MAX, |rounds| {
        let arguments = load_raw::Arguments { device, pinned, piece: bytes, rounds, times };
        let seconds = stage.run_timed::<load_raw::Entry>(grid_of(piece.warps), arguments)?;
        Ok((f64::from(piece.warps) * bytes as f64 * f64::from(rounds), seconds))
    })?;
    Ok(gigabytes(&rate))
}
