//! Pipes and counters in kernels, in each mode and warp width: what arrives, who waits, how waits end, wrong use; and in a sandbox.

use std::fs;
use std::io::{Read, Write};
use std::sync::Mutex;
use std::time::Duration;

use gpufs_device::file::{
    Descriptor, O_APPEND, O_CLOEXEC, O_CREAT, O_NONBLOCK, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, Whence,
};
use gpufs_device::pipe::{
    EFD_CLOEXEC, EFD_NONBLOCK, EFD_SEMAPHORE, SPLICE_F_MORE, SPLICE_F_MOVE, SPLICE_F_NONBLOCK,
};
use gpufs_device::socket::{AF_UNIX, POLLERR, POLLHUP, POLLIN, POLLOUT, PollFd, SOCK_STREAM};
use gpufs_device::{Errno, Fs, fprintf, warp};
use gpufs_host::{CpuOptions, Grid, Sandbox, Session};
use gpufs_tests::closures::{is_child, run_child};
use gpufs_tests::{MODES, Scratch, each, once, skip, small, soon, tables_of};

const WIDTHS: [u32; 2] = [1, 32];

/// Calls `body` with a session in each mode, of warps of each width, without a sandbox and in one that allows nothing.
fn everywhere(name: &str, mut body: impl FnMut(&mut Session)) {
    for mode in MODES {
        for width in WIDTHS {
            for confined in [false, true] {
                let options = CpuOptions { width, ..CpuOptions::default() };
                let mut builder = small().mode(mode).wait_limit(Duration::from_secs(60));
                if confined {
                    builder = builder.sandbox(Sandbox::new());
                }
                match builder.cpu_with(options) {
                    Ok(mut session) => body(&mut session),
                    Err(refused) => skip(&format!("{name}: {mode}, {width}, {confined}"), refused),
                }
            }
        }
    }
}

fn events(fs: Fs, descriptor: Descriptor) -> i16 {
    let mut all = [PollFd { fd: descriptor.0.cast_signed(), events: POLLIN | POLLOUT, revents: 0 }];
    fs.poll(&mut all, 0).unwrap();
    all[0].revents
}

fn text(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at * 7 + seed * 13) % 251) as u8).collect()
}

/// More than a pipe holds: the writers wait for the readers, who are lanes of the same warp.
#[test]
fn lanes_of_one_warp_write_and_read_a_pipe() {
    everywhere("lanes_of_one_warp_write_and_read_a_pipe", |session| {
        let pipes: Vec<[Descriptor; 2]> = each(session, 4, |fs, _| fs.pipe().unwrap());
        each(session, 8, |fs, lane| {
            let ([from, to], seed) = (pipes[lane as usize / 2], lane as usize / 2);
            let wanted = text(200_000 + seed, seed);
            if lane % 2 == 0 {
                for part in wanted.chunks(70_001) {
                    assert_eq!(fs.write(to, part), Ok(part.len()));
                }
                fs.close(to).unwrap();
            } else {
                let (mut came, mut bytes) = (Vec::new(), vec![0; 9_000]);
                while let count @ 1.. = fs.read(from, &mut bytes).unwrap() {
                    came.extend_from_slice(&bytes[..count]);
                }
                assert!(came == wanted, "{lane}");
                fs.close(from).unwrap();
            }
        });
    });
}

#[test]
fn streams_work_on_a_pipe() {
    everywhere("streams_work_on_a_pipe", |session| {
        once(session, |fs| {
            let [from, to] = fs.pipe().unwrap();
            let (reader, writer) = (fs.fdopen(from, c"r").unwrap(), fs.fdopen(to, c"w").unwrap());
            assert_eq!(fprintf!(writer, c"%d lines\nand more\n", 2), Ok(17));
            writer.fflush().unwrap();
            let mut line = [0; 32];
            assert_eq!(reader.fgets(&mut line).unwrap(), Some(c"2 lines\n"));
            writer.fclose().unwrap();
            assert_eq!(reader.fgets(&mut line).unwrap(), Some(c"and more\n"));
            assert_eq!(reader.fgets(&mut line).unwrap(), None);
            reader.fclose().unwrap();
        });
    });
}

