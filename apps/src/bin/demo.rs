//! `demo`: runs the four programs on real input, compares them with the system's own tools, and prints the results in a table.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, Parser};
use gpufs_apps::cli::values::{number, path, size};
use gpufs_apps::cli::{self, Program, Progress};

/// The least number of files that `grep` searches.
const FILES: usize = 10_000;
/// The most files that it looks for on this machine.
const FILES_MAX: usize = 20_000;
/// What it searches for.
const PATTERN: &str = "Result";

const PROGRAM: Program = Program { name: "demo", needs: "", trouble: 2 };
/// What [`Demo::run`] does, one after the other.
const STEPS: u64 = 7;

/// Run greet, grep, copy and follow, and compare their results with those of the system's tools
#[derive(Debug, Parser)]
#[command(after_help = MORE)]
struct Task {
    /// Where to make files; they are removed at the end
    #[arg(long, value_name = "DIRECTORY", default_value = ".", value_parser = path())]
    work: PathBuf,
    /// Let grep search N generated texts, and none of this machine's
    #[arg(long, value_name = "N", value_parser = number::<usize>())]
    made: Option<usize>,
    /// Size of the file that copy copies, such as 8G; there must be room for three of them
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = size())]
    copy_size: usize,
    /// How often copy and cp copy it
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number::<u32>())]
    rounds: u32,
    /// Kill a program after this time; its first run on a GPU includes the driver's compilation of the
    /// device program, which can take a minute or two
    #[arg(long, verbatim_doc_comment, value_name = "SECONDS", default_value_t = 300, value_parser = number::<u32>())]
    limit: u32,
    #[command(flatten)]
    passed_on: PassedOn,
}

const MORE: &str = "\
The programs lie in the folder of this one. grep searches at least 10,000 files: texts of this machine,
and generated ones if those are too few. A table comes last.";

/// What the programs understand.
#[derive(Debug, Args)]
#[command(next_help_heading = "Passed to the programs; see greet --help")]
struct PassedOn {
    /// Where the kernels run
    #[arg(long, value_name = "DEVICE")]
    device: Option<OsString>,
    /// The number of the GPU
    #[arg(long, value_name = "N")]
    gpu: Option<OsString>,
    /// The device program
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    program: Option<OsString>,
    /// Number of io_uring rings
    #[arg(long, value_name = "N")]
    rings: Option<OsString>,
    /// How the rings are served
    #[arg(long, value_name = "MODE")]
    mode: Option<OsString>,
}

impl PassedOn {
    /// As arguments.
    fn arguments(self) -> Vec<OsString> {
        let Self { device, gpu, program, rings, mode } = self;
        let options =
            [("device", device), ("gpu", gpu), ("program", program), ("rings", rings), ("mode", mode)];
        let given =
            options.into_iter().filter_map(|(name, value)| Some([format!("--{name}").into(), value?]));
        given.flatten().collect()
    }
}

/// What the command line says, and where the programs are.
struct Demo {
    /// Options that all programs get.
    passed_on: Vec<OsString>,
    /// The folder for files, removed at the end.
    work: PathBuf,
    /// The number of generated texts, if grep is to search these and no others.
    made: Option<usize>,
    copy_bytes: u64,
    rounds: u32,
    /// Seconds after which a program is killed.
    limit: u32,
    /// The programs' folder.
    programs: PathBuf,
    progress: Progress,
}

/// A line of the table.
struct Verdict {
    program: &'static str,
    is_right: bool,
    /// Where it ran, how long, and why not on a GPU.
    ran: String,
    /// What it did, in one line or several.
    text: String,
}

