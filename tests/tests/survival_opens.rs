//! Files that kernels were opening when their device died: closing the session closes them.
#![expect(unsafe_code, reason = "a device that is given up")]

use std::thread;

use gpufs_core::word::DeviceWord;
use gpufs_device::file::{O_CREAT, O_RDWR};
use gpufs_device::warp;
use gpufs_host::CpuOptions;
use gpufs_tests::random::Random;
use gpufs_tests::stopped::{alone, fault, register_lane, stop_lanes};
use gpufs_tests::{MODES, Scratch, lanes, once, setting, skip, small, tables_of};

/// Descriptors of this process whose paths lie in a folder.
fn descriptors_in(folder: &std::path::Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.filter(|entry| {
        let link = std::fs::read_link(entry.as_ref().unwrap().path());
        link.is_ok_and(|path| path.starts_with(folder))
    })
    .count()
}

/// Lanes open files and are stopped for ever, before, in the middle of, or behind an `openat`: closing the session closes what was opened.
fn stopped_while_opening(seed: u64) {
    let random = Random::new(seed);
    let (mode, survives) = (random.pick(&MODES), !random.one_in(4));
    let width = random.pick(&[1, 4, 32]);
    let options = CpuOptions { width, threads: random.pick(&[1, 3]), ..CpuOptions::default() };
    let mut session = match small().survives(survives).rings(2).mode(mode).files(1024).cpu_with(options) {
        Ok(session) => session,
        Err(refused) => return skip(&format!("stopped_while_opening in {mode}"), refused),
    };
    let scratch = Scratch::new("opening");
    std::fs::write(scratch.path("file"), b"").unwrap();
    let name = scratch.c("file");
    // How many lanes have begun, and how many files they have opened.
    static BEGUN: DeviceWord = DeviceWord::new(0);
    static OPENED: DeviceWord = DeviceWord::new(0);
    BEGUN.set(0);
    OPENED.set(0);
    session
        .launch(lanes(32), move |fs| {
            register_lane();
            BEGUN.fetch_add(1);
            // As many as the table has room for; then errors.
            loop {
                if fs.open(&name, O_RDWR, 0).is_ok() {
                    OPENED.fetch_add(1);
                }
            }
        })
        .unwrap();
    let enough = random.below(600) as u32;
    // A thread that has not begun yet would not be stopped, and would go on in tables that are given up.
    while OPENED.observe() <= enough || BEGUN.observe() < 32 {
        thread::yield_now();
    }
    stop_lanes();
    // SAFETY:
    // - its kernel's threads have stopped for ever
    let _ = fault(unsafe { session.pretend_fault() });
    drop(session);
    let left = descriptors_in(scratch.dir());
    assert_eq!(left, 0, "{mode} survives {survives} {width}: {left} of {} stay open", OPENED.observe());
}

#[test]
fn what_was_being_opened_is_closed_wherever_lanes_stop() {
    let _alone = alone();
    let (first, count) = (setting("GPUFS_SEED", 1), setting("GPUFS_CASES", 40));
    for seed in first..first + count {
        let outcome = std::panic::catch_unwind(|| stopped_while_opening(seed));
        assert!(outcome.is_ok(), "with GPUFS_SEED={seed}");
    }
}

/// A lane is stopped before it has the result of its open, while others drain the completion and fill the CQ, of 256 entries, more than once.
#[test]
fn an_open_that_ended_long_ago_is_closed() {
    let _alone = alone();
    static HOLDS: DeviceWord = DeviceWord::new(0);
    for (mode, survives) in MODES.into_iter().zip([false, true].into_iter().cycle()) {
        let scratch = Scratch::new("opened-long-ago");
        std::fs::write(scratch.path("file"), b"").unwrap();
        let name = scratch.c("file");
        HOLDS.set(0);
        let options = CpuOptions { width: 1, threads: 1, ..CpuOptions::default() };
        let mut session = match small().survives(survives).mode(mode).cpu_with(options) {
            Ok(session) => session,
            Err(refused) => {
                skip(&format!("an_open_that_ended_long_ago_is_closed in {mode}"), refused);
                continue;
            }
        };
        let other = once(&mut session, |fs| fs.open(&scratch.c("other"), O_RDWR | O_CREAT, 0o644).unwrap());
        session
            .launch(lanes(2), move |fs| {
                register_lane();
                if warp::global_thread() == 0 {
                    loop {
                        fs.open(&name, O_RDWR, 0).and_then(|file| fs.close(file)).unwrap();
                    }
                }
                // The other gives its turn away with its open in flight.
                while (0..64).all(|index| tables_of(fs).journal.opening(index).is_none()) {
                    fs.pwrite(other, b"y", 0).unwrap();
                }
                // From here on it has no turn.
                HOLDS.set(1);
                loop {
                    thread::yield_now();
                }
            })
            .unwrap();
        while HOLDS.observe() == 0 {
            thread::yield_now();
        }
        session
            .with_tables(|fs| (0..1000).for_each(|_| assert_eq!(fs.pwrite(other, b"z", 0), Ok(1))))
            .unwrap();
        stop_lanes();
        // SAFETY:
        // - its kernel's thread has stopped for ever
        let _ = fault(unsafe { session.pretend_fault() });
        drop(session);
        assert_eq!(descriptors_in(scratch.dir()), 0, "{mode} survives {survives}");
    }
}
