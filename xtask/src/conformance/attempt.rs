//! Compiling and running one program.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::suites::Program;
use super::{bundle, ours};
use crate::workspace::root;

/// Seconds that a program may take.
const LIMIT_S: &str = "20";

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Passed,
    /// It says itself that it cannot run here (exit status 77).
    Unsupported,
    /// Why not.
    Failed(String),
}

/// The options under which every part is compiled.
fn compiler() -> Command {
    let mut command = Command::new("cc");
    // A function that no header declares is one that gpufs does not have: the C library's must not take its place.
    command.args(["-O1", "-fno-builtin", "-Werror=implicit-function-declaration", "-c"]);
    command
}

/// The driver's object.
pub(crate) fn driver(folder: &Path) -> Result<PathBuf, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let object = folder.join("driver.o");
    let mut command = compiler();
    command.arg("-I").arg(root().join("include")).arg(ours().join("driver.c")).arg("-o").arg(&object);
    let output = command.output().map_err(|error| format!("cc: {error}"))?;
    if output.status.success() { Ok(object) } else { Err(format!("driver.c: {}", said(&output))) }
}

/// A program on one CPU lane.
pub(crate) fn on_lanes(program: &Program, folder: &Path, driver: &Path, library: &Path) -> Ended {
    attempt(program, folder, driver, library).unwrap_or_else(Ended::Failed)
}

/// A program that another command builds, on this machine.
pub(crate) fn built(program: &Program, folder: &Path, command: &str) -> Ended {
    let place = folder.join(&program.name);
    let ran = fresh(&place).and_then(|work| {
        let binary = bundle::build(program, command, &place, "program")?;
        run(program, &binary, &work, &place.join("output"))
    });
    ran.unwrap_or_else(Ended::Failed)
}

/// An empty folder for a program's files, in its place.
fn fresh(place: &Path) -> Result<PathBuf, String> {
    // What an earlier run left is no part of this one.
    let _ = fs::remove_dir_all(place);
    let work = place.join("work");
    fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    Ok(work)
}

fn attempt(program: &Program, folder: &Path, driver: &Path, library: &Path) -> Result<Ended, String> {
    let place = folder.join(&program.name);
    let work = fresh(&place)?;
    let include = root().join("include");
    let mut objects = Vec::new();
    for (index, source) in program.sources.iter().enumerate() {
        let object = place.join(format!("{index}.o"));
        let mut command = compiler();
        command.args(&program.options).args(["-Dmain=conformance_main", "-Dexit=conformance_exit"]);
        command.arg("-I").arg(include.join("gpufs/drop_in")).arg("-I").arg(&include);
        for folder in &program.include {
            command.arg("-I").arg(folder);
        }
        let output =
            command.arg(source).arg("-o").arg(&object).output().map_err(|error| format!("cc: {error}"))?;
        if !output.status.success() {
            return Err(format!("does not compile: {}", first_error(&said(&output))));
        }
        objects.push(object);
    }
    let binary = place.join("program");
    let output = Command::new("cc")
        .args(&objects)
        .arg(driver)
        .arg("-L")
        .arg(library)
        .args(["-lgpufs", "-lm", "-lpthread", "-o"])
        .arg(&binary)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .output()
        .map_err(|error| format!("cc: {error}"))?;
    if !output.status.success() {
        return Err(format!("does not link: {}", first_error(&said(&output))));
    }
    run(program, &binary, &work, &place.join("output"))
}

/// Mounts for a program that runs as root: its folder and an empty /tmp may be written, the rest of the system is read only. A test that was
/// written for a machine of its own then harms nothing.
const GUARD: &str = r#"set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount --bind "$2" /tmp
mount -o remount,bind,ro /
shift 2
exec "$@""#;

/// Runs a built program in its folder; what it prints goes to a file.
fn run(program: &Program, binary: &Path, work: &Path, output: &Path) -> Result<Ended, String> {
    let system = |error: std::io::Error| error.to_string();
    let printed = File::create(output).map_err(system)?;
    let input = match &program.input {
        Some(input) => Stdio::from(File::open(input).map_err(system)?),
        None => Stdio::null(),
    };
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", LIMIT_S]);
    let is_root = fs::metadata("/proc/self").map_err(system)?.uid() == 0;
    if is_root {
        let scratch = work.with_file_name("tmp");
        fs::create_dir_all(&scratch).map_err(system)?;
        command.args(["unshare", "-m", "--", "bash", "-c", GUARD, "guard"]).arg(work).arg(scratch);
    }
    let status = command
        .arg(binary)
        .current_dir(work)
        .stdin(input)
        .stdout(printed.try_clone().map_err(system)?)
        .stderr(printed)
        .status()
        .map_err(|error| format!("timeout: {error}"))?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(Ended::Passed),
        (Some(77), _) => Ok(Ended::Unsupported),
        (Some(137), _) | (None, Some(9)) => Err(format!("did not end in {LIMIT_S} s")),
        (Some(code), _) => Err(format!("exit status {code}: {}", last_line(output))),
        (None, signal) => Err(format!("signal {}: {}", signal.unwrap_or(0), last_line(output))),
    }
}

/// The last line that a program printed, which most tests use for what went wrong.
fn last_line(output: &Path) -> String {
    let text = fs::read(output).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    line.chars().filter(|letter| !letter.is_control()).take(110).collect()
}

/// The compiler's first error, without the path.
pub(super) fn first_error(text: &str) -> String {
    let line = text.lines().find(|line| line.contains("error") || line.contains("undefined"));
    let line = line.or_else(|| text.lines().next()).unwrap_or("the compiler says nothing");
    let line = line.rsplit_once("error: ").map_or(line, |(_, told)| told);
    let line =
        line.rsplit_once(": undefined").map_or(line.to_owned(), |(_, told)| format!("undefined{told}"));
    line.chars().take(110).collect()
}

pub(super) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
