//! What the benchmark says where nothing is measured, and what it leaves unsaid where no one looks.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpufs-bench")).args(arguments).output().expect("the benchmark")
}

/// What it prints with status 0, without a word on stderr.
fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{arguments:?}: {}: {said}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// Options, and the subcommands.
const OPTIONS: [&str; 27] = [
    "device",
    "program",
    "ordinal",
    "cufile",
    "dir",
    "sizes",
    "warps",
    "only",
    "rings",
    "ring-entries",
    "buffers",
    "stream-buffer",
    "stream-buffers",
    "survives",
    "sandbox",
    "file-bytes",
    "cache-bytes",
    "files",
    "memory",
    "quick",
    "samples",
    "sample-ms",
    "deadline",
    "json",
    "svg",
    "help",
    "version",
];
const SUBCOMMANDS: [&str; 16] = [
    "latency", "iops", "print", "write", "read", "fgets", "fscanf", "paths", "async", "overlap", "wake",
    "cache", "cpu-cost", "all", "targets", "plots",
];

#[test]
fn a_wrong_command_line_is_named() {
    for (arguments, wanted) in [
        (&["speed"][..], &["'speed'", "latency, iops", "--help"][..]),
        (&["iops", "--sped"], &["'--sped'", "--help"]),
        (&["--device", "cuda", "iops"], &["--program"]),
        (&["--sizes", "100", "read"], &["'100'", "--sizes", "powers of two"]),
        (&["--only", "14", "targets"], &["'14'", "--only", "1..=13"]),
        (&["--files", "0", "paths"], &["'0'", "--files", "1..="]),
        (&["plots"], &["--svg DIR"]),
        (&[], &["which subcommand?", "--help"]),
    ] {
        let output = run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}: {said}");
        for wanted in wanted {
            assert!(said.contains(wanted), "{arguments:?}: {said}");
        }
    }
}

#[test]
fn the_version_is_told() {
    for option in ["--version", "-V"] {
        assert_eq!(printed(&[option]), concat!("gpufs-bench (gpufs) ", env!("CARGO_PKG_VERSION"), "\n"));
    }
}

#[test]
fn the_help_names_options_and_subcommands_below_headings() {
    let help = printed(&["--help"]);
    assert_eq!(help, printed(&["-h"]));
    let at = |part: &str| help.find(part).unwrap_or_else(|| panic!("no '{part}' in {help}"));
    let headings =
        ["Usage: gpufs-bench [OPTION …] SUBCOMMAND", "\nSubcommands:", "\nWhere:", "\nWhat:", "\nHow:"]
            .map(at);
    assert!(headings.is_sorted(), "{help}");
    for name in OPTIONS {
        at(&format!("--{name} "));
    }
    for name in SUBCOMMANDS {
        let line = help
            .lines()
            .find(|line| line.strip_prefix("  ").is_some_and(|line| line.starts_with(&format!("{name} "))));
        let line = line.unwrap_or_else(|| panic!("no line of {name} in {help}"));
        assert!(line.len() > 20, "no words of {name}: {line}");
    }
    assert!(help.contains("Exit status:") && !help.contains("--generate"), "{help}");
}

#[test]
fn completions_and_the_manual_page_name_every_option_and_subcommand() {
    // A hyphen of the page has a backslash before it.
    let page = printed(&["--generate-man"]).replace('\\', "");
    let bash = printed(&["--generate-completions", "bash"]);
    assert!(page.contains(".TH gpufs-bench 1") && bash.contains("complete -F"));
    for name in OPTIONS {
        assert!(page.contains(&format!("--{name}")), "--{name}: {page}");
        assert!(bash.contains(&format!("--{name}")), "--{name}: {bash}");
    }
    for name in SUBCOMMANDS {
        assert!(page.contains(&format!("{name}: ")) && bash.contains(name), "{name}: {page}");
    }
    for shell in ["zsh", "fish"] {
        assert!(printed(&["--generate-completions", shell]).contains("sample-ms"), "{shell}");
    }
    let wrong = run(&["--generate-completions", "csh"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("'csh'"), "{wrong:?}");
}

#[test]
fn there_is_no_progress_where_stderr_is_no_terminal() {
    let output =
        run(&["--quick", "--samples", "1", "--sample-ms", "1", "--warps", "2", "--rings", "1", "iops"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // A debug build says that its figures mean nothing.
    assert_eq!(said.lines().count(), usize::from(cfg!(debug_assertions)), "{said}");
    assert!(!said.contains(['\r', '\x1b', '█', '░']), "{said}");
}
