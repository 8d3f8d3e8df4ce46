//! `graph make|bfs|rank FILE`: makes a graph, and runs breadth-first search or PageRank on one that is larger than the cache it is looked at through.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser};
use gpufs_apps::cli::values::{Choice, at_least_1, from_to, number, path, size};
use gpufs_apps::cli::{self, Defaults, Failure, Options, Plan, Program};
use gpufs_apps::graph::{Csr, DEGREE_MAX, Kind, Loaded, Recipe, SCALE_MAX};
use gpufs_apps::kernels::graph::{
    COUNTERS, Ranking, Search, Trouble, UNSEEN, part_of_one, rank_cached, rank_plain, search_cached,
    search_plain, settle,
};
use gpufs_apps::kernels::{Array, Words, Words64};
use gpufs_apps::memory;
use gpufs_core::cache::WAYS;
use gpufs_device::kernel::Handoff;
use gpufs_device::view::Mapping;
use gpufs_host::session::{CacheStatistics, DeviceBuffer};
use gpufs_host::{Grid, Session};

const PROGRAM: Program =
    Program { name: "graph", needs: "make, bfs or rank, and a FILE are needed", trouble: 1 };
const DEFAULTS: Defaults = Defaults {
    width: 8,
    ..Defaults::new(Grid { blocks: 4, threads: 8 }, Grid { blocks: 1056, threads: 128 })
};
const USAGE: &str = "\
graph make [OPTIONS] FILE
       graph bfs [OPTIONS] FILE
       graph rank [OPTIONS] FILE";
const MORE: &str = "\
bfs finds the distance of each vertex from one of them; the damping of rank is 0.85. Kernels look at the
file through a cache of pages in the device's memory, which may be much smaller than the file.";

/// Make a graph in compressed sparse rows, search it breadth-first, or rank its vertices by PageRank
#[derive(Debug, Parser)]
#[command(override_usage = USAGE, after_help = MORE)]
struct Task {
    /// What to do with FILE
    #[arg(value_name = "VERB", value_parser = Verb::CHOICE)]
    verb: Verb,
    /// The graph
    #[arg(value_name = "FILE", value_parser = path())]
    path: PathBuf,
    #[command(flatten)]
    making: Making,
    #[command(flatten)]
    walking: Walking,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "make")]
struct Making {
    /// kronecker: few vertices have many neighbours
    #[arg(long, value_name = "KIND", default_value = "uniform", value_parser = Kind::CHOICE)]
    kind: Kind,
    /// 2 to the power of N vertices
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = from_to::<u32>(1, SCALE_MAX.into(), ""))]
    scale: u32,
    /// Neighbours of a vertex, on average
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = from_to::<u64>(0, DEGREE_MAX, ""))]
    degree: u64,
    /// Which of the graphs of this kind and size
    #[arg(long, value_name = "SEED", default_value_t = 1, value_parser = number::<u64>())]
    graph_seed: u64,
    /// Neighbours are numbers of 8 bytes; else of 4
    #[arg(long)]
    wide: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "bfs and rank")]
struct Walking {
    /// bfs: the vertex where it begins [default: the first that has neighbours]
    #[arg(long, value_name = "VERTEX", value_parser = number::<u64>())]
    start: Option<u64>,
    /// rank: how many rounds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = number::<u32>())]
    iterations: u32,
    /// Device memory for pages, such as 64M [default: a quarter of the file]
    #[arg(long, value_name = "BYTES", value_parser = size())]
    cache: Option<usize>,
    /// Bytes of a page: a power of two from 4K to 1M
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = size())]
    page: usize,
    /// On plain arrays in the device's memory, which hold the whole file, in place of the cache
    #[arg(long, overrides_with = "both")]
    plain: bool,
    /// On both: compares the results and the times
    #[arg(long, overrides_with = "plain")]
    both: bool,
    /// Do it N times; the first begins with an empty cache
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = at_least_1::<u32>("at least 1"))]
    rounds: u32,
    /// Compare with what one thread of the host computes
    #[arg(long)]
    check: bool,
    /// Write the results: a distance of 4 bytes for each vertex (4294967295: not reached), or a rank
    /// of 8 bytes (a double)
    #[arg(long, verbatim_doc_comment, value_name = "FILE", value_parser = path())]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Make,
    Search,
    Rank,
}

impl Verb {
    const CHOICE: Choice<Self> = Choice {
        wrong: "not make, bfs or rank",
        names: &[("make", Self::Make), ("bfs", Self::Search), ("rank", Self::Rank)],
    };
}

