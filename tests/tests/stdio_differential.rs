//! Streams and descriptors against the C library and the system: the same calls, the same answers.
//!
//! `GPUFS_SEQUENCES` sets how many sequences of calls run and `GPUFS_SEED` where they begin; sequence `i` of a seed is always the same.
//! A failure prints its seed and the calls, shrunk.

use std::fmt::Debug;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use gpufs_device::Fs;
use gpufs_host::{CpuOptions, Grid, Schedule, Session};
use gpufs_tests::differential::places::{Place, Scratch};
use gpufs_tests::differential::streams::Sides;
use gpufs_tests::differential::{Difference, descriptors, shrink, streams};

/// How a part of the sequences is run.
#[derive(Clone, Copy, Debug)]
struct Setting {
    width: u32,
    stream_buffer: u32,
    blocks: u32,
    seeded: bool,
    /// Lanes that each run sequences of their own.
    lanes: u32,
    /// Its part of the sequences, in hundredths.
    share: u64,
}

const SETTINGS: [Setting; 7] = [
    Setting { width: 32, stream_buffer: 65_536, blocks: 4, seeded: false, lanes: 256, share: 36 },
    Setting { width: 1, stream_buffer: 4096, blocks: 1, seeded: false, lanes: 256, share: 10 },
    Setting { width: 1, stream_buffer: 4096, blocks: 4, seeded: false, lanes: 256, share: 10 },
    Setting { width: 64, stream_buffer: 4096, blocks: 8, seeded: false, lanes: 256, share: 28 },
    Setting { width: 32, stream_buffer: 4096, blocks: 2, seeded: false, lanes: 256, share: 10 },
    Setting { width: 32, stream_buffer: 8192, blocks: 4, seeded: true, lanes: 64, share: 4 },
    Setting { width: 1, stream_buffer: 4096, blocks: 2, seeded: true, lanes: 64, share: 2 },
];

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn session(setting: Setting, seed: u64) -> Session {
    let schedule = if setting.seeded { Schedule::Seeded(seed) } else { Schedule::Fast };
    // Every lane has its stream's buffers.
    let buffers = (setting.lanes * setting.blocks + 3) as usize * setting.stream_buffer as usize;
    Session::builder()
        .deadline(Duration::from_secs(5))
        .buffers(2 * buffers.max(1 << 20))
        .stream_buffer(setting.stream_buffer)
        .blocks_per_stream(setting.blocks)
        .ring_entries(4096)
        .streams(setting.lanes + 3)
        .cpu_with(CpuOptions { width: setting.width, schedule, ..CpuOptions::default() })
        .expect("a session")
}

/// The next seed that nobody has taken.
fn next_of(range: &Mutex<std::ops::Range<u64>>) -> Option<u64> {
    range.lock().expect("no panic").next()
}

/// Both ends of a kind of sequence: how a seed's is made up and run, and how a list of calls is run again.
struct Subject<C> {
    name: &'static str,
    run: fn(Fs, &Sides, u64) -> Found<C>,
    run_again: fn(Fs, &Sides, u64, &[C]) -> Found<C>,
}

type Found<C> = Option<Difference<C>>;

fn compare<C: Debug + Clone + Send + Sync>(subject: &Subject<C>, default: u64) {
    let sequences = from_environment("GPUFS_SEQUENCES").unwrap_or(default);
    let first = from_environment("GPUFS_SEED").unwrap_or(0);
    let scratch = Scratch::new(subject.name);
    let place = |lane: usize, side: &str| Place::new(scratch.path().join(lane.to_string()).join(side));
    let sides: Vec<Sides> =
        (0..256).map(|lane| Sides { here: place(lane, "h"), system: place(lane, "s") }).collect();
    let mut begin = first;
    let mut failures = 0;
    for setting in SETTINGS {
        let end = begin + (sequences * setting.share).div_ceil(100);
        let started = Instant::now();
        let found = Mutex::new(Vec::new());
        let mut session = session(setting, first);
        let next = Mutex::new(begin..end);
        let grid = Grid { blocks: 1, threads: setting.lanes };
        session
            .run(grid, |tables| {
                let lane = gpufs_device::warp::global_thread();
                while let Some(seed) = next_of(&next) {
                    if let Some(difference) = (subject.run)(Fs::new(tables), &sides[lane as usize], seed) {
                        found.lock().expect("no panic").push((seed, difference));
                        return;
                    }
                }
            })
            .unwrap_or_else(|error| panic!("{setting:?}, seeds from {begin}: {error}"));
        println!("{} sequences from seed {begin} in {:?}: {setting:?}", end - begin, started.elapsed());
        let found = found.into_inner().expect("no panic");
        for (seed, difference) in found.into_iter().take(3) {
            failures += 1;
            let again = |calls: &[C]| {
                let result = Mutex::new(None);
                session
                    .run(Grid { blocks: 1, threads: 1 }, |tables| {
                        let difference = (subject.run_again)(Fs::new(tables), &sides[0], seed, calls);
                        *result.lock().expect("no panic") = difference;
                    })
                    .expect("a run");
                result.into_inner().expect("no panic")
            };
            let small = shrink(difference, again);
            println!("seed {seed}, {setting:?}:\n{}", small.report());
        }
        begin = end;
    }
    assert_eq!(failures, 0, "{} differ from the system's; see above", subject.name);
}

#[test]
fn streams_like_the_c_librarys() {
    let subject = Subject { name: "streams", run: streams::run, run_again: streams::run_again };
    compare(&subject, 500);
}

#[test]
fn descriptors_like_the_systems() {
    let subject = Subject { name: "descriptors", run: descriptors::run, run_again: descriptors::run_again };
    compare(&subject, 500);
}

/// POSIX: a flush of an input stream forgets what was read ahead and pushed back, and keeps the position. (glibc 2.36 corrupts its
/// heap here.)
#[test]
fn flushing_input() {
    let scratch = Scratch::new("flushing");
    let path = scratch.path().join("file");
    std::fs::write(&path, "abc").expect("a file");
    let name = std::ffi::CString::new(path.to_str().expect("a path")).expect("no NUL");
    let mut session = Session::builder().deadline(Duration::from_secs(5)).cpu().expect("a session");
    session
        .run(Grid { blocks: 1, threads: 1 }, |tables| {
            let file = Fs::new(tables).fopen(&name, c"r").expect("opened");
            assert_eq!(file.fgetc(), Ok(Some(b'a')));
            assert_eq!(file.fgetc(), Ok(Some(b'b')));
            assert_eq!(file.ungetc(b'x'), Ok(Some(b'x')));
            assert_eq!(file.fflush(), Ok(()));
            assert_eq!(file.ftell(), Ok(1));
            std::fs::write(&path, "ABCD").expect("a file");
            assert_eq!(file.fgetc(), Ok(Some(b'B')));
            // A failed move keeps what was pushed back (C11 7.21.9.2).
            assert_eq!(file.ungetc(b'y'), Ok(Some(b'y')));
            assert!(file.fseek(-9, gpufs_device::stdio::Whence::Set).is_err());
            assert_eq!(file.fgetc(), Ok(Some(b'y')));
            assert_eq!(file.fgetc(), Ok(Some(b'C')));
        })
        .expect("a run");
}
