//! Operations that lanes start and wait for later, in each mode: what they read and write, how they are cancelled, their bounds, and that nothing
//! is left over.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use gpufs_core::word::DeviceWord;
use gpufs_device::aio::{BYTES_MAX, Cancel, Pending, Watch, block_on, join, wait_all, wait_any};
use gpufs_device::file::Descriptor;
use gpufs_device::{Call, Errno, warp};
use gpufs_host::cpu::Schedule;
use gpufs_host::{Builder, CpuOptions, Grid, Session};
use gpufs_tests::{MODES, Scratch, each, lanes, once, skip, small, tables};

const SEEDS: u64 = 3;

/// A session in each mode, of warps of some widths, and with seeded schedules.
fn everywhere(builder: impl Fn() -> Builder, mut test: impl FnMut(&mut Session, &str)) {
    for mode in MODES {
        let fast = [1, 32, 64].map(|width| (width, Schedule::Fast));
        let seeded = (0..SEEDS).map(|seed| (32, Schedule::Seeded(seed)));
        for (width, schedule) in fast.into_iter().chain(seeded) {
            let name = format!("{mode}, width {width}, {schedule:?}");
            let options = CpuOptions { width, schedule, ..CpuOptions::default() };
            match builder().mode(mode).report_failures(false).cpu_with(options) {
                Ok(mut session) => {
                    test(&mut session, &name);
                    assert_nothing_left(&session, &name);
                }
                Err(refused) => skip(&name, refused),
            }
        }
    }
}

/// Nothing is left of asynchronous operations: slots, counts, memory, notes.
fn assert_nothing_left(session: &Session, name: &str) {
    let tables = tables(session);
    for queue in tables.queues() {
        assert_eq!(queue.free_slots(), queue.capacity(), "{name}: slots");
        assert_eq!(queue.waits(), 0, "{name}: counts");
    }
    let buffers = tables.async_buffers;
    assert_eq!(buffers.free.free(), memory_of(session), "{name}: staging memory");
    assert_eq!(tables.staging.free.free(), STAGING, "{name}: staging memory of calls");
}

/// Staging buffers of calls, and of asynchronous operations, in a [`small`] session.
const STAGING: u32 = 64;
const fn memory_of(_: &Session) -> u32 {
    32
}

fn give(session: &mut Session, end: impl Into<OwnedFd>) -> Descriptor {
    Descriptor(session.register_file(end.into()).unwrap().0)
}

/// Byte `at` of a test's file.
fn byte(at: u64) -> u8 {
    (at * 7 % 251).to_le_bytes()[0]
}

fn file_of(scratch: &Scratch, name: &str, bytes: u64) -> PathBuf {
    std::fs::write(scratch.path(name), (0..bytes).map(byte).collect::<Vec<_>>()).unwrap();
    scratch.path(name)
}

/// A file that is made for a test to write.
fn output(session: &mut Session, scratch: &Scratch) -> Descriptor {
    let made = File::options().read(true).write(true).create(true).truncate(true).open(scratch.path("out"));
    give(session, made.unwrap())
}

/// Starts again until there is room; a lane that does so must hold nothing that others wait for.
fn until_started(mut start: impl FnMut() -> Result<Pending, Errno>) -> Pending {
    loop {
        match start() {
            Ok(pending) => return pending,
            Err(Errno::AGAIN) => warp::nap(1_000),
            Err(errno) => panic!("{errno:?}"),
        }
    }
}

#[test]
fn lanes_have_several_reads_in_flight() {
    let scratch = Scratch::new("async-reads");
    let path = file_of(&scratch, "data", 64 << 10);
    everywhere(small, |session, name| {
        let data = give(session, File::open(&path).unwrap());
        let wrong = each(session, 64, |fs, lane| {
            let mut wrong = 0;
            for round in 0..4 {
                let at = |number: u64| (lane * 131 + round * 977 + number * 4093) % 60_000;
                let started: Vec<(u64, Pending)> = (0..3)
                    .filter_map(|number| {
                        fs.start_pread(data, 100, at(number)).ok().map(|pending| (at(number), pending))
                    })
                    .collect();
                // The last first.
                for (offset, pending) in started.into_iter().rev() {
                    let mut bytes = [0; 100];
                    assert_eq!(pending.wait_into(&mut bytes), Ok(100));
                    wrong += (offset..).zip(bytes).filter(|(at, found)| byte(*at) != *found).count();
                }
            }
            wrong
        });
        assert_eq!(wrong, [0; 64], "{name}");
    });
}

