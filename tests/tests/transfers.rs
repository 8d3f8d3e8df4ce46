//! What transfers ask of the system, by the operations that are counted: one for neighbouring bytes of a file however many lanes want them, one for
//! memory that is registered however long it is, and of a pipe or a FIFO no more than its state takes.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use gpufs_device::file::{
    Descriptor, IoSlice, IoSliceMut, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, RWF_ATOMIC, RWF_NOWAIT,
};
use gpufs_device::{Errno, Fs, warp};
use gpufs_host::ring::Mode;
use gpufs_host::{CpuOptions, Grid, Session};
use gpufs_tests::random::Random;
use gpufs_tests::{MODES, Scratch, each, once, setting, skip, small, tables, tables_of};

/// Sessions in all modes, of warps of 32 and 64 lanes, in which a wait for another party ends.
fn sessions(test: &str, go: impl Fn(&mut Session, u32)) {
    for mode in MODES {
        for width in [32, 64] {
            let options = CpuOptions { width, ..CpuOptions::default() };
            match small().mode(mode).wait_limit(Duration::from_secs(20)).cpu_with(options) {
                Ok(mut session) => go(&mut session, width),
                Err(refused) => skip(&format!("{test}, {mode}"), refused),
            }
        }
    }
}

/// Operations, bytes read and bytes written of what `calls` does.
fn counted(session: &mut Session, calls: impl FnOnce(&mut Session)) -> (u64, u64, u64) {
    let before = session.statistics().total();
    calls(session);
    let after = session.statistics().total();
    let [one, other] = [before, after].map(|total| [total.operations, total.bytes_read, total.bytes_written]);
    (other[0] - one[0], other[1] - one[1], other[2] - one[2])
}

/// One lane's part of a file.
#[derive(Clone, Copy, Debug)]
struct Part {
    file: usize,
    at: usize,
    bytes: usize,
}

/// Bytes of a staging buffer: no run is longer, so that each is one operation.
const RUN_BYTES_MAX: usize = 4096;

/// Parts of three files, one for most of the lanes, of which many lie behind that of the lane before; and how many runs of such they are.
fn parts(random: &Random, width: u32) -> (Vec<Option<Part>>, u64) {
    let (mut ends, mut runs, mut run) = ([0; 3], 0, (usize::MAX, 0));
    let wanting = random.pick(&[1, 2, 8]);
    let parts = (0..width).map(|_| {
        if random.one_in(wanting) && wanting > 1 {
            return None;
        }
        let bytes = 1 + random.below(if random.one_in(8) { 1500 } else { 60 });
        let goes_on = run.0 != usize::MAX && run.1 + bytes <= RUN_BYTES_MAX && !random.one_in(4);
        if goes_on {
            run.1 += bytes;
        } else {
            run = (random.below(3), bytes);
            ends[run.0] += 1 + random.below(50);
            runs += 1;
        }
        let at = ends[run.0];
        ends[run.0] += bytes;
        Some(Part { file: run.0, at, bytes })
    });
    (parts.collect(), runs)
}

fn byte(file: usize, at: usize) -> u8 {
    (file * 83 + at * 7 % 251 + 1).to_le_bytes()[0]
}

