//! Rows 1 and 2: lines that grids print, to a file and to nowhere.

use std::path::Path;

use gpufs_host::Grid;

use super::{NAME, Run, named};
use crate::bench::Bench;
use crate::failure::Failure;
use crate::one_core::{self, Writer};
use crate::print::{self, Rates};
use crate::report::{Limit, Role, size};
use crate::sample::{Named, Spread};
use crate::scratch::{self, Scratch, in_memory};

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

pub(super) fn to_a_file(run: &mut Run<'_>) -> Result<(), Failure> {
    let Some(memory) = in_memory() else {
        run.skip(1, "fprintf to tmpfs", "there is no /dev/shm");
        return Ok(());
    };
    let scratch = Scratch::new(memory, NAME)?;
    let path = scratch.path("lines");
    let mut span = 0;
    let sizes = run.block_sizes();
    let (ours, (name, rival)) = run.printed(1, &path, &sizes, |bench, grid, rounds| {
        span = print::span(bench, grid, rounds);
        let (count, rates) = print::by_threads(bench, grid, rounds, &path)?;
        Ok((format!("CPU: pwrite of {}, threads: {count}", size(print::CHUNK)), rates))
    })?;
    let blocks = ours.blocks;
    let ours = named(ours.what, Spread::of(ours.rates.bytes));
    let mut rivals = vec![(named(name, Spread::of(rival.bytes)), Some(Limit::AtLeast(0.9)))];
    let samples = run.effort.samples;
    let alone =
        run.in_blocks(blocks, |run| run.by_one_core(1, (&path, span), |writer| writer.rewrite(samples)));
    rivals.extend(alone.into_iter().map(|rival| (rival, None)));
    run.beside(1, "lines to one file on tmpfs", "GB/s", &ours, &rivals);
    Ok(())
}

pub(super) fn to_nowhere(run: &mut Run<'_>) -> Result<(), Failure> {
    if run.bench.gpu.is_none() {
        run.skip(2, "lines to /dev/null beside CUDA's printf", "needs a GPU");
        return Ok(());
    }
    let rings = run.bench.most_rings();
    let path = Path::new("/dev/null");
    let given = run.bench.options.stream_buffer;
    let (ours, (name, rival)) = run.printed(2, path, &[given], |bench, grid, _| {
        Ok(("CUDA: printf".to_owned(), print::cuda_lines(bench, rings, grid, path)?))
    })?;
    let ours = named(ours.what, Spread::of(ours.rates.lines));
    let rival = named(name, Spread::of(rival.lines));
    run.beside(2, "lines to /dev/null", "Mlines/s", &ours, &[(rival, Some(Limit::AtLeast(500.0)))]);
    Ok(())
}

impl Run<'_> {
    /// Lines of the grid that prints more of them a second, through a stream of blocks of one of these sizes, and a rival for that grid.
    fn printed(
        &mut self,
        row: u32,
        path: &Path,
        blocks: &[Option<u32>],
        rival: impl FnOnce(&mut Bench, Grid, u32) -> Result<(String, Rates), Failure>,
    ) -> Result<(Printed, (String, Rates)), Failure> {
        let rings = self.bench.most_rings();
        let mut best: Option<(Grid, u32, Printed)> = None;
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

    /// One core that writes a file's first bytes as a stream does. No target asks for it, so a row stands without it, too.
    pub(super) fn by_one_core(
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
        #[expect(unsafe_code, reason = "sizes in the tables")]
        // SAFETY:
        // - of an open session; sizes are read
        let tables = unsafe { self.bench.stage(rings)?.session().tables() };
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
}
