//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Args, CommandFactory as _, FromArgMatches as _, Parser, ValueEnum, value_parser};
use clap_complete::Shell;

use crate::sample::Effort;

/// The warning of a build whose figures mean nothing.
pub(crate) const BUILD: Option<&str> = if cfg!(debug_assertions) {
    Some("this is a debug build, and its figures are not gpufs's: build with --release")
} else {
    None
};

/// Rows of the table of targets.
const ROWS: i64 = 13;
/// The most files of a tree.
const MOST_FILES: u64 = 100_000_000;

// The headings of the help.
const WHERE: &str = "Where";
const WHAT: &str = "What";
const HOW: &str = "How";

const STATUS: &str = "\
Exit status: 0 where everything was measured, 1 where a subcommand failed, 2 where nothing could begin.";

/// Measures gpufs on this machine; beside each figure stands what else does the same, measured in the same run
#[derive(Clone, Debug, Parser)]
#[command(name = "gpufs-bench", version = concat!("(gpufs) ", env!("CARGO_PKG_VERSION")))]
#[command(override_usage = "gpufs-bench [OPTION …] SUBCOMMAND", after_help = STATUS)]
#[command(args_override_self = true)]
struct CommandLine {
    /// What is measured
    #[arg(value_enum, value_name = "SUBCOMMAND", hide_short_help = true, long_help = "What is measured")]
    subcommand: Option<Subcommand>,
    #[command(flatten)]
    given: Given,
    #[command(flatten)]
    options: Options,
    /// Prints the manual page
    #[arg(long, hide = true)]
    generate_man: bool,
    /// Prints completions for a shell
    #[arg(long, hide = true, value_name = "SHELL")]
    generate_completions: Option<Shell>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subcommand {
    /// The time of one NOP and of one pread from the page cache, beside a ping-pong between device and host
    Latency,
    /// NOPs per second, beside one core with io_uring
    Iops,
    /// fprintf to one file, beside CUDA's printf and CPU threads
    Print,
    /// fwrite and pwrite, beside plain stores over the bus and CPU threads
    Write,
    /// pread from the page cache, beside plain loads over the bus and CPU threads
    Read,
    /// Lines of a text file, beside one CPU thread
    Fgets,
    /// Numbers of a text file, beside one CPU thread, and the lines of the same file
    Fscanf,
    /// stat of many files, open and close of each, and readdir, beside as many CPU threads as rings; in memory and in --dir
    Paths,
    /// One pread that is started and waited for, beside the call that waits; many in flight, beside the batches of warps
    Async,
    /// The next read beside the work, in the ratios 4:1, 1:1 and 1:4, beside one after the other: warps in step, and apart
    Overlap,
    /// How soon a thread of the host goes on that sleeps, when a kernel sends it something, beside the same of two threads
    Wake,
    /// Pages of files in device memory, beside plain arrays; misses beside pread, write-back beside pwrite; a table of which targets are met
    Cache,
    /// Cores that rings use, busy and idle; memory of a session
    CpuCost,
    /// All of these, in this order
    All,
    /// The project's thirteen targets only, each beside its rival, and a table of which are met
    Targets,
    /// Short samples over sizes, threads and rings: read, write-nowhere, write-tmpfs, print, latency, iops in --svg DIR
    Plots,
}

/// Where kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Device {
    /// CPU lanes
    Cpu,
    /// An NVIDIA GPU
    Cuda,
}

/// Arguments whose defaults depend on others.
#[derive(Clone, Debug, Args)]
struct Given {
    /// cpu or cuda [default: cuda with --program, else cpu]
    #[arg(long, value_name = "D", hide_possible_values = true, help_heading = WHERE)]
    device: Option<Device>,
    /// PTX of the kernels of bench/kernels
    #[arg(long, value_name = "FILE", help_heading = WHERE)]
    program: Option<PathBuf>,
    /// Bytes of the files that are read and written [default: 1G on a GPU, 256M on a CPU, less with --quick]
    #[arg(long, value_name = "N", value_parser = bytes::<u64>, help_heading = WHAT)]
    file_bytes: Option<u64>,
    /// Bytes of a cache whose pages stay [default: 4G on a GPU, 4M on a CPU]
    #[arg(long, value_name = "N", value_parser = bytes::<u64>, help_heading = WHAT)]
    cache_bytes: Option<u64>,
    /// Most bytes in flight [default: 128M on a GPU, 16M on a CPU, half of it with --quick]
    #[arg(long, value_name = "N", value_parser = bytes::<usize>, help_heading = WHAT)]
    memory: Option<usize>,
    /// Samples of each figure [default: 5; of plots: 3]
    #[arg(long, value_name = "N", help_heading = HOW)]
    samples: Option<usize>,
    /// Milliseconds of one sample [default: 300; with --quick 40 on a GPU, 20 on a CPU]
    #[arg(long, value_name = "N", help_heading = HOW)]
    sample_ms: Option<u64>,
}

