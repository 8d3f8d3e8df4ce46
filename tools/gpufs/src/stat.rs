//! `gpufs stat`: what the sessions of a running process do, again and again, as iostat(1) does for disks.
//!
//! It asks the Linux kernel, not the process: heads and tails of each ring are in `/proc/PID/fdinfo` (proc_pid_fdinfo(5)), processor times of
//! threads in `/proc/PID/task`. So a session has nothing to publish and pays nothing, and what is seen while a kernel runs on a GPU is exact.
//! What the kernel does not know is not here: bytes, and counters in a GPU's memory, which `Session::statistics` has when the kernel has ended;
//! nor the rings of sessions that host threads serve, which are not the kernel's.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// What `stat` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Watched {
    /// The process
    #[arg(value_parser = process)]
    pub(crate) pid: u32,
    /// How often, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: Duration,
    /// How often at most [default: until the process ends]
    #[arg(long, value_name = "LINES")]
    pub(crate) count: Option<u64>,
    /// A JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads how often to look.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|interval| *interval >= Duration::from_millis(10))
        .ok_or_else(|| "it is a number of seconds, 0.01 at least".to_owned())
}

/// Reads the number of a process.
fn process(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "it is the number of a process, such as $(pidof PROGRAM)".to_owned())
}

/// Lines after which the head is said again.
const PAGE: u64 = 20;
/// Ticks of processor times in a second: `USER_HZ`, which Linux has had at 100 on each machine since 2.6.
const TICKS: f64 = 100.0;

/// A ring, as the kernel sees it. The numbers run on, modulo 2³².
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ring {
    submitted: u32,
    taken: u32,
    completed: u32,
    entries: u32,
}

/// What is seen at one moment.
#[derive(Debug)]
struct Look {
    at: Instant,
    /// By descriptor.
    rings: BTreeMap<u32, Ring>,
    /// Ticks of processor time by kind of thread.
    ticks: BTreeMap<Kind, u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The kernel's threads that poll rings.
    Polling,
    /// The kernel's workers of rings.
    Workers,
    /// The library's own: its services, and the lanes of kernels that run on the host.
    Library,
}

impl Kind {
    const ALL: [(Self, &str); 3] =
        [(Self::Polling, "sqpoll%"), (Self::Workers, "iowq%"), (Self::Library, "gpufs%")];

    /// The kind of a thread of this name.
    fn of(name: &str) -> Option<Self> {
        match name {
            _ if name.starts_with("iou-sqp") => Some(Self::Polling),
            _ if name.starts_with("iou-wrk") => Some(Self::Workers),
            _ if name.starts_with("gpufs") => Some(Self::Library),
            _ => None,
        }
    }
}

/// Says what a process does until it ends, or as often as was asked.
pub(crate) fn watch(asked: &Watched) -> Result<ExitCode, String> {
    let mut before = look(asked.pid).map_err(|error| explain(asked.pid, &error))?;
    if before.rings.is_empty() {
        eprintln!(
            "gpufs: process {} has no ring of io_uring now: it has no session, or one that host threads serve, whose operations only it knows",
            asked.pid
        );
    }
    let mut lines = 0;
    // Ends: with the process, or the count.
    while asked.count.is_none_or(|count| lines < count) {
        thread::sleep(asked.interval);
        let now = match look(asked.pid) {
            Ok(now) => now,
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(error) => return Err(explain(asked.pid, &error)),
        };
        let text =
            if asked.json { format!("{}\n", object(&before, &now)) } else { line(&before, &now, lines) };
        match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            Err(error) => return Err(format!("a line could not be written: {error}")),
            Ok(()) => {}
        }
        lines += 1;
        before = now;
    }
    Ok(ExitCode::SUCCESS)
}

fn explain(pid: u32, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => format!("there is no process {pid}"),
        ErrorKind::PermissionDenied => {
            format!(
                "process {pid} may not be looked at: it is another user's, or has rights that you lack. Run 'gpufs stat' as that user, or as root"
            )
        }
        _ => format!("process {pid}: {error}"),
    }
}

fn look(pid: u32) -> io::Result<Look> {
    let process = Path::new("/proc").join(pid.to_string());
    let mut rings = BTreeMap::new();
    for entry in fs::read_dir(process.join("fdinfo"))? {
        let entry = entry?;
        // Closed meanwhile, perhaps.
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        if let (Some(ring), Some(number)) =
            (ring(&text), entry.file_name().to_str().and_then(|name| name.parse().ok()))
        {
            rings.insert(number, ring);
        }
    }
    let mut ticks = BTreeMap::new();
    for entry in fs::read_dir(process.join("task"))? {
        let Ok(text) = fs::read_to_string(entry?.path().join("stat")) else { continue };
        if let Some((kind, used)) = thread_of(&text) {
            *ticks.entry(kind).or_insert(0) += used;
        }
    }
    Ok(Look { at: Instant::now(), rings, ticks })
}

/// The ring of a descriptor's `fdinfo`, if it is one.
fn ring(text: &str) -> Option<Ring> {
    let number = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.trim();
        match value.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        }
    };
    Some(Ring {
        submitted: number("SqTail")?,
        taken: number("SqHead")?,
        completed: number("CqTail")?,
        entries: number("SqMask")?.wrapping_add(1),
    })
}

