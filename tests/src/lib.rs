//! Helpers shared by the whole-stack tests.
#![deny(unsafe_code)]

pub mod closures;
pub mod compilers;
pub mod differential;
pub mod documents;
pub mod hostile;
pub mod perfetto;
pub mod random;
pub mod returned;
mod seccomp;
pub mod stopped;
pub mod suite;

pub use seccomp::{refuse_call, refuse_call_of};

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpufs_core::session::SessionTables;
use gpufs_core::word::DeviceWord;
use gpufs_device::{Fs, warp};
use gpufs_host::ring::{Mode, RingMemory};
use gpufs_host::{Builder, Grid, Session};

/// All ways to serve a ring.
pub const MODES: [Mode; 3] = [Mode::Sqpoll, Mode::Enter, Mode::Threads];

/// All ways to make a ring's memory.
pub const MEMORIES: [RingMemory; 3] = RingMemory::BEST_FIRST;

/// A grid of one block.
#[must_use]
pub const fn lanes(threads: u32) -> Grid {
    Grid { blocks: 1, threads }
}

/// Says that a test did not run, or a part of it.
pub fn skip(name: &str, reason: impl std::fmt::Display) {
    println!("SKIP {name}: {reason}");
}

/// A number from the environment.
///
/// # Panics
/// If what is there is none.
#[must_use]
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// How long a wait that must end may take: the disk of a busy machine can stand still for tens of seconds. `GPUFS_PATIENCE_S` chooses.
#[must_use]
pub fn patience() -> Duration {
    Duration::from_secs(setting("GPUFS_PATIENCE_S", 240))
}

/// A session with one ring and small tables: 64 stream buffers of 4 KiB.
#[must_use]
pub fn small() -> Builder {
    Session::builder()
        .rings(1)
        .ring_entries(128)
        .blocks_per_stream(4)
        .stream_buffer(4096)
        .buffers(512 << 10)
        .files(64)
        .streams(32)
        .deadline(patience())
}

/// A directory for one test, removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new one.
    ///
    /// # Panics
    /// If the system refuses.
    #[must_use]
    pub fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(Self::name(test));
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Self(path)
    }
    /// A new one where files are in memory, for a test whose deadline is shorter than a disk may take; where there is none such, on a disk.
    ///
    /// # Panics
    /// If the system refuses.
    #[must_use]
    pub fn in_memory(test: &str) -> Self {
        let path = Path::new("/dev/shm").join(Self::name(test));
        if std::fs::create_dir(&path).is_ok() { Self(path) } else { Self::new(test) }
    }
    fn name(test: &str) -> String {
        static COUNT: DeviceWord = DeviceWord::new(0);
        format!("gpufs-{test}-{}-{}", std::process::id(), COUNT.fetch_add_relaxed(1))
    }
    /// The directory itself.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0
    }
    /// A path in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    /// The same for kernels.
    #[must_use]
    pub fn c(&self, name: &str) -> CString {
        c_path(&self.path(name))
    }
    /// What a file in it holds.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("a file that the test made")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind is only litter.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A path for kernels.
///
/// # Panics
/// If it holds a NUL.
#[must_use]
pub fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).expect("a path without NUL")
}

/// Runs `kernel` in one warp of `count` lanes, each with its index: their results in lane order.
///
/// # Panics
/// If a lane did, or the streams could not be flushed.
pub fn each<T: Send>(session: &mut Session, count: u32, kernel: impl Fn(Fs, u64) -> T + Sync) -> Vec<T> {
    let results = Mutex::new(Vec::new());
    session
        .run(lanes(count), |fs| {
            let lane = warp::global_thread();
            let result = kernel(fs, lane);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((lane, result));
        })
        .expect("the kernel and the flush behind it");
    let mut results = results.into_inner().expect("no lane died with the lock");
    results.sort_by_key(|(lane, _)| *lane);
    results.into_iter().map(|(_, result)| result).collect()
}

/// What a lane's `call` comes to, once that is `wanted`, or at last, for what comes soon: the system lets the last of a pipe's end go a moment
/// after its close has completed. It is called less often than a pipe has places.
pub fn soon<T: PartialEq>(mut call: impl FnMut() -> T, wanted: T) -> T {
    let mut calls = (0..14).map(|count| {
        warp::nap(50_000 << count);
        call()
    });
    calls.find(|came| *came == wanted).unwrap_or_else(call)
}

/// A session's tables, for tests that look at them, or move what is in them, as nothing else does at the time.
#[must_use]
#[expect(unsafe_code, reason = "tests know the rules")]
pub fn tables(session: &Session) -> &'static SessionTables {
    // SAFETY:
    // - of an open session; what is read are words
    unsafe { session.tables() }
}

/// [`tables`], in a kernel.
#[must_use]
#[expect(unsafe_code, reason = "tests know the rules")]
pub fn tables_of(fs: Fs) -> &'static SessionTables {
    // SAFETY:
    // - as in `tables`
    unsafe { fs.tables() }
}

/// Runs `kernel` in one lane: its result.
///
/// # Panics
/// As [`each`].
pub fn once<T: Send>(session: &mut Session, kernel: impl Fn(Fs) -> T + Sync) -> T {
    each(session, 1, |fs, _| kernel(fs)).pop().expect("one lane's result")
}

/// One thread's record of one round: `"thread round letters\n"`, with `letters` of them.
///
/// # Panics
/// Never.
#[must_use]
pub fn record(thread: u64, round: u32, letters: usize) -> CString {
    let letter = b'a' + ((thread + u64::from(round)) % 26) as u8;
    let mut text = format!("{thread} {round} ").into_bytes();
    text.resize(text.len() + letters, letter);
    text.push(b'\n');
    CString::new(text).expect("no NUL")
}

/// How long `body` takes, and what it returns.
pub fn timed<T>(body: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let result = body();
    (started.elapsed(), result)
}
