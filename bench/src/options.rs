//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::sample::Effort;

/// The warning of a build whose figures mean nothing.
pub(crate) const BUILD: Option<&str> = if cfg!(debug_assertions) {
    Some("this is a debug build, and its figures are not gpufs's: build with --release")
} else {
    None
};

/// The subcommand of the table of targets.
pub(crate) const TARGETS: &str = "targets";
/// Rows of that table.
const ROWS: u32 = 13;
/// The subcommand that draws plots.
pub(crate) const PLOTS: &str = "plots";

/// The most files of a tree.
const MOST_FILES: u64 = 100_000_000;

pub(crate) const HELP: &str = "\
gpufs-bench [OPTION …] SUBCOMMAND

Measures gpufs on this machine. Beside each figure stands what else does the same, measured in the same run.

  latency    the time of one NOP and of one pread from the page cache, beside a ping-pong between device and host
  iops       NOPs per second, beside one core with io_uring
  print      fprintf to one file, beside CUDA's printf and CPU threads
  write      fwrite and pwrite, beside plain stores over the bus and CPU threads
  read       pread from the page cache, beside plain loads over the bus and CPU threads
  fgets      lines of a text file, beside one CPU thread
  fscanf     numbers of a text file, beside one CPU thread, and the lines of the same file
  paths      stat of many files, open and close of each, and readdir, beside as many CPU threads as rings; in memory and in --dir
  async      one pread that is started and waited for, beside the call that waits; many in flight, beside the batches of warps
  overlap    the next read beside the work, in the ratios 4:1, 1:1 and 1:4, beside one after the other: warps in step, and apart
  cache      pages of files in device memory, beside plain arrays; misses beside pread, write-back beside pwrite; a table of which targets are met
  cpu-cost   cores that rings use, busy and idle; memory of a session
  all        all of these, in this order
  targets    the project's thirteen targets only, each beside its rival, and a table of which are met
  plots      short samples over sizes, threads and rings: read, write-nowhere, write-tmpfs, print, latency, iops in --svg DIR

Where:
  --device D         cpu or cuda; default: cuda with --program, else cpu
  --program FILE     PTX of the kernels of bench/kernels
  --ordinal N        the GPU's number; default 0
  --cufile FILE      libcufile.so.0 or its folder; default: the loader's places, this program's folder, the usual places
  --dir DIR          the folder for files; default: the system's folder for temporary files

What:
  --sizes N,…        bytes of one request (64, 4K, 1M): each lane's up to 4 KiB, each warp's above
  --warps N,…        warps that make requests
  --only N,…         rows of the table of targets, or of cache
  --rings N,…        rings; print, write and fgets use the first number
  --ring-entries N   most operations in flight in a ring; default: the session's; targets and plots on a GPU: 4096
  --buffers N        pinned bytes for data, half for calls in progress, half for streams; default: the session's
  --stream-buffer N  bytes of one buffer of a stream; default: the session's
  --stream-buffers N buffers of a stream that writes; default: the session's
  --survives 0|1     whether output survives a fault of the GPU; default: the session's
  --sandbox 0|1      whether kernels are in a sandbox that has the folder for files, /dev/shm and /dev; default: 0
  --file-bytes N     bytes of the files that are read and written
  --cache-bytes N    bytes of a cache whose pages stay; default: 4G on a GPU, 4M on a CPU
  --files N          files of paths, a hundred in each folder; default 100,000
  --memory N         most bytes in flight

How:
  --quick            all of it in a minute and a half
  --samples N        samples of each figure; default 5
  --sample-ms N      milliseconds of one sample; default 300
  --deadline N       seconds after which a waiting kernel gives up; default: never
  --json FILE        writes every figure as JSON
  --svg DIR          writes plots
  --help             prints this text
";

/// The command line.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) subcommand: String,
    pub(crate) cuda: bool,
    pub(crate) program: Vec<u8>,
    pub(crate) ordinal: u32,
    pub(crate) directory: PathBuf,
    pub(crate) cufile: Option<PathBuf>,
    pub(crate) only: Option<Vec<u32>>,
    pub(crate) sizes: Option<Vec<u64>>,
    pub(crate) warps: Option<Vec<u32>>,
    pub(crate) rings: Option<Vec<u32>>,
    pub(crate) ring_entries: Option<u32>,
    pub(crate) buffers: Option<usize>,
    pub(crate) stream_buffer: Option<u32>,
    pub(crate) stream_buffers: Option<u32>,
    pub(crate) survives: Option<bool>,
    pub(crate) sandbox: bool,
    pub(crate) file_bytes: u64,
    pub(crate) files: Option<u64>,
    pub(crate) cache_bytes: u64,
    pub(crate) memory: usize,
    pub(crate) quick: bool,
    pub(crate) effort: Effort,
    pub(crate) deadline: Option<Duration>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
}

