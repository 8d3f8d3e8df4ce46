//! A copy of the workspace in which each mutant stands beside what it replaces, and the test programs that are built of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::listed::{Lines, Mutant};
use super::place::{Places, places};
use super::text::{Switched, switched};
use crate::mutants::run::{copy_workspace, write};
use crate::workspace::{root, target_directory};

/// The switch, a module of the core's copy.
const SWITCH: &str = include_str!("switch.txt");
/// Where the core's copy has it.
const LIBRARY: &str = "gpufs-core/src/lib.rs";
/// What stands there before all else.
const FEATURES: &str = "#![feature(core_intrinsics, const_eval_select)]\n#![allow(internal_features)]\n";
/// What the compiler needs for it; also in tests, some of which build.
pub(super) const ENVIRONMENT: [(&str, &str); 2] =
    [("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", "--cap-lints allow")];
/// What is built: the packages whose tests are run.
const PACKAGES: [&str; 4] = ["gpufs-core", "gpufs-device", "gpufs-host", "gpufs-tests"];

/// The copy.
pub(super) struct Copy<'a> {
    folder: PathBuf,
    mutants: &'a [Mutant],
    files: BTreeMap<&'a str, Source<'a>>,
}

/// A file that has mutants.
struct Source<'a> {
    text: String,
    places: Places,
    /// Each with its number, and the bytes that it replaces.
    mutants: Vec<(u32, &'a Mutant, Range<usize>)>,
}

/// A program with tests.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Its package's folder, in which it runs.
    pub(super) folder: PathBuf,
}

impl<'a> Copy<'a> {
    /// A copy for these mutants; each one's place in the list is its number.
    ///
    /// # Errors
    /// What cannot be read, written, or parsed.
    pub(super) fn make(mutants: &'a [Mutant]) -> Result<Self, String> {
        let folder = target_directory().join("mutants/all-code");
        copy_workspace(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut files = BTreeMap::new();
        for (number, mutant) in (0..).zip(mutants) {
            let source = match files.entry(mutant.file.as_str()) {
                std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::btree_map::Entry::Vacant(new) => {
                    let text =
                        fs::read_to_string(root().join(&mutant.file)).map_err(|error| error.to_string())?;
                    let places = places(&text).map_err(|error| format!("{}: {error}", mutant.file))?;
                    new.insert(Source { text, places, mutants: Vec::new() })
                }
            };
            let range = mutant.range(&Lines::of(&source.text));
            source.mutants.push((number, mutant, range));
        }
        Ok(Self { folder, mutants, files })
    }

    /// Writes the sources with a switch for each mutant but those of `without`, and leaves out what does not compile, until all does; the numbers
    /// of those that are left out.
    ///
    /// # Errors
    /// Where the copy does not compile, and no mutant is to blame.
    pub(super) fn switch(&self) -> Result<BTreeSet<u32>, String> {
        let mut without = BTreeSet::new();
        loop {
            let texts = self.written(&mut without)?;
            let errors = self.errors()?;
            if errors.is_empty() {
                return Ok(without);
            }
            let before = without.len();
            for Error { file, bytes, advice_end, .. } in &errors {
                let Some(switched) = texts.get(file.as_str()) else { continue };
                let head = if file == LIBRARY { FEATURES.len() } else { 0 };
                let bytes = bytes.start.saturating_sub(head)..bytes.end.saturating_sub(head);
                without.extend(switched.blamed(&bytes, advice_end.saturating_sub(head)));
            }
            println!("{} that do not compile are left out", without.len());
            if without.len() == before {
                let said: Vec<_> = errors.iter().map(|error| error.said.as_str()).take(5).collect();
                return Err(format!(
                    "the copy does not compile, and it is no mutant's:\n{}",
                    said.join("\n")
                ));
            }
        }
    }

    /// The texts as they are written; what has no place becomes part of `without`.
    fn written(&self, without: &mut BTreeSet<u32>) -> Result<BTreeMap<&'a str, Switched>, String> {
        let put = |path: &str, text: &str| {
            let path = self.folder.join(path);
            // What did not change is not compiled again.
            if fs::read_to_string(&path).is_ok_and(|known| known == text) {
                return Ok(());
            }
            write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        let mut texts = BTreeMap::new();
        for (&file, source) in &self.files {
            let left: Vec<_> =
                source.mutants.iter().filter(|(number, ..)| !without.contains(number)).cloned().collect();
            let switch = if file.starts_with("gpufs-core/") { "crate" } else { "gpufs_core" }.to_owned()
                + "::mutation::on";
            let made = switched(&source.text, &source.places, &left, &switch);
            without.extend(&made.without);
            texts.insert(file, made);
        }
        let text = match texts.get(LIBRARY) {
            Some(made) => made.text.clone(),
            None => {
                fs::read_to_string(root().join(LIBRARY)).map_err(|error| format!("{LIBRARY}: {error}"))?
            }
        };
        put(LIBRARY, &format!("{FEATURES}{text}\n#[doc(hidden)]\npub mod mutation;\n"))?;
        let count = self.mutants.len().to_string();
        put("gpufs-core/src/mutation.rs", &SWITCH.replace("MUTANTS;", &format!("{count};")))?;
        for (file, made) in texts.iter().filter(|(file, _)| **file != LIBRARY) {
            put(file, &made.text)?;
        }
        Ok(texts)
    }

    /// `cargo` in the copy, for its tests or for loom's models.
    fn cargo(&self, arguments: &[&str], loom: bool) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(cargo);
        command.args(arguments).args(["--release", "--message-format", "json"]).current_dir(&self.folder);
        command.envs(ENVIRONMENT);
        if loom {
            command.env("RUSTFLAGS", "--cap-lints allow --cfg loom");
        }
        let target = if loom { "target-loom" } else { "target" };
        command.env("CARGO_TARGET_DIR", self.folder.join(target));
        // A test runs for moments, and all are compiled; models run for longer.
        command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", if loom { "2" } else { "1" });
        command.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
        command
    }

