//! What tests of C programs share: the compilers of the machine, and the library that this project builds for them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The project's root.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folder that holds `libgpufs`, built now in this test's own profile.
pub static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| build(&["gpufs-c"]));

/// Builds packages of the project in this test's own profile: the folder that holds them.
///
/// # Panics
/// If they do not build.
#[must_use]
pub fn build(packages: &[&str]) -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    // …/target/debug/deps/c_api-…
    let folder = test.ancestors().nth(2).expect("in cargo's folder").to_path_buf();
    let target = folder.parent().expect("in cargo's folder");
    let profile = if folder.ends_with("release") { "release" } else { "dev" };
    let built = Command::new(env!("CARGO"))
        .arg("build")
        .args(packages.iter().flat_map(|package| ["-p", package]))
        .args(["--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(root())
        .status();
    assert!(built.expect("cargo runs").success(), "{packages:?} build");
    if packages.contains(&"gpufs-c") {
        link_by_soname(&folder);
    }
    folder
}

/// The name that a program asks for that was linked with `libgpufs.so`.
pub const SONAME: &str = concat!("libgpufs.so.", env!("CARGO_PKG_VERSION_MAJOR"));

/// Makes `libgpufs.so` of a folder have that name, too.
///
/// # Panics
/// If the system refuses.
pub fn link_by_soname(folder: &Path) {
    match std::os::unix::fs::symlink("libgpufs.so", folder.join(SONAME)) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => panic!("{SONAME}: {error}"),
        _ => {}
    }
}

/// Those of some tools that are installed.
#[must_use]
pub fn installed(names: &[&'static str]) -> Vec<&'static str> {
    let there = |name: &&&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    names.iter().filter(there).copied().collect()
}

/// The system's C compilers, and clang where it is installed.
#[must_use]
pub fn c_compilers() -> Vec<&'static str> {
    installed(&["gcc", "clang", "clang-22"])
}

/// The system's C++ compilers, and clang where it is installed.
#[must_use]
pub fn cpp_compilers() -> Vec<&'static str> {
    installed(&["g++", "clang++", "clang++-22"])
}

/// What a program said on both streams.
#[must_use]
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