/// What a run is to do.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The GPU's number
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = WHERE)]
    pub(crate) ordinal: u32,
    /// libcufile.so.0 or its folder [default: the loader's places, this program's folder, the usual places]
    #[arg(long, value_name = "FILE", help_heading = WHERE)]
    pub(crate) cufile: Option<PathBuf>,
    /// The folder for files [default: the system's folder for temporary files]
    #[arg(long = "dir", value_name = "DIR", default_value_os_t = std::env::temp_dir(), hide_default_value = true, help_heading = WHERE)]
    pub(crate) directory: PathBuf,
    /// Bytes of one request (64, 4K, 1M): each lane's up to 4 KiB, each warp's above
    #[arg(long, value_name = "N,…", action = ArgAction::Set, value_delimiter = ',', help_heading = WHAT)]
    #[arg(value_parser = request)]
    pub(crate) sizes: Option<Vec<u64>>,
    /// Warps that make requests
    #[arg(long, value_name = "N,…", action = ArgAction::Set, value_delimiter = ',', help_heading = WHAT)]
    #[arg(value_parser = value_parser!(u32).range(1..))]
    pub(crate) warps: Option<Vec<u32>>,
    /// Rows of the table of targets, or of cache
    #[arg(long, value_name = "N,…", action = ArgAction::Set, value_delimiter = ',', help_heading = WHAT)]
    #[arg(value_parser = value_parser!(u32).range(1..=ROWS))]
    pub(crate) only: Option<Vec<u32>>,
    /// Rings; print, write and fgets use the first number
    #[arg(long, value_name = "N,…", action = ArgAction::Set, value_delimiter = ',', help_heading = WHAT)]
    #[arg(value_parser = value_parser!(u32).range(1..))]
    pub(crate) rings: Option<Vec<u32>>,
    /// Most operations in flight in a ring [default: the session's; targets and plots on a GPU: 4096]
    #[arg(long, value_name = "N", help_heading = WHAT)]
    pub(crate) ring_entries: Option<u32>,
    /// Pinned bytes for data, half for calls in progress, half for streams [default: the session's]
    #[arg(long, value_name = "N", value_parser = bytes::<usize>, help_heading = WHAT)]
    pub(crate) buffers: Option<usize>,
    /// Bytes of one buffer of a stream [default: the session's]
    #[arg(long, value_name = "N", value_parser = bytes::<u32>, help_heading = WHAT)]
    pub(crate) stream_buffer: Option<u32>,
    /// Buffers of a stream that writes [default: the session's]
    #[arg(long, value_name = "N", help_heading = WHAT)]
    pub(crate) stream_buffers: Option<u32>,
    /// Whether output survives a fault of the GPU [default: the session's]
    #[arg(long, value_name = "0|1", value_parser = switch(), hide_possible_values = true, help_heading = WHAT)]
    pub(crate) survives: Option<bool>,
    /// Whether kernels are in a sandbox that has the folder for files, /dev/shm and /dev
    #[arg(long, value_name = "0|1", value_parser = switch(), hide_possible_values = true, help_heading = WHAT)]
    #[arg(default_value = "0", action = ArgAction::Set)]
    pub(crate) sandbox: bool,
    /// Files of paths, a hundred in each folder [default: 100000]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=MOST_FILES), help_heading = WHAT)]
    pub(crate) files: Option<u64>,
    /// All of it in a minute and a half
    #[arg(long, help_heading = HOW)]
    pub(crate) quick: bool,
    /// Seconds after which a waiting kernel gives up [default: never]
    #[arg(long, value_name = "N", value_parser = seconds, help_heading = HOW)]
    pub(crate) deadline: Option<Duration>,
    /// Writes every figure as JSON
    #[arg(long, value_name = "FILE", help_heading = HOW)]
    pub(crate) json: Option<PathBuf>,
    /// Writes plots
    #[arg(long, value_name = "DIR", help_heading = HOW)]
    pub(crate) svg: Option<PathBuf>,
    /// Whether kernels run on a GPU.
    #[arg(skip)]
    pub(crate) cuda: bool,
    /// The program of a GPU.
    #[arg(skip)]
    pub(crate) program: Vec<u8>,
    #[arg(skip)]
    pub(crate) file_bytes: u64,
    #[arg(skip)]
    pub(crate) cache_bytes: u64,
    #[arg(skip)]
    pub(crate) memory: usize,
    #[arg(skip = Effort { samples: 5, target: Duration::from_millis(300) })]
    pub(crate) effort: Effort,
}

