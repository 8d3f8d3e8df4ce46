//! `cargo xtask conformance --suite musl=DIR --suite glibc=DIR`: the tests of stdio of other C libraries, unchanged, under `gpufs/drop_in.h`.
//!
//! The folders are given; nothing of them is in this project. Each test is compiled for CPU lanes, with its `main` as a kernel of one lane,
//! runs in a folder of its own under a time limit, and is a row of a table. What is expected to fail stands with its reason in
//! `tests/conformance/expected.txt`; a test that fails without standing there fails the command, and so does one that passes in spite of it.
//!
//! | file | what |
//! |---|---|
//! | `suites.rs` | which programs a suite has, and how each is compiled |
//! | `attempt.rs` | compiling and running one |
//! | `bundle.rs` | programs that another command builds (`--build`), and a folder of them for another machine (`--bundle`) |
//! | `table.rs` | what is expected, and the table |

mod attempt;
mod bundle;
mod suites;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::dist;
use crate::workspace::{root, target_directory};
use attempt::Ended;
use suites::Program;

/// What the command was asked for.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Suites by name, and where each is.
    pub(crate) suites: Vec<(String, PathBuf)>,
    /// A part of the name of each test to run; empty for all.
    pub(crate) only: String,
    /// A command that builds a program from a compiler's options, such as `gpufs build --device cuda`, or `cc` for the C library's own.
    pub(crate) build: Option<String>,
    /// Where the programs that it builds go, for another machine, which runs them.
    pub(crate) bundle: Option<PathBuf>,
    /// Where programs and their output stay; a folder under `target` by default.
    pub(crate) folder: Option<PathBuf>,
}

impl Options {
    /// `NAME=DIR`.
    pub(crate) fn suite(&mut self, given: &str) -> Result<(), String> {
        let (name, folder) =
            given.split_once('=').ok_or_else(|| format!("--suite {given}: NAME=DIR is wanted"))?;
        self.suites.push((name.to_owned(), PathBuf::from(folder)));
        Ok(())
    }
}

/// Runs the suites; whether all ended as expected.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    if options.suites.is_empty() {
        return Err(
            "conformance: no suite is named; --suite musl=DIR, --suite glibc=DIR or --suite llvm=DIR"
                .to_owned(),
        );
    }
    let folder = options.folder.clone().unwrap_or_else(|| target_directory().join("conformance"));
    let mut programs = Vec::new();
    for (name, place) in &options.suites {
        let place = place.canonicalize().map_err(|error| format!("{}: {error}", place.display()))?;
        let found = suites::programs(name, &place)?;
        if found.is_empty() {
            return Err(format!("{}: no test of {name} is there", place.display()));
        }
        programs.extend(found);
    }
    programs.retain(|program| program.name.contains(&options.only));
    if programs.is_empty() {
        return Err(format!("no test has {:?} in its name", options.only));
    }
    match (&options.build, &options.bundle) {
        (Some(command), Some(bundle)) => {
            // What fails on CPU lanes is no question to a GPU.
            let expected = table::Expected::read()?;
            programs.retain(|program| !expected.names(&program.name));
            let work = target_directory().join("conformance-bundle");
            return Ok(bundle::make(&programs, command, &work, bundle)? > 0);
        }
        (None, Some(_)) => {
            return Err("--bundle needs --build, such as --build 'gpufs build --device cuda'".to_owned());
        }
        (Some(command), None) => {
            let results = attempted(&programs, |program| attempt::built(program, &folder, command));
            return Ok(table::print(&programs, &results, &table::Expected::default(), false));
        }
        (None, None) => {}
    }
    let library = library()?;
    let driver = attempt::driver(&folder)?;
    let results = attempted(&programs, |program| attempt::on_lanes(program, &folder, &driver, &library));
    let expected = table::Expected::read()?;
    Ok(table::print(&programs, &results, &expected, options.only.is_empty()))
}

/// Each program's end, by as many threads as there are cores.
fn attempted(programs: &[Program], attempt: impl Fn(&Program) -> Ended + Sync) -> Vec<Ended> {
    let next = Mutex::new(programs.iter().enumerate());
    let ends = Mutex::new(vec![None; programs.len()]);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let taken = next.lock().expect("no thread panics with it").next();
                    let Some((index, program)) = taken else { return };
                    let ended = attempt(program);
                    ends.lock().expect("no thread panics with it")[index] = Some(ended);
                }
            });
        }
    });
    let ends = ends.into_inner().expect("no thread panics with it");
    ends.into_iter().map(|ended| ended.expect("each program was taken")).collect()
}

/// The folder of `libgpufs`, built now.
fn library() -> Result<PathBuf, String> {
    let built = Command::new(env!("CARGO"))
        .args(["build", "-p", "gpufs-c", "--target-dir"])
        .arg(target_directory())
        .current_dir(root())
        .status();
    match built {
        Ok(status) if status.success() => {
            let folder = target_directory().join("debug");
            dist::link(&folder, &dist::soname("libgpufs"), "libgpufs.so")?;
            Ok(folder)
        }
        Ok(status) => Err(format!("libgpufs: cargo build: {status}")),
        Err(error) => Err(format!("libgpufs: cargo: {error}")),
    }
}

/// The project's part of the suites: the driver, and what stands for glibc's test support.
fn ours() -> PathBuf {
    root().join("tests/conformance")
}

/// The files of a folder, sorted.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}