/// What was read is looked at where it lies, while the next read is in flight; a write and a read of nothing have nothing to show.
#[test]
fn what_was_read_is_lent() {
    let scratch = Scratch::new("async-lent");
    let path = file_of(&scratch, "data", 64 << 10);
    everywhere(small, |session, name| {
        let data = give(session, File::open(&path).unwrap());
        let wrong = each(session, 16, |fs, lane| {
            let at = |round: u64| (lane * 131 + round * 977) % 60_000;
            let mut next = until_started(|| fs.start_pread(data, 100, at(0)));
            let mut wrong = 0;
            for round in 0..4 {
                let read = next.wait().unwrap();
                // Others may have the room: then this one's is given back first.
                let ahead = fs.start_pread(data, 100, at(round + 1));
                wrong += read
                    .with(|bytes| {
                        assert_eq!(bytes.len(), 100);
                        (at(round)..).zip(bytes).filter(|(at, found)| byte(*at) != **found).count()
                    })
                    .unwrap();
                drop(read);
                next = ahead.unwrap_or_else(|_| until_started(|| fs.start_pread(data, 100, at(round + 1))));
            }
            drop(next.wait());
            let short = until_started(|| fs.start_pread(data, 100, (64 << 10) - 3)).wait().unwrap();
            let end = until_started(|| fs.start_pread(data, 100, 1 << 20)).wait().unwrap();
            let synced = until_started(|| fs.start_fsync(data)).wait().unwrap();
            let lengths = [&short, &end, &synced].map(|read| read.with(<[u8]>::len));
            assert_eq!(lengths, [Ok(3), Ok(0), Ok(0)]);
            wrong
        });
        assert_eq!(wrong, [0; 16], "{name}");
    });
}

#[test]
fn what_was_written_is_there() {
    let scratch = Scratch::new("async-writes");
    everywhere(small, |session, name| {
        let out = output(session, &scratch);
        each(session, 64, |fs, lane| {
            let mut text = [0; 300];
            (0..).zip(&mut text).for_each(|(at, place)| *place = byte(lane * 300 + at));
            let pending = until_started(|| fs.start_pwrite(out, &text, lane * 300));
            // The bytes were copied.
            text.fill(0xff);
            assert_eq!(pending.wait().unwrap().count(), 300);
            let synced = until_started(|| fs.start_fsync(out));
            assert_eq!(synced.wait().unwrap().count(), 0);
            assert_eq!(until_started(|| fs.start_fdatasync(out)).wait().map(|done| done.count()), Ok(0));
        });
        let expected: Vec<u8> = (0..64 * 300).map(byte).collect();
        assert!(scratch.read("out") == expected, "{name}");
    });
}

/// Writes that nobody waited for are in the file when the session has synchronized, dropped or forgotten.
#[test]
fn what_was_dropped_goes_on() {
    let scratch = Scratch::new("async-dropped");
    everywhere(small, |session, name| {
        let out = output(session, &scratch);
        each(session, 24, |fs, lane| {
            let pending = until_started(|| fs.start_pwrite(out, &[b'a' + (lane % 26) as u8; 10], lane * 10));
            if lane % 2 == 0 {
                drop(pending);
            } else {
                std::mem::forget(pending);
            }
        });
        let expected: Vec<u8> = (0..240).map(|at| b'a' + (at / 10) as u8).collect();
        assert!(scratch.read("out") == expected, "{name}");
    });
}

