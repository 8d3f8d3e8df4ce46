//! `targets`: the thirteen rows of the project's table of targets, each with what it needs and no more.
//!
//! Where gpufs can do a thing in several ways, each has one short sample, and the best is measured; the table says which that was. A line is
//! printed as soon as it is known, and the whole table at the end. Row 7 comes last: its rival is a library that no one here can mend.

use std::path::Path;
use std::time::Duration;

use gpufs_bench_kernels::MOST_FILES;
use gpufs_host::Session;

use crate::cpu::{self, Plain, Roaming};
use crate::gpu::Staging;
use crate::latency::Landing;
use crate::one_core::Writer;
use crate::print::Rates;
use crate::read::{Piece, Source, Way, best_of, choices, reading_ways};
use crate::report::{Goal, Limit, Role, short, size};
use crate::sample::{Effort, Named, Spread};
use crate::scratch::{self, Access, Scratch, in_memory};
use crate::stage::Stage;
use crate::write::Target;
use crate::{Bench, Failure, cost, fgets, iops, latency, one_core, print, read, write};

pub(crate) const NAME: &str = "targets";
/// How many rows there are.
pub(crate) const ROWS: u32 = 13;

const KIB_4: u64 = 4 << 10;
const KIB_64: u64 = 64 << 10;
const MIB: u64 = 1 << 20;

/// Rows that are measured together.
type Part<'a> = (&'static [u32], fn(&mut Run<'a>) -> Result<(), Failure>);

/// All of them, in the order in which they are measured.
fn parts<'a>() -> [Part<'a>; 12] {
    [
        (&[1], Run::prints_to_a_file),
        (&[2], Run::prints_to_nowhere),
        (&[3], Run::writes_large),
        (&[4], Run::writes_small),
        (&[5], Run::writes_files),
        (&[6], Run::reads),
        (&[8, 9], Run::round_trips),
        (&[10], Run::operations),
        (&[11], Run::cores),
        (&[12], Run::memory),
        (&[13], Run::lines),
        (&[7], Run::reads_beside_cufile),
    ]
}

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
    for (rows, part) in parts() {
        if !rows.iter().any(|row| only.as_ref().is_none_or(|only| only.contains(row))) {
            continue;
        }
        let name = format!("rows {rows:?}");
        if let Err(error) = part(&mut run) {
            run.bench.progress.clear();
            eprintln!("gpufs-bench: {NAME}: {name}: {error}");
            run.bench.report.skip(NAME, &name, format!("failed: {error}"));
            failed.push(name);
            // Whatever the session is left with.
            run.bench.stage = None;
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("{} failed", failed.join(", ")).into()) }
}

fn named(name: impl Into<String>, spread: Spread) -> Named {
    (name.into(), spread)
}

fn divided(spread: &Spread, by: f64) -> Spread {
    Spread::of(spread.samples().iter().map(|value| value / by).collect())
}

