//! Sessions: every way to serve and place the rings, values in device memory, statistics, sleep and waking, and what ends a session.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use gpufs_device::Errno;
use gpufs_device::file::{O_CREAT, O_RDWR, Whence};
use gpufs_host::Grid;
use gpufs_host::ring::Mode;
use gpufs_host::session::SyncError;
use gpufs_test_kernels::{Call, Letters, script, transfer};

use crate::suite::harness::{Data, Do, Harness, Value, fopen, fputs, open, results};
use crate::suite::printing::{Printing, check_records, start, threads};
use crate::suite::{Bench, Outcome};
use crate::{MEMORIES, MODES, Scratch, lanes, skip, small, timed};

fn printing(rounds: u32) -> Printing<'static> {
    let grid = Grid { blocks: 3, threads: 100 };
    Printing { grid, rounds, mode: c"w", buffer: None, call: Call::Mixed, letters: Letters::Fixed(20) }
}

/// Opens, writes, reads and closes in the session: it works.
///
/// # Panics
/// If it does not.
pub fn assert_works(harness: &mut Harness) {
    let scratch = Scratch::new("works");
    // An entry that no case uses.
    let on = crate::suite::harness::HANDLES - 1;
    let stops = std::mem::take(&mut harness.stops);
    harness.must(vec![fopen(on, &scratch.c("file"), c"w+")]);
    let printed = harness.every(40, |lane| Do::Fprintf(on, c"lane %u\n", vec![Value::Integer(lane.into())]));
    assert!(printed.iter().all(Result::is_ok), "{printed:?}");
    let answers = harness.must(vec![Do::Rewind(on), Do::Fgets(on, 64), Do::Fclose(on)]);
    let end = answers[1].bytes.iter().position(|byte| *byte == 0).expect("the line's end");
    assert_eq!(answers[1].bytes[..end].last(), Some(&b'\n'));
    let text = String::from_utf8(scratch.read("file")).unwrap();
    let mut found: Vec<&str> = text.lines().collect();
    let mut wanted: Vec<String> = (0..40).map(|lane| format!("lane {lane}")).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    harness.stops = stops;
}

/// Each lane writes its own part of the file of entry `on`, and then reads another's.
fn transfer_all(harness: &mut Harness, on: u32, grid: Grid, bytes: u64) {
    let count = usize::try_from(threads(grid)).unwrap();
    harness.prepare_chunks(count);
    harness.reserve(count * 8 + 4096);
    let memories = harness.chunk_table(count);
    for back in [0, 1] {
        let report = harness.report();
        let arguments = transfer::Arguments {
            handle: harness.handle(on),
            memories,
            bytes,
            back,
            report: report.handle(),
        };
        harness.keep_arena();
        harness.session.start::<transfer::Entry>(grid, arguments).unwrap();
        harness.synchronize().unwrap();
        harness.check(&report);
    }
}

/// Prints, transfers, and uses registered files and buffers in each of them.
pub fn every_mode_and_memory(bench: &Bench) -> Outcome {
    for mode in MODES {
        for memory in MEMORIES {
            let scratch = Scratch::new("modes");
            let mut harness = match bench.try_open(small().rings(2).mode(mode).ring_memory(memory)) {
                Ok(harness) => harness,
                Err(refused) => {
                    skip(&format!("every_mode_and_memory in {mode}, rings of {memory:?}"), refused);
                    continue;
                }
            };
            assert_eq!(harness.session.mode(), mode);
            assert_works(&mut harness);
            printing(5).run(&mut harness, "modes");
            harness.must(vec![open(0, &scratch.c("file"), O_RDWR | O_CREAT)]);
            transfer_all(&mut harness, 0, Grid { blocks: 2, threads: 50 }, 5000);
            let answers = harness.must(vec![
                Do::Lseek(0, -1, Whence::End),
                Do::Read(0, 10),
                Do::Fsync(0),
                Do::Close(0),
            ]);
            assert_eq!(results(&answers)[..2], [Ok(499_999), Ok(1)]);
            // A registered file and a registered buffer, in place.
            let parts: Vec<u8> = (0..100_u8).flat_map(|lane| [lane; 5000]).collect();
            fs::write(scratch.path("file"), parts).unwrap();
            let open = fs::File::options().read(true).write(true).open(scratch.path("file")).unwrap();
            let fixed = harness.session.register_file(OwnedFd::from(open)).unwrap();
            harness.set_descriptor(1, fixed.0);
            harness.data = Data::Registered;
            let answers = harness.each(
                (0..32)
                    .map(|lane| {
                        vec![Do::Pread(1, 1000, lane * 5000), Do::Pwrite(1, vec![200; 1000], lane * 5000)]
                    })
                    .collect(),
            );
            for (lane, answers) in answers.iter().enumerate() {
                assert_eq!(results(answers), [Ok(1000), Ok(1000)]);
                assert!(answers[0].bytes.iter().all(|byte| *byte == lane as u8));
            }
            assert!(scratch.read("file")[31 * 5000..].starts_with(&[200; 1000]));
            harness.session.unregister_file(fixed).unwrap();
            assert_eq!(harness.once(vec![Do::Pread(1, 1, 0)])[0].result(), Err(Errno::BADF));
            assert!(harness.session.unregister_file(fixed).is_err());
            assert_eq!(harness.session.statistics().total().stale, 0, "{mode} {memory:?}");
        }
    }
    Outcome::Passed
}

