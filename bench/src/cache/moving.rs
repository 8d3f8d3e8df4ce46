//! Rows 5 to 7: pages that come and go.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use gpufs_bench_kernels::cache::{Dirty, Looks, pages_in_order, pages_of_lanes, random_misses, write_back};
use gpufs_bench_kernels::{MOST_FILES, Supply};
use gpufs_core::kernel::Kernel;
use gpufs_device::view::{Mapping, MappingMut};
use gpufs_host::Grid;

use super::{KIB_64, LEAST_PAGES, NAME, NUMBER, Numbers, beside, open, sum_of};
use crate::bench::Bench;
use crate::failure::Failure;
use crate::read::{self, Source, best_of, choices, gigabytes, reading_ways};
use crate::report::size;
use crate::sample::{Effort, Named, Spread};
use crate::scratch::{Access, Scratch, both_ways, in_memory};
use crate::stage::{Stage, WIDTH, grid_of};
use crate::write::{Target, writing_ways, written};

/// A file four times the cache.
pub(super) struct Missing<'a> {
    numbers: &'a Numbers,
    source: Source,
    map: Mapping,
    page: u32,
    rings: u32,
}

/// Rows 5 and 6.
pub(super) fn misses(
    bench: &mut Bench,
    page: u32,
    measure: impl Fn(&mut Bench, &Missing<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let least = 4 * LEAST_PAGES * u64::from(page);
    let bytes = 1 << bench.options.file_bytes.max(least).ilog2();
    bench.step("a file of numbers");
    let scratch = Scratch::new(&bench.options.directory, NAME)?;
    let numbers = Numbers::made(&scratch, bytes)?;
    let rings = open(bench, bytes / 4, page)?;
    let map = bench.stage(rings)?.session().map(File::open(&numbers.path)?)?;
    let source = Source { path: numbers.path.clone(), span: bytes, access: Access::Cached };
    measure(bench, &Missing { numbers: &numbers, source, map, page, rings })?;
    bench.stage(rings)?.session().unmap(map)?;
    Ok(())
}

impl Missing<'_> {
    /// The rate at which a kernel's misses bring bytes.
    fn rate<K: Kernel>(
        &self,
        stage: &mut Stage,
        (effort, warps): (Effort, u32),
        pages_of_piece: u64,
        sum_wanted: impl Fn(u64, u64) -> Option<u64>,
        arguments: impl Fn(Looks, Supply) -> K::Arguments,
    ) -> Result<Spread, Failure> {
        let (sums, times, count) = (stage.counts(), stage.times(), self.numbers.count);
        let piece = u64::from(self.page) / NUMBER;
        let mut job = Looks { map: self.map, array: 0, count, piece, work: 0, first: 0, sums, times };
        let rate = effort.rate(u32::MAX, |rounds| {
            let pieces = u64::from(rounds) * u64::from(warps);
            let supply = stage.supply(pieces)?;
            let before = stage.session().cache_statistics().misses;
            let seconds = stage.run_timed::<K>(grid_of(warps), arguments(job, supply))?;
            let brought = stage.session().cache_statistics().misses - before;
            let (pages, found) = (pieces * pages_of_piece, sum_of(stage, grid_of(warps)));
            if let Some(wanted) = sum_wanted(job.first, pages).filter(|wanted| *wanted != found) {
                return Err(format!("the views' sum is {found}, and the file's {wanted}").into());
            }
            job.first += pages;
            Ok(((brought * u64::from(self.page)) as f64, seconds))
        })?;
        Ok(gigabytes(&rate))
    }
    /// The best way of `pread` into device memory.
    fn by_pread(&self, bench: &mut Bench) -> Result<Named, Failure> {
        let effort = bench.options.effort;
        let pieces = choices(self.page.into(), bench.warps()[0], bench.options.memory as u64);
        let ways = reading_ways(&pieces);
        let (_, best) = bench.best(self.rings, effort, &ways, |stage, effort, (index, way)| {
            read::transferred(stage, effort, &self.source, &pieces[index], way)
        })?;
        Ok(best)
    }
}

/// Numbers of warps to try.
fn warp_counts(bench: &Bench) -> Vec<u32> {
    if bench.options.warps.is_some() {
        return bench.warps();
    }
    let usual = bench.warps()[0];
    vec![usual / 2, usual, 2 * usual, 4 * usual]
}

/// Row 5.
pub(super) fn random_pages(bench: &mut Bench, missing: &Missing<'_>) -> Result<(), Failure> {
    let (effort, rings) = (bench.options.effort, missing.rings);
    let ways: Vec<(String, u32)> = warp_counts(bench)
        .iter()
        .map(|warps| (format!("views, a page a lane, warps: {warps}"), *warps))
        .collect();
    let what = format!(
        "misses: random pages of 4 KiB, cache of {}, file of {}, rings: {rings}",
        size(missing.source.span / 4),
        size(missing.source.span)
    );
    bench.step(&what);
    let (_, ours) = bench.best(rings, effort, &ways, |stage, effort, warps| {
        let arguments = |job, supply| random_misses::Arguments { job, supply };
        missing.rate::<random_misses::Entry>(stage, (effort, warps), WIDTH.into(), |_, _| None, arguments)
    })?;
    let rival = missing.by_pread(bench)?;
    beside(bench, (5, &what), "GB/s", &ours, (&rival, Some(0.9)));
    Ok(())
}

/// How the pages of a file come in order.
#[derive(Clone, Copy)]
enum Ordered {
    Warp { ahead: u32 },
    Lane,
}

