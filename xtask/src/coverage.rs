//! Which lines of the core and of the device crate no test reaches.
//!
//! Counters of lines are words that all threads add to: a test of many lanes may take a hundred times as long with them. So each test is a process
//! of its own, with a limit, and what was ended is said by name: its lines count where another reaches them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{self, Report};
use crate::workspace::{cargo, minutes, root};

/// What is run: models and unit tests of the crates, and the whole-stack tests on CPU lanes.
const TESTS: &str = "test -p gpufs-core -p gpufs-device -p gpufs-host -p gpufs-device-c -p gpufs-tests -p gpufs-fuzz --no-run \
                     --target-dir target/coverage";
/// Where the packages of these tests lie, in which they are run.
const FOLDERS: [&str; 6] = ["gpufs-core", "gpufs-device", "gpufs-host", "gpufs-device-c", "tests", "fuzz"];
/// Seconds for one test.
const TEST_SECONDS: u32 = 40;
/// Whose lines are counted.
const COUNTED: [&str; 2] = ["gpufs-core/src/", "gpufs-device/src/"];

/// A file's lines that have code, and those of them that nothing has reached.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lines {
    all: usize,
    missed: Vec<u32>,
}

/// Runs the tests and prints the table.
pub(crate) fn run() -> Vec<Report> {
    let folder = root().join("target/coverage/profiles");
    let Some(tools) = tools() else {
        let reason = "there is no llvm-profdata that reads this rustc's profiles (rustup component add llvm-tools, or Debian's llvm-22)";
        return vec![Report::skipped("coverage", reason)];
    };
    let _ = std::fs::remove_dir_all(&folder);
    let mut build = cargo(TESTS);
    build.env("RUSTFLAGS", "-Cinstrument-coverage");
    build.env("LLVM_PROFILE_FILE", folder.join("build-%p.profraw"));
    let mut programs = Vec::new();
    let built = step::run_hearing("coverage: build", &mut build, minutes(40), |line| {
        programs.extend(program_of(line));
    });
    if built.failed() {
        return vec![built];
    }
    let ran = step::in_process("coverage: tests", || run_tests(&folder, &programs));
    let told = step::in_process("coverage: lines", || table(&tools, &folder, &programs));
    vec![built, ran, told]
}

/// A test program, and the folder of its package.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    path: PathBuf,
    folder: PathBuf,
}

/// The test program that cargo says it has built.
fn program_of(line: &str) -> Option<Program> {
    let (before, rest) = line.trim_start().strip_prefix("Executable ")?.rsplit_once('(')?;
    let path = root().join(rest.trim_end_matches(')'));
    let name = path.file_name()?.to_string_lossy().into_owned();
    let source = before.trim();
    let of_source = |folder: &&&str| root().join(folder).join(source).exists();
    let of_name = |folder: &&&str| {
        let package = if **folder == "tests" || **folder == "fuzz" {
            format!("gpufs-{folder}")
        } else {
            (**folder).to_owned()
        };
        name.starts_with(&format!("{}-", package.replace('-', "_")))
    };
    let folder = FOLDERS.iter().find(of_name).or_else(|| FOLDERS.iter().find(of_source)).unwrap_or(&"");
    Some(Program { path, folder: root().join(folder) })
}

/// Runs each test of the programs by itself.
fn run_tests(folder: &Path, programs: &[Program]) -> Result<(), String> {
    let (mut failed, mut ended, mut count) = (Vec::new(), Vec::new(), 0);
    for program in programs {
        let shown = program.path.display();
        let listed = Command::new(&program.path)
            .args(["--list", "--format", "terse"])
            .env("LLVM_PROFILE_FILE", folder.join("list-%p.profraw"))
            .current_dir(&program.folder)
            .output()
            .map_err(|error| format!("{shown}: {error}"))?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        for test in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
            let ran = Command::new("timeout")
                .args(["-s", "KILL", &TEST_SECONDS.to_string()])
                .arg(&program.path)
                .args(["--exact", test])
                .env("LLVM_PROFILE_FILE", folder.join("%p-%12m.profraw"))
                .current_dir(&program.folder)
                .output()
                .map_err(|error| format!("timeout: {error}"))?;
            count += 1;
            match ran.status.code() {
                Some(0) => {}
                // What `timeout` says of a process that it killed.
                Some(137) | None => ended.push(format!("{shown} {test}")),
                Some(_) => failed.push(format!("{shown} {test}")),
            }
        }
    }
    println!("{count} tests, each alone; ended after {TEST_SECONDS} s: {}", ended.len());
    for name in ended {
        println!("SKIP {name}: takes longer with counters");
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("these fail: {}", failed.join(", "))) }
}

