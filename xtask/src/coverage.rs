//! Which lines of the core and of the device crate no test reaches.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{self, Report};
use crate::workspace::{cargo, minutes, root};

/// What is run: models and unit tests of the crates, and the whole-stack tests on CPU lanes.
const TESTS: &str = "test -p gpufs-core -p gpufs-device -p gpufs-host -p gpufs-device-c -p gpufs-tests -p gpufs-fuzz --no-fail-fast \
                     --target-dir target/coverage";
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
    let mut tests = cargo(TESTS);
    tests.env("RUSTFLAGS", "-Cinstrument-coverage");
    tests.env("LLVM_PROFILE_FILE", folder.join("%p-%12m.profraw"));
    let mut programs = Vec::new();
    let ran = step::run_hearing("coverage: tests", &mut tests, minutes(90), |line| {
        programs.extend(program_of(line));
    });
    let told = step::in_process("coverage: lines", || table(&tools, &folder, &programs));
    vec![ran, told]
}

/// The test program that cargo says it runs.
fn program_of(line: &str) -> Option<PathBuf> {
    let (before, rest) = line.trim_start().rsplit_once('(')?;
    before.starts_with("Running ").then(|| root().join(rest.trim_end_matches(')')))
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

fn table(tools: &Path, folder: &Path, programs: &[PathBuf]) -> Result<(), String> {
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
        export.arg(program);
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
    fn programs_are_those_that_cargo_runs() {
        let line = "     Running tests/stdio.rs (target/coverage/debug/deps/stdio-0)";
        assert_eq!(program_of(line), Some(root().join("target/coverage/debug/deps/stdio-0")));
        assert_eq!(program_of("test running (it) ... ok"), None);
    }
}