#[test]
fn reads_of_empty_pipes_are_cancelled() {
    everywhere(small, |session, name| {
        let pipes: Vec<_> = (0..20).map(|_| std::io::pipe().unwrap()).collect();
        let ends: Vec<Descriptor> =
            pipes.iter().map(|(reader, _)| give(session, reader.try_clone().unwrap())).collect();
        let results = each(session, 20, |fs, lane| {
            let pending = until_started(|| fs.start_read(ends[lane as usize], 10));
            assert!(!pending.is_done() && !pending.is_known_done());
            // The kernel may have it between two states, where nothing can end it. Ends: it gets where it waits.
            while pending.cancel().unwrap() == Cancel::NotCanceled {
                std::thread::yield_now();
            }
            pending.wait().map(|done| done.count())
        });
        for result in results {
            assert!(matches!(result, Err(Errno::CANCELED | Errno::INTR)), "{name}: {result:?}");
        }
        // What comes later is the next reader's.
        let mut pipes = pipes;
        pipes[0].1.write_all(b"later").unwrap();
        let read = once(session, |fs| {
            let mut bytes = [0; 8];
            fs.read(ends[0], &mut bytes).map(|count| bytes[..count].to_vec())
        });
        assert_eq!(read, Ok(b"later".to_vec()), "{name}");
    });
}

#[test]
fn what_is_complete_is_taken_without_a_wait() {
    everywhere(small, |session, name| {
        let pipes: Vec<_> = (0..20).map(|_| std::io::pipe().unwrap()).collect();
        let ends: Vec<Descriptor> =
            pipes.iter().map(|(reader, _)| give(session, reader.try_clone().unwrap())).collect();
        let writers: Vec<_> = pipes.into_iter().map(|(_, writer)| std::sync::Mutex::new(writer)).collect();
        let results = each(session, 20, |fs, lane| {
            let mut pending = until_started(|| fs.start_read(ends[lane as usize], 100));
            let watch = pending.watch();
            let looker = fs.looker().unwrap();
            assert!(looker.take(&mut pending).is_none() && !looker.may_be_done(watch));
            assert!(looker.may_be_done(Watch::ALWAYS) && !looker.may_be_done(Watch::NEVER));
            drop(looker);
            writers[lane as usize].lock().unwrap().write_all(&vec![1; lane as usize + 1]).unwrap();
            // Ends: the read does.
            while !pending.is_done() {
                warp::nap(1000);
            }
            let looker = fs.looker().unwrap();
            assert!(looker.may_be_done(watch));
            let count = looker.take(&mut pending).unwrap().map(|done| done.count());
            assert_eq!(looker.take(&mut pending).unwrap().err(), Some(Errno::INVAL));
            assert_eq!(pending.watch(), Watch::NEVER);
            count
        });
        let expected: Vec<_> = (1..=20).map(Ok).collect();
        assert_eq!(results, expected, "{name}");
    });
}

#[test]
fn a_deadline_ends_a_wait() {
    everywhere(small, |session, name| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let end = give(session, reader);
        let started = Instant::now();
        let results = each(session, 8, |fs, lane| {
            let pending = until_started(|| fs.start_read(end, 10));
            pending.wait_for(Duration::from_millis(5 + lane)).map(|done| done.count())
        });
        assert_eq!(results, [Err(Errno::TIMEDOUT); 8], "{name}");
        assert!(started.elapsed() < Duration::from_secs(100), "{name}");
        // In time.
        writer.write_all(b"0123456789").unwrap();
        let read = once(session, |fs| {
            let mut bytes = [0; 10];
            let pending = fs.start_read(end, 10).unwrap();
            pending.wait_into_for(&mut bytes, Duration::from_secs(100)).map(|count| bytes[..count].to_vec())
        });
        assert_eq!(read, Ok(b"0123456789".to_vec()), "{name}");
    });
}

/// A wait whose time is over cancels once where that ends the operation; what cannot be cancelled ends by itself, and has its own result.
#[test]
fn what_is_late_is_cancelled_as_often_as_it_must_be() {
    let scratch = Scratch::new("async-late");
    for mode in MODES {
        let Ok(mut session) = small().mode(mode).cpu() else {
            skip("what_is_late_is_cancelled_as_often_as_it_must_be", mode);
            continue;
        };
        let (reader, _writer) = std::io::pipe().unwrap();
        let end = give(&mut session, reader);
        let operations = |session: &Session| session.statistics().total().operations;
        // More where the kernel is late.
        let least = (0..20).map(|_| {
            let before = operations(&session);
            let late = once(&mut session, |fs| {
                let pending = fs.start_read(end, 1).unwrap();
                pending.wait_for(Duration::from_millis(1)).map(|done| done.count())
            });
            assert_eq!(late, Err(Errno::TIMEDOUT), "{mode}");
            operations(&session) - before
        });
        assert_eq!(least.min(), Some(2), "{mode}: the read and its cancel");
        let mut file = File::create(scratch.path("file")).unwrap();
        file.write_all(&vec![b'x'; 32 << 20]).unwrap();
        let file = give(&mut session, file);
        let synced = once(&mut session, |fs| {
            fs.start_fsync(file).unwrap().wait_for(Duration::from_millis(2)).map(|done| done.count())
        });
        assert!(matches!(synced, Ok(0) | Err(Errno::TIMEDOUT)), "{mode}: {synced:?}");
    }
}

