//! Kernels that mean harm: what they try, and what comes of it with a sandbox and without.
//!
//! Each family of attempts is run in child processes (`report.rs`), in every [`Way`] of reaching Linux, once without a sandbox and once with. The
//! world that must not be reached is a [`Scene`], which is looked at before and after each attempt. An attempt without a sandbox shows that it
//! would do harm; with one it must change nothing outside, give nothing away, and end in an error.
//!
//! | file | attempts |
//! |---|---|
//! | `operations.rs` | entries with every operation code of io_uring and every flag |
//! | `memory.rs` | addresses and buffers that are not the session's |
//! | `descriptors.rs` | numbers of the host's descriptors, rings, indices out of range |
//! | `paths.rs` | `..`, symbolic, magic and hard links, `/proc`, renames over the edge |
//! | `services.rs` | the operations of the service ring |
//! | `sockets.rs` | sockets of other kinds, to others, and by entries that no ring takes |
//! | `others.rs` | another session of the process, with a read that waits |
//! | `races.rs` | what changes while it is looked at |
//! | `tables.rs` | forged tables, which the host acts on |
//! | `channels.rs` | forged channels, of which threads of the host have the other end |
//! | `pages.rs` | a forged cache of pages, which the host writes to files |
//!
//! The kernels are in `tests/kernels`, so that the same attempts are made on a GPU: by the program `hostile_check`.

mod channels;
mod child;
mod descriptors;
mod memory;
mod operations;
mod others;
mod pages;
mod paths;
mod races;
mod raw;
mod report;
mod scene;
mod services;
mod site;
mod sockets;
mod tables;
mod world;

use gpufs_host::ring::Mode;

pub use operations::attacked;
pub use raw::Area;
pub use report::{Cell, Row, check, run};
pub use scene::{SECRET, Scene};
pub use site::Site;
pub use world::World;
use world::builder;

/// How a session is served, and which of its rings is attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// A ring of I/O in the mode of this name.
    Sqpoll,
    /// See above.
    Enter,
    /// See above.
    Threads,
    /// The ring of services, which host threads serve.
    Services,
}

impl Way {
    /// All.
    pub const ALL: [Self; 4] = [Self::Sqpoll, Self::Enter, Self::Threads, Self::Services];

    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sqpoll => "sqpoll",
            Self::Enter => "enter",
            Self::Threads => "threads",
            Self::Services => "services",
        }
    }
    const fn mode(self) -> Mode {
        match self {
            Self::Sqpoll => Mode::Sqpoll,
            Self::Enter | Self::Services => Mode::Enter,
            Self::Threads => Mode::Threads,
        }
    }
}

/// What an attempt saw for itself. What it changed, the scene shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It reached what it must not.
    Harm(String),
    /// An error, by its number.
    Refused(i32),
    /// It was done, and that does no harm.
    Harmless(String),
    /// There was no completion in good time.
    Silent,
}

impl Seen {
    /// Of the result of an entry that reaches what it must not if it succeeds.
    #[must_use]
    pub fn reached(result: Option<i32>) -> Self {
        Self::of(result, |value| Self::Harm(format!("reached: {value}")))
    }
    /// Of the result of an entry whose harm the scene shows.
    #[must_use]
    pub fn done(result: Option<i32>) -> Self {
        Self::of(result, |value| Self::Harmless(format!("done: {value}")))
    }
    fn of(result: Option<i32>, good: impl Fn(i32) -> Self) -> Self {
        match result {
            None => Self::Silent,
            Some(value) if value < 0 => Self::Refused(-value),
            Some(value) => good(value),
        }
    }
}

/// What an attempt may come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Without a sandbox harm, in at least one way; with one an error.
    Harm,
    /// With a sandbox an error. Without one it may do no harm, or only where the system has what it needs.
    Error,
    /// Nothing outside changes. It may succeed: it is a kernel's own business.
    Own,
    /// Without a sandbox harm, in at least one way; with one nothing outside changes, and it may succeed.
    HarmOrOwn,
}

/// One attempt.
pub struct Attempt {
    /// Its row of the table. Attempts of a row are counted together.
    pub row: &'static str,
    /// Which of its row.
    pub variant: String,
    /// What it may come to.
    pub expected: Expected,
    /// Tries it.
    pub body: Box<dyn Fn(&mut World) -> Seen>,
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.row, self.variant)
    }
}

impl Attempt {
    /// One.
    pub fn new(
        row: &'static str,
        variant: impl Into<String>,
        expected: Expected,
        body: impl Fn(&mut World) -> Seen + 'static,
    ) -> Self {
        Self { row, variant: variant.into(), expected, body: Box::new(body) }
    }
}

/// The families of attempts.
pub const FAMILIES: [&str; 11] = [
    "operations",
    "descriptors",
    "memory",
    "services",
    "sockets",
    "paths",
    "others",
    "races",
    "tables",
    "channels",
    "pages",
];
/// Those that are tried on CPU lanes alone, and why.
pub const OF_LANES: [(&str, &str); 4] = [
    (
        "races",
        "what is raced is the host that serves, whatever device asks; their kernels are closures of the test",
    ),
    ("tables", "the host reads a copy of its own, which only a kernel on CPU lanes can forge as it stands"),
    ("channels", "their kernels are closures of the test, beside threads of the host"),
    ("pages", "as for tables"),
];
/// Rows of which each attempt ends the host's process without a sandbox.
const DEADLY: [&str; 2] = ["addresses where nothing is", "each service with an address where nothing is"];
/// How many of such a row show that on a GPU, where another session takes seconds.
const DEATHS: usize = 3;

/// Those of some families, whose names have `+` between. Without a sandbox, and unless `GPUFS_HOSTILE_ALL` is set, an operation is tried alone,
/// which shows that it does harm: each of its variations kills a host or leaves one behind, which takes minutes in all.
fn attempts(families: &str, boxed: bool, gpu: bool) -> Vec<Attempt> {
    let all = boxed || crate::setting("GPUFS_HOSTILE_ALL", 0) != 0;
    let mut attempts: Vec<Attempt> = families.split('+').flat_map(|family| of_family(family, all)).collect();
    if gpu && !all {
        let mut deaths = [0; DEADLY.len()];
        attempts.retain(|attempt| {
            // Numbers that are closed there are the driver's.
            let drivers = attempt.row == descriptors::TAKEN;
            let deadly = DEADLY.iter().position(|row| *row == attempt.row);
            !drivers
                && deadly.is_none_or(|at| {
                    deaths[at] += 1;
                    deaths[at] <= DEATHS
                })
        });
    }
    attempts
}

fn of_family(family: &str, all: bool) -> Vec<Attempt> {
    match family {
        "operations" if all => operations::attempts(),
        "operations" => operations::attempts().into_iter().filter(|made| made.variant == "alone").collect(),
        "memory" => memory::attempts(),
        "descriptors" => descriptors::attempts(),
        "others" => others::attempts(),
        "paths" => paths::attempts(),
        "services" => services::attempts(),
        "sockets" => sockets::attempts(),
        "races" => races::attempts(),
        "tables" => tables::attempts(),
        "channels" => channels::attempts(),
        "pages" => pages::attempts(),
        _ => panic!("no family of attempts is called {family}"),
    }
}
