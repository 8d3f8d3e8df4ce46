//! `copy`: targets are what `cmp` calls identical, for sizes around everything that has a size.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use common::{Random, Tree, errors, needs, run};

const COPY: &str = env!("CARGO_BIN_EXE_copy");

#[test]
fn copies_any_size() {
    needs("cmp");
    let tree = Tree::new("copy");
    let mut random = Random::new(7);
    for (bytes, piece) in [
        (0, "4K"),
        (1, "4K"),
        (4095, "4096"),
        (4096, "4K"),
        (4097, "4K"),
        (1_000_003, "4K"),
        (1_000_003, "1000"),
        (32 * 4096, "4K"),
        (32 * 4096 + 1, "4K"),
        (5_000_011, "256K"),
    ] {
        let content: Vec<u8> = (0..bytes).map(|_| random.below(256) as u8).collect();
        tree.file("source", content);
        // A longer target is replaced.
        tree.file("target", vec![1; 20_000]);
        let output = run(COPY, tree.path(), ["--check", "--piece", piece, "source", "target"]);
        assert!(output.status.success(), "{bytes} bytes: {}", errors(&output));
        let compared = run("cmp", tree.path(), ["source", "target"]);
        assert!(compared.status.success(), "{bytes} bytes: {}", String::from_utf8_lossy(&compared.stdout));
    }
}

#[test]
fn copies_into_a_directory_and_keeps_the_mode() {
    let tree = Tree::new("copy-mode");
    let source = tree.file("script", "#!/bin/sh\n");
    fs::set_permissions(&source, fs::Permissions::from_mode(0o750)).unwrap();
    fs::create_dir(tree.path().join("there")).unwrap();
    let output = run(COPY, tree.path(), ["script", "there"]);
    assert!(output.status.success(), "{}", errors(&output));
    let target = tree.path().join("there/script");
    assert_eq!(fs::read(&target).unwrap(), b"#!/bin/sh\n");
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o750);
}

#[test]
fn says_what_is_wrong() {
    let tree = Tree::new("copy-wrong");
    tree.file("source", "text");
    symlink("source", tree.path().join("link")).unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&["missing", "target"], "copy: missing: No such file or directory\n"),
        (&["source", "no/such/target"], "copy: no/such/target: No such file or directory\n"),
        (&["source", "link"], "copy: link: is the same file as the source\n"),
        (&[".", "target"], "copy: .: not a regular file, and copy copies no other\n"),
        (&["source"], "copy: a SOURCE and a TARGET are needed; see copy --help\n"),
        (&["--piece", "0", "source", "target"], "copy: --piece 0: a piece has at least 1 byte\n"),
        (
            &["--piece", "4X", "source", "target"],
            "copy: --piece 4X: not a size in bytes, such as 65536 or 64K\n",
        ),
    ];
    for (arguments, message) in cases {
        let output = run(COPY, tree.path(), arguments);
        assert_eq!(errors(&output), message);
        assert_eq!(output.status.code(), Some(1));
    }
    assert_eq!(fs::read(tree.path().join("source")).unwrap(), b"text");
}

#[test]
fn a_full_device_is_an_error() {
    let tree = Tree::new("copy-full");
    tree.file("source", "text");
    let output = run(COPY, tree.path(), ["source", "/dev/full"]);
    assert_eq!(output.status.code(), Some(1));
    // It has no length to settle before.
    assert_eq!(errors(&output), "copy: /dev/full: Invalid argument\n");
}

#[test]
fn says_that_it_runs_without_a_gpu() {
    let tree = Tree::new("copy-cpu");
    tree.file("source", "text");
    for (device, quiet, lines) in [("auto", "", 1), ("auto", "1", 0), ("cpu", "", 0)] {
        let mut command = std::process::Command::new(COPY);
        // No device program there.
        command.current_dir(tree.path()).env("GPUFS_PROGRAMS", tree.path()).env("GPUFS_QUIET", quiet);
        let output = command.args(["--device", device, "source", "target"]).output().unwrap();
        let told =
            errors(&output).lines().filter(|line| line.contains("on CPU lanes, not on a GPU:")).count();
        assert_eq!((output.status.success(), told), (true, lines), "{device} {quiet}: {}", errors(&output));
    }
}
