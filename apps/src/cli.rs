//! What all programs do alike: the options that say where and how a kernel runs, and how errors end a program.

use std::error::Error;
use std::ffi::{CString, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use gpufs_core::kernel::Kernel;
use gpufs_host::ring::Mode;
use gpufs_host::session::OpenError;
use gpufs_host::{Builder, CpuOptions, Grid, Schedule, Session};
use lexopt::{Parser, ValueExt};

/// Anything that ends a program; its text is the message.
pub type Failure = Box<dyn Error>;

/// What to say about [`Options`] in a program's help.
pub const HELP: &str = "\
Where the kernel runs:
  --device D     cpu: CPU lanes; cuda: an NVIDIA GPU; hip: an AMD GPU;
                 auto, the default: an NVIDIA GPU if there is one and the device program is found, else the CPU
  --gpu N        the GPU's number, from 0 (default 0)
  --program FILE the device program; always for hip. Default: apps.ptx, in the folder that the environment variable GPUFS_PROGRAMS
                 names, or beside this program; 'cargo xtask bundle' builds it

How it runs:
  --blocks N     blocks in the grid
  --lanes N      lanes (threads) in a block; on a GPU at most 256
  --width N      CPU lanes in a warp: a power of two up to 64
  --cores N      threads of the machine that run CPU lanes
  --seed S       let CPU lanes part and take turns as a seed says, to see what a GPU's lanes may do
  --rings N      io_uring rings
  --mode M       who serves the rings: sqpoll, enter or threads
  --statistics   say at the end, on the standard error, where the kernel ran, how long, and what the rings did
  --help         print this";

/// Names the folder that holds device programs.
const PROGRAMS: &str = "GPUFS_PROGRAMS";
/// The device program for NVIDIA GPUs.
const PTX: &str = "apps.ptx";
/// Lanes in a block at most: the kernels use up to 255 registers, and a GPU has 65,536 for a block.
const MOST_GPU_LANES: u32 = 256;

/// Where kernels may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// An NVIDIA GPU if it works, else CPU lanes.
    Auto,
    /// CPU lanes.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
    /// An AMD GPU.
    Hip,
}

impl FromStr for Device {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            "hip" => Ok(Self::Hip),
            other => Err(format!("--device {other}: use cpu, cuda, hip or auto").into()),
        }
    }
}

/// Where and how a kernel runs, as far as the command line says so.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where.
    pub device: Device,
    /// The GPU's number.
    pub gpu: u32,
    /// The device program; `None`: where it usually lies.
    pub program: Option<PathBuf>,
    /// Blocks in the grid; `None`: the program's default.
    pub blocks: Option<u32>,
    /// Lanes in a block, likewise.
    pub lanes: Option<u32>,
    /// The program's grid on CPU lanes.
    pub cpu_grid: Grid,
    /// The program's grid on a GPU.
    pub gpu_grid: Grid,
    /// How lanes use the CPU.
    pub cpu: CpuOptions,
    /// Rings; `None`: the session's default.
    pub rings: Option<u32>,
    /// Who serves them; `None`: the best that works.
    pub mode: Option<Mode>,
    /// Whether to say what the rings did.
    pub statistics: bool,
}

/// Where a session's kernels do run, and on what grid.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whether on a GPU.
    pub is_gpu: bool,
    /// The grid.
    pub grid: Grid,
    /// Lanes in a warp.
    pub width: u32,
    /// Why not on a GPU, where that was left open.
    pub passed_over: Option<String>,
}

impl Plan {
    /// Warps in the grid.
    #[must_use]
    pub fn warps(&self) -> u32 {
        self.grid.blocks.saturating_mul(self.grid.threads.div_ceil(self.width.max(1)))
    }
    /// Lanes in the grid.
    #[must_use]
    pub fn all_lanes(&self) -> u32 {
        self.grid.blocks.saturating_mul(self.grid.threads)
    }
    /// Leaves out blocks until there are no more lanes than `most`, or one block.
    pub fn limit_lanes(&mut self, most: u32) {
        self.grid.blocks = self.grid.blocks.min(most / self.grid.threads.max(1)).max(1);
    }

    /// Memory that lanes use and files are read into: its address on the device. It stays as long as the session.
    ///
    /// # Errors
    /// There is no more of it.
    pub fn scratch(&self, session: &mut Session, bytes: usize) -> Result<u64, Failure> {
        if self.is_gpu {
            // Lanes would reach registered memory through the bus, again and again.
            return Ok(session.device_buffer(bytes)?.address());
        }
        // Registered: files are read into it in place.
        Ok(session.register_buffer(bytes)?.as_ptr() as u64)
    }
}

impl Options {
    /// Defaults: these grids on CPU lanes and on a GPU.
    #[must_use]
    pub fn new(cpu_grid: Grid, gpu_grid: Grid) -> Self {
        Self {
            device: Device::Auto,
            gpu: 0,
            program: None,
            blocks: None,
            lanes: None,
            cpu_grid,
            gpu_grid,
            cpu: CpuOptions::default(),
            rings: None,
            mode: None,
            statistics: false,
        }
    }

