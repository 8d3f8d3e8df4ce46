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
    let cases: [(&[&str], &str); 9] = [
        (&["no/such/out"], "greet: no/such/out: No such file or directory\n"),
        (&[], "greet: no FILE to print to was named; see greet --help\n"),
        (&["--bogus", "out"], "greet: --bogus: no such option; see greet --help\n"),
        (
            &["--device", "cuda", "--program", "missing.ptx", "out"],
            "greet: missing.ptx: No such file or directory; 'cargo xtask bundle' builds the device program\n",
        ),
        (
            &["--device", "cuda", "--lanes", "1024", "out"],
            "greet: --lanes 1024: on a GPU at most 256 in a block\n",
        ),
        (
            &["--device", "hip", "out"],
            "greet: --device hip: this build has no HIP support; build it with --features hip, or use cpu, cuda or auto\n",
        ),
        (&["--device", "magic", "out"], "greet: --device magic: use cpu, cuda, hip or auto\n"),
        (&["--mode", "magic", "out"], "greet: --mode magic: use sqpoll, enter or threads\n"),
        (&["--blocks", "many", "out"], "greet: --blocks many: a whole number is wanted\n"),
    ];
    for (arguments, message) in cases {
        let output = run(GREET, tree.path(), arguments);
        assert_eq!(errors(&output), message);
        assert_eq!(output.status.code(), Some(1));
    }
    let help = run(GREET, tree.path(), ["--help"]);
    assert!(help.status.success() && help.stdout.starts_with(b"Usage: greet"));
}
