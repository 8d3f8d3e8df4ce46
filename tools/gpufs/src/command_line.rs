//! The command line: clap reads it, but for the options of the compiler, which are no options by the rules of getopt(3).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::stat::Watched;

/// Build and run C programs on a GPU, and say what this machine can do for gpufs
#[derive(Debug, Parser)]
#[command(name = "gpufs", version, args_override_self = true, after_help = ENVIRONMENT)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const ENVIRONMENT: &str = "\
GPUFS_PREFIX: the folder that 'cargo xtask dist' made, if gpufs does not lie in it.
Exit status: 125 where gpufs itself failed, and as each command says.";

const OF_THE_COMPILER: &str = "\
Options of the compiler are handed to it: -I -D -U -std= -ansi -pedantic -O -W -f -g -w -isystem -idirafter -include.
The default is -O2. -l, -L and -pthread have no effect.";

const OF_RUN: &str = "\
Options of the compiler are handed to it: -I -D -U -std= -ansi -pedantic -O -W -f -g -w -isystem -idirafter -include.
The default is -O2. -l, -L and -pthread have no effect.

The exit status is the program's: what main returned or exit was given; 134 after abort or a failed
assertion, 139 after a fault; 125 if gpufs itself failed.";

const OF_DOCTOR: &str = "\
Exit status: 0 where nothing is lacking, 1 where sessions work with less than they could or a FILE cannot
be read, 2 where none can be opened.";

/// What was asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build a C program and run its main on a GPU, or run what 'gpufs build' made
    #[command(after_help = OF_RUN, override_usage = "gpufs run [OPTIONS] FILE.c… [-- ARGUMENTS]\n       gpufs run [OPTIONS] PROGRAM [-- ARGUMENTS]")]
    Run(Options),
    /// Build a C program: PROGRAM.cubin for one kind of NVIDIA GPU, PROGRAM.ptx for any, PROGRAM.hsaco for an AMD GPU; with --device cpu, a
    /// program for this machine
    #[command(after_help = OF_THE_COMPILER, override_usage = "gpufs build [OPTIONS] FILE.c… -o PROGRAM")]
    Build(Options),
    /// Say what this machine can do for gpufs, and what to do about each lack; how each FILE is served, how fast
    #[command(after_help = OF_DOCTOR)]
    Doctor(Asked),
    /// Say what the sessions of a running process do, once a second: operations, in flight, processor time
    Stat(Watched),
    /// Write manual pages and completions for shells below DIR/share
    #[command(hide = true)]
    Generate {
        /// A prefix
        dir: PathBuf,
    },
}

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Device {
    /// An NVIDIA GPU
    Cuda,
    /// An AMD GPU
    Amd,
    /// CPU lanes
    Cpu,
}

/// What `doctor` is asked.
#[derive(Debug, Default, Args)]
pub(crate) struct Asked {
    /// The report as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Without a GPU that can be used the exit status is 1
    #[arg(long)]
    pub(crate) gpu: bool,
    /// Files to read, to see how they are served
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// The options of `build` and `run`.
#[derive(Debug, Default, Args)]
pub(crate) struct Options {
    /// Where it runs [default: what the output's name says, or an NVIDIA GPU if there is one, or CPU lanes]
    #[arg(long, value_enum)]
    pub(crate) device: Option<Device>,
    /// The GPU to build for, such as sm_90 or gfx942 [default: this machine's NVIDIA GPU, or sm_90; AMD: gfx90a]
    #[arg(long, value_name = "GPU")]
    pub(crate) arch: Option<String>,
    /// Stack of the program; K, M and G count [default: 32K on a GPU, 8M on CPU lanes]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) stack: Option<u64>,
    /// Memory for malloc on a GPU; K, M and G count [default: 1G]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) heap: Option<u64>,
    /// What build makes
    #[arg(short, value_name = "PROGRAM")]
    pub(crate) output: Option<PathBuf>,
    /// C sources, or for 'run' a program that 'gpufs build' made
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// For the compiler, in order.
    #[arg(skip)]
    pub(crate) flags: Vec<OsString>,
    /// For the program, without its name.
    #[arg(skip)]
    pub(crate) arguments: Vec<OsString>,
}

/// What clap knows of the command line.
pub(crate) fn known() -> clap::Command {
    <CommandLine as clap::CommandFactory>::command()
}

/// Whether a file is a source, by its name.
pub(crate) fn is_source(file: &Path) -> bool {
    file.extension() == Some(OsStr::new("c"))
}

impl Options {
    /// The program's own name: that of the first file, without `.c`.
    pub(crate) fn name(&self) -> PathBuf {
        self.files.first().map(|file| file.with_extension("")).unwrap_or_default()
    }

