//! The front page's program is the one that is built here, and prints what the page says.

mod common;

use std::fs;
use std::path::Path;

use common::{Tree, errors, run};

const FIRST: &str = env!("CARGO_BIN_EXE_first");

/// The front page's sample in Rust: how many lines it prints to `log.txt`, and its text.
fn sample() -> (usize, String) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let page = fs::read_to_string(page).unwrap();
    let samples: Vec<_> = page.split("```rust").skip(1).collect();
    assert_eq!(samples.len(), 1, "one sample in Rust");
    let (info, rest) = samples[0].split_once('\n').unwrap();
    let lines = info.trim().strip_prefix("log.txt:").and_then(|lines| lines.parse().ok());
    (lines.expect("FILE:LINES behind the language"), rest.split_once("```").unwrap().0.to_owned())
}

#[test]
fn the_page_shows_the_program() {
    let program = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/first.rs")).unwrap();
    let shown: String = program.lines().skip_while(|line| line.starts_with("//!") || line.is_empty()).fold(
        String::new(),
        |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        },
    );
    assert_eq!(sample().1, shown, "README.md beside examples/src/bin/first.rs");
}

#[test]
fn it_prints_every_line() {
    let tree = Tree::new("first");
    let output = run(FIRST, tree.path(), [""; 0]);
    assert!(output.status.success(), "{}", errors(&output));
    let text = fs::read_to_string(tree.path().join("log.txt")).unwrap();
    let mut lines: Vec<_> = text.lines().map(ToOwned::to_owned).collect();
    assert_eq!(lines.len(), sample().0);
    lines.sort_unstable();
    // Three rounds print the same first line; the second names its round.
    let mut expected: Vec<_> = (0..132 * 256)
        .flat_map(|thread: u32| {
            (0..3).flat_map(move |round| {
                [
                    format!("thread {thread} saw {:.3}", f64::from(thread) / 3.0),
                    format!("thread {thread} is done with round {round}"),
                ]
            })
        })
        .collect();
    expected.sort_unstable();
    assert!(lines == expected, "another text than the program's");
}
