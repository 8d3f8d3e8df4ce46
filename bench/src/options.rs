//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::Failure;
use crate::sample::Effort;

/// What to say of a build whose figures mean nothing.
pub(crate) const BUILD: Option<&str> = if cfg!(debug_assertions) {
    Some("this is a debug build, and its figures are not gpufs's: build with --release")
} else {
    None
};

pub(crate) const HELP: &str = "\
gpufs-bench [OPTION …] SUBCOMMAND

What gpufs does on this machine; beside each figure, what else does the same, in the same run.

  latency    one NOP and one pread from the page cache, beside a ping-pong between device and host
  iops       NOPs a second, beside one core with io_uring
  print      fprintf to one file, beside CUDA's own printf and CPU threads
  write      fwrite and pwrite, beside plain stores over the bus and CPU threads
  read       pread from the page cache, beside plain loads over the bus and CPU threads
  fgets      lines of a text file, beside one CPU thread
  cpu-cost   cores that rings use, busy and idle; memory of a session
  all        these, in this order
  targets    the project's thirteen targets and no more, each beside what it is held against; a table of what is met
  plots      over sizes, threads and rings, with short samples: read, write-nowhere, write-tmpfs, print, latency, iops in --svg DIR

Where:
  --device D         cpu, or cuda; default: cuda if there is --program, else cpu
  --program FILE     PTX that holds the kernels of bench/kernels
  --ordinal N        which GPU; default 0
  --cufile FILE      libcufile.so.0, or where it lies; default: the loader's places, beside this program, the usual ones
  --dir DIR          for files; default: the system's directory for temporary files

What:
  --sizes N,…        bytes of one request, up to 4 KiB for each lane, above for each warp; as 64, 4K, 1M
  --warps N,…        warps that make requests
  --only N,…         rows of the table of targets
  --rings N,…        rings; print, write and fgets take the first of them
  --ring-entries N   operations that a ring has in flight at most; default: the session's; of targets and plots on a GPU: 4096
  --buffers N        pinned bytes for data, half for calls in progress, half for streams; default: the session's
  --stream-buffer N  bytes of one buffer of a stream; default: the session's
  --stream-buffers N buffers of a stream that writes; default: the session's
  --survives 0|1     whether output survives a fault of the GPU; default: the session's
  --file-bytes N     bytes of the files that are read and written
  --memory N         bytes in flight at most

How:
  --quick            all of it in a minute and a half
  --samples N        samples of each figure; default 5
  --sample-ms N      how long one takes; default 300
  --deadline N       seconds after which a kernel that waits gives up; default: never
  --json FILE        everything, as JSON
  --svg DIR          plots
  --help             print this
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
    pub(crate) file_bytes: u64,
    pub(crate) memory: usize,
    pub(crate) quick: bool,
    pub(crate) effort: Effort,
    pub(crate) deadline: Option<Duration>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
}

/// `64`, `4K`, `1M`, `1G`.
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

/// What stands between commas.
fn list<T>(text: &str, item: impl Fn(&str) -> Result<T, Failure>) -> Result<Vec<T>, Failure> {
    text.split(',').map(item).collect()
}

