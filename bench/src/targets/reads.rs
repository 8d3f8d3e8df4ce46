//! Rows 6, 7 and 13: reads from the page cache, and lines of a text.

use super::{KIB_4, KIB_64, MIB, NAME, Run, named};
use crate::cpu::{Plain, Roaming};
use crate::failure::Failure;
use crate::fgets;
use crate::gpu::Staging;
use crate::read::{self, Piece, Source, best_of, reading_ways};
use crate::report::{Limit, short};
use crate::sample::{Named, Spread};
use crate::scratch::{Access, Scratch};

/// A case of rows 6 and 7.
fn read_case(piece: &Piece, rings: u32) -> String {
    let order = if piece.size == KIB_4 { "random" } else { "in order" };
    format!("pread of {}, {order}, rings: {rings}", piece.request())
}

pub(super) fn pages(run: &mut Run<'_>) -> Result<(), Failure> {
    let all_rings = run.bench.rings(&[1, 4, 8]);
    let last = all_rings[all_rings.len() - 1];
    let effort = run.effort;
    let mut loads: Vec<(u64, Spread)> = Vec::new();
    for &rings in &all_rings {
        for bytes in [KIB_4, KIB_64, MIB] {
            let ours = run.our_read(bytes, rings)?;
            let piece = run.piece(bytes)?;
            let what = read_case(&piece, rings);
            // The bus is the same with any number of rings.
            if run.bench.gpu.is_some() && loads.iter().all(|(of, _)| *of != bytes) {
                let pieces = run.choices(bytes)?;
                let stage = run.bench.stage(rings)?;
                loads.push((bytes, best_of(&pieces, |piece| read::loaded(stage, effort, piece))?));
            }
            let bus = loads
                .iter()
                .find(|(of, _)| *of == bytes)
                .map(|(_, loads)| named("GPU: loads from pinned memory, no file", loads.clone()));
            let threads = rings as usize;
            run.bench.quiet();
            let (by_cpu, roaming, staged) = run.with_source(|run, source| {
                let rate = read::by_threads(source, &piece, &Plain, effort, Some(threads))?.1;
                let by_cpu = named(format!("CPU: pread, threads: {threads}"), rate);
                // What the requests' memory costs that a thread's own, which stays in its cache, does not.
                let rate = read::by_threads(source, &piece, &Roaming, effort, Some(threads))?.1;
                let name = format!("CPU: pread into memory larger than the caches, threads: {threads}");
                let roaming = named(name, rate);
                let staged = match &run.bench.gpu {
                    Some(gpu) if rings == last => {
                        let (threads, rate) = read::by_threads(source, &piece, &Staging(gpu), effort, None)?;
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
            run.beside(6, &what, "GB/s", &ours, &rivals);
        }
    }
    Ok(())
}

pub(super) fn beside_cufile(run: &mut Run<'_>) -> Result<(), Failure> {
    if let Err(reason) = run.bench.cufile() {
        run.skip(7, "reads beside cuFile", &reason);
        return Ok(());
    }
    let refused = run.with_source(|run, source| {
        let place = run.bench.cufile_place(&source.path, source.span);
        Ok(place.err())
    })?;
    if let Some(reason) = refused {
        run.skip(7, "reads beside cuFile", &reason);
        return Ok(());
    }
    for rings in run.bench.rings(&[1, 4, 8]) {
        for (bytes, limit) in
            [(KIB_4, Some(Limit::AtLeast(5.0))), (KIB_64, None), (MIB, Some(Limit::AtLeast(1.0)))]
        {
            let ours = run.our_read(bytes, rings)?;
            let piece = run.piece(bytes)?;
            let what = read_case(&piece, rings);
            run.step(7, &what);
            let rival =
                run.with_source(|run, source| read::by_cufile(run.bench, NAME, source, &piece, rings))?;
            if let Some(rival) = rival {
                run.beside(7, &what, "GB/s", &ours, &[(rival, limit)]);
            }
        }
    }
    Ok(())
}

pub(super) fn lines(run: &mut Run<'_>) -> Result<(), Failure> {
    let rings = run.bench.rings(&[4, 2, 1])[0];
    let warps = run.bench.warps()[0];
    run.step(13, "fgets");
    let scratch = Scratch::new(&run.bench.options.directory, NAME)?;
    // Seconds that one pass of the grid may take.
    let budget = if run.bench.options.quick { 0.4 } else { 4.0 };
    let found = fgets::both(run.bench, &scratch.path("text"), rings, warps, budget)?;
    let what = format!("every line of {} MB of text, rings: {rings}", short(found.megabytes));
    let ours = named(fgets::OURS, found.ours);
    let mut read = run.our_read(KIB_64, rings)?;
    read.0.push_str(", 64 KiB a warp: row 6");
    let rivals = [(named(fgets::RIVAL, found.rival), Some(Limit::AtLeast(10.0))), (read, None)];
    run.beside(13, &what, "GB/s", &ours, &rivals);
    Ok(())
}

impl Run<'_> {
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
}
