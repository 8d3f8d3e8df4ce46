//! Traces: what kernels write, as Perfetto's own definitions read it.
//!
//! The reader is `tests/trace/read.py`, with the package `perfetto` of Python, whose definitions of the format are Perfetto's. The tests put
//! it beside the build, once. Where that cannot be, they are skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use gpufs_core::word::DeviceWord;
use gpufs_device::trace::Trace;
use gpufs_device::{Errno, Fs, warp};
use gpufs_host::{CpuOptions, Grid, Schedule, Session};
use gpufs_tests::perfetto::{Message, Read, read};
use gpufs_tests::{MODES, Scratch, each, once, skip, small};

/// A span with two values, a moment and a value of a counter of each thread; every third thread makes its moment inside of a span of its own.
fn events(fs: Fs, path: &std::ffi::CStr) -> Result<(), Errno> {
    let trace = fs.trace(path)?;
    let thread = warp::global_thread();
    let (work, third) = (trace.event("work", ["thread", "half"])?, trace.event("third", [])?);
    let moment = trace.event("moment", ["thread", "minus", "half", "flag"])?;
    let counter = trace.counter("threads")?;
    let span = work.begin((thread, thread as f64 / 2.0))?;
    if thread.is_multiple_of(3) {
        let inner = third.begin(())?;
        moment.instant((thread, -(thread as i64), thread as f64 / 2.0, true))?;
        inner.end()?;
    } else {
        moment.instant((thread, -(thread as i64), thread as f64 / 2.0, false))?;
    }
    counter.set(thread)?;
    span.end()?;
    trace.close()
}

/// What a grid of so many threads writes, each by [`events`].
fn check(read: &Read, threads: u64) {
    assert_eq!(read.errors, Vec::<String>::new());
    assert_eq!(read.count("instant", "moment"), threads);
    assert_eq!(read.sum("moment", "thread"), (threads * (threads - 1) / 2) as f64);
    assert_eq!(read.sum("moment", "minus"), -((threads * (threads - 1) / 2) as f64));
    assert_eq!(read.sum("moment", "half"), (threads * (threads - 1) / 2) as f64 / 2.0);
    assert_eq!(read.sum("moment", "flag"), threads.div_ceil(3) as f64);
    assert_eq!(read.count("counter", "threads"), threads);
    assert_eq!(read.sum("threads", "value"), (threads * (threads - 1) / 2) as f64);
    assert!(read.count("begin", "work") >= threads.div_ceil(64), "{read:?}");
    assert!(read.count("begin", "third") >= 1 && read.count("begin", "third") <= threads.div_ceil(3));
    let begun = read.count("begin", "work") + read.count("begin", "third");
    assert_eq!(read.count("end", ""), begun, "each span is ended by the lane that began it");
}

#[test]
fn ten_thousand_lanes() {
    let Some(scratch) = scratch("ten_thousand_lanes") else { return };
    let path = scratch.c("run.pftrace");
    for mode in MODES {
        let mut session = match Session::builder().mode(mode).cpu() {
            Ok(session) => session,
            Err(error) => {
                skip("ten_thousand_lanes", format_args!("{mode:?}: {error}"));
                continue;
            }
        };
        let boot = boottime();
        session.run(Grid { blocks: 40, threads: 250 }, |fs| events(fs, &path).unwrap()).unwrap();
        drop(session);
        let read = read(&scratch.path("run.pftrace")).unwrap();
        check(&read, 10_000);
        for track in ["kernels", "threads", "block 0 warp 0", "block 39 warp 7"] {
            assert!(read.tracks.iter().any(|name| name == track), "{track} of {:?}", read.tracks);
        }
        // The clocks are joined: each event was while it was.
        assert!(read.first >= boot - 1_000_000 && read.last <= boottime() + 1_000_000, "{boot} {read:?}");
    }
}