/// The entry is free then.
pub fn a_kernel_closes_what_the_host_registered(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("closes");
    let mut harness = bench.open(small());
    let file = fs::File::create(scratch.path("first")).unwrap();
    let first = harness.session.register_file(OwnedFd::from(file)).unwrap();
    harness.set_descriptor(0, first.0);
    harness.must(vec![Do::Close(0), open(1, &scratch.c("file"), O_RDWR | O_CREAT)]);
    assert_eq!(harness.descriptor(1), first.0, "the entry is used again");
    harness.session.unregister_file(first).unwrap();
    assert_eq!(harness.once(vec![Do::Write(1, b"still open".to_vec())])[0].result(), Ok(10));
    Outcome::Passed
}

/// What `place` places kernels change, `fetch` reads it back; only in its session, and while no kernel runs.
pub fn placed_values(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("placed");
    let mut harness = bench.open(small());
    let numbers = harness.session.place([7_u32, 8, 9]).unwrap();
    assert_eq!(harness.session.fetch(&numbers).unwrap(), [7, 8, 9]);
    harness.must(vec![fopen(0, &scratch.c("out"), c"w")]);
    let turn = |lane: u32| vec![Do::AwaitTurn(lane), fputs(0, c"turn\n"), Do::PassTurn(lane + 1)];
    harness.each((0..40).map(turn).collect());
    assert_eq!(harness.session.fetch(&harness.token).unwrap().peek(), 40);
    assert_eq!(harness.session.fetch(&numbers).unwrap(), [7, 8, 9], "nobody touched them");

    // While a kernel runs nothing is fetched.
    harness.set_gate(0);
    let waiting = harness.start(vec![vec![Do::Await(1)]]);
    let refused = harness.session.fetch(&harness.token).map(|word| word.peek()).unwrap_err();
    assert!(refused.to_string().contains("synchronize"), "{refused}");
    harness.set_gate(1);
    harness.synchronize().unwrap();
    assert_eq!(harness.answers(waiting)[0][0].result(), Ok(0));
    assert_eq!(harness.session.fetch(&harness.token).unwrap().peek(), 40);

    assert_works(&mut harness);
    Outcome::Passed
}

/// A kernel does not get a value that another session placed.
pub fn a_value_of_another_session(bench: &Bench) -> Outcome {
    let (harness, mut other) = (bench.open(small()), bench.open(small()));
    let arguments =
        script::Arguments { scripts: 0, count: 0, handles: other.handle(0), token: harness.token.handle() };
    other.session.start::<script::Entry>(lanes(1), arguments).unwrap();
    let outcome = other.synchronize();
    if bench.is_gpu() {
        // The message went nowhere, and the GPU's context is gone with the kernel.
        assert!(outcome.is_err(), "a value of another session was used");
        return Outcome::Passed;
    }
    let Err(SyncError::Kernel(error)) = outcome else { panic!("{outcome:?}") };
    assert!(error.to_string().contains("another session"), "{error}");
    assert_works(&mut other);
    Outcome::Passed
}