/// The session's deadline is of waits that have no limit: one that has its own may be longer.
#[test]
fn a_wait_with_a_limit_has_no_other() {
    for mode in MODES {
        let builder = small().mode(mode).deadline(Duration::from_millis(700)).report_failures(false);
        let Ok(mut session) = builder.cpu() else {
            skip("a_wait_with_a_limit_has_no_other", mode);
            continue;
        };
        let (reader, _writer) = std::io::pipe().unwrap();
        let end = give(&mut session, reader);
        let limited = once(&mut session, |fs| {
            fs.start_read(end, 1).unwrap().wait_for(Duration::from_millis(1200)).map(|done| done.count())
        });
        assert_eq!(limited, Err(Errno::TIMEDOUT), "{mode}");
        let ended = session.run(lanes(1), |fs| drop(fs.start_read(end, 1).unwrap().wait()));
        assert!(ended.is_err(), "{mode}: the kernel of a lane that waits past the deadline goes on");
    }
}

/// As many as may be, and then `EAGAIN`; calls that wait go on meanwhile, by the same ring; what was started first ends.
#[test]
fn more_than_there_may_be_is_eagain() {
    let scratch = Scratch::new("async-bound");
    let path = file_of(&scratch, "data", 4096);
    everywhere(small, |session, name| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let (end, data) = (give(session, reader), give(session, File::open(&path).unwrap()));
        let outcome = once(session, |fs| {
            let mut held = Vec::new();
            let refused = loop {
                match fs.start_read(end, 1) {
                    Ok(pending) => held.push(pending),
                    Err(errno) => break errno,
                }
                assert!(held.len() < 1000);
            };
            // Calls that wait find slots and staging memory.
            let mut bytes = vec![0; 4096];
            assert_eq!(fs.pread(data, &mut bytes, 0), Ok(4096));
            // One that ends lets another begin.
            let last = held.pop().unwrap();
            assert_eq!(last.cancel(), Ok(Cancel::Canceled));
            assert!(last.wait().is_err());
            held.push(fs.start_read(end, 1).unwrap());
            let count = held.len();
            std::mem::forget(held);
            (refused, count)
        });
        // Half of the slots that stream buffers leave.
        assert_eq!(outcome, (Errno::AGAIN, 32), "{name}");
        writer.write_all(b"x").unwrap();
        assert_eq!(once(session, |fs| fs.read(end, &mut [0; 4])), Ok(1), "{name}: no reader is left");
    });
}

/// A call counts for all of its lanes before it looks at what they ask for. Those that are refused take no room of the others, but for a moment.
#[test]
fn lanes_that_are_refused_take_no_room() {
    everywhere(small, |session, name| {
        let (reader, _writer) = std::io::pipe().unwrap();
        let end = give(session, reader);
        let begun = each(session, 32, |fs, lane| {
            // Eight lanes of the warp begin as many as may be, all together.
            if lane % 4 != 0 {
                let refused =
                    (0..4).filter(|_| fs.start_read(Descriptor(60), 1).map(drop) == Err(Errno::BADF));
                return (refused.count(), Vec::new());
            }
            (0, (0..4).map(|_| until_started(|| fs.start_read(end, 1))).collect())
        });
        let all: Vec<_> = (0..32).map(|lane| if lane % 4 == 0 { (0, 4) } else { (4, 0) }).collect();
        let seen: Vec<_> = begun.iter().map(|(refused, held)| (*refused, held.len())).collect();
        assert_eq!(seen, all, "{name}");
    });
}

