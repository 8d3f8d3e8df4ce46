//! All mutants that cargo-mutants makes of the core and the device crate, in one build: each stands beside what it replaces, and an
//! environment variable says which is on (mutant schemata: Untch, Offutt, Harrold, "Mutation analysis using mutant schemata", ISSTA 1993).
//! A mutant then takes the time of a few tests, and not that of a build.
//!
//! | file | what |
//! |---|---|
//! | `listed.rs` | what cargo-mutants lists, and samples of it |
//! | `place.rs` | the expression or arm around what a mutant replaces |
//! | `text.rs` | a file's text with all of its mutants, and which of them a compiler's error is of |
//! | `build.rs`, `switch.txt` | a copy of the workspace with such texts and the switch, and its test programs |
//! | `built.rs` | what was built, kept in a file, so that trials may be another command's, or another machine's at the same path |
//! | `trial.rs` | tests that reach a mutant, run until one fails |
//! | `outcome.rs` | what is known of each, kept in a file; those that are explained |
//!
//! Mutants in what the compiler computes (constants) are reached by nothing; those of code for a GPU alone neither.

mod build;
mod built;
mod listed;
mod outcome;
mod place;
mod text;
mod trial;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use crate::step::{self, Report};
use crate::workspace::{cargo, minutes, root, target_directory};
use build::Copy;
use built::Built;
use outcome::Outcomes;
use trial::Fate;

/// The version of cargo-mutants whose options are used.
const CARGO_MUTANTS: &str = "27";

/// What of all code's mutants is tried.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// Of these files; where there are none, of the core and the device crate.
    pub(crate) files: Vec<String>,
    /// So many of each file, by the seed; all where it is 0.
    pub(crate) sample: usize,
    pub(crate) seed: u64,
    /// Seconds that tests of one mutant run until it has survived.
    pub(crate) seconds: u64,
    /// Those that an earlier run has not seen survive are not tried again.
    pub(crate) resume: bool,
    /// What is done.
    pub(crate) part: Part,
}

/// What of a run is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All.
    Whole,
    /// It is built, and what was built is noted.
    Build,
    /// What was built is run.
    Run,
}

impl Default for Chosen {
    fn default() -> Self {
        Self { files: Vec::new(), sample: 0, seed: 0, seconds: 60, resume: false, part: Part::Whole }
    }
}

/// Tries them against the tests of the core, the device crate, the host and the whole stack, and loom's models. The tool is installed into
/// `target/tools` where it is missing.
pub(crate) fn run(chosen: &Chosen, jobs: usize) -> Report {
    let tools = target_directory().join("tools");
    let program = tools.join("bin/cargo-mutants");
    if !program.exists() && chosen.part != Part::Run {
        let mut install = cargo(&format!("install cargo-mutants --locked --version ^{CARGO_MUTANTS} --root"));
        let installed = step::run("cargo-mutants", install.arg(&tools), minutes(30));
        if installed.failed() {
            return installed;
        }
    }
    step::in_process("mutants of all code", || {
        if chosen.part != Part::Run {
            build(chosen, &program)?.write()?;
        }
        if chosen.part == Part::Build { Ok(()) } else { trials(chosen, &Built::read()?, jobs) }
    })
}

/// Builds the programs with the mutants that are chosen.
fn build(chosen: &Chosen, program: &Path) -> Result<Built, String> {
    let listed = listed::list(program, &chosen.files, &root())?;
    let count = listed.len();
    let mutants = if chosen.sample > 0 { listed::sample(listed, chosen.sample, chosen.seed) } else { listed };
    println!("{} of {count} mutants, seed {}", mutants.len(), chosen.seed);
    let left = if chosen.resume { Outcomes::open(mutants.clone(), true)?.left() } else { mutants.clone() };
    let copy = Copy::make(&left)?;
    let without = copy.switch()?;
    let programs = copy.programs()?;
    drop(copy);
    Ok(Built { chosen: mutants, mutants: left, without, programs })
}

/// Tries those that are built.
fn trials(chosen: &Chosen, built: &Built, jobs: usize) -> Result<(), String> {
    let Built { chosen: all, mutants, without, programs } = built;
    let outcomes = Outcomes::open(all.clone(), chosen.resume)?;
    // What an earlier run of the same programs came to is not tried again.
    let left: BTreeSet<String> = outcomes.left().into_iter().map(|mutant| mutant.name).collect();
    let outcomes = Mutex::new(outcomes);
    let tests = trial::tests(programs, mutants.len(), jobs, &target_directory().join("mutants"));
    let seconds: f64 = tests.iter().map(|test| test.seconds).sum();
    println!("{} tests of {} programs, {seconds:.0} s", tests.len(), programs.len());
    let told = |number: u32, fate: Option<&Fate>| {
        outcomes.lock().expect("nobody panics while it is held").tell(&mutants[number as usize], fate);
    };
    without.iter().for_each(|number| told(*number, None));
    let numbers: Vec<u32> = (0..)
        .zip(mutants)
        .filter(|(_, mutant)| left.contains(&mutant.name))
        .map(|(number, _)| number)
        .collect();
    let numbers: Vec<u32> = numbers.into_iter().filter(|number| !without.contains(number)).collect();
    trial::trials(&numbers, &tests, (jobs, Duration::from_secs(chosen.seconds)), |number, fate| {
        told(number, Some(fate));
    });
    outcomes.into_inner().expect("nobody panics while it is held").summary()
}
