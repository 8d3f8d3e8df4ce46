//! What the CPU-lane runtime costs: warp operations, naps, launches. `cargo bench -p gpufs-bench --bench cpu_lanes`
//!
//! Each figure is that of the best of seven runs, except those of the first launches.

use std::time::{Duration, Instant};

use gpufs_core::lanes::{Collective, runtime};
use gpufs_device::warp::{nap, position};
use gpufs_host::cpu::{CpuOptions, Grid, launch};

const RUNS: usize = 7;
/// Operations that each lane makes in a run.
const ROUNDS: u32 = 20_000;
const COLLECTIVES: [Collective; 5] =
    [Collective::Ballot, Collective::Shuffle, Collective::Broadcast, Collective::Scan, Collective::Sync];

fn main() {
    first_launches();
    warp_operations();
    naps();
    launches();
}

fn one_thread() -> CpuOptions {
    CpuOptions { threads: 1, ..CpuOptions::default() }
}

/// The time of a launch.
fn time(blocks: u32, threads: u32, options: &CpuOptions, kernel: impl Fn() + Sync) -> Duration {
    let started = Instant::now();
    launch(Grid { blocks, threads }, options, kernel).expect("lanes that do not panic");
    started.elapsed()
}

fn best(run: impl Fn() -> Duration) -> Duration {
    (0..RUNS).map(|_| run()).min().expect("several runs")
}

fn ns_each(time: Duration, count: u64) -> f64 {
    time.as_nanos() as f64 / count as f64
}

/// Stacks that were never used cost page faults.
fn first_launches() {
    let napping = || time(100, 100, &one_thread(), || (0..200).for_each(|_| nap(0)));
    println!("first launch of 10,000 lanes, napping 200 times, on one thread {:9.1?}", napping());
    println!("the same again, on stacks that were used before                {:9.1?}", napping());
}

fn warp_operations() {
    // Every call has the same identity, so the warp never leaves the visit.
    let calling = || {
        time(1, 32, &one_thread(), || {
            for _ in 0..ROUNDS {
                let _ = (runtime().calling)(1);
            }
        })
    };
    println!("calling, 32 lanes        {:8.1} ns a warp", ns_each(best(calling), ROUNDS.into()));
    for what in COLLECTIVES {
        let collective = || {
            time(1, 32, &one_thread(), || {
                for _ in 0..ROUNDS {
                    // SAFETY:
                    // - these lanes make no calls of the device's library
                    unsafe { (runtime().collective)(0xFFFF_FFFF, 0, what, 1, 0) };
                }
            })
        };
        println!("{what:9?}, 32 lanes      {:8.1} ns a warp", ns_each(best(collective), ROUNDS.into()));
    }
}

fn naps() {
    const LANES: u32 = 4 * 32 + 1;
    // The last warp has one lane, so its calls return at once. They count as progress, so the scheduler never pauses.
    let napping = || {
        time(1, LANES, &one_thread(), || {
            for _ in 0..ROUNDS {
                if position().thread == LANES - 1 {
                    let _ = (runtime().calling)(1);
                }
                nap(0);
            }
        })
    };
    let count = u64::from(ROUNDS) * u64::from(LANES);
    println!("nap                   {:8.1} ns a lane", ns_each(best(napping), count));
}

fn launches() {
    let kernels: [(&str, fn()); 3] = [
        ("empty", || {}),
        ("calling", || {
            let _ = (runtime().calling)(1);
        }),
        ("napping", || nap(0)),
    ];
    for (name, blocks, threads) in [("1", 1, 1), ("10,000", 100, 100), ("1,000,000", 10_000, 100)] {
        for (what, kernel) in kernels {
            let launched = best(|| time(blocks, threads, &CpuOptions::default(), kernel));
            println!("launch of {name:>9} lanes, {what:8} {launched:9.1?}");
        }
    }
}
