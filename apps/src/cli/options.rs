//! The options that every program takes: where and how its kernel runs. Opens the session that they describe.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use gpufs_host::ring::Mode;
use gpufs_host::session::OpenError;
use gpufs_host::{Builder, CpuOptions, Grid, Schedule, Session};

use super::{CommandLine, Failure, Given, about, reason};

/// What to say about [`Options`] in a program's help.
pub const HELP: &str = "\
Where the kernel runs:
  --device D     cpu: CPU lanes; cuda: an NVIDIA GPU; hip: an AMD GPU;
                 auto, the default: an NVIDIA GPU if there is one and the device program is found, otherwise CPU lanes
  --gpu N        the number of the GPU, from 0 (default 0)
  --program FILE the device program, which --device hip always needs. Default: apps.ptx, in the folder that the environment variable
                 GPUFS_PROGRAMS names, otherwise in the folder of this program; 'cargo xtask bundle' builds it

How it runs:
  --blocks N     blocks in the grid
  --lanes N      lanes (threads) in a block; on a GPU at most 256
  --width N      CPU lanes in a warp: a power of two up to 64
  --cores N      threads of the CPU that run CPU lanes
  --seed S       schedule CPU lanes at random from this seed: the lanes of a warp then diverge as they may on a GPU
  --rings N      number of io_uring rings
  --mode M       how the rings are served: sqpoll, enter or threads
  --statistics   print at the end, to the standard error, where the kernel ran, for how long, and what the rings did
  --help         print this";

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

impl FromStr for Device {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            "hip" => Ok(Self::Hip),
            other => Err(format!("--device {other}: unknown device; use cpu, cuda, hip or auto").into()),
        }
    }
}

/// Where and how a kernel runs: what the command line says of it.
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
    /// How they are served; `None`: the best mode that works.
    pub mode: Option<Mode>,
    /// Whether to print what the rings did.
    pub statistics: bool,
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
    /// The defaults: these grids on CPU lanes and on a GPU.
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

    /// Takes one of the options in [`HELP`], and its value; `false` if `given` is none of them.
    ///
    /// # Errors
    /// The value is missing or wrong.
    pub fn take(&mut self, given: &Given<'_>, line: &mut CommandLine) -> Result<bool, Failure> {
        let Given::Long(name) = *given else { return Ok(false) };
        match name {
            "device" => self.device = line.text()?.parse()?,
            "gpu" => self.gpu = line.number(name)?,
            "program" => self.program = Some(line.path()?),
            "blocks" => self.blocks = Some(line.number(name)?),
            "lanes" => self.lanes = Some(line.number(name)?),
            "width" => self.cpu.width = line.number(name)?,
            "cores" => self.cpu.threads = line.number(name)?,
            "seed" => self.cpu.schedule = Schedule::Seeded(line.number(name)?),
            "rings" => self.rings = Some(line.number(name)?),
            "mode" => {
                let mode = line.text()?;
                let known = Mode::BEST_FIRST.into_iter().find(|known| known.to_string() == mode);
                let known = known
                    .ok_or_else(|| format!("--mode {mode}: unknown mode; use sqpoll, enter or threads"))?;
                self.mode = Some(known);
            }
            "statistics" => self.statistics = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Opens a session where the options say. `prepare` gets the plan, whose grid it may lower, and returns a builder with the session's
    /// sizes; if the first choice of a device does not work, it is called again for the next.
    ///
    /// # Errors
    /// A value is out of range; the machine lacks something.
    pub fn open(&self, prepare: impl Fn(&mut Plan) -> Builder) -> Result<(Session, Plan), Failure> {
        if self.blocks == Some(0) {
            return Err("--blocks 0: a grid has at least 1 block".into());
        }
        if self.lanes == Some(0) {
            return Err("--lanes 0: a block has at least 1 lane".into());
        }
        let mut plan = match self.device {
            Device::Cpu => self.plan(false),
            Device::Cuda => return self.open_gpu(&prepare, self.program()?, Builder::cuda),
            #[cfg(feature = "hip")]
            Device::Hip => {
                let wanted = "--device hip needs --program FILE: the device program as a code object for that GPU, which 'cargo xtask bundle' builds";
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

    fn plan(&self, is_gpu: bool) -> Plan {
        let grid = if is_gpu { self.gpu_grid } else { self.cpu_grid };
        let (blocks, threads) = (self.blocks.unwrap_or(grid.blocks), self.lanes.unwrap_or(grid.threads));
        let width = if is_gpu { 32 } else { self.cpu.width.min(threads) };
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

    /// Prints where the kernel ran, for how long, and what the rings did, if `--statistics` was given.
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
