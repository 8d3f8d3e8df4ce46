//! Chains of operations that lanes start together and wait for later, in each mode: they are done in order, whole or not at all, and nothing is left
//! over ([R-CHAIN-1] to [R-CHAIN-5]).

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use gpufs_core::word::DeviceWord;
use gpufs_device::aio::{BYTES_MAX, LINKS_MAX, Link, Pending, wait_all, wait_any};
use gpufs_device::file::Descriptor;
use gpufs_device::{Errno, Fs, warp};
use gpufs_host::cpu::Schedule;
use gpufs_host::{CpuOptions, Grid, Session};
use gpufs_tests::{MODES, Scratch, each, once, skip, small, tables};

/// Staging memory of asynchronous operations in a [`small`] session.
const BUFFERS: u32 = 32;

/// A session in each mode, of warps of some widths, and with seeded schedules.
fn everywhere(mut test: impl FnMut(&mut Session, &str)) {
    let fast = [1, 32, 64].map(|width| (width, Schedule::Fast));
    let kinds: Vec<_> = fast.into_iter().chain((0..3).map(|seed| (32, Schedule::Seeded(seed)))).collect();
    for mode in MODES {
        for &(width, schedule) in &kinds {
            let name = format!("{mode}, width {width}, {schedule:?}");
            let options = CpuOptions { width, schedule, ..CpuOptions::default() };
            match small().mode(mode).report_failures(false).cpu_with(options) {
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
    for queue in tables(session).queues() {
        assert_eq!((queue.free_slots(), queue.waits()), (queue.capacity(), 0), "{name}: slots and counts");
    }
    assert_eq!(tables(session).async_buffers.free.free(), BUFFERS, "{name}: staging memory");
}

fn give(session: &mut Session, file: impl Into<OwnedFd>) -> Descriptor {
    Descriptor(session.register_file(file.into()).unwrap().0)
}

/// A file that is made for a test to read and write.
fn made(session: &mut Session, scratch: &Scratch, name: &str, content: &[u8]) -> Descriptor {
    std::fs::write(scratch.path(name), content).unwrap();
    let file = File::options().read(true).write(true).open(scratch.path(name)).unwrap();
    give(session, file)
}

/// Starts again until there is room; a lane that does so holds nothing that others wait for.
fn until_started<const N: usize>(fs: Fs, links: [Link<'_>; N]) -> [Pending; N] {
    loop {
        match fs.start_chain(links) {
            Ok(started) => return started,
            Err(Errno::AGAIN) => warp::nap(1_000),
            Err(errno) => panic!("{errno:?}"),
        }
    }
}

fn count(pending: Pending) -> Result<usize, Errno> {
    pending.wait().map(|done| done.count())
}

/// Lanes copy pieces of a file, each by a read, a write of what was read, and a sync; some lanes have shorter chains meanwhile.
#[test]
fn what_is_read_is_written_in_order() {
    const PIECE: u64 = 200;
    let scratch = Scratch::new("chains-copy");
    let content: Vec<u8> = (0..64 * PIECE).map(|at| (at * 7 % 251) as u8).collect();
    everywhere(|session, name| {
        let from = made(session, &scratch, "from", &content);
        let to = made(session, &scratch, "to", b"");
        let right = each(session, 64, |fs, lane| {
            let offset = lane * PIECE;
            let read = Link::Pread { descriptor: from, bytes: PIECE as usize, offset };
            let written = Link::PwriteRead { descriptor: to, offset };
            if lane % 3 == 0 {
                let [read, written] = until_started(fs, [read, written]);
                return (count(read), count(written)) == (Ok(200), Ok(200));
            }
            let [read, written, synced] = until_started(fs, [read, written, Link::Fdatasync(to)]);
            let synced = count(synced) == Ok(0);
            let mut bytes = [0; PIECE as usize];
            // The bytes are with the write.
            let copied = written.wait_into(&mut bytes);
            let own = (offset..).zip(bytes).all(|(at, byte)| byte == (at * 7 % 251) as u8);
            synced && own && copied == Ok(200) && count(read) == Ok(200)
        });
        assert_eq!(right, [true; 64], "{name}");
        assert!(scratch.read("to") == content, "{name}");
    });
}

/// In the order of the links: each writes over what the one before wrote.
#[test]
fn links_are_done_in_order() {
    let scratch = Scratch::new("chains-order");
    everywhere(|session, name| {
        let out = made(session, &scratch, "out", b"");
        each(session, 48, |fs, lane| {
            for round in 0..4_u64 {
                let offset = (lane * 4 + round) * 3;
                let write = |from| Link::Pwrite { descriptor: out, from, offset };
                let links = until_started(fs, [write(b"aaa"), write(b"bb"), write(b"c")]);
                // The last first. Some not at all: these keep their room until the session synchronizes.
                for (place, link) in links.into_iter().enumerate().rev() {
                    match lane {
                        0..6 if (round, place) == (0, 1) => drop(link),
                        6..12 if (round, place) == (1, 2) => std::mem::forget(link),
                        _ => assert_eq!(count(link), Ok(3 - place)),
                    }
                }
            }
        });
        assert!(scratch.read("out") == b"cba".repeat(48 * 4), "{name}");
    });
}

#[test]
fn what_fails_or_is_short_ends_its_chain() {
    let scratch = Scratch::new("chains-end");
    everywhere(|session, name| {
        let (from, to) =
            (made(session, &scratch, "from", b"0123"), made(session, &scratch, "to", b"untouched"));
        let outcomes = once(session, |fs| {
            let read = Link::Pread { descriptor: from, bytes: 10, offset: 0 };
            let write = Link::Pwrite { descriptor: to, from: b"W", offset: 0 };
            // No file is so long.
            let failing = Link::Pwrite { descriptor: to, from: b"W", offset: i64::MAX.cast_unsigned() };
            let short =
                fs.start_chain([read, Link::PwriteRead { descriptor: to, offset: 0 }, Link::Fsync(to)]);
            let short = short.unwrap().map(count);
            let failed = fs.start_chain([Link::Fsync(to), failing, write]).unwrap().map(count);
            let untouched = scratch.read("to");
            let always = fs.start_sequence([read, failing, write, Link::Fsync(to)]).unwrap().map(count);
            (short, failed, untouched, always)
        });
        let (short, [synced, failing, cancelled], untouched, always) = outcomes;
        assert_eq!(short, [Ok(4), Err(Errno::CANCELED), Err(Errno::CANCELED)], "{name}");
        assert_eq!((synced, cancelled), (Ok(0), Err(Errno::CANCELED)), "{name}");
        assert!(matches!(failing, Err(Errno::INVAL | Errno::FBIG)), "{name}: {failing:?}");
        assert_eq!(untouched, b"untouched", "{name}");
        assert_eq!(always, [Ok(4), failing, Ok(1), Ok(0)], "{name}");
        assert_eq!(scratch.read("to"), b"Wntouched", "{name}");
    });
}

#[test]
fn wrong_chains_are_refused_and_hold_nothing() {
    let scratch = Scratch::new("chains-wrong");
    everywhere(|session, name| {
        let file = made(session, &scratch, "file", b"0123");
        let read_only = give(session, File::open(scratch.path("file")).unwrap());
        let (reader, _writer) = std::io::pipe().unwrap();
        let pipe = Descriptor(session.register_file(OwnedFd::from(reader)).unwrap().0);
        let refused = once(session, |fs| {
            let large = vec![0; BYTES_MAX + 1];
            let read = Link::Pread { descriptor: file, bytes: 4, offset: 0 };
            let again = Link::PwriteRead { descriptor: file, offset: 0 };
            let sync = Link::Fsync(file);
            let refused = |links: &[Link<'_>], always| fs.start_links(links, always).map(drop).unwrap_err();
            [
                refused(&[], false),
                refused(&[sync; LINKS_MAX + 1], false),
                refused(&[again], false),
                refused(&[sync, again], false),
                refused(&[read, again, again], false),
                refused(&[read, again], true),
                refused(&[sync, Link::Pwrite { descriptor: file, from: &large, offset: 0 }], false),
                refused(&[sync, Link::Pread { descriptor: file, bytes: 1, offset: 1 << 63 }], false),
                refused(&[sync, Link::Fsync(Descriptor(1 << 20))], false),
                refused(&[sync, Link::Pwrite { descriptor: read_only, from: b"x", offset: 0 }], false),
                refused(&[sync, Link::Pread { descriptor: pipe, bytes: 1, offset: 0 }], false),
            ]
        });
        let mut expected = [Errno::INVAL; 11];
        (expected[8], expected[9], expected[10]) = (Errno::BADF, Errno::BADF, Errno::SPIPE);
        assert_eq!(refused, expected, "{name}");
        assert_eq!(scratch.read("file"), b"0123", "{name}");
    });
}

/// All of a chain or nothing: with more lanes than there is room for, chains of four begin again and again, beside calls that need slots too.
#[test]
fn chains_share_few_slots() {
    let scratch = Scratch::new("chains-slots");
    everywhere(|session, name| {
        let out = made(session, &scratch, "out", &[b'.'; 128 * 8]);
        each(session, 128, |fs, lane| {
            let offset = lane * 8;
            for _ in 0..3 {
                let sync = Link::Fdatasync(out);
                let write = |from| Link::Pwrite { descriptor: out, from, offset };
                let links = until_started(fs, [write(b"11111111"), sync, write(b"2222"), sync]);
                assert_eq!(links.map(count), [Ok(8), Ok(0), Ok(4), Ok(0)]);
                let mut bytes = [0; 8];
                assert_eq!(fs.pread(out, &mut bytes, offset), Ok(8));
                assert_eq!(&bytes, b"22221111");
            }
        });
        assert!(scratch.read("out") == b"22221111".repeat(128), "{name}");
    });
}

/// As many chains as may be, and then `EAGAIN`; one that ends makes room for another, and a chain that finds no room for its last link gets none.
#[test]
fn a_chain_without_room_is_eagain() {
    let scratch = Scratch::new("chains-room");
    everywhere(|session, name| {
        let out = made(session, &scratch, "out", b"");
        let (chains, single, after) = once(session, |fs| {
            let sync = Link::Fsync(out);
            let mut held = vec![fs.start_chain([sync; 3]).unwrap()];
            let mut chains = 1;
            while let Ok(links) = fs.start_chain([sync; 3]) {
                held.push(links);
                chains += 1;
                assert!(chains < 1000);
            }
            // Two are left of the count.
            let single = [fs.start_fsync(out), fs.start_fsync(out), fs.start_fsync(out)];
            let single = single.map(|started| started.and_then(count));
            if let Some(links) = held.pop() {
                assert_eq!(links.map(count), [Ok(0); 3]);
            }
            let after = fs.start_chain([sync; 3]).map(|links| links.map(count));
            held.into_iter().for_each(|links| assert_eq!(links.map(count), [Ok(0); 3]));
            (chains, single, after)
        });
        assert_eq!(chains, 10, "{name}: of 32 operations");
        assert_eq!(single, [Ok(0), Ok(0), Err(Errno::AGAIN)], "{name}");
        assert_eq!(after, Ok([Ok(0); 3]), "{name}");
    });
}

/// A link is waited for with a limit, and asked to end, as any operation.
#[test]
fn links_are_operations() {
    let scratch = Scratch::new("chains-wait");
    everywhere(|session, name| {
        let out = made(session, &scratch, "out", b"");
        let results = each(session, 16, |fs, lane| {
            let write = Link::Pwrite { descriptor: out, from: b"x", offset: lane };
            let [written, synced] = until_started(fs, [write, Link::Fsync(out)]);
            // It ends by itself, or is cancelled on the way.
            let asked = synced.cancel();
            let synced = synced.wait_for(Duration::from_secs(100)).map(|done| done.count());
            let limited = written.wait_for(Duration::from_secs(100)).map(|done| done.count());
            (asked.is_ok(), limited, synced)
        });
        for (asked, written, synced) in results {
            assert!(asked && written == Ok(1), "{name}: {written:?}");
            assert!(matches!(synced, Ok(0) | Err(Errno::CANCELED | Errno::INTR)), "{name}: {synced:?}");
        }
        assert_eq!(scratch.read("out"), [b'x'; 16], "{name}");
    });
}

/// A chain that is refused is not counted and holds no memory, however often.
#[test]
fn a_chain_without_memory_is_eagain() {
    let scratch = Scratch::new("chains-memory");
    everywhere(|session, name| {
        let out = made(session, &scratch, "out", b"");
        once(session, |fs| {
            let read = Link::Pread { descriptor: out, bytes: BYTES_MAX, offset: 0 };
            let held: Vec<_> = std::iter::from_fn(|| fs.start_pread(out, BYTES_MAX, 0).ok()).collect();
            for _ in 0..100 {
                assert_eq!(fs.start_chain([read; 2]).map(drop), Err(Errno::AGAIN), "{name}");
            }
            let sync = Link::Fsync(out);
            assert_eq!(fs.start_chain([sync; 3]).map(|links| links.map(count)), Ok([Ok(0); 3]), "{name}");
            held.into_iter().for_each(|pending| assert_eq!(count(pending), Ok(0)));
        });
    });
}

/// One operation after the other that is complete when it is dropped: more than there is memory for.
#[test]
fn what_is_complete_and_dropped_gives_back_what_it_held() {
    let scratch = Scratch::new("chains-dropped");
    everywhere(|session, name| {
        let data = made(session, &scratch, "data", b"0123456789");
        let refused = once(session, |fs| {
            for round in 0..u64::from(BUFFERS) + 4 {
                let pending = fs.start_pread(data, 4, round % 8)?;
                wait_all([&pending])?;
            }
            Ok::<_, Errno>(())
        });
        assert_eq!(refused, Ok(()), "{name}");
    });
}

/// Of several that are in flight, `wait_all` waits for each, and takes nothing.
#[test]
fn all_are_complete_behind_a_wait_for_all() {
    everywhere(|session, name| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let end = give(session, reader);
        let begun = DeviceWord::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while begun.observe() == 0 {
                    thread::yield_now();
                }
                // The lane waits by then, or comes later and finds what it would wait for.
                thread::sleep(Duration::from_millis(5));
                writer.write_all(b"ab").unwrap();
            });
            let known = once(session, |fs| {
                let both = [fs.start_read(end, 1).unwrap(), fs.start_read(end, 1).unwrap()];
                begun.publish(1);
                wait_all(&both).unwrap();
                both.map(|one| (one.is_known_done(), count(one)))
            });
            assert_eq!(known, [(true, Ok(1)); 2], "{name}");
        });
    });
}

