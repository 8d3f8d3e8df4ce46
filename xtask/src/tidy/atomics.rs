//! Atomics stay in `gpufs-core/src/word`, behind verbs: `atomic` of `core::sync`, `std::sync` or `loom::sync` is named nowhere else.
//!
//! Clippy's `disallowed-types` says the same of the two types that are shared with devices; this sees every type, fence and ordering.

use super::finding::Finding;
use super::tree::Tree;

const HOME: &str = "gpufs-core/src/word";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust().filter(|(file, _)| !file.path.starts_with(HOME)) {
        // `sync::atomic`, or `sync::{…, atomic::…}`: the word is enough, where it stands in a path.
        let stray = rust.tokens.windows(3).find(|window| {
            let [before, word, after] = window else { return false };
            word.is("atomic")
                && (before.is("::") || before.is("{") || before.is(","))
                && (after.is("::") || after.is(",") || after.is(";") || after.is("}"))
        });
        if let Some([_, word, _]) = stray {
            let advice = format!(
                "uses atomics outside {HOME}: use a word of gpufs_core::word, whose verbs say order and scope, or a lock"
            );
            findings.push(Finding::once("atomic", &file.path, word.line, advice));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn stray_atomics_are_found() {
        let whole = "use core::sync::atomic::{AtomicU8, Ordering};";
        assert_eq!(found("gpufs-core/src/ring/queue.rs", whole), 1);
        assert_eq!(found("gpufs-core/src/word/host.rs", whole), 0);
        assert_eq!(found("bench/src/main.rs", "use std::sync::{Arc, atomic::AtomicU8};"), 1);
        assert_eq!(found("tests/a.rs", "fn f() { std::sync::atomic::fence(x); }"), 1);
        assert_eq!(
            found("tests/a.rs", "// std::sync::atomic\nlet atomic = \"core::sync::atomic\"; set(atomic, 1)"),
            0
        );
    }
}