#[test]
fn ends_of_a_pipe_are_what_they_are() {
    everywhere("ends_of_a_pipe_are_what_they_are", |session| {
        once(session, |fs| {
            let mut bytes = [0; 8];
            let [from, to] = fs.pipe2(O_NONBLOCK | O_CLOEXEC).unwrap();
            assert_eq!((events(fs, from), events(fs, to)), (0, POLLOUT));
            assert_eq!(fs.read(from, &mut bytes), Err(Errno::AGAIN));
            assert_eq!(fs.write(from, b"x"), Err(Errno::BADF));
            assert_eq!(fs.read(to, &mut bytes), Err(Errno::BADF));
            assert_eq!(fs.lseek(from, 0, Whence::Current), Err(Errno::SPIPE));
            assert_eq!(fs.pread(from, &mut bytes, 0), Err(Errno::SPIPE));
            // Fills it: what was taken is counted, and then nothing is.
            let taken = fs.write(to, &vec![7; 1 << 20]).unwrap();
            assert!((4096..1 << 20).contains(&taken), "{taken}");
            assert_eq!(fs.write(to, b"x"), Err(Errno::AGAIN));
            assert_eq!((events(fs, from), events(fs, to)), (POLLIN, 0));
            let (mut left, mut all) = (taken, vec![0; 1 << 20]);
            while left > 0 {
                left -= fs.read(from, &mut all).unwrap();
            }
            assert_eq!(fs.write(to, b"last"), Ok(4));
            fs.close(to).unwrap();
            assert_eq!(soon(|| events(fs, from), POLLIN | POLLHUP), POLLIN | POLLHUP);
            assert_eq!((fs.read(from, &mut bytes), &bytes[..4]), (Ok(4), &b"last"[..]));
            assert_eq!(fs.read(from, &mut bytes), Ok(0));
            fs.close(from).unwrap();
            assert_eq!(fs.close(from), Err(Errno::BADF));
            // Nobody reads, and no signal comes.
            let [from, to] = fs.pipe().unwrap();
            fs.close(from).unwrap();
            assert_eq!(soon(|| fs.write(to, b"x"), Err(Errno::PIPE)), Err(Errno::PIPE));
            assert_eq!(events(fs, to), POLLOUT | POLLERR);
            fs.close(to).unwrap();
            // Packets, notifications, and what is no flag.
            for flags in [0o40_000, 0o200, O_NONBLOCK | 1] {
                assert_eq!(fs.pipe2(flags), Err(Errno::INVAL), "{flags:o}");
            }
        });
    });
}

#[test]
fn a_full_table_has_no_room_for_a_pipe() {
    everywhere("a_full_table_has_no_room_for_a_pipe", |session| {
        let counts = [(); 2].map(|()| {
            once(session, |fs| {
                let mut made = Vec::new();
                let full = loop {
                    match fs.pipe() {
                        Ok(ends) => made.extend(ends),
                        Err(errno) => break errno,
                    }
                };
                assert_eq!(full, Errno::MFILE);
                // One entry may be left, and is not lost.
                while let Ok(one) = fs.eventfd(0, 0) {
                    made.push(one);
                }
                assert_eq!(fs.eventfd(0, 0), Err(Errno::MFILE));
                let count = made.len();
                made.into_iter().for_each(|one| fs.close(one).unwrap());
                count
            })
        });
        assert!(counts[0] > 50 && counts[0] == counts[1], "{counts:?}");
    });
}

/// Each lane waits for the one before it.
#[test]
fn lanes_wake_each_other_by_counters() {
    everywhere("lanes_wake_each_other_by_counters", |session| {
        let counters: Vec<Descriptor> = each(session, 8, |fs, _| fs.eventfd(0, EFD_CLOEXEC).unwrap());
        let seen = each(session, 8, |fs, lane| {
            let (own, next) = (counters[lane as usize], counters[(lane as usize + 1) % 8]);
            let mut bytes = [0; 8];
            if lane > 0 {
                assert_eq!(fs.read(own, &mut bytes), Ok(8));
            }
            let count = u64::from_ne_bytes(bytes) + lane + 1;
            assert_eq!(fs.write(next, &count.to_ne_bytes()), Ok(8));
            count
        });
        let mut sum = 0;
        for (lane, seen) in seen.into_iter().enumerate() {
            sum += lane as u64 + 1;
            assert_eq!(seen, sum);
        }
    });
}

