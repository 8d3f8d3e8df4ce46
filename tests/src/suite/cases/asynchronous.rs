//! Operations that kernels start and wait for later.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use gpufs_host::{Builder, Grid, Session};
use gpufs_test_kernels::{BLOCK, await_two, copy_by_chains, start_and_cancel, start_and_wait};

use super::super::harness::Harness;
use super::super::{Bench, Outcome};
use crate::{MODES, Scratch, skip, small};

/// Nothing is left of what was started.
fn assert_nothing_left(harness: &Harness) {
    for queue in crate::tables(&harness.session).queues() {
        assert_eq!(
            (queue.waits(), queue.free_slots()),
            (0, queue.capacity()),
            "counts and slots are free again"
        );
    }
}

/// After which a wait says where it is: what it waits for comes at once, or never.
const DEADLINE: Duration = Duration::from_secs(8);

/// A kind of session: its name, and what builds one.
type Kind = (&'static str, fn() -> Builder);

/// Sessions in each mode: of few slots, and as they are by default. Says how far it has come, which is shown where it fails or is killed.
fn in_each_mode(bench: &Bench, case: &str, mut run: impl FnMut(&mut Harness)) {
    let builders: [Kind; 2] = [("of few slots", small), ("by default", Session::builder)];
    for mode in MODES {
        for (kind, builder) in builders {
            let begun = Instant::now();
            match bench.try_open(builder().mode(mode).deadline(DEADLINE)) {
                Ok(mut harness) => {
                    println!("{case}: {mode}, {kind}: opened in {:?}", begun.elapsed());
                    run(&mut harness);
                    assert_nothing_left(&harness);
                    println!("{case}: {mode}, {kind}: done after {:?}", begun.elapsed());
                }
                Err(refused) => skip(&format!("{case} in {mode}"), refused),
            }
        }
    }
}

/// Threads write and read with several operations in flight, and as futures; every byte is where it was written.
pub fn operations_in_flight(bench: &Bench) -> Outcome {
    const BLOCKS: u64 = 8;
    in_each_mode(bench, "operations_in_flight", |harness| {
        let scratch = Scratch::new("pending");
        let path = scratch.path("file");
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        let file = harness.session.register_file(OwnedFd::from(file)).unwrap().0;
        let grid = Grid { blocks: bench.sized(4, 8), threads: 64 };
        let report = harness.report();
        let arguments = start_and_wait::Arguments { file, blocks: BLOCKS, report: report.handle() };
        harness.session.start::<start_and_wait::Entry>(grid, arguments).unwrap();
        harness.synchronize().unwrap();
        harness.check(&report);
        let bytes = u64::from(grid.blocks * grid.threads) * BLOCKS * BLOCK as u64;
        assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
        let arguments = await_two::Arguments { file, blocks: BLOCKS, report: report.handle() };
        harness.session.start::<await_two::Entry>(grid, arguments).unwrap();
        harness.synchronize().unwrap();
        harness.check(&report);
    });
    Outcome::Passed
}

/// Threads copy blocks by chains of a write, a read, a write of what was read, and a sync: both halves of the file are equal then, and whole.
pub fn chains_in_order(bench: &Bench) -> Outcome {
    const BLOCKS: u64 = 2;
    in_each_mode(bench, "chains_in_order", |harness| {
        let scratch = Scratch::new("chains");
        let path = scratch.path("file");
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        let file = harness.session.register_file(OwnedFd::from(file)).unwrap().0;
        let grid = Grid { blocks: bench.sized(2, 8), threads: 64 };
        let report = harness.report();
        let arguments = copy_by_chains::Arguments { file, blocks: BLOCKS, report: report.handle() };
        harness.session.start::<copy_by_chains::Entry>(grid, arguments).unwrap();
        harness.synchronize().unwrap();
        harness.check(&report);
        let content = std::fs::read(&path).unwrap();
        let half = grid.blocks as usize * grid.threads as usize * BLOCKS as usize * BLOCK;
        assert_eq!(content.len(), 2 * half);
        assert!(content[..half] == content[half..], "what was read was written");
    });
    Outcome::Passed
}

/// Reads of an empty pipe are cancelled, run out of time, or are left, and the host ends those: nobody reads the pipe afterwards.
pub fn reads_of_an_empty_pipe_end(bench: &Bench) -> Outcome {
    in_each_mode(bench, "reads_of_an_empty_pipe_end", |harness| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut own = reader.try_clone().unwrap();
        let pipe = harness.session.register_file(OwnedFd::from(reader)).unwrap().0;
        let report = harness.report();
        for leaves in [0, 1] {
            let arguments = start_and_cancel::Arguments { pipe, leaves, report: report.handle() };
            harness
                .session
                .start::<start_and_cancel::Entry>(Grid { blocks: 2, threads: 40 }, arguments)
                .unwrap();
            harness.synchronize().unwrap();
            harness.check(&report);
            println!("reads {} and ended", if leaves == 0 { "cancelled" } else { "left" });
        }
        writer.write_all(b"for others").unwrap();
        let mut bytes = [0; 10];
        std::io::Read::read_exact(&mut own, &mut bytes).unwrap();
        assert_eq!(&bytes, b"for others");
    });
    Outcome::Passed
}