/// Operations, bytes and completions.
pub fn statistics_add_up(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("statistics");
    let (name, text) = (scratch.c("file"), scratch.c("text"));
    for rings in [1, 3] {
        let mut harness = bench.open(small().rings(rings));
        harness.prepare_chunks(256);
        let total = |harness: &Harness| harness.session.statistics().total();
        let before = total(&harness);
        assert_eq!((before.operations, before.bytes_read, before.bytes_written), (0, 0, 0));
        harness.must(vec![open(0, &name, O_RDWR | O_CREAT)]);
        // A look at the path, the open, and where there was no file, a look at what that made.
        assert_eq!(total(&harness).operations, if rings == 1 { 3 } else { 2 });
        transfer_all(&mut harness, 0, Grid { blocks: 4, threads: 64 }, 1000);
        let after = total(&harness);
        assert_eq!((after.bytes_read, after.bytes_written), (256_000, 256_000));
        // Neighbouring lanes' chunks go out together, as many as there is staging memory for.
        assert!((2 + 8..=3 + 512).contains(&after.operations), "{after:?}");
        printing(10).run_to(&mut harness, &text);
        let length = u64::try_from(scratch.read("text").len()).unwrap();
        let total = total(&harness);
        assert_eq!(total.bytes_written, 256_000 + length);
        assert_eq!((total.completions, total.stale), (total.operations, 0));
        assert!(total.publications <= total.operations && total.publications > 0);
        assert_eq!(harness.session.statistics().rings.len(), rings as usize);
    }
    Outcome::Passed
}

/// Kernels that pause for longer than `idle`, and the host's own flush.
pub fn a_sleeping_ring_is_woken(bench: &Bench) -> Outcome {
    for idle_ms in [1, 3, 10] {
        let idle = Duration::from_millis(idle_ms);
        let mut harness = match bench.try_open(small().rings(2).mode(Mode::Sqpoll).idle(idle)) {
            Ok(harness) => harness,
            Err(refused) => return Outcome::Skipped(refused.to_string()),
        };
        let scratch = Scratch::new("sleeping");
        let name = scratch.c("file");
        harness.must(vec![open(0, &name, O_RDWR | O_CREAT)]);
        // SQPOLL threads count in jiffies: up to 10 ms beyond what was asked.
        let pause = Duration::from_millis(2 * idle_ms + 25);
        let naps = |thread: u64| {
            (0..4)
                .flat_map(|round| [Do::Nap(pause), Do::Pwrite(0, vec![1], thread * 4 + round)])
                .collect::<Vec<_>>()
        };
        let (took, answers) = timed(|| harness.each((0..64).map(naps).collect()));
        for answer in answers.iter().flat_map(|answers| answers.iter().skip(1).step_by(2)) {
            assert_eq!(answer.result(), Ok(1));
        }
        assert_eq!(scratch.read("file"), [1; 256]);
        let wake_ups = harness.session.statistics().total().wake_ups;
        assert!(wake_ups > 0, "idle {idle_ms} ms: no ring ever slept");
        println!("idle {idle_ms} ms: {wake_ups} wake-ups in {took:?}");
        // The host's own flush meets sleeping rings too.
        harness.must(vec![fopen(1, &name, c"w")]);
        let started = harness.start(vec![vec![fputs(1, c"awake\n")]; 40]);
        std::thread::sleep(pause);
        harness.synchronize().unwrap();
        assert!(harness.answers(started).iter().all(|answers| answers[0].result() == Ok(0)));
        assert_eq!(scratch.read("file").len(), 240);
    }
    Outcome::Passed
}

/// One, two, five.
pub fn any_number_of_rings(bench: &Bench) -> Outcome {
    for rings in [1, 2, 5] {
        let mut harness = bench.open(small().rings(rings).idle(Duration::from_millis(5)));
        printing(10).run(&mut harness, "rings");
        assert_works(&mut harness);
    }
    Outcome::Passed
}

/// Still running when the session is dropped; nobody closes anything; some lanes return early.
pub fn dropping_loses_nothing(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("drop");
    let mut harness = bench.open(small().rings(2));
    harness.must(vec![fopen(0, &scratch.c("shared"), c"w"), fopen(1, &scratch.c("first"), c"w")]);
    harness.reserve(1 << 20);
    harness.prepare_chunks(1);
    let printing = printing(1);
    let job = gpufs_test_kernels::Job { nap_ns: 20_000_000, truant: 5, ..printing.job() };
    let _ = start(&mut harness, printing.grid, Call::Mixed, job);
    let _ = harness.start(vec![vec![
        fopen(2, &scratch.c("own"), c"w"),
        fputs(2, c"never closed"),
        fputs(1, c"nor this"),
    ]]);
    drop(harness);
    let rounds = crate::suite::printing::rounds_with(5, 1);
    crate::suite::printing::check_some(&scratch.read("shared"), 300, Letters::Fixed(20), rounds);
    assert_eq!(scratch.read("own"), b"never closed");
    assert_eq!(scratch.read("first"), b"nor this");
    Outcome::Passed
}

