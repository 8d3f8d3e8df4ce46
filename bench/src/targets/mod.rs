//! `targets`: the thirteen rows of the project's table of targets, each with what it needs and no more.
//!
//! | rows | what | file |
//! |---|---|---|
//! | 1, 2 | `fprintf` of lines | `lines.rs` |
//! | 3, 4, 5 | `fwrite` and `pwrite` | `writes.rs` |
//! | 6, 7, 13 | `pread` and `fgets` | `reads.rs` |
//! | 8, 9, 10 | round trips and NOPs | `operations.rs` |
//! | 11, 12 | cores and memory of a session | `costs.rs` |
//!
//! Where gpufs can do a thing in several ways, each has one short sample, and the best is measured; the table says which that was. A line is
//! printed as soon as it is known, and the whole table at the end. Row 7 comes last: its rival is a library that no one here can mend.

mod costs;
mod lines;
mod operations;
mod reads;
mod writes;

use crate::bench::Bench;
use crate::failure::Failure;
use crate::read::{Piece, Source, choices};
use crate::report::{Goal, Limit, Role, size};
use crate::sample::{Effort, Named, Spread};
use crate::scratch::Scratch;
use crate::stage::Stage;
use crate::write::LARGE_BLOCK;

const NAME: &str = "targets";

const KIB_4: u64 = 4 << 10;
const KIB_64: u64 = 64 << 10;
const MIB: u64 = 1 << 20;

/// Rows that are measured together.
struct Part {
    rows: &'static [u32],
    measure: fn(&mut Run<'_>) -> Result<(), Failure>,
}

const fn part(rows: &'static [u32], measure: fn(&mut Run<'_>) -> Result<(), Failure>) -> Part {
    Part { rows, measure }
}

/// All rows, in the order in which they are measured.
const PARTS: [Part; 12] = [
    part(&[1], lines::to_a_file),
    part(&[2], lines::to_nowhere),
    part(&[3], writes::large),
    part(&[4], writes::small),
    part(&[5], writes::files),
    part(&[6], reads::pages),
    part(&[8, 9], operations::round_trips),
    part(&[10], operations::rates),
    part(&[11], costs::cores),
    part(&[12], costs::memory),
    part(&[13], reads::lines),
    part(&[7], reads::beside_cufile),
];

/// The rows in progress.
struct Run<'a> {
    bench: &'a mut Bench,
    effort: Effort,
    /// The file of rows 6, 7 and 13, and where it lies.
    source: Option<(Scratch, Source)>,
    /// What row 6 found for a size and a number of rings.
    found: Vec<((u64, u32), Named)>,
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let effort = bench.options.effort;
    let only = bench.options.only.clone();
    let mut run = Run { bench, effort, source: None, found: Vec::new() };
    let mut failed = Vec::new();
    let is_wanted =
        |part: &Part| part.rows.iter().any(|row| only.as_ref().is_none_or(|only| only.contains(row)));
    run.bench.progress.parts(PARTS.iter().filter(|part| is_wanted(part)).count());
    for part in PARTS.iter().filter(|part| is_wanted(part)) {
        let Part { rows, measure } = part;
        let name = format!("rows {rows:?}");
        if let Err(error) = measure(&mut run) {
            run.bench.progress.above(|| eprintln!("gpufs-bench: {NAME}: {name}: {error}"));
            run.bench.report.skip(NAME, &name, format!("failed: {error}"));
            failed.push(name);
            // Whatever the session is left with.
            run.bench.stage = None;
        }
        run.bench.progress.part_done();
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("{} failed", failed.join(", ")).into()) }
}

fn named(name: impl Into<String>, spread: Spread) -> Named {
    (name.into(), spread)
}

impl Run<'_> {
    /// Says what is being measured.
    fn step(&mut self, row: u32, what: &str) {
        self.bench.step(&format!("row {row}: {what}"));
    }

    /// Notes that a row, or a part of it, cannot be measured here.
    fn skip(&mut self, row: u32, what: &str, reason: &str) {
        self.bench.report.skip(NAME, format!("row {row}: {what}"), reason);
    }

    fn figure(&mut self, row: u32, what: &str, role: Role, unit: &'static str, figure: &Named) {
        let case = format!("row {row}: {what}");
        self.bench.figure(NAME, &case, &figure.0, role, unit, figure.1.clone(), None);
    }

    /// A line of the table, printed now.
    fn goal(&mut self, goal: Goal) {
        self.bench.progress.above(|| println!("{}", goal.line()));
        self.bench.report.add_goal(goal);
    }

    /// gpufs' figure beside its rivals', each of which makes a line.
    fn beside(
        &mut self,
        row: u32,
        what: &str,
        unit: &'static str,
        ours: &Named,
        rivals: &[(Named, Option<Limit>)],
    ) {
        self.figure(row, what, Role::Ours, unit, ours);
        for (rival, limit) in rivals {
            self.figure(row, what, Role::Rival, unit, rival);
            self.goal(Goal {
                row,
                what: what.to_owned(),
                figure: (ours.1.median(), ours.0.clone()),
                unit,
                rival: Some((rival.1.median(), rival.0.clone())),
                limit: *limit,
            });
        }
    }

    /// A figure that is held against a number, or said beside those that are.
    fn alone(
        &mut self,
        row: u32,
        what: &str,
        unit: &'static str,
        ours: &Named,
        limit: impl Into<Option<Limit>>,
    ) {
        let limit = limit.into();
        self.figure(row, what, Role::Fact, unit, ours);
        let figure = (ours.1.median(), ours.0.clone());
        self.goal(Goal { row, what: what.to_owned(), figure, unit, rival: None, limit });
    }

    /// What a warp moves at a time in requests of `bytes`, by as many warps as may be best. At least one.
    fn choices(&self, bytes: u64) -> Result<Vec<Piece>, Failure> {
        let found = choices(bytes, self.bench.warps()[0], self.bench.options.memory as u64);
        if found.is_empty() {
            return Err(format!("--memory: {} is more than that", size(bytes)).into());
        }
        Ok(found)
    }

    /// The first of [`Run::choices`].
    fn piece(&self, bytes: u64) -> Result<Piece, Failure> {
        Ok(self.choices(bytes)?.swap_remove(0))
    }

    /// Measures the best of several ways, which one short sample of each shows.
    fn best<W: Copy>(
        &mut self,
        (row, what): (u32, &str),
        rings: u32,
        ways: &[(String, W)],
        measure: impl FnMut(&mut Stage, Effort, W) -> Result<Spread, Failure>,
    ) -> Result<Named, Failure> {
        let (tried, best) = self.bench.best(rings, self.effort, ways, measure)?;
        for (name, rate) in tried {
            let short = named(format!("{name}: one short sample"), rate);
            self.figure(row, what, Role::Fact, "GB/s", &short);
        }
        Ok(best)
    }

    /// Runs `body` with streams' blocks of so many bytes.
    fn in_blocks<T>(&mut self, bytes: Option<u32>, body: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.bench.options.stream_buffer, bytes);
        let outcome = body(self);
        self.bench.options.stream_buffer = before;
        outcome
    }

    /// The blocks of a stream that writes one file: those of the options or the session, and large ones.
    fn block_sizes(&self) -> Vec<Option<u32>> {
        let given = self.bench.options.stream_buffer;
        if given.is_some() { vec![given] } else { vec![None, Some(LARGE_BLOCK)] }
    }
}
