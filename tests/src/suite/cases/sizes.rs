//! What only a GPU is large enough for.

use std::fs::File;
use std::time::{Duration, Instant};

use gpufs_host::{Grid, Session};
use gpufs_test_kernels::{Call, Job, Letters, print_records};

use super::sessions::assert_works;
use super::views::{run_programs, run_scan};
use crate::suite::harness::fopen;
use crate::suite::printing::{Printing, check_records, start, threads};
use crate::suite::{Bench, Outcome};
use crate::{Scratch, patience, setting};

fn printing(grid: Grid, rounds: u32) -> Printing<'static> {
    Printing { grid, rounds, mode: c"w", buffer: None, call: Call::Fprintf, letters: Letters::Short }
}

/// As many threads as the GPU holds at once (on an H200 132 × 2,048 = 270,336), 100 records each.
pub fn full_occupancy(bench: &Bench) -> Outcome {
    /// What leaves room for 2,048 threads of 65,536 registers.
    const REGISTERS: u32 = 32;
    let mut harness = bench.open(Session::builder().gpu_registers(REGISTERS));
    let (limits, each) = (
        harness.session.kernel_limits::<print_records::Entry>().unwrap(),
        harness.session.occupancy::<print_records::Entry>(256).unwrap(),
    );
    if limits.registers.is_some_and(|registers| registers > REGISTERS) {
        return Outcome::Skipped(format!(
            "the program was assembled for {:?} registers a thread; it wants PTX, or 'ptxas -maxrregcount {REGISTERS}'",
            limits.registers
        ));
    }
    let grid = Grid { blocks: harness.session.multiprocessors() * each * bench.scale, threads: 256 };
    let started = Instant::now();
    printing(grid, 100).run(&mut harness, "occupancy");
    let took = started.elapsed();
    println!(
        "{} threads, {} on each multiprocessor, {} records, checked: {took:?}",
        threads(grid),
        each * 256,
        threads(grid) * 100
    );
    println!("{:?}", harness.session.statistics().total());
    Outcome::Passed
}

/// Eight, to one stream.
pub fn several_launches_at_once(bench: &Bench) -> Outcome {
    const LAUNCHES: u64 = 8;
    let scratch = Scratch::new("launches");
    let mut harness = bench.open(Session::builder());
    harness.must(vec![fopen(0, &scratch.c("out"), c"w")]);
    harness.reserve(1 << 20);
    let grid = Grid { blocks: 60 * bench.scale, threads: 256 };
    let reports: Vec<_> = (0..LAUNCHES)
        .map(|launch| {
            let job = Job { first_thread: launch * threads(grid), ..printing(grid, 100).job() };
            start(&mut harness, grid, Call::Mixed, job)
        })
        .collect();
    harness.synchronize().unwrap();
    for report in &reports {
        harness.check(report);
    }
    check_records(&scratch.read("out"), LAUNCHES * threads(grid), 100, Letters::Short);
    assert_works(&mut harness);
    Outcome::Passed
}

/// A kernel that runs for two minutes, and mostly pauses, for longer than the SQPOLL threads stay awake.
pub fn two_minutes_with_pauses(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("pauses");
    let mut harness = bench.open(Session::builder().idle(Duration::from_millis(50)));
    harness.must(vec![fopen(0, &scratch.c("out"), c"w")]);
    let grid = Grid { blocks: 132, threads: 128 };
    let rounds = 240 * bench.scale;
    let job = Job { nap_ns: 500_000_000, ..printing(grid, rounds).job() };
    let started = Instant::now();
    let report = start(&mut harness, grid, Call::Fprintf, job);
    harness.synchronize().unwrap();
    harness.check(&report);
    assert!(started.elapsed() >= Duration::from_millis(500) * rounds);
    check_records(&scratch.read("out"), threads(grid), rounds, Letters::Short);
    let total = harness.session.statistics().total();
    assert!(total.wake_ups > 0, "no ring ever slept: {total:?}");
    println!("{:?}: {total:?}", started.elapsed());
    assert_works(&mut harness);
    Outcome::Passed
}

/// Arrays in files for ten minutes, in a cache with a hundredth of the memory that they need: programs that read, store, add and flush, and
/// scans that also pin pages and read ahead, in turn, each from a seed of its own. `GPUFS_VIEWS_SECONDS` is how long.
pub fn ten_minutes_at_one_percent(bench: &Bench) -> Outcome {
    const FRAMES: usize = 16;
    const PAGE: u32 = 4 << 10;
    let length = Duration::from_secs(setting("GPUFS_VIEWS_SECONDS", 600));
    let grid = Grid { blocks: 800 * bench.scale, threads: 64 };
    // Of the programs each warp has a page, and of the scans as many elements.
    let pages = threads(grid) / 32;
    let count = pages * u64::from(PAGE) / 8;
    assert!(pages >= 100 * FRAMES as u64);
    let scratch = Scratch::new("view-ten-minutes");
    let content: Vec<u8> = (0..count).flat_map(u64::to_le_bytes).collect();
    std::fs::write(scratch.path("file"), content).unwrap();

    let mut harness =
        bench.open(Session::builder().cache(FRAMES * PAGE as usize).cache_page(PAGE).deadline(patience()));
    let (first_seed, started) = (setting("GPUFS_SEED", 1), Instant::now());
    let mut passes = 0;
    let mut said = Duration::ZERO;
    while started.elapsed() < length {
        run_programs(&mut harness, grid, first_seed + passes, 5);
        let map = harness.session.map(File::open(scratch.path("file")).unwrap()).unwrap();
        run_scan(&mut harness, grid, map, (count, 2));
        harness.session.unmap(map).unwrap();
        passes += 1;
        if started.elapsed() >= said {
            println!("{:?}: {passes} passes, {:?}", started.elapsed(), harness.session.cache_statistics());
            said += Duration::from_secs(60);
        }
    }
    println!("{:?}: {passes} passes, {:?}", started.elapsed(), harness.session.cache_statistics());
    println!("{:?}", harness.session.statistics().total());
    assert_works(&mut harness);
    Outcome::Passed
}