/// A number of bytes: `64`, `4K`, `1M`, `1G`.
fn bytes(text: &str) -> Result<u64, Failure> {
    let wrong = || format!("'{text}' is not a size such as 64, 4K or 1M");
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(|| wrong().into())
}

/// The items between commas.
fn list<T>(text: &str, item: impl Fn(&str) -> Result<T, Failure>) -> Result<Vec<T>, Failure> {
    text.split(',').map(item).collect()
}

/// What the command line asks for.
pub(crate) enum Asked {
    Help,
    Version,
    Work(Box<Options>),
}

/// Arguments whose defaults depend on others.
#[derive(Default)]
struct Given {
    subcommand: Option<String>,
    device: Option<String>,
    program: Option<PathBuf>,
    samples: Option<usize>,
    sample_ms: Option<u64>,
    file_bytes: Option<u64>,
    cache_bytes: Option<u64>,
    memory: Option<u64>,
}

impl Options {
    /// Reads the command line.
    pub(crate) fn read() -> Result<Asked, Failure> {
        let mut parser = Parser::from_env();
        let (mut options, mut given) = (Self::new(), Given::default());
        while let Some(argument) = parser.next()? {
            match argument {
                Arg::Value(value) if given.subcommand.is_none() => given.subcommand = Some(value.string()?),
                Arg::Short('h') | Arg::Long("help") => return Ok(Asked::Help),
                Arg::Short('V') | Arg::Long("version") => return Ok(Asked::Version),
                Arg::Long(name) => {
                    let name = name.to_owned();
                    options.argument(&name, &mut parser, &mut given)?;
                }
                other => return Err(other.unexpected().into()),
            }
        }
        options.take_device(&mut given)?;
        options.take_amounts(&given)?;
        options.check()?;
        Ok(Asked::Work(Box::new(options)))
    }

    fn new() -> Self {
        Self {
            subcommand: String::new(),
            cuda: false,
            program: Vec::new(),
            ordinal: 0,
            directory: std::env::temp_dir(),
            cufile: None,
            only: None,
            sizes: None,
            warps: None,
            rings: None,
            ring_entries: None,
            stream_buffer: None,
            stream_buffers: None,
            buffers: None,
            survives: None,
            sandbox: false,
            file_bytes: 0,
            files: None,
            cache_bytes: 0,
            memory: 0,
            quick: false,
            effort: Effort { samples: 5, target: Duration::from_millis(300) },
            deadline: None,
            json: None,
            svg: None,
        }
    }

    /// Takes one long option with its value.
    fn argument(&mut self, name: &str, parser: &mut Parser, given: &mut Given) -> Result<(), Failure> {
        if name == "quick" {
            self.quick = true;
            return Ok(());
        }
        let mut path = || Ok::<_, Failure>(PathBuf::from(parser.value()?));
        match name {
            "program" => given.program = Some(path()?),
            "dir" => self.directory = path()?,
            "cufile" => self.cufile = Some(path()?),
            "json" => self.json = Some(path()?),
            "svg" => self.svg = Some(path()?),
            _ => return self.number(name, parser, given),
        }
        Ok(())
    }

