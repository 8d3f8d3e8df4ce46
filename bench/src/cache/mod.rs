//! `cache`: pages of files in device memory. Resident pages beside a plain array that holds the same, misses beside `pread`, write-back beside
//! `pwrite`.
//!
//! Every number that a kernel looks at is known: sums of the views are compared with sums of the array and of the host, pages that are written back
//! with what was stored. Pages that should be resident and were not are an error.
//!
//! | row | what | the target's rival |
//! |---|---|---|
//! | 1 | pinned spans of 4 and 64 KiB, resident, in a mixed order | the same loads of an array |
//! | 2, 3, 4 | looks at 128 B a warp and 8 B a lane anywhere, and in order, resident | likewise |
//! | 5 | random pages of 4 KiB of a file four times the cache | `pread` of 4 KiB |
//! | 6 | the same file in order, in pages of 64 KiB | loads over the bus |
//! | 7 | pages of 64 KiB written back to 16 files in memory | the best way to write them |
//! | 10 | registers of kernels that look through a view | those of kernels that look at the array |
//!
//! Rows 1 to 4 and 10 are in `resident.rs`, rows 5 to 7 in `moving.rs`.

mod moving;
mod resident;

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use gpufs_bench_kernels::cache::number;
use gpufs_host::Grid;

use crate::bench::Bench;
use crate::failure::Failure;
use crate::report::{Goal, Limit, Role};
use crate::sample::Named;
use crate::scratch::Scratch;
use crate::stage::Stage;

const NAME: &str = "cache";
const KIB_4: u32 = 4 << 10;
const KIB_64: u32 = 64 << 10;
/// Frames of a set: a cache has as many at least.
const LEAST_PAGES: u64 = 8;
const NUMBER: u64 = size_of::<u64>() as u64;

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    if [1, 2, 3, 4].into_iter().any(|row| wants(bench, row)) {
        for page in [KIB_4, KIB_64] {
            resident::run(bench, page)?;
        }
    }
    if wants(bench, 5) {
        moving::misses(bench, KIB_4, moving::random_pages)?;
    }
    if wants(bench, 6) {
        moving::misses(bench, KIB_64, moving::ordered_pages)?;
    }
    if wants(bench, 7) {
        moving::written_back(bench)?;
    }
    bench.stage = None;
    Ok(())
}

/// Whether a row is measured.
fn wants(bench: &Bench, row: u32) -> bool {
    bench.options.only.as_ref().is_none_or(|only| only.contains(&row))
}

/// Adds gpufs' figure and its rival's, and the line of the table that they make.
fn beside(
    bench: &mut Bench,
    (row, what): (u32, &str),
    unit: &'static str,
    ours: &Named,
    (rival, wanted): (&Named, Option<f64>),
) {
    let case = format!("row {row}: {what}");
    bench.figure(NAME, &case, &ours.0, Role::Ours, unit, ours.1.clone(), None);
    bench.figure(NAME, &case, &rival.0, Role::Rival, unit, rival.1.clone(), None);
    // The targets are a GPU's.
    let limit = wanted.filter(|_| bench.gpu.is_some()).map(Limit::AtLeast);
    let (figure, rival) = ((ours.1.median(), ours.0.clone()), Some((rival.1.median(), rival.0.clone())));
    goal(bench, Goal { row, what: what.to_owned(), figure, unit, rival, limit });
}

/// A line of the table, printed now.
fn goal(bench: &mut Bench, goal: Goal) {
    bench.progress.above(|| println!("{}", goal.line()));
    bench.report.add_goal(goal);
}

/// A file of known numbers.
struct Numbers {
    path: PathBuf,
    count: u64,
    /// The sum of each 4 KiB.
    sums: Vec<u64>,
}

impl Numbers {
    /// One of so many bytes, a power of two, made here.
    fn made(scratch: &Scratch, bytes: u64) -> Result<Self, Failure> {
        const EACH: u64 = KIB_4 as u64 / NUMBER;
        let (path, count) = (scratch.path("numbers"), bytes / NUMBER);
        let mut file = File::create(&path)?;
        let mut sums = Vec::new();
        let mut piece = Vec::new();
        for first in (0..count).step_by(EACH as usize) {
            let numbers = (first..first + EACH).map(number);
            sums.push(numbers.clone().fold(0, u64::wrapping_add));
            piece.extend(numbers.flat_map(u64::to_le_bytes));
            if piece.len() >= 1 << 20 || first + EACH >= count {
                file.write_all(&piece)?;
                piece.clear();
            }
        }
        Ok(Self { path, count, sums })
    }
    /// The sum of a page of so many bytes.
    fn page_sum(&self, page: u64, bytes: u32) -> u64 {
        let each = u64::from(bytes / KIB_4);
        let sums = &self.sums[(page * each) as usize..((page + 1) * each) as usize];
        sums.iter().copied().fold(0, u64::wrapping_add)
    }
}

/// The sum of what the threads of a grid have left.
fn sum_of(stage: &Stage, grid: Grid) -> u64 {
    let sums = stage.read_counts((grid.blocks * grid.threads) as usize);
    sums.into_iter().fold(0, u64::wrapping_add)
}

/// A session with a cache, in the place of the benchmark's.
fn open(bench: &mut Bench, bytes: u64, page: u32) -> Result<u32, Failure> {
    let rings = bench.most_rings();
    bench.stage = None;
    let cache = (usize::try_from(bytes)?, page);
    bench.stage = Some(Stage::open_cached(&bench.options, bench.gpu.as_ref(), rings, cache)?);
    Ok(rings)
}
