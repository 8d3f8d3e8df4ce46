//! Each program runs and leaves what it should. `hello` is also the sample of the front page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const CSV: &str = env!("CARGO_BIN_EXE_csv");
const HELLO: &str = env!("CARGO_BIN_EXE_hello");
const READ_LINES: &str = env!("CARGO_BIN_EXE_read_lines");
const WRITE_RECORDS: &str = env!("CARGO_BIN_EXE_write_records");

/// A new folder for what a program writes.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        fs::remove_dir_all(&path).unwrap();
    }
    fs::create_dir_all(&path).unwrap();
    path
}

/// Runs a program in a folder: what it says of an error, or nothing if it succeeds.
fn run(program: &str, folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).current_dir(folder).args(arguments).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.success(), errors.is_empty(), "{program}: {}: {errors}", output.status);
    errors
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
    assert_eq!(run(HELLO, &folder, &[]), "");
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

#[test]
fn read_lines_finds_each_line_once() {
    let folder = folder("read_lines");
    // Each line is another one, and every seventh is found: the last, too, which has no newline.
    let lines: Vec<_> = (0..70_001)
        .map(|number| format!("{number} {}", if number % 7 == 0 { "an error" } else { "as it should be" }))
        .collect();
    fs::write(folder.join("in"), lines.join("\n")).unwrap();
    assert_eq!(run(READ_LINES, &folder, &["in", "out"]), "");
    let text = fs::read_to_string(folder.join("out")).unwrap();
    let mut found: Vec<_> = text.lines().collect();
    let mut expected: Vec<_> = lines.iter().filter(|line| line.contains("error")).collect();
    assert_eq!((found.len(), expected.len()), (10_001, 10_001));
    found.sort_unstable();
    expected.sort_unstable();
    assert!(text.ends_with('\n') && found == expected, "lines are missing, torn, or there twice");
}

#[test]
fn read_lines_says_what_is_wrong() {
    let folder = folder("read_lines-wrong");
    assert!(run(READ_LINES, &folder, &["in"]).contains("two files are needed: read_lines INPUT OUTPUT"));
    let missing = run(READ_LINES, &folder, &["in", "out"]);
    assert!(missing.contains("\"in\"") && missing.contains("ENOENT"), "{missing}");
    for (length, is_too_long) in [(510, false), (511, true), (2000, true)] {
        fs::write(folder.join("in"), "x".repeat(length) + "\n").unwrap();
        let said = run(READ_LINES, &folder, &["in", "out"]);
        assert_eq!(
            said.contains("a line is longer than 510 bytes: raise LINE_BYTES"),
            is_too_long,
            "{length}: {said}"
        );
    }
}

#[test]
fn write_records_writes_each_in_its_place() {
    let folder = folder("write_records");
    assert_eq!(run(WRITE_RECORDS, &folder, &["records"]), "");
    let bytes = fs::read(folder.join("records")).unwrap();
    let expected: Vec<u8> = (0..32 * 256 * 16_u64)
        .flat_map(|number| [number, number * number])
        .flat_map(u64::to_le_bytes)
        .collect();
    assert_eq!(bytes.len(), 2 << 20);
    assert!(bytes == expected, "a record differs");
    assert!(run(WRITE_RECORDS, &folder, &[]).contains("no file was named: write_records FILE"));
    assert!(run(WRITE_RECORDS, &folder, &["no/such/records"]).contains("No such file"));
    assert!(run(WRITE_RECORDS, &folder, &["/dev/full"]).contains("ENOSPC"));
}

#[test]
fn csv_sums_up_columns_of_files() {
    let folder = folder("csv");
    let mut expected = Vec::new();
    for file in 0..300_u32 {
        let mut text = "name,amount,\"a note\"\r\n".to_owned();
        let mut sum = 0;
        for record in 0..i64::from(file % 97) {
            let amount = record * 7919 - i64::from(file) * 1000;
            // Notes that look like records, if quotes are not minded; some are longer than what a thread reads at once.
            let note = "no,1,\"\"\n2,".repeat(usize::try_from(record % 5).unwrap() * 70);
            text += &format!("item {record},\"{amount}\",\"{note}\"\n");
            sum += amount;
        }
        fs::write(folder.join(format!("{file}.csv")), text).unwrap();
        expected.push(format!("{file} {} {sum}", file % 97));
    }
    assert_eq!(run(CSV, &folder, &[".", "300", "1", "sums"]), "");
    let text = fs::read_to_string(folder.join("sums")).unwrap();
    let mut lines: Vec<_> = text.lines().map(ToOwned::to_owned).collect();
    assert_eq!(lines.len(), 300);
    lines.sort_unstable();
    expected.sort_unstable();
    assert!(text.ends_with('\n') && lines == expected, "a sum differs");
    assert!(run(CSV, &folder, &[".", "300", "0", "sums"]).contains("no number in column 0"));
    assert!(run(CSV, &folder, &[".", "300", "3", "sums"]).contains("no number in column 3"));
    assert!(run(CSV, &folder, &[".", "301", "1", "sums"]).contains("ENOENT"));
    assert!(run(CSV, &folder, &[".", "many", "1", "sums"]).contains("many: a number is needed"));
}
