//! Builds and runs loom's models over a copy of the core, or whole-stack tests over a copy of the workspace, for each mutant.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{fs, io, thread};

use super::apply::{Sources, apply};
use super::definition::Mutant;
use crate::workspace::{root, target_directory};

/// Seconds that a build and a run of models may take.
const LIMIT_SECONDS: u32 = 600;

/// How a mutant fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// As is expected.
    Expected,
    /// These models pass, and should not.
    Missed(Vec<String>),
    /// Nothing is said to catch it, and these models do.
    Caught(Vec<String>),
    /// It could not be tried.
    Broken(String),
}

/// Tries all of them, `jobs` at a time. Each is said as it ends.
pub(super) fn run(mutants: &[&Mutant], sources: &Sources, jobs: usize) -> Vec<Fate> {
    let next = Mutex::new(0);
    let fates = Mutex::new(vec![Fate::Broken("was not tried".to_owned()); mutants.len()]);
    thread::scope(|scope| {
        for job in 0..jobs.clamp(1, mutants.len().max(1)) {
            let (next, fates) = (&next, &fates);
            scope.spawn(move || {
                let mut workplaces = [None, None];
                loop {
                    let index = {
                        let mut next = next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        *next += 1;
                        *next - 1
                    };
                    let Some(mutant) = mutants.get(index) else { return };
                    let workplace = workplaces[usize::from(mutant.whole)]
                        .get_or_insert_with(|| Workplace::make(job, mutant.whole, sources));
                    let fate = match workplace {
                        Ok(workplace) => workplace.fate(mutant, sources).unwrap_or_else(Fate::Broken),
                        Err(error) => Fate::Broken(error.clone()),
                    };
                    println!("{}::{}: {}", mutant.test, mutant.name, said(&fate, mutant));
                    fates.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[index] = fate;
                }
            });
        }
    });
    fates.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A fate in words.
pub(super) fn said(fate: &Fate, mutant: &Mutant) -> String {
    match fate {
        Fate::Expected if mutant.caught.is_empty() => "no model catches it, as is expected".to_owned(),
        Fate::Expected => format!("caught by {}", mutant.caught.join(", ")),
        Fate::Missed(models) => format!("NOT CAUGHT by {}", models.join(", ")),
        Fate::Caught(models) => format!("CAUGHT by {}, where no model was expected to", models.join(", ")),
        Fate::Broken(why) => format!("BROKEN: {why}"),
    }
}

/// A copy of the core in a workspace of its own, or of the workspace.
struct Workplace {
    folder: PathBuf,
    whole: bool,
    /// What the sources are now, where they are changed.
    changed: Sources,
    /// Tests whose models pass without any mutant.
    sound: BTreeMap<String, Vec<String>>,
}

impl Workplace {
    fn make(job: usize, whole: bool, sources: &Sources) -> Result<Self, String> {
        let name = if whole { format!("whole-{job}") } else { job.to_string() };
        let folder = target_directory().join("mutants").join(name);
        let made = || -> io::Result<()> {
            if whole {
                return copy_workspace(&folder);
            }
            fs::create_dir_all(&folder)?;
            let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
            write(&folder.join("Cargo.toml"), &alone(&manifest))?;
            fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
            let _ = fs::remove_dir_all(folder.join("gpufs-core"));
            for (path, text) in sources.iter().filter(|(path, _)| path.starts_with("gpufs-core/")) {
                write(&folder.join(path), text)?;
            }
            Ok(())
        };
        made().map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { folder, whole, changed: Sources::new(), sound: BTreeMap::new() })
    }

    fn fate(&mut self, mutant: &Mutant, sources: &Sources) -> Result<Fate, String> {
        let changed = apply(mutant, sources)?;
        // What fails without the mutant says nothing.
        let known = self.sound.get(&mutant.test);
        if known.is_none_or(|known| self.whole && mutant.caught.iter().any(|test| !known.contains(test))) {
            self.become_of(&Sources::new(), sources)?;
            // Of whole-stack tests only those that are needed: the others take long.
            let needed: &[String] = if self.whole { &mutant.caught } else { &[] };
            let results = self.models(&mutant.test, needed)?;
            let failing: Vec<_> =
                results.iter().filter(|(_, passed)| !**passed).map(|(name, _)| name.as_str()).collect();
            if !failing.is_empty() {
                return Err(format!("without any mutant these models fail: {}", failing.join(", ")));
            }
            self.sound.entry(mutant.test.clone()).or_default().extend(results.into_keys());
        }
        let known = &self.sound[&mutant.test];
        if let Some(unknown) = mutant.caught.iter().find(|model| !known.contains(model)) {
            return Err(format!("{} has no model '{unknown}', but {}", mutant.test, known.join(", ")));
        }
        self.become_of(&changed, sources)?;
        let results = self.models(&mutant.test, &mutant.caught)?;
        let of = |wanted: bool| -> Vec<String> {
            results.iter().filter(|(_, passed)| **passed == wanted).map(|(name, _)| name.clone()).collect()
        };
        Ok(match (mutant.caught.is_empty(), of(true), of(false)) {
            (false, missed, _) if !missed.is_empty() => Fate::Missed(missed),
            (true, _, caught) if !caught.is_empty() => Fate::Caught(caught),
            _ => Fate::Expected,
        })
    }

    /// Changes the copy's sources, and changes back what the mutant before had changed.
    fn become_of(&mut self, changed: &Sources, sources: &Sources) -> Result<(), String> {
        let back = self
            .changed
            .keys()
            .filter(|path| !changed.contains_key(*path))
            .map(|path| (path, &sources[path]));
        for (path, text) in back.chain(changed) {
            let path = self.folder.join(path);
            write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        self.changed.clone_from(changed);
        Ok(())
    }

    /// Runs models of a test, or all; whether each passed.
    fn models(&self, test: &str, models: &[String]) -> Result<BTreeMap<String, bool>, String> {
        let build = self.cargo(test, &["--no-run".to_owned()])?;
        if !build.success {
            return Err(format!("it does not compile:\n{}", build.said));
        }
        let mut results = BTreeMap::new();
        let mut left = models.to_vec();
        // Ends: each round has at least one result more. A model that fails may end the program, and the others with it.
        loop {
            let mut arguments = vec!["--".to_owned(), "--exact".to_owned()];
            arguments.extend_from_slice(&left);
            let run = self.cargo(test, &arguments)?;
            let before = results.len();
            results.extend(run.said.lines().filter_map(result_of));
            left.retain(|model| !results.contains_key(model));
            if results.len() == before {
                let last: Vec<_> = run.said.lines().rev().take(10).collect();
                let last = last.into_iter().rev().collect::<Vec<_>>().join("\n");
                return Err(format!("no model of {test} ended within {LIMIT_SECONDS} s:\n{last}"));
            }
            if left.is_empty() {
                return Ok(results);
            }
        }
    }

    fn cargo(&self, test: &str, arguments: &[String]) -> Result<Said, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", &LIMIT_SECONDS.to_string()]).arg(cargo);
        if self.whole {
            command.args(["test", "-p", "gpufs-tests", "--test", test]).args(arguments);
        } else {
            command.args(["test", "-p", "gpufs-core", "--release", "--test", test]).args(arguments);
            command.env("RUSTFLAGS", "--cfg loom");
        }
        command.current_dir(&self.folder).env("RUST_BACKTRACE", "0");
        command.env("CARGO_TARGET_DIR", self.folder.join("target"));
        let output = command.output().map_err(|error| format!("cargo: {error}"))?;
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        Ok(Said { success: output.status.success(), said })
    }
}

