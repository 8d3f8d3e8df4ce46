//! `write!` of values whose `Display` misbehaves: it panics, fails, prints something else each time, or makes calls of its own. What reaches a file is
//! whole records of calls that returned, and nothing of what other files hold.

use std::fmt;
use std::fs;

use gpufs_core::word::DeviceWord;
use gpufs_device::stdio::{Buffering, Whence};
use gpufs_device::{Errno, File, Fs, fprintf, warp};
use gpufs_host::cpu::Schedule;
use gpufs_host::ring::Mode;
use gpufs_host::session::SyncError;
use gpufs_host::{CpuOptions, Session};
use gpufs_tests::closures::assert_works;
use gpufs_tests::{Scratch, each, lanes, once, small};

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