#[test]
fn memory_that_is_used_up_is_eagain() {
    let scratch = Scratch::new("async-memory");
    let path = file_of(&scratch, "data", 2 * BYTES_MAX as u64);
    everywhere(small, |session, name| {
        let data = give(session, File::open(&path).unwrap());
        let counts = once(session, |fs| {
            let held: Vec<_> = (0..2).map(|_| fs.start_pread(data, 2 * BYTES_MAX, 0).unwrap()).collect();
            // A start that is refused is not counted, however often.
            for _ in 0..100 {
                assert_eq!(fs.start_pread(data, 1, 0).map(drop), Err(Errno::AGAIN));
            }
            // One without memory goes.
            assert_eq!(fs.start_fsync(data).unwrap().wait().map(|done| done.count()), Ok(0));
            let counts: Vec<_> = held.into_iter().map(|pending| pending.wait().unwrap().count()).collect();
            // What was read is held until here.
            assert_eq!(fs.start_pread(data, 1, 0).unwrap().wait().map(|done| done.count()), Ok(1));
            counts
        });
        assert_eq!(counts, [BYTES_MAX; 2], "{name}");
    });
}

/// A lane that holds what it started waits for others that do so, and for calls: nobody is kept waiting for ever.
#[test]
fn lanes_that_hold_much_start_and_call() {
    let scratch = Scratch::new("async-hold");
    let path = file_of(&scratch, "data", 64 << 10);
    everywhere(small, |session, _| {
        let data = give(session, File::open(&path).unwrap());
        let done = DeviceWord::new(0);
        session
            .run(Grid { blocks: 8, threads: 64 }, |fs| {
                let lane = warp::global_thread();
                let mut held: Vec<Pending> = Vec::new();
                for round in 0..6 {
                    match fs.start_pread(data, 64, lane * 64 % 60_000) {
                        Ok(pending) => held.push(pending),
                        Err(errno) => assert_eq!(errno, Errno::AGAIN),
                    }
                    let mut bytes = [0; 16];
                    assert_eq!(fs.pread(data, &mut bytes, round * 100), Ok(16));
                    assert_eq!(bytes[0], byte(round * 100));
                }
                for pending in held {
                    assert_eq!(pending.wait().map(|done| done.count()), Ok(64));
                }
                done.fetch_add(1);
            })
            .unwrap();
        assert_eq!(done.peek(), 8 * 64);
    });
}

/// What a handle of before a synchronization is of: nothing, whatever is in its slot and memory now.
#[test]
fn handles_end_with_their_launch() {
    let scratch = Scratch::new("async-rounds");
    let path = file_of(&scratch, "data", 4096);
    everywhere(small, |session, name| {
        let data = give(session, File::open(&path).unwrap());
        let kept = Mutex::new(Vec::new());
        let read = Mutex::new(Vec::new());
        session
            .run(Grid { blocks: 1, threads: 4 }, |fs| {
                let (pending, finished) = (fs.start_pread(data, 10, 0).unwrap(), fs.start_pread(data, 10, 0));
                let finished = finished.unwrap().wait().unwrap();
                kept.lock().unwrap().push(pending);
                read.lock().unwrap().push(finished);
            })
            .unwrap();
        let (mut kept, read) = (kept.into_inner().unwrap(), read.into_inner().unwrap());
        for finished in &read {
            assert_eq!(finished.copy_to(&mut [0; 10]), Err(Errno::INVAL), "{name}");
            assert_eq!(finished.with(<[u8]>::len), Err(Errno::INVAL), "{name}");
        }
        // Others have the slots and the memory now.
        once(session, |fs| {
            let again: Vec<_> = (0..8).map(|_| fs.start_pread(data, 10, 7).unwrap()).collect();
            wait_all(&again).unwrap();
            for pending in again {
                let mut bytes = [0; 10];
                assert_eq!(pending.wait_into(&mut bytes), Ok(10));
                assert_eq!(bytes[0], byte(7));
            }
        });
        drop(read);
        assert!(kept[0].is_done());
        assert_eq!(kept[0].cancel(), Err(Errno::INVAL));
        assert_eq!(kept.pop().unwrap().wait().map(|done| done.count()), Err(Errno::INVAL));
        drop(kept);
    });
}

