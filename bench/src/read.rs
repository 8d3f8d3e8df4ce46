//! `read`: from the page cache.

use gpufs_bench_kernels::calls::{COPIED, DIRECT, IN_PLACE, Transfers, read_pieces};
use gpufs_bench_kernels::rivals::load_raw;

use crate::cpu::Moving;
use crate::report::{Place, Role, size};
use crate::sample::{Effort, Spread};
use crate::scratch::{Scratch, both_ways};
use crate::stage::{Stage, WIDTH, grid_of};
use crate::{Bench, Failure};

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
    pub(crate) name: String,
}

impl Piece {
    /// Bytes of one lane's request. Where lanes copy, each takes its share; memory that is used in place is asked for as a whole.
    pub(crate) fn request(&self, way: u32) -> u64 {
        if way == DIRECT { self.bytes / u64::from(WIDTH) } else { self.size }
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
        let name = format!("{} a {}, warps: {warps}", self::size(size), if whole { "warp" } else { "lane" });
        (warps > 0).then_some(Piece { size, bytes, warps, name })
    };
    sizes.iter().filter_map(of_size).collect()
}

/// A rate in GB/s.
pub(crate) fn gigabytes(spread: &Spread) -> Spread {
    Spread::of(spread.samples().iter().map(|rate| rate / 1e9).collect())
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let sizes = bench.options.sizes.clone().unwrap_or_else(|| vec![4096, 64 << 10, 1 << 20]);
    let scratch = Scratch::new(&bench.options.directory)?;
    let span = bench.options.file_bytes;
    let path = scratch.filled("read", span)?;
    let effort = bench.options.effort;
    // A clear place for it: it would read the same file into device memory, one thread and one request in flight at a time each.
    bench.report.skip(NAME, "cuFile", "not measured yet");
    for rings in bench.rings(&[1, 4, 8]) {
        for warps in bench.warps() {
            for piece in pieces(&sizes, warps, bench.options.memory as u64) {
                let random = piece.size <= LANE_BYTES;
                let order = if random { "random" } else { "in order" };
                let case = format!("{}, {order}, rings: {rings}", piece.name);
                bench.step(&format!("read {case}"));
                if piece.bytes > span {
                    bench.report.skip(NAME, &case, "larger than the file; see --file-bytes");
                    continue;
                }
                let plot = format!("reading from the page cache, rings {rings}");
                let place = Place { plot, axis: "bytes", x: piece.size as f64 };
                let stage = bench.stage(rings)?;
                let mut figures = Vec::new();
                let ways = [
                    (DIRECT, "gpufs: pread into device memory"),
                    (COPIED, "gpufs: pread, load into device memory"),
                    (IN_PLACE, "gpufs: pread into registered memory"),
                ];
                for (way, name) in ways {
                    let (indices, handle) = stage.register(vec![both_ways(&path)?])?;
                    let job = Transfers {
                        files: handle,
                        file_count: 1,
                        rounds: 1,
                        way,
                        random: u32::from(random),
                        request: piece.request(way),
                        piece: piece.bytes,
                        pinned: stage.pinned(),
                        device: stage.device(),
                        span: span / piece.bytes * piece.bytes,
                        first: 0,
                        times: stage.times(),
                    };
                    figures.push((Role::Ours, name.to_owned(), transferred(stage, effort, &piece, job)?));
                    stage.unregister(&indices)?;
                }
                let bus = "GPU: loads from pinned memory, no file";
                if bench.gpu.is_some() {
                    let stage = bench.stage(rings)?;
                    figures.push((Role::Rival, bus.to_owned(), loaded(stage, effort, &piece)?));
                } else {
                    bench.report.skip(NAME, bus, "needs a GPU");
                }
                let files = [both_ways(&path)?];
                let moving = Moving { files: &files, writing: false, random, bytes: piece.size, span };
                let rate = moving.rate(effort, rings as usize)?;
                figures.push((
                    Role::Rival,
                    "CPU: pread, as many threads as rings".to_owned(),
                    gigabytes(&rate),
                ));
                for (role, name, spread) in figures {
                    bench.figure(NAME, &case, &name, role, UNIT, spread, Some(place.clone()));
                }
            }
        }
    }
    Ok(())
}

fn transferred(stage: &mut Stage, effort: Effort, piece: &Piece, job: Transfers) -> Result<Spread, Failure> {
    let mut job = job;
    let rate = effort.rate(u32::MAX, |rounds| {
        job.rounds = rounds;
        let seconds =
            stage.run_timed::<read_pieces::Entry>(grid_of(piece.warps), read_pieces::Arguments { job })?;
        job.first += u64::from(rounds) * u64::from(piece.warps);
        Ok((f64::from(piece.warps) * piece.bytes as f64 * f64::from(rounds), seconds))
    })?;
    Ok(gigabytes(&rate))
}

/// Loads alone.
fn loaded(stage: &mut Stage, effort: Effort, piece: &Piece) -> Result<Spread, Failure> {
    let (device, pinned, times, bytes) = (stage.device(), stage.pinned(), stage.times(), piece.bytes);
    let rate = effort.rate(u32::MAX, |rounds| {
        let arguments = load_raw::Arguments { device, pinned, piece: bytes, rounds, times };
        let seconds = stage.run_timed::<load_raw::Entry>(grid_of(piece.warps), arguments)?;
        Ok((f64::from(piece.warps) * bytes as f64 * f64::from(rounds), seconds))
    })?;
    Ok(gigabytes(&rate))
}