#[test]
fn neighbouring_parts_of_a_file_are_one_operation() {
    let scratch = Scratch::new("transfers-runs");
    let paths = ["0", "1", "2"].map(|name| scratch.c(name));
    sessions("neighbouring_parts_of_a_file_are_one_operation", |session, width| {
        for case in 0..8 {
            let (parts, runs) = parts(&Random::of_case(setting("GPUFS_SEED", 1), case), width);
            let open = |fs: Fs, path| fs.open(path, O_RDWR | O_CREAT | O_TRUNC, 0o600).unwrap();
            let files = once(session, |fs| paths.each_ref().map(|path| open(fs, path)));
            let pass = |session: &mut Session, writing: bool| {
                each(session, width, |fs, lane| {
                    let Some(Part { file, at, bytes }) = parts[lane as usize] else {
                        assert_eq!(fs.pread(Descriptor(u32::MAX), &mut [0], 0), Err(Errno::BADF));
                        return;
                    };
                    let content: Vec<u8> = (at..at + bytes).map(|at| byte(file, at)).collect();
                    if writing {
                        assert_eq!(fs.pwrite(files[file], &content, at as u64), Ok(bytes));
                    } else {
                        let mut got = vec![0; bytes];
                        assert_eq!(fs.pread(files[file], &mut got, at as u64), Ok(bytes));
                        assert_eq!(got, content);
                    }
                });
            };
            let whole: usize = parts.iter().flatten().map(|part| part.bytes).sum();
            let write = |session: &mut Session| pass(session, true);
            assert_eq!(counted(session, write), (runs, 0, whole as u64), "case {case}: {parts:?}");
            let read = |session: &mut Session| pass(session, false);
            assert_eq!(counted(session, read), (runs, whole as u64, 0), "case {case}: {parts:?}");
            for file in 0..3 {
                let mut model = Vec::new();
                for part in parts.iter().flatten().filter(|part| part.file == file) {
                    model.resize(part.at + part.bytes, 0);
                    (part.at..model.len()).for_each(|at| model[at] = byte(file, at));
                }
                assert!(scratch.read(&file.to_string()) == model, "case {case}, file {file}: {parts:?}");
            }
            once(session, |fs| files.iter().for_each(|file| fs.close(*file).unwrap()));
        }
    });
}

/// A file that the host registered and one that the lane opened may have the same number: they are not the same.
#[test]
fn neighbouring_parts_of_files_of_one_number_stay_apart() {
    let scratch = Scratch::new("transfers-numbers");
    sessions("neighbouring_parts_of_files_of_one_number_stay_apart", |session, _| {
        let name = |number: usize| number.to_string();
        let create = |number| std::fs::File::create(scratch.path(&name(number))).unwrap();
        let path = scratch.c("opened");
        let opened = once(session, |fs| fs.open(&path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)).unwrap();
        let registered: Vec<_> =
            (0..48).map(|number| session.register_file(create(number)).unwrap()).collect();
        let number = tables(session).files()[opened.0 as usize].descriptor.peek();
        if !registered.contains(&Descriptor(number)) {
            skip(
                "neighbouring_parts_of_files_of_one_number_stay_apart",
                format_args!("none has number {number}"),
            );
        }
        for file in &registered {
            each(session, 2, |fs, lane| {
                let (file, text) = if lane == 0 { (opened, b"open") } else { (*file, b"regi") };
                assert_eq!(fs.pwrite(file, text, lane * 4), Ok(4));
            });
        }
        assert_eq!(scratch.read("opened"), b"open");
        for (number, file) in registered.into_iter().enumerate() {
            assert_eq!(scratch.read(&name(number)), b"\0\0\0\0regi");
            session.unregister_file(file).unwrap();
        }
        once(session, |fs| fs.close(opened)).unwrap();
    });
}

/// Bytes of a transfer that takes four operations through 16 staging buffers, the most of one lane, and one where memory is registered.
const LONG: usize = 200_000;

