//! What is known of each mutant: kept in a file as it becomes known, counted at the end, and compared with those that are explained.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

use super::listed::Mutant;
use super::trial::Fate;
use crate::workspace::{root, target_directory};

/// Survivors that are explained: `file | what is done | the line | why no test can tell`.
const EXPLAINED: &str = "xtask/mutants/explained.txt";

/// The fates, as words.
pub(super) struct Outcomes<'a> {
    mutants: &'a [Mutant],
    known: BTreeMap<u32, String>,
    file: File,
}

impl<'a> Outcomes<'a> {
    /// None yet, or those of an earlier run.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub(super) fn open(mutants: &'a [Mutant], resume: bool) -> Result<Self, String> {
        let path = target_directory().join("mutants/outcomes.txt");
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        let mut known = BTreeMap::new();
        if resume {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let told: BTreeMap<&str, &str> = text
                .lines()
                .filter_map(|line| line.split_once('\t'))
                .map(|(fate, name)| (name, fate))
                .collect();
            for (number, mutant) in (0..).zip(mutants) {
                if let Some(fate) = told.get(mutant.name.as_str()) {
                    known.insert(number, (*fate).to_owned());
                }
            }
        }
        let mut options = OpenOptions::new();
        let file = options.create(true).append(resume).write(true).truncate(!resume).open(&path);
        Ok(Self { mutants, known, file: file.map_err(failed)? })
    }

    /// A mutant's fate; `None` where it does not compile.
    pub(super) fn tell(&mut self, number: u32, fate: Option<&Fate>) {
        let words = match fate {
            None => "not compiled".to_owned(),
            Some(Fate::Unreached) => "unreached".to_owned(),
            Some(Fate::Caught(test)) => format!("caught by {test}"),
            Some(Fate::Hung(test)) => format!("hung in {test}"),
            Some(Fate::Survived(passed, of)) => format!("SURVIVED {passed} of {of}"),
        };
        let name = &self.mutants[number as usize].name;
        // The run goes on without the file.
        let _ = writeln!(self.file, "{words}\t{name}");
        if matches!(fate, Some(Fate::Survived(..))) {
            println!("{words}: {name}");
        }
        self.known.insert(number, words);
    }

    /// Those of which nothing is known.
    pub(super) fn untold(&self) -> Vec<u32> {
        (0..)
            .zip(self.mutants)
            .map(|(number, _)| number)
            .filter(|number| !self.known.contains_key(number))
            .collect()
    }

    /// Counts them.
    ///
    /// # Errors
    /// Where some survived that are not explained.
    pub(super) fn summary(&self) -> Result<(), String> {
        let explained = fs::read_to_string(root().join(EXPLAINED)).unwrap_or_default();
        let explained: Vec<Vec<&str>> = explained
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split(" | ").collect())
            .collect();
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        let mut left = Vec::new();
        for (number, words) in &self.known {
            let mutant = &self.mutants[*number as usize];
            let kind = ["caught", "hung", "unreached", "not compiled"]
                .into_iter()
                .find(|kind| words.starts_with(kind));
            let kind = kind.unwrap_or_else(|| {
                if is_explained(mutant, &explained) {
                    return "survived, explained";
                }
                left.push(format!("{words}: {}", mutant.name));
                "survived, not explained"
            });
            *counts.entry(kind).or_default() += 1;
        }
        println!("\n{:<28} mutants", "fate");
        for (kind, count) in &counts {
            println!("{kind:<28} {count:>7}");
        }
        for survivor in &left {
            println!("{survivor}");
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{} survived that {EXPLAINED} does not explain", left.len()))
        }
    }
}

fn is_explained(mutant: &Mutant, explained: &[Vec<&str>]) -> bool {
    let text = fs::read_to_string(root().join(&mutant.file)).unwrap_or_default();
    let line = text.lines().nth(mutant.line() - 1).unwrap_or_default().trim();
    let done = mutant.name.splitn(4, ':').nth(3).unwrap_or_default().trim();
    explained.iter().any(|fields| fields.len() == 4 && fields[..3] == [mutant.file.as_str(), done, line])
}
