//! `write!` of values whose `Display` misbehaves: it panics, fails, prints something else each time, or makes calls of its own. What reaches a file is
//! whole records of calls that returned, and nothing of what other files hold.

use std::fmt;
use std::fs;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use gpufs_core::Claim;
use gpufs_core::alloc::BufferPool;
use gpufs_core::word::DeviceWord;
use gpufs_device::stdio::{Buffering, Whence};
use gpufs_device::{Errno, File, Fs, fprintf, warp};
use gpufs_host::cpu::Schedule;
use gpufs_host::ring::Mode;
use gpufs_host::session::SyncError;
use gpufs_host::{CpuOptions, Session};
use gpufs_tests::closures::assert_works;
use gpufs_tests::{Scratch, each, lanes, once, small, tables};

/// What the buffers hold before a test: another file's bytes.
const SECRET: u8 = b'#';

fn options(width: u32, schedule: Schedule) -> CpuOptions {
    CpuOptions { width, schedule, ..CpuOptions::default() }
}

fn machines() -> impl Iterator<Item = CpuOptions> {
    [1, 32, 64].into_iter().flat_map(|width| {
        [Schedule::Fast, Schedule::Seeded(1), Schedule::Seeded(2)].map(|schedule| options(width, schedule))
    })
}

/// A session in whose every stream buffer lies another file's text.
fn session(scratch: &Scratch, options: &CpuOptions, mode: Mode) -> Session {
    let mut session = small().mode(mode).deadline(gpufs_tests::patience()).cpu_with(options.clone()).unwrap();
    once(&mut session, |fs| {
        let files: Vec<File> =
            (0..12).map_while(|index| fs.fopen(&scratch.c(&format!("secret{index}")), c"w").ok()).collect();
        for file in files {
            file.fwrite(&[SECRET; 64 << 10]).unwrap();
            file.fclose().unwrap();
        }
    });
    session
}

/// What a value does when it is printed, before and behind so many letters.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Panics,
    Fails,
    Flushes,
    FlushesAll,
    Writes,
    WritesMuch,
    Prints,
    Seeks,
    Tells,
    Opens,
    Closes,
    /// Prints fewer letters each time.
    Shrinks,
    /// Prints more letters each time.
    Grows,
}

const ALL: [Does; 13] = [
    Does::Panics,
    Does::Fails,
    Does::Flushes,
    Does::FlushesAll,
    Does::Writes,
    Does::WritesMuch,
    Does::Prints,
    Does::Seeks,
    Does::Tells,
    Does::Opens,
    Does::Closes,
    Does::Shrinks,
    Does::Grows,
];

struct Value<'a> {
    does: Does,
    letters: usize,
    out: File,
    path: &'a std::ffi::CStr,
    times: DeviceWord,
}

fn failed<T>(result: Result<T, Errno>) -> Result<T, fmt::Error> {
    result.map_err(|_| fmt::Error)
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.times.fetch_add_relaxed(1) as usize;
        let mut letters = |count: usize| {
            (0..count.div_ceil(50)).try_for_each(|at| f.write_str(&"v".repeat((count - at * 50).min(50))))
        };
        letters(match self.does {
            Does::Shrinks => self.letters / (time + 1),
            Does::Grows => self.letters * (time + 1),
            _ => self.letters,
        })?;
        match self.does {
            Does::Panics => panic!("while it is printed"),
            Does::Fails => return Err(fmt::Error),
            Does::Flushes => failed(self.out.fflush())?,
            Does::FlushesAll => failed(self.out.fs().fflush_all())?,
            Does::Writes => failed(self.out.fputs(c"[inner]\n"))?,
            Does::WritesMuch => {
                failed(self.out.fwrite(format!("{}\n", "i".repeat(9000)).as_bytes()).map(drop))?;
            }
            Does::Prints => {
                let inner = Value { does: Does::Shrinks, times: DeviceWord::new(0), ..*self };
                failed(writeln!(self.out, "[{inner}]"))?;
            }
            Does::Seeks => failed(self.out.fseek(0, Whence::End))?,
            Does::Tells => failed(self.out.ftell().map(drop))?,
            Does::Opens => failed(self.out.fs().fopen(self.path, c"r").and_then(File::fclose))?,
            Does::Closes => failed(self.out.fclose())?,
            Does::Shrinks | Does::Grows => {}
        }
        letters(self.letters)
    }
}

