//! Imports go one way: `xtask/tidy/layers.txt` says which modules of a crate stand above which.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::modules::{self, Module};
use super::tree::Tree;

/// The rows of one crate: for each module that is named, the line of its row.
struct Layers<'a> {
    folder: &'a str,
    rows: BTreeMap<Module, usize>,
}

/// What is wrong with the table itself, and imports that do not go down.
pub(super) fn check(tree: &Tree, table: &str, path: &str) -> (Vec<String>, Vec<Finding>) {
    let (mut wrong, mut findings) = (Vec::new(), Vec::new());
    for layers in parse(table, path, &mut wrong) {
        let source = modules::read(tree, layers.folder);
        for (module, line) in &layers.rows {
            if !source.modules.contains(module) {
                let name = module.join("::");
                wrong.push(format!("{path}:{line}: {} has no module '{name}': take it out", layers.folder));
            }
        }
        for module in source.modules.iter().filter(|module| !module.is_empty()) {
            if layers.entry(module).is_none() {
                wrong.push(format!(
                    "{}: module '{}' is in no row of {path}: put it below all that it may import",
                    layers.folder,
                    module.join("::"),
                ));
            }
        }
        findings.extend(upward(&layers, &source.imports, path));
    }
    (wrong, findings)
}

/// Reads the table. What is wrong with it is added to `wrong`.
fn parse<'a>(table: &'a str, path: &str, wrong: &mut Vec<String>) -> Vec<Layers<'a>> {
    let mut crates: Vec<Layers<'a>> = Vec::new();
    for (row, line) in (1..).zip(table.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(folder) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            crates.push(Layers { folder, rows: BTreeMap::new() });
            continue;
        }
        for name in line.split_whitespace() {
            let module: Module = name.split("::").map(str::to_owned).collect();
            match crates.last_mut() {
                None => wrong.push(format!("{path}:{row}: '{name}' stands before any [folder]")),
                Some(layers) => {
                    if layers.rows.insert(module, row).is_some() {
                        wrong.push(format!("{path}:{row}: '{name}' stands twice in {}", layers.folder));
                    }
                }
            }
        }
    }
    crates
}

impl Layers<'_> {
    /// The entry that a module belongs to, its own or that of the nearest folder around it, and its row.
    fn entry(&self, module: &Module) -> Option<(&Module, usize)> {
        (1..=module.len()).rev().find_map(|length| {
            let (entry, row) = self.rows.get_key_value(&module[..length])?;
            Some((entry, *row))
        })
    }
}

fn upward(layers: &Layers<'_>, imports: &[modules::Import], table: &str) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for import in imports.iter().filter(|import| !import.shown_on) {
        // The root shows on what it likes, and only it stands above all rows.
        let Some((from, from_row)) = layers.entry(&import.from) else { continue };
        let (to, to_row) = layers.entry(&import.to).map_or((None, usize::MAX), |(to, row)| (Some(to), row));
        if to == Some(from) || to_row < from_row {
            continue;
        }
        let to = to.map_or_else(|| "crate".to_owned(), |to| to.join("::"));
        let subject = format!("{}: {} -> {to}", layers.folder, from.join("::"));
        if findings.iter().any(|finding| finding.subject == subject) {
            continue;
        }
        let why = if to_row == from_row { "stands in the same row" } else { "stands above it" };
        let advice = format!(
            "is no import that {table} allows: {to} {why}. Move what is imported down, or pass it in as a value or a trait"
        );
        findings.push(Finding::of("import", subject, 1, &import.path, import.line, advice));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# A table.\n[core/src]\nword errno\nqueue\nstream::grow\nstream\nsession\n";

    fn found(files: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let whole: Vec<_> = [
            ("core/src/lib.rs", "pub use queue::Queue; pub use errno::Errno; pub struct Root;"),
            ("core/src/word/mod.rs", ""),
            ("core/src/errno.rs", ""),
            ("core/src/queue.rs", ""),
            ("core/src/stream/mod.rs", "pub use grow::Grown;"),
            ("core/src/stream/grow.rs", ""),
            ("core/src/session.rs", ""),
        ]
        .into_iter()
        .map(|(path, text)| {
            files.iter().find(|(changed, _)| *changed == path).copied().unwrap_or((path, text))
        })
        .collect();
        let (wrong, findings) = check(&Tree::of(&whole), TABLE, "table");
        (wrong, findings.into_iter().map(|finding| finding.subject).collect())
    }

    fn imports(path: &str, text: &str) -> Vec<String> {
        let (wrong, findings) = found(&[(path, text)]);
        assert_eq!(wrong, Vec::<String>::new());
        findings
    }

    #[test]
    fn downward_imports_pass() {
        assert_eq!(
            imports("core/src/session.rs", "use crate::{Queue, stream::{self, Grown}, word::*};"),
            [""; 0]
        );
        assert_eq!(
            imports("core/src/stream/mod.rs", "use self::grow::A; use crate::Errno; fn f() { grow::g() }"),
            [""; 0]
        );
        assert_eq!(
            imports(
                "core/src/queue.rs",
                "use core::cell::Cell; use super::word::W; mod tests { use crate::session::S; }"
            ),
            [""; 0]
        );
        assert_eq!(
            imports("core/src/stream/mod.rs", "// crate::session\nconst A: &str = \"crate::session\";"),
            [""; 0]
        );
    }

    #[test]
    fn upward_imports_are_found() {
        assert_eq!(
            imports("core/src/queue.rs", "use crate::session::Session;"),
            ["core/src: queue -> session"]
        );
        assert_eq!(
            imports("core/src/queue.rs", "use crate::{word::A, session::{B, C}};"),
            ["core/src: queue -> session"]
        );
        assert_eq!(
            imports("core/src/queue.rs", "fn f() -> super::session::S { }"),
            ["core/src: queue -> session"]
        );
        assert_eq!(
            imports("core/src/queue.rs", "mod a { use super::super::session::S; }"),
            ["core/src: queue -> session"]
        );
        assert_eq!(
            imports("core/src/queue.rs", "macro_rules! m { () => { mod $a { use super::*; } } }"),
            [""; 0]
        );
        // By way of another module, and of the root.
        assert_eq!(
            imports("core/src/queue.rs", "use crate::stream::Grown;"),
            ["core/src: queue -> stream::grow"]
        );
        assert_eq!(imports("core/src/word/mod.rs", "use crate::Queue;"), ["core/src: word -> queue"]);
        assert_eq!(imports("core/src/word/mod.rs", "use crate::Root;"), ["core/src: word -> crate"]);
        // In one row, and up into the folder around.
        assert_eq!(imports("core/src/errno.rs", "use crate::word::A;"), ["core/src: errno -> word"]);
        assert_eq!(
            imports("core/src/stream/grow.rs", "use super::Stream;"),
            ["core/src: stream::grow -> stream"]
        );
    }

    #[test]
    fn the_table_is_whole() {
        let tree = Tree::of(&[("core/src/lib.rs", ""), ("core/src/word.rs", ""), ("core/src/new.rs", "")]);
        let (wrong, _) = check(&tree, "lost\n[core/src]\nword gone word\n", "table");
        assert!(matches!(&wrong[..], [lost, twice, gone, new]
            if lost.contains("before any [folder]")
            && twice.contains("'word' stands twice")
            && gone.contains("no module 'gone'")
            && new.contains("module 'new' is in no row")));
    }
}
