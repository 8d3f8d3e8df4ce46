//! Mutants of the core: each change that a table of the loom tests says a model catches is made in a copy of the core, and the model must fail.
//!
//! | file | what |
//! |---|---|
//! | `definition.rs` | the files in `gpufs-core/tests/mutants`: one for each loom test |
//! | `apply.rs` | puts a mutant into the sources |
//! | `run.rs` | builds and runs the models |
//!
//! That a mutant's text still stands where it says is checked with each `tidy`, in no time; that models catch it, at night.

mod apply;
mod definition;
mod run;

use std::fs;
use std::path::Path;

use crate::step::{self, Report};
use crate::workspace::root;
use apply::{Sources, apply};
use definition::Mutant;
use run::Fate;

const DEFINITIONS: &str = "gpufs-core/tests/mutants";

/// Each mutant can be made, and is of a row of its test's table.
pub(crate) fn check_definitions() -> Report {
    step::in_process("mutants can be made", || {
        let (mutants, sources) = read()?;
        let mut wrong = Vec::new();
        for mutant in &mutants {
            let Mutant { test, name, row, .. } = mutant;
            if let Err(why) = apply(mutant, &sources) {
                wrong.push(format!("{DEFINITIONS}/{test}.txt: {name}: {why}"));
            }
            if !rows(test, &sources).iter().any(|(text, _)| text.starts_with(row)) {
                wrong.push(format!(
                    "{DEFINITIONS}/{test}.txt: {name}: the table of tests/{test}.rs has no row '{row}'"
                ));
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
    collect(&root().join("gpufs-core"), "", &mut sources).map_err(|error| format!("gpufs-core: {error}"))?;
    Ok((definition::read(&root().join(DEFINITIONS))?, sources))
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
    let text = sources.get(&format!("tests/{test}.rs")).map_or("", String::as_str);
    let rows = text.lines().filter_map(|line| {
        let (change, models) = line.strip_prefix("//! | ")?.strip_suffix(" |")?.rsplit_once(" | ")?;
        (change != "mutation").then_some((change, models))
    });
    rows.collect()
}

/// Rows of the tables that no mutant is of.
fn without_mutant<'a>(mutants: &[Mutant], sources: &'a Sources) -> Vec<(&'a str, &'a str)> {
    let tests = sources.keys().filter_map(|path| path.strip_prefix("tests/")?.strip_suffix(".rs"));
    let has = |test: &str, row: &str| {
        mutants.iter().any(|mutant| mutant.test == test && row.starts_with(&mutant.row))
    };
    tests
        .flat_map(|test| rows(test, sources).into_iter().map(move |(row, _)| (test, row)))
        .filter(|(test, row)| test.starts_with("loom") && !has(test, row))
        .collect()
}