impl Options {
    /// Reads the command line; `None`: it asked for help.
    pub(crate) fn read() -> Result<Option<Self>, Failure> {
        let mut parser = Parser::from_env();
        let (mut subcommand, mut device, mut program) = (None, None, None);
        let (mut samples, mut target_ms, mut file_bytes, mut memory) = (None, None, None, None);
        let mut options = Self {
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
            file_bytes: 0,
            memory: 0,
            quick: false,
            effort: Effort { samples: 5, target: Duration::from_millis(300) },
            deadline: None,
            json: None,
            svg: None,
        };
        while let Some(argument) = parser.next()? {
            let name = match argument {
                Arg::Value(value) if subcommand.is_none() => {
                    subcommand = Some(value.string()?);
                    continue;
                }
                Arg::Long(name) => name.to_owned(),
                Arg::Short('h') => "help".to_owned(),
                other => return Err(other.unexpected().into()),
            };
            let mut text = || parser.value()?.string();
            match name.as_str() {
                "help" => return Ok(None),
                "device" => device = Some(text()?),
                "program" => program = Some(parser.value()?),
                "ordinal" => options.ordinal = text()?.parse()?,
                "dir" => options.directory = parser.value()?.into(),
                "cufile" => options.cufile = Some(parser.value()?.into()),
                "only" => options.only = Some(list(&text()?, |number| Ok(number.parse()?))?),
                "sizes" => options.sizes = Some(list(&text()?, bytes)?),
                "warps" => options.warps = Some(list(&text()?, |number| Ok(number.parse()?))?),
                "rings" => options.rings = Some(list(&text()?, |number| Ok(number.parse()?))?),
                "ring-entries" => options.ring_entries = Some(text()?.parse()?),
                "buffers" => options.buffers = Some(usize::try_from(bytes(&text()?)?)?),
                "stream-buffer" => options.stream_buffer = Some(u32::try_from(bytes(&text()?)?)?),
                "stream-buffers" => options.stream_buffers = Some(text()?.parse()?),
                "survives" => options.survives = Some(text()? != "0"),
                "file-bytes" => file_bytes = Some(bytes(&text()?)?),
                "memory" => memory = Some(bytes(&text()?)?),
                "quick" => options.quick = true,
                "samples" => samples = Some(text()?.parse()?),
                "sample-ms" => target_ms = Some(text()?.parse()?),
                "deadline" => options.deadline = Some(Duration::from_secs(text()?.parse()?)),
                "json" => options.json = Some(parser.value()?.into()),
                "svg" => options.svg = Some(parser.value()?.into()),
                _ => return Err(Arg::Long(&name).unexpected().into()),
            }
        }
        options.subcommand = subcommand.ok_or("which subcommand? See gpufs-bench --help")?;
        options.cuda = match device.as_deref() {
            None => program.is_some(),
            Some("cpu") => false,
            Some("cuda") => true,
            Some(other) => return Err(format!("--device {other}: use cpu or cuda").into()),
        };
        if options.cuda {
            let program = program
                .ok_or("--device cuda wants --program, the PTX of the kernels: bench.ptx of the bundle")?;
            let text = std::fs::read(&program);
            options.program = text.map_err(|error| format!("{}: {error}", program.display()))?;
        }
        // Its many figures are short ones.
        let plots = options.subcommand == crate::plots::NAME;
        options.quick |= plots;
        let (quick_ms, quick_file, quick_memory) =
            if options.cuda { (40, 64 << 20, 64 << 20) } else { (20, 16 << 20, 8 << 20) };
        let (slow_file, slow_memory) =
            if options.cuda { (1 << 30, 128 << 20) } else { (256 << 20, 16 << 20) };
        let choose =
            |given: Option<u64>, quick, slow| given.unwrap_or(if options.quick { quick } else { slow });
        options.file_bytes = choose(file_bytes, quick_file, slow_file).max(64 << 10);
        options.memory = usize::try_from(choose(memory, quick_memory, slow_memory).max(64 << 10))?;
        options.effort.samples = samples.unwrap_or(if plots { 3 } else { 5 }).max(1);
        options.effort.target = Duration::from_millis(choose(target_ms, quick_ms, 300));
        if options.cuda && (plots || options.subcommand == crate::targets::NAME) {
            options.ring_entries = options.ring_entries.or(Some(4096));
        }
        if plots && options.svg.is_none() {
            return Err("plots: say where they go, with --svg DIR".into());
        }
        if options.only.iter().flatten().any(|row| !(1..=crate::targets::ROWS).contains(row)) {
            return Err(format!("--only: rows are 1 to {}", crate::targets::ROWS).into());
        }
        let numbers = options.warps.iter().chain(&options.rings).flatten();
        if numbers.copied().min() == Some(0) {
            return Err("--warps and --rings: at least 1".into());
        }
        if options
            .sizes
            .iter()
            .flatten()
            .any(|size| !size.is_power_of_two() || !(16..=4 << 20).contains(size))
        {
            return Err("--sizes: powers of two from 16 bytes to 4 MiB".into());
        }
        Ok(Some(options))
    }
}
