//! Running a family of attempts in child processes, and the table of what came of them.
//!
//! A child says which attempt it begins, and then what came of it. Where it dies or hangs, that is what came of it, and the next child goes on with
//! the attempt after it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::{Attempt, Expected, Seen, Way, World, attempts};
use crate::skip;

/// What tells a child its part: family, way, whether in a sandbox, and the first attempt.
const PART: &str = "GPUFS_HOSTILE_PART";
/// No attempt takes nearly as long.
const LIMIT: Duration = Duration::from_secs(40);
/// Worlds that a child leaves behind before another goes on.
const LEFT_MAX: u32 = 20;

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Came {
    Harm(String),
    Refused(i32),
    Harmless(String),
    Silent,
    /// The host's process died, or had to be killed.
    Died(String),
}

/// What came of the attempts of one row in one way.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    harm: BTreeMap<String, u32>,
    refused: BTreeMap<i32, u32>,
    harmless: u32,
    silent: u32,
    died: BTreeMap<String, u32>,
    /// Those that a sandbox must not let happen: variant, and what came of it.
    wrong: Vec<String>,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was attempted.
    pub name: &'static str,
    /// How.
    pub way: Way,
    expected: Expected,
    without: Cell,
    within: Option<Cell>,
}

impl Cell {
    fn add(&mut self, attempt: &Attempt, came: Came) {
        let allowed = match &came {
            Came::Refused(_) => true,
            Came::Harmless(_) | Came::Silent => {
                matches!(attempt.expected, Expected::Own | Expected::HarmOrOwn)
            }
            Came::Harm(_) | Came::Died(_) => false,
        };
        if !allowed {
            self.wrong.push(format!("{} {}: {came:?}", attempt.row, attempt.variant));
        }
        match came {
            Came::Harm(text) => *self.harm.entry(text).or_default() += 1,
            Came::Refused(errno) => *self.refused.entry(errno).or_default() += 1,
            Came::Harmless(_) => self.harmless += 1,
            Came::Silent => self.silent += 1,
            Came::Died(how) => *self.died.entry(how).or_default() += 1,
        }
    }
    fn harms(&self) -> bool {
        !self.harm.is_empty() || !self.died.is_empty()
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts = Vec::new();
        for (how, count) in &self.died {
            parts.push(format!("{how} ×{count}"));
        }
        let harms: u32 = self.harm.values().sum();
        if let Some(first) = self.harm.keys().min_by_key(|text| text.len()) {
            let first: String = first.chars().take(70).collect();
            parts.push(format!("HARM ×{harms} ({first})"));
        }
        for (errno, count) in &self.refused {
            parts.push(format!("{} ×{count}", name_of(*errno)));
        }
        if self.harmless > 0 {
            parts.push(format!("no effect ×{}", self.harmless));
        }
        if self.silent > 0 {
            parts.push(format!("no completion ×{}", self.silent));
        }
        f.pad(&parts.join(", "))
    }
}

