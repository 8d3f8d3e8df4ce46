//! Rows 1 to 4 and 10: pages that are in the cache and stay, beside an array.

use std::fs::File;

use gpufs_bench_kernels::cache::{
    Looks, STRETCH, cached_in_order, cached_lanes, cached_spans, cached_warps, fill_array, plain_in_order,
    plain_lanes, plain_spans, plain_warps, warm,
};
use gpufs_core::kernel::Kernel;
use gpufs_device::view::Mapping;
use gpufs_host::Grid;

use super::{LEAST_PAGES, NAME, NUMBER, Numbers, beside, goal, open, sum_of, wants};
use crate::bench::Bench;
use crate::failure::Failure;
use crate::gpu::DeviceBytes;
use crate::report::{Goal, Limit, size};
use crate::sample::{Effort, Spread};
use crate::scratch::Scratch;
use crate::stage::{Stage, grid_of};

/// Threads of a block where the whole device looks at what is resident.
const BLOCK: u32 = 256;

/// A grid that fills the device with threads of a kernel.
fn whole_grid<K: Kernel>(bench: &Bench, stage: &mut Stage) -> Result<Grid, Failure> {
    let Some(gpu) = &bench.gpu else { return Ok(grid_of(bench.warps()[0])) };
    let blocks = stage.session().occupancy::<K>(BLOCK)? * gpu.multiprocessors;
    Ok(Grid { blocks, threads: BLOCK })
}

/// Looks at what is resident.
struct Resident {
    effort: Effort,
    job: Looks,
    /// How many pages were missed before.
    missed: u64,
}

/// What is measured of it.
struct Case<'a> {
    row: u32,
    what: &'a str,
    unit: &'static str,
    /// Parts of work in one round, and what each counts for.
    part: (u64, f64),
    wanted: f64,
}

impl Resident {
    /// The rate of a kernel, and the work and the sum of its last sample.
    fn rate<K: Kernel>(
        &self,
        bench: &mut Bench,
        (parts, each): (u64, f64),
        arguments: &impl Fn(Looks) -> K::Arguments,
    ) -> Result<(Spread, (u64, u64)), Failure> {
        let mut stage = bench.stage.take().ok_or("there is a stage")?;
        let grid = whole_grid::<K>(bench, &mut stage)?;
        let mut last = (0, 0);
        let rate = self.effort.rate(u32::MAX, |rounds| {
            let job = Looks { work: u64::from(rounds) * parts, ..self.job };
            let seconds = stage.run_timed::<K>(grid, arguments(job))?;
            last = (job.work, sum_of(&stage, grid));
            Ok((each * job.work as f64, seconds))
        });
        bench.stage = Some(stage);
        Ok((rate?, last))
    }
    /// The rates of a kernel that looks through a view and of its plain twin, whose sum is the same.
    fn compare<Ours: Kernel, Plain: Kernel>(
        &self,
        bench: &mut Bench,
        case: &Case<'_>,
        ours: impl Fn(Looks) -> Ours::Arguments,
        plain: impl Fn(Looks) -> Plain::Arguments,
    ) -> Result<(), Failure> {
        if !wants(bench, case.row) {
            return Ok(());
        }
        bench.step(case.what);
        let (rate, (work, sum)) = self.rate::<Ours>(bench, case.part, &ours)?;
        let (beneath, _) = self.rate::<Plain>(bench, case.part, &plain)?;
        let mut stage = bench.stage.take().ok_or("there is a stage")?;
        let grid = whole_grid::<Plain>(bench, &mut stage)?;
        stage.run::<Plain>(grid, plain(Looks { work, ..self.job }))?;
        let (wanted, missed) = (sum_of(&stage, grid), stage.session().cache_statistics().misses);
        let registers = (
            stage.session().kernel_limits::<Ours>()?.registers,
            stage.session().kernel_limits::<Plain>()?.registers,
        );
        bench.stage = Some(stage);
        if sum != wanted {
            return Err(format!("{}: views say {sum}, and the array {wanted}", case.what).into());
        }
        if missed != self.missed {
            let more = missed - self.missed;
            return Err(format!("{}: {more} pages had to be brought that should stay", case.what).into());
        }
        let (ours, plain) = (("views".to_owned(), rate), ("a plain array".to_owned(), beneath));
        beside(bench, (case.row, case.what), case.unit, &ours, (&plain, Some(case.wanted)));
        if case.row == 3 {
            let limit = bench.gpu.is_some().then_some(Limit::AtLeast(10.0));
            let (figure, unit) = ((ours.1.median(), ours.0), case.unit);
            goal(bench, Goal { row: 3, what: case.what.to_owned(), figure, unit, rival: None, limit });
        }
        match registers {
            (Some(ours), Some(plain)) => {
                let what = format!("registers of the kernel of row {}: {}", case.row, case.what);
                let (ours, plain) = (f64::from(ours), f64::from(plain));
                let rival = Some((plain, "a plain array".to_owned()));
                let figure = (ours, "views".to_owned());
                goal(bench, Goal { row: 10, what, figure, unit: "registers", rival, limit: None });
            }
            _ => bench.report.skip(NAME, "row 10: registers", "needs a GPU"),
        }
        Ok(())
    }
}