fn main() -> ExitCode {
    PROGRAM.main(|task: Task| {
        let demo = Demo::new(task)?;
        fs::create_dir_all(&demo.work).map_err(|error| cli::about(&demo.work, cli::reason(&error)))?;
        let demonstrated = demo.run();
        // Gigabytes are not left there.
        fs::remove_dir_all(&demo.work).map_err(|error| cli::about(&demo.work, cli::reason(&error)))?;
        drop(demo);
        Ok(if print_table(&demonstrated?) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

impl Demo {
    fn new(task: Task) -> io::Result<Self> {
        let work = std::path::absolute(task.work)?.join(format!("gpufs-demo-{}", std::process::id()));
        let programs = std::env::current_exe()?.with_file_name("");
        let Task { made, copy_size, rounds, limit, passed_on, .. } = task;
        let (passed_on, copy_bytes) = (passed_on.arguments(), copy_size as u64);
        let progress = Progress::of_steps(STEPS);
        Ok(Self { passed_on, work, made, copy_bytes, rounds, limit, programs, progress })
    }

    fn run(&self) -> io::Result<[Verdict; 4]> {
        // Printed at once: a later program may hang.
        let said = |verdict: Verdict| {
            let result = if verdict.is_right { "ok" } else { "WRONG" };
            self.progress.above(|| println!("{}: {result}", verdict.program));
            verdict
        };
        Ok([said(self.greet()?), said(self.grep()?), said(self.copy()?), said(self.follow()?)])
    }

    /// A program, which is killed if it hangs.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", &self.limit.to_string()]).arg(self.programs.join(name));
        command.args(&self.passed_on).arg("--statistics").stdin(Stdio::null());
        command
    }

    fn greet(&self) -> io::Result<Verdict> {
        self.progress.step("greet prints");
        let file = self.work.join("greet.txt");
        let output = self.program("greet").args(["--check", "--lines", "10"]).arg(&file).output()?;
        let printed = sorted(&output.stdout);
        let same = fs::read(&file).is_ok_and(|text| sorted(&text) == printed);
        let checked =
            errors(&output).lines().find_map(|line| line.strip_prefix("greet: ").map(str::to_owned));
        let text = format!(
            "{} lines on the standard output, {} those in the file; {}",
            printed.len(),
            if same { "the same as" } else { "DIFFERENT from" },
            checked.unwrap_or_else(|| trouble(&output))
        );
        let is_right = output.status.success() && same && !printed.is_empty();
        Ok(Verdict { program: "greet", is_right, ran: ran(&output), text })
    }

    fn grep(&self) -> io::Result<Verdict> {
        self.progress.step("texts are found and made");
        let mut files = if self.made.is_some() { Vec::new() } else { find_files() };
        let found = files.len();
        let wanted = self.made.unwrap_or(FILES);
        if found < wanted {
            make_files(&self.work.join("tree"), wanted - found, &mut files)?;
        }
        let list = self.work.join("files");
        let mut writer = BufWriter::new(File::create(&list)?);
        for file in &files {
            writeln!(writer, "{}", file.display())?;
        }
        writer.flush()?;
        drop(writer);
        let (ours, theirs) = (self.work.join("ours"), self.work.join("theirs"));
        self.progress.step("the system's grep searches");
        // The first run reads the files into the page cache, for both programs.
        system_grep(&files, &theirs)?;
        let there = system_grep(&files, &theirs)?;
        self.progress.step("grep searches");
        let started = Instant::now();
        let output = self
            .program("grep")
            .args(["-n", "-H", "--files-from"])
            .arg(&list)
            .arg(PATTERN)
            .stdout(File::create(&ours)?)
            .stderr(Stdio::piped())
            .spawn()?
            .wait_with_output()?;
        let here = started.elapsed();
        let same = fs::read(&ours)? == fs::read(&theirs)?;
        let bytes = fs::metadata(&theirs)?.len();
        let mut text = format!(
            "{found} texts of this machine and {} generated ones: {bytes} bytes of output {} those of grep -F -n; {:.2} s here, {:.2} s \
             there",
            files.len() - found,
            if same { "identical to" } else { "DIFFERENT from" },
            here.as_secs_f64(),
            there.as_secs_f64()
        );
        if !same {
            let _ = write!(text, "\n{}", trouble(&output));
        }
        Ok(Verdict { program: "grep", is_right: same && bytes > 0, ran: ran(&output), text })
    }

    fn copy(&self) -> io::Result<Verdict> {
        let source = self.work.join("source");
        self.progress.step("a file is made");
        fill(&source, self.copy_bytes)?;
        self.progress.step("copy and cp copy it");
        let output = self
            .program("copy")
            .args(["--check", "--beside-cp", "--rounds", &self.rounds.to_string()])
            .arg(&source)
            .arg(self.work.join("target"))
            .output()?;
        let mut text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if !output.status.success() {
            text += &format!("\n{}", trouble(&output));
        }
        // The next program needs the room.
        fs::remove_file(&source)?;
        Ok(Verdict { program: "copy", is_right: output.status.success(), ran: ran(&output), text })
    }

    fn follow(&self) -> io::Result<Verdict> {
        self.progress.step("follow reads a log");
        let output = self.program("follow").arg(self.work.join("log")).output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = printed.lines().last().unwrap_or_default();
        let text = if output.status.success() { last.to_owned() } else { trouble(&output) };
        Ok(Verdict { program: "follow", is_right: output.status.success(), ran: ran(&output), text })
    }
}

/// Prints the verdicts; whether all programs were right.
fn print_table(verdicts: &[Verdict]) -> bool {
    println!();
    for Verdict { program, is_right, ran, text } in verdicts {
        let result = if *is_right { "ok" } else { "WRONG" };
        println!("{program:<8} {result:<6} {}", text.lines().next().unwrap_or_default());
        for line in text.lines().skip(1).chain(ran.lines()) {
            println!("{:<16}{line}", "");
        }
    }
    let right = verdicts.iter().filter(|verdict| verdict.is_right).count();
    println!("\n{right} of {} programs gave the right result", verdicts.len());
    right == verdicts.len()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Where a program ran, and for how long: from its statistics.
fn ran(output: &Output) -> String {
    let errors = errors(output);
    let line = |start| errors.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
    [line("ran on "), line("not on a GPU: ")].join("\n").trim_end().to_owned()
}

/// What went wrong, in the words of the program.
fn trouble(output: &Output) -> String {
    let errors = errors(output);
    format!("{}: {}", output.status, errors.lines().last().unwrap_or("it printed no error"))
}

fn sorted(text: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<_> = text.split_inclusive(|&byte| byte == b'\n').collect();
    lines.sort_unstable();
    lines
}

/// What the system's `grep` prints, in a file; how long it took.
fn system_grep(files: &[PathBuf], into: &Path) -> io::Result<Duration> {
    let output = File::create(into)?;
    let started = Instant::now();
    // As many names as a command line surely takes.
    for files in files.chunks(1_000) {
        let mut command = Command::new("grep");
        command.env("LC_ALL", "C").args(["-F", "-n", "-H", "--", PATTERN]).args(files);
        let status =
            command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(Stdio::null()).status()?;
        // 1: nothing matched. 2: a file could not be read; the two outputs must agree on that, too.
        if !matches!(status.code(), Some(0..=2)) {
            return Err(io::Error::other(format!("grep ended with {status}")));
        }
    }
    Ok(started.elapsed())
}

/// Text files of this machine in a fixed order: documentation and sources of a Rust toolchain, headers, and files of /usr/share.
fn find_files() -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Ok(output) = Command::new("rustc").args(["--print", "sysroot"]).output() {
        places.push(Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("share/doc"));
    }
    places.extend(
        ["/usr/lib/rustlib/src", "/usr/include", "/usr/share", "/usr/lib/python3"].map(PathBuf::from),
    );
    let mut files = Vec::new();
    for place in places {
        visit(&place, &mut files);
    }
    files
}

fn visit(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if files.len() >= FILES_MAX {
            return;
        }
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => visit(&path, files),
            Ok(kind) if kind.is_file() && path.to_str().is_some_and(|path| !path.contains('\n')) => {
                files.push(path);
            }
            _ => {}
        }
    }
}

/// Numbers from a seed: xorshift64 (Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 16).unwrap_or(0) % limit
    }
}

