//! `write`: streams and `pwrite`, to nowhere, to memory, to a disk's page cache.

use std::fs::OpenOptions;
use std::path::PathBuf;

use gpufs_bench_kernels::MOST_FILES;
use gpufs_bench_kernels::calls::{COPIED, DIRECT, IN_PLACE, Transfers, Writes, write_pieces, write_streams};
use gpufs_bench_kernels::rivals::store_raw;

use crate::cpu::Moving;
use crate::read::{Piece, gigabytes, pieces};
use crate::report::{Place, Role};
use crate::sample::Spread;
use crate::scratch::{Scratch, in_memory};
use crate::stage::{Stage, WIDTH, grid_of};
use crate::{Bench, Failure};

const NAME: &str = "write";
const UNIT: &str = "GB/s";

/// What is written to.
struct Target {
    name: &'static str,
    paths: Vec<PathBuf>,
    /// Bytes of each that are used.
    span: u64,
    /// Whether more than `span` may be written to a stream.
    endless: bool,
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let sizes = bench.options.sizes.clone().unwrap_or_else(|| vec![64, 64 << 10, 1 << 20]);
    let disk = Scratch::new(&bench.options.directory)?;
    let memory = in_memory().map(Scratch::new).transpose()?;
    for count in [1, MOST_FILES] {
        let span = (bench.options.file_bytes / count as u64).max(4 << 20);
        let made = |scratch: &Scratch| -> Result<Vec<PathBuf>, Failure> {
            (0..count).map(|number| scratch.filled(&format!("write-{number}"), span)).collect()
        };
        let mut targets =
            vec![Target { name: "/dev/null", paths: vec!["/dev/null".into(); count], span, endless: true }];
        if let Some(memory) = &memory {
            targets.push(Target { name: "tmpfs", paths: made(memory)?, span, endless: false });
        } else {
            bench.report.skip(NAME, "tmpfs", "there is no /dev/shm");
        }
        targets.push(Target { name: "--dir", paths: made(&disk)?, span, endless: false });
        for target in &targets {
            for warps in bench.warps() {
                for piece in pieces(&sizes, warps, bench.options.memory as u64) {
                    one(bench, target, &piece)?;
                }
            }
        }
    }
    Ok(())
}

fn one(bench: &mut Bench, target: &Target, piece: &Piece) -> Result<(), Failure> {
    let count = target.paths.len();
    let case = format!("{}, {}, files: {count}", piece.name, target.name);
    bench.step(&format!("write {case}"));
    let place = Place {
        plot: format!("writing to {}, files {count}", target.name),
        axis: "bytes",
        x: piece.size as f64,
    };
    let effort = bench.options.effort;
    let rings = bench.rings(&[4, 2, 1])[0];
    let stage = bench.stage(rings)?;
    let mut figures = vec![(
        Role::Ours,
        "gpufs: fwrite, from device memory".to_owned(),
        streamed(stage, effort, target, piece)?,
    )];
    let ways = [
        (DIRECT, "gpufs: pwrite, from device memory"),
        (COPIED, "gpufs: store to registered memory, pwrite"),
        (IN_PLACE, "gpufs: pwrite of registered memory"),
    ];
    for (way, name) in ways {
        figures.push((Role::Ours, name.to_owned(), placed(stage, effort, target, piece, way)?));
    }
    let bus = "GPU: stores to pinned memory, no file";
    if bench.gpu.is_some() {
        let stage = bench.stage(rings)?;
        figures.push((Role::Rival, bus.to_owned(), stored(stage, effort, piece)?));
    } else {
        bench.report.skip(NAME, bus, "needs a GPU");
    }
    let files: Result<Vec<_>, _> =
        target.paths.iter().map(|path| OpenOptions::new().write(true).open(path)).collect();
    let files = files?;
    let moving = Moving { files: &files, writing: true, random: false, bytes: piece.size, span: target.span };
    let (threads, rate) = moving.best(effort)?;
    figures.push((Role::Rival, format!("CPU: pwrite, threads: {threads}"), gigabytes(&rate)));
    for (role, name, spread) in figures {
        bench.figure(NAME, &case, &name, role, UNIT, spread, Some(place.clone()));
    }
    Ok(())
}

/// Through streams: each lane writes its share of the piece.
fn streamed(
    stage: &mut Stage,
    effort: crate::sample::Effort,
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
            stream_count: streams.count,
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

/// Each warp its pieces, each at its own place.
fn placed(
    stage: &mut Stage,
    effort: crate::sample::Effort,
    target: &Target,
    piece: &Piece,
    way: u32,
) -> Result<Spread, Failure> {
    let files: Result<Vec<_>, _> =
        target.paths.iter().map(|path| OpenOptions::new().write(true).open(path)).collect();
    let (indices, handle) = stage.register(files?)?;
    let round = u64::from(piece.warps) * piece.bytes;
    let mut first = 0;
    let rate = effort.rate(u32::MAX, |rounds| {
        let job = Transfers {
            files: handle,
            file_count: u32::try_from(indices.len())?,
            rounds,
            way,
            random: 0,
            request: piece.request(way),
            piece: piece.bytes,
            pinned: stage.pinned(),
            device: stage.device(),
            span: target.span / piece.bytes * piece.bytes,
            first,
            times: stage.times(),
        };
        first += u64::from(rounds) * u64::from(piece.warps);
        let seconds =
            stage.run_timed::<write_pieces::Entry>(grid_of(piece.warps), write_pieces::Arguments { job })?;
        Ok((round as f64 * f64::from(rounds), seconds))
    })?;
    stage.unregister(&indices)?;
    Ok(gigabytes(&rate))
}

/// Stores alone.
fn stored(stage: &mut Stage, effort: crate::sample::Effort, piece: &Piece) -> Result<Spread, Failure> {
    let (device, pinned, times, bytes) = (stage.device(), stage.pinned(), stage.times(), piece.bytes);
    let rate = effort.rate(u32::MAX, |rounds| {
        let arguments = store_raw::Arguments { device, pinned, piece: bytes, rounds, times };
        let seconds = stage.run_timed::<store_raw::Entry>(grid_of(piece.warps), arguments)?;
        Ok((u64::from(piece.warps) as f64 * bytes as f64 * f64::from(rounds), seconds))
    })?;
    Ok(gigabytes(&rate))
}