/// Rows 1 to 4, with pages of so many bytes.
pub(super) fn run(bench: &mut Bench, page: u32) -> Result<(), Failure> {
    let least = 2 * LEAST_PAGES * u64::from(page);
    let cache = bench.options.cache_bytes.max(least);
    // Half of the cache: no set of it has more pages than frames.
    let bytes = 1 << (cache / 2).ilog2();
    bench.step("a file of numbers");
    let scratch = Scratch::new(&bench.options.directory, NAME)?;
    let numbers = Numbers::made(&scratch, bytes)?;
    let rings = open(bench, cache, page)?;
    let array = DeviceBytes::allocate(bench.gpu.as_ref(), usize::try_from(bytes)?)?;
    let map = bench.stage(rings)?.session().map(File::open(&numbers.path)?)?;
    let outcome = looks(bench, (rings, page), &numbers, (map, array.address()));
    if outcome.is_ok() {
        bench.stage(rings)?.session().unmap(map)?;
    }
    // No kernel uses the array any more.
    bench.stage = None;
    outcome
}

/// [`run`], of a file that is mapped, beside an array of its numbers.
fn looks(
    bench: &mut Bench,
    (rings, page): (u32, u32),
    numbers: &Numbers,
    (map, array): (Mapping, u64),
) -> Result<(), Failure> {
    let (count, piece) = (numbers.count, u64::from(page) / NUMBER);
    let grid = grid_of(bench.warps()[0]);
    let (effort, stage) = (bench.options.effort, bench.stage(rings)?);
    let (sums, times) = (stage.counts(), stage.times());
    let job = Looks { map, array, count, piece, work: 0, first: 0, sums, times };
    stage.run::<fill_array::Entry>(grid, fill_array::Arguments { job })?;
    stage.run::<warm::Entry>(grid, warm::Arguments { job })?;
    let missed = stage.session().cache_statistics().misses;
    // What is compared is right.
    let pass = Looks { work: count / piece, ..job };
    stage.run::<plain_spans::Entry>(grid, plain_spans::Arguments { job: pass })?;
    let (found, wanted) = (sum_of(stage, grid), numbers.sums.iter().copied().fold(0, u64::wrapping_add));
    if found != wanted {
        return Err(format!("the array's sum is {found}, and the file's {wanted}").into());
    }
    let resident = Resident { effort, job, missed };
    let pages = format!("pages of {}", size(page.into()));
    let named = |what: &str| format!("{what}, {pages}, file of {}", size(count * NUMBER));
    let spans = named(&format!("pinned spans of {}", size(page.into())));
    let case = Case {
        row: 1,
        what: &spans,
        unit: "GB/s",
        part: (count / piece, f64::from(page) / 1e9),
        wanted: 0.85,
    };
    resident.compare::<cached_spans::Entry, plain_spans::Entry>(
        bench,
        &case,
        |job| cached_spans::Arguments { job },
        |job| plain_spans::Arguments { job },
    )?;
    // As many looks in a round as there are lines of 128 bytes, four in a part.
    let groups = count * NUMBER / 128 / 4;
    let what = named("random 128 B a warp");
    let case = Case { row: 2, what: &what, unit: "GB/s", part: (groups, 4.0 * 128.0 / 1e9), wanted: 0.6 };
    resident.compare::<cached_warps::Entry, plain_warps::Entry>(
        bench,
        &case,
        |job| cached_warps::Arguments { job },
        |job| plain_warps::Arguments { job },
    )?;
    let what = named("random 8 B a lane");
    let case = Case { row: 3, what: &what, unit: "G/s", part: (groups, 4.0 / 1e9), wanted: 0.35 };
    resident.compare::<cached_lanes::Entry, plain_lanes::Entry>(
        bench,
        &case,
        |job| cached_lanes::Arguments { job },
        |job| plain_lanes::Arguments { job },
    )?;
    let what = named("in order, 8 B a lane");
    let part = (count / STRETCH, (STRETCH * NUMBER) as f64 / 1e9);
    let case = Case { row: 4, what: &what, unit: "GB/s", part, wanted: 0.7 };
    resident.compare::<cached_in_order::Entry, plain_in_order::Entry>(
        bench,
        &case,
        |job| cached_in_order::Arguments { job },
        |job| plain_in_order::Arguments { job },
    )?;
    Ok(())
}