/// One lane of some prints the value, the others records before and after; what is in the file then.
fn run(
    session: &mut Session,
    scratch: &Scratch,
    does: Does,
    letters: usize,
    how: (&std::ffi::CStr, Buffering),
) -> Vec<u8> {
    let (name, other) = (scratch.c("out"), scratch.c("secret0"));
    let _ = fs::remove_file(scratch.path("out"));
    let out = once(session, |fs| {
        let out = fs.fopen(&name, how.0).unwrap();
        out.setvbuf(how.1, 0).unwrap();
        out
    });
    let outcome = session.run(lanes(6), |_| {
        let thread = warp::global_thread();
        let _ = fprintf!(out, c"before %lu\n", thread);
        if thread == 2 {
            let value = Value { does, letters, out, path: &other, times: DeviceWord::new(0) };
            let result = writeln!(out, "<{value}>");
            match does {
                Does::Fails => assert_eq!(result, Err(Errno::INVAL)),
                Does::Closes => assert_eq!(result, Err(Errno::BADF)),
                _ => result.unwrap(),
            }
        } else if does != Does::Closes {
            fprintf!(out, c"after %lu\n", thread).unwrap();
        }
    });
    match (does, outcome) {
        (Does::Panics, Err(SyncError::Kernel(error))) => {
            assert!(error.to_string().contains("while it is printed"), "{error}");
        }
        (Does::Panics, other) => panic!("{other:?}"),
        (_, outcome) => outcome.unwrap(),
    }
    once(session, |_| if does == Does::Closes { Ok(()) } else { out.fclose() }).unwrap();
    scratch.read("out")
}

#[test]
fn a_display_that_misbehaves_harms_nobody() {
    let scratch = Scratch::new("display");
    for options in machines() {
        let mut session = session(&scratch, &options, Mode::Enter);
        for (index, does) in ALL.into_iter().enumerate() {
            // Within the scratch memory, beyond it, of several runs.
            for letters in [3, 200, 5_000, 40_000] {
                let hows = [(c"w", Buffering::Full), (c"a", Buffering::Line), (c"w+", Buffering::None)];
                let how = hows[(index + letters) % 3];
                let text = run(&mut session, &scratch, does, letters, how);
                let place = format!("{does:?}, {letters} letters, {how:?}, {options:?}");
                assert!(!text.contains(&SECRET), "another file's bytes: {place}");
                let text = String::from_utf8(text).unwrap();
                assert!(!text.contains('\0'), "{place}");
                let lines: Vec<&str> = text.lines().collect();
                let count = |line: &str| lines.iter().filter(|found| **found == line).count();
                let expected = match does {
                    Does::Panics | Does::Fails | Does::Closes => 0,
                    _ => 1,
                };
                let twice = format!("<{}>", "v".repeat(2 * letters));
                assert_eq!(count(&twice), expected, "{place}");
                if does != Does::Closes {
                    for thread in 0..6 {
                        assert_eq!(count(&format!("before {thread}")), 1, "{place}");
                        assert_eq!(count(&format!("after {thread}")), usize::from(thread != 2), "{place}");
                    }
                }
                let inner = match does {
                    Does::Writes => count("[inner]"),
                    Does::Prints => count(&format!("[{}]", "v".repeat(2 * letters))),
                    Does::WritesMuch => count(&"i".repeat(9000)),
                    _ => 1,
                };
                assert_eq!(inner, 1, "{place}");
            }
        }
        assert_works(&mut session);
    }
}

/// All lanes print long texts at once, more than there is memory for: each gets its turn, whole.
#[test]
fn long_texts_of_many_lanes_wait_for_each_other() {
    struct Long(u64);
    impl fmt::Display for Long {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let letter = char::from(b'a' + (self.0 % 26) as u8).to_string();
            (0..300).try_for_each(|_| f.write_str(&letter.repeat(1_000)))
        }
    }
    let scratch = Scratch::new("long-texts");
    for options in
        [options(32, Schedule::Fast), options(64, Schedule::Fast), options(32, Schedule::Seeded(3))]
    {
        let mut session = session(&scratch, &options, Mode::Enter);
        let out = once(&mut session, |fs| fs.fopen(&scratch.c("out"), c"w").unwrap());
        // 19 or 4.8 MB, of which 4 MiB fit.
        let count = if options.schedule == Schedule::Fast { 64 } else { 16 };
        let results = each(&mut session, count, |_, lane| writeln!(out, "{lane} {}", Long(lane)));
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        once(&mut session, |_| out.fclose()).unwrap();
        let text = String::from_utf8(scratch.read("out")).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable_by_key(|line| line.split(' ').next().and_then(|lane| lane.parse::<u64>().ok()));
        let wanted: Vec<String> =
            (0..u64::from(count)).map(|lane| format!("{lane} {}", Long(lane))).collect();
        assert!(lines == wanted, "{} lines", lines.len());
        assert_works(&mut session);
    }
}

