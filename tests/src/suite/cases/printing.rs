//! Many lanes print to one stream: every record is whole, none is missing or doubled, and each lane's are in order.

use std::ffi::{CStr, CString};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::time::Duration;

use gpufs_core::word::DeviceWord64;
use gpufs_device::Errno;
use gpufs_device::stdio::Buffering;
use gpufs_host::ring::Mode;
use gpufs_host::{CpuOptions, Grid, Schedule, Session};
use gpufs_test_kernels::{Call, Letters};

use crate::suite::harness::{Do, Harness, Value, fopen};
use crate::suite::printing::{Printing, check_records, check_some, rounds_with, start, threads};
use crate::suite::{Bench, Outcome};
use crate::{Scratch, lanes, setting, skip, small};

fn many(bench: &Bench) -> Printing<'static> {
    Printing {
        grid: Grid { blocks: bench.sized(40, 4), threads: 250 },
        rounds: 100,
        mode: c"w",
        buffer: None,
        call: Call::Fprintf,
        letters: Letters::Short,
    }
}

fn width(width: u32) -> CpuOptions {
    CpuOptions { width, ..CpuOptions::default() }
}

/// On CPU lanes 10,000 of them.
pub fn ten_thousand_lanes(bench: &Bench) -> Outcome {
    let mut harness = bench.open(Session::builder());
    many(bench).run(&mut harness, "ten-thousand");
    println!("{:?}", harness.session.statistics());
    Outcome::Passed
}

/// In warps of 64.
pub fn ten_thousand_lanes_in_wide_warps(bench: &Bench) -> Outcome {
    many(bench).run(&mut bench.with(width(64)).open(Session::builder().assembly(1 << 20)), "wide");
    Outcome::Passed
}

/// In warps of one.
pub fn ten_thousand_lanes_in_warps_of_one(bench: &Bench) -> Outcome {
    many(bench).run(&mut bench.with(width(1)).open(Session::builder()), "narrow");
    Outcome::Passed
}

/// With blocks of 4 KiB, few and many.
pub fn ten_thousand_lanes_through_small_blocks(bench: &Bench) -> Outcome {
    for blocks in [1, 2, 4, 8] {
        let mut harness = bench.open(small().blocks_per_stream(blocks));
        Printing { rounds: 5, call: Call::Mixed, ..many(bench) }.run(&mut harness, "small-blocks");
    }
    Outcome::Passed
}

/// With blocks shorter than a warp's records.
pub fn tiny_blocks(bench: &Bench) -> Outcome {
    for (blocks, assembly) in [(1, 0), (1, 8192), (2, 8192), (4, 0), (8, 65_536)] {
        let mut harness = bench.open(small().blocks_per_stream(blocks).assembly(assembly));
        for bytes in [16, 64, 256] {
            let buffer = Some((Buffering::Full, bytes));
            let grid = Grid { blocks: 3, threads: 200 };
            let printing = Printing { grid, rounds: 3, buffer, call: Call::Mixed, ..many(bench) };
            printing.run(&mut harness, "tiny");
        }
    }
    Outcome::Passed
}

/// `_IOLBF` and `_IONBF`.
pub fn line_buffered_and_unbuffered(bench: &Bench) -> Outcome {
    let mut harness = bench.open(small());
    let grid = Grid { blocks: 2, threads: 100 };
    for buffering in [Buffering::Line, Buffering::None] {
        for bytes in [0, 64] {
            let buffer = Some((buffering, bytes));
            let printing = Printing { grid, rounds: 5, buffer, call: Call::Mixed, ..many(bench) };
            printing.run(&mut harness, "unbuffered");
        }
    }
    Outcome::Passed
}

/// A warp's records together, and in the second round each alone, are longer than all four blocks of 4,096 or 256 bytes.
pub fn records_longer_than_blocks(bench: &Bench) -> Outcome {
    for assembly in [0, 64 << 10] {
        let mut harness = bench.open(small().assembly(assembly));
        let grid = Grid { blocks: 2, threads: 40 };
        for buffer in
            [None, Some((Buffering::Full, 256)), Some((Buffering::Line, 0)), Some((Buffering::None, 256))]
        {
            for call in [Call::Mixed, Call::Fwrite] {
                let printing =
                    Printing { grid, rounds: 3, buffer, call, letters: Letters::Long, ..many(bench) };
                printing.run(&mut harness, "long");
            }
        }
    }
    Outcome::Passed
}