#[test]
fn lanes_that_part_at_random() {
    let Some(scratch) = scratch("lanes_that_part_at_random") else { return };
    for seed in 0..8 {
        let name = format!("{seed}.pftrace");
        let path = scratch.c(&name);
        let options = CpuOptions { schedule: Schedule::Seeded(seed), ..CpuOptions::default() };
        let mut session = small().cpu_with(options).unwrap();
        session.run(Grid { blocks: 2, threads: 70 }, |fs| events(fs, &path).unwrap()).unwrap();
        drop(session);
        check(&read(&scratch.path(&name)).unwrap(), 140);
    }
}

/// The one that writes for all is not left behind, at the begin or at the end: the next span would be another's.
#[test]
fn lanes_that_begin_and_end_spans_together_stay_together() {
    let Some(scratch) = scratch("lanes_that_begin_and_end_spans_together_stay_together") else { return };
    let path = scratch.c("run.pftrace");
    let mut session = small().cpu().unwrap();
    let grid = Grid { blocks: 3, threads: 64 };
    session
        .run(grid, |fs| {
            let trace = fs.trace(&path).unwrap();
            let (outer, inner) = (trace.event("outer", []).unwrap(), trace.event("inner", []).unwrap());
            for _ in 0..40 {
                let span = outer.begin(()).unwrap();
                inner.begin(()).unwrap().end().unwrap();
                span.end().unwrap();
            }
        })
        .unwrap();
    drop(session);
    let read = read(&scratch.path("run.pftrace")).unwrap();
    assert_eq!(read.errors, Vec::<String>::new());
    let begun = (read.count("begin", "outer"), read.count("begin", "inner"), read.count("end", ""));
    assert_eq!(begun, (6 * 40, 6 * 40, 2 * 6 * 40), "one for each warp and round");
}

/// A span whose trace is closed before it ends is an error of the lane that began it, and of no other.
#[test]
fn a_span_that_ends_too_late() {
    let Some(scratch) = scratch("a_span_that_ends_too_late") else { return };
    let path = scratch.c("run.pftrace");
    let mut session = small().cpu().unwrap();
    let (ends, closed) = (std::sync::Mutex::new(BTreeMap::new()), DeviceWord::new(0));
    session
        .run(Grid { blocks: 1, threads: 3 }, |fs| {
            let trace = fs.trace(&path).unwrap();
            let span = trace.event("late", []).unwrap().begin(()).unwrap();
            trace.close().unwrap();
            closed.count(1);
            // Ends: each lane closes it.
            while closed.peek() < 3 {
                warp::nap(1_000);
            }
            let end = span.end();
            ends.lock().unwrap().insert(warp::global_thread(), end);
        })
        .unwrap();
    let wanted = BTreeMap::from([(0, Err(Errno::BADF)), (1, Ok(())), (2, Ok(()))]);
    assert_eq!(ends.into_inner().unwrap(), wanted);
}

#[test]
fn a_trace_is_readable_while_the_kernel_runs() {
    let Some(scratch) = scratch("a_trace_is_readable_while_the_kernel_runs") else { return };
    let (path, file) = (scratch.c("run.pftrace"), scratch.path("run.pftrace"));
    let mut session = small().cpu().unwrap();
    once(&mut session, |fs| {
        let trace = fs.trace(&path).unwrap();
        let row = trace.event("row", ["number"]).unwrap();
        let span = row.begin([7]).unwrap();
        trace.join_clocks().unwrap();
        trace.flush().unwrap();
        let so_far = read(&file).unwrap();
        assert_eq!((so_far.count("begin", "row"), so_far.count("end", "")), (1, 0));
        assert_eq!(so_far.snapshots, 2);
        span.end().unwrap();
        trace.close().unwrap();
    });
    // What comes later in the same session goes on behind it; two files are one.
    once(&mut session, |fs| {
        let trace = fs.trace(&path).unwrap();
        trace.event("later", []).unwrap().instant(()).unwrap();
    });
    drop(session);
    let alone = read(&file).unwrap();
    assert_eq!(alone.errors, Vec::<String>::new());
    assert_eq!(
        (alone.count("instant", "later"), alone.snapshots),
        (1, 1),
        "emptied by the next launch's open"
    );
    let twice = [fs::read(&file).unwrap(), fs::read(&file).unwrap()].concat();
    fs::write(scratch.path("twice.pftrace"), twice).unwrap();
    let twice = read(&scratch.path("twice.pftrace")).unwrap();
    assert_eq!((twice.count("instant", "later"), twice.errors.len()), (2, 0));
}