/// The samples of the better rate.
fn better(first: Named, second: Named) -> Named {
    if second.1.median() > first.1.median() { second } else { first }
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
        self.bench.progress.clear();
        println!("{}", goal.line());
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

    /// Lines of the grid that prints more of them a second, through a stream of blocks of one of these sizes, and a rival for that grid.
    fn printed(
        &mut self,
        row: u32,
        path: &Path,
        blocks: &[Option<u32>],
        rival: impl FnOnce(&mut Bench, gpufs_host::Grid, u32) -> Result<(String, Rates), Failure>,
    ) -> Result<(Printed, (String, Rates)), Failure> {
        let rings = self.bench.most_rings();
        let mut best: Option<(gpufs_host::Grid, u32, Printed)> = None;
        for &blocks in blocks {
            for grid in print::grids(self.bench) {
                let large =
                    blocks.map_or_else(String::new, |bytes| format!(", in blocks of {}", size(bytes.into())));
                let what = format!("fprintf, threads: {}{large}", print::threads_of(grid));
                self.step(row, &what);
                let printed = self.in_blocks(blocks, |run| print::by_grid(run.bench, rings, grid, path));
                let (rates, rounds) = printed?;
                let lines = Spread::of(rates.lines.clone());
                self.figure(
                    row,
                    "grids that print",
                    Role::Fact,
                    "Mlines/s",
                    &named(format!("gpufs: {what}"), lines),
                );
                let found = Printed { what, blocks, rates };
                if best.as_ref().is_none_or(|(.., best)| found.median() > best.median()) {
                    best = Some((grid, rounds, found));
                }
            }
        }
        let (grid, rounds, best) = best.ok_or("there are grids")?;
        self.step(row, "its rival");
        Ok((best, rival(self.bench, grid, rounds)?))
    }
    /// The blocks of a stream that writes one file: those of the options or the session, and large ones.
    fn block_sizes(&self) -> Vec<Option<u32>> {
        let given = self.bench.options.stream_buffer;
        if given.is_some() { vec![given] } else { vec![None, Some(LARGE_BLOCK)] }
    }

    fn prints_to_a_file(&mut self) -> Result<(), Failure> {
        let Some(memory) = in_memory() else {
            self.skip(1, "fprintf to tmpfs", "there is no /dev/shm");
            return Ok(());
        };
        let scratch = Scratch::new(memory, NAME)?;
        let path = scratch.path("lines");
        let mut span = 0;
        let sizes = self.block_sizes();
        let (ours, (name, rival)) = self.printed(1, &path, &sizes, |bench, grid, rounds| {
            span = print::span(bench, grid, rounds);
            let (count, rates) = print::by_threads(bench, grid, rounds, &path)?;
            Ok((format!("CPU: pwrite of {}, threads: {count}", size(print::CHUNK)), rates))
        })?;
        let blocks = ours.blocks;
        let ours = named(ours.what, Spread::of(ours.rates.bytes));
        let mut rivals = vec![(named(name, Spread::of(rival.bytes)), Some(Limit::AtLeast(0.9)))];
        let samples = self.effort.samples;
        let alone =
            self.in_blocks(blocks, |run| run.by_one_core(1, (&path, span), |writer| writer.anew(samples)));
        rivals.extend(alone.into_iter().map(|rival| (rival, None)));
        self.beside(1, "lines to one file on tmpfs", "GB/s", &ours, &rivals);
        Ok(())
    }

    /// One core that writes a file's first bytes as a stream does. No target asks for it, so a row stands without it, too.
    fn by_one_core(
        &mut self,
        row: u32,
        target: (&Path, u64),
        measure: impl FnMut(&mut Writer<'_>) -> Result<Spread, Failure>,
    ) -> Vec<Named> {
        let what = "one core that writes as a stream does";
        self.step(row, what);
        let found = self.try_one_core(row, target, measure);
        found.unwrap_or_else(|error| {
            self.skip(row, what, &format!("failed: {error}"));
            Vec::new()
        })
    }
    /// In blocks of a stream's size: through a ring with as many writes in flight as a stream has blocks, and one call after the other.
    fn try_one_core(
        &mut self,
        row: u32,
        (path, span): (&Path, u64),
        mut measure: impl FnMut(&mut Writer<'_>) -> Result<Spread, Failure>,
    ) -> Result<Vec<Named>, Failure> {
        let rings = self.bench.most_rings();
        let tables = self.bench.stage(rings)?.session().tables();
        let (block, depth) = (tables.stream_buffers.buffer_bytes, tables.blocks_per_stream);
        self.bench.quiet();
        let file = scratch::both_ways(path)?;
        let mut found = Vec::new();
        let mut refused = None;
        let source = one_core::Source::new(self.bench.gpu.as_ref())?;
        for means in [one_core::Means::Ring(depth), one_core::Means::Calls] {
            match Writer::open(&file, span, &source, block, means) {
                Ok(mut writer) => found.push(named(writer.name(), measure(&mut writer)?)),
                Err(error) => refused = Some(format!("io_uring refuses: {error}")),
            }
        }
        drop(source);
        if let Some(reason) = refused {
            self.skip(row, "one core with io_uring, SQPOLL", &reason);
        }
        Ok(found)
    }

    fn prints_to_nowhere(&mut self) -> Result<(), Failure> {
        if self.bench.gpu.is_none() {
            self.skip(2, "lines to /dev/null beside CUDA's printf", "needs a GPU");
            return Ok(());
        }
        let rings = self.bench.most_rings();
        let path = Path::new("/dev/null");
        let given = self.bench.options.stream_buffer;
        let (ours, (name, rival)) = self.printed(2, path, &[given], |bench, grid, _| {
            Ok(("CUDA: printf".to_owned(), print::cuda_lines(bench, rings, grid, path)?))
        })?;
        let ours = named(ours.what, Spread::of(ours.rates.lines));
        let rival = named(name, Spread::of(rival.lines));
        self.beside(2, "lines to /dev/null", "Mlines/s", &ours, &[(rival, Some(Limit::AtLeast(500.0)))]);
        Ok(())
    }

    fn writes_large(&mut self) -> Result<(), Failure> {
        if self.bench.gpu.is_none() {
            self.skip(3, "large writes to /dev/null beside stores over the bus", "needs a GPU");
            return Ok(());
        }
        for bytes in [KIB_64, MIB] {
            let pieces = self.choices(bytes)?;
            self.writes_nowhere((3, 1), &pieces, &writing_ways(&pieces), 0.95)?;
        }
        Ok(())
    }

    fn writes_small(&mut self) -> Result<(), Failure> {
        if self.bench.gpu.is_none() {
            self.skip(4, "64 B of each lane to /dev/null beside stores over the bus", "needs a GPU");
            return Ok(());
        }
        let piece = self.piece(64)?;
        // Streams as a program would have them: one for all its warps, or one for each group of them.
        let way = (format!("{}, warps: {}", write::STREAM, piece.warps), (0, None));
        for streams in [1, 4] {
            let (pieces, ways) = (std::slice::from_ref(&piece), std::slice::from_ref(&way));
            self.writes_nowhere((4, streams), pieces, ways, 0.5)?;
        }
        let rings = self.bench.most_rings();
        for warps in [piece.warps.min(32), piece.warps] {
            let what = format!("steps of a warp's call, warps: {warps}");
            let steps = write::stepped(self.bench.stage(rings)?, warps)?;
            for (index, (step, spread)) in (1..).zip(steps) {
                self.figure(4, &what, Role::Fact, "µs", &named(format!("{index}. {step}"), spread));
            }
        }
        Ok(())
    }

    /// Rows 3 and 4: beside stores of the same pieces. On a GPU. To so many files.
    fn writes_nowhere(
        &mut self,
        (row, files): (u32, usize),
        pieces: &[Piece],
        ways: &[(String, WritingWay)],
        wanted: f64,
    ) -> Result<(), Failure> {
        let (rings, effort) = (self.bench.most_rings(), self.effort);
        let streams = if row == 4 { format!(", streams: {files}") } else { String::new() };
        let what = format!("{} to /dev/null{streams}, rings: {rings}", pieces[0].request());
        self.step(row, &what);
        let target = Target::null(files, self.bench.options.file_bytes);
        let ours = self.best((row, &what), rings, ways, |stage, effort, way| {
            written(stage, effort, &target, pieces, way)
        })?;
        let stage = self.bench.stage(rings)?;
        let stores = best_of(pieces, |piece| write::stored(stage, effort, piece))?;
        let mut rivals =
            vec![(named("GPU: stores to pinned memory, no file", stores), Some(Limit::AtLeast(wanted)))];
        if row == 3 {
            rivals.extend(self.staged_writes(&target, &pieces[0])?.map(|rival| (rival, None)));
        }
        self.beside(row, &what, "GB/s", &ours, &rivals);
        Ok(())
    }

    /// On a GPU: copies by threads of the host, then `pwrite`.
    fn staged_writes(&mut self, target: &Target, piece: &Piece) -> Result<Option<Named>, Failure> {
        let Some(gpu) = &self.bench.gpu else { return Ok(None) };
        self.bench.quiet();
        let (threads, rate) = write::by_threads(target, piece, &Staging(gpu), self.effort, None)?;
        let name = format!("CPU: cudaMemcpy and pwrite of {}, threads: {threads}", size(piece.size));
        Ok(Some(named(name, rate)))
    }

    fn writes_files(&mut self) -> Result<(), Failure> {
        let directory = self.bench.options.directory.clone();
        let mut places = Vec::new();
        match in_memory() {
            Some(memory) => places.push(("tmpfs", Scratch::new(memory, NAME)?)),
            None => self.skip(5, "writes to tmpfs", "there is no /dev/shm"),
        }
        let kind = scratch::kind(&directory).unwrap_or("--dir");
        places.push((kind, Scratch::new(&directory, NAME)?));
        for (name, scratch) in &places {
            for count in [1, MOST_FILES] {
                let target = Target::files(name, scratch, count, self.bench.options.file_bytes)?;
                self.writes_to(&target)?;
            }
        }
        Ok(())
    }

    /// Runs `body` with streams' blocks of so many bytes.
    fn in_blocks<T>(&mut self, bytes: Option<u32>, body: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.bench.options.stream_buffer, bytes);
        let outcome = body(self);
        self.bench.options.stream_buffer = before;
        outcome
    }

    /// One case of row 5.
    fn writes_to(&mut self, target: &Target) -> Result<(), Failure> {
        let (rings, effort) = (self.bench.most_rings(), self.effort);
        let what = format!("in order to {}, files: {}, rings: {rings}", target.name, target.paths.len());
        self.step(5, &what);
        let both = [self.piece(KIB_64)?, self.piece(MIB)?];
        let mut all = self.choices(KIB_64)?;
        all.extend(self.choices(MIB)?);
        let mut ours = self.best((5, &what), rings, &writing_ways(&all), |stage, effort, way| {
            written(stage, effort, target, &all, way)
        })?;
        let mut blocks = self.bench.options.stream_buffer;
        if target.paths.len() == 1 {
            for larger in self.block_sizes().into_iter().skip(1) {
                let name = |piece: &Piece| {
                    format!(
                        "{}, {}, warps: {}, in blocks of {}",
                        write::STREAM,
                        size(piece.size),
                        piece.warps,
                        size(LARGE_BLOCK.into())
                    )
                };
                let ways: Vec<_> = (0..all.len()).map(|index| (name(&all[index]), (index, None))).collect();
                let found = self.in_blocks(larger, |run| {
                    run.best((5, &what), rings, &ways, |stage, effort, way| {
                        written(stage, effort, target, &all, way)
                    })
                })?;
                if found.1.median() > ours.1.median() {
                    (ours, blocks) = (found, larger);
                }
            }
        }
        self.bench.quiet();
        let by_cpu = |piece: &Piece| -> Result<Named, Failure> {
            let (threads, rate) = write::by_threads(target, piece, &Plain, effort, None)?;
            Ok(named(format!("CPU: pwrite of {}, threads: {threads}", size(piece.size)), rate))
        };
        let mut rivals = vec![(better(by_cpu(&both[0])?, by_cpu(&both[1])?), Some(Limit::AtLeast(0.95)))];
        rivals.extend(self.staged_writes(target, &both[1])?.map(|rival| (rival, None)));
        if let [path] = target.paths.as_slice() {
            let alone = self.in_blocks(blocks, |run| {
                run.by_one_core(5, (path, target.span), |writer| writer.over(effort))
            });
            rivals.extend(alone.into_iter().map(|rival| (rival, None)));
        } else {
            // A ring's thread writes from memory that the GPU has written.
            for threads in [None, Some(rings as usize)] {
                let (threads, rate) = write::by_threads(target, &both[1], &Roaming, effort, threads)?;
                let name = "from memory larger than the caches";
                let name = format!("CPU: pwrite of {} {name}, threads: {threads}", size(MIB));
                rivals.push((named(name, rate), None));
            }
        }
        self.beside(5, &what, "GB/s", &ours, &rivals);
        Ok(())
    }

    /// The file that is read: made when it is first wanted.
    fn source(&mut self) -> Result<(), Failure> {
        if self.source.is_none() {
            let scratch = Scratch::new(&self.bench.options.directory, "targets-read")?;
            let span = self.bench.options.file_bytes;
            let path = scratch.filled("read", span)?;
            self.source = Some((scratch, Source { path, span, access: Access::Cached }));
        }
        Ok(())
    }
    /// Runs `body` with the file that is read.
    fn with_source<T>(
        &mut self,
        body: impl FnOnce(&mut Self, &Source) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.source()?;
        let kept = self.source.take().ok_or("made above")?;
        let outcome = body(self, &kept.1);
        self.source = Some(kept);
        outcome
    }

    /// gpufs' best way to read requests of `bytes` from the page cache into device memory.
    fn our_read(&mut self, bytes: u64, rings: u32) -> Result<Named, Failure> {
        if let Some((_, found)) = self.found.iter().find(|(key, _)| *key == (bytes, rings)) {
            return Ok(found.clone());
        }
        let pieces = self.choices(bytes)?;
        let what = read_case(&pieces[0], rings);
        self.step(6, &what);
        let found = self.with_source(|run, source| {
            run.best((6, &what), rings, &reading_ways(&pieces), |stage, effort, (index, way)| {
                read::transferred(stage, effort, source, &pieces[index], way)
            })
        })?;
        self.found.push(((bytes, rings), found.clone()));
        Ok(found)
    }

    fn reads(&mut self) -> Result<(), Failure> {
        let all_rings = self.bench.rings(&[1, 4, 8]);
        let last = all_rings[all_rings.len() - 1];
        let effort = self.effort;
        let mut loads: Vec<(u64, Spread)> = Vec::new();
        for &rings in &all_rings {
            for bytes in [KIB_4, KIB_64, MIB] {
                let ours = self.our_read(bytes, rings)?;
                let piece = self.piece(bytes)?;
                let what = read_case(&piece, rings);
                // The bus is the same with any number of rings.
                if self.bench.gpu.is_some() && loads.iter().all(|(of, _)| *of != bytes) {
                    let pieces = self.choices(bytes)?;
                    let stage = self.bench.stage(rings)?;
                    loads.push((bytes, best_of(&pieces, |piece| read::loaded(stage, effort, piece))?));
                }
                let bus = loads
                    .iter()
                    .find(|(of, _)| *of == bytes)
                    .map(|(_, loads)| named("GPU: loads from pinned memory, no file", loads.clone()));
                let threads = rings as usize;
                self.bench.quiet();
                let (by_cpu, roaming, staged) = self.with_source(|run, source| {
                    let rate = read::by_threads(source, &piece, &Plain, effort, Some(threads))?.1;
                    let by_cpu = named(format!("CPU: pread, threads: {threads}"), rate);
                    // What the requests' memory costs that a thread's own, which stays in its cache, does not.
                    let rate = read::by_threads(source, &piece, &Roaming, effort, Some(threads))?.1;
                    let name = format!("CPU: pread into memory larger than the caches, threads: {threads}");
                    let roaming = named(name, rate);
                    let staged = match &run.bench.gpu {
                        Some(gpu) if rings == last => {
                            let (threads, rate) =
                                read::by_threads(source, &piece, &Staging(gpu), effort, None)?;
                            Some(named(format!("CPU: pread and cudaMemcpy, threads: {threads}"), rate))
                        }
                        _ => None,
                    };
                    Ok((by_cpu, roaming, staged))
                })?;
                // The lower of the two is what can be asked for.
                let mut both: Vec<Named> = std::iter::once(by_cpu).chain(bus).collect();
                both.sort_by(|one, other| one.1.median().total_cmp(&other.1.median()));
                let limit = |index: usize| (index == 0).then_some(Limit::AtLeast(0.9));
                let mut rivals: Vec<(Named, Option<Limit>)> =
                    both.into_iter().enumerate().map(|(index, rival)| (rival, limit(index))).collect();
                rivals.extend(std::iter::once(roaming).chain(staged).map(|rival| (rival, None)));
                self.beside(6, &what, "GB/s", &ours, &rivals);
            }
        }
        Ok(())
    }

    fn reads_beside_cufile(&mut self) -> Result<(), Failure> {
        if let Err(reason) = self.bench.cufile() {
            self.skip(7, "reads beside cuFile", &reason);
            return Ok(());
        }
        let refused = self.with_source(|run, source| {
            let place = run.bench.cufile_place(&source.path, source.span);
            Ok(place.err())
        })?;
        if let Some(reason) = refused {
            self.skip(7, "reads beside cuFile", &reason);
            return Ok(());
        }
        for rings in self.bench.rings(&[1, 4, 8]) {
            for (bytes, limit) in
                [(KIB_4, Some(Limit::AtLeast(5.0))), (KIB_64, None), (MIB, Some(Limit::AtLeast(1.0)))]
            {
                let ours = self.our_read(bytes, rings)?;
                let piece = self.piece(bytes)?;
                let what = read_case(&piece, rings);
                self.step(7, &what);
                let rival =
                    self.with_source(|run, source| read::by_cufile(run.bench, NAME, source, &piece, rings))?;
                if let Some(rival) = rival {
                    self.beside(7, &what, "GB/s", &ours, &[(rival, limit)]);
                }
            }
        }
        Ok(())
    }

    fn round_trips(&mut self) -> Result<(), Failure> {
        let (runs, rings) = (self.effort.samples, self.bench.rings(&[1])[0]);
        let rounds = if self.bench.options.quick { 1000 } else { 5000 };
        self.step(8, "one NOP");
        let ours = latency::nop(self.bench.stage(rings)?, runs, rounds, 1)?;
        let nop = named("gpufs: one NOP", ours.p50());
        if self.bench.gpu.is_some() {
            let floor = latency::ping(self.bench.stage(rings)?, runs, rounds)?;
            let p50 = (named(latency::PING_PONG, floor.p50()), Some(Limit::AtMost(3.0)));
            self.beside(8, "round trip of a NOP, p50", "µs", &nop, &[p50]);
            let p99 = (named(latency::PING_PONG, floor.p99()), Some(Limit::AtMost(4.0)));
            self.beside(8, "round trip of a NOP, p99", "µs", &named("gpufs: one NOP", ours.p99()), &[p99]);
        } else {
            self.skip(8, "round trip of a NOP beside a ping-pong", "needs a GPU");
        }
        let scratch = Scratch::new(&self.bench.options.directory, NAME)?;
        let span = self.bench.options.file_bytes.min(16 << 20);
        let path = scratch.filled("latency", span)?;
        let landed = |run: &mut Self, landing: Landing| -> Result<Named, Failure> {
            run.step(9, landing.name());
            let rounds = (runs, rounds.min(1000));
            let found = latency::pread(run.bench.stage(rings)?, (&path, span), KIB_4, landing, rounds)?;
            Ok(named(landing.name(), found.p50()))
        };
        let registered = landed(self, Landing::Registered)?;
        let device = [landed(self, Landing::Device)?, landed(self, Landing::DeviceOfWarp)?];
        let [first, second] = device;
        // Less is better here.
        let device = if second.1.median() < first.1.median() { second } else { first };
        for (what, ours) in [("registered", registered), ("device", device)] {
            let what = format!("pread of 4 KiB from the page cache into {what} memory, p50");
            self.beside(9, &what, "µs", &ours, &[(nop.clone(), Some(Limit::AtMost(2.0)))]);
        }
        Ok(())
    }

    fn operations(&mut self) -> Result<(), Failure> {
        let (effort, warps) = (self.effort, self.bench.warps()[0]);
        let what = format!("NOPs of {warps} warps, rings: 1");
        self.step(10, &what);
        let one = named("gpufs: 1 ring", iops::of_warps(self.bench.stage(1)?, effort, warps)?);
        self.bench.quiet();
        let polled = named("one core with io_uring, SQPOLL", iops::one_core(true, effort)?);
        let entered = named("one core with io_uring", iops::one_core(false, effort)?);
        let rivals = [(polled, Some(Limit::AtLeast(1.0))), (entered, None)];
        self.beside(10, &what, "M/s", &one, &rivals);
        let what = format!("NOPs of {warps} warps, rings: 8");
        if cpu::cores() < 8 {
            self.skip(10, &what, "8 rings want 8 cores");
            return Ok(());
        }
        self.step(10, &what);
        let eight = named("gpufs: 8 rings", iops::of_warps(self.bench.stage(8)?, effort, warps)?);
        self.beside(10, &what, "M/s", &eight, &[(one, Some(Limit::AtLeast(6.0)))]);
        Ok(())
    }

    fn cores(&mut self) -> Result<(), Failure> {
        let warps = self.bench.warps()[0];
        // What a thread ran on since the system's last tick is not counted yet.
        let long = Effort {
            samples: if self.bench.options.quick { 1 } else { self.effort.samples.min(3) },
            target: self.effort.target.max(Duration::from_secs(1)),
        };
        for rings in self.bench.rings(&[1, 4]) {
            let what = format!("cores used for each ring, busy with NOPs, rings: {rings}");
            self.step(11, &what);
            if self.bench.gpu.is_some() {
                let busy = cost::busy(self.bench.stage(rings)?, long, warps)?;
                self.cores_of(&what, &busy, f64::from(rings), 1.0)?;
            } else {
                // The ring has something to come to rest from.
                let effort = Effort { samples: 1, ..self.effort };
                iops::of_warps(self.bench.stage(rings)?, effort, warps)?;
                self.skip(
                    11,
                    &what,
                    "needs a GPU: on CPU lanes the threads of the process run the kernel, too",
                );
            }
            let what = format!("cores used, session open and idle, rings: {rings}");
            self.step(11, &what);
            let idle = cost::idle(self.effort)?;
            self.cores_of(&what, &idle, 1.0, 0.01)?;
        }
        Ok(())
    }

    /// All threads against a number, then each kind that ran at all.
    fn cores_of(&mut self, what: &str, cores: &cost::Cores, parts: f64, most: f64) -> Result<(), Failure> {
        let all = cores.get(cost::ALL).ok_or("no thread was seen")?;
        let all = named("all threads of the process", divided(all, parts));
        self.alone(11, what, "cores", &all, Limit::AtMost(most));
        for (kind, spread) in
            cores.iter().filter(|(kind, spread)| **kind != cost::ALL && spread.highest() > 0.0)
        {
            self.alone(11, what, "cores", &named(format!("of them: {kind}"), divided(spread, parts)), None);
        }
        Ok(())
    }

    fn memory(&mut self) -> Result<(), Failure> {
        let smallest = Session::builder()
            .rings(1)
            .ring_entries(128)
            .buffers(256 << 10)
            .assembly(0)
            .read_ahead(0)
            .stream_buffer(4096)
            .blocks_per_stream(1)
            .files(64)
            .streams(16)
            .registered_buffers(4);
        for (which, builder, most) in
            [("a default session", Session::builder(), 64.0), ("a small session", smallest, 1.0)]
        {
            self.step(12, which);
            let (case, facts) = cost::memory(self.bench, builder)?;
            for (name, mebibytes) in facts {
                let what = format!("memory of {which}, {case}");
                let ours = named(name, Spread::of(vec![mebibytes]));
                match name {
                    cost::PINNED | cost::ON_DEVICE => {
                        self.alone(12, &what, "MiB", &ours, Limit::AtMost(most));
                    }
                    // No choice of a session's makes a program smaller.
                    cost::BY_THE_DRIVER => self.alone(12, &what, "MiB", &ours, None),
                    _ => self.figure(12, &what, Role::Fact, "MiB", &ours),
                }
            }
        }
        if self.bench.gpu.is_none() {
            self.skip(12, "device memory", "needs a GPU");
        }
        Ok(())
    }

    fn lines(&mut self) -> Result<(), Failure> {
        let rings = self.bench.rings(&[4, 2, 1])[0];
        let warps = self.bench.warps()[0];
        self.step(13, "fgets");
        let scratch = Scratch::new(&self.bench.options.directory, NAME)?;
        // Seconds that one pass of the grid may take.
        let budget = if self.bench.options.quick { 0.4 } else { 4.0 };
        let found = fgets::both(self.bench, &scratch.path("text"), rings, warps, budget)?;
        let what = format!("every line of {} MB of text, rings: {rings}", short(found.megabytes));
        let ours = named(fgets::OURS, found.ours);
        let mut read = self.our_read(KIB_64, rings)?;
        read.0.push_str(", 64 KiB a warp: row 6");
        let rivals = [(named(fgets::RIVAL, found.rival), Some(Limit::AtLeast(10.0))), (read, None)];
        self.beside(13, &what, "GB/s", &ours, &rivals);
        Ok(())
    }
}

/// Lines that were printed.
struct Printed {
    /// By whom.
    what: String,
    /// Bytes of the stream's blocks, if not the session's own number.
    blocks: Option<u32>,
    rates: Rates,
}

impl Printed {
    /// Lines a second.
    fn median(&self) -> f64 {
        Spread::of(self.rates.lines.clone()).median()
    }
}

/// Bytes of a stream's block where a file is written in large pieces: the system takes a lock, and a journal an entry, for each.
const LARGE_BLOCK: u32 = 1 << 20;

/// Which piece, and how: by `pwrite`, or through a stream.
pub(crate) type WritingWay = (usize, Option<Way>);

/// The ways from device memory to a file, for each of the pieces.
pub(crate) fn writing_ways(pieces: &[Piece]) -> Vec<(String, WritingWay)> {
    let mut ways = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let of = |name: &str| format!("{name}, {}, warps: {}", size(piece.size), piece.warps);
        ways.push((of(write::STREAM), (index, None)));
        for way in Way::OF_DEVICE_MEMORY.into_iter().filter(|way| way.suits(piece, 1)) {
            ways.push((of(way.name(true)), (index, Some(way))));
        }
    }
    ways
}

/// The rate of one of them.
pub(crate) fn written(
    stage: &mut Stage,
    effort: Effort,
    target: &Target,
    pieces: &[Piece],
    (index, way): WritingWay,
) -> Result<Spread, Failure> {
    match way {
        Some(way) => write::placed(stage, effort, target, &pieces[index], way),
        None => write::streamed(stage, effort, target, &pieces[index]),
    }
}

/// A case of rows 6 and 7.
fn read_case(piece: &Piece, rings: u32) -> String {
    let order = if piece.size == KIB_4 { "random" } else { "in order" };
    format!("pread of {}, {order}, rings: {rings}", piece.request())
}
