//! Sources that know nothing of gpufs, compiled under `gpufs/drop_in.h`: on CPU lanes in C and C++, and whether they compile for GPUs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use gpufs_tests::{Scratch, skip};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folder that holds `libgpufs`, built now in this test's own profile.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let test = std::env::current_exe().expect("this test has a path");
    // …/target/debug/deps/drop_in-…
    let folder = test.ancestors().nth(2).expect("in cargo's folder").to_path_buf();
    let target = folder.parent().expect("in cargo's folder");
    let profile = if folder.ends_with("release") { "release" } else { "dev" };
    let built = Command::new(env!("CARGO"))
        .args(["build", "-p", "gpufs-c", "--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(root())
        .status();
    assert!(built.expect("cargo runs").success(), "libgpufs builds");
    folder
});

fn compilers(names: &[&'static str]) -> Vec<&'static str> {
    let there = |name: &&&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    names.iter().filter(there).copied().collect()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a compiler in a folder, with the headers of gpufs to be found.
fn compile(name: &str, folder: &Scratch, options: &[&str]) {
    let include = root().join("include");
    let output = Command::new(name)
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"])
        .args(options)
        .arg("-I")
        .arg(include)
        .current_dir(folder.dir())
        .output()
        .expect("the compiler runs");
    assert!(output.status.success(), "{name} {options:?}:\n{}", said(&output));
}

/// How a source finds the headers: by the folder with the C library's names, or by one header before its first line.
fn ways() -> [Vec<String>; 2] {
    let include = root().join("include/gpufs");
    [
        vec!["-I".to_owned(), include.join("drop_in").display().to_string()],
        vec!["-include".to_owned(), include.join("drop_in.h").display().to_string()],
    ]
}

/// Links objects with the library and runs the program in the folder. What it said.
fn run(folder: &Scratch, name: &str, objects: &[&str]) -> String {
    let linked = Command::new(name)
        .args(objects)
        .arg("-L")
        .arg(&*LIBRARY)
        .args(["-lgpufs", "-lpthread", "-o", "program"])
        .arg(format!("-Wl,-rpath,{}", LIBRARY.display()))
        .current_dir(folder.dir())
        .output()
        .expect("the compiler runs");
    assert!(linked.status.success(), "{}", said(&linked));
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60", "./program"])
        .current_dir(folder.dir())
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", said(&output));
    said(&output)
}

/// Streams, `errno` and the session in use, from a plain source of C.
#[test]
fn a_plain_source_on_cpu_lanes() {
    let compilers = compilers(&["gcc", "clang", "clang-22"]);
    if compilers.is_empty() {
        skip("a_plain_source_on_cpu_lanes", "no C compiler");
    }
    let source = root().join("tests/c/drop_in/plain.c").display().to_string();
    let main = root().join("tests/c/drop_in/main.c").display().to_string();
    for name in compilers {
        for standard in ["-std=c99", "-std=gnu17"] {
            for way in ways() {
                let folder = Scratch::new("drop_in");
                let mut options = vec![standard, "-c", &source, "-o", "plain.o"];
                options.extend(way.iter().map(String::as_str));
                compile(name, &folder, &options);
                compile(name, &folder, &["-std=c11", "-c", &main, "-o", "main.o"]);
                let said = run(&folder, name, &["plain.o", "main.o"]);
                assert_eq!(said.matches("plain\n").count(), 9, "{said}");
                // Once, though two calls found none.
                assert_eq!(said.matches("no session in use").count(), 1, "{said}");
            }
        }
    }
}
