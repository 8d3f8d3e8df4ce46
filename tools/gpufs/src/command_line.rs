//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::stat::Watched;

pub(crate) const HELP: &str = "\
gpufs run [options] FILE.c… [-- arguments]     build a C program and run its main on a GPU
gpufs run [options] PROGRAM [-- arguments]     run what 'gpufs build' made
gpufs build [options] FILE.c… -o PROGRAM       PROGRAM.cubin: for one kind of NVIDIA GPU; PROGRAM.ptx: for any; PROGRAM.hsaco: for an AMD GPU;
                                               with --device cpu: a program for this machine
gpufs doctor [--json] [--gpu] [FILE…]          what this machine can do for gpufs, and what to do about each lack; how each FILE is served, how fast
gpufs stat PID [--json]                        what the sessions of a running process do, once a second: operations, in flight, processor time
gpufs --version

  --device cuda|amd|cpu   where it runs; otherwise what the output's name says, or an NVIDIA GPU if there is one, or CPU lanes
  --arch sm_90            the GPU to build for; otherwise this machine's NVIDIA GPU, or sm_90; AMD: gfx90a, gfx942
  --stack BYTES           stack of the program: K, M and G count; default 32K on a GPU, 8M on CPU lanes
  --heap BYTES            memory for malloc on a GPU; default 1G
  -o PROGRAM              what build makes
  -I -D -U -std= -ansi -pedantic -O -W -f -g -w -isystem -include
                          handed to the compiler; the default is -O2. -l, -L and -pthread have no effect

  --json                  doctor: the report as one JSON object; stat: an object a line
  --interval SECONDS      stat: how often; default 1
  --count LINES           stat: how often at most; otherwise until the process ends
  --gpu                   doctor: without a GPU that can be used the exit status is 1

doctor's exit status: 0 where nothing is lacking, 1 where sessions work with less than they could or a FILE
cannot be read, 2 where none can be opened.
run's exit status is the program's: what main returned or exit was given; 134 after abort or a failed assertion, 139 after a fault; 125 if gpufs
itself failed. GPUFS_PREFIX: the folder that 'cargo xtask dist' made, if gpufs does not lie in it.
";

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    Cuda,
    Amd,
    Cpu,
}

/// What was asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Version,
    Doctor(Asked),
    Stat(Watched),
    Build(Options),
    Run(Options),
}

/// What `doctor` is asked.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) json: bool,
    pub(crate) gpu: bool,
    pub(crate) files: Vec<PathBuf>,
}

/// The options of `build` and `run`.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) device: Option<Device>,
    pub(crate) arch: Option<String>,
    pub(crate) stack: Option<u64>,
    pub(crate) heap: Option<u64>,
    pub(crate) output: Option<PathBuf>,
    /// For the compiler, in order.
    pub(crate) flags: Vec<OsString>,
    pub(crate) files: Vec<PathBuf>,
    /// For the program, without its name.
    pub(crate) arguments: Vec<OsString>,
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
}

/// Reads the command line.
pub(crate) fn read(mut parser: Parser) -> Result<Command, lexopt::Error> {
    let command = match parser.next()? {
        Some(Arg::Value(command)) => command.string()?,
        Some(Arg::Long("help") | Arg::Short('h')) => return Ok(Command::Help),
        Some(Arg::Long("version") | Arg::Short('V')) => return Ok(Command::Version),
        Some(option) => return Err(option.unexpected()),
        None => return Err("there is no command: 'run', 'build', 'doctor' or 'stat'".into()),
    };
    // Before what reads options of the compiler, too.
    let asks = |first: &std::ffi::OsStr| first == "--help" || first == "-h";
    if parser.try_raw_args().is_some_and(|rest| rest.as_slice().first().is_some_and(|first| asks(first))) {
        return Ok(Command::Help);
    }
    match command.as_str() {
        "help" => Ok(Command::Help),
        "doctor" => doctor(parser),
        "stat" => stat(parser),
        "build" => {
            let options = options(parser)?;
            if !options.arguments.is_empty() {
                return Err("build: arguments of the program are for 'gpufs run'".into());
            }
            if options.output.is_none() {
                return Err("build: -o PROGRAM is missing".into());
            }
            if let Some(file) = options.files.iter().find(|file| !is_source(file)) {
                return Err(format!("build: {} is no C source (FILE.c)", file.display()).into());
            }
            Ok(Command::Build(options))
        }
        "run" => {
            let options = options(parser)?;
            if options.files.len() > 1
                && let Some(file) = options.files.iter().find(|file| !is_source(file))
            {
                return Err(format!(
                    "run: {} is no C source (FILE.c); arguments of the program come after --",
                    file.display()
                )
                .into());
            }
            Ok(Command::Run(options))
        }
        other => Err(format!("there is no command '{other}': 'run', 'build', 'doctor' or 'stat'").into()),
    }
}

fn doctor(mut parser: Parser) -> Result<Command, lexopt::Error> {
    let mut asked = Asked::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            Arg::Long("json") => asked.json = true,
            Arg::Long("gpu") => asked.gpu = true,
            Arg::Value(file) => asked.files.push(file.into()),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Doctor(asked))
}

fn stat(mut parser: Parser) -> Result<Command, lexopt::Error> {
    let (mut pid, mut json, mut count, mut interval) = (None, false, None, Duration::from_secs(1));
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            Arg::Long("json") => json = true,
            Arg::Long("count") => count = Some(parser.value()?.parse()?),
            Arg::Long("interval") => {
                let text = parser.value()?.string()?;
                let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                interval = seconds
                    .filter(|interval| *interval >= Duration::from_millis(10))
                    .ok_or_else(|| format!("--interval {text}: it is a number of seconds, 0.01 at least"))?;
            }
            Arg::Value(value) if pid.is_none() => {
                let text = value.string()?;
                pid = Some(text.parse().map_err(|_| format!("stat: {text} is no number of a process"))?);
            }
            other => return Err(other.unexpected()),
        }
    }
    let pid = pid.ok_or("stat: the number of a process is missing, such as 'gpufs stat $(pidof PROGRAM)'")?;
    Ok(Command::Stat(Watched { pid, interval, count, json }))
}