/// What no memory holds is refused, an endless text too, and nothing of it is kept or written.
#[test]
fn a_text_longer_than_all_memory_is_refused() {
    struct Endless;
    impl fmt::Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            loop {
                f.write_str("and on ")?;
            }
        }
    }
    let scratch = Scratch::new("endless");
    let mut session = session(&scratch, &CpuOptions::default(), Mode::Enter);
    let out = once(&mut session, |fs| fs.fopen(&scratch.c("out"), c"w").unwrap());
    for _ in 0..3 {
        each(&mut session, 3, |_, lane| match lane {
            0 => assert_eq!(write!(out, "{Endless}"), Err(Errno::NOMEM)),
            1 => assert_eq!(write!(out, "{}", "x".repeat(5 << 20)), Err(Errno::NOMEM)),
            _ => writeln!(out, "short").unwrap(),
        });
        // None of the memory is missing.
        once(&mut session, |_| writeln!(out, "{}", "y".repeat(4_000_000))).unwrap();
    }
    once(&mut session, |_| out.fclose()).unwrap();
    let long = "y".repeat(4_000_000);
    let text = String::from_utf8(scratch.read("out")).unwrap();
    assert!(text.lines().eq(["short", &long].into_iter().cycle().take(6)), "{} bytes", text.len());
}

/// All buffers of the memory for long texts, taken; or every second one of them, so that none is left that lies next to another.
fn taken(pool: &BufferPool, all: bool) -> Vec<Claim> {
    let claims: Vec<Claim> = std::iter::from_fn(|| pool.free.claim_one(0)).collect();
    assert_eq!(claims.len(), pool.free.capacity() as usize);
    let (kept, free): (Vec<_>, Vec<_>) = claims.into_iter().partition(|claim| all || claim.item(0) % 2 == 0);
    free.into_iter().for_each(|claim| pool.free.release(claim));
    kept
}

/// A text waits until there is memory for all of it, beyond the deadline where it could not look again before; what is longer than all memory waits
/// for nothing.
#[test]
fn a_long_text_waits_for_all_of_its_memory() {
    struct Told<'a>(&'a str, &'a DeviceWord);
    impl fmt::Display for Told<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.1.fetch_add_relaxed(1);
            f.write_str(self.0)
        }
    }
    const DEADLINE: Duration = Duration::from_secs(2);
    let scratch = Scratch::in_memory("long-waits");
    let options = CpuOptions { threads: 1, ..CpuOptions::default() };
    let mut session = small().mode(Mode::Enter).deadline(DEADLINE).cpu_with(options).unwrap();
    let out = once(&mut session, |fs| fs.fopen(&scratch.c("out"), c"w").unwrap());
    let pool = &tables(&session).records;
    let (buffers, buffer) = (pool.free.capacity() as usize, pool.buffer_bytes as usize);
    // All that there can be, where each buffer has a head of 16 bytes; and a byte more than there is while every second one is taken.
    let lengths = [(true, buffers * (buffer - 16)), (false, buffers / 2 * (buffer - 16) + 1)];
    let mut wanted = String::new();
    for (all, length) in lengths {
        let (text, times) = ("w".repeat(length), DeviceWord::new(0));
        let claims = Mutex::new(taken(pool, all));
        let printed = each(&mut session, 2, |_, lane| {
            if lane == 1 {
                return writeln!(out, "{}", Told(&text[1..], &times));
            }
            // Ends: the other lane prints.
            while times.peek() == 0 {
                warp::nap(1_000);
            }
            let started = Instant::now();
            // One thread has both lanes: the other does not look meanwhile. Ends: a time.
            while all && started.elapsed() < DEADLINE + DEADLINE / 4 {
                std::hint::spin_loop();
            }
            (0..50).for_each(|_| warp::nap(1_000));
            claims.lock().unwrap().drain(..).for_each(|claim| pool.free.release(claim));
            Ok(())
        });
        assert_eq!((printed, times.peek()), (vec![Ok(()); 2], 2), "{length} bytes");
        wanted += &(text[1..].to_owned() + "\n");
    }
    let started = Instant::now();
    let long = "x".repeat(buffers * buffer);
    assert_eq!(once(&mut session, |_| write!(out, "{long}")), Err(Errno::NOMEM));
    assert!(started.elapsed() < 3 * DEADLINE, "{:?}", started.elapsed());
    once(&mut session, |_| out.fclose()).unwrap();
    assert!(scratch.read("out") == wanted.as_bytes());
    assert_eq!(pool.free.free() as usize, buffers);
}