/// To the end of a file that holds something.
pub fn append_mode(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("append");
    let name = scratch.c("log");
    let mut harness = bench.open(small());
    let grid = Grid { blocks: 4, threads: 60 };
    for (buffer, rounds) in [(None, 20), (Some((Buffering::Full, 64)), 3)] {
        std::fs::write(scratch.path("log"), "before\n").unwrap();
        Printing { grid, rounds, mode: c"a", buffer, ..many(bench) }.run_to(&mut harness, &name);
        check_records(scratch.read("log").strip_prefix(b"before\n").unwrap(), 240, rounds, Letters::Short);
    }
    Outcome::Passed
}

/// To a pipe that a thread of the host reads.
pub fn to_a_pipe(bench: &Bench) -> Outcome {
    let mut harness = bench.open(small());
    for (buffer, rounds) in [(None, 10), (Some((Buffering::Full, 128)), 2), (Some((Buffering::None, 0)), 2)] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let name = format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd());
        let name = CString::new(name).unwrap();
        let read = std::thread::spawn(move || {
            let mut text = Vec::new();
            reader.read_to_end(&mut text).map(|_| text)
        });
        let grid = Grid { blocks: 10, threads: 100 };
        Printing { grid, rounds, buffer, call: Call::Mixed, ..many(bench) }.run_to(&mut harness, &name);
        drop(writer);
        check_records(&read.join().unwrap().unwrap(), 1000, rounds, Letters::Short);
    }
    Outcome::Passed
}

/// `fputc` between other calls.
pub fn single_bytes_among_records(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("bytes");
    let mut harness = bench.open(small());
    harness.must(vec![fopen(0, &scratch.c("out"), c"w")]);
    let printing = Printing { grid: Grid { blocks: 4, threads: 100 }, rounds: 20, ..many(bench) };
    let job = gpufs_test_kernels::Job { dots: 3, ..printing.job() };
    let report = start(&mut harness, printing.grid, Call::Mixed, job);
    harness.synchronize().unwrap();
    harness.check(&report);
    let text = scratch.read("out");
    let dots =
        (0..400_u64).map(|thread| (0..20).filter(|round| (thread + round) % 3 == 0).count()).sum::<usize>();
    assert_eq!(text.iter().filter(|&&byte| byte == b'.').count(), dots);
    let records: Vec<u8> = text.into_iter().filter(|&byte| byte != b'.').collect();
    check_records(&records, 400, 20, Letters::Short);
    Outcome::Passed
}

/// One small run whose every choice comes from `seed`.
fn seeded(bench: &Bench, seed: u64) {
    let blocks = 1 << (seed % 4);
    let width = [32, 64, 4, 32][usize::try_from(seed / 4 % 4).unwrap()];
    let buffer = match seed / 16 % 8 {
        0 => None,
        1 => Some((Buffering::Line, 64)),
        2 => Some((Buffering::None, 64)),
        shift => Some((Buffering::Full, 16 << (shift - 3))),
    };
    // A spinning SQPOLL thread for each of several sessions would leave the lanes no core.
    let service =
        [Mode::Enter, Mode::Enter, Mode::Threads, Mode::Sqpoll][usize::try_from(seed / 256 % 4).unwrap()];
    let mode = if (seed / 128).is_multiple_of(2) { c"w" } else { c"a" };
    let options = CpuOptions { width, schedule: Schedule::Seeded(seed), ..CpuOptions::default() };
    let idle = Duration::from_millis(1);
    let builder = small().blocks_per_stream(blocks).buffers(256 << 10).streams(8).mode(service).idle(idle);
    let mut harness = match bench.with(options).try_open(builder) {
        Ok(harness) => harness,
        Err(refused) => return skip("under_many_schedules", format!("seed {seed}: {refused}")),
    };
    let grid = Grid { blocks: 1, threads: 96 };
    let printing = Printing { grid, rounds: 2, mode, buffer, call: Call::Mixed, letters: Letters::Short };
    printing.run(&mut harness, "seeded");
}