#[test]
fn registered_memory_is_one_operation_however_long() {
    let scratch = Scratch::new("transfers-long");
    let path = scratch.c("file");
    sessions("registered_memory_is_one_operation_however_long", |session, _| {
        let buffer = session.register_buffer(3 * LONG).unwrap();
        let file = once(session, |fs| fs.open(&path, O_RDWR | O_CREAT | O_TRUNC, 0o600)).unwrap();
        for (count, registered, operations) in
            [(1, true, Some(1)), (3, true, Some(3)), (1, false, Some(4)), (3, false, None)]
        {
            let long = |session: &mut Session, writing: bool| {
                each(session, count, |fs, lane| {
                    let at = lane as usize * LONG;
                    let mut own = Vec::new();
                    let memory = if registered {
                        // SAFETY:
                        // - a part for each lane, which no other uses
                        unsafe { buffer.part(at, LONG) }
                    } else {
                        own.resize(LONG, 0);
                        &mut own[..]
                    };
                    let content = (at..at + LONG).map(|at| byte(count as usize, at));
                    // Lanes' parts are no neighbours.
                    let place = at as u64 * 2;
                    if writing {
                        memory.iter_mut().zip(content).for_each(|(into, byte)| *into = byte);
                        assert_eq!(fs.pwrite(file, memory, place), Ok(LONG));
                    } else {
                        memory.fill(0);
                        assert_eq!(fs.pread(file, memory, place), Ok(LONG));
                        assert!(content.eq(memory.iter().copied()), "lane {lane}");
                    }
                });
            };
            let bytes = u64::from(count) * LONG as u64;
            for (writing, moved) in [(true, (0, bytes)), (false, (bytes, 0))] {
                let (done, read, written) = counted(session, |session| long(session, writing));
                assert_eq!((read, written), moved);
                assert!(
                    operations.is_none_or(|operations| done == operations),
                    "{count} {registered}: {done}"
                );
            }
        }
        once(session, |fs| fs.close(file)).unwrap();
    });
}

/// Lanes of one call read around a file's end: some into registered memory, some the parts of one run, and some nothing.
#[test]
fn each_lane_gets_what_there_is_of_its_part() {
    let scratch = Scratch::new("transfers-end");
    let path = scratch.c("file");
    let content: Vec<u8> = (0..1000).map(|at| byte(0, at)).collect();
    std::fs::write(scratch.path("file"), &content).unwrap();
    sessions("each_lane_gets_what_there_is_of_its_part", |session, _| {
        let buffer = session.register_buffer(32 * 64).unwrap();
        let file = once(session, |fs| fs.open(&path, O_RDONLY, 0)).unwrap();
        let all = u32::MAX;
        for (in_place, idle) in
            [(0, 0), (all, 0), (0x5555_5555, 0), (0xffff, 0x1010_1010), (1, all - 1), (0, all - 1)]
        {
            each(session, 32, |fs, lane| {
                let is = |set: u32| set >> lane & 1 == 1;
                let (mut own, at) = ([0; 64], 505 + lane as usize * 20);
                let memory = if is(in_place) {
                    // SAFETY:
                    // - a part for each lane, which no other uses
                    unsafe { buffer.part(lane as usize * 64, 64) }
                } else {
                    &mut own[..]
                };
                memory.fill(b'#');
                let expected = &content[at.min(1000)..(at + 20).min(1000)];
                if is(idle) {
                    assert_eq!(fs.pread(Descriptor(u32::MAX), memory, 0), Err(Errno::BADF));
                } else {
                    assert_eq!(fs.pread(file, &mut memory[..20], at as u64), Ok(expected.len()), "{at}");
                    assert_eq!(&memory[..expected.len()], expected);
                    assert!(memory[expected.len()..].iter().all(|byte| *byte == b'#'));
                }
            });
        }
        once(session, |fs| fs.close(file)).unwrap();
    });
}

