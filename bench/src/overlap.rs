//! `overlap`: what it saves to start the next read beside the work, in a grid whose warps go in step, and in one whose warps do not wait for each
//! other.

use std::path::Path;

use gpufs_bench_kernels::in_step::{COPIED, IN_PLACE, in_step};
use gpufs_bench_kernels::pending::{BESIDE, IN_TURN, Pieces, READ, WORK, overlapped};
use gpufs_core::session::FileIndex;

use crate::bench::Bench;
use crate::failure::Failure;
use crate::report::{Role, size};
use crate::sample::Spread;
use crate::scratch::{Scratch, both_ways};
use crate::stage::{WIDTH, grid_of};

const NAME: &str = "overlap";
/// Parts of working and of reading.
const RATIOS: [(u32, u32); 3] = [(4, 1), (1, 1), (1, 4)];
/// How often the work is made as long as reads between it have taken, at most.
const TURNS: u32 = 3;
/// Steps of work by which one is timed: the fewer and the more.
const UNITS: (u32, u32) = (10_000, 20_000);
/// The session's memory, as many times that of all reads that are in flight beside others that are worked on: of it operations that are started get a
/// sixth, and the ring entries so many that each lane has a read in flight.
const BUFFERS_OF_READS: usize = 4 * 16;

/// A grid whose lanes read and work.
#[derive(Clone, Copy)]
struct Grid {
    warps: u32,
    /// Bytes of a read.
    bytes: u64,
    /// Where the bytes of warps in step land; `None` for warps that do not wait for each other.
    landing: Option<u32>,
}

impl Grid {
    fn describe(self) -> String {
        let read = format!("a read of {} of each lane", size(self.bytes));
        match self.landing {
            None => format!("warps apart, {read}"),
            Some(COPIED) => format!("warps in step, {read} into device memory"),
            Some(_) => format!("warps in step, {read}, left in the host's memory"),
        }
    }
    /// Bytes of all reads of a round.
    fn total(self) -> usize {
        (u64::from(self.warps * WIDTH) * self.bytes) as usize
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let scratch = Scratch::new(&bench.options.directory, NAME)?;
    let span = bench.options.file_bytes.min(256 << 20);
    let path = scratch.stamped("read", span)?;
    // One warp has nothing but itself to overlap with. Several read while others work, even if each does one after the other.
    let apart = if bench.gpu.is_some() { vec![1, 8] } else { vec![1] };
    let in_step = if bench.gpu.is_some() { vec![2, 8] } else { vec![2] };
    let chosen = bench.options.warps.clone();
    let mut grids = Vec::new();
    let sizes = bench.options.sizes.clone().unwrap_or(vec![64 << 10, 4 << 10]);
    for warps in chosen.clone().unwrap_or(in_step) {
        grids.extend(sizes.iter().map(|bytes| Grid { warps, bytes: *bytes, landing: Some(IN_PLACE) }));
        grids.push(Grid { warps, bytes: 4 << 10, landing: Some(COPIED) });
    }
    let of = |warps| Grid { warps, bytes: 4 << 10, landing: None };
    grids.extend(chosen.unwrap_or(apart).into_iter().map(of));
    grids.retain(|grid| sizes.contains(&grid.bytes));
    let buffers = bench.options.buffers;
    for grid in grids {
        if grid.total() > bench.options.memory {
            bench.step(&format!("{}: --memory is less than all its reads; left out", grid.describe()));
            continue;
        }
        bench.options.buffers = Some(buffers.unwrap_or(0).max(BUFFERS_OF_READS * grid.total()).max(16 << 20));
        // Of its own, with these buffers.
        bench.stage = None;
        let measured = measure(bench, (&path, span), grid);
        bench.options.buffers = buffers;
        bench.stage = None;
        measured?;
    }
    Ok(())
}

/// What rounds of one grid take, in microseconds.
struct Rounds<'a> {
    bench: &'a mut Bench,
    rings: u32,
    file: FileIndex,
    span: u64,
    grid: Grid,
}