/// `GPUFS_SEEDS` seeds from `GPUFS_FIRST_SEED` on.
pub fn under_many_schedules(bench: &Bench) -> Outcome {
    let (first, count) = (setting("GPUFS_FIRST_SEED", 0), setting("GPUFS_SEEDS", 1000));
    let next = DeviceWord64::new(first);
    let worker = || {
        loop {
            let seed = next.fetch_add_relaxed(1);
            if seed >= first + count {
                return;
            }
            let run = std::panic::AssertUnwindSafe(|| seeded(bench, seed));
            if let Err(payload) = std::panic::catch_unwind(run) {
                println!("seed {seed} failed: repeat with GPUFS_FIRST_SEED={seed} GPUFS_SEEDS=1");
                std::panic::resume_unwind(payload);
            }
        }
    };
    // The lanes mostly wait.
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..3).map(|_| scope.spawn(worker)).collect();
        worker();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
    Outcome::Passed
}

/// Threads take turns in an order of their own, each printing only after the one before has returned.
fn in_turn(mut harness: Harness, buffer: Option<(Buffering, usize)>, threads: u32) {
    let scratch = Scratch::new("in-turn");
    let mut calls = vec![fopen(0, &scratch.c("out"), c"w")];
    calls.extend(buffer.map(|(buffering, bytes)| Do::Setvbuf(0, buffering, bytes)));
    harness.must(calls);
    let rounds = 2;
    // 37 has no divisor in common with the number of threads, so this is a permutation of them.
    let turn = |thread: u32, round: u32| round * threads + (thread * 37 + round * 11) % threads;
    let calls = |turn: u32| {
        [
            Do::AwaitTurn(turn),
            Do::Fprintf(0, c"turn %u\n", vec![Value::Integer(turn.into())]),
            Do::PassTurn(turn + 1),
        ]
    };
    let script = |thread| (0..rounds).flat_map(|round| calls(turn(thread, round))).collect();
    let grid = Grid { blocks: 3, threads: threads / 3 };
    let started = harness.start_in(grid, (0..threads).map(script).collect());
    harness.synchronize().unwrap();
    assert!(harness.answers(started).iter().flatten().all(|answer| answer.result().is_ok()));
    let wanted: String = (0..rounds * threads).map(|turn| format!("turn {turn}\n")).collect();
    assert!(scratch.read("out") == wanted.as_bytes(), "out of order");
}

/// Where a call starts after another returned, its bytes come later.
pub fn a_call_that_starts_later_comes_later(bench: &Bench) -> Outcome {
    for buffer in [None, Some((Buffering::Full, 64)), Some((Buffering::None, 0))] {
        in_turn(bench.open(small()), buffer, bench.sized(120, 4));
        if bench.is_gpu() {
            in_turn(bench.open(small().rings(3)), buffer, 30);
            continue;
        }
        in_turn(bench.with(width(1)).open(small().rings(3)), buffer, 30);
        for seed in 0..2 {
            let options = CpuOptions { schedule: Schedule::Seeded(seed), ..CpuOptions::default() };
            in_turn(bench.with(options).open(small()), buffer, 30);
        }
    }
    Outcome::Passed
}

/// Blocks of a serial stream go out one after the other, each through the ring of the warp that filled it; who flushes them drains
/// the ring that the first is on.
pub fn a_serial_stream_over_several_rings(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("serial");
    for round in 0..10 {
        let mut harness = bench.open(small().rings(2));
        let grid = Grid { blocks: 4, threads: 64 };
        let printing = Printing { grid, rounds: 8, mode: c"a", call: Call::Fwrite, ..many(bench) };
        let name = format!("out{round}");
        printing.run_to(&mut harness, &scratch.c(&name));
        check_records(&scratch.read(&name), 256, 8, Letters::Short);
        printing.run_to(&mut harness, c"/dev/null");
    }
    Outcome::Passed
}