/// A lane that waits for one of several looks at each one's ring: the first, which never ends, does not hide the second, of a warp that has ended.
#[test]
fn one_of_several_is_of_another_ring() {
    let scratch = Scratch::new("chains-rings");
    for mode in MODES {
        let builder = small().rings(2).mode(mode).report_failures(false);
        let Ok(mut session) = builder.cpu_with(CpuOptions { width: 1, ..CpuOptions::default() }) else {
            skip("one_of_several_is_of_another_ring", mode);
            continue;
        };
        let data = made(&mut session, &scratch, "data", b"0123456789");
        let (reader, _writer) = std::io::pipe().unwrap();
        let end = give(&mut session, reader);
        let handed = Mutex::new(None);
        let waited = Mutex::new(None);
        session
            .run(Grid { blocks: 2, threads: 1 }, |fs| {
                if warp::global_thread() == 1 {
                    *handed.lock().unwrap() = Some(fs.start_pread(data, 4, 0).unwrap());
                    return;
                }
                let other = loop {
                    let taken = handed.lock().unwrap().take();
                    match taken {
                        Some(pending) => break pending,
                        None => warp::nap(10_000),
                    }
                };
                let all = [fs.start_read(end, 1).unwrap(), other];
                *waited.lock().unwrap() = Some(wait_any(&all, Some(Duration::from_secs(20))));
                let [_, other] = all;
                assert_eq!(count(other), Ok(4));
            })
            .unwrap();
        assert_eq!(waited.into_inner().unwrap(), Some(Ok(1)), "{mode}");
    }
}

