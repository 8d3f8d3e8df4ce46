//! `async` and `overlap`: what asynchronous calls take, and what they save.

use std::path::Path;

use gpufs_bench_kernels::pending::{
    BESIDE, IN_TURN, Pieces, WORK, async_latency, async_reads, batch_reads, overlapped,
};
use gpufs_host::Grid;

use crate::bench::Bench;
use crate::failure::Failure;
use crate::latency::{self, Landing, Quantiles};
use crate::report::Role;
use crate::sample::{Effort, Spread};
use crate::scratch::{Scratch, both_ways};
use crate::stage::{Stage, WIDTH, grid_of};

const ASYNC: &str = "async";
const OVERLAP: &str = "overlap";
/// Bytes of a read.
const BYTES: u64 = 4096;
/// Reads in flight of a lane that has many.
const IN_FLIGHT: u32 = 32;
/// Parts of reading and of working.
const RATIOS: [(u32, u32); 3] = [(4, 1), (1, 1), (1, 4)];
/// Steps of work by which one is timed.
const UNITS: u32 = 20_000;

/// Where lanes read.
fn pieces(
    stage: &Stage,
    file: gpufs_core::session::FileIndex,
    (lanes, span): (u32, u64),
    rounds: u32,
) -> Pieces {
    let (memory, times) = (stage.device(), stage.times());
    Pieces { file, lanes, memory, bytes: BYTES, span, rounds, unused: 0, times }
}

/// One read of 4 KiB beside the call that waits, and many in flight beside the batches of warps.
pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let scratch = Scratch::new(&bench.options.directory, ASYNC)?;
    let span = bench.options.file_bytes.min(256 << 20);
    let path = scratch.filled("read", span)?;
    let (effort, rings) = (bench.options.effort, bench.rings(&[1])[0]);
    let rounds = if bench.options.quick { 1000 } else { 5000 };
    let case = "pread of 4 KiB from the page cache, submit to done";
    bench.step(case);
    let quantiles =
        latency::pread(bench.stage(rings)?, (&path, span), BYTES, Landing::Device, (effort.samples, rounds))?;
    let waits = quantiles.p50().median();
    quantiles.add_to(bench, (ASYNC, case), "the call that waits", Role::Rival);
    let quantiles = one_read(bench.stage(rings)?, (&path, span), (effort.samples, rounds))?;
    let spread = quantiles.p50();
    quantiles.add_to(bench, (ASYNC, case), "started, and waited for", Role::Ours);
    let ratio = Spread::of(spread.samples().iter().map(|one| one / waits).collect());
    bench.figure(ASYNC, case, "time started / time of the call; target ≤ 1", Role::Fact, "×", ratio, None);
    let rings = bench.most_rings();
    for warps in bench.warps() {
        let case = format!("random 4 KiB into device memory, warps: {warps}, rings: {rings}");
        bench.step(&case);
        let batch = rate(bench.stage(rings)?, (&path, span), (effort, warps), (WIDTH, None))?;
        bench.figure(ASYNC, &case, "batches of 32 lanes that wait", Role::Rival, "M/s", batch.clone(), None);
        for (lanes, in_flight) in [(1, IN_FLIGHT), (WIDTH, 4), (WIDTH, 1)] {
            let name = format!("lanes of a warp: {lanes}, in flight a lane: {in_flight}");
            let ours = rate(bench.stage(rings)?, (&path, span), (effort, warps), (lanes, Some(in_flight)))?;
            let ratio = ours.samples().iter().map(|rate| rate / batch.median()).collect();
            bench.figure(ASYNC, &case, &name, Role::Ours, "M/s", ours, None);
            let target = if in_flight == IN_FLIGHT { "; target ≥ 0.9" } else { "" };
            let name = format!("{name}, to the batches{target}");
            bench.figure(ASYNC, &case, &name, Role::Fact, "×", Spread::of(ratio), None);
        }
    }
    Ok(())
}

/// Samples of one read.
fn one_read(
    stage: &mut Stage,
    (path, span): (&Path, u64),
    (runs, rounds): (usize, u32),
) -> Result<Quantiles, Failure> {
    let (indices, _) = stage.register(vec![both_ways(path)?])?;
    let quantiles = Quantiles::of(runs, || {
        let job = pieces(stage, indices[0], (1, span), rounds);
        stage
            .run::<async_latency::Entry>(Grid { blocks: 1, threads: 1 }, async_latency::Arguments { job })?;
        Ok(stage.samples_us(rounds))
    })?;
    stage.unregister(&indices)?;
    Ok(quantiles)
}