#[test]
fn a_lane_that_panics_loses_nothing_that_it_had_written() {
    let Some(scratch) = scratch("a_lane_that_panics_loses_nothing_that_it_had_written") else { return };
    let path = scratch.c("run.pftrace");
    let mut session = small().cpu().unwrap();
    let outcome = session.run(Grid { blocks: 4, threads: 32 }, |fs| {
        let trace = fs.trace(&path).unwrap();
        let row = trace.event("row", ["number"]).unwrap();
        row.instant([warp::global_thread()]).unwrap();
        assert!(warp::global_thread() != 77, "thread 77 fails");
    });
    assert!(outcome.is_err());
    drop(session);
    let read = read(&scratch.path("run.pftrace")).unwrap();
    assert_eq!((read.errors.len(), read.count("instant", "row")), (0, 128));
}

#[test]
fn wrong_use() {
    let scratch = Scratch::new("wrong_use");
    let path = scratch.c("run.pftrace");
    let mut session = small().cpu().unwrap();
    once(&mut session, |fs| {
        assert_eq!(fs.trace(&scratch.c("no/such.pftrace")).err(), Some(Errno::NOENT));
        let trace: Trace = fs.trace(&path).unwrap();
        let long = "a name of forty-nine bytes, which is one too many";
        assert_eq!(long.len(), 49);
        assert_eq!(trace.event(long, []).err(), Some(Errno::INVAL));
        assert_eq!(trace.event("short", ["a", long]).err(), Some(Errno::INVAL));
        assert_eq!(trace.event("five", ["a", "b", "c", "d", "e"]).err(), Some(Errno::INVAL));
        assert_eq!(trace.counter(long).err(), Some(Errno::INVAL));
        let event = trace.event("event", []).unwrap();
        trace.close().unwrap();
        assert_eq!(event.instant(()), Err(Errno::BADF));
        assert_eq!(event.begin(()).err(), Some(Errno::BADF));
        assert_eq!(trace.close(), Err(Errno::BADF));
    });
    // A full disk.
    once(&mut session, |fs| {
        let trace = fs.trace(c"/dev/full").unwrap();
        assert_eq!(trace.flush(), Err(Errno::NOSPC));
        assert_eq!(trace.close(), Err(Errno::NOSPC));
    });
}

/// What the packets of a file say, by Perfetto's numbers of fields. For each sequence, where it is of one.
#[derive(Debug, Default)]
struct Said {
    /// Sequence, clock, its time, the host's.
    clocks: Vec<(u64, u64, u64, u64)>,
    /// By the uuid: name, parent, whether it is a counter.
    tracks: BTreeMap<u64, (String, u64, bool)>,
    /// Sequence, clock, track.
    begun: BTreeSet<(u64, u64, u64)>,
    names: BTreeSet<(u64, String)>,
    /// Sequence, time, track where it is not the sequence's.
    events: Vec<(u64, u64, Option<u64>)>,
}

