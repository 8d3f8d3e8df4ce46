//! `cpu-cost`: what a session costs the host.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use gpufs_bench_kernels::calls::nops;
use gpufs_host::Session;

use crate::report::Role;
use crate::sample::Spread;
use crate::stage::grid_of;
use crate::{Bench, Failure};

const NAME: &str = "cpu-cost";
const UNIT: &str = "cores";

/// Nanoseconds that each thread of this process has run so far, by its name; the kernel's threads for its rings are among them.
fn running_ns() -> Result<BTreeMap<(String, String), u64>, Failure> {
    let mut times = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        // A thread may have ended meanwhile.
        let (Ok(name), Ok(schedstat)) =
            (fs::read_to_string(path.join("comm")), fs::read_to_string(path.join("schedstat")))
        else {
            continue;
        };
        let first = schedstat.split_whitespace().next().and_then(|number| number.parse().ok());
        let kind = if name.starts_with("iou-sqp") {
            "SQPOLL threads"
        } else if name.starts_with("iou-wrk") {
            "workers of the rings"
        } else {
            "threads of the process"
        };
        let number = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        times.insert((kind.to_owned(), number), first.unwrap_or(0));
    }
    Ok(times)
}

/// Cores that each kind of thread uses while `body` runs.
fn cores_during(body: impl FnOnce() -> Result<(), Failure>) -> Result<BTreeMap<String, f64>, Failure> {
    let (before, started) = (running_ns()?, Instant::now());
    body()?;
    let (after, elapsed) = (running_ns()?, started.elapsed().as_secs_f64());
    let mut cores = BTreeMap::new();
    for (thread, ns) in after {
        let used = ns.saturating_sub(before.get(&thread).copied().unwrap_or(0)) as f64 / 1e9;
        *cores.entry(thread.0).or_insert(0.0) += used / elapsed;
        *cores.entry("all".to_owned()).or_insert(0.0) += used / elapsed;
    }
    Ok(cores)
}

/// Several times [`cores_during`].
fn spreads(
    samples: usize,
    mut body: impl FnMut() -> Result<(), Failure>,
) -> Result<BTreeMap<String, Spread>, Failure> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..samples {
        for (kind, cores) in cores_during(&mut body)? {
            all.entry(kind).or_default().push(cores);
        }
    }
    Ok(all.into_iter().map(|(kind, cores)| (kind, Spread::of(cores))).collect())
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let (samples, target) = (bench.options.effort.samples, bench.options.effort.target);
    for rings in bench.rings(&[1, 4]) {
        let warps = bench.warps()[0];
        let case = format!("cores used, rings: {rings}");
        bench.step(&format!("{case}, busy"));
        let stage = bench.stage(rings)?;
        let times = stage.times();
        let mut rounds = 1;
        // Ends: the count doubles.
        while stage.run::<nops::Entry>(grid_of(warps), nops::Arguments { rounds, times })?
            < target.as_secs_f64()
        {
            rounds *= 2;
        }
        let busy = spreads(samples, || {
            stage.run::<nops::Entry>(grid_of(warps), nops::Arguments { rounds, times }).map(drop)
        })?;
        bench.step(&format!("{case}, idle"));
        // The SQPOLL threads look for a second before they sleep.
        thread::sleep(Duration::from_millis(1200));
        let nap = target.max(Duration::from_millis(100));
        let idle = spreads(samples, || {
            thread::sleep(nap);
            Ok(())
        })?;
        for (state, cores) in [("busy with NOPs", busy), ("open and idle", idle)] {
            for (kind, spread) in cores {
                bench.figure(NAME, &case, &format!("{state}: {kind}"), Role::Fact, UNIT, spread, None);
            }
        }
    }
    if bench.gpu.is_none() {
        bench.report.skip(
            NAME,
            "kernels on a GPU",
            "on CPU lanes the threads of the process run the kernel, too",
        );
    }
    memory(bench)
}

/// Memory of a session with the builder's defaults.
fn memory(bench: &mut Bench) -> Result<(), Failure> {
    bench.step("memory of a default session");
    bench.stage = None;
    let before = bench.gpu.as_ref().map(crate::gpu::Gpu::free_bytes).transpose()?;
    let status = |field: &str| -> Result<u64, Failure> {
        let text = fs::read_to_string("/proc/self/status")?;
        let line = text.lines().find_map(|line| line.strip_prefix(field));
        let kilobytes = line
            .and_then(|line| line.split_whitespace().next())
            .and_then(|number| number.parse::<u64>().ok());
        Ok(kilobytes.unwrap_or(0) << 10)
    };
    let pinned_before = status("VmPin:")?;
    let session = match bench.gpu {
        None => Session::builder().cpu()?,
        Some(_) => Session::builder().cuda(bench.options.ordinal, &bench.options.program)?,
    };
    let after = bench.gpu.as_ref().map(crate::gpu::Gpu::free_bytes).transpose()?;
    let pinned = status("VmPin:")?.saturating_sub(pinned_before);
    let tables = session.tables();
    let pool = |pool: &gpufs_core::pool::Pool, taken: u32| {
        u64::from(pool.free.free() + taken) * u64::from(pool.buffer_bytes)
    };
    let standard = tables.blocks_per_stream + 2;
    let pools = pool(&tables.staging, 0) + pool(&tables.stream_buffers, standard);
    // Submission entries of 64 bytes, and twice as many completion entries of 16.
    let rings: u64 = tables.queues().iter().map(|queue| u64::from(queue.capacity()) * (64 + 32)).sum();
    let case = format!("memory of a default session, rings: {}", tables.queue_count);
    let mut add = |name: &str, bytes: u64| {
        bench.figure(
            NAME,
            &case,
            name,
            Role::Fact,
            "MiB",
            Spread::of(vec![bytes as f64 / f64::from(1 << 20)]),
            None,
        );
    };
    add("buffers, pinned", pools);
    add("rings, pinned", rings);
    if pinned > 0 {
        add("what the kernel counts as pinned", pinned);
    }
    if let (Some(before), Some(after)) = (before, after) {
        add("device memory, the program included", before.saturating_sub(after));
    }
    drop(session);
    Ok(())
}
