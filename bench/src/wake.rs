//! `wake`: how soon a thread of the host goes on that sleeps, when a kernel sends something to it.
//!
//! The thread leaves a number where the other side looks for it, and sleeps until an answer comes. The other side answers after a pause, in which the
//! thread falls asleep, and says how long that was. What is left of the time is the number's way there, a look at memory, and the waking.

use std::hint;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use gpufs_bench_kernels::wake::wakes;
use gpufs_core::word::SharedWord;
use gpufs_host::Grid;

use crate::bench::Bench;
use crate::failure::Failure;
use crate::latency::Quantiles;
use crate::report::Role;
use crate::stage::Stage;

const NAME: &str = "wake";
const ONE: Grid = Grid { blocks: 1, threads: 1 };
/// How long the thread has slept by then: its core with it where that is long.
const PAUSES: [(&str, Duration); 2] = [
    ("a thread of the host that has slept for 50 µs, until it goes on", Duration::from_micros(50)),
    ("a thread of the host that has slept for 300 µs, until it goes on", Duration::from_micros(300)),
];

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) fn run(bench: &mut Bench) -> Result<(), Failure> {
    let runs = bench.options.effort.samples;
    let (rounds, rings) = (if bench.options.quick { 200 } else { 1000 }, bench.rings(&[1])[0]);
    let by_kernel = "a kernel's lane wakes it, by a channel; target p50 < 20";
    let by_thread = "another thread wakes it, by a channel of the standard library's";
    for (case, pause) in PAUSES {
        bench.step(by_kernel);
        let quantiles = Quantiles::of(runs, || by_a_kernel(bench.stage(rings)?, rounds, pause))?;
        quantiles.add_to(bench, (NAME, case), by_kernel, Role::Ours);
        bench.step(by_thread);
        bench.quiet();
        let quantiles = Quantiles::of(runs, || by_a_thread(rounds, pause))?;
        quantiles.add_to(bench, (NAME, case), by_thread, Role::Rival);
    }
    Ok(())
}

/// Microseconds from a number that is left to its answer's arrival, without the pause between, of which `ask` says how many nanoseconds it took.
fn samples(rounds: u32, mut ask: impl FnMut(u32) -> Result<u64, Failure>) -> Result<Vec<f64>, Failure> {
    (1..=rounds)
        .map(|round| {
            let start = Instant::now();
            let pause = Duration::from_nanos(ask(round)?);
            Ok(start.elapsed().saturating_sub(pause).as_secs_f64() * 1e6)
        })
        .collect()
}

/// One run in which a kernel answers.
#[expect(unsafe_code, reason = "a word in memory shared with the kernel")]
fn by_a_kernel(stage: &mut Stage, rounds: u32, pause: Duration) -> Result<Vec<f64>, Failure> {
    let (shared, times) = (stage.pinned(), stage.times());
    // SAFETY:
    // - it lies in registered memory, aligned, and is touched with these verbs alone while the kernel runs
    let call = unsafe { &*(shared as *const SharedWord) };
    call.set(0);
    let (answers, to_host) = stage.session().channel_from_kernels::<u64>(8)?;
    let pause_ns = u64::try_from(pause.as_nanos())?;
    stage.start::<wakes::Entry>(ONE, wakes::Arguments { shared, rounds, pause_ns, to_host, times })?;
    let samples = samples(rounds, |round| {
        // ORDERING: release, system, partner the kernel's acquire.
        call.publish(round);
        // A kernel that has ended for a reason of its own, which `finish` tells, answers no more.
        Ok(answers.receive_for(PATIENCE)?.ok_or("the channel was closed before the answer")?)
    });
    stage.finish()?;
    samples.map_err(|error| format!("no answer of the kernel's: {error}").into())
}

/// One run in which a thread answers.
fn by_a_thread(rounds: u32, pause: Duration) -> Result<Vec<f64>, Failure> {
    let call = SharedWord::new(0);
    let (to_host, answers) = mpsc::sync_channel(8);
    thread::scope(|scope| {
        scope.spawn(|| {
            let to_host = to_host;
            for round in 1..=rounds {
                // Ends: the other thread asks as often.
                // ORDERING: acquire, partner its release.
                while call.observe() != round {
                    hint::spin_loop();
                }
                let came = Instant::now();
                while came.elapsed() < pause {
                    hint::spin_loop();
                }
                let paused = u64::try_from(came.elapsed().as_nanos()).unwrap_or(u64::MAX);
                if to_host.send(paused).is_err() {
                    return;
                }
            }
        });
        samples(rounds, |round| {
            // ORDERING: release, partner the acquire above.
            call.publish(round);
            Ok(answers.recv()?)
        })
    })
}