/// A lane's wait for a pipe and another's for a file begin together: the second ends, and its lane writes what the first waits for.
#[test]
fn a_wait_for_a_lane_of_the_same_warp_holds_that_up_in_nothing() {
    let scratch = Scratch::new("chains-apart");
    everywhere(|session, name| {
        let data = made(session, &scratch, "data", b"0123456789");
        let (reader, writer) = std::io::pipe().unwrap();
        let (from, to) = (give(session, reader), give(session, writer));
        let counts = each(session, 2, |fs, lane| {
            let pending =
                if lane == 0 { fs.start_read(from, 1) } else { fs.start_pread(data, 4, 0) }.unwrap();
            let counted = count(pending);
            if lane == 1 {
                assert_eq!(fs.write(to, b"x"), Ok(1));
            }
            counted
        });
        assert_eq!(counts, [Ok(1), Ok(4)], "{name}");
    });
}

/// A read that is late takes two operations: itself and its cancel. Now and then the kernel needs longer for that, and is asked again.
#[test]
fn what_is_late_is_cancelled_once() {
    everywhere(|session, name| {
        let (reader, _writer) = std::io::pipe().unwrap();
        let end = give(session, reader);
        let operations = |session: &Session| session.statistics().total().operations;
        let fewest = (0..10).map(|_| {
            let before = operations(session);
            let late = once(session, |fs| {
                fs.start_read(end, 1).unwrap().wait_for(Duration::from_micros(10)).map(|done| done.count())
            });
            assert_eq!(late, Err(Errno::TIMEDOUT), "{name}");
            operations(session) - before
        });
        assert_eq!(fewest.min(), Some(2), "{name}");
    });
}

