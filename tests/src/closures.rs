//! Helpers of the tests that belong to CPU lanes alone: kernels there are closures.

use std::ffi::{CStr, CString};
use std::process::{Child, Command, Output, Stdio};

use gpufs_device::stdio::Buffering;
use gpufs_device::{File, fprintf, warp};
use gpufs_host::{Grid, Session};

use crate::{Scratch, each, once, record};

/// Opens, writes, reads and closes in the session: it works.
///
/// # Panics
/// If it does not.
pub fn assert_works(session: &mut Session) {
    let scratch = Scratch::new("works");
    let name = scratch.c("file");
    let out = once(session, |fs| fs.fopen(&name, c"w+").unwrap());
    each(session, 40, |_, lane| fprintf!(out, c"lane %u\n", lane).unwrap());
    let line = once(session, |_| {
        out.rewind();
        let mut line = [0; 64];
        let line = out.fgets(&mut line).unwrap().map(CStr::to_owned);
        out.fclose().unwrap();
        line
    });
    assert_eq!(line.as_deref().map(CStr::to_bytes).and_then(<[u8]>::last), Some(&b'\n'));
    let text = String::from_utf8(scratch.read("file")).unwrap();
    let mut found: Vec<&str> = text.lines().collect();
    let mut wanted: Vec<String> = (0..40).map(|lane| format!("lane {lane}")).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

/// Checks that `text` is made of whole records: `rounds` of each of `threads`, each thread's in order, none missing or doubled.
/// `letters` says how long each is.
///
/// # Panics
/// With the first thing that is wrong.
pub fn check_records(text: &[u8], threads: u64, rounds: u32, letters: impl Fn(u64, u32) -> usize) {
    let mut next = vec![0_u32; usize::try_from(threads).expect("a number of threads")];
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let mut words = line.split(|&byte| byte == b' ').map(String::from_utf8_lossy);
        let mut number = || words.next().and_then(|word| word.parse::<u32>().ok());
        let (Some(thread), Some(round)) = (number(), number()) else {
            panic!("no record: {:?}", String::from_utf8_lossy(line))
        };
        let wanted = record(thread.into(), round, letters(thread.into(), round));
        assert!(line == wanted.as_bytes(), "torn: {:?}", String::from_utf8_lossy(line));
        assert_eq!(next[thread as usize], round, "the next record of thread {thread}");
        next[thread as usize] += 1;
    }
    let missing = next.iter().position(|&count| count != rounds);
    assert_eq!(
        missing,
        None,
        "a thread with too few records; it has {:?}",
        missing.map(|thread| next[thread])
    );
}

/// How a thread writes a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `fprintf`.
    Fprintf,
    /// `fwrite`.
    Fwrite,
    /// One of `fprintf`, `fputs`, `fwrite` and `write!`, by thread and round.
    Mixed,
}

impl Call {
    /// Writes the record of this thread and round.
    ///
    /// # Panics
    /// If the stream refuses it.
    pub fn write(self, out: File, thread: u64, round: u32, letters: usize) {
        let text = record(thread, round, letters);
        let choice = match self {
            Self::Fprintf => 0,
            Self::Fwrite => 2,
            Self::Mixed => (thread / 3 + u64::from(round)) % 4,
        };
        match choice {
            0 => {
                let bytes = text.as_bytes();
                let skip = bytes.len() - 1 - letters;
                let tail = &CString::new(&bytes[skip..bytes.len() - 1]).expect("no NUL");
                fprintf!(out, c"%llu %u %s\n", thread, round, tail.as_c_str()).map(drop)
            }
            1 => out.fputs(&text),
            2 => out.fwrite(text.as_bytes()).map(drop),
            _ => write!(out, "{}", text.to_str().expect("ASCII")),
        }
        .unwrap_or_else(|errno| panic!("thread {thread} round {round}: {errno}"));
    }
}

/// `grid`'s threads print `rounds` records each to one stream; what came of it is checked by [`check_records`].
#[derive(Debug)]
pub struct Printing<'a> {
    /// Who prints.
    pub grid: Grid,
    /// How many records each.
    pub rounds: u32,
    /// `fopen`'s mode.
    pub mode: &'a CStr,
    /// `setvbuf`'s arguments.
    pub buffer: Option<(Buffering, usize)>,
    /// With which calls.
    pub call: Call,
    /// Letters of a record.
    pub letters: fn(u64, u32) -> usize,
}

impl Printing<'_> {
    /// Prints to a file of the scratch directory, and checks it.
    ///
    /// # Panics
    /// If a record is torn, missing, doubled or out of order, or a call failed.
    pub fn run(&self, session: &mut Session, test: &str) {
        let scratch = Scratch::new(test);
        self.run_to(session, &scratch.c("out"));
        let threads = u64::from(self.grid.blocks) * u64::from(self.grid.threads);
        check_records(&scratch.read("out"), threads, self.rounds, self.letters);
    }

    /// Prints to `path`.
    ///
    /// # Panics
    /// If a call failed.
    pub fn run_to(&self, session: &mut Session, path: &CStr) {
        let out = once(session, |fs| {
            let out = fs.fopen(path, self.mode).unwrap();
            if let Some((buffering, bytes)) = self.buffer {
                out.setvbuf(buffering, bytes).unwrap();
            }
            out
        });
        let (rounds, call, letters) = (self.rounds, self.call, self.letters);
        session
            .run(self.grid, |_| {
                let thread = warp::global_thread();
                for round in 0..rounds {
                    call.write(out, thread, round, letters(thread, round));
                }
            })
            .unwrap();
        once(session, |_| out.fclose()).unwrap();
    }
}

/// The name of the variable that tells a child which test it is to run.
const CHILD: &str = "GPUFS_TESTS_CHILD";

/// Whether this process is the one that [`child`] started for `test`.
#[must_use]
pub fn is_child(test: &str) -> bool {
    std::env::var(CHILD).is_ok_and(|name| name == test)
}

/// This test program once more, running `test` alone: for what a whole process has to give, such as limits, signals or users.
///
/// # Panics
/// If the system does not start it.
#[must_use]
pub fn child(test: &str) -> Child {
    Command::new(std::env::current_exe().expect("this program's path"))
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(CHILD, test)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program once more")
}

/// Runs [`child`] to its end, prints its SKIPs, and says what it said if it failed.
///
/// # Panics
/// If the child failed.
pub fn run_child(test: &str) {
    let Output { status, stdout, stderr } = child(test).wait_with_output().expect("the child's end");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    stdout.lines().filter(|line| line.contains("SKIP ")).for_each(|line| println!("{line}"));
    assert!(status.success() && stdout.contains("1 passed"), "{status}\n{stdout}\n{stderr}");
}