impl Rounds<'_> {
    fn of(&mut self, units: u32, way: u32) -> Result<Spread, Failure> {
        self.ahead(units, way, 1)
    }
    /// With so many reads of each lane in flight beside the work.
    fn ahead(&mut self, units: u32, way: u32, ahead: u32) -> Result<Spread, Failure> {
        let (effort, grid) = (self.bench.options.effort, self.grid);
        let stage = self.bench.stage(self.rings)?;
        let memory = if grid.landing == Some(IN_PLACE) { stage.pinned() } else { stage.device() };
        let rate = effort.rate(u32::MAX, |rounds| {
            let (file, span, times) = (self.file, self.span, stage.times());
            let job = Pieces { file, lanes: WIDTH, memory, bytes: grid.bytes, span, rounds, ahead, times };
            let shape = grid_of(grid.warps);
            let seconds = match grid.landing {
                None => {
                    stage.run_timed::<overlapped::Entry>(shape, overlapped::Arguments { job, units, way })?
                }
                Some(landing) => {
                    let (meeting, warps) = (stage.supply(0)?, grid.warps);
                    let arguments = in_step::Arguments { job, meeting, warps, units, way, landing };
                    stage.run_timed::<in_step::Entry>(shape, arguments)?
                }
            };
            Ok((f64::from(rounds), seconds))
        })?;
        Ok(Spread::of(rate.samples().iter().map(|rate| 1e6 / rate).collect()))
    }
}

/// Reads beside work, and one after the other, in some ratios.
fn measure(bench: &mut Bench, (path, span): (&Path, u64), grid: Grid) -> Result<(), Failure> {
    let rings = bench.rings(&[1])[0];
    let (indices, _) = bench.stage(rings)?.register(vec![both_ways(path)?])?;
    bench.step(&format!("{}: reads alone, work alone", grid.describe()));
    let mut rounds = Rounds { bench, rings, file: indices[0], span, grid };
    let read = rounds.of(0, READ)?;
    let (few, many) = (rounds.of(UNITS.0, WORK)?.median(), rounds.of(UNITS.1, WORK)?.median());
    let unit = ((many - few) / f64::from(UNITS.1 - UNITS.0)).max(1e-6);
    let rest = (few - unit * f64::from(UNITS.0)).max(0.0);
    for (work, reads) in RATIOS {
        let case = format!(
            "work to reads {work}:{reads}, {}, warps: {}, rings: {rings}",
            grid.describe(),
            grid.warps
        );
        rounds.bench.step(&case);
        let wanted = f64::from(work) / f64::from(reads);
        let (mut reading, mut turn) = (read.median(), 0);
        // What reads take between work is known when it was measured; it hangs on the work a little. Ends: a count.
        let (units, alone, in_turn) = loop {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let units = ((reading * wanted - rest) / unit).round().max(1.0) as u32;
            let (alone, in_turn) = (rounds.of(units, WORK)?, rounds.of(units, IN_TURN)?);
            reading = (in_turn.median() - alone.median()).max(rest);
            let off = alone.median() / (reading * wanted);
            if (0.96..1.04).contains(&off) || turn == TURNS {
                break (units, alone, in_turn);
            }
            turn += 1;
        };
        let beside = rounds.of(units, BESIDE)?;
        // A read that takes longer than the work beside it is made up for by the next, which takes less.
        let further =
            if grid.landing == Some(IN_PLACE) { Some(rounds.ahead(units, BESIDE, 2)?) } else { None };
        let gain =
            |beside: &Spread| Spread::of(beside.samples().iter().map(|one| in_turn.median() / one).collect());
        let bound = in_turn.median() / alone.median().max(reading);
        let is_target = work == reads && grid.landing == Some(IN_PLACE);
        let mut gains = vec![(
            if is_target { "gain of one ahead; target ≥ 1.9" } else { "gain of one ahead" },
            gain(&beside),
        )];
        let mut figures = vec![
            ("reads alone", Role::Fact, read.clone()),
            ("reads between work", Role::Fact, Spread::of(vec![reading])),
            ("work alone", Role::Fact, alone),
            ("one after the other", Role::Rival, in_turn.clone()),
            ("the next read beside the work", Role::Ours, beside),
        ];
        if let Some(further) = further {
            gains.push((
                if is_target { "gain of two ahead; target ≥ 1.9" } else { "gain of two ahead" },
                gain(&further),
            ));
            figures.push(("the next two reads beside the work", Role::Ours, further));
        }
        gains.push(("the most that there is to gain", Spread::of(vec![bound])));
        for (name, role, spread) in figures {
            rounds.bench.figure(NAME, &case, name, role, "µs", spread, None);
        }
        for (name, spread) in gains {
            rounds.bench.figure(NAME, &case, name, Role::Fact, "×", spread, None);
        }
    }
    rounds.bench.stage(rings)?.unregister(&indices)?;
    Ok(())
}
