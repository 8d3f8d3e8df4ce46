//! Channels between threads of the host and lanes, in each mode: what arrives, who sleeps and is woken, how waits end, and that nothing is left.
#![expect(unsafe_code, reason = "looks at a session's tables")]

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use gpufs_device::channel::{Receiver, Sender};
use gpufs_device::{Errno, kernel};
use gpufs_host::cpu::Schedule;
use gpufs_host::ring::Mode;
use gpufs_host::{Builder, CpuOptions, Grid, Sandbox, Session};

const MODES: [Mode; 3] = [Mode::Sqpoll, Mode::Enter, Mode::Threads];

/// A session with one ring and small tables.
fn small() -> Builder {
    let builder = Session::builder().rings(1).ring_entries(128).stream_buffer(4096).buffers(512 << 10);
    builder.files(64).streams(32).deadline(Duration::from_secs(240))
}

/// A grid of one block.
const fn lanes(threads: u32) -> Grid {
    Grid { blocks: 1, threads }
}

/// Says that a part of a test did not run.
fn skip(name: &str, reason: impl std::fmt::Display) {
    println!("SKIP {name}: {reason}");
}

/// How long `body` takes, and what it returns.
fn timed<T>(body: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let result = body();
    (started.elapsed(), result)
}

/// Waits that are to end do so within this.
const SOON: Duration = Duration::from_secs(100);

/// Sessions in each mode, of warps of some widths, and with a seeded schedule.
fn everywhere(mut test: impl FnMut(&mut Session, &str)) {
    for mode in MODES {
        let fast = [1, 32, 64].map(|width| (width, Schedule::Fast));
        for (width, schedule) in fast.into_iter().chain([(32, Schedule::Seeded(7))]) {
            let name = format!("{mode}, width {width}, {schedule:?}");
            let options = CpuOptions { width, schedule, ..CpuOptions::default() };
            match small().mode(mode).cpu_with(options) {
                Ok(mut session) => {
                    test(&mut session, &name);
                    assert_nothing_left(&session, &name);
                }
                Err(refused) => skip(&name, refused),
            }
        }
    }
}

fn assert_nothing_left(session: &Session, name: &str) {
    // SAFETY:
    // - of an open session; what is read are words
    let tables = unsafe { session.tables() };
    for queue in tables.queues() {
        assert_eq!((queue.waits(), queue.free_slots()), (0, queue.capacity()), "{name}: slots");
    }
}

/// Says to a process of this program that it runs one test and no other beside it.
const ALONE: &str = "GPUFS_TEST_ALONE";

/// Whether this process runs one test alone; else the test `name` runs so, in a process of its own, and has passed there.
fn alone(name: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let status = command.args(["--exact", name, "--nocapture"]).env(ALONE, "1").status().unwrap();
    assert!(status.success(), "{name} in a process of its own: {status}");
    false
}

/// Descriptors that the process has open.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

kernel! {
    /// Answers each number with its square, until there are no more.
    pub fn square(fs: Fs, numbers: Receiver<u64>, squares: Sender<u64>) {
        while let Ok(Some(number)) = numbers.receive(fs) {
            if squares.send(fs, number * number).is_err() {
                break;
            }
        }
    }
}

kernel! {
    /// Sends each number back, and panics at seven.
    pub fn fussy(fs: Fs, numbers: Receiver<u64>, answers: Sender<u64>) {
        while let Ok(Some(number)) = numbers.receive(fs) {
            assert!(number != 7, "seven");
            if answers.send(fs, number).is_err() {
                break;
            }
        }
    }
}