/// The name of an error number, where it has one here.
fn name_of(errno: i32) -> String {
    const NAMES: [(i32, &str); 31] = [
        (libc::EPERM, "EPERM"),
        (libc::ENOENT, "ENOENT"),
        (libc::EINTR, "EINTR"),
        (libc::EIO, "EIO"),
        (libc::ENXIO, "ENXIO"),
        (libc::EBADF, "EBADF"),
        (libc::ECHILD, "ECHILD"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::EACCES, "EACCES"),
        (libc::EFAULT, "EFAULT"),
        (libc::EBUSY, "EBUSY"),
        (libc::EEXIST, "EEXIST"),
        (libc::EXDEV, "EXDEV"),
        (libc::ENOTDIR, "ENOTDIR"),
        (libc::EISDIR, "EISDIR"),
        (libc::EINVAL, "EINVAL"),
        (libc::EMFILE, "EMFILE"),
        (libc::ENOTTY, "ENOTTY"),
        (libc::ESPIPE, "ESPIPE"),
        (libc::EPIPE, "EPIPE"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::ELOOP, "ELOOP"),
        (libc::ENOTSOCK, "ENOTSOCK"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
        (libc::ETIME, "ETIME"),
        (libc::ECANCELED, "ECANCELED"),
        (libc::ENOBUFS, "ENOBUFS"),
        (libc::ENAMETOOLONG, "ENAMETOOLONG"),
        (libc::EOVERFLOW, "EOVERFLOW"),
        (libc::ERANGE, "ERANGE"),
        (libc::ENODATA, "ENODATA"),
    ];
    NAMES
        .iter()
        .find(|(number, _)| *number == errno)
        .map_or_else(|| format!("E{errno}"), |(_, name)| (*name).into())
}

/// The child's part, where this process is one.
fn part() -> Option<(String, Way, bool, usize)> {
    let part = std::env::var(PART).ok()?;
    let words: Vec<_> = part.split(' ').collect();
    let way = Way::ALL.into_iter().find(|way| way.name() == words[1]).expect("a way");
    Some((words[0].into(), way, words[2] == "true", words[3].parse().expect("a number")))
}

/// The child: attempts from `first` on.
#[expect(unsafe_code, reason = "ends the process where it stands")]
fn attack(family: &str, way: Way, boxed: bool, first: usize) -> ! {
    let say = |text: String| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nHOSTILE\t{text}").and_then(|()| out.flush()).expect("the parent listens");
    };
    std::panic::set_hook(Box::new(move |panic| say(format!("panic\t0\t{panic}").replace('\n', " "))));
    let mut world: Option<World> = None;
    let mut left = 0;
    for (index, attempt) in attempts(family, boxed).iter().enumerate().skip(first) {
        let mut here = match world.take().map_or_else(|| World::new(way, boxed), Ok) {
            Ok(world) => world,
            Err(error) => {
                say(format!("skip\t0\t{error}").replace('\n', " "));
                break;
            }
        };
        say(format!("begin\t{index}\t"));
        let seen = (attempt.body)(&mut here);
        let harm = here.harm(&seen);
        let clean = harm.is_none() && matches!(seen, Seen::Refused(_));
        match (harm, seen) {
            (Some(harm), _) => say(format!("harm\t{index}\t{harm}")),
            (None, Seen::Refused(errno)) => say(format!("refused\t{index}\t{errno}")),
            (None, Seen::Silent) => say(format!("silent\t{index}\t")),
            (None, Seen::Harmless(text) | Seen::Harm(text)) => say(format!("harmless\t{index}\t{text}")),
        }
        // One that was refused and left nothing behind can be used again. Others may own what is closed or forged by now, so nobody drops them.
        if clean && here.rests() {
            world = Some(here);
        } else {
            std::mem::forget(here);
            left += 1;
        }
        if left == LEFT_MAX {
            break;
        }
    }
    say("end\t0\t".into());
    // SAFETY:
    // - ends the process; whatever was forged or is in flight goes with it
    unsafe { libc::_exit(0) }
}

/// What a child said.
#[derive(Default)]
struct Heard {
    came: BTreeMap<usize, Came>,
    /// The attempt that it was at.
    begun: Option<usize>,
    /// Why it does not attack at all.
    skipped: Option<String>,
    /// The panic that ended it, if one did.
    panicked: String,
    /// It ended by itself.
    ended: bool,
    /// It said nothing for long.
    hung: bool,
}

impl Heard {
    fn line(&mut self, line: &str) {
        let words: Vec<_> = line.split('\t').collect();
        let ["HOSTILE", what, index, text] = words[..] else { return };
        let index: usize = index.parse().expect("an index");
        let text = text.to_owned();
        let came = match what {
            "begin" => {
                self.begun = Some(index);
                return;
            }
            "skip" => {
                self.skipped = Some(text);
                return;
            }
            "panic" => {
                self.panicked = text;
                return;
            }
            "end" => {
                self.ended = true;
                return;
            }
            "harm" => Came::Harm(text),
            "refused" => Came::Refused(text.parse().expect("a number")),
            "harmless" => Came::Harmless(text),
            _ => Came::Silent,
        };
        self.begun = None;
        self.came.insert(index, came);
    }
}

