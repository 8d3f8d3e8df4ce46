//! `cpu-cost`: what a session costs the host.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use gpufs_bench_kernels::calls::nops;
use gpufs_host::{Builder, Session};

use crate::bench::Bench;
use crate::failure::Failure;
use crate::report::Role;
use crate::sample::{Effort, Spread};
use crate::stage::{Stage, grid_of};

const NAME: &str = "cpu-cost";
const UNIT: &str = "cores";

/// What [`Cores`] has beside the kinds of threads: their sum.
pub(crate) const ALL: &str = "all";

/// What a thread of this process is for, by its name (`comm` of `proc(5)`: 15 bytes at most).
fn kind(name: &str, is_first: bool) -> &'static str {
    if name.starts_with("iou-sqp") {
        "SQPOLL threads"
    } else if name.starts_with("iou-wrk") {
        "io-wq workers of the rings"
    } else if name.starts_with("gpufs-service") {
        "the session's ring service, which wakes SQPOLL threads"
    } else if is_first {
        "the thread that starts kernels and waits for them"
    } else {
        "other threads: the driver's, CPU lanes"
    }
}

/// Nanoseconds that each thread of this process has run so far, by its kind and number; the kernel's threads for its rings are among
/// them. The system counts a thread that runs on up to its last tick: samples are to be long beside some milliseconds.
fn running_ns() -> Result<BTreeMap<(&'static str, String), u64>, Failure> {
    let mut times = BTreeMap::new();
    let first_thread = std::process::id().to_string();
    for task in fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        // A thread may have ended meanwhile.
        let (Ok(name), Ok(schedstat)) =
            (fs::read_to_string(path.join("comm")), fs::read_to_string(path.join("schedstat")))
        else {
            continue;
        };
        let ran = schedstat.split_whitespace().next().and_then(|number| number.parse().ok());
        let number = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let kind = kind(&name, number == first_thread);
        times.insert((kind, number), ran.unwrap_or(0));
    }
    Ok(times)
}

/// Cores that each kind of thread uses while `body` runs.
fn cores_during(body: impl FnOnce() -> Result<(), Failure>) -> Result<BTreeMap<&'static str, f64>, Failure> {
    let (before, started) = (running_ns()?, Instant::now());
    body()?;
    let (after, elapsed) = (running_ns()?, started.elapsed().as_secs_f64());
    let mut cores = BTreeMap::new();
    for (thread, ns) in after {
        let used = ns.saturating_sub(before.get(&thread).copied().unwrap_or(0)) as f64 / 1e9;
        *cores.entry(thread.0).or_insert(0.0) += used / elapsed;
        *cores.entry(ALL).or_insert(0.0) += used / elapsed;
    }
    Ok(cores)
}

/// Cores that each kind of thread uses, and [`ALL`], several samples.
pub(crate) type Cores = BTreeMap<&'static str, Spread>;

