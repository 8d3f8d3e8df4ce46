//! Mutants: each change that a table of the loom tests says a model catches is made in a copy of the core, and the model must fail; each of
//! those that name a whole-stack test, in a copy of the workspace.
//!
//! | file | what |
//! |---|---|
//! | `definition.rs` | the files in `gpufs-core/tests/mutants`, one for each loom test, and in `tests/mutants`, one for each whole-stack test |
//! | `apply.rs` | puts a mutant into the sources |
//! | `run.rs` | builds and runs the models and tests |
//! | `schema` | all mutants that cargo-mutants makes, or some, in one build |
//!
//! That a mutant's text still stands where it says is checked with each `tidy`, in no time; that models catch it, at night.

mod apply;
mod definition;
mod run;
mod schema;

use std::fs;
use std::path::Path;

use crate::step::{self, Report};
use crate::workspace::root;
use apply::{Sources, apply};
use definition::Mutant;
use run::Fate;
pub(crate) use schema::run as all_code;
pub(crate) use schema::{Chosen, Part};

/// Where the definitions are: for loom's models, and for whole-stack tests.
const DEFINITIONS: [(&str, bool); 2] = [("gpufs-core/tests/mutants", false), ("tests/mutants", true)];
/// What has sources that mutants change, or tables.
const SOURCES: [&str; 4] = ["gpufs-core", "gpufs-device/src", "gpufs-host/src", "tests/tests"];

/// Each mutant can be made, and is of a row of its test's table.
pub(crate) fn check_definitions() -> Report {
    step::in_process("mutants can be made", || {
        let (mutants, sources) = read()?;
        let mut wrong = Vec::new();
        for mutant in &mutants {
            let Mutant { test, name, row, caught, whole, .. } = mutant;
            let folder = DEFINITIONS[usize::from(*whole)].0;
            let mut note = |why: String| wrong.push(format!("{folder}/{test}.txt: {name}: {why}"));
            if let Err(why) = apply(mutant, &sources) {
                note(why);
            }
            if *whole {
                let text = sources.get(&format!("tests/tests/{test}.rs")).map_or("", String::as_str);
                for missing in caught.iter().filter(|name| !text.contains(&format!("fn {name}("))) {
                    note(format!("tests/tests/{test}.rs has no test {missing}"));
                }
            } else if !rows(test, &sources).iter().any(|(text, _)| text.starts_with(row)) {
                note(format!("the table of tests/{test}.rs has no row '{row}'"));
            }
        }
        for line in &wrong {
            println!("{line}");
        }
        let count = wrong.len();
        if count == 0 {
            Ok(())
        } else {
            Err(format!("{count} definitions are out of date; each is named above"))
        }
    })
}

/// Tries the mutants whose names, with their tests', have one of `only` in them, or all; whether each fared as it says.
pub(crate) fn run(only: &[String], jobs: usize) -> Report {
    step::in_process("mutants", || {
        let (all, sources) = read()?;
        let full = |mutant: &Mutant| format!("{}::{}", mutant.test, mutant.name);
        let chosen: Vec<_> = all
            .iter()
            .filter(|mutant| only.is_empty() || only.iter().any(|part| full(mutant).contains(part)))
            .collect();
        if chosen.is_empty() {
            let names: Vec<_> = all.iter().map(full).collect();
            return Err(format!("there is no mutant {}; there are\n{}", only.join(", "), names.join("\n")));
        }
        let fates = run::run(&chosen, &sources, jobs);
        println!("\n{:<48} fate", "mutant");
        for (mutant, fate) in chosen.iter().zip(&fates) {
            println!("{:<48} {}", full(mutant), run::said(fate, mutant).lines().next().unwrap_or_default());
        }
        if only.is_empty() {
            for (test, row) in without_mutant(&all, &sources) {
                println!("no mutant yet: {test}: {row}");
            }
        }
        let wrong = fates.iter().filter(|fate| **fate != Fate::Expected).count();
        if wrong == 0 {
            Ok(())
        } else {
            Err(format!("{wrong} of {} fared otherwise than they say", fates.len()))
        }
    })
}

fn read() -> Result<(Vec<Mutant>, Sources), String> {
    let mut sources = Sources::new();
    for folder in SOURCES {
        collect(&root().join(folder), &format!("{folder}/"), &mut sources)
            .map_err(|error| format!("{folder}: {error}"))?;
    }
    let mut mutants = Vec::new();
    for (folder, whole) in DEFINITIONS {
        mutants.extend(definition::read(&root().join(folder), whole)?);
    }
    Ok((mutants, sources))
}

/// Adds the files of a folder and of those in it.
fn collect(folder: &Path, prefix: &str, sources: &mut Sources) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = format!("{prefix}{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            collect(&path, &format!("{name}/"), sources)?;
        } else if let Ok(text) = fs::read_to_string(&path) {
            sources.insert(name, text);
        }
    }
    Ok(())
}

/// The table in a loom test: what is changed, and the models that catch it.
fn rows<'a>(test: &str, sources: &'a Sources) -> Vec<(&'a str, &'a str)> {
    let text = sources.get(&format!("gpufs-core/tests/{test}.rs")).map_or("", String::as_str);
    let rows = text.lines().filter_map(|line| {
        let (change, models) = line.strip_prefix("//! | ")?.strip_suffix(" |")?.rsplit_once(" | ")?;
        (change != "mutation").then_some((change, models))
    });
    rows.collect()
}

/// Rows of the tables that no mutant is of.
fn without_mutant<'a>(mutants: &[Mutant], sources: &'a Sources) -> Vec<(&'a str, &'a str)> {
    let tests = sources.keys().filter_map(|path| path.strip_prefix("gpufs-core/tests/")?.strip_suffix(".rs"));
    let has = |test: &str, row: &str| {
        mutants.iter().any(|mutant| mutant.test == test && row.starts_with(&mutant.row))
    };
    tests
        .flat_map(|test| rows(test, sources).into_iter().map(move |(row, _)| (test, row)))
        .filter(|(test, row)| test.starts_with("loom") && !has(test, row))
        .collect()
}
