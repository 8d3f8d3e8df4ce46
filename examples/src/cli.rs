//! What all programs do alike: the options that say how a kernel runs, and how errors end a program.

use std::error::Error;
use std::ffi::{CString, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;

use gpufs_host::cpu::CpuOptions;
use gpufs_host::ring::Mode;
use gpufs_host::{Builder, Grid, Session};
use lexopt::{Parser, ValueExt};

/// Anything that ends a program; its text is the message.
pub type Failure = Box<dyn Error>;

/// What to say about [`Options`] in a program's help.
pub const HELP: &str = "\
How the kernel runs:
  --device D     cpu, or auto (the best there is; today the CPU)
  --blocks N     blocks in the grid
  --lanes N      lanes (threads) in a block
  --width N      lanes in a warp: a power of two up to 64
  --cores N      threads of the machine that run the lanes
  --rings N      io_uring rings
  --mode M       who serves the rings: sqpoll, enter or threads
  --statistics   say at the end, on the standard error, what the rings did
  --help         print this";

/// How a kernel runs. Each program has defaults of its own.
#[derive(Clone, Debug)]
pub struct Options {
    /// Blocks in the grid.
    pub blocks: u32,
    /// Lanes in a block.
    pub lanes: u32,
    /// How lanes use the CPU.
    pub cpu: CpuOptions,
    /// Rings; `None`: the session's default.
    pub rings: Option<u32>,
    /// Who serves them; `None`: the best that works.
    pub mode: Option<Mode>,
    /// Whether to say what the rings did.
    pub statistics: bool,
}

impl Options {
    /// Defaults: a grid of `blocks` blocks of `lanes` lanes.
    #[must_use]
    pub fn new(blocks: u32, lanes: u32) -> Self {
        let cpu = CpuOptions::default();
        Self { blocks, lanes, cpu, rings: None, mode: None, statistics: false }
    }

    /// Takes one of the options in [`HELP`]; whether `name`, without its dashes, is one.
    ///
    /// # Errors
    /// What is wrong with its value.
    pub fn take(&mut self, name: &str, parser: &mut Parser) -> Result<bool, Failure> {
        match name {
            "device" => match parser.value()?.string()?.as_str() {
                "cpu" | "auto" => {}
                device @ ("cuda" | "hip") => {
                    return Err(format!(
                        "--device {device}: these programs run on CPU lanes so far; use cpu or auto"
                    )
                    .into());
                }
                other => return Err(format!("--device {other}: use cpu or auto").into()),
            },
            "blocks" => self.blocks = number(name, parser)?,
            "lanes" => self.lanes = number(name, parser)?,
            "width" => self.cpu.width = number(name, parser)?,
            "cores" => self.cpu.threads = number(name, parser)?,
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

    /// The grid.
    #[must_use]
    pub fn grid(&self) -> Grid {
        Grid { blocks: self.blocks, threads: self.lanes }
    }

    /// Warps in the grid.
    #[must_use]
    pub fn warps(&self) -> u32 {
        self.blocks.saturating_mul(self.lanes.div_ceil(self.cpu.width.max(1)))
    }

    /// Lanes in the grid.
    #[must_use]
    pub fn all_lanes(&self) -> u32 {
        self.blocks.saturating_mul(self.lanes)
    }

    /// Opens a session.
    ///
    /// # Errors
    /// A value that does not fit; what the machine lacks.
    pub fn open(&self, mut builder: Builder) -> Result<Session, Failure> {
        if self.blocks == 0 || self.lanes == 0 {
            return Err("--blocks and --lanes: at least 1 each".into());
        }
        if let Some(rings) = self.rings {
            builder = builder.rings(rings);
        }
        if let Some(mode) = self.mode {
            builder = builder.mode(mode);
        }
        Ok(builder.cpu_with(self.cpu.clone())?)
    }

    /// Says what the rings did, if that was asked for.
    pub fn report(&self, session: &Session) {
        if self.statistics {
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

/// Runs a program: an error is printed after the program's name, and the exit status is then `trouble`.
pub fn run(program: &str, trouble: u8, main: impl FnOnce(Parser) -> Result<ExitCode, Failure>) -> ExitCode {
    main(Parser::from_env()).unwrap_or_else(|error| {
        eprintln!("{program}: {error}");
        ExitCode::from(trouble)
    })
}
