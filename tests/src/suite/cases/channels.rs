//! Host and kernel talk while it runs.

use std::collections::BTreeSet;
use std::time::Duration;

use gpufs_host::Grid;
use gpufs_test_kernels::answer_numbers;

use super::super::{Bench, Outcome};
use crate::{MODES, Scratch, skip, small};

/// Threads of the host feed a kernel that stays, and take its answers; then it is told to stop, and its stream is whole.
pub fn a_kernel_that_stays(bench: &Bench) -> Outcome {
    /// Numbers of a round, and rounds, between which everybody sleeps.
    const NUMBERS: u64 = 500;
    const ROUNDS: u64 = 3;
    for mode in MODES {
        let mut harness = match bench.try_open(small().mode(mode)) {
            Ok(harness) => harness,
            Err(refused) => {
                skip(&format!("a_kernel_that_stays in {mode}"), refused);
                continue;
            }
        };
        let scratch = Scratch::new("stays");
        let path = scratch.path("log");
        let log = harness.session.fopen(&path, "w").unwrap();
        let report = harness.report();
        let (numbers, from_host) = harness.session.channel_to_kernels::<u64>(16).unwrap();
        let (answers, to_host) = harness.session.channel_from_kernels::<u64>(8).unwrap();
        let arguments = answer_numbers::Arguments {
            numbers: from_host,
            answers: to_host,
            log,
            alone: 0,
            report: report.handle(),
        };
        let grid = Grid { blocks: bench.sized(2, 8), threads: 64 };
        harness.session.start::<answer_numbers::Entry>(grid, arguments).unwrap();
        for round in 0..ROUNDS {
            let feeding = numbers.clone();
            let of_round = move || (0..NUMBERS).map(move |number| round * NUMBERS + number);
            let feeder = std::thread::spawn(move || of_round().try_for_each(|number| feeding.send(number)));
            let got: BTreeSet<u64> = (0..NUMBERS).map_while(|_| answers.receive()).collect();
            feeder.join().unwrap().unwrap();
            assert!(got.into_iter().eq(of_round().map(|number| number * 2 + 1)), "{mode}, round {round}");
            std::thread::sleep(Duration::from_millis(30));
        }
        numbers.close();
        harness.synchronize().unwrap();
        harness.check(&report);
        let mut logged: Vec<u64> =
            std::fs::read_to_string(&path).unwrap().lines().map(|line| line.parse().unwrap()).collect();
        logged.sort_unstable();
        assert!(logged.into_iter().eq(0..NUMBERS * ROUNDS), "{mode}: the log");
        for queue in crate::tables(&harness.session).queues() {
            assert_eq!((queue.waits(), queue.free_slots()), (0, queue.capacity()), "{mode}: slots");
        }
    }
    Outcome::Passed
}