#[test]
fn counters_count() {
    everywhere("counters_count", |session| {
        once(session, |fs| {
            let read = |counter| {
                let mut bytes = [0; 16];
                fs.read(counter, &mut bytes).map(|count| {
                    assert_eq!(count, 8);
                    u64::from_ne_bytes(bytes[..8].try_into().unwrap())
                })
            };
            let add = |counter, count: u64| fs.write(counter, &count.to_ne_bytes());
            let counter = fs.eventfd(3, EFD_NONBLOCK).unwrap();
            assert_eq!(add(counter, 4), Ok(8));
            assert_eq!(events(fs, counter), POLLIN | POLLOUT);
            assert_eq!(read(counter), Ok(7));
            assert_eq!(events(fs, counter), POLLOUT);
            assert_eq!(read(counter), Err(Errno::AGAIN));
            // The most that it holds, and then it would wait.
            assert_eq!(add(counter, u64::MAX - 1), Ok(8));
            assert_eq!(events(fs, counter), POLLIN);
            assert_eq!(add(counter, 1), Err(Errno::AGAIN));
            assert_eq!(add(counter, u64::MAX), Err(Errno::INVAL));
            assert_eq!(fs.read(counter, &mut [0; 7]), Err(Errno::INVAL));
            assert_eq!(fs.write(counter, &[0; 7]), Err(Errno::INVAL));
            assert_eq!(fs.lseek(counter, 0, Whence::Set), Err(Errno::SPIPE));
            let same = fs.dup(counter).unwrap();
            fs.close(counter).unwrap();
            assert_eq!(read(same), Ok(u64::MAX - 1));
            fs.close(same).unwrap();
            let semaphore = fs.eventfd(u32::MAX, EFD_SEMAPHORE).unwrap();
            assert_eq!((read(semaphore), read(semaphore)), (Ok(1), Ok(1)));
            fs.close(semaphore).unwrap();
            for flags in [2, 0o40_000, EFD_SEMAPHORE | 0o100] {
                assert_eq!(fs.eventfd(0, flags), Err(Errno::INVAL), "{flags:o}");
            }
        });
    });
}

/// Who waits for what nobody gives is free again when the session says so.
#[test]
fn waits_end_at_the_sessions_limit() {
    for mode in MODES {
        let mut session = match small().mode(mode).wait_limit(Duration::from_millis(100)).cpu() {
            Ok(session) => session,
            Err(refused) => {
                skip(&format!("waits_end_at_the_sessions_limit: {mode}"), refused);
                continue;
            }
        };
        once(&mut session, |fs| {
            let ([from, to], counter) = (fs.pipe().unwrap(), fs.eventfd(0, 0).unwrap());
            assert_eq!(fs.read(from, &mut [0; 8]), Err(Errno::TIMEDOUT));
            assert_eq!(fs.read(counter, &mut [0; 8]), Err(Errno::TIMEDOUT));
            assert_eq!(fs.write(to, b"x"), Ok(1));
            assert_eq!(fs.read(from, &mut [0; 8]), Ok(1));
            for open in [from, to, counter] {
                fs.close(open).unwrap();
            }
        });
    }
}

