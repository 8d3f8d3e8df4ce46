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
//! | `others.rs` | another session of the process, with a read that waits |
//! | `races.rs` | what changes while it is looked at |
//! | `tables.rs` | forged tables, which the host acts on |

mod descriptors;
mod memory;
mod operations;
mod others;
mod paths;
mod races;
mod raw;
mod report;
mod scene;
mod services;
mod tables;

use std::time::Duration;

use gpufs_core::abi::Sqe;
use gpufs_device::Fs;
use gpufs_host::ring::Mode;
use gpufs_host::session::OpenError;
use gpufs_host::{Builder, Sandbox, Session};

pub use operations::attacked;
pub use raw::Area;
pub use report::{Cell, Row, run};
pub use scene::{SECRET, Scene};

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

/// A session, the scene that it must not reach, and memory for a kernel's own use.
#[derive(Debug)]
pub struct World {
    /// What must stay as it is.
    pub scene: Scene,
    /// Its kernels attack.
    pub session: Session,
    /// Memory of the session.
    pub area: Area,
    /// How it is served.
    pub way: Way,
    boxed: bool,
    /// A descriptor that a kernel opened: `inside/file`, in the numbers that entries of the session have.
    pub own: i32,
    /// Index of a file that the host registered: `inside/sub/file`.
    pub registered: u32,
}

/// Buffers of the staging pool.
const STAGING_BUFFERS: u32 = 64;

/// A small session for attacks.
fn builder(way: Way) -> Builder {
    crate::small()
        .idle(Duration::from_millis(20))
        .deadline(Duration::from_secs(5))
        .report_failures(false)
        .report_fallback(false)
        .mode(way.mode())
}

/// The sandbox of all attempts: `inside` for everything, `readonly` for reading, nothing else.
fn sandbox(scene: &Scene) -> Sandbox {
    Sandbox::new().read_write_create(scene.path("inside")).read_only(scene.path("readonly"))
}

impl World {
    /// A session in the middle of a new scene.
    fn new(way: Way, boxed: bool) -> Result<Self, OpenError> {
        let mut scene = Scene::new();
        let mut builder = builder(way);
        if boxed {
            builder = builder.sandbox(sandbox(&scene));
        }
        let mut session = builder.cpu()?;
        let file = std::fs::File::open(scene.path("inside/sub/file")).expect("a file of the scene");
        let registered = session.register_file(file).expect("a place in the table").0;
        let path = crate::c_path(&scene.path("inside/file"));
        let (area, own) = crate::once(&mut session, |fs| {
            let own = fs.open(&path, libc::O_RDWR.cast_unsigned(), 0).expect("what the sandbox allows");
            let own = crate::tables_of(fs).process_descriptor(own).expect("just opened");
            (Area::of(crate::tables_of(fs), STAGING_BUFFERS), own)
        });
        area.clear();
        scene.note();
        Ok(Self { scene, session, area, way, boxed, own, registered })
    }

    /// The ring that is attacked.
    fn ring(&self) -> u32 {
        let tables = crate::tables(&self.session);
        if self.way == Way::Services { tables.ring_count - 1 } else { 0 }
    }
    /// The results of entries that a lane puts into the ring that is attacked, as one batch.
    pub fn submit(&mut self, entries: &[Sqe]) -> Vec<Option<i32>> {
        let ring = self.ring();
        self.submit_on(ring, entries)
    }
    /// As [`World::submit`], on the ring that the library takes for services.
    pub fn submit_to_services(&mut self, entries: &[Sqe]) -> Vec<Option<i32>> {
        let ring = crate::tables(&self.session).ring_count - 1;
        self.submit_on(ring, entries)
    }
    fn submit_on(&mut self, ring: u32, entries: &[Sqe]) -> Vec<Option<i32>> {
        // In a sandbox each is refused, and a worker of a busy machine may take its time for that. Without one, some wait for good.
        let patience = Duration::from_millis(if self.boxed { 3_000 } else { 15 });
        self.lane(|fs| raw::submit(crate::tables_of(fs), ring, entries, patience))
            .unwrap_or_else(|| vec![None; entries.len()])
    }
    /// What one lane returns; `None` where its kernel was ended.
    pub fn lane<T: Send>(&mut self, kernel: impl Fn(Fs) -> T + Sync) -> Option<T> {
        let result = std::sync::Mutex::new(None);
        let ended = self.session.run(crate::lanes(1), |fs| {
            let made = kernel(fs);
            *result.lock().expect("one lane") = Some(made);
        });
        // What the streams could not write is no matter here.
        drop(ended);
        result.into_inner().expect("one lane")
    }
    /// The address of a path in the session's memory.
    pub fn path(&self, offset: usize, name: &str) -> u64 {
        self.text(offset, crate::c_path(&self.scene.path(name)).as_bytes_with_nul())
    }
    /// The address of bytes in the session's memory.
    pub fn text(&self, offset: usize, bytes: &[u8]) -> u64 {
        self.area.put(offset, bytes)
    }
    /// What was reached, changed or given away, for the table.
    fn harm(&self, seen: &Seen) -> Option<String> {
        let mut harm = Vec::new();
        if let Seen::Harm(text) = seen {
            harm.push(text.clone());
        }
        harm.extend(self.scene.changes());
        if scene::contains(&self.area.all(), SECRET) {
            harm.push("a secret is in the session's memory".into());
        }
        (!harm.is_empty()).then(|| harm.join("; ").replace(['\n', '\t'], " "))
    }
    /// One more session like the world's, for attempts that end it.
    ///
    /// # Panics
    /// If it cannot be opened.
    #[must_use]
    pub fn another(&self) -> Session {
        let builder = builder(self.way);
        let builder = if self.boxed { builder.sandbox(sandbox(&self.scene)) } else { builder };
        builder.cpu().expect("as before")
    }
    /// Whether nothing is in flight.
    fn rests(&self) -> bool {
        let tables = crate::tables(&self.session);
        tables.all_queues().iter().all(|queue| queue.free_slots() == queue.capacity())
    }
}

/// The families of attempts, by name.
/// Those of a family. Without a sandbox, and unless `GPUFS_HOSTILE_ALL` is set, an operation is tried alone, which shows that it does harm: each of
/// its variations kills a host or leaves one behind, which takes minutes in all.
fn attempts(family: &str, boxed: bool) -> Vec<Attempt> {
    let all = boxed || crate::setting("GPUFS_HOSTILE_ALL", 0) != 0;
    match family {
        "operations" if all => operations::attempts(),
        "operations" => operations::attempts().into_iter().filter(|made| made.variant == "alone").collect(),
        "memory" => memory::attempts(),
        "descriptors" => descriptors::attempts(),
        "others" => others::attempts(),
        "paths" => paths::attempts(),
        "services" => services::attempts(),
        "races" => races::attempts(),
        "tables" => tables::attempts(),
        _ => panic!("no family of attempts is called {family}"),
    }
}
