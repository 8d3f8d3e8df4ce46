//! The mutants that cargo-mutants makes, as it lists them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Genre {
    /// The body of a function, by a value.
    FnValue,
    /// A binary operator, by another.
    BinaryOperator,
    /// A unary operator, by nothing.
    UnaryOperator,
    /// An arm of a match, by nothing.
    MatchArm,
    /// The guard of an arm, by `true` or `false`.
    MatchArmGuard,
    /// A field of a structure's expression that has a base, by the base's.
    StructField,
}

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Mutant {
    /// File, line, column, and what is done, in cargo-mutants' words.
    pub(super) name: String,
    pub(super) file: String,
    pub(super) genre: Genre,
    pub(super) replacement: String,
    /// Lines and columns, counted from one: of its first character, and past its last.
    span: [(usize, usize); 2],
    /// As cargo-mutants lists it.
    pub(super) listed: Value,
}

impl Mutant {
    /// One that has no name and no file, for tests of where it is put.
    #[cfg(test)]
    pub(super) fn new(genre: Genre, replacement: &str, span: [(usize, usize); 2]) -> Self {
        let (name, file, replacement) = (String::new(), String::new(), replacement.to_owned());
        Self { name, file, genre, replacement, span, listed: Value::Null }
    }
    /// The bytes of its file's text that it replaces.
    pub(super) fn range(&self, lines: &Lines) -> Range<usize> {
        let [start, end] = self.span.map(|(line, column)| lines.offset(line, column));
        start..end
    }
    /// The line that it begins in.
    pub(super) const fn line(&self) -> usize {
        self.span[0].0
    }
}

/// Where the lines of a text begin.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }
    /// The byte of a line's column, which counts characters.
    fn offset(&self, line: usize, column: usize) -> usize {
        let start = self.starts.get(line - 1).copied().unwrap_or(self.text.len());
        let rest = &self.text[start..];
        start + rest.char_indices().nth(column - 1).map_or(rest.len(), |(at, _)| at)
    }
}

/// Those of these files, or of the core and the device crate.
///
/// # Errors
/// What the tool says.
pub(super) fn list(program: &Path, files: &[String], root: &Path) -> Result<Vec<Mutant>, String> {
    let mut command = Command::new(program);
    command.args(["mutants", "--list", "--json", "--colors", "never"]).current_dir(root);
    if files.is_empty() {
        command.args(["--package", "gpufs-core", "--package", "gpufs-device"]);
    }
    for file in files {
        command.args(["--file", file]);
    }
    let listed = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    if !listed.status.success() {
        return Err(String::from_utf8_lossy(&listed.stderr).into_owned());
    }
    read(&String::from_utf8_lossy(&listed.stdout))
}

fn read(text: &str) -> Result<Vec<Mutant>, String> {
    let all: Vec<Value> =
        serde_json::from_str(text).map_err(|error| format!("cargo-mutants' list: {error}"))?;
    all.iter().map(|one| mutant(one).ok_or_else(|| format!("cargo-mutants' list has {one}"))).collect()
}

/// One of cargo-mutants' list.
pub(super) fn mutant(value: &Value) -> Option<Mutant> {
    let text = |key: &str| Some(value[key].as_str()?.to_owned());
    let position = |end: &str| {
        let part = |key: &str| usize::try_from(value["span"][end][key].as_u64()?).ok();
        Some((part("line")?, part("column")?))
    };
    let genre = match value["genre"].as_str()? {
        "FnValue" => Genre::FnValue,
        "BinaryOperator" => Genre::BinaryOperator,
        "UnaryOperator" => Genre::UnaryOperator,
        "MatchArm" => Genre::MatchArm,
        "MatchArmGuard" => Genre::MatchArmGuard,
        "StructField" => Genre::StructField,
        _ => return None,
    };
    let span = [position("start")?, position("end")?];
    let (name, replacement, listed) = (text("name")?, text("replacement")?, value.clone());
    Some(Mutant { name, file: text("file")?, genre, replacement, span, listed })
}

/// So many of each file: those whose hash with the seed is smallest, so that a longer list changes little of what is chosen.
pub(super) fn sample(all: Vec<Mutant>, each: usize, seed: u64) -> Vec<Mutant> {
    let mut files: BTreeMap<String, Vec<(u64, Mutant)>> = BTreeMap::new();
    for mutant in all {
        files.entry(mutant.file.clone()).or_default().push((hash(&mutant.name, seed), mutant));
    }
    let mut chosen = Vec::new();
    for mut of_file in files.into_values() {
        of_file.sort_by_key(|(hash, _)| *hash);
        chosen.extend(of_file.into_iter().take(each).map(|(_, mutant)| mutant));
    }
    chosen
}

/// FNV-1a.
fn hash(text: &str, seed: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    text.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mutant of this file and line, whose other parts do not matter.
    fn of(file: &str, line: usize) -> Mutant {
        let (name, file) = (format!("{file}:{line}:1: replace + with -"), file.to_owned());
        let span = [(line, 1), (line, 2)];
        let listed = Value::Null;
        Mutant { name, file, genre: Genre::BinaryOperator, replacement: "-".to_owned(), span, listed }
    }

    #[test]
    fn a_sample_is_of_each_file_and_follows_from_the_seed() {
        let all = || (1..=50).map(|line| of("a.rs", line)).chain((1..=3).map(|line| of("b.rs", line)));
        let chosen = |seed| {
            let names = sample(all().collect(), 10, seed).into_iter().map(|mutant| mutant.name);
            names.collect::<Vec<_>>()
        };
        let one = chosen(1);
        assert_eq!(one, chosen(1));
        assert_ne!(one, chosen(2));
        let of = |file: &str| one.iter().filter(|name| name.starts_with(file)).count();
        assert_eq!((of("a.rs"), of("b.rs")), (10, 3));
    }

    #[test]
    fn columns_count_characters() {
        let text = "a\n é + b\n";
        let lines = Lines::of(text);
        assert_eq!(&text[lines.offset(2, 4)..lines.offset(2, 5)], "+");
        assert_eq!(lines.offset(3, 1), text.len());
    }

    #[test]
    fn what_is_listed_is_read() {
        let json = r#"[{"name": "a.rs:1:3: replace + with -", "file": "a.rs", "genre": "BinaryOperator", "replacement": "-",
            "span": {"start": {"line": 1, "column": 3}, "end": {"line": 1, "column": 4}}}]"#;
        let all = read(json).expect("it is as cargo-mutants writes it");
        assert_eq!(all[0].range(&Lines::of("a + b")), 2..3);
        assert!(read(&json.replace("BinaryOperator", "Other")).is_err());
    }
}