/// Where a kernel finds the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Cached,
    Plain,
}

/// Numbers of all vertices.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Distances(Vec<u32>),
    Ranks(Vec<u64>),
}

fn main() -> ExitCode {
    PROGRAM.main(|task: Task| match task.verb {
        Verb::Make => make(&task),
        Verb::Search | Verb::Rank => walk(&task),
    })
}

impl Making {
    const fn recipe(&self) -> Recipe {
        let edge_bytes = if self.wide { 8 } else { 4 };
        Recipe { kind: self.kind, scale: self.scale, degree: self.degree, seed: self.graph_seed, edge_bytes }
    }
}

impl Walking {
    const fn ways(&self) -> &'static [Way] {
        match (self.plain, self.both) {
            (true, _) => &[Way::Plain],
            (_, true) => &[Way::Cached, Way::Plain],
            _ => &[Way::Cached],
        }
    }
}

fn make(task: &Task) -> Result<ExitCode, Failure> {
    let rows = task.making.recipe().make(&task.path)?;
    let bytes = rows.edges_at + rows.edges * rows.edge_bytes;
    println!("{}: {} vertices, {} edges, {bytes} bytes", cli::show(&task.path), rows.vertices, rows.edges);
    Ok(ExitCode::SUCCESS)
}

/// A session with a graph.
struct Stage<'a> {
    session: Session,
    plan: Plan,
    csr: &'a Csr,
    /// The file, where some way needs it.
    map: Option<Mapping>,
    /// Its bytes in an array, likewise.
    array: Option<Array>,
    /// A number for each vertex: what is found.
    results: DeviceBuffer,
    /// Another: the queue, or sums.
    second: DeviceBuffer,
    counters: DeviceBuffer,
}

/// What one way found, and how fast.
struct Outcome {
    found: Found,
    took: Duration,
    cache: CacheStatistics,
}