    /// The device that was asked for, or an NVIDIA GPU if the driver shows one, or CPU lanes, which a line says.
    pub(crate) fn device_or_best(&self) -> Device {
        self.device.unwrap_or_else(|| {
            if Path::new("/proc/driver/nvidia/gpus").exists() || Path::new("/dev/nvidia0").exists() {
                return Device::Cuda;
            }
            if std::env::var_os("GPUFS_QUIET").is_none_or(|quiet| quiet.is_empty()) {
                eprintln!("gpufs: there is no NVIDIA GPU here: the program runs on CPU lanes (--device cpu says so without this line)");
            }
            Device::Cpu
        })
    }

    /// What is wrong with the files of `command`, or with how many there are.
    fn check(&self, command: &str) -> Result<(), String> {
        if command == "build" && !self.arguments.is_empty() {
            return Err("arguments of the program are for 'gpufs run'".to_owned());
        }
        if command == "build" && self.output.is_none() {
            return Err("-o PROGRAM is missing".to_owned());
        }
        let other = self.files.iter().find(|file| !is_source(file));
        match other.filter(|_| command == "build" || self.files.len() > 1) {
            Some(file) if command == "build" => Err(format!("{} is no C source (FILE.c)", file.display())),
            Some(file) => Err(format!(
                "{} is no C source (FILE.c); arguments of the program come after --",
                file.display()
            )),
            None => Ok(()),
        }
    }
}

/// Reads the command line, whose first argument is the program's name.
///
/// # Errors
/// What is wrong with it; help or the version is wanted.
pub(crate) fn read(line: impl IntoIterator<Item = OsString>) -> Result<Command, clap::Error> {
    let mut line: Vec<OsString> = line.into_iter().collect();
    let builds = line.get(1).is_some_and(|command| command == "run" || command == "build");
    let theirs = if builds { take_theirs(&mut line)? } else { Theirs::default() };
    let mut command = CommandLine::try_parse_from(line)?.command;
    let name = if matches!(command, Command::Build(_)) { "build" } else { "run" };
    if let Command::Build(options) | Command::Run(options) = &mut command {
        (options.flags, options.arguments) = (theirs.flags, theirs.arguments);
        options.check(name).map_err(|wrong| error(format!("{name}: {wrong}")))?;
    }
    Ok(command)
}

/// An error in clap's form.
fn error(text: String) -> clap::Error {
    known().error(clap::error::ErrorKind::ValueValidation, text)
}

/// What is not for gpufs.
#[derive(Debug, Default)]
struct Theirs {
    flags: Vec<OsString>,
    arguments: Vec<OsString>,
}

/// The options of the compiler that have a value of their own as the next argument, or may have.
const WITH_VALUE: [&str; 6] = ["-isystem", "-idirafter", "-include", "-I", "-D", "-U"];
/// How options of the compiler begin that are handed to it.
const HANDED: [&str; 9] = ["-I", "-D", "-U", "-std=", "-pedantic", "-O", "-W", "-f", "-g"];
/// Options that are handed to it as they stand.
const WHOLE: [&str; 2] = ["-w", "-ansi"];

/// Takes the compiler's options and, from `--` on, the program's arguments off the line.
fn take_theirs(line: &mut Vec<OsString>) -> Result<Theirs, clap::Error> {
    let (mut ours, mut theirs) = (Vec::new(), Theirs::default());
    let mut rest = std::mem::take(line).into_iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        let begins = |starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
        if text == "--" {
            theirs.arguments = rest.collect();
            break;
        } else if WITH_VALUE.contains(&text.as_ref()) {
            let value = rest.next().ok_or_else(|| error(format!("{text}: its value is missing")))?;
            theirs.flags.extend([argument, value]);
        } else if WHOLE.contains(&text.as_ref()) || begins(&HANDED) {
            theirs.flags.push(argument);
        } else if !(begins(&["-l", "-L"]) || text == "-pthread") {
            ours.push(argument);
        }
    }
    *line = ours;
    Ok(theirs)
}

