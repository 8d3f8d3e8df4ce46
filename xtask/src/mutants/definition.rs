//! What the files of `gpufs-core/tests/mutants` and `tests/mutants` say.
//!
//! ```text
//! mutant NAME
//! row    the row of the loom test's table that it is of, or its beginning; of a mutant for whole-stack tests, what is wrong with it
//! caught the models, or the tests, that catch it; or none
//! in     FUNCTION [end of the file's path]
//! -      what stands there once
//! +      what is put in its place
//! ```
//!
//! `in`, `-` and `+` may be repeated. Text is compared word by word: neither spaces, line breaks nor comments count.

use std::fs;
use std::path::Path;

/// A change of one place.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) function: String,
    /// How the path of the file ends; empty if that does not matter.
    pub(super) file: String,
    pub(super) old: String,
    pub(super) new: String,
}

/// A mutant, and what is expected of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Mutant {
    pub(super) name: String,
    /// The loom test whose table it is of, such as `loom_journal`, or the whole-stack test that catches it.
    pub(super) test: String,
    /// Whole-stack tests are to catch it.
    pub(super) whole: bool,
    pub(super) row: String,
    /// Models that catch it.
    pub(super) caught: Vec<String>,
    pub(super) changes: Vec<Change>,
}

/// Reads all files of `folder`, whose mutants are for whole-stack tests if `whole`.
pub(super) fn read(folder: &Path, whole: bool) -> Result<Vec<Mutant>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut mutants = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let test = path.file_stem().unwrap_or_default().to_string_lossy();
        let of_file = parse(&text, &test).map_err(|why| format!("{}:{why}", path.display()))?;
        mutants.extend(of_file.into_iter().map(|mutant| Mutant { whole, ..mutant }));
    }
    Ok(mutants)
}

/// Reads one file's text. The error begins with the line.
pub(super) fn parse(text: &str, test: &str) -> Result<Vec<Mutant>, String> {
    let mut mutants: Vec<Mutant> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        if word == "mutant" {
            let mutant = Mutant { name: rest.to_owned(), test: test.to_owned(), ..Mutant::default() };
            if mutants.iter().any(|known| known.name == mutant.name) {
                return Err(format!("{number}: there is a mutant {rest} before"));
            }
            mutants.push(mutant);
            continue;
        }
        let Some(mutant) = mutants.last_mut() else {
            return Err(format!("{number}: '{word}' before any mutant"));
        };
        match (word, mutant.changes.last_mut()) {
            ("row", _) => rest.clone_into(&mut mutant.row),
            ("caught", _) => {
                mutant.caught =
                    rest.split_whitespace().filter(|name| *name != "none").map(str::to_owned).collect();
            }
            ("in", _) => {
                let (function, file) = rest.split_once(' ').unwrap_or((rest, ""));
                let (function, file) = (function.to_owned(), file.to_owned());
                mutant.changes.push(Change { function, file, ..Change::default() });
            }
            ("-", Some(change)) => add_line(&mut change.old, rest),
            ("+", Some(change)) => add_line(&mut change.new, rest),
            _ => {
                return Err(format!(
                    "{number}: '{word}' is none of mutant, row, caught, in, -, +, or stands before 'in'"
                ));
            }
        }
    }
    match mutants
        .iter()
        .find(|mutant| mutant.row.is_empty() || mutant.changes.iter().all(|change| change.old.is_empty()))
    {
        Some(mutant) => Err(format!("0: mutant {} has no row, or changes nothing", mutant.name)),
        None => Ok(mutants),
    }
}

fn add_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
