//! What the compiler does not check: citations, lengths, stray atomics, the direction of imports, dead links, lints switched off.
//!
//! | file | what |
//! |---|---|
//! | `tree.rs` | the repository's files |
//! | `citations.rs` | rules, proofs and decisions that are cited exist |
//! | `lengths.rs` | lines, functions and files are no longer than they may be |
//! | `atomics.rs` | atomics stay in their place |
//! | `modules.rs`, `layers.rs` | imports go one way |
//! | `links.rs` | links and names of files lead somewhere |
//! | `allows.rs` | lints that are switched off are counted |
//! | `unsafe_blocks.rs` | unsafe blocks with more than one operation are counted |
//! | `finding.rs`, `exceptions.rs` | what is found, and what of it passes today |
//!
//! `xtask/tidy/layers.txt` has the layers, `xtask/tidy/exceptions.txt` what passes, `xtask/tidy/unsafe.txt` what passes of clippy's findings.
//! Nothing here changes a source file.

mod allows;
mod atomics;
mod citations;
mod exceptions;
mod finding;
mod layers;
mod lengths;
mod links;
mod modules;
mod tree;
mod unsafe_blocks;

use std::fs;

use crate::step::{self, Report};
use crate::workspace::root;
use finding::Finding;
pub(crate) use links::joined;
use tree::Tree;

const LAYERS: &str = "xtask/tidy/layers.txt";
const EXCEPTIONS: &str = "xtask/tidy/exceptions.txt";
const UNSAFE: &str = "xtask/tidy/unsafe.txt";

/// All of it, as one step.
pub(crate) fn check() -> Report {
    step::in_process("tidy", || {
        let (mut wrong, findings) = look()?;
        wrong.extend(exceptions::compare(&read(EXCEPTIONS)?, EXCEPTIONS, &findings));
        name_all(&wrong)
    })
}

/// Of what clippy has printed in its short form: no file has more blocks with several unsafe operations than its list lets pass, or fewer.
pub(crate) fn unsafe_blocks(lines: &[String]) -> Result<(), String> {
    name_all(&exceptions::compare(&read(UNSAFE)?, UNSAFE, &unsafe_blocks::check(lines)))
}

fn name_all(wrong: &[String]) -> Result<(), String> {
    for line in wrong {
        println!("{line}");
    }
    let count = wrong.len();
    if count == 0 { Ok(()) } else { Err(format!("{count} things are not tidy; each is named above")) }
}

/// Takes out of the list of exceptions what is no longer needed; whether that went well.
pub(crate) fn shrink() -> bool {
    let shrunk = look().and_then(|(_, findings)| {
        let list = read(EXCEPTIONS)?;
        let path = root().join(EXCEPTIONS);
        fs::write(&path, exceptions::shrink(&list, &findings))
            .map_err(|error| format!("{EXCEPTIONS}: {error}"))
    });
    shrunk.inspect_err(|error| eprintln!("{error}")).is_ok()
}

/// What must not be, and what may be if the list says so.
fn look() -> Result<(Vec<String>, Vec<Finding>), String> {
    let tree = Tree::read(&root())?;
    let mut wrong = citations::check(&tree);
    let (about_layers, mut findings) = layers::check(&tree, &read(LAYERS)?, LAYERS);
    wrong.extend(about_layers);
    wrong.extend(links::check(&tree));
    findings.extend(lengths::check(&tree));
    findings.extend(atomics::check(&tree));
    findings.extend(allows::check(&tree));
    Ok((wrong, findings))
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
}
