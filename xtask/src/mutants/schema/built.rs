//! What was built: kept in a file, which the trials read.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::build::Program;
use super::listed::{Mutant, mutant};
use crate::workspace::target_directory;

/// The programs, and the mutants that they have.
pub(super) struct Built {
    /// Those that are counted at the end.
    pub(super) chosen: Vec<Mutant>,
    /// Those that are in the programs, by their numbers.
    pub(super) mutants: Vec<Mutant>,
    /// The numbers of those that do not compile.
    pub(super) without: BTreeSet<u32>,
    pub(super) programs: Vec<Program>,
}

fn path() -> PathBuf {
    target_directory().join("mutants/built.json")
}

impl Built {
    /// Notes it.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub(super) fn write(&self) -> Result<(), String> {
        let listed = |mutants: &[Mutant]| mutants.iter().map(|one| one.listed.clone()).collect::<Value>();
        let programs = self
            .programs
            .iter()
            .map(|Program { name, path, folder }| json!({ "name": name, "path": path, "folder": folder }));
        let all = json!({
            "chosen": listed(&self.chosen),
            "mutants": listed(&self.mutants),
            "without": self.without.iter().collect::<Vec<_>>(),
            "programs": programs.collect::<Value>(),
        });
        fs::write(path(), all.to_string()).map_err(|error| format!("{}: {error}", path().display()))
    }

    /// What was noted.
    ///
    /// # Errors
    /// Where nothing was, or not this.
    pub(super) fn read() -> Result<Self, String> {
        let text = fs::read_to_string(path())
            .map_err(|error| format!("{}: {error}; --build-only makes it", path().display()))?;
        Self::of(&text).ok_or_else(|| format!("{} is not what this writes", path().display()))
    }

    fn of(text: &str) -> Option<Self> {
        let all: Value = serde_json::from_str(text).ok()?;
        let listed = |key: &str| all[key].as_array()?.iter().map(mutant).collect::<Option<Vec<_>>>();
        let program = |value: &Value| {
            let text = |key: &str| value[key].as_str();
            Some(Program {
                name: text("name")?.to_owned(),
                path: text("path")?.into(),
                folder: text("folder")?.into(),
            })
        };
        let number = |value: &Value| u32::try_from(value.as_u64()?).ok();
        Some(Self {
            chosen: listed("chosen")?,
            mutants: listed("mutants")?,
            without: all["without"].as_array()?.iter().map(number).collect::<Option<_>>()?,
            programs: all["programs"].as_array()?.iter().map(program).collect::<Option<_>>()?,
        })
    }
}