/// A device without a position takes any offset, as with `pread` and `pwrite`.
#[test]
fn a_device_without_a_position_takes_offsets() {
    everywhere(|session, name| {
        let zero = give(session, File::options().read(true).write(true).open("/dev/zero").unwrap());
        let counts = once(session, |fs| {
            let read = count(fs.start_pread(zero, 8, 5)?);
            let written = count(fs.start_pwrite(zero, b"abc", 7)?);
            Ok::<_, Errno>((read, written))
        });
        assert_eq!(counts, Ok((Ok(8), Ok(3))), "{name}");
    });
}

/// A thread of the host's looks until its operation is complete: each look lets the service go on that is parked while no kernel runs.
#[test]
fn a_thread_of_the_hosts_looks() {
    let scratch = Scratch::new("chains-host");
    for mode in MODES {
        let builder = small().idle(Duration::from_millis(1)).mode(mode).report_failures(false);
        let Ok(mut session) = builder.cpu() else {
            skip("a_thread_of_the_hosts_looks", mode);
            continue;
        };
        let data = made(&mut session, &scratch, "data", b"0123456789");
        // The thread that polls the ring sleeps by then.
        thread::sleep(Duration::from_millis(20));
        let fs = session.fs();
        for _ in 0..3 {
            let pending = fs.start_pread(data, 4, 0).unwrap();
            let started = std::time::Instant::now();
            while !pending.is_done() {
                assert!(started.elapsed() < Duration::from_secs(20), "{mode}");
            }
            assert_eq!(count(pending), Ok(4), "{mode}");
        }
    }
}
