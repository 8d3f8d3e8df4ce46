//! What the programs' tests share: generated trees, and the system's own tools to compare with.
#![allow(dead_code, reason = "each test uses a part")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory for one test, removed when it is dropped.
pub(crate) struct Tree(PathBuf);

impl Tree {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gpufs-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A tool that a test compares with, or its program calls. A test without it would pass without having run: it fails instead.
pub(crate) fn needs(tool: &str) {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    assert!(
        found,
        "GNU {tool} is not installed, and this test needs it (Debian: grep, diffutils for cmp, coreutils for timeout)"
    );
}

/// Runs a program in a directory, in the C locale. It does not print that it runs on CPU lanes.
pub(crate) fn run<A: AsRef<OsStr>>(
    program: &str,
    directory: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> Output {
    let mut command = Command::new(program);
    command.current_dir(directory).env("LC_ALL", "C").env("GPUFS_QUIET", "1").args(arguments);
    command.output().unwrap()
}

/// What a program that must end well prints.
pub(crate) fn said(program: &str, tree: &Tree, arguments: &[&str]) -> String {
    let output = run(program, tree.path(), arguments);
    assert!(output.status.success(), "{arguments:?}: {}", errors(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The numbers of each line of a table that begins with `way`.
pub(crate) fn table(said: &str, way: &str) -> Vec<Vec<f64>> {
    let rows = said.lines().filter_map(|line| line.strip_prefix(way)).filter(|row| row.starts_with("  "));
    rows.map(|row| row.split_whitespace().map(|number| number.parse().unwrap()).collect()).collect()
}

/// Runs each command of docs/apps.md that is the program's, `name`: how many. What stands behind two spaces explains it; of `make` it is printed.
pub(crate) fn samples(program: &str, name: &str) -> usize {
    let tree = Tree::new(&format!("{name}-page"));
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/apps.md")).unwrap();
    let lines =
        page.lines().filter_map(|line| line.strip_prefix("    ")?.strip_prefix(name)?.strip_prefix(' '));
    let run = |line: &str| {
        let (command, explained) = line.split_once("  ").unwrap();
        let said = said(program, &tree, &command.split_whitespace().collect::<Vec<_>>());
        assert!(!command.starts_with("make") || said.contains(explained.trim()), "{line}: {said}");
    };
    lines.map(run).count()
}

/// An output's standard error.
pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Numbers from a seed (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
    /// Text of about `bytes` bytes over few letters, so that short strings occur often; lines of up to `longest` bytes.
    pub(crate) fn text(&mut self, bytes: usize, longest: u64, letters: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(bytes + 1);
        while text.len() < bytes {
            for _ in 0..self.below(longest + 1) {
                text.push(letters[self.below(letters.len() as u64) as usize]);
            }
            text.push(b'\n');
        }
        if self.below(3) == 0 {
            text.pop();
        }
        text
    }
}
