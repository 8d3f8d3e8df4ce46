//! Each program runs and leaves what it should. `hello` is also the sample of the front page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const HELLO: &str = env!("CARGO_BIN_EXE_hello");

/// A new folder for what a program writes.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        fs::remove_dir_all(&path).unwrap();
    }
    fs::create_dir_all(&path).unwrap();
    path
}

/// Runs a program in a folder. It must succeed.
fn run(program: &str, folder: &Path) {
    let output = Command::new(program).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The front page's sample in Rust: how many lines it prints to `log.txt`, and its text.
fn sample() -> (usize, String) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let page = fs::read_to_string(page).unwrap();
    let samples: Vec<_> = page.split("```rust").skip(1).collect();
    assert_eq!(samples.len(), 1, "one sample in Rust");
    let (info, rest) = samples[0].split_once('\n').unwrap();
    let lines = info.trim().strip_prefix("log.txt:").and_then(|lines| lines.parse().ok());
    (lines.expect("FILE:LINES after the language"), rest.split_once("```").unwrap().0.to_owned())
}

#[test]
fn the_front_page_shows_hello() {
    let program = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("hello.rs")).unwrap();
    let shown: String = program.lines().skip_while(|line| line.starts_with("//!") || line.is_empty()).fold(
        String::new(),
        |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        },
    );
    assert_eq!(sample().1, shown, "README.md beside examples/hello.rs");
}

#[test]
fn hello_prints_every_line() {
    let folder = folder("hello");
    run(HELLO, &folder);
    let text = fs::read_to_string(folder.join("log.txt")).unwrap();
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
    assert!(lines == expected, "log.txt differs from what the kernel prints");
}
