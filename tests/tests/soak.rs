//! A soak: sessions, streams, descriptors, paths and faults in each mode, over and over, for `GPUFS_SOAK_SECONDS` a mode (2 by day;
//! `cargo xtask soak` for longer). Content is checked in memory and on disk in each round, and at the end the process has the descriptors,
//! mappings, threads and memory that it had after the first rounds.
//!
//! One test, since it counts what the process has.

use std::fs;
use std::time::{Duration, Instant};

use gpufs_device::file::{Descriptor, O_CREAT, O_RDWR, O_TRUNC};
use gpufs_device::{Errno, Fs, fprintf, warp};
use gpufs_host::ring::Mode;
use gpufs_host::{CpuOptions, Grid, Session};
use gpufs_tests::random::{Random, text};
use gpufs_tests::{MODES, Scratch, setting, skip, small};

/// Rounds after which everything has been used once.
const WARM_UP: u64 = 6;
const BLOCKS: u32 = 4;
const LANES: u32 = 32;
/// Memory that may remain: what the allocators keep.
const SLACK_KIB: u64 = 8 << 10;
/// Mappings that the C library's allocator may have more: two for each arena, of which there are eight for each core. A leak in each round is more
/// than that in a long run.
const SLACK_MAPPINGS: usize = 32;

/// What the process has.
#[derive(Clone, Copy, Debug)]
struct Holdings {
    descriptors: usize,
    mappings: usize,
    threads: usize,
    resident_kib: u64,
}

impl Holdings {
    fn now() -> Self {
        let entries = |path: &str| fs::read_dir(path).map_or(0, Iterator::count);
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Self {
            descriptors: entries("/proc/self/fd"),
            mappings: fs::read_to_string("/proc/self/maps").unwrap().lines().count(),
            threads: entries("/proc/self/task"),
            resident_kib: resident.trim().trim_end_matches(" kB").parse().unwrap(),
        }
    }
}

/// What each lane does in a round, by chance.
fn lane_round(fs: Fs, scratch: &Scratch, (round, launch): (u64, u64), salt: u64) {
    let lane = warp::global_thread();
    let random = Random::of_case(salt ^ round << 20 ^ launch << 8, lane);
    let name = scratch.c(&format!("own{lane}"));
    let bytes = random.below(20_000);
    let content = text(random.bits(), bytes);
    let descriptor = fs.open(&name, O_RDWR | O_CREAT | O_TRUNC, 0o600).unwrap();
    assert_eq!(fs.pwrite(descriptor, &content, 0), Ok(bytes));
    let mut back = vec![0; bytes];
    assert_eq!(fs.pread(descriptor, &mut back, 0), Ok(bytes));
    assert!(back == content, "lane {lane} reads other bytes than it wrote");
    fs.close(descriptor).unwrap();
    // Wrong calls, whose errors leave nothing behind.
    assert_eq!(fs.close(Descriptor(1 << 20)), Err(Errno::BADF));
    assert_eq!(fs.fopen(&scratch.c("missing/file"), c"r").err(), Some(Errno::NOENT));
    if random.one_in(4) {
        let full = fs.fopen(c"/dev/full", c"w").unwrap();
        let _ = full.fwrite(&content[..bytes.min(100)]);
        let _ = full.fclose();
    }
    let file = fs.fopen(&name, c"r").unwrap();
    let mut back = vec![0; bytes];
    assert_eq!(file.fread(&mut back), Ok(bytes));
    assert!(back == content, "lane {lane}'s stream reads other bytes");
    file.fclose().unwrap();
    fs.unlink(&name).unwrap();
}

/// A session from its opening to its end.
fn round(mode: Mode, scratch: &Scratch, round: u64, salt: u64) -> Result<(), String> {
    let options = CpuOptions { threads: 2, ..CpuOptions::default() };
    let builder = small().mode(mode).files(256).streams(160).buffers(2 << 20).ring_entries(512);
    let opened = builder.report_failures(false).cpu_with(options);
    let mut session: Session = opened.map_err(|error| error.to_string())?;
    let log = session.fopen(scratch.path("log"), "w").expect("a stream for all");
    let log = &log;
    let grid = Grid { blocks: BLOCKS, threads: LANES };
    let launches = 1 + round % 3;
    for launch in 0..launches {
        session
            .run(grid, |fs| {
                lane_round(fs, scratch, (round, launch), salt);
                let log = log.get(fs).unwrap();
                fprintf!(log, c"%lu %lu %lu\n", round, launch, warp::global_thread()).unwrap();
            })
            .expect("no lane has failed");
    }
    // A lane ends with a panic in the middle: the session goes on, and the stream has what the others wrote.
    let panicked = round.is_multiple_of(2);
    if panicked {
        let ended = session.run(Grid { blocks: 1, threads: 4 }, |fs| {
            let log = log.get(fs).unwrap();
            fprintf!(log, c"%lu 9 %lu\n", round, warp::global_thread()).unwrap();
            if warp::global_thread() == 2 {
                std::panic::resume_unwind(Box::new("deliberate"));
            }
        });
        assert!(ended.is_err(), "the panic is told");
    }
    drop(session);
    let mut lines: Vec<String> =
        fs::read_to_string(scratch.path("log")).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    let threads = u64::from(BLOCKS * LANES);
    let of_launches = (0..launches).flat_map(|launch| (0..threads).map(move |thread| (launch, thread)));
    let of_panic = (0..4).filter(|_| panicked).map(|thread| (9, thread));
    let mut wanted: Vec<String> =
        of_launches.chain(of_panic).map(|(launch, thread)| format!("{round} {launch} {thread}")).collect();
    wanted.sort();
    assert!(lines == wanted, "{mode}, round {round}: the log has {} of {} lines", lines.len(), wanted.len());
    let left: Vec<_> =
        fs::read_dir(scratch.dir()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["log"], "files that were removed");
    Ok(())
}

#[test]
fn nothing_grows() {
    let limit = Duration::from_secs(setting("GPUFS_SOAK_SECONDS", 2));
    let salt = setting("GPUFS_SEED", 1);
    for mode in MODES {
        let scratch = Scratch::new("soak");
        let started = Instant::now();
        let (mut rounds, mut before) = (0, None);
        while before.is_none() || started.elapsed() < limit {
            if let Err(refused) = round(mode, &scratch, rounds, salt) {
                skip(&format!("nothing_grows, {mode}"), refused);
                break;
            }
            rounds += 1;
            if rounds == WARM_UP {
                before = Some(Holdings::now());
            }
        }
        let Some(before) = before else { continue };
        // A thread of Linux's that ends after its ring, and what it holds, may be seen for a moment.
        let until = Instant::now() + Duration::from_secs(10);
        let grown = |now: Holdings| {
            now.descriptors > before.descriptors
                || now.mappings > before.mappings + SLACK_MAPPINGS
                || now.threads > before.threads
                || now.resident_kib > before.resident_kib + SLACK_KIB
        };
        let mut after = Holdings::now();
        while grown(after) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
            after = Holdings::now();
        }
        println!("{mode}: {rounds} sessions in {:.1?}; {before:?}, then {after:?}", started.elapsed());
        assert!(!grown(after), "{mode}: after {WARM_UP} rounds {before:?}, after {rounds} {after:?}");
    }
}