    /// What the compiler says against the core and the device crate: first where they are libraries, then in tests, then in loom's models.
    fn errors(&self) -> Result<Vec<Error>, String> {
        // With what depends on them, which chooses their features.
        let packages = PACKAGES.iter().flat_map(|package| ["-p", package]);
        let libraries: Vec<&str> = ["check", "--keep-going"].into_iter().chain(packages).collect();
        let tests: Vec<&str> = libraries.iter().copied().chain(["--lib", "--tests"]).collect();
        let models = ["check", "-p", "gpufs-core", "--test", "loom*"];
        for (arguments, loom) in [(&libraries[..], false), (&tests, false), (&models, true)] {
            let output = self.cargo(arguments, loom).output().map_err(|error| format!("cargo: {error}"))?;
            let errors: Vec<Error> =
                messages(&output.stdout).filter_map(|message| Error::of(&message)).collect();
            if !errors.is_empty() {
                return Ok(errors);
            }
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into_owned());
            }
        }
        Ok(Vec::new())
    }

    /// Builds the programs with tests, and those with loom's models.
    ///
    /// # Errors
    /// What cargo says.
    pub(super) fn programs(&self) -> Result<Vec<Program>, String> {
        let packages = PACKAGES.iter().flat_map(|package| ["-p", package]);
        let tests: Vec<&str> = ["test", "--no-run", "--lib", "--tests"].into_iter().chain(packages).collect();
        let models = ["test", "--no-run", "-p", "gpufs-core", "--test", "loom*"];
        let mut programs = self.built(&tests, false)?;
        programs.retain(|program| !program.name.contains("/loom"));
        programs.extend(self.built(&models, true)?);
        Ok(programs)
    }

    fn built(&self, arguments: &[&str], loom: bool) -> Result<Vec<Program>, String> {
        let output = self.cargo(arguments, loom).output().map_err(|error| format!("cargo: {error}"))?;
        if output.status.success() {
            return Ok(messages(&output.stdout).filter_map(|message| program(&message)).collect());
        }
        let said = messages(&output.stdout).filter_map(|message| Error::of(&message)).map(|error| error.said);
        let said: Vec<_> = said.take(5).collect();
        Err(said.join("\n") + &String::from_utf8_lossy(&output.stderr))
    }
}

fn messages(output: &[u8]) -> impl Iterator<Item = Value> {
    output.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
}

fn program(message: &Value) -> Option<Program> {
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let target = message["target"]["name"].as_str()?;
    message["profile"]["test"].as_bool()?.then(|| Program {
        name: format!("{package}/{target}"),
        path,
        folder,
    })
}

/// An error of the compiler, and where.
struct Error {
    file: String,
    bytes: Range<usize>,
    /// Where the last of what it advises to put there would stand.
    advice_end: usize,
    said: String,
}

impl Error {
    fn of(message: &Value) -> Option<Self> {
        let message = &message["message"];
        if message["level"].as_str()? != "error" {
            return None;
        }
        let spans = message["spans"].as_array()?;
        let span = spans.iter().find(|span| span["is_primary"] == true)?;
        let byte = |key: &str| usize::try_from(span[key].as_u64()?).ok();
        let advice = message["children"].as_array()?.iter().filter_map(|child| child["spans"].as_array());
        let ends = advice.flatten().filter(|advised| advised["file_name"] == span["file_name"]);
        let ends = ends.filter_map(|advised| usize::try_from(advised["byte_end"].as_u64()?).ok());
        Some(Self {
            file: span["file_name"].as_str()?.to_owned(),
            bytes: byte("byte_start")?..byte("byte_end")?,
            advice_end: ends.max().unwrap_or(0),
            said: message["rendered"].as_str().unwrap_or_default().to_owned(),
        })
    }
}
