//! Some of the mutants that `cargo mutants` makes of files: so many of each file, chosen by a seed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::workspace::root;

/// The names of so many mutants of each file.
///
/// # Errors
/// What the tool says.
pub(super) fn of(program: &Path, files: &[&str], each: usize, seed: u64) -> Result<Vec<String>, String> {
    let mut command = Command::new(program);
    command.args(["mutants", "--list", "--colors", "never"]).current_dir(root());
    for file in files {
        command.args(["--file", file]);
    }
    let listed = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    if !listed.status.success() {
        return Err(String::from_utf8_lossy(&listed.stderr).into_owned());
    }
    Ok(chosen(&String::from_utf8_lossy(&listed.stdout), each, seed))
}

/// So many lines of each file: those whose hash with the seed is smallest, so that a longer list changes little of what is chosen.
fn chosen(listed: &str, each: usize, seed: u64) -> Vec<String> {
    let mut files: BTreeMap<&str, Vec<(u64, &str)>> = BTreeMap::new();
    for line in listed.lines() {
        if let Some((file, _)) = line.split_once(':') {
            files.entry(file).or_default().push((hash(line, seed), line));
        }
    }
    let mut names = Vec::new();
    for of_file in files.values_mut() {
        of_file.sort_unstable();
        names.extend(of_file.iter().take(each).map(|(_, line)| (*line).to_owned()));
    }
    names
}

/// FNV-1a.
fn hash(text: &str, seed: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    text.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// A regular expression of this name alone.
pub(super) fn exactly(name: &str) -> String {
    let escaped: String = name
        .chars()
        .flat_map(|letter| {
            let special = "\\.+*?()|[]{}^$#&-~/<>".contains(letter) && !"/<>".contains(letter);
            special.then_some('\\').into_iter().chain([letter])
        })
        .collect();
    format!("^{escaped}$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_of_each_file_and_follows_from_the_seed() {
        let listed: String = (0..50)
            .map(|line| format!("a.rs:{line}:1: replace x\n"))
            .chain((0..3).map(|line| format!("b.rs:{line}:1: replace + with -\n")))
            .collect();
        let one = chosen(&listed, 10, 1);
        assert_eq!(one, chosen(&listed, 10, 1));
        assert_ne!(one, chosen(&listed, 10, 2));
        let of = |file: &str| one.iter().filter(|name| name.starts_with(file)).count();
        assert_eq!((of("a.rs"), of("b.rs")), (10, 3));
    }

    #[test]
    fn a_name_matches_itself_alone() {
        assert_eq!(exactly("a.rs:1: replace + with -"), "^a\\.rs:1: replace \\+ with \\-$");
        assert_eq!(exactly("Option<u32>"), "^Option<u32>$");
    }
}
