//! What a session itself does, as a trace that Perfetto opens: spans of its calls, and counters of its rings ([`Builder::trace`]).
//!
//! A thread of the host looks at the rings every [`INTERVAL`]: at the tails of their queues, which lie in the host's memory on every device, and at
//! the counters of `Session::statistics` in the host's tables. Kernels read and write no word for it, and where no trace is asked for nothing of it
//! runs.
//!
//! | track | content |
//! |---|---|
//! | `session N` | spans: `open`, `launch` and `run` with blocks and threads, `synchronize`, `close` |
//! | `ring N in flight`, `submitted`, `completed` | operations; live on every device |
//! | `ring N empty looks`, `slot waits` | as in [`RingStatistics`](super::RingStatistics); live on CPU lanes, of a GPU as of the last `synchronize` |
//! | `failed calls` | likewise |
//!
//! `services` stands for `ring N` where the ring is the service ring. A counter is written when it has changed, at its first look and at its last.
#![expect(unsafe_code, reason = "reads a clock")]

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gpufs_core::session::SessionTables;
use gpufs_core::trace::{CLOCK_BOOTTIME, Event, Is, Kind, Named, Packet, Track, TrackName, Value, name_id};

use super::open_error::OpenError;
use super::{Body, Builder};
use crate::cpu::Grid;
use crate::ring::block_signals;

/// Names the file where the program does not, if it is set and not empty. `%p` in it is the number of the process.
const VARIABLE: &str = "GPUFS_TRACE";
/// Between two looks at the rings.
const INTERVAL: Duration = Duration::from_millis(10);
/// The thread needs little stack.
const STACK_BYTES: usize = 128 << 10;
/// Names of spans, and of their values.
const SPANS: [&str; 5] = ["open", "launch", "run", "synchronize", "close"];
const VALUES: [&str; 2] = ["blocks", "threads"];
/// What is counted of each ring. The first three are live on every device.
const COUNTED: [&str; 5] = ["in flight", "submitted", "completed", "empty looks", "slot waits"];
/// What is counted of the session.
const FAILED: &str = "failed calls";

/// Paths at which this process has begun a trace: later sessions go on behind it, as packets of several traces make one.
static BEGUN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The file, and its state.
#[derive(Debug)]
struct Output {
    file: File,
    failed: Option<io::Error>,
}

/// What the session's calls and the sampling thread share.
#[derive(Debug)]
struct Shared {
    path: PathBuf,
    output: Mutex<Output>,
    /// Of the session's calls; the next is the sampling thread's.
    sequence: u32,
    /// What tells the session's tracks from those of other traces.
    uuid: u64,
    /// How often the queues have begun again. Held while they are looked at, and while they do.
    renewals: Mutex<u64>,
}

/// A session's trace.
#[derive(Debug)]
pub(super) struct SessionTrace {
    shared: Arc<Shared>,
    sampling: Option<(Sender<()>, JoinHandle<()>)>,
}

/// A span of a session's call, which ends when this is dropped.
#[derive(Debug)]
#[must_use = "the span lasts as long as this"]
pub(super) struct Span(Option<Arc<Shared>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `CLOCK_BOOTTIME` in nanoseconds, by which Perfetto shows times.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY:
    // - a place for a time; every Linux that has io_uring has this clock
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let part = |part: i64| u64::try_from(part).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

impl Builder {
    /// Writes what the session does into a file that Perfetto opens (<https://ui.perfetto.dev>): spans of its calls (open, launch, run, synchronize,
    /// close), and, every ten milliseconds, counters of each ring: operations in flight, submitted and completed, looks that found nothing, waits for
    /// a slot; and calls that failed. docs/tracing.md has a sample. `%p` in the path is the number of the process. The first session of a process
    /// that names a path empties the file; later ones write behind it. What kernels write is [`gpufs_device::trace`](mod@gpufs_device::trace)'s.
    ///
    /// A thread of the host reads what is there already: no kernel reads or writes a word for it. Default: the path in the environment variable
    /// `GPUFS_TRACE`, if it is set and not empty; else no trace. A file that cannot be opened is an error of opening the session; one that cannot be
    /// written later is reported on the standard error when the session is closed.
    #[must_use]
    pub fn trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.trace = Some(path.into());
        self
    }
}

/// The path that the builder or the environment names.
fn path_of(chosen: Option<&Path>) -> Option<PathBuf> {
    let named = chosen.map(Path::as_os_str).map(OsString::from).or_else(|| std::env::var_os(VARIABLE))?;
    let mut path = Vec::new();
    let mut rest = named.as_bytes();
    // Ends: the rest gets shorter.
    while let Some(at) = rest.windows(2).position(|pair| pair == b"%p") {
        path.extend(&rest[..at]);
        path.extend(std::process::id().to_string().as_bytes());
        rest = &rest[at + 2..];
    }
    path.extend(rest);
    (!path.is_empty()).then(|| PathBuf::from(OsString::from_vec(path)))
}