/// A file's bytes go through two pipes into another file, by lanes that wait for each other.
#[test]
fn lanes_splice_a_file_through_pipes() {
    let scratch = Scratch::new("splice");
    for mode in MODES {
        for width in WIDTHS {
            let options = CpuOptions { width, ..CpuOptions::default() };
            let mut session = match small().mode(mode).wait_limit(Duration::from_secs(60)).cpu_with(options) {
                Ok(session) => session,
                Err(refused) => {
                    skip(&format!("lanes_splice_a_file_through_pipes: {mode}, {width}"), refused);
                    continue;
                }
            };
            let wanted = text(300_000, 3);
            fs::write(scratch.path("from"), &wanted).unwrap();
            let (from, into) = (scratch.c("from"), scratch.c("into"));
            let (one, two, copied) =
                once(&mut session, |fs| (fs.pipe().unwrap(), fs.pipe().unwrap(), fs.pipe().unwrap()));
            let sums = each(&mut session, 4, |fs, lane| {
                let mut all = 0;
                let mut bytes = vec![0; 5_000];
                let file = match lane {
                    0 => fs.open(&from, O_RDONLY, 0).unwrap(),
                    2 => fs.open(&into, O_WRONLY | O_CREAT | O_TRUNC, 0o600).unwrap(),
                    _ => Descriptor(0),
                };
                // Ends: with the file, and then with each pipe.
                loop {
                    let moved = match lane {
                        0 => fs.splice(file, None, one[1], None, 70_000, SPLICE_F_MORE),
                        1 => fs.tee(one[0], copied[1], 40_000, 0).inspect(|seen| {
                            let mut left = *seen;
                            while left > 0 {
                                left -= fs.splice(one[0], None, two[1], None, left, 0).unwrap();
                            }
                        }),
                        2 => fs.splice(two[0], None, file, None, usize::MAX, SPLICE_F_MOVE),
                        _ => fs.read(copied[0], &mut bytes),
                    };
                    match moved.unwrap() {
                        0 => break,
                        count => all += count,
                    }
                }
                let ends = match lane {
                    0 => vec![file, one[1]],
                    1 => vec![one[0], two[1], copied[1]],
                    2 => {
                        assert_eq!(fs.lseek(file, 0, Whence::Current), Ok(300_000));
                        vec![file, two[0]]
                    }
                    _ => vec![copied[0]],
                };
                ends.into_iter().for_each(|end| fs.close(end).unwrap());
                all
            });
            assert_eq!(sums, [300_000; 4], "{mode}, {width}");
            assert!(fs::read(scratch.path("into")).unwrap() == wanted, "{mode}, {width}");
        }
    }
}

/// Files that kernels of a sandbox have open, and no others.
#[test]
fn splices_have_offsets_and_errors() {
    let scratch = Scratch::new("splice-errors");
    let path = scratch.c("file");
    let body = |session: &mut Session| {
        once(session, |fs| {
            let file = fs.open(&path, O_RDWR | O_CREAT | O_TRUNC, 0o600).unwrap();
            let ([from, to], [other, another]) = (fs.pipe().unwrap(), fs.pipe().unwrap());
            let mut bytes = [0; 16];
            fs.pwrite(file, b"0123456789", 0).unwrap();
            let mut offset = 4;
            assert_eq!(fs.splice(file, Some(&mut offset), to, None, 3, 0), Ok(3));
            assert_eq!((offset, fs.lseek(file, 0, Whence::Current)), (7, Ok(0)));
            assert_eq!(fs.splice(file, None, to, None, 2, 0), Ok(2));
            assert_eq!(fs.lseek(file, 0, Whence::Current), Ok(2));
            assert_eq!(fs.tee(from, another, 100, 0), Ok(5));
            assert_eq!(fs.read(other, &mut bytes), Ok(5));
            assert_eq!(&bytes[..5], b"45601");
            let mut offset = 20;
            assert_eq!(fs.splice(from, None, file, Some(&mut offset), 100, 0), Ok(5));
            assert_eq!((offset, fs.pread(file, &mut bytes, 20)), (25, Ok(5)));
            assert_eq!(&bytes[..5], b"45601");
            // The end of the file; nothing.
            assert_eq!(fs.splice(file, Some(&mut 25), to, None, 3, 0), Ok(0));
            assert_eq!(fs.splice(file, None, to, None, 0, 0), Ok(0));
            let quick = SPLICE_F_NONBLOCK;
            assert_eq!(fs.splice(from, None, file, None, 1, quick), Err(Errno::AGAIN));
            assert_eq!(fs.splice(from, None, another, None, 1, quick), Err(Errno::AGAIN));
            assert_eq!(fs.tee(from, another, 1, quick), Err(Errno::AGAIN));
            assert_eq!(fs.splice(file, None, file, None, 1, 0), Err(Errno::INVAL));
            assert_eq!(fs.splice(from, None, to, None, 1, 0), Err(Errno::INVAL));
            assert_eq!(fs.tee(from, to, 1, 0), Err(Errno::INVAL));
            assert_eq!(fs.tee(file, to, 1, quick), Err(Errno::INVAL));
            assert_eq!(fs.splice(file, None, to, None, 1, 16), Err(Errno::INVAL));
            assert_eq!(fs.tee(from, another, 1, 16), Err(Errno::INVAL));
            assert_eq!(fs.splice(from, Some(&mut 0), file, None, 1, 0), Err(Errno::SPIPE));
            assert_eq!(fs.splice(file, None, to, Some(&mut 0), 1, 0), Err(Errno::SPIPE));
            assert_eq!(fs.splice(file, Some(&mut (1 << 63)), to, None, 1, 0), Err(Errno::INVAL));
            assert_eq!(fs.splice(to, None, file, None, 1, 0), Err(Errno::BADF));
            assert_eq!(fs.splice(file, None, from, None, 1, 0), Err(Errno::BADF));
            assert_eq!(fs.splice(Descriptor(60), None, to, None, 1, 0), Err(Errno::BADF));
            assert_eq!(fs.tee(from, Descriptor(60), 1, 0), Err(Errno::BADF));
            let counter = fs.eventfd(1, 0).unwrap();
            assert_eq!(fs.splice(counter, None, to, None, 8, 0), Err(Errno::INVAL));
            let appends = fs.open(&path, O_WRONLY | O_APPEND, 0).unwrap();
            assert_eq!(fs.write(to, b"x"), Ok(1));
            assert_eq!(fs.splice(from, None, appends, None, 1, 0), Err(Errno::INVAL));
            fs.close(from).unwrap();
            let broken = || fs.splice(file, Some(&mut 0), to, None, 1, 0);
            assert_eq!(soon(broken, Err(Errno::PIPE)), Err(Errno::PIPE));
            for open in [file, to, other, another, counter, appends] {
                fs.close(open).unwrap();
            }
        });
    };
    for mode in MODES {
        let inside = Sandbox::new().read_write_create(scratch.path("."));
        for sandbox in [None, Some(inside)] {
            let builder = small().mode(mode);
            let builder = match sandbox {
                Some(sandbox) => builder.sandbox(sandbox),
                None => builder,
            };
            match builder.cpu() {
                Ok(mut session) => body(&mut session),
                Err(refused) => skip(&format!("splices_have_offsets_and_errors: {mode}"), refused),
            }
        }
    }
}

