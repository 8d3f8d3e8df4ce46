//! `greet`: everything printed is whole, complete and in order, in the file and on the standard output.

mod common;

use std::fs;

use common::{Tree, errors, run};
use gpufs_apps::records::Checker;

const GREET: &str = env!("CARGO_BIN_EXE_greet");

#[test]
fn prints_every_record_whole_to_both() {
    let tree = Tree::new("greet");
    for mode in ["sqpoll", "enter", "threads"] {
        let arguments = ["--mode", mode, "--blocks", "5", "--lanes", "100", "--lines", "7", "--check", "out"];
        let output = run(GREET, tree.path(), arguments);
        if mode != "threads" && errors(&output).contains("no ring could be opened") {
            println!("SKIP greet --mode {mode}: {}", errors(&output).trim());
            continue;
        }
        assert!(output.status.success(), "{}", errors(&output));
        assert_eq!(Checker::new(500, 7).text(&output.stdout), Ok(3500));
        assert_eq!(Checker::new(500, 7).text(&fs::read(tree.path().join("out")).unwrap()), Ok(3500));
    }
}

#[test]
fn says_what_is_wrong() {
    let tree = Tree::new("greet-wrong");
    let cases: [(&[&str], &str); 15] = [
        (&["no/such/out"], "greet: no/such/out: No such file or directory\n"),
        (&[], "greet: no FILE to print to was named; see greet --help\n"),
        (&["--bogus", "out"], "greet: --bogus: unknown option; see greet --help\n"),
        (
            &["--device", "cuda", "--program", "missing.ptx", "out"],
            "greet: missing.ptx: No such file or directory; 'cargo xtask bundle' builds the device program\n",
        ),
        (
            &["--device", "cuda", "--lanes", "1024", "out"],
            "greet: --lanes 1024: a block has at most 256 lanes on a GPU\n",
        ),
        (
            &["--device", "hip", "out"],
            "greet: --device hip: this build has no HIP support; build it with --features hip, or use cpu, cuda or auto\n",
        ),
        (
            &["--device", "magic", "out"],
            "greet: --device magic: unknown device; use cpu, cuda, hip or auto\n",
        ),
        (&["--mode", "magic", "out"], "greet: --mode magic: unknown mode; use sqpoll, enter or threads\n"),
        (&["--blocks", "many", "out"], "greet: --blocks many: not a whole number, such as 4\n"),
        (&["--blocks", "4294967296", "out"], "greet: --blocks 4294967296: the number is too large\n"),
        (&["--blocks", "0", "out"], "greet: --blocks 0: a grid has at least 1 block\n"),
        (&["--lanes", "0", "out"], "greet: --lanes 0: a block has at least 1 lane\n"),
        (&["out", "--rings"], "greet: missing argument for option '--rings'; see greet --help\n"),
        (&["-x", "out"], "greet: -x: unknown option; see greet --help\n"),
        (&["out", "other"], "greet: other: one operand too many; see greet --help\n"),
    ];
    for (arguments, message) in cases {
        let output = run(GREET, tree.path(), arguments);
        assert_eq!(errors(&output), message);
        assert_eq!(output.status.code(), Some(1));
    }
    let help = run(GREET, tree.path(), ["--help"]);
    assert!(help.status.success() && help.stdout.starts_with(b"Usage: greet"));
    assert_eq!(run(GREET, tree.path(), ["-h"]).stdout, help.stdout);
    for version in ["--version", "-V"] {
        let version = run(GREET, tree.path(), [version]);
        assert!(version.status.success());
        assert_eq!(version.stdout, concat!("greet (gpufs) ", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
    }
}
