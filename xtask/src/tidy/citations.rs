//! What is cited by name exists: rules, proofs and liveness arguments of the protocol in gpufs-core/src/protocol, decisions in
//! `ARCHITECTURE.md`.
//!
//! A definition is a name in bold, a citation one in brackets. A letter or step behind the name of a definition is one of its parts: either
//! has bold letters of its own, or stands in parentheses in the definition's text.

use std::collections::BTreeMap;

use super::tree::Tree;

/// Where names with these first letters are defined, and what they are.
const PLACES: &[(&str, &str, &str)] = &[
    ("R", "gpufs-core/src/protocol", "rule"),
    ("P", "gpufs-core/src/protocol", "proof"),
    ("L", "gpufs-core/src/protocol", "liveness argument"),
    ("D", "ARCHITECTURE.md", "decision"),
];

/// A definition: where it stands, and its text up to the next one.
struct Definition {
    at: String,
    text: String,
}

/// Citations that lead nowhere, and what is cited otherwise than by name.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut definitions = BTreeMap::new();
    for (letter, place, what) in PLACES {
        let known = define(tree, letter, place, &mut wrong);
        if known.is_empty() {
            wrong.push(format!("{place} defines no {what}: **{letter}-…**"));
        }
        definitions.extend(known);
    }
    for (path, line, name) in citations(tree) {
        let place = PLACES.iter().find(|(letter, ..)| kind_of(&name) == *letter);
        if let (Some((_, place, what)), false) = (place, exists(&definitions, &name)) {
            wrong.push(format!(
                "{path}:{line}: [{name}] is cited, but {place} defines no such {what} (**{name}**)"
            ));
        }
    }
    for (path, line, what, instead) in positions(tree) {
        wrong.push(format!(
            "{path}:{line}: '{what}' is a place, which changes: cite the name, as [{instead}-…]"
        ));
    }
    wrong
}

/// The letter that a name begins with.
fn kind_of(name: &str) -> &str {
    name.split('-').next().unwrap_or_default()
}

/// Definitions of names with this letter. What is defined twice is added to `wrong`.
fn define(tree: &Tree, letter: &str, place: &str, wrong: &mut Vec<String>) -> BTreeMap<String, Definition> {
    let mut definitions: BTreeMap<String, Definition> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.path.starts_with(place)) {
        let mut last: Option<String> = None;
        for (line, text) in file.prose() {
            for (before, name) in names(text, "**") {
                if let Some(definition) = last.take().and_then(|last| definitions.get_mut(&last)) {
                    definition.text.push_str(before);
                }
                if kind_of(&name) != letter {
                    continue;
                }
                let at = format!("{}:{line}", file.path);
                let text = String::new();
                if let Some(known) = definitions.insert(name.clone(), Definition { at: at.clone(), text }) {
                    wrong.push(format!("{at}: {name} is defined a second time, after {}", known.at));
                }
                last = Some(name);
            }
            if let Some(definition) = last.as_ref().and_then(|last| definitions.get_mut(last)) {
                definition.text.push_str(text);
                definition.text.push('\n');
            }
        }
    }
    definitions
}

/// Whether the name is defined, or the name without its last letter is, and has such a part.
fn exists(definitions: &BTreeMap<String, Definition>, name: &str) -> bool {
    if definitions.contains_key(name) {
        return true;
    }
    let Some(part) = name.chars().last().filter(char::is_ascii_lowercase) else { return false };
    let whole = name[..name.len() - 1].trim_end();
    definitions.get(whole).is_some_and(|definition| definition.text.contains(&format!("({part})")))
}

/// Citations: path, line, name.
fn citations(tree: &Tree) -> impl Iterator<Item = (&str, usize, String)> {
    tree.files.iter().flat_map(|file| {
        let prose = file.prose().into_iter();
        prose.flat_map(move |(line, text)| {
            names(text, "[").into_iter().map(move |(_, name)| (file.path.as_str(), line, name))
        })
    })
}

/// Names in bold or in brackets, with what stands before each. Several may stand in one pair of brackets, with commas between.
fn names<'a>(text: &'a str, open: &str) -> Vec<(&'a str, String)> {
    let close = if open == "[" { "]" } else { open };
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(open).map(|start| at + start + open.len()) {
        let Some(end) = text[start..].find(close).map(|end| start + end) else { break };
        let inside = text[start..end].split(", ");
        let names: Vec<_> = inside.map(|name| name.trim_end_matches('.')).collect();
        if names.iter().all(|name| is_name(name)) {
            found.extend(names.into_iter().map(|name| (&text[..start - open.len()], name.to_owned())));
            at = end + close.len();
        } else {
            at = start;
        }
    }
    found
}