/// What can be seen to be wrong is refused without a question, and in this order: access, the kind of file, then the offset.
#[test]
fn splices_that_are_wrong_are_not_asked() {
    let scratch = Scratch::new("splice-wrong");
    let path = scratch.c("file");
    for mode in MODES {
        let Ok(mut session) = small().mode(mode).wait_limit(Duration::from_millis(100)).cpu() else {
            skip("splices_that_are_wrong_are_not_asked", mode);
            continue;
        };
        let (file, [from, to], [socket, peer], terminal) = once(&mut session, |fs| {
            let file = fs.open(&path, O_RDWR | O_CREAT | O_TRUNC, 0o600).unwrap();
            let terminal = fs.open(c"/dev/ptmx", O_RDWR, 0).unwrap();
            (file, fs.pipe().unwrap(), fs.socketpair(AF_UNIX, SOCK_STREAM, 0).unwrap(), terminal)
        });
        let operations = |session: &Session| session.statistics().total().operations;
        let before = operations(&session);
        once(&mut session, |fs| {
            const LAST: u64 = i64::MAX as u64;
            for (wrong, other) in [(to, socket), (to, terminal), (to, file)] {
                assert_eq!(fs.splice(wrong, None, other, None, 1, 0), Err(Errno::BADF), "{mode}");
                assert_eq!(fs.splice(wrong, Some(&mut 0), other, None, 1, 0), Err(Errno::BADF), "{mode}");
            }
            for other in [socket, peer, terminal] {
                assert_eq!(fs.splice(from, None, other, Some(&mut 0), 1, 0), Err(Errno::INVAL), "{mode}");
                assert_eq!(fs.splice(other, Some(&mut { LAST + 1 }), to, None, 1, 0), Err(Errno::INVAL));
                assert_eq!(fs.splice(other, None, to, None, 1, 0), Err(Errno::INVAL), "{mode}");
            }
            for offset in [0, LAST, LAST + 1, u64::MAX] {
                let (mut of_from, mut of_to) = (offset, offset);
                assert_eq!(fs.splice(from, Some(&mut of_from), file, None, 1, 0), Err(Errno::SPIPE));
                assert_eq!(fs.splice(file, None, to, Some(&mut of_to), 1, 0), Err(Errno::SPIPE));
                assert_eq!((of_from, of_to), (offset, offset));
            }
            for mut beyond in [LAST + 1, u64::MAX] {
                assert_eq!(fs.splice(file, Some(&mut beyond), to, None, 1, 0), Err(Errno::INVAL), "{mode}");
            }
        });
        assert_eq!(operations(&session), before, "{mode}");
        // No bytes at the last offset are nothing, and no error.
        let last = i64::MAX as u64;
        let nothing = once(&mut session, |fs| fs.splice(file, Some(&mut { last }), to, None, 0, 0));
        assert_eq!(nothing, Ok(0), "{mode}");
    }
}