    /// Takes one of the options in [`HELP`]; whether `name`, without its dashes, is one.
    ///
    /// # Errors
    /// What is wrong with its value.
    pub fn take(&mut self, name: &str, parser: &mut Parser) -> Result<bool, Failure> {
        match name {
            "device" => self.device = parser.value()?.string()?.parse()?,
            "gpu" => self.gpu = number(name, parser)?,
            "program" => self.program = Some(parser.value()?.into()),
            "blocks" => self.blocks = Some(number(name, parser)?),
            "lanes" => self.lanes = Some(number(name, parser)?),
            "width" => self.cpu.width = number(name, parser)?,
            "cores" => self.cpu.threads = number(name, parser)?,
            "seed" => self.cpu.schedule = Schedule::Seeded(number(name, parser)?),
            "rings" => self.rings = Some(number(name, parser)?),
            "mode" => {
                let mode = parser.value()?.string()?;
                let known = Mode::BEST_FIRST.into_iter().find(|known| known.to_string() == mode);
                self.mode =
                    Some(known.ok_or_else(|| format!("--mode {mode}: use sqpoll, enter or threads"))?);
            }
            "statistics" => self.statistics = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Opens a session where the options say. `prepare` gets the plan, which it may lower, and gives the session's sizes for it; where
    /// the first choice of a device does not work, it is called again for the next.
    ///
    /// # Errors
    /// A value that does not fit; what the machine lacks.
    pub fn open(&self, prepare: impl Fn(&mut Plan) -> Builder) -> Result<(Session, Plan), Failure> {
        if self.blocks == Some(0) || self.lanes == Some(0) {
            return Err("--blocks and --lanes: at least 1 each".into());
        }
        let mut plan = match self.device {
            Device::Cpu => self.plan(false),
            Device::Cuda => return self.open_gpu(&prepare, self.program()?, Builder::cuda),
            #[cfg(feature = "hip")]
            Device::Hip => {
                let wanted =
                    "--device hip wants --program FILE: the device program as a code object for that GPU";
                return self.open_gpu(&prepare, self.program.clone().ok_or(wanted)?, Builder::hip);
            }
            #[cfg(not(feature = "hip"))]
            Device::Hip => {
                return Err(
                    "--device hip: this build has no HIP support; build it with --features hip, or use cpu, cuda or auto".into(),
                );
            }
            Device::Auto => {
                match self.program().and_then(|program| self.open_gpu(&prepare, program, Builder::cuda)) {
                    Ok(opened) => return Ok(opened),
                    Err(reason) => {
                        if std::env::var_os("GPUFS_QUIET").is_none_or(|value| value.is_empty()) {
                            eprintln!("runs on CPU lanes, not on a GPU: {reason}");
                        }
                        Plan { passed_over: Some(reason.to_string()), ..self.plan(false) }
                    }
                }
            }
        };
        let builder = self.with_rings(prepare(&mut plan));
        Ok((builder.cpu_with(self.cpu.clone())?, plan))
    }

    /// Opens a session on a GPU, with the device program at `path`.
    fn open_gpu(
        &self,
        prepare: &impl Fn(&mut Plan) -> Builder,
        path: PathBuf,
        open: impl Fn(Builder, u32, &[u8]) -> Result<Session, OpenError>,
    ) -> Result<(Session, Plan), Failure> {
        let mut plan = self.plan(true);
        if plan.grid.threads > MOST_GPU_LANES {
            let text = format!("--lanes {}: on a GPU at most {MOST_GPU_LANES} in a block", plan.grid.threads);
            return Err(text.into());
        }
        let program = std::fs::read(&path).map_err(|error| {
            about(&path, format!("{}; 'cargo xtask bundle' builds the device program", reason(&error)))
        })?;
        let builder = self.with_rings(prepare(&mut plan));
        Ok((open(builder, self.gpu, &program)?, plan))
    }

    fn plan(&self, is_gpu: bool) -> Plan {
        let grid = if is_gpu { self.gpu_grid } else { self.cpu_grid };
        let (blocks, threads) = (self.blocks.unwrap_or(grid.blocks), self.lanes.unwrap_or(grid.threads));
        let width = if is_gpu { 32 } else { self.cpu.width.min(threads) };
        Plan { is_gpu, grid: Grid { blocks, threads }, width, passed_over: None }
    }

    /// With what the command line says of the rings. The programs look at every error and say what it means, so the session need not.
    fn with_rings(&self, builder: Builder) -> Builder {
        let mut builder = builder.report_failures(false);
        if let Some(rings) = self.rings {
            builder = builder.rings(rings);
        }
        if let Some(mode) = self.mode {
            builder = builder.mode(mode);
        }
        builder
    }

    /// The device program for NVIDIA GPUs: where it should lie.
    fn program(&self) -> Result<PathBuf, Failure> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        if let Some(folder) = std::env::var_os(PROGRAMS) {
            return Ok(Path::new(&folder).join(PTX));
        }
        Ok(std::env::current_exe()?.with_file_name(PTX))
    }

    /// Says where the kernel ran, how long, and what the rings did, if that was asked for.
    pub fn report(&self, session: &Session, plan: &Plan, ran: Duration) {
        if self.statistics {
            eprintln!(
                "ran on {}, {} blocks of {} lanes, for {ran:.2?}",
                session.device_name(),
                plan.grid.blocks,
                plan.grid.threads
            );
            if let Some(reason) = &plan.passed_over {
                eprintln!("not on a GPU: {reason}");
            }
            eprintln!("served by {}, in memory of the {}", session.mode(), session.ring_memory());
            for (mode, reason) in session.refused() {
                eprintln!("not by {mode}: {reason}");
            }
            for (memory, reason) in session.refused_memory() {
                eprintln!("not of the {memory}: {reason}");
            }
            eprintln!("{:?}", session.statistics().total());
        }
    }
}

/// One thread: for a kernel that opens a file.
pub const ONE: Grid = Grid { blocks: 1, threads: 1 };

/// Runs a kernel to its end: how long it took, its streams written.
///
/// # Errors
/// As [`Session::start`] and [`Session::synchronize`].
pub fn run<K: Kernel>(
    session: &mut Session,
    grid: Grid,
    arguments: K::Arguments,
) -> Result<Duration, gpufs_host::session::SyncError> {
    let started = Instant::now();
    session.start::<K>(grid, arguments)?;
    session.synchronize()?;
    Ok(started.elapsed())
}

/// The value of an option, a number.
///
/// # Errors
/// It is missing, or is no such number.
pub fn number<T: std::str::FromStr>(name: &str, parser: &mut Parser) -> Result<T, Failure> {
    let value = parser.value()?;
    let text = value.to_string_lossy();
    text.parse().map_err(|_| format!("--{name} {text}: a whole number is wanted").into())
}

/// The value of an option, a size in bytes, perhaps with K, M or G for 2¹⁰, 2²⁰, 2³⁰.
///
/// # Errors
/// It is missing, or is no such number.
pub fn size(name: &str, parser: &mut Parser) -> Result<usize, Failure> {
    let value = parser.value()?;
    let text = value.to_string_lossy();
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (&text[..], 0),
    };
    let number = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
    number.ok_or_else(|| format!("--{name} {text}: a number of bytes is wanted, such as 65536 or 64K").into())
}