/// What the command line asks for.
pub(crate) enum Asked {
    ManualPage,
    Completions(Shell),
    Work(Subcommand, Box<Options>),
}

/// What clap knows of the command line.
pub(crate) fn known() -> clap::Command {
    let names = Subcommand::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let list: String = names
        .map(|name| format!("\n  {:<10} {}", name.get_name(), name.get_help().cloned().unwrap_or_default()))
        .collect();
    // -h is no shorter than --help: all of it fits a screen.
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
    let version = Arg::new("version").short('V').long("version").action(ArgAction::Version);
    CommandLine::command()
        .before_help(format!("Subcommands:{list}"))
        .help_template("{usage-heading} {usage}\n\n{about}\n\n{before-help}{all-args}{after-help}")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(help.help("Print this text").help_heading(HOW))
        .arg(version.help("Print the version").help_heading(HOW))
}

/// Reads the command line, whose first argument is the program's name.
///
/// # Errors
/// What is wrong with it; help or the version is wanted.
pub(crate) fn read(line: impl IntoIterator<Item = OsString>) -> Result<Asked, clap::Error> {
    let asked = CommandLine::from_arg_matches(&known().try_get_matches_from(line)?)?;
    if asked.generate_man {
        return Ok(Asked::ManualPage);
    }
    if let Some(shell) = asked.generate_completions {
        return Ok(Asked::Completions(shell));
    }
    let missing = |text: &str| known().error(ErrorKind::MissingRequiredArgument, text);
    let subcommand = asked.subcommand.ok_or_else(|| missing("which subcommand? See gpufs-bench --help"))?;
    let mut options = asked.options;
    options.take_device(&asked.given)?;
    options.take_amounts(subcommand, &asked.given);
    if subcommand == Subcommand::Plots && options.svg.is_none() {
        return Err(missing("plots: say where they go, with --svg DIR"));
    }
    Ok(Asked::Work(subcommand, Box::new(options)))
}

impl Options {
    /// Sets the device and its program.
    fn take_device(&mut self, given: &Given) -> Result<(), clap::Error> {
        self.cuda = given.device.map_or(given.program.is_some(), |device| device == Device::Cuda);
        if self.cuda {
            let wrong = |text: String| known().error(ErrorKind::MissingRequiredArgument, text);
            let needed = "--device cuda needs --program, the PTX of the kernels: bench.ptx of the bundle";
            let program = given.program.as_ref().ok_or_else(|| wrong(needed.to_owned()))?;
            let text = std::fs::read(program);
            self.program =
                text.map_err(|error| wrong(format!("--program {}: {error}", program.display())))?;
        }
        Ok(())
    }

    /// Sets how much is measured, which depends on the subcommand, on the device and on `--quick`.
    fn take_amounts(&mut self, subcommand: Subcommand, given: &Given) {
        // Plots have many figures, so their samples are short.
        let plots = subcommand == Subcommand::Plots;
        self.quick |= plots;
        let (sample_ms, file_bytes, memory) = match (self.cuda, self.quick) {
            (true, true) => (40, 64 << 20, 64 << 20),
            (true, false) => (300, 1 << 30, 128 << 20),
            (false, true) => (20, 16 << 20, 8 << 20),
            (false, false) => (300, 256 << 20, 16 << 20),
        };
        self.file_bytes = given.file_bytes.unwrap_or(file_bytes).max(64 << 10);
        self.cache_bytes = given.cache_bytes.unwrap_or(if self.cuda { 4 << 30 } else { 4 << 20 });
        self.memory = given.memory.unwrap_or(memory).max(64 << 10);
        self.effort.samples = given.samples.unwrap_or(if plots { 3 } else { 5 }).max(1);
        self.effort.target = Duration::from_millis(given.sample_ms.unwrap_or(sample_ms));
        if self.cuda && (plots || subcommand == Subcommand::Targets) {
            self.ring_entries = self.ring_entries.or(Some(4096));
        }
    }
}

/// A number of bytes: `64`, `4K`, `1M`, `1G`.
fn bytes<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = digits.parse().ok().filter(|number: &u64| *number > 0);
    let number = number.and_then(|number| number.checked_mul(1 << shift));
    let number = number.ok_or_else(|| "it is a size such as 64, 4K or 1M".to_owned())?;
    T::try_from(number).map_err(|_| "it is too large".to_owned())
}