/// The kind of a thread, and its processor time, from its `stat`.
fn thread_of(text: &str) -> Option<(Kind, u64)> {
    // The name is in brackets, and may hold some.
    let (name, rest) = text.split_once('(')?.1.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11).map(str::parse::<u64>);
    let (user, system) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some((Kind::of(name)?, user + system))
}

/// What was done between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Done {
    submitted: u32,
    completed: u32,
    in_flight: u32,
}

fn done(before: &Look, now: &Look) -> Done {
    now.rings.iter().fold(Done::default(), |sum, (number, ring)| {
        // One that is new has begun at 0.
        let earlier = before.rings.get(number).copied().unwrap_or_default();
        Done {
            submitted: sum.submitted.wrapping_add(ring.submitted.wrapping_sub(earlier.submitted)),
            completed: sum.completed.wrapping_add(ring.completed.wrapping_sub(earlier.completed)),
            in_flight: sum.in_flight.wrapping_add(ring.submitted.wrapping_sub(ring.completed)),
        }
    })
}

/// Percent of one processor that threads of a kind took.
fn percent(before: &Look, now: &Look, kind: Kind) -> f64 {
    let ticks = |look: &Look| look.ticks.get(&kind).copied().unwrap_or(0);
    // A worker that ended takes its time with it.
    ticks(now).saturating_sub(ticks(before)) as f64 / TICKS / seconds(before, now) * 100.0
}

fn seconds(before: &Look, now: &Look) -> f64 {
    now.at.duration_since(before.at).as_secs_f64()
}

fn line(before: &Look, now: &Look, lines: u64) -> String {
    let mut text = String::new();
    if lines.is_multiple_of(PAGE) {
        text.push_str(&format!(
            "{:>5} {:>12} {:>12} {:>9}",
            "rings", "submitted/s", "completed/s", "in flight"
        ));
        text.extend(Kind::ALL.map(|(_, name)| format!(" {name:>8}")));
        text.push('\n');
    }
    let (done, seconds) = (done(before, now), seconds(before, now));
    let rate = |count: u32| f64::from(count) / seconds;
    text.push_str(&format!(
        "{:>5} {:>12.0} {:>12.0} {:>9}",
        now.rings.len(),
        rate(done.submitted),
        rate(done.completed),
        done.in_flight
    ));
    text.extend(Kind::ALL.map(|(kind, _)| format!(" {:>8.1}", percent(before, now, kind))));
    text.push('\n');
    text
}

fn object(before: &Look, now: &Look) -> Value {
    let done = done(before, now);
    let rings: Vec<_> = now
        .rings
        .iter()
        .map(|(descriptor, ring)| {
            json!({
                "descriptor": descriptor, "entries": ring.entries, "submitted": ring.submitted, "taken": ring.taken, "completed": ring.completed,
            })
        })
        .collect();
    json!({
        "seconds": seconds(before, now),
        "submitted": done.submitted,
        "completed": done.completed,
        "in_flight": done.in_flight,
        "sqpoll_percent": percent(before, now, Kind::Polling),
        "workers_percent": percent(before, now, Kind::Workers),
        "gpufs_percent": percent(before, now, Kind::Library),
        "rings": rings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FDINFO: &str = "pos:\t0\nflags:\t02000002\nSqMask:\t0x3ff\nSqHead:\t117\nSqTail:\t118\nCachedSqHead:\t118\n\
                          CqMask:\t0x7ff\nCqHead:\t64\nCqTail:\t110\nCachedCqTail:\t118\nSQEs:\t0\n";

    fn look_at(rings: &[(u32, Ring)], ticks: u64) -> Look {
        let ticks = [(Kind::Polling, ticks)].into();
        Look { at: Instant::now(), rings: rings.iter().copied().collect(), ticks }
    }

    #[test]
    fn a_ring_is_told_from_other_descriptors() {
        let wanted = Ring { submitted: 118, taken: 117, completed: 110, entries: 1024 };
        assert_eq!(ring(FDINFO), Some(wanted));
        assert_eq!(ring("pos:\t0\nflags:\t0100002\n"), None);
    }

    #[test]
    fn threads_by_their_names() {
        let stat = |name: &str| {
            format!("17 ({name}) S 1 17 17 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 12345 1 2")
        };
        assert_eq!(thread_of(&stat("iou-sqp-99")), Some((Kind::Polling, 300)));
        assert_eq!(thread_of(&stat("iou-wrk-99")), Some((Kind::Workers, 300)));
        assert_eq!(thread_of(&stat("gpufs lanes 0) S (x")), Some((Kind::Library, 300)));
        assert_eq!(thread_of(&stat("main")), None);
    }

    #[test]
    fn numbers_that_come_round_and_new_rings() {
        let ring = |submitted, completed| Ring { submitted, taken: submitted, completed, entries: 8 };
        let before = look_at(&[(3, ring(u32::MAX - 1, u32::MAX - 3))], 10);
        let mut now = look_at(&[(3, ring(8, 5)), (4, ring(7, 7))], 60);
        now.at = before.at + Duration::from_secs(2);
        assert_eq!(done(&before, &now), Done { submitted: 17, completed: 16, in_flight: 3 });
        assert!((percent(&before, &now, Kind::Polling) - 25.0).abs() < 1e-9);
        assert!(
            line(&before, &now, 0).lines().nth(1).unwrap().contains("           8"),
            "{}",
            line(&before, &now, 0)
        );
    }
}
