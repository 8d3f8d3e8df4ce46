//! Rows 3, 4 and 5: writes to nowhere and to files.

use gpufs_bench_kernels::MOST_FILES;

use super::{KIB_64, MIB, NAME, Run, named};
use crate::cpu::{Plain, Roaming};
use crate::failure::Failure;
use crate::gpu::Staging;
use crate::read::{Piece, best_of};
use crate::report::{Limit, Role, size};
use crate::sample::Named;
use crate::scratch::{self, Scratch, in_memory};
use crate::write::{self, LARGE_BLOCK, Target, WritingWay, writing_ways, written};

/// The samples of the better rate.
fn better(first: Named, second: Named) -> Named {
    if second.1.median() > first.1.median() { second } else { first }
}

pub(super) fn large(run: &mut Run<'_>) -> Result<(), Failure> {
    if run.bench.gpu.is_none() {
        run.skip(3, "large writes to /dev/null beside stores over the bus", "needs a GPU");
        return Ok(());
    }
    for bytes in [KIB_64, MIB] {
        let pieces = run.choices(bytes)?;
        run.writes_nowhere((3, 1), &pieces, &writing_ways(&pieces), 0.95)?;
    }
    Ok(())
}

pub(super) fn small(run: &mut Run<'_>) -> Result<(), Failure> {
    if run.bench.gpu.is_none() {
        run.skip(4, "64 B of each lane to /dev/null beside stores over the bus", "needs a GPU");
        return Ok(());
    }
    let piece = run.piece(64)?;
    // Streams as a program would have them: one for all its warps, or one for each group of them.
    let way = (format!("{}, warps: {}", write::STREAM, piece.warps), (0, None));
    for streams in [1, 4] {
        let (pieces, ways) = (std::slice::from_ref(&piece), std::slice::from_ref(&way));
        run.writes_nowhere((4, streams), pieces, ways, 0.5)?;
    }
    let rings = run.bench.most_rings();
    for warps in [piece.warps.min(32), piece.warps] {
        let what = format!("steps of a warp's call, warps: {warps}");
        let steps = write::stepped(run.bench.stage(rings)?, warps)?;
        for (index, (step, spread)) in (1..).zip(steps) {
            run.figure(4, &what, Role::Fact, "µs", &named(format!("{index}. {step}"), spread));
        }
    }
    Ok(())
}

pub(super) fn files(run: &mut Run<'_>) -> Result<(), Failure> {
    let directory = run.bench.options.directory.clone();
    let mut places = Vec::new();
    match in_memory() {
        Some(memory) => places.push(("tmpfs", Scratch::new(memory, NAME)?)),
        None => run.skip(5, "writes to tmpfs", "there is no /dev/shm"),
    }
    let kind = scratch::kind(&directory).unwrap_or("--dir");
    places.push((kind, Scratch::new(&directory, NAME)?));
    for (name, scratch) in &places {
        for count in [1, MOST_FILES] {
            let target = Target::files(name, scratch, count, run.bench.options.file_bytes)?;
            run.writes_to(&target)?;
        }
    }
    Ok(())
}

impl Run<'_> {
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
}