/// The options of the compiler that have a value of their own as the next argument.
const WITH_VALUE: [&str; 2] = ["-isystem", "-include"];
/// How options of the compiler begin that are handed to it.
const HANDED: [&str; 9] = ["-I", "-D", "-U", "-std=", "-pedantic", "-O", "-W", "-f", "-g"];
/// Options that are handed to it as they stand.
const WHOLE: [&str; 2] = ["-w", "-ansi"];

fn options(mut parser: Parser) -> Result<Options, lexopt::Error> {
    let mut options = Options::default();
    loop {
        // The compiler's own options first, as they are no options by getopt's rules.
        if let Some(mut raw) = parser.try_raw_args()
            && let Some(next) = raw.peek()
        {
            let text = next.to_string_lossy().into_owned();
            if text == "--" {
                raw.next();
                options.arguments = raw.collect();
                break;
            }
            if WITH_VALUE.contains(&text.as_str()) || ["-I", "-D", "-U"].contains(&text.as_str()) {
                options.flags.extend(raw.next());
                let value = raw.next().ok_or_else(|| format!("{text}: its value is missing"))?;
                options.flags.push(value);
                continue;
            }
            if WHOLE.contains(&text.as_str()) || HANDED.iter().any(|start| text.starts_with(start)) {
                options.flags.extend(raw.next());
                continue;
            }
            if text.starts_with("-l") || text.starts_with("-L") || text == "-pthread" {
                raw.next();
                continue;
            }
        }
        match parser.next()? {
            None => break,
            Some(Arg::Long("device")) => {
                options.device = Some(match parser.value()?.string()?.as_str() {
                    "cuda" => Device::Cuda,
                    "amd" => Device::Amd,
                    "cpu" => Device::Cpu,
                    other => return Err(format!("--device {other}: it is cuda, amd or cpu").into()),
                });
            }
            Some(Arg::Long("arch")) => options.arch = Some(parser.value()?.string()?),
            Some(Arg::Long("stack")) => options.stack = Some(bytes("--stack", &parser.value()?.string()?)?),
            Some(Arg::Long("heap")) => options.heap = Some(bytes("--heap", &parser.value()?.string()?)?),
            Some(Arg::Short('o')) => options.output = Some(parser.value()?.into()),
            Some(Arg::Value(file)) => options.files.push(file.into()),
            Some(other) => return Err(other.unexpected()),
        }
    }
    if options.files.is_empty() {
        return Err("there is no file: FILE.c, or a program that 'gpufs build' made".into());
    }
    Ok(options)
}

/// A number of bytes, with K, M or G after it.
fn bytes(option: &str, text: &str) -> Result<u64, lexopt::Error> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: Option<u64> = digits.parse().ok().filter(|&number: &u64| number > 0);
    number.and_then(|number| number.checked_mul(1 << shift)).ok_or_else(|| {
        format!("{option} {text}: it is a number of bytes above 0, such as 65536, 64K or 1G").into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &[&str]) -> Result<Command, String> {
        read(Parser::from_args(arguments)).map_err(|error| error.to_string())
    }

    #[test]
    fn compilers_options_and_arguments_are_told_apart() {
        let line =
            ["run", "-DX=1", "-I", "inc", "-std=c99", "a.c", "--heap", "2M", "-lm", "b.c", "--", "-x", "--"];
        let Ok(Command::Run(options)) = asked(&line) else { panic!("a right command line") };
        assert_eq!(options.flags, ["-DX=1", "-I", "inc", "-std=c99"]);
        assert_eq!(options.files, [Path::new("a.c"), Path::new("b.c")]);
        assert_eq!(options.arguments, ["-x", "--"]);
        assert_eq!(options.heap, Some(2 << 20));
        assert_eq!(options.name(), Path::new("a"));
    }

    #[test]
    fn wrong_command_lines_are_named() {
        assert!(asked(&[]).unwrap_err().contains("no command"));
        assert!(asked(&["fly"]).unwrap_err().contains("'fly'"));
        assert!(asked(&["run"]).unwrap_err().contains("no file"));
        assert!(asked(&["build", "a.c"]).unwrap_err().contains("-o PROGRAM"));
        assert!(asked(&["build", "a.o", "-o", "a"]).unwrap_err().contains("a.o is no C source"));
        assert!(asked(&["run", "a.c", "x"]).unwrap_err().contains("come after --"));
        assert!(asked(&["run", "--heap", "many", "a.c"]).unwrap_err().contains("--heap many"));
        assert!(asked(&["run", "--stack", "0", "a.c"]).unwrap_err().contains("above 0"));
        assert!(asked(&["run", "--device", "tpu", "a.c"]).unwrap_err().contains("cuda, amd or cpu"));
        assert!(asked(&["stat"]).unwrap_err().contains("the number of a process"));
        assert!(asked(&["stat", "me"]).unwrap_err().contains("me is no number"));
        assert!(asked(&["stat", "1", "--interval", "0"]).unwrap_err().contains("0.01 at least"));
        assert!(asked(&["stat", "1", "2"]).unwrap_err().contains("\"2\""));
        assert!(asked(&["run", "--fast", "a.c"]).unwrap_err().contains("--fast"));
    }
}
