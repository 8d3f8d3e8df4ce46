//! `iops`: NOPs a second.

use gpufs_bench_kernels::calls::nops;

use crate::bench::Bench;
use crate::cpu::Driven;
use crate::failure::Failure;
use crate::report::{Place, Role};
use crate::sample::{Effort, Spread};
use crate::stage::{Stage, WIDTH, grid_of};

const NAME: &str = "iops";
const UNIT: &str = "M/s";

/// A rate in millions.
fn millions(spread: &Spread) -> Spread {
    Spread::of(spread.samples().iter().map(|rate| rate / 1e6).collect())
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let effort = bench.options.effort;
    let mut rivals = Vec::new();
    for (name, sqpoll) in [("one core with io_uring", false), ("one core with io_uring, SQPOLL", true)] {
        bench.step(name);
        bench.quiet();
        rivals.push((name, one_core(sqpoll, effort)?));
    }
    for warps in bench.warps() {
        for rings in bench.rings(&[1, 2, 4, 8]) {
            let case = format!("NOPs of {warps} warps, rings: {rings}");
            bench.step(&case);
            let place = Place {
                plot: format!("NOPs of {warps} warps"),
                title: None,
                axis: "rings",
                x: f64::from(rings),
            };
            let rate = of_warps(bench.stage(rings)?, effort, warps)?;
            bench.figure(NAME, &case, "gpufs", Role::Ours, UNIT, rate, Some(place.clone()));
            for (name, rate) in &rivals {
                bench.figure(NAME, &case, name, Role::Rival, UNIT, rate.clone(), Some(place.clone()));
            }
        }
    }
    Ok(())
}

/// Millions of NOPs a second that one core drives through a ring.
pub(crate) fn one_core(sqpoll: bool, effort: Effort) -> Result<Spread, Failure> {
    Ok(millions(&Driven::open(sqpoll)?.rate(effort)?))
}

/// Millions of NOPs a second of so many warps.
pub(crate) fn of_warps(stage: &mut Stage, effort: Effort, warps: u32) -> Result<Spread, Failure> {
    let times = stage.times();
    let before = stage.session().statistics().total().operations;
    let mut made = 0;
    let rate = effort.rate(u32::MAX, |rounds| {
        let seconds = stage.run_timed::<nops::Entry>(grid_of(warps), nops::Arguments { rounds, times })?;
        let count = u64::from(warps) * u64::from(WIDTH) * u64::from(rounds);
        made += count;
        Ok((count as f64, seconds))
    })?;
    let counted = stage.session().statistics().total().operations - before;
    if counted != made {
        return Err(format!("{made} NOPs were made, but the rings counted {counted}").into());
    }
    Ok(millions(&rate))
}