    /// Takes an option whose value is a word, a number or a list of numbers.
    fn number(&mut self, name: &str, parser: &mut Parser, given: &mut Given) -> Result<(), Failure> {
        let mut text = || parser.value()?.string();
        let numbers = |text: &str| list(text, |number| Ok(number.parse::<u32>()?)).map(Some);
        match name {
            "device" => given.device = Some(text()?),
            "ordinal" => self.ordinal = text()?.parse()?,
            "only" => self.only = numbers(&text()?)?,
            "sizes" => self.sizes = Some(list(&text()?, bytes)?),
            "warps" => self.warps = numbers(&text()?)?,
            "rings" => self.rings = numbers(&text()?)?,
            "ring-entries" => self.ring_entries = Some(text()?.parse()?),
            "buffers" => self.buffers = Some(usize::try_from(bytes(&text()?)?)?),
            "stream-buffer" => self.stream_buffer = Some(u32::try_from(bytes(&text()?)?)?),
            "stream-buffers" => self.stream_buffers = Some(text()?.parse()?),
            "survives" => self.survives = Some(text()? != "0"),
            "sandbox" => self.sandbox = text()? != "0",
            "files" => self.files = Some(text()?.parse()?),
            "file-bytes" => given.file_bytes = Some(bytes(&text()?)?),
            "cache-bytes" => given.cache_bytes = Some(bytes(&text()?)?),
            "memory" => given.memory = Some(bytes(&text()?)?),
            "samples" => given.samples = Some(text()?.parse()?),
            "sample-ms" => given.sample_ms = Some(text()?.parse()?),
            "deadline" => self.deadline = Some(Duration::from_secs(text()?.parse()?)),
            _ => return Err(Arg::Long(name).unexpected().into()),
        }
        Ok(())
    }

    /// Sets the subcommand, the device and its program.
    fn take_device(&mut self, given: &mut Given) -> Result<(), Failure> {
        self.subcommand = given.subcommand.take().ok_or("which subcommand? See gpufs-bench --help")?;
        self.cuda = match given.device.as_deref() {
            None => given.program.is_some(),
            Some("cpu") => false,
            Some("cuda") => true,
            Some(other) => return Err(format!("--device {other}: use cpu or cuda").into()),
        };
        if self.cuda {
            let program = given
                .program
                .take()
                .ok_or("--device cuda needs --program, the PTX of the kernels: bench.ptx of the bundle")?;
            let text = std::fs::read(&program);
            self.program = text.map_err(|error| format!("{}: {error}", program.display()))?;
        }
        Ok(())
    }

    /// Sets how much is measured, which depends on the subcommand, on the device and on `--quick`.
    fn take_amounts(&mut self, given: &Given) -> Result<(), Failure> {
        // Plots have many figures, so their samples are short.
        let plots = self.subcommand == PLOTS;
        self.quick |= plots;
        let (quick_ms, quick_file, quick_memory) =
            if self.cuda { (40, 64 << 20, 64 << 20) } else { (20, 16 << 20, 8 << 20) };
        let (slow_file, slow_memory) = if self.cuda { (1 << 30, 128 << 20) } else { (256 << 20, 16 << 20) };
        let quick = self.quick;
        let choose = |given: Option<u64>, short, long| given.unwrap_or(if quick { short } else { long });
        self.file_bytes = choose(given.file_bytes, quick_file, slow_file).max(64 << 10);
        self.cache_bytes = given.cache_bytes.unwrap_or(if self.cuda { 4 << 30 } else { 4 << 20 });
        self.memory = usize::try_from(choose(given.memory, quick_memory, slow_memory).max(64 << 10))?;
        self.effort.samples = given.samples.unwrap_or(if plots { 3 } else { 5 }).max(1);
        self.effort.target = Duration::from_millis(choose(given.sample_ms, quick_ms, 300));
        if self.cuda && (plots || self.subcommand == TARGETS) {
            self.ring_entries = self.ring_entries.or(Some(4096));
        }
        Ok(())
    }

    /// What is wrong with values that were parsed.
    fn check(&self) -> Result<(), Failure> {
        if self.subcommand == PLOTS && self.svg.is_none() {
            return Err("plots: say where they go, with --svg DIR".into());
        }
        if self.only.iter().flatten().any(|row| !(1..=ROWS).contains(row)) {
            return Err(format!("--only: rows are 1 to {ROWS}").into());
        }
        if self.warps.iter().chain(&self.rings).flatten().any(|number| *number == 0) {
            return Err("--warps and --rings: at least 1".into());
        }
        if self.files.is_some_and(|files| !(1..=MOST_FILES).contains(&files)) {
            return Err(format!("--files: 1 to {MOST_FILES}").into());
        }
        let is_size = |size: &u64| size.is_power_of_two() && (16..=4 << 20).contains(size);
        if !self.sizes.iter().flatten().all(is_size) {
            return Err("--sizes: powers of two from 16 bytes to 4 MiB".into());
        }
        Ok(())
    }
}
