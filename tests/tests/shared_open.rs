//! The shared open: one stream for all threads that open a path in a mode, from the first open to the last close.

use std::ffi::CString;
use std::fs;
use std::time::Duration;

use gpufs_core::shared::{Left, State, Table};
use gpufs_core::word::DeviceWord;
use gpufs_device::{Errno, Fs, fprintf, warp};
use gpufs_host::ring::Mode;
use gpufs_host::{Builder, CpuOptions, Grid, Schedule, Session};
use gpufs_tests::{MODES, Scratch, each, once, skip, small, tables};

fn session() -> Builder {
    Session::builder().mode(Mode::Enter).deadline(gpufs_tests::patience())
}

/// Streams and files that are free.
fn free(session: &Session) -> (u32, u32, u32) {
    let tables = tables(session);
    (tables.streams_free.free(), tables.files_free.free(), tables.stream_buffers.free.free())
}

/// Every thread opens, prints and closes `rounds` times: one of three shared streams, two of which are of one mode in other letters, or, some of
/// them, a plain one. Every line is there once.
fn storm(session: &mut Session, grid: Grid, rounds: u32, plain: bool) {
    let scratch = Scratch::new("shared-storm");
    let names = [scratch.c("even"), scratch.c("odd"), scratch.c("both")];
    let threads = u64::from(grid.blocks) * u64::from(grid.threads);
    // Some open a file of their own, by the other call.
    let is_plain = |thread: u64| plain && thread.is_multiple_of(1600);
    let own: Vec<CString> =
        (0..threads).step_by(1600).map(|thread| scratch.c(&format!("own{thread}"))).collect();
    let before = free(session);
    session
        .run(grid, |fs| {
            let thread = warp::global_thread();
            for round in 0..rounds {
                let kind = (thread + u64::from(round)) % 5;
                let file = match kind {
                    _ if is_plain(thread) => fs.fopen(&own[thread as usize / 1600], c"a"),
                    0 | 1 => fs.fopen_shared(&names[0], c"a"),
                    2 => fs.fopen_shared(&names[0], c"ab"),
                    3 => fs.fopen_shared(&names[1], c"a"),
                    _ => fs.fopen_shared(&names[2], c"a+"),
                };
                let file = file.unwrap();
                fprintf!(file, c"thread %lu round %u\n", thread, round).unwrap();
                file.fclose().unwrap();
            }
        })
        .unwrap();
    let mut lines: Vec<String> = fs::read_dir(scratch.dir())
        .unwrap()
        .flat_map(|entry| {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let mut wanted: Vec<String> = (0..threads)
        .flat_map(|thread| (0..rounds).map(move |round| format!("thread {thread} round {round}")))
        .collect();
    lines.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(lines.len(), wanted.len());
    assert!(lines == wanted);
    assert_eq!(free(session), before, "everything was closed");
}

#[test]
fn a_grid_opens_prints_and_closes() {
    let mut session = session().cpu().unwrap();
    storm(&mut session, Grid { blocks: 132, threads: 256 }, 3, true);
}

#[test]
fn at_each_width_and_in_each_mode() {
    for width in [1, 32, 64] {
        for mode in MODES {
            let options = CpuOptions { width, ..CpuOptions::default() };
            match small().mode(mode).cpu_with(options) {
                Ok(mut session) => storm(&mut session, Grid { blocks: 3, threads: 200 }, 2, false),
                Err(error) => skip("at_each_width_and_in_each_mode", error),
            }
        }
    }
}

#[test]
fn under_many_schedules() {
    for seed in 0..40 {
        let options = CpuOptions {
            width: [1, 32, 64][seed as usize % 3],
            schedule: Schedule::Seeded(seed),
            ..CpuOptions::default()
        };
        let mut session = small().mode(Mode::Enter).cpu_with(options).unwrap();
        storm(&mut session, Grid { blocks: 2, threads: 48 }, 2, false);
    }
}

/// Threads that come and go with `"w"` and its kin do not undo each other's output; the next kernels begin anew.
#[test]
fn a_file_is_emptied_once_for_all_that_come_and_go() {
    let scratch = Scratch::new("shared-emptied");
    let many: Vec<CString> = (0..20).map(|index| scratch.c(&format!("many{index}"))).collect();
    for mode in [c"w", c"w+", c"wb", c"wx"] {
        // Few warps at a time, one after the other: each time the last of them closes.
        let options = CpuOptions { threads: 1, resident_warps: 1, ..CpuOptions::default() };
        let mut session = small().mode(Mode::Enter).cpu_with(options).unwrap();
        let before = free(&session);
        let name = scratch.c("log");
        for launch in 0..2 {
            if mode == c"wx" {
                let _ = fs::remove_file(scratch.path("log"));
            }
            session
                .run(Grid { blocks: 100, threads: 32 }, |fs| {
                    let thread = warp::global_thread();
                    for round in 0..3 {
                        let file = fs.fopen_shared(&name, mode).unwrap();
                        fprintf!(file, c"launch %d thread %lu round %d\n", launch, thread, round).unwrap();
                        file.fclose().unwrap();
                    }
                    // Others want entries, too, but not all of them.
                    let other = &many[thread as usize % many.len()];
                    let file = fs.fopen_shared(other, c"w").unwrap();
                    fprintf!(file, c"launch %d thread %lu\n", launch, thread).unwrap();
                    file.fclose().unwrap();
                })
                .unwrap();
            let text = String::from_utf8(scratch.read("log")).unwrap();
            let mut lines: Vec<_> = text.lines().collect();
            lines.sort_unstable();
            lines.dedup();
            assert_eq!((lines.len(), text.lines().count()), (9600, 9600), "{mode:?}, launch {launch}");
            assert!(lines.iter().all(|line| line.starts_with(&format!("launch {launch} "))), "{mode:?}");
            let others = (0..many.len()).map(|index| scratch.read(&format!("many{index}")));
            let lines: usize = others.map(|text| text.iter().filter(|byte| **byte == b'\n').count()).sum();
            assert_eq!(lines, 3200, "{mode:?}, launch {launch}");
        }
        assert_eq!(free(&session), before, "everything was closed");
    }
}

/// All that open get one stream, which is open until the last has closed; the next open is of another.
#[test]
fn one_stream_for_all_and_the_last_close_closes() {
    let scratch = Scratch::new("shared-one");
    let name = scratch.c("log");
    let mut session = session().cpu().unwrap();
    let before = free(&session);
    let handles = each(&mut session, 1000, |fs, _| fs.fopen_shared(&name, c"w").unwrap().to_handle());
    assert!(handles.iter().all(|handle| *handle == handles[0]));
    let (streams, files, _) = free(&session);
    assert_eq!((before.0 - streams, before.1 - files), (1, 1), "one stream and one descriptor");
    // It stays open from kernel to kernel. The same mode in other letters, and other modes.
    let (same, other, plain) = once(&mut session, |fs| {
        (
            fs.fopen_shared(&name, c"wb").unwrap(),
            fs.fopen_shared(&name, c"w+").unwrap(),
            fs.fopen(&name, c"a").unwrap(),
        )
    });
    assert_eq!(same.to_handle(), handles[0]);
    assert_ne!(other.to_handle(), handles[0]);
    assert_eq!(free(&session).0, streams - 2);
    once(&mut session, |_| {
        assert_eq!((other.fclose(), plain.fclose()), (Ok(()), Ok(())));
        assert_eq!(other.fclose(), Err(Errno::BADF));
    });
    // 1,001 opens, 1,005 closes at once.
    let closes = each(&mut session, 1005, |_, thread| {
        let printed = thread < 1000 && fprintf!(same, c"%lu\n", thread).is_ok();
        (printed, same.fclose())
    });
    assert_eq!(closes.iter().filter(|(_, closed)| closed.is_ok()).count(), 1001);
    assert_eq!(closes.iter().filter(|(_, closed)| *closed == Err(Errno::BADF)).count(), 4);
    assert_eq!(free(&session), before);
    assert_eq!(once(&mut session, |_| fprintf!(same, c"late\n")), Err(Errno::BADF));
    let printed = closes.iter().filter(|(printed, _)| *printed).count();
    assert_eq!(fs::read_to_string(scratch.path("log")).unwrap().lines().count(), printed);
    // "w" truncates for the first of those who come next.
    once(&mut session, |fs| {
        let file = fs.fopen_shared(&name, c"w").unwrap();
        assert_ne!(file.to_handle(), handles[0]);
        file.fclose().unwrap();
    });
    assert_eq!(scratch.read("log"), b"");
}

/// However many others come and go that empty nothing.
#[test]
fn a_file_that_was_emptied_is_remembered() {
    let scratch = Scratch::new("shared-remembered");
    let others: Vec<CString> = (0..300).map(|index| scratch.c(&format!("other{index}"))).collect();
    let (name, mut session) = (scratch.c("log"), small().cpu().unwrap());
    once(&mut session, |fs| {
        let write = |name, mode| {
            let file = fs.fopen_shared(name, mode).unwrap();
            file.fputs(c"text\n").unwrap();
            file.fclose().unwrap();
        };
        write(&name, c"w");
        others.iter().for_each(|other| write(other, c"a"));
        write(&name, c"w");
    });
    assert_eq!(scratch.read("log"), b"text\ntext\n");
}

/// While somebody keeps it open, `"w"` truncates once.
#[test]
fn who_finds_it_open_does_not_truncate() {
    let scratch = Scratch::new("shared-kept");
    let name = scratch.c("log");
    let mut session = session().cpu().unwrap();
    let kept = once(&mut session, |fs| fs.fopen_shared(&name, c"w").unwrap());
    each(&mut session, 5000, |fs, thread| {
        let file = fs.fopen_shared(&name, c"w").unwrap();
        fprintf!(file, c"thread %lu\n", thread).unwrap();
        file.fclose().unwrap();
    });
    once(&mut session, |_| kept.fclose().unwrap());
    assert_eq!(fs::read_to_string(scratch.path("log")).unwrap().lines().count(), 5000);
}

/// An open that fails gives its error to all that waited; the next tries again. The system is asked once for many.
#[test]
fn an_open_that_fails_fails_for_all() {
    let scratch = Scratch::new("shared-failed");
    let name = scratch.c("missing/log");
    let mut session = session().cpu().unwrap();
    let before = free(&session);
    let operations = |session: &Session| -> u64 {
        tables(session).queues().iter().map(|queue| u64::from(queue.progress().tickets)).sum()
    };
    let asked = operations(&session);
    session
        .run(Grid { blocks: 132, threads: 256 }, |fs| {
            assert_eq!(fs.fopen_shared(&name, c"w").err(), Some(Errno::NOENT));
        })
        .unwrap();
    // Once for a wave; never more than for each warp.
    assert!(operations(&session) - asked <= 132 * 8, "{}", operations(&session) - asked);
    assert_eq!(free(&session), before);
    fs::create_dir(scratch.path("missing")).unwrap();
    once(&mut session, |fs| fs.fopen_shared(&name, c"w").unwrap().fclose().unwrap());
    // What is refused before the system is asked.
    let long = CString::new("x".repeat(4096)).unwrap();
    let longest = CString::new(format!("{}x", "./".repeat(2047))).unwrap();
    assert_eq!(longest.as_bytes().len(), 4095);
    each(&mut session, 40, |fs, thread| match thread % 4 {
        0 => assert_eq!(fs.fopen_shared(&long, c"w").err(), Some(Errno::NAMETOOLONG)),
        1 => assert_eq!(fs.fopen_shared(&name, c"q").err(), Some(Errno::INVAL)),
        2 => assert_eq!(fs.fopen_shared(c"", c"r").err(), Some(Errno::NOENT)),
        // `open(2)` is the judge; nothing is cut off.
        _ => assert_eq!(fs.fopen_shared(&longest, c"r").err(), Some(Errno::NOENT)),
    });
    assert_eq!(free(&session), before);
}

/// Paths that differ in one byte, in any place, are different.
#[test]
fn every_byte_of_a_path_counts() {
    let scratch = Scratch::new("shared-paths");
    let names: Vec<CString> =
        (0..29).map(|number| scratch.c(&format!("{}{number:02}", "n".repeat(number)))).collect();
    let mut session = small().mode(Mode::Enter).cpu().unwrap();
    let files: Vec<u64> = each(&mut session, 290, |fs, thread| {
        let file = fs.fopen_shared(&names[thread as usize % 29], c"w").unwrap();
        fprintf!(file, c"%lu\n", thread % 29).unwrap();
        file.to_handle()
    });
    assert_eq!(files.iter().collect::<std::collections::BTreeSet<_>>().len(), 29);
    // As many streams as there are.
    assert_eq!(once(&mut session, |fs| fs.fopen_shared(c"/dev/null", c"w").err()), Some(Errno::MFILE));
    drop(session);
    for number in 0..29 {
        let text = fs::read_to_string(scratch.path(&format!("{}{number:02}", "n".repeat(number)))).unwrap();
        assert_eq!(text, format!("{number}\n").repeat(10));
    }
}

/// Whole warps look at every entry: each path that they open gets one stream, which the next find.
#[test]
fn whole_warps_find_each_stream() {
    let scratch = Scratch::new("shared-warps");
    let names: Vec<CString> = (0..29).map(|number| scratch.c(&format!("file{number}"))).collect();
    let mut session = small().mode(Mode::Enter).cpu().unwrap();
    let opened: [Vec<Vec<u64>>; 2] = [(); 2].map(|()| {
        each(&mut session, 32, |fs, _| {
            names.iter().map(|name| fs.fopen_shared(name, c"w").unwrap().to_handle()).collect()
        })
    });
    let wanted = &opened[0][0];
    assert_eq!(wanted.iter().collect::<std::collections::BTreeSet<_>>().len(), 29);
    assert!(opened.iter().flatten().all(|handles| handles == wanted));
    // Whether a descriptor is closed on exec makes no other stream.
    assert_eq!(once(&mut session, |fs| fs.fopen_shared(&names[7], c"we").unwrap().to_handle()), wanted[7]);
}

/// Paths whose keys are the same, as is known of these two names, are different: where one lane empties both in turn, and where lanes open
/// them together.
#[test]
fn paths_with_one_key_are_two() {
    let names = [c"8yn0iYCKYHlIj4-BwPqk", c"GReLUrM4wMqfg9yzV3KQ"];
    let [one, other] = names.map(|name| Table::key_of(name.to_bytes(), 0));
    assert_eq!(one, other);
    let scratch = Scratch::new("shared-keys");
    // The key is of the path as it is written: no directory goes before the names. The other tests name whole paths.
    let before = std::env::current_dir().unwrap();
    std::env::set_current_dir(scratch.dir()).unwrap();
    let write = |fs: Fs, name| -> Result<(), Errno> {
        let file = fs.fopen_shared(name, c"w")?;
        file.fputs(name)?;
        file.fclose()
    };
    let holds = |times| {
        for name in names {
            let text = scratch.read(name.to_str().unwrap());
            assert!(text == name.to_bytes().repeat(times), "{name:?}: {} bytes", text.len());
        }
    };
    for schedule in (0..10).map(Schedule::Seeded).chain([Schedule::Fast]) {
        let options = CpuOptions { schedule, ..CpuOptions::default() };
        let builder = small().mode(Mode::Enter).deadline(Duration::from_secs(20));
        let mut session = builder.cpu_with(options).unwrap();
        let in_turn = once(&mut session, |fs| [0, 1, 0, 1].map(|name| write(fs, names[name])));
        assert_eq!(in_turn, [Ok(()); 4]);
        holds(2);
        let together = each(&mut session, 32, |fs, lane| write(fs, names[lane as usize % 2]));
        assert_eq!(together, [Ok(()); 32]);
        holds(16);
    }
    std::env::set_current_dir(before).unwrap();
}

/// A path that is too long takes no entry: none that remembers is needed for it.
#[test]
fn a_path_that_is_too_long_makes_nothing_forgotten() {
    let scratch = Scratch::new("shared-long");
    let long = CString::new("x".repeat(4096)).unwrap();
    let mut session = small().mode(Mode::Enter).cpu().unwrap();
    let count = tables(&session).shared.count;
    let names: Vec<CString> = (0..count).map(|number| scratch.c(&format!("file{number}"))).collect();
    once(&mut session, |fs| {
        let write = |name: &CString| {
            let file = fs.fopen_shared(name, c"w").unwrap();
            file.fputs(c"text\n").unwrap();
            file.fclose().unwrap();
        };
        names.iter().for_each(write);
        assert_eq!(fs.fopen_shared(&long, c"w").err(), Some(Errno::NAMETOOLONG));
        names.iter().for_each(write);
    });
    for number in 0..count {
        assert_eq!(scratch.read(&format!("file{number}")), b"text\ntext\n", "{number}");
    }
}

/// A stream that is open as often as its word can count is opened no more, until somebody closes it.
#[test]
fn a_stream_is_opened_so_often_at_most() {
    const MOST: u32 = (1 << 29) - 2;
    let scratch = Scratch::new("shared-often");
    let name = scratch.c("log");
    let mut session = small().mode(Mode::Enter).deadline(Duration::from_secs(20)).cpu().unwrap();
    let file = once(&mut session, |fs| fs.fopen_shared(&name, c"w").unwrap());
    let table = &tables(&session).shared;
    let entry = table.entries().iter().find(|entry| entry.seen().state() == State::Open).unwrap();
    assert!(entry.join(entry.seen(), MOST - 2));
    once(&mut session, |fs| {
        assert_eq!(fs.fopen_shared(&name, c"w").map(|same| same.to_handle()), Ok(file.to_handle()));
        assert_eq!(fs.fopen_shared(&name, c"w").err(), Some(Errno::MFILE));
        file.fclose().unwrap();
        assert_eq!(fs.fopen_shared(&name, c"w").map(|same| same.to_handle()), Ok(file.to_handle()));
    });
    assert_eq!(entry.leave(entry.seen().epoch(), MOST - 1), Left::Others);
    once(&mut session, |_| assert_eq!((file.fclose(), file.fclose()), (Ok(()), Err(Errno::BADF))));
}

/// Lanes that panic with the stream open, or while others open it, leave it to the others and to the next kernel.
#[test]
fn lanes_that_panic_hold_nobody_up() {
    let scratch = Scratch::new("shared-panic");
    let name = scratch.c("log");
    let mut session = small().mode(Mode::Enter).cpu().unwrap();
    for round in 0..5 {
        let opened = DeviceWord::new(0);
        let outcome = session.run(Grid { blocks: 1, threads: 96 }, |fs| {
            let thread = warp::global_thread();
            assert!(thread % 17 != round, "before it opens");
            let file = fs.fopen_shared(&name, c"a").unwrap();
            opened.fetch_add_relaxed(1);
            fprintf!(file, c"round %lu\n", round).unwrap();
            assert!(thread % 13 != round, "before it closes");
            file.fclose().unwrap();
        });
        assert!(outcome.is_err());
        each(&mut session, 64, |fs, _| {
            let file = fs.fopen_shared(&name, c"a").unwrap();
            fprintf!(file, c"after\n").unwrap();
            file.fclose().unwrap();
        });
    }
    drop(session);
    let text = fs::read_to_string(scratch.path("log")).unwrap();
    assert_eq!(text.lines().filter(|line| *line == "after").count(), 5 * 64);
}

/// A handle that outlives its session names nothing, and opens nothing.
#[test]
fn a_closed_session_opens_nothing() {
    let scratch = Scratch::new("shared-closed");
    let name = scratch.c("log");
    let mut session = small().mode(Mode::Enter).cpu().unwrap();
    let (fs_late, file) = once(&mut session, |fs| (fs, fs.fopen_shared(&name, c"w").unwrap()));
    drop(session);
    assert_eq!(fs_late.fopen_shared(&name, c"w").err(), Some(Errno::BADF));
    assert_eq!((file.fwrite(b"late"), file.fclose()), (Err(Errno::BADF), Err(Errno::BADF)));
    // Nor of the next session, which may have its tables.
    let mut next = small().mode(Mode::Enter).cpu().unwrap();
    assert_eq!(once(&mut next, |_| file.fclose()), Err(Errno::BADF));
}
