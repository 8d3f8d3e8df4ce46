//! Events that wait in their writers' pieces: each reaches the file once, whatever the kernel does afterwards.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use gpufs_core::word::DeviceWord;
use gpufs_device::trace::Trace;
use gpufs_device::{Errno, Fs, warp};
use gpufs_host::session::SyncError;
use gpufs_host::{CpuOptions, Grid, Schedule};
use gpufs_tests::perfetto::Message;
use gpufs_tests::stopped::{alone, fault, register_lane, stop_lanes};
use gpufs_tests::{Scratch, once, small, tables_of};

/// How often each pair of values is in the file of moments with two.
fn pairs(path: &Path) -> BTreeMap<(u64, u64), usize> {
    let mut all = BTreeMap::new();
    for packet in Message::of(&std::fs::read(path).unwrap()).unwrap().messages(1) {
        for event in packet.messages(11) {
            let values: Vec<_> = event.messages(4).map(|value| value.number(3).unwrap()).collect();
            if let [thread, round] = values[..] {
                *all.entry((thread, round)).or_default() += 1;
            }
        }
    }
    all
}

/// Moments of all lanes; with every third call lanes part, and with every fifth the lowest is alone, or absent.
#[expect(clippy::if_same_then_else, reason = "lanes part at each")]
fn write(fs: Fs, path: &std::ffi::CStr, rounds: u64) -> Result<Trace, Errno> {
    let trace = fs.trace(path)?;
    let (moment, span) =
        (trace.event("moment", ["thread", "round"])?, trace.event("span", ["thread", "round"])?);
    let thread = warp::global_thread();
    for round in 0..rounds {
        if round % 5 == 0 && thread % 16 == round / 5 % 2 {
            moment.instant((thread, round))?;
        } else if round % 3 == 0 && thread.is_multiple_of(3) {
            moment.instant((thread, round))?;
        } else {
            moment.instant((thread, round))?;
        }
        if round % 7 == 0 {
            span.begin((thread, 1_000_000 + round))?.end()?;
        }
    }
    Ok(trace)
}

/// Every moment once, and spans at most once.
fn check(found: &BTreeMap<(u64, u64), usize>, threads: u64, rounds: u64) {
    for (thread, round) in (0..threads).flat_map(|thread| (0..rounds).map(move |round| (thread, round))) {
        assert_eq!(found.get(&(thread, round)), Some(&1), "{thread} {round}");
    }
    assert!(found.values().all(|count| *count == 1));
}

#[test]
fn what_is_flushed_closed_or_left_is_there_once() {
    let scratch = Scratch::new("left");
    for (number, end) in ["close", "flush", "leave"].into_iter().enumerate() {
        for rounds in [1, 3, 40, 301] {
            for seed in 0..3 {
                let name = format!("{number}-{rounds}-{seed}");
                let path = scratch.c(&name);
                let options = CpuOptions { schedule: Schedule::Seeded(seed), ..CpuOptions::default() };
                let mut session = small().cpu_with(options).unwrap();
                session
                    .run(Grid { blocks: 3, threads: 48 }, |fs| {
                        let trace = write(fs, &path, rounds).unwrap();
                        match end {
                            "close" => trace.close().unwrap(),
                            "flush" => trace.flush().unwrap(),
                            _ => {}
                        }
                    })
                    .unwrap();
                check(&pairs(&scratch.path(&name)), 144, rounds);
            }
        }
    }
}

