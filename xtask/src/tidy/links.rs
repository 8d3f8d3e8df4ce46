//! Links between documents lead somewhere, and files that prose names exist.
//!
//! A file is named in backquotes: by its path from the root or from a folder around the text, or by the end of its path, and with
//! `file.rs::name` by something in it. The change log names what was, and is left out.

use std::collections::BTreeSet;

use super::tree::{File, Tree};

/// Files whose names are looked for when they stand alone or with an incomplete path.
const SOURCES: &[&str] = &["rs", "md"];
/// Documents that name what was.
const HISTORY: &[&str] = &["CHANGELOG.md"];

/// Paths that look like ours: of other projects, of what tests make, of files whose names a reader fills in.
const ELSEWHERE: &[&str] = &["include/hip", "tests/model.regressions", "docs/results/DATE.md"];

/// Links and names that lead nowhere.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    let folders: BTreeSet<_> =
        tree.files.iter().filter_map(|file| file.path.split_once('/').map(|(folder, _)| folder)).collect();
    let mut dead = Vec::new();
    for file in tree.files.iter().filter(|file| !HISTORY.contains(&file.path.as_str())) {
        if file.is_any(&["md"]) {
            dead.extend(links(tree, file));
        }
        if file.is_any(&["md", "rs", "toml"]) {
            dead.extend(named_files(tree, file, &folders));
        }
    }
    dead
}

/// Lines of a document outside its blocks of code.
fn outside_blocks(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    (1..).zip(file.text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

fn links(tree: &Tree, file: &File) -> Vec<String> {
    let mut dead = Vec::new();
    for (number, line) in outside_blocks(file) {
        for part in line.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, section) = target.split_once('#').unwrap_or((target, ""));
            let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let path = if path.is_empty() { file.path.clone() } else { joined(folder, path) };
            let at = format!("{}:{number}: the link '{target}'", file.path);
            if !tree.has(&path) {
                dead.push(format!("{at} leads nowhere: there is no {path}"));
            } else if let (false, Some(document)) =
                (section.is_empty(), tree.files.iter().find(|file| file.path == path))
                && document.is_any(&["md"])
                && !outside_blocks(document).any(|(_, line)| line.starts_with('#') && anchor(line) == section)
            {
                dead.push(format!("{at} leads nowhere: {path} has no section of that name"));
            }
        }
    }
    dead
}

/// A path from a folder, without `.` and `..`.
pub(crate) fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// What a link to a section says, as the usual hosts make it of the heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.map(|char| if char == ' ' { '-' } else { char }).collect()
}

fn named_files(tree: &Tree, file: &File, folders: &BTreeSet<&str>) -> Vec<String> {
    let mut dead = Vec::new();
    for (number, line) in file.prose() {
        for quoted in line.split('`').skip(1).step_by(2) {
            let (path, inside) = quoted.split_once("::").unwrap_or((quoted, ""));
            let ordinary = |char: char| char.is_ascii_alphanumeric() || matches!(char, '/' | '.' | '_' | '-');
            let source =
                path.rsplit_once('.').is_some_and(|(name, end)| !name.is_empty() && SOURCES.contains(&end));
            let rooted = path.split_once('/').is_some_and(|(folder, _)| folders.contains(folder));
            let ours = !ELSEWHERE.iter().any(|elsewhere| path.starts_with(elsewhere));
            if !path.chars().all(ordinary) || path.starts_with(['/', '.']) || !(source || rooted) || !ours {
                continue;
            }
            let matching = matching(tree, file, path);
            if matching.is_empty() {
                dead.push(format!("{}:{number}: there is no '{path}'; say where it is now", file.path));
            } else if !inside.is_empty() && source && !matching.iter().any(|file| defines(file, inside)) {
                dead.push(format!("{}:{number}: there is no '{inside}' in {path}", file.path));
            }
        }
    }
    dead
}

/// Whether a file has the last of these names.
fn defines(file: &File, names: &str) -> bool {
    let name = names.rsplit("::").next().unwrap_or_default();
    name.is_empty() || file.rust.as_ref().is_some_and(|rust| rust.tokens.iter().any(|token| token.is(name)))
}

/// Files that `path` may mean, written in `file`; of a folder, its files.
fn matching<'a>(tree: &'a Tree, file: &File, path: &str) -> Vec<&'a File> {
    let path = path.trim_end_matches('/');
    let mut around = file.path.as_str();
    let mut places = Vec::new();
    while let Some((folder, _)) = around.rsplit_once('/') {
        places.push(format!("{folder}/{path}"));
        around = folder;
    }
    places.push(path.to_owned());
    let is_at = |file: &&File| {
        let at = |place: &String| {
            file.path
                .strip_prefix(place.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        places.iter().any(at) || file.path.strip_suffix(path).is_some_and(|before| before.ends_with('/'))
    };
    tree.files.iter().filter(is_at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[
            ("README.md", "# The top\n## What it *is*, today\n```\n# no heading\n```\n"),
            ("core/src/ring/queue.rs", "fn drain() {}"),
            ("core/tests/model/main.rs", ""),
            (path, text),
        ]))
    }

    #[test]
    fn links_and_names_that_lead_somewhere_pass() {
        let links = "[a](README.md#what-it-is-today) [b](https://x.org/y) [c](#here) [d](core/src/)\n# Here\n```\n[e](gone.md)\n```";
        assert_eq!(dead("a.md", links), Vec::<String>::new());
        assert_eq!(
            dead("core/b.md", "[a](../README.md) `tests/model` `src/ring/queue.rs`"),
            Vec::<String>::new()
        );
        let names = "//! `queue.rs`, `ring/queue.rs::drain`, `core/src/ring/`, `tests/model`; `/etc/passwd.rs` `read/write` `<x>.rs`";
        assert_eq!(dead("core/src/lib.rs", names), Vec::<String>::new());
    }

    #[test]
    fn dead_links_are_found() {
        assert_eq!(dead("a.md", "[a](gone.md)").len(), 1);
        assert_eq!(dead("a.md", "[a](README.md#gone)").len(), 1);
        assert_eq!(dead("a.md", "[a](README.md#no-heading)").len(), 1);
        assert_eq!(dead("docs/a.md", "[a](README.md)").len(), 1);
    }

    #[test]
    fn names_of_files_that_are_gone_are_found() {
        assert_eq!(dead("a.md", "`core/src/queue.rs`").len(), 1);
        assert_eq!(dead("core/src/lib.rs", "// see `stream.rs`").len(), 1);
        assert_eq!(dead("core/src/lib.rs", "// see `queue.rs::gone`").len(), 1);
        assert_eq!(dead("core/src/lib.rs", "const A: &str = \"`stream.rs`\";").len(), 0);
        assert_eq!(dead("CHANGELOG.md", "`core/src/queue.rs`").len(), 0);
    }
}