/// Several times [`cores_during`].
fn spreads(samples: usize, mut body: impl FnMut() -> Result<(), Failure>) -> Result<Cores, Failure> {
    let mut all: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for _ in 0..samples {
        for (kind, cores) in cores_during(&mut body)? {
            all.entry(kind).or_default().push(cores);
        }
    }
    Ok(all.into_iter().map(|(kind, cores)| (kind, Spread::of(cores))).collect())
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let effort = bench.options.effort;
    for rings in bench.rings(&[1, 4]) {
        let warps = bench.warps()[0];
        let case = format!("cores used, rings: {rings}");
        bench.step(&format!("{case}, busy"));
        let busy = busy(bench.stage(rings)?, effort, warps)?;
        bench.step(&format!("{case}, idle"));
        let idle = idle(effort)?;
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
    bench.step("memory of a default session");
    let (case, facts) = memory(bench, Session::builder())?;
    for (name, mebibytes) in facts {
        let case = format!("memory of a default session, {case}");
        bench.figure(NAME, &case, name, Role::Fact, "MiB", Spread::of(vec![mebibytes]), None);
    }
    Ok(())
}

/// Cores used while so many warps make NOPs.
pub(crate) fn busy(stage: &mut Stage, effort: Effort, warps: u32) -> Result<Cores, Failure> {
    let times = stage.times();
    let mut rounds = 1;
    // Ends: the count doubles.
    while stage.run::<nops::Entry>(grid_of(warps), nops::Arguments { rounds, times })?
        < effort.target.as_secs_f64()
    {
        rounds *= 2;
    }
    spreads(effort.samples, || {
        stage.run::<nops::Entry>(grid_of(warps), nops::Arguments { rounds, times }).map(drop)
    })
}

/// Cores used while the session, which is open, does nothing.
pub(crate) fn idle(effort: Effort) -> Result<Cores, Failure> {
    // The SQPOLL threads look for a second before they sleep.
    thread::sleep(Duration::from_millis(1200));
    let nap = effort.target.max(Duration::from_millis(100));
    spreads(effort.samples, || {
        thread::sleep(nap);
        Ok(())
    })
}

/// What [`memory`] finds.
pub(crate) const PINNED: &str = "what is mapped for the device";
pub(crate) const ON_DEVICE: &str = "the session's own device memory";
/// What the driver gave beyond that, in steps of its own.
pub(crate) const BY_THE_DRIVER: &str = "device memory that the driver took beside it: program, stacks";

/// What was counted, in MiB.
pub(crate) type Facts = Vec<(&'static str, f64)>;

/// Bytes of this process that are shared with the kernel's rings or a device: what sessions map for kernels to reach.
fn mapped_for_devices() -> Result<u64, Failure> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let mut total = 0;
    for line in
        maps.lines().filter(|line| line.ends_with("/dev/zero (deleted)") || line.contains("[io_uring]"))
    {
        let (start, rest) = line.split_once('-').ok_or("a range in /proc/self/maps")?;
        let end = rest.split_whitespace().next().unwrap_or_default();
        total += u64::from_str_radix(end, 16)? - u64::from_str_radix(start, 16)?;
    }
    Ok(total)
}

/// Opens a session with these choices, in the place of the one that is open: what it is, and its memory in MiB.
pub(crate) fn memory(bench: &mut Bench, builder: Builder) -> Result<(String, Facts), Failure> {
    bench.stage = None;
    let free = |bench: &Bench| bench.gpu.as_ref().map(crate::gpu::Gpu::free_bytes).transpose();
    let (free_before, mapped_before) = (free(bench)?, mapped_for_devices()?);
    let session = match bench.gpu {
        None => builder.cpu()?,
        Some(_) => builder.cuda(bench.options.ordinal, &bench.options.program)?,
    };
    let (free_after, mapped_after) = (free(bench)?, mapped_for_devices()?);
    #[expect(unsafe_code, reason = "sizes in the tables")]
    // SAFETY:
    // - of an open session; sizes are read
    let tables = unsafe { session.tables() };
    let pool = |pool: &gpufs_core::alloc::BufferPool, taken: u32| {
        u64::from(pool.free.free() + taken) * u64::from(pool.buffer_bytes)
    };
    // Each stream has a buffer of its own.
    let pools = pool(&tables.staging, 0) + pool(&tables.stream_buffers, tables.stream_count);
    // Submission entries of 64 bytes, and twice as many completion entries of 16.
    let rings: u64 = tables.queues().iter().map(|queue| u64::from(queue.capacity()) * (64 + 32)).sum();
    let mut facts = vec![
        ("buffers, pinned", pools),
        ("rings, pinned", rings),
        // Whoever allocates it: not less than its parts.
        (PINNED, mapped_after.saturating_sub(mapped_before).max(pools + rings)),
    ];
    if let (Some(before), Some(after)) = (free_before, free_after) {
        let own = session.device_bytes() as u64;
        facts.push((ON_DEVICE, own));
        facts.push((BY_THE_DRIVER, before.saturating_sub(after).saturating_sub(own)));
    }
    let case = format!("rings: {}", tables.queue_count);
    drop(session);
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    Ok((case, facts.into_iter().map(|(name, bytes)| (name, mebibytes(bytes))).collect()))
}
