//! Unsafe blocks with more than one operation, as clippy finds them, are counted by file.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;

/// What clippy says of such a block, in its short form: `path:line:column: warning: this `unsafe` block contains 2 …`.
const SAYS: &str = ": warning: this `unsafe` block contains ";

/// The files that `lines` of clippy's name, with the number of their blocks.
pub(super) fn check(lines: &[String]) -> Vec<Finding> {
    let mut blocks: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for line in lines {
        let place = line.split_once(SAYS).and_then(|(place, _)| place.split_once(':'));
        let Some((path, line)) = place else { continue };
        let number: Option<usize> = line.split(':').next().and_then(|number| number.parse().ok());
        // A library is looked at again for its own tests: a place counts once.
        blocks.entry(path).or_default().extend(number);
    }
    let finding = |(path, lines): (&str, BTreeSet<usize>)| {
        let advice = format!(
            "has {} unsafe blocks with more than one operation: one block for each, with its own SAFETY",
            lines.len()
        );
        let first = lines.first().copied().unwrap_or(1);
        Finding::of("unsafe-block", path.to_owned(), lines.len(), path, first, advice)
    };
    blocks.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_once_by_file() {
        let block = |place: &str| {
            format!("{place}: warning: this `unsafe` block contains 2 unsafe operations, expected only one")
        };
        let lines =
            [block("a/src/b.rs:4:5"), block("a/src/b.rs:4:5"), block("a/src/b.rs:9:1"), block("c.rs:1:1")];
        let other = ["    Checking a v0.1.0".to_owned(), "a.rs:1:1: warning: unused".to_owned()];
        let found = check(&[&lines[..], &other].concat());
        let counts: Vec<_> = found.iter().map(|found| (&*found.subject, found.amount, &*found.at)).collect();
        assert_eq!(counts, [("a/src/b.rs", 2, "a/src/b.rs:4"), ("c.rs", 1, "c.rs:1")]);
    }
}
