//! `async`: what asynchronous calls take. What they save is in `overlap.rs`.

use std::path::Path;

use gpufs_bench_kernels::pending::{Pieces, async_latency, async_reads, async_starts, batch_reads};
use gpufs_core::kernel::Kernel;
use gpufs_host::Grid;

use crate::bench::Bench;
use crate::failure::Failure;
use crate::latency::{self, Landing, Quantiles};
use crate::report::Role;
use crate::sample::{Effort, Spread};
use crate::scratch::{Scratch, both_ways};
use crate::stage::{Stage, WIDTH, grid_of};

const ASYNC: &str = "async";
/// Bytes of a read.
const BYTES: u64 = 4096;
/// Reads in flight of a lane that has many.
const IN_FLIGHT: u32 = 32;
/// What a figure is of: operations for each store of the SQ tail.
const TOGETHER: &str = "entries a publication";

/// Where lanes read.
fn pieces(
    stage: &Stage,
    file: gpufs_core::session::FileIndex,
    (lanes, span): (u32, u64),
    rounds: u32,
) -> Pieces {
    let (memory, times) = (stage.device(), stage.times());
    Pieces { file, lanes, memory, bytes: BYTES, span, rounds, ahead: 1, times }
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
    let (reads, samples) = ((path.as_path(), span), (effort.samples, rounds));
    let quantiles = one_read::<async_starts::Entry>(bench.stage(rings)?, reads, samples, |job| {
        async_starts::Arguments { job }
    })?;
    quantiles.add_to(bench, (ASYNC, case), "until the start returns", Role::Fact);
    let quantiles = one_read::<async_latency::Entry>(bench.stage(rings)?, reads, samples, |job| {
        async_latency::Arguments { job }
    })?;
    let spread = quantiles.p50();
    quantiles.add_to(bench, (ASYNC, case), "started, and waited for", Role::Ours);
    let ratio = Spread::of(spread.samples().iter().map(|one| one / waits).collect());
    bench.figure(ASYNC, case, "time started / time of the call; target ≤ 1", Role::Fact, "×", ratio, None);
    let rings = bench.most_rings();
    for warps in bench.warps() {
        let case = format!("random 4 KiB into device memory, warps: {warps}, rings: {rings}");
        bench.step(&case);
        let needs = u64::from(warps) * u64::from(WIDTH) * BYTES;
        if needs > bench.options.memory as u64 {
            let reason = format!("each lane has memory of its own, {needs} bytes together; see --memory");
            bench.report.skip(ASYNC, &case, reason);
            continue;
        }
        let (batch, together) = rate(bench.stage(rings)?, (&path, span), (effort, warps), (WIDTH, None))?;
        let name = "batches of 32 lanes that wait";
        bench.figure(ASYNC, &case, name, Role::Rival, "M/s", batch.clone(), None);
        bench.figure(ASYNC, &case, &format!("{name}, {TOGETHER}"), Role::Fact, "", together, None);
        for (lanes, in_flight) in [(1, IN_FLIGHT), (WIDTH, IN_FLIGHT), (WIDTH, 1)] {
            let name = format!("lanes of a warp: {lanes}, in flight a lane: {in_flight}");
            let (ours, together) =
                rate(bench.stage(rings)?, (&path, span), (effort, warps), (lanes, Some(in_flight)))?;
            let ratio = ours.samples().iter().map(|rate| rate / batch.median()).collect();
            bench.figure(ASYNC, &case, &name, Role::Ours, "M/s", ours, None);
            bench.figure(ASYNC, &case, &format!("{name}, {TOGETHER}"), Role::Fact, "", together, None);
            let target = if in_flight == IN_FLIGHT { "; target ≥ 0.9" } else { "" };
            let name = format!("{name}, to the batches{target}");
            bench.figure(ASYNC, &case, &name, Role::Fact, "×", Spread::of(ratio), None);
        }
    }
    Ok(())
}

/// Samples of one read, or of a part of it, as the kernel takes them.
fn one_read<K: Kernel>(
    stage: &mut Stage,
    (path, span): (&Path, u64),
    (runs, rounds): (usize, u32),
    arguments: impl Fn(Pieces) -> K::Arguments,
) -> Result<Quantiles, Failure> {
    let (indices, _) = stage.register(vec![both_ways(path)?])?;
    let quantiles = Quantiles::of(runs, || {
        let job = pieces(stage, indices[0], (1, span), rounds);
        stage.run::<K>(Grid { blocks: 1, threads: 1 }, arguments(job))?;
        Ok(stage.samples_us(rounds))
    })?;
    stage.unregister(&indices)?;
    Ok(quantiles)
}

/// Millions of reads a second: of lanes that wait for each, or have so many in flight. And how many the kernel is told of at a time.
fn rate(
    stage: &mut Stage,
    (path, span): (&Path, u64),
    (effort, warps): (Effort, u32),
    (lanes, in_flight): (u32, Option<u32>),
) -> Result<(Spread, Spread), Failure> {
    let (indices, _) = stage.register(vec![both_ways(path)?])?;
    let mut together = Vec::new();
    let rate = effort.rate(u32::MAX, |rounds| {
        let job = pieces(stage, indices[0], (lanes, span), rounds);
        let before = stage.session().statistics().total();
        let seconds = match in_flight {
            None => stage.run_timed::<batch_reads::Entry>(grid_of(warps), batch_reads::Arguments { job })?,
            Some(in_flight) => stage
                .run_timed::<async_reads::Entry>(grid_of(warps), async_reads::Arguments { job, in_flight })?,
        };
        let after = stage.session().statistics().total();
        let done = (after.operations - before.operations) as f64;
        together.push(done / (after.publications - before.publications).max(1) as f64);
        Ok((f64::from(warps) * f64::from(lanes) * f64::from(rounds) / 1e6, seconds))
    })?;
    stage.unregister(&indices)?;
    Ok((rate, Spread::of(together)))
}