/// Four kernels at once print to seven streams each, served by three rings; then one whose lanes each print to another stream.
pub fn several_streams_rings_and_launches(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("several");
    let mut harness = bench.open(small().rings(3));
    let name = |lane: u32| format!("out{lane}");
    harness
        .each(
            (0..7)
                .map(|lane| {
                    let mut calls = vec![fopen(lane, &scratch.c(&name(lane)), c"w")];
                    if lane > 3 {
                        calls.push(Do::Setvbuf(lane, Buffering::Full, 16 << lane));
                    }
                    calls
                })
                .collect(),
        )
        .iter()
        .flatten()
        .for_each(|answer| assert_eq!(answer.result(), Ok(0)));
    // Each with a quarter of the threads of the records.
    let grid = Grid { blocks: 5, threads: 50 };
    let printing = Printing { grid, rounds: 10, ..many(bench) };
    let job = gpufs_test_kernels::Job { stream_count: 7, ..printing.job() };
    let reports: Vec<_> = (0..4)
        .map(|part| {
            let job = gpufs_test_kernels::Job { first_thread: part * 250, ..job };
            start(&mut harness, grid, Call::Mixed, job)
        })
        .collect();
    harness.synchronize().unwrap();
    for report in &reports {
        harness.check(report);
    }
    for lane in 0..7 {
        check_records(&scratch.read(&name(lane)), 1000, 10, Letters::Short);
    }
    // Lanes of one warp that each print to another stream, in one call.
    let report = start(
        &mut harness,
        lanes(224),
        Call::Fprintf,
        gpufs_test_kernels::Job { apart: 1, rounds: 1, first_thread: 1000 - 1000 % 7, ..job },
    );
    harness.synchronize().unwrap();
    harness.check(&report);
    for lane in 0..7_u64 {
        let text = String::from_utf8(scratch.read(&name(lane as u32))).unwrap();
        let all: Vec<u64> =
            text.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
        let (_, last) = all.split_at(10_000);
        assert_eq!(last.len(), 32);
        assert!(last.iter().all(|thread| thread % 7 == lane && (994..994 + 224).contains(thread)));
    }
    let statistics = harness.session.statistics();
    assert_eq!(statistics.total().stale, 0);
    assert!(statistics.rings.iter().all(|ring| ring.operations > 0), "{statistics:?}");
    Outcome::Passed
}

/// Lanes of one warp that call on different streams, that begin never, or that return early.
pub fn lanes_that_part(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("part");
    let mut harness = bench.open(small().rings(2));
    let name = |lane: u32| format!("out{lane}");
    harness
        .every(5, |lane| fopen(lane, &scratch.c(&name(lane)), c"w"))
        .iter()
        .for_each(|opened| assert!(opened.is_ok()));
    let grid = Grid { blocks: bench.sized(6, 8), threads: 100 };
    for (call, truant) in [(Call::Fprintf, 3), (Call::Fwrite, 7), (Call::Mixed, 4)] {
        let printing = Printing { grid, rounds: 10, ..many(bench) };
        let job = gpufs_test_kernels::Job { stream_count: 5, apart: 1, truant, ..printing.job() };
        let report = start(&mut harness, grid, call, job);
        harness.synchronize().unwrap();
        harness.check(&report);
        let rounds = rounds_with(truant, 10);
        for lane in 0..5_u64 {
            let wanted = |thread: u64| if thread % 5 == lane { rounds(thread) } else { 0 };
            check_some(&scratch.read(&name(lane as u32)), threads(grid), Letters::Short, wanted);
        }
        harness.every(5, |lane| Do::Fseek(lane, 0, gpufs_device::stdio::Whence::Set));
        (0..5).for_each(|lane| std::fs::write(scratch.path(&name(lane)), "").unwrap());
    }
    Outcome::Passed
}

