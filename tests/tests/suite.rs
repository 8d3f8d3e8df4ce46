//! Every case of the suite on CPU lanes, each a test of its own. Those that need a process of their own get one of the program `suite`.

use std::process::Command;

use gpufs_tests::skip;
use gpufs_tests::suite::{Bench, CASES, Outcome};

const PROGRAM: &str = env!("CARGO_BIN_EXE_suite");

fn run(name: &str) {
    let case = CASES.iter().find(|case| case.name == name).expect("a case of the table");
    if case.is_alone() {
        let output = Command::new(PROGRAM).args(["--run", name]).output().expect("the program");
        let said = String::from_utf8_lossy(&output.stdout);
        said.lines().for_each(|line| println!("{}", line.trim_start_matches("@suite ")));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    if let Outcome::Skipped(reason) = case.try_on(&Bench::cpu(PROGRAM)) {
        skip(name, reason);
    }
}

macro_rules! tests {
    ($($group:ident { $($name:ident $needs:ident,)* })*) => {
        $(mod $group {
            $(#[test]
            fn $name() {
                super::run(concat!(stringify!($group), "::", stringify!($name)));
            })*
        })*
    };
}
gpufs_tests::suite_cases!(tests);