/// Runs a child to its end, or as long as it says something.
fn listen(child: &mut Child) -> Heard {
    let (sender, lines) = channel();
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    // Where a grandchild holds the pipe open, it stays behind.
    std::thread::spawn(move || {
        for line in out.split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    let mut heard = Heard::default();
    // Ends: the child does, or is silent.
    while !heard.ended {
        match lines.recv_timeout(LIMIT) {
            Err(RecvTimeoutError::Timeout) => {
                heard.hung = true;
                child.kill().expect("the child is there");
                break;
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(line) => heard.line(&line),
        }
    }
    heard
}

/// Removes the directories of a child, which left its worlds behind.
fn clean_up(child: u32) {
    let name = format!("gpufs-hostile-{child}-");
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name)) {
        // What stays behind is only litter.
        let _ = std::fs::remove_dir_all(entry.path());
    }
}

/// What came of each attempt of a family in one way; `None` where it does not run here.
fn all(test: &str, family: &str, way: Way, boxed: bool, total: usize) -> Option<BTreeMap<usize, Came>> {
    let mut came = BTreeMap::new();
    // Ends: each child gets at least one attempt further.
    while came.len() < total {
        let first = came.len();
        let part = format!("{family} {} {boxed} {first}", way.name());
        let mut child = Command::new(std::env::current_exe().expect("this program's path"))
            .args(["--exact", test, "--nocapture", "--test-threads", "1"])
            .env(PART, &part)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("this program once more");
        let mut heard = listen(&mut child);
        let status = child.wait().expect("the child's end");
        came.append(&mut heard.came);
        clean_up(child.id());
        if let Some(reason) = heard.skipped {
            assert_eq!(came.len(), 0, "{part}: no session after some that there were: {reason}");
            skip(&format!("{family} {} sandbox: {boxed}", way.name()), reason);
            return None;
        }
        if let Some(index) = heard.begun {
            let how = if heard.hung {
                "the host hung".into()
            } else {
                format!("the host died: {status}{}", heard.panicked)
            };
            came.insert(index, Came::Died(how));
        }
        assert!(came.len() > first, "{part}: the child attempted nothing: {status} {}", heard.panicked);
    }
    Some(came)
}

/// Runs a family for the test of this name in all ways, prints its table, and checks it.
///
/// # Panics
/// If an attempt in a sandbox did anything but end in an error, or if no attempt of a row that should does harm without one.
pub fn run(test: &str, family: &str) {
    if let Some((family, way, boxed, first)) = part() {
        attack(&family, way, boxed, first);
    }
    let [bare, boxed] = [false, true].map(|boxed| attempts(family, boxed));
    let mut rows: Vec<Row> = Vec::new();
    let mut held = false;
    for way in Way::ALL {
        let Some(without) = all(test, family, way, false, bare.len()) else { continue };
        let within = all(test, family, way, true, boxed.len());
        held |= within.is_some();
        let outside = bare.iter().zip(without.values()).map(|(attempt, came)| (attempt, came, false));
        let inside = within.iter().flat_map(|within| boxed.iter().zip(within.values()));
        for (attempt, came, boxed) in outside.chain(inside.map(|(attempt, came)| (attempt, came, true))) {
            let at =
                rows.iter().position(|row| row.way == way && row.name == attempt.row).unwrap_or_else(|| {
                    let within = within.is_some().then(Cell::default);
                    let (name, expected) = (attempt.row, attempt.expected);
                    rows.push(Row { name, way, expected, without: Cell::default(), within });
                    rows.len() - 1
                });
            let row = &mut rows[at];
            let cell = if boxed { row.within.get_or_insert_default() } else { &mut row.without };
            cell.add(attempt, came.clone());
        }
    }
    print(family, &rows);
    for row in rows.iter().filter(|row| matches!(row.expected, Expected::Harm | Expected::HarmOrOwn)) {
        let somewhere = rows.iter().any(|other| other.name == row.name && other.without.harms());
        assert!(somewhere, "{}: does no harm without a sandbox, so it shows nothing", row.name);
    }
    let wrong: BTreeSet<String> = rows
        .iter()
        .flat_map(|row| {
            let cell = row.within.iter();
            cell.flat_map(move |cell| {
                cell.wrong.iter().map(move |text| format!("{}: {text}", row.way.name()))
            })
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "not held by the sandbox:\n{}",
        wrong.into_iter().collect::<Vec<_>>().join("\n")
    );
    if !held {
        skip(family, "no sandbox: what it would hold was not tried");
    }
}

fn print(family: &str, rows: &[Row]) {
    println!("\n{family}");
    println!("| attempt | way | without a sandbox | with |\n|---|---|---|---|");
    for row in rows {
        let within = row.within.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string);
        println!("| {} | {} | {} | {within} |", row.name, row.way.name(), row.without);
    }
}
