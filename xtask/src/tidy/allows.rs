//! Lints are switched off by `expect`, which says so when there is nothing left to expect; `allow` is for what only some targets or features
//! warn of. Clippy's `allow_attributes_without_reason` sees to the reasons. Here the `allow`s are counted, per crate.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut counts: BTreeMap<String, (usize, String, usize)> = BTreeMap::new();
    for (file, rust) in tree.rust() {
        let lines = rust.tokens.windows(3).enumerate().filter_map(|(index, window)| {
            let [before, word, after] = window else { return None };
            // `#[allow(`, `#![allow(`, or `cfg_attr(…, allow(`.
            let attribute = before.is("[") && index > 0 && {
                let sign = &rust.tokens[index - 1];
                sign.is("#") || sign.is("!")
            };
            (word.is("allow") && after.is("(") && (attribute || before.is(","))).then_some(word.line)
        });
        for line in lines {
            let (count, ..) =
                counts.entry(crate_of(&file.path)).or_insert_with(|| (0, file.path.clone(), line));
            *count += 1;
        }
    }
    let finding = |(name, (count, path, line)): (String, (usize, String, usize))| {
        let advice = format!(
            "has {count} times `allow`: write `#[expect(…, reason = \"…\")]`, which says when it is no longer needed, \
             unless only some targets or features warn"
        );
        Finding::of("allow", name, count, &path, line, advice)
    };
    counts.into_iter().map(finding).collect()
}

/// The folder that has the crate's `src` or `tests`.
fn crate_of(path: &str) -> String {
    let mut name = path;
    for inside in ["/src/", "/tests/", "/benches/", "/examples/"] {
        if let Some(at) = name.find(inside) {
            name = &name[..at];
        }
    }
    name.strip_suffix("/build.rs").unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allows_are_counted_by_crate() {
        let text = "#![allow(a, reason = \"b\")]\n#[allow(c)]\n#[cfg_attr(x, allow(d))]\n#[expect(e)]\nrules.allow(f); allow(g);";
        let tree = Tree::of(&[
            ("tests/kernels/src/a.rs", text),
            ("tests/tests/b.rs", "#[allow(c)]\nfn f() {}"),
            ("xtask/src/c.rs", "// #[allow(d)]"),
        ]);
        let counts: Vec<_> = check(&tree).into_iter().map(|found| (found.subject, found.amount)).collect();
        assert_eq!(counts, [("tests".to_owned(), 1), ("tests/kernels".to_owned(), 3)]);
    }
}
