//! Lanes on a CPU: a grid of blocks of warps, for machines without a GPU, for tests and for continuous integration.
//!
//! Each lane is a fiber with a stack of its own. A warp's lanes stay on one OS thread and take turns there; a launch's warps are
//! spread over its OS threads. Lanes switch only inside warp operations (`gpufs_core::lanes`), never between them, so:
//!
//! - a lane that waits for another must call `nap` in its loop;
//! - a lane must not hold a lock of the OS thread's (`std::sync::Mutex`) over a warp operation: another lane of the same thread may want
//!   it; and thread-locals belong to all lanes of a thread together;
//! - lanes of one warp never race with each other in memory, but lanes of different warps do.
//!
//! Warps start in order of their blocks. A block's warps are resident together as soon as they wait for each other, on as many
//! OS threads as there are.
//!
//! What a group of `calling` lanes is: on a GPU, the lanes that happen to arrive together. Here, with [`Schedule::Fast`], all the lanes
//! of the warp that can arrive before some lane of the group must go on; with [`Schedule::Seeded`], any that the seed picks.

mod backoff;
mod error;
mod fast;
mod kept;
mod resident;
mod runtime;
mod seeded;
mod stack;
mod warp;
mod work;

use std::io;
use std::ops::RangeInclusive;
use std::panic;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

pub use error::LaunchError;
pub(crate) use kept::KeptThread;
pub(crate) use runtime::is_lane;
use work::Work;

/// What [`CpuOptions::threads`] may be.
pub const THREADS: RangeInclusive<usize> = 1..=4096;

/// What [`CpuOptions::stack_bytes`] may be.
pub const STACK_BYTES: RangeInclusive<usize> = (16 << 10)..=(1 << 30);

/// How many lanes of a launch may have stacks at once, roughly. Each stack takes two of the mappings that the system allows a
/// process (`vm.max_map_count`, 65530 by default).
const RESIDENT_LANES_MAX: usize = 24_576;

/// How many threads run the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks in the grid, at least 1.
    pub blocks: u32,
    /// Threads in a block, at least 1.
    pub threads: u32,
}

/// How a launch uses the machine. The default suits kernels that do I/O.
#[derive(Clone, Debug)]
pub struct CpuOptions {
    /// Lanes in a warp: a power of two from 1 to 64. Default 32.
    pub width: u32,
    /// OS threads, in [`THREADS`]. Default: as many as the machine runs at once.
    pub threads: usize,
    /// Bytes of a lane's stack, in [`STACK_BYTES`]; memory is taken as far as it is used. A lane that needs more faults. Default
    /// 128 KiB.
    pub stack_bytes: usize,
    /// The most warps that an OS thread has started and not ended, at least 1. A block that has more than this is resident all
    /// the same. Default 64.
    pub resident_warps: usize,
    /// Which lane runs next. Default [`Schedule::Fast`].
    pub schedule: Schedule,
}

impl Default for CpuOptions {
    fn default() -> Self {
        Self {
            width: 32,
            threads: thread::available_parallelism().map_or(1, usize::from),
            stack_bytes: 128 << 10,
            resident_warps: 64,
            schedule: Schedule::Fast,
        }
    }
}

/// Which lane runs next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// A lane runs until it waits, and groups of calling lanes are as large as they can be.
    #[default]
    Fast,
    /// Every warp operation may let any other lane run, and groups of calling lanes are often split. All choices come from the
    /// seed, so a run can be repeated. One OS thread runs everything, whatever the options say.
    Seeded(u64),
}

/// Runs `kernel` once for each thread of `grid` and returns when all have ended.
///
/// After a lane's panic the others go on. Those that can no longer do so because they wait for it in a collective are unwound, and
/// so are those that still wait in a nap one second after the first panic.
///
/// # Errors
/// What is wrong with the options; the first panic of a lane, which includes what the warp operations say of calls that break their
/// rules; a refusal of the system.
pub fn launch<F: Fn() + Sync>(grid: Grid, options: &CpuOptions, kernel: F) -> Result<(), LaunchError> {
    launch_of(0, grid, options, kernel)
}

/// [`launch`] for `session`, whose tables its lanes use: a number as [`Gate::session`](gpufs_core::gate::Gate::session), or 0 for none. The
/// session is open until all lanes have ended.
pub(crate) fn launch_of<F: Fn() + Sync>(
    session: u64,
    grid: Grid,
    options: &CpuOptions,
    kernel: F,
) -> Result<(), LaunchError> {
    check(grid, options)?;
    run(grid, options, session, &kernel)
}

/// Starts what [`launch`] does, and returns.
///
/// # Errors
/// What is wrong with the options; the system's refusal of a thread. The rest comes from [`Launched::join`].
pub fn spawn<F>(grid: Grid, options: &CpuOptions, kernel: F) -> Result<Launched, LaunchError>
where
    F: Fn() + Send + Sync + 'static,
{
    spawn_of(0, grid, options, kernel)
}