/// A number of bytes, with K, M or G after it.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: Option<u64> = digits.parse().ok().filter(|&number: &u64| number > 0);
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| "it is a number of bytes above 0, such as 65536, 64K or 1G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &[&str]) -> Result<Command, String> {
        let line = ["gpufs"].iter().chain(arguments).map(OsString::from);
        read(line).map_err(|error| error.to_string())
    }

    #[test]
    fn what_clap_knows_is_consistent() {
        known().debug_assert();
    }

    #[test]
    fn compilers_options_and_arguments_are_told_apart() {
        let line = [
            "run",
            "-DX=1",
            "-I",
            "inc",
            "-idirafter",
            "late",
            "-std=c99",
            "a.c",
            "--heap",
            "2M",
            "-lm",
            "b.c",
            "--",
            "-x",
            "--",
        ];
        let Ok(Command::Run(options)) = asked(&line) else { panic!("a right command line") };
        assert_eq!(options.flags, ["-DX=1", "-I", "inc", "-idirafter", "late", "-std=c99"]);
        assert_eq!(options.files, [Path::new("a.c"), Path::new("b.c")]);
        assert_eq!(options.arguments, ["-x", "--"]);
        assert_eq!(options.heap, Some(2 << 20));
        assert_eq!(options.name(), Path::new("a"));
        // The last of what is said twice holds.
        let twice = asked(&["run", "--device", "cuda", "--device=cpu", "a.c"]);
        let Ok(Command::Run(options)) = twice else { panic!("{twice:?}") };
        assert_eq!(options.device, Some(Device::Cpu));
    }

    #[test]
    fn wrong_command_lines_are_named() {
        for (line, parts) in [
            ("", vec!["run", "doctor", "stat"]),
            ("fly", vec!["'fly'"]),
            ("run", vec!["FILE"]),
            ("build a.c", vec!["build: ", "-o PROGRAM"]),
            ("build a.o -o a", vec!["a.o is no C source"]),
            ("build a.c -o a -- x", vec!["for 'gpufs run'"]),
            ("run a.c x", vec!["come after --"]),
            ("run a.c -I", vec!["-I: its value is missing"]),
            ("run --heap many a.c", vec!["'many'", "--heap", "64K"]),
            ("run --stack 0 a.c", vec!["'0'", "--stack", "above 0"]),
            ("run --device tpu a.c", vec!["'tpu'", "cuda, amd, cpu"]),
            ("stat", vec!["<PID>"]),
            ("stat me", vec!["'me'", "the number of a process"]),
            ("stat 1 --interval 0", vec!["--interval", "0.01 at least"]),
            ("stat 1 2", vec!["'2'"]),
            ("run --fast a.c", vec!["--fast"]),
        ] {
            let said = asked(&line.split_whitespace().collect::<Vec<_>>()).unwrap_err();
            for part in parts {
                assert!(said.contains(part), "{line}: {said}");
            }
        }
    }
}