/// Threads open, use and close files of their own while all print to one.
pub fn opening_and_closing_while_others_print(bench: &Bench) -> Outcome {
    let scratch = Scratch::new("opening");
    let mut harness = bench.open(small().rings(2));
    harness.must(vec![fopen(0, &scratch.c("shared"), c"w")]);
    let rounds = 10;
    let line = |thread: u32, round: u32| {
        let letters = Letters::Short.of(thread.into(), round);
        let texts = TEXTS[usize::from(Letters::letter(thread.into(), round) - b'a')];
        let values = [i64::from(thread), i64::from(round), letters.cast_signed()].map(Value::Integer);
        Do::Fprintf(0, c"%u %u %.*s\n", values.into_iter().chain([Value::Text(texts)]).collect())
    };
    // Few at a time: the session has 28 streams left, and an opener that finds none goes without.
    let own = |thread: u32| {
        let on = thread + 1;
        vec![
            fopen(on, &scratch.c(&format!("own-{thread}")), c"w+"),
            Do::Fprintf(on, c"mine %u\n", vec![Value::Integer(thread.into())]),
            Do::Rewind(on),
            Do::Fgets(on, 32),
            Do::Fclose(on),
        ]
    };
    let script = |thread: u32| {
        let mut calls = Vec::new();
        for round in 0..rounds {
            calls.push(line(thread, round));
            if thread % 16 == round {
                calls.extend(own(thread));
            }
        }
        calls
    };
    let started = harness.start_in(Grid { blocks: 6, threads: 64 }, (0..384).map(script).collect());
    harness.synchronize().unwrap();
    let mut opened = 0;
    for (thread, answers) in harness.answers(started).into_iter().enumerate() {
        let mine = thread % 16;
        if mine >= rounds as usize {
            assert!(answers.iter().all(|answer| answer.result().is_ok()), "thread {thread}: {answers:?}");
            continue;
        }
        let (before, rest) = answers.split_at(mine + 1);
        let (own, after) = rest.split_at(5);
        assert!(
            before.iter().chain(after).all(|answer| answer.result().is_ok()),
            "thread {thread}: {answers:?}"
        );
        match own[0].result() {
            Ok(_) => {
                assert!(own.iter().all(|answer| answer.result().is_ok()), "thread {thread}: {own:?}");
                let line = format!("mine {thread}\n\0");
                assert_eq!(own[3].bytes[..line.len()], *line.as_bytes());
                opened += 1;
            }
            Err(errno) => assert_eq!(errno, Errno::MFILE),
        }
    }
    check_records(&scratch.read("shared"), 384, rounds, Letters::Short);
    println!("{opened} streams were opened and closed meanwhile");
    if opened == 0 {
        return Outcome::Skipped("no stream was ever free".to_owned());
    }
    Outcome::Passed
}

/// As many of each letter as a short record has.
const TEXTS: [&CStr; 26] = [
    c"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    c"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
    c"cccccccccccccccccccccccccccccc",
    c"dddddddddddddddddddddddddddddd",
    c"eeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
    c"ffffffffffffffffffffffffffffff",
    c"gggggggggggggggggggggggggggggg",
    c"hhhhhhhhhhhhhhhhhhhhhhhhhhhhhh",
    c"iiiiiiiiiiiiiiiiiiiiiiiiiiiiii",
    c"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjj",
    c"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkk",
    c"llllllllllllllllllllllllllllll",
    c"mmmmmmmmmmmmmmmmmmmmmmmmmmmmmm",
    c"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    c"oooooooooooooooooooooooooooooo",
    c"pppppppppppppppppppppppppppppp",
    c"qqqqqqqqqqqqqqqqqqqqqqqqqqqqqq",
    c"rrrrrrrrrrrrrrrrrrrrrrrrrrrrrr",
    c"ssssssssssssssssssssssssssssss",
    c"tttttttttttttttttttttttttttttt",
    c"uuuuuuuuuuuuuuuuuuuuuuuuuuuuuu",
    c"vvvvvvvvvvvvvvvvvvvvvvvvvvvvvv",
    c"wwwwwwwwwwwwwwwwwwwwwwwwwwwwww",
    c"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    c"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
    c"zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
];
