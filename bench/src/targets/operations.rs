//! Rows 8, 9 and 10: how long one operation takes, and how many there are in a second.

use super::{KIB_4, NAME, Run, named};
use crate::cpu;
use crate::failure::Failure;
use crate::iops;
use crate::latency::{self, Landing};
use crate::report::Limit;
use crate::sample::Named;
use crate::scratch::Scratch;

pub(super) fn round_trips(run: &mut Run<'_>) -> Result<(), Failure> {
    let (runs, rings) = (run.effort.samples, run.bench.rings(&[1])[0]);
    let rounds = if run.bench.options.quick { 1000 } else { 5000 };
    run.step(8, "one NOP");
    let ours = latency::nop(run.bench.stage(rings)?, runs, rounds, 1)?;
    let nop = named("gpufs: one NOP", ours.p50());
    if run.bench.gpu.is_some() {
        let floor = latency::ping(run.bench.stage(rings)?, runs, rounds)?;
        let p50 = (named(latency::PING_PONG, floor.p50()), Some(Limit::AtMost(3.0)));
        run.beside(8, "round trip of a NOP, p50", "µs", &nop, &[p50]);
        let p99 = (named(latency::PING_PONG, floor.p99()), Some(Limit::AtMost(4.0)));
        run.beside(8, "round trip of a NOP, p99", "µs", &named("gpufs: one NOP", ours.p99()), &[p99]);
    } else {
        run.skip(8, "round trip of a NOP beside a ping-pong", "needs a GPU");
    }
    let scratch = Scratch::new(&run.bench.options.directory, NAME)?;
    let span = run.bench.options.file_bytes.min(16 << 20);
    let path = scratch.filled("latency", span)?;
    let landed = |run: &mut Run<'_>, landing: Landing| -> Result<Named, Failure> {
        run.step(9, landing.name());
        let rounds = (runs, rounds.min(1000));
        let found = latency::pread(run.bench.stage(rings)?, (&path, span), KIB_4, landing, rounds)?;
        Ok(named(landing.name(), found.p50()))
    };
    let registered = landed(run, Landing::Registered)?;
    let device = [landed(run, Landing::Device)?, landed(run, Landing::DeviceOfWarp)?];
    let [first, second] = device;
    // Less is better here.
    let device = if second.1.median() < first.1.median() { second } else { first };
    for (what, ours) in [("registered", registered), ("device", device)] {
        let what = format!("pread of 4 KiB from the page cache into {what} memory, p50");
        run.beside(9, &what, "µs", &ours, &[(nop.clone(), Some(Limit::AtMost(2.0)))]);
    }
    Ok(())
}

pub(super) fn rates(run: &mut Run<'_>) -> Result<(), Failure> {
    let (effort, warps) = (run.effort, run.bench.warps()[0]);
    let what = format!("NOPs of {warps} warps, rings: 1");
    run.step(10, &what);
    let one = named("gpufs: 1 ring", iops::of_warps(run.bench.stage(1)?, effort, warps)?);
    run.bench.quiet();
    let polled = named("one core with io_uring, SQPOLL", iops::one_core(true, effort)?);
    let entered = named("one core with io_uring", iops::one_core(false, effort)?);
    let rivals = [(polled, Some(Limit::AtLeast(1.0))), (entered, None)];
    run.beside(10, &what, "M/s", &one, &rivals);
    let what = format!("NOPs of {warps} warps, rings: 8");
    if cpu::cores() < 8 {
        run.skip(10, &what, "8 rings want 8 cores");
        return Ok(());
    }
    run.step(10, &what);
    let eight = named("gpufs: 8 rings", iops::of_warps(run.bench.stage(8)?, effort, warps)?);
    run.beside(10, &what, "M/s", &eight, &[(one, Some(Limit::AtLeast(6.0)))]);
    Ok(())
}