/// Millions of reads a second: of lanes that wait for each, or have so many in flight.
fn rate(
    stage: &mut Stage,
    (path, span): (&Path, u64),
    (effort, warps): (Effort, u32),
    (lanes, in_flight): (u32, Option<u32>),
) -> Result<Spread, Failure> {
    let (indices, _) = stage.register(vec![both_ways(path)?])?;
    let rate = effort.rate(u32::MAX, |rounds| {
        let job = pieces(stage, indices[0], (lanes, span), rounds);
        let seconds = match in_flight {
            None => stage.run_timed::<batch_reads::Entry>(grid_of(warps), batch_reads::Arguments { job })?,
            Some(in_flight) => stage
                .run_timed::<async_reads::Entry>(grid_of(warps), async_reads::Arguments { job, in_flight })?,
        };
        Ok((f64::from(warps) * f64::from(lanes) * f64::from(rounds) / 1e6, seconds))
    })?;
    stage.unregister(&indices)?;
    Ok(rate)
}

/// Reads beside work, and one after the other, in some ratios.
pub(crate) fn overlap(bench: &mut Bench) -> Result<(), Failure> {
    let scratch = Scratch::new(&bench.options.directory, OVERLAP)?;
    let span = bench.options.file_bytes.min(256 << 20);
    let path = scratch.filled("read", span)?;
    let (effort, rings) = (bench.options.effort, bench.rings(&[1])[0]);
    // One warp has nothing but itself to overlap with. Several read while others work, even if each does one after the other.
    let default = if bench.gpu.is_some() { vec![1, 8] } else { vec![1] };
    for warps in bench.options.warps.clone().unwrap_or(default) {
        let stage = bench.stage(rings)?;
        let (indices, _) = stage.register(vec![both_ways(&path)?])?;
        let piece = |bench: &mut Bench, units: u32, way: u32| -> Result<Spread, Failure> {
            let stage = bench.stage(rings)?;
            let rate = effort.rate(u32::MAX, |rounds| {
                let job = pieces(stage, indices[0], (WIDTH, span), rounds);
                let arguments = overlapped::Arguments { job, units, way };
                Ok((f64::from(rounds), stage.run_timed::<overlapped::Entry>(grid_of(warps), arguments)?))
            })?;
            Ok(Spread::of(rate.samples().iter().map(|rate| 1e6 / rate).collect()))
        };
        bench.step("reads alone, work alone");
        let read = piece(bench, 0, IN_TURN)?;
        let unit = piece(bench, UNITS, WORK)?.median() / f64::from(UNITS);
        for (work, reads) in RATIOS {
            let case = format!(
                "work to reads {work}:{reads}, a read of 4 KiB of each lane, warps: {warps}, rings: {rings}"
            );
            bench.step(&case);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let units = (read.median() * f64::from(work) / f64::from(reads) / unit).round().max(1.0) as u32;
            let alone = piece(bench, units, WORK)?;
            let in_turn = piece(bench, units, IN_TURN)?;
            let beside = piece(bench, units, BESIDE)?;
            let ratio = beside.samples().iter().map(|beside| in_turn.median() / beside).collect();
            let bound = (alone.median() + read.median()) / alone.median().max(read.median());
            for (name, role, spread) in [
                ("reads alone", Role::Fact, read.clone()),
                ("work alone", Role::Fact, alone),
                ("one after the other", Role::Rival, in_turn),
                ("the next read beside the work", Role::Ours, beside),
            ] {
                bench.figure(OVERLAP, &case, name, role, "µs", spread, None);
            }
            let name = if work == reads { "gain; target ≥ 1.9" } else { "gain" };
            bench.figure(OVERLAP, &case, name, Role::Fact, "×", Spread::of(ratio), None);
            bench.figure(
                OVERLAP,
                &case,
                "the most that there is to gain",
                Role::Fact,
                "×",
                Spread::of(vec![bound]),
                None,
            );
        }
        bench.stage(rings)?.unregister(&indices)?;
    }
    Ok(())
}
