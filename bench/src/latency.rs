//! `latency`: one call at a time, one warp.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use gpufs_bench_kernels::calls::{nop_latency, read_latency};
use gpufs_bench_kernels::rivals::{ANSWER_AT, ping_pong};
use gpufs_bench_kernels::steps::{STEPS, nop_steps};
use gpufs_core::word::SharedWord;
use gpufs_host::Grid;

use crate::bench::Bench;
use crate::cpu::{self, Driven, Means, Plain};
use crate::failure::Failure;
use crate::report::{Place, Role, size};
use crate::sample::Spread;
use crate::scratch::{Scratch, both_ways};
use crate::stage::{Stage, WIDTH};

const NAME: &str = "latency";
const ONE: Grid = Grid { blocks: 1, threads: 1 };

/// Medians and 99th percentiles of several runs' samples, in microseconds.
pub(crate) struct Quantiles(Vec<f64>, Vec<f64>);

impl Quantiles {
    pub(crate) fn of(
        runs: usize,
        mut samples: impl FnMut() -> Result<Vec<f64>, Failure>,
    ) -> Result<Self, Failure> {
        let mut quantiles = Self(Vec::new(), Vec::new());
        for _ in 0..runs {
            let spread = Spread::of(samples()?);
            quantiles.0.push(spread.quantile(0.5));
            quantiles.1.push(spread.quantile(0.99));
        }
        Ok(quantiles)
    }
    pub(crate) fn p50(&self) -> Spread {
        Spread::of(self.0.clone())
    }
    pub(crate) fn p99(&self) -> Spread {
        Spread::of(self.1.clone())
    }
    /// As figures of another subcommand.
    pub(crate) fn add_to(self, bench: &mut Bench, (name, case): (&'static str, &str), who: &str, role: Role) {
        bench.figure(name, case, &format!("{who}, p50"), role, "µs", Spread::of(self.0), None);
        let tail = format!("{case}, 99th percentile");
        bench.figure(name, &tail, &format!("{who}, p99"), role, "µs", Spread::of(self.1), None);
    }
    fn add(self, bench: &mut Bench, case: &str, name: &str, role: Role, place: Option<Place>) {
        bench.figure(NAME, case, &format!("{name}, p50"), role, "µs", Spread::of(self.0), place.clone());
        let tail = format!("{case}, 99th percentile");
        bench.figure(NAME, &tail, &format!("{name}, p99"), role, "µs", Spread::of(self.1), place);
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let runs = bench.options.effort.samples;
    let (rounds, rings) = (if bench.options.quick { 1000 } else { 5000 }, bench.rings(&[1])[0]);
    for (name, lanes) in [("gpufs: one NOP", 1), ("gpufs: 32 NOPs of one warp", WIDTH)] {
        bench.step(name);
        let quantiles = nop(bench.stage(rings)?, runs, rounds, lanes)?;
        quantiles.add(bench, "round trip of a NOP", name, Role::Ours, None);
    }
    bench.step("steps of a NOP");
    let stage = bench.stage(rings)?;
    let times = stage.times();
    let stepped = 200;
    stage.run::<nop_steps::Entry>(ONE, nop_steps::Arguments { rounds: stepped, times })?;
    let samples = stage.samples_us(stepped * u32::try_from(STEPS.len())?);
    for (index, step) in STEPS.into_iter().enumerate() {
        let spread = Spread::of(samples.iter().skip(index).step_by(STEPS.len()).copied().collect());
        bench.figure(
            NAME,
            "steps of a NOP",
            &format!("{}. {step}", index + 1),
            Role::Fact,
            "µs",
            spread,
            None,
        );
    }
    if bench.gpu.is_some() {
        bench.step(PING_PONG);
        let quantiles = ping(bench.stage(rings)?, runs, rounds)?;
        quantiles.add(bench, "round trip of a NOP", PING_PONG, Role::Rival, None);
    } else {
        bench.report.skip(NAME, PING_PONG, "needs a GPU");
    }
    for (name, sqpoll) in [("one core with io_uring", false), ("one core with io_uring, SQPOLL", true)] {
        bench.step(name);
        bench.quiet();
        let mut ring = Driven::open(sqpoll)?;
        let quantiles = Quantiles::of(runs, || ring.samples_us(rounds))?;
        quantiles.add(bench, "round trip of a NOP", name, Role::Rival, None);
    }
    reads(bench, rings, rounds)
}

/// What [`ping`] measures.
pub(crate) const PING_PONG: &str = "ping-pong with a thread of the host";

/// One NOP of each of so many lanes of a warp.
pub(crate) fn nop(stage: &mut Stage, runs: usize, rounds: u32, lanes: u32) -> Result<Quantiles, Failure> {
    let times = stage.times();
    Quantiles::of(runs, || {
        let grid = Grid { blocks: 1, threads: lanes };
        stage.run::<nop_latency::Entry>(grid, nop_latency::Arguments { rounds, times })?;
        Ok(stage.samples_us(rounds))
    })
}

/// The floor under it.
pub(crate) fn ping(stage: &mut Stage, runs: usize, rounds: u32) -> Result<Quantiles, Failure> {
    Quantiles::of(runs, || answered(stage, rounds))
}

/// Where one `pread` goes, and which lanes of the warp call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    /// Registered memory, one lane.
    Registered,
    /// Device memory, one lane.
    Device,
    /// Device memory, for one lane; the others call with no bytes.
    DeviceOfWarp,
}

impl Landing {
    pub(crate) const ALL: [Self; 3] = [Self::Registered, Self::Device, Self::DeviceOfWarp];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Registered => "gpufs: into registered memory",
            Self::Device => "gpufs: into device memory",
            Self::DeviceOfWarp => "gpufs: into device memory, the warp calling",
        }
    }
}