/// A lane waits for bytes of a pipe whose number is closed and given to another: it takes nothing of that. In a process of its own, where nobody
/// else gets the number: something that is never ready would be waited for to the limit.
#[test]
fn a_splice_whose_pipe_is_closed_touches_no_other() {
    let name = "a_splice_whose_pipe_is_closed_touches_no_other";
    if !is_child(name) {
        return run_child(name);
    }
    for mode in MODES {
        let options = CpuOptions { width: 1, ..CpuOptions::default() };
        let Ok(mut session) = small().mode(mode).wait_limit(Duration::from_secs(20)).cpu_with(options) else {
            skip("a_splice_whose_pipe_is_closed_touches_no_other", mode);
            continue;
        };
        let ([from, to], null) =
            once(&mut session, |fs| (fs.pipe().unwrap(), fs.open(c"/dev/null", O_WRONLY, 0).unwrap()));
        let (outcomes, other) = (Mutex::new(Vec::new()), Mutex::new(None));
        session
            .run(Grid { blocks: 2, threads: 1 }, |fs| {
                let outcome = if warp::global_thread() == 0 {
                    fs.splice(from, None, null, None, 100, 0)
                } else {
                    while tables_of(fs).queues().iter().all(|queue| queue.waits() == 0) {
                        warp::nap(10_000);
                    }
                    fs.close(from).unwrap();
                    // The process's number is this one's now, and the session's is nobody's.
                    let (reader, mut writer) = std::io::pipe().unwrap();
                    writer.write_all(b"of another").unwrap();
                    *other.lock().unwrap() = Some(reader);
                    // A wait in a ring has the pipe open still, and ends by this; a host thread's has ended.
                    let _ = fs.write(to, b"x");
                    Ok(0)
                };
                outcomes.lock().unwrap().push((warp::global_thread(), outcome));
            })
            .unwrap();
        let mut outcomes = outcomes.into_inner().unwrap();
        outcomes.sort_by_key(|(lane, _)| *lane);
        assert_eq!(outcomes, [(0, Err(Errno::BADF)), (1, Ok(0))], "{mode}");
        let mut left = Vec::new();
        other.into_inner().unwrap().expect("the second lane has run").read_to_end(&mut left).unwrap();
        assert_eq!(left, b"of another", "{mode}");
    }
}

/// Sockets are refused, and a lane whose peer never comes is free at the session's limit.
#[test]
fn splices_that_cannot_go_on_end() {
    for mode in MODES {
        let Ok(mut session) = small().mode(mode).wait_limit(Duration::from_millis(100)).cpu() else {
            skip("splices_that_cannot_go_on_end", mode);
            continue;
        };
        once(&mut session, |fs| {
            let ([from, to], [_, full]) = (fs.pipe().unwrap(), fs.pipe2(O_NONBLOCK).unwrap());
            let [socket, peer] = fs.socketpair(AF_UNIX, SOCK_STREAM, 0).unwrap();
            assert_eq!(fs.splice(from, None, socket, None, 1, 0), Err(Errno::INVAL));
            assert_eq!(fs.splice(peer, None, to, None, 1, 0), Err(Errno::INVAL));
            let null = fs.open(c"/dev/null", O_WRONLY, 0).unwrap();
            assert_eq!(fs.splice(from, None, null, None, 1, 0), Err(Errno::TIMEDOUT));
            assert_eq!(fs.tee(from, full, 1, 0), Err(Errno::AGAIN));
            assert_eq!(fs.write(to, b"last"), Ok(4));
            assert_eq!(fs.splice(from, None, null, None, 100, 0), Ok(4));
            fs.close(to).unwrap();
            assert_eq!(fs.splice(from, None, null, None, 100, 0), Ok(0));
        });
    }
}
