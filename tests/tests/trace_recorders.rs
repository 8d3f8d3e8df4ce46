//! Recorders: what the lowest lane of a warp records is in the file once, in what order ever the lanes come, and whatever becomes of the kernel.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::mem;
use std::path::Path;
use std::thread;
use std::time::Duration;

use gpufs_core::word::DeviceWord;
use gpufs_device::{Errno, Fs, warp};
use gpufs_host::session::SyncError;
use gpufs_host::{CpuOptions, Grid, Schedule};
use gpufs_tests::perfetto::Message;
use gpufs_tests::stopped::{alone, fault, register_lane, stop_lanes};
use gpufs_tests::{Scratch, once, small};

/// What tells recorded moments from the others.
const RECORDED: u64 = 1_000_000;

/// How often there is each pair of a thread and a round.
type Pairs = BTreeMap<(u64, u64), usize>;

/// How often each pair of values is in the file, and of each track how many spans begin and end.
fn read(path: &Path) -> (Pairs, BTreeMap<u64, (u64, u64)>) {
    let (mut pairs, mut spans) = (Pairs::new(), BTreeMap::<u64, (u64, u64)>::new());
    for packet in Message::of(&std::fs::read(path).unwrap()).unwrap().messages(1) {
        for event in packet.messages(11) {
            let values: Vec<_> = event.messages(4).map(|value| value.number(3).unwrap()).collect();
            if let [thread, round] = values[..] {
                *pairs.entry((thread, round)).or_default() += 1;
            }
            let of_sequence = spans.entry(packet.number(10).unwrap()).or_default();
            match event.number(9) {
                Some(1) => of_sequence.0 += 1,
                Some(2) => of_sequence.1 += 1,
                _ => {}
            }
        }
    }
    (pairs, spans)
}

/// Whether a lane records in a round: the lowest is alone in some, absent in some, and in some each third one records.
const fn records(thread: u64, round: u64) -> bool {
    match round % 5 {
        0 => thread.is_multiple_of(16),
        1 => !thread.is_multiple_of(16),
        2 => thread.is_multiple_of(3),
        _ => true,
    }
}

/// Rounds of spans with a moment in them, by recorders; in some rounds moments of all lanes besides.
fn write(fs: Fs, path: &CStr, rounds: u64, forgets: bool) -> Result<gpufs_device::trace::Trace, Errno> {
    let trace = fs.trace(path)?;
    let (step, moment) = (trace.event("step", [])?, trace.event("moment", ["thread", "round"])?);
    let thread = warp::global_thread();
    for part in 0..2 {
        let mut recorder = trace.recorder()?;
        for round in part * rounds..(part + 1) * rounds {
            if records(thread, round) {
                recorder.begin(step, ())?;
                recorder.instant(moment, (thread, RECORDED + round))?;
                recorder.end()?;
            }
            if round % 7 == 0 {
                moment.instant((thread, round))?;
            }
        }
        if forgets && part == 1 {
            mem::forget(recorder);
        } else {
            recorder.finish();
        }
        moment.instant((thread, 2 * rounds + part))?;
    }
    Ok(trace)
}

/// Each event of a grid of blocks of 48 threads, whose warps have 32 and 16. The lowest lane of those that opened the trace together records, which a
/// warp's lowest is; where they came one by one, more do.
fn check(path: &Path, blocks: u64, rounds: u64) {
    let (pairs, spans) = read(path);
    let mut wanted = Pairs::new();
    let mut steps = 0;
    for thread in 0..48 * blocks {
        let alone = (0..2 * rounds).filter(|round| round % 7 == 0).chain([2 * rounds, 2 * rounds + 1]);
        wanted.extend(alone.map(|round| ((thread, round), 1)));
        let of_thread = (thread, RECORDED)..(thread + 1, 0);
        if matches!(thread % 48, 0 | 32) || pairs.range(of_thread).next().is_some() {
            let recorded = (0..2 * rounds).filter(|round| records(thread, *round));
            wanted.extend(recorded.clone().map(|round| ((thread, RECORDED + round), 1)));
            steps += recorded.count() as u64;
        }
    }
    assert!(pairs == wanted, "{} pairs of {}", pairs.len(), wanted.len());
    assert_eq!(spans.values().map(|(begun, _)| begun).sum::<u64>(), steps);
    assert!(spans.values().all(|(begun, ended)| begun == ended), "{spans:?}");
}

#[test]
fn what_is_recorded_is_there_once() {
    let scratch = Scratch::new("recorded");
    for (number, end) in ["close", "flush", "leave", "forget"].into_iter().enumerate() {
        // No room for a warp, one page for each, and several.
        for (memory, rounds) in [(0, 40), (6 << 10, 1), (6 << 10, 301), (1 << 20, 301)] {
            for seed in 0..3 {
                let name = format!("{number}-{memory}-{rounds}-{seed}");
                let path = scratch.c(&name);
                let options = CpuOptions { schedule: Schedule::Seeded(seed), ..CpuOptions::default() };
                let mut session = small().trace_memory(memory).cpu_with(options).unwrap();
                session
                    .run(Grid { blocks: 3, threads: 48 }, |fs| {
                        let trace = write(fs, &path, rounds, end == "forget").unwrap();
                        match end {
                            "close" => trace.close().unwrap(),
                            "flush" => trace.flush().unwrap(),
                            _ => {}
                        }
                    })
                    .unwrap();
                check(&scratch.path(&name), 3, rounds);
            }
        }
    }
}

