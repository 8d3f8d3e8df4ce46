//! The options that every program takes: where and how its kernel runs. Opens the session that they describe.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use gpufs_host::ring::Mode;
use gpufs_host::session::OpenError;
use gpufs_host::{Builder, CpuOptions, Grid, Schedule, Session};

use super::statistics::{self, Format};
use super::values::{self, Choice};
use super::{Failure, about, reason};

const WHERE: &str = "Where the kernel runs";
const HOW: &str = "How it runs";

/// Names the folder that holds device programs.
const PROGRAMS: &str = "GPUFS_PROGRAMS";
/// The device program for NVIDIA GPUs.
const PTX: &str = "apps.ptx";
/// The most lanes in a block: the kernels use up to 255 registers, and a GPU has 65,536 for a block.
const GPU_LANES_MAX: u32 = 256;

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

impl Device {
    const CHOICE: Choice<Self> = Choice {
        wrong: "unknown device; use cpu, cuda, hip or auto",
        names: &[("cpu", Self::Cpu), ("cuda", Self::Cuda), ("hip", Self::Hip), ("auto", Self::Auto)],
    };
}

const MODES: Choice<Mode> = Choice {
    wrong: "unknown mode; use sqpoll, enter or threads",
    names: &[("sqpoll", Mode::Sqpoll), ("enter", Mode::Enter), ("threads", Mode::Threads)],
};

/// What a program takes where the command line says nothing.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Its grid on CPU lanes.
    pub cpu_grid: Grid,
    /// Its grid on a GPU.
    pub gpu_grid: Grid,
    /// CPU lanes in a warp.
    pub width: u32,
    /// Whether all warps wait for each other: then all are started at once.
    pub all_at_once: bool,
}

impl Defaults {
    /// These grids on CPU lanes and on a GPU, with warps as wide as those of a GPU.
    #[must_use]
    pub const fn new(cpu_grid: Grid, gpu_grid: Grid) -> Self {
        Self { cpu_grid, gpu_grid, width: 32, all_at_once: false }
    }
}

/// Where and how a kernel runs: what the command line says of it.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// CPU lanes, an NVIDIA GPU or an AMD GPU; auto: an NVIDIA GPU if there is one and the device
    /// program is found, else CPU lanes
    #[arg(long, verbatim_doc_comment, value_name = "DEVICE", default_value = "auto", value_parser = Device::CHOICE, help_heading = WHERE)]
    pub device: Device,
    /// The number of the GPU, from 0
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::number::<u32>(), help_heading = WHERE)]
    pub gpu: u32,
    /// The device program, which 'cargo xtask bundle' builds; --device hip always needs one
    /// [default: apps.ptx, in the folder that the environment variable GPUFS_PROGRAMS names, otherwise
    /// in the folder of this program]
    #[arg(long, verbatim_doc_comment, value_name = "FILE", value_parser = values::path(), help_heading = WHERE)]
    pub program: Option<PathBuf>,
    /// Blocks in the grid
    #[arg(long, value_name = "N", value_parser = values::at_least_1::<u32>("a grid has at least 1 block"), help_heading = HOW)]
    pub blocks: Option<u32>,
    /// Lanes (threads) in a block; on a GPU at most 256
    #[arg(long, value_name = "N", value_parser = values::at_least_1::<u32>("a block has at least 1 lane"), help_heading = HOW)]
    pub lanes: Option<u32>,
    /// CPU lanes in a warp: a power of two up to 64
    #[arg(long, value_name = "N", value_parser = values::number::<u32>(), help_heading = HOW)]
    pub width: Option<u32>,
    /// Threads of the CPU that run CPU lanes
    #[arg(long, value_name = "N", value_parser = values::number::<usize>(), help_heading = HOW)]
    pub cores: Option<usize>,
    /// Schedule CPU lanes at random from this seed: those of a warp then diverge as they may on a GPU
    #[arg(long, value_name = "SEED", value_parser = values::number::<u64>(), help_heading = HOW)]
    pub seed: Option<u64>,
    /// Number of io_uring rings
    #[arg(long, value_name = "N", value_parser = values::number::<u32>(), help_heading = HOW)]
    pub rings: Option<u32>,
    /// How the rings are served [default: the best way that works]
    #[arg(long, value_name = "MODE", value_parser = MODES, help_heading = HOW)]
    pub mode: Option<Mode>,
    /// Print at the end, to the standard error, where the kernel ran, for how long, and what the
    /// rings did: for people, or as one JSON object on one line
    #[arg(
        long, verbatim_doc_comment, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text",
        value_parser = Format::CHOICE, help_heading = HOW
    )]
    pub statistics: Option<Format>,
}