/// Pieces by the operations that they take: those that are all registered one, however long; others as many as their bytes take of staging memory.
#[test]
fn pieces_are_used_in_place_where_all_are_registered() {
    let scratch = Scratch::new("transfers-pieces");
    let path = scratch.c("file");
    sessions("pieces_are_used_in_place_where_all_are_registered", |session, _| {
        let buffer = session.register_buffer(LONG).unwrap();
        let file = once(session, |fs| fs.open(&path, O_RDWR | O_CREAT | O_TRUNC, 0o600)).unwrap();
        for (unregistered, operations) in [([false, false], 1), ([true, true], 4), ([false, true], 4)] {
            // SAFETY:
            // - one lane uses it, and nothing else
            let (one, other) = unsafe { buffer.part(0, LONG) }.split_at_mut(LONG / 2);
            let (one, other) = (Mutex::new(one), Mutex::new(other));
            let pass = |fs: Fs, writing: bool| {
                let (mut one, mut other) = (one.lock().unwrap(), other.lock().unwrap());
                let mut own = [vec![0; LONG / 2], vec![0; LONG / 2]];
                let [first, second] = &mut own;
                let first = if unregistered[0] { &mut first[..] } else { &mut one[..] };
                let second = if unregistered[1] { &mut second[..] } else { &mut other[..] };
                let content = |at: usize| byte(operations, at);
                if writing {
                    first.iter_mut().enumerate().for_each(|(at, into)| *into = content(at));
                    second.iter_mut().enumerate().for_each(|(at, into)| *into = content(LONG / 2 + at));
                    let pieces = [IoSlice::new(first), IoSlice::new(&[]), IoSlice::new(second)];
                    assert_eq!(fs.pwritev(file, &pieces, 0), Ok(LONG));
                } else {
                    first.fill(0);
                    second.fill(0);
                    let mut pieces =
                        [IoSliceMut::new(first), IoSliceMut::new(&mut []), IoSliceMut::new(second)];
                    assert_eq!(fs.preadv(file, &mut pieces, 0), Ok(LONG));
                    let got = first.iter().chain(second.iter()).copied();
                    assert!(got.eq((0..LONG).map(content)));
                }
            };
            for (writing, moved) in [(true, (0, LONG as u64)), (false, (LONG as u64, 0))] {
                let (done, read, written) = counted(session, |session| once(session, |fs| pass(fs, writing)));
                assert_eq!((done, (read, written)), (operations as u64, moved), "{unregistered:?}");
            }
        }
        // More than a staging buffer names.
        once(session, |fs| {
            // SAFETY:
            // - as above
            let pieces: Vec<_> = unsafe { buffer.part(0, 2400) }.chunks(8).map(IoSlice::new).collect();
            assert_eq!((pieces.len(), fs.pwritev(file, &pieces, 0)), (300, Ok(2400)));
            fs.close(file).unwrap();
        });
    });
}

/// A pipe's ends, registered, of so many bytes at least; `None` where the system allows none so large.
fn pipe(session: &mut Session, bytes: i32) -> Option<(Descriptor, Descriptor, std::io::PipeReader)> {
    let (reader, writer) = std::io::pipe().unwrap();
    // SAFETY:
    // - two numbers
    if bytes > 65_536 && unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) } < bytes {
        return None;
    }
    let own = reader.try_clone().unwrap();
    let ends = [OwnedFd::from(reader), OwnedFd::from(writer)].map(|end| session.register_file(end).unwrap());
    Some((ends[0], ends[1], own))
}

/// A pipe that is ready takes one operation for what one staging area holds, and is asked no more when it is empty.
#[test]
fn pipes_are_tried_without_waiting() {
    sessions("pipes_are_tried_without_waiting", |session, _| {
        let Some((from, to, _own)) = pipe(session, 1 << 20) else {
            return skip("pipes_are_tried_without_waiting", "pipes of a mebibyte are refused");
        };
        for (written, wanted, operations) in
            [(5000, 5000, 1), (5000, 6000, 1), (65_536, 65_536, 1), (100_000, 100_000, 2)]
        {
            let write = |fs: Fs| assert_eq!(fs.write(to, &vec![b'x'; written]), Ok(written));
            assert_eq!(counted(session, |session| once(session, write)), (operations, 0, written as u64));
            let read = |fs: Fs| assert_eq!(fs.read(from, &mut vec![0; wanted]), Ok(written));
            assert_eq!(counted(session, |session| once(session, read)), (operations, written as u64, 0));
        }
        // Memory that is registered needs no area.
        let buffer = session.register_buffer(LONG).unwrap();
        // SAFETY:
        // - used by one lane at a time
        let memory = || unsafe { buffer.part(0, LONG) };
        let write = |fs: Fs| assert_eq!(fs.write(to, memory()), Ok(LONG));
        assert_eq!(counted(session, |session| once(session, write)), (1, 0, LONG as u64));
        let read = |fs: Fs| assert_eq!(fs.read(from, memory()), Ok(LONG));
        assert_eq!(counted(session, |session| once(session, read)), (1, LONG as u64, 0));
        // Where a whole area was filled there may be more: it is asked, and not waited for.
        once(session, |fs| {
            assert_eq!(fs.write(to, &[b'x'; 65_536]), Ok(65_536));
            let started = Instant::now();
            assert_eq!(fs.read(from, &mut [0; 65_537]), Ok(65_536));
            assert!(started.elapsed() < Duration::from_secs(15), "it has waited for what nobody writes");
        });
        for descriptor in [from, to] {
            session.unregister_file(descriptor).unwrap();
        }
    });
}