impl Shared {
    fn write(&self, packet: &Packet) {
        let mut output = lock(&self.output);
        if output.failed.is_none() {
            let bytes = packet.bytes().unwrap_or_default();
            output.failed = output.file.write_all(bytes).err();
        }
    }
    fn event(&self, event: Event<'_>) {
        let mut packet = Packet::new();
        packet.event(self.sequence, now(), event);
        self.write(&packet);
    }
    /// The number of a track: 0 is the process's, 1 the session's, later ones counters'.
    fn track(&self, number: usize) -> u64 {
        self.uuid + number as u64
    }
    /// Writes what a track is.
    fn describe(&self, sequence: u32, number: usize, is: Is, name: &TrackName) {
        let parent = if number == 0 { 0 } else { self.track(0) };
        let mut packet = Packet::new();
        packet.track(sequence, &Track { uuid: self.track(number), parent, is, name });
        self.write(&packet);
    }
}

impl SessionTrace {
    /// Begins the trace of a session, if one is asked for.
    ///
    /// # Errors
    /// The file cannot be opened or written.
    pub(super) fn begin(builder: &Builder, number: u64) -> Result<Option<Self>, OpenError> {
        let Some(path) = path_of(builder.trace.as_deref()) else { return Ok(None) };
        let refused = |error: io::Error| OpenError::Trace { path: path.clone(), error };
        let mut begun = lock(&BEGUN);
        let first = !begun.contains(&path);
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(refused)?;
        if first {
            file.set_len(0).or_else(of_a_file(&file)).map_err(refused)?;
            begun.push(path.clone());
        }
        drop(begun);
        // Of the time, the process and the session: 45 bits, and 17 for the tracks of one.
        let salt = now() ^ u64::from(std::process::id()) << 40 ^ number << 20;
        let uuid = (salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 19 | 1) << 17;
        let sequence = 1 << 30 | u32::try_from(number % (1 << 28)).unwrap_or(0) << 1;
        let output = Mutex::new(Output { file, failed: None });
        let shared = Shared { path: path.clone(), output, sequence, uuid, renewals: Mutex::new(0) };
        shared.describe(sequence, 0, Is::Process(std::process::id()), &TrackName::new(b"gpufs"));
        let mut packet = Packet::new();
        let name = TrackName::new(b"session ").and_number(number);
        let track = Track { uuid: shared.track(1), parent: shared.track(0), is: Is::Events, name: &name };
        packet.begin(sequence, CLOCK_BOOTTIME, &track);
        shared.write(&packet);
        let spans = SPANS.map(|name| (Named::Event, name));
        for (named, name) in spans.into_iter().chain(VALUES.map(|name| (Named::Value, name))) {
            let mut packet = Packet::new();
            packet.name(sequence, named, name.as_bytes());
            shared.write(&packet);
        }
        if let Some(error) = lock(&shared.output).failed.take() {
            return Err(refused(error));
        }
        Ok(Some(Self { shared: Arc::new(shared), sampling: None }))
    }

    /// Starts to look at the rings of these tables, until [`SessionTrace::stop`].
    ///
    /// # Errors
    /// The system has no thread to give.
    pub(super) fn sample(&mut self, tables: &'static SessionTables) -> io::Result<()> {
        let (stop, stopped) = channel();
        // From here on all that the rings do is counted, whenever the thread comes to run.
        let sampler = Sampler::new(Arc::clone(&self.shared), tables);
        let builder = std::thread::Builder::new().name("gpufs-trace".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || sampler.run(&stopped))?;
        self.sampling = Some((stop, thread));
        Ok(())
    }