struct Said {
    success: bool,
    said: String,
}

/// The name of a test and whether it passed, from a line of the test program.
fn result_of(line: &str) -> Option<(String, bool)> {
    // A model that panics in more than one of its threads ends the program before it can say so.
    if let Some((name, rest)) = line.strip_prefix("thread '").and_then(|rest| rest.split_once('\'')) {
        return rest.contains(" panicked at ").then(|| (name.to_owned(), false));
    }
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    // What a model prints may stand between.
    match (result.ends_with("ok"), result.ends_with("FAILED")) {
        (true, _) => Some((name.trim_end_matches(" - should panic").to_owned(), true)),
        (_, true) => Some((name.to_owned(), false)),
        _ => None,
    }
}

/// The workspace's manifest with the core as its only member.
fn alone(manifest: &str) -> String {
    let (before, rest) = manifest.split_once("members = [").unwrap_or((manifest, "]"));
    let (_, after) = rest.split_once(']').unwrap_or(("", ""));
    format!("{before}members = [\"gpufs-core\"]{after}")
}

/// Puts what git has of the workspace into a folder, where it has changed.
pub(super) fn copy_workspace(folder: &Path) -> io::Result<()> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()?;
    if !listed.status.success() {
        let said = String::from_utf8_lossy(&listed.stderr).into_owned();
        return Err(io::Error::other(format!("git ls-files: {said}")));
    }
    for path in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
        let (from, to) = (root().join(path), folder.join(path));
        // One that git has and that was removed.
        let Ok(bytes) = fs::read(&from) else { continue };
        if fs::read(&to).ok().as_ref() != Some(&bytes) {
            to.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(to, bytes)?;
        }
    }
    Ok(())
}

/// Writes a file, and the folders around it.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_what_a_test_program_says() {
        assert_eq!(result_of("test lap ... ok"), Some(("lap".to_owned(), true)));
        assert_eq!(result_of("test lap ... FAILED"), Some(("lap".to_owned(), false)));
        assert_eq!(
            result_of("thread 'lap' (153) panicked at src/a.rs:2:1:"),
            Some(("lap".to_owned(), false))
        );
        assert_eq!(result_of("test result: ok. 1 passed"), None);
        assert_eq!(result_of("running 2 tests"), None);
    }

    #[test]
    fn the_core_is_alone_in_its_workspace() {
        let manifest = "[workspace]\nmembers = [\n    \"bench\",\n]\n\n[workspace.lints]\n";
        assert_eq!(alone(manifest), "[workspace]\nmembers = [\"gpufs-core\"]\n\n[workspace.lints]\n");
    }
}