/// A text that is printed inside of another's `Display`, which has all memory, is refused after the deadline, and the other goes on.
#[test]
fn a_long_text_inside_of_another_is_refused_in_time() {
    const DEADLINE: Duration = Duration::from_secs(2);
    /// Takes all memory and prints another.
    struct Outer<'a>(File, &'a BufferPool, Mutex<Option<(Result<(), Errno>, Duration)>>);
    impl fmt::Display for Outer<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            // Ends: each round takes memory.
            while self.1.free.free() > 0 {
                f.write_str(&"o".repeat(1_000))?;
            }
            let (text, started) = ("i".repeat(1_000), Instant::now());
            let inner = write!(self.0, "{text}");
            *self.2.lock().unwrap() = Some((inner, started.elapsed()));
            Ok(())
        }
    }
    let scratch = Scratch::in_memory("long-inside");
    // A nap is a turn of others, of which there are none: a great many looks in little time.
    let options = options(1, Schedule::Seeded(1));
    let mut session = small().mode(Mode::Enter).deadline(DEADLINE).cpu_with(options).unwrap();
    let pool = &tables(&session).records;
    let (printed, inner) = once(&mut session, |fs| {
        let out = fs.fopen(&scratch.c("out"), c"w").unwrap();
        let outer = Outer(out, pool, Mutex::new(None));
        let printed = write!(out, "{outer}").and_then(|()| out.fclose());
        (printed, outer.2.into_inner().unwrap())
    });
    let (refused, waited) = inner.unwrap();
    assert_eq!((printed, refused), (Ok(()), Err(Errno::NOMEM)));
    assert!(DEADLINE <= waited && waited < 10 * DEADLINE, "{waited:?}");
    let text = scratch.read("out");
    assert!(text.len() > 4_000_000 && text.iter().all(|letter| *letter == b'o'), "{} bytes", text.len());
    assert_eq!(pool.free.free(), pool.free.capacity());
}

/// A panic gives back the memory of its text: 4 MiB would be gone after a few.
#[test]
fn panics_leave_no_memory_taken() {
    let scratch = Scratch::new("texts-kept");
    let mut session = session(&scratch, &CpuOptions::default(), Mode::Enter);
    let out = once(&mut session, |fs| fs.fopen(&scratch.c("out"), c"w").unwrap());
    for _ in 0..8 {
        run(&mut session, &scratch, Does::Panics, 1_000_000, (c"w", Buffering::Full));
    }
    once(&mut session, |_| writeln!(out, "{}", "y".repeat(4_000_000))).unwrap();
    once(&mut session, |_| out.fclose()).unwrap();
}

/// Handles that outlive their session find no memory for texts, and no stream.
#[test]
fn a_long_text_after_the_session() {
    let scratch = Scratch::new("texts-outlive");
    let mut session = session(&scratch, &CpuOptions::default(), Mode::Enter);
    let (out, fs) = once(&mut session, |fs: Fs| (fs.fopen(&scratch.c("out"), c"w").unwrap(), fs));
    drop(session);
    assert_eq!(write!(out, "{}", "x".repeat(200)), Err(Errno::BADF));
    assert!(matches!(write!(out, "{}", "x".repeat(2_000)), Err(Errno::NOMEM | Errno::BADF)));
    assert!(write!(fs.stdout(), "{}", "x".repeat(2_000)).is_err());
}
