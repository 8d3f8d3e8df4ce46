//! The table of what came of attempts, and what must have.

use std::collections::{BTreeMap, BTreeSet};

use super::child::{Came, all, attack, part};
use super::descriptors::TAKEN;
use super::{Attempt, DEADLY, DEATHS, Expected, Site, Way, attempts};
use crate::skip;

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

/// Runs a family for the test of this name on CPU lanes, prints its table, and checks it.
///
/// # Panics
/// If an attempt in a sandbox did anything but end in an error, or if no attempt of a row that should does harm without one.
pub fn run(test: &str, family: &str) {
    let site = Site::test(test);
    if let Some(part) = part() {
        attack(&site, &part);
    }
    if let Err(wrong) = check(&site, family) {
        panic!("{wrong}");
    }
}

/// Runs families, whose names have `+` between, in all ways, and prints their table: how many attempts there were.
///
/// # Errors
/// What a sandbox did not hold, and rows that should do harm without one and do none.
///
/// # Panics
/// If no child can be started.
pub fn check(site: &Site, families: &str) -> Result<usize, String> {
    let [bare, boxed] = [false, true].map(|boxed| attempts(families, boxed, site.is_gpu()).len());
    let tried = ways(site, families, [bare, boxed]);
    let [bare, boxed] = [false, true].map(|boxed| attempts(families, boxed, site.is_gpu()));
    let mut rows: Vec<Row> = Vec::new();
    let (mut held, mut count) = (false, 0);
    for (way, [without, within]) in Way::ALL.into_iter().zip(tried) {
        let Some(without) = without else { continue };
        held |= within.is_some();
        let outside = bare.iter().zip(without.values()).map(|(attempt, came)| (attempt, came, false));
        let inside = within.iter().flat_map(|within| boxed.iter().zip(within.values()));
        for (attempt, came, boxed) in outside.chain(inside.map(|(attempt, came)| (attempt, came, true))) {
            count += 1;
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
    print(families, &rows);
    if site.is_gpu() {
        println!(
            "Without a sandbox, of rows that end the host the first {DEATHS} alone, and not \"{TAKEN}\", which closes the driver's files."
        );
    }
    if !held {
        skip(families, "no sandbox: what it would hold was not tried");
    }
    verdict(&rows, site).map(|()| count)
}

/// What came of each attempt without a sandbox and with one.
type Tried = [Option<BTreeMap<usize, Came>>; 2];

/// One way after the other, or all at once where a GPU takes its time for each session.
fn ways(site: &Site, families: &str, totals: [usize; 2]) -> Vec<Tried> {
    let one = |way, boxed: bool| all(site, families, way, boxed, totals[usize::from(boxed)]);
    if !site.is_gpu() {
        return Way::ALL
            .map(|way| {
                let without = one(way, false);
                // Where a way is not served, it is not in a sandbox either.
                let within = without.as_ref().and_then(|_| one(way, true));
                [without, within]
            })
            .into();
    }
    std::thread::scope(|scope| {
        let start = |way| [false, true].map(|boxed| scope.spawn(move || one(way, boxed)));
        let started = Way::ALL.map(start);
        started.map(|both| both.map(|one| one.join().expect("a thread that listens"))).into()
    })
}

fn verdict(rows: &[Row], site: &Site) -> Result<(), String> {
    let mut wrong = BTreeSet::new();
    for row in rows.iter().filter(|row| matches!(row.expected, Expected::Harm | Expected::HarmOrOwn)) {
        // Of these a GPU makes few, which may be those that Linux refuses. CPU lanes make all.
        if site.is_gpu() && DEADLY.contains(&row.name) {
            continue;
        }
        if !rows.iter().any(|other| other.name == row.name && other.without.harms()) {
            wrong.insert(format!("{}: does no harm without a sandbox, so it shows nothing", row.name));
        }
    }
    for row in rows {
        let texts = row.within.iter().flat_map(|cell| &cell.wrong);
        wrong.extend(texts.map(|text| format!("not held by the sandbox: {}: {text}", row.way.name())));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.into_iter().collect::<Vec<_>>().join("\n")) }
}

fn print(families: &str, rows: &[Row]) {
    println!("\n{families}");
    println!("| attempt | way | without a sandbox | with |\n|---|---|---|---|");
    for row in rows {
        let within = row.within.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string);
        println!("| {} | {} | {} | {within} |", row.name, row.way.name(), row.without);
    }
}