/// A full pipe is tried, waited for, and tried again: all that was to be written goes at once.
#[test]
fn a_write_to_a_full_pipe_waits_once() {
    sessions("a_write_to_a_full_pipe_waits_once", |session, _| {
        let (_, to, mut own) = pipe(session, 65_536).unwrap();
        once(session, |fs| assert_eq!(fs.write(to, &[b'x'; 65_536]), Ok(65_536)));
        let drained = std::thread::scope(|scope| {
            let rest = scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(30));
                let mut bytes = vec![0; 65_536];
                own.read_exact(&mut bytes).unwrap();
                own
            });
            let write = |fs: Fs| assert_eq!(fs.write(to, &[b'y'; 8192]), Ok(8192));
            let done = counted(session, |session| once(session, write)).0;
            assert!(done == 3 || done == 1, "tried, waited for and tried, if it was still full: {done}");
            rest.join().unwrap()
        });
        drop(drained);
        session.unregister_file(to).unwrap();
    });
}

/// A FIFO is asked when it is ready, for what it holds; its flags are the caller's, but for that which the call itself answers.
#[test]
fn fifos_are_asked_when_they_are_ready() {
    let scratch = Scratch::new("transfers-fifo");
    let path = scratch.c("fifo");
    // SAFETY:
    // - a path with its NUL, alive for the call
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    let own = std::fs::File::options().read(true).write(true).open(scratch.path("fifo")).unwrap();
    sessions("fifos_are_asked_when_they_are_ready", |session, _| {
        let (from, to) =
            once(session, |fs| (fs.open(&path, O_RDONLY, 0).unwrap(), fs.open(&path, O_WRONLY, 0).unwrap()));
        // A poll and a read; more where the system's threads get no core meanwhile.
        let done = (0..50).map(|_| {
            own_write(&own, 8192);
            let read = |fs: Fs| assert_eq!(fs.read(from, &mut [0; 8192]), Ok(8192));
            counted(session, |session| once(session, read)).0
        });
        assert_eq!(done.min(), Some(2));
        own_write(&own, 10);
        once(session, |fs| {
            let mut memory = [0; 4];
            let mut into = [IoSliceMut::new(&mut memory)];
            // `EAGAIN`, too, while the system's threads get no core. Ends: the FIFO is ready.
            let mut read = (0..).map(|_| fs.preadv2(from, &mut into, None, RWF_NOWAIT));
            assert_eq!(read.find(|read| *read != Err(Errno::AGAIN)), Some(Ok(4)));
            // What the system does not know, and what it knows of writes alone.
            for flag in [1 << 30, RWF_ATOMIC] {
                assert_eq!(fs.preadv2(from, &mut into, None, flag), Err(Errno::OPNOTSUPP));
            }
            assert_eq!(fs.read(to, &mut [0; 4]), Err(Errno::BADF));
            assert_eq!(fs.write(from, b"text"), Err(Errno::BADF));
            assert_eq!(fs.read(from, &mut [0; 64]), Ok(6));
            assert_eq!(fs.preadv2(from, &mut into, None, RWF_NOWAIT), Err(Errno::AGAIN));
            fs.close(from).unwrap();
            fs.close(to).unwrap();
        });
    });
}

fn own_write(mut file: &std::fs::File, bytes: usize) {
    file.write_all(&vec![b'x'; bytes]).unwrap();
}

