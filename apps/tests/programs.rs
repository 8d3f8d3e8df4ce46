//! What all programs do alike: help, version, manual page, completions, errors of the command line, statistics.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use common::{Tree, errors, needs, run};
use serde_json::Value;

/// Each program: its name, its file, and its exit status after an error.
const PROGRAMS: [(&str, &str, i32); 8] = [
    ("greet", env!("CARGO_BIN_EXE_greet"), 1),
    ("grep", env!("CARGO_BIN_EXE_grep"), 2),
    ("copy", env!("CARGO_BIN_EXE_copy"), 1),
    ("follow", env!("CARGO_BIN_EXE_follow"), 1),
    ("serve", env!("CARGO_BIN_EXE_serve"), 1),
    ("graph", env!("CARGO_BIN_EXE_graph"), 1),
    ("experts", env!("CARGO_BIN_EXE_experts"), 1),
    ("demo", env!("CARGO_BIN_EXE_demo"), 2),
];
const COPY: &str = env!("CARGO_BIN_EXE_copy");
const GREP: &str = env!("CARGO_BIN_EXE_grep");
const GRAPH: &str = env!("CARGO_BIN_EXE_graph");

/// What a program that must end well prints, and that it says nothing else.
fn printed(tree: &Tree, program: &str, arguments: &[&str]) -> String {
    let output = run(program, tree.path(), arguments);
    assert_eq!((output.status.code(), errors(&output).as_str()), (Some(0), ""), "{program} {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The long options that a help shows.
fn options(help: &str) -> Vec<&str> {
    let shown = help.lines().filter_map(|line| line.split_once("--").filter(|(before, _)| before.len() <= 6));
    let name = |rest: &'_ str| rest.find(|letter: char| letter != '-' && !letter.is_alphanumeric());
    shown.map(|(_, rest)| &rest[..name(rest).unwrap_or(rest.len())]).collect()
}

#[test]
fn help_and_version_are_what_was_asked_for() {
    let tree = Tree::new("programs-help");
    for (name, program, _) in PROGRAMS {
        let help = printed(&tree, program, &["--help"]);
        assert!(help.starts_with(&format!("Usage: {name} ")), "{help}");
        assert!(help.contains("--device") && !help.contains("--generate"), "{help}");
        let version = concat!(" (gpufs) ", env!("CARGO_PKG_VERSION"), "\n");
        for option in ["--version", "-V"] {
            assert_eq!(printed(&tree, program, &[option]), format!("{name}{version}"));
        }
        // It is an option of grep's own.
        if name != "grep" {
            assert_eq!(printed(&tree, program, &["-h"]), help);
        }
    }
}

#[test]
fn manual_pages_and_completions_name_each_option() {
    let tree = Tree::new("programs-made");
    for (name, program, _) in PROGRAMS {
        let help = printed(&tree, program, &["--help"]);
        let options = options(&help);
        assert!(options.len() > 10 && options.contains(&"rings"), "{name}: {options:?}");
        let page = printed(&tree, program, &["--generate-man"]).replace("\\-", "-");
        assert!(
            page.contains(&format!(".TH {name} 1 ")) && page.contains(env!("CARGO_PKG_VERSION")),
            "{page}"
        );
        let completions =
            ["bash", "zsh", "fish"].map(|shell| printed(&tree, program, &["--generate-completions", shell]));
        for option in options {
            assert!(page.contains(&format!("--{option}")), "{name} --{option}: {page}");
            for text in &completions {
                assert!(text.contains(option), "{name} --{option}: {text}");
            }
        }
        // Those that write them are not for people who type.
        assert!(completions.iter().chain([&page]).all(|text| !text.contains("generate-")), "{name}");
    }
}

#[test]
fn an_option_that_there_is_not_is_named() {
    let tree = Tree::new("programs-unknown");
    for (name, program, trouble) in PROGRAMS {
        for (option, said) in [
            ("--bogus", "--bogus: unknown option"),
            ("--rimgs", "--rimgs: unknown option, perhaps --rings"),
            ("-y", "-y: unknown option"),
            ("--rings", "missing argument for option '--rings'"),
        ] {
            let output = run(program, tree.path(), [option]);
            assert_eq!(errors(&output), format!("{name}: {said}; see {name} --help\n"));
            assert_eq!((output.status.code(), output.stdout.len()), (Some(trouble), 0), "{name} {option}");
        }
    }
}

#[test]
fn values_may_be_any_bytes_and_the_last_one_counts() {
    let tree = Tree::new("programs-values");
    let odd = |name: &[u8]| OsStr::from_bytes(name).to_owned();
    // Names that are not UTF-8, and that look like options.
    let (list, text) = (odd(b"-\xfflist"), odd(b"-\xfftext"));
    fs::write(tree.path().join(&text), b"one \xff\ntwo\n").unwrap();
    fs::write(tree.path().join(&list), text.as_bytes()).unwrap();
    let all = [odd(b"-c"), odd(b"--files-from"), list, odd(b"--"), odd(b"\xff"), text.clone()];
    let output = run(GREP, tree.path(), all);
    assert_eq!((errors(&output).as_str(), output.status.code()), ("", Some(0)));
    assert_eq!(output.stdout, b"-\xfftext:1\n-\xfftext:1\n");
    let output = run(GREP, tree.path(), [odd(b"two"), odd(b"--piece"), odd(b"\xff")]);
    assert_eq!(errors(&output), "grep: --piece \u{fffd}: not a size in bytes, such as 65536 or 64K\n");
    let output = run(COPY, tree.path(), [odd(b"--blocks"), odd(b"\xff"), odd(b"a"), odd(b"b")]);
    assert_eq!(errors(&output), "copy: --blocks \u{fffd}: not a whole number, such as 4\n");

    tree.file("text", "foo [a]\n");
    for (arguments, expected) in [
        (&["-H", "-h", "foo", "text"][..], "foo [a]\n"),
        (&["-h", "-H", "foo", "text"], "text:foo [a]\n"),
        (&["-F", "--class", "[x-z]", "text"], ""),
        (&["--class", "-F", "[a]", "text"], "foo [a]\n"),
        (&["-nn", "--blocks", "3", "--blocks=1", "foo", "text"], "1:foo [a]\n"),
        (&["foo", "--mode", "enter", "text", "--mode", "threads", "-c"], "1\n"),
        (&["--files-from", "/dev/null", "--files-from", "names", "foo"], "foo [a]\n"),
    ] {
        tree.file("names", "text\n");
        let output = run(GREP, tree.path(), arguments);
        assert_eq!(
            (errors(&output).as_str(), output.stdout),
            ("", expected.as_bytes().to_vec()),
            "{arguments:?}"
        );
    }
    printed(&tree, GRAPH, &["--device", "cpu", "make", "--scale", "30", "--scale", "4", "g"]);
    for (given, ways) in [(["--plain", "--both"], 2), (["--both", "--plain"], 1)] {
        let said = printed(&tree, GRAPH, &[given[0], "bfs", "g", given[1], "--rounds", "1"]);
        let cached = usize::from(said.lines().any(|line| line.starts_with("cached  ")));
        let plain = usize::from(said.lines().any(|line| line.starts_with("plain  ")));
        assert_eq!((cached + plain, plain), (ways, 1), "{said}");
    }
}

/// The one line of an output's standard error, as JSON.
fn statistics(output: &std::process::Output) -> Value {
    let said = errors(output);
    assert_eq!(said.lines().count(), 1, "{said}");
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn statistics_are_for_programs() {
    let tree = Tree::new("programs-json");
    tree.file("source", vec![7; 1_000_003]);
    for mode in ["threads", "enter"] {
        let output = run(
            COPY,
            tree.path(),
            ["--device", "cpu", "--mode", mode, "--blocks", "2", "--statistics=json", "source", "target"],
        );
        if mode != "threads" && errors(&output).contains("no ring could be opened") {
            println!("SKIP copy --mode {mode}: {}", errors(&output).trim());
            continue;
        }
        let said = statistics(&output);
        assert_eq!(said["total"]["bytes_read"], 1_000_003, "{said}");
        assert_eq!(said["total"]["bytes_written"], 1_000_003, "{said}");
        assert_eq!(said["total"]["operations"], said["total"]["completions"], "{said}");
        assert_eq!((&said["mode"], &said["blocks"], &said["lanes"]), (&mode.into(), &2.into(), &8.into()));
        assert_eq!((&said["is_gpu"], &said["not_on_a_gpu"]), (&false.into(), &Value::Null));
        assert!(said["seconds"].as_f64().unwrap() > 0.0 && said["device"].is_string(), "{said}");
        assert_eq!(said["failures"], Value::Array(Vec::new()));
    }
    // A call that fails is counted, and grep says the same to people.
    let output = run(GREP, tree.path(), ["--statistics=json", "x", "missing", "source"]);
    let lines = errors(&output);
    assert!(lines.starts_with("grep: missing: No such file or directory\n"), "{lines}");
    let said: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let failed = &said["failures"][0];
    assert_eq!((&failed["error"], &failed["count"]), (&"ENOENT".into(), &1.into()), "{said}");

    printed(&tree, GRAPH, &["make", "--scale", "8", "g"]);
    let output = run(GRAPH, tree.path(), ["bfs", "--page", "4K", "--rounds", "1", "--statistics=json", "g"]);
    let said = statistics(&output);
    // Pages for the offsets and for 4096 neighbours of 4 bytes each. The last one of the file is shorter.
    let pages = said["cache"]["misses"].as_u64().unwrap();
    assert!(pages >= 3 && said["total"]["bytes_read"].as_u64() > Some((pages - 1) * 4096), "{said}");
}

#[test]
fn statistics_are_for_people() {
    let tree = Tree::new("programs-text");
    tree.file("source", vec![7; 1_000_003]);
    for option in ["--statistics", "--statistics=text"] {
        let output = run(COPY, tree.path(), ["--device", "cpu", option, "source", "target"]);
        let said = errors(&output);
        assert!(said.starts_with("ran on CPU lanes, 8 a warp, on "), "{said}");
        assert!(said.contains("\n       1,000,003 bytes read (976.57 KiB)\n"), "{said}");
        assert!(!said.contains('{') && !said.contains(" 0 "), "{said}");
    }
    let output = run(GREP, tree.path(), ["--statistics", "x", "missing", "source"]);
    assert!(
        errors(&output).ends_with(" 1 calls of open failed: No such file or directory (ENOENT)\n"),
        "{}",
        errors(&output)
    );
    let output = run(COPY, tree.path(), ["--statistics=yaml", "source", "target"]);
    assert_eq!(errors(&output), "copy: --statistics yaml: unknown format; use text or json\n");
}

/// A standard error that is no terminal has no progress. `terminal.rs` has those that are.
#[test]
fn no_progress_where_nobody_sees_it() {
    needs("cp");
    let tree = Tree::new("programs-silent");
    tree.file("source", vec![7; 16 << 20]);
    let slow = ["--piece", "1K", "--blocks", "1", "--lanes", "1"];
    for options in [&["--check"][..], &["--check", "--beside-cp", "--rounds", "1"]] {
        let said = printed(&tree, COPY, &[&slow[..], options, &["source", "target"]].concat());
        assert!(said.starts_with("copied 16777216 bytes in "), "{said}");
    }
    needs("grep");
    needs("timeout");
    let small = ["--device", "cpu", "--made", "20", "--copy-size", "1M", "--rounds", "1"];
    let said = printed(&tree, env!("CARGO_BIN_EXE_demo"), &small);
    assert!(said.starts_with("greet: ok\ngrep: ok\n"), "{said}");
}