impl Said {
    fn of(path: &std::path::Path) -> Self {
        let mut said = Self::default();
        for packet in Message::of(&fs::read(path).unwrap()).unwrap().messages(1) {
            let sequence = packet.number(10).unwrap();
            for snapshot in packet.messages(6) {
                let clocks: Vec<_> = snapshot
                    .messages(1)
                    .map(|clock| [1, 2].map(|field| clock.number(field).unwrap()))
                    .collect();
                let [[6, host], [clock, device]] = clocks[..] else { panic!("{clocks:?}") };
                said.clocks.push((sequence, clock, device, host));
            }
            for track in packet.messages(60) {
                let about =
                    (track.text(2).unwrap(), track.number(5).unwrap_or(0), track.messages(8).count() == 1);
                let of_others = said.tracks.insert(track.number(1).unwrap(), about.clone());
                assert!(of_others.is_none_or(|others| others == about), "{about:?}");
            }
            for defaults in packet.messages(59) {
                let track = defaults.messages(11).next().and_then(|event| event.number(11));
                assert!(said.begun.insert((sequence, defaults.number(58).unwrap(), track.unwrap())));
            }
            for named in packet
                .messages(12)
                .flat_map(|names| names.messages(2).chain(names.messages(3)).collect::<Vec<_>>())
            {
                assert!(said.names.insert((sequence, named.text(2).unwrap())), "once for all lanes");
            }
            for event in packet.messages(11) {
                said.events.push((sequence, packet.number(8).unwrap(), event.number(11)));
            }
        }
        said
    }
}

/// Lanes of one warp write into two files, by turns: nothing of the one is in the other, nor taken for it.
#[test]
fn two_files_of_each_warp_are_told_apart() {
    let scratch = Scratch::new("two_files_of_each_warp");
    let names = ["0.pftrace", "1.pftrace"];
    let paths = names.map(|name| scratch.c(name));
    for name in names {
        fs::write(scratch.path(name), "what was there before\n".repeat(10_000)).unwrap();
    }
    let mut session = small().cpu().unwrap();
    let (device, boot) = (warp::clock(), boottime());
    session
        .run(Grid { blocks: 2, threads: 64 }, |fs| {
            let thread = warp::global_thread();
            let trace = fs.trace(&paths[thread as usize % 2]).unwrap();
            let moment = trace.event("moment", ["thread"]).unwrap();
            let count = trace.counter("count").unwrap();
            moment.instant([thread]).unwrap();
            count.set(thread).unwrap();
            // Not by the lanes whose the warps' tracks are.
            if thread % 32 >= 2 {
                trace.event("span", []).unwrap().begin(()).unwrap().end().unwrap();
            }
            if thread < 2 {
                trace.join_clocks().unwrap();
            }
        })
        .unwrap();
    drop(session);
    let (device, boot) = (device..=warp::clock(), boot..=boottime());
    let files = [0, 1].map(|file| Said::of(&scratch.path(names[file])));
    for (file, said) in files.iter().enumerate() {
        let [first, second] = said.clocks[..] else { panic!("{said:?}") };
        assert!(first.0 == 0 && second.0 != 0 && first.1 == second.1);
        assert_eq!(first.1 >> 28, 4, "above the numbers that are Perfetto's");
        assert!(said.clocks.iter().all(|(.., of, host)| device.contains(of) && boot.contains(host)));
        let (all, _) = said.tracks.iter().find(|(_, (name, ..))| name == "kernels").unwrap();
        let lane = ["", " lane 1"][file];
        let mut tracks = BTreeSet::from([("kernels".into(), 0, false), ("count".into(), *all, true)]);
        for (block, warp) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            tracks.insert((format!("block {block} warp {warp}{lane}"), *all, false));
            tracks.insert((format!("block {block} warp {warp} lane {}", 2 + file), *all, false));
        }
        assert_eq!((said.tracks.len(), said.tracks.values().cloned().collect()), (tracks.len(), tracks));
        let sequences =
            |of: &dyn Fn(u64) -> bool| said.begun.iter().filter(|(sequence, ..)| of(*sequence)).count();
        assert_eq!((sequences(&|_| true), sequences(&|sequence| (1..=4).contains(&sequence))), (4, 4));
        for (sequence, clock, track) in &said.begun {
            assert_eq!((*clock, said.tracks[track].0.starts_with("block ")), (first.1, true));
            for name in ["moment", "thread", "span"] {
                assert!(said.names.contains(&(*sequence, name.to_owned())), "{name} {said:?}");
            }
        }
        assert_eq!(said.events.len(), 64 + 64 + 4 + 4);
        for (sequence, time, track) in &said.events {
            assert!(sequences(&|of| of == *sequence) == 1 && device.contains(time));
            assert!(track.is_none_or(|track| said.tracks.contains_key(&track)));
        }
    }
    let [first, second] = files;
    assert!(first.clocks[0].1 != second.clocks[0].1);
    assert!(first.tracks.keys().all(|uuid| !second.tracks.contains_key(uuid)));
}