    /// Looks at the rings for the last time. Before they are closed.
    pub(super) fn stop(&mut self) {
        if let Some((stop, thread)) = self.sampling.take() {
            drop(stop);
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }

    /// Keeps the rings from being looked at while they begin again.
    pub(super) fn renewing(&self) -> impl Drop {
        let mut renewals = lock(&self.shared.renewals);
        *renewals += 1;
        renewals
    }
}

impl Drop for SessionTrace {
    fn drop(&mut self) {
        self.stop();
        if let Some(error) = &lock(&self.shared.output).failed {
            eprintln!("gpufs: the trace {} is not whole: {error}", self.shared.path.display());
        }
    }
}

/// What is no file of its own length, such as a pipe, cannot be emptied, and need not be.
fn of_a_file(file: &File) -> impl FnOnce(io::Error) -> io::Result<()> {
    let is_file = file.metadata().is_ok_and(|data| data.is_file());
    move |error| if is_file { Err(error) } else { Ok(()) }
}

impl Body {
    /// Begins a span of a call, where the session has a trace.
    pub(super) fn span(&self, name: &'static str) -> Span {
        Span::begin(self.trace.as_ref(), name, None)
    }
    /// [`Body::span`] of a launch.
    pub(super) fn span_of(&self, name: &'static str, grid: Grid) -> Span {
        Span::begin(self.trace.as_ref(), name, Some(grid))
    }
}

impl Span {
    pub(super) fn begin(trace: Option<&SessionTrace>, name: &'static str, grid: Option<Grid>) -> Self {
        debug_assert!(SPANS.contains(&name));
        let Some(trace) = trace else { return Self(None) };
        let names = VALUES.map(|name| name_id(name.as_bytes()));
        let values =
            grid.map_or_else(Vec::new, |Grid { blocks, threads }| vec![blocks.into(), threads.into()]);
        let (name, value_names) = (name_id(name.as_bytes()), &names[..values.len()]);
        trace.shared.event(Event { kind: Kind::Begin, name, track: None, value_names, values: &values });
        Self(Some(Arc::clone(&trace.shared)))
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.event(Event { kind: Kind::End, name: 0, track: None, value_names: &[], values: &[] });
        }
    }
}

/// The thread that looks at the rings.
struct Sampler {
    shared: Arc<Shared>,
    tables: &'static SessionTables,
    renewals: u64,
    /// Tails at the last look, and what they have moved by: submitted and completed.
    rings: Vec<([u32; 2], [u64; 2])>,
    /// The values that were written last.
    written: Vec<Option<u64>>,
}

impl Sampler {
    fn new(shared: Arc<Shared>, tables: &'static SessionTables) -> Self {
        let rings: Vec<_> = tables.all_queues().iter().map(|queue| (tails(queue), [0; 2])).collect();
        let written = vec![None; rings.len() * COUNTED.len() + 1];
        Self { shared, tables, renewals: 0, rings, written }
    }

    fn run(mut self, stopped: &Receiver<()>) {
        block_signals();
        self.describe();
        // Ends: when the session lets go of the other end.
        loop {
            self.look(false);
            if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                return self.look(true);
            }
        }
    }

    fn sequence(&self) -> u32 {
        self.shared.sequence + 1
    }

    /// Begins the sequence, and says what its tracks are.
    fn describe(&self) {
        let mut packet = Packet::new();
        let failed = TrackName::new(FAILED.as_bytes());
        let (uuid, parent) = (self.shared.track(2), self.shared.track(0));
        let track = Track { uuid, parent, is: Is::Counter, name: &failed };
        packet.begin(self.sequence(), CLOCK_BOOTTIME, &track);
        self.shared.write(&packet);
        for ring in 0..self.rings.len() {
            for (at, counted) in COUNTED.iter().enumerate() {
                let name = if ring < self.tables.queues().len() {
                    TrackName::new(b"ring ").and_number(ring as u64)
                } else {
                    TrackName::new(b"services")
                };
                let name = name.and(b" ").and(counted.as_bytes());
                self.shared.describe(self.sequence(), 3 + ring * COUNTED.len() + at, Is::Counter, &name);
            }
        }
    }

    /// Writes the counters that have changed, or all.
    fn look(&mut self, all: bool) {
        let (mut values, renewals) = (Vec::with_capacity(self.written.len()), lock(&self.shared.renewals));
        let failures = self.tables.failures().fold(0_u64, |sum, failed| sum.wrapping_add(failed.count));
        values.push(failures);
        for ((last, moved), queue) in self.rings.iter_mut().zip(self.tables.all_queues()) {
            let now = tails(queue);
            if *renewals == self.renewals {
                for ((moved, now), last) in moved.iter_mut().zip(now).zip(*last) {
                    *moved += u64::from(now.wrapping_sub(last));
                }
            }
            *last = now;
            let counters = queue.counters();
            // ORDERING: relaxed: statistics.
            let counted = [counters.empty_looks.peek(), counters.slot_waits.peek()];
            values.extend([moved[0].saturating_sub(moved[1]), moved[0], moved[1]].into_iter().chain(counted));
        }
        self.renewals = *renewals;
        drop(renewals);
        let time = now();
        for (at, value) in values.into_iter().enumerate() {
            if !all && self.written[at] == Some(value) {
                continue;
            }
            self.written[at] = Some(value);
            let (kind, track) = (Kind::Counter, Some(self.shared.track(2 + at)));
            let event = Event { kind, name: 0, track, value_names: &[], values: &[Value::Unsigned(value)] };
            let mut packet = Packet::new();
            packet.event(self.sequence(), time, event);
            self.shared.write(&packet);
        }
    }
}

/// The tails of a queue: submitted, completed. The completions first, which are never ahead.
fn tails(queue: &gpufs_core::Queue) -> [u32; 2] {
    let completed = queue.progress().cq_tail;
    [queue.progress().sq_tail, completed]
}