/// Who finds nothing in a FIFO that was ready, as another was faster, waits for the next byte, and does not ask again and again.
#[test]
fn a_reader_that_was_too_late_waits_again() {
    let scratch = Scratch::new("transfers-late");
    let path = scratch.c("fifo");
    // SAFETY:
    // - a path with its NUL, alive for the call
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    let own = std::fs::File::options().read(true).write(true).open(scratch.path("fifo")).unwrap();
    sessions("a_reader_that_was_too_late_waits_again", |session, _| {
        let from = once(session, |fs| fs.open(&path, O_RDONLY, 0).unwrap());
        let done = std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    std::thread::sleep(Duration::from_millis(300));
                    own_write(&own, 1);
                }
            });
            let read = |fs: Fs| assert_eq!(fs.read(from, &mut [0]), Ok(1));
            counted(session, |session| session.run(Grid { blocks: 2, threads: 1 }, read).unwrap())
        });
        assert!(done.0 < 30, "{} operations", done.0);
        once(session, |fs| fs.close(from)).unwrap();
    });
}

/// A lane waits for bytes of a pipe whose descriptor becomes another pipe's: it reads nothing of that, nor of what has the process's number by then.
#[test]
fn a_read_whose_descriptor_is_replaced_touches_no_other() {
    for mode in MODES {
        let options = CpuOptions { width: 1, ..CpuOptions::default() };
        let Ok(mut session) = small().mode(mode).wait_limit(Duration::from_secs(20)).cpu_with(options) else {
            skip("a_read_whose_descriptor_is_replaced_touches_no_other", mode);
            continue;
        };
        let [[from, to], [other, into]] = once(&mut session, |fs| [(); 2].map(|()| fs.pipe().unwrap()));
        let outcomes = Mutex::new([None; 2]);
        session
            .run(Grid { blocks: 2, threads: 1 }, |fs| {
                let lane = warp::global_thread() as usize;
                let outcome = if lane == 0 {
                    fs.read(from, &mut [0; 100])
                } else {
                    while tables_of(fs).queues().iter().all(|queue| queue.waits() == 0) {
                        warp::nap(10_000);
                    }
                    fs.write(into, b"of another").unwrap();
                    fs.dup2(other, from).unwrap();
                    // The old number of the process may be this one's now.
                    let (reader, mut writer) = std::io::pipe().unwrap();
                    writer.write_all(b"of nobody").unwrap();
                    // A wait in a ring has the pipe open still, and ends by this; a host thread's has ended.
                    let written = fs.write(to, b"x");
                    while outcomes.lock().unwrap()[0].is_none() {
                        warp::nap(10_000);
                    }
                    drop((reader, writer));
                    written
                };
                outcomes.lock().unwrap()[lane] = Some(outcome);
            })
            .unwrap();
        assert_eq!(outcomes.into_inner().unwrap()[0], Some(Err(Errno::BADF)), "{mode}");
        let left = once(&mut session, |fs| {
            let mut memory = [0; 100];
            fs.read(from, &mut memory).map(|count| memory[..count].to_vec())
        });
        assert_eq!(left, Ok(b"of another".to_vec()), "{mode}");
    }
}

/// The warps of a grid use the rings by turns, each one ring.
#[test]
fn warps_take_the_rings_by_turns() {
    for mode in [Mode::Enter, Mode::Threads] {
        let mut session = match small().rings(4).mode(mode).cpu() {
            Ok(session) => session,
            Err(refused) => return skip("warps_take_the_rings_by_turns", refused),
        };
        let of_rings = |session: &Session| {
            session.statistics().rings.iter().map(|ring| ring.operations).collect::<Vec<_>>()
        };
        let before = of_rings(&session);
        session.run(Grid { blocks: 4, threads: 64 }, |fs| fs.nop().unwrap()).unwrap();
        let done: Vec<_> =
            of_rings(&session).iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(done, [64; 4], "two warps of each ring");
    }
}