/// Row 6.
pub(super) fn ordered_pages(bench: &mut Bench, missing: &Missing<'_>) -> Result<(), Failure> {
    let (effort, rings) = (bench.options.effort, missing.rings);
    let mut ways = Vec::new();
    for warps in warp_counts(bench) {
        ways.push((format!("views, a page a warp, warps: {warps}"), (Ordered::Warp { ahead: 0 }, warps)));
        let name = format!("views, a page a warp, the next prefetched, warps: {warps}");
        ways.push((name, (Ordered::Warp { ahead: 1 }, warps)));
        ways.push((format!("views, a page a lane, warps: {warps}"), (Ordered::Lane, warps)));
    }
    let what = format!(
        "misses: pages of 64 KiB in order, cache of {}, file of {}, rings: {rings}",
        size(missing.source.span / 4),
        size(missing.source.span)
    );
    bench.step(&what);
    let numbers = missing.numbers;
    let pages = missing.source.span / u64::from(missing.page);
    let sum = |first: u64, count: u64| {
        let sums = (first..first + count).map(|page| numbers.page_sum(page % pages, missing.page));
        Some(sums.fold(0, u64::wrapping_add))
    };
    let (_, ours) = bench.best(rings, effort, &ways, |stage, effort, (order, warps)| match order {
        Ordered::Warp { ahead } => {
            let arguments = |job, supply| pages_in_order::Arguments { job, supply, ahead };
            missing.rate::<pages_in_order::Entry>(stage, (effort, warps), 1, sum, arguments)
        }
        Ordered::Lane => {
            let arguments = |job, supply| pages_of_lanes::Arguments { job, supply };
            missing.rate::<pages_of_lanes::Entry>(
                stage,
                (effort, warps),
                WIDTH.into(),
                |_, _| None,
                arguments,
            )
        }
    })?;
    let rival = missing.by_pread(bench)?;
    beside(bench, (6, &what), "GB/s", &ours, (&rival, None));
    if bench.gpu.is_none() {
        bench.report.skip(NAME, "row 6: loads over the bus", "needs a GPU");
        return Ok(());
    }
    let pieces = choices(missing.page.into(), bench.warps()[0], bench.options.memory as u64);
    let stage = bench.stage(rings)?;
    let bus = best_of(&pieces, |piece| read::loaded(stage, effort, piece))?;
    beside(
        bench,
        (6, &what),
        "GB/s",
        &ours,
        (&("loads from pinned memory, no file".to_owned(), bus), Some(0.9)),
    );
    Ok(())
}

/// Row 7.
pub(super) fn written_back(bench: &mut Bench) -> Result<(), Failure> {
    let Some(memory) = in_memory() else {
        bench.report.skip(NAME, "row 7: write-back", "there is no /dev/shm");
        return Ok(());
    };
    bench.step("files in memory");
    let (scratch, effort) = (Scratch::new(memory, NAME)?, bench.options.effort);
    let target = Target::files("tmpfs", &scratch, MOST_FILES, bench.options.file_bytes)?;
    let pages = target.span / u64::from(KIB_64);
    let rings = open(bench, 2 * pages * u64::from(KIB_64) * MOST_FILES as u64, KIB_64)?;
    let what = format!(
        "write-back of dirty pages of 64 KiB to tmpfs, files: {MOST_FILES}, of {} each, rings: {rings}",
        size(target.span)
    );
    bench.step(&what);
    let session = bench.stage(rings)?.session();
    let maps: Result<Vec<MappingMut>, Failure> =
        target.paths.iter().map(|path| Ok(session.map_mut(both_ways(path)?)?)).collect();
    let maps = maps?;
    let placed = session.place::<[MappingMut; MOST_FILES]>(std::array::from_fn(|index| maps[index]))?;
    let ways = [1, 2, 4, 8, 16].map(|each| (format!("views, warps that flush a file: {each}"), each));
    let mut value = 0_u64;
    let (_, ours) = bench.best(rings, effort, &ways, |stage, effort, each| {
        let (times, sums) = (stage.times(), stage.counts());
        let grid = Grid { blocks: MOST_FILES as u32 * each, threads: WIDTH };
        let rate = effort.rate(u32::MAX, |rounds| {
            value += 1 << 32;
            let piece = u64::from(KIB_64) / NUMBER;
            let job = Dirty { maps: placed.handle(), piece, pages, value, sums, times };
            // Each warp has a first piece anyway.
            let supply = stage.supply(u64::from(rounds - 1) * u64::from(grid.blocks))?;
            let before = stage.session().cache_statistics().write_backs;
            let seconds =
                stage.run_timed::<write_back::Entry>(grid, write_back::Arguments { job, supply })?;
            let wrote = stage.session().cache_statistics().write_backs - before;
            let stored = sum_of(stage, grid);
            if wrote != stored {
                return Err(format!("{wrote} pages of {stored} were written").into());
            }
            Ok(((wrote * u64::from(KIB_64)) as f64, seconds))
        })?;
        Ok(gigabytes(&rate))
    })?;
    for (path, page) in target.paths.iter().flat_map(|path| (0..pages).map(move |page| (path, page))) {
        let mut found = [0; NUMBER as usize];
        File::open(path)?.read_exact_at(&mut found, page * u64::from(KIB_64))?;
        if u64::from_le_bytes(found) != value + page {
            return Err(format!("page {page} of {} is not what was stored", path.display()).into());
        }
    }
    for map in maps {
        bench.stage(rings)?.session().unmap_mut(map)?;
    }
    let warps = bench.warps()[0];
    let mut pieces = choices(KIB_64.into(), warps, bench.options.memory as u64);
    pieces.extend(choices(1 << 20, warps, bench.options.memory as u64));
    let (_, rival) = bench.best(rings, effort, &writing_ways(&pieces), |stage, effort, way| {
        written(stage, effort, &target, &pieces, way)
    })?;
    beside(bench, (7, &what), "GB/s", &ours, (&rival, Some(0.9)));
    Ok(())
}
