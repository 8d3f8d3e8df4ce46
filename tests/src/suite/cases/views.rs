//! Files as arrays: programs of many threads on few frames, and scans.

use std::fs::File;
use std::io::Write;

use gpufs_device::view::Mapping;
use gpufs_host::{Builder, Grid, Session};
use gpufs_test_kernels::{OWN, elements_after, view_programs, view_scan};

use super::super::harness::Harness;
use super::super::{Bench, Outcome};
use crate::{MODES, Scratch, setting, skip, small};

/// Runs in sessions of each mode with caches of so many frames of 4 KiB and of one larger.
fn in_each_mode(bench: &Bench, case: &str, frames: usize, mut run: impl FnMut(&mut Harness)) {
    for mode in MODES {
        for (builder, page) in [(small as fn() -> Builder, 4 << 10), (Session::builder, 16 << 10)] {
            match bench.try_open(builder().mode(mode).cache(frames * page as usize).cache_page(page)) {
                Ok(mut harness) => run(&mut harness),
                Err(refused) => skip(&format!("{case} in {mode}"), refused),
            }
        }
    }
}

/// Every thread reads, stores to, adds to and flushes its own elements of pages that all share; then the file is what plain arrays say.
pub fn programs_on_few_frames(bench: &Bench) -> Outcome {
    programs(bench, "programs_on_few_frames", 16)
}

/// The same of a file that has room as a whole.
pub fn programs_on_a_whole_file(bench: &Bench) -> Outcome {
    programs(bench, "programs_on_a_whole_file", 1024)
}

fn programs(bench: &Bench, case: &str, frames: usize) -> Outcome {
    let seed = setting("GPUFS_SEED", 1);
    let rounds = 50 * bench.scale;
    let grid = Grid { blocks: bench.sized(4, 32), threads: 64 };
    in_each_mode(bench, case, frames, |harness| run_programs(harness, grid, seed, rounds));
    Outcome::Passed
}

/// A launch of programs, on a file that has a page of 4 KiB for each warp, and what it must leave.
pub(super) fn run_programs(harness: &mut Harness, grid: Grid, seed: u64, rounds: u32) {
    let scratch = Scratch::new("view-programs");
    let threads = u64::from(grid.blocks * grid.threads);
    let count = threads as usize * OWN + 1;
    std::fs::write(scratch.path("file"), vec![0; count * 8]).unwrap();
    let file = File::options().read(true).write(true).open(scratch.path("file")).unwrap();
    let map = harness.session.map_mut(file).unwrap();
    let report = harness.report();
    let arguments = view_programs::Arguments { map, seed, rounds, report: report.handle() };
    harness.session.start::<view_programs::Entry>(grid, arguments).unwrap();
    harness.synchronize().unwrap();
    harness.check(&report);
    let content = std::fs::read(scratch.path("file")).unwrap();
    let element =
        |at: usize| u64::from_le_bytes(content[at * 8..at * 8 + 8].try_into().expect("eight bytes"));
    for thread in 0..threads {
        for (own, wanted) in elements_after(thread, seed, rounds).into_iter().enumerate() {
            let at = own * threads as usize + thread as usize;
            assert_eq!(element(at), wanted, "seed {seed}, thread {thread}, its element {own}");
        }
    }
    assert_eq!(element(count - 1), threads);
    let statistics = harness.session.cache_statistics();
    assert!(statistics.write_backs > 0, "{statistics:?}");
    harness.session.unmap_mut(map).unwrap();
}

/// Elements of the file that is scanned, in more than 100 pages.
const SCANNED: u64 = 100 * 2048 + 9;

/// Threads scan a file, and look at elements anywhere.
fn scan(bench: &Bench, harness: &mut Harness, map: Mapping) {
    run_scan(harness, Grid { blocks: bench.sized(2, 64), threads: 64 }, map, (SCANNED, 20));
}

/// A launch that scans a file of so many elements, of which each thread looks at `each` anywhere.
pub(super) fn run_scan(harness: &mut Harness, grid: Grid, map: Mapping, (count, each): (u64, u32)) {
    let report = harness.report();
    let arguments = view_scan::Arguments { map, count, each, report: report.handle() };
    harness.session.start::<view_scan::Entry>(grid, arguments).unwrap();
    harness.synchronize().unwrap();
    harness.check(&report);
}

/// The same of a file that has room as a whole: after the first scan no page is looked for.
pub fn scans_of_a_whole_file(bench: &Bench) -> Outcome {
    in_each_mode(bench, "scans_of_a_whole_file", 424, |harness| {
        let scratch = Scratch::new("view-whole");
        let content: Vec<u8> = (0..SCANNED).flat_map(u64::to_le_bytes).collect();
        File::create(scratch.path("file")).unwrap().write_all(&content).unwrap();
        let map = harness.session.map(File::open(scratch.path("file")).unwrap()).unwrap();
        scan(bench, harness, map);
        let first = harness.session.cache_statistics();
        assert!(first.misses >= 100 && first.evictions == 0, "{first:?}");
        scan(bench, harness, map);
        assert_eq!(harness.session.cache_statistics(), first);
        harness.session.unmap(map).unwrap();
    });
    Outcome::Passed
}

/// The same of a file that is larger than the cache.
pub fn scans_of_a_larger_file(bench: &Bench) -> Outcome {
    in_each_mode(bench, "scans_of_a_larger_file", 24, |harness| {
        let scratch = Scratch::new("view-scan");
        let count = SCANNED;
        let content: Vec<u8> = (0..count).flat_map(u64::to_le_bytes).collect();
        File::create(scratch.path("file")).unwrap().write_all(&content).unwrap();
        let map = harness.session.map(File::open(scratch.path("file")).unwrap()).unwrap();
        scan(bench, harness, map);
        let statistics = harness.session.cache_statistics();
        assert!(statistics.misses >= 100 && statistics.evictions >= 76, "{statistics:?}");
        harness.session.unmap(map).unwrap();
    });
    Outcome::Passed
}