/// Generates `count` texts in folders of a hundred: most are short, some are long, some contain the pattern.
fn make_files(tree: &Path, count: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    const WORDS: [&str; 16] = [
        "the", "lanes", "of", "a", "warp", "read", "and", "write", "files", "in", "blocks", "io", "Ring",
        "result", "Err", PATTERN,
    ];
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for index in 0..count {
        let folder = tree.join(format!("{:03}", index / 100));
        if index % 100 == 0 {
            fs::create_dir_all(&folder)?;
        }
        let length = match index % 200 {
            0 => 1 << 20,
            1..20 => 100_000,
            _ => 12_000,
        };
        // Whether the last word, the pattern, may occur.
        let words = if index % 3 == 0 { WORDS.len() } else { WORDS.len() - 1 };
        let mut text = String::new();
        let length = random.below(length);
        while text.len() < length {
            // Rare, so that not every line matches.
            let word = if random.below(20) == 0 { random.below(words) } else { random.below(12) };
            text.push_str(WORDS[word]);
            text.push(if random.below(10) == 0 { '\n' } else { ' ' });
        }
        let path = folder.join(format!("{index:05}.txt"));
        fs::write(&path, text)?;
        files.push(path);
    }
    Ok(())
}

/// A file of bytes that do not repeat.
fn fill(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut piece = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        for word in piece.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        let count = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
        file.write_all(&piece[..count])?;
        left -= count as u64;
    }
    Ok(())
}