/// Launches return at once, and the host does other things meanwhile.
pub fn a_launch_runs_by_itself(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("launch");
    let mut harness = bench.open(small());
    assert!(harness.session.is_finished());
    harness.must(vec![fopen(0, &scratch.c("out"), c"w")]);
    harness.reserve(1 << 20);
    harness.prepare_chunks(50);
    harness.set_gate(0);
    let line =
        |thread: u32| Do::Fprintf(0, c"%u 0 %s\n", vec![Value::Integer(thread.into()), Value::Text(c"")]);
    let scripts = |part: u32| (0..50).map(|lane| vec![Do::Await(1), line(part * 50 + lane)]).collect();
    let started = [0, 1].map(|part| harness.start(scripts(part)));
    assert!(!harness.session.is_finished());
    assert!(harness.session.register_buffer(4096).is_err(), "kernels are running");
    harness.set_gate(1);
    while !harness.session.is_finished() {
        std::thread::sleep(Duration::from_millis(1));
    }
    harness.synchronize().unwrap();
    for started in started {
        assert!(harness.answers(started).iter().flatten().all(|answer| answer.result().is_ok()));
    }
    check_records(&scratch.read("out"), 100, 1, Letters::Fixed(0));
    harness.session.register_buffer(4096).unwrap();
    Outcome::Passed
}

/// What could be written is written each time.
pub fn synchronize_reports_the_first_error_and_tries_again(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("again");
    let mut harness = bench.open(small());
    harness.must(vec![fopen(0, c"/dev/full", c"w"), fopen(1, &scratch.c("good"), c"w")]);
    let started = harness.start(vec![vec![fputs(0, c"bad"), fputs(1, c"good")]; 10]);
    for _ in 0..3 {
        match harness.synchronize() {
            Err(SyncError::Stream(error)) => {
                assert_eq!(
                    (error.errno, error.unwritten, error.file.as_str()),
                    (Errno::NOSPC, 30, "/dev/full")
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(scratch.read("good"), b"good".repeat(10));
    }
    assert!(harness.answers(started).iter().flatten().all(|answer| answer.result() == Ok(0)));
    Outcome::Passed
}

/// The inner program of the next case.
pub fn print_to_standard_output(bench: &Bench) {
    let mut harness = bench.open(small());
    for round in 0..3 {
        println!("program {round}");
        let printed = harness.every(40, |_| Do::Printf(c"kernel %d\n", vec![Value::Integer(round)]));
        assert!(printed.iter().all(Result::is_ok));
    }
}

/// In a pipe and in a file: in the order of the program.
pub fn kernels_and_program_share_standard_output(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("stdout");
    let file = fs::File::create(scratch.path("out")).unwrap();
    let status = bench.inner("standard_output").stdout(file).status().unwrap();
    assert!(status.success());
    let piped = bench.inner("standard_output").stderr(std::process::Stdio::inherit()).output().unwrap();
    assert!(piped.status.success());
    for text in [scratch.read("out"), piped.stdout] {
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for round in 0..3 {
            let program = text.find(&format!("program {round}\n")).expect("the program's line");
            let kernel = format!("kernel {round}");
            assert_eq!(lines.iter().filter(|line| **line == kernel).count(), 40, "{text}");
            assert!(program < text.find(&kernel).unwrap(), "{text}");
        }
    }
    Outcome::Passed
}

/// Nobody flushes or closes.
pub fn unflushed_output_of_an_early_return(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("early");
    let mut harness = bench.open(small());
    harness
        .must(vec![fopen(0, &scratch.c("out"), c"w"), Do::Fprintf(0, c"%s", vec![Value::Text(c"and gone")])]);
    assert_eq!(scratch.read("out"), b"and gone");
    Outcome::Passed
}

/// Three in one process, on threads of their own.
pub fn several_sessions(bench: &Bench) -> Outcome {
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut harness = bench.open(small().idle(Duration::from_millis(2)));
                printing(10).run(&mut harness, "sessions");
                assert_works(&mut harness);
            });
        }
    });
    Outcome::Passed
}