/// `P-WAKE`, `L-PROGRESS e`, `R-5c`, `D-13`.
fn is_name(text: &str) -> bool {
    let Some((letter, rest)) = text.split_once('-') else { return false };
    if !PLACES.iter().any(|(known, ..)| *known == letter) {
        return false;
    }
    let part = rest.len().checked_sub(1).filter(|last| rest.as_bytes()[*last].is_ascii_lowercase());
    let whole = part.map_or(rest, |last| rest[..last].trim_end_matches(' '));
    whole.starts_with(|first: char| first.is_ascii_uppercase() || first.is_ascii_digit())
        && whole.chars().all(|char| char.is_ascii_uppercase() || char.is_ascii_digit() || char == '-')
}

/// Citations by number or place in sources: path, line, words, the letter of the names to cite instead.
fn positions(tree: &Tree) -> Vec<(&str, usize, String, &'static str)> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_any(&["rs", "h", "toml"])) {
        for (line, text) in file.prose() {
            let words: Vec<_> =
                text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
            for pair in words.windows(2) {
                let number = pair[1].starts_with(|first: char| first.is_ascii_digit());
                let letter = match (pair[0].to_lowercase().as_str(), number) {
                    ("rule" | "rules", true) => "R",
                    ("decision" | "decisions", true) => "D",
                    ("first" | "second" | "third" | "last", _) if pair[1] == "proof" => "P",
                    _ => continue,
                };
                found.push((file.path.as_str(), line, pair.join(" "), letter));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOCOL: (&str, &str) = (
        "gpufs-core/src/protocol/mod.rs",
        "//! - **R-5**. Publishing: **R-5a** a step.\n//! - **P-WAKE** (no wake-up is lost) …\n//! **L-PROGRESS** in steps:\n//! (a) one\n//! (b) two\n",
    );
    const DECISIONS: (&str, &str) = ("ARCHITECTURE.md", "**D-1** One.\n\n**D-13.** Another.\n");

    fn wrong(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[PROTOCOL, DECISIONS, (path, text)]))
    }

    #[test]
    fn what_exists_may_be_cited() {
        let text = "// [R-5], [R-5a] and [P-WAKE, L-PROGRESS b]; [D-13]\nlet a = b[R - 9]; let c = \"[R-9]\";\n\
                    // [Session], [P-], a[R-x]";
        assert_eq!(wrong("a.rs", text), Vec::<String>::new());
        assert_eq!(wrong("docs/a.md", "See [D-1] and [R-5]."), Vec::<String>::new());
    }

    #[test]
    fn dangling_citations_are_found() {
        for name in ["R-6", "R-5b", "P-SLEEP", "L-PROGRESS c", "P-WAKE a", "D-2"] {
            let wrong = wrong("a.rs", &format!("fn f() {{}} // ({name} is not) [{name}]"));
            assert!(
                matches!(&wrong[..], [one] if one.starts_with(&format!("a.rs:1: [{name}] is cited"))),
                "{wrong:?}"
            );
        }
        assert_eq!(wrong("a.md", "[P-WAKE, P-GONE]").len(), 1);
    }

    #[test]
    fn citations_by_place_are_found() {
        assert_eq!(wrong("a.rs", "/// Rule 8 and decision 13, by the last proof.").len(), 3);
        assert_eq!(wrong("a.rs", "// the rule is: 8").len(), 0);
    }

    #[test]
    fn a_name_is_defined_once() {
        assert_eq!(wrong("gpufs-core/src/protocol/more.rs", "//! **P-WAKE**").len(), 1);
    }

    #[test]
    fn nothing_passes_where_nothing_is_defined() {
        let wrong = check(&Tree::of(&[DECISIONS, ("a.rs", "// [P-WAKE] and [D-13]")]));
        assert!(
            matches!(&wrong[..], [rules, proofs, liveness, cited]
            if rules.contains("no rule") && proofs.contains("no proof") && liveness.contains("no liveness")
            && cited.contains("[P-WAKE]")),
            "{wrong:?}"
        );
    }
}
