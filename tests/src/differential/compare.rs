//! Runs sequences of calls on the system's side and, many at once, on a device, and compares.

use std::time::Instant;

use gpufs_host::{CpuOptions, Schedule, Session};

use super::places::{Place, Scratch};
use super::streams::Sides;
use super::{Difference, Subject, shrink};
use crate::setting;
use crate::suite::Bench;
use crate::suite::harness::{Answer, Data, Harness};

/// How a part of the sequences is run.
#[derive(Clone, Copy, Debug)]
struct Setting {
    width: u32,
    stream_buffer: u32,
    blocks: u32,
    seeded: bool,
    /// Sequences at once, each in a lane of its own.
    lanes: u32,
    /// Its part of the sequences, in hundredths.
    share: u64,
}

const CPU: [Setting; 7] = [
    Setting { width: 32, stream_buffer: 65_536, blocks: 4, seeded: false, lanes: 256, share: 36 },
    Setting { width: 1, stream_buffer: 4096, blocks: 1, seeded: false, lanes: 256, share: 10 },
    Setting { width: 1, stream_buffer: 4096, blocks: 4, seeded: false, lanes: 256, share: 10 },
    Setting { width: 64, stream_buffer: 4096, blocks: 8, seeded: false, lanes: 256, share: 28 },
    Setting { width: 32, stream_buffer: 4096, blocks: 2, seeded: false, lanes: 256, share: 10 },
    Setting { width: 32, stream_buffer: 8192, blocks: 4, seeded: true, lanes: 64, share: 4 },
    Setting { width: 1, stream_buffer: 4096, blocks: 2, seeded: true, lanes: 64, share: 2 },
];

const GPU: [Setting; 4] = [
    Setting { width: 32, stream_buffer: 65_536, blocks: 4, seeded: false, lanes: 256, share: 40 },
    Setting { width: 32, stream_buffer: 4096, blocks: 1, seeded: false, lanes: 1024, share: 20 },
    Setting { width: 32, stream_buffer: 4096, blocks: 2, seeded: false, lanes: 512, share: 20 },
    Setting { width: 32, stream_buffer: 4096, blocks: 8, seeded: false, lanes: 256, share: 20 },
];

fn open(bench: &Bench, setting: Setting, seed: u64) -> Harness {
    let schedule = if setting.seeded { Schedule::Seeded(seed) } else { Schedule::Fast };
    // Every lane has its stream's buffers.
    let buffers = (setting.lanes * setting.blocks + 3) as usize * setting.stream_buffer as usize;
    let builder = Session::builder()
        .deadline(crate::patience())
        .buffers(2 * buffers.max(1 << 20))
        .stream_buffer(setting.stream_buffer)
        .blocks_per_stream(setting.blocks)
        .ring_entries(4096)
        .files(4 * setting.lanes + 1024)
        .streams(setting.lanes + 3);
    // On a GPU it is on by itself.
    let builder = if setting.seeded || setting.width == 64 { builder.assembly(256 << 10) } else { builder };
    bench.with(CpuOptions { width: setting.width, schedule, ..CpuOptions::default() }).open(builder)
}

/// Prepares sequences on a few threads: the system's side takes its time.
fn prepare<S: Subject>(
    sides: &[Sides],
    seeds: std::ops::Range<u64>,
) -> Vec<(u64, S::Sequence, Vec<crate::suite::harness::Do>)> {
    let all: Vec<(usize, u64)> = seeds.enumerate().collect();
    let part = all.len().div_ceil(std::thread::available_parallelism().map_or(1, usize::from)).max(1);
    std::thread::scope(|scope| {
        let one = |(lane, seed): &(usize, u64)| {
            let entry = u32::try_from(*lane).expect("a lane") * S::ENTRIES;
            let (sequence, script) = S::prepare(&sides[*lane], *seed, None, entry);
            (*seed, sequence, script)
        };
        let workers: Vec<_> = all
            .chunks(part)
            .map(|part| scope.spawn(move || part.iter().map(one).collect::<Vec<_>>()))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("the system's side")).collect()
    })
}

/// Compares `GPUFS_SEQUENCES` sequences from `GPUFS_SEED` on; sequence `i` of a seed is always the same. Failures are shrunk.
///
/// # Panics
/// If any differs.
pub fn compare<S: Subject>(bench: &Bench, default: u32) {
    let sequences = setting("GPUFS_SEQUENCES", u64::from(bench.sized(default, 8)));
    let first = setting("GPUFS_SEED", 0);
    let scratch = Scratch::new(S::NAME);
    let place = |lane: u32, side: &str| Place::new(scratch.path().join(lane.to_string()).join(side));
    let settings = if bench.is_gpu() { &GPU[..] } else { &CPU };
    let most = settings
        .iter()
        .map(|setting| u64::from(setting.lanes).min((sequences * setting.share).div_ceil(100)));
    let most = u32::try_from(most.max().unwrap_or(0)).expect("lanes");
    let sides: Vec<Sides> =
        (0..most).map(|lane| Sides { here: place(lane, "h"), system: place(lane, "s") }).collect();
    let mut begin = first;
    let mut failures = 0;
    for setting in settings {
        let end = begin + (sequences * setting.share).div_ceil(100);
        let started = Instant::now();
        let mut harness = open(bench, *setting, first);
        harness.data = Data::Either(begin);
        let mut found = Vec::new();
        for batch in (begin..end).step_by(setting.lanes as usize) {
            let seeds = batch..end.min(batch + u64::from(setting.lanes));
            let mut kept = Vec::new();
            let mut scripts = Vec::new();
            for (seed, sequence, script) in prepare::<S>(&sides, seeds) {
                kept.push((seed, sequence));
                scripts.push(script);
            }
            let answers = run(&mut harness, scripts, &format!("{setting:?}, seeds from {batch}"));
            for ((seed, sequence), answers) in kept.into_iter().zip(answers) {
                found.extend(S::judge(sequence, &answers).map(|difference| (seed, difference)));
            }
        }
        println!("{} sequences from seed {begin} in {:?}: {setting:?}", end - begin, started.elapsed());
        failures += found.len();
        if !found.is_empty() {
            // To shrink them takes a while.
            println!("seeds that differ: {:?}", found.iter().map(|(seed, _)| seed).collect::<Vec<_>>());
        }
        for (seed, difference) in found.into_iter().take(3) {
            let again = |calls: &[S::Call]| -> Option<Difference<S::Call>> {
                let (sequence, script) = S::prepare(&sides[0], seed, Some(calls), 0);
                let answers = run(&mut harness, vec![script], "a shrunk sequence");
                S::judge(sequence, &answers[0])
            };
            let small = shrink(difference, again);
            println!("seed {seed}, {setting:?}:\n{}", small.report());
        }
        begin = end;
    }
    assert_eq!(failures, 0, "{} differ from the system's; see above", S::NAME);
}

fn run(harness: &mut Harness, scripts: Vec<Vec<crate::suite::harness::Do>>, what: &str) -> Vec<Vec<Answer>> {
    let started = harness.start(scripts);
    harness.synchronize().unwrap_or_else(|error| panic!("{what}: {error}"));
    harness.answers(started)
}