/// As of calls that are told apart lane by lane, each event of a call that had returned is there when the device is lost.
#[test]
fn after_a_fault_it_is_there() {
    let _alone = alone();
    let scratch = Scratch::new("recorded-fault");
    let path = scratch.c("run.pftrace");
    let mut session = small().survives(true).cpu().unwrap();
    let progress = [const { DeviceWord::new(0) }; 96];
    let progress: &'static [DeviceWord; 96] = Box::leak(Box::new(progress));
    let fs_path = path.clone();
    session
        .launch(Grid { blocks: 2, threads: 48 }, move |fs: Fs| {
            register_lane();
            let _trace = write(fs, &fs_path, 301, true).unwrap();
            progress[warp::global_thread() as usize].publish(1);
            // Ends: the lanes are stopped.
            loop {
                warp::nap(100_000);
            }
        })
        .unwrap();
    while progress.iter().any(|progress| progress.observe() == 0) {
        thread::sleep(Duration::from_millis(1));
    }
    stop_lanes();
    // SAFETY:
    // - its kernel's threads have stopped for ever
    let fault = fault(unsafe { session.pretend_fault() });
    assert_eq!((fault.recovery.lost(), fault.recovery.streams.len()), (0, 1), "{fault}");
    drop(session);
    check(&scratch.path("run.pftrace"), 2, 301);
}

/// What a disk does not take is said by the event that finds its memory full, each of those after it, and when the trace is closed.
#[test]
fn a_full_disk_is_said() {
    for memory in [0, 64 << 10] {
        let mut session = small().trace_memory(memory).cpu().unwrap();
        once(&mut session, |fs| {
            let trace = fs.trace(c"/dev/full").unwrap();
            let moment = trace.event("moment", ["round"]).unwrap();
            let mut recorder = trace.recorder().unwrap();
            let met = (0_u64..100_000).find_map(|round| recorder.instant(moment, [round]).err());
            assert_eq!(met, Some(Errno::NOSPC));
            recorder.finish();
            assert_eq!(trace.close(), Err(Errno::NOSPC));
        });
        session.synchronize().unwrap();
    }
    // What nobody closes, the host writes.
    let mut session = small().cpu().unwrap();
    let left = session.run(Grid { blocks: 1, threads: 1 }, |fs| {
        let trace = fs.trace(c"/dev/full").unwrap();
        let moment = trace.event("moment", ["round"]).unwrap();
        let mut recorder = trace.recorder().unwrap();
        recorder.instant(moment, [1]).unwrap();
    });
    let Err(SyncError::Stream(error)) = left else { panic!("{left:?}") };
    assert_eq!(error.errno, Errno::NOSPC);
}

/// Names are numbers that each trace has its own of. A second recorder has no room, and loses nothing.
#[test]
fn other_traces_and_second_recorders() {
    let scratch = Scratch::new("recorded-other");
    let (first, second) = (scratch.c("first"), scratch.c("second"));
    let mut session = small().cpu().unwrap();
    once(&mut session, |fs| {
        let (trace, other) = (fs.trace(&first).unwrap(), fs.trace(&second).unwrap());
        let moment = trace.event("moment", ["thread", "round"]).unwrap();
        let of_other = other.event("moment", ["thread", "round"]).unwrap();
        let counter = other.counter("counter").unwrap();
        let (mut one, mut two) = (trace.recorder().unwrap(), trace.recorder().unwrap());
        assert_eq!(one.begin(of_other, (0_u64, 0_u64)), Err(Errno::INVAL));
        assert_eq!(one.set(counter, 1), Err(Errno::INVAL));
        for round in 0_u64..100 {
            one.instant(moment, (1_u64, round)).unwrap();
            two.instant(moment, (2_u64, round)).unwrap();
        }
        drop(one);
        let mut three = trace.recorder().unwrap();
        for round in 0_u64..100 {
            two.instant(moment, (2_u64, 100 + round)).unwrap();
            three.instant(moment, (3_u64, round)).unwrap();
        }
        drop((two, three));
        trace.close().unwrap();
        other.close().unwrap();
    });
    let found = read(&scratch.path("first")).0;
    assert_eq!(found.len(), 400);
    assert!(found.values().all(|count| *count == 1), "{found:?}");
    assert!(read(&scratch.path("second")).0.is_empty());
}

/// A thread of the host has a recorder for as long as it likes: it loses nothing when the session takes its pieces, nor when others have them, and
/// writes nowhere when the session is closed.
#[test]
fn recorders_that_outlive_what_they_write_to() {
    let scratch = Scratch::new("recorded-host");
    let (first, second) = (scratch.c("first"), scratch.c("second"));
    let mut session = small().cpu().unwrap();
    let fs = session.fs();
    let trace = fs.trace(&first).unwrap();
    let moment = trace.event("moment", ["thread", "round"]).unwrap();
    let mut recorder = trace.recorder().unwrap();
    for part in 0..3_u64 {
        for round in 0..100_u64 {
            recorder.instant(moment, (part, round)).unwrap();
        }
        // The host writes what is left in pieces, and takes them; the kernel's have them next.
        session.synchronize().unwrap();
        session
            .run(Grid { blocks: 3, threads: 48 }, |fs| {
                write(fs, &second, 40, false).unwrap().close().unwrap();
            })
            .unwrap();
    }
    trace.flush().unwrap();
    drop(session);
    assert!(recorder.instant(moment, (3_u64, 0_u64)).is_err());
    assert!(recorder.end().is_err());
    drop(recorder);
    let found = read(&scratch.path("first")).0;
    let wanted: Pairs = (0..3).flat_map(|part| (0..100).map(move |round| ((part, round), 1))).collect();
    assert!(found == wanted, "{} pairs", found.len());
    check(&scratch.path("second"), 3, 40);
}