/// [`spawn`] for a session, as [`launch_of`].
pub(crate) fn spawn_of<F>(
    session: u64,
    grid: Grid,
    options: &CpuOptions,
    kernel: F,
) -> Result<Launched, LaunchError>
where
    F: Fn() + Send + Sync + 'static,
{
    check(grid, options)?;
    let options = options.clone();
    let thread = thread::Builder::new()
        .name("gpufs launch".to_owned())
        .spawn(move || run(grid, &options, session, &kernel))
        .map_err(LaunchError::System)?;
    Ok(Launched(On::Own(thread)))
}

/// A launch that was started with [`spawn`]. If it is dropped, the launch runs on by itself.
#[derive(Debug)]
#[must_use = "the launch's errors come from `join`"]
pub struct Launched(On);

/// What runs a launch.
#[derive(Debug)]
enum On {
    /// Threads of its own.
    Own(JoinHandle<Result<(), LaunchError>>),
    /// A thread that is kept.
    Kept(Arc<kept::Outcome>),
}

impl Launched {
    /// Whether all lanes have ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            On::Own(thread) => thread.is_finished(),
            On::Kept(outcome) => outcome.is_known(),
        }
    }

    /// Waits until all lanes have ended.
    ///
    /// # Errors
    /// Those of [`launch`].
    pub fn join(self) -> Result<(), LaunchError> {
        let ended = match self.0 {
            On::Own(thread) => thread.join(),
            On::Kept(outcome) => outcome.wait(),
        };
        ended.unwrap_or_else(|payload| panic::resume_unwind(payload))
    }
}

fn check(grid: Grid, options: &CpuOptions) -> Result<(), LaunchError> {
    if grid.blocks == 0 || grid.threads == 0 {
        return Err(LaunchError::EmptyGrid(grid));
    }
    check_options(options)
}

/// What is wrong with the options, if anything is.
pub(crate) fn check_options(options: &CpuOptions) -> Result<(), LaunchError> {
    if !options.width.is_power_of_two() || options.width > 64 {
        return Err(LaunchError::Width(options.width));
    }
    if !THREADS.contains(&options.threads) {
        return Err(LaunchError::Threads(options.threads));
    }
    if options.resident_warps == 0 {
        return Err(LaunchError::NoResidentWarps);
    }
    if !STACK_BYTES.contains(&options.stack_bytes) {
        return Err(LaunchError::StackBytes(options.stack_bytes));
    }
    Ok(())
}

/// Gives device code that runs on the host its clock, its naps and its lanes: what a session does before anything else, and a launch without.
#[expect(unsafe_code, reason = "the runtime of CPU lanes")]
pub(crate) fn install() {
    // SAFETY:
    // - the functions of this module's lanes, which do that
    unsafe { gpufs_core::lanes::install(&runtime::RUNTIME) };
}

/// Runs a launch whose parameters are good.
fn run(
    grid: Grid,
    options: &CpuOptions,
    session: u64,
    kernel: &(dyn Fn() + Sync),
) -> Result<(), LaunchError> {
    install();
    let work = Work::new(grid, options, session, kernel);
    let threads = threads(&work, options);
    let limit = resident_warps(&work, options, threads);
    let worker = || {
        sleep_precisely();
        match options.schedule {
            Schedule::Fast => fast::run(&work, limit, None),
            Schedule::Seeded(seed) => seeded::run(&work, limit, seed),
        }
    };
    // The caller's own thread runs no lanes: it may itself be a lane, and its panic count and thread-locals are its own.
    let started = thread::scope(|scope| -> io::Result<()> {
        for index in 0..threads {
            let thread = thread::Builder::new().name(format!("gpufs lanes {index}"));
            match thread.spawn_scoped(scope, worker) {
                Ok(_) => {}
                // The threads that there are do the work.
                Err(_) if index > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    });
    started.map_err(LaunchError::System)?;
    work.into_result()
}

/// How many OS threads run `work`.
fn threads(work: &Work<'_>, options: &CpuOptions) -> usize {
    match options.schedule {
        Schedule::Fast => options.threads.min(usize::try_from(work.warps()).unwrap_or(usize::MAX)),
        Schedule::Seeded(_) => 1,
    }
}

/// How many warps each of so many threads has at a time.
fn resident_warps(work: &Work<'_>, options: &CpuOptions, threads: usize) -> usize {
    let lanes_each = RESIDENT_LANES_MAX / threads;
    // A whole block always fits, even on one thread, so the lanes of the first incomplete block can wait for each other.
    options
        .resident_warps
        .min(lanes_each / options.width as usize)
        .max(usize::try_from(work.block_warps()).unwrap_or(usize::MAX))
}

/// Lets this thread sleep for microseconds, where Linux would otherwise add 50 of its own.
#[expect(unsafe_code, reason = "a system call")]
fn sleep_precisely() {
    let slack_ns: libc::c_ulong = 1_000;
    // SAFETY: the call takes one number and changes this thread's timer slack only. A refusal only makes sleeps longer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) };
}
