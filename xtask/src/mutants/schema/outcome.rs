//! What is known of each mutant: kept in a file as it becomes known, counted at the end, and compared with those that are explained.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

use super::listed::Mutant;
use super::trial::Fate;
use crate::workspace::{root, target_directory};

/// Survivors that are explained.
const EXPLAINED: &str = "xtask/mutants/explained.txt";
/// The first word of a survivor's fate.
const SURVIVED: &str = "SURVIVED";

/// The fates, as words.
pub(super) struct Outcomes {
    chosen: Vec<Mutant>,
    /// By names.
    known: BTreeMap<String, String>,
    file: File,
}

impl Outcomes {
    /// Those of an earlier run, or none.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub(super) fn open(chosen: Vec<Mutant>, resume: bool) -> Result<Self, String> {
        let path = target_directory().join("mutants/outcomes.txt");
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        let text = if resume { fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
        let known = text
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .map(|(fate, name)| (name.to_owned(), fate.to_owned()))
            .collect();
        let mut options = OpenOptions::new();
        // What is appended holds.
        let file = options.create(true).append(true).open(&path).map_err(failed)?;
        if !resume {
            file.set_len(0).map_err(failed)?;
        }
        Ok(Self { chosen, known, file })
    }

    /// Those of which nothing is known, or that survived: there may be a test since.
    pub(super) fn left(&self) -> Vec<Mutant> {
        let is_left = |mutant: &&Mutant| {
            self.known
                .get(&mutant.name)
                .is_none_or(|words| words.starts_with(SURVIVED) && !is_explained(mutant))
        };
        self.chosen.iter().filter(is_left).cloned().collect()
    }

    /// A mutant's fate; `None` where it does not compile.
    pub(super) fn tell(&mut self, mutant: &Mutant, fate: Option<&Fate>) {
        let words = match fate {
            None => "not compiled".to_owned(),
            Some(Fate::Unreached) => "unreached".to_owned(),
            Some(Fate::Caught(test)) => format!("caught by {test}"),
            Some(Fate::Hung(test)) => format!("hung in {test}"),
            Some(Fate::Survived(passed, of)) => format!("{SURVIVED} {passed} of {of}"),
        };
        // The run goes on without the file.
        let _ = writeln!(self.file, "{words}\t{}", mutant.name);
        if matches!(fate, Some(Fate::Survived(..))) {
            println!("{words}: {}", mutant.name);
        }
        self.known.insert(mutant.name.clone(), words);
    }

    /// Counts them.
    ///
    /// # Errors
    /// Where some survived that are not explained.
    pub(super) fn summary(&self) -> Result<(), String> {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        let mut left = Vec::new();
        for mutant in &self.chosen {
            let words = self.known.get(&mutant.name).map_or("not tried", String::as_str);
            let kinds = ["caught", "hung", "unreached", "not compiled", "not tried"];
            let kind = kinds.into_iter().find(|kind| words.starts_with(kind)).unwrap_or_else(|| {
                if is_explained(mutant) {
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

/// Whether [`EXPLAINED`] says why no test can tell it from the code.
fn is_explained(mutant: &Mutant) -> bool {
    let explained = fs::read_to_string(root().join(EXPLAINED)).unwrap_or_default();
    let text = fs::read_to_string(root().join(&mutant.file)).unwrap_or_default();
    let line = text.lines().nth(mutant.line() - 1).unwrap_or_default().trim();
    let done = mutant.name.splitn(4, ':').nth(3).unwrap_or_default().trim();
    explains(&explained, &mutant.file, line, done)
}

/// Whether a block of the text, which an empty line ends, has this file, this line, and what is done among its mutants, and says why.
fn explains(text: &str, file: &str, line: &str, done: &str) -> bool {
    text.split("\n\n").any(|block| {
        let of = |word: &str, value: &str| {
            block
                .lines()
                .any(|line| line.split_once(' ').is_some_and(|(known, rest)| known == word && rest == value))
        };
        of("file", file)
            && of("line", line)
            && of("mutant", done)
            && block.lines().any(|line| line.starts_with("why "))
    })
}

#[cfg(test)]
mod tests {
    use super::explains;

    #[test]
    fn an_explanation_is_of_one_line() {
        let text = "# Of a.rs\nfile a.rs\nline a | b\nmutant replace | with ^ in f\nmutant replace | with & in f\nwhy bits apart\n\n\
                    file b.rs\nline c\nmutant delete ! in g\n";
        assert!(explains(text, "a.rs", "a | b", "replace | with ^ in f"));
        assert!(explains(text, "a.rs", "a | b", "replace | with & in f"));
        assert!(!explains(text, "a.rs", "a | c", "replace | with ^ in f"));
        assert!(!explains(text, "b.rs", "a | b", "replace | with ^ in f"));
        assert!(!explains(text, "b.rs", "c", "delete ! in g"), "it does not say why");
    }
}