/// A path as the device wants it.
///
/// # Errors
/// It holds a NUL.
pub fn c_path(path: impl Into<OsString>) -> Result<CString, Failure> {
    CString::new(path.into().into_vec()).map_err(|error| {
        let path = String::from_utf8_lossy(&error.into_vec()).into_owned();
        format!("{path:?}: no path holds a NUL byte").into()
    })
}

/// A path in a message.
#[must_use]
pub fn show(path: &Path) -> String {
    String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned()
}

/// An error of a file: `path: what was wrong`.
pub fn about(path: &Path, error: impl fmt::Display) -> Failure {
    format!("{}: {error}", show(path)).into()
}

/// An error of the system, in the C library's words.
#[must_use]
pub fn reason(error: &std::io::Error) -> String {
    // `Display` adds the number.
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// A path for a placed job.
///
/// # Errors
/// It holds a NUL, or no system call would take one so long.
pub fn device_path(path: &Path) -> Result<gpufs_device::kernel::Path, Failure> {
    gpufs_device::kernel::Path::new(&c_path(path)?).ok_or_else(|| about(path, "File name too long"))
}

/// Raises the limit of files that this process may have open to `wanted`, as far as it may: what it is then.
#[must_use]
#[allow(unsafe_code, reason = "the system's limits")]
pub fn allow_files(wanted: u32) -> u32 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY:
    // - `limit` is valid for writing
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return wanted;
    }
    let raised = libc::rlimit { rlim_cur: limit.rlim_max.min(wanted.into()), rlim_max: limit.rlim_max };
    if limit.rlim_cur < raised.rlim_cur {
        // SAFETY:
        // - `raised` is valid for reading
        let outcome = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
        if outcome == 0 {
            limit = raised;
        }
    }
    u32::try_from(limit.rlim_cur).unwrap_or(u32::MAX)
}

/// Runs a program: an error is printed after the program's name, and the exit status is then `trouble`.
pub fn main(program: &str, trouble: u8, body: impl FnOnce(Parser) -> Result<ExitCode, Failure>) -> ExitCode {
    body(Parser::from_env()).unwrap_or_else(|error| {
        eprintln!("{program}: {error}");
        ExitCode::from(trouble)
    })
}