/// Of calls that had returned each event is there when the device is lost, and none twice, as nobody was in the middle of one.
#[test]
fn after_a_fault_they_are_there() {
    let _alone = alone();
    let scratch = Scratch::new("fault");
    let path = scratch.c("run.pftrace");
    let mut session = small().survives(true).cpu().unwrap();
    let progress = [const { DeviceWord::new(0) }; 96];
    let progress: &'static [DeviceWord; 96] = Box::leak(Box::new(progress));
    let fs_path = path.clone();
    session
        .launch(Grid { blocks: 3, threads: 32 }, move |fs: Fs| {
            register_lane();
            let _trace = write(fs, &fs_path, 301).unwrap();
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
    check(&pairs(&scratch.path("run.pftrace")), 96, 301);
}

/// A writer of a later kernel that has the trace of an earlier one, and one that has another thread's.
#[test]
fn a_piece_is_its_owners() {
    let scratch = Scratch::new("owners");
    let path = scratch.c("run.pftrace");
    let mut session = small().cpu().unwrap();
    let trace = once(&mut session, |fs| write(fs, &path, 40).unwrap());
    session
        .run(Grid { blocks: 2, threads: 32 }, |_| {
            let moment = trace.event("moment", ["thread", "round"]).unwrap();
            moment.instant((warp::global_thread(), 40_u64)).unwrap();
        })
        .unwrap();
    once(&mut session, |_| trace.close().unwrap());
    let found = pairs(&scratch.path("run.pftrace"));
    check(&found, 1, 41);
    assert!((0..64).all(|thread| found.get(&(thread, 40)) == Some(&1)), "{found:?}");
}

/// What a disk does not take is said by the call that finds it so, or when the host synchronizes.
#[test]
fn a_full_disk_is_said() {
    let mut session = small().cpu().unwrap();
    once(&mut session, |fs| {
        let trace = fs.trace(c"/dev/full").unwrap();
        let moment = trace.event("moment", ["round"]).unwrap();
        let met = (0_u64..100_000).find_map(|round| moment.instant([round]).err());
        assert_eq!(met, Some(Errno::NOSPC));
        assert_eq!(trace.flush(), Err(Errno::NOSPC));
        assert_eq!(trace.close(), Err(Errno::NOSPC));
    });
    session.synchronize().unwrap();
    let left = session.run(Grid { blocks: 1, threads: 1 }, |fs| {
        let moment = fs.trace(c"/dev/full").unwrap().event("moment", ["round"]).unwrap();
        moment.instant([1]).unwrap();
    });
    let Err(SyncError::Stream(error)) = left else { panic!("{left:?}") };
    assert_eq!(error.errno, Errno::NOSPC);
}

/// A trace that others close as often as it was opened: events of lanes that have not closed it themselves are lost, and that is said.
#[test]
fn a_trace_that_is_closed_for_others() {
    let scratch = Scratch::new("closed");
    let path = scratch.c("run.pftrace");
    let mut session = small().cpu().unwrap();
    let ended = session.run(Grid { blocks: 1, threads: 2 }, |fs| {
        let trace = write(fs, &path, 1).unwrap();
        if warp::global_thread() == 1 {
            trace.close().unwrap();
            trace.close().unwrap();
        }
    });
    let Err(SyncError::Stream(error)) = ended else { panic!("{ended:?}") };
    assert_eq!(error.errno, Errno::BADF);
    assert!(error.to_string().contains("closed for lanes"), "{error}");
}

/// A lane closes a trace that others have open still, and opens another, which gets the piece that the first had: calls of both in one warp.
#[test]
fn a_piece_that_another_trace_has_by_now() {
    let scratch = Scratch::new("another");
    let (first, second) = (scratch.c("first"), scratch.c("second"));
    let mut session = small().cpu().unwrap();
    session
        .run(Grid { blocks: 1, threads: 8 }, |fs| {
            let thread = warp::global_thread();
            let mut trace = fs.trace(&first).unwrap();
            if thread == 0 {
                trace.close().unwrap();
                trace = fs.trace(&second).unwrap();
            }
            let moment = trace.event("moment", ["thread", "round"]).unwrap();
            let span = trace.event("span", []).unwrap();
            for round in 0_u64..100 {
                moment.instant((thread, round)).unwrap();
                span.begin(()).unwrap().end().unwrap();
            }
            trace.close().unwrap();
        })
        .unwrap();
    check(&pairs(&scratch.path("second")), 1, 100);
    let found = pairs(&scratch.path("first"));
    assert_eq!(found.len(), 700);
    assert!(found.iter().all(|((thread, _), count)| (1..8).contains(thread) && *count == 1));
}

/// Each warp has a piece where there is a KiB for each of its grid, and a larger one where there is more.
#[test]
fn the_program_chooses_how_much_memory() {
    const WARPS: u32 = 40;
    for (bytes, pages) in [(0, 0), (39 << 10, 0), (40 << 10, 1), ((100 << 10) + 1, 2), (4 << 20, 32)] {
        let scratch = Scratch::new("trace-memory");
        let path = scratch.c("file");
        let options = CpuOptions { width: 4, ..CpuOptions::default() };
        let mut session = small().trace_memory(bytes).cpu_with(options).unwrap();
        let arrived = DeviceWord::new(0);
        let threads = WARPS * 4;
        session
            .run(Grid { blocks: WARPS / 2, threads: 8 }, |fs| {
                let trace = fs.trace(&path).unwrap();
                let moment = trace.event("moment", ["thread", "round"]).unwrap();
                moment.instant((warp::global_thread(), 0_u64)).unwrap();
                arrived.fetch_add(1);
                while arrived.observe() < threads {
                    warp::nap(1000);
                }
                if warp::global_thread() == 0 {
                    let found: Vec<_> = tables_of(fs).pieces.found().map(|found| found.limit).collect();
                    assert_eq!(found, vec![pages * 1024; if pages == 0 { 0 } else { WARPS as usize }]);
                }
                arrived.fetch_add(1);
                while arrived.observe() < 2 * threads {
                    warp::nap(1000);
                }
                trace.close().unwrap();
            })
            .unwrap();
        check(&pairs(&scratch.path("file")), threads.into(), 1);
    }
}