fn walk(task: &Task) -> Result<ExitCode, Failure> {
    let csr = Csr::open(&task.path)?;
    let start = match task.walking.start {
        Some(start) if start >= csr.rows.vertices => {
            return Err(format!("--start {start}: the graph has {} vertices", csr.rows.vertices).into());
        }
        Some(start) => start,
        None => csr.first_with_neighbours()?,
    };
    let least = task.walking.page.saturating_mul(WAYS as usize);
    let cache = task.walking.cache.unwrap_or((csr.bytes / 4) as usize / least.max(1) * least).max(least);
    let page =
        u32::try_from(task.walking.page).map_err(|_| format!("--page {}: at most 1M", task.walking.page))?;
    let mut stage = Stage::open(task, &csr, (cache, page))?;
    println!(
        "{}: {} vertices, {} edges, {} bytes; {cache} bytes of cache in pages of {page}",
        cli::show(&task.path),
        csr.rows.vertices,
        csr.rows.edges,
        csr.bytes
    );
    println!("{:<8}{:>6}{:>12}{:>12}{:>12}{:>12}", "way", "round", "ms", "hits", "misses", "evictions");
    let (mut found, mut ran) = (None, Duration::ZERO);
    let mut fastest = Vec::new();
    for way in task.walking.ways() {
        let mut best = Duration::MAX;
        for round in 1..=task.walking.rounds {
            let outcome = stage.outcome(task, *way, start)?;
            let (name, ms, cache) = (way.name(), outcome.took.as_secs_f64() * 1e3, outcome.cache);
            println!(
                "{name:<8}{round:>6}{ms:>12.3}{:>12}{:>12}{:>12}",
                cache.hits, cache.misses, cache.evictions
            );
            best = best.min(outcome.took);
            ran += outcome.took;
            if found.get_or_insert_with(|| outcome.found.clone()) != &outcome.found {
                return Err(format!("{name}, round {round}: other results than before").into());
            }
        }
        fastest.push(best.as_secs_f64());
    }
    if let [cached, plain] = fastest[..] {
        println!("cached takes {:.2} times as long as plain", cached / plain);
    }
    let found = found.ok_or("nothing ran")?;
    println!("{}", found.summary(start));
    stage.options_report(task, ran);
    check(task, &csr, start, &found)?;
    if let Some(output) = &task.walking.output {
        found.write(output).map_err(|error| cli::about(output, cli::reason(&error)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Compares with what the host computes, if `--check` was given.
fn check(task: &Task, csr: &Csr, start: u64, found: &Found) -> Result<(), Failure> {
    if !task.walking.check {
        return Ok(());
    }
    let loaded = Loaded::of(csr).map_err(|error| cli::about(&task.path, error))?;
    let wanted = match found {
        Found::Distances(_) => Found::Distances(loaded.distances(start)),
        Found::Ranks(_) => Found::Ranks(loaded.ranks(task.walking.iterations)),
    };
    if *found != wanted {
        return Err(cli::about(&task.path, "the host computes something else"));
    }
    println!("checked: the host computes the same");
    Ok(())
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Plain => "plain",
        }
    }
}

impl Found {
    /// A line for people.
    fn summary(&self, start: u64) -> String {
        match self {
            Self::Distances(distances) => {
                let reached = distances.iter().filter(|distance| **distance != UNSEEN);
                let farthest = reached.clone().max().copied().unwrap_or(0);
                format!("{} vertices reached from {start}, the farthest in {farthest} steps", reached.count())
            }
            Self::Ranks(ranks) => {
                // Of several the first.
                let best = ranks.iter().enumerate().rev().max_by_key(|(_, rank)| **rank);
                let (vertex, rank) = best.unwrap_or((0, &0));
                format!("vertex {vertex} has the highest rank: {:.9}", part_of_one(*rank))
            }
        }
    }
    fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        match self {
            Self::Distances(distances) => {
                distances.iter().try_for_each(|distance| file.write_all(&distance.to_le_bytes()))?;
            }
            Self::Ranks(ranks) => {
                ranks.iter().try_for_each(|rank| file.write_all(&part_of_one(*rank).to_le_bytes()))?;
            }
        }
        file.flush()
    }
}

/// Bytes that go to the device at a time.
const PIECE: usize = 1 << 20;

impl<'a> Stage<'a> {
    fn open(task: &Task, csr: &'a Csr, (cache, page): (usize, u32)) -> Result<Self, Failure> {
        let is_cached = task.walking.ways().contains(&Way::Cached);
        let (mut session, plan) = task.options.open(&DEFAULTS, |_| {
            let builder = Session::builder();
            if is_cached { builder.cache(cache).cache_page(page) } else { builder }
        })?;
        let each = if task.verb == Verb::Rank { 8 } else { 4 };
        let bytes = each * csr.rows.vertices as usize;
        let (results, second) = (session.device_buffer(bytes)?, session.device_buffer(bytes)?);
        let counters = session.device_buffer(8 * COUNTERS)?;
        let mut stage = Self { session, plan, csr, map: None, array: None, results, second, counters };
        if is_cached {
            stage.map = Some(stage.session.map(csr.file.try_clone()?)?);
        }
        if task.walking.ways().contains(&Way::Plain) {
            let read = memory::array_of_file(&mut stage.session, &csr.file, (0, csr.bytes));
            stage.array = Some(read.map_err(|error| cli::about(&task.path, cli::reason(&error)))?);
        }
        Ok(stage)
    }
    /// Sets the counters of the next launch.
    fn count_from(&mut self, words: [u64; COUNTERS]) -> Result<(), Failure> {
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        Ok(self.session.write_device(&self.counters, 0, &bytes)?)
    }
    /// How many vertices a warp draws at a time, of so many, to draw about so often.
    fn step(&self, count: u64, draws: u64) -> u32 {
        (count / (draws * u64::from(self.plan.warps()))).clamp(1, 32) as u32
    }
    fn outcome(&mut self, task: &Task, way: Way, start: u64) -> Result<Outcome, Failure> {
        let before = self.session.cache_statistics();
        let (found, took) = match task.verb {
            Verb::Rank => self.rank(task, way)?,
            Verb::Make | Verb::Search => self.search(task, way, start)?,
        };
        let after = self.session.cache_statistics();
        let cache = CacheStatistics {
            hits: after.hits - before.hits,
            misses: after.misses - before.misses,
            evictions: after.evictions - before.evictions,
            ..CacheStatistics::default()
        };
        Ok(Outcome { found, took, cache })
    }

    /// Distances from a vertex, and how long their launches took.
    fn search(&mut self, task: &Task, way: Way, start: u64) -> Result<(Found, Duration), Failure> {
        let (rows, grid) = (self.csr.rows, self.plan.grid);
        let (distances, queue, counters) =
            (words(&self.results), words(&self.second), words64(&self.counters));
        for at in (0..self.results.len()).step_by(PIECE) {
            let unseen = vec![0xff; PIECE.min(self.results.len() - at)];
            self.session.write_device(&self.results, at, &unseen)?;
        }
        self.session.write_device(&self.results, 4 * start as usize, &[0; 4])?;
        self.session.write_device(&self.second, 0, &(start as u32).to_le_bytes())?;
        let search = Search { rows, distances, queue, counters, failure: Handoff::default() };
        let placed = self.session.place(search)?;
        let (search, mut took) = (placed.handle(), Duration::ZERO);
        let (mut from, mut to, mut distance) = (0, 1, 1);
        // Ends: each level finds vertices that were not found before.
        while from < to {
            self.count_from([0, to])?;
            let step = self.step(to - from, 8);
            took += match (way, self.map, self.array) {
                (Way::Cached, Some(map), _) => {
                    let arguments = search_cached::Arguments { search, map, from, to, distance, step };
                    cli::run::<search_cached::Entry>(&mut self.session, grid, arguments)?
                }
                (Way::Plain, _, Some(bytes)) => {
                    let arguments = search_plain::Arguments { search, bytes, from, to, distance, step };
                    cli::run::<search_plain::Entry>(&mut self.session, grid, arguments)?
                }
                _ => return Err("nothing was prepared for this way".into()),
            };
            if let Some(trouble) = self.session.fetch(&placed)?.failure.get() {
                return Err(cli::about(&task.path, explained(trouble)));
            }
            (from, to, distance) = (to, self.numbers64(self.counters)?[1], distance + 1);
        }
        let bytes = self.bytes(self.results)?;
        let found = bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        Ok((Found::Distances(found), took))
    }

    /// Ranks, and how long their launches took.
    fn rank(&mut self, task: &Task, way: Way) -> Result<(Found, Duration), Failure> {
        let (rows, grid) = (self.csr.rows, self.plan.grid);
        let (ranks, sums, counters) =
            (words64(&self.results), words64(&self.second), words64(&self.counters));
        let ranking = Ranking { rows, ranks, sums, counters, failure: Handoff::default() };
        let placed = self.session.place(ranking)?;
        let (ranking, step) = (placed.handle(), self.step(rows.vertices, 3));
        let arguments = settle::Arguments { ranking, is_first: 1 };
        let mut took = cli::run::<settle::Entry>(&mut self.session, grid, arguments)?;
        for _ in 0..task.walking.iterations {
            self.count_from([0; COUNTERS])?;
            took += match (way, self.map, self.array) {
                (Way::Cached, Some(map), _) => {
                    let arguments = rank_cached::Arguments { ranking, map, step };
                    cli::run::<rank_cached::Entry>(&mut self.session, grid, arguments)?
                }
                (Way::Plain, _, Some(bytes)) => {
                    let arguments = rank_plain::Arguments { ranking, bytes, step };
                    cli::run::<rank_plain::Entry>(&mut self.session, grid, arguments)?
                }
                _ => return Err("nothing was prepared for this way".into()),
            };
            if let Some(trouble) = self.session.fetch(&placed)?.failure.get() {
                return Err(cli::about(&task.path, explained(trouble)));
            }
            let arguments = settle::Arguments { ranking, is_first: 0 };
            took += cli::run::<settle::Entry>(&mut self.session, grid, arguments)?;
        }
        Ok((Found::Ranks(self.numbers64(self.results)?), took))
    }
    /// What a buffer holds.
    fn bytes(&mut self, buffer: DeviceBuffer) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; buffer.len()];
        self.session.read_device(&buffer, 0, &mut bytes)?;
        Ok(bytes)
    }
    fn numbers64(&mut self, buffer: DeviceBuffer) -> Result<Vec<u64>, Failure> {
        let bytes = self.bytes(buffer)?;
        Ok(bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
    }
    fn options_report(&self, task: &Task, ran: Duration) {
        task.options.report(&self.session, &self.plan, ran);
    }
}

#[expect(unsafe_code, reason = "memory that kernels use")]
fn words(buffer: &DeviceBuffer) -> Words {
    // SAFETY:
    // - the session's, aligned, and of so many words; the host touches it while no kernel runs
    unsafe { Words::new(buffer.address(), buffer.len() as u64 / 4) }
}

#[expect(unsafe_code, reason = "memory that kernels use")]
fn words64(buffer: &DeviceBuffer) -> Words64 {
    // SAFETY:
    // - as above
    unsafe { Words64::new(buffer.address(), buffer.len() as u64 / 8) }
}

/// A message about a graph that could not be walked.
fn explained(trouble: Trouble) -> String {
    let what = if trouble.is_of_edge() { "neighbour" } else { "offset" };
    match trouble.errno() {
        Some(errno) => format!("cannot read {what} {}: {}", trouble.index, errno.text()),
        None => format!("{what} {} points beyond the graph; 'graph make' makes a new one", trouble.index),
    }
}