/// Lanes that begin spans in one call, of two names and in two files: one lane of each name and file begins it, and each file has what it needs.
#[test]
fn lanes_that_call_together_begin_one_span_of_each_event_of_each_file() {
    let scratch = Scratch::new("spans-together");
    let mut session = small().cpu().unwrap();
    let paths = [scratch.c("one.pftrace"), scratch.c("two.pftrace")];
    let spans = each(&mut session, 6, |fs, lane| {
        let trace = fs.trace(&paths[(lane / 3) as usize]).unwrap();
        let name = if lane % 3 == 0 { "the first event" } else { "the second event" };
        let span = trace.event(name, []).unwrap().begin(()).unwrap();
        let began = span.to_word();
        span.end().unwrap();
        trace.close().unwrap();
        began
    });
    // 1 is the sequence's own track, of the lane that leads those that opened the file.
    assert_eq!(spans.iter().map(|word| (*word).min(2)).collect::<Vec<_>>(), [1, 2, 0, 1, 2, 0]);
    drop(session);
    let texts = ["the first event", "the second event", "block 0 warp 0"];
    for (file, lane) in [("one.pftrace", " lane 1"), ("two.pftrace", " lane 4")] {
        let content = scratch.read(file);
        for text in texts.iter().chain([&lane]) {
            assert!(memmem(&content, text.as_bytes()), "{file} lacks {text:?}");
        }
    }
}

/// Lanes of one warp that open a file apart are writers of their own: each is told the name of an event that all of them have, and the span of one
/// that begins it alone is its own.
#[test]
fn writers_of_one_file_are_told_apart() {
    let scratch = Scratch::new("writers-apart");
    let path = scratch.c("file.pftrace");
    let mut session = small().cpu().unwrap();
    let opened = DeviceWord::new(0);
    each(&mut session, 8, |fs, lane| {
        // The second half opens it when the first has.
        while lane >= 4 && opened.observe() < 4 {
            warp::nap(1_000);
        }
        let trace = fs.trace(&path).unwrap();
        opened.fetch_add(1);
        while opened.observe() < 8 {
            warp::nap(1_000);
        }
        let event = trace.event("the event", []).unwrap();
        event.instant(()).unwrap();
        if lane % 4 == 3 {
            trace.event("of one lane", []).unwrap().begin(()).unwrap().end().unwrap();
        }
        trace.close().unwrap();
    });
    drop(session);
    let said = Said::of(&scratch.path("file.pftrace"));
    let sequences: BTreeSet<u64> = said.begun.iter().map(|(sequence, ..)| *sequence).collect();
    assert_eq!(sequences.len(), 2, "{said:?}");
    for sequence in sequences {
        for name in ["the event", "of one lane"] {
            assert!(said.names.contains(&(sequence, name.to_owned())), "{name} {said:?}");
        }
    }
    assert_eq!(said.events.len(), 8 + 2 * 2);
}

fn memmem(content: &[u8], wanted: &[u8]) -> bool {
    content.windows(wanted.len()).any(|found| found == wanted)
}

/// A place for files, if there is a reader for them.
fn scratch(test: &str) -> Option<Scratch> {
    match gpufs_tests::perfetto::reader() {
        Ok(_) => Some(Scratch::new(test)),
        Err(reason) => {
            skip(test, reason);
            None
        }
    }
}

fn boottime() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY:
    // - a place for a time
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
