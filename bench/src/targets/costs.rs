//! Rows 11 and 12: what a session costs the host.

use std::time::Duration;

use gpufs_host::Session;

use super::{Run, named};
use crate::cost;
use crate::failure::Failure;
use crate::iops;
use crate::report::{Limit, Role};
use crate::sample::{Effort, Spread};

fn divided(spread: &Spread, by: f64) -> Spread {
    Spread::of(spread.samples().iter().map(|value| value / by).collect())
}

pub(super) fn cores(run: &mut Run<'_>) -> Result<(), Failure> {
    let warps = run.bench.warps()[0];
    // What a thread ran on since the system's last tick is not counted yet.
    let long = Effort {
        samples: if run.bench.options.quick { 1 } else { run.effort.samples.min(3) },
        target: run.effort.target.max(Duration::from_secs(1)),
    };
    for rings in run.bench.rings(&[1, 4]) {
        let what = format!("cores used for each ring, busy with NOPs, rings: {rings}");
        run.step(11, &what);
        if run.bench.gpu.is_some() {
            let busy = cost::busy(run.bench.stage(rings)?, long, warps)?;
            run.cores_of(&what, &busy, f64::from(rings), 1.0)?;
        } else {
            // The ring has something to come to rest from.
            let effort = Effort { samples: 1, ..run.effort };
            iops::of_warps(run.bench.stage(rings)?, effort, warps)?;
            run.skip(11, &what, "needs a GPU: on CPU lanes the threads of the process run the kernel, too");
        }
        let what = format!("cores used, session open and idle, rings: {rings}");
        run.step(11, &what);
        let idle = cost::idle(run.effort)?;
        run.cores_of(&what, &idle, 1.0, 0.01)?;
    }
    Ok(())
}

pub(super) fn memory(run: &mut Run<'_>) -> Result<(), Failure> {
    let smallest = Session::builder()
        .rings(1)
        .ring_entries(128)
        .buffers(256 << 10)
        .assembly(0)
        .read_ahead(0)
        .stream_buffer(4096)
        .blocks_per_stream(1)
        .files(64)
        .streams(16)
        .registered_buffers(4);
    for (which, builder, most) in
        [("a default session", Session::builder(), 64.0), ("a small session", smallest, 1.0)]
    {
        run.step(12, which);
        let (case, facts) = cost::memory(run.bench, builder)?;
        for (name, mebibytes) in facts {
            let what = format!("memory of {which}, {case}");
            let ours = named(name, Spread::of(vec![mebibytes]));
            match name {
                cost::PINNED | cost::ON_DEVICE => {
                    run.alone(12, &what, "MiB", &ours, Limit::AtMost(most));
                }
                // No choice of a session's makes a program smaller.
                cost::BY_THE_DRIVER => run.alone(12, &what, "MiB", &ours, None),
                _ => run.figure(12, &what, Role::Fact, "MiB", &ours),
            }
        }
    }
    if run.bench.gpu.is_none() {
        run.skip(12, "device memory", "needs a GPU");
    }
    Ok(())
}

impl Run<'_> {
    /// All threads against a number, then each kind that ran at all.
    fn cores_of(&mut self, what: &str, cores: &cost::Cores, parts: f64, most: f64) -> Result<(), Failure> {
        let all = cores.get(cost::ALL).ok_or("no thread was seen")?;
        let all = named("all threads of the process", divided(all, parts));
        self.alone(11, what, "cores", &all, Limit::AtMost(most));
        for (kind, spread) in
            cores.iter().filter(|(kind, spread)| **kind != cost::ALL && spread.highest() > 0.0)
        {
            self.alone(11, what, "cores", &named(format!("of them: {kind}"), divided(spread, parts)), None);
        }
        Ok(())
    }
}
