//! Lengths of lines, functions and files.

use super::finding::Finding;
use super::tree::{File, Tree};
use crate::lex::{Kind, Rust, functions};

/// Characters of a line of code without literals: what rustfmt keeps to, where it formats at all.
const CODE_CHARACTERS: usize = 110;
/// Characters of any other line: comments, literals, sources in other languages.
const LINE_CHARACTERS: usize = 150;
/// Lines of a function, from `fn` to its last brace.
const FUNCTION_LINES: usize = 70;
/// Lines of a file of a product.
const FILE_LINES: usize = 500;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        findings.extend(file_lines(file));
        findings.extend(long_lines(file));
        if let Some(rust) = &file.rust {
            findings.extend(function_lines(file, rust));
        }
    }
    findings
}

fn file_lines(file: &File) -> Option<Finding> {
    let source = file.is_any(&["rs"]) && file.path.contains("src/") && !file.path.starts_with("tests/");
    let header = file.path.starts_with("include/") && file.is_any(&["h"]);
    let lines = file.text.lines().count();
    let advice =
        format!("has {lines} lines, of {FILE_LINES} at most: make two files of it, each for one thing");
    ((source || header) && lines > FILE_LINES)
        .then(|| Finding::of("file-lines", file.path.clone(), lines, &file.path, lines, advice))
}

fn long_lines(file: &File) -> Option<Finding> {
    if !file.is_any(&["rs", "h", "c", "cpp", "cu", "cuh", "hip", "toml"]) {
        return None;
    }
    let spoken = file.rust.as_ref().map(spoken_lines).unwrap_or_default();
    let mut long = (1..).zip(file.text.lines()).filter(|(number, line)| {
        let row = line.trim_start().trim_start_matches(['/', '!', '*', ' ']).starts_with('|');
        let code = file.rust.is_some() && !spoken.contains(number);
        // A row of a table cannot be broken.
        line.chars().count() > if code { CODE_CHARACTERS } else { LINE_CHARACTERS } && !row
    });
    let (first, _) = long.next()?;
    let amount = 1 + long.count();
    let advice = format!(
        "has {amount} lines that are too long: code has {CODE_CHARACTERS} characters at most, \
         comments and lines with strings {LINE_CHARACTERS}"
    );
    Some(Finding::of("line-length", file.path.clone(), amount, &file.path, first, advice))
}

/// Lines that have a literal or a comment.
fn spoken_lines(rust: &Rust) -> std::collections::BTreeSet<usize> {
    let literals = rust.tokens.iter().filter(|token| token.kind == Kind::Literal);
    let comments = rust.comments.iter().map(|comment| comment.line);
    literals.flat_map(|token| token.line..=token.last_line).chain(comments).collect()
}

fn function_lines(file: &File, rust: &Rust) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for function in functions(rust) {
        let [begin, .., end] = function.tokens else { continue };
        let (name, first) = (function.name, begin.line);
        let lines = end.line - first + 1;
        if lines <= FUNCTION_LINES {
            continue;
        }
        let subject = format!("{}::{name}", file.path);
        let advice = format!("has {lines} lines, of {FUNCTION_LINES} at most: name the steps it is made of");
        let finding = Finding::of("function-lines", subject, lines, &file.path, first, advice);
        // Two of one name in one file: the longer one counts.
        match findings.iter_mut().find(|known| known.subject == finding.subject) {
            Some(known) if known.amount >= lines => {}
            Some(known) => *known = finding,
            None => findings.push(finding),
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(String, usize)> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|found| (found.subject, found.amount)).collect()
    }

    #[test]
    fn long_functions_are_found() {
        let body = |lines: usize| {
            format!("fn short(a: [u8; 3]) {{ '{{'; }}\nfn long() {{\n{}}}\n", "a;\n".repeat(lines))
        };
        assert_eq!(found("xtask/src/a.rs", &body(FUNCTION_LINES - 2)), []);
        assert_eq!(
            found("xtask/src/a.rs", &body(FUNCTION_LINES - 1)),
            [("xtask/src/a.rs::long".to_owned(), FUNCTION_LINES + 1)]
        );
    }

    #[test]
    fn long_files_of_products_are_found() {
        let text = "//\n".repeat(FILE_LINES + 1);
        assert_eq!(found("gpufs-core/src/a.rs", &text), [("gpufs-core/src/a.rs".to_owned(), FILE_LINES + 1)]);
        assert_eq!(found("tests/src/a.rs", &text), []);
        assert_eq!(found("gpufs-core/src/a.rs", &text[3..]), []);
    }

    #[test]
    fn long_lines_are_found() {
        let code = |length: usize| format!("{};\n", "a".repeat(length - 1));
        assert_eq!(found("tests/a.rs", &code(CODE_CHARACTERS)), []);
        assert_eq!(found("tests/a.rs", &code(CODE_CHARACTERS + 1)), [("tests/a.rs".to_owned(), 1)]);
        let comment = |length: usize| format!("// {}\n", "ä".repeat(length - 3));
        assert_eq!(found("tests/a.rs", &comment(LINE_CHARACTERS)), []);
        assert_eq!(
            found("tests/a.rs", &comment(LINE_CHARACTERS + 1).repeat(2)),
            [("tests/a.rs".to_owned(), 2)]
        );
        assert_eq!(found("tests/a.rs", &format!("//! | {} |\n", "a".repeat(300))), []);
        assert_eq!(found("include/a.h", &code(LINE_CHARACTERS + 1)), [("include/a.h".to_owned(), 1)]);
    }
}