/// The folder of LLVM's tools: the toolchain's own, or Debian's.
fn tools() -> Option<PathBuf> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
    let own = Path::new(&sysroot).join("lib/rustlib/x86_64-unknown-linux-gnu/bin");
    [own, PathBuf::from("/usr/lib/llvm-22/bin")]
        .into_iter()
        .find(|folder| folder.join("llvm-profdata").exists())
}

fn table(tools: &Path, folder: &Path, programs: &[Program]) -> Result<(), String> {
    let said = |command: &mut Command| {
        let output = command.output().map_err(|error| format!("{}: {error}", tools.display()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(String::from_utf8_lossy(&output.stderr).lines().take(5).collect::<Vec<_>>().join("\n"))
    };
    let merged = folder.join("all.profdata");
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let raw: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "profraw"))
        .collect();
    // Programs that were killed leave profiles that are cut: those alone are passed over.
    let mut merge = Command::new(tools.join("llvm-profdata"));
    said(merge.args(["merge", "-sparse", "--failure-mode=all", "-o"]).arg(&merged).args(&raw))?;
    let mut export = Command::new(tools.join("llvm-cov"));
    export.args(["export", "--format=lcov"]).arg("--instr-profile").arg(&merged);
    for (index, program) in programs.iter().enumerate() {
        if index > 0 {
            export.arg("--object");
        }
        export.arg(&program.path);
    }
    let files = read(&said(&mut export)?);
    println!("{:<52} {:>6} {:>7}  not reached", "file", "lines", "missed");
    let (mut all, mut missed) = (0, 0);
    for (file, lines) in &files {
        all += lines.all;
        missed += lines.missed.len();
        if !lines.missed.is_empty() {
            println!("{file:<52} {:>6} {:>7}  {}", lines.all, lines.missed.len(), ranges(&lines.missed));
        }
    }
    println!("{:<52} {all:>6} {missed:>7}", "all");
    if all == 0 { Err("no line of the core was counted".to_owned()) } else { Ok(()) }
}

/// The counted files of lcov's text. A line that stands in several instances of a generic function was reached if one of them was.
fn read(lcov: &str) -> BTreeMap<String, Lines> {
    let root = format!("{}/", root().display());
    let mut reached: BTreeMap<String, BTreeMap<u32, bool>> = BTreeMap::new();
    let mut file = None;
    for line in lcov.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            let path = path.strip_prefix(&root).unwrap_or(path);
            file = COUNTED.iter().any(|folder| path.starts_with(folder)).then(|| path.to_owned());
        } else if let (Some(file), Some(rest)) = (&file, line.strip_prefix("DA:"))
            && let Some((number, count)) = rest.split_once(',')
            && let Ok(number) = number.parse()
        {
            *reached.entry(file.clone()).or_default().entry(number).or_default() |= count != "0";
        }
    }
    let lines = |lines: BTreeMap<u32, bool>| Lines {
        all: lines.len(),
        missed: lines.into_iter().filter(|(_, reached)| !reached).map(|(number, _)| number).collect(),
    };
    reached.into_iter().map(|(file, of_file)| (file, lines(of_file))).collect()
}

/// `1-3 7`.
fn ranges(lines: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for line in lines {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *line => *last = *line,
            _ => ranges.push((*line, *line)),
        }
    }
    let said = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(said).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_once() {
        let path = root().join("gpufs-core/src/lock.rs");
        let text = format!(
            "SF:{}\nDA:1,0\nDA:2,5\nDA:3,0\nDA:4,0\nend_of_record\nSF:/other.rs\nDA:1,0\nend_of_record\nSF:{}\nDA:1,2\nend_of_record\n",
            path.display(),
            path.display()
        );
        let files = read(&text);
        assert_eq!(files.len(), 1);
        assert_eq!(files["gpufs-core/src/lock.rs"], Lines { all: 4, missed: vec![3, 4] });
        assert_eq!(ranges(&[1, 3, 4, 5, 9]), "1 3-5 9");
    }

    #[test]
    fn programs_are_those_that_cargo_has_built() {
        let of = |line| program_of(line).map(|program| (program.path, program.folder));
        let path = |name: &str| root().join("target/coverage/debug/deps").join(name);
        let line = "  Executable tests/stdio.rs (target/coverage/debug/deps/stdio-0)";
        assert_eq!(of(line), Some((path("stdio-0"), root().join("tests"))));
        let line = "  Executable unittests src/lib.rs (target/coverage/debug/deps/gpufs_host-0)";
        assert_eq!(of(line), Some((path("gpufs_host-0"), root().join("gpufs-host"))));
        let line = "  Executable tests/ring/main.rs (target/coverage/debug/deps/ring-0)";
        assert_eq!(of(line), Some((path("ring-0"), root().join("gpufs-host"))));
        assert_eq!(of("test running (it) ... ok"), None);
    }
}
