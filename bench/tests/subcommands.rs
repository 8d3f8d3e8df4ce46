//! Each subcommand on CPU lanes, as small as it gets, and what it leaves as JSON and as plots.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// Runs a subcommand with two tiny samples of each figure; its JSON.
fn run(subcommand: &str, more: &[&str]) -> Value {
    let directory =
        std::env::temp_dir().join(format!("gpufs-bench-test-{}-{subcommand}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    let json = directory.join("figures.json");
    let output = Command::new(env!("CARGO_BIN_EXE_gpufs-bench"))
        .args(["--device", "cpu", "--quick", "--samples", "2", "--sample-ms", "2", "--file-bytes", "1M"])
        .args(["--memory", "1M", "--rings", "1", "--warps", "4", "--deadline", "60"])
        .args(more)
        .arg("--dir")
        .arg(&directory)
        .arg("--json")
        .arg(&json)
        .arg("--svg")
        .arg(directory.join("plots"))
        .arg(subcommand)
        .output()
        .expect("the benchmark");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    let text = fs::read_to_string(&json).expect("the JSON");
    let plots = fs::read_dir(directory.join("plots")).expect("the plots");
    for plot in plots.map(|entry| entry.expect("a plot").path()) {
        let text = fs::read_to_string(&plot).expect("a plot");
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n") && !text.contains("NaN"), "{text}");
    }
    if subcommand == "plots" {
        for name in ["read", "write-nowhere", "write-tmpfs", "print", "latency"] {
            assert!(directory.join("plots").join(name).with_extension("svg").is_file(), "no plot {name}");
        }
    }
    let left: Vec<PathBuf> = fs::read_dir(&directory)
        .expect("the directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(left.len(), 2, "no file is left behind: {left:?}");
    fs::remove_dir_all(&directory).expect("the end of the directory");
    println!("{out}");
    serde_json::from_str(&text).expect("JSON")
}

/// Checks every figure, and that there are some of these roles.
fn check(report: &Value, subcommand: &str, roles: &[&str]) {
    let figures = report["figures"].as_array().expect("figures");
    for figure in figures {
        assert_eq!(figure["benchmark"], subcommand);
        let number = |name: &str| figure[name].as_f64().unwrap_or_else(|| panic!("{name} of {figure}"));
        let (lowest, median, highest) = (number("lowest"), number("median"), number("highest"));
        assert!(lowest <= median && median <= highest, "{figure}");
        assert!(median > 0.0 || figure["role"] == "fact", "{figure}");
        let rival = figure["role"] == "rival";
        assert_eq!(rival, figure["gpufs_divided_by_this"].is_number(), "{figure}");
    }
    for role in roles {
        assert!(figures.iter().any(|figure| figure["role"] == *role), "no figure is a {role}'s");
    }
    for skip in report["skips"].as_array().expect("skips") {
        assert!(!skip["reason"].as_str().expect("a reason").starts_with("failed"), "{skip}");
    }
}

#[test]
fn latency() {
    let report = run("latency", &["--sizes", "4K,64K"]);
    check(&report, "latency", &["gpufs", "rival"]);
    assert!(report["skips"].to_string().contains("needs a GPU"));
}

#[test]
fn iops() {
    check(&run("iops", &[]), "iops", &["gpufs", "rival"]);
}

#[test]
fn asynchronous() {
    check(&run("async", &[]), "async", &["gpufs", "rival", "fact"]);
    // Lanes that would have no memory of their own are left out.
    let report = run("async", &["--warps", "9"]);
    assert!(report["skips"].to_string().contains("see --memory"), "{}", report["skips"]);
}

#[test]
fn overlap() {
    let report = run("overlap", &["--warps", "1", "--sizes", "4K,16K"]);
    check(&report, "overlap", &["gpufs", "rival", "fact"]);
    let cases = report["figures"].to_string();
    assert!(cases.contains("a read of 4 KiB") && cases.contains("a read of 16 KiB"), "{cases}");
}

#[test]
fn wake() {
    check(&run("wake", &[]), "wake", &["gpufs", "rival"]);
}

#[test]
fn print() {
    check(&run("print", &[]), "print", &["gpufs", "rival"]);
}

#[test]
fn write() {
    check(&run("write", &["--sizes", "64,16K"]), "write", &["gpufs", "rival"]);
}

#[test]
fn read() {
    check(&run("read", &["--sizes", "4K,64K"]), "read", &["gpufs", "rival"]);
}

#[test]
fn fgets() {
    check(&run("fgets", &[]), "fgets", &["gpufs", "rival"]);
}

#[test]
fn paths() {
    let report = run("paths", &["--files", "250"]);
    check(&report, "paths", &["gpufs", "rival"]);
    let figures = report["figures"].to_string();
    for call in ["stat", "open and close", "readdir"] {
        assert!(figures.contains(&format!("{call}, 300 files")), "no figure of {call}");
    }
}

#[test]
fn cache() {
    let report = run("cache", &["--cache-bytes", "1M"]);
    check(&report, "cache", &["gpufs", "rival"]);
    let lines = report["targets"].as_array().expect("the table");
    // Each with pages of 4 and of 64 KiB.
    for (row, count) in [(1, 2), (2, 2), (3, 4), (4, 2), (5, 1), (6, 1), (7, 1)] {
        let found = lines.iter().filter(|line| line["row"] == row && line["met"].is_null()).count();
        assert!(
            found == count || row == 7 && report["skips"].to_string().contains("row 7"),
            "row {row}: {found}"
        );
    }
    assert!(report["skips"].to_string().contains("row 10"));
}

#[test]
fn cpu_cost() {
    let report = run("cpu-cost", &[]);
    check(&report, "cpu-cost", &["fact"]);
    let figures = report["figures"].to_string();
    for kind in ["the session's ring service", "the thread that starts kernels", "all"] {
        assert!(figures.contains(&format!("busy with NOPs: {kind}")), "no figure of {kind}");
    }
}

#[test]
fn targets() {
    let report = run("targets", &["--only", "1,5,6,7,9,12"]);
    check(&report, "targets", &["gpufs", "rival", "fact"]);
    let lines = report["targets"].as_array().expect("the table");
    for row in [1, 5, 6, 9, 12] {
        assert!(lines.iter().any(|line| line["row"] == row && line["met"].is_boolean()), "no row {row}");
    }
    // Memory is no matter of time.
    for memory in lines.iter().filter(|line| line["row"] == 12) {
        assert_eq!(memory["met"], true, "{memory}");
    }
    // A stream's rival, where the machine has SQPOLL: asked for by no target.
    if !report["skips"].to_string().contains("io_uring refuses") {
        for row in [1, 5] {
            let rival =
                |line: &Value| line["rival_measured"].to_string().contains("io_uring, SQPOLL: 32 writes");
            assert!(lines.iter().any(|line| line["row"] == row && line["met"].is_null() && rival(line)));
        }
    }
    assert!(report["skips"].to_string().contains("row 7"));
}

#[test]
fn plots() {
    let report = run("plots", &["--sizes", "4K,64K"]);
    check(&report, "plots", &["gpufs", "rival"]);
    assert!(report["skips"].to_string().contains("cuFile"));
}
