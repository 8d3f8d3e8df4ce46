//! What is expected to fail, and the table of a run.

use std::collections::BTreeMap;
use std::fs;

use super::attempt::Ended;
use super::ours;
use super::suites::Program;

/// What the reason begins with where a test fails now and then.
const SOMETIMES: &str = "sometimes: ";

/// Tests that are expected to fail, and why. One whose reason begins with [`SOMETIMES`] may pass as well.
#[derive(Debug, Default)]
pub(crate) struct Expected(BTreeMap<String, String>);

impl Expected {
    /// Reads `tests/conformance/expected.txt`: a name and a reason on each line. Lines that begin with `#` are comments.
    pub(crate) fn read() -> Result<Self, String> {
        let path = ours().join("expected.txt");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let pairs = lines.map(|line| {
            let (name, reason) =
                line.split_once(' ').ok_or_else(|| format!("expected.txt: {line}: no reason"))?;
            Ok((name.to_owned(), reason.trim().to_owned()))
        });
        Ok(Self(pairs.collect::<Result<_, String>>()?))
    }

    /// Whether a test stands there.
    pub(crate) fn names(&self, test: &str) -> bool {
        self.0.contains_key(test)
    }
}

/// Prints a line for each test that did not simply pass, and the sums. Whether all ended as expected.
pub(crate) fn print(programs: &[Program], ends: &[Ended], expected: &Expected, whole: bool) -> bool {
    let (mut passed, mut unsupported, mut known, mut wrong) = (0, 0, 0, 0);
    let mut unseen: BTreeMap<_, _> = expected.0.iter().collect();
    for (program, ended) in programs.iter().zip(ends) {
        let reason = expected.0.get(&program.name);
        unseen.remove(&program.name);
        match (ended, reason) {
            (Ended::Passed, None) => passed += 1,
            (Ended::Passed, Some(reason)) if reason.starts_with(SOMETIMES) => passed += 1,
            (Ended::Unsupported, _) => {
                println!("{:<46} UNSUPPORTED by its own word", program.name);
                unsupported += 1;
            }
            (Ended::Passed, Some(_)) => {
                println!("{:<46} PASSES, and expected.txt says that it fails", program.name);
                wrong += 1;
            }
            (Ended::Failed(why), Some(reason)) => {
                println!("{:<46} expected  {why}\n{:<46}           because: {reason}", program.name, "");
                known += 1;
            }
            (Ended::Failed(why), None) => {
                println!("{:<46} FAILED    {why}", program.name);
                wrong += 1;
            }
        }
    }
    if whole {
        let suites: Vec<_> = programs.iter().filter_map(|program| program.name.split('/').next()).collect();
        for (name, _) in
            unseen.iter().filter(|(name, _)| suites.contains(&name.split('/').next().unwrap_or("")))
        {
            println!("{name:<46} NOT THERE, and expected.txt names it");
        }
    }
    println!(
        "{} tests: {passed} passed, {known} failed as expected, {unsupported} unsupported, {wrong} not as expected",
        programs.len()
    );
    wrong == 0
}