/// One `pread` of `bytes` at a random place of the file's first `span` bytes.
pub(crate) fn pread(
    stage: &mut Stage,
    (path, span): (&Path, u64),
    bytes: u64,
    into: Landing,
    (runs, rounds): (usize, u32),
) -> Result<Quantiles, Failure> {
    let (indices, _) = stage.register(vec![both_ways(path)?])?;
    let memory = if into == Landing::Registered { stage.pinned() } else { stage.device() };
    let grid = if into == Landing::DeviceOfWarp { Grid { blocks: 1, threads: WIDTH } } else { ONE };
    let quantiles = Quantiles::of(runs, || {
        let (file, times) = (indices[0], stage.times());
        let arguments = read_latency::Arguments { file, memory, bytes, span, rounds, times };
        stage.run::<read_latency::Entry>(grid, arguments)?;
        Ok(stage.samples_us(rounds))
    })?;
    stage.unregister(&indices)?;
    Ok(quantiles)
}

/// The same by one thread of the CPU.
pub(crate) fn by_one_thread(
    means: &dyn Means,
    (path, span): (&Path, u64),
    bytes: u64,
    (runs, rounds): (usize, u32),
) -> Result<Quantiles, Failure> {
    let file = both_ways(path)?;
    let mut mover = means.mover(usize::try_from(bytes)?)?;
    Quantiles::of(runs, || cpu::read_samples_us(&mut *mover, &file, bytes, span, rounds))
}

/// `pread` from the page cache.
fn reads(bench: &mut Bench, rings: u32, rounds: u32) -> Result<(), Failure> {
    let scratch = Scratch::new(&bench.options.directory, NAME)?;
    let runs = bench.options.effort.samples;
    let span = bench.options.file_bytes.min(16 << 20);
    let path = scratch.filled("latency", span)?;
    for bytes in bench.options.sizes.clone().unwrap_or_else(|| vec![4096]) {
        let case = format!("pread of {} from the page cache", size(bytes));
        let place =
            Some(Place { plot: "latency of pread".to_owned(), title: None, axis: "bytes", x: bytes as f64 });
        if bytes > span.min(bench.options.memory as u64) {
            bench.report.skip(
                NAME,
                &case,
                "larger than the file or the memory; see --file-bytes and --memory",
            );
            continue;
        }
        // Long reads take long.
        let rounds = rounds.min(u32::try_from((64 << 20) / bytes)?.max(20));
        for into in Landing::ALL {
            bench.step(&case);
            let quantiles = pread(bench.stage(rings)?, (&path, span), bytes, into, (runs, rounds))?;
            quantiles.add(bench, &case, into.name(), Role::Ours, place.clone());
        }
        bench.quiet();
        let quantiles = by_one_thread(&Plain, (&path, span), bytes, (runs, rounds))?;
        quantiles.add(bench, &case, "one CPU thread: pread", Role::Rival, place);
    }
    Ok(())
}

/// One run of the ping-pong, with this thread as the one that answers.
#[expect(unsafe_code, reason = "words in memory shared with the kernel")]
fn answered(stage: &mut Stage, rounds: u32) -> Result<Vec<f64>, Failure> {
    let shared = stage.pinned();
    // SAFETY:
    // - both words lie in registered memory, aligned, and are touched with these verbs alone while the kernel runs
    let (call, answer) =
        unsafe { (&*(shared as *const SharedWord), &*((shared + ANSWER_AT) as *const SharedWord)) };
    call.set(0);
    answer.set(0);
    let times = stage.times();
    stage.start::<ping_pong::Entry>(ONE, ping_pong::Arguments { shared, rounds, times })?;
    thread::scope(|scope| {
        let answering = scope.spawn(|| {
            let mut last = 0;
            let mut since = Instant::now();
            let mut looks = 0_u32;
            // Ends: with the last round, or when the kernel has been silent for long.
            while last < rounds {
                // ORDERING: acquire, system, partner the kernel's release.
                let now = call.observe();
                if now != last {
                    last = now;
                    // ORDERING: release, system, partner the kernel's acquire.
                    answer.publish(now);
                }
                looks = looks.wrapping_add(1);
                if looks.is_multiple_of(1 << 20) {
                    if last == 0 && since.elapsed() < Duration::from_secs(30) {
                        continue;
                    }
                    if since.elapsed() > Duration::from_secs(60) {
                        return;
                    }
                } else if last == 1 {
                    since = Instant::now();
                }
            }
        });
        let finished = stage.finish();
        let _ = answering.join();
        finished
    })?;
    Ok(stage.samples_us(rounds))
}