/// More numbers than cells, from two threads, with pauses in which everybody sleeps.
#[test]
fn every_number_is_answered_once() {
    everywhere(|session, name| {
        const EACH: u64 = 200;
        let grid = Grid { blocks: 2, threads: 48 };
        let kernel = session
            .stay::<square::Entry, u64, u64>(grid, 8, |numbers, squares| square::Arguments {
                numbers,
                squares,
            })
            .unwrap();
        let feeders = [0, 1].map(|thread| {
            let requests = kernel.requests().clone();
            std::thread::spawn(move || {
                for number in 0..EACH {
                    requests.send(number * 2 + thread).unwrap();
                    if number % 50 == 49 {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
            })
        });
        // The last ones fit into the channel.
        let most: Vec<u64> = (0..2 * EACH - 8).map_while(|_| kernel.replies().receive()).collect();
        assert_eq!(most.len() as u64, 2 * EACH - 8, "{name}");
        let feeding = feeders.map(|feeder| feeder.join().unwrap());
        assert_eq!(feeding.len(), 2);
        let mut all: Vec<u64> = kernel.finish().unwrap();
        all.extend(most);
        all.sort_unstable();
        assert!(all.into_iter().eq((0..2 * EACH).map(|number| number * number)), "{name}");
    });
}

/// Lanes of a warp that send together take one reservation each time; what does not fit waits for the host to take.
#[test]
fn a_grid_sends_more_than_fits() {
    everywhere(|session, name| {
        let (receiver, sender) = session.channel_from_kernels::<[u32; 5]>(16).unwrap();
        let grid = Grid { blocks: 3, threads: 40 };
        session
            .launch(grid, move |fs| {
                let thread = gpufs_device::warp::global_thread() as u32;
                for round in 0..4 {
                    sender.send(fs, [thread, round, thread ^ round, 7, u32::MAX]).unwrap();
                }
            })
            .unwrap();
        let mut seen = BTreeSet::new();
        for _ in 0..480 {
            let [thread, round, both, seven, last] = receiver.receive().expect("a record");
            assert_eq!((both, seven, last), (thread ^ round, 7, u32::MAX), "{name}: whole");
            assert!(seen.insert((thread, round)), "{name}: once");
        }
        assert!(seen.into_iter().eq((0..120).flat_map(|thread| (0..4).map(move |round| (thread, round)))));
        session.synchronize().unwrap();
        assert_eq!(receiver.receive_for(Duration::ZERO), Err(Errno::AGAIN), "{name}");
    });
}

/// Each kind of wait ends at its limit, on both sides, and leaves the channel as it was.
#[test]
fn waits_end_in_time() {
    everywhere(|session, name| {
        const LIMIT: Duration = Duration::from_millis(30);
        let (host_sender, lane_receiver) = session.channel_to_kernels::<u32>(2).unwrap();
        let (host_receiver, lane_sender) = session.channel_from_kernels::<u32>(2).unwrap();
        session
            .run(lanes(3), |fs| {
                assert_eq!(lane_receiver.try_receive(fs), Err(Errno::AGAIN), "{name}");
                let (took, result) = timed(|| lane_receiver.receive_for(fs, LIMIT));
                assert_eq!(result, Err(Errno::TIMEDOUT), "{name}");
                assert!(took >= LIMIT && took < SOON, "{name}: {took:?}");
            })
            .unwrap();
        session
            .run(lanes(1), |fs| {
                lane_sender.try_send(fs, 1).unwrap();
                lane_sender.send(fs, 2).unwrap();
                assert_eq!(lane_sender.try_send(fs, 3), Err(Errno::AGAIN), "{name}");
                assert_eq!(lane_sender.send_for(fs, 3, LIMIT), Err(Errno::TIMEDOUT), "{name}");
            })
            .unwrap();
        assert_eq!((host_receiver.receive(), host_receiver.receive()), (Some(1), Some(2)), "{name}");
        assert_eq!(timed(|| host_receiver.receive_for(LIMIT)).1, Err(Errno::TIMEDOUT), "{name}");
        host_sender.send(4).unwrap();
        host_sender.send(5).unwrap();
        assert_eq!(host_sender.send_for(6, Duration::ZERO), Err(Errno::AGAIN), "{name}");
        assert_eq!(host_sender.send_for(6, LIMIT), Err(Errno::TIMEDOUT), "{name}");
        host_sender.close();
        assert_eq!(host_sender.send(6), Err(Errno::PIPE), "{name}");
        let taken = Mutex::new(Vec::new());
        session
            .run(lanes(4), |fs| {
                // Lanes of a warp meet in the call: no lock is held there.
                let record = lane_receiver.receive(fs).unwrap();
                taken.lock().unwrap().push(record);
            })
            .unwrap();
        let mut taken = taken.into_inner().unwrap();
        taken.sort_unstable();
        assert_eq!(taken, [None, None, Some(4), Some(5)], "{name}: what was sent before is received");
        host_receiver.close();
        session.run(lanes(2), |fs| assert_eq!(lane_sender.send(fs, 9), Err(Errno::PIPE), "{name}")).unwrap();
    });
}

/// Warps that come for the same records of a closed channel get one each: who finds them taken looks behind them.
#[test]
fn a_closed_channel_gives_what_was_sent() {
    const LANES: u32 = 32;
    for seed in 0..60 {
        let options = CpuOptions { width: 4, schedule: Schedule::Seeded(seed), ..CpuOptions::default() };
        let mut session = small().mode(Mode::Enter).cpu_with(options).unwrap();
        let (sender, receiver) = session.channel_to_kernels::<u32>(LANES).unwrap();
        (0..LANES).for_each(|number| sender.send(number).unwrap());
        sender.close();
        let taken = Mutex::new(BTreeSet::new());
        session
            .run(Grid { blocks: LANES / 4, threads: 4 }, |fs| {
                let record = receiver.receive(fs).unwrap();
                taken.lock().unwrap().insert(record);
            })
            .unwrap();
        assert!(taken.into_inner().unwrap().into_iter().eq((0..LANES).map(Some)), "seed {seed}");
    }
}

/// A bell that woke a lane is silenced: the lane's next wait sleeps.
#[test]
fn a_lane_that_was_woken_sleeps_again() {
    for mode in MODES {
        let mut session = match small().mode(mode).cpu() {
            Ok(session) => session,
            Err(refused) => {
                skip(&format!("{mode}"), refused);
                continue;
            }
        };
        let before = session.statistics().total().operations;
        let arguments = |numbers, squares| square::Arguments { numbers, squares };
        let kernel = session.stay::<square::Entry, u64, u64>(lanes(1), 2, arguments).unwrap();
        for number in 1..4 {
            std::thread::sleep(Duration::from_millis(150));
            kernel.requests().send(number).unwrap();
            assert_eq!(kernel.replies().receive(), Some(number * number), "{mode}");
        }
        assert_eq!(kernel.finish().unwrap(), Vec::<u64>::new(), "{mode}");
        let done = session.statistics().total().operations - before;
        assert!(done < 100, "{mode}: {done} operations of three wakes");
    }
}

/// A session that is closed while both sides wait ends their waits; later calls are errors; descriptors and memory are given back.
///
/// Descriptors are counted where no other test opens and closes its own.
#[test]
fn a_session_is_closed_with_waits_in_flight() {
    if !alone("a_session_is_closed_with_waits_in_flight") {
        return;
    }
    // What a process opens once stays open.
    drop(small().cpu().unwrap());
    let before = descriptors();
    for mode in MODES {
        let mut session = match small().mode(mode).cpu() {
            Ok(session) => session,
            Err(refused) => {
                skip(&format!("{mode}"), refused);
                continue;
            }
        };
        let (sender, lane_receiver) = session.channel_to_kernels::<u64>(4).unwrap();
        let (receiver, lane_sender) = session.channel_from_kernels::<u64>(2).unwrap();
        let arguments = square::Arguments { numbers: lane_receiver, squares: lane_sender };
        session.start::<square::Entry>(Grid { blocks: 2, threads: 32 }, arguments).unwrap();
        let waiting = receiver.clone();
        let thread = std::thread::spawn(move || waiting.receive());
        sender.send(3).unwrap();
        assert_eq!(thread.join().unwrap(), Some(9), "{mode}");
        let waiting = receiver.clone();
        let thread = std::thread::spawn(move || waiting.receive());
        std::thread::sleep(Duration::from_millis(20));
        let (took, ()) = timed(|| drop(session));
        assert!(took < SOON, "{mode}: {took:?}");
        assert_eq!(thread.join().unwrap(), None, "{mode}");
        assert_eq!((sender.send(1), receiver.receive()), (Err(Errno::PIPE), None), "{mode}");
    }
    assert_eq!(descriptors(), before);
}

/// A lane that panics while others wait for the host: the kernel is told to stop, and the panic is reported.
#[test]
fn a_lane_panics_while_others_wait() {
    let mut session = small().cpu().unwrap();
    let kernel = session
        .stay::<fussy::Entry, u64, u64>(lanes(8), 4, |numbers, answers| fussy::Arguments { numbers, answers })
        .unwrap();
    assert_eq!(kernel.ask(1), Ok(1));
    kernel.requests().send(7).unwrap();
    let (took, ended) = timed(|| kernel.finish());
    assert!(took < SOON, "{took:?}");
    assert!(ended.unwrap_err().to_string().contains("seven"));
    assert_nothing_left(&session, "after a panic");
}

/// A kernel that nobody finishes is stopped by its handle, also while it waits for room that nobody makes.
#[test]
fn a_dropped_handle_stops_its_kernel() {
    let mut session = small().cpu().unwrap();
    let begun = Instant::now();
    let kernel = session
        .stay::<square::Entry, u64, u64>(lanes(8), 2, |numbers, squares| square::Arguments {
            numbers,
            squares,
        })
        .unwrap();
    (0..6).for_each(|number| kernel.requests().send(number).unwrap());
    drop(kernel);
    assert!(session.is_finished() && begun.elapsed() < SOON);
    assert_nothing_left(&session, "after a drop");
}

/// In a sandbox the bells are given to it, and the memory is registered.
#[test]
fn in_a_sandbox() {
    for mode in MODES {
        match small().mode(mode).sandbox(Sandbox::new()).cpu() {
            Ok(mut session) => {
                let kernel = session
                    .stay::<square::Entry, u64, u64>(lanes(4), 2, |numbers, squares| square::Arguments {
                        numbers,
                        squares,
                    })
                    .unwrap();
                for number in 0..20 {
                    assert_eq!(kernel.ask(number), Ok(number * number), "{mode}");
                }
                assert!(kernel.finish().unwrap().is_empty());
                assert_nothing_left(&session, "in a sandbox");
            }
            Err(refused) => skip(&format!("{mode} in a sandbox"), refused),
        }
    }
}

/// The middle one of round trips, each after a pause in which both sides fall asleep.
fn round_trip(mut trip: impl FnMut(u64)) -> Duration {
    let mut took: Vec<Duration> = (0..200)
        .map(|number| {
            std::thread::sleep(Duration::from_micros(300));
            timed(|| trip(number)).0
        })
        .collect();
    took.sort_unstable();
    took[took.len() / 2]
}

/// The same between two threads, which sleep on condition variables.
fn round_trip_of_threads() -> Duration {
    let (there, gets) = std::sync::mpsc::channel::<u64>();
    let (gives, back) = std::sync::mpsc::channel::<u64>();
    let other = std::thread::spawn(move || gets.iter().try_for_each(|number| gives.send(number * number)));
    let took = round_trip(|number| {
        there.send(number).unwrap();
        assert_eq!(back.recv(), Ok(number * number));
    });
    drop(there);
    other.join().unwrap().unwrap();
    took
}

/// Processor time of this process.
fn cpu_time() -> Duration {
    // In ticks of 10 ms (`proc_pid_stat(5)`).
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// What an idle kernel costs is printed, and how long it takes to wake a sleeping thread of the host.
#[test]
fn an_idle_kernel_answers_after_a_pause() {
    for mode in MODES {
        let mut session = match small().mode(mode).cpu() {
            Ok(session) => session,
            Err(refused) => {
                skip(&format!("{mode}"), refused);
                continue;
            }
        };
        let kernel = session
            .stay::<square::Entry, u64, u64>(lanes(32), 8, |numbers, squares| square::Arguments {
                numbers,
                squares,
            })
            .unwrap();
        let took = round_trip(|number| assert_eq!(kernel.ask(number), Ok(number * number)));
        let threads = round_trip_of_threads();
        println!("{mode}: to a sleeping lane and back {took:?}, between two threads {threads:?} (medians)");
        std::thread::sleep(Duration::from_millis(500));
        let (before, begun) = (cpu_time(), Instant::now());
        std::thread::sleep(Duration::from_secs(2));
        let idle = (cpu_time() - before).as_secs_f64() / begun.elapsed().as_secs_f64();
        println!(
            "{mode}: an idle kernel takes {:.1} % of a core (with other tests of this program)",
            idle * 100.0
        );
        assert_eq!(kernel.ask(3), Ok(9), "{mode}");
        assert!(kernel.finish().unwrap().is_empty());
    }
}