/// Where a session's kernels run, and on what grid.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whether on a GPU.
    pub is_gpu: bool,
    /// The grid.
    pub grid: Grid,
    /// Lanes in a warp.
    pub width: u32,
    /// Why it does not run on a GPU, where the command line leaves that open.
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
    /// Lowers the number of blocks until there are at most `most` lanes, or one block.
    pub fn limit_lanes(&mut self, most: u32) {
        self.grid.blocks = self.grid.blocks.min(most / self.grid.threads.max(1)).max(1);
    }

    /// Memory that lanes use and files are read into: its address on the device. The session frees it when it closes.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn scratch(&self, session: &mut Session, bytes: usize) -> Result<u64, Failure> {
        if self.is_gpu {
            // Registered memory is the host's: lanes would read it over the bus each time.
            return Ok(session.device_buffer(bytes)?.address());
        }
        // Registered: files are read into it in place.
        Ok(session.register_buffer(bytes)?.as_ptr() as u64)
    }
}

impl Options {
    /// Opens a session where the options say, and where they say nothing as `defaults` does. `prepare` gets the plan, whose grid it may lower, and
    /// returns a builder with the session's sizes; if the first choice of a device does not work, it is called again for the next.
    ///
    /// # Errors
    /// A value is out of range; the machine lacks something.
    pub fn open(
        &self,
        defaults: &Defaults,
        prepare: impl Fn(&mut Plan) -> Builder,
    ) -> Result<(Session, Plan), Failure> {
        let mut plan = match self.device {
            Device::Cpu => self.plan(defaults, false),
            Device::Cuda => return self.open_gpu(defaults, &prepare, self.program()?, Builder::cuda),
            #[cfg(feature = "hip")]
            Device::Hip => {
                let wanted = "--device hip needs --program FILE: the device program as a code object for that GPU, which 'cargo xtask bundle' builds";
                let program = self.program.clone().ok_or(wanted)?;
                return self.open_gpu(defaults, &prepare, program, Builder::hip);
            }
            #[cfg(not(feature = "hip"))]
            Device::Hip => {
                return Err(
                    "--device hip: this build has no HIP support; build it with --features hip, or use cpu, cuda or auto".into(),
                );
            }
            Device::Auto => {
                let program = self.program();
                match program.and_then(|program| self.open_gpu(defaults, &prepare, program, Builder::cuda)) {
                    Ok(opened) => return Ok(opened),
                    Err(reason) => {
                        if std::env::var_os("GPUFS_QUIET").is_none_or(|value| value.is_empty()) {
                            eprintln!("runs on CPU lanes, not on a GPU: {reason}");
                        }
                        Plan { passed_over: Some(reason.to_string()), ..self.plan(defaults, false) }
                    }
                }
            }
        };
        let builder = self.with_rings(prepare(&mut plan));
        Ok((builder.cpu_with(self.cpu(defaults, &plan))?, plan))
    }

    /// How lanes use the CPU.
    fn cpu(&self, defaults: &Defaults, plan: &Plan) -> CpuOptions {
        let mut options = CpuOptions { width: self.width.unwrap_or(defaults.width), ..CpuOptions::default() };
        options.threads = self.cores.unwrap_or(options.threads);
        options.schedule = self.seed.map_or(options.schedule, Schedule::Seeded);
        if defaults.all_at_once {
            // There are no more warps than lanes.
            options.resident_warps = options.resident_warps.max(plan.all_lanes() as usize);
        }
        options
    }

    /// Opens a session on a GPU, with the device program at `path`.
    fn open_gpu(
        &self,
        defaults: &Defaults,
        prepare: &impl Fn(&mut Plan) -> Builder,
        path: PathBuf,
        open: impl Fn(Builder, u32, &[u8]) -> Result<Session, OpenError>,
    ) -> Result<(Session, Plan), Failure> {
        let mut plan = self.plan(defaults, true);
        if plan.grid.threads > GPU_LANES_MAX {
            let text =
                format!("--lanes {}: a block has at most {GPU_LANES_MAX} lanes on a GPU", plan.grid.threads);
            return Err(text.into());
        }
        let program = std::fs::read(&path).map_err(|error| {
            about(&path, format!("{}; 'cargo xtask bundle' builds the device program", reason(&error)))
        })?;
        let builder = self.with_rings(prepare(&mut plan));
        Ok((open(builder, self.gpu, &program)?, plan))
    }

    fn plan(&self, defaults: &Defaults, is_gpu: bool) -> Plan {
        let grid = if is_gpu { defaults.gpu_grid } else { defaults.cpu_grid };
        let (blocks, threads) = (self.blocks.unwrap_or(grid.blocks), self.lanes.unwrap_or(grid.threads));
        let width = if is_gpu { 32 } else { self.width.unwrap_or(defaults.width).min(threads) };
        Plan { is_gpu, grid: Grid { blocks, threads }, width, passed_over: None }
    }

    /// Adds the options of the rings. The programs look at every error and report it, so the session does not.
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

    /// Where the device program for NVIDIA GPUs should be.
    fn program(&self) -> Result<PathBuf, Failure> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        if let Some(folder) = std::env::var_os(PROGRAMS) {
            return Ok(Path::new(&folder).join(PTX));
        }
        Ok(std::env::current_exe()?.with_file_name(PTX))
    }

    /// Prints where the kernel ran, for how long, and what the rings did, if `--statistics` was given. While no kernel runs.
    pub fn report(&self, session: &Session, plan: &Plan, ran: Duration) {
        if let Some(format) = self.statistics {
            eprint!("{}", statistics::of(format, session, plan, ran));
        }
    }
}
