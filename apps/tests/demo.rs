//! `demo`: all four programs are right, and it removes its files.

mod common;

use std::fs;

use common::{Tree, errors, needs, run};

const DEMO: &str = env!("CARGO_BIN_EXE_demo");

#[test]
fn all_programs_are_right() {
    needs("grep");
    needs("timeout");
    let tree = Tree::new("demo");
    let small = ["--device", "cpu", "--made", "300", "--copy-size", "3M", "--rounds", "1"];
    let output = run(DEMO, tree.path(), small);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", errors(&output));
    assert!(
        said.contains("300 generated ones") && said.ends_with("4 of 4 programs gave the right result\n"),
        "{said}"
    );
    assert_eq!(fs::read_dir(tree.path()).unwrap().count(), 0);
}

#[test]
fn all_programs_are_right_on_a_gpu() {
    const TEST: &str = "all_programs_are_right_on_a_gpu";
    needs("grep");
    needs("timeout");
    let tree = Tree::new("demo-gpu");
    let tried = run(env!("CARGO_BIN_EXE_greet"), tree.path(), ["--device", "cuda", "--lines", "1", "out"]);
    let lacking = ["libcuda.so was not found", "there is no GPU", "builds the device program"];
    if lacking.iter().any(|text| errors(&tried).contains(text)) {
        println!("SKIP {TEST}: {}", errors(&tried).trim());
        return;
    }
    let small = ["--device", "cuda", "--made", "3000", "--copy-size", "100M", "--rounds", "1"];
    let output = run(DEMO, tree.path(), small);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", errors(&output));
}

#[test]
fn says_which_program_is_wrong() {
    needs("grep");
    needs("timeout");
    let tree = Tree::new("demo-wrong");
    // No program takes it.
    let wrong = ["--mode", "magic", "--made", "3", "--copy-size", "1K", "--rounds", "1"];
    let output = run(DEMO, tree.path(), wrong);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("--mode magic: unknown mode; use sqpoll, enter or threads"), "{said}");
    assert!(said.ends_with("0 of 4 programs gave the right result\n"), "{said}");
}