#[test]
fn a_handle_of_a_closed_session_is_refused() {
    let scratch = Scratch::new("async-closed");
    let path = file_of(&scratch, "data", 4096);
    for mode in MODES {
        let Ok(mut session) = small().mode(mode).cpu() else { continue };
        let data = give(&mut session, File::open(&path).unwrap());
        let (reader, _writer) = std::io::pipe().unwrap();
        let end = give(&mut session, reader);
        let kept = Mutex::new(Vec::new());
        let launched = session.run(Grid { blocks: 1, threads: 1 }, |fs| {
            kept.lock().unwrap().push(fs.start_pread(data, 10, 0).unwrap());
            kept.lock().unwrap().push(fs.start_read(end, 10).unwrap());
        });
        launched.unwrap();
        drop(session);
        for pending in kept.into_inner().unwrap() {
            assert!(pending.is_done());
            assert_eq!(pending.wait().map(|done| done.count()), Err(Errno::BADF), "{mode}");
        }
    }
}

/// A session is closed while its kernels have reads of an empty pipe in flight: it closes soon, and nobody reads the pipe any more.
#[test]
fn a_session_closes_with_operations_in_flight() {
    for mode in MODES {
        for round in 0..4 {
            let Ok(mut session) = small().mode(mode).cpu() else { continue };
            let (mut reader, mut writer) = std::io::pipe().unwrap();
            let end = give(&mut session, reader.try_clone().unwrap());
            let before = ends_of(&reader);
            let launched = session.run(Grid { blocks: 2, threads: 8 }, |fs| {
                std::mem::forget(until_started(|| fs.start_read(end, 10)));
            });
            launched.unwrap();
            assert_eq!(ends_of(&reader), before, "{mode}");
            let started = Instant::now();
            drop(session);
            assert!(started.elapsed() < Duration::from_secs(100), "{mode}");
            assert_eq!(ends_of(&reader), 2, "{mode}: what the session had is closed");
            writer.write_all(b"mine").unwrap();
            let mut bytes = [0; 4];
            reader.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"mine", "{mode}, {round}");
        }
    }
}

/// How many of the process's descriptors are of this pipe.
fn ends_of(pipe: &impl AsRawFd) -> usize {
    let link = |fd: &std::path::Path| std::fs::read_link(fd).ok();
    let own = link(&PathBuf::from(format!("/proc/self/fd/{}", pipe.as_raw_fd())));
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.filter(|entry| entry.as_ref().is_ok_and(|entry| link(&entry.path()) == own)).count()
}

#[test]
fn the_first_of_several_is_found() {
    everywhere(small, |session, name| {
        let pipes: Vec<_> = (0..3).map(|_| std::io::pipe().unwrap()).collect();
        let ends: Vec<_> =
            pipes.iter().map(|(reader, _)| give(session, reader.try_clone().unwrap())).collect();
        let to = give(session, pipes[1].1.try_clone().unwrap());
        let outcome = once(session, |fs| {
            let pending: Vec<_> = ends.iter().map(|end| fs.start_read(*end, 10).unwrap()).collect();
            let none = wait_any(&pending, Some(Duration::from_millis(3)));
            let written = fs.start_write(to, b"some").unwrap().wait().map(|done| done.count());
            let first = wait_any(&pending, None);
            let limited = wait_any(&pending, Some(Duration::ZERO));
            (none, written, first, limited, wait_any(&[], None))
        });
        let expected = (Err(Errno::TIMEDOUT), Ok(4), Ok(1), Ok(1), Err(Errno::INVAL));
        assert_eq!(outcome, expected, "{name}");
    });
}