/// The bytes of a request.
fn request(text: &str) -> Result<u64, String> {
    let is_size = |size: &u64| size.is_power_of_two() && (16..=4 << 20).contains(size);
    bytes(text).ok().filter(is_size).ok_or_else(|| "sizes are powers of two from 16 bytes to 4M".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .map(Duration::from_secs)
        .map_err(|_| "it is a whole number of seconds, such as 60".to_owned())
}

/// `0` or `1`.
fn switch() -> impl clap::builder::TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["0", "1"]).map(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &[&str]) -> Result<Asked, String> {
        let line = ["gpufs-bench"].iter().chain(line).map(OsString::from);
        read(line).map_err(|error| error.to_string())
    }

    fn options(line: &[&str]) -> (Subcommand, Options) {
        match asked(line) {
            Ok(Asked::Work(subcommand, options)) => (subcommand, *options),
            Ok(_) => panic!("{line:?} asks for no work"),
            Err(said) => panic!("{line:?}: {said}"),
        }
    }

    #[test]
    fn what_clap_knows_is_consistent() {
        known().debug_assert();
    }

    #[test]
    fn options_stand_on_either_side() {
        for line in [
            &["--sizes", "64,4K,1M", "--survives", "0", "--quick", "cpu-cost"][..],
            &["cpu-cost", "--sizes=64,4K,1M", "--survives=0", "--quick"],
            &["--sizes", "64,4K,1M", "cpu-cost", "--survives", "0", "--quick"],
            // The last of what is said twice holds.
            &[
                "--sizes",
                "32",
                "--survives",
                "1",
                "--sizes",
                "64,4k,1m",
                "--survives",
                "0",
                "cpu-cost",
                "--quick",
            ],
        ] {
            let (subcommand, options) = options(line);
            assert_eq!(subcommand, Subcommand::CpuCost);
            assert_eq!(options.sizes, Some(vec![64, 4096, 1 << 20]));
            assert_eq!((options.survives, options.quick), (Some(false), true));
        }
    }

    #[test]
    fn defaults_depend_on_the_rest() {
        let (_, plain) = options(&["read"]);
        assert_eq!((plain.file_bytes, plain.memory, plain.cache_bytes), (256 << 20, 16 << 20, 4 << 20));
        assert_eq!((plain.effort.samples, plain.effort.target), (5, Duration::from_millis(300)));
        assert_eq!((plain.survives, plain.sandbox, plain.cuda), (None, false, false));
        let (_, plots) = options(&["plots", "--svg", "x", "--sandbox", "1"]);
        assert_eq!((plots.file_bytes, plots.memory, plots.effort.samples), (16 << 20, 8 << 20, 3));
        assert!(plots.quick && plots.sandbox);
        let (_, given) =
            options(&["read", "--quick", "--sample-ms", "7", "--samples", "0", "--file-bytes", "1"]);
        assert_eq!((given.effort.samples, given.effort.target), (1, Duration::from_millis(7)));
        assert_eq!(given.file_bytes, 64 << 10);
    }

    #[test]
    fn wrong_command_lines_are_named() {
        for (line, parts) in [
            ("", vec!["which subcommand?", "--help"]),
            ("speed", vec!["'speed'", "latency, iops"]),
            ("read write", vec!["'write'"]),
            ("read --fast", vec!["'--fast'"]),
            ("read --size 64", vec!["'--size'", "'--sizes'"]),
            ("read --sizes", vec!["'--sizes <N,…>'"]),
            ("read --sizes 64,100", vec!["'100'", "--sizes", "powers of two"]),
            ("read --sizes 64,,1K", vec!["''", "--sizes", "powers of two"]),
            ("read --memory 4X", vec!["'4X'", "--memory", "64, 4K or 1M"]),
            ("read --memory 0", vec!["'0'", "--memory", "64, 4K or 1M"]),
            ("read --stream-buffer 4G", vec!["'4G'", "--stream-buffer", "too large"]),
            ("read --warps 4,0", vec!["'0'", "--warps", "1.."]),
            ("read --survives yes", vec!["'yes'", "--survives", "0, 1"]),
            ("read --deadline soon", vec!["'soon'", "--deadline", "seconds"]),
            ("targets --only 14", vec!["'14'", "--only", "1..=13"]),
            ("paths --files 0", vec!["'0'", "--files", "1..=100000000"]),
            ("iops --device tpu", vec!["'tpu'", "--device", "cpu, cuda"]),
            ("iops --device cuda", vec!["--program", "bench.ptx"]),
            ("iops --program /nowhere", vec!["--program /nowhere", "No such file"]),
            ("plots", vec!["--svg DIR"]),
        ] {
            let said = asked(&line.split_whitespace().collect::<Vec<_>>()).err();
            let said = said.unwrap_or_else(|| panic!("'{line}' is taken"));
            for part in parts {
                assert!(said.contains(part), "{line}: {said}");
            }
        }
    }
}
