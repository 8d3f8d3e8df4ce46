//! A package from the template, as a stranger makes one: it runs and passes its tests on CPU lanes, its kernels become a device program, and what is
//! wrong is said.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gpufs_build::{Gpu, Toolchain};

/// A folder of this test's own, which is removed first.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// `cargo gpufs` with these arguments, in a folder. What is built is kept for the next run of the tests.
fn gpufs(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cargo-gpufs"))
        .arg("gpufs")
        .args(arguments)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("built"))
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A new package, with the versions of crates that the workspace has.
fn package(test: &str) -> PathBuf {
    let parent = folder(test);
    let made = gpufs(&parent, &["new", "hello-files"]);
    assert!(made.status.success(), "{}", said(&made));
    let package = parent.join("hello-files");
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    fs::copy(lock, package.join("Cargo.lock")).unwrap();
    package
}

#[test]
fn a_new_package_runs_and_passes_its_tests() {
    let package = package("runs");
    let ran = gpufs(&package, &["run", "--gpu", "none"]);
    assert!(ran.status.success(), "{}", said(&ran));
    assert!(said(&ran).contains("log.txt: 33792 lines"), "{}", said(&ran));
    assert!(said(&ran).contains("CPU lanes: it was built without a program"), "{}", said(&ran));
    assert_eq!(fs::read_to_string(package.join("log.txt")).unwrap().lines().count(), 33_792);
    let tested = gpufs(&package, &["test", "--gpu", "none"]);
    assert!(tested.status.success(), "{}", said(&tested));
    assert!(said(&tested).contains("every_thread_prints_its_line ... ok"), "{}", said(&tested));
}

#[test]
fn kernels_become_a_program_and_wrong_ones_do_not() {
    let toolchain = match Toolchain::find() {
        Ok(toolchain) => toolchain,
        Err(why) => return println!("SKIP kernels_become_a_program_and_wrong_ones_do_not: {why}"),
    };
    let package = package("program");
    let written = gpufs(&package, &["program"]);
    assert!(written.status.success(), "{}", said(&written));
    let ptx = fs::read_to_string(package.join("hello-files.ptx")).unwrap();
    assert_eq!(ptx.matches(".visible .entry gpufs_kernel_greet(").count(), 1);

    // Device code without the flags is refused, by name.
    let bare = Command::new(toolchain.cargo())
        .args([
            "check",
            "-q",
            "-p",
            "gpufs-device",
            "-Z",
            "build-std=core",
            "--target",
            Gpu::nvidia().triple(),
        ])
        .arg("--target-dir")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("built/bare"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", toolchain.rustc())
        .env("RUSTFLAGS", "-C target-cpu=sm_70 -C target-feature=+ptx70")
        .env_remove("RUSTUP_TOOLCHAIN")
        .current_dir(&package)
        .output()
        .unwrap();
    assert!(!bare.status.success());
    let words = "gpufs: code for a GPU needs the compiler's flags \"-Z mir-enable-passes=-JumpThreading";
    assert!(said(&bare).contains(words), "{}", said(&bare));

    // Kernels that a GPU cannot have end the build, and the compiler's words are there.
    let library = package.join("src/lib.rs");
    let kernels = fs::read_to_string(&library).unwrap();
    fs::write(&library, kernels + "\npub fn wrong() { std::process::abort() }\n").unwrap();
    let refused = gpufs(&package, &["build"]);
    assert!(!refused.status.success());
    let words = said(&refused);
    assert!(words.contains("the kernels of 'hello-files' do not compile for a GPU"), "{words}");
    assert!(words.contains("std::process::abort"), "{words}");
}

#[test]
fn what_is_wrong_is_said() {
    let parent = folder("wrong");
    let cases: &[(&[&str], &str)] = &[
        (&["new", "Hello"], "'Hello' is no name for a package"),
        (&["new", "hello", "--gpufs", "/"], "there is no gpufs-device/Cargo.toml"),
        (&["run"], "there is no Cargo.toml in this folder"),
        (&["run", "--gpu", "gfx942"], "'cargo gpufs program'"),
        (&["fly"], "unrecognized subcommand 'fly'"),
    ];
    for (arguments, words) in cases {
        let output = gpufs(&parent, arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(said(&output).contains(words), "{arguments:?}: {}", said(&output));
    }
    fs::create_dir(parent.join("there")).unwrap();
    assert!(said(&gpufs(&parent, &["new", "there"])).contains("it is there already"));
    let package = package("architectures");
    let wrong = gpufs(&package, &["program", "--gpu", "sm90"]);
    assert!(said(&wrong).contains("'sm90' is no GPU that gpufs builds for"), "{}", said(&wrong));
}