#[test]
fn futures_of_one_lane_go_on_together() {
    let scratch = Scratch::new("async-futures");
    let path = file_of(&scratch, "data", 4096);
    everywhere(small, |session, name| {
        let data = give(session, File::open(&path).unwrap());
        let out = output(session, &scratch);
        let sums = each(session, 8, |fs, lane| {
            let copy = async |from: u64, to: u64| -> Result<usize, Errno> {
                let mut bytes = [0; 100];
                let read = until_started(|| fs.start_pread(data, 100, from)).await?.copy_to(&mut bytes)?;
                let written = until_started(|| fs.start_pwrite(out, &bytes[..read], to)).await?;
                Ok(written.count())
            };
            let (first, second) = (copy(lane, lane * 200), copy(lane + 8, lane * 200 + 100));
            let (first, second) = block_on(join(std::pin::pin!(first), std::pin::pin!(second)));
            (first, second)
        });
        assert_eq!(sums, [(Ok(100), Ok(100)); 8], "{name}");
        let written = scratch.read("out");
        for (at, found) in (0..).zip(written) {
            let (lane, half, rest) = (at / 200, at / 100 % 2, at % 100);
            assert_eq!(found, byte(lane + 8 * half + rest), "{name}: byte {at}");
        }
    });
}

#[test]
fn what_is_wrong_is_told_at_once() {
    let scratch = Scratch::new("async-wrong");
    let path = file_of(&scratch, "data", 4096);
    everywhere(small, |session, name| {
        let data = give(session, File::open(&path).unwrap());
        let (reader, writer) = std::io::pipe().unwrap();
        let (end, to) = (give(session, reader), give(session, writer));
        let told = once(session, |fs| {
            let none = Descriptor(60);
            [
                fs.start_pread(none, 1, 0),
                fs.start_pwrite(data, b"x", 0),
                fs.start_read(to, 1),
                fs.start_pread(end, 1, 0),
                fs.start_read(data, 1),
                fs.start_pread(data, 1, u64::MAX),
                fs.start_fsync(none),
            ]
            .map(|pending| pending.and_then(Pending::wait).map(|done| done.count()))
        });
        let expected = [
            Err(Errno::BADF),
            Err(Errno::BADF),
            Err(Errno::BADF),
            Err(Errno::SPIPE),
            Err(Errno::INVAL),
            Err(Errno::INVAL),
            Err(Errno::BADF),
        ];
        assert_eq!(told, expected, "{name}");
        // What the operation itself meets, and reads at and beyond the end, and of nothing.
        let told = once(session, |fs| {
            let wait = |pending: Result<Pending, Errno>| pending.unwrap().wait().map(|done| done.count());
            [
                wait(fs.start_fsync(end)),
                wait(fs.start_pread(data, 100, 4090)),
                wait(fs.start_pread(data, 0, 0)),
            ]
        });
        assert_eq!(told, [Err(Errno::INVAL), Ok(6), Ok(0)], "{name}");
    });
}

/// An error that nobody looked at is counted.
#[test]
fn errors_of_dropped_operations_are_counted() {
    everywhere(small, |session, name| {
        let (reader, _writer) = std::io::pipe().unwrap();
        let end = give(session, reader);
        once(session, |fs| drop(fs.start_fsync(end).unwrap()));
        let failed = tables(session).failures().find(|failed| failed.call == Call::AioReturn);
        assert_eq!(
            failed.map(|failed| (failed.errno, failed.count)),
            Some((Some(Errno::INVAL), 1)),
            "{name}"
        );
    });
}

/// A receive that waits first takes what came before it, what comes later, and the end.
#[test]
#[expect(unsafe_code, reason = "receives into a registered buffer")]
fn receives_that_wait_first() {
    everywhere(small, |session, name| {
        let buffer = session.register_buffer(4096).unwrap();
        let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        let near = give(session, OwnedFd::from(near));
        far.write_all(b"before").unwrap();
        let asked = DeviceWord::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while asked.observe() == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                far.write_all(b"later").unwrap();
                drop(far);
            });
            once(session, |fs| {
                // SAFETY:
                // - the only part, used by this lane alone, between one receive and the next
                let into = unsafe { buffer.part(0, 64) };
                let mut receive = |expected: &[u8]| {
                    // SAFETY:
                    // - registered memory, which is looked at when the receive is complete
                    let started =
                        unsafe { fs.start_recv_when_ready(near, into.as_mut_ptr(), 64, 0) }.unwrap();
                    asked.fetch_add(u32::from(expected == b"later"));
                    assert_eq!(started.wait().unwrap().count(), expected.len(), "{name}");
                    assert_eq!(&into[..expected.len()], expected, "{name}");
                };
                receive(b"before");
                receive(b"later");
                receive(b"");
            });
        });
    });
}
