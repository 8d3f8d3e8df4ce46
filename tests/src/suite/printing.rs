//! Threads of a grid print records to one stream, on any device; the host checks what came of it.

use std::ffi::CStr;

use gpufs_device::stdio::Buffering;
use gpufs_host::Grid;
use gpufs_host::session::Placed;
use gpufs_test_kernels::{Call, Job, Letters, Report, print_records, rounds_of};

use super::harness::{Do, Harness, fopen};
use crate::{Scratch, record};

/// `grid`'s threads print `rounds` records each to one stream; what came of it is checked by [`check_records`].
#[derive(Clone, Copy, Debug)]
pub struct Printing<'a> {
    /// Who prints.
    pub grid: Grid,
    /// How many records each.
    pub rounds: u32,
    /// `fopen`'s mode.
    pub mode: &'a CStr,
    /// `setvbuf`'s arguments.
    pub buffer: Option<(Buffering, usize)>,
    /// With which calls.
    pub call: Call,
    /// Letters of a record.
    pub letters: Letters,
}

/// Threads of a grid.
#[must_use]
pub fn threads(grid: Grid) -> u64 {
    u64::from(grid.blocks) * u64::from(grid.threads)
}

impl Printing<'_> {
    /// Prints to a file of a directory of its own, and checks it.
    ///
    /// # Panics
    /// If a record is torn, missing, doubled or out of order, or a call failed.
    pub fn run(&self, harness: &mut Harness, test: &str) {
        let scratch = Scratch::new(test);
        self.run_to(harness, &scratch.c("out"));
        check_records(&scratch.read("out"), threads(self.grid), self.rounds, self.letters);
    }

    /// Prints to `path`.
    ///
    /// # Panics
    /// If a call failed.
    pub fn run_to(&self, harness: &mut Harness, path: &CStr) {
        let mut calls = vec![fopen(0, path, self.mode)];
        calls.extend(self.buffer.map(|(buffering, bytes)| Do::Setvbuf(0, buffering, bytes)));
        harness.must(calls);
        let report = start(harness, self.grid, self.call, self.job());
        harness.synchronize().unwrap_or_else(|error| panic!("{error}"));
        harness.check(&report);
        harness.must(vec![Do::Fclose(0)]);
    }

    /// The job that prints to the stream of entry 0.
    #[must_use]
    pub fn job(&self) -> Job {
        Job {
            streams: 0,
            stream_count: 1,
            apart: 0,
            rounds: self.rounds,
            truant: 0,
            dots: 0,
            call: self.call,
            letters: self.letters,
            first_thread: 0,
            nap_ns: 0,
            runs: 0,
            run_bytes: 0,
            rooms: 0,
            room_bytes: 0,
        }
    }
}

/// Bytes of the arena that a job takes.
#[must_use]
pub fn room_of(grid: Grid, job: &Job) -> usize {
    let most = most_letters(grid, job);
    26 * (most + 64)
        + if most > 50 { usize::try_from(threads(grid)).expect("a grid") * (most + 96) } else { 0 }
        + 8192
}

fn most_letters(grid: Grid, job: &Job) -> usize {
    let most = match job.letters {
        Letters::Short => 30,
        Letters::Fixed(letters) => u64::from(letters),
        Letters::Drawn { far, .. } => {
            if far {
                3000
            } else {
                100
            }
        }
        Letters::Long => {
            (0..threads(grid)).map(|thread| job.letters.of(thread, job.rounds)).max().unwrap_or(0)
        }
    };
    usize::try_from(most).expect("a length")
}

/// Starts a job on the streams of the entries from 0 on.
///
/// # Panics
/// If it cannot be started.
pub fn start(harness: &mut Harness, grid: Grid, call: Call, mut job: Job) -> Placed<Report> {
    let report = harness.report();
    harness.reserve(room_of(grid, &job));
    let most = most_letters(grid, &job);
    let runs: Vec<u8> = (b'a'..=b'z').flat_map(|letter| vec![letter; most]).collect();
    job.runs = harness.put(&runs);
    job.run_bytes = most as u64;
    if most > 50 {
        job.room_bytes = (most as u64 + 64).next_multiple_of(16);
        job.rooms = harness.take(usize::try_from(threads(grid) * job.room_bytes).expect("memory"));
    }
    job.streams = harness.handle(0);
    job.call = call;
    harness.keep_arena();
    let arguments = print_records::Arguments { job, report: report.handle() };
    harness.session.start::<print_records::Entry>(grid, arguments).unwrap_or_else(|error| panic!("{error}"));
    report
}

/// Checks that `text` is made of whole records: `rounds` of each of `threads`, each thread's in order, none missing or doubled.
/// `letters` says how long each is.
///
/// # Panics
/// With the first thing that is wrong.
pub fn check_records(text: &[u8], threads: u64, rounds: u32, letters: Letters) {
    check_some(text, threads, letters, |_| rounds);
}

/// The same where not every thread prints as many: `rounds` says how many a thread does.
///
/// # Panics
/// With the first thing that is wrong.
pub fn check_some(text: &[u8], threads: u64, letters: Letters, rounds: impl Fn(u64) -> u32) {
    let mut next = vec![0_u32; usize::try_from(threads).expect("a number of threads")];
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let mut words = line.split(|&byte| byte == b' ').map(|word| std::str::from_utf8(word).ok());
        let mut number = || words.next().flatten().and_then(|word| word.parse::<u32>().ok());
        let (Some(thread), Some(round)) = (number(), number()) else {
            panic!("no record: {:?}", String::from_utf8_lossy(line))
        };
        let length = usize::try_from(letters.of(thread.into(), round)).expect("a length");
        let wanted = record(thread.into(), round, length);
        assert!(line == wanted.as_bytes(), "torn: {:?}", String::from_utf8_lossy(line));
        let expected = next.get_mut(thread as usize).expect("a thread of the grid");
        assert_eq!(*expected, round, "the next record of thread {thread}");
        *expected += 1;
    }
    let missing = (0..threads).zip(&next).find(|(thread, count)| **count != rounds(*thread));
    assert_eq!(missing, None, "a thread with too few records, and how many it has");
}

/// What [`Job::truant`] leaves of a thread's rounds, for [`check_some`].
pub fn rounds_with(truant: u32, rounds: u32) -> impl Fn(u64) -> u32 {
    move |thread| rounds_of(truant, rounds, thread)
}
