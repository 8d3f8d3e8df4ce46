//! A lane keeps a stream for several calls (`flockfile`, `File::locked`), and lines of any length (`getline`), on CPU lanes: whole grids, some with
//! seeds, so that lanes meet in every order.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpufs_core::stream::Stream;
use gpufs_core::word::DeviceWord;
use gpufs_device::stdio::{LineBuffer, LineStep, Whence};
use gpufs_device::{Errno, File, Fs, fprintf, fscanf, warp};
use gpufs_host::cpu::Schedule;
use gpufs_host::ring::Mode;
use gpufs_host::{CpuOptions, Grid, Session};
use gpufs_tests::random::Random;
use gpufs_tests::{Scratch, each, once, small, tables_of};

fn session(schedule: Schedule) -> Session {
    let options = CpuOptions { schedule, ..CpuOptions::default() };
    small().mode(Mode::Enter).deadline(gpufs_tests::patience()).cpu_with(options).unwrap()
}

fn schedules(seeds: u64) -> impl Iterator<Item = Schedule> {
    std::iter::once(Schedule::Fast).chain((0..seeds).map(Schedule::Seeded))
}

/// Memory of a kernel's lane on a CPU.
struct Memory(Vec<u8>);

impl LineBuffer for Memory {
    fn memory(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn grow(&mut self, bytes: usize) -> Result<(), Errno> {
        self.0.resize(bytes, 0xee);
        Ok(())
    }
}

/// Each lane of a grid writes three pieces that belong together; in between it takes the stream again, and others write without.
#[test]
fn what_a_kept_stream_takes_is_one_unit() {
    let scratch = Scratch::new("keeping");
    for schedule in schedules(4) {
        let mut session = session(schedule);
        let name = format!("{schedule:?}");
        let file = once(&mut session, |fs| fs.fopen(&scratch.c(&name), c"w").unwrap());
        let grid = Grid { blocks: 3, threads: 48 };
        let ran = session.run(grid, |_| {
            let thread = warp::global_thread();
            match thread % 3 {
                0 => {
                    file.flockfile().unwrap();
                    fprintf!(file, c"<%lu ", thread).unwrap();
                    file.flockfile().unwrap();
                    file.fputs(c"and ").unwrap();
                    file.funlockfile().unwrap();
                    writeln!(file, "{thread}>").unwrap();
                    file.funlockfile().unwrap();
                }
                1 => {
                    let both = file.locked(|file| {
                        fprintf!(file, c"<%lu and", thread)?;
                        fprintf!(file, c" %lu>\n", thread)
                    });
                    both.unwrap().unwrap();
                }
                _ => drop(fprintf!(file, c"<%lu and %lu>\n", thread, thread).unwrap()),
            }
        });
        ran.unwrap_or_else(|error| panic!("{schedule:?}: {error}"));
        once(&mut session, |_| file.fclose().unwrap());
        let text = String::from_utf8(scratch.read(&name)).unwrap();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let mut wanted: Vec<_> = (0..144).map(|thread| format!("<{thread} and {thread}>")).collect();
        lines.sort();
        wanted.sort();
        assert_eq!(lines, wanted, "{schedule:?}");
    }
}

/// Lanes that call together get the stream in lane order.
#[test]
fn lanes_keep_a_stream_in_lane_order() {
    let scratch = Scratch::new("keeping-order");
    let mut session = session(Schedule::Fast);
    let file = once(&mut session, |fs| fs.fopen(&scratch.c("order"), c"w").unwrap());
    each(&mut session, 32, |_, lane| {
        file.flockfile().unwrap();
        fprintf!(file, c"%lu", lane).unwrap();
        file.fputs(c" ").unwrap();
        file.funlockfile().unwrap();
    });
    let wanted: String = (0..32).map(|lane| format!("{lane} ")).collect();
    assert_eq!(String::from_utf8(scratch.read("order")), Ok(wanted));
}

/// While one lane keeps the stream the others of its warp make every kind of call on it together with it, and wait.
#[test]
fn the_holder_goes_on_in_calls_that_its_warp_makes_together() {
    let scratch = Scratch::new("keeping-together");
    for schedule in schedules(6) {
        let mut session = session(schedule);
        fs::write(scratch.path("lines"), "a line\n".repeat(64)).unwrap();
        let (file, other) = once(&mut session, |fs| {
            let file = fs.fopen(&scratch.c("lines"), c"r+").unwrap();
            (file, fs.fopen(&scratch.c("other"), c"w").unwrap())
        });
        let told = each(&mut session, 8, |fs, lane| {
            if lane == 5 {
                file.flockfile().unwrap();
            }
            let mut memory = [0; 16];
            assert_eq!(file.fgets(&mut memory).unwrap(), Some(c"a line\n"));
            assert_eq!(file.fread(&mut memory[..7]), Ok(7));
            let position = file.ftell().unwrap();
            file.fseek(0, Whence::Current).unwrap();
            fs.fflush_all().unwrap();
            assert_eq!(file.ungetc(b'x'), Ok(Some(b'x')));
            assert_eq!(file.fgetc().map(|byte| byte.is_some()), Ok(true));
            file.clearerr();
            other.fputs(c"text").unwrap();
            if lane == 5 {
                file.funlockfile().unwrap();
            }
            position
        });
        if schedule == Schedule::Fast {
            assert!(
                told.iter().enumerate().all(|(lane, position)| lane == 5 || *position > told[5]),
                "{told:?}"
            );
        }
        assert_eq!(told[5] % 7, 0);
    }
}

/// `fflush(NULL)` and writing by a warp of which a lane, whichever it is, keeps a stream: it does not wait for the others, which wait for it.
#[test]
fn who_keeps_a_stream_flushes_all_streams_beside_its_warp() {
    let scratch = Scratch::in_memory("keeping-all");
    for (schedule, keeper) in schedules(4).flat_map(|schedule| [0, 1, 7].map(|keeper| (schedule, keeper))) {
        let builder = small().mode(Mode::Enter).deadline(Duration::from_secs(5));
        let mut session = builder.cpu_with(CpuOptions { schedule, ..CpuOptions::default() }).unwrap();
        let file = once(&mut session, |fs| fs.fopen(&scratch.c("log"), c"w").unwrap());
        let kept = DeviceWord::new(0);
        let told = each(&mut session, 8, |fs, lane| {
            if lane == keeper {
                file.flockfile().unwrap();
                file.fputs(c"kept").unwrap();
                kept.set(1);
            }
            while kept.peek() == 0 {
                warp::nap(1_000);
            }
            let flushed = fs.fflush_all();
            file.fputs(if lane == keeper { c"kept" } else { c"." }).unwrap();
            if lane == keeper {
                file.funlockfile().unwrap();
            }
            flushed
        });
        assert_eq!(told, [Ok(()); 8], "{schedule:?}, {keeper}");
        assert_eq!(scratch.read("log"), b"keptkept.......");
        once(&mut session, |_| file.fclose().unwrap());
    }
}

#[test]
fn only_who_keeps_a_stream_lets_it_go() {
    let scratch = Scratch::new("keeping-errors");
    let mut session = session(Schedule::Fast);
    once(&mut session, |fs| {
        let file = fs.fopen(&scratch.c("mine"), c"w+").unwrap();
        assert_eq!(file.funlockfile(), Err(Errno::PERM));
        assert_eq!(file.ftrylockfile(), Ok(true));
        assert_eq!(file.ftrylockfile(), Ok(true));
        assert_eq!((file.funlockfile(), file.funlockfile()), (Ok(()), Ok(())));
        assert_eq!(file.funlockfile(), Err(Errno::PERM));
        // Closing it ends the keeping; the next stream of the entry is free.
        file.flockfile().unwrap();
        file.fclose().unwrap();
        assert_eq!((file.flockfile(), file.funlockfile()), (Err(Errno::BADF), Err(Errno::BADF)));
        assert_eq!(file.ftrylockfile(), Err(Errno::BADF));
        assert_eq!(file.locked(|_| ()), Err(Errno::BADF));
        let streams: Vec<File> = (0..20).map(|_| fs.fopen(&scratch.c("mine"), c"w").unwrap()).collect();
        for stream in streams {
            // An old handle of an entry that the lane keeps anew.
            stream.flockfile().unwrap();
            assert_eq!(file.fputs(c"x"), Err(Errno::BADF));
            stream.fclose().unwrap();
        }
    });
    // Of two lanes one gets it.
    let file = once(&mut session, |fs| fs.fopen(&scratch.c("two"), c"w").unwrap());
    let told = each(&mut session, 2, |_, _| file.ftrylockfile());
    assert_eq!(told, [Ok(true), Ok(false)]);
}

/// A lane that closes what a lane beside it keeps waits by itself: that lane goes on, closes another one, and lets it go.
#[test]
fn who_closes_what_another_keeps_waits_alone() {
    let scratch = Scratch::new("keeping-closed");
    let mut session = small().mode(Mode::Enter).deadline(Duration::from_secs(10)).cpu().unwrap();
    for _ in 0..8 {
        let open = |name| fs_open(&scratch, name);
        let [kept, other] = ["kept", "other"].map(|name| once(&mut session, open(name)));
        let keeps = DeviceWord::new(0);
        each(&mut session, 2, |_, lane| {
            if lane == 0 {
                kept.flockfile().unwrap();
                keeps.publish(1);
                other.fclose().unwrap();
                kept.fputs(c"text").unwrap();
                kept.funlockfile().unwrap();
            } else {
                while keeps.observe() == 0 {
                    warp::nap(1000);
                }
                kept.fclose().unwrap();
            }
        });
        assert_eq!(scratch.read("kept"), b"text");
    }
}

fn fs_open(scratch: &Scratch, name: &str) -> impl Fn(Fs) -> File + Sync {
    let path = scratch.c(name);
    move |fs| fs.fopen(&path, c"w").unwrap()
}

/// The same thread of another kernel, which runs at the same time, is another lane.
#[test]
fn threads_of_two_kernels_are_two_lanes() {
    let scratch = Scratch::new("keeping-kernels");
    let mut session = session(Schedule::Fast);
    let file = once(&mut session, |fs| fs.fopen(&scratch.c("log"), c"w").unwrap());
    let steps = Arc::new(DeviceWord::new(0));
    let reach = |steps: &DeviceWord, step| {
        while steps.peek() < step {
            warp::nap(1_000);
        }
    };
    let one = Grid { blocks: 1, threads: 1 };
    let told = Arc::clone(&steps);
    session
        .launch(one, move |_| {
            file.flockfile().unwrap();
            told.set(1);
            reach(&told, 2);
            file.funlockfile().unwrap();
            told.set(3);
        })
        .unwrap();
    session
        .launch(one, move |_| {
            reach(&steps, 1);
            assert_eq!(file.ftrylockfile(), Ok(false), "the other keeps it");
            assert_eq!(file.funlockfile(), Err(Errno::PERM));
            steps.set(2);
            reach(&steps, 3);
            assert_eq!(file.ftrylockfile(), Ok(true));
            file.funlockfile().unwrap();
        })
        .unwrap();
    session.synchronize().unwrap();
}

/// A lane that ends while it keeps a stream: what it wrote is written, and the next kernel, with the same threads, finds the stream free.
#[test]
fn a_lane_that_ends_keeps_nothing() {
    let scratch = Scratch::new("keeping-ends");
    for schedule in schedules(1) {
        let mut session = session(schedule);
        let file = once(&mut session, |fs| fs.fopen(&scratch.c("log"), c"w").unwrap());
        once(&mut session, |_| {
            file.flockfile().unwrap();
            file.flockfile().unwrap();
            file.fputs(c"first\n").unwrap();
        });
        assert_eq!(scratch.read("log"), b"first\n");
        each(&mut session, 4, |_, lane| {
            if lane == 0 {
                assert_eq!(file.funlockfile(), Err(Errno::PERM));
            }
            file.fputs(c"then\n").unwrap();
        });
        assert_eq!(scratch.read("log"), b"first\nthen\nthen\nthen\nthen\n");
        // One that panics.
        let ran = session.run(Grid { blocks: 1, threads: 1 }, |_| {
            file.flockfile().unwrap();
            panic!("while it keeps the stream");
        });
        assert!(ran.is_err());
        once(&mut session, |_| file.fclose().unwrap());
    }
}

/// A lane that waits for a stream which is never let go meets the session's deadline, with a report that names the stream's lock.
#[test]
fn a_stream_that_is_never_let_go_is_reported() {
    let scratch = Scratch::in_memory("keeping-deadline");
    let mut session = small().mode(Mode::Enter).deadline(Duration::from_secs(2)).cpu().unwrap();
    let file = once(&mut session, |fs| fs.fopen(&scratch.c("log"), c"w").unwrap());
    let ran = session.run(Grid { blocks: 1, threads: 2 }, |_| {
        if warp::global_thread() == 0 {
            file.flockfile().unwrap();
        } else {
            warp::nap(1_000_000);
            file.fputs(c"never\n").unwrap();
        }
    });
    let error = ran.unwrap_err().to_string();
    assert!(error.contains("StreamLock"), "{error}");
    once(&mut session, |_| file.fputs(c"again\n").unwrap());
    assert_eq!(scratch.read("log"), b"again\n");
}

/// Lines from none to many buffers long, to lanes that have little memory at first, by a delimiter of their own or the newline.
#[test]
fn lines_of_any_length_come_whole_and_in_lane_order() {
    let scratch = Scratch::new("getline");
    for (schedule, delimiter) in schedules(3).flat_map(|schedule| [(schedule, b'\n'), (schedule, b';')]) {
        let random = Random::new(u64::from(delimiter));
        let lengths = [0, 1, 2, 57, 58, 59, 119, 120, 121, 500, 4095, 4096, 4097, 20_000];
        let lines: Vec<Vec<u8>> = (0..200)
            .map(|line| {
                let length = random.pick(&lengths);
                let mut text = vec![b'a' + (line % 26) as u8; length];
                text.push(delimiter);
                text
            })
            .collect();
        // The last line has no end.
        let text = [lines.concat(), b"rest".to_vec()].concat();
        fs::write(scratch.path("lines"), &text).unwrap();
        let mut session = session(schedule);
        let file = once(&mut session, |fs| fs.fopen(&scratch.c("lines"), c"r").unwrap());
        let taken = Mutex::new(BTreeMap::new());
        let ran = session.run(Grid { blocks: 2, threads: 20 }, |_| {
            let thread = warp::global_thread();
            let mut memory = Memory(Vec::new());
            for round in 0_u64.. {
                let Some(length) = file.getdelim(delimiter, &mut memory).unwrap() else { break };
                assert_eq!(memory.0[length], 0);
                taken.lock().unwrap().insert((thread, round), memory.0[..length].to_vec());
            }
        });
        ran.unwrap_or_else(|error| panic!("{schedule:?}: {error}"));
        let mut taken: Vec<Vec<u8>> = taken.into_inner().unwrap().into_values().collect();
        let mut wanted = [lines.clone(), vec![b"rest".to_vec()]].concat();
        taken.sort();
        wanted.sort();
        assert!(taken == wanted, "{schedule:?}: {} lines of {}", taken.len(), wanted.len());
        if schedule == Schedule::Fast {
            // A warp alone: in lane order.
            once(&mut session, |_| file.rewind());
            let first = each(&mut session, 32, |_, _| {
                let mut memory = Memory(Vec::new());
                let length = file.getdelim(delimiter, &mut memory).unwrap().unwrap();
                memory.0.truncate(length);
                memory.0
            });
            assert!(first == lines[..32], "{delimiter}");
        }
    }
}

#[test]
fn a_line_that_finds_no_memory_can_be_read_on() {
    let scratch = Scratch::new("getline-memory");
    fs::write(scratch.path("lines"), "a line that is long\nshort\n").unwrap();
    let mut session = session(Schedule::Fast);
    once(&mut session, |fs| {
        let file = fs.fopen(&scratch.c("lines"), c"r").unwrap();
        let mut memory = [0xee; 8];
        assert_eq!(file.getline(&mut &mut memory[..]), Err(Errno::NOMEM));
        assert_eq!(&memory, b"a line \0");
        assert_eq!(file.funlockfile(), Err(Errno::PERM));
        assert_eq!(file.ungetc(b'>'), Ok(Some(b'>')));
        let mut line = Memory(Vec::new());
        assert_eq!(file.getline(&mut line), Ok(Some(14)));
        assert_eq!(&line.0[..15], b">that is long\n\0");
        assert_eq!(file.getline(&mut &mut memory[..]), Ok(Some(6)));
        assert_eq!((file.getline(&mut line), file.feof()), (Ok(None), true));
        assert_eq!(file.getline(&mut &mut memory[..1]), Err(Errno::NOMEM));
        assert_eq!(file.getdelim_step(b'x', &mut memory, 7), Err(Errno::INVAL));
        file.fclose().unwrap();
        assert_eq!(file.getline(&mut line), Err(Errno::BADF));
    });
}

/// Lines that were read ahead are taken by callers that want lines, and by no others: those that name another delimiter get what they ask for.
#[test]
fn delimiters_of_their_own_are_seen_beside_lines_that_were_read_ahead() {
    let line = "the first half;and the second half\n";
    let scratch = Scratch::new("getdelim-ahead");
    fs::write(scratch.path("lines"), line.repeat(4000)).unwrap();
    let builder = small().mode(Mode::Enter).ring_entries(512).buffers(2 << 20).read_ahead(128 << 10);
    let mut session = builder.cpu().unwrap();
    let file = once(&mut session, |fs| fs.fopen(&scratch.c("lines"), c"r").unwrap());
    let got = each(&mut session, 32, |fs, _| {
        let next = |delimiter| {
            let mut memory = Memory(vec![0; 120]);
            let length = file.getdelim(delimiter, &mut memory).unwrap().unwrap();
            memory.0.truncate(length);
            String::from_utf8(memory.0).unwrap()
        };
        assert!((0..20).all(|_| next(b'\n') == line));
        let open = |stream: &Stream| stream.generation.peek() % 2 == 1 && stream.lines.is_open();
        let opened = tables_of(fs).streams().iter().any(open);
        (opened, next(b';'), next(b'\n'))
    });
    for (lane, (opened, piece, behind)) in got.iter().enumerate() {
        assert!(*opened, "lines are read ahead");
        assert_eq!(piece, if lane == 0 { "the first half;" } else { "and the second half\nthe first half;" });
        assert_eq!(behind, if lane == 0 { "and the second half\n" } else { line });
    }
    once(&mut session, |_| file.fclose().unwrap());
}

/// A lane that keeps a stream keeps it at the end of the file, too, with any room for a line; and a line that is none leaves the memory as it is.
#[test]
fn a_stream_stays_kept_at_the_end_of_its_file() {
    let scratch = Scratch::new("keeping-end");
    fs::write(scratch.path("lines"), "1\n2\n").unwrap();
    let builder = small().mode(Mode::Enter).ring_entries(512).buffers(2 << 20).read_ahead(128 << 10);
    let mut session = builder.cpu().unwrap();
    let file = once(&mut session, |fs| fs.fopen(&scratch.c("lines"), c"r").unwrap());
    let tried = DeviceWord::new(0);
    let told = each(&mut session, 2, |_, lane| {
        if lane == 1 {
            while tried.peek() == 0 {
                warp::nap(1_000);
            }
            return vec![file.ftrylockfile().unwrap()];
        }
        file.flockfile().unwrap();
        let mut memory = [b'#'; 4];
        while file.getline(&mut &mut memory[..]).unwrap().is_some() {}
        memory = [b'#'; 4];
        let step = file.getdelim_step(b'\n', &mut memory, 0);
        let other = file.getdelim_step(b';', &mut memory, 0);
        let ended = (step, other) == (Ok(LineStep::End), Ok(LineStep::End)) && memory == [b'#'; 4];
        let nothing = file.fgets(&mut memory[..1]).unwrap().is_some_and(CStr::is_empty);
        let none = file.fgets(&mut memory).unwrap().is_none() && memory == *b"\0###";
        let mut number = 0;
        let scanned = fscanf!(file, c"%d", &mut number).unwrap().is_none();
        tried.set(1);
        for _ in 0..100 {
            warp::nap(10_000);
        }
        vec![ended, nothing, none, scanned, file.funlockfile().is_ok()]
    });
    assert_eq!(told, [vec![true; 5], vec![false]]);
}
