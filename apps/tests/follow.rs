//! `follow`: lines are seen while the kernel runs, and all of them in the end.

mod common;

use std::fs;

use common::{Tree, errors, run};
use gpufs_apps::records::Checker;

const FOLLOW: &str = env!("CARGO_BIN_EXE_follow");

#[test]
fn lines_arrive_while_the_kernel_runs() {
    let tree = Tree::new("follow");
    for flush_every in ["0", "7"] {
        let arguments = [
            "--blocks",
            "3",
            "--lanes",
            "40",
            "--lines",
            "30",
            "--pause",
            "3000",
            "--flush-every",
            flush_every,
            "log",
        ];
        let output = run(FOLLOW, tree.path(), arguments);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", errors(&output));
        assert!(
            said.contains("3600 lines, each whole") && said.contains("the first was seen after"),
            "{said}"
        );
        assert_eq!(Checker::new(120, 30).text(&fs::read(tree.path().join("log")).unwrap()), Ok(3600));
    }
}

#[test]
fn says_what_is_wrong() {
    let tree = Tree::new("follow-wrong");
    let output = run(FOLLOW, tree.path(), ["no/such/log"]);
    assert_eq!(errors(&output), "follow: no/such/log: No such file or directory\n");
    assert_eq!(output.status.code(), Some(1));
}
